/* The gamma function's logarithm and its derivatives, and Hurwitz' zeta function.
 *
 * Recurrences lead to where an asymptotic series has all digits, reflections to positive arguments. Invariant: how many
 * steps that takes is bounded for every argument, however large or far below zero. */
#include "daemon/kernels/cpu/vec/special.h"
#include <math.h>
#include <stdbool.h>

#ifndef lgamma_r /* no macro of a device that has none */
double lgamma_r(double x, int *sign);
#endif

TD_SPECIAL double td_lgamma_f64(double x)
{
    int sign;
    return lgamma_r(x, &sign); /* lgamma would write a variable that all threads share */
}

/* DLMF 5.11.2, from 10 on. */
TD_SPECIAL_PART double digamma_far(double x)
{
    static const double c[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
    double w = 1 / (x * x), sum = 0;
    for (int k = 6; k >= 0; k--) sum = (sum + c[k]) * w;
    return log(x) - 0.5 / x - sum;
}

TD_SPECIAL double td_digamma_f64(double x)
{
    double rest = 0;
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0) {
        if (x == trunc(x)) return NAN;
        rest = -M_PI / tan(M_PI * (x - rint(x)));
        x = 1 - x;
    }
    while (x < 10) {
        rest -= 1 / x;
        x += 1;
    }
    return digamma_far(x) + rest;
}

/* The terms of Euler and Maclaurin behind the sum up to a (DLMF 25.11.5): B(2j) / (2j)! s (s+1) ... (s+2j-2)
 * a^(1-s-2j). */
TD_SPECIAL_PART double zeta_rest(double s, double a)
{
    static const double c[] = {1.0 / 12,
                               -1.0 / 720,
                               1.0 / 30240,
                               -1.0 / 1209600,
                               1.0 / 47900160,
                               -691.0 / 1307674368000,
                               1.0 / 74724249600,
                               -3617.0 / 10670622842880000,
                               43867.0 / 5109094217170944000};
    double power = pow(a, -s), factor = s * power / a, sum = a * power / (s - 1) + 0.5 * power;
    for (int j = 0; j < 9; j++) {
        sum += c[j] * factor;
        factor *= (s + 2 * j + 1) * (s + 2 * j + 2) / (a * a);
    }
    return sum;
}

/* For s > 1 and q > 0. Terms fall by q / (q + 1) to the power of s, or soon are 0 where q is small beside s: some forty
 * are enough. */
TD_SPECIAL_PART double zeta_positive(double s, double q)
{
    double sum = 0;
    for (int k = 0; k < 400; k++) {
        double term = pow(q, -s);
        if (term == 0) return sum;
        if (q >= 10 + s) return sum + zeta_rest(s, q);
        sum += term;
        if (term <= 1e-17 * sum) return sum;
        q += 1;
    }
    return sum;
}

/* Below zero for whole s: the terms up to -f are those of a zeta function cut off, with the sign of (-1)^s. */
TD_SPECIAL_PART double zeta_negative(double s, double q)
{
    double f = ceil(q) - q, part = zeta_positive(s, f) - zeta_positive(s, 1 - q);
    return zeta_positive(s, 1 - f) + (fmod(s, 2.0) == 0 ? part : -part);
}

TD_SPECIAL double td_zeta_f64(double s, double q)
{
    if (s == 1) return INFINITY;
    if (!(s > 1) || q != q) return NAN;
    if (q > 0) return zeta_positive(s, q);
    if (q == floor(q)) return INFINITY;
    return s == floor(s) ? zeta_negative(s, q) : NAN;
}

/* DLMF 5.15.8 from 10 on, 5.15.6 below zero. */
TD_SPECIAL double td_trigamma_f64(double x)
{
    static const double c[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
    double rest = 0, sign = 1;
    if (x <= 0) {
        if (x == trunc(x)) return x == -INFINITY ? NAN : INFINITY;
        double s = M_PI / sin(M_PI * (x - rint(x)));
        rest = s * s;
        sign = -1;
        x = 1 - x;
    }
    while (x < 10) {
        rest += sign / (x * x);
        x += 1;
    }
    double w = 1 / x, v = w * w, sum = 0;
    for (int k = 6; k >= 0; k--) sum = (sum + c[k]) * v;
    return rest + sign * w * (1 + 0.5 * w + sum);
}

TD_SPECIAL double td_polygamma_f64(double n, double x)
{
    if (n < 0) return NAN;
    if (n == 0) return td_digamma_f64(x);
    if (n == 1) return td_trigamma_f64(x);
    double size =
        n < 100 ? tgamma(n + 1) * td_zeta_f64(n + 1, x) : exp(td_lgamma_f64(n + 1) + log(td_zeta_f64(n + 1, x)));
    return fmod(n, 2.0) == 0 ? -size : size;
}
