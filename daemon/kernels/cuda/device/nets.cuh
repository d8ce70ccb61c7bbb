/* Kernels of networks: softmax, norms, losses, optimizers. Sums are in double, by lanes that are joined by halves, and by pieces in order. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_NETS_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_NETS_CUH

#include "daemon/kernels/cuda/args_nets.h"
#include "daemon/kernels/cuda/device/fault.cuh"
#include "daemon/kernels/cuda/device/math.cuh"

TD_FN int64_t td_view_place(const int64_t *shape, const int64_t *stride, int ndim, int64_t i) /* innermost first */
{
    int64_t at = 0;
    for (int d = 0; d < ndim; d++) {
        int64_t q = i <= INT32_MAX ? (int64_t)((uint32_t)i / (uint32_t)shape[d]) : i / shape[d];
        at += (i - q * shape[d]) * stride[d];
        i = q;
    }
    return at;
}
/* Of dimensions [from, to) in the tensor's own order. */
TD_FN int64_t td_view_among(const int64_t *shape, const int64_t *stride, int from, int to, int64_t i)
{
    int64_t at = 0;
    for (int d = to - 1; d >= from; d--) {
        int64_t q = i <= INT32_MAX ? (int64_t)((uint32_t)i / (uint32_t)shape[d]) : i / shape[d];
        at += (i - q * shape[d]) * stride[d];
        i = q;
    }
    return at;
}
template <class T> TD_FN T td_view_load(const td_cuda_view &v, int64_t at)
{
    return td_load<T>(v.data, at, v.dtype);
}
TD_FN double td_vector_load(const td_cuda_vector &v, int64_t i, double otherwise)
{
    return v.data ? td_load<double>(v.data, i * v.stride, v.dtype) : otherwise;
}
TD_FN void td_vector_store(const td_cuda_vector &v, int64_t i, double x)
{
    if (v.data) td_store<double>(v.data, i * v.stride, v.dtype, x);
}

TD_FN float td_nexp(float x)
{
    return td_exp_f32(x);
}
TD_FN double td_nexp(double x)
{
    return exp(x);
}
TD_FN float td_nsqrt(float x)
{
    return sqrtf(x);
}
TD_FN double td_nsqrt(double x)
{
    return sqrt(x);
}

/* Sum, or largest, over the lanes of a result, for all of them. */
struct td_pair {
    double a, b;
};
template <bool MOST> TD_FN td_pair td_over_lanes(td_pair *all, int lane, int lanes, int gap, td_pair mine)
{
    const int t = (int)threadIdx.x;
    __syncthreads();
    all[t] = mine;
    __syncthreads();
    for (int half = lanes / 2; half; half /= 2) {
        if (lane < half) {
            const td_pair o = all[t + half * gap];
            if (MOST) {
                mine.a = mine.a != mine.a || mine.a > o.a ? mine.a : o.a;
            } else {
                mine.a += o.a;
                mine.b += o.b;
            }
            all[t] = mine;
        }
        __syncthreads();
    }
    return all[t - lane * gap];
}

/* ---- softmax and its kin */

template <class T> TD_FN void td_lines(const td_ca_lines &a, td_pair *all)
{
    const int t = (int)threadIdx.x, results = (int)blockDim.x / a.lanes, lane = a.columns ? t / results : t % a.lanes, gap = a.columns ? results : 1;
    const int64_t line = (int64_t)blockIdx.x * results + (a.columns ? t % results : t / a.lanes);
    const bool here = line < a.count, back = a.op >= TD_SOFTMAX_BACK;
    int64_t base[3] = {0, 0, 0};
    for (int k = 0; here && k < 2 + back; k++) base[k] = td_view_place(a.shape, a.v[k].stride, a.ndim, line);
    T m = 0, scale = 0;
    td_pair p = {-INFINITY, 0};
    if (!back) {
        for (int64_t i = lane; here && i < a.length; i += a.lanes) {
            const double x = (double)td_view_load<T>(a.v[1], base[1] + i * a.step[1]);
            p.a = p.a != p.a || p.a > x ? p.a : x;
        }
        m = (T)td_over_lanes<true>(all, lane, a.lanes, gap, p).a;
    }
    p.a = p.b = 0;
    for (int64_t i = lane; here && i < a.length; i += a.lanes) {
        const T x = td_view_load<T>(a.v[1], base[1] + i * a.step[1]);
        const T y = back ? td_view_load<T>(a.v[2], base[2] + i * a.step[2]) : (T)0;
        p.a += (double)(!back ? td_nexp(x - m) : a.op == TD_SOFTMAX_BACK ? x * y : x);
    }
    const double sum = td_over_lanes<false>(all, lane, a.lanes, gap, p).a;
    scale = a.op == TD_SOFTMAX ? (T)(1.0 / sum) : a.op == TD_LOG_SOFTMAX ? (T)log(sum) : (T)sum;
    for (int64_t i = lane; here && i < a.length; i += a.lanes) {
        const T x = td_view_load<T>(a.v[1], base[1] + i * a.step[1]);
        const T y = back ? td_view_load<T>(a.v[2], base[2] + i * a.step[2]) : (T)0;
        T r;
        if (a.op == TD_SOFTMAX) r = td_nexp(x - m) * scale;
        else if (a.op == TD_LOG_SOFTMAX) r = (x - m) - scale;
        else if (a.op == TD_SOFTMAX_BACK) r = y * (x - scale);
        else r = x - td_nexp(y) * scale;
        td_store<T>(a.v[0].data, base[0] + i * a.step[0], a.v[0].dtype, r);
    }
}
#define TD_NETS(NAME, ARGS, BODY)                                                                                      \
    TD_KERNEL_MEETS(NAME##_f32, ARGS)                                                                                  \
    {                                                                                                                  \
        __shared__ td_pair all[TD_CUDA_THREADS];                                                                       \
        BODY<float>(a, all);                                                                                           \
    }                                                                                                                  \
    TD_KERNEL_MEETS(NAME##_f64, ARGS)                                                                                  \
    {                                                                                                                  \
        __shared__ td_pair all[TD_CUDA_THREADS];                                                                       \
        BODY<double>(a, all);                                                                                          \
    }
TD_NETS(lines, td_ca_lines, td_lines)

/* ---- layer_norm: lanes for each row */

template <class T> TD_FN void td_layer(const td_ca_layer &a, td_pair *all)
{
    const int t = (int)threadIdx.x, lane = t % a.lanes;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / a.lanes) + t / a.lanes;
    const bool here = row < a.rows;
    const int64_t base = here ? td_view_among(a.shape, a.x.stride, 0, a.split, row) : 0;
    td_pair p = {0, 0};
    for (int64_t i = lane; here && i < a.cols; i += a.lanes) p.a += (double)td_view_load<T>(a.x, base + td_view_among(a.shape, a.x.stride, a.split, a.ndim, i));
    const double mean = td_over_lanes<false>(all, lane, a.lanes, 1, p).a / (a.cols ? (double)a.cols : 1);
    p.a = 0;
    for (int64_t i = lane; here && i < a.cols; i += a.lanes) {
        const double apart = (double)td_view_load<T>(a.x, base + td_view_among(a.shape, a.x.stride, a.split, a.ndim, i)) - mean;
        p.a += apart * apart;
    }
    const double rstd = 1 / sqrt(td_over_lanes<false>(all, lane, a.lanes, 1, p).a / (a.cols ? (double)a.cols : 1) + a.eps);
    const T r = (T)rstd, near = (T)mean, low = (T)(mean - (double)near);
    for (int64_t i = lane; here && i < a.cols; i += a.lanes) {
        T v = (td_view_load<T>(a.x, base + td_view_among(a.shape, a.x.stride, a.split, a.ndim, i)) - near - low) * r;
        if (a.w.data) v *= td_view_load<T>(a.w, td_view_among(a.shape, a.w.stride, a.split, a.ndim, i));
        if (a.b.data) v += td_view_load<T>(a.b, td_view_among(a.shape, a.b.stride, a.split, a.ndim, i));
        td_store<T>(a.y, row * a.cols + i, a.y_dtype, v);
    }
    if (lane || !here) return;
    td_store<double>(a.mean, row, a.stat_dtype, mean);
    td_store<double>(a.rstd, row, a.stat_dtype, rstd);
}
TD_NETS(layer, td_ca_layer, td_layer)

template <class T> TD_FN void td_layer_back(const td_ca_layer &a, td_pair *all)
{
    const int t = (int)threadIdx.x, lane = t % a.lanes;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / a.lanes) + t / a.lanes;
    const bool here = row < a.rows;
    const int64_t xb = here ? td_view_among(a.shape, a.x.stride, 0, a.split, row) : 0, gb = here ? td_view_among(a.shape, a.g.stride, 0, a.split, row) : 0;
    const double mean_in = here ? td_load<double>(a.mean, row, a.stat_dtype) : 0, rstd_in = here ? td_load<double>(a.rstd, row, a.stat_dtype) : 0;
    const T mean = (T)mean_in, rstd = (T)rstd_in;
    td_pair p = {0, 0};
    for (int64_t i = lane; here && i < a.cols; i += a.lanes) {
        T g = td_view_load<T>(a.g, gb + td_view_among(a.shape, a.g.stride, a.split, a.ndim, i));
        const T x = td_view_load<T>(a.x, xb + td_view_among(a.shape, a.x.stride, a.split, a.ndim, i));
        if (a.w.data) g *= td_view_load<T>(a.w, td_view_among(a.shape, a.w.stride, a.split, a.ndim, i));
        p.a += (double)g;
        p.b += (double)((x - mean) * g);
    }
    p = td_over_lanes<false>(all, lane, a.lanes, 1, p);
    const T sum = (T)(p.a / (double)a.cols), dot = (T)(p.b * rstd_in / (double)a.cols);
    for (int64_t i = lane; here && i < a.cols; i += a.lanes) {
        T g = td_view_load<T>(a.g, gb + td_view_among(a.shape, a.g.stride, a.split, a.ndim, i));
        const T x = td_view_load<T>(a.x, xb + td_view_among(a.shape, a.x.stride, a.split, a.ndim, i));
        if (a.w.data) g *= td_view_load<T>(a.w, td_view_among(a.shape, a.w.stride, a.split, a.ndim, i));
        td_store<T>(a.y, row * a.cols + i, a.y_dtype, rstd * (g - sum - (x - mean) * rstd * dot));
    }
}
TD_NETS(layer_back, td_ca_layer, td_layer_back)

/* Sums of dw and db of a piece of the rows: a thread a column. */
template <class T> TD_FN void td_layer_parts(const td_ca_layer &a)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, from = blockIdx.y * a.piece, to = from + a.piece < a.rows ? from + a.piece : a.rows;
    if (i >= a.cols) return;
    const int64_t xc = td_view_among(a.shape, a.x.stride, a.split, a.ndim, i), gc = td_view_among(a.shape, a.g.stride, a.split, a.ndim, i);
    double dw = 0, db = 0;
    for (int64_t row = from; row < to; row++) {
        const T g = td_view_load<T>(a.g, gc + td_view_among(a.shape, a.g.stride, 0, a.split, row));
        const T x = td_view_load<T>(a.x, xc + td_view_among(a.shape, a.x.stride, 0, a.split, row));
        dw += (double)(g * ((x - (T)td_load<double>(a.mean, row, a.stat_dtype)) * (T)td_load<double>(a.rstd, row, a.stat_dtype)));
        db += (double)g;
    }
    a.parts[blockIdx.y * a.cols + i] = dw;
    a.parts[(a.pieces + blockIdx.y) * a.cols + i] = db;
}
TD_KERNEL(layer_parts_f32, td_ca_layer)
{
    td_layer_parts<float>(a);
}
TD_KERNEL(layer_parts_f64, td_ca_layer)
{
    td_layer_parts<double>(a);
}
TD_KERNEL(layer_sums, td_ca_layer)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double dw = 0, db = 0;
    if (i >= a.cols) return;
    for (int64_t p = 0; p < a.pieces; p++) {
        dw += a.parts[p * a.cols + i];
        db += a.parts[(a.pieces + p) * a.cols + i];
    }
    if (a.mask & 2) td_store<double>(a.dw, i, a.w_dtype, dw);
    if (a.mask & 4) td_store<double>(a.db, i, a.b_dtype, db);
}

/* ---- batch_norm: pieces of each channel, then what they say of it, then the elements */

template <class T> TD_FN void td_batch_parts(const td_ca_batch &a, td_pair *all)
{
    const int lane = (int)threadIdx.x;
    const int64_t c = blockIdx.x, from = blockIdx.y * a.piece, to = from + a.piece < a.count ? from + a.piece : a.count;
    const bool back = a.g.data != 0;
    td_pair p = {0, 0};
    const double mean = back ? td_vector_load(a.mean, c, 0) : 0;
    for (int64_t i = from + lane; i < to; i += blockDim.x) {
        const T x = td_view_load<T>(a.x, c * a.x_channel + td_view_place(a.shape, a.x.stride, a.ndim, i));
        if (back) {
            const T g = td_view_load<T>(a.g, c * a.g_channel + td_view_place(a.shape, a.g.stride, a.ndim, i));
            p.a += (double)g;
            p.b += (double)((x - (T)mean) * g);
        } else {
            p.a += (double)x;
        }
    }
    p = td_over_lanes<false>(all, lane, (int)blockDim.x, 1, p);
    double *to_part = a.parts + (blockIdx.y * a.channels + c) * 3;
    if (!back) {
        const double n = (double)(to - from), own = p.a / n;
        td_pair q = {0, 0};
        for (int64_t i = from + lane; i < to; i += blockDim.x) {
            const double apart = (double)td_view_load<T>(a.x, c * a.x_channel + td_view_place(a.shape, a.x.stride, a.ndim, i)) - own;
            q.a += apart * apart;
        }
        q = td_over_lanes<false>(all, lane, (int)blockDim.x, 1, q);
        p.a = own;
        p.b = q.a;
    }
    if (lane) return;
    to_part[0] = p.a;
    to_part[1] = p.b;
}
TD_NETS(batch_parts, td_ca_batch, td_batch_parts)

TD_KERNEL(batch_settle, td_ca_batch)
{
    const int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double n = 0, mean = 0, m2 = 0, *out = a.parts + (a.pieces * a.channels + c) * 3;
    if (c >= a.channels) return;
    for (int64_t p = 0; a.training && p < a.pieces; p++) {
        const double *part = a.parts + (p * a.channels + c) * 3, m = (double)(p + 1 < a.pieces ? a.piece : a.count - p * a.piece);
        const double apart = part[0] - mean, all = n + m;
        if (m <= 0) continue;
        mean += apart * m / all;
        m2 += part[1] + apart * apart * n * m / all;
        n = all;
    }
    if (!a.training) mean = td_vector_load(a.running_mean, c, 0);
    const double var = !a.training ? td_vector_load(a.running_var, c, 1) : n > 0 ? m2 / n : 0, rstd = 1 / sqrt(var + a.eps);
    if (a.training && n > 0) {
        if (a.running_mean.data) td_vector_store(a.running_mean, c, (1 - a.momentum) * td_vector_load(a.running_mean, c, 0) + a.momentum * mean);
        if (a.running_var.data) td_vector_store(a.running_var, c, (1 - a.momentum) * td_vector_load(a.running_var, c, 0) + a.momentum * m2 / (n - 1));
    }
    td_vector_store(a.mean, c, mean);
    td_vector_store(a.rstd, c, rstd);
    out[0] = mean;
    out[1] = rstd * td_vector_load(a.w, c, 1);
    out[2] = td_vector_load(a.b, c, 0);
}
TD_KERNEL(batch_settle_back, td_ca_batch)
{
    const int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0, dot = 0, *out = a.parts + (a.pieces * a.channels + c) * 3;
    if (c >= a.channels) return;
    for (int64_t p = 0; p < a.pieces; p++) {
        sum += a.parts[(p * a.channels + c) * 3];
        dot += a.parts[(p * a.channels + c) * 3 + 1];
    }
    const double rstd = td_vector_load(a.rstd, c, 1), count = (double)a.count;
    if (a.mask & 2) td_vector_store(a.w, c, dot * rstd);
    if (a.mask & 4) td_vector_store(a.b, c, sum);
    out[0] = rstd * td_vector_load(a.running_mean, c, 1);
    out[1] = a.training ? sum / count : 0;
    out[2] = a.training ? dot * rstd * rstd / count : 0;
}
template <class T> TD_FN void td_batch_apply(const td_ca_batch &a)
{
    const int64_t all = a.channels * a.count, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < all; e += step) {
        /* innermost dimensions first, the channel behind the image: neighbours read side by side */
        const int64_t i = e % a.count, c = e / a.count;
        const double *of = a.parts + (a.pieces * a.channels + c) * 3;
        const T x = td_view_load<T>(a.x, c * a.x_channel + td_view_place(a.shape, a.x.stride, a.ndim, i));
        T r;
        if (a.g.data) {
            const T g = td_view_load<T>(a.g, c * a.g_channel + td_view_place(a.shape, a.g.stride, a.ndim, i));
            r = (T)of[0] * (g - (T)of[1] - (x - (T)td_vector_load(a.mean, c, 0)) * (T)of[2]);
        } else {
            const T near = (T)of[0], low = (T)(of[0] - (double)near);
            r = (x - near - low) * (T)of[1] + (T)of[2];
        }
        td_store<T>(a.y.data, c * a.y_channel + td_view_place(a.shape, a.y.stride, a.ndim, i), a.y.dtype, r);
    }
}
TD_KERNEL(batch_apply_f32, td_ca_batch)
{
    td_batch_apply<float>(a);
}
TD_KERNEL(batch_apply_f64, td_ca_batch)
{
    td_batch_apply<double>(a);
}

/* ---- nll_loss. A target is loaded once, checked, used. */

enum { TD_NLL_BAD = -1, TD_NLL_IGNORED = -2 };
TD_FN int64_t td_nll_target(const td_ca_nll &a, int64_t i)
{
    const int64_t t = td_view_load<int64_t>(a.target, td_view_place(a.shape, a.target.stride, a.ndim, i));
    if (t == a.ignore) return TD_NLL_IGNORED;
    if (t >= 0 && t < a.classes) return t;
    td_bad_index(a.error, i, t);
    return TD_NLL_BAD;
}
TD_KERNEL_MEETS(nll, td_ca_nll)
{
    __shared__ td_pair all[TD_CUDA_THREADS];
    const int lane = (int)threadIdx.x;
    const int64_t from = blockIdx.x * a.per, to = from + a.per < a.targets ? from + a.per : a.targets;
    td_pair p = {0, 0};
    for (int64_t i = from + lane; i < to; i += blockDim.x) {
        const int64_t t = td_nll_target(a, i);
        double loss = 0, weight = 0;
        if (t >= 0) {
            weight = td_vector_load(a.weight, t, 1);
            loss = -weight * td_view_load<double>(a.x, td_view_place(a.shape, a.x.stride, a.ndim, i) + t * a.class_step);
        }
        if (a.reduction == 0) td_store<double>(a.out, i, a.out_dtype, loss);
        p.a += loss;
        p.b += weight;
    }
    p = td_over_lanes<false>(all, lane, (int)blockDim.x, 1, p);
    if (lane) return;
    a.parts[2 * blockIdx.x] = p.a;
    a.parts[2 * blockIdx.x + 1] = p.b;
}
TD_KERNEL_MEETS(nll_sum, td_ca_nll)
{
    __shared__ td_pair all[TD_CUDA_THREADS];
    td_pair p = {0, 0};
    for (int64_t b = threadIdx.x; b < a.blocks; b += blockDim.x) {
        p.a += a.parts[2 * b];
        p.b += a.parts[2 * b + 1];
    }
    p = td_over_lanes<false>(all, (int)threadIdx.x, (int)blockDim.x, 1, p);
    if (threadIdx.x) return;
    if (a.reduction != 0) td_store<double>(a.out, 0, a.out_dtype, a.reduction == 1 ? p.a / p.b : p.a);
    td_vector_store(a.total, 0, a.reduction == 0 ? 0 : p.b);
}
/* dx, contiguous: rows x classes x inner. */
TD_KERNEL(nll_back, td_ca_nll)
{
    const int64_t n = a.targets * a.classes, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < n; e += step) {
        const int64_t c = e / a.inner % a.classes, i = e / (a.inner * a.classes) * a.inner + e % a.inner;
        const int64_t t = td_nll_target(a, i);
        double v = 0;
        if (t == c) {
            v = a.reduction == 0 ? -1 : -td_view_load<double>(a.x, 0);
            if (a.reduction == 1) v /= td_vector_load(a.total, 0, 1);
            v *= td_vector_load(a.weight, t, 1);
            if (a.reduction == 0) v *= td_view_load<double>(a.x, td_view_place(a.shape, a.x.stride, a.ndim, i));
        }
        td_store<double>(a.out, e, a.out_dtype, v);
    }
}

/* ---- optimizers: see cpu/optim.c */

TD_KERNEL(adam_count, td_ca_step)
{
    const double t = td_load<double>(a.step, 0, a.step_dtype) + 1;
    td_store<double>(a.step, 0, a.step_dtype, t);
    a.coef[0] = a.lr / (1 - pow(a.beta1, t));
    a.coef[1] = sqrt(1 - pow(a.beta2, t));
}
template <class T> TD_FN void td_sgd(const td_ca_step &a)
{
    const T lr = (T)a.lr, wd = (T)a.decay, mo = (T)a.momentum, damp = (T)a.damp;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step) {
        const int64_t at = td_view_place(a.shape, a.v[0].stride, a.ndim, i);
        const T p = td_view_load<T>(a.v[0], at), d = td_view_load<T>(a.v[1], td_view_place(a.shape, a.v[1].stride, a.ndim, i)) + wd * p;
        T move = d;
        if (a.v[2].data) {
            const int64_t bat = td_view_place(a.shape, a.v[2].stride, a.ndim, i);
            const T b = mo * td_view_load<T>(a.v[2], bat) + damp * d;
            td_store<T>(a.v[2].data, bat, a.v[2].dtype, b);
            move = a.nesterov ? d + mo * b : b;
        }
        td_store<T>(a.v[0].data, at, a.v[0].dtype, p - lr * move);
    }
}
template <class T> TD_FN void td_adam(const td_ca_step &a)
{
    const T b1 = (T)a.beta1, b2 = (T)a.beta2, eps = (T)a.eps, size = (T)a.coef[0], bias2 = (T)a.coef[1];
    const T a1 = (T)(1 - a.beta1), a2 = (T)(1 - a.beta2);
    const T keep = a.decoupled ? (T)(1 - a.lr * a.decay) : (T)1, wd = a.decoupled ? (T)0 : (T)a.decay;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step) {
        int64_t at[4];
        for (int k = 0; k < 4; k++) at[k] = td_view_place(a.shape, a.v[k].stride, a.ndim, i);
        const T w = td_view_load<T>(a.v[0], at[0]) * keep, d = td_view_load<T>(a.v[1], at[1]) + wd * w;
        const T m = b1 * td_view_load<T>(a.v[2], at[2]) + a1 * d, v = b2 * td_view_load<T>(a.v[3], at[3]) + a2 * (d * d);
        td_store<T>(a.v[2].data, at[2], a.v[2].dtype, m);
        td_store<T>(a.v[3].data, at[3], a.v[3].dtype, v);
        td_store<T>(a.v[0].data, at[0], a.v[0].dtype, w - size * (m / (td_nsqrt(v) / bias2 + eps)));
    }
}
#define TD_STEPS(NAME, BODY)                                                                                           \
    TD_KERNEL(NAME##_f32, td_ca_step)                                                                                  \
    {                                                                                                                  \
        BODY<float>(a);                                                                                                \
    }                                                                                                                  \
    TD_KERNEL(NAME##_f64, td_ca_step)                                                                                  \
    {                                                                                                                  \
        BODY<double>(a);                                                                                               \
    }
TD_STEPS(sgd, td_sgd)
TD_STEPS(adam, td_adam)

#endif
