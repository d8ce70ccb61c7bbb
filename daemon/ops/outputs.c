/* Outputs: views, new storages, and the rules for tensors that are given to be written (in place, out=).
 *
 * A given tensor must have the result's shape (nothing broadcasts a destination), must be able to take its dtype, and
 * must not reach an element twice. What the kernel cannot write directly goes through a temporary: a layout or dtype it
 * does not take, or an input that it would overwrite while it still reads it. An input that overlaps in part is
 * refused. */
#include "daemon/ops/overlap.h"
#include "daemon/ops/prepare.h"
#include "proto/base/device.h"
#include <stdlib.h>

/* Dtypes as error messages of tensor libraries have always called them. */
static const char *dtype_title(unsigned t)
{
    static const char *const titles[TD_DTYPE_COUNT] = {"Bool",         "Byte",          "Char",     "Short",  "Int",
                                                       "Long",         "Half",          "BFloat16", "Float",  "Double",
                                                       "ComplexFloat", "ComplexDouble", "UInt16",   "UInt32", "UInt64"};
    return t < TD_DTYPE_COUNT ? titles[t] : "?";
}

void td_prep_drop(td_prep *p)
{
    td_call *c = p->c;
    for (int i = 0; !(c->flags & TD_CF_OUT) && i < c->nout; i++) {
        td_tensor_unref(c->out[i]);
        c->out[i] = NULL;
    }
    td_tensor_unref(c->cast);
    c->cast = NULL;
    free(c->copy);
    c->copy = NULL;
}

int td_prep_views(td_prep *p, td_error *e)
{
    td_call *c = p->c;
    int rc = 0;
    if (c->flags & TD_CF_OUT)
        return td_fail(e, TD_E_INVALID, "%s makes views: there is nothing to write into", c->op->name);
    /* inference knows shapes, not how large the storage is: as_strided and view_dtype may ask for more */
    for (int i = 0; i < c->nout && !rc; i++) rc = td_desc_check(&p->f.out[i], c->in[0].tensor->storage->nbytes, e);
    for (int i = 0; i < c->nout && !rc; i++)
        rc = td_tensor_view(&c->out[i], c->in[0].tensor, &p->f.out[i], p->place.account, e);
    c->flags |= TD_CF_VIEW;
    return rc;
}

int td_prep_make(const td_place *place, const td_desc *d, uint64_t bytes, td_tensor **out, td_need *need, td_error *e)
{
    td_storage *s;
    td_place there = *place;
    there.device = d->device;
    int rc = td_storage_new(&s, &there, bytes, need, e);
    if (rc) return rc;
    rc = td_tensor_new(out, s, d, place->account, e);
    td_storage_unref(s);
    return rc;
}

static int make(td_prep *p, const td_desc *d, td_tensor **out, td_error *e)
{
    uint64_t lo, hi;
    td_desc_extent(d, &lo, &hi);
    return td_prep_make(&p->place, d, hi, out, p->need, e);
}

/* May the op's kernel write result `o` where that lies so? */
static bool takes_layout(const td_op *op, int o, const td_desc *d)
{
    if (op->flags & (TD_OF_POINTWISE | TD_OF_UNCOMPUTED) || td_desc_is_contiguous(d)) return true;
    return o == 0 && op->flags & TD_OF_OUT_STRIDED; /* of many results the first */
}

int td_prep_allocate(td_prep *p, td_error *e)
{
    td_call *c = p->c;
    for (int i = 0; i < c->nout; i++) {
        int rc = make(p, &p->f.out[i], &c->out[i], e);
        if (rc) return rc;
    }
    p->through = c->nout && !takes_layout(c->op, 0, &p->f.out[0]);
    return 0;
}

int td_prep_temporary(td_prep *p, td_error *e)
{
    if (!p->through) return 0;
    td_desc d = p->f.out[0];
    td_desc_pack(&d);
    return make(p, &d, &p->c->cast, e);
}

/* What narrows tensors to the dtype that is given (fill_, copy_) narrows no number out of its range. */
static int check_numbers(const td_call *c, td_dtype to, td_error *e)
{
    for (int k = 0; k < c->op->nattrs; k++)
        if (c->attrs.at[k].kind == TD_A_SCALAR && !td_scalar_fits(c->attrs.at[k].s, to))
            return td_fail(e, TD_E_INVALID, "%s cannot be converted to type %s without overflow", c->op->attrs[k].name,
                           td_dtype_name(to));
    return TD_OK;
}

static int check_fit(const td_prep *p, int o, td_error *e)
{
    const td_op *op = p->c->op;
    const td_desc *given = &p->c->out[o]->desc, *made = &p->f.out[o];
    char a[160], b[160];
    bool spreads = op->flags & TD_OF_SOURCE; /* its source, never its destination */
    int64_t shape[TD_MAX_DIMS];
    int ndim = given->ndim;
    memcpy(shape, given->shape, sizeof shape);
    if (spreads && td_broadcast(shape, &ndim, made->shape, made->ndim, e)) return TD_E_SHAPE;
    bool fits = spreads ? ndim == given->ndim && !memcmp(shape, given->shape, (size_t)ndim * sizeof *shape)
                        : td_desc_same_shape(given, made);
    if (!fits)
        return td_fail(e, TD_E_SHAPE, "output with shape %s doesn't match the broadcast shape %s",
                       td_shape_text(given->ndim, given->shape, a, sizeof a),
                       spreads ? td_shape_text(ndim, shape, b, sizeof b)
                               : td_shape_text(made->ndim, made->shape, b, sizeof b));
    if (given->device != made->device)
        return td_fail(e, TD_E_INVALID, "the result is on %s, and the tensor that it is to be written to on %s",
                       td_device_name(made->device), td_device_name(given->device));
    int rc = op->flags & TD_OF_CAST_ANY ? check_numbers(p->c, (td_dtype)given->dtype, e) : TD_OK;
    if (rc) return rc;
    if (!(op->flags & TD_OF_CAST_ANY) && !td_dtype_can_cast((td_dtype)made->dtype, (td_dtype)given->dtype))
        return td_fail(e, TD_E_TYPE, "result type %s can't be cast to %s", dtype_title(made->dtype),
                       dtype_title(given->dtype));
    if (td_desc_self_overlaps(given))
        return td_fail(
            e, TD_E_INVALID,
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation.");
    return 0;
}

/* May the kernel write given output `o` directly, for all that input `i` says? */
static int check_input(const td_prep *p, int o, int i, bool *direct, td_error *e)
{
    const td_call *c = p->c;
    const td_tensor *out = c->out[o];
    if (td_call_in_storage(c, i) != out->storage) return 0;
    bool pointwise = c->op->flags & TD_OF_POINTWISE, alias = i == 0 && o == 0 && (c->op->flags & TD_OF_ALIAS_OK);
    switch (c->in[i].tensor == out ? TD_IDENTICAL : td_desc_overlap(&c->in[i].tensor->desc, &out->desc)) {
    case TD_APART: return 0;
    case TD_IDENTICAL: *direct = *direct && (pointwise || alias); return 0;
    case TD_UNDECIDED: *direct = false; return 0;
    default:
        return td_fail(e, TD_E_INVALID,
                       "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                       "single memory location; "
                       "clone() the tensor before the operation");
    }
}

static bool kernel_writes(const td_prep *p, int o)
{
    const td_desc *given = &p->c->out[o]->desc, *made = &p->f.out[o];
    const td_op *op = p->c->op;
    return op->flags & TD_OF_POINTWISE || (given->dtype == made->dtype && takes_layout(op, o, given));
}

static int check_apart(const td_call *c, int o, td_error *e)
{
    for (int k = 0; k < o; k++)
        if (c->out[k]->storage == c->out[o]->storage && td_desc_overlap(&c->out[k]->desc, &c->out[o]->desc) != TD_APART)
            return td_fail(e, TD_E_INVALID, "two outputs of %s share memory; clone() one of them first", c->op->name);
    return 0;
}

int td_prep_check_given(td_prep *p, td_error *e)
{
    const td_call *c = p->c;
    if (c->op->flags & TD_OF_DATA_SHAPE)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "the shape of the result depends on values: it cannot be written into a given tensor");
    for (int o = 0; o < c->nout; o++) {
        int rc = c->out[o]->storage->flags & TD_SF_READONLY ? td_prep_read_only("out", e) : check_fit(p, o, e);
        bool direct = kernel_writes(p, o);
        for (int i = 0; i < c->nin && !rc; i++) rc = check_input(p, o, i, &direct, e);
        if (!rc) rc = check_apart(c, o, e);
        if (rc) return rc;
        if (direct) continue;
        if (o)
            return td_fail(e, TD_E_UNSUPPORTED,
                           "output %d of %s must be given as a contiguous %s tensor that is not an input", o,
                           c->op->name, td_dtype_name((td_dtype)p->f.out[o].dtype));
        p->through = true;
    }
    return 0;
}

void td_prep_output_args(td_prep *p)
{
    td_call *c = p->c;
    for (int o = 0; o < c->nout; o++) {
        const td_tensor *t = o == 0 && p->through ? c->cast : c->out[o];
        td_prep_arg(&c->args[c->nin + o], t);
    }
}
