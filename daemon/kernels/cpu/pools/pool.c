/* See pool.h. */
#include "daemon/kernels/cpu/pools/pool.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"

static bool pair(const td_attrs *a, int i, int64_t *first, int64_t *second)
{
    int n;
    const int64_t *v = td_attr_ints(a, i, &n);
    if (n < 1 || n > 2) return false;
    *first = v[0];
    *second = v[n - 1];
    return true;
}

int td_pool2d_init(td_kcall *k, td_pooling *p, const td_desc *x, const td_desc *out, int a0, bool dilated,
                   const char *name, td_error *e)
{
    *p = (td_pooling){.planes = 1, .dh = 1, .dw = 1, .dtype = x->dtype, .acc = (uint8_t)td_acc_dtype(x->dtype)};
    if (x->ndim < 3 || x->ndim > 4 || out->ndim != x->ndim)
        return td_fail(e, TD_E_SHAPE, "%s: x must have 3 or 4 dimensions, not %d", name, x->ndim);
    if (!pair(k->attrs, a0, &p->kh, &p->kw) || !pair(k->attrs, a0 + 2, &p->ph, &p->pw) ||
        (dilated && !pair(k->attrs, a0 + 3, &p->dh, &p->dw)))
        return td_fail(e, TD_E_INVALID, "%s: kernel, padding and dilation must be one or two integers", name);
    if (!pair(k->attrs, a0 + 1, &p->sh, &p->sw)) { /* an empty stride is the kernel's size */
        p->sh = p->kh;
        p->sw = p->kw;
    }
    if (p->kh < 1 || p->kw < 1 || p->sh < 1 || p->sw < 1 || p->dh < 1 || p->dw < 1 || p->ph < 0 || p->pw < 0)
        return td_fail(e, TD_E_INVALID, "%s: kernel, stride and dilation must be at least 1, padding at least 0", name);
    p->flat = p->acc == k->in[0].desc->dtype && td_desc_is_contiguous(k->in[0].desc);
    if (p->kh == 1) p->dh = 1; /* it leads nowhere, and may be any number */
    if (p->kw == 1) p->dw = 1;
    for (int d = 0; d < x->ndim - 2; d++) p->planes *= x->shape[d];
    p->h = x->shape[x->ndim - 2], p->w = x->shape[x->ndim - 1];
    p->oh = out->shape[x->ndim - 2], p->ow = out->shape[x->ndim - 1];
    td_pool_cut(k, p, 1.2);
    return 0;
}

void td_pool_cut(td_kcall *k, td_pooling *p, double ns)
{
    const double looks = (double)td_min64(p->kh, p->h + 1) * (double)td_min64(p->kw, p->w + 1),
                 work = (double)(p->oh * p->ow) * looks + (double)(p->h * p->w) + 1, planes = (double)p->planes;
    const double share = planes / TD_CHUNK_SHARES, least = TD_SHARE_NS / (work * ns), most = TD_CHUNK_NS / (work * ns);
    p->per = td_max64(1, (int64_t)(share < least ? least : share < most ? share : most));
    k->cost_ns = planes * work * ns + 100;
}

const void *td_pool_plane_from(const td_karg *x, unsigned acc, int64_t i, void *buf)
{
    const td_desc *d = x->desc;
    int64_t size = (int64_t)td_dtype_size(d->dtype), lead = d->ndim - 2, at = 0, h = d->shape[lead],
            w = d->shape[lead + 1];
    for (int64_t n = lead - 1; n >= 0; n--) {
        at += i % d->shape[n] * d->stride[n];
        i /= d->shape[n];
    }
    const char *from = (const char *)x->data + at * size;
    bool dense = (w == 1 || d->stride[lead + 1] == 1) && (h == 1 || d->stride[lead] == w);
    if (dense && acc == d->dtype) return from;
    for (int64_t y = 0; y < h; y++)
        td_row_load((char *)buf + y * w * (int64_t)td_dtype_size(acc), from + y * d->stride[lead] * size,
                    d->stride[lead + 1], d->dtype, w);
    return buf;
}

void td_pool_bad_index(td_kcall *k, int64_t index, int64_t places)
{
    td_kernel_fail(k, TD_E_INDEX, "max_pool2d_backward: index %lld is outside of a plane of %lld", (long long)index,
                   (long long)places);
}
