/* The arguments of the kernels that scan lines. See args.h. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_ARGS_SCAN_H
#define TENSORD_DAEMON_KERNELS_CUDA_ARGS_SCAN_H

#include "daemon/kernels/cuda/args.h"

/* Lines of x along one dimension; a piece of a line is a block's. With several pieces, `parts` has what each begins
 * with, as [line][piece]. */
typedef struct td_ca_scan {
    uint32_t *error;
    const void *x;
    void *out;
    td_word *parts;
    int64_t lines, length, piece, pieces;
    int64_t x_step, out_step; /* along the dimension */
    int64_t shape[TD_MAX_DIMS], x_stride[TD_MAX_DIMS],
        out_stride[TD_MAX_DIMS]; /* the other dimensions, innermost first */
    int32_t ndim;
    uint8_t x_dtype, out_dtype;
} td_ca_scan;

#endif
