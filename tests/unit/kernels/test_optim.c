/* sgd_step and adam_step against the formulas in double over several steps: dtypes, layouts, all their options. */
#include "kernel_harness.h"

#define N 60

typedef struct sgd_options {
    double lr, momentum, dampening, decay;
    bool nesterov;
} sgd_options;

static void sgd_case(td_dtype t, int layout, int g_layout, sgd_options o)
{
    tt p = TTL(t, layout, 5, 12), g = TTL(t, g_layout, 5, 12), buf = TTL(t, layout, 5, 12);
    tt_normal(&p, 0, 1);
    double wp[N], wb[N] = {0};
    for (int i = 0; i < N; i++) wp[i] = tt_get(&p, i);
    CALL(c, 0, &p, &g, o.momentum != 0 ? &buf : NULL);
    attr_float(&c, o.lr), attr_float(&c, o.momentum), attr_float(&c, o.dampening), attr_float(&c, o.decay);
    attr_bool(&c, o.nesterov);
    int bad = 0;
    for (int step = 0; step < 3; step++) {
        tt_normal(&g, 0.1, 1);
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_sgd_step), 0);
        for (int i = 0; i < N; i++) {
            double d = tt_get(&g, i) + o.decay * wp[i];
            if (o.momentum != 0) {
                wb[i] = o.momentum * wb[i] + (1 - o.dampening) * d;
                d = o.nesterov ? d + o.momentum * wb[i] : wb[i];
            }
            wp[i] -= o.lr * d;
            bad += !near(tt_get(&p, i), wp[i], tolerance(t), 2);
            if (o.momentum != 0) bad += !near(tt_get(&buf, i), wb[i], tolerance(t), 4);
        }
    }
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("sgd %s layout %d %d: %d wrong\n", td_dtype_name(t), layout, g_layout, bad);
    tt_free(&p), tt_free(&g), tt_free(&buf);
}

static void sgd_all(void)
{
    for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++)
        for (int l = 0; l < LAYOUTS; l++) {
            sgd_case(t, l, l, (sgd_options){0.1, 0, 0, 0, false});
            sgd_case(t, l, PLAIN, (sgd_options){0.1, 0, 0, 0.01, false});
            sgd_case(t, l, l, (sgd_options){0.05, 0.9, 0, 0.01, false});
            sgd_case(t, l, STEPPED, (sgd_options){0.05, 0.9, 0, 0.01, true});
            sgd_case(t, l, l, (sgd_options){0.05, 0.9, 0.3, 0, false});
        }
}

static void adam_case(td_dtype t, int layout, double decay, bool decoupled)
{
    tt p = TTL(t, layout, 5, 12), g = TTL(t, layout == SHUFFLED ? PLAIN : layout, 5, 12), m = TTL(t, layout, 5, 12);
    tt v = TTL(t, layout, 5, 12), step = tt_scalar(layout == STEPPED ? TD_INT64 : TD_FLOAT32);
    const double lr = 0.01, b1 = 0.9, b2 = 0.99, eps = 1e-3;
    tt_normal(&p, 0, 1);
    double wp[N], wm[N] = {0}, wv[N] = {0};
    for (int i = 0; i < N; i++) wp[i] = tt_get(&p, i);
    CALL(c, 0, &p, &g, &m, &v, &step);
    attr_float(&c, lr), attr_float(&c, b1), attr_float(&c, b2), attr_float(&c, eps), attr_float(&c, decay);
    attr_bool(&c, decoupled);
    int bad = 0;
    for (int n = 1; n <= 4; n++) {
        tt_normal(&g, 0.1, 1);
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_adam_step), 0);
        CU_ASSERT_EQUAL(tt_get(&step, 0), n);
        for (int i = 0; i < N; i++) {
            double d = tt_get(&g, i);
            if (decoupled) wp[i] *= 1 - lr * decay;
            else d += decay * wp[i];
            wm[i] = b1 * wm[i] + (1 - b1) * d;
            wv[i] = b2 * wv[i] + (1 - b2) * d * d;
            wp[i] -= lr / (1 - pow(b1, n)) * wm[i] / (sqrt(wv[i]) / sqrt(1 - pow(b2, n)) + eps);
            bad += !near(tt_get(&p, i), wp[i], 2 * tolerance(t), 2) + !near(tt_get(&m, i), wm[i], 2 * tolerance(t), 1) +
                   !near(tt_get(&v, i), wv[i], 2 * tolerance(t), 1);
        }
    }
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("adam %s layout %d: %d wrong\n", td_dtype_name(t), layout, bad);
    tt_free(&p), tt_free(&g), tt_free(&m), tt_free(&v), tt_free(&step);
}

static void adam_all(void)
{
    for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++)
        for (int l = 0; l < LAYOUTS; l++) {
            adam_case(t, l, 0, false);
            adam_case(t, l, 0.1, false);
            adam_case(t, l, 0.1, true);
        }
}

/* More than one chunk, and exactly the same step whether the memory is walked or taken as one vector. */
static void large(void)
{
    const int64_t n = 150000;
    tt p = TT(TD_FLOAT32, n), g = TT(TD_FLOAT32, n), q = TTL(TD_FLOAT32, STEPPED, n);
    tt_normal(&p, 0, 1);
    tt_normal(&g, 0, 1);
    for (int64_t i = 0; i < n; i++) tt_set(&q, i, tt_get(&p, i));
    CALL(c, 0, &p, &g, NULL);
    attr_float(&c, 0.1), attr_float(&c, 0), attr_float(&c, 0), attr_float(&c, 0.01);
    attr_bool(&c, false);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_sgd_step), 0);
    CU_ASSERT(c.k.phase[0].chunks > 1);
    c.in[0] = &q;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_sgd_step), 0);
    int bad = 0;
    for (int64_t i = 0; i < n; i++) bad += tt_get(&p, i) != tt_get(&q, i);
    CU_ASSERT_EQUAL(bad, 0);
    tt_free(&p), tt_free(&g), tt_free(&q);
}

static void refusals(void)
{
    tt p = TT(TD_FLOAT32, 3), g = TT(TD_FLOAT32, 3), i = TT(TD_INT64, 3);
    CALL(c, 0, &p, &g, NULL);
    attr_float(&c, 0.1), attr_float(&c, 0.9), attr_float(&c, 0), attr_float(&c, 0);
    attr_bool(&c, false);
    tcall_refused(&c, td_cpu_plan_sgd_step, TD_E_INVALID); /* momentum without a buffer */
    c.attrs.at[1].f = 0;
    c.in[0] = &i;
    tcall_refused(&c, td_cpu_plan_sgd_step, TD_E_UNSUPPORTED);
    tt_free(&p), tt_free(&g), tt_free(&i);
}

TD_CUNIT_MAIN("kernels_optim", {"sgd", sgd_all}, {"adam", adam_all}, {"several chunks", large}, {"refusals", refusals})
