/* What a model is made of; for models.c and batch.c alone. */
#ifndef TENSORD_DAEMON_SERVICE_MODEL_H
#define TENSORD_DAEMON_SERVICE_MODEL_H

#include "daemon/service/models.h"
#include "proto/base/hash.h"

typedef struct td_served_run td_served_run;   /* a run: batch.c */
typedef struct td_model_looks td_model_looks; /* looks.c */

/* Requests of one process and priority; lines.c. */
typedef struct td_model_line_key {
    uint64_t who, level; /* who: a process, or, where none is known, a session */
} td_model_line_key;
typedef struct td_model_line {
    UT_hash_handle hh;
    td_model_line_key key;
    uint32_t refs;            /* requests that belong to it, also those that a run has taken */
    uint32_t waiting;         /* of them: of a process's line for all priorities, in which none stands, ... */
    uint64_t waiting_bytes;   /* ... and what their inputs take */
    td_inquiry *first, *last; /* that wait in it */
    struct td_model_line *next, *prev;
    uint64_t walk;   /* who goes through the order has come to it: ... */
    td_inquiry *now; /* ... and to this one */
} td_model_line;
typedef struct td_model_level { /* of a priority: lines in which requests wait, in turn */
    td_model_line *first, *last;
} td_model_level;
enum { TD_LEVELS = 64 };

struct td_inquiry {
    td_await await;           /* first */
    td_inquiry *next, *prev;  /* in the line `at`, */
    td_model_line *at, *line; /* NULL: it does not wait; line: where it belongs, */
    td_model_line *whole;     /* ... and that of its process */
    td_served *of;            /* counted */
    td_queued_item *in;
    td_served_run *run; /* NULL: it waits */
    td_waiter *inputs;
    bool alone; /* it joins no others */
    bool waits; /* it is counted so */
    int32_t priority;
    uint32_t most, rows;
    uint64_t bytes, asked_ns, taken_ns;
    td_account *account;
    td_model_then *then;
};

struct td_named_model {
    UT_hash_handle hh;
    td_service *service;
    uint32_t refs;       /* ways to it, versions, and the name that means it */
    uint32_t users;      /* ways to it */
    uint32_t last;       /* version number that was given out */
    td_served *versions; /* the newest first; those that have gone are none */
    td_served *serving;  /* NULL: it means none */
    char name[TD_NAME_MAX + 1];
};

/* One run at a time. */
typedef struct td_lane {
    td_owner *owner;
    td_served_run *batch; /* which it makes its runs by */
} td_lane;

struct td_served {
    uint32_t refs; /* ways to it, requests, runs, and that it is a version of its name */
    td_named_model *of;
    td_served *next; /* of its name */
    enum { TD_WARMING, TD_READY, TD_RETIRING, TD_GONE } state;
    uint32_t number, users; /* users: ways to this version alone */
    unsigned flags;
    td_held_program *program;
    char *card;
    size_t card_bytes;
    uint64_t objects; /* of it, which its account pays for */
    td_account *account;
    td_heap *weights, *work;
    td_model_how how;
    td_model_looks *looks; /* NULL: all that look alike may be joined */
    td_lane lanes[TD_MODEL_LANES];
    uint32_t nlanes, running;
    uint64_t idle;        /* lanes that have nothing to do, bit by bit */
    bool forming;         /* one is about to look what waits */
    td_model_line *lines; /* by key */
    td_model_line early;  /* requests whose inputs are not there yet */
    td_model_line again;  /* those that failed with others, and come first */
    td_model_level levels[TD_LEVELS];
    uint64_t levels_in_use, walk;
    uint32_t waiting; /* requests in all lines */
    uint64_t waiting_bytes;
    td_deadline delay, grace; /* grace: while it retires */
    uint64_t settled;         /* requests that had come to an end when that began */
    uint32_t pid;
    char program_name[32];
    uint64_t since_ms;
    td_model_counts counts;
};

static inline td_served *td_served_ref(td_served *v)
{
    v->refs++;
    return v;
}
void td_served_unref(td_served *v);
/* Does it end now? Asked whenever there is one request or run less. */
void td_served_look(td_served *v);
/* ---- lines.c: the order of requests that wait */

/* It belongs to its process's line, and is early; it waits. */
int td_line_join(td_inquiry *x, td_error *e);
void td_line_part(td_inquiry *x);
void td_line_waits(td_inquiry *x, bool waits); /* it is counted among those, or no more */
/* In a full queue: the newest of the process that has most, in requests or in their bytes, if it has more than this one
 * with another of so many bytes; NULL: it has not. */
td_inquiry *td_lines_gives_way(const td_served *v, const td_account *to, uint64_t bytes, bool by_bytes);
void td_line_enter(td_inquiry *x);              /* its inputs are there: it waits in its line, behind all others */
void td_line_return(td_inquiry *x);             /* it waits before all others, whatever line it belongs to */
void td_line_leave(td_inquiry *x);              /* it waits no more */
void td_line_take(td_inquiry *x);               /* the same, and its line has had its turn */
td_inquiry *td_lines_first(const td_served *v); /* NULL: none waits but for inputs */
td_inquiry *td_lines_any(const td_served *v);   /* also of these */
/* Through all that wait, in their order, until so many were looked at. Nobody may come or go meanwhile. */
typedef struct td_model_order {
    td_served *of;
    uint64_t in_use;
    td_model_line *line;
    uint32_t looks;
    bool begun, any;
} td_model_order;
td_model_order td_lines_order(td_served *v, uint32_t looks);
td_inquiry *td_order_next(td_model_order *o);

/* ---- looks.c */

/* For a model with its `how`, which is paid with so many objects. */
uint64_t td_looks_objects(const td_served *v);
int td_looks_new(td_served *v, td_error *e);
/* May a request with these inputs be joined with others that look like it? */
bool td_looks_apart(td_served *v, const td_queued_item *in);

/* ---- */

/* batch.c: a lane's batch, and its end; its owner has none of it any more. */
td_served_run *td_served_run_new(td_owner *o, td_error *e);
void td_served_run_free(td_served_run *b);
/* Runs begin where there are lanes and requests for them. */
void td_served_start(td_served *v);
/* Its requests fail so, also those that a run has taken. */
void td_served_fail_all(td_served *v, const td_error *why);

#endif
