/* Models in a storm: callers ask two models, loaders publish new versions of them, go back to old ones and take them
 * away; all are killed at random moments, and now and then the daemon is killed, too.
 *
 * A version gives each row sixteen times the row's value times the version's weight, so an answer shows which version
 * gave it, and a row that another request's data got into shows, too. Whoever is left gets right answers, or an error
 * that says why: that nobody serves the model just then, that the time is over, that the daemon has gone. Nothing stays
 * behind in the daemon. A storm goes on for some seconds; TENSORD_STORM_KILLS=500 makes so many kills instead, and
 * TENSORD_SEED repeats one. */
#include "client/tensord_bind.h"
#include "tests/hostile/counted.h"
#include "tests/unit/cunit_main.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    CALLERS = 4,
    LOADERS = 2,
    ALL = CALLERS + LOADERS,
    MODELS = 2,
    WIDE = 16,
    OUT = 4,
    WEIGHTS = 100, /* of a version: a whole number from 1 to this */
    MOST_ROWS = 5,
    KILLS_A_LIFE = 60, /* of others, before the daemon is killed */
    STORM_MS = 6000
};

/* What a process has done, where the test sees it. */
typedef struct note {
    _Atomic uint64_t answered, published, told; /* answers; versions; errors that a storm explains */
    _Atomic int bad;                            /* wrong numbers, and errors that nothing explains */
    char words[480];
} note;
static note *notes;
static _Atomic int *ends; /* all shall come to their end */

static uint64_t draw(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x >> 11;
}

static const char *name_of(uint64_t k)
{
    return k % MODELS ? "storm/one" : "storm/other";
}

/* Errors that a storm explains. `impatient`: its time was short, or it was cancelled. */
static bool explained(int code, bool impatient)
{
    return code == TD_E_NOT_FOUND || code == TD_E_CLOSED || code == TD_E_LOST ||
           (impatient && (code == TD_E_TIMEOUT || code == TD_E_CANCELLED));
}

/* True: it goes on. False: the daemon has gone, or this is a defect. */
static bool note_error(note *n, const char *what, int code, bool impatient)
{
    if (explained(code, impatient)) {
        n->told++;
        return code != TD_E_LOST;
    }
    n->bad++;
    snprintf(n->words, sizeof n->words, "%s: code %d: %s", what, code, td_last_error()->message);
    return false;
}

/* ---- loaders */

static td_model *layer(td_client *c, double weight)
{
    static const char card[] = "{\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [\"n\", 16]}],"
                               " \"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [\"n\", 4]}]}";
    td_array *w = td_full(c, td_dims(WIDE, OUT), weight, TD_FLOAT32);
    td_binding names[] = {{"w", td_value_array(w), NULL}};
    td_program *p =
        w ? td_program_script(c, "def f(x):\n    return (x @ w).relu()\n", "storm.py", 1, NULL, 1, names) : NULL;
    td_program *frozen = p ? td_program_freeze(p, 0, NULL, 0) : NULL;
    td_program_free(p);
    td_release(w);
    return frozen ? td_model_of(frozen, card) : NULL;
}

static void load(td_client *c, note *n, uint64_t x)
{
    while (!*ends) {
        const char *name = name_of(draw(&x));
        td_model *m = layer(c, 1 + (double)(draw(&x) % WEIGHTS));
        td_model_options o = {.size = sizeof o, .flags = draw(&x) % 3 ? 0 : TD_MODEL_KEEP_OLD};
        int rc = m ? td_model_publish(m, name, &o) : td_last_error()->code;
        if (!rc) {
            n->published++;
            int version = td_model_version(m);
            if (draw(&x) % 4 == 0 && version > 1) rc = td_model_serve(c, name, version - 1);
            if (!rc && draw(&x) % 6 == 0) rc = td_model_retire(c, name, draw(&x) % 2 ? 0 : version);
        }
        td_model_free(m);
        if (rc && !note_error(n, "a loader", rc, false)) return;
        test_sleep_us(draw(&x) % 20000);
    }
}

/* ---- callers */

/* Whole numbers, so that the answer is exact. */
static bool is_right(td_array *y, const float *rows, int64_t n, note *of)
{
    const float *at = td_data(y);
    bool good = at && td_size(y, 0) == n && td_size(y, 1) == OUT;
    double weight = good ? at[0] / (WIDE * rows[0]) : 0;
    good = good && weight >= 1 && weight <= WEIGHTS && weight == (double)(int)weight;
    for (int64_t r = 0; good && r < n; r++)
        for (int k = 0; good && k < OUT; k++) good = at[r * OUT + k] == (float)(WIDE * weight * rows[r]);
    if (!at) snprintf(of->words, sizeof of->words, "an answer has no values: %s", td_last_error()->message);
    else if (!good)
        snprintf(of->words, sizeof of->words, "an answer of weight %g is wrong: %g for %g", weight, at[0], rows[0]);
    return good;
}

static void wait_for(td_client *c, td_request *r)
{
    struct pollfd p = {td_client_fd(c), POLLIN, 0};
    while (!td_request_done(r)) {
        poll(&p, 1, 1000);
        td_client_dispatch(c);
    }
}

static int ask(td_client *c, td_model *m, const float *rows, int64_t n, uint64_t *x, bool *impatient, td_array **y)
{
    float values[MOST_ROWS * WIDE];
    for (int64_t r = 0; r < n; r++)
        for (int k = 0; k < WIDE; k++) values[r * WIDE + k] = rows[r];
    td_array *in = td_from_data(c, TD_FLOAT32, td_dims(n, WIDE), values);
    if (!in) return td_last_error()->code;
    int rc;
    *impatient = draw(x) % 4 == 0;
    if (draw(x) % 2) rc = td_infer(m, td_arrays(in), 1, y, *impatient ? 1 : TEST_LONG_MS);
    else {
        td_infer_options how = {
            .size = sizeof how, .timeout_us = *impatient ? 300 : 0, .priority = (int)(draw(x) % 3) - 1};
        td_request *r = td_async_infer(m, td_arrays(in), &how, NULL, NULL);
        if (r && *impatient && draw(x) % 2) td_request_cancel(r);
        if (r) wait_for(c, r);
        rc = r ? td_request_arrays(r, 1, y) : td_last_error()->code;
        td_request_free(r);
    }
    td_release(in);
    return rc;
}

static void call(td_client *c, note *n, uint64_t x)
{
    td_model *m[MODELS] = {NULL};
    while (!*ends) {
        uint64_t which = draw(&x) % MODELS;
        bool impatient = false;
        td_array *y = NULL;
        float rows[MOST_ROWS];
        int64_t count = 1 + (int64_t)(draw(&x) % MOST_ROWS);
        for (int r = 0; r < count; r++) rows[r] = (float)(1 + draw(&x) % 999);
        if (!m[which]) m[which] = td_model_open(c, name_of(which), 0, 50), impatient = true;
        int rc = m[which] ? ask(c, m[which], rows, count, &x, &impatient, &y) : td_last_error()->code;
        if (rc && !note_error(n, "a caller", rc, impatient)) break;
        bool lost = !rc && !td_data(y) && td_last_error()->code == TD_E_LOST; /* the daemon, since it answered */
        if (!rc && !lost && is_right(y, rows, count, n)) n->answered++;
        else if (!rc && !lost) n->bad++;
        td_release(y);
        if (draw(&x) % 16 == 0) td_model_free(m[which]), m[which] = NULL;
    }
    for (int k = 0; k < MODELS; k++) td_model_free(m[k]);
}

/* ---- the storm */

static pid_t start_one(int k, uint64_t seed)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    td_client *c = td_connect(d.socket);
    if (c) (k < CALLERS ? call : load)(c, &notes[k], seed | 1);
    td_disconnect(c);
    _exit(0);
}

static void reap(pid_t pid)
{
    int status;
    CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
}

/* It comes to its end by itself; one that hangs is a defect. */
static void wait_for_end(int k, pid_t pid)
{
    uint64_t until = test_now_ms() + 2 * TEST_LONG_MS;
    while (test_now_ms() < until) {
        if (waitpid(pid, NULL, WNOHANG) == pid) return;
        test_sleep_us(500);
    }
    fprintf(stderr, "process %d of the storm hangs\n", k);
    CU_FAIL("a process hangs");
    kill(pid, SIGKILL);
    reap(pid);
}

static void retire_all(void)
{
    td_client *c = td_connect(d.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    for (uint64_t k = 0; k < MODELS; k++) {
        int rc = td_model_retire(c, name_of(k), 0);
        CU_ASSERT_TRUE(rc == TD_OK || rc == TD_E_NOT_FOUND);
    }
    td_disconnect(c);
}

static uint64_t answers(void)
{
    uint64_t n = 0;
    for (int k = 0; k < ALL; k++) n += notes[k].answered;
    return n;
}

/* However slow the machine is, now and then a kill waits until a model has been loaded, opened and asked. */
static void wait_for_an_answer(void)
{
    uint64_t before = answers(), until = test_now_ms() + TEST_LONG_MS;
    while (answers() == before && test_now_ms() < until) test_sleep_us(500);
}

/* Until the daemon is killed, or all come to their end. Gives how many were killed. */
static uint64_t one_life(uint64_t *x, uint64_t most, uint64_t until, bool daemon_dies)
{
    pid_t pids[ALL];
    uint64_t kills = 0;
    *ends = 0;
    for (int k = 0; k < ALL; k++) pids[k] = start_one(k, draw(x));
    while ((kills < most && test_now_ms() < until && !CU_get_number_of_failures()) || kills == 0) {
        if (draw(x) % 8 == 0) wait_for_an_answer();
        test_sleep_us(draw(x) % 20000);
        int victim = (int)(draw(x) % ALL);
        kill(pids[victim], SIGKILL);
        reap(pids[victim]);
        kills++;
        pids[victim] = start_one(victim, draw(x));
        for (int k = 0; k < ALL; k++)
            if (notes[k].bad) {
                fprintf(stderr, "%s\n", notes[k].words);
                CU_FAIL("a process of the storm was told what nothing explains");
                notes[k].bad = 0;
            }
    }
    if (daemon_dies) {
        kill(d.pid, SIGKILL);
        kills++;
    } else *ends = 1;
    for (int k = 0; k < ALL; k++) wait_for_end(k, pids[k]);
    if (daemon_dies) {
        test_daemon_stop(&d);
        CU_ASSERT_EQUAL_FATAL(counted_start("1G", "1"), 0);
    } else {
        retire_all();
        back_to_normal();
    }
    return kills;
}

static void storms(void)
{
    const char *wanted = getenv("TENSORD_STORM_KILLS"), *said = getenv("TENSORD_SEED");
    uint64_t seed = said ? strtoull(said, NULL, 0) : test_now_ms() * 7919,
             most = wanted ? strtoull(wanted, NULL, 0) : UINT64_MAX;
    uint64_t until = wanted ? UINT64_MAX : test_now_ms() + STORM_MS, kills = 0, answered = 0, published = 0, told = 0;
    printf(" seed %llu ", (unsigned long long)seed);
    fflush(stdout);
    uint64_t x = seed * 2654435761u | 1;
    int lives = 0;
    do kills += one_life(&x, most - kills < KILLS_A_LIFE ? most - kills : KILLS_A_LIFE, until, lives++ % 3 == 1);
    while (kills < most && test_now_ms() < until && !CU_get_number_of_failures());
    for (int k = 0; k < ALL; k++) answered += notes[k].answered, published += notes[k].published, told += notes[k].told;
    printf("\n    %llu kills in %d lives of the daemon; %llu answers, %llu versions, %llu errors with their reason ",
           (unsigned long long)kills, lives, (unsigned long long)answered, (unsigned long long)published,
           (unsigned long long)told);
    CU_ASSERT_TRUE(answered > 0 && published > 0);
}

static int start(void)
{
    notes = mmap(NULL, (ALL + 1) * sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ends = notes == MAP_FAILED ? NULL : &notes[ALL].bad;
    return notes == MAP_FAILED ? 1 : counted_start("1G", "1");
}

TD_CUNIT_MAIN_WITH("crash_models", start, stop, {"storms", storms})
