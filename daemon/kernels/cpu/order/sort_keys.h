/* The order of numbers of any real dtype: what sort, topk and kthvalue share.
 *
 * A key is an unsigned number whose order is the dtype's: NaN above everything, -0 equal to 0; complemented for
 * descending order. Keys are made of private copies only, and what is ordered is a word of a key and a place: the place
 * makes all words different, so every way to sort them is stable, and what others write meanwhile gives at worst wrong
 * values, never a wrong address. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_ORDER_SORT_KEYS_H
#define TENSORD_DAEMON_KERNELS_CPU_ORDER_SORT_KEYS_H

#include "daemon/kernels/kernel.h"

#define TD_ORDER_MOST INT64_C(0x7fffffff) /* keys at once: a place is the lower half of a word */

/* Bytes of a key that can differ; 0 when the dtype has no order (complex). */
int td_key_bytes(unsigned dtype);
/* Keys of n elements that follow each other. */
void td_keys_load(uint64_t *to, const void *from, unsigned dtype, bool descending, int64_t n);

/* words[i]: the lower half is where the i-th of n keys in order stands, earlier ones first of equal ones. `spare` is as
 * long as `words`. */
void td_keys_order(const uint64_t *keys, int64_t n, uint64_t *words, uint64_t *spare);
static inline int64_t td_order_place(uint64_t word)
{
    return (int64_t)(word & UINT32_MAX);
}

/* The key of which `rank` others (0 <= rank < n) are below or before it, and how many are below. `spare`: n keys.
 * False: the call rested, and is to end. */
bool td_keys_select(td_kcall *k, const uint64_t *keys, int64_t n, int64_t rank, uint64_t *spare, uint64_t *key,
                    int64_t *below);

#endif
