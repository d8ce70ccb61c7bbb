/* Kernels of the ops that have an expression: one for elements that lie alike, one for any strides and dtypes.
 *
 * A functor (generated: emit_cuda.py) has the body's type T, the result's type R, how many operands it takes, which are truth values, and `of`, which
 * works out one element. Each thread takes several elements, side by side in the first kernel so that they come in one load. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_POINTWISE_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_POINTWISE_CUH

#include "daemon/kernels/cuda/device/math.cuh"

/* Elements of a thread in the first kernel: 16 bytes of the body. */
template <class T> struct td_each {
    enum { value = sizeof(T) == 1 ? 16 : 16 / (int)sizeof(T) };
};
template <class T, int N> struct alignas(sizeof(T) * N) td_pack {
    T v[N];
};

/* The number of an operand in the body's type; a truth value lies as a byte. */
TD_FN float td_number_of(td_cuda_number n, float)
{
    return n.f32;
}
TD_FN double td_number_of(td_cuda_number n, double)
{
    return n.f64;
}
TD_FN int64_t td_number_of(td_cuda_number n, int64_t)
{
    return n.i64;
}
TD_FN int32_t td_number_of(td_cuda_number n, int32_t)
{
    return n.i32;
}
TD_FN unsigned char td_number_of(td_cuda_number n, unsigned char)
{
    return n.u8;
}
TD_FN uint64_t td_number_of(td_cuda_number n, uint64_t)
{
    return n.u64;
}

/* N elements from i on, of an operand or of its number. */
template <class T, int N> TD_FN void td_take(td_pack<T, N> *to, const td_ca_flat &a, int op, int64_t i, int many)
{
    const T *p = (const T *)a.data[op];
    if (!p) {
        const T v = td_number_of(a.number[op], T());
        for (int j = 0; j < N; j++) to->v[j] = v;
    } else if (many == N && (uintptr_t)p % sizeof *to == 0) {
        *to = *(const td_pack<T, N> *)(p + i);
    } else {
        for (int j = 0; j < N; j++) to->v[j] = p[i + (j < many ? j : 0)];
    }
}

template <class F> TD_FN void td_flat(const td_ca_flat &a)
{
    typedef typename F::T T;
    typedef typename F::R R;
    enum { N = td_each<T>::value };
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    int many = a.n - i < N ? (int)(a.n - i) : N, found = 0;
    if (many <= 0) return;
    td_pack<T, N> in[3] = {};
    td_pack<unsigned char, N> truth = {};
    td_pack<R, N> out;
    if (F::NIN > 0 && !(F::BOOLS & 1)) td_take(&in[0], a, 1, i, many);
    if (F::NIN > 0 && F::BOOLS & 1) td_take(&truth, a, 1, i, many);
    if (F::NIN > 1 && !(F::BOOLS & 2)) td_take(&in[1], a, 2, i, many);
    if (F::NIN > 1 && F::BOOLS & 2) td_take(&truth, a, 2, i, many);
    if (F::NIN > 2) td_take(&in[2], a, 3, i, many);
    for (int j = 0; j < N; j++) out.v[j] = F::of(in[0].v[j], in[1].v[j], in[2].v[j], truth.v[j], a.at, found); /* beyond the end the first once more */
    R *o = (R *)a.data[0] + i;
    if (many == N && (uintptr_t)a.data[0] % sizeof out == 0) *(td_pack<R, N> *)o = out;
    else
        for (int j = 0; j < N; j++)
            if (j < many) o[j] = out.v[j];
    if (found) atomicOr(a.error, (unsigned)found);
}

/* ---- any strides */

/* Where element i of a walk lies in each operand. */
template <int OPS> TD_FN void td_places(const td_ca_walk &a, int64_t i, int64_t *at)
{
    for (int op = 0; op < OPS; op++) at[op] = 0;
    if (a.n <= INT32_MAX) {
        uint32_t rest = (uint32_t)i;
        for (int d = 0; d < a.ndim; d++) {
            uint32_t n = (uint32_t)a.shape[d], q = d + 1 < a.ndim ? rest / n : 0, c = rest - q * n;
            for (int op = 0; op < OPS; op++) at[op] += c * a.stride[op][d];
            rest = q;
        }
        return;
    }
    for (int d = 0; d < a.ndim; d++) {
        int64_t n = a.shape[d], q = d + 1 < a.ndim ? i / n : 0, c = i - q * n;
        for (int op = 0; op < OPS; op++) at[op] += c * a.stride[op][d];
        i = q;
    }
}
template <class T> TD_FN unsigned td_own_dtype()
{
    return sizeof(T) == 1 ? TD_BOOL : td_is_float<T>::value ? (sizeof(T) == 4 ? TD_FLOAT32 : TD_FLOAT64) : (T)-1 > (T)0 ? TD_UINT64 : sizeof(T) == 4 ? TD_INT32 : TD_INT64;
}
/* What is converted stands behind a call: one for each body, not for each operand of each kernel. */
template <class T> TD_SPECIAL T td_read_other(const void *p, int64_t at, unsigned dtype, unsigned round)
{
    if (sizeof(T) == 1) return (T)td_load_truth(p, at, dtype);
    return td_round_to(td_load<T>(p, at, dtype), round);
}
template <class T> TD_SPECIAL void td_write_other(void *p, int64_t at, unsigned dtype, unsigned round, T v)
{
    td_store<T>(p, at, dtype, td_round_to(v, round));
}
template <class T> TD_FN T td_read(const td_ca_walk &a, int op, int64_t at)
{
    if (!a.data[op]) return td_number_of(a.number[op], T());
    if (a.dtype[op] == td_own_dtype<T>() && a.round[op] == TD_DTYPE_NONE && sizeof(T) > 1) return ((const T *)a.data[op])[at];
    return td_read_other<T>(a.data[op], at, a.dtype[op], a.round[op]);
}
template <class T> TD_FN void td_write(const td_ca_walk &a, int64_t at, T v)
{
    if (a.dtype[0] == td_own_dtype<T>() && a.round[0] == TD_DTYPE_NONE) ((T *)a.data[0])[at] = v;
    else td_write_other<T>(a.data[0], at, a.dtype[0], a.round[0], v);
}
TD_FN unsigned char td_read_truth(const td_ca_walk &a, int op, int64_t at)
{
    return a.data[op] ? (unsigned char)td_load_truth(a.data[op], at, a.dtype[op]) : a.number[op].u8;
}

template <class F> TD_FN void td_walk(const td_ca_walk &a)
{
    typedef typename F::T T;
    typedef typename F::R R;
    int found = 0;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step) {
        int64_t at[F::NIN + 1];
        T in[3] = {T(), T(), T()};
        unsigned char truth = 0;
        td_places<F::NIN + 1>(a, i, at);
        for (int k = 0; k < F::NIN; k++) {
            if (F::BOOLS >> k & 1) truth = td_read_truth(a, k + 1, at[k + 1]);
            else in[k] = td_read<T>(a, k + 1, at[k + 1]);
        }
        R r = F::of(in[0], in[1], in[2], truth, a.at, found);
        td_write<R>(a, at[0], r);
    }
    if (found) atomicOr(a.error, (unsigned)found);
}

#define TD_POINTWISE(F)                                                                                                \
    TD_KERNEL(flat_##F, td_ca_flat)                                                                                    \
    {                                                                                                                  \
        td_flat<td_f_##F>(a);                                                                                          \
    }                                                                                                                  \
    TD_KERNEL(walk_##F, td_ca_walk)                                                                                    \
    {                                                                                                                  \
        td_walk<td_f_##F>(a);                                                                                          \
    }

#endif
