/* The scheduler's promises, one by one: what runs here and what in the pool, what waits for what, where a failure
 * arrives, who is told when, who is served first. Order under random load is in test_stress.c. Shares are of
 * time: the clock goes on by hand, by so much for each chunk, so they are the same on a machine that does much besides.
 */
#include "daemon/sched/internal.h"
#include "proto/base/breath.h"
#include "tests/support/hand_clock.h"
#include "tests/unit/cunit_main.h"
#include "tests/unit/sched_fake.h"
#include <limits.h>

enum { LOOK_NS = 1000, LONG_MS = 60000 }; /* what a look at the clock takes by it; never so long, when all is well */

static td_sched *s;
static td_issuer who;
static td_storage a, b, c;
static uint64_t cells_a[64], cells_b[64], cells_c[64];
static _Atomic int gate; /* kernels that wait until it is open */
static _Atomic int at_gate;
static _Atomic int wakes;
static int done_count;
static char done_order[128];

static void on_wake(void *arg)
{
    (void)arg;
    atomic_fetch_add(&wakes, 1);
}

static void start(int workers)
{
    hand_clock_stop(LOOK_NS);
    s = fake_sched(workers, on_wake, NULL);
    td_flow *f;
    CU_ASSERT_EQUAL(td_flow_new(&f, s, NULL), 0);
    who = (td_issuer){.flow = f};
    fake_storage(&a, cells_a, sizeof cells_a);
    fake_storage(&b, cells_b, sizeof cells_b);
    fake_storage(&c, cells_c, sizeof cells_c);
    memset(cells_a, 0, sizeof cells_a);
    memset(cells_b, 0, sizeof cells_b);
    memset(cells_c, 0, sizeof cells_c);
    atomic_store(&gate, 0);
    atomic_store(&at_gate, 0);
    atomic_store(&wakes, 0);
    done_count = 0;
    memset(done_order, 0, sizeof done_order);
}

static void settle(void)
{
    atomic_store(&gate, 1);
    td_sched_drain(s);
}

static void finish(void)
{
    settle();
    td_flow_free(who.flow);
    td_sched_stats st;
    td_sched_get_stats(s, &st);
    CU_ASSERT_EQUAL(st.pending, 0);
    td_sched_free(s);
    CU_ASSERT_EQUAL(fake_live, 0);
    CU_ASSERT_PTR_NULL(a.hazards);
    CU_ASSERT_PTR_NULL(b.hazards);
    CU_ASSERT_PTR_NULL(c.hazards);
    CU_ASSERT_EQUAL(a.refs + b.refs + c.refs, 3);
    td_storage_heal(&a);
    td_storage_heal(&b);
    td_storage_heal(&c);
    CU_ASSERT_EQUAL(td_live_counts().causes, 0);
}

/* ---- kernels */

static void k_nothing(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
}
static void k_gate(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    atomic_fetch_add(&at_gate, 1);
    while (!atomic_load(&gate)) usleep(50);
}
static void k_fail(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)scratch;
    td_kernel_fail(k, TD_E_INDEX, "chunk %d fails", (int)chunk);
}
static void k_gate_fail(td_kcall *k, int64_t chunk, void *scratch)
{
    k_gate(k, chunk, scratch);
    k_fail(k, chunk, scratch);
}
static _Atomic int ran;
static void k_count(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    atomic_fetch_add(&ran, 1);
}

static struct {
    int failed, code;
    char message[64], where[16];
} seen[64]; /* by name */

static void on_done(td_call *call)
{
    int name = (int)(intptr_t)call->owner;
    done_order[done_count++] = (char)name;
    seen[name % 64].failed = atomic_load(&call->k.failed);
    seen[name % 64].code = call->cause ? call->cause->error.code : 0;
    snprintf(seen[name % 64].message, 64, "%.63s", call->cause ? call->cause->error.message : "");
    snprintf(seen[name % 64].where, 16, "%.15s", call->cause ? call->cause->error.where : "");
}

/* A call that reads all of `from` and writes all of `to` (NULL: nothing), named by a letter. */
static td_call *make(char name, td_storage *from, td_storage *to, td_chunk_fn fn, double cost)
{
    td_call *call = fake_call(&who, cost);
    if (from) fake_reads(call, from, 0, (int64_t)from->nbytes);
    if (to) fake_writes(call, to, 0, (int64_t)to->nbytes);
    fake_phase(call, fn, 1);
    call->finished = on_done;
    call->owner = (void *)(intptr_t)name;
    return call;
}

static void submit(char name, td_storage *from, td_storage *to, td_chunk_fn fn)
{
    td_sched_submit(s, make(name, from, to, fn, FAKE_BIG));
}

/* ---- here or there */

static pthread_t ran_on;
static void k_on(td_kcall *k, int64_t chunk, void *scratch)
{
    ran_on = pthread_self();
    k_count(k, chunk, scratch);
}

static bool comes(_Atomic int *what, int value, int ms)
{
    for (; ms > 0 && atomic_load(what) != value; ms--) usleep(1000);
    return atomic_load(what) == value;
}

/* It says so, and has gone to sleep in the kernel since. */
static bool is_asleep(const td_worker *w)
{
    char path[64], state = 0;
    if (!(atomic_load(&s->pool.asleep[w->index / 64]) >> w->index % 64 & 1)) return false;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)w->tid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    if (f) fclose(f);
    return state == 'S';
}

static bool all_are_asleep(void)
{
    for (int i = 0, ms = 0; i < s->pool.nworkers; i++)
        for (; !is_asleep(&s->pool.workers[i]); usleep(1000))
            if (++ms > LONG_MS) return false;
    return true;
}

/* With a loop that helps, nobody is woken for little: the loop does it, or sees to it that somebody does. */
static void the_loop_helps(void)
{
    fake_helped = true;
    start(2);
    CU_ASSERT_TRUE_FATAL(all_are_asleep());
    atomic_store(&ran, 0);
    td_sched_submit(s, make('x', &a, &b, k_on, 10000));
    CU_ASSERT_FALSE(comes(&ran, 1, 20));
    CU_ASSERT_TRUE(td_sched_help(s));
    CU_ASSERT_EQUAL(atomic_load(&ran), 1);
    CU_ASSERT_TRUE(pthread_equal(ran_on, pthread_self()));
    td_sched_collect(s, 10);
    CU_ASSERT_EQUAL(done_count, 1);
    CU_ASSERT_FALSE(td_sched_help(s)); /* there is nothing */
    td_sched_submit(s, make('y', &a, &b, k_on, 10000));
    td_sched_urge(s);
    CU_ASSERT_TRUE(comes(&ran, 2, LONG_MS));
    CU_ASSERT_FALSE(pthread_equal(ran_on, pthread_self()));
    td_sched_stats st;
    td_sched_get_stats(s, &st);
    CU_ASSERT_EQUAL(st.run_pool, 2);
    finish();
    fake_helped = false;
}

/* What takes long is left to workers, who are woken for it; nobody helps where all are at work. */
static void the_loop_helps_with_short_chunks(void)
{
    fake_helped = true;
    start(1);
    atomic_store(&ran, 0);
    td_sched_submit(s, make('x', &a, &b, k_on, 1e6));
    td_sched_help(s);
    CU_ASSERT_TRUE(comes(&ran, 1, LONG_MS));
    CU_ASSERT_FALSE(pthread_equal(ran_on, pthread_self()));
    td_sched_drain(s);
    submit('y', NULL, NULL, k_gate);
    td_sched_urge(s);
    CU_ASSERT_TRUE(comes(&at_gate, 1, LONG_MS));
    td_sched_submit(s, make('z', NULL, NULL, k_on, 10000));
    CU_ASSERT_FALSE(td_sched_help(s));
    finish();
    CU_ASSERT_EQUAL(atomic_load(&ran), 2);
    fake_helped = false;
}

static void small_runs_here(void)
{
    start(2);
    atomic_store(&ran, 0);
    td_sched_submit(s, make('x', &a, &b, k_count, 10));
    CU_ASSERT_EQUAL(atomic_load(&ran), 1);
    CU_ASSERT_STRING_EQUAL(done_order, "x");
    td_call *huge = make('y', &a, &b, k_count, 1e9);
    huge->flags |= TD_CF_INLINE_ONLY;
    td_sched_submit(s, huge);
    CU_ASSERT_STRING_EQUAL(done_order, "xy");
    td_sched_stats st;
    td_sched_get_stats(s, &st);
    CU_ASSERT_EQUAL(st.run_inline, 2);
    CU_ASSERT_EQUAL(st.run_pool, 0);
    CU_ASSERT_EQUAL(atomic_load(&wakes), 0);
    finish();
}

static void k_where(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    ran_on = pthread_self();
}

static void big_runs_in_the_pool(void)
{
    start(1);
    submit('x', &a, &b, k_where);
    CU_ASSERT_EQUAL(td_flow_pending(who.flow), 1);
    CU_ASSERT(td_sched_pending(&b, 0, 8, false));
    CU_ASSERT(td_sched_pending(&a, 0, 8, true));
    CU_ASSERT(!td_sched_pending(&a, 0, 8, false));
    CU_ASSERT_EQUAL(done_count, 0);
    td_sched_drain(s);
    CU_ASSERT(!pthread_equal(ran_on, pthread_self()));
    CU_ASSERT_STRING_EQUAL(done_order, "x");
    CU_ASSERT_EQUAL(atomic_load(&wakes), 1);
    CU_ASSERT_EQUAL(td_flow_pending(who.flow), 0);
    finish();
}

static void without_workers_all_runs_here(void)
{
    start(0);
    submit('x', &a, &b, k_where);
    CU_ASSERT(pthread_equal(ran_on, pthread_self()));
    CU_ASSERT_STRING_EQUAL(done_order, "x");
    finish();
}

static void small_waits_for_what_it_needs(void)
{
    start(1);
    submit('w', NULL, &a, k_gate);
    td_sched_submit(s, make('r', &a, &b, k_nothing, 10)); /* needs a */
    td_sched_submit(s, make('o', &c, NULL, k_nothing, 10));
    CU_ASSERT_STRING_EQUAL(done_order, "o");
    settle();
    CU_ASSERT_STRING_EQUAL(done_order, "owr");
    finish();
}

static void intervals_are_apart(void)
{
    start(1);
    td_call *w = fake_call(&who, FAKE_BIG);
    fake_writes(w, &a, 100, 200);
    fake_phase(w, k_gate, 1);
    td_sched_submit(s, w);
    CU_ASSERT(!td_sched_pending(&a, 0, 100, true));
    CU_ASSERT(td_sched_pending(&a, 99, 101, false));
    CU_ASSERT(td_sched_pending(&a, 199, 300, true));
    CU_ASSERT(!td_sched_pending(&a, 200, 300, true));
    td_call *r = make('r', NULL, &b, k_nothing, 10);
    fake_reads(r, &a, 0, 100);
    td_sched_submit(s, r);
    CU_ASSERT_STRING_EQUAL(done_order, "r"); /* not behind the writer */
    finish();
}

/* ---- phases, chunks, memory */

#define CHUNKS 5000
static _Atomic uint8_t times[2][CHUNKS];
static _Atomic int bad_memory;

static void check_memory(td_kcall *k, void *scratch)
{
    if ((uintptr_t)scratch % 64 || (uintptr_t)k->work % 64 || !scratch || !k->work) atomic_fetch_add(&bad_memory, 1);
    memset(scratch, 0x5a, k->scratch_bytes);
}
static void k_first(td_kcall *k, int64_t chunk, void *scratch)
{
    check_memory(k, scratch);
    ((uint32_t *)k->work)[chunk] = (uint32_t)chunk + 1;
    atomic_fetch_add(&times[0][chunk], 1);
}
static void k_second(td_kcall *k, int64_t chunk, void *scratch)
{
    check_memory(k, scratch);
    int64_t other = CHUNKS - 1 - chunk; /* somebody else's, of the phase before */
    if (((uint32_t *)k->work)[other] != (uint32_t)other + 1) atomic_fetch_add(&bad_memory, 1);
    atomic_fetch_add(&times[1][chunk], 1);
}

static void phases_follow_each_other(void)
{
    for (int workers = 0; workers <= 3; workers++) {
        start(workers);
        for (int round = 0; round < 10; round++) {
            memset(times, 0, sizeof times);
            atomic_store(&bad_memory, 0);
            td_call *call = fake_call(&who, round % 2 ? 1e6 : 1e9);
            fake_phase(call, k_first, CHUNKS);
            fake_phase(call, k_nothing, 0);
            fake_phase(call, k_second, CHUNKS);
            call->k.scratch_bytes = 1000 + (size_t)round * 5000;
            call->k.work_bytes = CHUNKS * 4;
            td_sched_submit(s, call);
            td_sched_drain(s);
            int wrong = 0;
            for (int i = 0; i < CHUNKS; i++) wrong += times[0][i] != 1 || times[1][i] != 1;
            CU_ASSERT_EQUAL(wrong, 0);
            CU_ASSERT_EQUAL(atomic_load(&bad_memory), 0);
        }
        finish();
    }
}

enum { WARM = 3 << 20 };

/* One at each of two workers, with scratch and work memory. */
static void run_two_that_need_memory(void)
{
    atomic_store(&gate, 0);
    atomic_store(&at_gate, 0);
    for (int i = 0; i < 2; i++) {
        td_call *call = make('m', NULL, NULL, k_gate, FAKE_BIG);
        call->k.scratch_bytes = call->k.work_bytes = WARM;
        td_sched_submit(s, call);
    }
    CU_ASSERT_TRUE_FATAL(comes(&at_gate, 2, LONG_MS));
    settle();
    CU_ASSERT_TRUE_FATAL(all_are_asleep());
}

static bool keeps(size_t bytes)
{
    for (int ms = 0; ms < LONG_MS && td_sched_kept(s) != bytes; ms++) usleep(1000);
    return td_sched_kept(s) == bytes;
}

/* Workers that sleep are asked for theirs, and sleep again. */
static void what_is_kept_warm_goes_back(void)
{
    start(2);
    CU_ASSERT_FALSE(td_sched_settle(s));
    for (int round = 0; round < 3; round++) {
        run_two_that_need_memory();
        CU_ASSERT_EQUAL(td_sched_kept(s), 4 * WARM);
        CU_ASSERT_TRUE(td_sched_settle(s));
        CU_ASSERT_TRUE(keeps(0));
        CU_ASSERT_TRUE(all_are_asleep());
        CU_ASSERT_FALSE(td_sched_settle(s));
    }
    CU_ASSERT_STRING_EQUAL(done_order, "mmmmmm");
    td_sched_submit(s, make('x', &a, &b, k_nothing, 10)); /* here, with memory of the loop's */
    td_call *call = make('y', NULL, NULL, k_nothing, 10);
    call->k.scratch_bytes = call->k.work_bytes = WARM;
    td_sched_submit(s, call);
    CU_ASSERT_EQUAL(td_sched_kept(s), 2 * WARM);
    CU_ASSERT_FALSE(td_sched_settle(s));
    CU_ASSERT_EQUAL(td_sched_kept(s), 0);
    finish();
}

static void nothing_to_run(void)
{
    start(1);
    submit('w', NULL, &a, k_gate);
    td_call *call = make('e', &a, &b, k_nothing, 10);
    call->k.nphases = 0;
    td_sched_submit(s, call);
    td_call *view = make('v', &a, NULL, k_nothing, 10);
    view->flags |= TD_CF_VIEW;
    td_sched_submit(s, view);
    CU_ASSERT_STRING_EQUAL(done_order, "v");
    settle();
    CU_ASSERT_STRING_EQUAL(done_order, "vwe");
    finish();
}

/* ---- failures */

static void failure_reaches_readers_only(void)
{
    start(2);
    snprintf(who.where, sizeof who.where, "here.c:1");
    submit('f', NULL, &a, k_gate_fail);
    snprintf(who.where, sizeof who.where, "there.c:2");
    atomic_store(&ran, 0);
    submit('r', &a, &b, k_count);   /* reads it: not run */
    submit('s', &b, &c, k_count);   /* reads that: not run */
    submit('o', NULL, &a, k_count); /* overwrites it: runs, and a is whole again */
    submit('p', &a, NULL, k_count); /* reads the new one: runs */
    settle();
    CU_ASSERT_EQUAL(atomic_load(&ran), 2);
    CU_ASSERT_EQUAL(seen['f' % 64].failed, TD_E_INDEX);
    CU_ASSERT_STRING_EQUAL(seen['s' % 64].message, "chunk 0 fails");
    CU_ASSERT_STRING_EQUAL(seen['s' % 64].where, "here.c:1");
    CU_ASSERT_EQUAL(seen['r' % 64].code, TD_E_INDEX);
    CU_ASSERT_EQUAL(seen['r' % 64].failed, 0);
    CU_ASSERT_EQUAL(seen['o' % 64].code + seen['p' % 64].code, 0);
    CU_ASSERT_PTR_NULL(a.poison);
    CU_ASSERT_PTR_NOT_NULL_FATAL(b.poison);
    CU_ASSERT_PTR_EQUAL(b.poison, c.poison);
    finish();
}

static _Atomic int may_end;
static void k_until(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    while (!atomic_load(&may_end)) usleep(50);
}

/* What had to wait for a reader as well asks only those for the cause that it reads from: the reader may be gone. */
static void failure_beside_what_is_gone(void)
{
    start(2);
    CU_ASSERT_TRUE_FATAL(td_task_reserve(s, 5000)); /* more than are kept: what ends is freed */
    atomic_store(&may_end, 0);
    submit('r', &b, NULL, k_until);
    submit('f', NULL, &a, k_gate_fail);
    submit('w', &a, &b, k_nothing);
    atomic_store(&may_end, 1);
    while (!done_count) {
        usleep(50);
        td_sched_collect(s, 100);
    }
    CU_ASSERT_EQUAL(done_order[0], 'r');
    settle();
    CU_ASSERT_EQUAL(seen['w' % 64].code, TD_E_INDEX);
    finish();
}

static void poison_is_known_at_issue(void)
{
    start(1);
    td_sched_submit(s, make('f', NULL, &a, k_fail, 10)); /* fails here */
    CU_ASSERT_PTR_NOT_NULL(a.poison);
    atomic_store(&ran, 0);
    submit('r', &a, &b, k_count);
    CU_ASSERT_STRING_EQUAL(done_order, "fr");
    CU_ASSERT_PTR_EQUAL(b.poison, a.poison);
    td_call *part = make('p', NULL, NULL, k_count, 10);
    fake_writes(part, &a, 0, 8); /* a part does not heal */
    td_sched_submit(s, part);
    CU_ASSERT_PTR_NOT_NULL(a.poison);
    td_sched_submit(s, make('h', NULL, &a, k_count, 10));
    CU_ASSERT_PTR_NULL(a.poison);
    submit('i', NULL, &b, k_count); /* in the pool: healed as soon as it is issued */
    CU_ASSERT_PTR_NULL(b.poison);
    submit('q', &b, &c, k_count);
    td_sched_drain(s);
    CU_ASSERT_EQUAL(atomic_load(&ran), 4);
    CU_ASSERT_PTR_NULL(c.poison);
    finish();
}

static void cause_given_with_the_call(void)
{
    start(1);
    td_call *call = make('x', &b, &a, k_count, 10);
    atomic_store(&ran, 0);
    call->cause = td_cause_new(&(td_error){.code = TD_E_LOST, .message = "gone"});
    td_sched_submit(s, call);
    CU_ASSERT_EQUAL(atomic_load(&ran), 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a.poison);
    CU_ASSERT_STRING_EQUAL(a.poison->error.message, "gone");
    finish();
}

/* A successor that comes when the failed task has ended, but the loop has not collected it. */
static void failure_is_not_missed_late(void)
{
    start(1);
    atomic_store(&gate, 1);
    atomic_store(&ran, 0);
    submit('f', NULL, &a, k_fail);
    for (int i = 0; !atomic_load(&wakes) && i < 60000; i++) usleep(1000);
    CU_ASSERT_EQUAL(atomic_load(&wakes), 1);
    CU_ASSERT_EQUAL(done_count, 0);
    td_sched_submit(s, make('r', &a, &b, k_count, 10)); /* small, but may not run here */
    submit('t', &b, &c, k_count);
    CU_ASSERT_EQUAL(done_count, 0);
    td_sched_drain(s);
    CU_ASSERT_STRING_EQUAL(done_order, "frt");
    CU_ASSERT_EQUAL(atomic_load(&ran), 0);
    CU_ASSERT_PTR_EQUAL(c.poison, a.poison);
    finish();
}

/* The same, but it writes to what was there before. */
static td_call *make_into(char name, td_storage *from, td_storage *to, td_chunk_fn fn)
{
    td_call *call = make(name, from, to, fn, FAKE_BIG);
    call->flags = TD_CF_OUT;
    return call;
}

static void clean_failure_leaves_what_was_there(void)
{
    start(1);
    td_issuer other = {0};
    CU_ASSERT_EQUAL(td_flow_new((td_flow **)&other.flow, s, NULL), 0);
    for (int here = 0; here < 2; here++) {
        td_call *call = make_into('f', &a, &a, k_fail);
        call->k.cost_ns = here ? 10 : FAKE_BIG;
        call->k.clean_phases = 1; /* it only checks; it writes in the second phase */
        fake_phase(call, k_count, 1);
        atomic_store(&ran, 0);
        td_sched_submit(s, call);
        call = make('r', &a, &b, k_count, FAKE_BIG);
        call->who = &other;
        td_sched_submit(s, call);
        td_sched_drain(s);
        CU_ASSERT_PTR_NULL(a.poison);
        CU_ASSERT_EQUAL(seen['f' % 64].failed, TD_E_INDEX);
        CU_ASSERT_EQUAL(atomic_load(&ran), 1);
    }
    td_call *call = make('g', &a, &b, k_fail, FAKE_BIG);
    call->k.clean_phases = 1; /* it made b: that is lost */
    td_sched_submit(s, call);
    td_sched_drain(s);
    CU_ASSERT_PTR_NOT_NULL(b.poison);
    td_flow_free(other.flow);
    finish();
}

/* Who sent it takes it for written, and does not know better yet. */
static void clean_failure_reaches_its_own_flow(void)
{
    start(2);
    td_issuer other = {0};
    CU_ASSERT_EQUAL(td_flow_new((td_flow **)&other.flow, s, NULL), 0);
    td_call *call = make_into('f', &a, &a, k_gate_fail);
    call->k.clean_phases = 1;
    atomic_store(&ran, 0);
    td_sched_submit(s, call);
    td_sched_submit(s, make_into('i', &a, &a, k_count)); /* in place: not run, and leaves it alone, too */
    submit('r', &a, &b, k_count);                        /* makes b: that is lost */
    call = make('o', &a, NULL, k_count, FAKE_BIG);       /* somebody else's: finds what was there */
    call->who = &other;
    td_sched_submit(s, call);
    settle();
    CU_ASSERT_EQUAL(atomic_load(&ran), 1);
    CU_ASSERT_PTR_NULL(a.poison);
    CU_ASSERT_PTR_NOT_NULL(b.poison);
    CU_ASSERT_STRING_EQUAL(seen['i' % 64].message, "chunk 0 fails");
    CU_ASSERT_STRING_EQUAL(seen['r' % 64].message, "chunk 0 fails");
    CU_ASSERT_EQUAL(seen['o' % 64].code, 0);
    submit('l', &a, &b, k_count); /* the loop knows of it: it is for the session to tell its client */
    td_sched_drain(s);
    CU_ASSERT_EQUAL(atomic_load(&ran), 2);
    td_flow_free(other.flow);
    finish();
}

/* What is added to with a value that is lost stays what it was; half-written memory stays lost for everybody. */
static void only_written_memory_is_lost(void)
{
    for (int here = 0; here < 2; here++) {
        start(2);
        td_issuer other = {0};
        CU_ASSERT_EQUAL(td_flow_new((td_flow **)&other.flow, s, NULL), 0);
        atomic_store(&ran, 0);
        atomic_store(&gate, here);
        submit('f', NULL, &a, k_gate_fail);
        if (here) td_sched_drain(s);
        td_sched_submit(s, make_into('i', &a, &b, k_count));
        td_call *call = make('o', &b, NULL, k_count, FAKE_BIG);
        call->who = &other;
        td_sched_submit(s, call);
        td_sched_submit(s, make_into('k', &a, &a, k_count)); /* not run, but a is lost all the same: */
        call = make('p', &a, &c, k_count, FAKE_BIG);
        call->who = &other;
        td_sched_submit(s, call);
        settle();
        CU_ASSERT_EQUAL(atomic_load(&ran), 1);
        CU_ASSERT_PTR_NULL(b.poison);
        CU_ASSERT_STRING_EQUAL(seen['i' % 64].message, "chunk 0 fails");
        CU_ASSERT_EQUAL(seen['o' % 64].code, 0);
        CU_ASSERT_PTR_NOT_NULL(a.poison);
        CU_ASSERT_PTR_EQUAL(c.poison, a.poison);
        td_storage_heal(&c);
        td_flow_free(other.flow);
        finish();
    }
}

static void failure_shows_through_gaps(void)
{
    start(1);
    atomic_store(&ran, 0);
    td_call *f = make('f', NULL, NULL, k_gate_fail, FAKE_BIG);
    fake_writes(f, &a, 10, 90);
    td_sched_submit(s, f);
    td_call *gaps = make('g', NULL, NULL, k_nothing, FAKE_BIG); /* every second byte of a */
    gaps->out[gaps->nout++] = fake_tensor(&a, 0, 512, 2);
    td_sched_submit(s, gaps);
    submit('r', &a, &b, k_count);
    settle();
    CU_ASSERT_EQUAL(atomic_load(&ran), 0);
    CU_ASSERT_PTR_NOT_NULL(b.poison);
    finish();
}

static void failure_goes_through_joins(void)
{
    start(2);
    atomic_store(&ran, 0);
    for (int i = 0; i < 30; i++) {
        td_call *part = make('p', NULL, NULL, i == 3 ? k_gate_fail : k_gate, FAKE_BIG);
        fake_writes(part, &a, i * 8, i * 8 + 8);
        td_sched_submit(s, part);
    }
    td_call *apart = make('o', NULL, NULL, k_count, FAKE_BIG);
    fake_reads(apart, &a, 400, 500);
    td_sched_submit(s, apart);
    submit('r', &a, &b, k_count);
    settle();
    CU_ASSERT_EQUAL(atomic_load(&ran), 1);
    CU_ASSERT_STRING_EQUAL(seen['r' % 64].message, "chunk 0 fails");
    finish();
}

/* ---- many at once */

static void k_sum(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    atomic_fetch_add((_Atomic uint64_t *)&cells_b[0], cells_a[0]);
}
static void k_inc(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    cells_a[0]++;
}

static void many_readers_then_a_writer(void)
{
    start(2);
    uint64_t want = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 100; i++) submit('r', &a, NULL, k_sum), done_count = 0;
        want += 100 * (uint64_t)round;
        submit('w', &a, &a, k_inc);
    }
    done_count = 0;
    td_call *hold = make('x', &a, NULL, k_nothing, 10);
    hold->finished = NULL;
    td_sched_submit(s, hold);
    while (td_flow_pending(who.flow)) td_sched_collect(s, 10), done_count = 0;
    CU_ASSERT_EQUAL(cells_b[0], want);
    CU_ASSERT_EQUAL(cells_a[0], 20);
    finish();
}

static void inputs_may_be_written(void)
{
    start(2);
    for (int i = 0; i < 50; i++) {
        td_call *update = make('u', NULL, NULL, k_inc, i % 2 ? 10 : FAKE_BIG);
        fake_updates(update, &a, 0, 8);
        td_sched_submit(s, update);
    }
    submit('r', &a, NULL, k_sum);
    td_call *bad = make('f', NULL, NULL, k_fail, FAKE_BIG);
    fake_updates(bad, &a, 0, 512);
    td_sched_submit(s, bad);
    settle();
    CU_ASSERT_EQUAL(cells_a[0], 50);
    CU_ASSERT_EQUAL(cells_b[0], 50);
    CU_ASSERT_PTR_NOT_NULL(a.poison);
    finish();
}

static void many_views_of_one_storage(void)
{
    start(1);
    submit('w', NULL, &a, k_gate);
    td_call *cat = make('c', NULL, NULL, k_nothing, 10);
    for (int i = 0; i < 1000; i++) fake_reads(cat, &a, i % 50 * 10, i % 50 * 10 + 3);
    fake_writes(cat, &a, 100, 200); /* into itself */
    td_sched_submit(s, cat);
    td_call *cat2 = make('d', NULL, &b, k_nothing, 10);
    for (int i = 0; i < 300; i++) fake_reads(cat2, i % 2 ? &a : &c, i, i + 1);
    td_sched_submit(s, cat2);
    submit('z', NULL, &a, k_nothing);
    settle();
    CU_ASSERT_STRING_EQUAL(done_order, "wcdz");
    finish();
}

/* ---- waiting */

static int fired;
static void on_fired(void *arg)
{
    fired++;
    if (arg) done_order[done_count++] = *(char *)arg;
}

static void waiters(void)
{
    start(1);
    fired = 0;
    td_access all_a = {&a, 0, 512, false}, write_b = {&b, 0, 512, true};
    td_access both[] = {all_a, write_b};
    CU_ASSERT_PTR_NULL(td_sched_after(s, 2, both, on_fired, NULL)); /* nothing is pending */
    CU_ASSERT_EQUAL(fired, 1);
    submit('r', &b, NULL, k_gate);
    submit('w', NULL, &a, k_nothing);
    CU_ASSERT_PTR_NOT_NULL(td_sched_after(s, 2, both, on_fired, "!"));
    CU_ASSERT_PTR_NOT_NULL(td_sched_after_flow(s, who.flow, on_fired, "?"));
    both[0].write = false, both[1].write = false;
    td_waiter *w = td_sched_after(s, 2, both, on_fired, "C");
    td_waiter *wf = td_sched_after_flow(s, who.flow, on_fired, "D");
    CU_ASSERT_PTR_NOT_NULL(w);
    td_waiter_cancel(w);
    td_waiter_cancel(wf);
    td_sched_collect(s, 100);
    CU_ASSERT_EQUAL(fired, 1);
    settle();
    CU_ASSERT_EQUAL(fired, 3);
    CU_ASSERT_STRING_EQUAL(done_order, "rw?!");
    CU_ASSERT_PTR_NULL(td_sched_after_flow(s, who.flow, on_fired, NULL));
    CU_ASSERT_EQUAL(fired, 4);
    static td_access many[5000];
    for (int i = 0; i < 5000; i++) many[i] = i % 2 ? all_a : write_b;
    submit('z', &b, NULL, k_nothing);
    CU_ASSERT_PTR_NOT_NULL(td_sched_after(s, 5000, many, on_fired, NULL));
    td_sched_drain(s);
    CU_ASSERT_EQUAL(fired, 5);
    finish();
}

/* A later writer must not run before the callback of an earlier reader has seen what was there. */
static uint64_t value_seen;
static void look(void *arg)
{
    (void)arg;
    usleep(2000);
    value_seen = *(volatile uint64_t *)&cells_a[0];
}
static void waiter_keeps_its_place(void)
{
    start(2);
    value_seen = 99;
    submit('i', &a, &a, k_inc);
    td_access all_a = {&a, 0, 512, false};
    td_sched_after(s, 1, &all_a, look, NULL);
    td_sched_submit(s, make('j', &a, &a, k_inc, FAKE_BIG));
    td_sched_submit(s, make('k', &a, &a, k_inc, 10));
    td_sched_drain(s);
    CU_ASSERT_EQUAL(value_seen, 1);
    CU_ASSERT_EQUAL(cells_a[0], 3);
    finish();
}

/* A callback may issue, and wait again, on what it waited for. */
static int again;
static void issue_again(void *arg)
{
    (void)arg;
    if (++again > 3) return;
    td_sched_submit(s, make('n', &a, &a, k_inc, again % 2 ? FAKE_BIG : 10));
    td_access all_a = {&a, 0, 512, true};
    td_sched_after(s, 1, &all_a, issue_again, NULL);
}
static void callbacks_may_issue(void)
{
    start(1);
    again = 0;
    submit('i', &a, &a, k_inc);
    td_access all_a = {&a, 0, 512, true};
    td_sched_after(s, 1, &all_a, issue_again, NULL);
    td_sched_drain(s);
    CU_ASSERT_EQUAL(again, 4);
    CU_ASSERT_EQUAL(cells_a[0], 4);
    finish();
}

/* ---- fairness */

enum { CHUNK_NS = 100000, REST_NS = 60000 }; /* what a chunk takes, and what lies between two rests of one */
static _Atomic int long_chunks;
static void k_long(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    hand_clock_go_on(CHUNK_NS);
    atomic_fetch_add(&long_chunks, 1);
}

/* Chunks that begin when they are told, one after another. */
static _Atomic int may_begin, waiting;
static void k_told(td_kcall *k, int64_t chunk, void *scratch)
{
    atomic_fetch_add(&waiting, 1);
    for (int n; (n = atomic_load(&may_begin)) == 0 || !atomic_compare_exchange_weak(&may_begin, &n, n - 1);) usleep(50);
    atomic_fetch_sub(&waiting, 1);
    k_long(k, chunk, scratch);
    if (atomic_load(&may_begin) > LONG_MS) usleep(1000);
}

enum { LONG = 100000, SMALL = 8 }; /* chunks; tasks */
static void a_small_flow_waits_a_chunk(void)
{
    for (int workers = 1; workers <= 2; workers++) {
        start(workers);
        td_flow *other;
        CU_ASSERT_EQUAL(td_flow_new(&other, s, NULL), 0);
        td_issuer second = {.flow = other};
        atomic_store(&long_chunks, 0);
        atomic_store(&may_begin, 0);
        atomic_store(&waiting, 0);
        atomic_store(&ran, 0);
        for (int i = 0; i < 2; i++) {
            td_call *big = fake_call(&who, (double)LONG * CHUNK_NS);
            fake_phase(big, k_told, LONG);
            td_sched_submit(s, big);
        }
        for (int i = 0; i < SMALL; i++) {
            CU_ASSERT_TRUE_FATAL(comes(&waiting, workers, LONG_MS));
            td_call *small = fake_call(&second, 2000);
            fake_phase(small, k_count, 1);
            td_sched_submit(s, small);
            atomic_store(&may_begin, 2 * workers); /* of nearly 2 * LONG that were ready before it */
            CU_ASSERT_TRUE(comes(&ran, i + 1, LONG_MS));
            CU_ASSERT_TRUE_FATAL(comes(&may_begin, 0, LONG_MS));
        }
        td_sched_collect(s, SMALL);
        CU_ASSERT_EQUAL(td_flow_pending(other), 0);
        td_flow_free(other);
        atomic_store(&may_begin, INT_MAX);
        td_sched_free(s); /* with most of it still to do */
        CU_ASSERT(atomic_load(&long_chunks) < 2 * LONG);
        CU_ASSERT_EQUAL(fake_live, 0);
        td_flow_free(who.flow);
    }
}

/* A chunk that rests gives way to another's task in parts: it goes on itself in between. */
static _Atomic int at_row, there, most_between;
static void k_row(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    atomic_store(&at_row, 1);
    while (!atomic_load(&there)) usleep(50);
    for (int before = 0, now, rests = 0; before < 400 && rests < LONG_MS; before = now, rests++) {
        hand_clock_go_on(REST_NS);
        td_breathe();
        now = atomic_load(&long_chunks);
        if (now - before > atomic_load(&most_between)) atomic_store(&most_between, now - before);
    }
}

/* Notes how deep in the stack it runs. */
static _Atomic uintptr_t lowest, highest;
static void k_deep(td_kcall *k, int64_t chunk, void *scratch)
{
    uintptr_t at = (uintptr_t)__builtin_frame_address(0);
    if (at < atomic_load(&lowest)) atomic_store(&lowest, at); /* one worker */
    if (at > atomic_load(&highest)) atomic_store(&highest, at);
    k_long(k, chunk, scratch);
}

static void a_row_goes_on(void)
{
    start(1);
    td_flow *other;
    CU_ASSERT_EQUAL(td_flow_new(&other, s, NULL), 0);
    td_issuer second = {.flow = other};
    atomic_store(&long_chunks, 0);
    atomic_store(&most_between, 0);
    atomic_store(&at_row, 0);
    atomic_store(&there, 0);
    td_call *row = fake_call(&who, 1e9);
    fake_phase(row, k_row, 1);
    td_sched_submit(s, row);
    CU_ASSERT_TRUE(comes(&at_row, 1, LONG_MS));
    td_call *many = fake_call(&second, 400. * CHUNK_NS);
    fake_phase(many, k_deep, 200);
    fake_phase(many, k_deep, 200);
    atomic_store(&lowest, UINTPTR_MAX);
    atomic_store(&highest, 0);
    td_sched_submit(s, many);
    atomic_store(&there, 1);
    td_sched_drain(s);
    CU_ASSERT_EQUAL(atomic_load(&long_chunks), 400);
    CU_ASSERT(atomic_load(&most_between) > 0);
    CU_ASSERT(atomic_load(&most_between) <= 5);                     /* not all 400, nor a phase of them */
    CU_ASSERT(atomic_load(&highest) - atomic_load(&lowest) < 4096); /* on top of the row, never of each other */
    td_flow_free(other);
    finish();
}

/* A chunk of seconds is not begun on top of one of milliseconds, whose client would wait for its end; on top of another
 * of seconds it is. */
static _Atomic int row_ended, on_top;
static void k_resting(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    atomic_store(&at_row, 1);
    while (!atomic_load(&there)) usleep(50);
    for (int rests = 0; rests < 1000; rests++) {
        hand_clock_go_on(REST_NS);
        td_breathe();
    }
    atomic_store(&row_ended, 1);
}
static void k_heavy(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    atomic_store(&on_top, !atomic_load(&row_ended));
}
static void a_short_chunk_is_not_buried(void)
{
    for (int heavy = 0; heavy < 2; heavy++) {
        start(1);
        td_flow *other;
        CU_ASSERT_EQUAL(td_flow_new(&other, s, NULL), 0);
        td_issuer second = {.flow = other};
        atomic_store(&at_row, 0);
        atomic_store(&there, 0);
        atomic_store(&row_ended, 0);
        td_call *row = fake_call(&who, heavy ? 3e9 : 5e5), *long_one = fake_call(&second, 5e9);
        fake_phase(row, k_resting, 1);
        fake_phase(long_one, k_heavy, 1);
        td_sched_submit(s, row);
        CU_ASSERT_TRUE(comes(&at_row, 1, LONG_MS));
        td_sched_submit(s, long_one);
        atomic_store(&there, 1);
        td_sched_drain(s);
        CU_ASSERT_EQUAL(atomic_load(&on_top), heavy);
        td_flow_free(other);
        finish();
    }
}

/* Of two workers one may be at what knows no rest; the other serves whoever comes, however many such tasks wait. */
static _Atomic int lasting_at_once, most_lasting, lasting_ran;
static void k_lasting(td_kcall *k, int64_t chunk, void *scratch)
{
    int now = atomic_fetch_add(&lasting_at_once, 1) + 1;
    if (now > atomic_load(&most_lasting)) atomic_store(&most_lasting, now);
    k_gate(k, chunk, scratch);
    for (int rests = 0; rests < 40;
         rests++) { /* one that does rest may give way to others, but to no other such task */
        hand_clock_go_on(REST_NS);
        td_breathe();
    }
    atomic_fetch_sub(&lasting_at_once, 1);
    atomic_fetch_add(&lasting_ran, 1);
}
static void lasting_tasks_leave_a_worker(void)
{
    enum { FLOWS = 5, EACH = 3 };
    for (int workers = 1; workers <= 3; workers++) {
        start(workers);
        td_flow *other[FLOWS];
        td_issuer of[FLOWS];
        atomic_store(&most_lasting, 0);
        atomic_store(&lasting_ran, 0);
        atomic_store(&ran, 0);
        for (int i = 0; i < FLOWS; i++) {
            CU_ASSERT_EQUAL(td_flow_new(&other[i], s, NULL), 0);
            of[i] = (td_issuer){.flow = other[i]};
            for (int n = 0; n < EACH; n++) {
                td_call *long_one = fake_call(&of[i], 5e9);
                fake_phase(long_one, k_lasting, n == 1 ? 2 : 1);
                long_one->k.lasting = true;
                td_sched_submit(s, long_one);
            }
        }
        for (int ms = 0; !atomic_load(&at_gate) && ms < LONG_MS; ms++) usleep(1000);
        td_sched_submit(s, make('a', &a, &b, k_count, FAKE_BIG));
        CU_ASSERT_EQUAL(comes(&ran, 1, workers > 1 ? LONG_MS : 20), workers > 1); /* with one it waits for the end */
        atomic_store(&gate, 1);
        td_sched_drain(s);
        CU_ASSERT_EQUAL(atomic_load(&lasting_ran), FLOWS * (EACH + 1));
        CU_ASSERT(atomic_load(&most_lasting) <= (workers > 2 ? workers - 1 : 1));
        for (int i = 0; i < FLOWS; i++) td_flow_free(other[i]);
        finish();
    }
}

/* Chunks of two sides that one worker shares out: how many of each it had run when they were `when` together, or
 * `when_second` of the second. The first stops at the gate when it has run `stop_at`. */
static struct {
    int when, when_second, stop_at, given[2], at[2]; /* the worker's */
} shares;
static void k_flow(td_kcall *k, int64_t chunk, void *scratch)
{
    k_long(k, chunk, scratch);
    int of_it = ++shares.given[k->seed], all = shares.given[0] + shares.given[1];
    if (all == shares.when || (k->seed == 1 && of_it == shares.when_second))
        memcpy(shares.at, shares.given, sizeof shares.at);
    if (k->seed == 0 && of_it == shares.stop_at) k_gate(k, chunk, scratch);
}
static void submit_flow(const td_issuer *from, int side, int chunks, double says_ns)
{
    td_call *big = fake_call((td_issuer *)(uintptr_t)from, chunks * says_ns);
    fake_phase(big, k_flow, chunks);
    big->k.seed = (uint64_t)side;
    td_sched_submit(s, big);
}
/* With a worker that is at the gate until all has been submitted. */
static void start_shares(int when)
{
    start(1);
    memset(&shares, 0, sizeof shares);
    shares.when = when;
    submit('g', NULL, NULL, k_gate);
    CU_ASSERT_TRUE_FATAL(comes(&at_gate, 1, LONG_MS));
}

/* Two flows with the same to do each get half. */
static void equal_flows_get_equal_shares(void)
{
    start_shares(400);
    td_flow *other;
    CU_ASSERT_EQUAL(td_flow_new(&other, s, NULL), 0);
    submit_flow(&who, 0, 400, CHUNK_NS);
    submit_flow(&(td_issuer){.flow = other}, 1, 400, CHUNK_NS);
    settle();
    CU_ASSERT(abs(shares.at[0] - shares.at[1]) <= 4);
    td_flow_free(other);
    finish();
}

/* Many flows of one share get together what another gets. */
static void many_flows_share_one_part(void)
{
    enum { MANY = 20 };
    start_shares(400);
    td_issuer all[MANY + 1];
    td_share *share = td_share_new();
    CU_ASSERT_PTR_NOT_NULL_FATAL(share);
    for (int i = 0; i <= MANY; i++) {
        td_flow *f;
        bool one = i == MANY;
        CU_ASSERT_EQUAL_FATAL(td_flow_new(&f, s, NULL), 0);
        if (!one) td_flow_join(f, share);
        all[i] = (td_issuer){.flow = f};
        submit_flow(&all[i], one, one ? 400 : 20, CHUNK_NS);
    }
    settle();
    CU_ASSERT(abs(shares.at[0] - shares.at[1]) <= 4); /* not 20 to 1 */
    for (int i = 0; i <= MANY; i++) td_flow_free(all[i].flow);
    td_share_unref(share);
    finish();
}

/* Estimates may be wrong: shares are of time. */
static void cheap_words_buy_nothing(void)
{
    start_shares(300);
    td_flow *other;
    CU_ASSERT_EQUAL(td_flow_new(&other, s, NULL), 0);
    submit_flow(&who, 0, 300, CHUNK_NS / 5); /* it says a fifth of the truth */
    submit_flow(&(td_issuer){.flow = other}, 1, 300, CHUNK_NS);
    settle();
    CU_ASSERT(shares.at[0] > 0 && shares.at[0] < 2 * shares.at[1]);
    td_flow_free(other);
    finish();
}

/* Who comes late gets half of what is left, and nothing for the time when it was not there. */
static void idling_earns_nothing(void)
{
    start(1);
    td_flow *other;
    CU_ASSERT_EQUAL(td_flow_new(&other, s, NULL), 0);
    memset(&shares, 0, sizeof shares);
    shares.stop_at = 300, shares.when_second = 100;
    submit_flow(&who, 0, 600, CHUNK_NS);
    CU_ASSERT_TRUE_FATAL(comes(&at_gate, 1, LONG_MS));
    submit_flow(&(td_issuer){.flow = other}, 1, 600, CHUNK_NS);
    settle();
    CU_ASSERT(abs(shares.at[0] - 400) <= 4);
    td_flow_free(other);
    finish();
}

/* Tasks of three flows, and in which order one worker ran them. */
enum { THREE = 3, TURNS = 20 };
static int order[THREE * TURNS];
static _Atomic int served;
static void k_served(td_kcall *k, int64_t chunk, void *scratch)
{
    k_long(k, chunk, scratch);
    order[atomic_fetch_add(&served, 1)] = (int)k->seed;
}
static void open_flows(td_issuer *of, td_share *joined, int n)
{
    for (int i = 0; i < n; i++) {
        td_flow *f;
        CU_ASSERT_EQUAL_FATAL(td_flow_new(&f, s, NULL), 0);
        if (joined) td_flow_join(f, joined);
        of[i] = (td_issuer){.flow = f};
    }
}
static void submit_turns(td_issuer *of)
{
    atomic_store(&served, 0);
    for (int i = 0; i < THREE * TURNS; i++) {
        td_call *call = fake_call(&of[i / TURNS], CHUNK_NS);
        fake_phase(call, k_served, 1);
        call->k.seed = (uint64_t)(i / TURNS);
        td_sched_submit(s, call);
    }
}
static void all_had_their_turns(void)
{
    int had[THREE] = {0};
    CU_ASSERT_EQUAL(atomic_load(&served), THREE * TURNS);
    for (int i = 0; i < THREE * TURNS; i++) {
        had[order[i]]++;
        for (int f = 0; f < THREE; f++) CU_ASSERT(abs(had[f] - had[order[i]]) <= 2);
    }
}

static void k_below(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    atomic_store(&at_row, 1);
    while (!atomic_load(&there)) usleep(50);
    for (int rests = 0; atomic_load(&served) < THREE * TURNS && rests < LONG_MS; rests++) {
        hand_clock_go_on(REST_NS);
        td_breathe();
    }
}
/* On top of a chunk that rests the least served comes next, of shares and of the flows of one. */
static void turns_on_top_of_a_row(void)
{
    for (int joined = 0; joined < 2; joined++) {
        td_issuer of[THREE];
        td_share *share = joined ? td_share_new() : NULL;
        start(1);
        open_flows(of, share, THREE);
        atomic_store(&at_row, 0), atomic_store(&there, 0);
        td_call *row = fake_call(&who, 1e9);
        fake_phase(row, k_below, 1);
        td_sched_submit(s, row);
        CU_ASSERT_TRUE_FATAL(comes(&at_row, 1, LONG_MS));
        submit_turns(of);
        atomic_store(&there, 1);
        td_sched_drain(s);
        all_had_their_turns();
        for (int i = 0; i < THREE; i++) td_flow_free(of[i].flow);
        td_share_unref(share);
        finish();
    }
}

static void k_endless(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    atomic_store(&at_row, 1);
    while (!atomic_load(&there)) usleep(50);
}
/* One of two workers is at what knows no rest, and the same waits for the other: that one passes it over, and serves
 * the three other flows in turns. */
static void turns_beside_what_lasts(void)
{
    for (int joined = 0; joined < 2; joined++) {
        td_issuer of[THREE], last[2];
        td_share *share = joined ? td_share_new() : NULL;
        start(2);
        open_flows(of, share, THREE);
        open_flows(last, NULL, 2);
        atomic_store(&at_row, 0), atomic_store(&there, 0);
        for (int i = 0; i < 2; i++) {
            td_call *call = fake_call(&last[i], 5e9);
            fake_phase(call, k_endless, 1);
            call->k.lasting = true;
            td_sched_submit(s, call);
            CU_ASSERT_TRUE_FATAL(comes(&at_row, 1, LONG_MS));
        }
        submit('g', NULL, NULL, k_gate);
        CU_ASSERT_TRUE_FATAL(comes(&at_gate, 1, LONG_MS));
        submit_turns(of);
        atomic_store(&gate, 1);
        CU_ASSERT_TRUE(comes(&served, THREE * TURNS, LONG_MS));
        atomic_store(&there, 1);
        td_sched_drain(s);
        all_had_their_turns();
        for (int i = 0; i < THREE; i++) td_flow_free(of[i].flow);
        for (int i = 0; i < 2; i++) td_flow_free(last[i].flow);
        td_share_unref(share);
        finish();
    }
}

/* ---- the end */

static void freeing_with_work_pending(void)
{
    for (int workers = 1; workers <= 2; workers++) {
        start(workers);
        fired = 0;
        submit('f', NULL, &c, k_fail);
        submit('g', NULL, &a, k_gate);
        for (int i = 0; i < 20; i++) submit('p', &a, i % 2 ? &a : &b, k_count);
        for (int i = 0; i < 9; i++) submit('q', &a, NULL, k_count);
        submit('e', &c, NULL, k_count);
        td_access x[] = {{&a, 0, 512, true}, {&b, 0, 512, false}};
        td_sched_after(s, 2, x, on_fired, NULL);
        td_waiter_cancel(td_sched_after(s, 2, x, on_fired, NULL));
        td_sched_after_flow(s, who.flow, on_fired, NULL);
        td_flow_free(who.flow);
        atomic_store(&gate, 1);
        td_sched_free(s);
        CU_ASSERT_EQUAL(done_count, 32); /* each owner was told */
        CU_ASSERT_EQUAL(fired, 2);
        CU_ASSERT_EQUAL(fake_live, 0);
        CU_ASSERT_PTR_NULL(a.hazards);
        td_storage_heal(&a);
        td_storage_heal(&b);
        td_storage_heal(&c);
        CU_ASSERT_EQUAL(td_live_counts().causes, 0);
    }
}

/* A kernel that knows no rest runs on: it is waited for a while, and nothing that it uses is freed. */
static void freeing_under_a_kernel(void)
{
    start(1);
    submit('g', NULL, &a, k_gate);
    td_sched_stats st = {0};
    CU_ASSERT_TRUE(comes(&at_gate, 1, LONG_MS));
    uint64_t began = td_clock_ms();
    atomic_store(&hand_clock.tick, UINT64_C(4900) * 1000000); /* most of the while goes by at a look */
    td_sched_free(s);
    atomic_store(&hand_clock.tick, LOOK_NS);
    CU_ASSERT(td_clock_ms() - began >= 5000);
    td_sched_get_stats(s, &st);
    CU_ASSERT_EQUAL(st.pending, 1);
    CU_ASSERT_EQUAL(fake_live, 1);
    td_flow_free(who.flow);
    atomic_store(&gate, 1);
    td_sched_free(s);
    CU_ASSERT_EQUAL(fake_live, 0);
    td_storage_heal(&a);
}

static void flow_goes_with_its_last_task(void)
{
    start(1);
    td_flow *f;
    CU_ASSERT_EQUAL(td_flow_new(&f, s, NULL), 0);
    td_issuer gone = {.flow = f};
    td_call *call = fake_call(&gone, FAKE_BIG);
    fake_phase(call, k_gate, 1);
    td_sched_submit(s, call);
    td_flow_free(f);
    CU_ASSERT_EQUAL(fake_live, 1);
    finish();
}

/* Who has tasks that wait pays for their records, in kilobytes and not as one object, until the last has ended. */
static void pending_tasks_are_paid_for(void)
{
    enum { TASKS = 100 };
    start(1);
    td_account *session = td_account_new(NULL);
    td_flow_charge_to(who.flow, session);
    submit('g', NULL, &b, k_gate);
    for (int i = 1; i < TASKS; i++) submit('w', NULL, &b, k_count);
    CU_ASSERT(td_account_own(session) >= TASKS * (sizeof(td_call) + 512));
    settle();
    CU_ASSERT_EQUAL(td_account_own(session), 0);
    finish();
    CU_ASSERT_EQUAL(session->refs, 1);
    td_account_unref(session);
}

static void k_count_and_gate(td_kcall *k, int64_t chunk, void *scratch)
{
    k_count(k, chunk, scratch);
    k_gate(k, chunk, scratch);
}

static void collect_is_bounded(void)
{
    start(1);
    atomic_store(&ran, 0);
    for (int i = 0; i < 10; i++) submit((char)('a' + i), NULL, NULL, k_nothing);
    submit('k', NULL, NULL, k_count_and_gate);
    CU_ASSERT_TRUE_FATAL(comes(&ran, 1, LONG_MS)); /* then the worker has done with the others */
    CU_ASSERT(td_sched_collect(s, 3));
    CU_ASSERT_EQUAL(done_count, 3);
    CU_ASSERT(td_sched_collect(s, 6));
    CU_ASSERT(!td_sched_collect(s, 6));
    CU_ASSERT_STRING_EQUAL(done_order, "abcdefghij");
    CU_ASSERT(atomic_load(&wakes) >= 1);
    finish();
    CU_ASSERT_STRING_EQUAL(done_order, "abcdefghijk");
}

TD_CUNIT_MAIN(
    "sched", {"small runs here", small_runs_here}, {"the loop helps", the_loop_helps},
    {"the loop helps with short chunks", the_loop_helps_with_short_chunks},
    {"big runs in the pool", big_runs_in_the_pool}, {"without workers all runs here", without_workers_all_runs_here},
    {"small waits for what it needs", small_waits_for_what_it_needs}, {"intervals are apart", intervals_are_apart},
    {"phases follow each other", phases_follow_each_other},
    {"what is kept warm goes back", what_is_kept_warm_goes_back}, {"nothing to run", nothing_to_run},
    {"failure reaches readers only", failure_reaches_readers_only},
    {"failure beside what is gone", failure_beside_what_is_gone},
    {"poison is known at issue", poison_is_known_at_issue}, {"cause given with the call", cause_given_with_the_call},
    {"failure is not missed late", failure_is_not_missed_late},
    {"clean failure leaves what was there", clean_failure_leaves_what_was_there},
    {"clean failure reaches its own flow", clean_failure_reaches_its_own_flow},
    {"only written memory is lost", only_written_memory_is_lost},
    {"failure shows through gaps", failure_shows_through_gaps},
    {"failure goes through joins", failure_goes_through_joins},
    {"many readers then a writer", many_readers_then_a_writer}, {"inputs may be written", inputs_may_be_written},
    {"many views of one storage", many_views_of_one_storage}, {"waiters", waiters},
    {"waiter keeps its place", waiter_keeps_its_place}, {"callbacks may issue", callbacks_may_issue},
    {"a small flow waits a chunk", a_small_flow_waits_a_chunk}, {"a row goes on", a_row_goes_on},
    {"a chunk of seconds lies on no short one", a_short_chunk_is_not_buried},
    {"lasting tasks leave a worker", lasting_tasks_leave_a_worker},
    {"equal flows get equal shares", equal_flows_get_equal_shares},
    {"many flows share one part", many_flows_share_one_part}, {"cheap words buy nothing", cheap_words_buy_nothing},
    {"idling earns nothing", idling_earns_nothing}, {"turns on top of a row", turns_on_top_of_a_row},
    {"turns beside what lasts", turns_beside_what_lasts}, {"freeing with work pending", freeing_with_work_pending},
    {"freeing under a kernel", freeing_under_a_kernel}, {"flow goes with its last task", flow_goes_with_its_last_task},
    {"pending tasks are paid for", pending_tasks_are_paid_for}, {"collect is bounded", collect_is_bounded})
