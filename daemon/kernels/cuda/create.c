/* Plans of arange, linspace and eye, as the CPU has them (cpu/layout/create.c). Results are contiguous. */
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/plans.h"

static double real(const td_scalar *s)
{
    return s->kind <= TD_S_INT ? (double)s->i : s->re;
}
static int64_t whole(const td_scalar *s)
{
    return s->kind <= TD_S_INT ? s->i : (int64_t)s->re;
}

static int plan_sequence(td_kcall *k, td_ca_sequence *a, unsigned kernel, td_error *e)
{
    const td_desc *y = k->out[0].desc;
    td_cuda_place place = {offsetof(td_ca_sequence, to), TD_CUDA_OUT, 0, 0};
    int64_t blocks;
    a->n = td_desc_numel(y);
    a->dtype = y->dtype;
    if (kernel == TD_CK_sequence && td_dtype_is_complex((td_dtype)y->dtype)) return td_cuda_refuse(k, y->dtype, e);
    blocks = td_cuda_blocks(a->n, TD_CUDA_THREADS);
    td_cuda_begin(k);
    td_cuda_add(k, kernel,
                (td_cuda_shape){{(unsigned)(blocks < TD_CUDA_MOST_BLOCKS ? blocks : TD_CUDA_MOST_BLOCKS), 1, 1},
                                {TD_CUDA_THREADS, 1, 1},
                                0},
                a, sizeof *a, &place, 1);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns((double)td_desc_nbytes(y)), e);
}

int td_cuda_plan_arange(td_kcall *k, td_error *e)
{
    const td_desc *y = k->out[0].desc;
    const td_scalar *start = &k->attrs->at[0].s, *step = &k->attrs->at[2].s;
    td_ca_sequence a = {.start = real(start), .step = real(step)};
    a.whole = td_dtype_is_integral((td_dtype)y->dtype) &&
              (y->dtype == TD_INT64 || (start->kind <= TD_S_INT && step->kind <= TD_S_INT));
    a.whole_start = a.whole ? whole(start) : 0;
    a.whole_step = a.whole ? whole(step) : 0;
    a.end = a.start + a.step * (double)(y->shape[0] - 1);
    return plan_sequence(k, &a, TD_CK_sequence, e);
}

int td_cuda_plan_linspace(td_kcall *k, td_error *e)
{
    int64_t n = k->out[0].desc->shape[0];
    td_ca_sequence a = {.start = td_attr_float(k->attrs, 0)};
    a.end = n > 1 ? td_attr_float(k->attrs, 1) : a.start;
    a.step = n > 1 ? (a.end - a.start) / (double)(n - 1) : 0;
    return plan_sequence(k, &a, TD_CK_sequence, e);
}

int td_cuda_plan_eye(td_kcall *k, td_error *e)
{
    td_ca_sequence a = {.columns = k->out[0].desc->shape[1]};
    return plan_sequence(k, &a, TD_CK_eye, e);
}
