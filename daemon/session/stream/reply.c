/* Replies: what goes back to the client. */
#include "daemon/session/stream/stream.h"

#include <stdlib.h>
#include <unistd.h>

enum { MOST_HELD_BACK = 4096 }; /* bytes */

static void put_reply(td_session *s, Td__Wire__Reply *r, int fd)
{
    r->n_gone = s->graph.gone.count;
    r->gone = s->graph.gone.at;
    s->graph.gone.count = 0;
    size_t n = td__wire__reply__get_packed_size(r);
    uint8_t *at = td_writer_begin(s->io.writer, n);
    if (!at) { /* without memory for a reply the client runs into its deadline */
        if (fd >= 0) close(fd);
        return;
    }
    td__wire__reply__pack(r, at);
    td_writer_end(s->io.writer, n, TD_FRAME_REPLY, fd);
    s->service->bytes_out += n + TD_FRAME_HEADER;
}

void td_reply_send(td_session *s, Td__Wire__Reply *r, int fd)
{
    put_reply(s, r, fd);
    s->io.wrote(s->io.arg);
}

int td_reply_room(const td_session *s, uint64_t bytes, td_error *e)
{
    const td_account *all = s->service->account;
    if (bytes <= TD_READ_CHUNK || !all->limit_wire) return TD_OK;
    if (s->io.room ? s->io.room(s->io.arg, bytes) : all->wire + bytes <= all->limit_wire) return TD_OK;
    return td_fail(
        e, TD_E_MEMORY,
        "there is no memory for an answer of %.1f MB: connections hold %.1f MB of %.1f MB (--own-memory) with "
        "what came and answers that are not read; ask again when some were",
        (double)bytes / 1e6, (double)all->wire / 1e6, (double)all->limit_wire / 1e6);
}

/* ---- long ones, packed in parts */

static size_t put_varint(uint8_t *to, size_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) to[n++] = (uint8_t)(v | 0x80);
    to[n++] = (uint8_t)v;
    return n;
}

size_t td_reply_head(uint8_t *to, unsigned field, size_t length)
{
    size_t n = put_varint(to, (size_t)field << 3 | 2);
    return n + put_varint(to + n, length);
}

void td_reply_count(td_session *s, td_long_reply *l, uint64_t bytes)
{
    if (!l->account) l->account = td_account_ref(s->account);
    td_account_wire(l->account, l->counted, bytes);
    l->counted = bytes;
}

static void counts_no_more(td_long_reply *l)
{
    if (l->account) td_account_wire(l->account, l->counted, 0);
    td_account_unref(l->account);
    l->account = NULL;
    l->counted = 0;
}

void td_reply_give_up(td_long_reply *l)
{
    counts_no_more(l);
    free(l->block);
    l->block = NULL;
}

/* A long one takes others along that wait to go out, and leaves room for some that follow: they are not copied, and
 * what is not used takes no memory. */
int td_reply_begin(td_session *s, td_long_reply *l, size_t bytes, const char *what, td_error *e)
{
    enum { LONG = 256 << 10, BEHIND = 64 << 10 };
    bool is_long = bytes > LONG;
    size_t front = TD_REPLY_FRONT + (is_long ? s->all->max_unread : 0),
           capacity = front + bytes + (is_long ? BEHIND : 0);
    int rc = td_reply_room(s, bytes, e);
    if (rc) return rc;
    uint8_t *block = malloc(capacity);
    if (!block) return td_no_memory(e, "to tell %s", what);
    *l = (td_long_reply){.block = block, .capacity = capacity, .front = front, .end = front};
    if (bytes > TD_READ_CHUNK) td_reply_count(s, l, bytes);
    return TD_OK;
}

int td_reply_long(td_session *s, uint64_t serial, unsigned field, td_long_reply *l, int fd)
{
    Td__Wire__Reply r = TD__WIRE__REPLY__INIT;
    uint8_t front[64], *block = l->block;
    r.serial = serial;
    size_t n = td__wire__reply__pack(&r, front);
    n += td_reply_head(front + n, field, l->end - l->front);
    size_t at = l->front - n, bytes = l->end - at;
    memcpy(block + at, front, n);
    l->block = NULL;
    counts_no_more(l);
    int rc = td_writer_hand_over(s->io.writer, block, l->capacity, at, bytes, TD_FRAME_REPLY, fd);
    if (rc) return rc;
    s->service->bytes_out += bytes + TD_FRAME_HEADER;
    s->io.wrote(s->io.arg);
    return TD_OK;
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

void td_event_gone(td_session *s)
{
    Td__Wire__Event event;
    td__wire__event__init(&event);
    event.n_gone = s->graph.gone.count;
    event.gone = s->graph.gone.at;
    s->graph.gone.count = 0;
    size_t n = td__wire__event__get_packed_size(&event);
    uint8_t *at = td_writer_begin(s->io.writer, n);
    if (!at) return; /* the program keeps functions that nobody calls */
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
    td_reply_error_after(s, serial, error, NULL, 0);
}

void td_reply_error_after(td_session *s, uint64_t serial, const td_error *error, const char *said, size_t n)
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
    r.data.data = (uint8_t *)(uintptr_t)said, r.data.len = n;
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
