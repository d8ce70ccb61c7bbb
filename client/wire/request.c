/* The life of a request: asked, or parked until fewer wait; answered, given up, or too late; told by its callback.
 *
 * Whatever happens, each is told once, by td_client_dispatch() or td_disconnect() and never from within another call.
 * What the daemon granted to a request that was given up goes back (td_question.late). */
#include "client/wire/request.h"
#include "client/tensord_bind.h"
#include "client/wire/internal.h"

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

static void complete(td_request *r, int code)
{
    r->code = code;
    r->error.code = code;
    if (!r->error.op[0]) snprintf(r->error.op, sizeof r->error.op, "%s", r->op);
    if (r->kind->over) r->kind->over(r);
    move(r, r->done || (r->kind->tells && r->kind->tells(r)) ? TD_OVER : TD_TOLD);
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
    return !too_many(r) && (!r->kind->ready || r->kind->ready(r));
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
    const td_reply_wait *w = c->due.first;
    while (w && !(w->over == on_over && ((const td_question *)w)->stopped)) w = w->next;
    if (w && !c->lost) td_stop(c, w->serial, true);
}

static void stopped_is_over(td_client *c)
{
    if (!c->loop.stops) return; /* the connection's end */
    if (--c->loop.stops) tell_stopped_again(c);
}

/* The question's end. */
static void on_over(td_client *c, td_reply_wait *w, bool answered)
{
    td_question *q = (td_question *)w;
    td_request *r = q->from;
    bool room = q->waits;
    c->loop.waits -= q->waits;
    if (q->stopped) stopped_is_over(c);
    if (q->end) room |= q->end(c, q, answered);
    if (r && !r->blocks) {
        r->question = NULL;
        r->error = w->error;
        if (!w->code && r->more) ask(r), td_loop_wake(c); /* a dispatch sends it */
        else complete(r, w->code);
    }
    if (answered && room) ask_parked(c);
}

enum { SPARE_BYTES = sizeof(td_question) + 16 * sizeof(void *) }; /* with room for what most kinds add */

/* For a thread that waits: the last one is at hand, as malloc() takes long for one of this size. */
static td_question *question_at_hand(td_client *c, size_t size)
{
    td_question *q = c->due.spare;
    if (size > SPARE_BYTES) return calloc(1, size);
    c->due.spare = NULL;
    if (q) memset(q, 0, size);
    else q = calloc(1, SPARE_BYTES);
    if (q) q->spare = true;
    return q;
}

static void lay_by(td_client *c, td_question *q)
{
    if (q->spare && !c->due.spare) c->due.spare = q;
    else free(q);
}

td_question *td_question_new(td_request *r, size_t size)
{
    td_question *q = r->blocks ? question_at_hand(r->client, size) : calloc(1, size);
    if (!q) return td_raise(TD_E_SYSTEM, r->op, "no memory for a request"), NULL;
    q->wait.heap = !r->blocks;
    q->wait.on_reply = on_answer;
    q->wait.over = on_over;
    q->from = r;
    q->waits = r->waits;
    r->client->loop.waits += q->waits;
    r->question = q;
    return q;
}

td_question *td_question_left(const td_reply_wait *w, size_t size)
{
    td_question *q = calloc(1, size);
    if (q) q->wait = (td_reply_wait){.serial = w->serial, .on_reply = on_answer, .over = on_over};
    return q;
}

int td_question_undo(td_question *q, int rc)
{
    td_client *c = q->from->client;
    q->from->question = NULL;
    c->loop.waits -= q->waits;
    if (q->end) q->end(c, q, true);
    free(q);
    return rc;
}

int td_question_ask(td_question *q, Td__Wire__Call *call)
{
    int rc = td_ask_later(q->from->client, call, -1, &q->wait);
    return rc ? td_question_undo(q, rc) : TD_OK;
}

int td_question_record(td_request *r, unsigned rec, int nin, const uint32_t *in, int nrest)
{
    td_question *q = td_question_new(r, sizeof *q);
    if (!q) return td_last_error()->code;
    td_expect(r->client, &q->wait);
    uint32_t rest[3] = {0, 0, r->silent};
    td_words_put_u64(rest, q->wait.serial);
    int rc = td_record_only(r->client, rec, nin, in, nrest, rest);
    if (!rc) return rc;
    td_unexpect(r->client, &q->wait);
    return td_question_undo(q, rc);
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
    bool theirs = (r->waits || r->theirs) && !(r->stage == TD_PARKED && too_many(r));
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

td_request *td_request_make(size_t size, const td_request_kind *kind, td_client *c, const char *op, int timeout_ms,
                            td_done done, void *context)
{
    td_request *r = calloc(1, size);
    if (!r) return td_raise(TD_E_SYSTEM, op, "no memory for a request"), NULL;
    *r = (td_request){.kind = kind, .client = c, .stage = TD_TOLD, .op = op, .done = done, .context = context};
    r->until = timeout_ms < 0 ? INT64_MAX : td_now_ms() + timeout_ms;
    c->handles++;
    return r;
}

td_request *td_request_new(size_t size, const td_request_kind *kind, td_client *c, const char *op, int timeout_ms,
                           td_done done, void *context)
{
    if (td_enter(c, op)) return NULL;
    td_request *r = td_request_make(size, kind, c, op, timeout_ms, done, context);
    if (!r) td_leave(c);
    return r;
}

static void destroy(td_request *r)
{
    td_client *c = r->client;
    move(r, TD_TOLD);
    if (r->kind->free) r->kind->free(r);
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
    if (r->kind->given_up) r->kind->given_up(r, q);
    if (q->waits && !r->client->lost && !r->cancelled) tell_cancel(r->client, q->wait.serial);
}

/* What nobody wants any more would hold up all that is asked behind it. */
static void stop_program(const td_request *r)
{
    td_question *q = r->question;
    if (!q || !q->calls || r->client->lost) return;
    q->stopped = true;
    r->client->loop.stops++;
    td_stop(r->client, q->wait.serial, true);
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
        if (r->kind->tell) r->kind->tell(r);
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

bool td_request_end(td_request *r)
{
    td_client *c = r->client;
    td_lock(c);
    bool never = !r->running;
    stop_program(r);
    give_up(r);
    if ((r->stage == TD_OVER || r->stage == TD_TOLD) && !c->lost && r->kind->untaken) r->kind->untaken(r);
    td_push_asked(c);
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
    c->loop.stops = 0;
    for (td_request *r = c->loop.over.first; r; r = r->next) {
        r->code = why->code;
        r->error = *why;
        if (r->kind->forked) r->kind->forked(r);
    }
    td_requests_fail(c, why);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Its thread has looked at the question, or waits no longer. */
static void settle(td_request *r)
{
    td_question *q = r->question;
    if (!q) return;
    if (q->wait.done) {
        lay_by(r->client, q);
        r->question = NULL;
    } else {
        give_up(r);
        td_unawait(r->client, &q->wait);
    }
}

static td_reply_wait *ask_anew(void *context, uint32_t ms)
{
    td_request *r = context;
    settle(r);
    return r->ask(r, ms) ? NULL : &r->question->wait;
}

static void block(td_request *r, const td_request_kind *kind, td_client *c, const char *op)
{
    r->kind = kind;
    r->client = c;
    r->op = op;
    r->stage = TD_TOLD;
    r->blocks = true;
}

int td_request_wait_once(td_request *r, const td_request_kind *kind, td_client *c, const char *op, int timeout_ms)
{
    block(r, kind, c, op);
    int rc = r->ask(r, td_timeout(timeout_ms)) ? td_last_error()->code : td_await(c, &r->question->wait, op);
    settle(r);
    return rc;
}

int td_request_wait(td_request *r, const td_request_kind *kind, td_client *c, const char *op, int timeout_ms)
{
    int64_t until = timeout_ms > 0 ? td_now_ms() + timeout_ms : 0;
    block(r, kind, c, op);
    for (;;) {
        r->more = false;
        int rc = td_await_patiently(c, ask_anew, r, timeout_ms, r->in_stream, op);
        bool stopped = r->question && r->question->wait.stopped;
        settle(r);
        if (rc) return rc;
        if (stopped && kind->untaken) {
            kind->untaken(r);
            return td_raise(TD_E_CANCELLED, op, "stopped while waiting for others");
        }
        if (!r->more) return TD_OK;
        if (timeout_ms > 0) timeout_ms = until > td_now_ms() ? (int)(until - td_now_ms()) : 0;
    }
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

int td_request_look(td_request *r)
{
    if (!r) return td_last_error()->code ? td_last_error()->code : td_raise(TD_E_INVALID, NULL, "the request is NULL");
    td_lock(r->client);
    int rc = outcome(r);
    td_unlock(r->client);
    return rc;
}

TD_API int td_request_result(td_request *r)
{
    return td_request_look(r);
}

void *td_request_none(const td_request *r, const char *what)
{
    td_raise(TD_E_INVALID, r->op, "the request brought no %s, or it was taken before", what);
    return NULL;
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
    return td_question_record(r, TD_REC_SYNC, 0, NULL, 3);
}

TD_API td_request *td_async_sync(td_client *c, int timeout_ms, td_done done, void *context)
{
    static const td_request_kind kind = {0};
    td_request *r = td_request_new(sizeof *r, &kind, c, "sync", timeout_ms, done, context);
    if (!r) return NULL;
    r->ask = td_ask_sync;
    r->take = td_take_nothing;
    return td_request_begin(r, TD_OK);
}
