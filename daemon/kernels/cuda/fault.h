/* What kernels leave for the end of their task when a value is wrong: bits, and where an index is, the first one of
 * them. Kernels write it in memory of the host, tensord-cuda carries it, and the daemon makes an error of it. All
 * zeros: nothing is wrong. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_FAULT_H
#define TENSORD_DAEMON_KERNELS_CUDA_FAULT_H

#include <stdint.h>

typedef struct td_cuda_fault {
    uint32_t bits, lock; /* lock: among the threads that write what follows */
    int64_t at, index;   /* of a bad index: which element of the call's work met it, and its value */
    int64_t unused;
} td_cuda_fault;

#endif
