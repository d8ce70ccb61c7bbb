/* The modes of a thread: what each record says of how its op is meant, and the device that things are made on. */
#include "client/wire/internal.h"
#include "proto/base/device.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Thread_local unsigned mode __attribute__((tls_model("initial-exec")));

enum { DEVICES = (TD_MAX_DEVICES - 1) << TD_RM_DEVICE, CHOSEN = 1 << 30 };

/* Where threads that have chosen no device make things: the environment says it when it is first asked for. */
enum { NOT_ASKED = TD_MAX_DEVICES };
static _Atomic unsigned at_first = NOT_ASKED;

int td_first_device(td_error *e)
{
    const char *name = getenv("TENSORD_DEVICE");
    int device = name && name[0] ? td_device_number(name) : TD_CPU;
    if (device < 0)
        return td_fail(e, TD_E_INVALID, "TENSORD_DEVICE is '%.40s', which is no device; one is 'cpu' or 'cuda:0'",
                       name);
    atomic_store_explicit(&at_first, (unsigned)device, memory_order_relaxed);
    return TD_OK;
}

static unsigned first(void)
{
    unsigned device = atomic_load_explicit(&at_first, memory_order_relaxed);
    if (device != NOT_ASKED) return device;
    td_error e;
    return td_first_device(&e) ? TD_CPU : atomic_load_explicit(&at_first, memory_order_relaxed);
}

unsigned td_mode(void)
{
    return mode & ~(unsigned)(DEVICES | CHOSEN);
}

unsigned td_mode_making(void)
{
    if (mode & CHOSEN) return mode & ~(unsigned)CHOSEN;
    return mode | first() << TD_RM_DEVICE;
}

unsigned td_now_on(unsigned device)
{
    unsigned was = td_device_making();
    mode = (mode & ~(unsigned)DEVICES) | device << TD_RM_DEVICE | CHOSEN;
    return was;
}

TD_API int td_set_device(int device)
{
    int was = td_get_device();
    if (device >= TD_MAX_DEVICES)
        return td_raise(TD_E_INVALID, "td_set_device", "%d is no device: they are numbered from 0 to %d", device,
                        TD_MAX_DEVICES - 1),
               -1;
    if (device >= 0) td_now_on((unsigned)device);
    else mode &= ~(unsigned)(DEVICES | CHOSEN);
    return was;
}

TD_API int td_get_device(void)
{
    return (int)td_device_making();
}

static bool set_mode(unsigned bit, bool on)
{
    bool was = mode & bit;
    mode = on ? mode | bit : mode & ~bit;
    return was;
}

TD_API bool td_set_grad_enabled(bool on)
{
    return !set_mode(TD_RM_GRAD_OFF, !on);
}

TD_API bool td_grad_enabled(void)
{
    return !(mode & (TD_RM_GRAD_OFF | TD_RM_INFERENCE));
}

TD_API bool td_set_inference(bool on)
{
    return set_mode(TD_RM_INFERENCE, on);
}

TD_API bool td_set_service(bool on)
{
    return set_mode(TD_RM_SERVICE, on);
}

TD_API bool td_set_racy(bool on)
{
    return set_mode(TD_RM_RACY, on);
}
