/* A bounded arena as protobuf-c's allocator: a small frame can never become a large message.
 *
 * One arena a connection, reset after each frame; unpacking fails (returns NULL) when the bound is reached. */
#ifndef TENSORD_PROTO_BASE_ARENA_H
#define TENSORD_PROTO_BASE_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

typedef struct td_arena {
    ProtobufCAllocator allocator;
    struct td_arena_block *first;
    size_t used, limit;
    bool starved; /* there was no memory, rather than too much wanted */
} td_arena;

/* `limit`: most bytes that live at once between resets. */
void td_arena_init(td_arena *a, size_t limit);
void td_arena_deinit(td_arena *a);
/* Everything allocated is gone; one block is kept warm. */
void td_arena_reset(td_arena *a);
void *td_arena_alloc(td_arena *a, size_t size);

#endif
