/* adaptive_max: the largest elements of as many windows as the result has places, each from the floor of its share of a
 * dimension to the ceiling, over planes of up to three dimensions. As in a pool of windows of one size the first of
 * equals wins, and the last NaN over everything. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/rows.h"
#include "daemon/kernels/cpu/vec/pool.h"
#include "daemon/kernels/plans.h"

typedef struct adaptive {
    td_rows x;           /* a row is a plane */
    int64_t in[3], n[3]; /* sizes; the innermost last, and ones before a plane of fewer dimensions */
    int64_t size, places, per;
} adaptive;
_Static_assert(sizeof(adaptive) <= TD_KSTATE_BYTES, "the state fits");

/* Share i of n of `size` elements. */
static void share(int64_t i, int64_t size, int64_t n, int64_t *first, int64_t *end)
{
    *first = i * size / n;
    *end = ((i + 1) * size + n - 1) / n;
}

/* They rest within a row, too: windows may be as large as one likes. */
#define DEFINE_MAX(T, name)                                                                                            \
    static bool look_##name(td_kcall *k, int64_t *done, const adaptive *s, const T *x, const int64_t *first,           \
                            const int64_t *end, T *out, int64_t *index)                                                \
    {                                                                                                                  \
        void (*const scan)(int64_t, const T *, int64_t, T *, int64_t *) = td_isa_now->pool->scan_##name;               \
        int64_t best = (first[0] * s->in[1] + first[1]) * s->in[2] + first[2];                                         \
        T value = x[best];                                                                                             \
        const bool wide = end[2] - first[2] == s->in[2]; /* rows that follow each other are one */                     \
        const int64_t down = wide ? end[1] - first[1] : 1;                                                             \
        for (int64_t z = first[0]; z < end[0]; z++)                                                                    \
            for (int64_t y = first[1]; y < end[1]; y += down) {                                                        \
                const int64_t row = (z * s->in[1] + y) * s->in[2], last = row + (down - 1) * s->in[2] + end[2];        \
                for (int64_t i = row + first[2], to; i < last; i = to) {                                               \
                    to = td_min64(i + TD_REST_ELEMENTS, last);                                                         \
                    if (td_kernel_rest_after(k, done, to - i)) return false;                                           \
                    if (to - i >= TD_POOL_SCAN) {                                                                      \
                        scan(to - i, x + i, i, &value, &best);                                                         \
                        continue;                                                                                      \
                    }                                                                                                  \
                    for (int64_t j = i; j < to; j++) {                                                                 \
                        const T v = x[j];                                                                              \
                        if (v > value || v != v) value = v, best = j;                                                  \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        *out = value;                                                                                                  \
        *index = best;                                                                                                 \
        return true;                                                                                                   \
    }                                                                                                                  \
    static bool plane_##name(td_kcall *k, int64_t *done, const adaptive *s, const T *x, T *out, int64_t *index)        \
    {                                                                                                                  \
        int64_t first[3], end[3];                                                                                      \
        for (int64_t at = 0; at < s->places;) {                                                                        \
            share(at / s->n[2] / s->n[1], s->in[0], s->n[0], &first[0], &end[0]);                                      \
            share(at / s->n[2] % s->n[1], s->in[1], s->n[1], &first[1], &end[1]);                                      \
            for (int64_t i = 0; i < s->n[2]; i++, at++) {                                                              \
                share(i, s->in[2], s->n[2], &first[2], &end[2]);                                                       \
                if (!look_##name(k, done, s, x, first, end, out + at, index + at)) return false;                       \
            }                                                                                                          \
        }                                                                                                              \
        return true;                                                                                                   \
    }
DEFINE_MAX(float, f32)
DEFINE_MAX(double, f64)

/* A plane as numbers that can be compared: as it lies, or loaded part by part. NULL: rested. */
static const void *load_plane(td_kcall *k, int64_t *done, const adaptive *s, int64_t plane, char *scratch)
{
    const int64_t acc = (int64_t)td_dtype_size(s->x.acc);
    if (s->x.direct) return td_rows_get(&s->x, plane, 0, s->size, scratch);
    for (int64_t at = 0, n; at < s->size; at += n) {
        n = td_min64(TD_REST_ELEMENTS, s->size - at);
        td_rows_get(&s->x, plane, at, n, scratch + at * acc);
        if (td_kernel_rest_after(k, done, n)) return NULL;
    }
    return scratch;
}

static bool store_plane(td_kcall *k, int64_t *done, const adaptive *s, char *out, const char *from)
{
    const int64_t size = (int64_t)td_dtype_size(s->x.dtype), acc = (int64_t)td_dtype_size(s->x.acc);
    for (int64_t at = 0, n; at < s->places; at += n) {
        n = td_min64(TD_REST_ELEMENTS, s->places - at);
        td_row_store(out + at * size, 1, s->x.dtype, from + at * acc, n);
        if (td_kernel_rest_after(k, done, n)) return false;
    }
    return true;
}

static void planes_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const adaptive *s = (const adaptive *)k->state;
    const unsigned dtype = s->x.dtype, acc = s->x.acc;
    const int64_t size = (int64_t)td_dtype_size(dtype);
    char *result = (char *)scratch + s->size * (int64_t)td_dtype_size(acc);
    int64_t b, e, done = 0;
    td_cut_range(s->x.rows, s->per, chunk, &b, &e);
    for (; b < e; b++) {
        const void *x = load_plane(k, &done, s, b, scratch);
        if (!x) return;
        char *out = (char *)k->out[0].data + b * s->places * size;
        void *to = dtype == acc ? out : result;
        int64_t *index = (int64_t *)k->out[1].data + b * s->places;
        if (!(acc == TD_FLOAT64 ? plane_f64(k, &done, s, x, to, index) : plane_f32(k, &done, s, x, to, index))) return;
        if (to != out && !store_plane(k, &done, s, out, to)) return;
    }
}

static void addresses(td_kcall *k)
{
    ((adaptive *)k->state)->x.data = k->in[0].data;
}

int td_cpu_plan_adaptive_max(td_kcall *k, td_error *e)
{
    adaptive *s = (adaptive *)k->state;
    const td_desc *x = k->in[0].desc;
    int dims;
    const int64_t *sizes = td_attr_ints(k->attrs, 0, &dims);
    if (!td_dtype_is_float(x->dtype)) return td_refuse_dtype(k, 0, "adaptive_max", e);
    if (dims < 1 || dims > 3 || dims > x->ndim)
        return td_fail(e, TD_E_SHAPE, "adaptive_max: one to three sizes of %d, not %d", x->ndim, dims);
    *s = (adaptive){.in = {1, 1, 1}, .n = {1, 1, 1}, .size = 1, .places = 1};
    td_rows_init(&s->x, &k->in[0], x->ndim - dims, td_acc_dtype(x->dtype));
    double looked = 1;
    for (int d = 0; d < dims; d++) {
        const int64_t in = s->in[3 - dims + d] = x->shape[x->ndim - dims + d], n = s->n[3 - dims + d] = sizes[d];
        if (in < 1 || n < 1) return td_fail(e, TD_E_SHAPE, "adaptive_max: sizes must be at least 1");
        s->size *= in;
        s->places *= n;
        const int64_t most = in / n + (in % n ? 2 : 0); /* of a window */
        looked *= (double)n * (double)most;
    }
    s->per = (int64_t)(TD_POOL_CHUNK / (looked + (double)s->size + (double)s->places + 1)) + 1;
    k->scratch_bytes = (size_t)(s->size + s->places) * td_dtype_size(s->x.acc);
    k->cost_ns = (double)s->x.rows * (looked * 1.2 + (double)s->places * 8) + 100;
    td_plan_phase(k, planes_chunk, td_cut(s->x.rows, s->per));
    td_plan_moves(k, addresses, sizeof *s);
    return 0;
}
