/* Inside of the printer of sources; for code.c, code_call.c, code_names.c. */
#ifndef TENSORD_PROTO_PROGRAM_CODE_PRINT_H
#define TENSORD_PROTO_PROGRAM_CODE_PRINT_H

#include "proto/program/print.h"

typedef struct td_coder {
    td_print p;
    const td_ir *ir;
    uint32_t *names; /* of values: where it begins in `pool`; 0: by its number */
    char *pool;
    bool *used; /* values */
} td_coder;

/* code_names.c: names that Python takes, all different. False: no memory. */
bool td_coder_names(td_coder *c);
void td_coder_name(td_coder *c, uint32_t value);
void td_coder_function(td_coder *c, uint32_t function);

/* code_call.c: a value where it is used: its name, or the constant that it is. */
void td_coder_value(td_coder *c, uint32_t value);
/* Is it this int or bool, as a constant? */
bool td_coder_is(const td_coder *c, uint32_t value, int64_t number);
/* What a node that has no blocks does, as an expression. */
void td_coder_call(td_coder *c, uint32_t node);

#endif
