/* The bounded arena: a list of blocks, newest first. Freeing a single piece does nothing; a reset keeps the first
 * block. The more there is the larger is the next block, and large ones are mapped: of what a thread's malloc has at
 * its end, malloc_trim() gives nothing back. */
#include "proto/base/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { FIRST_BLOCK = 16 << 10, LAST_BLOCK = 1 << 20, MAPPED = 256 << 10 };

struct td_arena_block {
    struct td_arena_block *next;
    size_t size, used;
    _Alignas(16) unsigned char bytes[];
};

static struct td_arena_block *block_new(size_t room)
{
    struct td_arena_block *b;
    size_t bytes = sizeof *b + room;
    if (bytes < MAPPED) b = malloc(bytes);
    else if ((b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED)
        b = NULL;
    if (b) *b = (struct td_arena_block){.size = room};
    return b;
}

static void block_free(struct td_arena_block *b)
{
    size_t bytes = sizeof *b + b->size;
    if (bytes < MAPPED) free(b);
    else munmap(b, bytes);
}

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
        block_free(b);
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
        block_free(b);
    }
    a->first->used = 0;
    a->used = 0;
}

static size_t room_for(const td_arena *a, size_t size)
{
    size_t block = a->used < FIRST_BLOCK ? FIRST_BLOCK : a->used > LAST_BLOCK ? LAST_BLOCK : a->used;
    size_t room = block - sizeof(struct td_arena_block);
    return size > room ? size : room;
}

void *td_arena_alloc(td_arena *a, size_t size)
{
    if (size > a->limit || a->used + size > a->limit) return NULL;
    size = (size + 15) & ~(size_t)15;
    struct td_arena_block *b = a->first;
    if (!b || b->size - b->used < size) {
        b = block_new(room_for(a, size));
        if (!b) {
            a->starved = true;
            return NULL;
        }
        b->next = a->first;
        a->first = b;
    }
    void *piece = b->bytes + b->used;
    b->used += size;
    a->used += size;
    return piece;
}
