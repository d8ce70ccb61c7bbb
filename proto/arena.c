/* The bounded arena: a list of blocks, newest first. Freeing a single piece does nothing; a reset keeps the first
 * block. */
#include "proto/arena.h"

#include <stdlib.h>

enum { FIRST_BLOCK = 16384 };

struct td_arena_block {
    struct td_arena_block *next;
    size_t size, used;
    _Alignas(16) unsigned char bytes[];
};

static void *alloc_for_protobuf(void *arena, size_t size)
{
    return td_arena_alloc(arena, size);
}

static void free_for_protobuf(void *arena, void *piece)
{
    (void)arena, (void)piece;
}

void td_arena_init(td_arena *a, size_t limit)
{
    *a = (td_arena){.allocator = {alloc_for_protobuf, free_for_protobuf, NULL}, .limit = limit};
    a->allocator.allocator_data = a;
}

void td_arena_deinit(td_arena *a)
{
    for (struct td_arena_block *b = a->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    a->first = NULL;
    a->used = 0;
}

void td_arena_reset(td_arena *a)
{
    if (!a->first) return;
    while (a->first->next) {
        struct td_arena_block *b = a->first;
        a->first = b->next;
        free(b);
    }
    a->first->used = 0;
    a->used = 0;
}

void *td_arena_alloc(td_arena *a, size_t size)
{
    if (size > a->limit || a->used + size > a->limit) return NULL;
    size = (size + 15) & ~(size_t)15;
    struct td_arena_block *b = a->first;
    if (!b || b->size - b->used < size) {
        size_t room = size > FIRST_BLOCK ? size : FIRST_BLOCK;
        b = malloc(sizeof *b + room);
        if (!b) {
            a->starved = true;
            return NULL;
        }
        *b = (struct td_arena_block){a->first, room, 0};
        a->first = b;
    }
    void *piece = b->bytes + b->used;
    b->used += size;
    a->used += size;
    return piece;
}
