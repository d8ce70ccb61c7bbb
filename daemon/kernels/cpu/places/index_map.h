/* Several index tensors resolved together: what index, index_put and index_add share.
 *
 * The indexed tensor is seen as before x n x after: `n` positions of the broadcast index tensors, `after` the
 * dimensions behind them that are kept. The first phase loads every index once, checks it and keeps the resulting byte
 * offsets in work memory; the phases behind it use only those, so whatever other processes write to the index tensors
 * later changes nothing. When an index is out of range the call has failed before anything was written. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_PLACES_INDEX_MAP_H
#define TENSORD_DAEMON_KERNELS_CPU_PLACES_INDEX_MAP_H

#include "daemon/kernels/kernel.h"

typedef struct td_index_dims {
    int nd;
    int64_t shape[TD_MAX_DIMS], stride[TD_MAX_DIMS]; /* strides in elements of the indexed tensor */
} td_index_dims;

typedef struct td_index_map {
    int64_t before, n, after;
    td_index_dims bd, ad; /* kept dimensions before and behind */
    int nd;               /* shape of the index tensors, broadcast */
    int64_t shape[TD_MAX_DIMS];
    int count, first;                             /* how many index tensors; the input number of the list's first */
    uint8_t input[TD_MAX_DIMS], dim[TD_MAX_DIMS]; /* of each: place in the list, dimension it indexes */
    int64_t size[TD_MAX_DIMS], step[TD_MAX_DIMS]; /* of that dimension: size, stride in bytes */
    bool wrap;                                    /* negative indices count from the end */
    size_t offsets_at;                            /* in work memory: int64_t[n], bytes */
    int64_t reach;                                /* offsets lie in [0, reach) */
} td_index_map;

/* Fill `m` for target descriptor `d` and the list of (optional) indices; appends the checking phase. Absent ones are
 * slices. */
int td_index_map_plan(td_kcall *k, td_index_map *m, const td_desc *d, const td_karg *idx, int nidx, const char *kernel,
                      td_error *e);
/* The same for one index along one dimension, where negative ones are refused. */
int td_index_map_plan_dim(td_kcall *k, td_index_map *m, const td_desc *d, int dim, const td_karg *idx,
                          const char *kernel, td_error *e);

static inline const int64_t *td_index_map_offsets(const td_kcall *k, const td_index_map *m)
{
    return (const int64_t *)((const char *)k->work + m->offsets_at);
}

/* Offset (elements) of flat position i of some dimensions. */
static inline int64_t td_flat_at(int nd, const int64_t *shape, const int64_t *stride, int64_t i)
{
    int64_t at = 0;
    for (int d = nd - 1; d > 0; d--) {
        at += i % shape[d] * stride[d];
        i /= shape[d];
    }
    return nd ? at + i * stride[0] : 0;
}
static inline int64_t td_index_dims_at(const td_index_dims *x, int64_t i)
{
    return td_flat_at(x->nd, x->shape, x->stride, i);
}

/* to[0 ..] = elements [b, e) of x[indices], row-major. */
void td_index_map_read(const td_kcall *k, const td_index_map *m, char *to, const char *x, int64_t b, int64_t e,
                       size_t size);

#endif
