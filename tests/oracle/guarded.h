/* Runs calls so that a kernel that strays dies or is found out: operands, work and scratch memory are copied to places
 * that end at a page nobody may touch, with one before them too; outputs, work and scratch hold garbage before; what a
 * call may only read is compared afterwards, as are the bytes of an output between its rows. Of two calls one runs its
 * chunks backwards, as a pool may. */
#ifndef TENSORD_TESTS_ORACLE_GUARDED_H
#define TENSORD_TESTS_ORACLE_GUARDED_H

#include "daemon/kernels/kernel.h"
#include "tests/unit/grad_support.h"
#include <sys/mman.h>
#include <unistd.h>

enum { GARBAGE = 0xC3, GUARDED_ARGS = 140 };

typedef struct guarded_block {
    char *map, *data;
    size_t mapped, bytes;
} guarded_block;

/* `bytes` that end where `align` allows, at a page that cannot be touched. */
static guarded_block guarded_new(size_t bytes, size_t align)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + align + page - 1) / page * page;
    guarded_block b = {.mapped = room + 2 * page, .bytes = bytes};
    b.map = mmap(NULL, b.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b.map == MAP_FAILED || mprotect(b.map + page, room, PROT_READ | PROT_WRITE)) abort();
    size_t before = (room - bytes) / align * align;
    b.data = b.map + page + before;
    memset(b.map + page, GARBAGE, before);
    memset(b.data, GARBAGE, room - before);
    return b;
}

/* Were the bytes beside it left alone? Those that alignment leaves behind it, and those before it. */
static bool guarded_free(guarded_block *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bool good = true;
    for (const char *p = b->map + page; p < b->map + b->mapped - page && good; p++)
        if (p == b->data && b->bytes) p += b->bytes - 1;
        else good = (unsigned char)*p == GARBAGE;
    munmap(b->map, b->mapped);
    return good;
}

typedef struct guarded_span { /* the bytes of one or several operands that overlap */
    char *lo, *hi;
    bool written, fresh; /* fresh: holds nothing yet */
    guarded_block block;
} guarded_span;

typedef struct guarded_call {
    guarded_span span[GUARDED_ARGS];
    int n;
} guarded_call;

static void guarded_extent(const td_karg *a, char **lo, char **hi)
{
    uint64_t from, to;
    td_desc_extent(a->desc, &from, &to);
    char *base = (char *)a->data - a->desc->offset * (int64_t)td_dtype_size((td_dtype)a->desc->dtype);
    *lo = base + from, *hi = base + to;
}

static bool guarded_skips(const td_karg *a)
{
    return !a->data || !a->desc || !td_desc_numel(a->desc);
}

static void guarded_add(guarded_call *g, const td_karg *a, bool written, bool fresh)
{
    guarded_span s = {.written = written, .fresh = fresh};
    if (guarded_skips(a)) return;
    guarded_extent(a, &s.lo, &s.hi);
    for (int i = 0; i < g->n;) {
        guarded_span *o = &g->span[i];
        if (o->hi <= s.lo || s.hi <= o->lo) {
            i++;
            continue;
        }
        s.lo = o->lo < s.lo ? o->lo : s.lo;
        s.hi = o->hi > s.hi ? o->hi : s.hi;
        s.written |= o->written;
        s.fresh &= o->fresh;
        *o = g->span[--g->n];
    }
    g->span[g->n++] = s;
}

static void *guarded_at(const guarded_call *g, const td_karg *a)
{
    char *lo, *hi;
    if (guarded_skips(a)) return a->data;
    guarded_extent(a, &lo, &hi);
    for (int i = 0; i < g->n; i++)
        if (g->span[i].lo <= lo && hi <= g->span[i].hi)
            return g->span[i].block.data + ((char *)a->data - g->span[i].lo);
    abort();
}

static void guarded_begin(guarded_call *g, td_call *c)
{
    int n = c->nin + c->nout;
    if (n > GUARDED_ARGS) abort();
    for (int i = 0; i < c->nin; i++) guarded_add(g, &c->args[i], c->op->mutates != 0, false);
    for (int i = c->nin; i < n; i++) guarded_add(g, &c->args[i], true, !(c->flags & TD_CF_OUT));
    for (int i = 0; i < g->n; i++) {
        guarded_span *s = &g->span[i];
        s->block = guarded_new((size_t)(s->hi - s->lo), 1);
        if (!s->fresh) memcpy(s->block.data, s->lo, s->block.bytes);
    }
    for (int i = 0; i < n; i++) c->args[i].data = guarded_at(g, &c->args[i]);
}

static void guarded_end(guarded_call *g)
{
    for (int i = 0; i < g->n; i++) {
        guarded_span *s = &g->span[i];
        if (s->written) memcpy(s->lo, s->block.data, s->block.bytes);
        else CU_ASSERT(!memcmp(s->lo, s->block.data, s->block.bytes));
        CU_ASSERT(guarded_free(&s->block));
    }
}

static void guarded_chunks(td_kcall *k, bool backwards)
{
    guarded_block scratch = guarded_new(k->scratch_bytes, 64), work = guarded_new(k->work_bytes, 64);
    k->work = work.data;
    for (int p = 0; p < k->nphases && !atomic_load(&k->failed); p++)
        for (int64_t i = 0, n = k->phase[p].chunks; i < n; i++) {
            memset(scratch.data, GARBAGE, scratch.bytes < 8192 ? scratch.bytes : 8192);
            k->phase[p].fn(k, backwards ? n - 1 - i : i, scratch.data);
        }
    CU_ASSERT(guarded_free(&scratch));
    CU_ASSERT(guarded_free(&work));
}

static void guarded_submit(td_issuer *who, td_call *c)
{
    static bool backwards;
    guarded_call g = {.n = 0};
    td_plan_fn plan = td_cpu_plans[c->op->id];
    if (!plan || c->copy) { /* the copy was planned for its place */
        t_submit(who, c);
        return;
    }
    guarded_begin(&g, c);
    c->k.nphases = c->k.clean_phases = 0;
    c->k.scratch_bytes = c->k.work_bytes = 0;
    c->k.replan = NULL;
    CU_ASSERT_EQUAL_FATAL(plan(&c->k, &c->k.error), 0);
    guarded_chunks(&c->k, backwards = !backwards);
    guarded_end(&g);
    t_done(c);
}

#endif
