/* layer_norm and batch_norm, forward and backward, against the formulas in
 * double; large means, running statistics, masks. */
#include "kernel_harness.h"

/* The looser of two: what sums over `n` terms in float may lose. */
static double tol(td_dtype t)
{
    return t == TD_FLOAT32 ? 2e-5 : t == TD_FLOAT64 ? 1e-11 : tolerance(t) * 2;
}
static td_dtype stat_dtype(td_dtype t)
{
    return t == TD_FLOAT64 ? TD_FLOAT64 : TD_FLOAT32;
}
static int far(const tt *out, int64_t i, double want, double scale)
{
    return !near(tt_get(out, i), want, tol(out->d.dtype), scale);
}

static void moments(const double *x, int64_t n, double eps, double *mean, double *rstd)
{
    double s = 0, v = 0;
    for (int64_t i = 0; i < n; i++) s += x[i];
    *mean = s / (double)n;
    for (int64_t i = 0; i < n; i++) v += (x[i] - *mean) * (x[i] - *mean);
    *rstd = 1 / sqrt(v / (double)n + eps);
}

/* ---- layer norm ---- */

static void layer_case(td_dtype t, int64_t rows, int64_t a, int64_t b, int layout, bool affine, double mean)
{
    int64_t n = a * b;
    tt x = TTL(t, layout, rows, a, b), w = TTL(t, layout, a, b), bias = TT(t, a, b), y = TT(t, rows, a, b);
    tt m = TT(stat_dtype(t), rows, 1, 1), r = TT(stat_dtype(t), rows, 1, 1);
    tt_normal(&x, mean, 1);
    tt_normal(&w, 1, 0.5);
    tt_normal(&bias, 0, 1);
    CALL(c, 3, &x, affine ? &w : NULL, affine ? &bias : NULL);
    c.out[0] = &y, c.out[1] = &m, c.out[2] = &r;
    attr_int(&c, 2);
    attr_float(&c, 1e-5);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_layer_norm), 0);
    tt g = TTL(t, layout, rows, a, b), dx = TT(t, rows, a, b), dw = TT(t, a, b), db = TT(t, a, b);
    tt_normal(&g, 0, 1);
    CALL(k, 3, &g, &x, affine ? &w : NULL, &m, &r);
    k.out[0] = &dx, k.out[1] = &dw, k.out[2] = &db;
    attr_int(&k, 2);
    attr_int(&k, 7);
    CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_layer_norm_backward), 0);
    double *row = malloc(sizeof(double) * (size_t)n), *sw = calloc((size_t)n, 8), *sb = calloc((size_t)n, 8);
    int bad = 0;
    for (int64_t i = 0; i < rows; i++) {
        double mu, rs, c1 = 0, c2 = 0;
        for (int64_t j = 0; j < n; j++) row[j] = tt_get(&x, i * n + j);
        moments(row, n, 1e-5, &mu, &rs);
        bad += far(&m, i, mu, mu) + far(&r, i, rs, rs);
        for (int64_t j = 0; j < n; j++) {
            double h = (row[j] - mu) * rs, gw = tt_get(&g, i * n + j) * (affine ? tt_get(&w, j) : 1);
            double want = affine ? h * tt_get(&w, j) + tt_get(&bias, j) : h;
            bad += far(&y, i * n + j, want, 2 + fabs(mean) * 0.01);
            c1 += gw * h;
            c2 += gw;
            sw[j] += tt_get(&g, i * n + j) * h;
            sb[j] += tt_get(&g, i * n + j);
        }
        for (int64_t j = 0; j < n; j++) {
            double h = (row[j] - mu) * rs, gw = tt_get(&g, i * n + j) * (affine ? tt_get(&w, j) : 1);
            bad += far(&dx, i * n + j, rs * (gw - c2 / (double)n - h * c1 / (double)n), rs * (2 + fabs(mean) * 0.02));
        }
    }
    for (int64_t j = 0; j < n; j++)
        bad += far(&dw, j, sw[j], (4 + fabs(mean) * 0.02) * sqrt((double)rows)) +
               far(&db, j, sb[j], 2 * sqrt((double)rows));
    CU_ASSERT_EQUAL(bad, 0);
    if (bad)
        printf("layer_norm %s rows %d cols %d layout %d: %d wrong\n", td_dtype_name(t), (int)rows, (int)n, layout, bad);
    free(row), free(sw), free(sb);
    tt_free(&x), tt_free(&w), tt_free(&bias), tt_free(&y), tt_free(&m), tt_free(&r), tt_free(&g), tt_free(&dx);
    tt_free(&dw), tt_free(&db);
}

static void layer_all(void)
{
    for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++)
        for (int l = 0; l < LAYOUTS; l++) {
            layer_case(t, 7, 5, 9, l, true, 0);
            layer_case(t, 3, 1, 40, l, false, 1);
        }
    layer_case(TD_FLOAT32, 700, 2, 130, PLAIN, true, 0); /* several blocks of rows */
    layer_case(TD_FLOAT32, 5, 1, 1, PLAIN, true, 0);
}

static void layer_large_mean(void)
{
    layer_case(TD_FLOAT64, 4, 1, 500, PLAIN, true, 1e6);
    layer_case(TD_FLOAT32, 4, 1, 500, PLAIN, true, 1000);
}

/* One below, at and above: blocks of a row, chunks, partial sums, rows added in
 * float, columns of a chunk. */
static void layer_straddles(void)
{
    for (int which = -1; which <= 1; which++)
        for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++) {
            layer_case(t, 2, 1, TD_NORM_BLOCK + which, t % 2 ? PLAIN : GAPPED, which, 0.5);
            layer_case(t, TD_NORM_PARTIALS + which, 1, TD_NORM_COLUMNS + which, PLAIN, true, 0);
            layer_case(t, 2 * TD_NORM_FLUSH + which, 3, 7, TURNED, true, 0);
            layer_case(t, 3, 1, TD_LANES + which, STEPPED, false, 0);
        }
    layer_case(TD_FLOAT32, 3, 1, TD_NORM_CHUNK + 1, PLAIN, true, 0);
}

/* Each of weight and bias alone, and gradients without some of them. */
static void layer_parts(void)
{
    for (int t = TD_FLOAT32; t <= TD_FLOAT64; t++)
        for (int part = 0; part < 4; part++)
            for (int mask = 0; mask < 8; mask++) {
                int64_t n = 37;
                tt x = TT(t, 4, n), w = TTL(t, STEPPED, n), b = TT(t, n), y = TT(t, 4, n), m = TT(t, 4), r = TT(t, 4);
                tt g = TT(t, 4, n), dx = TT(t, 4, n), dw = TT(t, n), db = TT(t, n);
                tt_normal(&x, 1, 1), tt_normal(&w, 1, 0.5), tt_normal(&b, 0, 1), tt_normal(&g, 0, 1);
                CALL(c, 3, &x, part & 1 ? &w : NULL, part & 2 ? &b : NULL);
                c.out[0] = &y, c.out[1] = &m, c.out[2] = &r;
                attr_int(&c, 1), attr_float(&c, 1e-5);
                CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_layer_norm), 0);
                CALL(k, 3, &g, &x, part & 1 ? &w : NULL, &m, &r);
                k.out[0] = &dx, k.out[1] = &dw, k.out[2] = &db;
                attr_int(&k, 1), attr_int(&k, mask);
                CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_layer_norm_backward), 0);
                int bad = 0;
                for (int64_t i = 0; i < 4 * n; i++) {
                    double h = (tt_get(&x, i) - tt_get(&m, i / n)) * tt_get(&r, i / n),
                           wi = part & 1 ? tt_get(&w, i % n) : 1;
                    bad += far(&y, i, h * wi + (part & 2 ? tt_get(&b, i % n) : 0), 2);
                    double c1 = 0, c2 = 0;
                    for (int64_t j = i / n * n; j < (i / n + 1) * n; j++) {
                        double gw = tt_get(&g, j) * (part & 1 ? tt_get(&w, j % n) : 1);
                        c1 += gw * (tt_get(&x, j) - tt_get(&m, i / n)) * tt_get(&r, i / n), c2 += gw;
                    }
                    double want = tt_get(&r, i / n) * (tt_get(&g, i) * wi - c2 / (double)n - h * c1 / (double)n);
                    bad += mask & 1 ? far(&dx, i, want, 4) : tt_get(&dx, i) != 0;
                }
                for (int64_t j = 0; j < n; j++) {
                    double sw = 0, sb = 0;
                    for (int64_t i = j; i < 4 * n; i += n)
                        sw += tt_get(&g, i) * (tt_get(&x, i) - tt_get(&m, i / n)) * tt_get(&r, i / n),
                            sb += tt_get(&g, i);
                    bad += (mask & 2 ? far(&dw, j, sw, 4) : tt_get(&dw, j) != 0) +
                           (mask & 4 ? far(&db, j, sb, 4) : tt_get(&db, j) != 0);
                }
                CU_ASSERT_EQUAL(bad, 0);
                tt_free(&x), tt_free(&w), tt_free(&b), tt_free(&y), tt_free(&m), tt_free(&r), tt_free(&g), tt_free(&dx);
                tt_free(&dw), tt_free(&db);
            }
}

/* The largest distance of y from (x - mean) rstd, in float64 from the floats
 * that are there. */
static double off_by(const float *x, const float *y, int64_t n)
{
    double mean = 0, var = 0, most = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean);
    double rstd = 1 / sqrt(var / (double)n + 1e-5);
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(y[i] - (x[i] - mean) * rstd));
    return most;
}

/* Rows of millions, and means far from zero, cost no digits: results are as
 * exact as floats of their size are. */
static void long_rows(void)
{
    static const double means[] = {0, 100, 10000};
    for (int i = 0; i < 3; i++) {
        int64_t n = (1 << 20) + 77;
        tt x = TT(TD_FLOAT32, 1, n), y = TT(TD_FLOAT32, 1, n), m = TT(TD_FLOAT32, 1), r = TT(TD_FLOAT32, 1);
        tt_normal(&x, means[i], 1);
        CALL(c, 3, &x, NULL, NULL);
        c.out[0] = &y, c.out[1] = &m, c.out[2] = &r;
        attr_int(&c, 1);
        attr_float(&c, 1e-5);
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_layer_norm), 0);
        CU_ASSERT(off_by(x.data, y.data, n) < 2e-6);
        CALL(b, 3, &x, NULL, NULL, NULL, NULL); /* one channel of as many images: a column */
        x.d = (td_desc){.shape = {n, 1}, .stride = {1, 1}, .ndim = 2, .dtype = TD_FLOAT32};
        y.d = x.d;
        b.out[0] = &y, b.out[1] = &m, b.out[2] = &r;
        attr_bool(&b, true);
        attr_float(&b, 0.1);
        attr_float(&b, 1e-5);
        CU_ASSERT_EQUAL(tcall_run(&b, td_cpu_plan_batch_norm), 0);
        CU_ASSERT(off_by(x.data, y.data, n) < 2e-6);
        tt_free(&x), tt_free(&y), tt_free(&m), tt_free(&r);
    }
}

/* The gradients, over long rows and over many of them: sums of a million
 * products, all of one sign. */
static void long_gradients(void)
{
    static const int64_t shapes[][2] = {{1, 1 << 20}, {1 << 17, 8}};
    for (int i = 0; i < 2; i++) {
        int64_t rows = shapes[i][0], n = shapes[i][1];
        tt x = TT(TD_FLOAT32, rows, n), g = TT(TD_FLOAT32, rows, n), m = TT(TD_FLOAT32, rows), r = TT(TD_FLOAT32, rows);
        tt dx = TT(TD_FLOAT32, rows, n), dw = TT(TD_FLOAT32, n), db = TT(TD_FLOAT32, n);
        tt_normal(&x, 1, 0.5);
        tt_normal(&g, 0.7, 0.2);
        for (int64_t j = 0; j < rows; j++) tt_set(&r, j, 1);
        CALL(k, 3, &g, &x, NULL, &m, &r);
        k.out[0] = &dx, k.out[1] = &dw, k.out[2] = &db;
        attr_int(&k, 1);
        attr_int(&k, 7);
        CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_layer_norm_backward), 0);
        const float *xv = x.data, *gv = g.data, *dxv = dx.data;
        double sum = 0, dot = 0, w = 0, b = 0, most = 0;
        for (int64_t j = 0; j < n; j++) sum += gv[j], dot += (double)gv[j] * xv[j];
        for (int64_t j = 0; j < n; j++)
            most = fmax(most, fabs(dxv[j] - (gv[j] - sum / (double)n - xv[j] * dot / (double)n)));
        for (int64_t j = 0; j < rows; j++) w += (double)gv[j * n + 3] * xv[j * n + 3], b += gv[j * n + 3];
        CU_ASSERT(most < 5e-7);
        CU_ASSERT(fabs(tt_get(&dw, 3) - w) < 3e-7 * fabs(w) && fabs(tt_get(&db, 3) - b) < 3e-7 * fabs(b));
        tt_free(&x), tt_free(&g), tt_free(&m), tt_free(&r), tt_free(&dx), tt_free(&dw), tt_free(&db);
    }
}

/* Gradients that are not wanted are [0] and stay untouched. */
static void layer_mask(void)
{
    for (int mask = 0; mask < 8; mask++) {
        tt x = TT(TD_FLOAT32, 6, 10), g = TT(TD_FLOAT32, 6, 10), m = TT(TD_FLOAT32, 6, 1), r = TT(TD_FLOAT32, 6, 1);
        tt dx = mask & 1 ? TT(TD_FLOAT32, 6, 10) : TT(TD_FLOAT32, 0);
        tt dw = mask & 2 ? TT(TD_FLOAT32, 10) : TT(TD_FLOAT32, 0),
           db = mask & 4 ? TT(TD_FLOAT32, 10) : TT(TD_FLOAT32, 0);
        tt_normal(&x, 0, 1);
        tt_normal(&g, 0, 1);
        for (int i = 0; i < 6; i++) tt_set(&r, i, 1);
        CALL(k, 3, &g, &x, NULL, &m, &r);
        k.out[0] = &dx, k.out[1] = &dw, k.out[2] = &db;
        attr_int(&k, 1);
        attr_int(&k, mask);
        CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_layer_norm_backward), 0);
        double want = 0;
        for (int i = 0; i < 6; i++) want += tt_get(&g, i * 10 + 3);
        if (mask & 4) CU_ASSERT(near(tt_get(&db, 3), want, 1e-6, 4));
        tt_free(&x), tt_free(&g), tt_free(&m), tt_free(&r), tt_free(&dx), tt_free(&dw), tt_free(&db);
    }
}

/* ---- batch norm ---- */

enum { LAST = BOX_LAYOUTS }; /* S as two columns, whose channels lie last */

static tt images(td_dtype t, int64_t N, int64_t C, int64_t S, int layout)
{
    if (layout != LAST) return S ? TTL(t, layout, N, C, S) : TTL(t, layout, N, C);
    tt x = TT(t, N, C, S / 2, 2);
    td_desc_pack_channels_last(&x.d);
    return x;
}

static void batch_case(td_dtype t, int64_t N, int64_t C, int64_t S, int layout, bool training, bool affine, double mean)
{
    td_dtype st = stat_dtype(t);
    int dense = layout == LAST ? LAST : PLAIN;
    tt x = images(t, N, C, S, layout), y = images(t, N, C, S, dense), g = images(t, N, C, S, dense),
       dx = images(t, N, C, S, dense);
    int64_t P = S ? S : 1, n = N * P;
    tt w = TT(st, C), b = TT(st, C), rm = TT(st, C), rv = TT(st, C), m = TT(st, C), r = TT(st, C), dw = TT(st, C),
       db = TT(st, C);
    tt_normal(&x, mean, 1);
    tt_normal(&w, 1, 0.5);
    tt_normal(&b, 0, 1);
    tt_normal(&rm, mean, 0.3);
    for (int64_t i = 0; i < C; i++) tt_set(&rv, i, 0.5 + 0.1 * (double)i);
    tt rm0 = tt_like(&rm, st), rv0 = tt_like(&rv, st);
    memcpy(rm0.data, rm.data, rm.bytes);
    memcpy(rv0.data, rv.data, rv.bytes);
    CALL(c, 3, &x, affine ? &w : NULL, affine ? &b : NULL, &rm, &rv);
    c.out[0] = &y, c.out[1] = &m, c.out[2] = &r;
    attr_bool(&c, training);
    attr_float(&c, 0.1);
    attr_float(&c, 1e-5);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_batch_norm), 0);
    tt_normal(&g, 0.2, 1);
    CALL(k, 3, &g, &x, affine ? &w : NULL, &m, &r);
    k.out[0] = &dx, k.out[1] = &dw, k.out[2] = &db;
    attr_bool(&k, training);
    attr_int(&k, 7);
    CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_batch_norm_backward), 0);
    double *v = malloc(sizeof(double) * (size_t)n);
    int bad = 0;
    for (int64_t ch = 0; ch < C; ch++) {
        double mu, rs, sum = 0, dot = 0, sc = affine ? tt_get(&w, ch) : 1, sh = affine ? tt_get(&b, ch) : 0;
        for (int64_t i = 0; i < n; i++) v[i] = tt_get(&x, (i / P * C + ch) * P + i % P);
        moments(v, n, 1e-5, &mu, &rs);
        double var = 1 / (rs * rs) - 1e-5;
        if (training) {
            bad += far(&rm, ch, 0.9 * tt_get(&rm0, ch) + 0.1 * mu, mu);
            bad +=
                far(&rv, ch, 0.9 * tt_get(&rv0, ch) + 0.1 * var * (double)n / (double)(n - 1), 1 + fabs(mean) * 0.01);
        } else {
            bad += tt_get(&rm, ch) != tt_get(&rm0, ch) || tt_get(&rv, ch) != tt_get(&rv0, ch);
            mu = tt_get(&rm0, ch);
            rs = 1 / sqrt(tt_get(&rv0, ch) + 1e-5);
        }
        bad += far(&m, ch, mu, mu) + far(&r, ch, rs, rs * (1 + fabs(mean) * 0.01));
        for (int64_t i = 0; i < n; i++) {
            int64_t at = (i / P * C + ch) * P + i % P;
            bad += far(&y, at, (v[i] - mu) * rs * sc + sh, 3 + fabs(mean) * 0.02);
            sum += tt_get(&g, at);
            dot += tt_get(&g, at) * (v[i] - mu);
        }
        bad += far(&db, ch, sum, (double)n * 0.3) + far(&dw, ch, dot * rs, (double)n * 0.3 * (1 + fabs(mean) * 0.01));
        for (int64_t i = 0; i < n; i++) {
            int64_t at = (i / P * C + ch) * P + i % P;
            double want = tt_get(&g, at);
            if (training) want -= sum / (double)n + (v[i] - mu) * rs * rs * dot / (double)n;
            bad += far(&dx, at, want * rs * sc, rs * (2 + fabs(mean) * 0.02));
        }
    }
    CU_ASSERT_EQUAL(bad, 0);
    if (bad)
        printf("batch_norm %s %d %d %d layout %d train %d: %d\n", td_dtype_name(t), (int)N, (int)C, (int)S, layout,
               training, bad);
    free(v);
    tt_free(&x), tt_free(&y), tt_free(&g), tt_free(&dx), tt_free(&w), tt_free(&b), tt_free(&rm), tt_free(&rv),
        tt_free(&m);
    tt_free(&r), tt_free(&dw), tt_free(&db), tt_free(&rm0), tt_free(&rv0);
}

static void batch_all(void)
{
    for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++)
        for (int l = 0; l < LAYOUTS; l++)
            for (int way = 0; way < 4; way++) {
                batch_case(t, 4, 5, 13, l, way & 1, way & 2, 0);
                batch_case(t, 11, 3, 0, l, way & 1, way & 2, 1);
                batch_case(t, 1, 3, 8, l, way & 1, way & 2, 0);
                if (!(way & 1)) batch_case(t, 1, 3, 0, l, false, way & 2, 0); /* one element a channel */
            }
    batch_case(TD_FLOAT32, 2, 20, 9000, PLAIN, true, true, 0); /* several segments and chunks */
    batch_case(TD_FLOAT32, 600, 300, 0, PLAIN, true, true, 0);
}

static void batch_straddles(void)
{
    for (int which = -1; which <= 1; which++)
        for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++) {
            batch_case(t, 2, 3, TD_BATCH_SEGMENT + which, t % 2 ? PLAIN : TURNED, true, which, 0);
            batch_case(t, TD_BATCH_SEGMENT + which, 2, 0, t % 2 ? PLAIN : GAPPED, true, true, 0);
            batch_case(t, 1, 5, TD_LANES + which, SHUFFLED, which, true, 1);
        }
    for (int which = -2; which <= 2; which += 2)
        for (int t = TD_FLOAT32; t <= TD_FLOAT64; t++) {
            batch_case(t, 1, 3, TD_BATCH_PLACES + which, LAST, true, which, 1);
            batch_case(t, 3, 17, TD_BATCH_PLACES + which, LAST, which, true, 0);
            batch_case(t, 1, 1, (int64_t)TD_BATCH_PLACES * TD_BATCH_PARTS + which, LAST, true, true, 1);
        }
    batch_case(TD_FLOAT32, 1, 3, TD_BATCH_CHUNK + 1, PLAIN, true, true, 0);
    batch_case(TD_FLOAT32, 1, 3, TD_BATCH_CHUNK / 2, PLAIN, true, true, 0);
}

/* Each gradient alone, with and without statistics of the batch: what is not
 * wanted stays. */
static void batch_masks(void)
{
    for (int mask = 0; mask < 8; mask++)
        for (int training = 0; training < 2; training++) {
            tt x = TT(TD_FLOAT32, 5, 2), g = TT(TD_FLOAT32, 5, 2), m = TT(TD_FLOAT32, 2), r = TT(TD_FLOAT32, 2);
            tt dx = TT(TD_FLOAT32, 5, 2), dw = TT(TD_FLOAT32, 2), db = TT(TD_FLOAT32, 2);
            tt_normal(&x, 0, 1), tt_normal(&g, 0.5, 1);
            tt_set(&r, 0, 1), tt_set(&r, 1, 2);
            CALL(k, 3, &g, &x, NULL, &m, &r);
            k.out[0] = &dx, k.out[1] = &dw, k.out[2] = &db;
            attr_bool(&k, training), attr_int(&k, mask);
            CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_batch_norm_backward), 0);
            double sum = 0, dot = 0;
            for (int i = 1; i < 10; i += 2) sum += tt_get(&g, i), dot += tt_get(&g, i) * tt_get(&x, i);
            double want = training ? 2 * (tt_get(&g, 3) - sum / 5 - tt_get(&x, 3) * 4 * dot / 5) : 2 * tt_get(&g, 3);
            CU_ASSERT(near(tt_get(&dx, 3), mask & 1 ? want : 0, 1e-5, 4));
            CU_ASSERT(near(tt_get(&dw, 1), mask & 2 ? 2 * dot : 0, 1e-5, 4));
            CU_ASSERT(near(tt_get(&db, 1), mask & 4 ? sum : 0, 1e-5, 4));
            tt_free(&x), tt_free(&g), tt_free(&m), tt_free(&r), tt_free(&dx), tt_free(&dw), tt_free(&db);
        }
}

static void batch_large_mean(void)
{
    batch_case(TD_FLOAT64, 8, 3, 1000, PLAIN, true, true, 1e5);
    batch_case(TD_FLOAT32, 8, 3, 1000, PLAIN, true, true, 500);
}

static void batch_edges(void)
{
    tt x = TT(TD_FLOAT32, 0, 3, 4), y = TT(TD_FLOAT32, 0, 3, 4), rm = TT(TD_FLOAT32, 3), rv = TT(TD_FLOAT32, 3);
    tt m = TT(TD_FLOAT32, 3), r = TT(TD_FLOAT32, 3);
    tt_set(&rm, 1, 2);
    CALL(c, 3, &x, NULL, NULL, &rm, &rv);
    c.out[0] = &y, c.out[1] = &m, c.out[2] = &r;
    attr_bool(&c, true);
    attr_float(&c, 0.1);
    attr_float(&c, 1e-5);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_batch_norm), 0); /* a batch of 0 passes and moves nothing */
    CU_ASSERT_EQUAL(tt_get(&rm, 1), 2);
    c.in[3] = c.in[4] = NULL;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_batch_norm), 0);
    c.attrs.at[0].i = false;
    tcall_refused(&c, td_cpu_plan_batch_norm, TD_E_INVALID);
    tt none = TT(TD_FLOAT32, 2, 0, 4), out = TT(TD_FLOAT32, 2, 0, 4), stat = TT(TD_FLOAT32, 0);
    CALL(k, 3, &none, NULL, NULL, &stat, &stat); /* no channels */
    k.out[0] = &out, k.out[1] = &stat, k.out[2] = &stat;
    attr_bool(&k, true);
    attr_float(&k, 0.1);
    attr_float(&k, 1e-5);
    CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_batch_norm), 0);
    tt_free(&none), tt_free(&out), tt_free(&stat);
    tt_free(&x), tt_free(&y), tt_free(&rm), tt_free(&rv), tt_free(&m), tt_free(&r);
}

TD_CUNIT_MAIN("kernels_norm", {"layer_norm", layer_all}, {"layer_norm: large mean", layer_large_mean},
              {"layer_norm: gradient mask", layer_mask}, {"layer_norm: straddles", layer_straddles},
              {"layer_norm: parts", layer_parts}, {"batch_norm: straddles", batch_straddles},
              {"batch_norm: masks", batch_masks}, {"long rows", long_rows}, {"gradients of long rows", long_gradients},
              {"batch_norm", batch_all}, {"batch_norm: large mean", batch_large_mean},
              {"batch_norm: edges", batch_edges})
