/* What device code is written in: marks, and stand-ins for them on the host.
 *
 * The files of this folder are taken by nvcc, and by g++ for suites without a GPU: there a launch runs block by block
 * on one thread, and the threads of a block that meet are fibers (fibers.h). Invariant: no file here asks which of both
 * it is, but this one and what it includes. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_TARGET_H
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_TARGET_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TD_REAL_ONLY 1

#ifdef __CUDACC__
#define TD_DEVICE __device__
#define TD_FN static __device__ __forceinline__
#define TD_SPECIAL static __device__ __noinline__
#define TD_SPECIAL_PART TD_SPECIAL
#define TD_SPECIAL_INLINE TD_FN
#define TD_TABLE static __device__ const double
#define TD_KERNEL(name, args)                                                                                          \
    extern "C" __global__ void __launch_bounds__(256) td_k_##name(const __grid_constant__ args a)
#define TD_KERNEL_MEETS TD_KERNEL
#else
#include "daemon/kernels/cuda/device/fibers.h"
#define TD_DEVICE
#define TD_FN static inline __attribute__((unused))
#define TD_SPECIAL static __attribute__((unused))
#define TD_SPECIAL_PART TD_SPECIAL
#define TD_SPECIAL_INLINE TD_FN
#define TD_TABLE __attribute__((unused)) static const double
#endif

#define TD_UNUSED __attribute__((unused))

#endif
