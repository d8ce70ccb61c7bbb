/* What a session has: ids and what they stand for, memory, descriptors. The door of this room.
 *
 * Invariant: whatever is here is charged to the session's account, and goes with it. */
#ifndef TENSORD_DAEMON_SESSION_OBJECTS_OBJECTS_H
#define TENSORD_DAEMON_SESSION_OBJECTS_OBJECTS_H

#include "daemon/session/stream/stream.h"
#include "daemon/tensor/device.h"

/* ---- objects.c */

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

/* ---- handed.c */

/* The text of the handle of an id and its tensor, which one more may take; NULL with `e`. */
const char *td_handed_give(td_session *s, td_tensor *t, const Td__Wire__Hand *q, td_error *e);
/* The handles of an id, or of some, fewer than *most, are let go of; true: of all. */
void td_handed_release(td_objects *o, uint32_t id);
bool td_handed_drop(td_objects *o, int *most);

/* ---- lack.c */

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
    s->memory.grow_failed.code = TD_OK; /* it had room without that segment */
    s->memory.lacks_since_ms = s->memory.ask_round = s->memory.asked_until_ms = 0;
    s->memory.lacks_again = 0;
}
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

/* ---- holders.c */

/* Who holds most there is added to the message; `of`: of a user's account only. */
void td_holders_add(td_sessions *all, unsigned device, const td_account *of, td_error *e);

/* ---- reclaim.c */

enum { TD_LACK_MS = 2000 }; /* so long at least others' pending work is hoped to free memory (lack.c) */
/* May others' idle memory help? Then it waits for that. */
bool td_session_reclaims(td_session *s, int rc, unsigned device);

/* ---- sent.c */

/* The segment, where it is of the session's heap. */
td_segment *td_sent_segment(const td_session *s, const td_sent *x);
/* The client has nothing of that mapped, and no descriptor. */
void td_sent_forget(td_session *s, td_sent *x);
/* Where a storage lies, as this client may see it. *fd is a descriptor to attach, or -1; one per call when `*fd` comes
 * in as -1 and NULL-able. */
void td_session_address(td_session *s, td_storage *st, Td__Wire__Address *a, int *fd);
/* Of memory of a device, with all that it takes to come to it; *h is what `a` points to. TD_E_PERMISSION: it is another
 * user's. */
int td_session_device_address(td_session *s, const td_storage *st, td_device_handle *h, Td__Wire__Address *a, int *fd,
                              td_error *e);
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

#endif
