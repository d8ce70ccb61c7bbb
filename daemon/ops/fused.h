/* Fused calls: calls that came one after the other, remembered as one.
 *
 * What inference and planning find follows from how operands look (recipe.h), not from where they lie. So a row of
 * small calls that was issued once is, for inputs that look the same, one call with one chunk: it runs their kernels in
 * their order, on memory that it works with, and makes only what somebody uses. Large pointwise calls of one shape
 * become a *sweep*: all of them do one tile, then the next. A convolution that is too long for a row may be a *head*:
 * what follows it element by element goes on behind each of its chunks, on what that wrote, in place. The bits are the
 * same, since each kernel is planned as before, and what a sweep cuts depends on its own element only. Calls may write
 * what came before, in the row or from outside: the fused call names what it writes, so that whoever orders calls, or
 * counts versions, finds of the row what it would find of its calls. One that might fail beside such writes is not
 * fused, for they would be lost with it. A fused call holds no addresses and no tensors; any number of workers may run
 * it at once. */
#ifndef TENSORD_DAEMON_OPS_FUSED_H
#define TENSORD_DAEMON_OPS_FUSED_H

#include "daemon/ops/ops.h"
#include <stdio.h>

enum {
    TD_FUSED_LEAST = 3,       /* small calls: fewer are as fast one by one */
    TD_FUSED_CALLS = 256,     /* ... and at most */
    TD_FUSED_SWEEP = 64,      /* of a sweep, at most */
    TD_FUSED_SWEEP_NS = 1600, /* a pointwise call that costs more begins a sweep */
    TD_FUSED_CALL_NS = 20000, /* no row has a call that costs more: others may work beside it */
    TD_FUSED_NS = 100000,     /* all of a row: a chunk's length */
    TD_FUSED_HEADS_NS = 20000 /* of a row with a call that could be a head: run at once (sched.h), no worker is woken */
};

/* What is kept of a tensor's marks. */
enum { TD_FUSED_MARKS = TD_TF_MULTI_VIEW | TD_TF_NO_GRAD_VIEW | TD_TF_INFERENCE | TD_TF_FUNCTION_VIEW };

typedef struct td_fused td_fused;
typedef struct td_recording td_recording;

/* ---- recording. A recording holds what it saw while somebody else does, so that none is taken for another. */

int td_recording_new(td_recording **out, td_error *e);
void td_recording_free(td_recording *r);
/* One that comes from outside, before it is used; they are numbered as they come. One that comes once more is the same
 * one under another number, which nothing uses. The recording holds it to its end. False: there is no memory. */
bool td_recording_input(td_recording *r, td_tensor *t);
/* A call that was prepared, and is about to be issued. `where`: its place, but for who called (td_fused_call). */
void td_recording_call(td_recording *r, const td_call *c, const char *where);
/* Between nodes: what nobody else has any more is let go of. */
void td_recording_let_go(td_recording *r);
/* False: something came that no fused call can have. */
bool td_recording_good(const td_recording *r);
/* Could a call of this op be in it? */
bool td_recording_may(const td_recording *r, const td_op *op);
/* There is no room for more. */
bool td_recording_is_full(const td_recording *r);
/* Its first call is a head. */
bool td_recording_heads(const td_recording *r);
/* Are there enough for one fused call to be faster? */
bool td_recording_is_worth(const td_recording *r);
/* The fused call of what came, which gives `outs`, with so many loops of machine code at most (kernels/jit.h). 0 and
 * NULL: there is none that could. */
int td_recording_end(td_recording *r, uint32_t nouts, td_tensor *const *outs, uint32_t loops, td_fused **out,
                     td_error *e);

/* ---- running */

/* Issue it as one call: a new reference in each of outs[]. Inputs look, and were marked, as those of the recording;
 * where it writes one, they lie in one memory, or apart, as those did, and what is written may be. Errors, and lacking
 * memory, as of td_ops_try: nothing has changed then. `caller` goes behind a failing call's place;
 * `finished` as of a call. */
int td_fused_call(td_fused *g, td_issuer *who, td_tensor *const *inputs, td_tensor **outs, const char *caller,
                  void (*finished)(td_call *c), td_need *need, td_error *e);
/* Is an input used, by a kernel or for a view? */
bool td_fused_uses(const td_fused *g, uint32_t input);
/* Does it write inputs at all; this one? */
bool td_fused_writes_inputs(const td_fused *g);
bool td_fused_writes(const td_fused *g, uint32_t input);
/* Of all fused calls of this thread: how many calls were not issued one by one, for status. */
uint64_t td_fused_ran(void);
uint32_t td_fused_calls(const td_fused *g);
/* "row of 12 ops, 3.4 us of a core, 0.8 KB to work with, makes 2 tensors", and each op with its place. */
void td_fused_tell(const td_fused *g, FILE *out);
uint64_t td_fused_bytes(const td_fused *g);
uint32_t td_fused_loops(const td_fused *g); /* of machine code, that it has */
/* Any thread. */
td_fused *td_fused_ref(td_fused *g);
void td_fused_unref(td_fused *g);

#endif
