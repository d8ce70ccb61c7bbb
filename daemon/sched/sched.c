/* Issuing: a prepared call is run here and now, or becomes a task that waits for those it conflicts with.
 *
 * Invariant: the order in which calls are submitted is the history of every storage. A call that runs here touches no
 * bytes that a pending task touches; a task is entered in the books before the next call is looked at. A storage is
 * poisoned, and healed, at issue, or, when a task fails later, unless a later task overwrites it all. */
#include "daemon/sched/internal.h"
#include "daemon/tensor/device.h"
#include <assert.h>
#include <stdlib.h>

int td_sched_new(td_sched **out, const td_sched_options *o, td_error *e)
{
    *out = NULL;
    td_sched *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    if (!s) return td_no_memory(e, "for the scheduler");
    *s = (td_sched){.options = *o};
    for (int i = 0; i < TD_MAX_DEVICES; i++)
        if (td_loop_devices[i].executor) td_loop_devices[i].executor->s = s;
    s->reach = malloc((TD_MAX_INPUTS + TD_MAX_OUTPUTS) * sizeof *s->reach);
    s->no_memory = td_cause_new(&(td_error){.code = TD_E_SYSTEM, .message = "no memory to say what failed"});
    int r = s->reach && s->no_memory ? 0 : td_no_memory(e, "for the scheduler");
    if (!r) r = td_flow_new(&s->flow, s, e);
    if (!r) r = td_pool_init(&s->pool, s, o->workers, e);
    if (r) {
        td_sched_free(s);
        return r;
    }
    *out = s;
    return 0;
}

bool td_sched_stop(td_sched *s)
{
    td_sched_halt(s);
    bool stopped = !s->pool.executor.stop || s->pool.executor.stop(&s->pool.executor);
    for (int i = 0; i < TD_MAX_DEVICES; i++) {
        td_executor *x = td_loop_devices[i].executor;
        if (x && x->s == s) stopped &= x->stop(x);
    }
    if (stopped) td_sched_abandon(s);
    return stopped;
}

void td_sched_free(td_sched *s)
{
    if (!s) return;
    if (!td_sched_stop(s)) return; /* a worker still runs */
    td_flow_free(s->flow);
    td_pool_deinit(&s->pool);
    for (td_task *t = s->spare_tasks, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    td_hazards_free_spares(s);
    free(s->scratch.data);
    free(s->work.data);
    free(s->reach);
    td_cause_unref(s->no_memory);
    free(s);
}

void td_sched_link(td_sched *s, td_task *t)
{
    t->prev = s->newest;
    t->next = NULL;
    if (s->newest) s->newest->next = t;
    else s->oldest = t;
    s->newest = t;
}

void td_sched_unlink(td_sched *s, td_task *t)
{
    if (t->prev) t->prev->next = t->next;
    else s->oldest = t->next;
    if (t->next) t->next->prev = t->prev;
    else s->newest = t->prev;
}

td_cause *td_call_failure(td_sched *s, td_call *c)
{
    td_call_error(c, &c->k.error);
    td_cause *cause = td_cause_new(&c->k.error);
    return cause ? cause : td_cause_ref(s->no_memory);
}

void td_call_done(td_call *c)
{
    if (c->finished) c->finished(c);
    td_call_free(c);
}

static void poison_lost(td_call *c, const td_reach *reach, int n, bool wrote)
{
    for (int i = 0; i < n; i++)
        if (td_reach_lost(&reach[i], wrote)) td_storage_poison(reach[i].storage, c->cause);
    if (!wrote) td_call_unwritten(c);
}

/* Give up a call that was not entered: what it should have made is not there, and nothing else is lost. */
static void refuse(td_call *c, const td_reach *reach, int n)
{
    poison_lost(c, reach, n, false);
    td_call_done(c);
}

static void refuse_with(td_sched *s, td_call *c, const td_reach *reach, int n, td_code code, const char *why)
{
    td_fail(&c->k.error, code, "%s", why);
    atomic_store_explicit(&c->k.failed, code, memory_order_relaxed);
    c->cause = td_call_failure(s, c);
    refuse(c, reach, n);
}

/* ---- here and now */

static bool run_phases(td_sched *s, td_kcall *k, int *phase)
{
    void *scratch = k->scratch_bytes ? td_buffer_fit(&s->scratch, k->scratch_bytes) : NULL;
    if (k->work_bytes) k->work = td_buffer_fit(&s->work, k->work_bytes);
    *phase = -1;
    if ((k->scratch_bytes && !scratch) || (k->work_bytes && !k->work)) {
        td_kernel_fail(k, TD_E_MEMORY, "no memory for %zu bytes of work space", k->scratch_bytes + k->work_bytes);
        return false;
    }
    for (*phase = 0; *phase < k->nphases; ++*phase) {
        td_chunk_fn fn = k->phase[*phase].fn;
        int64_t chunks = k->phase[*phase].chunks;
        for (int64_t i = 0; i < chunks && !atomic_load_explicit(&k->failed, memory_order_relaxed); i++)
            fn(k, i, scratch);
        s->inline_chunks += (uint64_t)chunks;
        if (atomic_load_explicit(&k->failed, memory_order_relaxed)) return false;
    }
    return true;
}

static void failed_here(td_sched *s, td_call *c, int phase)
{
    c->cause = td_call_failure(s, c);
    poison_lost(c, s->reach, td_call_reaches(s, c), td_call_wrote(c, phase));
}

static void run_here(td_sched *s, td_call *c)
{
    int phase = 0;
    s->run_inline++;
    if (!run_phases(s, &c->k, &phase)) failed_here(s, c, phase);
    td_buffer_trim(&s->scratch, TD_KEEP_SCRATCH);
    td_buffer_trim(&s->work, TD_KEEP_SCRATCH);
    td_call_done(c);
}

/* Nothing at all is known about its storages: the way of most small calls. */
static inline bool is_quiet(const td_call *c)
{
    for (int i = 0; i < c->nin; i++) {
        const td_storage *st = td_call_in_storage(c, i);
        if (st && (st->hazards || st->poison)) return false;
    }
    for (int i = 0; i < c->nout; i++) {
        const td_storage *st = c->out[i] ? c->out[i]->storage : NULL;
        if (st && (st->hazards || st->poison)) return false;
    }
    return true;
}

static bool conflicts(const td_reach *reach, int n)
{
    for (int i = 0; i < n; i++)
        if (td_hazards_conflict(&reach[i])) return true;
    return false;
}

/* ---- as a task */

/* Everything it takes to enter the task, so that nothing can fail half-way. */
static td_task *make_task(td_sched *s, td_task_kind kind, const td_reach *reach, int n)
{
    if (!td_task_reserve(s, 1)) return NULL;
    td_task *t = td_task_new(s, kind);
    if (td_task_room_for_reaches(t, n)) {
        memcpy(t->reaches, reach, (size_t)n * sizeof *reach);
        t->nreaches = n;
        if (td_hazards_gather(t) && td_hazards_reserve(s, reach, n)) return t;
    }
    td_task_unref(s, t);
    return NULL;
}

static void enter(td_sched *s, td_task *t)
{
    td_chain ready = {0};
    td_sched_link(s, t);
    s->pending++;
    td_hazards_enter(s, t, &ready);
    td_task_connect(s, t, &ready);
    td_pool_post(&s->pool, &ready, s->options.helped);
}

/* What a call runs on; NULL: the loop may run it, too. */
static inline td_executor *executor_of(const td_call *c)
{
    return td_loop_devices[c->k.device].executor;
}

static void issue(td_sched *s, td_call *c, const td_reach *reach, int n)
{
    td_executor *x = executor_of(c) ? executor_of(c) : &s->pool.executor;
    td_error why;
    if (x->reserve && x->reserve(x, &why)) {
        refuse_with(s, c, s->reach, n, why.code, why.message);
        return;
    }
    td_task *t = make_task(s, TD_TASK_CALL, reach, n);
    if (!t) {
        refuse_with(s, c, s->reach, n, TD_E_SYSTEM, "no memory to queue it");
        return;
    }
    td_call_hold(c);
    c->task = t;
    t->call = c;
    t->flow = c->who && c->who->flow ? c->who->flow : s->flow;
    t->number = t->flow->number;
    t->given = !td_call_makes(c);
    t->executor = x;
    td_flow_add(t->flow, t);
    t->stream = x->issue(x, t);
    enter(s, t);
}

static td_cause *poison_of(const td_reach *reach, int n)
{
    for (int i = 0; i < n; i++)
        if ((reach[i].flags & TD_REACH_READ || td_storage_lost(reach[i].storage)) && reach[i].storage->poison)
            return reach[i].storage->poison;
    return NULL;
}

static void submit_slowly(td_sched *s, td_call *c, bool small)
{
    int n = td_call_reaches(s, c);
    td_cause *poison = c->cause ? NULL : poison_of(s->reach, n);
    if (poison) c->cause = td_cause_ref(poison);
    if (c->cause) {
        refuse(c, s->reach, n);
        return;
    }
    if (s->stopping) {
        refuse_with(s, c, s->reach, n, TD_E_CANCELLED, "the daemon is stopping");
        return;
    }
    if (!small || conflicts(s->reach, n)) {
        issue(s, c, s->reach, n);
        return;
    }
    for (int i = 0; i < n; i++)
        if (s->reach[i].flags & TD_REACH_WHOLE) td_storage_heal(s->reach[i].storage);
    run_here(s, c);
}

void td_sched_submit(td_sched *s, td_call *c)
{
    if (c->flags & TD_CF_VIEW) {
        td_call_done(c);
        return;
    }
    bool small = c->k.cost_ns < s->options.inline_ns || (c->flags & TD_CF_INLINE_ONLY) || !s->pool.nworkers;
    small &= !executor_of(c);
    if (small && !c->cause && !s->stopping && is_quiet(c)) run_here(s, c);
    else submit_slowly(s, c, small);
}

bool td_sched_pending(const td_storage *st, uint64_t lo, uint64_t hi, bool write)
{
    td_reach r = {.storage = (td_storage *)st, .lo = lo, .hi = hi, .flags = write ? TD_REACH_WRITE : TD_REACH_READ};
    return td_hazards_pending(&r);
}

bool td_sched_overwritten(const td_call *c, const td_storage *st)
{
    const td_task *t = c->task;
    return t && td_hazards_healed(st, t->seq);
}

uint64_t td_sched_issued(const td_sched *s)
{
    return s->seq;
}

bool td_sched_issued_until(const td_call *c, uint64_t number)
{
    const td_task *t = c->task;
    return t && t->seq <= number;
}

bool td_sched_pending_until(const td_sched *s, uint64_t number)
{
    return s->oldest && s->oldest->seq <= number;
}

/* ---- waiting for a storage */

td_waiter *td_sched_after(td_sched *s, int n, const td_access *what, void (*then)(void *arg), void *arg)
{
    td_reach *reach = n <= TD_MAX_INPUTS ? s->reach : malloc((size_t)n * sizeof *reach);
    bool wait = !reach;
    for (int i = 0; reach && i < n; i++) {
        uint8_t flags = what[i].write ? TD_REACH_READ | TD_REACH_WRITE : TD_REACH_READ;
        reach[i] =
            (td_reach){.storage = what[i].storage, .lo = what[i].lo, .hi = what[i].hi, .slot = -1, .flags = flags};
        wait |= td_hazards_pending(&reach[i]);
    }
    td_waiter *w = wait && reach ? calloc(1, sizeof *w) : NULL;
    td_task *t = w ? make_task(s, TD_TASK_WAITER, reach, n) : NULL;
    if (reach != s->reach) free(reach);
    if (!t) {
        free(w);
        if (wait) td_sched_drain(s); /* no memory to remember it with */
        then(arg);
        return NULL;
    }
    td_task_keep(t);
    *w = (td_waiter){.then = then, .arg = arg, .task = t};
    t->waiter = w;
    enter(s, t);
    return w;
}
