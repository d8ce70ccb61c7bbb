/* The CPU as a device: storages are extents of a heap in shared memory. */
#include "daemon/tensor/device.h"

static int cpu_alloc(const td_place *where, td_storage *s, td_need *need, td_error *e)
{
    int rc = need ? td_heap_alloc(where->heap, s->nbytes, &s->extent, need, e)
                  : td_heap_alloc_now(where->heap, s->nbytes, &s->extent, e);
    if (!rc) s->data = td_extent_data(&s->extent);
    return rc;
}

static void cpu_free(td_storage *s)
{
    td_heap_release(td_extent_heap(&s->extent), &s->extent);
}

static void cpu_shrink(td_storage *s, uint64_t nbytes)
{
    td_heap_shrink(td_extent_heap(&s->extent), &s->extent, nbytes);
}

static int cpu_read(const td_storage *s, uint64_t at, void *to, size_t n, td_error *e)
{
    (void)e;
    memcpy(to, s->data + at, n);
    return TD_OK;
}

static int cpu_write(td_storage *s, uint64_t at, const void *from, size_t n, td_error *e)
{
    (void)e;
    memcpy(s->data + at, from, n);
    return TD_OK;
}

const td_device_memory td_cpu_memory = {
    .alloc = cpu_alloc, .free = cpu_free, .shrink = cpu_shrink, .read = cpu_read, .write = cpu_write, .host = true};
