/* Running a backward: newest node first, some at a time, in an order that does not depend on how it is cut into turns.
 *
 * A node runs when every needed node that leads to it has delivered. Gradients that meet are added when the second
 * arrives. Leaves only collect; what they collected is accumulated at the end (commit.c). Without retain_graph what a
 * node saved goes as soon as it has run. */
#include "daemon/autograd/backward.h"
#include "proto/opid.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the ready heap */

static bool newer(const td_backward *b, uint32_t x, uint32_t y)
{
    return b->nodes[x].node->seq > b->nodes[y].node->seq;
}

void td_ready_push(td_backward *b, uint32_t at)
{
    uint32_t k = b->nready++;
    while (k && newer(b, at, b->ready[(k - 1) / 2])) {
        b->ready[k] = b->ready[(k - 1) / 2];
        k = (k - 1) / 2;
    }
    b->ready[k] = at;
}

uint32_t td_ready_pop(td_backward *b)
{
    uint32_t top = b->ready[0], last = b->ready[--b->nready], k = 0;
    for (;;) {
        uint32_t c = 2 * k + 1;
        if (c >= b->nready) break;
        if (c + 1 < b->nready && newer(b, b->ready[c + 1], b->ready[c])) c++;
        if (!newer(b, b->ready[c], last)) break;
        b->ready[k] = b->ready[c];
        k = c;
    }
    b->ready[k] = last;
    return top;
}

/* ---- gradients on their way */

int td_backward_deliver(td_backward *b, uint32_t at, uint32_t nr, td_tensor *g, td_error *e)
{
    td_bnode *n = &b->nodes[at];
    if (!n->grad) n->grad = n->node->nout == 1 ? &n->only : calloc(n->node->nout, sizeof *n->grad);
    if (!n->grad) {
        td_tensor_unref(g);
        return td_fail(e, TD_E_MEMORY, "no memory for a gradient");
    }
    if (n->grad[nr]) return td_eval_accumulate(&b->eval, &n->grad[nr], g, e);
    n->grad[nr] = g;
    return 0;
}

static int seed(td_backward *b, int r, td_error *e)
{
    td_node *n = b->roots[r].node;
    td_shape *s = &n->outs[b->roots[r].nr];
    td_fmeta to = td_node_meta(n, s);
    td_fval v = td_fv_number(td_float(1));
    if (b->seeds[r]) {
        v.kind = TD_F_TENSOR;
        v.ref = b->seeds[r];
    } else {
        to.shape = b->shapes[r]->desc.shape;
    }
    td_tensor *g;
    int err = td_eval_conform(&b->eval, td_op_by_id(n->op ? n->op : TD_OP_COPY), v, &to, s->open, &g, e);
    if (err) return err;
    td_tensor_ref(g);
    return td_backward_deliver(b, td_backward_find(b, n), b->roots[r].nr, g, e);
}

/* Of all nodes only a root's may have nobody who delivers to it. */
static int start(td_backward *b, td_error *e)
{
    int err = 0;
    for (int r = 0; r < b->nroots && !err; r++)
        if (b->nodes[td_backward_find(b, b->roots[r].node)].needed) err = seed(b, r, e);
    td_eval_clear(&b->eval);
    for (uint32_t k = 0; k < b->nfirst && !err; k++)
        if (b->nodes[k].needed && !b->nodes[k].deps) td_ready_push(b, k);
    b->stage = TD_BS_RUN;
    return err;
}

static void capture(td_backward *b, uint32_t at)
{
    td_bnode *n = &b->nodes[at];
    for (int c = 0; n->captured && n->grad && c < b->ncaptures; c++) {
        const td_capture *p = &b->captures[c];
        td_tensor *g = p->at == at ? n->grad[p->nr] : NULL;
        if (!g || (b->flags & TD_BW_ACCUMULATE)) continue;
        g->flags &= ~TD_TF_FRESH;
        b->results[p->input] = td_tensor_ref(g);
    }
}

/* .grad of intermediates: accumulated over calls, as that of leaves is. */
static int retain(td_backward *b, td_bnode *n, td_error *e)
{
    int err = 0;
    for (td_retain *r = n->node->retains; r && n->grad && !err; r = r->next) {
        td_tensor *g = n->grad[r->nr], *old = td_grad(r->tensor, b->scope);
        if (!g) continue;
        g->flags &= ~TD_TF_FRESH;
        td_input in[2] = {td_in(old), td_in(g)};
        if (old) err = td_eval_op(&b->eval, TD_OP_ADD, 2, in, NULL, 1, &g, e);
        if (!err) err = td_set_grad(r->tensor, b->scope, g, e);
        if (!err) g->flags &= ~TD_TF_FRESH;
    }
    return err;
}

/* ---- one node */

static bool any_grad(const td_bnode *n)
{
    for (int o = 0; n->grad && o < n->node->nout; o++)
        if (n->grad[o]) return true;
    return false;
}

static int evaluate(td_backward *b, td_bnode *n, td_tensor **result, td_error *e)
{
    bool few[16], *want = n->node->nin <= 16 ? few : malloc(n->node->nin);
    if (!want) return td_fail(e, TD_E_MEMORY, "no memory for a gradient");
    bool any = false;
    for (int i = 0; i < n->node->nin; i++) any |= want[i] = td_backward_child(b, n->node, i) != UINT32_MAX;
    int err = any ? td_eval_node(&b->eval, n->node, n->grad, want, result, e) : 0;
    if (want != few) free(want);
    return err;
}

static int route(td_backward *b, const td_node *n, td_tensor **result, td_error *e)
{
    int err = 0;
    for (int i = 0; i < n->nin; i++) {
        uint32_t child = td_backward_child(b, n, i);
        td_tensor *g = result[i];
        result[i] = NULL;
        if (g && !err && child != UINT32_MAX) err = td_backward_deliver(b, child, n->edges[i].nr, g, e);
        else td_tensor_unref(g);
        if (child != UINT32_MAX && !--b->nodes[child].deps) td_ready_push(b, child);
    }
    return err;
}

void td_bnode_let_go(td_bnode *n)
{
    for (int o = 0; n->grad && o < n->node->nout; o++) td_tensor_unref(n->grad[o]);
    if (n->grad != &n->only) free(n->grad);
    n->only = NULL;
    n->grad = NULL;
}

static void blame(const td_node *n, td_error *e)
{
    if (!e) return;
    if (!e->op[0]) snprintf(e->op, sizeof e->op, "%s", td_op_by_id(n->op)->name);
    if (!e->where[0]) snprintf(e->where, sizeof e->where, "%s", n->where);
}

static int run_node(td_backward *b, uint32_t at, td_error *e)
{
    td_bnode *n = &b->nodes[at];
    td_node *node = n->node;
    int err = retain(b, n, e);
    if (err) return err;
    capture(b, at);
    if (node->kind == TD_N_LEAF) {
        b->leaves[b->nleaves++] = at;
        return 0;
    }
    td_tensor *few[16] = {0}, **result = node->nin <= 16 ? few : calloc(node->nin, sizeof *result);
    if (!result) return td_fail(e, TD_E_MEMORY, "no memory for a gradient");
    if (any_grad(n)) err = evaluate(b, n, result, e);
    if (!err && (b->flags & TD_BW_ANOMALY)) err = td_anomaly_watch(b, node, result, e);
    /* The evaluation's own references first: a gradient that is merely passed on is then held once. */
    td_eval_clear(&b->eval);
    td_bnode_let_go(n);
    int routed = route(b, node, result, err ? NULL : e);
    if (!err) err = routed;
    td_eval_clear(&b->eval);
    if (err) blame(node, e);
    else if (!(b->flags & TD_BW_RETAIN)) td_node_free_saved(node);
    if (result != few) free(result);
    return err;
}

static int finish(td_backward *b, td_error *e)
{
    bool wait;
    int err = td_anomaly_verdict(b, &wait, e);
    if (err || wait) return err;
    err = b->flags & TD_BW_ACCUMULATE ? td_backward_commit(b, e) : 0;
    if (err < 0) return 0; /* somebody is in the way: the issuer is woken, and it is tried again */
    bool strict = !(b->flags & (TD_BW_ACCUMULATE | TD_BW_ALLOW_UNUSED));
    for (int k = 0; k < b->ninputs && strict && !err; k++)
        if (!b->results[k])
            err = td_fail(e, TD_E_AUTOGRAD,
                          "One of the differentiated Tensors appears to not have been used in the graph. Set "
                          "allow_unused=True if this is the desired behavior");
    b->stage = TD_BS_DONE;
    return err;
}

/* One stage, or as much of it as there are steps. */
static int advance(td_backward *b, int64_t *steps, td_error *e)
{
    int err = 0;
    switch (b->stage) {
    case TD_BS_SEED: return start(b, e);
    case TD_BS_RUN:
        for (; *steps > 0 && b->nready && !err; *steps -= TD_NODE_STEPS) err = run_node(b, td_ready_pop(b), e);
        if (!b->nready) b->stage = TD_BS_UNPIN;
        return err;
    case TD_BS_UNPIN:
        if (td_backward_unpin(b, steps)) b->stage = TD_BS_COMMIT;
        return 0;
    case TD_BS_COMMIT: *steps = 0; return finish(b, e);
    default: return td_backward_walk(b, steps, e);
    }
}

int td_backward_step(td_backward *b, int most, bool *done, td_error *e)
{
    int64_t steps = (int64_t)most * TD_NODE_STEPS;
    while (steps > 0 && b->stage != TD_BS_DONE && !b->failed) b->failed = advance(b, &steps, e);
    *done = b->stage == TD_BS_DONE && !b->failed;
    return b->failed;
}

void td_backward_results(td_backward *b, td_tensor **out)
{
    for (int k = 0; k < b->ninputs; k++) {
        out[k] = b->results[k];
        b->results[k] = NULL;
    }
}
