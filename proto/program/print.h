/* Writing pieces of a program's text; for text.c and print_type.c. */
#ifndef TENSORD_PROTO_PROGRAM_PRINT_H
#define TENSORD_PROTO_PROGRAM_PRINT_H

#include "proto/program/literal.h"

typedef struct td_print { /* grows; or, with `fixed`, is cut to its room */
    char *text;
    size_t used, room;
    bool fixed, failed;
} td_print;

void td_print_bytes(td_print *p, const char *bytes, size_t n);
void td_printf(td_print *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* In quotes, with escapes. */
void td_print_string(td_print *p, const char *bytes, size_t n);
void td_print_type(td_print *p, const td_ir *ir, uint32_t type);
/* The literal at the words; returns the words used. */
uint32_t td_print_literal(td_print *p, const td_ir *ir, const uint32_t *words, uint32_t n);

/* How types are written; NULL ends them. */
extern const char *const td_plain_names[];  /* by td_type_kind, up to TD_T_TENSOR */
extern const char *const td_tensor_names[]; /* of tensors, by dtype */

#endif
