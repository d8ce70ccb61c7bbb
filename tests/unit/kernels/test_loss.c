/* nll_loss and its gradient against loops in double: shapes, weights, ignored targets, reductions, targets out of
 * range. */
#include "kernel_harness.h"

typedef struct loss_case {
    td_dtype t;
    int nd; /* of x: 1 (C), 2 (N, C), 4 (N, C, d1, d2) */
    int layout, reduction;
    bool weighted;
} loss_case;

static void run_case(loss_case q)
{
    enum { C = 7 };
    int64_t N = q.nd == 1 ? 1 : 6, inner = q.nd == 4 ? 12 : 1, xs4[4] = {N, C, 3, 4}, ts4[3] = {N, 3, 4};
    tt x = q.nd == 1 ? TTL(q.t, q.layout, C) : tt_layout(q.t, q.nd, xs4, q.layout);
    tt target = q.nd == 1 ? tt_scalar(TD_INT64) : tt_layout(TD_INT64, q.nd - 1, ts4, q.layout);
    tt w = TT(q.t, C), total = tt_scalar(q.t), dx = tt_like(&x, q.t);
    tt loss = q.reduction == 0 ? tt_like(&target, q.t) : tt_scalar(q.t), g = tt_like(&loss, q.t);
    tt_random(&x);
    tt_normal(&w, 1, 0.3);
    tt_indices(&target, 0, C);
    tt_normal(&g, 1, 0.2);
    if (q.nd > 1) tt_set(&target, 2, -100);
    CALL(c, 2, &x, &target, q.weighted ? &w : NULL);
    c.out[0] = &loss, c.out[1] = &total;
    attr_int(&c, q.reduction);
    attr_int(&c, -100);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_nll_loss), 0);
    double sum = 0, weight = 0;
    int bad = 0;
    for (int64_t i = 0; i < N * inner; i++) {
        int64_t k = (int64_t)tt_get(&target, i);
        double wt = k < 0        ? 0
                    : q.weighted ? tt_get(&w, k)
                                 : 1,
               v = k < 0 ? 0 : -wt * tt_get(&x, (i / inner * C + k) * inner + i % inner);
        sum += v;
        weight += wt;
        if (q.reduction == 0) bad += !near(tt_get(&loss, i), v, tolerance(q.t), v);
    }
    if (q.reduction) bad += !near(tt_get(&loss, 0), q.reduction == 1 ? sum / weight : sum, tolerance(q.t), sum);
    bad += !near(tt_get(&total, 0), q.reduction ? weight : 0, tolerance(q.t), weight);
    CALL(b, 1, &g, &target, q.weighted ? &w : NULL, &total);
    b.out[0] = &dx;
    attr_ints(&b, x.d.ndim, x.d.shape);
    attr_int(&b, q.reduction);
    attr_int(&b, -100);
    CU_ASSERT_EQUAL(tcall_run(&b, td_cpu_plan_nll_loss_backward), 0);
    for (int64_t i = 0; i < N * C * inner; i++) {
        int64_t n = i / (C * inner), k = i / inner % C, j = n * inner + i % inner;
        double want = 0;
        if ((int64_t)tt_get(&target, j) == k) {
            want = -(q.weighted ? tt_get(&w, k) : 1) * tt_get(&g, q.reduction ? 0 : j);
            if (q.reduction == 1) want /= tt_get(&total, 0);
        }
        bad += !near(tt_get(&dx, i), want, tolerance(q.t), 1);
    }
    CU_ASSERT_EQUAL(bad, 0);
    if (bad)
        printf("%s nd %d layout %d reduction %d: %d wrong\n", td_dtype_name(q.t), q.nd, q.layout, q.reduction, bad);
    tt_free(&x), tt_free(&target), tt_free(&w), tt_free(&total), tt_free(&dx), tt_free(&loss), tt_free(&g);
}

static void all(void)
{
    for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++)
        for (int l = 0; l < LAYOUTS; l++)
            for (int r = 0; r < 3; r++)
                for (int way = 0; way < 6; way++)
                    run_case((loss_case){t, way < 2 ? 1 : way < 4 ? 2 : 4, l, r, way & 1});
}

static void bad_target(void)
{
    tt x = TT(TD_FLOAT32, 4, 3), target = TT(TD_INT64, 4), loss = tt_scalar(TD_FLOAT32), total = tt_scalar(TD_FLOAT32);
    tt dx = TT(TD_FLOAT32, 4, 3), g = tt_scalar(TD_FLOAT32);
    for (int bad = -1; bad <= 3; bad += 4) {
        tt_set(&target, 2, bad);
        CALL(c, 2, &x, &target, NULL);
        c.out[0] = &loss, c.out[1] = &total;
        attr_int(&c, 1);
        attr_int(&c, -100);
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_nll_loss), TD_E_INDEX);
        CALL(b, 1, &g, &target, NULL, &total);
        b.out[0] = &dx;
        attr_ints(&b, 2, x.d.shape);
        attr_int(&b, 1);
        attr_int(&b, -100);
        CU_ASSERT_EQUAL(tcall_run(&b, td_cpu_plan_nll_loss_backward), TD_E_INDEX);
    }
    tt_free(&x), tt_free(&target), tt_free(&loss), tt_free(&total), tt_free(&dx), tt_free(&g);
}

static void edges(void)
{
    tt x = TT(TD_FLOAT32, 0, 3), target = TT(TD_INT64, 0), loss = tt_scalar(TD_FLOAT32), total = tt_scalar(TD_FLOAT32);
    CALL(c, 2, &x, &target, NULL);
    c.out[0] = &loss, c.out[1] = &total;
    attr_int(&c, 1);
    attr_int(&c, -100);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_nll_loss), 0);
    CU_ASSERT(isnan(tt_get(&loss, 0))); /* the mean of nothing */
    c.attrs.at[0].i = 2;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_nll_loss), 0);
    CU_ASSERT_EQUAL(tt_get(&loss, 0), 0);
    tt big = TT(TD_FLOAT32, 30000, 3), bt = TT(TD_INT32, 30000); /* several blocks */
    tt_random(&big);
    tt_indices(&bt, 0, 3);
    c.in[0] = &big, c.in[1] = &bt;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_nll_loss), 0);
    double want = 0;
    for (int64_t i = 0; i < 30000; i++) want -= tt_get(&big, i * 3 + (int64_t)tt_get(&bt, i));
    CU_ASSERT(near(tt_get(&loss, 0), want, 1e-6, want));
    tt_free(&x), tt_free(&target), tt_free(&loss), tt_free(&total), tt_free(&big), tt_free(&bt);
}

TD_CUNIT_MAIN("kernels_loss", {"nll_loss and its gradient", all}, {"targets out of range", bad_target},
              {"empty and large", edges})
