/* What a group is made of; for this room only. */
#ifndef TENSORD_OPS_GROUP_PARTS_H
#define TENSORD_OPS_GROUP_PARTS_H

#include "daemon/ops/group.h"
#include "proto/opid.h"

#define TD_GROUP_NONE UINT32_MAX

/* What a tensor lies in: an input, or a block that a call made. */
typedef struct td_group_root {
    bool input;
    uint32_t nr; /* of the input; of the block, and when the group is made of the output */
} td_group_root;

typedef struct td_group_operand {
    td_karg arg;    /* of a number all of it, but for `data`; of a tensor its descriptor */
    uint32_t base;  /* 0: the arena; then inputs, then outputs; TD_GROUP_NONE: a number, or nothing */
    int64_t offset; /* bytes */
    td_desc desc;
} td_group_operand;

/* One call: its plan, and where its operands begin. */
typedef struct td_group_part {
    const td_op *op;
    uint32_t operands;
    uint16_t nin, nout;
    uint8_t compute, nphases;
    td_phase phase[TD_MAX_PHASES];
    td_replan_fn replan;
    size_t work_bytes, state_bytes;
    unsigned char *state;
    td_attrs *attrs;
    char *where;
} td_group_part;
void td_group_part_free(td_group_part *p);

typedef struct td_group_made {
    td_desc desc;
    uint64_t bytes;
} td_group_made;

typedef struct td_group_given {
    td_group_root root;
    bool view, based; /* based: it has a view_base */
    uint32_t flags;
    td_desc desc; /* its offset counts from the root's */
} td_group_given;

struct td_group {
    uint32_t refs;
    uint32_t ninputs, ncalls, noperands, nmade, ngiven, most_args;
    uint32_t room_parts, room_operands, room_made, room_given;
    td_group_part *parts;
    td_group_operand *operands;
    td_group_made *made;
    td_group_given *given;
    bool *used;
    uint64_t arena;
    size_t work_bytes, scratch_bytes; /* the most that a part wants */
    double cost_ns;
    uint64_t bytes; /* of all this */
};

#endif
