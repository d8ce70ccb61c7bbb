/* What the functions generated from formulas are written in: values, lists of ints, and a builder.
 *
 * A formula is the gradients of an op, and runs once for each node, over a td_fx that says what was saved, which
 * gradients are wanted and where results go; or it is what an op is made of (td_op.compose), and runs once for each
 * call. It asks the builder for each op it needs: the eager engine evaluates the op, the client sends it, inference
 * infers it, a compiler adds it to its program. What is made of other ops never gets to a builder. A value is a tensor
 * (of the builder's own kind), a number, or undefined. Invariants: an undefined value is absorbed by what is linear in
 * it; after a failure every op gives undefined and nothing more is asked of the builder, and want of memory leaves the
 * formula at once, so formulas have no error paths; nothing here looks at a tensor's bytes. */
#ifndef TENSORD_PROTO_OPS_FORMULA_H
#define TENSORD_PROTO_OPS_FORMULA_H

#include "proto/ops/op.h"
#include <setjmp.h>

typedef enum td_fkind { TD_F_NONE = 0, TD_F_TENSOR = 1, TD_F_NUMBER = 2 } td_fkind;

/* Two words, which travel in registers, and are written and read as such. */
typedef struct td_fval {
    uint64_t kind; /* td_fkind */
    union {
        void *ref;               /* TD_F_TENSOR: the builder's */
        const td_scalar *number; /* TD_F_NUMBER: lives as long as the formula */
    };
} td_fval;

typedef struct td_flist {
    int n;
    td_fval *v;
} td_flist;

typedef struct td_fints {
    int n; /* -1: not given */
    int64_t *v;
} td_fints;

/* Shape, dtype and device of a value. `stride` NULL where it is not known (gradients, outputs). */
typedef struct td_fmeta {
    uint8_t dtype, ndim, device;
    int64_t offset;
    const int64_t *shape, *stride;
} td_fmeta;

/* Of a value whose descriptor is known; good as long as that. */
static inline td_fmeta td_fmeta_of(const td_desc *d)
{
    return (td_fmeta){d->dtype, d->ndim, d->device, d->offset, d->shape, d->stride};
}

#define TD_FX_BYTES 4096

typedef struct td_fx td_fx;
struct td_fx {
    /* The builder. `op` gives nout values, or fills f->error and returns its code. Where nout is negative the op gives
     * a list, of at most -nout values, and f->nmade says of how many. */
    int (*op)(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int nout, td_fval *out);
    void (*meta)(td_fx *f, const td_fval *v, td_fmeta *out);
    void *arg;
    bool create_graph; /* the result will be differentiated (again) */
    int nmade;
    /* The call whose gradients are wanted, or that is made of ops: then what is of outputs and gradients means
     * nothing, and is NULL. Inputs are flattened; what was not saved or not given is TD_F_NONE. */
    const td_op *of;
    const td_attrs *attrs;
    int nin, nout;
    const td_fval *in;
    const td_fval *out, *g; /* nout each */
    const td_fmeta *in_meta, *out_meta;
    const bool *given, *want; /* by input */
    td_dtype dtype;           /* of the gradients that arrive */
    td_fval *result;          /* by input; all TD_F_NONE at the start */
    td_flist made;            /* the results of a call that is made of ops */
    td_fval only;             /* where there is one */
    int pick;                 /* of a call that is another op's: which of its results */
    /* The formulas' own. */
    int failed;
    td_error *error;
    jmp_buf *no_memory; /* of td_fx_guard */
    size_t used;
    struct td_fx_block *blocks;
    _Alignas(16) unsigned char bytes[TD_FX_BYTES];
};

/* Before and after running a formula. */
static inline void td_fx_init(td_fx *f)
{
    f->failed = 0;
    f->used = 0;
    f->blocks = NULL;
}
void td_fx_deinit(td_fx *f);
/* Do what allocates, as every formula does: td_fx_alloc() leaves it without a word when there is no memory, so nothing
 * in it may own anything while it asks for some. The code is what `work` returns, or that of a failure. */
int td_fx_guard(td_fx *f, int (*work)(td_fx *f, void *arg), void *arg);

/* Make a call of `op`, which is made of others. Of `f` the builder is set (op, meta, arg, create_graph, error). Gives
 * *nout <= room values. */
int td_fx_make(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int room, td_fval *out,
               int *nout);

/* What the column `composer` names: written by hand. */
void td_compose_einsum(td_fx *f);
void td_compose_linalg_multi_dot(td_fx *f);
void td_compose_packed(td_fx *f);
void td_compose_ravel(td_fx *f);
void td_compose_reshaped(td_fx *f);

/* ---- for the generated functions */

/* The call is refused. */
void td_fx_fail(td_fx *f, td_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Small things lie in the td_fx itself; large ones get a block of their own. */
void *td_fx_alloc_block(td_fx *f, size_t bytes);
/* The same for what must live as long as `f`, asked for by a formula inside of it: should there be no memory, that is
 * what is left, and not the outer one over its head. */
void *td_fx_alloc_for(td_fx *f, td_fx *inner, size_t bytes);
static inline void *td_fx_alloc(td_fx *f, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > TD_FX_BYTES - f->used) return td_fx_alloc_block(f, bytes);
    f->used += bytes;
    return f->bytes + f->used - bytes;
}
/* First flattened input of a parameter. */
static inline int td_fx_first(const td_fx *f, int param)
{
    int list = f->of->list_param;
    return list < 0 || param <= list ? param : f->nin - (f->of->nparams - param);
}

static inline td_fval td_fv_none(void)
{
    td_fval v = {TD_F_NONE, {NULL}};
    return v;
}
static inline td_fval td_fv_at(const td_scalar *s)
{
    td_fval v = {TD_F_NUMBER, {.number = s}};
    return v;
}

static inline td_fval td_fv_number(td_fx *f, td_scalar s)
{
    td_scalar *at = td_fx_alloc(f, sizeof *at);
    at->kind = s.kind, at->i = s.i, at->re = s.re, at->im = s.im;
    return td_fv_at(at);
}

static inline bool td_fx_wants_item(const td_fx *f, int k)
{
    return f->want[f->of->list_param + k];
}
bool td_fx_wants(const td_fx *f, int param);
bool td_fx_given(const td_fx *f, int param);
static inline td_fval td_fx_in(const td_fx *f, int param)
{
    return f->in[td_fx_first(f, param)];
}
td_flist td_fx_list(td_fx *f);
static inline td_fval td_fx_out(const td_fx *f, int k)
{
    return f->out[k];
}
static inline td_fval td_fx_g(const td_fx *f, int k)
{
    return f->g[k];
}
static inline td_fmeta td_fx_meta_in(const td_fx *f, int param)
{
    return f->in_meta[td_fx_first(f, param)];
}
static inline td_fmeta td_fx_meta_item(const td_fx *f, int k)
{
    return f->in_meta[f->of->list_param + k];
}
static inline td_fmeta td_fx_meta_out(const td_fx *f, int k)
{
    return f->out_meta[k];
}
td_fmeta td_fx_meta(td_fx *f, td_fval v);
void td_fx_result(td_fx *f, int param, td_fval v);
void td_fx_result_list(td_fx *f, td_flist v);

static inline td_fval *td_fx_values(td_fx *f, int n)
{
    td_fval *v = td_fx_alloc(f, (size_t)n * sizeof *v);
    for (int k = 0; k < n; k++) v[k] = td_fv_none();
    return v;
}
td_fval td_fx_op(td_fx *f, unsigned op, int nin, const td_fval *in, const td_attrs *attrs);
void td_fx_op_many(td_fx *f, unsigned op, int nin, const td_fval *in, const td_attrs *attrs, int nout, td_fval *out);
td_flist td_fx_op_list(td_fx *f, unsigned op, int nin, const td_fval *in, const td_attrs *attrs);
/* All inputs are numbers: compute. False when the op is not one of those that fold. */
bool td_fx_fold(unsigned op, int nin, const td_fval *in, const td_attrs *attrs, td_scalar *out);

td_fval td_fx_zeros(td_fx *f, td_fints shape);
td_fval td_fx_ones(td_fx *f, td_fints shape);
/* int64 0, 1, 2, ... in the given shape. */
td_fval td_fx_positions(td_fx *f, td_fints shape);
/* A view where strides allow it, else a copy. One size may be -1. */
td_fval td_fx_reshape(td_fx *f, td_fval v, td_fints shape);
/* Of input 0, where it is a view: the op, with its attributes appended. */
const td_op *td_fx_reshape_direct(td_fx *f, td_fints shape, td_attrs *to);
td_fval td_fx_cast(td_fx *f, td_fval v, td_dtype t);
/* Product of all that stands before each element along `dim`, in log2(n) steps. */
td_fval td_fx_exclusive_prod(td_fx *f, td_fval v, int64_t dim);
/* The gradient of output k, zeros where undefined. */
td_fval td_fx_filled(td_fx *f, int k);
td_flist td_fx_filled_list(td_fx *f);
td_flist td_fx_gs(td_fx *f);
/* A number as a tensor of this shape and the gradients' dtype. */
td_fval td_fx_full(td_fx *f, td_fints shape, td_scalar value, td_dtype dtype);

static inline td_flist td_fl_new(td_fx *f, int n)
{
    td_flist l = {n, td_fx_values(f, n)};
    return l;
}
/* td_fx_make in two halves, between which op->compose(f) is called; `look` says what the inputs are. */
static inline void td_fx_begin(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_fmeta *look,
                               const td_attrs *attrs)
{
    f->of = op, f->attrs = attrs, f->nin = nin, f->in = in, f->in_meta = look;
    f->out = f->g = NULL, f->out_meta = NULL, f->given = f->want = NULL, f->result = NULL, f->nout = 0;
    f->dtype = TD_FLOAT32;
    f->only = td_fv_none();
    if (op->nouts == 1) f->made.n = 1, f->made.v = &f->only;
    else f->made = td_fl_new(f, op->nouts);
}
int td_fx_end(td_fx *f, int room); /* the results are f->made */
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
/* Sizes may be anything that a client says: what does not fit is the largest number (or the smallest), which no tensor
 * has. */
static inline int64_t td_fi_add(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? (a < 0 ? INT64_MIN : INT64_MAX) : r;
}
static inline int64_t td_fi_sub(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_sub_overflow(a, b, &r) ? (a < 0 ? INT64_MIN : INT64_MAX) : r;
}
static inline int64_t td_fi_mul(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? ((a < 0) != (b < 0) ? INT64_MIN : INT64_MAX) : r;
}
int64_t td_fi_wrap(int64_t dim, int64_t ndim);
int64_t td_fi_div(int64_t a, int64_t b); /* 0 when b is 0 */
int64_t td_fi_mod(int64_t a, int64_t b);
/* The shape of a reduction's result with the reduced dimensions put back as 1. */
td_fints td_fi_kept(td_fx *f, td_fints shape, td_fints dims, bool keepdim);
/* The first n; all but those. */
td_fints td_fi_head(td_fx *f, td_fints l, int64_t n);
td_fints td_fi_tail(td_fx *f, td_fints l, int64_t n);
/* A dimension as the caller gave it, wrapped; one that is not there fails. */
int64_t td_fi_axis(td_fx *f, int64_t dim, int64_t ndim);
/* 0, 1, ... n - 1 with `from` moved to the place `to`; both are there. */
td_fints td_fi_moved(td_fx *f, int64_t n, int64_t from, int64_t to);
const char *td_fi_text(td_fx *f, td_fints l);
static inline int64_t td_fi_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int64_t td_fi_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
/* from, from + 1, ... up to but not including `to`; no more than a call can have tensors. */
td_fints td_fi_range(td_fx *f, int64_t from, int64_t to);
/* The powers of 2 that are no larger than n, from the largest: the steps of a binary search. */
td_fints td_fi_halves(td_fx *f, int64_t n);
td_fints td_fi_inverse(td_fx *f, td_fints dims);
td_fints td_fi_broadcast(td_fx *f, td_fints a, td_fints b);
td_fints td_fi_concat(td_fx *f, td_fints a, td_fints b);
td_fints td_fi_interleave(td_fx *f, td_fints a, td_fints b);
td_fints td_fi_pad_left(td_fx *f, td_fints shape, int64_t ndim);
td_fints td_fi_without(td_fx *f, td_fints a, td_fints b);
/* Where each of the list input's tensors starts along dim, and their indices. */
td_fints td_fi_offsets(td_fx *f, int64_t dim);
td_fints td_fi_indices(td_fx *f);
/* The shape that all of them broadcast to; one that does not fails. */
td_fints td_fi_common(td_fx *f);

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
