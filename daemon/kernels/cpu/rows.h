/* A tensor seen as rows x cols (its dimensions split in two groups), whose rows are handed out as contiguous float or
 * double vectors: in place when they lie so, otherwise loaded into a buffer. What the normalisations read their inputs
 * through. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_ROWS_H
#define TENSORD_DAEMON_KERNELS_CPU_ROWS_H

#include "daemon/kernels/kernel.h"

typedef struct td_rows {
    const char *data;
    uint8_t dtype, acc; /* stored; handed out: TD_FLOAT32, TD_FLOAT64, or any other as it is stored */
    bool direct, even;  /* rows can be handed out as they lie; a row has one step */
    int nr, nc;         /* dimensions of the two groups */
    int64_t rows, cols, step;
    int64_t rshape[TD_MAX_DIMS], rstride[TD_MAX_DIMS], cshape[TD_MAX_DIMS], cstride[TD_MAX_DIMS];
} td_rows;

/* Dimensions [0, split) are rows, the others columns. */
void td_rows_init(td_rows *r, const td_karg *x, int split, unsigned acc);
/* Elements [first, first + count) of row `i`; `buf` has room for count elements of `acc`. */
const void *td_rows_get(const td_rows *r, int64_t i, int64_t first, int64_t count, void *buf);
/* Dimension groups given one by one: start empty, then add. */
void td_rows_start(td_rows *r, const td_karg *x, unsigned acc);
void td_rows_add_row_dim(td_rows *r, int64_t size, int64_t stride);
void td_rows_add_col_dim(td_rows *r, int64_t size, int64_t stride);
void td_rows_finish(td_rows *r);

/* to[i] = element i (row-major) of `x` as double. */
double td_karg_number(const td_karg *x, int64_t i);

#endif
