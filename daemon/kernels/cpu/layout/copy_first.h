/* The out-of-place form of an op that changes part of its input: out = x first, then the op in place on out. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_LAYOUT_COPY_FIRST_H
#define TENSORD_DAEMON_KERNELS_CPU_LAYOUT_COPY_FIRST_H

#include "daemon/kernels/kernel.h"

/* Is the output the very input 0? */
bool td_in_place(const td_kcall *k);
/* Append a phase that copies input 0 into output 0 (same dtype and shape), unless they are the same memory. It does
 * nothing once the call has failed. */
void td_plan_copy_first(td_kcall *k);

#endif
