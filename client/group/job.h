/* A job: one call of a collective, from its beginning until its result is where the program wants it.
 *
 * The jobs of a group are begun and ended in the order in which they were submitted. Nobody works on them but those who
 * call: whoever waits for one ends those before it as well, and begins those behind it as far as there is room. All
 * functions are called under the group's lock. */
#ifndef TENSORD_CLIENT_GROUP_JOB_H
#define TENSORD_CLIENT_GROUP_JOB_H

#include "client/group/internal.h"

struct td_group_job {
    td_group_call c;
    td_collective way;       /* how the bytes go: the call's kind, but while it asks for lengths */
    const unsigned char *in; /* NULL: this rank gives nothing */
    unsigned char *out;      /* NULL: it wants nothing */
    size_t element;          /* bytes */
    uint32_t columns;        /* 1, or a column for each rank: of what is given, the next rank's behind the last one's */
    uint64_t length;         /* bytes of a column; of the longest, where they differ */
    const td_group_buffer *buffer; /* where the bytes lie already; NULL: in slots */
    uint64_t offset;               /* there, of each input and of the result */
    td_error refused;        /* code 0: nothing was; else why this rank has no memory for it, which all are told */
    const uint64_t *lengths; /* bytes from rank r to rank s at [r * size + s]; NULL: all have `length` */
    /* Below: job.c's. */
    uint64_t step; /* bytes of each column in a piece */
    uint64_t pieces, begun, taken;
    td_group_job *next;
    int rc;
    td_error why;      /* unless rc is 0 */
    _Atomic bool over; /* rc and why are final; the group may be gone */
};

/* Behind all others; begins it as far as that goes without waiting. On failure it is not in the list. What it points to
 * stays as it is until the job is over. */
int td_group_job_submit(td_group_job *j);
/* Until it is over (j->rc says how). `by`: whose deadline counts. An error: stopped, or the daemon is lost, or (of a
 * call that yields) TD_GROUP_WANTED: somebody else wants the lock; the job stays. */
int td_group_job_wait(td_group_job *j, const td_group_call *by);
/* As far as it goes without waiting; is it over? */
bool td_group_job_poll(td_group_job *j);
/* It is left alone: rounds that it has begun come to their end, and their results are nobody's. If only a part of it
 * was begun, or another one stands behind it, the group is broken. */
void td_group_job_drop(td_group_job *j);
/* All that are not over fail: since the group `why` ("was left"), or (NULL) with what broke it. The last error stays.
 */
void td_group_jobs_end(td_group *g, const char *why);
/* Raises that no more calls can be made, and why. */
int td_group_refuse(const td_group *g);

#endif
