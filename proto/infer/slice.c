/* Views that choose elements: select, slice, diagonal, unfold, and the several views of unbind and split. Also the two
 * ops that write a tensor into such a choice. An index is checked against the size; bounds of a slice are clamped, as
 * in Python. */
#include "proto/infer/infer.h"

#include <inttypes.h>

static void drop_dim(td_desc *d, int dim)
{
    for (int i = dim; i < d->ndim - 1; i++) d->shape[i] = d->shape[i + 1], d->stride[i] = d->stride[i + 1];
    d->ndim--;
}

/* From the start of a dimension to part n of it. In an empty tensor nothing is stepped over, and strides may be any
 * number. */
static int64_t way(const td_desc *x, int64_t n, int dim)
{
    return td_desc_numel(x) ? n * x->stride[dim] : 0;
}

/* Attributes 0 (dim) and 1 (index) applied to x. */
static int select_place(const td_inference *f, td_desc *out, td_error *e)
{
    const td_desc *x = td_in(f, 0);
    char text[TD_TEXT];
    int64_t index = td_attr_int(f->attrs, 1);
    int dim;
    if (x->ndim == 0) return td_fail(e, TD_E_INDEX, "select() cannot be applied to a 0-dim tensor ('x')");
    TD_TRY(td_infer_dim(f, 0, x->ndim, &dim, e));
    int64_t size = x->shape[dim];
    if (index < -size || index >= size)
        return td_fail(e, TD_E_INDEX, "select(): index %" PRId64 " out of range for tensor of size %s at dimension %d",
                       index, TD_SHAPE(x, text), dim);
    *out = *x;
    out->offset += way(x, index < 0 ? index + size : index, dim);
    drop_dim(out, dim);
    return TD_OK;
}

/* Attribute k, or a default when it is none; negative counts from the end. */
static int64_t bound(const td_inference *f, int k, int64_t size, int64_t otherwise)
{
    int64_t v = td_attr_given(f->attrs, k) ? td_attr_int(f->attrs, k) : otherwise;
    if (v < 0) v += size;
    return v < 0 ? 0 : v > size ? size : v;
}

/* Attributes 0 to 3 (dim, start, end, step) applied to x. */
static int slice_place(const td_inference *f, td_desc *out, td_error *e)
{
    const td_desc *x = td_in(f, 0);
    int64_t step = td_attr_int(f->attrs, 3);
    int dim;
    if (x->ndim == 0) return td_fail(e, TD_E_INDEX, "slice() cannot be applied to a 0-dim tensor ('x')");
    TD_TRY(td_infer_dim(f, 0, x->ndim, &dim, e));
    if (step <= 0) return td_fail(e, TD_E_INVALID, "slice 'step' must be positive, got %" PRId64, step);
    int64_t size = x->shape[dim], start = bound(f, 1, size, 0), end = bound(f, 2, size, size);
    if (end < start) end = start;
    *out = *x;
    out->shape[dim] = (end - start) / step + ((end - start) % step != 0);
    /* With at most one element nothing steps: the stride stays within what was checked. */
    if (out->shape[dim] > 1 && td_desc_numel(x)) out->stride[dim] *= step;
    if (out->shape[dim] > 0) out->offset += way(x, start, dim);
    return TD_OK;
}

TD_RULE(select)
{
    td_desc out;
    f->compute = td_in_dtype(f, 0);
    TD_TRY(select_place(f, &out, e));
    return td_infer_append(f, &out, e);
}

TD_RULE(slice)
{
    td_desc out;
    f->compute = td_in_dtype(f, 0);
    TD_TRY(slice_place(f, &out, e));
    return td_infer_append(f, &out, e);
}

/* How many elements lie on the diagonal k above the main one. */
static int64_t diagonal_length(int64_t rows, int64_t columns, int64_t k)
{
    if (k >= 0) return k >= columns ? 0 : rows < columns - k ? rows : columns - k;
    return k <= -rows ? 0 : rows + k < columns ? rows + k : columns;
}

TD_RULE(diagonal)
{
    const td_desc *x = td_in(f, 0);
    td_desc out = *x;
    int64_t k = td_attr_int(f->attrs, 0);
    int a, b;
    f->compute = (td_dtype)x->dtype;
    TD_TRY(td_infer_dim(f, 1, x->ndim, &a, e));
    TD_TRY(td_infer_dim(f, 2, x->ndim, &b, e));
    if (a == b || x->ndim < 2)
        return td_fail(e, TD_E_INVALID, "diagonal dimensions cannot be identical %" PRId64 ", %" PRId64,
                       td_attr_int(f->attrs, 1), td_attr_int(f->attrs, 2));
    int64_t n = diagonal_length(x->shape[a], x->shape[b], k);
    if (n > 0) out.offset += k >= 0 ? way(x, k, b) : way(x, -k, a);
    drop_dim(&out, a > b ? a : b);
    drop_dim(&out, a > b ? b : a);
    out.shape[out.ndim] = n;
    out.stride[out.ndim++] = n > 1 && td_desc_numel(x) ? x->stride[a] + x->stride[b] : 1;
    return td_infer_append(f, &out, e);
}

TD_RULE(unfold)
{
    const td_desc *x = td_in(f, 0);
    td_desc out = *x;
    int64_t size = td_attr_int(f->attrs, 1), step = td_attr_int(f->attrs, 2);
    int dim;
    f->compute = (td_dtype)x->dtype;
    TD_TRY(td_infer_dim(f, 0, x->ndim, &dim, e));
    int64_t most = x->ndim ? x->shape[dim] : 1, stride = x->ndim ? x->stride[dim] : 1;
    if (x->ndim == TD_MAX_DIMS)
        return td_fail(e, TD_E_SHAPE, "'x' has %d dimensions already: unfold() adds one", TD_MAX_DIMS);
    if (size < 0 || size > most)
        return td_fail(e, TD_E_INVALID, "maximum size for tensor at dimension %d is %" PRId64 " but 'size' is %" PRId64,
                       dim, most, size);
    if (step <= 0) return td_fail(e, TD_E_INVALID, "'step' is %" PRId64 " but must be > 0", step);
    if (x->ndim) {
        out.shape[dim] = (most - size) / step + 1;
        if (out.shape[dim] > 1 && size > 0) out.stride[dim] = step * stride;
    }
    out.shape[out.ndim] = size;
    out.stride[out.ndim++] = stride;
    TD_TRY(td_desc_check(&out, INT64_MAX, e));
    return td_infer_append(f, &out, e);
}

static int check_results(int64_t n, td_error *e)
{
    if (n <= TD_MAX_OUTPUTS) return TD_OK;
    return td_fail(e, TD_E_INVALID, "%" PRId64 " results; one call makes at most %d", n, TD_MAX_OUTPUTS);
}

TD_RULE(unbind)
{
    const td_desc *x = td_in(f, 0);
    int dim;
    f->compute = (td_dtype)x->dtype;
    if (x->ndim == 0) return td_fail(e, TD_E_INDEX, "'x' must have at least one dimension");
    TD_TRY(td_infer_dim(f, 0, x->ndim, &dim, e));
    TD_TRY(check_results(x->shape[dim], e));
    td_desc out = *x;
    drop_dim(&out, dim);
    for (int64_t i = 0; i < x->shape[dim]; i++) {
        out.offset = x->offset + i * x->stride[dim];
        TD_TRY(td_infer_append(f, &out, e));
    }
    return TD_OK;
}

static int check_split(const td_desc *x, int dim, int n, const int64_t *sizes, td_error *e)
{
    int64_t sum = 0;
    bool over = false;
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0)
            return td_fail(e, TD_E_INVALID, "'sizes' must have only non-negative entries, but has %" PRId64, sizes[i]);
        over |= __builtin_add_overflow(sum, sizes[i], &sum);
    }
    if (!over && sum == x->shape[dim]) return TD_OK;
    return td_fail(e, TD_E_SHAPE,
                   "'sizes' must sum exactly to %" PRId64 " (the size of 'x' at dimension %d), but sum to %" PRId64,
                   x->shape[dim], dim, over ? INT64_MAX : sum);
}

TD_RULE(split)
{
    const td_desc *x = td_in(f, 0);
    int dim, n;
    const int64_t *sizes = td_attr_ints(f->attrs, 0, &n);
    f->compute = (td_dtype)x->dtype;
    if (x->ndim == 0) return td_fail(e, TD_E_INDEX, "'x' must have at least one dimension");
    TD_TRY(td_infer_dim(f, 1, x->ndim, &dim, e));
    TD_TRY(check_split(x, dim, n, sizes, e));
    TD_TRY(check_results(n, e));
    td_desc out = *x;
    int64_t start = 0;
    for (int i = 0; i < n; i++) {
        out.shape[dim] = sizes[i];
        /* an empty piece at the end starts nowhere: its offset stays inside the storage */
        if (sizes[i] > 0) out.offset = x->offset + start * x->stride[dim];
        TD_TRY(td_infer_append(f, &out, e));
        start += sizes[i];
    }
    return TD_OK;
}

/* src fills `place`, a view of x; the result has x's shape. */
static int fill_place(td_inference *f, const td_desc *place, td_error *e)
{
    f->compute = td_in_dtype(f, 0);
    TD_TRY(td_infer_has_shape(f, 1, place->ndim, place->shape, e));
    return td_infer_like(f, f->compute, td_in(f, 0), e);
}

TD_RULE(select_scatter)
{
    td_desc place;
    TD_TRY(select_place(f, &place, e));
    return fill_place(f, &place, e);
}

TD_RULE(slice_scatter)
{
    td_desc place;
    TD_TRY(slice_place(f, &place, e));
    return fill_place(f, &place, e);
}
