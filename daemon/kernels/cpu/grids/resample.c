/* resample and its gradient: other sizes of the last one to three dimensions (D, H, W), each by its taps
 * (resample_taps.h). A row of the result is the weighted sum of the rows that its layer and its place in it see, of
 * which its elements take their taps in turn. The gradient is the same with the taps turned round, so that nothing is
 * added by two chunks. The first phase works the taps out, the second makes blocks of rows. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/grids/resample_taps.h"
#include "daemon/kernels/cpu/rows.h"
#include "daemon/kernels/plans.h"

enum { D, H, W, DIMS };

typedef struct resample_state {
    td_resize dim[DIMS];          /* as the forward call has them */
    int64_t count[DIMS];          /* room for so many taps */
    size_t at[DIMS];              /* work memory: the taps that are used */
    size_t spare_at;              /* those of one dimension, before they are turned */
    int64_t from[DIMS], to[DIMS]; /* sizes of what is read and written */
    int64_t per, rows;            /* rows of a chunk, and of the result */
    bool backward;
    uint8_t dtype, acc;
} resample_state;
_Static_assert(sizeof(resample_state) <= TD_KSTATE_BYTES, "resample_state lives in a call's state");

/* Behind the taps: 0 or how many all have. */
static int32_t *even_of(const td_kcall *k, const resample_state *s, int d)
{
    return (int32_t *)((char *)k->work + s->spare_at) - 4 + d;
}

static td_taps taps_of(const td_kcall *k, const resample_state *s, int d)
{
    td_taps t = td_taps_in((char *)k->work + s->at[d], s->to[d], s->count[d]);
    t.even = *even_of(k, s, d);
    return t;
}

static void taps_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const resample_state *s = (const resample_state *)k->state;
    (void)chunk, (void)scratch;
    for (int d = 0; d < DIMS; d++) {
        const td_resize *r = &s->dim[d];
        td_taps used = td_taps_in((char *)k->work + s->at[d], s->to[d], s->count[d]);
        if (s->backward) {
            td_taps made = td_taps_in((char *)k->work + s->spare_at, r->out, s->count[d]);
            if (!td_taps_fill(k, r, &made) || !td_taps_turn(k, r, &made, &used)) return;
        } else if (!td_taps_fill(k, r, &used)) return;
        *even_of(k, s, d) = used.even;
    }
}

#define DEFINE_LINES(T, s)                                                                                             \
    static TD_FOR_SETS(void, add_##s, (T * to, const T *from, T weight, bool first, int64_t n),                        \
                       (to, from, weight, first, n))                                                                   \
    {                                                                                                                  \
        if (first)                                                                                                     \
            for (int64_t i = 0; i < n; i++) to[i] = weight * from[i];                                                  \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) to[i] += weight * from[i];                                                 \
    }                                                                                                                  \
    static TD_FOR_SETS(void, one_##s, (T * to, const T *from, const td_taps *t, int64_t n), (to, from, t, n))          \
    {                                                                                                                  \
        const int32_t *at = t->at;                                                                                     \
        const double *w = t->weight;                                                                                   \
        for (int64_t i = 0; i < n; i++) to[i] = (T)w[i] * from[at[i]];                                                 \
    }                                                                                                                  \
    static TD_FOR_SETS(void, two_##s, (T * to, const T *from, const td_taps *t, int64_t n), (to, from, t, n))          \
    {                                                                                                                  \
        const int32_t *at = t->at;                                                                                     \
        const double *w = t->weight;                                                                                   \
        for (int64_t i = 0; i < n; i++) to[i] = (T)w[2 * i] * from[at[2 * i]] + (T)w[2 * i + 1] * from[at[2 * i + 1]]; \
    }                                                                                                                  \
    static void line_##s(T *to, const T *from, const td_taps *t, int64_t n)                                            \
    {                                                                                                                  \
        if (t->even == 1) one_##s(to, from, t, n);                                                                     \
        else if (t->even == 2) two_##s(to, from, t, n);                                                                \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                T sum = 0;                                                                                             \
                for (int32_t j = t->begin[i]; j < t->begin[i + 1]; j++) sum += (T)t->weight[j] * from[t->at[j]];       \
                to[i] = sum;                                                                                           \
            }                                                                                                          \
    }
DEFINE_LINES(float, f)
DEFINE_LINES(double, d)

/* The rows that row (d, h) of volume `n` sees, weighted and summed. One alone is read where it lies. */
static const void *gathered(td_kcall *k, const resample_state *s, const td_rows *r, const td_taps *t, const int64_t *at,
                            char *sum, char *buffer)
{
    bool first = true, wide = s->acc == TD_FLOAT64;
    int64_t width = s->from[W], done = 0;
    const int32_t *bd = t[D].begin + at[D], *bh = t[H].begin + at[H];
    bool alone = bd[1] - bd[0] == 1 && bh[1] - bh[0] == 1 && t[D].weight[bd[0]] * t[H].weight[bh[0]] == 1;
    for (int32_t i = bd[0]; i < bd[1]; i++)
        for (int32_t j = bh[0]; j < bh[1]; j++) {
            int64_t row = (at[W] * s->from[D] + t[D].at[i]) * s->from[H] + t[H].at[j];
            const void *from = td_rows_get(r, row, 0, width, buffer);
            double weight = t[D].weight[i] * t[H].weight[j];
            if (alone) return from;
            if (wide) add_d((double *)sum, from, weight, first, width);
            else add_f((float *)sum, from, (float)weight, first, width);
            first = false;
            if (td_kernel_rest_after(k, &done, width)) return sum;
        }
    if (first) memset(sum, 0, (size_t)width * td_dtype_size(s->acc));
    return sum;
}

static void rows_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const resample_state *s = (const resample_state *)k->state;
    int64_t b, e, acc = (int64_t)td_dtype_size(s->acc), size = (int64_t)td_dtype_size(s->dtype), done = 0;
    if (atomic_load(&k->failed)) return; /* the taps may not be whole */
    td_taps t[DIMS] = {taps_of(k, s, D), taps_of(k, s, H), taps_of(k, s, W)};
    char *sum = scratch, *buffer = sum + (s->from[W] * acc + 63) / 64 * 64,
         *line = buffer + (s->from[W] * acc + 63) / 64 * 64;
    td_rows r;
    td_rows_init(&r, &k->in[0], k->in[0].desc->ndim - 1, s->acc);
    td_cut_range(s->rows, s->per, chunk, &b, &e);
    for (; b < e; b++) {
        int64_t at[DIMS] = {b / s->to[H] % s->to[D], b % s->to[H], b / s->to[H] / s->to[D]};
        char *out = (char *)k->out[0].data + b * s->to[W] * size;
        char *to = s->dtype == s->acc ? out : line;
        const void *from = gathered(k, s, &r, t, at, sum, buffer);
        if (s->acc == TD_FLOAT64) line_d((double *)to, from, &t[W], s->to[W]);
        else line_f((float *)to, from, &t[W], s->to[W]);
        if (to != out) td_row_store(out, 1, s->dtype, to, s->to[W]);
        if (td_kernel_rest_after(k, &done, s->from[W] + s->to[W])) return;
    }
}

/* The dimensions, missing ones as those of one element. `g0` is the first of mode, align_corners, ... */
static void read_dims(const td_kcall *k, resample_state *s, const td_desc *small, const td_desc *large, int n, int g0)
{
    for (int d = 0; d < DIMS; d++) {
        int at = small->ndim - DIMS + d, scale = g0 + 3 + d;
        s->dim[d] = (td_resize){.in = 1, .out = 1, .mode = TD_NEAREST, .single = s->acc == TD_FLOAT32};
        if (d < DIMS - n) continue;
        s->dim[d].in = small->shape[at], s->dim[d].out = large->shape[at];
        s->dim[d].mode = (uint8_t)td_attr_int(k->attrs, g0);
        s->dim[d].corners = td_attr_bool(k->attrs, g0 + 1);
        s->dim[d].antialias = td_attr_bool(k->attrs, g0 + 2);
        if (td_attr_given(k->attrs, scale)) s->dim[d].scale = td_attr_float(k->attrs, scale);
    }
}

static int plan_work(td_kcall *k, resample_state *s, const char *name, td_error *e)
{
    size_t spare = 0;
    for (int d = 0; d < DIMS; d++) {
        const td_resize *r = &s->dim[d];
        if (__builtin_mul_overflow(td_taps_most(r), r->out, &s->count[d]) || s->count[d] > INT32_MAX)
            return td_fail(e, TD_E_UNSUPPORTED, "%s: %lld places of %lld elements each are too many", name,
                           (long long)r->out, (long long)td_taps_most(r));
        s->at[d] = td_plan_work(k, td_taps_bytes(s->to[d], s->count[d]));
        if (s->backward && td_taps_bytes(r->out, s->count[d]) > spare) spare = td_taps_bytes(r->out, s->count[d]);
    }
    s->spare_at = td_plan_work(k, 64 + spare) + 64;
    return 0;
}

static int plan(td_kcall *k, bool backward, const char *name, td_error *e)
{
    resample_state *s = (resample_state *)k->state;
    const td_desc *in = k->in[0].desc, *out = k->out[0].desc;
    int n, size = backward ? 1 : 0, code;
    *s = (resample_state){
        .backward = backward, .dtype = out->dtype, .acc = (uint8_t)td_acc_dtype(out->dtype), .rows = 1};
    if (!td_dtype_is_float(in->dtype)) return td_refuse_dtype(k, 0, name, e);
    td_attr_ints(k->attrs, size, &n);
    if (n < 1 || n > DIMS || n > in->ndim || in->ndim != out->ndim)
        return td_fail(e, TD_E_SHAPE, "%s: sizes of one to three dimensions, not %d", name, n);
    if (td_desc_numel(out) == 0) return 0;
    read_dims(k, s, backward ? out : in, backward ? in : out, n, size + 1);
    for (int d = 0; d < DIMS; d++) {
        s->from[d] = backward ? s->dim[d].out : s->dim[d].in;
        s->to[d] = backward ? s->dim[d].in : s->dim[d].out;
    }
    if ((code = plan_work(k, s, name, e))) return code;
    for (int d = 0; d < out->ndim - 1; d++) s->rows *= out->shape[d];
    double seen = (double)s->count[D] * (double)s->count[H] / (double)(s->to[D] * s->to[H]);
    double row = seen * (double)s->from[W] + 2 * (double)s->count[W] + (double)s->to[W], taps = 0;
    for (int d = 0; d < DIMS; d++) taps += (double)s->to[d] + 4 * (double)s->count[d];
    s->per = td_max64(1, (int64_t)(TD_RESAMPLE_CHUNK / row));
    td_plan_phase(k, taps_chunk, 1);
    td_plan_phase(k, rows_chunk, td_cut(s->rows, s->per));
    k->scratch_bytes = (size_t)((s->from[W] * 2 + s->to[W]) * (int64_t)td_dtype_size(s->acc)) + 192;
    k->cost_ns = (double)s->rows * row * 0.5 + taps * 5 + 500;
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_resample(td_kcall *k, td_error *e)
{
    return plan(k, false, "resample", e);
}

int td_cpu_plan_resample_backward(td_kcall *k, td_error *e)
{
    return plan(k, true, "resample_backward", e);
}
