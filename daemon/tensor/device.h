/* What a device must give to hold storages. One constant table a device; nothing else in this room knows which there
 * are.
 *
 * cpu.c takes extents from the heaps of shared memory. A cuda.c belongs beside it (meson option `cuda`): its alloc
 * cuts extents from arenas of device memory, whose handles travel to clients as descriptors of segments do. */
#ifndef TENSORD_TENSOR_DEVICE_H
#define TENSORD_TENSOR_DEVICE_H

#include "daemon/tensor/tensor.h"

/* What a device has. */
typedef struct td_device_info {
    uint64_t limit, committed,
        used; /* bytes: that may be taken, that were taken from it, that storages have of these */
} td_device_info;

typedef struct td_device_if {
    /* Set s->extent and s->data for s->nbytes bytes. Returns as td_heap_alloc does; with need NULL it grows by itself.
     */
    int (*alloc)(const td_place *where, td_storage *s, td_need *need, td_error *e);
    void (*free)(td_storage *s);
    void (*shrink)(td_storage *s, uint64_t nbytes);
    /* `host` is what the CPU's memory is taken from. */
    void (*describe)(const td_budget *host, td_device_info *out);
    /* A few of its bytes, at once: while nothing that is pending writes them, or, for a write, reads them. */
    int (*read)(const td_storage *s, uint64_t at, void *to, size_t n, td_error *e);
    int (*write)(td_storage *s, uint64_t at, const void *from, size_t n, td_error *e);
    bool host; /* this process may touch `data`, and others may map the extent's segment. If not, all but few values
                  come and go by to_device */
} td_device_if;

extern const td_device_if td_device_cpu;

/* By number (proto/base/device.h); NULL: this build has no such device. */
extern const td_device_if *const td_devices[TD_MAX_DEVICES];
static inline const td_device_if *td_device_get(unsigned device)
{
    return device < TD_MAX_DEVICES ? td_devices[device] : NULL;
}
static inline bool td_storage_on_host(const td_storage *s)
{
    return s->device == TD_CPU || td_devices[s->device]->host;
}
/* As the device has them; within the storage. */
int td_storage_read(const td_storage *s, uint64_t at, void *to, size_t n, td_error *e);
int td_storage_write(td_storage *s, uint64_t at, const void *from, size_t n, td_error *e);
/* A bit for each that there is. */
uint32_t td_devices_here(void);

#endif
