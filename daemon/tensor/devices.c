/* Which devices this build has. A program that links this room may have a table of its own. */
#include "daemon/tensor/device.h"

const td_device_if *const td_devices[TD_MAX_DEVICES] = {[TD_CPU] = &td_device_cpu};
