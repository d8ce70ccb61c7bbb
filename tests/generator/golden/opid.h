/* Written by proto/gen/opgen.py from the op table: edit that instead. */
#ifndef TENSORD_PROTO_OPS_OPID_H
#define TENSORD_PROTO_OPS_OPID_H

enum td_op_id {
    TD_OP_PICK = 1,
    TD_OP_SCALE = 3,
    TD_OP_STEP = 7,
    TD_OP_CUT = 8,
    TD_OP_COUNT = 9
};

#endif
