/* Which plans each device has. A program that links this room may have a table of its own. */
#include "daemon/ops/ops.h"

const td_plan_fn *const td_plans[TD_MAX_DEVICES] = {[TD_CPU] = td_cpu_plans};
