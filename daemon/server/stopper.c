/* Stoppers: a second socket of a connection, by which its client ends calls of programs.
 *
 * A run holds up its session's stream, and frames that stand behind it may fill the daemon's buffer, the socket and the
 * ring. The stopper lies beside all that, so a Stop arrives at once. It is a socket pair that the daemon makes: its
 * other end is that client's alone, so a Stop need not say which session it is for. The daemon only reads it, some
 * Stops at once, and no more before its connection has had a turn: who says Stop without end has no more of the loop
 * than others. Invariant: it goes with its connection, or before that when the client closes its end. */
#include "daemon/server/server.h"
#include "proto/wire/wire.pb-c.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STOP_MOST = 64 /* bytes of a frame */, AT_ONCE = 128 };

struct td_stopper {
    td_server *server;
    td_peer *peer;
    int fd;
    bool suspect; /* as its peer's socket may be */
    bool rests;   /* until its peer's turn */
    uv_poll_t poll;
    td_reader reader;
};

static void closed(uv_handle_t *h)
{
    td_stopper *x = h->data;
    if (x->suspect) td_aside_close(x->server, x->fd);
    else close(x->fd);
    td_reader_deinit(&x->reader);
    free(x);
}

void td_stopper_end(td_peer *p)
{
    if (p->stopper) uv_close((uv_handle_t *)&p->stopper->poll, closed);
    p->stopper = NULL;
}

static int take(td_stopper *x, td_error *e)
{
    td_frame f;
    int got;
    while ((got = td_reader_next(&x->reader, &f, e)) > 0) {
        Td__Wire__Stop *q = f.kind == TD_FRAME_STOP ? td__wire__stop__unpack(NULL, f.bytes, f.payload) : NULL;
        if (!q)
            return td_fail(e, TD_E_PROTOCOL, "a stopper takes nothing but Stops, and a frame of kind %u came", f.kind);
        td_session_stop(x->peer->session, q->call, q->alone);
        td__wire__stop__free_unpacked(q, NULL);
    }
    td_reader_rest(&x->reader);
    return got ? e->code : TD_OK;
}

static void rest(td_stopper *x)
{
    x->rests = true;
    uv_poll_stop(&x->poll);
    td_peer_make_ready(x->peer);
}

static void came(uv_poll_t *h, int status, int events)
{
    td_stopper *x = h->data;
    td_error e = {0};
    (void)events;
    long n = status < 0 ? 0 : td_reader_fill(&x->reader, x->fd, true, &e);
    if (n == -EPROTO || (n > 0 && take(x, &e))) td_peer_end_with(x->peer, &e);
    else if (n > 0) rest(x);
    else if (n != -EAGAIN) td_stopper_end(x->peer);
}

void td_stopper_turn(td_stopper *x)
{
    if (!x->rests) return;
    x->rests = false;
    uv_poll_start(&x->poll, UV_READABLE, came);
}

int td_stopper_new(td_peer *p, td_error *e)
{
    int ends[2], off = 0;
    td_stopper *x = calloc(1, sizeof *x);
    if (!x) return td_no_memory(e, "for a stopper"), -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        int err = errno;
        free(x);
        return err == EMFILE || err == ENFILE ? td_no_descriptors(e) : td_fail_errno(e, err, "no stopper"), -1;
    }
    *x = (td_stopper){.server = p->server, .peer = p, .fd = ends[0]};
    td_reader_init(&x->reader, false);
    x->reader.max_frame = STOP_MOST;
    x->reader.at_once = AT_ONCE;
    x->reader.discard = td_aside_close;
    x->reader.discard_arg = p->server;
    x->suspect = setsockopt(x->fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off) != 0;
    x->poll.data = x;
    if (uv_poll_init(&p->server->loop, &x->poll, x->fd)) {
        close(ends[0]), close(ends[1]);
        free(x);
        return td_fail(e, TD_E_SYSTEM, "the daemon cannot watch one more socket"), -1;
    }
    p->stopper = x;
    uv_poll_start(&x->poll, UV_READABLE, came);
    return ends[1];
}
