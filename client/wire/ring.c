/* A busy connection's bytes go through memory instead of the socket (proto/wire/ring.h): no system call for a message,
 * and no wake-up while both sides are at it.
 *
 * Only who waits often asks for it, since it takes a lease of the session's memory: the lease is asked for beside a
 * wait, the ring beside a later one, so that nobody waits for either. TENSORD_RING=0 leaves everything on the
 * socket, 1 asks at the first wait. */

#include "client/wire/internal.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

enum { WAITS = 16 };

static int answered(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)w, (void)r, (void)fd, (void)e;
    td_reader_use_ring(&c->in.reader, &c->link.ring, c->socket);
    return TD_OK;
}

/* What follows the request goes through the ring already; a daemon that refuses it could not be talked to any more. */
static void ask_ring(td_client *c)
{
    td_link *k = &c->link;
    td_ring_clear((td_ring_memory *)k->lease->bytes);
    Td__Wire__Ring ring = TD__WIRE__RING__INIT;
    ring.lease = k->lease->id;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.ring = &ring;
    k->answer = (td_reply_wait){.on_reply = answered};
    if (td_ask_later(c, &call, -1, &k->answer)) return;
    k->lease->used = true;
    td_ring_init(&k->ring, (td_ring_memory *)k->lease->bytes, false);
    td_writer_use_ring(&c->out.writer, &k->ring);
    k->stage = TD_LINK_RING;
}

void td_link_advance(td_client *c)
{
    td_link *k = &c->link;
    if (k->stage == TD_LINK_RING || k->stage == TD_LINK_NEVER) return;
    if (k->stage == TD_LINK_SOCKET) {
        const char *wish = k->waits ? NULL : getenv("TENSORD_RING");
        if (wish && wish[0] == '0') k->stage = TD_LINK_NEVER;
        if (wish && wish[0] == '1') k->waits = WAITS;
        if (k->stage == TD_LINK_NEVER || ++k->waits < WAITS) return;
        k->lease = c->daemon.rings ? td_ask_lease(c, sizeof(td_ring_memory)) : NULL;
        k->stage = k->lease ? TD_LINK_LEASE : TD_LINK_NEVER;
        td_clear_error();
    } else if (k->lease->wait.done) {
        if (!k->lease->wait.code) {
            ask_ring(c);
            return;
        }
        td_drop_lease(k->lease);
        k->lease = NULL;
        k->stage = TD_LINK_NEVER;
    }
}

void td_link_forget(td_client *c)
{
    if (c->link.lease) td_forget_lease(c->link.lease);
    c->link = (td_link){0};
}

typedef struct waiting {
    const td_ring *ring;
    bool to_write;
} waiting;

static bool came(void *arg)
{
    const waiting *w = arg;
    return td_ring_readable(w->ring) || (w->to_write && td_ring_writable(w->ring));
}

/* Sleep until a bell rings, or so many ms. 0: the connection has ended. */
static long sleep_for_bell(td_client *c, waiting *w, int ms, td_error *e)
{
    td_link *k = &c->link;
    long n = -EAGAIN;
    td_ring_sleep(&k->ring);
    if (!came(w)) {
        struct pollfd p = {c->socket, POLLIN, 0};
        n = poll(&p, 1, ms) <= 0               ? -ETIMEDOUT
            : td_reader_expects(&c->in.reader) ? -EAGAIN /* its frame is about to come, and the next descriptor after */
                                               : td_reader_bells(&c->in.reader, e);
    }
    td_ring_wake(&k->ring);
    return n;
}

static bool look(td_link *k, waiting *w)
{
    td_patience *p = &k->patience;
    return td_patience_has(p, td_clock_ns()) && td_patience_look(p, td_patience_ns(p), came, w);
}

static void learn(td_link *k, uint64_t began)
{
    uint64_t now = td_clock_ns(), rang = td_ring_rang(&k->ring, began, now);
    if (rang < now) td_patience_woke(&k->patience, now - rang);
    td_patience_took(&k->patience, rang - began);
}

long td_link_wait(td_client *c, bool to_write, int ms, td_error *e)
{
    waiting w = {&c->link.ring, to_write};
    uint64_t began = td_clock_ns();
    long n = -EAGAIN;
    if (!came(&w) && !look(&c->link, &w)) {
        n = sleep_for_bell(c, &w, ms, e);
        learn(&c->link, began);
    }
    if (n == -EPROTO) return n;
    long filled = td_reader_fill(&c->in.reader, c->socket, true, e); /* its last words come before its end */
    return filled == -EAGAIN && n <= 0 ? n : filled;
}

long td_link_take(td_client *c, td_error *e)
{
    td_link *k = &c->link;
    long n = td_reader_expects(&c->in.reader) ? -EAGAIN : td_reader_bells(&c->in.reader, e);
    if (n == -EPROTO) return n;
    td_ring_sleep(&k->ring);
    long filled = td_reader_fill(&c->in.reader, c->socket, true, e); /* its last words come before its end */
    return filled == -EAGAIN && n <= 0 ? n : filled;
}
