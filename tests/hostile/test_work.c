/* What kernels work with beside their operands: it follows from shapes that a client chose, and may be a million times
 * as much as the client's tensors. It is the client's own: charged, bounded, waited for, given back.
 *
 * Each test has a daemon of its own, which must hold in the end what it held before. */
#include "client/tensord.h"
#include "tests/hostile/counted.h"
#include "tests/unit/cunit_main.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MB = 1000 * 1000, MOST_RESIDENT_KB = 400 * 1000 };

static bool begin(const char *memory, const char *session, const char *user)
{
    const char *args[] = {"--workers",     "2",  "--memory", memory, "--session-memory", session,
                          "--user-memory", user, NULL};
    return test_daemon_start(&d, args) && raw_count(d.socket, base);
}

static int start(void)
{
    return 0;
}

static int64_t status(const char *key)
{
    raw r;
    int64_t v = raw_open(&r, d.socket) ? raw_status(&r, key) : -1;
    raw_close(&r);
    return v;
}

static void end(void)
{
    back_to_normal();
    CU_ASSERT_EQUAL(status("bytes_work"), 0);
    CU_ASSERT_EQUAL(test_daemon_stop(&d), 0);
}

/* 2^28 indices that are one number in memory: 2 GB, to look them up in order. */
static int two_gigabytes_of_indices(td_client *c)
{
    td_array *x = td_full(c, td_dims(16), 1.0, TD_FLOAT32), *one = td_full(c, td_dims(1), 3, TD_INT64);
    td_array *many = td_expand(one, td_dims(1 << 28)), *v = td_full(c, td_dims(1), 1.0, TD_FLOAT32);
    td_array *y = td_index_put(x, td_arrays(many), v, true);
    int code = td_sync(c);
    td_release(y), td_release(v), td_release(many), td_release(one), td_release(x);
    return code;
}

static void of_a_session(void)
{
    CU_ASSERT_TRUE_FATAL(begin("4G", "64M", "4G"));
    td_client *c = td_connect(d.socket);
    CU_ASSERT_EQUAL(two_gigabytes_of_indices(c), TD_E_QUOTA);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "to work with (2147.5 MB)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "session"));
    CU_ASSERT_STRING_EQUAL(td_last_error()->op, "index_put");
    td_array *x = td_full(c, td_dims(1000, 1000), 1.0, TD_FLOAT32), *y = td_mm(x, x);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK); /* what is needed for usual work it has */
    td_release(x), td_release(y);
    td_disconnect(c);
    CU_ASSERT_TRUE(resident_kb("VmHWM") < MOST_RESIDENT_KB);
    end();
}

/* The daemon's limit is what its memory group grants, or a part of it: beyond it nothing is refused, but killed. */
static void of_the_daemon(void)
{
    CU_ASSERT_TRUE_FATAL(begin("256M", "8G", "8G"));
    td_client *c = td_connect(d.socket);
    CU_ASSERT_EQUAL(two_gigabytes_of_indices(c), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "to work with (2147.5 MB)"));
    td_disconnect(c);
    CU_ASSERT_TRUE(resident_kb("VmHWM") < MOST_RESIDENT_KB);
    end();
}

enum { ROW = 1 << 20, SORTS = 12 };

/* Each sorts 4 MB with 16 MB to work with, and leaves 12 MB of results that nobody wants. */
static void ask_for_sorts(td_array *x, int n)
{
    for (int i = 0; i < n; i++) {
        td_array *indices = NULL, *values = td_sort(x, &indices);
        td_release(values), td_release(indices);
    }
}

/* More than fits, one after the other: who asked waits for its own, and nothing fails. */
static void waited_for(void)
{
    CU_ASSERT_TRUE_FATAL(begin("1G", "64M", "1G"));
    td_client *c = td_connect(d.socket);
    td_array *x = td_randn(c, td_dims(ROW), TD_FLOAT32);
    ask_for_sorts(x, SORTS);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    td_release(x);
    td_disconnect(c);
    end();
}

/* Two clients of a user whose memory is enough for one sort at a time. A sort takes far less than they wait for each
 * other's (TD_LACK_MS), under sanitizers, too. */
static void waited_for_by_others(void)
{
    CU_ASSERT_TRUE_FATAL(begin("1G", "1G", "20M"));
    td_client *c[2] = {td_connect(d.socket), td_connect(d.socket)};
    td_array *x[2];
    for (int k = 0; k < 2; k++) x[k] = td_randn(c[k], td_dims(ROW / 4), TD_FLOAT32);
    for (int k = 0; k < 2; k++) ask_for_sorts(x[k], 4);
    for (int k = 0; k < 2; k++) CU_ASSERT_EQUAL(td_sync(c[k]), TD_OK);
    for (int k = 0; k < 2; k++) td_release(x[k]), td_disconnect(c[k]);
    end();
}

/* Killed while its work is under way: what it works with goes with it. */
static void killed(void)
{
    CU_ASSERT_TRUE_FATAL(begin("1G", "512M", "1G"));
    for (int k = 0; k < 3; k++) {
        int ready[2];
        CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
        pid_t pid = fork();
        if (pid == 0) {
            td_client *c = td_connect(d.socket);
            td_array *x = td_randn(c, td_dims(ROW), TD_FLOAT32);
            ask_for_sorts(x, SORTS);
            td_flush(c);
            if (write(ready[1], "", 1) == 1) pause();
            _exit(1);
        }
        char byte;
        close(ready[1]);
        CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
        for (int i = 0; i < 200 && status("bytes_work") <= 0; i++) test_sleep_ms(2);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(ready[0]);
    }
    end();
}

TD_CUNIT_MAIN_WITH("work", start, start, {"of a session", of_a_session}, {"of the daemon", of_the_daemon},
                   {"waited for", waited_for}, {"waited for by others", waited_for_by_others}, {"killed", killed})
