/* Requests that are answered while the program does something else.
 *
 * A td_request is the program's handle. What is asked of the daemon is a td_question, which lives until its answer has
 * come, whether or not somebody still wants it: `from` is the request, or NULL when that was given up. Each kind of
 * request begins with a td_request, and says by a td_request_kind what it adds to the life of one.
 *
 * A call that waits asks by such a request, too: td_request_wait() has one in the frame of its thread, asks its
 * questions, and waits for each. So what is asked, what an answer brings, and what becomes of an answer that nobody
 * wants any more is written once for both. */
#ifndef TENSORD_CLIENT_WIRE_REQUEST_H
#define TENSORD_CLIENT_WIRE_REQUEST_H
#include "client/wire/stream.h"

typedef struct td_question td_question;

struct td_question {
    td_reply_wait wait; /* first: a reply's wait is its question */
    td_request *from;
    bool waits; /* for what others do: the daemon holds it */
    /* The answer is not wanted any more: undo what it brought. */
    void (*late)(td_client *c, td_question *q, const td_reply *r, int *fd);
    /* Its end: let go of what it holds. `answered`: by the daemon, which has bound no ids when it says an error. True:
     * requests that were parked may be asked now. NULL: it holds nothing. */
    bool (*end)(td_client *c, td_question *q, bool answered);
    void *held;   /* what the request held that gave it up; `end` lets go of it */
    bool calls;   /* a program, which has to be stopped when nobody wants what it gives, ... */
    bool stopped; /* ... as the daemon was told */
    bool spare;   /* of the size that a client lays by */
};

typedef enum td_request_stage {
    TD_PARKED, /* in a list: too many wait for others, or an item may have to go back first */
    TD_OUT,    /* in a list: asked */
    TD_OVER,   /* in a list: its callback is to be called */
    TD_TOLD    /* in none */
} td_request_stage;

/* Under the lock, but for `tell`. Each may be NULL. */
typedef struct td_request_kind {
    const struct td_request_kind *base;              /* a request of this kind begins with one of that */
    bool (*ready)(const td_request *r);              /* may it be asked now? */
    void (*given_up)(td_request *r, td_question *q); /* nobody wants the answer: the question takes what it needs */
    void (*over)(td_request *r);                     /* it was answered, or has failed */
    bool (*tells)(const td_request *r);              /* is there something to tell, also without a callback? */
    void (*tell)(td_request *r);                     /* tell it, before the callback */
    void (*untaken)(td_request *r);                  /* it is freed, and nobody took what it may have brought */
    void (*forked)(td_request *r);                   /* in a forked child: what it brought is the parent's */
    void (*free)(td_request *r);
} td_request_kind;

struct td_request {
    const td_request_kind *kind;
    td_client *client;
    td_request *next, *prev;
    td_request_stage stage;
    bool running;   /* its callback is being called, ... */
    bool freed;     /* ... and freed it */
    bool cancelled; /* a put that the daemon was asked to withdraw */
    const char *op;
    td_done done;
    void *context;
    int64_t until;         /* by td_now_ms(); INT64_MAX: no limit */
    td_question *question; /* while it is out */
    /* Ask the (next) question, of so many ms as the wire has them. */
    int (*ask)(td_request *r, uint32_t ms);
    /* Take what the answer brought; sets `ask` when there is more to ask. */
    int (*take)(td_request *r, const td_reply *reply, int *fd, td_error *e);
    bool blocks;    /* its thread waits for it: it is in no list, and has no deadline and no callback */
    bool in_stream; /* ... and what is asked behind it waits, too */
    bool waits;     /* its question waits for others */
    bool theirs;    /* the daemon sees to its deadline */
    bool puts;      /* only the daemon can say whether it is too late to cancel */
    bool silent;    /* td_ask_sync() tells no errors */
    bool more;      /* `take` set another question */
    int code;       /* the outcome, with ... */
    td_error error;
};

/* Is it of this kind, or of one that begins with it? */
static inline bool td_request_is(const td_request *r, const td_request_kind *kind)
{
    const td_request_kind *k = r->kind;
    while (k && k != kind) k = k->base;
    return k;
}

/* ---- making: under the lock */

/* A request of `c` of so many bytes, which then is entered; td_request_begin() ends it. NULL: raised, and nothing is
 * entered. */
td_request *td_request_new(size_t size, const td_request_kind *kind, td_client *c, const char *op, int timeout_ms,
                           td_done done, void *context);
td_request *td_request_make(size_t size, const td_request_kind *kind, td_client *c, const char *op, int timeout_ms,
                            td_done done, void *context); /* is entered */
/* Ask it, or let it fail by its callback, and leave the client. rc: why it cannot even be asked. */
td_request *td_request_begin(td_request *r, int rc);
/* A question of it, of so many bytes; NULL: raised. */
td_question *td_question_new(td_request *r, size_t size);
/* The question was not sent after all. */
int td_question_undo(td_question *q, int rc);
/* A question of so many bytes for an answer whose wait is over, but not its thread's own to look at; td_unawait() sends
 * it on. NULL: there is no memory, and the answer will mean nothing. */
td_question *td_question_left(const td_reply_wait *w, size_t size);
/* Ask it by a call, or by a record that is answered; it is undone when that fails. */
int td_question_ask(td_question *q, Td__Wire__Call *call);
int td_question_record(td_request *r, unsigned rec, int nin, const uint32_t *in, int nrest);
/* Of an answer that only says that it is done. */
int td_take_nothing(td_request *r, const td_reply *reply, int *fd, td_error *e);
/* As td_async_sync() asks. */
int td_ask_sync(td_request *r, uint32_t ms);

/* Those that are too late. */
void td_requests_expire(td_client *c, int64_t now);

/* ---- waiting: under the lock */

/* Ask and wait, by a request that is in no list: of it `ask`, `take` and the kind's `given_up` and `untaken` are
 * called. timeout_ms is for what others do. What it brought is its caller's. */
int td_request_wait(td_request *r, const td_request_kind *kind, td_client *c, const char *op, int timeout_ms);

/* The same of a request that must not be asked twice: one question, of which the daemon knows how long it may take. A
 * program that wants to stop gives it up. */
int td_request_wait_once(td_request *r, const td_request_kind *kind, td_client *c, const char *op, int timeout_ms);

/* ---- looking at what it brought: not under the lock */

/* TD_OK: it is over, and went well; else raised. */
int td_request_look(td_request *r);
/* Raises that it brought none of these; NULL. */
void *td_request_none(const td_request *r, const char *what);

#endif
