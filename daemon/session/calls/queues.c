/* The calls about queues: join, look, leave. What goes through them: items.c.
 *
 * A handle that is closed lets go of gets, and stays until the puts that were asked for before are in. */
#include "daemon/session/calls/calls.h"

#include <stdlib.h>

enum { COST = 5 }; /* of a handle, in objects: a queue, who joined, and the names of its last dead may come with it */

td_queue_handle *td_session_queue(td_session *s, uint32_t id, td_error *e)
{
    td_queue_handle *h;
    HASH_FIND(hh, s->queues, &id, sizeof id, h);
    if (!h) td_fail(e, TD_E_NOT_FOUND, "this session has not opened a queue %u", id);
    if (!h || !h->closing) return h;
    td_fail(e, TD_E_CLOSED, "queue '%s' is being closed", td_queue_name(h->member->queue));
    return NULL;
}

static bool is_open(const td_session *s, uint32_t id)
{
    td_queue_handle *h;
    HASH_FIND(hh, s->queues, &id, sizeof id, h);
    return h != NULL;
}

int td_call_queue_open(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueueOpen *q = call->queue_open;
    if (is_open(s, q->queue)) return td_fail(e, TD_E_EXISTS, "queue handle %u is in use", q->queue);
    int rc = td_account_charge(s->account, 0, COST, e);
    if (rc) return rc;
    td_queue_handle *h = calloc(1, sizeof *h);
    rc = h ? td_queue_join(&h->member, s->service, q->name, q->capacity, q->role, q->keep_ms, s->account, e)
           : td_no_memory(e, "for a queue");
    if (rc) {
        td_account_discharge(s->account, 0, COST);
        free(h);
        return rc;
    }
    h->id = q->queue;
    HASH_ADD(hh, s->queues, id, sizeof h->id, h);
    if (!TD_HASHED(h)) {
        td_queue_leave(s->service, h->member, false);
        td_account_discharge(s->account, 0, COST);
        free(h);
        return td_no_memory(e, "for a handle of queue '%s'", q->name);
    }
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    r.serial = call->serial;
    r.queue_size = td_queue_size(h->member->queue);
    td_reply_send(s, &r, -1);
    return TD_OK;
}

static void free_handle(td_queue_handle **all, td_queue_handle *h, td_service *service, td_account *account, bool died)
{
    HASH_DEL(*all, h);
    td_queue_leave(service, h->member, died);
    td_account_discharge(account, 0, COST);
    free(h);
}

bool td_queue_handles_drop(td_queue_handle **all, td_service *service, td_account *account, int most)
{
    for (; *all && most > 0; most--) free_handle(all, *all, service, account, true);
    return !*all;
}

void td_queue_close_when_in(td_session *s, td_queue_handle *h)
{
    if (h->puts) return;
    uint64_t serial = h->close;
    if (h->end) td_queue_end(s->service, h->member);
    free_handle(&s->queues, h, s->service, s->account, false);
    td_reply_ok(s, serial);
}

int td_call_queue_close(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueueClose *q = call->queue_close;
    td_queue_handle *h = td_session_queue(s, q->queue, e);
    if (!h) return e->code;
    td_error closed = {0};
    td_fail(&closed, TD_E_CLOSED, "queue '%s' was closed while this waited for an item",
            td_queue_name(h->member->queue));
    td_queue_refuse_gets(s, h, &closed);
    h->closing = true;
    h->end = q->end;
    h->close = call->serial;
    td_queue_close_when_in(s, h);
    return TD_OK;
}

int td_call_queue_look(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueueLook *q = call->queue_look;
    (void)e;
    td_queue_info i = td_queue_look(s->service, q->name);
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__QueueState x;
    td__wire__queue_state__init(&x);
    x.items = i.items;
    x.capacity = i.capacity;
    x.producers = i.producers;
    x.consumers = i.consumers;
    x.full = i.full;
    x.ended = i.ended;
    x.keep_ms = i.keep_ms;
    r.serial = call->serial;
    r.queue = &x;
    td_reply_send(s, &r, -1);
    return TD_OK;
}
