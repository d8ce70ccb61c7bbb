/* Planning reductions: see reduce.h. */
#include "daemon/kernels/cpu/reduce/reduce.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/tile.h"
#include <assert.h>
#include <string.h>

_Static_assert(sizeof(td_reduction) <= TD_KSTATE_BYTES, "a reduction fits the state");

enum { BATCH_BYTES = TD_REDUCE_BATCH * 8 };
/* Scratch: two buffers for reading, records a and b, complex results. */
enum { SCRATCH_A = 2 * TD_TILE_BYTES, SCRATCH_B = SCRATCH_A + BATCH_BYTES, SCRATCH_PAIRS = SCRATCH_B + BATCH_BYTES };

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static void merge_dims(int64_t *shape, int64_t *stride, uint8_t *ndim)
{
    int m = 0;
    for (int i = 1; i < *ndim; i++) {
        if (stride[i] == stride[m] * shape[m]) {
            shape[m] *= shape[i];
        } else {
            m++;
            shape[m] = shape[i];
            stride[m] = stride[i];
        }
    }
    *ndim = (uint8_t)(*ndim ? m + 1 : 0);
}

/* Deal the dimensions into kept and gone, innermost first, those of one element left out. */
static void split_dims(td_reduction *r, const td_desc *x, unsigned bits)
{
    r->kdims = r->gdims = 0;
    r->nkept = r->ngone = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        bool gone = bits >> i & 1;
        if (gone) r->ngone *= x->shape[i];
        else r->nkept *= x->shape[i];
        if (x->shape[i] == 1) continue;
        int64_t *shape = gone ? r->gone : r->kept, *stride = gone ? r->gone_stride : r->kept_stride;
        uint8_t *n = gone ? &r->gdims : &r->kdims;
        shape[*n] = x->shape[i];
        stride[(*n)++] = x->stride[i] * r->raw;
    }
}

/* Where order does not matter, what is reduced is read by rising stride. */
static void sort_gone(td_reduction *r)
{
    for (int i = 1; i < r->gdims; i++)
        for (int j = i; j > 0 && r->gone_stride[j] < r->gone_stride[j - 1]; j--) {
            int64_t n = r->gone[j], s = r->gone_stride[j];
            r->gone[j] = r->gone[j - 1];
            r->gone_stride[j] = r->gone_stride[j - 1];
            r->gone[j - 1] = n;
            r->gone_stride[j - 1] = s;
        }
}

static void at_least_one(int64_t *shape, int64_t *stride, uint8_t *ndim, int raw)
{
    if (*ndim) return;
    shape[0] = 1;
    stride[0] = raw;
    *ndim = 1;
}

/* Down the columns when a kept dimension is the fastest, or when rows are too short to be worth a call each. */
static bool prefer_columns(const td_reduction *r)
{
    if (r->ngone == 1) return r->kept[0] > 1;
    bool kept_first = r->kept_stride[0] < r->gone_stride[0];
    if (r->kept[0] >= TD_REDUCE_COLUMNS && (kept_first || r->gone_stride[0] == 0) && r->kept_stride[0] != 0)
        return true;
    return r->ngone <= TD_REDUCE_FEW && r->kept[0] >= TD_REDUCE_MANY;
}

/* Does an element take a complex exponential, which is as long as many additions? */
static bool is_slow(const td_reduction *r)
{
    return r->fold == TD_FOLD_LSE && (r->body == TD_R_C64 || r->body == TD_R_C128);
}

static void choose_walk(td_reduction *r)
{
    int64_t load_most = is_slow(r) ? TD_REDUCE_PIECE_SLOW : TD_REDUCE_PIECE;
    int widest = r->raw > r->size ? r->raw : r->size;
    r->columns = prefer_columns(r);
    if (r->columns) {
        bool direct = r->kept_stride[0] == r->raw && !r->cast;
        int64_t room = min64(TD_TILE_BYTES / widest, TD_REDUCE_BATCH);
        r->width = min64(r->kept[0], direct ? TD_REDUCE_BATCH : room);
        /* rows that are contiguous the other way: several at once, so that they can be turned */
        if (!direct && r->gone_stride[0] == r->raw)
            r->width = min64(r->width, room / min64(r->gone[0] ? r->gone[0] : 1, TD_REDUCE_TURNED));
        if (is_slow(r)) r->width = min64(r->width, TD_REDUCE_WIDTH_SLOW);
        r->blocks = ceil_div(r->kept[0], r->width);
        r->piece = load_most / r->width;
        r->units = r->nkept / r->kept[0] * r->blocks;
    } else {
        r->piece = load_most;
        r->units = r->nkept;
        r->width = r->blocks = 1;
    }
    r->pieces = r->ngone >= 2 * r->piece ? ceil_div(r->ngone, r->piece) : 1;
    if (r->pieces == 1) r->piece = r->ngone;
    r->per_chunk = 1;
    int64_t load = r->piece * r->width;
    if (r->pieces == 1 && load < load_most)
        r->per_chunk = min64(load_most / (load ? load : 1), r->columns ? TD_REDUCE_CHUNK_BLOCKS : TD_REDUCE_CHUNK_ROWS);
}

/* First kept element and number of columns of a unit. */
static int64_t unit_columns(const td_reduction *r, int64_t unit, int64_t *width)
{
    int64_t block = unit % r->blocks, outer = unit / r->blocks;
    *width = min64(r->width, r->kept[0] - block * r->width);
    return outer * r->kept[0] + block * r->width;
}

/* One phase when nothing is cut: units to results. */
static void whole_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_reduction *r = (const td_reduction *)k->state;
    char *s = scratch;
    td_word *a = (td_word *)(s + SCRATCH_A), *b = (td_word *)(s + SCRATCH_B);
    int64_t from = chunk * r->per_chunk, to = min64(from + r->per_chunk, r->units);
    if (r->columns) {
        for (int64_t u = from; u < to; u++) {
            int64_t width, first = unit_columns(r, u, &width);
            td_record_clear(r, a, b, width);
            td_reduce_columns(r, first, width, 0, r->ngone, a, b, s);
            td_record_finish(r, first, width, a, b, s + SCRATCH_PAIRS);
        }
        return;
    }
    for (int64_t o = from; o < to; o += TD_REDUCE_BATCH) {
        int64_t n = min64(TD_REDUCE_BATCH, to - o);
        td_record_clear(r, a, b, n);
        for (int64_t i = 0; i < n; i++) td_reduce_rows(r, o + i, 0, r->ngone, &a[i], &b[i], s);
        td_record_finish(r, o, n, a, b, s + SCRATCH_PAIRS);
    }
}

/* Two phases when it is cut: records of the pieces, in `work` as [piece][kept], first all a, then all b. */
static void piece_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_reduction *r = (const td_reduction *)k->state;
    int64_t unit = chunk / r->pieces, piece = chunk % r->pieces;
    int64_t from = piece * r->piece, to = min64(from + r->piece, r->ngone);
    td_word *a = (td_word *)k->work + piece * r->nkept, *b = a + r->pieces * r->nkept;
    int64_t width = 1, first = r->columns ? unit_columns(r, unit, &width) : unit;
    td_record_clear(r, a + first, b + first, width);
    if (r->columns) td_reduce_columns(r, first, width, from, to, a + first, b + first, scratch);
    else td_reduce_rows(r, first, from, to, a + first, b + first, scratch);
}

static void merge_pieces(const td_reduction *r, const td_word *work, int64_t o, td_word *a, td_word *b)
{
    const td_word *wa = work + o, *wb = wa + r->pieces * r->nkept;
    *a = wa[0];
    *b = wb[0];
    for (int64_t p = 1; p < r->pieces; p++) {
        int64_t seen = p * r->piece;
        td_record_merge(r, a, b, seen, wa[p * r->nkept], wb[p * r->nkept], min64(r->piece, r->ngone - seen));
    }
}

static void merge_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_reduction *r = (const td_reduction *)k->state;
    char *s = scratch;
    td_word *a = (td_word *)(s + SCRATCH_A), *b = (td_word *)(s + SCRATCH_B);
    int64_t outs = r->pairs ? r->nkept / 2 : r->nkept;
    int64_t first = chunk * TD_REDUCE_BATCH, n = min64(TD_REDUCE_BATCH, outs - first);
    for (int64_t i = 0; i < n; i++) {
        merge_pieces(r, k->work, first + i, &a[i], &b[i]);
        if (r->pairs) {
            td_word a2, b2;
            merge_pieces(r, k->work, outs + first + i, &a2, &b2);
            b[i].f += b2.f;
        }
    }
    td_record_finish(r, first, n, a, b, s + SCRATCH_PAIRS);
}

static int body_of(td_dtype t)
{
    switch (t) {
    case TD_FLOAT16:
    case TD_BFLOAT16:
    case TD_FLOAT32: return TD_R_F32;
    case TD_FLOAT64: return TD_R_F64;
    case TD_COMPLEX64: return TD_R_C64;
    case TD_COMPLEX128: return TD_R_C128;
    default: return TD_R_I64;
    }
}

static void set_types(td_reduction *r, td_kcall *k, int fold)
{
    static const uint8_t dtype_of[TD_R_COUNT] = {TD_FLOAT32, TD_FLOAT64,   TD_INT64,
                                                 TD_BOOL,    TD_COMPLEX64, TD_COMPLEX128};
    static const uint8_t record_of[TD_R_COUNT] = {TD_FLOAT64, TD_FLOAT64,    TD_INT64,
                                                  TD_INT64,   TD_COMPLEX128, TD_COMPLEX128};
    td_dtype x = k->in[0].desc->dtype, out = k->out[0].desc->dtype;
    bool truth = fold == TD_FOLD_ANY || fold == TD_FOLD_ALL;
    r->pairs = fold == TD_FOLD_VAR && td_dtype_is_complex(x);
    if (r->pairs) x = td_dtype_real(x);
    r->body = (uint8_t)(truth ? TD_R_U8 : body_of(r->pairs ? td_dtype_real(k->compute) : k->compute));
    r->raw = (uint8_t)td_dtype_size(x);
    r->size = (uint8_t)td_dtype_size(dtype_of[r->body]);
    r->cast = x == dtype_of[r->body] ? NULL : td_isa_now->cast[x][dtype_of[r->body]];
    r->store = td_isa_now->cast[record_of[r->body]][out];
    if (k->compute == TD_UINT64 && fold >= TD_FOLD_MAX && fold <= TD_FOLD_ARGMIN) {
        r->cast = td_ordered;
        if (out == TD_UINT64) r->store = td_ordered;
    }
    r->out_size = (uint8_t)td_dtype_size(out);
    r->row = td_isa_now->reduce->row[fold][r->body];
    r->col = td_isa_now->reduce->col[fold][r->body];
}

/* What lies as the fold reads it costs some vectors an instruction; the rest is gathered or converted first. */
static double element_ns(const td_reduction *r)
{
    if (is_slow(r)) return 60;
    if (r->fold == TD_FOLD_VAR || r->fold == TD_FOLD_LSE) return 0.8;
    bool direct = !r->cast && (r->columns ? r->kept_stride[0] : r->gone_stride[0]) == r->raw;
    bool vectors =
        (r->fold <= TD_FOLD_MIN || r->fold == TD_FOLD_SQUARES) && (r->body == TD_R_F32 || r->body == TD_R_F64);
    if (!direct || !vectors) return 0.25;
    double memory = td_move_ns((double)r->nkept * (double)r->ngone * r->raw) / ((double)r->nkept * (double)r->ngone);
    return memory > 0.0175 * r->raw ? memory : 0.0175 * r->raw;
}

static void addresses(td_kcall *k)
{
    td_reduction *r = (td_reduction *)k->state;
    r->data = k->in[0].data;
    r->out = k->out[0].data;
    r->indices = k->nout > 1 ? k->out[1].data : NULL;
}

int td_reduce_plan(td_kcall *k, unsigned bits, int fold, int finish, double correction, td_error *e)
{
    td_reduction *r = (td_reduction *)k->state;
    const td_desc *x = k->in[0].desc;
    set_types(r, k, fold);
    if (!r->row)
        return td_fail(e, TD_E_UNSUPPORTED, "%s is not implemented on the CPU for %s", k->op->name,
                       td_dtype_name(k->compute));
    addresses(k);
    r->fold = (uint8_t)fold;
    r->finish = (uint8_t)finish;
    r->correction = correction;
    td_desc parts = *x;
    if (r->pairs)
        for (int i = 0; i < x->ndim; i++) parts.stride[i] *= 2;
    split_dims(r, &parts, bits);
    if (r->nkept == 0) return TD_OK;
    bool extreme = fold >= TD_FOLD_MAX && fold <= TD_FOLD_ARGMIN;
    if (extreme && r->ngone == 0) return td_fail(e, TD_E_INVALID, "%s: nothing to reduce", k->op->name);
    bool ordered = fold == TD_FOLD_ARGMAX || fold == TD_FOLD_ARGMIN;
    if (!ordered) sort_gone(r);
    merge_dims(r->gone, r->gone_stride, &r->gdims);
    merge_dims(r->kept, r->kept_stride, &r->kdims);
    if (r->pairs) { /* imaginary parts: one more kept dimension, outermost */
        r->kept[r->kdims] = 2;
        r->kept_stride[r->kdims++] = r->raw;
        r->nkept *= 2;
    }
    at_least_one(r->gone, r->gone_stride, &r->gdims, r->raw);
    at_least_one(r->kept, r->kept_stride, &r->kdims, r->raw);
    choose_walk(r);
    bool cut = r->pieces > 1 || r->pairs;
    k->phase[0].fn = cut ? piece_chunk : whole_chunk;
    k->phase[0].chunks = cut ? r->units * r->pieces : ceil_div(r->units, r->per_chunk);
    k->phase[1].fn = merge_chunk;
    k->phase[1].chunks = ceil_div(r->pairs ? r->nkept / 2 : r->nkept, TD_REDUCE_BATCH);
    k->nphases = cut ? 2 : 1;
    k->scratch_bytes = SCRATCH_PAIRS + (td_dtype_is_complex(k->compute) ? 2 * BATCH_BYTES : 0);
    k->work_bytes = cut ? (size_t)(2 * r->pieces * r->nkept) * sizeof(td_word) : 0;
    k->cost_ns = 40 + 15.0 * (double)r->units + element_ns(r) * (double)r->nkept * (double)r->ngone;
    k->sure = true;
    td_plan_moves(k, addresses, sizeof *r);
    return TD_OK;
}
