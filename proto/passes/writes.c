/* 2, writes: an op in place on a tensor that was just made makes a new one instead: nothing is written, so that other
 * passes and plans go across it.
 *
 * The new one must be what the old one would have become, for every argument: as large, of that dtype, in that order in
 * memory, with that history, or the same error. So the old one was made in the same block by an op whose results are
 * dense, row by row or channels last, which the new one is, too, since the first dense input of its shape says how it
 * lies (proto/infer/format.c); and by the time of the write it is known by no other name: no view, no list, nobody's
 * saved value. (An op in place whose gradient needs the old value keeps a copy of it; what others had saved is an error
 * in a backward.) */
#include "proto/ops/opid.h"
#include "proto/passes/facts.h"
#include "proto/passes/passes.h"

#include <stdlib.h>

enum { DEPTH = 8 /* of expressions that are looked at */ };

typedef struct writes {
    td_ir_edit *e;
    const td_ir *ir;
    td_facts *f;
    uint32_t *at; /* by node: its place in a walk; blocks follow their owner */
    uint32_t nat;
} writes;

/* ---- what kinds of numbers are in it, at least */

static td_category of_type(const td_ir *ir, uint32_t value, td_category unknown)
{
    switch (td_type_kind_of(ir, ir->values[value].type)) {
    case TD_T_INT: return TD_CAT_INT;
    case TD_T_FLOAT: return TD_CAT_FLOAT;
    case TD_T_COMPLEX: return TD_CAT_COMPLEX;
    case TD_T_NONE:
    case TD_T_BOOL: return TD_CAT_BOOL;
    default: return unknown;
    }
}

/* The result's dtype and shape follow from all of its arguments. */
static bool is_plain(const td_op *op)
{
    return op->flags & TD_OF_POINTWISE && !(op->flags & TD_OF_SOURCE) && !op->compose && op->id != TD_OP_LERP &&
           op->id != TD_OP_COPY_KEPT;
}

static bool is_tensor(const td_ir *ir, uint32_t value)
{
    return td_type_kind_of(ir, ir->values[value].type) == TD_T_TENSOR;
}

static td_category larger(td_category a, td_category b)
{
    return a > b ? a : b;
}

/* Of dtypes that an op takes, all others being errors. */
static td_category least_taken(const td_op *op)
{
    td_category least = TD_CAT_COMPLEX;
    for (int d = 0; d < TD_DTYPE_COUNT; d++)
        if (op->dtypes >> d & 1 && td_dtype_category((td_dtype)d) < least) least = td_dtype_category((td_dtype)d);
    return least;
}

static td_category least(writes *w, uint32_t value, int depth);

static td_category least_of_inputs(writes *w, uint32_t node, const td_op *op, int depth) /* NOLINT(misc-no-recursion) */
{
    const td_ir *ir = w->ir;
    td_category most = TD_CAT_BOOL;
    for (uint32_t k = 0; k < ir->nodes[node].nin; k++) {
        uint32_t in = td_ir_in(ir, node, k);
        if (op->attrs_at >> k & 1) continue;
        most = larger(most, is_tensor(ir, in) ? least(w, in, depth + 1) : of_type(ir, in, TD_CAT_BOOL));
    }
    return most;
}

static td_category least(writes *w, uint32_t value, int depth) /* NOLINT(misc-no-recursion): DEPTH */
{
    const td_ir *ir = w->ir;
    uint32_t node = td_maker(ir, value);
    const td_op *op = node == TD_IR_NONE || depth > DEPTH ? NULL : td_ir_row(ir->nodes[node].op);
    td_literal l;
    if (!op || ir->nodes[node].op & TD_IR_INPLACE || !td_look(w->f)) return TD_CAT_BOOL;
    if (op->id == TD_OP_FULL && td_constant(ir, td_ir_in(ir, node, 2), &l) && l.kind == TD_L_DTYPE)
        return td_dtype_category((td_dtype)l.small);
    if (!is_plain(op)) return TD_CAT_BOOL;
    switch (op->promote) {
    case TD_PROMOTE_FLOAT: return larger(TD_CAT_FLOAT, least_of_inputs(w, node, op, depth));
    case TD_PROMOTE_SAME: return larger(least_taken(op), least_of_inputs(w, node, op, depth));
    case TD_PROMOTE_FIRST: return least(w, td_ir_in(ir, node, 0), depth + 1);
    default: return TD_CAT_BOOL;
    }
}

/* Layers and products give what they take, and take floats alone. */
static td_category least_made(writes *w, uint32_t value)
{
    uint32_t node = td_maker(w->ir, value);
    switch (w->ir->nodes[node].op) {
    case TD_IR_TD | TD_OP_CONV2D:
    case TD_IR_TD | TD_OP_LINEAR:
    case TD_IR_TD | TD_OP_BATCH_NORM:
    case TD_IR_TD | TD_OP_LAYER_NORM: return least_taken(td_ir_row(w->ir->nodes[node].op));
    default: return least(w, value, 0);
    }
}

/* ---- does the result have the shape and the dtype of what was written? */

/* Is `value` part of what `of` was made of, element by element? Then it is no larger, and of no larger dtype. */
static bool is_part(writes *w, uint32_t value, uint32_t of, int depth) /* NOLINT(misc-no-recursion): DEPTH */
{
    const td_ir *ir = w->ir;
    uint32_t node = td_maker(ir, of);
    const td_op *op = node == TD_IR_NONE || depth > DEPTH ? NULL : td_ir_row(ir->nodes[node].op);
    if (!op || !is_plain(op) || ir->nodes[node].op & TD_IR_INPLACE || !td_look(w->f)) return false;
    if (op->promote != TD_PROMOTE_SAME && op->promote != TD_PROMOTE_FLOAT) return false;
    for (uint32_t k = 0; k < ir->nodes[node].nin; k++) {
        uint32_t in = td_ir_in(ir, node, k);
        if (is_tensor(ir, in) && (in == value || is_part(w, value, in, depth + 1))) return true;
    }
    return false;
}

static bool stays_as_it_is(writes *w, uint32_t node, const td_op *op)
{
    const td_ir *ir = w->ir;
    uint32_t t = td_ir_in(ir, node, 0);
    td_category is = least_made(w, t), most = op->promote == TD_PROMOTE_FLOAT ? TD_CAT_FLOAT : TD_CAT_BOOL;
    if (op->promote != TD_PROMOTE_SAME && op->promote != TD_PROMOTE_FLOAT) return false;
    for (uint32_t k = 1; k < ir->nodes[node].nin; k++) {
        uint32_t in = td_ir_in(ir, node, k);
        if (!is_tensor(ir, in)) most = larger(most, of_type(ir, in, TD_CAT_COMPLEX));
        else if (!is_part(w, in, t, 0)) return false;
    }
    return most <= is || (most == TD_CAT_BOOL && ir->nodes[node].nin == 1);
}

/* ---- is it new, and known to nobody else? */

static bool makes_dense(const td_op *op)
{
    static const uint16_t rows[] = {TD_OP_CONV2D, TD_OP_LINEAR, TD_OP_MM,   TD_OP_BMM,        TD_OP_ADDMM,
                                    TD_OP_FULL,   TD_OP_SUM,    TD_OP_COPY, TD_OP_LAYER_NORM, TD_OP_BATCH_NORM};
    if (op->flags & TD_OF_POINTWISE && !(op->flags & TD_OF_VIEW)) return true;
    for (unsigned k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k] == op->id) return true;
    return false;
}

static bool may_record(writes *w, uint32_t node, uint32_t value)
{
    return td_records(w->ir, node) && td_class_flags(w->f, w->ir, value) & TD_CF_GRAD;
}

/* Does the gradient of any input need what this one holds, or this result? */
static bool saves(const td_op *op, uint32_t input, uint32_t output)
{
    for (uint32_t k = 0; op->saves && k < op->nparams; k++)
        if ((input < 32 && op->saves[k].inputs >> input & 1) || (output < 32 && op->saves[k].outputs >> output & 1))
            return true;
    return false;
}

static bool is_new(writes *w, uint32_t node, uint32_t value)
{
    uint32_t maker = td_maker(w->ir, value);
    if (maker == TD_IR_NONE || w->ir->nodes[maker].block != w->ir->nodes[node].block) return false;
    const td_op *op = td_ir_row(w->ir->nodes[maker].op);
    if (!op || op->compose || w->ir->nodes[maker].op & TD_IR_INPLACE || !makes_dense(op)) return false;
    if (w->ir->nodes[maker].mode % (1u << TD_RM_DEVICE) != w->ir->nodes[node].mode % (1u << TD_RM_DEVICE)) return false;
    return !may_record(w, maker, value) || !saves(op, UINT32_MAX, w->ir->values[value].nr);
}

/* The parameter of the op that its k-th argument is. */
static uint32_t param_of(const td_op *op, uint32_t k)
{
    uint32_t param = 0;
    for (uint32_t i = 0; i < k; i++) param += !(op->attrs_at >> i & 1);
    return param;
}

/* Who looks at it before it is written keeps nothing of it. */
static bool only_reads(writes *w, uint32_t user, uint32_t value)
{
    const td_ir *ir = w->ir;
    const td_op *op = td_ir_row(ir->nodes[user].op);
    if (!op) {
        uint32_t prim = ir->nodes[user].op;
        return prim == TD_PRIM_NDIM || prim == TD_PRIM_SHAPE || prim == TD_PRIM_SIZE_DIM || prim == TD_PRIM_NUMEL ||
               prim == TD_PRIM_ITEM_INT || prim == TD_PRIM_ITEM_FLOAT || prim == TD_PRIM_ITEM_BOOL;
    }
    if (op->compose || op->flags & TD_OF_VIEW || op->list_param >= 0 || td_writes_any(ir, user)) return false;
    for (uint32_t k = 0; k < ir->nodes[user].nin; k++)
        if (td_ir_in(ir, user, k) == value && td_records(ir, user) && saves(op, param_of(op, k), UINT32_MAX))
            return false;
    return true;
}

static uint32_t place(const writes *w, uint32_t node)
{
    return node < w->nat ? w->at[node] : UINT32_MAX;
}

/* Uses before the write look at the old value, those behind it at the new one. */
static bool is_before(const writes *w, uint32_t user, uint32_t node)
{
    if (!(user & TD_IR_PARAM)) return place(w, user) < place(w, node);
    uint32_t owner = w->ir->blocks[user & ~TD_IR_PARAM].owner;
    return owner != TD_IR_NONE && place(w, owner) < place(w, node) &&
           owner != w->ir->blocks[w->ir->nodes[node].block].owner;
}

static bool nobody_else_has_it(writes *w, uint32_t node, uint32_t value)
{
    for (uint32_t use = td_ir_use_first(w->e, value); use != TD_IR_NONE; use = td_ir_use_next(w->e, use)) {
        uint32_t user = td_ir_user(w->e, use);
        if (!td_look(w->f)) return false;
        if (user == node || !is_before(w, user, node)) continue;
        if (user & TD_IR_PARAM || !only_reads(w, user, value)) return false;
    }
    for (uint32_t k = 1; k < w->ir->nodes[node].nin; k++)
        if (td_ir_in(w->ir, node, k) == value) return false;
    return true;
}

static bool may_go(writes *w, uint32_t node)
{
    const td_ir_node *n = &w->ir->nodes[node];
    const td_op *op = n->block == TD_IR_NONE ? NULL : td_ir_row(n->op);
    if (!op || !(n->op & TD_IR_INPLACE) || td_ir_writes_beside(n, op)) return false;
    unsigned other = TD_OF_CREATION | TD_OF_RANDOM | TD_OF_VIEW | TD_OF_NONDIFF;
    if (!is_plain(op) || op->id == TD_OP_WHERE || op->flags & other || op->mutates || n->nout != 1) return false;
    uint32_t value = td_ir_in(w->ir, node, 0);
    return is_new(w, node, value) && stays_as_it_is(w, node, op) && nobody_else_has_it(w, node, value) &&
           td_ir_room(w->e);
}

/* ---- */

static void make_new(writes *w, uint32_t node)
{
    const td_ir_node n = w->ir->nodes[node];
    uint32_t in[32], value = td_ir_in(w->ir, node, 0), out = td_ir_out(w->ir, node, 0);
    for (uint32_t k = 0; k < n.nin; k++) in[k] = td_ir_in(w->ir, node, k);
    td_ir_to_before(w->e, node);
    td_ir_from_node(w->e, node);
    td_ir_mode_now(w->e, n.mode);
    uint32_t type = w->ir->values[out].type;
    uint32_t made = td_ir_op(w->e, n.op & ~(uint32_t)TD_IR_INPLACE, n.nin, in, 1, &type);
    td_ir_mode_now(w->e, 0);
    if (td_ir_failed(w->e)) return;
    w->at[made] = w->at[node];
    uint32_t result = td_ir_result(w->e, made);
    for (uint32_t use = td_ir_use_first(w->e, value), next; use != TD_IR_NONE; use = next) {
        uint32_t user = td_ir_user(w->e, use);
        next = td_ir_use_next(w->e, use);
        if (user != node && user != made && !is_before(w, user, node)) td_ir_use_other(w->e, use, result);
    }
    td_ir_replace(w->e, out, result);
    td_ir_erase(w->e, node);
}

static bool find_places(writes *w)
{
    uint32_t n = 0, nwrites = 0;
    for (uint32_t k = 0; k < w->ir->nnodes; k++) nwrites += (w->ir->nodes[k].op & TD_IR_INPLACE) != 0;
    w->nat = w->ir->nnodes + nwrites;
    w->at = malloc((w->nat + 1u) * sizeof *w->at);
    if (!w->at) return false;
    memset(w->at, 0xff, w->nat * sizeof *w->at);
    for (uint32_t k = 0; k < w->ir->nfunctions; k++)
        for (td_ir_walk x = td_walk_of(w->ir, w->ir->functions[k].block); x.step != TD_STEP_OVER; td_walk_on(&x))
            if (x.step == TD_STEP_NODE) w->at[x.node] = n++;
    return true;
}

/* In the order of a run: what one write left behind, the next one may write. */
bool td_pass_writes(td_ir_edit *e, td_facts *f)
{
    writes w = {.e = e, .ir = td_ir_now(e), .f = f};
    bool changed = false, any = false;
    for (uint32_t n = 0; n < w.ir->nnodes && !any; n++) any = w.ir->nodes[n].op & TD_IR_INPLACE;
    if (!any || !td_facts_find(f, e) || !find_places(&w)) return false;
    uint32_t nnodes = w.ir->nnodes, *order = malloc((nnodes + 1u) * sizeof *order), count = 0;
    for (uint32_t k = 0; order && k < w.ir->nfunctions; k++)
        for (td_ir_walk x = td_walk_of(w.ir, w.ir->functions[k].block); x.step != TD_STEP_OVER; td_walk_on(&x))
            if (x.step == TD_STEP_NODE && w.ir->nodes[x.node].op & TD_IR_INPLACE) order[count++] = x.node;
    for (uint32_t k = 0; k < count && !td_ir_failed(e); k++) {
        if (!may_go(&w, order[k])) continue;
        make_new(&w, order[k]);
        changed = true;
    }
    free(order);
    free(w.at);
    return changed;
}
