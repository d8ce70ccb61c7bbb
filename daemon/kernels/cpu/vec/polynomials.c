/* Orthogonal polynomials of whole orders n, given as a number and cut off; below 0 they are 0.
 *
 * Chebyshev's by their angle between -1 and 1 from order 7 on, by the hyperbolic one outside where the recurrence is
 * long; the others by their recurrence, which is bounded by TD_ORDER_MOST. */
#include "daemon/kernels/cpu/vec/special.h"
#include <math.h>

/* p(k + 1) = 2 x p(k) - p(k - 1), from p(0) = 1 and p(1) = first. */
TD_SPECIAL_PART double chebyshev(double x, double n, double first)
{
    double before = 1, now = first;
    if (n < 1) return 1;
    for (int k = 1; k < (int)n; k++) {
        double next = 2 * x * now - before;
        before = now;
        now = next;
    }
    return now;
}

TD_SPECIAL_PART double by_sign(double x, double n, double value)
{
    return x < 0 && fmod(n, 2.0) != 0 ? -value : value;
}

TD_SPECIAL double td_chebyshev_t_f64(double x, double n)
{
    n = trunc(n);
    if (!(n >= 0)) return n < 0 ? 0 : NAN;
    if (fabs(x) <= 1 && n > 6) return cos(n * acos(x));
    return n > TD_ORDER_MOST ? by_sign(x, n, cosh(n * acosh(fabs(x)))) : chebyshev(x, n, x);
}

TD_SPECIAL double td_chebyshev_u_f64(double x, double n)
{
    n = trunc(n);
    if (!(n >= 0)) return n < 0 ? 0 : NAN;
    if (fabs(x) == 1) return by_sign(x, n, n + 1);
    if (fabs(x) < 1 && n > 8) return sin((n + 1) * acos(x)) / sin(acos(x));
    double t = n > TD_ORDER_MOST ? acosh(fabs(x)) : 0;
    return n > TD_ORDER_MOST ? by_sign(x, n, sinh((n + 1) * t) / sinh(t)) : chebyshev(x, n, 2 * x);
}

TD_SPECIAL double td_chebyshev_v_f64(double x, double n)
{
    n = trunc(n);
    if (!(n >= 0)) return n < 0 ? 0 : NAN;
    if (fabs(x) == 1) return x > 0 ? 1 : by_sign(x, n, 2 * n + 1);
    if (fabs(x) < 1 && n > 8) return cos((n + 0.5) * acos(x)) / cos(0.5 * acos(x));
    if (n <= TD_ORDER_MOST) return chebyshev(x, n, 2 * x - 1);
    double t = acosh(fabs(x));
    return x > 0 ? cosh((n + 0.5) * t) / cosh(0.5 * t) : by_sign(x, n, sinh((n + 0.5) * t) / sinh(0.5 * t));
}

TD_SPECIAL double td_chebyshev_w_f64(double x, double n)
{
    return by_sign(-1, trunc(n), td_chebyshev_v_f64(-x, n));
}

/* p(k + 1) = (a x + b) p(k) - c p(k - 1), where a, b and c are of k by the family. */
enum { HERMITE_H, HERMITE_HE, LAGUERRE, LEGENDRE };
TD_SPECIAL_PART double recurrence(int family, double x, double n)
{
    n = trunc(n);
    if (!(n >= 0)) return n < 0 ? 0 : NAN;
    if (n > TD_ORDER_MOST) return NAN;
    double before = 0, now = 1;
    for (int k = 0; k < (int)n; k++) {
        double next = family == HERMITE_H    ? 2 * x * now - 2 * k * before
                      : family == HERMITE_HE ? x * now - k * before
                      : family == LAGUERRE   ? ((2 * k + 1 - x) * now - k * before) / (k + 1)
                                             : ((2 * k + 1) * x * now - k * before) / (k + 1);
        before = now;
        now = next;
    }
    return now;
}

TD_SPECIAL double td_hermite_h_f64(double x, double n)
{
    return recurrence(HERMITE_H, x, n);
}
TD_SPECIAL double td_hermite_he_f64(double x, double n)
{
    return recurrence(HERMITE_HE, x, n);
}
TD_SPECIAL double td_laguerre_l_f64(double x, double n)
{
    return recurrence(LAGUERRE, x, n);
}
TD_SPECIAL double td_legendre_p_f64(double x, double n)
{
    return recurrence(LEGENDRE, x, n);
}
