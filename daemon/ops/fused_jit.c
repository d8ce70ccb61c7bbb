/* Runs: calls of a sweep, one after the other, whose ops are exact, as one loop of machine code (kernels/jit.h).
 *
 * Values of a run that nobody uses behind it have no memory. What it writes is written while it still reads, so
 * whatever it reads or makes lives from its first call to its last (fused_record.c). A loop goes along one dimension:
 * operands that are broadcast make a tile several pieces, along each of which an operand either goes or stays. */
#include "daemon/ops/fused_parts.h"
#include <stdlib.h>
#include <string.h>

enum {
    LEAST = 2,     /* but for what goes on behind a head */
    SHORTEST = 32, /* elements of a piece */
    MADE = 0x8000  /* an input that is a line, until all sources are known */
};

/* A run that is being tried. */
typedef struct trying {
    td_fused *g;
    const td_sweep *s;
    const td_fused_seen *seen;
    uint32_t first, ncalls;
    td_jit_text text;
    uint32_t source[TD_JIT_SOURCES]; /* operands */
    int dims;
} trying;

/* ---- lines */

static bool is_known(const td_fused_part *p, uint8_t compute)
{
    bool makes = !p->writes && p->nout == 1 && p->nin <= TD_JIT_INPUTS;
    return makes && p->compute == compute && td_jit_knows(p->op, (td_dtype)compute);
}

static bool is_same(const trying *t, uint32_t k, const td_fused_operand *o)
{
    const td_fused_operand *x = &t->g->operands[t->source[k]];
    if (x->base != TD_FUSED_NONE || o->base != TD_FUSED_NONE) return x->base == o->base;
    return !memcmp(x->arg.number, o->arg.number, td_dtype_size(t->text.dtype));
}

static bool add_source(trying *t, uint32_t operand, uint16_t *nr)
{
    const td_fused_operand *o = &t->g->operands[operand];
    td_jit_text *text = &t->text;
    for (*nr = 0; *nr < text->nsources; ++*nr)
        if (is_same(t, *nr, o)) return true;
    if (text->nsources == TD_JIT_SOURCES) return false;
    td_jit_source *to = &text->source[text->nsources];
    t->source[text->nsources++] = operand;
    to->kind = TD_JIT_EACH;
    if (o->base != TD_FUSED_NONE) return true;
    to->kind = TD_JIT_NUMBER;
    memcpy(to->number, o->arg.number, td_dtype_size(text->dtype));
    return true;
}

static bool add_input(trying *t, uint32_t operand, bool condition, uint16_t *nr)
{
    const td_fused_operand *o = &t->g->operands[operand];
    if (o->base == TD_FUSED_NONE)
        return !condition && o->arg.desc && o->arg.desc->dtype == t->text.dtype && add_source(t, operand, nr);
    const td_fused_seen *seen = &t->seen[o->base], *whole = &t->seen[seen->whole];
    if (seen->desc->dtype != (condition ? TD_BOOL : t->text.dtype) || seen->desc->dtype != whole->desc->dtype)
        return false;
    if (whole->first == TD_FUSED_NONE || whole->first < t->first) return !condition && add_source(t, operand, nr);
    *nr = (uint16_t)(MADE | (whole->first - t->first));
    return true;
}

static bool add_line(trying *t, uint32_t call)
{
    const td_fused_part *p = &t->g->parts[call];
    td_jit_line *line = &t->text.line[t->text.nlines++];
    *line = (td_jit_line){.op = p->op, .attrs = p->attrs};
    for (uint32_t k = 0; k < p->nin; k++)
        if (!add_input(t, p->plan.operands + k, td_jit_chooses(p->op) && !k, &line->in[k])) return false;
    const td_fused_seen *out = &t->seen[t->g->operands[p->plan.operands + p->nin].base];
    line->kept = out->last == TD_FUSED_NONE || out->last >= t->first + t->ncalls;
    return td_jit_compares(p->op) || out->desc->dtype == t->text.dtype;
}

static void number_lines(td_jit_text *text)
{
    for (uint32_t l = 0; l < text->nlines; l++)
        for (int k = 0; k < TD_JIT_INPUTS; k++)
            if (text->line[l].in[k] & MADE) text->line[l].in[k] = (text->line[l].in[k] & ~MADE) + text->nsources;
}

/* ---- pieces */

/* Of an operand, along dimension `i` of the whole: elements from one to the next; 0: it stays. */
static int64_t stride_along(const td_desc *whole, const td_desc *d, int i)
{
    int own = i - (whole->ndim - d->ndim);
    return own < 0 || d->shape[own] == 1 ? 0 : d->stride[own];
}

/* How it goes along a piece, which has all dimensions from `dims` on. */
static bool along(const td_desc *whole, const td_desc *d, int dims, td_jit_kind *kind)
{
    int64_t n = 1;
    bool goes = true, stays = true;
    for (int i = whole->ndim - 1; i >= dims; n *= whole->shape[i--]) {
        if (whole->shape[i] == 1) continue;
        goes &= stride_along(whole, d, i) == n;
        stays &= stride_along(whole, d, i) == 0;
    }
    *kind = goes ? TD_JIT_EACH : TD_JIT_ONE;
    return goes || stays;
}

/* Is it as far from piece to piece, in the whole of a tile? */
static bool is_even(const td_sweep *s, const td_desc *d, int dims)
{
    const td_desc *w = &s->whole;
    int64_t step = 0, n = 1;
    bool any = false;
    for (int i = dims - 1; i >= (s->a_tile == 1); n *= w->shape[i--]) {
        int64_t stride = stride_along(w, d, i);
        if (w->shape[i] == 1) continue;
        if (any && stride != step * n) return false;
        if (!any) step = stride, any = true, n = 1;
    }
    return true;
}

static bool go_along(trying *t, int dims)
{
    for (uint32_t k = 0; k < t->text.nsources; k++) {
        const td_fused_operand *o = &t->g->operands[t->source[k]];
        if (o->base == TD_FUSED_NONE) continue;
        const td_desc *d = t->seen[o->base].desc;
        if (!along(&t->s->whole, d, dims, &t->text.source[k].kind) || !is_even(t->s, d, dims)) return false;
    }
    return true;
}

static int64_t length_behind(const td_desc *whole, int dims)
{
    int64_t n = 1;
    for (int i = dims; i < whole->ndim; i++) n *= whole->shape[i];
    return n;
}

static bool find_pieces(trying *t)
{
    t->dims = 0;
    if (t->s->flat) {
        for (uint32_t k = 0; k < t->text.nsources; k++) {
            const td_fused_operand *o = &t->g->operands[t->source[k]];
            if (o->base != TD_FUSED_NONE && td_desc_numel(t->seen[o->base].desc) == 1)
                t->text.source[k].kind = TD_JIT_ONE;
        }
        return true;
    }
    for (t->dims = 1; t->dims < t->s->whole.ndim; t->dims++)
        if (go_along(t, t->dims)) return length_behind(&t->s->whole, t->dims) >= SHORTEST;
    return false;
}

/* ---- runs */

static bool add_operand(td_fused *g, td_fused_run *r, uint32_t from)
{
    if (!td_fused_grow((void **)&g->operands, g->noperands, &g->room_operands, sizeof *g->operands)) return false;
    g->operands[g->noperands++] = g->operands[from];
    r->noperands++;
    return true;
}

/* Large arrays come from memory, small ones mostly not. */
static double cost_of(const trying *t)
{
    enum { IN_CACHE = 1 << 21 };
    double ns = td_jit_cost(&t->text), size = (double)td_dtype_size(t->text.dtype);
    uint32_t arrays = 0;
    for (uint32_t k = 0; k < t->text.nsources; k++) arrays += t->text.source[k].kind == TD_JIT_EACH;
    for (uint32_t k = 0; k < t->text.nlines; k++) arrays += t->text.line[k].kept;
    double bytes = arrays * size, memory = bytes * (double)td_desc_numel(&t->s->whole) > IN_CACHE ? 0.025 * bytes : 0;
    return ns > memory ? ns : memory;
}

static bool add_run(trying *t, const td_jit *jit)
{
    td_fused *g = t->g;
    if (!td_fused_grow((void **)&g->runs, g->nruns, &g->room_runs, sizeof *g->runs)) return false;
    td_fused_run *r = &g->runs[g->nruns];
    *r = (td_fused_run){.first = t->first, .ncalls = t->ncalls, .operands = g->noperands, .dims = t->dims};
    for (uint32_t k = 0; k < t->text.nsources; k++)
        if (!add_operand(g, r, t->source[k])) return false;
    for (uint32_t k = 0; k < t->ncalls; k++) {
        const td_fused_part *p = &g->parts[t->first + k];
        if (t->text.line[k].kept && !add_operand(g, r, p->plan.operands + p->nin)) return false;
    }
    r->jit = *jit;
    r->cost_ns = cost_of(t);
    g->nruns++;
    return true;
}

/* A loop for so many calls from here on. *good: false without memory. */
static bool try(trying *t, uint32_t first, uint32_t ncalls, bool *good)
{
    td_jit jit;
    t->first = first;
    t->ncalls = ncalls;
    t->text.nsources = t->text.nlines = 0;
    t->text.dtype = (td_dtype)t->g->parts[first].compute;
    for (uint32_t k = 0; k < ncalls; k++)
        if (!add_line(t, first + k)) return false;
    number_lines(&t->text);
    if (!find_pieces(t) || !td_jit_make(&t->text, &jit)) return false;
    *good = add_run(t, &jit);
    if (!*good) td_jit_free(&jit);
    return *good;
}

static uint32_t known_from(const td_fused *g, uint32_t first)
{
    uint32_t n = 0;
    while (first + n < g->ncalls && n < TD_JIT_LINES && is_known(&g->parts[first + n], g->parts[first].compute)) n++;
    return n;
}

/* So many lines from here on, the most that can be had; 0: none. */
static uint32_t take_from(trying *t, uint32_t first, bool *good)
{
    uint32_t n = known_from(t->g, first), least = t->g->heads ? 1 : LEAST;
    while (n >= least && *good && !try(t, first, n, good)) n = t->s->broad || !td_jit_allowed() ? 0 : n - (1 + n / 8);
    return n < least ? 0 : n;
}

bool td_runs_find(td_fused *g, const td_sweep *s, const td_fused_seen *seen, uint32_t most)
{
    const char *said = getenv("TENSORD_JIT");
    if (said && !strcmp(said, "0")) return true;                                             /* for who compares */
    if (s->broad && (g->ncalls > TD_JIT_LINES || known_from(g, 0) < g->ncalls)) return true; /* all or nothing */
    trying *t = malloc(sizeof *t);
    bool good = t;
    for (uint32_t first = 0, n; good && first < g->ncalls && g->nruns < most && td_jit_allowed(); first += n ? n : 1) {
        *t = (trying){.g = g, .s = s, .seen = seen};
        n = take_from(t, first, &good);
        if (!n && s->broad) break;
    }
    free(t);
    return good;
}

const td_fused_run *td_run_of(const td_fused *g, uint32_t call)
{
    for (const td_fused_run *r = g->runs; r < g->runs + g->nruns; r++)
        if (call >= r->first && call < r->first + r->ncalls) return r;
    return NULL;
}

bool td_runs_all(const td_fused *g)
{
    return g->nruns == 1 && g->runs[0].ncalls == g->ncalls;
}

/* ---- running */

static int64_t step_of(const td_sweep *s, const td_desc *d, int dims)
{
    for (int i = dims - 1; i >= (s->a_tile == 1); i--)
        if (s->whole.shape[i] != 1) return stride_along(&s->whole, d, i) * (int64_t)td_dtype_size((td_dtype)d->dtype);
    return 0;
}

static void place_run(td_fused *g, td_fused_run *r, const td_sweep *s)
{
    r->length = s->flat ? 0 : length_behind(&s->whole, r->dims);
    for (uint32_t k = 0; k < r->noperands; k++) {
        td_fused_operand *o = &g->operands[r->operands + k];
        if (o->base == TD_FUSED_NONE) continue;
        const td_desc *d = &g->descs[o->desc];
        o->advance = td_sweep_advance(s, o, d);
        o->step = s->flat ? 0 : step_of(s, d, r->dims);
    }
}

void td_runs_place(td_fused *g, const td_sweep *s)
{
    for (uint32_t k = 0; k < g->nruns; k++) place_run(g, &g->runs[k], s);
}

void td_run_part(const td_fused *g, const td_fused_run *r, const td_kpart *part, unsigned char *const *base)
{
    void *at[TD_JIT_SOURCES + TD_JIT_LINES];
    const td_fused_operand *o = g->operands + r->operands;
    for (int64_t i = 0; i < part->runs; i++) {
        int64_t first = part->at + i * part->step;
        for (uint32_t k = 0; k < r->noperands; k++)
            at[k] = o[k].base == TD_FUSED_NONE ? NULL : base[o[k].base] + o[k].offset + first * o[k].advance;
        r->jit.loop(part->length, at);
    }
}

void td_run_tile(const td_fused *g, const td_fused_run *r, int64_t tile, unsigned char *const *base)
{
    void *at[TD_JIT_SOURCES + TD_JIT_LINES];
    const td_fused_operand *o = g->operands + r->operands;
    int64_t n = g->last && tile == g->tiles - 1 ? (int64_t)g->last_tile : (int64_t)g->tile;
    int64_t length = r->length ? r->length : n;
    for (uint32_t k = 0; k < r->noperands; k++)
        at[k] = o[k].base == TD_FUSED_NONE ? NULL : base[o[k].base] + o[k].offset + tile * o[k].advance;
    for (;;) {
        r->jit.loop(length, at);
        if ((n -= length) <= 0) return;
        for (uint32_t k = 0; k < r->noperands; k++) at[k] = (void *)((uintptr_t)at[k] + (uintptr_t)o[k].step);
    }
}

void td_runs_free(td_fused *g)
{
    for (uint32_t k = 0; k < g->nruns; k++) td_jit_free(&g->runs[k].jit);
    free(g->runs);
}
