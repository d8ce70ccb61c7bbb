/* Ops made of ops: products of all ranks, statistics and losses. */
#include "client/run.h"

#include <math.h>

static td_array *then(td_array *temporary, td_array *result)
{
    td_release(temporary);
    return result;
}

static const td_desc *desc_of(td_array *x)
{
    return td_ndim(x) < 0 ? NULL : &x->desc;
}

/* ---- matmul ------------------------------------------------------------------------------------------------------ */

/* (..., k) by (k, m) or (k): one product over all rows. */
static td_array *fold_rows(const char *where, td_array *x, td_array *y)
{
    const td_desc *a = &x->desc, *b = &y->desc;
    int64_t rows[2] = {-1, a->shape[a->ndim - 1]}, shape[TD_MAX_DIMS];
    rows[0] = 1;
    for (int k = 0; k < a->ndim - 1; k++) rows[0] *= shape[k] = a->shape[k];
    td_array *flat = td_at_reshape(where, x, td_dims_of(2, rows));
    td_array *product = b->ndim == 1 ? td_at_mv(where, flat, y) : td_at_mm(where, flat, y);
    td_release(flat);
    if (b->ndim == 2) shape[a->ndim - 1] = b->shape[1];
    return then(product, td_at_view(where, product, td_dims_of(a->ndim - (b->ndim == 1), shape)));
}

/* Expand to the common batch and flatten it: (batch, n, m) of x with its own last two dimensions. */
static td_array *to_batch(const char *where, td_array *x, int nbatch, const int64_t *batch, int64_t count)
{
    const td_desc *d = &x->desc;
    int64_t wide[TD_MAX_DIMS], flat[3] = {count, d->shape[d->ndim - 2], d->shape[d->ndim - 1]};
    for (int k = 0; k < nbatch; k++) wide[k] = batch[k];
    wide[nbatch] = flat[1];
    wide[nbatch + 1] = flat[2];
    td_array *expanded = td_at_expand(where, x, td_dims_of(nbatch + 2, wide));
    return then(expanded, td_at_reshape(where, expanded, td_dims_of(3, flat)));
}

static td_array *batched(const char *where, td_array *x, td_array *y)
{
    const td_desc *a = &x->desc, *b = &y->desc;
    int64_t shape[TD_MAX_DIMS], count = 1;
    int n = a->ndim - 2;
    for (int k = 0; k < n; k++) shape[k] = a->shape[k];
    td_error e = {0};
    if (td_broadcast(shape, &n, b->shape, b->ndim - 2, &e)) {
        td_raise_error(&e, "matmul", where);
        return NULL;
    }
    for (int k = 0; k < n; k++) count *= shape[k];
    td_array *p = to_batch(where, x, n, shape, count), *q = to_batch(where, y, n, shape, count);
    td_array *product = td_at_bmm(where, p, q);
    td_release(p);
    td_release(q);
    shape[n] = a->shape[a->ndim - 2];
    shape[n + 1] = b->shape[b->ndim - 1];
    return then(product, td_at_view(where, product, td_dims_of(n + 2, shape)));
}

/* A vector beside batches takes a dimension of one, which the result loses again. */
static td_array *with_vector(const char *where, td_array *x, td_array *y, bool left)
{
    td_array *matrix = td_at_unsqueeze(where, left ? x : y, left ? 0 : -1);
    td_array *product = left ? td_at_matmul(where, matrix, y) : td_at_matmul(where, x, matrix);
    td_release(matrix);
    return then(product, td_at_squeeze(where, product, left ? td_dims(-2) : td_dims(-1)));
}

TD_API td_array *td_at_matmul(const char *where, td_array *x, td_array *y)
{
    const td_desc *a = desc_of(x), *b = a ? desc_of(y) : NULL;
    if (!b) return NULL;
    if (a->ndim == 0 || b->ndim == 0) {
        td_raise(TD_E_SHAPE, "matmul", "both arguments need to be at least 1-d, but they are %d-d and %d-d", a->ndim,
                 b->ndim);
        return NULL;
    }
    if (a->ndim == 1 && b->ndim == 1) return td_at_dot(where, x, y);
    if (a->ndim == 2 && b->ndim == 2) return td_at_mm(where, x, y);
    if (a->ndim == 2 && b->ndim == 1) return td_at_mv(where, x, y);
    if (a->ndim >= 3 && b->ndim <= 2) return fold_rows(where, x, y);
    if (a->ndim == 1 || b->ndim == 1) return with_vector(where, x, y, a->ndim == 1);
    return batched(where, x, y);
}

TD_API td_array *td_at_outer(const char *where, td_array *x, td_array *y)
{
    const td_desc *a = desc_of(x), *b = a ? desc_of(y) : NULL;
    if (!b) return NULL;
    if (a->ndim != 1 || b->ndim != 1) {
        td_raise(TD_E_SHAPE, "outer", "both arguments must be 1-d, but they are %d-d and %d-d", a->ndim, b->ndim);
        return NULL;
    }
    td_array *column = td_at_unsqueeze(where, x, 1);
    return then(column, td_at_mul(where, td_arg_array(column), td_arg_array(y)));
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static td_array *bare_root(const char *where, td_array *x, double p)
{
    return p == 2 ? td_at_sqrt(where, x) : td_at_pow(where, td_arg_array(x), td_arg_float(1 / p));
}

/* The p-th root of a sum of powers. Where all of them are 0 its slope is infinite, and infinity times 0 would make NaN
 * of the gradients of weights that are all alike; there it counts as 0. Takes `total` over. */
static td_array *root(const char *where, td_array *total, double p)
{
    if (!total || !td_grad_enabled()) return then(total, total ? bare_root(where, total, p) : NULL);
    td_array *none = td_at_eq(where, td_arg_array(total), td_arg_int(0));
    td_array *safe = none ? td_at_masked_fill(where, total, none, td_arg_int(1)) : NULL;
    td_array *some = then(safe, safe ? bare_root(where, safe, p) : NULL);
    td_array *all = some ? td_at_masked_fill(where, some, none, td_arg_float(p < 0 ? pow(0, 1 / p) : 0)) : NULL;
    td_release(some);
    td_release(none);
    return then(total, all);
}

TD_API td_array *td_at_std(const char *where, td_array *x, td_ints dim, double correction, bool keepdim)
{
    return root(where, td_at_var(where, x, dim, correction, keepdim), 2);
}

static td_array *sum_of(const char *where, td_array *terms, td_ints dim, bool keepdim)
{
    return then(terms, td_at_sum(where, terms, dim, keepdim, TD_DTYPE_NONE));
}

static td_array *norm_of(const char *where, td_array *x, double p, td_ints dim, bool keepdim)
{
    if (p == 0) {
        td_array *there = td_at_ne(where, td_arg_array(x), td_arg_int(0));
        td_array *counted =
            then(there, there ? td_at_copy(where, there, td_dtype_real((td_dtype)x->desc.dtype)) : NULL);
        return sum_of(where, counted, dim, keepdim);
    }
    td_array *size = td_at_abs(where, x);
    if (isinf(p))
        return then(size, p > 0 ? td_at_amax(where, size, dim, keepdim) : td_at_amin(where, size, dim, keepdim));
    if (p == 1) return sum_of(where, size, dim, keepdim);
    td_array *powers = p == 2 ? td_at_square(where, size) : td_at_pow(where, td_arg_array(size), td_arg_float(p));
    td_release(size);
    return root(where, sum_of(where, powers, dim, keepdim), p);
}

/* Powers of halves are soon out of their range: float32 in between. */
TD_API td_array *td_at_norm(const char *where, td_array *x, double p, td_ints dim, bool keepdim)
{
    td_dtype t = x ? (td_dtype)x->desc.dtype : TD_FLOAT32;
    if (t != TD_FLOAT16 && t != TD_BFLOAT16) return norm_of(where, x, p, dim, keepdim);
    td_array *wide = td_at_copy(where, x, TD_FLOAT32);
    td_array *norm = wide ? norm_of(where, wide, p, dim, keepdim) : NULL;
    return then(wide, then(norm, norm ? td_at_copy(where, norm, t) : NULL));
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* Takes `each` over. */
static td_array *reduced(const char *where, td_array *each, int reduction)
{
    if (reduction == TD_REDUCE_NONE || !each) return each;
    return then(each, reduction == TD_REDUCE_SUM ? td_at_sum(where, each, td_no_dims(), false, TD_DTYPE_NONE)
                                                 : td_at_mean(where, each, td_no_dims(), false, TD_DTYPE_NONE));
}

static td_array *difference(const char *where, td_array *x, td_array *y)
{
    return td_at_sub(where, td_arg_array(x), td_arg_array(y), td_arg_int(1));
}

TD_API td_array *td_at_mse_loss(const char *where, td_array *x, td_array *y, int reduction)
{
    td_array *d = difference(where, x, y);
    return reduced(where, then(d, td_at_square(where, d)), reduction);
}

TD_API td_array *td_at_l1_loss(const char *where, td_array *x, td_array *y, int reduction)
{
    td_array *d = difference(where, x, y);
    return reduced(where, then(d, td_at_abs(where, d)), reduction);
}

/* (N, C, d...) as (N*d..., C), for a loss over class scores. */
static td_array *classes_last(const char *where, td_array *x)
{
    td_array *moved = td_at_movedim(where, x, 1, -1);
    int64_t shape[2] = {-1, x->desc.shape[1]};
    return then(moved, td_at_reshape(where, moved, td_dims_of(2, shape)));
}

static td_array *cross_entropy_deep(const char *where, td_array *x, td_array *target, td_array *weight, int reduction,
                                    int64_t ignore)
{
    td_array *scores = classes_last(where, x), *flat = td_at_reshape(where, target, td_dims(-1));
    td_array *loss = scores && flat ? td_at_cross_entropy(where, scores, flat, weight, reduction, ignore) : NULL;
    td_release(scores);
    td_release(flat);
    if (reduction != TD_REDUCE_NONE || !loss) return loss;
    return then(loss, td_at_view(where, loss, td_dims_of(target->desc.ndim, target->desc.shape)));
}

TD_API td_array *td_at_cross_entropy(const char *where, td_array *x, td_array *target, td_array *weight, int reduction,
                                     int64_t ignore_index)
{
    const td_desc *a = desc_of(x), *b = a ? desc_of(target) : NULL;
    if (!b) return NULL;
    if (a->ndim > 2) return cross_entropy_deep(where, x, target, weight, reduction, ignore_index);
    td_array *logs = td_at_log_softmax(where, x, a->ndim == 2 ? 1 : 0);
    return then(logs, td_at_nll_loss(where, logs, target, weight, NULL, reduction, ignore_index));
}
