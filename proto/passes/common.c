/* 5, common subexpressions: what was worked out before, from the same values in the same state, is not worked out
 * again.
 *
 * The state is that of classes (facts.h), by the time of their last write. A loop's body may run behind itself: what it
 * writes is written when it begins. The time is part of where an entry is looked for, so what was worked out before a
 * write stands in nobody's way behind it.
 *
 * Of tensors only what no gradient passes through is joined: one use in place of two would sum gradients in another
 * order. And only where nobody can tell that two are one: neither is written, and not both leave. */
#include "proto/base/hash.h"
#include "proto/passes/facts.h"
#include "proto/passes/passes.h"

#include <stdlib.h>

enum { LOOKS = 8 /* at entries of one bucket, the last ones first */ };

typedef struct entry {
    uint32_t node, time;   /* when it was worked out */
    uint32_t bucket, next; /* next: of the same bucket */
} entry;

typedef struct joiner {
    td_ir_edit *e;
    const td_ir *ir;
    td_facts *f;
    uint32_t *buckets, mask;
    entry *entries; /* those that can be seen, the last ones last */
    uint32_t nentries;
    uint32_t *seen;    /* by block: how many there were when it began */
    uint32_t *written; /* by class: when */
    uint32_t time;
    bool changed;
} joiner;

/* ---- what may be joined */

static bool differentiates(joiner *j, uint32_t node)
{
    if (!td_records(j->ir, node) || td_ir_row(j->ir->nodes[node].op)->flags & TD_OF_NONDIFF) return false;
    for (uint32_t k = 0; k < j->ir->nodes[node].nin; k++)
        if (td_class_flags(j->f, j->ir, td_ir_in(j->ir, node, k)) & TD_CF_GRAD) return true;
    return false;
}

static bool plain_results(joiner *j, uint32_t node)
{
    for (uint32_t k = 0; k < j->ir->nodes[node].nout; k++)
        if (td_class_of(j->f, j->ir, td_ir_out(j->ir, node, k)) != TD_CLASS_NONE) return false;
    return true;
}

/* Does it make a value of its arguments and of what they hold, and nothing else? */
static bool is_value(joiner *j, uint32_t node)
{
    const td_ir_node *n = &j->ir->nodes[node];
    if (n->nblocks || !n->nout || td_has_effect(j->ir, node) || td_writes_any(j->ir, node)) return false;
    if ((n->op & TD_IR_CLASS) == TD_IR_TD) return !differentiates(j, node);
    return n->op != TD_PRIM_UNINITIALIZED && plain_results(j, node);
}

static bool may_join(joiner *j, uint32_t a, uint32_t b)
{
    for (uint32_t k = 0; k < j->ir->nodes[a].nout; k++) {
        unsigned of_a = td_class_flags(j->f, j->ir, td_ir_out(j->ir, a, k));
        unsigned of_b = td_class_flags(j->f, j->ir, td_ir_out(j->ir, b, k));
        if ((of_a | of_b) & TD_CF_WRITES || of_a & of_b & TD_CF_LEAVES) return false;
    }
    return true;
}

/* When anything of what it reads was written last. */
static uint32_t state_of(joiner *j, uint32_t node)
{
    uint32_t last = 0;
    for (uint32_t k = 0; k < j->ir->nodes[node].nin; k++) {
        uint32_t class = td_class_of(j->f, j->ir, td_ir_in(j->ir, node, k));
        if (class != TD_CLASS_NONE && j->written[class] > last) last = j->written[class];
    }
    return last;
}

/* ---- entries */

static uint32_t bucket_of(const joiner *j, uint32_t node, uint32_t state)
{
    const td_ir_node *n = &j->ir->nodes[node];
    uint32_t key[4] = {n->op, td_hash_keyed(j->ir->args + n->in, n->nin * sizeof *j->ir->args),
                       td_hash_keyed(j->ir->words + n->word, n->nwords * sizeof *j->ir->words), state};
    return td_hash_keyed(key, sizeof key) & j->mask;
}

static void remember(joiner *j, uint32_t node, uint32_t bucket)
{
    j->entries[j->nentries] = (entry){node, j->time, bucket, j->buckets[bucket]};
    j->buckets[bucket] = j->nentries++;
}

static void forget(joiner *j, uint32_t from)
{
    while (j->nentries > from) {
        const entry *x = &j->entries[--j->nentries];
        j->buckets[x->bucket] = x->next;
    }
}

/* ---- a walk */

static void join(joiner *j, uint32_t node)
{
    uint32_t state = state_of(j, node), bucket = bucket_of(j, node, state), k = j->buckets[bucket];
    for (int looks = 0; k != TD_IR_NONE && looks < LOOKS && td_look(j->f); k = j->entries[k].next, looks++) {
        uint32_t earlier = j->entries[k].node;
        if (!td_alike(j->ir, earlier, node) || state > j->entries[k].time || !may_join(j, earlier, node)) continue;
        for (uint32_t i = 0; i < j->ir->nodes[node].nout; i++) {
            uint32_t old = td_ir_out(j->ir, node, i), value = td_ir_out(j->ir, earlier, i);
            j->changed |= td_put_instead(j->e, old, value);
            td_class_unite(j->f, j->ir, old, value);
        }
        return;
    }
    remember(j, node, bucket);
}

static void write(joiner *j, uint32_t node)
{
    const td_ir_node *n = &j->ir->nodes[node];
    if (!td_writes_any(j->ir, node)) return;
    j->time++;
    if (td_reaches(j->ir, node)) j->written[TD_CLASS_ANY] = j->time;
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t class = td_writes(j->ir, node, k) ? td_class_of(j->f, j->ir, td_ir_in(j->ir, node, k)) : TD_CLASS_NONE;
        if (class != TD_CLASS_NONE) j->written[class] = j->time;
    }
}

static void write_all(joiner *j, uint32_t block)
{
    for (td_ir_walk w = td_walk_of(j->ir, block); !(w.step == TD_STEP_END && w.block == block); td_walk_on(&w))
        if (w.step == TD_STEP_NODE) write(j, w.node);
}

static void step(joiner *j, const td_ir_walk *w)
{
    uint32_t owner = j->ir->blocks[w->block].owner;
    switch (w->step) {
    case TD_STEP_BLOCK:
        j->seen[w->block] = j->nentries;
        if (owner != TD_IR_NONE && j->ir->nodes[owner].op == TD_PRIM_LOOP) write_all(j, w->block);
        return;
    case TD_STEP_END: forget(j, j->seen[w->block]); return;
    default:
        if (is_value(j, w->node)) join(j, w->node);
        else write(j, w->node);
    }
}

static bool make_room(joiner *j)
{
    uint32_t n = 64;
    while (n < j->ir->nnodes) n *= 2;
    j->mask = n - 1;
    j->buckets = malloc(n * sizeof *j->buckets);
    j->entries = malloc((j->ir->nnodes + 1u) * sizeof *j->entries);
    j->seen = malloc((j->ir->nblocks + 1u) * sizeof *j->seen);
    j->written = calloc(j->f->nclasses, sizeof *j->written);
    if (j->buckets) memset(j->buckets, 0xff, n * sizeof *j->buckets);
    return j->buckets && j->entries && j->seen && j->written;
}

bool td_pass_common(td_ir_edit *e, td_facts *f)
{
    if (!td_facts_find(f, e)) return false;
    joiner j = {.e = e, .ir = td_ir_now(e), .f = f};
    td_error error = {0};
    if (!make_room(&j)) {
        td_no_memory(&error, "to look for what a program does twice");
        td_ir_fail(e, &error);
    } else {
        for (uint32_t k = 0; k < j.ir->nfunctions; k++)
            for (td_ir_walk w = td_walk_of(j.ir, j.ir->functions[k].block); w.step != TD_STEP_OVER; td_walk_on(&w))
                step(&j, &w);
    }
    free(j.buckets), free(j.entries), free(j.seen), free(j.written);
    return j.changed;
}
