/* softmax(q k' scale + mask) v of heads, and its gradients, without a matrix of scores: a block has one row of a result, and goes along the other side in tiles
 * of as many scores as it has threads. Each sum is one thread's, in the order of the shape, so no two runs differ. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_ATTENTION_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_ATTENTION_CUH

#include "daemon/kernels/cuda/args_attention.h"
#include "daemon/kernels/cuda/device/math.cuh"

enum { TD_ATTEND = TD_CUDA_THREADS };

TD_FN float td_att_exp(float x)
{
    return td_exp_f32(x);
}
TD_FN double td_att_exp(double x)
{
    return exp(x);
}
/* Places in a block's head of the queries, and in that of the keys which it looks at. */
struct td_att_head {
    int64_t b, h, k;
};
TD_FN int64_t td_att_place(const int64_t *stride, int64_t b, int64_t h, int64_t row)
{
    return b * stride[0] + h * stride[1] + row * stride[2];
}
template <class T> TD_FN T td_att_dot(const void *x, int64_t xs, int64_t xstep, const void *y, int64_t ys, int64_t ystep, int64_t n, unsigned dtype)
{
    T sum = 0;
    for (int64_t i = 0; i < n; i++) sum += td_load<T>(x, xs + i * xstep, dtype) * td_load<T>(y, ys + i * ystep, dtype);
    return sum;
}
/* Of query i and key j; minus infinity where it may not look. */
template <class T> TD_FN T td_att_score(const td_ca_attention &a, td_att_head o, int64_t i, int64_t j)
{
    if (a.causal && j > i) return (T)-INFINITY;
    const T s = (T)a.scale * td_att_dot<T>(a.q, td_att_place(a.qs, o.b, o.h, i), a.qs[3], a.k, td_att_place(a.ks, o.b, o.k, j), a.ks[3], a.e, a.dtype);
    if (!a.mask) return s;
    const int64_t at = td_att_place(a.ms, o.b, o.h, i) + j * a.ms[3];
    if (a.mask_dtype == TD_BOOL) return ((const uint8_t *)a.mask)[at] ? s : (T)-INFINITY;
    return s + td_load<T>(a.mask, at, a.mask_dtype);
}

/* Of all threads: the largest, or the sum. */
TD_FN double td_att_join(double *all, double mine, int most)
{
    const int t = (int)threadIdx.x;
    all[t] = mine;
    __syncthreads();
    for (int d = TD_ATTEND / 2; d; d /= 2) {
        if (t < d) all[t] = !most ? all[t] + all[t + d] : all[t] > all[t + d] ? all[t] : all[t + d];
        __syncthreads();
    }
    const double joined = all[0];
    __syncthreads();
    return joined;
}

template <class T> TD_FN void td_attend(const td_ca_attention &a, double *all, T *tile)
{
    const int t = (int)threadIdx.x;
    const int64_t row = blockIdx.x, i = row % a.rows, h = row / a.rows % a.heads;
    const td_att_head o = {row / a.rows / a.heads, h, h / a.group};
    const int64_t keys = a.causal && i + 1 < a.keys ? i + 1 : a.keys;
    T most = (T)-INFINITY;
    double sum = 0;
    for (int64_t j = t; j < keys; j += TD_ATTEND) {
        const T s = td_att_score<T>(a, o, i, j);
        if (s == (T)-INFINITY) continue;
        if (s <= most) {
            sum += (double)td_att_exp(s - most);
            continue;
        }
        sum = (most == (T)-INFINITY ? 0 : sum * (double)td_att_exp(most - s)) + (double)td_att_exp(s - s);
        most = s;
    }
    const T top = (T)td_att_join(all, (double)most, 1);
    const bool seen = top != (T)-INFINITY;
    sum = td_att_join(all, most == (T)-INFINITY ? sum : sum * (double)td_att_exp(most - top), 0);
    for (int64_t f0 = 0; f0 < a.f; f0 += TD_ATTEND) {
        T y = 0;
        for (int64_t j0 = 0; j0 < keys; j0 += TD_ATTEND) {
            tile[t] = j0 + t < keys && seen ? td_att_exp(td_att_score<T>(a, o, i, j0 + t) - top) : (T)0;
            __syncthreads();
            for (int j = 0; f0 + t < a.f && j < TD_ATTEND && j0 + j < keys; j++)
                y += tile[j] * td_load<T>(a.v, td_att_place(a.vs, o.b, o.k, j0 + j) + (f0 + t) * a.vs[3], a.dtype);
            __syncthreads();
        }
        if (f0 + t < a.f) td_store<T>(a.out, row * a.f + f0 + t, a.dtype, sum != 0 ? y * (T)(1 / sum) : y);
    }
    if (!t) td_store<double>(a.lse, row, a.lse_dtype, sum == 0 ? 0 : (double)top + log(sum));
}

/* What the score of i and j weighs (*weight), and what its change does: weight times (g_i v_j - g_i y_i). */
template <class T> TD_FN T td_att_change(const td_ca_attention &a, td_att_head o, int64_t i, int64_t j, T *weight)
{
    const T s = td_att_score<T>(a, o, i, j);
    *weight = 0;
    if (s == (T)-INFINITY) return 0;
    const int64_t g = td_att_place(a.gs, o.b, o.h, i);
    *weight = td_att_exp(s - td_load<T>(a.lse, o.b * a.ls[0] + o.h * a.ls[1] + i * a.ls[2], a.lse_dtype));
    const T by_value = td_att_dot<T>(a.g, g, a.gs[3], a.v, td_att_place(a.vs, o.b, o.k, j), a.vs[3], a.f, a.dtype);
    const T by_row = td_att_dot<T>(a.g, g, a.gs[3], a.y, td_att_place(a.ys, o.b, o.h, i), a.ys[3], a.f, a.dtype);
    return *weight * (by_value - by_row);
}
template <class T> TD_FN void td_attend_dq(const td_ca_attention &a, T *tile)
{
    const int t = (int)threadIdx.x;
    const int64_t row = blockIdx.x, i = row % a.rows, h = row / a.rows % a.heads;
    const td_att_head o = {row / a.rows / a.heads, h, h / a.group};
    const int64_t keys = a.causal && i + 1 < a.keys ? i + 1 : a.keys;
    T weight;
    for (int64_t e0 = 0; e0 < a.e; e0 += TD_ATTEND) {
        T sum = 0;
        for (int64_t j0 = 0; j0 < keys; j0 += TD_ATTEND) {
            tile[t] = j0 + t < keys ? td_att_change<T>(a, o, i, j0 + t, &weight) : (T)0;
            __syncthreads();
            for (int j = 0; e0 + t < a.e && j < TD_ATTEND && j0 + j < keys; j++)
                sum += tile[j] * td_load<T>(a.k, td_att_place(a.ks, o.b, o.k, j0 + j) + (e0 + t) * a.ks[3], a.dtype);
            __syncthreads();
        }
        if (e0 + t < a.e) td_store<T>(a.out, row * a.e + e0 + t, a.dtype, sum * (T)a.scale);
    }
}
/* Of a key, by what changes scores and queries; or of a value, by weights and gradients. */
template <class T> TD_FN void td_attend_pair(const td_ca_attention &a, T *tile, bool of_key)
{
    const int t = (int)threadIdx.x;
    const int64_t row = blockIdx.x, j = row % a.keys, pair = row / a.keys % a.pairs, width = of_key ? a.e : a.f;
    const void *x = of_key ? a.q : a.g;
    const int64_t *stride = of_key ? a.qs : a.gs;
    T weight;
    for (int64_t e0 = 0; e0 < width; e0 += TD_ATTEND) {
        T sum = 0;
        for (int64_t head = 0; head < a.group; head++) {
            const td_att_head o = {row / a.keys / a.pairs, pair * a.group + head, pair};
            for (int64_t i0 = a.causal ? j : 0; i0 < a.rows; i0 += TD_ATTEND) {
                const T change = i0 + t < a.rows ? td_att_change<T>(a, o, i0 + t, j, &weight) : (T)0;
                tile[t] = i0 + t >= a.rows ? (T)0 : of_key ? change : weight;
                __syncthreads();
                for (int i = 0; e0 + t < width && i < TD_ATTEND && i0 + i < a.rows; i++)
                    sum += tile[i] * td_load<T>(x, td_att_place(stride, o.b, o.h, i0 + i) + (e0 + t) * stride[3], a.dtype);
                __syncthreads();
            }
        }
        if (e0 + t < width) td_store<T>(a.out, row * width + e0 + t, a.dtype, of_key ? sum * (T)a.scale : sum);
    }
}

#define TD_ATTENTION(NAME, T)                                                                                          \
    TD_KERNEL_MEETS(attend_##NAME, td_ca_attention)                                                                    \
    {                                                                                                                  \
        __shared__ double all[TD_ATTEND];                                                                              \
        __shared__ T tile[TD_ATTEND];                                                                                  \
        td_attend<T>(a, all, tile);                                                                                    \
    }                                                                                                                  \
    TD_KERNEL_MEETS(attend_dq_##NAME, td_ca_attention)                                                                 \
    {                                                                                                                  \
        __shared__ T tile[TD_ATTEND];                                                                                  \
        td_attend_dq<T>(a, tile);                                                                                      \
    }                                                                                                                  \
    TD_KERNEL_MEETS(attend_dk_##NAME, td_ca_attention)                                                                 \
    {                                                                                                                  \
        __shared__ T tile[TD_ATTEND];                                                                                  \
        td_attend_pair<T>(a, tile, true);                                                                              \
    }                                                                                                                  \
    TD_KERNEL_MEETS(attend_dv_##NAME, td_ca_attention)                                                                 \
    {                                                                                                                  \
        __shared__ T tile[TD_ATTEND];                                                                                  \
        td_attend_pair<T>(a, tile, false);                                                                             \
    }
TD_ATTENTION(f32, float)
TD_ATTENTION(f64, double)

#endif
