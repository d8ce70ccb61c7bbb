/* A kernel of a GPU, built for the host: how it lies in a shared library, and how whoever stands in for a GPU runs it.
 *
 * The library exports each kernel's name as a td_host_kernel. Blocks of a launch run one after the other, each by one
 * call. The bytes of the device lie where kernels may touch them, `bias` behind their device addresses. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_HOST_KERNEL_H
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_HOST_KERNEL_H

#include <stdint.h>

#define TD_HOST_KERNEL UINT32_C(0x6b686474)

typedef struct td_host_launch {
    unsigned grid[3], block[3], shared_bytes;
    int64_t bias;
} td_host_launch;

typedef struct td_host_kernel {
    uint32_t magic;
    uint32_t args_bytes; /* of its one parameter, a struct */
    void (*run)(const void *args, const td_host_launch *l, const unsigned block[3]);
} td_host_kernel;

#endif
