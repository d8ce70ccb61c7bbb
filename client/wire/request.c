/* The life of a request: asked, or parked until fewer wait; answered, given up, or too late; told by its callback.
 *
 * Whatever happens, each is told once, by td_client_dispatch() or td_disconnect() and never from within another call.
 * What the daemon granted to a request that was given up goes back (td_question.late). */
#include "client/wire/request.h"
#include "client/share/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_WAITING = 960, /* of a session's requests the daemon holds 1024; the rest is for threads that wait */
    GRACE_MS = 1000     /* the daemon's own words for a deadline are better than ours */
};

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static td_requests *list_of(td_request *r)
{
    td_loop *l = &r->client->loop;
    return r->stage == TD_PARKED ? &l->parked : r->stage == TD_OUT ? &l->out : r->stage == TD_OVER ? &l->over : NULL;
}

static void move(td_request *r, td_request_stage to)
{
    td_requests *from = list_of(r);
    if (from) {
        if (r->prev) r->prev->next = r->next;
        else from->first = r->next;
        if (r->next) r->next->prev = r->prev;
        else from->last = r->prev;
        from->n--;
    }
    if (!r->waits) r->client->loop.parked_now += (unsigned)(to == TD_PARKED) - (unsigned)(r->stage == TD_PARKED);
    r->stage = to;
    td_requests *list = list_of(r);
    if (!list) return;
    r->next = NULL;
    r->prev = list->last;
    if (r->prev) r->prev->next = r;
    else list->first = r;
    list->last = r;
    list->n++;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static int on_answer(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    td_question *q = (td_question *)w;
    if (q->from) return q->from->take(q->from, r, fd, e);
    if (q->late) q->late(c, q, r, fd);
    else td_take_unclaimed(c, r, fd);
    return TD_OK;
}

static void leave_queue(td_request *r)
{
    if (r->queue) td_queue_unuse(r->queue);
    r->queue = NULL;
}

static void complete(td_request *r, int code)
{
    r->code = code;
    r->error.code = code;
    if (!r->error.op[0]) snprintf(r->error.op, sizeof r->error.op, "%s", r->op);
    if (!r->brought) leave_queue(r);
    move(r, r->done || td_called_prints(r->called) ? TD_OVER : TD_TOLD);
    td_loop_wake(r->client); /* also who asks td_request_done() may wait for the descriptor */
}

static void ask(td_request *r);
static void on_over(td_client *c, td_reply_wait *w, bool answered);

static bool too_many(const td_request *r)
{
    return r->waits && r->client->loop.waits >= MOST_WAITING;
}

/* The items of one consumer come in their order, also when one had to go back. */
static bool may_ask(const td_request *r)
{
    return !too_many(r) && !(r->gets && r->queue->late);
}

/* There may be a million: so not further than there is room. */
static void ask_parked(td_client *c)
{
    unsigned now = c->loop.parked_now;
    for (td_request *r = c->loop.parked.first, *next; r; r = next) {
        if (too_many(r) && !now) return;
        next = r->next;
        now -= !r->waits;
        if (!may_ask(r)) continue;
        ask(r);
        td_loop_wake(c); /* a dispatch sends it */
    }
}

/* Of the calls that nobody wants the daemon remembers a few only, those that it was told of last. */
static void tell_stopped_again(td_client *c)
{
    const td_reply_wait *w = c->waits;
    while (w && !(w->over == on_over && ((const td_question *)w)->stopped)) w = w->next;
    if (w && !c->lost) td_stop_soon(c, w->serial);
}

static void stopped_is_over(td_client *c)
{
    if (!c->loop.stops) return; /* the connection's end */
    if (--c->loop.stops) tell_stopped_again(c);
    else td_stops_over(c);
}

/* The question's end; `answered`: by the daemon, which has bound no ids when it says an error. */
static void on_over(td_client *c, td_reply_wait *w, bool answered)
{
    td_question *q = (td_question *)w;
    td_request *r = q->from;
    bool room = q->waits;
    c->loop.waits -= q->waits;
    if (q->stopped) stopped_is_over(c);
    for (int k = q->n - 1; k >= 0; k--) {
        if (answered) td_array_drop(q->at[k]);
        else td_array_forget(q->at[k]);
    }
    if (q->queue) {
        room |= --q->queue->late == 0;
        td_queue_unuse(q->queue);
    }
    if (r) {
        r->question = NULL;
        r->error = w->error;
        if (!w->code && r->more) ask(r), td_loop_wake(c); /* a dispatch sends it */
        else complete(r, w->code);
    }
    if (answered && room) ask_parked(c);
}

td_question *td_question_new(td_request *r, int n)
{
    td_client *c = r->client;
    td_question *q = calloc(1, sizeof *q + (size_t)n * sizeof *q->at);
    if (!q) return td_raise(TD_E_SYSTEM, r->op, "no memory for a request"), NULL;
    q->wait = (td_reply_wait){.heap = true, .on_reply = on_answer, .over = on_over};
    for (q->n = 0; q->n < n; q->n++) {
        q->at[q->n] = td_array_new(c);
        if (q->at[q->n]) continue;
        td_question_undo(q, TD_OK);
        return NULL;
    }
    q->from = r;
    q->waits = r->waits;
    c->loop.waits += q->waits;
    r->question = q;
    return q;
}

int td_question_undo(td_question *q, int rc)
{
    if (q->from) {
        q->from->question = NULL;
        q->from->client->loop.waits -= q->waits;
    }
    for (int k = q->n - 1; k >= 0; k--) td_array_drop(q->at[k]);
    free(q);
    return rc;
}

void td_question_unwanted(td_question *q, int n)
{
    for (int k = 0; k < n; k++) {
        q->at[k]->unknown = true;
        td_array_free(q->at[k]);
    }
    q->n -= n;
    memmove(q->at, q->at + n, (size_t)q->n * sizeof *q->at);
}

int td_question_ask(td_question *q, Td__Wire__Call *call)
{
    int rc = td_ask_later(q->from->client, call, -1, &q->wait);
    return rc ? td_question_undo(q, rc) : TD_OK;
}

static uint32_t time_left(const td_request *r)
{
    int64_t left = r->until - td_now_ms();
    return r->until == INT64_MAX ? UINT32_MAX : left <= 0 ? 0 : (uint32_t)left;
}

/* When it is too late. The daemon sees to waits for others, by itself. */
static int64_t deadline_of(const td_request *r)
{
    if (r->until == INT64_MAX) return INT64_MAX;
    bool theirs = (r->waits || r->gets || r->puts) && !(r->stage == TD_PARKED && too_many(r));
    return theirs ? r->until + GRACE_MS : r->until;
}

/* Fails by its callback. */
static void ask(td_request *r)
{
    td_client *c = r->client;
    r->more = false;
    move(r, may_ask(r) ? TD_OUT : TD_PARKED);
    if (r->until != INT64_MAX) td_loop_alarm(c, deadline_of(r));
    if (r->stage == TD_PARKED) return;
    td_error told = *td_last_error();
    int rc = c->lost ? td_raise(c->lost, r->op, "%s", c->why.message) : r->ask(r, time_left(r));
    if (rc) r->error = *td_last_error();
    *(td_error *)td_last_error() = told;
    if (rc) complete(r, rc);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

td_request *td_request_make(td_client *c, const char *op, int timeout_ms, td_done done, void *context)
{
    td_request *r = calloc(1, sizeof *r);
    if (!r) return td_raise(TD_E_SYSTEM, op, "no memory for a request"), NULL;
    *r = (td_request){.client = c, .stage = TD_TOLD, .op = op, .done = done, .context = context};
    r->until = timeout_ms < 0 ? INT64_MAX : td_now_ms() + timeout_ms;
    c->handles++;
    return r;
}

td_request *td_request_new(td_client *c, const char *op, int timeout_ms, td_done done, void *context)
{
    if (td_enter(c, op)) return NULL;
    td_request *r = td_request_make(c, op, timeout_ms, done, context);
    if (!r) td_leave(c);
    return r;
}

static void destroy(td_request *r)
{
    td_client *c = r->client;
    move(r, TD_TOLD);
    leave_queue(r);
    if (r->array && --r->array->refs == 0) td_array_free(r->array);
    for (int k = 0; k < r->nput; k++)
        if (--r->put[k]->refs == 0) td_array_free(r->put[k]);
    for (int k = 0; k < r->item.n; k++)
        if (--r->item.at[k]->refs == 0) td_array_free(r->item.at[k]);
    free(r->item.at);
    free(r->item.note);
    free(r->put);
    free(r->name);
    if (r->own_buffer) free(r->buffer);
    td_table_free(r->table);
    td_called_free(r->called);
    c->handles--;
    free(r);
}

td_request *td_request_begin(td_request *r, int rc)
{
    td_client *c = r->client;
    if (rc) {
        destroy(r);
        r = NULL;
    } else {
        ask(r);
        td_push_some(c);
    }
    td_leave(c);
    return r;
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void tell_cancel(td_client *c, uint64_t serial)
{
    Td__Wire__Cancel cancel = TD__WIRE__CANCEL__INIT;
    cancel.waiting = serial;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.cancel = &cancel;
    td_tell(c, &call);
}

/* Nobody wants the answer any more. */
static void give_up(td_request *r)
{
    td_question *q = r->question;
    r->question = NULL;
    if (!q) return;
    q->from = NULL;
    if (r->gets) {
        q->queue = r->queue; /* with its count of users */
        q->queue->late++;
        r->queue = NULL;
    }
    if (q->waits && !r->client->lost && !r->cancelled) tell_cancel(r->client, q->wait.serial);
}

/* What nobody wants any more would hold up all that is asked behind it. */
static void stop_program(const td_request *r)
{
    td_question *q = r->question;
    if (!q || !q->calls || r->client->lost) return;
    q->stopped = true;
    r->client->loop.stops++;
    td_stop_soon(r->client, q->wait.serial);
}

static void fail(td_request *r, const td_error *why)
{
    give_up(r);
    r->error = *why;
    complete(r, why->code);
}

void td_requests_fail(td_client *c, const td_error *why)
{
    while (c->loop.parked.first) fail(c->loop.parked.first, why);
}

static void expire(td_request *r)
{
    td_error e = {0};
    td_fail(&e, TD_E_TIMEOUT,
            r->stage == TD_PARKED && too_many(r) ? "%d other requests of this connection wait for others already"
            : r->question && r->question->calls  ? "the program was stopped: it had not come to its end in time"
                                                 : "the daemon has not answered in time",
            MOST_WAITING);
    stop_program(r);
    fail(r, &e);
}

static int64_t expire_list(const td_requests *list, int64_t now)
{
    int64_t soonest = INT64_MAX;
    for (td_request *r = list->first, *next; r && !r->client->lost; r = next) {
        next = r->next;
        int64_t at = deadline_of(r);
        if (at <= now) expire(r);
        else if (at < soonest) soonest = at;
    }
    return soonest;
}

void td_requests_expire(td_client *c, int64_t now)
{
    if (now < c->loop.soonest) return;
    int64_t out = expire_list(&c->loop.out, now), parked = expire_list(&c->loop.parked, now);
    c->loop.soonest = out < parked ? out : parked;
}

void td_requests_tell(td_client *c)
{
    for (unsigned n = c->loop.over.n; n && c->loop.over.first; n--) {
        td_request *r = c->loop.over.first;
        move(r, TD_TOLD);
        r->running = true;
        td_unlock(c);
        td_called_print(r->called);
        if (r->done) r->done(r, r->context);
        td_lock(c);
        r->running = false;
        if (r->freed) destroy(r);
    }
}

TD_API void td_request_cancel(td_request *r)
{
    if (!r) return;
    td_client *c = r->client;
    td_lock(c);
    td_error e = {0};
    td_fail(&e, TD_E_CANCELLED, "the request was cancelled");
    if (r->stage == TD_OUT && r->puts) { /* the daemon says whether it is in */
        if (r->waits && !r->cancelled) tell_cancel(c, r->question->wait.serial);
        r->cancelled = true;
    } else if (r->stage == TD_OUT || r->stage == TD_PARKED) {
        stop_program(r);
        fail(r, &e);
    }
    if (!c->lost) td_push_some(c);
    td_unlock(c);
}

/* Nobody took it. */
static void give_item_back(td_request *r)
{
    if (!r->brought || r->client->lost) return;
    r->brought = false;
    uint32_t ids[TD_MAX_ITEM];
    for (int k = 0; k < r->item.n; k++) ids[k] = r->item.at[k]->id;
    ProtobufCBinaryData note = {r->item.note_size, r->item.note};
    td_give_back(r->client, r->queue->name, (size_t)r->item.n, ids, note, r->place);
}

bool td_request_end(td_request *r)
{
    td_client *c = r->client;
    td_lock(c);
    bool never = !r->running;
    stop_program(r);
    give_up(r);
    if (r->stage == TD_OVER || r->stage == TD_TOLD) give_item_back(r);
    if (!c->lost) td_push_some(c);
    if (r->running) r->freed = true;
    else destroy(r);
    td_unlock(c);
    return never;
}

TD_API void td_request_free(td_request *r)
{
    if (r) td_request_end(r);
}

/* What came before the fork, and was not told yet, is the parent's too. */
void td_requests_forked(td_client *c, const td_error *why)
{
    td_stops_over(c);
    for (td_request *r = c->loop.over.first; r; r = r->next) {
        r->code = why->code;
        r->error = *why;
        td_called_free(r->called);
        r->called = NULL;
        if (r->brought) leave_queue(r);
        r->brought = false;
    }
    td_requests_fail(c, why);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

TD_API bool td_request_done(const td_request *r)
{
    if (!r) return true;
    td_lock(r->client);
    bool done = r->stage == TD_OVER || r->stage == TD_TOLD;
    td_unlock(r->client);
    return done;
}

/* Under the lock, of one that is over and went well; else raised. */
static int outcome(const td_request *r)
{
    if (r->stage == TD_PARKED || r->stage == TD_OUT)
        return td_raise(TD_E_BUSY, r->op, "the request has not been answered yet");
    return r->code ? td_raise_error(&r->error, r->op, NULL) : TD_OK;
}

static int look(td_request *r)
{
    if (!r) return td_last_error()->code ? td_last_error()->code : td_raise(TD_E_INVALID, NULL, "the request is NULL");
    td_lock(r->client);
    int rc = outcome(r);
    td_unlock(r->client);
    return rc;
}

TD_API int td_request_result(td_request *r)
{
    return look(r);
}

static void *none(const td_request *r, const char *what)
{
    td_raise(TD_E_INVALID, r->op, "the request brought no %s, or it was taken before", what);
    return NULL;
}

TD_API td_array *td_request_array(td_request *r)
{
    if (look(r)) return NULL;
    td_array *a = r->name ? r->array : NULL; /* what was opened */
    if (!a) return none(r, "tensor");
    td_lock(r->client);
    r->array = NULL;
    td_array_announce(a);
    td_unlock(r->client);
    return a;
}

static int take_tree(td_request *r, td_queue_item *out)
{
    td_array *bytes = td_request_array(r);
    if (!bytes) return td_last_error()->code;
    td_at_hand(bytes);
    int rc = td_opened_item(bytes, r->tree, out);
    td_at_hand(NULL);
    return rc;
}

TD_API int td_request_item(td_request *r, td_queue_item *out)
{
    *out = (td_queue_item){0};
    int rc = look(r);
    if (rc) return rc;
    if (r->name) return take_tree(r, out);
    if (!r->brought) return none(r, "item"), td_last_error()->code;
    td_lock(r->client);
    *out = r->item;
    r->item = (td_queue_item){0};
    r->brought = false;
    leave_queue(r);
    for (int k = 0; k < out->n; k++) td_array_announce(out->at[k]);
    td_unlock(r->client);
    return TD_OK;
}

TD_API td_table *td_request_table(td_request *r)
{
    if (look(r)) return NULL;
    td_table *t = r->table;
    r->table = NULL;
    return t ? t : none(r, "table");
}

TD_API const void *td_request_data(td_request *r)
{
    if (look(r)) return NULL;
    return r->buffer ? r->buffer : none(r, "bytes");
}

TD_API uint64_t td_request_version(td_request *r)
{
    return look(r) ? 0 : r->version;
}
