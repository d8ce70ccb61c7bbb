/* Small things every plan here uses: phases, cutting a range into chunks, laying out work memory, reading an index.
 *
 * How work is cut follows from shapes alone. A value loaded from a tensor is loaded once (other processes may write it
 * meanwhile): the loads of indices go through td_load_index. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_PLAN_H
#define TENSORD_DAEMON_KERNELS_CPU_PLAN_H

#include "daemon/kernels/cpu/sets.h"
#include "daemon/kernels/cpu/thresholds.h"
#include "daemon/kernels/kernel.h"
#include <assert.h>

/* Append a phase; one without chunks is left out. */
static inline void td_plan_phase(td_kcall *k, td_chunk_fn fn, int64_t chunks)
{
    if (chunks <= 0) return;
    assert(k->nphases < TD_MAX_PHASES);
    k->phase[k->nphases].fn = fn;
    k->phase[k->nphases++].chunks = chunks;
}

/* Chunks of at most `per` out of `total`. */
static inline int64_t td_cut(int64_t total, int64_t per)
{
    return total <= 0 ? 0 : (total + per - 1) / per;
}

/* [*b, *e) of chunk `c` when `total` is cut every `per`. */
static inline void td_cut_range(int64_t total, int64_t per, int64_t c, int64_t *b, int64_t *e)
{
    *b = c * per;
    *e = *b + per < total ? *b + per : total;
}

/* Reserve `bytes` of work memory; returns the offset, a multiple of 64. */
static inline size_t td_plan_work(td_kcall *k, size_t bytes)
{
    size_t at = (k->work_bytes + 63) & ~(size_t)63;
    k->work_bytes = at + bytes;
    return at;
}

static inline int64_t td_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t td_max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* How many of a data-dependent result were found (nonzero, masked_select): valid when the last phase has ended. Its
 * plan keeps it at the start of `state`; the caller cuts the output, which was allocated for the most there can be, to
 * it. */
static inline int64_t td_kernel_count(const td_kcall *k)
{
    return *(const int64_t *)k->state;
}

/* What moving bytes costs, those read and those written: so much less in the second cache that it decides whether a
 * call is worth a worker. */
static inline double td_move_ns(double bytes)
{
    double near = bytes < TD_MOVE_NEAR ? bytes : TD_MOVE_NEAR;
    return near * 0.0125 + (bytes - near) * 0.04;
}

/* Elements of a chunk of a walk that takes `ns` for each, a multiple of `step`: work for TD_CHUNK_NS, and where that is
 * all or nearly, a share that is still worth a thread. */
static inline int64_t td_chunk_elements(int64_t n, double ns, int64_t step)
{
    double per = TD_CHUNK_NS / ns, share = (double)n / TD_CHUNK_SHARES, worth = TD_SHARE_NS / ns;
    if (share < worth) share = worth;
    if (per > share) per = share;
    if (per > TD_CHUNK_MOST) per = TD_CHUNK_MOST;
    if (per < TD_CHUNK_LEAST) per = TD_CHUNK_LEAST;
    return ((int64_t)per + step - 1) / step * step;
}

/* An optional input that was not given. */
static inline bool td_absent(const td_karg *a)
{
    return !a->desc || (!a->data && td_desc_numel(a->desc) != 0);
}

/* One load, whatever another process does to the place. */
static inline int64_t td_load_index(const void *p, unsigned dtype)
{
    switch (dtype) {
    case TD_INT64: return *(const volatile int64_t *)p;
    case TD_INT32: return *(const volatile int32_t *)p;
    case TD_INT16: return *(const volatile int16_t *)p;
    case TD_INT8: return *(const volatile int8_t *)p;
    default: return *(const volatile uint8_t *)p;
    }
}

/* Integer tensors may index; booleans are lowered to nonzero before they get here. */
static inline bool td_is_index_dtype(unsigned dtype)
{
    return dtype >= TD_UINT8 && dtype <= TD_INT64;
}

/* `at`: which element of the index tensor it is, counted in row-major order. */
static inline void td_fail_index(td_kcall *k, int64_t index, int64_t at, int dim, int64_t size)
{
    td_kernel_fail(k, TD_E_INDEX,
                   "index %lld is out of bounds for dimension %d with size %lld (element %lld of the indices)",
                   (long long)index, dim, (long long)size, (long long)at);
}

/* The phases so far write to work memory only: when one of them fails, a tensor that is worked on in place is as it
 * was. */
static inline void td_plan_clean_until_here(td_kcall *k)
{
    k->clean_phases = k->nphases;
}

/* Refuse the dtype of input `i`. */
static inline int td_refuse_dtype(const td_kcall *k, int i, const char *kernel, td_error *e)
{
    return td_fail(e, TD_E_UNSUPPORTED, "%s has no CPU kernel for %s", kernel, td_dtype_name(k->in[i].desc->dtype));
}

#endif
