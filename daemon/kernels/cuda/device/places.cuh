/* Kernels that read and write by index, put tensors together, and draw numbers. An index is loaded once, checked, used. What is added at indices
 * is added in their order, by one thread a line, so that no two runs differ. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_PLACES_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_PLACES_CUH

#include "daemon/kernels/cuda/args_places.h"
#include "daemon/kernels/cuda/device/fault.cuh"
#include "daemon/kernels/cuda/device/move_one.cuh"

#include "daemon/kernels/cpu/vec/philox_one.h"

TD_KERNEL(pick, td_ca_pick)
{
    TD_GRID(i, a.n)
    {
        int64_t rest = i, x = 0, at = 0;
        for (int d = 0; d < a.ndim; d++) {
            const int64_t q = td_quotient(rest, a.shape[d]), c = rest - q * a.shape[d];
            x += c * a.x_stride[d];
            at += c * a.idx_stride[d];
            rest = q;
        }
        const int64_t index = td_load<int64_t>(a.idx, at, a.idx_dtype);
        if (index < 0 || index >= a.limit) {
            td_bad_index(a.error, i, index);
            return;
        }
        td_move_element(a.out, i, a.x, x + index * a.dim_stride, a.size);
    }
}

TD_KERNEL(parts, td_ca_parts)
{
    TD_GRID(i, a.outer * a.total)
    {
        const int64_t o = td_quotient(i, a.total), e = i - o * a.total;
        int low = 0, high = a.count - 1;
        while (low < high) { /* the last part that starts at or before e */
            const int mid = (low + high + 1) / 2;
            if (a.start[mid] <= e) low = mid;
            else high = mid - 1;
        }
        const int64_t end = low + 1 < a.count ? a.start[low + 1] : a.total, length = end - a.start[low];
        td_move_element(a.to, i, a.from[low], o * length + e - a.start[low], a.size);
    }
}

TD_KERNEL(slice, td_ca_slice)
{
    TD_GRID(i, a.n)
    {
        int64_t rest = i, x = 0, s = 0;
        bool taken = true;
        for (int d = 0; d < a.ndim; d++) {
            const int64_t q = td_quotient(rest, a.shape[d]), c = rest - q * a.shape[d];
            x += c * a.x_stride[d];
            if (d == a.dim) {
                const int64_t off = c - a.start;
                taken = off >= 0 && off % a.step == 0 && off / a.step < a.length;
                s += off / a.step * a.src_stride[d];
            } else {
                s += c * a.src_stride[d];
            }
            rest = q;
        }
        td_move_element(a.to, i, taken ? a.src : a.x, taken ? s : x, a.size);
    }
}

/* Columns are dimension 0, rows 1. */
TD_KERNEL(triangle, td_ca_triangle)
{
    const uint64_t zero[2] = {0, 0};
    TD_GRID(i, a.n)
    {
        int64_t rest = i, x = 0, column = 0, row = 0;
        for (int d = 0; d < a.ndim; d++) {
            const int64_t q = td_quotient(rest, a.shape[d]), c = rest - q * a.shape[d];
            x += c * a.stride[d];
            if (d == 0) column = c;
            if (d == 1) row = c;
            rest = q;
        }
        const bool kept = a.lower ? column - row <= a.diagonal : column - row >= a.diagonal;
        td_move_element(a.to, i, kept ? a.x : zero, kept ? x : 0, a.size);
    }
}

TD_FN void td_line_places(const td_ca_add &a, int64_t line, int64_t *out, int64_t *src, int64_t *idx)
{
    *out = *src = *idx = 0;
    for (int d = 0; d < a.ndim; d++) {
        const int64_t q = td_quotient(line, a.shape[d]), c = line - q * a.shape[d];
        *out += c * a.out_stride[d];
        *src += c * a.src_stride[d];
        *idx += c * a.idx_stride[d];
        line = q;
    }
}
/* Nothing is written when one of the indices is out of range. */
TD_KERNEL(add_check, td_ca_add)
{
    TD_GRID(e, a.lines * a.count)
    {
        int64_t out, src, idx;
        const int64_t line = e / a.count, k = e % a.count;
        td_line_places(a, line, &out, &src, &idx);
        const int64_t index = td_load<int64_t>(a.idx, idx + k * a.idx_step, a.idx_dtype);
        if (index < 0 || index >= a.length) td_bad_index(a.error, e, index);
    }
}
template <class T> TD_FN void td_add(const td_ca_add &a, T alpha)
{
    if (*a.error) return;
    TD_GRID(line, a.lines)
    {
        int64_t out, src, idx;
        td_line_places(a, line, &out, &src, &idx);
        for (int64_t k = 0; k < a.count; k++) {
            const int64_t index = td_load<int64_t>(a.idx, idx + k * a.idx_step, a.idx_dtype);
            if (index < 0 || index >= a.length) return;
            const int64_t at = out + index * a.out_step;
            const T v = td_load<T>(a.src, src + k * a.src_step, a.src_dtype);
            td_store<T>(a.out, at, a.dtype, td_load<T>(a.out, at, a.dtype) + alpha * v);
        }
    }
}
TD_KERNEL(add_f32, td_ca_add)
{
    td_add<float>(a, (float)a.alpha);
}
TD_KERNEL(add_f64, td_ca_add)
{
    td_add<double>(a, a.alpha);
}
TD_KERNEL(add_i64, td_ca_add)
{
    td_add<uint64_t>(a, (uint64_t)a.whole_alpha);
}

/* Elements of src, or one number, in place of those at indices. */
TD_KERNEL(put, td_ca_add)
{
    if (*a.error) return;
    TD_GRID(line, a.lines)
    {
        int64_t out, src, idx;
        td_line_places(a, line, &out, &src, &idx);
        for (int64_t k = 0; k < a.count; k++) {
            const int64_t index = td_load<int64_t>(a.idx, idx + k * a.idx_step, a.idx_dtype);
            if (index < 0 || index >= a.length) return;
            const int64_t at = out + index * a.out_step;
            if (a.src) td_move_element(a.out, at, a.src, src + k * a.src_step, a.bytes);
            else if (a.body == TD_BODY_F64) td_store<double>(a.out, at, a.dtype, a.number.f64);
            else td_store<uint64_t>(a.out, at, a.dtype, a.number.u64);
        }
    }
}

/* ---- random numbers: Philox4x32-10, see cpu/vec/philox.h */

TD_FN void td_words(uint64_t seed, uint64_t op, uint64_t group, uint32_t *w)
{
    uint32_t c0 = (uint32_t)group, c1 = (uint32_t)(group >> 32), c2 = (uint32_t)op, c3 = (uint32_t)(op >> 32), k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const uint64_t x = (uint64_t)c0 * 0xD2511F53u, y = (uint64_t)c2 * 0xCD9E8D57u;
        const uint32_t n0 = (uint32_t)(y >> 32) ^ c1 ^ k0, n2 = (uint32_t)(x >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)y;
        c2 = n2;
        c3 = (uint32_t)x;
    }
    w[0] = c0, w[1] = c1, w[2] = c2, w[3] = c3;
}
TD_KERNEL(random_f32, td_ca_random)
{
    const int bits = a.dtype == TD_FLOAT16 ? 11 : a.dtype == TD_BFLOAT16 ? 8 : 24;
    const float unit = 1.0f / (float)(1 << bits);
    TD_GRID(group, (a.n + 3) / 4)
    {
        uint32_t w[4];
        float v[4];
        td_words(a.seed[0], a.seed[1], (uint64_t)group, w);
        for (int j = 0; j < 4; j++) v[j] = (float)(int32_t)(w[j] >> (32 - bits)) * unit;
        for (int j = 0; a.kind == TD_DRAWN_NORMAL && j < 4; j += 2) {
            const float u = ((float)(int32_t)(w[j] >> 1) + 0.5f) * 0x1p-31f, r = sqrtf(-2.0f * td_log_f32(u));
            v[j] = r * td_turn_sin_cos(w[j + 1], 1);
            v[j + 1] = r * td_turn_sin_cos(w[j + 1], 0);
        }
        for (int j = 0; j < 4 && 4 * group + j < a.n; j++) td_store<float>(a.to, 4 * group + j, a.dtype, v[j]);
    }
}
TD_KERNEL(random_f64, td_ca_random)
{
    TD_GRID(group, (a.n + 1) / 2)
    {
        uint32_t w[4];
        double v[2];
        td_words(a.seed[0], a.seed[1], (uint64_t)group, w);
        for (int j = 0; j < 2; j++) v[j] = (double)(int64_t)(((uint64_t)w[2 * j + 1] << 32 | w[2 * j]) >> 11) * 0x1p-53;
        if (a.kind == TD_DRAWN_NORMAL) td_normal_pair_f64(w, v);
        for (int j = 0; j < 2 && 2 * group + j < a.n; j++) td_store<double>(a.to, 2 * group + j, a.dtype, v[j]);
    }
}
/* Word `index` of 64 bits, of one attempt. */
TD_FN uint64_t td_word64(const td_ca_random &a, int64_t index, uint64_t attempt)
{
    uint32_t w[4];
    td_words(a.seed[0], a.seed[1], (uint64_t)(index / 2) | attempt << 56, w);
    return index % 2 ? (uint64_t)w[3] << 32 | w[2] : (uint64_t)w[1] << 32 | w[0];
}
/* A number below `range`, as cpu/random/random.c draws it. */
TD_FN uint64_t td_below(const td_ca_random &a, int64_t index, uint64_t range)
{
    __extension__ typedef unsigned __int128 wide;
    const uint64_t word = td_word64(a, index, 0);
    if (range == 0) return word;
    wide m = (wide)word * range;
    if ((uint64_t)m < range) {
        const uint64_t reject = (0 - range) % range;
        for (uint64_t attempt = 1; (uint64_t)m < reject && attempt < 256; attempt++) m = (wide)td_word64(a, index, attempt) * range;
    }
    return (uint64_t)(m >> 64);
}
TD_KERNEL(randint, td_ca_random)
{
    TD_GRID(i, a.n) td_store<int64_t>(a.to, i, a.dtype, (int64_t)((uint64_t)a.low + td_below(a, i, a.range)));
}
/* Fisher and Yates, one exchange after the other, by one thread. */
TD_KERNEL(randperm, td_ca_random)
{
    int64_t *p = (int64_t *)a.to;
    for (int64_t i = 0; i < a.n && !blockIdx.x && !threadIdx.x; i++) {
        const int64_t j = (int64_t)td_below(a, i, (uint64_t)i + 1);
        p[i] = p[j];
        p[j] = i;
    }
}
TD_FN int64_t td_drawn_place(const td_ca_random &a, int64_t i)
{
    int64_t at = 0;
    for (int d = 0; d < a.ndim; d++) {
        const int64_t q = td_quotient(i, a.shape[d]);
        at += (i - q * a.shape[d]) * a.stride[d];
        i = q;
    }
    return at;
}
TD_KERNEL(bernoulli, td_ca_random)
{
    TD_GRID(group, (a.n + 3) / 4)
    {
        uint32_t w[4];
        td_words(a.seed[0], a.seed[1], (uint64_t)group, w);
        for (int j = 0; j < 4 && 4 * group + j < a.n; j++) {
            const double p = td_load<double>(a.x, td_drawn_place(a, 4 * group + j), a.x_dtype);
            if (!(p >= 0 && p <= 1)) atomicOr(a.error, (unsigned)TD_CUDA_NO_CHANCE);
            td_store<double>(a.to, 4 * group + j, a.dtype, (double)w[j] * 0x1p-32 < p ? 1 : 0);
        }
    }
}
template <class T> TD_FN void td_drop(const td_ca_random &a)
{
    const uint64_t seed = a.given ? (uint64_t)a.given[0] : a.seed[0], op = a.given ? (uint64_t)a.given[a.given_step] : a.seed[1];
    const T scale = (T)a.scale;
    if (a.keep && !blockIdx.x && !threadIdx.x) a.keep[0] = (int64_t)seed, a.keep[1] = (int64_t)op;
    TD_GRID(group, (a.n + 3) / 4)
    {
        uint32_t w[4];
        td_words(seed, op, (uint64_t)group, w);
        for (int j = 0; j < 4 && 4 * group + j < a.n; j++) {
            const T v = td_load<T>(a.x, td_drawn_place(a, 4 * group + j), a.x_dtype) * scale;
            td_store<T>(a.to, 4 * group + j, a.dtype, (uint64_t)w[j] >= a.threshold ? v : (T)0);
        }
    }
}
TD_KERNEL(drop_f32, td_ca_random)
{
    td_drop<float>(a);
}
TD_KERNEL(drop_f64, td_ca_random)
{
    td_drop<double>(a);
}

#endif
