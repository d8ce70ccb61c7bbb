/* The service: what outlives a session, and what all sessions share. The one door of this room.
 *
 * One td_service is the whole state of a daemon below its sockets: memory, scheduler, accounts, names, queues,
 * deadlines. It belongs to the loop thread. It knows no sessions: an asker comes in as an account, a waiter as a
 * callback. */
#ifndef TENSORD_DAEMON_SERVICE_SERVICE_H
#define TENSORD_DAEMON_SERVICE_SERVICE_H

#include "daemon/graph/graph.h"
#include "daemon/sched/sched.h"
#include "daemon/service/job.h"
#include "daemon/service/laps.h"
#include "daemon/tensor/device.h"
#include "proto/base/clock.h"

#define TD_WAIT (-2) /* not now: the callback will be called, or the wait cancelled */
#define TD_NAME_MAX 255

/* ---- deadlines: called on the loop thread when their time has come */

typedef struct td_deadline {
    struct td_deadline *above, *kid[2]; /* in the heap (deadline.c); all three NULL when not armed */
    uint64_t at_us;                     /* on td_clock_ns()'s clock, in microseconds */
    bool armed;
    void (*fire)(void *arg);
    void *arg;
} td_deadline;

void td_deadline_arm(td_service *s, td_deadline *d, uint64_t in_ms, void (*fire)(void *arg), void *arg);
void td_deadline_arm_us(td_service *s, td_deadline *d, uint64_t in_us, void (*fire)(void *arg), void *arg);
void td_deadline_disarm(td_service *s, td_deadline *d);
/* Fire what is due. Returns microseconds until the next, or UINT64_MAX when there is none. */
uint64_t td_deadlines_run(td_service *s);

/* ---- waits for what others bring: an item, room in a queue, a name */

typedef struct td_await td_await;
typedef struct td_await_kind {
    void (*cancel)(td_service *s, td_await *a); /* it ends, and is gone, without a call */
    const char *(*whom)(const td_await *a);     /* the name of what it waits for */
} td_await_kind;
/* The head of each. It is gone when its callback is called, which only takes note. */
struct td_await {
    const td_await_kind *kind;
    td_deadline deadline;
    void *arg; /* of the callback */
};
/* NULL: it is over. */
static inline void td_await_cancel(td_service *s, td_await *a)
{
    if (a) a->kind->cancel(s, a);
}

/* ---- the service */

typedef struct td_service_options {
    uint64_t memory; /* bytes that may be committed */
    int workers;
    td_shm_backend shm;
    bool time_turns;
    uint64_t session_bytes, session_objects;         /* limits of one session; 0: none */
    uint64_t uid_bytes, uid_objects;                 /* of all sessions of a user */
    uint64_t own_bytes;                              /* of the daemon's own memory; 0: no limit */
    uint64_t session_device_bytes, uid_device_bytes; /* of bytes on any one device but the CPU */
    uint32_t uid_imports;                            /* descriptors that they have mapped here */
    const td_device_kind *const *devices;            /* kinds beside the CPU, up to a NULL; NULL: none */
    void (*wake)(void *arg);                         /* from any thread: call td_sched_collect on the loop */
    /* Run `work` on a helper thread, then `done` on the loop thread. NULL: both at once, here. */
    void (*background)(void *hook_arg, void (*work)(void *), void (*done)(void *), void *arg);
    /* As `background`, for work that may hang (whatever a client's descriptor is): it keeps nothing else from being
     * done. */
    void (*aside)(void *hook_arg, void (*work)(void *), void (*done)(void *), void *arg);
    void *arg;
} td_service_options;

struct td_service {
    td_service_options options;
    td_budget budget;
    td_heap *heap;       /* service segments */
    td_account *account; /* of the daemon: those of its users are children of it */
    td_sched *sched;
    struct td_uid *uids;
    struct td_name *names;
    struct td_named_queue *queues;
    struct td_named_model *models;
    struct td_name *names_at; /* of walks in parts */
    struct td_named_queue *queues_at;
    struct td_named_model *models_at;
    struct td_items_at { /* of a walk through what lies in queues */
        struct td_named_queue *queue;
        struct td_queued_item *item;  /* NULL: it is at those that wait for room, ... */
        struct td_queue_wait *putter; /* ... at this one; NULL, too: the queue is done */
        int tensor;                   /* of the item: the next one */
    } items_at;
    struct {
        struct td_named_group *named, *all; /* those that a name leads to; all */
        uint32_t epochs;                    /* that began */
        struct td_limbo *limbos;            /* processes that are watched */
        struct td_roll *roll;               /* a walk through all of them (daemon/service/roll.h) */
    } groups;
    td_owners owners;       /* of jobs, that are no session */
    td_deadline *deadlines; /* the first of them */
    uint32_t ndeadlines;
    struct td_name_waiters *name_waits, *name_told, *name_told_last; /* see names.c */
    td_deadline tell_more;
    uint32_t name_count, queue_count;
    uint64_t editions, no_edition; /* the last version that was given out, and where they began: before the first one */
    uint64_t started_ms;
    td_laps *laps; /* NULL: they are not timed */
    /* counters that only grow */
    uint64_t ops_run, bytes_in, bytes_out, frames_in, turns;
};

int td_service_init(td_service *s, const td_service_options *o, td_error *e);
void td_service_deinit(td_service *s);

/* One that runs calls in this service: what it makes is charged to `account` and lies in `heap`. The rest, its seed
 * too, is zeros. */
void td_issuer_begin(td_issuer *who, td_service *s, td_account *account, td_heap *heap, td_flow *flow);
/* The account of a user: its limits hold for all its sessions together. A new reference. */
td_account *td_service_uid_account(td_service *s, uint32_t uid, td_error *e);

/* ---- names: a tensor, a program, or a model, that anybody of the same daemon may open */

typedef struct td_edition {
    uint64_t version; /* grows with all that is published, under whatever name; differs from each other daemon's */
    uint32_t tree;    /* as the publisher said: 0: it is one tensor; n + 1: n of them in its bytes */
} td_edition;

/* The thing that a name stands for: one of the three. */
typedef struct td_named {
    td_tensor *tensor;
    td_held_program *program;
    struct td_named_model *model; /* daemon/service/models.h */
    td_edition edition;
} td_named;
/* With a reference of its own, and let go of it. */
td_named td_named_hold(td_named what);
void td_named_unhold(td_named what);

typedef struct td_name {
    char name[TD_NAME_MAX + 1];
    td_named what;
    td_account *account; /* of the user that published it: pays for the entry */
    uint32_t session, pid;
    char program[32];
    uint64_t since_ms;
} td_name;

/* May a tensor or a queue be called so? 1 to TD_NAME_MAX bytes, no control characters. */
int td_name_check(const char *name, td_error *e);
/* Bind `name` to `t` (a new reference). TD_E_EXISTS names the owner unless `replace`. */
int td_name_publish(td_service *s, const char *name, td_tensor *t, const td_account *who, bool replace, uint32_t tree,
                    td_error *e);
/* As td_name_publish(), of a program. */
int td_name_publish_program(td_service *s, const char *name, td_held_program *p, const td_account *who, bool replace,
                            td_error *e);
/* As td_name_publish(), of a model: one that has the name already gets it anew. And may that be done? `anew`: only
 * where nothing has the name. */
int td_name_publish_model(td_service *s, const char *name, struct td_named_model *m, const td_account *who, bool anew,
                          td_error *e);
int td_name_for_model(td_service *s, const char *name, const td_account *who, bool anew, td_error *e);
/* The name goes, if it means this model. */
void td_name_drop_model(td_service *s, const struct td_named_model *m);
#define TD_HANDLE_PREFIX "handle/"

/* A name that does not stay: gone when it is taken, or after `lasts_ms`; `lent`: so long after it was noticed that the
 * session of `who` ended, which takes as long again, and at least a second, and only one that begins with
 * TD_HANDLE_PREFIX is for one taker. */
int td_name_hand(td_service *s, const char *name, td_tensor *t, td_account *who, uint32_t lasts_ms, bool lent,
                 td_error *e);
/* Somebody opened it: the end of a name for one taker. */
void td_name_taken(td_service *s, const char *name);

/* A handle: a name that nobody can guess, for one who is told it. td_handle_again(): for one more. It keeps the tensor
 * until as many have taken it, for `lasts_ms` at most since it was last given to one; `lasting`: as a lent name lasts.
 * Beyond that it is there for whoever knows it as long as the id stands for which it was made, and any number may take
 * it. td_handle_let_go(): that id is released. */
#define TD_HANDLE_TEXT 48
int td_handle_new(td_service *s, char name[TD_HANDLE_TEXT], td_tensor *t, td_account *who, uint32_t lasts_ms,
                  bool lasting, td_error *e);
int td_handle_again(td_service *s, const char *name, td_account *who, uint32_t lasts_ms, bool lasting, td_error *e);
void td_handle_let_go(td_service *s, const char *name);
/* Borrowed; NULL with TD_E_NOT_FOUND, or of what is no tensor. */
td_tensor *td_name_find(td_service *s, const char *name, td_error *e);
/* As td_name_find(), with the whole entry. NULL with TD_E_NOT_NEWER for one whose version is not above `newer_than`;
 * with TD_E_CLOSED for a version of another daemon: its holder knows a name that began anew here. */
const td_name *td_name_newer(td_service *s, const char *name, uint64_t newer_than, td_error *e);
/* Only its user (or root) may; `who` NULL: the service itself. */
int td_name_drop(td_service *s, const char *name, const td_account *who, td_error *e);
/* Call `fn` for each, in no order, but for at most `most`. */
void td_name_each(td_service *s, uint32_t most, void (*fn)(const td_name *n, void *arg), void *arg);
/* In parts, the next from where the last one ended, whatever goes meanwhile: one such walk at a time. True: that was
 * all.
 */
bool td_name_some(td_service *s, bool first, uint32_t most, void (*fn)(const td_name *n, void *arg), void *arg);

/* Wait until a name is published: `then` gets it (borrowed), or an error when the deadline passed: TD_E_TIMEOUT, or
 * TD_E_NOT_NEWER when something has the name (and was not new enough). Where very many wait
 * they are told some at a time, in the order in which they came. */
typedef struct td_name_waiters td_name_waiters; /* all who wait for one name */
typedef struct td_name_wait {
    td_await await;
    struct td_name_wait *next, *prev;
    td_name_waiters *among;
    void (*then)(void *arg, const td_named *what, const td_error *error);
} td_name_wait;
int td_name_wait_new(td_name_wait **out, td_service *s, const char *name, uint32_t timeout_ms,
                     void (*then)(void *arg, const td_named *what, const td_error *error), void *arg, td_error *e);
void td_name_wait_free(td_name_wait *w);
void td_name_waits_drop(td_service *s); /* all, untold */

/* ---- queues: bounded, by name; alive as long as somebody has joined, and then as long as it keeps its items */

enum {
    TD_QUEUE_PRODUCER = 1,
    TD_QUEUE_CONSUMER = 2,
    TD_QUEUE_WATCH = 4 /* consumer: told of each producer that died, once the items from before its death are taken */
};

typedef struct td_named_queue td_named_queue;

typedef struct td_queued_item {
    struct td_queued_item *next;
    td_tensor **tensors; /* references */
    td_queued **as_put;  /* of each, what keeps it as it was put; NULL: nothing does */
    int count;
    unsigned char *note; /* bytes that travel with it */
    size_t note_bytes;
    uint64_t place;      /* in its queue: so many were put before it */
    td_account *account; /* who put it: pays for its place, by its size in objects, and for the note's bytes */
    uint64_t cost;       /* these objects */
    uint64_t bytes;      /* of its tensors, views as far as they reach, and of the note */
    td_dead remains;     /* of a large one that has gone: its tensors are let go of in parts */
} td_queued_item;
/* With room for so many tensors and for a note, none of which is there yet. */
int td_queue_item_new(td_queued_item **out, td_account *account, size_t most, size_t note_bytes, td_error *e);
/* keep: it is to come as it is now, whatever is written to its storage until then. */
int td_queue_item_add(td_queued_item *i, td_tensor *t, bool keep, td_error *e);
/* Tensor k is taken: from here on it is the storage's again, or has become a tensor over a copy, which `account` pays
 * for. td_queue_item_keep(): it was not, and lies there as before. */
int td_queue_item_settle(td_queued_item *i, int k, td_account *account, td_error *e);
int td_queue_item_keep(td_queued_item *i, int k, td_error *e);
/* The storage as it was put, where that had to be copied; borrowed. NULL: it was not copied. */
td_storage *td_queue_item_copy(const td_queued_item *i, int k);
/* The storage is about to be written: its items have this copy of it instead. */
void td_queued_copied(td_storage *s, td_storage *copy);
void td_queue_item_free(td_queued_item *i);

/* One session's part in a queue. */
typedef struct td_member {
    struct td_member *next, *prev;
    td_named_queue *queue;
    uint32_t role, session, pid;
    char program[32];
    uint32_t waits;
    uint32_t deaths_told; /* watch: how many of the queue's deaths it was told */
} td_member;

/* Somebody who waits for room or for an item. */
typedef struct td_queue_wait {
    td_await await;
    struct td_queue_wait *next, *prev;
    td_member *member;
    bool put;
    td_queued_item *item; /* of a put: owned until it is in */
    uint64_t bytes;       /* of that */
    /* get: `item` is the callee's; put: item NULL. error NULL: it worked. The wait is gone afterwards. The callback
     * only takes note: it must not call into queues or names. */
    void (*then)(void *arg, td_queued_item *item, const td_error *error);
} td_queue_wait;

/* Join, creating the queue when there is none. `capacity` 0: whatever the others say (1 until somebody does); one that
 * differs from what was said before is TD_E_EXISTS. TD_QUEUE_OPEN: whatever they say, and until then as much as there
 * is room for. `keep_ms`: how long items stay when nobody has joined any more, UINT32_MAX: not at all; 0: as was said
 * before, and until it was a minute if no consumer has ever joined. */
#define TD_QUEUE_OPEN UINT32_MAX
int td_queue_join(td_member **out, td_service *s, const char *name, uint32_t capacity, uint32_t role, uint32_t keep_ms,
                  const td_account *who, td_error *e);
/* `died`: the others learn of it. The last one to leave takes the queue with it, unless that keeps items. */
void td_queue_leave(td_service *s, td_member *m, bool died);
/* No more puts from anybody: getters take what is left, then TD_E_CLOSED. */
void td_queue_end(td_service *s, td_member *m);
/* 0: the item was taken over; TD_WAIT: full, *wait is armed; or an error (the item is still the caller's). timeout_ms
 * UINT32_MAX: no deadline; 0: fail at once with TD_E_TIMEOUT. */
int td_queue_put(td_service *s, td_member *m, td_queued_item *item, uint32_t timeout_ms, td_queue_wait **wait,
                 void (*then)(void *, td_queued_item *, const td_error *), void *arg, td_error *e);
int td_queue_get(td_service *s, td_member *m, td_queued_item **item, uint32_t timeout_ms, td_queue_wait **wait,
                 void (*then)(void *, td_queued_item *, const td_error *), void *arg, td_error *e);
/* Stop waiting, without a call; a put's item is freed. */
void td_queue_wait_cancel(td_service *s, td_queue_wait *w);
/* NULL with TD_E_NOT_FOUND. */
td_named_queue *td_queue_named(td_service *s, const char *name, td_error *e);
/* The one way back for what a get took: it could not be delivered, or its receiver did not want it. It lies at its
 * place again, in a queue that may be full, and may have ended. Of item->place the lower half counts. Takes it over
 * when it works; TD_E_INVALID: nothing was taken from there, or it is back. */
int td_queue_return(td_service *s, td_named_queue *q, td_queued_item *item, td_error *e);
uint32_t td_queue_size(const td_named_queue *q);
const char *td_queue_name(const td_named_queue *q);

typedef struct td_queue_info {
    const char *name;
    uint32_t capacity, items, producers, consumers, waiting_put, waiting_get, deaths;
    bool ended, full;
    uint32_t keep_ms; /* items would stay so long if all left now */
    uint64_t goes_ms; /* nobody has joined: then it goes (td_clock_ms()); else 0 */
    uint64_t puts, gets;
    uint64_t bytes; /* of what lies in it, and of what waits for room */
} td_queue_info;
/* As td_name_some. */
bool td_queue_some(td_service *s, bool first, uint32_t most, void (*fn)(const td_queue_info *q, void *arg), void *arg);
/* As td_queue_some(), of the items in queues and those that wait for room there: `fn` is told of the tensors from
 * `from` up to, and without, `to` of an item, which are all of them but for a large one, that comes in several parts.
 * About `most` tensors and items at a time. */
typedef struct td_items_seen {
    const char *queue;
    const td_queued_item *item;
    int from, to;
} td_items_seen;
bool td_queue_items_some(td_service *s, bool first, int most, void (*fn)(const td_items_seen *i, void *arg), void *arg);
/* Is there any? Without a session: one that keeps its items for whoever comes. */
bool td_queues_left(const td_service *s);
/* At the end: what is kept for whoever comes. */
void td_queues_clear(td_service *s);
/* All zeros when there is none of this name. */
td_queue_info td_queue_look(const td_service *s, const char *name);

#endif
