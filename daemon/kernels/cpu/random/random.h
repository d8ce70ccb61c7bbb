/* What random.c and dropout.c share: cutting a result into chunks, and words into elements.
 *
 * Element i of a result takes word i of the op's words (word pair i where it needs 64 bits), in logical order: chunks
 * and processors make no difference. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_RANDOM_RANDOM_H
#define TENSORD_DAEMON_KERNELS_CPU_RANDOM_RANDOM_H

#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/vec/philox.h"
#include "daemon/kernels/kernel.h"

enum { TD_RANDOM_BLOCK = 4 * TD_PHILOX_GROUPS };
/* Scratch: words, numbers, and the same as they were before conversion. */
enum { TD_RANDOM_NUMBERS = TD_RANDOM_BLOCK * 4, TD_RANDOM_SCRATCH = TD_RANDOM_NUMBERS + 2 * TD_RANDOM_BLOCK * 8 };

/* One phase over the elements of the result. */
void td_random_plan(td_kcall *k, td_chunk_fn fn, double ns);
/* Where a chunk ends. */
int64_t td_random_end(const td_kcall *k, int64_t chunk);
/* Write numbers of a dtype to the result's elements from `at`. */
void td_random_store(td_kcall *k, int64_t at, int64_t n, const void *numbers, td_dtype type);
/* `n` elements of a tensor of any strides from logical index `at`, as they are. */
void td_random_gather(const td_karg *x, int64_t at, int64_t n, char *to);

#endif
