/* The calls about queues: join, put, get, leave. What must wait is held beside the stream (held.c).
 *
 * A handle that is closed lets go of gets, and stays until the puts that were asked for before are in. */
#include "daemon/session/state.h"

#include <stdio.h>
#include <stdlib.h>

static td_queue_handle *find_queue(td_session *s, uint32_t id, td_error *e)
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
    int rc = td_account_charge(s->account, 0, 1, e);
    if (rc) return rc;
    td_queue_handle *h = calloc(1, sizeof *h);
    rc = h ? td_queue_join(&h->member, s->service, q->name, q->capacity, q->role, q->keep_ms, s->account, e)
           : td_no_memory(e, "for a queue");
    if (rc) {
        td_account_discharge(s->account, 0, 1);
        free(h);
        return rc;
    }
    h->id = q->queue;
    HASH_ADD(hh, s->queues, id, sizeof h->id, h);
    if (!TD_HASHED(h)) {
        td_queue_leave(s->service, h->member, false);
        td_account_discharge(s->account, 0, 1);
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

/* A put that waits for room, or a get for an item. */
typedef struct item_wait {
    td_held h;
    td_queue_handle *of;
    td_queue_wait *at;   /* NULL when that is over */
    td_queue_item *item; /* of a get: what came */
    size_t n_ids;        /* to bind */
    uint32_t ids[];
} item_wait;

static item_wait *item_wait_of(td_wait *w)
{
    return (item_wait *)(void *)w;
}

static void item_cancelled(td_session *s, td_wait *w)
{
    item_wait *i = item_wait_of(w);
    if (i->at) td_queue_wait_cancel(s->service, i->at);
    if (i->item) td_queue_untake(s->service, i->of->member, i->item);
    i->at = NULL;
    i->item = NULL;
}

static const char *item_whom(const td_wait *w)
{
    return td_queue_name(((const item_wait *)(const void *)w)->of->member->queue);
}

static void put_finished(td_session *s, td_wait *w);
static void get_finished(td_session *s, td_wait *w);
static const td_wait_kind for_room = {"room in a queue", .finish = put_finished, .cancel = item_cancelled,
                                      .whom = item_whom};
static const td_wait_kind for_item = {"an item of a queue", .finish = get_finished, .cancel = item_cancelled,
                                      .whom = item_whom};

static void free_handle(td_queue_handle **all, td_queue_handle *h, td_service *service, td_account *account, bool died)
{
    HASH_DEL(*all, h);
    td_queue_leave(service, h->member, died);
    td_account_discharge(account, 0, 1);
    free(h);
}

bool td_queue_handles_drop(td_queue_handle **all, td_service *service, td_account *account, int most)
{
    for (; *all && most > 0; most--) free_handle(all, *all, service, account, true);
    return !*all;
}

/* Closing: the end, once every put is in. */
static void close_when_in(td_session *s, td_queue_handle *h)
{
    if (h->puts) return;
    uint64_t serial = h->close;
    if (h->end) td_queue_end(s->service, h->member);
    free_handle(&s->queues, h, s->service, s->account, false);
    td_reply_ok(s, serial);
}

static void refuse_gets(td_session *s, const td_queue_handle *of, const td_error *why)
{
    for (td_held *h = s->held, *next; h; h = next) {
        next = h->next;
        const item_wait *w = h->wait.kind == &for_item ? item_wait_of(&h->wait) : NULL;
        if (w && w->of == of && w->at) td_held_refuse(s, h, why);
    }
}

int td_call_queue_close(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueueClose *q = call->queue_close;
    td_queue_handle *h = find_queue(s, q->queue, e);
    if (!h) return e->code;
    td_error closed = {0};
    td_fail(&closed, TD_E_CLOSED, "queue '%s' was closed while this waited for an item",
            td_queue_name(h->member->queue));
    refuse_gets(s, h, &closed);
    h->closing = true;
    h->end = q->end;
    h->close = call->serial;
    close_when_in(s, h);
    return TD_OK;
}

static void queue_moved(void *arg, td_queue_item *item, const td_error *error)
{
    item_wait *w = arg;
    w->at = NULL;
    w->item = item;
    td_held_over(&w->h, error);
}

/* The request waits; without memory for that it is as if it had not come. */
static int hold(td_session *s, const td_wait_kind *kind, td_queue_handle *of, td_queue_wait *at, uint64_t serial,
                size_t n_ids, const uint32_t *ids, td_error *e)
{
    item_wait *w = td_held_new(s, kind, sizeof *w + n_ids * sizeof *ids, serial, e);
    if (!w) {
        td_queue_wait_cancel(s->service, at);
        return e->code;
    }
    w->of = of;
    w->at = at;
    w->n_ids = n_ids;
    if (n_ids) memcpy(w->ids, ids, n_ids * sizeof *ids);
    at->arg = w;
    return TD_OK;
}

static void put_finished(td_session *s, td_wait *w)
{
    td_queue_handle *of = item_wait_of(w)->of;
    if (w->failed) td_reply_error(s, w->serial, &item_wait_of(w)->h.error);
    else td_reply_ok(s, w->serial);
    of->puts--;
    if (of->closing) close_when_in(s, of);
}

static int make_item(td_session *s, size_t n, const uint32_t *ids, const ProtobufCBinaryData *note, td_queue_item **out,
                     td_error *e)
{
    if (n > TD_MAX_ITEM) return td_fail(e, TD_E_INVALID, "an item of %zu tensors; the most is %d", n, TD_MAX_ITEM);
    td_tensor **t = malloc((n + 1) * sizeof *t);
    if (!t) return td_no_memory(e, "for an item of %zu tensors", n);
    int rc = TD_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        t[i] = td_call_tensor(s, ids[i], e);
        if (!t[i]) rc = e->code;
        else rc = td_session_check_lease(s, t[i]->storage, e);
    }
    if (!rc) rc = td_queue_item_new(out, s->account, (int)n, t, note->data, note->len, e);
    free(t);
    return rc;
}

int td_call_queue_put(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueuePut *q = call->queue_put;
    td_queue_handle *h = find_queue(s, q->queue, e);
    if (!h) return e->code;
    td_queue_item *item = NULL;
    int rc = q->timeout_ms ? td_held_room(s) : TD_OK;
    if (!rc) rc = make_item(s, q->n_ids, q->ids, &q->note, &item, e);
    if (rc) return rc;
    td_queue_wait *w = NULL;
    rc = td_queue_put(s->service, h->member, item, q->timeout_ms, &w, queue_moved, NULL, e);
    if (rc == TD_OK) {
        if (q->later) td_reply_ok_later(s, call->serial);
        else td_reply_ok(s, call->serial);
    } else if (rc == TD_WAIT) {
        rc = hold(s, &for_room, h, w, call->serial, 0, NULL, e);
        h->puts += !rc;
    } else {
        td_queue_item_free(item);
    }
    return rc;
}

/* An item's place as a session is told it: nobody else, and nobody who did not get that item, can name it. */
static uint64_t place_told(const td_session *s, const char *queue, uint64_t place)
{
    struct {
        uint32_t session, place;
        char queue[TD_NAME_MAX + 1];
    } of = {.session = s->id, .place = (uint32_t)place};
    snprintf(of.queue, sizeof of.queue, "%s", queue);
    return (uint64_t)td_hash_keyed(&of, sizeof of) << 32 | of.place;
}

/* Who got it may have left the queue since, so it is named. */
int td_call_queue_return(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueueReturn *q = call->queue_return;
    td_queue_item *item = NULL;
    if (place_told(s, q->name, q->place) != q->place)
        return td_fail(e, TD_E_INVALID, "this session has got no such item of queue '%s' that it could give back",
                       q->name);
    int rc = make_item(s, q->n_ids, q->ids, &q->note, &item, e);
    if (rc) return rc;
    item->place = (uint32_t)q->place;
    rc = td_queue_return(s->service, q->name, item, e);
    if (rc) td_queue_item_free(item);
    else td_reply_ok(s, call->serial);
    return rc;
}

/* What one tensor of an item looks like on the wire, while it is being sent. */
typedef struct tensor_wire {
    Td__Wire__Desc desc;
    Td__Wire__Address address;
    int64_t sizes[2 * TD_MAX_DIMS];
} tensor_wire;

static void send_item(td_session *s, uint64_t serial, const td_queue_item *item, uint64_t place, uint32_t left,
                      tensor_wire *w, Td__Wire__Desc **descs, Td__Wire__Address **addresses)
{
    int fd = -1;
    uint64_t outside = 0;
    bool rest = item->count > 64;
    for (int i = 0; i < item->count; i++) {
        td_desc_to_wire(&item->tensors[i]->desc, descs[i] = &w[i].desc, w[i].sizes);
        td_session_address(s, item->tensors[i]->storage, addresses[i] = &w[i].address, &fd);
        bool in = td_requires_grad(item->tensors[i]);
        if (i < 64) outside |= (uint64_t)!in << i;
        else rest = rest && !in;
    }
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Item x;
    td__wire__item__init(&x);
    x.n_descs = x.n_addresses = (size_t)item->count;
    x.descs = descs;
    x.addresses = addresses;
    x.note = (ProtobufCBinaryData){item->note_bytes, item->note};
    x.outside = outside;
    x.outside_rest = rest;
    x.left = left;
    x.place = place;
    r.serial = serial;
    r.item = &x;
    td_reply_send(s, &r, fd);
}

/* An item on its way to a client: its values may still be computed, by another session. */
typedef struct delivery {
    td_promise p;
    td_queue_item *item;
    uint64_t place; /* as it is told */
    uint32_t left;  /* behind it in the queue */
    tensor_wire *wire;
    void **lists;
} delivery;

static void delivery_clear(delivery *d)
{
    free(d->lists);
    free(d->wire);
}

/* Of the reply, about. */
static uint64_t delivery_bytes(const delivery *d)
{
    return d->item->note_bytes + (uint64_t)d->item->count * sizeof *d->wire;
}

static void delivery_forget(td_session *s, td_wait *w)
{
    (void)s;
    delivery *d = (delivery *)(void *)w;
    td_queue_item_free(d->item);
    delivery_clear(d);
}

/* What the item's tensors wait for has ended: their bytes may be read. */
static void send_delivery(td_session *s, td_wait *w)
{
    delivery *d = (delivery *)(void *)w;
    send_item(s, w->serial, d->item, d->place, d->left, d->wire, (Td__Wire__Desc **)d->lists,
              (Td__Wire__Address **)(d->lists + d->item->count));
    delivery_forget(s, w);
}

static delivery *delivery_new(td_session *s, uint64_t serial, td_queue_item *item, uint32_t left, td_error *e)
{
    static const td_wait_kind for_values = {"an item's values", .finish = send_delivery, .cancel = delivery_forget};
    size_t n = (size_t)item->count;
    delivery *d = td_promise_new(s, &for_values, sizeof *d, serial, e);
    if (!d) return NULL;
    d->item = item;
    d->left = left;
    d->wire = malloc((n + 1) * sizeof *d->wire);
    d->lists = malloc((2 * n + 1) * sizeof *d->lists);
    if (d->wire && d->lists) return d;
    delivery_clear(d);
    free(d);
    td_no_memory(e, "to deliver %zu tensors", n);
    return NULL;
}

/* Bind all the item's tensors, or none. */
static int bind_item(td_session *s, const td_queue_item *item, const uint32_t *ids, td_error *e)
{
    int rc = TD_OK, bound = 0;
    while (bound < item->count && !rc) {
        rc = td_objects_bind(&s->objects, ids[bound], td_tensor_ref(item->tensors[bound]), NULL, e);
        bound += !rc;
    }
    while (rc && bound) td_objects_release(&s->objects, ids[--bound]); /* an id was named twice */
    return rc;
}

/* It has more tensors than the call brought ids for: it stays where it is, and the client asks again. */
static int leave_item(td_session *s, td_member *m, uint64_t serial, td_queue_item *item)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Item x;
    td__wire__item__init(&x);
    x.needs = (uint32_t)item->count;
    r.serial = serial;
    r.item = &x;
    td_queue_untake(s->service, m, item);
    td_reply_send(s, &r, -1);
    return TD_OK;
}

/* Bind the item's tensors to ids; tell what they are and where they lie as soon as their values are there. Takes the
 * item over when it works. */
static int deliver(td_session *s, td_member *m, uint64_t serial, td_queue_item *item, size_t n_ids, const uint32_t *ids,
                   td_error *e)
{
    size_t n = (size_t)item->count;
    if (n > n_ids) return leave_item(s, m, serial, item);
    if (td_account_room(s->account, n, e)) return e->code;
    td_access *what = malloc((n + 1) * sizeof *what);
    delivery *d = what ? delivery_new(s, serial, item, td_queue_size(m->queue), e) : NULL;
    int rc = d ? bind_item(s, item, ids, e) : TD_E_SYSTEM;
    for (size_t i = 0; i < n && !rc; i++) {
        what[i] = (td_access){.storage = item->tensors[i]->storage};
        td_desc_extent(&item->tensors[i]->desc, &what[i].lo, &what[i].hi);
    }
    if (!rc) {
        d->place = place_told(s, td_queue_name(m->queue), item->place);
        td_promise_make(&d->p, delivery_bytes(d));
        td_sched_after(s->service->sched, (int)n, what, td_promise_keep, d);
    } else if (d) {
        delivery_clear(d);
        free(d);
    }
    free(what);
    return rc;
}

static void get_finished(td_session *s, td_wait *w)
{
    item_wait *i = item_wait_of(w);
    td_member *m = i->of->member;
    bool sent = !w->failed && deliver(s, m, w->serial, i->item, i->n_ids, i->ids, &i->h.error) == TD_OK;
    if (!sent && i->item) td_queue_untake(s->service, m, i->item);
    if (!sent) td_reply_error(s, w->serial, &i->h.error);
}

int td_call_queue_get(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueueGet *q = call->queue_get;
    td_queue_handle *h = find_queue(s, q->queue, e);
    if (!h) return e->code;
    for (size_t i = 0; i < q->n_ids; i++) {
        int rc = td_call_new_id(s, q->ids[i], e);
        if (rc) return rc;
    }
    td_queue_item *item = NULL;
    td_queue_wait *w = NULL;
    int rc = q->timeout_ms ? td_held_room(s) : TD_OK;
    if (rc) return rc;
    rc = td_queue_get(s->service, h->member, &item, q->timeout_ms, &w, queue_moved, NULL, e);
    if (rc == TD_OK) {
        rc = deliver(s, h->member, call->serial, item, q->n_ids, q->ids, e);
        if (rc) td_queue_untake(s->service, h->member, item);
    } else if (rc == TD_WAIT) {
        size_t n = q->n_ids < TD_MAX_ITEM ? q->n_ids : TD_MAX_ITEM; /* no item has more tensors */
        rc = hold(s, &for_item, h, w, call->serial, n, q->ids, e);
    }
    return rc;
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
