/* What a program costs: an op of it, a call of it, a number that it adds; against the same ops sent one by one. */
#include "tests/bench/bench.h"

#include <pthread.h>
#include <stdbool.h>

enum { ADDS = 300, ROWS = 64, CALLS = 200, TRIPS = 1000000 };

typedef struct program {
    td_program *p;
    td_array *x, *v; /* v: a row of x */
    int trips;
} program;

static td_program *compile(td_client *c, const char *text)
{
    td_program *p = td_program_read(c, text, td_arrays_of(0, NULL));
    bench_check(p != NULL, "a program");
    return p;
}

static void wait_for(td_client *c)
{
    bench_check(td_sync(c) == 0, "a sync");
}

/* ---- prog.step: small adds, in one program and one by one ---- */

static void adds_in_programs(void *context)
{
    program *q = context;
    for (int k = 0; k < CALLS; k++) {
        td_value out, in[] = {td_value_array(q->x)};
        bench_check(td_program_call(q->p, 1, in, &out) == 0, "a call");
        td_value_free(&out);
    }
    wait_for(td_client_of(q->x));
}

static void adds_one_by_one(void *context)
{
    program *q = context;
    for (int k = 0; k < CALLS; k++) {
        td_array *y = td_retain(q->x);
        for (int i = 0; i < ADDS; i++) {
            td_array *z = td_add(y, 1);
            td_release(y);
            y = z;
        }
        td_release(y);
    }
    wait_for(td_client_of(q->x));
}

static void step(td_client *c)
{
    char *text = malloc(ADDS * 100 + 200), *at = text;
    bench_check(text != NULL, "memory");
    at += sprintf(at, "graph(%%0 : Tensor):\n  %%one : int = prim::Constant[value=1]()\n");
    for (int i = 0; i < ADDS; i++)
        at += sprintf(at, "  %%v%d : Tensor = td::add(%%%s%d, %%one, %%one)\n", i + 1, i ? "v" : "", i);
    sprintf(at, "  return (%%v%d)\n", ADDS);
    program q = {compile(c, text), td_full(c, td_dims(8), 1.0, TD_FLOAT32), NULL, 0};
    double in_programs = bench_median(adds_in_programs, &q), alone = bench_median(adds_one_by_one, &q);
    bench_ours("prog.step", in_programs / (CALLS * ADDS) * 1e6, "us", 1);
    bench_reference("prog.step", 0.1, "0.1 us an op: 300 adds of 8 floats in one program");
    bench_ours("prog.step.eager", in_programs / (CALLS * ADDS) * 1e6, "us", 0.5);
    bench_reference("prog.step.eager", alone / (CALLS * ADDS) * 1e6, "the same adds sent one by one");
    td_program_free(q.p);
    td_release(q.x);
    free(text);
}

/* ---- prog.write: rows of a buffer are set, and worked on in place ---- */

static void writes_in_programs(void *context)
{
    program *q = context;
    for (int k = 0; k < CALLS; k++) {
        td_value out, in[] = {td_value_array(q->x), td_value_array(q->v)};
        bench_check(td_program_call(q->p, 2, in, &out) == 0, "a call");
        td_value_free(&out);
    }
    wait_for(td_client_of(q->x));
}

static void writes_one_by_one(void *context)
{
    program *q = context;
    for (int k = 0; k < CALLS; k++)
        for (int i = 0; i < ROWS; i++) {
            td_array *row = td_select(q->x, 0, i);
            td_copy_(row, q->v);
            td_add_(row, 1);
            td_release(row);
        }
    wait_for(td_client_of(q->x));
}

static void write_rows(td_client *c)
{
    char *text = malloc(ROWS * 300 + 300), *at = text;
    bench_check(text != NULL, "memory");
    at += sprintf(at, "graph(%%x : Tensor, %%v : Tensor):\n  %%one : int = prim::Constant[value=1]()\n"
                      "  %%zero : int = prim::Constant[value=0]()\n  %%none : NoneType = prim::Constant()\n");
    for (int i = 0; i < ROWS; i++)
        at += sprintf(at,
                      "  %%i%d : int = prim::Constant[value=%d]()\n  %%r%d : Tensor = td::select(%%x, %%zero, %%i%d)\n"
                      "  %%s%d : Tensor = td::copy_(%%r%d, %%v, %%none)\n"
                      "  %%t%d : Tensor = td::add_(%%s%d, %%one, %%one)\n",
                      i, i, i, i, i, i, i, i);
    sprintf(at, "  return (%%zero)\n");
    program q = {compile(c, text), td_full(c, td_dims(ROWS, 8), 1.0, TD_FLOAT32),
                 td_full(c, td_dims(8), 2.0, TD_FLOAT32), 0};
    double in_programs = bench_median(writes_in_programs, &q), alone = bench_median(writes_one_by_one, &q);
    bench_ours("prog.write", in_programs / (CALLS * 2 * ROWS) * 1e6, "us", 0.5);
    bench_reference("prog.write", alone / (CALLS * 2 * ROWS) * 1e6, "64 rows set, and added to, one by one");
    td_program_free(q.p);
    td_release(q.x);
    td_release(q.v);
    free(text);
}

/* ---- prog.call: an empty program, and its value ---- */

static void empty_calls(void *context)
{
    program *q = context;
    for (int k = 0; k < 10 * CALLS; k++) {
        td_value out, in[] = {td_value_int(k)};
        bench_check(td_program_call(q->p, 1, in, &out) == 0 && out.i == k, "a call");
    }
}

static void small_ops(void *context)
{
    program *q = context;
    for (int k = 0; k < 10 * CALLS; k++) {
        td_array *y = td_add(q->x, 1);
        bench_check(td_item_f64(y) == 2, "a small op");
        td_release(y);
    }
}

static void call(td_client *c)
{
    program q = {compile(c, "graph(%n : int):\n  return (%n)\n"), td_full(c, td_dims(1), 1.0, TD_FLOAT32), NULL, 0};
    double ours = bench_median(empty_calls, &q), op = bench_median(small_ops, &q);
    bench_ours("prog.call", ours / (10 * CALLS) * 1e6, "us", 1.2);
    bench_reference("prog.call", op / (10 * CALLS) * 1e6, "a small op, and its value back");
    td_program_free(q.p);
    td_release(q.x);
}

/* ---- prog.scalar: a loop of integer additions ---- */

static void additions(void *context)
{
    program *q = context;
    td_value out, in[] = {td_value_int(q->trips)};
    bench_check(td_program_call(q->p, 1, in, &out) == 0 && out.i == 3 * (int64_t)q->trips, "a loop");
}

static void scalar(td_client *c)
{
    program q = {compile(c, "graph(%n : int):\n"
                            "  %zero : int = prim::Constant[value=0]()\n"
                            "  %three : int = prim::Constant[value=3]()\n"
                            "  %yes : bool = prim::Constant[value=1]()\n"
                            "  %s : int = prim::Loop(%n, %yes, %zero)\n"
                            "    block0(%i : int, %t : int):\n"
                            "      %u : int = prim::add.int(%t, %three)\n"
                            "      -> (%yes, %u)\n"
                            "  return (%s)\n"),
                 NULL, NULL, TRIPS};
    bench_ours("prog.scalar", bench_median(additions, &q) / TRIPS * 1e9, "ns", 0.3);
    bench_reference("prog.scalar", 71, "71 ns a trip: what torch.jit takes for 4 instructions");
    td_program_free(q.p);
}

/* ---- prog.fuse: chains over large arrays, in one program, op by op, and as the loop that the compiler makes ---- */

enum { LARGE = 16 << 20, IN_CACHE = 64 << 10 };

typedef struct chain {
    td_program *p;
    td_array *in[3];
    td_array *(*by_ops)(struct chain *);
    void (*loop)(int64_t n, float *restrict out, const float *restrict a, const float *restrict b, const float *c);
    float *at[4]; /* the loop's */
    int64_t n;
    int nin, times;
} chain;

#if defined(__x86_64__) && !defined(__clang__)
#define BENCH_LOOP __attribute__((optimize("O3"), target_clones("default", "avx2", "avx512f")))
#else
#define BENCH_LOOP
#endif

BENCH_LOOP static void loop_a(int64_t n, float *restrict out, const float *restrict a, const float *restrict b,
                              const float *c)
{
    for (int64_t i = 0; i < n; i++) {
        float x = a[i] * b[i] + c[i];
        out[i] = x > 0 ? x : 0;
    }
}

BENCH_LOOP static void loop_d(int64_t n, float *restrict out, const float *restrict a, const float *restrict b,
                              const float *c)
{
    (void)b, (void)c;
    for (int64_t i = 0; i < n; i++) {
        float x = a[i];
        for (int k = 0; k < 4; k++) x = x * 0.75F + 0.5F;
        out[i] = x;
    }
}

static td_array *then(td_array *old, td_array *made)
{
    td_release(old);
    return made;
}

static td_array *ops_a(chain *q)
{
    td_array *x = td_mul(q->in[0], q->in[1]);
    x = then(x, td_add(x, q->in[2]));
    return then(x, td_relu(x));
}

static td_array *ops_d(chain *q)
{
    td_array *x = td_retain(q->in[0]);
    for (int k = 0; k < 4; k++) {
        x = then(x, td_mul(x, 0.75));
        x = then(x, td_add(x, 0.5));
    }
    return x;
}

static void chain_as_program(void *context)
{
    chain *q = context;
    for (int k = 0; k < q->times; k++) {
        td_value out, in[3];
        for (int i = 0; i < q->nin; i++) in[i] = td_value_array(q->in[i]);
        bench_check(td_program_call(q->p, (uint32_t)q->nin, in, &out) == 0, "a call");
        td_value_free(&out);
    }
    wait_for(td_client_of(q->in[0]));
}

static void chain_by_ops(void *context)
{
    chain *q = context;
    for (int k = 0; k < q->times; k++) td_release(q->by_ops(q));
    wait_for(td_client_of(q->in[0]));
}

static void *half_of_loop(void *context)
{
    chain *q = context;
    int64_t n = q->n / 2;
    q->loop(n, q->at[0] + n, q->at[1] + n, q->at[2] + n, q->at[3] + n);
    return NULL;
}

/* In two threads where it is large: the daemon's workers are as many, mostly. */
static void chain_as_loop(void *context)
{
    chain *q = context;
    pthread_t other;
    for (int k = 0; k < q->times; k++) {
        bool two = q->n == LARGE && pthread_create(&other, NULL, half_of_loop, q) == 0;
        q->loop(two ? q->n / 2 : q->n, q->at[0], q->at[1], q->at[2], q->at[3]);
        if (two) pthread_join(other, NULL);
    }
}

static void measure_chain(td_client *c, const char *name, const char *text, chain q, double goal)
{
    char of_ops[64];
    snprintf(of_ops, sizeof of_ops, "%s.ops", name);
    q.p = compile(c, text);
    for (int i = 0; i < q.nin; i++) q.in[i] = td_full(c, td_dims(q.n), 0.5 + i, TD_FLOAT32);
    for (int i = 0; i < 4; i++) {
        q.at[i] = malloc((size_t)q.n * sizeof(float));
        bench_check(q.at[i] != NULL, "memory");
        for (int64_t k = 0; k < q.n; k++) q.at[i][k] = 0.5F;
    }
    chain_as_program(&q), chain_as_program(&q); /* the first runs are recorded */
    double ours = bench_median(chain_as_program, &q), ops = bench_median(chain_by_ops, &q),
           loop = bench_median(chain_as_loop, &q), us = 1e6 / q.times;
    bench_ours(name, ours * us, "us", goal);
    bench_reference(name, loop * us, "the loop that gcc -O3 makes of the chain");
    bench_ours(of_ops, ours * us, "us", q.n == LARGE ? 0.7 : 1);
    bench_reference(of_ops, ops * us, "the same op by op");
    for (int i = 0; i < 4; i++) free(q.at[i]);
    for (int i = 0; i < q.nin; i++) td_release(q.in[i]);
    td_program_free(q.p);
}

static void chains(td_client *c)
{
    static const char a[] = "graph(%a : Tensor, %b : Tensor, %c : Tensor):\n"
                            "  %one : int = prim::Constant[value=1]()\n"
                            "  %x : Tensor = td::mul(%a, %b)\n"
                            "  %y : Tensor = td::add(%x, %c, %one)\n"
                            "  %z : Tensor = td::relu(%y)\n"
                            "  return (%z)\n";
    char d[1024], *at = d;
    at += sprintf(at, "graph(%%x0 : Tensor):\n  %%one : int = prim::Constant[value=1]()\n"
                      "  %%f : float = prim::Constant[value=0.75]()\n  %%h : float = prim::Constant[value=0.5]()\n");
    for (int k = 0; k < 4; k++)
        at += sprintf(at, "  %%y%d : Tensor = td::mul(%%x%d, %%f)\n  %%x%d : Tensor = td::add(%%y%d, %%h, %%one)\n", k,
                      k, k + 1, k);
    sprintf(at, "  return (%%x4)\n");
    chain in_a = {.by_ops = ops_a, .loop = loop_a, .nin = 3}, in_d = {.by_ops = ops_d, .loop = loop_d, .nin = 1};
    in_a.n = in_d.n = IN_CACHE, in_a.times = in_d.times = 200;
    measure_chain(c, "prog.fuse.A64K", a, in_a, 1.15);
    measure_chain(c, "prog.fuse.D64K", d, in_d, 1.15);
    in_a.n = in_d.n = LARGE, in_a.times = in_d.times = 1;
    measure_chain(c, "prog.fuse.A16M", a, in_a, 1.1);
    measure_chain(c, "prog.fuse.D16M", d, in_d, 1.1);
}

int main(void)
{
    td_client *c = td_connect(NULL);
    bench_check(c != NULL, "connecting");
    step(c);
    write_rows(c);
    call(c);
    scalar(c);
    chains(c);
    td_disconnect(c);
    return 0;
}
