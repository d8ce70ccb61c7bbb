/* Programs as bytes: the message Program of wire.proto, in frames and as program.pb in files.
 *
 * An op is named by id, hash and signature. Where the reader's row has another hash, the arguments are matched by name
 * to the signature of today: what was added since with a default is filled in, everything else is an error that names
 * the op and both signatures. */
#ifndef TENSORD_PROTO_PROGRAM_WIRE_H
#define TENSORD_PROTO_PROGRAM_WIRE_H

#include "proto/program/ir.h"

/* The bytes of a verified module, to be freed; NULL: there is no memory. */
uint8_t *td_ir_encode(const td_ir *ir, size_t *length, td_error *e);
/* The module that they say, verified (with its flags, verify.h) and sealed; NULL: TD_E_PROTOCOL when it is no such
 * message, TD_E_UNSUPPORTED for an op that is none here, what the verifier says. */
td_ir *td_ir_decode(const uint8_t *bytes, size_t length, unsigned flags, td_error *e);
/* The memory that this takes at most, with the module, to charge before. */
uint64_t td_ir_unpack_takes(size_t length);

/* The same of a message that is a part of another. */
struct Td__Wire__Program;
td_ir *td_ir_from_message(const struct Td__Wire__Program *m, unsigned flags, td_error *e);
/* Its arrays are the caller's to free, by td_ir_message_free. */
int td_ir_to_message(const td_ir *ir, struct Td__Wire__Program *m, td_error *e);
void td_ir_message_free(struct Td__Wire__Program *m);

#endif
