/* The plan functions for CUDA. Each leaves a list of launches (launch.h), or refuses a dtype or layout by name. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_PLANS_H
#define TENSORD_DAEMON_KERNELS_CUDA_PLANS_H

#include "daemon/kernels/kernel.h"

enum { TD_CUDA_MOST_BLOCKS = 1 << 15 }; /* of a kernel that walks on by the grid */

#define TD_CUDA_PLANS(X)                                                                                               \
    X(pointwise)                                                                                                       \
    X(copy) X(full) X(arange) X(linspace) X(eye) X(sum) X(mean) X(prod) X(amax) X(amin) X(max_dim) X(min_dim)          \
        X(argmax) X(argmin) X(var) X(std) X(any) X(all) X(logsumexp) X(sum_to) X(sum_squares) X(mm) X(bmm) X(addmm)    \
            X(linear) X(dot) X(mv)
#define TD_CUDA_PLAN(NAME) int td_cuda_plan_##NAME(td_kcall *k, td_error *e);
TD_CUDA_PLANS(TD_CUDA_PLAN)
#undef TD_CUDA_PLAN

#endif
