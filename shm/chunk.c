/* Chunks: best fit in constant time, newest first, free neighbours merged at once.
 *
 * Invariant: no two neighbours are both free, and every free chunk is in the bin of its size. Sizes are multiples of
 * TD_EXTENT_ALIGN. A bin holds sizes of one eighth of a power of two; the search looks a little into the bin where the
 * size itself belongs (a chunk of the very size just freed is there), then takes the first of any larger bin. */
#include "shm/arena.h"
#include <stdlib.h>

#define LOOK 8 /* chunks looked at in the size's own bin */
#define SPARES 4096

static void bin_of(uint64_t size, unsigned *row, unsigned *column)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(size);
    *row = log - TD_BIN_FIRST;
    *column = (unsigned)(size >> (log - 3)) & (TD_BIN_COLUMNS - 1);
    if (*row >= TD_BIN_ROWS) {
        *row = TD_BIN_ROWS - 1;
        *column = TD_BIN_COLUMNS - 1;
    }
}

static void bin_add(td_heap *h, td_chunk *c)
{
    unsigned r, k;
    bin_of(c->size, &r, &k);
    c->free = true;
    c->bin_prev = NULL;
    c->bin_next = h->bin[r][k];
    if (c->bin_next) c->bin_next->bin_prev = c;
    h->bin[r][k] = c;
    h->row_bits |= 1u << r;
    h->column_bits[r] |= (uint8_t)(1u << k);
}

static void bin_remove(td_heap *h, td_chunk *c)
{
    unsigned r, k;
    bin_of(c->size, &r, &k);
    c->free = false;
    if (c->bin_prev) c->bin_prev->bin_next = c->bin_next;
    else h->bin[r][k] = c->bin_next;
    if (c->bin_next) c->bin_next->bin_prev = c->bin_prev;
    if (h->bin[r][k]) return;
    h->column_bits[r] &= (uint8_t) ~(1u << k);
    if (!h->column_bits[r]) h->row_bits &= ~(1u << r);
}

static td_chunk *record_new(td_heap *h)
{
    td_chunk *c = h->spare;
    if (!c) return malloc(sizeof *c);
    h->spare = c->after;
    h->spares--;
    return c;
}

static void record_free(td_heap *h, td_chunk *c)
{
    if (h->spares >= SPARES) {
        free(c);
        return;
    }
    c->after = h->spare;
    h->spare = c;
    h->spares++;
}

void td_chunk_drop_spares(td_heap *h)
{
    while (h->spare) {
        td_chunk *c = h->spare;
        h->spare = c->after;
        free(c);
    }
    h->spares = 0;
}

/* Bytes to leave in front so that the extent starts aligned; a front that is not 0 is large enough to be a chunk. */
static uint64_t front_of(const td_chunk *c, uint64_t align)
{
    uint64_t front = -c->offset & (align - 1);
    while (front && front < TD_CHUNK_MIN) front += align;
    return front;
}

static bool fits(const td_chunk *c, uint64_t bytes, uint64_t align)
{
    uint64_t front = front_of(c, align);
    return front <= c->size && bytes <= c->size - front;
}

static td_chunk *look_in(td_chunk *c, uint64_t bytes, uint64_t align, int most)
{
    for (; c && most; c = c->bin_next, most--)
        if (fits(c, bytes, align)) return c;
    return NULL;
}

static td_chunk *find(td_heap *h, uint64_t bytes, uint64_t align)
{
    unsigned r, k;
    bin_of(bytes, &r, &k);
    td_chunk *c = look_in(h->bin[r][k], bytes, align, r == TD_BIN_ROWS - 1 ? -1 : LOOK);
    unsigned columns = h->column_bits[r] & (0xfeu << k);
    while (!c) { /* every chunk of a larger bin is large enough, but perhaps not aligned */
        for (; columns && !c; columns &= columns - 1)
            c = look_in(h->bin[r][__builtin_ctz(columns)], bytes, align, align > TD_EXTENT_ALIGN ? LOOK : 1);
        uint32_t rows = h->row_bits & ~((2u << r) - 1);
        if (c || !rows) break;
        r = (unsigned)__builtin_ctz(rows);
        columns = h->column_bits[r];
    }
    return c;
}

/* Cut `c` (not in a bin) at `at` bytes; the second part becomes free. Without memory for a record it stays whole. */
static bool cut(td_heap *h, td_chunk *c, uint64_t at)
{
    td_chunk *rest = record_new(h);
    if (!rest) return false;
    *rest =
        (td_chunk){.owner = c->owner, .offset = c->offset + at, .size = c->size - at, .before = c, .after = c->after};
    if (rest->after) rest->after->before = rest;
    c->after = rest;
    c->size = at;
    return true;
}

td_chunk *td_chunk_take(td_heap *h, uint64_t bytes, uint64_t align)
{
    if (bytes < TD_CHUNK_MIN) bytes = TD_CHUNK_MIN;
    td_chunk *c = find(h, bytes, align);
    if (!c) return NULL;
    bin_remove(h, c);
    uint64_t front = front_of(c, align);
    if (front) {
        if (!cut(h, c, front)) {
            bin_add(h, c);
            return NULL;
        }
        bin_add(h, c);
        c = c->after;
    }
    if (c->size - bytes >= TD_CHUNK_MIN && cut(h, c, bytes)) bin_add(h, c->after);
    c->owner->used += c->size;
    c->owner->rested = false;
    return c;
}

static void swallow_after(td_heap *h, td_chunk *c)
{
    td_chunk *gone = c->after;
    c->size += gone->size;
    c->after = gone->after;
    if (c->after) c->after->before = c;
    record_free(h, gone);
}

void td_chunk_give(td_heap *h, td_chunk *c)
{
    assert(!c->free);
    c->owner->used -= c->size;
    if (c->after && c->after->free) {
        bin_remove(h, c->after);
        swallow_after(h, c);
    }
    if (c->before && c->before->free) {
        c = c->before;
        bin_remove(h, c);
        swallow_after(h, c);
    }
    bin_add(h, c);
}

void td_chunk_shrink(td_heap *h, td_chunk *c, uint64_t bytes)
{
    if (bytes < TD_CHUNK_MIN) bytes = TD_CHUNK_MIN;
    if (c->size < bytes + TD_CHUNK_MIN || !cut(h, c, bytes)) return;
    td_chunk_give(h, c->after); /* it merges with what is free behind it */
}

bool td_chunk_open(td_heap *h, td_arena_segment *a)
{
    td_chunk *c = record_new(h);
    if (!c) return false;
    *c = (td_chunk){.owner = a, .size = a->segment->size};
    a->whole = c;
    bin_add(h, c);
    return true;
}

void td_chunk_close(td_heap *h, td_arena_segment *a)
{
    td_chunk *c = a->whole;
    assert(c->free && c->size == a->segment->size);
    bin_remove(h, c);
    record_free(h, c);
}

uint64_t td_chunk_largest(const td_heap *h)
{
    uint64_t most = 0;
    if (!h->row_bits) return 0;
    unsigned r = 31 - (unsigned)__builtin_clz(h->row_bits), k = 31 - (unsigned)__builtin_clz(h->column_bits[r]);
    for (const td_chunk *c = h->bin[r][k]; c; c = c->bin_next)
        if (c->size > most) most = c->size;
    return most;
}
