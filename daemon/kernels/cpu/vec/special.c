/* The scaled error function, the inverse of the error function and of the normal distribution, and the latter's
 * logarithm.
 *
 * Invariant: tails are never taken as a difference from 1, so they have all their digits however small they are. */
#include "daemon/kernels/cpu/vec/special.h"
#include "daemon/kernels/cpu/vec/special_tables.h"
#include <math.h>

/* e^(x^2): the square's rounding error, which the exponential would multiply by the square, is put back. */
TD_SPECIAL_PART double exp_square(double x)
{
    double square = x * x;
    return exp(square) * (1 + fma(x, x, -square));
}

/* (1 + 2x) erfcx(x) over (x - 4) / (x + 4). */
TD_SPECIAL double td_erfcx_f64(double x)
{
    if (x != x) return x;
    if (x < -26.7) return INFINITY;
    if (x < 0) return 2 * exp_square(x) - td_erfcx_f64(-x);
    if (x > 1e8) return 0.56418958354775628695 / x;
    return TD_CHEBYSHEV(td_scaled_erfc, (x - 4) / (x + 4), -1.0, 1.0) / (1 + 2 * x);
}

/* Minus the place that a normal variable is below with probability e^(-r^2), for r >= 1.6. */
TD_SPECIAL_PART double tail(double r)
{
    return r <= 5 ? TD_CHEBYSHEV(td_ndtri_tail, r, 1.6, 5.0) : TD_CHEBYSHEV(td_ndtri_far, r, 5.0, 27.5);
}
/* The place that it is below with probability 1/2 + q, for |q| <= 0.425. */
TD_SPECIAL_PART double middle(double q)
{
    return q * TD_CHEBYSHEV(td_ndtri_mid, q * q, 0.0, 0.180625);
}

TD_SPECIAL double td_ndtri_f64(double p)
{
    if (!(p >= 0 && p <= 1)) return NAN;
    if (p == 0 || p == 1) return p == 0 ? -INFINITY : INFINITY;
    if (fabs(p - 0.5) <= 0.425) return middle(p - 0.5);
    return p < 0.5 ? -tail(sqrt(-log(p))) : tail(sqrt(-log(1 - p)));
}

TD_SPECIAL double td_erfinv_f64(double x)
{
    double a = fabs(x);
    if (!(a <= 1)) return NAN;
    if (a == 1) return copysign(INFINITY, x);
    double r = a <= 0.85 ? middle(0.5 * x) : copysign(tail(sqrt(-log(0.5 * (1 - a)))), x);
    return r * 0.70710678118654752440;
}

/* e^(-x^2 / 2) by the same means: a library's erfc would multiply what x / sqrt(2) lost. */
TD_SPECIAL double td_log_ndtr_f64(double x)
{
    double half = 0.5 * x, square = half * x, e = 0.5 * td_erfcx_f64(0.70710678118654752440 * fabs(x));
    if (x < 0) return log(e) - square;
    double less = fma(half, x, -square);
    return x != x ? x : log1p(-e * exp(-square) * (square < 800 ? 1 - less : 1));
}
