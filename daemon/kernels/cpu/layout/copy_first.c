/* See copy_first.h. */
#include "daemon/kernels/cpu/layout/copy_first.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/walk.h"

static int64_t per_chunk(const td_kcall *k)
{
    return TD_COPY_BYTES / (int64_t)td_dtype_size(k->out[0].desc->dtype);
}

static void copy_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    int64_t b, e;
    (void)scratch;
    if (atomic_load(&k->failed)) return;
    td_cut_range(td_desc_numel(y), per_chunk(k), chunk, &b, &e);
    td_copy_strided(y->ndim, y->shape, k->out[0].data, y->stride, k->in[0].data, x->stride, td_dtype_size(y->dtype), b,
                    e - b);
}

bool td_in_place(const td_kcall *k)
{
    return k->out[0].data == k->in[0].data;
}

void td_plan_copy_first(td_kcall *k)
{
    if (td_in_place(k)) return;
    int64_t n = td_desc_numel(k->out[0].desc);
    td_plan_phase(k, copy_chunk, td_cut(n, per_chunk(k)));
    k->cost_ns += td_move_ns(2 * (double)n * (double)td_dtype_size(k->out[0].desc->dtype));
}
