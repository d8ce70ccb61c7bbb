/* See deliver.h. */
#include "daemon/session/calls/deliver.h"

#include <assert.h>

enum { SOME = 64, SOME_BYTES = 64 << 10 }; /* tensors, bytes of the note: one part */
/* What the reply takes at most, in bytes: of a tensor, for each of its dims. */
enum { PACKED = 96, PACKED_DIM = 20 };
enum { ITEM_OF_REPLY = 7, DESCS_OF_ITEM = 1, ADDRESSES_OF_ITEM = 2, NOTE_OF_ITEM = 3 };

size_t td_delivery_packs(const td_tensor *t)
{
    return PACKED + PACKED_DIM * (size_t)t->desc.ndim;
}

static size_t part(size_t done, size_t all, size_t most)
{
    return all - done < most ? all - done : most;
}

static td_delivery *delivery_of(td_wait *w)
{
    return (td_delivery *)(void *)w;
}

void *td_delivery_new(td_session *s, const td_wait_kind *wait, const td_delivery_kind *kind, size_t bytes,
                      uint64_t serial, size_t n_ids, const uint32_t *ids, td_error *e)
{
    td_delivery *d = td_held_new(s, wait, bytes + n_ids * sizeof *ids, serial, e);
    if (!d) return NULL;
    d->kind = kind;
    d->n_ids = n_ids;
    d->ids = (uint32_t *)(void *)((char *)d + bytes);
    if (n_ids) memcpy(d->ids, ids, n_ids * sizeof *ids);
    return d;
}

static void clear(td_delivery *d)
{
    td_queue_item_free(d->item);
    td_reply_give_up(&d->reply);
    d->item = NULL;
}

static void give_back(td_session *s, td_delivery *d)
{
    if (d->item && !d->taken && d->kind->give_back) d->kind->give_back(s, d);
}

/* What is bound is the session's; what is not goes back. */
void td_delivery_cancel(td_session *s, td_wait *w)
{
    td_delivery *d = delivery_of(w);
    if (w->tasks) td_waiter_cancel(w->tasks);
    w->tasks = NULL;
    give_back(s, d);
    clear(d);
}

static int unbind(td_session *s, const td_delivery *d, int rc)
{
    for (int k = d->bound; k; k--) td_objects_release(&s->objects, d->ids[k - 1]);
    return rc;
}

/* Some more of the item's tensors; all, or in the end none. */
static int bind_some(td_session *s, td_delivery *d, td_error *e)
{
    int rc =
        td_account_room(s->account, (uint64_t)(d->item->count - d->bound), e); /* others may have had it meanwhile */
    for (size_t n = part((size_t)d->bound, (size_t)d->item->count, SOME); n && !rc; n--) {
        if ((rc = td_queue_item_settle(d->item, d->bound, s->account, e))) break;
        td_tensor *t = d->item->tensors[d->bound];
        rc = td_objects_bind(&s->objects, d->ids[d->bound], td_tensor_ref(t), NULL, e); /* an id may be named twice */
        d->bound += !rc;
        d->room += td_delivery_packs(t);
    }
    return rc ? unbind(s, d, rc) : TD_OK;
}

/* All are bound. */
static int take(td_session *s, td_delivery *d, td_error *e)
{
    int rc = td_reply_begin(s, &d->reply, d->room + TD_DELIVERY_REST + d->item->note_bytes, "an item", e);
    if (rc) return unbind(s, d, rc);
    d->outside_rest = d->item->count > 64;
    d->taken = true;
    if (d->kind->taken) d->kind->taken(s, d);
    return TD_OK;
}

static void values_there(void *arg)
{
    td_delivery *d = arg;
    d->h.wait.tasks = NULL;
    if (d->asleep) td_held_over(&d->h, NULL);
}

/* The next ones may still be computed, by another session: true. */
static bool await_some(td_session *s, td_delivery *d)
{
    td_access what[SOME];
    int n = (int)part((size_t)d->there, (size_t)d->item->count, SOME);
    for (int i = 0; i < n; i++) {
        const td_tensor *t = d->item->tensors[d->there + i];
        what[i] = (td_access){.storage = t->storage};
        td_desc_extent(&t->desc, &what[i].lo, &what[i].hi);
    }
    d->there += n;
    d->asleep = false;
    d->h.wait.tasks = td_sched_after(s->service->sched, n, what, values_there, d);
    return d->asleep = d->h.wait.tasks != NULL;
}

static uint8_t *put_head(td_long_reply *r, unsigned field, size_t n)
{
    r->end += td_reply_head(r->block + r->end, field, n);
    uint8_t *at = r->block + r->end;
    r->end += n;
    return at;
}

/* The first whose segment the client lacks: one descriptor a frame, and the client asks again for another. */
static void locate(td_session *s, td_delivery *d, td_storage *st, Td__Wire__Address *a)
{
    if (!td_session_locate(s, st, a) || d->brings) return;
    a->descriptor = true;
    d->brings = st;
    d->writable = a->writable;
}

static void pack_some(td_session *s, td_delivery *d)
{
    for (size_t n = part((size_t)d->packed, (size_t)d->item->count, SOME); n; n--, d->packed++) {
        const td_tensor *t = d->item->tensors[d->packed];
        Td__Wire__Desc desc;
        Td__Wire__Address address;
        int64_t sizes[2 * TD_MAX_DIMS];
        td_desc_to_wire(&t->desc, &desc, sizes);
        locate(s, d, t->storage, &address);
        td__wire__desc__pack(&desc, put_head(&d->reply, DESCS_OF_ITEM, td__wire__desc__get_packed_size(&desc)));
        td__wire__address__pack(&address,
                                put_head(&d->reply, ADDRESSES_OF_ITEM, td__wire__address__get_packed_size(&address)));
        bool in = td_requires_grad(t);
        if (d->packed < 64) d->outside |= (uint64_t)!in << d->packed;
        else d->outside_rest = d->outside_rest && !in;
    }
}

static void pack_rest(td_delivery *d)
{
    Td__Wire__Item x = TD__WIRE__ITEM__INIT;
    x.outside = d->outside;
    x.outside_rest = d->outside_rest;
    x.left = d->left;
    x.place = d->place;
    d->reply.end += td__wire__item__pack(&x, d->reply.block + d->reply.end);
    if (d->item->note_bytes)
        d->reply.end += td_reply_head(d->reply.block + d->reply.end, NOTE_OF_ITEM, d->item->note_bytes);
}

static void pack_note(td_delivery *d)
{
    size_t n = part(d->noted, d->item->note_bytes, SOME_BYTES);
    if (n) memcpy(d->reply.block + d->reply.end, d->item->note + d->noted, n);
    d->noted += n;
    d->reply.end += n;
}

static int tell(td_session *s, td_delivery *d, td_error *e)
{
    assert(d->reply.end <= d->reply.capacity && "every part has its room");
    int fd = d->brings ? td_session_descriptor(s, d->brings, d->writable) : -1;
    int rc = td_reply_long(s, d->h.wait.serial, ITEM_OF_REPLY, &d->reply, fd);
    if (!rc) return TD_OK;
    td_no_memory(e, "to send an item of %d tensors", d->item->count);
    return unbind(s, d, e->code);
}

/* One part of what is to be done; of a small item all of it. TD_AGAIN: there is more; TD_SUSPENDED: later. */
static int deliver(td_session *s, td_delivery *d, td_error *e)
{
    int n = d->item->count, rc;
    switch (d->stage) {
    case TD_DELIVERY_TAKES:
        if ((size_t)n > d->n_ids) {
            d->kind->leave(s, d);
            return TD_OK;
        }
        d->stage = TD_DELIVERY_BINDS; /* fallthrough */
    case TD_DELIVERY_BINDS:
        if ((rc = bind_some(s, d, e))) return rc;
        if (d->bound < n) return TD_AGAIN;
        if ((rc = take(s, d, e))) return rc;
        d->stage = TD_DELIVERY_AWAITS;
        if (n > SOME) return TD_AGAIN; /* fallthrough */
    case TD_DELIVERY_AWAITS:
        if (await_some(s, d)) return TD_SUSPENDED;
        if (d->there < n) return TD_AGAIN;
        d->stage = TD_DELIVERY_PACKS;
        if (n > SOME) return TD_AGAIN; /* fallthrough */
    case TD_DELIVERY_PACKS:
        pack_some(s, d);
        if (d->packed < n) return TD_AGAIN;
        pack_rest(d);
        d->stage = TD_DELIVERY_NOTES; /* fallthrough */
    case TD_DELIVERY_NOTES: pack_note(d);
    }
    return d->noted < d->item->note_bytes ? TD_AGAIN : tell(s, d, e);
}

void td_delivery_finish(td_session *s, td_wait *w)
{
    td_delivery *d = delivery_of(w);
    td_error *e = &d->h.error;
    int rc = w->failed ? e->code : deliver(s, d, e);
    if (rc == TD_AGAIN || rc == TD_SUSPENDED) {
        d->h.goes_on = rc == TD_AGAIN ? TD_HELD_MORE : TD_HELD_LATER;
        return;
    }
    if (rc) give_back(s, d);
    clear(d);
    if (rc) td_reply_error(s, w->serial, e);
}
