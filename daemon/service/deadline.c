/* Deadlines: a pairing heap, for a client may hold handles by the million, each with its own. Arming needs no memory
 * and takes a few steps; disarming and firing take, on average, as many as the logarithm of what is armed. Firing
 * disarms first, so that a callback may arm again or free its owner. */
#include "daemon/service/service.h"

enum { FIRE_MOST = 256 }; /* at once */

/* Two heaps become one. */
static td_deadline *meld(td_deadline *a, td_deadline *b)
{
    if (!a || !b) return a ? a : b;
    if (b->at_ms < a->at_ms) {
        td_deadline *t = a;
        a = b;
        b = t;
    }
    b->prev = a;
    b->next = a->child;
    if (b->next) b->next->prev = b;
    a->child = b;
    return a;
}

/* The children of one that goes: each with its neighbour, then all. */
static td_deadline *meld_all(td_deadline *first)
{
    td_deadline *pairs = NULL, *all = NULL;
    while (first) {
        td_deadline *a = first, *b = a->next;
        first = b ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b) b->next = b->prev = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        td_deadline *a = pairs;
        pairs = a->next;
        a->next = NULL;
        all = meld(a, all);
    }
    return all;
}

void td_deadline_arm(td_service *s, td_deadline *d, uint64_t in_ms, void (*fire)(void *arg), void *arg)
{
    td_deadline_disarm(s, d);
    *d = (td_deadline){.at_ms = td_clock_ms() + in_ms, .fire = fire, .arg = arg, .armed = true};
    s->deadlines = meld(s->deadlines, d);
}

void td_deadline_disarm(td_service *s, td_deadline *d)
{
    if (!d->armed) return;
    td_deadline *children = meld_all(d->child);
    if (!d->prev) {
        s->deadlines = children;
    } else {
        if (d->prev->child == d) d->prev->child = d->next;
        else d->prev->next = d->next;
        if (d->next) d->next->prev = d->prev;
        s->deadlines = meld(s->deadlines, children);
    }
    d->child = d->next = d->prev = NULL;
    d->armed = false;
}

uint64_t td_deadlines_run(td_service *s)
{
    uint64_t now = td_clock_ms();
    for (int n = 0; n < FIRE_MOST && s->deadlines && s->deadlines->at_ms <= now; n++) {
        td_deadline *d = s->deadlines;
        td_deadline_disarm(s, d);
        d->fire(d->arg);
    }
    if (!s->deadlines) return UINT64_MAX;
    return s->deadlines->at_ms > now ? s->deadlines->at_ms - now : 0;
}
