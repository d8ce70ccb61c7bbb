/* Queues: bounded first-in first-out lists of tensors with a note, and who waits for room or for an item.
 *
 * Getters and putters that cannot go on wait in two lists, in order of arrival, and are told at once when the other
 * side is gone: a wait never hangs on somebody who died. A deadline says whom it waited for. */
#include "daemon/service/queue.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_NAMED = 3 };

static void push(td_named_queue *q, td_queued_item *i)
{
    i->next = NULL;
    *q->last = i;
    q->last = &i->next;
    q->size++;
    q->note_bytes += i->note_bytes;
    q->bytes += i->bytes;
    i->place = q->puts++;
}

td_queued_item *td_queue_pop(td_named_queue *q)
{
    td_queued_item *i = q->first;
    if (!i) return NULL;
    q->first = i->next;
    if (!q->first) q->last = &q->first;
    q->size--;
    q->note_bytes -= i->note_bytes;
    q->bytes -= i->bytes;
    q->gets++;
    i->next = NULL;
    return i;
}

static td_queued_item *take_first(td_service *s, td_named_queue *q)
{
    td_items_pass(s, q->first);
    return td_queue_pop(q);
}

bool td_queue_full(const td_named_queue *q)
{
    return q->size >= q->capacity || (q->open && q->note_bytes >= TD_QUEUE_MOST_BYTES);
}

/* "3 of 4", or what else it is full of. */
static const char *content(const td_named_queue *q, char *text, size_t size)
{
    if (q->size >= q->capacity || !td_queue_full(q)) snprintf(text, size, "%u of %u", q->size, q->capacity);
    else snprintf(text, size, "%u items, %u MB beside their tensors", q->size, (unsigned)(q->note_bytes >> 20));
    return text;
}

static bool is_watching(const td_queue_wait *w)
{
    return !w->put && w->member->role & TD_QUEUE_WATCH;
}

static void waits_append(td_queue_wait *w)
{
    td_named_queue *q = w->member->queue;
    td_queue_waits *l = w->put ? &q->putters : &q->getters;
    w->prev = l->last;
    w->next = NULL;
    *(w->prev ? &w->prev->next : &l->first) = w;
    l->last = w;
    l->count++;
    w->member->waits++;
    q->bytes += w->bytes;
    q->watching += is_watching(w);
}

static void waits_remove(td_queue_wait *w)
{
    td_named_queue *q = w->member->queue;
    td_queue_waits *l = w->put ? &q->putters : &q->getters;
    *(w->prev ? &w->prev->next : &l->first) = w->next;
    *(w->next ? &w->next->prev : &l->last) = w->prev;
    l->count--;
    w->member->waits--;
    q->bytes -= w->bytes;
    td_putters_pass(q->service, w);
    q->watching -= is_watching(w);
}

/* End a wait: off the list, its deadline off, then its callback as the last step. */
static void finish_wait(td_service *s, td_queue_wait *w, td_queued_item *item, const td_error *error)
{
    void (*then)(void *, td_queued_item *, const td_error *) = w->then;
    void *arg = w->await.arg;
    w->item = NULL;
    td_queue_wait_cancel(s, w);
    then(arg, item, error);
}

void td_queue_wait_cancel(td_service *s, td_queue_wait *w)
{
    if (!w) return;
    waits_remove(w);
    td_deadline_disarm(s, &w->await.deadline);
    td_queue_item_free(w->item);
    free(w);
}

/* Is there no one left who could ever put? */
static bool no_more_puts(const td_named_queue *q)
{
    return q->ended || (q->producers_ever && q->producers == 0 && !q->putters.first);
}

/* Number `nr` of the queue's deaths; of those that are not kept any more the oldest that is. NULL: nothing is known. */
static const td_death *death(const td_named_queue *q, uint32_t nr)
{
    if (q->deaths - nr > TD_DEATHS_KEPT) nr = q->deaths - TD_DEATHS_KEPT;
    return q->dead ? &q->dead[nr % TD_DEATHS_KEPT] : NULL;
}

static int closed_for_get(const td_named_queue *q, td_error *e)
{
    if (q->ended) return td_fail(e, TD_E_CLOSED, "queue '%s' has ended and is empty", q->name);
    return td_fail(e, TD_E_CLOSED, "queue '%s' is empty and has no producer any more%s%s", q->name,
                   q->dead ? "; the last to die was " : "", q->dead ? death(q, q->deaths - 1)->who : "");
}

static int closed_for_put(const td_named_queue *q, td_error *e)
{
    return td_fail(e, TD_E_CLOSED, "queue '%s' has ended: nothing more can be put", q->name);
}

static bool death_untold(const td_member *m)
{
    const td_named_queue *q = m->queue;
    if (!(m->role & TD_QUEUE_WATCH) || m->deaths_told == q->deaths) return false;
    const td_death *d = death(q, m->deaths_told);
    return !d || q->gets >= d->at;
}

static int tell_death(td_member *m, td_error *e)
{
    const td_named_queue *q = m->queue;
    const td_death *d = death(q, m->deaths_told);
    bool named = d && q->deaths - m->deaths_told <= TD_DEATHS_KEPT;
    m->deaths_told++;
    return td_fail(e, TD_E_DIED, "a producer of queue '%s' died: %s; %u left", q->name,
                   named ? d->who : "one of many, its name is not kept", q->producers);
}

/* Whoever waits for an item and has a death to be told. Only after a death one looks for these: who waits later was
 * told before, unless items come first. */
static td_queue_wait *mourner(td_named_queue *q, td_queue_wait *from)
{
    td_queue_wait *g = q->mourned || !q->watching ? NULL : from;
    while (g && !death_untold(g->member)) g = g->next;
    if (!g && !q->first) q->mourned = true;
    return g;
}

/* One wait: false when none can go on. */
static bool settle_one(td_service *s, td_named_queue *q, td_queue_wait **mourning)
{
    td_error e = {0};
    td_queue_wait *p = q->putters.first, *g = q->getters.first;
    if (p && q->ended) {
        td_queue_item_free(p->item);
        closed_for_put(q, &e);
        finish_wait(s, p, NULL, &e);
    } else if (p && !td_queue_full(q)) {
        push(q, p->item);
        finish_wait(s, p, NULL, NULL);
    } else if (g && q->first) {
        finish_wait(s, g, take_first(s, q), NULL);
    } else if (g && no_more_puts(q)) {
        closed_for_get(q, &e);
        finish_wait(s, g, NULL, &e);
    } else if ((g = mourner(q, *mourning ? *mourning : g))) { /* the others stay as they are meanwhile */
        *mourning = g->next;
        tell_death(g->member, &e);
        finish_wait(s, g, NULL, &e);
    } else {
        return false;
    }
    return true;
}

static void settle_more(void *queue)
{
    td_named_queue *q = queue;
    td_queue_settle(q->service, q);
}

void td_queue_settle(td_service *s, td_named_queue *q)
{
    enum { MOVE_MOST = 256 }; /* the loop has others to serve */
    td_queue_wait *mourning = NULL;
    int n = 0;
    while (n < MOVE_MOST && settle_one(s, q, &mourning)) n++;
    if (n == MOVE_MOST) td_deadline_arm(s, &q->more, 1, settle_more, q);
    else td_deadline_disarm(s, &q->more);
}

/* "its consumers are train (pid 7), show (pid 8)", or that it has none; but for the one that asks. */
static const char *others(const td_named_queue *q, const td_member *but, uint32_t role, char *text, size_t size)
{
    const char *what = role == TD_QUEUE_PRODUCER ? "producer" : "consumer";
    uint32_t n = 0;
    size_t at = 0;
    for (const td_member *m = q->members; m; m = m->next) {
        if (m == but || !(m->role & role)) continue;
        if (n++ < MOST_NAMED && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s (pid %u)", n > 1 ? ", " : "", m->program, m->pid);
    }
    if (n > MOST_NAMED && at < size) snprintf(text + at, size - at, " and %u more", n - MOST_NAMED);
    if (!n) snprintf(text, size, "nobody: no other %s has joined", what);
    return text;
}

static void wait_expired(void *arg)
{
    td_queue_wait *w = arg;
    td_named_queue *q = w->member->queue;
    td_error e = {0};
    char whom[256], what[64];
    others(q, w->member, w->put ? TD_QUEUE_CONSUMER : TD_QUEUE_PRODUCER, whom, sizeof whom);
    if (w->put)
        td_fail(&e, TD_E_TIMEOUT, "queue '%s' stayed full (%s); waited for %s", q->name, content(q, what, sizeof what),
                whom);
    else td_fail(&e, TD_E_TIMEOUT, "queue '%s' stayed empty; waited for %s", q->name, whom);
    void (*then)(void *, td_queued_item *, const td_error *) = w->then;
    void *owner = w->await.arg;
    waits_remove(w);
    td_queue_item_free(w->item);
    free(w);
    then(owner, NULL, &e);
}

static void wait_cancel(td_service *s, td_await *a)
{
    td_queue_wait_cancel(s, (td_queue_wait *)(void *)a);
}

static const char *waited(const td_await *a)
{
    return ((const td_queue_wait *)(const void *)a)->member->queue->name;
}

static const td_await_kind for_queue = {wait_cancel, waited};

static int wait_new(td_service *s, td_member *m, td_queued_item *item, uint32_t timeout_ms, td_queue_wait **out,
                    void (*then)(void *, td_queued_item *, const td_error *), void *arg, td_error *e)
{
    td_named_queue *q = m->queue;
    char what[64];
    if (timeout_ms == 0)
        return td_fail(e, TD_E_TIMEOUT, item ? "queue '%s' is full (%s)" : "queue '%s' is empty (%s)", q->name,
                       content(q, what, sizeof what));
    td_queue_wait *w = calloc(1, sizeof *w);
    if (!w) return td_no_memory(e, "to wait for queue '%s'", q->name);
    *w = (td_queue_wait){.await = {.kind = &for_queue, .arg = arg},
                         .member = m,
                         .put = item != NULL,
                         .item = item,
                         .bytes = item ? item->bytes : 0,
                         .then = then};
    waits_append(w);
    if (timeout_ms != UINT32_MAX) td_deadline_arm(s, &w->await.deadline, timeout_ms, wait_expired, w);
    *out = w;
    return TD_WAIT;
}

int td_queue_put(td_service *s, td_member *m, td_queued_item *item, uint32_t timeout_ms, td_queue_wait **wait,
                 void (*then)(void *, td_queued_item *, const td_error *), void *arg, td_error *e)
{
    td_named_queue *q = m->queue;
    if (!(m->role & TD_QUEUE_PRODUCER))
        return td_fail(e, TD_E_PERMISSION, "queue '%s' was joined as consumer only", q->name);
    if (q->ended) return closed_for_put(q, e);
    if (td_queue_full(q) || q->putters.first) return wait_new(s, m, item, timeout_ms, wait, then, arg, e);
    push(q, item);
    td_queue_settle(s, q);
    return TD_OK;
}

int td_queue_get(td_service *s, td_member *m, td_queued_item **item, uint32_t timeout_ms, td_queue_wait **wait,
                 void (*then)(void *, td_queued_item *, const td_error *), void *arg, td_error *e)
{
    td_named_queue *q = m->queue;
    *item = NULL;
    if (!(m->role & TD_QUEUE_CONSUMER))
        return td_fail(e, TD_E_PERMISSION, "queue '%s' was joined as producer only", q->name);
    if (death_untold(m)) return tell_death(m, e);
    if (q->first && !q->getters.first) {
        *item = take_first(s, q);
        td_queue_settle(s, q);
        return TD_OK;
    }
    if (!q->first && no_more_puts(q)) return closed_for_get(q, e);
    return wait_new(s, m, NULL, timeout_ms, wait, then, arg, e);
}

enum { FAR = 1024 };

static bool lies_there(const td_named_queue *q, uint64_t place)
{
    const td_queued_item *at = q->first;
    for (int n = 0; at && at->place < place && n < FAR; n++) at = at->next;
    return at && at->place == place;
}

/* Before what was put after it. What was taken lies near the front; a place that was made up is looked for no further.
 */
static void put_back(td_named_queue *q, td_queued_item *item)
{
    td_queued_item **at = &q->first;
    for (int n = 0; *at && (*at)->place < item->place && n < FAR; n++) at = &(*at)->next;
    item->next = *at;
    *at = item;
    if (!item->next) q->last = &item->next;
    q->size++;
    q->note_bytes += item->note_bytes;
    q->bytes += item->bytes;
    q->gets -= q->gets > 0;
}

td_named_queue *td_queue_named(td_service *s, const char *name, td_error *e)
{
    td_named_queue *q;
    HASH_FIND_STR(s->queues, name, q);
    if (!q) td_fail(e, TD_E_NOT_FOUND, "queue '%s' is gone, with what lay in it", name);
    return q;
}

int td_queue_return(td_service *s, td_named_queue *q, td_queued_item *item, td_error *e)
{
    uint64_t all = UINT32_MAX, place = (q->puts & ~all) | (item->place & all); /* the last with these bits */
    if (place >= q->puts) place -= all + 1;
    if (place >= q->puts || lies_there(q, place))
        return td_fail(e, TD_E_INVALID, "no such item has been taken from queue '%s'", q->name);
    item->place = place;
    put_back(q, item);
    td_queue_settle(s, q);
    return TD_OK;
}

const char *td_queue_name(const td_named_queue *q)
{
    return q->name;
}

uint32_t td_queue_size(const td_named_queue *q)
{
    return q->size;
}
