/* Dimensions of several operands on their way into a kernel's arguments: those of one element left out, the others by
 * the first operand's strides, innermost first, and joined where all operands allow it. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_WALK_H
#define TENSORD_DAEMON_KERNELS_CUDA_WALK_H

#include "proto/base/desc.h"

enum { TD_CUDA_WALK_OPS = 4 };

typedef struct td_cuda_dims {
    int ndim, nops;
    int64_t shape[TD_MAX_DIMS], stride[TD_CUDA_WALK_OPS][TD_MAX_DIMS];
    int64_t n;
} td_cuda_dims;

/* Operand 0 gives the shape; the others have it, or are broadcast to it. */
void td_cuda_dims_of(td_cuda_dims *w, int nops, const td_desc *const *d);

#endif
