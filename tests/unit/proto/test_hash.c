/* Keys that all lie in one chain of uthash's own hash do not here: its key is not known to those who choose names. */
#include "proto/base/hash.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

typedef struct thing {
    UT_hash_handle hh;
    char name[16];
} thing;

static unsigned known_hash(const char *name)
{
    unsigned h;
    HASH_JEN(name, strlen(name), h);
    return h;
}

/* The longest chain when they are in one table. */
static unsigned longest_chain(thing *things, int n)
{
    thing *table = NULL;
    unsigned longest = 0;
    for (int i = 0; i < n; i++) {
        HASH_ADD_STR(table, name, &things[i]);
        CU_ASSERT_TRUE_FATAL(TD_HASHED(&things[i]));
    }
    UT_hash_table *t = table->hh.tbl;
    for (unsigned b = 0; b < t->num_buckets; b++)
        if (t->buckets[b].count > longest) longest = t->buckets[b].count;
    for (int i = 0; i < n; i++) {
        thing *found;
        HASH_FIND_STR(table, things[i].name, found);
        CU_ASSERT_PTR_EQUAL(found, &things[i]);
    }
    HASH_CLEAR(hh, table);
    return longest;
}

static void names_of_one_hash(void)
{
    enum { N = 2000, BITS = 11 };
    static thing things[N];
    for (int i = 0, n = 0; n < N; i++) {
        snprintf(things[n].name, sizeof things[n].name, "name %d", i);
        n += known_hash(things[n].name) % (1 << BITS) == 0;
    }
    CU_ASSERT_TRUE(longest_chain(things, N) < N / 20);
}

/* The same bytes, the same hash; every length, every byte counts. */
static void every_byte_counts(void)
{
    unsigned char bytes[40];
    for (size_t n = 1; n <= sizeof bytes; n++) {
        memset(bytes, 7, sizeof bytes);
        uint32_t h = td_hash_keyed(bytes, n);
        CU_ASSERT_EQUAL(td_hash_keyed(bytes, n), h);
        CU_ASSERT_NOT_EQUAL(td_hash_keyed(bytes, n - 1), h);
        for (size_t i = 0; i < n; i++) {
            bytes[i] ^= 1;
            CU_ASSERT_NOT_EQUAL(td_hash_keyed(bytes, n), h);
            bytes[i] ^= 1;
        }
    }
}

/* No insertion moves much: one bucket more at a time, and the chains stay short. Taking out works at any size. */
static void grows_in_parts(void)
{
    enum { N = 100000 };
    thing *things = calloc(N, sizeof *things), *table = NULL, *found;
    unsigned before = 0, longest = 0;
    for (int i = 0; i < N; i++) {
        snprintf(things[i].name, sizeof things[i].name, "n%d", i);
        HASH_ADD_STR(table, name, &things[i]);
        CU_ASSERT_TRUE_FATAL(TD_HASHED(&things[i]));
        if (i) CU_ASSERT_TRUE_FATAL(table->hh.tbl->num_buckets <= before + 1);
        before = table->hh.tbl->num_buckets;
        HASH_FIND_STR(table, things[i / 2].name, found);
        CU_ASSERT_PTR_EQUAL_FATAL(found, &things[i / 2]);
    }
    CU_ASSERT_TRUE(before >= N / TD_HASH_LOAD);
    for (unsigned b = 0; b < before; b++)
        if (table->hh.tbl->buckets[b].count > longest) longest = table->hh.tbl->buckets[b].count;
    CU_ASSERT_TRUE(longest < 32);
    for (int i = 0; i < N; i++) {
        HASH_DEL(table, &things[i]);
        HASH_FIND_STR(table, things[i].name, found);
        CU_ASSERT_PTR_NULL_FATAL(found);
        if (i + 1 < N) HASH_FIND_STR(table, things[N - 1].name, found);
        CU_ASSERT_TRUE_FATAL(i + 1 == N || found == &things[N - 1]);
    }
    CU_ASSERT_PTR_NULL(table);
    free(things);
}

TD_CUNIT_MAIN("proto hash", {"names of one hash", names_of_one_hash}, {"every byte counts", every_byte_counts},
              {"grows in parts", grows_in_parts})
