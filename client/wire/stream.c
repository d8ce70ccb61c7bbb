/* The stream of one connection: batches out, replies in, whatever order they come in.
 *
 * Invariants: the writer is only appended to and flushed under the lock; the reader belongs to the one thread that set
 * `reading`. Whoever waits for room to write reads too (or knows that somebody does), so that the two sides never wait
 * for each other. */

#include "client/wire/internal.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
    BATCH_WORDS = 16384,
    BATCH_DATA = 256 << 10,
    UNSENT_HIGH = 1 << 20,
    UNSENT_LOW = 64 << 10,
    SLICE_MS = 100,
    HALF_FRAME_MS = 4000,
    SHARED_SLICE_MS = 5, /* of a wait in the stream that other threads wait behind */
    WAKES = 64
};

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void td_finish_wait(td_client *c, td_reply_wait *w, int code, bool answered)
{
    bool heap = w->heap;
    w->code = code;
    w->done = true;
    if (w->over) w->over(c, w, answered);
    if (heap) free(w);
}

void td_lose(td_client *c, int code, const char *format, ...)
{
    if (c->lost) return;
    va_list list;
    va_start(list, format);
    vsnprintf(c->why.message, sizeof c->why.message, format, list);
    va_end(list);
    c->why.code = code;
    c->lost = code;
    shutdown(c->socket, SHUT_RDWR);
    for (td_reply_wait *w = td_take_waits(c), *next; w; w = next) {
        next = w->next;
        w->error = c->why;
        td_finish_wait(c, w, code, false);
    }
    td_loop_lost(c);
    if (c->threads.waiting) pthread_cond_broadcast(&c->wake);
}

static void lose_errno(td_client *c, int err)
{
    char whose[96];
    td_daemon_place of;
    td_places_text(td_places_of(c->path, &of) ? &of : NULL, whose, sizeof whose);
    if (err == EPIPE || err == ECONNRESET)
        td_lose(c, TD_E_LOST,
                "the connection to %s (its own pid %u, at %s) was closed: it ended or was killed, and what it held is "
                "gone; td_connect() makes another (in Python td.connect(), or the next new tensor)",
                whose, c->daemon.pid, c->path);
    else
        td_lose(c, TD_E_LOST, "the connection to %s (its own pid %u, at %s) failed: %s", whose, c->daemon.pid, c->path,
                strerror(err));
}

void td_look_at_socket(td_client *c)
{
    struct pollfd p = {.fd = c->socket, .events = POLLRDHUP};
    if (c->socket >= 0 && poll(&p, 1, 0) == 1 && p.revents & (POLLRDHUP | POLLHUP | POLLERR)) lose_errno(c, EPIPE);
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

static void error_from_wire(td_error *e, const Td__Wire__Error *from)
{
    *e = (td_error){.code = from->code && td_code_known((int)from->code) ? (int)from->code : TD_E_INTERNAL};
    snprintf(e->op, sizeof e->op, "%s", from->op);
    snprintf(e->where, sizeof e->where, "%s", from->where);
    snprintf(e->message, sizeof e->message, "%s", from->message);
}

/* Whoever asked gave up. The daemon counts what it granted as ours all the same: a lease goes back, a segment whose
 * descriptor came is mapped, as it will not come again. */
void td_take_unclaimed(td_client *c, const td_reply *r, int *fd)
{
    td_error e = {0};
    int32_t mapping;
    unsigned char *bytes;
    if (r->address && !td_map_address(c, r->address, fd, &mapping, &bytes, &e)) td_unuse_mapping(c, mapping);
    if (r->lease) td_tell_lease_drop(c, r->lease);
}

/* Its answer will come, and mean nothing. */
static void give_up(td_client *c, uint64_t serial)
{
    if (c->due.ngiven_up == c->due.room_given_up) {
        size_t room = c->due.room_given_up ? 2 * c->due.room_given_up : 16;
        uint64_t *more = realloc(c->due.given_up, room * sizeof *more);
        if (!more) {
            c->due.forgetful = true;
            return;
        }
        c->due.given_up = more;
        c->due.room_given_up = room;
    }
    c->due.given_up[c->due.ngiven_up++] = serial;
}

/* False: it was not given up. */
static bool take_given_up(td_client *c, uint64_t serial)
{
    for (size_t i = 0; i < c->due.ngiven_up; i++)
        if (c->due.given_up[i] == serial) {
            c->due.given_up[i] = c->due.given_up[--c->due.ngiven_up];
            return true;
        }
    return c->due.forgetful;
}

/* Hooks that the daemon has no more: whoever made them asks (td_gone_hooks). */
static void note_gone(td_client *c, size_t n, const uint32_t *hooks)
{
    uint32_t *at = td_words_room(&c->in.gone, n);
    if (!at) return; /* their functions stay */
    memcpy(at, hooks, n * sizeof *at);
    c->in.gone.count += n;
}

static void handle_reply(td_client *c, td_frame *f)
{
    td_reply *r = td__wire__reply__unpack(&c->in.arena.allocator, f->bytes, f->payload);
    if (!r) {
        td_lose(c, TD_E_PROTOCOL, "the daemon sent a reply that cannot be read");
        return;
    }
    c->in.heard++;
    if (r->n_gone) note_gone(c, r->n_gone, r->gone);
    td_reply_wait *w = td_take_wait(c, r->serial);
    if (!w) {
        if (take_given_up(c, r->serial)) td_take_unclaimed(c, r, &f->fd);
        else /* then the one who asked would wait for ever */
            td_lose(c, TD_E_PROTOCOL, "the daemon answered question %llu, which nobody has asked",
                    (unsigned long long)r->serial);
        return;
    }
    int code = TD_OK;
    if (w->on_said && r->data.len) w->on_said(w, r->data.data, r->data.len);
    if (r->error && r->error->code) {
        error_from_wire(&w->error, r->error);
        code = w->error.code;
    } else if (w->on_reply) {
        code = w->on_reply(c, w, r, &f->fd, &w->error);
        w->untaken = code != TD_OK;
        if (code) w->error.code = code;
    }
    td_finish_wait(c, w, code, true);
    if (code && w == &c->link.answer) td_lose(c, TD_E_PROTOCOL, "the daemon refused a ring: %s", w->error.message);
}

static void handle_event(td_client *c, const td_frame *f)
{
    Td__Wire__Event *v = td__wire__event__unpack(&c->in.arena.allocator, f->bytes, f->payload);
    if (!v) {
        td_lose(c, TD_E_PROTOCOL, "the daemon sent an event that cannot be read");
        return;
    }
    if (v->n_gone) note_gone(c, v->n_gone, v->gone);
    if (v->unmap_segment) td_unmap_segment(c, v->unmap_segment);
    if (v->error && v->error->code) td_lose(c, TD_E_LOST, "the daemon ended this session: %s", v->error->message);
}

static void handle_frames(td_client *c)
{
    td_frame f;
    td_error e = {0};
    int rc;
    while (!c->lost && (rc = td_reader_next(&c->in.reader, &f, &e)) != 0) {
        if (rc < 0) {
            td_lose(c, TD_E_PROTOCOL, "the daemon broke the protocol: %s", e.message);
            return;
        }
        if (f.kind == TD_FRAME_REPLY) handle_reply(c, &f);
        else if (f.kind == TD_FRAME_EVENT) handle_event(c, &f);
        else td_lose(c, TD_E_PROTOCOL, "the daemon sent a frame of kind %u, which is none for a client", f.kind);
        td_frame_done(&f);
        td_arena_reset(&c->in.arena);
    }
}

static void handle_filled(td_client *c, long n, const td_error *e)
{
    if (n > 0) handle_frames(c);
    else if (n == 0) lose_errno(c, EPIPE);
    else if (n == -EPROTO) td_lose(c, TD_E_PROTOCOL, "%s", e->message);
    else if (n != -EAGAIN && n != -EINTR) lose_errno(c, (int)-n);
}

void td_poll_replies(td_client *c)
{
    if (c->threads.reading || c->lost) return;
    td_error e = {0};
    long n = td_reader_fill(&c->in.reader, c->socket, true, &e);
    handle_filled(c, n, &e);
    td_loop_listen(c);
}

/* ---- sleeping ---------------------------------------------------------------------------------------------------- */

void td_wake_init(td_client *c)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&c->wake, &a);
    pthread_condattr_destroy(&a);
}

/* Another thread reads: wait until it stops or has something for us. False when nothing came for a slice of time. */
static bool sleep_beside_reader(td_client *c, bool sliced)
{
    int rc = 0;
    c->threads.waiting++;
    if (sliced) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_nsec += SLICE_MS * 1000000L;
        if (t.tv_nsec >= 1000000000L) t.tv_sec++, t.tv_nsec -= 1000000000L;
        rc = pthread_cond_timedwait(&c->wake, &c->lock, &t);
    } else {
        pthread_cond_wait(&c->wake, &c->lock);
    }
    c->threads.waiting--;
    return rc == 0;
}

/* The daemon sends frames whole: the rest of one follows at once. When it does not, the length was not what was sent.
 */
static void check_half_frame(td_client *c, bool came)
{
    if (came || c->lost || !td_reader_buffered(&c->in.reader)) {
        c->in.half_since = 0;
    } else if (!c->in.half_since) {
        c->in.half_since = td_now_ms();
    } else if (td_now_ms() - c->in.half_since > HALF_FRAME_MS) {
        td_lose(c, TD_E_PROTOCOL, "the daemon (pid %u) sent a part of a message, and for %d s nothing more",
                c->daemon.pid, HALF_FRAME_MS / 1000);
    }
}

long td_read_some(td_client *c)
{
    td_error e = {0};
    bool ring = c->in.reader.ring;
    long n = ring ? td_link_take(c, &e) : td_reader_fill(&c->in.reader, c->socket, true, &e);
    handle_filled(c, n, &e);
    check_half_frame(c, n > 0);
    if (c->in.half_since) td_loop_alarm(c, c->in.half_since + HALF_FRAME_MS + 1);
    return ring != (c->in.reader.ring != NULL) ? 1 : n; /* a ring that began just now may be full */
}

/* A slice of time at most, when the program may want to stop. */
static long wait_on_socket(td_client *c, bool to_write, int ms, td_error *e)
{
    if (!to_write && ms < 0) return td_reader_fill(&c->in.reader, c->socket, false, e);
    bool out = to_write && td_writer_on_socket(&c->out.writer); /* a ring may have begun for what goes out */
    struct pollfd p = {c->socket, (short)(POLLIN | (out ? POLLOUT : 0)), 0};
    if (poll(&p, 1, ms) <= 0) return -ETIMEDOUT;
    return p.revents & (POLLIN | POLLHUP | POLLERR) ? td_reader_fill(&c->in.reader, c->socket, true, e) : -EAGAIN;
}

/* Be the reader until something came, the socket takes bytes again, a slice of time has passed, or a signal came: false
 * in the last two cases. */
static bool sleep_as_reader(td_client *c, bool to_write)
{
    td_error e = {0};
    c->threads.reading = true;
    int ms = c->threads.stop || td_reader_buffered(&c->in.reader) ? SLICE_MS : -1;
    pthread_mutex_unlock(&c->lock);
    long n = c->in.reader.ring ? td_link_wait(c, to_write, ms, &e) : wait_on_socket(c, to_write, ms, &e);
    bool woken = n != -ETIMEDOUT;
    if (!woken) n = -EAGAIN;
    pthread_mutex_lock(&c->lock);
    handle_filled(c, n, &e);
    check_half_frame(c, n > 0);
    c->threads.reading = false;
    td_loop_listen(c);
    if (c->threads.waiting) pthread_cond_broadcast(&c->wake);
    return woken;
}

/* Does the program want to stop? Asked without the lock, as the program runs otherwise. */
static bool asked_to_stop(td_client *c)
{
    c->threads.wakes = 0;
    td_stand_back(c); /* a thread that forks asks something else meanwhile */
    if (!c->threads.stop) return false;
    bool (*stop)(void *) = c->threads.stop;
    void *context = c->threads.stop_context;
    c->threads.asleep++;
    td_unlock(c);
    bool stopped = stop(context);
    td_lock(c);
    c->threads.asleep -= c->threads.asleep > 0; /* a signal's handler may have forked */
    return stopped;
}

/* Sleep until something may have changed. False when the program wants to stop. */
static bool sleep_once(td_client *c, bool to_write)
{
    bool woken;
    td_step_aside();
    if (!c->threads.reading) {
        woken = sleep_as_reader(c, to_write);
    } else if (to_write && td_writer_on_socket(&c->out.writer)) {
        struct pollfd p = {c->socket, POLLOUT, 0};
        pthread_mutex_unlock(&c->lock);
        woken = poll(&p, 1, SLICE_MS) > 0;
        pthread_mutex_lock(&c->lock);
    } else {
        woken = sleep_beside_reader(c, c->threads.stop || to_write);
    }
    if (woken && ++c->threads.wakes < WAKES) return true;
    return !asked_to_stop(c);
}

/* The same; meanwhile another thread may disconnect, and the client stays. */
static bool sleep_on_socket(td_client *c, bool to_write)
{
    c->threads.asleep++;
    bool more = sleep_once(c, to_write);
    td_stand_back(c);
    c->threads.asleep -= c->threads.asleep > 0;
    return more;
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

static size_t put_varint(uint8_t *p, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return n;
}

/* A length-delimited field of a message: tag, length, bytes. */
static size_t put_field(uint8_t *p, unsigned field, const void *bytes, size_t n)
{
    size_t at = put_varint(p, field << 3 | 2);
    at += put_varint(p + at, n);
    if (n) memcpy(p + at, bytes, n);
    return at + n;
}

/* The texts of call sites that the batch is the first to use: field 3, {1: id, 2: text}. */
static size_t put_sites(td_client *c, uint8_t *p)
{
    size_t at = 0;
    for (unsigned i = 0; i < c->sites.nunsent; i++) {
        td_site_slot *s = &c->sites.slots[c->sites.unsent[i]];
        size_t length = strlen(s->text);
        uint8_t inner[16];
        size_t n = put_varint(inner, 1 << 3);
        n += put_varint(inner + n, s->id);
        n += put_varint(inner + n, 2 << 3 | 2);
        n += put_varint(inner + n, length);
        at += put_varint(p + at, 3 << 3 | 2);
        at += put_varint(p + at, n + length);
        memcpy(p + at, inner, n);
        memcpy(p + at + n, s->text, length);
        at += n + length;
        s->sent = true;
    }
    c->sites.nunsent = 0;
    return at;
}

/* The batch becomes a frame in the writer. Written by hand: packing through protobuf-c would copy the words once more.
 */
static int seal_batch(td_client *c)
{
    if (c->ids.nreleased) td_emit_releases(c);
    if (!c->out.words.count) return TD_OK;
    size_t most = 32 + c->out.words.count * 4 + c->out.data_bytes;
    for (unsigned i = 0; i < c->sites.nunsent; i++) most += 32 + strlen(c->sites.slots[c->sites.unsent[i]].text);
    uint8_t *p = td_writer_begin(&c->out.writer, most);
    if (!p) return td_raise(TD_E_SYSTEM, NULL, "no memory for a batch of %zu bytes", most);
    size_t n = put_field(p, 1, c->out.words.at, c->out.words.count * 4);
    if (c->out.data_bytes) n += put_field(p + n, 2, c->out.data, c->out.data_bytes);
    n += put_sites(c, p + n);
    td_writer_end(&c->out.writer, n, TD_FRAME_BATCH, -1);
    c->fork.frames++;
    c->out.words.count = c->out.data_bytes = 0;
    c->out.records = 0;
    c->ids.untold_bytes = 0;
    return TD_OK;
}

/* Send until at most `left` bytes are unsent. */
static int drain(td_client *c, size_t left)
{
    while (!c->lost) {
        int rc = td_writer_flush(&c->out.writer, c->socket, true, NULL);
        if (rc < 0) {
            td_poll_replies(c); /* the daemon's last words, if there are any, say more than EPIPE */
            lose_errno(c, -rc);
        } else if (rc == 0 || td_writer_pending(&c->out.writer) <= left) {
            return TD_OK;
        } else if (!sleep_on_socket(c, true)) {
            return td_raise(TD_E_CANCELLED, NULL, "stopped while waiting for the daemon to take what was sent");
        }
    }
    return td_raise(c->lost, NULL, "%s", c->why.message);
}

int td_push(td_client *c)
{
    int rc = seal_batch(c);
    if (rc) return rc;
    return drain(c, td_writer_pending(&c->out.writer) > UNSENT_HIGH ? UNSENT_LOW : UNSENT_HIGH);
}

int td_push_some(td_client *c)
{
    int rc = seal_batch(c);
    if (!rc) rc = td_writer_flush(&c->out.writer, c->socket, true, NULL);
    if (rc < 0) {
        td_poll_replies(c);
        lose_errno(c, -rc);
    }
    td_loop_writes(c);
    return c->lost;
}

/* What goes wrong here goes wrong once more in the next call, which says so. */
void td_push_released(td_client *c)
{
    if (c->ids.untold_bytes < TD_RELEASE_TOLD || c->lost || !td_fork_intact()) return;
    td_error told = *td_last_error();
    if (seal_batch(c)) {
        if (told.code) td_raise_error(&told, NULL, NULL);
        else td_clear_error();
        return;
    }
    td_writer_flush(&c->out.writer, c->socket, true, NULL);
    td_loop_writes(c);
}

void td_push_asked(td_client *c)
{
    if (!c->lost && (c->out.words.count || td_writer_pending(&c->out.writer))) td_push_some(c);
}

int td_record_only(td_client *c, unsigned rec, int nin, const uint32_t *in, int nrest, const uint32_t *rest)
{
    td_error e = {0};
    int rc = td_words_control(&c->out.words, rec, 0, 0, nin, in, 0, NULL, nrest, rest, &e);
    if (rc) return td_raise_error(&e, NULL, NULL);
    c->out.asked++;
    c->out.records++;
    return TD_OK;
}

int td_push_all(td_client *c)
{
    int rc = seal_batch(c);
    return rc ? rc : drain(c, 0);
}

int td_push_sealed(td_client *c)
{
    return drain(c, 0);
}

int td_recorded(td_client *c)
{
    c->out.asked++;
    if (++c->out.records < c->out.batch && c->out.words.count < BATCH_WORDS && c->out.data_bytes < BATCH_DATA)
        return TD_OK;
    td_push(c); /* when the program stopped it, the rest goes with the next */
    return c->lost;
}

_Thread_local td_within td_in_region __attribute__((tls_model("initial-exec")));

int td_region_switch(td_client *c)
{
    uint32_t rest[2] = {td_region_of(c), 0};
    c->out.region = rest[0]; /* first: to write the record asks for it */
    return td_control(c, TD_REC_REGION, NULL, 0, NULL, 0, NULL, 2, rest);
}

static int put_control(td_client *c, unsigned rec, const char *where, int nin, const uint32_t *in, int nout,
                       const uint32_t *out, int nrest, const uint32_t *rest)
{
    td_error e = {0};
    if (rec == TD_REC_CALL || rec == TD_REC_DATA_OF) {
        int here = td_region_here(c);
        if (here) return here;
    }
    unsigned mode = rec == TD_REC_DATA ? td_mode_making() : td_mode();
    int rc =
        td_words_control(&c->out.words, rec, mode, where ? td_site(c, where) : 0, nin, in, nout, out, nrest, rest, &e);
    return rc ? td_raise_error(&e, NULL, where) : TD_OK;
}

int td_control(td_client *c, unsigned rec, const char *where, int nin, const uint32_t *in, int nout,
               const uint32_t *out, int nrest, const uint32_t *rest)
{
    int rc = put_control(c, rec, where, nin, in, nout, out, nrest, rest);
    return rc ? rc : td_recorded(c);
}

int td_control_only(td_client *c, unsigned rec, const char *where, int nin, const uint32_t *in, int nout,
                    const uint32_t *out, int nrest, const uint32_t *rest)
{
    int rc = put_control(c, rec, where, nin, in, nout, out, nrest, rest);
    if (!rc) c->out.asked++, c->out.records++;
    return rc;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

void td_expect(td_client *c, td_reply_wait *w)
{
    w->serial = c->due.next_serial++;
    td_add_wait(c, w);
}

void td_unexpect(td_client *c, td_reply_wait *w)
{
    if (w->done) return; /* with the connection */
    td_take_wait(c, w->serial);
    w->serial = 0;
    w->error = *td_last_error();
    w->code = w->error.code;
    w->done = true;
}

int td_ask_later(td_client *c, Td__Wire__Call *call, int fd, td_reply_wait *w)
{
    int rc = seal_batch(c);
    if (rc) return rc;
    size_t most = td__wire__call__get_packed_size(call) + 10;
    uint8_t *p = most <= TD_FRAME_MAX ? td_writer_begin(&c->out.writer, most) : NULL;
    if (!p)
        return td_raise(TD_E_SYSTEM, NULL, "no room for a request of %zu bytes; the most is %u", most, TD_FRAME_MAX);
    td_expect(c, w);
    call->serial = w->serial;
    size_t n = td__wire__call__pack(call, p);
    rc = td_writer_end(&c->out.writer, n, TD_FRAME_CALL, fd);
    if (rc) {
        td_raise(rc, NULL, "too many descriptors wait to be sent");
        td_unexpect(c, w);
        return rc;
    }
    c->fork.frames++;
    return TD_OK;
}

int td_ask(td_client *c, Td__Wire__Call *call, int fd, td_reply_wait *w)
{
    int rc = td_ask_later(c, call, fd, w);
    return rc ? rc : drain(c, UNSENT_HIGH);
}

int td_await(td_client *c, td_reply_wait *w, const char *op)
{
    if (!w->done && c->in.reader.ring) td_poll_replies(c); /* costs no system call */
    if (!w->done) td_link_advance(c);
    int rc = w->done ? TD_OK : td_push_all(c);
    while (!rc && !w->done)
        if (!sleep_on_socket(c, false)) rc = td_raise(TD_E_CANCELLED, op, "stopped while waiting for the daemon");
    w->stopped = rc == TD_E_CANCELLED;
    if (w->stopped && !w->done && !c->fork.under_way) td_stop(c, w->serial, false);
    if (w->done) return w->code ? td_raise_error(&w->error, op, NULL) : TD_OK;
    td_forget_wait(c, w);
    return rc;
}

int td_ask_and_wait(td_client *c, Td__Wire__Call *call, int fd, td_reply_wait *w, const char *op)
{
    int rc = td_ask_later(c, call, fd, w); /* td_await sends it */
    if (!rc) return td_await(c, w, op);
    td_forget_wait(c, w);
    return rc;
}

int td_ask_once(td_client *c, const char *op, Td__Wire__Call *call, td_on_reply *take, void *context)
{
    td_reply_wait w = {.on_reply = take, .context = context};
    int rc = td_enter(c, op);
    if (rc) return rc;
    rc = td_ask_and_wait(c, call, -1, &w, op);
    td_leave(c);
    return rc;
}

/* The program wants to stop, but the daemon will answer soon, and may have given away an item with it. */
static int await_last_answer(td_client *c, td_reply_wait *w, const char *op)
{
    int64_t until = td_now_ms() + 3 * SLICE_MS;
    take_given_up(c, w->serial);
    td_add_wait(c, w);
    while (!w->done && !c->lost && td_now_ms() < until) sleep_on_socket(c, false);
    if (w->done && w->code == TD_OK) {
        td_clear_error();
        return TD_OK;
    }
    td_forget_wait(c, w);
    td_clear_error();
    return td_raise(TD_E_CANCELLED, op, "stopped while waiting for others");
}

/* When the program may want to stop, the daemon is asked for a slice of time again and again: so nothing is given away
 * to who has stopped. A write lease is waited for in the stream: other threads get their turn between the slices. */
int td_await_patiently(td_client *c, td_patient *ask, void *context, int ms, bool in_stream, const char *op)
{
    int64_t until = ms > 0 ? td_now_ms() + ms : 0;
    int rc;
    in_stream = in_stream && ms != 0;
    c->threads.patient += in_stream;
    for (;;) {
        int64_t slice = in_stream && c->threads.asleep ? SHARED_SLICE_MS : SLICE_MS,
                left = ms <= 0 ? slice : until - td_now_ms();
        bool last = !c->threads.stop || ms == 0 || (ms > 0 && left <= slice);
        uint32_t now = c->threads.stop && ms ? (uint32_t)(left < 1 ? 1 : left < slice ? left : slice) : td_timeout(ms);
        td_reply_wait *w = ask(context, now);
        rc = w ? td_await(c, w, op) : td_last_error()->code;
        if (rc == TD_E_CANCELLED && w && !w->done) rc = await_last_answer(c, w, op);
        if ((rc != TD_E_TIMEOUT && rc != TD_E_NOT_NEWER) || last) break;
        td_clear_error();
        if (asked_to_stop(c)) {
            rc = td_raise(TD_E_CANCELLED, op, "stopped while waiting for others");
            break;
        }
    }
    c->threads.patient -= in_stream && c->threads.patient;
    return rc;
}

void td_tell(td_client *c, Td__Wire__Call *call)
{
    td_reply_wait *w = calloc(1, sizeof *w);
    if (!w) return;
    w->heap = true;
    if (td_ask_later(c, call, -1, w)) {
        free(w);
        return;
    }
    int rc =
        td_writer_flush(&c->out.writer, c->socket, true, NULL); /* what the socket does not take goes with the next */
    if (rc < 0) lose_errno(c, -rc);
}

void td_forget_wait(td_client *c, td_reply_wait *w)
{
    if (w->serial && !w->done && td_take_wait(c, w->serial)) give_up(c, w->serial);
}

int td_await_none(td_client *c, const unsigned *count)
{
    int rc = *count ? td_push_all(c) : TD_OK;
    while (!rc && *count)
        if (!sleep_on_socket(c, false)) rc = td_raise(TD_E_CANCELLED, NULL, "stopped while waiting for the daemon");
    return rc;
}

static bool puts_under_way(const td_client *c)
{
    const td_reply_wait *w = c->due.first;
    while (w && !w->put) w = w->next;
    return w;
}

int td_await_puts(td_client *c)
{
    int rc = td_push_all(c);
    while (!rc && puts_under_way(c))
        if (!sleep_on_socket(c, false)) rc = td_raise(TD_E_CANCELLED, NULL, "stopped while items waited for room");
    return rc;
}

void td_unawait(td_client *c, td_reply_wait *w)
{
    bool done = w->done;
    w->heap = true;
    if (done) free(w);
    else if (c->lost) td_finish_wait(c, w, c->lost, false);
    else {
        take_given_up(c, w->serial);
        td_add_wait(c, w);
    }
}

void td_leave_put(td_client *c, td_reply_wait *w)
{
    if (!w->serial || w->done) return;
    td_take_wait(c, w->serial);
    td_reply_wait *own = calloc(1, sizeof *own);
    if (!own) {
        give_up(c, w->serial);
        return;
    }
    *own = (td_reply_wait){.serial = w->serial, .heap = true, .put = true};
    td_add_wait(c, own);
}
