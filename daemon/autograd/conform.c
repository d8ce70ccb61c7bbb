/* How every gradient ends: a tensor, of the input's shape, real if the input is real, of the input's dtype, on its
 * device. And how two gradients of one thing are added. */
#include "daemon/autograd/node.h"
#include "proto/ops/opid.h"
#include <string.h>

static int as_tensor(td_eval *v, td_scalar number, const td_fmeta *to, td_tensor **out, td_error *e)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, to->ndim, to->shape);
    td_attrs_scalar(&a, number);
    td_attrs_dtype(&a, (td_dtype)to->dtype);
    v->device = to->device;
    return td_eval_op(v, TD_OP_FULL, 0, NULL, &a, 1, out, e);
}

static bool same_shape(const td_tensor *t, const td_fmeta *to)
{
    return t->desc.ndim == to->ndim && memcmp(t->desc.shape, to->shape, to->ndim * sizeof(int64_t)) == 0;
}

static int wrong_shape(const td_op *of, const td_tensor *g, const td_fmeta *to, td_error *e)
{
    char have[96], want[96];
    return td_fail(e, TD_E_INTERNAL, "the gradient of %s gives shape %s where %s is expected: please report it",
                   of->name, td_shape_text(g->desc.ndim, g->desc.shape, have, sizeof have),
                   td_shape_text(to->ndim, to->shape, want, sizeof want));
}

static int apply(td_eval *v, unsigned op, td_tensor *g, const td_attrs *attrs, td_tensor **out, td_error *e)
{
    td_input in = td_in(g);
    return td_eval_op(v, op, 1, &in, attrs, 1, out, e);
}

static int sum_to(td_eval *v, const td_op *of, td_tensor *g, const td_fmeta *to, td_tensor **out, td_error *e)
{
    int64_t shape[TD_MAX_DIMS];
    int ndim = to->ndim;
    memcpy(shape, to->shape, (size_t)ndim * sizeof *shape);
    bool fits = !td_broadcast(shape, &ndim, g->desc.shape, g->desc.ndim, NULL);
    if (!fits || ndim != g->desc.ndim || memcmp(shape, g->desc.shape, (size_t)ndim * sizeof *shape) != 0)
        return wrong_shape(of, g, to, e);
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, to->ndim, to->shape);
    return apply(v, TD_OP_SUM_TO, g, &a, out, e);
}

static int cast(td_eval *v, td_tensor *g, td_dtype t, td_tensor **out, td_error *e)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_dtype(&a, t);
    return apply(v, TD_OP_COPY, g, &a, out, e);
}

static int move(td_eval *v, td_tensor *g, unsigned device, td_tensor **out, td_error *e)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, device);
    return apply(v, TD_OP_TO_DEVICE, g, &a, out, e);
}

/* The formula of something real gave a complex gradient: its real part counts. */
static int real_part(td_eval *v, td_tensor *g, td_tensor **out, td_error *e)
{
    return apply(v, TD_OP_REAL, g, NULL, out, e);
}

int td_eval_conform(td_eval *v, const td_op *of, td_fval g, const td_fmeta *to, bool open, td_tensor **out, td_error *e)
{
    *out = NULL;
    if (g.kind == TD_F_NUMBER) return as_tensor(v, *g.number, to, out, e);
    td_tensor *t = g.ref;
    int rc = 0;
    if (!open && !same_shape(t, to)) rc = sum_to(v, of, t, to, &t, e);
    if (!rc && td_dtype_is_complex((td_dtype)t->desc.dtype) && !td_dtype_is_complex((td_dtype)to->dtype))
        rc = real_part(v, t, &t, e);
    if (!rc && t->desc.dtype != to->dtype) rc = cast(v, t, (td_dtype)to->dtype, &t, e);
    if (!rc && t->desc.device != to->device) rc = move(v, t, to->device, &t, e);
    if (!rc) *out = t;
    return rc;
}

/* Takes the sum's and g's reference, gives *sum a new one; but when it lacks memory all is as it was. */
int td_eval_accumulate(td_eval *v, td_tensor **sum, td_tensor *g, td_error *e)
{
    td_tensor *a = *sum, *b = g;
    int rc;
    if (!v->create_graph && !(a->flags & TD_TF_FRESH) && (b->flags & TD_TF_FRESH)) a = g, b = *sum;
    td_input in[2] = {td_in(a), td_in(b)};
    bool own = !v->create_graph && !v->recording; /* a row gives what it makes, and writes nothing */
    if (own && (a->flags & TD_TF_FRESH) && a->storage->refs == 1 && td_desc_is_dense(&a->desc)) {
        rc = td_eval_into(v, TD_OP_ADD, 2, in, NULL, a, e);
        if (rc && v->lacks) return rc;
        *sum = a;
        td_tensor_unref(b);
        return rc;
    }
    td_tensor *made = NULL;
    rc = td_eval_op(v, TD_OP_ADD, 2, in, NULL, 1, &made, e);
    if (rc && v->lacks) return rc;
    if (!rc) td_tensor_ref(made);
    td_tensor_unref(a);
    td_tensor_unref(b);
    *sum = made;
    return rc;
}
