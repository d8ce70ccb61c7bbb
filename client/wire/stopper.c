/* The stopper: a socket beside the stream, by which calls of programs are stopped.
 *
 * A run holds up the stream, so a word in it would come too late. The daemon gives a stopper to whoever asks, and it is
 * asked for before the first call, so it is there when one has to be stopped. A daemon that has none lets runs come to
 * their end, or to their deadline. */
#include "client/wire/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 1000 };

/* One that is full will soon be read, unless the daemon is stopped itself. */
static void send_stop(const td_client *c, uint64_t serial, bool alone)
{
    uint8_t frame[TD_FRAME_HEADER + 16];
    Td__Wire__Stop q = TD__WIRE__STOP__INIT;
    q.call = serial;
    q.alone = alone;
    size_t n = td__wire__stop__pack(&q, frame + TD_FRAME_HEADER);
    td_frame_put_header(frame, (uint32_t)n, TD_FRAME_STOP, 0);
    struct pollfd room = {c->stopper.fd, POLLOUT, 0};
    for (int times = 0; times < 2; times++) {
        if (send(c->stopper.fd, frame, TD_FRAME_HEADER + n, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
            return;
        poll(&room, 1, PATIENCE_MS);
    }
}

static int take(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)w, (void)r, (void)e;
    c->stopper.fd = *fd;
    *fd = -1;
    if (c->stopper.fd >= 0 && c->stopper.wanted) send_stop(c, c->stopper.wanted, c->stopper.alone);
    c->stopper.wanted = 0;
    return TD_OK;
}

/* For want of descriptors, perhaps: the next call asks again. */
static void over(td_client *c, td_reply_wait *w, bool answered)
{
    (void)answered;
    if (w->code && w->code != TD_E_UNSUPPORTED) c->stopper.asked = false;
}

void td_want_stopper(td_client *c)
{
    td_reply_wait *w = c->stopper.asked ? NULL : calloc(1, sizeof *w);
    if (!w) return;
    Td__Wire__Stopper q = TD__WIRE__STOPPER__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    td_error told = *td_last_error();
    call.stopper = &q;
    *w = (td_reply_wait){.heap = true, .on_reply = take, .over = over};
    c->stopper.asked = !td_ask_later(c, &call, -1, w);
    if (!c->stopper.asked) free(w); /* it is not expected */
    *td_thread_error() = told;
}

void td_stop(td_client *c, uint64_t serial, bool alone)
{
    if (c->lost || !c->stopper.asked) return;
    if (c->stopper.fd >= 0) {
        send_stop(c, serial, alone);
    } else if (!c->stopper.wanted || serial < c->stopper.wanted) { /* the first that runs */
        c->stopper.wanted = serial;
        c->stopper.alone = alone;
    }
}

void td_stopper_close(td_client *c)
{
    if (c->stopper.fd >= 0) close(c->stopper.fd);
    c->stopper.asked = false;
    c->stopper.fd = -1;
    c->stopper.wanted = 0;
}
