/* Reductions and what runs along a dimension. The shape comes from `dim` (one, a list, or none for all) and `keepdim`,
 * the dtypes from the op's `promote` column. Invariant: a reduction that has no value for nothing (amax) is refused
 * over nothing. */
#include "proto/infer/infer.h"

#include <inttypes.h>

/* Bits of the dimensions to reduce: attribute 0, as one or as a list; none and an empty list mean all. */
static int reduced_dims(const td_inference *f, unsigned *bits, bool *all, td_error *e)
{
    int dim, ndim = td_in(f, 0)->ndim;
    *bits = 0;
    if (f->attrs->at[0].kind == TD_A_INT) {
        TD_TRY(td_infer_dim(f, 0, ndim, &dim, e));
        *bits = 1u << dim;
    } else {
        TD_TRY(td_infer_dims(f, 0, ndim, bits, e));
    }
    *all = *bits == 0;
    if (*all) *bits = ~0u;
    return TD_OK;
}

static bool keeps(const td_inference *f)
{
    int k = td_infer_attr_of(f, TD_A_BOOL);
    return k >= 0 && td_attr_bool(f->attrs, k);
}

static td_desc reduced(const td_desc *x, unsigned bits, bool keepdim)
{
    td_desc out = *x;
    out.ndim = 0;
    for (int i = 0; i < x->ndim; i++) {
        bool gone = bits >> i & 1;
        if (gone && !keepdim) continue;
        out.shape[out.ndim++] = gone ? 1 : x->shape[i];
    }
    return out;
}

/* The dtype to compute in: a given one, or what the column makes of x's. */
static td_dtype computed(const td_inference *f)
{
    int k = td_infer_attr_of(f, TD_A_DTYPE);
    td_dtype x = td_in_dtype(f, 0), given = k < 0 ? TD_DTYPE_NONE : td_attr_dtype(f->attrs, k);
    if (given != TD_DTYPE_NONE) return given;
    if (f->op->promote == TD_PROMOTE_SUM && td_dtype_is_integral(x)) return TD_INT64;
    if (f->op->promote == TD_PROMOTE_FLOAT && td_dtype_is_integral(x)) return TD_FLOAT32;
    return x;
}

static td_dtype result(const td_inference *f)
{
    switch (f->op->promote) {
    case TD_PROMOTE_BOOL: return f->compute == TD_UINT8 ? TD_UINT8 : TD_BOOL; /* any, all of uint8 stay uint8 */
    case TD_PROMOTE_INDEX: return TD_INT64;
    case TD_PROMOTE_ABS: return td_dtype_real(f->compute);
    default: return f->compute;
    }
}

TD_RULE(reduce)
{
    unsigned bits;
    bool all;
    f->compute = computed(f);
    TD_TRY(reduced_dims(f, &bits, &all, e));
    td_desc out = reduced(td_in(f, 0), bits, keeps(f));
    TD_TRY(td_infer_like(f, result(f), &out, e));
    /* max(dim), min(dim): and where it stood */
    return f->op->nouts > 1 ? td_infer_like(f, TD_INT64, &out, e) : TD_OK;
}

TD_RULE(reduce_nonempty)
{
    const td_desc *x = td_in(f, 0);
    unsigned bits;
    bool all;
    TD_TRY(reduced_dims(f, &bits, &all, e));
    if (td_desc_numel(x) == 0) {
        if (all)
            return td_fail(
                e, TD_E_INVALID,
                "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
                "'dim' argument");
        for (int i = 0; i < x->ndim; i++)
            if ((bits >> i & 1) && x->shape[i] == 0)
                return td_fail(e, TD_E_INDEX, "Expected reduction dim %d to have non-zero size", i);
    }
    return td_infer_reduce(f, e);
}

TD_RULE(mean)
{
    td_dtype t = computed(f);
    bool given = td_attr_given(f->attrs, td_infer_attr_of(f, TD_A_DTYPE));
    if (!td_dtype_is_inexact(t))
        return td_fail(
            e, TD_E_TYPE,
            "mean(): could not infer output dtype. %s dtype must be either a floating point or complex dtype. Got: "
            "%s",
            given ? "Optional" : "Input", td_dtype_name(t));
    return td_infer_reduce(f, e);
}

/* Along one dimension, every element kept. */
TD_RULE(scan)
{
    int dim;
    f->compute = computed(f);
    TD_TRY(td_infer_dim(f, 0, td_in(f, 0)->ndim, &dim, e));
    return td_infer_like(f, f->compute, td_in(f, 0), e);
}

TD_RULE(linear_scan)
{
    int dim;
    f->compute = td_in(f, 0)->dtype;
    TD_TRY(td_infer_dim(f, 0, td_in(f, 0)->ndim, &dim, e));
    return td_infer_like(f, td_in(f, 0)->dtype, td_in(f, 0), e);
}

TD_RULE(scan_best)
{
    TD_TRY(td_infer_scan(f, e));
    return td_infer_like(f, TD_INT64, td_in(f, 0), e);
}

TD_RULE(softmax)
{
    return td_infer_scan(f, e);
}

TD_RULE(softmax_backward)
{
    return td_infer_scan(f, e);
}

/* The reverse of a broadcast: x must be what `shape` broadcasts to. */
TD_RULE(sum_to)
{
    const td_desc *x = td_in(f, 0);
    char have[TD_TEXT], want[TD_TEXT];
    int n;
    const int64_t *shape = td_attr_ints(f->attrs, 0, &n);
    bool fits = n <= x->ndim;
    for (int i = 0; fits && i < n; i++) fits = shape[i] == 1 || shape[i] == x->shape[x->ndim - n + i];
    if (!fits)
        return td_fail(e, TD_E_SHAPE, "'shape' %s does not broadcast to the shape of 'x', %s",
                       td_shape_text(n, shape, want, sizeof want), TD_SHAPE(x, have));
    f->compute = (td_dtype)x->dtype;
    return td_infer_make(f, f->compute, n, shape, e);
}
