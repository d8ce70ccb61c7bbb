/* The CPU as a device: storages are extents of a heap in shared memory. */
#include "daemon/tensor/device.h"

static int cpu_alloc(const td_place *where, td_storage *s, uint64_t *lack, td_error *e)
{
    int err = lack ? td_heap_alloc(where->heap, s->nbytes, &s->extent, lack, e)
                   : td_heap_alloc_now(where->heap, s->nbytes, &s->extent, e);
    if (!err) s->data = td_extent_data(&s->extent);
    return err;
}

static void cpu_free(td_storage *s)
{
    td_heap_release(td_extent_heap(&s->extent), &s->extent);
}

static void cpu_shrink(td_storage *s, uint64_t nbytes)
{
    td_heap_shrink(td_extent_heap(&s->extent), &s->extent, nbytes);
}

const td_device_if td_device_cpu = {.name = "cpu", .alloc = cpu_alloc, .free = cpu_free, .shrink = cpu_shrink};
