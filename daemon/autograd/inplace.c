/* Writing in place, when gradients are about.
 *
 * A tensor that is no view just gets the new node. A view hands the write on to its base: the base's new node passes
 * the gradient through, but for the view's elements, whose gradient goes through the op; other views of the base get
 * their nodes anew when asked. */
#include "daemon/autograd/node.h"
#include "proto/opid.h"
#include <stdlib.h>
#include <string.h>

static int check_view(td_tensor *dst, bool result_needs_grad, td_error *e)
{
    td_tensor *base = dst->view_base;
    const td_auto *b = td_auto_of(base);
    if (td_requires_grad(dst) && b && !b->node && b->requires_grad)
        return td_fail(
            e, TD_E_AUTOGRAD,
            "a view of a leaf Variable that requires grad is being used in an in-place operation. Do it under "
            "no_grad, or out of place");
    if (!result_needs_grad) return 0;
    if (dst->flags & TD_TF_MULTI_VIEW)
        return td_fail(
            e, TD_E_AUTOGRAD,
            "this view is the output of a function that returns multiple views (unbind, split). Such functions "
            "do not allow the output views to be modified inplace. You should replace the inplace operation by "
            "an out-of-place one");
    if (dst->flags & TD_TF_NO_GRAD_VIEW)
        return td_fail(
            e, TD_E_AUTOGRAD,
            "a view was created in no_grad mode and is being modified inplace with grad mode enabled. Make the "
            "view in grad mode, or write under no_grad");
    if (!td_desc_is_dense(&base->desc))
        return td_fail(e, TD_E_AUTOGRAD,
                       "an in-place operation on a view that needs gradients wants a base without gaps or overlaps; "
                       "clone() the base first");
    return 0;
}

int td_check_write(td_tensor *dst, td_grad_mode mode, bool result_needs_grad, td_error *e)
{
    if ((dst->flags & TD_TF_INFERENCE) && mode != TD_GRAD_INFERENCE)
        return td_fail(e, TD_E_AUTOGRAD,
                       "inplace update to an inference tensor outside inference mode is not allowed. clone() it first");
    if (mode != TD_GRAD_ON) return 0;
    if (td_requires_grad(dst) && td_is_leaf(dst))
        return td_fail(
            e, TD_E_AUTOGRAD,
            "a leaf Variable that requires grad is being used in an in-place operation. Do it under no_grad, or "
            "out of place");
    return dst->view_base ? check_view(dst, result_needs_grad, e) : 0;
}

static void describe(td_node *n, td_shape *s, uint32_t at, const td_desc *d, bool strided)
{
    *s = (td_shape){.at = at, .dtype = d->dtype, .ndim = d->ndim, .strided = strided};
    int64_t *to = n->ints + at;
    memcpy(to, d->shape, d->ndim * sizeof *to);
    if (!strided) return;
    memcpy(to + d->ndim, d->stride, d->ndim * sizeof *to);
    to[2 * d->ndim] = d->offset;
}

int td_view_node(td_tensor *view, td_tensor *base, td_node **out, td_error *e)
{
    const td_desc *d = &view->desc;
    const td_op *op = td_op_by_id(TD_OP_AS_STRIDED);
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, d->ndim, d->shape);
    td_attrs_ints(&a, d->ndim, d->stride);
    td_attrs_int(&a, d->offset);
    td_node_size z = {.nin = 1, .nout = 1, .nattrs = (int)td_attrs_words(op, &a), .shapes = true};
    z.nints = d->ndim + 2u * base->desc.ndim + 1;
    td_node *n = *out = td_node_new(&z, view->account, e);
    if (!n) return e && e->code ? e->code : TD_E_SYSTEM;
    n->op = op->id;
    n->given[0] = true;
    td_attrs_encode(op, &a, n->attrs);
    describe(n, &n->outs[0], 0, d, false);
    describe(n, &n->shapes[0], d->ndim, &base->desc, true);
    int err = td_edge_of(base, &n->edges[0], e);
    if (err) td_node_unref(n);
    return err;
}

static td_node *slice_node(td_tensor *view, td_node *inner, td_issuer *who, td_error *e)
{
    td_tensor *base = view->view_base;
    td_node_size z = {.nin = 1 + inner->nin, .nout = 1, .nints = base->desc.ndim};
    td_slice *s = malloc(sizeof *s);
    td_node *n = s ? td_node_new(&z, who->account, e) : NULL;
    if (!n) {
        free(s);
        return NULL;
    }
    *s = (td_slice){base->desc, view->desc, td_node_ref(inner)};
    n->kind = TD_N_SLICE;
    n->slice = s;
    n->op = inner->op;
    n->session = who->session, n->pid = who->pid;
    n->where = inner->where;
    describe(n, &n->outs[0], 0, &base->desc, false);
    for (int i = 0; i < inner->nin; i++) /* input 0 is the view itself: its gradient goes to the base */
        if (inner->edges[i].node && (i || inner->op == TD_OP_COPY))
            n->edges[1 + i] = (td_edge){td_node_ref(inner->edges[i].node), inner->edges[i].nr};
    if (td_edge_of(base, &n->edges[0], e)) {
        td_node_unref(n);
        return NULL;
    }
    return n;
}

/* The view's own node is of the past. */
static int follow_base(td_tensor *view, td_error *e)
{
    td_auto *a = td_auto_of(view);
    if (!a || !a->node) return 0;
    if (a->retain) {
        td_edge edge;
        a->view_version = view->version->value - 1;
        int err = td_edge_of(view, &edge, e);
        if (!err) td_node_unref(edge.node);
        return err;
    }
    td_node *old = a->node;
    a->node = NULL;
    td_node_unref(old);
    return 0;
}

int td_rebase(td_tensor *dst, td_node *node, td_issuer *who, td_error *e)
{
    if (!dst->view_base) {
        int err = td_set_history(dst, node, 0, e);
        if (!err) td_saved_lose(dst);
        return err;
    }
    td_node *n = slice_node(dst, node, who, e);
    if (!n) return e && e->code ? e->code : td_no_memory(e, "for a node of the graph");
    int err = td_set_history(dst->view_base, n, 0, e);
    td_node_unref(n);
    if (!err) err = follow_base(dst, e);
    if (!err) td_saved_lose(dst->view_base);
    return err;
}
