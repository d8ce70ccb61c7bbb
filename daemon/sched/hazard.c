/* Hazards: for each storage, who is going to read and write which of its bytes.
 *
 * Invariant: two pending tasks that touch common bytes, one of them writing, are ordered as they were issued, by a path
 * of edges. So an entry may be dropped as soon as every later access that meets it also meets a later entry that is
 * ordered behind it: when a write covers it, or when the list was full and a join took the place of its entries. The
 * books belong to the loop thread; a storage without pending tasks has none. */
#include "daemon/sched/internal.h"
#include <assert.h>
#include <stdlib.h>

#define ENTRIES 8 /* of one kind; more are joined */

enum { READERS = 0, WRITERS = 1 };

typedef struct td_hazard {
    td_task *task;
    uint64_t lo, hi;
    int reach; /* of the task */
} td_hazard;

typedef struct td_hazard_list {
    int n;
    td_hazard at[ENTRIES];
} td_hazard_list;

struct td_hazards {
    td_hazards *next;
    uint64_t healed; /* seq of the last task that overwrites it all */
    td_hazard_list list[2];
};

const uint32_t td_hazards_size = sizeof(td_hazards);

/* May its list overflow when `n` entries come? */
static bool may_overflow(const td_reach *r, int n)
{
    const td_hazards *h = r->storage->hazards;
    return h && h->list[r->flags & TD_REACH_WRITE ? WRITERS : READERS].n + n > ENTRIES;
}

bool td_hazards_reserve(td_sched *s, const td_reach *reach, int n)
{
    int joins = n / (ENTRIES - 1); /* a join makes room for so many */
    for (int i = 0; i < n; i++) joins += may_overflow(&reach[i], n);
    if (!td_task_reserve(s, joins)) return false;
    while (s->nspare_hazards < n) {
        td_hazards *h = malloc(sizeof *h);
        if (!h) return false;
        h->next = s->spare_hazards;
        s->spare_hazards = h;
        s->nspare_hazards++;
    }
    return true;
}

void td_hazards_free_spares(td_sched *s)
{
    while (s->spare_hazards) {
        td_hazards *h = s->spare_hazards;
        s->spare_hazards = h->next;
        free(h);
    }
    s->nspare_hazards = 0;
}

static td_hazards *hazards_of(td_sched *s, td_storage *st)
{
    if (st->hazards) return st->hazards;
    td_hazards *h = s->spare_hazards;
    assert(h && "td_hazards_reserve came first");
    s->spare_hazards = h->next;
    s->nspare_hazards--;
    h->healed = 0;
    h->list[READERS].n = h->list[WRITERS].n = 0;
    st->hazards = h;
    return h;
}

static void drop_if_empty(td_sched *s, td_storage *st)
{
    td_hazards *h = st->hazards;
    if (h->list[READERS].n || h->list[WRITERS].n) return;
    st->hazards = NULL;
    h->next = s->spare_hazards;
    s->spare_hazards = h;
    s->nspare_hazards++;
}

static inline bool meets(const td_hazard *h, const td_reach *r)
{
    return h->lo < r->hi && r->lo < h->hi;
}
static inline bool covers(const td_reach *r, const td_hazard *h)
{
    return r->lo <= h->lo && h->hi <= r->hi;
}

static bool any(const td_hazard_list *l, const td_reach *r, bool ended_too)
{
    for (int i = 0; i < l->n; i++)
        if (meets(&l->at[i], r) && (ended_too || !td_task_over(l->at[i].task))) return true;
    return false;
}

static bool any_conflict(const td_reach *r, bool ended_too)
{
    const td_hazards *h = r->storage->hazards;
    if (!h) return false;
    if (any(&h->list[WRITERS], r, ended_too)) return true;
    return (r->flags & TD_REACH_WRITE) && any(&h->list[READERS], r, ended_too);
}

bool td_hazards_conflict(const td_reach *r)
{
    return any_conflict(r, false);
}

bool td_hazards_pending(const td_reach *r)
{
    return any_conflict(r, true);
}

static bool writes_to(const td_task *t, const td_storage *st)
{
    for (int i = 0; i < t->nreaches; i++)
        if (t->reaches[i].storage == st && t->reaches[i].flags & TD_REACH_WRITE) return true;
    return false;
}

/* Wait for a pending writer: for what it leaves there, if this one reads it, or if it writes around it and so takes its
 * entry over. */
static bool after_writer(td_task *t, const td_reach *r, const td_hazard *h)
{
    bool takes_over = (r->flags & TD_REACH_WRITE) && !(r->flags & TD_REACH_DENSE) && covers(r, h);
    uint8_t data = takes_over ? TD_DATA_KEPT : 0;
    if (r->flags & TD_REACH_READ) data |= writes_to(t, r->storage) ? TD_DATA_READ | TD_DATA_KEPT : TD_DATA_READ;
    return td_task_depend(t, h->task, data);
}

static bool gather(td_task *t, const td_reach *r)
{
    const td_hazards *h = r->storage->hazards;
    if (!h) return true;
    const td_hazard_list *w = &h->list[WRITERS], *rd = &h->list[READERS];
    for (int i = 0; i < w->n; i++)
        if (meets(&w->at[i], r) && !after_writer(t, r, &w->at[i])) return false;
    if (!(r->flags & TD_REACH_WRITE)) return true;
    for (int i = 0; i < rd->n; i++)
        if (meets(&rd->at[i], r) && !td_task_depend(t, rd->at[i].task, 0)) return false;
    return true;
}

bool td_hazards_gather(td_task *t)
{
    for (int i = 0; i < t->nreaches; i++)
        if (!gather(t, &t->reaches[i])) return false;
    return true;
}

static void drop(td_hazards *h, int kind, int i)
{
    td_hazard_list *l = &h->list[kind];
    l->at[i].task->reaches[l->at[i].reach].slot = -1;
    if (i == --l->n) return;
    l->at[i] = l->at[l->n];
    l->at[i].task->reaches[l->at[i].reach].slot = (int16_t)(kind * ENTRIES + i);
}

static void add(td_hazards *h, int kind, td_task *t, int reach)
{
    td_hazard_list *l = &h->list[kind];
    td_reach *r = &t->reaches[reach];
    assert(l->n < ENTRIES);
    r->slot = (int16_t)(kind * ENTRIES + l->n);
    l->at[l->n++] = (td_hazard){.task = t, .lo = r->lo, .hi = r->hi, .reach = reach};
}

/* The list is full: one task takes the place of all, on the bytes between the lowest and the highest. */
static void join(td_sched *s, td_hazards *h, td_storage *st, int kind, td_chain *ready)
{
    td_hazard_list *l = &h->list[kind];
    td_task *j = td_task_new(s, TD_TASK_JOIN);
    td_reach *r = &j->reaches[j->nreaches++];
    *r = (td_reach){.storage = st, .lo = UINT64_MAX};
    td_task_keep(j); /* it may be the last that stands in the books */
    while (l->n) {
        td_hazard *e = &l->at[l->n - 1];
        if (e->lo < r->lo) r->lo = e->lo;
        if (e->hi > r->hi) r->hi = e->hi;
        td_task_depend(j, e->task,
                       kind == WRITERS ? TD_DATA_READ | TD_DATA_KEPT
                                       : 0); /* never more than fit into the task itself */
        drop(h, kind, l->n - 1);
    }
    td_sched_link(s, j);
    add(h, kind, j, 0);
    td_task_connect(s, j, ready);
}

/* Make room for one more entry: forget who has ended, then join. */
static void make_room(td_sched *s, td_hazards *h, td_storage *st, int kind, td_chain *ready)
{
    td_hazard_list *l = &h->list[kind];
    if (l->n < ENTRIES) return;
    for (int i = l->n - 1; i >= 0; i--)
        if (td_task_over(l->at[i].task)) drop(h, kind, i);
    if (l->n == ENTRIES) join(s, h, st, kind, ready);
}

static void drop_covered(td_hazards *h, int kind, const td_reach *r)
{
    for (int i = h->list[kind].n - 1; i >= 0; i--)
        if (covers(r, &h->list[kind].at[i])) drop(h, kind, i);
}

void td_hazards_enter(td_sched *s, td_task *t, td_chain *ready)
{
    _Static_assert(ENTRIES <= TD_TASK_EDGES, "a join needs no memory");
    for (int i = 0; i < t->nreaches; i++) {
        td_reach *r = &t->reaches[i];
        td_hazards *h = hazards_of(s, r->storage);
        int kind = r->flags & TD_REACH_WRITE ? WRITERS : READERS;
        if (kind == WRITERS) {
            drop_covered(h, READERS, r);
            drop_covered(h, WRITERS, r);
        }
        if (r->flags & TD_REACH_WHOLE) {
            h->healed = t->seq;
            td_storage_heal(r->storage);
        }
        make_room(s, h, r->storage, kind, ready);
        add(h, kind, t, i);
    }
}

void td_hazards_retire(td_sched *s, td_task *t)
{
    for (int i = 0; i < t->nreaches; i++) {
        td_reach *r = &t->reaches[i];
        if (r->slot < 0) continue; /* a later entry stands for it */
        drop(r->storage->hazards, r->slot / ENTRIES, r->slot % ENTRIES);
        drop_if_empty(s, r->storage);
    }
}

bool td_hazards_healed(const td_storage *st, uint64_t seq)
{
    const td_hazards *h = st->hazards;
    return h && h->healed > seq;
}
