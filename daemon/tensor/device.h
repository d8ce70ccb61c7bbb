/* Devices: where storages have their bytes and calls run. The daemon's loop has a table of them, which
 * td_service_init fills at the start and nobody changes afterwards.
 *
 * A device is four things that four rooms look at: how bytes are taken and given back (this room), how many there are
 * (the service, which charges and shows them), which kernel computes an op (ops), and what runs its calls (sched).
 * Whoever adds a device (td_device_kind) fills all four in; no room asks which device it is. This room names types of
 * the rooms above only to point at them.
 *
 * The memory of the CPU (cpu.c) is extents of heaps in shared memory. That of a GPU (daemon/cuda) is extents
 * of arenas on the device. */
#ifndef TENSORD_DAEMON_TENSOR_DEVICE_H
#define TENSORD_DAEMON_TENSOR_DEVICE_H

#include "daemon/tensor/tensor.h"

struct td_kcall;    /* kernels/kernel.h */
struct td_executor; /* sched/executor.h */

/* What another process opens to have an arena of a device's memory. */
typedef struct td_device_handle {
    int fd; /* the arena's own descriptor, which stays there; -1: `legacy` says it */
    unsigned char legacy[64], uuid[16];
} td_device_handle;

/* What people want to know of a device; words are empty while nothing is known. */
typedef struct td_device_told {
    char name[96], handles[8], driver[16], library[160]; /* library: which computes products, or why none does */
    int pid;                                             /* of the process that serves it; 0: there is none */
    uint32_t starts;                                     /* of such processes */
} td_device_told;

/* How a device's bytes are taken, given back and touched. */
typedef struct td_device_memory {
    /* Set s->extent and s->data for s->nbytes bytes. Returns as td_heap_alloc does; with need NULL it grows by itself.
     */
    int (*alloc)(const td_place *where, td_storage *s, td_need *need, td_error *e);
    void (*free)(td_storage *s);
    void (*shrink)(td_storage *s, uint64_t nbytes);
    /* A few of its bytes, at once: while nothing that is pending writes them, or, for a write, reads them. */
    int (*read)(const td_storage *s, uint64_t at, void *to, size_t n, td_error *e);
    int (*write)(td_storage *s, uint64_t at, const void *from, size_t n, td_error *e);
    /* How another process of its user's comes to the memory that it lies in. NULL: none does. */
    int (*handle)(const td_storage *s, td_device_handle *out, td_error *e);
    void (*tell)(unsigned number, td_device_told *out); /* NULL: there is nothing to tell */
    bool host; /* this process may touch `data`, and others may map the extent's segment. If not, all but few values
                  come and go by to_device */
} td_device_memory;

extern const td_device_memory td_cpu_memory;

typedef struct td_device_entry td_device_entry;
struct td_device_entry {
    unsigned number; /* proto/base/device.h */
    const td_device_memory *memory;
    td_budget *budget; /* bytes that may be taken there, that were taken, and that storages have of these */
    int (*const *plans)(struct td_kcall *k, td_error *e); /* by op id (td_plan_fn); NULL: the op has no kernel there */
    struct td_executor *executor;                         /* NULL: its calls run on the pool, as on the CPU */
    td_storage *storages;                                 /* of a device that is not the host: all that lie there */
    void *self;                                           /* the device's own */
    /* When no task and no storage is left: lets go of the four. NULL: none is its own. */
    void (*end)(td_device_entry *d);
};

/* Devices of one kind, which a daemon may have. */
typedef struct td_device_kind {
    unsigned first; /* they have the numbers from here on */
    unsigned (*here)(
        void); /* how many there are on this machine: asked once, and nothing is opened or started for it */
    /* Makes one ready and fills it in; or says why it is none, and keeps nothing: `end` is not called then. */
    int (*start)(td_device_entry *out, unsigned number, td_error *e);
} td_device_kind;

/* By number (proto/base/device.h); without `memory`: there is no such device. */
extern _Thread_local td_device_entry td_loop_devices[TD_MAX_DEVICES];
/* It is there from now on, in place of what had its number. */
void td_device_add(const td_device_entry *d);
/* What lies in this segment of the device, or, with NULL, in any, has gone by this failure: it is poisoned at once, and
 * for good. Calls that were issued and did not begin yet are not run there. The device gives no more of such memory
 * out.
 */
void td_device_lose(unsigned device, const td_segment *in, td_cause *why);
/* All of them end. */
void td_devices_end(void);

static inline const td_device_entry *td_device_get(unsigned device)
{
    return device < TD_MAX_DEVICES && td_loop_devices[device].memory ? &td_loop_devices[device] : NULL;
}
static inline bool td_storage_on_host(const td_storage *s)
{
    return s->device == TD_CPU || td_loop_devices[s->device].memory->host;
}
/* As the device has them; within the storage. */
int td_storage_read(const td_storage *s, uint64_t at, void *to, size_t n, td_error *e);
int td_storage_write(td_storage *s, uint64_t at, const void *from, size_t n, td_error *e);
/* A bit for each that there is. */
uint32_t td_devices_here(void);

#endif
