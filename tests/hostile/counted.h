/* The daemon of a suite, and what it held before the first test: after each it must be alive and hold exactly that
 * again (sessions, objects, bytes, descriptors, tasks). A suite says with which memory and workers it starts. */
#ifndef TENSORD_TESTS_HOSTILE_COUNTED_H
#define TENSORD_TESTS_HOSTILE_COUNTED_H

#include "tests/support/daemon.h"
#include "tests/support/raw.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

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

/* Does what the daemon has in memory say what it holds? Of what is freed a sanitizer keeps some, and of what lives it
 * has notes. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { REAL = 0 };
#else
enum { REAL = 1 };
#endif

/* What the daemon has in memory ("VmRSS"), or has had at most ("VmHWM"); -1: nobody knows. */
static inline long resident_kb(const char *which)
{
    char path[64], line[256];
    long kb = -1;
    size_t n = strlen(which);
    snprintf(path, sizeof path, "/proc/%d/status", (int)d.pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, which, n) && sscanf(line + n, ": %ld kB", &kb) == 1) break;
    if (f) fclose(f);
    return kb;
}

/* Ends are noticed in their own time. */
static inline void back_to_normal(void)
{
    CU_ASSERT_TRUE(raw_count_again(d.socket, base));
    CU_ASSERT_TRUE(test_daemon_alive(&d));
}

#endif
