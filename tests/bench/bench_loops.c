/* The CPU's own kernels against the speed of memory, in this process on one thread: what the daemon's scheduler does
 * not change. Each line: milliseconds (or ns), GB/s of what must be moved, and the ratio to a plain loop that moves as
 * much. */
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 4096, N = SIDE * SIDE };
static float *a, *b, *c;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others may be running */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

typedef struct job {
    const char *name, *op;
    td_desc x, y, out;
    int nin;
    td_attr attr[4];
    double bytes; /* of memory traffic; 0: not compared */
} job;

static void setup(const job *j, td_kcall *k, td_attrs *attrs, td_karg *in, td_karg *out)
{
    const td_op *op = td_op_by_name(j->op);
    memset(k, 0, sizeof *k);
    td_attrs_init(attrs);
    for (int i = 0; i < op->nattrs; i++) attrs->at[attrs->count++] = op->attrs[i].value;
    for (int i = 0; i < 4; i++)
        if (j->attr[i].kind) attrs->at[i] = j->attr[i];
    attrs->ints[0] = !strcmp(j->op, "sum_to") ? SIDE : 1; /* a shape, or dimension 1 */
    in[0] = (td_karg){a, &j->x};
    in[1] = (td_karg){b, &j->y};
    out[0] = (td_karg){c, &j->out};
    k->op = op;
    k->attrs = attrs;
    k->in = in;
    k->out = out;
    k->nin = (uint16_t)j->nin;
    k->nout = 1;
    k->compute = j->out.dtype == TD_BOOL ? j->x.dtype : j->out.dtype;
    k->seed = 1;
}

/* Nanoseconds for one call: the best of some. */
static double measure(const job *j, int calls)
{
    td_kcall k;
    td_attrs attrs;
    td_karg in[2], out[1];
    double best = 1e18;
    setup(j, &k, &attrs, in, out);
    for (int round = 0; round < 9; round++) {
        double start = now();
        for (int i = 0; i < calls; i++)
            if (td_kernel_run(td_cpu_plans[k.op->id], &k, NULL)) exit(1);
        double t = (now() - start) / calls;
        if (t < best) best = t;
    }
    return best;
}

static td_desc matrix(int64_t rows, int64_t cols)
{
    td_desc d = {.shape = {rows, cols}, .stride = {cols, 1}, .dtype = TD_FLOAT32, .ndim = 2};
    return d;
}
static td_desc vector(int64_t n)
{
    td_desc d = {.shape = {n}, .stride = {1}, .dtype = TD_FLOAT32, .ndim = 1};
    return d;
}

static double stream_gbs;
static void stream(void)
{
    double best = 1e18;
    for (int round = 0; round < 9; round++) {
        double start = now();
#pragma GCC ivdep
        for (int64_t i = 0; i < N; i++) c[i] = a[i] + b[i];
        double t = now() - start;
        if (t < best) best = t;
        __asm__ volatile("" ::"r"(c) : "memory");
    }
    stream_gbs = 12.0 * N / best;
    printf("%-28s %8.2f ms %7.1f GB/s\n", "plain loop c = a + b, 16M", best / 1e6, stream_gbs);
}

int main(void)
{
    td_cpu_init();
    a = aligned_alloc(64, N * 4);
    b = aligned_alloc(64, N * 4);
    c = aligned_alloc(64, N * 4);
    for (int64_t i = 0; i < N; i++) a[i] = (float)(i % 1000) * 0.003f - 1.5f, b[i] = (float)(i % 77) * 0.01f, c[i] = 0;
    printf("%s\n", td_isa_now->name);
    stream();
    td_desc m = matrix(SIDE, SIDE), t = m, v = vector(N), s = vector(65536), tiny = vector(8),
            one = {.dtype = TD_FLOAT32};
    t.stride[0] = 1;
    t.stride[1] = SIDE;
    td_desc h = v, row = vector(SIDE), bools = v;
    h.dtype = TD_FLOAT16;
    bools.dtype = TD_BOOL;
    td_desc narrow = matrix(N / 8, 8), narrow_out = vector(N / 8), cut = matrix(SIDE, SIDE - 8),
            thin = matrix(N / 3, 3);
    cut.stride[0] = SIDE;
    td_desc column = matrix(SIDE, 1), thin_column = matrix(N / 3, 1), thin_row = vector(3),
            cut_out = matrix(SIDE, SIDE - 8);
    td_attr first = {.kind = TD_A_INT, .i = 0}, last = {.kind = TD_A_INT, .i = 1};
    const job jobs[] = {
        {"add 16M", "add", v, v, v, 2, {{0}}, 12},
        {"add a number 16M", "add", v, one, v, 2, {{0}}, 8},
        {"add a column 4096x4096", "add", m, column, m, 2, {{0}}, 8},
        {"add, rows of a slice", "add", cut, cut, cut_out, 2, {{0}}, 12},
        {"x.T + y 4096x4096", "add", t, m, m, 2, {{0}}, 12},
        {"copy x.T 4096x4096", "copy", t, m, m, 1, {{0}}, 8},
        {"[N, 1] + [3], 16M", "add", thin_column, thin_row, thin, 2, {{0}}, 5.3},
        {"x < y 16M", "lt", v, v, bools, 2, {{0}}, 9},
        {"float16 add 16M", "add", h, h, h, 2, {{0}}, 6},
        {"exp 16M", "exp", v, v, v, 1, {{0}}, 8},
        {"tanh 16M", "tanh", v, v, v, 1, {{0}}, 8},
        {"sigmoid 16M", "sigmoid", v, v, v, 1, {{0}}, 8},
        {"gelu 16M", "gelu", v, v, v, 1, {{0}}, 8},
        {"log1p 16M", "log1p", v, v, v, 1, {{0}}, 8},
        {"sin 16M", "sin", v, v, v, 1, {{0}}, 8},
        {"pow 16M", "pow", v, v, v, 2, {{0}}, 12},
        {"sum 16M", "sum", v, v, one, 1, {{0}}, 4},
        {"sum dim 0 4096x4096", "sum_to", m, m, row, 1, {{.kind = TD_A_INTS, .count = 1}}, 4},
        {"softmax 4096x4096", "softmax", m, m, m, 1, {last}, 8},
        {"softmax dim 0", "softmax", m, m, m, 1, {first}, 8},
        {"max of rows of 8", "amax", narrow, v, narrow_out, 1, {{.kind = TD_A_INTS, .count = 1}}, 4.5},
        {"cumsum 16M", "cumsum", v, v, v, 1, {first}, 8},
        {"rand 16M", "rand", v, v, v, 0, {{0}}, 4},
        {"randn 16M", "randn", v, v, v, 0, {{0}}, 4},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        job j = jobs[i];
        double ns = measure(&j, 1), gbs = j.bytes * N / ns;
        printf("%-28s %8.2f ms %7.1f GB/s %6.2f of the plain loop\n", j.name, ns / 1e6, gbs, gbs / stream_gbs);
    }
    const job small[] = {
        {"add of 8", "add", tiny, tiny, tiny, 2, {{0}}, 0},
        {"add a number to 8", "add", tiny, one, tiny, 2, {{0}}, 0},
        {"exp of 8", "exp", tiny, tiny, tiny, 1, {{0}}, 0},
        {"sum of 8", "sum", tiny, tiny, one, 1, {{0}}, 0},
        {"softmax of 8", "softmax", tiny, tiny, tiny, 1, {first}, 0},
        {"exp of 64K", "exp", s, s, s, 1, {{0}}, 0},
        {"gelu of 64K", "gelu", s, s, s, 1, {{0}}, 0},
        {"add of 64K", "add", s, s, s, 2, {{0}}, 0},
    };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        printf("%-28s %8.1f ns\n", small[i].name, measure(&small[i], i < 5 ? 200000 : 200));
    return 0;
}
