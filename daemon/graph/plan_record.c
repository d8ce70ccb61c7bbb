/* Recording a row of nodes while a run goes through them, and making a plan of it.
 *
 * What comes from before the row is an argument, and its look is kept when a node first takes it: values do not change
 * (what is in a tensor is no part of its look), and what changes lists is in no row. What somebody still has behind the
 * row is a result. */
#include "daemon/graph/plan_parts.h"

#include <stdlib.h>
#include <string.h>

void td_planning_drop(td_exec *r)
{
    if (!r->planning) return;
    td_recording_free(r->planning->recording);
    free(r->planning);
    r->planning = NULL;
}

void td_plan_begin(td_exec *r, td_spot *s)
{
    td_planning *p = malloc(sizeof *p);
    td_recording *rec = NULL;
    if (!p || td_recording_new(&rec, NULL)) {
        free(p);
        return;
    }
    p->spot = s;
    memset(p->words, 0, sizeof p->words);
    p->recording = rec;
    p->start = r->node;
    p->block = r->ir->nodes[r->node].block;
    p->depth = r->depth;
    p->narguments = p->ninputs = 0;
    p->twins = false;
    p->look = (td_looking){p->words, p->words + TD_PLAN_WORDS - TD_PLAN_SLACK, true, false, 0};
    td_look_put(&p->look, r->frames[r->depth - 1].mode);
    r->planning = p;
    s->recorded++;
}

/* In the row, or in an arm of a branch of it. Nodes have numbers in their order. */
static bool is_inside(const td_exec *r, uint32_t value)
{
    uint32_t def = r->ir->values[value].def;
    const td_planning *p = r->planning;
    if (def & TD_IR_PARAM) return false;
    while (def != TD_IR_NONE && r->ir->nodes[def].block != p->block) def = r->ir->blocks[r->ir->nodes[def].block].owner;
    return def != TD_IR_NONE && def >= p->start;
}

static bool has_argument(const td_planning *p, uint32_t value)
{
    for (uint32_t k = p->narguments; k-- > 0;)
        if (p->arguments[k] == value) return true;
    return false;
}

static bool is_in_arm(const td_exec *r)
{
    return r->depth > r->planning->depth;
}

/* The row ends before a node, or the branch that it is in an arm of; the next may begin there, if this one did not, or
 * behind it. */
static void cut(td_exec *r, uint32_t node)
{
    if (is_in_arm(r)) node = r->frames[r->planning->depth].owner;
    uint8_t *joins = r->program->joins;
    uint32_t next = r->ir->nodes[node].next;
    if (node == r->planning->start) joins[node] &= (uint8_t)~TD_STARTS;
    else r->planning->spot->stop = node, joins[node] |= joins[node] ? TD_STARTS : 0;
    if (next != TD_IR_NONE && joins[next]) joins[next] |= TD_STARTS;
}

static bool take_input(td_planning *p)
{
    td_tensor *t = p->tensors[p->ninputs];
    for (uint32_t k = 0; k < p->ninputs; k++) p->twins |= p->tensors[k] == t;
    p->ninputs++;
    return td_recording_input(p->recording, t);
}

/* The value is an argument of the row. What requires a gradient cannot be: then nothing comes of it, this time. */
static void take_argument(td_exec *r, uint32_t node, uint32_t value)
{
    td_planning *p = r->planning;
    td_taking t = {&p->look, p->tensors, p->ninputs, td_plan_graded(r), false};
    bool good = true;
    if (p->narguments == TD_PLAN_ENDS || !td_plan_take(&t, &r->at[value], false)) {
        if (!t.refused) cut(r, node);
        td_planning_drop(r);
        return;
    }
    p->arguments[p->narguments++] = value;
    while (p->ninputs < t.n && good) good = take_input(p);
    if (!good) td_planning_drop(r);
}

static void take_value(td_exec *r, uint32_t node, uint32_t value)
{
    if (!is_inside(r, value) && !has_argument(r->planning, value)) take_argument(r, node, value);
}

void td_plan_arguments(td_exec *r, uint32_t node)
{
    for (uint32_t k = 0; k < r->ir->nodes[node].nin && r->planning; k++) take_value(r, node, td_ir_in(r->ir, node, k));
}

/* What a branch gives may be what came from before the row. */
static void take_returns(td_exec *r)
{
    const td_run_frame *f = &r->frames[r->depth - 1];
    for (uint32_t k = 0; k < r->ir->blocks[f->block].nrets && r->planning; k++)
        take_value(r, f->owner, td_ir_return(r->ir, f->block, k));
}

void td_plan_saw(td_exec *r, uint32_t node, const td_call *c)
{
    char where[64];
    td_exec_line(r, node, where, sizeof where);
    td_recording_call(r->planning->recording, c, where);
}

void td_plan_after(td_exec *r, uint32_t node)
{
    td_planning *p = r->planning;
    if (!p) return;
    td_recording_let_go(p->recording);
    if (td_recording_good(p->recording)) return;
    cut(r, node);
    td_planning_drop(r);
}

/* ---- from a recording to a plan */

/* Results of the row's nodes that somebody still has. False: a list or a text is among them, which is somebody's own.
 */
static bool take_results(td_exec *r, td_plan *p, uint32_t end, td_tensor **outs, uint32_t *nouts)
{
    uint32_t room = 0;
    *nouts = 0;
    for (uint32_t n = r->planning->start; n != end; n = r->ir->nodes[n].next) {
        for (uint32_t k = 0; k < r->ir->nodes[n].nout; k++) {
            uint32_t value = td_ir_out(r->ir, n, k);
            const td_val *v = &r->at[value];
            if (v->kind == TD_T_NONE) continue;
            if (td_val_is_boxed(v) || p->nresults == TD_PLAN_ENDS) {
                cut(r, n);
                return false;
            }
            if (p->nresults == room) {
                td_plan_result *more = realloc(p->results, (room = room ? 2 * room : 8) * sizeof *more);
                if (!more) return false;
                p->results = more;
            }
            bool tensor = v->kind == TD_T_TENSOR;
            p->results[p->nresults++] = (td_plan_result){value, tensor ? td_val_none() : *v};
            if (tensor) outs[(*nouts)++] = v->tensor;
        }
    }
    return true;
}

static bool take_drops(td_exec *r, td_plan *p, uint32_t end)
{
    const td_program_facts *g = r->program->facts;
    uint32_t most = 0;
    for (uint32_t n = r->planning->start; n != end; n = r->ir->nodes[n].next) most += g->from[n + 1] - g->from[n];
    p->drops = malloc((most + 1) * sizeof *p->drops);
    for (uint32_t n = r->planning->start; n != end && p->drops; n = r->ir->nodes[n].next)
        for (uint32_t k = g->from[n]; k < g->from[n + 1]; k++)
            if (!is_inside(r, g->dead[k])) p->drops[p->ndrops++] = g->dead[k];
    return p->drops;
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = malloc(bytes + 1);
    return to ? memcpy(to, from, bytes) : NULL;
}

static bool take_look(td_plan *p, td_planning *from)
{
    p->shares = from->twins || td_fused_writes_inputs(p->fused);
    if (p->shares && !td_plan_share(&from->look, from->ninputs, from->tensors)) return false;
    p->narguments = from->narguments;
    p->ninputs = from->ninputs;
    p->nwords = (uint32_t)(from->look.at - from->words);
    p->arguments = copy_of(from->arguments, p->narguments * sizeof *p->arguments);
    p->words = copy_of(from->words, (p->nwords + TD_PLAN_SLACK) * sizeof *p->words);
    return p->arguments && p->words;
}

static bool pay(td_plan *p, td_held_program *g)
{
    uint64_t numbers = (uint64_t)p->narguments + p->ndrops;
    p->bytes = sizeof *p + td_fused_bytes(p->fused) + numbers * sizeof(uint32_t) + p->nwords * sizeof(uint64_t) +
               p->nresults * sizeof(td_plan_result);
    return td_plan_charge(g, p->bytes);
}

static void keep(td_held_program *g, td_spot *s, td_plan *p)
{
    uint32_t at = s->nplans;
    if (s->nplans == TD_SPOT_PLANS) {
        at = s->recorded % TD_SPOT_PLANS;
        td_plan_pay_back(g, s->plans[at]->bytes);
        td_plan_count_loops(g, -(int)td_fused_loops(s->plans[at]->fused));
        td_plan_free(s->plans[at]);
    } else {
        s->nplans++;
        g->nplans++;
    }
    s->plans[at] = p;
    td_plan_count_loops(g, (int)td_fused_loops(p->fused));
}

/* There will be no plan from here; behind a long call, perhaps. */
static void give_up(td_exec *r)
{
    const td_planning *p = r->planning;
    uint32_t next = r->ir->nodes[p->start].next;
    r->program->joins[p->start] &= (uint8_t)~TD_STARTS;
    if (td_recording_heads(p->recording) && next != TD_IR_NONE && r->program->joins[next])
        r->program->joins[next] |= TD_STARTS;
}

static void make(td_exec *r, uint32_t end)
{
    td_planning *now = r->planning;
    td_tensor *outs[TD_PLAN_ENDS];
    uint32_t nouts;
    td_plan *p = calloc(1, sizeof *p);
    if (!p) return;
    p->end = end;
    bool good = take_results(r, p, end, outs, &nouts) && take_drops(r, p, end);
    if (good && !td_recording_end(now->recording, nouts, outs, td_plan_loops_left(r->program), &p->fused, NULL) &&
        !p->fused)
        give_up(r);
    if (p->fused && take_look(p, now) && pay(p, r->program)) keep(r->program, now->spot, p);
    else td_plan_free(p);
}

void td_plan_finish(td_exec *r, uint32_t end)
{
    if (is_in_arm(r)) cut(r, end);
    else if (td_recording_is_worth(r->planning->recording)) make(r, end);
    else r->program->joins[r->planning->start] &= (uint8_t)~TD_STARTS;
    td_planning_drop(r);
}

void td_plan_end(td_exec *r)
{
    if (r->planning && is_in_arm(r)) take_returns(r);
    else if (r->planning) td_plan_finish(r, TD_IR_NONE);
}
