/* The gradients of attention by tiles. See attention.h.
 *
 * A chunk has a head of k and v, or a part of its keys where there are few heads: for each tile of keys it goes through
 * the tiles of all queries that see it, works out their scores once more and keeps sums for k and v; what q gets is added
 * to the chunk's own part in work memory, and the last phase adds the parts in order. How many parts there are follows
 * from shapes alone. */
#include "daemon/kernels/cpu/sequences/attention.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/plans.h"

enum { G, Q, K, V, MASK, Y, LSE };
enum { WANT_Q = 1, WANT_K = 2, WANT_V = 4 };

typedef struct tiles { /* what a chunk has in scratch */
    int64_t b, pair, c0, cols, h, r0, rows;
    char *k, *v, *q, *g, *scores, *d, *dk, *dv, *keys, *values, *own_keys, *line, *room;
} tiles;

/* How many bytes of scratch; `t` (may be NULL) is laid out over `at`. */
static size_t lay(const td_attention *s, tiles *t, char *at)
{
    const int64_t size = td_attention_size(s), r = TD_ATTENTION_ROWS, c = TD_ATTENTION_COLS;
    const int64_t elements[13] = {c * s->e, c * s->f, r * td_max64(s->e, s->f), r * s->f, r * c, r * c, c * s->e, c * s->f,
                                  td_product_packed(s->wide, c, s->e), td_product_packed(s->wide, c, s->f),
                                  td_product_packed(s->wide, s->e, c), c * 2, (int64_t)td_product_room(s->wide) / size};
    tiles unused;
    if (!t) t = &unused;
    char **to[13] = {&t->k, &t->v, &t->q, &t->g, &t->scores, &t->d, &t->dk, &t->dv, &t->keys, &t->values, &t->own_keys, &t->line, &t->room};
    size_t used = 0;
    for (int i = 0; i < 13; i++) {
        *to[i] = at ? at + used : NULL;
        used += ((size_t)(elements[i] * size) + 63) & ~(size_t)63;
    }
    return used;
}

static td_product product(const td_attention *s, int64_t m, int64_t n, int64_t k, td_operand_lines a, void *c, int64_t ldc)
{
    return (td_product){.wide = s->wide, .m = m, .n = n, .k = k, .a = a, .c = c, .ldc = ldc};
}

/* rows x cols = lines of `rows` (width n) times the packed lines. */
static bool by_packed(td_kcall *k, const td_attention *s, const tiles *t, const char *rows, int64_t n, const char *packed, char *to)
{
    td_product p = product(s, t->rows, t->cols, n, td_even_lines(rows, n, 1), to, TD_ATTENTION_COLS);
    p.packed = packed;
    return td_product_run(k, &p);
}

/* to (cols x n) += the turned tile times lines of `rows`. */
static bool gather(td_kcall *k, const td_attention *s, const tiles *t, const char *tile, const char *rows, int64_t n, char *to)
{
    td_product p = product(s, t->cols, n, t->rows, td_even_lines(tile, 1, TD_ATTENTION_COLS), to, n);
    p.b = td_even_lines(rows, n, 1);
    p.room = t->room;
    p.add = true;
    return td_product_run(k, &p);
}

static void pack(const td_attention *s, const char *lines, int64_t width, int64_t cols, bool turned, char *to)
{
    td_product p = {.wide = s->wide, .turned = turned, .n = turned ? cols : width, .k = turned ? width : cols, .b = td_even_lines(lines, width, 1)};
    td_product_pack(&p, 0, td_cut(p.n, td_product_cols(s->wide)), to);
}

static double number(const td_karg *a, int64_t b, int64_t h, int64_t r)
{
    const td_desc *d = a->desc;
    int64_t at = b * d->stride[0] + h * d->stride[1] + r * d->stride[2];
    return td_element_to_double((const char *)a->data + at * (int64_t)td_dtype_size(d->dtype), d->dtype);
}

/* Scores become weights, and d (what arrives at them) what arrives at the scores. t->q has y in between. */
static void rows_back(td_kcall *k, const td_attention *s, const tiles *t)
{
    const td_attention_fns *f = td_attention_loops(s);
    int64_t size = td_attention_size(s);
    if (s->col_tiles > 1) td_attention_rows(s, &k->in[Y], t->b, t->h, t->r0, t->rows, t->q);
    for (int64_t r = 0; r < t->rows; r++) {
        char *scores = t->scores + r * TD_ATTENTION_COLS * size, *d = t->d + r * TD_ATTENTION_COLS * size;
        double lse = number(&k->in[LSE], t->b, t->h, t->r0 + r);
        if (s->col_tiles > 1) f->back(t->cols, scores, d, lse, f->dot(s->f, t->g + r * s->f * size, t->q + r * s->f * size));
        else f->back_alone(t->cols, scores, d, lse);
    }
}

/* This head's rows of the part of group `g` of the gradient by q. */
static char *own_part(const td_kcall *k, const td_attention *s, int64_t g, int64_t b, int64_t h, int64_t r)
{
    int64_t heads = s->batch * s->heads;
    return (char *)k->work + s->dq_at + (((g * heads + b * s->heads + h) * s->n + r) * s->e) * td_attention_size(s);
}

static bool queries(td_kcall *k, const td_attention *s, tiles *t, int64_t group, bool first)
{
    td_attention_rows(s, &k->in[Q], t->b, t->h, t->r0, t->rows, t->q);
    td_attention_loops(s)->times(t->rows * s->e, t->q, s->scale);
    td_attention_rows(s, &k->in[G], t->b, t->h, t->r0, t->rows, t->g);
    if (by_packed(k, s, t, t->q, s->e, t->keys, t->scores) || by_packed(k, s, t, t->g, s->f, t->values, t->d)) return true;
    td_attention_mask(s, &k->in[MASK], t->b, t->h, t->r0, t->rows, t->c0, t->cols, t->scores, t->line);
    rows_back(k, s, t);
    if (s->mask & WANT_V && gather(k, s, t, t->scores, t->g, s->f, t->dv)) return true;
    if (s->mask & WANT_K) {
        td_attention_rows(s, &k->in[Q], t->b, t->h, t->r0, t->rows, t->q);
        td_attention_loops(s)->times(t->rows * s->e, t->q, s->scale);
        if (gather(k, s, t, t->d, t->q, s->e, t->dk)) return true;
    }
    if (!(s->mask & WANT_Q)) return td_kernel_rest(k);
    td_product p = product(s, t->rows, s->e, t->cols, td_even_lines(t->d, TD_ATTENTION_COLS, 1), own_part(k, s, group, t->b, t->h, t->r0), s->e);
    p.packed = t->own_keys;
    p.add = !first;
    return td_product_run(k, &p) || td_kernel_rest(k);
}

static void store(const td_karg *out, const td_attention *s, const tiles *t, const char *from, int64_t width)
{
    unsigned dtype = out->desc->dtype;
    int64_t at = ((t->b * s->pairs + t->pair) * s->m + t->c0) * width;
    td_row_store((char *)out->data + at * (int64_t)td_dtype_size(dtype), 1, dtype, from, t->cols * width);
}

/* Queries that are behind all keys of a tile have nothing of it: the first tile that sees it. */
static bool keys(td_kcall *k, const td_attention *s, tiles *t, int64_t group, bool first)
{
    int64_t size = td_attention_size(s), share = s->heads / s->pairs, r1;
    td_attention_rows(s, &k->in[K], t->b, t->pair, t->c0, t->cols, t->k);
    td_attention_rows(s, &k->in[V], t->b, t->pair, t->c0, t->cols, t->v);
    pack(s, t->k, s->e, t->cols, true, t->keys);
    pack(s, t->v, s->f, t->cols, true, t->values);
    pack(s, t->k, s->e, t->cols, false, t->own_keys);
    memset(t->dk, 0, (size_t)(t->cols * s->e * size));
    memset(t->dv, 0, (size_t)(t->cols * s->f * size));
    for (t->h = t->pair * share; t->h < (t->pair + 1) * share; t->h++)
        for (int64_t i = 0; i < s->row_tiles; i++) {
            td_cut_range(s->n, TD_ATTENTION_ROWS, i, &t->r0, &r1);
            t->rows = r1 - t->r0;
            if (!td_attention_sees(s, r1, t->c0)) {
                if (first && s->mask & WANT_Q)
                    memset(own_part(k, s, group, t->b, t->h, t->r0), 0, (size_t)(t->rows * s->e * size));
                continue;
            }
            if (queries(k, s, t, group, first)) return true;
        }
    if (s->mask & WANT_K) store(&k->out[1], s, t, t->dk, s->e);
    if (s->mask & WANT_V) store(&k->out[2], s, t, t->dv, s->f);
    return false;
}

static void heads_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_attention *s = (const td_attention *)k->state;
    tiles t;
    lay(s, &t, scratch);
    int64_t head = chunk / s->groups, group = chunk % s->groups, b, e, c1;
    t.b = head / s->pairs, t.pair = head % s->pairs;
    td_cut_range(s->col_tiles, s->per_group, group, &b, &e);
    for (int64_t col = b; col < e; col++) {
        td_cut_range(s->m, TD_ATTENTION_COLS, col, &t.c0, &c1);
        t.cols = c1 - t.c0;
        if (keys(k, s, &t, group, col == b)) return;
    }
}

/* dq: the parts of all groups, in order, times the scale. */
static void sum_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_attention *s = (const td_attention *)k->state;
    int64_t size = td_attention_size(s), all = s->batch * s->heads * s->n * s->e, b, e;
    unsigned dtype = k->out[0].desc->dtype, acc = s->wide ? TD_FLOAT64 : TD_FLOAT32;
    td_cut_range(all, TD_ATTENTION_SUM, chunk, &b, &e);
    const char *from = (const char *)k->work + s->dq_at + b * size;
    td_row_load(scratch, from, 1, acc, e - b);
    for (int64_t g = 1; g < s->groups; g++) {
        from += all * size;
        if (s->wide)
            for (int64_t i = 0; i < e - b; i++) ((double *)scratch)[i] += ((const double *)(const void *)from)[i];
        else
            for (int64_t i = 0; i < e - b; i++) ((float *)scratch)[i] += ((const float *)(const void *)from)[i];
    }
    td_attention_loops(s)->times(e - b, scratch, s->scale);
    td_row_store((char *)k->out[0].data + b * (int64_t)td_dtype_size(dtype), 1, dtype, scratch, e - b);
}

int td_cpu_plan_tiled_attention_backward(td_kcall *k, td_error *e)
{
    td_attention *s = (td_attention *)k->state;
    int rc = td_attention_begin(k, s, Q, K, V, "tiled_attention_backward", e);
    if (rc) return rc;
    s->mask = (uint8_t)(td_attr_int(k->attrs, 2) & 7);
    if (!s->mask) return 0;
    int64_t heads = s->batch * s->pairs, size = td_attention_size(s), all = s->batch * s->heads * s->n * s->e;
    s->per_group = td_cut(s->col_tiles, td_max64(1, td_min64(s->col_tiles, TD_ATTENTION_PARTS / td_max64(1, heads))));
    s->groups = td_cut(s->col_tiles, s->per_group);
    if (s->mask & WANT_Q) s->dq_at = td_plan_work(k, (size_t)(s->groups * all * size));
    td_plan_phase(k, heads_chunk, heads * s->groups);
    if (s->mask & WANT_Q) td_plan_phase(k, sum_chunk, td_cut(all, TD_ATTENTION_SUM));
    k->scratch_bytes = lay(s, NULL, NULL);
    if (k->scratch_bytes < (size_t)TD_ATTENTION_SUM * 8) k->scratch_bytes = (size_t)TD_ATTENTION_SUM * 8;
    k->cost_ns *= 3;
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}
