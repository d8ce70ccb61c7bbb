/* What the client's tests against a real daemon share: a daemon of the suite's own, and a few short words. */
#ifndef TENSORD_TESTS_CLIENT_COMMON_H
#define TENSORD_TESTS_CLIENT_COMMON_H

#include "client/tensord.h"
#include "tests/support/daemon.h"
#include "tests/unit/cunit_main.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

static test_daemon server;

__attribute__((unused)) static int start_server(void)
{
    return test_daemon_start(&server, NULL) ? 0 : 1;
}

__attribute__((unused)) static int stop_server(void)
{
    return test_daemon_stop(&server) == 0 ? 0 : 1;
}

/* Waits for the end of a child of this process: with status 0? */
__attribute__((unused)) static bool ended_well(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status == 0;
}

__attribute__((unused)) static td_client *join(void)
{
    td_clear_error();
    td_client *c = td_connect(server.socket);
    if (!c) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    return c;
}

/* These suites run a second time on a device whose memory nobody maps. NULL: on the CPU. */
__attribute__((unused)) static const char *test_device(void)
{
    const char *device = getenv("TENSORD_DEVICE");
    return device && device[0] ? device : NULL;
}

/* ... and some on a GPU of the fake driver, whose kernels run on one thread of the host, and not for every op. */
__attribute__((unused)) static bool on_gpu(void)
{
    return test_device() && strncmp(test_device(), "cuda", 4) == 0;
}

/* Is the device told of tasks before those ahead of them have ended? Then what is behind a failure may have run. */
__attribute__((unused)) static bool runs_ahead(void)
{
    return getenv("FAKE_DEVICE_AHEAD") || on_gpu();
}

/* What the running test does from here on needs an op that has no kernel there: that is skipped, until there is one.
 * TEST_CUDA_PLANS names the generated list of those that have one. */
__attribute__((unused)) static bool lacks(const char *op)
{
    const char *path = getenv("TEST_CUDA_PLANS");
    char line[256], wanted[64];
    bool there = false;
    if (!on_gpu()) return false;
    FILE *f = path ? fopen(path, "r") : NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    snprintf(wanted, sizeof wanted, "/* %s */", op);
    while (!there && fgets(line, sizeof line, f)) there = strstr(line, wanted);
    fclose(f);
    if (!there) td_test_skip("%s has no kernel for %s", op, test_device());
    return !there;
}

/* The running test is about bytes that are mapped: there it is skipped. */
__attribute__((unused)) static bool is_away(void)
{
    if (test_device()) td_test_skip("it maps bytes, which %s does not give", test_device());
    return test_device() != NULL;
}

/* The value must be these numbers, as the dtype has them. */
__attribute__((unused)) static bool equals(td_array *a, int n, const double *expected)
{
    double v[256];
    td_array *wide = td_to(a, TD_FLOAT64);
    int rc = td_numel(a) == n && n <= 256 ? td_read(wide, v, sizeof(double) * (size_t)n) : -1;
    td_release(wide);
    bool same = rc == 0;
    for (int i = 0; i < n && same; i++) same = v[i] - expected[i] < 1e-5 && expected[i] - v[i] < 1e-5;
    if (rc) fprintf(stderr, "%s %s: %s\n", td_last_error()->op, td_last_error()->where, td_last_error()->message);
    for (int i = 0; i < n && !rc && !same; i++) fprintf(stderr, "%g, expected %g\n", v[i], expected[i]);
    return same;
}
#define CHECK_VALUES(a, ...)                                                                                           \
    CU_ASSERT_TRUE(equals(a, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__}))

#define CHECK_FAILS(call, code_, text)                                                                                 \
    do {                                                                                                               \
        td_clear_error();                                                                                              \
        (void)(call);                                                                                                  \
        CU_ASSERT_EQUAL(td_last_error()->code, code_);                                                                 \
        if (!strstr(td_last_error()->message, text))                                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, td_last_error()->message);                              \
        CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, text));                                                \
        td_clear_error();                                                                                              \
    } while (0)

/* A number of the daemon's status table. */
__attribute__((unused)) static int64_t status_of(td_client *c, const char *key)
{
    td_table *t = td_status(c, "status");
    int64_t v = -1;
    for (int r = 0; t && r < t->rows; r++)
        if (strcmp(t->cells[r * 2].text, key) == 0) v = t->cells[r * 2 + 1].integer;
    td_table_free(t);
    return v;
}

/* The same when it has come to that: what a client lets go of ends in turns of the daemon. */
__attribute__((unused)) static bool comes_to(td_client *c, const char *key, int64_t value)
{
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; status_of(c, key) != value; test_sleep_ms(1))
        if (test_now_ms() > until) return false;
    return true;
}

/* The same before anything else is done: sessions of what came before may be on their way out, and what ran for them
 * holds what it holds for a while longer. `c` is the only client. */
__attribute__((unused)) static int64_t status_at_rest(td_client *c, const char *key)
{
    enum { STILL_MS = 100 };
    CU_ASSERT_TRUE(comes_to(c, "sessions", 1));
    int64_t value = status_of(c, key), now;
    for (int still = 0; value && still < STILL_MS; value = now, test_sleep_ms(1)) {
        now = status_of(c, key);
        still = now == value ? still + 1 : 0;
    }
    return value;
}

#endif
