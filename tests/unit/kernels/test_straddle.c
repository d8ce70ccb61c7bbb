/* Shapes on both sides of every size at which the walks change their way
 * (daemon/kernels/cpu/thresholds.h): one below, at, and one above, with rows
 * that are adjacent and apart, turned, stepped, expanded, broadcast, behind an
 * offset, for every instruction set. Pointwise ops against the same op on small
 * pieces, bit by bit; all others against plain loops.
 */
#include "kernel_references.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static void any_isa(void)
{
    while (!td_isa_use((int)random_below(3))) continue;
}
/* One below, at and one above. */
static int64_t beside(int64_t size, int which)
{
    return size + which - 1 > 0 ? size + which - 1 : 1;
}

/* ---- pointwise: the walk in tiles, and the straight way */

typedef struct pointwise_row {
    const char *op;
    int nin;
    td_dtype compute, out;
} pointwise_row;

static const pointwise_row pointwise_rows[] = {
    {"add", 2, TD_FLOAT32, TD_FLOAT32},
    {"mul", 2, TD_FLOAT64, TD_FLOAT64},
    {"exp", 1, TD_FLOAT32, TD_FLOAT32},
    {"exp", 1, TD_FLOAT64, TD_FLOAT64},
    {"where", 3, TD_FLOAT32, TD_FLOAT32},
    {"where", 3, TD_UINT8, TD_UINT8},
    {"clamp", 1, TD_INT32, TD_INT32},
    {"addcmul", 3, TD_FLOAT16, TD_FLOAT16},
    {"eq", 2, TD_INT64, TD_BOOL},
    {"lt", 2, TD_BFLOAT16, TD_BOOL},
    {"add", 2, TD_INT8, TD_INT8},
    {"mul", 2, TD_INT16, TD_FLOAT64},
    {"add", 2, TD_COMPLEX64, TD_COMPLEX64},
    {"mul", 2, TD_COMPLEX128, TD_COMPLEX128},
    {"abs", 1, TD_COMPLEX64, TD_FLOAT32},
    {"logical_xor", 2, TD_BOOL, TD_BOOL},
    {"add", 2, TD_INT32, TD_INT64},
    {"copy", 1, TD_FLOAT32, TD_FLOAT32},
    {"copy", 1, TD_FLOAT16, TD_FLOAT64},
    {"copy", 1, TD_INT64, TD_UINT8},
    {"copy", 1, TD_COMPLEX128, TD_COMPLEX64},
    {"copy", 1, TD_UINT8, TD_COMPLEX128},
    {"gelu", 1, TD_FLOAT32, TD_FLOAT32},
    {"sub", 2, TD_FLOAT32, TD_FLOAT16},
};

static td_dtype dtype_of_input(const pointwise_row *r, int k)
{
    if (!strcmp(r->op, "where") && k == 0) return TD_BOOL;
    return k && td_dtype_is_float(r->compute) && random_below(8) == 0 ? TD_INT16 : r->compute;
}

/* An input that broadcasts to the shape: mostly of it, now and then with a
 * dimension of one, or a number. */
static box operand(td_dtype t, int nd, const int64_t *shape)
{
    int64_t s[TD_MAX_DIMS];
    if (random_below(10) == 0) nd = 0;
    for (int i = 0; i < nd; i++) s[i] = random_below(10) == 0 ? 1 : shape[i];
    return box_new(t, nd, s, (int)random_below(BOX_LAYOUTS));
}

/* The op on elements [first, first + n) alone, contiguous. */
static bool piece_differs(const pointwise_row *r, const box *in, const box *out, int64_t first, int64_t n)
{
    call c;
    box part[3], y = box_new(r->out, 1, &n, ROW_MAJOR);
    call_begin(&c, r->op, r->compute);
    for (int k = 0; k < r->nin; k++) {
        td_dtype t = (td_dtype)in[k].d.dtype;
        part[k] = box_new(t, 1, &n, ROW_MAJOR);
        for (int64_t i = 0; i < n; i++)
            memcpy(box_at(&part[k], i), box_at(&in[k], box_broadcast(&in[k], &out->d, first + i)), td_dtype_size(t));
        call_in(&c, &part[k]);
    }
    call_out(&c, &y);
    bool wrong = call_run_plainly(&c) != 0;
    for (int64_t i = 0; i < n; i++)
        wrong = wrong || memcmp(box_at(&y, i), box_at(out, first + i), td_dtype_size(r->out)) != 0;
    for (int k = 0; k < r->nin; k++) box_free(&part[k]);
    box_free(&y);
    return wrong;
}

static void check_pieces(const pointwise_row *r, int nd, const int64_t *shape)
{
    enum { PIECE = 53 };
    call c;
    char text[128];
    box in[3], out = box_new(r->out, nd, shape, (int)random_below(LAYOUTS));
    call_begin(&c, r->op, r->compute);
    for (int k = 0; k < r->nin; k++) {
        in[k] = operand(dtype_of_input(r, k), nd, shape);
        box_numbers(&in[k], 12, 4);
        call_in(&c, &in[k]);
    }
    call_out(&c, &out);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(guarded_intact(&out.memory));
    int64_t n = box_numel(&out), wrong = 0, skip = n > 40000 ? n / 300 : 0;
    for (int64_t at = 0; at < n; at += PIECE + skip)
        wrong += piece_differs(r, in, &out, at, n - at < PIECE ? n - at : PIECE);
    if (n) wrong += piece_differs(r, in, &out, n - 1, 1);
    if (wrong) printf("%s into %s: %d pieces wrong\n", r->op, td_desc_text(&out.d, text, sizeof text), (int)wrong);
    CU_ASSERT_EQUAL(wrong, 0);
    for (int k = 0; k < r->nin; k++) box_free(&in[k]);
    box_free(&out);
}

static void pointwise(void)
{
    for (int i = 0; i < COUNT(pointwise_rows); i++) {
        const pointwise_row *r = &pointwise_rows[i];
        int64_t size = (int64_t)td_dtype_size(r->compute), tile = TD_TILE_BYTES / size, line = TD_LINE_BYTES / size;
        const int64_t inner[] = {1, 3, TD_TURN_LEAST, line > 1 ? line : 2, TD_REPEAT_FILL, TD_TILE_SHORT, tile};
        const int64_t all[] = {tile, 2 * tile, TD_CHUNK_LEAST};
        for (int round = 0; round < 3 * COUNT(inner);
             round++) { /* rows of all lengths, together around a tile or a chunk */
            int64_t width = beside(inner[round / 3], round % 3), total = all[random_below(COUNT(all))];
            int64_t rows = beside((total + width - 1) / width, (int)random_below(3));
            any_isa();
            check_pieces(r, 2, (int64_t[]){rows, width});
            check_pieces(r, 3, (int64_t[]){2, beside(TD_TURN_LEAST, (int)random_below(3)), width});
        }
        for (int which = 0; which < 3; which++) check_pieces(r, 1, (int64_t[]){beside(TD_CHUNK_LEAST, which)});
        check_pieces(r, 0, NULL);
        check_pieces(r, 2, (int64_t[]){3, 0});
    }
    for (int i = 0; i < 3; i++) { /* several chunks */
        check_pieces(&pointwise_rows[0], 1, (int64_t[]){beside(TD_CHUNK_MOST, i)});
        check_pieces(&pointwise_rows[17], 2, (int64_t[]){beside(TD_CHUNK_MOST / 1000, i), 1001});
    }
    td_isa_use(td_isa_level());
}

/* ---- reductions */

typedef struct fold_row {
    const char *op;
    int kinds; /* 1 floats, 2 whole numbers */
} fold_row;
static const fold_row folds[] = {{"sum", 3},     {"mean", 1},    {"prod", 3},     {"amax", 3},   {"amin", 3},
                                 {"max_dim", 3}, {"min_dim", 3}, {"argmax", 3},   {"argmin", 3}, {"var", 1},
                                 {"any", 3},     {"all", 3},     {"logsumexp", 1}};

static void check_fold(int nd, const int64_t *shape, unsigned bits)
{
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16, TD_INT64, TD_INT32,
                                     TD_INT8,    TD_UINT8,   TD_BOOL,    TD_UINT16,  TD_UINT32,   TD_UINT64};
    td_dtype t = types[random_below(COUNT(types))];
    bool whole = td_dtype_is_integral(t);
    const fold_row *f;
    do f = &folds[random_below(COUNT(folds))];
    while (!(f->kinds & (whole ? 2 : 1)));
    td_dtype compute = whole && (!strcmp(f->op, "sum") || !strcmp(f->op, "prod")) ? TD_INT64 : t, result = compute;
    if (!strncmp(f->op, "arg", 3)) result = TD_INT64;
    if (!strcmp(f->op, "any") || !strcmp(f->op, "all")) result = TD_BOOL;
    box x = box_new(t, nd, shape, (int)random_below(BOX_LAYOUTS));
    box_fill(&x);
    if (!strcmp(f->op, "prod"))
        for (int64_t j = 0; j < box_numel(&x); j++) box_set(&x, j, random_below(5000) ? 1 : 2);
    any_isa();
    check_reduce(f->op, &x, bits, compute, result);
    box_free(&x);
}

static void reductions(void)
{
    static const struct {
        int64_t shape[3]; /* 0: the size itself */
        unsigned bits;
        int64_t size;
    } rows[] = {
        {{0, 3, 5}, 6, TD_REDUCE_BATCH},
        {{5, 0, 1}, 1, TD_REDUCE_BATCH},
        {{20, 2, 0}, 3, TD_REDUCE_BATCH},
        {{3, 40, 0}, 2, TD_REDUCE_COLUMNS},
        {{0, 70, 3}, 6, TD_REDUCE_MANY},
        {{TD_REDUCE_MANY, 0, 1}, 2, TD_REDUCE_FEW},
        {{TD_REDUCE_MANY, 0, 1}, 2, TD_REDUCE_FEW},
        {{90, 0, 3}, 2, TD_REDUCE_TURNED},
        {{2, 0, 33}, 2, TD_REDUCE_QUAD},
        {{0, 2, 1}, 2, TD_REDUCE_CHUNK_ROWS},
        {{0, 5, 9}, 2, TD_REDUCE_CHUNK_BLOCKS},
        {{3, 2, 0}, 4, TD_FOLD_BLOCK},
        {{2, 3, 0}, 6, TD_FOLD_BLOCK},
        {{3, 0, 2}, 2, TD_FOLD_BLOCK / 2},
        {{2, 0, 17}, 2, TD_TILE_BYTES / 4 / 17},
        {{1, 2, 0}, 4, TD_REDUCE_RUN},
        {{50, 0, 30}, 5, TD_LINE_BYTES / 4},
        {{0, 7, 7}, 7, TD_REDUCE_RUN / 49},
        {{7, 0, 40}, 7, TD_TILE_BYTES / 4 / 40},
        {{7, 0, 40}, 5, TD_TILE_BYTES / 8 / 40},
    };
    for (int i = 0; i < COUNT(rows); i++)
        for (int which = 0; which < 3; which++)
            for (int round = 0; round < 12; round++) {
                int64_t shape[3];
                for (int d = 0; d < 3; d++)
                    shape[d] = rows[i].shape[d] ? rows[i].shape[d] : beside(rows[i].size, which);
                check_fold(3, shape, rows[i].bits);
            }
    td_isa_use(td_isa_level());
}

/* Long enough for two phases: along a row, in rows apart, and down columns. */
static void pieces(void)
{
    for (int which = 0; which < 3; which++)
        for (int round = 0; round < 6; round++) {
            check_fold(1, (int64_t[]){beside(2 * TD_REDUCE_PIECE, which)}, 1);
            check_fold(2, (int64_t[]){beside(2 * TD_REDUCE_PIECE / TD_REDUCE_BATCH, which), TD_REDUCE_BATCH + 1}, 1);
            check_fold(3, (int64_t[]){beside(2 * TD_REDUCE_PIECE / 90, which), 2, 45}, 5);
        }
    td_isa_use(td_isa_level());
}

/* Complex numbers, whose sums, products and variances have two parts, in one phase and in two. */
static void complex_folds(void)
{
    static const int64_t shapes[][2] = {
        {2 * TD_REDUCE_PIECE + 1, 1}, {2 * TD_REDUCE_PIECE / TD_REDUCE_BATCH, TD_REDUCE_BATCH}, {300, 70}, {9, 3}};
    static const char *const ops[] = {"sum", "prod", "mean", "var"};
    for (int round = 0; round < 64; round++) {
        const int64_t *shape = shapes[round % 4];
        const char *op = ops[round / 4 % 4];
        td_dtype t = round & 16 ? TD_COMPLEX64 : TD_COMPLEX128;
        bool var = !strcmp(op, "var"), prod = !strcmp(op, "prod");
        int64_t cols = shape[1], rows = shape[0], wrong = 0;
        box x = box_new(t, 2, shape, (int)random_below(BOX_LAYOUTS));
        box y = box_new(var ? td_dtype_real(t) : t, 1, &cols, ROW_MAJOR);
        box_fill(&x);
        for (int64_t i = 0; prod && i < rows * cols; i++) { /* 1, i, -1 and -i */
            int64_t turn = random_below(4);
            td_scalar_store(td_complex(turn % 2 ? 0 : 1 - (double)turn, turn % 2 ? 2 - (double)turn : 0), t,
                            box_at(&x, i));
        }
        call c;
        any_isa();
        call_begin(&c, op, t);
        if (prod) call_attr(&c, 0, A_INT(0));
        else call_ints(&c, 0, 1, (int64_t[]){0});
        call_in(&c, &x);
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        for (int64_t j = 0; j < cols; j += 1 + cols / 20) {
            long double re = prod, im = 0, sum2 = 0, n = (long double)rows;
            for (int64_t i = 0; i < rows; i++) {
                td_scalar v = box_get(&x, i * cols + j);
                long double a = prod ? re * v.re - im * v.im : re + v.re, b = prod ? re * v.im + im * v.re : im + v.im;
                re = a, im = b;
            }
            if (!prod && !!strcmp(op, "sum")) re /= n, im /= n;
            for (int64_t i = 0; var && i < rows; i++) {
                td_scalar v = box_get(&x, i * cols + j);
                sum2 += (v.re - re) * (v.re - re) + (v.im - im) * (v.im - im);
            }
            if (var) re = sum2 / (n - 1), im = 0;
            td_scalar got = box_get(&y, j);
            double tol = t == TD_COMPLEX64 ? 1e-5 : 1e-11, size = !strcmp(op, "sum") ? sqrt((double)n) * 3 : 3;
            wrong += !(fabs(got.re - (double)re) <= tol * size) || !(fabs(got.im - (double)im) <= tol * size);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        if (wrong) printf("%s of %s: %d wrong\n", op, td_desc_text(&x.d, (char[128]){0}, 128), (int)wrong);
        box_free(&x), box_free(&y);
    }
    td_isa_use(td_isa_level());
}

/* log(sum(exp)) of complex numbers around the pieces and strips that they have of their own; real parts are large. */
static void complex_logsumexp(void)
{
    static const int64_t sizes[] = {TD_REDUCE_PIECE_SLOW, 2 * TD_REDUCE_PIECE_SLOW, TD_REDUCE_PIECE_SLOW / 7, 40, 1};
    static const int64_t widths[] = {1, TD_REDUCE_WIDTH_SLOW - 1, TD_REDUCE_WIDTH_SLOW, TD_REDUCE_WIDTH_SLOW + 1, 70};
    for (int round = 0; round < 150; round++) {
        td_dtype t = round & 1 ? TD_COMPLEX64 : TD_COMPLEX128;
        int along = round & 2 ? 1 : 0;
        int64_t n = beside(sizes[round % 5], round % 3), cols = widths[round / 5 % 5], wrong = 0;
        int64_t shape[2] = {along ? cols : n, along ? n : cols}, step = along ? 1 : cols, apart = along ? n : 1;
        box x = box_new(t, 2, shape, (int)random_below(BOX_LAYOUTS)), y = box_new(t, 1, &cols, ROW_MAJOR);
        for (int64_t i = 0; i < n * cols; i++)
            td_scalar_store(td_complex(800 + 4 * random_unit(), 2 * random_unit()), t, box_at(&x, i));
        call c;
        any_isa();
        call_begin(&c, "logsumexp", t);
        call_ints(&c, 0, 1, (int64_t[]){along});
        call_in(&c, &x);
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        CU_ASSERT(guarded_intact(&y.memory));
        for (int64_t j = 0; j < cols; j++) {
            long double re = 0, im = 0;
            for (int64_t i = 0; i < n; i++) {
                td_scalar v = box_get(&x, i * step + j * apart);
                re += expl((long double)v.re - 800) * cosl(v.im), im += expl((long double)v.re - 800) * sinl(v.im);
            }
            td_scalar got = box_get(&y, j);
            double tol = t == TD_COMPLEX64 ? 1e-4 : 1e-11;
            wrong += !(fabs(got.re - (double)(800 + logl(hypotl(re, im)))) <= tol) ||
                     !(fabs(got.im - (double)atan2l(im, re)) <= tol);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        if (wrong) printf("logsumexp of %s along %d: %d\n", td_desc_text(&x.d, (char[128]){0}, 128), along, (int)wrong);
        box_free(&x), box_free(&y);
    }
    td_isa_use(td_isa_level());
}

/* NaN and infinities at any place of what is cut into pieces, or folded in blocks and lanes. */
static void odd_values(void)
{
    static const char *const ops[] = {"amax",    "amin",      "argmax", "argmin", "max_dim",
                                      "min_dim", "logsumexp", "sum",    "var"};
    static const int64_t shapes[][2] = {
        {1, 2 * TD_REDUCE_PIECE + 3}, {2 * TD_REDUCE_PIECE / TD_REDUCE_BATCH + 1, TD_REDUCE_BATCH}, {3, 37}, {40, 9}};
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    for (int round = 0; round < 216; round++) {
        const int64_t *shape = shapes[round % 4];
        const char *op = ops[round / 4 % COUNT(ops)];
        td_dtype t = round & 1 ? TD_FLOAT32 : TD_FLOAT64;
        if (round >= 72 && shape[0] * shape[1] > 10000) continue;
        box x = box_new(t, 2, shape, (int)random_below(LAYOUTS));
        box_fill(&x);
        for (int i = round % 3; i >= 0; i--) box_set(&x, random_below(box_numel(&x)), odd[random_below(3)]);
        bool index = !strncmp(op, "arg", 3);
        any_isa();
        check_reduce(op, &x, round & 2 ? 2 : 1, t, index ? TD_INT64 : t);
        box_free(&x);
    }
    td_isa_use(td_isa_level());
}

/* ---- along one dimension */

static void check_softmax(int nd, const int64_t *shape, int dim, td_dtype t, int layout)
{
    static const char *const ops[] = {"softmax", "log_softmax", "softmax_backward", "log_softmax_backward"};
    int which = (int)random_below(4);
    bool backward = which >= 2;
    box a = box_new(t, nd, shape, layout), b = box_new(t, nd, shape, random_below(2) ? layout : ROW_MAJOR),
        y = box_new(t, nd, shape, ROW_MAJOR);
    box_fill(&a);
    for (int64_t i = 0; backward && i < box_numel(&b); i++) box_set(&b, i, (double)random_below(5) / 8 - 0.5);
    call c;
    any_isa();
    call_begin(&c, ops[which], t);
    call_attr(&c, 0, A_INT(dim));
    call_in(&c, &a);
    if (backward) call_in(&c, &b);
    call_out(&c, &y);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    int64_t wrong = 0, n = shape[dim], every = 1 + box_numel(&y) / (1 + 600000 / n);
    for (int64_t i = 0; i < box_numel(&y); i += every) {
        double want = softmax_reference(ops[which], &a, &b, i, dim), scale = backward ? sqrt((double)n) * 20 : 1;
        wrong += !(fabs(box_real(&y, i) - want) <= 4 * tolerance(t) * (fabs(want) + scale));
    }
    CU_ASSERT_EQUAL(wrong, 0);
    if (wrong)
        printf("%s of %s along %d: %d wrong\n", ops[which], td_desc_text(&a.d, (char[128]){0}, 128), dim, (int)wrong);
    box_free(&a), box_free(&b), box_free(&y);
}

static void softmaxes(void)
{
    static const struct {
        int64_t shape[3];
        int64_t size;
    } rows[] = {{{2, 9, 0}, TD_COLS_LEAST},
                {{1, 7, 0}, TD_COLS_MOST},
                {{1, 0, TD_COLS_MOST}, TD_COLS_BLOCK / TD_COLS_MOST},
                {{2, 0, TD_COLS_NARROW}, TD_COLS_BLOCK / TD_COLS_NARROW},
                {{1, TD_COLS_BLOCK / TD_COLS_NARROW, 0}, TD_COLS_NARROW},
                {{3, 0, 40}, TD_COLS_IN_FLOAT},
                {{2, 50, 0}, TD_LINE_BYTES / 4},
                {{4, 0, 5}, TD_SOFTMAX_CHUNK / 5},
                {{1, 0, 3}, TD_SOFTMAX_GROUP_BYTES / 4}};
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT32, TD_FLOAT64, TD_FLOAT16};
    for (int i = 0; i < COUNT(rows); i++)
        for (int round = 0; round < 18; round++) {
            int64_t shape[3];
            for (int d = 0; d < 3; d++)
                shape[d] = rows[i].shape[d] ? rows[i].shape[d] : beside(rows[i].size, round % 3);
            if (shape[1] * shape[2] > 400000 && round > 5) break;
            check_softmax(3, shape, 1, types[random_below(4)], round < 6 ? ROW_MAJOR : (int)random_below(BOX_LAYOUTS));
            check_softmax(3, (int64_t[]){shape[0], shape[2], shape[1]}, 2, types[random_below(4)],
                          (int)random_below(BOX_LAYOUTS));
        }
    td_isa_use(td_isa_level());
}

static void check_scan(int nd, const int64_t *shape, int dim)
{
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16,   TD_INT64,
                                     TD_INT8,    TD_BOOL,    TD_COMPLEX64, TD_COMPLEX128};
    td_dtype t = types[random_below(COUNT(types))], result = td_dtype_is_integral(t) ? TD_INT64 : t;
    box x = box_new(t, nd, shape, (int)random_below(BOX_LAYOUTS)), y = box_new(result, nd, shape, ROW_MAJOR);
    box_fill(&x);
    call c;
    any_isa();
    call_begin(&c, "cumsum", result);
    call_attr(&c, 0, A_INT(dim));
    call_in(&c, &x);
    call_out(&c, &y);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    int64_t wrong = 0, step = neighbours(&x.d, dim), n = shape[dim];
    for (int64_t i = 0; i < box_numel(&x); i++) {
        if (i / step % n) continue;
        double re = 0, im = 0;
        for (int64_t j = 0; j < n; j++) {
            td_scalar v = box_get(&x, i + j * step), got = box_get(&y, i + j * step);
            re += v.kind <= TD_S_INT ? (double)v.i : v.re, im += v.im;
            wrong += !close_to(got.kind <= TD_S_INT ? (double)got.i : got.re, re, td_dtype_real(result)) ||
                     !close_to(got.im, im, td_dtype_real(result));
        }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    box_free(&x), box_free(&y);
}

static void scans(void)
{
    for (int round = 0; round < 24; round++) {
        int64_t width = beside(TD_SCAN_WIDTH, round % 3), chunk = beside(TD_SCAN_CHUNK / TD_SCAN_WIDTH, round % 3);
        check_scan(2, (int64_t[]){5, width}, 1);
        check_scan(2, (int64_t[]){7, width}, 0);
        check_scan(4, (int64_t[]){2, 4, 3, width}, 1);
        check_scan(2, (int64_t[]){chunk, TD_SCAN_WIDTH}, round % 2);
        check_scan(1, (int64_t[]){beside(4 * TD_SCAN_WIDTH, round % 3)}, 0);
    }
    td_isa_use(td_isa_level());
}

/* ---- moving elements: results in one chunk and in several */

static td_dtype some_type(void)
{
    static const td_dtype types[] = {TD_UINT8, TD_FLOAT16, TD_FLOAT32, TD_INT64, TD_COMPLEX128};
    return types[random_below(COUNT(types))];
}

/* Rows of bytes whose places in their pages lie side by side, before and behind each other. */
static void aliased(void)
{
    enum { PAGE = 4096, MOST = 3 * PAGE };
    unsigned char *from = aligned_alloc(PAGE, MOST), *to = aligned_alloc(PAGE, MOST + PAGE), fence = 0xa5;
    static const int64_t sizes[] = {1, TD_COPY_ALIASED - 1, TD_COPY_ALIASED, TD_COPY_ALIASED + 1, 4084, 2 * PAGE};
    for (int i = 0; i < MOST; i++) from[i] = (unsigned char)(i * 7 + i / 251);
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        int wrong = 0;
        for (int k = 0; k < COUNT(sizes); k++)
            for (int64_t behind = 0; behind <= PAGE; behind += behind == 70 ? PAGE - 140 : 1) {
                int64_t n = sizes[k], start = random_below(PAGE);
                unsigned char *at = to + (start + behind) % PAGE;
                const void *in = from + start;
                memset(to, fence, MOST + PAGE);
                td_isa_now->cast[TD_UINT8][TD_UINT8](n, at, &in, NULL);
                wrong += memcmp(at, in, (size_t)n) || at[n] != fence || (at > to && at[-1] != fence);
            }
        CU_ASSERT_EQUAL(wrong, 0);
    }
    td_isa_use(td_isa_level());
    free(from);
    free(to);
}

static void moves(void)
{
    for (int round = 0; round < 30; round++) {
        td_dtype t = some_type();
        int64_t size = (int64_t)td_dtype_size(t), cols = 31 + random_below(90), attr[6], to[3];
        int64_t shape[3] = {2, beside(TD_ASSEMBLE_BYTES / size / 2 / cols, round % 3), cols};
        box x = box_new(t, 3, shape, (int)random_below(BOX_LAYOUTS)), y = box_new(t, 3, shape, ROW_MAJOR);
        call c;
        any_isa();
        box_fill(&x);
        call_begin(&c, "flip", t);
        call_ints(&c, 0, 2, (int64_t[]){0, 2});
        check_moves("flip", &x, &y, &c, flip_source, (int64_t[]){0, 2}, 2, 0);
        for (int i = 0; i < 3; i++) attr[i] = random_below(41) - 20, to[i] = i;
        for (int n = 0; n < 4; n += 3) { /* flat, and all three dimensions */
            call_begin(&c, "roll", t);
            call_ints(&c, 0, n ? n : 1, attr);
            call_ints(&c, 1, n, to);
            check_moves("roll", &x, &y, &c, roll_source, attr, n, 0);
        }
        for (int upper = 0; upper < 2; upper++) {
            attr[0] = random_below(2 * cols) - cols;
            call_begin(&c, upper ? "triu" : "tril", t);
            call_attr(&c, 0, A_INT(attr[0]));
            check_moves(upper ? "triu" : "tril", &x, &y, &c, upper ? upper_source : lower_source, attr, 1, 0);
        }
        box_free(&y);
        for (int i = 0; i < 6; i++) attr[i] = random_below(6) - 2;
        for (int i = 0; i < 3; i++) to[2 - i] = shape[2 - i] + attr[2 * i] + attr[2 * i + 1];
        if (to[0] < 0) to[0] = shape[0], attr[4] = attr[5] = 0;
        y = box_new(t, 3, to, ROW_MAJOR);
        call_begin(&c, "constant_pad", t);
        call_ints(&c, 0, 6, attr);
        call_attr(&c, 1, A_SCALAR(td_int(3)));
        check_moves("constant_pad", &x, &y, &c, pad_source, attr, 6, 3);
        box_free(&x), box_free(&y);
        int64_t small[2] = {7, cols}, times[3] = {2, beside(TD_ASSEMBLE_BYTES / size / 14 / cols, round % 3), 1};
        x = box_new(t, 2, small, (int)random_below(BOX_LAYOUTS));
        y = box_new(t, 3, (int64_t[]){2, 7 * times[1], cols}, ROW_MAJOR);
        box_fill(&x);
        call_begin(&c, "repeat", t);
        call_ints(&c, 0, 3, times);
        check_moves("repeat", &x, &y, &c, repeat_source, times, 3, 0);
        box_free(&x), box_free(&y);
    }
    td_isa_use(td_isa_level());
}

/* Joined along each dimension: parts that are shorter and longer than a chunk,
 * of other dtypes, empty, [0]. */
static void joins(void)
{
    for (int round = 0; round < 24; round++) {
        td_dtype t = some_type();
        int64_t size = (int64_t)td_dtype_size(t), cols = 20 + random_below(60), total = 0, starts[6];
        int64_t rows = beside(TD_ASSEMBLE_BYTES / size / cols, round % 3), shape[2] = {rows, cols};
        int dim = (int)random_below(2), n = 5;
        bool stack = random_below(3) == 0;
        box in[5];
        call c;
        any_isa();
        call_begin(&c, stack ? "stack" : "cat", t);
        call_attr(&c, 0, A_INT(random_below(2) ? dim : dim - 2 - stack));
        for (int k = 0; k < n; k++) {
            int64_t s[2] = {shape[0], shape[1]};
            if (!stack) s[dim] = k == 1 ? 0 : k == 2 ? shape[dim] : 1 + random_below(4);
            if (stack) s[0] = rows / 5;
            in[k] = !stack && k == 3 ? box_new(TD_FLOAT32, 1, (int64_t[]){0}, ROW_MAJOR)
                                     : box_new(random_below(4) ? t : TD_UINT8, 2, s, (int)random_below(BOX_LAYOUTS));
            box_fill(&in[k]);
            call_in(&c, &in[k]);
            starts[k] = total;
            total += stack ? 1 : k == 3 ? 0 : s[dim];
        }
        starts[n] = total;
        int64_t all[3] = {stack ? rows / 5 : rows, cols, 0};
        if (stack) memmove(all + dim + 1, all + dim, (size_t)(2 - dim) * sizeof *all);
        all[dim] = total;
        box y = box_new(t, 2 + stack, all, ROW_MAJOR);
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        int64_t wrong = 0;
        for (int64_t i = 0; i < box_numel(&y); i++) {
            int64_t at[3], from[2];
            int k = 0;
            coordinates(&y.d, i, at);
            while (starts[k + 1] <= at[dim]) k++;
            for (int a = 0, b = 0; a < 2 + stack; a++)
                if (!(stack && a == dim)) from[b++] = at[a] - (a == dim ? starts[k] : 0);
            td_scalar s = box_get(&in[k], index_at(&in[k].d, from)), g = box_get(&y, i);
            double want = s.kind <= TD_S_INT ? (double)s.i : s.re, got = g.kind <= TD_S_INT ? (double)g.i : g.re;
            wrong += want != got || (s.kind == TD_S_COMPLEX && s.im != g.im);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        for (int k = 0; k < n; k++) box_free(&in[k]);
        box_free(&y);
    }
    td_isa_use(td_isa_level());
}

/* ---- creation and random numbers */

static void sequences(void)
{
    static const int64_t sizes[] = {TD_SEQUENCE_BLOCK, TD_CREATE_CHUNK};
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_INT64, TD_INT32, TD_FLOAT16};
    for (int round = 0; round < 30; round++) {
        int64_t n = beside(sizes[round % 2], round / 2 % 3);
        td_dtype t = types[round % COUNT(types)];
        box y = box_new(t, 1, &n, ROW_MAJOR);
        call c;
        any_isa();
        call_begin(&c, "arange", t);
        bool whole = t == TD_INT64 || (t == TD_INT32 && round % 4);
        td_scalar step = whole ? td_int(3) : t == TD_FLOAT16 ? td_float(0x1p-6) : td_float(0.25);
        call_attr(&c, 0, A_SCALAR(whole && round % 7 ? td_int(-5) : td_float(-5)));
        call_attr(&c, 1, A_SCALAR(td_int(0)));
        call_attr(&c, 2, A_SCALAR(step));
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; i++) {
            double want = -5 + (double)i * (step.kind <= TD_S_INT ? (double)step.i : step.re);
            if (t == TD_INT32) want = trunc(want);
            wrong += !(fabs(box_real(&y, i) - want) <= tolerance(t) * fabs(want));
        }
        CU_ASSERT_EQUAL(wrong, 0);
        box_free(&y);
    }
    td_isa_use(td_isa_level());
}

static void squares(void)
{
    static const int64_t shapes[][2] = {{1, TD_CREATE_CHUNK - 1},
                                        {2, TD_CREATE_CHUNK},
                                        {3, TD_CREATE_CHUNK + 1},
                                        {256, 256},
                                        {257, 255},
                                        {300, 3},
                                        {0, 4},
                                        {4, 0}};
    for (int i = 0; i < COUNT(shapes); i++) {
        box y = box_new(TD_INT16, 2, shapes[i], ROW_MAJOR), lower = box_new(TD_INT16, 2, shapes[i], ROW_MAJOR);
        call c;
        int64_t wrong = 0, cols = shapes[i][1], n = 2 * cols;
        call_begin(&c, "eye", TD_INT16);
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        for (int64_t j = 0; j < box_numel(&y); j++) wrong += box_real(&y, j) != (j / cols == j % cols);
        box_fill(&y);
        call_begin(&c, "tril", TD_INT16);
        call_attr(&c, 0, A_INT(1));
        check_moves("tril", &y, &lower, &c, lower_source, (int64_t[]){1}, 1, 0);
        CU_ASSERT_EQUAL(wrong, 0);
        (void)n;
        box_free(&y), box_free(&lower);
    }
}

/* An element depends on its place alone: a longer result begins with the
 * shorter one. */
static void random_numbers(void)
{
    static const char *const ops[] = {"rand", "randn", "randint", "bernoulli", "dropout"};
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16};
    static const int64_t sizes[] = {4 * TD_PHILOX_GROUPS, 2 * TD_PHILOX_GROUPS, TD_RANDOM_CHUNK};
    for (int round = 0; round < 60; round++) {
        const char *op = ops[round % COUNT(ops)];
        td_dtype t = types[random_below(4)];
        int64_t n = beside(sizes[round / COUNT(ops) % 3], round % 3), more = n + 1 + random_below(5000), two = 2;
        bool takes = !strcmp(op, "bernoulli") || !strcmp(op, "dropout"), drops = !strcmp(op, "dropout");
        box y[2], state = box_new(TD_INT64, 1, &two, ROW_MAJOR);
        any_isa();
        for (int i = 0; i < 2; i++) {
            int64_t m = i ? more : n;
            box x = box_new(t, 1, &m, i ? STEPPED : ROW_MAJOR);
            for (int64_t j = 0; j < m; j++) box_set(&x, j, 0.25 + (double)(j % 3) * 0.125);
            y[i] = box_new(t, 1, &m, ROW_MAJOR);
            call c;
            call_begin(&c, op, t);
            if (!strcmp(op, "randint")) call_attr(&c, 0, A_INT(-50)), call_attr(&c, 1, A_INT(1950));
            if (drops) call_attr(&c, 0, A_FLOAT(0.3));
            c.k.seed = 7, c.k.counter = 3;
            if (takes) call_in(&c, &x);
            call_out(&c, &y[i]);
            if (drops) call_out(&c, &state);
            CU_ASSERT_EQUAL(call_run(&c), 0);
            box_free(&x);
        }
        CU_ASSERT(!memcmp(y[0].data, y[1].data, y[0].bytes));
        box_free(&y[0]), box_free(&y[1]), box_free(&state);
    }
    td_isa_use(td_isa_level());
}

/* Ranges for which every second word is drawn again. */
static void wide_integers(void)
{
    int64_t n = 3000, small = 0, same = 0;
    box y = box_new(TD_INT64, 1, &n, ROW_MAJOR);
    for (int round = 0; round < 2; round++) {
        call c;
        call_begin(&c, "randint", TD_INT64);
        call_attr(&c, 0, A_INT(INT64_MIN));
        call_attr(&c, 1, A_INT(round ? INT64_MAX : 1));
        c.k.seed = 11;
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        const int64_t *v = y.data;
        small = 0;
        for (int64_t i = 0; i < n; i++) {
            small += v[i] < (round ? 0 : INT64_MIN / 2);
            same += i && v[i] == v[i - 1];
            CU_ASSERT(round || v[i] < 1);
        }
        CU_ASSERT(small > 1350 && small < 1650 && same == 0);
    }
    box_free(&y);
}

static int init(void)
{
    td_cpu_init();
    return 0;
}

TD_CUNIT_MAIN_WITH("kernels_straddle", init, NULL, {"pointwise", pointwise}, {"reductions", reductions},
                   {"pieces", pieces}, {"complex", complex_folds}, {"logsumexp of complex numbers", complex_logsumexp},
                   {"odd values", odd_values}, {"softmax", softmaxes}, {"cumsum", scans}, {"rows in pages", aliased},
                   {"moves", moves}, {"cat and stack", joins}, {"sequences", sequences}, {"squares", squares},
                   {"random numbers", random_numbers}, {"wide integers", wide_integers})
