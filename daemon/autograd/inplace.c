/* Writing in place, when gradients are about.
 *
 * A tensor that is no view just gets the new node. A view hands the write on to its base: the base's new node passes
 * the gradient through, but for the view's elements, whose gradient goes through the op; other views of the base get
 * their nodes anew when asked. What is overwritten as a whole, and is not read, is such a view of itself: its history
 * stays, and gets zeros. */
#include "daemon/autograd/node.h"
#include "proto/ops/opid.h"
#include <stdlib.h>
#include <string.h>

static int check_view(td_tensor *dst, bool result_needs_grad, td_error *e)
{
    td_tensor *base = dst->view_base;
    const td_auto *b = td_auto_of(base);
    if (dst->flags & TD_TF_FUNCTION_VIEW && td_requires_grad(dst))
        return td_fail_function_view(e, "an output of a function is a view, and is being modified inplace");
    if (td_requires_grad(dst) && (!b || !b->node)) /* of the base, or of a view of it that is a leaf */
        return td_fail(
            e, TD_E_AUTOGRAD,
            "a view of a leaf Variable that requires grad is being used in an in-place operation. Do it under "
            "no_grad, or out of place");
    bool passes_by = dst->flags & TD_TF_NO_GRAD_VIEW && td_requires_grad(base);
    if (!result_needs_grad && !passes_by) return 0;
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
    return td_view_check(&dst->desc, &base->desc, e);
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

static td_node *slice_node(td_tensor *view, td_node *inner, td_issuer *who, td_error *e)
{
    td_tensor *base = td_root_of(view);
    td_node_size z = {.nin = 1 + inner->nin, .nout = 1, .nints = base->desc.ndim};
    td_slice *s = malloc(sizeof *s);
    td_node *n = s ? td_node_new(&z, who->account, e) : NULL;
    if (!n) {
        free(s);
        return NULL;
    }
    *s = (td_slice){.base = base->desc, .view = view->desc, .whole = view == base, .inner = td_node_ref(inner)};
    n->kind = TD_N_SLICE;
    n->slice = s;
    n->op = inner->op;
    n->session = who->session, n->pid = who->pid;
    n->where = td_site_ref(inner->where);
    td_node_put_shape(n, &n->outs[0], 0, &base->desc, false);
    for (int i = 0; i < inner->nin; i++) /* input 0 is the view itself: its gradient goes to the base */
        if (inner->edges[i].node && (i || td_op_replaces(td_op_by_id(inner->op))))
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
    int rc = td_former_keep(view, e);
    if (rc) return rc;
    if (a->retain) {
        td_edge edge;
        a->view_version = view->version->value - 1;
        rc = td_edge_of(view, &edge, e);
        if (!rc) td_node_unref(edge.node);
        return rc;
    }
    td_node *old = a->node;
    a->node = NULL;
    td_node_unref(old);
    return 0;
}

/* ---- until a write has ended */

td_storage *td_node_writes(const td_node *n)
{
    if (n->kind == TD_N_SLICE) return n->slice->writes;
    return n->flags & TD_NF_REPLACES ? n->replaced->writes : n->writes;
}

/* Nobody has walked past what replaces something and is pending: its edges may change. */
static void end_replaced(td_node *n, bool wrote)
{
    td_replaced *r = n->replaced;
    td_edge gone = wrote ? r->history : n->edges[0];
    bool ends = r->history.node && !td_edge_is_void(&r->history);
    if (!wrote) n->edges[0] = r->history;
    else n->flags |= ends ? TD_NF_CUT : n->edges[0].node ? 0 : TD_NF_VOID;
    n->replaced = NULL;
    n->flags &= (uint8_t)~TD_NF_REPLACES;
    free(r);
    td_node_unref(gone.node);
}

static void end_node(td_call *c, td_node *n, td_tensor *root, bool wrote)
{
    if (n->flags & TD_NF_REPLACES) end_replaced(n, wrote);
    n->flags &= (uint8_t)~TD_NF_PENDING;
    if (wrote) td_saved_lose(root, c->step[0]);
    if (!wrote || td_node_is_void(n)) n->flags |= TD_NF_VOID;
    if (n->flags & TD_NF_VOID && !n->watched) td_node_strip(n);
}

static void ended(td_call *c, bool wrote)
{
    td_node *n = c->record;
    td_tensor *root = td_root_of(c->out[0]);
    td_auto_of(root)->pending--;
    if (n) end_node(c, n, root, wrote);
    td_history_back(root);
    td_node_unref(n);
}

int td_write_begin(td_call *c, td_error *e)
{
    td_auto *a = td_auto_need(td_root_of(c->out[0]), e);
    if (!a) return TD_E_SYSTEM;
    a->pending++;
    c->recorded = ended;
    c->record = NULL;
    return 0;
}

static int replace(td_node *n, td_tensor *t, td_error *e)
{
    td_replaced *r = malloc(sizeof *r);
    if (!r) return td_no_memory(e, "for a node of the graph");
    r->writes = n->writes;
    int rc = td_edge_of(t, &r->history, e);
    if (rc) {
        free(r);
        return rc;
    }
    n->replaced = r;
    n->flags |= TD_NF_REPLACES;
    return 0;
}

/* `n` writes to the family of root. Is it the op itself, and does not read what it writes, it keeps the history, if
 * any, that ends there for as long as it may fail. */
static int record_write(td_call *c, td_node *n, td_tensor *root, td_error *e)
{
    if (n->kind == TD_N_SLICE) n->slice->writes = root->storage;
    else n->writes = root->storage;
    bool reads = c->nin && c->in[0].kind == TD_IN_TENSOR && c->in[0].tensor == c->out[0];
    int rc = n->kind == TD_N_OP && !reads ? replace(n, root, e) : 0;
    if (rc) return rc;
    n->flags |= TD_NF_PENDING;
    c->record = td_node_ref(n);
    return td_auto_of(root)->leaf ? td_former_keep(root, e) : 0;
}

int td_rebase(td_call *c, td_node *node, td_error *e)
{
    td_tensor *dst = c->out[0], *root = td_root_of(dst);
    bool reads = c->nin && c->in[0].kind == TD_IN_TENSOR && c->in[0].tensor == dst;
    bool ends = !reads && td_requires_grad(root); /* a history, whose gradient is zeros from there on */
    td_node *n = dst == root && !ends ? td_node_ref(node) : slice_node(dst, node, c->who, e);
    if (!n) return e && e->code ? e->code : td_no_memory(e, "for a node of the graph");
    int rc = record_write(c, n, root, e);
    if (!rc) rc = td_set_history(root, n, 0, e);
    td_node_unref(n);
    return !rc && dst != root ? follow_base(dst, e) : rc;
}
