/* Kernels of tests, for a GPU (nvcc) and for the fake driver (g++). */
#include "daemon/kernels/cuda/device/kernel.cuh"

struct add_args {
    uint64_t error, out, a, b, count;
};
TD_KERNEL(test_add, add_args)
{
    uint64_t i = td_thread();
    if (i < a.count) td_at<float>(a.out)[i] = td_at<float>(a.a)[i] + td_at<float>(a.b)[i];
}

/* Says that it failed, with this number. */
struct fail_args {
    uint64_t error, number;
};
TD_KERNEL(test_fail, fail_args)
{
    if (!td_thread()) td_kernel_failed(a.error, a.number);
}

/* Takes a while, then adds one to each. */
struct slow_args {
    uint64_t error, at, count, rounds;
};
TD_KERNEL(test_slow, slow_args)
{
    uint64_t i = td_thread();
    if (i >= a.count) return;
    float x = td_at<float>(a.at)[i];
    for (uint64_t r = 0; r < a.rounds; r++) x = x * 0.5f + 1.0f;
    td_at<float>(a.at)[i] = x;
}

/* Writes where nothing is. */
struct wild_args {
    uint64_t error, at;
};
TD_KERNEL(test_wild, wild_args)
{
    td_at<float>(a.at)[td_thread()] = 1.0f;
}
