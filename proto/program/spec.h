/* How a value is written as a text: what stands behind ':' in "{:>8.3f}", as in Python. Whoever lowers a program looks
 * whether it makes sense there, whoever runs it writes. */
#ifndef TENSORD_PROTO_PROGRAM_SPEC_H
#define TENSORD_PROTO_PROGRAM_SPEC_H

#include "proto/program/type.h"

enum { TD_SPEC_WIDTH = 4096, TD_SPEC_PRECISION = 500 }; /* at most */

typedef struct td_spec {
    char fill[4]; /* one character of UTF-8, of nfill bytes */
    uint8_t nfill;
    char align, sign, group, type; /* 0: not said */
    bool alternate;
    int32_t width, precision; /* -1: not said */
} td_spec;

/* NULL, or what is wrong. */
const char *td_spec_read(const char *text, size_t n, td_spec *spec);
/* NULL, or why no value of this type is written so. A bool is an int here. */
const char *td_spec_misfit(const td_spec *spec, td_type_kind kind);

#endif
