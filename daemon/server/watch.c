/* Watching processes end. A connection alone does not tell: a forked child may hold the socket, and closing a socket
 * unmaps nothing. One pidfd for all connections of a process; it stays while memory that the process may write is in
 * quarantine. */
#include "daemon/server/server.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

typedef struct kept {
    struct kept *next;
    td_heap *heap;
} kept;

struct td_watch {
    td_server *server;
    td_watch *next, *prev;
    td_watch *next_ended; /* of those whose end is worked off */
    uint32_t pid;
    int fd, refs;
    bool gone;
    kept *heaps;
    uv_poll_t poll;
};

static void closed(uv_handle_t *h)
{
    td_watch *w = h->data;
    if (w->fd >= 0) close(w->fd);
    free(w);
}

static void free_if_unused(td_watch *w)
{
    if (w->refs || w->heaps) return;
    if (w->prev) w->prev->next = w->next;
    else w->server->watches = w->next;
    if (w->next) w->next->prev = w->prev;
    if (w->fd >= 0 && uv_is_closing((uv_handle_t *)&w->poll)) return; /* the loop ends, and closed all at once */
    if (w->fd >= 0) uv_close((uv_handle_t *)&w->poll, closed);
    else free(w);
}

/* At most so many: how many are still allowed. */
static int release_heaps(td_watch *w, int most)
{
    for (; w->heaps && most > 0; most--) {
        kept *k = w->heaps;
        w->heaps = k->next;
        td_heap_unmapped(k->heap);
        free(k);
    }
    return most;
}

/* Its connections, and what it left, may be thousands: they are worked off in turns. */
static void process_ended(uv_poll_t *h, int status, int events)
{
    (void)status, (void)events;
    td_watch *w = h->data, **last = &w->server->ended;
    uv_poll_stop(h);
    w->gone = true;
    w->refs++; /* closing peers may drop the last reference */
    w->next_ended = NULL;
    if (!*last) w->server->ended_at = w->server->peers;
    while (*last) last = &(*last)->next_ended;
    *last = w;
}

bool td_watches_clear(td_server *s)
{
    enum { PEERS = 256, HEAPS = 16 };
    td_watch *w = s->ended;
    if (!w) return false;
    for (int n = 0; s->ended_at && n < PEERS; n++) {
        td_peer *p = s->ended_at;
        s->ended_at = p->next;
        if (p->watch != w) continue;
        if (p->session) td_session_process_ended(p->session);
        p->eof = true; /* what it sent before is still read */
        td_peer_make_ready(p);
    }
    if (s->ended_at || !release_heaps(w, HEAPS)) return true;
    s->ended = w->next_ended;
    s->ended_at = s->ended ? s->peers : NULL;
    td_watch_unref(w);
    return s->ended != NULL;
}

static int process_descriptor(int socket, uint32_t pid)
{
    int fd = -1;
    socklen_t n = sizeof fd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &n) == 0) return fd;
    return pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

td_watch *td_watch_ref(td_server *s, int socket, uint32_t pid)
{
    for (td_watch *w = s->watches; w; w = w->next)
        if (pid && w->pid == pid && !w->gone && w->fd >= 0) { /* 0: of another pid namespace; that is nobody's number */
            w->refs++;
            return w;
        }
    td_watch *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    *w = (td_watch){.server = s, .pid = pid, .refs = 1, .next = s->watches, .fd = process_descriptor(socket, pid)};
    w->poll.data = w;
    if (w->fd >= 0 && uv_poll_init(&s->loop, &w->poll, w->fd) == 0) {
        uv_poll_start(&w->poll, UV_READABLE, process_ended);
        uv_unref((uv_handle_t *)&w->poll);
    } else if (w->fd >= 0) {
        close(w->fd);
        w->fd = -1;
    }
    if (w->next) w->next->prev = w;
    s->watches = w;
    return w;
}

void td_watch_unref(td_watch *w)
{
    if (!w) return;
    w->refs--;
    free_if_unused(w);
}

bool td_watch_alive(const td_watch *w)
{
    return !w || !w->gone;
}

bool td_watch_inherit(td_watch *w, td_heap *into)
{
    uint64_t bytes = 0;
    if (!w) return false;
    for (kept **at = &w->heaps; *at;) {
        kept *k = *at;
        bytes += td_heap_hand_over(k->heap, into);
        if (td_heap_next_segment(k->heap, NULL)) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        td_heap_unmapped(k->heap);
        free(k);
    }
    return bytes != 0;
}

void td_watch_keep(td_watch *w, td_heap *heap)
{
    if (!heap) return;
    kept *k = w && w->fd >= 0 && !w->gone ? malloc(sizeof *k) : NULL;
    if (!k) {
        if (td_watch_alive(w)) td_heap_distrust(heap); /* nobody will tell when it ends */
        td_heap_unmapped(heap);
        return;
    }
    *k = (kept){w->heaps, heap};
    w->heaps = k;
}

void td_watches_deinit(td_server *s)
{
    for (td_watch *w = s->watches, *next; w; w = next) {
        next = w->next;
        release_heaps(w, INT_MAX);
        if (w->fd >= 0) close(w->fd);
        free(w);
    }
    s->watches = NULL;
}
