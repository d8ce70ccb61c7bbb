/* Kernels whose chunks may be long rest in the middle of them: they pass through the kernel now and then, and stop when
 * they are told to. */
#include "kernel_harness.h"
#include <time.h>

typedef struct rests {
    td_kcall *k;
    int turns, stop_at;
    double last, longest; /* ms of its own time between two of them */
} rests;

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void turn(void *arg)
{
    rests *r = arg;
    const double now = cpu_ms();
    if (r->turns && now - r->last > r->longest) r->longest = now - r->last;
    r->last = now;
    if (++r->turns == r->stop_at) td_kernel_fail(r->k, TD_E_CANCELLED, "stop");
}

/* One run, alone on this thread; how long it took. */
static double run(tcall *c, td_plan_fn plan, rests *r)
{
    td_karg in[MAX_ARGS], out[MAX_ARGS];
    for (int i = 0; i < c->nin; i++) in[i] = c->in[i] ? (td_karg){c->in[i]->data, &c->in[i]->d} : (td_karg){NULL, NULL};
    for (int i = 0; i < c->nout; i++) out[i] = (td_karg){c->out[i]->data, &c->out[i]->d};
    memset(&c->k, 0, sizeof c->k);
    c->k.op = td_op_by_id(1);
    c->k.attrs = &c->attrs;
    c->k.in = in;
    c->k.out = out;
    c->k.nin = (uint16_t)c->nin;
    c->k.nout = (uint16_t)c->nout;
    c->k.compute = c->in[0]->d.dtype;
    r->k = &c->k;
    r->turns = 0;
    double began = cpu_ms();
    td_breath_use(turn, r);
    int code = td_kernel_run(plan, &c->k, &c->error);
    td_breath_use(NULL, NULL);
    CU_ASSERT_EQUAL(code, r->stop_at ? TD_E_CANCELLED : 0);
    return cpu_ms() - began;
}

/* On average it rests more than once a millisecond of its own time (far more, where nothing disturbs), and it ends
 * soon after it was told to stop. Returns how long it went on without. */
static double rest(tcall *c, td_plan_fn plan)
{
    rests r = {0};
    double whole = run(c, plan, &r);
    const double longest = r.longest;
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* they take their own time between two looks */
    CU_ASSERT_TRUE(r.turns > 0 && r.turns > whole);
#endif
    (void)whole;
    r.stop_at = 1;
    run(c, plan, &r);
    CU_ASSERT_TRUE(r.turns >= 1);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i]) tt_free(c->in[i]);
    for (int i = 0; i < c->nout; i++) tt_free(c->out[i]);
    return longest;
}

static void product(void)
{
    for (int down = 0; down < 2; down++) {
        tt a = TT(TD_FLOAT32, 700, 900), b = TTL(TD_FLOAT32, down ? PERMUTED : ROW_MAJOR, 900, 800);
        tt c = TT(TD_FLOAT32, 700, 800);
        rest(&(tcall){.nin = 2, .nout = 1, .in = {&a, &b}, .out = {&c}}, td_cpu_plan_mm);
    }
}

static void sorting(void)
{
    enum { N = 1 << 20 };
    tt x = TT(TD_FLOAT32, N), y = TT(TD_FLOAT32, 8), i = TT(TD_INT64, 8);
    tcall c = {.nin = 1, .nout = 2, .in = {&x}, .out = {&y, &i}};
    td_attrs_init(&c.attrs);
    td_attrs_int(&c.attrs, 8), td_attrs_int(&c.attrs, 0), td_attrs_bool(&c.attrs, true), td_attrs_bool(&c.attrs, true);
    rest(&c, td_cpu_plan_topk);
    tt u = TT(TD_FLOAT32, N), v = TT(TD_FLOAT32, N), j = TT(TD_INT64, N);
    tcall d = {.nin = 1, .nout = 2, .in = {&u}, .out = {&v, &j}};
    tt_random(&u);
    td_attrs_init(&d.attrs);
    td_attrs_int(&d.attrs, 0), td_attrs_bool(&d.attrs, false);
    rest(&d, td_cpu_plan_sort);
}

static void normalising(void)
{
    tt x = TT(TD_FLOAT32, 8, 1, 512, 512), y = TT(TD_FLOAT32, 8, 1, 512, 512), m = TT(TD_FLOAT32, 1),
       s = TT(TD_FLOAT32, 1);
    tcall c = {.nin = 5, .nout = 3, .in = {&x}, .out = {&y, &m, &s}};
    td_attrs_init(&c.attrs);
    td_attrs_bool(&c.attrs, true), td_attrs_float(&c.attrs, 0.1), td_attrs_float(&c.attrs, 1e-5);
    rest(&c, td_cpu_plan_batch_norm);
    tt g = TT(TD_FLOAT32, 4096, 512), u = TT(TD_FLOAT32, 4096, 512), mean = TT(TD_FLOAT32, 4096),
       rstd = TT(TD_FLOAT32, 4096), dx = TT(TD_FLOAT32, 4096, 512), dw = TT(TD_FLOAT32, 512), db = TT(TD_FLOAT32, 512);
    tcall d = {.nin = 5, .nout = 3, .in = {&g, &u, NULL, &mean, &rstd}, .out = {&dx, &dw, &db}};
    td_attrs_init(&d.attrs);
    td_attrs_int(&d.attrs, 1), td_attrs_int(&d.attrs, 7);
    rest(&d, td_cpu_plan_layer_norm_backward);
    tt gr = TT(TD_FLOAT32, 8, 1, 512, 512), v = TT(TD_FLOAT32, 8, 1, 512, 512), mu = TT(TD_FLOAT32, 1),
       rs = TT(TD_FLOAT32, 1), dv = TT(TD_FLOAT32, 8, 1, 512, 512), sw = TT(TD_FLOAT32, 1), sb = TT(TD_FLOAT32, 1);
    tcall b = {.nin = 5, .nout = 3, .in = {&gr, &v, NULL, &mu, &rs}, .out = {&dv, &sw, &sb}};
    td_attrs_init(&b.attrs);
    td_attrs_bool(&b.attrs, true), td_attrs_int(&b.attrs, 7);
    rest(&b, td_cpu_plan_batch_norm_backward);
}

static void places(void)
{
    enum { N = 1 << 21 };
    tt x = TT(TD_BOOL, N), y = TT(TD_INT64, N, 1);
    for (int64_t i = 0; i < N; i++) tt_set(&x, i, (double)(i & 1));
    rest(&(tcall){.nin = 1, .nout = 1, .in = {&x}, .out = {&y}}, td_cpu_plan_nonzero);
}

/* One plane, and windows as large as a part of it. */
static void pooling(void)
{
    static const int64_t window[2] = {100, 100}, step[2] = {1, 1}, none[2] = {0, 0}, shape[4] = {1, 1, 300, 300};
    for (int back = 0; back < 2; back++) {
        tt x = TT(TD_FLOAT32, 1, 1, 300, 300), y = TT(TD_FLOAT32, 1, 1, 201, 201);
        tcall a = {.nin = 1, .nout = 1, .in = {back ? &y : &x}, .out = {back ? &x : &y}};
        td_attrs_init(&a.attrs);
        if (back) td_attrs_ints(&a.attrs, 4, shape);
        td_attrs_ints(&a.attrs, 2, window), td_attrs_ints(&a.attrs, 2, step), td_attrs_ints(&a.attrs, 2, none);
        td_attrs_bool(&a.attrs, false), td_attrs_bool(&a.attrs, true);
        rest(&a, back ? td_cpu_plan_avg_pool2d_backward : td_cpu_plan_avg_pool2d);
    }
    for (int pad = 0; pad <= 50; pad += 50) { /* with edges: windows that are cut, too */
        const int64_t out = 201 + 2 * pad, edge[2] = {pad, pad};
        tt x = TT(TD_FLOAT32, 1, 1, 300, 300), y = TT(TD_FLOAT32, 1, 1, out, out), i = TT(TD_INT64, 1, 1, out, out);
        tcall m = {.nin = 1, .nout = 2, .in = {&x}, .out = {&y, &i}};
        td_attrs_init(&m.attrs);
        td_attrs_ints(&m.attrs, 2, window), td_attrs_ints(&m.attrs, 2, step), td_attrs_ints(&m.attrs, 2, edge);
        td_attrs_ints(&m.attrs, 2, step), td_attrs_bool(&m.attrs, false);
        rest(&m, td_cpu_plan_max_pool2d);
    }
    tt g = TT(TD_FLOAT32, 1, 1, 1000, 1000), at = TT(TD_INT64, 1, 1, 1000, 1000), dx = TT(TD_FLOAT32, 1, 1, 2, 2);
    tcall b = {.nin = 2, .nout = 1, .in = {&g, &at}, .out = {&dx}};
    td_attrs_init(&b.attrs);
    td_attrs_ints(&b.attrs, 4, (int64_t[]){1, 1, 2, 2});
    rest(&b, td_cpu_plan_max_pool2d_backward);
}

/* One window, of a plane that is looked at where it lies and of one that is loaded first; and as many windows as there
 * are elements. */
static void adaptive(void)
{
    enum { N = 1 << 22 };
    for (int half = 0; half < 2; half++)
        for (int many = 0; many < 2; many++) {
            const int64_t size = many ? N : 1;
            const td_dtype dtype = half ? TD_FLOAT16 : TD_FLOAT32;
            tt x = TT(dtype, 1, N), y = TT(dtype, 1, size), i = TT(TD_INT64, 1, size);
            tcall c = {.nin = 1, .nout = 2, .in = {&x}, .out = {&y, &i}};
            td_attrs_init(&c.attrs);
            td_attrs_ints(&c.attrs, 1, &size);
            rest(&c, td_cpu_plan_adaptive_max);
        }
}

/* Many classes, of which the gradient is 0 behind the end of what was said. */
static void ctc(void)
{
    enum { STEPS = 2, CLASSES = 1 << 22 };
    tt g = TT(TD_FLOAT32, 1), x = TT(TD_FLOAT32, STEPS, 1, CLASSES), targets = TT(TD_INT64, 1, 1);
    tt steps = TT(TD_INT64, 1), labels = TT(TD_INT64, 1), dx = TT(TD_FLOAT32, STEPS, 1, CLASSES);
    tcall c = {.nin = 5, .nout = 1, .in = {&g, &x, &targets, &steps, &labels}, .out = {&dx}};
    td_attrs_init(&c.attrs);
    td_attrs_int(&c.attrs, 0), td_attrs_bool(&c.attrs, false);
    rest(&c, td_cpu_plan_ctc_losses_backward);
    /* Many labels: what is done once for each of them takes milliseconds, too. */
    enum { LABELS = 1 << 20 };
    tt y = TT(TD_FLOAT32, STEPS, 1, 3), many = TT(TD_INT64, 1, LABELS), loss = TT(TD_FLOAT32, 1);
    tt one = TT(TD_INT64, 1), all = TT(TD_INT64, 1);
    for (int64_t i = 0; i < LABELS; i++) tt_set(&many, i, 1 + (double)(i & 1));
    tt_set(&one, 0, STEPS), tt_set(&all, 0, LABELS);
    tcall d = {.nin = 4, .nout = 1, .in = {&y, &many, &one, &all}, .out = {&loss}};
    td_attrs_init(&d.attrs);
    td_attrs_int(&d.attrs, 0), td_attrs_bool(&d.attrs, false);
    const double longest = rest(&d, td_cpu_plan_ctc_losses);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    CU_ASSERT_TRUE(longest < 1); /* without a rest it took 2 */
#endif
    (void)longest;
}

/* All along one dimension. */
static void scattering(void)
{
    enum { N = 1 << 20 };
    tt x = TT(TD_FLOAT16, 200000), i = TT(TD_INT64, N), v = TT(TD_FLOAT16, N), y = TT(TD_FLOAT16, 200000);
    tcall c = {.nin = 3, .nout = 1, .in = {&x, &i, &v}, .out = {&y}};
    td_attrs_init(&c.attrs);
    td_attrs_int(&c.attrs, 0), td_attrs_int(&c.attrs, 0);
    rest(&c, td_cpu_plan_scatter_fold);
}

TD_CUNIT_MAIN("kernels_rest", {"pools", pooling}, {"adaptive pools", adaptive}, {"ctc", ctc}, {"scatter", scattering},
              {"a product", product}, {"sort and topk", sorting}, {"norms", normalising}, {"nonzero", places})
