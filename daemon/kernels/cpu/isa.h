/* The sets of loops, one for each instruction set, and the one in use. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_ISA_H
#define TENSORD_DAEMON_KERNELS_CPU_ISA_H

#include "daemon/kernels/cpu/loop.h"

/* The best that this processor can do: 0 base, 1 v3 (AVX2), 2 v4 (AVX-512). */
int td_isa_level(void);

/* Use a set, for init and for tests; before threads start. False when this processor or this build has it not. */
bool td_isa_use(int level);
/* Which one is. */
int td_isa_used(void);

/* Read and written by a plain op, from which its result goes past the caches: as much as the last of them holds. Tests
 * say another. The bits are the same. */
extern double td_stream_bytes;

#endif
