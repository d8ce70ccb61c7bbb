/* Rows of recurrent layers. See recurrent.h. */
#include "daemon/kernels/cpu/vec/recurrent.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include "daemon/kernels/cpu/vec/math.h"

#define EACH _Pragma("GCC ivdep") for (int64_t j = 0; j < n; j++)

#define DEFINE_FORWARD(T, S)                                                                                           \
    static void lstm_##S(int64_t n, void *gates, const void *bias, const void *before, void *cell, void *out)          \
    {                                                                                                                  \
        T *restrict a = gates, *restrict c = cell, *restrict y = out;                                                  \
        const T *restrict b = bias, *restrict was = before;                                                            \
        EACH                                                                                                           \
        {                                                                                                              \
            const T i = td_sigmoid_##S(a[j] + b[j]), f = td_sigmoid_##S(a[n + j] + b[n + j]);                          \
            const T g = td_tanh_##S(a[2 * n + j] + b[2 * n + j]), o = td_sigmoid_##S(a[3 * n + j] + b[3 * n + j]);     \
            const T now = f * was[j] + i * g;                                                                          \
            a[j] = i, a[n + j] = f, a[2 * n + j] = g, a[3 * n + j] = o;                                                \
            c[j] = now;                                                                                                \
            y[j] = o * td_tanh_##S(now);                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static void gru_##S(int64_t n, void *gates, void *hidden, const void *bias, const void *before, void *out)         \
    {                                                                                                                  \
        T *restrict a = gates, *restrict h = hidden, *restrict y = out;                                                \
        const T *restrict b = bias, *restrict was = before;                                                            \
        EACH                                                                                                           \
        {                                                                                                              \
            const T r = td_sigmoid_##S(a[j] + b[j]), z = td_sigmoid_##S(a[n + j] + b[n + j]);                          \
            const T through = h[j] + b[3 * n + j];                                                                     \
            const T now = td_tanh_##S(a[2 * n + j] + b[2 * n + j] + r * through);                                      \
            a[j] = r, a[n + j] = z, a[2 * n + j] = now;                                                                \
            h[j] = through;                                                                                            \
            y[j] = now + z * (was[j] - now);                                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void rnn_##S(int64_t n, void *out, const void *bias, bool relu)                                             \
    {                                                                                                                  \
        T *restrict y = out;                                                                                           \
        const T *restrict b = bias;                                                                                    \
        if (relu) EACH { T v = y[j] + b[j]; y[j] = v < 0 ? 0 : v; }                                                    \
        else EACH y[j] = td_tanh_##S(y[j] + b[j]);                                                                     \
    }

#define DEFINE_BACK(T, S)                                                                                              \
    static void lstm_back_##S(int64_t n, const void *gates, const void *before, const void *cell, const void *state,   \
                              void *dcell, void *to)                                                                   \
    {                                                                                                                  \
        const T *restrict a = gates, *restrict was = before, *restrict c = cell, *restrict dh = state;                 \
        T *restrict dc = dcell, *restrict d = to;                                                                      \
        EACH                                                                                                           \
        {                                                                                                              \
            const T i = a[j], f = a[n + j], g = a[2 * n + j], o = a[3 * n + j], t = td_tanh_##S(c[j]);                 \
            const T all = dc[j] + dh[j] * o * (1 - t * t);                                                             \
            d[j] = all * g * (i * (1 - i));                                                                            \
            d[n + j] = all * was[j] * (f * (1 - f));                                                                   \
            d[2 * n + j] = all * i * (1 - g * g);                                                                      \
            d[3 * n + j] = dh[j] * t * (o * (1 - o));                                                                  \
            dc[j] = all * f;                                                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void gru_back_##S(int64_t n, const void *gates, const void *hidden, const void *before, void *state,        \
                             void *to, void *dhidden)                                                                  \
    {                                                                                                                  \
        const T *restrict a = gates, *restrict h = hidden, *restrict was = before;                                     \
        T *restrict dh = state, *restrict d = to, *restrict through = dhidden;                                         \
        EACH                                                                                                           \
        {                                                                                                              \
            const T r = a[j], z = a[n + j], now = a[2 * n + j], g = dh[j];                                             \
            const T dn = g * (1 - z) * (1 - now * now);                                                                \
            d[j] = dn * h[j] * (r * (1 - r));                                                                          \
            d[n + j] = g * (was[j] - now) * (z * (1 - z));                                                             \
            d[2 * n + j] = dn;                                                                                         \
            through[j] = dn * r;                                                                                       \
            dh[j] = g * z;                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void rnn_back_##S(int64_t n, const void *out, const void *state, void *to, bool relu)                       \
    {                                                                                                                  \
        const T *restrict y = out, *restrict dh = state;                                                               \
        T *restrict d = to;                                                                                            \
        if (relu) EACH d[j] = y[j] <= 0 ? 0 : dh[j];                                                                   \
        else EACH d[j] = dh[j] * (1 - y[j] * y[j]);                                                                    \
    }

DEFINE_FORWARD(float, f32)
DEFINE_FORWARD(double, f64)
DEFINE_BACK(float, f32)
DEFINE_BACK(double, f64)

extern const td_recurrents TD_ISA_NAME(td_recurrent);
const td_recurrents TD_ISA_NAME(td_recurrent) = {
    {lstm_f32, gru_f32, rnn_f32, lstm_back_f32, gru_back_f32, rnn_back_f32},
    {lstm_f64, gru_f64, rnn_f64, lstm_back_f64, gru_back_f64, rnn_back_f64}};
