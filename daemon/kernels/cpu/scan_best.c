/* See scan.h. NaN is taken for the largest and for the smallest; of equal ones the last is said. */
#include "daemon/kernels/cpu/scan.h"
#include <complex.h>
#include <math.h>

/* Element k of x belongs to line k * step; with step 0 all belong to one line, at places from i on. */
#define BEST(T, NAME, TAKES)                                                                                           \
    static inline __attribute__((always_inline)) void NAME(T *value, int64_t *place, int64_t step, T *x, int64_t *to,  \
                                                           int64_t n, int64_t i)                                       \
    {                                                                                                                  \
        for (int64_t k = 0; k < n; k++) {                                                                              \
            T best = value[k * step], v = x[k];                                                                        \
            int64_t here = i + (step ? 0 : k), at = place[k * step];                                                   \
            bool take = here == 0 || (TAKES);                                                                          \
            x[k] = value[k * step] = take ? v : best;                                                                  \
            to[k] = place[k * step] = take ? here : at;                                                                \
        }                                                                                                              \
    }
BEST(double, most_double, v != v || (best == best && v >= best))
BEST(double, least_double, v != v || (best == best && v <= best))
BEST(int64_t, most_whole, v >= best)
BEST(int64_t, least_whole, v <= best)

/* log of the sum of e^v as most + log(sum of e^(v - most)). */
static inline __attribute__((always_inline)) void logarithm(double *most, double *sum, int64_t step, double *x,
                                                            int64_t n, int64_t i)
{
    for (int64_t k = 0; k < n; k++) {
        double v = x[k], m = most[k * step], s = sum[k * step];
        bool first = i + (step ? 0 : k) == 0;
        if (first) m = v, s = v != v ? v : 1;
        else if (v == m) s += 1;
        else if (v < m) s += exp(v - m);
        else s = s * exp(m - v) + 1, m = v;
        most[k * step] = m;
        sum[k * step] = s;
        x[k] = m + log(s);
    }
}

static double complex of_parts(double re, double im) /* CMPLX() is not everywhere */
{
    double complex z;
    __real__ z = re, __imag__ z = im;
    return z;
}

/* log(e^a + e^b), the larger real part put before the bracket; what e^-inf is multiplied by does not matter. */
static double complex log_of_two(double complex a, double complex b)
{
    if (isnan(creal(a) + cimag(a) + creal(b) + cimag(b))) return of_parts(NAN, NAN);
    if (creal(a) < creal(b)) return log_of_two(b, a);
    if (creal(b) == -INFINITY) return a;
    if (creal(b) == INFINITY) return clog(cexp(a) + cexp(b));
    double size = exp(creal(b) - creal(a)), angle = cimag(b) - cimag(a);
    double re = size * cos(angle), im = size * sin(angle);
    return a + of_parts(log1p(re * (2 + re) + im * im) / 2, atan2(im, 1 + re));
}

static void logarithm_complex(double complex *sum, int64_t step, double complex *x, int64_t n, int64_t i)
{
    for (int64_t k = 0; k < n; k++) {
        double complex *at = &sum[k * step];
        *at = i + (step ? 0 : k) == 0 ? x[k] : log_of_two(*at, x[k]);
        x[k] = *at;
    }
}

static inline __attribute__((always_inline)) void fold(td_scan_kind kind, bool whole, int64_t lines, int64_t step,
                                                       void *state, void *x, int64_t *to, int64_t n, int64_t i)
{
    void *second = (char *)state + 8 * lines;
    if (kind == TD_SCAN_LOG) logarithm(state, second, step, x, n, i);
    else if (kind == TD_SCAN_LOG_COMPLEX) logarithm_complex(state, step, x, n, i);
    else if (whole && kind == TD_SCAN_MOST) most_whole(state, second, step, x, to, n, i);
    else if (whole) least_whole(state, second, step, x, to, n, i);
    else if (kind == TD_SCAN_MOST) most_double(state, second, step, x, to, n, i);
    else least_double(state, second, step, x, to, n, i);
}

void td_scan_across(td_scan_kind kind, bool whole, void *state, void *x, int64_t *places, int64_t n, int64_t i)
{
    fold(kind, whole, n, 1, state, x, places, n, i);
}

void td_scan_along(td_scan_kind kind, bool whole, void *state, void *x, int64_t *places, int64_t n, int64_t i)
{
    fold(kind, whole, 1, 0, state, x, places, n, i);
}
