/* Plans of the ops that have an expression: which functor, which conversions, and of its two kernels the one for
 * operands that lie alike or the one for any.
 *
 * What is decided is what the CPU's plan decides (cpu/pointwise.c), so that both give the same bits where a functor
 * rounds as IEEE says. */
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/plans.h"
#include "daemon/kernels/cuda/walk.h"
#include <string.h>

static const uint16_t pairs[][TD_BODY_COUNT] = {TD_CUDA_POINTWISE_ROWS};

static const uint8_t dtype_of[TD_BODY_COUNT] = {
    [TD_BODY_F32] = TD_FLOAT32, [TD_BODY_F64] = TD_FLOAT64, [TD_BODY_I64] = TD_INT64,
    [TD_BODY_I32] = TD_INT32,   [TD_BODY_U8] = TD_BOOL,     [TD_BODY_U64] = TD_UINT64};

static int body_of(td_dtype t)
{
    switch (t) {
    case TD_BOOL: return TD_BODY_U8;
    case TD_INT32: return TD_BODY_I32;
    case TD_UINT64: return TD_BODY_U64;
    case TD_FLOAT16:
    case TD_BFLOAT16:
    case TD_FLOAT32: return TD_BODY_F32;
    case TD_FLOAT64: return TD_BODY_F64;
    default: return td_dtype_is_complex(t) ? TD_BODY_C64 : TD_BODY_I64;
    }
}

typedef struct pointwise {
    const td_pw_op *op;
    unsigned flat; /* number of the kernel for what lies alike; behind it that for any strides */
    uint8_t body, want[TD_CUDA_PW_OPS], round[TD_CUDA_PW_OPS];
    td_pw_attr at[TD_CUDA_PW_ATTRS];
    td_cuda_place places[TD_CUDA_PW_OPS];
    int nops;
} pointwise;

static bool single(const td_desc *d)
{
    return td_desc_numel(d) == 1;
}

/* What comes from another dtype is first made what the dtype that is computed in would hold: see cpu/pointwise.c. */
static void set_rounds(const td_kcall *k, pointwise *p)
{
    bool exact = k->op->flags & TD_OF_EXACT_NUMBER && !td_dtype_is_integral(k->compute);
    memset(p->round, TD_DTYPE_NONE, sizeof p->round);
    for (int i = 0; i < p->op->nin; i++) {
        const td_desc *d = k->in[i].desc;
        bool other = d->dtype != k->compute && d->dtype != TD_BOOL && p->want[i + 1] != TD_BOOL;
        if (p->want[i + 1] != k->compute && other && !(exact && single(d))) p->round[i + 1] = k->compute;
    }
    bool whole = td_dtype_is_integral(k->compute) && p->op->out == TD_PW_OUT_SAME;
    if (whole && p->want[0] != k->compute && k->out[0].desc->dtype != k->compute) p->round[0] = k->compute;
}

static int choose(const td_kcall *k, pointwise *p, td_error *e)
{
    int row = td_pw_row_of[k->op->id] - 1;
    p->op = &td_pw_ops[row];
    p->nops = p->op->nin + 1;
    int body = body_of(k->compute);
    if (!pairs[row][body] && (body == TD_BODY_I32 || body == TD_BODY_U8)) body = TD_BODY_I64;
    if (!pairs[row][body]) return td_cuda_refuse(k, k->compute, e);
    p->body = (uint8_t)body;
    p->flat = 2u * (pairs[row][body] - 1u);
    p->want[0] = p->op->out == TD_PW_OUT_BOOL ? TD_BOOL : dtype_of[body];
    for (int i = 0; i < p->op->nin; i++) {
        if (td_dtype_is_complex(k->in[i].desc->dtype)) return td_cuda_refuse(k, k->in[i].desc->dtype, e);
        p->want[i + 1] = p->op->bool_in >> i & 1 ? TD_BOOL : dtype_of[body];
    }
    if (td_dtype_is_complex(k->out[0].desc->dtype)) return td_cuda_refuse(k, k->out[0].desc->dtype, e);
    for (int i = 0; i < p->op->nattr; i++) p->at[i] = td_pointwise_attr(k->op, k->attrs, (td_dtype)k->compute, i);
    set_rounds(k, p);
    return TD_OK;
}

/* Where addresses and numbers go: both structs begin alike. */
_Static_assert(offsetof(td_ca_flat, data) == offsetof(td_ca_walk, data) &&
                   offsetof(td_ca_flat, number) == offsetof(td_ca_walk, number),
               "one list of places");
static void set_places(const td_kcall *k, pointwise *p)
{
    p->places[0] = (td_cuda_place){offsetof(td_ca_flat, data), TD_CUDA_OUT, 0, 0};
    for (int i = 0; i < p->op->nin; i++) {
        uint16_t data = (uint16_t)(offsetof(td_ca_flat, data) + (size_t)(i + 1) * sizeof(void *)),
                 number = (uint16_t)(offsetof(td_ca_flat, number) + (size_t)(i + 1) * sizeof(td_cuda_number));
        unsigned body = p->want[i + 1] == TD_BOOL ? TD_BODY_U8 : p->body;
        p->places[i + 1] = td_karg_is_number(&k->in[i]) ? (td_cuda_place){number, TD_CUDA_NUMBER, (uint8_t)i,
                                                                          body | (unsigned)p->round[i + 1] << 8}
                                                        : (td_cuda_place){data, TD_CUDA_IN, (uint8_t)i, 0};
    }
}

static bool lies_alike(const td_kcall *k, const pointwise *p)
{
    const td_desc *out = k->out[0].desc;
    if (out->dtype != p->want[0] || p->round[0] != TD_DTYPE_NONE || !td_desc_is_contiguous(out)) return false;
    for (int i = 0; i < p->op->nin; i++) {
        const td_desc *d = k->in[i].desc;
        if (td_karg_is_number(&k->in[i])) continue;
        if (d->dtype != p->want[i + 1] || p->round[i + 1] != TD_DTYPE_NONE || !td_desc_same_shape(d, out) ||
            !td_desc_is_contiguous(d))
            return false;
    }
    return true;
}

static double busy_ns(const td_kcall *k)
{
    double bytes = (double)td_desc_nbytes(k->out[0].desc);
    for (int i = 0; i < k->nin; i++) bytes += (double)td_desc_nbytes(k->in[i].desc);
    return td_cuda_ns(bytes);
}

int td_cuda_plan_pointwise(td_kcall *k, td_error *e)
{
    pointwise p = {0};
    int rc = choose(k, &p, e);
    if (rc) return rc;
    set_places(k, &p);
    td_cuda_begin(k);
    k->sure = !(p.op->fails & (td_dtype_is_integral(k->compute) ? TD_PW_FAILS_WHOLE : TD_PW_FAILS_FLOAT));
    if (lies_alike(k, &p)) {
        td_ca_flat a = {.n = td_desc_numel(k->out[0].desc)};
        memcpy(a.at, p.at, sizeof a.at);
        int64_t each = TD_CUDA_THREADS * (p.body == TD_BODY_U8 ? 16 : 16 / (int64_t)td_dtype_size(dtype_of[p.body]));
        td_cuda_shape shape = {{td_cuda_blocks(a.n, each), 1, 1}, {TD_CUDA_THREADS, 1, 1}, 0};
        td_cuda_add(k, p.flat, shape, &a, sizeof a, p.places, p.nops);
        return td_cuda_end(k, busy_ns(k), e);
    }
    const td_desc *d[TD_CUDA_PW_OPS] = {k->out[0].desc};
    for (int i = 0; i < p.op->nin; i++) d[i + 1] = k->in[i].desc;
    td_cuda_dims w;
    td_cuda_dims_of(&w, p.nops, d);
    td_ca_walk a = {.n = w.n, .ndim = w.ndim};
    memcpy(a.at, p.at, sizeof a.at);
    memcpy(a.shape, w.shape, sizeof a.shape);
    memcpy(a.stride, w.stride, sizeof a.stride);
    memcpy(a.round, p.round, sizeof a.round);
    for (int op = 0; op < p.nops; op++) a.dtype[op] = d[op]->dtype;
    int64_t blocks = td_cuda_blocks(a.n, TD_CUDA_THREADS);
    td_cuda_shape shape = {
        {(unsigned)(blocks < TD_CUDA_MOST_BLOCKS ? blocks : TD_CUDA_MOST_BLOCKS), 1, 1}, {TD_CUDA_THREADS, 1, 1}, 0};
    td_cuda_add(k, p.flat + 1, shape, &a, sizeof a, p.places, p.nops);
    return td_cuda_end(k, busy_ns(k), e);
}
