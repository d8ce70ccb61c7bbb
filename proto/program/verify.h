/* Does a module make sense? Of what passed, an interpreter and passes may rely on every index, on definitions before
 * uses, and on the kinds of arguments and results; of tensors only that they are tensors (not on dtypes, sizes or
 * devices).
 *
 * The arrays may hold anything, as long as they are as long as they say. Time is linear in them, nothing recurses
 * deeper than types are large. */
#ifndef TENSORD_PROTO_PROGRAM_VERIFY_H
#define TENSORD_PROTO_PROGRAM_VERIFY_H

#include "proto/program/ir.h"

enum {                     /* flags */
       TD_VERIFY_ATEN = 1, /* aten:: ops may be there: the program is still to be lowered */
       TD_VERIFY_GROWN = 2 /* as many nodes as passes may make */
};

/* TD_E_QUOTA: a limit; TD_E_INVALID: everything else. The message names the node, its op and its source. */
int td_ir_verify(const td_ir *ir, unsigned flags, td_error *e);

/* The prim:: op of a name (without its overload, as "add"; or "add.int") whose signature takes values of these types:
 * for front ends. NULL: none does. */
const struct td_prim *td_prim_pick(const td_ir *ir, const char *name, uint32_t nin, const uint32_t *types);

#endif
