/* Bessel functions, plain and modified, and Airy's Ai.
 *
 * The modified ones and Ai are sums of Chebyshev polynomials in pieces (bessel_tables.h), of the function scaled by
 * what makes it even; the plain ones are the C library's. Invariant: e^x is taken in two halves where it would overflow
 * before the function. */
#include "daemon/kernels/cpu/vec/bessel_tables.h"
#include "daemon/kernels/cpu/vec/special.h"
#include <math.h>

/* e^-|x| I(x), of order 0 and 1. */
TD_SPECIAL double td_i0e_f64(double x)
{
    double a = fabs(x);
    return a <= 8 ? TD_CHEBYSHEV(td_i0_near, a, 0.0, 8.0) : TD_CHEBYSHEV(td_i0_far, 8 / a, 0.0, 1.0) / sqrt(a);
}
TD_SPECIAL double td_i1e_f64(double x)
{
    double a = fabs(x);
    double e = a <= 8 ? a * TD_CHEBYSHEV(td_i1_near, a, 0.0, 8.0) : TD_CHEBYSHEV(td_i1_far, 8 / a, 0.0, 1.0) / sqrt(a);
    return x < 0 ? -e : e;
}
TD_SPECIAL_PART double scaled_up(double a, double e)
{
    double half = exp(0.5 * a);
    return a == INFINITY ? (e < 0 ? -INFINITY : INFINITY) : half * e * half;
}
TD_SPECIAL double td_i0_f64(double x)
{
    return scaled_up(fabs(x), td_i0e_f64(x));
}
TD_SPECIAL double td_i1_f64(double x)
{
    return x == -INFINITY ? x : scaled_up(fabs(x), td_i1e_f64(x));
}

/* log(x / 2), also of an x whose half is 0. */
TD_SPECIAL_PART double log_half(double x)
{
    return x < 0x1p-1000 ? log(x) - M_LN2 : log(0.5 * x);
}
/* K of order 0 and 1 up to 2; what the logarithm takes to infinity is apart. */
TD_SPECIAL_PART double k0_near(double x)
{
    return TD_CHEBYSHEV(td_k0_near, x * x, 0.0, 4.0) - log_half(x) * td_i0_f64(x);
}
TD_SPECIAL_PART double k1_near(double x)
{
    return TD_CHEBYSHEV(td_k1_near, x * x, 0.0, 4.0) / x + log_half(x) * td_i1_f64(x);
}
TD_SPECIAL double td_k0e_f64(double x)
{
    if (!(x > 0)) return x == 0 ? INFINITY : NAN;
    return x <= 2 ? k0_near(x) * exp(x) : TD_CHEBYSHEV(td_k0_far, 2 / x, 0.0, 1.0) / sqrt(x);
}
TD_SPECIAL double td_k1e_f64(double x)
{
    if (!(x > 0)) return x == 0 ? INFINITY : NAN;
    return x <= 2 ? k1_near(x) * exp(x) : TD_CHEBYSHEV(td_k1_far, 2 / x, 0.0, 1.0) / sqrt(x);
}
TD_SPECIAL double td_k0_f64(double x)
{
    return x > 0 && x <= 2 ? k0_near(x) : td_k0e_f64(x) * (x > 2 ? exp(-x) : 1);
}
TD_SPECIAL double td_k1_f64(double x)
{
    return x > 0 && x <= 2 ? k1_near(x) : td_k1e_f64(x) * (x > 2 ? exp(-x) : 1);
}

TD_SPECIAL double td_bessel_j0_f64(double x)
{
    return j0(x);
}
TD_SPECIAL double td_bessel_j1_f64(double x)
{
    return j1(x);
}
TD_SPECIAL double td_bessel_y0_f64(double x)
{
    return x < 0 ? NAN : y0(x);
}
TD_SPECIAL double td_bessel_y1_f64(double x)
{
    return x < 0 ? NAN : y1(x);
}

TD_SPECIAL double td_spherical_j0_f64(double x)
{
    if (isinf(x)) return 0;
    if (fabs(x) > 0.5) return sin(x) / x;
    double w = x * x, sum = 0;
    for (int k = 8; k >= 1; k--) sum = (1 - sum) * w / ((2 * k) * (2 * k + 1));
    return 1 - sum;
}

/* DLMF 9.7: e^-z, and below zero the cosine and sine of z, times slow functions of z = 2/3 |x|^(3/2). */
TD_SPECIAL_PART double airy_above(double x)
{
    double z = 2.0 / 3 * x * sqrt(x), end = 2.0 / 3 * 2.82842712474619009760;
    return 0.28209479177387814347 * exp(-z) / sqrt(sqrt(x)) * TD_CHEBYSHEV(td_airy_far, end / z, 0.0, 1.0);
}
TD_SPECIAL_PART double airy_below(double a)
{
    double z = 2.0 / 3 * a * sqrt(a), end = 2.0 / 3 * 14.69693845669906858918, w = end / z * (end / z);
    double p = TD_CHEBYSHEV(td_airy_p, w, 0.0, 1.0), q = TD_CHEBYSHEV(td_airy_q, w, 0.0, 1.0) / z;
    double angle = z - M_PI_4;
    return 0.56418958354775628695 / sqrt(sqrt(a)) * (cos(angle) * p + sin(angle) * q);
}
TD_SPECIAL double td_airy_ai_f64(double x)
{
    if (isinf(x) || x != x) return NAN;
    if (x > 2) return airy_above(x);
    if (x >= 0) return exp(-x) * TD_CHEBYSHEV(td_airy_near, x, 0.0, 2.0);
    if (x >= -2) return TD_CHEBYSHEV(td_airy_m1, x, -2.0, 0.0);
    if (x >= -4) return TD_CHEBYSHEV(td_airy_m2, x, -4.0, -2.0);
    return x >= -6 ? TD_CHEBYSHEV(td_airy_m3, x, -6.0, -4.0) : airy_below(-x);
}
