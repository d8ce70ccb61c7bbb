/* 1, inline: a call becomes what it calls; a function that nobody calls any more goes.
 *
 * Functions that call nothing are put where they are called, which makes others such functions, and so on. What that
 * may add to a module is bounded: doubling functions would make it as large as one likes. */
#include "proto/passes/facts.h"
#include "proto/passes/passes.h"

#include <stdlib.h>

enum { MOST_ROUNDS = 64, MOST_MORE = 16384 /* nodes, beside as many as there were */ };

typedef struct callee {
    uint32_t nodes, height; /* height: blocks within blocks */
    uint32_t calls, callers;
} callee;

typedef struct inliner {
    td_ir_edit *e;
    const td_ir *ir;
    callee *of; /* by function */
    uint32_t left;
    bool changed;
} inliner;

static bool is_call(const td_ir *ir, uint32_t node)
{
    return (ir->nodes[node].op & TD_IR_CLASS) == TD_IR_FN;
}

static void look_at(inliner *l, uint32_t function)
{
    callee *c = &l->of[function];
    uint32_t depth = 0;
    for (td_ir_walk w = td_walk_of(l->ir, l->ir->functions[function].block); w.step != TD_STEP_OVER; td_walk_on(&w)) {
        if (w.step == TD_STEP_BLOCK && ++depth > c->height) c->height = depth;
        if (w.step == TD_STEP_END) depth--;
        if (w.step != TD_STEP_NODE) continue;
        c->nodes++;
        if (!is_call(l->ir, w.node)) continue;
        c->calls++;
        l->of[l->ir->nodes[w.node].op & TD_IR_NUMBER].callers++;
    }
}

static void look(inliner *l)
{
    memset(l->of, 0, l->ir->nfunctions * sizeof *l->of);
    for (uint32_t k = 0; k < l->ir->nfunctions; k++) look_at(l, k);
}

/* ---- one call */

static uint32_t depth_of(const td_ir *ir, uint32_t node)
{
    uint32_t depth = 1, owner;
    while ((owner = ir->blocks[ir->nodes[node].block].owner) != TD_IR_NONE) node = owner, depth++;
    return depth;
}

static bool results_agree(const td_ir_edit *e, uint32_t call, uint32_t block)
{
    const td_ir *ir = td_ir_now(e);
    for (uint32_t k = 0; k < ir->nodes[call].nout; k++)
        if (!td_may_stand(e, td_ir_out(ir, call, k), td_ir_return(ir, block, k))) return false;
    return true;
}

static bool may_inline(const inliner *l, uint32_t call)
{
    uint32_t function = l->ir->nodes[call].op & TD_IR_NUMBER;
    const callee *c = &l->of[function];
    return !c->calls && (c->nodes <= l->left || c->callers == 1) &&
           c->nodes + 2 * l->ir->nodes[call].nin <= td_ir_room(l->e) &&
           depth_of(l->ir, call) + c->height <= TD_IR_MAX_NEST &&
           results_agree(l->e, call, l->ir->functions[function].block);
}

/* What was called without gradients stays so. */
static void take_mode(inliner *l, uint32_t from, uint32_t mode)
{
    if (!mode) return;
    for (uint32_t n = from; n < l->ir->nnodes; n++)
        if ((l->ir->nodes[n].op & TD_IR_CLASS) != TD_IR_PRIM) td_ir_mode(l->e, n, l->ir->nodes[n].mode | mode);
}

static void put_in(inliner *l, uint32_t call)
{
    uint32_t function = l->ir->nodes[call].op & TD_IR_NUMBER, block = l->ir->functions[function].block;
    uint32_t nin = l->ir->nodes[call].nin, nout = l->ir->nodes[call].nout, from;
    uint32_t *values = malloc((nin + nout + 1u) * sizeof *values);
    if (!values) return;
    td_ir_to_before(l->e, call);
    td_ir_from_node(l->e, call);
    for (uint32_t k = 0; k < nin; k++) {
        uint32_t param = td_ir_param(l->ir, block, k), value = td_ir_in(l->ir, call, k);
        bool stands = td_may_stand(l->e, param, value);
        values[k] = stands ? value : td_widened(l->e, value, l->ir->values[param].type);
    }
    from = l->ir->nnodes;
    td_ir_clone(l->e, block, values, values + nin);
    take_mode(l, from, l->ir->nodes[call].mode & (TD_RM_GRAD_OFF | TD_RM_INFERENCE));
    for (uint32_t k = 0; k < nout; k++) td_ir_replace(l->e, td_ir_out(l->ir, call, k), values[nin + k]);
    if (!td_ir_failed(l->e)) td_ir_erase(l->e, call);
    if (l->of[function].callers > 1) l->left -= l->of[function].nodes;
    l->changed = true;
    free(values);
}

static bool put_in_all(inliner *l)
{
    uint32_t nnodes = l->ir->nnodes; /* what is put in calls nothing */
    bool any = false;
    for (uint32_t n = 0; n < nnodes && !td_ir_failed(l->e); n++) {
        if (l->ir->nodes[n].block == TD_IR_NONE || !is_call(l->ir, n) || !may_inline(l, n)) continue;
        put_in(l, n);
        any = true;
    }
    return any;
}

/* ---- functions that nobody calls */

static bool drop_uncalled(inliner *l)
{
    bool any = false;
    for (uint32_t k = 1; k < l->ir->nfunctions; k++) {
        if (l->of[k].callers || !td_ir_has_function(l->ir, k)) continue;
        td_ir_function_drop(l->e, k);
        any = true;
    }
    return any;
}

bool td_pass_inline(td_ir_edit *e, td_facts *f)
{
    inliner l = {.e = e, .ir = td_ir_now(e)};
    bool more = l.ir->nfunctions > 1;
    (void)f;
    l.of = more ? calloc(l.ir->nfunctions, sizeof *l.of) : NULL;
    if (!l.of) return false;
    look(&l);
    l.left = MOST_MORE;
    for (uint32_t k = 0; k < l.ir->nfunctions; k++) l.left += l.of[k].nodes;
    for (int round = 0; round < MOST_ROUNDS && more && !td_ir_failed(e); round++) {
        if (round) look(&l);
        more = drop_uncalled(&l);
        l.changed |= more;
        if (!more) more = put_in_all(&l);
    }
    free(l.of);
    if (l.changed) td_number_random(e);
    return l.changed;
}
