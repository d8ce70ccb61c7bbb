/* What the files of this room share: one GPU, as the loop and the channel's thread see it. */
#ifndef TENSORD_DAEMON_CUDA_ROOM_H
#define TENSORD_DAEMON_CUDA_ROOM_H

#include "daemon/cuda/channel.h"
#include "daemon/cuda/cuda.h"
#include "daemon/kernels/kernel.h"
#include "daemon/sched/executor.h"

/* One heap for each user: between the processes of one there is no protection on a GPU, and another gets no handle. */
typedef struct td_cuda_heap {
    struct td_cuda_heap *next;
    uint32_t uid;
    td_heap *heap;
} td_cuda_heap;

typedef struct td_cuda {
    unsigned number;
    td_gpu *gpu;
    td_executor *executor;
    td_budget budget; /* (loop) */
    td_cuda_heap *heaps;
    bool limited;          /* (loop) the budget knows what the GPU has */
    _Atomic bool has_lost; /* some arena, and the loop has not noticed yet */
} td_cuda;

/* memory.c */
extern const td_device_memory td_cuda_memory;
void td_cuda_memory_begin(td_cuda *c, uint64_t limit);
void td_cuda_memory_end(td_cuda *c);
/* On the loop, before anything is made of what is there: tensors in arenas that have gone are lost. */
void td_cuda_notice(td_cuda *c);

/* executor.c */
int td_cuda_executor_new(td_cuda *c, td_gpu_client *client, td_error *e);
void td_cuda_executor_free(td_cuda *c);

/* transfer.c: between host and device, in pieces of elements as they follow each other. */
typedef struct td_cuda_transfer {
    bool down; /* to the device */
    const td_desc *host, *device;
    unsigned char *host_at;
    uint64_t device_at, bytes, sent;
} td_cuda_transfer;
/* The plan of to_device. */
int td_cuda_plan_transfer(td_kcall *k, td_error *e);
bool td_cuda_is_transfer(const td_kcall *k);
void td_cuda_transfer_begin(td_cuda_transfer *t, const td_kcall *k);
/* What the commands of the next piece take at most of td_gpu_room(). */
size_t td_cuda_transfer_room(const td_cuda_transfer *t);
/* The next piece through this one of the staging memory: its bytes, and where it begins (what comes up is taken out
 * there when it has ended). */
uint64_t td_cuda_transfer_send(td_cuda_transfer *t, td_gpu *g, unsigned stream, int piece, uint64_t *at);
void td_cuda_transfer_take(const td_cuda_transfer *t, const unsigned char *staged, uint64_t at, uint64_t bytes);

#endif
