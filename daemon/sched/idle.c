/* Sleeping and waking: a worker with nothing to do looks on for a while, then sleeps on a futex word of its own.
 *
 * Invariant: work that was made visible is never left to sleepers. Who makes work visible looks at the sleepers
 * afterwards; who goes to sleep marks itself asleep first and looks for work afterwards; all four are sequentially
 * consistent, so one of the two sees the other. A wake-up costs its poster 3 us and arrives after 5-30 us: nobody is
 * woken while another worker is searching, or while those awake will soon be done with all there is.
 *
 * A worker that wakes another is busy itself, and the kernel likes to put the other behind it on the same processor
 * when all are taken for the moment (by the loop, for 10 us more): then two workers share one processor for
 * milliseconds. So it is kept off the waker's processor until it runs. */
#include "daemon/sched/internal.h"
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 150000
#define AWAY_NS 15000    /* who looks for work looks more often, if it has its processor */
#define ARRIVES_NS 60000 /* who was woken has come by then */
#define WORTH_WAKING_NS 20000
#define MOST_WORTH_NS 60000

void td_futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
void td_futex_wait_for(_Atomic uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &t, NULL, 0); /* on the monotonic clock */
}
void td_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void pause_a_bit(void)
{
    for (int i = 0; i < 8; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

static int sleepers(td_pool *p)
{
    int n = 0;
    for (int i = 0; i < (p->nworkers + 63) / 64; i++) n += __builtin_popcountll(atomic_load(&p->asleep[i]));
    return n;
}

/* Where waking costs more, more work is needed for it to be worth it. */
static bool is_worth_waking(td_pool *p)
{
    int64_t worth = 2 * atomic_load_explicit(&p->wake_ns, memory_order_relaxed);
    worth = worth < WORTH_WAKING_NS ? WORTH_WAKING_NS : worth > MOST_WORTH_NS ? MOST_WORTH_NS : worth;
    return atomic_load_explicit(&p->load_ns, memory_order_relaxed) > worth;
}

static void learn_wake(td_pool *p, int64_t took)
{
    int64_t was = atomic_load_explicit(&p->wake_ns, memory_order_relaxed);
    if (took > MOST_WORTH_NS) took = MOST_WORTH_NS; /* it lost its processor besides */
    atomic_store_explicit(&p->wake_ns, was + (took - was) / 8, memory_order_relaxed);
}

/* Keep a sleeper off the processor that this thread is on, unless it may be nowhere else. */
static void keep_off(td_worker *w)
{
    cpu_set_t mask;
    int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(w->tid, sizeof w->mask, &w->mask)) return;
    mask = w->mask;
    CPU_CLR(cpu, &mask);
    w->kept_off = CPU_ISSET(cpu, &w->mask) && CPU_COUNT(&mask) && !sched_setaffinity(w->tid, sizeof mask, &mask);
}

/* The lowest number first: the same few threads stay warm. */
static bool wake_one(td_pool *p, bool worker)
{
    for (int i = 0; i < (p->nworkers + 63) / 64; i++) {
        uint64_t bits;
        while ((bits = atomic_load(&p->asleep[i]))) {
            uint64_t bit = bits & -bits;
            if (!(atomic_fetch_and(&p->asleep[i], ~bit) & bit)) continue;
            atomic_fetch_add(&p->searching, 1); /* on its behalf */
            td_worker *w = &p->workers[i * 64 + __builtin_ctzll(bit)];
            int64_t began = td_now_ns();
            atomic_store_explicit(&p->looked, began + ARRIVES_NS, memory_order_relaxed);
            if (worker) keep_off(w);
            atomic_store(&w->awake, 1);
            td_futex_wake(&w->awake);
            learn_wake(p, td_now_ns() - began);
            return true;
        }
    }
    return false;
}

/* Somebody looks for work, and has a processor to do so. */
static bool is_looked_for(td_pool *p)
{
    return atomic_load(&p->searching) > 0 &&
           td_now_ns() - atomic_load_explicit(&p->looked, memory_order_relaxed) < AWAY_NS;
}

void td_pool_wake_if_needed(td_pool *p, bool worker)
{
    if (is_looked_for(p)) return;
    int asleep = sleepers(p);
    if (!asleep) return;
    bool others = worker || asleep < p->nworkers;
    if (!others || is_worth_waking(p)) wake_one(p, worker);
}

bool td_pool_has_idle(td_pool *p)
{
    return atomic_load(&p->searching) > 0 || sleepers(p) > 0;
}

bool td_pool_is_here(const td_pool *p)
{
    int cpu = sched_getcpu();
    for (int i = 0; i < p->nworkers; i++)
        if (atomic_load_explicit(&p->workers[i].cpu, memory_order_relaxed) == cpu) return true;
    return false;
}

void td_pool_wake_all(td_pool *p)
{
    while (wake_one(p, false)) {
    }
}

static void search(td_worker *w, bool on)
{
    if (w->searching == on) return;
    w->searching = on;
    atomic_fetch_add(&w->s->pool.searching, on ? 1 : -1);
}

/* It stops searching because it has something to do: whatever else there is, is somebody else's. */
void td_worker_found(td_worker *w)
{
    search(w, false);
    if (td_pool_visible(&w->s->pool)) td_pool_wake_if_needed(&w->s->pool, true);
}

static bool wanted(td_pool *p)
{
    return td_pool_visible(p) || atomic_load(&p->stop);
}

static void sleep_until_woken(td_worker *w)
{
    while (!atomic_load(&w->awake)) td_futex_wait(&w->awake, 0);
    if (w->kept_off) sched_setaffinity(0, sizeof w->mask, &w->mask);
    w->kept_off = false;
}

/* Take the mark of a sleeper away. If a waker took it first, that one has counted us as searching, and is about to say
 * that we are awake. */
static void get_up(td_worker *w, _Atomic uint64_t *asleep, uint64_t bit)
{
    w->searching = !(atomic_fetch_and(asleep, ~bit) & bit);
    if (w->searching) sleep_until_woken(w);
}

/* Look on for a while, giving way to others. Where that takes long they need this processor: then it sleeps at once,
 * and who wakes it keeps it off theirs. */
static bool look_on(td_pool *p)
{
    int64_t now = td_now_ns(), before = now;
    for (int64_t end = now + SPIN_NS; now < end && now - before < AWAY_NS; now = td_now_ns()) {
        if (wanted(p)) return true;
        before = now;
        atomic_store_explicit(&p->looked, now, memory_order_relaxed);
        pause_a_bit();
        sched_yield();
    }
    return false;
}

/* A thread's scratch is its own, so it is asked: all of it goes back, once, before it sleeps again. */
static void trim(td_worker *w)
{
    uint32_t settled = atomic_load(&w->s->pool.settled);
    if (w->settled == settled) td_buffer_trim(&w->scratch, TD_KEEP_SCRATCH);
    else td_buffer_shed(&w->scratch);
    w->settled = settled;
    atomic_store_explicit(&w->kept, w->scratch.size, memory_order_relaxed);
}

void td_worker_idle(td_worker *w)
{
    td_pool *p = &w->s->pool;
    atomic_store_explicit(&w->cpu, -1, memory_order_relaxed);
    search(w, true);
    if (look_on(p)) return;
    trim(w);
    search(w, false);
    _Atomic uint64_t *asleep = &p->asleep[w->index / 64];
    uint64_t bit = (uint64_t)1 << (w->index % 64);
    atomic_store(&w->awake, 0);
    atomic_fetch_or(asleep, bit);
    if (!wanted(p) && w->settled == atomic_load(&p->settled)) sleep_until_woken(w);
    get_up(w, asleep, bit);
}
