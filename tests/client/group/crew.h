/* The members of a group as processes of a test, and what they give. */
#ifndef TENSORD_TESTS_CLIENT_GROUP_CREW_H
#define TENSORD_TESTS_CLIENT_GROUP_CREW_H

#include "tests/client/common.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 8 };

/* ---- ranks as processes ------------------------------------------------------------------------------------------ */

typedef struct crew {
    const char *name;
    uint32_t size;
    int timeout_ms;
    uint64_t seed;
    bool (*run)(td_group *g, const struct crew *c);
    int except;     /* this rank is not started; -1: all are */
    uint32_t least; /* members that it begins with; 0: `size` */
    td_on_death on_death;
} crew;

/* What processes tell each other beside the group. */
typedef struct notes {
    _Atomic int steps[MOST];
    _Atomic uint64_t told_round[MOST];
} notes;
static notes *shared;

static bool run_member(const crew *c, int rank)
{
    td_client *client = td_connect(server.socket);
    td_group *g = client ? td_group_open_between(client, c->name, c->least ? c->least : c->size, c->size, rank,
                                                 c->on_death, c->timeout_ms)
                         : NULL;
    if (!g) fprintf(stderr, "rank %d: %s\n", rank, td_last_error()->message);
    bool good = g && c->run(g, c);
    if (g && !good) fprintf(stderr, "rank %d of '%s' failed; %s\n", rank, c->name, td_last_error()->message);
    td_group_close(g);
    td_disconnect(client);
    return good;
}

static pid_t start_member(const crew *c, int rank)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(run_member(c, rank) ? 0 : 1);
    return pid;
}

/* Exit status, or -signal. */
static int end_of(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void run_all(const crew *c)
{
    pid_t pids[MOST];
    memset(shared, 0, sizeof *shared);
    for (int r = 0; r < (int)c->size; r++) pids[r] = r == c->except ? 0 : start_member(c, r);
    for (int r = 0; r < (int)c->size; r++)
        if (pids[r]) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

/* What rank r gives in call n, element i: of all magnitudes, so that the order of a sum shows. */
static float given(const crew *c, uint32_t r, uint64_t n, uint64_t i)
{
    uint64_t x = mix(c->seed + mix(n * 131 + r) + i);
    return (float)((double)(x % 2000001) - 1000000) / (float)(1u << (x >> 40) % 20);
}

static inline float expected_sum(const crew *c, uint64_t n, uint64_t i)
{
    float sum = given(c, 0, n, i);
    for (uint32_t r = 1; r < c->size; r++) sum += given(c, r, n, i);
    return sum;
}

/* Of what is drawn by lot. */
static inline uint64_t said_seed(void)
{
    const char *said = getenv("TENSORD_TEST_SEED");
    uint64_t seed = said ? strtoull(said, NULL, 0) : 1;
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    return seed;
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

/* The error is this, and has all these words. `of`: the rank that it is for, of calls; -1: none. */
static inline bool fails_with(const td_group *g, int rc, int code, int of, const char *const *words)
{
    bool good = rc == code && td_last_error()->code == code;
    td_group_fault f = td_group_last_fault(g);
    if (of >= 0) good = good && f.code == code && f.rank == (uint32_t)of && f.epoch == td_group_epoch(g);
    for (; good && *words; words++) good = strstr(td_last_error()->message, *words) != NULL;
    if (!good) fprintf(stderr, "code %d, fault of rank %u: %s\n", rc, f.rank, td_last_error()->message);
    return good;
}
#define FAILS(g, rc, code, of, ...) fails_with(g, rc, code, of, (const char *const[]){__VA_ARGS__, NULL})

/* ---- the suite's daemon ------------------------------------------------------------------------------------------ */

static int crew_start(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : start_server();
}

#endif
