/* Adding a run of numbers into another, for every dtype: to[i] += alpha * from[i].
 *
 * Integers wrap, bool is "or", halves are rounded at each addition (as one addition of a half tensor is). */
#ifndef TENSORD_DAEMON_KERNELS_CPU_ACCUMULATE_H
#define TENSORD_DAEMON_KERNELS_CPU_ACCUMULATE_H

#include "proto/base/dtype.h"

/* Steps in bytes. `scale` false: alpha is 1 and not looked at. */
void td_add_run(unsigned dtype, char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, bool scale,
                td_scalar alpha);

typedef enum td_fold { TD_FOLD_WRITE, TD_FOLD_ADD, TD_FOLD_MULTIPLY, TD_FOLD_MOST, TD_FOLD_LEAST } td_fold;

/* One number folded into another by the last three, for dtypes that have an order: a product, the larger, the smaller;
 * NaN stays. */
void td_fold_one(unsigned dtype, td_fold how, char *to, const char *from);

#endif
