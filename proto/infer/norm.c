/* Layer and batch normalisation. Statistics (mean, rstd) are float32 for half types and else of x's dtype; they never
 * require grad. */
#include "proto/infer/infer.h"

#include <inttypes.h>

/* The dtype that statistics of a tensor are kept in. */
static td_dtype statistic(td_dtype t)
{
    return t == TD_FLOAT16 || t == TD_BFLOAT16 ? TD_FLOAT32 : t;
}

/* Inputs i and i + 1, if given, are statistics; x's own dtype will do too when `own`. */
static int are_statistics(const td_inference *f, int i, bool own, td_dtype x, td_error *e)
{
    for (int k = i; k <= i + 1; k++) {
        td_dtype t = td_in(f, k) ? td_in_dtype(f, k) : statistic(x);
        if (t != statistic(x) && !(own && t == x))
            return td_fail(e, TD_E_TYPE, "expected '%s' to be %s, but got %s", td_infer_name(f, k),
                           td_dtype_name(statistic(x)), td_dtype_name(t));
    }
    return TD_OK;
}

/* ---- over the trailing dimensions */

static int check_ndims(const td_inference *f, const td_desc *x, int64_t ndims, td_error *e)
{
    if (ndims >= 1 && ndims <= x->ndim) return TD_OK;
    return td_fail(e, TD_E_INVALID,
                   "'ndims' must be between 1 and the number of dimensions of '%s' (%d), but is %" PRId64,
                   f->nin > 3 ? "g" : "x", x->ndim, ndims);
}

TD_RULE(layer_norm)
{
    const td_desc *x = td_in(f, 0);
    int64_t ndims = td_attr_int(f->attrs, 0);
    f->compute = (td_dtype)x->dtype;
    TD_TRY(check_ndims(f, x, ndims, e));
    int lead = x->ndim - (int)ndims;
    TD_TRY(td_infer_like(f, f->compute, x, e));
    TD_TRY(td_infer_make(f, statistic(f->compute), lead, x->shape, e));
    return td_infer_make(f, statistic(f->compute), lead, x->shape, e);
}

/* Inputs g, x, w, mean, rstd; attributes ndims, mask. */
TD_RULE(layer_norm_backward)
{
    const td_desc *x = td_in(f, 1);
    int64_t ndims = td_attr_int(f->attrs, 0), mask = td_attr_int(f->attrs, 1);
    f->compute = (td_dtype)x->dtype;
    TD_TRY(check_ndims(f, x, ndims, e));
    int lead = x->ndim - (int)ndims;
    TD_TRY(are_statistics(f, 3, false, f->compute, e));
    TD_TRY(td_infer_wanted(f, 0, mask, f->compute, x->ndim, x->shape, e));
    TD_TRY(td_infer_wanted(f, 1, mask, f->compute, (int)ndims, x->shape + lead, e));
    return td_infer_wanted(f, 2, mask, f->compute, (int)ndims, x->shape + lead, e);
}

/* ---- over all but the channels: x is (N, C, ...) */

static int has_channels(const td_inference *f, int i, td_error *e)
{
    if (td_in(f, i)->ndim >= 2) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "expected '%s' to have at least 2 dimensions (N, C, ...), but it has %d",
                   td_infer_name(f, i), td_in(f, i)->ndim);
}

/* Training over a single value has no variance; over none at all it passes. */
static int check_values(const td_desc *x, td_error *e)
{
    int64_t values = 1;
    char text[TD_TEXT];
    for (int i = 0; i < x->ndim; i++)
        if (i != 1) values *= x->shape[i];
    if (values != 1) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "Expected more than 1 value per channel when training, got input size %s ('x')",
                   TD_SHAPE(x, text));
}

TD_RULE(batch_norm)
{
    const td_desc *x = td_in(f, 0);
    bool training = td_attr_bool(f->attrs, 0);
    f->compute = (td_dtype)x->dtype;
    TD_TRY(has_channels(f, 0, e));
    TD_TRY(are_statistics(f, 3, true, f->compute, e));
    if (!td_in(f, 3) != !td_in(f, 4))
        return td_fail(e, TD_E_INVALID, "'running_mean' and 'running_var' go together, but only one was given");
    if (!training && !td_in(f, 3))
        return td_fail(e, TD_E_INVALID, "Expected 'running_mean' and 'running_var' to be given when not training");
    if (training) TD_TRY(check_values(x, e));
    TD_TRY(td_infer_like(f, f->compute, x, e));
    TD_TRY(td_infer_make(f, statistic(f->compute), 1, &x->shape[1], e));
    return td_infer_make(f, statistic(f->compute), 1, &x->shape[1], e);
}

/* Inputs g, x, w, mean, rstd; attributes training, mask. */
TD_RULE(batch_norm_backward)
{
    const td_desc *x = td_in(f, 1);
    int64_t mask = td_attr_int(f->attrs, 1);
    f->compute = (td_dtype)x->dtype;
    TD_TRY(has_channels(f, 1, e));
    TD_TRY(are_statistics(f, 3, false, f->compute, e));
    TD_TRY(td_infer_wanted(f, 0, mask, f->compute, x->ndim, x->shape, e));
    TD_TRY(td_infer_wanted(f, 1, mask, f->compute, 1, &x->shape[1], e));
    return td_infer_wanted(f, 2, mask, f->compute, 1, &x->shape[1], e);
}
