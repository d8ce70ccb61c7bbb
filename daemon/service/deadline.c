/* Deadlines: one sorted list, for there are few. Firing disarms first, so that a callback may arm again or free its owner. */
#include "daemon/service/service.h"

#include <time.h>

uint64_t td_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void td_deadline_arm(td_service *s, td_deadline *d, uint64_t in_ms, void (*fire)(void *arg), void *arg)
{
    td_deadline_disarm(s, d);
    d->at_ms = td_now_ms() + in_ms;
    d->fire = fire;
    d->arg = arg;
    d->armed = true;
    td_deadline *before = NULL, *after = s->deadlines;
    while (after && after->at_ms <= d->at_ms) {
        before = after;
        after = after->next;
    }
    d->prev = before;
    d->next = after;
    if (after) after->prev = d;
    if (before) before->next = d;
    else s->deadlines = d;
}

void td_deadline_disarm(td_service *s, td_deadline *d)
{
    if (!d->armed) return;
    if (d->prev) d->prev->next = d->next;
    else s->deadlines = d->next;
    if (d->next) d->next->prev = d->prev;
    d->next = d->prev = NULL;
    d->armed = false;
}

uint64_t td_deadlines_run(td_service *s)
{
    uint64_t now = td_now_ms();
    while (s->deadlines && s->deadlines->at_ms <= now) {
        td_deadline *d = s->deadlines;
        td_deadline_disarm(s, d);
        d->fire(d->arg);
    }
    return s->deadlines ? s->deadlines->at_ms - now : UINT64_MAX;
}
