/* What scheduling costs, with kernels that do nothing or count: submit of a small call, hand-off to the pool and back,
 * a task in a chain, a chunk, and how one big call scales over workers. Medians of several rounds; run it on quiet
 * cores. */
#include "tests/unit/sched_fake.h"
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>

#define ROUNDS 9

static td_storage st[4];
static unsigned char bytes[4][4096];
static int event;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int compare(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}
static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
    return v[n / 2];
}

static void k_nothing(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
}
static void k_work(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk, (void)scratch;
    double x = 1;
    for (uint64_t i = 0; i < k->seed; i++) __asm__ volatile("" : "+x"(x));
}
static void wake(void *arg)
{
    (void)arg;
    if (write(event, &(uint64_t){1}, 8) != 8) abort();
}
static void wait_event(void)
{
    struct pollfd p = {.fd = event, .events = POLLIN};
    poll(&p, 1, -1);
    uint64_t v;
    if (read(event, &v, 8) != 8) abort();
}

static void fake_move(td_call *c, td_storage *to, int64_t lo, int64_t hi)
{
    free(c->out[0]);
    c->out[0] = fake_tensor(to, lo, hi, 1);
}

/* a, b -> c, as most small calls are */
static td_call *small_call(td_issuer *who, double cost, int from, int to)
{
    td_call *c = fake_call(who, cost);
    fake_reads(c, &st[from], 0, 4096);
    fake_reads(c, &st[1], 0, 4096);
    fake_writes(c, &st[to], 0, 4096);
    fake_phase(c, k_nothing, 1);
    return c;
}

/* Time of a submit, with what it takes to end. The calls are made once and used again, as those of the daemon are
 * recycled: so this is the scheduler's cost alone, on warm memory. */
static double submits(td_sched *s, td_issuer *who, double cost, bool chain)
{
    enum { BATCH = 200, BATCHES = 50 };
    static td_call *calls[BATCH];
    double v[ROUNDS];
    for (int i = 0; i < BATCH; i++) {
        calls[i] = small_call(who, cost, 0, chain ? 0 : 2);
        calls[i]->flags |= FAKE_KEPT;
        if (!chain) fake_move(calls[i], &st[2], i * 8, i * 8 + 8);
    }
    for (int r = 0; r < ROUNDS; r++) {
        double t0 = now_ns();
        for (int b = 0; b < BATCHES; b++) {
            for (int i = 0; i < BATCH; i++) td_sched_submit(s, calls[i]);
            td_sched_drain(s);
        }
        v[r] = (now_ns() - t0) / (BATCH * BATCHES);
    }
    for (int i = 0; i < BATCH; i++) {
        calls[i]->flags &= ~(uint32_t)FAKE_KEPT;
        td_call_free(calls[i]);
    }
    return median(v, ROUNDS);
}

/* One call to the pool and its end back on a loop that sleeps in poll; `idle_us` of sleep before each. */
static double round_trip(td_sched *s, td_issuer *who, int idle_us)
{
    enum { M = 101 };
    double v[M];
    for (int i = 0; i < M; i++) {
        if (idle_us) usleep((unsigned)idle_us);
        td_call *c = small_call(who, 5000, 0, 2);
        double t0 = now_ns();
        td_sched_submit(s, c);
        while (td_flow_pending(who->flow)) {
            wait_event();
            td_sched_collect(s, 100);
        }
        v[i] = (now_ns() - t0) / 1000;
    }
    return median(v, M);
}

static double chunks(td_sched *s, td_issuer *who, int64_t n, uint64_t work, double chunk_ns)
{
    double v[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        td_call *c = fake_call(who, chunk_ns * (double)n);
        fake_phase(c, k_work, n);
        c->k.seed = work;
        double t0 = now_ns();
        td_sched_submit(s, c);
        td_sched_drain(s);
        v[r] = now_ns() - t0;
    }
    return median(v, ROUNDS);
}

int main(void)
{
    event = eventfd(0, EFD_CLOEXEC);
    for (int i = 0; i < 4; i++) fake_storage(&st[i], bytes[i], sizeof bytes[i]);
    double base = 0;
    for (int workers = 1; workers <= 2; workers++) {
        td_sched *s = fake_sched(workers, wake, NULL);
        td_issuer who = {0};
        if (td_flow_new((td_flow **)&who.flow, s, NULL)) return 1;
        printf("%d worker%s\n", workers, workers > 1 ? "s" : "");
        printf("  small call run here               %7.1f ns\n", submits(s, &who, 10, false));
        printf("  independent tasks in the pool     %7.1f ns each\n", submits(s, &who, 2000, false));
        printf("  a chain of tasks in the pool      %7.1f ns each\n", submits(s, &who, 2000, true));
        printf("  round trip, worker spinning       %7.1f us\n", round_trip(s, &who, 0));
        printf("  round trip, worker asleep 2 ms    %7.1f us\n", round_trip(s, &who, 2000));
        enum { CHUNKS = 2000 };
        double empty = chunks(s, &who, CHUNKS, 0, 20000), t = chunks(s, &who, CHUNKS, 60000, 20000);
        printf("  a chunk that does nothing         %7.1f ns\n", empty / CHUNKS);
        printf("  %d chunks of %.1f us        %7.2f ms", CHUNKS, t / CHUNKS / 1e3 * workers, t / 1e6);
        if (workers == 1) base = t;
        printf(workers > 1 ? " (%.2f times one worker)\n" : "\n", base / t);
        td_flow_free(who.flow);
        td_sched_free(s);
    }
    return 0;
}
