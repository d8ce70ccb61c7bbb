/* What a program does beside tensor ops, one function each; proto/program/prim.toml says what they mean. For this room
 * only. */
#ifndef TENSORD_DAEMON_GRAPH_PRIMS_H
#define TENSORD_DAEMON_GRAPH_PRIMS_H

#include "daemon/graph/value.h"
#include "proto/program/prim.h"

/* How far a node has come that takes more than a step. None and 0 at its first call. */
typedef struct td_prim_kept {
    td_val made;
    uint64_t at;
} td_prim_kept;

/* A call. Arguments are borrowed, and of the types of the signature: the verifier has seen to that of the program, and
 * what came from outside was checked. Results are None at the start; after a failure they are dropped by the caller. */
typedef struct td_prim_call {
    td_purse *purse;
    struct td_exec *run;
    uint32_t node;
    const td_val *const *in;
    td_val *out;
    uint32_t nin, nout;
    td_error *e;
    uint32_t work;      /* what it did beyond its arguments' size, as td_val_size counts */
    td_prim_kept *kept; /* of calls for the same node that gave TD_EXEC_MORE before this one */
} td_prim_call;

/* 0, an error's code, that it has to wait or that there is more of it (run.h): then it is called again. */
typedef int td_prim_fn(td_prim_call *c);

/* It gives this. */
static inline int td_prim_int(td_prim_call *c, int64_t v)
{
    c->out[0] = td_val_int(v);
    return TD_OK;
}
static inline int td_prim_float(td_prim_call *c, double v)
{
    c->out[0] = td_val_float(v);
    return TD_OK;
}
static inline int td_prim_bool(td_prim_call *c, bool v)
{
    c->out[0] = td_val_bool(v);
    return TD_OK;
}

/* By number; NULL where it is another family's. */
extern td_prim_fn *const td_prims_basic[TD_PRIM_COUNT];    /* constants, lists and tuples as such, None, ends */
extern td_prim_fn *const td_prims_number[TD_PRIM_COUNT];   /* numbers, and comparisons of all that can be compared */
extern td_prim_fn *const td_prims_parse[TD_PRIM_COUNT];    /* numbers that texts say */
extern td_prim_fn *const td_prims_list[TD_PRIM_COUNT];     /* what is done to lists */
extern td_prim_fn *const td_prims_look[TD_PRIM_COUNT];     /* lists whose items are compared */
extern td_prim_fn *const td_prims_dict[TD_PRIM_COUNT];     /* what is done to dicts */
extern td_prim_fn *const td_prims_text[TD_PRIM_COUNT];     /* what is done to texts, and how values look as such */
extern td_prim_fn *const td_prims_format[TD_PRIM_COUNT];   /* values as texts of a width */
extern td_prim_fn *const td_prims_tensor[TD_PRIM_COUNT];   /* what tensors are, and what is in them */
extern td_prim_fn *const td_prims_gradient[TD_PRIM_COUNT]; /* backwards, and what hangs on tensors */

static inline td_prim_fn *td_prim_function(uint32_t prim)
{
    td_prim_fn *const *const families[] = {td_prims_basic,  td_prims_number,  td_prims_parse, td_prims_list,
                                           td_prims_look,   td_prims_dict,    td_prims_text,  td_prims_format,
                                           td_prims_tensor, td_prims_gradient};
    for (unsigned k = 0; k < sizeof families / sizeof families[0]; k++)
        if (families[k][prim]) return families[k][prim];
    return NULL;
}

/* prim_list.c: arguments 1 to 3 as the start, end and step of a slice of n items: it has *count from *from on. */
int td_prim_slice(td_prim_call *c, int64_t n, int64_t *from, int64_t *count, int64_t *step);

/* prim_text.c: the shortest digits that read back as the number, laid out as Python does. */
void td_prim_float_text(double v, bool part, char *out, size_t size);
td_prim_fn td_prim_str;

#endif
