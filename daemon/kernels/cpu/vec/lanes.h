/* Sums, extremes and exponentials of contiguous elements, in eight lanes.
 *
 * How elements are dealt to lanes depends on their number alone, so that sums are the same bits for every instruction
 * set. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_LANES_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_LANES_H

#include "daemon/kernels/cpu/vec/loops.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef float f8 __attribute__((vector_size(32)));
typedef double d8 __attribute__((vector_size(64)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef int64_t l8 __attribute__((vector_size(64)));

TD_FN f8 load_f8(const float *x)
{
    f8 v;
    memcpy(&v, x, sizeof v);
    return v;
}
TD_FN d8 load_d8(const double *x)
{
    d8 v;
    memcpy(&v, x, sizeof v);
    return v;
}
TD_FN d8 widen(f8 v)
{
    return __builtin_convertvector(v, d8);
}
TD_FN d8 load_wide(const float *x)
{
    return widen(load_f8(x));
}
TD_FN double fold8(d8 v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* Eight running sums in double: lane i has the elements i, i + 8, ...; four are added as floats first. */
TD_FN d8 lanes_f32(int64_t n, const float *x)
{
    d8 s0 = {0}, s1 = {0};
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        s0 += widen((load_f8(x + i) + load_f8(x + i + 8)) + (load_f8(x + i + 16) + load_f8(x + i + 24)));
        s1 += widen((load_f8(x + i + 32) + load_f8(x + i + 40)) + (load_f8(x + i + 48) + load_f8(x + i + 56)));
    }
    for (; i + 8 <= n; i += 8) s0 += widen(load_f8(x + i));
    s0 += s1;
    for (int j = 0; i < n; i++, j++) s0[j] += (double)x[i];
    return s0;
}
TD_FN d8 lanes_f64(int64_t n, const double *x)
{
    d8 s0 = {0}, s1 = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        s0 += load_d8(x + i);
        s1 += load_d8(x + i + 8);
    }
    for (; i + 8 <= n; i += 8) s0 += load_d8(x + i);
    s0 += s1;
    for (int j = 0; i < n; i++, j++) s0[j] += x[i];
    return s0;
}

/* Sums of squares, in the same lanes: what is squared in double neither overflows nor vanishes. */
TD_FN double squares_f32(int64_t n, const float *x)
{
    d8 s0 = {0}, s1 = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        d8 v = widen(load_f8(x + i)), w = widen(load_f8(x + i + 8));
        s0 += v * v;
        s1 += w * w;
    }
    s0 += s1;
    for (int j = 0; i < n; i++, j = (j + 1) & 7) s0[j] += (double)x[i] * (double)x[i];
    return fold8(s0);
}
TD_FN double squares_f64(int64_t n, const double *x)
{
    d8 s0 = {0}, s1 = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        d8 v = load_d8(x + i), w = load_d8(x + i + 8);
        s0 += v * v;
        s1 += w * w;
    }
    s0 += s1;
    for (int j = 0; i < n; i++, j = (j + 1) & 7) s0[j] += x[i] * x[i];
    return fold8(s0);
}
/* Products in double, in four chains of the same lanes. */
#define PRODUCT(NAME, T, LOAD)                                                                                         \
    TD_FN double NAME(int64_t n, const T *x)                                                                           \
    {                                                                                                                  \
        d8 p0 = {1, 1, 1, 1, 1, 1, 1, 1}, p1 = p0, p2 = p0, p3 = p0;                                                   \
        int64_t i = 0;                                                                                                 \
        for (; i + 32 <= n; i += 32) {                                                                                 \
            p0 *= LOAD(x + i);                                                                                         \
            p1 *= LOAD(x + i + 8);                                                                                     \
            p2 *= LOAD(x + i + 16);                                                                                    \
            p3 *= LOAD(x + i + 24);                                                                                    \
        }                                                                                                              \
        for (; i + 8 <= n; i += 8) p0 *= LOAD(x + i);                                                                  \
        p0 = (p0 * p1) * (p2 * p3);                                                                                    \
        for (int j = 0; i < n; i++, j++) p0[j] *= (double)x[i];                                                        \
        return ((p0[0] * p0[4]) * (p0[2] * p0[6])) * ((p0[1] * p0[5]) * (p0[3] * p0[7]));                              \
    }
PRODUCT(product_f32, float, load_wide)
PRODUCT(product_f64, double, load_d8)
#undef PRODUCT
TD_FN double sum_f32(int64_t n, const float *x)
{
    return fold8(lanes_f32(n, x));
}
TD_FN double sum_f64(int64_t n, const double *x)
{
    return fold8(lanes_f64(n, x));
}

/* NaN wins: it is taken when met, and nothing is larger than it afterwards. */
#if defined(__AVX2__)
/* The processor's own instruction takes m where they are alike or either is NaN. */
#define TAKE_MOST(m, x) _mm256_max_ps((__m256)(x), (__m256)(m))
#define TAKE_LEAST(m, x) _mm256_min_ps((__m256)(x), (__m256)(m))
#define UNORDERED(a, b) _mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_UNORD_Q)
TD_FN f8 larger_f8(f8 m, f8 x)
{
    return (f8)_mm256_blendv_ps(TAKE_MOST(m, x), (__m256)x, UNORDERED(x, x));
}
TD_FN f8 smaller_f8(f8 m, f8 x)
{
    return (f8)_mm256_blendv_ps(TAKE_LEAST(m, x), (__m256)x, UNORDERED(x, x));
}
#else
TD_FN f8 larger_f8(f8 m, f8 x)
{
    i8 take = (x > m) | (x != x);
    return (f8)(((i8)x & take) | ((i8)m & ~take));
}
TD_FN f8 smaller_f8(f8 m, f8 x)
{
    i8 take = (x < m) | (x != x);
    return (f8)(((i8)x & take) | ((i8)m & ~take));
}
#endif
TD_FN d8 larger_d8(d8 m, d8 x)
{
    l8 take = (x > m) | (x != x);
    return (d8)(((l8)x & take) | ((l8)m & ~take));
}
/* The largest of SIGN times x, with SIGN before it again: four chains of lanes, since each step waits for the last. */
#define EXTREME(NAME, T, S, V, LARGER, SIGN)                                                                           \
    TD_FN T NAME(int64_t n, const T *x)                                                                                \
    {                                                                                                                  \
        V m0 = load_##S((const T[8]){[0 ... 7] = -(T)INFINITY}), m1 = m0, m2 = m0, m3 = m0;                            \
        int64_t i = 0;                                                                                                 \
        for (; i + 32 <= n; i += 32) {                                                                                 \
            m0 = LARGER(m0, SIGN load_##S(x + i));                                                                     \
            m1 = LARGER(m1, SIGN load_##S(x + i + 8));                                                                 \
            m2 = LARGER(m2, SIGN load_##S(x + i + 16));                                                                \
            m3 = LARGER(m3, SIGN load_##S(x + i + 24));                                                                \
        }                                                                                                              \
        for (; i + 8 <= n; i += 8) m0 = LARGER(m0, SIGN load_##S(x + i));                                              \
        m0 = LARGER(LARGER(m0, m1), LARGER(m2, m3));                                                                   \
        T m = -(T)INFINITY;                                                                                            \
        for (int j = 0; j < 8; j++) m = m0[j] > m || m0[j] != m0[j] ? m0[j] : m;                                       \
        for (; i < n; i++) m = SIGN x[i] > m || x[i] != x[i] ? SIGN x[i] : m;                                          \
        return SIGN m;                                                                                                 \
    }
#if defined(__AVX2__)
EXTREME(max_or_nan_f32, float, f8, f8, larger_f8, +)
EXTREME(min_or_nan_f32, float, f8, f8, larger_f8, -)
/* The same lanes without a thought of NaN: what has any is looked at again. */
#define EXTREME_ORDERED(NAME, TAKE, WINS, FIRST, OR_NAN)                                                               \
    TD_FN float NAME(int64_t n, const float *x)                                                                        \
    {                                                                                                                  \
        f8 m0 = load_f8((const float[8]){[0 ... 7] = FIRST}), m1 = m0, m2 = m0, m3 = m0;                               \
        __m256 odd = _mm256_setzero_ps();                                                                              \
        int64_t i = 0;                                                                                                 \
        for (; i + 32 <= n; i += 32) {                                                                                 \
            f8 a = load_f8(x + i), b = load_f8(x + i + 8), c = load_f8(x + i + 16), d = load_f8(x + i + 24);           \
            m0 = (f8)TAKE(m0, a), m1 = (f8)TAKE(m1, b), m2 = (f8)TAKE(m2, c), m3 = (f8)TAKE(m3, d);                    \
            odd = _mm256_or_ps(odd, _mm256_or_ps(UNORDERED(a, b), UNORDERED(c, d)));                                   \
        }                                                                                                              \
        for (; i + 8 <= n; i += 8) {                                                                                   \
            f8 a = load_f8(x + i);                                                                                     \
            m0 = (f8)TAKE(m0, a);                                                                                      \
            odd = _mm256_or_ps(odd, UNORDERED(a, a));                                                                  \
        }                                                                                                              \
        if (_mm256_movemask_ps(odd)) return OR_NAN(n, x);                                                              \
        m0 = (f8)TAKE(TAKE(m0, m1), TAKE(m2, m3));                                                                     \
        float m = FIRST;                                                                                               \
        for (int j = 0; j < 8; j++) m = m0[j] WINS m ? m0[j] : m;                                                      \
        for (; i < n; i++) m = x[i] WINS m || x[i] != x[i] ? x[i] : m;                                                 \
        return m;                                                                                                      \
    }
EXTREME_ORDERED(max_f32, TAKE_MOST, >, -INFINITY, max_or_nan_f32)
EXTREME_ORDERED(min_f32, TAKE_LEAST, <, INFINITY, min_or_nan_f32)
#undef EXTREME_ORDERED
#undef TAKE_MOST
#undef TAKE_LEAST
#undef UNORDERED
#else
EXTREME(max_f32, float, f8, f8, larger_f8, +)
EXTREME(min_f32, float, f8, f8, larger_f8, -)
#endif
EXTREME(max_f64, double, d8, d8, larger_d8, +)
EXTREME(min_f64, double, d8, d8, larger_d8, -)
#undef EXTREME

TD_FN void exp_minus_f32(int64_t n, const float *x, float m, float *y)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] = td_exp_f32(x[i] - m);
}
TD_FN void exp_minus_f64(int64_t n, const double *x, double m, double *y)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] = td_exp_f64(x[i] - m);
}

#endif
