/* Many elements added up in few places along a single dimension: a histogram. They are cut into pieces that have places
 * of their own, which are added to the target in order; the cut follows from their number alone. Pieces check their
 * indices, and nothing is written to the target before all have. What is counted (one integer added everywhere) goes to
 * four places in turn, so that equal neighbours do not wait for each other. */
#include "daemon/kernels/cpu/layout/copy_first.h"
#include "daemon/kernels/cpu/places/index_load.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/places/scatter.h"

#define TURNS 4

static int64_t piece_bytes(const td_kcall *k, const td_scatter *s)
{
    return s->limit * (int64_t)td_dtype_size(k->out[0].desc->dtype);
}

static void count(uint32_t *restrict counts, const int64_t *restrict offset, int64_t n)
{
    for (int64_t i = 0; i < n; i++) counts[offset[i] + i % TURNS]++;
}

static void piece_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_scatter *s = (const td_scatter *)k->state;
    const td_desc *idx = k->in[1].desc, *src = k->in[2].desc;
    unsigned dtype = k->out[0].desc->dtype;
    const int64_t size = (int64_t)td_dtype_size(dtype),
                  istep = idx->stride[s->dim] * (int64_t)td_dtype_size(idx->dtype),
                  from = s->number || !src->ndim ? 0 : src->stride[s->dim] * size;
    int64_t b, e, offset[TD_INDEX_BLOCK], bad = 0, done = 0;
    char number[16], *own = (char *)k->work + s->own + chunk * piece_bytes(k, s);
    if (atomic_load(&k->failed)) return;
    const char *source = td_scatter_source(k, s, number);
    memset(own, 0, (size_t)piece_bytes(k, s));
    if (s->counts) memset(scratch, 0, (size_t)s->limit * TURNS * sizeof(uint32_t));
    td_cut_range(idx->shape[s->dim], s->per, chunk, &b, &e);
    const td_index_load load = {.dtype = idx->dtype, .limit = s->limit, .unit = s->counts ? TURNS : size};
    for (int64_t n; b < e; b += n) {
        n = td_min64(TD_INDEX_BLOCK, e - b);
        int64_t good = td_load_offsets(&load, offset, (const char *)k->in[1].data + b * istep, istep, n, &bad);
        if (good < n) {
            td_fail_index(k, bad, b + good, s->dim, s->limit);
            return;
        }
        td_walk_at at = {.run = n};
        at.p[0] = own;
        at.p[1] = (char *)offset;
        at.p[2] = (char *)source + b * from;
        if (s->counts) count(scratch, offset, n);
        else td_scatter_some(s, dtype, &at, (int64_t[3]){0, 8, from});
        if (td_kernel_rest_after(k, &done, n)) return;
    }
    if (!s->counts) return;
    const uint64_t each = *(const volatile uint64_t *)source;
    for (int64_t i = 0; i < s->limit; i++) {
        const uint32_t *c = (const uint32_t *)scratch + i * TURNS;
        ((uint64_t *)own)[i] = each * ((uint64_t)c[0] + c[1] + c[2] + c[3]);
    }
}

static void merge_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_scatter *s = (const td_scatter *)k->state;
    unsigned dtype = k->out[0].desc->dtype;
    int64_t size = (int64_t)td_dtype_size(dtype), pieces = td_cut(k->in[1].desc->shape[s->dim], s->per);
    (void)chunk, (void)scratch;
    if (atomic_load(&k->failed)) return;
    for (int64_t p = 0; p < pieces; p++)
        td_add_run(dtype, k->out[0].data, s->step, (char *)k->work + s->own + p * piece_bytes(k, s), size, s->limit,
                   false, td_int(1));
}

bool td_scatter_plan_pieces(td_kcall *k, td_scatter *s, int64_t n)
{
    if (s->how != TD_FOLD_ADD || s->axis >= 0 || n < 2 * TD_SCATTER_PIECE || piece_bytes(k, s) > TD_SCATTER_OWN)
        return false;
    s->per = td_cut(n, td_min64(td_cut(n, TD_SCATTER_PIECE), TD_SCATTER_PIECES));
    int64_t pieces = td_cut(n, s->per);
    s->own = td_plan_work(k, (size_t)(pieces * piece_bytes(k, s)));
    const td_desc *src = k->in[2].desc;
    bool one = s->number || !src->ndim || src->stride[s->dim] == 0;
    s->counts = one && k->out[0].desc->dtype == TD_INT64 && s->per / TURNS < UINT32_MAX; /* more may be of no memory */
    if (s->counts) k->scratch_bytes = (size_t)s->limit * TURNS * sizeof(uint32_t);
    td_plan_phase(k, piece_chunk, pieces);
    td_plan_clean_until_here(k);
    td_plan_copy_first(k);
    td_plan_phase(k, merge_chunk, 1);
    k->cost_ns += (double)n;
    return true;
}
