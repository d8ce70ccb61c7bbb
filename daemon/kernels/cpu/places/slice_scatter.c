/* select_scatter and slice_scatter: x with a slice of it replaced by src. A copy, then a strided copy into the slice.
 */
#include "daemon/kernels/cpu/layout/copy_first.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"

typedef struct slice_state {
    int nd;
    int64_t shape[TD_MAX_DIMS], stride[TD_MAX_DIMS], start, count; /* the slice of out, in elements */
} slice_state;

static void slice_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const slice_state *s = (const slice_state *)k->state;
    size_t size = td_dtype_size(k->out[0].desc->dtype);
    int64_t b, e;
    (void)scratch;
    td_cut_range(s->count, TD_SLICE_CHUNK, chunk, &b, &e);
    td_copy_strided(s->nd, s->shape, (char *)k->out[0].data + s->start * (int64_t)size, s->stride, k->in[1].data,
                    k->in[1].desc->stride, size, b, e - b);
}

static int plan_slice(td_kcall *k, slice_state *s, const char *name, td_error *e)
{
    const td_desc *src = k->in[1].desc;
    if (src->dtype != k->out[0].desc->dtype)
        return td_fail(e, TD_E_TYPE, "%s: src is %s, the tensor is %s", name, td_dtype_name(src->dtype),
                       td_dtype_name(k->out[0].desc->dtype));
    s->count = td_desc_numel(src);
    s->nd = src->ndim;
    memcpy(s->shape, src->shape, sizeof s->shape);
    td_plan_copy_first(k);
    td_plan_phase(k, slice_chunk, td_cut(s->count, TD_SLICE_CHUNK));
    k->cost_ns += (double)s->count * 0.8 + 100;
    k->sure = true;
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_select_scatter(td_kcall *k, td_error *e)
{
    slice_state *s = (slice_state *)k->state;
    const td_desc *y = k->out[0].desc;
    int dim;
    *s = (slice_state){0};
    if (td_wrap_dim(td_attr_int(k->attrs, 0), y->ndim, &dim, e)) return TD_E_INDEX;
    if (y->ndim == 0) return td_fail(e, TD_E_INDEX, "select_scatter cannot be applied to a 0-dim tensor");
    int64_t i = td_attr_int(k->attrs, 1);
    if (i < -y->shape[dim] || i >= y->shape[dim])
        return td_fail(e, TD_E_INDEX, "index %lld is out of bounds for dimension %d with size %lld", (long long)i, dim,
                       (long long)y->shape[dim]);
    s->start = (i < 0 ? i + y->shape[dim] : i) * y->stride[dim];
    for (int d = 0, j = 0; d < y->ndim; d++)
        if (d != dim) s->stride[j++] = y->stride[d];
    return plan_slice(k, s, "select_scatter", e);
}

/* A bound of a slice as Python takes it: absent, negative from the end, cut to the size. */
static int64_t bound(const td_attrs *a, int i, int64_t absent, int64_t size)
{
    if (!td_attr_given(a, i)) return absent;
    int64_t v = td_attr_int(a, i);
    if (v < 0) v = v < -size ? 0 : v + size;
    return td_min64(v, size);
}

int td_cpu_plan_slice_scatter(td_kcall *k, td_error *e)
{
    slice_state *s = (slice_state *)k->state;
    const td_desc *y = k->out[0].desc, *src = k->in[1].desc;
    int dim;
    *s = (slice_state){0};
    if (td_wrap_dim(td_attr_int(k->attrs, 0), y->ndim, &dim, e)) return TD_E_INDEX;
    if (y->ndim == 0) return td_fail(e, TD_E_INDEX, "slice_scatter cannot be applied to a 0-dim tensor");
    int64_t size = y->shape[dim], step = td_attr_int(k->attrs, 3);
    int64_t start = bound(k->attrs, 1, 0, size), end = bound(k->attrs, 2, size, size);
    if (step < 1) return td_fail(e, TD_E_INVALID, "slice_scatter: step must be at least 1, not %lld", (long long)step);
    int64_t length = end > start ? (end - start - 1) / step + 1 : 0;
    if (src->ndim != y->ndim || src->shape[dim] != length)
        return td_fail(e, TD_E_SHAPE, "slice_scatter: src has size %lld in dimension %d, the slice %lld",
                       src->ndim == y->ndim ? (long long)src->shape[dim] : -1, dim, (long long)length);
    s->start = start * y->stride[dim];
    for (int d = 0; d < y->ndim; d++) s->stride[d] = y->stride[d] * (d == dim && length > 1 ? step : 1);
    return plan_slice(k, s, "slice_scatter", e);
}
