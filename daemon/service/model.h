/* What a model is made of; for models.c and batch.c alone. */
#ifndef TENSORD_DAEMON_SERVICE_MODEL_H
#define TENSORD_DAEMON_SERVICE_MODEL_H

#include "daemon/service/models.h"
#include "proto/base/hash.h"

typedef struct td_served_run td_served_run; /* a run: batch.c */

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
    td_lane lanes[TD_MODEL_LANES];
    uint32_t nlanes, running;
    uint64_t idle;            /* lanes that have nothing to do, bit by bit */
    bool forming;             /* one is about to look what waits */
    td_inquiry *first, *last; /* that wait for a run, in order */
    uint32_t waiting;         /* these, and those whose inputs are not there yet */
    uint64_t waiting_bytes;
    uint64_t turn; /* of the request that was taken last */
    td_deadline delay;
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
/* batch.c: a lane's batch, and its end; its owner has none of it any more. */
td_served_run *td_served_run_new(td_owner *o, td_error *e);
void td_served_run_free(td_served_run *b);
/* Runs begin where there are lanes and requests for them. */
void td_served_start(td_served *v);
/* Its requests fail so, also those that a run has taken. */
void td_served_fail_all(td_served *v, const td_error *why);

#endif
