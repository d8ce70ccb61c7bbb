/* sgd_step and adam_step: one pass over parameter, gradient and state, in place.
 *
 * SGD (momentum as PyTorch has it): d = g + wd p; buf = momentum buf + (1 - dampening) d; p -= lr (nesterov ? d +
 * momentum buf : buf). The buffer starts as zeros. PyTorch starts it as d itself: the same, but for a dampening other
 * than 0, and then whoever drives the steps passes dampening 0 for a buffer's first one.
 *
 * Adam (Kingma & Ba 2015; AdamW: Loshchilov & Hutter 2019): m, v are moving averages; step is a 0-d float counter,
 * incremented here; bias corrections are computed in double; p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t)
 * + eps). Decoupled decay multiplies p by 1 - lr wd before; otherwise wd p is added to the gradient. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"
#include <math.h>

typedef struct step_coef {
    double lr, decay, momentum, damp;           /* damp: 1 - dampening */
    double beta1, beta2, eps, step_size, bias2; /* bias2: sqrt(1 - beta2^t) */
    bool nesterov, decoupled;
} step_coef;

typedef struct step_state {
    step_coef c;
    int64_t n;
    int nops, op[4]; /* input numbers: p, g, then the state */
    uint8_t acc;
    bool flat; /* all alike and dense: one vector each */
    bool adam;
} step_state;

/* v[0] = p, v[1] = g, v[2] = buf or m (may be NULL), v[3] = second moment. */
#define DEFINE_STEPS(T, s, SQRT)                                                                                       \
    static TD_FOR_SETS(void, sgd_##s,                                                                                  \
                       (T *restrict p, const T *restrict g, T *restrict buf, const step_coef *c, int64_t n),           \
                       (p, g, buf, c, n))                                                                              \
    {                                                                                                                  \
        const T lr = (T)c->lr, wd = (T)c->decay, mo = (T)c->momentum, damp = (T)c->damp;                               \
        if (!buf)                                                                                                      \
            for (int64_t i = 0; i < n; i++) p[i] -= lr * (g[i] + wd * p[i]);                                           \
        else if (c->nesterov)                                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T d = g[i] + wd * p[i], b = mo * buf[i] + damp * d;                                              \
                buf[i] = b;                                                                                            \
                p[i] -= lr * (d + mo * b);                                                                             \
            }                                                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T b = mo * buf[i] + damp * (g[i] + wd * p[i]);                                                   \
                buf[i] = b;                                                                                            \
                p[i] -= lr * b;                                                                                        \
            }                                                                                                          \
    }                                                                                                                  \
    static TD_FOR_SETS(                                                                                                \
        void, adam_##s,                                                                                                \
        (T *restrict p, const T *restrict g, T *restrict m, T *restrict v, const step_coef *c, int64_t n),             \
        (p, g, m, v, c, n))                                                                                            \
    {                                                                                                                  \
        const T b1 = (T)c->beta1, b2 = (T)c->beta2, eps = (T)c->eps, size = (T)c->step_size, bias2 = (T)c->bias2;      \
        const T a1 = (T)(1 - c->beta1), a2 = (T)(1 - c->beta2);                                                        \
        const T keep = c->decoupled ? (T)(1 - c->lr * c->decay) : (T)1, wd = c->decoupled ? (T)0 : (T)c->decay;        \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T w = p[i] * keep, d = g[i] + wd * w;                                                                \
            const T mi = b1 * m[i] + a1 * d, vi = b2 * v[i] + a2 * (d * d);                                            \
            m[i] = mi;                                                                                                 \
            v[i] = vi;                                                                                                 \
            p[i] = w - size * (mi / (SQRT(vi) / bias2 + eps));                                                         \
        }                                                                                                              \
    }
DEFINE_STEPS(float, f, __builtin_sqrtf)
DEFINE_STEPS(double, d, __builtin_sqrt)

static void step_run(const step_state *s, void **v, int64_t n)
{
    if (s->adam && s->acc == TD_FLOAT64) adam_d(v[0], v[1], v[2], v[3], &s->c, n);
    else if (s->adam) adam_f(v[0], v[1], v[2], v[3], &s->c, n);
    else if (s->acc == TD_FLOAT64) sgd_d(v[0], v[1], v[2], &s->c, n);
    else sgd_f(v[0], v[1], v[2], &s->c, n);
}

static void flat_chunk(td_kcall *k, const step_state *s, int64_t b, int64_t n)
{
    void *v[4] = {NULL};
    for (int o = 0; o < s->nops; o++)
        v[o] = (char *)k->in[s->op[o]].data + b * (int64_t)td_dtype_size(k->in[s->op[o]].desc->dtype);
    step_run(s, v, n);
}

/* Any strides and halves: parts are brought into buffers, stepped, and written back (not the gradient). */
static void strided_chunk(td_kcall *k, const step_state *s, int64_t b, int64_t n, char *scratch)
{
    td_walk w;
    td_walk_at at;
    void *base[4];
    int64_t acc = (int64_t)td_dtype_size(s->acc);
    td_walk_init(&w, k->in[0].desc->ndim, k->in[0].desc->shape);
    for (int o = 0; o < s->nops; o++) {
        td_walk_add_desc(&w, k->in[s->op[o]].desc);
        base[o] = k->in[s->op[o]].data;
    }
    td_walk_merge(&w);
    for (td_walk_begin(&w, &at, base, b, n); at.run; td_walk_next(&w, &at))
        for (int64_t i = 0; i < at.run; i += TD_STEP_PART) {
            int64_t part = td_min64(TD_STEP_PART, at.run - i);
            void *v[4] = {NULL};
            for (int o = 0; o < s->nops; o++) {
                unsigned t = k->in[s->op[o]].desc->dtype;
                int64_t step = td_walk_inner(&w, o);
                v[o] = scratch + o * TD_STEP_PART * acc;
                td_row_load(v[o], at.p[o] + i * step, step / (int64_t)td_dtype_size(t), t, part);
            }
            step_run(s, v, part);
            for (int o = 0; o < s->nops; o++) {
                unsigned t = k->in[s->op[o]].desc->dtype;
                int64_t step = td_walk_inner(&w, o);
                if (o != 1) td_row_store(at.p[o] + i * step, step / (int64_t)td_dtype_size(t), t, v[o], part);
            }
        }
}

static void step_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const step_state *s = (const step_state *)k->state;
    int64_t b, e;
    td_cut_range(s->n, TD_STEP_CHUNK, chunk, &b, &e);
    if (s->flat) flat_chunk(k, s, b, e - b);
    else strided_chunk(k, s, b, e - b, scratch);
}

/* step += 1; what the others use of it is kept in the state, loaded once. */
static void count_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    step_state *s = (step_state *)k->state;
    const td_karg *step = &k->in[4];
    (void)chunk, (void)scratch;
    double t = td_element_to_double(step->data, step->desc->dtype) + 1;
    td_element_from_double(step->data, step->desc->dtype, t);
    s->c.step_size = s->c.lr / (1 - pow(s->c.beta1, t));
    s->c.bias2 = sqrt(1 - pow(s->c.beta2, t));
}

static int start(td_kcall *k, step_state *s, const char *name, td_error *e)
{
    const td_desc *p = k->in[0].desc;
    if (!td_dtype_is_float(p->dtype))
        return td_fail(e, TD_E_UNSUPPORTED, "%s has no CPU kernel for %s", name, td_dtype_name(p->dtype));
    s->acc = (uint8_t)td_acc_dtype(p->dtype);
    s->n = td_desc_numel(p);
    s->flat = s->acc == p->dtype && td_desc_is_dense(p);
    for (int o = 0; o < s->nops; o++) {
        const td_desc *d = k->in[s->op[o]].desc;
        if (td_acc_dtype(d->dtype) != s->acc)
            return td_fail(e, TD_E_TYPE, "%s: %s cannot be stepped with a %s", name, td_dtype_name(p->dtype),
                           td_dtype_name(d->dtype));
        if (!td_desc_same_shape(d, p)) return td_fail(e, TD_E_SHAPE, "%s: shapes differ", name);
        if (d->dtype != s->acc) s->flat = false;
        for (int i = 0; i < p->ndim; i++)
            if (p->shape[i] > 1 && d->stride[i] != p->stride[i]) s->flat = false;
    }
    td_plan_phase(k, step_chunk, td_cut(s->n, TD_STEP_CHUNK));
    if (!s->flat) k->scratch_bytes = (size_t)(4 * TD_STEP_PART) * td_dtype_size(s->acc);
    k->cost_ns += (double)s->n * (s->flat ? 0.5 : 3) + 50;
    k->sure = true;
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_sgd_step(td_kcall *k, td_error *e)
{
    step_state *s = (step_state *)k->state;
    const td_attrs *a = k->attrs;
    *s = (step_state){.nops = 2, .op = {0, 1, 2}};
    s->c = (step_coef){.lr = td_attr_float(a, 0),
                       .momentum = td_attr_float(a, 1),
                       .damp = 1 - td_attr_float(a, 2),
                       .decay = td_attr_float(a, 3),
                       .nesterov = td_attr_bool(a, 4)};
    if (s->c.momentum != 0) {
        if (td_absent(&k->in[2])) return td_fail(e, TD_E_INVALID, "sgd_step: momentum needs buf (give a zero tensor)");
        s->nops = 3;
    }
    return start(k, s, "sgd_step", e);
}

int td_cpu_plan_adam_step(td_kcall *k, td_error *e)
{
    step_state *s = (step_state *)k->state;
    const td_attrs *a = k->attrs;
    *s = (step_state){.nops = 4, .op = {0, 1, 2, 3}, .adam = true};
    s->c = (step_coef){.lr = td_attr_float(a, 0),
                       .beta1 = td_attr_float(a, 1),
                       .beta2 = td_attr_float(a, 2),
                       .eps = td_attr_float(a, 3),
                       .decay = td_attr_float(a, 4),
                       .decoupled = td_attr_bool(a, 5)};
    unsigned t = k->in[4].desc->dtype;
    if ((!td_dtype_is_float(t) && t != TD_INT64) || td_desc_numel(k->in[4].desc) != 1)
        return td_fail(e, TD_E_TYPE, "adam_step: step must be one float or int64 number");
    td_plan_phase(k, count_chunk, 1);
    return start(k, s, "adam_step", e);
}
