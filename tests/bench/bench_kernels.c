/* What the kernels reach through the daemon: matrix products, pointwise work bound by memory, convolutions. */
#include "tests/bench/bench.h"

#include <cblas.h>
#include <pthread.h>

#define BIG (16 << 20) /* floats */

struct pair {
    td_array *x, *w;
    int n;
    float *a, *b, *c; /* for the references */
};

static void done(td_array *y, const char *what)
{
    bench_check(y && td_sync(td_client_of(y)) == 0, what);
    td_release(y);
}

static float *filled(size_t n)
{
    float *a = malloc(n * sizeof *a);
    if (!a) abort();
    for (size_t i = 0; i < n; i++) a[i] = (float)(i % 17) - 8;
    return a;
}

static struct pair make_pair(td_client *c, int n, td_ints shape, size_t reference)
{
    struct pair p = {.n = n, .a = filled(reference), .b = filled(reference), .c = filled(reference)};
    p.x = td_randn(c, shape, TD_FLOAT32);
    p.w = td_randn(c, shape, TD_FLOAT32);
    return p;
}

static void free_pair(struct pair *p)
{
    td_release(p->x);
    td_release(p->w);
    free(p->a);
    free(p->b);
    free(p->c);
}

/* ---- matrix products ---- */

static void ours_mm(void *context)
{
    struct pair *p = context;
    done(td_mm(p->x, p->w), "mm");
}
static void blas_mm(void *context)
{
    struct pair *p = context;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->n, p->n, p->n, 1, p->a, p->n, p->b, p->n, 0, p->c, p->n);
}

static void gemm(td_client *c, int n, const char *name)
{
    struct pair p = make_pair(c, n, td_dims(n, n), (size_t)n * (size_t)n);
    bench_ours(name, bench_median(ours_mm, &p) * 1e3, "ms", 1.05);
    bench_reference(name, bench_median(blas_mm, &p) * 1e3, "cblas_sgemm with all threads");
    free_pair(&p);
}

/* ---- pointwise ---- */

static void ours_add(void *context)
{
    struct pair *p = context;
    done(td_add(p->x, p->w), "add");
}
static void ours_exp(void *context)
{
    struct pair *p = context;
    done(td_exp(p->x), "exp");
}

/* STREAM's add: c = a + b, each thread a part of it. */
struct part {
    const float *a, *b;
    float *c;
    size_t n;
};
__attribute__((optimize("O3"))) static void *add_part(void *context)
{
    struct part *p = context;
    const float *restrict a = p->a, *restrict b = p->b;
    float *restrict c = p->c;
    for (size_t i = 0; i < p->n; i++) c[i] = a[i] + b[i];
    return NULL;
}
static void stream_add(void *context)
{
    struct pair *p = context;
    int threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t id[64];
    struct part part[64];
    if (threads > 64) threads = 64;
    size_t each = BIG / (size_t)threads;
    for (int i = 0; i < threads; i++) {
        part[i] = (struct part){p->a + i * each, p->b + i * each, p->c + i * each, each};
        if (pthread_create(id + i, NULL, add_part, part + i)) abort();
    }
    for (int i = 0; i < threads; i++) pthread_join(id[i], NULL);
}

static void pointwise(td_client *c)
{
    struct pair p = make_pair(c, BIG, td_dims(BIG), BIG);
    double add = bench_median(ours_add, &p) * 1e3;
    bench_ours("pointwise.add.stream", add, "ms", 1.1);
    bench_reference("pointwise.add.stream", bench_median(stream_add, &p) * 1e3, "STREAM add with all threads");
    /* Results lie in memory that was used before, like those of torch with out=; without, it asks the system. */
    double exponential = bench_median(ours_exp, &p) * 1e3;
    bench_ours("pointwise.add.out", add, "ms", 1.1);
    bench_ours("pointwise.add.new", add, "ms", 1.1);
    bench_ours("pointwise.exp.out", exponential, "ms", 1.1);
    bench_ours("pointwise.exp.new", exponential, "ms", 1.1);
    free_pair(&p);
}

/* ---- layouts and gradients that are easily slow */

#define SIDE 4096

static void ours_transposed(void *context)
{
    struct pair *p = context;
    td_array *t = td_t(p->x);
    done(td_add(t, p->w), "x.T + y");
    td_release(t);
}
static void ours_softmax_inner(void *context)
{
    done(td_softmax(((struct pair *)context)->x, 1), "softmax");
}
static void ours_softmax_outer(void *context)
{
    done(td_softmax(((struct pair *)context)->x, 0), "softmax");
}

static void layouts(td_client *c)
{
    struct pair p = {.x = td_randn(c, td_dims(SIDE, SIDE), TD_FLOAT32),
                     .w = td_randn(c, td_dims(SIDE, SIDE), TD_FLOAT32)};
    bench_ours("pointwise.transposed.out", bench_median(ours_transposed, &p) * 1e3, "ms", 1.1);
    bench_ours("softmax.inner.out", bench_median(ours_softmax_inner, &p) * 1e3, "ms", 1.1);
    bench_ours("softmax.outer.out", bench_median(ours_softmax_outer, &p) * 1e3, "ms", 1.1);
    free_pair(&p);
}

struct norm {
    td_array *x, *g, *w, *b, *mean, *rstd;
};

static void three(td_array *dx, td_array *dw, td_array *db)
{
    td_release(dw);
    td_release(db);
    done(dx, "gradient");
}
static void ours_layer_norm(void *context)
{
    struct norm *n = context;
    td_array *dw, *db, *dx = td_layer_norm_backward(n->g, n->x, n->w, n->mean, n->rstd, 1, 7, &dw, &db);
    three(dx, dw, db);
}
static void ours_batch_norm(void *context)
{
    struct norm *n = context;
    td_array *dw, *db, *dx = td_batch_norm_backward(n->g, n->x, n->w, n->mean, n->rstd, true, 7, &dw, &db);
    three(dx, dw, db);
}

static struct norm make_norm(td_client *c, td_ints shape, int64_t weights)
{
    return (struct norm){.x = td_randn(c, shape, TD_FLOAT32),
                         .g = td_randn(c, shape, TD_FLOAT32),
                         .w = td_randn(c, td_dims(weights), TD_FLOAT32),
                         .b = td_randn(c, td_dims(weights), TD_FLOAT32)};
}
static void free_norm(struct norm *n)
{
    td_array *all[] = {n->x, n->g, n->w, n->b, n->mean, n->rstd};
    for (int i = 0; i < 6; i++) td_release(all[i]);
}

static void norms(td_client *c)
{
    struct norm l = make_norm(c, td_dims(4096, 1024), 1024), b = make_norm(c, td_dims(32, 64, 56, 56), 64);
    td_release(td_layer_norm(l.x, l.w, l.b, 1, &l.mean, &l.rstd));
    td_release(td_batch_norm(b.x, b.w, b.b, NULL, NULL, true, &b.mean, &b.rstd));
    bench_ours("layer_norm.backward", bench_median(ours_layer_norm, &l) * 1e3, "ms", 1.1);
    bench_ours("batch_norm.backward", bench_median(ours_batch_norm, &b) * 1e3, "ms", 1.1);
    free_norm(&l);
    free_norm(&b);
}

/* Small work is sent as a stream: its cost is that of an op in a row, not of a round trip. */
#define IN_A_ROW 20
#define DEPTHWISE td_dims(1, 1), td_dims(1, 1), td_dims(1, 1), 96

static void row_done(td_client *c)
{
    bench_check(td_sync(c) == 0, "depthwise conv2d");
}
static void ours_depthwise(void *context)
{
    struct norm *n = context;
    for (int i = 0; i < IN_A_ROW; i++)
        td_release(td_conv2d(n->x, n->w, NULL, td_dims(1, 1), td_dims(1, 1), td_dims(1, 1), 96));
    row_done(td_client_of(n->x));
}
static void ours_depthwise_data(void *context)
{
    struct norm *n = context;
    for (int i = 0; i < IN_A_ROW; i++) td_release(td_conv2d_backward(n->g, n->x, n->w, DEPTHWISE, 1));
    row_done(td_client_of(n->x));
}
static void ours_depthwise_weights(void *context)
{
    struct norm *n = context;
    for (int i = 0; i < IN_A_ROW; i++) {
        td_array *dw, *dx = td_conv2d_backward(n->g, n->x, n->w, DEPTHWISE, 2, &dw);
        td_release(dw);
        td_release(dx);
    }
    row_done(td_client_of(n->x));
}

static void depthwise(td_client *c)
{
    struct norm n = {.x = td_randn(c, td_dims(1, 96, 40, 40), TD_FLOAT32),
                     .g = td_randn(c, td_dims(1, 96, 40, 40), TD_FLOAT32),
                     .w = td_randn(c, td_dims(96, 1, 3, 3), TD_FLOAT32)};
    bench_ours("depthwise.forward", bench_median(ours_depthwise, &n) / IN_A_ROW * 1e3, "ms", 1.1);
    bench_ours("depthwise.data", bench_median(ours_depthwise_data, &n) / IN_A_ROW * 1e3, "ms", 1.1);
    bench_ours("depthwise.weights", bench_median(ours_depthwise_weights, &n) / IN_A_ROW * 1e3, "ms", 1.1);
    free_norm(&n);
}

/* ---- convolution ---- */

static td_array *forward(struct pair *p)
{
    return td_conv2d(p->x, p->w, NULL, td_dims(1, 1), td_dims(1, 1));
}
static void ours_conv(void *context)
{
    bool was = td_set_grad_enabled(false);
    done(forward(context), "conv2d");
    td_set_grad_enabled(was);
}
static void ours_conv_backward(void *context)
{
    struct pair *p = context;
    td_array *y = forward(p), *s = td_sum(y);
    bench_check(td_backward(s) == 0 && td_sync(td_client_of(s)) == 0, "conv2d backward");
    td_zero_grad(td_arrays(p->x, p->w));
    td_release(s);
    td_release(y);
}

static void conv(td_client *c)
{
    struct pair p = {.x = td_randn(c, td_dims(32, 64, 56, 56), TD_FLOAT32),
                     .w = td_randn(c, td_dims(64, 64, 3, 3), TD_FLOAT32)};
    bench_check(td_set_requires_grad(p.x, true) == 0 && td_set_requires_grad(p.w, true) == 0, "requires_grad");
    bench_ours("conv.forward", bench_median(ours_conv, &p) * 1e3, "ms", 0.95);
    bench_ours("conv.forward_backward", bench_median(ours_conv_backward, &p) * 1e3, "ms", 0.95);
    free_pair(&p);
}

int main(void)
{
    td_client *c = td_connect(NULL);
    bench_check(c != NULL, "connecting");
    gemm(c, 256, "gemm.256");
    gemm(c, 1024, "gemm.1024");
    gemm(c, 2048, "gemm.2048");
    pointwise(c);
    layouts(c);
    norms(c);
    depthwise(c);
    conv(c);
    td_disconnect(c);
    return 0;
}
