/* Looking at queues: at one by its name, at all of them, and at what lies in them.
 *
 * All of them, and all items, are gone through in parts, and meanwhile they come and go. So each walk has its place in
 * the service, and whatever ends first sees to it that no walk is left there. */
#include "daemon/service/queue.h"

static td_queue_info info_of(const td_named_queue *q)
{
    td_queue_info i = {.name = q->name,
                       .capacity = q->capacity,
                       .items = q->size,
                       .deaths = q->deaths,
                       .ended = q->ended,
                       .full = td_queue_full(q),
                       .keep_ms = td_queue_keeps(q),
                       .goes_ms = q->gone.armed ? q->gone.at_us / 1000 : 0,
                       .puts = q->puts,
                       .gets = q->gets,
                       .bytes = q->bytes,
                       .producers = q->producers,
                       .consumers = q->consumers,
                       .waiting_put = q->putters.count,
                       .waiting_get = q->getters.count};
    return i;
}

bool td_queue_some(td_service *s, bool first, uint32_t most, void (*fn)(const td_queue_info *q, void *arg), void *arg)
{
    td_named_queue *q = first ? s->queues : s->queues_at;
    for (; q && most; q = q->hh.next, most--) {
        td_queue_info i = info_of(q);
        fn(&i, arg);
    }
    s->queues_at = q;
    return !q;
}

bool td_queues_left(const td_service *s)
{
    return s->queues != NULL;
}

td_queue_info td_queue_look(const td_service *s, const char *name)
{
    td_named_queue *q;
    HASH_FIND_STR(s->queues, name, q);
    return q ? info_of(q) : (td_queue_info){0};
}

/* ---- what lies in them */

static void at_queue(struct td_items_at *at, td_named_queue *q)
{
    *at = (struct td_items_at){.queue = q, .item = q ? q->first : NULL, .putter = q ? q->putters.first : NULL};
}

/* Behind the items come those that wait for room. */
static void go_on(struct td_items_at *at)
{
    at->tensor = 0;
    if (at->item) at->item = at->item->next;
    else if (at->putter) at->putter = at->putter->next;
}

void td_items_pass(td_service *s, const td_queued_item *i)
{
    if (i && s->items_at.item == i) go_on(&s->items_at);
}

void td_putters_pass(td_service *s, const td_queue_wait *w)
{
    struct td_items_at *at = &s->items_at;
    if (at->putter != w) return;
    if (!at->item) at->tensor = 0;
    at->putter = w->next;
}

void td_queues_pass(td_service *s, const td_named_queue *q)
{
    if (s->queues_at == q) s->queues_at = q->hh.next;
    if (s->items_at.queue == q) at_queue(&s->items_at, q->hh.next);
}

/* Some tensors of the item that it is at. What that was worth. */
static int see_some(struct td_items_at *at, const td_queued_item *i, int most,
                    void (*fn)(const td_items_seen *, void *), void *arg)
{
    int from = at->tensor, left = i->count - from, n = left < most ? left : most;
    td_items_seen seen = {at->queue->name, i, from, from + n};
    at->tensor += n;
    if (n == left) go_on(at);
    fn(&seen, arg);
    return n + 1;
}

bool td_queue_items_some(td_service *s, bool first, int most, void (*fn)(const td_items_seen *i, void *arg), void *arg)
{
    struct td_items_at *at = &s->items_at;
    if (first) at_queue(at, s->queues);
    while (at->queue && most > 0) {
        const td_queued_item *i = at->item ? at->item : at->putter ? at->putter->item : NULL;
        if (i) {
            most -= see_some(at, i, most, fn, arg);
        } else {
            at_queue(at, at->queue->hh.next);
            most--;
        }
    }
    return !at->queue;
}
