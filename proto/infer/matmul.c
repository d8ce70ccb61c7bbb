/* Products of matrices and vectors. They do not promote: all tensors of a call have one dtype. Broadcasting of matmul()
 * is the client's: it lowers to these. */
#include "proto/infer/infer.h"

#include <inttypes.h>

static int is_matrix(const td_inference *f, int i, td_error *e)
{
    if (td_in(f, i)->ndim == 2) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "'%s' must be a matrix, got %d-D tensor", td_infer_name(f, i), td_in(f, i)->ndim);
}

/* Inputs i and i+1 as (rows, k) and (k, columns). */
static int multiply(const td_inference *f, int i, int64_t *shape, td_error *e)
{
    const td_desc *x = td_in(f, i), *y = td_in(f, i + 1);
    TD_TRY(is_matrix(f, i, e));
    TD_TRY(is_matrix(f, i + 1, e));
    if (x->shape[1] != y->shape[0])
        return td_fail(
            e, TD_E_SHAPE,
            "'%s' and '%s' shapes cannot be multiplied (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64 ")",
            td_infer_name(f, i), td_infer_name(f, i + 1), x->shape[0], x->shape[1], y->shape[0], y->shape[1]);
    shape[0] = x->shape[0];
    shape[1] = y->shape[1];
    return TD_OK;
}

TD_RULE(mm)
{
    int64_t shape[2];
    f->compute = td_in_dtype(f, 0);
    TD_TRY(multiply(f, 0, shape, e));
    return td_infer_make(f, f->compute, 2, shape, e);
}

/* The first two inputs: stacks of matrices. */
static int are_stacks(const td_inference *f, td_error *e)
{
    for (int i = 0; i < 2; i++)
        if (td_in(f, i)->ndim != 3)
            return td_fail(e, TD_E_SHAPE, "'%s' must be a 3D tensor, but has %d dimensions", td_infer_name(f, i),
                           td_in(f, i)->ndim);
    return TD_OK;
}

TD_RULE(bmm)
{
    const td_desc *x = td_in(f, 0), *y = td_in(f, 1);
    char text[TD_TEXT];
    f->compute = (td_dtype)x->dtype;
    TD_TRY(are_stacks(f, e));
    if (x->shape[0] != y->shape[0] || x->shape[2] != y->shape[1])
        return td_fail(e, TD_E_SHAPE,
                       "Expected size for first two dimensions of 'y' to be: [%" PRId64 ", %" PRId64
                       "] but its shape is %s",
                       x->shape[0], x->shape[2], TD_SHAPE(y, text));
    int64_t shape[3] = {x->shape[0], x->shape[1], y->shape[2]};
    return td_infer_make(f, f->compute, 3, shape, e);
}

TD_RULE(euclidean_dist)
{
    const td_desc *x = td_in(f, 0), *y = td_in(f, 1);
    char text[TD_TEXT];
    f->compute = (td_dtype)x->dtype;
    TD_TRY(are_stacks(f, e));
    if (x->shape[0] != y->shape[0] || x->shape[2] != y->shape[2])
        return td_fail(e, TD_E_SHAPE, "Expected 'y' to be [%" PRId64 ", any, %" PRId64 "], but its shape is %s",
                       x->shape[0], x->shape[2], TD_SHAPE(y, text));
    int64_t shape[3] = {x->shape[0], x->shape[1], y->shape[1]};
    return td_infer_make(f, f->compute, 3, shape, e);
}

TD_RULE(dot)
{
    const td_desc *x = td_in(f, 0), *y = td_in(f, 1);
    f->compute = (td_dtype)x->dtype;
    if (x->ndim != 1 || y->ndim != 1)
        return td_fail(e, TD_E_SHAPE, "1D tensors expected, but 'x' is %dD and 'y' is %dD", x->ndim, y->ndim);
    if (x->shape[0] != y->shape[0])
        return td_fail(e, TD_E_SHAPE,
                       "inconsistent tensor size, expected 'x' [%" PRId64 "] and 'y' [%" PRId64
                       "] to have the same number of elements",
                       x->shape[0], y->shape[0]);
    return td_infer_make(f, f->compute, 0, NULL, e);
}

TD_RULE(mv)
{
    const td_desc *x = td_in(f, 0), *y = td_in(f, 1);
    f->compute = (td_dtype)x->dtype;
    if (x->ndim != 2 || y->ndim != 1)
        return td_fail(e, TD_E_SHAPE, "matrix @ vector expected, but 'x' is %dD and 'y' is %dD", x->ndim, y->ndim);
    if (x->shape[1] != y->shape[0])
        return td_fail(e, TD_E_SHAPE, "size mismatch, got 'x' (%" PRId64 "x%" PRId64 ") and 'y' (%" PRId64 ")",
                       x->shape[0], x->shape[1], y->shape[0]);
    return td_infer_make(f, f->compute, 1, x->shape, e);
}

/* beta*c + alpha*(x@y): c is broadcast to the product. */
TD_RULE(addmm)
{
    const td_desc *c = td_in(f, 0);
    int64_t shape[2], both[TD_MAX_DIMS];
    int ndim = 2;
    char have[TD_TEXT], want[TD_TEXT];
    f->compute = (td_dtype)c->dtype;
    TD_TRY(multiply(f, 1, shape, e));
    TD_TRY(td_infer_alpha(f, 0, f->compute, e));
    TD_TRY(td_infer_alpha(f, 1, f->compute, e));
    memcpy(both, shape, sizeof shape);
    if (c->ndim > 2 || td_broadcast(both, &ndim, c->shape, c->ndim, NULL) || memcmp(both, shape, sizeof shape) != 0)
        return td_fail(e, TD_E_SHAPE, "'c' of shape %s cannot be expanded to the product's %s", TD_SHAPE(c, have),
                       td_shape_text(2, shape, want, sizeof want));
    return td_infer_make(f, f->compute, 2, shape, e);
}

/* x (..., in) @ w (out, in) transposed + b (out). */
TD_RULE(linear)
{
    const td_desc *x = td_in(f, 0), *w = td_in(f, 1);
    char a[TD_TEXT], b[TD_TEXT];
    f->compute = (td_dtype)x->dtype;
    TD_TRY(is_matrix(f, 1, e));
    if (x->ndim == 0) return td_fail(e, TD_E_SHAPE, "'x' must have at least one dimension");
    if (x->shape[x->ndim - 1] != w->shape[1])
        return td_fail(
            e, TD_E_SHAPE,
            "'x' and 'w' shapes cannot be multiplied (%s and the transpose of %s): the last size of 'x' must be "
            "%" PRId64,
            TD_SHAPE(x, a), TD_SHAPE(w, b), w->shape[1]);
    td_desc out = *x;
    out.shape[out.ndim - 1] = w->shape[0];
    return td_infer_like(f, f->compute, &out, e);
}
