/* Requests that are answered while the program does something else: what their files share (request.c, loop.c, async.c,
 * async_call.c, async_queue.c).
 *
 * A td_request is the program's handle. What is asked of the daemon is a td_question, which lives until its answer has
 * come, whether or not somebody still wants it: `from` is the request, or NULL when that was given up. */
#ifndef TENSORD_CLIENT_REQUEST_H
#define TENSORD_CLIENT_REQUEST_H

#include "client/client.h"

typedef struct td_question td_question;
typedef struct td_called td_called; /* async_call.c */

struct td_question {
    td_reply_wait wait; /* first: a reply's wait is its question */
    td_request *from;
    bool waits; /* for what others do: the daemon holds it */
    /* The answer is not wanted any more: undo what it brought. */
    void (*late)(td_client *c, td_question *q, const td_reply *r, int *fd);
    td_queue *queue; /* of a get that was given up; it uses it until then */
    bool calls;      /* a program, which has to be stopped when nobody wants what it gives, ... */
    bool stopped;    /* ... as the daemon was told */
    int n;           /* handles whose ids the answer binds; those that are still here at the end are dropped */
    td_array *at[];
};

typedef enum td_request_stage {
    TD_PARKED, /* in a list: too many wait for others, or an item may have to go back first */
    TD_OUT,    /* in a list: asked */
    TD_OVER,   /* in a list: its callback is to be called */
    TD_TOLD    /* in none */
} td_request_stage;

struct td_request {
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
    bool waits; /* its question waits for others */
    bool gets, puts;
    bool more; /* `take` set another question */
    int code;  /* the outcome, with ... */
    td_error error;
    /* What it is about, and what it brought. */
    td_array *array;
    void *buffer;
    size_t bytes;
    bool own_buffer, silent, tree;
    uint64_t version;
    uint64_t writes; /* of the client, when its address was asked for */
    td_table *table;
    td_queue *queue;
    uint32_t needs; /* tensors of the item that stayed where it is, for want of ids */
    td_queue_item item;
    bool brought;   /* the item is there, and its queue */
    uint64_t place; /* of it there */
    char *name;
    td_array **put;
    int nput;
    td_called *called; /* of a call */
};

/* ---- request.c: under the lock */
/* A request of `c`, which then is entered; td_request_begin() ends it. NULL: raised, and nothing is entered. */
td_request *td_request_new(td_client *c, const char *op, int timeout_ms, td_done done, void *context);
td_request *td_request_make(td_client *c, const char *op, int timeout_ms, td_done done, void *context); /* is entered */
/* Ask it, or let it fail by its callback, and leave the client. rc: why it cannot even be asked. */
td_request *td_request_begin(td_request *r, int rc);
/* td_request_free(), not under the lock; false: another thread is about to call its callback, or within it. */
bool td_request_end(td_request *r);
/* A question of it, with n handles; NULL: raised. */
td_question *td_question_new(td_request *r, int n);
/* The question was not sent after all. */
int td_question_undo(td_question *q, int rc);
/* Ask it by a call; it is undone when that fails. */
int td_question_ask(td_question *q, Td__Wire__Call *call);
/* The answer has bound the first n of its ids, which nobody wants. */
void td_question_unwanted(td_question *q, int n);
/* Of an answer that only says that it is done. */
int td_take_nothing(td_request *r, const td_reply *reply, int *fd, td_error *e);
void td_requests_expire(td_client *c, int64_t now);

/* ---- async.c: under the lock */
/* As td_async_sync() asks. */
int td_ask_sync(td_request *r, uint32_t ms);

/* ---- async_call.c: under the lock, but for the printing */
void td_called_free(td_called *x);
bool td_called_prints(const td_called *x); /* none: NULL */
void td_called_print(const td_called *x);

#endif
