/* Writing by index tensors and masks: the result has the shape and dtype of x, and the source does not promote. */
#include "proto/infer/infer.h"

#include <inttypes.h>

static int64_t size_at(const td_desc *d, int i)
{
    return d->ndim ? d->shape[i] : 1;
}

static int dims_of(const td_desc *d)
{
    return d->ndim ? d->ndim : 1;
}

/* idx lies inside `d`, but for dimension `except` (-1: none). */
static bool inside(const td_desc *idx, const td_desc *d, int except)
{
    if (dims_of(idx) != dims_of(d)) return false;
    for (int i = 0; i < dims_of(idx); i++)
        if (i != except && size_at(idx, i) > size_at(d, i)) return false;
    return true;
}

TD_RULE(scatter)
{
    const td_desc *x = td_in(f, 0), *idx = td_in(f, 1), *src = td_in(f, 2);
    char a[TD_TEXT], b[TD_TEXT];
    int dim;
    f->compute = (td_dtype)x->dtype;
    TD_TRY(td_infer_is_index(f, 1, e));
    TD_TRY(td_infer_dim(f, 0, x->ndim, &dim, e));
    if (!src && !td_scalar_fits(*f->in[2].scalar, f->compute))
        return td_fail(e, TD_E_INVALID, "'src' cannot be converted to %s without overflow", td_dtype_name(f->compute));
    if (td_desc_numel(idx) > 0) {
        if (!inside(idx, x, dim) || size_at(x, dim) == 0)
            return td_fail(e, TD_E_SHAPE, "Expected 'idx' %s to be smaller than 'x' %s apart from dimension %d",
                           TD_SHAPE(idx, a), TD_SHAPE(x, b), dim);
        if (src && !inside(idx, src, -1))
            return td_fail(e, TD_E_SHAPE, "Expected 'idx' %s to be smaller than 'src' %s in every dimension",
                           TD_SHAPE(idx, a), TD_SHAPE(src, b));
    }
    return td_infer_like(f, f->compute, x, e);
}

TD_RULE(index_add)
{
    const td_desc *x = td_in(f, 0), *idx = td_in(f, 1), *src = td_in(f, 2);
    char a[TD_TEXT], b[TD_TEXT];
    int dim;
    int64_t n = td_desc_numel(idx);
    f->compute = (td_dtype)x->dtype;
    TD_TRY(td_infer_is_index(f, 1, e));
    if (idx->ndim > 1)
        return td_fail(e, TD_E_SHAPE, "'idx' is supposed to be a vector, but has %d dimensions", idx->ndim);
    TD_TRY(td_infer_alpha(f, 1, f->compute, e));
    TD_TRY(td_infer_dim(f, 0, x->ndim, &dim, e));
    bool fits = dims_of(x) == dims_of(src);
    for (int i = 0; fits && i < dims_of(x); i++) fits = size_at(src, i) == (i == dim ? n : size_at(x, i));
    if (!fits)
        return td_fail(e, TD_E_SHAPE,
                       "'src' %s must have the shape of 'x' %s, but %" PRId64
                       " (the number of indices in 'idx') at dimension %d",
                       TD_SHAPE(src, a), TD_SHAPE(x, b), n, dim);
    if (n > 0 && size_at(x, dim) == 0)
        return td_fail(e, TD_E_INDEX, "'x' has size 0 at dimension %d: no index of 'idx' is in range", dim);
    return td_infer_like(f, f->compute, x, e);
}

/* x and mask broadcast; how much of src is used depends on the mask's values. */
TD_RULE(masked_scatter)
{
    td_inference pair = *f;
    int64_t shape[TD_MAX_DIMS];
    int ndim;
    f->compute = td_in_dtype(f, 0);
    TD_TRY(td_infer_is_bool(f, 1, e));
    pair.nin = 2;
    TD_TRY(td_infer_broadcast(&pair, 0, shape, &ndim, e));
    return td_infer_make(f, f->compute, ndim, shape, e);
}
