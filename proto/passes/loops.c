/* 8, loops: constants go in front; a counted loop of few trips becomes its trips; any other whose body is small, a loop
 * of eight trips in one and then the rest. Counted is a loop whose condition is known to hold.
 *
 * Eight at a time is done once and at the end (td_pass_eights), so that what it makes is left as it is. */
#include "proto/passes/facts.h"
#include "proto/passes/passes.h"

#include <stdlib.h>

enum {
    MOST_TRIPS = 63,  /* of a loop that goes as a whole, ... */
    MOST_NODES = 512, /* ... and what it becomes */
    EIGHT = 8,
    SMALL = 32 /* nodes of a body, that of eight trips in one has fewer */
};

/* With all that is in its blocks; more than `most` are not counted. */
static uint32_t nodes_in(const td_ir *ir, uint32_t block, uint32_t most)
{
    uint32_t n = 0;
    for (td_ir_walk w = td_walk_of(ir, block); !(w.step == TD_STEP_END && w.block == block) && n <= most;
         td_walk_on(&w))
        n += w.step == TD_STEP_NODE;
    return n;
}

static bool counted(const td_ir *ir, uint32_t loop)
{
    return td_is_true(ir, td_ir_in(ir, loop, 1)) && td_is_true(ir, td_ir_return(ir, ir->nodes[loop].child, 0));
}

/* What begins, what a trip leaves, and what comes out may each stand where the next one is taken. */
static bool types_agree(const td_ir_edit *e, uint32_t loop)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t body = ir->nodes[loop].child;
    for (uint32_t k = 0; k < ir->nodes[loop].nout; k++) {
        uint32_t param = td_ir_param(ir, body, k + 1), next = td_ir_return(ir, body, k + 1);
        if (!td_may_stand(e, param, td_ir_in(ir, loop, k + 2)) || !td_may_stand(e, param, next) ||
            !td_may_stand(e, td_ir_out(ir, loop, k), next))
            return false;
    }
    return true;
}

/* One trip at the cursor: values[0] is its number, the others what is carried, which the trip replaces. */
static void one_trip(td_ir_edit *e, uint32_t body, uint32_t *values, uint32_t *returns)
{
    uint32_t n = td_ir_now(e)->blocks[body].nrets;
    td_ir_clone(e, body, values, returns);
    if (!td_ir_failed(e)) memcpy(values + 1, returns + 1, (n - 1) * sizeof *values);
}

/* ---- as a whole */

static bool unroll(td_ir_edit *e, uint32_t loop, uint32_t trips)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t body = ir->nodes[loop].child, n = ir->nodes[loop].nout;
    uint32_t *values = malloc(2 * (n + 1u) * sizeof *values);
    if (!values) return false;
    bool numbered = td_ir_uses(e, td_ir_param(ir, body, 0)) > 0;
    for (uint32_t k = 0; k < n; k++) values[k + 1] = td_ir_in(ir, loop, k + 2);
    td_ir_to_before(e, loop);
    td_ir_from_node(e, loop);
    values[0] = td_ir_in(ir, loop, 0); /* nobody looks at it */
    for (uint32_t trip = 0; trip < trips; trip++) {
        if (numbered) values[0] = td_ir_int(e, trip);
        one_trip(e, body, values, values + n + 1);
    }
    for (uint32_t k = 0; k < n; k++) td_ir_replace(e, td_ir_out(ir, loop, k), values[k + 1]);
    if (!td_ir_failed(e)) td_ir_erase(e, loop);
    free(values);
    return true;
}

static bool few_trips(td_ir_edit *e, uint32_t loop)
{
    const td_ir *ir = td_ir_now(e);
    int64_t trips;
    if (!counted(ir, loop) || !td_constant_int(ir, td_ir_in(ir, loop, 0), &trips) || trips < 1 || trips > MOST_TRIPS)
        return false;
    uint32_t n = nodes_in(ir, ir->nodes[loop].child, MOST_NODES), all = (uint32_t)trips * n;
    if (all > MOST_NODES || all + (uint32_t)trips > td_ir_room(e) || !types_agree(e, loop)) return false;
    return unroll(e, loop, (uint32_t)trips);
}

/* A program that is large stays as it is: what grows out of a limit would be dropped with all that passes did. */
static bool large(const td_ir_edit *e)
{
    return td_ir_room(e) < TD_IR_MAX_GROWN - TD_IR_MAX_NODES / 2;
}

/* Loops within come later in the list of nodes, and go first. */
static bool each_loop(td_ir_edit *e, bool (*change)(td_ir_edit *e, uint32_t loop))
{
    const td_ir *ir = td_ir_now(e);
    bool changed = false;
    for (uint32_t n = ir->nnodes; n-- > 0 && !td_ir_failed(e) && !large(e);)
        if (ir->nodes[n].block != TD_IR_NONE && ir->nodes[n].op == TD_PRIM_LOOP) changed |= change(e, n);
    if (changed) td_number_random(e);
    return changed;
}

/* In front of all loops that it stands in. A list is new in each trip, and stays. */
static bool lift(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t outer = TD_IR_NONE, owner = ir->blocks[ir->nodes[node].block].owner;
    if (td_type_kind_of(ir, ir->values[td_ir_out(ir, node, 0)].type) == TD_T_LIST) return false;
    for (; owner != TD_IR_NONE; owner = ir->blocks[ir->nodes[owner].block].owner)
        if (ir->nodes[owner].op == TD_PRIM_LOOP) outer = owner;
    if (outer == TD_IR_NONE) return false;
    td_ir_to_before(e, outer);
    td_ir_move(e, node);
    return true;
}

bool td_pass_loops(td_ir_edit *e, td_facts *f)
{
    const td_ir *ir = td_ir_now(e);
    bool changed = false;
    (void)f;
    for (uint32_t n = 0; n < ir->nnodes; n++)
        if (ir->nodes[n].block != TD_IR_NONE && ir->nodes[n].op == TD_PRIM_CONSTANT) changed |= lift(e, n);
    return each_loop(e, few_trips) || changed;
}

/* ---- eight trips in one */

static uint32_t number(td_ir_edit *e, uint32_t op, uint32_t a, uint32_t b)
{
    uint32_t type = td_type_plain(e, TD_T_INT);
    return td_ir_result(e, td_ir_op(e, op, 2, (uint32_t[]){a, b}, 1, &type));
}

/* The loop of eight trips in one, before `loop`, which begins where it ends. values: of a trip, and what it returns. */
static void eights(td_ir_edit *e, uint32_t loop, uint32_t times, uint32_t eight, uint32_t *values)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t body = ir->nodes[loop].child, n = ir->nodes[loop].nout, yes = td_ir_in(ir, loop, 1), offsets[EIGHT];
    bool numbered = td_ir_uses(e, td_ir_param(ir, body, 0)) > 0;
    for (uint32_t trip = 1; trip < EIGHT && numbered; trip++) offsets[trip] = td_ir_int(e, trip);
    uint32_t more = td_ir_loop(e, times, yes);
    for (uint32_t k = 0; k < n; k++)
        values[k + 1] =
            td_ir_carry(e, more, td_ir_in(ir, loop, k + 2), ir->values[td_ir_param(ir, body, k + 1)].type, NULL);
    if (td_ir_failed(e)) return;
    uint32_t inner = td_ir_child(e, more, 0), first = td_ir_param(ir, inner, 0);
    td_ir_to_end(e, inner);
    if (numbered) first = number(e, TD_PRIM_MUL_INT, first, eight);
    for (uint32_t trip = 0; trip < EIGHT; trip++) {
        values[0] = numbered && trip ? number(e, TD_PRIM_ADD_INT, first, offsets[trip]) : first;
        one_trip(e, body, values, values + n + 1);
    }
    values[0] = yes;
    td_ir_returns(e, inner, n + 1, values);
    for (uint32_t k = 0; k < n; k++) td_ir_set_in(e, loop, k + 2, td_ir_out(ir, more, k));
}

/* What is left to do begins at trip `done`. */
static void rest(td_ir_edit *e, uint32_t loop, uint32_t left, uint32_t done)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t body = ir->nodes[loop].child, trip = td_ir_param(ir, body, 0);
    td_ir_set_in(e, loop, 0, left);
    if (!td_ir_uses(e, trip) || ir->blocks[body].first == TD_IR_NONE) return;
    td_ir_to_before(e, ir->blocks[body].first);
    uint32_t one = number(e, TD_PRIM_ADD_INT, done, done); /* done + trip, once that is what others use of it */
    td_ir_replace(e, trip, one);
    if (!td_ir_failed(e)) td_ir_set_in(e, td_maker(ir, one), 1, trip);
}

static bool by_eight(td_ir_edit *e, uint32_t loop)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t body = ir->nodes[loop].child, n = nodes_in(ir, body, SMALL);
    int64_t trips = INT64_MAX;
    if (n >= SMALL || !n || !counted(ir, loop) || !types_agree(e, loop)) return false;
    if (td_constant_int(ir, td_ir_in(ir, loop, 0), &trips) && trips < EIGHT) return false;
    if (td_ir_room(e) < EIGHT * (n + 2) + 24) return false;
    uint32_t *values = malloc(2 * (ir->nodes[loop].nout + 1u) * sizeof *values);
    if (!values) return false;
    td_ir_to_before(e, loop);
    td_ir_from_node(e, loop);
    uint32_t zero = td_ir_int(e, 0), eight = td_ir_int(e, EIGHT);
    uint32_t all = number(e, TD_PRIM_MAX_INT, td_ir_in(ir, loop, 0), zero);
    uint32_t times = number(e, TD_PRIM_FLOORDIV_INT, all, eight), done = number(e, TD_PRIM_MUL_INT, times, eight);
    uint32_t left = number(e, TD_PRIM_SUB_INT, all, done);
    eights(e, loop, times, eight, values);
    if (!td_ir_failed(e)) rest(e, loop, left, done);
    free(values);
    return true;
}

bool td_pass_eights(td_ir_edit *e, td_facts *f)
{
    (void)f;
    return each_loop(e, by_eight);
}
