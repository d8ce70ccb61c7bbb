/* What a session is made of; shared by the files of this room only. */
#ifndef TENSORD_SESSION_STATE_H
#define TENSORD_SESSION_STATE_H

#include "daemon/graph/graph.h"
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

/* What a session waits for: in its stream, which goes no further meanwhile, or beside it (td_held). */
typedef struct td_wait td_wait;

typedef struct td_wait_kind {
    const char *what; /* for status */
    /* It is over (or has failed): go on. */
    void (*finish)(td_session *s, td_wait *w);
    /* It will not be finished: nobody else knows of it any more, and what came goes back. */
    void (*cancel)(td_session *s, td_wait *w);
    /* The name of what it waits for. */
    const char *(*whom)(const td_wait *w);
    enum { TD_BY_CALLBACK, TD_BY_LEASES, TD_BY_REPLIES, TD_BY_HELD, TD_BY_MEMORY } by; /* what ends it: see td_session_woken */
    bool external;                                                       /* only another session can end it */
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

/* A request that waits for what others do, beside the stream; see held.c. Each kind has a struct that begins with it.
 */
typedef struct td_held {
    td_wait wait;
    struct td_held *next, *prev; /* of its session, the newest first */
    struct td_held *next_over;
    td_session *session;
    size_t bytes; /* of all of it, which is charged */
    td_error error;
    /* As `finish` leaves it: answered; or it is to be called again, next of all, or when td_held_over() says so. */
    enum { TD_HELD_ENDS, TD_HELD_MORE, TD_HELD_LATER } goes_on;
} td_held;

/* A reply that comes when tasks have ended; see promise.c. Each kind has a struct that begins with it. */
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

enum { TD_UNWANTED = 8 };
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
        uint64_t frames;   /* that came */
        td_arena arena;    /* what the last of them became */
        uint64_t unpacked; /* of it, where that is much: charged with what its connection holds */
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
        const td_storage *wants; /* what it waits for there, until its turn has come; only compared */
        td_session *next_wanting, **at_wanting;       /* of those that want something; and what points here */
        td_session *next_for_leases, **at_for_leases; /* of those that wait until leases change */
        uint64_t awaited_lease, awaited_since_ms;     /* the number of the write lease whose end it waited for last */
        const td_storage *awaited_read;         /* or what the current record wants to write when backwards have read it */
        uint64_t awaited_steps;                 /* how far the backward was that has yet to read it */
        td_session *next_reading, **at_reading; /* of those whose job is a backward that still reads something */
    } access;

    /* Memory that it lacks, and what its client has mapped. */
    struct {
        struct td_growing *growing; /* the segment that is made for it; NULL: none is, or nobody waits for it */
        int grow_failed;            /* the system refused the segment that the current record needs: its code */
        enum { TD_MAKES_NONE, TD_MAKES, TD_MADE } making; /* the segment that the current record needs */
        uint64_t lacks_since_ms;                          /* it waits for others to free memory; 0: it does not */
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

    struct {
        td_known_program *known;
        td_reading *reading; /* one that it has sent and that a helper reads, or is to read; NULL: none */
        uint64_t unwanted[TD_UNWANTED]; /* serials of calls that nobody waits for any more, the last ones */
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
        uint64_t forlorn_at_ms, forlorn_pending; /* see td_session_forlorn: when it looked last, and how many tasks were pending */
        int forlorn_looks;                       /* that saw none of them end */
    } life;
};

/* What was made for it is used, or is not wanted any more. */
static inline void td_session_made(td_session *s)
{
    if (s->memory.making != TD_MADE) return;
    s->memory.making = TD_MAKES_NONE;
    s->all->making--;
}

/* The current record has what it lacked, or was told that it gets none. */
static inline void td_session_lacks_nothing(td_session *s)
{
    td_session_made(s);
    s->memory.lacks_since_ms = s->memory.ask_round = s->memory.asked_until_ms = 0;
}

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

/* calls/leases.c: what a session waits to use; NULL: nothing */
void td_session_wants(td_session *s, const td_storage *st);
/* What its stream waits for, and whose write lease that is: "a write lease that train.py (pid 7) holds". */
const char *td_session_awaits(const td_session *s, char *buffer, size_t size);

/* objects/objects.c */
static inline td_object *td_objects_slot(const td_objects *o, uint32_t id) /* NULL: there is no page */
{
    uint32_t p = id / TD_PAGE_OBJECTS;
    return p < o->npages && o->pages[p] ? &o->pages[p]->at[id % TD_PAGE_OBJECTS] : NULL;
}
static inline td_object *td_objects_find(const td_objects *o, uint32_t id) /* NULL when free */
{
    td_object *x = td_objects_slot(o, id);
    return x && (x->tensor || x->cause) ? x : NULL;
}
int td_objects_check_free(const td_objects *o, uint32_t id, td_error *e);
/* Bind a free id (TD_E_EXISTS when it is not: one record may name an output twice); takes over the references. */
int td_objects_bind(td_objects *o, uint32_t id, td_tensor *t, td_cause *c, td_error *e);
void td_objects_release(td_objects *o, uint32_t id);
/* objects/handed.c: the handles of an id, or of some, fewer than *most, are let go of; true: of all. */
void td_handed_release(td_objects *o, uint32_t id);
bool td_handed_drop(td_objects *o, int *most);
int td_call_hand(td_session *s, const Td__Wire__Call *call, td_error *e);
/* Let go of about `most`: true when all are gone. */
bool td_objects_drop(td_objects *o, int most);
void td_objects_deinit(td_objects *o); /* at once */
/* The next page that has anything, from *page on: TD_AGAIN until there is none. `from` must not change meanwhile. */
int td_objects_copy(td_objects *to, const td_objects *from, uint32_t *page, td_error *e);
/* The tensor behind an id: NULL with `e` (TD_E_NOT_FOUND), or with the cause why it has no value (borrowed, *cause
 * set). */
td_tensor *td_session_tensor(td_session *s, uint32_t id, td_cause **cause, td_error *e);
/* The same for who uses its value: that a write of this session has failed counts, too. */
td_tensor *td_session_value_or_why(td_session *s, uint32_t id, td_cause **cause, td_error *e);
static inline td_tensor *td_session_value(td_session *s, uint32_t id, td_cause **cause, td_error *e)
{
    const td_object *x = td_objects_find(&s->objects, id);
    if (!x || !x->tensor || x->cause || s->failures.late.first) return td_session_value_or_why(s, id, cause, e);
    *cause = NULL;
    return x->tensor;
}

/* calls/ops.c, calls/control.c: one record. TD_OK, TD_SUSPENDED, TD_AGAIN, or an error that is the connection's end. */
int td_step_op(td_session *s, const td_record *r, td_error *e);
int td_step_control(td_session *s, const td_record *r, td_error *e);
/* A control record fails: its outputs carry the cause, as an op's would. */
int td_record_failed(td_session *s, const td_record *r, const char *what, td_error *why, td_error *e);
/* The tensors behind ids; those that have values. `optional`: 0 is none. */
int td_session_tensors(td_session *s, const uint32_t *ids, int n, bool optional, td_tensor **out, td_error *e);
int td_session_values(td_session *s, const uint32_t *ids, int n, bool optional, td_tensor **out, td_error *e);
/* calls/backward.c: begin one; answer what one has asked. */
int td_session_backward(td_session *s, const td_record *r, td_error *e);
int td_session_backward_go(td_session *s, const td_record *r, td_error *e);
/* A record that could not even be begun: whoever waits for its answer is told. False: nobody does. */
bool td_session_backward_refused(td_session *s, const td_record *r, td_error *why);
/* calls/hooks.c: hooks, functions of the program's own, nodes by number */
td_hook_owner *td_session_hooks(td_session *s, td_error *e); /* borrowed; NULL with `e` */
int td_session_hook(td_session *s, const td_record *r, td_error *e);
td_noted *td_session_noted(td_session *s, td_error *e); /* borrowed; NULL with `e` */
int td_call_saved(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_session_hook_end(td_session *s, const td_record *r);
int td_session_function(td_session *s, const td_record *r, td_error *e);
int td_session_node_end(td_session *s, const td_record *r);
int td_call_node(td_session *s, const Td__Wire__Call *call, td_error *e);
/* Let go of about `most`: true when all are gone. */
bool td_known_nodes_drop(struct td_known_node **all, td_account *account, int most);
/* Some more of what another has, for a clone; TD_AGAIN: and *next. */
int td_known_nodes_copy(td_session *s, struct td_known_node **next, int most, td_error *e);
/* calls/programs.c: one that the client sends; let go of it; NULL: there is none of that number */
int td_call_program_new(td_session *s, const Td__Wire__Call *call, td_error *e);
td_held_program *td_session_program_of(const td_session *s, uint32_t id, td_error *e); /* borrowed; NULL: there is none */
int td_session_program_id(const td_session *s, uint32_t id, td_error *e);         /* may one get this number? */
int td_session_program_add(td_session *s, uint32_t id, td_held_program *program,
                           td_error *e); /* takes it over when it works */
int td_session_program_end(td_session *s, const td_record *r, td_error *e);
void td_session_program_gone(td_session *s, uint32_t id); /* it is there */
/* The session ends: a helper that reads one for it need not improve it any more. */
void td_session_reading_unwanted(td_session *s);
int td_session_region(td_session *s, const td_record *r, td_error *e);
int td_session_region_end(td_session *s, const td_record *r, td_error *e);
void td_session_regions_drop(td_session *s);
/* Let go of about `most`: true when all are gone. */
bool td_known_programs_drop(td_known_program **all, int most);
td_held_program *td_known_programs_at(td_known_program **at); /* borrowed; and go on to the next one */
/* Some more of what another has, for a clone; TD_AGAIN: and *next. */
int td_known_programs_copy(td_session *s, td_known_program **next, int most, td_error *e);
/* calls/program.c: run one, as a job */
int td_session_program_call(td_session *s, const td_record *r, td_error *e);
/* The call with this serial, or one without that runs now, ends. */
void td_session_program_stop(td_session *s, uint64_t serial);
/* Does it run one, whose results are known to nobody before the answer? */
bool td_session_runs_for_answer(const td_session *s);
/* calls/clone.c: another session of the same user, by who knows its token; NULL with `e` ("... to clone"). */
td_session *td_session_by_token(const td_sessions *all, uint32_t id, uint64_t token, const td_peer_id *who,
                                const char *what, td_error *e);
/* Begin as a clone. And the end of a session: those that copy its objects find none any more. */
int td_session_clone(td_session *s, const Td__Wire__Hello *h, const td_peer_id *who, td_error *e);
void td_clones_end(td_session *parent);
/* Must it stand still, so that its clones find what they want? And after a turn: perhaps it has come to where that is. */
bool td_clones_hold(const td_session *parent);
void td_clones_look(const td_session *parent);
/* stream/frame.c: what a frame has brought, NULL: nothing that makes sense. TD_AGAIN: not all of it has been looked at. */
enum { TD_SITES_AT_ONCE = 128 };
void *td_frame_unpack(td_arena *arena, const td_frame *f);
int td_frame_take(td_session *s, const td_frame *f, void *message, size_t *site, td_error *e);
void td_session_frame_over(td_session *s); /* the last of it is done */
enum { TD_UNPACK_AT_ONCE = 2 }; /* helpers that unpack */
/* stream/unpack.c: by a helper, takes f->block; or the rest of what is unpacked, in turns; it has come; what was has gone */
int td_unpack_aside(td_session *s, td_frame *f, td_error *e);
int td_unpack_go_on(td_session *s, const td_frame *f, void *message, size_t site, td_error *e);
void td_unpack_came(td_session *s);
void td_unpack_gone(td_session *s);
/* life.c */
void td_session_welcome(td_session *s, uint32_t table_hash);
/* calls/call.c: one request. The same results. */
void td_call_failed(td_session *s, const Td__Wire__Call *call, td_error *why); /* that is its answer */
td_tensor *td_call_tensor(td_session *s, uint32_t id, td_error *e); /* with a value; NULL with `e` */
int td_call_new_id(td_session *s, uint32_t id, td_error *e);        /* may it be bound? */
/* calls/names.c */
int td_call_publish(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_open(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_program_open(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_drop(td_session *s, const Td__Wire__Call *call, td_error *e);
/* The value in service memory, which outlives the session: the tensor itself when it is there already, else a copy. A
 * new reference. */
int td_session_in_service(td_session *s, td_tensor *t, bool copy, td_tensor **out, td_error *e);
/* A copy; flags: TD_CF_SERVICE: in service memory. */
int td_session_copy(td_session *s, td_tensor *t, uint32_t flags, td_tensor **out, td_error *e);
/* calls/named.c: programs under names. Answer who opened one. */
int td_session_program_open(td_session *s, uint64_t serial, uint32_t id, td_held_program *p, td_error *e);
int td_call_program_publish(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_program_captured(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_program_plans(td_session *s, const Td__Wire__Call *call, td_error *e);
/* calls/queues.c */
td_queue_handle *td_session_queue(td_session *s, uint32_t id, td_error *e); /* that is open; NULL with `e` */
void td_queue_close_when_in(td_session *s, td_queue_handle *h);             /* the end of a closing one */
int td_call_queue_open(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_queue_close(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_queue_look(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_name_look(td_session *s, const Td__Wire__Call *call, td_error *e);
/* calls/items.c */
int td_call_queue_put(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_queue_get(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_queue_return(td_session *s, const Td__Wire__Call *call, td_error *e);
/* The handle closes: its gets that still wait end so. */
void td_queue_refuse_gets(td_session *s, const td_queue_handle *of, const td_error *why);
int td_step_call(td_session *s);
/* stream/held.c */
/* Before a request that may have to be held: TD_AGAIN when there are too many. */
int td_held_room(td_session *s);
/* `bytes` of zeros that begin with a td_held, which is the session's; the caller says what it waits for. NULL with `e`.
 */
void *td_held_new(td_session *s, const td_wait_kind *kind, size_t bytes, uint64_t serial, td_error *e);
/* Its wait has ended; called from within other calls, so it only takes note. */
void td_held_over(td_held *h, const td_error *error);
/* It need not wait at all: it is finished next, in the turn that is on. */
void td_held_next(td_held *h);
/* Answer the first whose wait has ended (s->beside.over), or do a part of that. What it was worth, in records. */
int td_held_finish(td_session *s);
/* It is cancelled, and answered so. */
void td_held_refuse(td_session *s, td_held *h, const td_error *why);
/* The client gives a request up: it is answered so, unless it has been answered. */
void td_held_cancel(td_session *s, uint64_t serial);
bool td_held_has(const td_session *s, uint64_t serial); /* is it the request that one of these is for? */
/* The session ends. */
void td_held_drop(td_session *s);
/* calls/queues.c: a session that has ended leaves these, with a death each. At most so many; true: there are no more. */
bool td_queue_handles_drop(td_queue_handle **all, td_service *service, td_account *account, int most);

/* calls/leases.c */
int td_call_lease(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_ring(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_lease_drop(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_write_begin(td_session *s, const Td__Wire__Call *call, td_error *e);
/* calls/import.c */
int td_call_import(td_session *s, const Td__Wire__Call *call, td_error *e);
/* Take the descriptor that came with a call; let go of one that nobody took. */
void td_import_receive(td_session *s, td_frame *f);
void td_import_drop(td_session *s);

/* session.c, life.c */
/* Remember a failure that no output can carry; it is told at the next sync. Takes no reference. */
void td_session_failed(td_session *s, td_cause *cause);
/* The program was told of it: the next sync brings another one, if there is any, and what it was about may be used. */
void td_session_told(td_session *s, const td_error *e);
/* Tell it: the answer to what needs a value that cannot be had. It waits for all that was sent before: what of that
 * failed of the same is then known, and part of what was told. */
void td_session_tell(td_session *s, uint64_t serial, td_cause *c);
void td_session_tell_now(td_session *s, uint64_t serial, td_cause *c);
/* A call failed: what it should have written, and has not, is remembered until the program was told. */
void td_session_unwritten(td_issuer *who, const td_call *c);
void td_session_site(td_session *s, uint32_t site);
/* Suspend until td_session_ready; or until everything pending on some bytes has ended. */
void td_session_wait(td_session *s, const td_wait_kind *kind);
void td_session_wait_for_tasks(td_session *s, const td_wait_kind *kind, const td_access *of);
/* Of a throttled session, when a deadline of its wait has passed. */
void td_session_look_again(void *session);
/* How far a job goes at once that could go `most` far: one by one where much memory is asked for ahead already. */
int td_session_step(const td_session *s, int most);
void td_session_ready(td_session *s);
/* What ends waits of that sort has come to pass: one that is on is over. */
void td_session_woken(td_session *s, unsigned by);
/* Suspend until some task of anybody has ended. */
void td_session_throttle(td_session *s, const td_wait_kind *kind);
/* Whatever it waits for: it ends. */
void td_session_cancel_wait(td_session *s);
void td_session_try_free(td_session *s);
/* A new cause, charged to the session; one for all when it has no room for more. NULL with `e` without memory. */
td_cause *td_session_cause(td_session *s, const td_error *why, td_error *e);
/* stream/promise.c */
/* `size` bytes of zeros that begin with a td_promise. NULL with `e`. Until it is made it may be freed. */
void *td_promise_new(td_session *s, const td_wait_kind *kind, size_t size, uint64_t serial, td_error *e);
/* A reply of about `bytes` will follow ... */
void td_promise_make(td_promise *p, uint64_t bytes);
/* ... now, unless the session has ended; the promise is gone. (A callback of the scheduler.) */
void td_promise_keep(void *promise);
/* The session has ended: nobody wants these replies any more. */
void td_promises_forget(td_session *s);

/* objects/lack.c */
/* A step lacks memory, or its due: the code (td_need_may_pass) and what it says beside that. TD_AGAIN when it is worth
 * trying again later, or the final error with the biggest holders in `e`. */
int td_session_lacks(td_session *s, int rc, td_need *need, td_error *e);
/* Does it wait for memory? */
static inline bool td_session_lacked(const td_session *s)
{
    return s->wait.kind && s->wait.kind->by == TD_BY_MEMORY;
}
/* The same for a job after each step, which says whether it lacks some; what the step gave, or as above. */
static inline int td_job_memory(td_session *s, int rc, bool lacks, td_need *need, td_error *e)
{
    if (lacks) return td_session_lacks(s, rc, need, e);
    if (!td_session_lacked(s)) td_session_lacks_nothing(s); /* else for the items of a queue */
    return rc;
}
/* It waits for memory no longer, whatever it was for; false: it did not. */
bool td_session_needs_no_memory(td_session *s);
/* It goes no further before the writes that are pending on a storage have ended; NULL: on none. */
static inline void td_job_behind(td_session *s, const td_wait_kind *kind, const td_storage *st)
{
    if (!st) return;
    td_access whole = {(td_storage *)st, 0, st->nbytes, false};
    td_session_wait_for_tasks(s, kind, &whole);
}
/* objects/holders.c: who holds most there, added to the message; `of`: of a user's account only. */
void td_holders_add(td_sessions *all, unsigned device, const td_account *of, td_error *e);
/* objects/reclaim.c: may others' idle memory help? Then it waits for that. */
enum { TD_LACK_MS = 2000 }; /* so long others' pending work is hoped to free memory; somebody always has some pending */
bool td_session_reclaims(td_session *s, int rc, unsigned device);
/* objects/sent.c */
/* The segment, where it is of the session's heap. */
td_segment *td_sent_segment(const td_session *s, const td_sent *x);
/* The client has nothing of that mapped, and no descriptor. */
void td_sent_forget(td_session *s, td_sent *x);
/* Where a storage lies, as this client may see it. *fd is a descriptor to attach, or -1; one per call when `*fd` comes
 * in as -1 and NULL-able. */
void td_session_address(td_session *s, td_storage *st, Td__Wire__Address *a, int *fd);
/* The same in two steps, for a frame that is not written at once: where it lies (true: the client lacks the segment's
 * descriptor), and when the frame is written, that; -1: it has come meanwhile, or there is none to be had. */
bool td_session_locate(td_session *s, td_storage *st, Td__Wire__Address *a);
int td_session_descriptor(td_session *s, const td_storage *st, bool writable);
/* One more descriptor that reads a segment which the client has; -1: there is none to be had. */
int td_session_reader(td_session *s, const td_segment *g);
/* The client has unmapped a segment that it was asked for; 0: all of them, for good. */
void td_session_unmapped(td_session *s, uint32_t segment, uint32_t generation);
/* The session ends: it has no descriptors any more. */
void td_session_forget_sent(td_session *s);
/* A td_budget hook: a segment goes. */
void td_segment_leaving(const td_segment *g, void *sessions);
/* calls/leases.c */
td_fill_lease *td_lease_find(td_session *s, uint32_t id);
int td_lease_new(td_session *s, uint64_t bytes, td_fill_lease **out, td_need *need, td_error *e);
/* Off the list; the extent is the caller's (or given back with `release`). */
void td_lease_take(td_session *s, td_fill_lease *l, td_extent *extent);
/* Of a session that has ended: at most so many; true when there are no more. */
bool td_leases_drop(td_fill_lease **leases, td_account *account, int most);
void td_ring_drop(td_session *s);
/* Open a write lease on a storage that has none; end it (TD_E_INVALID when there is none of this session). */
int td_write_lease_new(td_session *s, td_tensor *t, td_error *e);
int td_write_lease_end(td_session *s, td_storage *st, td_error *e);
/* No memory, or a quota: whoever looks after the daemon is told. */
void td_session_refused(td_session *s, const td_error *why);
bool td_write_leases_drop(td_write_lease **leases, td_account *account, int most);
/* Is a write lease in the way of touching this storage? TD_OK, TD_E_BUSY (own lease), or TD_AGAIN (somebody else's,
 * waiting). */
int td_session_leased(td_session *s, const td_storage *st, td_error *e);
static inline int td_session_check_lease(td_session *s, const td_storage *st, td_error *e)
{
    return st->flags & TD_SF_LEASED ? td_session_leased(s, st, e) : TD_OK;
}
/* The same for writing: somebody's backward in progress may have to read it first, and what lies in queues stays as it is. */
int td_session_check_write(td_session *s, const td_storage *st, td_error *e);
/* calls/items.c: the items that hold the storage as it is now are given a copy of it. */
int td_session_keep_items(td_session *s, td_storage *st, td_error *e);
/* calls/backward.c: true, with the error of a backward that would add to a .grad which its own session has leased. */
bool td_session_leases_grad(const td_session *s, const td_storage *st, td_error *e);
/* A write lease or a backward ended: whoever waited tries again. */
void td_session_leases_changed(td_sessions *all);
/* calls/leases.c: its job is a backward that has yet to read something, or not */
void td_session_reads(td_session *s, bool on);
/* It is among those who wait for that; it is not. */
void td_session_awaits_leases(td_session *s);
void td_session_awaits_no_leases(td_session *s);

/* stream/reply.c */
/* An answer of so many bytes would lie with others that are not read: TD_E_MEMORY when these take too much. Small ones
 * always may. */
int td_reply_room(const td_session *s, uint64_t bytes, td_error *e);
/* Do more answers lie there, not read by its client, than its stream goes on with? */
bool td_session_unread(const td_session *s);
void td_reply_send(td_session *s, Td__Wire__Reply *r, int fd);
/* A reply whose one field, a message, is packed in parts: the first TD_REPLY_FRONT bytes of the block, at the least, are
 * for what comes before it, and for other replies that wait. It counts among what its connection holds before it is
 * handed over to that. */
enum { TD_REPLY_FRONT = 1024, TD_REPLY_HEAD = 8 };
typedef struct td_long_reply {
    uint8_t *block; /* of malloc */
    size_t capacity, front, end;
    td_account *account; /* that counts ... */
    uint64_t counted;    /* ... so many bytes of it; a reference, or NULL */
} td_long_reply;
/* Begin one of `bytes` at most, with room for others that wait before it where it is long. Fails when there is none for
 * it, of which `what` is told. */
int td_reply_begin(td_session *s, td_long_reply *l, size_t bytes, const char *what, td_error *e);
/* It takes so many bytes by now. */
void td_reply_count(td_session *s, td_long_reply *l, uint64_t bytes);
void td_reply_give_up(td_long_reply *l); /* also when it was handed over */
/* The head of a part of a message: its field, and how long it is. At most TD_REPLY_HEAD bytes. */
size_t td_reply_head(uint8_t *to, unsigned field, size_t length);
/* Takes the block, and `fd` (or -1). */
int td_reply_long(td_session *s, uint64_t serial, unsigned field, td_long_reply *l, int fd);
void td_reply_error(td_session *s, uint64_t serial, const td_error *error);
/* And what was printed before that. */
void td_reply_error_after(td_session *s, uint64_t serial, const td_error *error, const char *said, size_t n);
void td_reply_ok(td_session *s, uint64_t serial);
/* The same, but it goes with the next reply: nobody waits for it now. */
void td_reply_ok_later(td_session *s, uint64_t serial);
/* Ask the client to let go of its mapping. */
void td_event_unmap(td_session *s, uint32_t segment);
/* Hooks that have gone, when they are too many for the next reply. */
void td_event_gone(td_session *s);
/* The arrays point into `sizes` (2 * TD_MAX_DIMS). */
void td_desc_to_wire(const td_desc *d, Td__Wire__Desc *w, int64_t *sizes);
/* What a tensor is and where it stands. */
void td_facts_reply(td_session *s, uint64_t serial, const td_tensor *t, td_edition edition);
int td_read_reply(td_session *s, td_tensor *t, uint64_t serial, td_error *e);
/* Its bytes can be mapped; else says on which device it lies. */
int td_session_check_host(const td_tensor *t, td_error *e);
/* Its address, when everything pending on it has ended; none where nobody maps it. */
typedef struct td_address_form {
    bool descriptor; /* with one to read by, though it was sent before */
    bool quiet;      /* when all that the session sent before has ended, too */
    bool facts;      /* with what td_facts_reply() says */
} td_address_form;
int td_address_reply(td_session *s, td_tensor *t, uint64_t serial, td_address_form form, td_error *e);

/* calls/status.c */
int td_call_status(td_session *s, const Td__Wire__Call *call, td_error *e);
/* The table that is being made goes on behind a session that ends. */
void td_table_pass(td_session *s);
void td_table_pass_program(td_session *s, const td_known_program *p, td_known_program *next);

#endif
