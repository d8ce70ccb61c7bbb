/* sort and topk along one dimension: values and int64 indices, stable.
 *
 * A row that fits is sorted by one chunk in its scratch. A longer one is sorted in blocks, and the blocks are merged by
 * chunks that each find their part of the result by rank: the cut follows from the length alone. topk keeps the k best
 * of a row in a heap, or sorts when k is a good part of the row. */
#include "daemon/kernels/cpu/index_map.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/sort_pairs.h"
#include "daemon/kernels/plans.h"

typedef struct sort_state {
    int64_t rows, n, k, step, inner; /* n: length; k: how many are wanted; inner: stride of both outputs */
    int64_t per, blocks, parts;      /* rows of a chunk; blocks and parts of a long row */
    int nr;
    int64_t shape[TD_MAX_DIMS], stride[TD_MAX_DIMS]; /* the other dimensions, of x */
    uint8_t dtype, size;
    bool descending;
} sort_state;

static const char *row_of(const td_kcall *k, const sort_state *s, int64_t r)
{
    return (const char *)k->in[0].data + td_flat_at(s->nr, s->shape, s->stride, r) * s->size;
}

/* Sorted pairs [first, first + n) of row r's result. */
static void write_pairs(const td_kcall *k, const sort_state *s, int64_t r, const td_pair *p, int64_t first, int64_t n)
{
    int64_t at = r / s->inner * s->inner * s->k + r % s->inner + first * s->inner;
    const char *x = row_of(k, s, r);
    char *values = (char *)k->out[0].data + at * s->size;
    int64_t *indices = (int64_t *)k->out[1].data + at;
    for (int64_t i = 0; i < n; i++) {
        memcpy(values + i * s->inner * s->size, x + p[i].index * s->step * s->size, s->size);
        indices[i * s->inner] = p[i].index;
    }
}

static void sort_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const sort_state *s = (const sort_state *)k->state;
    td_pair *pairs = scratch;
    int64_t b, e;
    td_cut_range(s->rows, s->per, chunk, &b, &e);
    for (; b < e; b++) {
        td_pairs_load(pairs, row_of(k, s, b), s->step, s->dtype, s->descending, 0, s->n);
        td_pairs_sort(pairs, pairs + s->n, s->n, td_key_bytes(s->dtype));
        write_pairs(k, s, b, pairs, 0, s->k);
    }
}

/* ---- long rows ---- */

static void block_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const sort_state *s = (const sort_state *)k->state;
    int64_t r = chunk / s->blocks, b, e;
    td_cut_range(s->n, TD_SORT_BLOCK, chunk % s->blocks, &b, &e);
    td_pair *pairs = (td_pair *)k->work + r * s->n + b;
    td_pairs_load(pairs, row_of(k, s, r) + b * s->step * s->size, s->step, s->dtype, s->descending, b, e - b);
    td_pairs_sort(pairs, scratch, e - b, td_key_bytes(s->dtype));
}

/* How many pairs of a sorted block are below (or, with `equal`, not above) the key. */
static int64_t count_below(const td_pair *p, int64_t n, uint64_t key, bool equal)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        if (p[mid].key < key || (equal && p[mid].key == key)) low = mid + 1;
        else high = mid;
    }
    return low;
}

static int64_t block_size(const sort_state *s, int64_t b)
{
    return td_min64(TD_SORT_BLOCK, s->n - b * TD_SORT_BLOCK);
}

static int64_t rank_of(const sort_state *s, const td_pair *row, uint64_t key, bool equal)
{
    int64_t sum = 0;
    for (int64_t b = 0; b < s->blocks; b++) sum += count_below(row + b * TD_SORT_BLOCK, block_size(s, b), key, equal);
    return sum;
}

/* at[b] = where block b is cut so that `rank` pairs lie before the cuts: by key, then by index (equal keys: earlier
 * blocks first). */
static void cut_blocks(const sort_state *s, const td_pair *row, int64_t rank, int64_t *at)
{
    uint64_t low = 0, high = UINT64_MAX; /* the smallest key with more than `rank` pairs not above it */
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (rank_of(s, row, mid, true) > rank) high = mid;
        else low = mid + 1;
    }
    int64_t rest = rank - rank_of(s, row, low, false);
    for (int64_t b = 0; b < s->blocks; b++) {
        at[b] = count_below(row + b * TD_SORT_BLOCK, block_size(s, b), low, false);
        int64_t equal = count_below(row + b * TD_SORT_BLOCK, block_size(s, b), low, true) - at[b];
        int64_t take = td_min64(equal, rest);
        at[b] += take;
        rest -= take;
    }
}

static inline bool head_less(const td_pair *row, const int64_t *at, int64_t a, int64_t b)
{
    return td_pair_less(row[a * TD_SORT_BLOCK + at[a]], row[b * TD_SORT_BLOCK + at[b]]);
}

static void sift(int64_t *heap, int64_t n, int64_t i, const td_pair *row, const int64_t *at)
{
    for (;;) {
        int64_t child = 2 * i + 1, keep = heap[i];
        if (child >= n) return;
        if (child + 1 < n && head_less(row, at, heap[child + 1], heap[child])) child++;
        if (!head_less(row, at, heap[child], keep)) return;
        heap[i] = heap[child];
        heap[child] = keep;
        i = child;
    }
}

/* Part `chunk` of the result: the next TD_SORT_BLOCK pairs from its rank on, merged from all blocks. */
static void merge_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const sort_state *s = (const sort_state *)k->state;
    int64_t r = chunk / s->parts, first, end, live = 0;
    const td_pair *row = (const td_pair *)k->work + r * s->n;
    td_pair *out = scratch;
    int64_t *at = (int64_t *)(out + TD_SORT_BLOCK), *heap = at + s->blocks;
    td_cut_range(s->k, TD_SORT_BLOCK, chunk % s->parts, &first, &end);
    cut_blocks(s, row, first, at);
    for (int64_t b = 0; b < s->blocks; b++)
        if (at[b] < block_size(s, b)) heap[live++] = b;
    for (int64_t i = live / 2 - 1; i >= 0; i--) sift(heap, live, i, row, at);
    for (int64_t i = 0, done = 0; i < end - first; i++) {
        if (td_kernel_rest_after(k, &done, 16)) return; /* each is many steps */
        int64_t b = heap[0];
        out[i] = row[b * TD_SORT_BLOCK + at[b]++];
        if (at[b] == block_size(s, b)) heap[0] = heap[--live];
        sift(heap, live, 0, row, at);
    }
    write_pairs(k, s, r, out, first, end - first);
}

/* ---- topk by heap ---- */

/* The worst of the kept pairs is on top. */
static void sink(td_pair *heap, int64_t n, int64_t i)
{
    for (;;) {
        int64_t child = 2 * i + 1;
        td_pair keep = heap[i];
        if (child >= n) return;
        if (child + 1 < n && td_pair_less(heap[child], heap[child + 1])) child++;
        if (!td_pair_less(keep, heap[child])) return;
        heap[i] = heap[child];
        heap[child] = keep;
        i = child;
    }
}

static void heap_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const sort_state *s = (const sort_state *)k->state;
    td_pair *heap = scratch, *spare = heap + s->k, *part = spare + s->k;
    int64_t b, e, done = 0;
    td_cut_range(s->rows, s->per, chunk, &b, &e);
    for (; b < e; b++) {
        const char *x = row_of(k, s, b);
        td_pairs_load(heap, x, s->step, s->dtype, s->descending, 0, s->k);
        for (int64_t i = s->k / 2 - 1; i >= 0; i--) sink(heap, s->k, i);
        for (int64_t at = s->k; at < s->n; at += TD_TOPK_PART) {
            int64_t n = td_min64(TD_TOPK_PART, s->n - at);
            if (td_kernel_rest_after(k, &done, n)) return;
            td_pairs_load(part, x + at * s->step * s->size, s->step, s->dtype, s->descending, at, n);
            for (int64_t i = 0; i < n; i++) {
                if (part[i].key >= heap[0].key) continue; /* later ones of equal key lose */
                heap[0] = part[i];
                sink(heap, s->k, 0);
            }
        }
        td_pairs_sort_all(heap, spare, s->k);
        write_pairs(k, s, b, heap, 0, s->k);
    }
}

/* ---- plans ---- */

static int start(td_kcall *k, sort_state *s, int64_t dim_in, const char *name, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    int dim;
    *s = (sort_state){.dtype = x->dtype, .size = (uint8_t)td_dtype_size(x->dtype), .rows = 1, .inner = 1, .n = 1};
    if (!td_key_bytes(x->dtype)) return td_refuse_dtype(k, 0, name, e);
    if (td_wrap_dim(dim_in, x->ndim, &dim, e)) return TD_E_INDEX;
    for (int d = 0; d < x->ndim; d++) {
        if (d == dim) continue;
        s->rows *= x->shape[d];
        if (d > dim) s->inner *= x->shape[d];
        s->shape[s->nr] = x->shape[d];
        s->stride[s->nr++] = x->stride[d];
    }
    if (x->ndim) {
        s->n = x->shape[dim];
        s->step = x->stride[dim];
    }
    s->k = s->n;
    return 0;
}

static void plan_rows(td_kcall *k, sort_state *s)
{
    double cost = (double)s->rows * (double)s->n * (s->n > TD_SORT_RADIX ? 25 : 12) + 100;
    k->cost_ns = cost;
    if (s->rows * s->k == 0) return;
    if (s->n <= 2 * TD_SORT_BLOCK) {
        s->per = td_max64(1, TD_SORT_CHUNK / td_max64(1, s->n));
        k->scratch_bytes = (size_t)(2 * s->n) * sizeof(td_pair);
        td_plan_phase(k, sort_chunk, td_cut(s->rows, s->per));
        return;
    }
    s->blocks = td_cut(s->n, TD_SORT_BLOCK);
    s->parts = td_cut(s->k, TD_SORT_BLOCK);
    td_plan_work(k, (size_t)(s->rows * s->n) * sizeof(td_pair));
    k->scratch_bytes = (size_t)TD_SORT_BLOCK * sizeof(td_pair) + (size_t)s->blocks * 16;
    td_plan_phase(k, block_chunk, s->rows * s->blocks);
    td_plan_phase(k, merge_chunk, s->rows * s->parts);
}

int td_cpu_plan_sort(td_kcall *k, td_error *e)
{
    sort_state *s = (sort_state *)k->state;
    int code = start(k, s, td_attr_int(k->attrs, 0), "sort", e);
    if (code) return code;
    s->descending = td_attr_bool(k->attrs, 1);
    plan_rows(k, s);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_topk(td_kcall *k, td_error *e)
{
    sort_state *s = (sort_state *)k->state;
    int code = start(k, s, td_attr_int(k->attrs, 1), "topk", e);
    if (code) return code;
    int64_t want = td_attr_int(k->attrs, 0);
    if (want < 0 || want > s->n)
        return td_fail(e, TD_E_INVALID, "topk: k is %lld, the dimension has %lld elements", (long long)want,
                       (long long)s->n);
    s->k = want;
    s->descending = td_attr_bool(k->attrs, 2);
    td_plan_moves_freely(k, sizeof *s);
    if (s->k > TD_TOPK_HEAP || s->k > s->n / TD_TOPK_SHARE) {
        plan_rows(k, s);
        return 0;
    }
    if (s->rows * s->k == 0) return 0;
    s->per = td_max64(1, TD_TOPK_CHUNK / td_max64(1, s->n));
    k->scratch_bytes = (size_t)(2 * s->k + TD_TOPK_PART) * sizeof(td_pair);
    td_plan_phase(k, heap_chunk, td_cut(s->rows, s->per));
    k->cost_ns = (double)s->rows * ((double)s->n * 3 + (double)s->k * 60) + 100;
    return 0;
}
