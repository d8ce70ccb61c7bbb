/* The segments of a heap: how they come, when they go, and what happens when the heap's owner has gone.
 *
 * A segment that a client may have mapped stays with its heap, because the client still sees what is in it; others go
 * back when they are empty, but for one small one that is kept warm. An orphan ends with its last extent, its last
 * segment in the making and its owner's process. */
#include "shm/arena.h"
#include <stdlib.h>

/* Larger empty segments wait in the budget's warm list, where others can have them. */
#define KEEP_MAX (UINT64_C(16) << 20)

static bool empty(const td_arena_segment *a)
{
    return a->used == a->idle;
}

/* Take an empty segment out of its heap. */
static void take_out(td_heap *h, td_arena_segment *a)
{
    td_slab_drop_idle(h, a);
    td_chunk_close(h, a);
    if (h->kept == a) h->kept = NULL;
    if (a->prev) a->prev->next = a->next;
    else h->segments = a->next;
    if (a->next) a->next->prev = a->prev;
    h->committed -= a->segment->size;
    if (!a->segment->gone) td_heap_count(h, -(int64_t)a->segment->size);
    h->nsegments--;
}

static void put_in(td_heap *h, td_arena_segment *a)
{
    a->heap = h;
    a->prev = NULL;
    a->next = h->segments;
    if (a->next) a->next->prev = a;
    h->segments = a;
    h->committed += a->segment->size;
    h->nsegments++;
}

static void give_back(td_heap *h, td_arena_segment *a)
{
    take_out(h, a);
    if (h->budget->leaving) h->budget->leaving(a->segment, h->budget->leaving_arg);
    td_budget_give_back(h->budget, a->segment);
    free(a);
}

void td_heap_consider(td_heap *h, td_arena_segment *a)
{
    if (!empty(a)) return;
    if (h->orphan) {
        if (!h->mapped || !a->segment->shared) give_back(h, a);
        return;
    }
    if (a->segment->shared || h->kept == a) return;
    if (a->segment->size > KEEP_MAX) {
        give_back(h, a);
        return;
    }
    td_arena_segment *old = h->kept;
    if (!old || !empty(old) || old->segment->shared) h->kept = a;
    else if (old->segment->size >= a->segment->size) give_back(h, a);
    else {
        give_back(h, old);
        h->kept = a;
    }
}

uint64_t td_heap_trim(td_heap *h)
{
    uint64_t before = h->committed;
    for (td_arena_segment *a = h->segments, *next; a; a = next) {
        next = a->next;
        if (empty(a) && !a->segment->shared) give_back(h, a);
    }
    return before - h->committed;
}

uint64_t td_heap_settle(td_heap *h, bool at_once, void (*ask)(td_segment *s, void *arg), void *arg, bool *more)
{
    uint64_t bytes = 0;
    for (td_arena_segment *a = h->segments, *next; a; a = next) {
        next = a->next;
        bool rested = a->rested || at_once;
        a->rested = empty(a);
        if (!a->rested) continue;
        if (!rested) {
            *more = true;
        } else if (!a->segment->shared) {
            bytes += a->segment->size;
            give_back(h, a);
        } else if (ask) {
            bytes += a->segment->size;
            ask(a->segment, arg);
        }
    }
    return bytes;
}

static void end(td_heap *h)
{
    td_heap_trim(h);
    assert(!h->segments);
    td_chunk_drop_spares(h);
    td_budget_user_unref(h->budget, h->user);
    free(h);
}

void td_heap_end_if_done(td_heap *h)
{
    if (h->orphan && !h->mapped && !h->extents && !h->growing) end(h);
}

static void forget_clients(td_heap *h)
{
    for (td_arena_segment *a = h->segments; a; a = a->next) a->segment->shared = 0;
}

void td_heap_free(td_heap *h)
{
    if (!h || (h->orphan && h->extents)) return; /* an orphan ends itself */
    assert(!h->extents && !h->growing);
    forget_clients(h);
    h->mapped = false;
    end(h);
}

void td_heap_orphan(td_heap *h, bool mapped)
{
    h->orphan = true;
    h->mapped = true;
    if (!mapped) td_heap_unmapped(h);
}

void td_heap_unmapped(td_heap *h)
{
    h->mapped = false;
    forget_clients(h);
    if (!h->orphan) return;
    td_heap_trim(h);
    td_heap_end_if_done(h);
}

/* Numbers and counts stay: the process has them mapped by these, and so has who reads what lay there. */
uint64_t td_heap_hand_over(td_heap *from, td_heap *to)
{
    uint64_t bytes = 0;
    if (from->uid != to->uid || from->kind != to->kind || to->orphan) return 0;
    for (td_arena_segment *a = from->segments, *next; a; a = next) {
        next = a->next;
        if (!empty(a)) continue;
        take_out(from, a);
        if (td_chunk_open(to, a)) {
            td_heap_count(to, (int64_t)a->segment->size);
            put_in(to, a);
            bytes += a->segment->size;
            continue;
        }
        a->segment->foreign = true; /* no memory for its record: nobody gets it */
        td_budget_give_back(from->budget, a->segment);
        free(a);
    }
    return bytes;
}

void td_heap_forgo(td_heap *h, td_segment *s)
{
    if (s->gone) return;
    s->gone = s->foreign = true;
    h->budget->committed -= s->size;
    td_heap_count(h, -(int64_t)s->size);
}

void td_heap_distrust(td_heap *h)
{
    for (td_arena_segment *a = h->segments; a; a = a->next) a->segment->foreign = true;
}

int td_heap_reserve(td_heap *h, uint64_t size, td_error *e)
{
    td_budget *b = h->budget;
    size = td_page_round(size);
    if (td_heap_beyond_user(h, size))
        return td_fail(e, TD_E_QUOTA, "the user's sessions may not commit %llu bytes more", (unsigned long long)size);
    if (!td_budget_room(b, size))
        return td_fail(e, TD_E_MEMORY,
                       "memory is full: a segment of %llu bytes is wanted, %llu of %llu bytes are committed",
                       (unsigned long long)size, (unsigned long long)b->committed, (unsigned long long)b->limit);
    b->committed += size;
    td_heap_count(h, (int64_t)size);
    b->segments++;
    h->growing++;
    return 0;
}

void td_heap_unreserve(td_heap *h, uint64_t size)
{
    size = td_page_round(size);
    h->budget->committed -= size;
    td_heap_count(h, -(int64_t)size);
    h->budget->segments--;
    h->growing--;
    td_heap_end_if_done(h);
}

void td_heap_take_in(td_heap *h, td_segment *s)
{
    td_budget *b = h->budget;
    td_arena_segment *a = calloc(1, sizeof *a);
    s->next = NULL;
    s->uid = h->uid;
    s->shared = 0;
    if (a) {
        a->segment = s;
        a->heap = h;
    }
    if (!a || !td_chunk_open(h, a)) { /* no memory for a record: whoever waits asks again and fails properly */
        free(a);
        td_heap_count(h, -(int64_t)s->size);
        td_budget_give_back(b, s);
        return;
    }
    if (!++b->next_segment_id) {
        b->next_segment_id = 1;
        b->generation++;
    }
    s->id = b->next_segment_id;
    s->generation = b->generation;
    put_in(h, a);
}

void td_heap_adopt(td_heap *h, td_segment *s)
{
    h->growing--;
    td_heap_take_in(h, s);
    if (!h->orphan) return;
    td_heap_trim(h);
    td_heap_end_if_done(h);
}

td_segment *td_heap_next_segment(const td_heap *h, const td_segment *after)
{
    const td_arena_segment *a = h->segments;
    if (after) {
        while (a && a->segment != after) a = a->next;
        if (a) a = a->next;
    }
    return a ? a->segment : NULL;
}

td_segment *td_heap_find_segment(const td_heap *h, uint32_t id, uint32_t generation)
{
    const td_arena_segment *a = h->segments;
    while (a && (a->segment->id != id || a->segment->generation != generation)) a = a->next;
    return a ? a->segment : NULL;
}

uint32_t td_heap_some_segments(const td_heap *h, uint32_t from, uint32_t most,
                               void (*fn)(const td_segment *s, void *arg), void *arg)
{
    const td_arena_segment *a = h->segments;
    uint32_t n = 0;
    while (a && from--) a = a->next;
    for (; a && n < most; a = a->next, n++) fn(a->segment, arg);
    return n;
}
