/* How a benchmark measures and says what it found. Each program prints lines that tests/bench/run puts together:
 *
 *     ours NAME VALUE UNIT GOAL        what tensord takes, and the most that value/reference may be
 *     reference NAME VALUE WHAT        what it is compared with, measured in the same run
 *     skip NAME REASON
 *
 * All values are costs: less is better. A figure is the median of several runs, after one that is not counted. */
#ifndef TENSORD_TESTS_BENCH_BENCH_H
#define TENSORD_TESTS_BENCH_BENCH_H

#include "client/tensord.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BENCH_RUNS 9

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int bench_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which `part` of the n values lie (0.5: the median). Sorts them. */
static inline double bench_quantile(double *values, int n, double part)
{
    qsort(values, (size_t)n, sizeof *values, bench_order);
    return values[(int)(part * (n - 1) + 0.5)];
}

/* Median seconds of run(context). */
static inline double bench_median(void (*run)(void *), void *context)
{
    double took[BENCH_RUNS];
    run(context);
    for (int i = 0; i < BENCH_RUNS; i++) {
        double began = bench_now();
        run(context);
        took[i] = bench_now() - began;
    }
    return bench_quantile(took, BENCH_RUNS, 0.5);
}

static inline void bench_ours(const char *name, double value, const char *unit, double goal)
{
    printf("ours %s %.6g %s %g\n", name, value, unit, goal);
    fflush(stdout);
}
static inline void bench_reference(const char *name, double value, const char *what)
{
    printf("reference %s %.6g %s\n", name, value, what);
    fflush(stdout);
}

/* End with tensord's error when something that must work does not. */
static inline void bench_check(bool ok, const char *what)
{
    if (ok) return;
    const td_error *e = td_last_error();
    fprintf(stderr, "%s: %s %s\n", what, e->op, e->message);
    exit(1);
}

/* A child that runs `body(fd)` with one end of a socket pair; the other end is returned. */
static inline int bench_child(void (*body)(int fd, void *context), void *context, pid_t *pid)
{
    int ends[2];
    fflush(stdout);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) abort();
    if ((*pid = fork()) < 0) abort();
    if (*pid == 0) {
        close(ends[0]);
        body(ends[1], context);
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

/* Send and take 64 bytes: a token. */
static inline bool bench_send(int fd)
{
    char token[64] = {0};
    return write(fd, token, sizeof token) == sizeof token;
}
static inline bool bench_take(int fd)
{
    char token[64];
    return recv(fd, token, sizeof token, MSG_WAITALL) == sizeof token;
}

#endif
