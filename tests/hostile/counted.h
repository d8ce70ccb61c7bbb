/* The daemon of a suite, and what it held before the first test: after each it must be alive and hold exactly that
 * again (sessions, objects, bytes, descriptors, tasks). A suite says with which memory and workers it starts. */
#ifndef TENSORD_TESTS_COUNTED_H
#define TENSORD_TESTS_COUNTED_H

#include "tests/support/daemon.h"
#include "tests/support/raw.h"

#include <CUnit/CUnit.h>

static test_daemon d;
static int64_t base[RAW_COUNTED];

/* Results are CUnit's: 0 for success. */
static inline int counted_start(const char *memory, const char *workers)
{
    return test_daemon_start(&d, (const char *[]){"--memory", memory, "--workers", workers, NULL}) &&
                   raw_count(d.socket, base)
               ? 0
               : 1;
}

static inline int stop(void)
{
    return test_daemon_stop(&d);
}

/* Ends are noticed in their own time. */
static inline void back_to_normal(void)
{
    CU_ASSERT_TRUE(raw_count_again(d.socket, base));
    CU_ASSERT_TRUE(test_daemon_alive(&d));
}

#endif
