/* A program's module, and what is worked out of it; for this room only. */
#ifndef TENSORD_DAEMON_GRAPH_PROGRAM_H
#define TENSORD_DAEMON_GRAPH_PROGRAM_H

#include "daemon/graph/graph.h"
#include "daemon/graph/plan.h"
#include "daemon/graph/prims.h"
#include "daemon/graph/quick.h"

/* What is known of a module whatever it captures; programs that differ in that alone share it. Counted on the loop. */
typedef struct td_program_facts {
    uint32_t refs;
    td_ir *ir;
    /* Values that nobody uses after node n: dead[from[n]] up to dead[from[n + 1]]; after block b has returned: the same
     * at nnodes + b. */
    uint32_t *from, *dead;
    td_prim_fn **prims;    /* by node; NULL: it is no such */
    td_quick *quick;       /* by node */
    uint32_t most_returns; /* of a block */
    bool accumulates;      /* it has a backward that adds to .grad */
    uint8_t *packed;       /* the module as it came; NULL: it is not kept */
    size_t npacked;
} td_program_facts;

struct td_held_program {
    uint32_t refs;
    td_ir *ir; /* of the facts */
    td_program_facts *facts;
    td_account *account;
    uint64_t bytes;          /* charged: as if nothing were shared */
    uint64_t captured_bytes; /* of the tensors below */
    uint32_t listed;         /* the number of the last table that has counted it */
    td_program_end end;
    td_tensor **captured; /* ir->ncaptures of them */
    uint8_t *joins;       /* by node (plan.h) */
    td_spot **spots;      /* by node, where a row begins; linked from the newest on */
    td_spot *first_spot;
    uint32_t nplans;
    uint64_t plan_bytes, plan_objects; /* charged, too */
    uint32_t loops;                    /* of machine code, of all plans; they count for the account */
};

#endif
