/* C[b] = beta * D[b] + alpha * A[b] B[b] over tiles: the engine behind mm, bmm, addmm, linear and im2col convolution.
 *
 * An operand is a matrix of any strides. What BLAS can read (one stride is 1) is passed as it lies, transposed or not;
 * the rest, and halves, are packed into work memory by the first phase. Tiles follow from shapes alone and are disjoint
 * in C; K is never split between tiles, so the bits do not depend on who runs them. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_PRODUCTS_GEMM_H
#define TENSORD_DAEMON_KERNELS_CPU_PRODUCTS_GEMM_H

#include "daemon/kernels/cpu/thresholds.h"
#include "daemon/kernels/kernel.h"

/* In its order, or a column-major one row by row. */
typedef enum td_gemm_packs { TD_PACK_NONE, TD_PACK_AS_IS, TD_PACK_TURNED } td_gemm_packs;

typedef struct td_gemm_mat {
    const void *data;
    int64_t rs, cs, bs;  /* strides of row, column, batch, in elements */
    const td_desc *rows; /* set: rows are all dimensions of this but its last, which have no common stride */
    size_t pack_at;      /* where the packed copy lies in work memory */
    uint64_t pack;       /* it is packed first: a td_gemm_packs; wide, so that nothing is left open between: plans are
                            compared as bytes */
} td_gemm_mat;

typedef struct td_gemm {
    uint8_t dtype, acc; /* as stored; as computed */
    uint8_t use_dnnl, has_d;
    uint8_t in_a, in_b, in_d; /* which input each is, from 1 on; 0: the plan is of one call only */
    int64_t batch, m, n, k;
    td_gemm_mat a, b, d; /* m x k, k x n, m x n; d is absent unless has_d */
    td_scalar alpha, beta;
    void *c; /* contiguous batch x m x n */
    /* the cut */
    int64_t tile_m, tile_n, tiles_m, tiles_n;
    int64_t group; /* matrices in a chunk, when a matrix is one tile */
    int64_t pack_rows_a, pack_rows_b, pack_chunks_a;
} td_gemm;

/* Cut and append the phases to the plan. `g` has dtype, sizes, operands, alpha, beta and c set; it is copied to the
 * start of k->state. */
int td_gemm_plan(td_kcall *k, td_gemm *g, const char *kernel, td_error *e);

/* One multiplication on this thread, of float32, float64 or complex operands that BLAS can read (row-major with leading
 * dimension, or transposed). c: m x n with row stride ldc. use_dnnl: through oneDNN (float32 only). */
typedef struct td_gemm_call {
    unsigned dtype;
    bool use_dnnl, trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
    const void *a, *b;
    void *c;
    td_scalar alpha, beta;
} td_gemm_call;
void td_gemm_one(const td_gemm_call *g);
/* Of a plan whose chunks will call that: the libraries are loaded now, or wished for (kernel.h), and not by a chunk. */
void td_gemm_one_wants(unsigned dtype, bool use_dnnl);
/* Above about a million multiplications oneDNN is the faster one for float32, and of a few rows above less: OpenBLAS
 * takes 83 us for three by 512 x 512 transposed, oneDNN 15. */
static inline bool td_gemm_prefers_dnnl(unsigned dtype, int64_t m, int64_t n, int64_t k)
{
    double least = m < TD_GEMM_TURN_ROWS ? TD_GEMM_DNNL_FEW : TD_GEMM_DNNL;
    return dtype == TD_FLOAT32 && (double)m * (double)n * (double)k > least;
}

/* The plain kernel: any dtype but bool, any strides (elements), accumulating wide. The reference for the fast ones,
 * and the one for integers. */
typedef struct td_gemm_ref {
    unsigned dtype;
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t ars, acs, brs, bcs, ldc;
    td_scalar alpha, beta;
} td_gemm_ref;
void td_gemm_reference(const td_gemm_ref *g);

/* Pack rows [r0, r1) of a rows x cols matrix as row-major with leading dimension cols, in td_acc_dtype. */
void td_gemm_pack_rows(void *to, const void *from, int64_t rs, int64_t cs, int64_t cols, unsigned dtype, int64_t r0,
                       int64_t r1);

#endif
