/* Plans of the reductions: which dimensions go, how many lanes fold a result, how many pieces a long fold is cut into.
 *
 * All of it follows from shape and strides, so that the bits are the same on every GPU, whatever the load. */
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/plans.h"
#include <string.h>

/* Elements of a piece at least; blocks that all pieces together make at most; threads side by side that read results'
 * own columns. */
enum { PIECE_LEAST = 4096, BLOCKS_WANTED = 2048, COLUMNS = 32, COLUMN_LANES = TD_CUDA_THREADS / COLUMNS };

static unsigned reduced_bits(const td_kcall *k)
{
    int ndim = k->in[0].desc->ndim, n = 1;
    const td_attr *a = &k->attrs->at[0];
    const int64_t *dims = &a->i;
    if (a->kind == TD_A_NONE || (a->kind == TD_A_INTS && a->count == 0)) return ~0u;
    if (a->kind == TD_A_INTS) dims = td_attr_ints(k->attrs, 0, &n);
    unsigned bits = 0;
    for (int i = 0; i < n; i++) bits |= 1u << (dims[i] < 0 ? dims[i] + (ndim ? ndim : 1) : dims[i]);
    return bits;
}

typedef struct dims {
    int64_t shape[TD_MAX_DIMS + 1], stride[TD_MAX_DIMS + 1];
    int n;
} dims;

static void add_dim(dims *d, int64_t shape, int64_t stride)
{
    if (d->n && stride == d->stride[d->n - 1] * d->shape[d->n - 1]) {
        d->shape[d->n - 1] *= shape;
        return;
    }
    d->shape[d->n] = shape;
    d->stride[d->n++] = stride;
}

static int by_body(td_dtype t, int f32, int f64, int i64, int u64)
{
    switch (t) {
    case TD_FLOAT16:
    case TD_BFLOAT16:
    case TD_FLOAT32: return f32;
    case TD_FLOAT64: return f64;
    case TD_UINT64: return u64;
    default: return i64;
    }
}

/* The kernel that folds; behind it the one that merges. */
static int kernel_of(int fold, td_dtype t)
{
    switch (fold) {
    case TD_FOLD_SUM: return by_body(t, TD_CK_fold_sum_f32, TD_CK_fold_sum_f64, TD_CK_fold_sum_i64, TD_CK_fold_sum_i64);
    case TD_FOLD_SQUARES: return by_body(t, TD_CK_fold_squares_f32, TD_CK_fold_squares_f64, -1, -1);
    case TD_FOLD_PROD:
        return by_body(t, TD_CK_fold_prod_f32, TD_CK_fold_prod_f64, TD_CK_fold_prod_i64, TD_CK_fold_prod_i64);
    case TD_FOLD_MAX:
    case TD_FOLD_ARGMAX:
        return by_body(t, TD_CK_fold_best_f32, TD_CK_fold_best_f64, TD_CK_fold_best_i64, TD_CK_fold_best_u64);
    case TD_FOLD_MIN:
    case TD_FOLD_ARGMIN:
        return by_body(t, TD_CK_fold_least_f32, TD_CK_fold_least_f64, TD_CK_fold_least_i64, TD_CK_fold_least_u64);
    case TD_FOLD_VAR: return by_body(t, TD_CK_fold_var_f32, TD_CK_fold_var_f64, -1, -1);
    case TD_FOLD_LSE: return by_body(t, TD_CK_fold_lse_f32, TD_CK_fold_lse_f64, -1, -1);
    case TD_FOLD_ANY: return TD_CK_fold_any_u8;
    default: return TD_CK_fold_all_u8;
    }
}

static void set_dims(td_ca_reduce *a, const td_desc *x, unsigned bits)
{
    dims gone = {.n = 0}, kept = {.n = 0};
    a->nkept = a->ngone = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        bool goes = bits >> i & 1;
        *(goes ? &a->ngone : &a->nkept) *= x->shape[i];
        if (x->shape[i] != 1) add_dim(goes ? &gone : &kept, x->shape[i], x->stride[i]);
    }
    if (!gone.n) gone.shape[gone.n] = 1, gone.stride[gone.n++] = 0;
    a->gdims = gone.n, a->kdims = kept.n;
    memcpy(a->shape, gone.shape, (size_t)gone.n * sizeof *a->shape);
    memcpy(a->stride, gone.stride, (size_t)gone.n * sizeof *a->stride);
    memcpy(a->shape + gone.n, kept.shape, (size_t)kept.n * sizeof *a->shape);
    memcpy(a->stride + gone.n, kept.stride, (size_t)kept.n * sizeof *a->stride);
    a->columns = kept.n && kept.shape[0] >= COLUMNS / 2 && kept.stride[0] < gone.stride[0];
}

static int lanes_for(int64_t elements, int most)
{
    int lanes = 1;
    while (lanes < most && lanes * 4 < elements) lanes *= 2;
    return lanes;
}

static td_cuda_shape blocks_of(const td_ca_reduce *a, int64_t pieces)
{
    return (td_cuda_shape){
        {td_cuda_blocks(a->nkept, TD_CUDA_THREADS / a->lanes), (unsigned)pieces, 1}, {TD_CUDA_THREADS, 1, 1}, 0};
}

static int plan_reduction(td_kcall *k, unsigned bits, int fold, int finish, double correction, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    bool truth = fold == TD_FOLD_ANY || fold == TD_FOLD_ALL;
    td_dtype t = (td_dtype)(truth ? x->dtype : k->compute);
    int kernel = kernel_of(fold, t);
    if (td_dtype_is_complex((td_dtype)x->dtype) || td_dtype_is_complex(t) || kernel < 0)
        return td_cuda_refuse(k, x->dtype, e);
    td_ca_reduce a = {.dtype = x->dtype,
                      .out_dtype = k->out[0].desc->dtype,
                      .fold = (uint8_t)fold,
                      .finish = (uint8_t)finish,
                      .correction = correction};
    a.body = (uint8_t)by_body(t, TD_FLOAT32, TD_FLOAT64, TD_INT64, TD_UINT64);
    set_dims(&a, x, bits);
    a.lanes = a.columns ? lanes_for(a.ngone, COLUMN_LANES) : lanes_for(a.ngone, TD_CUDA_THREADS);
    int64_t blocks = blocks_of(&a, 1).grid[0], most = (a.ngone + PIECE_LEAST - 1) / PIECE_LEAST,
            pieces = blocks ? BLOCKS_WANTED / blocks : 1;
    if (a.columns) most = (a.ngone + PIECE_LEAST / COLUMNS - 1) / (PIECE_LEAST / COLUMNS);
    if (pieces > most) pieces = most;
    if (pieces < 1) pieces = 1;
    a.piece = (a.ngone + pieces - 1) / pieces;
    a.pieces = a.piece ? (a.ngone + a.piece - 1) / a.piece : 1;
    if (a.pieces < 1) a.pieces = 1;
    size_t records = (size_t)(a.pieces > 1 ? a.pieces * a.nkept : 0) * sizeof(td_word);
    size_t wa = td_cuda_work(k, records), wb = td_cuda_work(k, records);
    td_cuda_place places[5] = {{offsetof(td_ca_reduce, data), TD_CUDA_IN, 0, 0},
                               {offsetof(td_ca_reduce, out), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_reduce, a), TD_CUDA_WORK, 0, (uint32_t)(wa / 64)},
                               {offsetof(td_ca_reduce, b), TD_CUDA_WORK, 0, (uint32_t)(wb / 64)},
                               {offsetof(td_ca_reduce, indices), TD_CUDA_OUT, 1, 0}};
    int nplaces = finish == TD_FINISH_BOTH ? 5 : 4;
    td_cuda_begin(k);
    td_cuda_add(k, (unsigned)kernel, blocks_of(&a, a.pieces), &a, sizeof a, places, nplaces);
    if (a.pieces > 1) {
        a.columns = 0;
        a.lanes = lanes_for(a.pieces, TD_CUDA_THREADS);
        td_cuda_add(k, (unsigned)kernel + 1, blocks_of(&a, 1), &a, sizeof a, places, nplaces);
    }
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns((double)td_desc_nbytes(x)), e);
}

#define REDUCE(NAME, FOLD, FINISH)                                                                                     \
    int td_cuda_plan_##NAME(td_kcall *k, td_error *e)                                                                  \
    {                                                                                                                  \
        return plan_reduction(k, reduced_bits(k), FOLD, FINISH, 0, e);                                                 \
    }
REDUCE(sum, TD_FOLD_SUM, TD_FINISH_A)
REDUCE(mean, TD_FOLD_SUM, TD_FINISH_MEAN)
REDUCE(sum_squares, TD_FOLD_SQUARES, TD_FINISH_A)
REDUCE(prod, TD_FOLD_PROD, TD_FINISH_A)
REDUCE(amax, TD_FOLD_MAX, TD_FINISH_A)
REDUCE(amin, TD_FOLD_MIN, TD_FINISH_A)
REDUCE(max_dim, TD_FOLD_ARGMAX, TD_FINISH_BOTH)
REDUCE(min_dim, TD_FOLD_ARGMIN, TD_FINISH_BOTH)
REDUCE(argmax, TD_FOLD_ARGMAX, TD_FINISH_INDEX)
REDUCE(argmin, TD_FOLD_ARGMIN, TD_FINISH_INDEX)
REDUCE(any, TD_FOLD_ANY, TD_FINISH_A)
REDUCE(all, TD_FOLD_ALL, TD_FINISH_A)
REDUCE(logsumexp, TD_FOLD_LSE, TD_FINISH_LSE)

int td_cuda_plan_var(td_kcall *k, td_error *e)
{
    return plan_reduction(k, reduced_bits(k), TD_FOLD_VAR, TD_FINISH_VAR, td_attr_float(k->attrs, 1), e);
}
int td_cuda_plan_std(td_kcall *k, td_error *e)
{
    return plan_reduction(k, reduced_bits(k), TD_FOLD_VAR, TD_FINISH_STD, td_attr_float(k->attrs, 1), e);
}

/* The dimensions that `shape` lacks or has as 1. */
int td_cuda_plan_sum_to(td_kcall *k, td_error *e)
{
    int n;
    const td_desc *x = k->in[0].desc;
    const int64_t *shape = td_attr_ints(k->attrs, 0, &n);
    unsigned bits = 0;
    for (int i = 0; i < x->ndim; i++) {
        int j = i - (x->ndim - n);
        if (j < 0 || (shape[j] == 1 && x->shape[i] != 1)) bits |= 1u << i;
    }
    return plan_reduction(k, bits, TD_FOLD_SUM, TD_FINISH_A, 0, e);
}
