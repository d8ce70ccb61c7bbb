/* Prepacked operands: what a kernel makes of one that is used again and again as it is, kept with its storage.
 *
 * A product or a convolution lays its weights out anew in each call, which for few rows, or one picture, takes as long
 * as the rest. A storage that was used three times without a write between is packed into memory that stays: the third
 * call makes it, and later ones begin behind that phase. The bits are the same, since the kernel and what it reads are.
 * Only where nobody but ops can write: not where a client has it mapped writable.
 *
 * A prepack goes with the next write to its storage, with the storage, or when it was not used for a second and another
 * wants its place: all prepacks of a loop have so much room, and a storage has four (of views, or for pictures of other
 * sizes). Whoever asks for a tensor's address could write there, so a weight that was read in place (numpy(), tolist(),
 * saving) has none until it is copied, as freezing does. */
#ifndef TENSORD_DAEMON_OPS_PREPACKED_H
#define TENSORD_DAEMON_OPS_PREPACKED_H

#include "daemon/ops/ops.h"

/* What a kernel that is about to be run, and may keep what it prepacks of this input, has for that: NULL, and it
 * prepacks for itself; or what is there (*ready, and td_prepack_leave_out is due), or is to be made. `k` has its plan.
 */
td_prepack *td_prepacked_take(td_storage *st, const td_desc *d, const td_kcall *k, bool *ready);
/* It was run. `whole`: what was to be made is. */
void td_prepacked_put(td_prepack *prepack, bool whole);

/* A call that is about to be run gets what is there, or makes it. */
void td_prepacked_give(td_call *c);
/* It is over. */
void td_prepacked_take_back(td_call *c);

/* Does something that takes long beside the loop: td_service_options.background. */
typedef void (*td_prepacked_away)(void *hook_arg, void (*run)(void *), void (*done)(void *), void *arg);
/* How many bytes the prepacks of this thread's loop may have: 0, as it begins, none. `away` (or NULL) frees large ones,
 * of which each MB takes 0.1 ms. */
void td_prepacked_set_room(uint64_t bytes, td_prepacked_away away, void *hook_arg);
uint64_t td_prepacked_bytes(void);
uint64_t td_prepacked_used(void); /* calls that found what they needed */

#endif
