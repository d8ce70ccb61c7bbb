/* The heap: extents out of slabs and chunks, and the segments they come from.
 *
 * A heap starts with 64 KiB and doubles; a big request may get a segment of its own. Small extents
 * are slots of slabs, large ones chunks; which one an extent is, its block pointer's lowest bit tells. */
#include "shm/arena.h"
#include <stdlib.h>

#define LARGE (UINT64_C(2) << 20)
#define BIG (UINT64_C(8) << 20)
#define ARENA_LEAST (UINT64_C(64) << 20)
#define ARENA_MOST (UINT64_C(512) << 20)
#define SLAB_TAG ((uintptr_t)1)

int td_heap_new(td_heap **out, td_budget *budget, td_segment_kind kind, uint32_t uid, td_error *e)
{
    td_heap *h = *out = calloc(1, sizeof *h);
    if (!h) return td_no_memory(e, "for a heap's record");
    h->budget = budget;
    h->kind = kind;
    h->uid = uid;
    if (kind == TD_SEGMENT_SERVICE || (h->user = td_budget_user_ref(budget, uid))) return 0;
    free(h);
    *out = NULL;
    return td_no_memory(e, "for a user's record");
}

/* Bytes of chunk that a request takes. */
static uint64_t chunk_bytes(const td_heap *h, uint64_t size)
{
    if (size <= TD_SLAB_SLOT_MAX) return td_slab_bytes(h, td_slab_class(size));
    return size >= LARGE ? (size + 4095) & ~UINT64_C(4095) : size;
}

static bool take(td_heap *h, uint64_t size, td_extent *out)
{
    if (size <= TD_SLAB_SLOT_MAX) {
        td_slab *s = td_slab_take(h, td_slab_class(size), &out->offset);
        if (!s) return false;
        out->segment = s->chunk->owner->segment;
        out->block = (void *)((uintptr_t)s | SLAB_TAG);
    } else {
        td_chunk *c = td_chunk_take(h, chunk_bytes(h, size), size >= LARGE ? 4096 : TD_EXTENT_ALIGN);
        if (!c) return false;
        out->segment = c->owner->segment;
        out->offset = c->offset;
        out->block = c;
    }
    out->size = size;
    h->extents++;
    h->used += size;
    h->budget->used += size;
    return true;
}

/* Making a device's arena costs more than it holds: few that are large. Where there is no room, what is asked for. */
static uint64_t arena(const td_heap *h, uint64_t need)
{
    const td_budget *b = h->budget;
    uint64_t room = b->limit - (b->committed - b->warm_bytes + b->work), want = h->committed;
    if (want < ARENA_LEAST) want = ARENA_LEAST;
    if (want > ARENA_MOST) want = ARENA_MOST;
    if (want < need || want > room / 2) want = need;
    return (want + b->granule - 1) & ~(b->granule - 1);
}

/* As large as the heap is so far while that is little, then an eighth of it: who has three batches does not pay for
 * seven. Never more than an eighth of what is left for all, unless the request needs it; a big one gets what it needs.
 */
static uint64_t growth(const td_heap *h, uint64_t need)
{
    if (h->budget->granule) return arena(h, need);
    uint64_t like = h->committed <= BIG ? h->committed : h->committed / 8 > BIG ? h->committed / 8 : BIG;
    const td_budget *b = h->budget;
    uint64_t room = b->limit - (b->committed - b->warm_bytes + b->work), want = TD_SEGMENT_MIN;
    if (like > TD_SEGMENT_MAX) like = TD_SEGMENT_MAX;
    if (need >= BIG) return td_page_round(need < like && like < room / 8 ? like : need);
    while (want < need || want < like) want *= 2;
    while (want > TD_SEGMENT_MIN && want / 2 >= need && want > room / 8) want /= 2;
    return want;
}

static int full(td_heap *h, uint64_t bytes, td_error *e)
{
    const td_budget *b = h->budget;
    const double mb = 1e6;
    if (bytes > b->limit)
        return td_fail(
            e, TD_E_MEMORY,
            "%.1f MB wanted, more than the %.1f MB that tensord may take in all; start it with more --memory, "
            "or ask for less",
            bytes / mb, b->limit / mb);
    if (td_heap_beyond_user(h, td_budget_round(h->budget, chunk_bytes(h, bytes))))
        return td_fail(e, TD_E_QUOTA,
                       "%.1f MB wanted, but %.1f MB are committed for processes of user %u that live and may have "
                       "them mapped, where the user may use %.1f; close their connections with td_disconnect, end "
                       "them, or start tensord with more --user-memory",
                       bytes / mb, h->user->committed / mb, h->uid, b->user_limit / mb);
    return td_fail(
        e, TD_E_MEMORY,
        "memory is full: %.1f MB wanted, %.1f of %.1f MB committed, %.1f MB in use (%.1f MB of it in this heap); "
        "free tensors, or start tensord with more --memory",
        bytes / mb, b->committed / mb, b->limit / mb, b->used / mb, h->used / mb);
}

/* The slow way: no free chunk fits. */
static int find_more(td_heap *h, uint64_t size, td_extent *out, td_need *need, td_error *e)
{
    td_slab_drop_idle(h, NULL);
    if (take(h, size, out)) return 0;
    uint64_t least = chunk_bytes(h, size), want = growth(h, least);
    td_segment *warm =
        td_heap_beyond_user(h, want * 2) ? NULL : td_budget_take_warm(h->budget, h->kind, h->uid, least, want * 2);
    if (warm) {
        td_heap_count(h, (int64_t)warm->size);
        td_heap_take_in(h, warm);
        if (take(h, size, out)) return 0;
    }
    if (!td_heap_room(h, want)) {
        want = td_budget_round(h->budget, least);
        if (!td_heap_room(h, want)) return full(h, size, e);
    }
    need->bytes = want;
    need->heap = h;
    return TD_WAIT_GROW;
}

static uint64_t extent_size(uint64_t bytes)
{
    return bytes ? (bytes + TD_EXTENT_ALIGN - 1) & ~(uint64_t)(TD_EXTENT_ALIGN - 1) : TD_EXTENT_ALIGN;
}

int td_heap_alloc(td_heap *h, uint64_t bytes, td_extent *out, td_need *need, td_error *e)
{
    *out = (td_extent){0};
    if (bytes > UINT64_C(1) << 46) return full(h, bytes, e);
    if (h->orphan) return td_fail(e, TD_E_CLOSED, "the owner of this memory has gone");
    uint64_t size = extent_size(bytes);
    if (take(h, size, out)) return 0;
    return find_more(h, size, out, need, e);
}

td_budget *td_heap_budget(const td_heap *h)
{
    return h->budget;
}

td_segment_kind td_heap_kind(const td_heap *h)
{
    return h->kind;
}

int td_heap_alloc_now(td_heap *h, uint64_t bytes, td_extent *out, td_error *e)
{
    td_need need = {0};
    int rc;
    while ((rc = td_heap_alloc(h, bytes, out, &need, e)) == TD_WAIT_GROW) {
        td_segment *s;
        if ((rc = td_heap_reserve(h, need.bytes, e))) return rc;
        if ((rc = td_budget_make(h->budget, &s, h->kind, need.bytes, e))) {
            td_heap_unreserve(h, need.bytes);
            return rc;
        }
        td_heap_adopt(h, s);
    }
    return rc;
}

void td_heap_release(td_heap *h, td_extent *x)
{
    uintptr_t block = (uintptr_t)x->block;
    td_arena_segment *a;
    if (!x->segment) return;
    if (block & SLAB_TAG) a = td_slab_give((td_slab *)(block & ~SLAB_TAG), x->offset);
    else {
        a = ((td_chunk *)block)->owner;
        td_chunk_give(h, (td_chunk *)block);
    }
    h->extents--;
    h->used -= x->size;
    h->budget->used -= x->size;
    *x = (td_extent){0};
    if (a) td_heap_consider(h, a);
    if (h->orphan) td_heap_end_if_done(h);
}

void td_heap_shrink(td_heap *h, td_extent *x, uint64_t bytes)
{
    uint64_t size = extent_size(bytes);
    assert(x->segment && size <= x->size);
    if (!((uintptr_t)x->block & SLAB_TAG)) td_chunk_shrink(h, x->block, size);
    h->used -= x->size - size;
    h->budget->used -= x->size - size;
    x->size = size;
}

td_heap *td_extent_heap(const td_extent *x)
{
    uintptr_t block = (uintptr_t)x->block;
    if (!block) return NULL;
    return block & SLAB_TAG ? ((td_slab *)(block & ~SLAB_TAG))->heap : ((td_chunk *)block)->owner->heap;
}

uint64_t td_heap_idle(const td_heap *h)
{
    return h->committed - h->used;
}

void td_heap_get_stats(const td_heap *h, td_heap_stats *out)
{
    *out = (td_heap_stats){.committed = h->committed,
                           .used = h->used,
                           .largest_free = td_chunk_largest(h),
                           .segments = h->nsegments,
                           .extents = h->extents};
}
