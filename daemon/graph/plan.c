/* Plans: rows of small nodes of one block that are run as one call (daemon/ops/fused.h).
 *
 * A row is recorded while it is run node by node, the second time that a run comes by: what its arguments look like,
 * the calls that its nodes came to, and what of it is used behind it. Nodes that may be in a row do nothing but write
 * tensors, and give values that follow from their arguments' looks (numbers among them count by value); so for
 * arguments that look the same the calls would be the same. Where a row writes arguments, it is part of their look
 * which of them lie in one memory, and how. Where something does not fit the row ends before it, and the next may begin
 * behind it. A branch whose way follows from looks alone (`if x.ndim == 3`) is no end: the row goes on through the arm
 * that was taken.
 *
 * What records a gradient is not planned: then each op has its node. */
#include "daemon/graph/plan_parts.h"
#include "daemon/kernels/jit.h"
#include "proto/ops/opid.h"
#include "proto/wire/record.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_OPS = 2, /* of a row */
    EAGER = 8,     /* so many rows are recorded at one spot, ... */
    SELDOM = 64,   /* ... then only at each so manieth run that none fits */
    OPS_A_UNIT = 8 /* of a plan, for what one op costs of a turn */
};

/* ---- what may be in a row */

static const char *why_not_op(const td_ir_node *x)
{
    const td_op *op = td_ir_row(x->op);
    if (op->flags & TD_OF_RANDOM) return "it draws random numbers";
    if (op->flags & TD_OF_DATA_SHAPE) return "the shape of its result depends on values";
    bool creates = op->flags & TD_OF_CREATION && !op->compose && !(x->op & TD_IR_INPLACE);
    if (creates || op->flags & TD_OF_UNCOMPUTED) return "it makes a tensor of none";
    if (x->mode & (TD_RM_SERVICE | TD_RM_RACY)) return "it is run in a way of its own";
    return x->mode >> TD_RM_DEVICE & (TD_MAX_DEVICES - 1) ? "it says a device" : NULL;
}

static const char *why_not_prim(uint32_t prim)
{
    switch (prim) {
    case TD_PRIM_IF: return "it is a branch";
    case TD_PRIM_LOOP: return "it is a loop";
    case TD_PRIM_REQUIRES_GRAD: return "it asks for gradients";
    case TD_PRIM_ITEM_INT:
    case TD_PRIM_ITEM_FLOAT:
    case TD_PRIM_ITEM_COMPLEX:
    case TD_PRIM_ITEM_BOOL: return "it waits for a value"; /* which does not follow from the tensor's look */
    default: break;
    }
    unsigned flags = td_prim_by_id(prim)->flags;
    if (flags & TD_PRF_MUTATES) return "it writes a list";
    return flags & TD_PRF_EFFECT ? "it does something else than giving values" : NULL;
}

const char *td_plan_why_not(const td_ir *ir, uint32_t node)
{
    uint32_t op = ir->nodes[node].op;
    if ((op & TD_IR_CLASS) == TD_IR_TD) return why_not_op(&ir->nodes[node]);
    return (op & TD_IR_CLASS) == TD_IR_PRIM ? why_not_prim(op & TD_IR_NUMBER) : "it is a call";
}

static bool is_op(const td_ir *ir, uint32_t node)
{
    return (ir->nodes[node].op & TD_IR_CLASS) == TD_IR_TD;
}

/* How many ops come in a row; one that is made of others is several. */
static uint32_t ops_from(const td_ir *ir, uint32_t node, const uint8_t *may)
{
    uint32_t n = 0;
    for (; node != TD_IR_NONE && may[node] && n < LEAST_OPS; node = ir->nodes[node].next)
        if (is_op(ir, node)) n += td_ir_row(ir->nodes[node].op)->compose ? LEAST_OPS : 1;
    return n;
}

/* A long one, which what comes behind may go on with (fused.h). A row begins there, whatever comes in front. */
static bool may_head(const td_ir *ir, uint32_t node)
{
    if (!is_op(ir, node) || td_ir_row(ir->nodes[node].op)->id != TD_OP_CONV2D) return false;
    do node = ir->nodes[node].next;
    while (node != TD_IR_NONE && !is_op(ir, node));
    if (node == TD_IR_NONE) return false;
    const td_op *op = td_ir_row(ir->nodes[node].op);
    return op->flags & TD_OF_POINTWISE || op->compose;
}

/* What a prim makes follows from its arguments' looks; are those tensors, or values that follow from tensors' looks?
 * Not the program's own numbers, nor those of loops, which might be others each time. */
static bool is_steady(const td_ir *ir, uint32_t node, const uint8_t *may, const uint8_t *steady)
{
    bool good = may[node] && !is_op(ir, node);
    for (uint32_t k = 0; k < ir->nodes[node].nin && good; k++) {
        uint32_t value = td_ir_in(ir, node, k);
        good = steady[value] || td_type_kind_of(ir, ir->values[value].type) == TD_T_TENSOR;
    }
    return good;
}

/* Branches that are no ends. Without memory there are none. */
static void find_branches(const td_ir *ir, uint8_t *may)
{
    uint8_t *steady = calloc(ir->nvalues + 1u, 1);
    for (uint32_t n = 0; steady && n < ir->nnodes; n++) {
        if (ir->nodes[n].op == (TD_IR_PRIM | TD_PRIM_IF)) may[n] = steady[td_ir_in(ir, n, 0)] ? TD_JOINS : 0;
        else if (is_steady(ir, n, may, steady))
            for (uint32_t k = 0; k < ir->nodes[n].nout; k++) steady[td_ir_out(ir, n, k)] = 1;
    }
    free(steady);
}

void td_plan_find(const td_ir *ir, uint8_t *may)
{
    const char *said = getenv("TENSORD_PLANS");
    memset(may, 0, ir->nnodes);
    if (said && !strcmp(said, "0")) return; /* for who compares */
    for (uint32_t n = 0; n < ir->nnodes; n++) may[n] = td_plan_why_not(ir, n) ? 0 : TD_JOINS;
    find_branches(ir, may);
    for (uint32_t b = 0; b < ir->nblocks; b++) {
        bool in_row = false;
        for (uint32_t n = ir->blocks[b].first; n != TD_IR_NONE; n = ir->nodes[n].next) {
            if (may[n] && !in_row && is_op(ir, n) && ops_from(ir, n, may) >= LEAST_OPS)
                may[n] |= TD_STARTS, in_row = true;
            if (!may[n]) in_row = false;
            else if (may_head(ir, n)) may[n] |= TD_STARTS;
        }
    }
}

/* ---- spots */

/* A program of many rows has plans for the first of them. */
bool td_plan_charge(td_held_program *g, uint64_t bytes)
{
    enum { MOST = 16 << 20 };
    uint64_t objects = td_objects_of(bytes);
    if (!g->account || g->plan_bytes + bytes > MOST || td_account_charge(g->account, bytes, objects, NULL))
        return false;
    g->plan_bytes += bytes;
    g->plan_objects += objects;
    return true;
}

void td_plan_pay_back(td_held_program *g, uint64_t bytes)
{
    uint64_t objects = td_objects_of(bytes);
    td_account_discharge(g->account, bytes, objects);
    g->plan_bytes -= bytes;
    g->plan_objects -= objects;
}

void td_plan_count_loops(td_held_program *g, int more)
{
    g->loops += (uint32_t)more;
    for (td_account *a = g->account; a; a = a->parent) a->loops += (uint32_t)more;
}

/* Whoever has as many as are left for all gets no more: so a session leaves half of them to others, and so does a
 * user. */
uint32_t td_plan_loops_left(const td_held_program *g)
{
    uint32_t left = td_jit_left(), most = left;
    for (const td_account *a = g->account; a && a->parent; a = a->parent) {
        uint32_t may = left > a->loops ? (left - a->loops + 1) / 2 : 0;
        if (may < most) most = may;
    }
    return most;
}

void td_plan_free(td_plan *p)
{
    td_fused_unref(p->fused);
    free(p->arguments);
    free(p->words);
    free(p->results);
    free(p->drops);
    free(p);
}

void td_spots_free(td_spot *s)
{
    for (td_spot *next; s; s = next) {
        next = s->next;
        for (uint32_t k = 0; k < s->nplans; k++) td_plan_free(s->plans[k]);
        free(s);
    }
}

/* Without memory there is none. */
static td_spot *spot_at(td_held_program *p, uint32_t node)
{
    if (p->spots[node] || !td_plan_charge(p, sizeof(td_spot))) return p->spots[node];
    td_spot *s = malloc(sizeof *s);
    if (!s) {
        td_plan_pay_back(p, sizeof *s);
        return NULL;
    }
    *s = (td_spot){.next = p->first_spot, .stop = TD_IR_NONE};
    p->first_spot = s;
    p->spots[node] = s;
    return s;
}

/* ---- how arguments look, and which tensors they are */

static bool take_tensor(td_taking *t, td_tensor *x)
{
    td_looking *l = t->look;
    if (t->graded && td_requires_grad(x)) t->refused = true;
    if (t->refused || t->n == TD_PLAN_ENDS || !td_look_room(l, 2 + 2 * x->desc.ndim)) return false;
    td_look_put(l, (uint64_t)(x->flags & TD_FUSED_MARKS) << 8 | (x->view_base != NULL));
    td_look_tensor(l, &x->desc, true);
    t->tensors[t->n++] = x;
    return !l->differ;
}

static bool take_items(td_taking *t, const td_val *v);

bool td_plan_take(td_taking *t, const td_val *v, bool item)
{
    td_looking *l = t->look;
    if (!td_look_room(l, 4)) return false;
    td_look_put(l, v->kind);
    if (l->differ) return false;
    if (v->kind == TD_T_TENSOR) return take_tensor(t, v->tensor);
    if (v->kind == TD_T_NONE) return true;
    if (td_val_is_number(v)) {
        td_scalar s = td_val_scalar(v);
        td_look_number(l, &s);
    } else if (v->kind == TD_T_DTYPE || v->kind == TD_T_DEVICE) {
        td_look_put(l, (uint64_t)v->i);
    } else if ((v->kind == TD_T_LIST || v->kind == TD_T_TUPLE) && !item) {
        return take_items(t, v);
    } else {
        return false;
    }
    return !l->differ;
}

static bool take_items(td_taking *t, const td_val *v)
{
    td_look_put(t->look, v->box->n);
    bool good = !t->look->differ;
    for (uint32_t k = 0; k < v->box->n && good; k++) good = td_plan_take(t, &v->box->items[k], true);
    return good;
}

bool td_plan_graded(const td_exec *r)
{
    return r->frames[r->depth - 1].mode == TD_GRAD_ON;
}

static bool fits(td_exec *r, const td_plan *p, td_tensor **tensors)
{
    td_looking l = {p->words, p->words + p->nwords + TD_PLAN_SLACK, false, false, 0};
    td_taking t = {&l, tensors, 0, td_plan_graded(r), false};
    td_look_put(&l, r->frames[r->depth - 1].mode);
    bool good = !l.differ;
    for (uint32_t k = 0; k < p->narguments && good; k++) good = td_plan_take(&t, &r->at[p->arguments[k]], false);
    if (good && p->shares) good = td_plan_share(&l, t.n, tensors);
    return good && l.at == p->words + p->nwords;
}

/* ---- running */

static void finished(td_call *c)
{
    if (c->cause && c->who->unwritten) c->who->unwritten(c->who, c);
}

static int may_use(td_exec *r, const td_plan *p, td_tensor *const *tensors, td_error *e)
{
    int rc = TD_OK;
    for (uint32_t k = 0; k < p->ninputs && !rc; k++)
        if (td_fused_uses(p->fused, k)) rc = td_exec_may_use(r, tensors[k], td_fused_writes(p->fused, k), e);
    return rc;
}

/* A view made under no_grad: whether it may be written follows from its base, which is no part of its look. */
static bool passes_by(const td_tensor *t)
{
    return t->flags & TD_TF_NO_GRAD_VIEW && t->view_base && td_requires_grad(t->view_base);
}

/* Something is not what it should be, may not be written, or a region is to hear of each write: then ops go by
 * themselves, and those in front of what fails have been done. */
static bool is_sound(const td_exec *r, const td_plan *p, td_tensor *const *tensors)
{
    if (!td_fused_writes_inputs(p->fused)) return true;
    bool good = !r->who->region;
    for (uint32_t k = 0; k < p->ninputs && good; k++) {
        const td_storage *s = tensors[k]->storage;
        bool shut = s->flags & TD_SF_READONLY || (td_plan_graded(r) && passes_by(tensors[k]));
        bool locked = shut && td_fused_writes(p->fused, k);
        good = !td_fused_uses(p->fused, k) || !(s->poison || locked);
    }
    return good;
}

static void go_behind(td_exec *r, const td_plan *p, td_tensor *const *outs)
{
    for (uint32_t k = 0; k < p->nresults; k++) {
        td_val *at = &r->at[p->results[k].value];
        td_val_drop(&r->purse, at);
        *at = p->results[k].number;
        if (at->kind == TD_T_NONE) *at = td_val_tensor(*outs++);
    }
    for (uint32_t k = 0; k < p->ndrops; k++) td_val_drop(&r->purse, &r->at[p->drops[k]]);
    r->node = p->end;
}

static int run(td_exec *r, const td_plan *p, td_tensor *const *tensors, bool *ran, td_need *need, td_error *e)
{
    td_tensor *outs[TD_PLAN_ENDS];
    int rc = is_sound(r, p, tensors) ? may_use(r, p, tensors, e) : TD_E_INVALID;
    *ran = rc <= 0 || !td_fused_writes_inputs(p->fused);
    if (rc) return rc;
    td_exec_set_place(r, r->node);
    rc = td_fused_call(p->fused, r->who, tensors, outs, r->caller, finished, need, e);
    r->lacks = td_need_may_pass(rc);
    *ran = rc != TD_E_MEMORY && rc != TD_E_QUOTA;
    if (!rc) go_behind(r, p, outs);
    return rc;
}

/* ---- */

static bool goes_on(const td_exec *r)
{
    const td_planning *p = r->planning;
    if (!r->program->joins[r->node] || r->node == p->spot->stop) return false;
    if (is_op(r->ir, r->node) && !td_recording_may(p->recording, td_ir_row(r->ir->nodes[r->node].op))) return false;
    return !td_recording_is_full(p->recording);
}

static bool is_worth_recording(const td_spot *s)
{
    return s->misses > 1 && (s->recorded < EAGER || s->misses % SELDOM == 0);
}

static int at_start(td_exec *r, bool *ran, int *cost, td_need *need, td_error *e)
{
    td_spot *s = spot_at(r->program, r->node);
    td_tensor *tensors[TD_PLAN_ENDS];
    for (uint32_t k = 0; s && k < s->nplans; k++) {
        const td_plan *p = s->plans[k];
        if (!fits(r, p, tensors)) continue;
        int rc = run(r, p, tensors, ran, need, e);
        *cost -= (int)(td_fused_calls(p->fused) / OPS_A_UNIT + 1) * TD_EXEC_COST_OP;
        if (*ran) return rc;
        r->lacks = false; /* op by op it needs less at once, or comes as far as it may */
        td_error_clear(e);
        return TD_OK;
    }
    if (s && ++s->misses && is_worth_recording(s)) td_plan_begin(r, s);
    return TD_OK;
}

/* A node that has been begun is ended as it was begun, and what a run declares of all that it makes is for ops. */
static bool is_free(const td_exec *r)
{
    bool begun = r->parts.ncalls || r->kept.at || r->kept.made.kind != TD_T_NONE;
    return !begun && !(r->mode & TD_RM_RACY);
}

int td_plan_before(td_exec *r, bool *ran, int *cost, td_need *need, td_error *e)
{
    int rc = TD_OK;
    *ran = false;
    if (!is_free(r)) return rc;
    if (r->planning && !goes_on(r)) {
        if (r->program->joins[r->node]) r->program->joins[r->node] |= TD_STARTS;
        td_plan_finish(r, r->node);
    }
    if (!r->planning && r->program->joins[r->node] & TD_STARTS) rc = at_start(r, ran, cost, need, e);
    if (r->planning) td_plan_arguments(r, r->node);
    return rc;
}
