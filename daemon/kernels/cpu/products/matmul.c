/* mm, bmm, addmm, linear: each describes its matrices to the GEMM engine and is done. */
#include "daemon/kernels/cpu/products/gemm.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/plans.h"

static td_gemm_mat matrix(const td_karg *x, int row_dim)
{
    const td_desc *d = x->desc;
    return (td_gemm_mat){.data = x->data,
                         .rs = d->stride[row_dim],
                         .cs = d->stride[row_dim + 1],
                         .bs = row_dim > 0 && d->shape[0] > 1 ? d->stride[0] : 0};
}

static td_gemm product(const td_kcall *k, int first, int row_dim)
{
    const td_desc *x = k->in[first].desc, *y = k->in[first + 1].desc;
    return (td_gemm){.dtype = x->dtype,
                     .in_a = (uint8_t)(first + 1),
                     .in_b = (uint8_t)(first + 2),
                     .batch = row_dim ? x->shape[0] : 1,
                     .m = x->shape[row_dim],
                     .n = y->shape[row_dim + 1],
                     .k = x->shape[row_dim + 1],
                     .a = matrix(&k->in[first], row_dim),
                     .b = matrix(&k->in[first + 1], row_dim),
                     .c = k->out[0].data,
                     .alpha = td_int(1),
                     .beta = td_int(0)};
}

int td_cpu_plan_mm(td_kcall *k, td_error *e)
{
    td_gemm g = product(k, 0, 0);
    return td_gemm_plan(k, &g, "mm", e);
}

int td_cpu_plan_bmm(td_kcall *k, td_error *e)
{
    td_gemm g = product(k, 0, 1);
    return td_gemm_plan(k, &g, "bmm", e);
}

static bool is_zero(td_scalar s)
{
    return s.kind == TD_S_BOOL || s.kind == TD_S_INT ? s.i == 0 : s.re == 0 && (s.kind != TD_S_COMPLEX || s.im == 0);
}

/* `x` broadcast to rows x cols, as the matrix to begin with. */
static td_gemm_mat broadcast(const td_karg *x)
{
    const td_desc *d = x->desc;
    td_gemm_mat m = {.data = x->data};
    if (d->ndim >= 1 && d->shape[d->ndim - 1] != 1) m.cs = d->stride[d->ndim - 1];
    if (d->ndim >= 2 && d->shape[d->ndim - 2] != 1) m.rs = d->stride[d->ndim - 2];
    return m;
}

int td_cpu_plan_addmm(td_kcall *k, td_error *e)
{
    td_gemm g = product(k, 1, 0);
    g.beta = k->attrs->at[0].s;
    g.alpha = k->attrs->at[1].s;
    g.d = broadcast(&k->in[0]);
    g.in_d = 1;
    g.has_d = !is_zero(g.beta);
    return td_gemm_plan(k, &g, "addmm", e);
}

/* Leading dimensions of x as one dimension of rows, when their strides allow it. */
static bool rows_of(const td_desc *x, int64_t *stride)
{
    *stride = x->ndim >= 2 ? x->stride[x->ndim - 2] : 0;
    int last = x->ndim - 2; /* the innermost dimension of rows that is longer than 1 */
    while (last > 0 && x->shape[last] == 1) *stride = x->stride[--last];
    int64_t expect = last >= 0 ? x->stride[last] * x->shape[last] : 0;
    for (int d = last - 1; d >= 0; d--) {
        if (x->shape[d] == 1) continue;
        if (x->stride[d] != expect) return false;
        expect *= x->shape[d];
    }
    return true;
}

/* x[..., K] times w[N, K] transposed, plus b[N]. w may be one row [K]; then out has no last dimension. */
int td_cpu_plan_linear(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *w = k->in[1].desc;
    int64_t K = x->ndim ? x->shape[x->ndim - 1] : 1, rows = 1;
    for (int d = 0; d < x->ndim - 1; d++) rows *= x->shape[d];
    td_gemm g = {.dtype = x->dtype,
                 .in_a = 1,
                 .in_b = 2,
                 .batch = 1,
                 .m = rows,
                 .n = w->ndim == 2 ? w->shape[0] : 1,
                 .k = K,
                 .c = k->out[0].data,
                 .alpha = td_int(1),
                 .beta = td_int(1)};
    g.b = (td_gemm_mat){.data = k->in[1].data, .rs = w->stride[w->ndim - 1], .cs = w->ndim == 2 ? w->stride[0] : 1};
    if (k->nin > 2 && k->in[2].data) {
        g.has_d = 1;
        g.d = broadcast(&k->in[2]);
        g.in_d = 3;
    }
    g.a = (td_gemm_mat){.data = k->in[0].data, .cs = x->ndim ? x->stride[x->ndim - 1] : 1};
    if (!rows_of(x, &g.a.rs)) g.a.rows = x;
    return td_gemm_plan(k, &g, "linear", e);
}
