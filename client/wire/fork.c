/* fork(): the child gets a connection of its own that holds what the parent's holds.
 *
 * The prepare handler sends what was not sent yet and keeps all clients locked. The child connects and clones the
 * session, as itself, because the daemon ends a session with the process that opened it; it says how many frames had
 * been sent, and the daemon lets it begin when the parent's session has come to the end of these, or is held up there
 * by another thread's program. What was only to be released is not sent: each of the two does that by itself. Only then
 * does the parent go on, so that what the child's handles mean is what they meant at the fork; if the child takes too
 * long, its clients are lost and say so. A raw clone() runs no handlers; a page that is wiped in every new
 * process tells. */

#include "client/wire/internal.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { INTACT = 0x74656e73, PREPARE_SECONDS = 3, ROUNDS = 8 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static td_client *clients;
static bool prepared;   /* between prepare and its end: the locks are held */
static int ticket[2];   /* parent's end, child's end: the child tells that it is done */
static unsigned *guard; /* INTACT, or 0 in a process that came by a raw clone */
static unsigned generation;

bool td_fork_intact(void)
{
    return !guard || *guard == INTACT;
}

unsigned td_fork_generation(void)
{
    return generation;
}

/* Not on the stack of whoever forks: another thread that waits on the client may look at it later. */
static _Atomic time_t deadline;

static bool too_late(void *context)
{
    (void)context;
    return time(NULL) > deadline;
}

/* The daemon's answers to others may make a client say something more. */
static int send_rest(td_client *c)
{
    int rc = TD_OK;
    for (int i = 0; i < ROUNDS && !rc && (c->out.words.count || td_writer_pending(&c->out.writer)); i++)
        rc = c->out.words.count ? td_push_all(c) : td_push_sealed(c);
    return rc;
}

static void prepare_client(td_client *c)
{
    pthread_mutex_lock(&c->lock);
    c->fork.error = (td_error){0};
    if (c->lost) return;
    td_error told = *td_last_error();
    bool (*stop)(void *) = c->threads.stop;
    void *context = c->threads.stop_context;
    deadline = time(NULL) + PREPARE_SECONDS;
    c->threads.stop = too_late;
    c->fork.under_way = true;
    if (send_rest(c)) c->fork.error = *td_last_error();
    else if (c->out.words.count)
        td_fail(&c->fork.error, TD_E_LOST, "the daemon had not read all that was sent when the process forked");
    c->fork.under_way = false;
    if (c->threads.waiting) pthread_cond_broadcast(&c->wake); /* they go on when the lock is free */
    c->threads.stop = stop;
    c->threads.stop_context = context;
    if (told.code) td_raise_error(&told, NULL, NULL);
    else td_clear_error();
}

static void prepare(void)
{
    if (!td_fork_intact()) return;
    pthread_mutex_lock(&clients_lock);
    td_stay(true);
    for (td_client *c = clients; c; c = c->next) prepare_client(c);
    td_stay(false);
    ticket[0] = ticket[1] = -1;
    if (clients && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ticket)) ticket[0] = ticket[1] = -1;
    prepared = true;
}

static void close_ticket(int end)
{
    if (ticket[end] >= 0) close(ticket[end]);
    ticket[end] = -1;
}

/* For its word, or its end; a signal's handler may run meanwhile. */
static void await_child(void)
{
    struct pollfd p = {ticket[0], POLLIN, 0};
    int64_t until = td_now_ms() + PREPARE_SECONDS * 1000, left = PREPARE_SECONDS * 1000;
    while (ticket[0] >= 0 && left > 0 && poll(&p, 1, (int)left) < 0 && errno == EINTR) left = until - td_now_ms();
}

static void parent(void)
{
    if (!prepared) return;
    prepared = false;
    close_ticket(1);
    await_child();
    close_ticket(0);
    for (td_client *c = clients; c; c = c->next) pthread_mutex_unlock(&c->lock);
    pthread_mutex_unlock(&clients_lock);
}

/* A signal's handler may fork while the program waits: the child returns into that wait. */
static void give_up(td_client *c, td_reply_wait *w)
{
    td_fail(&w->error, TD_E_CANCELLED, "fork() was called during this wait; the answer goes to the parent process");
    td_finish_wait(c, w, TD_E_CANCELLED, false);
}

/* What the parent was waiting for, its other threads included, is not the child's. */
static void forget_parent(td_client *c)
{
    td_reply_wait *waits = td_take_waits(c);
    td_loop_forked(c, false);
    for (td_reply_wait *w = waits, *next; w; w = next) {
        next = w->next;
        give_up(c, w);
    }
    td_error parents = {0};
    td_fail(&parents, TD_E_CANCELLED, "fork() was called before this was asked; the parent process asks it");
    td_requests_forked(c, &parents);
    c->due.ngiven_up = 0;
    c->in.half_since = 0;
    c->threads.reading = false;
    c->threads.waiting = c->threads.patient = c->threads.asleep = 0;
    if (c->above.forked) c->above.forked(c);
    c->threads.blocked = 0;
    td_wake_init(c);
    td_forget_leases(c);
    td_link_forget(c);
    td_stopper_close(c);
    c->memory.last_lease = 0;
    td_reader_deinit(&c->in.reader);
    td_reader_init(&c->in.reader, true);
    td_writer_deinit(&c->out.writer);
    c->out.words.count = c->out.data_bytes = 0;
    c->out.records = c->sites.nunsent = 0; /* what is to be released is the child's to release, too */
    if (c->sites.slots)
        memset(c->sites.slots, 0, TD_SITES * sizeof *c->sites.slots); /* the new session knows no texts */
}

/* The parent's session again, on a connection of this process. */
static void child_client(td_client *c)
{
    uint32_t session = c->session;
    uint64_t token = c->token;
    forget_parent(c);
    if (c->socket >= 0) close(c->socket);
    c->socket = -1;
    if (c->lost) return td_loop_forked(c, true);
    td_error e = c->fork.error;
    if (c->fork.alone) td_fail(&e, TD_E_LOST, "it stands for its parent, in a group that this process has not joined");
    int s = e.code ? -1 : td_dial(c->path, &e);
    if (s >= 0 && td_shake_hands(c, s, session, token, &e)) {
        close(s);
        s = -1;
    }
    if (s < 0) td_lose(c, TD_E_LOST, "the daemon gave no connection to this child process: %s", e.message);
    td_loop_forked(c, true);
}

/* Tell the parent that it may go on. False: it went on before. */
static bool tell_parent(void)
{
    return ticket[1] >= 0 && send(ticket[1], "", 1, MSG_NOSIGNAL) == 1;
}

static void child(void)
{
    if (!prepared) return;
    prepared = false;
    *guard = INTACT;
    generation++;
    close_ticket(0);
    td_stay(true); /* also where the daemon takes long to answer */
    for (td_client *c = clients; c; c = c->next) child_client(c);
    td_stay(false);
    bool in_time = tell_parent();
    close_ticket(1);
    for (td_client *c = clients; c; c = c->next) {
        if (!in_time) td_lose(c, TD_E_LOST, "the daemon gave no connection to this child process in time");
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&clients_lock);
}

static void set_up(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    if (madvise(p, page, MADV_WIPEONFORK) || pthread_atfork(prepare, parent, child)) {
        munmap(p, page);
        return;
    }
    *p = INTACT;
    guard = p;
}

int td_fork_register(td_client *c, td_error *e)
{
    pthread_once(&once, set_up);
    if (!guard) return td_fail(e, TD_E_SYSTEM, "cannot set up fork handlers (no memory, or a kernel before 4.14)");
    if (!td_fork_intact())
        return td_fail(e, TD_E_LOST, "this process was made by a raw clone(), which runs no fork handlers");
    pthread_mutex_lock(&clients_lock);
    c->next = clients;
    clients = c;
    pthread_mutex_unlock(&clients_lock);
    return TD_OK;
}

void td_keep_alone(td_client *c)
{
    pthread_mutex_lock(&clients_lock);
    c->fork.alone = true;
    pthread_mutex_unlock(&clients_lock);
}

void td_fork_forget(td_client *c)
{
    pthread_mutex_lock(&clients_lock);
    for (td_client **at = &clients; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&clients_lock);
}
