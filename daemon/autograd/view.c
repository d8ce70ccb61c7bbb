/* A view as part of its base, by its geometry: the graph's nodes for it, and the view of a gradient that lies as the
 * base does. Where one is complex and the other real, the way leads by all numbers of the base in pairs. */
#include "daemon/autograd/node.h"
#include "proto/ops/opid.h"

static bool is_complex(const td_desc *d)
{
    return td_dtype_is_complex((td_dtype)d->dtype);
}

static bool crosses(const td_desc *view, const td_desc *base)
{
    return is_complex(view) != is_complex(base);
}

int td_view_check(const td_desc *view, const td_desc *base, td_error *e)
{
    if (!crosses(view, base)) return 0;
    if (td_desc_is_dense(base) && (is_complex(base) || base->offset % 2 == 0)) return 0;
    return td_fail(e, TD_E_AUTOGRAD,
                   "the gradient of complex numbers and their parts over the same memory wants a base without gaps or "
                   "overlaps, at an even offset; clone() the base first");
}

/* All numbers of a dense base as they follow each other in memory: complex ones, or pairs of real ones. */
static td_desc all_of(const td_desc *base)
{
    td_desc all = {.dtype = base->dtype, .device = base->device, .offset = base->offset};
    int64_t n = td_desc_numel(base);
    all.ndim = is_complex(base) ? 1 : 2;
    all.shape[0] = is_complex(base) ? n : n / 2;
    all.stride[0] = all.ndim;
    if (all.ndim == 2) all.shape[1] = 2, all.stride[1] = 1;
    return all;
}

/* The same memory in numbers of the other sort. */
static td_desc other_of(const td_desc *all)
{
    td_desc other = *all;
    td_dtype t = (td_dtype)all->dtype;
    bool parts = is_complex(all);
    other.dtype = (uint8_t)(parts ? td_dtype_real(t) : td_dtype_complex(t));
    other.offset = parts ? all->offset * 2 : all->offset / 2;
    other.ndim = parts ? 2 : 1;
    other.stride[0] = other.ndim;
    if (parts) other.shape[1] = 2, other.stride[1] = 1;
    return other;
}

static unsigned crossing(const td_desc *all)
{
    return is_complex(all) ? TD_OP_VIEW_AS_REAL : TD_OP_VIEW_AS_COMPLEX;
}

static void strided_attrs(td_attrs *a, const td_desc *d, int64_t origin)
{
    td_attrs_init(a);
    td_attrs_ints(a, d->ndim, d->shape);
    td_attrs_ints(a, d->ndim, d->stride);
    td_attrs_int(a, d->offset - origin);
}

/* ---- nodes */

/* `*at` becomes the edge to a node that leads there: its op makes `to` of `from`. */
static int add_node(td_account *account, unsigned id, const td_attrs *a, const td_desc *from, const td_desc *to,
                    td_edge *at, td_error *e)
{
    const td_op *op = td_op_by_id(id);
    td_node_size z = {.nin = 1, .nout = 1, .nattrs = a ? (int)td_attrs_words(op, a) : 0, .shapes = true};
    z.nints = to->ndim + 2u * from->ndim + 1;
    td_node *n = td_node_new(&z, account, e);
    if (!n) return e && e->code ? e->code : TD_E_SYSTEM;
    n->op = op->id;
    n->given[0] = true;
    if (a) td_attrs_encode(op, a, n->attrs);
    td_node_put_shape(n, &n->outs[0], 0, to, false);
    td_node_put_shape(n, &n->shapes[0], to->ndim, from, true);
    n->edges[0] = *at;
    *at = (td_edge){n, 0};
    return 0;
}

static int add_strided(td_account *account, const td_desc *from, const td_desc *to, td_edge *at, td_error *e)
{
    td_attrs a;
    strided_attrs(&a, to, 0);
    return add_node(account, TD_OP_AS_STRIDED, &a, from, to, at, e);
}

int td_view_node(td_tensor *view, const td_desc *base, td_edge at, td_node **out, td_error *e)
{
    td_desc all = all_of(base), from = *base;
    int rc = td_view_check(&view->desc, base, e);
    if (!rc && crosses(&view->desc, base)) {
        from = other_of(&all);
        rc = add_strided(view->account, base, &all, &at, e);
        if (!rc) rc = add_node(view->account, crossing(&all), NULL, &all, &from, &at, e);
    }
    if (!rc) rc = add_strided(view->account, &from, &view->desc, &at, e);
    *out = at.node;
    if (!rc) return 0;
    td_node_unref(at.node);
    *out = NULL;
    return rc;
}

/* ---- gradients */

static int strided(td_eval *v, td_tensor *of, const td_desc *d, int64_t origin, td_tensor **out, td_error *e)
{
    td_attrs a;
    td_input in = td_in(of);
    strided_attrs(&a, d, origin);
    return td_eval_op(v, TD_OP_AS_STRIDED, 1, &in, &a, 1, out, e);
}

int td_view_of(td_eval *v, td_tensor *whole, const td_desc *base, const td_desc *view, td_tensor **out, td_error *e)
{
    if (!crosses(view, base)) return strided(v, whole, view, base->offset, out, e);
    td_desc all = all_of(base), other = other_of(&all);
    int rc = strided(v, whole, &all, base->offset, out, e);
    td_input in = td_in(rc ? NULL : *out);
    if (!rc) rc = td_eval_op(v, crossing(&all), 1, &in, NULL, 1, out, e);
    return rc ? rc : strided(v, *out, view, other.offset, out, e);
}
