/* Epochs of groups with real processes: members that die, sleep or come late around regroup(), newcomers at the door,
 * and groups that go on without the dead. */
#include "tests/client/group/crew.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

/* ---- words among ranks ------------------------------------------------------------------------------------------- */

/* Each gives 1: the sum says how many were in it. */
static bool sum_is_size(td_group *g)
{
    static float v[20000];
    for (int i = 0; i < 20000; i++) v[i] = 1;
    if (td_group_all_reduce(g, v, v, TD_FLOAT32, 20000, TD_SUM, -1)) return false;
    for (int i = 0; i < 20000; i++)
        if (v[i] != (float)td_group_size(g)) return false;
    return true;
}

/* All regroup whenever somebody waits at the door, as rank 0 sees it, until there are so many. */
static bool grow_to(td_group *g, uint32_t size)
{
    for (;;) {
        int32_t door = (int32_t)td_group_door(g);
        if (td_group_size(g) == size) return true;
        if (td_group_broadcast(g, &door, TD_INT32, 1, 0, -1)) return false;
        if (!door) test_sleep_ms(1);
        else if (td_group_regroup(g, -1)) return false;
    }
}

/* Another process does what this one waits for. */
static void until_step(int rank, int step)
{
    for (int ms = 0; ms < TEST_LONG_MS && shared->steps[rank] < step; ms++) test_sleep_ms(1);
}

static bool lost_one(const td_group *g, uint32_t rank, int how)
{
    td_group_lost lost[MOST];
    return td_group_lost_members(g, lost, MOST) == 1 && lost[0].rank == rank && (int)lost[0].how == how &&
           lost[0].pid && lost[0].program[0];
}

/* ---- members that die -------------------------------------------------------------------------------------------- */

static bool goes_on_with_fewer(td_group *g, const crew *c)
{
    if (!grow_to(g, c->size) || !sum_is_size(g)) return false;
    uint32_t rank = td_group_rank(g), epoch = td_group_epoch(g);
    if (td_group_lost_members(g, NULL, 0)) return false;
    if (rank == 1) raise(SIGKILL);
    if (!FAILS(g, td_group_barrier(g, -1), TD_E_MEMBER, 1, "rank 1 (pid ", "died in epoch")) return false;
    if (td_group_regroup(g, -1)) return false;
    return td_group_size(g) == 3 && td_group_rank(g) == rank - (rank > 1) && td_group_epoch(g) > epoch &&
           lost_one(g, 1, TD_LOST_DIED) && td_group_last_fault(g).code == TD_OK && sum_is_size(g);
}

static void fewer_go_on(void)
{
    td_client *c = join();
    pid_t pids[4];
    int killed = 0;
    crew of = {.name = "fewer", .least = 2, .size = 4, .timeout_ms = TEST_LONG_MS, .run = goes_on_with_fewer};
    for (int r = 0; r < 4; r++) pids[r] = start_member(&of, -1);
    for (int r = 0; r < 4; r++) {
        int end = end_of(pids[r]);
        killed += end == -SIGKILL;
        CU_ASSERT_TRUE(end == 0 || end == -SIGKILL);
    }
    CU_ASSERT_EQUAL(killed, 1);
    CU_ASSERT_TRUE(comes_to(c, "bytes_used", 0));
    td_disconnect(c);
}

/* Rank 1 comes anew, before the others regroup or afterwards; they keep their ranks. */
static bool takes_it_in_again(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    bool newcomer = shared->steps[MOST - 1] != 0, early = c->seed;
    if (!newcomer) {
        if (!sum_is_size(g)) return false;
        if (rank == 1) raise(SIGKILL);
        if (!FAILS(g, td_group_barrier(g, -1), TD_E_MEMBER, 1, "died")) return false;
        if (early)
            while (!td_group_door(g)) test_sleep_ms(1);
        if (td_group_regroup(g, -1) || !lost_one(g, 1, TD_LOST_DIED)) return false;
    }
    return td_group_rank(g) == rank && td_group_size(g) == 3 && td_group_door(g) == 0 && sum_is_size(g) &&
           sum_is_size(g);
}

static void one_comes_again(void)
{
    for (uint64_t early = 0; early < 2; early++) {
        pid_t pids[3];
        memset(shared, 0, sizeof *shared);
        crew of = {.name = "again", .size = 3, .timeout_ms = TEST_LONG_MS, .seed = early, .run = takes_it_in_again};
        for (int r = 0; r < 3; r++) pids[r] = start_member(&of, r);
        CU_ASSERT_EQUAL(end_of(pids[1]), -SIGKILL);
        if (!early) test_sleep_ms(20);
        shared->steps[MOST - 1] = 1;
        pids[1] = start_member(&of, 1);
        for (int r = 0; r < 3; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
    }
}

/* ---- too few, or too late ---------------------------------------------------------------------------------------- */

static bool waits_for_another(td_group *g, const crew *c)
{
    (void)c;
    if (shared->steps[MOST - 1]) return sum_is_size(g);
    if (!sum_is_size(g)) return false;
    if (td_group_rank(g) == 2) raise(SIGKILL);
    if (td_group_barrier(g, -1) != TD_E_MEMBER) return false;
    int rc = td_group_regroup(g, 100);
    if (!FAILS(g, rc, TD_E_TIMEOUT, -1, "'few': ", "of 3 came in 0.1 s: rank ", "; rank 2 did not;", "; rank 2 (pid ",
               " died in epoch "))
        return false;
    if (!FAILS(g, td_group_barrier(g, -1), TD_E_EPOCH, -1, "before its members regroup")) return false;
    shared->steps[td_group_rank(g)] = 1;
    return !td_group_regroup(g, -1) && sum_is_size(g);
}

static void too_few(void)
{
    pid_t pids[3];
    memset(shared, 0, sizeof *shared);
    crew of = {.name = "few", .size = 3, .timeout_ms = TEST_LONG_MS, .run = waits_for_another};
    for (int r = 0; r < 3; r++) pids[r] = start_member(&of, r);
    CU_ASSERT_EQUAL(end_of(pids[2]), -SIGKILL);
    until_step(0, 1);
    until_step(1, 1);
    shared->steps[MOST - 1] = 1;
    pids[2] = start_member(&of, -1);
    for (int r = 0; r < 3; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
}

/* Rank 2 comes late, is told that it is out, and comes in by the door. */
static bool expels(td_group *g, const crew *c)
{
    if (shared->steps[MOST - 1]) return sum_is_size(g);
    if (!grow_to(g, 3) || !sum_is_size(g)) return false;
    if (td_group_rank(g) == 2) {
        until_step(0, 1);
        until_step(1, 1);
        if (!FAILS(g, td_group_barrier(g, -1), TD_E_EPOCH, -1, "rank 2 was expelled from group 'late' in epoch",
                   "open the group anew"))
            return false;
        if (!FAILS(g, td_group_regroup(g, -1), TD_E_EPOCH, -1, "expelled")) return false;
        shared->steps[MOST - 1] = 1;
        return run_member(c, -1);
    }
    if (td_group_regroup(g, 150) || td_group_size(g) != 2 || !lost_one(g, 2, TD_LOST_EXPELLED)) return false;
    if (!sum_is_size(g)) return false;
    shared->steps[td_group_rank(g)] = 1;
    return grow_to(g, 3) && td_group_lost_members(g, NULL, 0) == 0 && sum_is_size(g);
}

static void too_late(void)
{
    td_client *c = join();
    pid_t pids[3];
    memset(shared, 0, sizeof *shared);
    crew of = {.name = "late", .least = 2, .size = 3, .timeout_ms = TEST_LONG_MS, .run = expels};
    for (int r = 0; r < 3; r++) pids[r] = start_member(&of, -1);
    for (int r = 0; r < 3; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
    CU_ASSERT_TRUE(comes_to(c, "bytes_used", 0));
    td_disconnect(c);
}

/* The others learn at once that a rank comes to no round any more. */
static bool one_asks_first(td_group *g, const crew *c)
{
    (void)c;
    if (!sum_is_size(g)) return false;
    if (td_group_rank(g) == 0) return !td_group_regroup(g, -1) && sum_is_size(g);
    return FAILS(g, td_group_barrier(g, -1), TD_E_MEMBER, 0, "rank 0 (pid ", "asked to regroup in epoch",
                 "before barrier #2") &&
           !td_group_regroup(g, -1) && td_group_lost_members(g, NULL, 0) == 0 && sum_is_size(g);
}

static void one_regroups_alone(void)
{
    run_all(&(crew){.name = "alone", .size = 3, .timeout_ms = TEST_LONG_MS, .run = one_asks_first, .except = -1});
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

static void other_forms(void)
{
    td_client *c = join();
    CU_ASSERT_PTR_NULL(td_group_open_between(c, "forms", 3, 2, -1, TD_ON_DEATH_FAIL, 0));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_INVALID);
    CU_ASSERT_PTR_NULL(td_group_open_between(c, "forms", 0, 2, -1, TD_ON_DEATH_FAIL, 0));
    CU_ASSERT_PTR_NULL(td_group_open_between(c, "forms", 1, 257, -1, TD_ON_DEATH_FAIL, 0));
    CU_ASSERT_PTR_NULL(td_group_open_between(c, "forms", 1, 2, -1, (td_on_death)7, 0));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_INVALID);
    CU_ASSERT_PTR_NULL(td_group_open_between(c, "forms", 1, 2, 0, TD_ON_DEATH_FAIL, 0));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "rank 0 cannot be asked for"));
    CU_ASSERT_PTR_NULL(td_group_open_between(c, "forms", 2, 8, -1, TD_ON_DEATH_FAIL, 20));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_TIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "group 'forms': 1 of 2 to 8 came in 0.02 s: pid "));
    td_group *g = td_group_open_between(c, "forms", 1, 2, -1, TD_ON_DEATH_FAIL, TEST_LONG_MS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(g);
    CU_ASSERT_TRUE(td_group_size(g) == 1 && td_group_rank(g) == 0);
    CU_ASSERT_PTR_NULL(td_group_open(c, "forms", 2, -1, 0));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_EXISTS);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(td_last_error()->message, "group 'forms' has 1 to 2 members, not 2 to 2: rank 0 (pid "));
    CU_ASSERT_PTR_NULL(td_group_open_between(c, "forms", 1, 2, -1, TD_ON_DEATH_FAIL, 20));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_TIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "is still in epoch "));
    CU_ASSERT_EQUAL(td_group_door(g), 0);
    for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(td_group_regroup(g, 0), TD_OK); /* nobody else is waited for */
    CU_ASSERT_TRUE(sum_is_size(g));
    td_group_close(g);
    CU_ASSERT_EQUAL(td_group_regroup(NULL, 0), TD_E_INVALID);
    CU_ASSERT_TRUE(comes_to(c, "bytes_used", 0));
    td_disconnect(c);
}

/* ---- on without the dead ----------------------------------------------------------------------------------------- */

/* Each rank gives its bit, so a sum says who was in it. */
static int32_t mask_of(td_group *g, uint64_t count, int32_t *v)
{
    for (uint64_t i = 0; i < count; i++) v[i] = 1 << td_group_rank(g);
    return td_group_all_reduce(g, v, v, TD_INT32, count, TD_SUM, -1) ? -1 : v[count - 1];
}

static int32_t contributors(const td_group *g)
{
    uint32_t ranks[MOST], n = td_group_contributors(g, ranks, MOST);
    int32_t mask = 0;
    for (uint32_t i = 0; i < n && i < MOST; i++) mask |= 1 << ranks[i];
    return mask;
}

static bool goes_on_without(td_group *g, const crew *c)
{
    static const uint64_t counts[] = {1, 60, 5000, 300000, 2500000};
    static int32_t v[2500000], all[4 * 20000];
    int32_t rank = (int32_t)td_group_rank(g);
    if (td_group_contributors(g, NULL, 0) || mask_of(g, 5000, v) != 15 || contributors(g) != 15) return false;
    if (rank == 1 && c->seed) return true; /* it leaves, and says so */
    if (rank == 1) raise(SIGKILL);
    for (int k = 0; k < 5; k++)
        if (mask_of(g, counts[k], v) != 13 || v[0] != 13 || contributors(g) != 13) return false;
    double mean = rank;
    if (td_group_all_reduce(g, &mean, &mean, TD_FLOAT64, 1, TD_MEAN, -1) || mean != 5 / 3.0) return false;
    for (uint64_t count = 4; count <= 20000; count += 19996) {
        for (uint64_t i = 0; i < count; i++) v[i] = rank + 1;
        memset(all, 255, sizeof all);
        if (td_group_all_gather(g, v, all, TD_INT32, count, -1)) return false;
        for (uint64_t i = 0; i < 4 * count; i++)
            if (all[i] != (i / count == 1 ? 0 : (int32_t)(i / count) + 1)) return false;
        for (int n = 0; n < 2; n++) {
            int rc = td_group_broadcast(g, v, TD_INT32, count, 1, -1);
            if (!FAILS(g, rc, TD_E_MEMBER, 1, c->seed ? "left in epoch" : "died in epoch", "before broadcast"))
                return false;
            if (mask_of(g, 5000, all) != 13) return false; /* and all the same it goes on */
        }
        if (td_group_broadcast(g, v, TD_INT32, count, 3, -1) || v[count - 1] != 4) return false;
    }
    if (td_group_barrier(g, -1) || td_group_regroup(g, 0) != TD_E_TIMEOUT) return false; /* it wants four */
    return FAILS(g, td_group_barrier(g, -1), TD_E_EPOCH, -1, "before its members regroup");
}

static void on_without_one(void)
{
    for (uint64_t leaves = 0; leaves < 2; leaves++) {
        pid_t pids[4];
        crew c = {.name = "without",
                  .size = 4,
                  .timeout_ms = TEST_LONG_MS,
                  .seed = leaves,
                  .on_death = TD_ON_DEATH_SHRINK,
                  .run = goes_on_without};
        for (int r = 0; r < 4; r++) pids[r] = start_member(&c, r);
        for (int r = 0; r < 4; r++) CU_ASSERT_EQUAL(end_of(pids[r]), r == 1 && !leaves ? -SIGKILL : 0);
    }
}

/* Rank 0 tells nothing of what it gives, and of how large its buffer is. */
static bool exchanges_without(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    uint64_t counts[3] = {2, 2, 2}, two[3] = {2, 2, 2};
    int32_t in[8] = {0}, out[6] = {-1, -1, -1, -1, -1, -1};
    (void)c;
    for (int i = 0; i < 6; i++) in[i] = (int32_t)(10 * rank) + i / 2 + 1;
    if (td_group_barrier(g, -1)) return false;
    if (rank == 0) raise(SIGKILL);
    if (td_group_all_to_all_of(g, in, counts, out, counts, TD_INT32, -1)) return false;
    for (int i = 0; i < 6; i++)
        if (out[i] != (i < 2 ? 0 : 10 * (i / 2) + (int32_t)rank + 1)) return false;
    td_group_buffer *b = td_group_buffer(g, 4096);
    if (!b) return false;
    int32_t *at = td_buffer_input(b);
    for (int i = 0; i < 1024; i++) at[i] = (int32_t)rank;
    bool good = !td_buffer_all_reduce(b, 0, TD_INT32, 1024, TD_SUM, -1) && *(int32_t *)td_buffer_result(b) == 3;
    td_buffer_free(b);
    counts[3 - rank]++; /* no more than the other expects, if that one lives */
    return good && td_group_all_to_all_of(g, in, counts, out, two, TD_INT32, -1) == TD_E_MISMATCH;
}

static void exchanges_without_the_first(void)
{
    pid_t pids[3];
    crew c = {.name = "first",
              .size = 3,
              .timeout_ms = TEST_LONG_MS,
              .on_death = TD_ON_DEATH_SHRINK,
              .run = exchanges_without};
    for (int r = 0; r < 3; r++) pids[r] = start_member(&c, r);
    for (int r = 0; r < 3; r++) CU_ASSERT_EQUAL(end_of(pids[r]), r ? 0 : -SIGKILL);
}

enum { CALLS = 4000 };
static struct {
    int32_t masks[MOST][CALLS][2]; /* of the first element and of the last, as each rank had them */
    _Atomic int ends;              /* after that many calls */
} * seen;

/* Sums of all sizes; those that were in a piece were in all pieces before, and those that were in all are told. */
static bool until_all_end(td_group *g, const crew *c)
{
    static int32_t v[2500000];
    uint32_t rank = td_group_rank(g);
    for (int n = 0; n < CALLS; n++) {
        uint64_t x = mix(c->seed + (uint64_t)n), count = 1 + (x >> 8) % (UINT64_C(1) << (x >> 40) % 16);
        if ((x & 63) == 0) count = 1 + x % 2500000;
        int32_t last = mask_of(g, count, v);
        if (last < 0) return false;
        for (uint64_t i = 1; i < count; i++)
            if ((v[i] & v[i - 1]) != v[i]) return false;
        if (last != contributors(g) || !(last >> rank & 1)) return false;
        seen->masks[rank][n][0] = v[0];
        seen->masks[rank][n][1] = last;
        shared->steps[rank] = n + 1;
        if (n == seen->ends) return true;
    }
    return true;
}

static void on_without_many(void)
{
    uint64_t seed = said_seed();
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_PTR_NOT_EQUAL_FATAL(seen, MAP_FAILED);
    for (int i = 0; i < 12; i++) {
        uint64_t x = mix(seed * 177 + (uint64_t)i);
        crew of = {.name = "without many",
                   .size = 3 + (uint32_t)(x % 4),
                   .timeout_ms = TEST_LONG_MS,
                   .seed = x,
                   .on_death = TD_ON_DEATH_SHRINK,
                   .run = until_all_end};
        pid_t pids[MOST];
        memset(shared, 0, sizeof *shared);
        memset(seen, 0, sizeof *seen);
        seen->ends = CALLS;
        for (uint32_t r = 0; r < of.size; r++) pids[r] = start_member(&of, (int)r);
        uint32_t dead = 1 + (uint32_t)(x >> 40) % (of.size - 1); /* the last ones */
        for (uint32_t k = 1; k <= dead; k++) {
            int from = shared->steps[0] + 1 + (int)(x >> (5 * k) & 31); /* all came */
            while (shared->steps[0] < from && shared->steps[0] < CALLS) test_sleep_ms(1);
            usleep((useconds_t)(x >> k & 1023));
            kill(pids[of.size - k], SIGKILL);
            CU_ASSERT_EQUAL(end_of(pids[of.size - k]), -SIGKILL);
        }
        int most = 0;
        for (uint32_t r = 0; r < of.size; r++) most = shared->steps[r] > most ? shared->steps[r] : most;
        seen->ends = most + 20 < CALLS ? most + 20 : CALLS;
        for (uint32_t r = 0; r < of.size - dead; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
        for (uint32_t r = 1; r < of.size - dead; r++)
            CU_ASSERT_EQUAL(memcmp(seen->masks[0], seen->masks[r], sizeof seen->masks[0]), 0);
        CU_ASSERT_EQUAL(seen->masks[0][shared->steps[0] - 1][1], (1 << (of.size - dead)) - 1);
    }
    munmap(seen, sizeof *seen);
}

/* ---- messages meanwhile ------------------------------------------------------------------------------------------ */

typedef struct listener {
    td_group *group;
    _Atomic bool stops, wrong;
} listener;

static void *listen_on(void *at)
{
    listener *l = at;
    while (!l->stops) {
        td_message m;
        int rc = td_group_receive(l->group, TD_ANY_RANK, 0, 0, &m);
        if (rc != TD_E_TIMEOUT && rc != TD_E_BUSY && rc != TD_E_MEMBER) l->wrong = true;
        usleep(50);
    }
    return NULL;
}

static bool regroups_and_listens(td_group *g, const crew *c)
{
    listener l = {.group = g};
    pthread_t thread;
    (void)c;
    if (pthread_create(&thread, NULL, listen_on, &l)) return false;
    int rc = TD_OK;
    for (int i = 0; i < 200 && !rc; i++) do
            rc = td_group_regroup(g, -1);
        while (rc == TD_E_BUSY);
    l.stops = true;
    pthread_join(thread, NULL);
    return !rc && !l.wrong && sum_is_size(g);
}

/* A thread asks for messages again and again, another regroups: each is told when it comes in the other's way. */
static void listens_meanwhile(void)
{
    crew c = {.name = "listens", .size = 2, .timeout_ms = TEST_LONG_MS, .except = -1, .run = regroups_and_listens};
    run_all(&c);
}

/* ---- a storm ----------------------------------------------------------------------------------------------------- */

static int open_files(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int maps(void)
{
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) n += strstr(line, "memfd") != NULL;
    if (f) fclose(f);
    return n;
}

/* Rounds, and another epoch whenever one fails or somebody waits, until all are there and it is said that this is the
 * end. A rank that was there for long enough has as many descriptors and maps as it had. */
static bool weathers(td_group *g, const crew *c)
{
    static float large[1200000];
    int files = 0, mapped = 0;
    for (uint64_t n = 1;; n++) {
        int32_t say[2] = {(int32_t)td_group_door(g), shared->steps[0]};
        int rc = td_group_broadcast(g, say, TD_INT32, 2, 0, -1);
        bool last = !rc && say[1] && td_group_size(g) == c->size;
        if (last && !(rc = td_group_barrier(g, -1)))
            return true; /* else one was killed after it had come to the broadcast */
        if (!rc && !say[0]) rc = sum_is_size(g) ? TD_OK : td_last_error()->code ? td_last_error()->code : -1;
        if (!rc && n % 16 == 5) rc = td_group_all_reduce(g, large, large, TD_FLOAT32, 1200000, TD_SUM, -1);
        if (rc && rc != TD_E_MEMBER) return false;
        if (!rc && !say[0]) continue;
        if (td_group_regroup(g, -1)) return false;
        n = 0; /* newcomers begin so, too */
        shared->steps[1]++;
        if (files && (open_files() != files || maps() > mapped)) {
            fprintf(stderr, "%d descriptors, then %d; %d maps, then %d\n", files, open_files(), mapped, maps());
            return false;
        }
        if (!files) files = open_files(), mapped = maps() + 1;
    }
}

static void kills_and_newcomers(void)
{
    enum { MEMBERS = 5, STORM_MS = 4000 };
    const char *said = getenv("TENSORD_TEST_SEED");
    unsigned seed = said ? (unsigned)strtoul(said, NULL, 0) : (unsigned)test_now_ms();
    fprintf(stderr, "seed %u\n", seed);
    td_client *c = join();
    pid_t pids[MEMBERS];
    memset(shared, 0, sizeof *shared);
    crew of = {.name = "weather", .least = 2, .size = MEMBERS, .timeout_ms = TEST_LONG_MS, .run = weathers};
    for (int r = 0; r < MEMBERS; r++) pids[r] = start_member(&of, -1);
    int kills = 0;
    for (uint64_t until = test_now_ms() + STORM_MS; test_now_ms() < until; kills++) {
        usleep((useconds_t)rand_r(&seed) % 40000);
        int r = (int)((unsigned)rand_r(&seed) % MEMBERS);
        kill(pids[r], SIGKILL);
        CU_ASSERT_EQUAL(end_of(pids[r]), -SIGKILL);
        if (rand_r(&seed) % 2) usleep((useconds_t)rand_r(&seed) % 10000);
        pids[r] = start_member(&of, -1);
    }
    shared->steps[0] = 1;
    for (int r = 0; r < MEMBERS; r++) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
    fprintf(stderr, "%d kills, %d times a rank was in a new epoch\n", kills, shared->steps[1]);
    CU_ASSERT_TRUE(shared->steps[1] > 10);
    CU_ASSERT_TRUE(comes_to(c, "bytes_used", 0));
    CU_ASSERT_TRUE(comes_to(c, "sessions", 1));
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_regroup", crew_start, stop_server, {"fewer go on", fewer_go_on},
                   {"one comes again", one_comes_again}, {"too few", too_few}, {"too late", too_late},
                   {"one regroups alone", one_regroups_alone}, {"other forms", other_forms},
                   {"on without one", on_without_one}, {"exchanges without the first", exchanges_without_the_first},
                   {"on without many", on_without_many}, {"listens meanwhile", listens_meanwhile},
                   {"kills and newcomers", kills_and_newcomers})
