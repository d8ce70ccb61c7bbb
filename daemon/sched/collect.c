/* Collecting: what has ended comes back to the loop, in an order in which causes precede their effects.
 *
 * Invariant: a task is collected after everything that it waited for, because an ended task is pushed to the ends
 * before its successors are released. So a failure is known, and its storages poisoned, before anything that depends on
 * it is looked at; and what a callback finds is settled. */
#include "daemon/sched/internal.h"
#include <assert.h>
#include <stdlib.h>

bool td_ends_push(td_sched *s, td_task *t)
{
    td_task *head = atomic_load_explicit(&s->ends, memory_order_relaxed);
    do t->link = head;
    while (!atomic_compare_exchange_weak(&s->ends, &head, t));
    return !head;
}

void td_ends_tell(td_sched *s)
{
    if (s->options.wake) s->options.wake(s->options.arg);
    if (!atomic_load(&s->draining)) return;
    atomic_fetch_add(&s->drain_word, 1);
    td_futex_wake(&s->drain_word);
}

/* The next that has ended, oldest first. */
static td_task *take_ended(td_sched *s)
{
    if (!s->ended.first) {
        td_task *t = atomic_exchange_explicit(&s->ends, NULL, memory_order_acquire);
        s->ended.last = t;
        for (td_task *next; t; t = next) {
            next = t->link;
            t->link = s->ended.first;
            s->ended.first = t;
        }
    }
    return td_chain_take(&s->ended);
}

/* ---- failures */

/* The cause of the first, in the order of issue, that failed among those it read from. */
static void inherit_cause(td_task *t)
{
    const td_task *first = NULL;
    for (int i = 0; i < t->nedges; i++) {
        const td_task *from = t->edges[i].from;
        uint8_t data = t->edges[i].data; /* without any it may be gone */
        if (!data || !td_task_infects(t, data, td_task_bad(from), td_task_unwritten(from))) continue;
        if (!first || from->cause_seq < first->cause_seq) first = from;
    }
    assert(first && "a task is not run for a reason");
    t->cause = td_cause_ref(first->cause);
    t->cause_seq = first->cause_seq;
}

/* What is lost is not there, unless a later task writes all of it. */
static void poison_outputs(td_task *t, bool wrote)
{
    for (int i = 0; i < t->nreaches; i++) {
        td_storage *st = t->reaches[i].storage;
        if (td_reach_lost(&t->reaches[i], wrote) && !td_hazards_healed(st, t->seq)) td_storage_poison(st, t->cause);
    }
}

static void settle_failure(td_sched *s, td_task *t)
{
    td_call *c = t->call;
    bool failed = c && atomic_load_explicit(&c->k.failed, memory_order_relaxed);
    if (failed && !t->astray) {
        t->cause = td_call_failure(s, c);
        t->cause_seq = t->seq;
    } else if (td_task_failed(t)) inherit_cause(t); /* on garbage anything fails: that is not the cause */
    if (!t->cause || !c) return;
    c->cause = td_cause_ref(t->cause);
    bool wrote = failed ? td_task_wrote(t) : t->astray;
    if (td_task_bad(t)) poison_outputs(t, wrote);
    if (!wrote) td_call_unwritten(c);
}

/* ---- ends */

static void drop_edges(td_sched *s, td_task *t)
{
    for (int i = 0; i < t->nedges; i++)
        if (t->edges[i].data) td_task_unref(s, t->edges[i].from);
}

/* Its time has come: the callback runs while those who came later still wait. */
static void end_waiter(td_sched *s, td_task *t, td_chain *ready)
{
    td_waiter *w = t->waiter;
    if (w) {
        td_waiter fired = *w;
        free(w);
        t->waiter = NULL;
        fired.then(fired.arg);
    }
    td_task_end_waiter(s, t, ready);
}

static void collect(td_sched *s, td_task *t)
{
    td_chain ready = {0};
    td_flow *f = t->flow;
    settle_failure(s, t);
    td_hazards_retire(s, t);
    t->collected = true;
    td_task_release_late(s, t, &ready);
    td_sched_unlink(s, t);
    drop_edges(s, t);
    if (f) td_flow_remove(f, t);
    if (t->kind != TD_TASK_JOIN) s->pending--;
    if (t->call) td_call_done(t->call);
    if (t->kind == TD_TASK_WAITER) end_waiter(s, t, &ready);
    td_task_unkeep(t);
    td_pool_post(&s->pool, &ready, s->options.helped);
    td_task_unref(s, t);
    if (!f) return;
    td_flow_fire(f);
    td_flow_unref(f);
}

bool td_sched_collect(td_sched *s, int most)
{
    td_task *t;
    for (; most > 0 && (t = take_ended(s)); most--) collect(s, t);
    return s->ended.first || atomic_load_explicit(&s->ends, memory_order_relaxed);
}

void td_sched_drain(td_sched *s)
{
    atomic_store(&s->draining, true);
    while (s->oldest) {
        uint32_t seen = atomic_load(&s->drain_word);
        if (s->ended.first || atomic_load(&s->ends)) td_sched_collect(s, 1 << 30);
        else {
            td_sched_urge(s);
            td_futex_wait(&s->drain_word, seen);
        }
    }
    atomic_store(&s->draining, false);
}

/* ---- the end of all */

static void cancel(td_sched *s, td_task *t)
{
    td_call *c = t->call;
    if (c && !td_task_failed(t)) {
        if (t->work_size) td_work_give(&s->pool.work, (td_buffer){c->k.work, t->work_size});
        td_kernel_fail(&c->k, TD_E_CANCELLED, "the daemon is stopping");
        atomic_store_explicit(&t->bad, true, memory_order_relaxed);
    }
    collect(s, t);
}

/* In the order of issue: so what a task waited for is always gone before it. */
void td_sched_halt(td_sched *s)
{
    s->stopping = true;
    for (td_task *t = s->oldest; t; t = t->next)
        if (t->call) td_kernel_fail(&t->call->k, TD_E_CANCELLED, "the daemon is stopping");
}

void td_sched_abandon(td_sched *s)
{
    s->stopping = true;
    td_sched_collect(s, 1 << 30);
    while (s->oldest) {
        cancel(s, s->oldest);
        td_sched_collect(s, 1 << 30); /* what ended by that */
    }
}

bool td_sched_help(td_sched *s)
{
    return td_pool_help(&s->pool);
}

void td_sched_urge(td_sched *s)
{
    if (td_pool_visible(&s->pool)) td_pool_wake_if_needed(&s->pool, false);
}

uint64_t td_sched_worked_ns(const td_sched *s)
{
    return td_pool_worked_ns(&s->pool);
}

bool td_sched_is_here(const td_sched *s)
{
    return td_pool_is_here(&s->pool);
}

bool td_sched_idle(const td_sched *s)
{
    return s->pending == 0;
}

void td_sched_get_stats(const td_sched *s, td_sched_stats *out)
{
    *out = (td_sched_stats){.pending = s->pending, .run_inline = s->run_inline, .chunks = s->inline_chunks};
    out->workers = (uint64_t)s->pool.nworkers;
    for (int i = -1; i < s->pool.nworkers; i++) {
        const td_worker *w = i < 0 ? &s->pool.helper : &s->pool.workers[i];
        out->run_pool += atomic_load_explicit(&w->tasks, memory_order_relaxed);
        out->chunks += atomic_load_explicit(&w->chunks, memory_order_relaxed);
        out->busy_ns += (double)atomic_load_explicit(&w->busy_ns, memory_order_relaxed);
    }
}

size_t td_sched_kept(td_sched *s)
{
    return s->scratch.size + s->work.size + td_pool_kept(&s->pool);
}

bool td_sched_settle(td_sched *s)
{
    td_buffer_shed(&s->scratch);
    td_buffer_shed(&s->work);
    return td_pool_settle(&s->pool);
}
