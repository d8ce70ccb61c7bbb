/* Peers: one connection each, from accept to the last byte.
 *
 * A frame goes in whole when the session is idle. Reading stops while the session is suspended or its replies are not
 * read, so that a peer can never make the daemon hold more than its buffers. What was sent before the end of the
 * connection is still worked off. */
#include "daemon/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wire/wire.pb-c.h"

/* ---- readiness */

void td_peer_make_ready(td_peer *p)
{
    if (p->ready || p->closing) return;
    td_turns_add(&p->server->turns, p);
}

void td_peer_wrote(td_peer *p)
{
    if (p->dirty || p->closing) return;
    p->dirty = true;
    p->next_dirty = p->server->dirty;
    p->server->dirty = p;
}

static void wrote(void *arg)
{
    td_peer_wrote(arg);
}

static void resume(void *arg)
{
    td_peer *p = arg;
    p->server->resumed = true;
    td_peer_make_ready(p);
}

/* A descriptor may come in: only while an announced import is on its way. */
static void admit(void *arg, bool on)
{
    td_peer *p = arg;
    int value = on;
    if (on) p->suspect = true;
    p->reader.take_descriptors = on;
    setsockopt(p->fd, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof value);
}

static void use_ring(void *arg, td_ring_memory *m)
{
    td_peer_use_ring(arg, m);
}

static bool inherit(void *arg, td_heap *into)
{
    return td_watch_inherit(((td_peer *)arg)->watch, into);
}

/* Of a private daemon the programs themselves are told all this, at whose terminal its log would come out. */
static td_log_level level_of(const td_server *s)
{
    return s->options.is_private ? TD_LOG_INFO : TD_LOG_WARN;
}

/* So many a second: who goes on asking, or being killed, would fill the log. False: it is only counted. */
static bool may_tell(td_seldom *k, uint32_t most)
{
    uint64_t now = td_clock_ms();
    if (now - k->since_ms >= 1000) *k = (td_seldom){.since_ms = now, .untold = k->untold};
    if (k->told == most) {
        k->untold++;
        return false;
    }
    k->told++;
    return true;
}

static void told(const td_server *s, td_seldom *k, const char *what)
{
    if (k->untold) td_log(level_of(s), "%u more %s before that", k->untold, what);
    k->untold = 0;
}

static void refused(void *arg, const td_error *why)
{
    const td_peer *p = arg;
    td_server *s = p->server;
    if (!may_tell(&s->refusals, 1)) return;
    td_log(level_of(s), "refused memory to %s (pid %u): %s%s%s",
           p->session ? td_session_program(p->session) : "a client", p->id.pid, why->where, why->where[0] ? ": " : "",
           why->message);
    told(s, &s->refusals, "were refused memory");
}

static int stopper(void *arg, td_error *e)
{
    return td_stopper_new(arg, e);
}

static bool room(void *arg, uint64_t bytes)
{
    return td_intake_room(arg, bytes);
}

static void tell_killed(const td_peer *p)
{
    enum { MOST = 8 }; /* all workers of one program, as a rule */
    td_server *s = p->server;
    char text[TD_NAME_MAX + 256];
    if (!p->session || s->draining || !td_session_was_at(p->session, text, sizeof text)) return;
    if (!may_tell(&s->killed, MOST)) return;
    td_log(level_of(s), "%s (pid %u) has gone without a word, as if killed: %s", td_session_program(p->session),
           p->id.pid, text);
    told(s, &s->killed, "have gone without a word");
}

static void poll_event(uv_poll_t *h, int status, int events);

/* Arm the poll for just what matters now; costs system calls only on a change. Readiness that is not wanted is left
 * armed until it is reported for the first time: most who wait for something send nothing meanwhile. Who will look when
 * its turn comes is not told again before: of five hundred that wait, each would be reported in every round. */
static void arm(td_peer *p, bool drop_unwanted)
{
    if (p->closing) return;
    bool ring = p->reader.ring;
    bool will_look = p->ready && p->came;
    int want = p->eof || p->broken ? 0 : UV_DISCONNECT | ((p->wants && !will_look) || ring ? UV_READABLE : 0);
    if (p->full && !p->broken && td_writer_wants_socket(&p->writer)) want |= UV_WRITABLE;
    if (want && !drop_unwanted) want |= p->events & UV_READABLE;
    if (want == p->events) return;
    p->events = want;
    if (want) uv_poll_start(&p->poll, want, poll_event);
    else uv_poll_stop(&p->poll);
}

/* ---- the end */

static void poll_closed(uv_handle_t *h)
{
    td_peer *p = h->data;
    if (p->suspect) td_aside_close(p->server, p->fd);
    else close(p->fd);
    td_reader_deinit(&p->reader);
    td_writer_deinit(&p->writer);
    td_turns_leave(&p->server->turns, p->process);
    td_watch_unref(p->watch);
    free(p);
}

static void unlink_ready(td_peer *p)
{
    td_server *s = p->server;
    if (p->ready) td_turns_remove(&s->turns, p);
    if (p->dirty)
        for (td_peer **at = &s->dirty; *at; at = &(*at)->next_dirty)
            if (*at == p) {
                *at = p->next_dirty;
                break;
            }
    p->dirty = false;
    td_peer_forget_ring(p);
    td_intake_forget(p);
    td_stopper_end(p);
}

void td_peer_close(td_peer *p)
{
    if (p->closing) return;
    unlink_ready(p);
    p->closing = true;
    td_server *s = p->server;
    if (!p->dismissed) tell_killed(p);
    td_lap_is(s->service.laps, "end");
    td_server_note_bytes(s);
    td_intake_pay_by(p, NULL);
    if (p->session) td_watch_keep(p->watch, td_session_end(p->session, td_watch_alive(p->watch)));
    p->session = NULL;
    if (p->prev) p->prev->next = p->next;
    else s->peers = p->next;
    if (p->next) p->next->prev = p->prev;
    if (s->ended_at == p) s->ended_at = p->next;
    s->npeers--;
    s->came_and_went++;
    td_log(TD_LOG_DEBUG, "pid %u is gone; %u peers left", p->id.pid, s->npeers);
    uv_close((uv_handle_t *)&p->poll, poll_closed);
}

/* The last frame of a connection: why it ends, as far as the socket takes it. */
static void say_why(td_writer *to, int fd, const td_error *why)
{
    Td__Wire__Event event;
    Td__Wire__Error w;
    td__wire__event__init(&event);
    td__wire__error__init(&w);
    w.code = (uint32_t)why->code;
    w.op = (char *)why->op;
    w.where = (char *)why->where;
    w.message = (char *)why->message;
    event.error = &w;
    size_t n = td__wire__event__get_packed_size(&event);
    uint8_t *at = td_writer_begin(to, n);
    if (!at) return;
    td__wire__event__pack(&event, at);
    td_writer_end(to, n, TD_FRAME_EVENT, -1);
    td_writer_flush(to, fd, true, NULL);
}

void td_peer_end_with(td_peer *p, const td_error *why)
{
    td_log(TD_LOG_INFO, "ending the connection of pid %u: %s", p->id.pid, why->message);
    p->dismissed = true;
    say_why(&p->writer, p->fd, why);
    td_peer_close(p);
}

/* ---- a turn */

static int take_frame(td_peer *p, td_error *e)
{
    enum { LARGE = 320 << 10 };
    td_frame f;
    int got = td_reader_next(&p->reader, &f, e);
    if (got <= 0) return got;
    int rc;
    if (p->session) {
        if (f.bytes > LARGE) td_reader_detach(&p->reader, &f);
        rc = td_session_frame(p->session, &f, e);
    } else {
        td_session_io io = {.writer = &p->writer,
                            .wrote = wrote,
                            .resume = resume,
                            .admit = admit,
                            .ring = use_ring,
                            .inherit = inherit,
                            .refused = refused,
                            .stopper = stopper,
                            .room = room,
                            .share = p->process->share,
                            .arg = p};
        rc = td_session_new(&p->session, &p->server->sessions, &io, &p->id, &f, e);
        if (!rc) td_intake_pay_by(p, td_session_account(p->session));
        if (!rc) p->reader.max_frame = TD_FRAME_MAX;
    }
    if (f.fd >= 0) {
        td_aside_close(p->server, f.fd);
        if (!rc) rc = td_fail(e, TD_E_PROTOCOL, "a descriptor came with a frame that takes none");
    }
    free(f.block);
    return rc ? -1 : 1;
}

/* Whoever reads from a ring may have to ring, and on the socket that is a byte in the midst of what is not out yet. */
bool td_peer_may_read(const td_peer *p)
{
    return !p->reader.ring || p->eof || p->broken || !td_writer_on_socket(&p->writer);
}

static int fill(td_peer *p, td_error *e)
{
    if (!td_peer_may_read(p)) return 0;
    long n = td_reader_fill(&p->reader, p->fd, true, e);
    if (n == -ENOBUFS) {
        if (!td_intake_grows(p)) return 0;
        n = td_reader_fill(&p->reader, p->fd, true, e);
    }
    if (n > 0 && p->reader.capacity > TD_READ_CHUNK) p->moved_ms = td_clock_ms();
    p->came = p->eof; /* what is left is reported again */
    if (n > 0) return 1;
    if (n == -EAGAIN) return 0;
    if (n == -EPROTO) return -1;
    if (n == -ENOMEM) {
        td_no_memory(e, "to read what the client sends");
        return -1;
    }
    p->eof = true; /* end of file, or reset: what was received before is still worked off */
    return 0;
}

/* Work until the turn is over. TD_RUN_IDLE: everything received is done. */
static td_run work(td_peer *p, uint64_t *until_ns, td_error *e)
{
    int turn = TD_TURN_RECORDS;
    for (;;) {
        td_run r = p->session ? td_session_run_until(p->session, turn, until_ns, e) : TD_RUN_IDLE;
        if (r != TD_RUN_IDLE) return r;
        if (td_writer_pending(&p->writer) > p->server->sessions.max_unread) return TD_RUN_STALLED;
        if (turn <= 0) return td_reader_ready(&p->reader) ? TD_RUN_MORE : TD_RUN_IDLE;
        turn -= TD_TURN_RECORDS / 4; /* a frame costs as much as some records */
        int got = take_frame(p, e);
        if (got < 0) return TD_RUN_FATAL;
        if (got == 0) return TD_RUN_IDLE;
    }
}

void td_peer_turn(td_peer *p)
{
    td_error e = {0};
    p->server->service.turns++;
    if (p->stopper) td_stopper_turn(p->stopper);
    uint64_t until_ns = 0;
    td_run r = work(p, &until_ns, &e);
    bool filled = false;
    if (r == TD_RUN_IDLE && (p->came || p->eof)) { /* nothing buffered: see what came, once */
        int got = fill(p, &e);
        filled = got > 0;
        if (got < 0) r = TD_RUN_FATAL;
        else if (filled) r = work(p, &until_ns, &e);
    }
    p->stalled = r == TD_RUN_STALLED;
    if (r == TD_RUN_FATAL) {
        td_peer_end_with(p, &e);
        return;
    }
    bool alone = p->eof && p->session && (td_session_waits(p->session) || td_session_forlorn(p->session));
    bool waits = p->hungry && !td_intake_in_vain(p);
    bool over = p->eof && ((r == TD_RUN_IDLE && !filled && !waits) || alone || (p->stalled && !p->broken));
    if (over) {
        td_peer_close(p);
        return;
    }
    if (r == TD_RUN_MORE || (r == TD_RUN_IDLE && p->eof && !p->hungry)) td_peer_make_ready(p);
    p->wants = r == TD_RUN_IDLE && !p->hungry;
    td_intake_count(p);
    if (p->reader.ring) td_peer_watch_ring(p);
    arm(p, false);
}

/* A peer that does not read would gather descriptors in flight, which count against everybody: one at a time. */
static bool descriptor_in_flight(td_peer *p)
{
    int unread = 0;
    if (!p->sent_fds || !p->writer.nfds) return false;
    if (ioctl(p->fd, SIOCOUTQ, &unread) == 0 && unread > 0) return true;
    p->sent_fds = 0;
    return false;
}

/* What comes before the next descriptor goes out in any case: the frame of the last one may be in it, and before that
 * is there the peer reads no further. */
void td_peer_flush(td_peer *p)
{
    p->dirty = false;
    if (p->closing) return;
    bool might = td_peer_may_read(p), held = descriptor_in_flight(p);
    size_t pending = td_writer_pending(&p->writer);
    int rc = td_writer_flush_some(&p->writer, p->fd, !held, &p->sent_fds);
    if (rc < 0) {
        p->broken = p->eof = true; /* nobody reads; what was sent before may still matter to others */
        td_writer_deinit(&p->writer);
        td_peer_make_ready(p);
    }
    if (rc == 1 && (!p->full || td_writer_pending(&p->writer) < pending)) p->moved_ms = td_clock_ms();
    p->full = rc == 1;
    td_intake_count(p);
    if (p->narrow) td_intake_fit_socket(p);
    p->blocked = rc == 3 && held;
    if (rc == 2 || (rc == 3 && !held)) td_peer_wrote(p);
    if (!might && td_peer_may_read(p)) {
        p->came = true;
        td_peer_make_ready(p);
    }
    if (rc == 0 && p->stalled) td_peer_make_ready(p);
    if (rc == 0 && p->reader.ring && p->wants) td_peer_answered(p);
    arm(p, false);
}

static void poll_event(uv_poll_t *h, int status, int events)
{
    td_peer *p = h->data;
    if (status < 0 || events & UV_DISCONNECT) {
        p->eof = true;
        p->events = 0; /* libuv has stopped it on an error; on a disconnect there is nothing more to learn */
        uv_poll_stop(h);
    }
    if (p->reader.ring && events & UV_READABLE) {
        td_peer_bell(p);
        if (p->closing) return;
    }
    if (events & UV_WRITABLE) wrote(p);
    if (events & UV_READABLE) {
        if (!p->reader.ring && (p->ready ? p->came : !p->wants)) arm(p, true);
        p->came = true;
    }
    if (p->wants || p->eof || events & UV_WRITABLE) td_peer_make_ready(p);
}

/* ---- the beginning */

static bool identify(int fd, td_peer_id *id)
{
    struct ucred c;
    socklen_t n = sizeof c;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) != 0) return false;
    *id = (td_peer_id){(uint32_t)c.uid, (uint32_t)c.pid};
    return true;
}

/* Within one uid, and for root. In a user namespace the overflow uid stands for everybody who has no number there. */
static bool allowed(const td_peer_id *id)
{
    if (id->uid == TD_OVERFLOW_UID && td_user_namespace()) return false;
    return id->uid == geteuid() || id->uid == 0;
}

static void refuse_with(int fd, td_error *why)
{
    td_writer w;
    snprintf(why->op, sizeof why->op, "connect");
    td_writer_init(&w);
    say_why(&w, fd, why);
    td_writer_deinit(&w);
    close(fd);
}

static void refuse(int fd, td_code code, const char *message)
{
    td_error why = {0};
    td_fail(&why, code, "%s", message);
    refuse_with(fd, &why);
}

enum { HELLO_MOST = 64 << 10 }; /* bytes of the first frame */

static void turn_away(td_peer *p, td_code code, const char *message)
{
    int fd = p->fd;
    td_intake_pay_by(p, NULL);
    td_turns_leave(&p->server->turns, p->process);
    free(p);
    refuse(fd, code, message);
}

/* Its user pays for it until it has a session. */
static bool admitted(td_peer *p)
{
    td_server *s = p->server;
    td_error why = {0};
    td_account *user = td_service_uid_account(&s->service, p->id.uid, &why);
    if (!user) {
        turn_away(p, why.code, why.message);
    } else if (!td_intake_admits(s, p->process)) {
        turn_away(
            p, TD_E_QUOTA,
            "the daemon's memory for connections is used up (--own-memory), and this process, or all together, has "
            "most of it; close some connections");
        td_account_unref(user);
        user = NULL;
    }
    if (user) td_intake_pay_by(p, user);
    td_account_unref(user);
    return user != NULL;
}

static void welcome(td_server *s, int fd)
{
    td_peer_id id;
    if (!identify(fd, &id)) {
        close(fd);
        return;
    }
    if (!allowed(&id)) {
        td_log(TD_LOG_WARN, "refused a connection of uid %u (pid %u)", id.uid, id.pid);
        refuse(fd, TD_E_PERMISSION, "this tensord serves another user; start your own");
        return;
    }
    td_peer *p = s->npeers < TD_MAX_PEERS ? calloc(1, sizeof *p) : NULL;
    td_process *process = p ? td_turns_join(&s->turns, &id) : NULL;
    if (!process) {
        free(p);
        refuse(fd, TD_E_BUSY, "too many connections; close some");
        return;
    }
    *p = (td_peer){.server = s, .fd = fd, .id = id, .next = s->peers, .process = process};
    if (!admitted(p)) return;
    td_reader_init(&p->reader, false);
    p->reader.max_frame = HELLO_MOST;
    p->reader.most = TD_READ_CHUNK;
    p->reader.discard = td_aside_close;
    p->reader.discard_arg = s;
    td_writer_init(&p->writer);
    int off = 0;
    p->suspect =
        setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off) != 0; /* refused by the kernel, if it can */
    p->poll.data = p;
    if (uv_poll_init(&s->loop, &p->poll, fd) != 0) {
        turn_away(p, TD_E_SYSTEM, "the daemon cannot watch one more socket");
        return;
    }
    p->watch = td_watch_ref(s, fd, id.pid);
    if (p->next) p->next->prev = p;
    s->peers = p;
    s->npeers++;
    s->had_client = true;
    p->wants = true;
    td_intake_count(p);
    td_intake_fit_socket(p);
    arm(p, true);
    td_log(TD_LOG_DEBUG, "pid %u connected; %u peers", id.pid, s->npeers);
}

/* Out of descriptors: free the spare one, accept with it, and refuse, so that nobody waits for nothing. */
static bool refuse_one(td_server *s)
{
    if (s->spare_fd < 0) return false;
    close(s->spare_fd);
    int fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    td_error why = {0};
    td_no_descriptors(&why);
    if (fd >= 0) refuse_with(fd, &why);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    s->refused++;
    return fd >= 0;
}

void td_peer_accept(td_server *s)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) welcome(s, fd);
        else if ((errno == EMFILE || errno == ENFILE) && (td_sessions_shed(&s->sessions) || refuse_one(s))) continue;
        else if (errno != ECONNABORTED && errno != EINTR) break;
    }
}
