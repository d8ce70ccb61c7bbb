/* Kernels of tests, for a GPU (nvcc) and for the fake driver (g++). Each takes one struct, whose first word is the
 * address of an error word. */
#include <stdint.h>

#ifdef __CUDACC__
#define KERNEL(name, args) extern "C" __global__ void name(const __grid_constant__ args a)
#define FAILED(word, number) atomicCAS(word, 0u, (unsigned)(number))
#else
#include "daemon/kernels/cuda/device/host.h"
#define __device__
static thread_local struct {
    unsigned x;
} threadIdx, blockIdx, blockDim;
/* In one dimension. */
#define KERNEL(name, args)                                                                                             \
    static void name##_thread(const args &a);                                                                          \
    static void name(const unsigned *grid, const unsigned *block, unsigned, const void *a)                             \
    {                                                                                                                  \
        blockDim.x = block[0];                                                                                         \
        for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++)                                                       \
            for (threadIdx.x = 0; threadIdx.x < block[0]; threadIdx.x++) name##_thread(*(const args *)a);              \
    }                                                                                                                  \
    static void name##_thread(const args &a)
#define FAILED(word, number)                                                                                           \
    if (!*(word)) *(word) = (unsigned)(number)
#endif

static __device__ inline uint64_t thread_number()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

struct add_args {
    uint32_t *error;
    float *out;
    const float *a, *b;
    uint64_t count;
};
KERNEL(test_add, add_args)
{
    uint64_t i = thread_number();
    if (i < a.count) a.out[i] = a.a[i] + a.b[i];
}

/* Says that it failed, with this number. */
struct fail_args {
    uint32_t *error;
    uint64_t number;
};
KERNEL(test_fail, fail_args)
{
    if (!thread_number()) FAILED(a.error, a.number);
}

/* x / 2 + 1, so many times. */
struct slow_args {
    uint32_t *error;
    float *at;
    uint64_t count, rounds;
};
KERNEL(test_slow, slow_args)
{
    uint64_t i = thread_number();
    if (i >= a.count) return;
    float x = a.at[i];
    for (uint64_t r = 0; r < a.rounds; r++) x = x * 0.5f + 1.0f;
    a.at[i] = x;
}

/* Writes where nothing is. */
struct wild_args {
    uint32_t *error;
    float *at;
};
KERNEL(test_wild, wild_args)
{
    a.at[thread_number()] = 1.0f;
}

#ifndef __CUDACC__
extern "C" __attribute__((visibility("default"))) const td_host_kernel td_host_kernels[] = {
    {"test_add", sizeof(add_args), test_add},
    {"test_fail", sizeof(fail_args), test_fail},
    {"test_slow", sizeof(slow_args), test_slow},
    {"test_wild", sizeof(wild_args), test_wild},
};
extern "C" __attribute__((visibility("default"))) const unsigned td_host_kernel_count = sizeof td_host_kernels / sizeof *td_host_kernels;
#endif
