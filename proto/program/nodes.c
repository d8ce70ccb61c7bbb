/* Nodes, blocks, values and who uses them. Invariant: each slot of args that belongs to a living node or block stands
 * in the list of uses of its value, and only such slots do. */
#include "proto/program/arrays.h"

#include "proto/program/prim.h"
#include <assert.h>

/* ---- uses */

void td_ir_use_begin(td_ir_edit *e, uint32_t slot, uint32_t value, uint32_t user)
{
    e->ir.args[slot] = value;
    if (td_ir_stop(e, value)) {
        e->uses[slot] = (td_ir_use){TD_IR_NONE, TD_IR_NONE, TD_IR_NONE};
        return;
    }
    assert(value < e->ir.nvalues);
    td_ir_used *u = &e->used[value];
    e->uses[slot] = (td_ir_use){user, TD_IR_NONE, u->first};
    if (u->first != TD_IR_NONE) e->uses[u->first].prev = slot;
    u->first = slot;
    u->count++;
}

void td_ir_use_end(td_ir_edit *e, uint32_t slot)
{
    td_ir_use *u = &e->uses[slot];
    uint32_t value = e->ir.args[slot];
    if (u->user == TD_IR_NONE) return;
    if (u->prev == TD_IR_NONE) e->used[value].first = u->next;
    else e->uses[u->prev].next = u->next;
    if (u->next != TD_IR_NONE) e->uses[u->next].prev = u->prev;
    e->used[value].count--;
    u->user = TD_IR_NONE;
}

/* A run of slots, used by nobody yet. */
static uint32_t slots(td_ir_edit *e, uint32_t n)
{
    uint32_t first = td_ir_take(e, TD_A_ARGS, n), beside = td_ir_take(e, TD_A_USES, n);
    if (td_ir_stop(e, beside)) return TD_IR_NONE;
    for (uint32_t i = 0; i < n; i++) e->uses[first + i].user = TD_IR_NONE;
    return first;
}

/* One slot more behind the run of `n` at *first, which may move. */
static bool one_more_slot(td_ir_edit *e, uint32_t *first, uint32_t n, uint32_t user)
{
    bool at_end = *first + n == e->ir.nargs;
    uint32_t at = slots(e, at_end ? 1 : n + 1);
    if (at == TD_IR_NONE || at_end) return at != TD_IR_NONE;
    for (uint32_t i = 0; i < n; i++) {
        td_ir_use_end(e, *first + i);
        td_ir_use_begin(e, at + i, e->ir.args[*first + i], user);
    }
    *first = at;
    return true;
}

/* The same of definitions; the new one is `value`. */
static bool one_more_def(td_ir_edit *e, uint32_t *first, uint32_t n, uint32_t value)
{
    bool at_end = *first + n == e->ir.ndefs;
    uint32_t at = td_ir_take(e, TD_A_DEFS, at_end ? 1 : n + 1);
    if (at == TD_IR_NONE) return false;
    if (!at_end) {
        memcpy(e->ir.defs + at, e->ir.defs + *first, n * sizeof *e->ir.defs);
        *first = at;
    }
    e->ir.defs[*first + n] = value;
    return true;
}

uint32_t td_ir_uses(const td_ir_edit *e, uint32_t value)
{
    return td_ir_stop(e, value) ? 0 : e->used[value].count;
}

uint32_t td_ir_use_first(const td_ir_edit *e, uint32_t value)
{
    return td_ir_stop(e, value) ? TD_IR_NONE : e->used[value].first;
}

uint32_t td_ir_use_next(const td_ir_edit *e, uint32_t use)
{
    return e->uses[use].next;
}

uint32_t td_ir_user(const td_ir_edit *e, uint32_t use)
{
    return e->uses[use].user;
}

/* ---- making */

uint32_t td_ir_value_new(td_ir_edit *e, uint32_t type, uint32_t def, uint32_t nr)
{
    if (td_ir_stop(e, type)) return TD_IR_NONE;
    assert(type < e->ir.ntypes);
    uint32_t value = td_ir_take(e, TD_A_VALUES, 1), beside = td_ir_take(e, TD_A_USED, 1);
    if (td_ir_stop(e, beside)) return TD_IR_NONE;
    e->ir.values[value] = (td_ir_value){type, def, nr, TD_IR_NONE};
    e->used[beside] = (td_ir_used){TD_IR_NONE, 0};
    return value;
}

uint32_t td_ir_block_new(td_ir_edit *e, uint32_t owner, uint32_t function)
{
    uint32_t block = td_ir_take(e, TD_A_BLOCKS, 1);
    if (block == TD_IR_NONE) return TD_IR_NONE;
    e->ir.blocks[block] = (td_ir_block){.first = TD_IR_NONE, .last = TD_IR_NONE, .owner = owner, .function = function};
    return block;
}

void td_ir_stand(td_ir_edit *e, uint32_t node)
{
    td_ir_block *b = &e->ir.blocks[e->block];
    td_ir_node *n = &e->ir.nodes[node];
    n->block = e->block;
    n->next = e->before;
    n->prev = e->before == TD_IR_NONE ? b->last : e->ir.nodes[e->before].prev;
    if (n->prev == TD_IR_NONE) b->first = node;
    else e->ir.nodes[n->prev].next = node;
    if (n->next == TD_IR_NONE) b->last = node;
    else e->ir.nodes[n->next].prev = node;
}

void td_ir_unstand(td_ir_edit *e, uint32_t node)
{
    td_ir_node *n = &e->ir.nodes[node];
    td_ir_block *b = &e->ir.blocks[n->block];
    if (e->before == node) e->before = n->next;
    if (n->prev == TD_IR_NONE) b->first = n->next;
    else e->ir.nodes[n->prev].next = n->next;
    if (n->next == TD_IR_NONE) b->last = n->prev;
    else e->ir.nodes[n->next].prev = n->prev;
    n->block = TD_IR_NONE;
}

uint32_t td_ir_op_with(td_ir_edit *e, uint32_t op, uint32_t nin, const uint32_t *in, uint32_t nblocks)
{
    if (td_ir_stop(e, e->block)) return TD_IR_NONE;
    for (uint32_t i = 0; i < nin; i++)
        if (in[i] == TD_IR_NONE) return TD_IR_NONE;
    if (e->alive >= e->max_nodes) {
        td_fail(&e->failed, TD_E_QUOTA, "the program is too large: more than %u nodes", e->max_nodes);
        return TD_IR_NONE;
    }
    uint32_t node = td_ir_take(e, TD_A_NODES, 1), first = slots(e, nin), child = e->ir.nblocks;
    for (uint32_t i = 0; i < nblocks; i++) td_ir_block_new(e, node, e->ir.blocks[e->block].function);
    if (td_ir_stop(e, first)) return TD_IR_NONE;
    e->ir.nodes[node] = (td_ir_node){.op = op,
                                     .in = first,
                                     .nin = nin,
                                     .child = nblocks ? child : 0,
                                     .nblocks = nblocks,
                                     .source = e->source,
                                     .mode = (op & TD_IR_CLASS) == TD_IR_PRIM ? 0 : e->mode,
                                     .rng = TD_IR_NONE};
    for (uint32_t i = 0; i < nin; i++) td_ir_use_begin(e, first + i, in[i], node);
    td_ir_stand(e, node);
    e->alive++;
    e->changes++;
    return node;
}

uint32_t td_ir_op(td_ir_edit *e, uint32_t op, uint32_t nin, const uint32_t *in, uint32_t nout, const uint32_t *types)
{
    uint32_t node = td_ir_op_with(e, op, nin, in, 0);
    for (uint32_t i = 0; i < nout; i++) td_ir_out_new(e, node, types[i]);
    return node;
}

uint32_t td_ir_if(td_ir_edit *e, uint32_t condition)
{
    return td_ir_op_with(e, TD_PRIM_IF, 1, &condition, 2);
}

uint32_t td_ir_loop(td_ir_edit *e, uint32_t max_trips, uint32_t condition)
{
    uint32_t loop = td_ir_op_with(e, TD_PRIM_LOOP, 2, (uint32_t[]){max_trips, condition}, 1);
    td_ir_param_new(e, td_ir_child(e, loop, 0), td_type_plain(e, TD_T_INT), NULL);
    return loop;
}

uint32_t td_ir_carry(td_ir_edit *e, uint32_t loop, uint32_t start, uint32_t type, const char *name)
{
    td_ir_in_new(e, loop, start);
    td_ir_out_new(e, loop, type);
    return td_ir_param_new(e, td_ir_child(e, loop, 0), type, name);
}

uint32_t td_ir_result(const td_ir_edit *e, uint32_t node)
{
    if (td_ir_stop(e, node)) return TD_IR_NONE;
    assert(node < e->ir.nnodes && e->ir.nodes[node].nout > 0);
    return td_ir_out(&e->ir, node, 0);
}

uint32_t td_ir_child(const td_ir_edit *e, uint32_t node, uint32_t k)
{
    if (td_ir_stop(e, node)) return TD_IR_NONE;
    assert(node < e->ir.nnodes && k < e->ir.nodes[node].nblocks);
    return e->ir.nodes[node].child + k;
}

/* ---- runs that grow */

uint32_t td_ir_param_new(td_ir_edit *e, uint32_t block, uint32_t type, const char *name)
{
    if (td_ir_stop(e, block)) return TD_IR_NONE;
    uint32_t value = td_ir_value_new(e, type, TD_IR_PARAM | block, e->ir.blocks[block].nparams);
    td_ir_block *b = &e->ir.blocks[block];
    if (td_ir_stop(e, value) || !one_more_def(e, &b->param, b->nparams, value)) return TD_IR_NONE;
    b->nparams++;
    e->changes++;
    if (name) td_ir_name(e, value, name);
    return value;
}

uint32_t td_ir_out_new(td_ir_edit *e, uint32_t node, uint32_t type)
{
    if (td_ir_stop(e, node)) return TD_IR_NONE;
    td_ir_node *n = &e->ir.nodes[node];
    uint32_t value = td_ir_value_new(e, type, node, n->nout);
    if (td_ir_stop(e, value) || !one_more_def(e, &n->out, n->nout, value)) return TD_IR_NONE;
    n->nout++;
    e->changes++;
    return value;
}

uint32_t td_ir_in_new(td_ir_edit *e, uint32_t node, uint32_t value)
{
    if (td_ir_stop(e, node) || value == TD_IR_NONE) return TD_IR_NONE;
    td_ir_node *n = &e->ir.nodes[node];
    if (!one_more_slot(e, &n->in, n->nin, node)) return TD_IR_NONE;
    td_ir_use_begin(e, n->in + n->nin, value, node);
    e->changes++;
    return n->nin++;
}

void td_ir_returns(td_ir_edit *e, uint32_t block, uint32_t n, const uint32_t *values)
{
    if (td_ir_stop(e, block)) return;
    td_ir_block *b = &e->ir.blocks[block];
    for (uint32_t i = 0; i < b->nrets; i++) td_ir_use_end(e, b->ret + i);
    b->nrets = 0;
    uint32_t first = slots(e, n);
    if (first == TD_IR_NONE) return;
    for (uint32_t i = 0; i < n; i++) td_ir_use_begin(e, first + i, values[i], TD_IR_PARAM | block);
    b->ret = first;
    b->nrets = n;
    e->changes++;
}
