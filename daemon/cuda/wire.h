/* What the daemon and tensord-cuda say to each other over a SOCK_SEQPACKET pair: fixed structs, one message a packet.
 *
 * The daemon decides, and tensord-cuda does as it is told: it checks nothing but sizes. Both are of one build, which
 * `wire` in the greeting makes sure. The daemon sends a hello with the staging memory attached; the process answers
 * with a greeting, and from then on with one MADE for each ARENA and IMPORT, in their order, and one end for each END.
 * Whoever finds the socket closed knows that the other has gone. */
#ifndef TENSORD_DAEMON_CUDA_WIRE_H
#define TENSORD_DAEMON_CUDA_WIRE_H

#include "daemon/kernels/cuda/fault.h"
#include "daemon/kernels/cuda/product.h"
#include <stdint.h>

#define TD_GPU_WIRE 4
enum {
    TD_GPU_MESSAGE_MAX = 64 << 10,
    TD_GPU_STREAMS = 5, /* the last one for copies between host and device */
    TD_GPU_ARGS_MAX = 4096,
    TD_GPU_NAMES_MAX = 4096, /* kernels */
    TD_GPU_ENDS_MAX = 256    /* of a message */
};

/* How other processes find an arena: as a descriptor, or by 64 bytes (cuIpcOpenMemHandle) while the process lives. */
typedef enum td_gpu_handles {
    TD_GPU_HANDLES_AUTO = 0, /* in a hello: whatever works */
    TD_GPU_HANDLES_VMM = 1,
    TD_GPU_HANDLES_IPC = 2,
    TD_GPU_HANDLES_NONE = 3 /* in a greeting: neither works */
} td_gpu_handles;

typedef enum td_gpu_kind {
    TD_GPU_HELLO = 1,
    TD_GPU_ARENA,     /* make one of so many bytes, all of them zero */
    TD_GPU_ARENA_END, /* nothing that was sent uses it any more */
    TD_GPU_IMPORT,    /* map the attached descriptor at this address, and nowhere else */
    TD_GPU_NAMES,     /* of kernels */
    TD_GPU_RUN,       /* commands */
    TD_GPU_GREETING,
    TD_GPU_MADE,
    TD_GPU_TOLD,  /* why a command failed; its stream's next end says that one did */
    TD_GPU_ENDED, /* ends */
    TD_GPU_FAILED /* the last word of a process whose context is lost */
} td_gpu_kind;

typedef struct td_gpu_hello {
    uint32_t kind, wire, device, handles;
    uint64_t staging_bytes;
    uint32_t libraries, pad; /* may it look for libraries? */
} td_gpu_hello;

typedef struct td_gpu_greeting {
    uint32_t kind, wire;
    int32_t code; /* of the driver; 0: it is ready, otherwise `why` says what failed, and the process ends */
    uint32_t handles, version, major, minor, processors;
    uint32_t registered, kernels; /* the staging memory is copied from as it is; an image of kernels was loaded */
    uint64_t bytes, granule;      /* of the device's memory; arenas are multiples of the granule */
    unsigned char uuid[16];
    char name[96], why[160];
    uint32_t products, pad; /* of which dtypes a library computes products here (td_cuda_library_bit) */
    char library[160];      /* which one, or why none does; empty: none was found */
} td_gpu_greeting;

typedef struct td_gpu_arena { /* ARENA, ARENA_END, IMPORT */
    uint32_t kind, pad;
    uint64_t address, bytes;
} td_gpu_arena;

typedef struct td_gpu_made { /* with vmm a descriptor is attached to what ARENA made */
    uint32_t kind;
    int32_t code;
    uint64_t address, bytes;
    unsigned char handle[64]; /* with ipc */
    char why[160];
} td_gpu_made;

typedef struct td_gpu_names { /* behind it: names, each with a 0 */
    uint32_t kind, first, count, bytes;
} td_gpu_names;

typedef struct td_gpu_run { /* behind it: commands */
    uint32_t kind, commands;
    uint64_t seen; /* ENDED messages that had come when this was sent: what these told, the commands come after. Only
                      who looks for races needs to be told */
} td_gpu_run;

enum { TD_GPU_NO_ROOM = 2 }; /* of the codes of MADE: the driver's out of memory */

typedef enum td_gpu_what {
    TD_GPU_LAUNCH = 1,
    TD_GPU_COPY, /* on the device; ranges do not overlap */
    TD_GPU_FILL,
    TD_GPU_READ,    /* from the device to the staging memory, ... */
    TD_GPU_WRITE,   /* ... and from there to the device */
    TD_GPU_WAIT,    /* what follows in the stream comes after all that was sent to the other one so far */
    TD_GPU_PRODUCT, /* by the library that the greeting named */
    TD_GPU_END      /* tell when all before it in the stream has ended */
} td_gpu_what;

/* Each command begins so, and is a multiple of 8 bytes. */
typedef struct td_gpu_command {
    uint16_t what, stream;
    uint32_t bytes; /* with what is behind the struct */
} td_gpu_command;

typedef struct td_gpu_launch { /* behind it: the kernel's struct, whose first word the process sets: the address of
                                the fault of the next end of the stream */
    td_gpu_command head;
    uint32_t kernel, grid[3], block[3], shared_bytes, args_bytes, pad;
} td_gpu_launch;

typedef struct td_gpu_product { /* behind it: a LAUNCH for where the library has no way to compute it, or nothing */
    td_gpu_command head;
    td_cuda_product of;
} td_gpu_product;

typedef struct td_gpu_move { /* COPY, READ, WRITE; in the staging memory: an offset */
    td_gpu_command head;
    uint64_t to, from, bytes;
} td_gpu_move;

typedef struct td_gpu_fill {
    td_gpu_command head;
    uint64_t to, count; /* of units of 1, 2, 4, 8 or 16 bytes */
    uint32_t unit, pad;
    unsigned char value[16];
} td_gpu_fill;

typedef struct td_gpu_wait {
    td_gpu_command head;
    uint64_t other;
} td_gpu_wait;

typedef struct td_gpu_mark { /* END */
    td_gpu_command head;
    uint64_t place; /* comes back */
} td_gpu_mark;

typedef struct td_gpu_end {
    uint64_t place;
    td_cuda_fault fault; /* that kernels before it left */
    int32_t code;        /* of the driver: a command before it was not run */
    uint32_t stream;
} td_gpu_end;

typedef struct td_gpu_ended {
    uint32_t kind, count;
    td_gpu_end end[TD_GPU_ENDS_MAX];
} td_gpu_ended;

typedef struct td_gpu_told { /* TOLD, FAILED */
    uint32_t kind;
    int32_t code;
    uint32_t stream, pad;
    char why[160];
} td_gpu_told;

#endif
