/* Sweeps: fused calls of large pointwise calls that give tensors of one shape, cut into tiles along the first
 * dimension.
 *
 * An element of such a result depends on its own operands only, so the bits do not depend on the cut. Where everything
 * lies in one row, or is one number, tiles are runs of elements; otherwise they are some of the rows, and what is
 * broadcast along the first dimension is the same for all of them. */
#include "daemon/ops/fused_parts.h"
#include "daemon/ops/prepare.h"
#include <stdlib.h>
#include <string.h>

enum {
    TILE = 512,        /* elements: in memory more are slower, in the cache fewer */
    WIDEST = 2048,     /* elements of a row */
    CODE_TILE = 8192,  /* of a run alone: what it costs to begin one counts no more */
    LONGEST = 1 << 17, /* elements of a row of a run: a chunk has one at least */
    MOST_ARGS = 8,     /* of a pointwise call */
    CHUNK_NS = 100000
};

static int64_t a_row(const td_sweep *s)
{
    return s->flat ? 1 : td_desc_numel(&s->whole) / s->whole.shape[0];
}

bool td_sweep_begin(td_sweep *s, const td_desc *whole)
{
    *s = (td_sweep){.whole = *whole, .flat = true};
    bool dense = td_desc_is_contiguous(whole) || td_desc_is_channels_last(whole);
    return whole->ndim > 0 && td_desc_numel(whole) > 0 && dense;
}

/* Element after element as the whole does. */
static bool lies_alike(const td_desc *whole, const td_desc *d)
{
    if (!td_desc_same_shape(d, whole)) return false;
    return td_desc_is_contiguous(whole) ? td_desc_is_contiguous(d) : td_desc_is_channels_last(d);
}

bool td_sweep_takes(td_sweep *s, const td_desc *d, bool made)
{
    bool one = td_desc_numel(d) == 1;
    if (lies_alike(&s->whole, d) || (one && !made)) return true;
    s->flat = false;
    return !made && d->ndim <= s->whole.ndim && td_desc_is_contiguous(&s->whole); /* rows are of its first dimension */
}

void td_sweep_cut(td_sweep *s)
{
    int64_t row = a_row(s);
    s->rows = td_desc_numel(&s->whole) / row;
    s->a_tile = row < TILE ? TILE / row : 1;
    if (row > LONGEST) s->a_tile = 0;
    s->broad = row > WIDEST;
}

void td_sweep_widen(td_sweep *s)
{
    if (s->flat) s->a_tile = CODE_TILE;
}

uint64_t td_sweep_tile_bytes(const td_sweep *s, td_dtype t)
{
    return (uint64_t)(s->a_tile * a_row(s)) * td_dtype_size(t);
}

/* ---- operands */

/* Does it have a row for each row of the result? */
static bool moves(const td_sweep *s, const td_desc *d)
{
    return d->ndim == s->whole.ndim && d->shape[0] != 1;
}

static td_desc tile_of(const td_sweep *s, const td_desc *d, int64_t rows)
{
    td_desc t = *d;
    t.offset = 0;
    if (!s->flat) {
        if (moves(s, d)) t.shape[0] = rows;
        return t;
    }
    t.ndim = td_desc_numel(d) != 1;
    t.shape[0] = rows;
    t.stride[0] = 1;
    return t;
}

int64_t td_sweep_advance(const td_sweep *s, const td_fused_operand *o, const td_desc *d)
{
    if (o->base == 0 || (s->flat ? td_desc_numel(d) == 1 : !moves(s, d))) return 0;
    return s->a_tile * (s->flat ? 1 : d->stride[0]) * (int64_t)td_dtype_size((td_dtype)d->dtype);
}

/* Does the loop read a number just as it would an element of this dtype? Halves are rounded otherwise. */
static bool is_element(const td_fused_part *p, const td_fused_operand *o)
{
    return o->arg.desc && o->arg.desc->dtype == p->compute && p->compute != TD_FLOAT16 && p->compute != TD_BFLOAT16;
}

/* One element counts as a number, which is rounded otherwise beside halves: no tile may be one where the whole is not.
 */
static bool is_other(const td_desc *whole, const td_desc *tile, uint8_t compute)
{
    return td_desc_numel(tile) == 1 && td_desc_numel(whole) != 1 && whole->dtype != compute;
}

static bool cut(const td_sweep *s, td_fused *g, const td_fused_part *p, td_fused_operand *o, const td_desc *whole,
                int64_t rows)
{
    td_desc tile = tile_of(s, whole, rows);
    if (is_other(whole, &tile, p->compute)) return false;
    o->advance = td_sweep_advance(s, o, whole);
    o->desc = td_fused_desc(g, &tile);
    return o->desc != TD_FUSED_NONE;
}

/* A number becomes a tile of it, one for all that are the same. */
static bool spread(const td_sweep *s, td_fused *g, const td_fused_part *p, td_fused_operand *o, int64_t rows)
{
    td_dtype t = (td_dtype)o->arg.desc->dtype;
    uint32_t k = 0;
    for (; k < g->nnumbers; k++)
        if (g->numbers[k].dtype == t && !memcmp(g->numbers[k].value, o->arg.number, td_dtype_size(t))) break;
    if (k == g->nnumbers) {
        if (!td_fused_grow((void **)&g->numbers, k, &g->room_numbers, sizeof *g->numbers)) return false;
        g->numbers[k] = (td_fused_number){.at = g->arena, .dtype = (uint8_t)t};
        memcpy(g->numbers[k].value, o->arg.number, td_dtype_size(t));
        g->arena += td_fused_lines(td_sweep_tile_bytes(s, t));
        g->nnumbers++;
    }
    td_desc d = s->whole;
    d.dtype = (uint8_t)t;
    *o = (td_fused_operand){.base = 0, .offset = (int64_t)g->numbers[k].at};
    return cut(s, g, p, o, &d, rows);
}

/* A run of a part's operands once more, with so many rows. */
static bool add_operands(const td_sweep *s, td_fused *g, const td_fused_part *p, int64_t rows, uint32_t *first)
{
    uint32_t from = p->plan.operands;
    *first = g->noperands;
    for (int k = 0; k < p->nin + p->nout; k++) {
        if (!td_fused_grow((void **)&g->operands, g->noperands, &g->room_operands, sizeof *g->operands)) return false;
        td_fused_operand *o = &g->operands[g->noperands++];
        *o = g->operands[from + (uint32_t)k];
        if (o->base == TD_FUSED_NONE) {
            if (is_element(p, o) && !spread(s, g, p, o, rows)) return false;
            continue;
        }
        td_desc whole = g->descs[o->desc];
        if (!cut(s, g, p, o, &whole, rows)) return false;
    }
    return true;
}

/* ---- plans */

static bool make_plan(td_fused *g, const td_fused_part *p, uint32_t operands, td_fused_plan *out)
{
    td_kcall k = {.op = p->op, .attrs = p->attrs, .nin = p->nin, .nout = p->nout, .compute = p->compute};
    td_karg args[MOST_ARGS] = {0};
    td_error e = {0};
    for (int i = 0; i < p->nin + p->nout; i++) {
        const td_fused_operand *o = &g->operands[operands + (uint32_t)i];
        args[i] = o->arg;
        if (o->base != TD_FUSED_NONE) args[i].desc = &g->descs[o->desc];
        args[i].data = o->base == TD_FUSED_NONE && o->arg.desc ? args[i].number : NULL;
    }
    k.in = args;
    k.out = args + p->nin;
    td_plan_fn plan = td_cpu_plans[p->op->id];
    if (!plan || plan(&k, &e) || !k.replan || k.nphases > 1 || k.work_bytes) return false;
    if (g->scratch_bytes < k.scratch_bytes) g->scratch_bytes = k.scratch_bytes;
    return td_fused_plan_take(out, &k, operands);
}

static bool plan_part(const td_sweep *s, td_fused *g, td_fused_part *p)
{
    int64_t left = s->rows % s->a_tile;
    uint32_t tile, last;
    td_fused_plan plan;
    if (p->nin + p->nout > MOST_ARGS || !add_operands(s, g, p, s->a_tile, &tile)) return false;
    if (left && (!add_operands(s, g, p, left, &last) || !make_plan(g, p, last, &p->last))) return false;
    if (!make_plan(g, p, tile, &plan)) return false;
    free(p->plan.state);
    p->plan = plan;
    return true;
}

static double cost_of(const td_sweep *s, const td_fused *g)
{
    double ns = 0;
    for (uint32_t k = 0; k < g->ncalls; k++)
        if (!td_run_of(g, k)) ns += g->parts[k].cost_ns;
    for (uint32_t k = 0; k < g->nruns; k++) ns += g->runs[k].cost_ns * (double)td_desc_numel(&s->whole);
    return ns;
}

bool td_sweep_plan(const td_sweep *s, td_fused *g)
{
    g->scratch_bytes = g->work_bytes = 0;
    g->tile = (uint64_t)(s->a_tile * a_row(s));
    for (uint32_t k = 0; k < g->ncalls; k++)
        if (!td_run_of(g, k) && !plan_part(s, g, &g->parts[k])) return false;
    td_runs_place(g, s);
    g->tiles = (s->rows + s->a_tile - 1) / s->a_tile;
    g->last = s->rows % s->a_tile;
    g->last_tile = (uint64_t)(s->rows % s->a_tile * a_row(s));
    g->cost_ns = cost_of(s, g);
    double a_tile = g->cost_ns / (double)g->tiles;
    g->tiles_a_chunk = a_tile < CHUNK_NS ? (int64_t)(CHUNK_NS / (a_tile + 1)) + 1 : 1;
    return true;
}
