/* scatter, scatter_add and scatter_fold: an index for each element of src, in place or on a copy.
 *
 * Phase 0 loads every index once and keeps the byte offset it leads to in work memory; nothing is written unless all
 * were in range. Elements that may meet (they differ only along `dim`) are always done by one chunk in order, so the
 * result does not depend on who runs what: chunks cut the longest other dimension. Where there is none, one chunk does
 * all of them (several that look for what is theirs take longer), but for many that are added up in a few places (a
 * histogram): those are cut into pieces with places of their own, which are added in order. */
#include "daemon/kernels/cpu/accumulate.h"
#include "daemon/kernels/cpu/copy_first.h"
#include "daemon/kernels/cpu/index_load.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"

typedef struct scatter_state {
    int dim, axis;       /* axis: the dimension that chunks cut, or -1 */
    int64_t limit, step; /* of the target along dim: size, stride in bytes */
    int64_t per;         /* of axis, or of what is cut instead */
    int64_t unit;        /* bytes from place to place that the offsets in work memory count */
    size_t own;          /* where in work memory the pieces' places begin */
    uint8_t how;         /* a td_fold */
    bool number;         /* src is one number of another dtype */
    int64_t inner;       /* elements of one index, which was expanded behind dim; it has one offset in work memory */
    bool rows;           /* of a chunk: a run has one index */
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
    int64_t shape[TD_MAX_DIMS];
    for (int d = 0; d < idx->ndim; d++) shape[d] = s->inner > 1 && d > s->dim ? 1 : idx->shape[d];
    td_walk_init(&w, idx->ndim, shape);
    td_walk_add(&w, idx->stride, td_dtype_size(idx->dtype));
    td_walk_merge(&w);
    const td_index_load load = {.dtype = idx->dtype, .limit = s->limit, .unit = s->unit};
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

/* src of a number may have a dtype of its own. */
static const void *source(const td_kcall *k, const scatter_state *s, char buf[16])
{
    if (!s->number) return k->in[2].data;
    td_scalar_store(td_scalar_load(k->in[2].desc->dtype, k->in[2].data), k->out[0].desc->dtype, buf);
    return buf;
}

/* Elements of one type where each may go. */
#define EACH(T, DO)                                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        T *to = (T *)(target + i * s0 + *(const int64_t *)(offset + i * s1));                                          \
        const T *from = (const T *)(source + i * s2);                                                                  \
        DO;                                                                                                            \
    }
#define SET *to = *from
#define ADD *to += *from

static void write_some(const scatter_state *s, unsigned dtype, const td_walk_at *at, const int64_t step[3])
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

/* A run as long as a dimension, with rests. True: the call is over. */
static bool write_run(td_kcall *k, const scatter_state *s, td_walk_at at, const int64_t step[3], int64_t *done)
{
    for (int64_t left = at.run; left > 0; left -= at.run) {
        at.run = td_min64(left, TD_REST_ELEMENTS);
        write_some(s, k->out[0].desc->dtype, &at, step);
        if (td_kernel_rest_after(k, done, at.run)) return true;
        for (int i = 0; i < 3; i++) at.p[i] += at.run * step[i];
    }
    return false;
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
        bool one = s->inner > 1 && d > s->dim;
        shape[d] = idx->shape[d];
        packed[d] = one ? 0 : width;
        if (!one) width *= shape[d];
        if (!s->number) from[d] = src->stride[d];
    }
    if (s->axis >= 0) {
        td_cut_range(idx->shape[s->axis], s->per, chunk, &b, &e);
        shape[s->axis] = e - b;
    }
    int64_t at_axis = s->axis >= 0 ? s->axis : 0, size = (int64_t)td_dtype_size(dtype);
    td_walk w;
    td_walk_at at;
    td_walk_init(&w, idx->ndim, shape);
    td_walk_add(&w, target, (size_t)size);
    td_walk_add(&w, packed, 8);
    td_walk_add(&w, from, (size_t)size);
    td_walk_add(&w, idx->stride, 1); /* whose elements were loaded before */
    td_walk_merge(&w);
    scatter_state own = *s;
    own.rows = td_walk_inner(&w, 3) == 0;
    void *base[4] = {k->out[0].data, k->work, (void *)source(k, s, number), k->in[1].data};
    if (idx->ndim) {
        base[0] = (char *)base[0] + b * target[at_axis] * size;
        base[1] = (char *)base[1] + b * packed[at_axis] * 8;
        base[2] = (char *)base[2] + b * from[at_axis] * size;
    }
    int64_t step[3] = {td_walk_inner(&w, 0), td_walk_inner(&w, 1), td_walk_inner(&w, 2)};
    int64_t done = 0;
    for (td_walk_begin(&w, &at, base, 0, w.count); at.run; td_walk_next(&w, &at))
        if (write_run(k, &own, at, step, &done)) return;
}

static int64_t piece_bytes(const td_kcall *k, const scatter_state *s)
{
    return s->limit * (int64_t)td_dtype_size(k->out[0].desc->dtype);
}

static void piece_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const scatter_state *s = (const scatter_state *)k->state;
    const td_desc *src = k->in[2].desc;
    unsigned dtype = k->out[0].desc->dtype;
    int64_t b, e, from = s->number || !src->ndim ? 0 : src->stride[s->dim] * (int64_t)td_dtype_size(dtype);
    char number[16], *own = (char *)k->work + s->own + chunk * piece_bytes(k, s);
    (void)scratch;
    if (atomic_load(&k->failed)) return;
    memset(own, 0, (size_t)piece_bytes(k, s));
    td_cut_range(td_desc_numel(k->in[1].desc), s->per, chunk, &b, &e);
    td_walk_at at = {.run = e - b};
    at.p[0] = own;
    at.p[1] = (char *)k->work + b * 8;
    at.p[2] = (char *)source(k, s, number) + b * from;
    write_run(k, s, at, (int64_t[3]){0, 8, from}, &(int64_t){0});
}

static void merge_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const scatter_state *s = (const scatter_state *)k->state;
    unsigned dtype = k->out[0].desc->dtype;
    int64_t size = (int64_t)td_dtype_size(dtype), pieces = td_cut(td_desc_numel(k->in[1].desc), s->per);
    (void)chunk, (void)scratch;
    if (atomic_load(&k->failed)) return;
    for (int64_t p = 0; p < pieces; p++)
        td_add_run(dtype, k->out[0].data, s->step, (char *)k->work + s->own + p * piece_bytes(k, s), size, s->limit,
                   false, td_int(1));
}

/* n indices in places of which all pieces can have their own? */
static bool cut_into_pieces(td_kcall *k, scatter_state *s, int64_t n)
{
    if (s->how != TD_FOLD_ADD || s->axis >= 0 || n < 2 * TD_SCATTER_PIECE || piece_bytes(k, s) > TD_SCATTER_OWN)
        return false;
    s->unit = (int64_t)td_dtype_size(k->out[0].desc->dtype);
    s->per = td_cut(n, td_min64(td_cut(n, TD_SCATTER_PIECE), TD_SCATTER_PIECES));
    int64_t pieces = td_cut(n, s->per);
    s->own = td_plan_work(k, (size_t)(pieces * piece_bytes(k, s)));
    td_plan_phase(k, piece_chunk, pieces);
    td_plan_phase(k, merge_chunk, 1);
    return true;
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

static void cut(td_kcall *k, scatter_state *s, int64_t n)
{
    const td_desc *idx = k->in[1].desc;
    const int64_t indices = n / s->inner;
    double cost = (double)n * (s->how == TD_FOLD_WRITE ? 1.2 : s->how == TD_FOLD_ADD ? 1.5 : 5);
    if (s->how <= TD_FOLD_ADD && s->inner > 1) cost = 0.2 * (double)n + 15.0 * (double)indices;
    int64_t want = td_min64((int64_t)(cost / TD_CHUNK_NS) + 1, TD_PUT_CHUNKS);
    s->axis = -1;
    s->per = 1;
    for (int d = 0; d < idx->ndim; d++)
        if (d != s->dim && idx->shape[d] > 1 && (s->axis < 0 || idx->shape[d] > idx->shape[s->axis])) s->axis = d;
    k->cost_ns += cost + 0.5 * (double)indices;
    if (cut_into_pieces(k, s, n)) return;
    if (s->axis >= 0) s->per = td_cut(idx->shape[s->axis], td_min64(want, idx->shape[s->axis]));
    int64_t chunks = s->axis >= 0 ? td_cut(idx->shape[s->axis], s->per) : 1;
    td_plan_phase(k, write_chunk, chunks);
}

static int plan_scatter(td_kcall *k, td_fold how, const char *name, td_error *e)
{
    const td_desc *y = k->out[0].desc, *idx = k->in[1].desc;
    scatter_state *s = (scatter_state *)k->state;
    *s = (scatter_state){.how = (uint8_t)how};
    if (!td_is_index_dtype(idx->dtype))
        return td_fail(e, TD_E_TYPE, "%s: an index must be an integer tensor, not %s", name, td_dtype_name(idx->dtype));
    if (td_wrap_dim(td_attr_int(k->attrs, 0), y->ndim, &s->dim, e)) return TD_E_INDEX;
    s->number = k->in[2].desc->ndim == 0 && (idx->ndim > 0 || k->in[2].desc->dtype != y->dtype);
    if (!s->number && k->in[2].desc->dtype != y->dtype)
        return td_fail(e, TD_E_TYPE, "%s: src is %s, the tensor is %s", name, td_dtype_name(k->in[2].desc->dtype),
                       td_dtype_name(y->dtype));
    s->limit = y->ndim ? y->shape[s->dim] : 1;
    s->unit = s->step = y->ndim ? y->stride[s->dim] * (int64_t)td_dtype_size(y->dtype) : 0;
    int64_t n = td_desc_numel(idx);
    s->inner = n > 0 ? expanded(idx, s->dim) : 1;
    td_plan_work(k, (size_t)(n / s->inner) * 8);
    td_plan_phase(k, check_chunk, td_cut(n / s->inner, TD_SCATTER_CHECK));
    td_plan_clean_until_here(k);
    td_plan_copy_first(k);
    if (n > 0) cut(k, s, n);
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
    return plan_scatter(k, how == 0 ? TD_FOLD_MULTIPLY : how == 1 ? TD_FOLD_MOST : TD_FOLD_LEAST, "scatter_fold", e);
}
