/* Finding the daemon and shaking hands.
 *
 * A socket that was not named by the user is only trusted in a directory of mode 0700 that is ours, and whoever answers
 * must run as us, as root, or as the owner of the socket that the user named. */
#include "client/wire/internal.h"
#include "proto/base/place.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HANDSHAKE_MS = 20000, SLICE_MS = 100, OVERFLOW_UID = 65534 };

/* ---- the socket -------------------------------------------------------------------------------------------------- */

static int check_peer(int socket, const char *path, td_error *e)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    struct stat st;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size))
        return td_fail_errno(e, errno, "cannot tell who answers at %s", path);
    if (peer.uid == geteuid()) return TD_OK;
    if (peer.uid == OVERFLOW_UID)
        return td_fail(e, TD_E_PERMISSION, "the daemon at %s runs as a user that this user namespace cannot name",
                       path);
    if (peer.uid == 0 || (stat(path, &st) == 0 && st.st_uid == peer.uid)) return TD_OK;
    return td_fail(e, TD_E_PERMISSION,
                   "the daemon at %s runs as user %u, who is neither you, root nor the owner of the socket", path,
                   (unsigned)peer.uid);
}

/* What starts one is left out where there is no room for it. */
static void none_answers(const char *path, int err, td_error *e)
{
    td_fail_errno(e, err, "no daemon answers at %s", path);
    size_t n = strlen(e->message);
    int more = snprintf(e->message + n, sizeof e->message - n, "; `tensord --socket %s` starts one", path);
    if (more < 0 || (size_t)more >= sizeof e->message - n) e->message[n] = 0;
    e->code = TD_E_NOT_FOUND;
}

int td_dial_within(const char *path, int ms, td_error *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path) {
        td_fail(e, TD_E_INVALID, "the socket path %s is longer than %zu bytes", path, sizeof at.sun_path - 1);
        return -1;
    }
    memcpy(at.sun_path, path, strlen(path) + 1);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0) {
        td_fail_errno(e, errno, "cannot make a socket");
        return -1;
    }
    /* A daemon that is stopped leaves connections lie until there is no room for more; then connect() waits. */
    struct timeval most = {ms / 1000, ms % 1000 * 1000}, always = {0};
    int rc = setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    if (!rc) do
            rc = connect(s, (struct sockaddr *)&at, sizeof at);
        while (rc && errno == EINTR);
    if (rc && errno == EAGAIN) td_fail(e, TD_E_TIMEOUT, "the daemon at %s takes no connections; is it stopped?", path);
    else if (rc) none_answers(path, errno, e);
    else rc = check_peer(s, path, e);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &always, sizeof always);
    if (!rc) return s;
    close(s);
    return -1;
}

int td_dial(const char *path, td_error *e)
{
    return td_dial_within(path, HANDSHAKE_MS, e);
}

/* Is the directory of a default socket safe to trust? TD_E_NOT_FOUND: there is none. */
static int check_directory(const char *directory, td_error *e)
{
    struct stat st;
    if (lstat(directory, &st)) return td_fail(e, TD_E_NOT_FOUND, "there is no %s", directory);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
        return td_fail(e, TD_E_PERMISSION,
                       "%s must be a directory of yours with mode 0700; remove it, or name a socket in TENSORD_SOCKET",
                       directory);
    return TD_OK;
}

/* The user's running daemon: a socket, or -1 with TD_E_NOT_FOUND when none runs. */
static int dial_default(char path[108], td_error *e)
{
    for (int i = 0; i < TD_PLACES; i++) {
        char directory[TD_PLACE_SIZE];
        if (!td_default_place(i, directory) || td_default_place_taken(directory, NULL)) continue;
        int rc = check_directory(directory, e);
        if (rc == TD_E_PERMISSION) return -1;
        if (rc) continue;
        snprintf(path, 108, "%s/socket", directory);
        int s = td_dial(path, e);
        if (s >= 0 || e->code != TD_E_NOT_FOUND) return s;
    }
    e->code = TD_E_NOT_FOUND;
    return -1;
}

/* ---- the handshake ----------------------------------------------------------------------------------------------- */

/* As elsewhere, the program is asked with its lock taken up again. */
static bool asked_to_stop(const td_client *c)
{
    if (!c->threads.stop) return false;
    td_step_back();
    bool stopped = c->threads.stop(c->threads.stop_context);
    td_step_aside();
    return stopped;
}

static int dial_patiently(const td_client *c, const char *path, td_error *e)
{
    int64_t until = td_now_ms() + HANDSHAKE_MS;
    for (;;) {
        int s = td_dial_within(path, SLICE_MS, e);
        if (s >= 0 || e->code != TD_E_TIMEOUT || td_now_ms() >= until || asked_to_stop(c)) return s;
    }
}

/* The next frame before the deadline, through the client's reader. */
static int next_frame(td_client *c, int socket, int64_t deadline, td_frame *f, td_error *e)
{
    for (;;) {
        int rc = td_reader_next(&c->in.reader, f, e);
        if (rc > 0) return TD_OK;
        if (rc < 0) return e->code;
        int64_t left = deadline - td_now_ms();
        struct pollfd p = {socket, POLLIN, 0};
        if (left <= 0) return td_fail(e, TD_E_TIMEOUT, "the daemon did not answer within %d s", HANDSHAKE_MS / 1000);
        poll(&p, 1, left < SLICE_MS ? (int)left : SLICE_MS);
        if (!p.revents && asked_to_stop(c))
            return td_fail(e, TD_E_CANCELLED, "stopped while waiting for the daemon to answer");
        if (!p.revents) continue;
        long n = td_reader_fill(&c->in.reader, socket, true, e);
        if (n == 0 || n == -ECONNRESET)
            return td_fail(e, TD_E_LOST, "the daemon closed the connection during the handshake");
        if (n == -EPROTO) return e->code;
        if (n < 0 && n != -EAGAIN) return td_fail_errno(e, (int)-n, "the handshake failed");
    }
}

static int send_hello(td_client *c, int socket, uint32_t clone_session, uint64_t clone_token, td_error *e)
{
    Td__Wire__Hello h = TD__WIRE__HELLO__INIT;
    h.protocol = TD_PROTOCOL;
    h.table_hash = td_ops_hash;
    char script[64];
    h.program = td_python_script(getpid(), script, sizeof script) ? script : program_invocation_short_name;
    h.clone_session = clone_session;
    h.clone_token = clone_token;
    h.clone_frames = clone_session ? c->fork.frames : 0;
    uint8_t *p = td_writer_begin(&c->out.writer, td__wire__hello__get_packed_size(&h));
    if (!p) return td_no_memory(e, "for the way to a daemon");
    td_writer_end(&c->out.writer, td__wire__hello__pack(&h, p), TD_FRAME_HELLO, -1);
    int rc = td_writer_flush(&c->out.writer, socket, false, NULL);
    if (rc == -EPIPE || rc == -ECONNRESET) return TD_OK; /* it may have said why */
    return rc < 0 ? td_fail_errno(e, -rc, "the handshake failed") : TD_OK;
}

/* Ops that the daemon has otherwise, or not at all, are refused at the call; the others work. */
static int compare_tables(td_client *c, const Td__Wire__Welcome *w, td_error *e)
{
    free(c->daemon.refused);
    c->daemon.refused = NULL;
    if (w->table_hash == td_ops_hash) return TD_OK;
    size_t bytes = td_op_count / 8 + 1;
    c->daemon.refused = malloc(bytes);
    if (!c->daemon.refused) return td_no_memory(e, "for why a daemon was refused");
    memset(c->daemon.refused, 0xff, bytes);
    for (size_t i = 0; i < w->n_op_ids && i < w->n_op_hashes; i++) {
        const td_op *op = td_op_by_id(w->op_ids[i]);
        if (op && op->hash == w->op_hashes[i]) c->daemon.refused[op->id / 8] &= (uint8_t) ~(1u << op->id % 8);
    }
    return TD_OK;
}

static int take_welcome(td_client *c, const Td__Wire__Welcome *w, td_error *e)
{
    if (w->protocol != TD_PROTOCOL)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "the daemon (%s) speaks protocol %u, this library (%s) protocol %d; use releases that fit",
                       w->version, w->protocol, TD_VERSION, TD_PROTOCOL);
    snprintf(c->daemon.version, sizeof c->daemon.version, "%s", w->version);
    c->daemon.pid = w->pid;
    c->session = w->session;
    c->token = w->token;
    c->fork.frames = 0;
    if (w->partial) c->ids.nfree = 0; /* some of these may still stand for what was to be released */
    c->daemon.inline_limit = w->inline_limit;
    c->daemon.devices = 1u << TD_CPU;
    for (size_t i = 0; i < w->n_devices; i++)
        if (w->devices[i] < TD_MAX_DEVICES) c->daemon.devices |= 1u << w->devices[i];
    c->daemon.rings = w->ring_pipe == TD_RING_PIPE;
    c->daemon.groups = w->groups;
    c->daemon.regroups = w->regroups;
    return compare_tables(c, w, e);
}

static int take_answer(td_client *c, const td_frame *f, td_error *e)
{
    if (f->kind == TD_FRAME_WELCOME) {
        Td__Wire__Welcome *w = td__wire__welcome__unpack(&c->in.arena.allocator, f->bytes, f->payload);
        return w ? take_welcome(c, w, e) : td_fail(e, TD_E_PROTOCOL, "the daemon's answer cannot be read");
    }
    Td__Wire__Event *v =
        f->kind == TD_FRAME_EVENT ? td__wire__event__unpack(&c->in.arena.allocator, f->bytes, f->payload) : NULL;
    if (!v || !v->error)
        return td_fail(e, TD_E_PROTOCOL, "what answers does not speak tensord's protocol (frame of kind %u)", f->kind);
    int code = v->error->code && td_code_known((int)v->error->code) ? (int)v->error->code : TD_E_INTERNAL;
    return td_fail(e, (td_code)code, "the daemon refused the connection: %s", v->error->message);
}

int td_shake_hands(td_client *c, int socket, uint32_t clone_session, uint64_t clone_token, td_error *e)
{
    td_frame f;
    int rc = send_hello(c, socket, clone_session, clone_token, e);
    if (!rc) rc = next_frame(c, socket, td_now_ms() + HANDSHAKE_MS, &f, e);
    if (rc) return rc;
    rc = take_answer(c, &f, e);
    td_frame_done(&f);
    td_arena_reset(&c->in.arena);
    if (!rc) c->socket = socket;
    return rc;
}

/* ---- td_connect -------------------------------------------------------------------------------------------------- */

/* Forked children dial anew, wherever the process has gone by then. What would not fit stays as it is. */
static void make_absolute(const char *named, char path[108])
{
    char here[108];
    int n = named[0] != '/' && getcwd(here, sizeof here) ? snprintf(path, 108, "%s/%s", here, named) : 108;
    if (n >= 108) snprintf(path, 108, "%s", named);
}

/* How a daemon was found, in the order of looking. */
typedef enum found { NAMED, FOUND_PRIVATE, FOUND_USERS, LAUNCHED } found;

static int find_daemon(td_client *c, const char *named, found *how, td_error *e)
{
    char *path = c->path;
    *how = NAMED;
    if (!named || !named[0]) named = getenv("TENSORD_SOCKET");
    if (named && named[0]) {
        make_absolute(named, path);
        return dial_patiently(c, named, e);
    }
    *how = FOUND_PRIVATE;
    int s = td_places_find(getpid(), path, e);
    if (s >= 0 || e->code == TD_E_TIMEOUT) return s;
    *how = FOUND_USERS;
    if (!td_places_apart()) s = dial_default(path, e);
    if (s >= 0 || e->code != TD_E_NOT_FOUND) return s;
    *how = LAUNCHED;
    return td_launch(path, e);
}

bool td_daemon_runs(void)
{
    char path[108];
    td_error e = {0};
    const char *named = getenv("TENSORD_SOCKET");
    if (named && named[0]) return true;
    int s = td_places_find(getpid(), path, &e);
    if (s < 0 && e.code != TD_E_TIMEOUT && !td_places_apart()) s = dial_default(path, &e);
    if (s >= 0) close(s);
    return s >= 0 || e.code != TD_E_NOT_FOUND;
}

/* A private daemon that was found may just be ending, with its last client: then there is another way. */
static int find_and_greet(td_client *c, const char *named, td_error *e)
{
    found how = NAMED;
    int s = -1, rc = TD_OK;
    for (int tries = 0; tries < 10; tries++) {
        s = find_daemon(c, named, &how, e);
        rc = s < 0 ? e->code : td_shake_hands(c, s, 0, 0, e);
        if (rc != TD_E_LOST || how != FOUND_PRIVATE) break;
        close(s);
        s = -1;
        td_reader_deinit(&c->in.reader);
        td_reader_init(&c->in.reader, true);
        td_writer_deinit(&c->out.writer);
    }
    c->daemon.is_private = how == FOUND_PRIVATE || how == LAUNCHED;
    if (rc && s >= 0) {
        close(s);
        if (how == LAUNCHED) td_places_sweep(c->path);
    }
    return rc;
}

TD_API td_client *td_connect(const char *path)
{
    td_client *c = td_connect_until(path, NULL, NULL);
    if (!c || !td_check_limits(c)) return c;
    td_error e = *td_last_error();
    td_disconnect(c);
    *td_thread_error() = e;
    return NULL;
}

td_client *td_connect_until(const char *path, bool (*stop)(void *), void *context)
{
    td_error *e = td_thread_error();
    td_client *c = td_client_new();
    if (!c) {
        td_raise(TD_E_SYSTEM, "connect", "no memory for a client");
        return NULL;
    }
    td_set_interrupt(c, stop, context);
    int rc = td_first_device(e);
    if (!rc) rc = find_and_greet(c, path, e);
    if (!rc) rc = td_fork_register(c, e);
    if (!rc) {
        td_clear_error();
        return c;
    }
    td_raise_error(e, "connect", NULL);
    td_client_free(c);
    return NULL;
}
