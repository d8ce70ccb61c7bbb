/* softmax down columns: see softmax.h. Loops run along rows, so they vectorise whatever the columns hold. */
#include "daemon/kernels/cpu/vec/softmax.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include "daemon/kernels/cpu/vec/math_f32.h"

static void top(int64_t n, int64_t rows, const float *restrict x, int64_t step, float *restrict top)
{
    for (int64_t r = 0; r < rows; r++, x += step)
        for (int64_t j = 0; j < n; j++) top[j] = x[j] > top[j] ? x[j] : top[j];
}

/* `rows` rows of TERM (of row pointers a and b, column j), in groups that are added in float. */
#define ADD_ROWS(TERM)                                                                                                 \
    float part[TD_COLS_MOST];                                                                                          \
    for (int64_t r = 0; r < rows;) {                                                                                   \
        int64_t end = r + TD_COLS_IN_FLOAT < rows ? r + TD_COLS_IN_FLOAT : rows;                                       \
        for (int64_t j = 0; j < n; j++) part[j] = 0;                                                                   \
        for (; r < end; r++, a += as, b += bs)                                                                         \
            for (int64_t j = 0; j < n; j++) part[j] += (TERM);                                                         \
        for (int64_t j = 0; j < n; j++) sum[j] += (double)part[j];                                                     \
    }

static void add_exp(int64_t n, int64_t rows, const float *restrict a, int64_t as, const float *restrict top,
                    double *restrict sum)
{
    const float *b = a;
    int64_t bs = 0;
    ADD_ROWS(td_exp_f32(a[j] - top[j]))
}
static void add_product(int64_t n, int64_t rows, const float *restrict a, int64_t as, const float *restrict b,
                        int64_t bs, double *restrict sum)
{
    ADD_ROWS(a[j] * b[j])
}
static void add(int64_t n, int64_t rows, const float *restrict a, int64_t as, double *restrict sum)
{
    const float *b = a;
    int64_t bs = 0;
    ADD_ROWS(a[j])
}

/* `out` may be the very row that is read. */
#define ROW(NAME, A, B, C, D, VALUE)                                                                                   \
    static void NAME(int64_t n, const float *A, const float *B, const float *C, float *D)                              \
    {                                                                                                                  \
        _Pragma("GCC ivdep") for (int64_t j = 0; j < n; j++) D[j] = (VALUE);                                           \
    }
ROW(softmax, x, top, scale, out, td_exp_f32(x[j] - top[j]) * scale[j])
ROW(log_softmax, x, top, log_sum, out, (x[j] - top[j]) - log_sum[j])
ROW(softmax_backward, g, y, sum, out, y[j] * (g[j] - sum[j]))
ROW(log_softmax_backward, g, y, sum, out, g[j] - td_exp_f32(y[j]) * sum[j])

extern const td_softmax_cols TD_ISA_NAME(td_softmax);
const td_softmax_cols TD_ISA_NAME(td_softmax) = {top,     add_exp,     add_product,      add,
                                                 softmax, log_softmax, softmax_backward, log_softmax_backward};
