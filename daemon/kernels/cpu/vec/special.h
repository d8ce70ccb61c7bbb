/* The special functions that expressions of the op table may call: functions of doubles, element by element, built
 * once. Those of floats are theirs, rounded, or of special_f32.h, which is written for vectors. Each is within some
 * units in the last place of the true value but near a zero that is none of the variable's own
 * (tests/python/core/test_math.py and tests/oracle hold them to it); domains and limits are PyTorch's. No loop in them
 * is longer for an argument that is out of the ordinary: every one has a bound. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_SPECIAL_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_SPECIAL_H

#include <stdint.h>

#ifndef TD_SPECIAL
#define TD_SPECIAL             /* a function that stands once */
#define TD_SPECIAL_PART static /* one that it calls */
#define TD_SPECIAL_INLINE static inline __attribute__((unused))
#define TD_TABLE static const double
#endif

/* Orders of Hermite, Laguerre and Legendre polynomials beyond this one are NaN. */
#define TD_ORDER_MOST 1024

/* F1(name): of one variable; F2(name): of two. Those that loops over floats call, too, and those of which floats have
 * their own (special_f32.h). */
#define TD_SPECIAL_CALLED(F1, F2)                                                                                      \
    F2(polygamma)                                                                                                      \
    F2(zeta)    /* gamma.c */                                                                                          \
    F1(airy_ai) /* bessel.c */                                                                                         \
    F2(chebyshev_t)                                                                                                    \
    F2(chebyshev_u)                                                                                                    \
    F2(chebyshev_v) F2(chebyshev_w) /* polynomials.c */                                                                \
        F2(hermite_h) F2(hermite_he) F2(laguerre_l) F2(legendre_p)
#define TD_SPECIAL_DOUBLE(F1)                                                                                          \
    F1(trigamma)                                                                                                       \
    TD_SPECIAL_WIDE(F1)
/* Those of which loops over doubles have their own, too, where arithmetic is fused (special_f64.h, bessel_f64.h). */
#define TD_SPECIAL_WIDE(F1)                                                                                            \
    F1(lgamma)                                                                                                         \
    F1(digamma) /* gamma.c */                                                                                          \
    F1(erfcx)                                                                                                          \
    F1(erfinv)                                                                                                         \
    F1(ndtri) F1(log_ndtr)                                          /* special.c */                                    \
        F1(i0) F1(i0e) F1(i1) F1(i1e) F1(k0) F1(k1) F1(k0e) F1(k1e) /* bessel.c */                                     \
        F1(bessel_j0) F1(bessel_j1) F1(bessel_y0) F1(bessel_y1) F1(spherical_j0)

#define TD_SPECIAL_1(NAME) TD_SPECIAL double td_##NAME##_f64(double x);
#define TD_SPECIAL_2(NAME) TD_SPECIAL double td_##NAME##_f64(double x, double y);
TD_SPECIAL_CALLED(TD_SPECIAL_1, TD_SPECIAL_2)
TD_SPECIAL_DOUBLE(TD_SPECIAL_1)
#undef TD_SPECIAL_1
#undef TD_SPECIAL_2
TD_SPECIAL double td_fmodfar_f64(double x, double y); /* remainder.c */
TD_SPECIAL double td_igamma_f64(double a, double x);  /* incomplete_gamma.c */
TD_SPECIAL double td_igammac_f64(double a, double x);
TD_SPECIAL float td_igamma_f32(float a, float x);
TD_SPECIAL float td_igammac_f32(float a, float x);

#define TD_SPECIAL_1(NAME)                                                                                             \
    TD_SPECIAL_INLINE float td_##NAME##_f32(float x)                                                                   \
    {                                                                                                                  \
        return (float)td_##NAME##_f64(x);                                                                              \
    }
#define TD_SPECIAL_2(NAME)                                                                                             \
    TD_SPECIAL_INLINE float td_##NAME##_f32(float x, float y)                                                          \
    {                                                                                                                  \
        return (float)td_##NAME##_f64(x, y);                                                                           \
    }
TD_SPECIAL_CALLED(TD_SPECIAL_1, TD_SPECIAL_2)
#undef TD_SPECIAL_1
#undef TD_SPECIAL_2

/* The sum of c[k] T_k(t) for -1 <= t <= 1, by Clenshaw's recurrence. */
TD_SPECIAL_INLINE double td_chebyshev_sum(const double *c, int n, double t)
{
    double a = 0, b = 0;
    for (int k = n - 1; k > 0; k--) {
        double next = 2 * t * a - b + c[k];
        b = a;
        a = next;
    }
    return t * a - b + c[0];
}
/* Of a table whose interval [low, high] is mapped to [-1, 1]. */
#define TD_CHEBYSHEV(table, x, low, high)                                                                              \
    td_chebyshev_sum(table, (int)(sizeof(table) / sizeof *(table)), (2 * (x) - ((low) + (high))) / ((high) - (low)))

#endif
