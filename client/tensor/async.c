/* Requests about values, names and tables: each is a question that its call would wait for, or two, one after the
 * other. */
#include "client/program/trace.h"
#include "client/tensor/run.h"
#include "client/wire/request.h"
#include "proto/ops/opid.h"

#include <stdlib.h>
#include <string.h>

/* ---- values ------------------------------------------------------------------------------------------------------ */

static int ask_record(td_request *r, unsigned rec, int nrest)
{
    td_question *q = td_question_new(r, 0);
    if (!q) return td_last_error()->code;
    td_expect(r->client, &q->wait);
    uint32_t rest[3] = {0, 0, r->silent};
    td_words_put_u64(rest, q->wait.serial);
    int rc = td_record_only(r->client, rec, r->array ? 1 : 0, r->array ? &r->array->id : NULL, nrest, rest);
    if (!rc) return rc;
    td_take_wait(r->client, q->wait.serial);
    return td_question_undo(q, rc);
}

static int take_copy(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    return td_take_value(r->array, r->buffer, r->bytes, reply, fd, e);
}

static int ask_copy(td_request *r, uint32_t ms)
{
    (void)ms;
    uint64_t bytes = td_desc_nbytes(&r->array->desc);
    char text[128];
    if (r->own_buffer && !(r->buffer = malloc(bytes + 1)))
        return td_raise(TD_E_SYSTEM, r->op, "no memory for a copy of %llu bytes", (unsigned long long)bytes);
    if (r->own_buffer) r->bytes = bytes;
    if (r->bytes != bytes)
        return td_raise(TD_E_INVALID, r->op, "the buffer has %zu bytes, but %s takes %llu", r->bytes,
                        td_desc_text(&r->array->desc, text, sizeof text), (unsigned long long)bytes);
    r->take = take_copy;
    return ask_record(r, TD_REC_READ, 2);
}

static int take_address(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    int rc = td_take_address(r->array, r->writes, reply, fd, e);
    if (!rc && r->array->bytes) r->buffer = td_first_element(r->array);
    return rc;
}

static int ask_address(td_request *r, uint32_t ms)
{
    (void)ms;
    td_question *q = td_question_new(r, 0);
    if (!q) return td_last_error()->code;
    r->take = take_address;
    r->writes = r->client->writes;
    Td__Wire__Map map = TD__WIRE__MAP__INIT;
    map.id = r->array->id;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.map = &map;
    return td_question_ask(q, &call);
}

static int take_shape(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    (void)fd;
    if (reply->n_descs != 1) return td_fail(e, TD_E_PROTOCOL, "%zu shapes came for one", reply->n_descs);
    r->more = true;
    return td_take_shape(r->array, reply->descs[0], e);
}

/* It lies where nobody maps it: what is read is a copy, made in its place among what was asked. */
static int bring(td_request *r)
{
    td_arg from = td_arg_array(r->array);
    td_attrs to;
    td_array *here;
    td_attrs_init(&to);
    td_attrs_int(&to, TD_CPU);
    bool grad = td_set_grad_enabled(false);
    int rc = td_run_locked(r->client, NULL, td_op_by_id(TD_OP_TO_DEVICE), 0, 1, &from, &to, 1, &here, NULL);
    td_set_grad_enabled(grad);
    if (rc) return rc;
    td_array_keep(here);
    if (--r->array->refs == 0) td_array_free(r->array);
    r->array = here;
    return TD_OK;
}

static int ask_value(td_request *r, uint32_t ms)
{
    bool reads = r->own_buffer || r->bytes || r->buffer;
    int rc = reads && r->array->desc.device != TD_CPU ? bring(r) : TD_OK;
    r->ask = reads ? ask_copy : ask_address;
    return rc ? rc : r->ask(r, ms);
}

/* A shape that is not known here comes first. */
static int ask_shape(td_request *r, uint32_t ms)
{
    r->ask = ask_value;
    if (!r->array->unknown) return r->ask(r, ms);
    r->take = take_shape;
    return ask_record(r, TD_REC_SHAPE, 2);
}

static td_request *about(td_array *a, const char *op, int timeout_ms, td_done done, void *context)
{
    if (!a) return td_raise_null(op, "the array"), NULL;
    td_request *r = td_request_new(a->client, op, timeout_ms, done, context);
    if (!r) return NULL;
    a->refs++;
    r->array = a;
    r->ask = ask_shape;
    return r;
}

TD_API td_request *td_async_ready(td_array *a, int timeout_ms, td_done done, void *context)
{
    if (td_tracing && a) td_trace_look(a, "ready");
    td_request *r = about(a, "ready", timeout_ms, done, context);
    return r ? td_request_begin(r, TD_OK) : NULL;
}

TD_API td_request *td_async_read(td_array *a, void *buffer, size_t bytes, int timeout_ms, td_done done, void *context)
{
    if (td_tracing && a) td_trace_look(a, "read");
    td_request *r = about(a, "read", timeout_ms, done, context);
    if (!r) return NULL;
    r->own_buffer = !buffer;
    r->buffer = buffer;
    r->bytes = bytes;
    return td_request_begin(r, TD_OK);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

int td_take_nothing(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    (void)r, (void)reply, (void)fd, (void)e;
    return TD_OK;
}

int td_ask_sync(td_request *r, uint32_t ms)
{
    (void)ms;
    td_emit_releases(r->client); /* so that what was released is gone then */
    return ask_record(r, TD_REC_SYNC, 3);
}

TD_API td_request *td_async_sync(td_client *c, int timeout_ms, td_done done, void *context)
{
    td_request *r = td_request_new(c, "sync", timeout_ms, done, context);
    if (!r) return NULL;
    r->ask = td_ask_sync;
    r->take = td_take_nothing;
    return td_request_begin(r, TD_OK);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static int take_opened(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    td_question *q = r->question;
    r->version = reply->version;
    r->tree = reply->tree;
    int rc = td_take_opened(q->at[0], reply, fd, e);
    if (rc) {
        q->at[0]->unknown = true;
        td_array_free(q->at[0]);
    } else {
        r->array = q->at[0];
    }
    q->n = 0;
    if (rc || !r->tree) return rc;
    r->waits = false; /* its bytes are taken apart by who takes it */
    r->ask = ask_address;
    r->more = true;
    return TD_OK;
}

static void late_opened(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    td_take_unclaimed(c, r, fd);
    td_question_unwanted(q, 1);
}

static int ask_open(td_request *r, uint32_t ms)
{
    td_question *q = td_question_new(r, 1);
    if (!q) return td_last_error()->code;
    q->late = late_opened;
    Td__Wire__Open o = TD__WIRE__OPEN__INIT;
    o.name = r->name;
    o.id = q->at[0]->id;
    o.timeout_ms = ms;
    o.newer_than = r->version;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.open = &o;
    return td_question_ask(q, &call);
}

TD_API td_request *td_async_open(td_client *c, const char *name, uint64_t newer_than, int timeout_ms, td_done done,
                                 void *context)
{
    td_request *r = td_request_new(c, "open", timeout_ms, done, context);
    if (!r) return NULL;
    r->name = strdup(name ? name : "");
    r->version = newer_than;
    r->waits = true;
    r->ask = ask_open;
    r->take = take_opened;
    return td_request_begin(r, r->name ? TD_OK : td_raise(TD_E_SYSTEM, "open", "no memory for a request"));
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static int take_table(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    (void)fd;
    r->table = calloc(1, sizeof *r->table);
    return r->table ? td_take_table(r->table, reply, e) : td_no_memory(e, "for the table");
}

static int ask_status(td_request *r, uint32_t ms)
{
    (void)ms;
    td_question *q = td_question_new(r, 0);
    if (!q) return td_last_error()->code;
    Td__Wire__Status s = TD__WIRE__STATUS__INIT;
    s.what = r->name;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.status = &s;
    return td_question_ask(q, &call);
}

TD_API td_request *td_async_status(td_client *c, const char *what, int timeout_ms, td_done done, void *context)
{
    td_request *r = td_request_new(c, "status", timeout_ms, done, context);
    if (!r) return NULL;
    r->name = strdup(what ? what : "status");
    r->ask = ask_status;
    r->take = take_table;
    return td_request_begin(r, r->name ? TD_OK : td_raise(TD_E_SYSTEM, "status", "no memory for a request"));
}
