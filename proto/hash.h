/* uthash, which ends the process when memory is out unless it is told not to, and whose hash anybody can compute, so
 * that clients could choose names that all lie in one chain: told so, and given a hash with a key of this process, for
 * all that include it from here.
 *
 * After each HASH_ADD ask TD_HASHED: false means that memory was out, that nothing was added, and that the element is
 * still the caller's alone. */
#ifndef TENSORD_PROTO_HASH_H
#define TENSORD_PROTO_HASH_H

#ifdef UTHASH_H
#error "include proto/hash.h instead of uthash.h"
#endif
#include <stddef.h>
#include <stdint.h>

uint32_t td_hash_keyed(const void *bytes, size_t n);

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = td_hash_keyed(keyptr, keylen))
#include <uthash.h>

#define TD_HASHED(x) ((x)->hh.tbl != NULL)

#endif
