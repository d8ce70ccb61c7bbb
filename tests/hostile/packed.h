/* A program as a client sends it, of its text. */
#ifndef TENSORD_TESTS_HOSTILE_PACKED_H
#define TENSORD_TESTS_HOSTILE_PACKED_H

#include "proto/program/text.h"
#include "proto/program/wire.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

/* Freed by the caller. */
static inline uint8_t *packed(const char *text, size_t *n)
{
    td_error e = {0};
    td_ir *ir = td_ir_read(text, strlen(text), &e);
    uint8_t *bytes = ir ? td_ir_encode(ir, n, &e) : NULL;
    if (!bytes) printf("%s\n", e.message);
    td_ir_unref(ir);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    return bytes;
}

#endif
