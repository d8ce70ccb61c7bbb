/* The arena of a connection's messages: pieces that stand apart, a bound, and what a reset gives back. */
#include "proto/base/arena.h"
#include "tests/unit/cunit_main.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 1000, LIMIT = 4 << 20, MOST = LIMIT / PIECE };

static unsigned char *pieces[MOST];

/* Each full of its own number. */
static int fill(td_arena *a, int n)
{
    int got = 0;
    for (; got < n && (pieces[got] = td_arena_alloc(a, PIECE)); got++) {
        CU_ASSERT_EQUAL((uintptr_t)pieces[got] % 16, 0);
        memset(pieces[got], got % 251, PIECE);
    }
    for (int i = 0; i < got; i++)
        for (int k = 0; k < PIECE; k++)
            if (pieces[i][k] != i % 251) CU_FAIL_FATAL("pieces lie in each other");
    return got;
}

static void a_bound(void)
{
    td_arena a;
    td_arena_init(&a, LIMIT);
    CU_ASSERT_PTR_NULL(td_arena_alloc(&a, LIMIT + 1));
    for (int round = 0; round < 3; round++) {
        int got = fill(&a, MOST);
        CU_ASSERT_TRUE(got > MOST - MOST / 50 && got < MOST); /* each is rounded up to 16 bytes */
        CU_ASSERT_PTR_NULL(td_arena_alloc(&a, LIMIT / 2));
        CU_ASSERT_FALSE(a.starved);
        td_arena_reset(&a);
        CU_ASSERT_EQUAL(a.used, 0);
    }
    CU_ASSERT_PTR_NOT_NULL(td_arena_alloc(&a, LIMIT));
    td_arena_deinit(&a);
}

static bool is_mapped(const void *at)
{
    unsigned char in;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return !mincore((void *)((uintptr_t)at / page * page), 1, &in) || errno != ENOMEM;
}

/* Small blocks are malloc()'s, which says what it has given; large ones are mapped. */
static void given_back(void)
{
    td_arena a;
    td_arena_init(&a, LIMIT);
    size_t before = 0;
    for (int round = 0; round < 8; round++) {
        CU_ASSERT_EQUAL(fill(&a, 200), 200);
        td_arena_reset(&a);
        size_t held = mallinfo2().uordblks;
        CU_ASSERT_TRUE(round < 2 || held <= before);
        before = held;
    }
    int got = fill(&a, MOST);
    CU_ASSERT_TRUE(is_mapped(pieces[0]) && is_mapped(pieces[got / 2]) && is_mapped(pieces[got - 1]));
    td_arena_reset(&a);
    CU_ASSERT_TRUE(is_mapped(pieces[0])); /* one block stays */
    CU_ASSERT_FALSE(is_mapped(pieces[got / 2]) || is_mapped(pieces[got - 1]));
    CU_ASSERT_PTR_EQUAL(td_arena_alloc(&a, PIECE), pieces[0]);
    td_arena_deinit(&a);
}

TD_CUNIT_MAIN("proto_arena", {"a bound", a_bound}, {"given back", given_back})
