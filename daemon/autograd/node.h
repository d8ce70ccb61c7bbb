/* Inside the room: nodes, saved tensors, what hangs on a tensor. Nothing outside daemon/autograd includes this.
 *
 * References: a tensor's meta counts its node; a node counts the nodes of its edges, the leaf it accumulates into and
 * what it saved. A saved output is a fresh handle without meta, so no node reaches itself. A saved input is the
 * caller's handle; should that handle be overwritten in place by something that depends on the node, the saved slot is
 * emptied then (td_saved_lose), because it could not be used any more and would close a cycle. Hence there are no
 * cycles, and counting is enough. */
#ifndef TENSORD_DAEMON_AUTOGRAD_NODE_H
#define TENSORD_DAEMON_AUTOGRAD_NODE_H

#include "daemon/autograd/autograd.h"
#include "daemon/autograd/gradient.h"
#include "proto/base/hash.h"

typedef struct td_saved td_saved;
typedef struct td_hook td_hook;

typedef struct td_edge {
    td_node *node; /* counted; NULL: no gradient is wanted */
    uint32_t nr;   /* which of its outputs */
} td_edge;

/* What a slot that was overwritten leaves behind, for the error message. */
typedef struct td_lost {
    td_desc desc;
    td_version now;
} td_lost;

/* What a slot keeps of a value that a program has packed: its form, and of an input the place in the graph. */
typedef struct td_packed {
    td_desc desc;
    td_edge edge; /* counted */
} td_packed;

/* TD_SV_AGAIN: a region makes it again (region.h). TD_SV_PACKED: the program has it (packed.c). */
enum { TD_SV_NONE = 0, TD_SV_TENSOR, TD_SV_NUMBER, TD_SV_LOST, TD_SV_AGAIN, TD_SV_PACKED };

struct td_saved {
    uint8_t kind;
    bool output;
    uint16_t index; /* of the input or output, flattened */
    uint32_t version;
    union {
        struct {
            td_tensor *tensor;
            td_saved *next, **prev; /* in the list of the tensor's family (inputs only) */
        };
        struct {
            td_region *region; /* counted */
            uint32_t pick;
        };
        td_scalar number;
        td_lost *lost;
        td_packed *packed;
    };
};

/* Shape, dtype and device of an output or a saved shape of an input; sizes (and strides) lie in the node's ints from
 * `at`. */
typedef struct td_shape {
    uint32_t at;
    uint8_t dtype, ndim : 4, device : 4;
    bool strided; /* strides and offset follow the sizes */
    bool open;    /* the shape depends on data: not known when the op was recorded */
} td_shape;

/* TD_N_FUNCTION: its backward is the program's; `op` means nothing. */
enum { TD_N_OP = 0, TD_N_LEAF, TD_N_SLICE, TD_N_FUNCTION };
enum {                     /* td_node.flags */
       TD_NF_FREED = 1,    /* what it saved has gone */
       TD_NF_PENDING = 2,  /* a write that may yet fail */
       TD_NF_REPLACES = 4, /* it is pending, and `replaced` says what of */
       TD_NF_CUT = 8,      /* a history has ended there: that is one, too */
       TD_NF_VOID = 16     /* a write that wrote nothing: the gradient goes past it, along edge 0 */
};

/* A tensor whose .grad is wanted although it is no leaf. */
typedef struct td_retain {
    struct td_retain *next;
    td_tensor *tensor;     /* not counted: it clears this when it dies */
    uint32_t nr, backward; /* the last that has added to its .grad */
} td_retain;

/* In place on a view: the gradient of the base passes through, but for the view's elements. */
typedef struct td_slice {
    td_desc base, view;
    bool whole;         /* it is the base itself, overwritten without being read */
    td_node *inner;     /* the op, as it was recorded on the view; counted */
    td_storage *writes; /* while it is pending */
} td_slice;

/* A pending write of a whole tensor that had a history, and loses it only with that write. */
typedef struct td_replaced {
    td_storage *writes;
    td_edge history; /* counted */
} td_replaced;

struct td_node {
    uint32_t refs;
    uint16_t op;
    uint8_t kind, flags;
    uint16_t nin, nout, nsaved;
    uint16_t watched; /* by how many backwards that took it for good while it was pending */
    uint32_t nattrs;  /* words */
    uint32_t bytes;
    uint32_t visitor, visit; /* the backward that looks at it (0: none), and its number there */
    union {
        struct {
            uint64_t seq; /* newest first; leaves before all */
            uint32_t session, pid;
        };
        td_dead dead; /* when its last reference is gone */
    };
    td_account *account;
    const char *where; /* a site, "" when unknown */
    union {
        td_tensor *leaf;       /* TD_N_LEAF; counted; NULL when it is a leaf no more */
        td_slice *slice;       /* TD_N_SLICE */
        td_storage *writes;    /* TD_N_OP that is pending */
        td_replaced *replaced; /* the same with TD_NF_REPLACES */
        char *name;            /* TD_N_FUNCTION */
    };
    td_retain *retains;
    td_hook *hooks;
    /* The parts, in one block. */
    td_edge *edges;   /* nin */
    td_saved *saved;  /* nsaved */
    td_shape *outs;   /* nout */
    td_shape *shapes; /* nin of them, or NULL */
    bool *given;      /* nin */
    int64_t *ints;
    uint32_t *attrs;
};

#define TD_SEQ_LEAF UINT64_MAX

/* What a node will hold: counted first, so that it is one allocation. */
typedef struct td_node_size {
    int nin, nout, nsaved, nattrs;
    bool shapes;
    uint32_t nints;
} td_node_size;

/* What a node costs, in objects. */
uint64_t td_node_cost(const td_node_size *size);
/* A node with one reference and everything zero; charged to `account`. */
td_node *td_node_new(const td_node_size *size, td_account *account, td_error *e);
/* The name for messages. */
const char *td_node_name(const td_node *n);
/* It was freed, and has what it saved no longer. */
int td_node_freed(const td_node *n, td_error *e);
/* Let go of what was saved (after a backward without retain_graph). */
void td_node_free_saved(td_node *n);
/* Of what is void: let go of all but edge 0. */
void td_node_strip(td_node *n);
/* The text of a call site, counted (site.c): one for all who name the same. "" is none, and so is one too many. */
const char *td_site_new(const char *text);
const char *td_site_ref(const char *site);
void td_site_unref(const char *site);

/* ---- what hangs on a tensor */

/* A gradient. */
typedef struct td_gslot {
    struct td_gslot *next;           /* of the same tensor */
    struct td_gslot *before, *after; /* of the same scope; of scope 0 none */
    td_tensor *tensor, *grad;
    uint32_t scope;
} td_gslot;

/* What a tensor's history was before a write that is pending. */
typedef struct td_former {
    td_node *node, *leaf; /* counted, or NULL */
    uint32_t nr, version;
    bool requires_grad;
} td_former;

typedef struct td_losing td_losing;
typedef struct td_part td_part;
typedef struct td_auto {
    td_meta meta;
    td_node *node; /* grad_fn, counted; NULL for a leaf */
    uint32_t nr;
    uint32_t view_version; /* of a view: the version its node belongs to */
    uint32_t pending;      /* recorded writes to its family that may yet fail; on the base */
    bool requires_grad;    /* of a leaf */
    td_former *former;     /* of a view whose base is being written, of a base that was a leaf; or NULL */
    td_node *leaf;         /* the node that accumulates into it; not counted */
    td_saved *savers;      /* slots that hold a tensor of this family; on the base */
    td_losing *losing;     /* a walk over these that is under way (saved.c), or NULL */
    td_gslot *grads;
    td_retain *retain; /* in node->retains, or NULL */
    td_part *parts;    /* what it is in regions that are open */
    td_hook *hooks;    /* of a leaf */
} td_auto;

/* NULL when the tensor has none. */
static inline td_auto *td_auto_of(const td_tensor *t)
{
    return (td_auto *)t->meta;
}
td_auto *td_auto_need(td_tensor *t, td_error *e);
/* Writes to the family of t are pending that may fail: keep what its history is. */
int td_former_keep(td_tensor *t, td_error *e);
/* Does it lead past writes that failed, to nothing? */
bool td_edge_is_void(const td_edge *edge);
/* Is it a write that failed, or recorded for the sake of one and of nothing else? */
bool td_node_is_void(td_node *n);
/* Of the writes that t's history comes of some have ended: past those that failed it is what it was. */
void td_history_back(td_tensor *t);
/* All gradients of a tensor that has a td_auto. */
void td_grads_drop(td_tensor *t);
static inline td_tensor *td_root_of(td_tensor *t)
{
    return t->view_base ? t->view_base : t;
}
/* Make `node` (a reference is taken) output nr the history of t. */
int td_set_history(td_tensor *t, td_node *node, uint32_t nr, td_error *e);
/* The edge that gradients of t flow along: its node, or the accumulating node of a leaf; node NULL when none is wanted.
 * A new reference. Views whose base was written since get a new node here. */
int td_edge_of(td_tensor *t, td_edge *out, td_error *e);
/* What is said of a view that a function with a backward of its own gave: "its base was written since". */
int td_fail_function_view(td_error *e, const char *what);

/* ---- saving (saved.c) */

void td_save_number(td_saved *s, td_scalar v, int index);
/* Keeps `t` as it was at `version`. */
int td_save_input(td_saved *s, td_tensor *t, int index, uint32_t version, td_error *e);
int td_save_output(td_saved *s, td_tensor *t, int index, td_error *e);
void td_saved_release(td_saved *s);
/* The family of t was overwritten by something recorded, the write `step`: empty the slots of before that, some now,
 * more soon. */
void td_saved_lose(td_tensor *root, uint32_t step);
/* The record of a family goes. */
void td_losing_end(td_losing *l);
/* Is the slot still what was saved? TD_E_VERSION says what happened. */
int td_saved_check(const td_node *n, const td_saved *s, td_error *e);

/* ---- recording (record.c, inplace.c) */

typedef struct td_masks {
    uint32_t inputs, outputs, shapes;
} td_masks;

typedef struct td_grad_record {
    td_call *c;
    const td_formula *formula;
    uint64_t wants; /* bit i: input i requires grad (the first 64; `many` for longer lists) */
    bool *many;
    int nwants;
    bool writes;     /* in place or out= */
    td_masks masks;  /* what the wanted gradients keep, by parameter */
    td_tensor *kept; /* copy of input 0, which the op overwrites and the gradient needs */
    uint32_t before; /* version of the written tensor before */
    td_node *node;
} td_grad_record;

static inline bool td_record_wants(const td_grad_record *r, int i)
{
    return r->many ? r->many[i] : r->wants >> i & 1;
}
/* May the call write where it wants to (A1, A5, inference tensors)? Before prepare. */
int td_check_write(td_tensor *dst, td_grad_mode mode, bool result_needs_grad, td_error *e);
/* The call, which is prepared, writes its one output in place, and will be recorded: from here on it is told when it
 * has ended, or will not be submitted (td_call_unwritten). */
int td_write_begin(td_call *c, td_error *e);
/* It is `node` that records it: that tensor, and its base and views, follow; until it
 * is known that the call wrote nothing. */
int td_rebase(td_call *c, td_node *node, td_error *e);
/* Where a pending write writes to. */
td_storage *td_node_writes(const td_node *n);

/* ---- views by their geometry (view.c) */

/* Where one is complex and the other real: can a gradient be taken from one to the other? */
int td_view_check(const td_desc *view, const td_desc *base, td_error *e);
/* The node that gives the gradient of a view to its base: `at`, whose reference it takes, whatever comes of it. */
int td_view_node(td_tensor *view, const td_desc *base, td_edge at, td_node **out, td_error *e);

/* ---- hooks (hook.c) */

/* A function of a program that a backward asks. It goes with what it hangs on. */
struct td_hook {
    td_hook *next; /* of the same node or leaf, in the order in which they came */
    td_hook **list;
    UT_hash_handle hh; /* of its owner's */
    td_hook_owner *owner;
    td_account *account;
    uint64_t order; /* of all */
    uint32_t number;
    uint16_t nr; /* of TD_HOOK_TENSOR: which output */
    uint8_t kind;
};
extern _Thread_local uint64_t td_loop_hooks; /* the order of the last one */

int td_hook_add(td_hook **list, int kind, uint32_t nr, uint32_t number, td_hook_owner *owner, td_account *account,
                td_error *e);
void td_hooks_drop(td_hook **list);
/* Only those of this kind. */
void td_hooks_drop_kind(td_hook **list, int kind);
/* No graph leads to this leaf any more: nobody minds hooks that nobody runs. */
void td_hooks_sift(td_hook **list);
/* Does `owner` (NULL: nobody) run it? */
bool td_hook_is_own(const td_hook *h, const td_hook_owner *owner);
/* Is it of the session that recorded node n? */
bool td_hook_is_of(const td_hook *h, const td_node *n);
int td_hook_foreign(const td_hook *h, const td_node *n, const td_hook_owner *asks, td_error *e);
td_hook_owner *td_hook_owner_ref(td_hook_owner *o);
void td_hook_owner_unref(td_hook_owner *o);

/* ---- what a program has packed (packed.c) */

/* The issuer that recorded it wants to know what it saved. NULL is fine. */
void td_node_note(struct td_noted *l, td_node *n);
void td_packed_free(td_packed *p);
/* The node whose slots they are: of an op in place on a view that of the op. */
static inline td_node *td_node_saver(const td_node *n)
{
    return n->kind == TD_N_SLICE ? n->slice->inner : (td_node *)(uintptr_t)n;
}

/* ---- running ops for a backward (eval.c) */

/* An evaluation is what is run between two clears. When an op of it lacks memory it is given up there, and gone through
 * again later: formulas look at no values, so each op that was run gives again what it gave, and the next goes on. */
typedef struct td_eval {
    td_issuer *who;
    const struct td_backward *of; /* whose node it is */
    bool create_graph;
    uint8_t device; /* where ops without operands make their results */
    td_node *slice; /* the write on a view whose op is evaluated, or NULL */
    td_need *need;  /* as td_ops_prepare has it; NULL: it grows by itself */
    struct td_recording *recording; /* of what is run (rows.c), or NULL */
    bool lacks;                     /* the last failure is one that may be gone later: nothing was changed by it */
    td_tensor **temps;              /* what its ops gave, in their order (NULL: nothing); one reference each */
    int ntemps, room;
    int at; /* so many of them were asked for, since it was begun (again) */
} td_eval;

void td_eval_clear(td_eval *v); /* what was made is let go of; room for the next stays */
/* Takes note of what an op of a backward failed with; returns it. */
int td_eval_failed(td_eval *v, int err);
void td_eval_deinit(td_eval *v);
/* One op with one output, owned by the evaluation. */
int td_eval_op(td_eval *v, unsigned op, int nin, const td_input *in, const td_attrs *attrs, int nout, td_tensor **out,
               td_error *e);
/* Write into dst. */
int td_eval_into(td_eval *v, unsigned op, int nin, const td_input *in, const td_attrs *attrs, td_tensor *dst,
                 td_error *e);
/* The view (view.c) of what lies in memory as the base does, from offset 0 on. */
int td_view_of(td_eval *v, td_tensor *whole, const td_desc *base, const td_desc *view, td_tensor **out, td_error *e);
/* The gradients of one node: g[nout] borrowed (NULL undefined), result[nin] gets new references or NULL; want[i] says
 * which. */
int td_eval_node(td_eval *v, td_node *n, td_tensor *const *g, const bool *want, td_tensor **result, td_error *e);
/* v as a gradient for something of this shape and dtype: number made a tensor, summed, made real, cast,
 * moved to its device. */
int td_eval_conform(td_eval *v, const td_op *of, td_fval g, const td_fmeta *to, bool open, td_tensor **out,
                    td_error *e);
/* *sum += g: in place when nobody else holds it. Takes over both references, unless it lacks memory. */
int td_eval_accumulate(td_eval *v, td_tensor **sum, td_tensor *g, td_error *e);
/* A shape that a node keeps: how many of its ints that takes; written there from `at` on, so many; and read. */
static inline uint32_t td_shape_ints(const td_desc *d, bool strided)
{
    return strided ? 2u * d->ndim + 1 : d->ndim;
}
static inline uint32_t td_node_put_shape(td_node *n, td_shape *s, uint32_t at, const td_desc *d, bool strided)
{
    *s = (td_shape){.at = at, .dtype = d->dtype, .ndim = d->ndim & 15, .device = d->device & 15, .strided = strided};
    int64_t *to = n->ints + at;
    for (int k = 0; k < d->ndim; k++) to[k] = d->shape[k];
    for (int k = 0; strided && k < d->ndim; k++) to[d->ndim + k] = d->stride[k];
    if (strided) to[2 * d->ndim] = d->offset;
    return td_shape_ints(d, strided);
}
td_fmeta td_node_meta(const td_node *n, const td_shape *s);

/* Nobody but the backward that made it holds this tensor's bytes, so it may be added into, or become a .grad. */
#define TD_TF_FRESH (1u << 31)

extern _Thread_local uint64_t td_loop_nodes_live, td_loop_nodes_recorded, td_loop_nodes_bytes;

#endif
