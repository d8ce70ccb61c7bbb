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
    bench_ours("pointwise.add", add, "ms", 1.1);
    bench_ours("pointwise.exp", bench_median(ours_exp, &p) * 1e3, "ms", 1.1);
    free_pair(&p);
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
    conv(c);
    td_disconnect(c);
    return 0;
}
