/* Jobs: long work in bounded steps.
 *
 * A job names its issuer, for whom its ops run, and its account, which pays for them. A session steps its own jobs in
 * its turns. Work that belongs to no session (of a group, of a model) belongs to a td_owner: that has an issuer, an
 * account and a flow of the scheduler of its own, does its jobs one after the other, and is given a turn by the loop as
 * a process is. Invariant: an owner is among the service's ready ones exactly while its next step may be taken. */
#ifndef TENSORD_DAEMON_SERVICE_JOB_H
#define TENSORD_DAEMON_SERVICE_JOB_H

#include "daemon/sched/sched.h"
#include "daemon/service/grow.h"

#define TD_AGAIN (-4) /* of a step: there is more of it */

typedef struct td_job td_job;
typedef struct td_job_kind {
    const char *name;
    /* Some of it. TD_OK: it is over, and gone; TD_AGAIN: there is more. An owner's may say TD_WAIT: not before
     * td_owner_ready(); and an error: it has failed, and is let go of. */
    int (*step)(td_job *j, td_error *e);
    /* It is not wanted any more: let go of about `most` of it; true when it is gone. Its issuer may be gone already. */
    bool (*drop)(td_job *j, int most);
    void (*left)(td_job *j); /* before that: nobody may point there any more; NULL: nobody does */
    /* Has it a backward that must still read this storage? As td_backward_reads; NULL: it never has. */
    bool (*reads)(const td_job *j, const td_storage *st, uint32_t *most);
    int cost;     /* of a step, in records */
    bool endless; /* perhaps: when its client has gone it may go on for a while only */
    bool alone;   /* one at a time: others wait for its end, so it waits for nothing of its own */
} td_job_kind;
struct td_job {
    const td_job_kind *kind;
    td_job *next; /* of a list of whoever owns it */
    td_issuer *issuer;
    td_account *account;
};

/* ---- owners that are no session */

typedef struct td_owner td_owner;
struct td_owner {
    td_service *service;
    td_issuer issuer; /* td_owner_of() finds the owner by it */
    td_flow *flow;
    td_account *account;
    void (*failed)(td_owner *o, const td_job_kind *kind,
                   const td_error *why); /* of a job; NULL: nobody wants to know */
    void *arg;
    uint64_t steps; /* that its jobs have taken */
    /* the rest is job.c's */
    td_job *first, **last; /* to be done; ... */
    td_job *dropping;      /* ... that failed, or that it left, and are let go of in parts */
    td_owner *next, **at;  /* of all; what points here */
    td_owner *next_ready;
    td_waiter *tasks; /* that it waits for */
    td_growth growth; /* memory that is made for it */
    bool ready, waits, throttled, ended, drained;
    uint32_t refs; /* helpers at work: what still points here */
};

/* What a service keeps of them. */
typedef struct td_owners {
    td_owner *all, *ready, **last_ready;
} td_owners;

/* `payer`: the account above its own, of a user or of the daemon. It has no jobs yet, and results in service memory. */
int td_owner_new(td_owner **out, td_service *s, td_account *payer, const char *name, td_error *e);
/* Its jobs are not wanted any more: they are let go of in parts, and it goes with its last task. */
void td_owner_end(td_owner *o);
static inline td_owner *td_owner_of(td_issuer *who)
{
    return (td_owner *)(void *)((char *)who - offsetof(td_owner, issuer));
}
/* A job of this kind, and of this owner: to begin a struct with. */
td_job td_owner_job(td_owner *o, const td_job_kind *kind);
/* It comes behind those that it has. */
void td_owner_give(td_owner *o, td_job *j);
/* What it waits for has come. Called from within other calls, so it only takes note. */
void td_owner_ready(td_owner *o);
/* What a step returns: it goes on when everything pending on these bytes has ended. TD_AGAIN: nothing is. */
int td_owner_after(td_owner *o, int n, const td_access *what);
/* A step lacks memory: td_need_may_pass(rc). What it returns: TD_WAIT when it is worth trying again later, or the
 * error. */
int td_owner_lacks(td_owner *o, int rc, td_need *need, td_error *e);

/* A turn for each that is ready, as they came: steps worth about `most` records, and not longer than a turn's time. Is
 * one ready still? */
bool td_owners_run(td_service *s, int most);
/* After td_sched_collect: those that had too much under way go on. */
void td_owners_collected(td_service *s);
/* At the end of the service. */
void td_owners_drop(td_service *s);

#endif
