/* Sorting numbers of any real dtype as pairs (key, index): what sort and topk share.
 *
 * A key is an unsigned number whose order is the dtype's: NaN above everything, -0 equal to 0; complemented for
 * descending order. Keys are loaded from the tensor once, into private memory; all that follows works on them, so data
 * that changes meanwhile gives at worst wrong values, never a wrong address. Pairs are ordered by key, then index:
 * every order is stable. */
#ifndef TENSORD_KERNELS_CPU_SORT_PAIRS_H
#define TENSORD_KERNELS_CPU_SORT_PAIRS_H

#include "daemon/kernels/kernel.h"

typedef struct td_pair {
    uint64_t key;
    int64_t index;
} td_pair;

static inline bool td_pair_less(td_pair a, td_pair b)
{
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}

/* Bytes of a key that can differ; 0 when the dtype has no order (complex). */
int td_key_bytes(unsigned dtype);
/* to[i] = (key of element i, first + i) of n elements with `step` (elements) between them. */
void td_pairs_load(td_pair *to, const void *from, int64_t step, unsigned dtype, bool descending, int64_t first,
                   int64_t n);
/* Sort pairs whose indices ascend; `spare` has room for n more. The result is in `pairs`. */
void td_pairs_sort(td_pair *pairs, td_pair *spare, int64_t n, int key_bytes);
/* Sort pairs in any order by key and index. */
void td_pairs_sort_all(td_pair *pairs, td_pair *spare, int64_t n);

#endif
