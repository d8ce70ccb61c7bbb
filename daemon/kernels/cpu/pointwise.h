/* Plans of this room that are named by the table rather than by a kernel column, and those that others build on. */
#ifndef TENSORD_KERNELS_POINTWISE_H
#define TENSORD_KERNELS_POINTWISE_H

#include "daemon/kernels/kernel.h"

int td_cpu_plan_pointwise(td_kcall *k, td_error *e);
int td_cpu_plan_copy(td_kcall *k, td_error *e);
int td_cpu_plan_full(td_kcall *k, td_error *e);

#endif
