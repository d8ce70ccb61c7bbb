/* What the ways of scatter share: scatter.c checks and writes, scatter_pieces.c adds up histograms. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_PLACES_SCATTER_H
#define TENSORD_DAEMON_KERNELS_CPU_PLACES_SCATTER_H

#include "daemon/kernels/cpu/accumulate.h"
#include "daemon/kernels/cpu/walk.h"

typedef struct td_scatter {
    int dim, axis;       /* axis: the dimension that chunks cut, or -1 */
    int64_t limit, step; /* of the target along dim: size, stride in bytes */
    int64_t per;         /* of axis, or of what is cut instead */
    size_t own;          /* where in work memory the pieces' places begin */
    uint8_t how;         /* a td_fold */
    bool number;         /* src is one number of another dtype */
    bool counts;         /* of pieces: one integer is added everywhere */
    int64_t inner;       /* elements of one index, which was expanded behind dim; it has one offset in work memory */
    bool rows;           /* of a chunk: a run has one index */
    bool direct;         /* not in place: indices are checked where they are used, and there are no offsets */
    bool copies;         /* a chunk copies the part that it writes to, */
    int64_t near;        /* so much along axis at once, which stays in the first cache */
} td_scatter;

/* src, where a number may have a dtype of its own: then in buf, in the target's. */
const void *td_scatter_source(const td_kcall *k, const td_scatter *s, char buf[16]);
/* A run of elements to targets (operand 0) at byte offsets (operand 1) from src (operand 2); step: bytes of each. */
void td_scatter_some(const td_scatter *s, unsigned dtype, const td_walk_at *at, const int64_t step[3]);

/* Many to be added up in few places, in pieces that have their own: true when all was planned. */
bool td_scatter_plan_pieces(td_kcall *k, td_scatter *s, int64_t n);

#endif
