/* Folding elements into records: the inner loops of the reductions.
 *
 * A record is two 8-byte words, a and b, whose meaning is the reducer's: a sum; mean and squared deviation; largest
 * value and its index. Row folds take n contiguous elements into one record, column folds one element into each of n
 * records that lie as two arrays. Both count from `seen`, the number of elements that the record has taken already. All
 * float sums end in doubles; the order of additions depends on n alone, and is the same for every instruction set. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_REDUCE_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_REDUCE_H

#include "daemon/kernels/cpu/fold.h"
#include "daemon/kernels/cpu/thresholds.h"
#include <stdint.h>

/* Element types that folds exist for. */
enum td_rbody { TD_R_F32, TD_R_F64, TD_R_I64, TD_R_U8, TD_R_C64, TD_R_C128, TD_R_COUNT };

typedef void (*td_row_fold)(int64_t n, const void *x, td_word *a, td_word *b, int64_t seen);
typedef void (*td_col_fold)(int64_t n, const void *x, td_word *a, td_word *b, int64_t seen);

enum td_reduce_line {
    TD_LINE_SOFTMAX,
    TD_LINE_LOG_SOFTMAX,
    TD_LINE_SOFTMAX_BACKWARD,
    TD_LINE_LOG_SOFTMAX_BACKWARD,
    TD_LINE_COUNT
};

typedef struct td_reducers {
    td_row_fold row[TD_FOLD_COUNT][TD_R_COUNT];
    td_col_fold col[TD_FOLD_COUNT][TD_R_COUNT];
    /* Columns over four rows of floats at once, `pitch` bytes apart; NULL: row by row. */
    void (*col4_f32[TD_FOLD_COUNT])(int64_t n, const char *x, int64_t pitch, td_word *a, int64_t seen);
    /* softmax, log_softmax and their gradients over one contiguous line; `out` may be neither input. */
    void (*line_f32[TD_LINE_COUNT])(int64_t n, const float *x, const float *y, float *out);
    void (*line_f64[TD_LINE_COUNT])(int64_t n, const double *x, const double *y, double *out);
} td_reducers;

#endif
