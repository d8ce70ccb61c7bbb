/* Batch norm of images that lie channels last, and its gradient: all that is known of some channels is summed over the
 * places first, then each place takes what its channels want. Sums are joined in double, a block of places a time, as
 * in moments.h. Many places are cut into parts, whose sums wait in work memory and are joined in order: few channels
 * would be the work of one thread. */
#include "daemon/kernels/cpu/norms/batch_norm.h"

enum {
    LANES = 16,
    PLACES = 256
}; /* channels of a chunk of sums: a line; places whose sums are taken in the dtype itself */

typedef struct last_state {
    td_batch b;
    int64_t places, channels, per; /* per: places of a chunk that writes */
    int64_t part, parts;           /* places of a chunk of sums; how many there are, 0: nothing is summed */
    size_t sums_at;                /* in work memory, of several parts */
    bool backward;
} last_state;
_Static_assert(sizeof(last_state) <= TD_KSTATE_BYTES, "last_state lives in a call's state");

/* Of the channels of a line: moments of x, or for its gradient sums of g and of g (x - mean). */
typedef struct last_sums {
    td_moments seen[LANES];
    double sum[LANES], dot[LANES];
} last_sums;

/* Rows of numbers, one for each channel, in work memory. */
enum { MEAN, LOW, SCALE, SHIFT, ROWS };

/* some_...: of a whole line the compiler knows how long it is. */
#define DEFINE_LAST(T, s)                                                                                              \
    TD_INLINE void moments_##s(const T *x, int64_t step, int64_t places, int64_t n, td_moments *m)                     \
    {                                                                                                                  \
        T near[LANES] = {0}, sum[LANES] = {0}, square[LANES] = {0};                                                    \
        for (int64_t r = 0; r < places; r++)                                                                           \
            for (int64_t i = 0; i < n; i++) near[i] += x[r * step + i];                                                \
        for (int64_t i = 0; i < n; i++) near[i] /= (T)places;                                                          \
        for (int64_t r = 0; r < places; r++)                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T d = x[r * step + i] - near[i];                                                                 \
                sum[i] += d;                                                                                           \
                square[i] += d * d;                                                                                    \
            }                                                                                                          \
        for (int64_t i = 0; i < n; i++) td_moments_block_##s(&m[i], near[i], places, sum[i], square[i]);               \
    }                                                                                                                  \
    TD_INLINE void sums_##s(const T *g, const T *x, const T *mean, int64_t step, int64_t places, int64_t n,            \
                            double *sum, double *dot)                                                                  \
    {                                                                                                                  \
        T a[LANES] = {0}, b[LANES] = {0};                                                                              \
        for (int64_t r = 0; r < places; r++)                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                a[i] += g[r * step + i];                                                                               \
                b[i] += (x[r * step + i] - mean[i]) * g[r * step + i];                                                 \
            }                                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            sum[i] += (double)a[i];                                                                                    \
            dot[i] += (double)b[i];                                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    static TD_FOR_SETS(void, some_moments_##s, (const T *x, int64_t step, int64_t places, int64_t n, td_moments *m),   \
                       (x, step, places, n, m))                                                                        \
    {                                                                                                                  \
        if (n == LANES) moments_##s(x, step, places, LANES, m);                                                        \
        else moments_##s(x, step, places, n, m);                                                                       \
    }                                                                                                                  \
    static TD_FOR_SETS(                                                                                                \
        void, some_sums_##s,                                                                                           \
        (const T *g, const T *x, const T *mean, int64_t step, int64_t places, int64_t n, double *sum, double *dot),    \
        (g, x, mean, step, places, n, sum, dot))                                                                       \
    {                                                                                                                  \
        if (n == LANES) sums_##s(g, x, mean, step, places, LANES, sum, dot);                                           \
        else sums_##s(g, x, mean, step, places, n, sum, dot);                                                          \
    }                                                                                                                  \
    static TD_FOR_SETS(void, forward_##s, (const T *x, T *y, const T *row, int64_t n, int64_t places),                 \
                       (x, y, row, n, places))                                                                         \
    {                                                                                                                  \
        const T *mean = row + MEAN * n, *low = row + LOW * n, *scale = row + SCALE * n, *shift = row + SHIFT * n;      \
        for (int64_t r = 0; r < places; r++, x += n, y += n)                                                           \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean[i] - low[i]) * scale[i] + shift[i];                    \
    }                                                                                                                  \
    static TD_FOR_SETS(void, backward_##s, (const T *g, const T *x, T *dx, const T *row, int64_t n, int64_t places),   \
                       (g, x, dx, row, n, places))                                                                     \
    {                                                                                                                  \
        const T *mean = row + MEAN * n, *gmean = row + LOW * n, *scale = row + SCALE * n, *coef = row + SHIFT * n;     \
        for (int64_t r = 0; r < places; r++, g += n, x += n, dx += n)                                                  \
            for (int64_t i = 0; i < n; i++) dx[i] = scale[i] * (g[i] - gmean[i] - (x[i] - mean[i]) * coef[i]);         \
    }                                                                                                                  \
    static void put_##s(td_kcall *k, const last_state *l, int64_t c, const double v[ROWS])                             \
    {                                                                                                                  \
        for (int i = 0; i < ROWS; i++) ((T *)k->work)[i * l->channels + c] = (T)v[i];                                  \
    }                                                                                                                  \
    static void see_##s(td_kcall *k, const last_state *l, int64_t part, int64_t c0, int64_t n, last_sums *to)          \
    {                                                                                                                  \
        const T *x = (const T *)k->in[0].data + c0;                                                                    \
        int64_t b, e;                                                                                                  \
        td_cut_range(l->places, l->part, part, &b, &e);                                                                \
        for (int64_t w; b < e && !td_kernel_rest(k); b += w) {                                                         \
            w = td_min64(PLACES, e - b);                                                                               \
            some_moments_##s(x + b * l->channels, l->channels, w, n, to->seen);                                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void see_back_##s(td_kcall *k, const last_state *l, int64_t part, int64_t c0, int64_t n, last_sums *to)     \
    {                                                                                                                  \
        const T *g = (const T *)k->in[0].data + c0, *x = (const T *)k->in[1].data + c0;                                \
        T mean[LANES] = {0};                                                                                           \
        int64_t b, e;                                                                                                  \
        for (int64_t i = 0; i < n; i++) mean[i] = (T)td_karg_number(&k->in[3], c0 + i);                                \
        td_cut_range(l->places, l->part, part, &b, &e);                                                                \
        for (int64_t w; b < e && !td_kernel_rest(k); b += w) {                                                         \
            w = td_min64(PLACES, e - b);                                                                               \
            some_sums_##s(g + b * l->channels, x + b * l->channels, mean, l->channels, w, n, to->sum, to->dot);        \
        }                                                                                                              \
    }                                                                                                                  \
    static void settle_##s(td_kcall *k, const last_state *l, int64_t c0, int64_t n, const last_sums *of)               \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double mean, rstd;                                                                                         \
            td_batch_settle(k, &l->b, c0 + i, &of->seen[i], &mean, &rstd);                                             \
            put_##s(k, l, c0 + i,                                                                                      \
                    (double[ROWS]){mean, mean - (double)(T)mean, rstd * td_batch_number_or(&k->in[1], c0 + i, 1),      \
                                   td_batch_number_or(&k->in[2], c0 + i, 0)});                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static void settle_back_##s(td_kcall *k, const last_state *l, int64_t c0, int64_t n, const last_sums *of)          \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double rstd = td_karg_number(&k->in[4], c0 + i), count = (double)l->places;                                \
            bool training = l->b.training;                                                                             \
            td_batch_give(k, &l->b, c0 + i, rstd, of->sum[i], of->dot[i]);                                             \
            put_##s(k, l, c0 + i,                                                                                      \
                    (double[ROWS]){(double)(T)td_karg_number(&k->in[3], c0 + i), training ? of->sum[i] / count : 0,    \
                                   rstd * td_batch_number_or(&k->in[2], c0 + i, 1),                                    \
                                   training ? of->dot[i] * rstd * rstd / count : 0});                                  \
        }                                                                                                              \
    }
DEFINE_LAST(float, f)
DEFINE_LAST(double, d)

/* What a part has of some channels. */
static void sums_of(td_kcall *k, int64_t part, int64_t group, last_sums *to)
{
    const last_state *l = (const last_state *)k->state;
    int64_t c0 = group * LANES, n = td_min64(LANES, l->channels - c0);
    bool wide = l->b.acc == TD_FLOAT64;
    memset(to, 0, sizeof *to);
    if (l->backward && wide) see_back_d(k, l, part, c0, n, to);
    else if (l->backward) see_back_f(k, l, part, c0, n, to);
    else if (wide) see_d(k, l, part, c0, n, to);
    else see_f(k, l, part, c0, n, to);
}

static last_sums *kept_sums(const td_kcall *k, const last_state *l)
{
    return (last_sums *)((char *)k->work + l->sums_at);
}

static void part_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const last_state *l = (const last_state *)k->state;
    int64_t groups = td_max64(1, td_cut(l->channels, LANES));
    (void)scratch;
    sums_of(k, chunk / groups, chunk % groups, kept_sums(k, l) + chunk);
}

static void join(last_sums *s, const last_sums *next)
{
    for (int i = 0; i < LANES; i++) {
        if (next->seen[i].n > 0) td_moments_join(&s->seen[i], next->seen[i].n, next->seen[i].mean, next->seen[i].m2);
        s->sum[i] += next->sum[i];
        s->dot[i] += next->dot[i];
    }
}

static void settle_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const last_state *l = (const last_state *)k->state;
    int64_t c0 = chunk * LANES, n = td_min64(LANES, l->channels - c0), groups = td_cut(l->channels, LANES);
    bool wide = l->b.acc == TD_FLOAT64;
    last_sums all = {0};
    (void)scratch;
    if (l->parts == 1) sums_of(k, 0, chunk, &all);
    else if (l->parts) all = kept_sums(k, l)[chunk];
    for (int64_t part = 1; part < l->parts; part++) join(&all, kept_sums(k, l) + part * groups + chunk);
    if (atomic_load(&k->failed)) return;
    if (l->backward && wide) settle_back_d(k, l, c0, n, &all);
    else if (l->backward) settle_back_f(k, l, c0, n, &all);
    else if (wide) settle_d(k, l, c0, n, &all);
    else settle_f(k, l, c0, n, &all);
}

/* Places are written some at a time, between which the thread rests. */
static void write_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const last_state *l = (const last_state *)k->state;
    const bool backward = l->backward, wide = l->b.acc == TD_FLOAT64;
    (void)scratch;
    int64_t b, e, n = l->channels, some = td_max64(1, TD_REST_ELEMENTS / n);
    td_cut_range(l->places, l->per, chunk, &b, &e);
    for (; b < e && !td_kernel_rest(k); b += some) {
        int64_t places = td_min64(some, e - b), at = b * n * (int64_t)td_dtype_size(l->b.acc);
        const char *first = (const char *)k->in[0].data + at, *x = backward ? (const char *)k->in[1].data + at : first;
        char *out = (char *)k->out[0].data + at;
        if (backward && wide) backward_d((const double *)first, (const double *)x, (double *)out, k->work, n, places);
        else if (backward) backward_f((const float *)first, (const float *)x, (float *)out, k->work, n, places);
        else if (wide) forward_d((const double *)x, (double *)out, k->work, n, places);
        else forward_f((const float *)x, (float *)out, k->work, n, places);
    }
}

static bool takes(const td_batch *b, const td_desc *x, const td_desc *y)
{
    return (x->dtype == TD_FLOAT32 || x->dtype == TD_FLOAT64) && b->acc == x->dtype && y->dtype == x->dtype &&
           td_desc_is_channels_last(x) && td_desc_is_channels_last(y);
}

static void plan(td_kcall *k, const td_batch *b, const td_desc *x, bool backward)
{
    last_state *l = (last_state *)k->state;
    int64_t channels = x->shape[1];
    *l = (last_state){.b = *b, .channels = channels, .places = td_desc_numel(x) / channels, .backward = backward};
    l->per = td_max64(1, TD_BATCH_CHUNK / channels);
    td_plan_work(k, (size_t)(ROWS * channels) * td_dtype_size(b->acc));
    int64_t groups = td_cut(channels, LANES);
    bool summed = b->training || (backward && b->mask & 6);
    l->part = td_max64(TD_BATCH_PLACES, td_cut(td_cut(l->places, PLACES), TD_BATCH_PARTS) * PLACES);
    l->parts = summed ? td_cut(l->places, l->part) : 0;
    if (l->parts > 1) {
        l->sums_at = td_plan_work(k, (size_t)(l->parts * groups) * sizeof(last_sums));
        td_plan_phase(k, part_chunk, l->parts * groups);
    }
    td_plan_phase(k, settle_chunk, groups);
    td_plan_phase(k, write_chunk, td_cut(l->places, l->per));
    k->cost_ns = (double)(l->places * channels) * 0.5 + 100 * (double)channels;
}

bool td_batch_plan_last(td_kcall *k, const td_batch *b)
{
    if (!takes(b, k->in[0].desc, k->out[0].desc)) return false;
    plan(k, b, k->in[0].desc, false);
    return true;
}

bool td_batch_plan_back_last(td_kcall *k, const td_batch *b)
{
    const td_desc *g = k->in[0].desc, *x = k->in[1].desc;
    if (!(b->mask & 1) || !takes(b, x, k->out[0].desc) || !takes(b, x, g)) return false;
    plan(k, b, x, true);
    return true;
}
