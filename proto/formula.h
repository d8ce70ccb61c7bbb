/* What the functions generated from formulas are written in: values, lists of ints, and a builder.
 *
 * A formula runs once for each node, over a td_fx that says what was saved, which gradients are wanted and where
 * results go. It asks the builder for each op it needs: the eager engine evaluates the op, a compiler adds it to its
 * program. A value is a tensor (of the builder's own kind), a number, or undefined. Invariants: an undefined value is
 * absorbed by what is linear in it; after a failure every op gives undefined and nothing more is asked of the builder,
 * and want of memory leaves the formula at once, so formulas have no error paths; nothing here looks at a tensor's
 * bytes. */
#ifndef TENSORD_PROTO_FORMULA_H
#define TENSORD_PROTO_FORMULA_H

#include "proto/op.h"
#include <setjmp.h>

typedef enum td_fkind { TD_F_NONE = 0, TD_F_TENSOR = 1, TD_F_NUMBER = 2 } td_fkind;

typedef struct td_fval {
    uint8_t kind;
    void *ref; /* TD_F_TENSOR: the builder's */
    td_scalar number;
} td_fval;

typedef struct td_flist {
    int n;
    td_fval *v;
} td_flist;

typedef struct td_fints {
    int n; /* -1: not given */
    int64_t *v;
} td_fints;

/* Shape and dtype of a value. `stride` NULL where it is not known (gradients, outputs). */
typedef struct td_fmeta {
    uint8_t dtype, ndim;
    int64_t offset;
    const int64_t *shape, *stride;
} td_fmeta;

#define TD_FX_BYTES 4096

typedef struct td_fx td_fx;
struct td_fx {
    /* The builder. `op` gives nout values, or fills f->error and returns its code. */
    int (*op)(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int nout, td_fval *out);
    td_fmeta (*meta)(td_fx *f, const td_fval *v);
    void *arg;
    bool create_graph; /* the result will be differentiated again */
    /* The call whose gradients are wanted. Inputs are flattened; what was not saved is TD_F_NONE. */
    const td_op *of;
    const td_attrs *attrs;
    int nin, nout;
    const td_fval *in, *out, *g; /* nin, nout, nout */
    const td_fmeta *in_meta, *out_meta;
    const bool *given, *want; /* by input */
    td_dtype dtype;           /* of the gradients that arrive */
    td_fval *result;          /* by input; all TD_F_NONE at the start */
    /* The formulas' own. */
    int failed;
    td_error *error;
    jmp_buf *no_memory; /* of td_fx_guard */
    size_t used;
    struct td_fx_block *blocks;
    _Alignas(16) unsigned char bytes[TD_FX_BYTES];
};

/* Before and after running a formula. */
void td_fx_init(td_fx *f);
void td_fx_deinit(td_fx *f);
/* Do what allocates, as every formula does: td_fx_alloc() leaves it without a word when there is no memory, so nothing
 * in it may own anything while it asks for some. The code is what `work` returns, or that of a failure. */
int td_fx_guard(td_fx *f, int (*work)(td_fx *f, void *arg), void *arg);

/* ---- for the generated functions */

void *td_fx_alloc(td_fx *f, size_t bytes);
/* First flattened input of a parameter. */
int td_fx_first(const td_fx *f, int param);

static inline td_fval td_fv_none(void)
{
    td_fval v = {0};
    return v;
}
static inline td_fval td_fv_number(td_scalar s)
{
    td_fval v = {TD_F_NUMBER, NULL, s};
    return v;
}

static inline bool td_fx_wants_item(const td_fx *f, int k)
{
    return f->want[f->of->list_param + k];
}
bool td_fx_wants(const td_fx *f, int param);
bool td_fx_given(const td_fx *f, int param);
td_fval td_fx_in(const td_fx *f, int param);
td_flist td_fx_list(td_fx *f);
static inline td_fval td_fx_out(const td_fx *f, int k)
{
    return f->out[k];
}
static inline td_fval td_fx_g(const td_fx *f, int k)
{
    return f->g[k];
}
td_fmeta td_fx_meta_in(const td_fx *f, int param);
td_fmeta td_fx_meta_item(const td_fx *f, int k);
static inline td_fmeta td_fx_meta_out(const td_fx *f, int k)
{
    return f->out_meta[k];
}
td_fmeta td_fx_meta(td_fx *f, td_fval v);
void td_fx_result(td_fx *f, int param, td_fval v);
void td_fx_result_list(td_fx *f, td_flist v);

td_fval *td_fx_values(td_fx *f, int n);
td_fval td_fx_op(td_fx *f, unsigned op, int nin, const td_fval *in, const td_attrs *attrs);
void td_fx_op_many(td_fx *f, unsigned op, int nin, const td_fval *in, const td_attrs *attrs, int nout, td_fval *out);
/* All inputs are numbers: compute. False when the op is not one of those that fold. */
bool td_fx_fold(unsigned op, int nin, const td_fval *in, const td_attrs *attrs, td_scalar *out);

td_fval td_fx_zeros(td_fx *f, td_fints shape);
td_fval td_fx_ones(td_fx *f, td_fints shape);
/* int64 0, 1, 2, ... in the given shape. */
td_fval td_fx_positions(td_fx *f, td_fints shape);
/* A view where strides allow it, else a copy. One size may be -1. */
td_fval td_fx_reshape(td_fx *f, td_fval v, td_fints shape);
td_fval td_fx_cast(td_fx *f, td_fval v, td_dtype t);
/* Product of all that stands before each element along `dim`, in log2(n) steps. */
td_fval td_fx_exclusive_prod(td_fx *f, td_fval v, int64_t dim);
/* The gradient of output k, zeros where undefined. */
td_fval td_fx_filled(td_fx *f, int k);
td_flist td_fx_filled_list(td_fx *f);
td_flist td_fx_gs(td_fx *f);
/* A number as a tensor of this shape and the gradients' dtype. */
td_fval td_fx_full(td_fx *f, td_fints shape, td_scalar value, td_dtype dtype);

td_flist td_fl_new(td_fx *f, int n);
void td_fl_push(td_fx *f, td_flist *l, td_fval v);
void td_fl_join(td_fx *f, td_flist *l, td_flist more);
td_fval td_fl_at(td_fx *f, td_flist l, int64_t k);

/* Ints. The results live as long as the td_fx. */
td_fints td_fi_new(td_fx *f, int n);
static inline td_fints td_fi_none(void)
{
    td_fints l = {-1, NULL};
    return l;
}
td_fints td_fi_one(td_fx *f, int64_t v);
int64_t td_fi_at(td_fx *f, td_fints l, int64_t k);
static inline td_fints td_fi_shape(td_fmeta m)
{
    td_fints l = {m.ndim, (int64_t *)m.shape};
    return l;
}
static inline td_fints td_fi_stride(td_fmeta m)
{
    td_fints l = {m.ndim, (int64_t *)m.stride};
    return l;
}
/* Of an attribute that is an int or ints; n = -1 when it was not given. */
td_fints td_fx_attr_ints(td_fx *f, int k);
void td_fx_push_ints(td_fx *f, td_attrs *a, td_fints l);
/* Append attribute k of the call as it is; `kind` TD_A_INTS makes a list of an int. */
void td_fx_pass(td_fx *f, td_attrs *a, int k, td_attr_kind kind);
td_fints td_fi_neg(td_fx *f, td_fints l);
bool td_fi_equal(td_fints a, td_fints b);
int64_t td_fi_numel(td_fints l);
int64_t td_fi_rows(td_fints l); /* all but the last */
/* Product of the sizes along dims; all when dims is not given (or empty, as reductions take it). */
int64_t td_fi_count(td_fints shape, td_fints dims);
/* Elements from the start of the storage that a view reaches. */
int64_t td_fi_span(td_fints shape, td_fints stride, int64_t offset);
bool td_fi_overlaps(td_fints shape, td_fints stride);
int64_t td_fi_wrap(int64_t dim, int64_t ndim);
int64_t td_fi_div(int64_t a, int64_t b); /* 0 when b is 0 */
int64_t td_fi_mod(int64_t a, int64_t b);
/* The shape of a reduction's result with the reduced dimensions put back as 1. */
td_fints td_fi_kept(td_fx *f, td_fints shape, td_fints dims, bool keepdim);
td_fints td_fi_range(td_fx *f, int64_t from, int64_t to);
td_fints td_fi_inverse(td_fx *f, td_fints dims);
td_fints td_fi_broadcast(td_fx *f, td_fints a, td_fints b);
td_fints td_fi_concat(td_fx *f, td_fints a, td_fints b);
td_fints td_fi_interleave(td_fx *f, td_fints a, td_fints b);
td_fints td_fi_pad_left(td_fx *f, td_fints shape, int64_t ndim);
td_fints td_fi_without(td_fx *f, td_fints a, td_fints b);
/* Where each of the list input's tensors starts along dim, and their indices. */
td_fints td_fi_offsets(td_fx *f, int64_t dim);
td_fints td_fi_indices(td_fx *f);

/* Scalars. */
td_scalar td_fs_add(td_scalar a, td_scalar b);
td_scalar td_fs_sub(td_scalar a, td_scalar b);
td_scalar td_fs_mul(td_scalar a, td_scalar b);
td_scalar td_fs_div(td_scalar a, td_scalar b);
td_scalar td_fs_neg(td_scalar a);
/* -1, 0, 1; 2 when they have no order. */
int td_fs_compare(td_scalar a, td_scalar b);
double td_fs_real(td_scalar a);

#endif
