/* Groups with real processes: rendezvous, collectives at sizes on both sides of each threshold, calls that differ,
 * members that die, sleep, leave or come late, and the daemon's end. */
#include "client/tensord_bind.h"
#include "tests/client/group/crew.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static bool all_reduce_is_right(td_group *g, const crew *c, uint64_t n, uint64_t count, float *v)
{
    uint32_t rank = td_group_rank(g);
    for (uint64_t i = 0; i < count; i++) v[i] = given(c, rank, n, i);
    if (td_group_all_reduce(g, v, v, TD_FLOAT32, count, TD_SUM, -1)) return false;
    for (uint64_t i = 0; i < count; i++) {
        float want = expected_sum(c, n, i);
        if (memcmp(&v[i], &want, sizeof want) == 0) continue;
        fprintf(stderr, "sum of %llu elements, number %llu: %g, expected %g\n", (unsigned long long)count,
                (unsigned long long)i, (double)v[i], (double)want);
        return false;
    }
    return true;
}

static bool broadcast_is_right(td_group *g, const crew *c, uint64_t n, uint64_t count, float *v)
{
    uint32_t root = (uint32_t)(n % c->size);
    bool mine = root == td_group_rank(g);
    for (uint64_t i = 0; i < count; i++) v[i] = mine ? given(c, root, n, i) : -1;
    if (td_group_broadcast(g, v, TD_FLOAT32, count, root, -1)) return false;
    for (uint64_t i = 0; i < count; i++)
        if (v[i] != given(c, root, n, i)) return false;
    return true;
}

static bool all_gather_is_right(td_group *g, const crew *c, uint64_t n, uint64_t count, float *v)
{
    float *all = malloc(count * c->size * sizeof *all + 1);
    uint32_t rank = td_group_rank(g);
    for (uint64_t i = 0; i < count; i++) v[i] = given(c, rank, n, i);
    bool right = all && !td_group_all_gather(g, v, all, TD_FLOAT32, count, -1);
    for (uint32_t r = 0; r < c->size && right; r++)
        for (uint64_t i = 0; i < count && right; i++) right = all[r * count + i] == given(c, r, n, i);
    free(all);
    return right;
}

/* Elements on both sides of what goes with the call (64), in a small slot (16,384), in a large one (1,048,576), of one
 * chunk and several. */
static const uint64_t sizes[] = {0,     1,     63,     64,      65,      4095,    4096,    4097,    16383,
                                 16384, 16385, 262144, 1048575, 1048576, 1048577, 2097153, 2500000, 5};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static bool of_all_sizes(td_group *g, const crew *c)
{
    float *v = malloc(2500000 * sizeof *v);
    bool right = v != NULL;
    for (uint64_t n = 0; n < SIZES && right; n++) {
        right = all_reduce_is_right(g, c, 3 * n, sizes[n], v) && broadcast_is_right(g, c, 3 * n + 1, sizes[n], v) &&
                all_reduce_is_right(g, c, 3 * n + 2, sizes[(n * 7 + 3) % SIZES], v) &&
                all_gather_is_right(g, c, 3 * n + 3, sizes[(n * 5 + 1) % SIZES] % 300000, v) &&
                !td_group_barrier(g, -1);
        if (!right) fprintf(stderr, "with %llu elements\n", (unsigned long long)sizes[n]);
    }
    free(v);
    return right;
}

static void collectives_of_all_sizes(void)
{
    for (uint32_t n = 1; n <= 4; n++)
        run_all(&(crew){
            .name = "sizes", .size = n, .timeout_ms = TEST_LONG_MS, .seed = n, .run = of_all_sizes, .except = -1});
}

/* Calls in an order that all draw, some hundred of them. */
static bool of_any_order(td_group *g, const crew *c)
{
    float *v = malloc(300000 * sizeof *v);
    bool right = v != NULL;
    for (uint64_t n = 0; n < 300 && right; n++) {
        uint64_t x = mix(c->seed * 977 + n), bits = x >> 8 & 15, count = (x >> 20) % (UINT64_C(1) << bits);
        if (x >> 16 & 7) count = x >> 16 & 1 ? count : count * 8;
        switch (x & 3) {
        case 0: right = all_gather_is_right(g, c, n, count % 60000, v); break;
        case 1: right = broadcast_is_right(g, c, n, count, v); break;
        case 2: right = !td_group_barrier(g, -1); break;
        default: right = all_reduce_is_right(g, c, n, count, v); break;
        }
    }
    free(v);
    return right;
}

static void collectives_in_any_order(void)
{
    uint64_t seed = said_seed();
    for (uint32_t n = 2; n <= 8; n += 3)
        run_all(&(crew){.name = "order",
                        .size = n,
                        .timeout_ms = TEST_LONG_MS,
                        .seed = seed + n,
                        .run = of_any_order,
                        .except = -1});
}

static bool of_dtypes(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    int16_t wraps[3] = {30000, (int16_t)rank, -5};
    bool any[3] = {rank == 1, false, true};
    double mean = rank;
    int64_t most = 7 - (int64_t)rank * 3;
    bool good = !td_group_all_reduce(g, wraps, wraps, TD_INT16, 3, TD_SUM, -1) &&
                !td_group_all_reduce(g, any, any, TD_BOOL, 3, TD_SUM, -1) &&
                !td_group_all_reduce(g, &mean, &mean, TD_FLOAT64, 1, TD_MEAN, -1) &&
                !td_group_all_reduce(g, &most, &most, TD_INT64, 1, TD_MIN, -1);
    good = good && wraps[0] == (int16_t)(30000 * (int)c->size) && wraps[2] == -5 * (int)c->size;
    good = good && any[0] && !any[1] && any[2] && mean == (c->size - 1) / 2.0 && most == 7 - 3 * ((int64_t)c->size - 1);
    good = good && td_group_all_reduce(g, &most, &most, TD_INT64, 1, TD_MEAN, -1) == TD_E_TYPE; /* no round is spent */
    good = good && td_group_broadcast(g, &most, TD_INT64, 1, c->size, -1) == TD_E_INVALID;
    return good && !td_group_barrier(g, -1);
}

static void dtypes_and_reductions(void)
{
    run_all(&(crew){.name = "dtypes", .size = 3, .timeout_ms = TEST_LONG_MS, .run = of_dtypes, .except = -1});
}

/* ---- rendezvous -------------------------------------------------------------------------------------------------- */

static bool only_barrier(td_group *g, const crew *c)
{
    (void)c;
    return !td_group_barrier(g, -1);
}

static void who_came_and_who_did_not(void)
{
    td_client *c = join();
    crew of = {.name = "late", .size = 4, .timeout_ms = TEST_LONG_MS, .run = only_barrier};
    pid_t pid = start_member(&of, 1);
    td_group *g;
    for (g = NULL; !g;) { /* until the other is there */
        g = td_group_open(c, "late", 4, 3, 20);
        CU_ASSERT_PTR_NULL_FATAL(g);
        CU_ASSERT_EQUAL_FATAL(td_last_error()->code, TD_E_TIMEOUT);
        if (strstr(td_last_error()->message, "rank 1 (pid")) break;
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "group 'late': 2 of 4 came in 0.02 s"));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "; rank 0, rank 2 did not"));
    CU_ASSERT_PTR_NULL(td_group_open(c, "late", 4, 1, 20));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_EXISTS);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "rank 1 of group 'late' is taken by pid"));
    CU_ASSERT_PTR_NULL(td_group_open(c, "late", 3, 0, 20));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_EXISTS);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "has 4 members, not 3"));
    CU_ASSERT_PTR_NULL(td_group_open(c, "late", 4, 4, 20));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_INVALID);
    CU_ASSERT_PTR_NULL(td_group_open(c, "", 4, 0, 20));
    CU_ASSERT_PTR_NULL(td_group_open(c, "late", 0, 0, 20));
    CU_ASSERT_PTR_NULL(td_group_open(c, "late", 257, 0, 20));
    pid_t stays = start_member(&of, 2);
    do g = td_group_open(c, "late", 4, 0, 20);
    while (!g && !strstr(td_last_error()->message, "rank 2 (pid"));
    kill(pid, SIGKILL);
    CU_ASSERT_EQUAL(end_of(pid), -SIGKILL);
    do g = td_group_open(c, "late", 4, 0, 20); /* until the daemon has seen it */
    while (!g && td_last_error()->code == TD_E_TIMEOUT && !strstr(td_last_error()->message, "came and died"));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "; rank 1, rank 3 did not"));
    kill(stays, SIGKILL);
    end_of(stays);
    td_disconnect(c);
}

/* Whoever comes by the name of a group whose members go is in the next one. */
static void a_name_is_free_again(void)
{
    for (int i = 0; i < 5; i++)
        run_all(&(crew){.name = "again", .size = 3, .timeout_ms = TEST_LONG_MS, .run = only_barrier, .except = -1});
}

static bool lowest_rank_that_is_free(td_group *g, const crew *c)
{
    int64_t mine = 1 << td_group_rank(g);
    return !td_group_all_reduce(g, &mine, &mine, TD_INT64, 1, TD_SUM, -1) && mine == (1 << c->size) - 1;
}

static void ranks_are_given(void)
{
    crew c = {.name = "given", .size = 5, .timeout_ms = TEST_LONG_MS, .run = lowest_rank_that_is_free};
    pid_t pids[5];
    for (int i = 0; i < 5; i++) pids[i] = start_member(&c, -1);
    for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(end_of(pids[i]), 0);
}

/* ---- what is told of them ---------------------------------------------------------------------------------------- */

static const td_cell *cell_of(const td_table *t, int row, const char *column)
{
    for (int i = 0; i < t->columns; i++)
        if (!strcmp(t->names[i], column)) return &t->cells[row * t->columns + i];
    return NULL;
}

/* The row of a rank of the group, or (-1) of the whole; -1: none. */
static int row_of(const td_table *t, const char *group, int rank)
{
    for (int r = 0; t && r < t->rows; r++) {
        const td_cell *of = cell_of(t, r, "rank");
        if (strcmp(cell_of(t, r, "group")->text, group)) continue;
        if (rank < 0 ? of->kind == TD_CELL_TEXT : of->kind == TD_CELL_INT && of->integer == rank) return r;
    }
    return -1;
}

/* Has this row got a text that begins so? */
static bool tells(td_client *c, const char *group, int rank, const char *column, const char *text)
{
    td_table *t = td_status(c, "groups");
    int r = row_of(t, group, rank);
    bool so = r >= 0 && !strncmp(cell_of(t, r, column)->text, text, strlen(text));
    td_table_free(t);
    return so;
}

static void wait_until_told(td_client *c, const char *group, int rank, const char *column, const char *text)
{
    while (!tells(c, group, rank, column, text)) test_sleep_ms(1);
}

enum { LATE_ROUNDS = 12 };

/* Rank 2 comes to each round after the others have. */
static bool one_is_slow(td_group *g, const crew *c)
{
    for (int n = 1; n <= LATE_ROUNDS; n++) {
        char in[32];
        snprintf(in, sizeof in, "in barrier #%d", n);
        for (int r = 0; r < 2 && td_group_rank(g) == 2; r++) wait_until_told(td_group_client(g), c->name, r, "now", in);
        if (td_group_barrier(g, -1)) return false;
    }
    if (td_group_rank(g) == 2) {
        wait_until_told(td_group_client(g), c->name, -1, "now", "2 wait for rank 2 in barrier #13");
        shared->steps[0] = 1;
        while (!shared->steps[1]) test_sleep_ms(1);
    }
    return !td_group_barrier(g, -1);
}

static void look_at_slow(td_client *c)
{
    td_table *t = td_status(c, "groups");
    int whole = row_of(t, "slow", -1), late = row_of(t, "slow", 2), first = row_of(t, "slow", 0);
    CU_ASSERT_TRUE_FATAL(whole >= 0 && late == whole + 3 && first == whole + 1);
    CU_ASSERT_STRING_EQUAL(cell_of(t, whole, "state")->text, "open, 3 of 3");
    CU_ASSERT_EQUAL(cell_of(t, whole, "round")->integer, LATE_ROUNDS + 1);
    CU_ASSERT_EQUAL(cell_of(t, late, "round")->integer, LATE_ROUNDS);
    CU_ASSERT_EQUAL(cell_of(t, late, "last")->integer, LATE_ROUNDS);
    CU_ASSERT_EQUAL(cell_of(t, late, "last_%")->real, 100);
    CU_ASSERT_EQUAL(cell_of(t, first, "last")->integer, 0);
    CU_ASSERT_STRING_EQUAL(cell_of(t, late, "now")->text, "after barrier #12");
    CU_ASSERT_PTR_NOT_NULL(strstr(cell_of(t, first, "at")->text, "test_groups.c:"));
    CU_ASSERT_TRUE(cell_of(t, whole, "since_s")->real >= 1); /* of the one that has waited longest */
    CU_ASSERT_TRUE(cell_of(t, first, "in_%")->real > cell_of(t, late, "in_%")->real);
    CU_ASSERT_EQUAL(cell_of(t, first, "pid")->kind, TD_CELL_INT);
    td_table_free(t);
}

static void a_slow_rank_is_named(void)
{
    pid_t pids[3];
    td_client *c = join();
    memset(shared, 0, sizeof *shared);
    crew of = {.name = "slow", .size = 3, .timeout_ms = TEST_LONG_MS, .run = one_is_slow};
    pids[0] = start_member(&of, 0);
    wait_until_told(c, "slow", 0, "state", "in");
    CU_ASSERT_TRUE(tells(c, "slow", -1, "state", "forming, 1 of 3"));
    CU_ASSERT_TRUE(tells(c, "slow", 1, "state", "awaited"));
    for (int r = 1; r < 3; r++) pids[r] = start_member(&of, r);
    while (!shared->steps[0]) test_sleep_ms(1);
    look_at_slow(c);
    shared->steps[1] = 1;
    for (int r = 0; r < 3; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
    td_disconnect(c);
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

static bool one_calls_otherwise(td_group *g, const crew *c)
{
    float v[20] = {0};
    (void)c;
    if (td_group_barrier(g, -1)) return false;
    bool odd = td_group_rank(g) == 2;
    int rc = td_group_all_reduce(g, v, v, TD_FLOAT32, odd ? 12 : 10, TD_SUM, -1);
    return FAILS(g, rc, TD_E_MISMATCH, 2, "rank 0 called all_reduce #2 (float32[10], sum) at",
                 "test_groups.c:", "rank 2 all_reduce #2 (float32[12], sum)") &&
           FAILS(g, td_group_barrier(g, -1), TD_E_EPOCH, -1, "cannot go on", "float32[12]");
}

/* 32 and 12 MB are as many rounds as 8 until the last. */
static bool one_gives_more(td_group *g, const crew *c)
{
    (void)c;
    uint64_t count = td_group_rank(g) ? 3000000 : 2500000;
    float *v = calloc(count, sizeof *v);
    int rc = td_group_all_reduce(g, v, v, TD_FLOAT32, count, TD_SUM, -1);
    free(v);
    return FAILS(g, rc, TD_E_MISMATCH, 1, "float32[2500000]", "float32[3000000]");
}

static void calls_that_differ(void)
{
    run_all(&(crew){.name = "differ", .size = 3, .timeout_ms = TEST_LONG_MS, .run = one_calls_otherwise, .except = -1});
    run_all(&(crew){.name = "more", .size = 2, .timeout_ms = TEST_LONG_MS, .run = one_gives_more, .except = -1});
}

/* ---- memory that is refused -------------------------------------------------------------------------------------- */

enum { HAS_LARGE = 1 << 20 }; /* floats: in large slots, which take 32 MiB of three ranks */

/* No room for these from here on, or as much as there is. */
static bool limit_memory(bool on)
{
    struct rlimit l;
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    bool good = f && fscanf(f, "%lu", &pages) == 1 && !getrlimit(RLIMIT_AS, &l);
    if (f) fclose(f);
    l.rlim_cur = on ? pages * (rlim_t)sysconf(_SC_PAGESIZE) + (16 << 20) : l.rlim_max;
    return good && !setrlimit(RLIMIT_AS, &l);
}

/* Ranks of which the seed has a bit have no memory for slots. */
static bool some_are_refused(td_group *g, const crew *c)
{
    float *v = calloc(HAS_LARGE, sizeof *v);
    uint32_t rank = td_group_rank(g), lowest = (uint32_t)__builtin_ctzll(c->seed);
    bool refused = c->seed >> rank & 1, all = c->seed == 7;
    if (!v || td_group_barrier(g, -1) || (refused && !limit_memory(true))) return false;
    int rc = td_group_all_reduce(g, v, v, TD_FLOAT32, HAS_LARGE, TD_SUM, -1);
    bool good = limit_memory(false) && rc;
    if (refused) good = good && rc != TD_E_MISMATCH && rc != TD_E_TIMEOUT && rc != TD_E_EPOCH;
    else
        good = good && FAILS(g, rc, TD_E_MEMORY, lowest, "cannot take part in all_reduce #2 (float32[1048576], sum): ");
    for (int i = 0; i < 1000; i++) v[i] = 1;
    rc = td_group_all_reduce(g, v, v, TD_FLOAT32, 1000, TD_SUM, -1);
    good = good && (all ? !rc && v[999] == 3 : rc == TD_E_EPOCH);
    if (!good) fprintf(stderr, "rank %u of %llx: %d\n", rank, (unsigned long long)c->seed, rc);
    free(v);
    return good;
}

/* A call that one rank has no memory for fails in all ranks at once; one that none has memory for leaves the group. */
static void memory_that_is_refused(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    td_test_skip("a sanitizer's memory cannot be limited");
    return;
#endif
    for (uint64_t which = 1; which <= 7; which++)
        run_all(&(crew){.name = "refused",
                        .size = 3,
                        .timeout_ms = TEST_LONG_MS,
                        .seed = which,
                        .run = some_are_refused,
                        .except = -1});
}

static bool one_dies(td_group *g, const crew *c)
{
    float v[1000] = {0};
    (void)c;
    if (td_group_barrier(g, -1) || td_group_all_reduce(g, v, v, TD_FLOAT32, 1000, TD_SUM, -1)) return false;
    if (td_group_rank(g) == 1) raise(SIGKILL);
    int rc = td_group_all_reduce(g, v, v, TD_FLOAT32, 999, TD_SUM, -1);
    return FAILS(g, rc, TD_E_MEMBER, 1, "rank 1 (pid ", "died in epoch", "before all_reduce #3 (float32[999], sum)",
                 "its last call was all_reduce #2 (float32[1000], sum) at") &&
           td_group_last_fault(g).round == 3 && FAILS(g, td_group_barrier(g, -1), TD_E_EPOCH, -1, "died");
}

/* A call of several rounds is one call. */
static bool one_dies_after_a_large_call(td_group *g, const crew *c)
{
    enum { COUNT = 2500000 };
    float *v = calloc(COUNT, sizeof *v);
    (void)c;
    int rc = v ? td_group_all_reduce(g, v, v, TD_FLOAT32, COUNT, TD_SUM, -1) : TD_E_SYSTEM;
    if (!rc && td_group_rank(g) == 1) raise(SIGKILL);
    if (!rc) rc = td_group_all_reduce(g, v, v, TD_FLOAT32, COUNT, TD_SUM, -1);
    free(v);
    return FAILS(g, rc, TD_E_MEMBER, 1, "before all_reduce #2 (float32[2500000], sum)",
                 "its last call was all_reduce #1 (float32[2500000], sum) at") &&
           td_group_last_fault(g).round == 2;
}

static bool one_leaves(td_group *g, const crew *c)
{
    (void)c;
    if (td_group_barrier(g, -1)) return false;
    if (td_group_rank(g) == 2) return true;
    return FAILS(g, td_group_barrier(g, -1), TD_E_MEMBER, 2, "rank 2 (pid ", "left in epoch", "before barrier #2");
}

enum { TAG = 3, OTHER = 4, ON_THEIR_WAY = 8, SHORT_MS = 20 };

static bool refuses_messages(td_group *g)
{
    int32_t v = 7;
    int64_t dims[TD_MAX_DIMS + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    td_message m;
#define REFUSES(data, shape, to, ...)                                                                                  \
    FAILS(g, td_group_send(g, data, TD_INT32, shape, to, TAG, SHORT_MS), TD_E_INVALID, -1, __VA_ARGS__)
    return REFUSES(&v, td_dims(1), TD_ANY_RANK, "a message goes to one rank") &&
           REFUSES(&v, td_dims(1), 0, "rank 0 cannot send itself messages") &&
           REFUSES(&v, td_dims(1), 2, "group 'talks' of 2 has ranks 0 to 1; there is no rank 2") &&
           FAILS(g, td_group_send(g, &v, TD_DTYPE_COUNT, td_dims(1), 1, TAG, 0), TD_E_TYPE, -1, "there is no dtype") &&
           FAILS(g, td_group_send(g, &v, (td_dtype)-1, td_dims(1), 1, TAG, 0), TD_E_TYPE, -1, "there is no dtype -1") &&
           REFUSES(&v, td_dims_of(9, dims), 1, "up to 8 dimensions, not 9") &&
           REFUSES(&v, td_dims_of(-1, dims), 1, "up to 8 dimensions, not -1") &&
           REFUSES(&v, td_dims(1, -1), 1, "a message of size -1 in dimension 1") &&
           REFUSES(&v, td_dims(INT64_MAX, 2), 1, "a message of size", "in dimension 0") &&
           REFUSES(NULL, td_dims(1), 1, "4 bytes at NULL") &&
           FAILS(g, td_group_send(NULL, &v, TD_INT32, td_dims(1), 1, TAG, 0), TD_E_INVALID, -1, "the group is NULL") &&
           FAILS(g, td_group_receive(g, 0, TAG, 0, &m), TD_E_INVALID, -1, "rank 0 cannot send itself") &&
           FAILS(g, td_group_recv(g, NULL, TD_INT32, 1, 1, TAG, 0, NULL), TD_E_INVALID, -1, "1 elements of dtype") &&
           FAILS(g, td_group_recv(g, &v, TD_DTYPE_COUNT, 1, 1, TAG, 0, NULL), TD_E_INVALID, -1, "1 elements of");
}

/* What stops a message is told by who waits: for room, for a message of one rank, or of any. */
static bool talks(td_group *g, const crew *c)
{
    int32_t v = 7, none[1];
    float wrong;
    td_message m;
    uint32_t from = 9;
    (void)c;
    if (td_group_rank(g) == 1) {
        while (!shared->steps[0]) test_sleep_ms(1);
        return FAILS(g, td_group_recv(g, &wrong, TD_FLOAT32, 1, 0, TAG, -1, NULL), TD_E_MISMATCH, -1,
                     "rank 0 sent int32[1], and this rank expects float32[1]") &&
               FAILS(g, td_group_recv(g, &v, TD_INT32, 2, TD_ANY_RANK, TAG, -1, NULL), TD_E_MISMATCH, -1,
                     "rank 0 sent int32[1], and this rank expects int32[2]") &&
               td_group_recv(g, none, TD_INT32, 0, TD_ANY_RANK, TAG, -1, &from) == TD_OK && from == 0;
    }
    int rc = refuses_messages(g) ? TD_OK : -1;
    for (int k = 0; k < ON_THEIR_WAY && !rc; k++)
        rc = k == 2 ? td_group_send(g, NULL, TD_INT32, td_dims(0), 1, TAG, SHORT_MS)
                    : td_group_send(g, &v, TD_INT32, td_dims(1, 1, 1, 1, 1, 1, 1, 1), 1, TAG, SHORT_MS);
    if (rc ||
        !FAILS(g, td_group_send(g, &v, TD_INT32, td_dims(1), 1, TAG, SHORT_MS), TD_E_TIMEOUT, -1, "rank 1 (pid ",
               "has taken none of 8 messages for", "there is no room for a message of tag 3") ||
        !FAILS(g, td_group_receive(g, 1, OTHER, SHORT_MS, &m), TD_E_TIMEOUT, -1, "rank 1 (pid ",
               "has not sent a message of tag 4 for") ||
        !FAILS(g, td_group_receive(g, TD_ANY_RANK, 0, SHORT_MS, &m), TD_E_TIMEOUT, -1,
               "no rank has sent a message for"))
        return false;
    shared->steps[0] = 1;
    while (!rc) rc = td_group_send(g, &v, TD_INT32, td_dims(1), 1, TAG, -1);
    return FAILS(g, rc, TD_E_MEMBER, -1, "rank 1 (pid ", "left in epoch", "before it took a message of tag 3") &&
           FAILS(g, td_group_receive(g, 1, OTHER, -1, &m), TD_E_MEMBER, -1, "rank 1 (pid ", "left in epoch",
                 "before it sent a message of tag 4") &&
           FAILS(g, td_group_receive(g, TD_ANY_RANK, OTHER, -1, &m), TD_E_MEMBER, -1,
                 "nobody is left in group 'talks' to send a message");
}

static void messages_that_do_not_come(void)
{
    run_all(&(crew){.name = "talks", .size = 2, .timeout_ms = TEST_LONG_MS, .run = talks, .except = -1});
}

static void members_that_go(void)
{
    pid_t pids[4];
    crew c = {.name = "dies", .size = 4, .timeout_ms = TEST_LONG_MS, .run = one_dies};
    for (int r = 0; r < 4; r++) pids[r] = start_member(&c, r);
    for (int r = 0; r < 4; r++) CU_ASSERT_EQUAL(end_of(pids[r]), r == 1 ? -SIGKILL : 0);
    c.run = one_dies_after_a_large_call;
    for (int r = 0; r < 4; r++) pids[r] = start_member(&c, r);
    for (int r = 0; r < 4; r++) CU_ASSERT_EQUAL(end_of(pids[r]), r == 1 ? -SIGKILL : 0);
    run_all(&(crew){.name = "leaves", .size = 3, .timeout_ms = TEST_LONG_MS, .run = one_leaves, .except = -1});
}

static bool one_is_stopped(td_group *g, const crew *c)
{
    (void)c;
    if (td_group_barrier(g, -1)) return false;
    if (td_group_rank(g) == 0) {
        shared->steps[0] = getpid();
        raise(SIGSTOP);
        return td_group_barrier(g, -1) == TD_E_TIMEOUT; /* it finds what the others have decided */
    }
    return FAILS(g, td_group_barrier(g, 300), TD_E_TIMEOUT, 0, "gave up after", "rank 0 (pid ",
                 "has not come to barrier #2", "its last call was barrier #1", "is stopped (state T)");
}

static void a_member_that_is_stopped(void)
{
    pid_t pids[3];
    memset(shared, 0, sizeof *shared);
    crew c = {.name = "stopped", .size = 3, .timeout_ms = TEST_LONG_MS, .run = one_is_stopped};
    for (int r = 0; r < 3; r++) pids[r] = start_member(&c, r);
    for (int r = 1; r < 3; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
    kill(pids[0], SIGCONT);
    CU_ASSERT_EQUAL(end_of(pids[0]), 0);
}

static void wakes(int signal)
{
    (void)signal;
    shared->steps[0] = 1;
}

/* One that lives and does nothing is asleep: nobody takes it for dead. */
static bool one_sleeps(td_group *g, const crew *c)
{
    (void)c;
    sigset_t all, before;
    sigfillset(&all);
    if (td_group_barrier(g, -1)) return false;
    if (td_group_rank(g) == 0) {
        sigprocmask(SIG_BLOCK, &all, &before);
        signal(SIGUSR1, wakes);
        while (!shared->steps[0]) sigsuspend(&before);
        sigprocmask(SIG_SETMASK, &before, NULL);
        return td_group_barrier(g, -1) == TD_E_TIMEOUT;
    }
    bool told = FAILS(g, td_group_barrier(g, 300), TD_E_TIMEOUT, 0, "gave up after", "rank 0 (pid ",
                      "has not come to barrier #2", "its last call was barrier #1", "its process sleeps");
    return told && !strstr(td_last_error()->message, "died");
}

static void a_member_that_sleeps(void)
{
    pid_t pids[3];
    memset(shared, 0, sizeof *shared);
    crew c = {.name = "asleep", .size = 3, .timeout_ms = TEST_LONG_MS, .run = one_sleeps};
    for (int r = 0; r < 3; r++) pids[r] = start_member(&c, r);
    for (int r = 1; r < 3; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
    kill(pids[0], SIGUSR1);
    CU_ASSERT_EQUAL(end_of(pids[0]), 0);
}

static bool forks(td_group *g, const crew *c)
{
    (void)c;
    if (td_group_barrier(g, -1)) return false;
    pid_t pid = fork();
    if (pid == 0) {
        int rc = td_group_barrier(g, -1);
        _exit(rc == TD_E_INVALID && strstr(td_last_error()->message, "forked") ? 0 : 1);
    }
    return end_of(pid) == 0 && !td_group_barrier(g, -1);
}

static void a_child_is_no_member(void)
{
    run_all(&(crew){.name = "forks", .size = 2, .timeout_ms = TEST_LONG_MS, .run = forks, .except = -1});
}

/* ---- interrupts -------------------------------------------------------------------------------------------------- */

enum { PIECE = 1 << 20 }; /* floats that fill a large slot */

static struct {
    bool armed;
    char *out; /* nobody may write there yet */
} here;

static bool looks(void *context)
{
    (void)context;
    shared->steps[0]++;
    return here.armed;
}

/* Something is about to be copied there: only once the other rank has gone on as far as it can. */
static void touched(int signal)
{
    (void)signal;
    for (int first = shared->steps[0]; shared->steps[0] < first + 3;) test_sleep_ms(1);
    mprotect(here.out, PIECE * sizeof(float), PROT_READ | PROT_WRITE);
}

static bool is_interrupted(td_group *g, float *v)
{
    for (int i = 0; i < 3 * PIECE; i++) v[i] = 5;
    here.armed = true;
    bool good = td_group_broadcast(g, v, TD_FLOAT32, PIECE, 0, -1) == TD_E_CANCELLED;
    here.armed = false;
    shared->steps[1] = 1;
    for (int i = 0; i < 3 * PIECE; i++) v[i] = 7;
    return good && !td_group_all_reduce(g, v, v, TD_FLOAT32, 3 * PIECE, TD_SUM, -1) && v[3 * PIECE - 1] == 8;
}

static bool comes_afterwards(td_group *g, float *v)
{
    while (!shared->steps[1]) test_sleep_ms(1);
    here.out = mmap(NULL, PIECE * sizeof *v, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, touched);
    if (here.out == MAP_FAILED || td_group_broadcast(g, here.out, TD_FLOAT32, PIECE, 0, -1)) return false;
    for (int i = 0; i < PIECE; i++)
        if (((float *)(void *)here.out)[i] != 5) return false;
    for (int i = 0; i < 3 * PIECE; i++) v[i] = 1;
    return !td_group_all_reduce(g, v, v, TD_FLOAT32, 3 * PIECE, TD_SUM, -1) && v[0] == 8;
}

static bool run_one_of_two(int rank)
{
    td_client *c = td_connect_until(server.socket, looks, NULL);
    td_group *g = c ? td_group_open(c, "interrupted", 2, rank, TEST_LONG_MS) : NULL;
    float *v = malloc(3 * PIECE * sizeof *v);
    for (int i = 0; v && i < PIECE; i++) v[i] = 1;
    bool good = g && v && !td_group_all_reduce(g, v, v, TD_FLOAT32, PIECE, TD_SUM, -1); /* there are large slots now */
    good = good && (rank ? comes_afterwards(g, v) : is_interrupted(g, v));
    if (!good) fprintf(stderr, "rank %d: %s\n", rank, td_last_error()->message);
    free(v);
    td_group_close(g);
    td_disconnect(c);
    return good;
}

/* Whoever was interrupted in a broadcast overwrites nothing that others have yet to read. */
static void an_interrupt_spoils_nothing(void)
{
    pid_t pids[2];
    memset(shared, 0, sizeof *shared);
    fflush(NULL);
    for (int r = 0; r < 2; r++)
        if (!(pids[r] = fork())) _exit(run_one_of_two(r) ? 0 : 1);
    for (int r = 0; r < 2; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
}

/* ---- a storm ----------------------------------------------------------------------------------------------------- */

/* Rounds of all kinds until a member dies; each notes which round it was told of. */
static bool until_one_dies(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    uint64_t most = 200000;
    float *v = malloc(most * sizeof *v);
    int rc = v ? TD_OK : TD_E_SYSTEM;
    for (uint64_t n = 0; !rc; n++) {
        uint64_t x = mix(c->seed + n), count = (x >> 8) % (UINT64_C(1) << (x >> 3 & 15)) * (x >> 30 & 7) % most;
        shared->steps[rank] = (int)n + 1;
        if ((x & 3) == 0) rc = td_group_barrier(g, -1);
        else if (!all_reduce_is_right(g, c, n, count, v)) rc = td_last_error()->code ? td_last_error()->code : -1;
    }
    free(v);
    td_group_fault f = td_group_last_fault(g);
    shared->told_round[rank] = f.round;
    return rc == TD_E_MEMBER && f.rank == c->size - 1;
}

static void a_death_at_any_moment(void)
{
    uint64_t seed = said_seed();
    td_client *c = join();
    for (int i = 0; i < 12; i++) {
        uint64_t x = mix(seed * 77 + (uint64_t)i);
        crew of = {.name = "storm",
                   .size = 2 + (uint32_t)(x % 4),
                   .timeout_ms = TEST_LONG_MS,
                   .seed = x,
                   .run = until_one_dies};
        pid_t pids[MOST];
        memset(shared, 0, sizeof *shared);
        for (uint32_t r = 0; r < of.size; r++) pids[r] = start_member(&of, (int)r);
        while (shared->steps[of.size - 1] < (int)(x >> 8 & 63) + 1) test_sleep_ms(1);
        usleep((useconds_t)(x >> 20 & 1023));
        kill(pids[of.size - 1], SIGKILL);
        CU_ASSERT_EQUAL(end_of(pids[of.size - 1]), -SIGKILL);
        for (uint32_t r = 0; r + 1 < of.size; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
        for (uint32_t r = 1; r + 1 < of.size; r++) CU_ASSERT_EQUAL(shared->told_round[r], shared->told_round[0]);
    }
    CU_ASSERT_TRUE(comes_to(c, "bytes_used", 0));
    td_disconnect(c);
}

/* ---- the daemon's end -------------------------------------------------------------------------------------------- */

static bool until_the_daemon_ends(td_group *g, const crew *c)
{
    (void)c;
    int rc = TD_OK;
    for (uint64_t n = 0; !rc; n++) {
        shared->steps[td_group_rank(g)]++;
        while (n > 100 && td_group_rank(g) == 1 && !shared->steps[2]) test_sleep_ms(1); /* the other waits for this */
        rc = td_group_barrier(g, -1);
    }
    if (td_group_rank(g) == 0) shared->steps[2] = 1;
    return rc == TD_E_LOST && td_group_barrier(g, -1) == TD_E_LOST; /* in both: it was given up */
}

static void the_daemon_ends(void)
{
    crew c = {.name = "ends", .size = 2, .timeout_ms = TEST_LONG_MS, .run = until_the_daemon_ends};
    pid_t pids[2];
    memset(shared, 0, sizeof *shared);
    for (int r = 0; r < 2; r++) pids[r] = start_member(&c, r);
    while (shared->steps[0] < 102) test_sleep_ms(1);
    kill(server.pid, SIGKILL);
    for (int r = 0; r < 2; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
    stop_server();
    CU_ASSERT_EQUAL(start_server(), 0);
}

TD_CUNIT_MAIN_WITH("client_groups", crew_start, stop_server, {"collectives of all sizes", collectives_of_all_sizes},
                   {"collectives in any order", collectives_in_any_order},
                   {"dtypes and reductions", dtypes_and_reductions},
                   {"who came and who did not", who_came_and_who_did_not},
                   {"a name is free again", a_name_is_free_again}, {"ranks are given", ranks_are_given},
                   {"a slow rank is named", a_slow_rank_is_named}, {"calls that differ", calls_that_differ},
                   {"memory that is refused", memory_that_is_refused}, {"members that go", members_that_go},
                   {"messages that do not come", messages_that_do_not_come},
                   {"a member that is stopped", a_member_that_is_stopped},
                   {"a member that sleeps", a_member_that_sleeps}, {"a child is no member", a_child_is_no_member},
                   {"an interrupt spoils nothing", an_interrupt_spoils_nothing},
                   {"a death at any moment", a_death_at_any_moment}, {"the daemon ends", the_daemon_ends})
