/* Attention by tiles: softmax(q k' scale + mask) v, and the log of each row's sum. See attention.h.
 *
 * First keys and values are packed, a tile at a time; then a chunk takes a tile of queries through all tiles of keys. The
 * largest score and the sum of a row are those of what it has seen so far, and what was gathered counts anew when a larger
 * one comes. A row that sees nothing is zero. */
#include "daemon/kernels/cpu/sequences/attention.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/plans.h"
#include <math.h>

const td_attention_fns *td_attention_loops(const td_attention *s)
{
    return s->wide ? &td_isa_now->attention->f64 : &td_isa_now->attention->f32;
}

int td_attention_begin(td_kcall *k, td_attention *s, int q, int key, int v, const char *name, td_error *e)
{
    const int64_t *qs = k->in[q].desc->shape, *ks = k->in[key].desc->shape, *vs = k->in[v].desc->shape;
    *s = (td_attention){.batch = qs[0], .heads = qs[1], .pairs = ks[1], .n = qs[2], .m = ks[2], .e = qs[3], .f = vs[3]};
    if (!td_dtype_is_float(k->in[q].desc->dtype)) return td_refuse_dtype(k, q, name, e);
    s->wide = k->in[q].desc->dtype == TD_FLOAT64;
    s->causal = td_attr_bool(k->attrs, 0);
    s->scale = td_attr_float(k->attrs, 1);
    s->row_tiles = td_cut(s->n, TD_ATTENTION_ROWS);
    s->col_tiles = td_cut(s->m, TD_ATTENTION_COLS);
    k->cost_ns = (double)s->batch * (double)s->heads * (double)s->n * (double)s->m *
                     ((double)(s->e + s->f) / (s->wide ? 15 : 30) + (s->wide ? 10 : 1)) / (s->causal ? 2 : 1) + 1000;
    return 0;
}

void td_attention_rows(const td_attention *s, const td_karg *x, int64_t b, int64_t h, int64_t r0, int64_t rows, void *to)
{
    const td_desc *d = x->desc;
    int64_t width = d->shape[3], from = (int64_t)td_dtype_size(d->dtype);
    const char *at = (const char *)x->data + (b * d->stride[0] + h * d->stride[1] + r0 * d->stride[2]) * from;
    for (int64_t r = 0; r < rows; r++)
        td_row_load((char *)to + r * width * td_attention_size(s), at + r * d->stride[2] * from, d->stride[3], d->dtype, width);
}

#define DEFINE_MASK(T, S)                                                                                              \
    static void behind_##S(T *s, int64_t from, int64_t n)                                                              \
    {                                                                                                                  \
        for (int64_t j = td_max64(0, from); j < n; j++) s[j] = -(T)INFINITY;                                           \
    }                                                                                                                  \
    static void unseen_##S(T *s, const char *mask, int64_t step, int64_t n)                                            \
    {                                                                                                                  \
        for (int64_t j = 0; j < n; j++) s[j] = mask[j * step] ? s[j] : -(T)INFINITY;                                   \
    }                                                                                                                  \
    static void added_##S(T *restrict s, const T *restrict line, int64_t n)                                            \
    {                                                                                                                  \
        for (int64_t j = 0; j < n; j++) s[j] += line[j];                                                               \
    }
DEFINE_MASK(float, f32)
DEFINE_MASK(double, f64)

/* Where the mask's row for query r begins; *step leads along it. It is broadcast. */
static const char *mask_row(const td_karg *mask, int64_t b, int64_t h, int64_t r, int64_t *step)
{
    const td_desc *d = mask->desc;
    const int64_t at[4] = {b, h, r, 0};
    int64_t place = 0;
    for (int i = 0; i < d->ndim - 1; i++)
        if (d->shape[i] != 1) place += at[4 - d->ndim + i] * d->stride[i];
    *step = d->ndim && d->shape[d->ndim - 1] != 1 ? d->stride[d->ndim - 1] : 0;
    return (const char *)mask->data + place * (int64_t)td_dtype_size(d->dtype);
}

void td_attention_mask(const td_attention *s, const td_karg *mask, int64_t b, int64_t h, int64_t r0, int64_t rows, int64_t c0,
                       int64_t cols, void *scores, void *line)
{
    for (int64_t r = 0; r < rows; r++) {
        char *row = (char *)scores + r * TD_ATTENTION_COLS * td_attention_size(s);
        int64_t step;
        if (s->causal && s->wide) behind_f64((double *)(void *)row, r0 + r + 1 - c0, cols);
        else if (s->causal) behind_f32((float *)(void *)row, r0 + r + 1 - c0, cols);
        if (td_absent(mask)) continue;
        unsigned dtype = mask->desc->dtype;
        const char *from = mask_row(mask, b, h, r0 + r, &step);
        from += c0 * step * (int64_t)td_dtype_size(dtype);
        if (dtype == TD_BOOL) {
            if (s->wide) unseen_f64((double *)(void *)row, from, step, cols);
            else unseen_f32((float *)(void *)row, from, step, cols);
            continue;
        }
        td_row_load(line, from, step, dtype, cols);
        if (s->wide) added_f64((double *)(void *)row, line, cols);
        else added_f32((float *)(void *)row, line, cols);
    }
}

/* ---- forward */

/* Elements of one tile of keys and of values, packed. */
static int64_t keys_size(const td_attention *s)
{
    return td_product_packed(s->wide, TD_ATTENTION_COLS, s->e);
}
static int64_t values_size(const td_attention *s)
{
    return td_product_packed(s->wide, s->f, TD_ATTENTION_COLS);
}

static td_product by_keys(const td_attention *s, const void *rows, int64_t cols)
{
    return (td_product){.wide = s->wide, .turned = true, .n = cols, .k = s->e, .b = td_even_lines(rows, s->e, 1)};
}
static td_product by_values(const td_attention *s, const void *rows, int64_t cols)
{
    return (td_product){.wide = s->wide, .n = s->f, .k = cols, .b = td_even_lines(rows, s->f, 1)};
}

static void pack_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_attention *s = (const td_attention *)k->state;
    int64_t head = chunk / s->col_tiles, c0, c1, size = td_attention_size(s);
    td_cut_range(s->m, TD_ATTENTION_COLS, chunk % s->col_tiles, &c0, &c1);
    td_attention_rows(s, &k->in[1], head / s->pairs, head % s->pairs, c0, c1 - c0, scratch);
    td_product p = by_keys(s, scratch, c1 - c0);
    td_product_pack(&p, 0, td_cut(p.n, td_product_cols(s->wide)), (char *)k->work + s->keys_at + chunk * keys_size(s) * size);
    td_attention_rows(s, &k->in[2], head / s->pairs, head % s->pairs, c0, c1 - c0, scratch);
    p = by_values(s, scratch, c1 - c0);
    td_product_pack(&p, 0, td_cut(p.n, td_product_cols(s->wide)), (char *)k->work + s->values_at + chunk * values_size(s) * size);
}

typedef struct tile { /* of queries, on its way */
    int64_t b, h, r0, rows;
    char *q, *y, *scores, *line;
    double *top, *sum;
} tile;

static void tile_begin(const td_kcall *k, const td_attention *s, tile *t, int64_t chunk, char *scratch)
{
    int64_t head = chunk / s->row_tiles, size = td_attention_size(s), r1;
    td_cut_range(s->n, TD_ATTENTION_ROWS, chunk % s->row_tiles, &t->r0, &r1);
    *t = (tile){head / s->heads, head % s->heads, t->r0, r1 - t->r0};
    t->q = scratch;
    t->y = t->q + TD_ATTENTION_ROWS * s->e * size;
    t->scores = t->y + TD_ATTENTION_ROWS * s->f * size;
    t->line = t->scores + TD_ATTENTION_ROWS * TD_ATTENTION_COLS * size;
    t->top = (double *)(void *)(t->line + TD_ATTENTION_COLS * 8);
    t->sum = t->top + TD_ATTENTION_ROWS;
    td_attention_rows(s, &k->in[0], t->b, t->h, t->r0, t->rows, t->q);
    td_attention_loops(s)->times(t->rows * s->e, t->q, s->scale);
    memset(t->y, 0, (size_t)(t->rows * s->f * size));
    for (int64_t r = 0; r < t->rows; r++) t->top[r] = -(double)INFINITY, t->sum[r] = 0;
}

/* One tile of keys. */
static bool tile_step(td_kcall *k, const td_attention *s, const tile *t, int64_t col)
{
    const td_attention_fns *f = td_attention_loops(s);
    int64_t c0, c1, size = td_attention_size(s), at = (t->b * s->pairs + t->h / (s->heads / s->pairs)) * s->col_tiles + col;
    td_cut_range(s->m, TD_ATTENTION_COLS, col, &c0, &c1);
    td_product p = by_keys(s, NULL, c1 - c0), v = by_values(s, NULL, c1 - c0);
    p.packed = (char *)k->work + s->keys_at + at * keys_size(s) * size;
    p.a = td_even_lines(t->q, s->e, 1);
    p.m = t->rows, p.c = t->scores, p.ldc = TD_ATTENTION_COLS;
    if (td_product_run(k, &p)) return true;
    if (!td_absent(&k->in[3]) || (s->causal && c1 > t->r0 + 1))
        td_attention_mask(s, &k->in[3], t->b, t->h, t->r0, t->rows, c0, c1 - c0, t->scores, t->line);
    for (int64_t r = 0; r < t->rows; r++) {
        double scale, sum = f->part(c1 - c0, t->scores + r * TD_ATTENTION_COLS * size, &t->top[r], &scale);
        t->sum[r] = t->sum[r] * scale + sum;
        if (scale != 1) f->times(s->f, t->y + r * s->f * size, scale);
    }
    v.packed = (char *)k->work + s->values_at + at * values_size(s) * size;
    v.a = td_even_lines(t->scores, TD_ATTENTION_COLS, 1);
    v.m = t->rows, v.c = t->y, v.ldc = s->f, v.add = true;
    return td_product_run(k, &v) || td_kernel_rest(k);
}

static void tile_end(const td_kcall *k, const td_attention *s, const tile *t)
{
    int64_t at = (t->b * s->heads + t->h) * s->n + t->r0, size = td_attention_size(s);
    unsigned dtype = k->out[0].desc->dtype, sums = k->out[1].desc->dtype;
    for (int64_t r = 0; r < t->rows; r++) {
        char *y = t->y + r * s->f * size;
        if (t->sum[r] != 0) td_attention_loops(s)->times(s->f, y, 1 / t->sum[r]);
        td_row_store((char *)k->out[0].data + (at + r) * s->f * (int64_t)td_dtype_size(dtype), 1, dtype, y, s->f);
        double lse = t->sum[r] == 0 ? 0 : t->top[r] + log(t->sum[r]);
        td_element_from_double((char *)k->out[1].data + (at + r) * (int64_t)td_dtype_size(sums), sums, lse);
    }
}

static void queries_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_attention *s = (const td_attention *)k->state;
    tile t;
    tile_begin(k, s, &t, chunk, scratch);
    for (int64_t col = 0; col < s->col_tiles; col++) {
        if (!td_attention_sees(s, t.r0 + t.rows, col * TD_ATTENTION_COLS)) break;
        if (tile_step(k, s, &t, col)) return;
    }
    tile_end(k, s, &t);
}

int td_cpu_plan_tiled_attention(td_kcall *k, td_error *e)
{
    td_attention *s = (td_attention *)k->state;
    int rc = td_attention_begin(k, s, 0, 1, 2, "tiled_attention", e);
    if (rc) return rc;
    int64_t size = td_attention_size(s), tiles = s->batch * s->pairs * s->col_tiles;
    s->keys_at = td_plan_work(k, (size_t)(tiles * keys_size(s) * size));
    s->values_at = td_plan_work(k, (size_t)(tiles * values_size(s) * size));
    td_plan_phase(k, pack_chunk, tiles);
    td_plan_phase(k, queries_chunk, s->batch * s->heads * s->row_tiles);
    size_t rows = (size_t)(TD_ATTENTION_ROWS * (s->e + s->f + TD_ATTENTION_COLS) * size + TD_ATTENTION_COLS * 8 + 2 * TD_ATTENTION_ROWS * 8);
    size_t pack = (size_t)(TD_ATTENTION_COLS * td_max64(s->e, s->f) * size);
    k->scratch_bytes = rows > pack ? rows : pack;
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}
