/* topk and kthvalue: some of a row in order, and one of them. The key that divides them from the rest is found by
 * counting, so nothing is sorted that is not asked for; few are gathered by comparing with the worst of those so far.
 *
 * Of a long row each chunk keeps the best k, and one more chooses among these; where many are wanted, or the k-th of
 * millions, the blocks are ordered as for a sort. */
#include "daemon/kernels/cpu/sets.h"
#include "daemon/kernels/cpu/order/sort.h"
#include "daemon/kernels/plans.h"

enum { BLOCK = TD_SORT_BLOCK };

enum { TOGETHER = 16 };

/* From i on, the first of the keys, taken some at a time, among which one is below; n: none. */
static TD_FOR_SETS(int64_t, next_below, (const uint64_t *keys, int64_t i, int64_t n, uint64_t key), (keys, i, n, key))
{
    for (; i + TOGETHER <= n; i += TOGETHER) {
        bool any = false;
        for (int j = 0; j < TOGETHER; j++) any |= keys[i + j] < key;
        if (any) return i;
    }
    return i;
}

/* Of the first n keys, which stood at `places`, the first `want` in order. */
static void best_of(uint64_t *keys, int64_t *places, int64_t n, int64_t want, uint64_t *words, uint64_t *spare)
{
    td_keys_order(keys, n, words, spare);
    for (int64_t i = 0; i < want; i++) spare[i] = keys[td_order_place(words[i])];
    for (int64_t i = 0; i < want; i++) words[i] = (uint64_t)places[td_order_place(words[i])];
    memcpy(keys, spare, sizeof *keys * (size_t)want);
    memcpy(places, words, sizeof *places * (size_t)want);
}

/* Those better than the worst of the best so far gather behind these, until there are so many that they are sorted. */
static bool keep_few(td_kcall *k, uint64_t *keys, int64_t n, int64_t want, uint64_t *words, uint64_t *spare,
                     int64_t *places)
{
    const int64_t room = td_max64(2 * TOGETHER, 4 * want);
    int64_t kept = room, done = 0;
    for (int64_t i = 0; i < kept; i++) places[i] = i;
    best_of(keys, places, kept, want, words, spare);
    kept = want;
    for (int64_t i = room, from, end; i < n; i = end) {
        from = next_below(keys, i, n, keys[want - 1]);
        end = td_min64(from + TOGETHER, n);
        if (td_kernel_rest_after(k, &done, end - i)) return false;
        for (int64_t j = from; j < end; j++) {
            if (keys[j] >= keys[want - 1]) continue; /* later ones of equal keys lose */
            keys[kept] = keys[j];
            places[kept] = j;
            if (++kept < room) continue;
            best_of(keys, places, kept, want, words, spare);
            kept = want;
        }
    }
    best_of(keys, places, kept, want, words, spare);
    return true;
}

/* The first `want` of n keys, equal ones in order of their places, at the front of `keys`; places[] says where they
 * stood. All have room for n. False: rested. */
static bool keep_first(td_kcall *k, uint64_t *keys, int64_t n, int64_t want, uint64_t *words, uint64_t *spare,
                       int64_t *places)
{
    uint64_t key;
    int64_t below, kept = 0;
    if (n >= 4 * TOGETHER && want <= n / TD_TOPK_FEW) return keep_few(k, keys, n, want, words, spare, places);
    if (!td_keys_select(k, keys, n, want - 1, spare, &key, &below)) return false;
    for (int64_t i = 0, equal = want - below; i < n && kept < want; i++) {
        const bool same = keys[i] == key, take = keys[i] < key || (same && equal > 0);
        keys[kept] = keys[i];
        places[kept] = i;
        equal -= same;
        kept += take;
    }
    return true;
}

/* From places of kept keys to those that are wanted, in order. */
static void in_order(const uint64_t *keys, int64_t n, const int64_t *places, uint64_t *words, uint64_t *spare)
{
    td_keys_order(keys, n, words, spare);
    for (int64_t i = 0; i < n; i++) words[i] = (uint64_t)places[td_order_place(words[i])];
}

static void topk_row(td_kcall *k, const td_sort *s, const char *x, const td_sort_room *room, char *values,
                     int64_t *indices)
{
    td_keys_load(room->keys, x, s->dtype, s->descending, s->n);
    if (s->n <= TD_SORT_RANKED) { /* ordered as fast as counted */
        td_keys_order(room->keys, s->n, room->words, room->spare);
        for (int64_t i = 0; i < s->k; i++) room->places[i] = td_order_place(room->words[i]);
        td_sort_write(values, indices, x, s->size, room->places, s->k, s->size);
        return;
    }
    if (!keep_first(k, room->keys, s->n, s->k, room->words, room->spare, room->places)) return;
    in_order(room->keys, s->k, room->places, room->words, room->spare);
    td_sort_write(values, indices, x, s->size, (int64_t *)room->words, s->k, s->size);
}

static void topk_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    td_sort_chunk(k, chunk, scratch, topk_row);
}

static void kth_row(td_kcall *k, const td_sort *s, const char *x, const td_sort_room *room, char *values,
                    int64_t *indices)
{
    uint64_t key;
    int64_t below, at = 0;
    td_keys_load(room->keys, x, s->dtype, false, s->n);
    if (s->n <= TD_SORT_RANKED) {
        td_keys_order(room->keys, s->n, room->words, room->spare);
        at = td_order_place(room->words[s->rank]);
        td_sort_write(values, indices, x, s->size, &at, 1, s->size);
        return;
    }
    if (!td_keys_select(k, room->keys, s->n, s->rank, room->spare, &key, &below)) return;
    for (int64_t left = s->rank - below;; at++)
        if (room->keys[at] == key && left-- == 0) break;
    td_sort_write(values, indices, x, s->size, &at, 1, s->size);
}

static void kth_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    td_sort_chunk(k, chunk, scratch, kth_row);
}

/* ---- long rows */

static int64_t kept_of(const td_sort *s)
{
    return (s->blocks - 1) * s->kept + td_min64(s->kept, s->n - (s->blocks - 1) * s->per);
}

/* Part by part, behind the best of those before, whose places in the row are in `own`. */
static void keep_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_sort *s = (const td_sort *)k->state;
    const int64_t r = chunk / s->blocks, b = chunk % s->blocks, all = kept_of(s);
    uint64_t *keys = scratch, *words = keys + BLOCK, *spare = words + BLOCK;
    int64_t *places = (int64_t *)(spare + BLOCK), *own = places + BLOCK, kept = 0, at, end, part;
    td_cut_range(s->n, s->per, b, &at, &end);
    for (; at < end; at += part) {
        const int64_t before = kept;
        part = td_min64(BLOCK - kept, end - at);
        td_keys_load(keys + kept, td_sort_read(k, s, r, at, part, (char *)spare), s->dtype, s->descending, part);
        kept = td_min64(s->kept, before + part);
        if (!keep_first(k, keys, before + part, kept, words, spare, places)) return;
        for (int64_t i = 0; i < kept; i++)
            words[i] = (uint64_t)(places[i] < before ? own[places[i]] : at + places[i] - before);
        memcpy(own, words, sizeof *own * (size_t)kept);
    }
    memcpy((uint64_t *)k->work + r * all + b * s->kept, keys, sizeof *keys * (size_t)kept);
    memcpy((int64_t *)k->work + (s->rows + r) * all + b * s->kept, own, sizeof *own * (size_t)kept);
}

static void choose_chunk(td_kcall *k, int64_t r, void *scratch)
{
    const td_sort *s = (const td_sort *)k->state;
    const int64_t all = kept_of(s);
    uint64_t *keys = (uint64_t *)k->work + r * all, *words = scratch, *spare = words + all;
    int64_t *at = (int64_t *)k->work + (s->rows + r) * all, *places = (int64_t *)(spare + all);
    if (!keep_first(k, keys, all, s->k, words, spare, places)) return;
    in_order(keys, s->k, places, words, spare);
    const char *x = td_sort_at(k, s, r);
    char *values = (char *)k->out[0].data;
    int64_t *indices = k->out[1].data, to = r / s->inner * s->inner * s->k + r % s->inner;
    for (int64_t i = 0; i < s->k; i++, to += s->inner)
        td_sort_write(values + to * s->size, indices + to, x, s->step * s->size, &at[words[i]], 1, s->size);
}

static void place_chunk(td_kcall *k, int64_t r, void *scratch)
{
    const td_sort *s = (const td_sort *)k->state;
    int64_t *at = scratch, b = td_sort_cut(k, s, r, s->rank, at, at + s->blocks),
            place = td_sort_place(k, s, r, b, at[b]);
    td_sort_write((char *)k->out[0].data + r * s->size, (int64_t *)k->out[1].data + r, td_sort_at(k, s, r),
                  s->step * s->size, &place, 1, s->size);
}

/* ---- plans */

int td_cpu_plan_topk(td_kcall *k, td_error *e)
{
    td_sort *s = (td_sort *)k->state;
    int rc = td_sort_start(k, s, td_attr_int(k->attrs, 1), "topk", e);
    if (rc) return rc;
    int64_t want = td_attr_int(k->attrs, 0);
    if (want < 0 || want > s->n)
        return td_fail(e, TD_E_INVALID, "topk: k is %lld, the dimension has %lld elements", (long long)want,
                       (long long)s->n);
    s->k = want;
    s->descending = td_attr_bool(k->attrs, 2);
    const double rows = (double)s->rows, n = (double)s->n;
    k->cost_ns = rows * (n * (s->k <= s->n / TD_TOPK_FEW ? 2 : 5) + (double)want * 8) + 100;
    td_plan_moves_freely(k, sizeof *s);
    if (s->rows * s->k == 0) return 0;
    if (s->n <= 2 * BLOCK) {
        td_sort_plan_rows(k, s, topk_chunk);
    } else if (s->k > TD_TOPK_KEPT) {
        k->cost_ns = rows * (n * 8 + (double)want * 8) + 100;
        td_sort_plan_long(k, s);
    } else {
        s->kept = s->k;
        s->per = td_cut(s->n, (int64_t)BLOCK * TD_TOPK_CHUNKS) * BLOCK;
        s->blocks = td_cut(s->n, s->per);
        td_plan_work(k, (size_t)(s->rows * kept_of(s)) * 16);
        k->scratch_bytes = (size_t)td_max64(BLOCK * 4 + TD_TOPK_KEPT, kept_of(s) * 3) * 8;
        td_plan_phase(k, keep_chunk, s->rows * s->blocks);
        td_plan_phase(k, choose_chunk, s->rows);
    }
    return 0;
}

int td_cpu_plan_kth(td_kcall *k, td_error *e)
{
    td_sort *s = (td_sort *)k->state;
    int rc = td_sort_start(k, s, td_attr_int(k->attrs, 0), "kth", e);
    if (rc) return rc;
    const int64_t want = td_attr_int(k->attrs, 1);
    if (want < 1 || want > s->n)
        return td_fail(e, TD_E_INVALID, "kth: k is %lld, the dimension has %lld elements", (long long)want,
                       (long long)s->n);
    s->k = 1;
    s->rank = want - 1;
    k->cost_ns = (double)s->rows * (double)s->n * (s->n > 2 * BLOCK ? 8 : 4) + 100;
    td_plan_moves_freely(k, sizeof *s);
    if (s->rows == 0) return 0;
    if (s->n <= 2 * BLOCK) {
        td_sort_plan_rows(k, s, kth_chunk);
    } else {
        td_sort_plan_blocks(k, s);
        td_plan_phase(k, place_chunk, s->rows);
    }
    return 0;
}
