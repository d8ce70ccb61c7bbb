/* Through a module in the order in which it is run, without recursion: each block's nodes, and in a node its blocks. */
#ifndef TENSORD_PROTO_PASSES_WALK_H
#define TENSORD_PROTO_PASSES_WALK_H

#include "proto/program/ir.h"

typedef enum td_ir_step { TD_STEP_BLOCK, TD_STEP_NODE, TD_STEP_END, TD_STEP_OVER } td_ir_step;

typedef struct td_ir_walk {
    const td_ir *ir;
    uint32_t block, node; /* where it is; node: of TD_STEP_NODE */
    td_ir_step step;
    bool inside; /* false: do not go into the blocks of this node */
} td_ir_walk;

/* Of one function, by its block: the first step is TD_STEP_BLOCK. Of one that was dropped there is none. */
static inline td_ir_walk td_walk_of(const td_ir *ir, uint32_t block)
{
    return (td_ir_walk){ir, block, TD_IR_NONE, block == TD_IR_NONE ? TD_STEP_OVER : TD_STEP_BLOCK, true};
}

/* Blocks within begin behind TD_STEP_NODE of their owner and end by TD_STEP_END. */
static inline void td_walk_on(td_ir_walk *w)
{
    const td_ir *ir = w->ir;
    uint32_t next;
    if (w->step == TD_STEP_NODE && ir->nodes[w->node].nblocks && w->inside) {
        w->block = ir->nodes[w->node].child;
        w->step = TD_STEP_BLOCK;
        return;
    }
    if (w->step == TD_STEP_END) {
        uint32_t owner = ir->blocks[w->block].owner;
        if (owner == TD_IR_NONE) {
            w->step = TD_STEP_OVER;
            return;
        }
        if (w->block + 1 < ir->nodes[owner].child + ir->nodes[owner].nblocks) {
            w->block++;
            w->step = TD_STEP_BLOCK;
            return;
        }
        w->block = ir->nodes[owner].block;
        next = ir->nodes[owner].next;
    } else {
        next = w->step == TD_STEP_BLOCK ? ir->blocks[w->block].first : ir->nodes[w->node].next;
    }
    w->inside = true;
    w->node = next;
    w->step = next == TD_IR_NONE ? TD_STEP_END : TD_STEP_NODE;
}

#endif
