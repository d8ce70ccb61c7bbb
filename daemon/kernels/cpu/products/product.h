/* Small products on one thread, that rest: what kernels multiply with that go step by step or tile by tile. The inner
 * loops are in vec/product.c. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_PRODUCTS_PRODUCT_H
#define TENSORD_DAEMON_KERNELS_CPU_PRODUCTS_PRODUCT_H

#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/vec/product.h"

typedef struct td_product {
    bool wide; /* of doubles, not floats */
    bool turned, add;
    int64_t m, n, k, ldc;
    td_operand_lines a, b;      /* rows of A; of B rows, or columns when it is turned */
    const void *packed; /* B's panels, when they are packed; else each is packed in `room` */
    void *room;         /* td_product_room bytes */
    void *turn;         /* set: room for m lines of TD_PRODUCT_K; A's lines are turned there first (its lines lie side by
                         * side) */
    void *c;
} td_product;

/* True: the call is over, return at once. */
bool td_product_run(td_kcall *k, const td_product *p);

/* Columns of a panel, bytes of one panel's room, elements of all panels. */
int64_t td_product_cols(bool wide);
size_t td_product_room(bool wide);
int64_t td_product_packed(bool wide, int64_t n, int64_t k);
/* Panels [b, e) of B into `to`, where all of them are. */
void td_product_pack(const td_product *p, int64_t b, int64_t e, void *to);

/* All elements of a line of `n` sides: lines that lie evenly. */
static inline td_operand_lines td_even_lines(const void *at, int64_t inner, int64_t step)
{
    return (td_operand_lines){at, INT64_MAX, 0, inner, step, 0};
}

#endif
