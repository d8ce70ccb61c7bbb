/* Elementary functions of one double, written so that a loop over them vectorises: no branches, no calls, no tables.
 *
 * Each is within a unit in the last place of the true value (expm1 within 1.3; cosh, sinh, tanh and sigmoid, which are
 * made of others, within 2.5), keeps NaN, infinities and the sign of zero, and reads and makes denormals;
 * test_kernels_pointwise measures it. They want fused arithmetic: a set of loops that has none keeps the C library's
 * (math.h). What is added to a product whose rounding would count is written as __builtin_fma, and so is what is chosen
 * from: in vectors the compiler would contract it in another way than in what is left of a loop. Everything else may be
 * contracted or not. Quotients and coefficients of logarithms, sines and cosines are those of fdlibm (Sun
 * Microsystems); the other polynomials are interpolations at Chebyshev nodes, worked out in 60 digits. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_F64_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_F64_H

#include "daemon/kernels/cpu/vec/math_f32.h"

#ifdef __FMA__
#define TD_WIDE_F64 1
#endif

/* sin and cos of what is larger are the C library's. */
#define TD_TRIG_BIG_F64 4194304.0

TD_FN int td_trigbig_f64(double x)
{
    return !(fabs(x) < TD_TRIG_BIG_F64);
}

#ifdef TD_WIDE_F64

/* ln2 in two parts, of which the first times any double's exponent is exact. */
#define TD_LN2_MOST 0x1.62e42feep-1
#define TD_LN2_LESS 1.90821492927058770002e-10

/* (e^r - 1 - r) / r^2 for |r| <= ln2/2. */
TD_FN double td_expq_f64(double r)
{
    double p = 2.0914690073155765086e-9;
    p = p * r + 2.5105217059198133017e-8;
    p = p * r + 2.7557273634728677008e-7;
    p = p * r + 2.755725540007553133e-6;
    p = p * r + 0.000024801587325555559391;
    p = p * r + 0.00019841269874820728465;
    p = p * r + 0.0013888888888883745376;
    p = p * r + 0.0083333333333261350963;
    p = p * r + 0.041666666666666669758;
    p = p * r + 0.16666666666666670991;
    return p * r + 0.5;
}

/* A number and what it lacks. */
typedef struct td_two {
    double most, less;
} td_two;
TD_FN td_two td_quick_sum(double a, double b) /* |a| >= |b|, or a is 0 */
{
    double s = a + b;
    td_two t = {s, (a - s) + b};
    return t;
}

/* e^(x + less), where `less` is small, as what is left of n ln2 is: 2^k times two parts. */
typedef struct td_exp_parts {
    td_two p;
    uint64_t k;
} td_exp_parts;
TD_FN td_exp_parts td_exp_parts_f64(double x, double less)
{
    const double shift = 0x1.8p52;
    double c = x > 710.0 ? 710.0 : x;
    c = c < -746.0 ? -746.0 : c;
    less = c == x ? less : 0.0;
    double t = c * 1.4426950408889634 + shift, n = t - shift;
    double most = __builtin_fma(-n, TD_LN2_MOST, c), rest = less - n * TD_LN2_LESS, r = most + rest;
    td_exp_parts e = {td_quick_sum(1.0, most + (r * r * td_expq_f64(r) + rest)), td_bits_d(t) - td_bits_d(shift)};
    return e;
}
TD_FN double td_exptwo_f64(double x, double less)
{
    td_exp_parts e = td_exp_parts_f64(x, less);
    return td_scale2_f64(e.p.most, e.k);
}
TD_FN double td_exp_f64(double x)
{
    return td_exptwo_f64(x, 0.0);
}
TD_FN double td_exp2_f64(double x)
{
    const double shift = 0x1.8p52;
    double c = x > 1025.0 ? 1025.0 : x;
    c = c < -1077.0 ? -1077.0 : c;
    double t = c + shift, r = c - (t - shift);
    double p = 2.5725106890614557503e-11;
    p = p * r + 4.4549643906034680022e-10;
    p = p * r + 7.0548999427409275689e-9;
    p = p * r + 1.0178062426880215426e-7;
    p = p * r + 1.3215486802927591203e-6;
    p = p * r + 0.000015252733829867239304;
    p = p * r + 0.00015403530393375897705;
    p = p * r + 0.0013333558146416916783;
    p = p * r + 0.0096181291076284778772;
    p = p * r + 0.055504108664821594368;
    p = p * r + 0.24022650695910071233;
    p = __builtin_fma(r * r, p, r * 2.3190468138462996155e-17);
    p = 1.0 + __builtin_fma(r, 0.69314718055994530942, p);
    return td_scale2_f64(p, td_bits_d(t) - td_bits_d(shift));
}
/* 2^n (e^r - 1) + (2^n - 1); half of both where 2^n is beyond range. */
TD_FN double td_expm1_f64(double x)
{
    const double shift = 0x1.8p52;
    double c = x > 710.0 ? 710.0 : x;
    c = c < -40.0 ? -40.0 : c;
    double t = c * 1.4426950408889634 + shift, n = t - shift;
    double most = __builtin_fma(-n, TD_LN2_MOST, c), rest = -n * TD_LN2_LESS, r = most + rest;
    double p = r * r * td_expq_f64(r) + rest, half = td_from_bits_d((td_bits_d(t) - td_bits_d(shift) + 1022) << 52);
    double far = 2.0 * __builtin_fma(half, p, __builtin_fma(half, most, half - 0.5));
    return x == 0.0 ? x : (n == 0.0 ? x + p : far);
}

/* What logarithms are made of: a split, and log(1 + f) as f - half + rest, where half is f f / 2. */
typedef struct td_log_parts {
    double e, f, half, rest;
} td_log_parts;
TD_FN td_log_parts td_log_split_f64(double x, double e)
{
    td_split t = td_split_f64(x);
    td_log_parts l = {e + t.e, t.f, 0, 0};
    return l;
}
TD_FN td_log_parts td_log_rest_f64(td_log_parts l)
{
    double s = l.f / (2.0 + l.f), z = s * s;
    double p = 1.479819860511658591e-01;
    p = p * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    l.half = 0.5 * l.f * l.f;
    l.rest = s * (l.half + z * p);
    return l;
}
TD_FN td_log_parts td_log_of_f64(double x)
{
    int tiny = x < 0x1p-1022;
    double y = tiny ? x * 0x1p54 : x;
    return td_log_rest_f64(td_log_split_f64(y, tiny ? -54.0 : 0.0));
}
/* The logarithm's value where it is none of a positive number. */
TD_FN double td_log_ends_f64(double x, double r)
{
    r = x == (double)INFINITY ? x : r;
    r = x == 0.0 ? -(double)INFINITY : r;
    return ((x < 0.0) | (x != x)) ? (double)NAN : r;
}
TD_FN double td_log_f64(double x)
{
    td_log_parts l = td_log_of_f64(x);
    double low = l.rest + l.e * TD_LN2_LESS;
    return td_log_ends_f64(x, __builtin_fma(l.e, TD_LN2_MOST, l.f - (l.half - low)));
}
/* By a factor in two parts, of which the first times the upper half of f - half is exact. */
TD_FN double td_log_based_f64(double x, double by, double by_less, double turn, double turn_less)
{
    td_log_parts l = td_log_of_f64(x);
    double hi = td_from_bits_d(td_bits_d(l.f - l.half) & 0xffffffff00000000ull), lo = (l.f - hi) - l.half + l.rest;
    double most = hi * by, y = l.e * turn, w = y + most;
    double low = __builtin_fma(lo + hi, by_less, __builtin_fma(lo, by, l.e * turn_less)) + ((y - w) + most);
    return td_log_ends_f64(x, w + low);
}
TD_FN double td_log2_f64(double x)
{
    return td_log_based_f64(x, 1.44269504072144627571e+00, 1.67517131648865118353e-10, 1.0, 0.0);
}
TD_FN double td_log10_f64(double x)
{
    return td_log_based_f64(x, 4.34294481878168880939e-01, 2.50829467116452752298e-11, 3.01029995663611771306e-01,
                            3.69423907715893078616e-13);
}
/* As td_log_f64, of 1 + x and of what that lost in rounding, over 1 + f as a parabola has it; near 0 of x itself. */
TD_FN double td_log1p_f64(double x)
{
    double u = 1.0 + x, lost = x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
    int near = (x > -0.2928932188134524) & (x < 0.4142135623730950);
    td_log_parts l = td_log_split_f64(u, 0.0);
    double m = l.f + 1.0, over = 2.99984695 - m * (2.909090909 - m * 0.9142390706);
    uint64_t place = (td_bits_d(u) - 0x3fe6a09e667f3bcdull + 0x4000000000000000ull) >> 52;
    double part = lost * over * td_from_bits_d((2047 - place) << 52);
    l.f = near ? x : l.f;
    l.e = near ? 0.0 : l.e;
    part = (near | !(u < 0x1p60)) ? 0.0 : part;
    l = td_log_rest_f64(l);
    double low = l.rest + (l.e * TD_LN2_LESS + part);
    double r = __builtin_fma(l.e, TD_LN2_MOST, l.f - (l.half - low));
    return x == 0.0 ? x : td_log_ends_f64(u, x == (double)INFINITY ? x : r);
}

TD_FN double td_sigmoid_f64(double x)
{
    return 1.0 / (1.0 + td_exp_f64(-x));
}
TD_FN double td_tanh_f64(double x)
{
    double a = fabs(x), e = td_expm1_f64(2.0 * (a > 22.0 ? 22.0 : a));
    double q = (a < 1.0 ? e : 2.0) / (e + 2.0), r = a < 1.0 ? q : 1.0 - q;
    return x != x ? x : copysign(r, x);
}
/* e^x / 2 of what is so large that e^x may be beyond range: ln2 is taken off x first, in two parts. */
#define TD_HALVED_F64 709.0
TD_FN double td_sinh_f64(double x)
{
    double a = fabs(x), e = td_expm1_f64(a > TD_HALVED_F64 ? a - TD_LN2_MOST : a);
    double r = a > TD_HALVED_F64 ? e * 0x1.fffffffe5c611p-1 : 0.5 * (e + e / (e + 1.0));
    return x != x ? x : copysign(r, x);
}
TD_FN double td_cosh_f64(double x)
{
    double a = fabs(x), less = a > TD_HALVED_F64 ? -TD_LN2_LESS : 0.0;
    double e = td_exptwo_f64(a > TD_HALVED_F64 ? a - TD_LN2_MOST : a, less);
    return a > TD_HALVED_F64 ? e : 0.5 * e + 0.5 / e;
}

/* x = n pi/2 + sum of r and less, |x| < TD_TRIG_BIG_F64: pi/2 in four parts, whose products with n are exact but the
 * last; the roundings of the differences go into `less`. */
typedef struct td_turned {
    double r, less;
    uint64_t n;
} td_turned;
TD_FN td_turned td_turn_f64(double x)
{
    const double shift = 0x1.8p52;
    double t = x * 0.6366197723675814 + shift, n = t - shift;
    double r = __builtin_fma(-n, 0x1.921fb544p+0, x);
    double w = n * 0x1.0b4611a4p-34, y = r - w, less = (r - y) - w;
    w = n * 0x1.13198a2cp-65;
    r = y - w;
    less += (y - r) - w;
    less = __builtin_fma(-n, 0x1.01b839a25204ap-96, less);
    y = r + less;
    td_turned out = {y, (r - y) + less, td_bits_d(t)};
    return out;
}
/* What the sine takes off r; the cosine as 1 - r^2 / 2, rounded, and the rest. */
TD_FN double td_sin_rest_f64(td_turned t)
{
    double z = t.r * t.r, v = z * t.r;
    double p = 1.58969099521155010221e-10;
    p = p * z - 2.50507602534068634195e-08;
    p = p * z + 2.75573137070700676789e-06;
    p = p * z - 1.98412698298579493134e-04;
    p = p * z + 8.33333333332248946124e-03;
    return (z * (0.5 * t.less - v * p) - t.less) + v * 1.66666666666666324348e-01;
}
TD_FN td_two td_cos_parts_f64(td_turned t)
{
    double z = t.r * t.r, half = 0.5 * z, w = 1.0 - half;
    double p = -1.13596475577881948265e-11;
    p = p * z + 2.08757232129817482790e-09;
    p = p * z - 2.75573143513906633035e-07;
    p = p * z + 2.48015872894767294178e-05;
    p = p * z - 1.38888888888741095749e-03;
    p = p * z + 4.16666666666666019037e-02;
    td_two c = {w, ((1.0 - w) - half) + (z * z * p - t.r * t.less)};
    return c;
}
TD_FN double td_sin_of_f64(td_turned t)
{
    return t.r - td_sin_rest_f64(t);
}
TD_FN double td_cos_of_f64(td_turned t)
{
    td_two c = td_cos_parts_f64(t);
    return c.most + c.less;
}
TD_FN double td_sin_f64(double x)
{
    td_turned t = td_turn_f64(x);
    double sin = td_sin_of_f64(t), cos = td_cos_of_f64(t), v = t.n & 1 ? cos : sin;
    return x == 0.0 ? x : (t.n & 2 ? -v : v);
}
TD_FN double td_cos_f64(double x)
{
    td_turned t = td_turn_f64(x);
    double sin = td_sin_of_f64(t), cos = td_cos_of_f64(t), v = t.n & 1 ? sin : cos;
    return (t.n + 1) & 2 ? -v : v;
}

/* |x|^y by a logarithm of two doubles, of 68 bits; then the rules. */
TD_FN double td_pow_f64(double x, double y)
{
    double ax = fabs(x);
    int tiny = ax < 0x1p-1022;
    td_log_parts l = td_log_split_f64(tiny ? ax * 0x1p54 : ax, tiny ? -54.0 : 0.0);
    /* s = f / (2 + f) and its square, in two parts */
    double over = 2.0 + l.f, over_less = l.f - (over - 2.0), s = l.f / over;
    double s_less = (__builtin_fma(-s, over, l.f) - s * over_less) / over;
    double z = s * s, z_less = __builtin_fma(s, s, -z) + 2.0 * s * s_less;
    double p = 0.11724327060889509215;
    p = p * z + 0.11706126464558674124;
    p = p * z + 0.1333480879881254733;
    p = p * z + 0.15384594887007174711;
    p = p * z + 0.18181818336099846284;
    p = p * z + 0.22222222221652765271;
    p = p * z + 0.28571428571429371334;
    p = p * z + 0.39999999999999999816;
    /* 2/3 + z p, times z, times s, and 2 s beside it */
    double q = z * p, c = 0.66666666666666662966 + q;
    double c_less = (0.66666666666666662966 - c) + q + 3.7007434154171884681e-17 + __builtin_fma(z, p, -q);
    double d = c * z, d_less = __builtin_fma(c, z, -d) + c * z_less + c_less * z;
    double g = d * s, g_less = __builtin_fma(d, s, -g) + d * s_less + d_less * s;
    double a = 2.0 * s + g, a_less = (2.0 * s - a) + g + (g_less + 2.0 * s_less);
    double k = l.e * 0x1.62e42fefa39efp-1, k_less = __builtin_fma(l.e, 0x1.62e42fefa39efp-1, -k);
    k_less = __builtin_fma(l.e, 2.319046813846299615494855e-17, k_less);
    double most = k + a, part = most - k, less = (k - (most - part)) + (a - part) + (k_less + a_less);
    most = ax == 0.0 ? -(double)INFINITY : ax == (double)INFINITY ? ax : most;
    double e = y * most, e_less = __builtin_fma(y, most, -e) + y * less;
    /* 0 * inf is put right by the rules */
    return td_powrules_f64(x, y, td_exptwo_f64(e, fabs(e) < 1000.0 ? e_less : 0.0));
}

#endif
#endif
