/* Queues of tensors between sessions.
 *
 * A queue's number belongs to a session; after fork() the child's is opened again by name.
 *
 * A put that may wait for ever does not wait here: the item is on its way when it returns, and what became of it is
 * looked at by the next put or the close. One put at most is on its way, so that the queue stays bounded. */
#include "client/share/queue.h"
#include "client/share/internal.h"
#include "client/tensor/awaited.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_IDS = 4 }; /* brought by the first get; an item that has more tensors tells how many */

/* Under the lock. */
static int open_queue(td_queue *q)
{
    td_client *c = q->client;
    Td__Wire__QueueOpen o = TD__WIRE__QUEUE_OPEN__INIT;
    o.name = q->name;
    o.queue = q->number;
    o.capacity = q->capacity;
    o.role = q->role;
    o.keep_ms = q->keep_ms;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.queue_open = &o;
    td_reply_wait w = {0};
    q->session = c->session; /* what other threads ask of it meanwhile comes after this */
    int rc = td_ask_and_wait(c, &call, -1, &w, "queue_open");
    if (rc) q->session = 0;
    return rc;
}

static bool name_fits(const td_queue *q, const char *name)
{
    return name && name[0] && strlen(name) < sizeof q->name;
}

/* keep_ms as on the wire. */
static td_queue *join_queue(td_client *c, const char *name, uint32_t capacity, unsigned role, uint32_t keep_ms)
{
    if (td_enter(c, "queue_open")) return NULL;
    td_queue *q = calloc(1, sizeof *q);
    int rc = TD_OK;
    if (!q) rc = td_raise(TD_E_SYSTEM, "queue_open", "no memory");
    else if (!name_fits(q, name))
        rc = td_raise(TD_E_INVALID, "queue_open", "a queue's name has 1 to %zu bytes", sizeof q->name - 1);
    if (!rc) {
        *q = (td_queue){.client = c,
                        .number = ++c->share.next_queue,
                        .capacity = capacity,
                        .role = role,
                        .keep_ms = keep_ms,
                        .expected = FIRST_IDS};
        snprintf(q->name, sizeof q->name, "%s", name);
        rc = open_queue(q);
    }
    if (!rc) c->handles++;
    td_leave(c);
    if (!rc) return q;
    free(q);
    return NULL;
}

TD_API td_queue *td_queue_open(td_client *c, const char *name, uint32_t capacity, unsigned role)
{
    return join_queue(c, name, capacity, role, 0);
}

TD_API td_queue *td_queue_open_keeping(td_client *c, const char *name, uint32_t capacity, unsigned role, int keep_ms)
{
    return join_queue(c, name, capacity, role, keep_ms > 0 ? (uint32_t)keep_ms : UINT32_MAX);
}

static uint32_t users(const td_queue *q)
{
    uint64_t now = q->users;
    return now >> 32 == td_fork_generation() ? (uint32_t)now : 0;
}

void td_queue_use(td_queue *q)
{
    uint64_t mine = (uint64_t)td_fork_generation() << 32, before = q->users;
    while (!atomic_compare_exchange_weak(&q->users, &before, (before >> 32 == mine >> 32 ? before : mine) + 1))
        continue;
}

/* Under the lock. */
static void free_unused(td_queue *q)
{
    if (users(q) || !q->closed) return;
    q->client->handles--;
    free(q);
}

void td_queue_unuse(td_queue *q)
{
    if (users(q)) q->users--;
    free_unused(q);
}

int td_queue_enter(td_queue *q, const char *op)
{
    if (!q) return td_last_error()->code ? td_last_error()->code : td_raise(TD_E_INVALID, op, "the queue is NULL");
    td_client *c = q->client;
    td_queue_use(q);
    int rc = td_enter(c, op);
    if (rc && !td_fork_intact()) return rc; /* who has the lock is in another process */
    if (rc) td_lock(c);
    if (rc) q->on_its_way = q->on_its_way && !c->lost; /* what became of it is told now */
    else if (q->leaving && q->session == c->session)
        rc = td_raise(TD_E_CLOSED, op, "queue '%s' is being closed by another thread", q->name);
    else if (q->session != c->session) {
        q->on_its_way = false; /* that was the parent's */
        rc = open_queue(q);
    }
    if (!rc) return TD_OK;
    td_queue_unuse(q);
    td_leave(c);
    return rc;
}

/* Under the lock: gives it up. `stays`: where time is over, its user goes on with it. */
static int leave_queue(td_queue *q, int rc, const char *op, bool stays)
{
    td_client *c = q->client;
    if (q->leaving && rc && rc != TD_E_CANCELLED && rc != TD_E_LOST) {
        td_clear_error();
        rc = td_raise(TD_E_CLOSED, op, "the queue was closed by another thread");
    }
    if (!stays || rc != TD_E_TIMEOUT) td_queue_unuse(q);
    td_leave(c);
    return rc;
}

/* The end of such a stay. */
static void end_stay(td_queue *q)
{
    if (!td_fork_intact()) return;
    td_client *c = q->client;
    td_lock(c);
    td_queue_unuse(q);
    td_unlock(c);
}

bool td_queue_over(td_queue *q)
{
    td_client *c = q->client;
    if (!c->lost || !td_fork_intact()) return false;
    td_queue_use(q); /* another thread may close it while the lock is waited for */
    td_lock(c);
    bool told = !q->on_its_way || (q->put.done && !q->put.code);
    td_queue_unuse(q);
    td_unlock(c);
    return told;
}

/* What became of the put before; its failure is told here, once. */
static int finish_put(td_queue *q)
{
    if (!q->on_its_way) return TD_OK;
    int rc = td_await(q->client, &q->put, "queue_put");
    q->on_its_way = false;
    return rc;
}

/* `most`: milliseconds of the timeout, or of for ever, that are waited for here; negative: all. */
static int send_put(td_queue *q, td_list arrays, const void *note, size_t note_size, int timeout_ms, int most)
{
    td_client *c = q->client;
    if (q->on_its_way && !q->put.done && c->in.reader.ring) td_poll_replies(c); /* costs no system call */
    if (c->lost) return td_raise(c->lost, "queue_put", "%s", c->why.message);
    bool known = !q->on_its_way || q->put.done;
    int rc = known ? finish_put(q) : TD_OK;
    if (rc) return rc;
    if (timeout_ms < 0 && known) {
        td_put_call p;
        td_say_put(&p, q, arrays, note, note_size, td_timeout(timeout_ms));
        p.put.later = true;
        q->put = (td_reply_wait){.put = true};
        rc = td_ask(c, &p.call, -1, &q->put);
        q->on_its_way = !rc;
        c->due.puts_sent = true;
        return rc;
    }
    if (most >= 0 && (timeout_ms < 0 || timeout_ms > most)) timeout_ms = most;
    rc = td_put_item(q, arrays, note, note_size, timeout_ms); /* its answer brings that of the put before along */
    if (q->put.done && !q->put.code) q->on_its_way = false;   /* a failure is told by the next */
    return rc;
}

int td_check_put(td_queue *q, td_list arrays)
{
    td_client *c = q->client;
    if (arrays.n > TD_MAX_ITEM)
        return td_raise(TD_E_INVALID, "queue_put", "%d tensors in one item; at most %d", arrays.n, TD_MAX_ITEM);
    return td_list_client(&c, arrays, "queue_put", "an array");
}

/* ---- a wait for nobody ------------------------------------------------------------------------------------------- */

enum { SILENT_MS = 1000 };

static void write_to_stderr(const char *line)
{
    ssize_t n = write(STDERR_FILENO, line, strlen(line));
    (void)n; /* where there is none, nobody is told */
}

void (*td_say)(const char *line) = write_to_stderr;

/* A line for the program, once, when nobody has joined who could put, or get. Fails only when the program is stopped
 * meanwhile. */
static int tell_of_waiting(td_queue *q, bool put)
{
    const td_client *c = q->client;
    char elsewhere[512], line[1024];
    td_queue_state is;
    td_clear_error();
    int rc = td_queue_look(q->client, q->name, &is);
    if (rc == TD_E_CANCELLED) return rc;
    td_clear_error();
    if (rc || (put ? is.consumers : is.producers) || atomic_exchange(&q->told, true)) return TD_OK;
    bool found = td_queue_elsewhere(c, q->name, put, elsewhere, sizeof elsewhere);
    if (!found)
        snprintf(elsewhere, sizeof elsewhere, "%s",
                 c->daemon.is_private
                     ? "Only this program, and those that it starts, find the daemon that it is in: to meet "
                       "others, start `tensord` before all of them"
                     : "");
    snprintf(line, sizeof line,
             "tensord: %s() has waited for a second%s, and nobody has joined queue '%s' as a %s%s%s\n",
             put ? "put" : "get", put ? " for room" : "", q->name, put ? "consumer" : "producer",
             elsewhere[0] ? ". " : "", elsewhere);
    td_say(line);
    return TD_OK;
}

void td_queue_tell(td_queue *q, bool put)
{
    if (q->told) return;
    td_queue_use(q);
    tell_of_waiting(q, put);
    end_stay(q);
}

/* Is the first part of a wait as long as this one worth an end of its own? */
static bool may_tell(const td_queue *q, int timeout_ms)
{
    return q && !q->told && (timeout_ms < 0 || timeout_ms > SILENT_MS);
}

/* How long to wait still, when the first part and what was told took until now. */
static int time_left(int timeout_ms, int64_t until)
{
    int64_t left = until - td_now_ms();
    return timeout_ms < 0 ? timeout_ms : left > 0 ? (int)left : 0;
}

/* `most` as in send_put(), `stays` as in leave_queue(). */
static int put_within(td_queue *q, td_list arrays, const void *note, size_t note_size, int timeout_ms, int most,
                      bool stays)
{
    int rc = td_queue_enter(q, "queue_put");
    if (rc) return rc;
    rc = td_check_put(q, arrays);
    if (!rc) rc = send_put(q, arrays, note, note_size, timeout_ms, most);
    return leave_queue(q, rc, "queue_put", stays);
}

TD_API int td_queue_put(td_queue *q, td_list arrays, const void *note, size_t note_size, int timeout_ms)
{
    if (!may_tell(q, timeout_ms)) return put_within(q, arrays, note, note_size, timeout_ms, -1, false);
    int64_t until = td_now_ms() + timeout_ms;
    int rc = put_within(q, arrays, note, note_size, timeout_ms, SILENT_MS, true);
    if (rc != TD_E_TIMEOUT) return rc;
    rc = tell_of_waiting(q, true);
    if (!rc) rc = put_within(q, arrays, note, note_size, time_left(timeout_ms, until), -1, false);
    end_stay(q);
    return rc;
}

/* ---- get --------------------------------------------------------------------------------------------------------- */

static int get_within(td_queue *q, td_queue_item *item, int timeout_ms, bool stays)
{
    memset(item, 0, sizeof *item);
    int rc = td_queue_enter(q, "queue_get");
    if (rc) return rc;
    rc = td_get_item(q, item, timeout_ms);
    return leave_queue(q, rc, "queue_get", stays);
}

TD_API int td_queue_get(td_queue *q, td_queue_item *item, int timeout_ms)
{
    if (!may_tell(q, timeout_ms)) return get_within(q, item, timeout_ms, false);
    int64_t until = td_now_ms() + timeout_ms;
    int rc = get_within(q, item, SILENT_MS, true);
    if (rc != TD_E_TIMEOUT) return rc;
    rc = tell_of_waiting(q, false);
    if (!rc) rc = get_within(q, item, time_left(timeout_ms, until), false);
    end_stay(q);
    return rc;
}

TD_API void td_queue_item_clear(td_queue_item *item)
{
    for (int k = 0; k < item->n; k++) td_release(item->at[k]);
    free(item->at);
    free(item->note);
    memset(item, 0, sizeof *item);
}

static int on_state(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    td_queue_state *out = w->context;
    const Td__Wire__QueueState *q = r->queue;
    if (!q) return td_fail(e, TD_E_PROTOCOL, "no state of a queue came");
    *out = (td_queue_state){q->items, q->capacity, q->producers, q->consumers, q->full, q->ended, q->keep_ms};
    return TD_OK;
}

TD_API int td_queue_look(td_client *c, const char *name, td_queue_state *out)
{
    *out = (td_queue_state){0};
    Td__Wire__QueueLook q = TD__WIRE__QUEUE_LOOK__INIT;
    q.name = (char *)(name ? name : "");
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.queue_look = &q;
    return td_ask_once(c, "queue_look", &call, on_state, out);
}

/* The handle ends, without a wait and without a word about what was on its way. */
void td_queue_forget(td_queue *q)
{
    if (!q) return;
    td_client *c = q->client;
    td_lock(c);
    if (!c->lost && q->session == c->session) {
        Td__Wire__QueueClose close = TD__WIRE__QUEUE_CLOSE__INIT;
        close.queue = q->number;
        Td__Wire__Call call = TD__WIRE__CALL__INIT;
        call.queue_close = &close;
        td_tell(c, &call);
        if (q->on_its_way) td_leave_put(c, &q->put);
    }
    q->closed = true;
    free_unused(q);
    td_unlock(c);
}

TD_API int td_queue_close(td_queue *q, bool end)
{
    if (!q) return TD_OK;
    td_client *c = q->client;
    int rc = td_enter(c, "queue_close");
    bool entered = !rc;
    q->leaving = true;
    if (!rc && q->session == c->session) {
        Td__Wire__QueueClose close = TD__WIRE__QUEUE_CLOSE__INIT;
        close.queue = q->number;
        close.end = end;
        Td__Wire__Call call = TD__WIRE__CALL__INIT;
        call.queue_close = &close;
        td_reply_wait w = {0};
        rc = td_ask_and_wait(c, &call, -1, &w, "queue_close");
        int before = finish_put(q);
        if (before) rc = before;
        td_forget_wait(c, &q->put);
    }
    if (!entered) td_lock(c);
    q->closed = true;
    free_unused(q);
    td_leave(c);
    return rc;
}
