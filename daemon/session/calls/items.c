/* Items on their way through queues: put, get, give back. What must wait is held beside the stream (stream/held.c).
 *
 * An item may have thousands of tensors and a note of megabytes, so it travels in parts: one that is put is gathered by
 * a job, unless one part is all of it; one that comes is delivered by the turns of its get (deliver.h). */
#include "daemon/session/calls/deliver.h"

#include <stdio.h>
#include <stdlib.h>

enum { SOME = 64, SOME_BYTES = 64 << 10 }; /* tensors, bytes of the note: one part */

static size_t part(size_t done, size_t all, size_t most)
{
    return all - done < most ? all - done : most;
}

/* ---- gathering what is put */

typedef struct gathering {
    td_job job;
    const Td__Wire__Call *call; /* in the session's arena: as long as its stream stands still */
    size_t n, noted, packed;    /* packed: what it has so far takes in the answer to a get */
    const uint32_t *ids;
    const ProtobufCBinaryData *note;
    td_queued_item *item;
    /* When all is there; takes the item over. */
    int (*then)(td_session *s, const Td__Wire__Call *call, td_queued_item *item, td_error *e);
} gathering;

/* What is shared on purpose, and what is part of a graph, is the same tensor for all. */
static bool is_kept(const td_tensor *t)
{
    return !(t->storage->flags & (TD_SF_SERVICE | TD_SF_RACY)) && !td_requires_grad(t);
}

/* Some more of it; TD_AGAIN: that was not all, or a write lease is in the way. */
static int gather(td_session *s, gathering *g, td_error *e)
{
    td_queued_item *i = g->item;
    for (size_t n = part((size_t)i->count, g->n, SOME); n; n--) {
        td_tensor *t = td_call_tensor(s, g->ids[i->count], e);
        int rc = t ? td_session_check_lease(s, t->storage, e) : e->code;
        if (!rc) rc = td_queue_item_add(i, t, is_kept(t), e);
        if (rc) return rc;
        g->packed += td_delivery_packs(t);
    }
    if (g->packed + g->note->len > TD_FRAME_MAX)
        return td_fail(e, TD_E_INVALID,
                       "an item of %zu tensors and a note of %zu bytes is more than a message holds (%u bytes)", g->n,
                       g->note->len, (unsigned)TD_FRAME_MAX);
    size_t bytes = part(g->noted, g->note->len, SOME_BYTES);
    if (bytes) memcpy(i->note + g->noted, g->note->data + g->noted, bytes);
    g->noted += bytes;
    return (size_t)i->count < g->n || g->noted < g->note->len ? TD_AGAIN : TD_OK;
}

static bool drop(td_job *j, int most)
{
    (void)most; /* the item goes in parts of its own */
    gathering *g = (gathering *)(void *)j;
    td_queue_item_free(g->item);
    free(g);
    return true;
}

static int step(td_job *j, td_error *e)
{
    td_session *s = td_session_of(j->issuer);
    (void)e; /* a failure is the answer */
    gathering *g = (gathering *)(void *)j;
    td_error why = {0};
    int rc = gather(s, g, &why);
    if (rc == TD_AGAIN) return rc;
    if (!rc) {
        td_queued_item *item = g->item;
        g->item = NULL;
        rc = g->then(s, g->call, item, &why);
    }
    if (rc > 0) td_call_failed(s, g->call, &why);
    drop(j, 1);
    return TD_OK;
}

static int go_on_later(td_session *s, const gathering *so_far, td_error *e)
{
    gathering *g = malloc(sizeof *g);
    if (!g) return td_no_memory(e, "for an item of %zu tensors", so_far->n);
    *g = *so_far;
    s->work.job = &g->job;
    return TD_OK;
}

static const td_job_kind putting_kind = {"queue_put", .step = step, .drop = drop, .cost = SOME};
static const td_job_kind returning_kind = {"queue_return", .step = step, .drop = drop, .cost = SOME};

static int gather_item(td_session *s, const td_job_kind *kind, const Td__Wire__Call *call, size_t n,
                       const uint32_t *ids, const ProtobufCBinaryData *note,
                       int (*then)(td_session *, const Td__Wire__Call *, td_queued_item *, td_error *), td_error *e)
{
    if (n > TD_MAX_ITEM) return td_fail(e, TD_E_INVALID, "an item of %zu tensors; the most is %d", n, TD_MAX_ITEM);
    gathering g = {.job = td_session_job(s, kind),
                   .call = call,
                   .n = n,
                   .packed = TD_DELIVERY_REST,
                   .ids = ids,
                   .note = note,
                   .then = then};
    int rc = td_queue_item_new(&g.item, s->account, n, note->len, e);
    if (!rc) rc = gather(s, &g, e);
    if (!rc) return then(s, call, g.item, e);
    if (rc == TD_AGAIN) rc = go_on_later(s, &g, e);
    if (rc) {
        td_session_cancel_wait(s); /* for a write lease, which it has no memory to wait for */
        td_queue_item_free(g.item);
    }
    return rc;
}

/* ---- what lies in a queue is what was put */

/* What was lost is lost for who takes the item, whatever is written there: bytes that nobody can use. */
static int keep_as_lost(td_session *s, td_storage *st, td_error *e)
{
    td_storage *copy = NULL;
    td_need need = {.heap = s->heap};
    int rc = td_storage_new(&copy, &(td_place){.heap = s->heap, .account = s->account, .device = st->device},
                            st->nbytes, &need, e);
    if (rc) return td_need_may_pass(rc) ? td_session_lacks(s, rc, &need, e) : rc;
    td_storage_poison(copy, st->poison);
    td_queued_copied(st, copy);
    td_storage_unref(copy);
    return TD_OK;
}

int td_session_keep_items(td_session *s, td_storage *st, td_error *e)
{
    td_desc bytes;
    td_tensor *flat = NULL, *copy = NULL;
    if (st->poison) return keep_as_lost(s, st, e);
    int rc = td_desc_contiguous(&bytes, TD_UINT8, 1, (int64_t[]){(int64_t)st->nbytes}, e);
    bytes.device = st->device;
    if (!rc) rc = td_tensor_new(&flat, st, &bytes, s->account, e);
    if (!rc) rc = td_session_copy(s, flat, 0, &copy, e);
    if (!rc) td_queued_copied(st, copy->storage);
    td_tensor_unref(copy);
    td_tensor_unref(flat);
    return rc;
}

/* ---- put */

/* A put that waits for room. */
typedef struct putting {
    td_held h;
    td_queue_handle *of;
} putting;

static putting *putting_of(const td_wait *w)
{
    return (putting *)(uintptr_t)w;
}

static void put_moved(void *arg, td_queued_item *item, const td_error *error)
{
    putting *p = arg;
    (void)item;
    td_held_over(&p->h, error);
}

static void put_finished(td_session *s, td_wait *w)
{
    putting *p = putting_of(w);
    td_queue_handle *of = p->of;
    if (w->failed) td_reply_error(s, w->serial, &p->h.error);
    else td_reply_ok(s, w->serial);
    of->puts--;
    if (of->closing) td_queue_close_when_in(s, of);
}

/* Without memory for that it is as if the request had not come. */
static int hold_put(td_session *s, td_queue_handle *of, td_queue_wait *at, uint64_t serial, td_error *e)
{
    static const td_wait_kind for_room = {"room in a queue", .finish = put_finished};
    putting *p = td_held_new(s, &for_room, sizeof *p, serial, e);
    if (!p) {
        td_queue_wait_cancel(s->service, at);
        return e->code;
    }
    p->of = of;
    td_held_awaits(&p->h, &at->await);
    of->puts++;
    return TD_OK;
}

static int put_item(td_session *s, const Td__Wire__Call *call, td_queued_item *item, td_error *e)
{
    const Td__Wire__QueuePut *q = call->queue_put;
    td_queue_handle *h = td_session_queue(s, q->queue, e);
    td_queue_wait *w = NULL;
    int rc = h ? td_queue_put(s->service, h->member, item, q->timeout_ms, &w, put_moved, NULL, e) : e->code;
    if (rc == TD_WAIT) return hold_put(s, h, w, call->serial, e);
    if (rc) td_queue_item_free(item);
    else if (q->later) td_reply_ok_later(s, call->serial);
    else td_reply_ok(s, call->serial);
    return rc;
}

int td_call_queue_put(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueuePut *q = call->queue_put;
    if (!td_session_queue(s, q->queue, e)) return e->code;
    int rc = q->timeout_ms ? td_held_room(s) : TD_OK;
    return rc ? rc : gather_item(s, &putting_kind, call, q->n_ids, q->ids, &q->note, put_item, e);
}

/* ---- give back */

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

static int return_item(td_session *s, const Td__Wire__Call *call, td_queued_item *item, td_error *e)
{
    const Td__Wire__QueueReturn *q = call->queue_return;
    td_named_queue *of = td_queue_named(s->service, q->name, e);
    item->place = (uint32_t)q->place;
    int rc = of ? td_queue_return(s->service, of, item, e) : e->code;
    if (rc) td_queue_item_free(item);
    else td_reply_ok(s, call->serial);
    return rc;
}

/* Who got it may have left the queue since, so it is named. */
int td_call_queue_return(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueueReturn *q = call->queue_return;
    if (place_told(s, q->name, q->place) != q->place)
        return td_fail(e, TD_E_INVALID, "this session has got no such item of queue '%s' that it could give back",
                       q->name);
    return gather_item(s, &returning_kind, call, q->n_ids, q->ids, &q->note, return_item, e);
}

/* ---- get */

/* A get that waits for an item. */
typedef struct getting {
    td_delivery d;
    td_queue_handle *of; /* until all are bound */
} getting;

static getting *getting_of(td_delivery *d)
{
    return (getting *)(void *)d;
}

static void put_again(td_session *s, const td_queue_handle *of, td_queued_item *item)
{
    td_error none;
    if (td_queue_return(s->service, of->member->queue, item, &none)) td_queue_item_free(item);
}

/* It goes back, and is what was put again, also as far as it was bound. */
static void give_back(td_session *s, td_delivery *d)
{
    td_queued_item *i = d->item;
    td_error none;
    for (int k = 0; k < i->count && k <= d->bound; k++)
        if (!i->as_put[k] && is_kept(i->tensors[k])) td_queue_item_keep(i, k, &none);
    put_again(s, getting_of(d)->of, i);
    d->item = NULL;
}

/* It has more tensors than the call brought ids for: it stays where it is, and the client asks again. */
static void leave_item(td_session *s, td_delivery *d)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Item x;
    td__wire__item__init(&x);
    x.needs = (uint32_t)d->item->count;
    r.serial = d->h.wait.serial;
    r.item = &x;
    give_back(s, d);
    td_reply_send(s, &r, -1);
}

static const td_wait_kind for_values = {"an item's values", .finish = td_delivery_finish, .cancel = td_delivery_cancel};

/* All are bound: it is no longer the queue's. */
static void taken(td_session *s, td_delivery *d)
{
    getting *g = getting_of(d);
    td_named_queue *q = g->of->member->queue;
    d->place = place_told(s, td_queue_name(q), d->item->place);
    d->left = td_queue_size(q);
    g->of = NULL;
    d->h.wait.kind = &for_values;
}

static const td_wait_kind for_item = {"an item of a queue", .finish = td_delivery_finish, .cancel = td_delivery_cancel};
static const td_delivery_kind of_queue = {.leave = leave_item, .taken = taken, .give_back = give_back};

void td_queue_refuse_gets(td_session *s, const td_queue_handle *of, const td_error *why)
{
    for (td_held *h = s->beside.held, *next; h; h = next) {
        next = h->next;
        const getting *g = h->wait.kind == &for_item ? (const getting *)(const void *)h : NULL;
        if (g && g->of == of && h->at) td_held_refuse(s, h, why);
    }
}

static void get_moved(void *arg, td_queued_item *item, const td_error *error)
{
    td_delivery *d = arg;
    d->item = item;
    td_held_over(&d->h, error);
}

int td_call_queue_get(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueueGet *q = call->queue_get;
    td_queue_handle *h = td_session_queue(s, q->queue, e);
    if (!h) return e->code;
    if (q->n_ids > TD_MAX_ITEM)
        return td_fail(e, TD_E_INVALID, "%zu ids for the tensors of an item; the most is %d", q->n_ids, TD_MAX_ITEM);
    for (size_t i = 0; i < q->n_ids; i++) {
        int rc = td_call_new_id(s, q->ids[i], e);
        if (rc) return rc;
    }
    td_queued_item *item = NULL;
    td_queue_wait *w = NULL;
    int rc = td_held_room(s);
    if (!rc) rc = td_queue_get(s->service, h->member, &item, q->timeout_ms, &w, get_moved, NULL, e);
    if (rc && rc != TD_WAIT) return rc;
    getting *g = td_delivery_new(s, &for_item, &of_queue, sizeof *g, call->serial, q->n_ids, q->ids, e);
    if (!g) {
        if (item) put_again(s, h, item);
        else td_queue_wait_cancel(s->service, w);
        return e->code;
    }
    g->of = h;
    g->d.item = item;
    if (w) td_held_awaits(&g->d.h, &w->await);
    else td_held_next(&g->d.h);
    return TD_OK;
}
