/* Inside the room: regions, whose values are made again for a backward instead of kept (checkpoints).
 *
 * While an issuer is in a region, each of its ops is written down besides: which op, of which values, with which random
 * numbers. Nodes are recorded as always, but what they would save of the region's own values is a *pick*: which input
 * or output of which op. A backward that comes to such a node runs the ops again (remake.c), outside of every graph,
 * and takes the picks on the way. So the graph, and with it the order and the bits of a backward, is that of eager
 * work.
 *
 * What was not made in the region is a source: a handle without history (no circle can go through it), with its
 * version. Ops that write to sources, or whose shapes depend on data, are not run again: what they gave is a source. */
#ifndef TENSORD_DAEMON_AUTOGRAD_REGION_H
#define TENSORD_DAEMON_AUTOGRAD_REGION_H

#include "daemon/autograd/node.h"

/* An input or output of an op. */
typedef struct td_ref {
    uint8_t kind; /* td_input_kind */
    bool copy;    /* the op writes it, and it was not made here: it gets one of its own */
    uint32_t value;
    td_scalar number;
} td_ref;

typedef struct td_region_op {
    uint16_t op, nin, nout;
    uint32_t flags;         /* of the call */
    uint32_t refs;          /* where its inputs and outputs begin */
    uint32_t words, nwords; /* attributes */
    uint64_t seed, counter;
} td_region_op;

#define TD_MADE UINT32_MAX

typedef struct td_region_value {
    uint32_t family;
    uint32_t source; /* its number, or TD_MADE: by an op of the region */
    uint32_t last;   /* the last op that has to do with it */
} td_region_value;

/* Values that share a version. As long as only ops of the region write to it, it is what they make it. */
typedef struct td_kin {
    uint32_t version; /* behind the last of these */
    uint32_t root;    /* that has the same bytes (.data): its number, or its own */
    bool foreign;     /* lies in the storage of a source */
} td_kin;

enum { TD_PICK_INPUT = 0, TD_PICK_OLD, TD_PICK_OUTPUT }; /* old: a copy of the input, which is overwritten */
typedef struct td_pick {
    uint32_t entry;
    uint16_t index;
    uint8_t what;
} td_pick;

/* What a tensor is in a region. */
struct td_part {
    td_part *next;
    uint64_t region; /* its serial */
    uint32_t value;
};

typedef struct td_list_of {
    void *at;
    uint32_t count, room;
} td_list_of;

struct td_region {
    uint32_t refs;
    bool writing; /* an op is under way: its entry is the last */
    struct {
        uint32_t values, kin, sources, picks;
    } before; /* that op: how many there were */
    uint64_t serial, charged;
    td_region *parent; /* counted, until it is closed */
    td_account *account;
    td_list_of entries, refs_of, words, values, kin, sources, picks;
    td_dead dead;
};

#define td_at(list, type, i) (&((type *)(list).at)[i])

/* The op is about to be prepared: write down what it takes. As td_ops_prepare it may lack memory. */
int td_region_begin(td_region *r, td_call *c, td_need *need, td_error *e);
/* It is prepared: write down what it gives. */
int td_region_give(td_region *r, td_call *c, td_error *e);
/* It has its node; or, `err`, it came to nothing, and nothing was written down. */
void td_region_end(td_region *r, td_call *c, int err);
/* Input or output `index` of the op at hand, for a slot of its node: if it can be made again *s says so. */
int td_region_pick(td_region *r, td_saved *s, int index, unsigned what, bool *picked, td_error *e);
void td_region_parts_free(td_auto *a);

#endif
