/* The door: HTTP/1.1 for those who know nothing of connections. A handler is told of a request in parts (its head, its
 * body as it comes, its end) and answers when it can; libmicrohttpd, which parses what strangers send, is included by
 * door.c alone.
 *
 * Invariant: whatever a peer sends or leaves out, a connection takes no more than its fixed memory here, there are
 * never more connections than the limit, and each stage of a request has a deadline: the head, the body, the time
 * between two requests, and the taking of the answer. Of one connection one request is under way; what is pipelined
 * behind it stays in the socket. Each head that was told is followed by exactly one `over`, also when the connection
 * ends. */
#ifndef TENSORD_CLIENT_HTTP_DOOR_H
#define TENSORD_CLIENT_HTTP_DOOR_H

#include "proto/types.h"

#include <sys/uio.h>

typedef struct http_door http_door;
typedef struct http_exchange http_exchange; /* a request and its answer */

typedef struct http_limits {
    unsigned connections; /* 1024; the one that was idle longest makes room for the next */
    uint64_t body;        /* bytes; a longer one is 413 */
    unsigned idle_s;      /* between two requests; half of it for a head */
} http_limits;

typedef struct http_handler {
    void *context;
    void (*head)(void *context, http_exchange *x);
    /* So many of these bytes it takes; the others it is told again behind http_go_on(). Not of one that is answered. */
    size_t (*body)(void *context, http_exchange *x, const char *bytes, size_t n);
    void (*whole)(void *context, http_exchange *x); /* nor this; an answer is due */
    /* The peer waits no longer for an answer that is still due. */
    void (*gone)(void *context, http_exchange *x);
    void (*over)(void *context, http_exchange *x); /* the last word: `x` ends */
} http_handler;

http_door *http_door_new(const http_limits *limits, const http_handler *handler, td_error *e);
void http_door_free(http_door *d);
/* From here on connections are taken at this listening socket, which is the door's from now on. `local`: those who
 * connect are on this host. */
int http_door_listen(http_door *d, int fd, bool local, td_error *e);
void http_door_close(http_door *d); /* no more connections; requests under way go on */
/* Readable when http_door_run() has something to do. */
int http_door_fd(const http_door *d);
/* Works off what is there; `readable`: the descriptor was. Returns in how many milliseconds it is to be called again at
 * the latest. */
int http_door_run(http_door *d, bool readable);

typedef struct http_counts {
    uint64_t connections, accepted, requests, refused /* 4xx */, failed /* 5xx */, closed_slow, closed_for_room;
    uint64_t bytes_in, bytes_out, under_way;
} http_counts;
const http_counts *http_door_counts(const http_door *d);

/* ---- a request */

const char *http_method(const http_exchange *x);
const char *http_target(const http_exchange *x); /* as it was sent, with its query */
const char *http_header(const http_exchange *x, const char *name);
uint64_t http_length(const http_exchange *x); /* of the body */
bool http_local(const http_exchange *x);
void http_go_on(http_exchange *x);                /* with a body that was not taken */
void http_set_mine(http_exchange *x, void *mine); /* the handler's */
void *http_mine(const http_exchange *x);

/* ---- its answer: once, from any of the calls above or later */

typedef struct http_reply {
    int status;
    const char *type;   /* Content-Type; NULL: application/json */
    uint64_t json_size; /* Inference-Header-Content-Length; 0: none */
    const struct iovec *parts;
    unsigned nparts;
    void (*let_go)(void *owner); /* the parts are not needed any more; called once, whatever happens */
    void *owner;
} http_reply;

void http_answer(http_exchange *x, const http_reply *reply);
bool http_answered(const http_exchange *x);
/* {"error": "..."} with what is to be said. */
void http_refuse(http_exchange *x, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
