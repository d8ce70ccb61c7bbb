/* The main() of a CUnit suite in three lines, and the one line by which the runner counts it.
 *
 *     static void wraps(void) { CU_ASSERT_EQUAL(1 + 1, 2); }
 *     static void maps(void) { if (!big) { td_test_skip("needs 8 GB"); return; } ... }
 *     TD_CUNIT_MAIN("desc", {"negative dimensions wrap", wraps}, {"large maps", maps})
 *
 * Invariant: whatever a suite does, its last line is `suite NAME: P passed, F failed, S skipped`, each skip was printed
 * before it as `SKIP TEST: reason`, and the exit status is 0 exactly when nothing failed (77 when all was skipped).
 * A suite that leaves descriptors open has failed.
 * With an argument, only the tests whose names contain it run. */
#ifndef TENSORD_TESTS_UNIT_CUNIT_MAIN_H
#define TENSORD_TESTS_UNIT_CUNIT_MAIN_H

#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct td_test {
    const char *name;
    void (*run)(void);
} td_test;

static unsigned td_tests_skipped;

/* The running test cannot be done here, for this reason (printf's format): say so and return from the test. */
__attribute__((unused, format(printf, 1, 2))) static void td_test_skip(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    printf("SKIP %s: ", CU_get_current_test()->pName);
    vprintf(format, ap);
    printf("\n");
    va_end(ap);
    td_tests_skipped++;
}

enum { TD_TEST_DESCRIPTORS = 1024 };

/* How many descriptors a suite has left open, each of which is said. `first`: it begins, and those that are open are
 * not its own. */
static unsigned td_descriptors_left(bool first)
{
    static bool others[TD_TEST_DESCRIPTORS];
    unsigned left = 0;
    for (int fd = 0; fd < TD_TEST_DESCRIPTORS; fd++) {
        char path[32], what[128] = "";
        bool open = fcntl(fd, F_GETFD) >= 0;
        if (first) others[fd] = open;
        if (!open || others[fd]) continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, what, sizeof what - 1) < 0) what[0] = 0;
        fprintf(stderr, "descriptor %d is left open: %s\n", fd, what);
        left++;
    }
    return left;
}

/* Run the tests of one suite (`init`, `cleanup` may be NULL: CUnit's, 0 for success); the exit status. */
static int td_tests_run(const char *name, int (*init)(void), int (*cleanup)(void), size_t count, const td_test *tests,
                        const char *only)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    CU_pSuite suite = CU_initialize_registry() == CUE_SUCCESS ? CU_add_suite(name, init, cleanup) : NULL;
    unsigned added = 0;
    for (size_t i = 0; suite && i < count; i++) {
        if (only && !strstr(tests[i].name, only)) continue;
        if (!CU_add_test(suite, tests[i].name, tests[i].run)) suite = NULL;
        else added++;
    }
    if (!suite || !added) {
        printf("suite %s: 0 passed, 1 failed, 0 skipped\n", name);
        fprintf(stderr, "%s: %s\n", name, suite ? "no test has such a name" : CU_get_error_msg());
        return 1;
    }
    CU_basic_set_mode(CU_BRM_NORMAL);
    td_descriptors_left(true);
    CU_basic_run_tests();
    unsigned ran = CU_get_number_of_tests_run(), failed = CU_get_number_of_tests_failed();
    if (ran < added) failed = added - (ran - failed); /* init failed */
    if (td_descriptors_left(false) && failed == 0) failed = 1;
    if (CU_get_number_of_suites_failed() > 0 && failed == 0) failed = 1; /* cleanup failed: something is left */
    CU_cleanup_registry();
    printf("\nsuite %s: %u passed, %u failed, %u skipped\n", name, added - failed - td_tests_skipped, failed,
           td_tests_skipped);
    fflush(stdout);
    return failed ? 1 : td_tests_skipped == added ? 77 : 0;
}

#define TD_CUNIT_MAIN_WITH(name, init, cleanup, ...)                                                                   \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        static const td_test tests[] = {__VA_ARGS__};                                                                  \
        return td_tests_run(name, init, cleanup, sizeof tests / sizeof *tests, tests, argc > 1 ? argv[1] : NULL);      \
    }
#define TD_CUNIT_MAIN(name, ...) TD_CUNIT_MAIN_WITH(name, NULL, NULL, __VA_ARGS__)

#endif
