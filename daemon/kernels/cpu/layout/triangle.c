/* tril and triu: each row of a matrix is copied up to a column, or from it, and the rest is zero. */
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/plans.h"
#include <string.h>

static int64_t rows_per_chunk(int64_t cols)
{
    return cols < TD_TRIANGLE_CHUNK ? TD_TRIANGLE_CHUNK / cols : 1;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Row `row` of all matrices, counted through: columns [from, to) are kept. */
static void triangle_row(td_kcall *k, int64_t row, bool lower)
{
    const td_desc *x = k->in[0].desc;
    int nd = x->ndim;
    int64_t rows = x->shape[nd - 2], cols = x->shape[nd - 1], size = (int64_t)td_dtype_size(x->dtype), i = row % rows;
    int64_t diagonal = clamp(td_attr_int(k->attrs, 0), -rows - 1, cols + 1);
    int64_t from = lower ? 0 : clamp(i + diagonal, 0, cols), to = lower ? clamp(i + diagonal + 1, 0, cols) : cols;
    int64_t at = i * x->stride[nd - 2], rest = row / rows;
    for (int d = nd - 3; d >= 0; d--) {
        at += rest % x->shape[d] * x->stride[d];
        rest /= x->shape[d];
    }
    char *out = (char *)k->out[0].data + row * cols * size;
    const char *in = (const char *)k->in[0].data + at * size;
    memset(out, 0, (size_t)(from * size));
    if (to > from)
        td_gather(out + from * size, in + from * x->stride[nd - 1] * size, 1, to - from, 0, x->stride[nd - 1] * size,
                  (int)size);
    memset(out + to * size, 0, (size_t)((cols - to) * size));
}

static void triangle_chunk(td_kcall *k, int64_t chunk, bool lower)
{
    const td_desc *x = k->in[0].desc;
    int64_t cols = x->shape[x->ndim - 1], per = rows_per_chunk(cols), all = td_desc_numel(x) / cols;
    for (int64_t row = chunk * per; row < all && row < (chunk + 1) * per; row++) triangle_row(k, row, lower);
}

static void tril_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)scratch;
    triangle_chunk(k, chunk, true);
}

static void triu_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)scratch;
    triangle_chunk(k, chunk, false);
}

static int plan(td_kcall *k, td_chunk_fn fn)
{
    const td_desc *x = k->in[0].desc;
    int64_t numel = td_desc_numel(x);
    if (numel == 0) return TD_OK;
    int64_t cols = x->shape[x->ndim - 1], per = rows_per_chunk(cols);
    k->phase[0].fn = fn;
    k->phase[0].chunks = (numel / cols + per - 1) / per;
    k->nphases = 1;
    k->cost_ns = 30 + 0.3 * (double)numel;
    k->sure = true;
    td_plan_moves_freely(k, 0);
    return TD_OK;
}

int td_cpu_plan_tril(td_kcall *k, td_error *e)
{
    (void)e;
    return plan(k, tril_chunk);
}

int td_cpu_plan_triu(td_kcall *k, td_error *e)
{
    (void)e;
    return plan(k, triu_chunk);
}
