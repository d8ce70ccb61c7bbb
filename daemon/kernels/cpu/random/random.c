/* rand, randn, randint, randperm and bernoulli: see vec/philox.h for the generator.
 *
 * Element i of a result takes word i of the op's words (word pair i where it needs 64 bits), in logical order: chunks
 * and processors make no difference. randint and randperm reject inside the element: attempt t has its own words, with
 * t in the top byte of the group's number. */
#include "daemon/kernels/cpu/random/random.h"
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/plans.h"

void td_random_plan(td_kcall *k, td_chunk_fn fn, double ns)
{
    int64_t n = td_desc_numel(k->out[0].desc);
    k->phase[0].fn = fn;
    k->phase[0].chunks = (n + TD_RANDOM_CHUNK - 1) / TD_RANDOM_CHUNK;
    k->nphases = n > 0;
    k->scratch_bytes = TD_RANDOM_SCRATCH;
    k->cost_ns = 150 + ns * (double)n;
}

int64_t td_random_end(const td_kcall *k, int64_t chunk)
{
    int64_t n = td_desc_numel(k->out[0].desc), to = (chunk + 1) * TD_RANDOM_CHUNK;
    return to < n ? to : n;
}

void td_random_store(td_kcall *k, int64_t at, int64_t n, const void *numbers, td_dtype type)
{
    td_dtype t = k->out[0].desc->dtype;
    td_isa_now->cast[type][t](n, (char *)k->out[0].data + at * (int64_t)td_dtype_size(t), &numbers, NULL);
}

/* `n` elements of a tensor of any strides from logical index `at`, as they are. */
void td_random_gather(const td_karg *x, int64_t at, int64_t n, char *to)
{
    const td_desc *d = x->desc;
    int64_t size = (int64_t)td_dtype_size(d->dtype), inner = d->ndim ? d->shape[d->ndim - 1] : 1;
    int64_t step = d->ndim ? d->stride[d->ndim - 1] * size : size;
    while (n > 0) {
        int64_t rest = at / inner, first = at % inner, take = inner - first < n ? inner - first : n,
                offset = first * step;
        for (int i = d->ndim - 2; i >= 0; i--) {
            offset += rest % d->shape[i] * d->stride[i] * size;
            rest /= d->shape[i];
        }
        td_gather(to, (const char *)x->data + offset, 1, take, 0, step, (int)size);
        to += take * size;
        at += take;
        n -= take;
    }
}

/* Numbers that are representable: 1.0 is never reached by rounding. */
static int uniform_bits(td_dtype t)
{
    return t == TD_FLOAT16 ? 11 : t == TD_BFLOAT16 ? 8 : 24;
}

static void real_chunk(td_kcall *k, int64_t chunk, void *scratch, bool normal)
{
    const td_philox_fns *p = td_isa_now->philox;
    td_dtype t = k->out[0].desc->dtype;
    uint32_t *words = scratch;
    void *numbers = (char *)scratch + TD_RANDOM_NUMBERS;
    int each = t == TD_FLOAT64 ? 2 : 4; /* elements of a group */
    int64_t to = td_random_end(k, chunk), step = each * TD_PHILOX_GROUPS;
    for (int64_t i = chunk * TD_RANDOM_CHUNK; i < to; i += step) {
        int64_t n = to - i < step ? to - i : step;
        int groups = (int)((n + each - 1) / each), padded = groups * each;
        p->words(k->seed, k->counter, (uint64_t)(i / each), groups, words);
        if (each == 2 && normal) p->normal_f64(groups, words, numbers);
        else if (each == 2) p->uniform_f64(padded, words, numbers);
        else if (normal) p->normal_f32(groups, words, numbers);
        else p->uniform_f32(padded, words, uniform_bits(t), numbers);
        td_random_store(k, i, n, numbers, each == 2 ? TD_FLOAT64 : TD_FLOAT32);
    }
}

static void rand_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    real_chunk(k, chunk, scratch, false);
}

static void randn_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    real_chunk(k, chunk, scratch, true);
}

int td_cpu_plan_rand(td_kcall *k, td_error *e)
{
    (void)e;
    td_random_plan(k, rand_chunk, 1.0);
    return TD_OK;
}

int td_cpu_plan_randn(td_kcall *k, td_error *e)
{
    (void)e;
    td_random_plan(k, randn_chunk, 3.0);
    return TD_OK;
}

/* Word `index` of 64 bits, of one attempt. */
static uint64_t word64(const td_kcall *k, int64_t index, uint64_t attempt)
{
    uint32_t w[4];
    td_isa_now->philox->words(k->seed, k->counter, (uint64_t)(index / 2) | attempt << 56, 1, w);
    return (uint64_t)w[index % 2 * 2 + 1] << 32 | w[index % 2 * 2];
}

/* A number below `range` (0 stands for 2^64) from a 64-bit word: the high half of the product, rejected where the low
 * half says that it would be drawn too often (Lemire 2019). */
static uint64_t below(const td_kcall *k, int64_t index, uint64_t word, uint64_t range)
{
    if (range == 0) return word;
    unsigned __int128 m = (unsigned __int128)word * range;
    if ((uint64_t)m < range) {
        uint64_t reject = (0 - range) % range;
        for (uint64_t attempt = 1; (uint64_t)m < reject && attempt < 256; attempt++)
            m = (unsigned __int128)word64(k, index, attempt) * range;
    }
    return (uint64_t)(m >> 64);
}

static void randint_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    int64_t low = td_attr_int(k->attrs, 0), to = td_random_end(k, chunk);
    uint64_t range = (uint64_t)td_attr_int(k->attrs, 1) - (uint64_t)low;
    uint32_t *words = scratch;
    int64_t *numbers = (int64_t *)((char *)scratch + TD_RANDOM_NUMBERS), step = 2 * TD_PHILOX_GROUPS;
    for (int64_t i = chunk * TD_RANDOM_CHUNK; i < to; i += step) {
        int64_t n = to - i < step ? to - i : step;
        td_isa_now->philox->words(k->seed, k->counter, (uint64_t)(i / 2), (int)((n + 1) / 2), words);
        for (int64_t j = 0; j < n; j++) {
            uint64_t word = (uint64_t)words[2 * j + 1] << 32 | words[2 * j];
            numbers[j] = (int64_t)((uint64_t)low + below(k, i + j, word, range));
        }
        td_random_store(k, i, n, numbers, TD_INT64);
    }
}

int td_cpu_plan_randint(td_kcall *k, td_error *e)
{
    (void)e;
    td_random_plan(k, randint_chunk, 4.0);
    return TD_OK;
}

/* Fisher and Yates: place i is exchanged with one at or before it, chosen by word i. */
static void randperm_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    int64_t n = td_desc_numel(k->out[0].desc), *p = k->work;
    int64_t done = 0;
    uint32_t *words = scratch;
    (void)chunk;
    for (int64_t i = 0; i < n; i++) {
        if (i % (2 * TD_PHILOX_GROUPS) == 0) {
            if (td_kernel_rest_after(k, &done, 16 * TD_PHILOX_GROUPS)) return; /* each exchange is a miss, or two */
            td_isa_now->philox->words(k->seed, k->counter, (uint64_t)(i / 2), TD_PHILOX_GROUPS, words);
        }
        int64_t at = i % (2 * TD_PHILOX_GROUPS);
        uint64_t word = (uint64_t)words[2 * at + 1] << 32 | words[2 * at];
        int64_t j = (int64_t)below(k, i, word, (uint64_t)i + 1);
        p[i] = p[j];
        p[j] = i;
    }
    for (int64_t i = 0; i < n && !td_kernel_rest(k); i += TD_REST_ELEMENTS)
        td_random_store(k, i, n - i < TD_REST_ELEMENTS ? n - i : TD_REST_ELEMENTS, p + i, TD_INT64);
}

int td_cpu_plan_randperm(td_kcall *k, td_error *e)
{
    int64_t n = td_desc_numel(k->out[0].desc);
    (void)e;
    if (n == 0) return TD_OK;
    td_random_plan(k, randperm_chunk, 12.0);
    k->phase[0].chunks = 1;
    k->work_bytes = (size_t)n * sizeof(int64_t);
    return TD_OK;
}

static void bernoulli_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    uint32_t *words = scratch;
    double *p = (double *)((char *)scratch + TD_RANDOM_NUMBERS);
    int64_t to = td_random_end(k, chunk);
    for (int64_t i = chunk * TD_RANDOM_CHUNK; i < to; i += TD_RANDOM_BLOCK) {
        int64_t n = to - i < TD_RANDOM_BLOCK ? to - i : TD_RANDOM_BLOCK;
        const void *raw = p + TD_RANDOM_BLOCK;
        td_isa_now->philox->words(k->seed, k->counter, (uint64_t)(i / 4), (int)((n + 3) / 4), words);
        td_random_gather(&k->in[0], i, n, (char *)(p + TD_RANDOM_BLOCK));
        td_isa_now->cast[k->in[0].desc->dtype][TD_FLOAT64](n, p, &raw, NULL);
        int wrong = 0;
        for (int64_t j = 0; j < n; j++) {
            wrong |= !(p[j] >= 0 && p[j] <= 1);
            p[j] = (double)words[j] * 0x1p-32 < p[j];
        }
        if (wrong) td_kernel_fail(k, TD_E_INVALID, "bernoulli: expected every probability to be in [0, 1]");
        td_random_store(k, i, n, p, TD_FLOAT64);
    }
}

int td_cpu_plan_bernoulli(td_kcall *k, td_error *e)
{
    (void)e;
    td_random_plan(k, bernoulli_chunk, 2.0);
    return TD_OK;
}
