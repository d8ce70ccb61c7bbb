/* What training needs besides: the likelihood loss, dropout, optimizer steps. */
#include "proto/infer/infer.h"

#include <inttypes.h>

enum { REDUCTION_NONE = 0, REDUCTION_SUM = 2 };

/* (C), (N, C) or (N, C, d1, ...) of scores: what is left without the classes is the target's shape. */
static int check_target(const td_inference *f, int i, int ndim, const int64_t *scores, int64_t *rest, int *nrest,
                        td_error *e)
{
    char a[TD_TEXT], b[TD_TEXT];
    const td_desc *target = td_in(f, i);
    int classes = ndim > 1;
    if (ndim < 1 || ndim > TD_MAX_DIMS)
        return td_fail(e, TD_E_SHAPE,
                       "expected scores of shape (C), (N, C) or (N, C, d1, ...), but they have %d dimensions", ndim);
    *nrest = 0;
    for (int k = 0; k < ndim; k++)
        if (k != classes) rest[(*nrest)++] = scores[k];
    TD_TRY(td_infer_is_index(f, i, e));
    if (target->ndim == *nrest && !memcmp(target->shape, rest, (size_t)*nrest * sizeof *rest)) return TD_OK;
    if (ndim > 1 && target->ndim >= 1 && target->shape[0] != scores[0])
        return td_fail(e, TD_E_SHAPE,
                       "Expected input batch_size (%" PRId64 ") to match 'target' batch_size (%" PRId64 ")", scores[0],
                       target->shape[0]);
    return td_fail(e, TD_E_SHAPE, "expected 'target' of shape %s for scores of shape %s",
                   td_shape_text(*nrest, rest, a, sizeof a), td_shape_text(ndim, scores, b, sizeof b));
}

static int check_reduction(int64_t reduction, td_error *e)
{
    if (reduction >= REDUCTION_NONE && reduction <= REDUCTION_SUM) return TD_OK;
    return td_fail(e, TD_E_INVALID, "'reduction' is 0 (none), 1 (mean) or 2 (sum), not %" PRId64, reduction);
}

/* Inputs x, target, weight. */
TD_RULE(nll_loss)
{
    const td_desc *x = td_in(f, 0);
    int64_t rest[TD_MAX_DIMS], reduction = td_attr_int(f->attrs, 0);
    int nrest;
    f->compute = (td_dtype)x->dtype;
    TD_TRY(check_reduction(reduction, e));
    TD_TRY(check_target(f, 1, x->ndim, x->shape, rest, &nrest, e));
    TD_TRY(td_infer_has_shape(f, 2, 1, &x->shape[x->ndim > 1], e));
    TD_TRY(td_infer_make(f, f->compute, reduction == REDUCTION_NONE ? nrest : 0, rest, e));
    return td_infer_make(f, f->compute, 0, NULL, e);
}

/* Inputs g, target, weight, total_weight; attributes shape (of x), reduction. */
TD_RULE(nll_loss_backward)
{
    int64_t rest[TD_MAX_DIMS], reduction = td_attr_int(f->attrs, 1);
    int nrest, ndim;
    const int64_t *shape = td_attr_ints(f->attrs, 0, &ndim);
    f->compute = td_in_dtype(f, 0);
    TD_TRY(check_reduction(reduction, e));
    TD_TRY(check_target(f, 1, ndim, shape, rest, &nrest, e));
    TD_TRY(td_infer_has_shape(f, 0, reduction == REDUCTION_NONE ? nrest : 0, rest, e));
    TD_TRY(td_infer_has_shape(f, 2, 1, &shape[ndim > 1], e));
    return td_infer_make(f, f->compute, ndim, shape, e);
}

static const int64_t state_shape[1] = {2}; /* Philox key and counter */

static int check_probability(double p, td_error *e)
{
    if (p >= 0 && p <= 1) return TD_OK;
    return td_fail(e, TD_E_INVALID, "dropout probability 'p' has to be between 0 and 1, but got %g", p);
}

TD_RULE(dropout)
{
    f->compute = td_in_dtype(f, 0);
    TD_TRY(check_probability(td_attr_float(f->attrs, 0), e));
    TD_TRY(td_infer_like(f, f->compute, td_in(f, 0), e));
    return td_infer_make(f, TD_INT64, 1, state_shape, e);
}

TD_RULE(dropout_backward)
{
    f->compute = td_in_dtype(f, 0);
    TD_TRY(check_probability(td_attr_float(f->attrs, 0), e));
    if (td_in(f, 1)->dtype != TD_INT64)
        return td_fail(e, TD_E_TYPE, "'state' must be the int64 state that dropout() gave, but is %s",
                       td_dtype_name(td_in_dtype(f, 1)));
    return td_infer_like(f, f->compute, td_in(f, 0), e);
}

/* The one-element step count of an optimizer: any dtype that holds it. */
static int check_count(const td_inference *f, int i, td_error *e)
{
    char text[128];
    const td_desc *d = td_in(f, i);
    bool dtype = d->dtype == TD_FLOAT32 || d->dtype == TD_FLOAT64 || d->dtype == TD_INT64;
    if (dtype && d->ndim <= 1 && td_desc_numel(d) == 1) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "'%s' must be one float32, float64 or int64 number, but is %s", td_infer_name(f, i),
                   td_desc_text(d, text, sizeof text));
}

/* What is kept beside p and g is of p's dtype, or float32. Nothing is made. */
TD_RULE(step)
{
    f->compute = td_in_dtype(f, 0);
    for (int i = 2; i < f->nin; i++) {
        if (f->op->params[i].shape == TD_SHAPE_ANY) TD_TRY(check_count(f, i, e));
        else if (td_in(f, i) && td_in(f, i)->dtype != TD_FLOAT32) TD_TRY(td_infer_same_dtype(f, 0, i, e));
    }
    return TD_OK;
}
