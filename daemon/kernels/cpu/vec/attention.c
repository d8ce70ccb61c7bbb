/* Rows of an attention's tiles. See attention.h. */
#include "daemon/kernels/cpu/vec/attention.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include "daemon/kernels/cpu/vec/lanes.h"

/* A row of which nothing is seen has no top yet: it counts nothing. */
#define DEFINE_ROWS(T, S)                                                                                              \
    static double part_##S(int64_t n, void *scores, double *top, double *scale)                                        \
    {                                                                                                                  \
        T *restrict s = scores;                                                                                        \
        const double most = (double)max_##S(n, s), now = most > *top || most != most ? most : *top;                    \
        *scale = now == *top ? 1 : exp(*top - now);                                                                    \
        *top = now;                                                                                                    \
        if (now == -(double)INFINITY) {                                                                                \
            memset(s, 0, (size_t)n * sizeof *s);                                                                       \
            return 0;                                                                                                  \
        }                                                                                                              \
        const T m = (T)now;                                                                                            \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) s[i] = td_exp_##S(s[i] - m);                              \
        return sum_##S(n, s);                                                                                          \
    }                                                                                                                  \
    static void times_##S(int64_t n, void *to, double by)                                                              \
    {                                                                                                                  \
        T *restrict x = to;                                                                                            \
        for (int64_t i = 0; i < n; i++) x[i] *= (T)by;                                                                 \
    }                                                                                                                  \
    static void back_##S(int64_t n, void *scores, void *to, double lse_, double delta_)                                \
    {                                                                                                                  \
        T *restrict p = scores, *restrict d = to;                                                                      \
        const T lse = (T)lse_, delta = (T)delta_;                                                                      \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                           \
        {                                                                                                              \
            p[i] = td_exp_##S(p[i] - lse);                                                                             \
            d[i] = p[i] * (d[i] - delta);                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void back_alone_##S(int64_t n, void *scores, void *to, double lse_)                                         \
    {                                                                                                                  \
        T *restrict p = scores, *restrict d = to;                                                                      \
        const T lse = (T)lse_;                                                                                         \
        double sum = 0, all = 0;                                                                                       \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) p[i] = td_exp_##S(p[i] - lse);                            \
        for (int64_t i = 0; i < n; i++) sum += (double)p[i] * (double)d[i], all += (double)p[i];                       \
        const T delta = all == 0 ? 0 : (T)(sum / all);                                                                                      \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) d[i] = p[i] * (d[i] - delta);                             \
    }                                                                                                                  \
    static double dot_##S(int64_t n, const void *x_, const void *y_)                                                   \
    {                                                                                                                  \
        const T *x = x_, *y = y_;                                                                                      \
        double sum = 0;                                                                                                \
        for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];                                            \
        return sum;                                                                                                    \
    }
DEFINE_ROWS(float, f32)
DEFINE_ROWS(double, f64)

extern const td_attentions TD_ISA_NAME(td_attention);
const td_attentions TD_ISA_NAME(td_attention) = {{part_f32, times_f32, back_f32, back_alone_f32, dot_f32},
                                                 {part_f64, times_f64, back_f64, back_alone_f64, dot_f64}};
