/* Groups in a storm: two to eight ranks make random collectives of sizes on both sides of each threshold, while ranks
 * are killed, stopped for a while or for good, and now and then the daemon is killed, too.
 *
 * Everybody who is left comes to an end; those who are left agree on what happened, in which call, and on the bits of
 * every result. Where ranks died the
 * group may go on without them, or others take their seats, and all regroup. And nothing stays behind:
 * not in the daemon, and no mapping or descriptor in a rank. A storm goes on for some seconds. TENSORD_STORM_KILLS=1000
 * makes so many of them instead, and looks at the clock as well: who is left, and waits in a round, is told of a death
 * within 200 ms, and nobody is past its deadline by more. TENSORD_SEED repeats one. */
#include "client/tensord.h"
#include "tests/hostile/counted.h"
#include "tests/unit/cunit_main.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST = 8,
    KEPT = 64,        /* calls whose results are compared */
    FLOATS = 1100000, /* of the largest call: two pieces of a large slot */
    GATHERED = 70000, /* of one rank, where each gets all */
    STORM_MS = 6000,
    ONE_ROUND = 262144, /* of a call that all of its contributors were in as a whole */
    ASKS = 8,           /* so often ranks of a group that shrinks ask each other whether it is enough */
    AGAIN = 12,         /* calls of the second epoch */
    DEADLINE_MS = 300,  /* where one is stopped for good */
    SLACK_MS = 200
};

/* ---- what ranks note, where the test sees it */

typedef struct note {
    _Atomic uint64_t calls, done; /* begun; ended well */
    _Atomic uint64_t began, told; /* ns: the last call, its error */
    _Atomic int rc, bad, left;    /* wrong results; mappings and descriptors that were left */
    _Atomic uint64_t of_rank, of_call;
    _Atomic uint32_t size, epoch;
    _Atomic uint64_t digest[KEPT];
    char words[440];
} note;
static note *notes;         /* of each rank; and from MOST on, of its second epoch */
static _Atomic int *enough; /* ranks of a group that shrinks go on until then */

typedef struct storm {
    uint64_t seed;
    uint32_t size;
    int timeout_ms;
    uint64_t last; /* the call after which ranks leave; 0: none */
    bool warm;     /* the first call makes all ranks map large slots, which takes as long as it takes */
    bool shrinks;  /* the group goes on without those that die */
    bool again;    /* others take the seats of those that die, and all regroup */
} storm;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

/* ---- a rank */

typedef struct call {
    uint64_t nr, count;
    td_collective kind;
    uint32_t root;
} call;

static bool has_rows(td_collective kind)
{
    return kind == TD_COLL_REDUCE_SCATTER || kind == TD_COLL_SCATTER || kind == TD_COLL_ALL_TO_ALL;
}

static bool gives_all(td_collective kind)
{
    return kind == TD_COLL_GATHER || kind == TD_COLL_ALL_GATHER || kind == TD_COLL_ALL_TO_ALL;
}

/* The same in all ranks. */
static call call_of(const storm *s, uint64_t nr)
{
    static const uint64_t counts[] = {0,     1,     63,    64,    65,     1000,    4096,
                                      16383, 16384, 16385, 70000, 262144, 1048577, FLOATS};
    uint64_t x = mix(s->seed + nr * 977), big = x >> 50 & 15 ? 10 : sizeof counts / sizeof *counts;
    call c = {.nr = nr,
              .count = counts[(x >> 8) % big],
              .kind = (td_collective)(TD_COLL_BARRIER + (x >> 2) % (TD_COLL_COUNT - TD_COLL_BARRIER)),
              .root = (uint32_t)((x >> 40) % s->size)};
    if (x & 1) c.kind = TD_COLL_ALL_REDUCE;
    if (s->warm && nr == 1) c.kind = TD_COLL_ALL_REDUCE, c.count = GATHERED;
    if (s->shrinks && c.count > ONE_ROUND) c.count = ONE_ROUND;
    if (s->shrinks && nr % ASKS == 0) c.kind = TD_COLL_ALL_REDUCE, c.count = 1;
    if (c.kind == TD_COLL_BARRIER) c.count = 0;
    if ((has_rows(c.kind) || gives_all(c.kind)) && c.count > GATHERED) c.count = GATHERED;
    return c;
}

static float given(const call *c, uint32_t rank, uint64_t i)
{
    return (float)((i * 37 + c->nr * 11 + rank * 101) & 1023);
}

/* Of the ranks in `who`, a bit each. */
static float summed(const call *c, unsigned who, uint64_t i)
{
    float sum = 0;
    for (uint32_t r = 0; r < MOST; r++) sum += who >> r & 1 ? given(c, r, i) : 0;
    return sum;
}

static float given_by(const call *c, unsigned who, uint64_t rank, uint64_t i)
{
    return who >> rank & 1 ? given(c, (uint32_t)rank, i) : 0;
}

/* Element i of what this rank gets, when those in `who` have come. */
static float expected(const call *c, unsigned who, uint32_t rank, uint64_t i)
{
    switch (c->kind) {
    case TD_COLL_REDUCE_SCATTER: return summed(c, who, rank * c->count + i);
    case TD_COLL_BROADCAST: return given(c, c->root, i);
    case TD_COLL_SCATTER: return given(c, c->root, rank * c->count + i);
    case TD_COLL_GATHER:
    case TD_COLL_ALL_GATHER: return given_by(c, who, i / c->count, i % c->count);
    case TD_COLL_ALL_TO_ALL: return given_by(c, who, i / c->count, rank * c->count + i % c->count);
    default: return summed(c, who, i);
    }
}

/* How many elements this rank gets. */
static uint64_t length_of(const storm *s, const call *c, uint32_t rank)
{
    bool to_one = c->kind == TD_COLL_REDUCE || c->kind == TD_COLL_GATHER;
    if (to_one && rank != c->root) return 0;
    return gives_all(c->kind) ? c->count * s->size : c->count;
}

static uint64_t digest_of(const float *v, uint64_t count)
{
    uint64_t x = 1469598103934665603u;
    for (uint64_t i = 0; i < count; i++) x = (x ^ (uint64_t)v[i]) * 1099511628211u;
    return x;
}

/* In `out` is what this call gives; half of the calls are begun, and waited for later. */
static int make(td_group *g, const storm *s, const call *c, float *v, float *out)
{
    uint32_t rank = td_group_rank(g);
    float *in = c->kind == TD_COLL_BROADCAST ? out : v;
    uint64_t n = has_rows(c->kind) ? c->count * s->size : c->count;
    for (uint64_t i = 0; i < n; i++) in[i] = given(c, rank, i);
    if (s->shrinks && c->nr % ASKS == 0) in[0] = (float)*enough;
    if (c->kind == TD_COLL_ALL_REDUCE && c->nr % 2)
        return td_group_all_reduce(g, in, out, TD_FLOAT32, c->count, TD_SUM, -1);
    td_pending *p = td_group_begin(g, c->kind, in, out, TD_FLOAT32, c->count, TD_SUM, c->root);
    int rc = p ? TD_OK : td_last_error()->code;
    if (p && !(c->nr % 3 && td_pending_done(p))) rc = td_pending_wait(p, -1);
    else if (p) rc = td_pending_wait(p, 0);
    td_pending_free(p);
    return rc;
}

static bool is_right(const storm *s, const call *c, unsigned who, uint32_t rank, const float *out)
{
    uint64_t n = length_of(s, c, rank), step = n < 5000 ? 1 : 53;
    for (uint64_t i = 0; i < n; i += step)
        if (out[i] != expected(c, who, rank, i)) return false;
    return true;
}

/* Of what all get, and of who was in it. */
static void keep_digest(const storm *s, const call *c, unsigned who, uint32_t rank, const float *out, note *n)
{
    bool same = c->kind == TD_COLL_ALL_REDUCE || c->kind == TD_COLL_BROADCAST || c->kind == TD_COLL_ALL_GATHER;
    n->digest[c->nr % KEPT] = (same && who ? digest_of(out, length_of(s, c, rank)) : 0) * 31 + who;
}

static unsigned contributors(const td_group *g)
{
    uint32_t ranks[MOST], n = td_group_contributors(g, ranks, MOST);
    unsigned who = 0;
    for (uint32_t i = 0; i < n && i < MOST; i++) who |= 1u << ranks[i];
    return who;
}

/* Have all made enough calls? All learn it in the same one. */
static bool is_last(const storm *s, const call *c, const float *out)
{
    return s->shrinks ? c->nr % ASKS == 0 && out[0] > 0 : c->nr == s->last;
}

static void go_on(td_group *g, const storm *s, note *n)
{
    float *v = malloc(FLOATS * sizeof *v), *out = malloc(FLOATS * sizeof *out);
    uint32_t rank = td_group_rank(g);
    int rc = v && out ? TD_OK : TD_E_SYSTEM;
    n->size = td_group_size(g);
    n->epoch = td_group_epoch(g);
    bool last = false;
    for (uint64_t nr = 1; !rc && !last; nr++) {
        call c = call_of(s, nr);
        n->began = now_ns();
        n->calls = nr;
        rc = make(g, s, &c, v, out);
        n->told = now_ns();
        bool no_root = s->shrinks && rc == TD_E_MEMBER && td_group_last_fault(g).rank == c.root;
        if (rc && !no_root) break;
        unsigned who = no_root ? 0 : contributors(g);
        rc = TD_OK;
        last = !no_root && is_last(s, &c, out);
        if (!no_root && !(s->shrinks && nr % ASKS == 0)) n->bad += !is_right(s, &c, who, rank, out);
        keep_digest(s, &c, who, rank, out, n);
        n->done = nr;
    }
    td_group_fault f = td_group_last_fault(g);
    if (rc) snprintf(n->words, sizeof n->words, "%s", td_last_error()->message);
    n->of_rank = f.rank;
    n->of_call = f.round;
    n->rc = rc;
    free(v);
    free(out);
}

/* In the group's next epoch, where all seats are taken again. */
static void go_on_again(td_group *g, const storm *s, note *n, bool comes_new)
{
    storm next = {.seed = s->seed + 1, .size = s->size, .last = AGAIN};
    int rc = comes_new ? TD_OK : td_group_regroup(g, -1);
    if (!rc) go_on(g, &next, n);
    if (!rc) return;
    n->rc = rc;
    snprintf(n->words, sizeof n->words, "regrouping: %s", td_last_error()->message);
}

/* Descriptors of this process, and maps of shared memory that has no name. */
static int held_here(void)
{
    char line[512];
    int n = test_descriptors(getpid());
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) n += strstr(line, "memfd:") != NULL;
    if (f) fclose(f);
    return n;
}

/* `comes_new`: it takes the seat of one that died, which the daemon may yet have to see. */
static void be_rank(const storm *s, int rank, bool comes_new)
{
    note *n = &notes[rank + MOST * comes_new];
    int before = held_here();
    td_client *c = td_connect(d.socket);
    td_group *g = NULL;
    td_on_death on_death = s->shrinks ? TD_ON_DEATH_SHRINK : TD_ON_DEATH_FAIL;
    do g = c ? td_group_open_between(c, "storm", s->size, s->size, rank, on_death, s->timeout_ms) : NULL;
    while (!g && comes_new && td_last_error()->code == TD_E_EXISTS);
    if (!g) {
        n->rc = td_last_error()->code;
        snprintf(n->words, sizeof n->words, "opening: %s", td_last_error()->message);
    }
    if (g && !comes_new) go_on(g, s, n);
    if (g && s->again && (comes_new || n->rc == TD_E_MEMBER)) go_on_again(g, s, &notes[rank + MOST], comes_new);
    td_group_close(g);
    td_disconnect(c);
    n->left = held_here() - before;
}

static pid_t start_rank(const storm *s, int rank, bool comes_new)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    be_rank(s, rank, comes_new);
    _exit(0);
}

/* ---- what happens to them */

typedef enum fate { ONE_DIES, TWO_DIE, STOPPED_FOR_GOOD, DAEMON_DIES, FATES } fate;

typedef struct weather {
    uint64_t at; /* ns: when it happened */
    fate what;
    uint32_t victim, other;
    uint64_t worst[FATES], count[FATES], told[FATES], late[FATES]; /* ns, over all; how many were told, and too late */
    uint64_t shrunk, again; /* groups that went on without the dead, or with others in their seats */
    bool strict;
} weather;

static uint64_t draw(uint64_t *x)
{
    *x = *x * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *x >> 24;
}

static bool is_victim(const weather *w, uint32_t rank)
{
    return (w->what == ONE_DIES || w->what == TWO_DIE) &&
           (rank == w->victim || (w->what == TWO_DIE && rank == w->other));
}

static bool is_stopped(const weather *w)
{
    return w->what == STOPPED_FOR_GOOD || w->what == DAEMON_DIES;
}

static void wait_until_under_way(const storm *s, uint64_t calls)
{
    for (uint32_t r = 0; r < s->size; r++)
        while (notes[r].calls < calls && !notes[r].rc) test_sleep_us(200);
}

static void stop_for_a_while(const storm *s, const pid_t *pids, uint64_t *x)
{
    pid_t pid = pids[draw(x) % s->size];
    kill(pid, SIGSTOP);
    test_sleep_us(draw(x) % 5000);
    kill(pid, SIGCONT);
}

static void strike(weather *w, const pid_t *pids)
{
    w->at = now_ns();
    switch (w->what) {
    case TWO_DIE: kill(pids[w->other], SIGKILL); /* fall through */
    case ONE_DIES: kill(pids[w->victim], SIGKILL); break;
    case STOPPED_FOR_GOOD: test_stop(pids[w->victim]); break;
    default: /* rounds need no daemon: only who waits looks for it */
        kill(pids[w->victim], SIGSTOP);
        kill(d.pid, SIGKILL);
        break;
    }
}

/* Exit status, or -signal; -1000 of one that does not end. */
static int end_of(pid_t pid)
{
    int status;
    for (uint64_t until = test_now_ms() + 2 * TEST_LONG_MS; test_now_ms() < until; test_sleep_us(300)) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1000;
}

static void wait_for_end(const storm *s, const weather *w, pid_t *pids, uint32_t r)
{
    int ended = end_of(pids[r]);
    CU_ASSERT_EQUAL(ended, is_victim(w, r) ? -SIGKILL : 0);
    if (ended == -1000) fprintf(stderr, "rank %u hangs in call %llu\n", r, (unsigned long long)notes[r].calls);
    pids[r] = is_victim(w, r) && s->again ? start_rank(s, (int)r, true) : 0;
}

/* Those who are left go on for some calls. */
static void let_them_go_on(const storm *s, const weather *w)
{
    for (uint32_t r = 0; r < s->size; r++)
        for (uint64_t from = notes[r].calls; !is_victim(w, r) && notes[r].calls < from + 3 * ASKS && !notes[r].rc;)
            test_sleep_us(300);
    *enough = 1;
}

static void wait_for_ends(const storm *s, const weather *w, pid_t *pids)
{
    for (uint32_t r = 0; r < s->size; r++)
        if (is_victim(w, r)) wait_for_end(s, w, pids, r);
    if (s->shrinks) let_them_go_on(s, w);
    for (uint32_t r = 0; r < s->size; r++)
        if (pids[r] && !is_victim(w, r) && !(is_stopped(w) && r == w->victim)) wait_for_end(s, w, pids, r);
    for (uint32_t r = 0; r < s->size; r++)
        if (pids[r] && is_victim(w, r)) CU_ASSERT_EQUAL(end_of(pids[r]), 0);
    if (!is_stopped(w)) return;
    kill(pids[w->victim], SIGCONT);
    CU_ASSERT_EQUAL(end_of(pids[w->victim]), 0); /* it finds what the others have decided */
}

/* ---- what must hold afterwards */

static void look_at_bits(const storm *s, const note *of)
{
    for (uint32_t a = 0; a < s->size; a++)
        for (uint32_t b = 0; b < a; b++) {
            uint64_t first = of[a].calls > of[b].calls ? of[a].calls : of[b].calls;
            first = first < KEPT ? 1 : first - KEPT + 1;
            for (uint64_t n = first; n <= of[a].done && n <= of[b].done; n++)
                CU_ASSERT_EQUAL(of[a].digest[n % KEPT], of[b].digest[n % KEPT]);
        }
}

static int expected_code(fate what)
{
    return what == DAEMON_DIES ? TD_E_LOST : what == STOPPED_FOR_GOOD ? TD_E_TIMEOUT : TD_E_MEMBER;
}

static bool is_told_rightly(const storm *s, const weather *w, const note *n, const note *first)
{
    if (s->shrinks) return !n->rc && !n->bad && n->left <= 0 && n->done == first->done;
    bool right = n->rc == expected_code(w->what) && !n->bad && n->left <= 0;
    if (w->what == DAEMON_DIES) return right;
    right = right && n->of_call == first->of_call;
    if (w->what == STOPPED_FOR_GOOD) return right;
    return right && n->of_rank == first->of_rank && is_victim(w, (uint32_t)n->of_rank);
}

/* How long after what happened, or after its call began, a rank was told. A stop counts from the end of the deadline;
 * one more passes where the rank had been at work before it was stopped. */
static uint64_t told_after(const weather *w, const note *n)
{
    uint64_t from = n->began > w->at ? n->began : w->at;
    if (w->what == STOPPED_FOR_GOOD) from += 2 * DEADLINE_MS * UINT64_C(1000000);
    return n->told > from ? n->told - from : 0;
}

static void look_at_ranks(const storm *s, weather *w)
{
    const note *first = NULL;
    for (uint32_t r = 0; r < s->size; r++) {
        note *n = &notes[r];
        if (is_victim(w, r)) continue;
        if (!first) first = n;
        bool right = is_told_rightly(s, w, n, first);
        uint64_t after = told_after(w, n);
        bool counts = s->warm && !s->shrinks && !(is_stopped(w) && r == w->victim);
        bool late = counts && after > SLACK_MS * UINT64_C(1000000);
        if (counts && after > w->worst[w->what]) w->worst[w->what] = after;
        w->told[w->what] += counts;
        w->late[w->what] += late;
        CU_ASSERT_TRUE(right);
        if (!right || (late && w->strict))
            fprintf(stderr,
                    "seed %llu, %u ranks, weather %d of rank %u: rank %u has code %d after %llu us in call %llu, %d "
                    "bad, %d left: %s\n",
                    (unsigned long long)s->seed, s->size, (int)w->what, w->victim, r, n->rc,
                    (unsigned long long)after / 1000, (unsigned long long)n->of_call, n->bad, n->left, n->words);
    }
}

/* All have made all calls of one epoch. */
static void look_at_second_epoch(const storm *s)
{
    for (uint32_t r = 0; r < s->size; r++) {
        const note *n = &notes[MOST + r];
        bool right = !n->rc && n->done == AGAIN && !n->bad && n->left <= 0 && n->size == s->size &&
                     n->epoch == notes[MOST].epoch && n->epoch > notes[r].epoch;
        CU_ASSERT_TRUE(right);
        if (!right)
            fprintf(stderr, "seed %llu, %u ranks: rank %u has code %d in its second epoch %u, %llu calls, %d bad: %s\n",
                    (unsigned long long)s->seed, s->size, r, n->rc, n->epoch, (unsigned long long)n->done, n->bad,
                    n->words);
    }
    look_at_bits(s, notes + MOST);
}

/* ---- storms */

static fate fate_of(uint64_t x)
{
    x %= 20;
    return x == 0 ? DAEMON_DIES : x < 4 ? STOPPED_FOR_GOOD : x < 7 ? TWO_DIE : ONE_DIES;
}

static void one_storm(uint64_t seed, weather *w)
{
    uint64_t x = mix(seed);
    storm s = {.seed = seed, .size = 2 + (uint32_t)(draw(&x) % (MOST - 1)), .warm = draw(&x) % 4 != 0};
    pid_t pids[MOST];
    w->what = fate_of(draw(&x));
    if (w->what == TWO_DIE && s.size < 3) s.size = 3;
    w->victim = (uint32_t)(draw(&x) % s.size);
    w->other = (w->victim + 1 + (uint32_t)(draw(&x) % (s.size - 1))) % s.size;
    s.shrinks = w->what <= TWO_DIE && draw(&x) % 3 == 0;
    s.again = w->what <= TWO_DIE && !s.shrinks && draw(&x) % 2;
    s.timeout_ms = w->what == STOPPED_FOR_GOOD ? DEADLINE_MS : TEST_LONG_MS;
    memset(notes, 0, (2 * MOST + 1) * sizeof *notes);
    for (uint32_t r = 0; r < s.size; r++) pids[r] = start_rank(&s, (int)r, false);
    wait_until_under_way(&s, 1 + s.warm + draw(&x) % (draw(&x) % 2 ? 24 : 240));
    if (draw(&x) % 3 == 0) stop_for_a_while(&s, pids, &x);
    test_sleep_us(draw(&x) % 5000);
    strike(w, pids);
    wait_for_ends(&s, w, pids);
    look_at_bits(&s, notes);
    look_at_ranks(&s, w);
    if (s.again) look_at_second_epoch(&s);
    w->count[w->what]++;
    w->shrunk += s.shrinks;
    w->again += s.again;
    if (w->what != DAEMON_DIES) return;
    test_daemon_stop(&d);
    CU_ASSERT_EQUAL_FATAL(counted_start("1G", "1"), 0);
}

static void storms(void)
{
    const char *kills = getenv("TENSORD_STORM_KILLS"), *said = getenv("TENSORD_SEED");
    uint64_t seed = said ? strtoull(said, NULL, 0) : now_ns(), most = kills ? strtoull(kills, NULL, 0) : UINT64_MAX;
    uint64_t until = kills ? UINT64_MAX : test_now_ms() + STORM_MS, n = 0;
    static weather w;
    w.strict = kills != NULL;
    printf(" seed %llu ", (unsigned long long)seed);
    fflush(stdout);
    for (; n < most && test_now_ms() < until && !CU_get_number_of_failures(); n++) {
        one_storm(seed + n, &w);
        if (n % 16 == 15) back_to_normal();
    }
    back_to_normal();
    static const char *const names[] = {"one died", "two died", "one was stopped", "the daemon died"};
    for (int k = 0; k < FATES; k++)
        printf("\n    %s: %llu times; %llu told, after %.1f ms at most, %llu of them later than %d ms", names[k],
               (unsigned long long)w.count[k], (unsigned long long)w.told[k], (double)w.worst[k] / 1e6,
               (unsigned long long)w.late[k], SLACK_MS);
    printf("\n    %llu groups went on without the dead, %llu with others", (unsigned long long)w.shrunk,
           (unsigned long long)w.again);
    for (int k = 0; k < FATES && w.strict; k++) CU_ASSERT_EQUAL(w.late[k], 0);
    printf(" ");
}

/* ---- ranks at real-time priority */

/* None gives way to whoever is less urgent, the daemon among them, and there are four of them for each processor. */
static void urgent(void)
{
    struct sched_param high = {.sched_priority = 1};
    storm s = {.seed = 5, .size = MOST, .timeout_ms = TEST_LONG_MS, .last = 150};
    cpu_set_t all, few;
    pid_t pids[MOST];
    bool may = true;
    CPU_ZERO(&few);
    CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof all, &all), 0);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&few) < MOST / 4; i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &few);
    memset(notes, 0, MOST * sizeof *notes);
    for (int r = 0; r < MOST; r++) {
        fflush(NULL);
        pids[r] = fork();
        if (pids[r]) continue;
        if (sched_setaffinity(0, sizeof few, &few) || sched_setscheduler(0, SCHED_FIFO, &high)) _exit(9);
        be_rank(&s, r, false);
        _exit(0);
    }
    for (int r = 0; r < MOST; r++) {
        int ended = end_of(pids[r]);
        may = may && ended != 9;
        if (!may) continue;
        CU_ASSERT_EQUAL(ended, 0);
        CU_ASSERT_TRUE(notes[r].done == s.last && !notes[r].bad && notes[r].left <= 0);
        if (notes[r].rc) fprintf(stderr, "rank %d: %s\n", r, notes[r].words);
    }
    if (!may) td_test_skip("real-time priority is not granted here");
    back_to_normal();
}

/* ---- another user */

enum { SOMEBODY = 54321 }; /* 65534 would be whoever has no number in a user namespace */

typedef struct meeting {
    _Atomic int step;
    char socket[96];
} meeting;

static void wait_for_step(const meeting *m, int step)
{
    while (m->step < step) test_sleep_us(500);
}

static bool fails_so(int code, const char *words)
{
    bool so = td_last_error()->code == code && strstr(td_last_error()->message, words);
    if (!so) fprintf(stderr, "code %d: %s\n", td_last_error()->code, td_last_error()->message);
    return so;
}

/* Of a user with a daemon of its own, whose groups root may join: not the other way round. */
static int be_other(meeting *m)
{
    test_daemon own;
    if (setgid(SOMEBODY) || setuid(SOMEBODY)) return 77;
    td_client *refused = td_connect(d.socket);
    if (refused || td_last_error()->code == TD_OK) return 2;
    setenv("TMPDIR", "/tmp", 1); /* that of this run may be root's alone */
    if (!test_daemon_start(&own, NULL)) return 77;
    td_client *c = td_connect(own.socket);
    memcpy(m->socket, own.socket, sizeof m->socket);
    m->step = 1;
    bool good = c != NULL;
    td_table *t = NULL;
    for (bool there = false; good && !there; test_sleep_us(500)) {
        t = td_status(c, "groups");
        there = t && t->rows == 3;
        td_table_free(t);
    }
    for (int rank = -1; good && rank < 2; rank++)
        good = !td_group_open(c, "roots", 2, rank, 1000) &&
               fails_so(TD_E_PERMISSION, "group 'roots' is another user's (uid 0)");
    m->step = 2;
    td_group *g = good ? td_group_open(c, "ours", 2, 0, TEST_LONG_MS) : NULL;
    good = g && !td_group_barrier(g, -1);
    td_group_close(g);
    td_disconnect(c);
    return test_daemon_stop(&own) == 0 && good ? 0 : 1;
}

static int be_root(const meeting *m, const char *name, int rank)
{
    td_client *c = td_connect(m->socket);
    td_group *g = c ? td_group_open(c, name, 2, rank, TEST_LONG_MS) : NULL;
    bool good = g && !td_group_barrier(g, -1);
    if (!good) fprintf(stderr, "%s: %s\n", name, td_last_error()->message);
    td_group_close(g);
    td_disconnect(c);
    return good ? 0 : 1;
}

static void another_user(void)
{
    meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_TRUE_FATAL(m != MAP_FAILED);
    if (geteuid()) {
        td_test_skip("needs root, to be two users");
        return;
    }
    fflush(NULL);
    pid_t other = fork();
    if (!other) _exit(be_other(m));
    for (int status; m->step < 1; test_sleep_us(500))
        if (waitpid(other, &status, WNOHANG) == other) {
            if (WEXITSTATUS(status) == 77) td_test_skip("another uid, and a daemon of its own, are not to be had");
            else CU_FAIL("the other user has no daemon");
            return;
        }
    fflush(NULL);
    pid_t root = fork();
    if (!root) _exit(be_root(m, "roots", 0));
    wait_for_step(m, 2);
    CU_ASSERT_EQUAL(be_root(m, "roots", 1), 0);
    CU_ASSERT_EQUAL(be_root(m, "ours", 1), 0);
    CU_ASSERT_EQUAL(end_of(root), 0);
    CU_ASSERT_EQUAL(end_of(other), 0);
    munmap(m, sizeof *m);
    back_to_normal();
}

static int start(void)
{
    notes = mmap(NULL, (2 * MOST + 1) * sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    enough = notes == MAP_FAILED ? NULL : &notes[2 * MOST].rc;
    return notes == MAP_FAILED ? 1 : counted_start("1G", "1");
}

TD_CUNIT_MAIN_WITH("crash_groups", start, stop, {"storms", storms}, {"ranks at real-time priority", urgent},
                   {"another user", another_user})
