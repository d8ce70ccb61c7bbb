/* scatter and scatter_add: an index for each element of src, in place or on a copy.
 *
 * Phase 0 loads every index once and keeps the byte offset it leads to in work memory; nothing is written unless all
 * were in range. Elements that may meet (they differ only along `dim`) are always done by one chunk in order, so the
 * result does not depend on who runs what: chunks cut the longest other dimension, or, when there is none, the target.
 */
#include "daemon/kernels/cpu/accumulate.h"
#include "daemon/kernels/cpu/copy_first.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"

typedef struct scatter_state {
    int dim, axis;       /* axis: the dimension that chunks cut, or -1 */
    int64_t limit, step; /* of the target along dim: size, stride in bytes */
    int64_t per, parts;  /* of axis; of the reach along dim */
    bool add, number;    /* src is one number of another dtype */
} scatter_state;

/* Strides of the target with dim taken out: what an index adds is along dim only. */
static void other_strides(const td_kcall *k, const scatter_state *s, int64_t *stride)
{
    const td_desc *y = k->out[0].desc;
    for (int d = 0; d < k->in[1].desc->ndim; d++) stride[d] = d == s->dim || y->ndim == 0 ? 0 : y->stride[d];
}

static void check_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const scatter_state *s = (const scatter_state *)k->state;
    const td_desc *idx = k->in[1].desc;
    int64_t b, e, *start = k->work, *to;
    td_walk w;
    td_walk_at at;
    (void)scratch;
    td_walk_init(&w, idx->ndim, idx->shape);
    td_walk_add_desc(&w, idx);
    td_walk_merge(&w);
    td_cut_range(w.count, TD_SCATTER_CHECK, chunk, &b, &e);
    to = start + b;
    for (td_walk_begin(&w, &at, &k->in[1].data, b, e - b); at.run; td_walk_next(&w, &at))
        for (int64_t i = 0; i < at.run; i++) {
            int64_t v = td_load_index(at.p[0] + i * td_walk_inner(&w, 0), idx->dtype);
            if (v < 0 || v >= s->limit) {
                td_fail_index(k, v, to - start, s->dim, s->limit);
                return;
            }
            *to++ = v * s->step;
        }
}

/* src of a number may have a dtype of its own. */
static const void *source(const td_kcall *k, const scatter_state *s, char buf[16])
{
    if (!s->number) return k->in[2].data;
    td_scalar_store(td_scalar_load(k->in[2].desc->dtype, k->in[2].data), k->out[0].desc->dtype, buf);
    return buf;
}

static void write_run(const scatter_state *s, unsigned dtype, const td_walk_at *at, const int64_t step[3], int64_t low,
                      int64_t high)
{
    size_t size = td_dtype_size(dtype);
    for (int64_t i = 0; i < at->run; i++) {
        int64_t offset = *(const int64_t *)(at->p[1] + i * step[1]);
        if (offset < low || offset >= high) continue;
        char *to = at->p[0] + i * step[0] + offset;
        const char *from = at->p[2] + i * step[2];
        if (s->add) td_add_run(dtype, to, 0, from, 0, 1, false, td_int(1));
        else if (size == 4) *(uint32_t *)to = *(const uint32_t *)from;
        else if (size == 8) *(uint64_t *)to = *(const uint64_t *)from;
        else memcpy(to, from, size);
    }
}

static void write_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const scatter_state *s = (const scatter_state *)k->state;
    const td_desc *idx = k->in[1].desc, *src = k->in[2].desc;
    unsigned dtype = k->out[0].desc->dtype;
    int64_t shape[TD_MAX_DIMS], target[TD_MAX_DIMS], packed[TD_MAX_DIMS], from[TD_MAX_DIMS] = {0}, width = 1, b = 0, e;
    char number[16];
    (void)scratch;
    if (atomic_load(&k->failed)) return;
    other_strides(k, s, target);
    for (int d = idx->ndim - 1; d >= 0; d--) {
        shape[d] = idx->shape[d];
        packed[d] = width;
        width *= shape[d];
        if (!s->number) from[d] = src->stride[d];
    }
    if (s->axis >= 0) {
        td_cut_range(idx->shape[s->axis], s->per, chunk / s->parts, &b, &e);
        shape[s->axis] = e - b;
    }
    int64_t at_axis = s->axis >= 0 ? s->axis : 0, size = (int64_t)td_dtype_size(dtype);
    td_walk w;
    td_walk_at at;
    td_walk_init(&w, idx->ndim, shape);
    td_walk_add(&w, target, (size_t)size);
    td_walk_add(&w, packed, 8);
    td_walk_add(&w, from, (size_t)size);
    td_walk_merge(&w);
    void *base[3] = {k->out[0].data, k->work, (void *)source(k, s, number)};
    if (idx->ndim) {
        base[0] = (char *)base[0] + b * target[at_axis] * size;
        base[1] = (char *)base[1] + b * packed[at_axis] * 8;
        base[2] = (char *)base[2] + b * from[at_axis] * size;
    }
    int64_t step[3] = {td_walk_inner(&w, 0), td_walk_inner(&w, 1), td_walk_inner(&w, 2)};
    int64_t reach = (td_max64(1, s->limit) + s->parts - 1) / s->parts * s->step, low = chunk % s->parts * reach;
    if (s->parts == 1) reach = INT64_MAX;
    for (td_walk_begin(&w, &at, base, 0, w.count); at.run; td_walk_next(&w, &at))
        write_run(s, dtype, &at, step, low, s->parts == 1 ? reach : low + reach);
}

static void cut(td_kcall *k, scatter_state *s, int64_t n)
{
    const td_desc *idx = k->in[1].desc;
    double cost = (double)n * (s->add ? 5 : 3);
    int64_t want = td_min64((int64_t)(cost / TD_CHUNK_NS) + 1, TD_PUT_CHUNKS);
    s->axis = -1;
    s->per = 1;
    s->parts = 1;
    for (int d = 0; d < idx->ndim; d++)
        if (d != s->dim && idx->shape[d] > 1 && (s->axis < 0 || idx->shape[d] > idx->shape[s->axis])) s->axis = d;
    if (s->axis >= 0) s->per = td_cut(idx->shape[s->axis], td_min64(want, idx->shape[s->axis]));
    int64_t chunks = s->axis >= 0 ? td_cut(idx->shape[s->axis], s->per) : 1;
    if (s->axis < 0 && s->step > 0) s->parts = td_max64(1, td_min64(td_min64(want, TD_SCATTER_PARTS), s->limit));
    td_plan_phase(k, write_chunk, chunks * s->parts);
    k->cost_ns += cost + (double)n;
}

static int plan_scatter(td_kcall *k, bool add, const char *name, td_error *e)
{
    const td_desc *y = k->out[0].desc, *idx = k->in[1].desc;
    scatter_state *s = (scatter_state *)k->state;
    *s = (scatter_state){.add = add};
    if (!td_is_index_dtype(idx->dtype))
        return td_fail(e, TD_E_TYPE, "%s: an index must be an integer tensor, not %s", name, td_dtype_name(idx->dtype));
    if (td_wrap_dim(td_attr_int(k->attrs, 0), y->ndim, &s->dim, e)) return TD_E_INDEX;
    s->number = k->in[2].desc->ndim == 0 && (idx->ndim > 0 || k->in[2].desc->dtype != y->dtype);
    if (!s->number && k->in[2].desc->dtype != y->dtype)
        return td_fail(e, TD_E_TYPE, "%s: src is %s, the tensor is %s", name, td_dtype_name(k->in[2].desc->dtype),
                       td_dtype_name(y->dtype));
    s->limit = y->ndim ? y->shape[s->dim] : 1;
    s->step = y->ndim ? y->stride[s->dim] * (int64_t)td_dtype_size(y->dtype) : 0;
    int64_t n = td_desc_numel(idx);
    td_plan_work(k, (size_t)n * 8);
    td_plan_phase(k, check_chunk, td_cut(n, TD_SCATTER_CHECK));
    td_plan_clean_until_here(k);
    td_plan_copy_first(k);
    if (n > 0) cut(k, s, n);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_scatter(td_kcall *k, td_error *e)
{
    return plan_scatter(k, false, "scatter", e);
}

int td_cpu_plan_scatter_add(td_kcall *k, td_error *e)
{
    return plan_scatter(k, true, "scatter_add", e);
}
