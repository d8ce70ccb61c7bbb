/* euclidean_dist: how far each row of x is from each of y, by the differences themselves and never by |x|^2 + |y|^2 -
 * 2xy, which loses what points far from the origin differ by.
 *
 * A chunk is some rows of x beside a range of rows of y. COLS rows of y at a time are turned, a stretch of their
 * elements after the other, so that one element of each lies side by side; four rows of x go over such a stretch with
 * their sums in registers. Each stretch is summed by itself, which keeps long rows exact. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/plans.h"
#include <math.h>
#include <string.h>

enum { COLS = 16, ROWS = 64, AT_ONCE = 4, STRETCH = 256 };
#define CHUNK_STEPS INT64_C(2000000) /* differences */

typedef struct dist_state {
    int64_t n, m, k;
    int64_t row_blocks, col_blocks, cols; /* parts of one of the batch; rows of y of a part */
    int64_t parts, per;                   /* in all, and of a chunk */
} dist_state;

/* What a chunk works in: rows of x, turned rows of y, the sums. */
typedef struct dist_scratch_f32 {
    float x[ROWS][STRETCH], y[STRETCH][COLS], sum[ROWS][COLS];
} dist_scratch_f32;
typedef struct dist_scratch_f64 {
    double x[ROWS][STRETCH], y[STRETCH][COLS], sum[ROWS][COLS];
} dist_scratch_f64;

#define DEFINE_STRETCH(T, s)                                                                                           \
    typedef T lanes_##s __attribute__((vector_size(COLS * sizeof(T)), aligned(sizeof(T)), may_alias));                 \
    /* sum[r][c] += the squares of x[r] - y[.][c], of `rows` rows, a multiple of AT_ONCE. */                           \
    static TD_FOR_SETS(void, stretch_##s, (dist_scratch_##s * w, int64_t rows, int64_t k), (w, rows, k))               \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r += AT_ONCE) {                                                                  \
            lanes_##s a = {0}, b = {0}, c = {0}, d = {0};                                                              \
            const T *x = w->x[r];                                                                                      \
            for (int64_t i = 0; i < k; i++) {                                                                          \
                const lanes_##s y = *(const lanes_##s *)w->y[i];                                                       \
                const lanes_##s p = x[i] - y, q = x[i + STRETCH] - y, u = x[i + 2 * STRETCH] - y,                      \
                                v = x[i + 3 * STRETCH] - y;                                                            \
                a += p * p;                                                                                            \
                b += q * q;                                                                                            \
                c += u * u;                                                                                            \
                d += v * v;                                                                                            \
            }                                                                                                          \
            *(lanes_##s *)w->sum[r] += a;                                                                              \
            *(lanes_##s *)w->sum[r + 1] += b;                                                                          \
            *(lanes_##s *)w->sum[r + 2] += c;                                                                          \
            *(lanes_##s *)w->sum[r + 3] += d;                                                                          \
        }                                                                                                              \
    }
DEFINE_STRETCH(float, f32)
DEFINE_STRETCH(double, f64)

static const char *row(const td_karg *x, int64_t batch, int64_t i, int64_t k)
{
    const td_desc *d = x->desc;
    return (const char *)x->data +
           (batch * d->stride[0] + i * d->stride[1] + k * d->stride[2]) * (int64_t)td_dtype_size(d->dtype);
}

/* The distances of rows [r[0], r[1]) of x and [c[0], c[1]), at most COLS, of y. False: nobody wants them any more. */
typedef bool (*block_fn)(td_kcall *call, void *scratch, int64_t batch, const int64_t *r, const int64_t *c);

static bool run_part(td_kcall *call, int64_t part, void *scratch, block_fn block)
{
    const dist_state *st = (const dist_state *)call->state;
    int64_t batch = part / (st->row_blocks * st->col_blocks), rest = part % (st->row_blocks * st->col_blocks);
    int64_t r[2], all[2];
    td_cut_range(st->n, ROWS, rest / st->col_blocks, &r[0], &r[1]);
    td_cut_range(st->m, st->cols, rest % st->col_blocks, &all[0], &all[1]);
    for (int64_t c = all[0]; c < all[1]; c += COLS)
        if (!block(call, scratch, batch, r, (int64_t[]){c, td_min64(c + COLS, all[1])})) return false;
    return true;
}

static void run(td_kcall *call, int64_t chunk, void *scratch, block_fn block)
{
    const dist_state *st = (const dist_state *)call->state;
    int64_t from, to;
    td_cut_range(st->parts, st->per, chunk, &from, &to);
    while (from < to && run_part(call, from, scratch, block)) from++;
}

#define DEFINE_BLOCK(T, s, root)                                                                                       \
    static bool block_##s(td_kcall *call, void *scratch, int64_t batch, const int64_t *r, const int64_t *c)            \
    {                                                                                                                  \
        const dist_state *st = (const dist_state *)call->state;                                                        \
        dist_scratch_##s *w = scratch;                                                                                 \
        const td_karg *x = &call->in[0], *y = &call->in[1], *out = &call->out[0];                                      \
        int64_t rows = r[1] - r[0], cols = c[1] - c[0], size = (int64_t)td_dtype_size(out->desc->dtype);               \
        int64_t full = (rows + AT_ONCE - 1) / AT_ONCE * AT_ONCE;                                                       \
        if (td_kernel_rest(call)) return false;                                                                        \
        memset(w->sum, 0, sizeof w->sum);                                                                              \
        if (full > rows) memset(w->x[rows], 0, (size_t)(full - rows) * sizeof *w->x); /* worked on, too */             \
        for (int64_t at = 0; at < st->k; at += STRETCH) {                                                              \
            int64_t k = td_min64(STRETCH, st->k - at);                                                                 \
            if (st->k > STRETCH || c[0] % st->cols == 0) /* of short rows once for all of y */                         \
                for (int64_t i = 0; i < rows; i++)                                                                     \
                    td_row_load(w->x[i], row(x, batch, r[0] + i, at), x->desc->stride[2], x->desc->dtype, k);          \
            for (int64_t i = 0; i < cols; i++) {                                                                       \
                T line[STRETCH];                                                                                       \
                td_row_load(line, row(y, batch, c[0] + i, at), y->desc->stride[2], y->desc->dtype, k);                 \
                for (int64_t j = 0; j < k; j++) w->y[j][i] = line[j];                                                  \
            }                                                                                                          \
            for (int64_t j = 0; j < k && cols < COLS; j++)                                                             \
                memset(&w->y[j][cols], 0, (size_t)(COLS - cols) * sizeof **w->y);                                      \
            stretch_##s(w, full, k);                                                                                   \
            if (at + STRETCH < st->k && td_kernel_rest(call)) return false;                                            \
        }                                                                                                              \
        for (int64_t i = 0; i < rows; i++) {                                                                           \
            for (int64_t j = 0; j < cols; j++) w->sum[i][j] = root(w->sum[i][j]);                                      \
            td_row_store((char *)out->data + ((batch * st->n + r[0] + i) * st->m + c[0]) * size, 1, out->desc->dtype,  \
                         w->sum[i], cols);                                                                             \
        }                                                                                                              \
        return true;                                                                                                   \
    }                                                                                                                  \
    static void chunk_##s(td_kcall *call, int64_t chunk, void *scratch)                                                \
    {                                                                                                                  \
        run(call, chunk, scratch, block_##s);                                                                          \
    }
DEFINE_BLOCK(float, f32, sqrtf)
DEFINE_BLOCK(double, f64, sqrt)

int td_cpu_plan_euclidean_dist(td_kcall *k, td_error *e)
{
    (void)e;
    const td_desc *x = k->in[0].desc, *out = k->out[0].desc;
    bool wide = td_acc_dtype(x->dtype) == TD_FLOAT64;
    dist_state *s = (dist_state *)k->state;
    *s = (dist_state){.n = x->shape[1], .m = out->shape[2], .k = x->shape[2]};
    if (td_desc_numel(out) == 0) return TD_OK;
    int64_t rows = td_max64(td_min64(s->n, ROWS), AT_ONCE);
    int64_t fit = CHUNK_STEPS / (rows * td_min64(td_max64(s->k, 16), CHUNK_STEPS)); /* rows of y */
    s->cols = td_max64(td_min64(fit, s->m) / COLS * COLS, COLS);
    s->row_blocks = td_cut(s->n, ROWS);
    s->col_blocks = td_cut(s->m, s->cols);
    s->parts = x->shape[0] * s->row_blocks * s->col_blocks;
    s->per = td_max64(fit / s->cols, 1);
    k->scratch_bytes = wide ? sizeof(dist_scratch_f64) : sizeof(dist_scratch_f32);
    td_plan_phase(k, wide ? chunk_f64 : chunk_f32, td_cut(s->parts, s->per));
    k->cost_ns = 100 + (double)td_desc_numel(out) * (1 + 0.08 * (double)s->k * (wide ? 2 : 1));
    td_plan_moves_freely(k, sizeof *s);
    return TD_OK;
}
