/* Programs as texts, in TorchScript's form (the README has the grammar): parse after print is the identity, sources
 * included. */
#ifndef TENSORD_PROTO_PROGRAM_TEXT_H
#define TENSORD_PROTO_PROGRAM_TEXT_H

#include "proto/program/ir.h"

#define TD_IR_TEXT (1 << 26)            /* most bytes of a text */
#define TD_IR_PRINTED ((size_t)1 << 29) /* and of one that is printed */
#define TD_IR_DEPTH 200                 /* most that a reader nests */

/* The text of a module that passed the verifier, to be freed; NULL: there is no memory. */
char *td_ir_print(const td_ir *ir, td_error *e);
/* Only of a type: into `out`, cut to `size`; returns out. */
const char *td_type_text(const td_ir *ir, uint32_t type, char *out, size_t size);
/* "td::mul", "prim::add.int", "fn::step". */
const char *td_ir_op_text(const td_ir *ir, uint32_t op, char *out, size_t size);

/* The module that a text says, sealed; it is for the verifier to say whether it makes sense. NULL: TD_E_INVALID, with
 * line, column, and the line with a caret. */
td_ir *td_ir_read(const char *text, size_t length, td_error *e);

#endif
