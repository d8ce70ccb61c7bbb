/* Mean and squared deviations of rows of any length. A block that lies in first-level cache is read twice, the second
 * time about a value near its mean, and blocks are joined in double (Chan, Golub and LeVeque, "Updating Formulae and a
 * Pairwise Algorithm for Computing Sample Variances", 1979): neither millions of elements nor a mean far from zero cost
 * digits. To be used inside functions built for several instruction sets. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_NORMS_MOMENTS_H
#define TENSORD_DAEMON_KERNELS_CPU_NORMS_MOMENTS_H

#include "daemon/kernels/cpu/lanes.h"

typedef struct td_moments {
    double n, mean, m2;
} td_moments;

static inline void td_moments_join(td_moments *s, double n, double mean, double m2)
{
    const double total = s->n + n, delta = mean - s->mean;
    s->mean += delta * n / total;
    s->m2 += m2 + delta * delta * s->n * n / total;
    s->n = total;
}

/* add: a row's elements, joined to what was seen. both: sums of y z and of (x - mean) y z (without z: of y), as
 * td_lanes_both, of a row of any length. */
#define TD_DEFINE_MOMENTS(T, s)                                                                                        \
    /* A block of w elements, of which these are the sums about a value near their mean. */                            \
    TD_INLINE void td_moments_block_##s(td_moments *m, T near, int64_t w, T sum, T square)                             \
    {                                                                                                                  \
        const double off = near - near == 0 ? (double)sum / (double)w : 0; /* an infinite mean stays */                \
        const double m2 = (double)square - off * off * (double)w;                                                      \
        td_moments_join(m, (double)w, (double)near + off, m2 < 0 ? 0 : m2);                                            \
    }                                                                                                                  \
    TD_INLINE void td_moments_add_##s(td_moments *m, const T *x, int64_t n)                                            \
    {                                                                                                                  \
        for (int64_t at = 0; at < n; at += TD_NORM_BLOCK) {                                                            \
            const int64_t w = td_min64(TD_NORM_BLOCK, n - at);                                                         \
            const T near = td_lanes_sum_##s(x + at, w) / (T)w;                                                         \
            T sum, square;                                                                                             \
            td_lanes_about_##s(x + at, near, w, &sum, &square);                                                        \
            td_moments_block_##s(m, near, w, sum, square);                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    TD_INLINE void td_blocks_both_##s(const T *x, T mean, const T *y, const T *z, int64_t n, double *sum, double *dot) \
    {                                                                                                                  \
        for (int64_t at = 0; at < n; at += TD_NORM_BLOCK) {                                                            \
            T a, b;                                                                                                    \
            td_lanes_both_##s(x + at, mean, y + at, z ? z + at : NULL, td_min64(TD_NORM_BLOCK, n - at), &a, &b);       \
            *sum += (double)a;                                                                                         \
            *dot += (double)b;                                                                                         \
        }                                                                                                              \
    }

TD_DEFINE_MOMENTS(float, f)
TD_DEFINE_MOMENTS(double, d)

#endif
