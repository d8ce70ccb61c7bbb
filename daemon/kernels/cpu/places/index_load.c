/* See index_load.h. */
#include "daemon/kernels/cpu/places/index_load.h"
#include "daemon/kernels/cpu/plan.h"

/* The compiler is not to look at the indices again where it finds their copies too far away. */
#define LOADED() __asm__ volatile("" ::: "memory")

#define LOAD(T)                                                                                                        \
    for (int64_t i = 0; i < n; i++) to[i] = *(const volatile T *)(from + i * step)

static void load(int64_t *to, const char *from, int64_t step, unsigned dtype, int64_t n)
{
    switch (dtype) {
    case TD_INT64:
        if (step == sizeof *to) memcpy(to, from, (size_t)n * sizeof *to);
        else LOAD(int64_t);
        break;
    case TD_INT32: LOAD(int32_t); break;
    case TD_INT16: LOAD(int16_t); break;
    case TD_INT8: LOAD(int8_t); break;
    default: LOAD(uint8_t);
    }
    LOADED();
}

TD_INLINE int64_t place(int64_t v, int64_t wrap)
{
    return v + (v < 0 ? wrap : 0);
}

/* Below 0 where v is, or is beyond the limit: words of one size, for which there are vectors in every set. */
TD_INLINE int64_t beyond(int64_t v, int64_t limit)
{
    return v | (int64_t)((uint64_t)limit - 1 - (uint64_t)v); /* a v far below 0 may wrap: it is below 0 itself */
}

static TD_FOR_SETS(bool, all_within, (const int64_t *v, int64_t n, int64_t limit, int64_t wrap), (v, n, limit, wrap))
{
    int64_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= beyond(place(v[i], wrap), limit);
    return any >= 0;
}

static TD_FOR_SETS(void, scale, (int64_t * v, int64_t n, int64_t unit, int64_t wrap), (v, n, unit, wrap))
{
    for (int64_t i = 0; i < n; i++) v[i] = place(v[i], wrap) * unit;
}

int64_t td_load_offsets(const td_index_load *l, int64_t *to, const char *from, int64_t step, int64_t n, int64_t *bad)
{
    int64_t wrap = l->wrap ? l->limit : 0;
    load(to, from, step, l->dtype, n);
    if (!all_within(to, n, l->limit, wrap)) {
        int64_t i = 0;
        while (beyond(place(to[i], wrap), l->limit) >= 0) i++;
        *bad = to[i];
        return i;
    }
    scale(to, n, l->unit, wrap);
    return n;
}
