/* Attention by tiles, and its gradients: q (B, H, L, E), k (B, K, S, E), v (B, K, S, F), H a multiple of K, no size 0. The
 * composed scaled_dot_product_attention sends what fits. */
#include "proto/infer/infer.h"

#include <inttypes.h>

enum { MOST = 1024 }; /* columns: rows of a tile lie in scratch */

static int check_heads(const td_inference *f, int q, td_error *e)
{
    for (int i = q; i < q + 3; i++) {
        const td_desc *d = td_in(f, i);
        if (d->ndim != 4)
            return td_fail(e, TD_E_SHAPE, "expected '%s' to have 4 dimensions, but it has %d", td_infer_name(f, i), d->ndim);
        for (int k = 0; k < 4; k++)
            if (d->shape[k] < 1) return td_fail(e, TD_E_SHAPE, "'%s' has a size of 0", td_infer_name(f, i));
        if (d->shape[3] > MOST)
            return td_fail(e, TD_E_SHAPE, "'%s' has heads of %" PRId64 " columns, more than %d", td_infer_name(f, i), d->shape[3], MOST);
    }
    const int64_t *qs = td_in(f, q)->shape, *ks = td_in(f, q + 1)->shape, *vs = td_in(f, q + 2)->shape;
    if (ks[0] != qs[0] || ks[3] != qs[3] || qs[1] % ks[1] != 0) {
        char one[TD_TEXT], other[TD_TEXT];
        return td_fail(e, TD_E_SHAPE,
                       "'query' of shape %s needs a 'key' of as many batches and columns, and of heads that its own are a multiple of, but got %s",
                       TD_SHAPE(td_in(f, q), one), TD_SHAPE(td_in(f, q + 1), other));
    }
    return td_infer_has_shape(f, q + 2, 4, (int64_t[]){ks[0], ks[1], ks[2], vs[3]}, e);
}

/* It is broadcast to (B, H, L, S). */
static int check_mask(const td_inference *f, int i, const int64_t *qs, int64_t keys, td_error *e)
{
    const td_desc *d = td_in(f, i);
    const int64_t all[4] = {qs[0], qs[1], qs[2], keys};
    char text[TD_TEXT];
    if (!d) return TD_OK;
    if (d->dtype != TD_BOOL) TD_TRY(td_infer_same_dtype(f, i - 3, i, e));
    bool fits = d->ndim <= 4;
    for (int k = 0; fits && k < d->ndim; k++) fits = d->shape[k] == 1 || d->shape[k] == all[4 - d->ndim + k];
    if (fits) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "'attn_mask' of shape %s cannot be broadcast to batch, heads, queries and keys", TD_SHAPE(d, text));
}

static td_dtype statistic(td_dtype t)
{
    return t == TD_FLOAT16 || t == TD_BFLOAT16 ? TD_FLOAT32 : t;
}

TD_RULE(tiled_attention)
{
    f->compute = td_in_dtype(f, 0);
    TD_TRY(check_heads(f, 0, e));
    const int64_t *qs = td_in(f, 0)->shape;
    TD_TRY(check_mask(f, 3, qs, td_in(f, 1)->shape[2], e));
    TD_TRY(td_infer_make(f, f->compute, 4, (int64_t[]){qs[0], qs[1], qs[2], td_in(f, 2)->shape[3]}, e));
    return td_infer_make(f, statistic(f->compute), 3, qs, e);
}

TD_RULE(tiled_attention_backward)
{
    f->compute = td_in_dtype(f, 0);
    int64_t mask = td_attr_int(f->attrs, 2);
    TD_TRY(check_heads(f, 1, e));
    const int64_t *qs = td_in(f, 1)->shape, y[4] = {qs[0], qs[1], qs[2], td_in(f, 3)->shape[3]};
    TD_TRY(check_mask(f, 4, qs, td_in(f, 2)->shape[2], e));
    TD_TRY(td_infer_has_shape(f, 0, 4, y, e));
    TD_TRY(td_infer_has_shape(f, 5, 4, y, e));
    TD_TRY(td_infer_has_shape(f, 6, 3, y, e));
    if (td_in_dtype(f, 6) != statistic(f->compute))
        return td_fail(e, TD_E_TYPE, "expected 'logsumexp' to be %s", td_dtype_name(statistic(f->compute)));
    for (int i = 1; i < 4; i++) TD_TRY(td_infer_wanted(f, i - 1, mask, f->compute, 4, td_in(f, i)->shape, e));
    return TD_OK;
}
