/* Ops that read and write through indices and masks, on both sides of the sizes
 * by which they are cut: see test_straddle.c. References are loops in
 * the order of the elements: the last write stays, sums are added in order. */
#include "daemon/kernels/cpu/plan.h"
#include "pointwise_support.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static int64_t beside(int64_t size, int which)
{
    return size + which - 1 > 0 ? size + which - 1 : 1;
}
static td_dtype some_type(void)
{
    static const td_dtype types[] = {TD_FLOAT32, TD_INT64, TD_UINT8, TD_INT16, TD_FLOAT64, TD_COMPLEX64, TD_COMPLEX128};
    return types[random_below(COUNT(types))];
}
static int some_layout(void)
{
    return random_below(2) ? ROW_MAJOR : (int)random_below(LAYOUTS);
}
static box filled(td_dtype t, int nd, const int64_t *shape, int layout)
{
    box b = box_new(t, nd, shape, layout);
    box_fill(&b);
    return b;
}
#define SHAPE(...)                                                                                                     \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                                             \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* Indices below `limit`, of any integer dtype that holds them. */
static box indices(int nd, const int64_t *shape, int64_t limit)
{
    static const td_dtype types[] = {TD_INT64, TD_INT32, TD_INT16, TD_UINT8};
    box b =
        box_new(limit > 255 ? TD_INT64 : types[random_below(COUNT(types))], nd, shape, (int)random_below(BOX_LAYOUTS));
    for (int64_t i = 0; i < box_numel(&b); i++) box_set(&b, i, (double)random_below(limit));
    return b;
}
static bool same(const box *a, int64_t i, const box *b, int64_t j)
{
    return !memcmp(box_at(a, i), box_at(b, j), td_dtype_size(a->d.dtype));
}
static void run(call *c, const box *out, int64_t wrong_before)
{
    CU_ASSERT_EQUAL(call_run(c), 0);
    CU_ASSERT(guarded_intact(&out->memory));
    CU_ASSERT_EQUAL(wrong_before, 0);
}
static void verdict(const char *op, const box *b, int64_t wrong)
{
    char text[128];
    if (wrong) printf("%s of %s: %d wrong\n", op, td_desc_text(&b->d, text, sizeof text), (int)wrong);
    CU_ASSERT_EQUAL(wrong, 0);
}

/* ---- reading */

static void reads(int64_t n)
{
    td_dtype t = some_type();
    int64_t wrong = 0, cols = 1 + n / 40;
    box x = filled(t, SHAPE(9, 40), (int)random_below(BOX_LAYOUTS)), flat = filled(t, SHAPE(50), some_layout());
    box idx = indices(SHAPE(n), 50), y = box_new(t, SHAPE(n), ROW_MAJOR);
    call c;
    for (int op = 0; op < 3; op++) { /* an index for each element */
        static const char *const names[] = {"gather", "index_select", "index"};
        call_begin(&c, names[op], t);
        if (op < 2) call_attr(&c, 0, A_INT(0));
        call_in(&c, &flat), call_in(&c, &idx), call_out(&c, &y);
        run(&c, &y, 0);
        for (int64_t i = 0; i < n; i++) wrong += !same(&y, i, &flat, (int64_t)box_real(&idx, i));
        verdict(names[op], &idx, wrong);
    }
    box_free(&idx), box_free(&y);
    idx = indices(SHAPE(cols), 9), y = box_new(t, SHAPE(cols, 40), ROW_MAJOR);
    for (int op = 0; op < 3; op++) { /* rows */
        static const char *const names[] = {"embedding", "index_select", "index"};
        call_begin(&c, names[op], t);
        if (op == 1) call_attr(&c, 0, A_INT(-2));
        call_in(&c, &x), call_in(&c, &idx), call_out(&c, &y);
        run(&c, &y, 0);
        for (int64_t i = 0; i < cols * 40; i++)
            wrong += !same(&y, i, &x, (int64_t)box_real(&idx, i / 40) * 40 + i % 40);
        verdict(names[op], &idx, wrong);
    }
    box_free(&y);
    y = box_new(t, SHAPE(9, cols), ROW_MAJOR);
    call_begin(&c, "index", t);
    call_in(&c, &x), call_in(&c, NULL), call_in(&c, &idx), call_out(&c, &y);
    run(&c, &y, 0);
    for (int64_t i = 0; i < 9 * cols; i++) wrong += !same(&y, i, &x, i / cols * 40 + (int64_t)box_real(&idx, i % cols));
    verdict("index of columns", &idx, wrong);
    box_free(&idx), box_free(&y);
    idx = indices(SHAPE(cols, 40), 9), y = box_new(t, SHAPE(cols, 40), ROW_MAJOR);
    call_begin(&c, "gather", t);
    call_attr(&c, 0, A_INT(0));
    call_in(&c, &x), call_in(&c, &idx), call_out(&c, &y);
    run(&c, &y, 0);
    for (int64_t i = 0; i < cols * 40; i++) wrong += !same(&y, i, &x, (int64_t)box_real(&idx, i) * 40 + i % 40);
    verdict("gather of rows", &idx, wrong);
    box_free(&idx), box_free(&y), box_free(&x), box_free(&flat);
}

/* ---- writing */

/* want[to] = or += src[from] */
static void put(box *want, int64_t to, const box *src, int64_t from, bool add, double alpha)
{
    td_scalar a = box_get(want, to), s = box_get(src, from);
    if (!add) s = s.kind <= TD_S_INT ? td_int(s.i) : s;
    else if (a.kind <= TD_S_INT) s = td_int((int64_t)((uint64_t)a.i + (uint64_t)(int64_t)alpha * (uint64_t)s.i));
    else if (a.kind == TD_S_COMPLEX) s = td_complex(a.re + alpha * s.re, a.im + alpha * s.im);
    else s = td_float(a.re + alpha * s.re);
    td_scalar_store(s, want->d.dtype, box_at(want, to));
}

/* n indices into the rows (cols = 1: the elements) of x, in place or on a copy.
 */
static void writes(int64_t n, int64_t rows, int64_t cols)
{
    static const char *const ops[] = {"scatter", "scatter_add", "index_put", "index_put", "index_add", "index_add"};
    for (int op = 0; op < COUNT(ops); op++) {
        td_dtype t = some_type();
        bool add = op == 1 || op >= 3, each = op < 2, place = random_below(2);
        double alpha = op == 5 ? 3 : 1;
        int nd = cols > 1 ? 2 : 1;
        int64_t xs[2] = {rows, cols}, ss[2] = {n, cols};
        box x = filled(t, nd, xs, some_layout()), src = filled(t, nd, ss, (int)random_below(BOX_LAYOUTS));
        box idx = indices(each ? nd : 1, ss, rows), y = box_new(t, nd, xs, ROW_MAJOR),
            want = box_new(t, nd, xs, ROW_MAJOR);
        int64_t wrong = 0;
        for (int64_t i = 0; i < rows * cols; i++) put(&want, i, &x, i, false, 1);
        for (int64_t i = 0; i < n * cols; i++) {
            int64_t r = (int64_t)box_real(&idx, each ? i : i / cols);
            put(&want, r * cols + i % cols, &src, i, add, alpha);
        }
        call c;
        call_begin(&c, ops[op], t);
        if (op == 2 || op == 3) call_attr(&c, 0, A_BOOL(add));
        else call_attr(&c, 0, A_INT(0));
        if (op >= 4) call_attr(&c, 1, A_SCALAR(td_int((int64_t)alpha)));
        call_in(&c, &x), call_in(&c, &idx), call_in(&c, &src), call_out(&c, place ? &x : &y);
        run(&c, place ? &x : &y, 0);
        for (int64_t i = 0; i < rows * cols; i++) wrong += !same(place ? &x : &y, i, &want, i);
        verdict(ops[op], &src, wrong);
        box_free(&x), box_free(&src), box_free(&idx), box_free(&y), box_free(&want);
    }
}

static void indexed(void)
{
    static const int64_t sizes[] = {TD_INDEX_READ, TD_INDEX_POSITIONS, TD_SCATTER_CHECK, TD_SELECT_BYTES / 20, 300};
    for (int i = 0; i < COUNT(sizes); i++)
        for (int which = 0; which < 3; which++) {
            int64_t n = beside(sizes[i], which);
            reads(n);
            writes(n, 97, 1);
            writes(n / 11, 50, 11);
            writes(1 + n / 1000, 7, 900);
        }
    writes(40000, 3, 1);
    writes(3, 2, TD_COPY_BYTES / 8 + 1); /* a copy in several chunks */
    writes(600, 900, 200);
}

/* ---- masks */

/* nonzero has the places of what is not 0, in row-major order. */
static void nonzero_of(box *x)
{
    int nd = x->d.ndim;
    int64_t n = td_desc_numel(&x->d), wrong = 0, seen = 0;
    box at = box_new(TD_INT64, SHAPE(n, nd), ROW_MAJOR);
    call c;
    call_begin(&c, "nonzero", x->d.dtype);
    call_in(&c, x), call_out(&c, &at);
    run(&c, &at, 0);
    int64_t count = td_kernel_count(&c.k);
    for (int64_t i = 0; i < n; i++) {
        td_scalar s = box_get(x, i);
        if (s.kind <= TD_S_INT ? s.i == 0 : s.re == 0 && s.im == 0) continue;
        int64_t rest = i;
        for (int d = nd - 1; d >= 0; rest /= x->d.shape[d--])
            wrong += seen >= count || (int64_t)box_real(&at, seen * nd + d) != rest % x->d.shape[d];
        seen++;
    }
    verdict("nonzero", x, wrong + (seen != count));
    box_free(&at);
}

/* In several dimensions, of masks that are dense, half full and nearly empty. */
static void places(td_dtype t, const int64_t *shape, int nd, int one_in)
{
    box x = box_new(t, nd, shape, (int)random_below(BOX_LAYOUTS));
    for (int64_t i = 0; i < td_desc_numel(&x.d); i++) box_set(&x, i, random_below(one_in) == 0);
    nonzero_of(&x);
    box_free(&x);
}

static void masks_of_rows(void)
{
    static const int64_t rows[] = {TD_MASK_ROW, TD_MASK_PART, 1, 7};
    for (int i = 0; i < COUNT(rows); i++)
        for (int which = 0; which < 3; which++)
            for (int one_in = 1; one_in < 100; one_in += 33 + one_in % 2) {
                int64_t row = beside(rows[i] + 1, which);
                td_dtype t = which ? TD_BOOL : TD_FLOAT32;
                places(t, (int64_t[]){beside(TD_MASK_BLOCK, which) / row + 1, row}, 2, one_in);
                places(t, (int64_t[]){3, 200 / row + 1, row}, 3, one_in == 1 ? 2 : one_in);
            }
}

static void masks(void)
{
    masks_of_rows();
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_INT64,     TD_INT32, TD_INT16,
                                     TD_UINT8,   TD_FLOAT16, TD_COMPLEX64, TD_BOOL};
    for (int round = 0; round < 9; round++) {
        td_dtype t = types[round % COUNT(types)];
        int64_t n = beside(TD_MASK_BLOCK, round % 3), wrong = 0, seen = 0;
        box x = filled(t, SHAPE(n), (int)random_below(BOX_LAYOUTS));
        nonzero_of(&x);
        int64_t rows = 40, cols = n / 40 + 1;
        box m = box_new(TD_BOOL, SHAPE(rows, cols), some_layout()), v = filled(t, SHAPE(rows, cols), some_layout());
        box y = box_new(t, SHAPE(rows * cols), ROW_MAJOR),
            src = filled(t, SHAPE(cols, rows), (int)random_below(BOX_LAYOUTS));
        for (int64_t i = 0; i < rows * cols; i++) box_set(&m, i, (double)random_below(2));
        call c;
        call_begin(&c, "masked_select", t);
        call_in(&c, &v), call_in(&c, &m), call_out(&c, &y);
        run(&c, &y, 0);
        for (int64_t i = 0; i < rows * cols; i++)
            if (box_real(&m, i) != 0) wrong += !same(&y, seen++, &v, i);
        verdict("masked_select", &v, wrong + (seen != td_kernel_count(&c.k)));
        box out = box_new(t, SHAPE(rows, cols), ROW_MAJOR);
        call_begin(&c, "masked_scatter", t);
        call_in(&c, &v), call_in(&c, &m), call_in(&c, &src), call_out(&c, &out);
        run(&c, &out, 0);
        seen = 0;
        for (int64_t i = 0; i < rows * cols; i++)
            wrong += box_real(&m, i) != 0 ? !same(&out, i, &src, seen++) : !same(&out, i, &v, i);
        verdict("masked_scatter", &v, wrong);
        box_free(&x), box_free(&m), box_free(&v), box_free(&y), box_free(&src), box_free(&out);
    }
}

static void slices(void)
{
    static const int64_t sizes[] = {TD_SLICE_CHUNK, TD_COPY_BYTES / 8};
    for (int round = 0; round < 12; round++) {
        td_dtype t = some_type();
        int64_t n = beside(sizes[round % 2], round / 2 % 3), step = 1 + round % 3, start = round % 4, wrong = 0;
        int64_t length = (2 * n - start - 1) / step + 1;
        box x = filled(t, SHAPE(2, n), some_layout()), src = filled(t, SHAPE(n), (int)random_below(BOX_LAYOUTS));
        box y = box_new(t, SHAPE(2, n), ROW_MAJOR), flat = filled(t, SHAPE(2 * n), some_layout());
        box part = filled(t, SHAPE(length), (int)random_below(BOX_LAYOUTS)), z = box_new(t, SHAPE(2 * n), ROW_MAJOR);
        call c;
        call_begin(&c, "select_scatter", t);
        call_attr(&c, 0, A_INT(0)), call_attr(&c, 1, A_INT(1));
        call_in(&c, &x), call_in(&c, &src), call_out(&c, &y);
        run(&c, &y, 0);
        for (int64_t i = 0; i < 2 * n; i++) wrong += i < n ? !same(&y, i, &x, i) : !same(&y, i, &src, i - n);
        verdict("select_scatter", &x, wrong);
        call_begin(&c, "slice_scatter", t);
        call_attr(&c, 0, A_INT(0)), call_attr(&c, 1, A_INT(start)), call_attr(&c, 3, A_INT(step));
        call_in(&c, &flat), call_in(&c, &part), call_out(&c, &z);
        run(&c, &z, 0);
        for (int64_t i = 0; i < 2 * n; i++) {
            bool within = i >= start && (i - start) % step == 0;
            wrong += within ? !same(&z, i, &part, (i - start) / step) : !same(&z, i, &flat, i);
        }
        verdict("slice_scatter", &flat, wrong);
        box_free(&x), box_free(&src), box_free(&y), box_free(&flat), box_free(&part), box_free(&z);
    }
}

/* ---- dot, steps of optimizers, losses */

static void dots(void)
{
    static const td_dtype types[] = {TD_FLOAT32,    TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16, TD_COMPLEX64,
                                     TD_COMPLEX128, TD_INT64,   TD_INT32,   TD_INT16,    TD_INT8,
                                     TD_UINT8,      TD_UINT16,  TD_UINT32,  TD_UINT64};
    static const int64_t sizes[] = {TD_DOT_BLOCK, TD_DOT_PART};
    for (int i = 0; i < COUNT(types); i++)
        for (int which = 0; which < 6; which++)
            for (int l = 0; l < 4; l++) {
                td_dtype t = types[i];
                int64_t n = beside(sizes[which % 2], which / 2);
                box x = filled(t, SHAPE(n), l & 1 ? STEPPED : ROW_MAJOR),
                    y = filled(t, SHAPE(n), l & 2 ? STEPPED : ROW_MAJOR);
                box out = box_new(t, 0, NULL, ROW_MAJOR);
                double re = 0, im = 0, size = 0;
                int64_t whole = 0;
                for (int64_t k = 0; k < n; k++) {
                    td_scalar a = box_get(&x, k), b = box_get(&y, k);
                    if (a.kind <= TD_S_INT) whole += a.i * b.i;
                    re += a.re * b.re - a.im * b.im, im += a.re * b.im + a.im * b.re;
                    size += fabs(a.re * b.re) + fabs(a.im * b.im);
                }
                call c;
                call_begin(&c, "dot", t);
                call_in(&c, &x), call_in(&c, &y), call_out(&c, &out);
                run(&c, &out, 0);
                td_scalar got = box_get(&out, 0);
                _Alignas(16) unsigned char bytes[16];
                if (td_dtype_is_integral(t)) {
                    td_scalar_store(td_int(whole), t, bytes);
                    CU_ASSERT_EQUAL(got.i, td_scalar_load(t, bytes).i);
                } else {
                    double tol = t == TD_FLOAT16                        ? 1e-3
                                 : t == TD_BFLOAT16                     ? 8e-3
                                 : t == TD_FLOAT32 || t == TD_COMPLEX64 ? 1e-5
                                                                        : 1e-12;
                    CU_ASSERT(fabs(got.re - re) <= tol * (size + 1) && fabs(got.im - im) <= tol * (size + 1));
                }
                box_free(&x), box_free(&y), box_free(&out);
            }
}

/* A step over n elements, flat or strided, against the same over each element
 * alone. */
static void steps(void)
{
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16};
    static const int64_t sizes[] = {TD_STEP_CHUNK, TD_STEP_PART};
    for (int round = 0; round < 36; round++) {
        td_dtype t = types[round % 3];
        int64_t n = beside(sizes[round / 3 % 2], round / 6 % 3), wrong = 0;
        bool adam = round & 1;
        int layout = round < 18 ? ROW_MAJOR : STEPPED;
        box v[4], one[4], before[4], count = box_new(TD_FLOAT32, 0, NULL, ROW_MAJOR),
                                     alone = box_new(TD_FLOAT32, 0, NULL, ROW_MAJOR);
        for (int i = 0; i < 4; i++) {
            v[i] = filled(t, SHAPE(n), i == 1 ? ROW_MAJOR : layout), one[i] = box_new(t, SHAPE(1), ROW_MAJOR);
            before[i] = box_new(t, SHAPE(n), ROW_MAJOR);
            for (int64_t k = 0; k < n; k++) {
                if (i == 3) box_set(&v[i], k, fabs(box_real(&v[i], k)));
                memcpy(box_at(&before[i], k), box_at(&v[i], k), td_dtype_size(t));
            }
        }
        call c;
        for (int64_t at = -1; at < n; at = at < 0 ? 0 : at + 1 + n / 150) {
            box *p = at < 0 ? v : one;
            if (at >= 0)
                for (int i = 0; i < 4; i++) memcpy(one[i].data, box_at(&before[i], at), td_dtype_size(t));
            box_set(&count, 0, 4), box_set(&alone, 0, 4);
            call_begin(&c, adam ? "adam_step" : "sgd_step", t);
            call_attr(&c, 0, A_FLOAT(0.1));
            if (!adam)
                call_attr(&c, 1, A_FLOAT(0.9)), call_attr(&c, 3, A_FLOAT(0.01)), call_attr(&c, 4, A_BOOL(round & 2));
            if (adam) call_attr(&c, 4, A_FLOAT(0.01)), call_attr(&c, 5, A_BOOL(round & 2));
            for (int i = 0; i < (adam ? 4 : 3); i++) call_in(&c, &p[i]);
            if (adam) call_in(&c, at < 0 ? &count : &alone);
            CU_ASSERT_EQUAL(call_run(&c), 0);
            for (int i = 0; at >= 0 && i < (adam ? 4 : 3); i++) {
                double a = box_real(&v[i], at), b = box_real(&one[i], 0);
                wrong += fabs(a - b) > 1e-6 * (fabs(b) + 1e-3) * (t == TD_FLOAT16 ? 2000 : 1);
            }
        }
        verdict(adam ? "adam_step" : "sgd_step", &v[0], wrong);
        for (int i = 0; i < 4; i++) box_free(&v[i]), box_free(&one[i]), box_free(&before[i]);
        box_free(&count), box_free(&alone);
    }
}

static void losses(void)
{
    for (int round = 0; round < 9; round++) {
        int64_t n = beside(round < 6 ? TD_NLL_BLOCK : TD_NLL_BACK_CHUNK / 7, round % 3), C = 7, wrong = 0;
        td_dtype t = round & 1 ? TD_FLOAT32 : TD_FLOAT64;
        box x = filled(t, SHAPE(n, C), some_layout()), target = indices(SHAPE(n), C),
            w = filled(t, SHAPE(C), some_layout());
        box loss = box_new(t, 0, NULL, ROW_MAJOR), total = box_new(t, 0, NULL, ROW_MAJOR),
            g = box_new(t, 0, NULL, ROW_MAJOR);
        box dx = box_new(t, SHAPE(n, C), ROW_MAJOR);
        for (int64_t i = 0; i < C; i++) box_set(&w, i, 0.5 + (double)i / 4);
        box_set(&g, 0, 2);
        double sum = 0, weight = 0, size = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t k = (int64_t)box_real(&target, i);
            if (k == 3) continue;
            sum -= box_real(&w, k) * box_real(&x, i * C + k), weight += box_real(&w, k);
            size += fabs(box_real(&w, k) * box_real(&x, i * C + k));
        }
        call c;
        call_begin(&c, "nll_loss", t);
        call_attr(&c, 0, A_INT(1)), call_attr(&c, 1, A_INT(3));
        call_in(&c, &x), call_in(&c, &target), call_in(&c, &w), call_out(&c, &loss), call_out(&c, &total);
        run(&c, &loss, 0);
        bool right = fabs(box_real(&loss, 0) - sum / weight) < 1e-5 * (1 + size / weight);
        CU_ASSERT(weight == 0 ? isnan(box_real(&loss, 0)) : right); /* 0: all are ignored */
        CU_ASSERT(fabs(box_real(&total, 0) - weight) <= 1e-5 * weight);
        call_begin(&c, "nll_loss_backward", t);
        call_ints(&c, 0, 2, (int64_t[]){n, C});
        call_attr(&c, 1, A_INT(1)), call_attr(&c, 2, A_INT(3));
        call_in(&c, &g), call_in(&c, &target), call_in(&c, &w), call_in(&c, &total), call_out(&c, &dx);
        run(&c, &dx, 0);
        for (int64_t i = 0; i < n * C; i++) {
            bool hit = (int64_t)box_real(&target, i / C) == i % C && i % C != 3;
            double want = hit ? -2 * box_real(&w, i % C) / weight : 0;
            wrong += fabs(box_real(&dx, i) - want) > 1e-6 * fabs(want);
        }
        verdict("nll_loss_backward", &dx, wrong);
        box_free(&x), box_free(&target), box_free(&w), box_free(&loss), box_free(&total), box_free(&g), box_free(&dx);
    }
}

static int init(void)
{
    td_cpu_init();
    return 0;
}

TD_CUNIT_MAIN_WITH("kernels_straddle_index", init, NULL, {"indices", indexed}, {"masks", masks}, {"slices", slices},
                   {"dot", dots}, {"steps", steps}, {"losses", losses})
