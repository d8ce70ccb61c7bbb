/* 6, dead code: what nobody needs goes; so do results of branches and loops that nobody needs, with what makes them.
 *
 * Needed are what functions return, effects (texts for the caller, errors that are meant, numbers of the generator),
 * writes to what the caller has, loops that might never end with what could fail in them; and all that these need.
 * Whoever needs something of a class (facts.h) needs all that is written to it. An op that nobody needs and that would
 * have failed fails no more. */
#include "proto/passes/facts.h"
#include "proto/passes/passes.h"

#include <stdlib.h>

typedef struct finder {
    td_ir_edit *e;
    const td_ir *ir;
    td_facts *f;
    uint8_t *value, *node, *class; /* marks; class: all that is written to it is needed */
    uint32_t *writes;              /* by class: the last node that writes it, ... */
    uint32_t *before;              /* ... by link: the one before; node: which node */
    uint32_t *writer;
    uint32_t nlinks;
    uint32_t *stack, nstack; /* values, and nodes as TD_IR_PARAM | node */
} finder;

static void need_node(finder *d, uint32_t node)
{
    if (d->node[node]) return;
    d->node[node] = 1;
    d->stack[d->nstack++] = TD_IR_PARAM | node;
}

static void need_writes(finder *d, uint32_t class)
{
    if (class == TD_CLASS_NONE || d->class[class]) return;
    d->class[class] = 1;
    for (uint32_t k = d->writes[class]; k != TD_IR_NONE; k = d->before[k]) need_node(d, d->writer[k]);
}

static void need(finder *d, uint32_t value)
{
    if (d->value[value]) return;
    d->value[value] = 1;
    d->stack[d->nstack++] = value;
    need_writes(d, td_class_of(d->f, d->ir, value));
}

/* What comes out of an If or Loop, or goes in. */
static void need_carried(finder *d, uint32_t node, uint32_t k)
{
    const td_ir *ir = d->ir;
    const td_ir_node *n = &ir->nodes[node];
    if (n->op == TD_PRIM_LOOP) {
        need(d, td_ir_param(ir, n->child, k + 1));
        need(d, td_ir_in(ir, node, k + 2));
        need(d, td_ir_return(ir, n->child, k + 1));
        return;
    }
    for (uint32_t b = 0; b < n->nblocks; b++) need(d, td_ir_return(ir, n->child + b, k));
}

static void follow_value(finder *d, uint32_t value)
{
    uint32_t def = d->ir->values[value].def, nr = d->ir->values[value].nr;
    if ((def & TD_IR_CAPTURED) == TD_IR_CAPTURED) return;
    if (!(def & TD_IR_PARAM)) {
        need_node(d, def);
        if (d->ir->nodes[def].nblocks) need_carried(d, def, nr);
        return;
    }
    uint32_t owner = d->ir->blocks[def & ~TD_IR_PARAM].owner;
    if (owner == TD_IR_NONE) return;
    need_node(d, owner);
    if (nr) need_carried(d, owner, nr - 1);
}

static void follow_node(finder *d, uint32_t node)
{
    const td_ir_node *n = &d->ir->nodes[node];
    uint32_t nin = !n->nblocks ? n->nin : n->op == TD_PRIM_LOOP ? 2 : 1;
    for (uint32_t k = 0; k < nin; k++) need(d, td_ir_in(d->ir, node, k));
    if (n->op == TD_PRIM_LOOP) need(d, td_ir_return(d->ir, n->child, 0));
    uint32_t owner = d->ir->blocks[n->block].owner;
    if (owner != TD_IR_NONE) need_node(d, owner);
}

/* ---- where needs begin */

/* Counted ones end. The count of `while True` is the largest there is. */
static bool might_not_end(const td_ir *ir, uint32_t node)
{
    const td_ir_node *n = &ir->nodes[node];
    int64_t trips;
    if (n->op != TD_PRIM_LOOP) return false;
    if (!td_is_true(ir, td_ir_return(ir, n->child, 0))) return true;
    return td_constant_int(ir, td_ir_in(ir, node, 0), &trips) && trips == INT64_MAX;
}

static void link_writes(finder *d, uint32_t node)
{
    for (uint32_t k = 0; k < d->ir->nodes[node].nin; k++) {
        uint32_t class = td_writes(d->ir, node, k) ? td_class_of(d->f, d->ir, td_ir_in(d->ir, node, k)) : TD_CLASS_NONE;
        if (class == TD_CLASS_NONE) continue;
        d->writer[d->nlinks] = node;
        d->before[d->nlinks] = d->writes[class];
        d->writes[class] = d->nlinks++;
    }
}

static bool may_fail(const td_ir *ir, uint32_t node)
{
    uint32_t op = ir->nodes[node].op;
    return (op & TD_IR_CLASS) != TD_IR_PRIM || td_prim_by_id(op)->flags & (TD_PRF_RAISES | TD_PRF_MUTATES);
}

/* An error may be all that ends such a loop. */
static void need_failures(finder *d, uint32_t loop)
{
    uint32_t body = d->ir->nodes[loop].child;
    need_node(d, loop);
    for (td_ir_walk w = td_walk_of(d->ir, body); !(w.step == TD_STEP_END && w.block == body); td_walk_on(&w)) {
        if (w.step != TD_STEP_NODE) continue;
        if (may_fail(d->ir, w.node)) need_node(d, w.node);
        w.inside = !might_not_end(d->ir, w.node); /* it has its own turn */
    }
}

static void begin(finder *d)
{
    const td_ir *ir = d->ir;
    for (uint32_t n = 0; n < ir->nnodes; n++) {
        if (ir->nodes[n].block == TD_IR_NONE) continue;
        if (td_writes_any(ir, n)) link_writes(d, n);
        if (td_has_effect(ir, n)) need_node(d, n);
        if (might_not_end(ir, n)) need_failures(d, n);
    }
    need_writes(d, TD_CLASS_ANY);
    for (uint32_t k = 0; k < ir->nfunctions; k++) {
        uint32_t block = ir->functions[k].block;
        if (!td_ir_has_function(ir, k)) continue;
        for (uint32_t i = 0; i < ir->blocks[block].nrets; i++) need(d, td_ir_return(ir, block, i));
    }
    while (d->nstack) {
        uint32_t at = d->stack[--d->nstack];
        if (at & TD_IR_PARAM) follow_node(d, at & ~TD_IR_PARAM);
        else follow_value(d, at);
    }
}

/* ---- what is not needed goes */

/* Of a branch or loop that stays; d->class is over, and is used for the marks. */
static bool narrow(finder *d, uint32_t node)
{
    const td_ir_node *n = &d->ir->nodes[node];
    uint32_t less = 0;
    for (uint32_t k = 0; k < n->nout; k++) {
        uint32_t value = n->op == TD_PRIM_LOOP ? td_ir_param(d->ir, n->child, k + 1) : td_ir_out(d->ir, node, k);
        less += !(d->class[k] = d->value[value]);
    }
    if (less) td_ir_keep(d->e, node, d->class);
    return less > 0;
}

static bool sweep(finder *d)
{
    bool changed = false;
    uint32_t ndead = 0;
    for (uint32_t k = 0; k < d->ir->nfunctions; k++) {
        for (td_ir_walk w = td_walk_of(d->ir, d->ir->functions[k].block); w.step != TD_STEP_OVER; td_walk_on(&w)) {
            if (w.step != TD_STEP_NODE) continue;
            w.inside = d->node[w.node];
            if (!w.inside) d->stack[ndead++] = w.node;
            else if (d->ir->nodes[w.node].nblocks && narrow(d, w.node)) changed = true;
        }
    }
    for (uint32_t k = ndead; k-- > 0;) td_ir_erase(d->e, d->stack[k]); /* users before what they use */
    return changed || ndead;
}

static bool make_room(finder *d)
{
    size_t nvalues = d->ir->nvalues + 1u, nnodes = d->ir->nnodes + 1u, nargs = d->ir->nargs + 1u;
    d->value = calloc(nvalues, 1);
    d->node = calloc(nnodes, 1);
    d->class = calloc(nvalues, 1);
    d->writes = malloc(nvalues * sizeof *d->writes);
    d->before = malloc(nargs * sizeof *d->before);
    d->writer = malloc(nargs * sizeof *d->writer);
    d->stack = malloc((nvalues + nnodes) * sizeof *d->stack);
    if (d->writes) memset(d->writes, 0xff, nvalues * sizeof *d->writes);
    return d->value && d->node && d->class && d->writes && d->before && d->writer && d->stack;
}

bool td_pass_dead(td_ir_edit *e, td_facts *f)
{
    if (!td_facts_find(f, e)) return false;
    finder d = {.e = e, .ir = td_ir_now(e), .f = f};
    bool changed = false;
    td_error error = {0};
    if (make_room(&d)) {
        begin(&d);
        changed = sweep(&d);
    } else {
        td_no_memory(&error, "to look for what a program does not need");
        td_ir_fail(e, &error);
    }
    free(d.value), free(d.node), free(d.class), free(d.writes), free(d.before), free(d.writer), free(d.stack);
    return changed;
}
