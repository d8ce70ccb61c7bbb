/* Chunks, without memory behind them: after each step all neighbours, bins and sums are looked at, and each chunk that
 * is taken is the one that a plain search takes. */
#include "shm/arena.h"
#include "tests/unit/cunit_main.h"
#include <stdlib.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

enum { SEGMENTS = 3, TAKEN = 400, LOOK = 8 };

static uint64_t rng = 88172645463325252u;
static uint64_t rnd(uint64_t below)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return rng % below;
}

static td_heap h;
static td_segment memory[SEGMENTS];
static td_arena_segment arena[SEGMENTS];

static void open_one(int i, uint64_t size)
{
    memory[i].size = size;
    arena[i] = (td_arena_segment){.segment = &memory[i], .heap = &h};
    CU_ASSERT_TRUE_FATAL(td_chunk_open(&h, &arena[i]));
}

static void bin_of(uint64_t size, unsigned *row, unsigned *column)
{
    *row = 0;
    while (size >> (*row + TD_BIN_FIRST + 1)) ++*row;
    *column =
        (unsigned)((size - (UINT64_C(1) << (*row + TD_BIN_FIRST))) / ((UINT64_C(1) << (*row + TD_BIN_FIRST)) / 8));
    if (*row >= TD_BIN_ROWS) *row = TD_BIN_ROWS - 1, *column = TD_BIN_COLUMNS - 1;
}

static bool in_bin(const td_chunk *c)
{
    unsigned r, k;
    bin_of(c->size, &r, &k);
    for (const td_chunk *x = h.bin[r][k]; x; x = x->bin_next)
        if (x == c) return true;
    return false;
}

static bool one_holds(const td_arena_segment *a, unsigned *free_ones)
{
    uint64_t at = 0, used = 0;
    const td_chunk *before = NULL;
    bool good = true;
    for (const td_chunk *c = a->whole; c && good; before = c, c = c->after) {
        good = c->owner == a && c->offset == at && c->before == before && c->size >= TD_CHUNK_MIN && c->size % 64 == 0;
        good = good && !(c->free && before && before->free) && (!c->free || in_bin(c));
        at += c->size;
        used += c->free ? 0 : c->size;
        *free_ones += c->free;
    }
    return good && at == a->segment->size && used == a->used;
}

static bool holds(int segments)
{
    unsigned free_ones = 0, hang = 0;
    bool good = true;
    for (int i = 0; i < segments && good; i++) good = one_holds(&arena[i], &free_ones);
    for (unsigned r = 0; r < TD_BIN_ROWS; r++) {
        for (unsigned k = 0; k < TD_BIN_COLUMNS; k++) {
            const td_chunk *before = NULL;
            for (const td_chunk *c = h.bin[r][k]; c; before = c, c = c->bin_next, hang++)
                good = good && c->free && c->bin_prev == before;
            good = good && !h.bin[r][k] == !(h.column_bits[r] >> k & 1);
        }
        good = good && !h.column_bits[r] == !(h.row_bits >> r & 1);
    }
    return good && hang == free_ones;
}

/* Where an extent would begin in a chunk: aligned, and what is in front is nothing or a chunk. UINT64_MAX: nowhere. */
static uint64_t begins(const td_chunk *c, uint64_t bytes, uint64_t align)
{
    uint64_t at = c->offset;
    while (at % align || (at > c->offset && at - c->offset < TD_CHUNK_MIN)) at += 64;
    return at + bytes <= c->offset + c->size ? at : UINT64_MAX;
}

/* The search that shm/chunk.c describes, bin after bin. */
static const td_chunk *wanted(uint64_t bytes, uint64_t align)
{
    unsigned own_row, own_column;
    if (bytes < TD_CHUNK_MIN) bytes = TD_CHUNK_MIN;
    bin_of(bytes, &own_row, &own_column);
    for (unsigned r = own_row; r < TD_BIN_ROWS; r++)
        for (unsigned k = r == own_row ? own_column : 0; k < TD_BIN_COLUMNS; k++) {
            bool own = r == own_row && k == own_column;
            int most = own && r == TD_BIN_ROWS - 1 ? -1 : own || align > 64 ? LOOK : 1;
            for (const td_chunk *c = h.bin[r][k]; c && most; c = c->bin_next, most--)
                if (begins(c, bytes, align) != UINT64_MAX) return c;
        }
    return NULL;
}

static td_chunk *take(uint64_t bytes, uint64_t align)
{
    const td_chunk *from = wanted(bytes, align);
    uint64_t least = bytes < TD_CHUNK_MIN ? TD_CHUNK_MIN : bytes, at = from ? begins(from, least, align) : 0;
    const td_arena_segment *owner = from ? from->owner : NULL;
    td_chunk *c = td_chunk_take(&h, bytes, align);
    CU_ASSERT_EQUAL_FATAL(!c, !from);
    if (!c) return NULL;
    CU_ASSERT_TRUE_FATAL(c->owner == owner && c->offset == at && !c->free && !c->owner->rested);
    CU_ASSERT_TRUE_FATAL(c->size >= least && c->size - least < TD_CHUNK_MIN);
    return c;
}

static void close_all(int segments)
{
    for (int i = 0; i < segments; i++) td_chunk_close(&h, &arena[i]);
    CU_ASSERT_TRUE(!h.row_bits && holds(0));
    CU_ASSERT_EQUAL(td_chunk_largest(&h), 0);
    td_chunk_drop_spares(&h);
    CU_ASSERT_TRUE(!h.spare && !h.spares);
}

static uint64_t random_size(void)
{
    uint64_t most = UINT64_C(1) << (6 + rnd(15));
    return (1 + rnd(most / 64)) * 64;
}

static void any_order(void)
{
    static td_chunk *taken[TAKEN];
    int n = 0;
    h = (td_heap){0};
    for (int i = 0; i < SEGMENTS; i++) open_one(i, MIB << (2 * i));
    for (int step = 0; step < 40000; step++) {
        switch (n ? rnd(n == TAKEN ? 2 : 5) : 4) {
        case 0:
        case 1: {
            int k = (int)rnd((uint64_t)n);
            taken[k]->owner->rested = true;
            td_chunk_give(&h, taken[k]);
            taken[k] = taken[--n];
            break;
        }
        case 2: {
            td_chunk *c = taken[rnd((uint64_t)n)];
            uint64_t before = c->size, to = (1 + rnd(before / 64)) * 64, least = to < TD_CHUNK_MIN ? TD_CHUNK_MIN : to;
            td_chunk_shrink(&h, c, to);
            CU_ASSERT_EQUAL_FATAL(c->size, before - least < TD_CHUNK_MIN ? before : least);
            break;
        }
        default: {
            td_chunk *c = take(random_size(), rnd(2) ? 64 : 4096);
            if (c) taken[n++] = c;
        }
        }
        CU_ASSERT_TRUE_FATAL(holds(SEGMENTS));
    }
    while (n--) td_chunk_give(&h, taken[n]);
    CU_ASSERT_TRUE(holds(SEGMENTS));
    CU_ASSERT_EQUAL(td_chunk_largest(&h), memory[SEGMENTS - 1].size);
    close_all(SEGMENTS);
}

/* A rest of TD_CHUNK_MIN is a chunk, and less stays with the extent. */
static void rests(void)
{
    for (uint64_t rest = 0; rest <= 2 * TD_CHUNK_MIN; rest += 64) {
        h = (td_heap){0};
        open_one(0, 8 * KIB + rest);
        td_chunk *c = take(8 * KIB, 64);
        CU_ASSERT_EQUAL(c->size, rest < TD_CHUNK_MIN ? 8 * KIB + rest : 8 * KIB);
        CU_ASSERT_EQUAL(td_chunk_largest(&h), rest < TD_CHUNK_MIN ? 0 : rest);
        td_chunk_shrink(&h, c, 8 * KIB);
        CU_ASSERT_TRUE(holds(1));
        td_chunk_give(&h, c);
        close_all(1);
    }
}

/* Chunks of more than 2**42 bytes are in one bin, which is looked through as a whole. */
static void beyond_the_bins(void)
{
    const uint64_t tib = UINT64_C(1) << 40;
    h = (td_heap){0};
    open_one(0, 80 * tib);
    td_chunk *between[12], *c[12];
    for (int i = 0; i < 12; i++) {
        c[i] = take((uint64_t)(i == 0 ? 6 : 5) * tib, 64);
        between[i] = take(64, 64);
    }
    for (int i = 0; i < 12; i++) td_chunk_give(&h, c[i]); /* the largest is behind eleven others */
    CU_ASSERT_TRUE(holds(1));
    td_chunk *last = take(arena[0].segment->size - 61 * tib - 12 * TD_CHUNK_MIN, 64);
    CU_ASSERT_PTR_NOT_NULL(last);
    td_chunk *large = take(6 * tib, 64);
    CU_ASSERT_TRUE_FATAL(large && large->offset == 0);
    CU_ASSERT_PTR_NULL(take(7 * tib, 64));
    CU_ASSERT_EQUAL(td_chunk_largest(&h), 5 * tib);
    td_chunk_give(&h, large), td_chunk_give(&h, last);
    for (int i = 0; i < 12; i++) td_chunk_give(&h, between[i]);
    CU_ASSERT_TRUE(holds(1));
    close_all(1);
}

/* Records of chunks that went are kept for the next ones, so many at most. */
static void records(void)
{
    enum { N = 5000, KEPT = 4096 };
    static td_chunk *c[N];
    h = (td_heap){0};
    open_one(0, N * 2 * KIB);
    for (int i = 0; i < N; i++) CU_ASSERT_PTR_NOT_NULL_FATAL((c[i] = take(2 * KIB, 64)));
    CU_ASSERT_EQUAL(h.spares, 0);
    CU_ASSERT_EQUAL(td_chunk_largest(&h), 0);
    CU_ASSERT_PTR_NULL(take(64, 64));
    for (int i = 0; i < N; i++) {
        td_chunk_give(&h, c[i]);
        CU_ASSERT_EQUAL(h.spares, i < KEPT ? (unsigned)i : KEPT);
    }
    td_chunk *one = take(2 * KIB, 64);
    CU_ASSERT_EQUAL(h.spares, KEPT - 1);
    td_chunk_give(&h, one);
    close_all(1);
}

TD_CUNIT_MAIN("shm_chunk", {"any order", any_order}, {"rests", rests}, {"beyond the bins", beyond_the_bins},
              {"records", records})
