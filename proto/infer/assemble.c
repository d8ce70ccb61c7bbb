/* Ops that put elements at other places: joining, repeating, turning, padding, sorting. Results are contiguous, but for
 * images that cat and constant_pad keep channels last. */
#include "proto/infer/infer.h"

#include <inttypes.h>

TD_RULE(same)
{
    f->compute = td_in_dtype(f, 0);
    return td_infer_like(f, f->compute, td_in(f, 0), e);
}

/* A tensor of shape [0] joins with anything, as it always did. */
static bool skipped(const td_desc *d)
{
    return d->ndim == 1 && d->shape[0] == 0;
}

static int join_sizes(const td_desc *a, const td_desc *b, int number, int dim, int64_t *sum, td_error *e)
{
    if (a->ndim != b->ndim)
        return td_fail(e, TD_E_SHAPE,
                       "Tensors must have same number of dimensions: got %d and %d (tensor number %d in 'xs')", a->ndim,
                       b->ndim, number);
    for (int i = 0; i < a->ndim; i++)
        if (i != dim && a->shape[i] != b->shape[i])
            return td_fail(e, TD_E_SHAPE,
                           "Sizes of tensors must match except in dimension %d. Expected size %" PRId64
                           " but got size %" PRId64 " for tensor number %d in 'xs'",
                           dim, a->shape[i], b->shape[i], number);
    if (__builtin_add_overflow(*sum, b->shape[dim], sum)) return td_fail(e, TD_E_SHAPE, "the joined size overflows");
    return TD_OK;
}

/* The first tensor that counts gives the number of dimensions. */
static int first_joined(const td_inference *f, const td_desc **first, td_error *e)
{
    if (f->nin == 0) return td_fail(e, TD_E_INVALID, "expected a non-empty list of tensors ('xs')");
    *first = NULL;
    for (int i = 0; i < f->nin; i++) {
        if (td_in(f, i)->ndim == 0)
            return td_fail(e, TD_E_SHAPE, "zero-dimensional tensor (at position %d in 'xs') cannot be concatenated", i);
        if (!*first && !skipped(td_in(f, i))) *first = td_in(f, i);
    }
    if (!*first) *first = td_in(f, 0);
    return TD_OK;
}

TD_RULE(cat)
{
    const td_desc *first = NULL;
    int dim;
    TD_TRY(first_joined(f, &first, e));
    TD_TRY(td_infer_dim(f, 0, first->ndim, &dim, e));
    TD_TRY(td_infer_promote(f, 0, NULL, &f->compute, e));
    td_desc out = *first;
    out.shape[dim] = 0;
    for (int i = 0; i < f->nin; i++)
        if (!skipped(td_in(f, i))) TD_TRY(join_sizes(first, td_in(f, i), i, dim, &out.shape[dim], e));
    return td_infer_like(f, f->compute, &out, e);
}

TD_RULE(stack)
{
    int dim;
    char a[TD_TEXT], b[TD_TEXT];
    if (f->nin == 0) return td_fail(e, TD_E_INVALID, "expected a non-empty list of tensors ('xs')");
    td_desc out = *td_in(f, 0);
    TD_TRY(td_infer_promote(f, 0, NULL, &f->compute, e));
    for (int i = 1; i < f->nin; i++)
        if (!td_desc_same_shape(&out, td_in(f, i)))
            return td_fail(
                e, TD_E_SHAPE,
                "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d of 'xs'",
                TD_SHAPE(&out, a), TD_SHAPE(td_in(f, i), b), i);
    TD_TRY(td_infer_dim(f, 0, out.ndim + 1, &dim, e));
    if (out.ndim == TD_MAX_DIMS)
        return td_fail(e, TD_E_SHAPE, "the tensors of 'xs' have %d dimensions already: stack() adds one", TD_MAX_DIMS);
    for (int i = out.ndim++; i > dim; i--) out.shape[i] = out.shape[i - 1];
    out.shape[dim] = f->nin;
    return td_infer_like(f, f->compute, &out, e);
}

TD_RULE(repeat)
{
    const td_desc *x = td_in(f, 0);
    int64_t shape[TD_MAX_DIMS];
    int n;
    const int64_t *repeats = td_attr_ints(f->attrs, 0, &n);
    f->compute = (td_dtype)x->dtype;
    if (n < x->ndim)
        return td_fail(
            e, TD_E_SHAPE,
            "Number of dimensions of 'repeats' (%d) can not be smaller than number of dimensions of 'x' (%d)", n,
            x->ndim);
    if (n > TD_MAX_DIMS) return td_fail(e, TD_E_SHAPE, "'repeats' has %d dimensions; at most %d", n, TD_MAX_DIMS);
    for (int i = 0, lead = n - x->ndim; i < n; i++) {
        int64_t size = i < lead ? 1 : x->shape[i - lead];
        if (repeats[i] < 0)
            return td_fail(e, TD_E_INVALID, "'repeats' must not be negative, but has %" PRId64, repeats[i]);
        if (__builtin_mul_overflow(size, repeats[i], &shape[i]))
            return td_fail(e, TD_E_SHAPE, "the repeated size at dimension %d overflows", i);
    }
    return td_infer_make(f, f->compute, n, shape, e);
}

TD_RULE(flip)
{
    unsigned bits;
    TD_TRY(td_infer_dims(f, 0, td_in(f, 0)->ndim, &bits, e));
    return td_infer_same(f, e);
}

/* Without dims the one shift goes over the flattened tensor. */
TD_RULE(roll)
{
    int shifts, n, dim;
    td_attr_ints(f->attrs, 0, &shifts);
    const int64_t *dims = td_attr_ints(f->attrs, 1, &n);
    if (shifts == 0) return td_fail(e, TD_E_INVALID, "'shifts' must not be empty");
    if (shifts != n && !(shifts == 1 && n == 0))
        return td_fail(e, TD_E_INVALID, "'shifts' and 'dims' must align. shifts: %d, dims: %d", shifts, n);
    for (int i = 0; i < n; i++) TD_TRY(td_wrap_dim(dims[i], td_in(f, 0)->ndim, &dim, e));
    return td_infer_same(f, e);
}

TD_RULE(constant_pad)
{
    td_desc out = *td_in(f, 0);
    int n;
    const int64_t *pad = td_attr_ints(f->attrs, 0, &n);
    f->compute = (td_dtype)out.dtype;
    if (n % 2) return td_fail(e, TD_E_INVALID, "Length of 'pad' must be even but instead it equals %d", n);
    if (n > 2 * out.ndim)
        return td_fail(
            e, TD_E_INVALID,
            "Length of 'pad' should be no more than twice the number of dimensions of 'x': it is %d, and 'x' has "
            "%d dimensions",
            n, out.ndim);
    for (int i = 0; i < n / 2; i++) {
        int dim = out.ndim - 1 - i;
        int64_t size = out.shape[dim], sum;
        bool over = __builtin_add_overflow(size, pad[2 * i], &sum) || __builtin_add_overflow(sum, pad[2 * i + 1], &sum);
        if (over || sum < 0)
            return td_fail(e, TD_E_SHAPE,
                           "The size %" PRId64 ", plus 'pad' %" PRId64 " and %" PRId64
                           ", is %s, which is invalid. Check dimension %d of 'x'",
                           size, pad[2 * i], pad[2 * i + 1], over ? "too large" : "negative", dim);
        out.shape[dim] = sum;
    }
    return td_infer_like(f, f->compute, &out, e);
}

TD_RULE(tril)
{
    if (td_in(f, 0)->ndim < 2)
        return td_fail(e, TD_E_SHAPE, "'x' must have at least 2 dimensions, but has %d", td_in(f, 0)->ndim);
    return td_infer_same(f, e);
}

TD_RULE(sort)
{
    int dim;
    TD_TRY(td_infer_dim(f, 0, td_in(f, 0)->ndim, &dim, e));
    TD_TRY(td_infer_same(f, e));
    return td_infer_like(f, TD_INT64, td_in(f, 0), e);
}

TD_RULE(topk)
{
    td_desc out = *td_in(f, 0);
    int64_t k = td_attr_int(f->attrs, 0);
    int dim;
    f->compute = (td_dtype)out.dtype;
    TD_TRY(td_infer_dim(f, 1, out.ndim, &dim, e));
    int64_t size = out.ndim ? out.shape[dim] : 1;
    /* A 0-d tensor has nothing to shorten. */
    if (k < (out.ndim == 0) || k > size)
        return td_fail(e, TD_E_INDEX, "selected index 'k' out of range: %" PRId64 " of %" PRId64 " at dimension %d", k,
                       size, dim);
    if (out.ndim) out.shape[dim] = k;
    TD_TRY(td_infer_like(f, f->compute, &out, e));
    return td_infer_like(f, TD_INT64, &out, e);
}
