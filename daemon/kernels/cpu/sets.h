/* Short loops that stand beside their plan and are built for each instruction set, as the files in vec/ are: which of
 * them runs follows from the set in use, so tests can force it, and every compiler and sanitizer has them.
 *
 *     static TD_FOR_SETS(void, add_each, (double *c, const double *x, int64_t n), (c, x, n))
 *     {
 *         for (int64_t i = 0; i < n; i++) c[i] += x[i];
 *     }
 *
 * What the loop calls is built with it only where it is TD_INLINE. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_SETS_H
#define TENSORD_DAEMON_KERNELS_CPU_SETS_H

#include "daemon/kernels/cpu/loop.h"

#define TD_INLINE static inline __attribute__((always_inline))

/* By way of a second macro, so that a name may be made by one. */
#define TD_FOR_SETS(type, name, params, args) TD_FOR_SETS_(type, name, params, args)

/* A build that counts what tests reach wants each loop once. */
#if defined(TD_HAVE_WIDE) && !defined(TD_ONE_SET)
#define TD_FOR_SETS_(type, name, params, args)                                                                         \
    type name params;                                                                                                  \
    TD_INLINE type name##_base params;                                                                                 \
    __attribute__((target("arch=x86-64-v3"))) static type name##_v3 params                                             \
    {                                                                                                                  \
        return name##_base args;                                                                                       \
    }                                                                                                                  \
    __attribute__((target("arch=x86-64-v4"))) static type name##_v4 params                                             \
    {                                                                                                                  \
        return name##_base args;                                                                                       \
    }                                                                                                                  \
    type name params                                                                                                   \
    {                                                                                                                  \
        switch (td_isa_now->level) {                                                                                   \
        case 2: return name##_v4 args;                                                                                 \
        case 1: return name##_v3 args;                                                                                 \
        default: return name##_base args;                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    TD_INLINE type name##_base params
#else
#define TD_FOR_SETS_(type, name, params, args) type name params
#endif

#endif
