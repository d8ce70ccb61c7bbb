/* Boards with ranks that run by themselves: processes that are killed, or stopped for a while, at random moments, and
 * threads. Every sum is looked at; who is left when one was killed must see the same round fail for it. */
#include "proto/base/clock.h"
#include "shm/board/board.h"
#include "shm/board/combine.h"
#include "shm/board/site.h"
#include "tests/unit/cunit_main.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 8, DEADLINE_MS = 20000, STORM_MS = 2500 };

typedef struct report {
    td_round_outcome outcome; /* of the last round */
    uint32_t culprit;
    uint64_t rounds; /* that were done */
    uint64_t bad;    /* numbers that were no sum */
} report;

typedef struct group {
    uint32_t members;
    unsigned char *base;
    td_page *page;
    report *reports;
    uint64_t last; /* the round after which ranks leave; 0: none */
    size_t bytes;
} group;

static void group_open(group *g, uint32_t members)
{
    size_t page = (td_page_bytes(members) + 4095) & ~(size_t)4095, reports = 4096;
    g->bytes = td_board_bytes(members) + page + reports;
    g->base = mmap(NULL, g->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_TRUE_FATAL(g->base != MAP_FAILED);
    g->page = (td_page *)(g->base + td_board_bytes(members));
    g->reports = (report *)(g->base + td_board_bytes(members) + page);
    g->members = members;
    g->last = 0;
    td_page_init(g->page, members, 1, TD_PAGE_FAILS);
    for (uint32_t i = 0; i < members; i++) td_page_join(g->page, i, 1 + i, "test", "");
    td_page_set(g->page, TD_PAGE_OPEN);
}

static void group_close(group *g)
{
    munmap(g->base, g->bytes);
}

static int64_t value(uint64_t rank, uint64_t round, uint64_t i)
{
    return (int64_t)((rank + 1) * 1000003 + round * 7919 + i * 31);
}

static int64_t total(uint32_t members, uint64_t round, uint64_t i)
{
    int64_t sum = 0;
    for (uint32_t k = 0; k < members; k++) sum += value(k, round, i);
    return sum;
}

static uint64_t not_total(const group *g, const int64_t *x, uint64_t round, uint64_t count)
{
    uint64_t bad = 0;
    for (uint64_t i = 0; i < count; i += count < 64 ? 1 : 61) bad += x[i] != total(g->members, round, i);
    return bad;
}

/* One rank, until a round fails or is the last: barriers, sums with the call, of one chunk and of several. */
static void be_rank(group *g, uint32_t rank)
{
    static const uint64_t counts[] = {0, 32, 1000, 8192, 3000};
    report *mine = &g->reports[rank];
    const void *in[RANKS];
    td_board b;
    td_round r;
    td_board_open(&b, g->base, g->page, rank, g->members);
    while (!g->last || b.next <= g->last) {
        uint64_t n = b.next, count = counts[n % 5];
        unsigned turn = (unsigned)(n % 2);
        int64_t payload[32], *out = (int64_t *)(g->base + td_board_small_result(g->members, turn));
        int64_t *own = (int64_t *)(g->base + td_board_small_input(g->members, rank, turn));
        td_board_call call = {.kind = count ? TD_COLL_ALL_REDUCE : TD_COLL_BARRIER,
                              .dtype = TD_INT64,
                              .op = TD_SUM,
                              .place = count > 32 ? TD_BOARD_IN_SMALL : TD_BOARD_IN_CALL,
                              .count = count,
                              .bytes = count == 32 ? sizeof payload : 0};
        if (count == 32) own = payload;
        for (uint64_t i = 0; i < count; i++) own[i] = value(rank, n, i);
        for (uint32_t k = 0; k < g->members; k++) in[k] = g->base + td_board_small_input(g->members, k, turn);
        td_board_arrive(&b, &r, &call, payload, in, out);
        uint64_t deadline = td_clock_ms() + DEADLINE_MS;
        td_round_outcome outcome = TD_OUTCOME_OPEN;
        while (!outcome && td_clock_ms() < deadline) outcome = td_board_wait(&b, &r, TD_BOARD_SLICE_MS);
        if (!outcome) outcome = td_board_give_up(&b, &r);
        mine->outcome = outcome;
        mine->culprit = r.culprit;
        if (outcome != TD_OUTCOME_DONE) return;
        if (count == 32) {
            for (uint32_t k = 0; k < g->members; k++) in[k] = td_board_payload(&b, &r, k);
            td_combine(TD_SUM, TD_INT64, payload, in, g->members, count);
            out = payload;
        }
        mine->bad += not_total(g, out, n, count);
        mine->rounds = n;
    }
}

static void nap(uint64_t us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

/* One group, of which one rank is killed; another may be stopped for a while. */
static void storm(unsigned *seed, uint64_t *rounds)
{
    group g;
    pid_t pids[RANKS];
    group_open(&g, 2 + (uint32_t)rand_r(seed) % (RANKS - 1));
    for (uint32_t i = 0; i < g.members; i++) {
        fflush(stdout);
        pids[i] = fork();
        CU_ASSERT_TRUE_FATAL(pids[i] >= 0);
        if (pids[i] == 0) {
            be_rank(&g, i);
            _exit(0);
        }
    }
    uint32_t victim = (uint32_t)rand_r(seed) % g.members, sleeper = (uint32_t)rand_r(seed) % g.members;
    bool stops = rand_r(seed) % 2 && sleeper != victim;
    nap((uint64_t)rand_r(seed) % 30000);
    if (stops) kill(pids[sleeper], SIGSTOP);
    nap((uint64_t)rand_r(seed) % 3000);
    kill(pids[victim], SIGKILL);
    int status;
    CU_ASSERT_EQUAL(waitpid(pids[victim], &status, 0), pids[victim]);
    uint64_t until = td_board_post_mortem(g.base, g.page, victim, TD_RANK_DEAD);
    if (stops) {
        nap((uint64_t)rand_r(seed) % 3000);
        kill(pids[sleeper], SIGCONT);
    }
    for (uint32_t i = 0; i < g.members; i++) {
        const report *p = &g.reports[i];
        if (i == victim) continue;
        CU_ASSERT_EQUAL(waitpid(pids[i], &status, 0), pids[i]);
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT_EQUAL(p->outcome, TD_OUTCOME_MEMBER);
        CU_ASSERT_EQUAL(p->culprit, victim);
        CU_ASSERT_EQUAL(p->rounds, until - 1);
        CU_ASSERT_EQUAL(p->bad, 0);
    }
    CU_ASSERT_EQUAL(g.reports[victim].bad, 0);
    *rounds += until;
    group_close(&g);
}

static void killed(void)
{
    unsigned seed = (unsigned)td_clock_ns(), n = 0;
    if (getenv("TENSORD_SEED")) seed = (unsigned)strtoul(getenv("TENSORD_SEED"), NULL, 0);
    printf(" seed %u ", seed);
    uint64_t rounds = 0, end = td_clock_ms() + STORM_MS;
    for (; td_clock_ms() < end && !CU_get_number_of_failures(); n++) storm(&seed, &rounds);
    printf("%u groups, %llu rounds ", n, (unsigned long long)rounds);
}

struct thread {
    group *group;
    uint32_t rank;
    pthread_t id;
};

/* More ranks than processors, and none gives way to whoever is less urgent: each round comes to an end all the same. */
static void urgent(void)
{
    struct sched_param high = {.sched_priority = 1};
    pid_t pids[RANKS];
    group g;
    group_open(&g, RANKS);
    g.last = 300;
    bool may = true;
    for (uint32_t i = 0; i < RANKS; i++) {
        fflush(stdout);
        pids[i] = fork();
        CU_ASSERT_TRUE_FATAL(pids[i] >= 0);
        if (pids[i] == 0) {
            if (sched_setscheduler(0, SCHED_FIFO, &high)) _exit(9);
            be_rank(&g, i);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        int status;
        CU_ASSERT_EQUAL(waitpid(pids[i], &status, 0), pids[i]);
        may = may && WEXITSTATUS(status) != 9;
        if (!may) continue;
        CU_ASSERT_EQUAL(g.reports[i].outcome, TD_OUTCOME_DONE);
        CU_ASSERT_EQUAL(g.reports[i].bad, 0);
    }
    if (!may) td_test_skip("real-time priority is not granted here");
    group_close(&g);
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    be_rank(t->group, t->rank);
    return NULL;
}

static void threads_as_ranks(void)
{
    struct thread threads[4];
    group g;
    group_open(&g, 4);
    g.last = 1000;
    for (uint32_t i = 0; i < 4; i++) {
        threads[i] = (struct thread){.group = &g, .rank = i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(threads[i].id, NULL);
        CU_ASSERT_EQUAL(g.reports[i].outcome, TD_OUTCOME_DONE);
        CU_ASSERT_EQUAL(g.reports[i].rounds, 1000);
        CU_ASSERT_EQUAL(g.reports[i].bad, 0);
    }
    group_close(&g);
}

/* A member writes anything anywhere: the others, and who looks after the dead, come to an end. */
static void scribbled_over(void)
{
    unsigned seed = 11;
    for (int n = 0; n < 20; n++) {
        group g;
        group_open(&g, 3);
        td_board b;
        td_round r;
        td_board_open(&b, g.base, g.page, 1, 3);
        for (int k = 0; k < 5; k++) {
            uint64_t *words = (uint64_t *)(void *)g.base, until = td_board_small_input(3, 0, 0) / 8;
            for (uint64_t i = 0; i < until; i++)
                if (rand_r(&seed) % 2) words[i] = ((uint64_t)rand_r(&seed) << 40) ^ (uint64_t)rand_r(&seed) << 16;
                else if (rand_r(&seed) % 2) words[i] = b.next << 16 | (uint64_t)rand_r(&seed) % 65536;
            td_board_call call = {
                .kind = TD_COLL_ALL_REDUCE, .dtype = TD_FLOAT32, .place = TD_BOARD_IN_SMALL, .count = 16384};
            const void *in[3] = {g.base + td_board_small_input(3, 0, 0), g.base + td_board_small_input(3, 1, 0),
                                 g.base + td_board_small_input(3, 2, 0)};
            td_board_arrive(&b, &r, &call, NULL, in, g.base + td_board_small_result(3, 0));
            td_board_wait(&b, &r, 1);
            CU_ASSERT_NOT_EQUAL(td_board_give_up(&b, &r), TD_OUTCOME_OPEN);
            CU_ASSERT_TRUE(r.culprit < 3);
            td_board_post_mortem(g.base, g.page, k % 3, k % 2 ? TD_RANK_DEAD : TD_RANK_LEFT);
        }
        CU_ASSERT_TRUE(atomic_load(&g.page->dead) <= 3);
        group_close(&g);
    }
}

/* A member scribbles all the time: the others' rounds end, if only by their deadlines, and so does a post-mortem. */
static void scribbled_over_all_the_time(void)
{
    group g;
    group_open(&g, 3);
    fflush(stdout);
    pid_t scribbler = fork();
    CU_ASSERT_TRUE_FATAL(scribbler >= 0);
    if (scribbler == 0) {
        _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)g.base;
        uint64_t until = td_board_small_input(3, 0, 0) / 8, x = 88172645463325252;
        for (;; x ^= x << 13, x ^= x >> 7, x ^= x << 17)
            atomic_store(&words[x % until], x % 3 ? x : (1 + (x >> 40) % 8) << 16 | (x >> 20) % 65536);
    }
    td_board b;
    td_board_open(&b, g.base, g.page, 1, 3);
    for (int n = 0; n < 40; n++) {
        td_board_call call = {
            .kind = TD_COLL_ALL_REDUCE, .dtype = TD_FLOAT32, .place = TD_BOARD_IN_SMALL, .count = 16384};
        const void *in[3] = {g.base + td_board_small_input(3, 0, 0), g.base + td_board_small_input(3, 1, 0),
                             g.base + td_board_small_input(3, 2, 0)};
        td_round r;
        td_round_outcome outcome;
        b.broken = 0; /* as if nothing had been */
        td_board_arrive(&b, &r, &call, NULL, in, g.base + td_board_small_result(3, 0));
        outcome = td_board_wait(&b, &r, 2);
        if (!outcome) outcome = td_board_give_up(&b, &r);
        CU_ASSERT_NOT_EQUAL(outcome, TD_OUTCOME_OPEN);
        CU_ASSERT_TRUE(r.culprit < 3);
        if (n == 30) td_board_post_mortem(g.base, g.page, 2, TD_RANK_LEFT);
    }
    kill(scribbler, SIGKILL);
    CU_ASSERT_EQUAL(waitpid(scribbler, NULL, 0), scribbler);
    CU_ASSERT_TRUE(td_board_post_mortem(g.base, g.page, 2, TD_RANK_DEAD) > 0);
    CU_ASSERT_EQUAL(atomic_load(&g.page->dead), 1);
    group_close(&g);
}

/* What it says to whom waits in vain, and what it says afterwards. */
static void told(void)
{
    group g;
    td_board b, first;
    td_round r, other;
    td_board_call call = {.kind = TD_COLL_BROADCAST, .dtype = TD_UINT8, .count = 5, .bytes = 5, .root = 1, .site = 77},
                  seen;
    uint32_t missing[4];
    uint64_t since;
    group_open(&g, 4);
    td_board_open(&b, g.base, g.page, 1, 4);
    td_board_open(&first, g.base, g.page, 0, 4);
    td_board_last(g.base, 1, &seen, &since);
    CU_ASSERT_EQUAL(seen.round, 0);
    td_board_arrive(&b, &r, &call, "words", NULL, NULL);
    CU_ASSERT_EQUAL(td_board_wait(&b, &r, 1), TD_OUTCOME_OPEN);
    CU_ASSERT_EQUAL(td_board_missing(&b, &r, missing, 4), 3);
    CU_ASSERT_TRUE(missing[0] == 0 && missing[1] == 2 && missing[2] == 3);
    td_board_last(g.base, 1, &seen, &since);
    CU_ASSERT_TRUE(seen.round == 1 && seen.site == 77 && since <= td_clock_ns());
    CU_ASSERT_FALSE(td_board_said(&b, &r, 0, &seen));
    CU_ASSERT_TRUE(td_board_said(&b, &r, 1, &seen) && seen.count == 5);
    td_board_arrive(&first, &other, &call, "other", NULL, NULL);
    CU_ASSERT_EQUAL(td_board_poll(&first, &other), TD_OUTCOME_OPEN);
    CU_ASSERT_EQUAL(memcmp(td_board_payload(&first, &other, 1), "words", 5), 0);
    CU_ASSERT_EQUAL(td_board_give_up(&b, &r), TD_OUTCOME_GAVE_UP);
    CU_ASSERT_EQUAL(td_board_wait(&first, &other, 1), TD_OUTCOME_GAVE_UP);
    CU_ASSERT_EQUAL(other.culprit, 1);
    td_board_arrive(&first, &other, &call, "other", NULL, NULL); /* and so it is from there on */
    CU_ASSERT_EQUAL(td_board_poll(&first, &other), TD_OUTCOME_GAVE_UP);
    group_close(&g);
}

/* Texts of others are shown as they are, but for what would move a terminal's cursor. */
static void sites(void)
{
    static td_site_text all[2 * TD_SITE_SLOTS];
    td_sites mine = {.all = all, .rank = 1}, other = {.all = all, .rank = 0};
    char text[TD_SITE_TEXT];
    uint32_t odd = td_sites_number(&mine, "a\033[2Jb.py:3"), plain = td_sites_number(&mine, "caf\xc3\xa9.py:4");
    CU_ASSERT_TRUE(td_sites_text(&other, 1, odd, text));
    CU_ASSERT_STRING_EQUAL(text, "a\\x1b[2Jb.py:3");
    CU_ASSERT_TRUE(td_sites_text(&other, 1, plain, text));
    CU_ASSERT_STRING_EQUAL(text, "caf\xc3\xa9.py:4");
    CU_ASSERT_FALSE(td_sites_text(&other, 1, plain + 1, text));
    CU_ASSERT_FALSE(td_sites_text(&other, 0, plain, text));
}

/* As many texts as there are slots are known by their numbers; the next one takes the place of the oldest. */
static void sites_come_and_go(void)
{
    static td_site_text all[2 * TD_SITE_SLOTS];
    static char said[TD_SITE_SLOTS + 1][2 * TD_SITE_TEXT];
    td_sites mine = {.all = all, .rank = 1}, other = {.all = all};
    char text[TD_SITE_TEXT];
    for (unsigned i = 0; i < TD_SITE_SLOTS; i++) {
        said[i][0] = '-';
        CU_ASSERT_EQUAL(td_sites_number(&other, said[i]), i + 1);
    }
    CU_ASSERT_FALSE(td_sites_text(&mine, 1, 0, text)); /* no site, though its slot was never used */
    CU_ASSERT_TRUE(td_sites_number(&mine, NULL) == 0 && td_sites_number(&mine, "") == 0);
    for (unsigned i = 0; i <= TD_SITE_SLOTS; i++) {
        /* One is as long as a text may be, one is longer by a byte, and others are longer by more. */
        memset(said[i], 'a' + (int)(i % 26), sizeof said[i] - 1);
        said[i][i < 2 ? TD_SITE_TEXT - 1 + i : TD_SITE_TEXT + i] = 0;
        said[i][0] = '/';
        CU_ASSERT_EQUAL(td_sites_number(&mine, said[i]), i + 1);
        for (unsigned k = i < TD_SITE_SLOTS ? 0 : 1; k <= i; k++) {
            CU_ASSERT_TRUE(td_sites_text(&mine, 1, k + 1, text));
            CU_ASSERT_STRING_EQUAL(text, said[k] + strlen(said[k]) - (TD_SITE_TEXT - 1));
            CU_ASSERT_EQUAL(td_sites_number(&mine, said[k]), k + 1);
        }
    }
    CU_ASSERT_FALSE(td_sites_text(&mine, 1, 1, text));
    CU_ASSERT_STRING_EQUAL(text, "");
    CU_ASSERT_EQUAL(td_sites_number(&mine, said[0]), TD_SITE_SLOTS + 2); /* it has a new one */
    mine.last = UINT32_MAX;                                              /* numbers begin again with 1 */
    CU_ASSERT_EQUAL(td_sites_number(&mine, "another"), 1);
    CU_ASSERT_TRUE(td_sites_text(&mine, 1, 1, text));
    CU_ASSERT_STRING_EQUAL(text, "another");
    for (unsigned i = 0; i < TD_SITE_SLOTS; i++)
        CU_ASSERT_TRUE(td_sites_text(&mine, 0, i + 1, text) && text[0] == '-'); /* the other's are where they were */
}

static void ended(void)
{
    group g;
    td_board b;
    td_round r;
    td_board_call call = {.kind = TD_COLL_BARRIER, .dtype = TD_DTYPE_NONE};
    group_open(&g, 256);
    td_board_open(&b, g.base, g.page, 255, 256);
    td_board_arrive(&b, &r, &call, NULL, NULL, NULL);
    CU_ASSERT_EQUAL(td_board_poll(&b, &r), TD_OUTCOME_OPEN);
    CU_ASSERT_EQUAL(td_board_missing(&b, &r, NULL, 0), 255);
    td_page_set(g.page, TD_PAGE_ENDED);
    td_board_wake(g.base, 256);
    CU_ASSERT_EQUAL(td_board_wait(&b, &r, 1), TD_OUTCOME_ENDED);
    group_close(&g);
}

TD_CUNIT_MAIN("shm_board_ranks", {"threads as ranks", threads_as_ranks}, {"ranks that are killed", killed},
              {"ranks at real-time priority", urgent}, {"a board that is scribbled over", scribbled_over},
              {"and all the time", scribbled_over_all_the_time}, {"who is told what", told}, {"texts of others", sites},
              {"sites come and go", sites_come_and_go}, {"an epoch that ended", ended})
