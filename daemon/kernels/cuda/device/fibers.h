/* A GPU's threads on the host: indices, and blocks whose threads meet.
 *
 * Threads of a kernel that never meet run one after the other. Where there are barriers (TD_KERNEL_MEETS) each is a
 * fiber, that runs until it arrives; when all have, they go on. A barrier that some threads of a block never reach ends
 * the program: on a GPU it would hang or be undefined. __shared__ memory is static, one block's at a time on each
 * thread of the host. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_FIBERS_H
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_FIBERS_H

#include "daemon/kernels/cuda/device/host.h"

struct td_dim3 {
    unsigned x, y, z;
};
/* Of the thread that runs. */
struct td_thread {
    td_dim3 thread, block, threads, blocks;
};
extern thread_local td_thread td_now;
#define threadIdx td_now.thread
#define blockIdx td_now.block
#define blockDim td_now.threads
#define gridDim td_now.blocks

#define __shared__ static thread_local

void td_fiber_meet(); /* of the block */
void td_run_alone(const unsigned *grid, const unsigned *block, void (*body)(const void *), const void *args);
void td_run_meeting(const unsigned *grid, const unsigned *block, void (*body)(const void *), const void *args);
static inline void __syncthreads()
{
    td_fiber_meet();
}
static inline unsigned atomicOr(unsigned *to, unsigned bits)
{
    return __atomic_fetch_or(to, bits, __ATOMIC_RELAXED);
}
static inline unsigned atomicCAS(unsigned *at, unsigned old, unsigned now)
{
    __atomic_compare_exchange_n(at, &old, now, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return old;
}
static inline unsigned atomicExch(unsigned *at, unsigned now)
{
    return __atomic_exchange_n(at, now, __ATOMIC_ACQ_REL);
}
static inline void __threadfence()
{
}

#define TD_KERNEL_HOST(name, Args, how)                                                                                \
    static void td_body_##name(const Args &a);                                                                         \
    static void td_thread_##name(const void *args)                                                                     \
    {                                                                                                                  \
        td_body_##name(*(const Args *)args);                                                                           \
    }                                                                                                                  \
    extern "C" void td_k_##name(const unsigned *grid, const unsigned *block, unsigned, const void *args);              \
    extern "C" void td_k_##name(const unsigned *grid, const unsigned *block, unsigned, const void *args)               \
    {                                                                                                                  \
        how(grid, block, td_thread_##name, args);                                                                      \
    }                                                                                                                  \
    static void td_body_##name(const Args &a)
#define TD_KERNEL(name, args) TD_KERNEL_HOST(name, args, td_run_alone)
#define TD_KERNEL_MEETS(name, args) TD_KERNEL_HOST(name, args, td_run_meeting)

#endif
