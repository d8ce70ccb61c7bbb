/* The innermost part of a large product: one tile of C, as large as the registers hold, from packed panels.
 *
 * A panel holds `rows` rows of A (or `cols` columns of B) for all of K, K outermost, so that both are read in order.
 * The sums of one element run over K in order, in one accumulator, whatever the tile is called for: so all instruction
 * sets that multiply and add at once give the same bits. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_GEMM_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_GEMM_H

#include <stdint.h>

typedef struct td_gemm_kernel {
    int rows, cols; /* 0: this set has none that is worth it */
    int speed;      /* products in a ns on one core, roughly */
    /* c[rows x cols] = beta * c + alpha * (a b); c is not read when beta is 0. */
    void (*tile)(int64_t k, const float *a, const float *b, float *c, int64_t ldc, float alpha, float beta);
} td_gemm_kernel;

#define TD_GEMM_TILE_MAX (12 * 32)

#endif
