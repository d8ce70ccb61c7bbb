/* 3, constants: what is made of constants alone, and would not fail, is worked out now. */
#include "proto/passes/facts.h"
#include "proto/passes/fold.h"
#include "proto/passes/passes.h"

#include <stdlib.h>

static bool fold_scalars(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    const td_ir_node *n = &ir->nodes[node];
    td_literal in[2], out;
    if (n->nin > 2 || n->nout != 1) return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (!td_constant(ir, td_ir_in(ir, node, k), &in[k])) return false;
    if (!td_fold(n->op, n->nin, in, &out)) return false;
    td_turn_constant(e, node, &out);
    return true;
}

/* What can be None is told by its type, unless that leaves it open. */
static bool fold_is_none(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    td_type_kind kind = td_type_kind_of(ir, ir->values[td_ir_in(ir, node, 0)].type);
    if (kind == TD_T_OPTIONAL) return false;
    td_turn_constant(e, node, &(td_literal){.kind = TD_L_BOOL, .small = kind == TD_T_NONE});
    return true;
}

/* A list of constants is a constant: a new list each time that it is run, as before. */
static bool fold_list(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    const td_ir_node *n = &ir->nodes[node];
    td_literal l;
    uint32_t part = td_type_part(ir, ir->values[td_ir_out(ir, node, 0)].type, 0), nin = n->nin, nwords = 1;
    td_type_kind of = td_type_kind_of(ir, part);
    if (of == TD_T_NONE || of > TD_T_DTYPE || nin > TD_LITERAL_MOST) return false;
    for (uint32_t k = 0; k < nin; k++)
        if (!td_constant(ir, td_ir_in(ir, node, k), &l)) return false;
    uint32_t *words = malloc((1 + (size_t)nin * TD_LITERAL_WORDS) * sizeof *words);
    if (!words) return false;
    nwords = td_literal_put(words, &(td_literal){.kind = TD_L_LIST, .small = nin});
    for (uint32_t k = 0; k < nin; k++) {
        td_constant(ir, td_ir_in(ir, node, k), &l);
        nwords += td_literal_put(words + nwords, &l);
    }
    td_ir_turn(e, node, TD_PRIM_CONSTANT);
    td_ir_words(e, node, words, nwords);
    free(words);
    return true;
}

/* Of a list that nobody writes: how long it is, -1 when that is not known; and its k-th item, when it is a constant. */
static int64_t known_list(const td_ir *ir, uint32_t value)
{
    td_literal l;
    uint32_t node = td_maker(ir, value);
    if (node == TD_IR_NONE) return -1;
    const td_ir_node *n = &ir->nodes[node];
    if (n->op == TD_PRIM_LISTCONSTRUCT) return n->nin;
    if (n->op != TD_PRIM_CONSTANT || !n->nwords) return -1;
    return td_literal_get(ir->words + n->word, n->nwords, &l) && l.kind == TD_L_LIST ? l.small : -1;
}

static bool constant_item(const td_ir *ir, uint32_t list, int64_t at, td_literal *out)
{
    const td_ir_node *n = &ir->nodes[td_maker(ir, list)];
    if (n->op != TD_PRIM_CONSTANT || at > 64) return false; /* further in, looking for it is not worth the time */
    const uint32_t *words = ir->words + n->word + 1;
    while (at-- > 0) words += td_literal_words(*words);
    return td_literal_get(words, n->nwords, out) && out->kind != TD_L_LIST;
}

static bool fold_of_list(td_ir_edit *e, td_facts *f, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t op = ir->nodes[node].op, list = td_ir_in(ir, node, 0);
    td_literal l = {.kind = TD_L_INT};
    int64_t n = known_list(ir, list), at;
    if (n < 0 || td_class_flags(f, ir, list) & TD_CF_WRITES) return false;
    if (op == TD_PRIM_GETITEM_LIST) {
        if (!td_constant_int(ir, td_ir_in(ir, node, 1), &at)) return false;
        if (at < 0) at += n;
        if (at < 0 || at >= n) return false;
        if (td_is_op(ir, td_maker(ir, list), TD_PRIM_LISTCONSTRUCT))
            return td_put_instead(e, td_ir_out(ir, node, 0), td_ir_in(ir, td_maker(ir, list), (uint32_t)at));
        if (!constant_item(ir, list, at, &l)) return false;
    } else if (op == TD_PRIM_BOOL_LIST) {
        l = (td_literal){.kind = TD_L_BOOL, .small = n != 0};
    } else {
        l.i = n;
    }
    td_turn_constant(e, node, &l);
    return true;
}

/* What a slice takes of n items: the first, how many, the step. False: that is not known, or fails. */
static bool part_of(const td_ir *ir, uint32_t node, int64_t n, int64_t *first, int64_t *count, int64_t *step)
{
    td_literal from, to;
    if (!td_constant(ir, td_ir_in(ir, node, 1), &from) || !td_constant(ir, td_ir_in(ir, node, 2), &to) ||
        !td_constant_int(ir, td_ir_in(ir, node, 3), step) || *step < 1)
        return false;
    int64_t a = from.kind == TD_L_INT ? from.i : 0, b = to.kind == TD_L_INT ? to.i : n;
    a = a < 0 ? (a < -n ? 0 : a + n) : a > n ? n : a;
    b = b < 0 ? (b < -n ? 0 : b + n) : b > n ? n : b;
    *first = a;
    *count = b > a ? (b - a + *step - 1) / *step : 0;
    return true;
}

enum { MOST_ITEMS = 64 };

/* Items from the first on, at the cursor; those of a constant are made anew. */
static bool take_items(td_ir_edit *e, uint32_t list, int64_t first, int64_t count, int64_t step, uint32_t *out)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t maker = td_maker(ir, list);
    for (int64_t k = 0; k < count; k++) {
        td_literal l;
        if (td_is_op(ir, maker, TD_PRIM_LISTCONSTRUCT)) out[k] = td_ir_in(ir, maker, (uint32_t)(first + k * step));
        else if (!constant_item(ir, list, first + k * step, &l) || l.kind != TD_L_INT) return false;
        else out[k] = td_ir_int(e, l.i);
    }
    return true;
}

/* The node gives a list of these from now on. */
static bool becomes_list(td_ir_edit *e, uint32_t node, uint32_t n, const uint32_t *items)
{
    uint32_t type = td_ir_now(e)->values[td_ir_out(td_ir_now(e), node, 0)].type;
    uint32_t made = td_ir_op(e, TD_PRIM_LISTCONSTRUCT, n, items, 1, &type);
    if (td_ir_failed(e)) return false;
    td_ir_replace(e, td_ir_out(td_ir_now(e), node, 0), td_ir_result(e, made));
    return true;
}

/* A part of a list, or two lists, that nobody writes. */
static bool fold_lists(td_ir_edit *e, td_facts *f, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t a = td_ir_in(ir, node, 0), b = td_ir_in(ir, node, 1), items[2 * MOST_ITEMS];
    bool slice = td_is_op(ir, node, TD_PRIM_SLICE_LIST);
    int64_t n = known_list(ir, a), more = slice ? 0 : known_list(ir, b), first = 0, step = 1;
    if (n < 0 || more < 0 || n > MOST_ITEMS || more > MOST_ITEMS || td_class_flags(f, ir, a) & TD_CF_WRITES ||
        !td_ir_uses(e, td_ir_out(ir, node, 0)) || td_ir_room(e) < 2 * MOST_ITEMS + 1)
        return false;
    if (slice && !part_of(ir, node, n, &first, &n, &step)) return false;
    td_ir_to_before(e, node);
    td_ir_from_node(e, node);
    if (!take_items(e, a, first, n, step, items) || (more && !take_items(e, b, 0, more, 1, items + n))) return false;
    return becomes_list(e, node, (uint32_t)(n + more), items);
}

static bool fold_contains(td_ir_edit *e, td_facts *f, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    int64_t items[MOST_ITEMS], item;
    uint32_t list = td_ir_in(ir, node, 0);
    int n = td_constant_ints(ir, list, MOST_ITEMS, items);
    td_literal l = {.kind = TD_L_BOOL};
    if (n < 0 || !td_constant_int(ir, td_ir_in(ir, node, 1), &item) || td_class_flags(f, ir, list) & TD_CF_WRITES)
        return false;
    for (int k = 0; k < n; k++) l.small |= items[k] == item;
    td_turn_constant(e, node, &l);
    return true;
}

static bool fold(td_ir_edit *e, td_facts *f, uint32_t node)
{
    switch (td_ir_now(e)->nodes[node].op) {
    case TD_PRIM_CONSTANT: return false;
    case TD_PRIM_IS_NONE: return fold_is_none(e, node);
    case TD_PRIM_LISTCONSTRUCT: return fold_list(e, node);
    case TD_PRIM_GETITEM_LIST:
    case TD_PRIM_LEN_LIST:
    case TD_PRIM_BOOL_LIST: return fold_of_list(e, f, node);
    case TD_PRIM_SLICE_LIST:
    case TD_PRIM_ADD_LIST: return fold_lists(e, f, node);
    case TD_PRIM_CONTAINS_INT: return fold_contains(e, f, node);
    default: return fold_scalars(e, node);
    }
}

/* In the order of a run, so that what is made of constants was turned into one before. */
bool td_pass_constants(td_ir_edit *e, td_facts *f)
{
    const td_ir *ir = td_ir_now(e);
    bool changed = false;
    if (!td_facts_find(f, e)) return false;
    for (uint32_t k = 0; k < ir->nfunctions; k++)
        for (td_ir_walk w = td_walk_of(ir, ir->functions[k].block); w.step != TD_STEP_OVER; td_walk_on(&w))
            if (w.step == TD_STEP_NODE && (ir->nodes[w.node].op & TD_IR_CLASS) == TD_IR_PRIM &&
                !ir->nodes[w.node].nblocks && fold(e, f, w.node))
                changed = true;
    return changed;
}
