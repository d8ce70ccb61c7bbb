/* Pictures of a program: for graphviz, and drawn by ourselves. A box for each node, but that constants stand in the
 * boxes of those that use them; for the parameters and the results of each block, too. */
#ifndef TENSORD_PROTO_PROGRAM_PICTURE_H
#define TENSORD_PROTO_PROGRAM_PICTURE_H

#include "proto/program/ir.h"

#define TD_PICTURE_BOXES 4096 /* most that are shown: of a larger program the beginning, and how much there is beyond  \
                               */

/* Of a module that passed the verifier; to be freed. NULL: there is no memory. */
char *td_ir_dot(const td_ir *ir, td_error *e);
char *td_ir_svg(const td_ir *ir, td_error *e);

#endif
