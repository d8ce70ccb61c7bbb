/* Framing over a Unix stream socket, both directions.
 *
 * A descriptor is sent with the first byte of its frame and never together with bytes before it, so the receiver gets
 * it no later than that byte. But what is read at once may begin with the rest of a frame and end with the first byte
 * of another (never after it: the kernel stops there). So while a part of a frame is here, two may wait. */
#include "proto/wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_FIRST = 8 << 10,  /* as long as little comes */
    READ_MOST = 128 << 10, /* at once, as of what follows: who reads has other things to do */
    FLUSH_MOST = 128 << 10,
    KEEP_BUFFER = 256 << 10,
    PAGE = 4096
};

void td_frame_put_header(uint8_t *h, uint32_t bytes, unsigned kind, unsigned descriptors)
{
    h[0] = (uint8_t)bytes;
    h[1] = (uint8_t)(bytes >> 8);
    h[2] = (uint8_t)(bytes >> 16);
    h[3] = (uint8_t)(bytes >> 24);
    h[4] = (uint8_t)kind;
    h[5] = (uint8_t)(kind >> 8);
    h[6] = (uint8_t)descriptors;
    h[7] = 0;
}

static uint32_t header_bytes(const uint8_t *h)
{
    return h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 24;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

void td_frame_done(td_frame *f)
{
    close_fd(&f->fd);
    free(f->block);
    f->block = NULL;
}

static void discard(td_reader *r, int *fd)
{
    if (*fd >= 0 && r->discard) r->discard(r->discard_arg, *fd);
    else if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void discard_received(td_reader *r)
{
    discard(r, &r->fd_received);
    discard(r, &r->fd_behind);
}

void td_reader_init(td_reader *r, bool take_descriptors)
{
    *r = (td_reader){
        .fd_received = -1, .fd_behind = -1, .max_frame = TD_FRAME_MAX, .take_descriptors = take_descriptors};
}

void td_reader_deinit(td_reader *r)
{
    free(r->buffer);
    discard_received(r);
    *r = (td_reader){.fd_received = -1, .fd_behind = -1};
}

uint32_t td_reader_buffered(const td_reader *r)
{
    return r->end - r->start;
}

/* Bytes the frame at the front takes as a whole; a header's worth when even that is not there. */
static uint64_t front_frame(const td_reader *r)
{
    if (td_reader_buffered(r) < TD_FRAME_HEADER) return TD_FRAME_HEADER;
    return (uint64_t)TD_FRAME_HEADER + header_bytes(r->buffer + r->start);
}

uint32_t td_reader_front(const td_reader *r)
{
    return td_reader_buffered(r) < TD_FRAME_HEADER ? 0 : header_bytes(r->buffer + r->start);
}

bool td_reader_ready(const td_reader *r)
{
    return td_reader_buffered(r) >= TD_FRAME_HEADER && td_reader_buffered(r) >= front_frame(r);
}

void td_reader_rest(td_reader *r)
{
    if (td_reader_buffered(r)) return;
    free(r->buffer);
    r->buffer = NULL;
    r->capacity = r->start = r->end = 0;
}

/* Who reads so takes each whole frame before the next bytes: a part of one is all that is left. */
static int make_small_room(td_reader *r)
{
    uint32_t have = td_reader_buffered(r);
    if (!r->buffer) r->buffer = malloc(r->at_once);
    if (!r->buffer) return -ENOMEM;
    memmove(r->buffer, r->buffer + r->start, have);
    r->capacity = r->at_once;
    r->start = 0;
    r->end = have;
    return 0;
}

static int make_room(td_reader *r)
{
    if (r->at_once) return make_small_room(r);
    uint32_t have = td_reader_buffered(r);
    if (have == 0) {
        r->start = r->end = 0;
        if (r->capacity > KEEP_BUFFER) td_reader_rest(r); /* one large frame does not cost its buffer for ever */
    }
    uint64_t want = front_frame(r);
    if (want > (uint64_t)r->max_frame + TD_FRAME_HEADER) want = TD_FRAME_HEADER; /* td_reader_next refuses it */
    bool rest_of_large = want > have && want > TD_READ_CHUNK;                    /* which needs no room behind it */
    bool may = !r->most || want > r->most; /* as much as it has may be had; more is asked for */
    if (want < (uint64_t)have + 4096 && !rest_of_large) want = (uint64_t)have + 4096;
    if (!may && want > r->most) want = r->most; /* what is here is no whole frame, so there is room */
    if (r->start && (r->capacity - r->end < 4096 || r->capacity - r->start < want)) {
        memmove(r->buffer, r->buffer + r->start, have);
        r->start = 0;
        r->end = have;
    }
    if (r->capacity < want || (r->filled && r->capacity < TD_READ_CHUNK)) {
        uint64_t least = r->filled || want > READ_FIRST ? TD_READ_CHUNK : READ_FIRST;
        uint64_t capacity = want < least ? least : want;
        if (r->most && capacity > r->most) {
            r->wanted = (uint32_t)capacity;
            return -ENOBUFS;
        }
        uint8_t *b = realloc(r->buffer, capacity);
        if (!b) return -ENOMEM;
        r->buffer = b;
        r->capacity = (uint32_t)capacity;
    }
    return 0;
}

/* Take the descriptors of one recvmsg: at most one, and one may be waiting for the frame of which a part is here. */
static int take_received(td_reader *r, struct msghdr *m, td_error *e)
{
    int fault = m->msg_flags & MSG_CTRUNC ? 1 : 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        int n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + (size_t)i * sizeof fd, sizeof fd);
            bool first = r->fd_received < 0, behind = !r->ring && r->fd_behind < 0 && td_reader_buffered(r) > 0;
            if (r->take_descriptors && n == 1 && first) r->fd_received = fd;
            else if (r->take_descriptors && n == 1 && behind) r->fd_behind = fd;
            else {
                discard(r, &fd);
                fault = 2;
            }
        }
    }
    if (!fault) return 0;
    discard_received(r);
    td_fail(e, TD_E_PROTOCOL,
            fault == 1 ? "a descriptor was lost on the way (too many open files?)"
                       : "descriptors arrived that no frame announced; send at most one, with an Import call");
    return -EPROTO;
}

/* Bytes from the socket, and the descriptor that comes with them. */
static long receive(td_reader *r, int socket, void *to, size_t most, bool nonblocking, td_error *e)
{
    union {
        struct cmsghdr align;
        /* Before a descriptor the kernel may say who sent it, as PassCredentials= and PassSecurity= of systemd ask. */
        char bytes[CMSG_SPACE(4 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(256)];
    } control;
    struct iovec v = {to, most};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    long n;
    do n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC | (nonblocking ? MSG_DONTWAIT : 0));
    while (n < 0 && errno == EINTR && nonblocking);
    if (n < 0) return -errno;
    if (m.msg_controllen || m.msg_flags & MSG_CTRUNC) {
        int rc = take_received(r, &m, e);
        if (rc) return rc;
    }
    return n;
}

/* One byte that wakes the other side. A socket that is full of them does as well. */
static int bell(int socket)
{
    long n;
    do n = send(socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 && errno != EAGAIN ? -errno : 0;
}

static uint32_t room(const td_reader *r)
{
    uint32_t all = r->capacity - r->end;
    return all < READ_MOST ? all : READ_MOST;
}

static long take_from_ring(td_reader *r, td_error *e)
{
    long n = td_ring_read(r->ring, r->buffer + r->end, room(r));
    if (n < 0) {
        td_fail(e, TD_E_PROTOCOL, "the ring's position is impossible");
        return -EPROTO;
    }
    if (n > 0 && td_ring_frees_writer(r->ring)) bell(r->socket); /* who cannot be told has gone: the socket will say */
    return n > 0 ? n : -EAGAIN;
}

long td_reader_fill(td_reader *r, int socket, bool nonblocking, td_error *e)
{
    int rc = make_room(r);
    if (rc) return rc;
    uint32_t most = room(r);
    long n = r->ring ? take_from_ring(r, e) : receive(r, socket, r->buffer + r->end, most, nonblocking, e);
    r->filled |= n == (long)most;
    if (n > 0) r->end += (uint32_t)n;
    return n;
}

void td_reader_use_ring(td_reader *r, td_ring *ring, int socket)
{
    r->ring = ring;
    r->socket = socket;
    r->start = r->end = 0;
}

long td_reader_bells(td_reader *r, td_error *e)
{
    uint8_t bells[256];
    return receive(r, r->socket, bells, sizeof bells, true, e);
}

/* The descriptor that a frame from the ring announces was sent before it. */
static void fetch_descriptor(td_reader *r, td_error *e)
{
    while (r->fd_received < 0 && td_reader_bells(r, e) > 0) continue;
}

int td_reader_next(td_reader *r, td_frame *f, td_error *e)
{
    *f = (td_frame){.fd = -1};
    uint32_t have = td_reader_buffered(r);
    if (have < TD_FRAME_HEADER) return 0;
    const uint8_t *h = r->buffer + r->start;
    uint32_t bytes = header_bytes(h);
    if (bytes > r->max_frame) {
        td_fail(e, TD_E_PROTOCOL, "a frame says %u bytes; the most is %u", bytes, r->max_frame);
        return -1;
    }
    if (h[6] > 1 || h[7]) {
        td_fail(e, TD_E_PROTOCOL, "a frame header has %u descriptors and reserved byte %u; at most 1 and 0 are allowed",
                h[6], h[7]);
        return -1;
    }
    if (have < TD_FRAME_HEADER + bytes) return 0;
    if (h[6] == 1 && r->ring && r->take_descriptors) fetch_descriptor(r, e);
    if (h[6] == 1 && r->fd_received < 0) {
        td_fail(e, TD_E_PROTOCOL, "a frame announces a descriptor that did not arrive");
        return -1;
    }
    *f = (td_frame){.kind = h[4] | (unsigned)h[5] << 8, .payload = h + TD_FRAME_HEADER, .bytes = bytes, .fd = -1};
    if (h[6] == 1) {
        f->fd = r->fd_received;
        r->fd_received = r->fd_behind;
        r->fd_behind = -1;
    }
    r->start += TD_FRAME_HEADER + bytes;
    return 1;
}

void td_reader_detach(td_reader *r, td_frame *f)
{
    uint32_t have = td_reader_buffered(r), capacity = have < TD_READ_CHUNK ? TD_READ_CHUNK : have;
    uint8_t *rest = malloc(capacity);
    if (!rest) return;
    memcpy(rest, r->buffer + r->start, have);
    f->block = r->buffer;
    r->buffer = rest;
    r->capacity = capacity;
    r->start = 0;
    r->end = have;
}

void td_writer_init(td_writer *w)
{
    *w = (td_writer){0};
}

void td_writer_deinit(td_writer *w)
{
    for (int i = 0; i < w->nfds; i++) close_fd(&w->fds[i].fd);
    free(w->buffer);
    *w = (td_writer){0};
}

size_t td_writer_pending(const td_writer *w)
{
    return w->end - w->start;
}

size_t td_writer_takes(const td_writer *w)
{
    return w->capacity > KEEP_BUFFER ? td_writer_pending(w) : w->capacity;
}

void td_writer_rest(td_writer *w)
{
    if (w->start < w->end) return;
    free(w->buffer);
    w->buffer = NULL;
    w->capacity = 0;
}

bool td_writer_descriptors_full(const td_writer *w)
{
    return w->nfds == (int)(sizeof w->fds / sizeof w->fds[0]);
}

uint8_t *td_writer_begin(td_writer *w, size_t bytes)
{
    size_t want = TD_FRAME_HEADER + bytes;
    if (w->capacity - w->end < want && w->start) {
        memmove(w->buffer, w->buffer + w->start, w->end - w->start);
        for (int i = 0; i < w->nfds; i++) w->fds[i].at -= w->start;
        w->ring_from -= w->ring_from < w->start ? w->ring_from : w->start;
        w->end -= w->start;
        w->start = 0;
    }
    if (w->capacity - w->end < want) {
        size_t capacity = w->capacity ? w->capacity * 2 : 4096;
        while (capacity - w->end < want) capacity *= 2;
        uint8_t *b = realloc(w->buffer, capacity);
        if (!b) return NULL;
        w->buffer = b;
        w->capacity = capacity;
    }
    return w->buffer + w->end + TD_FRAME_HEADER;
}

int td_writer_end(td_writer *w, size_t bytes, unsigned kind, int fd)
{
    if (fd >= 0 && w->nfds == (int)(sizeof w->fds / sizeof w->fds[0])) {
        close(fd);
        return TD_E_BUSY;
    }
    td_frame_put_header(w->buffer + w->end, (uint32_t)bytes, kind, fd >= 0);
    if (fd >= 0) {
        w->fds[w->nfds].at = w->end;
        w->fds[w->nfds++].fd = fd;
    }
    w->end += TD_FRAME_HEADER + bytes;
    return TD_OK;
}

/* What waits goes before the frame that lies at `at` in the block, which is the writer's from then on. */
static void move_to(td_writer *w, uint8_t *block, size_t capacity, size_t at)
{
    size_t waits = td_writer_pending(w), start = at - TD_FRAME_HEADER - waits;
    if (waits) memcpy(block + start, w->buffer + w->start, waits);
    for (int i = 0; i < w->nfds; i++) w->fds[i].at += start - w->start;
    w->ring_from = w->ring_from > w->start ? w->ring_from + start - w->start : 0;
    free(w->buffer);
    w->buffer = block;
    w->capacity = capacity;
    w->start = start;
    w->end = start + waits;
}

int td_writer_hand_over(td_writer *w, uint8_t *block, size_t capacity, size_t at, size_t bytes, unsigned kind, int fd)
{
    if (bytes > KEEP_BUFFER && td_writer_pending(w) + TD_FRAME_HEADER <= at) {
        move_to(w, block, capacity, at);
        return td_writer_end(w, bytes, kind, fd);
    }
    uint8_t *to = td_writer_begin(w, bytes);
    if (to) memcpy(to, block + at, bytes);
    free(block);
    if (to) return td_writer_end(w, bytes, kind, fd);
    close_fd(&fd);
    return TD_E_SYSTEM;
}

void td_writer_use_ring(td_writer *w, td_ring *ring)
{
    w->ring = ring;
    w->ring_from = w->end;
}

/* Everything has gone out. */
static void rewind_writer(td_writer *w)
{
    w->start = w->end = w->ring_from = 0;
}

void td_writer_flush_quietly(td_writer *w)
{
    if (td_writer_on_socket(w) || w->nfds || w->start == w->end) return;
    long put = td_ring_write(w->ring, w->buffer + w->start, w->end - w->start);
    if (put > 0) w->start += (size_t)put; /* a flush finds out about an impossible position */
    if (w->start == w->end) rewind_writer(w);
}

static bool descriptor_first(const td_writer *w)
{
    return w->nfds && w->fds[0].at == w->start;
}

/* Where the bytes end that may go out together: the next descriptor's frame, the end of what goes to the socket. */
static size_t stretch(const td_writer *w, size_t until)
{
    int next = descriptor_first(w) ? 1 : 0;
    size_t stop = next < w->nfds && w->fds[next].at < until ? w->fds[next].at : until;
    return w->ring && w->start < w->ring_from && w->ring_from < stop ? w->ring_from : stop;
}

/* The first descriptor, with these bytes. */
static long send_descriptor(td_writer *w, int socket, const void *bytes, size_t n, int flags, int *sent_fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec v = {(void *)bytes, n};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &w->fds[0].fd, sizeof(int));
    long sent = sendmsg(socket, &m, flags);
    if (sent <= 0) return sent;
    close_fd(&w->fds[0].fd);
    memmove(w->fds, w->fds + 1, (size_t)--w->nfds * sizeof w->fds[0]);
    if (sent_fds) ++*sent_fds;
    return sent;
}

/* One sendmsg: a descriptor goes with the first byte of its own frame. */
static long send_some(td_writer *w, int socket, bool nonblocking, size_t until, int *sent_fds)
{
    const uint8_t *from = w->buffer + w->start;
    size_t n = stretch(w, until) - w->start;
    long sent;
    int flags = MSG_NOSIGNAL | (nonblocking ? MSG_DONTWAIT : 0);
    do
        sent = descriptor_first(w) ? send_descriptor(w, socket, from, n, flags, sent_fds)
                                   : send(socket, from, n, flags); /* send costs less */
    while (sent < 0 && errno == EINTR && nonblocking);
    return sent < 0 ? -errno : sent;
}

/* Into the ring; its descriptor, if it has one, over the socket before. */
static long put_some(td_writer *w, int socket, size_t until, int *sent_fds)
{
    while (descriptor_first(w))
        if (send_descriptor(w, socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT, sent_fds) < 0 && errno != EINTR)
            return -errno;
    size_t n = stretch(w, until) - w->start;
    long put = td_ring_write(w->ring, w->buffer + w->start, n);
    if (put == 0) {
        td_ring_want_room(w->ring);
        put = td_ring_write(w->ring, w->buffer + w->start, n);
    }
    if (put > 0) td_ring_have_room(w->ring);
    return put < 0 ? -EPROTO : put ? put : -EAGAIN;
}

/* What has gone out of a large buffer: to free it takes no time then. */
static void forget_sent(td_writer *w, size_t since)
{
    uintptr_t first = ((uintptr_t)w->buffer + since + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t end = ((uintptr_t)w->buffer + w->start) & ~(uintptr_t)(PAGE - 1);
    if (w->capacity > KEEP_BUFFER && first < end) madvise((void *)first, end - first, MADV_DONTNEED);
}

enum { ANY_NUMBER = sizeof(((td_writer *)0)->fds) / sizeof(((td_writer *)0)->fds[0]) };

/* `may`: so many descriptors. */
static int flush(td_writer *w, int socket, bool nonblocking, size_t most, int may, int *sent_fds)
{
    bool put = false, held = false;
    long n = 0;
    size_t since = w->start, until = most < w->end - since ? since + most : w->end;
    while (w->start < until && n >= 0) {
        if ((held = descriptor_first(w) && may-- == 0)) break;
        bool ring = !td_writer_on_socket(w);
        n = ring ? put_some(w, socket, until, sent_fds) : send_some(w, socket, nonblocking, until, sent_fds);
        if (n > 0) w->start += (size_t)n;
        put |= ring && n > 0;
    }
    if (put && td_ring_frees_reader(w->ring)) {
        int rc = bell(socket);
        if (rc) return rc;
    }
    forget_sent(w, since);
    if (n < 0) return n == -EAGAIN ? 1 : (int)n;
    if (w->start < w->end) return held ? 3 : 2;
    rewind_writer(w);
    if (w->capacity > KEEP_BUFFER) td_writer_rest(w);
    return 0;
}

int td_writer_flush(td_writer *w, int socket, bool nonblocking, int *sent_fds)
{
    return flush(w, socket, nonblocking, SIZE_MAX, ANY_NUMBER, sent_fds);
}

int td_writer_flush_some(td_writer *w, int socket, bool descriptor, int *sent_fds)
{
    return flush(w, socket, true, FLUSH_MOST, descriptor, sent_fds);
}
