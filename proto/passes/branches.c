/* 4, branches: an If whose condition is known becomes its arm, a Loop of no trip or of one its body; what both arms of
 * an If begin with, or return, is done or had once. */
#include "proto/passes/facts.h"
#include "proto/passes/passes.h"

/* Nodes of a block go before `node`, which is outside of it. */
static bool move_out(td_ir_edit *e, uint32_t block, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    bool any = ir->blocks[block].first != TD_IR_NONE;
    td_ir_to_before(e, node);
    while (ir->blocks[block].first != TD_IR_NONE) td_ir_move(e, ir->blocks[block].first);
    return any;
}

static bool nobody_uses(const td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    for (uint32_t k = 0; k < ir->nodes[node].nout; k++)
        if (td_ir_uses(e, td_ir_out(ir, node, k))) return false;
    return true;
}

/* ---- If */

/* Where somebody cannot use what the arm returns, since its type is narrower, the If stays for it. */
static bool take_arm(td_ir_edit *e, uint32_t node, uint32_t arm)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t block = ir->nodes[node].child + arm;
    bool changed = move_out(e, block, node);
    for (uint32_t k = 0; k < ir->nodes[node].nout; k++)
        changed |= td_put_instead(e, td_ir_out(ir, node, k), td_ir_return(ir, block, k));
    if (!nobody_uses(e, node)) return changed;
    td_ir_erase(e, node);
    return true;
}

static bool may_fail(const td_ir_node *n)
{
    return (n->op & TD_IR_CLASS) != TD_IR_PRIM || td_prim_by_id(n->op)->flags & TD_PRF_RAISES;
}

/* Before the If it is done as before, whatever it does; but when it fails, it is to be told in which arm. */
static bool alike(const td_ir *ir, uint32_t a, uint32_t b)
{
    const td_ir_node *x = &ir->nodes[a], *y = &ir->nodes[b];
    return (x->source == y->source || !may_fail(x)) && td_alike(ir, a, b);
}

static bool hoist_beginning(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t arms = ir->nodes[node].child, a, b;
    bool changed = false;
    while ((a = ir->blocks[arms].first) != TD_IR_NONE && (b = ir->blocks[arms + 1].first) != TD_IR_NONE &&
           alike(ir, a, b)) {
        td_ir_to_before(e, node);
        td_ir_move(e, a);
        for (uint32_t k = 0; k < ir->nodes[a].nout; k++) td_ir_replace(e, td_ir_out(ir, b, k), td_ir_out(ir, a, k));
        td_ir_erase(e, b);
        changed = true;
    }
    return changed;
}

static bool simplify_if(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    td_literal condition;
    if (td_constant(ir, td_ir_in(ir, node, 0), &condition) && condition.kind == TD_L_BOOL)
        return take_arm(e, node, !condition.small);
    bool changed = hoist_beginning(e, node);
    uint32_t arms = ir->nodes[node].child;
    for (uint32_t k = 0; k < ir->nodes[node].nout; k++)
        if (td_ir_return(ir, arms, k) == td_ir_return(ir, arms + 1, k))
            changed |= td_put_instead(e, td_ir_out(ir, node, k), td_ir_return(ir, arms, k));
    return changed;
}

/* ---- Loop */

static bool no_trip(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    bool changed = false;
    for (uint32_t k = 0; k < ir->nodes[node].nout; k++)
        changed |= td_put_instead(e, td_ir_out(ir, node, k), td_ir_in(ir, node, k + 2));
    if (!nobody_uses(e, node)) return changed;
    td_ir_erase(e, node);
    return true;
}

static bool one_trip(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t body = ir->nodes[node].child, n = ir->nodes[node].nout;
    for (uint32_t k = 0; k < n; k++)
        if (!td_may_stand(e, td_ir_param(ir, body, k + 1), td_ir_in(ir, node, k + 2)) ||
            !td_may_stand(e, td_ir_out(ir, node, k), td_ir_return(ir, body, k + 1)))
            return false;
    td_ir_to_before(e, node);
    td_ir_from_node(e, node);
    if (td_ir_uses(e, td_ir_param(ir, body, 0))) {
        if (!td_ir_room(e)) return false;
        td_ir_replace(e, td_ir_param(ir, body, 0), td_ir_int(e, 0));
    }
    for (uint32_t k = 0; k < n; k++) td_ir_replace(e, td_ir_param(ir, body, k + 1), td_ir_in(ir, node, k + 2));
    move_out(e, body, node);
    for (uint32_t k = 0; k < n; k++) td_ir_replace(e, td_ir_out(ir, node, k), td_ir_return(ir, body, k + 1));
    if (!td_ir_failed(e)) td_ir_erase(e, node);
    return true;
}

/* The condition that the body returns is asked for only where another trip is left. */
static bool simplify_loop(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    td_literal condition;
    int64_t trips = 2;
    bool known = td_constant(ir, td_ir_in(ir, node, 1), &condition) && condition.kind == TD_L_BOOL;
    bool counted = td_constant_int(ir, td_ir_in(ir, node, 0), &trips);
    if ((known && !condition.small) || (counted && trips <= 0)) return no_trip(e, node);
    return known && counted && trips == 1 && one_trip(e, node);
}

/* What is moved out of a block is looked at when its turn comes: each number once. */
bool td_pass_branches(td_ir_edit *e, td_facts *f)
{
    const td_ir *ir = td_ir_now(e);
    bool changed = false;
    (void)f;
    for (uint32_t n = 0; n < ir->nnodes && !td_ir_failed(e); n++) {
        if (ir->nodes[n].block == TD_IR_NONE) continue;
        if (ir->nodes[n].op == TD_PRIM_IF) changed |= simplify_if(e, n);
        else if (ir->nodes[n].op == TD_PRIM_LOOP) changed |= simplify_loop(e, n);
    }
    if (changed) td_number_random(e);
    return changed;
}
