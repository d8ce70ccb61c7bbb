/* The commonest nodes on numbers, done in place: no call, no lists of arguments. For this room only.
 *
 * A loop over indices is made of these, and what each node costs beside its one addition was most of it. What is not so
 * simple (an int that does not fit, a division by zero, a value of another kind) is left to the node's function: that
 * says what is wrong. */
#ifndef TENSORD_DAEMON_GRAPH_QUICK_H
#define TENSORD_DAEMON_GRAPH_QUICK_H

#include "daemon/graph/value.h"
#include "proto/program/ir.h"

typedef struct td_quick {
    uint16_t prim; /* 0: it is no such node */
    uint8_t kind;  /* of a constant */
    uint32_t a, b, out;
    union {
        int64_t i;
        double re;
    };
} td_quick;

/* Which nodes of the module are such: one a node. */
void td_quick_find(const td_ir *ir, td_quick *out);
/* Do it. False: nothing was done, its function is to be called. */
bool td_quick_do(const td_quick *q, td_val *at);

#endif
