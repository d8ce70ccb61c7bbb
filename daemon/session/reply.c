/* Replies: what goes back to the client, and how a value gets into one. */
#include "daemon/session/state.h"

#include <stdlib.h>

enum { MOST_HELD_BACK = 4096 }; /* bytes */

static void put_reply(td_session *s, Td__Wire__Reply *r, int fd)
{
    size_t n = td__wire__reply__get_packed_size(r);
    uint8_t *at = td_writer_begin(s->io.writer, n);
    if (!at) return; /* without memory for a reply the client runs into its deadline */
    td__wire__reply__pack(r, at);
    td_writer_end(s->io.writer, n, TD_FRAME_REPLY, fd);
    s->service->bytes_out += n + TD_FRAME_HEADER;
}

void td_reply_send(td_session *s, Td__Wire__Reply *r, int fd)
{
    put_reply(s, r, fd);
    s->io.wrote(s->io.arg);
}

void td_event_unmap(td_session *s, uint32_t segment)
{
    Td__Wire__Event event;
    td__wire__event__init(&event);
    event.unmap_segment = segment;
    size_t n = td__wire__event__get_packed_size(&event);
    uint8_t *at = td_writer_begin(s->io.writer, n);
    if (!at) return; /* it will keep its mapping: a pity, and no more */
    td__wire__event__pack(&event, at);
    td_writer_end(s->io.writer, n, TD_FRAME_EVENT, -1);
    s->io.wrote(s->io.arg);
}

/* In a ring it lies there for who looks; on a socket it goes with the next. What is to be told aloud must not go along
 * quietly. */
void td_reply_ok_later(td_session *s, uint64_t serial)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    r.serial = serial;
    bool alone = td_writer_pending(s->io.writer) == 0;
    put_reply(s, &r, -1);
    if (alone) td_writer_flush_quietly(s->io.writer);
    if (td_writer_pending(s->io.writer) > MOST_HELD_BACK) s->io.wrote(s->io.arg);
}

void td_reply_ok(td_session *s, uint64_t serial)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    r.serial = serial;
    td_reply_send(s, &r, -1);
}

void td_reply_error(td_session *s, uint64_t serial, const td_error *error)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Error w;
    td__wire__error__init(&w);
    w.code = (uint32_t)error->code;
    w.op = (char *)error->op;
    w.where = (char *)error->where;
    w.message = (char *)error->message;
    td_session_refused(s, error);
    r.serial = serial;
    r.error = &w;
    td_reply_send(s, &r, -1);
}

void td_desc_to_wire(const td_desc *d, Td__Wire__Desc *w, int64_t *sizes)
{
    td__wire__desc__init(w);
    w->dtype = d->dtype;
    w->device = d->device;
    w->offset = d->offset;
    w->n_shape = w->n_stride = d->ndim;
    w->shape = sizes;
    w->stride = sizes + TD_MAX_DIMS;
    memcpy(w->shape, d->shape, d->ndim * sizeof *sizes);
    memcpy(w->stride, d->stride, d->ndim * sizeof *sizes);
}

/* ---- values
 *
 * A value that is small goes back inside the reply, contiguous. When it is pending or not contiguous, a copy is issued
 * as an op like any other, so that it takes its place in the storage's history; the reply follows when the copy has
 * ended. A large one is answered by its address. */

typedef struct td_value_read {
    struct td_value_read *next, *prev;
    td_session *s;
    uint64_t serial, bytes;
    td_tensor *tensor; /* a reference */
    bool descriptor;
} value_read;

static int begin_read(value_read **out, td_session *s, uint64_t serial, td_error *e)
{
    *out = malloc(sizeof **out);
    if (!*out) return td_no_memory(e, "to read a value");
    **out = (value_read){.s = s, .serial = serial};
    return TD_OK;
}

/* Under way: counts as a reply to come, and keeps the session's struct, for what it waits for may be another session's.
 */
static void promise_read(value_read *v, td_tensor *t, uint64_t bytes)
{
    td_session *s = v->s;
    v->tensor = t;
    v->bytes = bytes;
    v->next = s->reads;
    if (v->next) v->next->prev = v;
    s->reads = v;
    td_session_promise(v->s, v->bytes);
}

static void end_read(value_read *v)
{
    if (v->prev) v->prev->next = v->next;
    else v->s->reads = v->next;
    if (v->next) v->next->prev = v->prev;
    td_tensor_unref(v->tensor);
    td_session_promise_kept(v->s, v->bytes);
    free(v);
}

void td_reads_forget(td_session *s)
{
    for (value_read *v = s->reads; v; v = v->next) {
        td_tensor_unref(v->tensor);
        v->tensor = NULL;
    }
}

static void send_value(td_session *s, const td_tensor *t, uint64_t serial)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Desc desc;
    int64_t sizes[2 * TD_MAX_DIMS];
    td_desc_to_wire(&t->desc, &desc, sizes);
    r.serial = serial;
    r.desc = &desc;
    r.data.len = (size_t)td_desc_nbytes(&t->desc);
    r.data.data = r.data.len ? td_tensor_data(t) : NULL;
    td_reply_send(s, &r, -1);
}

static void send_address(td_session *s, const td_tensor *t, uint64_t serial, bool descriptor)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Desc desc;
    Td__Wire__Address address;
    int64_t sizes[2 * TD_MAX_DIMS];
    int fd = -1;
    td_desc_to_wire(&t->desc, &desc, sizes);
    td_session_address(s, t->storage, &address, &fd);
    if (descriptor && fd < 0) fd = td_session_reader(s, t->storage->extent.segment);
    address.descriptor = fd >= 0;
    r.serial = serial;
    r.desc = &desc;
    r.address = &address;
    td_reply_send(s, &r, fd);
}

static void copy_finished(td_call *c)
{
    value_read *v = c->owner;
    if (!v->s->ended) {
        td_cause *poison = c->cause ? c->cause : v->tensor->storage->poison;
        if (poison) td_session_tell(v->s, v->serial, poison);
        else send_value(v->s, v->tensor, v->serial);
    }
    end_read(v);
}

static int read_through_copy(td_session *s, td_tensor *t, uint64_t serial, td_error *e)
{
    value_read *v;
    int rc = begin_read(&v, s, serial, e);
    if (rc) return rc;
    td_call *c = td_call_new(td_op_by_id(TD_OP_COPY), &s->issuer, 1, 1, e);
    if (!c) {
        free(v);
        return td_no_memory(e, "to read a value");
    }
    td_attrs_init(&c->attrs);
    td_attrs_none(&c->attrs);
    c->in[0] = td_in(t);
    uint64_t lack = 0;
    td_heap *heap = NULL;
    rc = td_ops_prepare(c, &lack, &heap, e);
    if (rc) {
        td_call_free(c);
        free(v);
        return td_session_may_lack(rc) ? td_session_lacks(s, rc, lack, heap, e) : rc;
    }
    promise_read(v, c->out[0], td_desc_nbytes(&t->desc)); /* prepare's reference is ours */
    c->owner = v;
    c->finished = copy_finished;
    td_sched_submit(s->service->sched, c);
    return TD_OK;
}

static void address_ready(void *arg)
{
    value_read *v = arg;
    if (!v->s->ended) {
        td_cause *poison = v->tensor->storage->poison;
        if (!poison) poison = td_late_find(&v->s->late, v->tensor->storage);
        if (poison) td_session_tell(v->s, v->serial, poison);
        else send_address(v->s, v->tensor, v->serial, v->descriptor);
    }
    end_read(v);
}

int td_address_reply(td_session *s, td_tensor *t, uint64_t serial, bool descriptor, td_error *e)
{
    value_read *v;
    int rc = begin_read(&v, s, serial, e);
    if (rc) return rc;
    v->descriptor = descriptor;
    promise_read(v, td_tensor_ref(t), 0);
    td_access a = {.storage = t->storage};
    td_desc_extent(&t->desc, &a.lo, &a.hi);
    td_sched_after(s->service->sched, 1, &a, address_ready, v);
    return TD_OK;
}

int td_read_reply(td_session *s, td_tensor *t, uint64_t serial, td_error *e)
{
    if (t->storage->poison) {
        td_session_tell(s, serial, t->storage->poison);
        return TD_OK;
    }
    if (td_desc_nbytes(&t->desc) > s->all->inline_limit) return td_address_reply(s, t, serial, false, e);
    uint64_t lo, hi;
    td_desc_extent(&t->desc, &lo, &hi);
    if (td_sched_pending(t->storage, lo, hi, false) || !td_desc_is_contiguous(&t->desc))
        return read_through_copy(s, t, serial, e);
    send_value(s, t, serial);
    return TD_OK;
}
