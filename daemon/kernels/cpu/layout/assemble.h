/* Results that are put together from copies: cat, stack, repeat, flip, roll, constant_pad.
 *
 * Each is a list of strided copies into parts of the result; a copy is the walk of tile.h with a cast as its
 * loop. What differs is only how the k-th copy is laid out, so a chunk builds its walk itself from the descriptors. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_LAYOUT_ASSEMBLE_H
#define TENSORD_DAEMON_KERNELS_CPU_LAYOUT_ASSEMBLE_H

#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/kernel.h"

/* A copy being laid out: shapes outermost first, strides in elements. */
typedef struct td_copy_layout {
    int ndim;
    int64_t shape[TD_TILE_DIMS], to_stride[TD_TILE_DIMS], from_stride[TD_TILE_DIMS];
    char *to, *from;
    td_dtype to_type, from_type;
    int64_t before; /* cat: elements of its dimension in the parts so far; 0 at the first */
} td_copy_layout;

/* Lay out copy number `part`; the copies of a call are laid out in order, from 0 on, into one layout. */
typedef void (*td_layout_fn)(const td_kcall *k, int64_t part, td_copy_layout *l);

/* Plan `parts` copies as phase `phase`, the last one. */
void td_assemble_plan(td_kcall *k, td_layout_fn lay, int64_t parts, int phase);
/* All of input `in`, laid at the start of the result along its own dimensions. */
void td_layout_whole(const td_kcall *k, int in, td_copy_layout *l);
/* Of cat and stack: a part is an input. Of repeat and flip there is one part, of constant_pad one, too: what is left of
 * the source. Of roll 2 to the power of the dimensions; of roll without dimensions two, of a contiguous source. */
void td_lay_cat(const td_kcall *k, int64_t part, td_copy_layout *l);
void td_lay_stack(const td_kcall *k, int64_t part, td_copy_layout *l);
void td_lay_repeat(const td_kcall *k, int64_t part, td_copy_layout *l);
void td_lay_flip(const td_kcall *k, int64_t part, td_copy_layout *l);
void td_lay_pad(const td_kcall *k, int64_t part, td_copy_layout *l);
void td_lay_roll(const td_kcall *k, int64_t part, td_copy_layout *l);
void td_lay_roll_flat(const td_kcall *k, int64_t part, td_copy_layout *l);

static inline char *td_layout_move(char *p, int64_t elements, td_dtype t)
{
    return p + elements * (int64_t)td_dtype_size(t);
}

static inline int td_wrapped(int64_t dim, int ndim)
{
    return (int)(dim < 0 ? dim + ndim : dim);
}

#endif
