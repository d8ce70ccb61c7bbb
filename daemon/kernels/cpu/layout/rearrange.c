/* The same elements at other places of one tensor: repeat, flip, roll, constant_pad, as copies of parts (assemble.h).
 */
#include "daemon/kernels/cpu/layout/assemble.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/plans.h"
#include <string.h>

/* ---- repeat: each dimension becomes two, the outer one with source stride 0 */

void td_lay_repeat(const td_kcall *k, int64_t part, td_copy_layout *l)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    int n, lead = y->ndim - x->ndim;
    const int64_t *repeats = td_attr_ints(k->attrs, 0, &n);
    (void)part;
    td_layout_whole(k, 0, l);
    l->ndim = 2 * y->ndim;
    for (int i = 0; i < y->ndim; i++) {
        int64_t size = i < lead ? 1 : x->shape[i - lead];
        l->shape[2 * i] = repeats[i];
        l->to_stride[2 * i] = y->stride[i] * size;
        l->from_stride[2 * i] = 0;
        l->shape[2 * i + 1] = size;
        l->to_stride[2 * i + 1] = y->stride[i];
        l->from_stride[2 * i + 1] = i < lead ? 0 : x->stride[i - lead];
    }
}

int td_cpu_plan_repeat(td_kcall *k, td_error *e)
{
    (void)e;
    td_assemble_plan(k, td_lay_repeat, 1, 0);
    return TD_OK;
}

/* ---- flip: the source is read backwards */

void td_lay_flip(const td_kcall *k, int64_t part, td_copy_layout *l)
{
    int n;
    const int64_t *dims = td_attr_ints(k->attrs, 0, &n);
    (void)part;
    td_layout_whole(k, 0, l);
    for (int i = 0; i < n && l->ndim; i++) {
        int d = td_wrapped(dims[i], l->ndim);
        l->from = td_layout_move(l->from, (l->shape[d] - 1) * l->from_stride[d], l->from_type);
        l->from_stride[d] = -l->from_stride[d];
    }
}

int td_cpu_plan_flip(td_kcall *k, td_error *e)
{
    (void)e;
    if (td_desc_numel(k->out[0].desc) > 0) td_assemble_plan(k, td_lay_flip, 1, 0);
    return TD_OK;
}

/* ---- roll: a rolled dimension is two copies, the front and the back; part's bits say which */

static int64_t shift_of(const td_kcall *k, int dim, int64_t size)
{
    int n, m;
    const int64_t *shifts = td_attr_ints(k->attrs, 0, &n), *dims = td_attr_ints(k->attrs, 1, &m);
    int64_t shift = 0;
    for (int i = 0; i < m; i++)
        if (td_wrapped(dims[i], k->in[0].desc->ndim) == dim) shift = (shift + shifts[i] % size) % size;
    return (shift + size) % size;
}

void td_lay_roll(const td_kcall *k, int64_t part, td_copy_layout *l)
{
    td_layout_whole(k, 0, l);
    for (int d = 0; d < l->ndim; d++) {
        int64_t size = l->shape[d], shift = shift_of(k, d, size);
        if (part >> d & 1) { /* the last `shift` elements come first */
            l->shape[d] = shift;
            l->from = td_layout_move(l->from, (size - shift) * l->from_stride[d], l->from_type);
        } else {
            l->shape[d] = size - shift;
            l->to = td_layout_move(l->to, shift * l->to_stride[d], l->to_type);
        }
    }
}

/* Without dimensions the tensor counts as flat: two runs of a contiguous one, any other element by element. */
void td_lay_roll_flat(const td_kcall *k, int64_t part, td_copy_layout *l)
{
    int n;
    int64_t size = td_desc_numel(k->in[0].desc), shift = td_attr_ints(k->attrs, 0, &n)[0] % size;
    shift = (shift + size) % size;
    td_layout_whole(k, 0, l);
    l->ndim = 1;
    l->to_stride[0] = l->from_stride[0] = 1;
    l->shape[0] = part ? shift : size - shift;
    if (part) l->from = td_layout_move(l->from, size - shift, l->from_type);
    else l->to = td_layout_move(l->to, shift, l->to_type);
}

static void roll_any_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *x = k->in[0].desc;
    int n;
    int64_t size = (int64_t)td_dtype_size(x->dtype), numel = td_desc_numel(x);
    int64_t shift = td_attr_ints(k->attrs, 0, &n)[0] % numel;
    (void)chunk, (void)scratch;
    shift = (shift + numel) % numel;
    for (int64_t i = 0; i < numel; i++) {
        int64_t rest = i, at = 0, to = (i + shift) % numel;
        for (int d = x->ndim - 1; d >= 0; d--) {
            at += rest % x->shape[d] * x->stride[d];
            rest /= x->shape[d];
        }
        memcpy((char *)k->out[0].data + to * size, (char *)k->in[0].data + at * size, (size_t)size);
    }
}

int td_cpu_plan_roll(td_kcall *k, td_error *e)
{
    int m;
    (void)e;
    td_attr_ints(k->attrs, 1, &m);
    if (td_desc_numel(k->out[0].desc) == 0) return TD_OK;
    if (m > 0) {
        td_assemble_plan(k, td_lay_roll, (int64_t)1 << k->in[0].desc->ndim, 0);
    } else if (td_desc_is_contiguous(k->in[0].desc)) {
        td_assemble_plan(k, td_lay_roll_flat, 2, 0);
    } else {
        k->phase[0].fn = roll_any_chunk;
        k->phase[0].chunks = k->nphases = 1;
        k->cost_ns = 30 + 5.0 * (double)td_desc_numel(k->out[0].desc);
        td_plan_moves_freely(k, 0);
    }
    return TD_OK;
}

/* ---- constant_pad: the whole is filled first, then what is left of the source is laid over it */

void td_lay_pad(const td_kcall *k, int64_t part, td_copy_layout *l)
{
    int n;
    const int64_t *pad = td_attr_ints(k->attrs, 0, &n);
    (void)part;
    td_layout_whole(k, 0, l);
    for (int i = 0; i < n / 2; i++) {
        int d = l->ndim - 1 - i;
        int64_t before = td_max64(pad[2 * i], -l->shape[d]), after = td_max64(pad[2 * i + 1], -l->shape[d]);
        if (before > 0) l->to = td_layout_move(l->to, before * l->to_stride[d], l->to_type);
        else l->from = td_layout_move(l->from, -before * l->from_stride[d], l->from_type);
        l->shape[d] += (before < 0 ? before : 0) + (after < 0 ? after : 0);
        if (l->shape[d] < 0) l->shape[d] = 0;
    }
}

static void pad_fill_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *y = k->out[0].desc;
    int64_t size = (int64_t)td_dtype_size(y->dtype), per = TD_PAD_FILL_BYTES / size, from = chunk * per,
            numel = td_desc_numel(y);
    _Alignas(16) unsigned char value[16];
    (void)scratch;
    td_scalar_store(k->attrs->at[1].s, y->dtype, value);
    td_fill((char *)k->out[0].data + from * size, value, numel - from < per ? numel - from : per, (int)size);
}

int td_cpu_plan_constant_pad(td_kcall *k, td_error *e)
{
    (void)e;
    int64_t numel = td_desc_numel(k->out[0].desc),
            per = TD_PAD_FILL_BYTES / (int64_t)td_dtype_size(k->out[0].desc->dtype);
    if (numel == 0) return TD_OK;
    if (!td_desc_is_dense(k->out[0].desc)) return td_plan_wants_rows(k); /* what is filled is one block */
    k->phase[0].fn = pad_fill_chunk;
    k->phase[0].chunks = (numel + per - 1) / per;
    td_assemble_plan(k, td_lay_pad, 1, 1);
    return TD_OK;
}
