/* The life of a client: made by td_connect, ended by td_disconnect, freed with the last handle on it. */

#include "client/wire/internal.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARENA_LIMIT = 64 << 20 };

td_client *td_client_new(void)
{
    td_client *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    pthread_mutex_init(&c->lock, NULL);
    td_wake_init(c);
    c->socket = c->stopper.fd = -1;
    c->loop.soonest = INT64_MAX;
    c->ids.next = c->due.next_serial = 1;
    c->out.writes = 1;
    c->out.batch = 256;
    const char *eager = getenv("TENSORD_EAGER_ERRORS");
    c->eager = eager && eager[0] && strcmp(eager, "0") != 0;
    td_writer_init(&c->out.writer);
    td_reader_init(&c->in.reader, true);
    td_arena_init(&c->in.arena, ARENA_LIMIT);
    return c;
}

void td_client_free(td_client *c)
{
    if (!c) return;
    if (c->socket >= 0) close(c->socket);
    td_stopper_close(c);
    td_loop_deinit(c);
    td_forget_leases(c);
    td_link_forget(c);
    td_forget_mappings(c);
    if (c->above.forget) c->above.forget(c);
    for (td_reply_wait *w = c->due.first, *next; w; w = next) {
        next = w->next;
        if (w->heap) free(w);
    }
    td_words_deinit(&c->out.words);
    td_words_deinit(&c->in.gone);
    td_writer_deinit(&c->out.writer);
    td_reader_deinit(&c->in.reader);
    td_arena_deinit(&c->in.arena);
    free(c->out.data);
    free(c->ids.free);
    free(c->sites.slots);
    free(c->daemon.refused);
    free(c->due.given_up);
    free(c->due.spare);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int td_enter(td_client *c, const char *op)
{
    if (!c) {
        if (td_last_error()->code) return td_last_error()->code;
        return td_raise(TD_E_INVALID, op, "the client is NULL");
    }
    if (!td_fork_intact())
        return td_raise(TD_E_LOST, op,
                        "this process was made by a raw clone(), which runs no fork handlers; connect anew");
    td_lock(c);
    if (!c->lost) return TD_OK;
    td_raise(c->lost, op, "%s", c->why.message);
    td_unlock(c);
    return td_last_error()->code;
}

void td_leave(td_client *c)
{
    td_unlock(c);
}

/* Wait for all that was asked, in two halves; silent: errors stay untold. */
static void ask_all(td_client *c, td_quiet_wait *x, bool silent)
{
    x->wait = (td_reply_wait){0};
    td_expect(c, &x->wait);
    uint32_t rest[3] = {0, 0, silent};
    td_words_put_u64(rest, x->wait.serial);
    if (td_control(c, TD_REC_SYNC, NULL, 0, NULL, 0, NULL, 3, rest)) td_unexpect(c, &x->wait);
    x->asked = c->out.asked;
    x->of = c;
}

int td_await_quiet(td_quiet_wait *x)
{
    int rc = x->of ? td_await(x->of, &x->wait, "sync") : TD_OK;
    if (!rc && x->of) x->of->out.quiet = x->asked;
    return rc;
}

void td_ask_quiet(td_client *c, td_quiet_wait *x)
{
    x->of = NULL;
    if (c->out.quiet != c->out.asked) ask_all(c, x, true);
}

int td_outcome(td_client *c)
{
    td_quiet_wait x;
    ask_all(c, &x, false);
    return td_await_quiet(&x);
}

static int sync_locked(td_client *c)
{
    td_emit_releases(c); /* so that what was released is gone when it returns */
    return td_outcome(c);
}

int td_settle(td_client *c)
{
    if (c->out.quiet == c->out.asked) return TD_OK;
    td_quiet_wait x;
    int rc = td_enter(c, "sync");
    if (rc) return rc;
    td_ask_quiet(c, &x);
    rc = td_await_quiet(&x);
    td_leave(c);
    return rc;
}

/* When nothing is left that points into what is mapped, it is unmapped with the client: others may have the memory, and
 * need not wait until this process ends. */
static void say_unmapped(td_client *c)
{
    if (c->lost || c->handles || c->threads.asleep || !c->memory.nmappings) return;
    Td__Wire__Unmapped all = TD__WIRE__UNMAPPED__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.unmapped = &all;
    td_tell(c, &call);
    if (!c->lost) td_push_all(c);
}

/* So that the daemon can tell it from a client that was killed. */
static void say_bye(td_client *c)
{
    Td__Wire__Bye bye = TD__WIRE__BYE__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.bye = &bye;
    if (!c->lost) td_tell(c, &call);
    if (!c->lost) td_push_all(c);
}

TD_API void td_disconnect(td_client *c)
{
    if (!c) return;
    td_fork_forget(c);
    td_lock(c);
    if (c->lost && c->daemon.is_private) td_places_sweep(c->path);
    if (!c->lost && td_fork_intact()) {
        if (!c->due.puts_sent) td_push_all(c);
        else if (sync_locked(c) != TD_E_CANCELLED)
            td_await_puts(c); /* an item that waits for room in a queue would go with us */
        say_unmapped(c);
        say_bye(c);
        td_lose(c, TD_E_LOST, "the client was disconnected");
    }
    c->ended = true;
    td_requests_tell(c); /* what was out */
    td_unlock(c);
}

TD_API const char *td_socket_path(const td_client *c)
{
    return c ? c->path : "";
}

TD_API const char *td_daemon_version(const td_client *c)
{
    return c ? c->daemon.version : "";
}

TD_API uint32_t td_daemon_pid(const td_client *c)
{
    return c ? c->daemon.pid : 0;
}

TD_API uint32_t td_session(const td_client *c)
{
    return c ? c->session : 0;
}

TD_API const char *td_version(void)
{
    return TD_VERSION;
}

TD_API int td_flush(td_client *c)
{
    int rc = td_enter(c, "flush");
    if (rc) return rc;
    rc = td_push(c);
    td_leave(c);
    return rc;
}

TD_API int td_sync(td_client *c)
{
    int rc = td_enter(c, "sync");
    if (rc) return rc;
    rc = sync_locked(c);
    td_leave(c);
    return rc;
}

TD_API void td_set_eager_errors(td_client *c, bool on)
{
    if (td_enter(c, "set_eager_errors")) return;
    c->eager = on;
    td_leave(c);
}

TD_API bool td_eager_errors(const td_client *c)
{
    return c && c->eager;
}

TD_API void td_set_batch(td_client *c, unsigned ops)
{
    if (td_enter(c, "set_batch")) return;
    c->out.batch = ops ? ops : 1;
    td_leave(c);
}

TD_API void td_set_interrupt(td_client *c, bool (*stop)(void *), void *context)
{
    if (td_enter(c, "set_interrupt")) return;
    c->threads.stop = stop;
    c->threads.stop_context = context;
    td_leave(c);
}

/* ---- for bindings ------------------------------------------------------------------------------------------------ */

const td_error *td_why_lost(const td_client *c)
{
    return c->lost ? &c->why : NULL;
}

bool td_is_private(const td_client *c)
{
    return c->daemon.is_private;
}

bool td_is_private_path(const char *path)
{
    td_daemon_place of;
    return td_places_of(path, &of);
}

bool td_is_quiet(const td_client *c)
{
    return c->out.asked == c->out.quiet;
}
