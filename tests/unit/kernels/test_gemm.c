/* Matrix products against loops in double: every dtype, layouts, sizes around
 * the tiles, sizes of 0, alpha and beta. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/products/gemm_packed.h"
#include "daemon/kernels/cpu/isa.h"
#include "kernel_harness.h"
#include <complex.h>

static double complex zget(const tt *t, int64_t i)
{
    td_scalar s = tt_scalar_at(t, i);
    return s.kind == TD_S_COMPLEX ? __builtin_complex(s.re, s.im) : __builtin_complex(tt_get(t, i), 0.0);
}

/* Wrapped to the integer dtype, as the kernels do. */
static double wrapped(td_dtype dtype, double v)
{
    int64_t i = (int64_t)v;
    switch (dtype) {
    case TD_UINT8: return (uint8_t)i;
    case TD_INT8: return (int8_t)i;
    case TD_INT16: return (int16_t)i;
    case TD_UINT16: return (uint16_t)i;
    case TD_UINT32: return (uint32_t)i;
    default: return (double)i;
    }
}

/* out[b] = beta c + alpha x[b] y[b] for shapes m x k, k x n; counts mismatches.
 */
static int mismatches(const tt *out, const tt *c, const tt *x, const tt *y, int64_t batch, int64_t m, int64_t n,
                      int64_t k, double alpha, double beta)
{
    int bad = 0;
    td_dtype t = out->d.dtype;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double complex sum = 0;
                double scale = 0;
                for (int64_t p = 0; p < k; p++) {
                    double complex v = zget(x, (b * m + i) * k + p) * zget(y, (b * k + p) * n + j);
                    sum += v;
                    scale += cabs(v);
                }
                sum *= alpha;
                if (c) sum += beta * tt_get(c, c->d.ndim == 1 ? j : i * n + j);
                double complex got = zget(out, (b * m + i) * n + j);
                if (td_dtype_is_integral(t)) bad += creal(got) != wrapped(t, creal(sum));
                else bad += !(cabs(got - sum) <= tolerance(t) * (scale * fabs(alpha) + cabs(sum) + 1));
            }
    return bad;
}

/* The same of one product, with complex c. */
static int mismatches_plus(const tt *out, const tt *c, const tt *x, const tt *y, int64_t m, int64_t n, int64_t k,
                           double alpha, double beta)
{
    int bad = 0;
    for (int64_t i = 0; i < m * n; i++) {
        double complex sum = 0;
        for (int64_t p = 0; p < k; p++) sum += zget(x, i / n * k + p) * zget(y, p * n + i % n);
        sum = alpha * sum + (c ? beta * zget(c, i) : 0);
        double complex got = zget(out, i);
        if (td_dtype_is_integral(out->d.dtype)) bad += creal(got) != wrapped(out->d.dtype, creal(sum));
        else bad += !(cabs(got - sum) <= 1e-4 * (cabs(sum) + 10));
    }
    return bad;
}

static void mm_case(td_dtype t, int64_t m, int64_t n, int64_t k, int lx, int ly)
{
    tt x = TTL(t, lx, m, k), y = TTL(t, ly, k, n), out = TT(t, m, n);
    tt_random(&x);
    tt_random(&y);
    CALL(c, 1, &x, &y);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_mm), 0);
    int bad = mismatches(&out, NULL, &x, &y, 1, m, n, k, 1, 0);
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("mm %s %dx%dx%d layouts %d %d: %d wrong\n", td_dtype_name(t), (int)m, (int)n, (int)k, lx, ly, bad);
    tt_free(&x), tt_free(&y), tt_free(&out);
}

static void mm_all(void)
{
    for (int t = TD_UINT8; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS * LAYOUTS; l++)
            mm_case(t, 1 + rnd_below(20), 1 + rnd_below(20), 1 + rnd_below(40), l / 4, l % 4);
    for (int t = TD_FLOAT16; t <= TD_COMPLEX128; t++) {
        mm_case(t, 150, 70, 130, PLAIN, TURNED);
        mm_case(t, 1, 33, 50, PLAIN, PLAIN);
        mm_case(t, 1, 33, 50, TURNED, TURNED);
        mm_case(t, 40, 1, 50, PLAIN, STEPPED);
        mm_case(t, 40, 1, 50, TURNED, PLAIN);
    }
}

static void mm_large(void)
{
    mm_case(TD_FLOAT32, 300, 310, 120, PLAIN, PLAIN); /* oneDNN, several tiles */
    mm_case(TD_FLOAT32, 140, 130, 120, TURNED, TURNED);
    mm_case(TD_FLOAT32, 64, 128, 784, PLAIN, TURNED);
    mm_case(TD_BFLOAT16, 140, 130, 120, TURNED, PLAIN);
    mm_case(TD_FLOAT64, 140, 130, 120, STEPPED, PLAIN);
}

/* Sizes beside those by which tiles and libraries are chosen; of large results some elements, the corners among them.
 */
static void mm_sampled(td_dtype t, int64_t m, int64_t n, int64_t k, int lx, int ly)
{
    tt x = TTL(t, lx, m, k), y = TTL(t, ly, k, n), out = TT(t, m, n);
    for (int i = 0; i < 2; i++) { /* as box_numbers(), but quick */
        tt *v = i ? &y : &x;
        for (int64_t j = 0, count = tt_numel(v); j < count; j++) tt_set(v, j, (double)(j * 7919 % 33 - 16) / 8);
    }
    CALL(c, 1, &x, &y);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_once(&c, td_cpu_plan_mm, (int)rnd_below(RUNNINGS)), 0);
    int bad = 0;
    for (int s = 0; s < 60; s++) {
        int64_t i = s & 1 ? rnd_below(m) : s & 2 ? m - 1 : 0, j = s & 1 ? rnd_below(n) : s & 4 ? n - 1 : 0;
        double sum = 0, scale = 0;
        for (int64_t p = 0; p < k; p++) {
            double v = tt_get(&x, i * k + p) * tt_get(&y, p * n + j);
            sum += v, scale += fabs(v);
        }
        bad += !near(tt_get(&out, i * n + j), sum, tolerance(t), scale);
    }
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("mm %s %dx%dx%d layouts %d %d: %d wrong\n", td_dtype_name(t), (int)m, (int)n, (int)k, lx, ly, bad);
    tt_free(&x), tt_free(&y), tt_free(&out);
}

static void mm_straddles(void)
{
    for (int w = -1; w <= 1; w++) {
        int lx = (int)rnd_below(LAYOUTS), ly = (int)rnd_below(LAYOUTS);
        for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++) {
            mm_sampled(t, TD_GEMM_TILE_LEAST + w, 40, 30, lx, ly);
            mm_sampled(t, TD_GEMM_TILE_ROWS + w, TD_GEMM_TILE_NARROW + w, 33, lx, ly);
            mm_sampled(t, 40, 5, TD_GEMM_PACK / 40 + w, STEPPED, STEPPED);
            mm_sampled(t, 100, 100, TD_GEMM_DNNL / 10000 + w, lx, ly);
            mm_sampled(t, 2 * TD_GEMM_TILE_LEAST + w, 61 + w, TD_GEMM_TURN_STEP, lx, TURNED);
            mm_sampled(t, 70, TD_GEMM_TURN_COLS + w, 240, lx, TURNED);
            mm_sampled(t, 40, TD_GEMM_TURN_COLS + 22, TD_GEMM_TURN_STEP + w, lx, TURNED);
            mm_sampled(t, TD_GEMM_TURN_TILES * TD_GEMM_TILE_ROWS + w, TD_GEMM_TURN_COLS + 22, 121, lx, TURNED);
        }
        mm_sampled(TD_BFLOAT16, 3, TD_GEMM_TILE_HALF_COLS + w, 9, lx, ly);
        mm_sampled(TD_FLOAT32, 2, TD_GEMM_TILE_COLS + w, 1, PLAIN, PLAIN);
        mm_sampled(TD_FLOAT32, 130, 3000, 2000 + w, PLAIN, ly); /* wide strips */
        mm_sampled(TD_INT32, 5, TD_GEMM_REF_COLS + w, 7, lx, ly);
        int64_t deep = TD_PACKED_LARGE / TD_PACKED_SIDE / TD_PACKED_SIDE + TD_PACKED_K;
        mm_sampled(TD_FLOAT32, TD_PACKED_SIDE + w, TD_PACKED_SIDE + 3, deep, PLAIN, PLAIN);
        mm_sampled(TD_FLOAT32, TD_PACKED_SIDE + 3, TD_PACKED_SIDE + w, deep, PLAIN, TURNED);
        mm_sampled(TD_FLOAT32, 1500, TD_PACKED_LARGE / 1500 / TD_PACKED_DEPTH + 50, TD_PACKED_DEPTH + w, PLAIN, PLAIN);
        mm_sampled(TD_FLOAT32, 640, 640, TD_PACKED_K + w, PLAIN, TURNED);
        mm_sampled(TD_FLOAT32, 600, 600, TD_PACKED_LARGE / 360000 + w, GAPPED, PLAIN);
        mm_sampled(TD_FLOAT16, 640, 640, TD_PACKED_K + w, PLAIN, PLAIN);
    }
}

/* Rows and columns of all small sizes, at the end of what may be read. */
static void vectors(void)
{
    for (int t = TD_FLOAT32; t <= TD_COMPLEX128; t++)
        for (int64_t n = 1; n < 20; n++)
            for (int64_t k = 1; k < 20; k += 1 + n % 3)
                for (int l = 0; l < LAYOUTS; l++) {
                    mm_case(t, 1, n, k, l, (int)rnd_below(LAYOUTS));
                    mm_case(t, n, 1, k, (int)rnd_below(LAYOUTS), l);
                }
}

/* The plain product, which takes the libraries' place where they are not: every dtype, strides, alpha and beta. */
static void plain_products(void)
{
    for (int t = TD_UINT8; t < TD_DTYPE_COUNT; t++) {
        if (td_acc_dtype(t) != t) continue; /* halves are converted before */
        for (int way = 0; way < 8; way++) {
            int64_t m = 5, n = TD_GEMM_REF_COLS + way - 3, k = 7;
            tt x = TTL(t, way & 1 ? TURNED : PLAIN, m, k), y = TTL(t, way & 2 ? TURNED : PLAIN, k, n), c = TT(t, m, n),
               out = TT(t, m, n);
            tt_random(&x), tt_random(&y), tt_random(&c);
            for (int64_t i = 0; i < m * n; i++) memcpy(tt_at(&out, i), tt_at(&c, i), td_dtype_size((td_dtype)t));
            double alpha = way & 4 ? 2 : 1, beta = way & 4 ? 3 : 0;
            bool whole = way & 2;
            td_gemm_ref g = {.dtype = (unsigned)t,
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = x.data,
                             .b = y.data,
                             .c = out.data,
                             .ars = x.d.stride[0],
                             .acs = x.d.stride[1],
                             .brs = y.d.stride[0],
                             .bcs = y.d.stride[1],
                             .ldc = n,
                             .alpha = whole ? td_int((int64_t)alpha) : td_float(alpha),
                             .beta = !whole                   ? td_float(beta)
                                     : td_dtype_is_complex(t) ? td_complex(beta, 0)
                                                              : td_int((int64_t)beta)};
            td_gemm_reference(&g);
            CU_ASSERT_EQUAL(mismatches_plus(&out, beta != 0 ? &c : NULL, &x, &y, m, n, k, alpha, beta), 0);
            tt_free(&x), tt_free(&y), tt_free(&c), tt_free(&out);
        }
    }
}

static void mm_zero(void)
{
    mm_case(TD_FLOAT32, 0, 5, 3, PLAIN, PLAIN);
    mm_case(TD_FLOAT32, 5, 0, 3, PLAIN, PLAIN);
    mm_case(TD_FLOAT32, 5, 4, 0, PLAIN, PLAIN);
    mm_case(TD_INT32, 5, 4, 0, PLAIN, TURNED);
    tt x = TT(TD_FLOAT32, 3, 0), y = TT(TD_FLOAT32, 0, 2), out = TT(TD_FLOAT32, 3, 2);
    for (int i = 0; i < 6; i++) tt_set(&out, i, 7);
    CALL(c, 1, &x, &y);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_mm), 0);
    for (int i = 0; i < 6; i++) CU_ASSERT_EQUAL(tt_get(&out, i), 0);
    tt b = TT(TD_BOOL, 2, 2), bo = TT(TD_BOOL, 2, 2);
    CALL(cb, 1, &b, &b);
    cb.out[0] = &bo;
    tcall_refused(&cb, td_cpu_plan_mm, TD_E_UNSUPPORTED);
    tt_free(&x), tt_free(&y), tt_free(&out), tt_free(&b), tt_free(&bo);
}

static void expanded(void)
{
    tt x = TT(TD_FLOAT32, 1, 6), y = TT(TD_FLOAT32, 6, 5), out = TT(TD_FLOAT32, 4, 5);
    tt_random(&x);
    tt_random(&y);
    x.d.shape[0] = 4; /* one row, four times */
    x.d.stride[0] = 0;
    CALL(c, 1, &x, &y);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_mm), 0);
    CU_ASSERT_EQUAL(mismatches(&out, NULL, &x, &y, 1, 4, 5, 6, 1, 0), 0);
    tt_free(&x), tt_free(&y), tt_free(&out);
}

static void bmm_case(td_dtype t, int64_t b, int64_t m, int64_t n, int64_t k, int lx, int ly)
{
    tt x = TTL(t, lx, b, m, k), y = TTL(t, ly, b, k, n), out = TT(t, b, m, n);
    tt_random(&x);
    tt_random(&y);
    CALL(c, 1, &x, &y);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_bmm), 0);
    int bad = mismatches(&out, NULL, &x, &y, b, m, n, k, 1, 0);
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("bmm %s layouts %d %d: %d wrong\n", td_dtype_name(t), lx, ly, bad);
    tt_free(&x), tt_free(&y), tt_free(&out);
}

static void bmm_all(void)
{
    for (int t = TD_UINT8; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS; l++) bmm_case(t, 1 + rnd_below(6), 9, 11, 13, l, (l + 1) % LAYOUTS);
    bmm_case(TD_FLOAT32, 40, 20, 20, 20, PLAIN, PLAIN);
    bmm_case(TD_FLOAT32, 3, 140, 100, 90, PLAIN, SHUFFLED);
    bmm_case(TD_FLOAT32, 0, 3, 4, 5, PLAIN, PLAIN);
    bmm_case(TD_FLOAT16, 3, 4, 5, 0, PLAIN, PLAIN);
}

/* ---- products that are packed */

static td_gemm_ref reference_of(const tt *x, const tt *y, tt *c, double alpha, double beta)
{
    return (td_gemm_ref){.dtype = c->d.dtype,
                         .m = x->d.shape[0],
                         .n = y->d.shape[1],
                         .k = x->d.shape[1],
                         .a = x->data,
                         .b = y->data,
                         .c = c->data,
                         .ars = x->d.stride[0],
                         .acs = x->d.stride[1],
                         .brs = y->d.stride[0],
                         .bcs = y->d.stride[1],
                         .ldc = y->d.shape[1],
                         .alpha = td_float(alpha),
                         .beta = td_float(beta)};
}

/* The same numbers as contiguous floats, which the plain kernel reads. */
static tt floats(const tt *x)
{
    tt f = TT(TD_FLOAT32, x->d.shape[0], x->d.shape[1]);
    for (int64_t i = 0; i < x->d.shape[0] * x->d.shape[1]; i++) tt_set(&f, i, tt_get(x, i));
    return f;
}

/* addmm by packing, however small: in are c, x, y; x may have a batch, or rows
 * of several dimensions. */
static int plan_packed(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[1].desc, *y = k->in[2].desc;
    int last = x->ndim - 1, batch = y->ndim == 3;
    td_gemm g = {.dtype = x->dtype, .acc = x->dtype >= TD_FLOAT32 ? x->dtype : TD_FLOAT32};
    g.batch = batch ? x->shape[0] : 1;
    g.m = td_desc_numel(x) / x->shape[last] / g.batch, g.k = x->shape[last], g.n = y->shape[y->ndim - 1];
    g.a = (td_gemm_mat){k->in[1].data, x->stride[last - 1], x->stride[last], batch ? x->stride[0] : 0, NULL, 0, 0};
    g.b = (td_gemm_mat){k->in[2].data, y->stride[batch], y->stride[batch + 1], batch ? y->stride[0] : 0, NULL, 0, 0};
    if (last == 2 && !batch) g.a.rows = x;
    if (k->in[0].desc) g.d = (td_gemm_mat){.data = k->in[0].data, .rs = g.n, .cs = 1}, g.has_d = 1;
    g.beta = k->attrs->at[0].s, g.alpha = k->attrs->at[1].s;
    g.c = k->out[0].data;
    (void)e;
    td_gemm_plan_packed(k, &g);
    return 0;
}
static bool can_pack(void)
{
    return td_isa_level() > 0;
}

/* beta c + alpha x y against the plain kernel; c is a matrix, and its values
 * are what the reference begins with. */
static void packed_case(td_dtype t, int64_t m, int64_t n, int64_t k, int lx, int ly, double alpha, double beta)
{
    tt x = TTL(t, lx, m, k), y = TTL(t, ly, k, n), c0 = TT(t, m, n), out = TT(t, m, n);
    tt_random(&x), tt_random(&y), tt_random(&c0);
    tt fx = floats(&x), fy = floats(&y), want = floats(&c0);
    CALL(c, 1, &c0, &x, &y);
    c.out[0] = &out;
    attr_scalar(&c, td_float(beta));
    attr_scalar(&c, td_float(alpha));
    CU_ASSERT_EQUAL(tcall_run(&c, plan_packed), 0);
    td_gemm_ref r = reference_of(&fx, &fy, &want, alpha, beta);
    td_gemm_reference(&r);
    int bad = 0;
    for (int64_t i = 0; i < m * n; i++)
        bad += !(fabs(tt_get(&out, i) - tt_get(&want, i)) <= tolerance(t) * ((double)k + fabs(tt_get(&want, i))));
    CU_ASSERT_EQUAL(bad, 0);
    if (bad)
        printf("packed %s %dx%dx%d layouts %d %d: %d wrong\n", td_dtype_name(t), (int)m, (int)n, (int)k, lx, ly, bad);
    tt_free(&x), tt_free(&y), tt_free(&c0), tt_free(&out), tt_free(&fx), tt_free(&fy), tt_free(&want);
}

static void packed(void)
{
    for (int l = 0; can_pack() && l < LAYOUTS * LAYOUTS; l++)
        for (int t = TD_FLOAT16; t <= TD_FLOAT32; t++) {
            packed_case(t, 1 + rnd_below(90), 1 + rnd_below(130), 1 + rnd_below(90), l / LAYOUTS, l % LAYOUTS, 1, 1);
            packed_case(t, 48, 64, 600, l / LAYOUTS, l % LAYOUTS, 0.5, -2);
        }
    if (can_pack()) packed_case(TD_FLOAT32, 200, 270, 2000, PLAIN, PLAIN, -1, 1); /* several blocks, deep */
}

static void packed_beta_0(void)
{
    if (!can_pack()) return;
    tt x = TT(TD_FLOAT32, 40, 600), y = TT(TD_FLOAT32, 600, 50), out = TT(TD_FLOAT32, 40, 50);
    tt_random(&x), tt_random(&y);
    for (int i = 0; i < 40 * 50; i++) tt_set(&out, i, NAN);
    CALL(c, 1, NULL, &x, &y);
    c.out[0] = &out;
    attr_scalar(&c, td_float(0));
    attr_scalar(&c, td_float(1));
    CU_ASSERT_EQUAL(tcall_run(&c, plan_packed), 0);
    CU_ASSERT_EQUAL(mismatches(&out, NULL, &x, &y, 1, 40, 50, 600, 1, 0), 0);
    tt_free(&x), tt_free(&y), tt_free(&out);
}

/* A batch with one matrix for all, and rows that are several dimensions. */
static void packed_others(void)
{
    for (int i = 0; can_pack() && i < 2; i++) {
        tt x = TTL(TD_FLOAT32, SHUFFLED, 3, 31, 70), y = i ? TT(TD_FLOAT32, 70, 65) : TT(TD_FLOAT32, 1, 70, 65);
        tt out = TT(TD_FLOAT32, 3, 31, 65);
        tt_random(&x), tt_random(&y);
        if (!i) y.d.shape[0] = 3, y.d.stride[0] = 0;
        CALL(c, 1, NULL, &x, &y);
        c.out[0] = &out;
        attr_scalar(&c, td_float(0));
        attr_scalar(&c, td_float(1));
        CU_ASSERT_EQUAL(tcall_run(&c, plan_packed), 0);
        if (i) y.d = (td_desc){.dtype = TD_FLOAT32, .ndim = 3, .shape = {3, 70, 65}, .stride = {0, 65, 1}};
        CU_ASSERT_EQUAL(mismatches(&out, NULL, &x, &y, 3, 31, 65, 70, 1, 0), 0);
        tt_free(&x), tt_free(&y), tt_free(&out);
    }
}

/* Every set with a tile of its own adds in the same order. Large enough for mm
 * to choose packing by itself. */
static void packed_bits(void)
{
    int best = td_isa_level();
    tt x = TT(TD_FLOAT32, 601, 590), y = TTL(TD_FLOAT32, TURNED, 590, 593), a = TT(TD_FLOAT32, 601, 593),
       b = TT(TD_FLOAT32, 601, 593);
    tt_random(&x), tt_random(&y);
    CALL(c, 1, &x, &y);
    c.out[0] = &a;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_mm), 0);
    CU_ASSERT(!can_pack() || c.k.work_bytes > (601 + 593) * 590 * sizeof(float));
    c.out[0] = &b;
    for (int level = 1; level < best; level++) {
        CU_ASSERT(td_isa_use(level));
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_mm), 0);
        CU_ASSERT_EQUAL(memcmp(a.data, b.data, 601 * 593 * sizeof(float)), 0);
    }
    td_isa_use(best);
    tt_free(&x), tt_free(&y), tt_free(&a), tt_free(&b);
}

static void addmm_case(td_dtype t, bool row, double alpha, double beta, int layout)
{
    tt x = TTL(t, layout, 37, 21), y = TT(t, 21, 19), out = TT(t, 37, 19);
    tt c0 = row ? TT(t, 19) : TTL(t, layout, 37, 19);
    tt_random(&x);
    tt_random(&y);
    tt_random(&c0);
    CALL(c, 1, &c0, &x, &y);
    c.out[0] = &out;
    attr_scalar(&c, td_float(beta));
    attr_scalar(&c, td_float(alpha));
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_addmm), 0);
    CU_ASSERT_EQUAL(mismatches(&out, &c0, &x, &y, 1, 37, 19, 21, alpha, beta), 0);
    tt_free(&x), tt_free(&y), tt_free(&out), tt_free(&c0);
}

static void addmm_all(void)
{
    for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++)
        for (int l = 0; l < LAYOUTS; l++) {
            addmm_case(t, false, 1, 1, l);
            addmm_case(t, true, 0.5, -2, l);
        }
    addmm_case(TD_INT64, true, 3, 2, PLAIN);
    addmm_case(TD_INT32, false, -1, 1, TURNED);
    /* beta 0: c is not looked at, NaN or not */
    tt c0 = TT(TD_FLOAT32, 2, 2), x = TT(TD_FLOAT32, 2, 2), out = TT(TD_FLOAT32, 2, 2);
    for (int i = 0; i < 4; i++) tt_set(&c0, i, NAN), tt_set(&x, i, i);
    CALL(c, 1, &c0, &x, &x);
    c.out[0] = &out;
    attr_scalar(&c, td_int(0));
    attr_scalar(&c, td_int(1));
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_addmm), 0);
    CU_ASSERT_EQUAL(tt_get(&out, 3), 11);
    tt_free(&x), tt_free(&out), tt_free(&c0);
}

/* linear is compared with the product written out: y = x w^T + b. */
static void linear_case(td_dtype t, int64_t rows, int64_t n, int64_t k, int layout, bool bias)
{
    tt x = TTL(t, layout, 2, rows, k), w = TTL(t, layout == TURNED ? STEPPED : PLAIN, n, k), b = TT(t, n);
    tt out = TT(t, 2, rows, n);
    tt_random(&x);
    tt_random(&w);
    tt_random(&b);
    CALL(c, 1, &x, &w, bias ? &b : NULL);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_linear), 0);
    int bad = 0;
    for (int64_t r = 0; r < 2 * rows; r++)
        for (int64_t j = 0; j < n; j++) {
            double sum = bias ? tt_get(&b, j) : 0, scale = fabs(sum);
            for (int64_t p = 0; p < k; p++) {
                double v = tt_get(&x, r * k + p) * tt_get(&w, j * k + p);
                sum += v;
                scale += fabs(v);
            }
            bad += !near(tt_get(&out, r * n + j), sum, tolerance(t), scale);
        }
    CU_ASSERT_EQUAL(bad, 0);
    tt_free(&x), tt_free(&w), tt_free(&b), tt_free(&out);
}

static void linear_all(void)
{
    for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++)
        for (int l = 0; l < LAYOUTS; l++) {
            linear_case(t, 9, 17, 23, l, true);
            linear_case(t, 1, 40, 31, l, false);
        }
    linear_case(TD_FLOAT32, 100, 120, 110, PLAIN, true);
    linear_case(TD_FLOAT32, 3, 5, 0, PLAIN, true);
    tt x = TT(TD_FLOAT32, 3), w = TT(TD_FLOAT32, 2, 3), out = TT(TD_FLOAT32, 2); /* a vector in, a vector out */
    tt_random(&x);
    tt_random(&w);
    CALL(c, 1, &x, &w, NULL);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_linear), 0);
    for (int j = 0; j < 2; j++) {
        double sum = 0;
        for (int p = 0; p < 3; p++) sum += tt_get(&x, p) * tt_get(&w, j * 3 + p);
        CU_ASSERT(near(tt_get(&out, j), sum, 1e-6, 4));
    }
    tt_free(&x), tt_free(&w), tt_free(&out);
}

static void mv_all(void)
{
    for (int t = TD_UINT8; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS; l++) {
            tt x = TTL(t, l, 31, 45), y = TTL(t, l == STEPPED ? STEPPED : PLAIN, 45), out = TT(t, 31);
            tt_random(&x);
            tt_random(&y);
            CALL(c, 1, &x, &y);
            c.out[0] = &out;
            CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_mv), 0);
            CU_ASSERT_EQUAL(mismatches(&out, NULL, &x, &y, 1, 31, 1, 45, 1, 0), 0);
            tt_free(&x), tt_free(&y), tt_free(&out);
        }
}

static void dot_all(void)
{
    for (int t = TD_UINT8; t < TD_DTYPE_COUNT; t++)
        for (int i = 0; i < 3; i++) {
            int64_t n = i == 0 ? 0 : i == 1 ? 77 : t >= TD_FLOAT32 && t <= TD_COMPLEX128 ? 150000 : 100;
            tt x = TTL(t, STEPPED, n), y = TT(t, n), out = tt_scalar(t);
            tt_random(&x);
            tt_random(&y);
            CALL(c, 1, &x, &y);
            c.out[0] = &out;
            CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_dot), 0);
            CU_ASSERT_EQUAL(mismatches(&out, NULL, &x, &y, 1, 1, 1, n, 1, 0), 0);
            tt_free(&x), tt_free(&y), tt_free(&out);
        }
}

/* Every call above ran with a pack as well. */
static void panels_were_packed(void)
{
    CU_ASSERT_TRUE(packs_made > 5);
}

TD_CUNIT_MAIN("kernels_gemm", {"mm: straddles", mm_straddles}, {"mm: vectors", vectors},
              {"plain products", plain_products}, {"mm: dtypes and layouts", mm_all}, {"mm: large", mm_large},
              {"mm: sizes of 0", mm_zero}, {"mm: expanded operand", expanded}, {"bmm", bmm_all}, {"addmm", addmm_all},
              {"linear", linear_all}, {"packed", packed}, {"packed: beta 0", packed_beta_0},
              {"packed: batches, rows of several dimensions", packed_others},
              {"packed: one sum on every set", packed_bits}, {"mv", mv_all}, {"dot", dot_all},
              {"panels were packed once, too", panels_were_packed})
