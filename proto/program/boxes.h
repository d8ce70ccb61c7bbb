/* Boxes and lines of a picture; for picture_boxes.c, picture_dot.c, picture_svg.c. */
#ifndef TENSORD_PROTO_PROGRAM_BOXES_H
#define TENSORD_PROTO_PROGRAM_BOXES_H

#include "proto/program/ir.h"

enum { TD_BOX_LABEL = 64 };

typedef enum td_box_kind { TD_BOX_OP, TD_BOX_PARAMS, TD_BOX_RETURN, TD_BOX_CAPTURED, TD_BOX_MORE } td_box_kind;

typedef struct td_box {
    td_box_kind kind;
    uint32_t source;          /* TD_IR_NONE: none */
    bool opens, closes;       /* the first, the last of a node's block */
    char label[TD_BOX_LABEL]; /* UTF-8, cut */
} td_box;

typedef struct td_line { /* from < to */
    uint32_t from, to;
    bool control; /* into a block */
} td_line;

typedef struct td_boxes { /* each stands behind all that it depends on */
    td_box *at;
    td_line *lines;
    uint32_t n, nlines, room, room_lines;
    bool failed; /* no memory */
} td_boxes;

void td_boxes_make(const td_ir *ir, td_boxes *out);
void td_boxes_free(td_boxes *b);

#endif
