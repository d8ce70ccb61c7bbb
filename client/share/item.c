/* Items of queues are put and got, with a wait and without. An item that comes when nobody wants it any more goes back
 * to its place. */
#include "client/share/internal.h"
#include "client/share/queue.h"
#include "client/tensor/awaited.h"
#include "client/tensor/brought.h"

#include <stdlib.h>
#include <string.h>

typedef struct asking {
    td_request request; /* first */
    td_queue *queue;
    uint32_t needs;     /* tensors of the item that stayed where it is, for want of ids */
    td_queue_item item; /* that is put, or was got */
    bool brought;       /* the item is there, and its queue */
    uint64_t place;     /* of it there */
    td_array **put;
    int nput;
} asking;

static asking *asking_of(td_request *r)
{
    return (asking *)r;
}

static void leave_queue(asking *x)
{
    if (x->queue) td_queue_unuse(x->queue);
    x->queue = NULL;
}

static void free_asking(td_request *r)
{
    asking *x = asking_of(r);
    leave_queue(x);
    for (int k = 0; k < x->nput; k++)
        if (--x->put[k]->refs == 0) td_array_free(x->put[k]);
    for (int k = 0; k < x->item.n; k++)
        if (--x->item.at[k]->refs == 0) td_array_free(x->item.at[k]);
    free(x->item.at);
    free(x->item.note);
    free(x->put);
}

static void over(td_request *r)
{
    if (!asking_of(r)->brought) leave_queue(asking_of(r));
}

/* What came before a fork, and was not taken yet, is the parent's. */
static void forked(td_request *r)
{
    if (asking_of(r)->brought) leave_queue(asking_of(r));
    asking_of(r)->brought = false;
}

/* The items of one consumer come in their order, also when one had to go back. */
static bool ready(const td_request *r)
{
    return !((const asking *)r)->queue->late;
}

static void given_up(td_request *r, td_question *q)
{
    asking *x = asking_of(r);
    q->held = x->queue;
    x->queue->late++;
    if (r->blocks) td_queue_use(x->queue);
    else x->queue = NULL; /* with its count of users */
}

static bool end_get(td_client *c, td_question *q, bool answered)
{
    td_queue *held = q->held;
    td_awaited_end(c, q, answered);
    bool was_last = held && --held->late == 0;
    if (held) td_queue_unuse(held);
    return was_last;
}

/* What a get brought, and nobody wants, lies where it lay for whoever asks next; its ids are still to be released. */
static void give_back(td_client *c, const char *queue, size_t n, uint32_t *ids, ProtobufCBinaryData note,
                      uint64_t place)
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

/* Nobody took the item. */
static void untaken(td_request *r)
{
    asking *x = asking_of(r);
    if (!x->brought) return;
    x->brought = false;
    uint32_t ids[TD_MAX_ITEM];
    for (int k = 0; k < x->item.n; k++) ids[k] = x->item.at[k]->id;
    ProtobufCBinaryData note = {x->item.note_size, x->item.note};
    give_back(r->client, x->queue->name, (size_t)x->item.n, ids, note, x->place);
}

static const td_request_kind gets = {.ready = ready,
                                     .given_up = given_up,
                                     .over = over,
                                     .untaken = untaken,
                                     .forked = forked,
                                     .free = free_asking},
                             given = {.over = over, .free = free_asking};

/* ---- get --------------------------------------------------------------------------------------------------------- */

/* The item that an answer brought is not taken: the ids that the daemon bound are released, and it goes back. */
static void turn_down(td_client *c, const char *queue, td_awaited *b, const Td__Wire__Item *item, int *fd)
{
    uint32_t ids[TD_MAX_ITEM];
    int n = (int)item->n_descs;
    td_brought_keep_segments(c, item, fd);
    for (int k = 0; k < n; k++) ids[k] = b->at[k]->id;
    give_back(c, queue, (size_t)n, ids, item->note, item->place);
    td_awaited_unwanted(b, n);
}

/* An item has at most as many tensors as it was asked for with; or nothing but how many it wants. */
static bool is_sound(const Td__Wire__Item *item, int asked)
{
    if (!item || item->n_descs > (size_t)asked) return false;
    if (!item->needs) return true;
    return item->needs <= TD_MAX_ITEM && item->needs > (uint32_t)asked && !item->n_descs && !item->note.len;
}

static void late_item(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    td_awaited *b = td_awaited_of(q);
    if (is_sound(r->item, b->n) && !r->item->needs) turn_down(c, ((const td_queue *)q->held)->name, b, r->item, fd);
}

/* Room for what comes: the handles, and the note. */
static int make_room(td_queue_item *item, const Td__Wire__Item *from, td_error *e)
{
    item->at = malloc((from->n_descs + 1) * sizeof(td_array *));
    item->note = from->note.len ? malloc(from->note.len + 1) : NULL; /* terminated, for those who send text */
    if (item->at && (item->note || !from->note.len)) return TD_OK;
    free(item->at);
    free(item->note);
    *item = (td_queue_item){0};
    return td_no_memory(e, "for an item of %zu tensors and a note of %zu bytes", from->n_descs, from->note.len);
}

/* The daemon has bound the handles, which are the item's from here on, whatever fails. */
static int read_item(td_queue_item *item, td_awaited *b, const Td__Wire__Item *from, int *fd, td_error *e)
{
    int rc = TD_OK;
    item->left = from->left;
    item->note_size = from->note.len;
    if (from->note.len) {
        memcpy(item->note, from->note.data, from->note.len);
        ((char *)item->note)[from->note.len] = 0;
    }
    item->n = (int)from->n_descs;
    b->n -= item->n;
    memcpy(item->at, b->at, (size_t)item->n * sizeof(td_array *));
    memmove(b->at, b->at + item->n, (size_t)b->n * sizeof(td_array *));
    for (int k = 0; k < item->n && !rc; k++) rc = td_brought_take(item->at[k], k, from, fd, e);
    return rc;
}

static int take_item(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    asking *x = asking_of(r);
    td_awaited *b = td_awaited_of(r->question);
    const Td__Wire__Item *from = reply->item;
    if (!is_sound(from, b->n)) return td_fail(e, TD_E_PROTOCOL, "no item came");
    x->needs = from->needs;
    r->more = from->needs != 0;
    if (r->more) return TD_OK;
    int rc = make_room(&x->item, from, e);
    if (rc) return turn_down(r->client, x->queue->name, b, from, fd), rc;
    rc = read_item(&x->item, b, from, fd, e);
    x->brought = !rc;
    x->place = from->place;
    if (!rc && x->item.n) x->queue->expected = x->item.n;
    return rc;
}

static int ask_get(td_request *r, uint32_t ms)
{
    const asking *x = asking_of(r);
    td_awaited *b = td_awaited_new(r, x->needs ? (int)x->needs : x->queue->expected);
    if (!b) return td_last_error()->code;
    b->question.late = late_item;
    b->question.end = end_get;
    uint32_t ids[TD_MAX_ITEM];
    for (int k = 0; k < b->n; k++) ids[k] = b->at[k]->id;
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    get.queue = x->queue->number;
    get.n_ids = (size_t)b->n;
    get.ids = ids;
    get.timeout_ms = ms;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.queue_get = &get;
    return td_question_ask(&b->question, &call);
}

static void hand_out(asking *x, td_queue_item *out)
{
    *out = x->item;
    x->item = (td_queue_item){0};
    x->brought = false;
    for (int k = 0; k < out->n; k++) td_array_announce(out->at[k]);
}

int td_get_item(td_queue *q, td_queue_item *out, int timeout_ms)
{
    asking x = {.request = {.ask = ask_get, .take = take_item}, .queue = q};
    int rc = td_await_none(q->client, &q->late);
    if (!rc) rc = td_request_wait(&x.request, &gets, q->client, "queue_get", timeout_ms);
    if (!rc) hand_out(&x, out);
    x.queue = NULL; /* its user is the caller */
    free_asking(&x.request);
    return rc;
}

/* A request of a queue that is open in this session; then its client is entered. */
static td_request *about(td_queue *q, const td_request_kind *kind, const char *op, int timeout_ms, td_done done,
                         void *context)
{
    if (td_queue_enter(q, op)) return NULL;
    td_client *c = q->client;
    td_request *r = td_request_make(sizeof(asking), kind, c, op, timeout_ms, done, context);
    if (r) {
        asking_of(r)->queue = q;
        r->waits = timeout_ms != 0;
        r->theirs = true;
    } else {
        td_queue_unuse(q);
        td_leave(c);
    }
    return r;
}

TD_API td_request *td_async_get(td_queue *q, int timeout_ms, td_done done, void *context)
{
    td_request *r = about(q, &gets, "queue_get", timeout_ms, done, context);
    if (!r) return NULL;
    r->ask = ask_get;
    r->take = take_item;
    return td_request_begin(r, TD_OK);
}

int td_take_got(td_request *r, td_queue_item *out)
{
    asking *x = td_request_is(r, &gets) ? asking_of(r) : NULL;
    if (!x || !x->brought) return td_request_none(r, "item"), td_last_error()->code;
    td_lock(r->client);
    hand_out(x, out);
    leave_queue(x);
    td_unlock(r->client);
    return TD_OK;
}

/* ---- put --------------------------------------------------------------------------------------------------------- */

void td_say_put(td_put_call *p, const td_queue *q, td_list arrays, const void *note, size_t note_size, uint32_t ms)
{
    td_hand_on(q->client);
    for (int i = 0; i < arrays.n; i++) p->ids[i] = arrays.at[i]->id;
    td__wire__call__init(&p->call);
    td__wire__queue_put__init(&p->put);
    p->put.queue = q->number;
    p->put.n_ids = (size_t)arrays.n;
    p->put.ids = p->ids;
    p->put.note = (ProtobufCBinaryData){note ? note_size : 0, (uint8_t *)note};
    p->put.timeout_ms = ms;
    p->call.queue_put = &p->put;
}

static int ask_put(td_request *r, uint32_t ms)
{
    const asking *x = asking_of(r);
    td_question *q = td_question_new(r, sizeof *q);
    if (!q) return td_last_error()->code;
    td_put_call p;
    td_say_put(&p, x->queue, (td_list){x->nput, x->put}, x->item.note, x->item.note_size, ms);
    return td_question_ask(q, &p.call);
}

int td_put_item(td_queue *q, td_list arrays, const void *note, size_t note_size, int timeout_ms)
{
    static const td_request_kind lent = {0}; /* what it puts is the caller's */
    asking x = {.request = {.ask = ask_put, .take = td_take_nothing},
                .queue = q,
                .item = {.note = (void *)note, .note_size = note_size},
                .put = (td_array **)arrays.at,
                .nput = arrays.n};
    return td_request_wait(&x.request, &lent, q->client, "queue_put", timeout_ms);
}

static int keep_put(asking *x, td_list arrays, const void *note, size_t note_size)
{
    int rc = td_check_put(x->queue, arrays);
    if (rc) return rc;
    x->put = malloc(((size_t)arrays.n + 1) * sizeof(td_array *));
    x->item.note = malloc(note_size + 1);
    if (!x->put || !x->item.note) return td_raise(TD_E_SYSTEM, x->request.op, "no memory for an item");
    if (note_size) memcpy(x->item.note, note, note_size);
    x->item.note_size = note_size;
    for (; x->nput < arrays.n; x->nput++) {
        x->put[x->nput] = arrays.at[x->nput];
        x->put[x->nput]->refs++;
    }
    return TD_OK;
}

TD_API td_request *td_async_put(td_queue *q, td_list arrays, const void *note, size_t note_size, int timeout_ms,
                                td_done done, void *context)
{
    td_request *r = about(q, &given, "queue_put", timeout_ms, done, context);
    if (!r) return NULL;
    r->puts = true;
    r->ask = ask_put;
    r->take = td_take_nothing;
    return td_request_begin(r, keep_put(asking_of(r), arrays, note, note ? note_size : 0));
}
