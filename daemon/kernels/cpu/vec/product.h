/* Small products: panels of B packed by K, and tiles of C that stay in registers, over rows of A wherever they lie.
 *
 * What a library's call costs before it multiplies is more than a step of a recurrent layer or a tile of an attention
 * takes. One element's sums run over K in order, in one accumulator for each block of TD_PRODUCT_K. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_PRODUCT_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* Lines of numbers: line r begins at `at` + (r / per) outer + (r % per) inner, counted from `first`; `step` leads along it.
 * All in elements. */
typedef struct td_operand_lines {
    const void *at;
    int64_t per, outer, inner, step, first;
} td_operand_lines;

typedef struct td_product_fns {
    int cols; /* of a panel */
    /* to[p * cols + j] = b(p0 + p, j0 + j), zero where j is `width` or more. Lines of b are its rows, or when `turned`
     * its columns. */
    void (*pack)(int64_t width, int64_t depth, const td_operand_lines *b, bool turned, int64_t j0, int64_t p0, void *to);
    /* c (m rows, `width` columns) = or += lines of a from p0 on, times the panel. */
    void (*block)(int64_t m, int64_t width, int64_t depth, const td_operand_lines *a, int64_t p0, const void *panel, void *c,
                  int64_t ldc, bool add);
} td_product_fns;

typedef struct td_products {
    td_product_fns f32, f64;
} td_products;

#endif
