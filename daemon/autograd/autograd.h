/* Autograd: records what was done to tensors that require grad, and runs it backwards. The one door of this room.
 *
 * Define by run, no tape: nodes hang on tensors (td_tensor.meta), hold edges to the nodes of their inputs and what
 * their formula needs (saved tensors with the version they had), and die with the last handle on their part of the
 * graph, iteratively. A node belongs to no session: one process may build a part, another extend it, a third call
 * backward. Saved outputs hold no reference to their own node. All on the loop thread. */
#ifndef TENSORD_DAEMON_AUTOGRAD_AUTOGRAD_H
#define TENSORD_DAEMON_AUTOGRAD_AUTOGRAD_H

#include "daemon/ops/ops.h"

typedef enum td_grad_mode { TD_GRAD_ON = 0, TD_GRAD_OFF = 1, TD_GRAD_INFERENCE = 2 } td_grad_mode;

/* The way of every op: checks that grad mode allows it, prepares it (td_ops_prepare), records a node when an input
 * requires grad, submits it. Returns as td_ops_prepare does (TD_WAIT_GROW: grow, then call again with the same call).
 * On 0 the call was taken over, and out[] (room for c->nout as prepared, count in *nout) are the outputs, one new
 * reference each; with TD_CF_OUT they are the given tensors, no new reference. On an error the call is still the
 * caller's. */
int td_autograd_run(td_call *c, td_grad_mode mode, td_tensor **out, int max_out, int *nout, td_need *need, td_error *e);
/* The same in two: all but the submission, for who looks at the call in between; then that, which cannot fail. */
int td_autograd_prepare(td_call *c, td_grad_mode mode, int max_out, td_need *need, td_error *e);
void td_autograd_issue(td_call *c, td_tensor **out, int *nout);

bool td_requires_grad(const td_tensor *t);
bool td_is_leaf(const td_tensor *t);
/* Name of the op that made it, or NULL for a leaf. */
const char *td_grad_fn(const td_tensor *t);
/* Only a leaf of float or complex dtype (A1). */
int td_set_requires_grad(td_tensor *t, bool on, td_error *e);
/* The same as a thread in this mode asks: inside of inference mode its tensors may require grad, too. */
int td_set_requires_grad_in(td_grad_mode mode, td_tensor *t, bool on, td_error *e);
/* Keep .grad of an intermediate (retain_grad). */
int td_retain_grad(td_tensor *t, td_error *e);

/* The gradient of (tensor, scope); scope 0 is the tensor's own, a session or a group may have another. Borrowed; NULL:
 * None. */
td_tensor *td_grad(const td_tensor *t, uint32_t scope);
/* All of them, of every scope; borrowed. */
void td_grads_each(const td_tensor *t, void (*fn)(td_tensor *grad, void *arg), void *arg);
/* The same for a session: one that is lost, as its program was told, is as if it had never come. */
td_tensor *td_grad_known(const td_tensor *t, uint32_t scope, uint32_t session);
int td_set_grad(td_tensor *t, uint32_t scope, td_tensor *grad, td_error *e); /* takes a reference; NULL clears */
/* The same in two steps, for who sets several or none: everything that may fail, then what cannot; or give it up. */
int td_grad_prepare(td_tensor *t, uint32_t scope, const td_tensor *grad, td_error *e);
void td_grad_put(td_tensor *t, uint32_t scope, td_tensor *grad);
void td_grad_unprepare(td_tensor *t, uint32_t scope);
void td_grad_drop_scope(td_tensor *t, uint32_t scope);
/* A session has ended: let go of about `most` gradients of its scope, wherever they hang. Were these all? */
bool td_grad_scope_end(uint32_t scope, int most);

/* A region: while an issuer is in it (who->region) what its ops make is not kept for a backward, which runs them again
 * from what came from outside, with the same random numbers. `parent`: it lies in this one, or NULL. Closed, nothing is
 * added any more; the graph keeps it. */
typedef struct td_region td_region;
td_region *td_region_new(td_region *parent, td_account *account, td_error *e);
td_region *td_region_ref(td_region *r);
void td_region_close(td_region *r);
void td_region_unref(td_region *r);
/* `data` is what `of` is now with a version of its own (.data): a value of the issuer's region, if that is one. */
int td_region_data(td_issuer *who, td_tensor *of, td_tensor *data, td_error *e);

/* ---- what the program does in a backward: hooks, functions of its own (hook.c, function.c) */

/* Who runs hooks: a session, as graphs know it. */
typedef struct td_hook_owner td_hook_owner;
/* `gone`: a hook of that number is nowhere any more. */
td_hook_owner *td_hook_owner_new(uint32_t session, uint32_t pid, void (*gone)(void *arg, uint32_t hook), void *arg,
                                 td_error *e);
/* A forked child has the functions that its parent had by then. */
void td_hook_owner_inherit(td_hook_owner *o, td_hook_owner *parent);
/* Nobody answers any more; the caller's reference goes. NULL is fine. */
void td_hook_owner_end(td_hook_owner *o);

enum {
    TD_HOOK_TENSOR = 1, /* gets the gradient of a tensor, may give another */
    TD_HOOK_LEAF,       /* gets a leaf when its .grad has been added to */
    TD_HOOK_PRE,        /* gets the gradients of a node's outputs, may give others */
    TD_HOOK_POST,       /* gets those of its inputs, and of its outputs; may give others of its inputs */
    TD_HOOK_FUNCTION,   /* is the backward of a node that the program made */
    TD_HOOK_UNPACK      /* gives back a value that a node saved and the program keeps */
};

/* A node of the graph, for who looks at graphs. */
typedef struct td_node td_node;
td_node *td_node_of(td_tensor *t, uint32_t *nr, td_error *e); /* a new reference; NULL: it has none, or `e` */
td_node *td_node_ref(td_node *n);
void td_node_unref(td_node *n); /* iterative, whatever hangs on it. NULL is fine */
typedef struct td_node_facts {
    const char *op, *aten, *where; /* aten: how ATen calls the op (NULL: it does not) */
    uint32_t session, pid;
    int inputs;
    enum { TD_NODE_OP, TD_NODE_LEAF, TD_NODE_SLICE, TD_NODE_FUNCTION, TD_NODE_VIEW } kind;
} td_node_facts;
void td_node_look(const td_node *n, td_node_facts *out);
td_node *td_node_next(const td_node *n, int i, uint32_t *nr); /* borrowed, or NULL */
bool td_node_counts(const td_node *n, int i);                 /* of a function only tensors do */

/* A hook with this number, which its owner chose. TD_HOOK_TENSOR and TD_HOOK_LEAF hang on a tensor's value as it is
 * now, the other two on a node. */
int td_hook_tensor(td_tensor *t, int kind, uint32_t number, td_hook_owner *owner, td_account *account, td_error *e);
int td_hook_node(td_node *n, int kind, uint32_t number, td_hook_owner *owner, td_account *account, td_error *e);
void td_hook_remove(td_hook_owner *owner, uint32_t number); /* nothing happens when there is none */

/* A node of the program's own: `out` were computed by it from `in` (NULL: no tensor), outside of every graph. */
/* What nodes save, in the program's own keeping (packed.c). An issuer with a td_noted (who->noted) has each node that it
 * records noted; td_noted_next gives what these saved, one value after the other, and td_noted_pack says that the program
 * has packed the last one: the graph lets go of it, and a backward asks the hook for it. */
typedef struct td_noted td_noted;
td_noted *td_noted_new(td_error *e);
void td_noted_free(td_noted *l); /* NULL is fine */
typedef struct td_saved_look {
    const char *name; /* of the parameter or result; NULL: there is no such slot */
    td_tensor *value; /* a new reference; NULL: it has none here */
    uint32_t hook;    /* that a packed one is asked of, or 0 */
    bool output, freed;
    int index;
} td_saved_look;
int td_noted_next(td_noted *l, td_saved_look *out, td_error *e);
int td_noted_pack(td_noted *l, uint32_t hook, td_hook_owner *owner, td_account *account, td_error *e);
/* The same of slot k of a node; a leaf's has the leaf. */
int td_node_saved(td_node *n, uint32_t k, td_saved_look *out, td_error *e);
int td_node_pack(td_node *n, uint32_t k, uint32_t hook, td_hook_owner *owner, td_account *account, td_error *e);

enum { TD_FN_APART = 1 /* no gradient */, TD_FN_WRITTEN = 2 /* it is an input that was written */ };
typedef struct td_function_call {
    const char *name;
    uint32_t hook;
    int nin, nout, nsaved;
    td_tensor *const *in, *const *out, *const *saved;
    const uint32_t *flags; /* of each output */
} td_function_call;
int td_function_record(td_issuer *who, td_hook_owner *owner, const td_function_call *f, td_error *e);

enum {
    TD_BW_RETAIN = 1,
    TD_BW_CREATE_GRAPH = 2,
    TD_BW_ALLOW_UNUSED = 4,
    TD_BW_ACCUMULATE = 8 /* backward(): into .grad; else grad(): return */,
    TD_BW_ANOMALY = 16
};

typedef struct td_backward td_backward;

/* Begin a backward. Refuses what roots, their gradients and inputs alone show to be wrong. grads[i] NULL means ones for
 * a scalar root ("grad can be implicitly created only for scalar outputs" otherwise). With `inputs` only the nodes on a
 * way to them run and their gradients are returned (new references, NULL where undefined). The graph has not been
 * looked at yet when it returns; a failure leaves no trace. */
int td_backward_new(td_backward **out, td_issuer *who, int nroots, td_tensor *const *roots, td_tensor *const *grads,
                    int ninputs, td_tensor *const *inputs, uint32_t flags, uint32_t scope, td_error *e);
/* Go on: look at about `most` times sixteen nodes or edges, or run `most` nodes. First it walks the graph: counts
 * dependencies, looks for what is needed, checks the versions of what was saved and pins it; nothing is computed before
 * all that is found good. What others write until it is pinned counts as written before. Returns 0 and *done; an error
 * ends it, with no partial .grad left: gradients are accumulated into leaves as a last step, which waits (0, not *done)
 * for as long as the issuer's may_touch says so. Memory is lacked as by td_ops_prepare: TD_WAIT_GROW, and a TD_E_MEMORY
 * or TD_E_QUOTA that may pass, leave it where it is, to be gone on with later or dropped. With need NULL it grows by
 * itself.
 */
int td_backward_step(td_backward *b, int most, bool *done, td_need *need, td_error *e);
/* From here on `owner` is who answers what its hooks on the way are asked; without, to come to one is an error. */
void td_backward_answered_by(td_backward *b, td_hook_owner *owner);
/* It goes no further until a hook has been answered. Which, with what: borrowed, some NULL; `first` of them are what
 * the hook may change (of a function: what it is given; then come the values that it saved). False: not so. */
typedef struct td_asked {
    uint32_t hook;
    int kind, n, first, wanted; /* wanted: so many gradients are the answer */
    td_tensor *const *at;
} td_asked;
bool td_backward_asks(const td_backward *b, td_asked *out);
/* The answer: `given` NULL: as it was. An error has ended the backward. */
int td_backward_answer(td_backward *b, int n, td_tensor *const *given, td_error *e);
/* Did the last step give up for want of memory, to be gone on with? Any other error has ended it. */
bool td_backward_lacks(const td_backward *b);
/* The last step went no further for the writes that are pending on this storage: whether they fail, and leave what a
 * node saved as it was, or are no part of the graph, decides what the backward does. Borrowed, good until the next
 * step; NULL: not so. */
const td_storage *td_backward_behind(const td_backward *b);
/* Has it still to read this storage, so that nobody may write it? Looks at *most of those that it reads, which become
 * fewer by as many. NULL: may there be any? */
bool td_backward_reads(const td_backward *b, const td_storage *s, uint32_t *most);
/* With inputs: the results, after done. */
void td_backward_results(td_backward *b, td_tensor **out);
/* Let go of it, `most` times sixteen nodes at a time: true when it is gone. */
bool td_backward_drop(td_backward *b, int most);
void td_backward_free(td_backward *b); /* at once */

/* The loop of this thread is over: what backwards keep of how graphs look goes. */
void td_rows_forget(void);

/* Nodes that live, the bytes of these and of what tensors know of them, and nodes ever recorded. */
uint64_t td_autograd_nodes(void);
uint64_t td_autograd_bytes(void);
uint64_t td_autograd_recorded(void);

#endif
