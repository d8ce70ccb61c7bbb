/* sort along one dimension: values and int64 indices, stable.
 *
 * A row that fits is sorted by one chunk. A longer one is sorted in blocks; then each chunk finds by rank which part of
 * every block goes to its part of the result, and sorts what they have together: the cut follows from the length alone.
 */
#include "daemon/kernels/cpu/order/sort.h"
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/plans.h"

enum { BLOCK = TD_SORT_BLOCK };

#define PICK(T)                                                                                                        \
    for (int64_t i = 0; i < n; i++) ((T *)values)[i] = *(const T *)(x + places[i] * step);                             \
    break

void td_sort_write(char *values, int64_t *indices, const char *x, int64_t step, const int64_t *places, int64_t n,
                   int size)
{
    memcpy(indices, places, sizeof *places * (size_t)n);
    switch (size) {
    case 1: PICK(uint8_t);
    case 2: PICK(uint16_t);
    case 4: PICK(uint32_t);
    default: PICK(uint64_t);
    }
}

/* ---- whole rows */

static size_t padded(int64_t elements, size_t size)
{
    return ((size_t)elements * size + 63) & ~(size_t)63;
}

void td_sort_plan_rows(td_kcall *k, td_sort *s, td_chunk_fn chunk)
{
    const size_t row = (size_t)s->n * s->size + (size_t)s->k * (s->size + 8);
    if (s->rows * s->k == 0) return;
    s->group = s->inner == 1 && s->step == 1 ? 1 : td_min64(TD_SORT_GROUP, TD_SORT_GROUP_BYTES / ((int64_t)row + 1));
    s->group = td_max64(1, s->group);
    s->per = td_max64(s->group, TD_SORT_CHUNK / td_max64(1, s->n));
    k->scratch_bytes = padded(s->group * s->n, s->size) + padded(s->group * s->k, s->size) +
                       padded(s->group * s->k, 8) + 4 * padded(s->n, 8);
    td_plan_phase(k, chunk, td_cut(s->rows, s->per));
}

void td_sort_chunk(td_kcall *k, int64_t chunk, void *scratch, td_sort_row row)
{
    const td_sort *s = (const td_sort *)k->state;
    const bool turned = s->step != 1 && s->n > 1, apart = s->inner > 1 && s->k > 1;
    const int64_t size = s->size, width = s->nr ? s->shape[s->nr - 1] : 1, next = s->nr ? s->stride[s->nr - 1] : 0;
    td_sort_room room = {.raw = scratch};
    char *values = room.raw + padded(s->group * s->n, s->size);
    int64_t *indices = (int64_t *)(values + padded(s->group * s->k, s->size)), b, e, g, done = 0;
    room.places = indices + padded(s->group * s->k, 8) / 8;
    room.keys = (uint64_t *)room.places + padded(s->n, 8) / 8;
    room.words = room.keys + padded(s->n, 8) / 8;
    room.spare = room.words + padded(s->n, 8) / 8;
    td_cut_range(s->rows, s->per, chunk, &b, &e);
    for (; b < e; b += g) {
        g = td_min64(td_min64(s->group, e - b), width - b % width);
        if (turned) td_gather(room.raw, td_sort_at(k, s, b), g, s->n, next * size, s->step * size, (int)size);
        const int64_t to = b / s->inner * s->inner * s->k + b % s->inner;
        char *v = apart ? values : (char *)k->out[0].data + to * size;
        int64_t *at = apart ? indices : (int64_t *)k->out[1].data + to;
        for (int64_t i = 0; i < g; i++) {
            if (td_kernel_rest_after(k, &done, 4 * s->n)) return; /* an element takes some nanoseconds */
            row(k, s, turned ? room.raw + i * s->n * size : td_sort_at(k, s, b + i), &room, v + i * s->k * size,
                at + i * s->k);
        }
        if (!apart) continue;
        td_scatter((char *)k->out[0].data + to * size, values, g, s->k, size, s->inner * size, (int)size);
        td_scatter((int64_t *)k->out[1].data + to, indices, g, s->k, 8, s->inner * 8, 8);
    }
}

static void sort_row(td_kcall *k, const td_sort *s, const char *x, const td_sort_room *room, char *values,
                     int64_t *indices)
{
    (void)k;
    td_keys_load(room->keys, x, s->dtype, s->descending, s->n);
    td_keys_order(room->keys, s->n, room->words, room->spare);
    for (int64_t i = 0; i < s->k; i++) room->places[i] = td_order_place(room->words[i]);
    td_sort_write(values, indices, x, s->size, room->places, s->k, s->size);
}

static void rows_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    td_sort_chunk(k, chunk, scratch, sort_row);
}

/* ---- long rows: in work memory the keys of each block in order, then where in its block each stood */

static uint64_t *keys_of(const td_kcall *k, const td_sort *s, int64_t r, int64_t block)
{
    return (uint64_t *)k->work + r * s->n + block * BLOCK;
}

static uint32_t *places_of(const td_kcall *k, const td_sort *s, int64_t r, int64_t block)
{
    return (uint32_t *)((uint64_t *)k->work + s->rows * s->n) + r * s->n + block * BLOCK;
}

static int64_t block_size(const td_sort *s, int64_t b)
{
    return td_min64(BLOCK, s->n - b * BLOCK);
}

int64_t td_sort_place(const td_kcall *k, const td_sort *s, int64_t r, int64_t block, int64_t i)
{
    return block * BLOCK + places_of(k, s, r, block)[i];
}

const char *td_sort_read(const td_kcall *k, const td_sort *s, int64_t r, int64_t first, int64_t n, char *to)
{
    const char *x = td_sort_at(k, s, r) + first * s->step * s->size;
    if (s->step == 1) return x;
    td_gather(to, x, 1, n, 0, s->step * s->size, s->size);
    return to;
}

static void block_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_sort *s = (const td_sort *)k->state;
    const int64_t r = chunk / s->blocks, b = chunk % s->blocks, n = block_size(s, b);
    uint64_t *keys = scratch, *words = keys + BLOCK, *spare = words + BLOCK, *to = keys_of(k, s, r, b);
    uint32_t *places = places_of(k, s, r, b);
    if (td_kernel_rest(k)) return;
    td_keys_load(keys, td_sort_read(k, s, r, b * BLOCK, n, (char *)spare), s->dtype, s->descending, n);
    td_keys_order(keys, n, words, spare);
    for (int64_t i = 0; i < n; i++) to[i] = keys[places[i] = (uint32_t)td_order_place(words[i])];
}

void td_sort_plan_blocks(td_kcall *k, td_sort *s)
{
    s->blocks = td_cut(s->n, BLOCK);
    td_plan_work(k, (size_t)(s->rows * s->n) * 12);
    k->scratch_bytes = (size_t)BLOCK * 32 + (size_t)s->blocks * 32; /* of both phases */
    td_plan_phase(k, block_chunk, s->rows * s->blocks);
}

/* Of the first n of p, in order, how many are not above the key, where the first `low` are not. */
static int64_t not_above(const uint64_t *p, int64_t low, int64_t n, uint64_t key)
{
    while (low < n) {
        int64_t mid = (low + n) / 2;
        if (p[mid] <= key) low = mid + 1;
        else n = mid;
    }
    return low;
}

/* The smallest key with more than `rank` not above it is between two, which draw near; so do the places between which
 * each block is cut. */
int64_t td_sort_cut(const td_kcall *k, const td_sort *s, int64_t r, int64_t rank, int64_t *at, int64_t *spare)
{
    int64_t *end = spare, *mids = end + s->blocks, rest = rank, found = -1;
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t b = 0; b < s->blocks; b++) {
        const uint64_t *keys = keys_of(k, s, r, b);
        at[b] = 0, end[b] = block_size(s, b);
        if (keys[0] < low) low = keys[0];
        if (keys[end[b] - 1] > high) high = keys[end[b] - 1];
    }
    while (low < high) {
        const uint64_t mid = low + (high - low) / 2;
        int64_t sum = 0, *moves;
        for (int64_t b = 0; b < s->blocks; b++) sum += mids[b] = not_above(keys_of(k, s, r, b), at[b], end[b], mid);
        moves = sum > rank ? end : at;
        for (int64_t b = 0; b < s->blocks; b++) moves[b] = mids[b];
        if (sum > rank) high = mid;
        else low = mid + 1;
    }
    for (int64_t b = 0; b < s->blocks; b++) rest -= at[b];
    for (int64_t b = 0; b < s->blocks; b++) { /* of equal ones those of earlier blocks come first */
        const int64_t left = end[b] - at[b], take = td_min64(left, rest);
        at[b] += take;
        rest -= take;
        if (found < 0 && take < left) found = b;
    }
    return found < 0 ? 0 : found;
}

/* Part `chunk` of the result: BLOCK elements from its rank on, which stand in order in each block, so behind each other
 * they are nearly sorted, and equal ones stand as they should. */
static void merge_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_sort *s = (const td_sort *)k->state;
    int64_t r = chunk / s->parts, first, last, n = 0;
    uint64_t *keys = scratch, *words = keys + BLOCK, *spare = words + BLOCK;
    int64_t *places = (int64_t *)(spare + BLOCK), *at = places + BLOCK, *end = at + s->blocks, *more = end + s->blocks;
    td_cut_range(s->k, BLOCK, chunk % s->parts, &first, &last);
    if (td_kernel_rest(k)) return;
    td_sort_cut(k, s, r, first, at, more);
    td_sort_cut(k, s, r, last, end, more);
    for (int64_t b = 0; b < s->blocks; b++)
        for (int64_t i = at[b]; i < end[b]; i++, n++) {
            keys[n] = keys_of(k, s, r, b)[i];
            places[n] = td_sort_place(k, s, r, b, i);
        }
    if (td_kernel_rest(k)) return;
    td_keys_order(keys, n, words, spare);
    for (int64_t i = 0; i < n; i++) spare[i] = (uint64_t)places[td_order_place(words[i])];
    const int64_t to = r / s->inner * s->inner * s->k + r % s->inner + first * s->inner;
    td_sort_write((char *)words, (int64_t *)keys, td_sort_at(k, s, r), s->step * s->size, (int64_t *)spare, n, s->size);
    td_scatter((char *)k->out[0].data + to * s->size, words, 1, n, 0, s->inner * s->size, s->size);
    td_scatter((int64_t *)k->out[1].data + to, spare, 1, n, 0, s->inner * 8, 8);
}

void td_sort_plan_long(td_kcall *k, td_sort *s)
{
    if (s->rows * s->k == 0) return;
    s->parts = td_cut(s->k, BLOCK);
    td_sort_plan_blocks(k, s);
    td_plan_phase(k, merge_chunk, s->rows * s->parts);
}

/* ---- plans */

int td_sort_start(td_kcall *k, td_sort *s, int64_t dim_in, const char *name, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    int dim;
    *s = (td_sort){.dtype = x->dtype, .size = (uint8_t)td_dtype_size(x->dtype), .rows = 1, .inner = 1, .n = 1};
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

int td_cpu_plan_sort(td_kcall *k, td_error *e)
{
    td_sort *s = (td_sort *)k->state;
    int rc = td_sort_start(k, s, td_attr_int(k->attrs, 0), "sort", e);
    if (rc) return rc;
    s->descending = td_attr_bool(k->attrs, 1);
    k->cost_ns = (double)s->rows * (double)s->n * (s->n > 2 * BLOCK ? 16 : 8) + 100;
    td_plan_moves_freely(k, sizeof *s);
    if (s->n <= 2 * BLOCK) {
        td_sort_plan_rows(k, s, rows_chunk);
        return 0;
    }
    td_sort_plan_long(k, s);
    return 0;
}
