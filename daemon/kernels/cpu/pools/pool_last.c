/* Pooling of images that lie channels last, float32 and float64: all channels of a place are looked at side by side. A
 * chunk is some rows of the result, or, of a gradient, some channels of an image, whose windows add in order. Values
 * and ties are those of max_pool.c and avg_pool.c. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/pools/pool.h"

#include <math.h>

typedef struct last_pool {
    td_pooling p;
    int64_t images, channels, per; /* per: rows of a chunk, or channels */
} last_pool;
_Static_assert(sizeof(last_pool) <= TD_KSTATE_BYTES, "last_pool lives in a call's state");

/* Places [y0, y1) x [x0, x1) of a plane, and what an average divides by. */
typedef struct box {
    int64_t y0, y1, x0, x1, count;
} box;

static box max_box(const td_pooling *p, int64_t oy, int64_t ox)
{
    box b = {.count = 1};
    td_pool_window(oy, p->h, p->kh, p->sh, p->ph, p->dh, &b.y0, &b.y1);
    td_pool_window(ox, p->w, p->kw, p->sw, p->pw, p->dw, &b.x0, &b.x1);
    return b;
}

static box avg_box(const td_pooling *p, int64_t oy, int64_t ox)
{
    box b;
    int64_t ny = td_pool_part(oy, p->h, p->kh, p->sh, p->ph, &b.y0, &b.y1);
    int64_t nx = td_pool_part(ox, p->w, p->kw, p->sw, p->pw, &b.x0, &b.x1);
    b.count = p->include_pad ? td_pool_count(ny, nx) : td_pool_count(b.y1 - b.y0, b.x1 - b.x0);
    return b;
}

#define DEFINE_LAST(T, s)                                                                                              \
    static TD_FOR_SETS(void, look_##s, (int64_t n, const T *x, int32_t at, T *value, int32_t *best),                   \
                       (n, x, at, value, best))                                                                        \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T v = x[i], now = value[i];                                                                          \
            const bool wins = (v > now) | (v != v);                                                                    \
            value[i] = wins ? v : now;                                                                                 \
            best[i] = wins ? at : best[i];                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static TD_FOR_SETS(void, add_##s, (int64_t n, const T *x, T *sum), (n, x, sum))                                    \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) sum[i] += x[i];                                                                \
    }                                                                                                                  \
    static TD_FOR_SETS(void, divide_##s, (int64_t n, const T *x, T by, T *out), (n, x, by, out))                       \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) out[i] = x[i] / by;                                                            \
    }                                                                                                                  \
    static bool max_place_##s(td_kcall *k, int64_t *done, const last_pool *l, box b, const T *x, T *out,               \
                              int32_t *best)                                                                           \
    {                                                                                                                  \
        const int64_t c = l->channels, w = l->p.w;                                                                     \
        const bool none = b.y0 >= b.y1 || b.x0 >= b.x1; /* only padding */                                             \
        for (int64_t i = 0; i < c; i++) {                                                                              \
            out[i] = none ? -(T)INFINITY : x[(b.y0 * w + b.x0) * c + i];                                               \
            best[i] = none ? -1 : (int32_t)(b.y0 * w + b.x0);                                                          \
        }                                                                                                              \
        for (int64_t y = b.y0; y < b.y1; y += l->p.dh)                                                                 \
            for (int64_t at = b.x0; at < b.x1; at += l->p.dw) {                                                        \
                look_##s(c, x + (y * w + at) * c, (int32_t)(y * w + at), out, best);                                   \
                if (td_kernel_rest_after(k, done, c)) return false;                                                    \
            }                                                                                                          \
        return true;                                                                                                   \
    }                                                                                                                  \
    static bool avg_place_##s(td_kcall *k, int64_t *done, const last_pool *l, box b, const T *x, T *out)               \
    {                                                                                                                  \
        const int64_t c = l->channels;                                                                                 \
        memset(out, 0, (size_t)c * sizeof *out);                                                                       \
        for (int64_t y = b.y0; y < b.y1; y++)                                                                          \
            for (int64_t at = b.x0; at < b.x1; at++) {                                                                 \
                add_##s(c, x + (y * l->p.w + at) * c, out);                                                            \
                if (td_kernel_rest_after(k, done, c)) return false;                                                    \
            }                                                                                                          \
        divide_##s(c, out, (T)b.count, out);                                                                           \
        return true;                                                                                                   \
    }                                                                                                                  \
    /* n channels of an image; `part` is their scratch. */                                                             \
    static void avg_back_##s(td_kcall *k, int64_t *done, const last_pool *l, int64_t n, const T *g, T *dx, T *part)    \
    {                                                                                                                  \
        for (int64_t i = 0; i < l->p.oh * l->p.ow; i++) {                                                              \
            const box b = avg_box(&l->p, i / l->p.ow, i % l->p.ow);                                                    \
            divide_##s(n, g + i * l->channels, (T)b.count, part);                                                      \
            for (int64_t y = b.y0; y < b.y1; y++)                                                                      \
                for (int64_t at = b.x0; at < b.x1; at++) {                                                             \
                    add_##s(n, part, dx + (y * l->p.w + at) * l->channels);                                            \
                    if (td_kernel_rest_after(k, done, n)) return;                                                      \
                }                                                                                                      \
        }                                                                                                              \
    }
DEFINE_LAST(float, f)
DEFINE_LAST(double, d)

static int64_t size_of(const last_pool *l)
{
    return (int64_t)td_dtype_size(l->p.dtype);
}

/* Row `row` of all images' results, from the place of column 0 on. */
static bool max_row(td_kcall *k, int64_t *done, const last_pool *l, int64_t row, int32_t *best)
{
    const int64_t *s = k->out[1].desc->stride, oy = row % l->p.oh, image = row / l->p.oh;
    const char *x = (const char *)k->in[0].data + image * l->p.h * l->p.w * l->channels * size_of(l);
    char *out = (char *)k->out[0].data + row * l->p.ow * l->channels * size_of(l);
    int64_t *index = (int64_t *)k->out[1].data + image * s[0] + oy * s[2];
    for (int64_t ox = 0; ox < l->p.ow; ox++, out += l->channels * size_of(l), index += s[3]) {
        const box b = max_box(&l->p, oy, ox);
        bool on = l->p.dtype == TD_FLOAT64 ? max_place_d(k, done, l, b, (const double *)x, (double *)out, best)
                                           : max_place_f(k, done, l, b, (const float *)x, (float *)out, best);
        if (!on) return false;
        for (int64_t c = 0; c < l->channels; c++) index[c * s[1]] = best[c];
    }
    return true;
}

static bool avg_row(td_kcall *k, int64_t *done, const last_pool *l, int64_t row)
{
    const char *x = (const char *)k->in[0].data + row / l->p.oh * l->p.h * l->p.w * l->channels * size_of(l);
    char *out = (char *)k->out[0].data + row * l->p.ow * l->channels * size_of(l);
    for (int64_t ox = 0; ox < l->p.ow; ox++, out += l->channels * size_of(l)) {
        const box b = avg_box(&l->p, row % l->p.oh, ox);
        bool on = l->p.dtype == TD_FLOAT64 ? avg_place_d(k, done, l, b, (const double *)x, (double *)out)
                                           : avg_place_f(k, done, l, b, (const float *)x, (float *)out);
        if (!on) return false;
    }
    return true;
}

static void max_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const last_pool *l = (const last_pool *)k->state;
    int64_t b, e, done = 0;
    td_cut_range(l->images * l->p.oh, l->per, chunk, &b, &e);
    while (b < e && max_row(k, &done, l, b, scratch)) b++;
}

static void avg_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const last_pool *l = (const last_pool *)k->state;
    int64_t b, e, done = 0;
    (void)scratch;
    td_cut_range(l->images * l->p.oh, l->per, chunk, &b, &e);
    while (b < e && avg_row(k, &done, l, b)) b++;
}

/* Is this call of pictures that lie so, in a dtype that is computed as it is? */
static bool takes(const td_pooling *p, const td_desc *x, const td_desc *y)
{
    bool last = td_desc_is_channels_last(y) || /* or both at once */
                (y->ndim == 4 && y->shape[2] * y->shape[3] == 1 && td_desc_is_contiguous(y));
    return (p->dtype == TD_FLOAT32 || p->dtype == TD_FLOAT64) && p->h * p->w <= INT32_MAX && last &&
           td_desc_is_channels_last(x);
}

static last_pool *start(td_kcall *k, const td_desc *x)
{
    const td_pooling p = *(const td_pooling *)k->state;
    last_pool *l = (last_pool *)k->state;
    *l = (last_pool){.p = p, .images = x->shape[0], .channels = x->shape[1]};
    return l;
}

static bool plan_rows(td_kcall *k, td_chunk_fn fn)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    if (!takes((const td_pooling *)k->state, x, y)) return false;
    last_pool *l = start(k, x);
    k->scratch_bytes = (size_t)l->channels * sizeof(int32_t);
    const double looks =
        (double)l->p.ow * (double)l->channels * (double)td_min64(l->p.kh, l->p.h) * (double)td_min64(l->p.kw, l->p.w);
    l->per = td_max64(1, (int64_t)(TD_POOL_CHUNK / (looks + 1)));
    td_plan_phase(k, fn, td_cut(l->images * l->p.oh, l->per));
    k->cost_ns /= 4; /* no windows that reach over the ends of a row */
    td_plan_moves_freely(k, sizeof *l);
    return true;
}

bool td_pool_plan_max_last(td_kcall *k)
{
    return plan_rows(k, max_chunk);
}

bool td_pool_plan_avg_last(td_kcall *k)
{
    return plan_rows(k, avg_chunk);
}

/* ---- gradients */

/* Which image a chunk is of, and which channels [*b, *e). */
static int64_t part_of(const last_pool *l, int64_t chunk, int64_t *b, int64_t *e)
{
    int64_t blocks = td_max64(1, td_cut(l->channels, l->per));
    td_cut_range(l->channels, l->per, chunk % blocks, b, e);
    return chunk / blocks;
}

/* Those of dx, all zeros; and of the gradient. */
static char *zeroed(td_kcall *k, const last_pool *l, int64_t image, int64_t b, int64_t e)
{
    const int64_t size = size_of(l), places = l->p.h * l->p.w;
    char *dx = (char *)k->out[0].data + (image * places * l->channels + b) * size;
    int64_t done = 0;
    for (int64_t i = 0; i < places && !td_kernel_rest_after(k, &done, e - b); i++)
        memset(dx + i * l->channels * size, 0, (size_t)((e - b) * size));
    return dx;
}

static const char *gradient(const td_kcall *k, const last_pool *l, int64_t image, int64_t b)
{
    return (const char *)k->in[0].data + (image * l->p.oh * l->p.ow * l->channels + b) * size_of(l);
}

static void avg_back_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const last_pool *l = (const last_pool *)k->state;
    int64_t b, e, done = 0, image = part_of(l, chunk, &b, &e);
    char *dx = zeroed(k, l, image, b, e);
    const char *g = gradient(k, l, image, b);
    if (l->p.dtype == TD_FLOAT64) avg_back_d(k, &done, l, e - b, (const double *)g, (double *)dx, (double *)scratch);
    else avg_back_f(k, &done, l, e - b, (const float *)g, (float *)dx, (float *)scratch);
}

static bool plan_channels(td_kcall *k, td_chunk_fn fn)
{
    const td_desc *g = k->in[0].desc, *x = k->out[0].desc;
    if (!takes((const td_pooling *)k->state, x, g)) return false;
    last_pool *l = start(k, x);
    l->per = td_max64(TD_POOL_LAST_CHANNELS, TD_POOL_BACK_CHUNK / td_max64(1, l->p.h * l->p.w));
    k->scratch_bytes = (size_t)(td_min64(l->per, l->channels) * size_of(l));
    td_plan_phase(k, fn, l->images * td_cut(l->channels, l->per));
    td_plan_moves_freely(k, sizeof *l);
    return true;
}

bool td_pool_plan_avg_back_last(td_kcall *k)
{
    return plan_channels(k, avg_back_chunk);
}

static void max_back_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const last_pool *l = (const last_pool *)k->state;
    int64_t b, e, done = 0;
    const int64_t image = part_of(l, chunk, &b, &e), size = l->p.h * l->p.w, *s = k->in[1].desc->stride;
    const unsigned dtype = k->in[1].desc->dtype;
    (void)scratch;
    char *dx = zeroed(k, l, image, b, e);
    const char *g = gradient(k, l, image, b), *index = (const char *)k->in[1].data;
    for (int64_t i = 0; i < l->p.oh * l->p.ow; i++) {
        int64_t at = image * s[0] + i / l->p.ow * s[2] + i % l->p.ow * s[3];
        if (td_kernel_rest_after(k, &done, e - b)) return;
        for (int64_t c = 0; c < e - b; c++) {
            int64_t to = td_load_index(index + (at + (b + c) * s[1]) * (int64_t)td_dtype_size(dtype), dtype);
            if (to == -1) continue; /* a window of padding alone */
            if (to < 0 || to >= size) {
                td_pool_bad_index(k, to, size);
                return;
            }
            if (l->p.dtype == TD_FLOAT64)
                ((double *)dx)[to * l->channels + c] += ((const double *)g)[i * l->channels + c];
            else ((float *)dx)[to * l->channels + c] += ((const float *)g)[i * l->channels + c];
        }
    }
}

bool td_pool_plan_max_back_last(td_kcall *k)
{
    return plan_channels(k, max_back_chunk);
}
