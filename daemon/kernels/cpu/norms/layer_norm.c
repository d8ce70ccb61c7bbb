/* Layer norm over the trailing dimensions, and its gradient. A row is read, normalised and written while it lies in the
 * first cache; for mean and variance see moments.h. What a mean loses as a float is subtracted apart.
 *
 * Gradients of weight and bias are sums over rows: one partial sum for each block of rows (blocks follow from the
 * shape), added in order of the blocks. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/norms/moments.h"
#include "daemon/kernels/cpu/rows.h"
#include "daemon/kernels/plans.h"
#include <math.h>

typedef struct norm_state {
    td_rows x;
    int64_t per, blocks; /* rows of a chunk; chunks */
    double eps;
    int split;
    uint8_t acc, mask;
} norm_state;
_Static_assert(sizeof(norm_state) <= TD_KSTATE_BYTES, "norm_state lives in a call's state");

/* x -> y with weight and bias (NULL: 1 and 0); returns mean and rstd. */
#define DEFINE_ROW(T, s)                                                                                               \
    static TD_FOR_SETS(                                                                                                \
        void, row_##s,                                                                                                 \
        (const T *x, const T *w, const T *b, T *y, int64_t n, double eps, double *mean_out, double *rstd_out),         \
        (x, w, b, y, n, eps, mean_out, rstd_out))                                                                      \
    {                                                                                                                  \
        td_moments m = {0, 0, 0};                                                                                      \
        td_moments_add_##s(&m, x, n);                                                                                  \
        const double rstd = 1 / sqrt((n ? m.m2 / m.n : 0) + eps);                                                      \
        const T r = (T)rstd, mean = (T)m.mean, low = (T)(m.mean - (double)mean);                                       \
        *mean_out = m.mean;                                                                                            \
        *rstd_out = rstd;                                                                                              \
        if (w && b)                                                                                                    \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean - low) * r * w[i] + b[i];                              \
        else if (w)                                                                                                    \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean - low) * r * w[i];                                     \
        else if (b)                                                                                                    \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean - low) * r + b[i];                                     \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean - low) * r;                                            \
    }
DEFINE_ROW(float, f)
DEFINE_ROW(double, d)

/* A weight or bias as a vector: as it lies, or loaded into `buf`; NULL when absent. */
static const void *vector(const td_karg *a, unsigned acc, void *buf)
{
    td_rows r;
    if (td_absent(a)) return NULL;
    td_rows_init(&r, a, 0, acc);
    return td_rows_get(&r, 0, 0, r.cols, buf);
}

static void forward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const norm_state *s = (const norm_state *)k->state;
    int64_t b, e, n = s->x.cols, acc = (int64_t)td_dtype_size(s->acc);
    char *buf = scratch; /* row, weight, bias, result */
    unsigned dtype = k->out[0].desc->dtype;
    const void *w = vector(&k->in[1], s->acc, buf + n * acc), *bias = vector(&k->in[2], s->acc, buf + 2 * n * acc);
    td_cut_range(s->x.rows, s->per, chunk, &b, &e);
    for (; b < e; b++) {
        const void *x = td_rows_get(&s->x, b, 0, n, buf);
        char *out = (char *)k->out[0].data + b * n * (int64_t)td_dtype_size(dtype);
        void *y = dtype == s->acc ? (void *)out : buf + 3 * n * acc;
        double mean, rstd;
        if (s->acc == TD_FLOAT64) row_d(x, w, bias, y, n, s->eps, &mean, &rstd);
        else row_f(x, w, bias, y, n, s->eps, &mean, &rstd);
        if (y != out) td_row_store(out, 1, dtype, y, n);
        for (int o = 1; o <= 2; o++) {
            unsigned t = k->out[o].desc->dtype;
            td_element_from_double((char *)k->out[o].data + b * (int64_t)td_dtype_size(t), t, o == 1 ? mean : rstd);
        }
    }
}

static int start(td_kcall *k, norm_state *s, const td_karg *x, int ndims, const char *name, td_error *e)
{
    *s = (norm_state){0};
    if (!td_dtype_is_float(x->desc->dtype))
        return td_fail(e, TD_E_UNSUPPORTED, "%s has no CPU kernel for %s", name, td_dtype_name(x->desc->dtype));
    if (ndims < 1 || ndims > x->desc->ndim)
        return td_fail(e, TD_E_INVALID, "%s: ndims is %d, x has %d dimensions", name, ndims, x->desc->ndim);
    s->acc = (uint8_t)td_acc_dtype(x->desc->dtype);
    s->split = x->desc->ndim - ndims;
    td_rows_init(&s->x, x, s->split, s->acc);
    (void)k;
    return 0;
}

static void addresses(td_kcall *k)
{
    ((norm_state *)k->state)->x.data = k->in[0].data;
}

static void backward_addresses(td_kcall *k)
{
    ((norm_state *)k->state)->x.data = k->in[1].data;
}

int td_cpu_plan_layer_norm(td_kcall *k, td_error *e)
{
    norm_state *s = (norm_state *)k->state;
    int rc = start(k, s, &k->in[0], (int)td_attr_int(k->attrs, 0), "layer_norm", e);
    if (rc) return rc;
    s->eps = td_attr_float(k->attrs, 1);
    s->per = td_max64(1, TD_NORM_CHUNK / td_max64(1, s->x.cols));
    s->blocks = td_cut(s->x.rows, s->per);
    td_plan_phase(k, forward_chunk, s->blocks);
    k->scratch_bytes = (size_t)(4 * s->x.cols) * td_dtype_size(s->acc);
    k->cost_ns = (double)s->x.rows * ((double)s->x.cols * 0.6 + 30);
    k->sure = true;
    td_plan_moves(k, addresses, sizeof *s);
    return 0;
}

/* ---- gradient ---- */

/* dx (may be NULL), and dw += g xhat, db += g (may be NULL). */
#define DEFINE_BACK(T, s)                                                                                              \
    static TD_FOR_SETS(                                                                                                \
        void, back_##s,                                                                                                \
        (const T *g, const T *x, const T *w, double mean_in, double rstd_in, T *dx, T *dw, T *db, int64_t n),          \
        (g, x, w, mean_in, rstd_in, dx, dw, db, n))                                                                    \
    {                                                                                                                  \
        const T mean = (T)mean_in, rstd = (T)rstd_in;                                                                  \
        if (dx) {                                                                                                      \
            double sums[2] = {0, 0};                                                                                   \
            if (w) td_blocks_both_##s(x, mean, g, w, n, &sums[0], &sums[1]);                                           \
            else td_blocks_both_##s(x, mean, g, NULL, n, &sums[0], &sums[1]);                                          \
            const T sum = (T)(sums[0] / (double)n), dot = (T)(sums[1] * rstd_in / (double)n);                          \
            if (w && dw && db) { /* as it mostly is: all in one pass */                                                \
                _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                   \
                {                                                                                                      \
                    const T gi = g[i], xhat = (x[i] - mean) * rstd;                                                    \
                    dx[i] = rstd * (gi * w[i] - sum - xhat * dot);                                                     \
                    dw[i] += gi * xhat;                                                                                \
                    db[i] += gi;                                                                                       \
                }                                                                                                      \
                return;                                                                                                \
            }                                                                                                          \
            if (w)                                                                                                     \
                for (int64_t i = 0; i < n; i++) dx[i] = rstd * (g[i] * w[i] - sum - (x[i] - mean) * rstd * dot);       \
            else                                                                                                       \
                for (int64_t i = 0; i < n; i++) dx[i] = rstd * (g[i] - sum - (x[i] - mean) * rstd * dot);              \
        }                                                                                                              \
        if (dw)                                                                                                        \
            for (int64_t i = 0; i < n; i++) dw[i] += g[i] * ((x[i] - mean) * rstd);                                    \
        if (db)                                                                                                        \
            for (int64_t i = 0; i < n; i++) db[i] += g[i];                                                             \
    }
DEFINE_BACK(float, f)
DEFINE_BACK(double, d)

/* The partial sum of block `chunk`: which 0 is dw, 1 is db. */
static double *partial(const td_kcall *k, const norm_state *s, int64_t chunk, int which)
{
    return s->mask & (2 << which) ? (double *)k->work + (chunk * 2 + which) * s->x.cols : NULL;
}

/* Sums of a few rows, in the computed dtype, go over to the partial sum. */
static void flush(double *sum, void *few, int64_t n, unsigned acc)
{
    if (!sum) return;
    if (acc == TD_FLOAT64)
        for (int64_t i = 0; i < n; i++) sum[i] += ((double *)few)[i];
    else
        for (int64_t i = 0; i < n; i++) sum[i] += (double)((float *)few)[i];
    memset(few, 0, (size_t)n * td_dtype_size(acc));
}

static void backward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const norm_state *s = (const norm_state *)k->state;
    int64_t b, e, n = s->x.cols, acc = (int64_t)td_dtype_size(s->acc);
    char *buf = scratch; /* x, g, weight, dx, sums of dw and db */
    unsigned dtype = k->in[1].desc->dtype;
    const void *w = vector(&k->in[2], s->acc, buf + 2 * n * acc);
    double *sum[2] = {partial(k, s, chunk, 0), partial(k, s, chunk, 1)};
    void *few[2];
    td_rows g;
    td_rows_init(&g, &k->in[0], s->split, s->acc);
    for (int i = 0; i < 2; i++) {
        few[i] = sum[i] ? buf + (4 + i) * n * acc : NULL;
        if (!sum[i]) continue;
        memset(sum[i], 0, (size_t)n * sizeof(double));
        memset(few[i], 0, (size_t)(n * acc));
    }
    td_cut_range(s->x.rows, s->per, chunk, &b, &e);
    for (int64_t left = TD_NORM_FLUSH, done = 0; b < e; b++) {
        if (td_kernel_rest_after(k, &done, n + 1)) return;
        const void *x = td_rows_get(&s->x, b, 0, n, buf), *gr = td_rows_get(&g, b, 0, n, buf + n * acc);
        double mean = td_karg_number(&k->in[3], b), rstd = td_karg_number(&k->in[4], b);
        char *out = (char *)k->out[0].data + b * n * (int64_t)td_dtype_size(dtype);
        void *dx = !(s->mask & 1) ? NULL : dtype == s->acc ? (void *)out : buf + 3 * n * acc;
        if (s->acc == TD_FLOAT64) back_d(gr, x, w, mean, rstd, dx, few[0], few[1], n);
        else back_f(gr, x, w, mean, rstd, dx, few[0], few[1], n);
        if (dx && dx != out) td_row_store(out, 1, dtype, dx, n);
        if (--left > 0 && b + 1 < e) continue;
        for (int i = 0; i < 2; i++) flush(sum[i], few[i], n, s->acc);
        left = TD_NORM_FLUSH;
    }
}

static void sum_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const norm_state *s = (const norm_state *)k->state;
    double *sum = scratch;
    int64_t b, e;
    td_cut_range(s->x.cols, TD_NORM_COLUMNS, chunk, &b, &e);
    for (int which = 0; which < 2; which++) {
        if (!(s->mask & (2 << which))) continue;
        const td_karg *out = &k->out[1 + which];
        memset(sum, 0, TD_NORM_COLUMNS * sizeof *sum);
        for (int64_t p = 0; p < s->blocks; p++)
            for (int64_t i = b; i < e; i++) sum[i - b] += partial(k, s, p, which)[i];
        char *to = (char *)out->data + b * (int64_t)td_dtype_size(out->desc->dtype);
        td_isa_now->cast[TD_FLOAT64][out->desc->dtype](e - b, to, &(const void *){sum}, NULL);
    }
}

int td_cpu_plan_layer_norm_backward(td_kcall *k, td_error *e)
{
    norm_state *s = (norm_state *)k->state;
    int rc = start(k, s, &k->in[1], (int)td_attr_int(k->attrs, 0), "layer_norm_backward", e);
    if (rc) return rc;
    s->mask = (uint8_t)(td_attr_int(k->attrs, 1) & 7);
    s->per = td_max64(td_max64(1, TD_NORM_CHUNK / td_max64(1, s->x.cols)), td_cut(s->x.rows, TD_NORM_PARTIALS));
    s->blocks = td_cut(s->x.rows, s->per);
    if (!s->mask) return 0;
    td_plan_work(k, (size_t)(s->blocks * 2 * s->x.cols) * sizeof(double));
    td_plan_phase(k, backward_chunk, s->blocks);
    if (s->mask & 6) td_plan_phase(k, sum_chunk, td_cut(s->x.cols, TD_NORM_COLUMNS));
    k->scratch_bytes = (size_t)td_max64(6 * s->x.cols * (int64_t)td_dtype_size(s->acc), TD_NORM_COLUMNS * 8);
    k->cost_ns = (double)s->x.rows * ((double)s->x.cols * 1.0 + 40);
    td_plan_moves(k, backward_addresses, sizeof *s);
    return 0;
}
