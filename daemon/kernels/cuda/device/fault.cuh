/* What a kernel leaves when an index is bad. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_FAULT_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_FAULT_CUH

#include "daemon/kernels/cuda/args.h"
#include "daemon/kernels/cuda/device/target.h"
#include "daemon/kernels/cuda/fault.h"

/* The first element that met a bad index, and the index, are kept. Few threads come here. */
TD_FN void td_bad_index(uint32_t *error, int64_t at, int64_t index)
{
    td_cuda_fault *f = (td_cuda_fault *)(void *)error;
    volatile td_cuda_fault *now = f;
    while (!(now->bits & TD_CUDA_BAD_INDEX) || at < now->at) {
        if (atomicCAS(&f->lock, 0u, 1u)) continue;
        __threadfence();
        if (!(now->bits & TD_CUDA_BAD_INDEX) || at < now->at) {
            now->at = at;
            now->index = index;
            __threadfence();
            atomicOr(&f->bits, (unsigned)TD_CUDA_BAD_INDEX);
        }
        __threadfence();
        atomicExch(&f->lock, 0u);
        return;
    }
}

#endif
