/* See fake_daemon.h. Invariant kept against the client: an id is bound once, and released before it is bound again;
 * whatever breaks that counts as a protocol error. */
#include "tests/unit/fake_daemon.h"

#include "proto/base/arena.h"
#include "proto/wire/frame.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"
#include "shm/segment.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_PEERS = 16, IDS = 4096, SEGMENT = 8 << 20, INLINE = 4096, SEGMENT_ID = 7 };

typedef struct tensor {
    bool live, poisoned, real_shape;
    td_desc desc;
    uint64_t offset; /* in the segment */
    char where[96];
} tensor;

typedef struct peer {
    int socket;
    uint32_t session;
    uint64_t token;
    bool has_segment;
    td_reader reader;
    td_writer writer;
    tensor tensors[IDS];
    char sites[65536 / 64][96];
    uint64_t records;
    uint8_t *held; /* a reply that waits for the next */
    size_t held_bytes;
} peer;

struct fake_daemon {
    char path[96], directory[80];
    int listening, stop[2];
    pthread_t thread;
    pthread_mutex_t lock; /* of the peers, against fake_live */
    fake_options options;
    fake_counts seen;
    peer *peers[MAX_PEERS];
    uint32_t next_session;
    td_segment *segment;
    uint64_t used;
    td_arena arena;
    tensor published;
    char name[64];
    struct {
        tensor at[64];
        int n;
        uint8_t note[64];
        size_t note_size;
    } queue[8];
    int queued;
    _Atomic bool unmap;
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static uint64_t take(fake_daemon *f, uint64_t bytes)
{
    uint64_t at = f->used;
    f->used += (bytes + 63) & ~UINT64_C(63);
    if (f->used > SEGMENT) f->used = (bytes + 63) & ~UINT64_C(63), at = 0; /* the tests never keep that much */
    return at;
}

static float *floats(fake_daemon *f, const tensor *t)
{
    return (float *)(f->segment->base + t->offset) + t->desc.offset;
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static void send_frame(peer *p, unsigned kind, size_t bytes, const uint8_t *payload, int fd)
{
    uint8_t *at = td_writer_begin(&p->writer, bytes);
    memcpy(at, payload, bytes);
    td_writer_end(&p->writer, bytes, kind, fd);
    td_writer_flush(&p->writer, p->socket, false, NULL);
}

static void reply(fake_daemon *f, peer *p, Td__Wire__Reply *r, int fd)
{
    size_t n = td__wire__reply__get_packed_size(r);
    uint8_t *bytes = malloc(n + 1);
    td__wire__reply__pack(r, bytes);
    if (f->options.reverse_replies && !p->held) {
        p->held = bytes;
        p->held_bytes = n;
        return;
    }
    send_frame(p, TD_FRAME_REPLY, n, bytes, fd);
    free(bytes);
    if (p->held) send_frame(p, TD_FRAME_REPLY, p->held_bytes, p->held, -1);
    free(p->held);
    p->held = NULL;
}

static void reply_error(fake_daemon *f, peer *p, uint64_t serial, int code, const char *op, const char *where,
                        const char *message)
{
    Td__Wire__Error e = TD__WIRE__ERROR__INIT;
    e.code = (uint32_t)code;
    e.op = (char *)op;
    e.where = (char *)where;
    e.message = (char *)message;
    Td__Wire__Reply r = TD__WIRE__REPLY__INIT;
    r.serial = serial;
    r.error = &e;
    reply(f, p, &r, -1);
}

static void fill_desc(Td__Wire__Desc *w, tensor *t)
{
    td__wire__desc__init(w);
    w->dtype = t->desc.dtype;
    w->n_shape = w->n_stride = t->desc.ndim;
    w->shape = t->desc.shape;
    w->stride = t->desc.stride;
    w->offset = t->desc.offset;
}

/* The address of an extent, and the descriptor to send with it (-1: the client has it). */
static int fill_address(fake_daemon *f, peer *p, Td__Wire__Address *a, uint64_t offset, uint64_t bytes)
{
    td__wire__address__init(a);
    a->segment = SEGMENT_ID;
    a->generation = 1;
    a->segment_size = f->segment->size;
    a->offset = f->options.at_end ? f->segment->size - f->options.at_end : offset;
    a->nbytes = bytes;
    a->writable = !f->options.reads_only;
    a->handle_kind = (Td__Wire__HandleKind)f->options.handle_kind;
    if (p->has_segment) return -1;
    p->has_segment = true;
    a->descriptor = true;
    f->seen.descriptors_sent++;
    return dup(f->segment->fd);
}

static uint64_t storage_bytes(const tensor *t)
{
    uint64_t lo, hi;
    td_desc_extent(&t->desc, &lo, &hi);
    return hi;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static tensor *bind_id(fake_daemon *f, peer *p, uint32_t id)
{
    if (id >= IDS || p->tensors[id].live) {
        f->seen.protocol_errors++;
        return NULL;
    }
    p->tensors[id] = (tensor){.live = true};
    return &p->tensors[id];
}

static tensor *find(fake_daemon *f, peer *p, uint32_t id)
{
    if (id < IDS && p->tensors[id].live) return &p->tensors[id];
    f->seen.protocol_errors++;
    return NULL;
}

static void compute(fake_daemon *f, const td_op *op, tensor **in, const td_scalar *numbers, const td_attrs *attrs,
                    tensor *out)
{
    int64_t n = td_desc_numel(&out->desc);
    if (out->desc.dtype != TD_FLOAT32) return;
    float *y = floats(f, out);
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(op->name, "full") == 0) {
            td_scalar v = attrs->at[1].s;
            y[i] = v.kind <= TD_S_INT ? (float)v.i : (float)v.re;
        } else if (strcmp(op->name, "add") == 0) {
            float a = in[0] ? floats(f, in[0])[i] : 0;
            y[i] = a + (in[1] ? floats(f, in[1])[i]
                              : (float)(numbers[0].kind <= TD_S_INT ? (double)numbers[0].i : numbers[0].re));
        } else {
            y[i] = 0;
        }
    }
}

static void run_op(fake_daemon *f, peer *p, const td_record *r, const td_op *op)
{
    td_operand operands[64];
    td_scalar numbers[8];
    tensor *in[64] = {NULL};
    int nnumbers = 0;
    uint32_t at = 0;
    bool poisoned = strcmp(op->name, "log") == 0;
    for (int i = 0; i < r->nin; i++) {
        operands[i] = (td_operand){NULL, NULL};
        if (r->in[i] == TD_NUMBER_BIT) {
            td_record_number(r, &at, &numbers[nnumbers], NULL);
            operands[i].scalar = &numbers[nnumbers++];
        } else if (r->in[i] && (in[i] = find(f, p, r->in[i]))) {
            operands[i].desc = &in[i]->desc;
            poisoned = poisoned || in[i]->poisoned;
        }
    }
    td_attrs attrs;
    td_desc out[16];
    td_error e;
    td_inference infer = {.op = op, .in = operands, .nin = r->nin, .attrs = &attrs, .out = out, .max_out = 16};
    if (td_attrs_decode(op, r->rest + at, r->nrest - at, &attrs, &e) || td_op_infer(&infer, &e) ||
        infer.nout != r->nout) {
        fprintf(stderr, "fake daemon: %s: %s\n", op->name, e.message);
        f->seen.protocol_errors++;
        return;
    }
    for (int k = 0; k < r->nout; k++) {
        tensor *t = r->flags & TD_RF_OUT ? find(f, p, r->out[k]) : bind_id(f, p, r->out[k]);
        if (!t) return;
        if (!(r->flags & TD_RF_OUT)) {
            t->desc = out[k];
            if (op->flags & TD_OF_DATA_SHAPE) t->desc.shape[0] = 2;
            t->offset = op->flags & TD_OF_VIEW ? in[0]->offset : take(f, td_desc_nbytes(&t->desc));
        }
        t->poisoned = poisoned;
        if (poisoned) snprintf(t->where, sizeof t->where, "%s", r->site ? p->sites[r->site % 1024] : "");
        if (!(op->flags & TD_OF_VIEW)) compute(f, op, in, numbers, &attrs, t);
    }
}

static void read_value(fake_daemon *f, peer *p, tensor *t, uint64_t serial)
{
    f->seen.reads++;
    if (!t) return reply_error(f, p, serial, TD_E_NOT_FOUND, "read", "", "no such id");
    if (t->poisoned) return reply_error(f, p, serial, TD_E_INVALID, "log", t->where, "fake failure");
    Td__Wire__Reply r = TD__WIRE__REPLY__INIT;
    Td__Wire__Desc d;
    Td__Wire__Address a;
    int fd = -1;
    r.serial = serial;
    fill_desc(&d, t);
    r.desc = &d;
    if (td_desc_nbytes(&t->desc) > INLINE || !td_desc_is_contiguous(&t->desc)) {
        fd = fill_address(f, p, &a, t->offset, storage_bytes(t));
        r.address = &a;
    } else {
        r.data.len = td_desc_nbytes(&t->desc);
        r.data.data = f->segment->base + t->offset + (size_t)t->desc.offset * td_dtype_size(t->desc.dtype);
    }
    reply(f, p, &r, fd);
}

static void shapes(fake_daemon *f, peer *p, const td_record *r, uint64_t serial)
{
    tensor *t = find(f, p, r->in[0]);
    if (!t || t->poisoned)
        return reply_error(f, p, serial, t ? TD_E_NOT_FOUND : TD_E_INVALID, "shape", "", "nothing there");
    Td__Wire__Reply reply_ = TD__WIRE__REPLY__INIT;
    Td__Wire__Desc d, *list[1] = {&d};
    fill_desc(&d, t);
    reply_.serial = serial;
    reply_.n_descs = 1;
    reply_.descs = list;
    reply(f, p, &reply_, -1);
}

static int read_shape(const uint32_t *w, td_desc *d)
{
    int n = w[0] >> 8 & 0xff;
    int64_t shape[TD_MAX_DIMS];
    for (int i = 0; i < n; i++) shape[i] = (int64_t)td_words_u64(w + 1 + 2 * i);
    td_desc_contiguous(d, w[0] & 0xff, n, shape, NULL);
    return 1 + 2 * n;
}

static void release(fake_daemon *f, peer *p, const td_record *r)
{
    f->seen.releases++;
    for (int i = 0; i < r->nin; i++) {
        tensor *t = find(f, p, r->in[i]);
        if (t) t->live = false, f->seen.released_ids++;
    }
}

/* A result that has no value in this fake: poisoned for GRAD (nothing there), zeros of the input's shape for the
 * others. */
static void bind_like(fake_daemon *f, peer *p, uint32_t id, const tensor *like, bool same)
{
    tensor *t = bind_id(f, p, id);
    if (!t) return;
    t->desc = like->desc;
    t->offset = same ? like->offset : take(f, td_desc_nbytes(&t->desc));
}

/* A backward that asks what a hook makes of gradients; unless it misgives, of one. */
static void ask_hook(fake_daemon *f, peer *p, const td_record *r)
{
    uint32_t ids[2] = {r->out[0], 4711};
    tensor *t = bind_id(f, p, ids[0]);
    if (!t) return;
    t->desc = p->tensors[r->in[0]].desc;
    f->seen.asks++;
    Td__Wire__Desc d, *list[2] = {&d, &d};
    fill_desc(&d, t);
    Td__Wire__Asked asked = TD__WIRE__ASKED__INIT;
    asked.hook = 1;
    asked.n_ids = asked.n_descs = f->options.misgives ? 2 : 1;
    asked.ids = ids;
    asked.descs = list;
    asked.wanted = 1;
    Td__Wire__Reply y = TD__WIRE__REPLY__INIT;
    y.serial = td_words_u64(r->rest + 3);
    y.asked = &asked;
    reply(f, p, &y, -1);
}

static void backward(fake_daemon *f, peer *p, const td_record *r)
{
    if (r->nrest > 3) return ask_hook(f, p, r);
    for (int i = 0; i < r->nout; i++) bind_like(f, p, r->out[i], &p->tensors[r->in[r->rest[1] * 2 + i]], false);
}

static void control(fake_daemon *f, peer *p, const td_record *r, const uint8_t *data, size_t ndata)
{
    tensor *first = r->nin && r->in[0] ? find(f, p, r->in[0]) : NULL;
    tensor *t;
    int n;
    switch (r->op) {
    case TD_REC_DATA:
        if (!(t = bind_id(f, p, r->out[0]))) return;
        n = read_shape(r->rest, &t->desc);
        t->offset = take(f, r->rest[n + 1]);
        if ((size_t)r->rest[n] + r->rest[n + 1] <= ndata)
            memcpy(f->segment->base + t->offset, data + r->rest[n], r->rest[n + 1]);
        else f->seen.protocol_errors++;
        break;
    case TD_REC_PUT:
        if (!(t = bind_id(f, p, r->out[0]))) return;
        read_shape(r->rest + 3, &t->desc);
        t->offset = r->rest[0] * UINT64_C(64) + td_words_u64(r->rest + 1); /* a lease's number is where it lies */
        break;
    case TD_REC_READ: read_value(f, p, first, td_words_u64(r->rest)); break;
    case TD_REC_SYNC: {
        Td__Wire__Reply y = TD__WIRE__REPLY__INIT;
        y.serial = td_words_u64(r->rest);
        reply(f, p, &y, -1);
        break;
    }
    case TD_REC_SHAPE: shapes(f, p, r, td_words_u64(r->rest)); break;
    case TD_REC_GRAD:
        if ((t = bind_id(f, p, r->out[0])) && first) t->poisoned = true;
        break;
    case TD_REC_BACKWARD: backward(f, p, r); break;
    case TD_REC_BACKWARD_GO: {
        Td__Wire__Reply y = TD__WIRE__REPLY__INIT;
        y.serial = td_words_u64(r->rest + 2);
        if (y.serial) reply(f, p, &y, -1);
        break;
    }
    case TD_REC_ALIAS:
    case TD_REC_DATA_OF:
        if (first) bind_like(f, p, r->out[0], first, true);
        break;
    default: break;
    }
}

static void batch(fake_daemon *f, peer *p, const td_frame *frame)
{
    Td__Wire__Batch *b = td__wire__batch__unpack(&f->arena.allocator, frame->bytes, frame->payload);
    if (!b) {
        f->seen.protocol_errors++;
        return;
    }
    for (size_t i = 0; i < b->n_sites; i++, f->seen.sites++)
        snprintf(p->sites[b->sites[i]->id % 1024], 96, "%s", b->sites[i]->text);
    td_record r;
    td_error e;
    for (size_t at = 0; at < b->n_words; at += r.words) {
        if (td_record_parse(b->words + at, b->n_words - at, &r, &e)) {
            fprintf(stderr, "fake daemon: %s\n", e.message);
            f->seen.protocol_errors++;
            return;
        }
        f->seen.records++;
        if (f->options.die_at && ++p->records >= f->options.die_at) {
            shutdown(p->socket, SHUT_RDWR);
            return;
        }
        const td_op *op = r.op < TD_REC_FIRST ? td_op_by_id(r.op) : NULL;
        f->seen.ops += op != NULL;
        if (op) run_op(f, p, &r, op);
        else if (r.op == TD_REC_RELEASE) release(f, p, &r);
        else control(f, p, &r, b->data.data, b->data.len);
    }
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void queue_get(fake_daemon *f, peer *p, const Td__Wire__QueueGet *g, Td__Wire__Reply *r)
{
    if (!f->queued) return reply_error(f, p, r->serial, TD_E_TIMEOUT, "queue_get", "", "nobody put anything");
    Td__Wire__Item item = TD__WIRE__ITEM__INIT;
    Td__Wire__Desc descs[64], *list[64];
    Td__Wire__Address addresses[64], *places[64];
    int fd = -1;
    if (g->n_ids < (size_t)f->queue[0].n) {
        item.needs = (uint32_t)f->queue[0].n;
        if (f->options.mixes_items) item.note = (ProtobufCBinaryData){f->queue[0].note_size, f->queue[0].note};
        r->item = &item;
        return reply(f, p, r, -1);
    }
    for (int i = 0; i < f->queue[0].n; i++) {
        tensor *t = bind_id(f, p, g->ids[i]);
        if (!t) return;
        *t = f->queue[0].at[i];
        fill_desc(list[i] = &descs[i], t);
        int brings = fill_address(f, p, places[i] = &addresses[i], t->offset, storage_bytes(t));
        if (brings >= 0) fd = brings;
    }
    item.n_descs = item.n_addresses = (size_t)f->queue[0].n;
    item.descs = list;
    item.addresses = places;
    item.note.data = f->queue[0].note;
    item.note.len = f->queue[0].note_size;
    item.left = (uint32_t)--f->queued;
    r->item = &item;
    reply(f, p, r, fd);
    memmove(f->queue, f->queue + 1, sizeof f->queue - sizeof f->queue[0]);
}

static void queue_put(fake_daemon *f, peer *p, const Td__Wire__QueuePut *q, Td__Wire__Reply *r)
{
    f->queue[f->queued].n = (int)q->n_ids;
    for (size_t i = 0; i < q->n_ids; i++) {
        tensor *t = find(f, p, q->ids[i]);
        if (t) f->queue[f->queued].at[i] = *t;
    }
    f->queue[f->queued].note_size = q->note.len;
    memcpy(f->queue[f->queued].note, q->note.data, q->note.len);
    r->queue_size = (uint32_t)++f->queued;
    reply(f, p, r, -1);
}

static void queue_return(fake_daemon *f, peer *p, const Td__Wire__QueueReturn *q)
{
    f->seen.returns++;
    memmove(f->queue + 1, f->queue, sizeof f->queue - sizeof f->queue[0]);
    f->queue[0].n = (int)q->n_ids;
    for (size_t i = 0; i < q->n_ids; i++) {
        tensor *t = find(f, p, q->ids[i]);
        if (t) f->queue[0].at[i] = *t;
    }
    f->queue[0].note_size = q->note.len;
    if (q->note.len) memcpy(f->queue[0].note, q->note.data, q->note.len);
    f->queued++;
}

static void status(fake_daemon *f, peer *p, Td__Wire__Reply *r)
{
    Td__Wire__Cell cells[4];
    for (int i = 0; i < 4; i++) td__wire__cell__init(&cells[i]);
    cells[0].value_case = cells[2].value_case = TD__WIRE__CELL__VALUE_TEXT;
    cells[0].text = "pid";
    cells[1].value_case = TD__WIRE__CELL__VALUE_INTEGER;
    cells[1].integer = 42;
    cells[2].text = "version";
    cells[3].value_case = TD__WIRE__CELL__VALUE_TEXT;
    cells[3].text = "fake";
    Td__Wire__Cell *row_cells[2][2] = {{&cells[0], &cells[1]}, {&cells[2], &cells[3]}};
    Td__Wire__Row rows[2], *list[2] = {&rows[0], &rows[1]};
    for (int i = 0; i < 2; i++) td__wire__row__init(&rows[i]), rows[i].n_cells = 2, rows[i].cells = row_cells[i];
    char *columns[2] = {"key", "value"};
    Td__Wire__Table t = TD__WIRE__TABLE__INIT;
    t.n_columns = 2;
    t.columns = columns;
    t.n_rows = 2;
    t.rows = list;
    r->table = &t;
    reply(f, p, r, -1);
}

static void open_name(fake_daemon *f, peer *p, const Td__Wire__Open *o, Td__Wire__Reply *r)
{
    if (strcmp(o->name, f->name) != 0) return reply_error(f, p, r->serial, TD_E_NOT_FOUND, "open", "", "no such name");
    tensor *t = bind_id(f, p, o->id);
    if (!t) return;
    *t = f->published;
    Td__Wire__Desc d;
    fill_desc(&d, t);
    r->desc = &d;
    reply(f, p, r, -1);
}

static void publish(fake_daemon *f, peer *p, const Td__Wire__Publish *q, Td__Wire__Reply *r)
{
    tensor *t = find(f, p, q->id), *edition = q->bind ? bind_id(f, p, q->bind) : NULL;
    Td__Wire__Desc d;
    if (!t) return;
    f->published = *t;
    snprintf(f->name, sizeof f->name, "%s", q->name);
    if (edition) {
        *edition = *t;
        fill_desc(&d, edition);
        if (!f->options.misgives) r->desc = &d;
    }
    reply(f, p, r, -1);
}

static void call(fake_daemon *f, peer *p, const td_frame *frame)
{
    Td__Wire__Call *c = td__wire__call__unpack(&f->arena.allocator, frame->bytes, frame->payload);
    Td__Wire__Reply r = TD__WIRE__REPLY__INIT;
    Td__Wire__Address a;
    int fd = -1;
    r.serial = c->serial;
    if (c->lease) {
        f->seen.leases++;
        uint64_t offset = take(f, c->lease->bytes + 64) + 64;
        fd = fill_address(f, p, &a, offset, c->lease->bytes - f->options.lease_lacks);
        r.address = &a;
        r.lease = (uint32_t)(offset / 64);
    } else if (c->map || c->write_begin) {
        f->seen.maps++;
        tensor *t = find(f, p, c->map ? c->map->id : c->write_begin->id);
        if (!t) return reply_error(f, p, c->serial, TD_E_NOT_FOUND, "map", "", "no such id");
        fd = fill_address(f, p, &a, t->offset, storage_bytes(t));
        r.address = &a;
    } else if (c->publish) {
        publish(f, p, c->publish, &r);
        return;
    } else if (c->open) {
        open_name(f, p, c->open, &r);
        return;
    } else if (c->queue_get) {
        queue_get(f, p, c->queue_get, &r);
        return;
    } else if (c->queue_put) {
        queue_put(f, p, c->queue_put, &r);
        return;
    } else if (c->status) {
        status(f, p, &r);
        return;
    } else if (c->queue_return) {
        queue_return(f, p, c->queue_return);
    } else if (c->lease_drop) {
        f->seen.lease_drops++;
    } else if (c->unmapped) {
        f->seen.unmapped++;
    }
    reply(f, p, &r, fd);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static void hello(fake_daemon *f, peer *p, const td_frame *frame)
{
    uint8_t bytes[8192];
    Td__Wire__Hello *h = td__wire__hello__unpack(&f->arena.allocator, frame->bytes, frame->payload);
    f->seen.hellos++;
    if (f->options.refuse) {
        Td__Wire__Error e = TD__WIRE__ERROR__INIT;
        e.code = TD_E_QUOTA;
        e.message = "too many clients";
        Td__Wire__Event v = TD__WIRE__EVENT__INIT;
        v.error = &e;
        return send_frame(p, TD_FRAME_EVENT, td__wire__event__pack(&v, bytes), bytes, -1);
    }
    for (int i = 0; i < MAX_PEERS && h->clone_session; i++)
        if (f->peers[i] && f->peers[i]->session == h->clone_session && f->peers[i]->token == h->clone_token)
            memcpy(p->tensors, f->peers[i]->tensors, sizeof p->tensors);
    p->session = ++f->next_session;
    p->token = p->session * UINT64_C(1000003);
    Td__Wire__Welcome w = TD__WIRE__WELCOME__INIT;
    w.protocol = f->options.protocol ? f->options.protocol : TD_PROTOCOL;
    w.table_hash = f->options.other_op ? 1 : td_ops_hash;
    w.session = p->session;
    w.token = p->token;
    w.version = "fake";
    w.pid = (uint32_t)getpid();
    w.inline_limit = INLINE;
    uint32_t ids[1024], hashes[1024];
    for (unsigned id = 0; f->options.other_op && id < td_op_count; id++) {
        if (!td_op_by_id(id)) continue;
        ids[w.n_op_ids] = id;
        hashes[w.n_op_ids++] = td_op_by_id(id)->hash + (id == f->options.other_op);
    }
    w.n_op_hashes = w.n_op_ids;
    w.op_ids = ids;
    w.op_hashes = hashes;
    send_frame(p, TD_FRAME_WELCOME, td__wire__welcome__pack(&w, bytes), bytes, -1);
}

static void drop_peer(fake_daemon *f, int i)
{
    peer *p = f->peers[i];
    f->peers[i] = NULL;
    close(p->socket);
    td_reader_deinit(&p->reader);
    td_writer_deinit(&p->writer);
    free(p->held);
    free(p);
}

static void serve(fake_daemon *f, int i)
{
    peer *p = f->peers[i];
    td_error e = {0};
    if (f->options.slow_reader) usleep(200);
    if (td_reader_fill(&p->reader, p->socket, true, &e) <= 0) return drop_peer(f, i);
    td_frame frame;
    while (td_reader_next(&p->reader, &frame, &e) > 0) {
        f->seen.frames++;
        if (frame.kind == TD_FRAME_HELLO) hello(f, p, &frame);
        else if (frame.kind == TD_FRAME_BATCH) batch(f, p, &frame);
        else if (frame.kind == TD_FRAME_CALL) call(f, p, &frame);
        td_frame_done(&frame);
        td_arena_reset(&f->arena);
    }
}

static void welcome_peer(fake_daemon *f)
{
    int s = accept4(f->listening, NULL, NULL, SOCK_CLOEXEC);
    for (int i = 0; i < MAX_PEERS && s >= 0; i++) {
        if (f->peers[i]) continue;
        peer *p = f->peers[i] = calloc(1, sizeof *p);
        p->socket = s;
        td_reader_init(&p->reader, true);
        td_writer_init(&p->writer);
        return;
    }
    if (s >= 0) close(s);
}

static void say_unmap(fake_daemon *f)
{
    uint8_t bytes[64];
    Td__Wire__Event v = TD__WIRE__EVENT__INIT;
    v.unmap_segment = SEGMENT_ID;
    for (int i = 0; i < MAX_PEERS; i++)
        if (f->peers[i])
            send_frame(f->peers[i], TD_FRAME_EVENT, td__wire__event__pack(&v, bytes), bytes, -1),
                f->peers[i]->has_segment = false;
}

static void *loop(void *context)
{
    fake_daemon *f = context;
    for (;;) {
        struct pollfd p[MAX_PEERS + 2] = {{f->stop[0], POLLIN, 0}, {f->listening, POLLIN, 0}};
        for (int i = 0; i < MAX_PEERS; i++)
            p[i + 2] = (struct pollfd){f->peers[i] ? f->peers[i]->socket : -1, POLLIN, 0};
        poll(p, MAX_PEERS + 2, -1);
        if (p[0].revents) {
            char what;
            if (read(f->stop[0], &what, 1) != 1 || what == 's') return NULL;
            say_unmap(f);
        }
        pthread_mutex_lock(&f->lock);
        for (int i = 0; i < MAX_PEERS; i++)
            if (p[i + 2].revents) serve(f, i);
        if (p[1].revents) welcome_peer(f);
        pthread_mutex_unlock(&f->lock);
    }
}

fake_daemon *fake_start(const fake_options *options)
{
    fake_daemon *f = calloc(1, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    if (options) f->options = *options;
    const char *tmp = getenv("TMPDIR");
    snprintf(f->directory, sizeof f->directory, "%s/tensord-fake-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    if (!mkdtemp(f->directory)) abort();
    snprintf(f->path, sizeof f->path, "%s/socket", f->directory);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, f->path, sizeof f->path);
    f->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    td_arena_init(&f->arena, 64 << 20);
    if (bind(f->listening, (struct sockaddr *)&at, sizeof at) || listen(f->listening, 16) ||
        pipe2(f->stop, O_CLOEXEC) || td_segment_create(&f->segment, TD_SHM_MEMFD, TD_SEGMENT_SESSION, SEGMENT, NULL) ||
        pthread_create(&f->thread, NULL, loop, f))
        abort();
    return f;
}

void fake_stop(fake_daemon *f)
{
    if (write(f->stop[1], "s", 1) != 1) abort();
    pthread_join(f->thread, NULL);
    for (int i = 0; i < MAX_PEERS; i++)
        if (f->peers[i]) drop_peer(f, i);
    close(f->listening);
    close(f->stop[0]);
    close(f->stop[1]);
    unlink(f->path);
    rmdir(f->directory);
    td_segment_free(f->segment);
    td_arena_deinit(&f->arena);
    free(f);
}

const char *fake_path(const fake_daemon *f)
{
    return f->path;
}

fake_counts *fake_seen(fake_daemon *f)
{
    return &f->seen;
}

int fake_live(fake_daemon *f)
{
    int n = 0;
    peer *newest = NULL;
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < MAX_PEERS; i++)
        if (f->peers[i] && (!newest || f->peers[i]->session > newest->session)) newest = f->peers[i];
    for (int id = 0; newest && id < IDS; id++) n += newest->tensors[id].live;
    pthread_mutex_unlock(&f->lock);
    return n;
}

void fake_unmap(fake_daemon *f)
{
    if (write(f->stop[1], "u", 1) != 1) abort();
}
