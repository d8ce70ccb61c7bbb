/* Heaps: against a model (no overlap, alignment, everything merges back), in bulk, at their limits, and as orphans. */
#include "shm/arena.h"
#include "tests/unit/cunit_main.h"
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

static uint64_t rng = 88172645463325252u;
static uint64_t rnd(void)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return rng;
}

static td_heap *heap(td_budget *b)
{
    td_heap *h;
    CU_ASSERT_EQUAL_FATAL(td_heap_new(&h, b, TD_SEGMENT_SESSION, 1000, NULL), 0);
    return h;
}

static td_heap_stats stats(const td_heap *h)
{
    td_heap_stats s;
    td_heap_get_stats(h, &s);
    return s;
}

static td_extent get(td_heap *h, uint64_t bytes)
{
    td_extent x;
    CU_ASSERT_EQUAL_FATAL(td_heap_alloc_now(h, bytes, &x, NULL), 0);
    return x;
}

static uint64_t random_size(void)
{
    switch (rnd() % 8) {
    case 0: return 4096 + rnd() % 60000;
    case 1: return 65536 + rnd() % MIB;
    case 2: return rnd() % 16 ? rnd() % 64 : 2 * MIB + rnd() % (3 * MIB);
    default: return rnd() % 4200;
    }
}

/* Every live extent is filled with its own byte pattern at both ends; another's write would show. */
typedef struct live {
    td_extent x;
    uint64_t bytes, mark;
} live;

static bool stamp_holds(const live *l)
{
    const unsigned char *p = td_extent_data(&l->x);
    if (l->bytes < 16) return true;
    return !memcmp(p, &l->mark, 8) && !memcmp(p + l->bytes - 8, &l->mark, 8);
}

static void stamp(live *l)
{
    unsigned char *p = td_extent_data(&l->x);
    l->mark = rnd();
    if (l->bytes < 16) return;
    memcpy(p, &l->mark, 8);
    memcpy(p + l->bytes - 8, &l->mark, 8);
}

static int by_place(const void *a, const void *b)
{
    const live *x = a, *y = b;
    uintptr_t p = (uintptr_t)td_extent_data(&x->x), q = (uintptr_t)td_extent_data(&y->x);
    return p < q ? -1 : p > q;
}

static bool disjoint(const live *l, int n)
{
    live *copy = malloc((size_t)n * sizeof *copy);
    int k = 0;
    for (int i = 0; i < n; i++)
        if (l[i].x.segment) copy[k++] = l[i];
    qsort(copy, (size_t)k, sizeof *copy, by_place);
    bool good = true;
    for (int i = 1; i < k; i++)
        if ((uintptr_t)td_extent_data(&copy[i - 1].x) + copy[i - 1].x.size > (uintptr_t)td_extent_data(&copy[i].x))
            good = false;
    free(copy);
    return good;
}

static void against_a_model(void)
{
    enum { SLOTS = 700, STEPS = 120000 };
    static live l[SLOTS];
    td_budget b;
    td_budget_init(&b, 4096 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    uint64_t used = 0, torn = 0, misplaced = 0;
    for (int i = 0; i < STEPS; i++) {
        live *s = &l[rnd() % SLOTS];
        if (s->x.segment && rnd() % 4 == 0) {
            torn += !stamp_holds(s);
            used -= s->x.size;
            s->bytes = rnd() % (s->x.size + 1);
            td_heap_shrink(h, &s->x, s->bytes);
            used += s->x.size;
            stamp(s);
        } else if (s->x.segment) {
            torn += !stamp_holds(s);
            used -= s->x.size;
            td_heap_release(h, &s->x);
        } else {
            s->bytes = random_size();
            s->x = get(h, s->bytes);
            used += s->x.size;
            stamp(s);
            misplaced += s->x.offset % 64 != 0 || s->x.size % 64 != 0 || s->x.size < s->bytes || !s->x.size;
            misplaced += s->bytes >= 2 * MIB && (uintptr_t)td_extent_data(&s->x) % 4096 != 0;
            misplaced += s->x.offset + s->x.size > s->x.segment->size || td_extent_heap(&s->x) != h;
        }
        if (i % 10000 == 0) CU_ASSERT(disjoint(l, SLOTS));
        if (stats(h).used != used || b.used != used) misplaced++;
    }
    CU_ASSERT_EQUAL(torn, 0);
    CU_ASSERT_EQUAL(misplaced, 0);
    for (int i = 0; i < SLOTS; i++)
        if (l[i].x.segment) td_heap_release(h, &l[i].x);
    CU_ASSERT_EQUAL(stats(h).used, 0);
    CU_ASSERT_EQUAL(stats(h).extents, 0);
    td_slab_drop_idle(h, NULL); /* then every segment is one free chunk again */
    for (td_arena_segment *a = h->segments; a; a = a->next) {
        CU_ASSERT_EQUAL(a->used, 0);
        CU_ASSERT(a->whole->free && a->whole->size == a->segment->size && !a->whole->after);
    }
    td_heap_trim(h);
    CU_ASSERT_EQUAL(stats(h).segments, 0);
    td_heap_free(h);
    CU_ASSERT_EQUAL(b.committed, b.warm_bytes);
    td_budget_deinit(&b);
    CU_ASSERT_EQUAL(b.committed, 0);
    CU_ASSERT_EQUAL(b.segments, 0);
}

static void a_million(void)
{
    enum { N = 1000000 };
    td_extent *x = malloc(N * sizeof *x);
    td_budget b;
    td_budget_init(&b, 1024 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    int bad = 0;
    for (int i = 0; i < N; i++) {
        bad += td_heap_alloc_now(h, 32, &x[i], NULL) != 0;
        *(int *)td_extent_data(&x[i]) = i;
    }
    CU_ASSERT_EQUAL(stats(h).extents, N);
    CU_ASSERT(stats(h).committed <= 2 * 64 * (uint64_t)N);
    for (int i = 0; i < N; i++) bad += *(int *)td_extent_data(&x[i]) != i;
    for (int i = 0; i < N; i++) td_heap_release(h, &x[i * 7919L % N]);
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT_EQUAL(stats(h).extents, 0);
    CU_ASSERT(stats(h).segments <= 1); /* one is kept warm */
    td_heap_free(h);
    td_budget_deinit(&b);
    free(x);
}

static void grows_from_small(void)
{
    td_budget b;
    td_budget_init(&b, 2048 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent x[3], y;
    td_need need = {0};
    CU_ASSERT_EQUAL(td_heap_alloc(h, 10, &x[0], &need, NULL), TD_WAIT_GROW);
    CU_ASSERT_EQUAL(need.bytes, TD_SEGMENT_MIN);
    CU_ASSERT_EQUAL(b.committed, 0); /* asking changed nothing */
    CU_ASSERT_PTR_NULL(x[0].segment);
    x[0] = get(h, 0);
    CU_ASSERT_EQUAL(x[0].size, TD_EXTENT_ALIGN);
    CU_ASSERT_EQUAL(stats(h).committed, TD_SEGMENT_MIN);
    CU_ASSERT_EQUAL(td_heap_alloc(h, 3 * MIB, &y, &need, NULL), TD_WAIT_GROW);
    CU_ASSERT_EQUAL(need.bytes, 4 * MIB);
    x[1] = get(h, 3 * MIB);
    CU_ASSERT_EQUAL(td_heap_alloc(h, TD_SEGMENT_MAX + 1, &y, &need, NULL), TD_WAIT_GROW);
    CU_ASSERT_EQUAL(need.bytes, TD_SEGMENT_MAX + 4096); /* one of its own */
    uint32_t first = x[0].segment->id;
    CU_ASSERT(first != 0 && x[1].segment->id != first && x[1].segment->generation == 1);
    CU_ASSERT_EQUAL(x[1].segment->uid, 1000);
    for (int i = 0; i < 2; i++) td_heap_release(h, &x[i]);
    td_heap_free(h);
    td_budget_deinit(&b);
}

/* One heap that grows must not take what others will need: it holds little more than it was asked for. */
static void grows_gently_near_the_limit(void)
{
    td_budget b;
    td_budget_init(&b, 64 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    enum { N = 55 };
    td_extent x[N];
    for (int i = 0; i < N; i++) {
        x[i] = get(h, MIB);
        CU_ASSERT(b.committed <= (uint64_t)(i + 1) * MIB + 8 * MIB);
    }
    for (int i = 0; i < N; i++) td_heap_release(h, &x[i]);
    td_heap_free(h);
    td_budget_deinit(&b);
}

static void warm_is_reused(void)
{
    td_budget b;
    td_budget_init(&b, 1024 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent x = get(h, 100), big = get(h, 3 * MIB), holds = get(h, 100);
    void *p = td_extent_data(&x), *q = td_extent_data(&big);
    td_heap_release(h, &x);
    td_heap_release(h, &big);
    CU_ASSERT_PTR_NULL(x.segment);
    x = get(h, 100);
    big = get(h, 3 * MIB);
    CU_ASSERT_PTR_EQUAL(td_extent_data(&x), p);
    CU_ASSERT_PTR_EQUAL(td_extent_data(&big), q);
    uint64_t segments = b.next_segment_id;
    td_heap_release(h, &big);
    for (int i = 0; i < 100; i++) { /* a large one each step: its segment waits warm, none is made */
        big = get(h, 40 * MIB);
        td_heap_release(h, &big);
    }
    CU_ASSERT(b.next_segment_id > segments);
    CU_ASSERT_EQUAL(b.segments, 3);
    td_heap_release(h, &holds);
    CU_ASSERT(b.warm_bytes >= 40 * MIB && b.warm_bytes <= b.warm_limit);
    td_heap_release(h, &x);
    td_heap_free(h);
    td_budget_deinit(&b);
}

/* A few large things and many small ones: what is committed follows what is used. */
static void large_ones_get_what_they_need(void)
{
    enum { BATCHES = 5, SMALL = 5000 };
    static td_extent small[SMALL];
    td_budget b;
    td_budget_init(&b, 4096 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent large[BATCHES];
    for (int i = 0; i < BATCHES; i++) {
        large[i] = get(h, 38 * MIB + 123);
        CU_ASSERT(stats(h).committed <= (uint64_t)(i + 1) * 39 * MIB);
    }
    for (int i = 0; i < SMALL; i++) small[i] = get(h, 4096);
    CU_ASSERT(stats(h).committed <= BATCHES * 39 * MIB + SMALL * 4096 + 48 * MIB);
    for (int i = 0; i < SMALL; i++) td_heap_release(h, &small[i]);
    for (int i = 0; i < BATCHES; i++) td_heap_release(h, &large[i]);
    td_heap_free(h);
    td_budget_deinit(&b);
}

static void another_uid_gets_none_of_it(void)
{
    td_budget b;
    td_budget_init(&b, 64 * MIB, TD_SHM_MEMFD);
    b.warm_limit = 64 * MIB;
    td_heap *h = heap(&b), *other, *service;
    CU_ASSERT_EQUAL(td_heap_new(&other, &b, TD_SEGMENT_SESSION, 2000, NULL), 0);
    CU_ASSERT_EQUAL(td_heap_new(&service, &b, TD_SEGMENT_SERVICE, 1000, NULL), 0);
    td_extent x = get(h, 20 * MIB), y;
    memset(td_extent_data(&x), 0x5a, x.size);
    td_heap_release(h, &x);
    CU_ASSERT_EQUAL(b.warm_bytes, 20 * MIB);
    td_need need = {0};
    CU_ASSERT_EQUAL(td_heap_alloc(other, 20 * MIB, &y, &need, NULL), TD_WAIT_GROW);
    CU_ASSERT_EQUAL(td_heap_alloc(service, 20 * MIB, &y, &need, NULL), TD_WAIT_GROW);
    y = get(other, 50 * MIB); /* there is room only when the warm one is given up */
    CU_ASSERT_EQUAL(b.warm_bytes, 0);
    const unsigned char *p = td_extent_data(&y);
    CU_ASSERT(p[0] == 0 && !memcmp(p, p + 1, y.size - 1));
    td_heap_release(other, &y);
    td_heap_free(other);
    td_heap_free(service);
    td_heap_free(h);
    td_budget_deinit(&b);
}

static void full_is_an_error(void)
{
    td_budget b;
    td_budget_init(&b, 3 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent x = get(h, 2 * MIB + 4096), y;
    td_need need = {0};
    td_error e = {0};
    CU_ASSERT_EQUAL(td_heap_alloc(h, 2 * MIB, &y, &need, &e), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "2.1 MB wanted"));
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "of 3.1 MB committed"));
    CU_ASSERT_EQUAL(td_heap_alloc_now(h, UINT64_MAX, &y, &e), TD_E_MEMORY);
    CU_ASSERT_EQUAL(td_heap_reserve(h, 2 * MIB, &e), TD_E_MEMORY);
    y = get(h, 32768); /* what still fits is given */
    CU_ASSERT(b.committed <= b.limit);
    td_heap_release(h, &x);
    td_heap_release(h, &y);
    x = get(h, 2 * MIB + 4096);
    td_heap_release(h, &x);
    td_heap_free(h);
    td_budget_deinit(&b);
    CU_ASSERT_EQUAL(b.committed, 0);
}

static void grown_elsewhere(void)
{
    td_budget b;
    td_budget_init(&b, 64 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent x;
    td_segment *s;
    td_need need = {0};
    CU_ASSERT_EQUAL(td_heap_alloc(h, MIB, &x, &need, NULL), TD_WAIT_GROW);
    CU_ASSERT_EQUAL(td_heap_reserve(h, need.bytes, NULL), 0);
    CU_ASSERT_EQUAL(b.committed, need.bytes);
    td_heap_unreserve(h, need.bytes); /* it failed elsewhere */
    CU_ASSERT_EQUAL(b.committed, 0);
    CU_ASSERT_EQUAL(td_heap_reserve(h, need.bytes, NULL), 0);
    CU_ASSERT_EQUAL(td_segment_create(&s, b.backend, TD_SEGMENT_SESSION, need.bytes, NULL), 0);
    td_heap_adopt(h, s);
    CU_ASSERT_EQUAL(td_heap_alloc(h, MIB, &x, &need, NULL), 0);
    CU_ASSERT_PTR_EQUAL(x.segment, s);
    CU_ASSERT_PTR_EQUAL(td_heap_next_segment(h, NULL), s);
    CU_ASSERT_PTR_NULL(td_heap_next_segment(h, s));
    CU_ASSERT_PTR_EQUAL(td_heap_find_segment(h, s->id, s->generation), s);
    CU_ASSERT_PTR_NULL(td_heap_find_segment(h, s->id, s->generation + 1));
    /* the owner goes while a segment is being made: the heap waits for it */
    CU_ASSERT_EQUAL(td_heap_reserve(h, MIB, NULL), 0);
    td_heap_release(h, &x);
    td_heap_orphan(h, false);
    CU_ASSERT_EQUAL(td_segment_create(&s, b.backend, TD_SEGMENT_SESSION, MIB, NULL), 0);
    td_heap_adopt(h, s);
    CU_ASSERT_EQUAL(b.committed, b.warm_bytes);
    td_budget_deinit(&b);
    CU_ASSERT_EQUAL(b.committed, 0);
}

static void what_clients_map_stays(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent x = get(h, 30 * MIB);
    td_segment *s = x.segment;
    s->shared = 1;
    td_heap_release(h, &x);
    CU_ASSERT_EQUAL(b.warm_bytes, 0);
    CU_ASSERT_EQUAL(td_heap_trim(h), 0);
    CU_ASSERT_EQUAL(stats(h).segments, 1);
    x = get(h, 30 * MIB); /* its own session gets it again */
    CU_ASSERT_PTR_EQUAL(x.segment, s);
    td_heap_release(h, &x);
    s->shared = 0;
    CU_ASSERT_EQUAL(td_heap_trim(h), 30 * MIB);
    CU_ASSERT_EQUAL(b.warm_bytes, 30 * MIB);
    td_heap_free(h);
    td_budget_deinit(&b);
}

static void orphans(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent x = get(h, 100), y = get(h, 20 * MIB), z;
    td_error e = {0};
    y.segment->shared = x.segment->shared = 1;
    td_heap_orphan(h, true);
    td_need need = {0};
    CU_ASSERT_EQUAL(td_heap_alloc(h, 100, &z, &need, &e), TD_E_CLOSED);
    td_heap_release(h, &y);
    CU_ASSERT_EQUAL(b.warm_bytes, 0); /* the process may still write there */
    CU_ASSERT(b.committed > 20 * MIB);
    td_heap_unmapped(h);
    CU_ASSERT_EQUAL(b.warm_bytes, 20 * MIB);
    CU_ASSERT_EQUAL(stats(h).segments, 1);
    td_heap_release(h, &x); /* the last one: the heap has ended itself */
    CU_ASSERT_EQUAL(b.committed, b.warm_bytes);
    CU_ASSERT_EQUAL(b.used, 0);

    h = heap(&b); /* all back before the process ends */
    x = get(h, 100);
    x.segment->shared = 1;
    td_heap_orphan(h, true);
    td_heap_release(h, &x);
    CU_ASSERT(b.committed > b.warm_bytes);
    td_heap_unmapped(h);
    CU_ASSERT_EQUAL(b.committed, b.warm_bytes);

    h = heap(&b);
    td_heap_orphan(h, false); /* nothing in it: gone at once */
    td_budget_deinit(&b);
    CU_ASSERT_EQUAL(b.committed, 0);
}

/* The process is still there and connects again: its next heap gets what may be mapped by it, and nobody else does. */
static void handed_over(void)
{
    td_budget b;
    td_budget_init(&b, 64 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b), *next = heap(&b), *stranger;
    td_extent x = get(h, 100), y = get(h, 20 * MIB);
    uint32_t id = y.segment->id;
    x.segment->shared = y.segment->shared = 1;
    td_heap_orphan(h, true);
    td_heap_release(h, &y);
    CU_ASSERT_EQUAL(td_heap_new(&stranger, &b, TD_SEGMENT_SESSION, 12345, NULL), 0);
    CU_ASSERT_EQUAL(td_heap_hand_over(h, stranger), 0);
    CU_ASSERT_EQUAL(td_heap_hand_over(h, next), 20 * MIB);
    CU_ASSERT_EQUAL(td_heap_hand_over(h, next), 0); /* something lies in the rest */
    uint64_t committed = b.committed;
    y = get(next, 20 * MIB);
    CU_ASSERT_EQUAL(y.segment->id, id);
    CU_ASSERT_EQUAL(y.segment->shared, 1);
    CU_ASSERT_EQUAL(b.committed, committed);
    td_heap_release(next, &y);
    td_heap_release(h, &x);
    td_heap_unmapped(h);
    td_heap_free(next);
    td_heap_free(stranger);
    td_budget_deinit(&b);
    CU_ASSERT_EQUAL(b.committed, 0);
    CU_ASSERT_PTR_NULL(b.users);
}

/* What the heaps of a user have committed together, orphans included, is bounded by twice what they may use. */
static void a_users_part(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    b.user_limit = 16 * MIB;
    td_heap *left = heap(&b), *h = heap(&b), *other;
    td_extent x = get(left, 20 * MIB), y;
    td_error e = {0};
    x.segment->shared = 1;
    td_heap_release(left, &x);
    td_heap_orphan(left, true);
    CU_ASSERT_EQUAL(td_heap_alloc_now(h, 16 * MIB, &y, &e), TD_E_QUOTA);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "user"));
    CU_ASSERT_EQUAL(td_heap_reserve(h, 16 * MIB, &e), TD_E_QUOTA);
    CU_ASSERT_EQUAL(td_heap_new(&other, &b, TD_SEGMENT_SESSION, 12345, NULL), 0);
    y = get(other, 30 * MIB); /* of another user */
    td_heap_release(other, &y);
    td_heap_free(other);
    CU_ASSERT_EQUAL(td_heap_hand_over(left, h), 20 * MIB);
    y = get(h, 16 * MIB);
    td_heap_release(h, &y);
    td_heap_free(h);
    td_heap_unmapped(left);
    td_budget_deinit(&b);
    CU_ASSERT_EQUAL(b.committed, 0);
    CU_ASSERT_PTR_NULL(b.users);
}

/* What waits warm is bounded by count too, as each has two descriptors, and goes when these are short. */
static void few_wait_warm(void)
{
    td_budget b;
    td_extent x[6];
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    b.warm_most = 4;
    td_heap *h = heap(&b);
    for (int i = 0; i < 6; i++) x[i] = get(h, (unsigned)(8 + i) * MIB); /* a segment each */
    for (int i = 0; i < 6; i++) td_heap_release(h, &x[i]);
    td_heap_free(h);
    CU_ASSERT_TRUE(b.warm_count <= 4);
    CU_ASSERT_EQUAL(b.segments, b.warm_count);
    CU_ASSERT_TRUE(td_budget_shed(&b));
    CU_ASSERT_EQUAL(b.warm_count, 0);
    CU_ASSERT_EQUAL(b.committed, 0);
    CU_ASSERT_FALSE(td_budget_shed(&b));
    td_budget_deinit(&b);
}

/* Of what waits warm only what is large in proportion goes, and nothing of another kind. */
static void the_larger_go(void)
{
    static const unsigned sizes[] = {24, 48, 52, 96, 200}; /* the last is of the other kind */
    td_budget b;
    td_budget_init(&b, 4096 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b), *other;
    CU_ASSERT_EQUAL(td_heap_new(&other, &b, TD_SEGMENT_SERVICE, 0, NULL), 0);
    for (int i = 0; i < 5; i++) {
        td_extent x = get(i < 4 ? h : other, sizes[i] * MIB);
        td_heap_release(i < 4 ? h : other, &x);
    }
    td_budget_shed_larger(&b, TD_SEGMENT_SESSION, 1, 1);
    CU_ASSERT_EQUAL(b.warm_count, 5);
    td_budget_shed_larger(&b, TD_SEGMENT_SESSION, 2, 4);
    CU_ASSERT_EQUAL(b.warm_count, 4);
    CU_ASSERT_EQUAL(b.committed, (24 + 48 + 52 + 200) * MIB);
    td_budget_shed_larger(&b, TD_SEGMENT_SERVICE, 1, 8);
    CU_ASSERT_EQUAL(b.committed, (24 + 48 + 52) * MIB);
    td_heap_free(h);
    td_heap_free(other);
    td_budget_deinit(&b);
}

static unsigned asked_for;
static void ask(td_segment *s, void *arg)
{
    (void)s, (void)arg;
    asked_for++;
}

/* What is empty at two quiet moments in a row goes: from the heap, and then from the warm list. */
static void settles(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent x = get(h, 1 * MIB), y = get(h, 20 * MIB);
    bool more = false;
    y.segment->shared = 1;
    td_heap_release(h, &x);
    td_heap_release(h, &y);
    CU_ASSERT_EQUAL(td_heap_settle(h, false, ask, NULL, &more), 0);
    CU_ASSERT_TRUE(more);
    x = get(h, 1 * MIB); /* used in between */
    td_heap_release(h, &x);
    more = false;
    td_heap_settle(h, false, ask, NULL, &more);
    CU_ASSERT_EQUAL(asked_for, 1);
    CU_ASSERT_TRUE(more);
    more = false;
    CU_ASSERT_TRUE(td_heap_settle(h, false, ask, NULL, &more) >= 21 * MIB);
    CU_ASSERT_FALSE(more);
    td_segment *s = td_heap_next_segment(h, NULL);
    CU_ASSERT_EQUAL(s->size, 20 * MIB);
    CU_ASSERT_PTR_NULL(td_heap_next_segment(h, s));
    s->shared = 0;
    CU_ASSERT_EQUAL(td_heap_settle(h, true, ask, NULL, &more), 20 * MIB);
    CU_ASSERT_TRUE(td_budget_settle(&b));
    CU_ASSERT_TRUE(b.committed >= 21 * MIB);
    CU_ASSERT_FALSE(td_budget_settle(&b));
    CU_ASSERT_EQUAL(b.committed, 0);
    td_heap_free(h);
    td_budget_deinit(&b);
}

/* A small extent that comes and goes in a slab that was kept is a use of its segment like any other. */
static void small_use_is_seen(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    bool more = false;
    td_extent x = get(h, 100);
    td_heap_release(h, &x);
    CU_ASSERT_EQUAL(td_heap_settle(h, false, ask, NULL, &more), 0);
    for (int i = 0; i < 3; i++) { /* in each pause between two looks */
        x = get(h, 100);
        td_heap_release(h, &x);
        more = false;
        CU_ASSERT_EQUAL(td_heap_settle(h, false, ask, NULL, &more), 0);
        CU_ASSERT_TRUE(more);
    }
    CU_ASSERT_TRUE(td_heap_settle(h, false, ask, NULL, &more) > 0);
    td_heap_free(h);
    td_budget_deinit(&b);
}

/* Nobody knows when the process ends that may write there: none of it is for anybody else. */
static void distrusted(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent x = get(h, 100), y = get(h, 20 * MIB);
    x.segment->shared = y.segment->shared = 1;
    td_heap_orphan(h, true);
    td_heap_release(h, &y);
    td_heap_distrust(h);
    td_heap_unmapped(h);
    td_heap_release(h, &x);
    CU_ASSERT_EQUAL(b.warm_bytes, 0);
    CU_ASSERT_EQUAL(b.committed, 0);
    td_budget_deinit(&b);
}

/* Who has a segment mapped is told when it leaves its heap, which counts it no more then; the budget still does. */
typedef struct told {
    const td_heap *heap;
    unsigned times;
    uint64_t bytes;     /* of them all */
    uint64_t committed; /* by the heap, at the last */
    bool known;         /* the heap still had one of them */
} told;

static void leaving(const td_segment *s, void *arg)
{
    told *t = arg;
    t->times++;
    t->bytes += s->size;
    t->committed = stats(t->heap).committed;
    t->known |= td_heap_find_segment(t->heap, s->id, s->generation) != NULL;
}

static void leaving_is_told(void)
{
    td_budget b;
    told t = {0};
    td_budget_init(&b, 1024 * MIB, TD_SHM_MEMFD);
    b.leaving = leaving;
    b.leaving_arg = &t;
    td_heap *h = heap(&b), *next = heap(&b);
    t.heap = h;
    td_extent small = get(h, 100), x = get(h, 30 * MIB), y = get(h, 40 * MIB);
    uint64_t least = small.segment->size;
    y.segment->shared = 1;
    td_heap_release(h, &x); /* at once, as it is large */
    CU_ASSERT_EQUAL(t.times, 1);
    CU_ASSERT_EQUAL(t.bytes, 30 * MIB);
    CU_ASSERT_EQUAL(t.committed, least + 40 * MIB);
    CU_ASSERT_EQUAL(b.users->committed, least + 40 * MIB);
    CU_ASSERT_EQUAL(b.committed, least + 70 * MIB);
    CU_ASSERT_EQUAL(b.warm_bytes, 30 * MIB);

    td_segment *s = y.segment;
    td_heap_release(h, &y); /* when its process has it no more */
    CU_ASSERT_EQUAL(t.times, 1);
    s->shared = 0;
    CU_ASSERT_EQUAL(td_heap_trim(h), 40 * MIB);
    CU_ASSERT_EQUAL(t.times, 2);
    CU_ASSERT_EQUAL(t.bytes, 70 * MIB);
    CU_ASSERT_EQUAL(b.users->committed, least);

    y = get(h,
            20 * MIB); /* of an orphan: it stays what it was for the process that comes again, and is another's then */
    s = y.segment;
    s->shared = 1;
    unsigned before = t.times;
    td_heap_orphan(h, true);
    td_heap_release(h, &y);
    CU_ASSERT_EQUAL(td_heap_hand_over(h, next), s->size);
    CU_ASSERT_EQUAL(t.times, before);
    CU_ASSERT_EQUAL(b.users->committed, least + s->size);
    td_heap_unmapped(h);
    td_heap_release(h, &small); /* the last of it */
    CU_ASSERT_EQUAL(t.times, before + 1);
    CU_ASSERT_EQUAL(t.committed, 0);
    CU_ASSERT_FALSE(t.known);

    t = (told){.heap = next};
    s->shared = 0;
    uint64_t bytes = s->size;
    bool more = false;
    CU_ASSERT_EQUAL(td_heap_settle(next, true, NULL, NULL, &more), bytes);
    CU_ASSERT_EQUAL(t.times, 1);
    CU_ASSERT_EQUAL(t.bytes, bytes);
    CU_ASSERT_EQUAL(b.users->committed, 0);
    CU_ASSERT_FALSE(t.known);
    td_heap_free(next);
    td_budget_deinit(&b);
    CU_ASSERT_EQUAL(b.committed, 0);
}

static unsigned disposed;
static void dispose(td_segment *s, void *arg)
{
    disposed += s != NULL && arg == &disposed;
    td_segment_free(s);
}

static void disposal_is_handed_on(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    b.warm_limit = 0;
    b.dispose = dispose;
    b.dispose_arg = &disposed;
    td_heap *h = heap(&b);
    td_extent x = get(h, 30 * MIB);
    td_heap_release(h, &x);
    CU_ASSERT_EQUAL(disposed, 1);
    CU_ASSERT_EQUAL(b.committed, 0);
    td_heap_free(h);
    td_heap_free(NULL);
    td_budget_deinit(&b);
}

static int arenas_ended;

static void end_arena(td_segment *s)
{
    arenas_ended += s->maker == &arenas_ended;
}

/* What the heap says it lacks, at an address that nobody may touch. */
static uint64_t grow_by_arena(td_heap *h, uint64_t bytes, td_extent *x)
{
    static uintptr_t next = UINT64_C(1) << 40;
    td_need need = {0};
    td_segment *s;
    CU_ASSERT_EQUAL_FATAL(td_heap_alloc(h, bytes, x, &need, NULL), TD_WAIT_GROW);
    CU_ASSERT_EQUAL_FATAL(td_heap_reserve(h, need.bytes, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(td_segment_of_device(&s, (void *)next, need.bytes, -1, end_arena, &arenas_ended, NULL), 0);
    next += need.bytes;
    td_heap_adopt(h, s);
    CU_ASSERT_EQUAL_FATAL(td_heap_alloc(h, bytes, x, &need, NULL), 0);
    return need.bytes;
}

/* Arenas of a device are few, whole granules, and never touched; they end by whom made them. */
static void arenas(void)
{
    td_budget b;
    td_extent x[6];
    td_budget_init(&b, 2048 * MIB, TD_SHM_DEVICE);
    b.granule = 2 * MIB;
    b.warm_limit = 0;
    td_heap *h = heap(&b);
    CU_ASSERT_EQUAL(grow_by_arena(h, 100, &x[0]), 64 * MIB);
    x[1] = get(h, 60 * MIB);
    CU_ASSERT_PTR_EQUAL(td_extent_data(&x[1]), x[1].segment->base + x[1].offset);
    CU_ASSERT_EQUAL(grow_by_arena(h, 5 * MIB, &x[2]), 64 * MIB);
    CU_ASSERT_EQUAL(grow_by_arena(h, 100 * MIB, &x[3]), 128 * MIB);
    CU_ASSERT_EQUAL(grow_by_arena(h, 1001 * MIB + 1, &x[4]), 1002 * MIB);
    CU_ASSERT_EQUAL(grow_by_arena(h, 600 * MIB + 5, &x[5]), 602 * MIB); /* more than half of what is left */
    for (int i = 0; i < 6; i++) td_heap_release(h, &x[i]);
    td_heap_free(h);
    td_budget_deinit(&b);
    CU_ASSERT_EQUAL(arenas_ended, 5);
    CU_ASSERT_EQUAL(b.committed, 0);
}

/* Where a user may have no further large arena, one of as much as is wanted, which may be the last there is room for.
 */
static void the_last_granule(void)
{
    td_budget b;
    td_extent x[2], none;
    td_need need = {0};
    td_error e = {0};
    td_budget_init(&b, 2048 * MIB, TD_SHM_DEVICE);
    b.granule = 2 * MIB;
    b.warm_limit = 0;
    b.user_limit = 33 * MIB; /* twice that are committed at most */
    td_heap *h = heap(&b);
    CU_ASSERT_EQUAL(grow_by_arena(h, 64 * MIB, &x[0]), 64 * MIB);
    CU_ASSERT_EQUAL(td_heap_alloc(h, 2 * MIB + 1, &none, &need, &e), TD_E_QUOTA);
    CU_ASSERT_EQUAL(grow_by_arena(h, 2 * MIB, &x[1]), 2 * MIB);
    CU_ASSERT_EQUAL(td_heap_alloc(h, 100, &none, &need, &e), TD_E_QUOTA);
    for (int i = 0; i < 2; i++) td_heap_release(h, &x[i]);
    td_heap_free(h);
    td_budget_deinit(&b);
    CU_ASSERT_EQUAL(b.committed, 0);
}

/* What a heap says that it lacks, by what it and all have. Numbers are MiB, but for `wants`. */
static void how_much_it_grows(void)
{
    enum { KIB = 1024 };
    static const struct {
        uint64_t granule, limit, committed, warm, work, own, wants, lacks; /* wants, lacks: bytes */
    } rows[] = {
        /* As large as the heap is, to 8 MiB, then an eighth of it, to 256 MiB. */
        {0, 1024, 0, 0, 0, 0, 64 * KIB, 64 * KIB},
        {0, 1024, 0, 0, 0, 0, 64 * KIB + 1, 128 * KIB},
        {0, 1024, 0, 0, 0, 1, 64 * KIB, MIB},
        {0, 1024, 0, 0, 0, 3, 64 * KIB, 4 * MIB},
        {0, 1024, 0, 0, 0, 8, 64 * KIB, 8 * MIB},
        {0, 1024, 0, 0, 0, 9, 64 * KIB, 8 * MIB},
        {0, 1024, 0, 0, 0, 64, 64 * KIB, 8 * MIB},
        {0, 1024, 0, 0, 0, 65, 64 * KIB, 16 * MIB},
        {0, 8192, 0, 0, 0, 2048, 64 * KIB, 256 * MIB},
        {0, 8192, 0, 0, 0, 4096, 64 * KIB, 256 * MIB},
        /* At most an eighth of what is left, unless the request needs it, and never less than 64 KiB. */
        {0, 1024, 0, 0, 0, 2048, 64 * KIB, 128 * MIB},
        {0, 1024, 1016, 0, 0, 8, 64 * KIB, MIB},
        {0, 1024, 1016, 0, 0, 8, MIB, MIB},
        {0, 1024, 1016, 0, 0, 8, MIB + 1, 2 * MIB},
        {0, 1024, 1023, 0, 0, 8, 8 * KIB, 128 * KIB},
        {0, 16, 15, 0, 0, 8, 512 * KIB, 512 * KIB},
        /* What waits warm is left, and what kernels work with is not. */
        {0, 1024, 768, 256, 0, 2048, 64 * KIB, 64 * MIB},
        {0, 1024, 256, 0, 256, 2048, 64 * KIB, 64 * MIB},
        /* A big one has what it needs, or what the heap grows by while that is little. */
        {0, 1024, 0, 0, 0, 8, 8 * MIB - 1, 8 * MIB},
        {0, 1024, 0, 0, 0, 8, 8 * MIB, 8 * MIB},
        {0, 1024, 0, 0, 0, 8, 8 * MIB + 1, 8 * MIB + 4 * KIB},
        {0, 1024, 0, 0, 0, 128, 8 * MIB, 16 * MIB},
        {0, 1024, 0, 0, 0, 128, 16 * MIB, 16 * MIB},
        {0, 1024, 0, 0, 0, 128, 20 * MIB, 20 * MIB},
        {0, 1024, 896, 0, 0, 128, 8 * MIB, 8 * MIB},
        {0, 1024, 895, 0, 0, 128, 8 * MIB, 16 * MIB},
        /* Arenas of a device: as large as the heap is, from 64 to 512 MiB, or what is needed where more is not left
           twice. */
        {2, 4096, 0, 0, 0, 0, 64 * KIB, 64 * MIB},
        {2, 4096, 0, 0, 0, 63, 64 * KIB, 64 * MIB},
        {2, 4096, 0, 0, 0, 65, 64 * KIB, 66 * MIB},
        {2, 4096, 0, 0, 0, 1000, 64 * KIB, 512 * MIB},
        {2, 4096, 0, 0, 0, 1000, 512 * MIB, 512 * MIB},
        {2, 4096, 0, 0, 0, 1000, 513 * MIB, 514 * MIB},
        {2, 1024, 896, 0, 0, 0, 64 * KIB, 64 * MIB},
        {2, 1024, 897, 0, 0, 0, 64 * KIB, 2 * MIB},
        {2, 1024, 960, 64, 0, 0, 64 * KIB, 64 * MIB},
        {2, 1024, 800, 0, 96, 0, 64 * KIB, 64 * MIB},
        {2, 1024, 800, 0, 97, 0, 64 * KIB, 2 * MIB},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        td_budget b;
        td_extent none;
        td_need need = {0};
        td_budget_init(&b, rows[i].limit * MIB, TD_SHM_MEMFD);
        td_heap *h = heap(&b);
        b.granule = rows[i].granule * MIB;
        b.committed = rows[i].committed * MIB;
        b.warm_bytes = rows[i].warm * MIB;
        b.work = rows[i].work * MIB;
        h->committed = rows[i].own * MIB;
        CU_ASSERT_EQUAL(td_heap_alloc(h, rows[i].wants, &none, &need, NULL), TD_WAIT_GROW);
        CU_ASSERT_PTR_EQUAL(need.heap, h);
        CU_ASSERT_EQUAL(need.bytes, rows[i].lacks);
        if (need.bytes != rows[i].lacks) printf("row %zu: %llu\n", i, (unsigned long long)need.bytes);
        h->committed = b.committed = b.warm_bytes = b.work = 0;
        td_heap_free(h);
        td_budget_deinit(&b);
    }
}

/* Extents from 2 MiB begin on a page; those from 4097 bytes are chunks, whose ends come back when they shrink. */
static void edges_of_extents(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    td_extent odd = get(h, 64 * 70), slot = get(h, 4096), chunk = get(h, 4097);
    CU_ASSERT_TRUE(slot.size == 4096 && chunk.size == 4096 + 64);
    CU_ASSERT_TRUE(((uintptr_t)slot.block & 1) && !((uintptr_t)chunk.block & 1)); /* of a slab, and of none */
    CU_ASSERT_PTR_EQUAL(td_extent_heap(&slot), h);
    CU_ASSERT_PTR_EQUAL(td_extent_heap(&chunk), h);
    CU_ASSERT_PTR_NULL(td_extent_heap(&(td_extent){0}));
    for (uint64_t bytes = 2 * MIB - 64; bytes <= 2 * MIB + 64; bytes += 64) {
        td_extent between = get(h, 64 * 70), x = get(h, bytes);
        CU_ASSERT_EQUAL(x.size, bytes);
        uint64_t chunk_size = bytes < 2 * MIB ? bytes : (bytes + 4095) & ~UINT64_C(4095);
        CU_ASSERT_TRUE(((td_chunk *)x.block)->size - chunk_size < TD_CHUNK_MIN);
        if (bytes >= 2 * MIB) CU_ASSERT_EQUAL(x.offset % 4096, 0);
        td_heap_shrink(h, &x, 4097);
        CU_ASSERT_EQUAL(x.size, 4096 + 64);
        td_heap_release(h, &x), td_heap_release(h, &between);
    }
    td_extent whole = get(h, 8192);
    uint64_t used = stats(h).used;
    td_heap_shrink(h, &whole, 4096);
    td_heap_shrink(h, &slot, 1);
    CU_ASSERT_TRUE(whole.size == 4096 && slot.size == 64);
    CU_ASSERT_TRUE(stats(h).used == used - 4096 - (4096 - 64) && b.used == stats(h).used);
    CU_ASSERT_EQUAL(td_heap_idle(h), stats(h).committed - stats(h).used);
    td_heap_release(h, &odd), td_heap_release(h, &slot), td_heap_release(h, &chunk), td_heap_release(h, &whole);
    td_heap_release(h, &whole); /* none any more */
    CU_ASSERT_TRUE(stats(h).used == 0 && stats(h).extents == 0 && b.used == 0);
    td_heap_free(h);
    td_budget_deinit(&b);
}

/* Slabs that are kept though they are empty give way before memory is asked for. */
static void empty_slabs_give_way(void)
{
    td_budget b;
    td_need need;
    td_budget_init(&b, TD_SEGMENT_MIN, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    for (uint64_t bytes = 1; bytes <= 4096; bytes *= 4) {
        td_extent x = get(h, bytes);
        td_heap_release(h, &x);
        CU_ASSERT_EQUAL_FATAL(td_heap_alloc(h, TD_SEGMENT_MIN, &x, &need, NULL), TD_OK);
        CU_ASSERT_TRUE(x.offset == 0 && x.size == TD_SEGMENT_MIN);
        td_heap_release(h, &x);
    }
    td_heap_free(h);
    td_budget_deinit(&b);
}

/* What kernels work with counts beside what is committed, as much as there is; what waits warm goes for it. */
static void work_has_its_part(void)
{
    td_budget b;
    td_error e = {0};
    td_need need;
    td_budget_init(&b, 64 * MIB, TD_SHM_MEMFD);
    b.warm_limit = 64 * MIB;
    td_heap *h = heap(&b);
    td_extent x = get(h, 32 * MIB), none;
    CU_ASSERT_EQUAL(td_budget_work(&b, 32 * MIB + 1, &e), TD_E_MEMORY);
    CU_ASSERT_STRING_EQUAL(
        e.message,
        "33.6 MB to work with are wanted, 33.6 of 67.1 MB are committed to tensors and 0.0 MB to other work; "
        "free tensors, or start tensord with more --memory");
    CU_ASSERT_TRUE(td_budget_work(&b, 16 * MIB, &e) == TD_OK && b.work == 16 * MIB);
    CU_ASSERT_EQUAL(td_budget_work(&b, 16 * MIB + 1, &e), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "and 16.8 MB to other work"));
    CU_ASSERT_EQUAL(td_heap_alloc(h, 17 * MIB, &none, &need, &e), TD_E_MEMORY);
    td_heap_release(h, &x);
    CU_ASSERT_TRUE(b.warm_bytes == 32 * MIB && b.committed == 32 * MIB);
    CU_ASSERT_TRUE(td_budget_work(&b, 16 * MIB, &e) == TD_OK && b.warm_bytes == 32 * MIB); /* there is room beside it */
    CU_ASSERT_TRUE(td_budget_work(&b, 32 * MIB, &e) == TD_OK && !b.warm_bytes && !b.committed);
    CU_ASSERT_EQUAL(td_budget_work(&b, 1, &e), TD_E_MEMORY);
    td_budget_work_done(&b, 64 * MIB);
    CU_ASSERT_EQUAL(b.work, 0);
    td_heap_free(h);
    td_budget_deinit(&b);
}

/* From a user's limit on, of which twice as much is committed at most, what lies idle is asked for. */
static void a_user_is_strained(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b), *service;
    CU_ASSERT_EQUAL_FATAL(td_heap_new(&service, &b, TD_SEGMENT_SERVICE, 0, NULL), 0);
    td_extent x = get(h, 16 * MIB), y = get(service, 32 * MIB);
    static const uint64_t limits[][2] = {{0, false}, {16, false}, {15, true}, {17, false}};
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        b.user_limit = limits[k][0] * MIB;
        CU_ASSERT_EQUAL(td_heap_user_strained(h), limits[k][1]);
        CU_ASSERT_FALSE(td_heap_user_strained(service)); /* which is nobody's */
    }
    td_heap_release(h, &x), td_heap_release(service, &y);
    td_heap_free(h), td_heap_free(service);
    td_budget_deinit(&b);
}

/* Slabs of a class begin with 4 KiB, or two slots, and are twice as large each time, to 64 KiB; so are they again when
 * those before have gone. */
static void slabs_grow(void)
{
    td_budget b;
    td_budget_init(&b, 256 * MIB, TD_SHM_MEMFD);
    td_heap *h = heap(&b);
    for (uint64_t size = 64; size <= 4096; size *= 4) {
        static td_extent x[4096];
        unsigned klass = td_slab_class(size);
        for (int round = 0; round < 2; round++) {
            int n = 0;
            for (unsigned k = 0; k < 7; k++) {
                uint64_t least = 2 * size << (k < 4 ? k : 4), want = UINT64_C(4096) << (k < 4 ? k : 4);
                uint64_t bytes = least > want ? least : want;
                if (bytes > 65536) bytes = 65536;
                CU_ASSERT_EQUAL_FATAL(td_slab_bytes(h, klass), bytes);
                for (uint64_t slots = bytes / size; slots; slots--) x[n++] = get(h, size);
            }
            while (n--) td_heap_release(h, &x[n]);
            td_slab_drop_idle(h, NULL);
        }
    }
    CU_ASSERT_EQUAL(stats(h).used, 0);
    td_heap_free(h);
    td_budget_deinit(&b);
}

/* All that there is may be had; more than that never, which is said in other words than that others have it. */
static void all_of_it(void)
{
    td_budget b;
    td_error e = {0};
    td_extent x, none;
    td_need need;
    td_budget_init(&b, 64 * MIB, TD_SHM_MEMFD);
    b.warm_limit = 64 * MIB;
    td_heap *h = heap(&b);
    CU_ASSERT_EQUAL(td_heap_alloc(h, 64 * MIB + 1, &none, &need, &e), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "start it with more --memory"));
    CU_ASSERT_EQUAL(td_heap_alloc(h, (UINT64_C(1) << 46) + 1, &none, &need, &e), TD_E_MEMORY);
    x = get(h, 64 * MIB);
    CU_ASSERT_EQUAL(td_heap_alloc(h, 64 * MIB, &none, &need, &e), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "memory is full"));
    td_heap_release(h, &x);
    CU_ASSERT_EQUAL(td_heap_alloc(h, 64 * MIB, &x, &need, &e), TD_OK); /* what waits warm is taken at once */
    td_heap_release(h, &x);
    td_heap_free(h);
    td_budget_deinit(&b);
}

TD_CUNIT_MAIN("shm_heap", {"random work against a model", against_a_model}, {"a million small extents", a_million},
              {"grows from small", grows_from_small}, {"grows gently near the limit", grows_gently_near_the_limit},
              {"warm memory is reused", warm_is_reused},
              {"large ones get what they need", large_ones_get_what_they_need},
              {"another uid gets none of it", another_uid_gets_none_of_it}, {"full is an error", full_is_an_error},
              {"a segment made elsewhere", grown_elsewhere}, {"what clients map stays", what_clients_map_stays},
              {"orphans", orphans}, {"distrusted", distrusted}, {"handed over", handed_over},
              {"a user's part", a_users_part}, {"settles", settles}, {"small use is seen", small_use_is_seen},
              {"few wait warm", few_wait_warm}, {"the larger go", the_larger_go}, {"leaving is told", leaving_is_told},
              {"disposal is handed on", disposal_is_handed_on}, {"arenas of a device", arenas},
              {"the last granule", the_last_granule}, {"how much it grows", how_much_it_grows},
              {"edges of extents", edges_of_extents}, {"empty slabs give way", empty_slabs_give_way},
              {"work has its part", work_has_its_part}, {"a user is strained", a_user_is_strained},
              {"slabs grow", slabs_grow}, {"all of it", all_of_it})
