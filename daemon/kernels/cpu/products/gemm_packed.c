/* Large float32 products: packing, and chunks of tiles. See gemm_packed.h.
 *
 * Invariant: a panel of A is packed as K x (rows of a tile), one of B as K x (columns of a tile), and what lies beyond
 * the matrix is zero; each panel and each block of C is written by one chunk. K is walked in order, in blocks that stay
 * in second-level cache, by the chunk that owns the block of C. */
#include "daemon/kernels/cpu/products/gemm_packed.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/vec/gemm.h"

static int64_t panel_size(const td_gemm *g, int width)
{
    return g->k * width;
}

static int64_t matrices(const td_gemm *g, const td_gemm_mat *x)
{
    return x->bs == 0 ? 1 : g->batch;
}

bool td_gemm_wants_packing(const td_gemm *g)
{
    const td_gemm_kernel *u = td_isa_now->gemm;
    double m = (double)g->m, n = (double)g->n, k = (double)g->k;
    if (!u->rows || g->acc != TD_FLOAT32 || g->m < TD_PACKED_SIDE || g->n < TD_PACKED_SIDE || g->k < TD_PACKED_DEPTH ||
        m * n * k < TD_PACKED_LARGE)
        return false;
    double bytes = ((double)matrices(g, &g->a) * (m + u->rows) + (double)matrices(g, &g->b) * (n + u->cols)) * k * 4;
    return bytes < TD_PACKED_WORK;
}

/* ---- packing */

/* One panel of `width` lines, of which `lines` are there: to[p * width + i] = line i at p. */
static void pack_panel(float *to, const td_gemm *g, const char *from, int64_t line, int64_t step, int width, int lines)
{
    int64_t size = (int64_t)td_dtype_size(g->dtype);
    if (lines < width) memset(to, 0, (size_t)panel_size(g, width) * sizeof *to);
    if (step == 1 && g->dtype == TD_FLOAT32) {
        td_isa_now->transpose(to, width * 4, from, line * 4, (int)g->k, lines, 4);
    } else if (line == 1) {
        for (int64_t p = 0; p < g->k; p++) td_row_load(to + p * width, from + p * step * size, 1, g->dtype, lines);
    } else {
        float part[TD_PACKED_K];
        for (int64_t p0 = 0; p0 < g->k; p0 += TD_PACKED_K) {
            int64_t n = td_min64(TD_PACKED_K, g->k - p0);
            for (int i = 0; i < lines; i++) {
                td_row_load(part, from + (i * line + p0 * step) * size, step, g->dtype, n);
                for (int64_t p = 0; p < n; p++) to[(p0 + p) * width + i] = part[p];
            }
        }
    }
}

/* Each row lies in a page of its own, where the processor does not look ahead by itself. */
enum { AHEAD = 12 };
static void fetch_early(const float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i += TD_LINE_BYTES / (int64_t)sizeof *row) __builtin_prefetch(row + i);
}

/* Whole panels whose lines lie side by side, one after the other: what is read is longer than a panel is wide. */
static void pack_side_by_side(td_kcall *k, float *to, const td_gemm *g, const float *from, int64_t step, int width,
                              int64_t panels)
{
    int64_t done = 0;
    for (int64_t p = 0; p < g->k; p++, from += step, to += width) {
        if (td_kernel_rest_after(k, &done, panels * width)) return;
        if (p + AHEAD < g->k) fetch_early(from + AHEAD * step, panels * width);
        for (int64_t i = 0; i < panels; i++)
            memcpy(to + i * panel_size(g, width), from + i * width, (size_t)width * sizeof *to);
    }
}

/* Element offset of row r when rows are several dimensions. */
static int64_t spread_row(const td_gemm_mat *x, int64_t r)
{
    int64_t at = 0;
    for (int d = x->rows->ndim - 2; d >= 0; d--) {
        at += r % x->rows->shape[d] * x->rows->stride[d];
        r /= x->rows->shape[d];
    }
    return at;
}

/* The same, row by row. */
static void pack_spread(float *to, const td_gemm *g, const td_gemm_mat *x, int64_t first, int width, int lines)
{
    float part[TD_PACKED_K];
    int64_t size = (int64_t)td_dtype_size(g->dtype);
    if (lines < width) memset(to, 0, (size_t)panel_size(g, width) * sizeof *to);
    for (int i = 0; i < lines; i++) {
        const char *from = (const char *)x->data + spread_row(x, first + i) * size;
        for (int64_t p0 = 0; p0 < g->k; p0 += TD_PACKED_K) {
            int64_t n = td_min64(TD_PACKED_K, g->k - p0);
            td_row_load(part, from + p0 * x->cs * size, x->cs, g->dtype, n);
            for (int64_t p = 0; p < n; p++) to[(p0 + p) * width + i] = part[p];
        }
    }
}

static float *packed(const td_kcall *k, const td_gemm_mat *x, bool is_a)
{
    return is_a || !k->packing.in ? (float *)((char *)k->work + x->pack_at) : td_prepack_at(k);
}

/* Panels [b, e) of all matrices of an operand; `lines` long, its strides those across and along K. */
static void pack_panels(td_kcall *k, const td_gemm *g, const td_gemm_mat *x, bool is_a, int64_t b, int64_t e)
{
    int width = is_a ? td_isa_now->gemm->rows : td_isa_now->gemm->cols;
    int64_t lines = is_a ? g->m : g->n, line = is_a ? x->rs : x->cs, step = is_a ? x->cs : x->rs;
    int64_t each = td_cut(lines, width), size = (int64_t)td_dtype_size(g->dtype);
    float *to = packed(k, x, is_a) + b * panel_size(g, width);
    int64_t done = 0;
    while (b < e && each) { /* without lines there are no panels */
        int64_t i = b / each, first = b % each * width, whole = td_min64(e - b, (lines - first) / width);
        int count = (int)td_min64(width, lines - first);
        bool together = !x->rows && line == 1 && step != 1 && g->dtype == TD_FLOAT32 && whole > 0;
        if (together) {
            const float *from = (const float *)x->data + i * x->bs + first;
            pack_side_by_side(k, to, g, from, step, width, whole);
            b += whole, to += whole * panel_size(g, width);
            continue;
        }
        if (x->rows) pack_spread(to, g, x, first, width, count);
        else pack_panel(to, g, (const char *)x->data + (i * x->bs + first * line) * size, line, step, width, count);
        b++, to += panel_size(g, width);
        if (td_kernel_rest_after(k, &done, panel_size(g, width))) return;
    }
}

static int64_t all_panels(const td_gemm *g, const td_gemm_mat *x, bool is_a)
{
    return matrices(g, x) * (is_a ? td_cut(g->m, td_isa_now->gemm->rows) : td_cut(g->n, td_isa_now->gemm->cols));
}

static void pack_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_gemm *g = (const td_gemm *)k->state;
    bool is_a = chunk < g->pack_chunks_a;
    const td_gemm_mat *x = is_a ? &g->a : &g->b;
    int64_t b, e;
    (void)scratch;
    td_cut_range(all_panels(g, x, is_a), is_a ? g->pack_rows_a : g->pack_rows_b,
                 is_a ? chunk : chunk - g->pack_chunks_a, &b, &e);
    pack_panels(k, g, x, is_a, b, e);
    if (!is_a && k->packing.in) td_prepack_made(k);
}

/* ---- blocks of C */

typedef struct block {
    const float *a, *b; /* its first panels */
    float *c;
    int64_t rows, cols, ldc;
    float alpha, beta;
} block;

/* A tile that hangs over the edge of C: the same work on a copy. */
static void edge_tile(const td_gemm_kernel *u, int64_t k, const float *a, const float *b, float *c, const block *t,
                      int64_t rows, int64_t cols, float beta)
{
    float whole[TD_GEMM_TILE_MAX] = {0};
    for (int64_t i = 0; beta != 0 && i < rows; i++)
        memcpy(whole + i * u->cols, c + i * t->ldc, (size_t)cols * sizeof *c);
    u->tile(k, a, b, whole, u->cols, t->alpha, beta);
    for (int64_t i = 0; i < rows; i++) memcpy(c + i * t->ldc, whole + i * u->cols, (size_t)cols * sizeof *c);
}

static void run_block(td_kcall *k, const td_gemm *g, const block *t)
{
    const td_gemm_kernel *u = td_isa_now->gemm;
    int64_t done = 0;
    for (int64_t p = 0; p < g->k; p += TD_PACKED_K) {
        int64_t depth = td_min64(TD_PACKED_K, g->k - p);
        float beta = p ? 1 : t->beta;
        for (int64_t j = 0; j < t->cols; j += u->cols) {
            const float *b = t->b + j * g->k + p * u->cols;
            if (td_kernel_rest_after(k, &done, t->rows * depth)) return;
            for (int64_t i = 0; i < t->rows; i += u->rows) {
                const float *a = t->a + i * g->k + p * u->rows;
                float *c = t->c + i * t->ldc + j;
                int64_t rows = td_min64(u->rows, t->rows - i), cols = td_min64(u->cols, t->cols - j);
                if (rows == u->rows && cols == u->cols) u->tile(depth, a, b, c, t->ldc, t->alpha, beta);
                else edge_tile(u, depth, a, b, c, t, rows, cols, beta);
            }
        }
    }
}

/* Blocks of a matrix in groups of rows: a group's part of A stays in cache while all columns pass. */
static void locate(const td_gemm *g, int64_t chunk, int64_t *tr, int64_t *tc)
{
    int64_t first = chunk / (g->group * g->tiles_n) * g->group;
    int64_t rows = td_min64(g->group, g->tiles_m - first), rest = chunk - first * g->tiles_n;
    *tr = first + rest % rows;
    *tc = rest / rows;
}

static void block_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_gemm *g = (const td_gemm *)k->state;
    const td_gemm_kernel *u = td_isa_now->gemm;
    int64_t tiles = g->tiles_m * g->tiles_n, i = chunk / tiles, tr, tc, r0, r1, c0, c1;
    locate(g, chunk % tiles, &tr, &tc);
    td_cut_range(g->m, g->tile_m, tr, &r0, &r1);
    td_cut_range(g->n, g->tile_n, tc, &c0, &c1);
    bool direct = g->dtype == g->acc;
    int64_t size = (int64_t)td_dtype_size(g->dtype);
    char *out = (char *)g->c + ((i * g->m + r0) * g->n + c0) * size;
    int64_t ia = g->a.bs == 0 ? 0 : i, ib = g->b.bs == 0 ? 0 : i;
    block t = {.a = packed(k, &g->a, true) + (ia * td_cut(g->m, u->rows) * u->rows + r0) * g->k,
               .b = packed(k, &g->b, false) + (ib * td_cut(g->n, u->cols) * u->cols + c0) * g->k,
               .c = direct ? (float *)(void *)out : scratch,
               .rows = r1 - r0,
               .cols = c1 - c0,
               .ldc = direct ? g->n : c1 - c0,
               .alpha = td_gemm_scalar(g->alpha),
               .beta = g->has_d ? td_gemm_scalar(g->beta) : 0};
    if (g->has_d) td_gemm_load_d(g, t.c, t.ldc, i, r0, t.rows, c0, t.cols);
    run_block(k, g, &t);
    for (int64_t r = 0; !direct && r < t.rows; r++)
        td_row_store(out + r * g->n * size, 1, g->dtype, t.c + r * t.ldc, t.cols);
}

/* ---- the cut */

static int64_t plan_pack(td_kcall *k, const td_gemm *g, td_gemm_mat *x, bool is_a, int64_t *per)
{
    int width = is_a ? td_isa_now->gemm->rows : td_isa_now->gemm->cols;
    int64_t panels = all_panels(g, x, is_a);
    x->pack_at = td_plan_work(k, (size_t)(panels * panel_size(g, width)) * sizeof(float));
    *per = td_max64(is_a ? 1 : TD_PACKED_PANELS, TD_PACKED_PANEL / panel_size(g, width));
    return td_cut(panels, *per);
}

/* Blocks of C as square as panels allow; not smaller than what keeps the reading of panels cheap. */
static void cut(td_gemm *g)
{
    const td_gemm_kernel *u = td_isa_now->gemm;
    int64_t area = (int64_t)TD_PACKED_NS * u->speed / g->k, rows = TD_PACKED_ROWS, cols = TD_PACKED_COLS;
    while ((rows + u->rows) * (rows + u->rows) <= area && rows < TD_PACKED_MOST) rows += u->rows;
    while ((cols + u->cols) * rows <= area && cols < TD_PACKED_MOST) cols += u->cols;
    g->tile_m = rows;
    g->tile_n = cols;
    g->tiles_m = td_cut(g->m, rows);
    g->tiles_n = td_cut(g->n, cols);
    g->group = td_max64(1, TD_PACKED_GROUP / (rows * g->k * (int64_t)sizeof(float)));
}

/* Of B's panels. */
static int panels_key(const td_kcall *k, int64_t key[TD_KPACK_KEY])
{
    const td_gemm *g = (const td_gemm *)k->state;
    const int64_t all[] = {g->dtype, g->n, g->k, g->b.rs, g->b.cs, g->b.bs, matrices(g, &g->b), g->pack_rows_b};
    memcpy(key, all, sizeof all);
    return sizeof all / sizeof *all;
}

void td_gemm_plan_packed(td_kcall *k, td_gemm *g)
{
    cut(g);
    g->pack_chunks_a = plan_pack(k, g, &g->a, true, &g->pack_rows_a);
    int64_t pack_b = plan_pack(k, g, &g->b, false, &g->pack_rows_b);
    size_t bytes = k->work_bytes - g->b.pack_at;
    if (g->in_b && !g->b.rows && !k->nphases)
        k->packing = (td_packing){g->in_b, g->pack_chunks_a, bytes, g->b.pack_at, panels_key};
    td_plan_phase(k, pack_chunk, g->pack_chunks_a + pack_b);
    td_plan_phase(k, block_chunk, g->batch * g->tiles_m * g->tiles_n);
    if (g->acc != g->dtype) k->scratch_bytes = (size_t)(g->tile_m * g->tile_n) * sizeof(float);
    k->cost_ns += (double)g->batch * (double)g->m * (double)g->n * (double)g->k / td_isa_now->gemm->speed + 2000;
    memcpy(k->state, g, sizeof *g);
}
