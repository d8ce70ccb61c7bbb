/* Handing a tensor from process to process: by itself (the size must not matter), and with every byte written and read.
 *
 * Producer and consumer keep to a processor each, as they would at work, in the reference too: left alone they are
 * woken now on one processor, now on two, which costs four times as much. The daemon goes where it likes. */
#include "tests/bench/bench.h"

#include <sched.h>
#include <sys/mman.h>

#define MANY 200
#define BEGINNING 20 /* not counted: first touch of the memory, the connection's way from socket to ring */

struct work {
    size_t bytes;
    int times;
    bool whole;           /* write and read every byte */
    unsigned char *plain; /* the reference: one shared mapping */
};

/* Reads all of it, as fast as memory gives it. */
static uint64_t read_all(const unsigned char *at, size_t bytes)
{
    uint64_t sum = 0, word;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(&word, at + i, 8);
        sum += word;
    }
    return sum;
}

static cpu_set_t processors;

/* Keep to the first or the second of the processors that there are. */
static void keep_to(int which)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    if (CPU_COUNT(&processors) < 2) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &processors) && which-- == 0) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void plain_consumer(int fd, void *context)
{
    struct work *w = context;
    keep_to(1);
    volatile uint64_t sum = 0;
    while (bench_take(fd)) {
        sum += w->whole ? read_all(w->plain, w->bytes) : w->plain[0];
        if (!bench_send(fd)) break;
    }
    (void)sum; /* read for its own sake */
}

/* Seconds for one hand-over through one plain mapping, with a token through a socket. */
static double plain(struct work *w)
{
    w->plain = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (w->plain == MAP_FAILED) abort();
    pid_t child;
    int fd = bench_child(plain_consumer, w, &child);
    double took[MANY];
    for (int i = -BEGINNING; i < w->times; i++) {
        double began = bench_now();
        if (w->whole) memset(w->plain, i, w->bytes);
        else w->plain[0] = (unsigned char)i;
        if (!bench_send(fd) || !bench_take(fd)) abort();
        if (i >= 0) took[i] = bench_now() - began;
    }
    close(fd);
    waitpid(child, NULL, 0);
    munmap(w->plain, w->bytes);
    return bench_quantile(took, w->times, 0.5);
}

static void consumer(int fd, void *context)
{
    struct work *w = context;
    keep_to(1);
    volatile uint64_t sum = 0;
    td_client *c = td_connect(NULL);
    td_queue *in = td_queue_open(c, "bench", 2, TD_CONSUMER);
    bench_check(in && bench_send(fd), "consumer");
    td_queue_item item;
    while (td_queue_get(in, &item, -1) == 0) {
        const unsigned char *at = td_data(item.at[0]);
        bench_check(at != NULL, "mapping");
        sum += w->whole ? read_all(at, w->bytes) : at[0];
        td_queue_item_clear(&item);
        if (!bench_send(fd)) break;
    }
    (void)sum;
    td_queue_close(in, false);
    td_disconnect(c);
}

/* Lease, fill (or touch), hand over, be read and given back, and be told so by the token that the reference uses too.
 */
static void hand_over(td_client *c, struct work *w, int value, td_queue *out, int fd)
{
    td_lease *lease = td_lease_new(c, w->bytes);
    unsigned char *at = td_lease_data(lease);
    bench_check(at != NULL, "lease");
    if (w->whole) memset(at, value, w->bytes);
    else at[0] = (unsigned char)value;
    td_array *a = td_put(lease, 0, TD_UINT8, td_dims((int64_t)w->bytes));
    bench_check(td_queue_put(out, td_arrays(a), NULL, 0, -1) == 0, "put");
    td_release(a);
    td_lease_free(lease);
    if (!bench_take(fd)) abort();
}

/* Seconds for one hand-over through tensord. */
static double ours(td_client *c, struct work *w)
{
    pid_t child;
    int fd = bench_child(consumer, w, &child);
    td_queue *out = td_queue_open(c, "bench", 2, TD_PRODUCER);
    bench_check(out && bench_take(fd), "producer");
    double took[MANY];
    for (int i = -BEGINNING; i < w->times; i++) {
        double began = bench_now();
        hand_over(c, w, i, out, fd);
        if (i >= 0) took[i] = bench_now() - began;
    }
    td_queue_close(out, true);
    close(fd);
    waitpid(child, NULL, 0);
    return bench_quantile(took, w->times, 0.5);
}

int main(void)
{
    static const struct {
        const char *name;
        size_t bytes;
        int times;
    } pass[] = {{"handoff.pass.64B", 64, MANY},
                {"handoff.pass.1MB", 1000000, MANY},
                {"handoff.pass.38MB", 38500000, MANY},
                {"handoff.pass.268MB", 268000000, MANY}};
    td_client *c = td_connect(NULL);
    bench_check(c != NULL, "connecting");
    setenv("TENSORD_SOCKET", td_socket_path(c), 1);
    sched_getaffinity(0, sizeof processors, &processors);
    keep_to(0);
    double smallest = 0, largest = 0;
    for (int i = 0; i < 4; i++) {
        struct work w = {.bytes = pass[i].bytes, .times = pass[i].times};
        largest = ours(c, &w);
        if (i == 0) smallest = largest;
        bench_ours(pass[i].name, largest * 1e6, "us", 1.5);
        w.bytes = 64;
        bench_reference(pass[i].name, plain(&w) * 1e6, "a token through a socket and back");
    }
    bench_ours("handoff.pass.flat", largest * 1e6, "us", 1.3);
    bench_reference("handoff.pass.flat", smallest * 1e6, "64 B handed over");

    struct work w = {.bytes = 38500000, .times = 30, .whole = true};
    bench_ours("handoff.all", ours(c, &w) * 1e3, "ms", 1.05);
    bench_reference("handoff.all", plain(&w) * 1e3, "38.5 MB through one plain mapping");
    td_disconnect(c);
    return 0;
}
