/* Sums over a vector in a fixed number of lanes: vectorises without reordering, so every instruction set gives the same
 * tree. To be used inside functions built for several instruction sets; all are always inlined. */
#ifndef TENSORD_KERNELS_CPU_LANES_H
#define TENSORD_KERNELS_CPU_LANES_H

#include "daemon/kernels/cpu/plan.h"

#define TD_LANES 32

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
    TD_INLINE T td_lanes_square_##s(const T *x, T mean, int64_t n)                                                     \
    {                                                                                                                  \
        TD_LANES_LOOP(T, n, (x[i + j] - mean) * (x[i + j] - mean));                                                    \
    }                                                                                                                  \
    TD_INLINE T td_lanes_dot_##s(const T *x, T mean, const T *y, int64_t n)                                            \
    {                                                                                                                  \
        TD_LANES_LOOP(T, n, (x[i + j] - mean) * y[i + j]);                                                             \
    }                                                                                                                  \
    TD_INLINE T td_lanes_dot3_##s(const T *x, T mean, const T *y, const T *z, int64_t n)                               \
    {                                                                                                                  \
        TD_LANES_LOOP(T, n, (x[i + j] - mean) * y[i + j] * z[i + j]);                                                  \
    }                                                                                                                  \
    TD_INLINE T td_lanes_dot2_##s(const T *y, const T *z, int64_t n)                                                   \
    {                                                                                                                  \
        TD_LANES_LOOP(T, n, y[i + j] * z[i + j]);                                                                      \
    }

TD_DEFINE_LANES(float, f)
TD_DEFINE_LANES(double, d)

#endif
