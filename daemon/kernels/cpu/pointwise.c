/* Plans of the pointwise ops, of copy and of full: which loop, which conversions, how it is cut.
 *
 * Two ways: operands that are all contiguous and alike (or single numbers) go straight to the loop, so that small ops
 * cost next to nothing; everything else walks in tiles. Both give the same bits: an element depends on nothing but its
 * operands. */
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/plans.h"
#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

static const uint8_t body_of[TD_DTYPE_COUNT] = {
    [TD_BOOL] = TD_BODY_U8,     [TD_UINT8] = TD_BODY_I64,     [TD_INT8] = TD_BODY_I64,
    [TD_INT16] = TD_BODY_I64,   [TD_INT32] = TD_BODY_I32,     [TD_INT64] = TD_BODY_I64,
    [TD_FLOAT16] = TD_BODY_F32, [TD_BFLOAT16] = TD_BODY_F32,  [TD_FLOAT32] = TD_BODY_F32,
    [TD_FLOAT64] = TD_BODY_F64, [TD_COMPLEX64] = TD_BODY_C64, [TD_COMPLEX128] = TD_BODY_C128,
    [TD_UINT16] = TD_BODY_I64,  [TD_UINT32] = TD_BODY_I64,    [TD_UINT64] = TD_BODY_U64};
static const uint8_t dtype_of[TD_BODY_COUNT] = {
    [TD_BODY_F32] = TD_FLOAT32,     [TD_BODY_F64] = TD_FLOAT64, [TD_BODY_I64] = TD_INT64,
    [TD_BODY_I32] = TD_INT32,       [TD_BODY_U8] = TD_BOOL,     [TD_BODY_C64] = TD_COMPLEX64,
    [TD_BODY_C128] = TD_COMPLEX128, [TD_BODY_U64] = TD_UINT64};

typedef struct flat {
    td_pw_fn fn, cast[TD_TILE_OPS]; /* casts of numbers only */
    td_pw_fn narrow, widen;         /* as in td_tiles */
    char *data[TD_TILE_OPS];
    int64_t n, per_chunk;
    td_pw_attr at[3];
    uint8_t nops, numbers; /* numbers: mask of operands that are one number */
    uint8_t rounded;       /* mask of numbers that pass through narrow and widen */
    bool streams;          /* the result goes past the caches */
    uint8_t size[TD_TILE_OPS];
} flat;

_Static_assert(sizeof(flat) <= TD_KSTATE_BYTES && sizeof(td_tiles) <= TD_KSTATE_BYTES, "plans fit the state");

static void fail_with(td_kcall *k, int found)
{
    td_kernel_fail(k, TD_E_INVALID,
                   found & TD_PW_DIVIDES_BY_0     ? "ZeroDivisionError: integer division or modulo by zero"
                   : found & TD_PW_NO_PROBABILITY ? "all elements of input should be between 0 and 1"
                                                  : "all elements of target should be between 0 and 1");
}

static double largest(td_dtype t)
{
    return t == TD_FLOAT16 ? 65504.0 : t == TD_BFLOAT16 ? 0x1.fep127 : t == TD_FLOAT32 ? FLT_MAX : DBL_MAX;
}

/* The bounds of whole numbers are those of the loop: of uint64 0, and all bits. */
static td_pw_attr absent_value(int kind, td_dtype t)
{
    const int64_t least = t == TD_UINT64 ? 0 : INT64_MIN, most = t == TD_UINT64 ? -1 : INT64_MAX;
    switch (kind) {
    case TD_PW_ABSENT_LOWEST: return (td_pw_attr){-INFINITY, 0, least};
    case TD_PW_ABSENT_HIGHEST: return (td_pw_attr){INFINITY, 0, most};
    case TD_PW_ABSENT_MIN_FINITE: return (td_pw_attr){-largest(td_dtype_real(t)), 0, least};
    case TD_PW_ABSENT_MAX_FINITE: return (td_pw_attr){largest(td_dtype_real(t)), 0, most};
    default: return (td_pw_attr){0, 0, 0};
    }
}

/* A float as whole numbers are stored. */
static int64_t to_integer(double v, td_dtype compute)
{
    int64_t whole;
    td_scalar_store(td_float(v), compute == TD_UINT64 ? TD_UINT64 : TD_INT64, &whole);
    return whole;
}

/* For a native int32 loop the absent bounds are its own. */
static int64_t clip(int64_t v, int body)
{
    if (body != TD_BODY_I32) return v;
    return v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v;
}

/* A number below 0 beside what has no sign is one of its own, as everywhere where it is stored: -1 is 255 of uint8. (To
 * uint64 the bits are that already.) */
static int64_t natural(int64_t v, td_dtype compute)
{
    if (!td_dtype_is_unsigned(compute) || compute == TD_UINT64) return v;
    int64_t all = (int64_t)1 << 8 * td_dtype_size(compute);
    return v < 0 && v > -all ? v + all : v;
}

static td_pw_attr attribute(const td_attr *a, int absent, td_dtype compute, int body)
{
    td_pw_attr v = {0, 0, 0};
    switch (a->kind) {
    case TD_A_NONE: v = absent_value(absent, compute); break;
    case TD_A_FLOAT: v = (td_pw_attr){a->f, 0, to_integer(a->f, compute)}; break;
    case TD_A_SCALAR:
        if (a->s.kind <= TD_S_INT) v = (td_pw_attr){(double)a->s.i, 0, natural(a->s.i, compute)};
        else v = (td_pw_attr){a->s.re, a->s.kind == TD_S_COMPLEX ? a->s.im : 0, to_integer(a->s.re, compute)};
        break;
    default: v = (td_pw_attr){(double)a->i, 0, a->i}; break;
    }
    if (absent || a->kind == TD_A_NONE) v.i = clip(v.i, body);
    return v;
}

td_pw_attr td_pointwise_attr(const td_op *op, const td_attrs *attrs, td_dtype compute, int nr)
{
    return attribute(&attrs->at[nr], td_pw_ops[td_pw_row_of[op->id] - 1].absent[nr], compute, body_of[compute]);
}

/* Not where it lies in lines that were just read, or does not begin with a line. */
static bool streams_now(const flat *f)
{
    bool apart = f->streams && td_isa_now->level > 0 && (uintptr_t)f->data[0] % TD_LINE_BYTES == 0;
    for (int op = 1; op < f->nops; op++) apart = apart && f->data[op] != f->data[0];
    return apart;
}

static void repeat_number(const flat *f, int op, int64_t n, char *to)
{
    _Alignas(16) char value[16], narrow[16];
    const void *raw = f->data[op], *wide = value, *rounded = narrow;
    if (f->cast[op]) f->cast[op](1, value, &raw, NULL);
    else memcpy(value, raw, f->size[op]);
    if (f->rounded >> op & 1) f->narrow(1, narrow, &wide, NULL), f->widen(1, value, &rounded, NULL);
    td_fill(to, value, n, f->size[op]);
}

static void flat_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const flat *f = (const flat *)k->state;
    int64_t from = chunk * f->per_chunk, to = from + f->per_chunk < f->n ? from + f->per_chunk : f->n;
    const void *in[TD_TILE_OPS];
    bool streams = streams_now(f);
    int rc = 0;
    if (!f->numbers && !streams) {
        for (int op = 1; op < f->nops; op++) in[op - 1] = f->data[op] + from * f->size[op];
        rc = f->fn(to - from, f->data[0] + from * f->size[0], in, f->at);
        if (rc) fail_with(k, rc);
        return;
    }
    int widest = 1;
    for (int op = 0; op < f->nops; op++) widest = f->size[op] > widest ? f->size[op] : widest;
    int64_t block = TD_TILE_BYTES / widest;
    for (int op = 1; op < f->nops; op++)
        if (f->numbers >> op & 1)
            repeat_number(f, op, to - from < block ? to - from : block, (char *)scratch + op * TD_TILE_BYTES);
    for (int64_t i = from; i < to; i += block) {
        int64_t n = to - i < block ? to - i : block;
        char *out = f->data[0] + i * f->size[0];
        for (int op = 1; op < f->nops; op++)
            in[op - 1] = f->numbers >> op & 1 ? (char *)scratch + op * TD_TILE_BYTES : f->data[op] + i * f->size[op];
        rc |= f->fn(n, streams ? scratch : out, in, f->at);
        if (streams) td_isa_now->stream(out, scratch, n * f->size[0], i + n == to);
    }
    if (rc) fail_with(k, rc);
}

/* The addresses, which are all that a plan of alike operands knows of them. */
static void flat_addresses(td_kcall *k)
{
    flat *f = (flat *)k->state;
    f->data[0] = k->out[0].data;
    for (int i = 0; i < k->nin; i++) f->data[i + 1] = k->in[i].data;
}

static void tiles_addresses(td_kcall *k)
{
    td_tiles *t = (td_tiles *)k->state;
    t->data[0] = k->out[0].data;
    for (int i = 0; i < k->nin; i++) t->data[i + 1] = k->in[i].data;
}

static void tiles_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    int rc = td_tiles_chunk((const td_tiles *)k->state, chunk, scratch);
    if (rc) fail_with(k, rc);
}

static bool contiguous(const td_desc *d, int64_t *n)
{
    int64_t expect = 1;
    for (int i = d->ndim - 1; i >= 0; i--) {
        if (d->stride[i] != expect && d->shape[i] != 1) return false;
        expect *= d->shape[i];
    }
    *n = expect;
    return true;
}

static bool single(const td_desc *d)
{
    for (int i = 0; i < d->ndim; i++)
        if (d->shape[i] != 1) return false;
    return true;
}

static bool lie_alike(const td_desc *a, const td_desc *b)
{
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i] || a->stride[i] != b->stride[i]) return false;
    return true;
}

/* Try the straight way: the output and all inputs lie alike, or are numbers. */
static bool plan_flat(td_kcall *k, flat *f, const uint8_t *want)
{
    const td_desc *out = k->out[0].desc;
    if (out->dtype != want[0] || !contiguous(out, &f->n)) return false;
    f->numbers = 0;
    f->data[0] = k->out[0].data;
    f->size[0] = (uint8_t)td_dtype_size(want[0]);
    for (int i = 0; i < k->nin; i++) {
        const td_desc *d = k->in[i].desc;
        f->data[i + 1] = k->in[i].data;
        f->size[i + 1] = (uint8_t)td_dtype_size(want[i + 1]);
        if (d->dtype == want[i + 1] && lie_alike(d, out)) continue;
        if (!single(d)) return false;
        f->numbers |= (uint8_t)(1 << (i + 1));
        f->cast[i + 1] = d->dtype == want[i + 1] ? NULL : td_isa_now->cast[d->dtype][want[i + 1]];
    }
    f->nops = (uint8_t)(k->nin + 1);
    return true;
}

enum { PLAIN_PS = 250 }; /* an element without calls, as the table has it: most of that is memory */

static bool number_of(const td_kcall *k, const td_pw_op *op, int body, double *v)
{
    if (body != TD_BODY_F32 && body != TD_BODY_F64) return false;
    if (op->easy_attr) *v = attribute(&k->attrs->at[op->easy_attr - 1], 0, k->compute, body).re;
    if (!op->easy_in) return op->easy_attr;
    const td_karg *x = &k->in[op->easy_in - 1];
    bool number = td_karg_is_number(x);
    if (number) *v = td_scalar_load(x->desc->dtype, x->data).re;
    return number;
}

/* Is a number given for which the loop of floats has a cheap way? The values of numbers are part of a call's look. */
static bool easy(const td_kcall *k, const td_pw_op *op, int body)
{
    double v = 0;
    if (!op->neasy || !number_of(k, op, body, &v)) return false;
    for (int i = 0; i < op->neasy; i++)
        if (v == op->easy[i]) return true;
    return false;
}

/* Of a polynomial: an order that is given as a number says how many steps there are. */
#define STEP_NS 1.0 /* 0.1 in vectors, 3 one element after the other */
static double called_ns(const td_kcall *k, const td_pw_op *op, int body, const uint32_t *cost)
{
    double order, ns = cost[body == TD_BODY_F64] * 1e-3;
    if (op->neasy || !number_of(k, op, body, &order)) return ns;
    double steps = 2 + STEP_NS * (order > 8 ? order : 0);
    return steps < 10 * ns ? steps : 10 * ns;
}

/* What a byte costs in the loop alone, first-level cache to first-level cache. */
#define LOOP_BYTE_NS 0.0085

static const uint32_t *cost_of(const td_kcall *k, const td_pw_op *op, int body)
{
    return easy(k, op, body) ? op->easy_cost : op->cost;
}

/* A plain op whose operands fill the last cache: its result would be read before it is written, and pushed out again.
 * What takes longer to work out than to write is better off with stores that go along. */
static bool streams(const td_kcall *k, const td_pw_op *op, int body)
{
    double bytes = (double)td_desc_nbytes(k->out[0].desc);
    for (int i = 0; i < op->nin; i++) bytes += (double)td_desc_nbytes(k->in[i].desc);
    return cost_of(k, op, body)[0] <= PLAIN_PS && bytes >= td_stream_bytes;
}

/* Time of the loop for one element, from the float figure: memory (near or far, as they lie there), width and calls of
 * the C library. What is converted on its way is read and written once more. */
static double element_ns(const td_kcall *k, const td_pw_op *op, int body, const uint8_t *want)
{
    const uint32_t *cost = cost_of(k, op, body);
    bool calls = cost[0] > PLAIN_PS, complex = body == TD_BODY_C64 || body == TD_BODY_C128;
    double bytes = 0, moved = 0, n = (double)td_desc_numel(k->out[0].desc);
    for (int i = 0; i <= op->nin; i++) {
        const td_desc *d = i ? k->in[i - 1].desc : k->out[0].desc;
        double raw = (double)td_dtype_size(d->dtype), loop = (double)td_dtype_size(want[i]);
        bytes += raw;
        moved += d->dtype == want[i] ? loop : 3 * loop + 2 * raw;
    }
    double ns = calls ? called_ns(k, op, body, cost) * (complex ? 40 : 1) : 0;
    double loop = LOOP_BYTE_NS * moved * (complex && !calls ? 4 : 1), memory = n > 0 ? td_move_ns(bytes * n) / n : 0;
    ns = ns > loop ? ns : loop;
    return ns > memory ? ns : memory;
}

/* The loop's type may hold more than the dtype that is computed in: what comes from another dtype is first made what
 * that would hold (-5 beside uint8 is 251). Numbers beside half types stay what they are where the op says so. A mask
 * of operands; the output's is the first bit. */
static unsigned rounded_operands(const td_kcall *k, const td_pw_op *op, const uint8_t *want)
{
    unsigned mask = 0;
    bool exact = k->op->flags & TD_OF_EXACT_NUMBER && !td_dtype_is_integral(k->compute);
    for (int i = 0; i < op->nin; i++) {
        const td_desc *d = k->in[i].desc;
        bool other = d->dtype != k->compute && d->dtype != TD_BOOL && want[i + 1] != TD_BOOL;
        if (want[i + 1] != k->compute && other && !(exact && single(d))) mask |= 2u << i;
    }
    bool whole = td_dtype_is_integral(k->compute) && op->out == TD_PW_OUT_SAME;
    return mask | (whole && want[0] != k->compute && k->out[0].desc->dtype != k->compute);
}

static void finish_tiles(td_kcall *k, td_tiles *t, double ns)
{
    td_tiles_finish(t, ns);
    for (int op = 0; op < t->nops; op++) {
        bool filled = t->stride[op][0] == 0 && t->shape[0] >= TD_REPEAT_FILL; /* of one number a row */
        if (t->mode[op] == TD_TILE_GATHER) ns += filled ? 0.04 : 0.4;
    }
    k->phase[0].fn = tiles_chunk;
    k->phase[0].chunks = td_tiles_chunks(t);
    k->nphases = k->phase[0].chunks > 0;
    k->scratch_bytes = TD_TILE_SCRATCH;
    k->cost_ns = 30 + ns * (double)td_desc_numel(k->out[0].desc);
    td_plan_moves(k, tiles_addresses, sizeof *t);
}

int td_cpu_plan_pointwise(td_kcall *k, td_error *e)
{
    int row = td_pw_row_of[k->op->id] - 1, body = body_of[k->compute];
    assert(row >= 0);
    const td_pw_op *op = &td_pw_ops[row];
    const td_pw_fn *fns = td_isa_now->pointwise[row];
    if (!fns[body] && (body == TD_BODY_I32 || body == TD_BODY_U8)) body = TD_BODY_I64;
    if (!fns[body])
        return td_fail(e, TD_E_UNSUPPORTED, "%s is not implemented on the CPU for %s", k->op->name,
                       td_dtype_name(k->compute));
    uint8_t want[TD_TILE_OPS]; /* dtype of each operand in the loop */
    want[0] = op->out == TD_PW_OUT_BOOL ? TD_BOOL : dtype_of[body];
    if (op->out == TD_PW_OUT_REAL) want[0] = (uint8_t)td_dtype_real(want[0]);
    for (int i = 0; i < op->nin; i++) want[i + 1] = op->bool_in >> i & 1 ? TD_BOOL : dtype_of[body];
    td_pw_attr at[3];
    for (int i = 0; i < op->nattr; i++) at[i] = attribute(&k->attrs->at[i], op->absent[i], k->compute, body);
    double ns = element_ns(k, op, body, want);
    k->sure = !(op->fails & (td_dtype_is_integral(k->compute) ? TD_PW_FAILS_WHOLE : TD_PW_FAILS_FLOAT));
    flat *f = (flat *)k->state;
    uint8_t rounded = (uint8_t)rounded_operands(k, op, want);
    td_pw_fn narrow = td_isa_now->cast[dtype_of[body]][k->compute],
             widen = td_isa_now->cast[k->compute][dtype_of[body]];
    if (!(rounded & 1) && plan_flat(k, f, want)) {
        f->fn = fns[body];
        f->narrow = narrow, f->widen = widen;
        f->rounded = rounded;
        f->streams = streams(k, op, body);
        memcpy(f->at, at, op->nattr * sizeof *at);
        f->per_chunk = td_chunk_elements(f->n, ns, 1024);
        k->nphases = f->n > 0;
        k->phase[0].fn = flat_chunk;
        k->phase[0].chunks = td_cut(f->n, f->per_chunk);
        k->scratch_bytes = f->numbers || f->streams ? TD_TILE_SCRATCH : 0;
        k->cost_ns = 20 + ns * (double)f->n;
        td_plan_moves(k, flat_addresses, sizeof *f);
        return TD_OK;
    }
    td_tiles *t = (td_tiles *)k->state;
    t->fn = fns[body];
    memcpy(t->at, at, op->nattr * sizeof *at);
    td_tiles_operand(t, 0, k->out[0].data, k->out[0].desc, want[0]);
    for (int i = 0; i < op->nin; i++) td_tiles_operand(t, i + 1, k->in[i].data, k->in[i].desc, want[i + 1]);
    t->narrow = narrow, t->widen = widen;
    t->rounded = rounded;
    finish_tiles(k, t, ns);
    return TD_OK;
}

static double copy_ns(double to, double from, double n)
{
    return n > 0 ? td_move_ns((to + from) * n) / n : 0;
}

/* The loop itself converts from the source's dtype to the destination's. */
int td_cpu_plan_copy(td_kcall *k, td_error *e)
{
    (void)e;
    td_tiles *t = (td_tiles *)k->state;
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    t->fn = td_isa_now->cast[x->dtype][y->dtype];
    td_tiles_operand(t, 0, k->out[0].data, y, y->dtype);
    td_tiles_operand(t, 1, k->in[0].data, x, x->dtype);
    t->moves = td_only_moves(x->dtype, y->dtype);
    finish_tiles(k, t, copy_ns((double)t->raw[0], (double)t->raw[1], (double)td_desc_numel(y)));
    k->sure = true;
    return TD_OK;
}

/* The value lies behind the walk in the plan's state; its address is known only when a chunk runs. */
typedef struct filled {
    td_tiles tiles;
    _Alignas(16) unsigned char value[16];
} filled;
_Static_assert(sizeof(filled) <= TD_KSTATE_BYTES, "a fill fits the state");

static void full_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    filled *f = (filled *)k->state;
    td_tiles t = f->tiles;
    t.data[1] = (char *)f->value;
    td_tiles_chunk(&t, chunk, scratch);
}

int td_cpu_plan_full(td_kcall *k, td_error *e)
{
    (void)e;
    filled *f = (filled *)k->state;
    const td_desc *y = k->out[0].desc;
    td_desc number = {.dtype = y->dtype};
    td_scalar_store(k->attrs->at[1].s, y->dtype, f->value);
    f->tiles.fn = td_isa_now->cast[y->dtype][y->dtype];
    td_tiles_operand(&f->tiles, 0, k->out[0].data, y, y->dtype);
    td_tiles_operand(&f->tiles, 1, NULL, &number, y->dtype);
    f->tiles.moves = td_only_moves(y->dtype, y->dtype);
    finish_tiles(k, &f->tiles, copy_ns((double)f->tiles.raw[0], 0, (double)td_desc_numel(y)));
    k->phase[0].fn = full_chunk;
    k->state_bytes = sizeof *f;
    k->sure = true;
    return TD_OK;
}
