/* What hangs on a tensor: its node or its being a leaf that requires grad, its gradients (grad.c), who saved it.
 *
 * A view follows its base: when the family's version has moved since the view got its node and the base has a history,
 * the view's node is made anew from the base's, at the moment somebody asks. */
#include "daemon/autograd/region.h"
#include <stdlib.h>
#include <string.h>

#define KEEP 4096

/* Linked through the first word. */
static _Thread_local struct {
    void *top;
    unsigned count;
} loop_pool;

static void auto_free(td_meta *m, td_tensor *owner);
static void auto_unheld(td_meta *m, td_tensor *owner);
static void leave_leaf(td_auto *a);

/* A view that nobody can name: no gradient of it is seen. As a leaf it would close a circle when what was made of it is
 * written to its base: the base's history would lead to it, and it to its base. */
static bool is_nameless(const td_tensor *t)
{
    return t->view_base && t->flags & TD_TF_UNHELD;
}

td_auto *td_auto_need(td_tensor *t, td_error *e)
{
    if (t->meta) return (td_auto *)t->meta;
    td_auto *a = loop_pool.top;
    if (a) loop_pool.top = *(void **)loop_pool.top, loop_pool.count--;
    else a = malloc(sizeof *a);
    if (!a) {
        td_no_memory(e, "for a tensor's gradient record");
        return NULL;
    }
    memset(a, 0, sizeof *a);
    td_loop_nodes_bytes += sizeof *a;
    a->meta.free = auto_free;
    a->meta.unheld = auto_unheld;
    t->meta = &a->meta;
    return a;
}

static void unlink_retain(td_auto *a)
{
    td_retain *r = a->retain;
    if (!r) return;
    a->retain = NULL;
    for (td_retain **p = &a->node->retains; *p; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            free(r);
            return;
        }
}

static void drop_former(td_auto *a)
{
    td_former *f = a->former;
    if (!f) return;
    a->former = NULL;
    td_node_unref(f->node);
    td_node_unref(f->leaf);
    free(f);
}

static void auto_free(td_meta *m, td_tensor *owner)
{
    td_auto *a = (td_auto *)m;
    unlink_retain(a);
    drop_former(a);
    td_region_parts_free(a);
    td_losing_end(a->losing);
    td_hooks_drop(&a->hooks);
    td_grads_drop(owner);
    owner->meta = NULL;
    td_node_unref(a->node);
    td_loop_nodes_bytes -= sizeof *a;
    if (loop_pool.count >= KEEP) {
        free(a);
        return;
    }
    *(void **)a = loop_pool.top;
    loop_pool.top = a;
    loop_pool.count++;
}

/* A .grad may lead back to its own tensor: by its history (create_graph), as a view of it, by a .grad of its own. When
 * nobody can name the tensor its .grad goes, and with it the circle; so what has a .grad is always held by somebody. */
static void auto_unheld(td_meta *m, td_tensor *owner)
{
    td_grads_drop(owner);
    if (is_nameless(owner)) leave_leaf((td_auto *)m);
}

/* The tensor was a leaf of graphs that still exist, and nothing is to be accumulated there any more; or it gets a
 * history that may lead to them: they do not lead back. */
static void leave_leaf(td_auto *a)
{
    if (!a->leaf) return;
    td_tensor *t = a->leaf->leaf;
    a->leaf->leaf = NULL;
    a->leaf = NULL;
    td_tensor_unref(t); /* the caller has it */
}

/* retain_grad follows the new value. */
static void move_retain(td_auto *a, td_node *node, uint32_t nr)
{
    td_retain *r = a->retain;
    if (!r) return;
    for (td_retain **p = &a->node->retains; *p; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            break;
        }
    r->nr = nr;
    r->next = node->retains;
    node->retains = r;
}

int td_set_history(td_tensor *t, td_node *node, uint32_t nr, td_error *e)
{
    td_auto *a = td_auto_need(t, e);
    if (!a) return TD_E_SYSTEM;
    td_node *old = a->node;
    leave_leaf(a);
    move_retain(a, node, nr);
    a->node = td_node_ref(node);
    a->nr = nr;
    a->requires_grad = false;
    a->view_version = t->version->value;
    td_node_unref(old);
    return 0;
}

/* ---- what was before a write that fails */

int td_former_keep(td_tensor *t, td_error *e)
{
    td_auto *root = td_auto_of(td_root_of(t)), *a = td_auto_need(t, e);
    if (!a) return TD_E_SYSTEM;
    if (a->former || !root || !root->pending) return 0;
    td_former *f = malloc(sizeof *f);
    if (!f) return td_no_memory(e, "for a tensor's gradient record");
    *f = (td_former){.nr = a->nr, .version = a->view_version, .requires_grad = a->requires_grad};
    if (a->node) f->node = td_node_ref(a->node);
    if (a->leaf) f->leaf = td_node_ref(a->leaf);
    a->former = f;
    return 0;
}

static void be_leaf_again(td_tensor *t, td_auto *a, td_node *leaf)
{
    if (!leaf || leaf->leaf || a->leaf || is_nameless(t)) return;
    leaf->leaf = td_tensor_ref(t);
    a->leaf = leaf;
}

static void go_back(td_tensor *t, td_auto *a)
{
    td_former *f = a->former;
    td_node *node = a->node;
    if (f->node) move_retain(a, f->node, f->nr);
    else unlink_retain(a);
    be_leaf_again(t, a, f->leaf);
    a->node = f->node;
    a->nr = f->nr;
    a->view_version = f->version;
    a->requires_grad = f->requires_grad;
    f->node = node; /* goes with it */
    drop_former(a);
}

/* The record of t as it is now that writes may have ended. */
static td_auto *settled(const td_tensor *t)
{
    td_auto *a = td_auto_of(t);
    if (!a || !a->former || !t->view_base) return a;
    const td_auto *base = td_auto_of(t->view_base);
    if (base->pending) return a;
    if (a->former->node ? td_version_still(t->version, a->former->version) : !base->node) go_back((td_tensor *)t, a);
    else drop_former(a);
    return a;
}

bool td_edge_is_void(const td_edge *edge)
{
    const td_node *n = edge->node;
    if (!n || !(n->flags & TD_NF_VOID)) return false;
    while (n && (n->flags & TD_NF_VOID)) n = n->edges[0].node;
    return !n;
}

bool td_node_is_void(td_node *n)
{
    bool only = !(n->flags & (TD_NF_PENDING | TD_NF_CUT)) && n->nin && td_edge_is_void(&n->edges[0]);
    for (int i = 1; i < n->nin && only; i++) only = !n->edges[i].node;
    if (only) n->flags |= TD_NF_VOID;
    return n->flags & TD_NF_VOID;
}

void td_history_back(td_tensor *t)
{
    td_auto *a = td_auto_of(t);
    while (a->node && td_node_is_void(a->node)) {
        td_node *gone = a->node, *past = gone->edges[0].node;
        if (past && past->kind == TD_N_LEAF) { /* its own */
            be_leaf_again(t, a, past);
            a->requires_grad = true;
            past = NULL;
        }
        a->nr = gone->edges[0].nr;
        if (past) move_retain(a, past, a->nr);
        else unlink_retain(a);
        a->node = past ? td_node_ref(past) : NULL;
        td_node_unref(gone);
    }
    if (!a->node && a->former) be_leaf_again(t, a, a->former->leaf);
    if (!a->node || !a->pending) drop_former(a);
}

/* Has the base got a history that this view's node does not know of? */
static bool view_is_stale(const td_tensor *t)
{
    if (!t->view_base || (t->flags & TD_TF_NO_GRAD_VIEW)) return false;
    const td_auto *base = td_auto_of(t->view_base), *a = settled(t);
    return base && base->node && (!a || !a->node || !td_version_still(t->version, a->view_version)) &&
           td_dtype_is_inexact((td_dtype)t->desc.dtype);
}

bool td_requires_grad(const td_tensor *t)
{
    const td_auto *a = settled(t);
    return (a && (a->node || a->requires_grad)) || view_is_stale(t);
}

bool td_is_leaf(const td_tensor *t)
{
    const td_auto *a = settled(t);
    return !(a && a->node) && !view_is_stale(t);
}

const char *td_grad_fn(const td_tensor *t)
{
    if (td_is_leaf(t)) return NULL;
    const td_auto *a = td_auto_of(t);
    if (view_is_stale(t)) return "as_strided";
    return td_node_name(a->node);
}

static int leaf_edge(td_tensor *t, td_auto *a, td_edge *out, td_error *e)
{
    if (a->leaf) {
        out->node = td_node_ref(a->leaf);
        return 0;
    }
    td_node_size z = {.nout = 1, .nints = t->desc.ndim};
    td_node *n = td_node_new(&z, t->account, e);
    if (!n) return e && e->code ? e->code : TD_E_SYSTEM;
    n->kind = TD_N_LEAF;
    n->seq = TD_SEQ_LEAF;
    td_node_put_shape(n, &n->outs[0], 0, &t->desc, false);
    if (!is_nameless(t)) {
        n->leaf = td_tensor_ref(t);
        a->leaf = n;
    }
    out->node = n;
    return 0;
}

static int refresh_view(td_tensor *t, td_error *e)
{
    td_node *n;
    td_edge base = {0};
    int rc = td_former_keep(t, e);
    if (!rc) rc = td_edge_of(t->view_base, &base, e);
    if (!rc) rc = td_view_node(t, &t->view_base->desc, base, &n, e);
    if (rc) return rc;
    rc = td_set_history(t, n, 0, e);
    td_node_unref(n);
    return rc;
}

int td_fail_function_view(td_error *e, const char *what)
{
    return td_fail(e, TD_E_AUTOGRAD,
                   "%s. A function with a backward of its own gave the view (or gave an input as it was), and a write "
                   "would go past that backward: clone() the output of the function",
                   what);
}

/* Its node is the function's, which no write has told that it gives something else now. */
static int check_function_view(const td_tensor *t, td_error *e)
{
    const td_auto *a = settled(t);
    if (!a || !a->node || td_version_still(t->version, a->view_version)) return 0;
    return td_fail_function_view(e, "an output of a function is a view, and it or its base was modified inplace since");
}

int td_edge_of(td_tensor *t, td_edge *out, td_error *e)
{
    *out = (td_edge){0};
    int since = t->flags & TD_TF_FUNCTION_VIEW ? check_function_view(t, e) : 0;
    if (since) return since;
    if (view_is_stale(t)) {
        int rc = refresh_view(t, e);
        if (rc) return rc;
    }
    td_auto *a = td_auto_of(t);
    if (!a) return 0;
    if (a->node) {
        *out = (td_edge){td_node_ref(a->node), a->nr};
        return 0;
    }
    return a->requires_grad ? leaf_edge(t, a, out, e) : 0;
}

int td_set_requires_grad_in(td_grad_mode mode, td_tensor *t, bool on, td_error *e)
{
    if (!td_is_leaf(t)) {
        if (on) return 0;
        return td_fail(e, TD_E_AUTOGRAD,
                       "you can only change requires_grad flags of leaf variables. To use a computed variable in a "
                       "subgraph that needs no gradient, take its detach()");
    }
    if (on && !td_dtype_is_inexact((td_dtype)t->desc.dtype))
        return td_fail(e, TD_E_TYPE, "only tensors of floating point and complex dtype can require gradients, not %s",
                       td_dtype_name((td_dtype)t->desc.dtype));
    if (on && (t->flags & TD_TF_INFERENCE) && mode != TD_GRAD_INFERENCE)
        return td_fail(e, TD_E_AUTOGRAD,
                       "setting requires_grad=True on an inference tensor outside inference mode is not allowed; "
                       "clone() it first");
    if (!on && !t->meta) return 0;
    td_auto *a = td_auto_need(t, e);
    if (!a) return TD_E_SYSTEM;
    a->requires_grad = on;
    return 0;
}

int td_set_requires_grad(td_tensor *t, bool on, td_error *e)
{
    return td_set_requires_grad_in(TD_GRAD_ON, t, on, e);
}

int td_retain_grad(td_tensor *t, td_error *e)
{
    if (!td_requires_grad(t))
        return td_fail(e, TD_E_AUTOGRAD, "can't retain_grad on a tensor that has requires_grad=False");
    if (td_is_leaf(t)) return 0;
    td_edge edge;
    int rc = td_edge_of(t, &edge, e);
    if (rc) return rc;
    td_node_unref(edge.node); /* t keeps it */
    td_auto *a = td_auto_of(t);
    if (a->retain) return 0;
    td_retain *r = malloc(sizeof *r);
    if (!r) return td_no_memory(e, "for retain_grad");
    *r = (td_retain){.next = a->node->retains, .tensor = t, .nr = a->nr};
    a->node->retains = r;
    a->retain = r;
    return 0;
}
