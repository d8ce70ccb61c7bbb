/* Reductions over any dimensions of a tensor of any strides: the geometry, and the walk that all of them share.
 *
 * Records (see vec/reduce.h) are folded either along rows (the fastest dimension is reduced) or down columns (it is
 * kept; a block of columns has its records in first-level cache). Long reductions are cut into pieces whose records are
 * merged in order. All of this follows from shape and strides alone. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_REDUCE_REDUCE_H
#define TENSORD_DAEMON_KERNELS_CPU_REDUCE_REDUCE_H

#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/vec/reduce.h"
#include "daemon/kernels/kernel.h"

#define TD_REDUCE_DIMS (TD_MAX_DIMS + 1)

typedef struct td_reduction {
    char *data, *out, *indices;
    td_row_fold row;
    td_col_fold col;
    td_pw_fn cast;  /* to the fold's type, or NULL */
    td_pw_fn store; /* from double, int64, bool or complex128 to the result's dtype */
    int64_t kept[TD_REDUCE_DIMS], kept_stride[TD_REDUCE_DIMS]; /* innermost first; strides in bytes */
    int64_t gone[TD_REDUCE_DIMS], gone_stride[TD_REDUCE_DIMS]; /* what is reduced */
    int64_t nkept, ngone;                                      /* elements of each */
    int64_t piece, pieces;                                     /* reduced elements of a piece */
    int64_t width, blocks; /* columns of a block; blocks of the innermost kept dimension */
    int64_t units, per_chunk;
    double correction;
    uint8_t kdims, gdims;
    uint8_t fold, body, finish, raw, size, out_size; /* raw, size: bytes of an element in memory, in the fold */
    bool columns, pairs; /* pairs: a complex variance, the second half of the records the imaginary parts */
} td_reduction;

/* Plan the fold of x over the dimensions in `bits` (given as td_op's reduce rules do) into outputs that are contiguous.
 */
int td_reduce_plan(td_kcall *k, unsigned bits, int fold, int finish, double correction, td_error *e);

/* Fold element ranges [from, to) of the reduced dimensions: of one kept element into one record, of a block of columns
 * into many. */
void td_reduce_rows(const td_reduction *r, int64_t kept, int64_t from, int64_t to, td_word *a, td_word *b,
                    char *scratch);
void td_reduce_columns(const td_reduction *r, int64_t first, int64_t width, int64_t from, int64_t to, td_word *a,
                       td_word *b, char *scratch);
/* The record of nothing; one record joined to another that has seen `na` elements; results of n records from output
 * `first`. */
void td_record_clear(const td_reduction *r, td_word *a, td_word *b, int64_t n);
void td_record_merge(const td_reduction *r, td_word *a, td_word *b, int64_t na, td_word a2, td_word b2, int64_t nb);
void td_record_finish(const td_reduction *r, int64_t first, int64_t n, td_word *a, td_word *b, char *scratch);

#endif
