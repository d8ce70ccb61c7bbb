/* Running a backward: newest node first, some at a time, in an order that does not depend on how it is cut into turns.
 *
 * A node runs when every needed node that leads to it has delivered. Gradients that meet are added when the second
 * arrives. Leaves only collect; what they collected is accumulated at the end (commit.c). Without retain_graph what a
 * node saved goes as soon as it has run. */
#include "daemon/autograd/rows.h"
#include "proto/ops/opid.h"
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
        return td_no_memory(e, "for a gradient");
    }
    if (!n->grad[nr]) {
        n->grad[nr] = g;
        return 0;
    }
    int rc = td_eval_accumulate(&b->eval, &n->grad[nr], g, e);
    if (!rc) td_eval_clear(&b->eval);
    return rc;
}

/* The root is still being computed: what begins with its gradient has a value only if the root gets one. So a failure
 * is one, the root's, wherever it shows, and a gradient does not fail of the same once more by itself. One that was
 * given, and requires grad, may be differentiated through this. */
static int bind_to_root(td_backward *b, int r, td_fval *v, td_error *e)
{
    bool recorded = b->eval.create_graph;
    td_fmeta flag = {.dtype = TD_BOOL};
    td_input in[3] = {{0}, v->kind == TD_F_TENSOR ? td_in(v->ref) : td_in_number(*v->number), td_in(b->pending[r])};
    td_tensor *always, *made;
    b->eval.create_graph = false;
    td_scalar yes = td_bool(true);
    int rc = td_eval_conform(&b->eval, td_op_by_id(TD_OP_WHERE), td_fv_at(&yes), &flag, false, &always, e);
    if (!rc) in[0] = td_in(always);
    b->eval.create_graph = recorded && b->seeds[r] && td_requires_grad(b->seeds[r]);
    if (!rc) rc = td_eval_op(&b->eval, TD_OP_WHERE, 3, in, NULL, 1, &made, e);
    b->eval.create_graph = recorded;
    if (!rc) v->kind = TD_F_TENSOR, v->ref = made;
    return rc;
}

static int seed(td_backward *b, int r, td_error *e)
{
    td_node *n = b->roots[r].node;
    td_shape *s = &n->outs[b->roots[r].nr];
    td_fmeta to = td_node_meta(n, s);
    td_scalar one = td_float(1);
    td_fval v = td_fv_at(&one);
    if (b->seeds[r]) {
        v.kind = TD_F_TENSOR;
        v.ref = b->seeds[r];
    } else {
        to.shape = b->shapes[r]->desc.shape;
    }
    td_tensor *g;
    int rc = b->pending[r] ? bind_to_root(b, r, &v, e) : 0;
    if (!rc) rc = td_eval_conform(&b->eval, td_op_by_id(n->op ? n->op : TD_OP_COPY), v, &to, s->open, &g, e);
    if (rc) return rc;
    b->moving = td_tensor_ref(g);
    td_eval_clear(&b->eval);
    return 0;
}

static int deliver_seed(td_backward *b, int r, td_error *e)
{
    const td_edge *root = &b->roots[r];
    int rc = b->moving ? 0 : seed(b, r, e);
    if (rc) return rc;
    rc = td_backward_deliver(b, td_backward_find(b, root->node), root->nr, b->moving, e);
    if (!rc || !b->eval.lacks) b->moving = NULL;
    return rc;
}

/* Of all nodes only a root's may have nobody who delivers to it. */
static int start(td_backward *b, td_error *e)
{
    for (; b->at < (uint32_t)b->nroots; b->at++) {
        int r = (int)b->at;
        bool needed = b->nodes[td_backward_find(b, b->roots[r].node)].needed;
        int rc = needed ? deliver_seed(b, r, e) : 0;
        if (rc) return rc;
    }
    for (uint32_t k = 0; k < b->nfirst; k++)
        if (b->nodes[k].needed && !b->nodes[k].deps) td_ready_push(b, k);
    b->stage = TD_BS_RUN;
    return 0;
}

void td_backward_capture(td_backward *b, uint32_t at)
{
    td_bnode *n = &b->nodes[at];
    for (int c = 0; n->captured && n->grad && c < b->ncaptures; c++) {
        const td_capture *p = &b->captures[c];
        td_tensor *g = p->at == at ? n->grad[p->nr] : NULL;
        if (!g || b->results[p->input] || (b->flags & TD_BW_ACCUMULATE)) continue;
        g->flags &= ~TD_TF_FRESH;
        b->results[p->input] = td_tensor_ref(g);
    }
}

/* .grad of intermediates: accumulated over calls, as that of leaves is. */
static int retain(td_backward *b, td_bnode *n, td_error *e)
{
    int rc = 0;
    for (td_retain *r = n->node->retains; r && n->grad && !rc; r = r->next) {
        td_tensor *g = n->grad[r->nr], *old = td_grad_known(r->tensor, b->scope, b->who->session);
        if (!g || r->backward == b->serial) continue;
        g->flags &= ~TD_TF_FRESH;
        td_input in[2] = {td_in(old), td_in(g)};
        if (old) rc = td_eval_op(&b->eval, TD_OP_ADD, 2, in, NULL, 1, &g, e);
        if (!rc) rc = td_set_grad(r->tensor, b->scope, g, e);
        if (rc) break;
        g->flags &= ~TD_TF_FRESH;
        r->backward = b->serial;
        td_eval_clear(&b->eval);
    }
    return rc;
}

/* ---- one node */

static bool any_grad(const td_bnode *n)
{
    for (int o = 0; n->grad && o < n->node->nout; o++)
        if (n->grad[o]) return true;
    return false;
}

/* By another backward that came by since this one looked at the graph: another session's, or one that a hook called. */
static int check_kept(const td_backward *b, const td_node *outer, td_error *e)
{
    const td_node *n = outer->kind == TD_N_SLICE ? outer->slice->inner : outer;
    uint32_t inputs, outputs;
    if (!(n->flags & TD_NF_FREED)) return 0;
    td_backward_wants(b, outer, n, &inputs, &outputs);
    return inputs | outputs ? td_node_freed(n, e) : 0;
}

static int evaluate(td_backward *b, td_bnode *n, td_tensor **result, td_error *e)
{
    if (n->past) {
        if (td_backward_child(b, n->node, 0) != UINT32_MAX) result[0] = td_tensor_ref(n->grad[0]);
        return 0;
    }
    int rc = check_kept(b, n->node, e);
    if (rc) return rc;
    bool few[16], *want = n->node->nin <= 16 ? few : malloc(n->node->nin);
    if (!want) return td_no_memory(e, "for a gradient");
    bool any = false;
    for (int i = 0; i < n->node->nin; i++) any |= want[i] = td_backward_child(b, n->node, i) != UINT32_MAX;
    if (any) rc = td_eval_node(&b->eval, n->node, n->grad, want, result, e);
    if (want != few) free(want);
    return rc;
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
    if (!e->op[0]) snprintf(e->op, sizeof e->op, "%s", td_node_name(n));
    if (!e->where[0]) snprintf(e->where, sizeof e->where, "%s", n->where);
}

/* The steps of a node, in the order of A12. Each is begun again where it lacked memory; what it did until then stays.
 * Those of hooks wait for answers. */
enum {
    NODE_HOOKS, /* of its outputs */
    NODE_RETAIN,
    NODE_BEFORE, /* hooks of the node */
    NODE_ACCUMULATE,
    NODE_LEAF_HOOKS,
    NODE_UNPACK, /* what the program keeps of what the node saved */
    NODE_EVALUATE,
    NODE_WATCH,
    NODE_AFTER, /* hooks of the node */
    NODE_LET_GO,
    NODE_ROUTE,
    NODE_OVER
};

static int begin_node(td_backward *b, uint32_t at, td_error *e)
{
    td_running *r = &b->now;
    uint16_t nin = b->nodes[at].node->nin;
    *r = (td_running){.at = at};
    r->result = nin <= 16 ? r->few : calloc(nin, sizeof *r->result);
    if (!r->result) return td_no_memory(e, "for a gradient");
    r->on = true;
    if (!b->calls) r->step = NODE_RETAIN;
    return 0;
}

void td_running_end(td_backward *b)
{
    td_running *r = &b->now;
    for (int i = 0; r->on && i < b->nodes[r->at].node->nin; i++) td_tensor_unref(r->result[i]);
    if (r->on && r->result != r->few) free(r->result);
    const td_node *saver = r->on && r->unpacked ? td_node_saver(b->nodes[r->at].node) : NULL;
    for (int k = 0; saver && k < saver->nsaved; k++) td_tensor_unref(r->unpacked[k]);
    if (saver) free(r->unpacked);
    r->on = false;
}

/* Is it run itself? Of grad() only what leads to an input is; a leaf is when it collects. */
static bool executes(const td_backward *b, const td_bnode *n)
{
    bool any = false;
    if (n->node->kind == TD_N_LEAF) return b->flags & TD_BW_ACCUMULATE && (!b->ninputs || n->captured);
    for (int i = 0; i < n->node->nin && !any; i++) any = td_backward_child(b, n->node, i) != UINT32_MAX;
    return any || !b->ninputs;
}

/* What grad() asks for is, as in PyTorch, what came before the hooks when the node is run too, and else what they made
 * of it. */
static void capture_first(td_backward *b, const td_running *r, const td_bnode *n)
{
    bool first = !b->asking.until && n->captured && n->node->kind != TD_N_LEAF && executes(b, n);
    if (first) td_backward_capture(b, r->at);
}

/* All hooks of a kind, one after the other; then `next`. */
static int step_hooks(td_backward *b, td_running *r, int kind, uint8_t next, td_error *e)
{
    bool asked = false;
    int rc = td_ask_hooks(b, r, kind, &asked, e);
    if (!rc && !asked) r->step = next;
    return rc;
}

static int step_tensor_hooks(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    capture_first(b, r, n);
    if (n->past) r->step = NODE_RETAIN;
    return n->past ? 0 : step_hooks(b, r, TD_HOOK_TENSOR, NODE_RETAIN, e);
}

static int step_retain(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    int rc = retain(b, n, e);
    if (rc) return rc;
    td_backward_capture(b, r->at);
    r->executes = b->calls && !n->past && executes(b, n);
    r->step = r->executes ? NODE_BEFORE : b->calls ? NODE_UNPACK : NODE_EVALUATE;
    if (n->node->kind != TD_N_LEAF || r->executes) return 0;
    b->leaves[b->nleaves++] = r->at;
    r->step = NODE_OVER;
    return 0;
}

static int step_before(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    return step_hooks(b, r, TD_HOOK_PRE, n->node->kind == TD_N_LEAF ? NODE_ACCUMULATE : NODE_UNPACK, e);
}

/* Whose hook wants to see its .grad has it at once; others all together, at the end. */
static int step_accumulate(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    bool now = td_ask_has(b, n->node, TD_HOOK_LEAF) || td_ask_has(b, n->node, TD_HOOK_POST);
    if (!now || !n->node->leaf || !any_grad(n)) {
        b->leaves[b->nleaves++] = r->at;
        r->step = NODE_OVER;
        return 0;
    }
    int rc = td_backward_commit_one(b, r->at, e);
    if (!rc) r->step = NODE_LEAF_HOOKS;
    return rc;
}

static int step_leaf_hooks(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    (void)n;
    return step_hooks(b, r, TD_HOOK_LEAF, NODE_AFTER, e);
}

static int step_unpack(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    bool asked = false, runs = !n->past && (n->node->kind == TD_N_FUNCTION ? r->executes : any_grad(n));
    int rc = runs ? td_ask_unpack(b, r, &asked, e) : 0;
    if (!rc && !asked) r->step = NODE_EVALUATE;
    return rc;
}

static int step_evaluate(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    bool done = true;
    int rc = 0;
    if (n->node->kind == TD_N_FUNCTION && !n->past) rc = r->executes ? td_ask_function(b, r, &done, e) : 0;
    else if (any_grad(n)) rc = evaluate(b, n, r->result, e);
    if (!rc && done) r->step = NODE_WATCH;
    return rc;
}

static int step_watch(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    int rc = 0;
    for (; b->flags & TD_BW_ANOMALY && r->i < n->node->nin && !rc; r->i += !rc)
        if (r->result[r->i]) rc = td_anomaly_watch(b, n->node, r->i, r->result[r->i], e);
    if (rc) return rc;
    /* The evaluation's own references first: a gradient that is merely passed on is then held once. */
    td_eval_clear(&b->eval);
    r->i = 0;
    r->step = r->executes ? NODE_AFTER : NODE_LET_GO;
    return 0;
}

static int step_after(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    (void)n;
    return step_hooks(b, r, TD_HOOK_POST, NODE_LET_GO, e);
}

static int step_let_go(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    (void)b, (void)e;
    td_bnode_let_go(n);
    r->step = n->node->kind == TD_N_LEAF ? NODE_OVER : NODE_ROUTE;
    return 0;
}

static int step_route(td_backward *b, td_running *r, td_bnode *n, td_error *e)
{
    for (; r->i < n->node->nin; r->i++) {
        uint32_t child = td_backward_child(b, n->node, r->i);
        td_tensor *g = r->result[r->i];
        int rc = g && child != UINT32_MAX ? td_backward_deliver(b, child, n->node->edges[r->i].nr, g, e) : 0;
        if (rc && b->eval.lacks) return rc;
        r->result[r->i] = NULL;
        if (child == UINT32_MAX) td_tensor_unref(g);
        if (rc) return rc;
        if (child != UINT32_MAX && !n->released && !--b->nodes[child].deps) td_ready_push(b, child);
    }
    td_remade_used(b, n->node);
    td_backward_unpin_node(b, n);
    if (!(b->flags & TD_BW_RETAIN)) td_node_free_saved(n->node);
    r->step = NODE_OVER;
    return 0;
}

static int run_node(td_backward *b, td_error *e)
{
    static int (*const steps[])(td_backward *, td_running *, td_bnode *,
                                td_error *) = {[NODE_HOOKS] = step_tensor_hooks,    [NODE_RETAIN] = step_retain,
                                               [NODE_BEFORE] = step_before,         [NODE_ACCUMULATE] = step_accumulate,
                                               [NODE_LEAF_HOOKS] = step_leaf_hooks, [NODE_UNPACK] = step_unpack,
                                               [NODE_EVALUATE] = step_evaluate,
                                               [NODE_WATCH] = step_watch,           [NODE_AFTER] = step_after,
                                               [NODE_LET_GO] = step_let_go,         [NODE_ROUTE] = step_route};
    td_running *r = &b->now;
    td_bnode *n = &b->nodes[r->at];
    while (r->step != NODE_OVER) {
        int rc = steps[r->step](b, r, n, e);
        if (b->asking.on && !rc) return 0;
        if (rc < 0) { /* somebody is in the way of a .grad: the issuer is woken, and it is tried again */
            b->waits = true;
            return b->eval.lacks ? rc : 0;
        }
        if (rc) {
            blame(n->node, e);
            return rc;
        }
    }
    td_running_end(b);
    return 0;
}

static int finish(td_backward *b, td_error *e)
{
    bool wait;
    int rc = td_anomaly_verdict(b, &wait, e);
    b->from = 0;
    if (rc || wait) return rc;
    rc = b->flags & TD_BW_ACCUMULATE ? td_backward_commit(b, e) : 0;
    if (rc && b->eval.lacks) return rc;
    if (rc < 0) return 0; /* somebody is in the way: the issuer is woken, and it is tried again */
    bool strict = !(b->flags & (TD_BW_ACCUMULATE | TD_BW_ALLOW_UNUSED));
    for (int k = 0; k < b->ninputs && strict && !rc; k++)
        if (!b->results[k])
            rc = td_fail(e, TD_E_AUTOGRAD,
                         "One of the differentiated Tensors appears to not have been used in the graph. Set "
                         "allow_unused=True if this is the desired behavior");
    b->stage = TD_BS_DONE;
    return rc;
}

/* A node, an op that is run again for it, or a row of nodes. */
static int run_some(td_backward *b, td_error *e)
{
    bool ready = false, ran = false;
    int rc = b->now.on ? 0 : td_row_before(b, &ran, e);
    if (rc || ran) return rc;
    if (!b->now.on) rc = begin_node(b, td_row_pop(b), e);
    if (!rc) rc = td_remake_step(b, b->nodes[b->now.at].node, &ready, e);
    if (rc) blame(b->nodes[b->now.at].node, e);
    if (rc || !ready) return rc;
    rc = run_node(b, e);
    if (!rc && !b->now.on) td_row_after(b);
    return rc;
}

/* A row goes farther than a step should: later ones go less far. */
static void pay(td_backward *b, int64_t *steps)
{
    int64_t paid = b->debt < *steps ? b->debt : *steps;
    b->debt -= paid;
    *steps -= paid;
}

static bool has_more(const td_backward *b)
{
    return b->now.on || b->nready || td_row_has(b);
}

/* One stage, or as much of it as there are steps. */
static int advance(td_backward *b, int64_t *steps, td_error *e)
{
    int rc = 0;
    switch (b->stage) {
    case TD_BS_SEED: return start(b, e);
    case TD_BS_RUN:
        for (; *steps > 0 && has_more(b) && !rc; *steps -= TD_NODE_STEPS) {
            rc = run_some(b, e);
            pay(b, steps);
            if (b->asking.on || b->waits) *steps = 0;
        }
        if (!has_more(b)) b->stage = TD_BS_UNPIN;
        return rc;
    case TD_BS_UNPIN:
        if (td_backward_unpin(b, steps)) b->stage = TD_BS_COMMIT;
        return 0;
    case TD_BS_COMMIT: *steps = 0; return finish(b, e);
    default: return td_backward_walk(b, steps, e);
    }
}

int td_backward_step(td_backward *b, int most, bool *done, td_need *need, td_error *e)
{
    int64_t steps = (int64_t)most * TD_NODE_STEPS;
    int rc = b->failed;
    td_region *region = b->who->region; /* a backward is no part of it */
    b->who->region = NULL;
    b->eval.need = need;
    b->eval.lacks = false;
    b->eval.at = 0;
    b->behind = NULL;
    b->waits = false;
    if (b->asking.on) steps = 0;
    pay(b, &steps);
    while (steps > 0 && b->stage != TD_BS_DONE && !rc) rc = advance(b, &steps, e);
    b->who->region = region;
    if (!b->eval.lacks) b->failed = rc;
    *done = b->stage == TD_BS_DONE && !rc;
    return rc;
}

bool td_backward_lacks(const td_backward *b)
{
    return b->eval.lacks;
}

const td_storage *td_backward_behind(const td_backward *b)
{
    return b->behind;
}

void td_backward_results(td_backward *b, td_tensor **out)
{
    for (int k = 0; k < b->ninputs; k++) {
        out[k] = b->results[k];
        b->results[k] = NULL;
    }
}
