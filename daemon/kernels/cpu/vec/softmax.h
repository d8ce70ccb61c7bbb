/* softmax down columns: the inner loops. A row holds one element of each of n columns; sums of up to TD_COLS_IN_FLOAT
 * rows are taken in float, those of more in double. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_SOFTMAX_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_SOFTMAX_H

#include "daemon/kernels/cpu/thresholds.h"
#include <stdint.h>

typedef struct td_softmax_cols {
    /* top[j] = the larger of itself and x[j], down `rows` rows that lie `step` elements apart. */
    void (*top)(int64_t n, int64_t rows, const float *x, int64_t step, float *top);
    /* sum[j] += exp(x[j] - top[j]); += g[j] y[j]; += g[j], down the rows. */
    void (*add_exp)(int64_t n, int64_t rows, const float *x, int64_t step, const float *top, double *sum);
    void (*add_product)(int64_t n, int64_t rows, const float *g, int64_t gs, const float *y, int64_t ys, double *sum);
    void (*add)(int64_t n, int64_t rows, const float *g, int64_t step, double *sum);
    /* One row of results, from what is known of each column. */
    void (*softmax)(int64_t n, const float *x, const float *top, const float *scale, float *out);
    void (*log_softmax)(int64_t n, const float *x, const float *top, const float *log_sum, float *out);
    void (*softmax_backward)(int64_t n, const float *g, const float *y, const float *sum, float *out);
    void (*log_softmax_backward)(int64_t n, const float *g, const float *y, const float *sum, float *out);
} td_softmax_cols;

#endif
