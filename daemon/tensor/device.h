/* What a device must give to hold storages. One constant table a device; nothing else in this room knows which there
 * are.
 *
 * cpu.c takes extents from the heaps of shared memory. A cuda.c belongs beside it (meson option `cuda`): its alloc
 * cuts extents from arenas of device memory, whose handles travel to clients as descriptors of segments do. */
#ifndef TENSORD_TENSOR_DEVICE_H
#define TENSORD_TENSOR_DEVICE_H

#include "daemon/tensor/tensor.h"

typedef struct td_device_if {
    const char *name;
    /* Set s->extent and s->data for s->nbytes bytes. Returns as td_heap_alloc does; with lack NULL it grows by itself.
     */
    int (*alloc)(const td_place *where, td_storage *s, uint64_t *lack, td_error *e);
    void (*free)(td_storage *s);
    void (*shrink)(td_storage *s, uint64_t nbytes);
} td_device_if;

extern const td_device_if td_device_cpu;

/* NULL when this build has no such device. */
const td_device_if *td_device_get(unsigned device);

#endif
