/* Memory for kernels: how it is rounded, which spare is taken, what is kept at most, and that the rest goes. */
#include "daemon/sched/internal.h"
#include "tests/unit/cunit_main.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static td_work new_work(size_t keep)
{
    return (td_work){.keep = keep, .lock = PTHREAD_MUTEX_INITIALIZER};
}

static td_buffer buffer_of(size_t size)
{
    td_buffer b = {0};
    CU_ASSERT_PTR_NOT_NULL_FATAL(td_buffer_fit(&b, size));
    return b;
}

/* How many are kept; their sum is the one that bounds them. */
static int kept(const td_work *w)
{
    size_t bytes = 0;
    for (int i = 0; i < w->count; i++) bytes += w->spare[i].size;
    CU_ASSERT_TRUE(bytes == w->bytes && bytes <= w->keep && w->count <= TD_WORK_SPARES);
    return w->count;
}

static bool keeps(const td_work *w, const void *data)
{
    for (int i = 0; i < w->count; i++)
        if (w->spare[i].data == data) return true;
    return false;
}

static void sizes(void)
{
    static const size_t rows[][2] = {
        {0, 4 * KIB},          {1, 4 * KIB}, {4 * KIB, 4 * KIB}, {4 * KIB + 1, 8 * KIB}, {8 * KIB, 8 * KIB},
        {MIB / 2 + 1, MIB},    {MIB, MIB},   {MIB + 1, 2 * MIB}, {2 * MIB, 2 * MIB},     {3 * MIB, 3 * MIB},
        {3 * MIB + 1, 4 * MIB}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        td_buffer b = buffer_of(rows[i][0]);
        CU_ASSERT_EQUAL(b.size, rows[i][1]);
        CU_ASSERT_EQUAL((uintptr_t)b.data % 64, 0);
        memset(b.data, 1, b.size);
        td_buffer_trim(&b, 0);
        CU_ASSERT_TRUE(!b.data && !b.size);
    }
}

/* One that fits stays; a larger one takes its place; what cannot be had leaves none. */
static void fitting(void)
{
    td_buffer b = buffer_of(8 * KIB);
    unsigned char *first = b.data;
    memset(first, 7, b.size);
    CU_ASSERT_PTR_EQUAL(td_buffer_fit(&b, 8 * KIB), first);
    CU_ASSERT_PTR_EQUAL(td_buffer_fit(&b, 1), first);
    CU_ASSERT_EQUAL(first[8 * KIB - 1], 7);
    CU_ASSERT_PTR_NOT_NULL(td_buffer_fit(&b, 8 * KIB + 1));
    CU_ASSERT_EQUAL(b.size, 16 * KIB);
    td_buffer_trim(&b, 16 * KIB);
    CU_ASSERT_PTR_NOT_NULL(b.data);
    td_buffer_trim(&b, 16 * KIB - 1);
    CU_ASSERT_TRUE(!b.data && !b.size);
    b = buffer_of(1);
    CU_ASSERT_PTR_NULL(td_buffer_fit(&b, (size_t)1 << 45));
    CU_ASSERT_TRUE(!b.data && !b.size);
    CU_ASSERT_PTR_NULL(td_buffer_fit(&b, SIZE_MAX - MIB + 2)); /* rounded up it would be a small one */
    CU_ASSERT_TRUE(!b.data && !b.size);
    CU_ASSERT_PTR_NOT_NULL(td_buffer_fit(&b, 1));
    td_buffer_trim(&b, 0);
    td_buffer_shed(&b); /* none */
}

/* The smallest that fits is taken, unless it is wasted on so little; without one there is a new one. */
static void the_best_spare(void)
{
    td_work w = new_work(64 * MIB);
    static const size_t spare[] = {64 * KIB, 16 * KIB, 2 * MIB, 32 * KIB};
    unsigned char *data[4];
    for (int i = 0; i < 4; i++) {
        td_buffer b = buffer_of(spare[i]);
        data[i] = b.data;
        td_work_give(&w, b);
    }
    CU_ASSERT_EQUAL(kept(&w), 4);
    /* Asked for, and which of them it is; -1: a new one. An eighth of a spare and a page less than it may be asked for.
     */
    static const size_t rows[][2] = {{16 * KIB, 1},     {16 * KIB + 1, 3},
                                     {32 * KIB + 1, 0}, {64 * KIB, 0},
                                     {64 * KIB + 1, 4}, {2 * MIB / 8 - 4 * KIB, 2},
                                     {2 * MIB + 1, 4},  {2 * MIB / 8 - 4 * KIB - 1, 4},
                                     {4 * KIB, 1},      {0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        td_buffer b = td_work_take(&w, rows[i][0]);
        bool spares = rows[i][1] < 4;
        CU_ASSERT_TRUE_FATAL(b.data && b.size >= rows[i][0]);
        CU_ASSERT_EQUAL(kept(&w), spares ? 3 : 4);
        if (spares) CU_ASSERT_PTR_EQUAL(b.data, data[rows[i][1]]);
        CU_ASSERT_FALSE(keeps(&w, b.data));
        if (spares) td_work_give(&w, b);
        else td_buffer_trim(&b, 0);
    }
    CU_ASSERT_EQUAL(kept(&w), 4);
    td_work_shed(&w);
    CU_ASSERT_EQUAL(kept(&w), 0);
}

/* By count and by bytes; for a new one the one that is kept longest goes. */
static void what_is_kept(void)
{
    td_work w = new_work(64 * MIB);
    unsigned char *first = NULL;
    for (int i = 0; i <= TD_WORK_SPARES; i++) {
        td_buffer b = buffer_of(4 * KIB);
        if (!i) first = b.data;
        CU_ASSERT_EQUAL(keeps(&w, first), i > 0);
        td_work_give(&w, b);
        CU_ASSERT_EQUAL(kept(&w), i < TD_WORK_SPARES ? i + 1 : TD_WORK_SPARES);
    }
    CU_ASSERT_EQUAL(w.bytes, TD_WORK_SPARES * 4 * KIB);
    td_work_shed(&w);

    w = new_work(3 * MIB);
    td_work_give(&w, buffer_of(4 * MIB)); /* more than is kept at all */
    CU_ASSERT_EQUAL(kept(&w), 0);
    td_work_give(&w, buffer_of(2 * MIB));
    td_work_give(&w, buffer_of(MIB)); /* as much as is kept */
    CU_ASSERT_TRUE(kept(&w) == 2 && w.bytes == 3 * MIB);
    td_work_give(&w, buffer_of(4 * KIB));
    CU_ASSERT_TRUE(kept(&w) == 2 && w.bytes == MIB + 4 * KIB);
    td_work_give(&w, buffer_of(3 * MIB)); /* one of them goes for it, which is not enough */
    CU_ASSERT_TRUE(kept(&w) == 1 && w.bytes == 4 * KIB);
    td_work_shed(&w);
    CU_ASSERT_EQUAL(kept(&w), 0);
    td_work_give(&w, buffer_of(3 * MIB));
    CU_ASSERT_EQUAL(kept(&w), 1);
    td_work_shed(&w);
}

/* Blocks beside one that is shed are as they were. */
static void shedding(void)
{
    enum { N = 9 };
    td_buffer all[N];
    for (int i = 0; i < N; i++) {
        all[i] = buffer_of(8 * KIB);
        memset(all[i].data, 1 + i, all[i].size);
    }
    for (int i = 0; i < N; i += 2) td_buffer_shed(&all[i]);
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < all[i].size; k++) CU_ASSERT_TRUE_FATAL(all[i].data[k] == 1 + i);
    for (int i = 1; i < N; i += 2) td_buffer_trim(&all[i], 0);
}

TD_CUNIT_MAIN("sched_buffer", {"sizes", sizes}, {"fitting", fitting}, {"the best spare", the_best_spare},
              {"what is kept", what_is_kept}, {"shedding", shedding})
