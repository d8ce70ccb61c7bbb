/* Devices by number. */
#include "daemon/tensor/device.h"

int td_storage_read(const td_storage *s, uint64_t at, void *to, size_t n, td_error *e)
{
    assert(at <= s->nbytes && n <= s->nbytes - at);
    return n ? td_devices[s->device]->read(s, at, to, n, e) : TD_OK;
}

int td_storage_write(td_storage *s, uint64_t at, const void *from, size_t n, td_error *e)
{
    assert(at <= s->nbytes && n <= s->nbytes - at);
    return n ? td_devices[s->device]->write(s, at, from, n, e) : TD_OK;
}

uint32_t td_devices_here(void)
{
    uint32_t here = 0;
    for (unsigned i = 0; i < TD_MAX_DEVICES; i++) here |= (uint32_t)(td_devices[i] != NULL) << i;
    return here;
}
