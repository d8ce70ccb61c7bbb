/* The library-backed kernels alone, without a daemon: their chunks on one and on two threads, in ms (median of 7 runs).
 *
 *     bench_plans [PATTERN]      only the lines whose names contain it
 *
 * Where it says so, the same product by one call of OpenBLAS with one thread stands beside it. */
#include "daemon/kernels/cpu/blas.h"
#include "daemon/kernels/plans.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS 7

typedef struct operand {
    td_desc d;
    void *data;
} operand;

typedef struct bench {
    const char *name;
    td_plan_fn plan;
    operand in[6], out[3];
    int nin, nout;
    td_attrs attrs;
    double reference_ms; /* 0: none */
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static operand tensor(td_dtype dtype, int nd, const int64_t *shape)
{
    operand o = {0};
    td_error e;
    if (td_desc_contiguous(&o.d, dtype, nd, shape, &e)) abort();
    size_t n = (size_t)td_desc_numel(&o.d);
    o.data = aligned_alloc(64, (n * td_dtype_size(dtype) + 127) / 64 * 64);
    for (size_t i = 0; i < n; i++) {
        if (dtype == TD_FLOAT32) ((float *)o.data)[i] = (float)((i * 7919) % 997) / 500 - 1;
        else ((int64_t *)o.data)[i] = (int64_t)((i * 7919) % 10);
    }
    return o;
}
#define F32(...) tensor(TD_FLOAT32, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})
#define I64(...) tensor(TD_INT64, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static operand transposed(operand o)
{
    int a = o.d.ndim - 2, b = o.d.ndim - 1;
    int64_t shape = o.d.shape[a], stride = o.d.stride[a];
    o.d.shape[a] = o.d.shape[b], o.d.stride[a] = o.d.stride[b];
    o.d.shape[b] = shape, o.d.stride[b] = stride;
    return o;
}

/* ---- running ---- */

typedef struct share {
    td_kcall *k;
    int phase;
    _Atomic int64_t next;
} share;

static void *work(void *arg)
{
    share *s = arg;
    void *scratch = aligned_alloc(64, (s->k->scratch_bytes + 127) / 64 * 64);
    td_cpu_thread_init();
    for (int64_t i; (i = atomic_fetch_add(&s->next, 1)) < s->k->phase[s->phase].chunks;)
        s->k->phase[s->phase].fn(s->k, i, scratch);
    free(scratch);
    return NULL;
}

static double once(bench *b, int threads)
{
    td_karg in[6], out[3];
    static td_kcall k;
    td_error e = {0};
    memset(&k, 0, sizeof k);
    for (int i = 0; i < b->nin; i++) in[i] = (td_karg){b->in[i].data, b->in[i].data ? &b->in[i].d : NULL};
    for (int i = 0; i < b->nout; i++) out[i] = (td_karg){b->out[i].data, &b->out[i].d};
    k.attrs = &b->attrs, k.in = in, k.out = out;
    k.nin = (uint16_t)b->nin, k.nout = (uint16_t)b->nout;
    double began = now();
    if (b->plan(&k, &e)) {
        fprintf(stderr, "%s: %s\n", b->name, e.message);
        exit(1);
    }
    double planned = now() - began;
    static void *memory;
    static size_t room;
    if (k.work_bytes > room) {
        free(memory);
        memory = aligned_alloc(64, (k.work_bytes + 127) / 64 * 64);
        memset(memory, 0, k.work_bytes);
        room = k.work_bytes;
    }
    k.work = memory;
    began = now();
    for (int p = 0; p < k.nphases; p++) {
        share s = {&k, p, 0};
        pthread_t other;
        bool two = threads > 1 && k.phase[p].chunks > 1;
        if (two) pthread_create(&other, NULL, work, &s);
        work(&s);
        if (two) pthread_join(other, NULL);
    }
    return now() - began + planned;
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(bench *b, int threads)
{
    double took[RUNS];
    once(b, threads);
    for (int i = 0; i < RUNS; i++) took[i] = once(b, threads);
    qsort(took, RUNS, sizeof *took, order);
    return took[RUNS / 2];
}

static const char *only = "";

static void show(bench *b)
{
    if (strstr(b->name, only)) {
        printf("%-44s %9.4f %9.4f", b->name, median(b, 1), median(b, 2));
        if (b->reference_ms > 0) printf("   OpenBLAS %9.4f", b->reference_ms);
        printf("\n");
    }
    for (int i = 0; i < b->nin; i++) free(b->in[i].data);
    for (int i = 0; i < b->nout; i++) free(b->out[i].data);
}

/* ---- what is measured ---- */

static void product(const char *name, int64_t m, int64_t k, int64_t n, bool turn)
{
    const td_blas_api *blas = td_blas(NULL);
    bench b = {name, td_cpu_plan_mm, {F32(m, k), turn ? transposed(F32(n, k)) : F32(k, n)}, {F32(m, n)}, 2, 1, {0}, 0};
    double took[RUNS];
    for (int i = 0; i < RUNS && blas && strstr(name, only); i++) {
        double began = now();
        blas->cblas_sgemm(CblasRowMajor, CblasNoTrans, turn ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1,
                          b.in[0].data, (int)k, b.in[1].data, turn ? (int)k : (int)n, 0, b.out[0].data, (int)n);
        took[i] = now() - began;
        qsort(took, (size_t)i + 1, sizeof *took, order);
        b.reference_ms = took[i / 2];
    }
    show(&b);
}

static void products(void)
{
    product("mm 64x128x10", 64, 128, 10, false);
    product("mm 256", 256, 256, 256, false);
    product("mm 1024", 1024, 1024, 1024, false);
    product("mm 64x784x128, B transposed", 64, 784, 128, true);
    product("mm 2048x128x512", 2048, 128, 512, false);
    product("mm 128x2048x512 (a weight gradient)", 128, 2048, 512, false);
    bench heads = {"bmm 64 heads 128x32x128, B transposed",
                   td_cpu_plan_bmm,
                   {F32(64, 128, 32), transposed(F32(64, 128, 32))},
                   {F32(64, 128, 128)},
                   2,
                   1,
                   {0},
                   0};
    show(&heads);
}

static void ints(td_attrs *a, int n, const int64_t *v)
{
    td_attrs_ints(a, n, v);
}

static void conv(const char *name, const int64_t s[9])
{ /* n c h w o k stride pad groups */
    int64_t oh = (s[2] + 2 * s[7] - s[5]) / s[6] + 1, ow = (s[3] + 2 * s[7] - s[5]) / s[6] + 1;
    char label[3][80];
    static const char *const part[] = {"forward", "data", "weights"};
    for (int i = 0; i < 3; i++) {
        snprintf(label[i], sizeof label[i], "conv %s: %s", name, part[i]);
        operand x = F32(s[0], s[1], s[2], s[3]), w = F32(s[4], s[1] / s[8], s[5], s[5]), y = F32(s[0], s[4], oh, ow);
        bench b = {.name = label[i]};
        if (i == 0) {
            b.plan = td_cpu_plan_conv2d;
            b.in[0] = x, b.in[1] = w, b.nin = 3, b.out[0] = y, b.nout = 1;
        } else {
            b.plan = td_cpu_plan_conv2d_backward;
            b.in[0] = y, b.in[1] = x, b.in[2] = w, b.nin = 3, b.nout = 3;
            b.out[0] = i == 1 ? F32(s[0], s[1], s[2], s[3]) : F32(0);
            b.out[1] = i == 2 ? F32(s[4], s[1] / s[8], s[5], s[5]) : F32(0);
            b.out[2] = F32(0);
        }
        ints(&b.attrs, 2, (int64_t[]){s[6], s[6]});
        ints(&b.attrs, 2, (int64_t[]){s[7], s[7]});
        ints(&b.attrs, 2, (int64_t[]){1, 1});
        td_attrs_int(&b.attrs, s[8]);
        if (i) td_attrs_int(&b.attrs, i);
        show(&b);
    }
}

static void convolutions(void)
{
    conv("32x64x56x56 k3", (int64_t[]){32, 64, 56, 56, 64, 3, 1, 1, 1});
    conv("64x1x28x28 -> 32 k3", (int64_t[]){64, 1, 28, 28, 32, 3, 1, 0, 1});
    conv("1x3x224x224 -> 64 k7 s2", (int64_t[]){1, 3, 224, 224, 64, 7, 2, 3, 1});
    conv("depthwise 96x40x40 k3", (int64_t[]){1, 96, 40, 40, 96, 3, 1, 1, 96});
    conv("1x1 32x64 -> 128 56x56", (int64_t[]){32, 64, 56, 56, 128, 1, 1, 0, 1});
}

static void norms(void)
{
    bench ln = {"layer_norm 4096x1024",
                td_cpu_plan_layer_norm,
                {F32(4096, 1024), F32(1024), F32(1024)},
                {F32(4096, 1024), F32(4096), F32(4096)},
                3,
                3,
                {0},
                0};
    td_attrs_int(&ln.attrs, 1);
    td_attrs_float(&ln.attrs, 1e-5);
    show(&ln);
    bench lb = {"layer_norm_backward 4096x1024",
                td_cpu_plan_layer_norm_backward,
                {F32(4096, 1024), F32(4096, 1024), F32(1024), F32(4096), F32(4096)},
                {F32(4096, 1024), F32(1024), F32(1024)},
                5,
                3,
                {0},
                0};
    td_attrs_int(&lb.attrs, 1);
    td_attrs_int(&lb.attrs, 7);
    show(&lb);
    bench bn = {"batch_norm 32x64x56x56",
                td_cpu_plan_batch_norm,
                {F32(32, 64, 56, 56), F32(64), F32(64), F32(64), F32(64)},
                {F32(32, 64, 56, 56), F32(64), F32(64)},
                5,
                3,
                {0},
                0};
    td_attrs_bool(&bn.attrs, true);
    td_attrs_float(&bn.attrs, 0.1);
    td_attrs_float(&bn.attrs, 1e-5);
    show(&bn);
    bench bb = {"batch_norm_backward 32x64x56x56",
                td_cpu_plan_batch_norm_backward,
                {F32(32, 64, 56, 56), F32(32, 64, 56, 56), F32(64), F32(64), F32(64)},
                {F32(32, 64, 56, 56), F32(64), F32(64)},
                5,
                3,
                {0},
                0};
    td_attrs_bool(&bb.attrs, true);
    td_attrs_int(&bb.attrs, 7);
    show(&bb);
}

static void others(void)
{
    bench nll = {"nll_loss 64x10", td_cpu_plan_nll_loss, {F32(64, 10), I64(64)}, {F32(1), F32(1)}, 3, 2, {0}, 0};
    td_attrs_int(&nll.attrs, 1);
    td_attrs_int(&nll.attrs, -100);
    show(&nll);
    bench sort = {"sort 1M", td_cpu_plan_sort, {F32(1 << 20)}, {F32(1 << 20), I64(1 << 20)}, 1, 2, {0}, 0};
    td_attrs_int(&sort.attrs, 0);
    td_attrs_bool(&sort.attrs, false);
    show(&sort);
    bench adam = {"adam_step 1M",
                  td_cpu_plan_adam_step,
                  {F32(1 << 20), F32(1 << 20), F32(1 << 20), F32(1 << 20), F32(1)},
                  {{.data = NULL}},
                  5,
                  0,
                  {0},
                  0};
    for (int i = 0; i < 5; i++)
        td_attrs_float(&adam.attrs, i == 0 ? 1e-3 : i == 1 ? 0.9 : i == 2 ? 0.999 : i == 3 ? 1e-8 : 0);
    td_attrs_bool(&adam.attrs, true);
    show(&adam);
    bench emb = {"embedding 4096 rows of 512",
                 td_cpu_plan_embedding,
                 {F32(1000, 512), I64(4096)},
                 {F32(4096, 512)},
                 2,
                 1,
                 {0},
                 0};
    show(&emb);
    bench add = {"index_add 4096 rows of 512 to 10",
                 td_cpu_plan_index_add,
                 {F32(1000, 512), I64(4096), F32(4096, 512)},
                 {F32(1000, 512)},
                 3,
                 1,
                 {0},
                 0};
    td_attrs_int(&add.attrs, 0);
    td_attrs_scalar(&add.attrs, td_int(1));
    show(&add);
}

int main(int argc, char **argv)
{
    if (argc > 1) only = argv[1];
    td_cpu_init();
    (void)td_blas(NULL), (void)td_dnnl(NULL);
    printf("%s\n%-44s %9s %9s\n", td_cpu_describe(), "ms", "1 thread", "2 threads");
    products();
    convolutions();
    norms();
    others();
    return 0;
}
