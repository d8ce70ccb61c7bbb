/* dropout: the mask is drawn again in the backward, from the seed and counter that the forward left in `state`. Any
 * values are legal there: they only choose numbers. */
#include "daemon/kernels/cpu/random/random.h"
#include "daemon/kernels/plans.h"
#include <string.h>

typedef struct dropping {
    uint64_t threshold;
    double scale;
} dropping;

static void drop(td_kcall *k, int64_t chunk, char *scratch, uint64_t seed, uint64_t counter)
{
    const dropping *d = (const dropping *)k->state;
    const td_philox_fns *p = td_isa_now->philox;
    td_dtype t = k->in[0].desc->dtype, body = t == TD_FLOAT64 ? TD_FLOAT64 : TD_FLOAT32;
    uint32_t *words = (uint32_t *)scratch;
    char *x = scratch + TD_RANDOM_NUMBERS, *raw = x + TD_RANDOM_BLOCK * 8;
    int64_t to = td_random_end(k, chunk);
    for (int64_t i = chunk * TD_RANDOM_CHUNK; i < to; i += TD_RANDOM_BLOCK) {
        int64_t n = to - i < TD_RANDOM_BLOCK ? to - i : TD_RANDOM_BLOCK;
        const void *from = raw;
        p->words(seed, counter, (uint64_t)(i / 4), (int)((n + 3) / 4), words);
        td_random_gather(&k->in[0], i, n, raw);
        td_isa_now->cast[t][body](n, x, &from, NULL);
        if (body == TD_FLOAT64) p->drop_f64((int)n, words, d->threshold, (double *)x, d->scale, (double *)x);
        else p->drop_f32((int)n, words, d->threshold, (float *)x, (float)d->scale, (float *)x);
        td_random_store(k, i, n, x, body);
    }
}

static void dropout_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    drop(k, chunk, scratch, k->seed, k->counter);
}

static void state_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    int64_t state[2] = {(int64_t)k->seed, (int64_t)k->counter};
    (void)chunk, (void)scratch;
    memcpy(k->out[1].data, state, sizeof state);
}

static void dropout_backward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *d = k->in[1].desc;
    const volatile int64_t *state = k->in[1].data;
    drop(k, chunk, scratch, (uint64_t)state[0], (uint64_t)state[d->stride[0]]);
}

static void plan_drop(td_kcall *k, td_chunk_fn fn, double p)
{
    dropping *d = (dropping *)k->state;
    d->threshold = (uint64_t)(p * 0x1p32);
    d->scale = p < 1 ? 1 / (1 - p) : 0;
    td_random_plan(k, fn, 1.5);
}

int td_cpu_plan_dropout(td_kcall *k, td_error *e)
{
    (void)e;
    plan_drop(k, dropout_chunk, td_attr_float(k->attrs, 0));
    k->phase[k->nphases].fn = state_chunk;
    k->phase[k->nphases++].chunks = 1;
    return TD_OK;
}

int td_cpu_plan_dropout_backward(td_kcall *k, td_error *e)
{
    (void)e;
    plan_drop(k, dropout_backward_chunk, td_attr_float(k->attrs, 0));
    return TD_OK;
}
