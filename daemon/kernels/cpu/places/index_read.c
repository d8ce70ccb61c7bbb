/* Reading through indices: index_select, embedding, gather, index. Each index is loaded once, checked, used; an index
 * out of range fails the call and reads nothing. The result is a new contiguous tensor, so nothing has to be checked
 * ahead. */
#include "daemon/kernels/cpu/places/index_load.h"
#include "daemon/kernels/cpu/places/index_map.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/vec/copy.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"

static int refuse_index(const td_kcall *k, int i, const char *kernel, td_error *e)
{
    return td_fail(e, TD_E_TYPE, "%s: an index must be an integer tensor, not %s", kernel,
                   td_dtype_name(k->in[i].desc->dtype));
}

/* ---- elements: an index for each ---- */

typedef struct gather_state {
    int dim;
    int64_t limit, stride; /* of x along dim, in bytes */
    int64_t wrap;          /* what is added to a negative index: the limit, or 0 */
    bool flat;             /* x has no other dimension */
} gather_state;

#define TAKE(T)                                                                                                        \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i] = *(const T *)(from + i * step + offset[i])

static void take_elements(char *to, const char *from, int64_t step, const int64_t *offset, int64_t n, int64_t size)
{
    typedef struct wide {
        uint64_t half[2];
    } wide;
    switch (size) {
    case 1: TAKE(uint8_t); break;
    case 2: TAKE(uint16_t); break;
    case 4: TAKE(uint32_t); break;
    case 8: TAKE(uint64_t); break;
    default: TAKE(wide);
    }
}

/* An index of 64 bits, looked at and used in one go, until one is out of range. */
#define TAKE_ONE(T, FROM)                                                                                              \
    _Pragma("GCC unroll 4") for (; i < n; i++)                                                                         \
    {                                                                                                                  \
        int64_t v = *(const volatile int64_t *)(idx + i * istep);                                                      \
        v += v >> 63 & wrap;                                                                                           \
        if ((uint64_t)v >= (uint64_t)limit) break;                                                                     \
        ((T *)out)[i] = *(const T *)(FROM);                                                                            \
    }
#define TAKE_LONG(T)                                                                                                   \
    {                                                                                                                  \
        if (xstep == 0 && unit == sizeof(T)) TAKE_ONE(T, x + v * (int64_t)sizeof(T))                                   \
        else TAKE_ONE(T, x + i * xstep + v * unit)                                                                     \
    }

/* A row that is about to be read here and there, and whole all the same: in order it comes faster. */
static void fetch_row(const gather_state *s, const char *x, int64_t size, int64_t n)
{
    if (s->stride != size || s->limit * size > 4096 || n < s->limit / 2) return;
    for (int64_t at = 0; at < s->limit * size; at += TD_LINE_BYTES) __builtin_prefetch(x + at);
}

static int64_t gather_long(const gather_state *s, char *out, const char *x, int64_t xstep, const char *idx,
                           int64_t istep, int64_t size, int64_t n)
{
    const int64_t limit = s->limit, unit = s->stride, wrap = s->wrap;
    int64_t i = 0;
    if (xstep == 0) fetch_row(s, x, size, n);
    if (size == 4) TAKE_LONG(uint32_t)
    else TAKE_LONG(uint64_t)
    return i;
}

static int64_t gather_run(const gather_state *s, char *out, const char *x, int64_t xstep, const char *idx,
                          int64_t istep, unsigned itype, int64_t size, int64_t total, int64_t *bad)
{
    if (istep == 0) { /* an index that was expanded: a row */
        int64_t v = *bad = td_load_index(idx, itype);
        v += v >> 63 & s->wrap;
        if (v < 0 || v >= s->limit) return 0;
        td_copy_run(out, size, x + v * s->stride, xstep, (size_t)size, total);
        return total;
    }
    if (itype == TD_INT64 && (size == 4 || size == 8)) {
        int64_t done = gather_long(s, out, x, xstep, idx, istep, size, total);
        if (done < total) *bad = td_load_index(idx + done * istep, itype);
        return done;
    }
    const td_index_load load = {.dtype = itype, .wrap = s->wrap != 0, .limit = s->limit, .unit = s->stride};
    int64_t offset[TD_INDEX_BLOCK];
    for (int64_t n, i = 0; i < total; i += n) {
        n = td_min64(TD_INDEX_BLOCK, total - i);
        int64_t done = td_load_offsets(&load, offset, idx + i * istep, istep, n, bad);
        if (done < n) return i + done;
        take_elements(out + i * size, x + i * xstep, xstep, offset, n, size);
    }
    return total; /* or the place of a bad index */
}

/* ---- index_select and embedding: whole slices ---- */

typedef struct select_state {
    int64_t outer, n, inner; /* out is outer x n x inner */
    int64_t per;             /* slices in a chunk */
    int64_t limit;
    int dim, idx; /* dimension of x; which input is the index */
    bool block;   /* the inner part of x is contiguous */
} select_state;

/* Where slice (o, *) of x begins: dimensions before `dim`. */
static int64_t outer_offset(const td_desc *x, int dim, int64_t o)
{
    int64_t at = 0;
    for (int d = dim - 1; d >= 0; d--) {
        at += o % x->shape[d] * x->stride[d];
        o /= x->shape[d];
    }
    return at;
}

static int64_t flat_offset(const td_desc *d, int64_t i)
{
    return outer_offset(d, d->ndim, i);
}

static void select_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const select_state *s = (const select_state *)k->state;
    const td_desc *x = k->in[0].desc, *idx = k->in[s->idx].desc;
    int64_t size = (int64_t)td_dtype_size(x->dtype), isize = (int64_t)td_dtype_size(idx->dtype), b, e;
    int64_t contiguous[TD_MAX_DIMS], rest = x->ndim - s->dim - 1, width = 1;
    (void)scratch;
    for (int64_t d = rest - 1; d >= 0; d--) {
        contiguous[d] = width;
        width *= x->shape[s->dim + 1 + d];
    }
    td_cut_range(s->outer * s->n, s->per, chunk, &b, &e);
    for (; b < e; b++) {
        int64_t v = td_load_index((const char *)k->in[s->idx].data + flat_offset(idx, b % s->n) * isize, idx->dtype);
        if (v < 0 || v >= s->limit) {
            td_fail_index(k, v, b % s->n, s->dim, s->limit);
            return;
        }
        int64_t stride = x->ndim ? x->stride[s->dim] : 0;
        const char *from = (const char *)k->in[0].data + (outer_offset(x, s->dim, b / s->n) + v * stride) * size;
        char *to = (char *)k->out[0].data + b * s->inner * size;
        if (s->block) td_copy_bytes(to, from, (size_t)(s->inner * size));
        else
            td_copy_strided((int)rest, x->shape + s->dim + 1, to, contiguous, from, x->stride + s->dim + 1,
                            (size_t)size, 0, s->inner);
    }
}

/* Slices of one element each, chosen by one line of indices. */
static void select_elements_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const select_state *s = (const select_state *)k->state;
    const td_desc *x = k->in[0].desc, *idx = k->in[s->idx].desc;
    int64_t size = (int64_t)td_dtype_size(x->dtype), b, e, bad = 0;
    int64_t step = idx->ndim ? idx->stride[0] * (int64_t)td_dtype_size(idx->dtype) : 0;
    gather_state g = {.limit = s->limit, .stride = x->ndim ? x->stride[s->dim] * size : 0};
    (void)scratch;
    td_cut_range(s->outer * s->n, s->per, chunk, &b, &e);
    while (b < e) {
        int64_t at = b % s->n, n = td_min64(s->n - at, e - b);
        const char *from = (const char *)k->in[0].data + outer_offset(x, s->dim, b / s->n) * size;
        const char *index = (const char *)k->in[s->idx].data + at * step;
        int64_t done =
            gather_run(&g, (char *)k->out[0].data + b * size, from, 0, index, step, idx->dtype, size, n, &bad);
        if (done < n) {
            td_fail_index(k, bad, at + done, s->dim, s->limit);
            return;
        }
        b += n;
    }
}

/* The same where a chunk has some lines: the indices are looked at once for all of them. */
static void select_lines_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const select_state *s = (const select_state *)k->state;
    const td_desc *x = k->in[0].desc, *idx = k->in[s->idx].desc;
    int64_t size = (int64_t)td_dtype_size(x->dtype), stride = x->stride[s->dim] * size, b, e, *offset = scratch;
    int64_t step = idx->stride[0] * (int64_t)td_dtype_size(idx->dtype);
    const td_index_load load = {.dtype = idx->dtype, .limit = s->limit, .unit = stride};
    int64_t bad = 0, done = td_load_offsets(&load, offset, k->in[s->idx].data, step, s->n, &bad);
    if (done < s->n) {
        td_fail_index(k, bad, done, s->dim, s->limit);
        return;
    }
    td_cut_range(s->outer * s->n, s->per, chunk, &b, &e);
    for (int64_t n; b < e; b += n) {
        int64_t at = b % s->n;
        n = td_min64(s->n - at, e - b);
        const char *from = (const char *)k->in[0].data + outer_offset(x, s->dim, b / s->n) * size;
        take_elements((char *)k->out[0].data + b * size, from, 0, offset + at, n, size);
    }
}

static int plan_select(td_kcall *k, int dim, int idx)
{
    const td_desc *x = k->in[0].desc;
    select_state *s = (select_state *)k->state;
    *s = (select_state){
        .outer = 1, .n = td_desc_numel(k->in[idx].desc), .inner = 1, .dim = dim, .idx = idx, .block = true};
    s->limit = x->ndim ? x->shape[dim] : 1;
    for (int d = 0; d < dim; d++) s->outer *= x->shape[d];
    for (int d = x->ndim - 1; d > dim; d--) {
        if (x->shape[d] != 1 && x->stride[d] != s->inner) s->block = false;
        s->inner *= x->shape[d];
    }
    int64_t bytes = s->inner * (int64_t)td_dtype_size(x->dtype);
    s->per = td_max64(1, TD_SELECT_BYTES / (bytes + 16));
    bool elements = s->inner == 1 && s->block && k->in[idx].desc->ndim <= 1;
    bool lines = elements && k->in[idx].desc->ndim == 1 && s->outer > 1 && 2 * s->n <= s->per;
    if (lines) k->scratch_bytes = (size_t)s->n * 8;
    td_plan_phase(k,
                  lines      ? select_lines_chunk
                  : elements ? select_elements_chunk
                             : select_chunk,
                  td_cut(s->outer * s->n, s->per));
    double slices = (double)(s->outer * s->n);
    k->cost_ns = slices * (elements ? 1 : 8) + td_move_ns(2 * slices * (double)bytes);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_index_select(td_kcall *k, td_error *e)
{
    int dim;
    if (!td_is_index_dtype(k->in[1].desc->dtype)) return refuse_index(k, 1, "index_select", e);
    if (td_wrap_dim(td_attr_int(k->attrs, 0), k->in[0].desc->ndim, &dim, e)) return TD_E_INDEX;
    return plan_select(k, dim, 1);
}

int td_cpu_plan_embedding(td_kcall *k, td_error *e)
{
    if (!td_is_index_dtype(k->in[1].desc->dtype)) return refuse_index(k, 1, "embedding", e);
    return plan_select(k, 0, 1);
}

/* ---- gather: an index for each element ---- */

static void gather_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const gather_state *s = (const gather_state *)k->state;
    const td_desc *x = k->in[0].desc, *idx = k->in[1].desc;
    int64_t size = (int64_t)td_dtype_size(x->dtype), stride[TD_MAX_DIMS], b, e;
    td_walk w;
    td_walk_at at;
    (void)scratch;
    for (int d = 0; d < idx->ndim; d++) stride[d] = d == s->dim || s->flat ? 0 : x->stride[d];
    td_walk_init(&w, idx->ndim, idx->shape);
    td_walk_add(&w, stride, (size_t)size);
    td_walk_add_desc(&w, idx);
    td_walk_merge(&w);
    td_cut_range(w.count, TD_INDEX_READ, chunk, &b, &e);
    char *out = (char *)k->out[0].data + b * size;
    void *base[2] = {k->in[0].data, k->in[1].data};
    for (td_walk_begin(&w, &at, base, b, e - b); at.run; td_walk_next(&w, &at)) {
        int64_t bad = 0, istep = td_walk_inner(&w, 1);
        int64_t done =
            gather_run(s, out, at.p[0], td_walk_inner(&w, 0), at.p[1], istep, idx->dtype, size, at.run, &bad);
        if (done < at.run) {
            td_fail_index(k, bad, b + done, s->dim, s->limit);
            return;
        }
        out += at.run * size;
        b += at.run;
    }
}

static int plan_elements(td_kcall *k, gather_state s)
{
    const td_desc *x = k->in[0].desc, *idx = k->in[1].desc;
    s.limit = x->ndim ? x->shape[s.dim] : 1;
    s.stride = x->ndim ? x->stride[s.dim] * (int64_t)td_dtype_size(x->dtype) : 0;
    if (s.wrap) s.wrap = s.limit;
    memcpy(k->state, &s, sizeof s);
    int64_t n = td_desc_numel(idx);
    td_plan_phase(k, gather_chunk, td_cut(n, TD_INDEX_READ));
    k->cost_ns = (double)n * (idx->dtype == TD_INT64 ? 0.8 : 1.2);
    td_plan_moves_freely(k, sizeof s);
    return 0;
}

int td_cpu_plan_gather(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *idx = k->in[1].desc;
    gather_state s = {.flat = x->ndim == 0};
    if (!td_is_index_dtype(idx->dtype)) return refuse_index(k, 1, "gather", e);
    if (td_wrap_dim(td_attr_int(k->attrs, 0), x->ndim, &s.dim, e)) return TD_E_INDEX;
    return plan_elements(k, s);
}

/* ---- index: several index tensors together ---- */

static void index_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_index_map *m = (const td_index_map *)k->state;
    size_t size = td_dtype_size(k->in[0].desc->dtype);
    int64_t b, e, total = m->before * m->n * m->after;
    (void)scratch;
    if (atomic_load(&k->failed)) return; /* offsets are not all there */
    td_cut_range(total, TD_INDEX_READ, chunk, &b, &e);
    td_index_map_read(k, m, (char *)k->out[0].data + b * (int64_t)size, k->in[0].data, b, e, size);
}

int td_cpu_plan_index(td_kcall *k, td_error *e)
{
    td_index_map *m = (td_index_map *)k->state;
    bool elements = k->in[0].desc->ndim == 1 && k->nin == 2 && !td_absent(&k->in[1]);
    if (elements && td_is_index_dtype(k->in[1].desc->dtype))
        return plan_elements(k, (gather_state){.flat = true, .wrap = 1});
    int rc = td_index_map_plan(k, m, k->in[0].desc, k->in + 1, k->nin - 1, "index", e);
    if (rc) return rc;
    int64_t total = m->before * m->n * m->after;
    td_plan_moves_freely(k, sizeof *m);
    if (total == 0) return 0; /* the indices are checked all the same */
    td_plan_phase(k, index_chunk, td_cut(total, TD_INDEX_READ));
    bool rows = m->after > 1; /* which are copied */
    int64_t runs = total / m->after;
    k->cost_ns +=
        rows ? 15.0 * (double)runs + td_move_ns(2 * (double)total * (double)td_dtype_size(k->in[0].desc->dtype))
             : (double)total;
    return 0;
}
