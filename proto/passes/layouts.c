/* 13, layouts: pictures between convolutions lie channels last, as the kernels want them.
 *
 * A convolution's result lies so where its weight does, and what is made of it by windows or element by element follows
 * (proto/infer/format.c): so weights are laid out anew, once, and nothing is added where pictures come in. Values are
 * the same wherever elements lie; but a view, or who asks for strides, or has the result, would see it. There it is
 * laid out row by row: a flat view of its elements in their order, which is a copy only where they do not lie so.
 *
 * A copy is not what was copied: where something is written that a view, or a list, is made of, all stays as it is. */
#include "proto/ops/opid.h"
#include "proto/passes/facts.h"
#include "proto/passes/freeze.h"
#include <stdlib.h>

enum { WEIGHT = 1, LEAST = 2 /* convolutions */, ROOM = 8 /* nodes that one use needs at most */ };

typedef struct laying {
    td_ir_edit *e;
    const td_ir *ir;
    uint8_t *last;    /* by value: it may lie channels last, or is a list of such */
    uint32_t nvalues; /* of those that were there before */
} laying;

/* ---- which weights */

static bool is_conv(const td_ir *ir, uint32_t node)
{
    return ir->nodes[node].op == (TD_IR_TD | TD_OP_CONV2D) && !ir->blocks[ir->nodes[node].block].function;
}

/* It looks at strides. */
static bool is_strict(const td_op *op)
{
    switch (op->id) {
    case TD_OP_VIEW:
    case TD_OP_AS_STRIDED:
    case TD_OP_VIEW_DTYPE:
    case TD_OP_VIEW_AS_COMPLEX: return true;
    default: return false;
    }
}

/* A prim that does not care how a tensor lies, and keeps none. */
static bool looks_only(uint32_t prim)
{
    switch (prim) {
    case TD_PRIM_NDIM:
    case TD_PRIM_SHAPE:
    case TD_PRIM_SIZE_DIM:
    case TD_PRIM_NUMEL:
    case TD_PRIM_DTYPE:
    case TD_PRIM_DEVICE:
    case TD_PRIM_IS_NONE:
    case TD_PRIM_REQUIRES_GRAD:
    case TD_PRIM_IF: return true;
    default: return false;
    }
}

/* What it was before factors went into it, which keep its dtype and sizes: a constant, or none. */
static uint32_t origin(const td_ir *ir, uint32_t weight)
{
    for (uint32_t maker; (maker = td_maker(ir, weight)) != TD_IR_NONE; weight = td_ir_in(ir, maker, 0)) {
        bool scales = td_is_op(ir, maker, TD_IR_TD | TD_OP_MUL) || td_is_op(ir, maker, TD_IR_TD | TD_OP_DIV);
        if (!scales || ir->nodes[maker].block != ir->functions[0].block) return TD_IR_NONE;
    }
    return td_is_frozen(ir, weight) ? weight : TD_IR_NONE;
}

/* Float32, which is what the kernels are for. `wide`: more than one channel and place, so that it can say how it lies.
 */
static bool has_weight(const td_ir *ir, uint32_t node, bool *wide)
{
    td_tensor_type t;
    uint32_t weight = origin(ir, td_ir_in(ir, node, WEIGHT));
    *wide = false;
    if (weight == TD_IR_NONE) return false;
    td_type_as_tensor(ir, ir->values[weight].type, &t);
    *wide = t.rank == 4 && t.sizes[1] > 1 && t.sizes[2] > 1 && t.sizes[3] > 1;
    return t.rank == 4 && t.dtype == TD_FLOAT32;
}

static bool is_worth(const td_ir *ir)
{
    uint32_t n = 0, turned = 0;
    bool wide;
    for (uint32_t k = 0; k < ir->nnodes; k++) {
        if (ir->nodes[k].block == TD_IR_NONE || !is_conv(ir, k) || !has_weight(ir, k, &wide)) continue;
        n++, turned += wide;
    }
    return n >= LEAST && turned;
}

/* Does the node take what is written, and have the same memory then, or not, by how that lies? Or would it be given
 * something else than what is written? */
static bool may_part(td_facts *f, const td_ir *ir, uint32_t node)
{
    const td_op *op = td_ir_row(ir->nodes[node].op);
    if (op ? !is_strict(op) && !op->compose : looks_only(ir->nodes[node].op)) return false;
    for (uint32_t k = 0; k < ir->nodes[node].nin; k++)
        if (td_class_flags(f, ir, td_ir_in(ir, node, k)) & TD_CF_WRITES) return true;
    return false;
}

static bool is_safe(td_facts *f, td_ir_edit *e)
{
    const td_ir *ir = td_ir_now(e);
    if (!td_facts_find(f, e)) return false;
    for (uint32_t n = 0; n < ir->nnodes; n++)
        if (ir->nodes[n].block != TD_IR_NONE && may_part(f, ir, n)) return false;
    return true;
}

/* Where what is made of constants stands. */
static void turn(laying *l, uint32_t node)
{
    uint32_t weight = td_ir_in(l->ir, node, WEIGHT), type = l->ir->values[weight].type;
    uint32_t maker = td_maker(l->ir, weight), first = l->ir->blocks[l->ir->functions[0].block].first;
    td_ir_to_before(l->e, maker == TD_IR_NONE ? first : l->ir->nodes[maker].next);
    td_ir_from_node(l->e, node);
    td_ir_mode_now(l->e, TD_RM_GRAD_OFF);
    uint32_t in[] = {weight, td_ir_none(l->e)};
    uint32_t made = td_ir_result(l->e, td_ir_op(l->e, TD_IR_TD | TD_OP_COPY_LAST, 2, in, 1, &type));
    td_ir_mode_now(l->e, 0);
    td_ir_set_in(l->e, node, WEIGHT, made);
}

/* ---- row by row */

static bool is_last(const laying *l, uint32_t value)
{
    return value < l->nvalues && l->last[value];
}

/* At the cursor. */
static uint32_t in_rows(laying *l, uint32_t value)
{
    uint32_t type = td_type_any_tensor(l->e), sizes = td_type_list(l->e, td_type_plain(l->e, TD_T_INT));
    uint32_t all[] = {value, td_ir_int(l->e, 0), td_ir_int(l->e, -1)};
    uint32_t flat = td_ir_result(l->e, td_ir_op(l->e, TD_IR_TD | TD_OP_FLATTEN, 3, all, 1, &type));
    uint32_t shape = td_ir_result(l->e, td_ir_op(l->e, TD_PRIM_SHAPE, 1, &value, 1, &sizes));
    return td_ir_result(l->e, td_ir_op(l->e, TD_IR_TD | TD_OP_VIEW, 2, (uint32_t[]){flat, shape}, 1, &type));
}

static void take_rows(laying *l, uint32_t node)
{
    for (uint32_t k = 0; k < l->ir->nodes[node].nin; k++) {
        uint32_t value = td_ir_in(l->ir, node, k);
        if (!is_last(l, value)) continue;
        td_ir_to_before(l->e, node);
        td_ir_from_node(l->e, node);
        td_ir_mode_now(l->e, l->ir->nodes[node].mode);
        value = in_rows(l, value);
        td_ir_mode_now(l->e, 0);
        if (!td_ir_failed(l->e)) td_ir_set_in(l->e, node, k, value);
    }
}

/* What a block returns. */
static void give_rows(laying *l, uint32_t block)
{
    uint32_t n = l->ir->blocks[block].nrets, *values = malloc((n + 1u) * sizeof *values);
    bool any = false;
    for (uint32_t k = 0; k < n && values; k++) values[k] = td_ir_return(l->ir, block, k);
    td_ir_to_end(l->e, block);
    for (uint32_t k = 0; k < n && values; k++) {
        if (!is_last(l, values[k])) continue;
        uint32_t was = values[k], rows = in_rows(l, was);
        for (uint32_t i = k; i < n; i++)
            if (values[i] == was) values[i] = rows;
        any = true;
    }
    if (any && !td_ir_failed(l->e)) td_ir_returns(l->e, block, n, values);
    free(values);
}

/* ---- node by node */

static bool takes_last(const laying *l, uint32_t node)
{
    for (uint32_t k = 0; k < l->ir->nodes[node].nin; k++)
        if (is_last(l, td_ir_in(l->ir, node, k))) return true;
    return false;
}

static void mark(laying *l, uint32_t node)
{
    for (uint32_t k = 0; k < l->ir->nodes[node].nout; k++) l->last[td_ir_out(l->ir, node, k)] = 1;
}

/* Does a result of it lie as what it takes does? Otherwise it lies row by row, whatever it takes. */
static bool follows(const td_op *op)
{
    return op->flags & (TD_OF_VIEW | TD_OF_POINTWISE | TD_OF_FORMAT) || op->compose || op->mutates;
}

static void lay_op(laying *l, uint32_t node)
{
    const td_op *op = td_ir_row(l->ir->nodes[node].op);
    bool inplace = l->ir->nodes[node].op & TD_IR_INPLACE, wide;
    bool turned = is_conv(l->ir, node) && has_weight(l->ir, node, &wide) && wide;
    if (is_strict(op)) take_rows(l, node);
    else if (turned || (takes_last(l, node) && (inplace || follows(op)))) mark(l, node);
    if (turned) turn(l, node);
}

/* A list that only ops take. */
static bool is_for_ops(const laying *l, uint32_t list)
{
    for (uint32_t use = td_ir_use_first(l->e, list); use != TD_IR_NONE; use = td_ir_use_next(l->e, use)) {
        uint32_t who = td_ir_user(l->e, use);
        if (who & TD_IR_PARAM || (l->ir->nodes[who].op & TD_IR_CLASS) != TD_IR_TD) return false;
    }
    return true;
}

static void lay_prim(laying *l, uint32_t node)
{
    bool list = td_is_op(l->ir, node, TD_PRIM_LISTCONSTRUCT);
    if (looks_only(l->ir->nodes[node].op) || !takes_last(l, node)) return;
    if (list && is_for_ops(l, td_ir_out(l->ir, node, 0))) mark(l, node);
    else take_rows(l, node);
}

static void lay_end(laying *l, uint32_t block)
{
    uint32_t owner = l->ir->blocks[block].owner;
    if (owner == TD_IR_NONE || l->ir->nodes[owner].op != TD_PRIM_IF) {
        give_rows(l, block);
        return;
    }
    for (uint32_t k = 0; k < l->ir->blocks[block].nrets; k++)
        if (is_last(l, td_ir_return(l->ir, block, k))) l->last[td_ir_out(l->ir, owner, k)] = 1;
}

bool td_pass_layouts(td_ir_edit *e, td_facts *f)
{
    laying l = {.e = e, .ir = td_ir_now(e), .nvalues = td_ir_now(e)->nvalues};
    if (!is_worth(l.ir) || !is_safe(f, e)) return false;
    if (td_ir_room(e) / ROOM < l.ir->nargs) return false; /* half a program laid so would be a wrong one */
    uint32_t began = l.ir->nnodes;
    if (!(l.last = calloc(l.nvalues + 1u, 1))) return false;
    for (td_ir_walk w = td_walk_of(l.ir, l.ir->functions[0].block); w.step != TD_STEP_OVER; td_walk_on(&w)) {
        if (td_ir_failed(e)) break;
        if (w.step == TD_STEP_END) lay_end(&l, w.block);
        if (w.step != TD_STEP_NODE || w.node >= began) continue;
        if ((l.ir->nodes[w.node].op & TD_IR_CLASS) == TD_IR_TD) lay_op(&l, w.node);
        else lay_prim(&l, w.node);
    }
    free(l.last);
    return true;
}
