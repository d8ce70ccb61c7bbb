/* Plans of results that are put together from copies: cat, stack, repeat, flip, roll, constant_pad. The copies are laid
 * out as on the CPU (cpu/layout/assemble.h), a launch each; many plain ones of cat and stack go in one (places.c). */
#include "daemon/kernels/cpu/layout/assemble.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cuda/move.h"
#include "daemon/kernels/cuda/plans.h"
#include <string.h>

typedef struct assembly {
    td_layout_fn lay;
    int64_t part; /* the next one to be laid out */
    int launched;
    td_copy_layout at;
    td_ca_copy copy;
} assembly;
_Static_assert(sizeof(assembly) + 32 <= TD_KSTATE_BYTES, "an assembly fits the state");

/* Dimensions innermost first, those that lie alike on both sides joined. False: there are too many. */
static bool join(td_ca_copy *c, const td_copy_layout *l)
{
    c->n = 1, c->ndim = 0;
    c->to = l->to, c->from = l->from;
    c->to_dtype = (uint8_t)l->to_type, c->from_dtype = (uint8_t)l->from_type;
    for (int i = l->ndim - 1; i >= 0; i--) {
        int m = c->ndim - 1;
        c->n *= l->shape[i];
        if (l->shape[i] == 1) continue;
        if (m >= 0 && l->to_stride[i] == c->to_stride[m] * c->shape[m] &&
            l->from_stride[i] == c->from_stride[m] * c->shape[m]) {
            c->shape[m] *= l->shape[i];
            continue;
        }
        if (c->ndim == TD_MAX_DIMS) return false;
        c->shape[c->ndim] = l->shape[i];
        c->to_stride[c->ndim] = l->to_stride[i];
        c->from_stride[c->ndim++] = l->from_stride[i];
    }
    return true;
}

static void make(td_kcall *k, void *notes, int i, td_cuda_launch *l)
{
    assembly *a = notes;
    td_cuda_shape shape;
    if (i == 0 || i != a->launched) a->part = a->launched = 0, a->at.before = 0;
    do {
        a->lay(k, a->part++, &a->at);
        join(&a->copy, &a->at);
    } while (!a->copy.n || a->launched++ != i);
    if (!a->copy.from) td_scalar_store(k->attrs->at[1].s, (td_dtype)a->copy.to_dtype, a->copy.value);
    unsigned kernel = td_cuda_copy_kernel(&a->copy, a->copy.from != NULL, &shape);
    *l = (td_cuda_launch){.kernel = kernel, .bytes = sizeof a->copy, .args = &a->copy};
    memcpy(l->grid, shape.grid, sizeof l->grid);
    memcpy(l->block, shape.block, sizeof l->block);
}

static int plan(td_kcall *k, td_layout_fn lay, int64_t parts, td_error *e)
{
    td_copy_layout at = {.before = 0};
    td_ca_copy copy;
    int launches = 0;
    for (int64_t part = 0; part < parts; part++) {
        lay(k, part, &at);
        if (!join(&copy, &at))
            return td_fail(e, TD_E_UNSUPPORTED, "%s has no kernel for CUDA for so many dimensions", k->op->name);
        launches += copy.n > 0;
    }
    assembly *a = td_cuda_made(k, launches, make, sizeof *a);
    a->lay = lay;
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(k->out[0].desc)), e);
}

static int nothing(td_kcall *k, td_error *e)
{
    td_cuda_begin(k);
    return td_cuda_end(k, 0, e);
}

int td_cuda_plan_cat(td_kcall *k, td_error *e)
{
    int dim = td_wrapped(td_attr_int(k->attrs, 0), k->out[0].desc->ndim);
    return td_cuda_are_plain(k) ? td_cuda_plan_parts(k, dim, false, e) : plan(k, td_lay_cat, k->nin, e);
}

int td_cuda_plan_stack(td_kcall *k, td_error *e)
{
    int dim = td_wrapped(td_attr_int(k->attrs, 0), k->out[0].desc->ndim);
    return td_cuda_are_plain(k) ? td_cuda_plan_parts(k, dim, true, e) : plan(k, td_lay_stack, k->nin, e);
}

int td_cuda_plan_repeat(td_kcall *k, td_error *e)
{
    return plan(k, td_lay_repeat, 1, e);
}

int td_cuda_plan_flip(td_kcall *k, td_error *e)
{
    return td_desc_numel(k->out[0].desc) ? plan(k, td_lay_flip, 1, e) : nothing(k, e);
}

/* ---- roll without dimensions: what has gaps is first laid row by row in work memory */

static void lay_gathered(const td_kcall *k, int64_t part, td_copy_layout *l)
{
    if (part) {
        td_lay_roll_flat(k, part - 1, l);
        l->from = (char *)k->work + (l->from - (char *)k->in[0].data);
        return;
    }
    int64_t width = 1;
    td_layout_whole(k, 0, l);
    l->to = k->work;
    for (int i = l->ndim - 1; i >= 0; i--) {
        l->to_stride[i] = width;
        width *= l->shape[i];
    }
}

int td_cuda_plan_roll(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    int ndims;
    td_attr_ints(k->attrs, 1, &ndims);
    if (!td_desc_numel(x)) return nothing(k, e);
    if (ndims) return plan(k, td_lay_roll, (int64_t)1 << x->ndim, e);
    if (!td_desc_is_contiguous(k->out[0].desc)) return td_plan_wants_rows(k);
    if (td_desc_is_contiguous(x)) return plan(k, td_lay_roll_flat, 2, e);
    td_cuda_work(k, (size_t)td_desc_numel(x) * td_dtype_size((td_dtype)x->dtype));
    return plan(k, lay_gathered, 3, e);
}

/* ---- constant_pad: the whole is filled, and what is left of the source laid over it */

static void lay_padded(const td_kcall *k, int64_t part, td_copy_layout *l)
{
    const td_desc *y = k->out[0].desc;
    td_lay_pad(k, 0, l);
    if (part) return;
    l->from = NULL;
    l->from_type = l->to_type;
    l->to = k->out[0].data;
    for (int i = 0; i < y->ndim; i++) l->shape[i] = y->shape[i];
}

int td_cuda_plan_constant_pad(td_kcall *k, td_error *e)
{
    return td_desc_numel(k->out[0].desc) ? plan(k, lay_padded, 2, e) : nothing(k, e);
}
