/* exponential, geometric, cauchy, log_normal and poisson: what is made of the words of vec/philox.h beside uniform and
 * normal numbers.
 *
 * All of it is computed in double, by the log and exp of vec/math_f32.h and without contraction, and each element has
 * words of its own: so chunks and processors make no difference. poisson rejects inside the element; attempt t has its
 * own group of words, with t in the top byte of the group's number. */
#include "daemon/kernels/cpu/random/random.h"
#include "daemon/kernels/cpu/vec/math_f32.h"
#include "daemon/kernels/plans.h"

typedef double (*number_fn)(const td_kcall *k, double u);

/* In (0, 1): never a number whose log is infinite. */
static double inside(uint64_t word)
{
    return ((double)(int64_t)(word >> 11) + 0.5) * 0x1p-53;
}

static uint64_t word_at(const uint32_t *words, int64_t j)
{
    return (uint64_t)words[2 * j + 1] << 32 | words[2 * j];
}

/* log(1 - p), also of a small p: what rounding 1 - p took away is given back. */
static double log_rest(double p)
{
    double y = 1 - p;
    return td_klog(y) - (p - (1 - y)) / y;
}

/* ---- of one uniform number */

static double exponential(const td_kcall *k, double u)
{
    return -td_klog(u) / td_attr_float(k->attrs, 1);
}

/* How many trials until the first success. */
static double geometric(const td_kcall *k, double u)
{
    double n = ceil(td_klog(u) / log_rest(td_attr_float(k->attrs, 1)));
    return n < 1 ? 1 : n;
}

static void uniform_chunk(td_kcall *k, int64_t chunk, void *scratch, number_fn number)
{
    uint32_t *words = scratch;
    double *numbers = (double *)((char *)scratch + TD_RANDOM_NUMBERS);
    int64_t to = td_random_end(k, chunk), step = 2 * TD_PHILOX_GROUPS;
    for (int64_t i = chunk * TD_RANDOM_CHUNK; i < to; i += step) {
        int64_t n = to - i < step ? to - i : step;
        td_isa_now->philox->words(k->seed, k->counter, (uint64_t)(i / 2), (int)((n + 1) / 2), words);
        for (int64_t j = 0; j < n; j++) numbers[j] = number(k, inside(word_at(words, j)));
        td_random_store(k, i, n, numbers, TD_FLOAT64);
    }
}

static void exponential_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    uniform_chunk(k, chunk, scratch, exponential);
}

static void geometric_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    uniform_chunk(k, chunk, scratch, geometric);
}

/* ---- of normal numbers: the quotient of two is Cauchy's */

static void normal_chunk(td_kcall *k, int64_t chunk, void *scratch, bool quotient)
{
    uint32_t *words = scratch;
    double *numbers = (double *)((char *)scratch + TD_RANDOM_NUMBERS), a = td_attr_float(k->attrs, 1),
           b = td_attr_float(k->attrs, 2);
    int each = quotient ? 1 : 2;
    int64_t to = td_random_end(k, chunk), step = each * TD_PHILOX_GROUPS;
    for (int64_t i = chunk * TD_RANDOM_CHUNK; i < to; i += step) {
        int64_t n = to - i < step ? to - i : step;
        int groups = (int)((n + each - 1) / each);
        td_isa_now->philox->words(k->seed, k->counter, (uint64_t)(i / each), groups, words);
        td_isa_now->philox->normal_f64(groups, words, numbers);
        for (int64_t j = 0; j < n; j++)
            numbers[j] = quotient ? a + b * (numbers[2 * j + 1] / numbers[2 * j]) : td_kexp(a + b * numbers[j]);
        td_random_store(k, i, n, numbers, TD_FLOAT64);
    }
}

static void cauchy_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    normal_chunk(k, chunk, scratch, true);
}

static void log_normal_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    normal_chunk(k, chunk, scratch, false);
}

/* ---- poisson */

/* Two uniform numbers of one attempt at element i. */
static void attempt(const td_kcall *k, int64_t i, uint64_t t, double *u)
{
    uint32_t w[4];
    td_isa_now->philox->words(k->seed, k->counter, (uint64_t)i | t << 56, 1, w);
    u[0] = inside(word_at(w, 0));
    u[1] = inside(word_at(w, 1));
}

/* log(n!), by Stirling's series from 10 on. */
static double log_factorial(double n)
{
    double product = 1, x = n + 1;
    if (n < 10) {
        for (int i = 2; i <= (int)n; i++) product *= i;
        return td_klog(product);
    }
    return (x - 0.5) * td_klog(x) - x + 0.91893853320467274178 +
           (1 / 12.0 - (1 / 360.0 - 1 / (1260 * x * x)) / (x * x)) / x;
}

/* Events until exponential waits add up to the rate. */
static double few(const td_kcall *k, int64_t i, double rate)
{
    double time = 0, u[2];
    int64_t n = 0;
    for (uint64_t t = 0; t < 256; t++) {
        attempt(k, i, t, u);
        for (int j = 0; j < 2; j++) {
            time -= td_klog(u[j]);
            if (time > rate) return (double)n;
            n++;
        }
    }
    return (double)n;
}

/* Transformed rejection (Hörmann, "The transformed rejection method for generating Poisson random variables", 1993). */
static double many(const td_kcall *k, int64_t i, double rate)
{
    double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, alpha = 1.1239 + 1.1328 / (b - 3.4),
           edge = 0.9277 - 3.6224 / (b - 2);
    double size = td_klog(rate), u[2];
    for (uint64_t t = 0; t < 256; t++) {
        attempt(k, i, t, u);
        double x = u[0] - 0.5, v = u[1], us = 0.5 - fabs(x), n = floor((2 * a / us + b) * x + rate + 0.43);
        if (us >= 0.07 && v <= edge) return n;
        if (n < 0 || (us < 0.013 && v > us)) continue;
        if (td_klog(v * alpha / (a / (us * us) + b)) <= n * size - rate - log_factorial(n)) return n;
    }
    return floor(rate);
}

static void poisson_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    double *rate = (double *)((char *)scratch + TD_RANDOM_NUMBERS);
    int64_t to = td_random_end(k, chunk);
    for (int64_t i = chunk * TD_RANDOM_CHUNK; i < to && !td_kernel_rest(k); i += TD_RANDOM_BLOCK) {
        int64_t n = to - i < TD_RANDOM_BLOCK ? to - i : TD_RANDOM_BLOCK;
        const void *raw = rate + TD_RANDOM_BLOCK;
        td_random_gather(&k->in[0], i, n, (char *)(rate + TD_RANDOM_BLOCK));
        td_isa_now->cast[k->in[0].desc->dtype][TD_FLOAT64](n, rate, &raw, NULL);
        bool wrong = false;
        for (int64_t j = 0; j < n; j++) {
            wrong |= !(rate[j] >= 0);
            if (rate[j] > 0) rate[j] = rate[j] < 10 ? few(k, i + j, rate[j]) : many(k, i + j, rate[j]);
        }
        if (wrong) td_kernel_fail(k, TD_E_INVALID, "invalid Poisson rate, expected rate to be non-negative");
        td_random_store(k, i, n, rate, TD_FLOAT64);
    }
}

#define PLAN(name, ns)                                                                                                 \
    int td_cpu_plan_##name(td_kcall *k, td_error *e)                                                                   \
    {                                                                                                                  \
        (void)e;                                                                                                       \
        td_random_plan(k, name##_chunk, ns);                                                                           \
        return TD_OK;                                                                                                  \
    }
PLAN(exponential, 12.0)
PLAN(geometric, 14.0)
PLAN(cauchy, 16.0)
PLAN(log_normal, 14.0)
PLAN(poisson, 60.0)
