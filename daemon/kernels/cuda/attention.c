/* Plans of attention and its gradients: a block for each row of a result. */
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/plans.h"
#include <string.h>

static void strides(int64_t *to, const td_desc *d)
{
    memcpy(to, d->stride, sizeof *to * d->ndim);
}

/* The mask is broadcast. */
static void mask_of(td_ca_attention *a, const td_karg *mask)
{
    const td_desc *d = mask->desc;
    if (!d) return;
    a->mask_dtype = d->dtype;
    for (int i = 0; i < d->ndim; i++)
        if (d->shape[i] != 1) a->ms[4 - d->ndim + i] = d->stride[i];
}

static int begin(td_kcall *k, td_ca_attention *a, int q, td_error *e)
{
    const td_desc *qd = k->in[q].desc, *kd = k->in[q + 1].desc, *vd = k->in[q + 2].desc;
    if (!td_dtype_is_float((td_dtype)qd->dtype)) return td_cuda_refuse(k, qd->dtype, e);
    *a = (td_ca_attention){.batch = qd->shape[0],
                           .heads = qd->shape[1],
                           .pairs = kd->shape[1],
                           .rows = qd->shape[2],
                           .keys = kd->shape[2],
                           .e = qd->shape[3],
                           .f = vd->shape[3],
                           .dtype = qd->dtype,
                           .causal = td_attr_bool(k->attrs, 0),
                           .scale = td_attr_float(k->attrs, 1)};
    a->group = a->pairs ? a->heads / a->pairs : 1;
    strides(a->qs, qd), strides(a->ks, kd), strides(a->vs, vd);
    mask_of(a, &k->in[q + 3]);
    td_cuda_begin(k);
    return TD_OK;
}

static int operands(td_cuda_place *to, const td_kcall *k, int q)
{
    int n = 0;
    to[n++] = (td_cuda_place){offsetof(td_ca_attention, q), TD_CUDA_IN, (uint8_t)q, 0};
    to[n++] = (td_cuda_place){offsetof(td_ca_attention, k), TD_CUDA_IN, (uint8_t)(q + 1), 0};
    to[n++] = (td_cuda_place){offsetof(td_ca_attention, v), TD_CUDA_IN, (uint8_t)(q + 2), 0};
    if (k->in[q + 3].desc) to[n++] = (td_cuda_place){offsetof(td_ca_attention, mask), TD_CUDA_IN, (uint8_t)(q + 3), 0};
    return n;
}

static td_cuda_shape rows(int64_t n)
{
    return (td_cuda_shape){{(unsigned)n, 1, 1}, {TD_CUDA_THREADS, 1, 1}, 0};
}

/* Multiplications: at 1 TFLOP/s. */
static double busy_ns(const td_ca_attention *a, double each)
{
    return each * (double)a->batch * (double)a->heads * (double)a->rows * (double)a->keys * (double)(a->e + a->f) /
           1000;
}

int td_cuda_plan_tiled_attention(td_kcall *k, td_error *e)
{
    td_ca_attention a;
    td_cuda_place places[6];
    int rc = begin(k, &a, 0, e);
    if (rc) return rc;
    int n = operands(places, k, 0);
    a.lse_dtype = k->out[1].desc->dtype;
    places[n++] = (td_cuda_place){offsetof(td_ca_attention, out), TD_CUDA_OUT, 0, 0};
    places[n++] = (td_cuda_place){offsetof(td_ca_attention, lse), TD_CUDA_OUT, 1, 0};
    td_cuda_add(k, a.dtype == TD_FLOAT64 ? TD_CK_attend_f64 : TD_CK_attend_f32, rows(a.batch * a.heads * a.rows), &a,
                sizeof a, places, n);
    k->sure = true;
    return td_cuda_end(k, busy_ns(&a, 4), e);
}

/* ---- backward: a launch for each gradient that is wanted. Their arguments differ in one address */

typedef struct gradients {
    td_ca_attention a;
    uint8_t wanted[3]; /* launch i makes output wanted[i] */
} gradients;
_Static_assert(sizeof(gradients) + 32 <= TD_KSTATE_BYTES, "they fit the state");

static void make_gradient(td_kcall *k, void *notes, int i, td_cuda_launch *l)
{
    static const unsigned kernels[3][2] = {{TD_CK_attend_dq_f32, TD_CK_attend_dq_f64},
                                           {TD_CK_attend_dk_f32, TD_CK_attend_dk_f64},
                                           {TD_CK_attend_dv_f32, TD_CK_attend_dv_f64}};
    gradients *g = notes;
    td_ca_attention *a = &g->a;
    int which = g->wanted[i];
    a->g = k->in[0].data, a->q = k->in[1].data, a->k = k->in[2].data, a->v = k->in[3].data;
    a->mask = k->in[4].desc ? k->in[4].data : NULL;
    a->y = k->in[5].data, a->lse = k->in[6].data;
    a->out = k->out[which].data;
    td_cuda_shape shape = rows(which ? a->batch * a->pairs * a->keys : a->batch * a->heads * a->rows);
    *l = (td_cuda_launch){.kernel = kernels[which][a->dtype == TD_FLOAT64], .bytes = sizeof *a, .args = a};
    memcpy(l->grid, shape.grid, sizeof l->grid);
    memcpy(l->block, shape.block, sizeof l->block);
}

int td_cuda_plan_tiled_attention_backward(td_kcall *k, td_error *e)
{
    td_ca_attention a;
    int rc = begin(k, &a, 1, e), n = 0;
    if (rc) return rc;
    strides(a.gs, k->in[0].desc), strides(a.ys, k->in[5].desc), strides(a.ls, k->in[6].desc);
    a.lse_dtype = k->in[6].desc->dtype;
    uint8_t wanted[3];
    for (int i = 0; i < 3; i++)
        if (td_desc_numel(k->out[i].desc)) wanted[n++] = (uint8_t)i;
    gradients *g = td_cuda_made(k, n, make_gradient, sizeof *g);
    g->a = a;
    memcpy(g->wanted, wanted, sizeof wanted);
    k->sure = true;
    return td_cuda_end(k, busy_ns(&a, 12), e);
}
