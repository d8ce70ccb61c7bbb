/* softmax down columns: see softmax_cols.h.
 *
 * A matrix of length x width is cut into blocks of rows and strips of columns. One phase finds top and sum of each
 * column in each block, the next merges them in order of the blocks, the last writes; it computes the exponentials
 * again, which costs less than keeping them. When a strip is one block, one phase does all of it in cache. */
#include "daemon/kernels/cpu/norms/softmax_cols.h"
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/vec/reduce.h"
#include "daemon/kernels/cpu/vec/softmax.h"
#include "daemon/kernels/plans.h"
#include <math.h>

typedef struct cols {
    int64_t length, width, outer; /* of each of `outer` matrices */
    int64_t rows, strip;          /* of a block */
    int64_t blocks, strips;       /* in a matrix */
    int64_t down[3];              /* from row to row, in elements: out, in 0, in 1 */
    int ndim;                     /* outer dimensions, innermost first */
    int64_t shape[TD_MAX_DIMS], step[3][TD_MAX_DIMS];
    size_t tops_at, sums_at; /* in work memory: float, double [outer][blocks][width] */
    int op;
} cols;
_Static_assert(sizeof(cols) <= TD_KSTATE_BYTES, "cols lives in a call's state");

/* What is known of the columns of a strip. */
typedef struct known {
    float top[TD_COLS_MOST], value[TD_COLS_MOST]; /* value: 1 / sum, log of the sum, or the sum */
    double sum[TD_COLS_MOST];
} known;

static bool is_forward(const cols *c)
{
    return c->op == TD_LINE_SOFTMAX || c->op == TD_LINE_LOG_SOFTMAX;
}

static float *row_at(const td_kcall *k, const cols *c, int which, int64_t matrix, int64_t row, int64_t col)
{
    float *p = which ? k->in[which - 1].data : k->out[0].data;
    for (int d = 0; d < c->ndim; d++) {
        p += matrix % c->shape[d] * c->step[which][d];
        matrix /= c->shape[d];
    }
    return p + row * c->down[which] + col;
}

/* Top and sum of `rows` rows. A column of -inf alone has the sum 0 here: another block may have more. */
static void measure(const td_kcall *k, const cols *c, int64_t matrix, int64_t row, int64_t rows, int64_t col, int64_t n,
                    float *top, double *sum)
{
    const td_softmax_cols *v = td_isa_now->softmax;
    const float *x = row_at(k, c, 1, matrix, row, col);
    memset(sum, 0, (size_t)n * sizeof *sum);
    if (!is_forward(c)) {
        if (c->op == TD_LINE_LOG_SOFTMAX_BACKWARD) v->add(n, rows, x, c->down[1], sum);
        else v->add_product(n, rows, x, c->down[1], row_at(k, c, 2, matrix, row, col), c->down[2], sum);
        return;
    }
    float finite[TD_COLS_MOST];
    for (int64_t j = 0; j < n; j++) top[j] = -INFINITY;
    v->top(n, rows, x, c->down[1], top);
    for (int64_t j = 0; j < n; j++) finite[j] = top[j] == -INFINITY ? 0 : top[j];
    v->add_exp(n, rows, x, c->down[1], finite, sum);
}

static void finish(const cols *c, int64_t n, const double *sum, float *value)
{
    for (int64_t j = 0; j < n; j++)
        value[j] = (float)(c->op == TD_LINE_SOFTMAX ? 1 / sum[j] : c->op == TD_LINE_LOG_SOFTMAX ? log(sum[j]) : sum[j]);
}

static void write_rows(const td_kcall *k, const cols *c, int64_t matrix, int64_t row, int64_t rows, int64_t col,
                       int64_t n, const float *top, const float *value)
{
    const td_softmax_cols *v = td_isa_now->softmax;
    const float *x = row_at(k, c, 1, matrix, row, col), *y = is_forward(c) ? top : row_at(k, c, 2, matrix, row, col);
    int64_t ys = is_forward(c) ? 0 : c->down[2];
    float *out = row_at(k, c, 0, matrix, row, col);
    for (int64_t r = 0; r < rows; r++, x += c->down[1], y += ys, out += c->down[0]) switch (c->op) {
        case TD_LINE_SOFTMAX: v->softmax(n, x, y, value, out); break;
        case TD_LINE_LOG_SOFTMAX: v->log_softmax(n, x, y, value, out); break;
        case TD_LINE_SOFTMAX_BACKWARD: v->softmax_backward(n, x, y, value, out); break;
        default: v->log_softmax_backward(n, x, y, value, out);
        }
}

/* Which columns a strip holds. */
static void strip_of(const cols *c, int64_t strip, int64_t *col, int64_t *n)
{
    int64_t end;
    td_cut_range(c->width, c->strip, strip, col, &end);
    *n = end - *col;
}

/* A strip that is one block. */
static void whole_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const cols *c = (const cols *)k->state;
    known *s = scratch;
    int64_t matrix = chunk / c->strips, col, n;
    strip_of(c, chunk % c->strips, &col, &n);
    measure(k, c, matrix, 0, c->length, col, n, s->top, s->sum);
    finish(c, n, s->sum, s->value);
    write_rows(k, c, matrix, 0, c->length, col, n, s->top, s->value);
}

static float *tops(const td_kcall *k, const cols *c, int64_t matrix, int64_t block)
{
    return (float *)((char *)k->work + c->tops_at) + (matrix * c->blocks + block) * c->width;
}
static double *sums(const td_kcall *k, const cols *c, int64_t matrix, int64_t block)
{
    return (double *)((char *)k->work + c->sums_at) + (matrix * c->blocks + block) * c->width;
}

static void measure_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const cols *c = (const cols *)k->state;
    int64_t strip = chunk % c->strips, block = chunk / c->strips % c->blocks, matrix = chunk / c->strips / c->blocks;
    int64_t col, n, b, e;
    (void)scratch;
    strip_of(c, strip, &col, &n);
    td_cut_range(c->length, c->rows, block, &b, &e);
    measure(k, c, matrix, b, e - b, col, n, tops(k, c, matrix, block) + col, sums(k, c, matrix, block) + col);
}

/* Into what the first block found: the top of all, and what the last phase wants, as floats in place of its sums. */
static void merge_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const cols *c = (const cols *)k->state;
    known *s = scratch;
    int64_t matrix = chunk / c->strips, col, n;
    strip_of(c, chunk % c->strips, &col, &n);
    float *top = tops(k, c, matrix, 0) + col;
    memcpy(s->top, top, (size_t)n * sizeof *top);
    memset(s->sum, 0, sizeof s->sum);
    for (int64_t b = 1; b < c->blocks && is_forward(c); b++)
        for (int64_t j = 0; j < n; j++) {
            float t = tops(k, c, matrix, b)[col + j];
            s->top[j] = t > s->top[j] ? t : s->top[j];
        }
    for (int64_t b = 0; b < c->blocks; b++) {
        const float *t = tops(k, c, matrix, b) + col;
        const double *part = sums(k, c, matrix, b) + col;
        for (int64_t j = 0; j < n; j++)
            s->sum[j] +=
                !is_forward(c) || t[j] == s->top[j] ? part[j] : part[j] * exp((double)t[j] - (double)s->top[j]);
    }
    finish(c, n, s->sum, s->value);
    memcpy(top, s->top, (size_t)n * sizeof *top);
    memcpy(sums(k, c, matrix, 0) + col, s->value, (size_t)n * sizeof *s->value);
}

static void write_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const cols *c = (const cols *)k->state;
    int64_t strip = chunk % c->strips, block = chunk / c->strips % c->blocks, matrix = chunk / c->strips / c->blocks;
    int64_t col, n, b, e;
    (void)scratch;
    strip_of(c, strip, &col, &n);
    td_cut_range(c->length, c->rows, block, &b, &e);
    write_rows(k, c, matrix, b, e - b, col, n, tops(k, c, matrix, 0) + col,
               (const float *)(const void *)(sums(k, c, matrix, 0) + col));
}

/* ---- the plan */

/* Are the dimensions behind `dim` one run of memory? Fills in how rows and matrices follow each other. */
static bool lies_well(cols *c, int which, const td_desc *d, int dim)
{
    int64_t width = 1;
    for (int i = d->ndim - 1; i > dim; i--) {
        if (d->shape[i] != 1 && d->stride[i] != width) return false;
        width *= d->shape[i];
    }
    c->down[which] = d->stride[dim];
    c->ndim = 0;
    for (int i = dim - 1; i >= 0; i--) {
        c->shape[c->ndim] = d->shape[i];
        c->step[which][c->ndim++] = d->stride[i];
    }
    return d->dtype == TD_FLOAT32;
}

static void cut(cols *c)
{
    c->strip = td_min64(c->width, TD_COLS_MOST);
    if (c->length > TD_COLS_BLOCK / c->strip)
        c->strip = td_min64(c->strip, td_max64(TD_COLS_NARROW, TD_COLS_BLOCK / c->length));
    c->rows = td_max64(1, TD_COLS_BLOCK / c->strip);
    if (c->rows < c->length) { /* several blocks anyway: long rows are read faster */
        c->strip = td_min64(c->width, TD_COLS_MOST);
        c->rows = td_max64(1, TD_COLS_BLOCK / c->strip);
    }
    c->blocks = td_cut(c->length, c->rows);
    c->strips = td_cut(c->width, c->strip);
}

bool td_softmax_plan_cols(td_kcall *k, int op, int dim)
{
    cols *c = (cols *)k->state;
    const td_desc *y = k->out[0].desc;
    if (y->ndim < 2 || y->shape[dim] < 2) return false;
    bool well = lies_well(c, 0, y, dim);
    for (int i = 0; i < k->nin; i++) well = well && lies_well(c, i + 1, k->in[i].desc, dim);
    c->op = op;
    c->length = y->shape[dim];
    c->width = 1;
    for (int i = dim + 1; i < y->ndim; i++) c->width *= y->shape[i];
    if (!well || c->width < TD_COLS_LEAST) return false;
    int64_t n = td_desc_numel(y);
    c->outer = n / c->length / c->width;
    cut(c);
    k->scratch_bytes = sizeof(known);
    k->cost_ns = (double)n * 1.2 + 500;
    k->sure = true;
    td_plan_moves_freely(k, sizeof *c);
    if (c->blocks == 1) {
        td_plan_phase(k, whole_chunk, c->outer * c->strips);
        return true;
    }
    c->tops_at = td_plan_work(k, (size_t)(c->outer * c->blocks * c->width) * sizeof(float));
    c->sums_at = td_plan_work(k, (size_t)(c->outer * c->blocks * c->width) * sizeof(double));
    td_plan_phase(k, measure_chunk, c->outer * c->blocks * c->strips);
    td_plan_phase(k, merge_chunk, c->outer * c->strips);
    td_plan_phase(k, write_chunk, c->outer * c->blocks * c->strips);
    return true;
}
