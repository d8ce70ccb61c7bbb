/* Rows along one dimension, as sort, topk and kthvalue go through them: each is read once, in whatever layout, and
 * gives k values with their places. Rows that lie side by side are turned together. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_ORDER_SORT_H
#define TENSORD_DAEMON_KERNELS_CPU_ORDER_SORT_H

#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/order/sort_keys.h"

typedef struct td_sort {
    int64_t rows, n, k, step, inner; /* n: length; k: how many are wanted; inner: stride of both outputs */
    int64_t rank;                    /* of kthvalue, from 0 */
    int64_t per, group;              /* rows of a chunk; of those how many are turned together */
    int64_t blocks, parts, kept;     /* of a long row; kept: of a block, by topk */
    int nr;
    int64_t shape[TD_MAX_DIMS], stride[TD_MAX_DIMS]; /* the other dimensions, of x */
    uint8_t dtype, size;
    bool descending;
} td_sort;

/* Room for the keys of a row, or of a block, and what is made of them. */
typedef struct td_sort_room {
    uint64_t *keys, *words, *spare;
    int64_t *places; /* n of each */
    char *raw;
} td_sort_room;

/* Of n elements that follow each other: k values and places. */
typedef void (*td_sort_row)(td_kcall *k, const td_sort *s, const char *x, const td_sort_room *room, char *values,
                            int64_t *indices);

int td_sort_start(td_kcall *k, td_sort *s, int64_t dim, const char *name, td_error *e);
/* Whole rows: the scratch, and `chunk` as the one phase. */
void td_sort_plan_rows(td_kcall *k, td_sort *s, td_chunk_fn chunk);
void td_sort_chunk(td_kcall *k, int64_t chunk, void *scratch, td_sort_row row);

/* Long rows: the first k of each, sorted. */
void td_sort_plan_long(td_kcall *k, td_sort *s);
/* Blocks of them, ordered, in work memory. The second phase is the caller's. */
void td_sort_plan_blocks(td_kcall *k, td_sort *s);
/* Elements [first, first + n) of row r as they lie, or copied to `to`. */
const char *td_sort_read(const td_kcall *k, const td_sort *s, int64_t r, int64_t first, int64_t n, char *to);
/* Where each block is cut so that `rank` elements lie before the cuts: to at[]; what follows them in order is in the
 * block returned. `spare`: two numbers a block. */
int64_t td_sort_cut(const td_kcall *k, const td_sort *s, int64_t r, int64_t rank, int64_t *at, int64_t *spare);
/* The place in its row of element i of an ordered block. */
int64_t td_sort_place(const td_kcall *k, const td_sort *s, int64_t r, int64_t block, int64_t i);

static inline const char *td_sort_at(const td_kcall *k, const td_sort *s, int64_t r)
{
    const char *x = k->in[0].data;
    int64_t at = 0;
    for (int d = s->nr - 1; d >= 0; d--) {
        at += r % s->shape[d] * s->stride[d];
        r /= s->shape[d];
    }
    return x + at * s->size;
}
/* values[i] and indices[i], n of both: an element of x, whose elements are `step` bytes apart, and its place. */
void td_sort_write(char *values, int64_t *indices, const char *x, int64_t step, const int64_t *places, int64_t n,
                   int size);

#endif
