/* See patience.h. */
#include "proto/base/patience.h"
#include "proto/base/clock.h"

#include <sched.h>

enum { LEAST_NS = 50000, MOST_NS = 200000, ABSENT_NS = 300000, REST_NS = 500000, REST_MOST_NS = 1000000000 };
enum { ONE_LATE = 2, TOO_LATE = 4, MOST_LATE = 8 }; /* a look in vain costs more than a wake-up: weighed as two */

bool td_patience_has(const td_patience *p, uint64_t now)
{
    return p->late < TOO_LATE && now >= p->rest_until;
}

/* Twice a wake-up: the other side's, and our own. */
uint64_t td_patience_ns(const td_patience *p)
{
    uint64_t ns = 2 * p->wake;
    return ns < LEAST_NS ? LEAST_NS : ns > MOST_NS ? MOST_NS : ns;
}

/* Nearer to the shorter ones: the longer were kept from a processor besides. */
void td_patience_woke(td_patience *p, uint64_t ns)
{
    if (ns > MOST_NS) ns = MOST_NS; /* a machine that was suspended says nothing of others */
    if (!p->wake) p->wake = ns;
    else if (ns < p->wake) p->wake -= (p->wake - ns) / 2;
    else p->wake += (ns - p->wake) / 16;
}

/* Others have work for the processors: stay out of their way. */
static void rest(td_patience *p, uint64_t now)
{
    bool again = now - p->rest_until < 8 * p->rest;
    p->rest = !again || !p->rest ? REST_NS : p->rest * 2 > REST_MOST_NS ? REST_MOST_NS : p->rest * 2;
    p->rest_until = now + p->rest;
}

void td_patience_took(td_patience *p, uint64_t ns)
{
    uint64_t quick = td_patience_ns(p);
    if (ns >= quick + quick / 5) p->late = p->late + ONE_LATE > MOST_LATE ? MOST_LATE : p->late + ONE_LATE;
    else if (p->late) p->late--;
}

bool td_patience_look(td_patience *p, uint64_t ns, bool (*came)(void *arg), void *arg)
{
    uint64_t began = td_clock_ns(), before = began;
    for (;;) {
        if (came(arg)) {
            td_patience_took(p, 0);
            return true;
        }
        sched_yield();
        uint64_t now = td_clock_ns();
        if (now - before > ABSENT_NS) rest(p, now);
        if (now - began > ns) return came(arg);
        before = now;
    }
}
