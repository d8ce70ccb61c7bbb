/* The inside of a heap: segments are cut into chunks, and chunks for small extents into slabs of equal slots.
 *
 * A chunk is a piece of one segment, free or in use, with its neighbours in address order, so that free neighbours
 * always merge. Free chunks hang in bins by size (two-level segregated lists, newest first: warm). Extents up to
 * TD_SLAB_SLOT_MAX bytes are slots of slabs. All of it lies in private memory; segments hold nothing but data. */
#ifndef TENSORD_SHM_ARENA_H
#define TENSORD_SHM_ARENA_H

#include "shm/heap.h"
#include <assert.h>

#define TD_SLAB_SLOT_MAX 4096
#define TD_SLAB_CLASSES 20
#define TD_CHUNK_MIN 1024 /* smaller leftovers stay with the chunk they were cut from */
#define TD_BIN_FIRST 10   /* log2 of the smallest chunk */
#define TD_BIN_ROWS 32
#define TD_BIN_COLUMNS 8

typedef struct td_arena_segment td_arena_segment;
typedef struct td_chunk td_chunk;
typedef struct td_slab td_slab;

struct td_arena_segment {
    td_segment *segment;
    td_heap *heap;
    td_arena_segment *prev, *next;
    uint64_t used;   /* bytes of chunks in use */
    td_chunk *whole; /* its first chunk: the one at offset 0 */
    uint64_t idle;   /* of these, bytes of slabs that are kept though empty */
    bool rested;     /* it was empty when td_heap_settle last looked, and has been since */
};

struct td_chunk {
    td_arena_segment *owner;
    uint64_t offset, size;
    td_chunk *before, *after;      /* by address */
    td_chunk *bin_prev, *bin_next; /* when free */
    bool free;
};

struct td_slab {
    td_heap *heap;
    td_chunk *chunk;
    td_slab *prev, *next; /* in the class's list of slabs with a free slot */
    uint32_t slot_bytes;
    uint16_t klass, slots;
    uint16_t fresh; /* slots from here on were never handed out */
    uint16_t count; /* slots on the stack */
    uint16_t live;
    bool listed;
    uint16_t stack[]; /* free slots, the last one freed on top */
};

struct td_heap {
    td_budget *budget;
    td_budget_user *user; /* NULL: of the service */
    td_segment_kind kind;
    uint32_t uid;
    td_arena_segment *segments;
    td_arena_segment *kept;               /* the one empty segment that stays warm */
    td_slab *partial[TD_SLAB_CLASSES];    /* slabs with a free slot */
    td_slab *idle[TD_SLAB_CLASSES];       /* the one of them that is empty and kept */
    uint32_t slabs_made[TD_SLAB_CLASSES]; /* alive: decides how large the next one is */
    uint32_t row_bits;
    uint8_t column_bits[TD_BIN_ROWS];
    td_chunk *bin[TD_BIN_ROWS][TD_BIN_COLUMNS];
    td_chunk *spare; /* chunk records for reuse */
    uint32_t spares;
    uint64_t committed, used;
    uint32_t nsegments, extents;
    uint32_t growing; /* segments reserved and not yet adopted */
    bool orphan, mapped;
};

/* chunk.c */
td_chunk *td_chunk_take(td_heap *h, uint64_t bytes, uint64_t align);
void td_chunk_give(td_heap *h, td_chunk *c);
void td_chunk_shrink(td_heap *h, td_chunk *c, uint64_t bytes);
/* The whole segment as one free chunk; false when there is no memory for the record. */
bool td_chunk_open(td_heap *h, td_arena_segment *a);
/* Take the records of an empty segment away. */
void td_chunk_close(td_heap *h, td_arena_segment *a);
void td_chunk_drop_spares(td_heap *h);
uint64_t td_chunk_largest(const td_heap *h);

/* slab.c */
unsigned td_slab_class(uint64_t bytes);
/* A slot, or NULL when no chunk could be had for a new slab. */
td_slab *td_slab_take(td_heap *h, unsigned klass, uint64_t *offset);
/* Bytes of chunk that the next slab of the class takes. */
uint64_t td_slab_bytes(const td_heap *h, unsigned klass);
/* Returns the segment that may have become empty, or NULL. */
td_arena_segment *td_slab_give(td_slab *s, uint64_t offset);
/* Give back the empty slabs that are kept, of one segment (NULL: of all). */
void td_slab_drop_idle(td_heap *h, td_arena_segment *a);

/* owner.c */
/* An extent of this segment has gone: when it was the last, keep the segment or let it go. */
void td_heap_consider(td_heap *h, td_arena_segment *a);
void td_heap_end_if_done(td_heap *h);
/* Take over a segment that the budget has counted. */
void td_heap_take_in(td_heap *h, td_segment *s);

/* budget.c */
bool td_budget_room(td_budget *b, uint64_t bytes);
/* The record of a user, for one heap more; NULL without memory. */
td_budget_user *td_budget_user_ref(td_budget *b, uint32_t uid);
void td_budget_user_unref(td_budget *b, td_budget_user *u);
/* May this heap commit so much more? Evicts what is warm. */
bool td_heap_room(td_heap *h, uint64_t bytes);
/* Would its user have committed too much with so many bytes more? */
bool td_heap_beyond_user(const td_heap *h, uint64_t bytes);
void td_heap_count(td_heap *h, int64_t bytes);
/* A warm segment of at least `least` and at most `most` bytes whose former content may be seen by `uid`, or NULL. */
td_segment *td_budget_take_warm(td_budget *b, td_segment_kind kind, uint32_t uid, uint64_t least, uint64_t most);
void td_budget_give_back(td_budget *b, td_segment *s);
uint64_t td_page_round(uint64_t bytes);
/* As segments of this budget are. */
uint64_t td_budget_round(const td_budget *b, uint64_t bytes);

#endif
