/* Ops on tensors: check, infer, allocate, choose the kernel, plan. The one door of this room.
 *
 * A td_call is one op on its way from "decoded" to "done". It lives on the loop thread, but for its kernel part, which
 * worker threads run. This room knows no sessions and no gradients: who is served comes in as a td_issuer, and prepared
 * calls leave through its submit function (the scheduler's). */
#ifndef TENSORD_DAEMON_OPS_OPS_H
#define TENSORD_DAEMON_OPS_OPS_H

#include "daemon/kernels/kernel.h"
#include "daemon/tensor/tensor.h"

#define TD_CALL_INLINE 12 /* inputs or outputs that need no allocation */

typedef struct td_call td_call;
typedef struct td_issuer td_issuer;

typedef enum td_input_kind { TD_IN_ABSENT = 0, TD_IN_TENSOR = 1, TD_IN_NUMBER = 2 } td_input_kind;

typedef struct td_input {
    uint8_t kind;
    uint16_t writes;   /* of a fused call (TD_CF_FUSED): how often it is written */
    uint32_t step;     /* that writing it moved its version to */
    td_tensor *tensor; /* borrowed until the call is submitted; then the call holds a reference if it must wait */
    td_scalar number;
} td_input;

enum {                        /* td_call.flags */
       TD_CF_OUT = 1,         /* c->out[] are given: write into them (in place, out=) */
       TD_CF_SERVICE = 2,     /* new storages go into service memory */
       TD_CF_INLINE_ONLY = 4, /* run it here and now, whatever it costs */
       TD_CF_VIEW = 8,        /* set by prepare: a view, there is nothing to run */
       TD_CF_HELD = 16,       /* set by td_call_hold */
       TD_CF_DEFER = 32, /* prepare moves no versions: td_ops_conclude does, when the call is sure to be submitted */
       TD_CF_FUSED = 64, /* several calls as one: in[].writes say what is written */
       TD_CF_DEVICE = 8  /* from this bit on, four: the device of what a creation op makes */
};
/* The flags that name a device. */
static inline uint32_t td_call_on(unsigned device)
{
    return (uint32_t)device << TD_CF_DEVICE;
}

/* Whom an op is run for: everything an op needs of a session, without knowing sessions. */
struct td_issuer {
    uint32_t session, pid;
    td_account *account;
    td_heap *heap, *service_heap;
    td_account *service_account;
    uint64_t seed, counter;   /* generator: key, and number of the next random op */
    struct td_region *region; /* what its ops are to be made again by (autograd), borrowed; or NULL */
    struct td_noted *noted;   /* takes note of what its ops save (autograd), borrowed; or NULL */
    /* Of its backwards: rows that nobody knew, one after the other; those that came since they are many (autograd). */
    uint32_t strange_rows, strange_backwards;
    void *flow; /* the scheduler's fairness entity */
    void *scheduler;
    int threads; /* that may run a call together; 0: one */
    /* Run a prepared call, now or later; takes it over. In the end c->finished is called on the loop thread. */
    void (*submit)(td_issuer *who, td_call *c);
    /* May a storage be read, or written, now? 0, an error, or a negative number: not yet; `who` is woken when it is
     * worth asking again. For what is touched by nobody's record (.grad at the end of a backward). NULL: anything may.
     */
    int (*may_touch)(td_issuer *who, const td_storage *s, bool write, td_error *e);
    /* A call has ended without having written all that it should have: c->cause says why. For calls that are nobody's
     * record. NULL: nobody wants to know. */
    void (*unwritten)(td_issuer *who, const td_call *c);
    /* What it has yet to be told of a storage: a write of its own that failed; borrowed, or NULL. NULL: nothing. */
    const td_cause *(*untold)(td_issuer *who, const td_storage *s);
    /* Text of the call site that is being served ("train.c:41"), or "". */
    char where[96];
};

struct td_call {
    td_kcall k;
    const td_op *op;
    td_issuer *who;
    uint32_t flags;
    uint16_t nin, nout;
    td_attrs attrs;
    td_input *in;    /* nin of them: in_inline or allocated */
    td_tensor **out; /* nout: given (TD_CF_OUT) or made by prepare (one reference each, the caller's) */
    uint32_t *step;  /* nout: that writing given ones moved their versions to */
    td_karg *args;   /* nin + nout */
    td_input in_inline[TD_CALL_INLINE];
    td_tensor *out_inline[TD_CALL_INLINE];
    uint32_t step_inline[TD_CALL_INLINE];
    td_karg args_inline[2 * TD_CALL_INLINE];
    td_tensor *cast; /* a temporary that is copied into out[0] afterwards (kernel cannot write it directly) */
    td_kcall *copy;  /* that copy: prepared beside, run as the last phase of k */
    td_account
        *payer; /* of `work` bytes to work with, from when it is prepared until it is freed; NULL: they are few */
    td_budget *lender;
    td_storage *workplace; /* what it works with on a device whose memory is not the host's; NULL: nothing there */
    uint64_t work;
    td_cause *cause; /* set when an input was poisoned or a predecessor failed: the kernel is not run */
    /* Called once on the loop thread when the call has ended (c->k.failed and c->cause say how). May be NULL. */
    void (*finished)(td_call *c);
    void *owner; /* for `finished` */
    /* Of a recorded write: called once, when it is known whether what was given was written, or may have been. */
    void (*recorded)(td_call *c, bool wrote);
    void *record;   /* for `recorded` */
    char where[96]; /* the call site, as it was when the call was made */
    /* The scheduler's: */
    void *task;
    td_call *next;
};

/* Calls are recycled: taking one costs nothing. in/out are usable for up to nin, nout entries. */
td_call *td_call_new(const td_op *op, td_issuer *who, int nin, int nout, td_error *e);
/* Drops what it holds (references taken by td_call_hold, temporaries). */
void td_call_free(td_call *c);
/* Take references on all tensors, because the call will outlive this turn. */
void td_call_hold(td_call *c);
/* Of a held call that will not be run: drop them before its end. */
void td_call_let_go(td_call *c);

/* With op, who, in[], attrs (and out[] with TD_CF_OUT) set: check, infer, allocate outputs, choose and plan the kernel.
 * Returns 0: then submit it (or, TD_CF_VIEW, nothing is left to do and out[] are ready); TD_WAIT_GROW (nothing
 * changed: make what *need says, then prepare again); or an error, of which *need says on which device it was. With
 * need NULL it grows and makes by itself. What the kernel works with is charged to the account and held against the
 * heap's budget (TD_E_QUOTA, TD_E_MEMORY). Versions of written tensors are bumped here, when nothing can fail any more.
 * c->nout, before: the room in out[] (with TD_CF_OUT how many are given); after: how many outputs there are. */
int td_ops_prepare(td_call *c, td_need *need, td_error *e);

/* Of a call with TD_CF_DEFER that was prepared: what prepare would have done at its end. Cannot fail. */
void td_ops_conclude(td_call *c);

/* Of a submitted call that failed before it wrote anything: what it was given is what it was, so graphs that saved it
 * are good. */
void td_call_unwritten(td_call *c);

/* The loop of this thread is over: what it remembers of calls that look alike goes. */
void td_recipes_forget(void);
void td_calls_forget_dead(void); /* and what is kept of calls for the next ones */

/* Bytes of the storages that a prepared call reads and writes go by c->args; these tell which. */
static inline td_storage *td_call_in_storage(const td_call *c, int i)
{
    return c->in[i].kind == TD_IN_TENSOR ? c->in[i].tensor->storage : NULL;
}
/* Does the op write input `i` (an optimizer's parameter, running statistics in training)? */
bool td_call_writes_input(const td_call *c, int i);

/* The whole way for one op, for callers that hold tensors (autograd, service): new references in out[] (`nout` of them,
 * NULL where the op has fewer). With TD_CF_OUT out[] are given and stay the caller's. attrs NULL: all defaults. */
int td_ops_run(td_issuer *who, unsigned op, int nin, const td_input *in, const td_attrs *attrs, uint32_t flags,
               int nout, td_tensor **out, td_error *e);
/* The same for who can wait: memory is not grown here, but asked for as td_ops_prepare does. */
int td_ops_try(td_issuer *who, unsigned op, int nin, const td_input *in, const td_attrs *attrs, uint32_t flags,
               int nout, td_tensor **out, td_need *need, td_error *e);

/* Number of rows a data-shaped op found (td_kcall.state begins with it, int64): its output's first dimension is cut to
 * it. Call in `finished`, before anybody else sees the output. */
void td_ops_cut_to_count(td_call *c);

static inline td_input td_in(td_tensor *t)
{
    td_input i = {0};
    i.kind = t ? TD_IN_TENSOR : TD_IN_ABSENT;
    i.tensor = t;
    return i;
}
static inline td_input td_in_number(td_scalar s)
{
    td_input i = {0};
    i.kind = TD_IN_NUMBER;
    i.number = s;
    return i;
}

/* Fill e->op and e->where from the call. When `e` holds no error yet, it becomes that of the call: its cause, or its
 * kernel's failure. */
void td_call_error(const td_call *c, td_error *e);

#endif
