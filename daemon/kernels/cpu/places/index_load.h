/* A run of indices made byte offsets: each is loaded once into memory of our own, and checked and multiplied there. So
 * all three are loops over neighbours, and what other processes write meanwhile decides no address. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_PLACES_INDEX_LOAD_H
#define TENSORD_DAEMON_KERNELS_CPU_PLACES_INDEX_LOAD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct td_index_load {
    unsigned dtype;
    bool wrap;           /* negative ones count from the end */
    int64_t limit, unit; /* size of the dimension; bytes from place to place */
} td_index_load;

/* to[i] = unit times the index at from + i * step (bytes). Returns n; or the place of the first that is out of range,
 * which is in *bad, and then `to` holds no offsets. */
int64_t td_load_offsets(const td_index_load *l, int64_t *to, const char *from, int64_t step, int64_t n, int64_t *bad);

#endif
