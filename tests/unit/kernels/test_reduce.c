/* Reductions, scans and softmax against plain loops in double, and the ops that
 * move elements against index arithmetic.
 */
#include "daemon/kernels/cpu/reduce/reduce.h"
#include "daemon/kernels/cpu/tile.h"
#include "kernel_references.h"
#include <float.h>

/* A shape of up to 4 dimensions with few elements, sometimes with one long
 * side. */
static int some_shape(int64_t *shape)
{
    int nd = (int)random_below(5), big = random_below(3) == 0 && nd ? (int)random_below(nd) : -1;
    int64_t limit = nd <= 1 ? 5000 : nd == 2 ? 60 : 9;
    for (int i = 0; i < nd; i++) shape[i] = i == big ? 1 + random_below(2000) : 1 + random_below(limit);
    return nd;
}

static void reductions(void)
{
    static const char *const ops[] = {"sum",    "mean",   "prod", "amax", "amin", "max_dim", "min_dim",
                                      "argmax", "argmin", "var",  "std",  "any",  "all",     "logsumexp"};
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16, TD_INT64, TD_INT32,
                                     TD_UINT8,   TD_BOOL,    TD_UINT16,  TD_UINT32,   TD_UINT64};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (int round = 0; round < 30; round++)
            for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
                td_dtype t = types[(size_t)random_below(sizeof types / sizeof *types)], compute = t, result = t;
                bool whole = td_dtype_is_integral(t), index = !strncmp(ops[i], "arg", 3),
                     truth = !strcmp(ops[i], "any") || !strcmp(ops[i], "all");
                if (whole && (!strcmp(ops[i], "mean") || !strcmp(ops[i], "var") || !strcmp(ops[i], "std") ||
                              !strcmp(ops[i], "logsumexp")))
                    continue;
                if (whole && (!strcmp(ops[i], "sum") || !strcmp(ops[i], "prod"))) compute = result = TD_INT64;
                if (index) result = TD_INT64;
                if (truth) result = TD_BOOL;
                int64_t shape[TD_MAX_DIMS];
                int nd = some_shape(shape);
                box x = box_new(t, nd, shape, (int)random_below(BOX_LAYOUTS));
                box_fill(&x);
                if (!strcmp(ops[i], "prod")) /* products of many numbers stay in range */
                    for (int64_t j = 0; j < box_numel(&x); j++) box_set(&x, j, random_below(50) ? 1 : 2);
                if (!whole && random_below(4) == 0) box_set(&x, random_below(box_numel(&x)), NAN);
                check_reduce(ops[i], &x, (unsigned)random_below(16), compute, result);
                box_free(&x);
            }
    }
    td_isa_use(td_isa_level());
}

/* Rows that lie apart, of every length around the one from which they are taken
 * singly, and as many of them as straddle the tile that gathers them and the
 * run that is read where it lies. */
static void rows_apart(void)
{
    static const char *const ops[] = {"sum", "mean", "amax", "amin", "prod", "var", "std", "any"};
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_INT64, TD_FLOAT16, TD_INT32, TD_BOOL};
    static const int64_t widths[] = {2, 7, 40, TD_REDUCE_SHORT - 1, TD_REDUCE_SHORT, TD_REDUCE_SHORT + 1};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            int64_t tile = TD_TILE_BYTES / (int64_t)td_dtype_size(types[t]), sizes[] = {tile, 2 * tile, TD_REDUCE_RUN};
            for (int i = 0; i < 9; i++) {
                int64_t shape[3] = {1 + i % 2, sizes[i / 3] / widths[w] + i % 3, widths[w]};
                bool whole = td_dtype_is_integral(types[t]);
                const char *op = ops[(size_t)random_below(sizeof ops / sizeof *ops)];
                if (whole && (!strcmp(op, "mean") || !strcmp(op, "var") || !strcmp(op, "std"))) op = "sum";
                td_dtype sum = whole && (!strcmp(op, "sum") || !strcmp(op, "prod")) ? TD_INT64 : types[t];
                box x = box_new(types[t], 3, shape, random_below(4) ? GAPPED : ROW_MAJOR);
                box_fill(&x);
                if (!strcmp(op, "prod"))
                    for (int64_t j = 0; j < box_numel(&x); j++) box_set(&x, j, 1);
                check_reduce(op, &x, (unsigned)(random_below(2) ? 7 : 6), sum, !strcmp(op, "any") ? TD_BOOL : sum);
                box_free(&x);
            }
        }
}

/* Of elements alike the first, NaN before all numbers: rows around every number of lanes and columns around every
 * number of rows that are taken together, the same bits by every set of loops. */
static void special_extremes(void)
{
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-149, -0x1p-149, FLT_MAX, -FLT_MAX, 1, -1};
    for (int64_t rows = 1; rows < 10; rows++)
        for (int round = 0; round < 60; round++) {
            const int64_t n = round < 40 ? 1 + random_below(70) : 1000 + random_below(200), shape[] = {rows, n};
            const bool down = round % 2, least = round % 4 > 1;
            box x = box_new(TD_FLOAT32, 2, shape, ROW_MAJOR), first = {0};
            for (int64_t i = 0; i < rows * n; i++) {
                const size_t which = (size_t)random_below(sizeof special / sizeof *special);
                const bool rare = isnan(special[which]) && random_below(round % 3 * n + 1); /* none, few, many */
                box_set(&x, i, round % 3 == 0 && isnan(special[which]) ? 0 : rare ? 1 : special[which]);
            }
            for (int level = 0; level < 3; level++) {
                if (!td_isa_use(level)) continue;
                box y = box_new(TD_FLOAT32, 1, &shape[down], ROW_MAJOR);
                call c;
                call_begin(&c, least ? "amin" : "amax", TD_FLOAT32);
                call_ints(&c, 0, 1, (int64_t[]){!down});
                call_in(&c, &x);
                call_out(&c, &y);
                CU_ASSERT_EQUAL(call_run(&c), 0);
                for (int64_t o = 0; o < shape[down]; o++) {
                    double want = least ? INFINITY : -INFINITY;
                    for (int64_t i = 0; i < shape[!down]; i++) {
                        double v = box_real(&x, down ? i * n + o : o * n + i);
                        if (isnan(v) || (least ? v < want : v > want)) want = v;
                    }
                    double got = box_real(&y, o);
                    CU_ASSERT(isnan(want) ? isnan(got) : got == want);
                }
                if (first.data) CU_ASSERT_EQUAL(memcmp(first.data, y.data, (size_t)shape[down] * sizeof(float)), 0);
                if (first.data) box_free(&y);
                else first = y;
            }
            box_free(&x), box_free(&first);
        }
    td_isa_use(td_isa_level());
}

static void sum_float(const char *op, const void *data, const td_desc *x, unsigned bits, void *out, const td_desc *y,
                      td_dtype compute)
{
    call c;
    int64_t dims[TD_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++)
        if (bits >> d & 1) dims[n++] = d;
    call_begin(&c, op, compute);
    call_ints(&c, 0, n, dims);
    c.in[0] = (td_karg){(void *)data, x};
    c.out[0] = (td_karg){out, y};
    c.k.nin = c.k.nout = 1;
    CU_ASSERT_EQUAL(call_run(&c), 0);
}

/* 16 million floats: within 1e-6, as a whole and down the columns; the same
 * bits for every instruction set and order of chunks. */
static void long_sums(void)
{
    int64_t n = 1 << 24;
    float *x = malloc((size_t)n * 4), first[3] = {0};
    double exact = 0;
    for (int64_t i = 0; i < n; i++) exact += (double)(x[i] = (float)random_unit() + 0.5f);
    td_desc flat = {.shape = {n}, .stride = {1}, .dtype = TD_FLOAT32, .ndim = 1}, one = {.dtype = TD_FLOAT32};
    td_desc tall = {.shape = {n / 2, 2}, .stride = {2, 1}, .dtype = TD_FLOAT32, .ndim = 2},
            two = {.shape = {2}, .stride = {1}, .dtype = TD_FLOAT32, .ndim = 1};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        float total, halves[2], var;
        sum_float("sum", x, &flat, 1, &total, &one, TD_FLOAT32);
        sum_float("sum", x, &tall, 1, halves, &two, TD_FLOAT32);
        sum_float("var", x, &flat, 1, &var, &one, TD_FLOAT32);
        CU_ASSERT(fabs(total - exact) < 1e-6 * exact);
        CU_ASSERT(fabs((double)halves[0] + (double)halves[1] - exact) < 1e-6 * exact);
        CU_ASSERT(fabs(var - 1.0 / 12) < 1e-3);
        if (level == 0) first[0] = total, first[1] = halves[0];
        CU_ASSERT(first[0] == total && first[1] == halves[0]);
    }
    td_isa_use(td_isa_level());
    free(x);
}

/* A large mean does not destroy the variance. */
static void steady_variance(void)
{
    enum { N = 100000 };
    static float x[N], t[2 * N];
    double mean = 0, m2 = 0;
    for (int i = 0; i < N; i++) t[2 * i] = x[i] = 10000.0f + (float)random_unit(), mean += x[i];
    mean /= N;
    for (int i = 0; i < N; i++) m2 += (x[i] - mean) * (x[i] - mean);
    td_desc d = {.shape = {N}, .stride = {1}, .dtype = TD_FLOAT32, .ndim = 1}, one = {.dtype = TD_FLOAT32}, s = d;
    s.stride[0] = 2;
    float got[2];
    sum_float("var", x, &d, 1, &got[0], &one, TD_FLOAT32);
    sum_float("var", t, &s, 1, &got[1], &one, TD_FLOAT32);
    CU_ASSERT(fabs(got[0] - m2 / (N - 1)) < 1e-5 && fabs(got[1] - m2 / (N - 1)) < 1e-5);
}

/* What is so large or so small that its square is not a float: along rows, down columns, in pieces. Of doubles the
 * variance is infinite then, and no number. */
static void ends_of_variance(void)
{
    enum { N = 40000, M = 2 };
    static float x[M * N];
    static double y[M * N];
    static const float sizes[] = {1e30f, 1e-30f};
    td_desc flat = {.shape = {N}, .stride = {1}, .dtype = TD_FLOAT32, .ndim = 1}, one = {.dtype = TD_FLOAT32};
    td_desc tall = {.shape = {N, M}, .stride = {M, 1}, .dtype = TD_FLOAT32, .ndim = 2}, two = flat, wide = flat;
    two.shape[0] = M;
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (int k = 0; k < 2; k++)
            for (int64_t n = 4; n <= N; n *= 100) {
                float got, both[M];
                for (int i = 0; i < M * N; i++) x[i] = sizes[k] * (float)(i % 4);
                flat.shape[0] = n, tall.shape[0] = n / 2;
                double all = sqrt(1.25 * (double)n / (double)(n - 1)), half = sqrt((double)n / (double)(n - 2));
                sum_float("std", x, &flat, 1, &got, &one, TD_FLOAT32);
                sum_float("std", x, &tall, 1, both, &two, TD_FLOAT32);
                CU_ASSERT_DOUBLE_EQUAL(got / sizes[k], all, 1e-5);
                CU_ASSERT_DOUBLE_EQUAL(both[0] / sizes[k], half, 1e-5);
                CU_ASSERT_DOUBLE_EQUAL(both[1] / sizes[k], half, 1e-5);
            }
        for (int64_t n = 4; n <= N; n *= 100) {
            double got;
            for (int i = 0; i < N; i++) y[i] = 1e300 * (i % 4);
            wide.dtype = TD_FLOAT64, wide.shape[0] = n, one.dtype = TD_FLOAT64;
            sum_float("var", y, &wide, 1, &got, &one, TD_FLOAT64);
            CU_ASSERT(isinf(got));
            one.dtype = TD_FLOAT32;
        }
    }
    td_isa_use(td_isa_level());
}

static void complex_reductions(void)
{
    enum { N = 300, M = 70 };
    static float _Complex x[N * M];
    td_desc d = {.shape = {N, M}, .stride = {M, 1}, .dtype = TD_COMPLEX64, .ndim = 2};
    double re[M] = {0}, im[M] = {0}, var[M] = {0};
    for (int i = 0; i < N * M; i++) {
        __real__ x[i] = (float)random_unit();
        __imag__ x[i] = (float)random_unit() * 2;
        re[i % M] += (double)__real__ x[i];
        im[i % M] += (double)__imag__ x[i];
    }
    for (int i = 0; i < N * M; i++) {
        double a = (double)__real__ x[i] - re[i % M] / N, b = (double)__imag__ x[i] - im[i % M] / N;
        var[i % M] += (a * a + b * b) / (N - 1);
    }
    float _Complex sums[M], all;
    float vars[M];
    td_desc row = {.shape = {M}, .stride = {1}, .dtype = TD_COMPLEX64, .ndim = 1}, one = {.dtype = TD_COMPLEX64},
            real = row;
    real.dtype = TD_FLOAT32;
    sum_float("sum", x, &d, 1, sums, &row, TD_COMPLEX64);
    sum_float("mean", x, &d, 3, &all, &one, TD_COMPLEX64);
    sum_float("var", x, &d, 1, vars, &real, TD_COMPLEX64);
    double total = 0;
    for (int j = 0; j < M; j++) {
        CU_ASSERT_DOUBLE_EQUAL(__real__ sums[j], re[j], 1e-3);
        CU_ASSERT_DOUBLE_EQUAL(__imag__ sums[j], im[j], 1e-3);
        CU_ASSERT_DOUBLE_EQUAL(vars[j], var[j], 1e-5);
        total += im[j];
    }
    CU_ASSERT_DOUBLE_EQUAL(__imag__ all, total / (N * M), 1e-5);
}

static void empty(void)
{
    td_desc x = {.shape = {0, 3}, .stride = {3, 1}, .dtype = TD_FLOAT32, .ndim = 2},
            y = {.shape = {3}, .stride = {1}, .dtype = TD_FLOAT32, .ndim = 1};
    float out[3] = {9, 9, 9}, none = 0;
    sum_float("sum", &none, &x, 1, out, &y, TD_FLOAT32);
    CU_ASSERT(out[0] == 0 && out[2] == 0);
    sum_float("mean", &none, &x, 1, out, &y, TD_FLOAT32);
    CU_ASSERT(isnan(out[0]) && isnan(out[2]));
    sum_float("var", &none, &x, 1, out, &y, TD_FLOAT32);
    CU_ASSERT(isnan(out[1]));
    sum_float("logsumexp", &none, &x, 1, out, &y, TD_FLOAT32);
    CU_ASSERT(out[1] == -INFINITY);
    y.shape[0] = 0;
    sum_float("amax", &none, &x, 2, out, &y, TD_FLOAT32);
    static const float infs[4] = {-INFINITY, -INFINITY, INFINITY, 1};
    td_desc two = {.shape = {2, 2}, .stride = {2, 1}, .dtype = TD_FLOAT32, .ndim = 2};
    y.shape[0] = 2;
    sum_float("logsumexp", infs, &two, 2, out, &y, TD_FLOAT32);
    CU_ASSERT(out[0] == -INFINITY && out[1] == INFINITY);
    td_desc turned = {.shape = {2, 2}, .stride = {1, 2}, .dtype = TD_FLOAT32, .ndim = 2};
    sum_float("logsumexp", infs, &turned, 1, out, &y, TD_FLOAT32);
    CU_ASSERT(out[0] == -INFINITY && out[1] == INFINITY);
}

/* Parts that are infinite or NaN: nothing is added by what has no size, and of no numbers there is nothing. */
static void complex_logsumexp(void)
{
    static const struct {
        double in[4], want[2];
    } rows[] = {
        {{INFINITY, 0, 1, 0}, {INFINITY, 0}},
        {{-INFINITY, 0, -INFINITY, 2}, {-INFINITY, 0}},
        {{-INFINITY, NAN, 1, 0}, {1, 0}},
        {{-INFINITY, INFINITY, 1, 2}, {1, 2}},
        {{NAN, 0, 1, 0}, {NAN, NAN}},
        {{0, INFINITY, 1, 0}, {NAN, NAN}},
        {{1000, 1, 1000, -1}, {1000.0775331, 0}},
        {{-1000, 0, -1000, 3}, {-1001.9555748, 1.5}},
        {{INFINITY, 0, -INFINITY, 0}, {INFINITY, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int way = 0; way < 4; way++) { /* a row, a column; both of either dtype */
            td_dtype t = way & 1 ? TD_COMPLEX64 : TD_COMPLEX128;
            int64_t shape[2] = {way & 2 ? 1 : 2, way & 2 ? 2 : 1}, n = 1;
            box x = box_new(t, 2, shape, ROW_MAJOR), y = box_new(t, 1, &n, ROW_MAJOR);
            for (int k = 0; k < 2; k++)
                td_scalar_store(td_complex(rows[i].in[2 * k], rows[i].in[2 * k + 1]), t, box_at(&x, k));
            call c;
            call_begin(&c, "logsumexp", t);
            call_ints(&c, 0, 1, (int64_t[]){way & 2 ? 1 : 0});
            call_in(&c, &x);
            call_out(&c, &y);
            CU_ASSERT_EQUAL(call_run(&c), 0);
            td_scalar got = box_get(&y, 0);
            CU_ASSERT(close_to(got.re, rows[i].want[0], TD_FLOAT32) && close_to(got.im, rows[i].want[1], TD_FLOAT32));
            box_free(&x), box_free(&y);
        }
    box none = box_new(TD_COMPLEX128, 2, (int64_t[]){0, 3}, ROW_MAJOR),
        y = box_new(TD_COMPLEX128, 1, (int64_t[]){3}, ROW_MAJOR);
    call c;
    call_begin(&c, "logsumexp", TD_COMPLEX128);
    call_ints(&c, 0, 1, (int64_t[]){0});
    call_in(&c, &none);
    call_out(&c, &y);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(box_get(&y, 2).re == -INFINITY && box_get(&y, 2).im == 0);
    box_free(&none), box_free(&y);
}

static void sums_to(void)
{
    for (int round = 0; round < 60; round++) {
        int64_t shape[TD_MAX_DIMS], to[TD_MAX_DIMS];
        int nd = some_shape(shape), drop = nd ? (int)random_below(nd + 1) : 0;
        unsigned bits = (1u << drop) - 1;
        for (int i = drop; i < nd; i++) {
            to[i - drop] = random_below(2) ? 1 : shape[i];
            if (to[i - drop] == 1) bits |= 1u << i;
        }
        box x = box_new(TD_FLOAT32, nd, shape, (int)random_below(BOX_LAYOUTS)),
            y = box_new(TD_FLOAT32, nd - drop, to, ROW_MAJOR);
        box_fill(&x);
        call c;
        call_begin(&c, "sum_to", TD_FLOAT32);
        call_ints(&c, 0, nd - drop, to);
        call_in(&c, &x);
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        reference *r = references(&x, bits, box_numel(&y));
        for (int64_t o = 0; o < box_numel(&y); o++) CU_ASSERT(close_to(box_real(&y, o), (double)r[o].sum, TD_FLOAT32));
        free(r);
        box_free(&x);
        box_free(&y);
    }
}

static void softmaxes(void)
{
    static const char *const ops[] = {"softmax", "log_softmax", "softmax_backward", "log_softmax_backward"};
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (int round = 0; round < 80; round++) {
            const char *op = ops[round % 4];
            td_dtype t = types[random_below(4)];
            int64_t shape[TD_MAX_DIMS];
            int nd = some_shape(shape), dim = nd ? (int)random_below(nd) : 0;
            box a = box_new(t, nd, shape, (int)random_below(BOX_LAYOUTS)),
                b = box_new(t, nd, shape, (int)random_below(BOX_LAYOUTS)), y = box_new(t, nd, shape, ROW_MAJOR);
            box_fill(&a);
            for (int64_t i = 0; i < box_numel(&b); i++) box_set(&b, i, (double)random_below(5) / 8 - 0.5);
            call c;
            call_begin(&c, op, t);
            call_attr(&c, 0, A_INT(random_below(2) || !nd ? dim : dim - nd));
            call_in(&c, &a);
            if (round % 4 >= 2) call_in(&c, &b);
            call_out(&c, &y);
            CU_ASSERT_EQUAL(call_run(&c), 0);
            int64_t wrong = 0, n = nd ? shape[dim] : 1, every = 1 + box_numel(&y) * n / 300000;
            for (int64_t i = 0; i < box_numel(&y); i += every) {
                double want = softmax_reference(op, &a, &b, i, dim), scale = round % 4 >= 2 ? sqrt((double)n) * 20 : 1;
                wrong += !(fabs(box_real(&y, i) - want) <= 4 * tolerance(t) * (fabs(want) + scale));
            }
            CU_ASSERT_EQUAL(wrong, 0);
            if (wrong) printf("%s of %s along %d: %d wrong\n", op, td_dtype_name(t), dim, (int)wrong);
            box_free(&a);
            box_free(&b);
            box_free(&y);
        }
    }
    td_isa_use(td_isa_level());
}

/* Columns that lie side by side, in one block and in several; matrices of a
 * batch in another order. */
static void softmax_columns(void)
{
    static const char *const ops[] = {"softmax", "log_softmax", "softmax_backward", "log_softmax_backward"};
    static const int64_t shapes[][3] = {{3, 20, 16}, {2, 1500, 70}, {1, 300, 700}, {2, 1100, 33}};
    for (int round = 0; round < 16; round++) {
        const int64_t *shape = shapes[round / 4];
        const char *op = ops[round % 4];
        box a = box_new(TD_FLOAT32, 3, shape, ROW_MAJOR), b = box_new(TD_FLOAT32, 3, shape, ROW_MAJOR),
            y = box_new(TD_FLOAT32, 3, shape, ROW_MAJOR);
        box_fill(&a);
        for (int64_t i = 0; i < box_numel(&b); i++) box_set(&b, i, (double)random_below(5) / 8 - 0.5);
        bool forward = round % 4 < 2;
        int64_t width = shape[2], length = shape[1];
        for (int64_t r = 0; forward && r < length; r++) {
            box_set(&a, r * width + 1, -INFINITY);                     /* a column of nothing */
            if (r < length - 5) box_set(&a, r * width + 2, -INFINITY); /* one whose first block is nothing */
        }
        if (forward) box_set(&a, 7 * width + 3, NAN), box_set(&a, 9 * width + 4, INFINITY);
        call c;
        call_begin(&c, op, TD_FLOAT32);
        call_attr(&c, 0, A_INT(1));
        call_in(&c, &a);
        if (!forward) call_in(&c, &b);
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        int64_t wrong = 0;
        for (int64_t i = 0; i < box_numel(&y); i += 1 + box_numel(&y) / 2000 * 13) {
            bool none = forward && i < length * width && (i % width == 1 || i % width == 3 || i % width == 4);
            double got = box_real(&y, i), want = none ? NAN : softmax_reference(op, &a, &b, i, 1);
            double scale = forward ? 1 : sqrt((double)length) * 20;
            wrong += none ? got == got : !(got == want || fabs(got - want) <= 4e-6 * (fabs(want) + scale));
        }
        for (int64_t r = 0; forward && r < length; r += 7) /* the columns with something odd in them, in particular */
            for (int64_t j = 1; j < 6; j++) {
                double got = box_real(&y, r * width + j);
                double want = softmax_reference(op, &a, &b, r * width + j, 1);
                wrong += j == 2 || j == 5 ? !(got == want || fabs(got - want) <= 4e-6 * (fabs(want) + 1)) : got == got;
            }
        CU_ASSERT_EQUAL(wrong, 0);
        if (wrong) printf("%s, shape %d: %d wrong\n", op, round / 4, (int)wrong);
        box_free(&a);
        box_free(&b);
        box_free(&y);
    }
}

/* Differences between which exponentials are 0, and gradients at what no softmax ever gave, where they are infinite. */
static void softmax_range(void)
{
    static const float lines[] = {-1000, 3, -100, 104, 0, -1e30f, 1e30f, 88, 90, -110};
    static const char *const ops[] = {"softmax", "log_softmax", "log_softmax_backward"};
    enum { LENGTH = sizeof lines / sizeof *lines };
    const int64_t shape[2] = {LENGTH, 48};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (int which = 0; which < 6; which++) {
            const char *op = ops[which / 2];
            int dim = which & 1;
            box x = box_new(TD_FLOAT32, 2, shape, ROW_MAJOR), g = box_new(TD_FLOAT32, 2, shape, ROW_MAJOR),
                y = box_new(TD_FLOAT32, 2, shape, ROW_MAJOR);
            for (int64_t i = 0; i < box_numel(&x); i++) {
                box_set(&x, i, lines[(i / shape[1] + (i % shape[1]) * 3) % LENGTH]);
                box_set(&g, i, 0.25);
            }
            call c;
            call_begin(&c, op, TD_FLOAT32);
            call_attr(&c, 0, A_INT(dim));
            if (which >= 4) call_in(&c, &g);
            call_in(&c, &x);
            call_out(&c, &y);
            CU_ASSERT_EQUAL(call_run(&c), 0);
            int wrong = 0;
            for (int64_t i = 0; i < box_numel(&x); i++) {
                double got = box_real(&y, i);
                float want = which >= 4 ? (float)(0.25 - exp(box_real(&x, i)) * 0.25 * (double)shape[dim])
                                        : (float)softmax_reference(op, &x, &g, i, dim);
                wrong += !(got == want || fabs(got - want) <= 4e-6 * (fabs(want) + 1));
            }
            CU_ASSERT_EQUAL(wrong, 0);
            if (wrong) printf("%s along %d beyond its range: %d wrong\n", op, dim, wrong);
            box_free(&x);
            box_free(&g);
            box_free(&y);
        }
    }
    td_isa_use(td_isa_level());
}

static void cumsums(void)
{
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_INT64, TD_INT32, TD_BOOL};
    for (int round = 0; round < 80; round++) {
        td_dtype t = types[random_below(6)], result = td_dtype_is_integral(t) ? TD_INT64 : t;
        int64_t shape[TD_MAX_DIMS];
        int nd = some_shape(shape), dim = nd ? (int)random_below(nd) : 0;
        box x = box_new(t, nd, shape, (int)random_below(BOX_LAYOUTS)), y = box_new(result, nd, shape, ROW_MAJOR);
        box_fill(&x);
        call c;
        call_begin(&c, "cumsum", result);
        call_attr(&c, 0, A_INT(dim));
        call_in(&c, &x);
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        int64_t wrong = 0, step = neighbours(&x.d, dim), n = nd ? shape[dim] : 1;
        for (int64_t i = 0; i < box_numel(&x); i++) {
            if (i / step % n) continue;
            double sum = 0;
            for (int64_t j = 0; j < n; j++) {
                sum += box_real(&x, i + j * step);
                wrong += !(fabs(box_real(&y, i + j * step) - sum) <= tolerance(result) * (fabs(sum) + 0.5));
            }
        }
        CU_ASSERT_EQUAL(wrong, 0);
        box_free(&x);
        box_free(&y);
    }
}

/* A line has the same bits alone and among others, however many of them go together. */
static void scans_of_lines(void)
{
    static const int64_t lengths[] = {1, 7, TD_SCAN_WIDTH - 1, TD_SCAN_WIDTH, TD_SCAN_WIDTH + 1, 2 * TD_SCAN_WIDTH + 3};
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16};
    for (int round = 0; round < 360; round++) {
        const td_dtype t = types[round % 3];
        const int64_t lines = 1 + round / 6 % 10, n = lengths[round % 6];
        const size_t bytes = (size_t)n * td_dtype_size(t);
        box x = box_new(t, 2, (int64_t[]){lines, n}, round % 5 ? ROW_MAJOR : GAPPED),
            y = box_new(t, 2, (int64_t[]){lines, n}, ROW_MAJOR);
        box alone = box_new(t, 2, (int64_t[]){1, n}, ROW_MAJOR), z = box_new(t, 2, (int64_t[]){1, n}, ROW_MAJOR);
        box_fill(&x);
        if (round % 4 == 0) box_set(&x, random_below(lines * n), round % 8 ? NAN : INFINITY);
        for (int64_t line = -1; line < lines; line++) {
            for (int64_t i = 0; i < n && line >= 0; i++) box_set(&alone, i, box_real(&x, line * n + i));
            call c;
            call_begin(&c, round / 60 % 2 ? "cumprod" : "cumsum", t);
            call_attr(&c, 0, A_INT(1));
            call_in(&c, line < 0 ? &x : &alone);
            call_out(&c, line < 0 ? &y : &z);
            CU_ASSERT_EQUAL(call_run(&c), 0);
            if (line >= 0) CU_ASSERT_EQUAL(memcmp((char *)y.data + (size_t)line * bytes, z.data, bytes), 0);
        }
        box_free(&x), box_free(&y), box_free(&alone), box_free(&z);
    }
}

static td_dtype some_type(void)
{
    static const td_dtype types[] = {TD_UINT8, TD_FLOAT16, TD_FLOAT32, TD_INT64, TD_COMPLEX128, TD_UINT16, TD_UINT64};
    return types[random_below(5)];
}

static void joins(void)
{
    for (int round = 0; round < 60; round++) {
        bool stack = round % 2;
        int64_t shape[TD_MAX_DIMS], all[TD_MAX_DIMS];
        int nd = 1 + (int)random_below(3), n = 1 + (int)random_below(6), dim = (int)random_below(nd + stack);
        td_dtype t = some_type();
        for (int i = 0; i < nd; i++) shape[i] = 1 + random_below(round % 10 == 0 ? 90 : 7);
        box in[6], y;
        call c;
        call_begin(&c, stack ? "stack" : "cat", t);
        call_attr(&c, 0, A_INT(dim));
        int64_t total = 0, starts[7] = {0};
        for (int k = 0; k < n; k++) {
            int64_t s[TD_MAX_DIMS];
            memcpy(s, shape, sizeof s);
            if (!stack) s[dim] = random_below(9);
            in[k] = box_new(random_below(4) ? t : TD_UINT8, nd, s, (int)random_below(BOX_LAYOUTS));
            box_fill(&in[k]);
            call_in(&c, &in[k]);
            starts[k] = total;
            total += stack ? 1 : s[dim];
        }
        for (int i = 0, j = 0; i < nd + stack; i++) all[i] = i == dim ? total : shape[j], j += !(stack && i == dim);
        y = box_new(t, nd + stack, all, ROW_MAJOR);
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        int64_t wrong = 0;
        for (int64_t i = 0; i < box_numel(&y); i++) {
            int64_t at[TD_MAX_DIMS], from[TD_MAX_DIMS];
            int k = n - 1;
            coordinates(&y.d, i, at);
            while (starts[k] > at[dim] || (!stack && in[k].d.shape[dim] == 0)) k--;
            for (int a = 0, b = 0; a < nd + stack; a++)
                if (!(stack && a == dim)) from[b++] = at[a] - (a == dim ? starts[k] : 0);
            td_scalar s = box_get(&in[k], index_at(&in[k].d, from)), g = box_get(&y, i);
            double want = s.kind <= TD_S_INT ? (double)s.i : s.re, got = g.kind <= TD_S_INT ? (double)g.i : g.re;
            wrong += want != got || (s.kind == TD_S_COMPLEX && s.im != g.im);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        for (int k = 0; k < n; k++) box_free(&in[k]);
        box_free(&y);
    }
}

static void moves(void)
{
    for (int round = 0; round < 60; round++) {
        td_dtype t = some_type();
        int64_t shape[TD_MAX_DIMS], to[TD_MAX_DIMS], attr[2 * TD_MAX_DIMS];
        int nd = 2 + (int)random_below(2);
        for (int i = 0; i < nd; i++) shape[i] = 1 + random_below(round % 10 == 0 ? 60 : 9);
        box x = box_new(t, nd, shape, (int)random_below(BOX_LAYOUTS)), y = box_new(t, nd, shape, ROW_MAJOR);
        call c;
        box_fill(&x);
        int n = (int)random_below(nd + 1);
        for (int i = 0; i < n; i++) attr[i] = i;
        call_begin(&c, "flip", t);
        call_ints(&c, 0, n, attr);
        check_moves("flip", &x, &y, &c, flip_source, attr, n, 0);
        n = random_below(4) ? 1 + (int)random_below(nd) : 0;
        for (int i = 0; i < nd; i++) attr[i] = random_below(41) - 20, to[i] = i;
        call_begin(&c, "roll", t);
        call_ints(&c, 0, n ? n : 1, attr);
        call_ints(&c, 1, n, to);
        check_moves("roll", &x, &y, &c, roll_source, attr, n, 0);
        attr[0] = random_below(13) - 6;
        for (int upper = 0; upper < 2; upper++) {
            call_begin(&c, upper ? "triu" : "tril", t);
            call_attr(&c, 0, A_INT(attr[0]));
            check_moves(upper ? "triu" : "tril", &x, &y, &c, upper ? upper_source : lower_source, attr, 1, 0);
        }
        box_free(&y);
        n = 2 * (int)random_below(nd + 1);
        memcpy(to, shape, sizeof to);
        for (int i = 0; i < n; i++) attr[i] = random_below(6) - 1;
        for (int i = 0; i < n / 2; i++) {
            int64_t *size = &to[nd - 1 - i];
            if (*size + attr[2 * i] + attr[2 * i + 1] < 0) attr[2 * i] = attr[2 * i + 1] = 0;
            *size += attr[2 * i] + attr[2 * i + 1];
        }
        y = box_new(t, nd, to, ROW_MAJOR);
        call_begin(&c, "constant_pad", t);
        call_ints(&c, 0, n, attr);
        call_attr(&c, 1, A_SCALAR(td_int(3)));
        check_moves("constant_pad", &x, &y, &c, pad_source, attr, n, 3);
        box_free(&y);
        int lead = (int)random_below(3);
        for (int i = 0; i < nd + lead; i++) {
            attr[i] = random_below(4);
            to[i] = attr[i] * (i < lead ? 1 : shape[i - lead]);
        }
        y = box_new(t, nd + lead, to, ROW_MAJOR);
        call_begin(&c, "repeat", t);
        call_ints(&c, 0, nd + lead, attr);
        check_moves("repeat", &x, &y, &c, repeat_source, attr, nd, 0);
        box_free(&x);
        box_free(&y);
    }
}

static void creation(void)
{
    int64_t n = 1000;
    box y = box_new(TD_FLOAT32, 1, &n, ROW_MAJOR), z = box_new(TD_INT16, 1, &n, ROW_MAJOR);
    call c;
    call_begin(&c, "arange", TD_FLOAT32);
    call_attr(&c, 0, A_SCALAR(td_float(0.5)));
    call_attr(&c, 1, A_SCALAR(td_float(250.5)));
    call_attr(&c, 2, A_SCALAR(td_float(0.25)));
    call_out(&c, &y);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(box_real(&y, 0) == 0.5 && box_real(&y, 3) == 1.25 && box_real(&y, 999) == 250.25);
    call_begin(&c, "arange", TD_INT16);
    call_attr(&c, 0, A_SCALAR(td_int(3)));
    call_attr(&c, 1, A_SCALAR(td_int(-1997)));
    call_attr(&c, 2, A_SCALAR(td_int(-2)));
    call_out(&c, &z);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(box_real(&z, 0) == 3 && box_real(&z, 999) == -1995);
    call_begin(&c, "linspace", TD_FLOAT32);
    call_attr(&c, 0, A_FLOAT(-1));
    call_attr(&c, 1, A_FLOAT(0.1));
    call_attr(&c, 2, A_INT(n));
    call_out(&c, &y);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(box_real(&y, 0) == -1 && box_real(&y, 999) == (double)0.1f && fabs(box_real(&y, 500) + 0.449449) < 1e-5);
    int64_t shape[2] = {300, 400};
    box e = box_new(TD_FLOAT16, 2, shape, ROW_MAJOR), f = box_new(TD_COMPLEX64, 2, shape, PERMUTED);
    call_begin(&c, "eye", TD_FLOAT16);
    call_out(&c, &e);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < box_numel(&e); i++) wrong += box_real(&e, i) != (i / 400 == i % 400);
    call_begin(&c, "full", TD_COMPLEX64);
    call_attr(&c, 1, A_SCALAR(td_complex(1.5, -2)));
    call_out(&c, &f);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    for (int64_t i = 0; i < box_numel(&f); i++) wrong += box_get(&f, i).re != 1.5 || box_get(&f, i).im != -2;
    CU_ASSERT_EQUAL(wrong, 0);
    box_free(&y);
    box_free(&z);
    box_free(&e);
    box_free(&f);
}

static int init(void)
{
    td_cpu_init();
    return 0;
}

TD_CUNIT_MAIN_WITH("kernels_reduce", init, NULL, {"reductions", reductions}, {"rows apart", rows_apart},
                   {"special extremes", special_extremes}, {"long sums", long_sums},
                   {"steady variance", steady_variance}, {"ends of variance", ends_of_variance},
                   {"complex", complex_reductions}, {"empty and infinite", empty},
                   {"logsumexp of complex numbers", complex_logsumexp}, {"sum to a shape", sums_to},
                   {"softmax", softmaxes}, {"softmax of columns", softmax_columns},
                   {"softmax beyond range", softmax_range}, {"cumsum", cumsums}, {"scans of lines", scans_of_lines},
                   {"cat and stack", joins}, {"moves", moves}, {"creation", creation})
