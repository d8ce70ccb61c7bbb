/* The arguments of the kernels that move elements by index, assemble tensors, or draw numbers. See args.h. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_ARGS_PLACES_H
#define TENSORD_DAEMON_KERNELS_CUDA_ARGS_PLACES_H

#include "daemon/kernels/cuda/args.h"

/* Element i of the result is x at the place that an index says along one dimension; dimensions innermost first. */
typedef struct td_ca_pick {
    uint32_t *error;
    int64_t n, limit, dim_stride;
    const void *x, *idx;
    void *out;
    int64_t shape[TD_MAX_DIMS], x_stride[TD_MAX_DIMS], idx_stride[TD_MAX_DIMS];
    int32_t ndim;
    uint8_t idx_dtype, size;
} td_ca_pick;

/* Tensors side by side along one dimension: `outer` times, so many elements of each. */
enum { TD_CUDA_PARTS = 24 };
typedef struct td_ca_parts {
    uint32_t *error;
    void *to;
    int64_t outer, total;
    const void *from[TD_CUDA_PARTS];
    int64_t start[TD_CUDA_PARTS]; /* of the part in `total`; it ends where the next one starts */
    int32_t count, size;
} td_ca_parts;

/* x with a slice along dimension `dim` (innermost first) taken from src. */
typedef struct td_ca_slice {
    uint32_t *error;
    int64_t n, start, step, length;
    const void *x, *src;
    void *to;
    int64_t shape[TD_MAX_DIMS], x_stride[TD_MAX_DIMS], src_stride[TD_MAX_DIMS];
    int32_t ndim, dim, size;
} td_ca_slice;

/* Lines along one dimension of a contiguous result, to which src is added at indices, in the order of these. */
typedef struct td_ca_add {
    uint32_t *error;
    int64_t lines, length, count; /* of a line in the result; indices of a line */
    int64_t inner;                /* elements behind the dimension */
    int64_t shape[TD_MAX_DIMS];   /* of a line's place: the other dimensions, innermost first */
    int64_t out_stride[TD_MAX_DIMS], src_stride[TD_MAX_DIMS], idx_stride[TD_MAX_DIMS];
    int64_t out_step, src_step, idx_step;
    const void *src, *idx;
    void *out;
    double alpha;
    int64_t whole_alpha;
    td_cuda_number number; /* instead of src: what is put there, a double or a whole number, as `body` says */
    int32_t ndim;
    uint8_t dtype, src_dtype, idx_dtype, body, bytes;
} td_ca_add;

/* Matrices whose elements are zero above a diagonal, or below it. */
typedef struct td_ca_triangle {
    uint32_t *error;
    int64_t n, diagonal;
    const void *x;
    void *to;
    int64_t shape[TD_MAX_DIMS], stride[TD_MAX_DIMS];
    int32_t ndim, size;
    uint8_t lower;
} td_ca_triangle;

enum td_cuda_drawn { TD_DRAWN_UNIFORM, TD_DRAWN_NORMAL };
typedef struct td_ca_random {
    uint32_t *error;
    void *to;
    int64_t n;
    uint64_t seed[2];     /* and the op's number in its stream */
    const int64_t *given; /* seed and number as a forward kept them; NULL: `seed` */
    int64_t given_step;
    int64_t *keep; /* where they are kept */
    const void *x;
    int64_t shape[TD_MAX_DIMS], stride[TD_MAX_DIMS];
    uint64_t threshold;
    int64_t low; /* randint: the lowest number, and how many there are; 0: 2^64 */
    uint64_t range;
    double scale;
    int32_t ndim, kind;
    uint8_t dtype, x_dtype;
} td_ca_random;

#endif
