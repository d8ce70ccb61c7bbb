/* See door.h. An epoll holds libmicrohttpd's own, the listening sockets, and each connection, for its end alone: while
 * a request is worked on its connection is suspended, and libmicrohttpd looks at it no more.
 *
 * Invariant: connections are freed inside of run_daemon() and take_connection() alone, so events of one batch are
 * worked off before either of them. */
#include "client/http/door.h"
#include "client/files/json.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    POOL = 40 * 1024,      /* of a connection: its head, its piece of a body, its answer's head */
    MOST_HEAD = 16 * 1024, /* a longer head is 431 */
    GATHERED = 16 * 1024,  /* an answer of no more bytes is copied, and goes with its head by one call */
    SLOWEST = 4 << 20,     /* for so many bytes, in or out, a stage may last the idle time longer */
    LISTENERS = 4,
    EVENTS = 64,
    ACCEPTED_AT_ONCE = 64,
    SWEEP_MS = 250
};

enum stage { AWAITED, TAKEN, WORKED_ON, SENT };

typedef struct line { /* a connection */
    struct line *before, *after;
    struct MHD_Connection *connection;
    http_exchange *x;
    http_door *door;
    enum stage stage;
    int fd;
    bool local, unix_peer, ended, shut, used;
    uint64_t since_ms, deadline_ms; /* of its stage */
} line;

struct http_exchange {
    line *line;
    char *target;
    const char *method;
    uint64_t length;
    size_t size; /* of the answer */
    void *mine;
    struct MHD_Response *response;
    int status;
    bool told, whole, suspended, answered, queued, gone;
    bool held; /* its handler takes no more of the body now */
};

typedef struct listener {
    int fd;
    bool local, unix_socket;
} listener;

struct http_door {
    struct MHD_Daemon *daemon;
    http_handler handler;
    http_limits limits;
    http_counts counts;
    listener listeners[LISTENERS];
    int nlisteners, epoll;
    line *first;                   /* of all connections */
    const listener *taking;        /* whose connection is being added */
    uint64_t swept_ms, starved_ms; /* until then nobody is taken: there is no descriptor */
    bool due;                      /* the daemon is to be run whatever epoll says */
    bool full;                     /* nobody is taken */
};

/* The next stage, in which so many bytes come or go. */
static void set_stage(line *l, enum stage stage, uint64_t bytes)
{
    uint64_t idle = (uint64_t)l->door->limits.idle_s * 1000;
    l->stage = stage;
    l->since_ms = td_clock_ms();
    if (stage == WORKED_ON) l->deadline_ms = UINT64_MAX;
    else
        l->deadline_ms =
            l->since_ms + (stage == AWAITED && !l->used ? idle / 2 : idle) + bytes / 1024 * idle / (SLOWEST / 1024);
}

static void end_request(http_exchange *x);

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    http_door *d = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        line *l = calloc(1, sizeof *l);
        *socket_context = l;
        if (!l) return; /* its first request is refused */
        *l = (line){.after = d->first, .connection = connection, .door = d};
        l->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        l->local = d->taking && d->taking->local, l->unix_peer = d->taking && d->taking->unix_socket;
        if (d->first) d->first->before = l;
        d->first = l;
        d->counts.connections++, d->counts.accepted++;
        set_stage(l, AWAITED, 0);
        struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = l};
        if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, l->fd, &ev)) l->ended = true; /* its end would not be seen */
        return;
    }
    line *l = *socket_context;
    if (!l) return;
    if (l->x) end_request(l->x);
    epoll_ctl(d->epoll, EPOLL_CTL_DEL, l->fd, NULL);
    if (l->before) l->before->after = l->after;
    else d->first = l->after;
    if (l->after) l->after->before = l->before;
    d->counts.connections--;
    free(l);
}

static void resume(http_exchange *x)
{
    if (!x->suspended) return;
    x->suspended = false;
    MHD_resume_connection(x->line->connection);
    x->line->door->due = true;
}

/* libmicrohttpd watches edges, and takes no second look at a socket that gave less than it asked for: an end that came
 * together with the last bytes would not be seen. A connection that was suspended is looked at anew. (One that is must
 * not be suspended once more: its lists would break.)
 */
static void look_again(line *l)
{
    if (l->stage == WORKED_ON) return;
    if (l->x && l->x->suspended) {
        resume(l->x);
        return;
    }
    MHD_suspend_connection(l->connection);
    MHD_resume_connection(l->connection);
    l->door->due = true;
}

/* It has no call that ends a connection; it sees that the socket has ended. */
static void shut(line *l)
{
    if (!l->shut) shutdown(l->fd, SHUT_RDWR);
    l->shut = true;
    look_again(l);
}

static void give_up(http_exchange *x)
{
    http_door *d = x->line->door;
    if (x->gone || x->answered || !x->whole) return;
    x->gone = true;
    d->handler.gone(d->handler.context, x);
    if (!x->answered) resume(x);
}

static void sweep(http_door *d)
{
    uint64_t now = td_clock_ms();
    if (now - d->swept_ms < SWEEP_MS) return;
    d->swept_ms = now;
    for (line *l = d->first; l; l = l->after) {
        if (l->shut || now < l->deadline_ms) continue;
        if (l->stage != AWAITED || !l->used) d->counts.closed_slow++;
        shut(l);
    }
}

/* One that is ending makes room, too. */
static bool make_room(http_door *d)
{
    line *oldest = NULL;
    for (line *l = d->first; l; l = l->after) {
        if (l->shut) return true;
        if (l->stage == AWAITED && (!oldest || l->since_ms <= oldest->since_ms)) oldest = l;
    }
    if (!oldest) return false;
    d->counts.closed_for_room++;
    shut(oldest);
    return true;
}

/* 0, or an errno. */
static int take_connection(http_door *d, const listener *l)
{
    struct sockaddr_storage from = {0};
    socklen_t n = sizeof from;
    int fd = accept4(l->fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return errno;
    int on = 1;
    if (!l->unix_socket) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    d->taking = l;
    MHD_add_connection(d->daemon, fd, (struct sockaddr *)&from, n); /* closes it when it fails */
    d->taking = NULL;
    d->due = true;
    return 0;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static struct MHD_Response *gather(const http_reply *r, size_t bytes)
{
    char *all = malloc(bytes + 1), *to = all;
    if (!all) return NULL;
    for (unsigned i = 0; i < r->nparts; i++) {
        if (r->parts[i].iov_len) memcpy(to, r->parts[i].iov_base, r->parts[i].iov_len);
        to += r->parts[i].iov_len;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, all, MHD_RESPMEM_MUST_FREE);
    if (!response) free(all);
    return response;
}

static struct MHD_Response *respond(const http_reply *r, size_t *bytes)
{
    *bytes = 0;
    for (unsigned i = 0; i < r->nparts; i++) *bytes += r->parts[i].iov_len;
    struct MHD_Response *response = NULL;
    if (*bytes > GATHERED)
        response = MHD_create_response_from_iovec((const struct MHD_IoVec *)r->parts, r->nparts, r->let_go, r->owner);
    else response = gather(r, *bytes);
    if ((!response || *bytes <= GATHERED) && r->let_go) r->let_go(r->owner);
    if (!response) return NULL;
    char size[24];
    snprintf(size, sizeof size, "%llu", (unsigned long long)r->json_size);
    MHD_add_response_header(response, "Content-Type", r->type ? r->type : "application/json");
    if (r->json_size) MHD_add_response_header(response, "Inference-Header-Content-Length", size);
    return response;
}

void http_answer(http_exchange *x, const http_reply *r)
{
    _Static_assert(sizeof(struct iovec) == sizeof(struct MHD_IoVec), "one is the other");
    http_counts *counts = &x->line->door->counts;
    if (x->answered) {
        if (r->let_go) r->let_go(r->owner);
        return;
    }
    x->response = respond(r, &x->size);
    x->status = r->status;
    x->answered = true;
    counts->bytes_out += x->size;
    counts->refused += r->status >= 400 && r->status < 500, counts->failed += r->status >= 500;
    resume(x);
}

void http_go_on(http_exchange *x)
{
    x->held = false;
    resume(x);
}

void http_refuse(http_exchange *x, int status, const char *format, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    td_bytes b = {0};
    td_error e;
    size_t n = strlen(text);
    while (n && !td_is_utf8((const unsigned char *)text, (uint32_t)n)) n--; /* a name may be cut, or be none */
    int rc = td_bytes_put(&b, "{\"error\":", 9, "an answer", &e);
    if (!rc) rc = td_json_put_text(&b, text, n, &e);
    if (!rc) rc = td_bytes_put(&b, "}", 1, "an answer", &e);
    struct iovec part = {rc ? NULL : b.at, rc ? 0 : b.n};
    http_answer(x, &(http_reply){.status = status, .parts = &part, .nparts = !rc});
    free(b.at); /* it was short enough to be copied */
}

bool http_answered(const http_exchange *x)
{
    return x->answered;
}

static enum MHD_Result send_answer(http_exchange *x)
{
    struct MHD_Response *response = x->response;
    if (!response || x->queued) return MHD_NO;
    x->queued = true;
    set_stage(x->line, SENT, x->size);
    x->response = NULL;
    if (x->status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    enum MHD_Result queued = MHD_queue_response(x->line->connection, (unsigned)x->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

typedef struct head_look {
    size_t bytes;
    int lengths, encodings;
} head_look;

static enum MHD_Result look_at_header(void *context, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    head_look *h = context;
    h->bytes += strlen(key) + (value ? strlen(value) : 0) + 4;
    h->lengths += strcasecmp(key, "Content-Length") == 0;
    h->encodings += strcasecmp(key, "Transfer-Encoding") == 0;
    return MHD_YES;
}

static bool is_digits(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* Heads that no handler needs to see are refused here. */
static void check_head(http_exchange *x)
{
    const http_limits *limits = &x->line->door->limits;
    head_look h = {.bytes = strlen(x->target) + strlen(x->method) + 12};
    MHD_get_connection_values(x->line->connection, MHD_HEADER_KIND, look_at_header, &h);
    const char *length = http_header(x, "Content-Length");
    if (h.bytes > MOST_HEAD)
        http_refuse(x, 431, "the head of the request has %zu bytes, more than %d", h.bytes, MOST_HEAD);
    else if (h.encodings && h.lengths) http_refuse(x, 400, "a request has either Content-Length or Transfer-Encoding");
    else if (h.encodings) http_refuse(x, 411, "a body needs a Content-Length: chunks are not taken");
    else if (h.lengths > 1) http_refuse(x, 400, "Content-Length stands there %d times", h.lengths);
    else if (length && (!is_digits(length) || strlen(length) > 18))
        http_refuse(x, 400, "Content-Length is not a number: %.40s", length);
    else if (length) {
        x->length = strtoull(length, NULL, 10);
        if (x->length > limits->body)
            http_refuse(x, 413, "the body has %llu bytes, more than the %llu that are taken",
                        (unsigned long long)x->length, (unsigned long long)limits->body);
    }
}

/* An early answer ends the connection unless the body is read, and a peer that is still sending would miss it: so a
 * body that may be as long as it is gets thrown away first, but of who waits for a word whether to send it. */
static bool answers_now(const http_exchange *x)
{
    return x->status == 413 || x->status == 411 || x->status == 431 || x->length == 0 || http_header(x, "Expect");
}

static enum MHD_Result begin(http_exchange *x, const char *method)
{
    line *l = x->line;
    http_door *d = l->door;
    x->method = method;
    x->told = l->used = true;
    d->counts.requests++, d->counts.under_way++;
    check_head(x);
    if (!x->answered) d->handler.head(d->handler.context, x);
    set_stage(l, TAKEN, x->length);
    return x->answered && answers_now(x) ? send_answer(x) : MHD_YES;
}

static enum MHD_Result end(http_exchange *x)
{
    http_door *d = x->line->door;
    if (x->gone) return MHD_NO;
    if (x->answered) return send_answer(x);
    if (x->whole) return MHD_NO; /* resumed, for no answer */
    x->whole = true;
    set_stage(x->line, WORKED_ON, 0);
    if (x->line->ended) give_up(x);
    else d->handler.whole(d->handler.context, x);
    if (x->answered) return send_answer(x);
    if (x->gone) return MHD_NO;
    x->suspended = true;
    MHD_suspend_connection(x->line->connection);
    return MHD_YES;
}

/* The body stays in the socket. Somebody may have looked at the connection meanwhile, which resumes it. */
static enum MHD_Result hold(http_exchange *x)
{
    if (x->gone || x->line->ended || x->line->shut) return MHD_NO;
    x->held = x->suspended = true;
    MHD_suspend_connection(x->line->connection);
    return MHD_YES;
}

static enum MHD_Result on_access(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *bytes, size_t *n, void **request)
{
    (void)connection, (void)url, (void)version;
    http_door *d = context;
    http_exchange *x = *request;
    if (!x) return MHD_NO; /* no memory for it */
    if (!x->told) return begin(x, method);
    if (!*n) return end(x);
    size_t taken = x->held ? 0 : x->answered ? *n : d->handler.body(d->handler.context, x, bytes, *n);
    if (x->answered) taken = *n;
    d->counts.bytes_in += taken;
    *n -= taken;
    return *n ? hold(x) : MHD_YES;
}

static void *on_target(void *context, const char *target, struct MHD_Connection *connection)
{
    (void)context;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    line *l = info ? info->socket_context : NULL;
    http_exchange *x = l ? calloc(1, sizeof *x) : NULL;
    if (!x || !(x->target = strdup(target))) return free(x), NULL;
    x->line = l;
    return l->x = x;
}

/* A request that was told of or not; its head may never have come to its end. */
static void end_request(http_exchange *x)
{
    http_door *d = x->line->door;
    if (x->told) d->handler.over(d->handler.context, x), d->counts.under_way--;
    if (x->response) MHD_destroy_response(x->response);
    x->line->x = NULL;
    free(x->target);
    free(x);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    (void)context, (void)connection, (void)code;
    http_exchange *x = *request;
    if (!x) return;
    *request = NULL;
    set_stage(x->line, AWAITED, 0);
    end_request(x);
}

const char *http_method(const http_exchange *x)
{
    return x->method;
}

const char *http_target(const http_exchange *x)
{
    return x->target;
}

const char *http_header(const http_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->line->connection, MHD_HEADER_KIND, name);
}

uint64_t http_length(const http_exchange *x)
{
    return x->length;
}

bool http_local(const http_exchange *x)
{
    return x->line->local;
}

void http_set_mine(http_exchange *x, void *mine)
{
    x->mine = mine;
}

void *http_mine(const http_exchange *x)
{
    return x->mine;
}

/* ---- the door --------------------------------------------------------------------------------------------------- */

http_door *http_door_new(const http_limits *limits, const http_handler *handler, td_error *e)
{
    http_door *d = calloc(1, sizeof *d);
    if (!d) return td_no_memory(e, "for a server of HTTP"), NULL;
    d->handler = *handler, d->limits = *limits;
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    d->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_access, d,
        MHD_OPTION_CONNECTION_LIMIT, limits->connections + LISTENERS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)(POOL / 4), MHD_OPTION_CONNECTION_TIMEOUT, 0U,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, d, MHD_OPTION_NOTIFY_CONNECTION, on_connection, d,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, d, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP,
        1, MHD_OPTION_END);
    const union MHD_DaemonInfo *info = d->daemon ? MHD_get_daemon_info(d->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = d};
    if (d->epoll < 0 || !info || epoll_ctl(d->epoll, EPOLL_CTL_ADD, info->epoll_fd, &ev)) {
        td_fail(e, TD_E_SYSTEM, "libmicrohttpd cannot begin: %s", strerror(errno));
        http_door_free(d);
        return NULL;
    }
    return d;
}

void http_door_close(http_door *d)
{
    for (int i = 0; i < d->nlisteners; i++) close(d->listeners[i].fd);
    d->nlisteners = 0;
}

void http_door_free(http_door *d)
{
    if (!d) return;
    http_door_close(d);
    for (line *l = d->first; l; l = l->after) {
        http_exchange *x = l->x;
        if (x && x->suspended) x->suspended = false, x->gone = true, MHD_resume_connection(l->connection);
    }
    if (d->daemon) MHD_run(d->daemon), MHD_stop_daemon(d->daemon);
    if (d->epoll >= 0) close(d->epoll);
    free(d);
}

int http_door_listen(http_door *d, int fd, bool local, td_error *e)
{
    int domain = 0;
    socklen_t n = sizeof domain;
    if (d->nlisteners == LISTENERS) return close(fd), td_fail(e, TD_E_INVALID, "more than %d addresses", LISTENERS);
    listener *l = &d->listeners[d->nlisteners];
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = l};
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) || epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &ev)) {
        close(fd);
        return td_fail(e, TD_E_SYSTEM, "cannot listen: %s", strerror(errno));
    }
    *l = (listener){fd, local, domain == AF_UNIX};
    d->nlisteners++;
    return TD_OK;
}

int http_door_fd(const http_door *d)
{
    return d->epoll;
}

const http_counts *http_door_counts(const http_door *d)
{
    return &d->counts;
}

static const listener *listener_of(const http_door *d, const void *at)
{
    for (int i = 0; i < d->nlisteners; i++)
        if (at == &d->listeners[i]) return &d->listeners[i];
    return NULL;
}

/* The connection has ended, or (EPOLLRDHUP) its peer sends no more. A peer at a Unix socket may wait for its answer
 * nevertheless; of TCP nobody can tell the two apart, and most have gone. */
static void see_end(line *l, uint32_t events)
{
    look_again(l);
    if (!(events & (EPOLLHUP | EPOLLERR)) && l->unix_peer) return;
    l->ended = true;
    if (l->x) give_up(l->x);
}

static void run_daemon(http_door *d)
{
    MHD_UNSIGNED_LONG_LONG wait = 1;
    for (int i = 0; i < EVENTS && (d->due || wait == 0); i++) {
        d->due = false;
        MHD_run(d->daemon);
        if (MHD_get_timeout(d->daemon, &wait) != MHD_YES) wait = 1;
    }
    d->due = wait == 0;
}

/* A full door looks away, or those who wait at it would wake it for ever. */
static void set_full(http_door *d, bool full)
{
    for (int i = 0; i < d->nlisteners && full != d->full; i++) {
        struct epoll_event ev = {.events = full ? 0 : EPOLLIN, .data.ptr = &d->listeners[i]};
        epoll_ctl(d->epoll, EPOLL_CTL_MOD, d->listeners[i].fd, &ev);
    }
    d->full = full;
}

static void take_connections(http_door *d, const listener *l)
{
    for (int k = 0; k < ACCEPTED_AT_ONCE; k++) {
        if (d->counts.connections >= d->limits.connections) {
            if (k == 0 && !make_room(d)) set_full(d, true); /* later ones may be none */
            return;                                         /* the room is there when the daemon has run */
        }
        uint64_t before = d->counts.accepted;
        int err = take_connection(d, l);
        if (k == 0 && (err == EMFILE || err == ENFILE) && !make_room(d)) {
            d->starved_ms = td_clock_ms() + SWEEP_MS;
            set_full(d, true);
        }
        if (d->counts.accepted == before) return;
    }
}

int http_door_run(http_door *d, bool readable)
{
    struct epoll_event events[EVENTS];
    const listener *ready[LISTENERS];
    int n = readable ? epoll_wait(d->epoll, events, EVENTS, 0) : 0, nready = 0;
    for (int i = 0; i < n; i++) {
        const listener *at = listener_of(d, events[i].data.ptr);
        if (at) ready[nready++] = at;
        else if (events[i].data.ptr == d) d->due = true;
        else see_end(events[i].data.ptr, events[i].events);
    }
    for (int i = 0; i < nready; i++) take_connections(d, ready[i]);
    sweep(d);
    run_daemon(d);
    if (d->full && d->counts.connections < d->limits.connections && td_clock_ms() >= d->starved_ms) set_full(d, false);
    return d->due ? 0 : d->first ? SWEEP_MS : -1;
}
