/* The stream of a session: what comes, what it waits for, and what goes back. The door of this room.
 *
 * Frames become records and requests, in order. A wait suspends the stream, or lies beside it: a request that others
 * answer (td_held), a reply that tasks will make possible (td_promise). They are two structs: a held request is charged
 * and counted, can be called off, and is answered in the session's turns, in parts, while a promise stays with the
 * scheduler until its tasks have ended, so it outlives its session, and is kept at once. One struct would have the
 * fields of both, and each function of it would first ask which of the two it has. Invariant: nothing here knows what a
 * record or a request does; what the stream waits for comes with its kind (td_wait_kind). */
#ifndef TENSORD_DAEMON_SESSION_STREAM_STREAM_H
#define TENSORD_DAEMON_SESSION_STREAM_STREAM_H

#include "daemon/session/state.h"

/* ---- frame.c */

/* The message that a frame has brought; NULL: none that makes sense. */
void *td_frame_unpack(td_arena *arena, const td_frame *f);
/* It is to be worked off. TD_AGAIN: not all of it has been looked at. */
int td_frame_take(td_session *s, const td_frame *f, void *message, size_t *site, td_error *e);
void td_session_frame_over(td_session *s); /* the last of it is done */

/* ---- unpack.c */

enum { TD_UNPACK_AT_ONCE = 2 }; /* helpers that unpack */
/* By a helper, which takes f->block; or the rest of what is unpacked, in turns. It has come; what was has gone. */
int td_unpack_aside(td_session *s, td_frame *f, td_error *e);
int td_unpack_go_on(td_session *s, const td_frame *f, void *message, size_t site, td_error *e);
void td_unpack_came(td_session *s);
void td_unpack_gone(td_session *s);

/* ---- sites.c */

enum { TD_SITES_AT_ONCE = 128 };
/* A batch brings a text. */
int td_site_set(td_session *s, const Td__Wire__CallSite *c, td_error *e);
/* The record that is next was sent from there. */
void td_session_site(td_session *s, uint32_t site);

/* ---- descriptor.c */

/* Take the descriptor that came with a call; let go of one that nobody took. */
void td_import_receive(td_session *s, td_frame *f);
void td_import_drop(td_session *s);
void td_import_admit(td_session *s, bool on); /* may another one come in now? */
/* Done aside: it may hang, as whatever a client's descriptor is may. */
void td_session_aside(td_session *s, void (*work)(void *), void (*done)(void *), void *arg);

/* ---- regions.c */

/* Ops are of this checkpoint from here on; it ends; the session does. */
int td_session_region(td_session *s, const td_record *r, td_error *e);
int td_session_region_end(td_session *s, const td_record *r, td_error *e);
void td_session_regions_drop(td_session *s);

/* ---- waits.c */

/* The storage that it waits to use; NULL: none. */
void td_session_wants(td_session *s, const td_storage *st);
/* Suspend until td_session_ready; or until everything pending on some bytes has ended. */
void td_session_wait(td_session *s, const td_wait_kind *kind);
void td_session_wait_for_tasks(td_session *s, const td_wait_kind *kind, const td_access *of);
void td_session_ready(td_session *s);
/* An event that ends waits of that sort has come: one that is on is over. */
void td_session_woken(td_session *s, unsigned by);
/* Resumed: finish what was waited for. False: it still waits, or waits for something else. */
bool td_session_finish_wait(td_session *s);
/* The wait ends, whatever it is for. */
void td_session_cancel_wait(td_session *s);
/* A write lease or a backward ended: sessions that waited try again. */
void td_session_leases_changed(td_sessions *all);
/* It is among those who wait for that; it is not. */
void td_session_awaits_leases(td_session *s);
void td_session_awaits_no_leases(td_session *s);

/* ---- pace.c */

/* Of a throttled session, when a deadline of its wait has passed. */
void td_session_look_again(void *session);
/* How far a job goes at once that could go `most` far: one by one where much memory is asked for ahead already. */
int td_session_step(const td_session *s, int most);
/* Suspend until some task of anybody has ended. */
void td_session_throttle(td_session *s, const td_wait_kind *kind);
void td_session_unthrottle(td_session *s);
/* Is so much under way already that more must wait? Then it waits. */
bool td_session_held_back(td_session *s);
/* Is there no room for an answer to a request beside the stream, whatever it brings? */
bool td_session_unread_for_held(const td_session *s);
/* Do more answers lie there, not read by its client, than its stream goes on with? */
static inline bool td_session_unread(const td_session *s)
{
    return td_writer_pending(s->io.writer) > s->all->max_unread;
}

/* ---- held.c */

/* Before a request that may have to be held: TD_AGAIN when there are too many. */
int td_held_room(td_session *s);
/* `bytes` of zeros that begin with a td_held, which is the session's; the caller says what it waits for. NULL with `e`.
 */
void *td_held_new(td_session *s, const td_wait_kind *kind, size_t bytes, uint64_t serial, td_error *e);
/* It waits for that in the service, whose callback is called with it, and says td_held_over(). */
void td_held_awaits(td_held *h, td_await *at);
/* Its wait has ended; called from within other calls, so it only takes note. */
void td_held_over(td_held *h, const td_error *error);
/* It need not wait at all: it is finished next, in the turn that is on. */
void td_held_next(td_held *h);
/* Answer the first whose wait has ended (s->beside.over), or do a part of that. Returns how many records that was
 * worth. */
int td_held_finish(td_session *s);
/* It is cancelled, and answered so. */
void td_held_refuse(td_session *s, td_held *h, const td_error *why);
/* The client gives a request up: it is answered so, unless it has been answered. */
void td_held_cancel(td_session *s, uint64_t serial);
/* Does the request, or the record, with this serial wait beside the stream, behind nothing of that? */
bool td_session_beside(const td_session *s, uint64_t serial);
/* The session ends. */
void td_held_drop(td_session *s);

/* ---- promise.c */

/* `size` bytes of zeros that begin with a td_promise. NULL with `e`. Until it is made it may be freed. */
void *td_promise_new(td_session *s, const td_wait_kind *kind, size_t size, uint64_t serial, td_error *e);
/* A reply of about `bytes` will follow ... */
void td_promise_make(td_promise *p, uint64_t bytes);
/* ... now, unless the session has ended; the promise is gone. (A callback of the scheduler.) */
void td_promise_keep(void *promise);
/* The session has ended: nobody wants these replies any more. */
void td_promises_forget(td_session *s);

/* ---- failures.c */

/* Remember a failure that no output can carry; it is told at the next sync. Takes no reference. */
void td_session_failed(td_session *s, td_cause *cause);
/* The program was told of it: the next sync brings another one, if there is any, and what it was about may be used. */
void td_session_told(td_session *s, const td_error *e);
/* Tell it: the answer to what needs a value that cannot be had. It waits for all that was sent before: failures
 * by this cause are then known, and part of what was told. */
void td_session_tell(td_session *s, uint64_t serial, td_cause *c);
void td_session_tell_now(td_session *s, uint64_t serial, td_cause *c);
/* A call failed: what it should have written, and has not, is remembered until the program was told. */
void td_session_unwritten(td_issuer *who, const td_call *c);
/* A new cause, charged to the session; one for all when it has no room for more. NULL with `e` without memory. */
td_cause *td_session_cause(td_session *s, const td_error *why, td_error *e);
/* No memory, or a quota: whoever looks after the daemon is told. */
void td_session_refused(td_session *s, const td_error *why);

/* ---- reply.c */

/* An answer of so many bytes would lie with others that are not read: TD_E_MEMORY when these take too much. Small ones
 * always may. */
int td_reply_room(const td_session *s, uint64_t bytes, td_error *e);
void td_reply_send(td_session *s, Td__Wire__Reply *r, int fd);
/* A reply whose one field, a message, is packed in parts: the first TD_REPLY_FRONT bytes of the block, at the least,
 * are for what comes before it, and for other replies that wait. It counts among what its connection holds before it is
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
/* As td_reply_ok(), but it goes with the next reply: nobody waits for it now. */
void td_reply_ok_later(td_session *s, uint64_t serial);
/* Ask the client to let go of its mapping. */
void td_event_unmap(td_session *s, uint32_t segment);
/* Hooks that have gone, when they are too many for the next reply. */
void td_event_gone(td_session *s);
/* The arrays point into `sizes` (2 * TD_MAX_DIMS). */
void td_desc_to_wire(const td_desc *d, Td__Wire__Desc *w, int64_t *sizes);

#endif
