/* A GPU as a device of the daemon: its memory, its streams, its process. The one door of this room.
 *
 * Nothing is opened or started before the first tensor there. The daemon's own process never opens the driver: a
 * process beside it does (tensord-cuda), and may die with whatever kernel it runs. */
#ifndef TENSORD_DAEMON_CUDA_CUDA_H
#define TENSORD_DAEMON_CUDA_CUDA_H

#include "daemon/cuda/wire.h"
#include "daemon/tensor/device.h"

extern const td_device_kind td_cuda_kind;

typedef struct td_cuda_options {
    bool off; /* there are none, whatever the machine has */
    td_gpu_handles handles;
    uint64_t memory; /* bytes of each GPU that tensors may take; 0: what is there */
} td_cuda_options;

/* For the devices of this thread's loop, before they are made. */
void td_cuda_configure(const td_cuda_options *o);

#endif
