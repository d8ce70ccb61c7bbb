/* More functions that expressions of the op table may call, beside those of math.h: made of those, or special functions
 * (special.h).
 *
 * Invariant: products with a logarithm that are to be 0 are chosen, never worked out, so that infinities do not become
 * NaN. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_MORE_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_MORE_H

#include "daemon/kernels/cpu/vec/bessel_f64.h"
#include "daemon/kernels/cpu/vec/math.h"
#include "daemon/kernels/cpu/vec/special_f32.h"

/* Minus the logarithm of how likely x gives t, where none is below -100; what is no probability is told. */
#define TD_BCE(T, S)                                                                                                   \
    TD_FN T td_bce_##S##_(T x, T t, int *err)                                                                          \
    {                                                                                                                  \
        T yes = td_log_##S(x), no = td_log1p_##S(-x);                                                                  \
        *err |= (x >= 0 && x <= 1 ? 0 : TD_PW_NO_PROBABILITY) | (t >= 0 && t <= 1 ? 0 : TD_PW_NO_TARGET);              \
        return (t - 1) * (no < -100 ? -100 : no) - t * (yes < -100 ? -100 : yes);                                      \
    }
TD_BCE(float, f32)
TD_BCE(double, f64)
#define td_bce_f32(x, t) td_bce_f32_(x, t, &err)
#define td_bce_f64(x, t) td_bce_f64_(x, t, &err)

#define TD_REAL_MORE(T, S, F)                                                                                          \
    TD_FN T td_fmax_##S(T x, T y) /* a number wins over NaN */                                                         \
    {                                                                                                                  \
        T m = x > y || y != y ? x : y;                                                                                 \
        return x != x ? y : m;                                                                                         \
    }                                                                                                                  \
    TD_FN T td_fmin_##S(T x, T y)                                                                                      \
    {                                                                                                                  \
        T m = x < y || y != y ? x : y;                                                                                 \
        return x != x ? y : m;                                                                                         \
    }                                                                                                                  \
    TD_FN T td_heaviside_##S(T x, T y)                                                                                 \
    {                                                                                                                  \
        return x == 0 ? y : (T)(x > 0);                                                                                \
    }                                                                                                                  \
    TD_FN T td_xlogy_##S(T x, T y)                                                                                     \
    {                                                                                                                  \
        T r = x * td_log_##S(y);                                                                                       \
        return y != y ? y : (x == 0 ? 0 : r);                                                                          \
    }                                                                                                                  \
    TD_FN T td_xlog1py_##S(T x, T y)                                                                                   \
    {                                                                                                                  \
        T r = x * td_log1p_##S(y);                                                                                     \
        return y != y ? y : (x == 0 ? 0 : r);                                                                          \
    }                                                                                                                  \
    TD_FN T td_entr_##S(T x)                                                                                           \
    {                                                                                                                  \
        T r = -x * td_log_##S(x);                                                                                      \
        r = x == 0 ? 0 : r;                                                                                            \
        return x < 0 ? -(T)INFINITY : r;                                                                               \
    }
TD_REAL_MORE(float, f32, f)
TD_REAL_MORE(double, f64, )

/* What frexp() makes of x; of 0 and what is not finite, x itself and exponent 0. */
TD_FN float td_mantissa_f32(float x)
{
    float y = fabsf(x) < 0x1p-126f ? x * 0x1p24f : x;
    float m = td_from_bits_f((td_bits_f(y) & 0x807fffffu) | 0x3f000000u);
    return x == 0.0f || !(fabsf(x) < INFINITY) ? x : m;
}
TD_FN float td_exponent_f32(float x)
{
    int tiny = fabsf(x) < 0x1p-126f;
    float y = tiny ? x * 0x1p24f : x;
    float e = (float)((int32_t)(td_bits_f(y) >> 23 & 255) - (tiny ? 150 : 126));
    return x == 0.0f || !(fabsf(x) < INFINITY) ? 0.0f : e;
}
TD_FN double td_mantissa_f64(double x)
{
    double y = fabs(x) < 0x1p-1022 ? x * 0x1p54 : x;
    double m = td_from_bits_d((td_bits_d(y) & 0x800fffffffffffffull) | 0x3fe0000000000000ull);
    return ((x == 0.0) | !(fabs(x) < (double)INFINITY)) ? x : m;
}
TD_FN double td_exponent_f64(double x)
{
    int tiny = fabs(x) < 0x1p-1022;
    double y = tiny ? x * 0x1p54 : x;
    double e = td_from_bits_d((td_bits_d(y) >> 52 & 2047) | 0x4330000000000000ull) -
               (tiny ? 0x1p52 + 1076.0 : 0x1p52 + 1022.0);
    return ((x == 0.0) | !(fabs(x) < (double)INFINITY)) ? 0.0 : e;
}

/* x times 2 to the power of a whole number: a float's is that of a double; a double's own is cut into three. */
TD_FN double td_twopower(double n) /* |n| <= 1000 */
{
    return td_from_bits_d((td_bits_d(n + 0x1.8p52) + 1023) << 52);
}
TD_FN float td_ldexp_f32(float x, float n)
{
    n = n > 1000.0f ? 1000.0f : n;
    n = n < -1000.0f ? -1000.0f : n;
    return (float)((double)x * td_twopower(n));
}
TD_FN double td_ldexp_f64(double x, double n)
{
    double a = td_clamp_f64(n, -1000, 1000), b = td_clamp_f64(n - a, -1000, 1000),
           c = td_clamp_f64(n - a - b, -200, 200);
    return x * td_twopower(c) * td_twopower(b) * td_twopower(a);
}

/* Held between eps and 1 - eps first; of an eps that was not given, minus infinity, nothing is. */
TD_FN float td_logit_f32(float x, float eps)
{
    double high = 1.0 - (double)eps, d = x;
    d = d < (double)eps ? (double)eps : d;
    d = d > high ? high : d;
    return (float)td_klog(d / (1.0 - d));
}
TD_FN double td_logit_f64(double x, double eps)
{
    x = x < eps ? eps : x;
    x = x > 1 - eps ? 1 - eps : x;
    return td_log_f64(x / (1 - x));
}

/* sin(pi x) / (pi x): the turns are taken off x itself, where that is exact. */
TD_FN float td_sinc_f32(float x)
{
    double d = x, turns = rint(d), odd = turns - 2 * rint(0.5 * turns);
    td_trig t = td_ktrig(3.141592653589793 * (d - turns));
    double s = t.n & 1 ? t.cos : t.sin;
    s = t.n & 2 ? -s : s;
    s = odd != 0 ? -s : s;
    return x == 0.0f ? 1.0f : (float)(s / (3.141592653589793 * d));
}
TD_FN float td_logaddexp2_f32(float x, float y)
{
    double d = x == y ? 0.0 : (double)x - y;
    return (float)(td_maximum_f32(x, y) + 1.4426950408889634 * td_klog1pexp2(-fabs(d)));
}
TD_FN double td_logaddexp2_f64(double x, double y)
{
    double d = x == y ? 0.0 : x - y;
    return td_maximum_f64(x, y) + td_log1p_f64(td_exp2_f64(-fabs(d))) * 1.4426950408889634;
}

/* The largest whole number that divides both; of 0 and 0 it is 0. */
TD_FN uint64_t td_gcd_u64(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
TD_FN uint64_t td_lcm_u64(uint64_t x, uint64_t y)
{
    uint64_t g = td_gcd_u64(x, y);
    return g == 0 ? 0 : x / g * y;
}
TD_FN int64_t td_gcd_i64(int64_t x, int64_t y)
{
    return (int64_t)td_gcd_u64(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, y < 0 ? 0 - (uint64_t)y : (uint64_t)y);
}
/* Of magnitudes: of uint32 the product may have all 64 bits. */
TD_FN int64_t td_lcm_i64(int64_t x, int64_t y)
{
    return (int64_t)td_lcm_u64(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, y < 0 ? 0 - (uint64_t)y : (uint64_t)y);
}

#ifndef TD_REAL_ONLY
#define TD_COMPLEX_MORE(C, T, S, F)                                                                                    \
    TD_FN C td_sinc_##S(C x)                                                                                           \
    {                                                                                                                  \
        C turn = td_make_##S((T)M_PI * __real__ x, (T)M_PI * __imag__ x);                                              \
        return x == 0 ? td_make_##S(1, 0) : td_div_##S(csin##F(turn), turn);                                           \
    }                                                                                                                  \
    TD_FN C td_xlogy_##S(C x, C y)                                                                                     \
    {                                                                                                                  \
        return td_isnan_##S(y) ? td_make_##S((T)NAN, (T)NAN) : (x == 0 ? td_make_##S(0, 0) : x * clog##F(y));          \
    }                                                                                                                  \
    TD_FN C td_logit_##S(C x, C eps)                                                                                   \
    {                                                                                                                  \
        (void)eps;                                                                                                     \
        return clog##F(td_div_##S(x, 1 - x));                                                                          \
    }
TD_COMPLEX_MORE(td_c64, float, c64, f)
TD_COMPLEX_MORE(td_c128, double, c128, )
#endif

#endif
