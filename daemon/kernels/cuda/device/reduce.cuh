/* Folding elements into records, and records into results: the reductions.
 *
 * A block has lanes for each of its results: a lane folds every lanes-th element, then the lanes' records are joined by halves. Long folds are cut into pieces,
 * whose records a second launch joins in the same way. All of it follows from the shape, so the bits do not depend on the load. Floats are summed in double, as on the CPU.
 * Records of extremes keep the index, so that of equal elements the first one counts in whatever order they are joined. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_REDUCE_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_REDUCE_CUH

#include "daemon/kernels/cuda/device/math.cuh"

struct td_record {
    td_word a, b;
    int64_t n; /* elements that it has taken */
};

TD_FN double td_rexp(float x)
{
    return (double)td_exp_f32(x);
}
TD_FN double td_rexp(double x)
{
    return exp(x);
}

template <class T> struct td_fold_sum {
    typedef T E;
    typedef double S;
    TD_FN void clear(td_record &r)
    {
        r.a.f = 0;
    }
    TD_FN void step(td_record &r, T x, int64_t)
    {
        r.a.f += (double)x;
    }
    TD_FN void join(td_record &r, const td_record &o)
    {
        r.a.f += o.a.f;
    }
};
template <> struct td_fold_sum<int64_t> {
    typedef int64_t E;
    typedef int64_t S;
    TD_FN void clear(td_record &r)
    {
        r.a.i = 0;
    }
    TD_FN void step(td_record &r, int64_t x, int64_t)
    {
        r.a.i = (int64_t)((uint64_t)r.a.i + (uint64_t)x);
    }
    TD_FN void join(td_record &r, const td_record &o)
    {
        r.a.i = (int64_t)((uint64_t)r.a.i + (uint64_t)o.a.i);
    }
};
template <class T> struct td_fold_squares : td_fold_sum<T> {
    TD_FN void step(td_record &r, T x, int64_t)
    {
        r.a.f += (double)x * (double)x;
    }
};
template <class T> struct td_fold_prod {
    typedef T E;
    typedef double S;
    TD_FN void clear(td_record &r)
    {
        r.a.f = 1;
    }
    TD_FN void step(td_record &r, T x, int64_t)
    {
        r.a.f *= (double)x;
    }
    TD_FN void join(td_record &r, const td_record &o)
    {
        r.a.f *= o.a.f;
    }
};
template <> struct td_fold_prod<int64_t> {
    typedef int64_t E;
    typedef int64_t S;
    TD_FN void clear(td_record &r)
    {
        r.a.i = 1;
    }
    TD_FN void step(td_record &r, int64_t x, int64_t)
    {
        r.a.i = (int64_t)((uint64_t)r.a.i * (uint64_t)x);
    }
    TD_FN void join(td_record &r, const td_record &o)
    {
        r.a.i = (int64_t)((uint64_t)r.a.i * (uint64_t)o.a.i);
    }
};

/* How an element lies in a record, and which of two is ahead; NaN is ahead of all. */
template <class T> struct td_rank {
    typedef double S;
    TD_FN void put(td_word &w, T x)
    {
        w.f = (double)x;
    }
    TD_FN bool ahead(td_word x, td_word m, bool larger)
    {
        if (m.f != m.f) return false;
        return x.f != x.f || (larger ? x.f > m.f : x.f < m.f);
    }
};
template <> struct td_rank<int64_t> {
    typedef int64_t S;
    TD_FN void put(td_word &w, int64_t x)
    {
        w.i = x;
    }
    TD_FN bool ahead(td_word x, td_word m, bool larger)
    {
        return larger ? x.i > m.i : x.i < m.i;
    }
};
template <> struct td_rank<uint64_t> {
    typedef uint64_t S;
    TD_FN void put(td_word &w, uint64_t x)
    {
        w.i = (int64_t)x;
    }
    TD_FN bool ahead(td_word x, td_word m, bool larger)
    {
        return larger ? (uint64_t)x.i > (uint64_t)m.i : (uint64_t)x.i < (uint64_t)m.i;
    }
};
template <class T, bool LARGER> struct td_fold_best {
    typedef T E;
    typedef typename td_rank<T>::S S;
    TD_FN void clear(td_record &r)
    {
        r.a.i = 0;
    }
    TD_FN void step(td_record &r, T x, int64_t i)
    {
        td_word w;
        td_rank<T>::put(w, x);
        if (r.n && !td_rank<T>::ahead(w, r.a, LARGER)) return;
        r.a = w;
        r.b.i = i;
    }
    TD_FN void join(td_record &r, const td_record &o)
    {
        bool first = td_rank<T>::ahead(o.a, r.a, LARGER), second = td_rank<T>::ahead(r.a, o.a, LARGER);
        if (!o.n || (r.n && (second || (!first && r.b.i < o.b.i)))) return;
        r.a = o.a;
        r.b = o.b;
    }
};

/* Mean and squared deviation (Welford; joined as Chan, Golub and LeVeque do). */
template <class T> struct td_fold_var {
    typedef T E;
    typedef double S;
    TD_FN void clear(td_record &r)
    {
        r.a.f = 0;
    }
    TD_FN void step(td_record &r, T x, int64_t)
    {
        double apart = (double)x - r.a.f;
        r.a.f += apart / (double)(r.n + 1);
        r.b.f += apart * ((double)x - r.a.f);
    }
    TD_FN void join(td_record &r, const td_record &o)
    {
        if (!o.n) return;
        double apart = o.a.f - r.a.f, share = (double)o.n / (double)(r.n + o.n);
        r.a.f += apart * share;
        r.b.f += o.b.f + (r.n ? apart * apart * (double)r.n * share : 0);
    }
};

/* The largest element, and the sum of all exponentials beside it. */
template <class T> struct td_fold_lse {
    typedef T E;
    typedef double S;
    TD_FN void clear(td_record &r)
    {
        r.a.f = -INFINITY;
    }
    TD_FN void step(td_record &r, T x, int64_t)
    {
        if ((double)x == r.a.f) {
            r.b.f += 1;
        } else if ((double)x > r.a.f || x != x) {
            r.b.f = 1 + (r.a.f == -INFINITY ? 0 : r.b.f * td_rexp((T)r.a.f - x));
            r.a.f = (double)x;
        } else {
            r.b.f += td_rexp(x - (T)r.a.f);
        }
    }
    TD_FN void join(td_record &r, const td_record &o)
    {
        if (!o.n) return;
        double m = r.a.f != r.a.f || r.a.f >= o.a.f ? r.a.f : o.a.f;
        r.b.f = (r.a.f == m || !r.n ? r.b.f : r.b.f * exp(r.a.f - m)) + (o.a.f == m ? o.b.f : o.b.f * exp(o.a.f - m));
        r.a.f = m;
    }
};

template <bool ALL> struct td_fold_truth {
    typedef unsigned char E;
    typedef int64_t S;
    TD_FN void clear(td_record &r)
    {
        r.a.i = ALL;
    }
    TD_FN void step(td_record &r, unsigned char x, int64_t)
    {
        r.a.i = ALL ? r.a.i & x : r.a.i | x;
    }
    TD_FN void join(td_record &r, const td_record &o)
    {
        r.a.i = ALL ? r.a.i & o.a.i : r.a.i | o.a.i;
    }
};

template <class F> TD_FN void td_record_begin(td_record &r)
{
    r.b.i = r.n = 0;
    F::clear(r);
}
template <class F> TD_FN void td_record_join(td_record &r, const td_record &o)
{
    F::join(r, o);
    r.n += o.n;
}

/* An element as the fold takes it. */
template <class E> struct td_element {
    TD_FN E load(const void *p, int64_t i, unsigned dtype)
    {
        return td_load<E>(p, i, dtype);
    }
};
template <> struct td_element<unsigned char> {
    TD_FN unsigned char load(const void *p, int64_t i, unsigned dtype)
    {
        return (unsigned char)td_load_truth(p, i, dtype);
    }
};

/* Where element i of dimensions [from, from + n) lies. */
TD_FN int64_t td_reduce_place(const td_ca_reduce &a, int64_t i, int from, int n)
{
    int64_t at = 0;
    for (int d = from; d < from + n; d++) {
        int64_t size = a.shape[d], q;
        if (i <= INT32_MAX && size <= INT32_MAX) q = (uint32_t)i / (uint32_t)size;
        else q = i / size;
        at += (i - q * size) * a.stride[d];
        i = q;
    }
    return at;
}

/* Elements from, from + step, ... before to. Several are loaded before they are folded. */
enum { TD_REDUCE_AT_ONCE = 8 };
template <class F, bool OWN, bool LINE> TD_FN void td_fold_elements(const td_ca_reduce &a, td_record &r, int64_t base, int64_t from, int64_t to, int64_t step)
{
    typedef typename F::E E;
    const E *own = (const E *)a.data;
    int64_t i = from;
    for (; i + (TD_REDUCE_AT_ONCE - 1) * step < to; i += TD_REDUCE_AT_ONCE * step) {
        E x[TD_REDUCE_AT_ONCE];
        for (int j = 0; j < TD_REDUCE_AT_ONCE; j++) {
            int64_t e = i + j * step, at = base + (LINE ? e * a.stride[0] : td_reduce_place(a, e, 0, a.gdims));
            x[j] = OWN ? own[at] : td_element<E>::load(a.data, at, a.dtype);
        }
        for (int j = 0; j < TD_REDUCE_AT_ONCE; j++) {
            F::step(r, x[j], i + j * step);
            r.n++;
        }
    }
    for (; i < to; i += step) {
        int64_t at = base + (LINE ? i * a.stride[0] : td_reduce_place(a, i, 0, a.gdims));
        F::step(r, OWN ? own[at] : td_element<E>::load(a.data, at, a.dtype), i);
        r.n++;
    }
}

template <class F> TD_FN void td_finish(const td_ca_reduce &a, int64_t o, td_record &r)
{
    typedef typename F::S S;
    const double n = (double)a.ngone, left = n - a.correction;
    if (a.finish == TD_FINISH_INDEX) {
        ((int64_t *)a.out)[o] = r.b.i;
        return;
    }
    if (a.finish == TD_FINISH_BOTH) ((int64_t *)a.indices)[o] = r.b.i;
    if (td_is_float<S>::value) {
        double v = r.a.f;
        if (a.finish == TD_FINISH_MEAN) v /= n;
        if (a.finish == TD_FINISH_VAR || a.finish == TD_FINISH_STD) v = r.b.f / (left > 0 ? left : 0);
        if (a.finish == TD_FINISH_STD) v = sqrt(v);
        if (a.finish == TD_FINISH_LSE) v += log(r.b.f);
        td_store<double>(a.out, o, a.out_dtype, v);
    } else {
        td_store<S>(a.out, o, a.out_dtype, (S)r.a.i);
    }
}

/* Of the block's threads: which result, which lane. `all` has a record for each thread. */
struct td_seat {
    int64_t result;
    int lane, gap; /* gap: between the seats of two lanes */
};
TD_FN td_seat td_seat_of(const td_ca_reduce &a)
{
    int results = (int)blockDim.x / a.lanes, t = (int)threadIdx.x;
    td_seat s;
    s.lane = a.columns ? t / results : t % a.lanes;
    s.gap = a.columns ? results : 1;
    s.result = (int64_t)blockIdx.x * results + (a.columns ? t % results : t / a.lanes);
    return s;
}
template <class F> TD_FN void td_join_lanes(const td_ca_reduce &a, td_record *all, const td_seat &s, td_record &r)
{
    int t = (int)threadIdx.x;
    all[t] = r;
    __syncthreads();
    for (int half = a.lanes / 2; half; half /= 2) {
        if (s.lane < half) {
            td_record_join<F>(r, all[t + half * s.gap]);
            all[t] = r;
        }
        __syncthreads();
    }
}

template <class F> TD_FN void td_fold_pieces(const td_ca_reduce &a, td_record *all)
{
    td_seat s = td_seat_of(a);
    td_record r;
    td_record_begin<F>(r);
    int64_t from = (int64_t)blockIdx.y * a.piece, to = from + a.piece < a.ngone ? from + a.piece : a.ngone;
    if (s.result < a.nkept) {
        int64_t base = td_reduce_place(a, s.result, a.gdims, a.kdims);
        bool own = a.dtype == a.body && sizeof(typename F::E) > 1;
        if (own && a.gdims == 1) td_fold_elements<F, true, true>(a, r, base, from + s.lane, to, a.lanes);
        else td_fold_elements<F, false, false>(a, r, base, from + s.lane, to, a.lanes);
    }
    td_join_lanes<F>(a, all, s, r);
    if (s.lane || s.result >= a.nkept) return;
    if (a.pieces == 1) {
        td_finish<F>(a, s.result, r);
        return;
    }
    a.a[(int64_t)blockIdx.y * a.nkept + s.result] = r.a;
    a.b[(int64_t)blockIdx.y * a.nkept + s.result] = r.b;
}

template <class F> TD_FN void td_merge_pieces(const td_ca_reduce &a, td_record *all)
{
    td_seat s = td_seat_of(a);
    td_record r;
    td_record_begin<F>(r);
    for (int64_t p = s.lane; s.result < a.nkept && p < a.pieces; p += a.lanes) {
        td_record o;
        o.a = a.a[p * a.nkept + s.result];
        o.b = a.b[p * a.nkept + s.result];
        o.n = p + 1 < a.pieces ? a.piece : a.ngone - p * a.piece;
        td_record_join<F>(r, o);
    }
    td_join_lanes<F>(a, all, s, r);
    if (!s.lane && s.result < a.nkept) td_finish<F>(a, s.result, r);
}

#define TD_FOLD_KERNELS(NAME, ...)                                                                                     \
    TD_KERNEL_MEETS(fold_##NAME, td_ca_reduce)                                                                         \
    {                                                                                                                  \
        __shared__ td_record all[TD_CUDA_THREADS];                                                                     \
        td_fold_pieces<__VA_ARGS__>(a, all);                                                                           \
    }                                                                                                                  \
    TD_KERNEL_MEETS(merge_##NAME, td_ca_reduce)                                                                        \
    {                                                                                                                  \
        __shared__ td_record all[TD_CUDA_THREADS];                                                                     \
        td_merge_pieces<__VA_ARGS__>(a, all);                                                                          \
    }
TD_FOLD_KERNELS(sum_f32, td_fold_sum<float>)
TD_FOLD_KERNELS(sum_f64, td_fold_sum<double>)
TD_FOLD_KERNELS(sum_i64, td_fold_sum<int64_t>)
TD_FOLD_KERNELS(squares_f32, td_fold_squares<float>)
TD_FOLD_KERNELS(squares_f64, td_fold_squares<double>)
TD_FOLD_KERNELS(prod_f32, td_fold_prod<float>)
TD_FOLD_KERNELS(prod_f64, td_fold_prod<double>)
TD_FOLD_KERNELS(prod_i64, td_fold_prod<int64_t>)
#define TD_BEST_KERNELS(NAME, LARGER)                                                                                  \
    TD_FOLD_KERNELS(NAME##_f32, td_fold_best<float, LARGER>)                                                           \
    TD_FOLD_KERNELS(NAME##_f64, td_fold_best<double, LARGER>)                                                          \
    TD_FOLD_KERNELS(NAME##_i64, td_fold_best<int64_t, LARGER>)                                                         \
    TD_FOLD_KERNELS(NAME##_u64, td_fold_best<uint64_t, LARGER>)
TD_BEST_KERNELS(best, true)
TD_BEST_KERNELS(least, false)
TD_FOLD_KERNELS(var_f32, td_fold_var<float>)
TD_FOLD_KERNELS(var_f64, td_fold_var<double>)
TD_FOLD_KERNELS(lse_f32, td_fold_lse<float>)
TD_FOLD_KERNELS(lse_f64, td_fold_lse<double>)
TD_FOLD_KERNELS(any_u8, td_fold_truth<false>)
TD_FOLD_KERNELS(all_u8, td_fold_truth<true>)

#endif
