/* Slabs: a chunk cut into slots of one size, so that a small extent costs two bytes of book-keeping and a few
 * instructions.
 *
 * The first slabs of a class are small (a client with ten tensors takes a few kB), later ones grow to 64 KiB. Free
 * slots are a stack: the slot freed last, still in the cache, is handed out next. One empty slab of a class is kept
 * until its segment could go or memory runs short. */
#include "shm/arena.h"
#include <stdlib.h>

static const uint16_t class_bytes[TD_SLAB_CLASSES] = {64,  128,  192,  256,  320,  384,  448,  512,  640,  768,
                                                      896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096};
/* Class of a size in units of 64 bytes, rounded up: four classes a power of two from 512 on. */
static const uint8_t class_of[65] = {0,  0,  1,  2,  3,  4,  5,  6,  7,  8,  8,  9,  9,  10, 10, 11, 11,
                                     12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15, 16,
                                     16, 16, 16, 16, 16, 16, 16, 17, 17, 17, 17, 17, 17, 17, 17, 18, 18,
                                     18, 18, 18, 18, 18, 18, 19, 19, 19, 19, 19, 19, 19, 19};

unsigned td_slab_class(uint64_t bytes)
{
    return class_of[(bytes + 63) / 64];
}

uint64_t td_slab_bytes(const td_heap *h, unsigned klass)
{
    unsigned step = h->slabs_made[klass] < 4 ? h->slabs_made[klass] : 4;
    uint64_t want = UINT64_C(4096) << step, least = (uint64_t)class_bytes[klass] * 2 << step;
    if (want < least) want = least;
    return want > 65536 ? 65536 : want;
}

static void list(td_slab *s)
{
    td_slab **head = &s->heap->partial[s->klass];
    s->prev = NULL;
    s->next = *head;
    if (*head) (*head)->prev = s;
    *head = s;
    s->listed = true;
}

static void unlist(td_slab *s)
{
    if (s->prev) s->prev->next = s->next;
    else s->heap->partial[s->klass] = s->next;
    if (s->next) s->next->prev = s->prev;
    s->listed = false;
}

static td_slab *slab_new(td_heap *h, unsigned klass)
{
    uint64_t bytes = td_slab_bytes(h, klass);
    td_chunk *c = td_chunk_take(h, bytes, TD_EXTENT_ALIGN);
    if (!c) return NULL;
    unsigned slots = (unsigned)(bytes / class_bytes[klass]);
    td_slab *s = malloc(sizeof *s + slots * sizeof s->stack[0]);
    if (!s) {
        td_chunk_give(h, c);
        return NULL;
    }
    *s = (td_slab){
        .heap = h, .chunk = c, .slot_bytes = class_bytes[klass], .klass = (uint16_t)klass, .slots = (uint16_t)slots};
    h->slabs_made[klass]++;
    c->owner->idle += c->size; /* it has no live slot yet */
    list(s);
    return s;
}

td_slab *td_slab_take(td_heap *h, unsigned klass, uint64_t *offset)
{
    td_slab *s = h->partial[klass];
    if (!s && !(s = slab_new(h, klass))) return NULL;
    if (!s->live++) {
        s->chunk->owner->idle -= s->chunk->size;
        s->chunk->owner->rested = false;
        if (h->idle[klass] == s) h->idle[klass] = NULL;
    }
    unsigned slot = s->count ? s->stack[--s->count] : s->fresh++;
    if (s->live == s->slots) unlist(s);
    *offset = s->chunk->offset + (uint64_t)slot * s->slot_bytes;
    return s;
}

static void slab_free(td_slab *s)
{
    s->chunk->owner->idle -= s->chunk->size;
    s->heap->slabs_made[s->klass]--;
    unlist(s);
    td_chunk_give(s->heap, s->chunk);
    free(s);
}

td_arena_segment *td_slab_give(td_slab *s, uint64_t offset)
{
    td_arena_segment *a = s->chunk->owner;
    uint64_t slot = (offset - s->chunk->offset) / s->slot_bytes;
    assert(s->live && slot < s->fresh && s->count < s->slots);
    s->stack[s->count++] = (uint16_t)slot;
    if (!s->listed) list(s);
    if (--s->live) return NULL;
    a->idle += s->chunk->size;
    if (s->heap->idle[s->klass]) slab_free(s);
    else s->heap->idle[s->klass] = s;
    return a;
}

void td_slab_drop_idle(td_heap *h, td_arena_segment *a)
{
    for (unsigned k = 0; k < TD_SLAB_CLASSES; k++) {
        td_slab *s = h->idle[k];
        if (!s || (a && s->chunk->owner != a)) continue;
        h->idle[k] = NULL;
        slab_free(s);
    }
}
