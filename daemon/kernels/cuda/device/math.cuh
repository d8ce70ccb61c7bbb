/* The functions that expressions of the op table call: those of the CPU's loops, in the way of processors without fused arithmetic,
 * where doubles are the C library's. On a GPU the C library is CUDA's. Floats that go through double on the CPU do so here: slow on most cards, and the
 * CPU's bits. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_MATH_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_MATH_CUH

#include "daemon/kernels/cuda/device/element.cuh"

#ifdef __CUDACC__
#define lgamma_r(x, sign) ((void)(sign), lgamma(x))
#endif

#include "daemon/kernels/cpu/vec/math_more.h"
#include "daemon/kernels/cpu/vec/bessel.c"
#include "daemon/kernels/cpu/vec/gamma.c"
#include "daemon/kernels/cpu/vec/incomplete_gamma.c"
#include "daemon/kernels/cpu/vec/polynomials.c"
#include "daemon/kernels/cpu/vec/remainder.c"
#include "daemon/kernels/cpu/vec/special.c"

TD_FN float td_attr_f32(td_pw_attr a)
{
    return (float)a.re;
}
TD_FN double td_attr_f64(td_pw_attr a)
{
    return a.re;
}
TD_FN int64_t td_attr_i64(td_pw_attr a)
{
    return a.i;
}
TD_FN int32_t td_attr_i32(td_pw_attr a)
{
    return (int32_t)a.i;
}
TD_FN unsigned char td_attr_u8(td_pw_attr a)
{
    return (unsigned char)a.i;
}
TD_FN uint64_t td_attr_u64(td_pw_attr a)
{
    return (uint64_t)a.i;
}

#endif
