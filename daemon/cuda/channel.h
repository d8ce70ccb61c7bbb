/* The daemon's end of tensord-cuda: starts it, talks to it, and starts it again when it has died.
 *
 * One td_gpu is one GPU of the machine, whichever process serves it. Nothing exists until it is first needed: then a
 * thread of its own starts the process and alone touches the socket. What may be called on any thread says so; all else
 * is for the thread of the channel, inside of the functions that it calls.
 *
 * Memory is remembered here: what is held by a descriptor is mapped by the next process at the address that it had,
 * what is not is lost with its process, and says so. */
#ifndef TENSORD_DAEMON_CUDA_CHANNEL_H
#define TENSORD_DAEMON_CUDA_CHANNEL_H

#include "daemon/cuda/wire.h"
#include "proto/base/status.h"
#include <stdatomic.h>
#include <stdbool.h>

typedef struct td_gpu td_gpu;

/* An arena. */
typedef struct td_gpu_memory {
    struct td_gpu_memory *next;
    td_gpu *gpu;
    uint64_t address, bytes;
    int fd; /* its descriptor, which goes with the record; -1: it has none */
    unsigned char handle[64];
    _Atomic bool lost; /* its process has gone, and it with that */
} td_gpu_memory;

/* Who issues commands. */
typedef struct td_gpu_client {
    /* Somebody has poked, or what was sent before has ended: send what there is. `why`: there is no process, and it
     * could not be started: nothing can be sent. */
    void (*turn)(void *arg, const td_error *why);
    /* `why`: of an end with a code. */
    void (*ended)(void *arg, const td_gpu_end *end, const char *why);
    /* The process has gone: no end comes any more of what was sent to it. */
    void (*lost)(void *arg, const td_error *why);
    void *arg;
} td_gpu_client;

typedef struct td_gpu_options {
    unsigned device;  /* proto/base/device.h: TD_CUDA_0 and so on */
    unsigned ordinal; /* as the driver counts */
    td_gpu_handles handles;
    const char *program; /* tensord-cuda; NULL: as td_gpu_program() finds it */
    const char *const *names;
    uint32_t nnames; /* of kernels, by their numbers */
} td_gpu_options;

/* What the process said of itself; for whoever tells it to people. */
typedef struct td_gpu_facts {
    bool started; /* once, at least */
    int pid;      /* 0: there is none */
    uint32_t starts;
    td_gpu_greeting greeting;
} td_gpu_facts;

int td_gpu_new(td_gpu **out, const td_gpu_options *o, const td_gpu_client *client, td_error *e);
/* Any thread: that of the channel is there after this, and a poke reaches it. */
int td_gpu_begin(td_gpu *g, td_error *e);
/* Any thread but the channel's. The process has gone after this; `lost` is called for what was under way. */
void td_gpu_stop(td_gpu *g);
/* Stops it. All memory is back. */
void td_gpu_free(td_gpu *g);
/* Any thread: call turn() soon. */
void td_gpu_poke(td_gpu *g);
void td_gpu_get_facts(td_gpu *g, td_gpu_facts *out);
/* Any thread: what the process that began last said of its library (greeting); 0 before the first. */
uint8_t td_gpu_products(const td_gpu *g);

/* Any thread but the channel's; waits. TD_E_MEMORY: the GPU has no room; TD_E_DEVICE: there is no process. */
int td_gpu_make(td_gpu *g, uint64_t bytes, td_gpu_memory **out, td_error *e);
/* Any thread: nothing that was sent uses it any more. The record is gone after this. It takes no memory. */
void td_gpu_end_memory(td_gpu_memory *m);
/* Any thread but the channel's; waits. Bytes of the device, while nothing that was sent has to do with them. */
int td_gpu_read(td_gpu *g, uint64_t from, void *to, size_t bytes, td_error *e);
int td_gpu_write(td_gpu *g, uint64_t to, const void *from, size_t bytes, td_error *e);

/* ---- on the channel's thread, in turn() without `why` and in ended() */

/* Is there space for commands of so many bytes, TD_GPU_ROOM at most? False: not now, for want of memory; turn() is
 * called when there may be. */
enum { TD_GPU_ROOM = TD_GPU_MESSAGE_MAX - sizeof(td_gpu_run) };
bool td_gpu_room(td_gpu *g, size_t bytes);
/* What a command of so many bytes takes of that. */
static inline size_t td_gpu_put_bytes(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}
/* Such space, which td_gpu_room() has found, for a command of so many bytes. It begins as zeros with its head set. */
void *td_gpu_put(td_gpu *g, td_gpu_what what, unsigned stream, size_t bytes);
void td_gpu_mark_end(td_gpu *g, unsigned stream, uint64_t place);
/* Staging memory for copies, in pieces: a free one, or -1; it is given back when what uses it has ended. */
enum { TD_GPU_PIECE = 1 << 20, TD_GPU_PIECES = 8 };
int td_gpu_piece_take(td_gpu *g);
void td_gpu_piece_give(td_gpu *g, int piece);
void *td_gpu_piece_at(td_gpu *g, int piece);
static inline uint64_t td_gpu_piece_offset(int piece)
{
    return (uint64_t)piece * TD_GPU_PIECE;
}
/* Has so much been sent that more would only wait there? Then turn() is called when it has become less. */
bool td_gpu_is_full(const td_gpu *g);

/* Where tensord-cuda is: $TENSORD_CUDA_PROCESS, beside this program, or where a build has it. */
void td_gpu_program(char *path, size_t size);

#endif
