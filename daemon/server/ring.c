/* Peers whose bytes go through shared memory, with the socket as the bell.
 *
 * The loop looks at the rings of those who wrote or were answered lately (the watched ones) in every round, and for a
 * moment more before it sleeps, giving way to others meanwhile; nobody needs to ring for these. When it goes to sleep
 * it says so in each of them, looks once more, and watches none: a bell brings a peer back. Waiting costs no processor
 * time when it is in vain: after some misses the loop sleeps at once, until somebody has shown to answer quickly. */
#include "daemon/server/server.h"
#include "proto/base/clock.h"

#include <errno.h>

#define LOOK_NS 5000 /* at the rings, before the sockets have their turn */

void td_peer_use_ring(td_peer *p, td_ring_memory *m)
{
    td_ring_init(&p->ring, m, true);
    td_reader_use_ring(&p->reader, &p->ring, p->fd);
    td_writer_use_ring(&p->writer, &p->ring);
}

void td_peer_watch_ring(td_peer *p)
{
    if (p->watched || p->closing) return;
    td_ring_wake(&p->ring);
    p->watched = true;
    p->next_watched = p->server->watched;
    p->server->watched = p;
}

void td_peer_answered(td_peer *p)
{
    td_peer_watch_ring(p);
    p->server->last_news = td_clock_ns();
}

void td_peer_forget_ring(td_peer *p)
{
    p->reader.ring = NULL;
    p->writer.ring = NULL;
    if (!p->watched) return;
    td_peer **at = &p->server->watched;
    while (*at != p) at = &(*at)->next_watched;
    *at = p->next_watched;
    p->watched = false;
}

/* The socket has something: bells, a descriptor where none is welcome, or its end. */
void td_peer_bell(td_peer *p)
{
    td_error e = {0};
    td_server *s = p->server;
    long n = td_reader_bells(&p->reader, &e);
    if (n == -EPROTO) {
        td_peer_end_with(p, &e);
        return;
    }
    if (n == 0 || (n < 0 && n != -EAGAIN)) p->eof = true;
    if (p->full) td_peer_wrote(p);
    uint64_t now = td_clock_ns(), rang = td_ring_rang(&p->ring, s->last_news, now);
    if (rang < now) td_patience_woke(&s->patience, now - rang);
    td_patience_took(&s->patience, rang - s->last_news);
    s->last_news = now;
}

/* Who will look when its turn comes is left alone. */
static bool has_news(const td_peer *p)
{
    return p->wants && !(p->ready && p->came) && td_peer_may_read(p) && td_ring_readable(&p->ring);
}

/* Those who have written get a turn. */
static bool look(void *arg)
{
    td_server *s = arg;
    bool any = false;
    for (td_peer *p = s->watched; p; p = p->next_watched) {
        if (!has_news(p)) continue;
        p->came = any = true;
        td_peer_make_ready(p);
    }
    return any;
}

void td_rings_look(td_server *s)
{
    if (!s->watched || !look(s)) return;
    s->last_news = td_clock_ns();
}

/* False: nothing came for so long that the loop may as well sleep. */
static bool wait_a_little(td_server *s)
{
    uint64_t now = td_clock_ns();
    if (!td_patience_has(&s->patience, now)) return false;
    if (now - s->last_news > td_patience_ns(&s->patience)) return false;
    td_patience_look(&s->patience, LOOK_NS, look, s);
    return true;
}

static bool go_to_sleep(td_server *s)
{
    for (td_peer *p = s->watched; p; p = p->next_watched)
        if (p->wants) td_ring_sleep(&p->ring);
    if (look(s)) {
        for (td_peer *p = s->watched; p; p = p->next_watched) td_ring_wake(&p->ring);
        return false;
    }
    for (td_peer *p = s->watched; p; p = p->next_watched) p->watched = false;
    s->watched = NULL;
    return true;
}

bool td_rings_rest(td_server *s)
{
    if (!s->watched) return true;
    td_sched *sched = s->service.sched;
    bool free = td_sched_idle(sched) || !td_sched_is_here(sched); /* behind a worker, giving way takes long */
    if (free && wait_a_little(s)) return false;
    return go_to_sleep(s);
}
