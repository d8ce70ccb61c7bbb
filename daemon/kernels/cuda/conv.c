/* Plans of convolutions and pools of images. Floats alone. */
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/plans.h"
#include <string.h>

static td_cuda_image4 image(const td_desc *d)
{
    td_cuda_image4 t = {.dtype = d->dtype};
    memcpy(t.stride, d->stride, sizeof t.stride);
    return t;
}
static bool wide(const td_desc *d)
{
    return d->dtype == TD_FLOAT64;
}
/* Attribute `i` of one or two numbers. */
static void two(const td_kcall *k, int i, int64_t *a, int64_t *b)
{
    int n;
    const int64_t *v = td_attr_ints(k->attrs, i, &n);
    *a = v[0];
    *b = v[n > 1 ? 1 : 0];
}
static td_cuda_place in(size_t offset, int i)
{
    return (td_cuda_place){(uint16_t)offset, TD_CUDA_IN, (uint8_t)i, 0};
}
static td_cuda_place out(size_t offset, int i)
{
    return (td_cuda_place){(uint16_t)offset, TD_CUDA_OUT, (uint8_t)i, 0};
}

/* ---- convolutions */

static int start_conv(td_kcall *k, td_ca_conv *a, const td_desc *x, const td_desc *w, const td_desc *y, td_error *e)
{
    if (!td_dtype_is_float((td_dtype)x->dtype)) return td_cuda_refuse(k, x->dtype, e);
    *a = (td_ca_conv){.n = x->shape[0],
                      .c = x->shape[1],
                      .h = x->shape[2],
                      .w = x->shape[3],
                      .o = w->shape[0],
                      .kh = w->shape[2],
                      .kw = w->shape[3],
                      .oh = y->shape[2],
                      .ow = y->shape[3],
                      .groups = td_attr_int(k->attrs, 3),
                      .x = image(x),
                      .k = image(w),
                      .y = image(y)};
    two(k, 0, &a->sh, &a->sw);
    two(k, 1, &a->ph, &a->pw);
    two(k, 2, &a->dh, &a->dw);
    td_cuda_begin(k);
    k->sure = true;
    return TD_OK;
}

static double conv_ns(const td_ca_conv *a)
{
    int64_t channels = a->groups ? a->c / a->groups : a->c;
    return 2.0 * (double)a->n * (double)a->o * (double)a->oh * (double)a->ow * (double)channels * (double)a->kh *
           (double)a->kw / 1000.0;
}

int td_cuda_plan_conv2d(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    td_ca_conv a;
    int rc = start_conv(k, &a, x, k->in[1].desc, y, e), n = 3;
    if (rc) return rc;
    td_cuda_place places[4] = {in(offsetof(td_ca_conv, x), 0), in(offsetof(td_ca_conv, k), 1),
                               out(offsetof(td_ca_conv, y), 0)};
    if (k->nin > 2 && k->in[2].data) {
        a.b_stride = k->in[2].desc->stride[0], a.b_dtype = k->in[2].desc->dtype;
        places[n++] = in(offsetof(td_ca_conv, b), 2);
    }
    td_cuda_add(k, wide(x) ? TD_CK_conv_f64 : TD_CK_conv_f32, td_cuda_over(td_desc_numel(y)), &a, sizeof a, places, n);
    return td_cuda_end(k, conv_ns(&a), e);
}

int td_cuda_plan_conv2d_backward(td_kcall *k, td_error *e)
{
    const td_desc *g = k->in[0].desc, *x = k->in[1].desc, *w = k->in[2].desc;
    int mask = (int)td_attr_int(k->attrs, 4) & 7;
    td_ca_conv a;
    int rc = start_conv(k, &a, x, w, g, e);
    if (rc) return rc;
    bool f64 = wide(x);
    if (mask & 1) {
        td_ca_conv d = a;
        td_cuda_place places[3] = {in(offsetof(td_ca_conv, y), 0), out(offsetof(td_ca_conv, x), 0),
                                   in(offsetof(td_ca_conv, k), 2)};
        d.x = image(k->out[0].desc);
        td_cuda_add(k, f64 ? TD_CK_conv_x_f64 : TD_CK_conv_x_f32, td_cuda_over(td_desc_numel(x)), &d, sizeof d, places,
                    3);
    }
    if (mask & 6) { /* of both the same arguments */
        td_cuda_place places[4] = {in(offsetof(td_ca_conv, y), 0), in(offsetof(td_ca_conv, x), 1),
                                   out(offsetof(td_ca_conv, k), 1), out(offsetof(td_ca_conv, b), 2)};
        td_cuda_shape weights = {{(unsigned)td_desc_numel(w), 1, 1}, {256, 1, 1}, 0},
                      bias = {{(unsigned)a.o, 1, 1}, {256, 1, 1}, 0};
        unsigned kk = f64 ? TD_CK_conv_k_f64 : TD_CK_conv_k_f32, kb = f64 ? TD_CK_conv_b_f64 : TD_CK_conv_b_f32;
        if (mask & 2) a.k = image(k->out[1].desc);
        if (mask & 4) a.b_stride = k->out[2].desc->stride[0], a.b_dtype = k->out[2].desc->dtype;
        td_cuda_add(k, mask & 2 ? kk : kb, mask & 2 ? weights : bias, &a, sizeof a, places, 4);
        if ((mask & 6) == 6 && weights.grid[0]) td_cuda_again(k, kb, bias);
    }
    return td_cuda_end(k, 2 * conv_ns(&a), e);
}

/* ---- pools */

static int start_pool(td_kcall *k, td_ca_pool *a, const td_desc *x, const td_desc *y, int attr, td_error *e)
{
    if (!td_dtype_is_float((td_dtype)x->dtype)) return td_cuda_refuse(k, x->dtype, e);
    *a = (td_ca_pool){.n = x->shape[0],
                      .c = x->shape[1],
                      .h = x->shape[2],
                      .w = x->shape[3],
                      .oh = y->shape[2],
                      .ow = y->shape[3],
                      .dh = 1,
                      .dw = 1,
                      .x = image(x),
                      .y = image(y)};
    if (attr >= 0) {
        two(k, attr, &a->kh, &a->kw);
        two(k, attr + 1, &a->sh, &a->sw);
        two(k, attr + 2, &a->ph, &a->pw);
    }
    td_cuda_begin(k);
    return TD_OK;
}

int td_cuda_plan_max_pool2d(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    td_ca_pool a;
    int rc = start_pool(k, &a, x, y, 0, e);
    if (rc) return rc;
    two(k, 3, &a.dh, &a.dw);
    a.index = image(k->out[1].desc);
    td_cuda_place places[3] = {in(offsetof(td_ca_pool, x), 0), out(offsetof(td_ca_pool, y), 0),
                               out(offsetof(td_ca_pool, index), 1)};
    td_cuda_add(k, wide(x) ? TD_CK_max_pool_f64 : TD_CK_max_pool_f32, td_cuda_over(td_desc_numel(y)), &a, sizeof a,
                places, 3);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(x)), e);
}
int td_cuda_plan_max_pool2d_backward(td_kcall *k, td_error *e)
{
    const td_desc *g = k->in[0].desc, *dx = k->out[0].desc;
    td_ca_pool a;
    int rc = start_pool(k, &a, dx, g, -1, e);
    if (rc) return rc;
    a.index = image(k->in[1].desc);
    td_cuda_place places[3] = {out(offsetof(td_ca_pool, x), 0), in(offsetof(td_ca_pool, y), 0),
                               in(offsetof(td_ca_pool, index), 1)};
    if (td_desc_numel(dx))
        td_cuda_add(k, wide(dx) ? TD_CK_max_pool_back_f64 : TD_CK_max_pool_back_f32, td_cuda_over(a.n * a.c), &a,
                    sizeof a, places, 3);
    return td_cuda_end(k, td_cuda_ns(4 * (double)td_desc_nbytes(dx)), e);
}
int td_cuda_plan_avg_pool2d(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    td_ca_pool a;
    int rc = start_pool(k, &a, x, y, 0, e);
    if (rc) return rc;
    a.include_pad = td_attr_bool(k->attrs, 4);
    td_cuda_place places[2] = {in(offsetof(td_ca_pool, x), 0), out(offsetof(td_ca_pool, y), 0)};
    td_cuda_add(k, wide(x) ? TD_CK_avg_pool_f64 : TD_CK_avg_pool_f32, td_cuda_over(td_desc_numel(y)), &a, sizeof a,
                places, 2);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(x)), e);
}
int td_cuda_plan_avg_pool2d_backward(td_kcall *k, td_error *e)
{
    const td_desc *g = k->in[0].desc, *dx = k->out[0].desc;
    td_ca_pool a;
    int rc = start_pool(k, &a, dx, g, 1, e);
    if (rc) return rc;
    a.include_pad = td_attr_bool(k->attrs, 5);
    td_cuda_place places[2] = {out(offsetof(td_ca_pool, x), 0), in(offsetof(td_ca_pool, y), 0)};
    if (td_desc_numel(dx))
        td_cuda_add(k, wide(dx) ? TD_CK_avg_pool_back_f64 : TD_CK_avg_pool_back_f32, td_cuda_over(td_desc_numel(dx)),
                    &a, sizeof a, places, 2);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(dx)), e);
}
