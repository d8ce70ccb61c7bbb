/* The functions that expressions of the op table may call, for each body type: td_NAME_f32, _f64, _i64, _i32, _u8,
 * _c64, _c128.
 *
 * float functions vectorise (math_f32.h), and those of double where arithmetic is fused (math_f64.h); the others, and
 * those of complex, are the C library's. Integers wrap around; a
 * division by zero sets `err` of the loop that it stands in and gives 0, and the smallest integer over -1 wraps. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_H

#include "daemon/kernels/cpu/vec/math_f32.h"
#include "daemon/kernels/cpu/vec/math_f64_more.h"
#include "daemon/kernels/cpu/vec/special.h"
#ifndef TD_REAL_ONLY /* a compiler that knows no _Complex */
#include <complex.h>

typedef float _Complex td_c64;
typedef double _Complex td_c128;
#endif

/* ---- real */

#define TD_REAL_COMMON(T, S, F)                                                                                        \
    TD_FN T td_abs_##S(T x)                                                                                            \
    {                                                                                                                  \
        return fabs##F(x);                                                                                             \
    }                                                                                                                  \
    TD_FN T td_sqrt_##S(T x)                                                                                           \
    {                                                                                                                  \
        return sqrt##F(x);                                                                                             \
    }                                                                                                                  \
    TD_FN T td_floor_##S(T x)                                                                                          \
    {                                                                                                                  \
        return floor##F(x);                                                                                            \
    }                                                                                                                  \
    TD_FN T td_ceil_##S(T x)                                                                                           \
    {                                                                                                                  \
        return ceil##F(x);                                                                                             \
    }                                                                                                                  \
    TD_FN T td_trunc_##S(T x)                                                                                          \
    {                                                                                                                  \
        return trunc##F(x);                                                                                            \
    }                                                                                                                  \
    TD_FN T td_round_##S(T x) /* half to even, the processor's own mode */                                             \
    {                                                                                                                  \
        return rint##F(x);                                                                                             \
    }                                                                                                                  \
    TD_FN int td_isnan_##S(T x)                                                                                        \
    {                                                                                                                  \
        return x != x;                                                                                                 \
    }                                                                                                                  \
    TD_FN int td_isinf_##S(T x)                                                                                        \
    {                                                                                                                  \
        return fabs##F(x) == (T)INFINITY;                                                                              \
    }                                                                                                                  \
    TD_FN int td_isfinite_##S(T x)                                                                                     \
    {                                                                                                                  \
        return fabs##F(x) < (T)INFINITY;                                                                               \
    }                                                                                                                  \
    TD_FN int td_signbit_##S(T x)                                                                                      \
    {                                                                                                                  \
        return __builtin_signbit(x) != 0;                                                                              \
    }                                                                                                                  \
    TD_FN T td_copysign_##S(T x, T y)                                                                                  \
    {                                                                                                                  \
        return copysign##F(x, y);                                                                                      \
    }                                                                                                                  \
    TD_FN T td_conj_##S(T x)                                                                                           \
    {                                                                                                                  \
        return x;                                                                                                      \
    }                                                                                                                  \
    TD_FN T td_div_##S(T x, T y)                                                                                       \
    {                                                                                                                  \
        return x / y;                                                                                                  \
    }                                                                                                                  \
    TD_FN T td_scale_##S(T alpha, T y)                                                                                 \
    {                                                                                                                  \
        return alpha * y;                                                                                              \
    }                                                                                                                  \
    TD_FN T td_maximum_##S(T x, T y) /* NaN wins */                                                                    \
    {                                                                                                                  \
        T m = x > y ? x : y;                                                                                           \
        return x != x ? x : m;                                                                                         \
    }                                                                                                                  \
    TD_FN T td_minimum_##S(T x, T y)                                                                                   \
    {                                                                                                                  \
        T m = x < y ? x : y;                                                                                           \
        return x != x ? x : m;                                                                                         \
    }                                                                                                                  \
    /* min(max(x, low), high) by one comparison with NaN; a bound that is NaN gives NaN. */                            \
    TD_FN T td_clamp_##S(T x, T low, T high)                                                                           \
    {                                                                                                                  \
        T top = low != low ? low : high, m = x > low ? x : low;                                                        \
        m = m < top ? m : top;                                                                                         \
        return x != x ? x : m;                                                                                         \
    }                                                                                                                  \
    /* The remainder with the divisor's sign, as in Python. */                                                         \
    TD_FN T td_remainder_##S(T x, T y)                                                                                 \
    {                                                                                                                  \
        T m = td_fmod_##S(x, y);                                                                                       \
        return m != 0 && (y < 0) != (m < 0) ? m + y : m;                                                               \
    }                                                                                                                  \
    /* floor(x / y), exact where the quotient's rounding would cross an integer. */                                    \
    TD_FN T td_floordiv_##S(T x, T y)                                                                                  \
    {                                                                                                                  \
        T m = td_fmod_##S(x, y), q = (x - m) / y;                                                                      \
        if (y == 0) return x / y;                                                                                      \
        if (m != 0 && (y < 0) != (m < 0)) q -= 1;                                                                      \
        if (q == 0) return copysign##F((T)0, x / y);                                                                      \
        T f = floor##F(q);                                                                                             \
        return q - f > (T)0.5 ? f + 1 : f;                                                                             \
    }                                                                                                                  \
    TD_FN T td_truncdiv_##S(T x, T y)                                                                                  \
    {                                                                                                                  \
        return trunc##F(x / y);                                                                                        \
    }

/* Where the quotient is below 2^52, which is true of none without fused arithmetic: what its rounding may make of it is
 * one too many, and x less whole times y is exact. */
TD_FN int td_near_f64(double x, double y)
{
#ifdef TD_WIDE_F64
    return (fabs(x) < fabs(y) * 0x1p52) & (fabs(y) < (double)INFINITY);
#else
    (void)x, (void)y;
    return 0;
#endif
}
TD_FN double td_fmodnear_f64(double x, double y)
{
#ifdef TD_WIDE_F64
    double a = fabs(x), b = fabs(y), r = __builtin_fma(-trunc(a / b), b, a);
    return copysign(r < 0 ? r + b : r, x);
#else
    return td_fmodfar_f64(x, y);
#endif
}
TD_FN double td_fmod_f64(double x, double y)
{
    return td_near_f64(x, y) ? td_fmodnear_f64(x, y) : td_fmodfar_f64(x, y);
}
/* The quotient of two floats below 2^28 is truncated in double, where its product with y is exact; what it lacks of a
 * whole number is more than its rounding. */
TD_FN float td_fmod_f32(float x, float y)
{
    double a = fabs((double)x), b = fabs((double)y), q = a / b;
    if (!(q < 0x1p28)) return (float)td_fmodfar_f64(x, y);
    double r = b == (double)INFINITY ? a : a - trunc(q) * b;
    return copysignf((float)r, x);
}
TD_REAL_COMMON(float, f32, f)
TD_REAL_COMMON(double, f64, )

/* The same bits without a branch, where the quotient is small and y finite. */
TD_FN int td_near_f32(float x, float y)
{
    return (fabsf(x) < fabsf(y) * 0x1p27f) & (fabsf(y) < INFINITY);
}
TD_FN float td_fmodnear_f32(float x, float y)
{
    double a = fabs((double)x), b = fabs((double)y);
    return copysignf((float)(a - trunc(a / b) * b), x);
}
#define TD_NEAR(T, S, F)                                                                                               \
    TD_FN T td_remaindernear_##S(T x, T y)                                                                             \
    {                                                                                                                  \
        T m = td_fmodnear_##S(x, y);                                                                                   \
        return ((m != 0) & ((y < 0) != (m < 0))) ? m + y : m;                                                          \
    }                                                                                                                  \
    TD_FN T td_floordivnear_##S(T x, T y)                                                                              \
    {                                                                                                                  \
        T m = td_fmodnear_##S(x, y), q = (x - m) / y;                                                                  \
        q -= ((m != 0) & ((y < 0) != (m < 0))) ? 1 : 0;                                                                \
        T f = floor##F(q), up = q - f > (T)0.5 ? f + 1 : f;                                                            \
        return q == 0 ? copysign##F((T)0, x / y) : up;                                                                    \
    }
TD_NEAR(float, f32, f)
TD_NEAR(double, f64, )

#define TD_LIBM1(NAME)                                                                                                 \
    TD_FN double td_##NAME##_f64(double x)                                                                             \
    {                                                                                                                  \
        return NAME(x);                                                                                                \
    }
#ifndef TD_WIDE_F64
TD_LIBM1(exp)
TD_LIBM1(exp2)
TD_LIBM1(expm1)
TD_LIBM1(log)
TD_LIBM1(log2)
TD_LIBM1(log10)
TD_LIBM1(log1p)
TD_LIBM1(sin)
TD_LIBM1(cos)
TD_LIBM1(sinh)
TD_LIBM1(cosh)
TD_LIBM1(tanh)
TD_LIBM1(tan)
TD_LIBM1(asin)
TD_LIBM1(acos)
TD_LIBM1(atan)
TD_LIBM1(asinh)
TD_LIBM1(acosh)
TD_LIBM1(atanh)
TD_LIBM1(erf)
TD_LIBM1(erfc)
TD_FN double td_pow_f64(double x, double y)
{
    return pow(x, y);
}
TD_FN double td_atan2_f64(double y, double x)
{
    return atan2(y, x);
}
TD_FN double td_hypot_f64(double x, double y)
{
    return hypot(x, y);
}
TD_FN double td_sigmoid_f64(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
TD_FN double td_ncdf_f64(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752);
}
TD_FN double td_sinc_f64(double x)
{
    double turns = rint(x), s = sin(M_PI * (x - turns));
    return x == 0 ? 1 : (fmod(turns, 2.0) != 0 ? -s : s) / (M_PI * x);
}
#endif
TD_FN double td_slowsin_f64(double x)
{
    return sin(x);
}
TD_FN double td_slowcos_f64(double x)
{
    return cos(x);
}
TD_FN double td_slowtan_f64(double x)
{
    return tan(x);
}
TD_FN double td_log1pexp_f64(double x)
{
    return td_log1p_f64(td_exp_f64(x));
}
/* As integers the numbers of one sign follow each other. */
#define TD_NEXTAFTER(T, I, S, F)                                                                                       \
    TD_FN T td_nextafter_##S(T x, T y)                                                                                 \
    {                                                                                                                  \
        I bits, least = 1;                                                                                             \
        T next, first;                                                                                                 \
        memcpy(&bits, &x, sizeof bits);                                                                                \
        bits += (x < y) == (x > 0) ? 1 : -1;                                                                           \
        memcpy(&next, &bits, sizeof next);                                                                             \
        memcpy(&first, &least, sizeof first);                                                                          \
        next = x == 0 ? copysign##F(first, y) : next;                                                                  \
        next = x == y ? y : next;                                                                                      \
        return ((x != x) | (y != y)) ? x + y : next;                                                                   \
    }
TD_NEXTAFTER(float, int32_t, f32, f)
TD_NEXTAFTER(double, int64_t, f64, )
/* Squares of floats and their sum neither overflow nor vanish in double. */
TD_FN float td_hypot_f32(float x, float y)
{
    double h = sqrt((double)x * x + (double)y * y);
    return td_isinf_f32(x) || td_isinf_f32(y) ? INFINITY : (float)h;
}
/* Two equal infinities differ by nothing. Of floats in double, as the two terms may cancel. */
TD_FN float td_logaddexp_f32(float x, float y)
{
    double d = x == y ? 0.0 : (double)x - y;
    return (float)(td_maximum_f32(x, y) + td_klog1pexp2(-1.4426950408889634 * fabs(d)));
}
TD_FN double td_logaddexp_f64(double x, double y)
{
    double d = x == y ? 0.0 : x - y;
    return td_maximum_f64(x, y) + td_log1p_f64(td_exp_f64(-fabs(d)));
}
TD_FN double td_npdf_f64(double x)
{
    return 0.39894228040143268 * td_exp_f64(-0.5 * x * x);
}
TD_FN double td_gelu_f64(double x)
{
    return x * td_ncdf_f64(x);
}
/* Scalar and for any size: what the loops use when an argument is too large for the fast reduction. */
TD_FN float td_slowsin_f32(float x)
{
    return sinf(x);
}
TD_FN float td_slowcos_f32(float x)
{
    return cosf(x);
}
TD_FN float td_slowtan_f32(float x)
{
    return tanf(x);
}
/* The inner function of the approximated gelu, sqrt(2/pi) (x + 0.044715 x^3), and its derivative. */
#define TD_REAL_DERIVED(T, S)                                                                                          \
    TD_FN T td_geluarg_##S(T x)                                                                                        \
    {                                                                                                                  \
        return (T)0.7978845608028654 * x * (1 + (T)0.044715 * x * x);                                                  \
    }                                                                                                                  \
    TD_FN T td_geluarg_slope_##S(T x)                                                                                  \
    {                                                                                                                  \
        return (T)0.7978845608028654 * (1 + (T)0.134145 * x * x);                                                      \
    }                                                                                                                  \
    /* gelu by tanh: x (1 + tanh u) / 2 = x sigmoid(2u), which keeps the digits of the negative tail */                \
    TD_FN T td_gelutanh_##S(T x)                                                                                       \
    {                                                                                                                  \
        return x * td_sigmoid_##S(2 * td_geluarg_##S(x));                                                              \
    }                                                                                                                  \
    TD_FN T td_gelu_grad_##S(T x)                                                                                      \
    {                                                                                                                  \
        return td_ncdf_##S(x) + x * td_npdf_##S(x);                                                                    \
    }                                                                                                                  \
    /* where s is 0 or 1 to the last digit, the slope may be beyond range, and counts no more */                       \
    TD_FN T td_gelutanh_grad_##S(T x)                                                                                  \
    {                                                                                                                  \
        T s = td_sigmoid_##S(2 * td_geluarg_##S(x)), t = s * (1 - s);                                                  \
        return s + x * (2 * t) * (t == 0 ? 1 : td_geluarg_slope_##S(x));                                               \
    }                                                                                                                  \
    TD_FN T td_mish_##S(T x) /* tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2) */                             \
    {                                                                                                                  \
        T e = td_exp_##S(x > 20 ? 20 : x), n = e * (e + 2);                                                            \
        return x > 20 ? x : x * (n / (n + 2));                                                                         \
    }                                                                                                                  \
    TD_FN T td_sign_##S(T x) /* NaN has no sign: 0 */                                                                  \
    {                                                                                                                  \
        return (T)((x > 0) - (x < 0));                                                                                 \
    }
TD_REAL_DERIVED(float, f32)
TD_REAL_DERIVED(double, f64)

/* ---- integers. TD_INT_DIV names set the loop's `err`. */

#define TD_INT_COMMON(T, U, S, BITS, LOWEST)                                                                           \
    TD_FN T td_abs_##S(T x)                                                                                            \
    {                                                                                                                  \
        return x < 0 ? (T)(0 - (U)x) : x;                                                                              \
    }                                                                                                                  \
    TD_FN T td_sign_##S(T x)                                                                                           \
    {                                                                                                                  \
        return (x > 0) - (x < 0);                                                                                      \
    }                                                                                                                  \
    TD_FN T td_maximum_##S(T x, T y)                                                                                   \
    {                                                                                                                  \
        return x > y ? x : y;                                                                                          \
    }                                                                                                                  \
    TD_FN T td_minimum_##S(T x, T y)                                                                                   \
    {                                                                                                                  \
        return x < y ? x : y;                                                                                          \
    }                                                                                                                  \
    TD_FN T td_scale_##S(T alpha, T y)                                                                                 \
    {                                                                                                                  \
        return (T)((U)alpha * (U)y);                                                                                   \
    }                                                                                                                  \
    TD_FN T td_shl_##S(T x, T y)                                                                                       \
    {                                                                                                                  \
        return (U)y >= BITS ? 0 : (T)((U)x << ((U)y & (BITS - 1)));                                                    \
    }                                                                                                                  \
    TD_FN T td_shr_##S(T x, T y)                                                                                       \
    {                                                                                                                  \
        return x >> ((U)y >= BITS ? BITS - 1 : (U)y);                                                                  \
    }                                                                                                                  \
    TD_FN T td_truncdiv_##S##_(T x, T y, int *err)                                                                     \
    {                                                                                                                  \
        if (y == 0) {                                                                                                  \
            *err = 1;                                                                                                  \
            return 0;                                                                                                  \
        }                                                                                                              \
        return y == -1 ? (T)(0 - (U)x) : x / y;                                                                        \
    }                                                                                                                  \
    TD_FN T td_fmod_##S##_(T x, T y, int *err)                                                                         \
    {                                                                                                                  \
        if (y == 0) {                                                                                                  \
            *err = 1;                                                                                                  \
            return 0;                                                                                                  \
        }                                                                                                              \
        return y == -1 ? 0 : x % y;                                                                                    \
    }                                                                                                                  \
    TD_FN T td_remainder_##S##_(T x, T y, int *err)                                                                    \
    {                                                                                                                  \
        T m = td_fmod_##S##_(x, y, err);                                                                               \
        return m != 0 && (y < 0) != (m < 0) ? m + y : m;                                                               \
    }                                                                                                                  \
    TD_FN T td_floordiv_##S##_(T x, T y, int *err)                                                                     \
    {                                                                                                                  \
        T q = td_truncdiv_##S##_(x, y, err);                                                                           \
        return y != 0 && y != -1 && x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;                                      \
    }                                                                                                                  \
    /* x^y wraps; of negative powers only those of 1 and -1 are integers. */                                           \
    TD_FN T td_pow_##S(T x, T y)                                                                                       \
    {                                                                                                                  \
        if (y < 0) return x == 1 ? 1 : (x == -1 ? ((y & 1) ? -1 : 1) : 0);                                             \
        U r = 1, b = (U)x;                                                                                             \
        for (; y; y >>= 1, b *= b)                                                                                     \
            if (y & 1) r *= b;                                                                                         \
        return (T)r;                                                                                                   \
    }
TD_INT_COMMON(int64_t, uint64_t, i64, 64, INT64_MIN)
TD_INT_COMMON(int32_t, uint32_t, i32, 32, INT32_MIN)

/* Of uint64: nothing is below 0, and quotients are truncated as they are floored. */
TD_FN uint64_t td_abs_u64(uint64_t x)
{
    return x;
}
TD_FN uint64_t td_sign_u64(uint64_t x)
{
    return x > 0;
}
TD_FN uint64_t td_maximum_u64(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}
TD_FN uint64_t td_minimum_u64(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}
TD_FN uint64_t td_scale_u64(uint64_t alpha, uint64_t y)
{
    return alpha * y;
}
TD_FN uint64_t td_shl_u64(uint64_t x, uint64_t y)
{
    return y >= 64 ? 0 : x << (y & 63);
}
TD_FN uint64_t td_shr_u64(uint64_t x, uint64_t y)
{
    return y >= 64 ? 0 : x >> (y & 63);
}
TD_FN uint64_t td_truncdiv_u64_(uint64_t x, uint64_t y, int *rc)
{
    *rc |= y == 0;
    return y ? x / y : 0;
}
TD_FN uint64_t td_fmod_u64_(uint64_t x, uint64_t y, int *rc)
{
    *rc |= y == 0;
    return y ? x % y : 0;
}
TD_FN uint64_t td_pow_u64(uint64_t x, uint64_t y)
{
    uint64_t r = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1) r *= x;
    return r;
}
#define td_truncdiv_u64(x, y) td_truncdiv_u64_(x, y, &err)
#define td_floordiv_u64(x, y) td_truncdiv_u64_(x, y, &err)
#define td_fmod_u64(x, y) td_fmod_u64_(x, y, &err)
#define td_remainder_u64(x, y) td_fmod_u64_(x, y, &err)

#define td_truncdiv_i64(x, y) td_truncdiv_i64_(x, y, &err)
#define td_fmod_i64(x, y) td_fmod_i64_(x, y, &err)
#define td_remainder_i64(x, y) td_remainder_i64_(x, y, &err)
#define td_floordiv_i64(x, y) td_floordiv_i64_(x, y, &err)

#ifndef TD_REAL_ONLY
/* ---- complex: products by the plain formula, quotients so that nothing overflows on the way */

#define TD_COMPLEX_COMMON(C, T, S, F)                                                                                  \
    TD_FN C td_make_##S(T re, T im)                                                                                    \
    {                                                                                                                  \
        C z;                                                                                                           \
        __real__ z = re;                                                                                               \
        __imag__ z = im;                                                                                               \
        return z;                                                                                                      \
    }                                                                                                                  \
    TD_FN T td_abs_##S(C x)                                                                                            \
    {                                                                                                                  \
        return hypot##F(__real__ x, __imag__ x);                                                                       \
    }                                                                                                                  \
    TD_FN T td_imag_##S(C x)                                                                                           \
    {                                                                                                                  \
        return __imag__ x;                                                                                             \
    }                                                                                                                  \
    TD_FN C td_conj_##S(C x)                                                                                           \
    {                                                                                                                  \
        return td_make_##S(__real__ x, -__imag__ x);                                                                   \
    }                                                                                                                  \
    TD_FN C td_scale_##S(C alpha, C y)                                                                                 \
    {                                                                                                                  \
        T a = __real__ alpha;                                                                                          \
        return __imag__ alpha == 0 ? td_make_##S(a * __real__ y, a * __imag__ y) : alpha * y;                          \
    }                                                                                                                  \
    /* By the ratio of the divisor's smaller part to its larger one; over zero each part alone: infinite, or NaN. */   \
    TD_FN C td_div_##S(C x, C y)                                                                                       \
    {                                                                                                                  \
        T a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;                                              \
        if (c == 0 && d == 0) return td_make_##S(a / fabs##F(c), b / fabs##F(c));                                      \
        int first = fabs##F(c) >= fabs##F(d);                                                                          \
        T most = first ? c : d, ratio = first ? d / c : c / d, n = 1 + ratio * ratio;                                  \
        a /= most;                                                                                                     \
        b /= most;                                                                                                     \
        return first ? td_make_##S((a + b * ratio) / n, (b - a * ratio) / n)                                           \
                     : td_make_##S((a * ratio + b) / n, (b * ratio - a) / n);                                          \
    }                                                                                                                  \
    TD_FN C td_sign_##S(C x)                                                                                           \
    {                                                                                                                  \
        T a = td_abs_##S(x);                                                                                           \
        return a == 0 ? td_make_##S(0, 0) : td_make_##S(__real__ x / a, __imag__ x / a);                               \
    }                                                                                                                  \
    TD_FN int td_isnan_##S(C x)                                                                                        \
    {                                                                                                                  \
        return __real__ x != __real__ x || __imag__ x != __imag__ x;                                                   \
    }                                                                                                                  \
    TD_FN int td_isinf_##S(C x)                                                                                        \
    {                                                                                                                  \
        return fabs##F(__real__ x) == (T)INFINITY || fabs##F(__imag__ x) == (T)INFINITY;                               \
    }                                                                                                                  \
    TD_FN int td_isfinite_##S(C x)                                                                                     \
    {                                                                                                                  \
        return fabs##F(__real__ x) < (T)INFINITY && fabs##F(__imag__ x) < (T)INFINITY;                                 \
    }                                                                                                                  \
    TD_FN T td_finite_part_##S(T x, C nan, C posinf, C neginf)                                                         \
    {                                                                                                                  \
        return x != x ? __real__ nan                                                                                   \
                      : (x == (T)INFINITY ? __real__ posinf : (x == -(T)INFINITY ? __real__ neginf : x));              \
    }                                                                                                                  \
    TD_FN C td_finite_##S(C x, C nan, C posinf, C neginf) /* each part by itself */                                    \
    {                                                                                                                  \
        return td_make_##S(td_finite_part_##S(__real__ x, nan, posinf, neginf),                                        \
                           td_finite_part_##S(__imag__ x, nan, posinf, neginf));                                       \
    }                                                                                                                  \
    TD_FN C td_sigmoid_##S(C x)                                                                                        \
    {                                                                                                                  \
        return td_div_##S(1, 1 + cexp##F(-x));                                                                         \
    }                                                                                                                  \
    TD_FN C td_logaddexp_##S(C x, C y)                                                                                 \
    {                                                                                                                  \
        C most = __real__ x < __real__ y ? y : x, other = __real__ x < __real__ y ? x : y;                             \
        if (__real__ most != __real__ other || fabs##F(__real__ most) < (T)INFINITY)                                   \
            return most + clog##F(1 + cexp##F(other - most));                                                          \
        return __real__ most < 0 ? most : clog##F(cexp##F(x) + cexp##F(y)); /* infinities differ by NaN */             \
    }                                                                                                                  \
    /* Near 0 without the 1, which would take most of what counts. */                                                  \
    TD_FN C td_log1p_##S(C z)                                                                                          \
    {                                                                                                                  \
        double x = __real__ z, y = __imag__ z, r = x * (2 + x) + y * y;                                                \
        if (!(fabs(x) < 0.5 && fabs(y) < 0.5)) return clog##F(1 + z);                                                  \
        return td_make_##S((T)(r == 0 ? x : 0.5 * log1p(r)), (T)atan2(y, 1 + x));                                      \
    }                                                                                                                  \
    TD_FN C td_expm1_##S(C z)                                                                                          \
    {                                                                                                                  \
        double x = __real__ z, y = __imag__ z, half = sin(0.5 * y);                                                    \
        if (!(fabs(x) < 1 && fabs(y) < (double)INFINITY)) return cexp##F(z) - 1;                                       \
        return td_make_##S((T)(expm1(x) * cos(y) - 2 * half * half), (T)(exp(x) * sin(y)));                            \
    }                                                                                                                  \
    /* Small powers by products: cpow is off in the last places, and undefined for what is not finite. */              \
    TD_FN C td_pow_##S(C x, C y)                                                                                       \
    {                                                                                                                  \
        if (y == 0) return 1;                                                                                          \
        if (y == 1) return x;                                                                                          \
        if (y == 2) return x * x;                                                                                      \
        if (y == 3) return x * x * x;                                                                                  \
        if (y == -1 && x != 0) return td_div_##S(1, x);                                                                \
        if (y == (T)0.5) return csqrt##F(x);                                                                           \
        if (x == 0 && __real__ y > 0) return 0;                                                                        \
        return cpow##F(x, y);                                                                                          \
    }
TD_COMPLEX_COMMON(td_c64, float, c64, f)
TD_COMPLEX_COMMON(td_c128, double, c128, )

#define TD_CLIB1(NAME, FUNC)                                                                                           \
    TD_FN td_c64 td_##NAME##_c64(td_c64 x)                                                                             \
    {                                                                                                                  \
        return FUNC##f(x);                                                                                             \
    }                                                                                                                  \
    TD_FN td_c128 td_##NAME##_c128(td_c128 x)                                                                          \
    {                                                                                                                  \
        return FUNC(x);                                                                                                \
    }
TD_CLIB1(exp, cexp)
TD_CLIB1(log, clog)
TD_CLIB1(sqrt, csqrt)
TD_CLIB1(sin, csin)
TD_CLIB1(cos, ccos)
TD_CLIB1(tan, ctan)
TD_CLIB1(asin, casin)
TD_CLIB1(acos, cacos)
TD_CLIB1(atan, catan)
TD_CLIB1(sinh, csinh)
TD_CLIB1(cosh, ccosh)
TD_CLIB1(tanh, ctanh)
TD_CLIB1(asinh, casinh)
TD_CLIB1(acosh, cacosh)
TD_CLIB1(atanh, catanh)
#endif

#endif
