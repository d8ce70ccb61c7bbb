/* The clock that everything here waits and measures by: monotonic, read without a system call as a rule. */
#ifndef TENSORD_PROTO_BASE_CLOCK_H
#define TENSORD_PROTO_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t td_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t td_clock_ms(void)
{
    return td_clock_ns() / 1000000;
}

/* What took from `began` until now is not to be done again for so many times as long, so that it takes a part of the
 * time only: when it may be. */
static inline uint64_t td_clock_rest(uint64_t began_ns, unsigned times)
{
    uint64_t now = td_clock_ns();
    return now + (now - began_ns) * times;
}

#endif
