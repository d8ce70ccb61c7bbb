/* How long a thread that is woken waits for the processor of one that computes. See proto/base/breath.h.
 *
 * Tried: two threads on one processor, the computing one at the lower priority that workers have, and somebody on
 * another processor who wakes. */
#include "client/tensorctl/tensorctl.h"
#include "proto/base/breath.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 48, NICE = 10, APART_US = 2000 };

typedef struct trial {
    int fd, cpu;
    _Atomic bool stop, breathes, ready;
    _Atomic int64_t sent;
    _Atomic int n;
    double waits[TIMES]; /* us */
} trial;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void stay_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *compute(void *arg)
{
    trial *t = arg;
    stay_on(t->cpu);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    while (!t->stop) {
        for (volatile int i = 0; i < 1000; i++) {
        }
        if (t->breathes) td_breathe();
    }
    return NULL;
}

static void *wait_for_it(void *arg)
{
    trial *t = arg;
    stay_on(t->cpu);
    t->ready = true;
    for (eventfd_t times; t->n < TIMES; t->n++) {
        eventfd_read(t->fd, &times);
        t->waits[t->n] = (double)(now_ns() - t->sent) * 1e-3;
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median in microseconds; negative: it cannot be tried. */
static double median_wait(int cpu, bool breathes)
{
    trial t = {.fd = eventfd(0, EFD_CLOEXEC), .cpu = cpu, .breathes = breathes};
    pthread_t computes, waits;
    bool busy = t.fd >= 0 && pthread_create(&computes, NULL, compute, &t) == 0;
    bool both = busy && pthread_create(&waits, NULL, wait_for_it, &t) == 0;
    while (both && !t.ready) usleep(APART_US);
    for (int i = 0; both && i < TIMES; i++) {
        usleep(APART_US + 37 * (useconds_t)i); /* not in step with the tick */
        t.sent = now_ns();
        eventfd_write(t.fd, 1);
        while (t.n <= i) usleep(APART_US / 10);
    }
    if (both) pthread_join(waits, NULL);
    t.stop = true;
    if (busy) pthread_join(computes, NULL);
    if (t.fd >= 0) close(t.fd);
    if (!both) return -1;
    qsort(t.waits, TIMES, sizeof t.waits[0], ascending);
    return t.waits[TIMES / 2];
}

bool ctl_wakes(double *plain_us, double *breathing_us)
{
    cpu_set_t may, here;
    int first = -1, second = -1;
    if (sched_getaffinity(0, sizeof may, &may)) return false;
    for (int i = 0; i < CPU_SETSIZE && second < 0; i++)
        if (CPU_ISSET(i, &may)) *(first < 0 ? &first : &second) = i;
    if (second < 0) return false;
    CPU_ZERO(&here);
    CPU_SET(first, &here);
    sched_setaffinity(0, sizeof here, &here);
    *plain_us = median_wait(second, false);
    *breathing_us = median_wait(second, true);
    sched_setaffinity(0, sizeof may, &may);
    return *plain_us >= 0 && *breathing_us >= 0;
}
