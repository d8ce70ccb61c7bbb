/* Inside the room: a backward on its way. begin.c makes and drops it, walk.c looks at the graph, engine.c runs its
 * nodes, commit.c ends it.
 *
 * It goes through its stages one after the other, each in as many turns as it takes; between two turns it is whole. */
#ifndef TENSORD_DAEMON_AUTOGRAD_BACKWARD_H
#define TENSORD_DAEMON_AUTOGRAD_BACKWARD_H

#include "daemon/autograd/node.h"

/* Grow from `old` bytes (0: there is none, p NULL) to `size`, new bytes zero. NULL without memory: p is as it was. */
void *td_array_grow(void *p, size_t old, size_t size);
/* To twice the elements of `size`, and *room. */
void *td_array_more(void *p, uint32_t *room, size_t size);
void td_array_free(void *p, size_t size);
/* Give back its last part, of a size that takes no time; what is left, 0: it is gone. */
size_t td_array_shorten(void *p, size_t size);

/* Address -> index, open addressing. It grows a little at each insertion, never all at once: until all of `old` has
 * been copied, both are looked at. */
typedef struct td_map_table {
    const void **key;
    uint32_t *value;
    uint32_t room;               /* a power of two */
    size_t key_size, value_size; /* in bytes; less while it goes */
} td_map_table;
typedef struct td_map {
    td_map_table now, old;
    uint32_t count, copied; /* of old's places */
} td_map;

/* The value of key, or UINT32_MAX. */
uint32_t td_map_get(const td_map *m, const void *key);
/* False without memory. The key must not be there. */
bool td_map_put(td_map *m, const void *key, uint32_t value);
/* Some of it; true: it is gone. */
bool td_map_drop(td_map *m);

/* A node of the graph as this backward sees it. */
typedef struct td_bnode {
    td_node *node; /* kept alive by the roots */
    uint32_t deps; /* needed nodes that still have to deliver here */
    bool needed;   /* lies on a way to something wanted */
    bool captured;
    bool seen; /* by the search for what is needed */
    bool past; /* td_backward_past */
    bool watches;
    bool rows;     /* it may be in a row */
    bool released; /* its row has told those that it leads to already (rows.c) */
    uint32_t pins, npins;  /* where its pins begin, and how many there are until it has run */
    uint32_t row, mention; /* the row that spoke of it last, as which of its nodes */
    td_tensor **grad; /* node->nout, one reference each; NULL until the first arrives */
    td_tensor *only;  /* where grad points to when there is one: from then on the array of nodes stays where it is */
} td_bnode;

typedef struct td_capture {
    uint32_t at, nr; /* node and output */
    int input;
} td_capture;

/* Anomaly mode: whether a gradient has a NaN, as a bool that may still be computed, and whose it is. */
typedef struct td_suspect {
    td_tensor *flag;
    const char *op, *where; /* sites (node.h) */
    const char *input;      /* lasts for ever */
} td_suspect;

typedef enum td_backward_stage {
    TD_BS_WALK,   /* all nodes that the roots reach */
    TD_BS_INPUTS, /* where gradients are wanted, if not in all leaves */
    TD_BS_SEARCH, /* which nodes lie on a way there */
    TD_BS_CHECK,  /* what these saved: checked and pinned; who delivers to whom: counted */
    TD_BS_AGAIN,  /* of what is made again: which ops are run, on which values; these checked and pinned */
    TD_BS_SEED,   /* the first gradients */
    TD_BS_RUN,    /* the nodes */
    TD_BS_UNPIN,  /* nothing is read any more */
    TD_BS_COMMIT, /* .grad */
    TD_BS_DONE
} td_backward_stage;

/* What a node's evaluation costs, in steps of a walk over the graph. */
#define TD_NODE_STEPS 16

/* The node that is being run: what lacks memory is given up, and gone on with when there is some. */
typedef struct td_running {
    bool on;
    uint32_t at;
    uint8_t step;  /* see engine.c */
    bool executes; /* the node itself is run, and not only what hangs on its outputs */
    int i;         /* how far the step is */
    td_tensor **result, *few[16];
    td_tensor **unpacked; /* what the program gave back, by slot of the node: one reference each; or NULL */
} td_running;

/* A hook that is asked, and what came of it (ask.c). */
typedef struct td_asking {
    bool on, answered;
    uint8_t kind;
    uint16_t nr;
    uint32_t hook;
    uint64_t last, until; /* of a step: the hook that was asked last, and the newest that is meant */
    int n, first, wanted;
    td_tensor **at;    /* n, one reference each */
    td_tensor **given; /* wanted, one reference each; NULL: as it was */
} td_asking;

/* A .grad to be, made before any is put in place. Good for as long as the old one is what it was. */
typedef struct td_sum {
    td_tensor *old, *made; /* one reference each */
    uint32_t version;      /* of old */
} td_sum;

/* A value that a node wants. */
typedef struct td_picked {
    td_tensor *tensor; /* one reference */
    uint32_t version;
} td_picked;

/* A region whose values are made again. */
typedef struct td_remade {
    td_region *region; /* counted; NULL: it is over */
    bool begun, done;
    uint32_t at, pick, left; /* next op and pick; picks not used yet */
    uint32_t nvalues, npicks, nentries, nkin;
    uint32_t unlooked, unchecked; /* ops and values that the walk has still to look at, from the last on */
    bool *runs;                   /* op k: something that is wanted comes of it */
    bool *wants;                  /* kin k: something that is wanted comes of it */
    td_tensor **values;
    td_picked *picks;
} td_remade;

typedef struct td_row td_row;
struct td_backward {
    td_issuer *who;
    td_backward_stage stage;
    uint32_t at, edge; /* how far the stage is */
    uint32_t flags, scope;
    int nroots, ninputs;
    void *lists;         /* what roots to captures point into */
    td_edge *roots;      /* counted */
    td_edge *wanted;     /* counted: the inputs' */
    td_tensor **seeds;   /* given gradients, or NULL */
    td_tensor **shapes;  /* the roots, where ones must be made */
    td_tensor **pending; /* the roots that may still fail, without history: their gradients fail with them */
    td_tensor **results;
    td_capture *captures;
    int ncaptures;
    td_bnode *nodes;
    uint32_t nnodes, room;
    uint32_t nfirst; /* of them are the roots' */
    uint32_t serial; /* marks its nodes; those that another backward marked stand in the map */
    td_map map;
    td_storage **pins; /* one reference each; NULL: its node has run */
    uint32_t npins, pins_room;
    td_remade *remades; /* regions whose values are made again, by their number in the map */
    uint32_t nremades, remades_room;
    td_map regions;
    td_storage *behind; /* borrowed: one was saved, or is a node's, and a write to it is pending that may yet fail */
    uint32_t asked;     /* one more than the node that waited for such writes, or 0 */
    uint32_t asks;      /* so often did that one: at most once for each value that it saved */
    uint32_t order;     /* room of the next two */
    uint32_t *ready;    /* a heap, newest on top */
    uint32_t nready;
    uint32_t *leaves; /* reached, in order */
    uint32_t nleaves;
    td_suspect *suspects;
    uint32_t nsuspects, suspects_room;
    td_running now;
    td_row *row; /* nodes that were taken in their order (rows.h); NULL: none yet, ... */
    bool rowless; /* ... and none to come */
    int64_t debt; /* steps that a row has taken, and that have still to be taken from what is allowed */
    td_hook_owner *owner; /* counted; who answers; NULL: nobody does */
    bool calls;           /* a node that is needed has a hook */
    bool waits;           /* for a .grad that it must not touch yet, in the midst of its nodes */
    td_asking asking;
    uint32_t from;     /* of the leaves: those before have their .grad already, or get it later */
    td_tensor *moving; /* a seed that is still to be delivered */
    td_sum *sums;      /* nsums of them, or NULL */
    uint32_t nsums;
    int failed, freed; /* freed: how many of the arrays */
    size_t left;       /* of the next, in bytes; 0: it is whole */
    td_eval eval;
};

/* One more stage of the walk, as far as *steps allows (each node and each edge is one). The graph may change meanwhile
 * in what hangs on its nodes, never in its nodes and edges. */
int td_backward_walk(td_backward *b, int64_t *steps, td_error *e);

/* The node that is being run, if any, is over or given up. */
void td_running_end(td_backward *b);
/* Drop the gradients that a node has. */
void td_bnode_let_go(td_bnode *n);
/* Push the gradient to output nr of node `at`: a reference is taken over, unless it lacks memory. */
int td_backward_deliver(td_backward *b, uint32_t at, uint32_t nr, td_tensor *g, td_error *e);
void td_ready_push(td_backward *b, uint32_t at);
uint32_t td_ready_pop(td_backward *b);
/* The gradients of node `at` that grad() asks for are there. */
void td_backward_capture(td_backward *b, uint32_t at);
/* Accumulate into the leaves: all of them, or none. Negative: nothing was done, for a .grad must not be touched yet, or
 * memory lacks (b->eval.lacks). */
int td_backward_commit(td_backward *b, td_error *e);
/* The same for leaf node `at` alone. */
int td_backward_commit_one(td_backward *b, uint32_t at, td_error *e);
void td_sums_drop(td_backward *b);

/* ---- hooks (ask.c) */

/* Of a node that is needed: may its hooks be asked? */
int td_ask_check(td_backward *b, const td_node *n, td_error *e);
/* The same of a leaf that node n leads to: of hooks of others that n was recorded with. */
int td_ask_check_leaf(const td_backward *b, const td_node *n, const td_node *leaf, td_error *e);
/* Has the node a hook of this kind that will be asked? */
bool td_ask_has(const td_backward *b, const td_node *n, int kind);
/* One more hook of this kind is asked, or its answer taken: true while there is something to wait for. */
int td_ask_hooks(td_backward *b, td_running *r, int kind, bool *asked, td_error *e);
/* A function's own backward; *done: r->result has what came. */
int td_ask_function(td_backward *b, td_running *r, bool *done, td_error *e);
/* The same for what the node saved and the program has packed (packed.c). */
int td_ask_unpack(td_backward *b, td_running *r, bool *asked, td_error *e);
/* Ask it, with room for no tensors, for one. */
int td_ask_one(td_backward *b, const td_hook *h, td_error *e);
void td_question_over(td_backward *b);
/* A value that was unpacked, with its place in the graph if there is one to be made; a new reference. */
int td_unpacked(const td_backward *b, td_node *n, int k, bool placed, td_tensor **out, td_error *e);
void td_asking_end(td_backward *b);
/* What the needed gradients of a node keep, by parameter; n: the node that saved it. */
void td_backward_wants(const td_backward *b, const td_node *outer, const td_node *n, uint32_t *inputs, uint32_t *outputs);
/* It is read until the end of the backward. */
int td_backward_pin(td_backward *b, td_storage *s, td_error *e);
/* The failed write to it that the issuer has still to be told of. */
int td_backward_told(const td_backward *b, const td_storage *s, td_error *e);
/* Of a node that has run: what it read is let go of, and with what it saved may go at once. */
void td_backward_unpin_node(td_backward *b, td_bnode *n);
/* True when nothing is pinned, and nothing made again is left. */
bool td_backward_unpin(td_backward *b, int64_t *steps);

/* ---- regions (remake.c) */

/* A node that is needed saved something that this region makes. */
int td_remake_enter(td_backward *b, td_region *r, td_error *e);
/* What the regions that were entered do again; what they begin with is checked, and pinned. To the end when b->at is
 * their number. */
int td_remakes_walk(td_backward *b, int64_t *steps, td_error *e);
/* One more op for what node n saved; *ready: there is nothing more to do for it. */
int td_remake_step(td_backward *b, const td_node *n, bool *ready, td_error *e);
/* A slot as it would be had it been kept, borrowed; others as they are. */
int td_remade_saved(const td_backward *b, const td_saved *s, td_saved *out, td_error *e);
/* Node n has run. */
void td_remade_used(td_backward *b, const td_node *n);
bool td_remakes_drop(td_backward *b, int64_t *steps);

/* Anomaly mode: look for NaN in what a node gave; then, at the end, what was found. *wait: not all is known yet. */
int td_anomaly_watch(td_backward *b, const td_node *n, int i, td_tensor *g, td_error *e);
int td_anomaly_verdict(td_backward *b, bool *wait, td_error *e);
void td_anomaly_drop(td_backward *b);
/* The number of a node, or UINT32_MAX. */
uint32_t td_backward_find(const td_backward *b, const td_node *n);
/* Of a node of it: does the gradient go past it, for it is a write that wrote nothing? Known since it was first looked
 * at: a write of the issuer's own that fails since then has its gradient, as all that comes of it. */
bool td_backward_past(const td_backward *b, const td_node *n);
/* Does this input of the node get a gradient in this backward? Its index, or UINT32_MAX. */
uint32_t td_backward_child(const td_backward *b, const td_node *n, int i);

#endif
