/* Clients in programs with an event loop: one descriptor to poll, and a call that works off what is there.
 *
 * The descriptor is an epoll over the connection's socket and a timer. The timer goes off at the first deadline, and at
 * once when a request is over that another thread heard of. With a ring the socket is the bell: the loop counts as
 * asleep at all times but while somebody reads, so whoever has read says so anew (td_loop_listen), and looks once more.
 *
 * Whoever waits in a call reads for the loop too, as it does for other threads. */
#include "client/wire/internal.h"
#include "client/wire/request.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    READS = 16,   /* of a dispatch, so that a busy daemon leaves the program's other descriptors their turn */
    LITTLE = 4096 /* bytes: a socket that gave no more has no more, or the descriptor stays readable */
};

/* ---- the timer --------------------------------------------------------------------------------------------------- */

static void set_timer(td_loop *l, int64_t at)
{
    struct itimerspec t = {0};
    l->alarm = at;
    if (at != INT64_MAX) t.it_value = (struct timespec){at / 1000, at % 1000 * 1000000 + 1}; /* 0 would be never */
    timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

void td_loop_wake(td_client *c)
{
    if (c->loop.on && c->loop.alarm > 0 && !c->loop.awake) set_timer(&c->loop, 0);
}

void td_loop_alarm(td_client *c, int64_t at)
{
    if (at < c->loop.soonest) c->loop.soonest = at;
    if (c->loop.on && at < c->loop.alarm) set_timer(&c->loop, at);
}

/* ---- the descriptor ---------------------------------------------------------------------------------------------- */

static int watch(td_client *c, int how)
{
    struct epoll_event want = {.events = EPOLLIN | (c->loop.writes ? (uint32_t)EPOLLOUT : 0)};
    return c->socket < 0 ? 0 : epoll_ctl(c->loop.fd, how, c->socket, &want);
}

static void close_both(td_loop *l)
{
    if (l->fd >= 0) close(l->fd);
    if (l->timer >= 0) close(l->timer);
    l->fd = l->timer = -1;
    l->on = false;
}

static bool open_both(td_client *c)
{
    td_loop *l = &c->loop;
    struct epoll_event want = {.events = EPOLLIN};
    l->fd = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    l->writes = false;
    l->on = l->fd >= 0 && l->timer >= 0 && !epoll_ctl(l->fd, EPOLL_CTL_ADD, l->timer, &want) &&
            (c->lost || !watch(c, EPOLL_CTL_ADD));
    if (!l->on) {
        int err = errno;
        close_both(l);
        errno = err;
        return false;
    }
    set_timer(l, l->over.n ? 0 : l->soonest);
    return true;
}

void td_loop_listen(td_client *c)
{
    if (!c->loop.on || !c->in.reader.ring || c->threads.reading) return; /* who reads does it at the end */
    td_ring_sleep(&c->link.ring);
    if (td_ring_readable(&c->link.ring)) td_loop_wake(c);
}

void td_loop_writes(td_client *c)
{
    bool writes = td_writer_pending(&c->out.writer) && td_writer_on_socket(&c->out.writer);
    if (!c->loop.on || c->lost || writes == c->loop.writes) return;
    c->loop.writes = writes;
    watch(c, EPOLL_CTL_MOD);
}

void td_loop_lost(td_client *c)
{
    if (c->loop.on && c->socket >= 0) epoll_ctl(c->loop.fd, EPOLL_CTL_DEL, c->socket, NULL);
    td_requests_fail(c, &c->why);
    td_loop_wake(c);
}

void td_loop_deinit(td_client *c)
{
    if (c->loop.on) close_both(&c->loop);
}

/* The two are still the parent's: the child gets its own, under the numbers that the program knows. */
void td_loop_forked(td_client *c, bool connected)
{
    td_loop was = c->loop;
    c->loop.inherited = !connected && was.on;
    c->loop.on = false;
    if (!connected || !was.inherited) return;
    bool good =
        open_both(c) && dup3(c->loop.fd, was.fd, O_CLOEXEC) >= 0 && dup3(c->loop.timer, was.timer, O_CLOEXEC) >= 0;
    close_both(&c->loop);
    c->loop.fd = was.fd;
    c->loop.timer = was.timer;
    c->loop.on = good;
    if (!good) close_both(&c->loop);
    td_loop_listen(c);
}

TD_API int td_client_fd(td_client *c)
{
    if (td_enter(c, "client_fd")) return -1;
    bool on = c->loop.on || open_both(c);
    if (!on) td_raise(TD_E_SYSTEM, "client_fd", "cannot make a descriptor to poll: %s", strerror(errno));
    td_loop_listen(c);
    if (on) td_loop_writes(c);
    int fd = on ? c->loop.fd : -1;
    td_leave(c);
    return fd;
}

/* ---- dispatch ---------------------------------------------------------------------------------------------------- */

/* True: there may be more. */
static bool read_what_is_there(td_client *c)
{
    for (int i = 0; i < READS; i++) {
        if (c->threads.reading || c->lost) return false;
        long n = td_read_some(c);
        if (n <= 0 || (n < LITTLE && !c->in.reader.ring && c->loop.on)) return false;
    }
    return true;
}

TD_API int td_client_dispatch(td_client *c)
{
    if (!c) return td_raise(TD_E_INVALID, "client_dispatch", "the client is NULL");
    if (!td_fork_intact()) return td_enter(c, "client_dispatch");
    td_lock(c);
    if (c->loop.on && c->loop.alarm <= td_now_ms()) set_timer(&c->loop, INT64_MAX);
    c->loop.awake = true; /* what is over now is told below */
    bool more = read_what_is_there(c);
    td_push_asked(c);
    td_requests_expire(c, td_now_ms());
    c->loop.awake = false;
    td_requests_tell(c);
    if (more || c->loop.over.n) td_loop_wake(c);
    else if (c->loop.soonest != INT64_MAX) td_loop_alarm(c, c->loop.soonest);
    int rc = c->lost ? td_raise(c->lost, "client_dispatch", "%s", c->why.message) : TD_OK;
    td_unlock(c);
    return rc;
}
