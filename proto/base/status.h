/* How functions fail: they return a td_code (0 is success) and, when the caller passed one, fill a td_error.
 *
 * The message is owned by the caller, says what was wrong and what to do, and names the thing. Nothing here
 * allocates. Conditions that a client can cause are errors; programming errors are assertions. */
#ifndef TENSORD_PROTO_BASE_STATUS_H
#define TENSORD_PROTO_BASE_STATUS_H

#include "proto/types.h"
#include <string.h>

/* Fill `e` (may be NULL) and return `code`, so that `return td_fail(e, TD_E_SHAPE, "...")` reads as one step.
 * Keeps e->op and e->where. */
int td_fail(td_error *e, td_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same with ": <strerror(err)>" appended; the code is TD_E_SYSTEM. */
int td_fail_errno(td_error *e, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* This process has no memory of its own for something (malloc gave none): TD_E_SYSTEM. The message is "no memory ",
 * then `format`, which says for what. Never TD_E_MEMORY: that is the memory which tensors lie in and kernels work with,
 * of which there is more when somebody frees some, and which is therefore waited for. */
int td_no_memory(td_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Was it said already? By what a program sees of it. */
static inline bool td_error_same(const td_error *a, const td_error *b)
{
    return a->code == b->code && strcmp(a->where, b->where) == 0 && strcmp(a->message, b->message) == 0;
}
/* No error. Half a kilobyte need not be zeroed for that. */
static inline void td_error_clear(td_error *e)
{
    e->code = 0;
    e->op[0] = e->where[0] = e->message[0] = 0;
}

/* "shape", "out of memory", ...: the name of a code for people; and the constant's own name ("TD_E_SHAPE"). */
const char *td_code_name(int code);
const char *td_code_symbol(int code);
/* Is it one of td_code? Not all numbers below TD_CODE_COUNT are, and a daemon of another release may send others. */
bool td_code_known(int code);

#endif
