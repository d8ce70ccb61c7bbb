/* linalg_multi_dot: a product of many matrices, in the order that takes the fewest multiplications.
 *
 * Written by hand over the builder of formula.h, as that order is searched for: the cheapest way to multiply i..j cuts
 * them somewhere, and both parts are multiplied in the cheapest way (S. Godbole, "On efficient computation of matrix
 * chain products", 1973). Invariant: size[i] by size[i + 1] is matrix i, vectors at the ends have become matrices. */
#include "proto/ops/formula.h"

#include "proto/ops/opid.h"
#include <math.h>
#include <string.h>

enum { MOST = 128 };

typedef struct chain {
    td_fx *f;
    td_fval *x;
    int n;
    double size[MOST + 1];
    uint8_t cut[MOST][MOST]; /* the last of the left part */
    double cost[MOST][MOST];
} chain;

static void find_order(chain *c)
{
    for (int i = 0; i < c->n; i++) c->cost[i][i] = 0;
    for (int length = 1; length < c->n; length++)
        for (int i = 0, j = length; j < c->n; i++, j++) {
            c->cost[i][j] = HUGE_VAL;
            for (int k = i; k < j; k++) {
                double cost = c->cost[i][k] + c->cost[k + 1][j] + c->size[i] * c->size[k + 1] * c->size[j + 1];
                if (cost < c->cost[i][j]) c->cost[i][j] = cost, c->cut[i][j] = (uint8_t)k;
            }
        }
}

static td_fval multiply(const chain *c, int i, int j)
{
    if (i == j) return c->x[i];
    int k = c->cut[i][j];
    td_fval parts[2] = {multiply(c, i, k), multiply(c, k + 1, j)};
    return td_fx_op(c->f, TD_OP_MM, 2, parts, NULL);
}

/* Matrix i of the chain, of which only the ends may be vectors. False: the call is refused. */
static bool add_matrix(chain *c, int i, bool *vector)
{
    td_fmeta m = td_fx_meta_item(c->f, i);
    *vector = m.ndim == 1;
    if (m.ndim != 2 && !(*vector && (i == 0 || i == c->n - 1))) {
        td_fx_fail(c->f, TD_E_SHAPE, "tensor %d must be a matrix (the first and the last may be vectors), but is %d-d",
                   i, m.ndim);
        return false;
    }
    double rows = m.ndim == 2 ? (double)m.shape[0] : i ? (double)m.shape[0] : 1;
    if (i && rows != c->size[i]) {
        td_fx_fail(c->f, TD_E_SHAPE, "tensors %d and %d cannot be multiplied (%.0f columns and %.0f rows)", i - 1, i,
                   c->size[i], rows);
        return false;
    }
    c->size[i] = rows;
    c->size[i + 1] = m.ndim == 2 ? (double)m.shape[1] : i ? 1 : (double)m.shape[0];
    if (*vector)
        c->x[i] =
            td_fx_reshape(c->f, c->x[i], (td_fints){2, (int64_t[]){(int64_t)c->size[i], (int64_t)c->size[i + 1]}});
    return true;
}

void td_compose_linalg_multi_dot(td_fx *f)
{
    chain *c = td_fx_alloc(f, sizeof *c);
    td_flist all = td_fx_list(f);
    bool first = false, last = false;
    int64_t shape[2];
    int n = 0;
    if (all.n < 2 || all.n > MOST) {
        td_fx_fail(f, TD_E_INVALID, "2 to %d tensors are multiplied, not %d", MOST, all.n);
        return;
    }
    *c = (chain){.f = f, .n = all.n};
    c->x = td_fx_values(f, all.n);
    memcpy(c->x, all.v, (size_t)all.n * sizeof *c->x);
    for (int i = 0; i < c->n; i++)
        if (!add_matrix(c, i, i ? &last : &first)) return;
    find_order(c);
    td_fval product = multiply(c, 0, c->n - 1);
    if (!first) shape[n++] = (int64_t)c->size[0];
    if (!last) shape[n++] = (int64_t)c->size[c->n];
    f->made.v[0] = n == 2 ? product : td_fx_reshape(f, product, (td_fints){n, shape});
}
