/* Pictures in other sizes, places of a grid, and the loss over all ways to say a target. Sizes that decide how long a
 * kernel works are at least 1 here, and their products fit: what is left to the kernels is data. */
#include "proto/infer/infer.h"

#include <inttypes.h>

enum { LINEAR = 2, CUBIC = 3, MODES = 5 };

/* ---- resample: attributes from `k` on: mode, align_corners, antialias */

static int check_mode(const td_inference *f, int k, int n, td_error *e)
{
    int64_t mode = td_attr_int(f->attrs, k);
    bool weighs = mode == LINEAR || mode == CUBIC;
    if (mode < 0 || mode >= MODES)
        return td_fail(e, TD_E_INVALID, "'mode' is 0 (nearest) to 4 (area), not %" PRId64, mode);
    if (mode == CUBIC && n != 2)
        return td_fail(e, TD_E_UNSUPPORTED, "cubic interpolation is of 2 dimensions, not of %d", n);
    if ((td_attr_bool(f->attrs, k + 1) || td_attr_bool(f->attrs, k + 2)) && !weighs)
        return td_fail(e, TD_E_INVALID, "'align_corners' and 'antialias' are for linear and cubic interpolation");
    if (td_attr_bool(f->attrs, k + 2) && n != 2)
        return td_fail(e, TD_E_UNSUPPORTED, "'antialias' is of 2 dimensions, not of %d", n);
    return TD_OK;
}

/* The shape `from` with these last sizes. */
static int resized(const td_inference *f, int k, int ndim, const int64_t *from, int64_t *to, td_error *e)
{
    int n;
    const int64_t *size = td_attr_ints(f->attrs, k, &n);
    char text[TD_TEXT];
    if (n < 1 || n > 3 || n > ndim || ndim > TD_MAX_DIMS)
        return td_fail(e, TD_E_SHAPE, "'size' is one to three of the %d sizes, not %d", ndim, n);
    for (int d = 0; d < ndim; d++) {
        bool spatial = d >= ndim - n;
        to[d] = spatial ? size[d - (ndim - n)] : from[d];
        if (spatial && (from[d] < 1 || to[d] < 1 || from[d] > INT32_MAX || to[d] > INT32_MAX))
            return td_fail(e, TD_E_SHAPE,
                           "Input and output sizes should be greater than 0, but got input %s and output %" PRId64
                           " at dimension %d",
                           td_shape_text(ndim, from, text, sizeof text), to[d], d);
    }
    return check_mode(f, k + 1, n, e);
}

TD_RULE(resample)
{
    const td_desc *x = td_in(f, 0);
    int64_t shape[TD_MAX_DIMS];
    f->compute = (td_dtype)x->dtype;
    TD_TRY(resized(f, 0, x->ndim, x->shape, shape, e));
    return td_infer_make(f, f->compute, x->ndim, shape, e);
}

TD_RULE(resample_backward)
{
    int ndim;
    const int64_t *shape = td_attr_ints(f->attrs, 0, &ndim);
    int64_t resampled[TD_MAX_DIMS];
    f->compute = td_in_dtype(f, 0);
    for (int d = 0; d < ndim; d++)
        if (shape[d] < 0) return td_fail(e, TD_E_INVALID, "'shape' has a negative size");
    TD_TRY(resized(f, 1, ndim, shape, resampled, e));
    TD_TRY(td_infer_has_shape(f, 0, ndim, resampled, e));
    return td_infer_make(f, f->compute, ndim, shape, e);
}

/* ---- grid_sampler: inputs ix, ix + 1; attributes mode, padding_mode */

static int grid_shape(const td_inference *f, int ix, int64_t *shape, td_error *e)
{
    const td_desc *x = td_in(f, ix), *grid = td_in(f, ix + 1);
    int64_t mode = td_attr_int(f->attrs, 0), padding = td_attr_int(f->attrs, 1);
    int n = x->ndim - 2;
    char a[TD_TEXT], b[TD_TEXT];
    if (n < 2 || n > 3 || grid->ndim != x->ndim || grid->shape[0] != x->shape[0] || grid->shape[n + 1] != n)
        return td_fail(e, TD_E_SHAPE,
                       "grid_sampler(): expected 'grid' to have size %d in last dimension and the batch of the input, "
                       "4 or 5 dimensions both, but got input %s and grid %s",
                       n, TD_SHAPE(x, a), TD_SHAPE(grid, b));
    if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
        return td_fail(e, TD_E_INVALID, "'mode' and 'padding_mode' are 0 to 2, not %" PRId64 " and %" PRId64, mode,
                       padding);
    if (mode == 2 && n != 2)
        return td_fail(e, TD_E_UNSUPPORTED, "grid_sampler(): bicubic interpolation only supports 4D input");
    shape[0] = x->shape[0], shape[1] = x->shape[1];
    for (int d = 0; d < n; d++) {
        shape[2 + d] = grid->shape[1 + d];
        if (x->shape[2 + d] < 1 || x->shape[2 + d] > INT32_MAX)
            return td_fail(e, TD_E_SHAPE,
                           "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s",
                           TD_SHAPE(x, a));
    }
    return TD_OK;
}

TD_RULE(grid_sampler)
{
    int64_t shape[TD_MAX_DIMS];
    f->compute = td_in_dtype(f, 0);
    TD_TRY(grid_shape(f, 0, shape, e));
    return td_infer_make(f, f->compute, td_in(f, 0)->ndim, shape, e);
}

TD_RULE(grid_sampler_backward)
{
    const td_desc *x = td_in(f, 1), *grid = td_in(f, 2);
    int64_t shape[TD_MAX_DIMS], mask = td_attr_int(f->attrs, 3);
    f->compute = (td_dtype)x->dtype;
    TD_TRY(grid_shape(f, 1, shape, e));
    TD_TRY(td_infer_has_shape(f, 0, x->ndim, shape, e));
    TD_TRY(td_infer_wanted(f, 0, mask, f->compute, x->ndim, x->shape, e));
    return td_infer_wanted(f, 1, mask, f->compute, grid->ndim, grid->shape, e);
}

/* ---- ctc_losses: inputs ix (T, N, C), targets, input_lengths, target_lengths; attribute k: blank */

static int check_ctc(const td_inference *f, int ix, int k, td_error *e)
{
    const td_desc *x = td_in(f, ix), *targets = td_in(f, ix + 1);
    int64_t blank = td_attr_int(f->attrs, k);
    char text[TD_TEXT];
    if (x->ndim != 3)
        return td_fail(e, TD_E_SHAPE, "expected log probabilities (T, N, C), but got %s", TD_SHAPE(x, text));
    for (int i = 1; i <= 3; i++) TD_TRY(td_infer_is_index(f, ix + i, e));
    TD_TRY(td_infer_has_shape(f, ix + 2, 1, &x->shape[1], e));
    TD_TRY(td_infer_has_shape(f, ix + 3, 1, &x->shape[1], e));
    if (targets->ndim != 1 && (targets->ndim != 2 || targets->shape[0] != x->shape[1]))
        return td_fail(e, TD_E_SHAPE, "targets are (N, S), or one row of all, not %s", TD_SHAPE(targets, text));
    if (blank < 0 || blank >= x->shape[2])
        return td_fail(e, TD_E_INVALID, "blank must be in label range, but is %" PRId64 " of %" PRId64 " classes",
                       blank, x->shape[2]);
    return TD_OK;
}

TD_RULE(ctc_losses)
{
    f->compute = td_in_dtype(f, 0);
    TD_TRY(check_ctc(f, 0, 0, e));
    return td_infer_make(f, f->compute, 1, &td_in(f, 0)->shape[1], e);
}

TD_RULE(ctc_losses_backward)
{
    const td_desc *x = td_in(f, 1);
    f->compute = (td_dtype)x->dtype;
    TD_TRY(check_ctc(f, 1, 0, e));
    TD_TRY(td_infer_has_shape(f, 0, 1, &x->shape[1], e));
    return td_infer_like(f, f->compute, x, e);
}

TD_RULE(adaptive_max)
{
    td_desc out = *td_in(f, 0);
    int n;
    const int64_t *sizes = td_attr_ints(f->attrs, 0, &n);
    char text[TD_TEXT];
    f->compute = (td_dtype)out.dtype;
    if (n < 1 || n > 3 || n > out.ndim)
        return td_fail(e, TD_E_SHAPE, "'sizes' are one to three of the %d sizes, not %d", out.ndim, n);
    for (int i = 0; i < n; i++) {
        int64_t *size = &out.shape[out.ndim - n + i];
        if (*size < 1 || sizes[i] < 1 || *size > INT32_MAX || sizes[i] > INT32_MAX)
            return td_fail(e, TD_E_SHAPE,
                           "Input and output sizes should be greater than 0, but got input %s and output %" PRId64
                           " at dimension %d",
                           td_shape_text(out.ndim, td_in(f, 0)->shape, text, sizeof text), sizes[i], out.ndim - n + i);
        *size = sizes[i];
    }
    TD_TRY(td_infer_like(f, f->compute, &out, e));
    return td_infer_like(f, TD_INT64, &out, e);
}
