/* Kernels that move elements: copies by size, turned through shared memory where the other side is contiguous along another dimension, casts,
 * and what is made of nothing (numbers, sequences, the identity). */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_MOVE_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_MOVE_CUH

#include "daemon/kernels/cuda/device/element.cuh"

struct td_wide {
    uint64_t a, b;
};

TD_FN void td_copy_places(const td_ca_copy &a, int64_t i, int first, int64_t *to, int64_t *from)
{
    for (int d = first; d < a.ndim; d++) {
        int64_t n = a.shape[d], q, c;
        if (a.n <= INT32_MAX) {
            q = (uint32_t)i / (uint32_t)n;
        } else {
            q = i / n;
        }
        c = i - q * n;
        *to += c * a.to_stride[d];
        *from += c * a.from_stride[d];
        i = q;
    }
}

template <class T> TD_FN void td_copy(const td_ca_copy &a)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x, i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const T *from = (const T *)a.from;
    T *to = (T *)a.to, value;
    if (a.behind && *a.error) return;
    memcpy(&value, a.value, sizeof value);
    if (a.ndim <= 1) {
        const int64_t ts = a.ndim ? a.to_stride[0] : 0, fs = a.ndim ? a.from_stride[0] : 0;
        for (; i < a.n; i += step) to[i * ts] = from ? from[i * fs] : value;
        return;
    }
    for (; i < a.n; i += step) {
        int64_t t = 0, f = 0;
        td_copy_places(a, i, 0, &t, &f);
        to[t] = from ? from[f] : value;
    }
}

/* Tiles of 32 x 32 of dimensions 0, along which `to` is contiguous, and 1, along which `from` is. A block has 32 x 8 threads. */
template <class T> TD_FN void td_turn(const td_ca_copy &a, T (*tile)[33])
{
    int64_t tiles0 = (a.shape[0] + 31) / 32, tiles1 = (a.shape[1] + 31) / 32, b = blockIdx.x, t = 0, f = 0;
    int64_t i0 = b % tiles0 * 32, i1 = b / tiles0 % tiles1 * 32;
    if (a.behind && *a.error) return; /* all threads see the same */
    td_copy_places(a, b / tiles0 / tiles1, 2, &t, &f);
    const T *from = (const T *)a.from + f;
    T *to = (T *)a.to + t;
    for (int y = (int)threadIdx.y; y < 32; y += 8)
        if (i0 + y < a.shape[0] && i1 + threadIdx.x < a.shape[1])
            tile[y][threadIdx.x] = from[(i0 + y) * a.from_stride[0] + (i1 + threadIdx.x) * a.from_stride[1]];
    __syncthreads();
    for (int y = (int)threadIdx.y; y < 32; y += 8)
        if (i1 + y < a.shape[1] && i0 + threadIdx.x < a.shape[0])
            to[(i0 + threadIdx.x) * a.to_stride[0] + (i1 + y) * a.to_stride[1]] = tile[threadIdx.x][y];
}

#define TD_COPY(SIZE, T)                                                                                               \
    TD_KERNEL(copy_##SIZE, td_ca_copy)                                                                                 \
    {                                                                                                                  \
        td_copy<T>(a);                                                                                                 \
    }                                                                                                                  \
    TD_KERNEL_MEETS(turn_##SIZE, td_ca_copy)                                                                           \
    {                                                                                                                  \
        __shared__ T tile[32][33];                                                                                     \
        td_turn<T>(a, tile);                                                                                           \
    }
TD_COPY(1, uint8_t)
TD_COPY(2, uint16_t)
TD_COPY(4, uint32_t)
TD_COPY(8, uint64_t)
TD_COPY(16, td_wide)

template <class T> TD_FN void td_cast(const td_ca_copy &a)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    if (a.behind && *a.error) return;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step) {
        int64_t t = 0, f = 0;
        td_copy_places(a, i, 0, &t, &f);
        td_store<T>(a.to, t, a.to_dtype, td_load<T>(a.from, f, a.from_dtype));
    }
}
TD_KERNEL(cast_f32, td_ca_copy)
{
    td_cast<float>(a);
}
TD_KERNEL(cast_f64, td_ca_copy)
{
    td_cast<double>(a);
}
TD_KERNEL(cast_i64, td_ca_copy)
{
    td_cast<int64_t>(a);
}
TD_KERNEL(cast_u64, td_ca_copy)
{
    td_cast<uint64_t>(a);
}

/* The dtype of a complex number's parts. */
TD_FN unsigned td_part(unsigned dtype)
{
    if (dtype == TD_COMPLEX64) return TD_FLOAT32;
    return dtype == TD_COMPLEX128 ? (unsigned)TD_FLOAT64 : dtype;
}

/* From or to complex numbers: a pair of reals; what is real has no imaginary part, and of a complex one the real part is taken. */
TD_KERNEL(cast_complex, td_ca_copy)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    const bool from = a.from_dtype == TD_COMPLEX64 || a.from_dtype == TD_COMPLEX128,
               to = a.to_dtype == TD_COMPLEX64 || a.to_dtype == TD_COMPLEX128;
    const unsigned fd = td_part(a.from_dtype), td = td_part(a.to_dtype);
    if (a.behind && *a.error) return;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step) {
        int64_t t = 0, f = 0;
        td_copy_places(a, i, 0, &t, &f);
        const double re = td_load<double>(a.from, from ? 2 * f : f, fd), im = from ? td_load<double>(a.from, 2 * f + 1, fd) : 0;
        if (td == TD_BOOL) {
            ((uint8_t *)a.to)[t] = re != 0 || im != 0;
            continue;
        }
        td_store<double>(a.to, to ? 2 * t : t, td, re);
        if (to) td_store<double>(a.to, 2 * t + 1, td, im);
    }
}

/* From the nearer end, so that both ends are exact. */
TD_KERNEL(sequence, td_ca_sequence)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step) {
        if (a.whole) {
            td_store<int64_t>(a.to, i, a.dtype, (int64_t)((uint64_t)a.whole_start + (uint64_t)i * (uint64_t)a.whole_step));
            continue;
        }
        const bool near = i < a.n / 2;
        const double end = near ? a.start : a.end, by = near ? a.step : -a.step;
        td_store<double>(a.to, i, a.dtype, end + by * (double)(near ? i : a.n - 1 - i));
    }
}

TD_KERNEL(eye, td_ca_sequence)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    const bool pairs = a.dtype == TD_COMPLEX64 || a.dtype == TD_COMPLEX128;
    const unsigned dtype = td_part(a.dtype);
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step) {
        td_store<int64_t>(a.to, pairs ? 2 * i : i, dtype, i / a.columns == i % a.columns);
        if (pairs) td_store<int64_t>(a.to, 2 * i + 1, dtype, 0);
    }
}

#endif
