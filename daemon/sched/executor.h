/* What runs the calls of a device, as the scheduler sees it; and what an executor may see, and do, of a task. Whoever
 * writes a device's executor includes this header and none of the room's own.
 *
 * The pool of workers is an executor: whatever may run, runs there at once, in no order. A device has streams: what is
 * issued to one runs in the order of issue, and sees what those before it wrote. So between tasks of a stream there is
 * nothing to wait for, and a stream never drains between two of them.
 *
 * A task goes through issue() and, unless a failure is known before, go(); then, in the order of its stream and on any
 * thread, td_task_begin(), td_task_phase() and td_task_done(). Between go() and td_task_done() it is the executor's.
 * A stream begins a task when it likes, also many before the first of them has ended: whoever ran behind a failure is
 * found out by td_task_done(), and what it wrote is lost. So a failure costs more there, and it never goes unseen. */
#ifndef TENSORD_DAEMON_SCHED_EXECUTOR_H
#define TENSORD_DAEMON_SCHED_EXECUTOR_H

#include "daemon/sched/sched.h"

typedef struct td_task td_task;
typedef struct td_chain td_chain; /* tasks that may run now, for the pool */

typedef struct td_executor td_executor;
struct td_executor {
    td_sched *s; /* set by td_sched_new */
    /* Have by now what issue() of one more task takes, so that it cannot fail (loop). The call is refused with what
     * this says. NULL: it takes nothing. */
    int (*reserve)(td_executor *x, td_error *e);
    /* Take a call's task to its place (loop); it is not to run yet. Returns the number of its stream, or 0: it is in no
     * order. */
    unsigned (*issue)(td_executor *x, td_task *t);
    /* Let t, which was issued and may not go yet, run after `from` of another stream of this executor, by an event:
     * `from` was begun before t is, and td_task_done() of `from` comes before that of t (loop). False: it cannot, `t`
     * waits for its end as everybody does. NULL: it never can. */
    bool (*after)(td_executor *x, td_task *t, const td_task *from);
    /* What it waits for outside of its stream has ended. Take it, or put it on *ready, which the caller gives to the
     * pool. Any thread. */
    void (*go)(td_executor *x, td_task *t, td_chain *ready);
    /* Begin nothing more, and return when nothing runs. False: that takes too long. May be called again. */
    bool (*stop)(td_executor *x);
};

/* The number of the flow that it belongs to; no two flows have had the same. */
uint64_t td_task_flow(const td_task *t);
/* What issue() returned for it. */
unsigned td_task_stream(const td_task *t);
/* A number that the executor keeps with it, as its place in its stream. */
uint64_t td_task_place(const td_task *t);
void td_task_set_place(td_task *t, uint64_t place);
/* The bytes that it reads and writes: how many intervals, and one of them. */
int td_task_naccesses(const td_task *t);
td_access td_task_access(const td_task *t, int i);

/* When those before it in its stream were begun, or have ended: what it is to run, or NULL: nothing, it was dropped or
 * reads what is known to be lost. */
td_call *td_task_begin(td_task *t);
/* Instead of running what was begun: the device has failed. What it writes is lost. */
void td_task_device_failed(td_task *t);
/* It runs this phase now, in so many chunks. */
void td_task_phase(td_task *t, int phase, int64_t chunks);
/* It has run, or is not to be run; until which phase, td_task_phase() said. Any thread, in the order of its stream:
 * what was lost before it there is known, and so is what it has lost by that. The task is gone after this. */
void td_task_done(td_task *t);

#endif
