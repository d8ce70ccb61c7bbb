/* The queues of ready tasks: a flow's in the order they became ready, the flows of a share and the shares by what they
 * were given.
 *
 * Invariant: virtual time is fair, twice. Each claim charges its estimated cost to the flow and to its share, which is
 * corrected when it is known how long it took; of the share that was charged least, the flow that was charged least is
 * served next; who comes back from being idle starts at the time of the least served, so that it is served at the next
 * end of a chunk and gains nothing else. Workers hold the lock for tens of nanoseconds; the loop, which waits for
 * nobody, does not wait for it to find something either, because a worker may lose its processor while it holds it; and
 * it posts through the inbox. */
#include "daemon/sched/internal.h"

#define ON_TOP_NS 2e6 /* a chunk may lie so long on top of one that gave way, or twice as long as that one takes */

static int64_t vtime(const td_due *d)
{
    return atomic_load_explicit(&d->vtime, memory_order_relaxed);
}

static td_due *least_served(const td_dues *all)
{
    td_due *best = all->first;
    for (td_due *d = all->first; d; d = d->next)
        if (vtime(d) < vtime(best)) best = d;
    return best;
}

static void due_listed(td_dues *all, td_due *d)
{
    if (all->first && vtime(least_served(all)) > all->clock) all->clock = vtime(least_served(all));
    if (vtime(d) < all->clock) atomic_store_explicit(&d->vtime, all->clock, memory_order_relaxed);
    d->prev = NULL;
    d->next = all->first;
    if (all->first) all->first->prev = d;
    all->first = d;
}

static void due_unlisted(td_dues *all, td_due *d)
{
    if (!d->prev && !d->next && vtime(d) > all->clock) all->clock = vtime(d);
    if (d->prev) d->prev->next = d->next;
    else all->first = d->next;
    if (d->next) d->next->prev = d->prev;
}

static void flow_listed(td_pool *p, td_flow *f)
{
    if (!f->share->flows.first) due_listed(&p->shares, &f->share->due);
    due_listed(&f->share->flows, &f->due);
    atomic_store(&f->ready, true);
    atomic_fetch_add(&p->nready, 1);
}

static void flow_unlisted(td_pool *p, td_flow *f)
{
    due_unlisted(&f->share->flows, &f->due);
    if (!f->share->flows.first) due_unlisted(&p->shares, &f->share->due);
    atomic_store(&f->ready, false);
    atomic_fetch_sub(&p->nready, 1);
}

void td_flow_charge(td_flow *f, int64_t ns)
{
    atomic_fetch_add_explicit(&f->due.vtime, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&f->share->due.vtime, ns, memory_order_relaxed);
}

/* After a change of which task is its first. */
static void note_first(td_pool *p, td_flow *f)
{
    bool lasting = f->tasks.first && td_task_is_lasting(f->tasks.first);
    if (lasting == atomic_load_explicit(&f->lasting, memory_order_relaxed)) return;
    atomic_store(&f->lasting, lasting);
    atomic_fetch_add(&p->nlasting, lasting ? 1 : -1);
}

static void list_task(td_pool *p, td_task *t, bool first)
{
    td_flow *f = t->flow;
    t->listed = true;
    if (first && f->tasks.first) {
        t->link = f->tasks.first;
        f->tasks.first = t;
    } else td_chain_add(&f->tasks, t);
    note_first(p, f);
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
    note_first(p, f);
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
    td_flow_charge(t->flow, cost);
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

/* May it lie on top of what this worker is at? That one waits for the end of one of its chunks. */
static bool is_short(const td_worker *w, const td_task *t)
{
    double takes = td_task_chunk_ns(t);
    return takes <= ON_TOP_NS || takes <= 2 * w->at_ns[w->ways - 1];
}

/* Is it nothing for the loop, which must come back soon, and whose scratch nobody has paid for? */
static bool is_too_much(const td_worker *w, const td_task *t)
{
    return w->most_ns > 0 && (td_task_is_lasting(t) || td_task_chunk_ns(t) > w->most_ns ||
                              t->call->k.scratch_bytes > TD_KEEP_SCRATCH);
}

/* May this worker go to it, beside what it is at? */
static bool may_take(const td_worker *w, const td_flow *f, bool all_away)
{
    if (all_away && atomic_load_explicit(&f->lasting, memory_order_relaxed)) return false;
    if (is_too_much(w, f->tasks.first)) return false;
    return !w->ways || (!is_at(w, f) && is_short(w, f->tasks.first));
}

/* Who was given least of those that this worker may go to; NULL: there are none in this share. */
static td_flow *least_served_of(const td_share *s, const td_worker *w, bool all_away)
{
    td_flow *best = NULL;
    for (td_due *d = s->flows.first; d; d = d->next)
        if ((!best || vtime(d) < vtime(&best->due)) && may_take(w, td_flow_of(d), all_away)) best = td_flow_of(d);
    return best;
}

static td_flow *next_flow(td_pool *p, const td_worker *w)
{
    bool all_away = atomic_load(&p->nlasting) > 0 && td_pool_all_away(p);
    td_flow *best = NULL;
    if (!p->shares.first) return NULL;
    if (!w->ways && !all_away && !(w->most_ns > 0))
        return td_flow_of(least_served(&td_share_of(least_served(&p->shares))->flows));
    for (td_due *d = p->shares.first; d; d = d->next) {
        bool less = !best || vtime(d) < vtime(&best->share->due);
        td_flow *f = less ? least_served_of(td_share_of(d), w, all_away) : NULL;
        if (f) best = f;
    }
    return best;
}

td_task *td_pool_pick(td_worker *w, td_claim *c)
{
    td_pool *p = &w->s->pool;
    td_task *t = NULL;
    td_flow *f;
    if (w != &p->helper) pthread_mutex_lock(&p->lock);
    else if (pthread_mutex_trylock(&p->lock)) return NULL;
    absorb_inbox(p);
    while (!t && (f = next_flow(p, w))) t = attach(p, f->tasks.first, c, &w->charged);
    c->away = t && td_task_is_lasting(t);
    if (c->away) atomic_fetch_add(&p->away, 1);
    pthread_mutex_unlock(&p->lock);
    return t;
}

void td_pool_back(td_pool *p, td_claim *c)
{
    if (!c->away) return;
    c->away = false;
    atomic_fetch_sub(&p->away, 1);
    if (atomic_load(&p->nlasting)) td_pool_wake_if_needed(p, true);
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
