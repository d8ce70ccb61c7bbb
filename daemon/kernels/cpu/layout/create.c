/* Creation: arange, linspace, eye (full is a copy of one number: pointwise.c). Results are contiguous. */
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/plans.h"
#include <string.h>

typedef struct sequence {
    double start, step, end;
    int64_t whole_start, whole_step, n;
    bool whole;  /* in whole numbers */
    bool direct; /* the result has the type that is computed in, or is float32 */
    td_pw_fn store;
    int size;
} sequence;

static double real(const td_scalar *s)
{
    return s->kind <= TD_S_INT ? (double)s->i : s->re;
}
static int64_t whole(const td_scalar *s)
{
    return s->kind <= TD_S_INT ? s->i : (int64_t)s->re;
}

static void plan_blocks(td_kcall *k, td_chunk_fn fn, int64_t n, int64_t per, double ns)
{
    k->phase[0].fn = fn;
    k->phase[0].chunks = (n + per - 1) / per;
    k->nphases = n > 0;
    k->scratch_bytes = TD_TILE_SCRATCH;
    k->cost_ns = 30 + ns * (double)n;
}

/* Elements i.. of a sequence, from the nearer end, so that both ends are exact. */
#define SEQUENCE(T, to)                                                                                                \
    {                                                                                                                  \
        const bool near = i < s->n / 2;                                                                                \
        const double end = near ? s->start : s->end, step = near ? s->step : -s->step,                                 \
                     first = (double)(near ? i : s->n - 1 - i), by = near ? 1 : -1;                                    \
        for (int j = 0; j < (int)n; j++) ((T *)(to))[j] = (T)(end + step * (first + by * (double)j));                  \
    }

static TD_FOR_SETS(void, count, (uint64_t v, uint64_t step, int64_t n, uint64_t *to), (v, step, n, to))
{
    for (int64_t i = 0; i < n; i++, v += step) to[i] = v;
}

static void sequence_part(const sequence *s, int64_t i, int64_t n, void *buffer, char *out)
{
    const void *in = buffer;
    void *to = s->direct ? out : buffer;
    if (s->whole) {
        uint64_t step = (uint64_t)s->whole_step;
        count((uint64_t)s->whole_start + (uint64_t)i * step, step, n, to);
    } else if (s->direct) SEQUENCE(float, to)
    else SEQUENCE(double, to)
    if (!s->direct) s->store(n, out, &in, NULL);
}

static void sequence_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const sequence *s = (const sequence *)k->state;
    int64_t from = chunk * TD_CREATE_CHUNK, to = from + TD_CREATE_CHUNK < s->n ? from + TD_CREATE_CHUNK : s->n;
    for (int64_t n, i = from; i < to; i += n) {
        n = to - i < TD_SEQUENCE_BLOCK ? to - i : TD_SEQUENCE_BLOCK;
        if (i < s->n / 2 && i + n > s->n / 2) n = s->n / 2 - i;
        sequence_part(s, i, n, scratch, (char *)k->out[0].data + i * s->size);
    }
}

static void plan_sequence(td_kcall *k, sequence *s)
{
    td_dtype t = k->out[0].desc->dtype;
    s->n = k->out[0].desc->shape[0];
    s->store = td_isa_now->cast[s->whole ? TD_INT64 : TD_FLOAT64][t];
    s->direct = t == (s->whole ? TD_INT64 : TD_FLOAT32);
    s->size = (int)td_dtype_size(t);
    plan_blocks(k, sequence_chunk, s->n, TD_CREATE_CHUNK, s->direct ? 0.25 : 0.5);
    td_plan_moves_freely(k, sizeof *s);
}

int td_cpu_plan_arange(td_kcall *k, td_error *e)
{
    (void)e;
    sequence *s = (sequence *)k->state;
    const td_scalar *start = &k->attrs->at[0].s, *step = &k->attrs->at[2].s;
    s->whole = td_dtype_is_integral(k->out[0].desc->dtype) &&
               (k->out[0].desc->dtype == TD_INT64 || (start->kind <= TD_S_INT && step->kind <= TD_S_INT));
    s->whole_start = s->whole ? whole(start) : 0;
    s->whole_step = s->whole ? whole(step) : 0;
    s->start = real(start);
    s->step = real(step);
    s->end = s->start + s->step * (double)(k->out[0].desc->shape[0] - 1);
    plan_sequence(k, s);
    return TD_OK;
}

int td_cpu_plan_linspace(td_kcall *k, td_error *e)
{
    (void)e;
    sequence *s = (sequence *)k->state;
    int64_t n = k->out[0].desc->shape[0];
    s->whole = false;
    s->start = td_attr_float(k->attrs, 0);
    s->end = n > 1 ? td_attr_float(k->attrs, 1) : s->start;
    s->step = n > 1 ? (s->end - s->start) / (double)(n - 1) : 0;
    plan_sequence(k, s);
    return TD_OK;
}

static void eye_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *d = k->out[0].desc;
    size_t size = td_dtype_size(d->dtype);
    int64_t cols = d->shape[1], per = cols < TD_CREATE_CHUNK ? TD_CREATE_CHUNK / cols : 1, from = chunk * per,
            to = from + per;
    _Alignas(16) unsigned char one[16];
    (void)scratch;
    td_scalar_store(td_int(1), d->dtype, one);
    if (to > d->shape[0]) to = d->shape[0];
    char *row = (char *)k->out[0].data + (size_t)(from * cols) * size;
    memset(row, 0, (size_t)((to - from) * cols) * size);
    for (int64_t i = from; i < to && i < cols; i++) memcpy(row + (size_t)((i - from) * cols + i) * size, one, size);
}

int td_cpu_plan_eye(td_kcall *k, td_error *e)
{
    (void)e;
    const td_desc *d = k->out[0].desc;
    int64_t rows = d->shape[1] ? d->shape[0] : 0;
    plan_blocks(k, eye_chunk, rows, d->shape[1] && d->shape[1] < TD_CREATE_CHUNK ? TD_CREATE_CHUNK / d->shape[1] : 1,
                0.1 * (double)d->shape[1]);
    td_plan_moves_freely(k, 0);
    return TD_OK;
}
