/* Adding a run of numbers into another, for every dtype: to[i] += alpha * from[i].
 *
 * Integers wrap, bool is "or", halves are rounded at each addition (as one addition of a half tensor is). */
#ifndef TENSORD_KERNELS_CPU_ACCUMULATE_H
#define TENSORD_KERNELS_CPU_ACCUMULATE_H

#include "proto/dtype.h"

/* Steps in bytes. `scale` false: alpha is 1 and not looked at. */
void td_add_run(unsigned dtype, char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, bool scale,
                td_scalar alpha);

#endif
