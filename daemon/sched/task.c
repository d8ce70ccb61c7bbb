/* Tasks: what loop and workers share. A task counts what it waits for, and keeps a list of who waits for it.
 *
 * Invariant: an edge is in exactly one of two states. Either it was pushed before the list of its predecessor was
 * closed, and then the thread that closed it releases it, exactly once; or it found the list closed, and then the loop,
 * which alone pushes, knows that the predecessor has ended. Memory is safe because the loop alone frees tasks, and only
 * when it has collected them: the thread that ends a task touches nothing of it after pushing it to the ends, and edges
 * belong to their successor, which cannot end before all of them were released. */
#include "daemon/sched/internal.h"
#include "proto/base/device.h"
#include <assert.h>
#include <stdlib.h>

enum { SPARE_MOST = 4096 };

bool td_task_reserve(td_sched *s, int n)
{
    while (s->nspare_tasks < n) {
        td_task *t = aligned_alloc(64, (sizeof *t + 63) / 64 * 64);
        if (!t) return false;
        t->next = s->spare_tasks;
        s->spare_tasks = t;
        s->nspare_tasks++;
    }
    return true;
}

td_task *td_task_new(td_sched *s, td_task_kind kind)
{
    td_task *t = s->spare_tasks;
    assert(t && "td_task_reserve came first");
    s->spare_tasks = t->next;
    s->nspare_tasks--;
    memset(t, 0, offsetof(td_task, reaches_inline));
    t->kind = (uint8_t)kind;
    t->refs = 1;
    t->seq = ++s->seq;
    t->room_edges = TD_TASK_EDGES;
    t->reaches = t->reaches_inline;
    t->edges = t->edges_inline;
    atomic_store_explicit(&t->waits, 1, memory_order_relaxed);
    return t;
}

void td_task_unref(td_sched *s, td_task *t)
{
    assert(t->refs);
    if (--t->refs) return;
    if (t->reaches != t->reaches_inline) free(t->reaches);
    if (t->edges != t->edges_inline) free(t->edges);
    td_cause_unref(t->cause);
    if (s->nspare_tasks >= SPARE_MOST) {
        free(t);
        return;
    }
    t->next = s->spare_tasks;
    s->spare_tasks = t;
    s->nspare_tasks++;
}

bool td_task_room_for_reaches(td_task *t, int n)
{
    if (n <= TD_TASK_REACHES) return true;
    td_reach *r = malloc((size_t)n * sizeof *r);
    if (r) t->reaches = r;
    return r != NULL;
}

static bool grow_edges(td_task *t)
{
    int room = t->room_edges * 4;
    td_task_edge *e = malloc((size_t)room * sizeof *e);
    if (!e) return false;
    memcpy(e, t->edges, (size_t)t->nedges * sizeof *e);
    if (t->edges != t->edges_inline) free(t->edges);
    t->edges = e;
    t->room_edges = room;
    return true;
}

bool td_task_depend(td_task *t, td_task *from, uint8_t data)
{
    assert(from != t);
    if (from->mark == t->seq) {
        t->edges[from->mark_edge].data |= data;
        return true;
    }
    if (t->nedges == t->room_edges && !grow_edges(t)) return false;
    from->mark = t->seq;
    from->mark_edge = t->nedges;
    t->edges[t->nedges++] = (td_task_edge){.from = from, .to = t, .data = data};
    return true;
}

/* False when the list was closed already. */
static bool push(td_task_edge *e)
{
    td_task_edge *head = atomic_load_explicit(&e->from->successors, memory_order_acquire);
    do {
        if (head == TD_CLOSED) return false;
        e->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&e->from->successors, &head, e, memory_order_acq_rel,
                                                    memory_order_acquire));
    return true;
}

/* Its predecessor has ended. Does it have to wait until the loop has collected that one? It does for the cause of a
 * failure; a waiter always does, because its callback wants to find everything settled. */
static bool is_late(const td_task_edge *e)
{
    return !e->from->collected && (e->to->kind == TD_TASK_WAITER || (e->data && td_task_failed(e->from)));
}

/* `n` of the things it waits for are done with. */
static void release(td_sched *s, td_task *t, int n, td_chain *ready, td_chain *over, bool *tell)
{
    if (atomic_fetch_sub_explicit(&t->waits, n, memory_order_acq_rel) != n) return;
    if (t->kind == TD_TASK_WAITER) *tell |= td_ends_push(s, t);
    else if (t->kind == TD_TASK_JOIN || (td_task_failed(t) && !t->stream)) td_chain_add(over, t);
    else t->executor->go(t->executor, t, ready); /* in a stream it ends in its turn, also when it has failed */
}

static td_task_edge *reversed(td_task_edge *e)
{
    td_task_edge *r = NULL;
    while (e) {
        td_task_edge *next = e->next;
        e->next = r;
        r = e;
        e = next;
    }
    return r;
}

/* How a task ended, for those behind it. */
typedef struct fate {
    bool bad;
    uint64_t unwritten;
} fate;

static inline fate fate_of(const td_task *t)
{
    return (fate){td_task_bad(t), td_task_unwritten(t)};
}

/* A task that is not run has written nothing, so of what was there before nothing is lost by it; but what was lost
 * before, it does not bring back. */
static void infect(td_task *to, uint8_t data, fate f)
{
    if (!td_task_infects(to, data, f.bad, f.unwritten)) return;
    bool lost = f.bad ? data & TD_DATA_KEPT || !to->given : !to->given && to->kind != TD_TASK_JOIN;
    if (lost) atomic_store_explicit(&to->bad, true, memory_order_relaxed);
    else atomic_store_explicit(&to->unwritten, f.bad ? to->number : f.unwritten, memory_order_relaxed);
}

/* Release those on a list, first come first. Nothing of the predecessor is touched. */
static void release_all(td_sched *s, td_task_edge *list, fate f, td_chain *ready, td_chain *over, bool *tell)
{
    for (td_task_edge *e = reversed(list), *next; e; e = next) {
        next = e->next; /* before its owner may end */
        td_task *to = e->to;
        infect(to, e->data, f);
        release(s, to, 1, ready, over, tell);
    }
}

static td_task_edge *close_list(td_task *t)
{
    td_task_edge *list = atomic_exchange_explicit(&t->successors, TD_CLOSED, memory_order_acq_rel);
    assert(list != TD_CLOSED);
    return list;
}

/* End what is on `over`, and what ends by that. A loop, because chains of joins and of failures may be long. True: the
 * loop has to be told. */
static bool end_all(td_sched *s, td_chain *over, td_chain *ready, bool tell)
{
    td_task *t;
    while ((t = td_chain_take(over))) {
        fate f = fate_of(t);
        td_task_edge *list = close_list(t);
        tell |= td_ends_push(s, t); /* before the successors: the loop collects in this order */
        release_all(s, list, f, ready, over, &tell);
    }
    return tell;
}

bool td_task_end(td_sched *s, td_task *t, td_chain *ready)
{
    td_chain over = {0};
    td_chain_add(&over, t);
    return end_all(s, &over, ready, false);
}

void td_task_end_waiter(td_sched *s, td_task *t, td_chain *ready)
{
    td_chain over = {0};
    bool tell = false;
    release_all(s, close_list(t), (fate){0}, ready, &over, &tell);
    if (end_all(s, &over, ready, tell)) td_ends_tell(s);
}

void td_task_release_late(td_sched *s, td_task *t, td_chain *ready)
{
    td_chain over = {0};
    bool tell = false;
    td_task_edge *list = t->late;
    t->late = NULL;
    release_all(s, list, fate_of(t), ready, &over, &tell);
    if (end_all(s, &over, ready, tell)) td_ends_tell(s);
}

/* Does its executor see to the order, by a stream or an event? */
static bool is_ordered(const td_task_edge *e)
{
    const td_task *from = e->from, *to = e->to;
    td_executor *x = to->executor;
    if (!to->stream || !from->stream || from->executor != x) return false;
    return from->stream == to->stream || (x->after && x->after(x, e->to, from));
}

void td_task_connect(td_sched *s, td_task *t, td_chain *ready)
{
    int unneeded = 1; /* the guard */
    atomic_fetch_add_explicit(&t->waits, t->nedges, memory_order_relaxed);
    for (int i = 0; i < t->nedges; i++) {
        td_task_edge *e = &t->edges[i];
        if (e->data) e->from->refs++; /* its cause may be asked for */
        if ((e->ordered = is_ordered(e))) {
            unneeded++;
            continue;
        }
        if (push(e)) continue;
        if (is_late(e)) {
            e->next = e->from->late;
            e->from->late = e;
        } else unneeded++;
    }
    td_chain over = {0};
    bool tell = false;
    release(s, t, unneeded, ready, &over, &tell);
    if (end_all(s, &over, ready, tell)) td_ends_tell(s);
}

/* ---- for executors */

uint64_t td_task_flow(const td_task *t)
{
    return t->flow->number;
}

unsigned td_task_stream(const td_task *t)
{
    return t->stream;
}

uint64_t td_task_place(const td_task *t)
{
    return t->place;
}

void td_task_set_place(td_task *t, uint64_t place)
{
    t->place = place;
}

int td_task_naccesses(const td_task *t)
{
    return t->nreaches;
}

td_access td_task_access(const td_task *t, int i)
{
    const td_reach *r = &t->reaches[i];
    return (td_access){r->storage, r->lo, r->hi, r->flags & TD_REACH_WRITE};
}

/* The memory that it would work on has gone since it was issued. */
static bool reaches_lost(const td_task *t)
{
    for (int i = 0; t->stream && i < t->nreaches; i++)
        if (td_storage_lost(t->reaches[i].storage)) return true;
    return false;
}

td_call *td_task_begin(td_task *t)
{
    uint8_t queued = TD_TASK_QUEUED;
    t->open = true;
    for (int i = 0; i < t->nedges; i++) {
        const td_task_edge *e = &t->edges[i];
        if (e->data && e->ordered) infect(t, e->data, fate_of(e->from));
    }
    if (!atomic_compare_exchange_strong(&t->state, &queued, TD_TASK_BEGUN)) return NULL;
    if (reaches_lost(t))
        td_kernel_fail(&t->call->k, TD_E_DEVICE, "%s failed before this ran; what it was to work on is lost",
                       td_device_name(t->call->k.device));
    t->ran = !td_task_failed(t) && !atomic_load_explicit(&t->call->k.failed, memory_order_relaxed);
    return t->ran ? t->call : NULL;
}

/* It was begun before those ahead of it in its stream had ended, and one of these failed: so it ran on garbage, and
 * what it wrote is lost. Where its own kernel failed before it wrote, all is as though it had not run. */
static void settle(td_task *t)
{
    bool wrote = !atomic_load_explicit(&t->call->k.failed, memory_order_relaxed) || td_task_wrote(t);
    for (int i = 0; i < t->nedges; i++) {
        const td_task_edge *e = &t->edges[i];
        fate f = e->data && e->ordered ? fate_of(e->from) : (fate){0};
        if (!td_task_infects(t, e->data, f.bad, f.unwritten)) continue;
        t->astray = true;
        if (wrote) atomic_store_explicit(&t->bad, true, memory_order_relaxed);
        else infect(t, e->data, f);
    }
}

void td_task_device_failed(td_task *t)
{
    td_kcall *k = &t->call->k;
    td_kernel_fail(k, TD_E_DEVICE, "%s failed while this ran; what it was to write there is lost",
                   td_device_name(k->device));
    t->chunks = 1;
    t->phase = k->clean_phases; /* it may have begun to write */
}

void td_task_phase(td_task *t, int phase, int64_t chunks)
{
    t->phase = (uint8_t)phase;
    t->chunks = chunks;
}

void td_task_done(td_task *t)
{
    td_sched *s = t->executor->s;
    td_chain ready = {0};
    if (t->ran) settle(t);
    td_pool_leave(&s->pool, t);
    bool tell = td_task_end(s, t, &ready);
    td_pool_post(&s->pool, &ready, false);
    if (tell) td_ends_tell(s);
}
