/* Which devices this build has. */
#include "daemon/tensor/device.h"

const td_device_if *td_device_get(unsigned device)
{
    static const td_device_if *const devices[] = {[TD_CPU] = &td_device_cpu, [TD_CUDA] = NULL};
    return device < sizeof devices / sizeof devices[0] ? devices[device] : NULL;
}
