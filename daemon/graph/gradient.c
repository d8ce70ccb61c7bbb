/* Backwards inside of a run, and what hangs on tensors as their gradients.
 *
 * A backward is one node that takes as many steps as its graph is large: between two of them it is kept by the run,
 * waits and lacks memory as daemon/autograd says, and whoever drops the run drops it in turns, too. .grad is that of
 * the scope which whoever calls the program is in, as of its own backwards. */
#include "daemon/graph/run.h"

#include <stdlib.h>

enum { STEP = 8 /* nodes of a graph */, OUTPUTS = 0, GRADS, INPUTS, RETAIN, CREATE };

bool td_exec_differentiates(uint32_t op)
{
    return op == (TD_IR_PRIM | TD_PRIM_BACKWARD) || op == (TD_IR_PRIM | TD_PRIM_AUTOGRAD_GRAD) ||
           op == (TD_IR_PRIM | TD_PRIM_AUTOGRAD_GRAD_OR_NONE);
}

/* ---- begin */

/* Where the values are known to be lost, no gradient of them is wanted. */
static int take(td_exec *r, const td_val *v, bool optional, td_tensor **out, td_error *e)
{
    *out = NULL;
    if (v->kind == TD_T_NONE && optional) return TD_OK;
    if (v->kind != TD_T_TENSOR)
        return td_fail(e, TD_E_TYPE, "a gradient is of tensors, not of %s", td_val_kind_name(v));
    *out = v->tensor;
    int rc = td_exec_may_use(r, v->tensor, false, e);
    return rc ? rc : td_storage_check(v->tensor->storage, e);
}

static int take_all(td_exec *r, const td_boxed *list, bool optional, td_tensor **out, td_error *e)
{
    int rc = TD_OK;
    for (uint32_t k = 0; k < list->n && !rc; k++) rc = take(r, &list->items[k], optional, &out[k], e);
    return rc;
}

static int check_counts(uint32_t nroots, uint32_t ngrads, uint32_t ninputs, td_error *e)
{
    if (!nroots) return td_fail(e, TD_E_INVALID, "there is no output to start from");
    if (ngrads && ngrads != nroots) return td_fail(e, TD_E_INVALID, "%u gradients for %u outputs", ngrads, nroots);
    if (nroots > TD_MAX_INPUTS || ninputs > TD_MAX_INPUTS || 2 * nroots + ninputs > TD_MAX_INPUTS)
        return td_fail(e, TD_E_INVALID, "%u outputs and %u inputs; too many for one call", nroots, ninputs);
    return TD_OK;
}

static uint32_t flags_of(const td_exec *r, uint32_t node)
{
    uint32_t op = r->ir->nodes[node].op, flags = 0;
    if (td_exec_in(r, node, RETAIN)->i) flags |= TD_BW_RETAIN;
    if (td_exec_in(r, node, CREATE)->i) flags |= TD_BW_CREATE_GRAPH;
    if (op == (TD_IR_PRIM | TD_PRIM_BACKWARD)) flags |= TD_BW_ACCUMULATE;
    if (op == (TD_IR_PRIM | TD_PRIM_AUTOGRAD_GRAD_OR_NONE)) flags |= TD_BW_ALLOW_UNUSED;
    return flags;
}

static int begin(td_exec *r, uint32_t node, td_error *e)
{
    const td_boxed *roots = td_exec_in(r, node, OUTPUTS)->box, *grads = td_exec_in(r, node, GRADS)->box,
                   *inputs = td_exec_in(r, node, INPUTS)->box;
    uint32_t n = roots->n;
    int rc = check_counts(n, grads->n, inputs->n, e);
    if (rc) return rc;
    td_tensor **t = calloc(2 * (size_t)n + inputs->n, sizeof *t); /* roots, their gradients, inputs */
    if (!t) return td_no_memory(e, "for a backward of %u tensors", n);
    rc = take_all(r, roots, false, t, e);
    if (!rc) rc = take_all(r, grads, true, t + n, e);
    if (!rc) rc = take_all(r, inputs, false, t + 2 * n, e);
    if (!rc)
        rc = td_backward_new(&r->backward, r->who, (int)n, t, t + n, (int)inputs->n, t + 2 * n, flags_of(r, node),
                             r->env.scope, e);
    free(t);
    r->differentiated = r->told = false;
    return rc;
}

/* ---- go on */

/* Before its results are taken: where they go. */
static int make_list(td_exec *r, uint32_t node, td_error *e)
{
    r->purse.refused = false;
    int rc = td_val_box(&r->purse, TD_T_LIST, td_exec_in(r, node, INPUTS)->box->n, &r->kept.made, e);
    r->lacks = rc == TD_E_QUOTA && r->purse.refused;
    return rc;
}

static int step(td_exec *r, td_need *need, td_error *e)
{
    bool done;
    int rc = td_backward_step(r->backward, STEP, &done, need, e);
    r->lacks = td_backward_lacks(r->backward);
    r->behind = td_backward_behind(r->backward);
    r->differentiated = done;
    if (rc || done) return rc;
    return r->behind ? TD_EXEC_BEHIND : TD_EXEC_MORE;
}

static int give_results(td_exec *r, uint32_t node, td_error *e)
{
    td_val *list = &r->kept.made;
    uint32_t n = list->box->n;
    td_tensor **out = calloc((size_t)n + 1, sizeof *out);
    if (!out) return td_no_memory(e, "for %u gradients", n);
    td_backward_results(r->backward, out);
    for (uint32_t k = 0; k < n; k++)
        if (out[k]) list->box->items[k] = td_val_tensor(out[k]);
    free(out);
    *td_exec_out(r, node, 0) = *list;
    *list = td_val_none();
    return TD_OK;
}

bool td_exec_unpinned(td_exec *r)
{
    bool first = r->backward && !r->told;
    r->told = true;
    return first;
}

bool td_exec_reads(const td_exec *r, const td_storage *s, uint32_t *most)
{
    return r->backward && td_backward_reads(r->backward, s, most);
}

bool td_exec_commits(const td_exec *r)
{
    return r->backward != NULL;
}

int td_exec_differentiate(td_exec *r, uint32_t node, int *cost, td_need *need, td_error *e)
{
    bool gives = r->ir->nodes[node].nout;
    int rc = TD_OK;
    td_exec_set_place(r, node);
    *cost -= STEP * TD_EXEC_COST_OP;
    if (!r->backward) rc = begin(r, node, e);
    if (!rc && gives && r->kept.made.kind == TD_T_NONE && !r->differentiated) rc = make_list(r, node, e);
    if (!rc && !r->differentiated) rc = step(r, need, e);
    if (!rc && gives && r->kept.made.kind != TD_T_NONE) rc = give_results(r, node, e);
    if (rc) return rc;
    if (!td_backward_drop(r->backward, STEP)) return TD_EXEC_MORE;
    r->backward = NULL;
    r->differentiated = false;
    return TD_OK;
}

/* ---- .grad */

static int ran_elsewhere(td_prim_call *c) /* run.c has them go to td_exec_differentiate() */
{
    return td_fail(c->e, TD_E_INTERNAL, "a backward is no call of one step");
}

static int grad(td_prim_call *c)
{
    const td_exec *r = c->run;
    const td_cause *lost = r->env.lost ? r->env.lost(r->env.arg) : NULL;
    if (lost) { /* whose gradient it lacks, nobody knows */
        *c->e = lost->error;
        return c->e->code;
    }
    td_tensor *g = td_grad_known(c->in[0]->tensor, r->env.scope, r->who->session);
    if (g) c->out[0] = td_val_tensor(td_tensor_ref(g));
    return TD_OK;
}

static int set_grad(td_prim_call *c)
{
    td_tensor *g = c->in[1]->kind == TD_T_TENSOR ? c->in[1]->tensor : NULL;
    if (g && td_storage_check(g->storage, c->e)) return c->e->code;
    return td_set_grad(c->in[0]->tensor, c->run->env.scope, g, c->e);
}

static int set_requires_grad(td_prim_call *c)
{
    return td_set_requires_grad(c->in[0]->tensor, c->in[1]->i != 0, c->e);
}

static int retain_grad(td_prim_call *c)
{
    return td_retain_grad(c->in[0]->tensor, c->e);
}

td_prim_fn *const td_prims_gradient[TD_PRIM_COUNT] = {
    [TD_PRIM_BACKWARD] = ran_elsewhere,
    [TD_PRIM_AUTOGRAD_GRAD] = ran_elsewhere,
    [TD_PRIM_AUTOGRAD_GRAD_OR_NONE] = ran_elsewhere,
    [TD_PRIM_GRAD] = grad,
    [TD_PRIM_SET_GRAD] = set_grad,
    [TD_PRIM_SET_REQUIRES_GRAD] = set_requires_grad,
    [TD_PRIM_RETAIN_GRAD] = retain_grad,
};
