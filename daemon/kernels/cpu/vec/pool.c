/* Windows of pools side by side: see pool.h. Largest elements are found by compares and choices, means are sums in the
 * order of the window, so that every instruction set gives the same bits. */
#include "daemon/kernels/cpu/vec/pool.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* To v: elements of x that are `step` apart, from `at` on and no further than the last that is wanted. */
#define EVEN_4 0, 2, 5, 7
#define EVEN_8 0, 2, 4, 6, 9, 11, 13, 15
#define EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#define LOAD_SIDE(N)                                                                                                   \
    if (step == 1) {                                                                                                   \
        memcpy(&v, x + at, sizeof v);                                                                                  \
    } else if (step == 2) {                                                                                            \
        memcpy(&v, x + at, sizeof v);                                                                                  \
        memcpy(&w, x + at + N - 1, sizeof w);                                                                          \
        v = __builtin_shufflevector(v, w, EVEN_##N);                                                                   \
    } else {                                                                                                           \
        for (int j = 0; j < N; j++) each[j] = x[at + j * step];                                                        \
        memcpy(&v, each, sizeof v);                                                                                    \
    }

/* N windows side by side from column x0 on, in vectors: each looks at its element of one place before they go to the
 * next place. M is an integer of T's size, P one that a place is. False: rested. */
#define DEFINE_SIDE(name, T, M, P, N)                                                                                  \
    typedef T name##_v##N __attribute__((vector_size(N * sizeof(T))));                                                 \
    typedef M name##_m##N __attribute__((vector_size(N * sizeof(T))));                                                 \
    static inline __attribute__((always_inline)) bool name##_side##N(td_kcall *k, int64_t *done, const td_pooling *p,  \
                                                                     const T *x, int64_t y0, int64_t y1, int64_t x0,   \
                                                                     int64_t step, T *out, int64_t *index)             \
    {                                                                                                                  \
        typedef P places __attribute__((vector_size(N * sizeof(P))));                                                  \
        typedef int64_t wide __attribute__((vector_size(N * 8)));                                                      \
        name##_v##N value = {0}, v, w;                                                                                 \
        places best = {0}, from = {0};                                                                                 \
        T each[N];                                                                                                     \
        for (int j = 0; j < N; j++) from[j] = (P)(j * step);                                                           \
        for (int64_t y = y0; y < y1; y += p->dh)                                                                       \
            for (int64_t i = 0; i < p->kw; i++) {                                                                      \
                const int64_t at = y * p->w + x0 + i * p->dw;                                                          \
                const places here = from + (P)at;                                                                      \
                LOAD_SIDE(N)                                                                                           \
                if (y == y0 && i == 0) {                                                                               \
                    value = v, best = here;                                                                            \
                    continue;                                                                                          \
                }                                                                                                      \
                const name##_m##N wins = (v > value) | (v != v);                                                       \
                const places moved = __builtin_convertvector(wins, places);                                            \
                value = (name##_v##N)(((name##_m##N)v & wins) | ((name##_m##N)value & ~wins));                         \
                best = (here & moved) | (best & ~moved);                                                               \
                if (td_kernel_rest_after(k, done, N)) return false;                                                    \
            }                                                                                                          \
        const wide all = __builtin_convertvector(best, wide);                                                          \
        memcpy(out, &value, sizeof value);                                                                             \
        memcpy(index, &all, sizeof all);                                                                               \
        return true;                                                                                                   \
    }

/* The last ones once more rather than one by one. */
#define DEFINE_ROW(name, T, M, P, N)                                                                                   \
    DEFINE_SIDE(name, T, M, P, 4)                                                                                      \
    DEFINE_SIDE(name, T, M, P, N)                                                                                      \
    static bool name##_row(td_kcall *k, int64_t *done, const td_pooling *p, const void *from, int64_t y0, int64_t y1,  \
                           td_pool_columns in, void *values, int64_t *index)                                           \
    {                                                                                                                  \
        const int n = in.last - in.first < N ? 4 : N;                                                                  \
        bool on = true;                                                                                                \
        for (int64_t i = in.first; i < in.last && on; i += n) {                                                        \
            const int64_t ox = td_min64(i, in.last - n), x0 = ox * p->sw - p->pw, step = p->sw;                        \
            const T *x = from;                                                                                         \
            T *to = (T *)values + ox;                                                                                  \
            if (n == 4) on = name##_side4(k, done, p, x, y0, y1, x0, step, to, index + ox);                            \
            else if (step == 1) on = name##_side##N(k, done, p, x, y0, y1, x0, 1, to, index + ox);                     \
            else if (step == 2) on = name##_side##N(k, done, p, x, y0, y1, x0, 2, to, index + ox);                     \
            else on = name##_side##N(k, done, p, x, y0, y1, x0, step, to, index + ox);                                 \
        }                                                                                                              \
        return on;                                                                                                     \
    }
DEFINE_ROW(u8, uint8_t, int8_t, int32_t, 16)
DEFINE_ROW(i8, int8_t, int8_t, int32_t, 16)
DEFINE_ROW(u16, uint16_t, int16_t, int32_t, 16)
DEFINE_ROW(i16, int16_t, int16_t, int32_t, 16)
DEFINE_ROW(u32, uint32_t, int32_t, int32_t, 16)
DEFINE_ROW(i32, int32_t, int32_t, int32_t, 16)
DEFINE_ROW(u64, uint64_t, int64_t, int64_t, 8)
DEFINE_ROW(i64, int64_t, int64_t, int64_t, 8)
DEFINE_ROW(f32, float, int32_t, int32_t, 16)
DEFINE_ROW(f64, double, int64_t, int64_t, 8)

/* Means of N windows side by side: each adds its elements in the order in which it would alone. False: rested. */
#define DEFINE_MEANS(name, T, N)                                                                                       \
    static inline __attribute__((always_inline)) bool name##_means##N(                                                 \
        td_kcall *k, int64_t *done, const td_pooling *p, const T *x, int64_t rows, int64_t step, T count, T *out)      \
    {                                                                                                                  \
        name##_v##N sum = {0}, v, w;                                                                                   \
        T each[N];                                                                                                     \
        for (int64_t y = 0; y < rows; y++)                                                                             \
            for (int64_t at = y * p->w; at < y * p->w + p->kw; at++) {                                                 \
                LOAD_SIDE(N)                                                                                           \
                sum += v;                                                                                              \
                if (td_kernel_rest_after(k, done, N)) return false;                                                    \
            }                                                                                                          \
        sum /= count;                                                                                                  \
        memcpy(out, &sum, sizeof sum);                                                                                 \
        return true;                                                                                                   \
    }
#define DEFINE_MEAN_ROW(name, T, N)                                                                                    \
    DEFINE_MEANS(name, T, 4)                                                                                           \
    DEFINE_MEANS(name, T, N)                                                                                           \
    static bool name##_mean_row(td_kcall *k, int64_t *done, const td_pooling *p, const void *from, int64_t y0,         \
                                int64_t y1, td_pool_columns in, int64_t count, void *values)                           \
    {                                                                                                                  \
        const int n = in.last - in.first < N ? 4 : N;                                                                  \
        bool on = true;                                                                                                \
        for (int64_t i = in.first; i < in.last && on; i += n) {                                                        \
            const int64_t ox = td_min64(i, in.last - n), step = p->sw;                                                 \
            const T *x = (const T *)from + y0 * p->w + ox * step - p->pw;                                              \
            T *to = (T *)values + ox;                                                                                  \
            if (n == 4) on = name##_means4(k, done, p, x, y1 - y0, step, (T)count, to);                                \
            else if (step == 1) on = name##_means##N(k, done, p, x, y1 - y0, 1, (T)count, to);                         \
            else if (step == 2) on = name##_means##N(k, done, p, x, y1 - y0, 2, (T)count, to);                         \
            else on = name##_means##N(k, done, p, x, y1 - y0, step, (T)count, to);                                     \
        }                                                                                                              \
        return on;                                                                                                     \
    }
DEFINE_MEAN_ROW(f32, float, 16)
DEFINE_MEAN_ROW(f64, double, 8)
DEFINE_MEAN_ROW(i64, int64_t, 8)
_Static_assert(TD_POOL_SIDE == 16 && TD_POOL_ROW_LEAST == 4, "as many as there are vectors for");

/* Does one of eight beat m, or is one NaN? Rarely, in a long window. */
static inline __attribute__((always_inline)) bool beaten_f32(const float *x, float m)
{
#if defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_set1_ps(m), _CMP_NLE_UQ));
#else
    bool any = false;
    for (int i = 0; i < 8; i++) any |= !(x[i] <= m);
    return any;
#endif
}
static inline __attribute__((always_inline)) bool beaten_f64(const double *x, double m)
{
#if defined(__AVX2__)
    const __m256d most = _mm256_set1_pd(m);
    return _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(_mm256_loadu_pd(x), most, _CMP_NLE_UQ),
                                           _mm256_cmp_pd(_mm256_loadu_pd(x + 4), most, _CMP_NLE_UQ)));
#else
    bool any = false;
    for (int i = 0; i < 8; i++) any |= !(x[i] <= m);
    return any;
#endif
}
#define DEFINE_SCAN(name, T)                                                                                           \
    static void scan_##name(int64_t n, const T *x, int64_t at, T *value, int64_t *best)                                \
    {                                                                                                                  \
        T m = *value;                                                                                                  \
        for (int64_t i = 0, to; i < n; i = to) {                                                                       \
            to = td_min64(i + 8, n);                                                                                   \
            if (to == i + 8 && !beaten_##name(x + i, m)) continue;                                                     \
            for (int64_t j = i; j < to; j++)                                                                           \
                if (x[j] > m || x[j] != x[j]) m = x[j], *best = at + j;                                                \
        }                                                                                                              \
        *value = m;                                                                                                    \
    }
DEFINE_SCAN(f32, float)
DEFINE_SCAN(f64, double)

extern const td_pools TD_ISA_NAME(td_pool);
const td_pools TD_ISA_NAME(td_pool) = {.mean_f32 = f32_mean_row,
                                       .mean_f64 = f64_mean_row,
                                       .mean_i64 = i64_mean_row,
                                       .scan_f32 = scan_f32,
                                       .scan_f64 = scan_f64,
                                       .max = {[TD_UINT8] = u8_row,
                                               [TD_INT8] = i8_row,
                                               [TD_UINT16] = u16_row,
                                               [TD_INT16] = i16_row,
                                               [TD_UINT32] = u32_row,
                                               [TD_INT32] = i32_row,
                                               [TD_UINT64] = u64_row,
                                               [TD_INT64] = i64_row,
                                               [TD_FLOAT32] = f32_row,
                                               [TD_FLOAT64] = f64_row}};
