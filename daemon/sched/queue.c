/* The queues of ready tasks: a flow's in the order they became ready, the flows by what they were given.
 *
 * Invariant: virtual time is fair. Each claim charges its estimated cost to the flow, which is corrected when it is
 * known how long it took; the flow that was charged least is served next; who comes back from being idle starts at the
 * time of the least served, so that it is served at the next end of a chunk and gains nothing else. Workers hold the
 * lock for tens of nanoseconds; the loop never takes it, because a worker may lose its processor while it holds it: it
 * posts through the inbox. */
#include "daemon/sched/internal.h"

static int64_t vtime(const td_flow *f)
{
    return atomic_load_explicit(&f->vtime, memory_order_relaxed);
}

static td_flow *least_served(const td_pool *p)
{
    td_flow *best = p->ready;
    for (td_flow *f = p->ready; f; f = f->ready_next)
        if (vtime(f) < vtime(best)) best = f;
    return best;
}

static void flow_listed(td_pool *p, td_flow *f)
{
    if (p->ready && vtime(least_served(p)) > p->clock) p->clock = vtime(least_served(p));
    if (vtime(f) < p->clock) atomic_store_explicit(&f->vtime, p->clock, memory_order_relaxed);
    f->ready_prev = NULL;
    f->ready_next = p->ready;
    if (p->ready) p->ready->ready_prev = f;
    p->ready = f;
    atomic_store(&f->ready, true);
    atomic_fetch_add(&p->nready, 1);
}

static void flow_unlisted(td_pool *p, td_flow *f)
{
    if (!f->ready_prev && !f->ready_next && vtime(f) > p->clock) p->clock = vtime(f);
    if (f->ready_prev) f->ready_prev->ready_next = f->ready_next;
    else p->ready = f->ready_next;
    if (f->ready_next) f->ready_next->ready_prev = f->ready_prev;
    atomic_store(&f->ready, false);
    atomic_fetch_sub(&p->nready, 1);
}

static void list_task(td_pool *p, td_task *t, bool first)
{
    td_flow *f = t->flow;
    t->listed = true;
    if (first && f->tasks.first) {
        t->link = f->tasks.first;
        f->tasks.first = t;
    } else td_chain_add(&f->tasks, t);
    if (!atomic_load_explicit(&f->ready, memory_order_relaxed)) flow_listed(p, f);
}

/* Its share as a user goes to the caller. */
static void unlist_task(td_pool *p, td_task *t)
{
    td_flow *f = t->flow;
    td_task *before = NULL;
    for (td_task *i = f->tasks.first; i != t; i = i->link) before = i; /* open tasks are at the front */
    if (before) before->link = t->link;
    else f->tasks.first = t->link;
    if (f->tasks.last == t) f->tasks.last = before;
    t->listed = false;
    if (!f->tasks.first) flow_unlisted(p, f);
}

static void absorb_inbox(td_pool *p)
{
    td_task *in = atomic_exchange(&p->inbox, NULL), *oldest = NULL;
    for (td_task *next; in; in = next) {
        next = in->link;
        in->link = oldest;
        oldest = in;
    }
    for (td_task *next; oldest; oldest = next) {
        next = oldest->link;
        list_task(p, oldest, false);
    }
}

bool td_task_claim(td_task *t, td_claim *c, int64_t *charged)
{
    bool failed =
        atomic_load_explicit(&t->call->k.failed, memory_order_relaxed); /* nothing is run: take all the rest */
    int64_t grain = failed ? t->chunks : t->grain;
    c->first = atomic_fetch_add_explicit(&t->next_chunk, grain, memory_order_relaxed);
    c->count = t->chunks - c->first;
    if (c->count <= 0) return false;
    c->last = c->count <= grain;
    if (!c->last) c->count = grain;
    int64_t cost = failed ? 1 : (int64_t)(t->chunk_ns * (double)c->count) + 1;
    atomic_fetch_add_explicit(&t->flow->vtime, cost, memory_order_relaxed);
    *charged += cost;
    return true;
}

/* A claim on a listed task. NULL: its last chunk was claimed just now, by someone who is about to unlist it. */
static td_task *attach(td_pool *p, td_task *t, td_claim *c, int64_t *charged)
{
    if (!t->open) { /* nobody else knows it: it becomes the picker's own */
        unlist_task(p, t);
        c->count = 0;
        return t;
    }
    bool got = td_task_claim(t, c, charged);
    if (got && !c->last) atomic_fetch_add_explicit(&t->users, 1, memory_order_relaxed);
    else unlist_task(p, t);
    if (!got) atomic_fetch_sub_explicit(&t->users, 1, memory_order_relaxed);
    return got ? t : NULL;
}

static bool is_at(const td_worker *w, const td_flow *f)
{
    for (int i = 0; i < w->ways; i++)
        if (w->at[i] == f) return true;
    return false;
}

/* Who was given least of those that this worker is not at. */
static td_flow *next_flow(const td_pool *p, const td_worker *w)
{
    if (!w->ways) return p->ready ? least_served(p) : NULL;
    td_flow *best = NULL;
    for (td_flow *f = p->ready; f; f = f->ready_next)
        if (!is_at(w, f) && (!best || vtime(f) < vtime(best))) best = f;
    return best;
}

td_task *td_pool_pick(td_worker *w, td_claim *c)
{
    td_pool *p = &w->s->pool;
    td_task *t = NULL;
    td_flow *f;
    pthread_mutex_lock(&p->lock);
    absorb_inbox(p);
    while (!t && (f = next_flow(p, w))) t = attach(p, f->tasks.first, c, &w->charged);
    pthread_mutex_unlock(&p->lock);
    return t;
}

void td_pool_list(td_pool *p, td_task *t)
{
    pthread_mutex_lock(&p->lock);
    atomic_store_explicit(&t->users, 2, memory_order_relaxed);
    list_task(p, t, true);
    pthread_mutex_unlock(&p->lock);
}

void td_pool_unlist(td_pool *p, td_task *t)
{
    pthread_mutex_lock(&p->lock);
    if (t->listed) {
        unlist_task(p, t);
        atomic_fetch_sub_explicit(&t->users, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&p->lock);
}
