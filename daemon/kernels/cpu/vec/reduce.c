/* The folds: see reduce.h. Each type has its own section; what is common is written once as a macro. */
#include "daemon/kernels/cpu/vec/reduce.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include "daemon/kernels/cpu/vec/lanes.h"

/* ---- float and double */

#define FLOAT_FOLDS(T, S)                                                                                              \
    static void row_sum_##S(int64_t n, const void *x, td_word *a, td_word *b, int64_t seen)                            \
    {                                                                                                                  \
        (void)b, (void)seen;                                                                                           \
        a->f += sum_##S(n, x);                                                                                         \
    }                                                                                                                  \
    static void col_sum_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)b, (void)seen;                                                                                           \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) a[i].f += (double)x[i];                                   \
    }                                                                                                                  \
    static void row_squares_##S(int64_t n, const void *x, td_word *a, td_word *b, int64_t seen)                        \
    {                                                                                                                  \
        (void)b, (void)seen;                                                                                           \
        a->f += squares_##S(n, x);                                                                                     \
    }                                                                                                                  \
    static void col_squares_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                       \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)b, (void)seen;                                                                                           \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) a[i].f += (double)x[i] * (double)x[i];                    \
    }                                                                                                                  \
    static void row_prod_##S(int64_t n, const void *x, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        (void)b, (void)seen;                                                                                           \
        a->f *= product_##S(n, x);                                                                                     \
    }                                                                                                                  \
    static void col_prod_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                          \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)b, (void)seen;                                                                                           \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) a[i].f *= (double)x[i];                                   \
    }                                                                                                                  \
    /* Mean and squared deviation of a block, then joined with what was seen (Chan, Golub and LeVeque 1979). */        \
    static void row_var_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        T d[TD_FOLD_BLOCK];                                                                                            \
        double mean = sum_##S(n, x) / (double)n;                                                                       \
        T near = (T)mean;                                                                                              \
        for (int64_t i = 0; i < n; i++) d[i] = (x[i] - near) * (x[i] - near);                                          \
        double off = mean - (double)near, m2 = sum_##S(n, d) - (double)n * off * off;                                  \
        if (!(m2 > 0x1p-90 && m2 < (double)INFINITY)) { /* squares of floats may be beyond their range */              \
            m2 = 0;                                                                                                    \
            for (int64_t i = 0; i < n; i++) m2 += ((double)x[i] - mean) * ((double)x[i] - mean);                       \
        }                                                                                                              \
        double delta = mean - a->f, share = (double)n / (double)(seen + n);                                            \
        double apart = seen ? delta * delta * (double)seen * share : 0; /* of doubles beyond range that is infinite */ \
        a->f += delta * share;                                                                                         \
        b->f += (m2 > 0 || m2 != m2 ? m2 : 0) + apart;                                                                 \
    }                                                                                                                  \
    static void col_var_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        double inverse = 1.0 / (double)(seen + 1);                                                                     \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                           \
        {                                                                                                              \
            double delta = (double)x[i] - a[i].f;                                                                      \
            a[i].f += delta * inverse;                                                                                 \
            b[i].f += delta * ((double)x[i] - a[i].f);                                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    /* a: the largest so far, b: the sum of exp(x - a). */                                                             \
    static void row_lse_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        T e[TD_FOLD_BLOCK], m = max_##S(n, x);                                                                         \
        (void)seen;                                                                                                    \
        if (m > a->f || m != m) {                                                                                      \
            b->f *= exp(a->f - (double)m);                                                                             \
            a->f = m;                                                                                                  \
        }                                                                                                              \
        if (isinf(a->f)) { /* all -inf: nothing to add; +inf: the sum stays finite */                                  \
            b->f = 1;                                                                                                  \
            return;                                                                                                    \
        }                                                                                                              \
        exp_minus_##S(n, x, (T)a->f, e);                                                                               \
        b->f += sum_##S(n, e);                                                                                         \
    }                                                                                                                  \
    static void col_lse_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)seen;                                                                                                    \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                           \
        {                                                                                                              \
            T v = x[i], m = (T)a[i].f, d = v == m ? 0 : v - m;                                                         \
            T e = td_exp_##S(d > 0 ? -d : d);                                                                          \
            double s = b[i].f;                                                                                         \
            b[i].f = v > m ? s * (double)e + 1 : s + (double)e;                                                        \
            a[i].f = v > m || v != v ? v : m;                                                                          \
        }                                                                                                              \
    }
FLOAT_FOLDS(float, f32)
FLOAT_FOLDS(double, f64)

/* Records are read and written once for four rows. */
#define FOUR_ROWS(NAME, STEP)                                                                                          \
    static void col4_##NAME##_f32(int64_t n, const char *p, int64_t pitch, td_word *a, int64_t seen)                   \
    {                                                                                                                  \
        const float *x0 = (const float *)p, *x1 = (const float *)(p + pitch);                                          \
        const float *x2 = (const float *)(p + 2 * pitch), *x3 = (const float *)(p + 3 * pitch);                        \
        (void)seen;                                                                                                    \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) STEP;                                                     \
    }
FOUR_ROWS(sum, a[i].f += (double)((x0[i] + x1[i]) + (x2[i] + x3[i])))
FOUR_ROWS(prod, a[i].f *= ((double)x0[i] * (double)x1[i]) * ((double)x2[i] * (double)x3[i]))

/* ---- extremes. WORD is the field, WINS(x, m) whether x takes the place of m, BEST(n, x) the block's winner. */

#define EXTREMES(NAME, T, S, WORD, WINS, BEST)                                                                         \
    static void row_##NAME##_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                      \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        T m = BEST(n, x), old = (T)a->WORD;                                                                            \
        (void)b;                                                                                                       \
        if (seen == 0 || WINS(m, old)) a->WORD = m;                                                                    \
    }                                                                                                                  \
    static void col_##NAME##_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                      \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)b;                                                                                                       \
        if (seen == 0) {                                                                                               \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) a[i].WORD = x[i];                                     \
            return;                                                                                                    \
        }                                                                                                              \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                           \
        {                                                                                                              \
            T v = x[i], m = (T)a[i].WORD;                                                                              \
            a[i].WORD = WINS(v, m) ? v : m;                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    /* The first index wins a tie; NaN wins over all numbers, and the first NaN stays. */                              \
    static void row_arg##NAME##_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                   \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        T m = BEST(n, x), old = (T)a->WORD;                                                                            \
        if (seen && (old != old || !(WINS(m, old)))) return;                                                           \
        int64_t i = 0;                                                                                                 \
        while (i < n - 1 && x[i] != m && !(m != m && x[i] != x[i])) i++;                                               \
        a->WORD = x[i];                                                                                                \
        b->i = seen + i;                                                                                               \
    }                                                                                                                  \
    static void col_arg##NAME##_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                   \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                           \
        {                                                                                                              \
            T v = x[i], m = (T)a[i].WORD;                                                                              \
            int take = (seen == 0) | ((WINS(v, m)) & (m == m));                                                        \
            a[i].WORD = take ? v : m;                                                                                  \
            b[i].i = take ? seen : b[i].i;                                                                             \
        }                                                                                                              \
    }
#define LARGER(x, m) ((x > m) | (x != x))
#define SMALLER(x, m) ((x < m) | (x != x))
TD_FN int64_t max_i64(int64_t n, const int64_t *x)
{
    int64_t m = x[0];
    for (int64_t i = 1; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}
TD_FN int64_t min_i64(int64_t n, const int64_t *x)
{
    int64_t m = x[0];
    for (int64_t i = 1; i < n; i++) m = x[i] < m ? x[i] : m;
    return m;
}
EXTREMES(max, float, f32, f, LARGER, max_f32)
EXTREMES(min, float, f32, f, SMALLER, min_f32)
EXTREMES(max, double, f64, f, LARGER, max_f64)
EXTREMES(min, double, f64, f, SMALLER, min_f64)
EXTREMES(max, int64_t, i64, i, LARGER, max_i64)
EXTREMES(min, int64_t, i64, i, SMALLER, min_i64)

/* As row by row: of those alike the first, of several NaN the last. */
#define FOUR_EXTREMES(NAME, BETTER)                                                                                    \
    static void col4_##NAME##_f32(int64_t n, const char *p, int64_t pitch, td_word *a, int64_t seen)                   \
    {                                                                                                                  \
        const float *x0 = (const float *)p, *x1 = (const float *)(p + pitch);                                          \
        const float *x2 = (const float *)(p + 2 * pitch), *x3 = (const float *)(p + 3 * pitch);                        \
        int64_t i = 0;                                                                                                 \
        for (; i + 8 <= n; i += 8) {                                                                                   \
            f8 m = seen ? __builtin_convertvector(load_d8(&a[i].f), f8) : load_f8(x0 + i);                             \
            f8 u = BETTER(load_f8(x0 + i), load_f8(x1 + i)), v = BETTER(load_f8(x2 + i), load_f8(x3 + i));             \
            d8 wide = widen(BETTER(m, BETTER(u, v)));                                                                  \
            memcpy(&a[i], &wide, sizeof wide);                                                                         \
        }                                                                                                              \
        if (i == n) return;                                                                                            \
        for (int row = 0; row < 4; row++)                                                                              \
            col_##NAME##_f32(n - i, (const float *)(p + row * pitch) + i, a + i, NULL, seen + row);                    \
    }
FOUR_EXTREMES(max, larger_f8)
FOUR_EXTREMES(min, smaller_f8)

/* ---- integers and truth values */

#define INTEGER_FOLDS(NAME, T, S, STEP)                                                                                \
    static void row_##NAME##_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                      \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        int64_t r = a->i;                                                                                              \
        (void)b, (void)seen;                                                                                           \
        for (int64_t i = 0; i < n; i++) STEP(r, x[i]);                                                                 \
        a->i = r;                                                                                                      \
    }                                                                                                                  \
    static void col_##NAME##_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                      \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)b, (void)seen;                                                                                           \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) STEP(a[i].i, x[i]);                                       \
    }
#define ADD(r, x) r += x
#define MULTIPLY(r, x) r *= x
#define OR(r, x) r |= (x) != 0
#define AND(r, x) r &= (x) != 0
INTEGER_FOLDS(sum, int64_t, i64, ADD)
INTEGER_FOLDS(prod, int64_t, i64, MULTIPLY)
INTEGER_FOLDS(any, unsigned char, u8, OR)
INTEGER_FOLDS(all, unsigned char, u8, AND)

/* ---- complex: pairs of reals; a has the real parts, b the imaginary ones (of var: mean is not kept, see below) */

#define COMPLEX_FOLDS(T, S, L, R)                                                                                      \
    static void row_sum_##S(int64_t n, const void *x, td_word *a, td_word *b, int64_t seen)                            \
    {                                                                                                                  \
        d8 s = lanes_##R(2 * n, x);                                                                                    \
        (void)seen;                                                                                                    \
        a->f += (s[0] + s[4]) + (s[2] + s[6]);                                                                         \
        b->f += (s[1] + s[5]) + (s[3] + s[7]);                                                                         \
    }                                                                                                                  \
    static void col_sum_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)seen;                                                                                                    \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) a[i].f += (double)x[2 * i];                               \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) b[i].f += (double)x[2 * i + 1];                           \
    }                                                                                                                  \
    static void col_prod_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                          \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)seen;                                                                                                    \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                           \
        {                                                                                                              \
            double re = x[2 * i], im = x[2 * i + 1], c = a[i].f;                                                       \
            a[i].f = c * re - b[i].f * im;                                                                             \
            b[i].f = c * im + b[i].f * re;                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void row_prod_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                          \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        for (int64_t i = 0; i < n; i++) col_prod_##S(1, x + 2 * i, a, b, seen);                                        \
    }                                                                                                                  \
    /* The record is the result so far: minus infinity of nothing. The largest real part keeps exponentials finite. */ \
    static void row_lse_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        double m = a->f;                                                                                               \
        (void)seen;                                                                                                    \
        for (int64_t i = 0; i < n; i++) m = td_maximum_f64(m, (double)x[2 * i]);                                       \
        if (isinf(m)) m = 0;                                                                                           \
        td_c128 s = td_exp_c128(td_make_c128(a->f - m, b->f));                                                         \
        for (int64_t i = 0; i < n; i++) s += td_exp_c128(td_make_c128((double)x[2 * i] - m, (double)x[2 * i + 1]));    \
        s = td_log_c128(s);                                                                                            \
        a->f = m + __real__ s;                                                                                         \
        b->f = __imag__ s;                                                                                             \
    }                                                                                                                  \
    static void col_lse_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        for (int64_t i = 0; i < n; i++) row_lse_##S(1, x + 2 * i, a + i, b + i, seen);                                 \
    }
COMPLEX_FOLDS(float, c64, f8, f32)
COMPLEX_FOLDS(double, c128, d8, f64)

/* ---- lines: softmax. m is the largest element, so that nothing overflows. */

#define LINES(T, S)                                                                                                    \
    static void softmax_##S(int64_t n, const T *x, const T *unused, T *out)                                            \
    {                                                                                                                  \
        (void)unused;                                                                                                  \
        exp_minus_##S(n, x, max_##S(n, x), out);                                                                       \
        T scale = (T)(1.0 / sum_##S(n, out));                                                                          \
        for (int64_t i = 0; i < n; i++) out[i] *= scale;                                                               \
    }                                                                                                                  \
    static void log_softmax_##S(int64_t n, const T *x, const T *unused, T *out)                                        \
    {                                                                                                                  \
        T m = max_##S(n, x);                                                                                           \
        (void)unused;                                                                                                  \
        exp_minus_##S(n, x, m, out);                                                                                   \
        T l = (T)log(sum_##S(n, out));                                                                                 \
        for (int64_t i = 0; i < n; i++) out[i] = (x[i] - m) - l;                                                       \
    }                                                                                                                  \
    /* y (g - sum(g y)) */                                                                                             \
    static void softmax_backward_##S(int64_t n, const T *g, const T *y, T *out)                                        \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) out[i] = g[i] * y[i];                                                          \
        T s = (T)sum_##S(n, out);                                                                                      \
        for (int64_t i = 0; i < n; i++) out[i] = y[i] * (g[i] - s);                                                    \
    }                                                                                                                  \
    /* g - e^y sum(g) */                                                                                               \
    static void log_softmax_backward_##S(int64_t n, const T *g, const T *y, T *out)                                    \
    {                                                                                                                  \
        T s = (T)sum_##S(n, g);                                                                                        \
        exp_minus_##S(n, y, 0, out);                                                                                   \
        for (int64_t i = 0; i < n; i++) out[i] = g[i] - out[i] * s;                                                    \
    }
LINES(float, f32)
LINES(double, f64)

#define REALS(KIND, NAME)                                                                                              \
    {                                                                                                                  \
        [TD_R_F32] = KIND##_##NAME##_f32, [TD_R_F64] = KIND##_##NAME##_f64                                             \
    }
#define INEXACT(KIND, NAME)                                                                                            \
    {                                                                                                                  \
        [TD_R_F32] = KIND##_##NAME##_f32, [TD_R_F64] = KIND##_##NAME##_f64, [TD_R_C64] = KIND##_##NAME##_c64,          \
        [TD_R_C128] = KIND##_##NAME##_c128                                                                             \
    }
#define NUMBERS(KIND, NAME)                                                                                            \
    {                                                                                                                  \
        [TD_R_F32] = KIND##_##NAME##_f32, [TD_R_F64] = KIND##_##NAME##_f64, [TD_R_I64] = KIND##_##NAME##_i64           \
    }
#define EVERY(KIND, NAME)                                                                                              \
    {                                                                                                                  \
        [TD_R_F32] = KIND##_##NAME##_f32, [TD_R_F64] = KIND##_##NAME##_f64, [TD_R_I64] = KIND##_##NAME##_i64,          \
        [TD_R_C64] = KIND##_##NAME##_c64, [TD_R_C128] = KIND##_##NAME##_c128                                           \
    }
#define FOLDS(KIND)                                                                                                    \
    {                                                                                                                  \
        [TD_FOLD_SUM] = EVERY(KIND, sum), [TD_FOLD_SQUARES] = REALS(KIND, squares),                                    \
        [TD_FOLD_PROD] = EVERY(KIND, prod), [TD_FOLD_MAX] = NUMBERS(KIND, max), [TD_FOLD_MIN] = NUMBERS(KIND, min),    \
        [TD_FOLD_ARGMAX] = NUMBERS(KIND, argmax), [TD_FOLD_ARGMIN] = NUMBERS(KIND, argmin),                            \
        [TD_FOLD_VAR] = REALS(KIND, var), [TD_FOLD_LSE] = INEXACT(KIND, lse),                                          \
        [TD_FOLD_ANY] = {[TD_R_U8] = KIND##_any_u8}, [TD_FOLD_ALL] = {                                                 \
            [TD_R_U8] = KIND##_all_u8                                                                                  \
        }                                                                                                              \
    }

extern const td_reducers TD_ISA_NAME(td_reduce);
const td_reducers TD_ISA_NAME(td_reduce) = {
    .row = FOLDS(row),
    .col = FOLDS(col),
    .col4_f32 = {[TD_FOLD_SUM] = col4_sum_f32,
                 [TD_FOLD_PROD] = col4_prod_f32,
                 [TD_FOLD_MAX] = col4_max_f32,
                 [TD_FOLD_MIN] = col4_min_f32},
    .line_f32 = {softmax_f32, log_softmax_f32, softmax_backward_f32, log_softmax_backward_f32},
    .line_f64 = {softmax_f64, log_softmax_f64, softmax_backward_f64, log_softmax_backward_f64},
};
