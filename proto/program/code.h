/* A program as a source in the subset of Python (client/script): for people, and for script() again where all of its
 * ops have a form there. Ops are written as `td.ops.NAME(...)`, which are the rows of the op table and nothing else.
 * Captured tensors are names from outside, said by comments at the head. */
#ifndef TENSORD_PROTO_PROGRAM_CODE_H
#define TENSORD_PROTO_PROGRAM_CODE_H

#include "proto/program/ir.h"

/* The source of a module that passed the verifier, its graph as `def forward(...)`, to be freed. NULL: there is no
 * memory, or it is too long. */
char *td_ir_code(const td_ir *ir, td_error *e);

#endif
