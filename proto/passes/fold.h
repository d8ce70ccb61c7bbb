/* What a prim:: op makes of constants; for this room only. */
#ifndef TENSORD_PROTO_PASSES_FOLD_H
#define TENSORD_PROTO_PASSES_FOLD_H

#include "proto/program/literal.h"

/* One result. False: it would fail, or is not worked out before a run: what rests on the C library's functions (pow,
 * exp, ...), since that of who compiles need not be that of who runs. */
bool td_fold(uint32_t prim, uint32_t n, const td_literal *in, td_literal *out);

#endif
