/* tensord-cuda for tests that play the daemon: verbs that speak daemon/cuda/wire.h to it.
 *
 *     process p;
 *     process_start(&p, TD_GPU_HANDLES_VMM);
 *     process_arena(&p, 2 << 20, &arena);
 *     run_fill(&p, 0, arena.address, 4, &value, 10);
 *     CU_ASSERT(process_ends(&p, 0));
 *     process_kill(&p);
 *
 * Whatever the process does, a verb comes back: with false when the process has gone, or says nothing for long. */
#ifndef TENSORD_TESTS_UNIT_CUDA_PROCESS_H
#define TENSORD_TESTS_UNIT_CUDA_PROCESS_H

#include "daemon/cuda/wire.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { STAGING = 8 << 20 };

typedef struct process {
    pid_t pid;
    int socket, status;
    unsigned char *staging;
    int staging_fd;
    td_gpu_greeting greeting;
    td_gpu_told told; /* the last one */
    uint64_t place, seen;
    uint64_t run_words[TD_GPU_MESSAGE_MAX / 8];
    size_t run_bytes;  /* commands that were not sent yet */
    int sent, most;    /* messages; and how many it may send before the process is killed (0: any number) */
    bool no_libraries; /* said before it is started: it is to look for none */
} process;

typedef struct process_memory {
    uint64_t address, bytes;
    int code, fd; /* fd: -1: none */
    unsigned char handle[64];
    char why[160];
} process_memory;

/* Start it, say hello; the greeting is in p->greeting. False: it ended without one. */
bool process_start(process *p, td_gpu_handles handles);
/* As process_start() with the messages that may be sent. */
bool process_start_short(process *p, td_gpu_handles handles, int most);
/* It has gone after this, and nothing of it is left here. p->status: how it ended. */
void process_kill(process *p);
/* Close the socket: it must end by itself, and by no signal. */
bool process_end(process *p);
bool process_arena(process *p, uint64_t bytes, process_memory *out);
bool process_import(process *p, const process_memory *m, process_memory *out);
bool process_arena_end(process *p, const process_memory *m);
bool process_names(process *p, uint32_t first, const char *const *names, uint32_t count);

/* Commands; they are sent by the next verb that waits, or by run_send(). */
void run_launch(process *p, unsigned stream, uint32_t kernel, uint32_t blocks, const void *args, uint32_t bytes);
void run_fill(process *p, unsigned stream, uint64_t to, uint32_t unit, const void *value, uint64_t count);
void run_move(process *p, unsigned what, unsigned stream, uint64_t to, uint64_t from, uint64_t bytes);
void run_wait(process *p, unsigned stream, unsigned other);
void run_library(process *p, unsigned stream, const td_cuda_product *of);
/* ... with a launch of one block behind it, which says that it is so many bytes longer than it is. */
void run_library_or(process *p, unsigned stream, const td_cuda_product *of, uint32_t kernel, const void *args,
                    uint32_t bytes, uint32_t longer);
/* A command of so many bytes, all of them zeros but the head. */
void run_cut(process *p, unsigned what, unsigned stream, size_t bytes);
/* Returns its place. */
uint64_t run_end(process *p, unsigned stream);
bool run_send(process *p);
/* The next ends, of whatever stream. */
bool process_ended(process *p, td_gpu_ended *out);
/* An end is sent to the stream, and this is it. Others that come first are passed over. */
bool process_end_of(process *p, unsigned stream, td_gpu_end *out);
/* All before it ended well. */
bool process_ends(process *p, unsigned stream);
/* Bytes of the device, by way of the staging memory. */
bool process_read(process *p, uint64_t from, void *to, size_t bytes);
bool process_write(process *p, uint64_t to, const void *from, size_t bytes);

#endif
