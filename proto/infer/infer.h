/* The closed set of inference rules: the op table names one of them for each op (`infer = "mm"`), and the generator
 * reads their names from this header, and from the comment behind each what its results look like (for all of them, or
 * `NAME:` what one of them is). A rule sees a call that td_op_infer() has already checked against the signature; it
 * sets f->out, f->nout and f->compute, or fails with the argument's name and what was expected.
 *
 * Invariant: rules look at descriptors and attributes only, so both sides of the socket get the same answer. Outputs
 * are contiguous, except views, which keep the strides of what they look at, and images that lie channels last
 * (infer/format.c). */
#ifndef TENSORD_PROTO_INFER_INFER_H
#define TENSORD_PROTO_INFER_INFER_H

#include "proto/ops/op.h"

#define TD_RULE(rule) int td_infer_##rule(td_inference *f, td_error *e)

/* infer/create.c */
TD_RULE(shape);         /* of the shape given */
TD_RULE(full);          /* of the shape given */
TD_RULE(arange);        /* one dimension: ceil((end - start) / step) numbers */
TD_RULE(linspace);      /* one dimension: steps numbers */
TD_RULE(eye);           /* (n, m) */
TD_RULE(empty_strided); /* of the shape and strides given */
TD_RULE(randint);       /* of the shape given */
TD_RULE(randperm);      /* one dimension: n numbers */
TD_RULE(exponential);   /* of the shape given */
TD_RULE(geometric);     /* of the shape given */
TD_RULE(cauchy);        /* of the shape given */
TD_RULE(log_normal);    /* of the shape given */
TD_RULE(multinomial);   /* int64; the rows of x, of num_samples each */
TD_RULE(to_device);     /* like x, on the device */

/* infer/pointwise.c */
TD_RULE(pointwise);   /* the shapes of the tensors, broadcast together */
TD_RULE(hardtanh);    /* of the shape of x */
TD_RULE(softshrink);  /* of the shape of x */
TD_RULE(scaled);      /* the shapes of the tensors, broadcast together */
TD_RULE(sub);         /* the shapes of the tensors, broadcast together */
TD_RULE(pow);         /* the shapes of the tensors, broadcast together */
TD_RULE(squared);     /* of the shape of x */
TD_RULE(where);       /* the shapes of the tensors, broadcast together */
TD_RULE(clamp);       /* the shapes of the tensors, broadcast together */
TD_RULE(lerp);        /* the shapes of the tensors, broadcast together */
TD_RULE(addcdiv);     /* the shapes of the tensors, broadcast together */
TD_RULE(masked_fill); /* the shapes of x and mask, broadcast together */
TD_RULE(cast);        /* of the shape of x */
TD_RULE(cast_last);   /* of the shape of x, channels last */

/* infer/view.c, infer/slice.c */
TD_RULE(view);           /* of the shape given, over the storage of x */
TD_RULE(as_strided);     /* of the shape and strides given, over the storage of x */
TD_RULE(view_dtype);     /* of the shape of x but for the last size, which changes with the size of an element */
TD_RULE(view_as_real);   /* the sizes of x and 2 */
TD_RULE(view_part);      /* of the shape of x */
TD_RULE(view_as_complex); /* the sizes of x without the last */
TD_RULE(detach);         /* of the shape of x */
TD_RULE(expand);         /* of the shape given; repeated dimensions have stride 0 */
TD_RULE(permute);        /* the sizes of x in the order of dims */
TD_RULE(transpose);      /* the sizes of x, two exchanged */
TD_RULE(squeeze);        /* the sizes of x without the chosen ones that are 1 */
TD_RULE(unsqueeze);      /* the sizes of x and a 1 at dim */
TD_RULE(select);         /* the sizes of x without dim */
TD_RULE(slice);          /* the sizes of x; at dim, as many as were taken */
TD_RULE(diagonal);       /* the sizes of x without dim1 and dim2, and the length of the diagonal */
TD_RULE(unfold);         /* the sizes of x; at dim, the number of windows, and their size at the end */
TD_RULE(unbind);         /* as many as x has along dim, each with the sizes of x without it */
TD_RULE(split);          /* one for each of sizes, each with the sizes of x but for dim */
TD_RULE(select_scatter); /* of the shape of x */
TD_RULE(slice_scatter);  /* of the shape of x */

/* infer/assemble.c */
TD_RULE(same);         /* of the shape and dtype of x */
TD_RULE(cat);          /* the sizes of the tensors, added up along dim */
TD_RULE(stack);        /* the sizes of one tensor and, at dim, how many there are */
TD_RULE(repeat);       /* the sizes of x times repeats */
TD_RULE(flip);         /* of the shape of x */
TD_RULE(roll);         /* of the shape of x */
TD_RULE(constant_pad); /* the sizes of x with the pads added */
TD_RULE(tril);         /* of the shape of x */
TD_RULE(sort);         /* of the shape of x; indices: int64, where along dim each value was */
TD_RULE(topk);         /* the sizes of x; at dim, k; indices: int64, where along dim each value was */

/* infer/reduce.c */
TD_RULE(reduce);          /* the sizes of x without the reduced dimensions (1 there with keepdim) */
TD_RULE(reduce_nonempty); /* the sizes of x without the reduced dimensions (1 there with keepdim); indices: int64, where
                             along dim each value is */
TD_RULE(mean);            /* the sizes of x without the reduced dimensions (1 there with keepdim) */
TD_RULE(scan);            /* of the shape of x */
TD_RULE(linear_scan);     /* of the shape of factor */
TD_RULE(scan_best);       /* of the shape of x; indices: int64, where along dim each value is */
TD_RULE(softmax);         /* of the shape of x */
TD_RULE(softmax_backward); /* of the shape of the gradient */
TD_RULE(sum_to);           /* of the shape given */

/* infer/matmul.c */
TD_RULE(mm);     /* (n, p) of (n, m) and (m, p) */
TD_RULE(bmm);    /* (b, n, p) of (b, n, m) and (b, m, p) */
TD_RULE(euclidean_dist); /* (b, n, m) of (b, n, k) and (b, m, k) */
TD_RULE(dot);    /* one number, without dimensions */
TD_RULE(mv);     /* (n) of (n, m) and (m) */
TD_RULE(addmm);  /* (n, p) of (n, m) and (m, p) */
TD_RULE(linear); /* the sizes of x but for the last, which is the number of rows of w */

/* infer/linalg.c */
TD_RULE(square);      /* of the shape of x */
TD_RULE(square_info); /* of the shape of x; info: int32, one for each matrix: 0, or what LAPACK says of it */
TD_RULE(lu);  /* LU: of the shape of x; pivots: int32, a row for each of the smaller side of a matrix, counted from 1;
                 info: int32, one for each matrix: 0, or the first zero of the diagonal */
TD_RULE(ldl); /* LD: of the shape of x; pivots: int32, one for each row; info: int32, one for each matrix: 0, or the
                 first zero block */
TD_RULE(lu_permutation); /* int64, as many as there are rows */
TD_RULE(solve); /* result: of the shape of y, with the batches broadcast; info: int32, one for each matrix of x: 0, or
                   the first zero pivot */
TD_RULE(solve_triangular); /* of the shape of y, with the batches broadcast */
TD_RULE(ldl_solve);        /* of the shape of y, with the batches broadcast */
TD_RULE(det_lu); /* result: one for each matrix; sign: one for each matrix; logabsdet: real, one for each matrix; LU: of
                    the shape of x; pivots: int32, one for each row */
TD_RULE(qr);     /* Q: as many rows as x, orthogonal columns; R: upper triangular, as many columns as x */
TD_RULE(geqrf);  /* a: of the shape of x; tau: one for each of the smaller side */
TD_RULE(svd);    /* U: as many rows as x; S: real, descending; Vh: as many columns as x */
TD_RULE(svdvals); /* real, descending, as many as the smaller side */
TD_RULE(eigh);  /* eigenvalues: real, ascending; eigenvectors: of the shape of x, a column each; out: real, ascending */
TD_RULE(eig);   /* eigenvalues: complex, one for each row; eigenvectors: complex, of the shape of x, a column each; out:
                   complex, one for each row */
TD_RULE(pinv);  /* the sizes of x, the last two exchanged */
TD_RULE(lstsq); /* solution: as many rows as x has columns, as many columns as y; rank: int64, one for each matrix;
                   singular_values: real, where the driver has them, else none */

/* infer/index.c, infer/scatter.c */
TD_RULE(index_select); /* the sizes of x; at dim, the number of indices */
TD_RULE(gather);       /* of the shape of index */
TD_RULE(index);     /* the sizes of the indices, broadcast together, in the place of the dimensions that they index */
TD_RULE(index_put); /* of the shape of x */
TD_RULE(embedding); /* the sizes of the indices, and the length of a row of the weight */
TD_RULE(scatter);   /* of the shape of x */
TD_RULE(index_add); /* of the shape of x */
TD_RULE(masked_select);  /* one dimension: as many as the mask has true values */
TD_RULE(masked_scatter); /* of the shape of x */
TD_RULE(nonzero);        /* int64, one row of coordinates for each value that is not zero */

/* infer/conv.c */
TD_RULE(conv2d);              /* (N, K, H', W'): K filters, H' and W' the places where they fit */
TD_RULE(conv2d_backward);     /* dx: like x; dw: like w; db: (K); those not asked for have shape [0] */
TD_RULE(max_pool2d);          /* (N, C, H', W'), one for each window; indices: int64, the place h * W + w of each */
TD_RULE(max_pool2d_backward); /* of the shape of the input */
TD_RULE(avg_pool2d);          /* (N, C, H', W'), one for each window */
TD_RULE(avg_pool2d_backward); /* of the shape of the input */

/* infer/spatial.c */
TD_RULE(resample);              /* the sizes of x, the last of them these */
TD_RULE(resample_backward);     /* of the shape of the input */
TD_RULE(grid_sampler);          /* (N, C, H', W') or (N, C, D', H', W'): the places of the grid */
TD_RULE(grid_sampler_backward); /* dx: like x; dgrid: like grid; those not asked for have shape [0] */
TD_RULE(adaptive_max); /* the last one to three sizes become these; indices: int64, among all elements of them */
TD_RULE(ctc_losses);            /* (N) */
TD_RULE(ctc_losses_backward);   /* of the shape of the log probabilities */

/* infer/norm.c */
TD_RULE(layer_norm);          /* y: like x; mean: the sizes of x but for the last ndims; rstd: like mean */
TD_RULE(layer_norm_backward); /* dx: like x; dw: like w; db: like b; those not asked for have shape [0] */
TD_RULE(batch_norm);          /* y: like x; mean: (C), what y was normalised by; rstd: (C) */
TD_RULE(batch_norm_backward); /* dx: like x; dw: (C); db: (C); those not asked for have shape [0] */

/* infer/train.c */
TD_RULE(nll_loss);          /* loss: one number, or one for each row; total_weight: one number, of the weights used */
TD_RULE(nll_loss_backward); /* of the shape of the scores */
TD_RULE(dropout);           /* y: like x; state: two int64, from which the same choice is made again */
TD_RULE(dropout_backward);  /* of the shape of the gradient */
TD_RULE(step);              /* nothing new: what is written is marked in the signature */

/* infer/fft.c */
TD_RULE(fft_c2c); /* of the shape of x */
TD_RULE(fft_r2c); /* complex; the sizes of x, or n / 2 + 1 of n at the last of the dimensions */
TD_RULE(fft_c2r); /* real; the sizes of x but for the last of the dimensions, which has n */

/* infer/recurrent.c */
TD_RULE(lstm_layer);          /* y: (T, N, H), the state of each step; h: like h0, the last one; c: its cells; gates: (T, N, 4 H), kept for the gradient; cells: (T, N, H), kept for it */
TD_RULE(gru_layer);           /* y: (T, N, H), the state of each step; h: like h0, the last one; gates: (T, N, 3 H), kept for the gradient; hidden: (T, N, H), kept for it */
TD_RULE(rnn_layer);           /* y: (T, N, H), the state of each step; h: like h0, the last one */
TD_RULE(lstm_layer_backward); /* dx: like x; dh0: like h0; dc0: like h0; dw_ih: like w_ih; dw_hh: like w_hh; db_ih: (4 H); db_hh: (4 H); those not asked for have shape [0] */
TD_RULE(gru_layer_backward);  /* dx: like x; dh0: like h0; dw_ih: like w_ih; dw_hh: like w_hh; db_ih: (3 H); db_hh: (3 H); those not asked for have shape [0] */
TD_RULE(rnn_layer_backward);  /* dx: like x; dh0: like h0; dw_ih: like w_ih; dw_hh: like w_hh; db_ih: (H); db_hh: (H); those not asked for have shape [0] */

/* infer/attention.c */
TD_RULE(tiled_attention);          /* y: (B, H, L, F); logsumexp: (B, H, L), of the scores of each row */
TD_RULE(tiled_attention_backward); /* dq: like query; dk: like key; dv: like value; those not asked for have shape [0] */

/* infer/composed.c */
TD_RULE(composed); /* what the ops make that it is made of */

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

static inline const td_desc *td_in(const td_inference *f, int i)
{
    return f->in[i].desc;
}
static inline td_dtype td_in_dtype(const td_inference *f, int i)
{
    return (td_dtype)f->in[i].desc->dtype;
}

/* Name of the argument that flattened input `i` belongs to. */
const char *td_infer_name(const td_inference *f, int i);
/* Where its results lie: beside its tensors, of which a number on the CPU may be one. */
uint8_t td_infer_device(const td_inference *f);
/* Is the dtype in the op's `dtypes`? `name` is the argument's, or NULL for the dtype that all arguments promote to. */
int td_infer_takes(const td_inference *f, const char *name, td_dtype t, td_error *e);
/* Append a contiguous output; td_infer_view appends any descriptor. */
int td_infer_make(td_inference *f, td_dtype dtype, int ndim, const int64_t *shape, td_error *e);
int td_infer_like(td_inference *f, td_dtype dtype, const td_desc *shape, td_error *e);
int td_infer_append(td_inference *f, const td_desc *d, td_error *e);
/* The common dtype of inputs from..nin-1 by the three tiers; `extra` (may be NULL) joins as a number. uint64 and signed
 * numbers have none. */
int td_infer_promote(const td_inference *f, int from, const td_scalar *extra, td_dtype *out, td_error *e);
/* Broadcast inputs from..nin-1 together. */
int td_infer_broadcast(const td_inference *f, int from, int64_t *shape, int *ndim, td_error *e);
/* Attribute `k`, a dimension of a tensor of `ndim` dimensions, wrapped. */
int td_infer_dim(const td_inference *f, int k, int ndim, int *dim, td_error *e);
/* Attribute `k`, a list that must have `n` numbers, each >= least. */
int td_infer_ints(const td_inference *f, int k, int n, int64_t least, const int64_t **v, td_error *e);
/* Index of the attribute of this kind (the last one), or -1. */
int td_infer_attr_of(const td_inference *f, td_attr_kind kind);
/* Inputs i and k have one dtype. */
int td_infer_same_dtype(const td_inference *f, int i, int k, td_error *e);
/* Input i has exactly this shape; an absent one passes. */
int td_infer_has_shape(const td_inference *f, int i, int ndim, const int64_t *shape, td_error *e);
/* All inputs have the shapes that the table says (`shape_of`), after the rule. */
int td_infer_shapes(const td_inference *f, td_error *e);
/* infer/format.c: the results lie as the inputs do, of an op that keeps their format. */
void td_infer_format(td_inference *f);
/* Input i is int64 or int32; bool. */
int td_infer_is_index(const td_inference *f, int i, td_error *e);
int td_infer_is_bool(const td_inference *f, int i, td_error *e);
/* Attribute `k`, a number, may scale a result of dtype t (no float into int, no complex into float). */
int td_infer_alpha(const td_inference *f, int k, td_dtype t, td_error *e);

/* Bits of the wrapped dimensions in attribute `k`, a list without repeats; none gives 0. */
int td_infer_dims(const td_inference *f, int k, int ndim, unsigned *bits, td_error *e);

/* Append the gradient that bit `bit` of a mask asks for, of the given shape; one not asked for has shape [0]. */
int td_infer_wanted(td_inference *f, int bit, int64_t mask, td_dtype t, int ndim, const int64_t *shape, td_error *e);

/* ---- the generated table's own door (optable.c) */

extern const uint16_t td_ops_by_name[]; /* ids in the order of names */
extern const unsigned td_ops_named;

#endif
