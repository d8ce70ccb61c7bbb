/* A connection to a daemon: what the rooms above use of its state, its lock and its errors.
 *
 * One lock a client. It is held by every public call from its first look at the client to its last, and given up only
 * while a thread sleeps on the socket (stream.c) or maps memory. Bytes enter the stream under the lock, so the order of
 * the stream is the order of the calls. The stream has one reader at a time: whoever waits reads, and hands every reply
 * to the wait it belongs to.
 *
 * A client is one piece of memory, so the rooms above have a part each of it. This room keeps their place, and does not
 * look into them: tests/house/check_includes.py holds to that. */
#ifndef TENSORD_CLIENT_WIRE_CLIENT_H
#define TENSORD_CLIENT_WIRE_CLIENT_H

#include "client/tensord.h"
#include "client/tensord_bind.h"
#include "proto/base/arena.h"
#include "proto/base/clock.h"
#include "proto/base/patience.h"
#include "proto/wire/frame.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"
#include <pthread.h>
#include <sys/types.h>

typedef Td__Wire__Reply td_reply;
typedef struct td_reply_wait td_reply_wait;
typedef struct td_memo td_memo;             /* tensor/memo.h */
typedef struct td_seen_entry td_seen_entry; /* tensor/seen.c */
typedef struct td_mapping td_mapping;       /* memory.h */

/* A reply that is still to come. `on_reply` runs under the lock, on whatever thread reads, and copies out what it needs
 * (the message is gone when it returns); it may take *fd. It is not run when the connection is lost or the reply is an
 * error. */
typedef int td_on_reply(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e);

enum { TD_WAIT_BUCKETS = 128 };
struct td_reply_wait {
    td_reply_wait *next, *before; /* in the order of the questions */
    td_reply_wait *same;          /* with others of its bucket */
    uint64_t serial;
    bool done;
    bool heap;    /* nobody waits: freed when it is done */
    bool put;     /* of an item that may be on its way to a full queue */
    bool untaken; /* the daemon has done it, and on_reply failed: what it bound is bound */
    bool stopped; /* its answer came, if it has, when the program no longer wanted to wait */
    /* At its end, under the lock; `answered`: not because the connection is lost, or the process a forked child. */
    void (*over)(td_client *c, td_reply_wait *w, bool answered);
    int code; /* of the reply */
    td_error error;
    td_on_reply *on_reply;
    void (*on_said)(td_reply_wait *w, const uint8_t *text,
                    size_t n); /* before that, also of an error: what a program printed */
    void *context;
};

typedef struct td_bucket {
    td_reply_wait *first, *last;
} td_bucket;

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
    unsigned stops; /* calls that were stopped and are still to be answered */
} td_loop;

enum { TD_SPARE_LEASES = 2, TD_SITES = 4096 };
enum {
    TD_RELEASE_BATCH = 128,
    TD_RELEASE_BYTES = 1 << 18, /* as many handles, or as much memory, wait for their RELEASE */
    TD_RELEASE_TOLD = 8 << 20   /* ... and so much for a frame that has it */
};

typedef struct td_site_slot {
    const char *text; /* the very pointer */
    uint16_t id;
    bool sent;
} td_site_slot;

/* In parts, each of which belongs to what is named beside it: that alone knows how its fields go together. */
struct td_client {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a reader stopped reading, or a wait was done */
    td_client *next;     /* of all clients (fork.c) */
    int socket;          /* -1: closed */
    char path[108];
    uint32_t session;
    uint64_t token;
    _Atomic int lost; /* 0, or the code that every call returns from now on; `why` has the words. May be looked at by
                         who has not the lock */
    td_error why;
    bool eager;       /* td_set_eager_errors */
    bool ended;       /* td_disconnect was called: freed with the last handle */
    uint64_t handles; /* that live: arrays, leases, queues */
    td_link link;
    td_loop loop;

    /* What is at the other end: connect.c. */
    struct {
        char version[32];
        uint32_t pid;
        uint64_t inline_limit;
        bool rings;       /* it takes ours */
        bool groups;      /* it has them */
        bool regroups;    /* and groups have epochs */
        bool is_private;  /* of ours, or of a process above us */
        uint32_t devices; /* bit for each that it has */
        uint8_t *refused; /* bit for each op id that its table has not, or has otherwise; NULL: all agree */
    } daemon;

    /* The socket by which calls of programs are stopped: stopper.c. */
    struct {
        bool asked;
        int fd;          /* -1: it has not come */
        uint64_t wanted; /* to be stopped as soon as it has; 0: nothing is */
        bool alone;      /* and nothing that holds it up */
    } stopper;

    /* The way to it: stream.c. */
    struct {
        td_words words; /* records of the batch being built */
        unsigned char *data;
        size_t data_bytes, data_capacity;
        unsigned records, batch;
        td_writer writer;
        uint32_t region; /* the checkpoint that the stream is in, or 0 */
        uint64_t writes; /* records so far that may change bytes somewhere */
        uint64_t asked;  /* records so far */
        uint64_t quiet;  /* `asked` when the last sync came back: nothing was pending */
    } out;

    /* The way back: stream.c. */
    struct {
        td_reader reader;
        td_arena arena;
        uint64_t heard;     /* replies so far */
        int64_t half_since; /* a part of a frame has come, and nothing since; 0: no */
        td_words gone;      /* hooks that the daemon says are nowhere any more, until somebody asks (td_gone_hooks) */
    } in;

    /* Answers that are to come: waits.c. */
    struct {
        uint64_t next_serial;
        td_reply_wait *first, *last;
        td_bucket by_serial[TD_WAIT_BUCKETS];
        uint64_t *given_up; /* serials whose answers nobody waits for any more */
        size_t ngiven_up, room_given_up;
        bool forgetful;            /* some of them could not be noted */
        bool puts_sent;            /* items may be on their way into queues */
        struct td_question *spare; /* request.c; NULL: none */
    } due;

    /* Threads that want something of it at once: stream.c, aside.c. */
    struct {
        bool reading;             /* one is in recvmsg or poll for all */
        unsigned waiting;         /* on `wake` */
        unsigned asleep;          /* in a wait: they keep the client, as handles do */
        _Atomic unsigned blocked; /* that wait for the lock: they do, too */
        unsigned patient;         /* that wait for what others will do: the stream is held up until then */
        bool (*stop)(void *);     /* does the program want to stop? */
        void *stop_context;
        unsigned wakes; /* since `stop` was asked last */
    } threads;

    /* fork.c */
    struct {
        uint64_t frames; /* that were made for this session, behind the Hello */
        bool under_way;  /* a thread is about to fork, and waits for the daemon: no other goes on meanwhile */
        bool alone;      /* a child has no connection in place of it: td_keep_alone() */
        td_error error;  /* why a child being made cannot have a connection */
    } fork;

    /* Numbers of tensors: ids.c. */
    struct {
        uint32_t next, nfree, free_capacity, nreleased;
        uint64_t released_bytes, untold_bytes; /* untold: of those whose RELEASE stands in no frame */
        uint32_t *free;
        uint32_t released[TD_RELEASE_BATCH];
    } ids;

    /* Call sites: site.c. */
    struct {
        td_site_slot *slots;
        uint16_t count;
        uint16_t unsent[256]; /* slots whose text goes with the next batch */
        unsigned nunsent;
    } sites;

    /* Shared memory: map.c, lease.c. */
    struct {
        td_mapping *mappings;
        int nmappings;
        td_lease *spares[TD_SPARE_LEASES]; /* fetched ahead */
        uint64_t last_lease;               /* bytes of the last one asked for */
    } memory;

    /* What the rooms above leave to be called; NULL: nothing. */
    struct {
        void (*forget)(td_client *c); /* with the client */
        void (*forked)(td_client *c); /* in a forked child */
    } above;

    /* ---- of the rooms above, each by its name */

    struct {
        td_array *spare; /* handles for reuse */
        td_memo *memos;
        td_seen_entry *seen;
        uint32_t seen_unknown, seen_grads; /* looks at storages without a number, at those of a .grad */
        uint64_t storages;                 /* numbers given so far */
        uint64_t freed_graph; /* of these, those up to here were there before a backward that keeps no graph */
        uint64_t handed_on;   /* of these, those up to here may have come back without their number */
        uint64_t drawn;       /* ops that took random numbers, since the seed */
        uint32_t grad_scope;  /* whose .grad is meant; 0: everybody's */
        bool own_grads;       /* ... this session's, whichever that is */
    } tensor;

    struct {
        uint32_t regions; /* checkpoints that there were */
        bool hooks;       /* it has made some: a backward may come to one */
        uint32_t next_hook, next_node;
        td_on_hook on_hook;
        void *hook_context;
        pthread_t teller; /* tells what its ops saved, ... */
        unsigned telling; /* ... so deep; others that want to tell wait for its end */
    } grad;

    struct {
        uint32_t next_queue;
    } share;

    struct {
        uint32_t next;
    } program;

    struct {
        uint32_t next;
    } model;
};

/* ---- errors */
td_error *td_thread_error(void); /* of this thread, cleared but for op and where: for the next failure */
/* Keep a copy as this thread's error; returns its code. */
int td_raise_error(const td_error *e, const char *op, const char *where);
/* An array was expected and NULL came: keeps an error that already stands. */
int td_raise_null(const char *op, const char *argument);

/* ---- its life */
td_client *td_client_new(void);
/* Lock, and check that the client is of this process and connected. On failure nothing is locked. */
int td_enter(td_client *c, const char *op);
void td_leave(td_client *c);
void td_lock(td_client *c);
void td_unlock(td_client *c);
/* Under the lock: wait until everything asked so far has ended; the first error that was not told yet. */
int td_outcome(td_client *c);
/* td_settle() in two halves, under the lock. */
typedef struct td_quiet_wait {
    td_reply_wait wait;
    td_client *of; /* NULL: nothing was to be waited for */
    uint64_t asked;
} td_quiet_wait;
void td_ask_quiet(td_client *c, td_quiet_wait *x);
int td_await_quiet(td_quiet_wait *x);
/* The connection is unusable from here on. */
void td_lose(td_client *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Would td_connect(NULL) find a daemon, or else fail otherwise than for want of one? */
bool td_daemon_runs(void);

/* ---- stepping aside: see aside.c */
enum { TD_LONG_COPY = 64 << 10 }; /* bytes; who copies so many steps aside */

/* ---- what each thread says of its ops: mode.c */
unsigned td_mode(void);        /* TD_RM_* of this thread, without the device */
unsigned td_mode_making(void); /* with the device of what is made of nothing */
static inline unsigned td_device_making(void)
{
    return td_mode_making() >> TD_RM_DEVICE;
}

/* ---- forks */
/* What this connection stands for is this process's alone: in a forked child it is lost. */
void td_keep_alone(td_client *c);
/* False in a process made by a raw clone, which ran no handlers. */
bool td_fork_intact(void);
/* How many forks lie between this process and the one that loaded the library. */
unsigned td_fork_generation(void);

static inline int64_t td_now_ms(void) /* signed: what is left may be less than nothing */
{
    return (int64_t)td_clock_ms();
}

/* Milliseconds as the wire has them: negative means no limit. */
static inline uint32_t td_timeout(int ms)
{
    return ms < 0 ? UINT32_MAX : (uint32_t)ms;
}

#endif
