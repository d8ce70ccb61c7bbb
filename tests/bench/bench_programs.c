/* What a program costs: an op of it, a call of it, a number that it adds; against the same ops sent one by one. */
#include "tests/bench/bench.h"

enum { ADDS = 300, CALLS = 200, TRIPS = 1000000 };

typedef struct program {
    td_program *p;
    td_array *x;
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
    program q = {compile(c, text), td_full(c, td_dims(8), 1.0, TD_FLOAT32), 0};
    double in_programs = bench_median(adds_in_programs, &q), alone = bench_median(adds_one_by_one, &q);
    bench_ours("prog.step", in_programs / (CALLS * ADDS) * 1e6, "us", 1);
    bench_reference("prog.step", 0.1, "0.1 us an op: 300 adds of 8 floats in one program");
    bench_ours("prog.step.eager", in_programs / (CALLS * ADDS) * 1e6, "us", 0.5);
    bench_reference("prog.step.eager", alone / (CALLS * ADDS) * 1e6, "the same adds sent one by one");
    td_program_free(q.p);
    td_release(q.x);
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
    program q = {compile(c, "graph(%n : int):\n  return (%n)\n"), td_full(c, td_dims(1), 1.0, TD_FLOAT32), 0};
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
                 NULL, TRIPS};
    bench_ours("prog.scalar", bench_median(additions, &q) / TRIPS * 1e9, "ns", 0.3);
    bench_reference("prog.scalar", 71, "71 ns a trip: what torch.jit takes for 4 instructions");
    td_program_free(q.p);
}

int main(void)
{
    td_client *c = td_connect(NULL);
    bench_check(c != NULL, "connecting");
    step(c);
    call(c);
    scalar(c);
    td_disconnect(c);
    return 0;
}
