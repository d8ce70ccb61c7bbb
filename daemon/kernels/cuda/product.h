/* A product of matrices that a library computes, as a plan leaves it and tensord-cuda takes it.
 *
 * d = alpha a b + beta d, by columns, as cuBLAS has them: a is m by k, b is k by n, d is m by n, and the columns of
 * each lie `ld` elements apart. A turned one lies as its transpose. With a batch there are so many, each `step`
 * elements behind the last. beta 0: d is not read. All four have one dtype; sums are of float32, or of float64 for
 * that. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_PRODUCT_H
#define TENSORD_DAEMON_KERNELS_CUDA_PRODUCT_H

#include "proto/types.h"
#include <stdbool.h>

/* What a library can do: bits. */
enum { TD_CUDA_LIB_F32 = 1, TD_CUDA_LIB_F64 = 2, TD_CUDA_LIB_F16 = 4, TD_CUDA_LIB_BF16 = 8 };

typedef struct td_cuda_matrix_at {
    uint64_t at;
    int64_t ld, step;
} td_cuda_matrix_at;

typedef struct td_cuda_product {
    td_cuda_matrix_at a, b, d;
    int64_t m, n, k, batch;
    double alpha, beta;
    uint32_t alignment; /* bytes that all addresses are multiples of: what the way is chosen by, so it follows from the
                           operands' offsets alone */
    uint8_t dtype, a_turned, b_turned, pad;
} td_cuda_product;

enum { TD_CUDA_ALIGNED = 64 }; /* the most that is promised */

/* The bit of a dtype; 0: no library takes it. */
static inline unsigned td_cuda_library_bit(unsigned dtype)
{
    switch (dtype) {
    case TD_FLOAT32: return TD_CUDA_LIB_F32;
    case TD_FLOAT64: return TD_CUDA_LIB_F64;
    case TD_FLOAT16: return TD_CUDA_LIB_F16;
    case TD_BFLOAT16: return TD_CUDA_LIB_BF16;
    default: return 0;
    }
}

#endif
