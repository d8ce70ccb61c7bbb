/* What the files of this room share: the task, the books that the loop keeps about storages, and the pool.
 *
 * Who may touch what is the invariant of the room. A field marked (loop) belongs to the loop thread, (lock) to whoever
 * holds the pool's lock, (owner) to the one thread that a task was handed to. All else that two threads touch is
 * atomic. */
#ifndef TENSORD_DAEMON_SCHED_INTERNAL_H
#define TENSORD_DAEMON_SCHED_INTERNAL_H

#include "daemon/sched/executor.h"
#include "proto/base/clock.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

typedef enum td_task_kind {
    TD_TASK_CALL,  /* runs a kernel */
    TD_TASK_JOIN,  /* runs nothing: stands for several tasks that it waits for */
    TD_TASK_WAITER /* runs a callback on the loop, and keeps its place in the order until that returns */
} td_task_kind;

/* Whose a call is: the loop's until a worker begins it. So the loop can take it back before, and never after. */
enum { TD_TASK_QUEUED, TD_TASK_BEGUN, TD_TASK_DROPPED };

/* "`to` waits for `from`". Owned by `to`, hung into the list of `from`. */
typedef struct td_task_edge {
    struct td_task_edge *next;
    td_task *from, *to;
    bool ordered; /* their executor runs `to` after `from`: it holds nothing up */
    uint8_t data; /* TD_DATA_*: what of `from` is left to `to`, along which a failure travels */
} td_task_edge;

/* It reads what `from` wrote; and it writes to that storage itself, or takes over the entry that says it is lost. */
enum { TD_DATA_READ = 1, TD_DATA_KEPT = 2 };

#define TD_CLOSED ((td_task_edge *)1) /* end of a list of successors that takes no more */

enum { TD_REACH_READ = 1, TD_REACH_WRITE = 2, TD_REACH_DENSE = 4, TD_REACH_WHOLE = 8, TD_REACH_MADE = 16 };

/* Bytes of one storage that a task touches. DENSE: each byte of the interval is written; WHOLE: and it is all of the
 * storage, of which the task reads nothing. MADE: the call made the storage, nobody else has seen it. */
typedef struct td_reach {
    td_storage *storage;
    uint64_t lo, hi;
    int16_t slot; /* where it stands in the storage's hazards, or -1 */
    uint8_t flags;
} td_reach;

#define TD_TASK_REACHES 8
#define TD_TASK_EDGES 8

struct td_chain {
    td_task *first, *last;
};

struct td_task {
    _Atomic(td_task_edge *) successors;
    _Atomic int32_t waits; /* tasks that it waits for; one more while it is being issued */
    _Atomic bool bad;      /* what it wrote is lost: those who read it are not run */
    uint8_t kind;
    bool given;      /* a call that made no storage: when it is not run, all is as it was */
    uint64_t number; /* of its flow; 0: of no call */
    _Atomic uint64_t
        unwritten; /* it wrote nothing, and should have: those of the flow of this number who read there are
                    * not run, for their client takes it for written; all others are. 0: it is not so */
    td_task *link; /* in the one queue it is in: ready, inbox or ends */

    /* While it runs. */
    td_call *call;
    td_flow *flow;
    _Atomic uint8_t state; /* TD_TASK_QUEUED, ... */
    _Atomic int64_t next_chunk;
    _Atomic int32_t users; /* threads at its chunks; one more while it is listed as ready */
    bool listed;           /* (lock) */
    bool open;             /* (owner) it was begun: its chunks may be claimed */
    bool ran;              /* (owner) td_task_begin() gave its call out */
    bool astray;           /* (owner) it ran, and read what turned out to be lost */
    uint8_t phase;         /* (owner) constant while it has users */
    int64_t chunks, grain; /* (owner) of this phase; chunks that are claimed at once */
    double chunk_ns;
    size_t work_size;
    td_executor *executor; /* of a call */
    unsigned stream;       /* of it; 0: in no order */
    uint64_t place;        /* in its stream; the executor's */

    /* (loop) */
    uint32_t refs; /* until it is collected; one for each edge that may ask for the cause */
    bool collected;
    bool keeps; /* its reaches hold their storages: it has no call whose tensors do */
    uint64_t seq, cause_seq;
    td_cause *cause;
    td_task_edge *late; /* those who came after its end, and wait until it is collected */
    td_waiter *waiter;
    td_task *prev, *next;           /* all pending tasks, in the order of issue */
    td_task *flow_prev, *flow_next; /* the same of its flow */
    uint64_t asked_ns;              /* its estimate, as its flow counts it */
    uint64_t mark;                  /* seq of the task that is being connected, and the edge they share */
    int mark_edge;
    int nreaches, nedges, room_edges;
    td_reach *reaches;
    td_task_edge *edges;
    td_reach reaches_inline[TD_TASK_REACHES];
    td_task_edge edges_inline[TD_TASK_EDGES];
};

static inline void td_chain_add(td_chain *c, td_task *t)
{
    t->link = NULL;
    if (c->last) c->last->link = t;
    else c->first = t;
    c->last = t;
}
static inline td_task *td_chain_take(td_chain *c)
{
    td_task *t = c->first;
    if (t && !(c->first = t->link)) c->last = NULL;
    return t;
}

/* ---- tasks (task.c) */

/* Spare tasks so that the next n td_task_new cannot fail. (loop) */
bool td_task_reserve(td_sched *s, int n);
td_task *td_task_new(td_sched *s, td_task_kind kind);
void td_task_unref(td_sched *s, td_task *t);
bool td_task_room_for_reaches(td_task *t, int n);
/* Note that `t` must wait for `from`; nothing is visible to others until td_task_connect. False: out of memory. */
bool td_task_depend(td_task *t, td_task *from, uint8_t data);
/* Make the noted edges true and drop the guard: from here on others may run and end it. */
void td_task_connect(td_sched *s, td_task *t, td_chain *ready);
/* It has ended: close its list, push it to the ends, release the successors. Those that may run now are added to
 * *ready. The task is gone after this (but for the loop, until it collects it). True: the loop must be told. */
bool td_task_end(td_sched *s, td_task *t, td_chain *ready);
/* The callback of a waiter has returned: release who waited for it. (loop) */
void td_task_end_waiter(td_sched *s, td_task *t, td_chain *ready);
/* Release those who came late, when `t` is collected. (loop) */
void td_task_release_late(td_sched *s, td_task *t, td_chain *ready);

static inline bool td_task_closed(const td_task *t)
{
    return atomic_load_explicit(&t->successors, memory_order_acquire) == TD_CLOSED;
}
static inline bool td_task_bad(const td_task *t)
{
    return atomic_load_explicit(&t->bad, memory_order_relaxed);
}
static inline uint64_t td_task_unwritten(const td_task *t)
{
    return atomic_load_explicit(&t->unwritten, memory_order_relaxed);
}
/* It failed, or was not run. */
static inline bool td_task_failed(const td_task *t)
{
    return td_task_bad(t) || td_task_unwritten(t);
}
/* Ended, and nothing that comes later has to know. */
static inline bool td_task_over(const td_task *t)
{
    return td_task_closed(t) && !td_task_failed(t);
}
/* Is `to`, which depends on it in this way, kept from running by a failure? */
static inline bool td_task_infects(const td_task *to, uint8_t data, bool bad, uint64_t unwritten)
{
    return data && (bad || (unwritten && (to->kind == TD_TASK_JOIN || to->number == unwritten)));
}

/* ---- hazards (hazard.c), all (loop) */

typedef struct td_hazards td_hazards;
extern const uint32_t td_hazards_size; /* in bytes */
/* Spares for a task of these reaches, so that entering it cannot fail. */
bool td_hazards_reserve(td_sched *s, const td_reach *reach, int n);
/* Must an access wait for something? */
bool td_hazards_conflict(const td_reach *r);
/* The same, but what has ended and was not collected counts too. */
bool td_hazards_pending(const td_reach *r);
/* Note what `t` has to wait for because of its reaches. False: out of memory. */
bool td_hazards_gather(td_task *t);
/* Enter its reaches as pending (td_hazards_reserve came before). */
void td_hazards_enter(td_sched *s, td_task *t, td_chain *ready);
void td_hazards_retire(td_sched *s, td_task *t);
/* Was the storage overwritten as a whole by a task issued after `seq`? */
bool td_hazards_healed(const td_storage *st, uint64_t seq);
void td_hazards_free_spares(td_sched *s);

/* ---- the pool (pool.c, queue.c, idle.c, buffer.c) */

typedef struct td_buffer {
    unsigned char *data;
    size_t size;
} td_buffer;
/* At least `size` bytes, 64-byte aligned; contents are lost when it grows. NULL: out of memory. */
void *td_buffer_fit(td_buffer *b, size_t size);
void td_buffer_trim(td_buffer *b, size_t keep);
void td_buffer_shed(td_buffer *b); /* to the system, not only to malloc */
#define TD_KEEP_SCRATCH                                                                                                \
    ((size_t)16 << 20) /* of a worker, and of the loop: more goes back with the call that wanted it, and this too when \
                        * it has been quiet for a while (td_sched_settle) */

#define TD_WORK_SPARES 16
/* Work memory of tasks, recycled warm. */
typedef struct td_work {
    pthread_mutex_t lock;
    td_buffer spare[TD_WORK_SPARES];
    int count;
    size_t bytes, keep;
} td_work;
td_buffer td_work_take(td_work *w, size_t size);
void td_work_give(td_work *w, td_buffer b);
void td_work_shed(td_work *w); /* all that is kept */

#define TD_WAYS 4 /* how many chunks may have given way to each other on one thread */

typedef struct td_worker {
    _Alignas(64) td_sched *s;
    pthread_t thread;
    int index;
    bool searching;         /* counted in pool.searching */
    _Atomic int cpu;        /* the processor that it works on; -1: it does not work */
    _Atomic uint32_t awake; /* futex word */
    pid_t tid;
    cpu_set_t mask; /* (who wakes it, then itself) where it may run, ... */
    bool kept_off;  /* ... while it is kept off one processor */
    td_buffer scratch;
    int64_t since;         /* when it began what it does */
    int64_t charged;       /* estimate for that, charged to the flow */
    double streak_ns;      /* run without looking at the queues */
    bool untold;           /* the loop has to be told of ends, ... */
    double untold_ns;      /* ... and this was run meanwhile */
    td_flow *at[TD_WAYS];  /* whose chunks it runs, the one that gave way to the others first */
    double at_ns[TD_WAYS]; /* what each is thought to take */
    int ways;
    int64_t chunk_since; /* when the last of them began */
    int64_t until;       /* no claim after this; 0: as long as it may */
    double most_ns;      /* it takes no chunk that is thought to take longer; 0: any */
    uint32_t settled;    /* pool.settled, when it last gave its scratch back */
    _Atomic size_t kept; /* bytes of its scratch, while it sleeps */
    _Atomic uint64_t chunks, tasks, busy_ns;
} td_worker;

#define TD_MAX_WORKERS 256

/* What gets workers' time, among others that do. */
typedef struct td_due {
    _Atomic int64_t vtime;      /* ns of estimated work that it was given */
    struct td_due *next, *prev; /* (lock) */
} td_due;

typedef struct td_dues {
    td_due *first;
    int64_t clock; /* virtual time */
} td_dues;         /* (lock) */

struct td_share {
    td_due due;
    td_dues flows; /* that have tasks which may run */
    uint32_t refs; /* (loop) */
};

typedef struct td_pool {
    pthread_mutex_t lock;                  /* the loop takes it only where it helps */
    td_dues shares;                        /* (lock) with flows that have tasks which may run */
    _Alignas(64) _Atomic(td_task *) inbox; /* became ready, newest first */
    _Atomic int nready;                    /* flows with tasks that may run */
    _Atomic int nlasting;                  /* of these, flows whose first task is lasting */
    _Atomic int away;                      /* workers at lasting tasks */
    _Alignas(64) _Atomic uint64_t asleep[TD_MAX_WORKERS / 64];
    _Atomic int searching;   /* workers that look for work, or were woken to */
    _Atomic int64_t looked;  /* when one of them did last, or will have come */
    _Atomic int64_t wake_ns; /* what waking one takes whoever does it */
    _Atomic int64_t load_ns; /* estimate of what is ready or runs */
    _Atomic bool stop;
    _Atomic uint32_t running; /* workers; a futex word */
    _Atomic uint32_t settled; /* how often workers were asked for their scratch */
    td_work work;
    int nworkers, started;
    td_worker *workers;
    td_worker helper; /* the loop, while it has nothing else to do */
    td_executor executor;
} td_pool;

int td_pool_init(td_pool *p, td_sched *s, int workers, td_error *e);
/* Ends the threads after the chunks they are at. False: they take too long. */
bool td_pool_stop(td_pool *p);
void td_pool_deinit(td_pool *p);
/* See td_sched_help(). (loop) */
bool td_pool_help(td_pool *p);
uint64_t td_pool_worked_ns(const td_pool *p);
/* See td_sched_settle(). (loop) */
bool td_pool_settle(td_pool *p);
size_t td_pool_kept(td_pool *p);
/* Tasks that may run now. `worker`: from one, or from a loop that helps. */
void td_pool_post(td_pool *p, td_chain *ready, bool worker);
/* A task's run is over: its work memory goes back, and who comes next is to know how it went. (owner) */
void td_pool_leave(td_pool *p, td_task *t);

/* queue.c */
typedef struct td_claim {
    int64_t first, count; /* chunks of the open phase */
    bool last;            /* nothing is left of it */
    bool away;            /* the worker is one of pool.away */
} td_claim;
/* So much was done for it. */
void td_flow_charge(td_flow *f, int64_t ns);
/* Claim chunks of an open task; its flow is charged, and *charged counts it. False: all are given out. */
bool td_task_claim(td_task *t, td_claim *c, int64_t *charged);
/* A task of the flow that was given least, with a claim (of nothing when it is not begun: it is the picker's own).
 * Not of those that the worker is at already. NULL: none. */
td_task *td_pool_pick(td_worker *w, td_claim *c);
/* Let others join the phase that its owner has opened. */
void td_pool_list(td_pool *p, td_task *t);
/* What a chunk of it is thought to take: chunk_ns, of a task that may not be open yet. */
double td_task_chunk_ns(const td_task *t);
void td_pool_unlist(td_pool *p, td_task *t);

/* Lasting: its chunks know no rest and take long, so of these one worker at least is kept free. */
static inline bool td_task_is_lasting(const td_task *t)
{
    return t->kind == TD_TASK_CALL && t->call->k.lasting;
}
/* Are so many workers at lasting tasks that none may go to another? */
static inline bool td_pool_all_away(td_pool *p)
{
    return atomic_load(&p->away) >= (p->nworkers > 2 ? p->nworkers - 1 : 1);
}
/* The worker has left a lasting task. */
void td_pool_back(td_pool *p, td_claim *c);
/* Flows with tasks that a worker may go to. */
static inline int td_pool_ready(td_pool *p)
{
    int n = atomic_load(&p->nready);
    return n > 0 && td_pool_all_away(p) ? n - atomic_load(&p->nlasting) : n;
}

/* idle.c */
static inline bool td_pool_visible(td_pool *p)
{
    return atomic_load(&p->inbox) || td_pool_ready(p) > 0;
}
/* Wake a sleeper if there is more to do than those awake will soon have done. `worker`: the caller is one of these, and
 * keeps it off its processor. */
void td_pool_wake_if_needed(td_pool *p, bool worker);
void td_pool_wake_all(td_pool *p);
/* Is a worker asleep, or looking for work? */
bool td_pool_has_idle(td_pool *p);
/* Does a worker work on this thread's processor? */
bool td_pool_is_here(const td_pool *p);
/* Nothing to do: look for a while, then sleep. */
void td_worker_idle(td_worker *w);
void td_worker_found(td_worker *w);
static inline int64_t td_now_ns(void) /* signed: what is left may be less than nothing */
{
    return (int64_t)td_clock_ns();
}
void td_futex_wait(_Atomic uint32_t *word, uint32_t value);
void td_futex_wait_for(_Atomic uint32_t *word, uint32_t value, int64_t ns);
void td_futex_wake(_Atomic uint32_t *word);

/* ---- flows and waiters (flow.c) */

struct td_flow {
    td_due due;
    td_share *share; /* its own, or one that several flows have */
    td_share own;
    td_sched *s;
    uint32_t refs;       /* (loop) the owner, and pending tasks */
    td_account *account; /* (loop) pays for pending tasks; a reference; NULL: nobody does */
    uint64_t pending, pending_bytes, pending_ns, ended;
    td_task *oldest, *newest; /* (loop) pending, in the order of issue */
    uint64_t number;          /* no two flows have had the same */
    td_task *withering;       /* (loop) the next that is looked at, towards the oldest; NULL: none */
    bool withered;            /* (loop) something was dropped or stopped since the newest was looked at */
    td_waiter *first_waiter, *last_waiter;
    _Atomic bool ready;   /* (lock to change) in its share's list */
    _Atomic bool lasting; /* (lock to change) so is the first of its tasks */
    td_chain tasks;       /* (lock) */
};

static inline td_flow *td_flow_of(td_due *d)
{
    return (td_flow *)(void *)d;
}
static inline td_share *td_share_of(td_due *d)
{
    return (td_share *)(void *)d;
}

struct td_waiter {
    void (*then)(void *arg);
    void *arg;
    td_task *task; /* of td_sched_after */
    td_flow *flow; /* of td_sched_after_flow */
    uint64_t seq;
    td_waiter *prev, *next;
};

void td_flow_ref(td_flow *f);
void td_flow_unref(td_flow *f);
void td_flow_add(td_flow *f, td_task *t);
void td_flow_remove(td_flow *f, td_task *t);
/* Call those whose tasks have all ended. */
void td_flow_fire(td_flow *f);

/* Let the task's reaches hold their storages, in a way that makes nobody want what is in them. */
void td_task_keep(td_task *t);
void td_task_unkeep(td_task *t);

/* ---- the scheduler (sched.c, collect.c) */

struct td_sched {
    td_sched_options options;
    td_pool pool;
    _Alignas(64) _Atomic(td_task *) ends; /* ended, newest first; any thread pushes, the loop takes all */
    _Atomic uint32_t drain_word;
    _Atomic bool draining;

    /* (loop) */
    _Alignas(64) td_chain ended; /* taken from `ends`, oldest first */
    td_buffer scratch, work;     /* of calls that run here */
    uint64_t seq, pending, run_inline, inline_chunks, flows;
    bool stopping;
    td_task *oldest, *newest;
    td_task *spare_tasks;
    int nspare_tasks;
    td_hazards *spare_hazards;
    int nspare_hazards;
    td_flow *flow;       /* of calls whose issuer has none */
    td_reach *reach;     /* of the call that is being issued */
    td_cause *no_memory; /* stands for a cause that could not be kept */
};

/* Push an ended task; true when the loop has to be told. */
bool td_ends_push(td_sched *s, td_task *t);
void td_ends_tell(td_sched *s);
/* Bytes that a call touches, into s->reach; returns how many. */
int td_call_reaches(td_sched *s, const td_call *c);
/* Does it make its outputs itself? */
static inline bool td_call_makes(const td_call *c)
{
    return !(c->flags & TD_CF_OUT) && c->nout > 0;
}
/* Of a kernel that failed: had it begun to write in this phase (-1: it never came to one)? */
static inline bool td_call_wrote(const td_call *c, int phase)
{
    return phase >= c->k.clean_phases;
}
static inline bool td_task_wrote(const td_task *t)
{
    return td_call_wrote(t->call, t->chunks ? t->phase : -1);
}
/* Is what this reach writes lost? What was there before only is when the kernel may have begun to write. */
static inline bool td_reach_lost(const td_reach *r, bool wrote)
{
    return r->flags & TD_REACH_WRITE && (wrote || r->flags & TD_REACH_MADE);
}
void td_sched_link(td_sched *s, td_task *t);
void td_sched_unlink(td_sched *s, td_task *t);
/* The failure of a call as the cause of what depends on it; a new reference. */
td_cause *td_call_failure(td_sched *s, td_call *c);
/* The call is over: tell its owner, then free it. */
void td_call_done(td_call *c);
/* Tell everything that is pending to stop. */
void td_sched_halt(td_sched *s);
/* Drop everything that is pending as cancelled; the pool has stopped. */
void td_sched_abandon(td_sched *s);

#endif
