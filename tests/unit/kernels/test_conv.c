/* Convolution and pooling, forward and backward, against plain loops in double:
 * every way that a convolution may be computed (1x1, depthwise, im2col,
 * oneDNN), geometries, groups, layouts, dtypes, masks. */
#include "daemon/kernels/cpu/blas.h"
#include "daemon/kernels/cpu/conv/conv.h"
#include "daemon/kernels/cpu/conv/dnnl_conv.h"
#include "kernel_harness.h"

typedef struct geometry {
    int64_t n, c, h, w, o, kh, kw, sh, sw, ph, pw, dh, dw, g;
    int64_t oh, ow, cg, og;
} geometry;

static geometry finish(geometry q)
{
    q.oh = (q.h + 2 * q.ph - q.dh * (q.kh - 1) - 1) / q.sh + 1;
    q.ow = (q.w + 2 * q.pw - q.dw * (q.kw - 1) - 1) / q.sw + 1;
    q.cg = q.c / q.g;
    q.og = q.o / q.g;
    return q;
}

/* Calls f for each product of the convolution: indices of out, x and w. */
typedef struct arrays {
    double *x, *w, *out, *scale; /* forward */
    double *g, *dx, *dw;         /* backward; dx, dw also with their scales */
    double *sx, *sw;
} arrays;

static void products(const geometry *q, arrays *a, bool backward)
{
    for (int64_t n = 0; n < q->n; n++)
        for (int64_t o = 0; o < q->o; o++)
            for (int64_t y = 0; y < q->oh; y++)
                for (int64_t x = 0; x < q->ow; x++)
                    for (int64_t k = 0; k < q->cg * q->kh * q->kw; k++) {
                        int64_t ci = k / (q->kh * q->kw), ky = k / q->kw % q->kh, kx = k % q->kw;
                        int64_t iy = y * q->sh - q->ph + ky * q->dh, ix = x * q->sw - q->pw + kx * q->dw;
                        if (iy < 0 || iy >= q->h || ix < 0 || ix >= q->w) continue;
                        int64_t at = ((n * q->o + o) * q->oh + y) * q->ow + x;
                        int64_t in = ((n * q->c + o / q->og * q->cg + ci) * q->h + iy) * q->w + ix;
                        int64_t wt = o * q->cg * q->kh * q->kw + k;
                        if (backward) {
                            a->dx[in] += a->g[at] * a->w[wt];
                            a->dw[wt] += a->g[at] * a->x[in];
                            a->sx[in] += fabs(a->g[at] * a->w[wt]);
                            a->sw[wt] += fabs(a->g[at] * a->x[in]);
                        } else {
                            a->out[at] += a->x[in] * a->w[wt];
                            a->scale[at] += fabs(a->x[in] * a->w[wt]);
                        }
                    }
}

static double *doubles(const tt *t)
{
    double *v = malloc(sizeof(double) * (size_t)(tt_numel(t) + 1));
    for (int64_t i = 0; i < tt_numel(t); i++) v[i] = tt_get(t, i);
    return v;
}
static double *zeros(int64_t n)
{
    return calloc((size_t)n + 1, sizeof(double));
}
static int compare(const tt *got, const double *want, const double *scale, const char *what, const geometry *q)
{
    int bad = 0;
    for (int64_t i = 0; i < tt_numel(got); i++)
        bad += !near(tt_get(got, i), want[i], tolerance(got->d.dtype), scale[i] + fabs(want[i]));
    CU_ASSERT_EQUAL(bad, 0);
    if (bad)
        printf("%s %s n%d c%d %dx%d o%d k%dx%d s%d p%d d%d g%d: %d wrong\n", what, td_dtype_name(got->d.dtype),
               (int)q->n, (int)q->c, (int)q->h, (int)q->w, (int)q->o, (int)q->kh, (int)q->kw, (int)q->sh, (int)q->ph,
               (int)q->dh, (int)q->g, bad);
    return bad;
}
static void geometry_attrs(tcall *c, const geometry *q)
{
    attr_ints(c, 2, (int64_t[]){q->sh, q->sw});
    attr_ints(c, 2, (int64_t[]){q->ph, q->pw});
    attr_ints(c, 2, (int64_t[]){q->dh, q->dw});
    attr_int(c, q->g);
}

/* One way only: a convolution that it does not take is a failure. */
enum { ANY, IM2COL, DNNL, DEPTHWISE };
static int way;

static int plan_forward(td_kcall *k, td_error *e)
{
    td_conv c;
    if (way == ANY) return td_cpu_plan_conv2d(k, e);
    if (td_conv_geometry(k, &c, k->in[0].desc, k->in[1].desc, k->out[0].desc, 0, "conv2d", e)) return TD_E_INVALID;
    if (way == IM2COL) return td_conv_plan_im2col(k, &c);
    bool taken = way == DNNL ? td_conv_plan_dnnl(k, &c) : td_conv_plan_depthwise(k, &c);
    return taken ? 0 : TD_E_UNSUPPORTED;
}
static int plan_backward(td_kcall *k, td_error *e)
{
    td_conv c;
    if (way == ANY) return td_cpu_plan_conv2d_backward(k, e);
    if (td_conv_geometry(k, &c, k->in[1].desc, k->in[2].desc, k->in[0].desc, 0, "conv2d", e)) return TD_E_INVALID;
    c.backward = true;
    c.mask = (uint8_t)td_attr_int(k->attrs, 4);
    if (way == IM2COL) return td_conv_plan_im2col_backward(k, &c);
    bool taken = way == DNNL ? td_conv_plan_dnnl_backward(k, &c) : td_conv_plan_depthwise_backward(k, &c);
    return taken ? 0 : TD_E_UNSUPPORTED;
}

static void conv_case(td_dtype t, int layout, geometry q, bool bias, int mask)
{
    q = finish(q);
    tt x = TTL(t, layout, q.n, q.c, q.h, q.w), w = TTL(t, layout == STEPPED ? TURNED : PLAIN, q.o, q.cg, q.kh, q.kw);
    tt b = TT(t, q.o), out = TT(t, q.n, q.o, q.oh, q.ow), g = TTL(t, layout, q.n, q.o, q.oh, q.ow);
    tt_random(&x);
    tt_random(&w);
    tt_random(&b);
    tt_random(&g);
    arrays a = {.x = doubles(&x), .w = doubles(&w), .g = doubles(&g)};
    a.out = zeros(tt_numel(&out)), a.scale = zeros(tt_numel(&out));
    a.dx = zeros(tt_numel(&x)), a.sx = zeros(tt_numel(&x)), a.dw = zeros(tt_numel(&w)), a.sw = zeros(tt_numel(&w));
    products(&q, &a, false);
    for (int64_t i = 0; bias && i < tt_numel(&out); i++) a.out[i] += tt_get(&b, i / (q.oh * q.ow) % q.o);
    CALL(c, 1, &x, &w, bias ? &b : NULL);
    c.out[0] = &out;
    geometry_attrs(&c, &q);
    CU_ASSERT_EQUAL(tcall_run(&c, plan_forward), 0);
    compare(&out, a.out, a.scale, "conv2d", &q);
    if (mask) {
        tt dx = mask & 1 ? TT(t, q.n, q.c, q.h, q.w) : TT(t, 0),
           dw = mask & 2 ? TT(t, q.o, q.cg, q.kh, q.kw) : TT(t, 0);
        tt db = mask & 4 ? TT(t, q.o) : TT(t, 0);
        products(&q, &a, true);
        CALL(k, 3, &g, &x, &w);
        k.out[0] = &dx, k.out[1] = &dw, k.out[2] = &db;
        geometry_attrs(&k, &q);
        attr_int(&k, mask);
        CU_ASSERT_EQUAL(tcall_run(&k, plan_backward), 0);
        if (mask & 1) compare(&dx, a.dx, a.sx, "dx", &q);
        if (mask & 2) compare(&dw, a.dw, a.sw, "dw", &q);
        double *sum = zeros(q.o), *scale = zeros(q.o);
        for (int64_t i = 0; i < tt_numel(&g); i++) {
            sum[i / (q.oh * q.ow) % q.o] += a.g[i];
            scale[i / (q.oh * q.ow) % q.o] += fabs(a.g[i]);
        }
        if (mask & 4) compare(&db, sum, scale, "db", &q);
        free(sum), free(scale);
        tt_free(&dx), tt_free(&dw), tt_free(&db);
    }
    free(a.x), free(a.w), free(a.g), free(a.out), free(a.scale), free(a.dx), free(a.sx), free(a.dw), free(a.sw);
    tt_free(&x), tt_free(&w), tt_free(&b), tt_free(&out), tt_free(&g);
}

static const geometry geometries[] = {
    {2, 3, 8, 9, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1},  {2, 3, 8, 9, 4, 3, 2, 2, 1, 0, 1, 1, 1, 1},
    {1, 4, 9, 10, 6, 3, 3, 1, 2, 2, 2, 2, 2, 2}, {3, 6, 7, 7, 6, 3, 3, 1, 1, 1, 1, 1, 1, 6},
    {2, 4, 7, 9, 8, 3, 3, 2, 2, 1, 1, 1, 1, 4},  {2, 5, 6, 7, 3, 1, 1, 1, 1, 0, 0, 1, 1, 1},
    {2, 4, 6, 7, 6, 1, 1, 2, 2, 0, 0, 1, 1, 2},  {1, 2, 1, 30, 3, 1, 5, 1, 1, 0, 2, 1, 1, 1},
    {2, 3, 5, 5, 2, 5, 5, 1, 1, 4, 4, 1, 1, 1},  {1, 3, 6, 6, 3, 2, 2, 3, 3, 0, 0, 1, 1, 3},
};

static void conv_all(void)
{
    for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++)
        for (int l = 0; l < LAYOUTS; l++)
            for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++)
                conv_case(t, l, geometries[i], (i + (size_t)l) % 2, 7);
}

static void conv_masks(void)
{
    for (int mask = 1; mask < 8; mask++) conv_case(TD_FLOAT32, PLAIN, geometries[mask % 4], true, mask);
}

/* Large enough for oneDNN and for several blocks; compared with the same loops.
 */
static void conv_large(void)
{
    conv_case(TD_FLOAT32, PLAIN, (geometry){3, 16, 20, 21, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT32, SHUFFLED, (geometry){2, 32, 16, 17, 48, 3, 3, 2, 2, 1, 1, 1, 1, 1}, false, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){9, 16, 12, 12, 32, 3, 3, 1, 1, 1, 1, 1, 1, 2}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){1, 3, 50, 60, 32, 7, 7, 2, 2, 3, 3, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){4, 1, 28, 28, 32, 3, 3, 1, 1, 0, 0, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT64, PLAIN, (geometry){2, 16, 20, 21, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){2, 24, 20, 20, 24, 3, 3, 1, 1, 1, 1, 1, 1, 24}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){2, 32, 20, 20, 48, 1, 1, 1, 1, 0, 0, 1, 1, 1}, true, 7);
}

/* The same convolutions by each way that is made for them. */
static void conv_ways(void)
{
    static const geometry large[] = {{3, 16, 20, 21, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1},
                                     {2, 32, 24, 25, 64, 3, 3, 2, 2, 1, 1, 1, 1, 1},
                                     {2, 16, 24, 24, 64, 3, 3, 1, 1, 2, 2, 2, 2, 2},
                                     {1, 3, 50, 60, 32, 7, 7, 2, 2, 3, 3, 1, 1, 1},
                                     {33, 16, 10, 10, 144, 3, 3, 1, 1, 1, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        way = IM2COL;
        conv_case(TD_FLOAT32, PLAIN, large[i], i % 2, 7);
        way = DNNL;
        if (td_dnnl(NULL)) conv_case(TD_FLOAT32, PLAIN, large[i], i % 2, 7);
    }
    way = DEPTHWISE;
    conv_case(TD_FLOAT32, PLAIN, (geometry){3, 24, 20, 40, 48, 5, 3, 2, 2, 1, 1, 1, 2, 24}, true, 7);
    conv_case(TD_FLOAT64, PLAIN, (geometry){2, 8, 20, 40, 8, 3, 3, 1, 1, 1, 1, 1, 1, 8}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){2, 8, 20, 37, 8, 5, 5, 1, 1, 2, 2, 1, 1, 8}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){1, 4, 12, 19, 4, 3, 9, 1, 1, 3, 6, 1, 2, 4}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){2, 4, 3, 2, 8, 3, 7, 1, 1, 1, 3, 1, 1, 4}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){2, 4, 11, 13, 4, 2, 4, 1, 1, 3, 5, 2, 3, 4}, true, 7);
    way = ANY;
}

/* Depthwise, in both dtypes: rows around a vector's width, taps around those
 * that are added in one pass, planes around those that are copied with zeros
 * around them, padding beyond the kernel, each gradient alone. */
static void depthwise_edges(void)
{
    static const geometry small[] = {
        {2, 2, 5, 15, 4, 3, 3, 1, 1, 1, 1, 1, 1, 2}, {1, 2, 5, 16, 2, 3, 3, 1, 1, 1, 1, 1, 1, 2},
        {1, 2, 5, 17, 2, 3, 3, 1, 1, 1, 1, 1, 1, 2}, {1, 2, 5, 9, 2, 5, 5, 1, 1, 2, 2, 1, 1, 2},
        {1, 2, 6, 21, 2, 5, 5, 1, 1, 2, 2, 2, 2, 2}, {1, 2, 6, 22, 2, 3, 3, 1, 1, 2, 2, 1, 2, 2},
        {1, 2, 4, 40, 2, 2, 7, 1, 1, 0, 3, 1, 1, 2}, {1, 2, 4, 40, 2, 2, 8, 1, 1, 0, 3, 1, 1, 2},
        {1, 2, 9, 33, 4, 3, 3, 2, 1, 1, 1, 1, 1, 2}, {1, 2, 9, 33, 2, 3, 3, 1, 2, 1, 1, 1, 1, 2},
        {2, 2, 9, 33, 2, 3, 3, 2, 2, 1, 1, 1, 1, 2}, {1, 2, 6, 7, 2, 3, 3, 1, 1, 3, 3, 1, 1, 2},
        {1, 2, 6, 7, 2, 3, 3, 1, 1, 1, 4, 1, 1, 2},  {1, 2, 6, 7, 2, 3, 3, 1, 1, 4, 1, 1, 1, 2},
        {1, 2, 3, 1, 2, 3, 1, 1, 1, 1, 0, 1, 1, 2},  {1, 2, 1, 5, 2, 1, 5, 1, 1, 0, 4, 1, 1, 2},
        {1, 2, 2, 2, 2, 2, 2, 1, 1, 5, 5, 5, 5, 2},
    };
    enum { SIDE = 256 }; /* with a border of its own more than fits; read through unaligned rows */
    static const geometry large[] = {
        {1, 2, SIDE, SIDE, 2, 3, 3, 1, 1, 1, 1, 1, 1, 2},     {1, 2, SIDE, SIDE, 2, 5, 5, 1, 1, 2, 2, 1, 1, 2},
        {1, 2, SIDE, SIDE, 2, 2, 4, 1, 1, 1, 2, 1, 1, 2},     {1, 2, SIDE, SIDE, 2, 3, 3, 1, 1, 2, 2, 2, 2, 2},
        {1, 2, SIDE - 2, SIDE, 2, 1, 1, 1, 1, 0, 0, 1, 1, 2}, {1, 2, SIDE, SIDE - 1, 2, 1, 3, 1, 1, 0, 1, 1, 1, 2},
        {1, 2, SIDE, SIDE, 2, 5, 5, 1, 1, 4, 4, 2, 2, 2},
    };
    way = DEPTHWISE;
    for (int t = TD_FLOAT32; t <= TD_FLOAT64; t++) {
        for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
            conv_case(t, PLAIN, small[i], i % 2, 7);
            conv_case(t, GAPPED, small[i], i % 3, 1 + (int)i % 7);
        }
        for (size_t i = 0; i < sizeof large / sizeof *large; i++) conv_case(t, PLAIN, large[i], true, 7);
        for (int mask = 1; mask < 8; mask++) conv_case(t, PLAIN, small[mask], true, mask);
    }
    way = ANY;
}

/* One below, at and above what im2col and oneDNN cut by: positions of a block,
 * images of a tile, channels of a chunk, output channels of a part, the product
 * from which a library is called. */
static void conv_straddles(void)
{
    for (int which = -1; which <= 1; which++) {
        way = IM2COL;
        conv_case(TD_FLOAT32, PLAIN, (geometry){1, 3, 1, TD_CONV_BLOCK_LEAST + which, 2, 1, 3, 1, 1, 0, 1, 1, 1, 1},
                  true, 7);
        conv_case(TD_FLOAT16, GAPPED,
                  (geometry){1, 1, 1, TD_CONV_BLOCK_LEAST * 2 + which, 1, 1, 1100, 1, 1, 0, 550, 1, 1, 1}, false, 7);
        conv_case(TD_FLOAT32, PLAIN, (geometry){TD_CONV_BACK_IMAGES + which, 4, 5, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 2},
                  true, 7);
        conv_case(TD_FLOAT64, TURNED, (geometry){1, 2, 1, TD_CONV_BIAS_PART + which, 3, 1, 2, 1, 1, 0, 1, 1, 1, 1},
                  true, 7);
        conv_case(TD_BFLOAT16, PLAIN, (geometry){1, 128, 2, 3, TD_CONV_SUM / 128 + which, 1, 1, 1, 1, 0, 0, 1, 1, 1},
                  false, 7);
        way = ANY;
        conv_case(TD_FLOAT32, PLAIN,
                  (geometry){2, 10, 12, TD_GEMM_DNNL / 90000 + which, 100, 3, 3, 1, 1, 1, 1, 1, 1, 1}, true, 3);
        conv_case(TD_FLOAT32, PLAIN, (geometry){1, 7, 30, 40, 32, 3, 3 + (which > 0), 1, 1, 1, 1, 1, 1, 1}, true, 7);
        conv_case(TD_FLOAT32, PLAIN, (geometry){1, 16, 7, 31 + which, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1}, true, 7);
    }
    conv_case(TD_FLOAT32, GAPPED, (geometry){2, 16, 16, 16, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT32, SHUFFLED, (geometry){2, 8, 6, 7, 6, 1, 1, 1, 1, 0, 0, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){1, 5, 6, 7, 6, 1, 1, 1, 1, 0, 0, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT32, TURNED, (geometry){3, 5, 6, 1, 6, 1, 1, 1, 1, 0, 0, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT32, TURNED, (geometry){3, 5, 1, 6, 6, 1, 1, 1, 1, 0, 0, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){2, 5, 6, 7, 6, 1, 1, 1, 1, 0, 1, 1, 1, 1}, true, 7);
    conv_case(TD_FLOAT32, PLAIN, (geometry){2, 5, 6, 7, 6, 1, 1, 1, 2, 0, 0, 1, 1, 1}, true, 7);
}

/* oneDNN: each gradient alone, parts of the output channels, a last tile that
 * is smaller. */
static void dnnl_edges(void)
{
    if (!td_dnnl(NULL)) {
        td_test_skip("oneDNN is not here");
        return;
    }
    way = DNNL;
    for (int mask = 1; mask < 8; mask++)
        if (mask & 3)
            conv_case(TD_FLOAT32, PLAIN, (geometry){2, 16, 16, 16, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1}, mask & 1, mask);
    conv_case(TD_FLOAT32, PLAIN, (geometry){1, 64, 30, 30, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1}, true, 0);
    conv_case(TD_FLOAT32, PLAIN, (geometry){2, 64, 30, 30, 96, 3, 3, 1, 1, 1, 1, 1, 1, 1}, false, 0);
    conv_case(TD_FLOAT32, PLAIN, (geometry){5, 16, 30, 30, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1}, true, 7);
    way = ANY;
}

/* More shapes than are kept: the longest unused one goes, one that is held stays, and what went is made again. */
static void dnnl_shapes(void)
{
    td_dnnl_key key = {.kind = TD_DNNL_FORWARD,
                       .n = 1,
                       .c = 16,
                       .w = 8,
                       .o = 16,
                       .kh = 1,
                       .kw = 1,
                       .ow = 8,
                       .sh = 1,
                       .sw = 1,
                       .dh = 1,
                       .dw = 1,
                       .g = 1};
    const td_dnnl_conv *held = NULL;
    for (int64_t round = 0; td_dnnl(NULL) && round < 2; round++)
        for (int64_t i = 0; i < TD_CONV_DNNL_KEPT + 5; i++) {
            key.h = key.oh = 5 + i;
            const td_dnnl_conv *d = td_dnnl_conv_get(&key);
            CU_ASSERT_PTR_NOT_NULL_FATAL(d);
            CU_ASSERT(!memcmp(&d->key, &key, sizeof key));
            if (!held) held = d;
            else td_dnnl_conv_put(d);
            CU_ASSERT(i || d == held);
        }
    td_dnnl_conv_put(held);
    td_dnnl_conv_put(NULL);
}

/* Channels last in memory: read as it lies. */
static void conv_channels_last(void)
{
    geometry q = finish((geometry){2, 16, 20, 21, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1});
    tt x = TT(TD_FLOAT32, 2, 16, 20, 21), w = TT(TD_FLOAT32, 48, 16, 3, 3), a = TT(TD_FLOAT32, 2, 48, 20, 21);
    tt last = TT(TD_FLOAT32, 2, 20, 21, 16), b = TT(TD_FLOAT32, 2, 48, 20, 21);
    tt_random(&x);
    tt_random(&w);
    last.d = x.d;
    last.d.stride[0] = 16 * 20 * 21, last.d.stride[1] = 1, last.d.stride[2] = 21 * 16, last.d.stride[3] = 16;
    for (int64_t i = 0; i < tt_numel(&x); i++) tt_set(&last, i, tt_get(&x, i));
    CALL(c, 1, &x, &w, NULL);
    c.out[0] = &a;
    geometry_attrs(&c, &q);
    way = td_dnnl(NULL) ? DNNL : ANY;
    CU_ASSERT_EQUAL(tcall_run(&c, plan_forward), 0);
    c.in[0] = &last;
    c.out[0] = &b;
    CU_ASSERT_EQUAL(tcall_run(&c, plan_forward), 0);
    way = ANY;
    int bad = 0;
    for (int64_t i = 0; i < tt_numel(&a); i++) bad += !near(tt_get(&a, i), tt_get(&b, i), 1e-5, 10);
    CU_ASSERT_EQUAL(bad, 0);
    tt_free(&x), tt_free(&w), tt_free(&a), tt_free(&last), tt_free(&b);
}

/* A new image, or weight, that lies channels last. */
static tt lying_last(td_dtype t, int64_t n, int64_t c, int64_t h, int64_t w)
{
    tt x = TT(t, n, h, w, c);
    x.d.shape[1] = c, x.d.shape[2] = h, x.d.shape[3] = w;
    x.d.stride[1] = 1, x.d.stride[2] = w * c, x.d.stride[3] = c;
    return x;
}

enum { LAST_X = 1, LAST_W = 2 };

/* Against the plain loops: the picture, the weight or both lie channels last, and so does the result. */
static void last_case(td_dtype t, int lies, geometry q)
{
    q = finish(q);
    tt x = lies & LAST_X ? lying_last(t, q.n, q.c, q.h, q.w) : TT(t, q.n, q.c, q.h, q.w);
    tt w = lies & LAST_W ? lying_last(t, q.o, q.cg, q.kh, q.kw) : TT(t, q.o, q.cg, q.kh, q.kw);
    tt b = TT(t, q.o), out = lying_last(t, q.n, q.o, q.oh, q.ow), dx = TT(t, q.n, q.c, q.h, q.w), none = TT(t, 0);
    tt g = TT(t, q.n, q.o, q.oh, q.ow), none_too = TT(t, 0);
    tt_random(&x), tt_random(&w), tt_random(&b), tt_random(&g);
    arrays a = {.x = doubles(&x), .w = doubles(&w), .g = doubles(&g)};
    a.out = zeros(tt_numel(&out)), a.scale = zeros(tt_numel(&out));
    a.dx = zeros(tt_numel(&x)), a.sx = zeros(tt_numel(&x)), a.dw = zeros(tt_numel(&w)), a.sw = zeros(tt_numel(&w));
    products(&q, &a, false);
    products(&q, &a, true);
    for (int64_t i = 0; i < tt_numel(&out); i++) a.out[i] += tt_get(&b, i / (q.oh * q.ow) % q.o);
    CALL(c, 1, &x, &w, &b);
    c.out[0] = &out;
    geometry_attrs(&c, &q);
    CU_ASSERT_EQUAL(tcall_run(&c, plan_forward), 0);
    if (!c.k.wants_rows) compare(&out, a.out, a.scale, "conv2d, last", &q);
    else CU_ASSERT(t != TD_FLOAT32 || !td_dnnl(NULL) || q.o * q.cg * q.kh * q.kw * q.oh * q.ow < TD_CONV_DNNL_LAST);
    CALL(k, 3, &g, &x, &w);
    k.out[0] = &dx, k.out[1] = &none, k.out[2] = &none_too;
    geometry_attrs(&k, &q);
    attr_int(&k, 1);
    CU_ASSERT_EQUAL(tcall_run(&k, plan_backward), 0);
    compare(&dx, a.dx, a.sx, "dx, last", &q);
    tt_free(&x), tt_free(&w), tt_free(&b), tt_free(&out), tt_free(&dx), tt_free(&g), tt_free(&none), tt_free(&none_too);
    free(a.x), free(a.w), free(a.g), free(a.out), free(a.scale), free(a.dx), free(a.sx), free(a.dw), free(a.sw);
}

/* Odd sizes, strides, dilations, groups, channels that are no multiple of 16, parts of the output channels, and work
 * on both sides of the threshold. */
static void conv_all_last(void)
{
    static const geometry q[] = {
        {2, 16, 20, 21, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1},   {1, 3, 33, 35, 19, 3, 3, 2, 2, 1, 1, 1, 1, 1},
        {1, 24, 15, 17, 24, 3, 3, 1, 1, 1, 1, 1, 1, 24},  {2, 88, 12, 13, 88, 5, 5, 2, 2, 2, 2, 1, 1, 88},
        {3, 17, 9, 11, 23, 1, 1, 1, 1, 0, 0, 1, 1, 1},    {1, 64, 14, 14, 30, 1, 1, 2, 2, 0, 0, 1, 1, 1},
        {1, 12, 19, 18, 20, 3, 3, 1, 1, 2, 2, 2, 2, 4},   {1, 10, 13, 12, 30, 3, 3, 1, 1, 1, 1, 1, 1, 10},
        {1, 64, 19, 20, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1},   {1, 5, 9, 9, 7, 3, 2, 1, 2, 1, 0, 1, 1, 1},
        {1, 8, 7, 5, 8, 3, 3, 1, 1, 1, 1, 1, 1, 8},       {1, 2, 10, 10, 100, 1, 1, 1, 1, 0, 0, 1, 1, 1},
        {1, 2, 10, 10, 99, 1, 1, 1, 1, 0, 0, 1, 1, 1},    {1, 32, 129, 121, 64, 1, 1, 1, 1, 0, 0, 1, 1, 1},
        {1, 32, 127, 121, 64, 1, 1, 1, 1, 0, 0, 1, 1, 1},
    };
    for (unsigned i = 0; i < sizeof q / sizeof *q; i++)
        for (int lies = 1; lies <= (q[i].h > 100 ? LAST_X : LAST_X | LAST_W); lies++) {
            last_case(TD_FLOAT32, lies, q[i]);
            if (q[i].c < 32) last_case(TD_FLOAT64, lies, q[i]);
        }
}

static void conv_empty(void)
{
    tt x = TT(TD_FLOAT32, 0, 3, 5, 5), w = TT(TD_FLOAT32, 2, 3, 3, 3), out = TT(TD_FLOAT32, 0, 2, 3, 3);
    tt dx = TT(TD_FLOAT32, 0, 3, 5, 5), dw = TT(TD_FLOAT32, 2, 3, 3, 3), db = TT(TD_FLOAT32, 2);
    geometry q = {0, 3, 5, 5, 2, 3, 3, 1, 1, 0, 0, 1, 1, 1};
    tt_random(&dw);
    CALL(c, 1, &x, &w, NULL);
    c.out[0] = &out;
    geometry_attrs(&c, &q);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_conv2d), 0);
    CALL(k, 3, &out, &x, &w);
    k.out[0] = &dx, k.out[1] = &dw, k.out[2] = &db;
    geometry_attrs(&k, &q);
    attr_int(&k, 7);
    CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_conv2d_backward), 0);
    for (int i = 0; i < 54; i++) CU_ASSERT_EQUAL(tt_get(&dw, i), 0);
    tt_free(&x), tt_free(&w), tt_free(&out), tt_free(&dx), tt_free(&dw), tt_free(&db);
}

/* ---- pooling ---- */

typedef struct pool {
    int64_t kh, kw, sh, sw, ph, pw, dh, dw;
    bool ceil_mode;
} pool;

static int64_t pool_size(int64_t n, int64_t k, int64_t s, int64_t p, int64_t d, bool ceil_mode)
{
    int64_t span = n + 2 * p - d * (k - 1) - 1, out = (ceil_mode ? span + s - 1 : span) / s + 1;
    return ceil_mode && (out - 1) * s >= n + p ? out - 1 : out;
}

static double lowest(td_dtype t)
{
    return td_dtype_is_float(t) ? -INFINITY : td_dtype_is_unsigned(t) ? 0 : -ldexp(1, (int)td_dtype_size(t) * 8 - 1);
}

static void max_case(td_dtype t, int layout, int nd, pool q, bool nan, int64_t w)
{
    int64_t xs[4] = {2, 3, 9, w}, os[4] = {2, 3, 0, 0};
    os[2] = pool_size(9, q.kh, q.sh, q.ph, q.dh, q.ceil_mode);
    os[3] = pool_size(w, q.kw, q.sw, q.pw, q.dw, q.ceil_mode);
    const int64_t *s = xs + (4 - nd), *o = os + (4 - nd);
    tt x = tt_layout(t, nd, s, layout), v = tt_new(t, nd, o), ix = tt_new(TD_INT64, nd, o),
       g = tt_layout(t, nd, o, layout);
    tt dx = tt_new(t, nd, s);
    tt_random(&x);
    tt_random(&g);
    for (int64_t i = 0; i < tt_numel(&x) && nan && td_dtype_is_float(t); i += 1 + i % 33) tt_set(&x, i, NAN);
    CALL(c, 2, &x);
    c.out[0] = &v, c.out[1] = &ix;
    attr_ints(&c, 2, (int64_t[]){q.kh, q.kw}), attr_ints(&c, 2, (int64_t[]){q.sh, q.sw});
    attr_ints(&c, 2, (int64_t[]){q.ph, q.pw}), attr_ints(&c, 2, (int64_t[]){q.dh, q.dw});
    attr_bool(&c, q.ceil_mode);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_max_pool2d), 0);
    int bad = 0;
    double *want = zeros(tt_numel(&x)), *scale = zeros(tt_numel(&x));
    for (int64_t i = 0; i < tt_numel(&v); i++) {
        int64_t plane = i / (os[2] * os[3]), y = i / os[3] % os[2], xx = i % os[3], best = -1;
        for (int64_t ky = 0; ky < q.kh; ky++)
            for (int64_t kx = 0; kx < q.kw; kx++) {
                int64_t iy = y * q.sh - q.ph + ky * q.dh, jx = xx * q.sw - q.pw + kx * q.dw;
                if (iy < 0 || iy >= 9 || jx < 0 || jx >= w) continue;
                double val = tt_get(&x, plane * 9 * w + iy * w + jx),
                       old = best < 0 ? 0 : tt_get(&x, plane * 9 * w + best);
                if (best < 0 || val > old || isnan(val)) best = iy * w + jx;
            }
        bad += (int64_t)tt_get(&ix, i) != best;
        bad += best >= 0 && !near(tt_get(&v, i), tt_get(&x, plane * 9 * w + best), 0, 0);
        if (best < 0) bad += tt_get(&v, i) != lowest(t);
        if (best < 0) continue;
        want[plane * 9 * w + best] += tt_get(&g, i);
        scale[plane * 9 * w + best] += fabs(tt_get(&g, i));
    }
    CU_ASSERT_EQUAL(bad, 0);
    if (bad)
        printf("max_pool2d %s layout %d w%d k%d s%d: %d wrong\n", td_dtype_name(t), layout, (int)w, (int)q.kh,
               (int)q.sh, bad);
    if (td_dtype_is_float(t)) {
        CALL(k, 1, &g, &ix);
        k.out[0] = &dx;
        attr_ints(&k, nd, s);
        CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_max_pool2d_backward), 0);
        geometry none = {0};
        compare(&dx, want, scale, "max_pool2d_backward", &none);
        for (int below = 0; below < 2; below++) { /* an index outside of the plane; -1 is that of padding */
            tt_set(&ix, 1, below ? -2 : 9 * (double)w);
            CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_max_pool2d_backward), TD_E_INDEX);
        }
    }
    free(want), free(scale);
    tt_free(&x), tt_free(&v), tt_free(&ix), tt_free(&g), tt_free(&dx);
}

static const pool pools[] = {{2, 2, 2, 2, 0, 0, 1, 1, false}, {3, 3, 2, 2, 1, 1, 1, 1, false},
                             {3, 2, 1, 2, 1, 0, 2, 1, false}, {3, 3, 2, 3, 1, 1, 1, 1, true},
                             {2, 3, 3, 2, 0, 1, 1, 2, true},  {2, 2, 1, 1, 1, 1, 9, 10, false}};
/* Dilated so far that windows lie in the padding on both sides: those of some rows, of some columns, of both. */
static const pool sparse[] = {
    {2, 1, 1, 1, 3, 0, 11, 1, false}, {1, 2, 1, 1, 0, 3, 1, 12, false}, {2, 2, 1, 1, 3, 3, 11, 12, false}};

static void max_all(void)
{
    for (int l = 0; l < LAYOUTS; l++)
        for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
            for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++) max_case(t, l, 3 + (int)(i % 2), pools[i], i & 1, 10);
            for (int t = TD_UINT8; t < TD_DTYPE_COUNT; t++)
                if (td_dtype_is_integral(t)) max_case(t, l, 4 - (int)(i % 2), pools[i], false, 10);
        }
    for (size_t i = 0; i < sizeof sparse / sizeof *sparse; i++)
        for (int t = TD_UINT8; t <= TD_FLOAT64; t++)
            for (int nan = 0; nan < 2; nan++) max_case(t, nan ? SHUFFLED : PLAIN, 4, sparse[i], nan, 10);
}

/* Rows of as many windows as are looked at together (of wide elements half as many), one less, one more, and more than
 * twice as many. */
static void max_wide(void)
{
    static const int64_t windows[] = {
        TD_POOL_ROW_LEAST - 1, TD_POOL_ROW_LEAST, TD_POOL_ROW_LEAST + 1, TD_POOL_SIDE / 2 - 1, TD_POOL_SIDE / 2,
        TD_POOL_SIDE / 2 + 1,  TD_POOL_SIDE - 1,  TD_POOL_SIDE,          TD_POOL_SIDE + 1,     2 * TD_POOL_SIDE + 3};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
            const pool q = pools[i];
            int64_t width = (windows[w] - 1) * q.sw + q.dw * (q.kw - 1) + 1;
            for (int t = TD_FLOAT32; t <= TD_FLOAT64; t++) max_case(t, PLAIN, 4, q, i & 1, width);
            for (int t = TD_UINT8; t < TD_DTYPE_COUNT; t++)
                if (td_dtype_is_integral(t)) max_case(t, SHUFFLED, 4, q, false, width);
        }
}

static void avg_case(td_dtype t, int layout, int nd, pool q, bool include_pad, int64_t w)
{
    int64_t xs[4] = {2, 3, 9, w}, os[4] = {2, 3, 0, 0};
    os[2] = pool_size(9, q.kh, q.sh, q.ph, 1, q.ceil_mode);
    os[3] = pool_size(w, q.kw, q.sw, q.pw, 1, q.ceil_mode);
    const int64_t *s = xs + (4 - nd), *o = os + (4 - nd);
    tt x = tt_layout(t, nd, s, layout), v = tt_new(t, nd, o), g = tt_layout(t, nd, o, layout), dx = tt_new(t, nd, s);
    tt_random(&x);
    tt_random(&g);
    double *dwant = zeros(tt_numel(&x)), *dscale = zeros(tt_numel(&x)), *want = zeros(tt_numel(&v)),
           *scale = zeros(tt_numel(&v));
    for (int64_t i = 0; i < tt_numel(&v); i++) {
        int64_t plane = i / (os[2] * os[3]), y0 = i / os[3] % os[2] * q.sh - q.ph, x0 = i % os[3] * q.sw - q.pw;
        int64_t y1 = y0 + q.kh < 9 + q.ph ? y0 + q.kh : 9 + q.ph, x1 = x0 + q.kw < w + q.pw ? x0 + q.kw : w + q.pw;
        int64_t padded = (y1 - y0) * (x1 - x0);
        int64_t a = y0 > 0 ? y0 : 0, b = y1 < 9 ? y1 : 9, c = x0 > 0 ? x0 : 0, d = x1 < w ? x1 : w;
        double count = (double)(include_pad ? padded : (b - a) * (d - c));
        for (int64_t y = a; y < b; y++)
            for (int64_t xx = c; xx < d; xx++) {
                want[i] += tt_get(&x, (plane * 9 + y) * w + xx) / count;
                scale[i] += fabs(tt_get(&x, (plane * 9 + y) * w + xx)) / count;
                dwant[(plane * 9 + y) * w + xx] += tt_get(&g, i) / count;
                dscale[(plane * 9 + y) * w + xx] += fabs(tt_get(&g, i)) / count;
            }
    }
    geometry none = {0};
    CALL(c, 1, &x);
    c.out[0] = &v;
    attr_ints(&c, 2, (int64_t[]){q.kh, q.kw}), attr_ints(&c, 2, (int64_t[]){q.sh, q.sw});
    attr_ints(&c, 2, (int64_t[]){q.ph, q.pw}), attr_bool(&c, q.ceil_mode), attr_bool(&c, include_pad);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_avg_pool2d), 0);
    compare(&v, want, scale, "avg_pool2d", &none);
    CALL(k, 1, &g);
    k.out[0] = &dx;
    attr_ints(&k, nd, s);
    attr_ints(&k, 2, (int64_t[]){q.kh, q.kw}), attr_ints(&k, 2, (int64_t[]){q.sh, q.sw});
    attr_ints(&k, 2, (int64_t[]){q.ph, q.pw}), attr_bool(&k, q.ceil_mode), attr_bool(&k, include_pad);
    CU_ASSERT_EQUAL(tcall_run(&k, td_cpu_plan_avg_pool2d_backward), 0);
    compare(&dx, dwant, dscale, "avg_pool2d_backward", &none);
    free(want), free(scale), free(dwant), free(dscale);
    tt_free(&x), tt_free(&v), tt_free(&g), tt_free(&dx);
}

static void avg_all(void)
{
    for (int l = 0; l < LAYOUTS; l++)
        for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
            for (int t = TD_FLOAT16; t <= TD_FLOAT64; t++) avg_case(t, l, 3 + (int)(i % 2), pools[i], (l + t) & 1, 10);
}

/* Rows of as many windows as are taken together, and as few, and windows as wide, one less and one more. */
static void avg_wide(void)
{
    static const int64_t windows[] = {TD_POOL_ROW_LEAST, TD_POOL_SIDE / 2, TD_POOL_SIDE, 2 * TD_POOL_SIDE + 2};
    for (int which = -1; which <= 1; which++)
        for (int t = TD_FLOAT32; t <= TD_FLOAT64; t++) {
            for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
                for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
                    avg_case(t, PLAIN, 4, pools[i], i & 1, (windows[w] + which - 1) * pools[i].sw + pools[i].kw);
            pool wide = {2, TD_POOL_ROW_KERNEL + which, 1, 3, 0, 5, 1, 1, false};
            avg_case(t, STEPPED, 4, wide, true, TD_POOL_ROW_KERNEL + 20);
        }
}

/* Every call above ran with a pack as well, and chunks wrote what they say. */
static void weights_were_packed(void)
{
    CU_ASSERT_TRUE(packs_made > 5);
#ifdef __SANITIZE_THREAD__
    td_test_skip("with two threads at once nobody can tell who wrote what");
#else
    if (!td_dnnl(NULL)) td_test_skip("oneDNN is not here");
    else CU_ASSERT_TRUE(wrotes_checked > 20);
#endif
}

/* Each window against all of its elements: the first of equals, the last NaN. */
static void adaptive_case(td_dtype t, int layout, int dims, const int64_t *in, const int64_t *n, bool nan)
{
    int64_t shape[5] = {2, 3}, to[5] = {2, 3}, size[3] = {1, 1, 1}, out[3] = {1, 1, 1};
    for (int d = 0; d < dims; d++) {
        shape[2 + d] = size[3 - dims + d] = in[d];
        to[2 + d] = out[3 - dims + d] = n[d];
    }
    tt x = tt_layout(t, 2 + dims, shape, layout), v = tt_new(t, 2 + dims, to), ix = tt_new(TD_INT64, 2 + dims, to);
    for (int64_t i = 0; i < tt_numel(&x); i++) tt_set(&x, i, (double)(rnd_below(60) - 30));
    for (int64_t i = 0; i < tt_numel(&x) && nan; i += 1 + i % 33) tt_set(&x, i, NAN);
    CALL(c, 2, &x);
    c.out[0] = &v, c.out[1] = &ix;
    attr_ints(&c, dims, n);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_adaptive_max), 0);
    int64_t plane = size[0] * size[1] * size[2], places = out[0] * out[1] * out[2];
    int bad = 0;
    for (int64_t i = 0; i < tt_numel(&v); i++) {
        int64_t at = i % places, best = -1, o[3] = {at / out[2] / out[1], at / out[2] % out[1], at % out[2]};
        for (int64_t j = 0; j < plane; j++) {
            int64_t place[3] = {j / size[2] / size[1], j / size[2] % size[1], j % size[2]};
            bool inside = true;
            for (int d = 0; d < 3; d++)
                inside = inside && place[d] >= o[d] * size[d] / out[d] &&
                         place[d] < ((o[d] + 1) * size[d] + out[d] - 1) / out[d];
            if (!inside) continue;
            double val = tt_get(&x, i / places * plane + j);
            if (best < 0 || val > tt_get(&x, i / places * plane + best) || isnan(val)) best = j;
        }
        bad += (int64_t)tt_get(&ix, i) != best || !near(tt_get(&v, i), tt_get(&x, i / places * plane + best), 0, 0);
    }
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("adaptive_max %s layout %d of %d: %d wrong\n", td_dtype_name(t), layout, dims, bad);
    tt_free(&x), tt_free(&v), tt_free(&ix);
}

static void adaptive_all(void)
{
    static const td_dtype types[] = {TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32, TD_FLOAT64};
    for (int l = 0; l < LAYOUTS; l++)
        for (int i = 0; i < 4; i++)
            for (int dims = 1; dims <= 3; dims++) {
                adaptive_case(types[i], l, dims, (int64_t[]){5, 7, 4}, (int64_t[]){3, 2, 4}, i % 2);
                adaptive_case(types[i], l, dims, (int64_t[]){1, 3, 6}, (int64_t[]){2, 5, 1},
                              l % 2); /* more than there are */
            }
    for (int which = -1; which <= 1; which++) /* rows that are passed over some elements at a time, and what is left */
        for (int i = 0; i < 8; i++) {
            const int64_t wide = TD_POOL_SCAN + which;
            adaptive_case(types[i / 2], PLAIN, 3, (int64_t[]){2, 3, 2 * wide}, (int64_t[]){1, 2, 2}, i % 2);
            adaptive_case(types[i / 2], PLAIN, 2, (int64_t[]){5, wide}, (int64_t[]){2, 1}, i % 2);
            adaptive_case(types[i / 2], PLAIN, 1, (int64_t[]){9 * wide + 5}, (int64_t[]){1}, i % 2);
        }
    for (int which = -1; which <= 1; which++) /* planes of a chunk */
        adaptive_case(TD_FLOAT32, which + 1, 1, (int64_t[]){TD_POOL_CHUNK / 8 + which}, (int64_t[]){3}, false);
    tt x = TT(TD_FLOAT32, 2, 3), v = TT(TD_FLOAT32, 2, 3), ix = TT(TD_INT64, 2, 3);
    CALL(c, 2, &x);
    c.out[0] = &v, c.out[1] = &ix;
    attr_ints(&c, 3, (int64_t[]){1, 2, 3}); /* more sizes than there are */
    tcall_refused(&c, td_cpu_plan_adaptive_max, TD_E_SHAPE);
    tt_free(&x), tt_free(&v), tt_free(&ix);
}

TD_CUNIT_MAIN("kernels_conv", {"conv2d: geometries", conv_all}, {"conv2d: masks", conv_masks},
              {"conv2d: large", conv_large}, {"conv2d: each way", conv_ways},
              {"conv2d: depthwise edges", depthwise_edges}, {"conv2d: straddles", conv_straddles},
              {"conv2d: oneDNN edges", dnnl_edges}, {"conv2d: shapes that are kept", dnnl_shapes},
              {"conv2d: channels last", conv_channels_last}, {"conv2d: channels last, all ways", conv_all_last},
              {"conv2d: empty", conv_empty}, {"max_pool2d", max_all}, {"max_pool2d: wide", max_wide},
              {"adaptive_max", adaptive_all}, {"avg_pool2d", avg_all}, {"avg_pool2d: wide", avg_wide},
              {"weights were packed once, too", weights_were_packed})
