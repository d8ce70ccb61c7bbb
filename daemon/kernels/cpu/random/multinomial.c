/* multinomial: classes drawn with the chances that each row holds.
 *
 * With replacement a draw is a number below the sum of all chances, looked up among the sums so far. Without, each
 * class waits an exponential time over its chance, and is drawn in the order of arrival (Efraimidis and Spirakis,
 * 2006). An exponential number is half the squared radius of two normal ones: so it has their log, which is the same on
 * every processor. Draw j, or class j, of row r takes the group of words r * length + j: how rows are cut into chunks
 * makes no difference. */
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/random/random.h"
#include "daemon/kernels/plans.h"

#include <math.h>

typedef struct arrival {
    double wait;
    int64_t class;
} arrival;

typedef struct draw_state {
    int64_t rows, classes, samples, per; /* rows of a chunk */
} draw_state;

typedef void (*row_fn)(td_kcall *k, int64_t row, void *scratch);

/* Classes of a block, and its numbers: words for one pair of normal numbers each. */
enum { BLOCK = TD_PHILOX_GROUPS, SIFT = 256 /* elements that take as long as one way down a heap */ };

typedef struct block {
    uint32_t words[4 * BLOCK];
    double numbers[2 * BLOCK], chances[BLOCK], raw[BLOCK];
} block;

static void load_chances(const td_kcall *k, int64_t at, int64_t n, block *b)
{
    const void *raw = b->raw;
    td_random_gather(&k->in[0], at, n, (char *)b->raw);
    td_isa_now->cast[k->in[0].desc->dtype][TD_FLOAT64](n, b->chances, &raw, NULL);
}

/* Their sum; less than 0 when one is no chance, and the call has failed. */
static double sum_of(td_kcall *k, const double *chances, int64_t n)
{
    double sum = 0;
    bool good = true;
    for (int64_t i = 0; i < n; i++) {
        good &= chances[i] >= 0 && chances[i] < INFINITY;
        sum += chances[i];
    }
    if (good) return sum;
    td_kernel_fail(k, TD_E_INVALID, "probability tensor contains either `inf`, `nan` or element < 0");
    return -1;
}

static bool check_total(td_kcall *k, double total)
{
    if (total > 0) return true;
    td_kernel_fail(k, TD_E_INVALID, "invalid multinomial distribution (sum of probabilities <= 0)");
    return false;
}

/* ---- with replacement ---- */

/* The sums of the chances up to and with each class; false when the row cannot be drawn from. */
static bool add_up(td_kcall *k, int64_t row, block *b, double *sums)
{
    const draw_state *s = (const draw_state *)k->state;
    double total = 0;
    int64_t done = 0;
    for (int64_t i = 0; i < s->classes; i += BLOCK) {
        int64_t n = td_min64(BLOCK, s->classes - i);
        load_chances(k, row * s->classes + i, n, b);
        if (sum_of(k, b->chances, n) < 0 || td_kernel_rest_after(k, &done, n)) return false;
        for (int64_t j = 0; j < n; j++) sums[i + j] = total += b->chances[j];
    }
    return check_total(k, total);
}

/* The first class whose sum is above; where rounding made the total of a number below it, the last that has a chance.
 */
static int64_t class_at(const double *sums, int64_t n, double number)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        if (sums[mid] > number || sums[mid] == sums[n - 1]) high = mid;
        else low = mid + 1;
    }
    return low;
}

static void draw_again(td_kcall *k, int64_t row, void *scratch)
{
    const draw_state *s = (const draw_state *)k->state;
    block *b = scratch;
    double *sums = (double *)k->work + row * s->classes;
    int64_t *out = (int64_t *)k->out[0].data + row * s->samples, done = 0;
    if (!add_up(k, row, b, sums)) return;
    for (int64_t i = 0; i < s->samples; i += BLOCK) {
        int64_t n = td_min64(BLOCK, s->samples - i);
        td_isa_now->philox->words(k->seed, k->counter, (uint64_t)(row * s->samples + i), (int)n, b->words);
        td_isa_now->philox->uniform_f64(2 * (int)n, b->words, b->numbers);
        for (int64_t j = 0; j < n; j++)
            out[i + j] = class_at(sums, s->classes, b->numbers[2 * j] * sums[s->classes - 1]);
        if (td_kernel_rest_after(k, &done, 8 * n)) return;
    }
}

/* ---- without ---- */

static bool later(arrival a, arrival b)
{
    return a.wait > b.wait || (a.wait == b.wait && a.class > b.class);
}

/* The latest of a heap of n lies on top again once its place i was filled anew. */
static void sift_down(arrival *heap, int64_t n, int64_t i)
{
    arrival put = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && later(heap[child + 1], heap[child])) child++;
        if (!later(heap[child], put)) break;
        heap[i] = heap[child];
    }
    heap[i] = put;
}

/* Keep the earliest; *n of at most `most` are there. */
static void keep(td_kcall *k, arrival *heap, int64_t *n, int64_t most, arrival a)
{
    int64_t done = 0;
    if (*n < most) {
        heap[(*n)++] = a;
        for (int64_t i = *n / 2 - 1; *n == most && i >= 0; i--) {
            sift_down(heap, most, i);
            if (td_kernel_rest_after(k, &done, SIFT)) return;
        }
    } else if (later(heap[0], a)) {
        heap[0] = a;
        sift_down(heap, most, 0);
    }
}

/* The earliest arrivals of a row as a heap; false when the row cannot be drawn from. */
static bool arrive(td_kcall *k, int64_t row, block *b, arrival *heap)
{
    const draw_state *s = (const draw_state *)k->state;
    double total = 0;
    int64_t kept = 0, done = 0;
    for (int64_t i = 0; i < s->classes; i += BLOCK) {
        int64_t n = td_min64(BLOCK, s->classes - i), at = row * s->classes + i;
        load_chances(k, at, n, b);
        double sum = sum_of(k, b->chances, n);
        if (sum < 0 || td_kernel_rest_after(k, &done, 8 * n)) return false;
        total += sum;
        td_isa_now->philox->words(k->seed, k->counter, (uint64_t)at, (int)n, b->words);
        td_isa_now->philox->normal_f64((int)n, b->words, b->numbers);
        for (int64_t j = 0; j < n; j++) {
            double x = b->numbers[2 * j], y = b->numbers[2 * j + 1];
            double wait = b->chances[j] > 0 ? (x * x + y * y) / b->chances[j] : INFINITY;
            keep(k, heap, &kept, s->samples, (arrival){wait, i + j});
        }
    }
    return check_total(k, total);
}

static void draw_once(td_kcall *k, int64_t row, void *scratch)
{
    const draw_state *s = (const draw_state *)k->state;
    arrival *heap = (arrival *)k->work + row * s->samples;
    int64_t *out = (int64_t *)k->out[0].data + row * s->samples, done = 0;
    if (!arrive(k, row, scratch, heap)) return;
    for (int64_t n = s->samples; n > 0; n--) {
        out[n - 1] = heap[0].class;
        heap[0] = heap[n - 1];
        sift_down(heap, n - 1, 0);
        if (td_kernel_rest_after(k, &done, SIFT)) return;
    }
}

/* ---- rows ---- */

static void rows_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const draw_state *s = (const draw_state *)k->state;
    row_fn draw = td_attr_bool(k->attrs, 1) ? draw_again : draw_once;
    int64_t row, end;
    td_cut_range(s->rows, s->per, chunk, &row, &end);
    for (; row < end; row++) draw(k, row, scratch);
}

int td_cpu_plan_multinomial(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    draw_state *s = (draw_state *)k->state;
    bool again = td_attr_bool(k->attrs, 1);
    (void)e;
    s->rows = x->ndim == 2 ? x->shape[0] : 1;
    s->classes = x->shape[x->ndim - 1];
    s->samples = td_attr_int(k->attrs, 0);
    s->per = td_max64(1, TD_RANDOM_CHUNK / (s->classes + s->samples));
    k->phase[0].fn = rows_chunk;
    k->phase[0].chunks = (s->rows + s->per - 1) / s->per;
    k->nphases = s->rows > 0;
    k->scratch_bytes = sizeof(block);
    k->work_bytes =
        (size_t)s->rows * (again ? (size_t)s->classes * sizeof(double) : (size_t)s->samples * sizeof(arrival));
    k->cost_ns = 200 + (double)s->rows * (20.0 * (double)s->classes + 30.0 * (double)s->samples);
    return TD_OK;
}
