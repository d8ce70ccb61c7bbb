/* Batch norm over N x C x ..., and its gradient: one channel a task.
 *
 * A channel is a few planes of contiguous elements (for N x C inputs, one strided column). Statistics are taken a
 * segment at a time while it lies in the first cache (moments.h), so that a channel is read from memory twice. Training
 * normalises with the biased variance and feeds the unbiased one into the running variance; evaluation uses the running
 * values, and hands them out as mean and rstd, so that the gradient needs nothing else. */
#include "daemon/kernels/cpu/norms/batch_norm.h"
#include <math.h>

typedef struct bn_state {
    td_rows x; /* rows: plane-major within a channel; see planes() */
    int64_t channels, planes, per;
    td_batch b;
} bn_state;
_Static_assert(sizeof(bn_state) <= TD_KSTATE_BYTES, "bn_state lives in a call's state");

/* Rows of `r` are (channel, plane); with nothing behind the channel, the batch itself is the plane. */
static void planes(td_rows *r, const td_karg *x, unsigned acc)
{
    const td_desc *d = x->desc;
    bool flat = true; /* no element behind the channel dimension but one */
    for (int i = 2; i < d->ndim; i++) flat = flat && d->shape[i] == 1;
    td_rows_start(r, x, acc);
    td_rows_add_row_dim(r, d->shape[1], d->stride[1]);
    if (flat) td_rows_add_col_dim(r, d->shape[0], d->stride[0]);
    else td_rows_add_row_dim(r, d->shape[0], d->stride[0]);
    for (int i = 2; i < d->ndim; i++) td_rows_add_col_dim(r, d->shape[i], d->stride[i]);
    td_rows_finish(r);
}

#define DEFINE_SEGMENT(T, s)                                                                                           \
    static TD_FOR_SETS(void, stats_##s, (const T *x, int64_t n, td_moments *m), (x, n, m))                             \
    {                                                                                                                  \
        td_moments_add_##s(m, x, n);                                                                                   \
    }                                                                                                                  \
    static TD_FOR_SETS(void, scale_##s, (const T *x, T *y, double mean_in, double a, double b, int64_t n),             \
                       (x, y, mean_in, a, b, n))                                                                       \
    {                                                                                                                  \
        const T mean = (T)mean_in, low = (T)(mean_in - (double)mean), scale = (T)a, shift = (T)b;                      \
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean - low) * scale + shift;                                    \
    }                                                                                                                  \
    static TD_FOR_SETS(void, sums_##s, (const T *g, const T *x, double mean, int64_t n, double *sum, double *dot),     \
                       (g, x, mean, n, sum, dot))                                                                      \
    {                                                                                                                  \
        T a, b;                                                                                                        \
        td_lanes_both_##s(x, (T)mean, g, NULL, n, &a, &b);                                                             \
        *sum += (double)a;                                                                                             \
        *dot += (double)b;                                                                                             \
    }                                                                                                                  \
    static TD_FOR_SETS(void, gradient_##s,                                                                             \
                       (const T *g, const T *x, T *dx, double mean_in, double c, double gm, double xc, int64_t n),     \
                       (g, x, dx, mean_in, c, gm, xc, n))                                                              \
    {                                                                                                                  \
        const T mean = (T)mean_in, scale = (T)c, gmean = (T)gm, coef = (T)xc;                                          \
        for (int64_t i = 0; i < n; i++) dx[i] = scale * (g[i] - gmean - (x[i] - mean) * coef);                         \
    }
DEFINE_SEGMENT(float, f)
DEFINE_SEGMENT(double, d)

static td_moments channel_stats(td_kcall *k, const bn_state *s, int64_t c, void *buf)
{
    td_moments st = {0, 0, 0};
    int64_t done = 0;
    for (int64_t p = 0; p < s->planes; p++)
        for (int64_t at = 0; at < s->x.cols; at += TD_BATCH_SEGMENT) {
            int64_t n = td_min64(TD_BATCH_SEGMENT, s->x.cols - at);
            if (td_kernel_rest_after(k, &done, n)) return st;
            const void *x = td_rows_get(&s->x, c * s->planes + p, at, n, buf);
            if (s->b.acc == TD_FLOAT64) stats_d(x, n, &st);
            else stats_f(x, n, &st);
        }
    return st;
}

/* Output rows are contiguous: where element `at` of plane p of channel c lies, and whether elements follow with step 1.
 */
static char *out_at(const td_kcall *k, const bn_state *s, int64_t c, int64_t p, int64_t at, int64_t *step)
{
    int64_t size = (int64_t)td_dtype_size(k->out[0].desc->dtype);
    bool column = s->planes == 1 && k->out[0].desc->shape[0] == s->x.cols && s->x.cols != 1;
    *step = column ? s->channels : 1;
    if (column) return (char *)k->out[0].data + (at * s->channels + c) * size;
    return (char *)k->out[0].data + ((p * s->channels + c) * s->x.cols + at) * size;
}

static void store_number(const td_karg *to, int64_t i, double v)
{
    const td_desc *d = to->desc;
    if (td_absent(to) || td_desc_numel(d) == 0) return;
    int64_t stride = d->ndim ? d->stride[d->ndim - 1] : 0;
    td_element_from_double((char *)to->data + i * stride * (int64_t)td_dtype_size(d->dtype), d->dtype, v);
}

double td_batch_number_or(const td_karg *a, int64_t i, double otherwise)
{
    return td_absent(a) ? otherwise : td_karg_number(a, i);
}

static void move_running(td_kcall *k, const td_batch *b, int64_t c, const td_moments *st)
{
    double m = b->momentum;
    if (!td_absent(&k->in[3])) store_number(&k->in[3], c, (1 - m) * td_karg_number(&k->in[3], c) + m * st->mean);
    if (!td_absent(&k->in[4]))
        store_number(&k->in[4], c, (1 - m) * td_karg_number(&k->in[4], c) + m * st->m2 / (st->n - 1));
}

void td_batch_settle(td_kcall *k, const td_batch *b, int64_t c, const td_moments *st, double *mean, double *rstd)
{
    *mean = b->training ? st->mean : td_karg_number(&k->in[3], c);
    double var = !b->training ? td_karg_number(&k->in[4], c) : st->n ? st->m2 / st->n : 0;
    *rstd = 1 / sqrt(var + b->eps);
    if (b->training && st->n) move_running(k, b, c, st);
    store_number(&k->out[1], c, *mean);
    store_number(&k->out[2], c, *rstd);
}

void td_batch_give(td_kcall *k, const td_batch *b, int64_t c, double rstd, double sum, double dot)
{
    if (b->mask & 2) store_number(&k->out[1], c, dot * rstd);
    if (b->mask & 4) store_number(&k->out[2], c, sum);
}

static void forward_channel(td_kcall *k, const bn_state *s, int64_t c, char *buf)
{
    double mean, rstd;
    char *result = buf + TD_BATCH_SEGMENT * 8;
    unsigned dtype = k->out[0].desc->dtype;
    td_moments st = {0};
    if (s->b.training) st = channel_stats(k, s, c, buf);
    td_batch_settle(k, &s->b, c, &st, &mean, &rstd);
    double a = rstd * td_batch_number_or(&k->in[1], c, 1), b = td_batch_number_or(&k->in[2], c, 0);
    int64_t done = 0;
    for (int64_t p = 0; p < s->planes; p++)
        for (int64_t at = 0; at < s->x.cols; at += TD_BATCH_SEGMENT) {
            int64_t step, n = td_min64(TD_BATCH_SEGMENT, s->x.cols - at);
            if (td_kernel_rest_after(k, &done, n)) return;
            const void *x = td_rows_get(&s->x, c * s->planes + p, at, n, buf);
            char *out = out_at(k, s, c, p, at, &step);
            void *y = dtype == s->b.acc && step == 1 ? (void *)out : result;
            if (s->b.acc == TD_FLOAT64) scale_d(x, y, mean, a, b, n);
            else scale_f(x, y, mean, a, b, n);
            if (y != out) td_row_store(out, step, dtype, y, n);
        }
}

static void forward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const bn_state *s = (const bn_state *)k->state;
    int64_t b, e;
    td_cut_range(s->channels, s->per, chunk, &b, &e);
    for (; b < e; b++) forward_channel(k, s, b, scratch);
}

static int start(td_kcall *k, bn_state *s, const td_karg *x, const char *name, td_error *e)
{
    *s = (bn_state){0};
    if (!td_dtype_is_float(x->desc->dtype))
        return td_fail(e, TD_E_UNSUPPORTED, "%s has no CPU kernel for %s", name, td_dtype_name(x->desc->dtype));
    if (x->desc->ndim < 2)
        return td_fail(e, TD_E_SHAPE, "%s: x must have at least 2 dimensions, not %d", name, x->desc->ndim);
    s->b.acc = (uint8_t)td_acc_dtype(x->desc->dtype);
    planes(&s->x, x, s->b.acc);
    s->channels = x->desc->shape[1];
    s->planes = s->channels && s->x.cols ? s->x.rows / s->channels : 0; /* planes of nothing may be any number */
    s->per = td_max64(1, TD_BATCH_CHUNK / td_max64(1, s->planes * s->x.cols));
    k->scratch_bytes = 3 * TD_BATCH_SEGMENT * 8;
    return 0;
}

int td_cpu_plan_batch_norm(td_kcall *k, td_error *e)
{
    bn_state *s = (bn_state *)k->state;
    int rc = start(k, s, &k->in[0], "batch_norm", e);
    if (rc) return rc;
    s->b.training = td_attr_bool(k->attrs, 0);
    s->b.momentum = td_attr_float(k->attrs, 1);
    s->b.eps = td_attr_float(k->attrs, 2);
    if (!s->b.training && (td_absent(&k->in[3]) || td_absent(&k->in[4])))
        return td_fail(e, TD_E_INVALID, "batch_norm: running_mean and running_var are needed when training is false");
    td_batch b = s->b; /* the other way has its own state there */
    if (td_desc_numel(k->out[0].desc) && td_batch_plan_last(k, &b)) return 0;
    if (!td_desc_is_contiguous(k->out[0].desc)) return td_plan_wants_rows(k);
    td_plan_phase(k, forward_chunk, td_cut(s->channels, s->per));
    k->cost_ns = (double)s->channels * ((double)(s->planes * s->x.cols) * 0.7 + 100);
    return 0;
}

/* ---- gradient ---- */

static void backward_channel(td_kcall *k, const bn_state *s, const td_rows *g, int64_t c, char *buf)
{
    double mean = td_karg_number(&k->in[3], c), rstd = td_karg_number(&k->in[4], c), sum = 0, dot = 0;
    char *gbuf = buf + TD_BATCH_SEGMENT * 8, *result = buf + 2 * TD_BATCH_SEGMENT * 8;
    unsigned dtype = k->in[1].desc->dtype;
    int64_t n, done = 0;
    for (int64_t p = 0; p < s->planes && (s->b.training || s->b.mask & 6); p++)
        for (int64_t at = 0; at < s->x.cols; at += n) {
            n = td_min64(TD_BATCH_SEGMENT, s->x.cols - at);
            if (td_kernel_rest_after(k, &done, n)) return;
            const void *x = td_rows_get(&s->x, c * s->planes + p, at, n, buf);
            const void *gr = td_rows_get(g, c * s->planes + p, at, n, gbuf);
            if (s->b.acc == TD_FLOAT64) sums_d(gr, x, mean, n, &sum, &dot);
            else sums_f(gr, x, mean, n, &sum, &dot);
        }
    td_batch_give(k, &s->b, c, rstd, sum, dot);
    if (!(s->b.mask & 1)) return;
    double count = (double)(s->planes * s->x.cols), scale = rstd * td_batch_number_or(&k->in[2], c, 1);
    double gmean = s->b.training ? sum / count : 0, coef = s->b.training ? dot * rstd * rstd / count : 0;
    for (int64_t p = 0; p < s->planes; p++)
        for (int64_t at = 0; at < s->x.cols; at += n) {
            int64_t step;
            n = td_min64(TD_BATCH_SEGMENT, s->x.cols - at);
            if (td_kernel_rest_after(k, &done, n)) return;
            const void *x = td_rows_get(&s->x, c * s->planes + p, at, n, buf);
            const void *gr = td_rows_get(g, c * s->planes + p, at, n, gbuf);
            char *out = out_at(k, s, c, p, at, &step);
            void *dx = dtype == s->b.acc && step == 1 ? (void *)out : result;
            if (s->b.acc == TD_FLOAT64) gradient_d(gr, x, dx, mean, scale, gmean, coef, n);
            else gradient_f(gr, x, dx, mean, scale, gmean, coef, n);
            if (dx != out) td_row_store(out, step, dtype, dx, n);
        }
}

static void backward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const bn_state *s = (const bn_state *)k->state;
    int64_t b, e;
    td_rows g;
    planes(&g, &k->in[0], s->b.acc);
    td_cut_range(s->channels, s->per, chunk, &b, &e);
    for (; b < e; b++) backward_channel(k, s, &g, b, scratch);
}

int td_cpu_plan_batch_norm_backward(td_kcall *k, td_error *e)
{
    bn_state *s = (bn_state *)k->state;
    int rc = start(k, s, &k->in[1], "batch_norm_backward", e);
    if (rc) return rc;
    s->b.training = td_attr_bool(k->attrs, 0);
    s->b.mask = (uint8_t)(td_attr_int(k->attrs, 1) & 7);
    if (!s->b.mask) return 0;
    td_batch b = s->b;
    if (td_desc_numel(k->in[1].desc) && td_batch_plan_back_last(k, &b)) return 0;
    if (!td_desc_is_contiguous(k->out[0].desc)) return td_plan_wants_rows(k);
    td_plan_phase(k, backward_chunk, td_cut(s->channels, s->per));
    k->cost_ns = (double)s->channels * ((double)(s->planes * s->x.cols) * 1.0 + 100);
    return 0;
}
