/* The loop: turns, flushes, ends of tasks, deadlines, signals. */
#include "daemon/server/server.h"
#include "daemon/autograd/autograd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    COLLECT_MOST = 128,
    JOBS_MOST = 64, /* records' worth of an owner's steps at a turn */
    DROP_MOST = 64,
    CLEAR_MOST = 256,
    LONELY_MS = 10000,
    DRAIN_MS = 10000,
    RETRY_MS = 2,
    MOST_DESCRIPTORS = 1 << 20,
    SETTLE_MS = 4000,   /* what has been idle so long, or up to twice that, goes back */
    SETTLE_MOST = 1024, /* sessions at a time */
    MUCH = 32 << 20,    /* bytes that malloc gives back though others are at work */
    ROUNDS = 8,
    ROUND_NS = 100000
};

/* ---- the end: when nobody is left that it runs for */

/* A private daemon, without a client: the root of its program may start one, and what lies in queues has time left. */
static bool is_needed(const td_server *s)
{
    return !s->had_client || s->root_lives || td_queues_left(&s->service);
}

static void end_if_done(td_server *s)
{
    if (s->npeers == 0 && (s->draining || (s->options.is_private && !is_needed(s)))) uv_stop(&s->loop);
}

static void stop_listening(td_server *s)
{
    if (uv_is_closing((uv_handle_t *)&s->listening)) return;
    uv_poll_stop(&s->listening);
    uv_close((uv_handle_t *)&s->listening, NULL);
    td_listener_close(&s->listener);
}

static void grace_over(uv_timer_t *t)
{
    td_server *s = t->data;
    if (s->draining) td_log(TD_LOG_WARN, "ending with %u clients still connected", s->npeers);
    uv_stop(&s->loop);
}

/* Started for a client that never came. */
static void lonely(uv_timer_t *t)
{
    td_server *s = t->data;
    if (!s->had_client) uv_stop(&s->loop);
}

static void on_signal(uv_signal_t *h, int number)
{
    td_server *s = h->data;
    if (s->draining) {
        uv_stop(&s->loop);
        return;
    }
    td_log(TD_LOG_INFO, "signal %d: no new clients; ending when the %u connected have gone", number, s->npeers);
    s->draining = true;
    td_notify("STOPPING=1");
    stop_listening(s);
    uv_timer_start(&s->grace, grace_over, DRAIN_MS, 0);
}

/* ---- after every event: turns for who is ready, flushes for who has replies */

static void keep_awake(uv_idle_t *h)
{
    (void)h; /* while it runs the loop does not sleep; the check does the work */
}

static void set_spinning(td_server *s, bool on)
{
    if (on == s->spinning) return;
    s->spinning = on;
    if (on) uv_idle_start(&s->spin, keep_awake);
    else uv_idle_stop(&s->spin);
}

/* One turn for each process that has a connection which is ready, and more, at most one for each connection, while
 * these are short: then the sockets and the rings are looked at again, for others may have something to do there. */
static void run_turns(td_server *s)
{
    td_turns *t = &s->turns;
    uint32_t processes = t->ready_processes;
    uint64_t until = t->ready > processes ? td_clock_ns() + ROUND_NS : 0;
    for (uint32_t n = t->ready; n && t->first; n--) {
        if (processes) processes--;
        else if (td_clock_ns() > until) break;
        td_peer_turn(td_turns_next(t));
        td_lap_over(s->service.laps, "records");
    }
}

static void retry_flush(uv_timer_t *t);

/* A peer has not read the last descriptor yet; nothing tells when it does. */
static void retry_later(td_server *s)
{
    if (s->retrying) return;
    s->retrying = true;
    uv_timer_start(&s->retry, retry_flush, RETRY_MS, 0);
}

static void retry_flush(uv_timer_t *t)
{
    td_server *s = t->data;
    s->retrying = false;
    for (td_peer *p = s->peers; p; p = p->next) {
        if (p->blocked && !p->dirty) td_peer_flush(p); /* else its turn comes, and it is linked */
        if (p->blocked) retry_later(s);
    }
    set_spinning(s, true); /* there may be more to go, and nothing else has to happen first */
}

/* Some of what each has. */
static void flush_all(td_server *s)
{
    td_peer *all = s->dirty;
    s->dirty = NULL;
    while (all) {
        td_peer *p = all;
        all = p->next_dirty;
        td_peer_flush(p);
        if (p->blocked) retry_later(s);
        td_lap_over(s->service.laps, "flush");
    }
}

/* libuv's timers know whole milliseconds, and cost no system call. A deadline that is nearer than that has a timer of
 * the system's, which is set when the loop is about to sleep. */
enum { SOON_US = 2000 };

static void set_soon(td_server *s, uint64_t us)
{
    uint64_t ns = us * 1000;
    struct itimerspec at = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};
    if (s->soon_fd >= 0) timerfd_settime(s->soon_fd, 0, &at, NULL);
}

static void soon_passed(uv_poll_t *h, int status, int events)
{
    (void)status, (void)events;
    td_server *s = h->data;
    uint64_t times;
    ssize_t n = read(s->soon_fd, &times, sizeof times);
    (void)n; /* whatever it says: the check runs what is due */
    set_spinning(s, true);
}

static void deadline_passed(uv_timer_t *t)
{
    td_server *s = t->data;
    s->next_deadline = UINT64_MAX; /* the check runs what is due, and must start it anew */
    set_spinning(s, true);         /* without waiting for something else to happen first */
}

/* ---- work that would hold the loop up */

typedef struct job {
    uv_work_t work;
    td_server *server;
    void (*run)(void *);
    void (*done)(void *);
    void *arg;
} job;

static void job_run(uv_work_t *w)
{
    job *j = w->data;
    j->run(j->arg);
}

static void job_done(uv_work_t *w, int status)
{
    (void)status;
    job *j = w->data;
    td_laps *laps = j->server->service.laps;
    td_lap_began(laps);
    j->server->helpers--;
    if (j->done) j->done(j->arg);
    free(j);
    td_lap_over(laps, "helped");
}

/* The first job starts libuv's threads: signals are the loop's, and must not find one of these at the end. */
static int queue_job(job *j)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = uv_queue_work(&j->server->loop, &j->work, job_run, job_done);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void background(void *hook_arg, void (*run)(void *), void (*done)(void *), void *arg)
{
    td_server *s = hook_arg;
    job *j = malloc(sizeof *j);
    if (j) {
        *j = (job){.server = s, .run = run, .done = done, .arg = arg};
        j->work.data = j;
        if (queue_job(j) == 0) {
            s->helpers++;
            return;
        }
        free(j);
    }
    run(arg);
    if (done) done(arg);
}

static void nothing(void *unused)
{
    (void)unused;
}

static void free_segment(void *segment)
{
    td_segment_free(segment);
}

static void dispose(td_segment *g, void *arg)
{
    if (g->size >= TD_DISPOSE_AWAY) background(arg, free_segment, NULL, g);
    else td_segment_free(g);
}

/* ---- what lies idle goes back, a while after the last thing happened */

static uint64_t happened(const td_server *s)
{
    return s->service.frames_in + s->service.ops_run + s->came_and_went;
}

/* What was freed stays with malloc otherwise. */
static void trim(void *unused)
{
    (void)unused;
    malloc_trim(0);
}

static uint64_t bytes_of_malloc(const td_server *s)
{
    return td_live_counts().bytes + td_autograd_bytes() + s->sessions.unpacked;
}

void td_server_note_bytes(td_server *s)
{
    uint64_t now = bytes_of_malloc(s);
    if (now > s->most_bytes) s->most_bytes = now;
}

static bool much_was_freed(td_server *s)
{
    td_server_note_bytes(s);
    return s->most_bytes - bytes_of_malloc(s) + s->sessions.freed_aside >= MUCH;
}

static void trim_aside(td_server *s)
{
    s->most_bytes = bytes_of_malloc(s);
    s->sessions.freed_aside = 0;
    background(s, trim, NULL, NULL);
}

static void settle(uv_timer_t *t)
{
    td_server *s = t->data;
    uint64_t before = happened(s);
    td_lap_began(s->service.laps);
    td_settled how = td_sessions_settle(&s->sessions, SETTLE_MOST);
    if (how == TD_SETTLE_MORE) {
        uv_timer_start(t, settle, 1, 0);
    } else if (how == TD_SETTLE_LATER || before != s->seen) {
        uv_timer_start(t, settle, SETTLE_MS, 0);
        if (much_was_freed(s)) trim_aside(s);
    } else if (td_sched_settle(s->service.sched)) { /* nothing has happened in between: there is time for this */
        uv_timer_start(t, settle, SETTLE_MS, 0);    /* and for malloc's part when they have given back */
    } else {
        trim_aside(s);
        s->settling = false;
        s->settled = before;
    }
    if (how != TD_SETTLE_MORE) s->seen = before;
    set_spinning(s, true); /* what was asked of clients goes out at once */
    td_lap_over(s->service.laps, "settle");
}

static void settle_later(td_server *s)
{
    if (s->settling || s->settled == happened(s)) return;
    s->settling = true;
    uv_timer_start(&s->settle, settle, SETTLE_MS, 0);
}

/* From any thread. Not uv_async_send: a worker that it wakes the loop from may lose its processor to the loop before it
 * returns, and then the loop spins until the worker has returned. */
static void wake(void *arg)
{
    eventfd_write(((td_server *)arg)->wake_fd, 1); /* can only fail when it is set already */
}

static void collect(td_server *s)
{
    bool more = td_sched_collect(s->service.sched, COLLECT_MOST);
    td_sessions_collected(&s->sessions);
    td_owners_collected(&s->service);
    if (more) wake(s);
    td_lap_over(s->service.laps, "collect");
}

/* A loop that would sleep until a worker has woken up, and be woken itself when that is done, can as well do some of
 * it. */
static bool help(td_server *s, bool busy)
{
    if (busy) td_sched_urge(s->service.sched);
    if (busy || !td_sched_help(s->service.sched)) return false;
    td_lap_over(s->service.laps, "help");
    collect(s);
    return true;
}

static void after_events(uv_check_t *h)
{
    td_server *s = h->data;
    td_laps *laps = s->service.laps;
    int rounds = ROUNDS;
    td_lap_began(laps);
    td_server_note_bytes(s);
    do {
        s->resumed = false;
        td_rings_look(s);
        td_lap_over(laps, "rings");
        run_turns(s);
        td_owners_run(&s->service, JOBS_MOST);
        flush_all(s);
    } while (s->resumed && --rounds);
    td_intake_look(s);
    bool more = td_sessions_clear(&s->sessions, CLEAR_MOST);
    td_lap_over(laps, "clear");
    more |= td_watches_clear(s);
    td_lap_over(laps, "process ended");
    uint64_t next_us = td_deadlines_run(&s->service), next = next_us == UINT64_MAX ? next_us : next_us / 1000;
    td_lap_over(laps, "deadlines");
    if (next != s->next_deadline) {
        s->next_deadline = next;
        if (next == UINT64_MAX) uv_timer_stop(&s->deadlines);
        else uv_timer_start(&s->deadlines, deadline_passed, next + 1, 0);
    }
    bool busy = s->turns.first || s->service.owners.ready || s->dirty || more || !next_us;
    busy |= help(s, busy);
    if (!busy && next_us < SOON_US) set_soon(s, next_us);
    set_spinning(s, busy || !td_rings_rest(s));
    settle_later(s);
    end_if_done(s);
}

static void tasks_ended(uv_poll_t *h, int status, int events)
{
    (void)status, (void)events;
    td_server *s = h->data;
    eventfd_t times;
    eventfd_read(s->wake_fd, &times);
    td_lap_began(s->service.laps);
    collect(s);
}

static void incoming(uv_poll_t *h, int status, int events)
{
    (void)events;
    td_server *s = h->data;
    td_lap_began(s->service.laps);
    if (status == 0) td_peer_accept(s);
    td_lap_over(s->service.laps, "accept");
}

/* ---- setting up and serving */

static int init_loop(td_server *s, td_error *e)
{
    int rc = uv_loop_init(&s->loop);
    if (rc) return td_fail(e, TD_E_SYSTEM, "no event loop: %s", uv_strerror(rc));
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0) return td_fail_errno(e, errno, "no event descriptor");
    if (uv_poll_init(&s->loop, &s->wake, s->wake_fd) != 0) return td_fail(e, TD_E_SYSTEM, "cannot watch an event");
    s->soon_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->soon_fd < 0) return td_fail_errno(e, errno, "no timer");
    if (uv_poll_init(&s->loop, &s->soon, s->soon_fd) != 0) return td_fail(e, TD_E_SYSTEM, "cannot watch a timer");
    uv_check_init(&s->loop, &s->check);
    uv_idle_init(&s->loop, &s->spin);
    uv_timer_init(&s->loop, &s->deadlines);
    uv_timer_init(&s->loop, &s->grace);
    uv_timer_init(&s->loop, &s->retry);
    uv_timer_init(&s->loop, &s->settle);
    uv_signal_init(&s->loop, &s->sigterm);
    uv_signal_init(&s->loop, &s->sigint);
    s->wake.data = s->soon.data = s->check.data = s->deadlines.data = s->grace.data = s->retry.data = s->settle.data =
        s->sigterm.data = s->sigint.data = s;
    uv_poll_start(&s->wake, UV_READABLE, tasks_ended);
    uv_poll_start(&s->soon, UV_READABLE, soon_passed);
    uv_check_start(&s->check, after_events);
    uv_signal_start(&s->sigterm, on_signal, SIGTERM);
    uv_signal_start(&s->sigint, on_signal, SIGINT);
    return TD_OK;
}

static int open_listener(td_server *s, td_error *e)
{
    const td_options *o = &s->options;
    int rc = o->listen_fd >= 0 ? td_listener_inherit(&s->listener, o->listen_fd, o->is_private, e)
                               : td_listener_open(&s->listener, o->socket, e);
    if (rc) return rc;
    if (uv_poll_init(&s->loop, &s->listening, s->listener.fd) != 0)
        return td_fail(e, TD_E_SYSTEM, "cannot watch the socket");
    s->listening.data = s;
    uv_poll_start(&s->listening, UV_READABLE, incoming);
    return TD_OK;
}

/* As many descriptors as this process may have: the usual limit of 1024 is meant for who calls select(). */
static uint32_t raise_descriptors(void)
{
    struct rlimit l = {0};
    getrlimit(RLIMIT_NOFILE, &l);
    if (l.rlim_cur < l.rlim_max && l.rlim_cur < MOST_DESCRIPTORS) {
        struct rlimit more = {l.rlim_max < MOST_DESCRIPTORS ? l.rlim_max : MOST_DESCRIPTORS, l.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &more) == 0) l = more;
    }
    return l.rlim_cur < MOST_DESCRIPTORS ? (uint32_t)l.rlim_cur : MOST_DESCRIPTORS;
}

int td_server_init(td_server *s, const td_options *o, const td_device_kind *const *devices, td_error *e)
{
    *s = (td_server){.options = *o, .spare_fd = -1, .wake_fd = -1, .soon_fd = -1, .next_deadline = UINT64_MAX};
    td_turns_init(&s->turns);
    s->last_hungry = &s->hungry;
    s->listener = (td_listener){.fd = -1, .lock_fd = -1};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit for files (ulimit -f) holds for memory, too: no room, not the end */
    td_cpu_init();
    td_cpu_thread_init();
    td_dead_set_bound(DROP_MOST);
    int rc = init_loop(s, e);
    if (!rc) rc = td_sigbus_guard_install(e);
    if (!rc) rc = td_aside_init(s, e);
    uint32_t descriptors = raise_descriptors();
    td_service_options so = {.memory = o->memory,
                             .workers = o->workers,
                             .shm = o->shm,
                             .time_turns = o->time_turns,
                             .session_bytes = o->session_memory,
                             .uid_bytes = o->user_memory,
                             .session_device_bytes = o->session_device_memory,
                             .uid_device_bytes = o->user_device_memory,
                             .session_objects = o->session_objects,
                             .uid_objects = o->user_objects,
                             .own_bytes = o->own_memory,
                             .uid_imports = descriptors / 8, /* two each: a quarter */
                             .devices = devices,
                             .wake = wake,
                             .background = background,
                             .aside = td_aside_run,
                             .arg = s};
    if (!rc) rc = td_service_init(&s->service, &so, e);
    if (rc) return rc;
    s->service.budget.dispose = dispose;
    s->service.budget.dispose_arg = s;
    if (descriptors / 32 < s->service.budget.warm_most) s->service.budget.warm_most = descriptors / 32; /* two each */
    td_sessions_init(&s->sessions, &s->service);
    background(s, nothing, NULL, NULL); /* starts the helpers */
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_DUMPABLE, 0); /* other processes of this user stay out of our memory and descriptors */
    rc = td_root_watch(s, e);
    return rc ? rc : open_listener(s, e);
}

void td_server_run(td_server *s)
{
    if (s->options.is_private) uv_timer_start(&s->grace, lonely, LONELY_MS, 0);
    td_notify("READY=1");
    td_log(TD_LOG_INFO, "serving %s with %d workers and %.1f GB",
           s->listener.path[0] ? s->listener.path : "an inherited socket", s->options.workers,
           (double)s->options.memory / 1e9);
    uv_run(&s->loop, UV_RUN_DEFAULT);
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h)) uv_close(h, NULL);
}

/* Who is told to end once more, while it does, still ends with 0: closing libuv's handles brings the default back. */
static void ignore_signals(td_server *s)
{
    sigset_t both, before;
    sigemptyset(&both);
    sigaddset(&both, SIGTERM);
    sigaddset(&both, SIGINT);
    pthread_sigmask(SIG_BLOCK, &both, &before); /* other threads have these blocked */
    uv_signal_stop(&s->sigterm);
    uv_signal_stop(&s->sigint);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void td_server_deinit(td_server *s)
{
    td_listener_close(&s->listener);
    while (s->peers) td_peer_close(s->peers);
    td_deadline_disarm(&s->service, &s->intake);
    uv_check_stop(&s->check);
    uv_run(&s->loop, UV_RUN_NOWAIT); /* closed peers let go of their watches, which close themselves */
    td_dead_set_bound(0);
    while (s->sessions.service && td_sessions_clear(&s->sessions, INT_MAX)) {
    }
    if (s->service.sched && !td_sched_stop(s->service.sched)) { /* nobody is left to see what is still queued */
        td_log(TD_LOG_WARN, "ending in the middle of computations");
        return; /* the kernel cleans up after them */
    }
    while (s->helpers) uv_run(&s->loop, UV_RUN_ONCE);
    if (!td_aside_deinit(s)) return; /* the process ends: the kernel cleans up after what hangs */
    ignore_signals(s);
    uv_walk(&s->loop, close_handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    s->service.budget.dispose = NULL; /* there is no loop any more to hand it to */
    td_watches_deinit(s);
    td_service_deinit(&s->service);
    uv_loop_close(&s->loop);
    if (s->spare_fd >= 0) close(s->spare_fd);
    if (s->wake_fd >= 0) close(s->wake_fd);
    if (s->soon_fd >= 0) close(s->soon_fd);
}
