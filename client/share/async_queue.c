/* Requests about queues. An item that comes when nobody wants it any more goes back to its place. */
#include "client/share/queue.h"
#include "client/wire/request.h"

#include <stdlib.h>
#include <string.h>

/* ---- get --------------------------------------------------------------------------------------------------------- */

/* A segment's descriptor comes once, with whatever item is the first to lie in it. */
static void keep_segments(td_client *c, const Td__Wire__Item *item, int *fd)
{
    int none = -1;
    for (size_t k = 0; k < item->n_addresses; k++) {
        td_error e = {0};
        int32_t mapping;
        unsigned char *bytes;
        if (!item->addresses[k]->segment_size) continue; /* it lies on another device */
        bool brings = item->addresses[k]->descriptor;
        if (!td_map_address(c, item->addresses[k], brings ? fd : &none, &mapping, &bytes, &e))
            td_unuse_mapping(c, mapping);
    }
}

void td_give_back(td_client *c, const char *queue, size_t n, uint32_t *ids, ProtobufCBinaryData note, uint64_t place)
{
    Td__Wire__QueueReturn back = TD__WIRE__QUEUE_RETURN__INIT;
    back.name = (char *)queue;
    back.n_ids = n;
    back.ids = ids;
    back.note = note;
    back.place = place;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.queue_return = &back;
    td_tell(c, &call);
}

static void late_item(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    int n = r->item && r->item->n_descs <= (size_t)q->n ? (int)r->item->n_descs : 0;
    uint32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    if (!r->item || r->item->needs || !ids) {
        free(ids);
        return;
    }
    keep_segments(c, r->item, fd);
    for (int k = 0; k < n; k++) ids[k] = q->at[k]->id;
    td_give_back(c, q->queue->name, (size_t)n, ids, r->item->note, r->item->place);
    td_question_unwanted(q, n);
    free(ids);
}

static int take_item(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    td_question *q = r->question;
    int n = q->n;
    r->item.at = malloc(((size_t)n + 1) * sizeof *r->item.at);
    if (!r->item.at) return td_no_memory(e, "for an item of a queue");
    memcpy(r->item.at, q->at, (size_t)n * sizeof *q->at);
    int rc = td_take_item(&r->item, n, &r->needs, reply, fd, e);
    int used = r->item.n;
    for (int k = n - 1; k >= used; k--) td_array_drop(q->at[k]);
    q->n = 0;
    r->brought = !rc && !r->needs;
    r->place = r->brought ? reply->item->place : 0;
    if (r->brought && used) r->queue->expected = used;
    if (!rc && r->needs) {
        free(r->item.at);
        r->item = (td_queue_item){0};
        r->more = true;
    }
    return rc;
}

static int ask_get(td_request *r, uint32_t ms)
{
    td_question *q = td_question_new(r, r->needs ? (int)r->needs : r->queue->expected);
    if (!q) return td_last_error()->code;
    q->late = late_item;
    uint32_t ids[TD_MAX_ITEM];
    for (int k = 0; k < q->n; k++) ids[k] = q->at[k]->id;
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    get.queue = r->queue->number;
    get.n_ids = (size_t)q->n;
    get.ids = ids;
    get.timeout_ms = ms;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.queue_get = &get;
    return td_question_ask(q, &call);
}

/* A request of a queue that is open in this session; then its client is entered. */
static td_request *about(td_queue *q, const char *op, int timeout_ms, td_done done, void *context)
{
    if (td_queue_enter(q, op)) return NULL;
    td_client *c = q->client;
    td_request *r = td_request_make(c, op, timeout_ms, done, context);
    if (r) {
        r->queue = q;
        r->waits = timeout_ms != 0;
    } else {
        td_queue_unuse(q);
        td_leave(c);
    }
    return r;
}

TD_API td_request *td_async_get(td_queue *q, int timeout_ms, td_done done, void *context)
{
    td_request *r = about(q, "queue_get", timeout_ms, done, context);
    if (!r) return NULL;
    r->gets = true;
    r->ask = ask_get;
    r->take = take_item;
    return td_request_begin(r, TD_OK);
}

/* ---- put --------------------------------------------------------------------------------------------------------- */

static int ask_put(td_request *r, uint32_t ms)
{
    td_question *q = td_question_new(r, 0);
    if (!q) return td_last_error()->code;
    uint32_t ids[TD_MAX_ITEM];
    for (int k = 0; k < r->nput; k++) ids[k] = r->put[k]->id;
    Td__Wire__QueuePut put = TD__WIRE__QUEUE_PUT__INIT;
    put.queue = r->queue->number;
    put.n_ids = (size_t)r->nput;
    put.ids = ids;
    put.note = (ProtobufCBinaryData){r->item.note_size, r->item.note};
    put.timeout_ms = ms;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.queue_put = &put;
    return td_question_ask(q, &call);
}

static int keep_put(td_request *r, td_list arrays, const void *note, size_t note_size)
{
    int rc = td_check_put(r->queue, arrays);
    if (rc) return rc;
    r->put = malloc(((size_t)arrays.n + 1) * sizeof *r->put);
    r->item.note = malloc(note_size + 1);
    if (!r->put || !r->item.note) return td_raise(TD_E_SYSTEM, r->op, "no memory for an item");
    if (note_size) memcpy(r->item.note, note, note_size);
    r->item.note_size = note_size;
    for (; r->nput < arrays.n; r->nput++) {
        r->put[r->nput] = arrays.at[r->nput];
        r->put[r->nput]->refs++;
    }
    return TD_OK;
}

TD_API td_request *td_async_put(td_queue *q, td_list arrays, const void *note, size_t note_size, int timeout_ms,
                                td_done done, void *context)
{
    td_request *r = about(q, "queue_put", timeout_ms, done, context);
    if (!r) return NULL;
    r->puts = true;
    r->ask = ask_put;
    r->take = td_take_nothing;
    return td_request_begin(r, keep_put(r, arrays, note, note ? note_size : 0));
}
