/* uthash, which ends the process when memory is out unless it is told not to, and whose hash anybody can compute, so
 * that clients could choose names that all lie in one chain: told so, and given a hash with a key of this process, for
 * all that include it from here.
 *
 * After each HASH_ADD ask TD_HASHED: false means that memory was out, that nothing was added, and that the element is
 * still the caller's alone.
 *
 * A table grows by one bucket at a time, whenever it has more than TD_HASH_LOAD things for each (linear hashing):
 * uthash doubles it, which took 16 ms of a loop at 300,000 names. */
#ifndef TENSORD_PROTO_BASE_HASH_H
#define TENSORD_PROTO_BASE_HASH_H

#ifdef UTHASH_H
#error "include proto/base/hash.h instead of uthash.h"
#endif
#include <stddef.h>
#include <stdint.h>

uint32_t td_hash_keyed(const void *bytes, size_t n);

void td_hash_free(void *p, size_t bytes);

#define HASH_NONFATAL_OOM 1
#define uthash_free(p, bytes) td_hash_free(p, bytes)
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = td_hash_keyed(keyptr, keylen))
#include <uthash.h>

enum { TD_HASH_LOAD = 4 };

/* Of so many buckets: by the bits that all of them need, or by one bit less where there is no such bucket yet. */
static inline unsigned td_hash_bucket(unsigned hash, unsigned buckets)
{
    unsigned mask = UINT32_MAX >> __builtin_clz(buckets - 1), at = hash & mask;
    return at < buckets ? at : hash & mask >> 1;
}
/* One bucket more: some of another's things go there. Without memory the table stays as it is. */
void td_hash_grow(UT_hash_table *t);

#undef HASH_TO_BKT
#define HASH_TO_BKT(hashv, num_bkts, bkt) ((bkt) = td_hash_bucket(hashv, num_bkts))
#undef HASH_ADD_TO_BKT
#define HASH_ADD_TO_BKT(head, hh, addhh, oomed)                                                                        \
    do {                                                                                                               \
        UT_hash_bucket *_ha_head = &(head);                                                                            \
        _ha_head->count++;                                                                                             \
        (addhh)->hh_next = _ha_head->hh_head;                                                                          \
        (addhh)->hh_prev = NULL;                                                                                       \
        if (_ha_head->hh_head) _ha_head->hh_head->hh_prev = (addhh);                                                   \
        _ha_head->hh_head = (addhh);                                                                                   \
        if ((addhh)->tbl->num_items > (addhh)->tbl->num_buckets * TD_HASH_LOAD) td_hash_grow((addhh)->tbl);            \
    } while (0)

#define TD_HASHED(x) ((x)->hh.tbl != NULL)

#endif
