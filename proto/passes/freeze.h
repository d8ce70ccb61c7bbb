/* Freezing: a module whose captured tensors are constants, in two: what is worked out of these alone, once, and the
 * rest, which captures what comes of it. */
#ifndef TENSORD_PROTO_PASSES_FREEZE_H
#define TENSORD_PROTO_PASSES_FREEZE_H

#include "proto/passes/passes.h"

/* 11: norms, products and sums into weights (F: other bits). */
td_pass_fn td_pass_layers;
/* 13: channels last between convolutions (F: other kernels, other bits). */
td_pass_fn td_pass_layouts;

#define TD_FROZEN_MADE (UINT32_C(1) << 31) /* | a result of the setup */

typedef struct td_frozen {
    td_ir *main, *setup; /* setup takes nothing; NULL: there is nothing to work out */
    uint32_t *main_from; /* what each of its captured names is: a captured tensor of the module, or TD_FROZEN_MADE */
    uint32_t *setup_from;
    uint8_t *written; /* by captured tensor of the module: it is no constant, for the program writes it */
} td_frozen;

typedef struct td_frozen_look { /* a captured tensor */
    td_tensor_type type;        /* dtype TD_DTYPE_NONE: it is none of the constants */
    uint64_t storage;           /* a number that all have that share memory */
} td_frozen_look;

/* Takes over a sealed module that the verifier has passed, with a look for each captured tensor. `exactly`: no bit may
 * change. An error's code; what is there then is freed, too. */
int td_ir_freeze(td_frozen *out, td_ir *ir, const td_frozen_look *looks, bool exactly, td_error *error);
void td_frozen_free(td_frozen *f);

#endif
