/* What the files of this room share, and nobody else sees. Under the lock, but for what makes a connection. */
#ifndef TENSORD_CLIENT_WIRE_INTERNAL_H
#define TENSORD_CLIENT_WIRE_INTERNAL_H

#include "client/wire/memory.h"
#include "client/wire/places.h"
#include "client/wire/stream.h"

/* ---- connect.c, launch.c */
void td_client_free(td_client *c);
/* Connect a socket and shake hands; on success the answer is in `c` (socket, session, token, ...). */
int td_shake_hands(td_client *c, int socket, uint32_t clone_session, uint64_t clone_token, td_error *e);
int td_dial(const char *path, td_error *e);
int td_dial_within(const char *path, int ms, td_error *e); /* TD_E_TIMEOUT: a daemon is there, and takes none */
/* Start a private daemon; returns a connected socket and its path, or -1. */
int td_launch(char path[108], td_error *e);

/* ---- mode.c */
int td_first_device(td_error *e); /* look where the environment wants things to be made */

/* ---- aside.c */
void td_stay(bool on); /* this thread does not step aside: it forks */
/* Under the lock, as td_lock does: another thread forks, and nobody changes the client before it has. */
void td_stand_back(td_client *c);
/* Whoever sleeps on c->wake does so by the monotonic clock. */
void td_wake_init(td_client *c);

/* ---- stream.c, waits.c */
/* Seal the batch as a frame, and send what the socket takes. Waits only while much is unsent. */
int td_push(td_client *c);
int td_push_sealed(td_client *c); /* what frames were made of already, and no more */
/* A part of it, as the loop's reader; >0: there may be more. Nobody else may be reading. */
long td_read_some(td_client *c);
/* Send what is batched, as far as the daemon takes it at once; the rest goes when the loop's descriptor says so. */
int td_push_some(td_client *c);
/* As td_push_some(), unless there are releases alone: those go with what comes next. */
void td_push_asked(td_client *c);
/* Wait until no put is under way any more. The daemon must have been asked for something since they were sent. */
int td_await_puts(td_client *c);
td_reply_wait *td_take_waits(td_client *c); /* all of them, by `next`; nobody finds them any more */
/* Its end: nobody looks for it any more. */
void td_finish_wait(td_client *c, td_reply_wait *w, int code, bool answered);

/* ---- stopper.c */
/* Nobody waits for the answer to this question any more: a run of a program that it is for is ended. Unless `alone` so is
 * one that it stands behind, and that nobody is to answer: its results are lost to whoever wants them. Never waits. */
void td_stop(td_client *c, uint64_t serial, bool alone);
/* The connection ends, or was the parent's. */
void td_stopper_close(td_client *c);

/* ---- ring.c */
/* Before a wait: go a step on towards a ring, when it is worth it. */
void td_link_advance(td_client *c);
/* Back to the socket of a new connection: the ring was the parent's. */
void td_link_forget(td_client *c);
/* The reader, without the lock: wait until something came (or the ring has room), at most `ms` (-1: for ever), and take
 * it in. As td_reader_fill. */
long td_link_wait(td_client *c, bool to_write, int ms, td_error *e);
/* Take in what is there, under the lock and without waiting; from now on a bell rings for what comes. */
long td_link_take(td_client *c, td_error *e);

/* ---- loop.c */
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

/* ---- request.c */
/* The callbacks of those that were over when this began, without the lock. */
void td_requests_tell(td_client *c);
/* Let go of those that were not even asked. */
void td_requests_fail(td_client *c, const td_error *why);
/* All that were out, in a forked child. */
void td_requests_forked(td_client *c, const td_error *why);

/* ---- map.c, lease.c */
void td_unmap_segment(td_client *c, uint32_t segment); /* the daemon asks for it */
void td_forget_mappings(td_client *c);
void td_forget_leases(td_client *c);
void td_tell_lease_drop(td_client *c, uint32_t lease);
void td_forget_lease(td_lease *l);

/* ---- fork.c */
int td_fork_register(td_client *c, td_error *e);
void td_fork_forget(td_client *c);

#endif
