/* Reading by index tensors. Indices are int64 or int32; their values are the kernel's to check, their shapes are
 * checked here. 0-d tensors count as having one dimension of one element. */
#include "proto/infer/infer.h"

#include <inttypes.h>

/* One index tensor of at most one dimension. */
static int is_index_vector(const td_inference *f, int i, td_error *e)
{
    TD_TRY(td_infer_is_index(f, i, e));
    if (td_in(f, i)->ndim <= 1) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "'%s' is supposed to be a vector, but has %d dimensions", td_infer_name(f, i),
                   td_in(f, i)->ndim);
}

TD_RULE(index_select)
{
    td_desc out = *td_in(f, 0);
    int64_t n = td_desc_numel(td_in(f, 1));
    int dim;
    f->compute = (td_dtype)out.dtype;
    TD_TRY(is_index_vector(f, 1, e));
    TD_TRY(td_infer_dim(f, 0, out.ndim, &dim, e));
    if (out.ndim == 0 && n != 1)
        return td_fail(e, TD_E_SHAPE, "'x' is 0-dimensional: 'idx' must have one element, but has %" PRId64, n);
    if (out.ndim && out.shape[dim] == 0 && n > 0)
        return td_fail(e, TD_E_INDEX, "'x' has size 0 at dimension %d: no index is in range", dim);
    if (out.ndim) out.shape[dim] = n;
    return td_infer_like(f, f->compute, &out, e);
}

static int64_t size_at(const td_desc *d, int i)
{
    return d->ndim ? d->shape[i] : 1;
}

TD_RULE(gather)
{
    const td_desc *x = td_in(f, 0), *idx = td_in(f, 1);
    char a[TD_TEXT], b[TD_TEXT];
    int dim;
    f->compute = (td_dtype)x->dtype;
    TD_TRY(td_infer_is_index(f, 1, e));
    TD_TRY(td_infer_dim(f, 0, x->ndim, &dim, e));
    if (td_desc_numel(idx) == 0) return td_infer_like(f, f->compute, idx, e);
    int nx = x->ndim ? x->ndim : 1, ni = idx->ndim ? idx->ndim : 1;
    if (nx != ni)
        return td_fail(e, TD_E_SHAPE,
                       "Index tensor 'idx' must have the same number of dimensions as 'x', but has %d, not %d",
                       idx->ndim, x->ndim);
    for (int i = 0; i < nx; i++)
        if (i != dim ? size_at(idx, i) > size_at(x, i) : size_at(x, i) == 0)
            return td_fail(
                e, TD_E_SHAPE,
                "Size does not match at dimension %d: expected 'idx' %s to be smaller than 'x' %s apart from "
                "dimension %d",
                i, TD_SHAPE(idx, a), TD_SHAPE(x, b), dim);
    return td_infer_like(f, f->compute, idx, e);
}

/* ---- index tensors side by side, as in x[i, :, j] */

typedef struct indexing {
    int64_t shape[TD_MAX_DIMS]; /* of all index tensors together */
    int ndim;
    int first, last, count; /* the dimensions that are indexed */
} indexing;

/* Index tensors are inputs 1..n, one for each leading dimension of x; an absent one takes the whole dimension. */
static int read_indices(const td_inference *f, int n, indexing *ix, td_error *e)
{
    const td_desc *x = td_in(f, 0);
    char a[TD_TEXT], b[TD_TEXT];
    *ix = (indexing){.first = -1};
    if (n > x->ndim)
        return td_fail(e, TD_E_INDEX, "too many indices for tensor of dimension %d ('idx' has %d)", x->ndim, n);
    for (int i = 0; i < n; i++) {
        const td_desc *d = td_in(f, 1 + i);
        if (!d) continue;
        TD_TRY(td_infer_is_index(f, 1 + i, e));
        if (td_broadcast(ix->shape, &ix->ndim, d->shape, d->ndim, NULL))
            return td_fail(
                e, TD_E_INDEX,
                "shape mismatch: the tensors of 'idx' could not be broadcast together (%s and, at position %d, %s)",
                td_shape_text(ix->ndim, ix->shape, a, sizeof a), i, TD_SHAPE(d, b));
        if (ix->first < 0) ix->first = i;
        ix->last = i;
        ix->count++;
    }
    return TD_OK;
}

/* Shape of x[idx]: the index dimensions stand where the indexed ones stood when those are neighbours, else in front. */
static int indexed_shape(const td_inference *f, int n, int64_t *shape, int *ndim, td_error *e)
{
    const td_desc *x = td_in(f, 0);
    indexing ix;
    TD_TRY(read_indices(f, n, &ix, e));
    td_desc positions; /* kernels keep a word for each, also where x has nothing behind it */
    TD_TRY(td_desc_contiguous(&positions, TD_INT64, ix.ndim, ix.shape, e));
    bool adjacent = ix.last - ix.first + 1 == ix.count;
    int front = adjacent ? ix.first : 0, to = 0;
    *ndim = x->ndim - ix.count + ix.ndim;
    if (*ndim > TD_MAX_DIMS)
        return td_fail(e, TD_E_SHAPE, "the indexed tensor would have %d dimensions; at most %d", *ndim, TD_MAX_DIMS);
    for (int i = 0; i < x->ndim; i++) {
        if (i == front)
            for (int k = 0; k < ix.ndim; k++) shape[to++] = ix.shape[k];
        bool indexed = i < n && td_in(f, 1 + i);
        if (!indexed) shape[to++] = x->shape[i];
        else if (x->shape[i] == 0 && td_desc_numel(&positions) > 0)
            return td_fail(e, TD_E_INDEX, "'x' has size 0 at dimension %d: no index of 'idx' is in range", i);
    }
    return TD_OK;
}

TD_RULE(index)
{
    int64_t shape[TD_MAX_DIMS] = {0};
    int ndim;
    f->compute = td_in_dtype(f, 0);
    TD_TRY(indexed_shape(f, f->nin - 1, shape, &ndim, e));
    return td_infer_make(f, f->compute, ndim, shape, e);
}

TD_RULE(index_put)
{
    const td_desc *v = td_in(f, f->nin - 1);
    int64_t shape[TD_MAX_DIMS] = {0}, both[TD_MAX_DIMS];
    char a[TD_TEXT], b[TD_TEXT];
    int ndim, n;
    f->compute = td_in_dtype(f, 0);
    TD_TRY(indexed_shape(f, f->nin - 2, shape, &ndim, e));
    td_desc result; /* is never made, but must be one that could be */
    TD_TRY(td_desc_contiguous(&result, f->compute, ndim, shape, e));
    n = ndim;
    memcpy(both, shape, sizeof both);
    bool fits = v->ndim <= ndim && !td_broadcast(both, &n, v->shape, v->ndim, NULL);
    if (!fits || memcmp(both, shape, (size_t)ndim * sizeof *shape) != 0)
        return td_fail(
            e, TD_E_SHAPE,
            "shape mismatch: value tensor 'v' of shape %s cannot be broadcast to indexing result of shape %s",
            TD_SHAPE(v, a), td_shape_text(ndim, shape, b, sizeof b));
    return td_infer_like(f, f->compute, td_in(f, 0), e);
}

TD_RULE(embedding)
{
    const td_desc *w = td_in(f, 0), *idx = td_in(f, 1);
    td_desc out = *idx;
    f->compute = (td_dtype)w->dtype;
    TD_TRY(td_infer_is_index(f, 1, e));
    if (w->ndim != 2) return td_fail(e, TD_E_SHAPE, "'w' must be 2-D, but has %d dimensions", w->ndim);
    if (idx->ndim == TD_MAX_DIMS)
        return td_fail(e, TD_E_SHAPE, "'idx' has %d dimensions already: embedding() adds one", TD_MAX_DIMS);
    out.shape[out.ndim++] = w->shape[1];
    return td_infer_like(f, f->compute, &out, e);
}

/* At most one row for each element. */
TD_RULE(nonzero)
{
    const td_desc *x = td_in(f, 0);
    int64_t shape[2] = {td_desc_numel(x), x->ndim};
    f->compute = (td_dtype)x->dtype;
    return td_infer_make(f, TD_INT64, 2, shape, e);
}

/* At most every element of x and mask broadcast together. */
TD_RULE(masked_select)
{
    int64_t shape[TD_MAX_DIMS];
    int ndim;
    td_desc both;
    f->compute = td_in_dtype(f, 0);
    TD_TRY(td_infer_is_bool(f, 1, e));
    TD_TRY(td_infer_broadcast(f, 0, shape, &ndim, e));
    TD_TRY(td_desc_contiguous(&both, f->compute, ndim, shape, e));
    int64_t most = td_desc_numel(&both);
    return td_infer_make(f, f->compute, 1, &most, e);
}
