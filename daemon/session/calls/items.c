/* Items on their way through queues: put, get, give back. What must wait is held beside the stream (stream/held.c).
 *
 * An item may have thousands of tensors and a note of megabytes, so it travels in parts: one that is put is gathered by
 * a job, unless one part is all of it; one that comes is bound, waited for and told by the turns of its get. The
 * reply is packed as it goes, the note last. */
#include "daemon/session/calls/calls.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { SOME = 64, SOME_BYTES = 64 << 10 }; /* tensors, bytes of the note: one part */
/* What the answer to a get takes at most, in bytes: of a tensor, for each of its dims; beside tensors and note. */
enum { PACKED = 96, PACKED_DIM = 20, PACKED_REST = 64 };

static size_t packed(const td_tensor *t)
{
    return PACKED + PACKED_DIM * (size_t)t->desc.ndim;
}

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
        g->packed += packed(t);
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
                   .packed = PACKED_REST,
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

enum { ITEM_OF_REPLY = 7, DESCS_OF_ITEM = 1, ADDRESSES_OF_ITEM = 2, NOTE_OF_ITEM = 3 };

/* A get that waits for an item, and what has become of that since: of its tensors so many are bound to ids, were waited
 * for, are packed. */
typedef struct getting {
    td_held h;
    td_queue_handle *of;  /* until all are bound */
    td_queued_item *item; /* what came */
    int bound, there, packed;
    enum { TAKES, BINDS, AWAITS, PACKS, NOTES } stage;
    bool asleep;    /* it waits for its values */
    uint64_t place; /* as it is told */
    uint32_t left;  /* behind it in the queue */
    size_t room;    /* that its tensors take in the reply, at most */
    size_t noted;
    td_long_reply reply;
    const td_storage *brings; /* the descriptor of its segment goes with the reply; NULL: none does */
    bool writable;            /* ... which is that */
    uint64_t outside;         /* see Item in the protocol */
    bool outside_rest;
    size_t n_ids;
    uint32_t ids[]; /* to bind */
} getting;

static getting *getting_of(const td_wait *w)
{
    return (getting *)(uintptr_t)w;
}

static void clear(getting *g)
{
    td_queue_item_free(g->item);
    td_reply_give_up(&g->reply);
    g->item = NULL;
}

static void put_again(td_session *s, const td_queue_handle *of, td_queued_item *item)
{
    td_error none;
    if (td_queue_return(s->service, of->member->queue, item, &none)) td_queue_item_free(item);
}

/* It goes back, and is what was put again, also as far as it was bound. */
static void give_back(td_session *s, getting *g)
{
    td_queued_item *i = g->item;
    td_error none;
    for (int k = 0; k < i->count && k <= g->bound; k++)
        if (!i->as_put[k] && is_kept(i->tensors[k])) td_queue_item_keep(i, k, &none);
    put_again(s, g->of, i);
    g->item = NULL;
}

/* What is bound is the session's; what is not goes back. */
static void get_cancelled(td_session *s, td_wait *w)
{
    getting *g = getting_of(w);
    if (w->tasks) td_waiter_cancel(w->tasks);
    if (g->of && g->item) give_back(s, g);
    w->tasks = NULL;
    clear(g);
}

static void get_finished(td_session *s, td_wait *w);

static const td_wait_kind for_item = {"an item of a queue", .finish = get_finished, .cancel = get_cancelled};
static const td_wait_kind for_values = {"an item's values", .finish = get_finished, .cancel = get_cancelled};

void td_queue_refuse_gets(td_session *s, const td_queue_handle *of, const td_error *why)
{
    for (td_held *h = s->beside.held, *next; h; h = next) {
        next = h->next;
        const getting *g = h->wait.kind == &for_item ? getting_of(&h->wait) : NULL;
        if (g && g->of == of && h->at) td_held_refuse(s, h, why);
    }
}

/* It has more tensors than the call brought ids for: it stays where it is, and the client asks again. */
static void leave_item(td_session *s, getting *g)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Item x;
    td__wire__item__init(&x);
    x.needs = (uint32_t)g->item->count;
    r.serial = g->h.wait.serial;
    r.item = &x;
    give_back(s, g);
    td_reply_send(s, &r, -1);
}

static int unbind(td_session *s, const getting *g, int rc)
{
    for (int k = g->bound; k; k--) td_objects_release(&s->objects, g->ids[k - 1]);
    return rc;
}

/* Some more of the item's tensors; all, or in the end none. */
static int bind_some(td_session *s, getting *g, td_error *e)
{
    int rc =
        td_account_room(s->account, (uint64_t)(g->item->count - g->bound), e); /* others may have had it meanwhile */
    for (size_t n = part((size_t)g->bound, (size_t)g->item->count, SOME); n && !rc; n--) {
        if ((rc = td_queue_item_settle(g->item, g->bound, s->account, e))) break;
        td_tensor *t = g->item->tensors[g->bound];
        rc = td_objects_bind(&s->objects, g->ids[g->bound], td_tensor_ref(t), NULL, e); /* an id may be named twice */
        g->bound += !rc;
        g->room += packed(t);
    }
    return rc ? unbind(s, g, rc) : TD_OK;
}

/* All are bound: it is no longer the queue's. */
static int take(td_session *s, getting *g, td_error *e)
{
    td_named_queue *q = g->of->member->queue;
    int rc = td_reply_begin(s, &g->reply, g->room + PACKED_REST + g->item->note_bytes, "an item", e);
    if (rc) return unbind(s, g, rc);
    g->place = place_told(s, td_queue_name(q), g->item->place);
    g->left = td_queue_size(q);
    g->outside_rest = g->item->count > 64;
    g->of = NULL;
    g->h.wait.kind = &for_values;
    return TD_OK;
}

static void values_there(void *arg)
{
    getting *g = arg;
    g->h.wait.tasks = NULL;
    if (g->asleep) td_held_over(&g->h, NULL);
}

/* The next ones may still be computed, by another session: true. */
static bool await_some(td_session *s, getting *g)
{
    td_access what[SOME];
    int n = (int)part((size_t)g->there, (size_t)g->item->count, SOME);
    for (int i = 0; i < n; i++) {
        const td_tensor *t = g->item->tensors[g->there + i];
        what[i] = (td_access){.storage = t->storage};
        td_desc_extent(&t->desc, &what[i].lo, &what[i].hi);
    }
    g->there += n;
    g->asleep = false;
    g->h.wait.tasks = td_sched_after(s->service->sched, n, what, values_there, g);
    return g->asleep = g->h.wait.tasks != NULL;
}

static uint8_t *put_head(td_long_reply *r, unsigned field, size_t n)
{
    r->end += td_reply_head(r->block + r->end, field, n);
    uint8_t *at = r->block + r->end;
    r->end += n;
    return at;
}

/* The first whose segment the client lacks: one descriptor a frame, and the client asks again for another. */
static void locate(td_session *s, getting *g, td_storage *st, Td__Wire__Address *a)
{
    if (!td_session_locate(s, st, a) || g->brings) return;
    a->descriptor = true;
    g->brings = st;
    g->writable = a->writable;
}

static void pack_some(td_session *s, getting *g)
{
    for (size_t n = part((size_t)g->packed, (size_t)g->item->count, SOME); n; n--, g->packed++) {
        const td_tensor *t = g->item->tensors[g->packed];
        Td__Wire__Desc desc;
        Td__Wire__Address address;
        int64_t sizes[2 * TD_MAX_DIMS];
        td_desc_to_wire(&t->desc, &desc, sizes);
        locate(s, g, t->storage, &address);
        td__wire__desc__pack(&desc, put_head(&g->reply, DESCS_OF_ITEM, td__wire__desc__get_packed_size(&desc)));
        td__wire__address__pack(&address,
                                put_head(&g->reply, ADDRESSES_OF_ITEM, td__wire__address__get_packed_size(&address)));
        bool in = td_requires_grad(t);
        if (g->packed < 64) g->outside |= (uint64_t)!in << g->packed;
        else g->outside_rest = g->outside_rest && !in;
    }
}

static void pack_rest(getting *g)
{
    Td__Wire__Item x = TD__WIRE__ITEM__INIT;
    x.outside = g->outside;
    x.outside_rest = g->outside_rest;
    x.left = g->left;
    x.place = g->place;
    g->reply.end += td__wire__item__pack(&x, g->reply.block + g->reply.end);
    if (g->item->note_bytes)
        g->reply.end += td_reply_head(g->reply.block + g->reply.end, NOTE_OF_ITEM, g->item->note_bytes);
}

static void pack_note(getting *g)
{
    size_t n = part(g->noted, g->item->note_bytes, SOME_BYTES);
    if (n) memcpy(g->reply.block + g->reply.end, g->item->note + g->noted, n);
    g->noted += n;
    g->reply.end += n;
}

static int tell(td_session *s, getting *g, td_error *e)
{
    assert(g->reply.end <= g->reply.capacity && "every part has its room");
    int fd = g->brings ? td_session_descriptor(s, g->brings, g->writable) : -1;
    int rc = td_reply_long(s, g->h.wait.serial, ITEM_OF_REPLY, &g->reply, fd);
    if (!rc) return TD_OK;
    td_no_memory(e, "to send an item of %d tensors", g->item->count);
    return unbind(s, g, e->code);
}

/* One part of what is to be done; of a small item all of it. TD_AGAIN: there is more; TD_SUSPENDED: later. */
static int deliver(td_session *s, getting *g, td_error *e)
{
    int n = g->item->count, rc;
    switch (g->stage) {
    case TAKES:
        if ((size_t)n > g->n_ids) {
            leave_item(s, g);
            return TD_OK;
        }
        g->stage = BINDS; /* fallthrough */
    case BINDS:
        if ((rc = bind_some(s, g, e))) return rc;
        if (g->bound < n) return TD_AGAIN;
        if ((rc = take(s, g, e))) return rc;
        g->stage = AWAITS;
        if (n > SOME) return TD_AGAIN; /* fallthrough */
    case AWAITS:
        if (await_some(s, g)) return TD_SUSPENDED;
        if (g->there < n) return TD_AGAIN;
        g->stage = PACKS;
        if (n > SOME) return TD_AGAIN; /* fallthrough */
    case PACKS:
        pack_some(s, g);
        if (g->packed < n) return TD_AGAIN;
        pack_rest(g);
        g->stage = NOTES; /* fallthrough */
    case NOTES: pack_note(g);
    }
    return g->noted < g->item->note_bytes ? TD_AGAIN : tell(s, g, e);
}

static void get_finished(td_session *s, td_wait *w)
{
    getting *g = getting_of(w);
    td_error *e = &g->h.error;
    int rc = w->failed ? e->code : deliver(s, g, e);
    if (rc == TD_AGAIN || rc == TD_SUSPENDED) {
        g->h.goes_on = rc == TD_AGAIN ? TD_HELD_MORE : TD_HELD_LATER;
        return;
    }
    if (rc && g->item && g->of) give_back(s, g);
    clear(g);
    if (rc) td_reply_error(s, w->serial, e);
}

static void get_moved(void *arg, td_queued_item *item, const td_error *error)
{
    getting *g = arg;
    g->item = item;
    td_held_over(&g->h, error);
}

static getting *getting_new(td_session *s, td_queue_handle *of, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__QueueGet *q = call->queue_get;
    size_t n = q->n_ids;
    getting *g = td_held_new(s, &for_item, sizeof *g + n * sizeof *q->ids, call->serial, e);
    if (!g) return NULL;
    g->of = of;
    g->n_ids = n;
    if (n) memcpy(g->ids, q->ids, n * sizeof *q->ids);
    return g;
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
    getting *g = getting_new(s, h, call, e);
    if (!g) {
        if (item) put_again(s, h, item);
        else td_queue_wait_cancel(s->service, w);
        return e->code;
    }
    g->item = item;
    if (w) td_held_awaits(&g->h, &w->await);
    else td_held_next(&g->h);
    return TD_OK;
}
