/* What a session is made of; shared by the files of this room only. */
#ifndef TENSORD_DAEMON_SESSION_STATE_H
#define TENSORD_DAEMON_SESSION_STATE_H

#include "daemon/graph/graph.h"
#include "daemon/service/group.h"
#include "daemon/service/models.h"
#include "daemon/session/session.h"
#include "proto/base/arena.h"
#include "proto/base/hash.h"
#include "proto/ops/opid.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"

#include <stddef.h>

#define TD_SUSPENDED (-3) /* of a step: go no further; s->wait says what for. The record is done. */
/* TD_AGAIN (job.h), of a step: go no further; the same record is run again on resume. */

/* What an id stands for: a tensor, or the reason why there is none. Both NULL: free. */
typedef struct td_object {
    td_tensor *tensor;
    td_cause *cause;
    uint32_t since; /* in ticks of td_objects.now */
    uint32_t site;  /* of the record that bound it; 0: not known */
} td_object;

enum { TD_TICK_MS = 100 };
static inline uint32_t td_ticks(const td_service *v) /* since the daemon began */
{
    return (uint32_t)((td_clock_ms() - v->started_ms) / TD_TICK_MS);
}
enum { TD_PAGE_OBJECTS = 1024, TD_PAGES = (TD_MAX_ID + 1 + TD_PAGE_OBJECTS - 1) / TD_PAGE_OBJECTS };

typedef struct td_object_page {
    uint32_t live;
    td_object at[TD_PAGE_OBJECTS];
} td_object_page;

typedef struct td_handed td_handed; /* objects/handed.c */

typedef struct td_objects {
    td_object_page **pages, *spare;
    td_handed *handed; /* which of them have handles */
    uint32_t npages, live, peak;
    uint32_t now, site;  /* of what is bound next; tenths of a second since the daemon began */
    td_account *account; /* pays for pages; the session's own reference */
} td_objects;

typedef struct td_known_program td_known_program; /* calls/programs.c */
typedef struct td_reading td_reading;

/* What an ended session leaves when it is too much to be let go of in one turn. */
typedef struct td_remains {
    struct td_remains *next;
    td_job *job, *parked;
    struct td_known_node *nodes;
    td_objects objects; /* counts its account, which all of it is charged to */
    struct td_queue_handle *queues;
    td_known_program *programs;
    struct td_write_lease *write_leases;
    struct td_fill_lease *leases;
    char **sites;
    uint32_t nsites, ncharged_sites;
} td_remains;

/* Memory that the client fills and announces later. */
typedef struct td_fill_lease {
    UT_hash_handle hh;
    uint32_t id;
    uint64_t bytes; /* what it holds: the size asked for, rounded up, is charged */
    td_extent extent;
} td_fill_lease;

/* A storage that the client is writing to. It keeps the tensor, so that the lease can end whatever became of the id. */
typedef struct td_write_lease {
    UT_hash_handle hh, hh_all; /* of its session, of all */
    td_sessions *all;
    const td_storage *storage; /* the tensor's: by which it is found */
    td_tensor *tensor;
    const td_account *account; /* whose it is, and pays for it */
    uint64_t number, since_ms; /* number: no other lease has it */
    bool overdue;              /* somebody has waited for its end as long as one does */
} td_write_lease;

/* A descriptor of a segment that a client has. They are found by their session, and by their segment when that goes. */
typedef struct td_sent {
    struct td_sent *next, *prev; /* of its session */
    struct td_sent *next_of;     /* of the same segment, ... */
    struct td_sent **at_of;      /* ... and what points here */
    struct td_sent_of *of;
    td_session *session;
    uint32_t segment, generation;
    bool writable;
    bool asked; /* to unmap it: what lies there from now on brings a descriptor again */
    uint64_t asked_ms;
} td_sent;

typedef struct td_queue_handle {
    UT_hash_handle hh;
    uint32_t id;
    td_member *member;
    uint32_t puts;  /* that are held */
    bool closing;   /* when they are in; ... */
    bool end;       /* ... for everybody */
    uint64_t close; /* the request's serial */
} td_queue_handle;

/* A seat in a group, by the number that the client gave it. */
typedef struct td_group_handle {
    struct td_group_handle *next;
    uint32_t id;
    td_group_member *member;
} td_group_handle;

/* A model that it has open, or is loading, by the number that the client gave it. */
typedef struct td_model_handle {
    UT_hash_handle hh;
    uint32_t id;
    td_model_user user;
} td_model_handle;

/* What a session waits for: in its stream, which goes no further meanwhile, or beside it (td_held). */
typedef struct td_wait td_wait;

typedef struct td_wait_kind {
    const char *what; /* for status */
    /* It is over (or has failed): go on. */
    void (*finish)(td_session *s, td_wait *w);
    /* It will not be finished: nobody else knows of it any more, and what came goes back. */
    void (*cancel)(td_session *s, td_wait *w);
    enum {
        TD_BY_CALLBACK,
        TD_BY_LEASES,
        TD_BY_REPLIES,
        TD_BY_HELD,
        TD_BY_MEMORY
    } by;          /* what ends it: see td_session_woken */
    bool external; /* only another session can end it */
} td_wait_kind;

struct td_wait {
    const td_wait_kind *kind; /* NULL: there is none */
    bool over, failed;
    uint32_t id;     /* to bind */
    uint64_t serial; /* of the request */
    td_deadline deadline;
    td_waiter *tasks;  /* that it waits for */
    td_tensor *tensor; /* a reference */
};

/* A request that waits for what others do, beside the stream; see stream/held.c. Each kind has a struct that begins
 * with it. */
typedef struct td_held {
    td_wait wait;
    struct td_held *next, *prev; /* of its session, the newest first */
    struct td_held *next_over;
    td_session *session;
    td_await *at; /* what it waits for in the service; NULL: that is over */
    size_t bytes; /* of all of it, which is charged */
    td_error error;
    /* As `finish` leaves it: answered; or it is to be called again, next of all, or when td_held_over() says so. */
    enum { TD_HELD_ENDS, TD_HELD_MORE, TD_HELD_LATER } goes_on;
} td_held;

/* A reply that comes when tasks have ended; see stream/promise.c. Each kind has a struct that begins with it. */
typedef struct td_promise {
    td_wait wait;
    td_session *session;
    struct td_promise *next, *prev;
    uint64_t bytes; /* about, of the reply */
} td_promise;

typedef struct td_clone td_clone;

/* A checkpoint that is open, by the number that the client gave it. */
typedef struct td_open_region {
    struct td_open_region *next;
    uint32_t id;
    td_region *region; /* counted */
} td_open_region;

enum { TD_UNWANTED = 8, TD_STOPPER_BYTES = 1 << 10 /* of a stopper, with a Stop of which a part has come */ };
struct td_session {
    td_sessions *all;
    td_session *next, *prev;
    td_service *service;
    td_session_io io;
    uint32_t id, uid, pid;
    uint64_t token;
    td_issuer issuer;
    td_flow *flow;
    td_heap *heap;
    td_account *account;
    td_objects objects;
    uint64_t ops_run;

    /* What came and is to be done next, in order. */
    struct {
        uint64_t frames;                     /* that came */
        td_arena arena;                      /* what the last of them became */
        uint64_t unpacked;                   /* of it, where that is much: charged with what its connection holds */
        struct td_process_line *unpacked_of; /* ... which its process then holds; or NULL */
        Td__Wire__Batch *batch;
        size_t cursor; /* words of the batch that are done */
        int worth;     /* of the record that was done last: so many plain ones */
        Td__Wire__Call *call;
        uint64_t call_until_ms; /* it may wait so long; 0: not asked yet */
        int import_fd;          /* came with it, or -1 */
        td_tensor **outs;       /* room for one op's outputs */
        int max_outs;
    } stream;

    /* Where in its program the client was when it sent a record: texts by id, grown as ids come. */
    struct {
        char **texts;
        uint32_t *renamed; /* when an id got another text than before, in ticks of td_objects.now; 0: never */
        uint32_t count, charged, last;
    } sites;

    /* Long work: one thing at a time, before the stream goes on. */
    struct {
        td_job *job;
        td_job *parked; /* backwards that wait for the answer to a hook, while the stream goes on; the newest first */
        uint32_t nparked;
        uint64_t steps; /* that its jobs have taken */
    } work;

    td_wait wait; /* of the stream, or of its long work */

    /* Requests and replies that wait beside the stream. */
    struct {
        td_held *held, *over, **last_over; /* requests; those whose wait has ended, in that order */
        td_held *oldest_held;
        uint32_t nheld;
        td_promise *promises; /* that are to be kept */
        uint64_t promised;    /* bytes of replies that wait for tasks to end */
    } beside;

    /* How far ahead of the kernels it asks. */
    struct {
        td_session *next_throttled;
        bool throttled, paced;  /* paced: until a deadline at the latest */
        uint32_t ahead;         /* tasks that it may have in flight now: the pace, or more behind one that takes long */
        uint64_t was_ended;     /* of its tasks, when it began to wait for them, or looked again */
        uint64_t was_worked_ns; /* what the workers had worked when it looked first; 0: it has not looked yet */
        int looks;              /* since then */
    } pace;

    /* Storages that others write to, or have yet to read. */
    struct {
        const td_storage *wants;                /* what it waits for there, until its turn has come; only compared */
        td_session *next_wanting, **at_wanting; /* of those that want something; and what points here */
        td_session *next_for_leases, **at_for_leases; /* of those that wait until leases change */
        uint64_t awaited_lease, awaited_since_ms;     /* the number of the write lease whose end it waited for last */
        const td_storage *awaited_read; /* or what the current record wants to write when backwards have read it */
        uint64_t awaited_steps;         /* how far the backward was that has yet to read it */
        td_session *next_reading, **at_reading; /* of those whose job is a backward that still reads something */
    } access;

    /* Memory that it lacks, and what its client has mapped. */
    struct {
        struct td_growing *growing; /* the segment that is made for it; NULL: none is, or nobody waits for it */
        td_error grow_failed; /* the system refused the segment that the current record needs; code 0: it did not */
        enum { TD_MAKES_NONE, TD_MAKES, TD_MADE } making; /* the segment that the current record needs */
        uint64_t lacks_since_ms;                          /* it waits for others to free memory; 0: it does not */
        uint64_t lacks_behind; /* ... at least until so many tasks, of those issued since the daemon began, have ended */
        int lacks_again;       /* how often that was so, and somebody else had what they freed */
        uint64_t ask_round;      /* all->ask_round in which others are asked for it; 0: it needs none yet */
        uint64_t asked_until_ms; /* ... which is over; so long it waits for what they unmap */
        td_sent *sent;           /* descriptors that its client has */
        bool mapped;
        bool inherited; /* its heap has memory that the process may have mapped through a former session */
    } memory;

    /* Memory that its client fills, storages that it writes to. */
    struct {
        td_fill_lease *fill;
        td_fill_lease *ring; /* what the connection's ring lies in: off the list; NULL: it has none */
        uint32_t last;
        td_write_lease *write;
    } leases;

    td_queue_handle *queues;
    td_group_handle *groups; /* few */
    td_model_handle *models;

    struct {
        td_known_program *known;
        td_reading *reading;            /* one that it has sent and that a helper reads, or is to read; NULL: none */
        bool stoppable;                 /* its client has a stopper */
        uint64_t unwanted[TD_UNWANTED]; /* serials of calls to come that were stopped, the first ones; then zeros */
    } programs;

    /* What its client knows of graphs. */
    struct {
        td_open_region *regions;
        uint32_t nregions;
        td_hook_owner *hooks;
        td_noted *noted; /* what its ops saved, as it wants to know; or NULL */
        struct td_known_node *nodes;
        td_words gone; /* hooks that have gone, as the client has still to be told */
    } graph;

    /* What failed and was not told yet. */
    struct {
        td_cause *first;
        td_lates late;       /* of storages; told by their next use */
        td_cause *late_grad; /* of a backward; told by the next use of a .grad */
        td_cause *overdrawn; /* what failures that the session has no room for are told as */
    } failures;

    struct {
        td_clone *clones; /* which copy its objects: it goes no further meanwhile */
        bool partial;     /* a clone of one that was held up: what it should have then is not all there */
    } copies;

    /* Its end. */
    struct {
        bool said_bye, ended, drained;
        uint32_t refs;                         /* helpers at work, promises: what still points here */
        td_session *next_ending, *prev_ending; /* of those that have ended, until they are gone */
        uint64_t forlorn_at_ms,
            forlorn_pending; /* see td_session_forlorn: when it looked last, and how many tasks were pending */
        int forlorn_looks;   /* that saw none of them end */
    } life;
};

static inline td_session *td_session_of(td_issuer *who)
{
    return (td_session *)(void *)((char *)who - offsetof(td_session, issuer));
}

/* A session does one job at a time in its turns, before it goes on with its stream; an error of a step is its
 * connection's end. */
static inline td_job td_session_job(td_session *s, const td_job_kind *kind)
{
    return (td_job){.kind = kind, .issuer = &s->issuer, .account = s->account};
}

/* ---- session.c, life.c */

void td_session_welcome(td_session *s, uint32_t table_hash);
void td_session_try_free(td_session *s);

#endif
