/* Layers whose weights are constants, for what goes into them (norms.c, scales.c): a convolution or a linear layer,
 * what is worked out of its weights, and what takes their place. For this room only. */
#ifndef TENSORD_PROTO_PASSES_LAYERS_H
#define TENSORD_PROTO_PASSES_LAYERS_H

#include "proto/ops/opid.h"
#include "proto/passes/facts.h"

enum { TD_LAYER_X = 0, TD_LAYER_WEIGHT = 1, TD_LAYER_BIAS = 2 };

typedef struct td_layer {
    uint32_t op;
    uint8_t rank;      /* of what it takes and makes */
    bool only, turned; /* only: it takes no other; turned: its weight has the channels that come out second */
} td_layer;

typedef struct td_folding {
    td_ir_edit *e;
    const td_ir *ir;
    uint32_t began;      /* nodes from here on are the pass's own */
    uint32_t user, node; /* what goes into the layer; the layer */
    const td_layer *is;
    uint32_t weight, bias; /* what they become */
} td_folding;

/* Find the layer that makes this value, which nobody but the user works with, in the user's own block. */
bool td_layer_find(td_folding *f, uint32_t value);
/* A constant tensor of this type; or of a float type, when there is none yet. */
bool td_layer_takes(const td_folding *f, uint32_t value, td_dtype *dtype);
bool td_layer_takes_or_none(const td_folding *f, uint32_t value, td_dtype *dtype);
/* Its weight and bias are of this type, and each channel that comes out has a part of the weight to itself. */
bool td_layer_is_constant(const td_folding *f, td_dtype *dtype);
int64_t td_layer_channels(const td_folding *f);
static inline uint32_t td_layer_in(const td_folding *f, uint32_t k)
{
    return td_ir_in(f->ir, f->node, k);
}
static inline bool td_is_none(const td_ir *ir, uint32_t value)
{
    return td_type_kind_of(ir, ir->values[value].type) == TD_T_NONE;
}

/* ---- what is worked out of constants stands in front of all, where freezing finds it */

void td_layer_begin(const td_folding *f);
void td_layer_end(const td_folding *f);
uint32_t td_layer_op(const td_folding *f, uint32_t row, uint32_t nin, const uint32_t *in, uint32_t type);
/* Of the type that this value has. */
uint32_t td_layer_sum(const td_folding *f, uint32_t row, uint32_t a, uint32_t b, uint32_t like);
uint32_t td_layer_product(const td_folding *f, uint32_t row, uint32_t a, uint32_t b, uint32_t like);
/* One factor a channel, beside the weight's other dimensions. */
uint32_t td_layer_beside_weight(const td_folding *f, uint32_t factor);
/* The layer has them from now on. */
void td_layer_set(const td_folding *f);

/* One node goes into the layer before it: false, it does not. */
bool td_fold_norm(td_ir_edit *e, uint32_t began, uint32_t node);
bool td_fold_scale(td_ir_edit *e, uint32_t began, uint32_t node);

#endif
