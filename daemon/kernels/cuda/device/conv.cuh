/* Convolutions and pools of images, a thread an element, and a block a weight's gradient: any strides, one order of additions, no scratch memory. Honest and slow
 * beside a library. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_CONV_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_CONV_CUH

#include "daemon/kernels/cuda/args_conv.h"
#include "daemon/kernels/cuda/device/element.cuh"
#include "daemon/kernels/cuda/device/fault.cuh"

#define TD_EACH(i, all)                                                                                                \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, step_ = (int64_t)gridDim.x * blockDim.x; i < (all); i += step_)

/* i = ((a * nb + b) * nc + c) * nd + d. */
struct td_four {
    int64_t a, b, c, d;
};
TD_FN td_four td_split4(int64_t i, int64_t nb, int64_t nc, int64_t nd)
{
    td_four f;
    f.d = i % nd;
    i /= nd;
    f.c = i % nc;
    i /= nc;
    f.b = i % nb;
    f.a = i / nb;
    return f;
}
TD_FN int64_t td_at4(const td_cuda_image4 &t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return a * t.stride[0] + b * t.stride[1] + c * t.stride[2] + d * t.stride[3];
}
template <class T> TD_FN T td_of4(const td_cuda_image4 &t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return td_load<T>(t.data, td_at4(t, a, b, c, d), t.dtype);
}
template <class T> TD_FN void td_to4(const td_cuda_image4 &t, int64_t a, int64_t b, int64_t c, int64_t d, T v)
{
    td_store<T>(t.data, td_at4(t, a, b, c, d), t.dtype, v);
}

template <class T> TD_FN void td_conv(const td_ca_conv &a)
{
    const int64_t cg = a.c / a.groups, og = a.o / a.groups;
    TD_EACH(i, a.n * a.o * a.oh * a.ow)
    {
        const td_four f = td_split4(i, a.o, a.oh, a.ow);
        const int64_t first = f.b / og * cg;
        T sum = a.b ? td_load<T>(a.b, f.b * a.b_stride, a.b_dtype) : (T)0;
        for (int64_t c = 0; c < cg; c++)
            for (int64_t ky = 0; ky < a.kh; ky++) {
                const int64_t y = f.c * a.sh - a.ph + ky * a.dh;
                if (y < 0 || y >= a.h) continue;
                for (int64_t kx = 0; kx < a.kw; kx++) {
                    const int64_t x = f.d * a.sw - a.pw + kx * a.dw;
                    if (x >= 0 && x < a.w) sum += td_of4<T>(a.x, f.a, first + c, y, x) * td_of4<T>(a.k, f.b, c, ky, kx);
                }
            }
        td_to4<T>(a.y, f.a, f.b, f.c, f.d, sum);
    }
}
/* The gradient by x: what each output that saw an element gives back. */
template <class T> TD_FN void td_conv_x(const td_ca_conv &a)
{
    const int64_t cg = a.c / a.groups, og = a.o / a.groups;
    TD_EACH(i, a.n * a.c * a.h * a.w)
    {
        const td_four f = td_split4(i, a.c, a.h, a.w);
        const int64_t first = f.b / cg * og;
        T sum = 0;
        for (int64_t ky = 0; ky < a.kh; ky++) {
            const int64_t y = f.c + a.ph - ky * a.dh;
            if (y < 0 || y % a.sh || y / a.sh >= a.oh) continue;
            for (int64_t kx = 0; kx < a.kw; kx++) {
                const int64_t x = f.d + a.pw - kx * a.dw;
                if (x < 0 || x % a.sw || x / a.sw >= a.ow) continue;
                for (int64_t o = 0; o < og; o++) sum += td_of4<T>(a.y, f.a, first + o, y / a.sh, x / a.sw) * td_of4<T>(a.k, first + o, f.b % cg, ky, kx);
            }
        }
        td_to4<T>(a.x, f.a, f.b, f.c, f.d, sum);
    }
}
TD_FN double td_block_sum(double *all, double mine)
{
    const int t = (int)threadIdx.x;
    all[t] = mine;
    __syncthreads();
    for (int half = (int)blockDim.x / 2; half; half /= 2) {
        if (t < half) all[t] += all[t + half];
        __syncthreads();
    }
    return all[0];
}
/* The gradient by a weight: a block each. */
template <class T> TD_FN void td_conv_k(const td_ca_conv &a, double *all)
{
    const int64_t cg = a.c / a.groups, og = a.o / a.groups;
    const td_four f = td_split4(blockIdx.x, cg, a.kh, a.kw);
    const int64_t c = f.a / og * cg + f.b, places = a.oh * a.ow;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.n * places; i += blockDim.x) {
        const int64_t n = i / places, oy = i % places / a.ow, ox = i % a.ow, y = oy * a.sh - a.ph + f.c * a.dh, x = ox * a.sw - a.pw + f.d * a.dw;
        if (y >= 0 && y < a.h && x >= 0 && x < a.w) sum += (double)(td_of4<T>(a.y, n, f.a, oy, ox) * td_of4<T>(a.x, n, c, y, x));
    }
    sum = td_block_sum(all, sum);
    if (!threadIdx.x) td_to4<T>(a.k, f.a, f.b, f.c, f.d, (T)sum);
}
template <class T> TD_FN void td_conv_b(const td_ca_conv &a, double *all)
{
    const int64_t places = a.oh * a.ow;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.n * places; i += blockDim.x) sum += (double)td_of4<T>(a.y, i / places, blockIdx.x, i % places / a.ow, i % a.ow);
    sum = td_block_sum(all, sum);
    if (!threadIdx.x) td_store<T>(a.b, blockIdx.x * a.b_stride, a.b_dtype, (T)sum);
}

/* ---- pools */

template <class T, bool REAL> TD_FN void td_max_pool(const td_ca_pool &a)
{
    TD_EACH(i, a.n * a.c * a.oh * a.ow)
    {
        const td_four f = td_split4(i, a.c, a.oh, a.ow);
        T most = 0;
        int64_t best = -1;
        for (int64_t ky = 0; ky < a.kh; ky++) {
            const int64_t y = f.c * a.sh - a.ph + ky * a.dh;
            if (y < 0 || y >= a.h) continue;
            for (int64_t kx = 0; kx < a.kw; kx++) {
                const int64_t x = f.d * a.sw - a.pw + kx * a.dw;
                if (x < 0 || x >= a.w) continue;
                const T v = td_of4<T>(a.x, f.a, f.b, y, x);
                if (best < 0 || v > most || v != v) most = v, best = y * a.w + x;
            }
        }
        if (best < 0 && REAL) most = (T)-INFINITY;
        td_to4<T>(a.y, f.a, f.b, f.c, f.d, most);
        ((int64_t *)a.index.data)[td_at4(a.index, f.a, f.b, f.c, f.d)] = best;
    }
}
/* A plane each: zeroes, then what its outputs give, in order. */
template <class T> TD_FN void td_max_pool_back(const td_ca_pool &a)
{
    TD_EACH(plane, a.n * a.c)
    {
        const int64_t n = plane / a.c, c = plane % a.c;
        for (int64_t i = 0; i < a.h * a.w; i++) td_to4<T>(a.x, n, c, i / a.w, i % a.w, (T)0);
        for (int64_t i = 0; i < a.oh * a.ow; i++) {
            const int64_t at = td_load<int64_t>(a.index.data, td_at4(a.index, n, c, i / a.ow, i % a.ow), a.index.dtype);
            if (at < 0 || at >= a.h * a.w) {
                if (at != -1) td_bad_index(a.error, plane * a.oh * a.ow + i, at);
                continue;
            }
            td_to4<T>(a.x, n, c, at / a.w, at % a.w, td_of4<T>(a.x, n, c, at / a.w, at % a.w) + td_of4<T>(a.y, n, c, i / a.ow, i % a.ow));
        }
    }
}
/* The part of window `i` that lies inside; how long it is with padding. */
TD_FN int64_t td_window(int64_t i, int64_t size, int64_t k, int64_t s, int64_t pad, int64_t *from, int64_t *to)
{
    const int64_t first = i * s - pad, last = first + k < size + pad ? first + k : size + pad;
    *from = first < 0 ? 0 : first;
    *to = last < size ? last : size;
    return last - first;
}
template <class T> TD_FN T td_window_count(const td_ca_pool &a, int64_t oy, int64_t ox, int64_t *y0, int64_t *y1, int64_t *x0, int64_t *x1)
{
    const int64_t rows = td_window(oy, a.h, a.kh, a.sh, a.ph, y0, y1), cols = td_window(ox, a.w, a.kw, a.sw, a.pw, x0, x1);
    const int64_t inside = (*y1 > *y0 ? *y1 - *y0 : 0) * (*x1 > *x0 ? *x1 - *x0 : 0), all = a.include_pad ? rows * cols : inside;
    return (T)all;
}
template <class T> TD_FN void td_avg_pool(const td_ca_pool &a)
{
    TD_EACH(i, a.n * a.c * a.oh * a.ow)
    {
        const td_four f = td_split4(i, a.c, a.oh, a.ow);
        int64_t y0, y1, x0, x1;
        const T count = td_window_count<T>(a, f.c, f.d, &y0, &y1, &x0, &x1);
        T sum = 0;
        for (int64_t y = y0; y < y1; y++)
            for (int64_t x = x0; x < x1; x++) sum += td_of4<T>(a.x, f.a, f.b, y, x);
        td_to4<T>(a.y, f.a, f.b, f.c, f.d, sum / count);
    }
}
template <class T> TD_FN void td_avg_pool_back(const td_ca_pool &a)
{
    TD_EACH(i, a.n * a.c * a.h * a.w)
    {
        const td_four f = td_split4(i, a.c, a.h, a.w);
        /* windows o with o s - p <= place < o s - p + k */
        const int64_t oy1 = (f.c + a.ph) / a.sh, ox1 = (f.d + a.pw) / a.sw;
        int64_t oy0 = f.c + a.ph - a.kh < 0 ? 0 : (f.c + a.ph - a.kh) / a.sh + 1, ox0 = f.d + a.pw - a.kw < 0 ? 0 : (f.d + a.pw - a.kw) / a.sw + 1;
        T sum = 0;
        for (int64_t oy = oy0; oy <= oy1 && oy < a.oh; oy++)
            for (int64_t ox = ox0; ox <= ox1 && ox < a.ow; ox++) {
                int64_t y0, y1, x0, x1;
                const T count = td_window_count<T>(a, oy, ox, &y0, &y1, &x0, &x1);
                sum += td_of4<T>(a.y, f.a, f.b, oy, ox) / count;
            }
        td_to4<T>(a.x, f.a, f.b, f.c, f.d, sum);
    }
}

#define TD_CONV(S, T)                                                                                                  \
    TD_KERNEL(conv_##S, td_ca_conv)                                                                                    \
    {                                                                                                                  \
        td_conv<T>(a);                                                                                                 \
    }                                                                                                                  \
    TD_KERNEL(conv_x_##S, td_ca_conv)                                                                                  \
    {                                                                                                                  \
        td_conv_x<T>(a);                                                                                               \
    }                                                                                                                  \
    TD_KERNEL_MEETS(conv_k_##S, td_ca_conv)                                                                            \
    {                                                                                                                  \
        __shared__ double all[TD_CUDA_THREADS];                                                                        \
        td_conv_k<T>(a, all);                                                                                          \
    }                                                                                                                  \
    TD_KERNEL_MEETS(conv_b_##S, td_ca_conv)                                                                            \
    {                                                                                                                  \
        __shared__ double all[TD_CUDA_THREADS];                                                                        \
        td_conv_b<T>(a, all);                                                                                          \
    }                                                                                                                  \
    TD_KERNEL(max_pool_##S, td_ca_pool)                                                                                \
    {                                                                                                                  \
        td_max_pool<T, true>(a);                                                                                       \
    }                                                                                                                  \
    TD_KERNEL(max_pool_back_##S, td_ca_pool)                                                                           \
    {                                                                                                                  \
        td_max_pool_back<T>(a);                                                                                        \
    }                                                                                                                  \
    TD_KERNEL(avg_pool_##S, td_ca_pool)                                                                                \
    {                                                                                                                  \
        td_avg_pool<T>(a);                                                                                             \
    }                                                                                                                  \
    TD_KERNEL(avg_pool_back_##S, td_ca_pool)                                                                           \
    {                                                                                                                  \
        td_avg_pool_back<T>(a);                                                                                        \
    }
TD_CONV(f32, float)
TD_CONV(f64, double)

#endif
