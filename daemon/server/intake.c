/* What connections may buffer: bytes that came and are not worked off, answers that are made and not read.
 *
 * All of it counts for the connection's account (td_account.wire), and together it has a limit (limit_wire). While less
 * than half of that is taken everybody is read. Beyond that a process may hold as much as is left: who holds most is
 * read no more, and each further process finds half of what the one before left. Who must wait stands in a list
 * (`hungry`), in order; its socket fills, and nothing of it is lost. Invariant: a buffer of TD_READ_CHUNK bytes needs
 * no asking, and where nobody has a larger one, nor anything that came of one, the first who asks gets it; so it always
 * goes on.
 *
 * A process can keep what it holds by sending no more, by reading nothing, or behind something that does not end: a
 * program that runs for ever, a wait for others. Where others wait or are refused an answer, or the limit is passed, a
 * connection that has not moved for a while is ended, and told why: the largest of the process that holds most. */
#include "daemon/server/server.h"

#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    LOOK_MS = 100,
    STILL_MS = 2000,          /* nothing came of a frame, nothing of an answer went, for so long */
    SLOWEST = 1 << 20,        /* bytes of a frame a second, when others wait for its end */
    UNREAD = 1 << 20,         /* bytes of answers that a connection need not have read ... */
    UNREAD_SHORT = 64 << 10,  /* ... when memory is short */
    IN_SOCKET = 208 << 10,    /* that a socket takes before it is full; the kernel counts them as the daemon's */
    IN_SOCKET_SHORT = 8 << 10 /* ... of connections that begin, or are full, when memory is short */
};

static const td_account *all_of(const td_server *s)
{
    return s->service.account;
}

static bool is_short(const td_server *s, uint64_t more)
{
    const td_account *a = all_of(s);
    return a->limit_wire && 2 * a->wire + more > a->limit_wire;
}

static uint64_t takes(const td_peer *p)
{
    bool full = p->full && !p->eof && !p->reader.ring;
    uint64_t in_socket = !full ? 0 : p->narrow ? IN_SOCKET_SHORT : IN_SOCKET;
    return sizeof *p + p->reader.capacity + td_writer_takes(&p->writer) + in_socket;
}

/* Large answers are not made while memory is short; small ones only as many. */
static void bound_unread(td_server *s)
{
    s->sessions.max_unread = is_short(s, 0) ? UNREAD_SHORT : UNREAD;
}

void td_intake_count(td_peer *p)
{
    if (p->reader.capacity > TD_READ_CHUNK) td_reader_rest(&p->reader);
    uint64_t now = takes(p);
    if (now == p->counted) return;
    td_account_wire(p->account, p->counted, now);
    p->counted = now;
    if (p->reader.capacity > TD_READ_CHUNK) p->grown = true;
    else if (p->grown) p->grown = false, p->reader.most = TD_READ_CHUNK; /* that frame is done with: ask for the next */
}

void td_intake_pay_by(td_peer *p, td_account *account)
{
    if (p->account) td_account_wire(p->account, p->counted, 0);
    td_account_unref(p->account);
    p->account = account ? td_account_ref(account) : NULL;
    p->counted = 0;
}

/* With what was unpacked, and answers that are being made. */
static uint64_t holds(const td_peer *p)
{
    return p->session ? p->account->wire : p->counted;
}

/* What all connections of each process hold. Has anybody a large buffer, or something that came of one? */
static bool add_up(td_server *s)
{
    bool large = s->sessions.unpacked;
    for (td_peer *p = s->peers; p; p = p->next) p->process->held = 0;
    for (td_peer *p = s->peers; p; p = p->next) {
        p->process->held += holds(p);
        large |= p->reader.capacity > TD_READ_CHUNK;
    }
    return large;
}

/* After add_up(). */
static bool may_hold(const td_server *s, const td_process *process, uint64_t more)
{
    const td_account *a = all_of(s);
    return process->held + more + a->wire <= a->limit_wire;
}

/* May it have the buffer that the frame in hand needs? It takes as much again when it is unpacked. */
static bool may_grow(td_peer *p, uint64_t needs)
{
    return !is_short(p->server, needs) || !add_up(p->server) || may_hold(p->server, p->process, needs);
}

static void look_later(td_server *s);

/* One who asks again and again is as one who waits. */
static void note_refused(td_server *s, uint64_t now)
{
    if (now - s->refused_last_ms > STILL_MS) s->refused_since_ms = now;
    s->refused_last_ms = now;
    look_later(s);
}

/* To look at all takes time, and who is refused asks again: what processes hold is known as it was a moment ago. */
bool td_intake_room(td_peer *p, uint64_t bytes)
{
    enum { KNOWN_MS = 5 };
    td_server *s = p->server;
    uint64_t now = td_clock_ms();
    if (!is_short(s, bytes)) return true;
    if (now - s->added_up_ms >= KNOWN_MS) add_up(s), s->added_up_ms = now;
    if (may_hold(s, p->process, bytes)) {
        p->process->held += bytes;
        return true;
    }
    note_refused(s, now);
    return false;
}

bool td_intake_admits(td_server *s, const td_process *process)
{
    enum { COSTS = 64 << 10 }; /* a connection and its session */
    const td_account *a = all_of(s);
    if (!is_short(s, COSTS)) return true;
    add_up(s);
    return process->connections == 1 ? a->wire + COSTS <= a->limit_wire + a->limit_wire / 8
                                     : may_hold(s, process, COSTS);
}

/* A full one keeps what is in it. */
void td_intake_fit_socket(td_peer *p)
{
    bool narrow = is_short(p->server, 0);
    if (narrow == p->narrow || p->full) return;
    p->narrow = narrow;
    int bytes = (narrow ? IN_SOCKET_SHORT : IN_SOCKET) / 2; /* the kernel doubles it */
    setsockopt(p->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/* ---- who waits */

static void look_again(void *server);

static void look_later(td_server *s)
{
    if (!s->intake.armed) td_deadline_arm(&s->service, &s->intake, LOOK_MS, look_again, s);
}

static uint64_t needs(const td_peer *p)
{
    return 2 * (uint64_t)p->reader.wanted;
}

static void grow(td_peer *p)
{
    p->reader.most = p->reader.wanted;
    p->began_ms = p->moved_ms = td_clock_ms();
}

bool td_intake_grows(td_peer *p)
{
    td_server *s = p->server;
    bool may = !p->hungry && may_grow(p, needs(p));
    if (may) grow(p);
    if (may || p->hungry) return may;
    p->hungry = true;
    p->hungry_since_ms = td_clock_ms();
    p->next_hungry = NULL;
    *s->last_hungry = p;
    s->last_hungry = &p->next_hungry;
    look_later(s);
    return false;
}

/* It is off the list at *at. */
static void leave(td_server *s, td_peer **at)
{
    td_peer *p = *at;
    p->hungry = false;
    *at = p->next_hungry;
    if (!*at) s->last_hungry = at;
}

void td_intake_forget(td_peer *p)
{
    if (!p->hungry) return;
    td_peer **at = &p->server->hungry;
    while (*at != p) at = &(*at)->next_hungry;
    leave(p->server, at);
}

bool td_intake_in_vain(const td_peer *p)
{
    int here = 0;
    if (!p->hungry || !p->eof) return false;
    if (p->reader.ring) here = (int)td_ring_waiting(p->reader.ring);
    else if (ioctl(p->fd, SIOCINQ, &here)) return false;
    return (uint64_t)td_reader_buffered(&p->reader) + (uint64_t)here < p->reader.wanted;
}

/* Of the process that holds least, the first; and after that one whoever finds room. */
static td_peer **next_fed(td_server *s)
{
    td_peer **least = &s->hungry;
    bool large = add_up(s);
    for (td_peer **at = least; *at; at = &(*at)->next_hungry)
        if ((*at)->process->held < (*least)->process->held) least = at;
    if (!large || !is_short(s, needs(*least))) return least;
    if (may_hold(s, (*least)->process, needs(*least))) return least;
    for (td_peer **at = &s->hungry; *at; at = &(*at)->next_hungry)
        if (may_hold(s, (*at)->process, needs(*at))) return at;
    return NULL;
}

/* One at a time: what it takes is counted in its turn. */
static void feed(td_server *s)
{
    td_peer **at = s->hungry ? next_fed(s) : NULL, *p = at ? *at : NULL;
    if (!p) return;
    leave(s, at);
    grow(p);
    p->came = true;
    td_peer_make_ready(p);
}

/* ---- who is in the way of others */

/* What it has of large frames stands behind something that does not end. */
static bool stands_behind(const td_peer *p, uint64_t now)
{
    return p->behind_since_ms && now - p->behind_since_ms > STILL_MS && holds(p) > 4 * TD_READ_CHUNK;
}

static void note_behind(td_peer *p, uint64_t now)
{
    uint64_t at = 0;
    bool stands = p->session && td_session_stands(p->session, &at);
    if (!stands) p->behind_since_ms = 0;
    else if (!p->behind_since_ms || at != p->behind_at) p->behind_since_ms = now;
    p->behind_at = at;
}

/* It has a part of a large frame, or answers that nobody reads, and does not move. */
static bool stands_still(const td_peer *p, uint64_t now)
{
    uint64_t came = td_reader_buffered(&p->reader), since = now - p->began_ms;
    bool part = p->reader.capacity > TD_READ_CHUNK && p->wants && !td_reader_ready(&p->reader);
    if (part && (now - p->moved_ms > STILL_MS || since > STILL_MS + came * 1000 / SLOWEST)) return true;
    return p->full && now - p->moved_ms > STILL_MS;
}

static td_peer *worst(td_server *s)
{
    td_peer *found = NULL;
    uint64_t now = td_clock_ms();
    add_up(s);
    for (td_peer *p = s->peers; p; p = p->next) {
        if (!stands_still(p, now) && !stands_behind(p, now)) continue;
        if (!found || p->process->held > found->process->held ||
            (p->process == found->process && holds(p) > holds(found)))
            found = p;
    }
    return found;
}

/* What it holds, why that is in the way, and what to do. */
static void end(td_peer *p)
{
    enum { PART, UNREAD_ANSWERS, BEHIND };
    static const struct {
        const char *op, *with, *advice;
    } all[] = {[PART] = {"send", "a frame whose rest has not come", "send it at once"},
               [UNREAD_ANSWERS] = {"reply", "answers that it has not read", "read what was asked for"},
               [BEHIND] = {"send", "what it sent behind a program that runs, or behind a wait for others,",
                           "send large things when that has ended"}};
    int how = !stands_still(p, td_clock_ms()) ? BEHIND : p->full ? UNREAD_ANSWERS : PART;
    const td_account *a = all_of(p->server);
    td_error why = {0};
    snprintf(why.op, sizeof why.op, "%s", all[how].op);
    td_fail(
        &why, TD_E_MEMORY,
        "the daemon has %.1f MB of %.1f MB for connections in use (--own-memory), and this one holds %.1f MB with %s "
        "for %d s; connect again, and %s",
        (double)a->wire / 1e6, (double)a->limit_wire / 1e6, (double)holds(p) / 1e6, all[how].with, STILL_MS / 1000,
        all[how].advice);
    td_peer_end_with(p, &why);
}

/* Nobody uses these now; they are made again when something comes. */
static void rest_all(td_server *s)
{
    for (td_peer *p = s->peers; p; p = p->next) {
        td_reader_rest(&p->reader);
        td_writer_rest(&p->writer);
        td_intake_count(p);
    }
}

static void look_again(void *server)
{
    td_server *s = server;
    const td_account *a = all_of(s);
    uint64_t now = td_clock_ms(), waits = s->hungry ? now - s->hungry->hungry_since_ms : 0;
    bool refused = now - s->refused_last_ms <= STILL_MS; /* and again, for so long: */
    if (refused && now - s->refused_since_ms > waits) waits = now - s->refused_since_ms;
    if (is_short(s, 0)) rest_all(s);
    for (td_peer *p = s->peers; p; p = p->next) note_behind(p, now);
    td_peer *p = a->wire > a->limit_wire || waits > STILL_MS ? worst(s) : NULL;
    if (p) end(p);
    feed(s);
    if (s->hungry || refused || is_short(s, 0)) look_later(s);
}

void td_intake_look(td_server *s)
{
    uint64_t wire = all_of(s)->wire;
    if (wire == s->wire) return;
    s->wire = wire;
    bound_unread(s);
    feed(s);
    if (s->hungry || is_short(s, 0)) look_later(s);
}
