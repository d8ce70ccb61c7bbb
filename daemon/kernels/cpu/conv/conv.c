/* conv2d and conv2d_backward: the geometry, and the choice of the way. A 1x1 convolution without stride and padding is
 * W x X for each image, or for channels last X' x W' for all at once, and needs no columns. */
#include "daemon/kernels/cpu/conv/conv.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/products/gemm.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/plans.h"

static bool pair(const td_attrs *a, int i, int64_t *first, int64_t *second)
{
    int n;
    const int64_t *v = td_attr_ints(a, i, &n);
    if (n < 1 || n > 2) return false;
    *first = v[0];
    *second = v[n - 1];
    return true;
}

int td_conv_geometry(td_kcall *k, td_conv *c, const td_desc *x, const td_desc *w, const td_desc *out, int g0,
                     const char *name, td_error *e)
{
    *c = (td_conv){.dtype = x->dtype, .acc = (uint8_t)td_acc_dtype(x->dtype)};
    if (x->dtype == TD_BOOL)
        return td_fail(e, TD_E_UNSUPPORTED, "%s has no CPU kernel for %s", name, td_dtype_name(x->dtype));
    if (x->ndim != 4 || w->ndim != 4 || out->ndim != 4)
        return td_fail(e, TD_E_SHAPE, "%s: x and w must have 4 dimensions", name);
    if (w->dtype != x->dtype)
        return td_fail(e, TD_E_TYPE, "%s: x is %s, w is %s", name, td_dtype_name(x->dtype), td_dtype_name(w->dtype));
    if (!pair(k->attrs, g0, &c->sh, &c->sw) || !pair(k->attrs, g0 + 1, &c->ph, &c->pw) ||
        !pair(k->attrs, g0 + 2, &c->dh, &c->dw))
        return td_fail(e, TD_E_INVALID, "%s: stride, padding and dilation must be one or two integers", name);
    c->g = td_attr_int(k->attrs, g0 + 3);
    c->n = x->shape[0], c->c = x->shape[1], c->h = x->shape[2], c->w = x->shape[3];
    c->o = w->shape[0], c->kh = w->shape[2], c->kw = w->shape[3];
    c->oh = out->shape[2], c->ow = out->shape[3];
    if (c->sh < 1 || c->sw < 1 || c->dh < 1 || c->dw < 1 || c->ph < 0 || c->pw < 0 || c->g < 1 || c->o % c->g ||
        c->c != c->g * w->shape[1])
        return td_fail(e, TD_E_INVALID, "%s: stride, padding, dilation or groups do not fit", name);
    c->cg = w->shape[1];
    c->og = c->o / c->g;
    c->k = c->cg * c->kh * c->kw;
    c->p = c->oh * c->ow;
    memcpy(c->xs, x->stride, sizeof c->xs);
    return 0;
}

/* Of one element, at each place; and a plane of x has one step, from place to place. */
static bool is_pointwise(const td_conv *c, int64_t *step)
{
    if (c->kh != 1 || c->kw != 1 || c->sh != 1 || c->sw != 1 || c->ph || c->pw || c->g != 1) return false;
    *step = c->w > 1 ? c->xs[3] : c->xs[2];
    return c->w <= 1 || c->h <= 1 || c->xs[2] == c->w * c->xs[3];
}

bool td_conv_plan_pointwise(td_kcall *k, const td_conv *c, td_error *e, int *code)
{
    const td_desc *x = k->in[0].desc, *w = k->in[1].desc;
    int64_t step;
    if (!is_pointwise(c, &step)) return false;
    td_gemm g = {.dtype = c->dtype,
                 .batch = c->n,
                 .m = c->o,
                 .n = c->p,
                 .k = c->c,
                 .c = k->out[0].data,
                 .alpha = td_int(1),
                 .beta = td_int(1)};
    g.a = (td_gemm_mat){.data = k->in[1].data, .rs = w->stride[0], .cs = w->stride[1]};
    g.b = (td_gemm_mat){.data = k->in[0].data, .rs = x->stride[1], .cs = step, .bs = c->n > 1 ? x->stride[0] : 0};
    if (!td_absent(&k->in[2])) {
        g.has_d = 1;
        g.d = (td_gemm_mat){.data = k->in[2].data, .rs = k->in[2].desc->stride[0]};
    }
    *code = td_gemm_plan(k, &g, "conv2d", e);
    return true;
}

/* The same for a result that lies channels last: the places of all images by C, times W transposed. */
static bool plan_pointwise_last(td_kcall *k, const td_conv *c, td_error *e, int *code)
{
    const td_desc *w = k->in[1].desc;
    int64_t step;
    if (!is_pointwise(c, &step) || !td_desc_is_channels_last(k->out[0].desc)) return false;
    bool follow = c->n == 1 || c->xs[0] == c->p * step;
    td_gemm g = {.dtype = c->dtype,
                 .batch = follow ? 1 : c->n,
                 .m = follow ? c->n * c->p : c->p,
                 .n = c->o,
                 .k = c->c,
                 .c = k->out[0].data,
                 .alpha = td_int(1),
                 .beta = td_int(1)};
    g.a = (td_gemm_mat){.data = k->in[0].data, .rs = step, .cs = c->xs[1], .bs = follow ? 0 : c->xs[0]};
    g.b = (td_gemm_mat){.data = k->in[1].data, .rs = w->stride[1], .cs = w->stride[0]};
    if (!td_absent(&k->in[2])) {
        g.has_d = 1;
        g.d = (td_gemm_mat){.data = k->in[2].data, .cs = k->in[2].desc->stride[0]};
    }
    *code = td_gemm_plan(k, &g, "conv2d", e);
    return true;
}

int td_cpu_plan_conv2d(td_kcall *k, td_error *e)
{
    td_conv c;
    int rc = td_conv_geometry(k, &c, k->in[0].desc, k->in[1].desc, k->out[0].desc, 0, "conv2d", e);
    if (rc) return rc;
    if (td_desc_numel(k->out[0].desc) == 0) return 0;
    bool rows = td_desc_is_contiguous(k->out[0].desc);
    if (rows && td_conv_plan_pointwise(k, &c, e, &rc)) return rc;
    if (rows && td_conv_plan_depthwise(k, &c)) return 0;
    if (td_conv_plan_dnnl(k, &c)) return 0;
    if (!rows && plan_pointwise_last(k, &c, e, &rc)) return rc;
    if (!rows && td_conv_plan_depthwise_last(k, &c)) return 0;
    return rows ? td_conv_plan_im2col(k, &c) : td_plan_wants_rows(k);
}

int td_cpu_plan_conv2d_backward(td_kcall *k, td_error *e)
{
    td_conv c;
    int rc = td_conv_geometry(k, &c, k->in[1].desc, k->in[2].desc, k->in[0].desc, 0, "conv2d_backward", e);
    if (rc) return rc;
    c.backward = true;
    c.mask = (uint8_t)(td_attr_int(k->attrs, 4) & 7);
    if (c.mask > 1 && !td_dtype_is_float(c.dtype) && !td_dtype_is_complex(c.dtype))
        return td_fail(e, TD_E_UNSUPPORTED, "conv2d_backward: of %s only the gradient of x is there (mask 1)",
                       td_dtype_name(c.dtype));
    bool rows = td_desc_is_contiguous(k->out[0].desc); /* one that is not wanted has no elements */
    if ((rows && td_conv_plan_depthwise_backward(k, &c)) || td_conv_plan_dnnl_backward(k, &c)) return 0;
    return rows ? td_conv_plan_im2col_backward(k, &c) : td_plan_wants_rows(k);
}
