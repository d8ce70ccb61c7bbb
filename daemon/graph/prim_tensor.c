/* What a tensor is, which needs no waiting; and what is in it, which may. */
#include "daemon/graph/run.h"
#include "proto/base/dtype.h"

static int give_ints(td_prim_call *c, int n, const int64_t *v)
{
    int rc = td_val_box(c->purse, TD_T_LIST, (uint32_t)n, c->out, c->e);
    for (int k = 0; k < n && !rc; k++) c->out->box->items[k] = td_val_int(v[k]);
    return rc;
}

static const td_desc *desc_of(const td_prim_call *c)
{
    return &c->in[0]->tensor->desc;
}

static int size(td_prim_call *c)
{
    const td_desc *d = desc_of(c);
    int64_t dim = c->in[1]->i, at = dim < 0 ? dim + d->ndim : dim;
    if (at < 0 || at >= d->ndim)
        return td_fail(c->e, TD_E_INVALID, "dimension %lld of a tensor of %d dimensions", (long long)dim, d->ndim);
    return td_prim_int(c, d->shape[at]);
}

static int shape(td_prim_call *c)
{
    return give_ints(c, desc_of(c)->ndim, desc_of(c)->shape);
}

static int stride(td_prim_call *c)
{
    return give_ints(c, desc_of(c)->ndim, desc_of(c)->stride);
}

static int ndim(td_prim_call *c)
{
    return td_prim_int(c, desc_of(c)->ndim);
}

static int numel(td_prim_call *c)
{
    return td_prim_int(c, td_desc_numel(desc_of(c)));
}

static int dtype(td_prim_call *c)
{
    c->out[0] = (td_val){.kind = TD_T_DTYPE, .i = desc_of(c)->dtype};
    return TD_OK;
}

static int device(td_prim_call *c)
{
    c->out[0] = (td_val){.kind = TD_T_DEVICE, .i = desc_of(c)->device};
    return TD_OK;
}

static int requires_grad(td_prim_call *c)
{
    return td_prim_bool(c, td_requires_grad(c->in[0]->tensor));
}

static int is_floating_point(td_prim_call *c)
{
    td_dtype t = (td_dtype)c->in[0]->i;
    return td_prim_bool(c, td_dtype_is_inexact(t) && !td_dtype_is_complex(t));
}

static int is_complex(td_prim_call *c)
{
    return td_prim_bool(c, td_dtype_is_complex((td_dtype)c->in[0]->i));
}

/* ---- its one element */

static int item_float(td_prim_call *c)
{
    td_scalar s;
    int rc = td_exec_item(c->run, c->in[0]->tensor, &s, c->e);
    if (rc) return rc;
    if (s.kind == TD_S_COMPLEX && s.im != 0)
        return td_fail(c->e, TD_E_INVALID, "the value has an imaginary part; it is no float");
    return td_prim_float(c, s.kind <= TD_S_INT ? (double)s.i : s.re);
}

static int item_int(td_prim_call *c)
{
    td_scalar s;
    int rc = td_exec_item(c->run, c->in[0]->tensor, &s, c->e);
    if (rc) return rc;
    if (s.kind <= TD_S_INT) return td_prim_int(c, s.i);
    if ((s.kind == TD_S_COMPLEX && s.im != 0) || !(s.re >= -9223372036854775808.0 && s.re < 9223372036854775808.0))
        return td_fail(c->e, TD_E_INVALID, "the value %g does not fit into an int", s.re);
    return td_prim_int(c, (int64_t)s.re);
}

static int item_bool(td_prim_call *c)
{
    td_scalar s;
    int rc = td_exec_item(c->run, c->in[0]->tensor, &s, c->e);
    if (rc) return rc;
    return td_prim_bool(c, s.kind <= TD_S_INT ? s.i != 0 : s.re != 0 || (s.kind == TD_S_COMPLEX && s.im != 0));
}

static int item_complex(td_prim_call *c)
{
    td_scalar s;
    int rc = td_exec_item(c->run, c->in[0]->tensor, &s, c->e);
    if (rc) return rc;
    bool whole = s.kind <= TD_S_INT;
    c->out[0] =
        (td_val){.kind = TD_T_COMPLEX, .re = whole ? (double)s.i : s.re, .im = s.kind == TD_S_COMPLEX ? s.im : 0};
    return TD_OK;
}

td_prim_fn *const td_prims_tensor[TD_PRIM_COUNT] = {
    [TD_PRIM_ITEM_INT] = item_int,
    [TD_PRIM_ITEM_FLOAT] = item_float,
    [TD_PRIM_ITEM_BOOL] = item_bool,
    [TD_PRIM_ITEM_COMPLEX] = item_complex,
    [TD_PRIM_SIZE_DIM] = size,
    [TD_PRIM_SHAPE] = shape,
    [TD_PRIM_STRIDE] = stride,
    [TD_PRIM_NDIM] = ndim,
    [TD_PRIM_NUMEL] = numel,
    [TD_PRIM_DTYPE] = dtype,
    [TD_PRIM_DEVICE] = device,
    [TD_PRIM_REQUIRES_GRAD] = requires_grad,
    [TD_PRIM_IS_FLOATING_POINT] = is_floating_point,
    [TD_PRIM_IS_COMPLEX] = is_complex,
};
