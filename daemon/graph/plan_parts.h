/* What a plan is, and what is recorded for one; for plan.c and plan_record.c only. */
#ifndef TENSORD_DAEMON_GRAPH_PLAN_PARTS_H
#define TENSORD_DAEMON_GRAPH_PLAN_PARTS_H

#include "daemon/graph/run.h"
#include "daemon/ops/fused.h"
#include "proto/ops/look.h"

enum {
    TD_PLAN_WORDS = 1024, /* of its arguments' looks, at most */
    TD_PLAN_SLACK = 4,    /* behind them: room is asked for before it is known what comes */
    TD_PLAN_ENDS = 256,   /* tensors that come in; values that go out */
    TD_SPOT_PLANS = 4
};

typedef struct td_plan_result {
    uint32_t value;
    td_val number; /* None: it is the fused call's next tensor */
} td_plan_result;

typedef struct td_plan {
    td_fused *fused;
    uint32_t end; /* the node behind; TD_IR_NONE: the block ends */
    uint32_t narguments, nwords, nresults, ndrops, ninputs;
    bool shares;         /* the look says what lies in one memory */
    uint32_t *arguments; /* values */
    uint64_t *words;
    td_plan_result *results;
    uint32_t *drops; /* values that nobody uses behind it */
    uint64_t bytes;
} td_plan;

struct td_spot {
    td_spot *next;
    uint32_t stop; /* a row from here ends before this node */
    uint32_t misses, recorded;
    uint32_t nplans;
    td_plan *plans[TD_SPOT_PLANS];
};

struct td_planning {
    td_spot *spot;
    td_recording *recording;
    uint32_t start, block;
    int depth; /* of frames: where it is above, the run is in an arm of a branch of the row */
    uint32_t narguments, ninputs;
    uint32_t arguments[TD_PLAN_ENDS];
    td_tensor *tensors[TD_PLAN_ENDS]; /* the recording holds them */
    bool twins;                       /* one of them comes twice */
    uint64_t words[TD_PLAN_WORDS];
    td_looking look;
};

/* ---- how arguments look, and which tensors they are */

typedef struct td_taking {
    td_looking *look;
    td_tensor **tensors;
    uint32_t n;
    bool graded;  /* what requires a gradient is refused */
    bool refused; /* something was */
} td_taking;

/* A value more; `item`: of a list. False: it looks otherwise, or cannot be an argument. */
bool td_plan_take(td_taking *t, const td_val *v, bool item);
/* Behind all values: which tensors are one, or lie in one memory, and how far from each other. False: as td_plan_take.
 */
bool td_plan_share(td_looking *l, uint32_t n, td_tensor *const *t);
/* Does what is run here record gradients? */
bool td_plan_graded(const td_exec *r);

/* Charged with its program, which takes so much at most. */
bool td_plan_charge(td_held_program *g, uint64_t bytes);
void td_plan_pay_back(td_held_program *g, uint64_t bytes);
/* Loops of machine code that plans have; how many another plan may have. */
void td_plan_count_loops(td_held_program *g, int more);
uint32_t td_plan_loops_left(const td_held_program *g);
void td_plan_free(td_plan *p);

/* plan_record.c */
/* Record from r->node on. */
void td_plan_begin(td_exec *r, td_spot *s);
/* What a node takes from before the row; nothing may be recorded any more after this. */
void td_plan_arguments(td_exec *r, uint32_t node);
/* What is recorded ends before this node. In an arm of a branch nothing may end: then nothing comes of it, and the next
 * row from there ends before the branch. */
void td_plan_finish(td_exec *r, uint32_t end);

#endif
