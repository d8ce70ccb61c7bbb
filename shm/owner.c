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

static void give_back(td_heap *h, td_arena_segment *a)
{
    td_slab_drop_idle(h, a);
    td_chunk_close(h, a);
    if (h->kept == a) h->kept = NULL;
    if (a->prev) a->prev->next = a->next;
    else h->segments = a->next;
    if (a->next) a->next->prev = a->prev;
    h->committed -= a->segment->size;
    h->nsegments--;
    if (h->budget->leaving) h->budget->leaving(a->segment, h->budget->leaving_arg);
    td_budget_give_back(h->budget, a->segment);
    free(a);
}

void td_heap_consider(td_heap *h, td_arena_segment *a)
{
    if (!empty(a)) return;
    if (h->orphan) {
        if (!h->mapped) give_back(h, a);
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
        if (empty(a) && !a->segment->shared && !(h->orphan && h->mapped)) give_back(h, a);
    }
    return before - h->committed;
}

static void end(td_heap *h)
{
    td_heap_trim(h);
    assert(!h->segments);
    td_chunk_drop_spares(h);
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

void td_heap_distrust(td_heap *h)
{
    for (td_arena_segment *a = h->segments; a; a = a->next) a->segment->foreign = true;
}

int td_heap_reserve(td_heap *h, uint64_t size, td_error *e)
{
    td_budget *b = h->budget;
    size = td_page_round(size);
    if (!td_budget_room(b, size))
        return td_fail(e, TD_E_MEMORY,
                       "memory is full: a segment of %llu bytes is wanted, %llu of %llu bytes are committed",
                       (unsigned long long)size, (unsigned long long)b->committed, (unsigned long long)b->limit);
    b->committed += size;
    b->segments++;
    h->growing++;
    return 0;
}

void td_heap_unreserve(td_heap *h, uint64_t size)
{
    h->budget->committed -= td_page_round(size);
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
        td_budget_give_back(b, s);
        return;
    }
    if (!++b->next_segment_id) {
        b->next_segment_id = 1;
        b->generation++;
    }
    s->id = b->next_segment_id;
    s->generation = b->generation;
    a->next = h->segments;
    if (a->next) a->next->prev = a;
    h->segments = a;
    h->committed += s->size;
    h->nsegments++;
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
