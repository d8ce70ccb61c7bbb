/* The folds: see reduce.h. Each type has its own section; what is common is written once as a macro. */
#include "daemon/kernels/cpu/vec/reduce.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include "daemon/kernels/cpu/vec/loops.h"

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

static double sum_f32(int64_t n, const float *x)
{
    return fold8(lanes_f32(n, x));
}
static double sum_f64(int64_t n, const double *x)
{
    return fold8(lanes_f64(n, x));
}

/* NaN wins: it is taken when met, and nothing is larger than it afterwards. */
TD_FN f8 larger_f8(f8 m, f8 x)
{
    i8 take = (x > m) | (x != x);
    return (f8)(((i8)x & take) | ((i8)m & ~take));
}
TD_FN d8 larger_d8(d8 m, d8 x)
{
    l8 take = (x > m) | (x != x);
    return (d8)(((l8)x & take) | ((l8)m & ~take));
}
static float max_f32(int64_t n, const float *x)
{
    f8 m0 = load_f8((const float[8]){[0 ... 7] = -INFINITY}), m1 = m0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        m0 = larger_f8(m0, load_f8(x + i));
        m1 = larger_f8(m1, load_f8(x + i + 8));
    }
    m0 = larger_f8(m0, m1);
    float m = -INFINITY;
    for (int j = 0; j < 8; j++) m = m0[j] > m || m0[j] != m0[j] ? m0[j] : m;
    for (; i < n; i++) m = x[i] > m || x[i] != x[i] ? x[i] : m;
    return m;
}
static double max_f64(int64_t n, const double *x)
{
    d8 m0 = load_d8((const double[8]){[0 ... 7] = -(double)INFINITY});
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) m0 = larger_d8(m0, load_d8(x + i));
    double m = -(double)INFINITY;
    for (int j = 0; j < 8; j++) m = m0[j] > m || m0[j] != m0[j] ? m0[j] : m;
    for (; i < n; i++) m = x[i] > m || x[i] != x[i] ? x[i] : m;
    return m;
}
static float min_f32(int64_t n, const float *x)
{
    f8 m0 = load_f8((const float[8]){[0 ... 7] = -INFINITY});
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) m0 = larger_f8(m0, -load_f8(x + i));
    float m = -INFINITY;
    for (int j = 0; j < 8; j++) m = m0[j] > m || m0[j] != m0[j] ? m0[j] : m;
    for (; i < n; i++) m = -x[i] > m || x[i] != x[i] ? -x[i] : m;
    return -m;
}
static double min_f64(int64_t n, const double *x)
{
    d8 m0 = load_d8((const double[8]){[0 ... 7] = -(double)INFINITY});
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) m0 = larger_d8(m0, -load_d8(x + i));
    double m = -(double)INFINITY;
    for (int j = 0; j < 8; j++) m = m0[j] > m || m0[j] != m0[j] ? m0[j] : m;
    for (; i < n; i++) m = -x[i] > m || x[i] != x[i] ? -x[i] : m;
    return -m;
}

static void exp_minus_f32(int64_t n, const float *x, float m, float *y)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] = td_exp_f32(x[i] - m);
}
static void exp_minus_f64(int64_t n, const double *x, double m, double *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = exp(x[i] - m);
}
static double dot_f32(int64_t n, const float *x, const float *y)
{
    d8 s0 = {0}, s1 = {0};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        s0 += widen(load_f8(x + i) * load_f8(y + i) + load_f8(x + i + 8) * load_f8(y + i + 8));
        s1 += widen(load_f8(x + i + 16) * load_f8(y + i + 16) + load_f8(x + i + 24) * load_f8(y + i + 24));
    }
    s0 += s1;
    for (int j = 0; i < n; i++, j = (j + 1) & 7) s0[j] += (double)x[i] * (double)y[i];
    return fold8(s0);
}

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
        for (int64_t i = 0; i < n; i++) a[i].f += (double)x[i];                                                        \
    }                                                                                                                  \
    static void row_prod_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                          \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        double p0 = 1, p1 = 1, p2 = 1, p3 = 1;                                                                         \
        int64_t i = 0;                                                                                                 \
        (void)b, (void)seen;                                                                                           \
        for (; i + 4 <= n; i += 4) p0 *= x[i], p1 *= x[i + 1], p2 *= x[i + 2], p3 *= x[i + 3];                         \
        for (; i < n; i++) p0 *= x[i];                                                                                 \
        a->f *= (p0 * p1) * (p2 * p3);                                                                                 \
    }                                                                                                                  \
    static void col_prod_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                          \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)b, (void)seen;                                                                                           \
        for (int64_t i = 0; i < n; i++) a[i].f *= (double)x[i];                                                        \
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
        double delta = mean - a->f, share = (double)n / (double)(seen + n);                                            \
        a->f += delta * share;                                                                                         \
        b->f += (m2 > 0 || m2 != m2 ? m2 : 0) + delta * delta * (double)seen * share;                                  \
    }                                                                                                                  \
    static void col_var_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                           \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        double inverse = 1.0 / (double)(seen + 1);                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                              \
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
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T v = x[i], m = (T)a[i].f, d = v == m ? 0 : v - m;                                                         \
            T e = td_exp_##S(d > 0 ? -d : d);                                                                          \
            double s = b[i].f;                                                                                         \
            b[i].f = v > m ? s * (double)e + 1 : s + (double)e;                                                        \
            a[i].f = v > m || v != v ? v : m;                                                                          \
        }                                                                                                              \
    }
FLOAT_FOLDS(float, f32)
FLOAT_FOLDS(double, f64)

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
            for (int64_t i = 0; i < n; i++) a[i].WORD = x[i];                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
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
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T v = x[i], m = (T)a[i].WORD;                                                                              \
            int take = (seen == 0) | ((WINS(v, m)) & (m == m));                                                        \
            a[i].WORD = take ? v : m;                                                                                  \
            b[i].i = take ? seen : b[i].i;                                                                             \
        }                                                                                                              \
    }
#define LARGER(x, m) ((x > m) | (x != x))
#define SMALLER(x, m) ((x < m) | (x != x))
#define ARGNAMES(S)
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
        for (int64_t i = 0; i < n; i++) STEP(a[i].i, x[i]);                                                            \
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
        for (int64_t i = 0; i < n; i++) a[i].f += (double)x[2 * i];                                                    \
        for (int64_t i = 0; i < n; i++) b[i].f += (double)x[2 * i + 1];                                                \
    }                                                                                                                  \
    static void col_prod_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                          \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        (void)seen;                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double re = x[2 * i], im = x[2 * i + 1], c = a[i].f;                                                       \
            a[i].f = c * re - b[i].f * im;                                                                             \
            b[i].f = c * im + b[i].f * re;                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void row_prod_##S(int64_t n, const void *px, td_word *a, td_word *b, int64_t seen)                          \
    {                                                                                                                  \
        const T *x = px;                                                                                               \
        for (int64_t i = 0; i < n; i++) col_prod_##S(1, x + 2 * i, a, b, seen);                                        \
    }
COMPLEX_FOLDS(float, c64, f8, f32)
COMPLEX_FOLDS(double, c128, d8, f64)

#define REALS(KIND, NAME)                                                                                              \
    {                                                                                                                  \
        [TD_R_F32] = KIND##_##NAME##_f32, [TD_R_F64] = KIND##_##NAME##_f64                                             \
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
        [TD_FOLD_SUM] = EVERY(KIND, sum), [TD_FOLD_PROD] = EVERY(KIND, prod), [TD_FOLD_MAX] = NUMBERS(KIND, max),      \
        [TD_FOLD_MIN] = NUMBERS(KIND, min), [TD_FOLD_ARGMAX] = NUMBERS(KIND, argmax),                                  \
        [TD_FOLD_ARGMIN] = NUMBERS(KIND, argmin), [TD_FOLD_VAR] = REALS(KIND, var), [TD_FOLD_LSE] = REALS(KIND, lse),  \
        [TD_FOLD_ANY] = {[TD_R_U8] = KIND##_any_u8}, [TD_FOLD_ALL] = {                                                 \
            [TD_R_U8] = KIND##_all_u8                                                                                  \
        }                                                                                                              \
    }

extern const td_reducers TD_ISA_NAME(td_reduce);
const td_reducers TD_ISA_NAME(td_reduce) = {
    .row = FOLDS(row),
    .col = FOLDS(col),
    .max_f32 = max_f32,
    .sum_f32 = sum_f32,
    .exp_minus_f32 = exp_minus_f32,
    .dot_f32 = dot_f32,
};
