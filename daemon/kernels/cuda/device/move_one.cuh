/* One element, moved as it is; and what kernels share that walk over elements. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_MOVE_ONE_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_MOVE_ONE_CUH

#include "daemon/kernels/cuda/device/element.cuh"

/* Bytes of an element as they are. */
TD_FN void td_move_element(void *to, int64_t t, const void *from, int64_t f, int size)
{
    switch (size) {
    case 1: ((uint8_t *)to)[t] = ((const uint8_t *)from)[f]; break;
    case 2: ((uint16_t *)to)[t] = ((const uint16_t *)from)[f]; break;
    case 4: ((uint32_t *)to)[t] = ((const uint32_t *)from)[f]; break;
    case 8: ((uint64_t *)to)[t] = ((const uint64_t *)from)[f]; break;
    default:
        ((uint64_t *)to)[2 * t] = ((const uint64_t *)from)[2 * f];
        ((uint64_t *)to)[2 * t + 1] = ((const uint64_t *)from)[2 * f + 1];
    }
}
TD_FN int64_t td_quotient(int64_t i, int64_t n)
{
    return i <= INT32_MAX && n <= INT32_MAX ? (int64_t)((uint32_t)i / (uint32_t)n) : i / n;
}
#define TD_GRID(i, n)                                                                                                  \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, step_ = (int64_t)gridDim.x * blockDim.x; i < (n); i += step_)

#endif
