/* nonzero, masked_select, masked_scatter: where a condition holds, in row-major order.
 *
 * Phase 0 looks at each element of the condition once and keeps a private byte for it and a count for each block; phase
 * 1 adds the counts up; phase 2 writes. The later phases see only the private bytes, so the counts and what is written
 * always agree. */
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"

typedef struct mask_state {
    int64_t count; /* of the result: td_kernel_count() */
    int64_t total, blocks, room;
    int nd, input;              /* which input holds the condition */
    int64_t shape[TD_MAX_DIMS]; /* it is broadcast to this */
    size_t sums_at;             /* int64_t[blocks + 1] in work memory; the flags are at its start */
    bool scatter;
} mask_state;

/* A byte pattern is nonzero: halves and floats but for their sign bit (-0.0 is zero). */
#define FLAG_RUN(T, TEST)                                                                                              \
    if (step == sizeof(T))                                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T v = ((const T *)from)[i];                                                                                \
            flags[i] = (TEST);                                                                                         \
        }                                                                                                              \
    else                                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T v = *(const T *)(from + i * step);                                                                       \
            flags[i] = (TEST);                                                                                         \
        }

static TD_FOR_SETS(void, flag_run,
                   (unsigned dtype, uint8_t *restrict flags, const char *restrict from, int64_t step, int64_t n),
                   (dtype, flags, from, step, n))
{
    switch (dtype) {
    case TD_BOOL:
    case TD_UINT8:
    case TD_INT8: FLAG_RUN(uint8_t, v != 0) break;
    case TD_UINT16:
    case TD_INT16: FLAG_RUN(uint16_t, v != 0) break;
    case TD_FLOAT16:
    case TD_BFLOAT16: FLAG_RUN(uint16_t, (v & 0x7fff) != 0) break;
    case TD_UINT32:
    case TD_INT32: FLAG_RUN(uint32_t, v != 0) break;
    case TD_UINT64:
    case TD_INT64: FLAG_RUN(uint64_t, v != 0) break;
    case TD_FLOAT32: FLAG_RUN(float, v != 0) break;
    case TD_FLOAT64: FLAG_RUN(double, v != 0) break;
    default:
        for (int64_t i = 0; i < n; i++) {
            td_scalar v = td_scalar_load(dtype, from + i * step);
            flags[i] = v.re != 0 || v.im != 0;
        }
    }
}

static TD_FOR_SETS(int64_t, flags_set, (const uint8_t *flags, int64_t n), (flags, n))
{
    uint32_t count = 0; /* of a block */
    for (int64_t i = 0; i < n; i++) count += flags[i];
    return count;
}

/* Which of n <= TD_MASK_PART flags are set, and how many. Each is written down and kept or not: whether a flag is set
 * cannot be foreseen, but eight that are not are often among others like them. */
static int64_t places(uint16_t *restrict at, const uint8_t *restrict flags, int64_t n)
{
    int64_t count = 0, i = 0;
    for (uint64_t eight; i + 8 <= n; i += 8) {
        memcpy(&eight, flags + i, 8);
        if (!eight) continue;
        for (int64_t j = i; j < i + 8; j++) {
            at[count] = (uint16_t)j;
            count += flags[j];
        }
    }
    for (; i < n; i++) {
        at[count] = (uint16_t)i;
        count += flags[i];
    }
    return count;
}

static int64_t *sums(const td_kcall *k, const mask_state *s)
{
    return (int64_t *)((char *)k->work + s->sums_at);
}

static void flag_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const mask_state *s = (const mask_state *)k->state;
    const td_karg *in = &k->in[s->input];
    int64_t b, e;
    td_walk w;
    td_walk_at at;
    (void)scratch;
    td_walk_init(&w, s->nd, s->shape);
    td_walk_add_desc(&w, in->desc);
    td_walk_merge(&w);
    td_cut_range(s->total, TD_MASK_BLOCK, chunk, &b, &e);
    uint8_t *flags = (uint8_t *)k->work + b;
    for (td_walk_begin(&w, &at, &in->data, b, e - b); at.run; td_walk_next(&w, &at)) {
        flag_run(in->desc->dtype, flags, at.p[0], td_walk_inner(&w, 0), at.run);
        flags += at.run;
    }
    sums(k, s)[chunk + 1] = flags_set((uint8_t *)k->work + b, e - b);
}

static void sum_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    mask_state *s = (mask_state *)k->state;
    int64_t *sum = sums(k, s);
    (void)chunk, (void)scratch;
    sum[0] = 0;
    for (int64_t i = 0; i < s->blocks; i++) sum[i + 1] += sum[i];
    s->count = sum[s->blocks];
    if (s->scatter && s->count > s->room)
        td_kernel_fail(k, TD_E_SHAPE, "masked_scatter: the mask selects %lld elements, src has %lld",
                       (long long)s->count, (long long)s->room);
}

static int64_t plan_flags(td_kcall *k, mask_state *s, int input, int nd, const int64_t *shape)
{
    *s = (mask_state){.input = input, .nd = nd, .total = 1};
    for (int d = 0; d < nd; d++) s->total *= s->shape[d] = shape[d];
    s->blocks = td_cut(s->total, TD_MASK_BLOCK);
    td_plan_work(k, (size_t)s->total);
    s->sums_at = td_plan_work(k, (size_t)(s->blocks + 1) * 8);
    td_plan_phase(k, flag_chunk, s->blocks);
    td_plan_phase(k, sum_chunk, 1);
    td_plan_clean_until_here(k);
    k->cost_ns = (double)s->total * 1.5 + 200;
    return s->blocks;
}

/* ---- nonzero ---- */

/* A part of one row: its places in the other dimensions are pos. */
static int64_t *write_row(int64_t *restrict to, const uint16_t *at, int64_t count, const int64_t *pos, int64_t nd)
{
    if (nd == 1)
        for (int64_t i = 0; i < count; i++) to[i] = pos[0] + at[i];
    else if (nd == 2)
        for (int64_t i = 0; i < count; i++) {
            to[2 * i] = pos[0];
            to[2 * i + 1] = pos[1] + at[i];
        }
    else
        for (int64_t i = 0; i < count; i++) {
            for (int64_t d = 0; d < nd - 1; d++) to[nd * i + d] = pos[d];
            to[nd * i + nd - 1] = pos[nd - 1] + at[i];
        }
    return to + count * nd;
}

static void split(const mask_state *s, int64_t place, int64_t *pos)
{
    for (int d = s->nd - 1; d > 0; d--) {
        int64_t rest = place / s->shape[d];
        pos[d] = place - rest * s->shape[d];
        place = rest;
    }
    pos[0] = place;
}

/* Parts of rows that are long; of short ones as many as fit, each place then split by itself. */
static void nonzero_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const mask_state *s = (const mask_state *)k->state;
    const uint8_t *flags = k->work;
    uint16_t at[TD_MASK_PART];
    int64_t b, e, pos[TD_MAX_DIMS], nd = s->nd, *to = (int64_t *)k->out[0].data + sums(k, s)[chunk] * nd;
    int64_t last = s->shape[nd - 1];
    bool rows = nd == 1 || last >= TD_MASK_ROW;
    (void)scratch;
    td_cut_range(s->total, TD_MASK_BLOCK, chunk, &b, &e);
    for (int64_t n, done = 0; b < e; b += n) {
        n = td_min64(TD_MASK_PART, e - b);
        split(s, b, pos);
        if (rows) n = td_min64(n, last - pos[nd - 1]);
        int64_t count = places(at, flags + b, n);
        if (rows) to = write_row(to, at, count, pos, nd);
        else
            for (int64_t i = 0; i < count; i++, to += nd) split(s, b + at[i], to);
        if (td_kernel_rest_after(k, &done, n)) return;
    }
}

int td_cpu_plan_nonzero(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    (void)e;
    int64_t blocks = plan_flags(k, (mask_state *)k->state, 0, x->ndim, x->shape);
    if (x->ndim) td_plan_phase(k, nonzero_chunk, blocks);
    return 0;
}

/* ---- masked_select ---- */

static void walk_input(const mask_state *s, td_walk *w, const td_desc *d)
{
    td_walk_init(w, s->nd, s->shape);
    td_walk_add_desc(w, d);
    td_walk_merge(w);
}

#define PICK(T)                                                                                                        \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i] = *(const T *)(from + at[i] * step)

static void pick(char *restrict to, const char *restrict from, int64_t step, const uint16_t *at, int64_t n, size_t size)
{
    switch (size) {
    case 1: PICK(uint8_t); break;
    case 2: PICK(uint16_t); break;
    case 4: PICK(uint32_t); break;
    case 8: PICK(uint64_t); break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * 16, from + at[i] * step, 16);
    }
}

static void select_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const mask_state *s = (const mask_state *)k->state;
    size_t size = td_dtype_size(k->in[0].desc->dtype);
    char *to = (char *)k->out[0].data + sums(k, s)[chunk] * (int64_t)size;
    uint16_t part[TD_MASK_PART];
    int64_t b, e;
    td_walk w;
    td_walk_at at;
    (void)scratch;
    walk_input(s, &w, k->in[0].desc);
    int64_t step = td_walk_inner(&w, 0);
    td_cut_range(s->total, TD_MASK_BLOCK, chunk, &b, &e);
    const uint8_t *flags = (uint8_t *)k->work + b;
    for (td_walk_begin(&w, &at, &k->in[0].data, b, e - b); at.run; td_walk_next(&w, &at)) {
        for (int64_t n, i = 0; i < at.run; i += n) {
            n = td_min64(TD_MASK_PART, at.run - i);
            int64_t count = places(part, flags + i, n);
            pick(to, at.p[0] + i * step, step, part, count, size);
            to += count * (int64_t)size;
        }
        flags += at.run;
    }
}

static int check_mask(const td_kcall *k, const char *name, td_error *e)
{
    if (k->in[1].desc->dtype == TD_BOOL) return 0;
    return td_fail(e, TD_E_TYPE, "%s: the mask must be a bool tensor, not %s", name,
                   td_dtype_name(k->in[1].desc->dtype));
}

int td_cpu_plan_masked_select(td_kcall *k, td_error *e)
{
    int64_t shape[TD_MAX_DIMS];
    int nd = k->in[0].desc->ndim;
    if (check_mask(k, "masked_select", e)) return TD_E_TYPE;
    memcpy(shape, k->in[0].desc->shape, sizeof shape);
    if (td_broadcast(shape, &nd, k->in[1].desc->shape, k->in[1].desc->ndim, e)) return TD_E_SHAPE;
    td_plan_phase(k, select_chunk, plan_flags(k, (mask_state *)k->state, 1, nd, shape));
    return 0;
}

/* ---- masked_scatter: out = x, but the elements of src in order where the mask holds ---- */

/* Element `i` of src in row-major order. */
static const char *element(const td_karg *src, bool flat, int64_t i)
{
    const td_desc *d = src->desc;
    int64_t at = flat ? i : 0;
    for (int n = d->ndim - 1; n >= 0 && !flat; n--) {
        at += i % d->shape[n] * d->stride[n];
        i /= d->shape[n];
    }
    return (const char *)src->data + at * (int64_t)td_dtype_size(d->dtype);
}

static void scatter_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const mask_state *s = (const mask_state *)k->state;
    size_t size = td_dtype_size(k->in[0].desc->dtype);
    int64_t b, e, next = sums(k, s)[chunk];
    td_walk w;
    td_walk_at at;
    (void)scratch;
    if (atomic_load(&k->failed)) return;
    walk_input(s, &w, k->in[0].desc);
    td_cut_range(s->total, TD_MASK_BLOCK, chunk, &b, &e);
    const uint8_t *flags = (uint8_t *)k->work + b;
    char *to = (char *)k->out[0].data + b * (int64_t)size;
    bool flat = td_desc_is_contiguous(k->in[2].desc);
    for (td_walk_begin(&w, &at, &k->in[0].data, b, e - b); at.run; td_walk_next(&w, &at)) {
        for (int64_t i = 0; i < at.run; i++, to += size)
            memcpy(to, flags[i] ? element(&k->in[2], flat, next++) : at.p[0] + i * td_walk_inner(&w, 0), size);
        flags += at.run;
    }
}

int td_cpu_plan_masked_scatter(td_kcall *k, td_error *e)
{
    mask_state *s = (mask_state *)k->state;
    const td_desc *y = k->out[0].desc;
    if (check_mask(k, "masked_scatter", e)) return TD_E_TYPE;
    if (k->in[2].desc->dtype != y->dtype)
        return td_fail(e, TD_E_TYPE, "masked_scatter: src is %s, the tensor is %s", td_dtype_name(k->in[2].desc->dtype),
                       td_dtype_name(y->dtype));
    int64_t blocks = plan_flags(k, s, 1, y->ndim, y->shape);
    s->scatter = true;
    s->room = td_desc_numel(k->in[2].desc);
    td_plan_phase(k, scatter_chunk, blocks);
    return 0;
}
