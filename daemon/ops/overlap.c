/* Overlap of two strided descriptors, exactly.
 *
 * An element of `a` meets one of `b` when sum(sa*i) - sum(sb*j) equals the distance of their offsets for some indices
 * in range. With every j turned round (j -> n-1-j) all terms are positive, and the largest strides leave few choices:
 * the search prunes by what the smaller ones can still reach. It gives up after a bounded number of steps. */
#include "daemon/ops/overlap.h"
#include <stdlib.h>

typedef struct term {
    int64_t stride, most; /* index 0..most */
    int64_t reach;        /* of this and all later terms */
} term;

/* Dimensions that matter: size above 1. */
static int squeeze(const td_desc *d, int64_t *shape, int64_t *stride)
{
    int n = 0;
    for (int k = 0; k < d->ndim; k++)
        if (d->shape[k] != 1) {
            shape[n] = d->shape[k];
            stride[n++] = d->stride[k];
        }
    return n;
}

static bool same_places(const td_desc *a, const td_desc *b)
{
    int64_t as[TD_MAX_DIMS], at[TD_MAX_DIMS], bs[TD_MAX_DIMS], bt[TD_MAX_DIMS];
    if (a->offset != b->offset || a->dtype != b->dtype) return false;
    int n = squeeze(a, as, at);
    if (n != squeeze(b, bs, bt)) return false;
    for (int k = 0; k < n; k++)
        if (as[k] != bs[k] || at[k] != bt[k]) return false;
    return true;
}

static int larger_first(const void *a, const void *b)
{
    int64_t x = ((const term *)a)->stride, y = ((const term *)b)->stride;
    return x > y ? -1 : x < y;
}

/* Terms of both, and the target sum. */
static int gather(const td_desc *a, const td_desc *b, term *t, int64_t *target)
{
    int n = 0;
    *target = b->offset - a->offset;
    for (int side = 0; side < 2; side++) {
        const td_desc *d = side ? b : a;
        for (int k = 0; k < d->ndim; k++) {
            if (d->shape[k] < 2 || !d->stride[k]) continue;
            t[n++] = (term){d->stride[k], d->shape[k] - 1, 0};
            if (side) *target += d->stride[k] * (d->shape[k] - 1);
        }
    }
    qsort(t, (size_t)n, sizeof *t, larger_first);
    int64_t reach = 0;
    for (int k = n - 1; k >= 0; k--) t[k].reach = reach += t[k].stride * t[k].most;
    return n;
}

/* 1: reachable, 0: not, -1: out of steps. Depth is at most 2 * TD_MAX_DIMS. */
static int reachable(const term *t, int n, int64_t target, int *steps)
{
    if (target == 0) return 1;
    if (!n || target < 0 || target > t->reach) return 0;
    if (!--*steps) return -1;
    int64_t rest = n > 1 ? t[1].reach : 0, hi = target / t->stride,
            lo = target > rest ? (target - rest - 1) / t->stride + 1 : 0;
    if (hi > t->most) hi = t->most;
    for (int64_t x = hi; x >= lo; x--) {
        int r = reachable(t + 1, n - 1, target - x * t->stride, steps);
        if (r) return r;
    }
    return 0;
}

td_overlap td_desc_overlap(const td_desc *a, const td_desc *b)
{
    uint64_t alo, ahi, blo, bhi;
    td_desc_extent(a, &alo, &ahi);
    td_desc_extent(b, &blo, &bhi);
    if (alo == ahi || blo == bhi || ahi <= blo || bhi <= alo) return TD_APART;
    if (same_places(a, b)) return TD_IDENTICAL;
    if (td_desc_is_dense(a) && td_desc_is_dense(b)) return TD_PARTLY;
    if (td_dtype_size((td_dtype)a->dtype) != td_dtype_size((td_dtype)b->dtype)) return TD_UNDECIDED;
    term t[2 * TD_MAX_DIMS];
    int64_t target;
    int n = gather(a, b, t, &target), steps = 4096;
    int r = reachable(t, n, target, &steps);
    return r < 0 ? TD_UNDECIDED : r ? TD_PARTLY : TD_APART;
}
