/* Clocks that a test moves by hand: the monotonic one, by which all of tensord waits and measures (proto/base/clock.h), and
 * the processor time of threads. What a test finds then depends on its steps, and on no other process of the machine.
 *
 * The program is linked with -Wl,--wrap=clock_gettime. Clocks are the machine's until hand_clock_stop(). From then on
 * the monotonic one goes by what hand_clock_go_on() says, and by a tick for each look, so that who looks on for a while
 * comes to an end; other threads' processor time goes by what hand_clock_work() says. */
#ifndef TENSORD_TESTS_SUPPORT_HAND_CLOCK_H
#define TENSORD_TESTS_SUPPORT_HAND_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

static struct {
    _Atomic bool stands;
    _Atomic uint64_t ns, tick, worked;
} hand_clock;

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    bool of_another = id < 0; /* pthread_getcpuclockid()'s */
    if (!atomic_load(&hand_clock.stands) || (!of_another && id != CLOCK_MONOTONIC && id != CLOCK_THREAD_CPUTIME_ID))
        return __real_clock_gettime(id, t);
    uint64_t now =
        of_another ? atomic_load(&hand_clock.worked) : atomic_fetch_add(&hand_clock.ns, atomic_load(&hand_clock.tick));
    *t = (struct timespec){(time_t)(now / 1000000000), (long)(now % 1000000000)};
    return 0;
}

/* It stands from now on, but for so many ns a look. */
static inline void hand_clock_stop(uint64_t tick)
{
    struct timespec t;
    __real_clock_gettime(CLOCK_MONOTONIC, &t);
    atomic_store(&hand_clock.ns, (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec);
    atomic_store(&hand_clock.tick, tick);
    atomic_store(&hand_clock.stands, true);
}

static inline void hand_clock_go_on(uint64_t ns)
{
    atomic_fetch_add(&hand_clock.ns, ns);
}

static inline void hand_clock_work(uint64_t ns)
{
    atomic_fetch_add(&hand_clock.worked, ns);
}

#endif
