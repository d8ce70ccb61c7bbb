/* Memory of GPUs as this process has it: arenas that tensord-cuda made, each mapped once while somebody here points
 * into it.
 *
 * The driver is opened, and a context made (the primary one, which torch and CuPy use), when an address is first asked
 * for: it takes hundreds of MB of the GPU. The GPU is found by its uuid, because numbers of devices differ from process
 * to process. Whoever points into an arena holds an id of a tensor that lies there, and lets the arena go before that
 * id: so the daemon keeps no book of these mappings. */
#ifndef TENSORD_CLIENT_WIRE_CUDA_H
#define TENSORD_CLIENT_WIRE_CUDA_H

#include "client/wire/client.h"

typedef struct td_cuda_arena td_cuda_arena;

/* The arena of this address, which counts one more user in place of the one that stood in *arena, if any; and where the
 * storage begins in this process. *fd is taken. Fails with words that say what to do. */
int td_cuda_map(const td_client *c, const Td__Wire__Address *at, int *fd, td_cuda_arena **arena, uint64_t *address,
                td_error *e);
/* Is it mapped in this process, and not in one that this was forked from? */
bool td_cuda_is_here(const td_cuda_arena *arena);
/* One user less; waits until all that this process's context has in hand has ended. *arena becomes NULL; NULL is fine.
 */
void td_cuda_unmap(td_cuda_arena **arena);
/* The number of its GPU as the driver counts in this process. */
int td_cuda_ordinal(const td_cuda_arena *arena);

#endif
