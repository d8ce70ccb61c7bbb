/* The arguments of the kernels that read and write through several index tensors together. See args.h. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_ARGS_INDEX_H
#define TENSORD_DAEMON_KERNELS_CUDA_ARGS_INDEX_H

#include "daemon/kernels/cuda/args.h"

/* A tensor seen as before x n x after: n positions of the index tensors, broadcast; the dimensions that are kept stand
 * before or after. Dimensions innermost first, those of `after` before those of `before`. */
enum { TD_CUDA_INDICES = 4 };
typedef struct td_ca_index {
    uint32_t *error;
    const void *x; /* what is read: the tensor itself, or the values */
    void *out;
    const void *idx[TD_CUDA_INDICES];
    int64_t before, n, after;
    int64_t size[TD_CUDA_INDICES], step[TD_CUDA_INDICES]; /* of the indexed dimensions */
    int64_t shape[TD_MAX_DIMS], idx_stride[TD_CUDA_INDICES][TD_MAX_DIMS], value_stride[TD_MAX_DIMS]; /* of positions */
    int64_t kept[TD_MAX_DIMS], stride[TD_MAX_DIMS], kept_value[TD_MAX_DIMS];
    int32_t count, ndim, nkept, nafter;
    uint8_t dtype, idx_dtype[TD_CUDA_INDICES], bytes;
} td_ca_index;

#endif
