/* Elementary functions of one float, written so that a loop over them vectorises: no branches, no calls, no tables.
 *
 * Each is within 4 units in the last place of the true value (most within 2; the tests measure it), keeps NaN,
 * infinities and the sign of zero, and reads and makes denormals. Polynomials are interpolations at Chebyshev nodes
 * made for these intervals. The rarer functions go through double, where few digits are needed and cancellation is
 * harmless. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_F32_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A compiler of other loops may have marks of its own for functions and tables (daemon/kernels/cuda/device). */
#ifndef TD_FN
#define TD_FN static inline __attribute__((always_inline, unused))
#endif

TD_FN uint32_t td_bits_f(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
TD_FN float td_from_bits_f(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}
TD_FN uint64_t td_bits_d(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
TD_FN double td_from_bits_d(uint64_t u)
{
    double x;
    memcpy(&x, &u, 8);
    return x;
}

/* ---- float throughout: what networks use most */

/* e^x = 2^n e^r with |r| <= ln2/2, for x from -104.5 to 89. Adding 1.5*2^23 rounds to an integer and leaves it in the
 * low bits. 2^n is applied in two halves, so that denormal results are rounded once and 2^128 never appears. */
TD_FN float td_exp_within_f32(float x)
{
    const float shift = 12582912.0f;
    float t = x * 1.44269504f + shift, n = t - shift;
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.3926204e-03f;
    p = p * r + 8.363195e-03f;
    p = p * r + 4.1666556e-02f;
    p = p * r + 1.6666576e-01f;
    p = p * r + 5.e-01f;
    p = 1.0f + (r + r * r * p);
    int32_t k = (int32_t)(td_bits_f(t) - td_bits_f(shift)), half = k >> 1;
    return p * td_from_bits_f((uint32_t)(half + 127) << 23) * td_from_bits_f((uint32_t)(k - half + 127) << 23);
}
TD_FN float td_exp_f32(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.5f ? -104.5f : x;
    return td_exp_within_f32(x);
}

/* (log(1 + f) - f + f^2 / 2) / f^3 for 1 + f in [sqrt(1/2), sqrt(2)). */
TD_FN float td_log_poly_f32(float f)
{
    float p = 6.969754e-02f;
    p = p * f - 1.1479188e-01f;
    p = p * f + 1.1685796e-01f;
    p = p * f - 1.24257766e-01f;
    p = p * f + 1.4249033e-01f;
    p = p * f - 1.6667798e-01f;
    p = p * f + 2.0000717e-01f;
    p = p * f - 2.4999997e-01f;
    p = p * f + 3.333333e-01f;
    return p;
}

/* log x = e ln2 + log m with m in [sqrt(1/2), sqrt(2)). */
TD_FN float td_log_f32(float x)
{
    int tiny = x < 0x1p-126f;
    float y = tiny ? x * 0x1p23f : x;
    uint32_t ix = td_bits_f(y) - 0x3f3504f3u;
    float e = (float)((int32_t)ix >> 23) - (tiny ? 23.0f : 0.0f);
    float f = td_from_bits_f((ix & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    float p = td_log_poly_f32(f);
    float s = f * f;
    float r = e * 0.693359375f + (f + (f * s * p - 0.5f * s - e * 2.12194440e-4f));
    r = x == INFINITY ? x : r;
    r = x == 0.0f ? -INFINITY : r;
    return x < 0.0f || x != x ? NAN : r;
}

/* As td_log_f32, of 1 + x and of what that lost in rounding. */
TD_FN float td_log1p_f32(float x)
{
    float u = 1.0f + x, lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
    uint32_t ix = td_bits_f(u) - 0x3f3504f3u;
    int32_t k = (int32_t)ix >> 23;
    float e = (float)k, part = lost * td_from_bits_f((uint32_t)(127 - k) << 23);
    float most = td_from_bits_f((ix & 0x7fffffu) + 0x3f3504f3u) - 1.0f, rest = u < 0x1p30f ? part : 0.0f;
    float f = most + rest, below = rest - (f - most); /* the rounding of f, too */
    float s = f * f, p = td_log_poly_f32(f);
    float r = e * 0.693359375f + (f + (f * s * p - 0.5f * s - e * 2.12194440e-4f + (below - below * f)));
    r = u == 0.0f ? -INFINITY : r;
    r = u < 0.0f || x != x ? NAN : r;
    return x == 0.0f || x == INFINITY ? x : r;
}

TD_FN float td_tanh_f32(float x)
{
    float a = fabsf(x), s = x * x;
    float p = -6.609614e-03f;
    p = p * s + 2.1309063e-02f;
    p = p * s - 5.3909376e-02f;
    p = p * s + 1.3333113e-01f;
    p = p * s - 3.333333e-01f;
    float small = a + a * s * p, big = 1.0f - 2.0f / (td_exp_f32(2.0f * a) + 1.0f);
    return x != x ? x : copysignf(a < 0.55f ? small : big, x);
}

/* 1 / (1 + e^-x), of half of all: so 2^(n - 1) is at hand where it counts, and is one factor. */
TD_FN float td_sigmoid_f32(float x)
{
    const float shift = 12582912.0f;
    float c = x > 87.0f ? 87.0f : x;
    c = c < -89.0f ? -89.0f : c;
    float t = c * -1.44269504f + shift, n = t - shift;
    float r = -c - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.3926204e-03f;
    p = p * r + 8.363195e-03f;
    p = p * r + 4.1666556e-02f;
    p = p * r + 1.6666576e-01f;
    p = p * r + 5.e-01f;
    p = 1.0f + (r + r * r * p);
    float s = 0.5f / (0.5f + p * td_from_bits_f((td_bits_f(t) - td_bits_f(shift) + 126u) << 23));
    return x < -89.0f ? 0.0f : s;
}

/* log(1 + e^x), as its limit and log(1 + e) = 2 artanh(e / (2 + e)) of what is beside it. */
TD_FN float td_log1pexp_f32(float x)
{
    float e = td_exp_f32(-fabsf(x)), s = e / (2.0f + e), z = s * s;
    float p = 1.16195253e-01f;
    p = p * z + 1.08516575e-01f;
    p = p * z + 1.42962917e-01f;
    p = p * z + 1.99998507e-01f;
    p = p * z + 3.33333337e-01f;
    return (x > 0 ? x : 0.0f) + (2.0f * s + 2.0f * s * z * p);
}

/* The lesser of a >= 0 and `most`, of their bits: one instruction, where comparing floats takes several. NaN becomes
 * `most`, too. */
TD_FN float td_at_most_f32(float a, float most)
{
    uint32_t u = td_bits_f(a), v = td_bits_f(most);
    return td_from_bits_f(u < v ? u : v);
}

/* e^(-a^2 scale) for a >= 0 with scale 1 or 1/2, as of a number where a is none: the square's rounding error, which
 * would be multiplied by its size, is put back; without fused arithmetic the square is split. */
TD_FN float td_exp_minus_square_f32(float a, float scale)
{
    a = td_at_most_f32(a, scale == 1.0f ? 10.2f : 14.4f); /* e^-104, and 0 with what else stands before it */
#ifdef __FMA__
    float part = a * scale, square = part * a, e = td_exp_within_f32(-square);
    return e - e * __builtin_fmaf(part, a, -square);
#else
    float hi = td_from_bits_f(td_bits_f(a) & 0xfffff000u), d = (a - hi) * (a + hi) * scale;
    return td_exp_within_f32(-hi * hi * scale) *
           (1.0f - d * (1.0f - d * (0.5f - d * (0.16666667f - d * 0.041666668f))));
#endif
}

/* erfc(a) for a >= 0, as e^(-a^2) P(q) / (1 + 2a) with q = (a-3)/(a+3). */
TD_FN float td_erfc_tail_f32(float a)
{
    float b = td_at_most_f32(a, 15.0f), q = (b - 3.0f) / (b + 3.0f);
    float p = -2.7639026e-04f;
    p = p * q - 7.9574925e-04f;
    p = p * q + 1.9963759e-03f;
    p = p * q + 2.5788452e-03f;
    p = p * q - 2.3791349e-02f;
    p = p * q + 6.829337e-02f;
    p = p * q - 1.1927248e-01f;
    p = p * q + 1.2964661e-01f;
    p = p * q - 4.756229e-02f;
    p = p * q - 1.3562115e-01f;
    p = p * q + 1.253008e+00f;
    return td_exp_minus_square_f32(a, 1.0f) * (p / (1.0f + 2.0f * b));
}
TD_FN float td_erf_small_f32(float x)
{
    float s = x * x;
    float p = 7.875875e-05f;
    p = p * s - 8.0168643e-04f;
    p = p * s + 5.1890872e-03f;
    p = p * s - 2.6854211e-02f;
    p = p * s + 1.1283594e-01f;
    p = p * s - 3.7612626e-01f;
    p = p * s + 1.1283791e+00f;
    return x * p;
}
TD_FN float td_erf_f32(float x)
{
    float a = fabsf(x);
    float big = copysignf(1.0f - td_erfc_tail_f32(a), x);
    return a < 0.95f ? td_erf_small_f32(x) : (x != x ? x : big);
}
TD_FN float td_erfc_f32(float x)
{
    float a = fabsf(x), tail = td_erfc_tail_f32(a);
    float big = x > 0 ? tail : 2.0f - tail;
    return a < 0.4f ? 1.0f - td_erf_small_f32(x) : (x != x ? x : big);
}

/* The upper tail of the normal distribution at a >= 0: erfc(a / sqrt 2) / 2, with q = (a-3)/(a+3). */
TD_FN float td_normal_tail_f32(float a)
{
    float b = td_at_most_f32(a, 15.0f), q = (b - 3.0f) / (b + 3.0f);
    float p = 4.6484103e-05f;
    p = p * q + 1.2235213e-05f;
    p = p * q - 4.6938617e-04f;
    p = p * q - 3.4042232e-04f;
    p = p * q + 2.9908086e-03f;
    p = p * q + 1.155109e-03f;
    p = p * q - 2.2726547e-02f;
    p = p * q + 4.516464e-02f;
    p = p * q - 1.6432371e-02f;
    p = p * q - 9.652679e-02f;
    p = p * q + 4.860558e-01f;
    return td_exp_minus_square_f32(a, 0.5f) * (p / (1.0f + b));
}
/* The normal distribution function. */
TD_FN float td_ncdf_f32(float x)
{
    float t = td_normal_tail_f32(fabsf(x));
    return x != x ? x : (x < 0 ? t : 1.0f - t);
}
TD_FN float td_gelu_f32(float x)
{
    float t = td_normal_tail_f32(fabsf(x));
    return x * (x < 0 ? t : 1.0f - t); /* below -15 the tail is 0 */
}
TD_FN float td_npdf_f32(float x)
{
    return x != x ? x : 0.39894228f * td_exp_minus_square_f32(fabsf(x), 0.5f);
}

/* ---- what exponentials and logarithms of doubles are made of */

/* x times 2^k, for a k that is any double's exponent, in two steps: what comes out denormal is rounded once. Unsigned:
 * of NaN these are any bits. */
TD_FN double td_scale2_f64(double x, uint64_t k)
{
    uint64_t half = ((k + 4096) >> 1) - 2048;
    return x * td_from_bits_d((half + 1023) << 52) * td_from_bits_d((k - half + 1023) << 52);
}

/* x = 2^e (1 + f), of a positive x that is normal, with 1 + f in [sqrt(1/2), sqrt(2)). */
typedef struct td_split {
    double e, f;
} td_split;
TD_FN td_split td_split_f64(double x)
{
    uint64_t ix = td_bits_d(x) - 0x3fe6a09e667f3bcdull;
    /* The exponent without a 64-bit arithmetic shift or conversion: both are missing below AVX-512. */
    td_split t = {td_from_bits_d(((ix + 0x4000000000000000ull) >> 52) | 0x4330000000000000ull) - (0x1p52 + 1024.0),
                  td_from_bits_d((ix & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0};
    return t;
}

/* ---- double inside: about 12 good digits, rounded to float at the end */

TD_FN double td_kexp(double x)
{
    const double shift = 0x1.8p52;
    x = x > 800.0 ? 800.0 : x;
    x = x < -800.0 ? -800.0 : x;
    double t = x * 1.4426950408889634 + shift, n = t - shift;
    double r = x - n * 0.6931471805598903;
    r = r - n * 5.497923018708371e-14;
    double p = 2.7617608788569917e-06;
    p = p * r + 2.4867918601290165e-05;
    p = p * r + 0.0001984122453356812;
    p = p * r + 0.0013888839037847843;
    p = p * r + 0.008333333344226802;
    p = p * r + 0.04166666678652787;
    p = p * r + 0.16666666666662575;
    p = p * r + 0.49999999999954975;
    p = 1.0 + (r + r * r * p);
    return td_scale2_f64(p, td_bits_d(t) - td_bits_d(shift));
}
TD_FN double td_klog_positive(double x) /* and normal */
{
    td_split t = td_split_f64(x);
    double s = t.f / (2.0 + t.f), z = s * s;
    double p = 0.1533167403016786 + 0.1461703754879165 * z;
    p = p * z + 0.18182890556695602;
    p = p * z + 0.2222221111514416;
    p = p * z + 0.2857142862609589;
    p = p * z + 0.3999999999989924;
    p = p * z + 0.666666666666667;
    return t.e * 0.6931471805599453 + (2.0 * s + s * z * p);
}
TD_FN double td_klog(double x)
{
    double r = td_klog_positive(x);
    r = x == (double)INFINITY ? x : r;
    r = x == 0.0 ? -(double)INFINITY : r;
    return x < 0.0 || x != x ? (double)NAN : r;
}

/* As td_exp_f32, but for what is left of x, which is exact. */
TD_FN float td_exp2_f32(float x)
{
    const float shift = 12582912.0f;
    x = x > 129.0f ? 129.0f : x;
    x = x < -151.0f ? -151.0f : x;
    float t = x + shift, r = x - (t - shift);
    float p = 1.54448833e-04f;
    p = p * r + 1.33822777e-03f;
    p = p * r + 9.61810350e-03f;
    p = p * r + 5.55037782e-02f;
    p = p * r + 2.40226507e-01f;
    p = 1.0f + (r * 0.693147182f + r * r * p);
    int32_t k = (int32_t)(td_bits_f(t) - td_bits_f(shift)), half = k >> 1;
    return p * td_from_bits_f((uint32_t)(half + 127) << 23) * td_from_bits_f((uint32_t)(k - half + 127) << 23);
}
TD_FN float td_expm1_f32(float x)
{
    double d = x;
    double p = 1.0 / 40320;
    p = p * d + 1.0 / 5040;
    p = p * d + 1.0 / 720;
    p = p * d + 1.0 / 120;
    p = p * d + 1.0 / 24;
    p = p * d + 1.0 / 6;
    p = p * d + 0.5;
    double r = d > -0.25 && d < 0.25 ? d + d * d * p : td_kexp(d) - 1.0;
    return x == 0.0f ? x : (float)r;
}
TD_FN float td_log2_f32(float x)
{
    return (float)(td_klog(x) * 1.4426950408889634);
}
TD_FN float td_log10_f32(float x)
{
    return (float)(td_klog(x) * 0.4342944819032518);
}
TD_FN float td_sinh_f32(float x)
{
    double d = x, s = d * d, e = td_kexp(d);
    double p = s * (1.0 / 6 + s * (1.0 / 120 + s * (1.0 / 5040 + s * (1.0 / 362880))));
    double r = fabs(d) < 0.5 ? d + d * p : 0.5 * (e - 1.0 / e);
    return x == 0.0f ? x : (float)r;
}
TD_FN float td_cosh_f32(float x)
{
    double e = td_kexp(fabs((double)x));
    return (float)(0.5 * (e + 1.0 / e));
}
TD_FN float td_asinh_f32(float x)
{
    double d = x, a = fabs(d), s = d * d;
    double small = d * (1.0 - s * (1.0 / 6 - s * (3.0 / 40 - s * (15.0 / 336))));
    double big = td_klog(a + sqrt(s + 1.0));
    return a < 0x1p-5 ? (float)small : copysignf((float)big, x);
}
TD_FN float td_acosh_f32(float x)
{
    double d = x;
    return x < 1.0f ? NAN : (float)td_klog(d + sqrt(d * d - 1.0));
}
TD_FN float td_atanh_f32(float x)
{
    double d = x, s = d * d;
    double small = d + d * s * (1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7)));
    return fabs(d) < 0x1p-5 ? (float)small : (float)(0.5 * td_klog((1.0 + d) / (1.0 - d)));
}

/* asin(x) for |x| <= 1/2. */
TD_FN double td_kasin(double x)
{
    double z = x * x;
    double p = 0.02930523970533579;
    p = p * z + 0.0054431851027481075;
    p = p * z + 0.019306260869368045;
    p = p * z + 0.022132443623426794;
    p = p * z + 0.030397634130580702;
    p = p * z + 0.044642358484883196;
    p = p * z + 0.07500000598829049;
    p = p * z + 0.16666666665495086;
    return x + x * z * p;
}
TD_FN double td_kacos(double x)
{
    double a = fabs(x);
    double big = 2.0 * td_kasin(sqrt((1.0 - a) * 0.5)); /* acos(a) for a > 1/2; NaN beyond 1 */
    double small = 1.5707963267948966 - td_kasin(x);
    return a <= 0.5 ? small : (x < 0 ? 3.141592653589793 - big : big);
}
TD_FN float td_asin_f32(float x)
{
    double d = x, a = fabs(d);
    double big = 1.5707963267948966 - 2.0 * td_kasin(sqrt((1.0 - a) * 0.5));
    return a <= 0.5 ? (float)td_kasin(d) : copysignf((float)big, x);
}
TD_FN float td_acos_f32(float x)
{
    return (float)td_kacos(x);
}
/* atan(x) for 0 <= x <= 1. */
TD_FN double td_katan(double x)
{
    double z = x * x;
    double p = 0.0005930437556365282;
    p = p * z - 0.0042216579909296476;
    p = p * z + 0.014072923344697239;
    p = p * z - 0.02991311194551696;
    p = p * z + 0.047294798621813336;
    p = p * z - 0.06246315194128317;
    p = p * z + 0.0758665283364667;
    p = p * z - 0.09073553118976409;
    p = p * z + 0.11109392308322223;
    p = p * z - 0.14285624891483525;
    p = p * z + 0.19999998154086215;
    p = p * z - 0.3333333332694414;
    return x + x * z * p;
}
TD_FN float td_atan_f32(float x)
{
    double a = fabs((double)x), r = td_katan(a > 1.0 ? 1.0 / a : a);
    return x != x ? x : copysignf((float)(a > 1.0 ? 1.5707963267948966 - r : r), x);
}
TD_FN float td_atan2_f32(float y, float x)
{
    double ay = fabs((double)y), ax = fabs((double)x), hi = ay > ax ? ay : ax, lo = ay > ax ? ax : ay;
    double q = hi == 0.0 ? 0.0 : (lo == hi ? 1.0 : lo / hi); /* inf/inf counts as 1 */
    double r = td_katan(q);
    r = ay > ax ? 1.5707963267948966 - r : r;
    r = (int32_t)td_bits_f(x) < 0 ? 3.141592653589793 - r : r;
    return x != x || y != y ? x + y : copysignf((float)r, y);
}

/* x = n pi/2 + r for |x| < TD_TRIG_BIG: pi/2 in two parts, or in three whose products with n are exact without fused
 * arithmetic. No float up to 2^50 is nearer than 2^-30 to a multiple of pi/2, and r is off by 2^-57 there. */
#ifdef __FMA__
#define TD_TRIG_BIG 0x1p50f
#else
#define TD_TRIG_BIG 4194304.0f
#endif
typedef struct td_trig {
    double sin, cos;
    uint64_t n;
} td_trig;
TD_FN td_trig td_ktrig(double x)
{
    const double shift = 0x1.8p52;
    double t = x * 0.6366197723675814 + shift, n = t - shift;
#ifdef __FMA__
    double r = __builtin_fma(-n, 0x1.921fb54442d18p+0, x);
    r = __builtin_fma(-n, 0x1.1a62633145c07p-54, r);
#else
    double r = x - n * 0x1.921fb544p+0; /* 31 bits */
    r = r - n * 0x1.0b4611a4p-34;       /* 31 bits */
    r = r - n * 0x1.13198a2e03707p-65;
#endif
    double z = r * r, s = -2.4805616468180836e-08, c = 2.070058634251582e-09;
    s = s * z + 2.755599071608008e-06;
    s = s * z - 0.00019841266916280364;
    s = s * z + 0.008333333331078498;
    s = s * z - 0.16666666666663885;
    c = c * z - 2.755636954290333e-07;
    c = c * z + 2.4801585210485928e-05;
    c = c * z - 0.0013888888887276824;
    c = c * z + 0.04166666666666468;
    td_trig out = {r + r * z * s, 1.0 - 0.5 * z + z * z * c, td_bits_d(t)};
    return out;
}
TD_FN float td_sin_f32(float x)
{
    td_trig t = td_ktrig(x);
    double v = t.n & 1 ? t.cos : t.sin;
    return x == 0.0f ? x : (float)(t.n & 2 ? -v : v);
}
TD_FN float td_cos_f32(float x)
{
    td_trig t = td_ktrig(x);
    double v = t.n & 1 ? t.sin : t.cos;
    return (float)((t.n + 1) & 2 ? -v : v);
}
TD_FN float td_tan_f32(float x)
{
    td_trig t = td_ktrig(x);
    return x == 0.0f ? x : (float)(t.n & 1 ? -t.cos / t.sin : t.sin / t.cos);
}
/* True where the reduction above does not hold: infinities, NaN and what is too large. */
TD_FN int td_trigbig_f32(float x)
{
    return !(fabsf(x) < TD_TRIG_BIG);
}

/* log2 of a positive number that was a float, within 2^-37 of itself: 2 atanh(f / (2 + f)) / ln 2, by the polynomial of
 * least relative error. */
TD_FN double td_klog2_positive(double x)
{
    td_split t = td_split_f64(x);
    double s = t.f / (2.0 + t.f), z = s * s;
    double p = 0.340730107405532988;
    p = p * z + 0.411672718714430042;
    p = p * z + 0.577083584976404707;
    p = p * z + 0.961796673341681985;
    p = p * z + 2.88539008179008629;
    return t.e + s * p;
}
/* 2^t within 2^-29 of itself, for what becomes a float: beyond 160 it is infinite there, or 0. */
TD_FN double td_kexp2(double t)
{
    const double shift = 0x1.8p52;
    t = t > 160.0 ? 160.0 : t;
    t = t < -160.0 ? -160.0 : t;
    double u = t + shift, r = t - (u - shift);
    double p = 0.000153458121613116298;
    p = p * r + 0.0013399931177239738;
    p = p * r + 0.00961848895633118162;
    p = p * r + 0.055503287771053248;
    p = p * r + 0.240226468906455207;
    p = p * r + 0.693147205737195751;
    p = p * r + 1.0000000005541648;
    return p * td_from_bits_d((td_bits_d(u) - td_bits_d(shift) + 1023) << 52);
}
/* log(1 + 2^t) for t <= 0, within 2^-29 of itself. */
TD_FN double td_klog1pexp2(double t)
{
    double e = td_kexp2(t), u = 2.0 * e - 1.0;
    double p = -6.1161389749315239e-7;
    p = p * u + 1.9886571488055102e-6;
    p = p * u - 4.6780733103728424e-6;
    p = p * u + 1.5549668345011131e-5;
    p = p * u - 5.4361569456742622e-5;
    p = p * u + 0.00018522671535723297;
    p = p * u - 0.00064212642992567696;
    p = p * u + 0.0022881639297965548;
    p = p * u - 0.0084610824806457436;
    p = p * u + 0.033152445083028695;
    p = p * u - 0.1442635495209176;
    p = p * u + 0.8109302161239196;
    return e * p;
}

/* What x^y is, when |x|^y is r: the rules for signs, zeros, infinities and NaN in the order in which they override.
 * ODD: beyond it all numbers are even. F: how functions of T end. */
#define TD_POW_RULES(T, S, F, INT, BITS, ODD)                                                                          \
    TD_FN T td_powrules_##S(T x, T y, T r)                                                                             \
    {                                                                                                                  \
        T ax = fabs##F(x), ay = fabs##F(y), h = (T)0.5 * y;                                                            \
        int whole = trunc##F(y) == y; /* so are infinities and all that is large */                                    \
        int odd = whole & (trunc##F(h) != h) & (ay < (T)ODD);                                                          \
        T one = ((ax == 1) & (ay == (T)INFINITY)) ? 1 : r;                                                             \
        r = ((x < 0) & !whole & (ax != (T)INFINITY)) ? (T)NAN : one;                                                   \
        T minus = -r;                                                                                                  \
        r = (((INT)BITS(x) < 0) & odd) ? minus : r;                                                                    \
        r = ((x != x) | (y != y)) ? x + y : r;                                                                         \
        return ((y == 0) | (x == 1)) ? 1 : r;                                                                          \
    }
TD_POW_RULES(float, f32, f, int32_t, td_bits_f, 0x1p24)
TD_POW_RULES(double, f64, , int64_t, td_bits_d, 0x1p53)
#undef TD_POW_RULES

/* |x|^y through double, then the rules. */
TD_FN float td_pow_f32(float x, float y)
{
    float ax = fabsf(x);
    double two = td_klog2_positive(ax);
    two = ax == INFINITY ? (double)INFINITY : two;
    two = ax == 0.0f ? -(double)INFINITY : two;
    return td_powrules_f32(x, y, (float)td_kexp2((double)y * two)); /* 0 * inf is put right there, and NaN */
}

#endif
