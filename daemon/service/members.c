/* Members of queues: who joins, who leaves, who dies.
 *
 * A queue lives as long as it has members. When the last one leaves, its items stay for a time if somebody asked for
 * that, or if no consumer has ever come; else they go along. */
#include "daemon/service/queue.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static void count_member(td_named_queue *q, const td_member *m, int by)
{
    if (m->role & TD_QUEUE_PRODUCER) q->producers += by;
    if (m->role & TD_QUEUE_CONSUMER) q->consumers += by;
}

static td_named_queue *find(td_service *s, const char *name)
{
    td_named_queue *q;
    HASH_FIND_STR(s->queues, name, q);
    return q;
}

static td_named_queue *create(td_service *s, const char *name)
{
    td_named_queue *q = calloc(1, sizeof *q);
    if (!q) return NULL;
    snprintf(q->name, sizeof q->name, "%s", name);
    q->capacity = 1;
    q->last = &q->first;
    q->service = s;
    HASH_ADD_STR(s->queues, name, q);
    if (!TD_HASHED(q)) {
        free(q);
        return NULL;
    }
    s->queue_count++;
    return q;
}

/* A part of its items; what dies with them comes next, and then the queue once more. */
static void let_go(td_dead *d)
{
    enum { ITEMS = 16 };
    td_named_queue *q = (td_named_queue *)(void *)((char *)d - offsetof(td_named_queue, remains));
    if (q->size > ITEMS) td_die(&q->remains, let_go);
    for (int i = q->size < ITEMS ? (int)q->size : ITEMS; i > 0; i--) td_queue_item_free(td_queue_pop(q));
    if (q->size) return;
    free(q->dead);
    free(q);
}

static void destroy(td_service *s, td_named_queue *q)
{
    td_deadline_disarm(s, &q->gone);
    td_deadline_disarm(s, &q->more);
    td_queues_pass(s, q);
    HASH_DEL(s->queues, q);
    s->queue_count--;
    td_die(&q->remains, let_go);
}

uint32_t td_queue_keeps(const td_named_queue *q)
{
    if (q->keep_said) return q->keep_ms;
    return q->met ? 0 : TD_QUEUE_KEEP_MS;
}

/* Nobody came for what lies in it. */
static void expire(void *arg)
{
    td_named_queue *q = arg;
    destroy(q->service, q);
}

/* The first one comes to what others have left: capacity and end were theirs. */
static void revive(td_service *s, td_named_queue *q)
{
    td_deadline_disarm(s, &q->gone);
    q->sized = q->ended = false;
}

void td_queues_clear(td_service *s)
{
    for (td_named_queue *q = s->queues, *next; q; q = next) {
        next = q->hh.next;
        if (!q->members) destroy(s, q);
    }
}

int td_queue_join(td_member **out, td_service *s, const char *name, uint32_t capacity, uint32_t role, uint32_t keep_ms,
                  const td_account *who, td_error *e)
{
    *out = NULL;
    int rc = td_name_check(name, e);
    if (rc) return rc;
    if (!(role & (TD_QUEUE_PRODUCER | TD_QUEUE_CONSUMER)))
        return td_fail(e, TD_E_INVALID, "queue '%s': join as producer, consumer or both (role %u)", name, role);
    td_named_queue *q = find(s, name);
    if (q && q->members && capacity && capacity != TD_QUEUE_OPEN && q->sized && capacity != q->capacity)
        return td_fail(e, TD_E_EXISTS, "queue '%s' exists with capacity %u; asked for %u", name, q->capacity, capacity);
    bool fresh = !q;
    if (fresh && !(q = create(s, name))) return td_no_memory(e, "for queue '%s'", name);
    td_member *m = calloc(1, sizeof *m);
    if (!m) {
        if (fresh) destroy(s, q);
        return td_no_memory(e, "to join queue '%s'", name);
    }
    if (!fresh && !q->members) revive(s, q);
    if (keep_ms) q->keep_said = true, q->keep_ms = keep_ms == UINT32_MAX ? 0 : keep_ms;
    q->met |= (role & TD_QUEUE_CONSUMER) != 0;
    if (capacity == TD_QUEUE_OPEN && !q->sized) {
        q->capacity = TD_QUEUE_MOST;
        q->open = true;
    } else if (capacity && !q->sized) {
        q->capacity = capacity;
        q->sized = true;
        q->open = false;
    }
    *m = (td_member){.queue = q,
                     .role = role,
                     .session = who->session,
                     .pid = who->pid,
                     .deaths_told = q->deaths,
                     .next = q->members};
    snprintf(m->program, sizeof m->program, "%s", who->name);
    if (m->next) m->next->prev = m;
    q->members = m;
    count_member(q, m, 1);
    q->producers_ever += (role & TD_QUEUE_PRODUCER) != 0;
    *out = m;
    td_queue_settle(s, q); /* a larger capacity makes room */
    return TD_OK;
}

static void note_death(td_named_queue *q, const td_member *m)
{
    if (!q->dead) q->dead = calloc(TD_DEATHS_KEPT, sizeof *q->dead);
    if (q->dead) {
        td_death *d = &q->dead[q->deaths % TD_DEATHS_KEPT];
        d->at = q->puts;
        snprintf(d->who, sizeof d->who, "%s (pid %u)", m->program, m->pid);
    }
    q->deaths++;
    q->mourned = false;
}

static void cancel_waits(td_service *s, td_member *m, td_queue_wait *first)
{
    for (td_queue_wait *w = first, *next; w && m->waits; w = next) {
        next = w->next;
        if (w->member == m) td_queue_wait_cancel(s, w);
    }
}

void td_queue_leave(td_service *s, td_member *m, bool died)
{
    if (!m) return;
    td_named_queue *q = m->queue;
    cancel_waits(s, m, q->putters.first);
    cancel_waits(s, m, q->getters.first);
    if (m->prev) m->prev->next = m->next;
    else q->members = m->next;
    if (m->next) m->next->prev = m->prev;
    count_member(q, m, -1);
    if (died && m->role & TD_QUEUE_PRODUCER) note_death(q, m);
    free(m);
    uint32_t keeps = q->first ? td_queue_keeps(q) : 0;
    if (q->members) td_queue_settle(s, q);
    else if (keeps) td_deadline_arm(s, &q->gone, keeps, expire, q);
    else destroy(s, q);
}

void td_queue_end(td_service *s, td_member *m)
{
    m->queue->ended = true;
    td_queue_settle(s, m->queue);
}
