/* Ops of a program that was written by another release, by their signatures. */
#ifndef TENSORD_PROTO_PROGRAM_UPGRADE_H
#define TENSORD_PROTO_PROGRAM_UPGRADE_H

#include "proto/program/edit.h"

#define TD_MAX_ARGUMENTS (TD_MAX_PARAMS + TD_MAX_ATTRS)

/* For each argument of today's signature: the argument of the old one, or -1: its default. */
typedef struct td_upgrade {
    const td_op *op;
    bool needed; /* the hashes differ */
    uint8_t nold, n;
    int8_t from[TD_MAX_ARGUMENTS];
} td_upgrade;

/* How calls of an op with this signature ("name(x:T, ...) -> T") become calls of today's. Fails: TD_E_UNSUPPORTED. */
int td_upgrade_plan(td_upgrade *u, const td_op *op, const char *old, td_error *e);
/* The arguments of one call: those it has, and constants (made at the cursor) for the rest. */
void td_upgrade_call(const td_upgrade *u, td_ir_edit *e, const uint32_t *old, uint32_t *now);

#endif
