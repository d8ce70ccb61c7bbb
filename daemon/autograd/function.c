/* A node whose backward is a function of a program: how it is recorded.
 *
 * The program has computed the outputs outside of every graph, and says what of. From here on they are the node's, as
 * if an op had made them. What it saves hangs on the node, not on the program: values of its own outputs without their
 * history, as of any node, or node and program would keep each other. */
#include "daemon/autograd/backward.h"
#include <stdlib.h>
#include <string.h>

static bool differentiable(const td_function_call *f, int o)
{
    return !(f->flags[o] & TD_FN_APART) && td_dtype_is_inexact((td_dtype)f->out[o]->desc.dtype);
}

/* Tensors, and where each is first; of many it is looked up. */
typedef struct among {
    td_tensor *const *t;
    int n;
    td_map map;
} among;

typedef struct places {
    among in, out;
} places;

enum { FEW = 16 };

static int place(const among *a, const td_tensor *t)
{
    if (a->n > FEW) {
        uint32_t at = td_map_get(&a->map, t);
        return at == UINT32_MAX ? -1 : (int)at;
    }
    for (int k = 0; k < a->n; k++)
        if (a->t[k] == t) return k;
    return -1;
}

static bool look_up(among *a, int n, td_tensor *const *t)
{
    *a = (among){.t = t, .n = n};
    for (int k = 0; n > FEW && k < n; k++)
        if (t[k] && td_map_get(&a->map, t[k]) == UINT32_MAX && !td_map_put(&a->map, t[k], (uint32_t)k)) return false;
    return true;
}

static void places_drop(places *p)
{
    while (!td_map_drop(&p->in.map) || !td_map_drop(&p->out.map)) {
    }
}

static int places_make(places *p, const td_function_call *f, td_error *e)
{
    *p = (places){0};
    if (look_up(&p->in, f->nin, f->in) && look_up(&p->out, f->nout, f->out)) return 0;
    places_drop(p);
    return td_no_memory(e, "for a function of %d tensors", f->nin + f->nout);
}

static int check_output(const td_function_call *f, const places *p, int o, td_error *e)
{
    td_tensor *t = f->out[o];
    int first = place(&p->out, t);
    bool is_input = place(&p->in, t) >= 0, written = f->flags[o] & TD_FN_WRITTEN;
    if (first < o) return td_fail(e, TD_E_AUTOGRAD, "outputs %d and %d of %s are one tensor", first, o, f->name);
    if (!written && is_input)
        return td_fail(e, TD_E_AUTOGRAD, "output %d of %s is one of its inputs; it must be a view of that", o, f->name);
    const td_auto *a = td_auto_of(t);
    if (!written && (td_requires_grad(t) || (a && (a->node || a->savers))))
        return td_fail(e, TD_E_AUTOGRAD, "output %d of %s was there before, in a graph; return a view or a clone of it",
                       o, f->name);
    if (!written) return 0;
    if (!is_input) return td_fail(e, TD_E_AUTOGRAD, "output %d of %s is marked as written, and no input", o, f->name);
    if (td_requires_grad(t) && td_is_leaf(t))
        return td_fail(
            e, TD_E_AUTOGRAD,
            "a leaf Variable that requires grad is being used in an in-place operation. Do it under no_grad, "
            "or out of place");
    if (t->view_base)
        return td_fail(e, TD_E_UNSUPPORTED, "%s writes a view in place; only what is no view can be marked as written",
                       f->name);
    return 0;
}

static int check(const td_function_call *f, const places *p, td_error *e)
{
    int rc = 0;
    for (int o = 0; o < f->nout && !rc; o++) rc = check_output(f, p, o, e);
    for (int k = 0; k < f->nsaved && !rc; k++)
        if (f->saved[k] && f->saved[k]->flags & TD_TF_INFERENCE)
            rc = td_fail(e, TD_E_AUTOGRAD,
                         "inference tensors cannot be saved for backward. To work around you can make a clone to get "
                         "a normal tensor and use it in autograd");
    return rc;
}

static td_node *new_node(td_issuer *who, const td_function_call *f, td_error *e)
{
    td_node_size z = {.nin = f->nin, .nout = f->nout, .nsaved = f->nsaved};
    for (int o = 0; o < f->nout; o++) z.nints += td_shape_ints(&f->out[o]->desc, false);
    td_node *n = td_node_new(&z, who->account, e);
    if (!n) return NULL;
    n->kind = TD_N_FUNCTION;
    n->session = who->session, n->pid = who->pid;
    n->where = td_site_new(who->where);
    n->name = strdup(f->name);
    uint32_t at = 0;
    for (int o = 0; o < f->nout; o++) at += td_node_put_shape(n, &n->outs[o], at, &f->out[o]->desc, false);
    if (n->name) return n;
    td_node_unref(n);
    td_no_memory(e, "for a node of the graph");
    return NULL;
}

static int put_edges(td_node *n, const td_function_call *f, td_error *e)
{
    int rc = 0;
    for (int i = 0; i < f->nin && !rc; i++) {
        n->given[i] = f->in[i];
        if (f->in[i] && td_requires_grad(f->in[i])) rc = td_edge_of(f->in[i], &n->edges[i], e);
    }
    return rc;
}

/* A view whose base is an output would lead back to the node: it is saved without its history. */
static bool leads_to_output(const places *p, const td_tensor *t)
{
    return t->view_base && place(&p->out, t->view_base) >= 0;
}

static int save_apart(td_saved *saved, td_tensor *t, td_error *e)
{
    int rc = td_save_output(saved, t, 0, e);
    if (rc) return rc;
    saved->output = false;
    saved->index = UINT16_MAX;
    return 0;
}

/* Marked as written, and a node that came since has saved it as it is: that node would keep what leads to it, if this
 * one saves what was made there. So it counts as written now. The newest savers come first. */
static void count_as_written(const td_issuer *who, const td_function_call *f)
{
    for (int o = 0; o < f->nout; o++) {
        const td_auto *a = f->flags[o] & TD_FN_WRITTEN && differentiable(f, o) ? td_auto_of(f->out[o]) : NULL;
        if (a && a->savers && a->savers->version == f->out[o]->version->value)
            td_tensor_bump(f->out[o], 0, who->session, who->pid);
    }
}

static int put_saved(td_node *n, const td_function_call *f, const places *p, td_error *e)
{
    int rc = 0;
    for (int k = 0; k < f->nsaved && !rc; k++) {
        td_tensor *t = f->saved[k];
        if (!t) continue;
        int o = place(&p->out, t), i = place(&p->in, t);
        if (o >= 0) rc = td_save_output(&n->saved[k], t, o, e);
        else if (leads_to_output(p, t)) rc = save_apart(&n->saved[k], t, e);
        else rc = td_save_input(&n->saved[k], t, i >= 0 ? i : UINT16_MAX, t->version->value, e);
    }
    return rc;
}

/* What was saved of a tensor that was written since is useless, and would lead in a circle. */
static int attach(td_node *n, const td_function_call *f, td_error *e)
{
    int rc = 0;
    for (int o = 0; o < f->nout && !rc; o++) {
        if (!differentiable(f, o)) continue;
        if (f->flags[o] & TD_FN_WRITTEN) td_saved_lose(f->out[o], f->out[o]->version->value);
        rc = td_set_history(f->out[o], n, (uint32_t)o, e);
        if (f->out[o]->view_base) f->out[o]->flags |= TD_TF_FUNCTION_VIEW;
    }
    return rc;
}

static int record(td_issuer *who, td_hook_owner *owner, const td_function_call *f, const places *p, td_error *e)
{
    int rc = check(f, p, e);
    td_node *n = rc ? NULL : new_node(who, f, e);
    if (!n) return e && e->code ? e->code : TD_E_SYSTEM;
    rc = put_edges(n, f, e);
    count_as_written(who, f);
    if (!rc) rc = put_saved(n, f, p, e);
    if (!rc) rc = td_hook_add(&n->hooks, TD_HOOK_FUNCTION, 0, f->hook, owner, who->account, e);
    if (!rc) rc = attach(n, f, e);
    if (!rc) td_node_note(who->noted, n);
    td_node_unref(n);
    return rc;
}

int td_function_record(td_issuer *who, td_hook_owner *owner, const td_function_call *f, td_error *e)
{
    places p;
    int rc = places_make(&p, f, e);
    if (rc) return rc;
    rc = record(who, owner, f, &p, e);
    places_drop(&p);
    return rc;
}
