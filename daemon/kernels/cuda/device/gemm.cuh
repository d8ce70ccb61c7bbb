/* Products of matrices of any strides, by tiles in shared memory: each thread of a block has a small square of the tile in registers.
 *
 * The order of additions follows from the shape: along k, in pieces that a second launch adds in order. This is the one file in which products and sums
 * may be fused. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_GEMM_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_GEMM_CUH

#include "daemon/kernels/cuda/device/element.cuh"

template <class T> struct td_scales { /* of floats */
    TD_FN T alpha(const td_ca_gemm &a)
    {
        return (T)a.alpha;
    }
    TD_FN T beta(const td_ca_gemm &a)
    {
        return (T)a.beta;
    }
    enum { DTYPE = sizeof(T) == 4 ? TD_FLOAT32 : TD_FLOAT64 };
};
template <> struct td_scales<uint64_t> { /* of whole numbers, which wrap */
    TD_FN uint64_t alpha(const td_ca_gemm &a)
    {
        return (uint64_t)a.whole_alpha;
    }
    TD_FN uint64_t beta(const td_ca_gemm &a)
    {
        return (uint64_t)a.whole_beta;
    }
    enum { DTYPE = TD_UINT64 };
};

template <class T> TD_FN T td_factor(const void *p, int64_t at, unsigned dtype)
{
    if (dtype == td_scales<T>::DTYPE) return ((const T *)p)[at];
    return td_load<T>(p, at, dtype);
}

template <class T> TD_FN void td_gemm_store(const td_ca_gemm &a, int64_t batch, int64_t i, int64_t j, T sum)
{
    T v = td_scales<T>::alpha(a) * sum;
    if (a.x) v += td_scales<T>::beta(a) * td_load<T>(a.x, batch * a.xs.batch + i * a.xs.row + j * a.xs.col, a.x_dtype);
    td_store<T>(a.c, batch * a.cs.batch + i * a.cs.row + j * a.cs.col, a.c_dtype, v);
}

/* A tile of BM x BN of one batch and piece: blockIdx.x counts the tiles of all batches, blockIdx.y pieces. 256 threads have EACH x EACH of it. */
template <class T, int EACH> struct td_tile {
    enum { SIDE = 16 * EACH, DEPTH = 16 };
    T a[DEPTH][SIDE + 1], b[DEPTH][SIDE + 1];
};
template <class T, int EACH> TD_FN void td_gemm(const td_ca_gemm &a, td_tile<T, EACH> &s)
{
    enum { SIDE = td_tile<T, EACH>::SIDE, DEPTH = td_tile<T, EACH>::DEPTH };
    const int t = (int)threadIdx.x, tx = t % 16, ty = t / 16;
    const int64_t across = (a.n + SIDE - 1) / SIDE, tiles = (a.m + SIDE - 1) / SIDE * across, batch = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    const int64_t i0 = tile / across * SIDE, j0 = tile % across * SIDE, from = blockIdx.y * a.piece,
                  to = from + a.piece < a.k ? from + a.piece : a.k;
    const int64_t abase = batch * a.as.batch, bbase = batch * a.bs.batch;
    const bool along_a = a.as.col == 1, along_b = a.bs.row == 1; /* k is the contiguous dimension */
    T sum[EACH][EACH];
#pragma unroll
    for (int y = 0; y < EACH; y++)
#pragma unroll
        for (int x = 0; x < EACH; x++) sum[y][x] = 0;
    for (int64_t p0 = from; p0 < to; p0 += DEPTH) {
#pragma unroll
        for (int l = 0; l < SIDE * DEPTH / 256; l++) {
            const int e = t + l * 256;
            const int pa = along_a ? e % DEPTH : e / SIDE, ia = along_a ? e / DEPTH : e % SIDE;
            const int pb = along_b ? e % DEPTH : e / SIDE, jb = along_b ? e / DEPTH : e % SIDE;
            s.a[pa][ia] = i0 + ia < a.m && p0 + pa < to ? td_factor<T>(a.a, abase + (i0 + ia) * a.as.row + (p0 + pa) * a.as.col, a.a_dtype) : 0;
            s.b[pb][jb] = j0 + jb < a.n && p0 + pb < to ? td_factor<T>(a.b, bbase + (p0 + pb) * a.bs.row + (j0 + jb) * a.bs.col, a.b_dtype) : 0;
        }
        __syncthreads();
#pragma unroll
        for (int p = 0; p < DEPTH; p++) {
            T u[EACH], v[EACH];
#pragma unroll
            for (int y = 0; y < EACH; y++) u[y] = s.a[p][ty + 16 * y];
#pragma unroll
            for (int x = 0; x < EACH; x++) v[x] = s.b[p][tx + 16 * x];
#pragma unroll
            for (int y = 0; y < EACH; y++)
#pragma unroll
                for (int x = 0; x < EACH; x++) sum[y][x] += u[y] * v[x];
        }
        __syncthreads();
    }
#pragma unroll
    for (int y = 0; y < EACH; y++) {
#pragma unroll
        for (int x = 0; x < EACH; x++) {
            const int64_t i = i0 + ty + 16 * y, j = j0 + tx + 16 * x;
            if (i >= a.m || j >= a.n) continue;
            if (a.pieces == 1) td_gemm_store<T>(a, batch, i, j, sum[y][x]);
            else ((T *)a.parts)[((blockIdx.y * a.batch + batch) * a.m + i) * a.n + j] = sum[y][x];
        }
    }
}

template <class T> TD_FN void td_gemm_sum(const td_ca_gemm &a)
{
    const int64_t all = a.batch * a.m * a.n, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < all; e += step) {
        T sum = 0;
        for (int64_t p = 0; p < a.pieces; p++) sum += ((const T *)a.parts)[p * all + e];
        td_gemm_store<T>(a, e / (a.m * a.n), e / a.n % a.m, e % a.n, sum);
    }
}

#define TD_GEMM(NAME, T, EACH)                                                                                         \
    TD_KERNEL_MEETS(NAME, td_ca_gemm)                                                                                  \
    {                                                                                                                  \
        typedef td_tile<T, EACH> tile;                                                                                 \
        __shared__ tile s;                                                                                             \
        td_gemm<T, EACH>(a, s);                                                                                        \
    }
#define TD_GEMM_SUM(NAME, T)                                                                                           \
    TD_KERNEL(NAME, td_ca_gemm)                                                                                        \
    {                                                                                                                  \
        td_gemm_sum<T>(a);                                                                                             \
    }
TD_GEMM(gemm_f32, float, 4)
TD_GEMM(gemm_f64, double, 4)
TD_GEMM(gemm_i64, uint64_t, 4)
TD_GEMM(gemm_large_f32, float, 8)
TD_GEMM_SUM(gemm_sum_f32, float)
TD_GEMM_SUM(gemm_sum_f64, double)
TD_GEMM_SUM(gemm_sum_i64, uint64_t)

#endif
