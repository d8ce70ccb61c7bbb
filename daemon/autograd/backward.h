/* Inside the room: a backward on its way. plan.c makes it, engine.c runs its nodes, commit.c ends it. */
#ifndef TENSORD_AUTOGRAD_BACKWARD_H
#define TENSORD_AUTOGRAD_BACKWARD_H

#include "daemon/autograd/node.h"

/* Address -> index, open addressing. */
typedef struct td_map {
    const void **key;
    uint32_t *value;
    uint32_t count, room; /* room: a power of two */
} td_map;

/* The value of key, or UINT32_MAX. */
uint32_t td_map_get(const td_map *m, const void *key);
/* False without memory. The key must not be there. */
bool td_map_put(td_map *m, const void *key, uint32_t value);
void td_map_deinit(td_map *m);

/* A node of the graph as this backward sees it. */
typedef struct td_bnode {
    td_node *node; /* kept alive by the roots */
    uint32_t deps; /* needed nodes that still have to deliver here */
    bool needed;   /* lies on a way to something wanted */
    bool captured;
    td_tensor **grad; /* node->nout, one reference each; NULL until the first arrives */
} td_bnode;

typedef struct td_capture {
    uint32_t at, nr; /* node and output */
    int input;
} td_capture;

/* Anomaly mode: whether a gradient has a NaN, as a bool that may still be computed, and whose it is. */
typedef struct td_suspect {
    td_tensor *flag;
    uint16_t op, param;
    const char *where;
} td_suspect;

struct td_backward {
    td_issuer *who;
    uint32_t flags, scope;
    int nroots, ninputs;
    td_edge *roots;     /* counted */
    td_tensor **seeds;  /* given gradients, or NULL */
    td_tensor **shapes; /* the roots, where ones must be made */
    td_tensor **results;
    td_capture *captures;
    int ncaptures;
    td_bnode *nodes;
    uint32_t nnodes, room;
    td_map map;
    td_storage **pins; /* one reference each */
    uint32_t npins, pins_room;
    uint32_t *ready; /* a heap, newest on top */
    uint32_t nready;
    uint32_t *leaves; /* reached, in order */
    uint32_t nleaves;
    td_suspect *suspects;
    uint32_t nsuspects, suspects_room;
    bool seeded, done;
    int failed;
    td_eval eval;
};

/* Push the gradient (a reference is taken over) to output nr of node `at`. */
int td_backward_deliver(td_backward *b, uint32_t at, uint32_t nr, td_tensor *g, td_error *e);
void td_ready_push(td_backward *b, uint32_t at);
uint32_t td_ready_pop(td_backward *b);
/* Accumulate into the leaves: all of them, or none. */
int td_backward_commit(td_backward *b, td_error *e);
void td_backward_unpin(td_backward *b);
/* Anomaly mode: look for NaN in what a node gave; then, at the end, what was found. *wait: not all is known yet. */
int td_anomaly_watch(td_backward *b, const td_node *n, td_tensor *const *result, td_error *e);
int td_anomaly_verdict(td_backward *b, bool *wait, td_error *e);
void td_anomaly_drop(td_backward *b);
/* Does this input of the node get a gradient in this backward? Its index, or UINT32_MAX. */
uint32_t td_backward_child(const td_backward *b, const td_node *n, int i);

#endif
