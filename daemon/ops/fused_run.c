/* The chunks of a fused call: kernels of its parts, each at this call's addresses.
 *
 * A row of small calls is one chunk: each part as a whole, then the next. A sweep is cut into tiles that the cache
 * holds: all parts do one tile, then the next one, so that what passes from part to part never comes to memory. */
#include "daemon/ops/fused_parts.h"
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(td_fused_note) <= TD_KSTATE_BYTES, "it has to fit");

enum { LINE = 64 };

/* Of a part that is being run, or of each part of a sweep. In scratch; then come the bases, a tile's arena, and scratch
 * of the parts. */
typedef struct bench {
    td_kcall k;
    td_karg args[];
} bench;

static size_t bench_bytes(const td_fused *g)
{
    return td_fused_lines(sizeof(bench) + g->most_args * sizeof(td_karg));
}

static size_t benches_bytes(const td_fused *g)
{
    return bench_bytes(g) * (g->tiles ? g->ncalls : 1); /* a run has one, which it does not use */
}

static size_t bases_bytes(const td_fused *g)
{
    return td_fused_lines((1 + g->ninputs + g->nmade) * sizeof(void *));
}

/* Where operands' offsets count from. */
static unsigned char **find_bases(const td_kcall *k, const td_fused *g, void *scratch, void *arena)
{
    unsigned char **first = (unsigned char **)(void *)((unsigned char *)scratch + benches_bytes(g)), **at = first;
    *at++ = arena;
    for (int i = 0; i < k->nin; i++) *at++ = k->in[i].data;
    for (int o = 0; o < k->nout; o++) *at++ = k->out[o].data;
    return first;
}

static void take_args(const td_fused *g, const td_fused_part *p, const td_fused_plan *plan, unsigned char *const *base,
                      int64_t tile, td_karg *a)
{
    const td_fused_operand *o = g->operands + plan->operands, *end = o + p->nin + p->nout;
    for (; o < end; o++, a++) {
        *a = o->arg;
        if (o->base == TD_FUSED_NONE) a->data = a->desc ? a->number : NULL;
        else a->data = (void *)((uintptr_t)base[o->base] + (uintptr_t)(o->offset + tile * o->advance));
    }
}

void td_fused_set_up(const td_fused_part *p, const td_fused_plan *plan, td_kcall *k)
{
    k->op = p->op;
    k->attrs = p->attrs;
    k->nin = p->nin;
    k->nout = p->nout;
    k->compute = p->compute;
    k->device = TD_CPU;
    k->seed = k->counter = 0;
    k->nphases = plan->nphases;
    k->clean_phases = 0;
    k->packing = plan->packing;
    k->prepack = NULL;
    for (int i = 0; i < plan->nphases; i++) k->phase[i] = plan->phase[i];
    memcpy(k->state, plan->state, plan->state_bytes);
}

static void set_up(const td_fused_part *p, const td_fused_plan *plan, bench *b, void *work)
{
    td_fused_set_up(p, plan, &b->k);
    b->k.in = b->args;
    b->k.out = b->args + p->nin;
    b->k.work = work;
}

static void begin(bench *b)
{
    atomic_init(&b->k.failed, 0);
    td_error_clear(&b->k.error);
}

static void failed(td_kcall *k, const td_kcall *part, const char *where)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&k->failed, &none, part->error.code)) return;
    const td_fused_note *n = (const td_fused_note *)(const void *)k->state;
    k->error = part->error;
    if (where[0]) snprintf(k->error.where, sizeof k->error.where, "%s%s", where, n->caller);
}

static bool run_part(td_kcall *k, void *scratch)
{
    for (int p = 0; p < k->nphases; p++)
        for (int64_t i = 0; i < k->phase[p].chunks; i++) {
            k->phase[p].fn(k, i, scratch);
            if (atomic_load_explicit(&k->failed, memory_order_relaxed)) return false;
        }
    return true;
}

static const td_fused_note *note_of(const td_kcall *k)
{
    return (const td_fused_note *)(const void *)k->state;
}

static const td_fused *group_of(const td_kcall *k)
{
    return note_of(k)->g;
}

static void run_row(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk;
    const td_fused *g = group_of(k);
    bench *b = scratch;
    unsigned char *work = k->work, **base = find_bases(k, g, scratch, work);
    void *rest = (unsigned char *)scratch + benches_bytes(g) + bases_bytes(g);
    begin(b);
    for (const td_fused_part *p = g->parts; p < g->parts + g->ncalls; p++) {
        if (!p->plan.nphases) continue;
        take_args(g, p, &p->plan, base, 0, b->args);
        set_up(p, &p->plan, b, work + g->arena);
        const td_fused_prepacked *prepacked = note_of(k)->prepacked;
        if (prepacked) b->k.prepack = prepacked[p - g->parts].prepack;
        if (prepacked && prepacked[p - g->parts].ready) td_prepack_leave_out(&b->k);
        p->plan.replan(&b->k);
        if (run_part(&b->k, rest)) continue;
        failed(k, &b->k, p->where);
        return;
    }
}

/* ---- heads */

/* A chunk of a phase of the head's, and what goes on where it wrote. */
static void run_head(td_kcall *k, int phase, int64_t chunk, void *scratch)
{
    const td_fused *g = group_of(k);
    const td_fused_part *p = g->parts;
    bench *b = scratch;
    unsigned char **base = find_bases(k, g, scratch, k->work);
    void *rest = (unsigned char *)scratch + benches_bytes(g) + bases_bytes(g);
    if (atomic_load_explicit(&k->failed, memory_order_relaxed)) return;
    begin(b);
    take_args(g, p, &p->plan, base, 0, b->args);
    set_up(p, &p->plan, b, (unsigned char *)k->work + g->arena);
    if (note_of(k)->prepacked) b->k.prepack = note_of(k)->prepacked[0].prepack;
    p->plan.replan(&b->k);
    b->k.phase[phase].fn(&b->k, chunk, rest);
    if (atomic_load_explicit(&b->k.failed, memory_order_relaxed)) {
        failed(k, &b->k, p->where);
    } else if (phase == p->plan.nphases - 1) {
        td_kpart part;
        p->plan.wrote(&b->k, chunk, &part);
        td_run_part(g, g->runs, &part, base);
    }
}

static void run_first(td_kcall *k, int64_t chunk, void *scratch)
{
    run_head(k, 0, chunk, scratch);
}

static void run_second(td_kcall *k, int64_t chunk, void *scratch)
{
    run_head(k, 1, chunk, scratch);
}

static void set_head(td_kcall *k, const td_fused *g, const td_fused_prepacked *prepacked)
{
    static const td_chunk_fn run[] = {run_first, run_second};
    const td_fused_plan *head = &g->parts[0].plan;
    k->nphases = 0;
    for (int i = prepacked && prepacked[0].ready; i < head->nphases; i++)
        k->phase[k->nphases++] = (td_phase){run[i], head->phase[i].chunks};
}

/* ---- sweeps */

/* All parts at one tile. `anew`: their plans are others than at the tile before. */
static bool run_tile(td_kcall *k, const td_fused *g, int64_t tile, bool anew, unsigned char *const *base, void *scratch)
{
    bool last = g->last && tile == g->tiles - 1;
    unsigned char *at = scratch, *rest = at + benches_bytes(g) + bases_bytes(g) + g->arena;
    const td_fused_run *r = g->runs, *end = r + g->nruns;
    for (const td_fused_part *p = g->parts; p < g->parts + g->ncalls; p++, at += bench_bytes(g)) {
        if (r < end && p == g->parts + r->first) {
            td_run_tile(g, r, tile, base);
            p += r++->ncalls - 1;
            continue;
        }
        bench *b = (bench *)(void *)at;
        const td_fused_plan *plan = last ? &p->last : &p->plan;
        take_args(g, p, plan, base, tile, b->args);
        if (anew || last) begin(b), set_up(p, plan, b, NULL);
        plan->replan(&b->k);
        if (run_part(&b->k, rest)) continue;
        failed(k, &b->k, p->where);
        return false;
    }
    return true;
}

static void fill(unsigned char *arena, const td_fused *g)
{
    for (uint32_t k = 0; k < g->nnumbers; k++) {
        const td_fused_number *x = &g->numbers[k];
        unsigned char *at = arena + x->at;
        size_t size = td_dtype_size((td_dtype)x->dtype), bytes = g->tile * size, done = size;
        memcpy(at, x->value, size);
        for (; done < bytes; done *= 2) memcpy(at + done, at, done < bytes - done ? done : bytes - done);
    }
}

static void run_tiles(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_fused *g = group_of(k);
    unsigned char *arena = (unsigned char *)scratch + benches_bytes(g) + bases_bytes(g);
    unsigned char **base = find_bases(k, g, scratch, arena);
    int64_t from = chunk * g->tiles_a_chunk, to = from + g->tiles_a_chunk;
    if (to > g->tiles) to = g->tiles;
    fill(arena, g);
    for (int64_t tile = from; tile < to; tile++)
        if (!run_tile(k, g, tile, tile == from, base, scratch)) return;
}

void td_fused_set_kernel(td_kcall *k, const td_fused *g, const td_fused_prepacked *prepacked)
{
    k->nphases = 1;
    k->clean_phases = 0;
    k->phase[0] = (td_phase){run_row, 1};
    k->scratch_bytes = benches_bytes(g) + bases_bytes(g) + g->scratch_bytes;
    k->work_bytes = g->arena + g->work_bytes + LINE; /* never none: addresses count from there */
    k->cost_ns = g->cost_ns;
    k->seed = k->counter = 0;
    k->lasting = k->sure = k->wants_rows = false;
    k->replan = NULL;
    k->packing.in = 0;
    k->work = NULL;
    k->prepack = NULL;
    if (g->heads) set_head(k, g, prepacked);
    if (!g->tiles) return;
    k->phase[0] = (td_phase){run_tiles, (g->tiles + g->tiles_a_chunk - 1) / g->tiles_a_chunk};
    k->scratch_bytes += g->arena + LINE;
    k->work_bytes = 0;
}
