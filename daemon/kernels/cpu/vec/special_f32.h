/* Special functions of one float, written so that a loop over them vectorises: without branches, calls or tables, in
 * double. special.h has those of doubles, which these agree with to about a unit in the last place of a float
 * (test_kernels_pointwise compares them), and those that stand behind a call for floats as well.
 *
 * Polynomials are interpolations at Chebyshev nodes, made in 60 digits from the functions' definitions for the
 * intervals that are said, and cut where a float has enough: 10 digits, more for those that have zeros. Every piece is
 * worked out for every element, and one is chosen. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_SPECIAL_F32_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_SPECIAL_F32_H

#include "daemon/kernels/cpu/vec/math_f32.h"
#include "daemon/kernels/cpu/vec/polynomial.h"
#include "daemon/kernels/cpu/vec/special.h"

/* log x for normal x > 0 within a unit of a double: the quotient and coefficients of fdlibm's e_log.c (Sun
 * Microsystems). td_klog is shorter, and has too few digits where a difference of logarithms is near zero. */
TD_FN double td_klog_full(double x)
{
    uint64_t ix = td_bits_d(x) - 0x3fe6a09e667f3bcdull;
    double e = td_from_bits_d(((ix + 0x4000000000000000ull) >> 52) | 0x4330000000000000ull) - (0x1p52 + 1024.0);
    double f = td_from_bits_d((ix & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
    double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double r = z * TD_P7(z, 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                         2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                         1.479819860511658591e-01);
    r = e * 6.93147180369123816490e-01 + (f - (half - (s * (half + r) + e * 1.90821492927058770002e-10)));
    r = x == (double)INFINITY ? x : r;
    return x == 0.0 ? -(double)INFINITY : x < 0.0 || x != x ? (double)NAN : r;
}

/* sin(pi x) and cos(pi x) but for their common sign: whole turns are taken off x itself, where that is exact. */
typedef struct td_half_turn {
    double sin, cos;
} td_half_turn;
TD_FN td_half_turn td_khalf_turn(double x)
{
    td_trig t = td_ktrig(3.141592653589793 * (x - rint(x)));
    td_half_turn out = {t.n & 1 ? t.cos : t.sin, t.n & 1 ? -t.sin : t.cos};
    return out;
}

/* ---- the gamma function's logarithm and its derivatives: Stirling's series (DLMF 5.11.1, 5.11.2, 5.15.8) from 8 on,
 * recurrences below, reflections (5.5.3, 5.5.4, 5.15.6) below zero */

/* Up to 8 by f = a - floor(a), which is exact: (f - 1) f P(f) is that of 1 + f, and the logarithm of factors leads from
 * there. There is one logarithm for all of it. */
TD_FN double td_kgamma_six(double a)
{
    return a * (a + 1.0) * (a + 2.0) * (a + 3.0) * (a + 4.0) * (a + 5.0);
}
TD_FN double td_kgamma(double a)
{
    double f = a - floor(a), t = 2.0 * f - 1.0, w = 1.0 / a, v = w * w, product = a - 1.0 > 1.0 ? a - 1.0 : 1.0;
    double near =
        (f - 1.0) * f *
        TD_P21(t, 0.483128950540980889, -0.072979947957152969, 0.0157278502686412116, -0.00391356093763165898,
               0.00104981866445087185, -0.000294550701400926531, 0.0000851009037846805146, -0.0000250943298484944584,
               7.51139153172965753e-6, -2.27424097113204102e-6, 6.9484401875500963e-7, -2.13884356116115898e-7,
               6.62360193972509949e-8, -2.05776116337301297e-8, 6.43415235729120174e-9, -2.07328278423982132e-9,
               6.53326852843441649e-10, -1.63938160099989034e-10, 5.18198984494435975e-11, -3.53389816227587917e-11,
               1.12733549551650479e-11);
    product *= a - 2.0 > 1.0 ? a - 2.0 : 1.0;
    product *= a - 3.0 > 1.0 ? a - 3.0 : 1.0;
    product *= a - 4.0 > 1.0 ? a - 4.0 : 1.0;
    product *= a - 5.0 > 1.0 ? a - 5.0 : 1.0;
    product *= a - 6.0 > 1.0 ? a - 6.0 : 1.0;
    double l = td_klog_full(a >= 8.0 || a < 1.0 ? a : product);
    double rest = 0.41893853320467274178 + w * TD_P5(v, 8.333333333333029e-2, -2.777777767986868e-3,
                                                     7.936457398235828e-4, -5.943200121277989e-4, 7.727287719374764e-4);
    /* what is chosen between is no product: it would be contracted in vectors only */
    double up = a >= 8.0 ? a - 0.5 : 1.0, by = a >= 8.0 ? l - 1.0 : a < 1.0 ? -l : l;
    return up * by + (a >= 8.0 ? rest : near);
}
TD_FN float td_lgamma_f32(float x)
{
    double a = fabs((double)x), mirror = 3.141592653589793 / (a * fabs(td_khalf_turn(a).sin));
    double g = td_kgamma(a), below = td_klog_full(mirror) - g;
    return a == (double)INFINITY ? INFINITY : (float)(x < 0.0f ? below : g);
}
TD_FN float td_lgammapos_f32(float x)
{
    return (float)td_kgamma(x);
}

/* Eight terms of the recurrence as one quotient: the product of x, x + 1, ... and its derivative. */
TD_FN float td_digamma_f32(float x)
{
    double d = x, a = x < 0.0f ? 1.0 - d : d, product = a, slope = 1.0;
    slope = slope * (a + 1.0) + product, product *= a + 1.0;
    slope = slope * (a + 2.0) + product, product *= a + 2.0;
    slope = slope * (a + 3.0) + product, product *= a + 3.0;
    slope = slope * (a + 4.0) + product, product *= a + 4.0;
    slope = slope * (a + 5.0) + product, product *= a + 5.0;
    slope = slope * (a + 6.0) + product, product *= a + 6.0;
    slope = slope * (a + 7.0) + product, product *= a + 7.0;
    double y = a < 8.0 ? a + 8.0 : a, w = 1.0 / y, v = w * w;
    double r = td_klog_full(y) - 0.5 * w -
               v * TD_P6(v, 8.333333333333287e-2, -8.333333331195571e-3, 3.968252356593915e-3, -4.166220105280843e-3,
                         7.519267231648388e-3, -1.771573226494119e-2);
    r = a < 8.0 ? r - slope / product : r;
    td_half_turn t = td_khalf_turn(d);
    r = x < 0.0f ? r - 3.141592653589793 * t.cos / t.sin : r;
    r = x < 0.0f && t.sin == 0.0 ? (double)NAN : r;
    return x == 0.0f ? copysignf(INFINITY, -x) : (float)r;
}

/* As polygamma of order 0 is spelled for doubles. */
TD_FN float td_digamma_any_f32(float x)
{
    return td_digamma_f32(x);
}

/* The derivative of digamma: eight squares as one quotient. */
TD_FN float td_trigamma_f32(float x)
{
    double d = x, a = x < 0.0f ? 1.0 - d : d, under = a * a, over = 1.0, s;
    s = (a + 1.0) * (a + 1.0), over = over * s + under, under *= s;
    s = (a + 2.0) * (a + 2.0), over = over * s + under, under *= s;
    s = (a + 3.0) * (a + 3.0), over = over * s + under, under *= s;
    s = (a + 4.0) * (a + 4.0), over = over * s + under, under *= s;
    s = (a + 5.0) * (a + 5.0), over = over * s + under, under *= s;
    s = (a + 6.0) * (a + 6.0), over = over * s + under, under *= s;
    s = (a + 7.0) * (a + 7.0), over = over * s + under, under *= s;
    double y = a < 8.0 ? a + 8.0 : a, w = 1.0 / y, v = w * w;
    double r = w + 0.5 * v +
               w * v *
                   TD_P5(v, 0.1666666666662844, -3.33333321009554e-2, 2.380888579904957e-2, -3.321685020847679e-2,
                         6.691124438901561e-2);
    r = a < 8.0 ? r + over / under : r;
    s = 3.141592653589793 / td_khalf_turn(d).sin;
    return (float)(x < 0.0f ? s * s - r : r);
}

/* ---- the normal distribution and the error function */

/* The place that a normal variable is below with probability 1/2 + q, and is beyond with probability p, for p = 1/2 -
 * |q|, whose size is `tail` from |q| = 0.35 on. */
TD_FN double td_kndtri(double q, double p, double tail)
{
    double w = (q * q - 0.06125) * (1.0 / 0.06125);
    double middle = q * TD_P12(w, 2.6934860233533, 0.21839131673614, 3.8272894468995e-2, 8.3508512227225e-3,
                               2.0228405820692e-3, 5.2090337009406e-4, 1.3981585595802e-4, 3.8581534690434e-5,
                               1.0510969478199e-5, 2.9823398118833e-6, 1.1798800123331e-6, 3.5532104535784e-7);
    tail = p == 0.0 ? (double)INFINITY : tail;
    tail = q < 0.0 ? -tail : tail;
    return fabs(q) <= 0.35 ? middle : p >= 0.0 ? tail : (double)NAN;
}
/* r = sqrt(-log p) from 1.377 to 10.2, which is that of the smallest float. */
TD_FN float td_ndtri_f32(float x)
{
    double d = x, p = d < 0.5 ? d : 1.0 - d, r = sqrt(-td_klog_positive(p)), t = (r - 2.0) / (r + 2.0);
    double tail = r * TD_P14(t, 1.044924991564, 1.1714195557274, -1.7729147889534, 2.0690552888077, -2.2742815389336,
                             2.4201290757774, -2.5386083882104, 2.6392827989441, -2.7398348006315, 2.8008674116262,
                             -2.6210756965475, 1.9483863729692, -0.94926876785078, 0.21687685420152);
    return (float)td_kndtri(d - 0.5, p, tail);
}
/* A quotient in x^2 up to 0.9125; beyond, in r = sqrt(-log p) up to 4.2: the largest float below 1 has 4.17. */
TD_FN int td_erfinvmid_f32(float x)
{
    return fabsf(x) <= 0.9125f;
}
TD_FN float td_erfinv_mid_f32(float x)
{
    double d = x, z = d * d;
    double over = TD_P7(z, 0.88622692545276024, -2.9732799030696108, 3.8397141162832438, -2.3700272538977119,
                        0.69772479556500639, -0.082063593774349043, 0.0019127556600369247);
    return (float)(d * over /
                   TD_P7(z, 1.0, -3.6167864883656517, 5.1355941739571727, -3.5958780680520153, 1.2694512040408858,
                         -0.20220542174623577, 0.0099177640450099849));
}
TD_FN float td_erfinv_f32(float x)
{
    double p = 0.5 - 0.5 * fabs((double)x), r = sqrt(-td_klog_positive(p)),
           t = r * 0.82235911839013336 - 2.45390829723856;
    double tail = TD_P13(t, 2.574535217307599, 1.3210250243007035, -0.031422260238345902, 0.010004741449724209,
                         -0.0032996426550451691, 0.001114320213231774, -0.0003834542576612818, 0.00013523915613483563,
                         -4.7933695574625841e-5, 1.5143457510137577e-5, -5.4629997394153333e-6, 3.6320809950993299e-6,
                         -1.3497722487229418e-6);
    float far = copysignf(p > 0.0 ? (float)tail : p == 0.0 ? INFINITY : NAN, x);
    return td_erfinvmid_f32(x) ? td_erfinv_mid_f32(x) : far;
}

/* For a >= 0, as P(t) / (1 + 2a) with t = (a - 2) / (a + 2). */
TD_FN double td_kerfcx(double a)
{
    double b = a > 0x1p60 ? 0x1p60 : a, t = (b - 2.0) / (b + 2.0);
    return TD_P14(t, 1.276978381427, -9.2763822515065e-2, -0.16603038352631, 0.16405112686489, -5.4220266615194e-2,
                  -8.0323448823718e-3, 8.7246076400396e-3, 1.2632910619864e-3, -1.4640709111177e-3, -4.3438789756575e-4,
                  2.2157155060331e-4, 1.2454341815101e-4, -2.025598962584e-5, -1.8822756853802e-5) /
           (1.0 + 2.0 * a);
}
TD_FN float td_erfcx_f32(float x)
{
    double d = x, a = fabs(d), r = td_kerfcx(a); /* the square of a float is a double */
    return (float)(x < 0.0f ? 2.0 * td_kexp(a * a) - r : r);
}
TD_FN float td_log_ndtr_f32(float x)
{
    double d = x, a = 0.70710678118654752440 * fabs(d), e = 0.5 * td_kerfcx(a), square = 0.5 * d * d;
    double p = e * td_kexp(-square), l = td_klog(x < 0.0f ? e : 1.0 - p);
    double r = p < 0x1p-10 ? -p - p * p * (0.5 + p * (1.0 / 3 + p * 0.25)) : l;
    r = x < 0.0f ? l - square : r;
    return x == -INFINITY ? x : (float)r;
}

/* ---- modified Bessel functions: e^-|x| I(x) in |x| up to 8 and in 8 / |x| beyond; K in x^2 up to 2, with what the
 * logarithm takes to infinity apart (DLMF 10.31.1, 10.31.2), and e^x K(x) in 2 / x beyond */

TD_FN double td_ki0e(double a)
{
    double t = 0.25 * a - 1.0, v = 8.0 / a;
    double near =
        TD_P21(t, 0.20700192122687, -0.11300432653446, 9.4515627846369e-2, -8.9043467000543e-2, 8.7343443758266e-2,
               -8.4962831153397e-2, 7.9274798648667e-2, -6.9546591249412e-2, 5.6780420104457e-2, -4.2956915743849e-2,
               3.0162278410181e-2, -1.9776206071507e-2, 1.200488089266e-2, -6.6046194971555e-3, 3.5351598371843e-3,
               -2.0473450797671e-3, 9.5164820820036e-4, -2.0575934590193e-4, 9.4982886864682e-5, -1.3604737781951e-4,
               5.0729105675378e-5);
    double far = TD_P8(v, 0.39894228036909, 6.2334776423396e-3, 4.3818905266991e-4, 5.7934256616587e-5,
                       7.407211408975e-6, 1.0216726520736e-5, -7.2102119788679e-6, 4.0473414764339e-6) /
                 sqrt(a);
    return a <= 8.0 ? near : far;
}
TD_FN double td_ki1e(double a)
{
    double t = 0.25 * a - 1.0, v = 8.0 / a;
    double near =
        a * TD_P21(t, 4.4687709875924e-2, -6.1124337989135e-2, 6.8057599833633e-2, -6.8482609161899e-2,
                   6.3767406732567e-2, -5.5279975799421e-2, 4.4674525824233e-2, -3.3671978567365e-2, 2.3686388346182e-2,
                   -1.5567952954334e-2, 9.5822467069175e-3, -5.5453981439077e-3, 3.0106852061542e-3,
                   -1.5170915161859e-3, 7.3548920367614e-4, -3.6857200457152e-4, 1.5894533080722e-4,
                   -4.0710091850216e-5, 1.6755628726995e-5, -1.7467938500777e-5, 6.1531416422729e-6);
    double far = TD_P8(v, 0.39894228044121, -1.8700424849742e-2, -7.3036355144256e-4, -8.091410462571e-5,
                       -9.9587414059532e-6, -1.1945548030074e-5, 8.1720534243553e-6, -4.5791178442314e-6) /
                 sqrt(a);
    return a <= 8.0 ? near : far;
}
TD_FN float td_i0e_f32(float x)
{
    return (float)td_ki0e(fabs((double)x));
}
TD_FN float td_i1e_f32(float x)
{
    return copysignf((float)td_ki1e(fabs((double)x)), x);
}
TD_FN float td_i0_f32(float x)
{
    double a = fabs((double)x);
    return a > 700.0 ? INFINITY : (float)(td_ki0e(a) * td_kexp(a));
}
TD_FN float td_i1_f32(float x)
{
    double a = fabs((double)x);
    return copysignf(a > 700.0 ? INFINITY : (float)(td_ki1e(a) * td_kexp(a)), x);
}

typedef struct td_near_far {
    double near, far; /* K(x) up to 2, e^x K(x) beyond */
} td_near_far;
TD_FN td_near_far td_kk0(double x)
{
    double w = x * x, v = 2.0 / x, t = 2.0 * v - 1.0;
    td_near_far k;
    k.near = TD_P8(w, -0.57721566490158, 0.10569608377597, 1.4418505228794e-2, 5.4518997447506e-4, 1.0214000200267e-5,
                   1.1571091895541e-7, 8.7981032180667e-10, 5.1748476288168e-12) -
             td_klog(0.5 * x) * TD_P8(w, 0.99999999999998, 0.25000000000063, 1.5624999996683e-2, 4.3402778440295e-4,
                                      6.7816775335946e-6, 6.7820293720942e-8, 4.6993490971966e-10, 2.5574989510056e-12);
    k.far = TD_P11(t, 1.2185953384959, -3.1071462645647e-2, 3.0328930441579e-3, -4.7975304301231e-4, 9.9546553833206e-5,
                   -2.4821674586151e-5, 7.0595194332828e-6, -2.0049336571122e-6, 6.3956950220978e-7, -4.345688344036e-7,
                   1.831627408077e-7) /
            sqrt(x);
    return k;
}
TD_FN td_near_far td_kk1(double x)
{
    double w = x * x, v = 2.0 / x, t = 2.0 * v - 1.0;
    td_near_far k;
    k.near = TD_P8(w, 1.0000000000007, 3.860783242953e-2, -4.2049020832303e-2, -2.8371122060983e-3, -7.4930211199998e-5,
                   -1.0893340432505e-6, -1.007889627883e-8, -7.0574419631676e-11) /
                 x +
             td_klog(0.5 * x) * x *
                 TD_P7(w, 0.50000000000032, 6.2499999992257e-2, 2.6041666975971e-3, 5.4253425917761e-5,
                       6.7820137991801e-7, 5.6393710828025e-9, 3.5805533463996e-11);
    k.far = TD_P11(t, 1.3631518903914, 0.1033497387057, -5.5667312977727e-3, 7.3570557606829e-4, -1.395741348426e-4,
                   3.2944246439137e-5, -9.0270784717137e-6, 2.5136251812945e-6, -7.8789218641103e-7, 5.1585273733044e-7,
                   -2.1454616367831e-7) /
            sqrt(x);
    return k;
}
#define TD_MODIFIED(N)                                                                                                 \
    TD_FN float td_k##N##_f32(float x)                                                                                 \
    {                                                                                                                  \
        td_near_far k = td_kk##N(x);                                                                                   \
        double r = x <= 2.0f ? k.near : k.far * td_kexp(-(double)x);                                                   \
        return x > 0.0f ? (float)r : x == 0.0f ? INFINITY : NAN;                                                       \
    }                                                                                                                  \
    TD_FN float td_k##N##e_f32(float x)                                                                                \
    {                                                                                                                  \
        td_near_far k = td_kk##N(x);                                                                                   \
        double r = x <= 2.0f ? k.near * td_kexp(x) : k.far;                                                            \
        return x > 0.0f ? (float)r : x == 0.0f ? INFINITY : NAN;                                                       \
    }
TD_MODIFIED(0)
TD_MODIFIED(1)
#undef TD_MODIFIED

/* ---- Bessel functions: in x^2 up to 8, and beyond by the modulus and phase of Hankel's expansion (DLMF 10.17.3,
 * 10.17.4), whose P and Q are slow in (8 / x)^2 */

TD_FN int td_beyond_f32(float x) /* where the turns are too many to be taken off here */
{
    return fabsf(x) >= TD_TRIG_BIG;
}

/* sqrt(2 / (pi x)) times P and Q / x, with the sine and cosine of x / 1: J and Y are made of their products. */
typedef struct td_hankel {
    double p, q, sin, cos;
} td_hankel;
TD_FN td_hankel td_khankel(double a, double p, double q)
{
    td_trig t = td_ktrig(a);
    double sin = t.n & 1 ? t.cos : t.sin, cos = t.n & 1 ? t.sin : t.cos, size = sqrt(0.31830988618379067154 / a);
    td_hankel h = {size * p, size * q / a, t.n & 2 ? -sin : sin, (t.n + 1) & 2 ? -cos : cos};
    return h;
}
TD_FN td_hankel td_khankel0(double a)
{
    double v = 64.0 / (a * a);
    return td_khankel(a,
                      TD_P8(v, 0.9999999999999509, -1.098632805975634e-3, 2.738073977625027e-5, -2.182686370315967e-6,
                            3.566768545822893e-7, -8.89883236961211e-8, 2.292668990514123e-8, -3.52631101024288e-9),
                      TD_P9(v, -0.1249999999999601, 1.144409172960255e-3, -5.544610025000383e-5, 6.58866922683864e-6,
                            -1.441297365547866e-6, 4.733885676592746e-7, -1.783420012007317e-7, 5.468500932603143e-8,
                            -8.745984158131623e-9));
}
TD_FN td_hankel td_khankel1(double a)
{
    double v = 64.0 / (a * a);
    return td_khankel(a,
                      TD_P8(v, 1.000000000000053, 1.831054680444308e-3, -3.520383773883059e-5, 2.579663398592619e-6,
                            -4.045217737556156e-7, 9.871931174289731e-8, -2.515709411679929e-8, 3.84958096607686e-9),
                      TD_P9(v, 0.3749999999999573, -1.602172844358663e-3, 6.776748456508433e-5, -7.602485519760568e-6,
                            1.61143487602605e-6, -5.195454328241511e-7, 1.937556829841139e-7, -5.910795522535815e-8,
                            9.428734005520706e-9));
}
TD_FN double td_kj0_near(double t)
{
    return TD_P17(t, 4.58296648598137695e-2, 0.930301247295857124, -0.648469283087183639, -0.808088807669687211,
                  1.03837946114372107, -0.507468045847100037, 0.145988848567592637, -2.84727186108820456e-2,
                  4.05807898914099087e-3, -4.43545922431150286e-4, 3.84731978559443629e-5, -2.71774922363209801e-6,
                  1.5956109104549217e-7, -7.91532308295207015e-9, 3.36344757881736042e-10, -1.24330117127332599e-11,
                  4.00376328157967517e-13);
}
TD_FN double td_kj1_near(double t)
{
    return TD_P16(t, -5.81438279559910704e-2, 8.10586603858979549e-2, 0.151516651438066373, -0.259594865285930269,
                  0.15858376432721839, -5.47458182128472191e-2, 1.24568143922633755e-2, -2.02903949457059979e-3,
                  2.49494581359726077e-4, -2.40457486596869402e-5, 1.86845260372060122e-6, -1.1967081867878012e-7,
                  6.43119017726583563e-9, -2.94301379800165898e-10, 1.16589723676786215e-11, -4.0045728425886456e-13);
}
TD_FN int td_besselnear_f32(float x)
{
    return fabsf(x) <= 8.0f;
}
TD_FN float td_bessel_j0near_f32(float x)
{
    double a = fabs((double)x);
    return (float)td_kj0_near(a * a * (1.0 / 32) - 1.0);
}
TD_FN float td_bessel_j1near_f32(float x)
{
    double d = x;
    return (float)(d * td_kj1_near(d * d * (1.0 / 32) - 1.0));
}
TD_FN float td_bessel_j0_f32(float x)
{
    double a = fabs((double)x), t = a * a * (1.0 / 32) - 1.0;
    td_hankel h = td_khankel0(a);
    double far = h.p * (h.cos + h.sin) - h.q * (h.sin - h.cos);
    return (float)(a <= 8.0 ? td_kj0_near(t) : far);
}
TD_FN float td_bessel_j1_f32(float x)
{
    double a = fabs((double)x), t = a * a * (1.0 / 32) - 1.0;
    td_hankel h = td_khankel1(a);
    double far = h.p * (h.sin - h.cos) + h.q * (h.sin + h.cos);
    return (float)(a <= 8.0 ? x * td_kj1_near(t) : x < 0.0f ? -far : far);
}
TD_FN float td_bessel_y0_f32(float x)
{
    double a = x, t = a * a * (1.0 / 32) - 1.0;
    td_hankel h = td_khankel0(a);
    double far = h.p * (h.sin - h.cos) + h.q * (h.cos + h.sin);
    double near = TD_P17(t, -0.36202734323714522, -0.417920742320695216, 1.36094565996554571, -0.212459994420659428,
                         -0.619340782630335791, 0.448246044635631414, -0.154536796523105541, 3.38028569639960612e-2,
                         -5.23502767079899351e-3, 6.10434564379919391e-4, -5.58183046270651655e-5,
                         4.12205434835877238e-6, -2.51441070291691159e-7, 1.28980708964588725e-8,
                         -5.64626891509918754e-10, 2.14406080526363591e-11, -7.07336666707213785e-13) +
                  0.63661977236758134308 * td_klog_full(0.5 * a) * td_kj0_near(t);
    return x >= 0.0f ? (float)(a <= 8.0 ? near : far) : NAN;
}
TD_FN float td_bessel_y1_f32(float x)
{
    double a = x, t = a * a * (1.0 / 32) - 1.0;
    td_hankel h = td_khankel1(a);
    double far = h.q * (h.sin - h.cos) - h.p * (h.sin + h.cos);
    double near =
        a * TD_P16(t, 4.51026620686948313e-2, -0.207608578428306017, 9.02275063673092698e-2, 0.120520354268881612,
                   -0.126419950565697059, 5.43901163079462944e-2, -1.41319233942626752e-2, 2.52713404668281542e-3,
                   -3.33722570055739239e-4, 3.4063633753163958e-5, -2.77650569943309921e-6, 1.8524201840523818e-7,
                   -1.03152483581811804e-8, 4.87102079790770364e-10, -1.98505467307005807e-11,
                   6.99289847901874153e-13) +
        0.63661977236758134308 * (a * td_klog_full(0.5 * a) * td_kj1_near(t) - 1.0 / a);
    near = x == 0.0f ? -(double)INFINITY : near;
    return x >= 0.0f ? (float)(a <= 8.0 ? near : far) : NAN;
}
TD_FN float td_spherical_j0_f32(float x)
{
    td_trig t = td_ktrig(x);
    double s = t.n & 1 ? t.cos : t.sin;
    return x == 0.0f ? 1.0f : (float)((t.n & 2 ? -s : s) / (double)x);
}

/* What is beyond is left to the function of doubles. */
#define TD_ANYWHERE(NAME)                                                                                              \
    TD_FN float td_##NAME##_any_f32(float x)                                                                           \
    {                                                                                                                  \
        return td_beyond_f32(x) ? (float)td_##NAME##_f64(x) : td_##NAME##_f32(x);                                      \
    }
TD_ANYWHERE(bessel_j0)
TD_ANYWHERE(bessel_j1)
TD_ANYWHERE(bessel_y0)
TD_ANYWHERE(bessel_y1)
TD_ANYWHERE(spherical_j0)
#undef TD_ANYWHERE

#endif
