/* Constants as passes see them, and one value in place of another. */
#include "proto/passes/facts.h"

/* ---- constants */

uint32_t td_maker(const td_ir *ir, uint32_t value)
{
    uint32_t def = ir->values[value].def;
    return def & TD_IR_PARAM ? TD_IR_NONE : def;
}

uint32_t td_made_by(const td_ir *ir, uint32_t value, uint32_t op)
{
    uint32_t node = td_maker(ir, value);
    return node != TD_IR_NONE && ir->nodes[node].op == op ? node : TD_IR_NONE;
}

bool td_constant(const td_ir *ir, uint32_t value, td_literal *out)
{
    uint32_t node = td_made_by(ir, value, TD_PRIM_CONSTANT);
    if (node == TD_IR_NONE) return false;
    const td_ir_node *n = &ir->nodes[node];
    *out = (td_literal){.kind = TD_L_NONE};
    return !n->nwords || (td_literal_get(ir->words + n->word, n->nwords, out) && out->kind != TD_L_LIST);
}

bool td_constant_int(const td_ir *ir, uint32_t value, int64_t *out)
{
    td_literal l;
    if (!td_constant(ir, value, &l) || l.kind != TD_L_INT) return false;
    *out = l.i;
    return true;
}

bool td_is_true(const td_ir *ir, uint32_t value)
{
    td_literal l;
    return td_constant(ir, value, &l) && l.kind == TD_L_BOOL && l.small;
}

static int ints_of_words(const uint32_t *words, uint32_t n, int room, int64_t *out)
{
    td_literal l;
    uint32_t at = td_literal_get(words, n, &l), count = l.small;
    if (!at || l.kind != TD_L_LIST || count > (uint32_t)room) return -1;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t used = td_literal_get(words + at, n - at, &l);
        if (!used || l.kind != TD_L_INT) return -1;
        out[k] = l.i;
        at += used;
    }
    return (int)count;
}

int td_constant_ints(const td_ir *ir, uint32_t value, int room, int64_t *out)
{
    uint32_t node = td_maker(ir, value);
    if (node == TD_IR_NONE) return -1;
    const td_ir_node *n = &ir->nodes[node];
    if (n->op == TD_PRIM_CONSTANT) return n->nwords ? ints_of_words(ir->words + n->word, n->nwords, room, out) : -1;
    if (n->op != TD_PRIM_LISTCONSTRUCT || n->nin > (uint32_t)room) return -1;
    for (uint32_t k = 0; k < n->nin; k++)
        if (!td_constant_int(ir, td_ir_in(ir, node, k), &out[k])) return -1;
    return (int)n->nin;
}

void td_turn_constant(td_ir_edit *e, uint32_t node, const td_literal *v)
{
    uint32_t words[TD_LITERAL_WORDS], n = td_literal_put(words, v);
    td_ir_turn(e, node, TD_PRIM_CONSTANT);
    td_ir_words(e, node, words, n);
}

/* ---- one in place of another */

/* It may be narrower: T for T?. Only one op takes what may be None and nothing that is None. */
static bool refuses_none(const td_ir *ir, uint32_t user)
{
    return !(user & TD_IR_PARAM) && ir->nodes[user].op == TD_PRIM_UNCHECKED_CAST;
}

bool td_may_stand(const td_ir_edit *e, uint32_t old, uint32_t value)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t type = ir->values[value].type;
    if (type == ir->values[old].type) return true;
    if (!td_type_fits(ir, type, ir->values[old].type)) return false;
    if (td_type_kind_of(ir, type) != TD_T_NONE) return true;
    for (uint32_t use = td_ir_use_first(e, old); use != TD_IR_NONE; use = td_ir_use_next(e, use))
        if (refuses_none(ir, td_ir_user(e, use))) return false;
    return true;
}

bool td_put_instead(td_ir_edit *e, uint32_t old, uint32_t value)
{
    const td_ir *ir = td_ir_now(e);
    if (old == value || !td_ir_uses(e, old) || !td_type_fits(ir, ir->values[value].type, ir->values[old].type))
        return false;
    if (td_may_stand(e, old, value)) {
        td_ir_replace(e, old, value);
        return true;
    }
    bool changed = false;
    for (uint32_t use = td_ir_use_first(e, old), next; use != TD_IR_NONE && !td_ir_failed(e); use = next) {
        next = td_ir_use_next(e, use);
        if (refuses_none(ir, td_ir_user(e, use))) continue;
        td_ir_use_other(e, use, value);
        changed = true;
    }
    return changed;
}

uint32_t td_widened(td_ir_edit *e, uint32_t value, uint32_t type)
{
    uint32_t node = td_ir_if(e, td_ir_bool(e, true)), out = td_ir_out_new(e, node, type);
    td_ir_returns(e, td_ir_child(e, node, 0), 1, &value);
    td_ir_returns(e, td_ir_child(e, node, 1), 1, &value);
    return out;
}

bool td_alike(const td_ir *ir, uint32_t a, uint32_t b)
{
    const td_ir_node *x = &ir->nodes[a], *y = &ir->nodes[b];
    if (x->op != y->op || x->mode != y->mode || x->nblocks || x->nin != y->nin || x->nout != y->nout ||
        x->nwords != y->nwords)
        return false;
    if (x->nwords && memcmp(ir->words + x->word, ir->words + y->word, x->nwords * sizeof *ir->words) != 0) return false;
    for (uint32_t k = 0; k < x->nin; k++)
        if (td_ir_in(ir, a, k) != td_ir_in(ir, b, k)) return false;
    for (uint32_t k = 0; k < x->nout; k++)
        if (ir->values[td_ir_out(ir, a, k)].type != ir->values[td_ir_out(ir, b, k)].type) return false;
    return true;
}

/* ---- random ops */

/* As they stand, unless their numbers rise already. */
static void number_block(td_ir_edit *e, uint32_t block)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t last = TD_IR_NONE, next = 0;
    bool rises = true;
    for (uint32_t n = ir->blocks[block].first; n != TD_IR_NONE; n = ir->nodes[n].next) {
        if (ir->nodes[n].rng == TD_IR_NONE) continue;
        if (last != TD_IR_NONE && ir->nodes[n].rng <= last) rises = false;
        last = ir->nodes[n].rng;
    }
    for (uint32_t n = ir->blocks[block].first; !rises && n != TD_IR_NONE; n = ir->nodes[n].next)
        if (ir->nodes[n].rng != TD_IR_NONE) td_ir_rng(e, n, next++);
}

void td_number_random(td_ir_edit *e)
{
    if (td_ir_failed(e)) return;
    for (uint32_t b = 0; b < td_ir_now(e)->nblocks; b++) number_block(e, b);
}
