/* Values out: copies, single items, and the bytes themselves for reading and writing.
 *
 * `settled` remembers how far the stream's writes had gone when a value was known to be there: while this client has
 * asked for no further write, looking again costs no round trip. */
#include "client/tensor/async.h"
#include "client/tensor/internal.h"
#include "client/tensor/recorder.h"
#include "proto/base/device.h"

#include <math.h>
#include <string.h>

int td_adopt_address(td_array *a, const Td__Wire__Address *at, int *fd, td_error *e)
{
    uint64_t lo, hi;
    td_desc_extent(&a->desc, &lo, &hi);
    if (hi > at->nbytes) return td_fail(e, TD_E_PROTOCOL, "the storage of a tensor is smaller than the tensor");
    int32_t mapping;
    unsigned char *bytes;
    int rc = td_map_address(a->client, at, fd, &mapping, &bytes, e);
    if (rc) return rc;
    if (a->mapping >= 0) td_unuse_mapping(a->client, a->mapping);
    a->mapping = mapping;
    a->bytes = bytes;
    return TD_OK;
}

/* Copy a strided value into row-major bytes. */
static void gather(const td_desc *d, const unsigned char *storage, unsigned char *out)
{
    if (td_desc_nbytes(d) >= TD_LONG_COPY) td_step_aside();
    size_t item = td_dtype_size((td_dtype)d->dtype);
    const unsigned char *from = storage + (size_t)d->offset * item;
    int64_t n = td_desc_numel(d);
    if (n == 0 || td_desc_is_contiguous(d)) {
        if (n) memcpy(out, from, td_desc_nbytes(d));
        return;
    }
    int last = d->ndim - 1;
    int64_t index[TD_MAX_DIMS] = {0};
    for (int64_t row = n / d->shape[last]; row > 0; row--) {
        const unsigned char *p = from;
        for (int k = 0; k < last; k++) p += (size_t)(index[k] * d->stride[k]) * item;
        for (int64_t i = 0; i < d->shape[last]; i++, out += item)
            memcpy(out, p + (size_t)(i * d->stride[last]) * item, item);
        for (int k = last - 1; k >= 0 && ++index[k] == d->shape[k]; k--) index[k] = 0;
    }
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

typedef struct reading {
    td_array *a;
    unsigned char *buffer;
    size_t bytes;
    td_desc *found; /* of an item: what came has this; if it is not one element, the buffer stays as it is */
} reading;

int td_take_value(td_array *a, void *buffer, size_t bytes, const td_reply *r, int *fd, td_error *e)
{
    if (r->address) { /* a large value: it is copied from shared memory */
        int rc = td_adopt_address(a, r->address, fd, e);
        if (!rc) gather(&a->desc, a->bytes, buffer);
        return rc;
    }
    if (r->data.len != bytes) return td_fail(e, TD_E_PROTOCOL, "%zu bytes came for a value of %zu", r->data.len, bytes);
    if (bytes) memcpy(buffer, r->data.data, bytes);
    return TD_OK;
}

static int on_read(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    const reading *g = w->context;
    if (!g->found) return td_take_value(g->a, g->buffer, g->bytes, r, fd, e);
    if (!r->desc) return td_fail(e, TD_E_PROTOCOL, "a value came without its shape");
    int rc = td_desc_from_wire(r->desc, g->found, e);
    if (!rc && r->address)
        rc = td_take_shape(g->a, r->desc, e); /* what is small may be a copy, with strides of its own */
    if (rc) return rc;
    if (td_desc_numel(g->found) == 1) return td_take_value(g->a, g->buffer, td_desc_nbytes(g->found), r, fd, e);
    td_take_unclaimed(c, r, fd);
    return TD_OK;
}

/* This thread knows that it is written, whatever was asked since. */
static _Thread_local const td_array *at_hand __attribute__((tls_model("initial-exec")));

void td_at_hand(const td_array *a)
{
    at_hand = a;
}

static bool is_settled(const td_array *a)
{
    return a->bytes && (a->settled == a->client->out.writes || a == at_hand);
}

/* Under the lock; not of what is_settled(). */
static int ask_value(reading *g, const char *op)
{
    td_client *c = g->a->client;
    td_reply_wait w = {.on_reply = on_read, .context = g};
    td_expect(c, &w);
    uint32_t rest[2];
    td_words_put_u64(rest, w.serial);
    if (td_control(c, TD_REC_READ, NULL, 1, &g->a->id, 0, NULL, 2, rest)) td_unexpect(c, &w);
    return td_await(c, &w, op);
}

/* Under the lock, of a known descriptor. */
static int read_value(td_array *a, void *buffer, size_t bytes, const char *op)
{
    if (!is_settled(a)) return ask_value(&(reading){a, buffer, bytes, NULL}, op);
    gather(&a->desc, a->bytes, buffer);
    return TD_OK;
}

/* Does it lie where nobody maps it? */
static bool is_away(td_array *a)
{
    bool others = a->client->daemon.devices >> (TD_CPU + 1); /* else that need not be known */
    return others && td_device_of(a) > TD_CPU;
}

td_array *td_here(td_array *a)
{
    if (!is_away(a)) return td_retain(a);
    bool grad = td_set_grad_enabled(false);
    td_array *here = td_at_to_device(NULL, a, TD_CPU);
    td_set_grad_enabled(grad);
    return here;
}

static int read_away(td_array *a, void *buffer, size_t bytes)
{
    td_array *here = td_here(a);
    int rc = here ? td_read(here, buffer, bytes) : td_last_error()->code;
    td_release(here);
    return rc;
}

static int item_away(td_array *a, td_scalar *out)
{
    td_array *here = td_here(a);
    int rc = here ? td_item(here, out) : td_last_error()->code;
    td_release(here);
    return rc;
}

TD_API int td_read(td_array *a, void *buffer, size_t bytes)
{
    if (!a) return td_raise_null("read", "the array");
    if (td_recording) td_recording->look(a, "read");
    if (is_away(a)) return read_away(a, buffer, bytes);
    int rc = td_enter(a->client, "read");
    if (rc) return rc;
    rc = td_resolve(a);
    if (!rc && bytes != td_desc_nbytes(&a->desc)) {
        char text[128];
        rc = td_raise(TD_E_INVALID, "read", "the buffer has %zu bytes, but %s takes %llu", bytes,
                      td_desc_text(&a->desc, text, sizeof text), (unsigned long long)td_desc_nbytes(&a->desc));
    }
    if (!rc) rc = read_value(a, buffer, bytes, "read");
    td_leave(a->client);
    return rc;
}

TD_API int td_item(td_array *a, td_scalar *out)
{
    *out = td_int(0);
    if (!a) return td_raise_null("item", "the array");
    if (td_recording) td_recording->look(a, "item");
    if (is_away(a)) return item_away(a, out);
    int rc = td_enter(a->client, "item");
    if (rc) return rc;
    _Alignas(16) unsigned char element[16];
    td_desc d = a->desc;
    if (a->unknown) rc = ask_value(&(reading){a, element, 0, &d}, "item");
    else if (td_desc_numel(&d) == 1) rc = read_value(a, element, td_desc_nbytes(&d), "item");
    if (!rc && td_desc_numel(&d) != 1) {
        char text[128];
        rc = td_raise(TD_E_SHAPE, "item", "%s has %lld elements; only one element can be an item",
                      td_desc_text(&d, text, sizeof text), (long long)td_desc_numel(&d));
    }
    if (!rc) *out = td_scalar_load((td_dtype)d.dtype, element);
    td_leave(a->client);
    return rc;
}

TD_API double td_item_f64(td_array *a)
{
    td_scalar s;
    if (td_item(a, &s)) return NAN;
    return s.kind <= TD_S_INT ? (double)s.i : s.re;
}

TD_API int64_t td_item_i64(td_array *a)
{
    td_scalar s;
    if (td_item(a, &s)) return INT64_MIN;
    return s.kind <= TD_S_INT ? s.i : (int64_t)s.re;
}

/* ---- the bytes themselves ---------------------------------------------------------------------------------------- */

int td_take_address(td_array *a, uint64_t writes, const td_reply *r, int *fd, td_error *e)
{
    if (!r->address && a->desc.device != TD_CPU) return TD_OK; /* nobody maps it; but it is written */
    if (!r->address) return td_fail(e, TD_E_PROTOCOL, "no address came");
    int rc = td_adopt_address(a, r->address, fd, e);
    if (!rc) a->settled = writes;
    return rc;
}

typedef struct locating {
    td_array *a;
    uint64_t writes; /* of the client, when it was asked: while this thread waits, others may ask for more */
    td_info *info;   /* or NULL: it is not asked for */
} locating;

static int on_address(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c;
    const locating *x = w->context;
    if (x->a->unknown && !r->desc) return td_fail(e, TD_E_PROTOCOL, "an address came without its shape");
    int rc = x->a->unknown ? td_take_shape(x->a, r->desc, e) : TD_OK;
    if (!rc && x->info) rc = td_take_info(x->info, r, e);
    return rc ? rc : td_take_address(x->a, x->writes, r, fd, e);
}

unsigned char *td_first_element(const td_array *a)
{
    return a->bytes + (size_t)a->desc.offset * td_dtype_size((td_dtype)a->desc.dtype);
}

/* One answer has it all: the address, the descriptor where that was not known, and that all which was sent before has
 * ended. */
static int ask_address(td_array *a, bool quiet, td_info *info)
{
    td_client *c = a->client;
    Td__Wire__Map map = TD__WIRE__MAP__INIT;
    map.id = a->id;
    map.quiet = quiet;
    map.facts = info != NULL;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.map = &map;
    locating x = {a, c->out.writes, info};
    td_reply_wait w = {.on_reply = on_address, .context = &x};
    int rc = td_ask_later(c, &call, -1, &w);
    uint64_t asked = c->out.asked;
    if (!rc) rc = td_await(c, &w, "data");
    if (!rc && quiet) c->out.quiet = asked;
    td_forget_wait(c, &w);
    return rc;
}

/* `info`: what comes along with an address, if one is asked for. */
static int locate(td_array *a, bool settle, td_info *info)
{
    td_client *c = a->client;
    if (!is_settled(a)) return ask_address(a, settle && c->out.quiet != c->out.asked, info);
    td_quiet_wait all = {0};
    if (settle) td_ask_quiet(c, &all);
    return td_await_quiet(&all);
}

int td_locate(td_array *a)
{
    return locate(a, false, NULL);
}

int td_made(td_array *a)
{
    int rc = td_enter(a->client, "data");
    if (rc) return rc;
    if (!a->client->eager) rc = td_locate(a);
    td_leave(a->client);
    return rc;
}

/* Of a descriptor that is known. */
static int check_here(const td_array *a)
{
    if (a->unknown || a->desc.device == TD_CPU) return TD_OK;
    return td_raise(TD_E_UNSUPPORTED, "data",
                    "the tensor lies on %s, where nobody can map its bytes; copy it to the cpu first",
                    td_device_name(a->desc.device));
}

const void *td_data_as(td_array *a, bool settle, td_info *info)
{
    if (!a) {
        td_raise_null("data", "the array");
        return NULL;
    }
    if (td_recording) td_recording->look(a, "data");
    if (td_enter(a->client, "data")) return NULL;
    bool apart = info && is_settled(a);
    int rc = check_here(a);
    if (!rc) rc = locate(a, settle, info);
    if (!rc) rc = check_here(a);
    const void *p = rc ? NULL : td_first_element(a);
    td_leave(a->client);
    return apart && p && td_get_info(a, info) ? NULL : p;
}

TD_API const void *td_data(td_array *a)
{
    return td_data_as(a, false, NULL);
}

static void end_writing(td_array *a)
{
    a->writing = false;
    a->client->out.writes++;
    td_control(a->client, TD_REC_WRITE_END, NULL, 1, &a->id, 0, NULL, 0, NULL);
}

static int take_written(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    const td_value_request *v = td_value_request_of(r);
    return td_take_address(v->array, v->writes, reply, fd, e);
}

static int ask_write(td_request *r, uint32_t ms)
{
    td_value_request *v = td_value_request_of(r);
    td_question *q = td_question_new(r, sizeof *q);
    if (!q) return td_last_error()->code;
    v->writes = r->client->out.writes;
    Td__Wire__WriteBegin begin = TD__WIRE__WRITE_BEGIN__INIT;
    begin.id = v->array->id;
    begin.timeout_ms = ms;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.write_begin = &begin;
    return td_question_ask(q, &call);
}

/* Under the lock, of a known descriptor. */
static int begin_writing(td_array *a, int timeout_ms)
{
    td_value_request v = {.request = {.ask = ask_write, .take = take_written, .in_stream = true}, .array = a};
    int rc = td_request_wait(&v.request, &td_value_request_kind, a->client, "write_begin", timeout_ms);
    if (rc) return rc;
    a->writing = true;
    if (a->client->memory.mappings[a->mapping].writable) return TD_OK;
    end_writing(a);
    return td_raise(TD_E_PERMISSION, "write_begin",
                    "the tensor lies in memory of another session or of the service, which is read-only "
                    "here; write with an op (copy_), or clone it first");
}

TD_API void *td_write_begin(td_array *a, int timeout_ms)
{
    if (!a) {
        td_raise_null("write_begin", "the array");
        return NULL;
    }
    if (td_recording) td_recording->refuse(a, NULL, "writing into the memory of what it makes");
    if (td_enter(a->client, "write_begin")) return NULL;
    int rc = td_resolve(a);
    if (!rc) rc = begin_writing(a, timeout_ms);
    void *p = rc ? NULL : td_first_element(a);
    td_leave(a->client);
    return p;
}

TD_API int td_write_end(td_array *a)
{
    if (!a) return td_raise_null("write_end", "the array");
    int rc = td_enter(a->client, "write_end");
    if (rc) return rc;
    if (a->writing) end_writing(a);
    else rc = td_raise(TD_E_INVALID, "write_end", "td_write_begin was not called for this array");
    td_leave(a->client);
    return rc;
}
