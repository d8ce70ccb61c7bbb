/* A run of a program; for this room only. */
#ifndef TENSORD_DAEMON_GRAPH_RUN_H
#define TENSORD_DAEMON_GRAPH_RUN_H

#include "daemon/graph/plan.h"
#include "daemon/graph/prims.h"
#include "daemon/graph/program.h"

enum {                      /* of what a node does, beside the codes of errors and TD_WAIT_GROW */
       TD_EXEC_BEHIND = -5, /* r->behind says of what */
       TD_EXEC_SHAPED = -6, /* a call tells its result's shape later */
       TD_EXEC_BUSY = -7,   /* the issuer is woken when a tensor may be touched */
       TD_EXEC_PART = -8,   /* as TD_EXEC_SHAPED, of a part of the node: that is run again */
       TD_EXEC_MORE = -9    /* there is more of the node than one step does: that is run again */
};

enum { TD_EXEC_COST_OP = 16 }; /* of a tensor op, in units of a node that only moves numbers */

/* A block that is being run, for the node `owner` (TD_IR_NONE: the graph's). */
typedef struct td_run_frame {
    uint32_t block, owner;
    int64_t trip, trips; /* of a loop */
    td_grad_mode mode;   /* at least; of the run, and stricter where a call is */
} td_run_frame;

/* What an op that is made of others has made so far: kept when it has to wait, so that nothing is done twice. */
typedef struct td_parts {
    td_tensor **made;
    uint32_t *ends; /* of each call's results among them */
    uint32_t nmade, ncalls, room_made, room_calls;
} td_parts;

/* The text of a place: loops come by a few lines again and again. */
enum { TD_EXEC_PLACES = 4 };
typedef struct td_place_text {
    uint64_t next; /* one more than its source; 0: none's */
    char text[sizeof((td_issuer *)NULL)->where];
} td_place_text;

struct td_exec {
    td_held_program *program;
    const td_ir *ir;
    td_issuer *who;
    td_exec_env env;
    uint32_t mode; /* TD_RM_ */
    td_purse purse;
    uint64_t bytes; /* charged for the arrays below */
    td_val *at;     /* by value */
    td_run_frame *frames;
    uint32_t depth, room;
    uint32_t node;    /* next; TD_IR_NONE: its block returns */
    td_val *passed;   /* what a block returns, on its way */
    uint32_t npassed; /* after the end: the results */
    uint32_t moved;   /* values, by what was run since that was counted */
    td_parts parts;
    td_prim_kept kept;
    td_backward *backward; /* of the node that is run; its list of results is kept */
    td_planning *planning; /* what is recorded for a plan; NULL: nothing */
    char *said;            /* what it printed, charged to the purse */
    size_t nsaid, said_room;
    td_tensor **outs;     /* room for one call's results */
    int max_outs, issued, listed; /* issued: calls by the node that is run; listed: what these take and give */
    const td_storage *behind;
    char called_at[96]; /* the caller's place, ... */
    char caller[56];    /* ... and as it stands behind the program's */
    uint32_t file;      /* whose name is in file_text, as it may be shown; TD_IR_NONE: none's */
    char file_text[80];
    uint32_t source;                         /* that who->where was made of */
    td_place_text places[TD_EXEC_PLACES];    /* by source */
    uint32_t dropped;                        /* values */
    bool over, lacks, shaping, gone, silent; /* silent: there is no room for more that it says */
    bool differentiated, told; /* the backward is only to be let go of; td_exec_unpinned() was asked of it */
};

/* op.c: a tensor op. 0, an error, or a TD_EXEC_. */
int td_exec_op(td_exec *r, uint32_t node, td_need *need, td_error *e);
/* May it be read, or written, and is what is in it what should be? */
int td_exec_may_use(const td_exec *r, const td_tensor *t, bool write, td_error *e);
/* gradient.c: a node that is a backward; as td_exec_op. */
bool td_exec_differentiates(uint32_t op);
int td_exec_differentiate(td_exec *r, uint32_t node, int *cost, td_need *need, td_error *e);
/* What is issued from now on says where it comes from. */
void td_exec_set_place(td_exec *r, uint32_t node);
void td_parts_drop(td_parts *p);
void td_parts_free(td_parts *p);
/* run.c: a line that it prints, for whoever called it. */
int td_exec_say(td_exec *r, const char *text, size_t n, td_error *e);
/* read.c: the one element of a tensor, once everything pending on it has ended. */
int td_exec_item(td_exec *r, td_tensor *t, td_scalar *out, td_error *e);

/* run.c: the program's line and the caller's: "model.py:31, called at serve.py:9". */
void td_exec_place(td_exec *r, uint32_t node, char *out, size_t size);
/* The program's alone: "model.py:31", or "". Its length. */
size_t td_exec_line(td_exec *r, uint32_t node, char *out, size_t size);

/* The stricter of the block's, where the run is, and the node's. */
static inline td_grad_mode td_exec_mode(const td_exec *r, uint32_t node)
{
    td_grad_mode own = td_grad_mode_of(r->ir->nodes[node].mode), around = r->frames[r->depth - 1].mode;
    return own > around ? own : around;
}
static inline td_val *td_exec_in(const td_exec *r, uint32_t node, uint32_t k)
{
    return &r->at[td_ir_in(r->ir, node, k)];
}
static inline td_val *td_exec_out(const td_exec *r, uint32_t node, uint32_t k)
{
    return &r->at[td_ir_out(r->ir, node, k)];
}

#endif
