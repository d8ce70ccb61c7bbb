/* Flows: one session's tasks in the order of issue, and who waits for them.
 *
 * Invariant: the list holds exactly the tasks that were issued and not collected, oldest first; so everything issued
 * before some moment has ended when the oldest one is younger than that moment. A flow lives until its owner has let go
 * and its last task is collected. Loop thread only; the pool's part of a flow is in pool.c. */
#include "daemon/sched/internal.h"
#include <assert.h>
#include <stdlib.h>

int td_flow_new(td_flow **out, td_sched *s, td_error *e)
{
    td_flow *f = *out = calloc(1, sizeof *f);
    if (!f) return td_no_memory(e, "for a session's queue");
    f->s = s;
    f->refs = 1;
    f->share = &f->own;
    f->number = ++s->flows;
    return 0;
}

td_share *td_share_new(void)
{
    td_share *s = calloc(1, sizeof *s);
    if (s) s->refs = 1;
    return s;
}

void td_share_unref(td_share *s)
{
    if (s && --s->refs == 0) free(s);
}

void td_flow_join(td_flow *f, td_share *s)
{
    assert(f->share == &f->own && !f->oldest);
    f->share = s;
    s->refs++;
}

void td_flow_charge_to(td_flow *f, td_account *account)
{
    assert(!f->account && !f->oldest);
    f->account = td_account_ref(account);
}

/* A call that waits, its task, what its storages know of it, and all of its operands; in objects. */
static uint64_t cost_of_task(const td_task *t)
{
    enum { EACH = sizeof(td_input) + sizeof(td_reach) + sizeof(td_task_edge) + 128 /* as its kernel sees it */ };
    uint64_t more = t->nreaches > TD_TASK_REACHES ? (uint64_t)t->nreaches * EACH : 0;
    return td_objects_of(sizeof(td_call) + sizeof(td_task) + td_hazards_size + more);
}

void td_flow_free(td_flow *f)
{
    if (f) td_flow_unref(f);
}

uint64_t td_flow_pending(const td_flow *f)
{
    return f->pending;
}
uint64_t td_flow_pending_bytes(const td_flow *f)
{
    return f->pending_bytes;
}
uint64_t td_flow_ended(const td_flow *f)
{
    return f->ended;
}
uint64_t td_flow_waiting_ns(const td_flow *f)
{
    return f->oldest ? f->pending_ns - f->oldest->asked_ns : 0;
}

/* Bytes of the storages that a task fills whole: most were made for it. */
static uint64_t filled_by(const td_task *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < t->nreaches; i++)
        if (t->reaches[i].flags & TD_REACH_WHOLE) bytes += t->reaches[i].hi - t->reaches[i].lo;
    return bytes;
}

void td_flow_ref(td_flow *f)
{
    f->refs++;
}
void td_flow_unref(td_flow *f)
{
    assert(f->refs);
    if (--f->refs) return;
    assert(!f->oldest && !f->first_waiter);
    if (f->share != &f->own) td_share_unref(f->share);
    td_account_unref(f->account);
    free(f);
}

/* In time of one thread. A device runs a stream's calls one by one, and all workers wait for as long. Of estimates many
 * add up, and one may be beyond all numbers, or what rounding left of nothing. */
static uint64_t asked_of(const td_flow *f, const td_task *t)
{
    const td_pool *p = &f->s->pool;
    bool away = t->executor && t->executor != &p->executor;
    const double most = 1e15, ns = !t->call ? 0 : t->call->k.cost_ns * (away ? p->nworkers + 1 : 1);
    return ns <= 0 ? 0 : (uint64_t)(ns < most ? ns : most);
}

void td_flow_add(td_flow *f, td_task *t)
{
    td_flow_ref(f);
    if (f->account)
        td_account_add(f->account, 0, cost_of_task(t)); /* its owner asks for no more where objects are few */
    f->pending++;
    f->pending_bytes += filled_by(t);
    t->asked_ns = asked_of(f, t);
    f->pending_ns += t->asked_ns;
    t->flow_prev = f->newest;
    t->flow_next = NULL;
    if (f->newest) f->newest->flow_next = t;
    else f->oldest = t;
    f->newest = t;
}

void td_flow_remove(td_flow *f, td_task *t)
{
    f->pending--;
    if (f->account) td_account_discharge(f->account, 0, cost_of_task(t));
    f->ended++;
    f->pending_bytes -= filled_by(t);
    f->pending_ns -= t->asked_ns;
    if (f->withering == t) f->withering = t->flow_prev;
    if (t->flow_prev) t->flow_prev->flow_next = t->flow_next;
    else f->oldest = t->flow_next;
    if (t->flow_next) t->flow_next->flow_prev = t->flow_prev;
    else f->newest = t->flow_prev;
}

static void unlink_waiter(td_flow *f, td_waiter *w)
{
    if (w->prev) w->prev->next = w->next;
    else f->first_waiter = w->next;
    if (w->next) w->next->prev = w->prev;
    else f->last_waiter = w->prev;
    td_flow_unref(f);
}

void td_flow_fire(td_flow *f)
{
    td_flow_ref(f);
    td_waiter *w;
    while ((w = f->first_waiter) && (!f->oldest || f->oldest->seq > w->seq)) {
        td_waiter fired = *w;
        unlink_waiter(f, w);
        free(w);
        fired.then(fired.arg);
    }
    td_flow_unref(f);
}

td_waiter *td_sched_after_flow(td_sched *s, td_flow *f, void (*then)(void *arg), void *arg)
{
    td_waiter *w = f->oldest ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        if (f->oldest) td_sched_drain(s); /* no memory to remember it with: wait for it */
        then(arg);
        return NULL;
    }
    *w = (td_waiter){.then = then, .arg = arg, .flow = f, .seq = f->newest->seq, .prev = f->last_waiter};
    if (f->last_waiter) f->last_waiter->next = w;
    else f->first_waiter = w;
    f->last_waiter = w;
    td_flow_ref(f);
    return w;
}

void td_waiter_cancel(td_waiter *w)
{
    if (!w) return;
    if (w->task) w->task->waiter = NULL; /* it keeps its place, and nothing happens there */
    else unlink_waiter(w->flow, w);
    free(w);
}
