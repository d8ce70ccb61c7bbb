/* uthash, which ends the process when memory is out unless it is told not to: told so, for all that include it from
 * here.
 *
 * After each HASH_ADD ask TD_HASHED: false means that memory was out, that nothing was added, and that the element is
 * still the caller's alone. */
#ifndef TENSORD_PROTO_HASH_H
#define TENSORD_PROTO_HASH_H

#ifdef UTHASH_H
#error "include proto/hash.h instead of uthash.h"
#endif
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define TD_HASHED(x) ((x)->hh.tbl != NULL)

#endif
