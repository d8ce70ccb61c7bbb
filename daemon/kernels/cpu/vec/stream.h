/* Copies of what was just worked out past the caches: stream.c. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_STREAM_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_STREAM_H

#include "daemon/kernels/cpu/vec/isa.h"
#include <stdbool.h>
#include <stdint.h>

/* `to` is at the beginning of a line of 64 bytes. The last copy of a thread waits for all before it. */
typedef void td_stream_fn(void *to, const void *from, int64_t bytes, bool last);
td_stream_fn TD_ISA_NAME(td_stream);

#endif
