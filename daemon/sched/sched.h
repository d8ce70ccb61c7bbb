/* The scheduler: prepared calls become tasks, run inline or on one pool of workers, in an order that keeps every storage's
 * history true. The one door of this room.
 *
 * Everything here is called on the loop thread, which issues tasks in the order of the whole daemon. A storage knows the pending
 * writer and readers of its byte intervals; a task waits for those it conflicts with (read after write, write after read,
 * write after write). A task's list of successors is closed by compare-and-swap when it ends; the worker that ends it
 * goes straight on with what it released. Workers see kernels (raw pointers) only; ends of calls come back through one queue. */
#ifndef TENSORD_DAEMON_SCHED_SCHED_H
#define TENSORD_DAEMON_SCHED_SCHED_H

#include "daemon/ops/ops.h"

typedef struct td_sched td_sched;
typedef struct td_flow td_flow; /* one session's tasks: served in virtual time, by the workers' time that it was given */
typedef struct td_share td_share; /* what the sessions of one process get together, by the same */

#define TD_INLINE_NS 20000 /* what the daemon sets for inline_ns */

typedef struct td_sched_options {
    int workers;              /* threads of the pool; 0: run everything inline (tests) */
    uint64_t keep_bytes;      /* of work memory, warm for the next; 0: as much as is usual */
    bool helped;              /* the loop calls td_sched_help(), or td_sched_urge(), each time before it sleeps */
    double inline_ns;         /* calls estimated below this run on the loop thread when nothing they need is pending */
    void (*wake)(void *arg);  /* called from any thread: ends are waiting, run td_sched_collect on the loop */
    void *arg;
} td_sched_options;

/* What runs the calls of a device comes from the loop's table (td_device_entry.executor), and serves this scheduler. */
int td_sched_new(td_sched **out, const td_sched_options *o, td_error *e);
/* The end of all work: stops running chunks, cancels what was queued: owners are told (TD_E_CANCELLED), waiters called.
 * What is submitted from then on is refused. False: some worker has not come back in time, and may touch what it was
 * given: free nothing of that, end the process. */
bool td_sched_stop(td_sched *s);
/* Stops it first. */
void td_sched_free(td_sched *s);

int td_flow_new(td_flow **out, td_sched *s, td_error *e);
/* NULL without memory. A flow has a share of its own until it joins one, before its first task, and keeps it. */
td_share *td_share_new(void);
void td_share_unref(td_share *s);
void td_flow_join(td_flow *f, td_share *s);
/* Who pays for the records of its pending tasks, as objects; NULL, as at first: nobody. Before its first task. */
void td_flow_charge_to(td_flow *f, td_account *account);
/* Its tasks run on; the flow goes with the last of them. */
void td_flow_free(td_flow *f);
/* Its session has ended: drop its tasks whose results nobody can have any more, and stop those that run; the newest
 * first, at most *most at once, which counts down. True: go on soon, there is more of it. Once in a while look again, as others let go. */
bool td_flow_wither(td_flow *f, int *most);
/* What a flow has in flight, for back-pressure: tasks, bytes of the storages that they are going to fill, and what those behind the oldest are thought
 * to take one thread. What runs on a device takes that as long as it takes the device, times the threads that could have worked meanwhile. */
uint64_t td_flow_pending(const td_flow *f);
uint64_t td_flow_pending_bytes(const td_flow *f);
uint64_t td_flow_waiting_ns(const td_flow *f);
/* How many of its tasks have ended so far. */
uint64_t td_flow_ended(const td_flow *f);

/* Take over a prepared call. Runs it before returning when it is small (or TD_CF_INLINE_ONLY) and nothing it needs is pending; otherwise holds its tensors
 * and queues it. c->finished runs on the loop thread in either case, then the call is freed. A call with c->cause set, or whose read inputs are
 * poisoned (or become so by a failed predecessor), is not run: c->cause is the first cause, and the outputs that it made are poisoned with it.
 * Existing storage is poisoned by a kernel that failed when it already wrote there, and by nothing else. Where nothing was written, others find what
 * was there before; but those of the same flow that were queued behind, to read what should have been written, are not run: their client does not know yet. */
void td_sched_submit(td_sched *s, td_call *c);

/* Is anything pending that reading (writing) these bytes of the storage must wait for? What has ended but was not
 * collected counts: its failure is not known yet. */
bool td_sched_pending(const td_storage *st, uint64_t lo, uint64_t hi, bool write);

/* In c->finished: has a later task overwritten all of it meanwhile? */
bool td_sched_overwritten(const td_call *c, const td_storage *st);

/* How many tasks were issued so far. And in c->finished: was this one among them? Not when it was run, or refused, at once. */
uint64_t td_sched_issued(const td_sched *s);
bool td_sched_issued_until(const td_call *c, uint64_t number);
/* Is one of the first `number` tasks pending? */
bool td_sched_pending_until(const td_sched *s, uint64_t number);

/* When everything now pending on these storages (for reading, or for writing) has ended, call `then` on the loop thread; right away, before
 * returning, when nothing is. Returns a handle to cancel with, or NULL when it was called already.
 * The callback keeps its place in the order: what is issued after this call and conflicts with it runs after `then` has
 * returned (but for what `then` itself issues). */
typedef struct td_waiter td_waiter;
typedef struct td_access {
    td_storage *storage;
    uint64_t lo, hi; /* bytes */
    bool write;
} td_access;
td_waiter *td_sched_after(td_sched *s, int n, const td_access *what, void (*then)(void *arg), void *arg);
void td_waiter_cancel(td_waiter *w);
/* When every task of the flow issued so far has ended. */
td_waiter *td_sched_after_flow(td_sched *s, td_flow *f, void (*then)(void *arg), void *arg);

/* Finish what has ended: at most `most` calls; true when more are waiting. */
bool td_sched_collect(td_sched *s, int most);
/* For a loop that has nothing else to do: work for some 100 us at most on what is ready, beside the workers, unless all of these are at
 * work already. False: there was nothing for it. What ended meanwhile is to be collected. */
bool td_sched_help(td_sched *s);
/* The loop has other things to do: see that somebody is awake for what is ready. */
void td_sched_urge(td_sched *s);
/* How long the workers have had a processor so far, all together. */
uint64_t td_sched_worked_ns(const td_sched *s);
/* Does a worker work on the processor that the loop is on? Then giving way takes long. */
bool td_sched_is_here(const td_sched *s);
/* Block until every task has ended and was collected (tests, shutdown). */
void td_sched_drain(td_sched *s);

/* Is no task pending? Costs nothing, for who asks at every turn. */
bool td_sched_idle(const td_sched *s);

/* At a quiet moment: what is kept warm for kernels goes back to the system. True: sleeping workers were asked for theirs,
 * and give it back soon. */
bool td_sched_settle(td_sched *s);
/* Bytes of it, without what workers keep that are awake. */
size_t td_sched_kept(td_sched *s);

typedef struct td_sched_stats {
    uint64_t pending, run_inline, run_pool, chunks, workers;
    double busy_ns; /* all workers together, and the loop where it helped */
} td_sched_stats;
void td_sched_get_stats(const td_sched *s, td_sched_stats *out);

#endif
