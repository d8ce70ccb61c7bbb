/* The regularized incomplete gamma functions P(a, x) and Q(a, x) = 1 - P.
 *
 * By a series below a + 1, by a continued fraction above, by Temme's uniform expansion where a is large and x near it
 * (DLMF 8.7, 8.9, 8.12). The smaller of both is what is worked out, the other is 1 less it. Floats end their sums
 * earlier and have a shorter factor before them: 10 digits are enough. Invariant: sums end after TD_MOST terms. */
#include "daemon/kernels/cpu/vec/special.h"
#include "daemon/kernels/cpu/vec/special_f32.h"
#include "daemon/kernels/cpu/vec/special_tables.h"
#include <math.h>
#include <stdbool.h>

#define TD_MOST 2000

/* log(1 + t) - t. */
TD_SPECIAL_PART double log1p_less(double t)
{
    if (fabs(t) > 0.5) return log1p(t) - t;
    double r = t / (2 + t), w = r * r, sum = 0;
    for (int k = 17; k >= 1; k--) sum = sum * w + 1.0 / (2 * k + 1);
    return 2 * r * w * sum - t * r;
}

/* log gamma(1 + a) for |a| < 1/4: the zeta numbers less 1, divided by their place; what is taken off is log(1 + a) - a.
 */
TD_SPECIAL_PART double lgamma1p(double a)
{
    static const double c[] = {
        0.322467033424113218,     0.0673523010531980951,    0.0205808084277845479,    0.00738555102867398527,
        0.00289051033074152329,   0.00119275391170326098,   0.000509669524743042422,  0.00022315475845357938,
        0.0000994575127818085337, 0.0000449262367381331417, 0.0000205072127756706916, 9.4394882752683959e-6,
        4.3748667899074878e-6,    2.03921575380136624e-6,   9.55141213040741983e-7,   4.49246919876456604e-7,
        2.12071848055546659e-7,   1.00432248239680996e-7,   4.76981016936398057e-8,   2.27110946089431649e-8};
    double sum = 0;
    for (int k = (int)(sizeof c / sizeof *c) - 1; k >= 0; k--) sum = c[k] - sum * a;
    return sum * a * a - 0.57721566490153286061 * a - log1p_less(a);
}

/* log of gamma(a) over Stirling's formula. */
TD_SPECIAL_PART double stirling_rest(double a)
{
    static const double c[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156};
    double w = 1 / (a * a), sum = 0;
    for (int k = 6; k >= 0; k--) sum = sum * w + c[k];
    return sum / a;
}

/* x^a e^-x / gamma(a + 1), without losing digits to large logarithms. */
TD_SPECIAL_PART double front(double a, double x)
{
    double power = a < 140 && x < 700 ? pow(x, a) : 0;
    if (power > 1e-290 && power < 1e290) return power / tgamma(a + 1) * exp(-x);
    if (a >= 10) return exp(a * log1p_less((x - a) / a) - stirling_rest(a)) / sqrt(2 * M_PI * a);
    return exp(a * log(x) - x - td_lgamma_f64(a + 1));
}

/* The same with 10 digits, of exponents that are small where it counts: gamma(a + 7) by Stirling's series, and the six
 * factors that it has more. */
TD_SPECIAL_PART double front_few(double a, double x)
{
    bool near = a < 7;
    double b = a + 1, factors = near ? td_kgamma_six(b) : 1, y = near ? b + 6 : b, w = 1 / y, v = w * w;
    double less = 0.91893853320467274178 + w * (1.0 / 12 - v * (1.0 / 360 - v * (1.0 / 1260 - v * (1.0 / 1680))));
    return exp(a * log(x) - (y - 0.5) * log(y) + (y - x) - less) * factors;
}

TD_SPECIAL_PART double series(double a, double x, bool few)
{
    double term = 1, sum = 1, least = few ? 1e-10 : 1e-17;
    for (int k = 1; k < TD_MOST && term > least * sum; k++) {
        term *= x / (a + k);
        sum += term;
    }
    return (few ? front_few(a, x) : front(a, x)) * sum;
}

/* By Lentz' method; every denominator is positive. */
TD_SPECIAL_PART double fraction(double a, double x, bool few)
{
    double enough = few ? 1e-10 : 1e-16;
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int k = 1; k < TD_MOST; k++) {
        double an = -k * (k - a);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        double by = c * d;
        h *= by;
        if (fabs(by - 1) < enough) break;
    }
    return (few ? front_few(a, x) : front(a, x)) * a * h;
}

/* Q for small x, where P may be all but 1. */
TD_SPECIAL_PART double small_rest(double a, double x)
{
    double sum = 0, term = 1, l = a * log(x) - (a < 0.25 ? lgamma1p(a) : td_lgamma_f64(a + 1));
    for (int k = 1; k < 60; k++) {
        term *= -x / k;
        sum += term / (a + k);
        if (fabs(term) < 1e-18) break;
    }
    return -expm1(l) - a * exp(l) * sum;
}

TD_SPECIAL_PART double temme(double a, double x, bool upper)
{
    double mu = (x - a) / a, half = -log1p_less(mu), eta = copysign(sqrt(2 * half), mu), power = 1, sum = 0;
    for (int k = 0; k < TD_TEMME_ORDERS; k++) {
        double c = 0;
        for (int n = TD_TEMME_POWERS - 1; n >= 0; n--) c = c * eta + td_temme[k][n];
        sum += c * power;
        power /= a;
    }
    double rest = exp(-a * half) / sqrt(2 * M_PI * a) * sum, t = eta * sqrt(0.5 * a);
    return upper ? 0.5 * erfc(t) + rest : 0.5 * erfc(-t) - rest;
}

TD_SPECIAL_PART double regularized(double a, double x, bool upper, bool few)
{
    double off = fabs(x - a) / a;
    if ((a > 20 && off < 0.3) || (a > 200 && off < 4.5 / sqrt(a))) return temme(a, x, upper);
    if (x <= 1.1 && x < a + 1 && upper && (!few || a < 0.25)) return small_rest(a, x);
    bool by_fraction = x >= a + 1;
    double part = by_fraction ? fraction(a, x, few) : series(a, x, few);
    return by_fraction == upper ? part : 1 - part;
}

TD_SPECIAL_PART double at_ends(double a, double x, bool upper, bool few)
{
    if (!(a >= 0 && x >= 0)) return NAN;
    if (a == 0) return x > 0 ? !upper : NAN;
    if (x == 0) return upper;
    if (isinf(a)) return isinf(x) ? NAN : upper;
    if (isinf(x)) return !upper;
    return regularized(a, x, upper, few);
}

TD_SPECIAL double td_igamma_f64(double a, double x)
{
    return at_ends(a, x, false, false);
}
TD_SPECIAL double td_igammac_f64(double a, double x)
{
    return at_ends(a, x, true, false);
}
TD_SPECIAL float td_igamma_f32(float a, float x)
{
    return (float)at_ends(a, x, false, true);
}
TD_SPECIAL float td_igammac_f32(float a, float x)
{
    return (float)at_ends(a, x, true, true);
}
