/* What the inference rules share: making outputs, promoting by the three tiers, broadcasting, and the checks whose
 * words should be the same everywhere. */
#include "proto/infer/infer.h"

#include <inttypes.h>

const char *td_infer_name(const td_inference *f, int i)
{
    return f->op->params[td_op_param_of(f->op, f->nin, i)].name;
}

uint8_t td_infer_device(const td_inference *f)
{
    for (int i = 0; i < f->nin; i++)
        if (f->in[i].desc && f->in[i].desc->device != TD_CPU) return f->in[i].desc->device;
    return f->device;
}

static int room(const td_inference *f, td_error *e)
{
    if (f->nout < f->max_out) return TD_OK;
    return td_fail(e, TD_E_INVALID, "the call makes more than %d results", f->max_out);
}

int td_infer_make(td_inference *f, td_dtype dtype, int ndim, const int64_t *shape, td_error *e)
{
    TD_TRY(room(f, e));
    td_desc *out = &f->out[f->nout];
    TD_TRY(td_desc_contiguous(out, dtype, ndim, shape, e));
    out->device = td_infer_device(f);
    f->nout++;
    return TD_OK;
}

int td_infer_like(td_inference *f, td_dtype dtype, const td_desc *shape, td_error *e)
{
    return td_infer_make(f, dtype, shape->ndim, shape->shape, e);
}

/* Nothing steps by the stride of a dimension of one element, or of an empty tensor, so that it may be any number. One
 * beyond all storage becomes 0: then whoever multiplies strides by the size of an element stays within 63 bits. */
static void settle_strides(td_desc *d)
{
    for (int i = 0; i < d->ndim; i++)
        if (d->stride[i] > TD_DESC_BYTES && (d->shape[i] == 1 || td_desc_numel(d) == 0)) d->stride[i] = 0;
}

int td_infer_append(td_inference *f, const td_desc *d, td_error *e)
{
    TD_TRY(room(f, e));
    f->out[f->nout] = *d;
    settle_strides(&f->out[f->nout++]);
    return TD_OK;
}

int td_infer_wanted(td_inference *f, int bit, int64_t mask, td_dtype t, int ndim, const int64_t *shape, td_error *e)
{
    static const int64_t nothing[1] = {0};
    bool wanted = mask >> bit & 1;
    return td_infer_make(f, t, wanted ? ndim : 1, wanted ? shape : nothing, e);
}

/* ---- promotion: tensors with dimensions, 0-d tensors, numbers; a lower tier counts only when its category is higher
 */

static td_dtype join(td_dtype a, td_dtype b)
{
    return a == TD_DTYPE_NONE ? b : a == b ? a : td_promote(a, b);
}

static td_dtype over(td_dtype higher, td_dtype lower)
{
    if (higher == TD_DTYPE_NONE) return lower;
    if (lower == TD_DTYPE_NONE || td_dtype_category(higher) >= td_dtype_category(lower)) return higher;
    /* A float keeps its width beside complex numbers of a lower tier. */
    return td_dtype_is_float(higher) ? td_dtype_complex(higher) : td_promote(higher, lower);
}

static bool is_signed(td_dtype t)
{
    return t >= TD_INT8 && t <= TD_INT64;
}

/* One behind `from` in the tier, in which whole numbers of any kind can lie. */
static td_dtype some_inexact(const td_inference *f, int from, bool tier)
{
    for (int i = from; i < f->nin; i++)
        if (f->in[i].desc && (f->in[i].desc->ndim == 0) == tier && td_dtype_is_inexact(td_in_dtype(f, i)))
            return td_in_dtype(f, i);
    return TD_DTYPE_NONE;
}

/* The one pair that nothing holds: uint64 and signed whole numbers, of one tier. */
static int none_for_both(const td_inference *f, int from, int tier, td_error *e)
{
    int whole = -1, natural = -1;
    for (int i = from; i < f->nin; i++) {
        if (!f->in[i].desc || (f->in[i].desc->ndim == 0) != tier) continue;
        if (td_in_dtype(f, i) == TD_UINT64 && natural < 0) natural = i;
        if (is_signed(td_in_dtype(f, i)) && whole < 0) whole = i;
    }
    return td_fail(e, TD_E_TYPE,
                   "no dtype holds both '%s', which is uint64, and '%s', which is %s: convert one to the other's",
                   td_infer_name(f, natural), td_infer_name(f, whole), td_dtype_name(td_in_dtype(f, whole)));
}

int td_infer_promote(const td_inference *f, int from, const td_scalar *extra, td_dtype *out, td_error *e)
{
    td_dtype tier[3] = {TD_DTYPE_NONE, TD_DTYPE_NONE, TD_DTYPE_NONE};
    for (int i = from; i < f->nin; i++) {
        const td_operand *in = &f->in[i];
        if (in->desc) {
            td_dtype *t = &tier[in->desc->ndim == 0];
            *t = join(*t, (td_dtype)in->desc->dtype);
            if (*t == TD_DTYPE_NONE) *t = some_inexact(f, i, in->desc->ndim == 0);
            if (*t == TD_DTYPE_NONE) return none_for_both(f, from, in->desc->ndim == 0, e);
        } else if (in->scalar) tier[2] = join(tier[2], td_scalar_dtype(*in->scalar));
    }
    if (extra) tier[2] = join(tier[2], td_scalar_dtype(*extra));
    *out = over(tier[0], over(tier[1], tier[2]));
    return TD_OK;
}

static int cannot_broadcast(const td_inference *f, int last, int i, int ndim, int64_t *shape, td_error *e)
{
    const td_desc *d = td_in(f, i);
    char a[TD_TEXT], b[TD_TEXT];
    td_error why;
    td_broadcast(shape, &ndim, d->shape, d->ndim, &why);
    return td_fail(e, TD_E_SHAPE, "%s ('%s' makes %s, '%s' is %s)", why.message, td_infer_name(f, last),
                   td_shape_text(ndim, shape, a, sizeof a), td_infer_name(f, i), TD_SHAPE(d, b));
}

int td_infer_broadcast(const td_inference *f, int from, int64_t *shape, int *ndim, td_error *e)
{
    int last = -1;
    *ndim = 0;
    for (int i = from; i < f->nin; i++) {
        const td_desc *d = f->in[i].desc;
        if (!d) continue;
        if (td_broadcast(shape, ndim, d->shape, d->ndim, NULL)) return cannot_broadcast(f, last, i, *ndim, shape, e);
        last = i;
    }
    return TD_OK;
}

/* ---- checks */

int td_infer_dim(const td_inference *f, int k, int ndim, int *dim, td_error *e)
{
    return td_wrap_dim(td_attr_int(f->attrs, k), ndim, dim, e);
}

int td_infer_dims(const td_inference *f, int k, int ndim, unsigned *bits, td_error *e)
{
    int n, dim;
    const int64_t *dims = td_attr_ints(f->attrs, k, &n);
    *bits = 0;
    for (int i = 0; i < n; i++) {
        TD_TRY(td_wrap_dim(dims[i], ndim, &dim, e));
        if (*bits >> dim & 1)
            return td_fail(e, TD_E_INVALID, "dim %d appears multiple times in the list of dims ('%s')", dim,
                           f->op->attrs[k].name);
        *bits |= 1u << dim;
    }
    return TD_OK;
}

int td_infer_ints(const td_inference *f, int k, int n, int64_t least, const int64_t **v, td_error *e)
{
    int count;
    const char *name = f->op->attrs[k].name;
    *v = td_attr_ints(f->attrs, k, &count);
    if (count != n) return td_fail(e, TD_E_INVALID, "'%s' must have %d numbers, but has %d", name, n, count);
    for (int i = 0; i < n; i++)
        if ((*v)[i] < least)
            return td_fail(e, TD_E_INVALID, "'%s' must be at least %" PRId64 ", but has %" PRId64, name, least,
                           (*v)[i]);
    return TD_OK;
}

int td_infer_attr_of(const td_inference *f, td_attr_kind kind)
{
    int k = f->op->nattrs - 1;
    while (k >= 0 && f->op->attrs[k].kind != kind) k--;
    return k;
}

int td_infer_same_dtype(const td_inference *f, int i, int k, td_error *e)
{
    if (!td_in(f, i) || !td_in(f, k) || td_in(f, i)->dtype == td_in(f, k)->dtype) return TD_OK;
    return td_fail(e, TD_E_TYPE, "expected '%s' and '%s' to have the same dtype, but got: %s != %s",
                   td_infer_name(f, i), td_infer_name(f, k), td_dtype_name(td_in_dtype(f, i)),
                   td_dtype_name(td_in_dtype(f, k)));
}

int td_infer_has_shape(const td_inference *f, int i, int ndim, const int64_t *shape, td_error *e)
{
    const td_desc *d = td_in(f, i);
    if (!d || (d->ndim == ndim && (ndim == 0 || !memcmp(d->shape, shape, (size_t)ndim * sizeof *shape)))) return TD_OK;
    char want[TD_TEXT], got[TD_TEXT];
    return td_fail(e, TD_E_SHAPE, "expected '%s' to have shape %s, but it has %s", td_infer_name(f, i),
                   td_shape_text(ndim, shape, want, sizeof want), TD_SHAPE(d, got));
}

/* The shape that parameter i must have; the number of dimensions. */
static int shape_of(const td_inference *f, int i, const int64_t **shape, int64_t *size)
{
    const td_param *p = &f->op->params[i];
    *shape = size;
    *size = p->at;
    if (p->shape == TD_SHAPE_GIVEN) return p->of;
    const td_desc *d = td_in(f, p->of);
    *shape = p->shape == TD_SHAPE_SIZE ? &d->shape[p->at] : d->shape;
    if (p->shape == TD_SHAPE_SIZE) return 1;
    if (p->shape == TD_SHAPE_OF) return d->ndim;
    int tail = (int)td_attr_int(f->attrs, p->at), head = d->ndim - tail;
    if (p->shape == TD_SHAPE_TAIL) *shape += head;
    return p->shape == TD_SHAPE_TAIL ? tail : head;
}

int td_infer_shapes(const td_inference *f, td_error *e)
{
    for (int i = 0; i < f->nin; i++) {
        const int64_t *shape;
        int64_t size;
        if (f->op->params[i].shape == TD_SHAPE_ANY || !td_in(f, i)) continue;
        int ndim = shape_of(f, i, &shape, &size);
        TD_TRY(td_infer_has_shape(f, i, ndim, shape, e));
    }
    return TD_OK;
}

int td_infer_is_index(const td_inference *f, int i, td_error *e)
{
    td_dtype t = td_in_dtype(f, i);
    if (t == TD_INT64 || t == TD_INT32) return TD_OK;
    return td_fail(e, TD_E_TYPE, "expected dtype int64 or int32 for index '%s', but got %s%s", td_infer_name(f, i),
                   td_dtype_name(t), t == TD_BOOL ? " (a mask is turned into indices with nonzero() first)" : "");
}

int td_infer_is_bool(const td_inference *f, int i, td_error *e)
{
    if (td_in_dtype(f, i) == TD_BOOL) return TD_OK;
    return td_fail(e, TD_E_TYPE, "expected '%s' to be a boolean tensor, but got a tensor with dtype %s",
                   td_infer_name(f, i), td_dtype_name(td_in_dtype(f, i)));
}

int td_infer_alpha(const td_inference *f, int k, td_dtype t, td_error *e)
{
    if (!td_attr_given(f->attrs, k)) return TD_OK;
    const char *name = f->op->attrs[k].name;
    td_scalar_kind kind = f->attrs->at[k].s.kind;
    if (kind == TD_S_BOOL && t != TD_BOOL)
        return td_fail(e, TD_E_TYPE, "a boolean '%s' is only for boolean results, not for %s", name, td_dtype_name(t));
    if (kind >= TD_S_FLOAT && td_dtype_is_integral(t))
        return td_fail(e, TD_E_TYPE, "for integral input tensors, argument '%s' must not be a floating point number",
                       name);
    if (kind == TD_S_COMPLEX && !td_dtype_is_complex(t))
        return td_fail(e, TD_E_TYPE, "for non-complex input tensors, argument '%s' must not be a complex number", name);
    return TD_OK;
}
