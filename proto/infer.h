/* The closed set of inference rules: ops.toml names one of them for each op (`infer = "mm"`), and the generator reads
 * their names from this header. A rule sees a call that td_op_infer() has already checked against the signature; it
 * sets f->out, f->nout and f->compute, or fails with the argument's name and what was expected.
 *
 * Invariant: rules look at descriptors and attributes only, so both sides of the socket get the same answer. Outputs
 * are contiguous, except views, which keep the strides of what they look at. */
#ifndef TENSORD_PROTO_INFER_H
#define TENSORD_PROTO_INFER_H

#include "proto/op.h"

#define TD_RULE(rule) int td_infer_##rule(td_infer *f, td_error *e)

/* infer_create.c */
TD_RULE(shape);
TD_RULE(full);
TD_RULE(arange);
TD_RULE(linspace);
TD_RULE(eye);
TD_RULE(empty_strided);
TD_RULE(randint);
TD_RULE(randperm);

/* infer_pointwise.c */
TD_RULE(pointwise);
TD_RULE(scaled);
TD_RULE(sub);
TD_RULE(pow);
TD_RULE(where);
TD_RULE(clamp);
TD_RULE(lerp);
TD_RULE(addcdiv);
TD_RULE(masked_fill);
TD_RULE(cast);

/* infer_view.c, infer_slice.c */
TD_RULE(view);
TD_RULE(as_strided);
TD_RULE(view_dtype);
TD_RULE(detach);
TD_RULE(expand);
TD_RULE(permute);
TD_RULE(transpose);
TD_RULE(squeeze);
TD_RULE(unsqueeze);
TD_RULE(select);
TD_RULE(slice);
TD_RULE(diagonal);
TD_RULE(unfold);
TD_RULE(unbind);
TD_RULE(split);
TD_RULE(select_scatter);
TD_RULE(slice_scatter);

/* infer_assemble.c */
TD_RULE(same);
TD_RULE(cat);
TD_RULE(stack);
TD_RULE(repeat);
TD_RULE(flip);
TD_RULE(roll);
TD_RULE(constant_pad);
TD_RULE(tril);
TD_RULE(sort);
TD_RULE(topk);

/* infer_reduce.c */
TD_RULE(reduce);
TD_RULE(reduce_nonempty);
TD_RULE(mean);
TD_RULE(scan);
TD_RULE(softmax);
TD_RULE(softmax_backward);
TD_RULE(sum_to);

/* infer_matmul.c */
TD_RULE(mm);
TD_RULE(bmm);
TD_RULE(dot);
TD_RULE(mv);
TD_RULE(addmm);
TD_RULE(linear);

/* infer_index.c, infer_scatter.c */
TD_RULE(index_select);
TD_RULE(gather);
TD_RULE(index);
TD_RULE(index_put);
TD_RULE(embedding);
TD_RULE(scatter);
TD_RULE(index_add);
TD_RULE(masked_select);
TD_RULE(masked_scatter);
TD_RULE(nonzero);

/* infer_conv.c */
TD_RULE(conv2d);
TD_RULE(conv2d_backward);
TD_RULE(max_pool2d);
TD_RULE(max_pool2d_backward);
TD_RULE(avg_pool2d);
TD_RULE(avg_pool2d_backward);

/* infer_norm.c */
TD_RULE(layer_norm);
TD_RULE(layer_norm_backward);
TD_RULE(batch_norm);
TD_RULE(batch_norm_backward);

/* infer_train.c */
TD_RULE(nll_loss);
TD_RULE(nll_loss_backward);
TD_RULE(dropout);
TD_RULE(dropout_backward);
TD_RULE(step);

/* ---- what rules share (infer.c) */

/* Leave with the error of a call that failed. */
#define TD_TRY(call)                                                                                                   \
    do {                                                                                                               \
        int rc_ = (call);                                                                                              \
        if (rc_) return rc_;                                                                                           \
    } while (0)

#define TD_TEXT 192 /* room for any shape as text */

/* A shape as text in a buffer of TD_TEXT bytes. */
#define TD_SHAPE(d, buffer) td_shape_text((d)->ndim, (d)->shape, buffer, TD_TEXT)

static inline const td_desc *td_in(const td_infer *f, int i)
{
    return f->in[i].desc;
}
static inline td_dtype td_in_dtype(const td_infer *f, int i)
{
    return (td_dtype)f->in[i].desc->dtype;
}

/* Name of the argument that flattened input `i` belongs to. */
const char *td_infer_name(const td_infer *f, int i);
/* Is the dtype in the op's `dtypes`? `name` is the argument's, or NULL for the dtype that all arguments promote to. */
int td_infer_takes(const td_infer *f, const char *name, td_dtype t, td_error *e);
/* Append a contiguous output; td_infer_view appends any descriptor. */
int td_infer_make(td_infer *f, td_dtype dtype, int ndim, const int64_t *shape, td_error *e);
int td_infer_like(td_infer *f, td_dtype dtype, const td_desc *shape, td_error *e);
int td_infer_append(td_infer *f, const td_desc *d, td_error *e);
/* The common dtype of inputs from..nin-1 by the three tiers; `extra` (may be NULL) joins as a number. */
td_dtype td_infer_promote(const td_infer *f, int from, const td_scalar *extra);
/* Broadcast inputs from..nin-1 together. */
int td_infer_broadcast(const td_infer *f, int from, int64_t *shape, int *ndim, td_error *e);
/* Attribute `k`, a dimension of a tensor of `ndim` dimensions, wrapped. */
int td_infer_dim(const td_infer *f, int k, int ndim, int *dim, td_error *e);
/* Attribute `k`, a list that must have `n` numbers, each >= least. */
int td_infer_ints(const td_infer *f, int k, int n, int64_t least, const int64_t **v, td_error *e);
/* Index of the attribute of this kind (the last one), or -1. */
int td_infer_attr_of(const td_infer *f, td_attr_kind kind);
/* Inputs i and k have one dtype. */
int td_infer_same_dtype(const td_infer *f, int i, int k, td_error *e);
/* Input i has exactly this shape; an absent one passes. */
int td_infer_has_shape(const td_infer *f, int i, int ndim, const int64_t *shape, td_error *e);
/* Input i is int64 or int32; bool. */
int td_infer_is_index(const td_infer *f, int i, td_error *e);
int td_infer_is_bool(const td_infer *f, int i, td_error *e);
/* Attribute `k`, a number, may scale a result of dtype t (no float into int, no complex into float). */
int td_infer_alpha(const td_infer *f, int k, td_dtype t, td_error *e);

/* Bits of the wrapped dimensions in attribute `k`, a list without repeats; none gives 0. */
int td_infer_dims(const td_infer *f, int k, int ndim, unsigned *bits, td_error *e);

/* Append the gradient that bit `bit` of a mask asks for, of the given shape; one not asked for has shape [0]. */
int td_infer_wanted(td_infer *f, int bit, int64_t mask, td_dtype t, int ndim, const int64_t *shape, td_error *e);

/* ---- the generated table's own door (optable.c) */

extern const uint16_t td_ops_by_name[]; /* ids in the order of names */
extern const unsigned td_ops_named;

#endif
