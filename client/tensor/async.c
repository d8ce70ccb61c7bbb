/* Requests about values: each is a question that its call would wait for, or two, one after the other. */
#include "client/tensor/async.h"
#include "client/tensor/internal.h"
#include "client/tensor/recorder.h"
#include "client/tensor/run.h"
#include "client/tensord_bind.h"
#include "proto/ops/opid.h"

#include <stdlib.h>
#include <string.h>

void td_value_request_free(td_request *r)
{
    td_value_request *v = td_value_request_of(r);
    if (v->array && --v->array->refs == 0) td_array_free(v->array);
    if (v->own_buffer) free(v->buffer);
}

const td_request_kind td_value_request_kind = {.free = td_value_request_free};

static int take_copy(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    td_value_request *v = td_value_request_of(r);
    return td_take_value(v->array, v->buffer, v->bytes, reply, fd, e);
}

static int ask_copy(td_request *r, uint32_t ms)
{
    (void)ms;
    td_value_request *v = td_value_request_of(r);
    uint64_t bytes = td_desc_nbytes(&v->array->desc);
    char text[128];
    if (v->own_buffer && !(v->buffer = malloc(bytes + 1)))
        return td_raise(TD_E_SYSTEM, r->op, "no memory for a copy of %llu bytes", (unsigned long long)bytes);
    if (v->own_buffer) v->bytes = bytes;
    if (v->bytes != bytes)
        return td_raise(TD_E_INVALID, r->op, "the buffer has %zu bytes, but %s takes %llu", v->bytes,
                        td_desc_text(&v->array->desc, text, sizeof text), (unsigned long long)bytes);
    r->take = take_copy;
    return td_question_record(r, TD_REC_READ, 1, &v->array->id, 2);
}

static int take_address(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    td_value_request *v = td_value_request_of(r);
    int rc = td_take_address(v->array, v->writes, reply, fd, e);
    if (!rc && v->array->bytes) v->buffer = td_first_element(v->array);
    return rc;
}

int td_ask_address(td_request *r, uint32_t ms)
{
    (void)ms;
    td_value_request *v = td_value_request_of(r);
    td_question *q = td_question_new(r, sizeof *q);
    if (!q) return td_last_error()->code;
    r->take = take_address;
    v->writes = r->client->out.writes;
    Td__Wire__Map map = TD__WIRE__MAP__INIT;
    map.id = v->array->id;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.map = &map;
    return td_question_ask(q, &call);
}

static int take_shape(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    (void)fd;
    if (reply->n_descs != 1) return td_fail(e, TD_E_PROTOCOL, "%zu shapes came for one", reply->n_descs);
    r->more = true;
    return td_take_shape(td_value_request_of(r)->array, reply->descs[0], e);
}

/* It lies where nobody maps it: what is read is a copy, made in its place among what was asked. */
static int bring(td_value_request *v)
{
    td_arg from = td_arg_array(v->array);
    td_attrs to;
    td_array *here;
    td_attrs_init(&to);
    td_attrs_int(&to, TD_CPU);
    bool grad = td_set_grad_enabled(false);
    int rc = td_run_locked(v->request.client, NULL, td_op_by_id(TD_OP_TO_DEVICE), 0, 1, &from, &to, 1, &here, NULL);
    td_set_grad_enabled(grad);
    if (rc) return rc;
    td_array_keep(here);
    if (--v->array->refs == 0) td_array_free(v->array);
    v->array = here;
    return TD_OK;
}

static int ask_value(td_request *r, uint32_t ms)
{
    td_value_request *v = td_value_request_of(r);
    bool reads = v->own_buffer || v->bytes || v->buffer;
    int rc = reads && v->array->desc.device != TD_CPU ? bring(v) : TD_OK;
    r->ask = reads ? ask_copy : td_ask_address;
    return rc ? rc : r->ask(r, ms);
}

/* A shape that is not known here comes first. */
static int ask_shape(td_request *r, uint32_t ms)
{
    const td_array *a = td_value_request_of(r)->array;
    r->ask = ask_value;
    if (!a->unknown) return r->ask(r, ms);
    r->take = take_shape;
    return td_question_record(r, TD_REC_SHAPE, 1, &a->id, 2);
}

static td_request *about(td_array *a, const char *op, int timeout_ms, td_done done, void *context)
{
    if (!a) return td_raise_null(op, "the array"), NULL;
    td_request *r =
        td_request_new(sizeof(td_value_request), &td_value_request_kind, a->client, op, timeout_ms, done, context);
    if (!r) return NULL;
    a->refs++;
    td_value_request_of(r)->array = a;
    r->ask = ask_shape;
    return r;
}

TD_API td_request *td_async_ready(td_array *a, int timeout_ms, td_done done, void *context)
{
    if (td_recording && a) td_recording->look(a, "ready");
    td_request *r = about(a, "ready", timeout_ms, done, context);
    return r ? td_request_begin(r, TD_OK) : NULL;
}

TD_API td_request *td_async_read(td_array *a, void *buffer, size_t bytes, int timeout_ms, td_done done, void *context)
{
    if (td_recording && a) td_recording->look(a, "read");
    td_request *r = about(a, "read", timeout_ms, done, context);
    if (!r) return NULL;
    td_value_request *v = td_value_request_of(r);
    v->own_buffer = !buffer;
    v->buffer = buffer;
    v->bytes = bytes;
    return td_request_begin(r, TD_OK);
}

TD_API const void *td_request_data(td_request *r)
{
    if (td_request_look(r)) return NULL;
    void *buffer = td_request_is(r, &td_value_request_kind) ? td_value_request_of(r)->buffer : NULL;
    return buffer ? buffer : td_request_none(r, "bytes");
}

static const td_value_request *value_of(const td_request *r)
{
    return td_request_is(r, &td_value_request_kind) ? (const td_value_request *)r : NULL;
}

td_array *td_request_about(const td_request *r)
{
    const td_value_request *v = value_of(r);
    return v ? v->array : NULL;
}

size_t td_request_bytes(const td_request *r)
{
    const td_value_request *v = value_of(r);
    return v ? v->bytes : 0;
}
