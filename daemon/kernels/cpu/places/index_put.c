/* Writing through indices: index_put (with and without accumulation) and index_add, in place or on a copy.
 *
 * All indices are checked before the first write. Duplicates are served in order of their positions whoever runs the
 * chunks: a chunk owns a part of the target (a range of the kept dimension before the indices x a range of the offsets
 * that indices can reach) and walks all positions, doing those that fall into its part. */
#include "daemon/kernels/cpu/accumulate.h"
#include "daemon/kernels/cpu/layout/copy_first.h"
#include "daemon/kernels/cpu/places/index_map.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"

typedef struct put_state {
    td_index_map map;                                          /* first: the checking phase looks for it here */
    int64_t vb[TD_MAX_DIMS], vi[TD_MAX_DIMS], va[TD_MAX_DIMS]; /* the values' strides: before, positions, after */
    int64_t per_before, parts;                                 /* kept rows of a chunk; parts of the reach */
    int source;
    bool add, scale;
    td_scalar alpha;
} put_state;
_Static_assert(sizeof(put_state) <= TD_KSTATE_BYTES, "put_state lives in a call's state");

static void put_one(const put_state *s, const td_walk *w, unsigned dtype, char *to, const char *from)
{
    td_walk_at at;
    void *base[2] = {to, (void *)from};
    int64_t ts = td_walk_inner(w, 0), fs = td_walk_inner(w, 1);
    for (td_walk_begin(w, &at, base, 0, w->count); at.run; td_walk_next(w, &at))
        if (s->add) td_add_run(dtype, at.p[0], ts, at.p[1], fs, at.run, s->scale, s->alpha);
        else td_copy_run(at.p[0], ts, at.p[1], fs, td_dtype_size(dtype), at.run);
}

/* Positions of one element each, of values that lie in steps. */
typedef struct positions {
    const int64_t *offset;
    int64_t n, low, high, step; /* those with an offset in [low, high) are to be done; step: bytes */
} positions;

#define EACH(T, OP)                                                                                                    \
    for (int64_t j = 0; j < p->n; j++) {                                                                               \
        if (p->offset[j] < p->low || p->offset[j] >= p->high) continue;                                                \
        *(T *)(to + p->offset[j]) OP *(const T *)(from + j * p->step);                                                 \
    }

/* False: it is a type that goes one by one. */
static bool put_elements(bool add, unsigned dtype, const positions *p, char *to, const char *from)
{
    size_t size = td_dtype_size(dtype);
    if (!add && size == 4) EACH(uint32_t, =)
    else if (!add && size == 8) EACH(uint64_t, =)
    else if (add && dtype == TD_FLOAT32) EACH(float, +=)
    else if (add && dtype == TD_FLOAT64) EACH(double, +=)
    else if (add && dtype == TD_INT64) EACH(uint64_t, +=)
    else return false;
    return true;
}

/* The step between the values of neighbouring positions, or -1 where it is not the same for all. */
static int64_t values_step(const put_state *s)
{
    const td_index_map *m = &s->map;
    for (int d = m->nd - 1; d > 0; d--)
        if (s->vi[d - 1] != s->vi[d] * m->shape[d]) return -1;
    return m->nd ? s->vi[m->nd - 1] : 0;
}

static void put_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const put_state *s = (const put_state *)k->state;
    const td_index_map *m = &s->map;
    unsigned dtype = k->out[0].desc->dtype;
    int64_t size = (int64_t)td_dtype_size(dtype), b, e, part = chunk % s->parts;
    (void)scratch;
    if (atomic_load(&k->failed)) return;
    td_walk w;
    td_walk_init(&w, m->ad.nd, m->ad.shape);
    td_walk_add(&w, m->ad.stride, (size_t)size);
    td_walk_add(&w, s->va, (size_t)size);
    td_walk_merge(&w);
    int64_t width = (m->reach + s->parts - 1) / s->parts, low = part * width, high = low + width, step = values_step(s);
    const int64_t *offsets = td_index_map_offsets(k, m);
    td_cut_range(m->before, s->per_before, chunk / s->parts, &b, &e);
    for (int64_t o = b; o < e; o++) {
        char *to = (char *)k->out[0].data + td_index_dims_at(&m->bd, o) * size;
        const char *from = (const char *)k->in[s->source].data + td_flat_at(m->bd.nd, m->bd.shape, s->vb, o) * size;
        if (w.count == 1 && step >= 0 && !s->scale) {
            const positions p = {offsets, m->n, low, high, step * size};
            if (put_elements(s->add, dtype, &p, to, from)) continue;
        }
        for (int64_t j = 0; j < m->n; j++)
            if (offsets[j] >= low && offsets[j] < high)
                put_one(s, &w, dtype, to + offsets[j], from + td_flat_at(m->nd, m->shape, s->vi, j) * size);
    }
}

/* Chunks of about 100 us; looking at a position that is another chunk's must stay cheap beside the work. */
static void plan_put(td_kcall *k, put_state *s)
{
    const td_index_map *m = &s->map;
    double one = m->after == 1 ? 3 : 15 + (double)m->after * (s->add ? 0.3 : 0.15), row = (double)m->n * one,
           all = row * (double)m->before;
    int64_t want = td_min64((int64_t)(all / TD_CHUNK_NS) + 1, TD_PUT_CHUNKS);
    int64_t cut_before = td_min64(want, m->before);
    s->per_before = td_max64(1, td_cut(m->before, td_max64(1, cut_before)));
    s->parts = td_min64(want / td_max64(1, cut_before), td_min64(TD_PUT_PARTS, 4 + m->after / 4));
    s->parts = td_max64(1, s->parts);
    td_plan_copy_first(k);
    if (m->before * m->n * m->after > 0) td_plan_phase(k, put_chunk, td_cut(m->before, s->per_before) * s->parts);
    k->cost_ns += all;
    td_plan_moves_freely(k, sizeof *s);
}

/* The values' strides, broadcast to [before][positions][after]. */
static void broadcast_values(put_state *s, const td_desc *v)
{
    const td_index_map *m = &s->map;
    int nd = m->bd.nd + m->nd + m->ad.nd, lead = nd - v->ndim;
    int64_t stride[3 * TD_MAX_DIMS] = {0};
    for (int d = lead > 0 ? lead : 0; d < nd; d++)
        if (v->shape[d - lead] != 1) stride[d] = v->stride[d - lead];
    memcpy(s->vb, stride, sizeof(int64_t) * (size_t)m->bd.nd);
    memcpy(s->vi, stride + m->bd.nd, sizeof(int64_t) * (size_t)m->nd);
    memcpy(s->va, stride + m->bd.nd + m->nd, sizeof(int64_t) * (size_t)m->ad.nd);
}

int td_cpu_plan_index_put(td_kcall *k, td_error *e)
{
    put_state *s = (put_state *)k->state;
    *s = (put_state){.source = k->nin - 1, .add = td_attr_bool(k->attrs, 0), .alpha = td_int(1)};
    int rc = td_index_map_plan(k, &s->map, k->out[0].desc, k->in + 1, k->nin - 2, "index_put", e);
    if (rc) return rc;
    if (k->in[s->source].desc->dtype != k->in[0].desc->dtype)
        return td_fail(e, TD_E_TYPE, "index_put: values are %s, the tensor is %s",
                       td_dtype_name(k->in[s->source].desc->dtype), td_dtype_name(k->in[0].desc->dtype));
    broadcast_values(s, k->in[s->source].desc);
    plan_put(k, s);
    return 0;
}

int td_cpu_plan_index_add(td_kcall *k, td_error *e)
{
    put_state *s = (put_state *)k->state;
    const td_desc *src = k->in[2].desc;
    int dim;
    *s = (put_state){.source = 2, .add = true, .scale = true, .alpha = k->attrs->at[1].s};
    if (s->alpha.kind <= TD_S_INT && s->alpha.i == 1) s->scale = false;
    if (td_wrap_dim(td_attr_int(k->attrs, 0), k->in[0].desc->ndim, &dim, e)) return TD_E_INDEX;
    int rc = td_index_map_plan_dim(k, &s->map, k->out[0].desc, dim, &k->in[1], "index_add", e);
    if (rc) return rc;
    for (int d = 0; d < s->map.bd.nd; d++) s->vb[d] = src->stride[d];
    s->vi[0] = src->ndim ? src->stride[dim] : 0;
    for (int d = 0; d < s->map.ad.nd; d++) s->va[d] = src->stride[dim + 1 + d];
    plan_put(k, s);
    return 0;
}
