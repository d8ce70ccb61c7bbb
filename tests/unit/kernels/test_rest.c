/* Kernels whose chunks may be long rest in the middle of them: so often that between two rests there is never more than
 * some ten microseconds' work, and they stop when they are told to. What a call has to do is known, and a rest is
 * counted whenever it would be time to pass through the kernel, so the counts are the same on every machine. */
#include "daemon/kernels/cpu/isa.h"
#include "kernel_harness.h"

/* Rests of a kernel that goes over n elements: one for each TD_REST_ELEMENTS, or, where an element is quickly done, for
 * some times as many. */
#define OVER(n, times) ((n) / ((times) * (int64_t)TD_REST_ELEMENTS))

enum { SOON = 3 }; /* rests behind a stop: a loop around another looks once more */

static struct rests {
    td_kcall *k;
    int64_t count, stop_at;
} rests;

/* Instead of proto/base/breath.c's, which looks at the clock. */
void td_breathe(void)
{
    if (++rests.count == rests.stop_at) td_kernel_fail(rests.k, TD_E_CANCELLED, "stop");
}

/* One run, alone on this thread, which is told to stop at a rest (0: at none). How often it rested. */
static int64_t run(tcall *c, td_plan_fn plan, int64_t stop_at)
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
    rests = (struct rests){&c->k, 0, stop_at};
    CU_ASSERT_EQUAL(td_kernel_run(plan, &c->k, &c->error), stop_at ? TD_E_CANCELLED : 0);
    return rests.count;
}

/* It rests so often at least, the ends of chunks included, where whoever runs them rests. Told to stop at its first
 * rest, or in the middle, it ends soon after. */
static void rest(tcall *c, td_plan_fn plan, int64_t least)
{
    int64_t whole = run(c, plan, 0), chunks = 0;
    for (int p = 0; p < c->k.nphases; p++) chunks += c->k.phase[p].chunks;
    CU_ASSERT_TRUE(whole + chunks >= least);
    if (whole) CU_ASSERT_TRUE(run(c, plan, 1) < 1 + SOON);
    if (whole > 1) CU_ASSERT_TRUE(run(c, plan, whole / 2) < whole / 2 + SOON);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i]) tt_free(c->in[i]);
    for (int i = 0; i < c->nout; i++) tt_free(c->out[i]);
}

/* Without loops of our own for a processor's vectors a chunk is one call of the library, which knows no rest. */
static void product(void)
{
    const int64_t least = OVER(INT64_C(700) * 900 * 800, td_isa_used() ? 128 : 2048);
    for (int down = 0; down < 2; down++) {
        tt a = TT(TD_FLOAT32, 700, 900), b = TTL(TD_FLOAT32, down ? PERMUTED : ROW_MAJOR, 900, 800);
        tt c = TT(TD_FLOAT32, 700, 800);
        rest(&(tcall){.nin = 2, .nout = 1, .in = {&a, &b}, .out = {&c}}, td_cpu_plan_mm, least);
    }
}

static void sorting(void)
{
    enum { N = 1 << 20 };
    tt x = TT(TD_FLOAT32, N), y = TT(TD_FLOAT32, 8), i = TT(TD_INT64, 8);
    tcall c = {.nin = 1, .nout = 2, .in = {&x}, .out = {&y, &i}};
    td_attrs_init(&c.attrs);
    td_attrs_int(&c.attrs, 8), td_attrs_int(&c.attrs, 0), td_attrs_bool(&c.attrs, true), td_attrs_bool(&c.attrs, true);
    rest(&c, td_cpu_plan_topk, OVER(N, 2));
    tt u = TT(TD_FLOAT32, N), v = TT(TD_FLOAT32, N), j = TT(TD_INT64, N);
    tcall d = {.nin = 1, .nout = 2, .in = {&u}, .out = {&v, &j}};
    tt_random(&u);
    td_attrs_init(&d.attrs);
    td_attrs_int(&d.attrs, 0), td_attrs_bool(&d.attrs, false);
    rest(&d, td_cpu_plan_sort, OVER(N, 1));
}

static void normalising(void)
{
    tt x = TT(TD_FLOAT32, 8, 1, 512, 512), y = TT(TD_FLOAT32, 8, 1, 512, 512), m = TT(TD_FLOAT32, 1),
       s = TT(TD_FLOAT32, 1);
    tcall c = {.nin = 5, .nout = 3, .in = {&x}, .out = {&y, &m, &s}};
    td_attrs_init(&c.attrs);
    td_attrs_bool(&c.attrs, true), td_attrs_float(&c.attrs, 0.1), td_attrs_float(&c.attrs, 1e-5);
    rest(&c, td_cpu_plan_batch_norm, OVER(tt_numel(&x), 1));
    tt g = TT(TD_FLOAT32, 4096, 512), u = TT(TD_FLOAT32, 4096, 512), mean = TT(TD_FLOAT32, 4096),
       rstd = TT(TD_FLOAT32, 4096), dx = TT(TD_FLOAT32, 4096, 512), dw = TT(TD_FLOAT32, 512), db = TT(TD_FLOAT32, 512);
    tcall d = {.nin = 5, .nout = 3, .in = {&g, &u, NULL, &mean, &rstd}, .out = {&dx, &dw, &db}};
    td_attrs_init(&d.attrs);
    td_attrs_int(&d.attrs, 1), td_attrs_int(&d.attrs, 7);
    rest(&d, td_cpu_plan_layer_norm_backward, OVER(tt_numel(&u), 1));
    tt gr = TT(TD_FLOAT32, 8, 1, 512, 512), v = TT(TD_FLOAT32, 8, 1, 512, 512), mu = TT(TD_FLOAT32, 1),
       rs = TT(TD_FLOAT32, 1), dv = TT(TD_FLOAT32, 8, 1, 512, 512), sw = TT(TD_FLOAT32, 1), sb = TT(TD_FLOAT32, 1);
    tcall b = {.nin = 5, .nout = 3, .in = {&gr, &v, NULL, &mu, &rs}, .out = {&dv, &sw, &sb}};
    td_attrs_init(&b.attrs);
    td_attrs_bool(&b.attrs, true), td_attrs_int(&b.attrs, 7);
    rest(&b, td_cpu_plan_batch_norm_backward, OVER(tt_numel(&v), 1));
}

static void places(void)
{
    enum { N = 1 << 21 };
    tt x = TT(TD_BOOL, N), y = TT(TD_INT64, N, 1);
    for (int64_t i = 0; i < N; i++) tt_set(&x, i, (double)(i & 1));
    rest(&(tcall){.nin = 1, .nout = 1, .in = {&x}, .out = {&y}}, td_cpu_plan_nonzero, OVER(N, 1));
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
        rest(&a, back ? td_cpu_plan_avg_pool2d_backward : td_cpu_plan_avg_pool2d,
             OVER(INT64_C(201) * 201 * 100 * 100, 2));
    }
    for (int pad = 0; pad <= 50; pad += 50) { /* with edges: windows that are cut, too */
        const int64_t out = 201 + 2 * pad, edge[2] = {pad, pad};
        tt x = TT(TD_FLOAT32, 1, 1, 300, 300), y = TT(TD_FLOAT32, 1, 1, out, out), i = TT(TD_INT64, 1, 1, out, out);
        tcall m = {.nin = 1, .nout = 2, .in = {&x}, .out = {&y, &i}};
        td_attrs_init(&m.attrs);
        td_attrs_ints(&m.attrs, 2, window), td_attrs_ints(&m.attrs, 2, step), td_attrs_ints(&m.attrs, 2, edge);
        td_attrs_ints(&m.attrs, 2, step), td_attrs_bool(&m.attrs, false);
        rest(&m, td_cpu_plan_max_pool2d, OVER(INT64_C(201) * 201 * 100 * 100, 2));
    }
    tt g = TT(TD_FLOAT32, 1, 1, 1000, 1000), at = TT(TD_INT64, 1, 1, 1000, 1000), dx = TT(TD_FLOAT32, 1, 1, 2, 2);
    tcall b = {.nin = 2, .nout = 1, .in = {&g, &at}, .out = {&dx}};
    td_attrs_init(&b.attrs);
    td_attrs_ints(&b.attrs, 4, (int64_t[]){1, 1, 2, 2});
    rest(&b, td_cpu_plan_max_pool2d_backward, OVER(tt_numel(&g), 1));
}

static tt channels_last(td_dtype dtype, int64_t c, int64_t h, int64_t w)
{
    tt t = TT(dtype, 1, h, w, c);
    memcpy(t.d.shape, (int64_t[]){1, c, h, w}, 4 * sizeof *t.d.shape);
    memcpy(t.d.stride, (int64_t[]){h * w * c, 1, w * c, c}, 4 * sizeof *t.d.stride);
    return t;
}

/* Many rows are a chunk, and a rest comes in the middle of one. */
static void pooling_of_channels_last(void)
{
    static const int64_t window[2] = {4, 4}, step[2] = {1, 1}, none[2] = {0, 0};
    const int64_t least = OVER(INT64_C(297) * 10 * 16 * 16, 1);
    for (int max = 0; max < 2; max++) {
        tt x = channels_last(TD_FLOAT32, 16, 300, 13), y = channels_last(TD_FLOAT32, 16, 297, 10);
        tt i = channels_last(TD_INT64, 16, 297, 10);
        tcall c = {.nin = 1, .nout = max ? 2 : 1, .in = {&x}, .out = {&y, &i}};
        td_attrs_init(&c.attrs);
        td_attrs_ints(&c.attrs, 2, window), td_attrs_ints(&c.attrs, 2, step), td_attrs_ints(&c.attrs, 2, none);
        if (max) td_attrs_ints(&c.attrs, 2, step);
        td_attrs_bool(&c.attrs, false);
        if (!max) td_attrs_bool(&c.attrs, true);
        rest(&c, max ? td_cpu_plan_max_pool2d : td_cpu_plan_avg_pool2d, least);
        if (!max) tt_free(&i);
    }
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
            rest(&c, td_cpu_plan_adaptive_max, OVER(N, 1));
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
    rest(&c, td_cpu_plan_ctc_losses_backward, OVER(INT64_C(4) * STEPS * CLASSES, 64));
    /* Many labels, with a blank before each: 512 of these places are worked out at once; what is done once for each
     * takes milliseconds, too, in two loops over labels and two over places. */
    enum { LABELS = 1 << 20 };
    tt y = TT(TD_FLOAT32, STEPS, 1, 3), many = TT(TD_INT64, 1, LABELS), loss = TT(TD_FLOAT32, 1);
    tt one = TT(TD_INT64, 1), all = TT(TD_INT64, 1);
    for (int64_t i = 0; i < LABELS; i++) tt_set(&many, i, 1 + (double)(i & 1));
    tt_set(&one, 0, STEPS), tt_set(&all, 0, LABELS);
    tcall d = {.nin = 4, .nout = 1, .in = {&y, &many, &one, &all}, .out = {&loss}};
    td_attrs_init(&d.attrs);
    td_attrs_int(&d.attrs, 0), td_attrs_bool(&d.attrs, false);
    rest(&d, td_cpu_plan_ctc_losses, 2 * LABELS / 512 + OVER(6 * LABELS, 1));
}

/* All along one dimension. */
static void scattering(void)
{
    enum { N = 1 << 20 };
    tt x = TT(TD_FLOAT16, 200000), i = TT(TD_INT64, N), v = TT(TD_FLOAT16, N), y = TT(TD_FLOAT16, 200000);
    tcall c = {.nin = 3, .nout = 1, .in = {&x, &i, &v}, .out = {&y}};
    td_attrs_init(&c.attrs);
    td_attrs_int(&c.attrs, 0), td_attrs_int(&c.attrs, 0);
    rest(&c, td_cpu_plan_scatter_fold, OVER(N, 1));
}

TD_CUNIT_MAIN("kernels_rest", {"pools", pooling}, {"pools of channels last", pooling_of_channels_last},
              {"adaptive pools", adaptive}, {"ctc", ctc}, {"scatter", scattering}, {"a product", product},
              {"sort and topk", sorting}, {"norms", normalising}, {"nonzero", places})
