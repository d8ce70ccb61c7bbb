/* Plans of what reads and writes through several index tensors together: index, index_put. */
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/move.h"
#include "daemon/kernels/cuda/plans.h"
#include "daemon/kernels/cuda/walk.h"
#include <string.h>

/* The index tensors' own shape, broadcast, innermost first. */
static int positions(const td_kcall *k, td_ca_index *a, int nidx, td_error *e)
{
    int64_t shape[TD_MAX_DIMS];
    int ndim = 0, count = 0;
    for (int i = 0; i < nidx; i++) {
        const td_karg *idx = &k->in[1 + i];
        if (td_absent(idx)) continue;
        if (!td_is_index_dtype(idx->desc->dtype))
            return td_fail(e, TD_E_TYPE, "%s: an index must be an integer tensor, not %s", k->op->name,
                           td_dtype_name((td_dtype)idx->desc->dtype));
        if (++count > TD_CUDA_INDICES)
            return td_fail(e, TD_E_UNSUPPORTED, "%s has no kernel for CUDA for more than %d index tensors", k->op->name,
                           TD_CUDA_INDICES);
        int rc = td_broadcast(shape, &ndim, idx->desc->shape, idx->desc->ndim, e);
        if (rc) return rc;
    }
    a->n = 1, a->ndim = ndim;
    for (int d = 0; d < ndim; d++) a->n *= a->shape[d] = shape[ndim - 1 - d];
    return TD_OK;
}

/* Dimension i of x has the next index tensor. */
static void add_index(td_ca_index *a, const td_desc *x, const td_karg *idx, int i)
{
    const td_desc *d = idx->desc;
    a->idx[a->count] = idx->data;
    a->idx_dtype[a->count] = d->dtype;
    a->size[a->count] = x->shape[i], a->step[a->count] = x->stride[i];
    for (int j = 0; j < d->ndim; j++)
        a->idx_stride[a->count][j] = d->shape[d->ndim - 1 - j] == 1 ? 0 : d->stride[d->ndim - 1 - j];
    a->count++;
}

/* Kept dimensions stand before the indices only when these are neighbours and not in front. */
static void dimensions(const td_kcall *k, td_ca_index *a, const td_desc *x, int nidx)
{
    bool indexed[TD_MAX_DIMS] = {false};
    int first = -1, last = -1;
    for (int i = 0; i < nidx; i++) {
        if (td_absent(&k->in[1 + i])) continue;
        add_index(a, x, &k->in[1 + i], i);
        indexed[i] = true;
        first = first < 0 ? i : first, last = i;
    }
    bool together = a->count > 0 && last - first == a->count - 1;
    a->before = a->after = 1;
    for (int part = 0; part < 2; part++) /* what stands after, then what stands before */
        for (int d = x->ndim - 1; d >= 0; d--) {
            bool before = together && d < first;
            if (indexed[d] || before != (part == 1)) continue;
            a->kept[a->nkept] = x->shape[d], a->stride[a->nkept++] = x->stride[d];
            *(before ? &a->before : &a->after) *= x->shape[d];
            a->nafter += !before;
        }
}

/* Strides of values, which are broadcast to before x positions x after. */
static void values(td_ca_index *a, const td_desc *v)
{
    int all = a->nkept + a->ndim;
    for (int d = 0; d < all && d < v->ndim; d++) { /* innermost first: after, positions, before */
        int from = v->ndim - 1 - d;
        int64_t stride = v->shape[from] == 1 ? 0 : v->stride[from];
        if (d < a->nafter) a->kept_value[d] = stride;
        else if (d < a->nafter + a->ndim) a->value_stride[d - a->nafter] = stride;
        else a->kept_value[d - a->ndim] = stride;
    }
}

/* Everything but addresses is the same each time; the list is of one launch, or of copy, check and write. */
static void fill(const td_kcall *k, td_ca_index *a, bool puts)
{
    const td_desc *x = puts ? k->out[0].desc : k->in[0].desc;
    int nidx = k->nin - (puts ? 2 : 1);
    td_error none = {0};
    memset(a, 0, sizeof *a);
    positions(k, a, nidx, &none);
    dimensions(k, a, x, nidx);
    a->dtype = x->dtype, a->bytes = (uint8_t)td_dtype_size((td_dtype)x->dtype);
    a->out = k->out[0].data;
    a->x = k->in[puts ? k->nin - 1 : 0].data;
    if (puts) values(a, k->in[k->nin - 1].desc);
}

typedef union notes {
    td_ca_copy copy;
    td_ca_index index;
} notes;
_Static_assert(sizeof(notes) + 32 <= TD_KSTATE_BYTES, "they fit the state");

static void launch(td_cuda_launch *l, unsigned kernel, td_cuda_shape shape, void *args, size_t bytes)
{
    *l = (td_cuda_launch){.kernel = kernel, .bytes = (unsigned)bytes, .args = args};
    memcpy(l->grid, shape.grid, sizeof l->grid);
    memcpy(l->block, shape.block, sizeof l->block);
}

static void make_read(td_kcall *k, void *state, int i, td_cuda_launch *l)
{
    td_ca_index *a = &((notes *)state)->index;
    (void)i;
    fill(k, a, false);
    launch(l, TD_CK_index_read, td_cuda_over(a->before * a->n * a->after), a, sizeof *a);
}

static void make_put(td_kcall *k, void *state, int i, td_cuda_launch *l)
{
    td_ca_index *a = &((notes *)state)->index;
    td_ca_copy *c = &((notes *)state)->copy;
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    if (i == 0) { /* onto itself, in place */
        td_cuda_shape shape;
        td_cuda_dims w;
        td_cuda_dims_of(&w, 2, (const td_desc *const[]){y, x});
        *c = (td_ca_copy){.n = w.n, .ndim = w.ndim, .to_dtype = y->dtype, .from_dtype = x->dtype};
        memcpy(c->shape, w.shape, sizeof c->shape);
        memcpy(c->to_stride, w.stride[0], sizeof c->to_stride);
        memcpy(c->from_stride, w.stride[1], sizeof c->from_stride);
        c->to = k->out[0].data, c->from = k->in[0].data;
        unsigned kernel = td_cuda_copy_kernel(c, true, &shape);
        launch(l, kernel, shape, c, sizeof *c);
        return;
    }
    fill(k, a, true);
    unsigned add = y->dtype == TD_FLOAT64                  ? TD_CK_index_add_f64
                   : td_dtype_is_float((td_dtype)y->dtype) ? TD_CK_index_add_f32
                                                           : TD_CK_index_add_i64;
    if (i == 1) launch(l, TD_CK_index_check, td_cuda_over(a->n), a, sizeof *a);
    else launch(l, td_attr_bool(k->attrs, 0) ? add : TD_CK_index_set, td_cuda_over(a->before * a->after), a, sizeof *a);
}

static int check(const td_kcall *k, td_ca_index *a, bool puts, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    int nidx = k->nin - (puts ? 2 : 1);
    if (nidx > x->ndim)
        return td_fail(e, TD_E_INDEX, "too many indices for tensor of dimension %d (got %d)", x->ndim, nidx);
    memset(a, 0, sizeof *a);
    int rc = positions(k, a, nidx, e);
    if (!rc) fill(k, a, puts);
    return rc;
}

int td_cuda_plan_index(td_kcall *k, td_error *e)
{
    td_ca_index a;
    int rc = check(k, &a, false, e);
    if (rc) return rc;
    td_cuda_made(k, a.before * a.n * a.after > 0, make_read, sizeof(notes));
    return td_cuda_end(k, td_cuda_ns(3 * (double)td_desc_nbytes(k->out[0].desc)), e);
}

int td_cuda_plan_index_put(td_kcall *k, td_error *e)
{
    const td_desc *y = k->out[0].desc, *v = k->in[k->nin - 1].desc;
    td_ca_index a;
    int rc = check(k, &a, true, e);
    if (rc) return rc;
    if (v->dtype != y->dtype)
        return td_fail(e, TD_E_TYPE, "index_put: values are %s, the tensor is %s", td_dtype_name((td_dtype)v->dtype),
                       td_dtype_name((td_dtype)y->dtype));
    if (td_attr_bool(k->attrs, 0) && td_dtype_is_complex((td_dtype)y->dtype)) return td_cuda_refuse(k, y->dtype, e);
    bool some = a.before * a.n * a.after > 0;
    td_cuda_made(k, td_desc_numel(y) ? (some ? 3 : 1) : 0, make_put, sizeof(notes));
    rc = td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(y)) + 1000.0 * (double)a.n, e);
    td_plan_clean_until_here(k); /* all indices are looked at before anything is written */
    return rc;
}
