/* The strided walk: see walk.h. Invariant: between begin and the end, p[] addresses element pos[] of every operand and
 * `run` never crosses the end of the innermost dimension or of the range. */
#include "daemon/kernels/cpu/walk.h"
#include <assert.h>

void td_walk_init(td_walk *w, int nd, const int64_t *shape)
{
    w->nd = nd;
    w->nops = 0;
    w->count = 1;
    for (int d = 0; d < nd; d++) w->count *= w->shape[d] = shape[d];
    if (nd == 0) {
        w->nd = 1;
        w->shape[0] = 1;
    }
}

int td_walk_add(td_walk *w, const int64_t *stride, size_t element)
{
    assert(w->nops < TD_WALK_OPS);
    for (int d = 0; d < w->nd; d++) w->step[w->nops][d] = w->shape[d] == 1 ? 0 : stride[d] * (int64_t)element;
    return w->nops++;
}

int td_walk_add_desc(td_walk *w, const td_desc *d)
{
    int64_t stride[TD_MAX_DIMS] = {0};
    int lead = w->nd - d->ndim;
    for (int i = 0; i < d->ndim; i++)
        if (lead + i >= 0) stride[lead + i] = d->shape[i] == 1 ? 0 : d->stride[i];
    return td_walk_add(w, stride, td_dtype_size(d->dtype));
}

static bool merges(const td_walk *w, int outer, int inner)
{
    for (int o = 0; o < w->nops; o++)
        if (w->step[o][outer] != w->step[o][inner] * w->shape[inner]) return false;
    return true;
}

static void copy_dim(td_walk *w, int to, int from)
{
    w->shape[to] = w->shape[from];
    for (int o = 0; o < w->nops; o++) w->step[o][to] = w->step[o][from];
}

void td_walk_merge(td_walk *w)
{
    int last = -1; /* dimensions [0, last] are the result so far */
    for (int d = 0; d < w->nd; d++) {
        if (w->shape[d] == 1) continue;
        if (last >= 0 && merges(w, last, d)) {
            int64_t outer = w->shape[last];
            copy_dim(w, last, d);
            w->shape[last] *= outer;
        } else copy_dim(w, ++last, d);
    }
    if (last < 0) {
        last = 0;
        w->shape[0] = 1;
        for (int o = 0; o < w->nops; o++) w->step[o][0] = 0;
    }
    w->nd = last + 1;
}

static void set_run(const td_walk *w, td_walk_at *at)
{
    int64_t room = w->shape[w->nd - 1] - at->pos[w->nd - 1];
    at->run = at->left < room ? at->left : room;
}

void td_walk_begin(const td_walk *w, td_walk_at *at, void *const *base, int64_t first, int64_t count)
{
    at->left = count;
    at->run = 0;
    if (count <= 0) return;
    for (int o = 0; o < w->nops; o++) at->p[o] = base[o];
    for (int d = w->nd - 1; d >= 0; d--) {
        at->pos[d] = first % w->shape[d];
        first /= w->shape[d];
        for (int o = 0; o < w->nops; o++) at->p[o] += at->pos[d] * w->step[o][d];
    }
    set_run(w, at);
}

void td_walk_next(const td_walk *w, td_walk_at *at)
{
    at->left -= at->run;
    if (at->left <= 0) {
        at->run = 0;
        return;
    }
    int d = w->nd - 1;
    for (int o = 0; o < w->nops; o++) at->p[o] -= at->pos[d] * w->step[o][d];
    at->pos[d] = 0;
    while (--d >= 0) {
        for (int o = 0; o < w->nops; o++) at->p[o] += w->step[o][d];
        if (++at->pos[d] < w->shape[d]) break;
        for (int o = 0; o < w->nops; o++) at->p[o] -= w->shape[d] * w->step[o][d];
        at->pos[d] = 0;
    }
    set_run(w, at);
}

#define COPY_RUN(T)                                                                                                    \
    for (int64_t i = 0; i < n; i++) *(T *)(to + i * to_step) = *(const T *)(from + i * from_step)

void td_copy_run(char *to, int64_t to_step, const char *from, int64_t from_step, size_t size, int64_t n)
{
    if (to_step == (int64_t)size && from_step == (int64_t)size) {
        memmove(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: COPY_RUN(uint8_t); break;
    case 2: COPY_RUN(uint16_t); break;
    case 4: COPY_RUN(uint32_t); break;
    case 8: COPY_RUN(uint64_t); break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, 16);
    }
}

void td_copy_strided(int nd, const int64_t *shape, void *to, const int64_t *to_stride, const void *from,
                     const int64_t *from_stride, size_t size, int64_t first, int64_t count)
{
    td_walk w;
    td_walk_at at;
    td_walk_init(&w, nd, shape);
    td_walk_add(&w, to_stride, size);
    td_walk_add(&w, from_stride, size);
    td_walk_merge(&w);
    void *base[2] = {to, (void *)from};
    for (td_walk_begin(&w, &at, base, first, count); at.run; td_walk_next(&w, &at))
        td_copy_run(at.p[0], td_walk_inner(&w, 0), at.p[1], td_walk_inner(&w, 1), size, at.run);
}
