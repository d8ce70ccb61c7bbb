/* tensord-cuda: the process that has a GPU's context, so that the daemon has none and outlives every fault of it.
 *
 * main.c listens to the daemon, memory.c makes arenas, launch.c puts commands into streams and tells ends, product.c
 * has large products computed by cuBLASLt where that is found. A call of the driver that fails is an answer; a context
 * that is lost ends the process, after a last word. */
#ifndef TENSORD_DAEMON_CUDA_HELPER_HELPER_H
#define TENSORD_DAEMON_CUDA_HELPER_HELPER_H

#include "daemon/cuda/helper/cublaslt.h"
#include "daemon/cuda/wire.h"
#include "shm/cuda/driver.h"
#include <pthread.h>
#include <stdatomic.h>

enum {
    ENDS = 256, /* of a stream that are under way at most */
    MODULES = 32,
    TOLD = 1024
};

typedef struct arena {
    struct arena *next;
    CUdeviceptr at;
    size_t bytes;
    bool mapped; /* and not of cuMemAlloc */
} arena;

typedef struct end {
    CUevent event;
    uint64_t place;
    int code;
} end;

typedef struct stream {
    CUstream stream;
    CUevent now;       /* for those that wait for it */
    int code;          /* the first failure since the last end */
    uint64_t put, out; /* ends that were put in; that were told. Under the lock */
    end ends[ENDS];
} stream;

typedef struct product_way product_way;

typedef struct helper {
    td_cuda_driver d;
    int socket;
    CUdevice device;
    CUcontext context;
    size_t granule;
    td_gpu_handles handles;
    unsigned char *staging;
    uint64_t staging_bytes;
    char why[160]; /* of the last call that failed */
    arena *arenas;
    /* launch.c's */
    CUmodule modules[MODULES];
    int nmodules;
    char *names[TD_GPU_NAMES_MAX];
    CUfunction kernels[TD_GPU_NAMES_MAX];
    uint32_t shared[TD_GPU_NAMES_MAX]; /* what a kernel may have, beyond the usual */
    td_cuda_fault *faults;             /* one for each end, in memory of the host that kernels see */
    CUdeviceptr faults_at;
    stream streams[TD_GPU_STREAMS];
    atomic_ullong
        told[TOLD];       /* numbers of ENDED messages: what happened before one was sent is known to who reads it */
    pthread_mutex_t lock; /* of `put`, `out` */
    pthread_cond_t some, room;
    /* product.c's */
    td_cublaslt lt;
    cublasLtHandle_t lt_handle;
    unsigned products;     /* td_cuda_library_bit() of what it computes; 0: there is no library */
    CUdeviceptr workspace; /* a piece for each stream of computations */
    product_way *ways;
} helper;

/* A call of this name gave `r`: notes why, and returns it. */
int helper_noted(helper *h, const char *call, CUresult r);
/* The context is lost, or the order of streams: says so, and ends the process. */
_Noreturn void helper_lost(helper *h, int code);
/* Is nothing to be done any more in a context that gave this? */
bool helper_is_lost(int code);
void helper_send(helper *h, const void *message, size_t bytes, int fd);

/* memory.c: which handles there are (h->handles); a code of the driver. */
int memory_begin(helper *h, td_gpu_handles wanted);
void memory_make(helper *h, const td_gpu_arena *m);
void memory_import(helper *h, const td_gpu_arena *m, int fd);
void memory_end(helper *h, const td_gpu_arena *m);

/* launch.c */
int launch_begin(helper *h);
int launch_load(helper *h, const void *image);
void launch_name(helper *h, const td_gpu_names *m);
void launch_run(helper *h, const td_gpu_run *m, size_t bytes);

/* product.c: finds a library and tries it (h->products); `text`: which one, or why none is used, or nothing. A code:
 * the context was lost on the way. */
int product_begin(helper *h, char *text, size_t size);
/* What the last process had is mapped again: takes the memory that products work with. */
void product_ready(helper *h);
/* CUDA_ERROR_NOT_SUPPORTED: the library has no way to compute it that gives the same bits each time. */
int product_run(helper *h, stream *s, const td_cuda_product *p);

#endif
