/* 14, lists: what is put into a list before anybody looks at it was in it from the start. A list that a loop built,
 * which became its trips, is one that is written with its items; so the passes behind know it.
 *
 * Nobody looks as long as each use of the list stands behind: it was made in this block, and has no other name yet. */
#include "proto/passes/facts.h"
#include "proto/passes/passes.h"

#include <stdlib.h>

enum { MOST = 64 /* items: each one more copies all */ };

typedef struct lists {
    td_ir_edit *e;
    const td_ir *ir;
    td_facts *f;
    uint32_t *order; /* by node: when it is begun; of nodes that came since nobody asks */
    uint32_t nnodes;
} lists;

/* Is it made by a node of this block, with its items? */
static uint32_t maker_of(const lists *l, uint32_t list, uint32_t block)
{
    uint32_t node = td_maker(l->ir, list);
    if (node == TD_IR_NONE || l->ir->nodes[node].block != block) return TD_IR_NONE;
    return td_is_op(l->ir, node, TD_PRIM_LISTCONSTRUCT) || td_is_op(l->ir, node, TD_PRIM_CONSTANT) ? node : TD_IR_NONE;
}

static bool is_behind(const lists *l, uint32_t user, uint32_t node)
{
    if (user & TD_IR_PARAM) {
        uint32_t block = user & ~TD_IR_PARAM;
        if (block == l->ir->nodes[node].block) return true; /* its return */
        user = l->ir->blocks[block].owner;
    }
    return user < l->nnodes && l->order[user] > l->order[node];
}

static bool is_first_use(const lists *l, uint32_t list, uint32_t node)
{
    for (uint32_t use = td_ir_use_first(l->e, list); use != TD_IR_NONE; use = td_ir_use_next(l->e, use)) {
        uint32_t user = td_ir_user(l->e, use);
        if (!td_look(l->f) || (user != node && !is_behind(l, user, node))) return false;
    }
    return true;
}

static uint32_t constant(td_ir_edit *e, const td_literal *v)
{
    switch (v->kind) {
    case TD_L_INT: return td_ir_int(e, v->i);
    case TD_L_FLOAT: return td_ir_float(e, v->re);
    case TD_L_BOOL: return td_ir_bool(e, v->small);
    default: return TD_IR_NONE;
    }
}

/* How many items it has, MOST at most, and they; -1: that is not known. Constants are made anew, at the cursor. */
static int items_of(const lists *l, uint32_t maker, uint32_t *out)
{
    const td_ir_node *n = &l->ir->nodes[maker];
    td_literal all[MOST], head;
    if (n->op == TD_PRIM_LISTCONSTRUCT) {
        for (uint32_t k = 0; k < n->nin && k < MOST; k++) out[k] = td_ir_in(l->ir, maker, k);
        return n->nin < MOST ? (int)n->nin : -1;
    }
    uint32_t at = n->nwords ? td_literal_get(l->ir->words + n->word, n->nwords, &head) : 0;
    if (!at || head.kind != TD_L_LIST || head.small >= MOST) return -1;
    for (uint32_t k = 0; k < head.small; k++) {
        uint32_t used = td_literal_get(l->ir->words + n->word + at, n->nwords - at, &all[k]);
        if (!used || (all[k].kind != TD_L_INT && all[k].kind != TD_L_FLOAT && all[k].kind != TD_L_BOOL)) return -1;
        at += used;
    }
    for (uint32_t k = 0; k < head.small; k++) out[k] = constant(l->e, &all[k]);
    return (int)head.small;
}

/* The list as it is behind the node, in place of what it was. */
static bool put_in(lists *l, uint32_t node)
{
    uint32_t list = td_ir_in(l->ir, node, 0), items[MOST + 1], maker = maker_of(l, list, l->ir->nodes[node].block);
    uint32_t type = l->ir->values[list].type;
    int64_t at = -1;
    bool appends = td_is_op(l->ir, node, TD_PRIM_APPEND);
    if (maker == TD_IR_NONE || !is_first_use(l, list, node)) return false;
    if (!appends && !td_constant_int(l->ir, td_ir_in(l->ir, node, 1), &at)) return false;
    td_ir_to_before(l->e, node);
    td_ir_from_node(l->e, node);
    int n = items_of(l, maker, items);
    if (n < 0) return false;
    if (at < 0) at += n;
    if (!appends && (at < 0 || at >= n)) return false;
    items[appends ? n : at] = td_ir_in(l->ir, node, appends ? 1 : 2);
    uint32_t made = td_ir_op(l->e, TD_PRIM_LISTCONSTRUCT, (uint32_t)(n + appends), items, 1, &type);
    if (td_ir_failed(l->e)) return false;
    td_ir_replace(l->e, list, td_ir_result(l->e, made));
    td_ir_erase(l->e, node);
    return true;
}

/* What comes of a node is behind all that it needs. */
bool td_pass_lists(td_ir_edit *e, td_facts *f)
{
    lists l = {.e = e, .ir = td_ir_now(e), .f = f};
    uint32_t n = 0, next = 0;
    bool changed = false;
    l.nnodes = l.ir->nnodes;
    l.order = calloc(l.nnodes + 1u, 2 * sizeof *l.order);
    if (!l.order) return false;
    uint32_t *writers = l.order + l.nnodes;
    for (uint32_t k = 0; k < l.ir->nfunctions; k++)
        for (td_ir_walk w = td_walk_of(l.ir, l.ir->functions[k].block); w.step != TD_STEP_OVER; td_walk_on(&w)) {
            if (w.step != TD_STEP_NODE) continue;
            l.order[w.node] = ++next;
            if (td_is_op(l.ir, w.node, TD_PRIM_APPEND) || td_is_op(l.ir, w.node, TD_PRIM_SETITEM_LIST))
                writers[n++] = w.node;
        }
    for (uint32_t k = 0; k < n && !td_ir_failed(e) && td_ir_room(e) > MOST + 1; k++) changed |= put_in(&l, writers[k]);
    free(l.order);
    return changed;
}
