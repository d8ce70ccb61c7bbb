/* Resolving index tensors into offsets: see index_map.h. */
#include "daemon/kernels/cpu/places/index_map.h"
#include "daemon/kernels/cpu/places/index_load.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/walk.h"

/* offsets[i] += index * stride, checked; returns false and reports at the first bad one. */
static bool add_offsets(td_kcall *k, const td_index_map *m, int which, int64_t b, int64_t e)
{
    const td_karg *idx = &k->in[m->first + m->input[which]];
    const td_index_load load = {
        .dtype = idx->desc->dtype, .wrap = m->wrap, .limit = m->size[which], .unit = m->step[which]};
    int64_t *start = (int64_t *)((char *)k->work + m->offsets_at), *to = start + b, part[TD_INDEX_BLOCK], bad = 0;
    td_walk w;
    td_walk_at at;
    td_walk_init(&w, m->nd, m->shape);
    td_walk_add_desc(&w, idx->desc);
    td_walk_merge(&w);
    int64_t step = td_walk_inner(&w, 0);
    for (td_walk_begin(&w, &at, &idx->data, b, e - b); at.run; td_walk_next(&w, &at))
        for (int64_t n, i = 0; i < at.run; i += n, to += n) {
            n = td_min64(TD_INDEX_BLOCK, at.run - i);
            int64_t done = td_load_offsets(&load, part, at.p[0] + i * step, step, n, &bad);
            if (done < n) {
                td_fail_index(k, bad, to + done - start, m->dim[which], load.limit);
                return false;
            }
            for (int64_t j = 0; j < n; j++) to[j] += part[j];
        }
    return true;
}

static void offsets_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_index_map *m = (const td_index_map *)k->state;
    int64_t b, e;
    (void)scratch;
    td_cut_range(m->n, TD_INDEX_POSITIONS, chunk, &b, &e);
    memset((char *)k->work + m->offsets_at + (size_t)b * 8, 0, (size_t)(e - b) * 8);
    for (int i = 0; i < m->count; i++)
        if (!add_offsets(k, m, i, b, e)) return;
}

static void keep(td_index_dims *x, const td_desc *d, int dim, int64_t *product)
{
    x->shape[x->nd] = d->shape[dim];
    x->stride[x->nd++] = d->stride[dim];
    *product *= d->shape[dim];
}

/* Kept dimensions go before the indices only when the indices stand together and not at the front. */
static void sort_dims(td_index_map *m, const td_desc *d)
{
    bool indexed[TD_MAX_DIMS] = {false};
    for (int i = 0; i < m->count; i++) indexed[m->dim[i]] = true;
    bool together = m->count > 0 && m->dim[m->count - 1] - m->dim[0] == m->count - 1;
    for (int i = 0; i < d->ndim; i++) {
        if (indexed[i]) continue;
        if (together && i < m->dim[0]) keep(&m->bd, d, i, &m->before);
        else keep(&m->ad, d, i, &m->after);
    }
}

static int finish(td_kcall *k, td_index_map *m, const td_desc *d)
{
    m->n = 1;
    for (int i = 0; i < m->nd; i++) m->n *= m->shape[i];
    m->reach = 1;
    for (int i = 0; i < m->count; i++) {
        m->size[i] = d->ndim ? d->shape[m->dim[i]] : 1;
        m->step[i] = d->ndim ? d->stride[m->dim[i]] * (int64_t)td_dtype_size(d->dtype) : 0;
        m->reach += td_max64(0, m->size[i] - 1) * m->step[i];
    }
    sort_dims(m, d);
    m->offsets_at = td_plan_work(k, (size_t)m->n * 8);
    td_plan_phase(k, offsets_chunk, td_cut(m->n, TD_INDEX_POSITIONS));
    td_plan_clean_until_here(k);
    k->cost_ns += (double)m->n * 0.7 * (double)td_max64(1, m->count) + 100;
    return 0;
}

static int check_dtype(const td_karg *idx, const char *kernel, td_error *e)
{
    if (td_is_index_dtype(idx->desc->dtype)) return 0;
    return td_fail(e, TD_E_TYPE, "%s: an index must be an integer tensor, not %s", kernel,
                   td_dtype_name(idx->desc->dtype));
}

int td_index_map_plan(td_kcall *k, td_index_map *m, const td_desc *d, const td_karg *idx, int nidx, const char *kernel,
                      td_error *e)
{
    *m = (td_index_map){.before = 1, .after = 1, .first = (int)(idx - k->in), .wrap = true};
    if (nidx > d->ndim)
        return td_fail(e, TD_E_INDEX, "too many indices for tensor of dimension %d (got %d)", d->ndim, nidx);
    for (int i = 0; i < nidx; i++) {
        if (td_absent(&idx[i])) continue;
        if (check_dtype(&idx[i], kernel, e)) return TD_E_TYPE;
        if (td_broadcast(m->shape, &m->nd, idx[i].desc->shape, idx[i].desc->ndim, e)) return TD_E_SHAPE;
        m->input[m->count] = m->dim[m->count] = (uint8_t)i;
        m->count++;
    }
    return finish(k, m, d);
}

int td_index_map_plan_dim(td_kcall *k, td_index_map *m, const td_desc *d, int dim, const td_karg *idx,
                          const char *kernel, td_error *e)
{
    *m = (td_index_map){.before = 1, .after = 1, .first = (int)(idx - k->in), .count = 1, .nd = 1};
    if (check_dtype(idx, kernel, e)) return TD_E_TYPE;
    m->shape[0] = td_desc_numel(idx->desc);
    m->dim[0] = (uint8_t)dim;
    return finish(k, m, d);
}

#define READ_ELEMENTS(T)                                                                                               \
    for (int64_t j = b; j < e; j++) ((T *)to)[j - b] = *(const T *)(x + offsets[j])

static void read_elements(const int64_t *offsets, char *to, const char *x, int64_t b, int64_t e, size_t size)
{
    switch (size) {
    case 1: READ_ELEMENTS(uint8_t); break;
    case 2: READ_ELEMENTS(uint16_t); break;
    case 4: READ_ELEMENTS(uint32_t); break;
    case 8: READ_ELEMENTS(uint64_t); break;
    default:
        for (int64_t j = b; j < e; j++) memcpy(to + (j - b) * 16, x + offsets[j], 16);
    }
}

void td_index_map_read(const td_kcall *k, const td_index_map *m, char *to, const char *x, int64_t b, int64_t e,
                       size_t size)
{
    const int64_t *offsets = td_index_map_offsets(k, m);
    int64_t packed[TD_MAX_DIMS], width = 1;
    if (m->before == 1 && m->after == 1) {
        read_elements(offsets, to, x, b, e, size);
        return;
    }
    for (int d = m->ad.nd - 1; d >= 0; d--) {
        packed[d] = width;
        width *= m->ad.shape[d];
    }
    while (b < e) { /* a run of the kept part behind the indices at a time */
        int64_t row = b / m->after, col = b % m->after, n = td_min64(m->after - col, e - b);
        const char *from = x + td_index_dims_at(&m->bd, row / m->n) * (int64_t)size + offsets[row % m->n];
        td_copy_strided(m->ad.nd, m->ad.shape, to - col * (int64_t)size, packed, from, m->ad.stride, size, col, n);
        to += n * (int64_t)size;
        b += n;
    }
}
