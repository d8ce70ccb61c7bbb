/* Which elements of a dimension a place of the other size is made of, and how much of each: the taps of resample.
 *
 * They are a sparse matrix, `out` rows and `in` columns, in rows: those of place i are [begin[i], begin[i + 1]) of `at`
 * and `weight`. The gradient is the same with the matrix transposed. Every `at` is inside the dimension, whatever the
 * scale: nothing here looks at data. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_GRIDS_RESAMPLE_TAPS_H
#define TENSORD_DAEMON_KERNELS_CPU_GRIDS_RESAMPLE_TAPS_H

#include "daemon/kernels/kernel.h"

enum { TD_NEAREST, TD_NEAREST_EXACT, TD_LINEAR, TD_CUBIC, TD_AREA };

/* One dimension, as the attributes say it. */
typedef struct td_resize {
    int64_t in, out;
    double scale; /* given, or 0: the sizes say it */
    uint8_t mode;
    bool corners, antialias, single; /* single: places are computed in float, as PyTorch does for all but float64 */
} td_resize;

typedef struct td_taps {
    int32_t *begin, *at;
    double *weight;
    int32_t even; /* taps of every row, or 0 where they differ */
} td_taps;

/* No place has more taps. */
int64_t td_taps_most(const td_resize *r);
/* Bytes of td_taps for `rows` rows and `count` taps. */
size_t td_taps_bytes(int64_t rows, int64_t count);
/* Lay them out in memory of so many bytes. */
td_taps td_taps_in(void *memory, int64_t rows, int64_t count);
/* Fill them. False: the call has failed meanwhile, and they are not whole. */
bool td_taps_fill(td_kcall *k, const td_resize *r, td_taps *t);
/* `to` (rows: r->in) = `from` (rows: r->out) transposed, taps in the order of the rows that they come from. */
bool td_taps_turn(td_kcall *k, const td_resize *r, const td_taps *from, td_taps *to);

#endif
