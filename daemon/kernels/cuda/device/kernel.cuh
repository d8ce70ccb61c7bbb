/* What both compilers of a kernel take: nvcc for a GPU, g++ for the host (host_kernel.h).
 *
 *     struct fill_args { uint64_t error, to, count; float value; };
 *     TD_KERNEL(fill, fill_args)
 *     {
 *         uint64_t i = td_thread();
 *         if (i < a.count) td_at<float>(a.to)[i] = a.value;
 *     }
 *
 * A kernel has one parameter, the struct `a`. Its first word is the address of the task's error word, and addresses in
 * it are words, which td_at() turns into pointers: on the host the bytes lie elsewhere. Kernels whose threads wait for
 * each other are not built for the host by this header alone. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_KERNEL_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_KERNEL_CUH

#include <stdint.h>

#ifdef __CUDACC__

#define TD_KERNEL(name, args) extern "C" __global__ void name(const __grid_constant__ args a)
template <typename T> __device__ inline T *td_at(uint64_t address)
{
    return (T *)address;
}
/* The first error of a task stays. */
__device__ inline void td_kernel_failed(uint64_t at, uint64_t error)
{
    atomicCAS((unsigned long long *)at, 0ull, (unsigned long long)error);
}

#else

#include "daemon/kernels/cuda/device/host_kernel.h"
#define __device__
#define __host__
struct td_host_index {
    unsigned x, y, z;
};
static thread_local td_host_index threadIdx, blockIdx, blockDim, gridDim;
static thread_local int64_t td_host_bias;

#define TD_KERNEL(name, args)                                                                                          \
    static void name##_thread(const args &a);                                                                          \
    static void name##_block(const void *a, const td_host_launch *l, const unsigned block[3])                          \
    {                                                                                                                  \
        td_host_block(l, block, [a] { name##_thread(*(const args *)a); });                                             \
    }                                                                                                                  \
    extern "C" __attribute__((visibility("default"))) const td_host_kernel name;                                       \
    const td_host_kernel name = {TD_HOST_KERNEL, sizeof(args), name##_block};                                          \
    static void name##_thread(const args &a)

/* Its threads, one after the other. */
template <typename F> static void td_host_block(const td_host_launch *l, const unsigned at[3], F thread)
{
    td_host_bias = l->bias;
    gridDim = {l->grid[0], l->grid[1], l->grid[2]};
    blockDim = {l->block[0], l->block[1], l->block[2]};
    blockIdx = {at[0], at[1], at[2]};
    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
        for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) thread();
}

template <typename T> static inline T *td_at(uint64_t address)
{
    return (T *)(address + td_host_bias);
}
/* Error words lie in memory of the host. */
static inline void td_kernel_failed(uint64_t at, uint64_t error)
{
    if (!*(uint64_t *)at) *(uint64_t *)at = error;
}

#endif

/* The number of this thread in a grid of one dimension. */
__device__ inline uint64_t td_thread()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

#endif
