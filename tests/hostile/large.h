/* Tensors of about as many elements as make kernels change their way, whole or as a view with room between its rows:
 * for programs that are drawn by chance. */
#ifndef TENSORD_TESTS_HOSTILE_LARGE_H
#define TENSORD_TESTS_HOSTILE_LARGE_H

#include "daemon/kernels/cpu/thresholds.h"
#include "proto/ops/opid.h"
#include "proto/wire/record.h"

/* Rows of `cols` that are, together, around one of the thresholds: one less, as many, one more. `n`: any number. */
static int64_t large_rows(unsigned n, int64_t cols)
{
    static const int64_t elements[] = {TD_TILE_BYTES / 4, TD_TILE_BYTES, TD_CHUNK_LEAST, TD_REDUCE_RUN,
                                       TD_SORT_BLOCK,     TD_NLL_BLOCK,  TD_SCAN_CHUNK,  TD_REDUCE_PIECE};
    return elements[n % 8] / cols + (int64_t)(n / 8 % 3) - 1;
}

/* x = full(shape) under `id`; with `spare`, of rows three places apart, whose whole is `spare`. */
static void large_tensor(td_words *w, uint32_t id, uint32_t spare, td_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t whole[TD_MAX_DIMS];
    td_attrs a;
    for (int i = 0; i < ndim; i++) whole[i] = shape[i] + (spare && i == ndim - 1 ? 3 : 0);
    td_attrs_init(&a);
    td_attrs_ints(&a, ndim, whole);
    td_attrs_scalar(&a, td_int(1));
    td_attrs_dtype(&a, dtype);
    td_words_op(w, td_op_by_id(TD_OP_FULL), 0, 0, 0, 0, NULL, 1, spare ? &spare : &id, NULL, &a, NULL);
    if (!spare) return;
    td_attrs_init(&a);
    td_attrs_int(&a, ndim - 1);
    td_attrs_int(&a, 1);
    td_attrs_int(&a, 1 + shape[ndim - 1]);
    td_attrs_int(&a, 1);
    td_words_op(w, td_op_by_id(TD_OP_SLICE), 0, 0, 0, 1, &spare, 1, &id, NULL, &a, NULL);
}

#endif
