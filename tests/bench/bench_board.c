/* A group's sums on the bare board: from the last rank's entry to the last rank's return, median, beside the way that
 * DeepSpeed and gloo's shared-memory all-reduce take: copy in, sum a slice each, copy out, with a barrier between.
 *
 *     bench_board [rounds]
 *
 * The goals are parts of what copying takes. Inputs are written anew before each round, and both ways wait as boards
 * do. */
#include "proto/base/clock.h"
#include "shm/board/board.h"
#include "shm/board/combine.h"
#include "tests/bench/bench.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { RANKS = 8, MOST_ROUNDS = 4000 };

/* Everything of one run, in shared memory. */
typedef struct run {
    uint32_t members;
    uint64_t bytes;
    int rounds;
    bool copies;
    unsigned char *base, *inputs, *results;
    td_page *page;
    uint64_t (*entered)[RANKS], (*left)[RANKS]; /* by round: ns */
} run;

static void *shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) abort();
    return p;
}

static void complete(td_board *b, td_board_call call, const void *const *in, void *out)
{
    td_round r;
    td_round_outcome outcome = TD_OUTCOME_OPEN;
    td_board_arrive(b, &r, &call, NULL, in, out);
    while (!outcome) outcome = td_board_wait(b, &r, TD_BOARD_SLICE_MS);
    if (outcome != TD_OUTCOME_DONE) abort();
}

static void be_rank(const run *u, uint32_t rank)
{
    static const td_board_call barrier = {.kind = TD_COLL_BARRIER, .dtype = TD_DTYPE_NONE};
    td_board_call sum = {.kind = TD_COLL_ALL_REDUCE,
                         .dtype = TD_FLOAT32,
                         .op = TD_SUM,
                         .place = TD_BOARD_IN_LARGE,
                         .count = u->bytes / 4};
    const void *in[RANKS], *part[RANKS];
    float *own = (float *)(u->inputs + rank * u->bytes), *mine = malloc(u->bytes);
    td_board b;
    td_board_open(&b, u->base, u->page, rank, u->members);
    /* A child's mapping of shared memory begins without pages. */
    madvise(u->inputs, u->members * u->bytes, MADV_POPULATE_WRITE);
    madvise(u->results, 2 * u->bytes, MADV_POPULATE_WRITE);
    for (uint32_t k = 0; k < u->members; k++) in[k] = u->inputs + k * u->bytes;
    uint64_t slice = (u->bytes / 4 / u->members + 15) / 16 * 16, first = rank * slice, count = u->bytes / 4;
    if (first > count) first = count;
    uint64_t length = count - first < slice ? count - first : slice;
    for (int n = 0; n < u->rounds; n++) {
        unsigned char *out = u->results + (uint64_t)(n % 2) * u->bytes;
        float *from = u->copies ? mine : own;
        for (uint64_t i = 0; i < count; i++) from[i] = (float)(i % 64 + (uint64_t)n + rank);
        complete(&b, barrier, NULL, NULL);
        u->entered[n][rank] = td_clock_ns();
        if (!u->copies) {
            complete(&b, sum, in, out);
        } else {
            memcpy(own, mine, u->bytes);
            complete(&b, barrier, NULL, NULL);
            for (uint32_t k = 0; k < u->members; k++) part[k] = (const float *)in[k] + first;
            td_combine(TD_SUM, TD_FLOAT32, (float *)out + first, part, u->members, length);
            complete(&b, barrier, NULL, NULL);
            memcpy(mine, out, u->bytes);
        }
        u->left[n][rank] = td_clock_ns();
        complete(&b, barrier, NULL, NULL); /* or the others would wait for a processor that fills inputs */
        const float *result = u->copies ? mine : (const float *)out;
        float expected = 0;
        for (uint32_t k = 0; k < u->members; k++) expected += (float)((count - 1) % 64 + (uint64_t)n + k);
        if (result[count - 1] != expected) abort();
    }
    free(mine);
}

/* Median ns of one size, number of ranks and way. */
static double measure(uint32_t members, uint64_t bytes, int rounds, bool copies)
{
    size_t page = td_page_bytes(members), times = sizeof(uint64_t[MOST_ROUNDS][RANKS]);
    run u = {.members = members, .bytes = bytes, .rounds = rounds, .copies = copies};
    u.base = shared(td_board_bytes(members));
    u.page = shared(page);
    u.inputs = shared(members * bytes);
    u.results = shared(2 * bytes);
    u.entered = shared(times);
    u.left = shared(times);
    td_page_init(u.page, members, 1, TD_PAGE_FAILS);
    for (uint32_t i = 0; i < members; i++) td_page_join(u.page, i, 1 + i, "bench", "");
    td_page_set(u.page, TD_PAGE_OPEN);
    pid_t pids[RANKS];
    for (uint32_t i = 0; i < members; i++) {
        pids[i] = fork();
        if (pids[i] < 0) abort();
        if (pids[i] == 0) {
            be_rank(&u, i);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < members; i++) {
        int status;
        if (waitpid(pids[i], &status, 0) != pids[i] || status) abort();
    }
    double took[MOST_ROUNDS];
    for (int n = 0; n < rounds; n++) {
        uint64_t entered = 0, left = 0;
        for (uint32_t i = 0; i < members; i++) {
            if (u.entered[n][i] > entered) entered = u.entered[n][i];
            if (u.left[n][i] > left) left = u.left[n][i];
        }
        took[n] = left > entered ? (double)(left - entered) : 0;
    }
    munmap(u.base, td_board_bytes(members));
    munmap(u.page, page);
    munmap(u.inputs, members * bytes);
    munmap(u.results, 2 * bytes);
    munmap(u.entered, times);
    munmap(u.left, times);
    return bench_quantile(took, rounds, 0.5);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint64_t bytes;
        int rounds;
    } sizes[] = {{"4K", 4 << 10, 2000}, {"64K", 64 << 10, 1000}, {"1M", 1 << 20, 200}, {"32M", 32 << 20, 15}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (uint32_t members = 2; members <= RANKS; members *= 2) {
            int rounds = argc > 1 ? atoi(argv[1]) : sizes[i].rounds;
            char name[64];
            snprintf(name, sizeof name, "board.reduce.%s.%u", sizes[i].name, members);
            if (rounds < 1 || rounds > MOST_ROUNDS) rounds = sizes[i].rounds;
            bench_ours(name, measure(members, sizes[i].bytes, rounds, false) / 1e3, "us", 0.6);
            bench_reference(name, measure(members, sizes[i].bytes, rounds, true) / 1e3, "copy in, slices, copy out");
        }
    }
    return 0;
}
