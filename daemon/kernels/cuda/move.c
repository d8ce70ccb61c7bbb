/* Plans of copies and of what is filled with one number: by size where the dtype stays, else a cast. */
#include "daemon/kernels/cuda/move.h"
#include "daemon/kernels/cuda/plans.h"
#include "daemon/kernels/cuda/walk.h"
#include <string.h>

enum { TURN_LEAST = 16 }; /* elements of both dimensions that are worth a tile */

static unsigned by_size(unsigned dtype)
{
    switch (td_dtype_size((td_dtype)dtype)) {
    case 1: return TD_CK_copy_1;
    case 2: return TD_CK_copy_2;
    case 4: return TD_CK_copy_4;
    case 8: return TD_CK_copy_8;
    default: return TD_CK_copy_16;
    }
}

static unsigned cast_of(unsigned from, unsigned to)
{
    if (td_dtype_is_complex((td_dtype)from) || td_dtype_is_complex((td_dtype)to)) return TD_CK_cast_complex;
    switch (from) {
    case TD_FLOAT16:
    case TD_BFLOAT16:
    case TD_FLOAT32: return TD_CK_cast_f32;
    case TD_FLOAT64: return TD_CK_cast_f64;
    case TD_UINT64: return TD_CK_cast_u64;
    default: return TD_CK_cast_i64;
    }
}

static void swap(int64_t *a, int64_t *b)
{
    int64_t keep = *a;
    *a = *b;
    *b = keep;
}

/* Where the source is contiguous along another dimension than the result: that one comes to place 1. */
static bool turns(td_ca_copy *a)
{
    if (a->ndim < 2 || a->to_stride[0] != 1 || a->from_stride[0] == 1 || a->shape[0] < TURN_LEAST) return false;
    for (int d = 1; d < a->ndim; d++) {
        if (a->from_stride[d] != 1 || a->shape[d] < TURN_LEAST) continue;
        swap(&a->shape[1], &a->shape[d]);
        swap(&a->to_stride[1], &a->to_stride[d]);
        swap(&a->from_stride[1], &a->from_stride[d]);
        return true;
    }
    return false;
}

static td_cuda_shape walk_shape(int64_t n)
{
    int64_t blocks = td_cuda_blocks(n, TD_CUDA_THREADS);
    return (td_cuda_shape){
        {(unsigned)(blocks < TD_CUDA_MOST_BLOCKS ? blocks : TD_CUDA_MOST_BLOCKS), 1, 1}, {TD_CUDA_THREADS, 1, 1}, 0};
}

unsigned td_cuda_copy_kernel(td_ca_copy *a, bool moves, td_cuda_shape *shape)
{
    unsigned kernel = a->to_dtype == a->from_dtype ? by_size(a->to_dtype) : cast_of(a->from_dtype, a->to_dtype);
    *shape = walk_shape(a->n);
    if (a->to_dtype != a->from_dtype || !moves || !turns(a)) return kernel;
    int64_t rest = a->n / (a->shape[0] ? a->shape[0] * a->shape[1] : 1);
    *shape =
        (td_cuda_shape){{(unsigned)((a->shape[0] + 31) / 32 * ((a->shape[1] + 31) / 32) * rest), 1, 1}, {32, 8, 1}, 0};
    return kernel + TD_CK_turn_1 - TD_CK_copy_1;
}

static int plan_moves(td_kcall *k, td_ca_copy *a, const td_desc *y, const td_desc *x, td_error *e)
{
    td_cuda_place places[2] = {{offsetof(td_ca_copy, to), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_copy, from), TD_CUDA_IN, 0, 0}};
    td_cuda_dims w;
    td_cuda_dims_of(&w, 2, (const td_desc *const[]){y, x});
    a->n = w.n, a->ndim = w.ndim;
    memcpy(a->shape, w.shape, sizeof a->shape);
    memcpy(a->to_stride, w.stride[0], sizeof a->to_stride);
    memcpy(a->from_stride, w.stride[1], sizeof a->from_stride);
    a->to_dtype = y->dtype, a->from_dtype = x->dtype;
    td_cuda_shape shape;
    unsigned kernel = td_cuda_copy_kernel(a, k->nin > 0, &shape);
    td_cuda_begin(k);
    td_cuda_add(k, kernel, shape, a, sizeof *a, places, k->nin ? 2 : 1);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns((double)td_desc_nbytes(y) + (k->nin ? (double)td_desc_nbytes(x) : 0)), e);
}

int td_cuda_plan_copy(td_kcall *k, td_error *e)
{
    td_ca_copy a = {0};
    return plan_moves(k, &a, k->out[0].desc, k->in[0].desc, e);
}

int td_cuda_plan_full(td_kcall *k, td_error *e)
{
    td_ca_copy a = {0};
    const td_desc *y = k->out[0].desc;
    td_desc number = {.dtype = y->dtype};
    td_scalar_store(k->attrs->at[1].s, (td_dtype)y->dtype, a.value);
    return plan_moves(k, &a, y, &number, e);
}
