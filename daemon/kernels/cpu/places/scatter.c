/* scatter, scatter_add and scatter_fold: an index for each element of src, in place or on a copy.
 *
 * In place, phase 0 loads every index once and keeps the byte offset it leads to in work memory; nothing is written
 * unless all were in range. Elsewhere the result may be half written when an index is not (one that was given is lost
 * then, as gather's is), so there each is checked where it is used, and its chunk copies the part of x that it writes
 * to, while that is near. Elements that may meet (they differ only along `dim`) are always done by one chunk in order,
 * so the result does not depend on who runs what: chunks cut the longest other dimension. Where there is none, one
 * chunk does all of them (several that look for what is theirs take longer), but for histograms (scatter_pieces.c). */
#include "daemon/kernels/cpu/places/scatter.h"
#include "daemon/kernels/cpu/layout/copy_first.h"
#include "daemon/kernels/cpu/places/index_load.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/plans.h"

/* Strides of the target with dim taken out: what an index adds is along dim only. */
static void other_strides(const td_kcall *k, const td_scatter *s, int64_t *stride)
{
    const td_desc *y = k->out[0].desc;
    for (int d = 0; d < k->in[1].desc->ndim; d++) stride[d] = d == s->dim || y->ndim == 0 ? 0 : y->stride[d];
}

static void check_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_scatter *s = (const td_scatter *)k->state;
    const td_desc *idx = k->in[1].desc;
    int64_t b, e, *start = k->work, *to;
    td_walk w;
    td_walk_at at;
    (void)scratch;
    int64_t shape[TD_MAX_DIMS];
    for (int d = 0; d < idx->ndim; d++) shape[d] = s->inner > 1 && d > s->dim ? 1 : idx->shape[d];
    td_walk_init(&w, idx->ndim, shape);
    td_walk_add(&w, idx->stride, td_dtype_size(idx->dtype));
    td_walk_merge(&w);
    const td_index_load load = {.dtype = idx->dtype, .limit = s->limit, .unit = s->step};
    int64_t step = td_walk_inner(&w, 0), bad = 0;
    td_cut_range(w.count, TD_SCATTER_CHECK, chunk, &b, &e);
    to = start + b;
    for (td_walk_begin(&w, &at, &k->in[1].data, b, e - b); at.run; td_walk_next(&w, &at)) {
        for (int64_t n, i = 0; i < at.run; i += n, to += n) {
            n = td_min64(TD_INDEX_BLOCK, at.run - i); /* that lie in the first cache until they are multiplied */
            int64_t done = td_load_offsets(&load, to, at.p[0] + i * step, step, n, &bad);
            if (done == n) continue;
            td_fail_index(k, bad, (to + done - start) * s->inner, s->dim, s->limit);
            return;
        }
    }
}

const void *td_scatter_source(const td_kcall *k, const td_scatter *s, char buf[16])
{
    if (!s->number) return k->in[2].data;
    td_scalar_store(td_scalar_load(k->in[2].desc->dtype, k->in[2].data), k->out[0].desc->dtype, buf);
    return buf;
}

/* Elements of one type where each may go; those of a row to one row are most of all. */
#define EACH(T, DO)                                                                                                    \
    {                                                                                                                  \
        if (s0 == 0 && s1 == 8 && s2 == sizeof(T)) _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++)             \
            {                                                                                                          \
                T *to = (T *)(target + ((const int64_t *)offset)[i]);                                                  \
                const T *from = (const T *)source + i;                                                                 \
                DO;                                                                                                    \
            }                                                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                T *to = (T *)(target + i * s0 + *(const int64_t *)(offset + i * s1));                                  \
                const T *from = (const T *)(source + i * s2);                                                          \
                DO;                                                                                                    \
            }                                                                                                          \
    }
#define SET *to = *from
#define ADD *to += *from

void td_scatter_some(const td_scatter *s, unsigned dtype, const td_walk_at *at, const int64_t step[3])
{
    size_t size = td_dtype_size(dtype);
    bool set = s->how == TD_FOLD_WRITE;
    char *target = at->p[0];
    const char *offset = at->p[1], *source = at->p[2];
    const int64_t n = at->run, s0 = step[0], s1 = step[1], s2 = step[2];
    if (s->rows && set) td_copy_run(target + *(const int64_t *)offset, s0, source, s2, size, n);
    else if (s->rows && s->how == TD_FOLD_ADD)
        td_add_run(dtype, target + *(const int64_t *)offset, s0, source, s2, n, false, td_int(1));
    else if (set && size == 4) EACH(uint32_t, SET)
    else if (set && size == 8) EACH(uint64_t, SET)
    else if (set) EACH(char, memcpy(to, from, size))
    else if (s->how != TD_FOLD_ADD) EACH(char, td_fold_one(dtype, (td_fold)s->how, to, from))
    else if (dtype == TD_FLOAT32) EACH(float, ADD)
    else if (dtype == TD_FLOAT64) EACH(double, ADD)
    else if (dtype == TD_INT64) EACH(uint64_t, ADD)
    else EACH(char, td_add_run(dtype, to, 0, from, 0, 1, false, td_int(1)))
}

/* A chunk's part of everything, walked together. */
typedef struct part {
    td_walk w;
    int64_t shape[TD_MAX_DIMS], first; /* first: along the axis */
    int64_t step[3], done;
    td_index_load load;
} part;

/* Of the element that is `at` into the part: how many stand before it in all indices. */
static int64_t place_of(const td_kcall *k, const td_scatter *s, const part *p, int64_t at)
{
    const td_desc *idx = k->in[1].desc;
    int64_t place = 0, width = 1;
    for (int d = idx->ndim - 1; d >= 0; d--) {
        place += (at % p->shape[d] + (d == s->axis ? p->first : 0)) * width;
        at /= p->shape[d];
        width *= idx->shape[d];
    }
    return place;
}

/* Elements of a run whose indices are still to be looked at. False: one is out of range. */
static bool write_direct(td_kcall *k, const td_scatter *s, const part *p, td_walk_at at, int64_t before)
{
    int64_t offset[TD_INDEX_BLOCK], bad = 0, step[3] = {p->step[0], s->rows ? 0 : 8, p->step[2]};
    const char *from = at.p[1];
    for (int64_t left = at.run; left > 0; left -= at.run) {
        at.run = td_min64(left, TD_INDEX_BLOCK);
        int64_t n = s->rows ? 1 : at.run, good = td_load_offsets(&p->load, offset, from, p->step[1], n, &bad);
        if (good < n) {
            td_fail_index(k, bad, place_of(k, s, p, before + good), s->dim, s->limit);
            return false;
        }
        at.p[1] = (char *)offset;
        td_scatter_some(s, k->out[0].desc->dtype, &at, step);
        at.p[0] += at.run * step[0];
        at.p[2] += at.run * step[2];
        from += at.run * p->step[1];
        before += at.run;
    }
    return true;
}

/* A run as long as a dimension, with rests. False: the call is over. */
static bool write_run(td_kcall *k, const td_scatter *s, part *p, td_walk_at at, int64_t before)
{
    for (int64_t left = at.run; left > 0; left -= at.run) {
        at.run = td_min64(left, TD_REST_ELEMENTS);
        if (!s->direct) td_scatter_some(s, k->out[0].desc->dtype, &at, p->step);
        else if (!write_direct(k, s, p, at, before)) return false;
        if (td_kernel_rest_after(k, &p->done, at.run)) return false;
        for (int i = 0; i < 3; i++) at.p[i] += at.run * p->step[i];
        before += at.run;
    }
    return true;
}

/* What is written to of x: [b, e) of the axis, or all. */
static void copy_part(const td_kcall *k, const td_scatter *s, int64_t b, int64_t e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    const int64_t size = (int64_t)td_dtype_size(y->dtype);
    int64_t shape[TD_MAX_DIMS], n = 1, xs = 0, ys = 0;
    for (int d = 0; d < y->ndim; d++) n *= shape[d] = d == s->axis ? e - b : y->shape[d];
    if (s->axis >= 0) xs = b * x->stride[s->axis] * size, ys = b * y->stride[s->axis] * size;
    td_copy_strided(y->ndim, shape, (char *)k->out[0].data + ys, y->stride, (const char *)k->in[0].data + xs, x->stride,
                    (size_t)size, 0, n);
}

/* [b, e) of the axis. */
static void write_part(td_kcall *k, int64_t b, int64_t e, int64_t *done)
{
    const td_desc *idx = k->in[1].desc, *src = k->in[2].desc;
    td_scatter own = *(const td_scatter *)k->state, *s = &own;
    int64_t target[TD_MAX_DIMS], packed[TD_MAX_DIMS], from[TD_MAX_DIMS] = {0}, width = 1;
    const int64_t size = (int64_t)td_dtype_size(k->out[0].desc->dtype), isize = (int64_t)td_dtype_size(idx->dtype);
    part p = {.done = *done, .load = {.dtype = idx->dtype, .limit = s->limit, .unit = s->step}};
    char number[16];
    other_strides(k, s, target);
    for (int d = idx->ndim - 1; d >= 0; d--) {
        bool one = s->inner > 1 && d > s->dim;
        p.shape[d] = idx->shape[d];
        packed[d] = one ? 0 : width;
        if (!one) width *= p.shape[d];
        if (!s->number) from[d] = src->stride[d];
    }
    if (s->axis >= 0) p.shape[s->axis] = e - (p.first = b);
    if (s->copies) copy_part(k, s, b, e);
    td_walk_at at;
    const int64_t *places = s->direct ? idx->stride : packed, psize = s->direct ? isize : 8;
    td_walk_init(&p.w, idx->ndim, p.shape);
    td_walk_add(&p.w, target, (size_t)size);
    td_walk_add(&p.w, places, (size_t)psize);
    td_walk_add(&p.w, from, (size_t)size);
    td_walk_add(&p.w, idx->stride, 1); /* whose elements may have been loaded before */
    td_walk_merge(&p.w);
    s->rows = td_walk_inner(&p.w, 3) == 0;
    void *base[4] = {k->out[0].data, s->direct ? k->in[1].data : k->work, (void *)td_scatter_source(k, s, number),
                     k->in[1].data};
    if (s->axis >= 0) {
        base[0] = (char *)base[0] + b * target[s->axis] * size;
        base[1] = (char *)base[1] + b * places[s->axis] * psize;
        base[2] = (char *)base[2] + b * from[s->axis] * size;
    }
    for (int i = 0; i < 3; i++) p.step[i] = td_walk_inner(&p.w, i);
    int64_t before = 0;
    for (td_walk_begin(&p.w, &at, base, 0, p.w.count); at.run; before += at.run, td_walk_next(&p.w, &at))
        if (!write_run(k, s, &p, at, before)) return;
    *done = p.done;
}

static void write_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_scatter *s = (const td_scatter *)k->state;
    int64_t b = 0, e = 1, done = 0;
    (void)scratch;
    if (s->axis >= 0) td_cut_range(k->in[1].desc->shape[s->axis], s->per, chunk, &b, &e);
    for (int64_t n; b < e; b += n) {
        if (atomic_load(&k->failed)) return;
        n = td_min64(s->near, e - b);
        write_part(k, b, b + n, &done);
    }
}

/* Elements of an index that was expanded behind dim, or 1. */
static int64_t expanded(const td_desc *idx, int dim)
{
    int64_t n = 1;
    for (int d = dim + 1; d < idx->ndim; d++) {
        if (idx->shape[d] > 1 && idx->stride[d] != 0) return 1;
        n *= idx->shape[d];
    }
    return n < TD_SCATTER_ROW ? 1 : n;
}

/* Bytes of the result at one place of the axis; 1 where it has none. */
static int64_t copied_at_least(const td_scatter *s, const td_desc *y)
{
    const int64_t places = s->axis >= 0 ? td_max64(1, y->shape[s->axis]) : 1;
    return td_max64(1, td_desc_numel(y) / places * (int64_t)td_dtype_size(y->dtype));
}

static void plan_write(td_kcall *k, td_scatter *s, int64_t n)
{
    const td_desc *idx = k->in[1].desc, *y = k->out[0].desc;
    const int64_t indices = n / s->inner;
    double cost = (double)n * (s->how == TD_FOLD_WRITE ? 0.6 : s->how == TD_FOLD_ADD ? 0.9 : 5);
    if (s->how <= TD_FOLD_ADD && s->inner > 1) cost = 0.2 * (double)n + 15.0 * (double)indices;
    k->cost_ns += cost + 0.3 * (double)indices;
    if (s->copies) k->cost_ns += td_move_ns(2 * (double)td_desc_numel(y) * (double)td_dtype_size(y->dtype));
    const int64_t shares = td_min64((int64_t)(k->cost_ns / TD_SHARE_NS), TD_CHUNK_SHARES),
                  want = td_min64(td_max64((int64_t)(k->cost_ns / TD_CHUNK_NS) + 1, shares), TD_PUT_CHUNKS);
    s->per = s->axis >= 0 ? td_max64(1, td_cut(idx->shape[s->axis], td_min64(want, idx->shape[s->axis]))) : 1;
    s->near = s->per;
    if (s->copies && s->axis >= 0) {
        bool outermost = y->stride[s->axis] * y->shape[s->axis] == td_desc_numel(y);
        s->near = td_max64(1, (outermost ? TD_SCATTER_NEAR : TD_COPY_BYTES) / copied_at_least(s, y));
    }
    td_plan_phase(k, write_chunk, s->axis >= 0 ? td_cut(idx->shape[s->axis], s->per) : 1);
}

static void plan_phases(td_kcall *k, td_scatter *s, int64_t n)
{
    const td_desc *idx = k->in[1].desc, *y = k->out[0].desc;
    s->inner = n > 0 ? expanded(idx, s->dim) : 1;
    s->axis = -1;
    for (int d = 0; d < idx->ndim; d++)
        if (d != s->dim && idx->shape[d] > 1 && (s->axis < 0 || idx->shape[d] > idx->shape[s->axis])) s->axis = d;
    if (td_scatter_plan_pieces(k, s, n)) return;
    s->direct = !td_in_place(k) && s->inner == 1;
    s->copies = s->direct && n > 0 && td_desc_numel(y) <= 2 * n && copied_at_least(s, y) <= TD_COPY_BYTES &&
                (s->axis < 0 || y->shape[s->axis] == idx->shape[s->axis]);
    if (!s->direct) {
        const int64_t indices = n / s->inner;
        td_plan_work(k, (size_t)indices * 8);
        td_plan_phase(k, check_chunk, td_cut(indices, TD_SCATTER_CHECK));
        k->cost_ns += 0.5 * (double)indices;
        td_plan_clean_until_here(k);
    }
    if (!s->copies) td_plan_copy_first(k);
    if (n > 0) plan_write(k, s, n);
}

static int plan_scatter(td_kcall *k, td_fold how, const char *name, td_error *e)
{
    const td_desc *y = k->out[0].desc, *idx = k->in[1].desc;
    td_scatter *s = (td_scatter *)k->state;
    *s = (td_scatter){.how = (uint8_t)how};
    if (!td_is_index_dtype(idx->dtype))
        return td_fail(e, TD_E_TYPE, "%s: an index must be an integer tensor, not %s", name, td_dtype_name(idx->dtype));
    if (td_wrap_dim(td_attr_int(k->attrs, 0), y->ndim, &s->dim, e)) return TD_E_INDEX;
    s->number = k->in[2].desc->ndim == 0 && (idx->ndim > 0 || k->in[2].desc->dtype != y->dtype);
    if (!s->number && k->in[2].desc->dtype != y->dtype)
        return td_fail(e, TD_E_TYPE, "%s: src is %s, the tensor is %s", name, td_dtype_name(k->in[2].desc->dtype),
                       td_dtype_name(y->dtype));
    s->limit = y->ndim ? y->shape[s->dim] : 1;
    s->step = y->ndim ? y->stride[s->dim] * (int64_t)td_dtype_size(y->dtype) : 0;
    plan_phases(k, s, td_desc_numel(idx));
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_scatter(td_kcall *k, td_error *e)
{
    return plan_scatter(k, TD_FOLD_WRITE, "scatter", e);
}

int td_cpu_plan_scatter_add(td_kcall *k, td_error *e)
{
    return plan_scatter(k, TD_FOLD_ADD, "scatter_add", e);
}

int td_cpu_plan_scatter_fold(td_kcall *k, td_error *e)
{
    int64_t how = td_attr_int(k->attrs, 1);
    if (how < 0 || how > 2)
        return td_fail(e, TD_E_INVALID, "how is 0 (product), 1 (largest) or 2 (smallest), not %lld", (long long)how);
    if (how > 0 && td_dtype_is_complex(k->out[0].desc->dtype))
        return td_fail(e, TD_E_TYPE, "scatter_fold: complex numbers have no order");
    return plan_scatter(k, how == 0 ? TD_FOLD_MULTIPLY : how == 1 ? TD_FOLD_MOST : TD_FOLD_LEAST, "scatter_fold", e);
}
