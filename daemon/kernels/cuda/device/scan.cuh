/* Running sums and products of lines. What is carried is a double or a whole number, as on the CPU, and rounded at each element.
 *
 * Where there are many lines, or short ones, a thread goes down each. Else a block goes along a line in tiles, each thread with some elements in a row; a long
 * line is cut into pieces: their totals are folded, then scanned, then each piece goes on from what lies before it. The shape decides, so the bits do not depend
 * on the load. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_SCAN_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_SCAN_CUH

#include "daemon/kernels/cuda/args_scan.h"
#include "daemon/kernels/cuda/device/element.cuh"

enum { TD_SCAN_EACH = 4, TD_SCAN_TILE = TD_SCAN_EACH * TD_CUDA_THREADS };

template <class T> struct td_scan_sum {
    TD_FN T first()
    {
        return 0;
    }
    TD_FN T join(T a, T b)
    {
        return a + b;
    }
};
template <class T> struct td_scan_product {
    TD_FN T first()
    {
        return 1;
    }
    TD_FN T join(T a, T b)
    {
        return a * b;
    }
};

TD_FN void td_scan_places(const td_ca_scan &a, int64_t line, int64_t *x, int64_t *out)
{
    *x = *out = 0;
    for (int d = 0; d < a.ndim; d++) {
        const int64_t q = line / a.shape[d], c = line - q * a.shape[d];
        *x += c * a.x_stride[d];
        *out += c * a.out_stride[d];
        line = q;
    }
}

template <class T, class O> TD_FN void td_scan_down(const td_ca_scan &a)
{
    for (int64_t line = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; line < a.lines; line += (int64_t)gridDim.x * blockDim.x) {
        int64_t x, out;
        T carried = O::first();
        td_scan_places(a, line, &x, &out);
        for (int64_t i = 0; i < a.length; i++, x += a.x_step, out += a.out_step) {
            carried = O::join(carried, td_load<T>(a.x, x, a.x_dtype));
            td_store<T>(a.out, out, a.out_dtype, carried);
        }
    }
}

/* Of the block: *before is what the threads before this one have, the result what all have. */
template <class T, class O> TD_FN T td_scan_block(T *all, T mine, T *before)
{
    const int t = (int)threadIdx.x;
    all[t] = mine;
    __syncthreads();
    for (int d = 1; d < TD_CUDA_THREADS; d *= 2) {
        if (t >= d) mine = O::join(all[t - d], mine);
        __syncthreads();
        all[t] = mine;
        __syncthreads();
    }
    const T total = all[TD_CUDA_THREADS - 1];
    *before = t ? all[t - 1] : O::first();
    __syncthreads();
    return total;
}

/* The piece of this block: where it begins in x and in the result; its elements are [from, to) of the line. */
struct td_scan_piece {
    int64_t x, out, from, to;
};
TD_FN td_scan_piece td_scan_mine(const td_ca_scan &a)
{
    td_scan_piece p;
    const int64_t line = blockIdx.x / a.pieces;
    td_scan_places(a, line, &p.x, &p.out);
    p.from = (blockIdx.x - line * a.pieces) * a.piece;
    p.to = p.from + a.piece < a.length ? p.from + a.piece : a.length;
    return p;
}
/* Elements of this thread in the tile at `at`, each joined with those before it; its total. */
template <class T, class O> TD_FN T td_scan_load(const td_ca_scan &a, const td_scan_piece &p, int64_t at, T *v)
{
    T sum = O::first();
    for (int j = 0; j < TD_SCAN_EACH; j++) {
        if (at + j < p.to) sum = O::join(sum, td_load<T>(a.x, p.x + (at + j) * a.x_step, a.x_dtype));
        v[j] = sum;
    }
    return sum;
}

template <class T, class O> TD_FN void td_scan_along(const td_ca_scan &a, T *all)
{
    const td_scan_piece p = td_scan_mine(a);
    T carried = a.pieces > 1 ? ((const T *)(const void *)a.parts)[blockIdx.x] : O::first(), v[TD_SCAN_EACH], before;
    for (int64_t tile = p.from; tile < p.to; tile += TD_SCAN_TILE) {
        const int64_t at = tile + TD_SCAN_EACH * (int64_t)threadIdx.x;
        const T mine = td_scan_load<T, O>(a, p, at, v), total = td_scan_block<T, O>(all, mine, &before);
        before = O::join(carried, before);
        for (int j = 0; j < TD_SCAN_EACH && at + j < p.to; j++) td_store<T>(a.out, p.out + (at + j) * a.out_step, a.out_dtype, O::join(before, v[j]));
        carried = O::join(carried, total);
    }
}

/* The total of each piece. */
template <class T, class O> TD_FN void td_scan_fold(const td_ca_scan &a, T *all)
{
    const td_scan_piece p = td_scan_mine(a);
    T mine = O::first(), v[TD_SCAN_EACH], before;
    for (int64_t tile = p.from; tile < p.to; tile += TD_SCAN_TILE)
        mine = O::join(mine, td_scan_load<T, O>(a, p, tile + TD_SCAN_EACH * (int64_t)threadIdx.x, v));
    const T total = td_scan_block<T, O>(all, mine, &before);
    if (!threadIdx.x) ((T *)(void *)a.parts)[blockIdx.x] = total;
}

/* A block for each line: from totals to what lies before each piece. */
template <class T, class O> TD_FN void td_scan_parts(const td_ca_scan &a, T *all)
{
    T *parts = (T *)(void *)a.parts + (int64_t)blockIdx.x * a.pieces, carried = O::first(), before;
    for (int64_t tile = 0; tile < a.pieces; tile += TD_CUDA_THREADS) {
        const int64_t i = tile + threadIdx.x;
        const T mine = i < a.pieces ? parts[i] : O::first(), total = td_scan_block<T, O>(all, mine, &before);
        if (i < a.pieces) parts[i] = O::join(carried, before);
        carried = O::join(carried, total);
    }
}

#define TD_SCAN_WAY(WAY, NAME, T, OP)                                                                                  \
    TD_KERNEL_MEETS(scan_##WAY##_##NAME, td_ca_scan)                                                                   \
    {                                                                                                                  \
        __shared__ T all[TD_CUDA_THREADS];                                                                             \
        td_scan_##WAY<T, OP<T>>(a, all);                                                                               \
    }
#define TD_SCAN(NAME, T, OP)                                                                                           \
    TD_KERNEL(scan_down_##NAME, td_ca_scan)                                                                            \
    {                                                                                                                  \
        td_scan_down<T, OP<T>>(a);                                                                                     \
    }                                                                                                                  \
    TD_SCAN_WAY(fold, NAME, T, OP)                                                                                     \
    TD_SCAN_WAY(parts, NAME, T, OP)                                                                                    \
    TD_SCAN_WAY(along, NAME, T, OP)
TD_SCAN(sum_f64, double, td_scan_sum)
TD_SCAN(sum_i64, uint64_t, td_scan_sum)
TD_SCAN(product_f64, double, td_scan_product)
TD_SCAN(product_i64, uint64_t, td_scan_product)

#endif
