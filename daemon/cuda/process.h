/* A tensord-cuda process and the pair to it: starting, greeting, packets. The channel's own; one thread at a time. */
#ifndef TENSORD_DAEMON_CUDA_PROCESS_H
#define TENSORD_DAEMON_CUDA_PROCESS_H

#include "daemon/cuda/wire.h"
#include "proto/base/status.h"

typedef struct td_gpu_process {
    int socket; /* -1: there is none */
    int pid;
    unsigned char *staging;
    uint64_t staging_bytes;
} td_gpu_process;

/* Start it and wait for its greeting, which may take as long as this. Fails with TD_E_DEVICE and what it said; whoever
 * asks calls td_gpu_process_end() then. The thread that starts it has to live as long as it does. */
typedef struct td_gpu_start {
    const char *program;
    unsigned ordinal;
    td_gpu_handles handles;
    bool libraries;
    uint64_t staging;
    int patience_ms;
} td_gpu_start;
int td_gpu_process_start(td_gpu_process *p, const td_gpu_start *how, td_gpu_greeting *g, td_error *e);
/* While nothing else is asked of it. *m: how it went. */
int td_gpu_process_import(td_gpu_process *p, uint64_t address, uint64_t bytes, int fd, td_gpu_made *m, td_error *e);
/* 1: it was sent; 0: not now; -1: the process has gone. */
int td_gpu_process_send(td_gpu_process *p, const void *message, size_t bytes);
/* Bytes of a message that has come, and the descriptor with it, or -1; 0: none; -1: the process has gone. */
int td_gpu_process_receive(td_gpu_process *p, void *to, size_t most, int *fd);
/* It is killed and waited for. */
void td_gpu_process_end(td_gpu_process *p);

#endif
