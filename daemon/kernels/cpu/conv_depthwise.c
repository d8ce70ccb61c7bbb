/* Depthwise convolution (one input channel a group) of float32 and float64 by direct loops over rows: columns and
 * products would move far more than they compute. A plane is one chunk's; the gradient of the weights is one channel's,
 * over all images in order, so nothing is added across chunks. */
#include "daemon/kernels/cpu/conv.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"

typedef struct dw_state {
    td_conv c;
    int64_t per_out, per_in, per_w; /* planes of a chunk: of out, of dx; channels of a chunk of dw */
    int64_t gs[4];                  /* strides of the gradient */
} dw_state;

#define LANES 16

/* Row pieces: y[i] += w x[i s], x[i s] += w y[i], and lanes of y[i] x[i s]. */
#define DEFINE_ROWS(T, s)                                                                                              \
    TD_CLONES static void row_add_##s(T *restrict y, const T *restrict x, int64_t step, T w, int64_t n)                \
    {                                                                                                                  \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < n; i++) y[i] += w * x[i];                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) y[i] += w * x[i * step];                                                   \
    }                                                                                                                  \
    TD_CLONES static void row_back_##s(T *restrict x, const T *restrict y, int64_t step, T w, int64_t n)               \
    {                                                                                                                  \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < n; i++) x[i] += w * y[i];                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) x[i * step] += w * y[i];                                                   \
    }                                                                                                                  \
    TD_CLONES static void row_dot_##s(T *restrict acc, const T *restrict y, const T *restrict x, int64_t step,         \
                                      int64_t n)                                                                       \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        if (step == 1)                                                                                                 \
            for (; i + LANES <= n; i += LANES)                                                                         \
                for (int j = 0; j < LANES; j++) acc[j] += y[i + j] * x[i + j];                                         \
        for (int j = 0; i < n; i++, j = (j + 1) % LANES) acc[j] += y[i] * x[i * step];                                 \
    }
DEFINE_ROWS(float, f)
DEFINE_ROWS(double, d)

enum way { FORWARD, DATA, WEIGHTS };

/* One tap (ky, kx) of one plane: all rows of x against all rows of y (out or gradient). `acc`: lanes for WEIGHTS. */
static void tap(const td_conv *c, enum way way, int64_t ky, int64_t kx, char *x, int64_t x_row, char *y, int64_t y_row,
                double w, void *acc)
{
    int64_t size = (int64_t)td_dtype_size(c->dtype), ix = kx * c->dw - c->pw, a, b;
    td_conv_inside(c->w, c->sw, ix, c->ow, &a, &b);
    for (int64_t oy = 0; oy < c->oh && b > a; oy++) {
        int64_t iy = oy * c->sh - c->ph + ky * c->dh;
        if (iy < 0 || iy >= c->h) continue;
        void *xp = x + (iy * x_row + ix + a * c->sw) * size, *yp = y + (oy * y_row + a) * size;
        bool f = c->dtype == TD_FLOAT32;
        if (way == FORWARD && f) row_add_f(yp, xp, c->sw, (float)w, b - a);
        else if (way == FORWARD) row_add_d(yp, xp, c->sw, w, b - a);
        else if (way == DATA && f) row_back_f(xp, yp, c->sw, (float)w, b - a);
        else if (way == DATA) row_back_d(xp, yp, c->sw, w, b - a);
        else if (f) row_dot_f(acc, yp, xp, c->sw, b - a);
        else row_dot_d(acc, yp, xp, c->sw, b - a);
    }
}

static double weight(const td_kcall *k, const td_conv *c, int64_t o, int64_t t)
{
    return td_karg_number(&k->in[c->backward ? 2 : 1], o * c->kh * c->kw + t);
}

static void fill(const td_conv *c, char *y, double v)
{
    for (int64_t i = 0; i < c->p; i++)
        if (c->dtype == TD_FLOAT32) ((float *)y)[i] = (float)v;
        else ((double *)y)[i] = v;
}

static void forward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const dw_state *s = (const dw_state *)k->state;
    const td_conv *c = &s->c;
    int64_t size = (int64_t)td_dtype_size(c->dtype), b, e;
    (void)scratch;
    td_cut_range(c->n * c->o, s->per_out, chunk, &b, &e);
    for (; b < e; b++) {
        int64_t n = b / c->o, o = b % c->o;
        char *y = (char *)k->out[0].data + b * c->p * size;
        char *x = (char *)k->in[0].data + (n * c->xs[0] + o / c->og * c->xs[1]) * size;
        fill(c, y, td_absent(&k->in[2]) ? 0 : td_karg_number(&k->in[2], o));
        for (int64_t t = 0; t < c->kh * c->kw; t++)
            tap(c, FORWARD, t / c->kw, t % c->kw, x, c->xs[2], y, c->ow, weight(k, c, o, t), NULL);
    }
}

static void data_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const dw_state *s = (const dw_state *)k->state;
    const td_conv *c = &s->c;
    int64_t size = (int64_t)td_dtype_size(c->dtype), b, e;
    (void)scratch;
    td_cut_range(c->n * c->c, s->per_in, chunk, &b, &e);
    for (; b < e; b++) {
        char *x = (char *)k->out[0].data + b * c->h * c->w * size;
        memset(x, 0, (size_t)(c->h * c->w * size));
        for (int64_t o = b % c->c * c->og; o < (b % c->c + 1) * c->og; o++) {
            char *y = (char *)k->in[0].data + (b / c->c * s->gs[0] + o * s->gs[1]) * size;
            for (int64_t t = 0; t < c->kh * c->kw; t++)
                tap(c, DATA, t / c->kw, t % c->kw, x, c->w, y, s->gs[2], weight(k, c, o, t), NULL);
        }
    }
}

/* The sum of the lanes. */
static double total(const td_conv *c, const void *acc)
{
    double sum = 0;
    for (int j = 0; j < LANES; j++) sum += c->dtype == TD_FLOAT32 ? ((const float *)acc)[j] : ((const double *)acc)[j];
    return sum;
}

static void weights_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const dw_state *s = (const dw_state *)k->state;
    const td_conv *c = &s->c;
    int64_t size = (int64_t)td_dtype_size(c->dtype), taps = c->kh * c->kw, b, e;
    double *sum = scratch;
    td_cut_range(c->o, s->per_w, chunk, &b, &e);
    for (; b < e; b++) {
        memset(sum, 0, sizeof(double) * (size_t)taps);
        for (int64_t n = 0; n < c->n; n++) {
            char *x = (char *)k->in[1].data + (n * c->xs[0] + b / c->og * c->xs[1]) * size;
            char *y = (char *)k->in[0].data + (n * s->gs[0] + b * s->gs[1]) * size;
            for (int64_t t = 0; t < taps; t++) {
                double acc[LANES] = {0}; /* room for lanes of either type */
                tap(c, WEIGHTS, t / c->kw, t % c->kw, x, c->xs[2], y, s->gs[2], 0, acc);
                sum[t] += total(c, acc);
            }
        }
        for (int64_t t = 0; t < taps; t++)
            td_element_from_double((char *)k->out[1].data + (b * taps + t) * size, c->dtype, sum[t]);
    }
}

static bool takes(const td_conv *c)
{
    return c->cg == 1 && c->g > 1 && (c->dtype == TD_FLOAT32 || c->dtype == TD_FLOAT64) && (c->w == 1 || c->xs[3] == 1);
}

static void cut(dw_state *s)
{
    int64_t plane = td_max64(1, s->c.p * s->c.kh * s->c.kw);
    s->per_out = td_max64(1, 700000 / plane);
    s->per_in = td_max64(1, 700000 / td_max64(1, plane * s->c.og));
    s->per_w = td_max64(1, 700000 / td_max64(1, plane * s->c.n));
}

bool td_conv_plan_depthwise(td_kcall *k, const td_conv *c)
{
    dw_state *s = (dw_state *)k->state;
    if (!takes(c)) return false;
    *s = (dw_state){.c = *c};
    cut(s);
    td_plan_phase(k, forward_chunk, td_cut(c->n * c->o, s->per_out));
    k->cost_ns = (double)(c->n * c->o) * ((double)(c->p * c->kh * c->kw) * 0.12 + 100);
    return true;
}

bool td_conv_plan_depthwise_backward(td_kcall *k, const td_conv *c)
{
    dw_state *s = (dw_state *)k->state;
    const td_desc *g = k->in[0].desc;
    if (!takes(c) || (c->ow > 1 && g->stride[3] != 1)) return false;
    *s = (dw_state){.c = *c};
    memcpy(s->gs, g->stride, sizeof s->gs);
    cut(s);
    if (c->mask & 1) td_plan_phase(k, data_chunk, td_cut(c->n * c->c, s->per_in));
    if (c->mask & 2) td_plan_phase(k, weights_chunk, td_cut(c->o, s->per_w));
    k->scratch_bytes = sizeof(double) * (size_t)(c->kh * c->kw);
    k->cost_ns = (double)(c->n * c->o) * ((double)(c->p * c->kh * c->kw) * 0.25 + 200);
    if (c->mask & 4) td_conv_plan_bias_gradient(k);
    return true;
}
