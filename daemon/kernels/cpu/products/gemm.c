/* The GEMM engine: operands made readable for BLAS, the cut into tiles, and one tile. See gemm.h. */
#include "daemon/kernels/cpu/products/gemm.h"
#include "daemon/kernels/cpu/blas.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/products/gemm_packed.h"
#include "daemon/kernels/cpu/walk.h"
#include <limits.h>

_Static_assert(sizeof(td_gemm) <= TD_KSTATE_BYTES, "a td_gemm lives in a call's state");

static bool uses_blas(unsigned acc)
{
    return td_dtype_is_inexact(acc);
}

/* ---- one multiplication ---- */

float td_gemm_scalar(td_scalar s)
{
    return (float)(s.kind == TD_S_BOOL || s.kind == TD_S_INT ? (double)s.i : s.re);
}
static double scalar_d(td_scalar s)
{
    return s.kind == TD_S_BOOL || s.kind == TD_S_INT ? (double)s.i : s.re;
}

/* y = beta y + alpha A x with A of `rows` x `cols` as stored. Not of complex numbers: OpenBLAS's (0.3.21, Haswell)
 * reads one element behind the last of x, which may be unmapped memory; its matrix product does not. */
static void one_vector(const td_gemm_call *g, const td_blas_api *blas)
{
    bool column = g->n == 1; /* A times a column; else a row times B */
    bool turned = column ? g->trans_a : !g->trans_b;
    int64_t len = column ? g->m : g->n;
    enum CBLAS_TRANSPOSE t = turned ? CblasTrans : CblasNoTrans;
    int rows = (int)(turned ? g->k : len), cols = (int)(turned ? len : g->k), ld = (int)(column ? g->lda : g->ldb);
    int incx = (int)(column ? (g->trans_b ? 1 : g->ldb) : (g->trans_a ? g->lda : 1)), incy = column ? (int)g->ldc : 1;
    const void *a = column ? g->a : g->b, *x = column ? g->b : g->a;
    double alpha = scalar_d(g->alpha), beta = scalar_d(g->beta);
    if (g->dtype == TD_FLOAT32)
        blas->cblas_sgemv(CblasRowMajor, t, rows, cols, (float)alpha, a, ld, x, incx, (float)beta, g->c, incy);
    else blas->cblas_dgemv(CblasRowMajor, t, rows, cols, alpha, a, ld, x, incx, beta, g->c, incy);
}

static void one_blas(const td_gemm_call *g, const td_blas_api *blas)
{
    enum CBLAS_TRANSPOSE ta = g->trans_a ? CblasTrans : CblasNoTrans, tb = g->trans_b ? CblasTrans : CblasNoTrans;
    int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    double za[2] = {scalar_d(g->alpha), g->alpha.kind == TD_S_COMPLEX ? g->alpha.im : 0};
    double zb[2] = {scalar_d(g->beta), g->beta.kind == TD_S_COMPLEX ? g->beta.im : 0};
    float ca[2] = {(float)za[0], (float)za[1]}, cb[2] = {(float)zb[0], (float)zb[1]};
    switch (g->dtype) {
    case TD_FLOAT32:
        blas->cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, ca[0], g->a, lda, g->b, ldb, cb[0], g->c, ldc);
        break;
    case TD_FLOAT64:
        blas->cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, za[0], g->a, lda, g->b, ldb, zb[0], g->c, ldc);
        break;
    case TD_COMPLEX64:
        blas->cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, ca, g->a, lda, g->b, ldb, cb, g->c, ldc);
        break;
    default: blas->cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, za, g->a, lda, g->b, ldb, zb, g->c, ldc);
    }
}

static void one_plain(const td_gemm_call *g)
{
    td_gemm_ref r = {.dtype = g->dtype,
                     .m = g->m,
                     .n = g->n,
                     .k = g->k,
                     .a = g->a,
                     .b = g->b,
                     .c = g->c,
                     .ars = g->trans_a ? 1 : g->lda,
                     .acs = g->trans_a ? g->lda : 1,
                     .brs = g->trans_b ? 1 : g->ldb,
                     .bcs = g->trans_b ? g->ldb : 1,
                     .ldc = g->ldc,
                     .alpha = g->alpha,
                     .beta = g->beta};
    td_gemm_reference(&r);
}

void td_gemm_one_wants(unsigned dtype, bool use_dnnl)
{
    if (uses_blas(dtype) && td_blas(NULL) && use_dnnl && dtype == TD_FLOAT32) td_dnnl(NULL);
}

void td_gemm_one(const td_gemm_call *g)
{
    if (g->m <= 0 || g->n <= 0) return;
    const td_blas_api *blas = g->k > 0 && uses_blas(g->dtype) ? td_blas(NULL) : NULL;
    if (blas && td_dtype_is_float(g->dtype) && (g->n == 1 || g->m == 1)) {
        one_vector(g, blas);
        return;
    }
    const td_dnnl_api *dnnl = blas && g->use_dnnl && g->dtype == TD_FLOAT32 ? td_dnnl(NULL) : NULL;
    if (dnnl &&
        dnnl->dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', g->m, g->n, g->k, td_gemm_scalar(g->alpha),
                         g->a, g->lda, g->b, g->ldb, td_gemm_scalar(g->beta), g->c, g->ldc) == dnnl_success)
        return;
    if (blas) one_blas(g, blas);
    else one_plain(g); /* integers; and K = 0, which only scales c */
}

/* ---- operands ---- */

/* Can BLAS read it as it lies? Sizes of 1 make a stride free, so choose one that fits. */
static bool readable(const td_gemm *g, td_gemm_mat *x, int64_t rows, int64_t cols)
{
    if (x->rows) return false;
    if (cols <= 1) x->cs = 1;
    if (rows <= 1) x->rs = td_max64(cols, 1);
    if (cols <= 1 && rows > 1 && x->rs < 1) return false;
    if (g->acc != g->dtype || x->rs > INT_MAX || x->cs > INT_MAX) return false;
    return (x->cs == 1 && x->rs >= td_max64(1, cols)) || (x->rs == 1 && x->cs >= td_max64(1, rows));
}

/* Column-major in its own memory: packed so too. */
static bool is_turned(const td_gemm_mat *x)
{
    return !x->rows && x->rs < x->cs && x->rs != 0;
}

/* Decide on packing. A packed copy keeps the operand's order (row- or column-major), so that packing never transposes.
 */
static int64_t plan_operand(td_kcall *k, td_gemm *g, td_gemm_mat *x, int64_t rows, int64_t cols, int64_t *per)
{
    *per = 1;
    x->pack = readable(g, x, rows, cols) ? TD_PACK_NONE : TD_PACK_AS_IS;
    if (!x->pack) return 0;
    bool turned = is_turned(x);
    int64_t outer = turned ? cols : rows, inner = turned ? rows : cols;
    int64_t matrices = x->bs == 0 ? 1 : g->batch;
    x->pack_at = td_plan_work(k, (size_t)(matrices * rows * cols) * td_dtype_size(g->acc));
    *per = td_max64(1, TD_GEMM_PACK / td_max64(1, inner));
    return td_cut(matrices * outer, *per);
}

/* A column-major B is turned by oneDNN once more for each tile, and slowly: where it has less than 128 columns, and
 * where all of them begin at one place of the first cache (K = 1024: 2.6 ns an element, a fifth of the speed). Turned
 * once, by the first phase, it costs 0.3 ns an element. Of up to 15 rows oneDNN reads B as it lies: eight rows by
 * 784 x 512 took 62 us so, and 57 of an untransposed B; to turn it took 90. */
static bool worth_turning(const td_gemm *g)
{
    const td_gemm_mat *b = &g->b;
    if (!g->use_dnnl || b->rs != 1 || b->cs < 2 || g->n < 2 || g->dtype != TD_FLOAT32) return false;
    if (g->m < TD_GEMM_TURN_ROWS) return false;
    return g->n < TD_GEMM_TURN_COLS || b->cs % TD_GEMM_TURN_STEP == 0 || g->tiles_m >= TD_GEMM_TURN_TILES;
}

/* Chunks are strips of rows as wide as a cache line. */
enum { STRIP = TD_LINE_BYTES / sizeof(float) };

static int64_t plan_turned(td_kcall *k, td_gemm *g, int64_t *per)
{
    int64_t matrices = g->b.bs == 0 ? 1 : g->batch;
    g->b.pack = TD_PACK_TURNED;
    g->b.pack_at = td_plan_work(k, (size_t)(matrices * g->k * g->n) * sizeof(float));
    *per = td_max64(1, TD_GEMM_PACK / (STRIP * g->n));
    return td_cut(matrices * td_cut(g->k, STRIP), *per);
}

static void turn(td_kcall *k, const td_gemm *g, int64_t chunk)
{
    int64_t each = td_max64(1, td_cut(g->k, STRIP)), b, e;
    td_cut_range((g->b.bs == 0 ? 1 : g->batch) * each, g->pack_rows_b, chunk, &b, &e);
    for (; b < e; b++) {
        int64_t i = b / each, r = b % each * STRIP;
        float *to = (float *)((char *)k->work + g->b.pack_at) + (i * g->k + r) * g->n;
        const float *from = (const float *)g->b.data + i * g->b.bs + r;
        td_isa_now->transpose(to, g->n * 4, from, g->b.cs * 4, (int)td_min64(STRIP, g->k - r), g->n, 4);
    }
}

void td_gemm_pack_rows(void *to, const void *from, int64_t rs, int64_t cs, int64_t cols, unsigned dtype, int64_t r0,
                       int64_t r1)
{
    size_t size = td_dtype_size(dtype), acc = td_dtype_size(td_acc_dtype(dtype));
    for (int64_t r = r0; r < r1; r++)
        td_row_load((char *)to + (size_t)(r * cols) * acc, (const char *)from + r * rs * (int64_t)size, cs, dtype,
                    cols);
}

/* Rows [b, e) of an operand whose rows are spread over several dimensions. */
static void pack_spread(void *to, const td_gemm *g, const td_gemm_mat *x, int64_t cols, int64_t b, int64_t e)
{
    int64_t size = (int64_t)td_dtype_size(g->dtype), acc = (int64_t)td_dtype_size(g->acc);
    for (int64_t r = b; r < e; r++) {
        int64_t rest = r, at = 0;
        for (int d = x->rows->ndim - 2; d >= 0; d--) {
            at += rest % x->rows->shape[d] * x->rows->stride[d];
            rest /= x->rows->shape[d];
        }
        td_row_load((char *)to + r * cols * acc, (const char *)x->data + at * size, x->cs, g->dtype, cols);
    }
}

static void pack_operand(td_kcall *k, const td_gemm *g, const td_gemm_mat *x, int64_t rows, int64_t cols, int64_t per,
                         int64_t chunk)
{
    bool turned = is_turned(x);
    int64_t outer = turned ? cols : rows, inner = turned ? rows : cols;
    int64_t os = turned ? x->cs : x->rs, is = turned ? x->rs : x->cs, b, e;
    size_t size = td_dtype_size(g->dtype), acc = td_dtype_size(g->acc);
    td_cut_range((x->bs == 0 ? 1 : g->batch) * outer, per, chunk, &b, &e);
    if (x->rows) {
        pack_spread((char *)k->work + x->pack_at, g, x, cols, b, e);
        return;
    }
    while (b < e) { /* rows of one matrix at a time */
        int64_t i = b / outer, r = b % outer, count = td_min64(outer - r, e - b);
        char *to = (char *)k->work + x->pack_at + (size_t)(i * rows * cols) * acc;
        const char *from = (const char *)x->data + i * x->bs * (int64_t)size;
        td_gemm_pack_rows(to, from, os, is, inner, g->dtype, r, r + count);
        b += count;
    }
}

static void pack_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_gemm *g = (const td_gemm *)k->state;
    (void)scratch;
    if (chunk < g->pack_chunks_a) pack_operand(k, g, &g->a, g->m, g->k, g->pack_rows_a, chunk);
    else if (g->b.pack == TD_PACK_TURNED) turn(k, g, chunk - g->pack_chunks_a);
    else pack_operand(k, g, &g->b, g->k, g->n, g->pack_rows_b, chunk - g->pack_chunks_a);
}

/* Where the matrix of batch element i lies, as BLAS takes it. */
static const char *operand(const td_kcall *k, const td_gemm *g, const td_gemm_mat *x, int64_t rows, int64_t cols,
                           int64_t i, bool *trans, int64_t *ld)
{
    size_t acc = td_dtype_size(g->acc);
    if (x->pack) {
        *trans = x->pack == TD_PACK_AS_IS && is_turned(x);
        *ld = td_max64(1, *trans ? rows : cols);
        return (const char *)k->work + x->pack_at + (size_t)((x->bs == 0 ? 0 : i) * rows * cols) * acc;
    }
    *trans = x->cs != 1 || x->rs < td_max64(1, cols);
    *ld = *trans ? x->cs : x->rs;
    return (const char *)x->data + i * x->bs * (int64_t)acc;
}

/* ---- tiles ---- */

/* c tile (computed dtype) = d, converted; beta is applied by the multiplication. */
void td_gemm_load_d(const td_gemm *g, void *c, int64_t ldc, int64_t i, int64_t r0, int64_t rows, int64_t c0,
                    int64_t cols)
{
    int64_t size = (int64_t)td_dtype_size(g->dtype), acc = (int64_t)td_dtype_size(g->acc);
    const char *d = (const char *)g->d.data + (i * g->d.bs + r0 * g->d.rs + c0 * g->d.cs) * size;
    for (int64_t r = 0; r < rows; r++)
        td_row_load((char *)c + r * ldc * acc, d + r * g->d.rs * size, g->d.cs, g->dtype, cols);
}

static void run_tile(td_kcall *k, const td_gemm *g, int64_t i, int64_t tr, int64_t tc, void *scratch)
{
    int64_t r0, r1, c0, c1, size = (int64_t)td_dtype_size(g->dtype), acc = (int64_t)td_dtype_size(g->acc);
    td_cut_range(g->m, g->tile_m, tr, &r0, &r1);
    td_cut_range(g->n, g->tile_n, tc, &c0, &c1);
    bool direct = g->dtype == g->acc;
    char *out = (char *)g->c + ((i * g->m + r0) * g->n + c0) * size;
    td_gemm_call call = {.dtype = g->acc,
                         .use_dnnl = g->use_dnnl,
                         .m = r1 - r0,
                         .n = c1 - c0,
                         .k = g->k,
                         .alpha = g->alpha,
                         .beta = g->has_d ? g->beta : td_int(0),
                         .c = direct ? (void *)out : scratch,
                         .ldc = direct ? g->n : c1 - c0};
    const char *a = operand(k, g, &g->a, g->m, g->k, i, &call.trans_a, &call.lda);
    const char *b = operand(k, g, &g->b, g->k, g->n, i, &call.trans_b, &call.ldb);
    call.a = a + r0 * (call.trans_a ? 1 : call.lda) * acc;
    call.b = b + c0 * (call.trans_b ? call.ldb : 1) * acc;
    if (g->has_d) td_gemm_load_d(g, call.c, call.ldc, i, r0, call.m, c0, call.n);
    td_gemm_one(&call);
    if (!direct)
        for (int64_t r = 0; r < call.m; r++)
            td_row_store(out + r * g->n * size, 1, g->dtype, (char *)scratch + r * call.ldc * acc, call.n);
}

static void tile_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_gemm *g = (const td_gemm *)k->state;
    int64_t tiles = g->tiles_m * g->tiles_n;
    if (tiles > 1) {
        int64_t t = chunk % tiles;
        run_tile(k, g, chunk / tiles, t / g->tiles_n, t % g->tiles_n, scratch);
        return;
    }
    int64_t b, e;
    td_cut_range(g->batch, g->group, chunk, &b, &e);
    for (; b < e; b++) run_tile(k, g, b, 0, 0, scratch);
}

/* Multiplications in one ns on one core, roughly. */
static double speed(unsigned acc)
{
    switch (acc) {
    case TD_FLOAT32: return 40;
    case TD_FLOAT64: return 20;
    case TD_COMPLEX64: return 10;
    case TD_COMPLEX128: return 5;
    default: return 4;
    }
}

/* Rows of 32 to 128 x all columns, until a tile would take milliseconds: then columns are cut too, in wide strips
 * (narrow ones of a transposed B lose half the speed). */
static void cut(td_gemm *g)
{
    double macs = (double)g->m * (double)g->n * (double)td_max64(1, g->k), per_ns = speed(g->acc);
    int64_t want = (int64_t)(macs / (TD_GEMM_TILE_NS * per_ns)) + 1;
    int64_t tiles = td_min64(want, td_cut(g->m, TD_GEMM_TILE_LEAST));
    int64_t rows = td_cut(td_cut(g->m, td_max64(1, tiles)), TD_GEMM_TILE_STEP) * TD_GEMM_TILE_STEP;
    g->tile_m = td_min64(td_max64(1, rows), TD_GEMM_TILE_ROWS);
    double row_macs = (double)g->tile_m * (double)td_max64(1, g->k);
    int64_t wide = (int64_t)(TD_GEMM_STRIP_NS * per_ns / row_macs) / 64 * 64;
    g->tile_n = td_min64(g->n, td_max64(TD_GEMM_TILE_NARROW, wide));
    if (g->acc != g->dtype) g->tile_n = td_min64(g->tile_n, TD_GEMM_TILE_HALF_COLS); /* its tile lies in scratch */
    g->tile_n = td_max64(1, td_min64(g->tile_n, TD_GEMM_TILE_COLS));
    g->tiles_m = td_cut(g->m, g->tile_m);
    g->tiles_n = td_cut(g->n, g->tile_n);
    double one = macs / per_ns + 200;
    g->group = td_max64(1, (int64_t)(TD_GEMM_GROUP_NS / one));
}

static int check(const td_gemm *g, const char *kernel, td_error *e)
{
    if (g->dtype == TD_BOOL) return td_fail(e, TD_E_UNSUPPORTED, "%s has no CPU kernel for bool", kernel);
    if (g->n > INT_MAX || g->k > INT_MAX)
        return td_fail(e, TD_E_UNSUPPORTED, "%s: a matrix has more than %d columns", kernel, INT_MAX);
    return 0;
}

static void addresses_of(const td_kcall *k, td_gemm_mat *x, int in)
{
    x->data = k->in[in - 1].data;
    if (x->rows) x->rows = k->in[in - 1].desc;
}

static void addresses(td_kcall *k)
{
    td_gemm *g = (td_gemm *)k->state;
    addresses_of(k, &g->a, g->in_a);
    addresses_of(k, &g->b, g->in_b);
    if (g->in_d) addresses_of(k, &g->d, g->in_d);
    g->c = k->out[0].data;
}

static void moves(td_kcall *k, const td_gemm *g)
{
    k->sure = true;
    if (g->in_a && g->in_b && (g->in_d || !g->has_d)) td_plan_moves(k, addresses, sizeof *g);
}

int td_gemm_plan(td_kcall *k, td_gemm *g, const char *kernel, td_error *e)
{
    g->acc = td_acc_dtype(g->dtype);
    if (check(g, kernel, e)) return e ? e->code : TD_E_UNSUPPORTED;
    if (g->batch * g->m * g->n == 0) return 0;
    if (td_gemm_wants_packing(g)) {
        td_gemm_plan_packed(k, g);
        moves(k, g);
        return 0;
    }
    double macs = (double)g->m * (double)g->n * (double)g->k;
    g->use_dnnl = td_gemm_prefers_dnnl(g->acc, g->m, g->n, g->k);
    if (uses_blas(g->acc) && !td_blas(e)) return TD_E_UNSUPPORTED;
    if (g->use_dnnl && !td_dnnl(NULL)) g->use_dnnl = 0;
    cut(g);
    g->pack_chunks_a = plan_operand(k, g, &g->a, g->m, g->k, &g->pack_rows_a);
    int64_t pack_b =
        worth_turning(g) ? plan_turned(k, g, &g->pack_rows_b) : plan_operand(k, g, &g->b, g->k, g->n, &g->pack_rows_b);
    td_plan_phase(k, pack_chunk, g->pack_chunks_a + pack_b);
    int64_t tiles = g->tiles_m * g->tiles_n;
    td_plan_phase(k, tile_chunk, tiles > 1 ? tiles * g->batch : td_cut(g->batch, g->group));
    if (g->acc != g->dtype) k->scratch_bytes = (size_t)(g->tile_m * g->tile_n) * td_dtype_size(g->acc);
    k->cost_ns += (double)g->batch * (macs / speed(g->acc) + 200) + (g->pack_chunks_a + pack_b) * 20000.0;
    memcpy(k->state, g, sizeof *g);
    moves(k, g);
    return 0;
}
