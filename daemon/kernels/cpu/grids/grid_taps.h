/* What a place of a grid sees: for each dimension one, two or four elements (nearest, linear, cubic), how much of each,
 * and how that changes with the place.
 *
 * A coordinate is loaded once; whatever it is, an index is -1 (beyond the picture: zero) or inside the dimension. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_GRIDS_GRID_TAPS_H
#define TENSORD_DAEMON_KERNELS_CPU_GRIDS_GRID_TAPS_H

#include "daemon/kernels/cpu/thresholds.h"
#include "daemon/kernels/kernel.h"

enum { TD_GRID_LINEAR, TD_GRID_NEAREST, TD_GRID_CUBIC };
enum { TD_GRID_ZEROS, TD_GRID_BORDER, TD_GRID_MIRROR };
enum { TD_GRID_DIMS = 3, TD_GRID_SEEN = 4, TD_GRID_TAPS = 16 };

typedef struct td_grid {
    int n, seen, taps; /* dimensions; elements that a place sees in each, and in all */
    int mode, padding;
    bool corners;
    int64_t size[TD_GRID_DIMS], stride[TD_GRID_DIMS]; /* of the picture, in elements; width last */
} td_grid;

/* One dimension at one place. */
typedef struct td_grid_line {
    int64_t at[TD_GRID_SEEN];                          /* or -1 */
    double weight[TD_GRID_SEEN], change[TD_GRID_SEEN]; /* by the coordinate as the grid has it */
} td_grid_line;

/* The same of a block of places, without how it changes; for grids of which td_grid_is_plain. */
typedef struct td_grid_lines {
    int32_t at[2][TD_GRID_BLOCK]; /* or -1 */
    double weight[2][TD_GRID_BLOCK];
} td_grid_lines;

void td_grid_look(const td_grid *g, int d, double coordinate, td_grid_line *line);
/* Linear or nearest, and no mirrors: what follows is worked out without a branch. */
static inline bool td_grid_is_plain(const td_grid *g)
{
    return g->mode != TD_GRID_CUBIC && g->padding != TD_GRID_MIRROR;
}
void td_grid_look_lines(const td_grid *g, int d, int64_t n, const double *coordinate, td_grid_lines *to);

#endif
