/* Plans: what a row of small nodes came to once, to be run as one call when their arguments look the same again. For
 * this room only. */
#ifndef TENSORD_DAEMON_GRAPH_PLAN_H
#define TENSORD_DAEMON_GRAPH_PLAN_H

#include "daemon/ops/ops.h"
#include "proto/program/ir.h"
#include <stdio.h>

typedef struct td_exec td_exec;
/* Of a node (td_held_program.joins). */
enum {
    TD_JOINS = 1, /* it may be one of such a row */
    TD_STARTS = 2 /* a row may begin with it */
};

typedef struct td_held_program td_held_program;
typedef struct td_spot td_spot;
typedef struct td_planning td_planning;

/* What may be planned of a module. Any thread. */
void td_plan_find(const td_ir *ir, uint8_t *joins);
/* Any thread, when no run can come any more. */
void td_spots_free(td_spot *first);
/* plan_tell.c: for people, what the plans are and why they end; what is in none, and why. */
void td_spots_tell(const td_held_program *p, FILE *out);
/* Why no row has this node; NULL: it may be in one. */
const char *td_plan_why_not(const td_ir *ir, uint32_t node);

/* Before r->node is run: the plan that begins there and fits is run in its place (*ran), or nodes are recorded from
 * here on. Errors, and what it has to wait for, as of an op. */
int td_plan_before(td_exec *r, bool *ran, int *cost, td_need *need, td_error *e);
/* While something is recorded (r->planning): a call of a node was prepared, and is about to be issued. */
void td_plan_saw(td_exec *r, uint32_t node, const td_call *c);
/* The node was run. */
void td_plan_after(td_exec *r, uint32_t node);
/* Its block ends here: so does what is recorded. */
void td_plan_end(td_exec *r);
/* No plan comes of what is recorded. */
void td_planning_drop(td_exec *r);

#endif
