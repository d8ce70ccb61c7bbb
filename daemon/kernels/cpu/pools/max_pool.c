/* max_pool2d with int64 indices into the flattened plane, and its gradient. The first of equals wins; the last NaN wins
 * over everything. A window of padding alone gives the lowest number, and -1. In the gradient a plane is one chunk's,
 * and an index is loaded once, checked, used. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/pools/pool.h"
#include "daemon/kernels/cpu/vec/pool.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"
#include <math.h>

/* The call, and what was done of it since it rested last. */
typedef struct resting {
    td_kcall *k;
    int64_t done;
} resting;

static bool rests(resting *r, int64_t elements)
{
    return td_kernel_rest_after(r->k, &r->done, elements);
}

/* Those whose windows are taken side by side. */
static td_pool_columns columns(const td_pooling *p)
{
    return td_pool_inside(p, p->h * p->w <= INT32_MAX);
}

/* One plane, contiguous. `T` is compared as it is loaded. Windows inside of a row are taken side by side (vec/pool.c);
 * few are looked at one by one. A plane may be as large as one likes, and so may a window: they rest within. */
#define DEFINE_MAX(name, T, LOWEST)                                                                                    \
    static void name##_one(resting *r, const td_pooling *p, const T *x, int64_t y0, int64_t y1, int64_t ox, T *out,    \
                           int64_t *index)                                                                             \
    {                                                                                                                  \
        int64_t x0, x1;                                                                                                \
        td_pool_window(ox, p->w, p->kw, p->sw, p->pw, p->dw, &x0, &x1);                                                \
        if (y0 >= y1 || x0 >= x1) { /* only padding */                                                                 \
            *out = (LOWEST), *index = -1;                                                                              \
            return;                                                                                                    \
        }                                                                                                              \
        int64_t best = y0 * p->w + x0;                                                                                 \
        T value = x[best];                                                                                             \
        for (int64_t y = y0; y < y1; y += p->dh) {                                                                     \
            if (rests(r, (x1 - x0) / p->dw + 1)) return;                                                               \
            for (int64_t i = x0; i < x1; i += p->dw) {                                                                 \
                const T v = x[y * p->w + i];                                                                           \
                if (v > value || v != v) {                                                                             \
                    value = v;                                                                                         \
                    best = y * p->w + i;                                                                               \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        *out = value;                                                                                                  \
        *index = best;                                                                                                 \
    }                                                                                                                  \
    static void name(resting *r, const td_pooling *p, td_pool_columns in, const T *x, T *out, int64_t *index)          \
    {                                                                                                                  \
        int64_t y0, y1;                                                                                                \
        const td_max_row side = td_isa_now->pool->max[p->acc];                                                         \
        for (int64_t oy = 0; oy < p->oh; oy++, out += p->ow, index += p->ow) {                                         \
            td_pool_window(oy, p->h, p->kh, p->sh, p->ph, p->dh, &y0, &y1);                                            \
            const td_pool_columns row = y0 < y1 ? in : (td_pool_columns){0, 0};                                        \
            for (int64_t ox = 0; ox < row.first; ox++) name##_one(r, p, x, y0, y1, ox, out + ox, index + ox);          \
            if (row.first < row.last && !side(r->k, &r->done, p, x, y0, y1, row, out, index)) return;                  \
            for (int64_t ox = row.last; ox < p->ow; ox++) name##_one(r, p, x, y0, y1, ox, out + ox, index + ox);       \
        }                                                                                                              \
    }
DEFINE_MAX(max_u8, uint8_t, 0)
DEFINE_MAX(max_i8, int8_t, INT8_MIN)
DEFINE_MAX(max_i16, int16_t, INT16_MIN)
DEFINE_MAX(max_i32, int32_t, INT32_MIN)
DEFINE_MAX(max_i64, int64_t, INT64_MIN)
DEFINE_MAX(max_u16, uint16_t, 0)
DEFINE_MAX(max_u32, uint32_t, 0)
DEFINE_MAX(max_u64, uint64_t, 0)
DEFINE_MAX(max_f32, float, -INFINITY)
DEFINE_MAX(max_f64, double, -INFINITY)

static void max_plane(resting *r, const td_pooling *p, td_pool_columns in, const void *x, void *out, int64_t *index)
{
    switch (p->acc) {
    case TD_UINT8: max_u8(r, p, in, x, out, index); break;
    case TD_INT8: max_i8(r, p, in, x, out, index); break;
    case TD_INT16: max_i16(r, p, in, x, out, index); break;
    case TD_INT32: max_i32(r, p, in, x, out, index); break;
    case TD_INT64: max_i64(r, p, in, x, out, index); break;
    case TD_UINT16: max_u16(r, p, in, x, out, index); break;
    case TD_UINT32: max_u32(r, p, in, x, out, index); break;
    case TD_UINT64: max_u64(r, p, in, x, out, index); break;
    case TD_FLOAT32: max_f32(r, p, in, x, out, index); break;
    default: max_f64(r, p, in, x, out, index);
    }
}

static void forward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_pooling *p = (const td_pooling *)k->state;
    int64_t b, e, n = p->oh * p->ow, size = (int64_t)td_dtype_size(p->dtype);
    char *result = (char *)scratch + p->h * p->w * (int64_t)td_dtype_size(p->acc);
    const td_pool_columns in = columns(p);
    td_cut_range(p->planes, p->per, chunk, &b, &e);
    for (resting r = {.k = k}; b < e; b++) {
        if (rests(&r, n)) return;
        char *out = (char *)k->out[0].data + b * n * size;
        void *to = p->dtype == p->acc ? out : result;
        max_plane(&r, p, in, td_pool_plane(p, &k->in[0], b, p->h * p->w, scratch), to,
                  (int64_t *)k->out[1].data + b * n);
        if (to != out) td_row_store(out, 1, p->dtype, to, n);
    }
}

int td_cpu_plan_max_pool2d(td_kcall *k, td_error *e)
{
    td_pooling *p = (td_pooling *)k->state;
    int rc = td_pool2d_init(k, p, k->in[0].desc, k->out[0].desc, 0, true, "max_pool2d", e);
    if (rc) return rc;
    if (p->dtype == TD_BOOL || td_dtype_is_complex(p->dtype)) return td_refuse_dtype(k, 0, "max_pool2d", e);
    if (td_desc_numel(k->out[0].desc) > 0 && td_pool_plan_max_last(k)) return 0;
    if (!td_desc_is_contiguous(k->out[0].desc)) return td_plan_wants_rows(k);
    const td_pool_columns in = columns(p);
    if (in.first < in.last) td_pool_cut(k, p, TD_POOL_TOGETHER_NS);
    k->scratch_bytes = (size_t)(p->h * p->w + p->oh * p->ow) * td_dtype_size(p->acc);
    if (p->oh * p->ow > 0) td_plan_phase(k, forward_chunk, td_cut(p->planes, p->per));
    td_plan_moves_freely(k, sizeof *p);
    return 0;
}

/* ---- gradient ---- */

typedef struct back_state {
    int64_t planes, n, size, per; /* output positions and elements of a plane */
    uint8_t dtype, acc;
} back_state;

/* dx of one plane from the gradient's; false at a bad index. */
static bool back_plane(td_kcall *k, const back_state *s, int64_t plane, const void *g, char *dx)
{
    const td_desc *d = k->in[1].desc;
    int64_t stride[2] = {d->stride[d->ndim - 2], d->stride[d->ndim - 1]}, w = d->shape[d->ndim - 1], at = 0;
    for (int64_t n = d->ndim - 3, i = plane; n >= 0; n--) {
        at += i % d->shape[n] * d->stride[n];
        i /= d->shape[n];
    }
    const int64_t size = (int64_t)td_dtype_size(d->dtype);
    const char *row = (const char *)k->in[1].data + at * size;
    for (int64_t i = 0, done = 0; i < s->n; row += stride[0] * size) {
        const char *from = row;
        for (const int64_t end = i + w; i < end; i++, from += stride[1] * size) {
            if (td_kernel_rest_after(k, &done, 1)) return false;
            const int64_t to = td_load_index(from, d->dtype);
            if (to == -1) continue; /* a window of padding alone */
            if (to < 0 || to >= s->size) {
                td_pool_bad_index(k, to, s->size);
                return false;
            }
            if (s->acc == TD_FLOAT64) ((double *)dx)[to] += ((const double *)g)[i];
            else ((float *)dx)[to] += ((const float *)g)[i];
        }
    }
    return true;
}

static void backward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const back_state *s = (const back_state *)k->state;
    int64_t b, e, acc = (int64_t)td_dtype_size(s->acc);
    char *gbuf = scratch, *result = gbuf + s->n * acc;
    td_cut_range(s->planes, s->per, chunk, &b, &e);
    for (int64_t done = 0; b < e; b++) {
        if (td_kernel_rest_after(k, &done, s->size)) return;
        char *out = (char *)k->out[0].data + b * s->size * (int64_t)td_dtype_size(s->dtype);
        char *dx = s->dtype == s->acc ? out : result;
        memset(dx, 0, (size_t)(s->size * acc));
        if (!back_plane(k, s, b, td_pool_plane_from(&k->in[0], s->acc, b, gbuf), dx)) return;
        if (dx != out) td_row_store(out, 1, s->dtype, dx, s->size);
    }
}

int td_cpu_plan_max_pool2d_backward(td_kcall *k, td_error *e)
{
    back_state *s = (back_state *)k->state;
    const td_desc *g = k->in[0].desc, *y = k->out[0].desc;
    *s = (back_state){.planes = 1, .dtype = y->dtype, .acc = (uint8_t)td_acc_dtype(y->dtype)};
    if (!td_dtype_is_float(y->dtype)) return td_refuse_dtype(k, 0, "max_pool2d_backward", e);
    if (!td_is_index_dtype(k->in[1].desc->dtype) || !td_desc_same_shape(g, k->in[1].desc) || g->ndim < 3 ||
        y->ndim != g->ndim)
        return td_fail(e, TD_E_SHAPE, "max_pool2d_backward: gradient, indices and shape do not fit");
    if (td_desc_is_channels_last(y)) {
        td_pooling *p = (td_pooling *)k->state;
        *p = (td_pooling){.dtype = y->dtype, .h = y->shape[2], .w = y->shape[3], .oh = g->shape[2], .ow = g->shape[3]};
        k->cost_ns = 1.5 * (double)(td_desc_numel(y) + td_desc_numel(g));
        return y->ndim == 4 && td_pool_plan_max_back_last(k) ? TD_OK : td_plan_wants_rows(k);
    }
    if (!td_desc_is_contiguous(y)) return td_plan_wants_rows(k);
    for (int d = 0; d < y->ndim - 2; d++) s->planes *= y->shape[d];
    s->n = g->shape[g->ndim - 2] * g->shape[g->ndim - 1];
    s->size = y->shape[y->ndim - 2] * y->shape[y->ndim - 1];
    s->per = td_max64(1, TD_POOL_BACK_CHUNK / (s->n + s->size + 1));
    k->scratch_bytes = (size_t)(s->n + s->size) * td_dtype_size(s->acc);
    td_plan_phase(k, backward_chunk, td_cut(s->planes, s->per));
    k->cost_ns = (double)s->planes * (double)(s->n * 2 + s->size) + 100;
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}
