/* See scan.h. NaN is taken for the largest and for the smallest; of equal ones the last is said. */
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/reduce/scan.h"
#include "daemon/kernels/cpu/sets.h"
#include <complex.h>
#include <math.h>
#include <string.h>

enum { TOGETHER = TD_SCAN_TOGETHER };

/* across: element k of x belongs to line k, all at place i. along: all belong to one line, from place i on; some at a
 * time are looked at together, since mostly none of them is taken, and the next ones need not wait for each of them. */
#define BEST(T, NAME, TAKES)                                                                                           \
    static TD_FOR_SETS(                                                                                                \
        void, NAME##_across,                                                                                           \
        (T *restrict value, int64_t *restrict place, T *restrict x, int64_t *restrict to, int64_t n, int64_t i),       \
        (value, place, x, to, n, i))                                                                                   \
    {                                                                                                                  \
        for (int64_t k = 0; k < n; k++) {                                                                              \
            const T best = value[k], v = x[k];                                                                         \
            const bool take = TAKES;                                                                                   \
            x[k] = value[k] = take ? v : best;                                                                         \
            to[k] = place[k] = take ? i : place[k];                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    TD_INLINE bool NAME##_any(T best, const T *x)                                                                      \
    {                                                                                                                  \
        bool any = false;                                                                                              \
        for (int k = 0; k < TOGETHER; k++) {                                                                           \
            const T v = x[k];                                                                                          \
            any |= TAKES;                                                                                              \
        }                                                                                                              \
        return any;                                                                                                    \
    }                                                                                                                  \
    static TD_FOR_SETS(                                                                                                \
        void, NAME##_along,                                                                                            \
        (T *restrict value, int64_t *restrict place, T *restrict x, int64_t *restrict to, int64_t n, int64_t i),       \
        (value, place, x, to, n, i))                                                                                   \
    {                                                                                                                  \
        T best = *value;                                                                                               \
        int64_t at = *place;                                                                                           \
        for (int64_t k = 0, end; k < n; k = end) {                                                                     \
            end = td_min64(k + TOGETHER, n);                                                                           \
            if (end - k == TOGETHER && !NAME##_any(best, x + k)) {                                                     \
                for (int j = 0; j < TOGETHER; j++) x[k + j] = best;                                                    \
                for (int j = 0; j < TOGETHER; j++) to[k + j] = at;                                                     \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t j = k; j < end; j++) {                                                                        \
                const T v = x[j];                                                                                      \
                if (TAKES) best = v, at = i + j;                                                                       \
                x[j] = best;                                                                                           \
                to[j] = at;                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
        *value = best;                                                                                                 \
        *place = at;                                                                                                   \
    }
BEST(double, most_double, (v != v) | ((best == best) & (v >= best)))
BEST(double, least_double, (v != v) | ((best == best) & (v <= best)))
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

/* Before its first element the best of a line is that. */
static void begin(void *state, void *second, const void *x, int64_t lines)
{
    memcpy(state, x, 8 * (size_t)lines);
    memset(second, 0, 8 * (size_t)lines);
}

/* Across or along is known where this is called, and so is the step of each loop. */
TD_INLINE void fold(td_scan_kind kind, bool whole, bool along, void *state, void *x, int64_t *to, int64_t n, int64_t i)
{
    const int64_t lines = along ? 1 : n, step = !along;
    void *second = (char *)state + 8 * lines;
    if (kind == TD_SCAN_LOG) {
        logarithm(state, second, step, x, n, i);
        return;
    }
    if (kind == TD_SCAN_LOG_COMPLEX) {
        logarithm_complex(state, step, x, n, i);
        return;
    }
    if (i == 0) begin(state, second, x, lines);
#define EITHER(NAME) (along ? NAME##_along : NAME##_across)(state, second, x, to, n, i)
    if (whole && kind == TD_SCAN_MOST) EITHER(most_whole);
    else if (whole) EITHER(least_whole);
    else if (kind == TD_SCAN_MOST) EITHER(most_double);
    else EITHER(least_double);
#undef EITHER
}

void td_scan_across(td_scan_kind kind, bool whole, void *state, void *x, int64_t *places, int64_t n, int64_t i)
{
    fold(kind, whole, false, state, x, places, n, i);
}

void td_scan_along(td_scan_kind kind, bool whole, void *state, void *x, int64_t *places, int64_t n, int64_t i)
{
    fold(kind, whole, true, state, x, places, n, i);
}
