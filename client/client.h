/* The inside of libtensord: what its files share. Nobody outside this room includes it, but for the Python module.
 *
 * One lock a client. It is held by every public call from its first look at the client to its last, and given up only
 * while a thread sleeps on the socket (stream.c) or maps memory. Bytes enter the stream under the lock, so the order of
 * the stream is the order of the calls. The stream has one reader at a time: whoever waits reads, and hands every reply
 * to the wait it belongs to. */
#ifndef TENSORD_CLIENT_CLIENT_H
#define TENSORD_CLIENT_CLIENT_H

#include "client/tensord.h"
#include "client/wire/places.h"
#include "proto/base/arena.h"
#include "proto/base/clock.h"
#include "proto/wire/frame.h"
#include "proto/base/patience.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"
#include <pthread.h>
#include <sys/types.h>

typedef Td__Wire__Reply td_reply;
typedef struct td_reply_wait td_reply_wait;
typedef struct td_memo td_memo;
typedef struct td_seen_entry td_seen_entry;

/* A reply that is still to come. `on_reply` runs under the lock, on whatever thread reads, and copies out what it needs
 * (the message is gone when it returns); it may take *fd. It is not run when the connection is lost or the reply is an
 * error. */
enum { TD_WAIT_BUCKETS = 128 };
struct td_reply_wait {
    td_reply_wait *next, *before; /* in the order of the questions */
    td_reply_wait *same;          /* with others of its bucket */
    uint64_t serial;
    bool done;
    bool heap;    /* nobody waits: freed when it is done */
    bool put;     /* of an item that may be on its way to a full queue */
    bool stopped; /* its answer came, if it has, when the program no longer wanted to wait */
    /* At its end, under the lock; `answered`: not because the connection is lost, or the process a forked child. */
    void (*over)(td_client *c, td_reply_wait *w, bool answered);
    int code; /* of the reply */
    td_error error;
    int (*on_reply)(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e);
    void (*on_said)(td_reply_wait *w, const uint8_t *text,
                    size_t n); /* before that, also of an error: what a program printed */
    void *context;
};

typedef struct td_bucket {
    td_reply_wait *first, *last;
} td_bucket;

/* A segment as this process has mapped it. It stays mapped until the daemon asks for it back and no handle or lease
 * points into it. */
typedef struct td_mapping {
    uint32_t segment, generation;
    uint64_t size;
    unsigned char *base; /* NULL: free slot */
    bool writable;
    bool unwanted;  /* the daemon asked for it */
    bool old;       /* the number means another segment by now */
    uint32_t users; /* handles and leases that point into it */
    int reader;     /* its descriptor, once private mappings are made of it; else 0 */
} td_mapping;

struct td_array {
    td_client *client;
    uint32_t id;
    uint32_t refs;
    td_desc desc;
    bool unknown;         /* the descriptor is not known yet: td_resolve() asks */
    bool writing;         /* between td_write_begin and td_write_end */
    int32_t mapping;      /* index of the mapping that `bytes` points into, or -1 */
    unsigned char *bytes; /* first byte of the storage, once it is known */
    uint64_t settled;     /* client->writes when the bytes were known to be written; 0: never */
    uint64_t storage;     /* a number that all handles of the storage have that were made here; 0: it came otherwise */
    bool view;            /* made by an op that gives a view, so a part of its base's history */
    bool leaf;            /* its requires_grad was turned on by this handle */
    bool is_grad;         /* it was got as a .grad, or set as one */
    uint64_t traced;      /* which value of which trace it is (trace.c); 0: of none */
    uint64_t outside;     /* td_moment() + 1 when the daemon said that it is outside of every graph; 0: never */
    td_scope *scope;
    td_array *next, *prev; /* in its scope; next: in the free list */
};

struct td_lease {
    td_client *client;
    uint32_t id;
    int32_t mapping; /* -1: none yet */
    unsigned char *bytes;
    uint64_t size;
    uint32_t session;   /* that holds it: a forked child may not put into its parent's */
    bool used;          /* announced: the daemon has it as a storage, no longer as a lease */
    td_array *whole;    /* all its bytes, of which the parts are views; NULL when one tensor took all */
    td_reply_wait wait; /* for the daemon to grant it */
};

/* How far the connection is on its way from the socket to a ring: see ring.c. */
typedef struct td_link {
    enum { TD_LINK_SOCKET, TD_LINK_LEASE, TD_LINK_RING, TD_LINK_NEVER } stage;
    unsigned waits; /* so far */
    td_patience patience;
    td_lease *lease;
    td_ring ring;
    td_reply_wait answer; /* to the request for the ring */
} td_link;

/* Requests in a list. */
typedef struct td_requests {
    td_request *first, *last;
    unsigned n;
} td_requests;

/* What a program with an event loop has of a client: see loop.c. */
typedef struct td_loop {
    bool on;             /* it has asked for the descriptor */
    bool inherited;      /* it had, before this process was forked */
    bool writes;         /* it waits for room in the socket, too */
    bool awake;          /* a dispatch is at work, under the lock */
    int fd, timer;       /* the descriptor, and what is in it beside the socket */
    int64_t alarm;       /* when the timer goes off; INT64_MAX: never */
    int64_t soonest;     /* no request's deadline is earlier */
    unsigned waits;      /* questions that the daemon holds until others do something */
    td_requests parked;  /* to be asked when these are fewer */
    unsigned parked_now; /* of them, those that do not wait for others */
    td_requests out, over;
    td_client *stopper; /* the way by which calls are stopped, while ... */
    unsigned stops;     /* ... so many of these are still to be answered */
} td_loop;

enum { TD_SPARE_LEASES = 2, TD_SITES = 4096 };
enum {
    TD_RELEASE_BATCH = 128,
    TD_RELEASE_BYTES = 1 << 18
}; /* as many handles, or as much memory, wait for their RELEASE */

typedef struct td_site_slot {
    const char *text; /* the very pointer */
    uint16_t id;
    bool sent;
} td_site_slot;

struct td_client {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a reader stopped reading, or a wait was done */
    td_client *next;     /* of all clients (fork.c) */
    int socket;          /* -1: closed */
    char path[108];
    char version[32];
    uint32_t pid, session;
    uint64_t token, inline_limit;
    bool rings;          /* the daemon takes ours */
    bool calls_programs; /* which may have to be stopped */
    bool is_private;     /* the daemon is a private one, of ours or of a process above us */
    td_link link;
    td_loop loop;
    _Atomic int lost; /* 0, or the code that every call returns from now on; `why` has the words. May be looked at by
                         who has not the lock */
    td_error why;
    bool eager;       /* td_set_eager_errors */
    void (*forget)(td_client *c); /* what the rooms above have of it; NULL: nothing */
    bool ended;       /* td_disconnect was called: freed with the last handle */
    uint64_t handles; /* that live: arrays, leases, queues */

    /* out */
    td_words words; /* records of the batch being built */
    unsigned char *data;
    size_t data_bytes, data_capacity;
    unsigned records, batch;
    td_writer writer;
    uint64_t writes;          /* records so far that may change bytes somewhere */
    uint64_t drawn;           /* ops that took random numbers, since the seed */
    uint32_t region, regions; /* the checkpoint that the stream is in, or 0; how many there were */
    uint64_t asked;           /* records so far */
    uint64_t heard;           /* replies so far */
    uint64_t quiet;           /* `asked` when the last sync came back: nothing was pending */

    /* in */
    td_reader reader;
    td_arena arena;
    bool reading;             /* a thread is in recvmsg or poll for us */
    pthread_t teller;         /* tells what its ops saved, ... */
    unsigned telling;         /* ... so deep; others that want to tell wait for its end */
    uint64_t frames;          /* that were made for this session, behind the Hello */
    bool forking;             /* a thread is about to fork, and waits for the daemon: no other goes on meanwhile */
    unsigned waiting;         /* threads on `wake` */
    unsigned asleep;          /* threads in a wait: they keep the client, as handles do */
    _Atomic unsigned blocked; /* threads that wait for the lock: they do, too */
    unsigned patient;         /* threads that wait for what others will do: the stream is held up until then */
    uint64_t next_serial;
    td_reply_wait *waits, *last_wait;
    td_bucket by_serial[TD_WAIT_BUCKETS];
    uint64_t *given_up; /* serials whose answers nobody waits for any more */
    size_t ngiven_up, room_given_up;
    bool forgetful;     /* some of them could not be noted */
    int64_t half_since; /* a part of a frame has come, and nothing since; 0: no */
    bool (*stop)(void *);
    void *stop_context;
    unsigned wakes; /* since `stop` was asked last */

    /* ids */
    uint32_t next_queue, next_program;
    bool puts_sent; /* items may be on their way into queues */
    uint32_t next_id, nfree, free_capacity, nreleased;
    uint64_t released_bytes;
    uint32_t *free_ids;
    uint32_t released[TD_RELEASE_BATCH];
    td_array *spare; /* handles for reuse */

    /* call sites */
    td_site_slot *sites;
    uint16_t nsites;
    uint16_t unsent[256]; /* slots whose text goes with the next batch */
    unsigned nunsent;

    /* memory */
    td_mapping *mappings;
    int nmappings;
    td_lease *spares[TD_SPARE_LEASES]; /* fetched ahead */
    uint64_t last_lease;               /* bytes of the last one asked for */

    td_seen_entry *seen;               /* see seen.c */
    uint32_t seen_unknown, seen_grads; /* looks at storages without a number, at those of a .grad */
    uint64_t storages;                 /* numbers given so far */
    uint64_t freed_graph;              /* of these, those up to here were there before a backward that keeps no graph */
    uint64_t handed_on;                /* of these, those up to here may have come back without their number */

    bool hooks; /* it has made some: a backward may come to one */
    uint32_t next_hook, next_node;
    td_words gone; /* hooks that are nowhere any more, as nobody here has asked yet */
    td_on_hook on_hook;
    void *hook_context;
    td_memo *memos; /* see memo.c */
    uint32_t grad_scope;
    uint32_t devices;    /* bit for each device that the daemon has */
    uint8_t *refused;    /* bit for each op id that the daemon's table has not, or has otherwise; NULL: all agree */
    td_error fork_error; /* why a child being made cannot have a connection */
};

/* ---- error.c ---- */
td_error *td_thread_error(void); /* of this thread, cleared but for op and where: for the next failure */
/* Fail with this thread's error: td_raise(TD_E_TYPE, "td_read", "..."). Returns the code. */
int td_raise(int code, const char *op, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Keep a copy as this thread's error; returns its code. */
int td_raise_error(const td_error *e, const char *op, const char *where);
/* An array was expected and NULL came: keeps an error that already stands. */
int td_raise_null(const char *op, const char *argument);

/* ---- client.c ---- */
td_client *td_client_new(void);
void td_client_free(td_client *c);
/* Lock, and check that the client is of this process and connected. On failure nothing is locked. */
int td_enter(td_client *c, const char *op);
void td_leave(td_client *c);
/* Under the lock: wait until everything asked so far has ended; the first error that was not told yet. */
int td_outcome(td_client *c);
/* Wait until everything asked so far has ended; errors stay untold. Not under the lock. */
int td_settle(td_client *c);
/* The same in two halves, under the lock. */
typedef struct td_quiet_wait {
    td_reply_wait wait;
    td_client *of; /* NULL: nothing was to be waited for */
    uint64_t asked;
} td_quiet_wait;
void td_ask_quiet(td_client *c, td_quiet_wait *x);
int td_await_quiet(td_quiet_wait *x);
/* A line for whoever runs the program goes this way; to stderr, unless a binding has its own. */
extern void (*td_say)(const char *line);
/* The end of a queue's handle that must not wait (and that no thread uses). */
void td_queue_forget(td_queue *q);
/* td_connect that may be stopped, as td_set_interrupt says from then on. A binding has stepped aside before. */
td_client *td_connect_until(const char *path, bool (*stop)(void *), void *context);
/* Would td_connect(NULL) find a daemon, or else fail otherwise than for want of one? */
bool td_daemon_runs(void);

/* ---- seek.c ---- */
/* td_connect(NULL) for a program that begins with td_open(name): rather than to start a daemon, in which nothing is, to
 * the one private daemon of another program that has the name, now or within that time (*another). Does not want the
 * lock put down. */
td_client *td_connect_for(const char *name, int timeout_ms, bool *another, bool (*stop)(void *), void *context);
/* A name was not in this private daemon: add to the last error which other daemon has it, and what to do. */
void td_hint_elsewhere(const td_client *c, const char *name);
void td_leave_with_hint(td_client *c, const char *name); /* td_leave, and the hint */
/* Nobody puts into a queue of this private daemon, or gets from it: says which other daemon has one of that name where
 * somebody does, and what to do. */
bool td_queue_elsewhere(const td_client *c, const char *name, bool got_from, char *text, size_t size);

/* ---- async_queue.c ---- */
/* Under the lock: what a get brought, and nobody wants, goes back; its ids are still to be released. */
void td_give_back(td_client *c, const char *queue, size_t n, uint32_t *ids, ProtobufCBinaryData note, uint64_t place);

/* ---- aside.c ---- */
enum { TD_LONG_COPY = 64 << 10 }; /* bytes; who copies so many steps aside */
void td_step_aside(void);         /* this thread will wait, or work for long: others may run */
void td_step_back(void);          /* it goes on; holds no lock of a client */
void td_stay(bool on);            /* this thread does not step aside: it forks */
/* Under the lock, as td_lock does: another thread forks, and nobody changes the client before it has. */
void td_stand_back(td_client *c);
/* Whoever sleeps on c->wake does so by the monotonic clock. */
void td_wake_init(td_client *c);
void td_lock(td_client *c);
void td_unlock(td_client *c);

/* ---- connect.c ---- */
/* Connect a socket and shake hands; on success the answer is in `c` (socket, session, token, ...). */
int td_shake_hands(td_client *c, int socket, uint32_t clone_session, uint64_t clone_token, td_error *e);
/* The program that waits for this answer wants to stop: what the daemon runs for it is stopped, too. */
void td_stop_programs(const td_client *c, uint64_t waiting);
/* The same without waiting for anything, under the lock. The way for it stays until td_stops_over(). */
void td_stop_soon(td_client *c, uint64_t waiting);
void td_stops_over(td_client *c);
int td_dial(const char *path, td_error *e);
int td_dial_within(const char *path, int ms, td_error *e); /* TD_E_TIMEOUT: a daemon is there, and takes none */

/* ---- launch.c ---- */
/* Start a private daemon; returns a connected socket and its path, or -1. */
int td_launch(char path[108], td_error *e);
/* Has its daemon what td_set_limits() said? TD_E_EXISTS: it runs already, with another memory. */
int td_check_limits(td_client *c);
/* ---- seen.c ---- */
/* The program looks at the bytes of a storage, whose address is known. */
typedef struct td_look_at {
    td_client *client; /* NULL: at nothing */
    uint64_t place[2], storage;
    bool grad;
} td_look_at;
int td_look(td_array *a, td_look_at *out);
void td_look_away(td_look_at *x); /* the array still lives */
/* Under the lock, after a record that writes to it: wait until it is written, if somebody looks. An error is what
 * became of the write. */
int td_written(td_array *a);

/* ---- share.c, tree.c ---- */
/* As td_open(), and which edition it is; `tree`: it is bytes that td_tree_open() takes apart. */
td_array *td_open_edition(td_client *c, const char *name, uint64_t newer_than, int timeout_ms, uint64_t *version,
                          bool *tree);
/* A handle of the tensor for another process, which takes it by td_take(): see Hand in proto/wire/wire.proto. It is there
 * when this returns. `name`: NULL, or one that it was published under; *version: which one that has, 0: that name is
 * another's by now. */
int td_hand(td_array *a, char handle[TD_HANDLE_TEXT], int lasts_ms, bool lasting, const char *name, uint64_t *version);
int td_publish_edition(td_array *tree, int tensors, const char *name, unsigned flags, uint64_t *version);
/* `out` is to be cleared, also after an error. */
int td_tree_open(td_array *bytes, td_queue_item *out);
/* What td_open_tree() gives of what was opened, which is taken over. */
int td_opened_item(td_array *bytes, bool tree, td_queue_item *out);

/* ---- private.c ---- */
/* Pages that show a tensor, and keep to themselves what is written there. The tensor's handle must outlive them. */
typedef struct td_private {
    void *base;
    uint64_t size;
    unsigned char *at; /* the first element */
} td_private;
int td_private_map(td_array *a, td_private *out);
void td_private_unmap(td_private *p);

/* ---- stream.c: all under the lock ---- */
/* Count a record into the batch; sends the batch when it is full. */
int td_recorded(td_client *c);
/* Seal the batch as a frame, and send what the socket takes. Waits only while much is unsent. */
int td_push(td_client *c);
int td_push_all(td_client *c);    /* also the last byte */
int td_push_sealed(td_client *c); /* what frames were made of already, and no more */
/* The checkpoints that this thread is in, the innermost last. */
#define TD_CHECKPOINT_DEPTH 64
typedef struct td_within {
    const td_client *client;
    int depth;
    uint32_t id[TD_CHECKPOINT_DEPTH];
} td_within;
extern _Thread_local td_within td_in_region __attribute__((tls_model("initial-exec")));
static inline uint32_t td_region_of(const td_client *c)
{
    return td_in_region.depth && td_in_region.client == c ? td_in_region.id[td_in_region.depth - 1] : 0;
}
/* The next record is an op of this thread: the stream says where it lies, if that is not where the last one lay. */
int td_region_switch(td_client *c);
static inline int td_region_here(td_client *c)
{
    return td_region_of(c) == c->region ? 0 : td_region_switch(c);
}
/* A record without results. */
int td_control(td_client *c, unsigned rec, const char *where, int nin, const uint32_t *in, int nout,
               const uint32_t *out, int nrest, const uint32_t *rest);
/* A Call with `w->serial` set here; sends what is batched before it. `fd` is not taken over. */
int td_ask(td_client *c, Td__Wire__Call *call, int fd, td_reply_wait *w);
/* Differs from what it was when anything was asked of the daemon since, or heard from it. */
static inline uint64_t td_moment(const td_client *c)
{
    return c->asked + c->heard;
}
/* The same, but it goes with whatever is sent next. */
int td_ask_later(td_client *c, Td__Wire__Call *call, int fd, td_reply_wait *w);
/* Expect a reply to a record that carries w->serial. */
void td_expect(td_client *c, td_reply_wait *w);
/* Wait for it. Returns its code, with this thread's error set. */
int td_await(td_client *c, td_reply_wait *w, const char *op);
/* Both steps. Whatever it returns, the wait is over. */
int td_ask_and_wait(td_client *c, Td__Wire__Call *call, int fd, td_reply_wait *w, const char *op);
/* The same for what the daemon answers when others have done something; `ms` is how long it waits for that. It may
 * succeed although the program wants to stop. */
int td_ask_patiently(td_client *c, Td__Wire__Call *call, td_reply_wait *w, int ms, const char *op);
/* A Call whose answer nobody waits for. Never waits: it is made while replies are being handled, too. */
void td_tell(td_client *c, Td__Wire__Call *call);
/* Stop expecting it. */
void td_forget_wait(td_client *c, td_reply_wait *w);
static inline int64_t td_now_ms(void) /* signed: what is left may be less than nothing */
{
    return (int64_t)td_clock_ms();
}
/* Wait until no put is under way any more. The daemon must have been asked for something since they were sent. */
int td_await_puts(td_client *c);
/* Wait until a number that answers count down is zero. */
int td_await_none(td_client *c, const unsigned *count);
/* Nobody will look at what became of this put, but td_await_puts does wait for it. */
void td_leave_put(td_client *c, td_reply_wait *w);
/* Handle what has arrived, without waiting. */
void td_poll_replies(td_client *c);
/* A part of it, as the loop's reader; >0: there may be more. Nobody else may be reading. */
long td_read_some(td_client *c);
/* Send what is batched, as far as the daemon takes it at once; the rest goes when the loop's descriptor says so. */
int td_push_some(td_client *c);
/* The same for a record, without a look at how much is batched. */
int td_record_only(td_client *c, unsigned rec, int nin, const uint32_t *in, int nrest, const uint32_t *rest);
int td_control_only(td_client *c, unsigned rec, const char *where, int nin, const uint32_t *in, int nout,
                    const uint32_t *out, int nrest, const uint32_t *rest);
/* On the list of those that expect a reply, by its serial; off it again, NULL: there is none. */
void td_add_wait(td_client *c, td_reply_wait *w);
td_reply_wait *td_take_wait(td_client *c, uint64_t serial);
td_reply_wait *td_take_waits(td_client *c); /* all of them, by `next`; nobody finds them any more */
/* Its end: nobody looks for it any more. */
void td_finish_wait(td_client *c, td_reply_wait *w, int code, bool answered);
/* What an answer granted that nobody waits for. */
void td_take_unclaimed(td_client *c, const td_reply *r, int *fd);
/* The connection is unusable from here on. */
void td_lose(td_client *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- ring.c ---- */
/* Before a wait: go a step on towards a ring, when it is worth it. */
void td_link_advance(td_client *c);
/* Back to the socket of a new connection: the ring was the parent's. */
void td_link_forget(td_client *c);
/* The reader, without the lock: wait until something came (or the ring has room), at most `ms` (-1: for ever), and take
 * it in. As td_reader_fill. */
long td_link_wait(td_client *c, bool to_write, int ms, td_error *e);
/* The same under the lock, without waiting; from now on a bell rings for what comes. */
long td_link_take(td_client *c, td_error *e);

/* ---- loop.c: under the lock */
/* The descriptor is readable until the next dispatch. */
void td_loop_wake(td_client *c);
/* Somebody has read: bells ring for the loop again. */
void td_loop_listen(td_client *c);
/* Something was written, or went out. */
void td_loop_writes(td_client *c);
void td_loop_lost(td_client *c);
void td_loop_deinit(td_client *c);
/* In a forked child: first leave the parent's descriptors alone, then, when the connection is there or lost, have own.
 */
void td_loop_forked(td_client *c, bool connected);
/* ... and no later than then; for deadlines. */
void td_loop_alarm(td_client *c, int64_t at);
/* ---- request.c: under the lock */
/* The callbacks of those that were over when this began, without the lock. */
void td_requests_tell(td_client *c);
/* Let go of those that were not even asked. */
void td_requests_fail(td_client *c, const td_error *why);
/* All that were out, in a forked child. */
void td_requests_forked(td_client *c, const td_error *why);

/* ---- site.c ---- */
/* The id of a call site (0: none), by the address of its text. */
uint32_t td_site(td_client *c, const char *where);

/* ---- handle.c ---- */
td_array *td_array_new(td_client *c); /* with an id; NULL: this thread's error says why */
/* In place of an array that could not be had: it has a shape, and whatever else it is used for fails with this code and
 * these words. It is of a client of its own, which was never connected. */
td_array *td_array_lost(const td_desc *desc, int code, const char *why);
void td_array_drop(td_array *a); /* undo td_array_new: the id was never bound */
/* n handles whose descriptors the daemon knows; none without memory. */
int td_arrays_unknown(td_client *c, int n, td_array **out);
/* Is the descriptor known? Once it is it stays so: no lock is wanted. */
static inline bool td_is_known(const td_array *a)
{
    return !__atomic_load_n(&a->unknown, __ATOMIC_ACQUIRE);
}
void td_array_forget(td_array *a);             /* end the handle; its id is somebody else's care */
void td_array_free(td_array *a);               /* the last reference: releases the id */
void td_array_announce(td_array *a);           /* it is made: enters the thread's scope */
void td_array_keep(td_array *a);               /* it leaves that */
uint32_t td_take_id(td_client *c);             /* 0: all are in use */
void td_free_id(td_client *c, uint32_t id);    /* of no tensor: may be used at once */
void td_release_id(td_client *c, uint32_t id); /* of a tensor: RELEASE goes with the batch */
int td_emit_releases(td_client *c);
/* Check that `a` is an array of `c` (NULL *c: sets it). */
int td_same_client(td_client **c, const td_array *a, const char *op);
int td_list_client(td_client **c, td_list l, const char *op, const char *argument);
unsigned td_mode(void);        /* TD_RM_* of this thread, without the device */
unsigned td_mode_making(void); /* the same, with the device of what is made of nothing */
static inline unsigned td_device_making(void)
{
    return td_mode_making() >> TD_RM_DEVICE;
}
int td_first_device(td_error *e); /* look where the environment wants things to be made */
/* On the CPU: itself, or a copy that is no part of any graph. A new reference; NULL: this thread's error. */
td_array *td_here(td_array *a);
unsigned td_now_on(unsigned device); /* make things there from now on; returns where they were made before */
/* Fails: the daemon has no such device; says which it has. */
int td_no_device(const td_client *c, const char *op, const char *where, unsigned device);

/* ---- lease.c ---- */
/* td_lease_new, but never behind a wait of another thread for what others will do (an item, a name). */
td_lease *td_lease_at_once(td_client *c, uint64_t bytes);
/* Under the lock: */
/* Ask for a lease; l->wait tells when it is there. NULL: this thread's error says why. */
td_lease *td_ask_lease(td_client *c, uint64_t bytes);
/* The same, and it is there; NULL: raised. */
td_lease *td_lease_wait(td_client *c, uint64_t bytes);
/* Give it back; forget it, when the session it was of has gone. */
void td_drop_lease(td_lease *l);
void td_tell_lease_drop(td_client *c, uint32_t lease);
void td_forget_lease(td_lease *l);

/* ---- composite.c ---- */
/* td_alias under the lock. */
td_array *td_array_alias(td_array *a);
/* A copy of another dtype, or (TD_DTYPE_NONE) of the same: channels last where x lies so. Not under the lock. */
td_array *td_copy_as_it_lies(const char *where, td_array *x, td_dtype dtype);
/* What was made of the shape of `like` and lies row by row: it, or a copy (it is released) that lies channels last as
 * that does. Not under the lock. */
td_array *td_laid_like(const char *where, td_array *like, td_array *made);

/* ---- shape.c: under the lock ---- */
int td_desc_from_wire(const Td__Wire__Desc *d, td_desc *out, td_error *e);
int td_take_shape(td_array *a, const Td__Wire__Desc *d, td_error *e);
/* Ask the daemon for the descriptor when it is not known. */
int td_resolve(td_array *a);
/* The same for many, in one round trip. codes[i] is TD_E_NOT_FOUND for what is not there; any other error is that of
 * the whole. */
int td_resolve_all(td_client *c, int n, td_array *const *at, int *codes, td_error *e);

/* ---- value.c: under the lock ---- */
/* Wait until everything asked of it so far is done, and know where it lies. */
int td_locate(td_array *a);
/* The same, not under the lock; on any device, and at once where errors are eager: then it is there. */
int td_made(td_array *a);
/* td_data() of an array, after td_settle() if `settle`, in one round trip. Not under the lock. With `info` that, too;
 * asked in the same trip where there is one. */
const void *td_data_as(td_array *a, bool settle, td_info *info);
/* The answers to a read, to Map, to Open, to Status and to Info. `writes`: td_client.writes when it was asked. */
int td_take_value(td_array *a, void *buffer, size_t bytes, const td_reply *r, int *fd, td_error *e);
int td_take_address(td_array *a, uint64_t writes, const td_reply *r, int *fd, td_error *e);
int td_take_opened(td_array *a, const td_reply *r, int *fd, td_error *e);
int td_take_info(td_info *out, const td_reply *r, td_error *e);
unsigned char *td_first_element(const td_array *a); /* of one whose storage is known */
/* This thread will not wait for it, as it was written in time; NULL: no longer. */
void td_at_hand(const td_array *a);

/* ---- map.c: under the lock ---- */
/* Make the address usable: maps its segment unless it is mapped (then *fd is taken). The mapping counts one more user.
 */
int td_map_address(td_client *c, const Td__Wire__Address *at, int *fd, int32_t *mapping, unsigned char **bytes,
                   td_error *e);
/* The same for the storage of an array. */
int td_adopt_address(td_array *a, const Td__Wire__Address *at, int *fd, td_error *e);
void td_unuse_mapping(td_client *c, int32_t mapping);
void td_unmap_segment(td_client *c, uint32_t segment); /* the daemon asks for it */
void td_forget_mappings(td_client *c);

/* ---- lease.c: under the lock ---- */
void td_forget_leases(td_client *c);

/* ---- fork.c ---- */
int td_fork_register(td_client *c, td_error *e);
void td_fork_forget(td_client *c);
/* False in a process made by a raw clone, which ran no handlers. */
bool td_fork_intact(void);
/* How many forks lie between this process and the one that loaded the library. */
unsigned td_fork_generation(void);

/* Milliseconds as the wire has them: negative means no limit. */
static inline uint32_t td_timeout(int ms)
{
    return ms < 0 ? UINT32_MAX : (uint32_t)ms;
}

#endif
