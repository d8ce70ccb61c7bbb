/* Walking several strided arrays of one shape together, a run of the innermost dimension at a time.
 *
 * The order is always row-major in the shape that was given, so a linear range [first, first + count) means the same
 * elements however dimensions were merged. Strides here are bytes. Nothing looks at data. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_WALK_H
#define TENSORD_DAEMON_KERNELS_CPU_WALK_H

#include "daemon/kernels/kernel.h"

#define TD_WALK_OPS 4

typedef struct td_walk {
    int nd, nops; /* nd >= 1 */
    int64_t count;
    int64_t shape[TD_MAX_DIMS];
    int64_t step[TD_WALK_OPS][TD_MAX_DIMS];
} td_walk;

typedef struct td_walk_at {
    int64_t run; /* elements to do now, from p[] on; 0 at the end */
    int64_t left;
    int64_t pos[TD_MAX_DIMS];
    char *p[TD_WALK_OPS];
} td_walk_at;

/* A walk over `shape` without operands. */
void td_walk_init(td_walk *w, int nd, const int64_t *shape);
/* Add an operand with element strides `stride` (one for each dimension of the shape); returns its number. */
int td_walk_add(td_walk *w, const int64_t *stride, size_t element);
/* Add a descriptor broadcast to the shape (aligned at the last dimension). */
int td_walk_add_desc(td_walk *w, const td_desc *d);
/* After the last operand: drop dimensions of size 1 and merge those that are one for every operand. */
void td_walk_merge(td_walk *w);

void td_walk_begin(const td_walk *w, td_walk_at *at, void *const *base, int64_t first, int64_t count);
void td_walk_next(const td_walk *w, td_walk_at *at);

static inline int64_t td_walk_inner(const td_walk *w, int op)
{
    return w->step[op][w->nd - 1];
}

/* Copy elements [first, first + count) of `shape` between two strided arrays; strides in elements of `size` bytes. */
void td_copy_strided(int nd, const int64_t *shape, void *to, const int64_t *to_stride, const void *from,
                     const int64_t *from_stride, size_t size, int64_t first, int64_t count);
/* n elements of `size` bytes, byte steps between them. */
void td_copy_run(char *to, int64_t to_step, const char *from, int64_t from_step, size_t size, int64_t n);

#endif
