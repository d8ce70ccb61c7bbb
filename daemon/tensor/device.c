/* Devices by number. */
#include "daemon/tensor/device.h"

_Thread_local td_device_entry td_loop_devices[TD_MAX_DEVICES];

void td_device_add(const td_device_entry *d)
{
    assert(d->number < TD_MAX_DEVICES && d->memory);
    td_loop_devices[d->number] = *d;
}

void td_device_lose(unsigned device, const td_segment *in, td_cause *why)
{
    for (td_storage *s = td_loop_devices[device].storages; s; s = s->on_next) {
        if (in && s->extent.segment != in) continue;
        td_storage_heal(s); /* of what was the matter before nobody needs to know */
        td_storage_poison(s, why);
        atomic_store_explicit(&s->lost, true, memory_order_release);
    }
}

void td_devices_end(void)
{
    for (unsigned i = 0; i < TD_MAX_DEVICES; i++) {
        td_device_entry *d = &td_loop_devices[i];
        if (d->end) d->end(d);
        *d = (td_device_entry){0};
    }
}

static int is_lost(const td_storage *s, td_error *e)
{
    const td_error *why = &s->poison->error;
    return td_fail(e, why->code, "%s", why->message);
}

int td_storage_read(const td_storage *s, uint64_t at, void *to, size_t n, td_error *e)
{
    assert(at <= s->nbytes && n <= s->nbytes - at);
    if (td_storage_lost(s)) return is_lost(s, e);
    return n ? td_loop_devices[s->device].memory->read(s, at, to, n, e) : TD_OK;
}

int td_storage_write(td_storage *s, uint64_t at, const void *from, size_t n, td_error *e)
{
    assert(at <= s->nbytes && n <= s->nbytes - at);
    if (td_storage_lost(s)) return is_lost(s, e);
    return n ? td_loop_devices[s->device].memory->write(s, at, from, n, e) : TD_OK;
}

uint32_t td_devices_here(void)
{
    uint32_t here = 0;
    for (unsigned i = 0; i < TD_MAX_DEVICES; i++) here |= (uint32_t)(td_device_get(i) != NULL) << i;
    return here;
}
