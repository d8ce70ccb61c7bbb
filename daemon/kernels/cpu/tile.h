/* The walk of one output and up to three inputs of any strides, in tiles that fit the first-level cache.
 *
 * A td_tiles says what the elements are and how they lie; finish() reorders and merges the dimensions and chooses the
 * tile; run() does a range of tiles. Within a tile each operand is either used where it lies (its rows are contiguous
 * and have the loop's type) or gathered, converted or turned in scratch first; a result that cannot be written in place
 * is scattered afterwards. Operand 0 is the output. Which tiles there are follows from shapes, strides and dtypes
 * alone. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_TILE_H
#define TENSORD_DAEMON_KERNELS_CPU_TILE_H

#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/thresholds.h"
#include "proto/base/desc.h"

#define TD_TILE_DIMS (2 * TD_MAX_DIMS) /* inner dimension first */
#define TD_TILE_OPS 4
#define TD_TILE_SCRATCH ((TD_TILE_OPS + 1) * TD_TILE_BYTES)

/* CONST: one element; ONCE: the same row for all rows. Both are made ready once a chunk. */
enum td_tile_mode { TD_TILE_DIRECT, TD_TILE_CONST, TD_TILE_ONCE, TD_TILE_GATHER };

typedef struct td_tiles {
    td_pw_fn fn;
    td_pw_fn cast[TD_TILE_OPS]; /* to the loop's type, or from it for the output; NULL: none needed */
    td_pw_fn narrow, widen;     /* from the loop's type to the narrower one that is computed in, and back */
    char *data[TD_TILE_OPS];
    int64_t shape[TD_TILE_DIMS];
    int64_t stride[TD_TILE_OPS][TD_TILE_DIMS]; /* bytes */
    int64_t rows, cols;                        /* of a tile, along dimensions 1 and 0 */
    int64_t nrows, ncols, count;               /* tiles along these, and in all */
    int64_t per_chunk;
    td_pw_attr at[3];
    uint8_t nops, ndim;
    uint8_t mode[TD_TILE_OPS];
    uint8_t rounded; /* mask of operands that pass through narrow and widen on their way from or to another dtype */
    uint8_t raw[TD_TILE_OPS], body[TD_TILE_OPS]; /* element sizes in memory and in the loop */
    uint8_t dense;                               /* a whole tile is one run of the loop */
    uint8_t turned;                              /* the input that is contiguous along dimension 1; 0: none */
    bool moves;                                  /* its one input is copied as it is */
} td_tiles;

/* Is a copy of one into the other as it is? Of truth values it is not: any byte may mean true. */
static inline bool td_only_moves(td_dtype from, td_dtype to)
{
    return from == to && to != TD_BOOL;
}

/* Say where operand `op` lies and what the loop wants of it. Operand 0 first: it gives the shape; inputs are broadcast
 * to it. */
void td_tiles_operand(td_tiles *t, int op, void *data, const td_desc *d, td_dtype body);
/* The same without a descriptor: data and size of elements; the caller fills t->ndim, t->shape and t->stride[op]
 * itself. */
void td_tiles_raw(td_tiles *t, int op, void *data, int size);
/* Choose the walk. `element_ns` is the loop's time for an element: chunks are cut to about 100 us. */
void td_tiles_finish(td_tiles *t, double element_ns);
int64_t td_tiles_chunks(const td_tiles *t);
int64_t td_tiles_numel(const td_tiles *t);
/* Run tiles [from, to). Scratch has TD_TILE_SCRATCH bytes. Returns what the loops returned, or-ed. */
int td_tiles_run(const td_tiles *t, int64_t from, int64_t to, void *scratch);
int td_tiles_chunk(const td_tiles *t, int64_t chunk, void *scratch);

/* to[r][c] = from, rows x cols elements of `size` bytes, to dense (the walk's own moves, used by the reductions too).
 */
void td_gather(void *to, const void *from, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
               int size);
void td_scatter(void *to, const void *from, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
                int size);
/* Repeat the element at `value` n times. */
void td_fill(void *to, const void *value, int64_t n, int size);

#endif
