/* What one op costs over the wire: a round trip, ops in a stream, and a small backward. */
#include "tests/bench/bench.h"

#define TRIPS 5000
#define OPS 200000
#define BACKWARDS 5000

static void echo(int fd, void *context)
{
    (void)context;
    while (bench_take(fd) && bench_send(fd)) continue;
}

static void ping(void *context)
{
    int fd = *(int *)context;
    for (int i = 0; i < TRIPS; i++)
        if (!bench_send(fd) || !bench_take(fd)) abort();
}

static void round_trips(void *context)
{
    for (int i = 0; i < TRIPS; i++) {
        td_array *y = td_add((td_array *)context, 1.0);
        bench_check(td_item_f64(y) == 2, "round trip");
        td_release(y);
    }
}

static void stream(void *context)
{
    td_array *x = context;
    for (int i = 0; i < OPS; i++) td_release(td_add(x, x));
    bench_check(td_sync(td_client_of(x)) == 0, "stream of adds");
}

static void backwards(void *context)
{
    td_array *x = context;
    for (int i = 0; i < BACKWARDS; i++) {
        td_array *y = td_add(x, 1.0), *s = td_sum(y);
        td_backward(s);
        td_zero_grad(td_arrays(x));
        td_release(s);
        td_release(y);
    }
    bench_check(td_sync(td_client_of(x)) == 0, "backward");
}

int main(void)
{
    pid_t child;
    int fd = bench_child(echo, NULL, &child);
    double plain = bench_median(ping, &fd) / TRIPS;
    close(fd);
    waitpid(child, NULL, 0);

    td_client *c = td_connect(NULL);
    bench_check(c != NULL, "connecting");
    td_array *one = td_full(c, td_dims(1), 1.0, TD_FLOAT32), *eight = td_full(c, td_dims(8), 1.0, TD_FLOAT32);

    bench_ours("roundtrip.sync", bench_median(round_trips, one) / TRIPS * 1e6, "us", 1.5);
    bench_reference("roundtrip.sync", plain * 1e6, "64 B ping-pong over a socket");

    double add = bench_median(stream, eight) / OPS * 1e9;
    bench_ours("ops.pipelined", add, "ns", 0.25);
    bench_ours("ops.pipelined.rate", add, "ns", 1);
    bench_reference("ops.pipelined.rate", 400, "2.5 million a second");

    bench_check(td_set_requires_grad(eight, true) == 0, "requires_grad");
    bench_ours("ops.backward", bench_median(backwards, eight) / BACKWARDS * 1e6, "us", 0.2);
    td_release(one);
    td_release(eight);
    td_disconnect(c);
    return 0;
}
