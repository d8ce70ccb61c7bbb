/* See channel.h.
 *
 * The thread waits for the socket and for a descriptor that pokes it. It never waits to send: what the socket does not
 * take stays in a list, or the process, which waits for its ends to be read, and this thread would wait for each other.
 * A process that cannot be started is tried again a second later at the earliest; until then all hear why. After some
 * starts without a word it is told to leave libraries alone: one of them may have ended it.
 *
 * Where memory is out nothing that was issued is lost: one message is kept, so that commands can always be sent, if
 * only one message after the other; who asks for an arena or for bytes is refused; and an arena's end waits. */
#include "daemon/cuda/channel.h"
#include "daemon/cuda/process.h"
#include "proto/base/clock.h"
#include "proto/base/device.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* INNER: of places: an end that the channel asked for itself. */
#define INNER (UINT64_C(1) << 63)
enum { RESERVED = 1, AGAIN_MS = 1000, FULL_MESSAGES = 64, GREETING_MS = 120000, WORDLESS = 3 };

typedef struct message {
    struct message *next;
    size_t bytes, room;
    uint64_t data[];
} message;

typedef enum wish { MAKE, END, READ, WRITE } wish;

/* What other threads ask for; they wait for all but END. */
typedef struct request {
    struct request *next;
    wish what;
    td_gpu_memory *memory; /* MAKE, END */
    uint64_t at;           /* READ, WRITE */
    unsigned char *host;
    size_t bytes, moved, moving;
    int rc;
    td_error *e;
    bool done;
} request;

typedef struct requests {
    request *first, *last;
} requests;

/* An arena as this file has it: with what asks for its end. */
typedef struct arena {
    td_gpu_memory memory; /* first */
    request end;
} arena;

struct td_gpu {
    td_gpu_options o;
    td_gpu_client client;
    char program[256];
    int wake;

    pthread_mutex_t lock; /* of what follows, up to the next line */
    pthread_cond_t answered;
    pthread_t thread;
    bool started, stopping, stopped, poked;
    requests asked;
    td_gpu_memory *memories;
    td_gpu_facts facts;
    _Atomic uint8_t products; /* of the facts; asked by every plan, so without the lock */

    /* the thread's own */
    td_gpu_process process; /* .socket: -1: there is none */
    uint64_t seen;          /* ENDED messages of this process */
    message *first, *last;
    unsigned nmessages;
    message *run;    /* the last one, while commands may be added to it */
    message *kept;   /* with room for commands; NULL: it is among those above */
    bool starved;    /* commands wait for one of those to be sent */
    requests ending; /* of arenas, for which there was no memory */
    requests making, moving;
    bool piece_used[TD_GPU_PIECES];
    char told[TD_GPU_STREAMS][160];
    td_error last_word; /* of this process: why it ends */
    unsigned wordless;  /* starts in a row that ended without a greeting, or while a library was tried */
    uint64_t failed_ms; /* when it could not be started; 0: it could */
    td_error failure;
    uint64_t received[TD_GPU_MESSAGE_MAX / 8];
};

/* ---- requests */

static void put_request(requests *q, request *r)
{
    r->next = NULL;
    if (q->last) q->last->next = r;
    else q->first = r;
    q->last = r;
}

static request *take_request(requests *q)
{
    request *r = q->first;
    if (r && !(q->first = r->next)) q->last = NULL;
    return r;
}

/* Who asked goes on; the record is theirs. */
static void answer(td_gpu *g, request *r, int rc, const td_error *why)
{
    if (rc && why && r->e) *r->e = *why;
    pthread_mutex_lock(&g->lock);
    r->rc = rc;
    r->done = true;
    pthread_cond_broadcast(&g->answered);
    pthread_mutex_unlock(&g->lock);
}

static void answer_all(td_gpu *g, requests *q, const td_error *why)
{
    for (request *r; (r = take_request(q));) answer(g, r, why->code, why);
}

/* ---- messages */

static void take_message(td_gpu *g)
{
    message *m = g->first;
    if (!(g->first = m->next)) g->last = NULL;
    if (g->run == m) g->run = NULL;
    g->nmessages--;
    if (m->room == TD_GPU_MESSAGE_MAX && !g->kept) g->kept = m;
    else free(m);
}

static void drop_messages(td_gpu *g)
{
    while (g->first) take_message(g);
}

static message *message_new(size_t room)
{
    message *m = malloc(sizeof *m + room);
    if (m) *m = (message){.room = room};
    return m;
}

static void put_message(td_gpu *g, message *m)
{
    m->next = NULL;
    if (g->last) g->last->next = m;
    else g->first = m;
    g->last = m;
    g->nmessages++;
    g->run = NULL;
}

/* False: there is no memory to say it with. */
static bool say(td_gpu *g, const void *what, size_t bytes)
{
    message *m = message_new(bytes);
    if (!m) return false;
    memcpy(m->data, what, bytes);
    m->bytes = bytes;
    put_message(g, m);
    return true;
}

bool td_gpu_room(td_gpu *g, size_t bytes)
{
    message *m = g->run;
    if (m && m->bytes + bytes <= TD_GPU_MESSAGE_MAX) return true;
    if (!(m = message_new(TD_GPU_MESSAGE_MAX))) {
        m = g->kept;
        g->kept = NULL;
    }
    g->starved |= !m;
    if (!m) return false;
    *(td_gpu_run *)m->data = (td_gpu_run){TD_GPU_RUN, 0, 0};
    m->bytes = sizeof(td_gpu_run);
    put_message(g, m);
    g->run = m;
    return true;
}

void *td_gpu_put(td_gpu *g, td_gpu_what what, unsigned stream, size_t bytes)
{
    bytes = td_gpu_put_bytes(bytes);
    message *m = g->run;
    td_gpu_command *c = (td_gpu_command *)((char *)m->data + m->bytes);
    memset(c, 0, bytes);
    *c = (td_gpu_command){(uint16_t)what, (uint16_t)stream, (uint32_t)bytes};
    ((td_gpu_run *)m->data)->commands++;
    m->bytes += bytes;
    return c;
}

void td_gpu_mark_end(td_gpu *g, unsigned stream, uint64_t place)
{
    td_gpu_mark *c = td_gpu_put(g, TD_GPU_END, stream, sizeof *c);
    c->place = place;
}

/* As far as the socket takes it. False: the process has gone. */
static bool flush(td_gpu *g)
{
    while (g->first) {
        message *m = g->first;
        uint32_t kind;
        memcpy(&kind, m->data, sizeof kind);
        if (kind == TD_GPU_RUN) ((td_gpu_run *)m->data)->seen = g->seen;
        int sent = td_gpu_process_send(&g->process, m->data, m->bytes);
        if (sent < 0) return false;
        if (!sent) return true;
        take_message(g);
    }
    return true;
}

bool td_gpu_is_full(const td_gpu *g)
{
    return g->nmessages >= FULL_MESSAGES;
}

/* ---- staging memory */

int td_gpu_piece_take(td_gpu *g)
{
    for (int i = RESERVED; i < TD_GPU_PIECES; i++) {
        if (g->piece_used[i]) continue;
        g->piece_used[i] = true;
        return i;
    }
    return -1;
}

void td_gpu_piece_give(td_gpu *g, int piece)
{
    g->piece_used[piece] = false;
}

void *td_gpu_piece_at(td_gpu *g, int piece)
{
    return g->process.staging + td_gpu_piece_offset(piece);
}

/* Reads and writes of the loop go one after the other through the first piece. */
static void move_on(td_gpu *g)
{
    request *r = g->moving.first;
    const unsigned stream = TD_GPU_STREAMS - 1;
    if (!r || r->moving || !td_gpu_room(g, sizeof(td_gpu_move) + sizeof(td_gpu_mark))) return;
    size_t left = r->bytes - r->moved;
    r->moving = left < TD_GPU_PIECE ? left : TD_GPU_PIECE;
    bool down = r->what == WRITE;
    if (down) memcpy(g->process.staging, r->host + r->moved, r->moving);
    td_gpu_move *c = td_gpu_put(g, down ? TD_GPU_WRITE : TD_GPU_READ, stream, sizeof *c);
    c->to = down ? r->at + r->moved : 0;
    c->from = down ? 0 : r->at + r->moved;
    c->bytes = r->moving;
    td_gpu_mark_end(g, stream, INNER);
}

static void moved(td_gpu *g, const td_gpu_end *end, const char *why)
{
    request *r = g->moving.first;
    if (!r) return;
    if (!end->code && r->what == READ) memcpy(r->host + r->moved, g->process.staging, r->moving);
    r->moved += r->moving;
    r->moving = 0;
    if (end->code || r->moved == r->bytes) {
        td_error e = {0};
        if (end->code) td_fail(&e, TD_E_DEVICE, "%s: %s", td_device_name(g->o.device), why);
        take_request(&g->moving);
        answer(g, r, e.code, &e);
    }
    move_on(g);
}

/* ---- the ends of arenas */

static void drop_memory(td_gpu_memory *m)
{
    if (m->fd >= 0) close(m->fd);
    free(m);
}

static void forget_memory(td_gpu *g, td_gpu_memory *m)
{
    pthread_mutex_lock(&g->lock);
    td_gpu_memory **at = &g->memories;
    while (*at && *at != m) at = &(*at)->next;
    if (*at) *at = m->next;
    pthread_mutex_unlock(&g->lock);
    drop_memory(m);
}

/* Those for which there is no memory just now are kept for later. */
static void end_arenas(td_gpu *g, requests *asked)
{
    requests later = {0};
    for (request *r; (r = take_request(asked));) {
        const td_gpu_memory *m = r->memory;
        const td_gpu_arena end = {TD_GPU_ARENA_END, 0, m->address, m->bytes};
        bool told = g->process.socket < 0 || atomic_load(&m->lost) || say(g, &end, sizeof end);
        if (told) forget_memory(g, r->memory);
        else put_request(&later, r);
    }
    *asked = later;
}

/* ---- the process: its beginning and its end */

static void has_gone(td_gpu *g, const td_error *why)
{
    td_gpu_process_end(&g->process);
    drop_messages(g);
    memset(g->piece_used, 0, sizeof g->piece_used);
    memset(g->told, 0, sizeof g->told);
    td_error_clear(&g->last_word);
    end_arenas(g, &g->ending);
    answer_all(g, &g->making, why);
    for (request *r = g->moving.first; r; r = r->next) r->moving = 0;
    answer_all(g, &g->moving, why);
    pthread_mutex_lock(&g->lock);
    g->facts.pid = 0;
    for (td_gpu_memory *m = g->memories; m; m = m->next)
        if (m->fd < 0) atomic_store(&m->lost, true);
    pthread_mutex_unlock(&g->lock);
    g->client.lost(g->client.arg, why);
}

/* What is held by descriptors, at its addresses. What cannot be had there is lost. */
static int take_over(td_gpu *g, td_error *e)
{
    pthread_mutex_lock(&g->lock);
    td_gpu_memory *first = g->memories; /* others are put before it; what ends is taken out by this thread alone */
    pthread_mutex_unlock(&g->lock);
    for (td_gpu_memory *m = first; m; m = m->next) {
        td_gpu_made made;
        if (atomic_load(&m->lost)) continue;
        int rc = td_gpu_process_import(&g->process, m->address, m->bytes, m->fd, &made, e);
        if (rc) return rc;
        if (made.code) atomic_store(&m->lost, true);
    }
    return TD_OK;
}

static int tell_names(td_gpu *g, td_error *e)
{
    uint32_t i = 0;
    while (i < g->o.nnames) {
        td_gpu_names head = {TD_GPU_NAMES, i, 0, 0};
        message *m = message_new(TD_GPU_MESSAGE_MAX);
        if (!m) return td_no_memory(e, "to name its kernels");
        put_message(g, m);
        char *text = (char *)((td_gpu_names *)m->data + 1);
        for (; i < g->o.nnames; i++) {
            size_t n = strlen(g->o.names[i]) + 1;
            if (sizeof head + head.bytes + n > TD_GPU_MESSAGE_MAX) break;
            memcpy(text + head.bytes, g->o.names[i], n);
            head.bytes += (uint32_t)n;
            head.count++;
        }
        memcpy(m->data, &head, sizeof head);
        m->bytes = sizeof head + head.bytes;
    }
    return TD_OK;
}

static int start(td_gpu *g, td_error *e)
{
    td_gpu_greeting greeting;
    const td_gpu_start how = {.program = g->program,
                              .ordinal = g->o.ordinal,
                              .handles = g->o.handles,
                              .libraries = g->wordless < WORDLESS,
                              .staging = (uint64_t)TD_GPU_PIECES * TD_GPU_PIECE,
                              .patience_ms = GREETING_MS};
    int rc = td_gpu_process_start(&g->process, &how, &greeting, e);
    if (how.libraries) g->wordless = rc && (!greeting.kind || greeting.library[0]) ? g->wordless + 1 : 0;
    if (!rc) rc = take_over(g, e);
    if (!rc) rc = tell_names(g, e);
    if (!rc && !g->kept && !(g->kept = message_new(TD_GPU_MESSAGE_MAX))) rc = td_no_memory(e, "for its messages");
    if (rc) {
        drop_messages(g);
        td_gpu_process_end(&g->process);
        return rc;
    }
    g->seen = 0;
    pthread_mutex_lock(&g->lock);
    g->facts.started = true;
    g->facts.starts++;
    g->facts.pid = g->process.pid;
    g->facts.greeting = greeting;
    atomic_store(&g->products, (uint8_t)greeting.products);
    pthread_mutex_unlock(&g->lock);
    return TD_OK;
}

/* There is a process after this, or *why says why not. */
static bool be_ready(td_gpu *g, td_error *why)
{
    if (g->process.socket >= 0) return true;
    if (!g->failed_ms || td_clock_ms() - g->failed_ms >= AGAIN_MS) {
        td_error e = {0};
        if (!start(g, &e)) {
            g->failed_ms = 0;
            return true;
        }
        g->failed_ms = td_clock_ms();
        td_fail(&g->failure, TD_E_DEVICE, "%s cannot be used: %s", td_device_name(g->o.device), e.message);
    }
    *why = g->failure;
    return false;
}

/* ---- what comes */

static void made(td_gpu *g, const td_gpu_made *m, int fd)
{
    request *r = take_request(&g->making);
    td_error e = {0};
    if (!r) return;
    if (m->code == TD_GPU_NO_ROOM)
        td_fail(&e, TD_E_MEMORY, "%s has no %.1f MB to give: %s", td_device_name(g->o.device), (double)m->bytes / 1e6,
                m->why);
    else if (m->code) td_fail(&e, TD_E_DEVICE, "%s: %s", td_device_name(g->o.device), m->why);
    if (!e.code) {
        td_gpu_memory *of = r->memory;
        of->address = m->address;
        of->bytes = m->bytes;
        of->fd = fd;
        memcpy(of->handle, m->handle, sizeof of->handle);
        pthread_mutex_lock(&g->lock);
        of->next = g->memories;
        g->memories = of;
        pthread_mutex_unlock(&g->lock);
    }
    answer(g, r, e.code, &e);
}

static void ended(td_gpu *g, const td_gpu_ended *m)
{
    g->seen++;
    for (uint32_t i = 0; i < m->count && i < TD_GPU_ENDS_MAX; i++) {
        const td_gpu_end *end = &m->end[i];
        char why[sizeof g->told[0]] = "";
        if (end->code) {
            memcpy(why, g->told[end->stream % TD_GPU_STREAMS], sizeof why);
            g->told[end->stream % TD_GPU_STREAMS][0] = 0;
        }
        if (end->place & INNER) moved(g, end, why);
        else g->client.ended(g->client.arg, end, why);
    }
}

/* All that has come. False: the process has gone. */
static bool receive_all(td_gpu *g)
{
    uint64_t *data = g->received;
    int fd, n;
    while ((n = td_gpu_process_receive(&g->process, data, sizeof g->received, &fd)) > 0) {
        uint32_t kind = *(const uint32_t *)data;
        const td_gpu_told *told = (const td_gpu_told *)data;
        if (kind == TD_GPU_MADE) made(g, (const td_gpu_made *)data, fd);
        else if (fd >= 0) close(fd);
        if (kind == TD_GPU_ENDED) ended(g, (const td_gpu_ended *)data);
        else if (kind == TD_GPU_TOLD) memcpy(g->told[told->stream % TD_GPU_STREAMS], told->why, sizeof told->why);
        else if (kind == TD_GPU_FAILED)
            td_fail(&g->last_word, TD_E_DEVICE, "%s has failed: %s", td_device_name(g->o.device), told->why);
    }
    return n == 0;
}

/* ---- the thread */

static void serve(td_gpu *g, request *r, const td_error *why)
{
    const td_gpu_arena make = {TD_GPU_ARENA, 0, 0, r->bytes};
    td_error none = {0};
    if (r->what == END) {
        put_request(&g->ending, r);
    } else if (why) {
        answer(g, r, why->code, why);
    } else if (r->what == MAKE) {
        if (say(g, &make, sizeof make)) put_request(&g->making, r);
        else answer(g, r, td_no_memory(&none, "to ask %s for an arena", td_device_name(g->o.device)), &none);
    } else {
        put_request(&g->moving, r);
        move_on(g);
    }
}

/* What was asked for, and whether somebody poked. */
static bool take_asked(td_gpu *g, requests *asked)
{
    pthread_mutex_lock(&g->lock);
    bool poked = g->poked;
    g->poked = false;
    *asked = g->asked;
    g->asked = (requests){0};
    pthread_mutex_unlock(&g->lock);
    return poked;
}

static bool wants_process(const requests *asked)
{
    for (const request *r = asked->first; r; r = r->next)
        if (r->what != END) return true;
    return false;
}

static void died(td_gpu *g)
{
    td_error why = g->last_word;
    if (!why.code)
        td_fail(&why, TD_E_DEVICE, "%s has failed: its process (%d) has gone", td_device_name(g->o.device),
                g->process.pid);
    has_gone(g, &why);
}

static void wake(td_gpu *g)
{
    const uint64_t one = 1;
    if (write(g->wake, &one, sizeof one) < 0 && errno != EAGAIN) abort();
}

/* One turn. */
static void go_on(td_gpu *g)
{
    td_error no_process = {0};
    requests asked;
    bool here = g->process.socket >= 0;
    if (here && !receive_all(g)) {
        died(g);
        here = false;
    }
    bool poked = take_asked(g, &asked);
    bool ready = here || ((poked || wants_process(&asked)) && be_ready(g, &no_process));
    for (request *r; (r = take_request(&asked));) serve(g, r, ready ? NULL : &no_process);
    g->starved = false;
    end_arenas(g, &g->ending);
    move_on(g);
    if ((poked || here) && !td_gpu_is_full(g)) g->client.turn(g->client.arg, ready ? NULL : &no_process);
    if (g->process.socket >= 0 && !flush(g)) {
        receive_all(g); /* its last word */
        died(g);
    }
    if (g->starved && g->kept) wake(g); /* there is room again */
}

static void *run(void *arg)
{
    td_gpu *g = arg;
    sigset_t all;
    sigfillset(&all);
    /* Signals are the loop's, but for those that a thread's own fault raises: a client may punch what is copied. */
    for (size_t i = 0; i < 5; i++) sigdelset(&all, (const int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}[i]);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    for (bool stopping = false; !stopping;) {
        struct pollfd p[2] = {{g->wake, POLLIN, 0}, {g->process.socket, POLLIN | (g->first ? POLLOUT : 0), 0}};
        uint64_t count;
        poll(p, g->process.socket >= 0 ? 2 : 1, g->ending.first ? AGAIN_MS : -1);
        if (p[0].revents && read(g->wake, &count, sizeof count) < 0 && errno != EAGAIN) abort();
        pthread_mutex_lock(&g->lock);
        stopping = g->stopping;
        pthread_mutex_unlock(&g->lock);
        if (!stopping) go_on(g);
    }
    td_error why = {0};
    requests asked;
    td_fail(&why, TD_E_CANCELLED, "the daemon ends");
    take_asked(g, &asked);
    for (request *r; (r = take_request(&asked));) serve(g, r, &why);
    has_gone(g, &why);
    free(g->kept);
    return NULL;
}

/* ---- for all threads */

/* Under the lock. The thread is there after this. */
static int start_thread(td_gpu *g, td_error *e)
{
    if (g->stopping) return td_fail(e, TD_E_CANCELLED, "the daemon ends");
    if (g->started) return TD_OK;
    int err = pthread_create(&g->thread, NULL, run, g);
    if (err) return td_fail_errno(e, err, "no thread for %s", td_device_name(g->o.device));
    g->started = true;
    return TD_OK;
}

int td_gpu_begin(td_gpu *g, td_error *e)
{
    pthread_mutex_lock(&g->lock);
    int rc = start_thread(g, e);
    pthread_mutex_unlock(&g->lock);
    return rc;
}

static int ask(td_gpu *g, request *r, td_error *e)
{
    pthread_mutex_lock(&g->lock);
    int rc = start_thread(g, e);
    if (!rc) {
        put_request(&g->asked, r);
        wake(g);
        while (r->what != END && !r->done) pthread_cond_wait(&g->answered, &g->lock);
        if (r->what != END) rc = r->rc;
    }
    pthread_mutex_unlock(&g->lock);
    return rc;
}

void td_gpu_poke(td_gpu *g)
{
    pthread_mutex_lock(&g->lock);
    bool was = g->poked;
    g->poked = true;
    if (!was && !start_thread(g, NULL)) wake(g);
    pthread_mutex_unlock(&g->lock);
}

int td_gpu_make(td_gpu *g, uint64_t bytes, td_gpu_memory **out, td_error *e)
{
    td_error none = {0};
    arena *a = calloc(1, sizeof *a);
    td_gpu_memory *m = *out = a ? &a->memory : NULL;
    if (!m) return td_no_memory(e, "for an arena's record");
    m->gpu = g;
    m->fd = -1;
    request r = {.what = MAKE, .memory = m, .bytes = bytes, .e = e ? e : &none};
    int rc = ask(g, &r, e);
    if (rc) {
        free(m);
        *out = NULL;
    }
    return rc;
}

void td_gpu_end_memory(td_gpu_memory *m)
{
    td_gpu *g = m->gpu;
    request *r = &((arena *)m)->end;
    *r = (request){.what = END, .memory = m};
    if (ask(g, r, NULL)) forget_memory(g, m); /* the thread has ended: nobody else looks at it */
}

static int move(td_gpu *g, wish what, uint64_t at, void *memory, size_t bytes, td_error *e)
{
    td_error none = {0};
    request r = {.what = what, .at = at, .host = memory, .bytes = bytes, .e = e ? e : &none};
    return bytes ? ask(g, &r, e) : TD_OK;
}

int td_gpu_read(td_gpu *g, uint64_t from, void *to, size_t bytes, td_error *e)
{
    return move(g, READ, from, to, bytes, e);
}

int td_gpu_write(td_gpu *g, uint64_t to, const void *from, size_t bytes, td_error *e)
{
    return move(g, WRITE, to, (void *)from, bytes, e);
}

void td_gpu_get_facts(td_gpu *g, td_gpu_facts *out)
{
    pthread_mutex_lock(&g->lock);
    *out = g->facts;
    pthread_mutex_unlock(&g->lock);
}

uint8_t td_gpu_products(const td_gpu *g)
{
    return atomic_load_explicit(&g->products, memory_order_relaxed);
}

int td_gpu_new(td_gpu **out, const td_gpu_options *o, const td_gpu_client *client, td_error *e)
{
    td_gpu *g = *out = calloc(1, sizeof *g);
    if (!g) return td_no_memory(e, "for a GPU's record");
    g->o = *o;
    g->client = *client;
    g->process = (td_gpu_process){.socket = -1};
    if (o->program) snprintf(g->program, sizeof g->program, "%s", o->program);
    else td_gpu_program(g->program, sizeof g->program);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->answered, NULL);
    g->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (g->wake >= 0) return TD_OK;
    int rc = td_fail_errno(e, errno, "no descriptor for %s", td_device_name(o->device));
    td_gpu_free(g);
    *out = NULL;
    return rc;
}

void td_gpu_stop(td_gpu *g)
{
    pthread_mutex_lock(&g->lock);
    bool join = g->started && !g->stopped;
    g->stopping = g->stopped = true;
    if (join) wake(g);
    pthread_mutex_unlock(&g->lock);
    if (join) pthread_join(g->thread, NULL);
}

void td_gpu_free(td_gpu *g)
{
    if (!g) return;
    td_gpu_stop(g);
    if (g->wake >= 0) close(g->wake);
    pthread_cond_destroy(&g->answered);
    pthread_mutex_destroy(&g->lock);
    free(g);
}
