/* Do the rows of a program's inputs stay apart? Then requests may be joined: rows of several run together, and each
 * gets what it would have got alone.
 *
 * The program is gone through as it would run, with looks in place of tensors: each value is known to have a dimension
 * that counts rows, or to have none, and each op has a rule for what becomes of that dimension (rules.c). So the answer
 * holds for inputs of these looks, however many rows they have and whatever stands in them. It is "no" for an op
 * without a rule, for a branch or a loop that asks how many rows there are or what a tensor holds, for a write, and
 * for random numbers. Invariant: it reads sizes alone, takes at most `most` steps, and says why it said no. */
#ifndef TENSORD_PROTO_ROWS_ROWS_H
#define TENSORD_PROTO_ROWS_ROWS_H

#include "proto/program/ir.h"

enum { TD_ROWS_WHY = 160, TD_ROWS_STEPS = 1 << 14 };

typedef struct td_rows_question {
    const td_ir *ir;         /* that the verifier has passed */
    const td_desc *captured; /* how each of its captured tensors looks */
    int nin, nout;
    const td_desc *in;  /* how its inputs look, with any number of rows */
    const int *in_rows; /* the dimension that counts rows; -1: none, and equal for all that are joined */
    uint32_t most;      /* nodes of the program, and items of lists, that it may look at */
} td_rows_question;

/* True: `out_rows` says of each result which dimension counts rows; -1: none, it is one for all. False: `why` says what
 * stands against it. */
bool td_rows_stay_apart(const td_rows_question *q, int *out_rows, char why[TD_ROWS_WHY]);

#endif
