/* The worked examples of the op table as data. The rows are generated (tests/unit/gen/emit_conformance.py). */
#ifndef TENSORD_TESTS_UNIT_CONFORMANCE_H
#define TENSORD_TESTS_UNIT_CONFORMANCE_H

#include "proto/ops/op.h"

typedef enum example_kind {
    EXAMPLE_NONE = 0, /* an absent input; a result of which any value will do */
    EXAMPLE_TENSOR = 1,
    EXAMPLE_NUMBER = 2
} example_kind;

typedef struct example_operand {
    uint8_t kind, dtype, ndim;
    int64_t shape[TD_MAX_DIMS];
    const td_scalar *values; /* row-major */
} example_operand;

typedef struct example_row {
    const char *text;
    uint16_t op, nin, nout, nattrs, nints;
    const example_operand *in, *out;
    const td_attr *attrs;
    const int64_t *ints; /* of all list attributes together */
} example_row;

extern const example_row example_rows[];
extern const unsigned example_count;

#endif
