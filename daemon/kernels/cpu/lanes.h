/* Sums over a vector in a fixed number of lanes: vectorises without reordering, so every instruction set gives the same
 * tree. To be used inside functions built for several instruction sets; all are always inlined. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_LANES_H
#define TENSORD_DAEMON_KERNELS_CPU_LANES_H

#include "daemon/kernels/cpu/plan.h"

#define TD_LANES_LOOP(T, n, term)                                                                                      \
    T acc[TD_LANES] = {0};                                                                                             \
    int64_t i = 0;                                                                                                     \
    for (; i + TD_LANES <= (n); i += TD_LANES)                                                                         \
        for (int64_t j = 0; j < TD_LANES; j++) acc[j] += (term);                                                       \
    for (int64_t j = 0; j < (n)-i; j++) acc[j] += (term);                                                              \
    for (int w = TD_LANES / 2; w > 0; w /= 2)                                                                          \
        for (int j = 0; j < w; j++) acc[j] += acc[j + w];                                                              \
    return acc[0]

#define TD_DEFINE_LANES(T, s)                                                                                          \
    TD_INLINE T td_lanes_sum_##s(const T *x, int64_t n)                                                                \
    {                                                                                                                  \
        TD_LANES_LOOP(T, n, x[i + j]);                                                                                 \
    }                                                                                                                  \
    /* Sums of x - mean and of its square, reading once. */                                                            \
    TD_INLINE void td_lanes_about_##s(const T *x, T mean, int64_t n, T *sum, T *square)                                \
    {                                                                                                                  \
        T a[TD_LANES] = {0}, b[TD_LANES] = {0};                                                                        \
        int64_t i = 0;                                                                                                 \
        for (; i + TD_LANES <= n; i += TD_LANES)                                                                       \
            for (int64_t j = 0; j < TD_LANES; j++) {                                                                   \
                const T v = x[i + j] - mean;                                                                           \
                a[j] += v;                                                                                             \
                b[j] += v * v;                                                                                         \
            }                                                                                                          \
        for (int64_t j = 0; j < n - i; j++) {                                                                          \
            const T v = x[i + j] - mean;                                                                               \
            a[j] += v;                                                                                                 \
            b[j] += v * v;                                                                                             \
        }                                                                                                              \
        for (int w = TD_LANES / 2; w > 0; w /= 2)                                                                      \
            for (int j = 0; j < w; j++) a[j] += a[j + w], b[j] += b[j + w];                                            \
        *sum = a[0];                                                                                                   \
        *square = b[0];                                                                                                \
    }                                                                                                                  \
    /* Both the sum of y z (of y, without z) and that of (x - mean) y z, reading once. */                              \
    TD_INLINE void td_lanes_both_##s(const T *x, T mean, const T *y, const T *z, int64_t n, T *sum, T *dot)            \
    {                                                                                                                  \
        T a[TD_LANES] = {0}, b[TD_LANES] = {0};                                                                        \
        for (int64_t i = 0; i < n; i += TD_LANES) {                                                                    \
            const int64_t m = n - i < TD_LANES ? n - i : TD_LANES;                                                     \
            if (m == TD_LANES)                                                                                         \
                for (int64_t j = 0; j < TD_LANES; j++) {                                                               \
                    const T v = z ? y[i + j] * z[i + j] : y[i + j];                                                    \
                    a[j] += v;                                                                                         \
                    b[j] += (x[i + j] - mean) * v;                                                                     \
                }                                                                                                      \
            else                                                                                                       \
                for (int64_t j = 0; j < m; j++) {                                                                      \
                    const T v = z ? y[i + j] * z[i + j] : y[i + j];                                                    \
                    a[j] += v;                                                                                         \
                    b[j] += (x[i + j] - mean) * v;                                                                     \
                }                                                                                                      \
        }                                                                                                              \
        for (int w = TD_LANES / 2; w > 0; w /= 2)                                                                      \
            for (int j = 0; j < w; j++) a[j] += a[j + w], b[j] += b[j + w];                                            \
        *sum = a[0];                                                                                                   \
        *dot = b[0];                                                                                                   \
    }

TD_DEFINE_LANES(float, f)
TD_DEFINE_LANES(double, d)

#endif
