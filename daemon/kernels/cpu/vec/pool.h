/* Windows of a pool that lie whole inside of a row, taken side by side in vectors. A place is an int32_t on the way, so
 * the plane has no more elements than that. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_POOL_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_POOL_H

#include "daemon/kernels/cpu/pools/pool.h"

/* Output columns `in` of one row, whose windows are the rows from y0 below y1 of the plane x. False: the call has failed
 * (*done counts since it rested last), and some are missing. */
typedef bool (*td_max_row)(td_kcall *k, int64_t *done, const td_pooling *p, const void *x, int64_t y0, int64_t y1,
                           td_pool_columns in, void *values, int64_t *index);

/* The same of means, which are sums over `count`. */
typedef bool (*td_mean_row)(td_kcall *k, int64_t *done, const td_pooling *p, const void *x, int64_t y0, int64_t y1,
                            td_pool_columns in, int64_t count, void *values);

typedef struct td_pools {
    td_mean_row mean_f32, mean_f64, mean_i64;
    td_max_row max[TD_DTYPE_COUNT]; /* by the dtype that is compared */
    /* The largest so far, and its place, after n elements of which the first has place `at`: the first of equals, and
     * the last NaN. */
    void (*scan_f32)(int64_t n, const float *x, int64_t at, float *value, int64_t *best);
    void (*scan_f64)(int64_t n, const double *x, int64_t at, double *value, int64_t *best);
} td_pools;

#endif
