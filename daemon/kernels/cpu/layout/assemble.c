/* Joining tensors, and how all assemblies run: see assemble.h. */
#include "daemon/kernels/cpu/layout/assemble.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/plans.h"

typedef struct assembly {
    td_layout_fn lay;
    int64_t parts;
} assembly;

static void make_tiles(const td_copy_layout *l, td_tiles *t)
{
    int to = (int)td_dtype_size(l->to_type), from = (int)td_dtype_size(l->from_type);
    t->rounded = 0;
    t->moves = td_only_moves(l->from_type, l->to_type);
    t->fn = td_isa_now->cast[l->from_type][l->to_type];
    t->ndim = (uint8_t)l->ndim;
    for (int i = 0; i < l->ndim; i++) {
        int k = l->ndim - 1 - i;
        t->shape[i] = l->shape[k];
        t->stride[0][i] = l->to_stride[k] * to;
        t->stride[1][i] = l->from_stride[k] * from;
    }
    td_tiles_raw(t, 0, l->to, to);
    td_tiles_raw(t, 1, l->from, from);
    td_tiles_finish(t, 0.1 * (double)(to + from));
}

/* What one part writes. */
static int64_t part_bytes(const td_copy_layout *l)
{
    int64_t bytes = (int64_t)td_dtype_size(l->to_type);
    for (int i = 0; i < l->ndim; i++) bytes *= l->shape[i];
    return bytes;
}

/* The tile of a part of `bytes` that a share ending at `at` stops before, and the next one begins with. */
static int64_t tile_at(const td_tiles *t, int64_t at, int64_t bytes)
{
    if (at <= 0) return 0;
    return at >= bytes ? t->count : (int64_t)((double)t->count * ((double)at / (double)bytes));
}

/* An equal share of the bytes of all parts, end to end: many small parts, or some of a large one. */
static void assemble_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const assembly *a = (const assembly *)k->state;
    int64_t from = chunk * TD_ASSEMBLE_BYTES, to = from + TD_ASSEMBLE_BYTES, at = 0;
    td_copy_layout l = {.before = 0};
    td_tiles t;
    for (int64_t part = 0; part < a->parts && at < to; part++) {
        a->lay(k, part, &l);
        int64_t n = part_bytes(&l);
        if (n && at + n > from) {
            make_tiles(&l, &t);
            td_tiles_run(&t, tile_at(&t, from - at, n), tile_at(&t, to - at, n), scratch);
        }
        at += n;
    }
}

/* Everything in one chunk: results that are small. */
static void assemble_all(td_kcall *k, int64_t chunk, void *scratch)
{
    const assembly *a = (const assembly *)k->state;
    td_copy_layout l = {.before = 0};
    td_tiles t;
    (void)chunk;
    for (int64_t part = 0; part < a->parts; part++) {
        a->lay(k, part, &l);
        make_tiles(&l, &t);
        td_tiles_run(&t, 0, t.count, scratch);
    }
}

void td_assemble_plan(td_kcall *k, td_layout_fn lay, int64_t parts, int phase)
{
    assembly *a = (assembly *)k->state;
    td_copy_layout l = {.before = 0};
    uint64_t bytes = td_desc_nbytes(k->out[0].desc);
    int64_t written = 0;
    a->lay = lay;
    a->parts = parts;
    for (int64_t part = 0; part < parts && bytes > TD_ASSEMBLE_BYTES; part++) {
        lay(k, part, &l);
        written += part_bytes(&l);
    }
    bool small = bytes <= TD_ASSEMBLE_BYTES;
    k->phase[phase].fn = small ? assemble_all : assemble_chunk;
    k->phase[phase].chunks = small ? bytes > 0 : (written + TD_ASSEMBLE_BYTES - 1) / TD_ASSEMBLE_BYTES;
    k->nphases = (uint8_t)(phase + (k->phase[phase].chunks > 0));
    k->scratch_bytes = TD_TILE_SCRATCH;
    k->cost_ns += 30 + 150.0 * (double)parts + td_move_ns(2 * (double)bytes);
    k->sure = true;
    td_plan_moves_freely(k, sizeof *a);
}

void td_layout_whole(const td_kcall *k, int in, td_copy_layout *l)
{
    const td_desc *x = k->in[in].desc, *y = k->out[0].desc;
    l->ndim = y->ndim;
    l->to = k->out[0].data;
    l->from = k->in[in].data;
    l->to_type = y->dtype;
    l->from_type = x->dtype;
    for (int i = 0; i < y->ndim; i++) {
        l->shape[i] = i < x->ndim ? x->shape[i] : 1;
        l->to_stride[i] = y->stride[i];
        l->from_stride[i] = i < x->ndim ? x->stride[i] : 0;
    }
}

/* ---- cat, stack */

/* A tensor of shape [0] joins with anything and adds nothing. */
static bool skipped(const td_desc *d)
{
    return d->ndim == 1 && d->shape[0] == 0;
}

void td_lay_cat(const td_kcall *k, int64_t part, td_copy_layout *l)
{
    const td_desc *x = k->in[part].desc;
    int dim = td_wrapped(td_attr_int(k->attrs, 0), k->out[0].desc->ndim);
    td_layout_whole(k, (int)part, l);
    l->to = td_layout_move(l->to, l->before * l->to_stride[dim], l->to_type);
    if (skipped(x)) l->shape[0] = 0;
    else l->before += x->shape[dim];
}

int td_cpu_plan_cat(td_kcall *k, td_error *e)
{
    (void)e;
    td_assemble_plan(k, td_lay_cat, k->nin, 0);
    return TD_OK;
}

void td_lay_stack(const td_kcall *k, int64_t part, td_copy_layout *l)
{
    const td_desc *x = k->in[part].desc, *y = k->out[0].desc;
    int dim = td_wrapped(td_attr_int(k->attrs, 0), y->ndim);
    td_layout_whole(k, (int)part, l);
    for (int i = 0, j = 0; i < y->ndim; i++) {
        l->shape[i] = i == dim ? 1 : x->shape[j];
        l->from_stride[i] = i == dim ? 0 : x->stride[j];
        j += i != dim;
    }
    l->to = td_layout_move(l->to, part * y->stride[dim], l->to_type);
}

int td_cpu_plan_stack(td_kcall *k, td_error *e)
{
    (void)e;
    td_assemble_plan(k, td_lay_stack, k->nin, 0);
    return TD_OK;
}
