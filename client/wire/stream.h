/* What is asked of the daemon, and its answers: records in batches, calls, and the waits for replies. All of it under
 * the lock, but where it says so. The order of the calls here is the order in which the daemon sees them. */
#ifndef TENSORD_CLIENT_WIRE_STREAM_H
#define TENSORD_CLIENT_WIRE_STREAM_H

#include "client/wire/client.h"

/* ---- records */
/* Count a record into the batch; sends the batch when it is full. */
int td_recorded(td_client *c);
/* A record without results. */
int td_control(td_client *c, unsigned rec, const char *where, int nin, const uint32_t *in, int nout,
               const uint32_t *out, int nrest, const uint32_t *rest);
/* Neither looks at how much is batched, so neither waits. */
int td_record_only(td_client *c, unsigned rec, int nin, const uint32_t *in, int nrest, const uint32_t *rest);
int td_control_only(td_client *c, unsigned rec, const char *where, int nin, const uint32_t *in, int nout,
                    const uint32_t *out, int nrest, const uint32_t *rest);

/* The id of a call site (0: none), by the address of its text. */
uint32_t td_site(td_client *c, const char *where);

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
    return td_region_of(c) == c->out.region ? 0 : td_region_switch(c);
}

/* The numbers of tensors: see ids.c. */
uint32_t td_take_id(td_client *c);             /* 0: all are in use */
void td_free_id(td_client *c, uint32_t id);    /* of no tensor: may be used at once */
void td_release_id(td_client *c, uint32_t id); /* of a tensor: RELEASE goes with the batch */
int td_emit_releases(td_client *c);
/* Send what is batched, as far as the daemon takes it at once, when much memory was released that it does not know of:
 * others may want it, and nobody knows when the next call comes. */
void td_push_released(td_client *c);

/* ---- calls */
/* A Call with `w->serial` set here; sends what is batched before it. `fd` is not taken over. */
int td_ask(td_client *c, Td__Wire__Call *call, int fd, td_reply_wait *w);
/* A Call that goes with whatever is sent next. When it fails nothing is expected: w->serial is 0. */
int td_ask_later(td_client *c, Td__Wire__Call *call, int fd, td_reply_wait *w);
/* Expect a reply to a record that carries w->serial. */
void td_expect(td_client *c, td_reply_wait *w);
/* The question was not sent after all, as this thread's error says: that is its answer, and no other is expected. Of
 * one on the heap, which is its caller's again, too. */
void td_unexpect(td_client *c, td_reply_wait *w);
/* Wait for it. Returns its code, with this thread's error set. */
int td_await(td_client *c, td_reply_wait *w, const char *op);
/* Ask, and wait. Whatever it returns, the wait is over. */
int td_ask_and_wait(td_client *c, Td__Wire__Call *call, int fd, td_reply_wait *w, const char *op);
/* td_enter(), the question, td_leave(): so not under the lock. The answer is for `take`, which finds `context` in its
 * wait; NULL: it only says that it is done. */
int td_ask_once(td_client *c, const char *op, Td__Wire__Call *call, td_on_reply *take, void *context);
/* Asks once, for so many ms as the wire has them; NULL: raised. */
typedef td_reply_wait *td_patient(void *context, uint32_t ms);
/* Ask what the daemon answers when others have done something, and wait; `ms` is how long it waits for that, and
 * `in_stream` says that what stands behind it in the stream waits too. It may succeed although the program wants to
 * stop. Whatever it returns, the wait is over. */
int td_await_patiently(td_client *c, td_patient *ask, void *context, int ms, bool in_stream, const char *op);
/* A Call whose answer nobody waits for. Never waits: it is made while replies are being handled, too. */
void td_tell(td_client *c, Td__Wire__Call *call);
/* Stop expecting it. */
void td_forget_wait(td_client *c, td_reply_wait *w);
int td_push_all(td_client *c); /* sends what is batched, to the last byte */
/* Handle what has arrived, without waiting. */
void td_poll_replies(td_client *c);
/* Has the daemon closed its end of the socket? Then it is lost. A connection that goes through a ring does not read
 * there. */
void td_look_at_socket(td_client *c);
/* Differs from what it was when anything was asked of the daemon since, or heard from it. */
static inline uint64_t td_moment(const td_client *c)
{
    return c->out.asked + c->in.heard;
}

/* ---- stopper.c */
/* Before a call of a program, which may have to be stopped. */
void td_want_stopper(td_client *c);

/* ---- waits */
/* On the list of those that expect a reply, by its serial; off it again, NULL: there is none. */
void td_add_wait(td_client *c, td_reply_wait *w);
td_reply_wait *td_take_wait(td_client *c, uint64_t serial);
/* Wait until a number that answers count down is zero. */
int td_await_none(td_client *c, const unsigned *count);
/* One on the heap whose wait is over is not looked at any more: it takes its answer, if that is still to come, and is
 * freed. */
void td_unawait(td_client *c, td_reply_wait *w);
/* Nobody will look at what became of this put, but td_await_puts does wait for it. */
void td_leave_put(td_client *c, td_reply_wait *w);
/* What an answer granted that nobody waits for. */
void td_take_unclaimed(td_client *c, const td_reply *r, int *fd);

#endif
