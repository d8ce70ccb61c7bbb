/* Subscripts by tensors that may be places. `x[k]` by a whole number without dimensions is a view, which its value has
 * to be waited for; by any other index it is a copy, for which nothing is waited. Which one it is shows when it runs,
 * and only to who writes one of the two while the other is used: a program that writes nothing, and only computes with
 * what it took, is given the copy. */
#include "client/script/lower.h"

void td_low_begin_place(td_lower *l, td_branch *b, uint32_t node, uint32_t condition)
{
    td_low_at(l, node);
    td_low_if(l, b, condition, node);
    td_script_room(l->f, &l->places, l->nplaces, 1, &l->place_room, sizeof *l->places);
    l->places[l->nplaces++] = b->node;
}

/* Does it write a tensor, or what is reached from one? */
static bool writes(const td_ir_node *n)
{
    const td_op *row = td_ir_row(n->op);
    if (row) return n->op & TD_IR_INPLACE || row->mutates;
    return n->op == TD_PRIM_BACKWARD || n->op == TD_PRIM_SET_GRAD;
}

static bool any_writes(const td_ir *ir)
{
    bool any = false;
    for (uint32_t k = 0; k < ir->nnodes && !any; k++) any = ir->nodes[k].block != TD_IR_NONE && writes(&ir->nodes[k]);
    return any;
}

/* Does it take nothing but the values of a tensor, or what that looks like? */
static bool computes(const td_ir_node *n)
{
    const td_op *row = td_ir_row(n->op);
    if (row) return !(row->flags & TD_OF_VIEW);
    return n->op == TD_PRIM_SHAPE || n->op == TD_PRIM_SIZE_DIM || n->op == TD_PRIM_NDIM || n->op == TD_PRIM_NUMEL ||
           n->op == TD_PRIM_DTYPE || n->op == TD_PRIM_DEVICE ||
           (n->op >= TD_PRIM_ITEM_INT && n->op <= TD_PRIM_ITEM_COMPLEX);
}

static bool only_computed_with(const td_lower *l, uint32_t value)
{
    bool only = true;
    for (uint32_t u = td_ir_use_first(l->e, value); u != TD_IR_NONE && only; u = td_ir_use_next(l->e, u)) {
        uint32_t user = td_ir_user(l->e, u);
        only = !(user & TD_IR_PARAM) && computes(&td_ir_now(l->e)->nodes[user]);
    }
    return only;
}

/* What the second arm gives, without the If. */
static void take_copy(td_lower *l, uint32_t node)
{
    uint32_t made = TD_IR_NONE;
    td_ir_to_before(l->e, node);
    td_ir_clone(l->e, td_ir_child(l->e, node, 1), NULL, &made);
    td_ir_replace(l->e, td_ir_out(td_ir_now(l->e), node, 0), td_low_made(l, made));
    td_ir_erase(l->e, node);
}

void td_low_settle_places(td_lower *l)
{
    if (!l->nplaces || any_writes(td_ir_now(l->e))) return;
    for (uint32_t k = 0; k < l->nplaces; k++) {
        const td_ir_node *n = &td_ir_now(l->e)->nodes[l->places[k]];
        if (n->block != TD_IR_NONE && n->nout == 1 &&
            only_computed_with(l, td_ir_out(td_ir_now(l->e), l->places[k], 0)))
            take_copy(l, l->places[k]);
    }
}
