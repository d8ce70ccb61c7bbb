/* The questions whose answers are still to come, in the order in which they were asked, and by their number.
 *
 * Answers come in that order too, but for what waits for others: a server with a thousand gets out is answered behind
 * all of them. */

#include "client/wire/internal.h"
#include <string.h>

static td_bucket *bucket(td_client *c, uint64_t serial)
{
    return &c->due.by_serial[serial % TD_WAIT_BUCKETS];
}

void td_add_wait(td_client *c, td_reply_wait *w)
{
    td_bucket *b = bucket(c, w->serial);
    w->next = w->same = NULL;
    w->before = c->due.last;
    *(c->due.last ? &c->due.last->next : &c->due.first) = w;
    c->due.last = w;
    *(b->last ? &b->last->same : &b->first) = w;
    b->last = w;
}

td_reply_wait *td_take_wait(td_client *c, uint64_t serial)
{
    td_bucket *b = bucket(c, serial);
    td_reply_wait *w = b->first, *older = NULL;
    for (; w && w->serial != serial; w = w->same) older = w;
    if (!w) return NULL;
    *(older ? &older->same : &b->first) = w->same;
    if (b->last == w) b->last = older;
    *(w->before ? &w->before->next : &c->due.first) = w->next;
    *(w->next ? &w->next->before : &c->due.last) = w->before;
    return w;
}

td_reply_wait *td_take_waits(td_client *c)
{
    td_reply_wait *all = c->due.first;
    c->due.first = c->due.last = NULL;
    memset(c->due.by_serial, 0, sizeof c->due.by_serial);
    return all;
}
