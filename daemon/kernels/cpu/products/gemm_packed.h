/* Large float32 products by tiles of our own: both operands are packed once, by the first phase, and then any tile of
 * C, however small, runs at full speed.
 *
 * A library packs what a call needs in every call, which is only cheap for tiles that take milliseconds; and a chunk of
 * milliseconds is what everybody else on the machine then waits for. Here a chunk takes about 150 us, whatever K is.
 * Operands may lie anyhow: packing reads any strides, and halves. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_PRODUCTS_GEMM_PACKED_H
#define TENSORD_DAEMON_KERNELS_CPU_PRODUCTS_GEMM_PACKED_H

#include "daemon/kernels/cpu/products/gemm.h"

/* Is it large enough, and does this processor have a tile for it? Decided by shapes and instruction set. */
bool td_gemm_wants_packing(const td_gemm *g);
/* The two phases, for a product that wants packing. `g` is copied to the start of k->state. */
void td_gemm_plan_packed(td_kcall *k, td_gemm *g);
/* Fill a tile of C (computed dtype) with D: rows [r0, r0 + rows), columns [c0, c0 + cols) of matrix i. */
void td_gemm_load_d(const td_gemm *g, void *c, int64_t ldc, int64_t i, int64_t r0, int64_t rows, int64_t c0,
                    int64_t cols);
/* A number given for alpha or beta. */
float td_gemm_scalar(td_scalar s);

#endif
