/* The pool: worker threads that run the chunks of ready tasks.
 *
 * Invariant: a task has users while anybody may touch its chunk counter: each worker that is at it, and one more while
 * it is listed. It is unlisted when its last chunk is claimed; so when the last user leaves, the phase is complete, and
 * that worker alone owns the task, to open the next phase or to end it. What a chunk computes depends on its number
 * alone, never on who runs it. */
#include "daemon/sched/internal.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define GRAIN_NS 10000   /* small chunks are claimed several at a time */
#define STREAK_NS 200000 /* go straight on with what was released, for so long */
#define TASK_NS 300      /* what the smallest task costs */
#define TELL_NS 15000    /* the loop is told of ends at once, or after so much small work */
#define MOST_OFF 4       /* estimates are corrected by at most this factor */
#define LONG_NS 300000   /* a chunk that takes longer gives way to others where it rests */
#define STOP_S 5         /* a chunk that knows no rest may take so long at the end */
#define HELP_NS 100000   /* the loop helps for so long at once, with chunks that take no longer */
#define WORK_KEPT ((size_t)64 << 20)
#define NICE 10 /* the loop must not wait for a worker's time slice */

static double cost_of(const td_task *t)
{
    return t->call->k.cost_ns + TASK_NS;
}

static void count(_Atomic uint64_t *counter, uint64_t n) /* one writer */
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

static void add_load(td_pool *p, double ns)
{
    atomic_fetch_add_explicit(&p->load_ns, (int64_t)ns, memory_order_relaxed);
}

/* Set up the next phase that has chunks; false when there is none. (owner) */
static bool next_phase(td_task *t, int from)
{
    td_kcall *k = &t->call->k;
    for (int p = from; p < k->nphases; p++) {
        if (k->phase[p].chunks <= 0) continue;
        t->phase = (uint8_t)p;
        t->chunks = k->phase[p].chunks;
        t->grain = (int64_t)(GRAIN_NS / (t->chunk_ns + 1));
        if (t->grain > t->chunks / 64) t->grain = t->chunks / 64;
        if (t->grain < 1) t->grain = 1;
        atomic_store_explicit(&t->next_chunk, 0, memory_order_relaxed);
        return true;
    }
    return false;
}

double td_task_chunk_ns(const td_task *t)
{
    const td_kcall *k = &t->call->k;
    double chunks = 0;
    for (int i = 0; i < k->nphases; i++) chunks += (double)k->phase[i].chunks;
    return chunks > 0 ? cost_of(t) / chunks : 0;
}

/* Give it work memory and set up its first phase; false when there is nothing to run. (owner) */
static bool begin(td_pool *p, td_task *t)
{
    td_kcall *k = &t->call->k;
    uint8_t queued = TD_TASK_QUEUED;
    t->open = true;
    if (!atomic_compare_exchange_strong(&t->state, &queued, TD_TASK_BEGUN)) return false;
    t->chunk_ns = td_task_chunk_ns(t);
    if (k->work_bytes) {
        td_buffer b = td_work_take(&p->work, k->work_bytes);
        k->work = b.data;
        t->work_size = b.size;
        if (!b.data) {
            td_kernel_fail(k, TD_E_MEMORY, "no memory for %zu bytes of work space", k->work_bytes);
            return false;
        }
    }
    return next_phase(t, 0);
}

static void run_chunks(td_worker *w, td_task *t, const td_claim *c)
{
    td_kcall *k = &t->call->k;
    void *scratch = NULL;
    if (k->scratch_bytes && !(scratch = td_buffer_fit(&w->scratch, k->scratch_bytes))) {
        td_kernel_fail(k, TD_E_MEMORY, "no memory for %zu bytes of scratch space", k->scratch_bytes);
        return;
    }
    td_chunk_fn fn = k->phase[t->phase].fn;
    atomic_store_explicit(&w->cpu, sched_getcpu(), memory_order_relaxed);
    w->at_ns[w->ways] = t->chunk_ns;
    w->at[w->ways++] = t->flow;
    w->chunk_since = w->since;
    for (int64_t i = 0; i < c->count && !atomic_load_explicit(&k->failed, memory_order_relaxed); i++)
        fn(k, c->first + i, scratch);
    w->ways--;
    w->chunk_since = INT64_MAX; /* between chunks nothing gives way: it would do so on top of itself, again and again */
    count(&w->chunks, (uint64_t)c->count);
    td_breathe();
}

/* Open the phase that was set up, with a claim for this worker; others may join if there is more. (owner) */
static void open_phase(td_worker *w, td_task *t, td_claim *c)
{
    td_pool *p = &w->s->pool;
    atomic_store_explicit(&t->users, 1, memory_order_relaxed);
    td_task_claim(t, c, &w->charged);
    if (c->last) return;
    td_pool_list(p, t);
    td_pool_wake_if_needed(p, true);
}

/* Is there anything that should be looked at before this flow gets more? */
static bool contended(td_pool *p, const td_flow *f)
{
    bool own = atomic_load_explicit(&f->ready, memory_order_relaxed) &&
               !(atomic_load_explicit(&f->lasting, memory_order_relaxed) && td_pool_all_away(p));
    return td_pool_ready(p) > own || atomic_load_explicit(&p->inbox, memory_order_relaxed) ||
           atomic_load_explicit(&p->stop, memory_order_relaxed);
}

/* What the worker did since the last time was for this flow: charge what it took instead of the estimate, but not much
 * more, because a thread that lost its processor for a while took long without doing anything. */
static void settle_charge(td_worker *w, td_flow *f)
{
    int64_t now = td_now_ns(), took = now - w->since;
    count(&w->busy_ns, (uint64_t)took);
    if (took > MOST_OFF * w->charged) took = MOST_OFF * w->charged;
    td_flow_charge(f, took - w->charged);
    w->since = now;
    w->charged = 0;
}

/* Waking the loop takes longer than a small task: tell it of many at once. */
static void tell(td_worker *w, double next_ns)
{
    if (!w->untold) return;
    w->untold_ns += next_ns;
    if (w->untold_ns <= TELL_NS) return;
    w->untold = false;
    w->untold_ns = 0;
    td_ends_tell(w->s);
}

/* Run claims until the phase is given out, or others have a right to this worker: also the chunk that it gave way in.
 * True: the phase is complete, and the
 * task this worker's own. */
static bool run_claims(td_worker *w, td_task *t, td_claim *c)
{
    td_pool *p = &w->s->pool;
    for (;;) {
        tell(w, t->chunk_ns * (double)c->count);
        run_chunks(w, t, c);
        if (c->last || contended(p, t->flow) || (w->until && td_now_ns() >= w->until)) break;
        if (!td_task_claim(t, c, &w->charged)) break;
        if (c->last) td_pool_unlist(p, t);
    }
    settle_charge(w, t->flow);
    td_buffer_trim(&w->scratch, TD_KEEP_SCRATCH);
    return atomic_fetch_sub_explicit(&t->users, 1, memory_order_acq_rel) == 1;
}

void td_pool_leave(td_pool *p, td_task *t)
{
    td_kcall *k = &t->call->k;
    if (t->work_size) td_work_give(&p->work, (td_buffer){k->work, t->work_size});
    t->work_size = 0;
    if (atomic_load_explicit(&k->failed, memory_order_relaxed)) {
        if (!t->given || td_task_wrote(t)) atomic_store_explicit(&t->bad, true, memory_order_relaxed);
        else atomic_store_explicit(&t->unwritten, t->number, memory_order_relaxed);
    }
}

/* The task has ended. What it released is posted, but for one, which is run next if nobody has an older right. */
static td_task *end_task(td_worker *w, td_task *t)
{
    td_pool *p = &w->s->pool;
    const td_flow *f = t->flow; /* only compared once the task has ended */
    double cost = cost_of(t);
    td_pool_leave(p, t);
    add_load(p, -cost);
    count(&w->tasks, 1);
    w->streak_ns += cost;
    bool go_on = w->streak_ns < STREAK_NS && !contended(p, f);
    td_chain ready = {0};
    w->untold |= td_task_end(w->s, t, &ready);
    bool own = ready.first && ready.first->flow == f && !td_task_is_lasting(ready.first);
    td_task *next = go_on && own ? td_chain_take(&ready) : NULL;
    if (next) add_load(p, cost_of(next));
    td_pool_post(p, &ready, true);
    return next;
}

/* Set up what comes next of a task that is this worker's own, or of one that its end released. NULL: nothing. */
static td_task *advance(td_worker *w, td_task *t)
{
    while (t) {
        bool failed = atomic_load_explicit(&t->call->k.failed, memory_order_relaxed);
        if (!t->open ? begin(&w->s->pool, t) : !failed && next_phase(t, t->phase + 1)) return t;
        t = end_task(w, t);
    }
    return NULL;
}

/* Bring a task as far as this worker may, and on with what its end released. A claim of nothing: it is not begun. */
static void work(td_worker *w, td_task *t, td_claim *c)
{
    while (c->count == 0 || run_claims(w, t, c)) {
        if (!(t = advance(w, t))) return;
        open_phase(w, t, c);
    }
}

/* In the middle of a chunk, where it rests: when it takes long and others wait, one of their tasks is worked on here,
 * on top of it, for as long; then it goes on itself. What is left of the other one is listed, as always. A chunk cannot
 * be left for what lies below it: so none is begun on top that takes much longer (td_pool_pick). */
static void give_way(void *arg)
{
    td_worker *w = arg;
    td_pool *p = &w->s->pool;
    int64_t now = td_now_ns();
    if (!w->ways || w->ways == TD_WAYS || now - w->chunk_since < LONG_NS || atomic_load(&p->stop)) return;
    if (!contended(p, w->at[w->ways - 1])) return;
    int64_t since = w->since, charged = w->charged, until = w->until, began = now;
    double streak = w->streak_ns;
    td_buffer scratch = w->scratch; /* the chunk's below */
    td_claim c;
    w->charged = 0;
    w->scratch = (td_buffer){0};
    td_task *t = td_pool_pick(w, &c);
    if (t) {
        w->since = began;
        w->until = began + LONG_NS;
        w->streak_ns = STREAK_NS; /* this one, and nothing that it releases */
        work(w, t, &c);
        td_pool_back(p, &c);
        tell(w, TELL_NS + 1);
        free(w->scratch.data);
    }
    w->chunk_since = now = td_now_ns();
    w->since = since + (now - began);
    w->charged = charged;
    w->until = until;
    w->streak_ns = streak;
    w->scratch = scratch;
}

bool td_pool_help(td_pool *p)
{
    td_worker *w = &p->helper;
    td_claim c;
    if (!td_pool_visible(p) || !td_pool_has_idle(p)) return false;
    w->charged = 0;
    td_task *t = td_pool_pick(w, &c);
    if (td_pool_visible(p)) td_pool_wake_if_needed(p, t != NULL);
    if (!t) return false;
    w->since = td_now_ns();
    w->until = w->since + HELP_NS;
    w->streak_ns = STREAK_NS; /* this one, and nothing that it releases */
    work(w, t, &c);
    w->untold = false; /* the loop knows */
    w->untold_ns = 0;
    return true;
}

static void *worker_main(void *arg)
{
    td_worker *w = arg;
    td_pool *p = &w->s->pool;
    w->tid = (pid_t)syscall(SYS_gettid);
    setpriority(PRIO_PROCESS, (id_t)w->tid, NICE);
    td_breath_use(give_way, w);
    td_cpu_thread_init();
    while (!atomic_load(&p->stop)) {
        td_claim c;
        td_task *t = td_pool_pick(w, &c);
        if (!t) {
            tell(w, TELL_NS + 1);
            td_worker_idle(w);
            continue;
        }
        td_worker_found(w);
        w->since = td_now_ns();
        w->streak_ns = 0;
        work(w, t, &c);
        td_pool_back(p, &c);
    }
    atomic_fetch_sub(&p->running, 1);
    td_futex_wake(&p->running);
    return NULL;
}

void td_pool_post(td_pool *p, td_chain *ready, bool worker)
{
    td_task *newest = NULL, *oldest = ready->first, *t;
    double cost = 0;
    while ((t = td_chain_take(ready))) {
        cost += cost_of(t);
        t->link = newest;
        newest = t;
    }
    if (!newest) return;
    add_load(p, cost);
    td_task *head = atomic_load(&p->inbox);
    do oldest->link = head;
    while (!atomic_compare_exchange_weak(&p->inbox, &head, newest));
    td_pool_wake_if_needed(p, worker);
}

/* Signals are the loop's, but for those that a thread's own fault raises. */
static int start_worker(td_worker *w)
{
    sigset_t mask, old;
    sigfillset(&mask);
    for (size_t i = 0; i < 5; i++) sigdelset(&mask, (const int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}[i]);
    pthread_sigmask(SIG_SETMASK, &mask, &old);
    int r = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r;
}

static unsigned issue(td_executor *x, td_task *t)
{
    (void)x, (void)t;
    return 0;
}

static void go(td_executor *x, td_task *t, td_chain *ready)
{
    (void)x;
    td_chain_add(ready, t);
}

static bool stop(td_executor *x)
{
    return td_pool_stop(&x->s->pool);
}

int td_pool_init(td_pool *p, td_sched *s, int workers, td_error *e)
{
    p->executor = (td_executor){.s = s, .issue = issue, .go = go, .stop = stop};
    if (workers > TD_MAX_WORKERS) workers = TD_MAX_WORKERS;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->work.lock, NULL);
    p->work.keep = s->options.keep_bytes ? s->options.keep_bytes : WORK_KEPT;
    if (workers <= 0) return 0;
    p->workers = aligned_alloc(64, (size_t)workers * sizeof *p->workers);
    if (!p->workers) return td_no_memory(e, "for %d worker threads", workers);
    for (int i = 0; i < workers; i++) p->workers[i] = (td_worker){.s = s, .index = i, .cpu = -1};
    p->helper = (td_worker){.s = s, .index = -1, .cpu = -1, .most_ns = HELP_NS};
    p->nworkers = workers;
    for (; p->started < workers; p->started++) {
        atomic_fetch_add(&p->running, 1);
        int r = start_worker(&p->workers[p->started]);
        if (r) atomic_fetch_sub(&p->running, 1);
        if (r) return td_fail_errno(e, r, "cannot start worker thread %d of %d", p->started + 1, workers);
    }
    return 0;
}

uint64_t td_pool_worked_ns(const td_pool *p)
{
    uint64_t ns = 0;
    for (int i = 0; i < p->started; i++) {
        clockid_t clock;
        struct timespec t;
        if (pthread_getcpuclockid(p->workers[i].thread, &clock) || clock_gettime(clock, &t)) continue;
        ns += (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    }
    return ns;
}

size_t td_pool_kept(td_pool *p)
{
    pthread_mutex_lock(&p->work.lock);
    size_t bytes = p->work.bytes + p->helper.scratch.size;
    pthread_mutex_unlock(&p->work.lock);
    for (int i = 0; i < p->nworkers; i++) bytes += atomic_load_explicit(&p->workers[i].kept, memory_order_relaxed);
    return bytes;
}

bool td_pool_settle(td_pool *p)
{
    td_work_shed(&p->work);
    td_buffer_shed(&p->helper.scratch);
    if (!td_pool_kept(p)) return false;
    atomic_fetch_add(&p->settled, 1);
    td_pool_wake_all(p);
    return true;
}

/* By no clock that somebody may set. */
bool td_pool_stop(td_pool *p)
{
    atomic_store(&p->stop, true);
    td_pool_wake_all(p);
    int64_t until = td_now_ns() + STOP_S * INT64_C(1000000000), left = 1;
    for (uint32_t n; (n = atomic_load(&p->running)) && left > 0;)
        if ((left = until - td_now_ns()) > 0) td_futex_wait_for(&p->running, n, left);
    if (left <= 0) return false;
    for (; p->started > 0; p->started--) pthread_join(p->workers[p->started - 1].thread, NULL);
    return true;
}

void td_pool_deinit(td_pool *p)
{
    td_pool_stop(p);
    for (int i = 0; i < p->nworkers; i++) free(p->workers[i].scratch.data);
    for (int i = 0; i < p->work.count; i++) free(p->work.spare[i].data);
    free(p->helper.scratch.data);
    free(p->workers);
    pthread_mutex_destroy(&p->work.lock);
    pthread_mutex_destroy(&p->lock);
}
