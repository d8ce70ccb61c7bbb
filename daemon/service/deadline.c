/* Deadlines: a heap, for a client may hold handles by the million, each with its own. It is a complete binary tree of
 * the deadlines themselves, so that arming needs no memory, and nothing takes more steps than the tree has levels. The
 * way to place n is in the bits of n. Firing disarms first, so that a callback may arm again or free its owner. */
#include "daemon/service/service.h"

enum { FIRE_MOST = 256 }; /* at once */

/* Where the pointer to place n (the root's is 1) stands; *above: whose it is. */
static td_deadline **place(td_service *s, uint32_t n, td_deadline **above)
{
    td_deadline **at = &s->deadlines;
    *above = NULL;
    for (int bit = 30 - __builtin_clz(n); bit >= 0; bit--) {
        *above = *at;
        at = &(*at)->kid[n >> bit & 1];
    }
    return at;
}

static td_deadline **pointer_to(td_service *s, td_deadline *d)
{
    return d->above ? &d->above->kid[d->above->kid[1] == d] : &s->deadlines;
}

static void put(td_deadline **at, td_deadline *d, td_deadline *above)
{
    *at = d;
    if (d) d->above = above;
}

/* The two change places: `kid` is one of d's. */
static void lift(td_service *s, td_deadline *d, td_deadline *kid)
{
    int side = d->kid[1] == kid;
    td_deadline *other = d->kid[!side], *above = d->above, **at = pointer_to(s, d);
    for (int k = 0; k < 2; k++) put(&d->kid[k], kid->kid[k], d);
    put(&kid->kid[!side], other, kid);
    put(&kid->kid[side], d, kid);
    put(at, kid, above);
}

static void settle(td_service *s, td_deadline *d)
{
    while (d->above && d->at_us < d->above->at_us) lift(s, d->above, d);
    for (;;) {
        td_deadline *a = d->kid[0], *b = d->kid[1], *first = b && b->at_us < a->at_us ? b : a;
        if (!first || first->at_us >= d->at_us) return;
        lift(s, d, first);
    }
}

static uint64_t now_us(void)
{
    return td_clock_ns() / 1000;
}

void td_deadline_arm(td_service *s, td_deadline *d, uint64_t in_ms, void (*fire)(void *arg), void *arg)
{
    td_deadline_arm_us(s, d, in_ms * 1000, fire, arg);
}

void td_deadline_arm_us(td_service *s, td_deadline *d, uint64_t in_us, void (*fire)(void *arg), void *arg)
{
    enum { FIRST_BIT_BUT_ONE = 62 };
    td_deadline_disarm(s, d);
    if (in_us >> FIRST_BIT_BUT_ONE) in_us = UINT64_C(1) << FIRST_BIT_BUT_ONE; /* never */
    *d = (td_deadline){.at_us = now_us() + in_us, .fire = fire, .arg = arg, .armed = true};
    td_deadline *above, **at = place(s, ++s->ndeadlines, &above);
    put(at, d, above);
    settle(s, d);
}

void td_deadline_disarm(td_service *s, td_deadline *d)
{
    if (!d->armed) return;
    td_deadline *above, **at = place(s, s->ndeadlines--, &above), *last = *at;
    *at = NULL;
    if (last != d) { /* the last takes its place */
        put(pointer_to(s, d), last, d->above);
        for (int k = 0; k < 2; k++) put(&last->kid[k], d->kid[k], last);
        settle(s, last);
    }
    d->kid[0] = d->kid[1] = d->above = NULL;
    d->armed = false;
}

uint64_t td_deadlines_run(td_service *s)
{
    uint64_t now = now_us();
    for (int n = 0; n < FIRE_MOST && s->deadlines && s->deadlines->at_us <= now; n++) {
        td_deadline *d = s->deadlines;
        td_deadline_disarm(s, d);
        d->fire(d->arg);
    }
    if (!s->deadlines) return UINT64_MAX;
    return s->deadlines->at_us > now ? s->deadlines->at_us - now : 0;
}
