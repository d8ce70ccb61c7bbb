/* Small products of float and double. See product.h. */
#include "daemon/kernels/cpu/vec/product.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include <string.h>

#if TD_ISA_LEVEL == 2
#define BYTES 64
#elif TD_ISA_LEVEL == 1
#define BYTES 32
#else
#define BYTES 16
#endif

void TD_ISA_NAME(td_transpose)(void *to, int64_t to_stride, const void *from, int64_t from_stride, int rows, int64_t cols,
                               int size);

#define T float
#define S f32
#include "daemon/kernels/cpu/vec/product_tile.h"
#define T double
#define S f64
#include "daemon/kernels/cpu/vec/product_tile.h"

extern const td_products TD_ISA_NAME(td_product);
const td_products TD_ISA_NAME(td_product) = {{COLS_f32, pack_f32, block_f32}, {COLS_f64, pack_f64, block_f64}};
