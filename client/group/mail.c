/* Messages from one rank to another.
 *
 * Each pair of ranks has a queue of the daemon for each tag that it uses, made by whichever of the two comes first: so
 * messages have an order, room for a few, deadlines, and a memory that both map. Up to a page of bytes goes as the
 * item's note, more as a tensor. Waits are cut in slices, between which the group's page says whether the other rank is
 * still there: it may go before it has ever used the queue. No collective is held up: mail has a lock of its own, and
 * does not hold it while it waits. */
#include "client/group/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    ROOM = 8,         /* messages on their way from one rank to another, of one tag */
    IN_NOTE = 4096,   /* bytes */
    SLICE_MS = 100,   /* then the page is looked at */
    GONE_MS = 200,    /* a queue has ended, and the page is to say why: it knows of a process's end a little later */
    LINES_MOST = 1024 /* of a member, in tags and other ranks */
};

#define NO_MORE (1u << 31) /* among g->mail.calls: none can begin */

typedef struct td_mail_line {
    struct td_mail_line *next;
    td_queue *queue;
    uint32_t peer;
    int32_t tag;
    bool sends;
} line;

/* What stands before the bytes of a message. */
typedef struct head {
    uint32_t dtype, ndim;
    int64_t dims[TD_MAX_DIMS];
} head;

/* ---- lines */

static line *find(const td_group *g, uint32_t peer, int32_t tag, bool sends)
{
    line *l = g->mail.lines;
    while (l && (l->peer != peer || l->tag != tag || l->sends != sends)) l = l->next;
    return l;
}

static line *open_line(td_group *g, uint32_t peer, int32_t tag, bool sends)
{
    char name[96];
    uint32_t from = sends ? g->rank : peer, to = sends ? peer : g->rank;
    if (g->mail.count >= LINES_MOST) {
        td_raise(TD_E_BUSY, NULL,
                 "rank %u of group '%s' sends and receives with %d tags and ranks, and cannot use more", g->rank,
                 g->name, LINES_MOST);
        return NULL;
    }
    line *l = calloc(1, sizeof *l);
    if (!l) {
        td_raise(TD_E_SYSTEM, NULL, "no memory for messages");
        return NULL;
    }
    snprintf(name, sizeof name, ".group/%u/%u-%u/%d", g->epoch, from, to, tag);
    l->queue = td_queue_open(g->client, name, ROOM, sends ? TD_PRODUCER : TD_CONSUMER);
    if (!l->queue) {
        free(l);
        return NULL;
    }
    l->peer = peer;
    l->tag = tag;
    l->sends = sends;
    l->next = g->mail.lines;
    g->mail.lines = l;
    g->mail.count++;
    return l;
}

static td_queue *queue_for(td_group *g, uint32_t peer, int32_t tag, bool sends)
{
    td_step_aside();
    pthread_mutex_lock(&g->mail.lock);
    td_step_back();
    line *l = find(g, peer, tag, sends);
    if (!l) l = open_line(g, peer, tag, sends);
    pthread_mutex_unlock(&g->mail.lock);
    return l ? l->queue : NULL;
}

int td_group_mail_end(td_group *g)
{
    unsigned none = 0;
    if (!atomic_compare_exchange_strong(&g->mail.calls, &none, NO_MORE))
        return td_raise(TD_E_BUSY, NULL, "another thread sends or receives a message in group '%s'", g->name);
    while (g->mail.lines) {
        line *l = g->mail.lines;
        g->mail.lines = l->next;
        td_queue_close(l->queue, false);
        free(l);
    }
    g->mail.count = 0;
    return TD_OK;
}

void td_group_mail_go_on(td_group *g)
{
    atomic_fetch_sub(&g->mail.calls, NO_MORE);
}

/* ---- waits */

typedef struct wait {
    td_group *group;
    uint32_t peer; /* TD_ANY_RANK: any */
    int32_t tag;
    bool sends;
    int timeout_ms;
    int64_t began, due; /* td_now_ms() */
} wait;

static bool is_there(const td_group *g, uint32_t rank)
{
    return atomic_load(&g->board.page->rank[rank].state) == TD_RANK_IN;
}

static bool anybody_is_there(const td_group *g)
{
    for (uint32_t r = 0; r < g->size; r++)
        if (r != g->rank && is_there(g, r)) return true;
    return false;
}

static int slice(const wait *w)
{
    int64_t left = w->due == INT64_MAX ? SLICE_MS : w->due - td_now_ms();
    return left < 1 ? 0 : left < SLICE_MS ? (int)left : SLICE_MS;
}

static const char *say_what(const wait *w, char *text, size_t size)
{
    snprintf(text, size, w->tag ? "a message of tag %d" : "a message", w->tag);
    return text;
}

static int lost(const wait *w)
{
    td_group *g = w->group;
    char what[64], before[96];
    if (w->peer == TD_ANY_RANK)
        return td_raise(TD_E_MEMBER, NULL, "nobody is left in group '%s' to send a message", g->name);
    snprintf(before, sizeof before, w->sends ? "before it took %s" : "before it sent %s",
             say_what(w, what, sizeof what));
    return td_group_member_lost(g, w->peer, before);
}

static int late(const wait *w)
{
    char what[64], whom[128];
    double seconds = (double)(td_now_ms() - w->began) / 1000;
    td_group *g = w->group;
    say_what(w, what, sizeof what);
    if (w->peer == TD_ANY_RANK) return td_raise(TD_E_TIMEOUT, NULL, "no rank has sent %s for %.3g s", what, seconds);
    td_group_say_rank(g, w->peer, whom, sizeof whom);
    if (w->sends)
        return td_raise(TD_E_TIMEOUT, NULL, "%s has taken none of %d messages for %.3g s, and there is no room for %s",
                        whom, ROOM, seconds, what);
    return td_raise(TD_E_TIMEOUT, NULL, "%s has not sent %s for %.3g s", whom, what, seconds);
}

/* The queue has ended: the page says soon how the other rank went. */
static int ended(const wait *w)
{
    static const struct timespec moment = {.tv_nsec = 2000000};
    for (int64_t until = td_now_ms() + GONE_MS; is_there(w->group, w->peer) && td_now_ms() < until;)
        nanosleep(&moment, NULL);
    return lost(w);
}

/* What a try of a slice has come to: TD_OK, TD_E_TIMEOUT to go on, or an error. */
static int judge(const wait *w, int rc, bool *go_on)
{
    *go_on = false;
    if (rc == TD_E_CLOSED) return ended(w);
    if (rc != TD_E_TIMEOUT) return rc;
    if (!is_there(w->group, w->peer)) return lost(w);
    if (td_now_ms() >= w->due) return late(w);
    td_clear_error();
    *go_on = true;
    return TD_OK;
}

static int check_peer(const td_group *g, uint32_t peer)
{
    if (peer != TD_ANY_RANK && peer >= g->size)
        return td_raise(TD_E_INVALID, NULL, "group '%s' of %u has ranks 0 to %u; there is no rank %u", g->name, g->size,
                        g->size - 1, peer);
    return peer == g->rank ? td_raise(TD_E_INVALID, NULL, "rank %u cannot send itself messages", peer) : TD_OK;
}

/* The handle's epoch stays as it is until the call's end. */
static int begin(wait *w, td_group *g, uint32_t peer, int tag, bool sends, int timeout_ms)
{
    if (!g) return td_raise(TD_E_INVALID, NULL, "the group is NULL");
    if (!td_group_is_own(g)) return td_group_refuse_child(g, NULL);
    if (atomic_fetch_add(&g->mail.calls, 1) & NO_MORE) {
        atomic_fetch_sub(&g->mail.calls, 1);
        return td_raise(TD_E_BUSY, NULL, "another thread regroups group '%s', or leaves it", g->name);
    }
    int rc = check_peer(g, peer);
    if (rc) {
        atomic_fetch_sub(&g->mail.calls, 1);
        return rc;
    }
    *w = (wait){.group = g, .peer = peer, .tag = tag, .sends = sends, .began = td_now_ms()};
    w->timeout_ms = timeout_ms < 0 ? g->timeout_ms : timeout_ms;
    w->due = w->timeout_ms < 0 ? INT64_MAX : w->began + w->timeout_ms;
    return TD_OK;
}

static void end(const wait *w)
{
    atomic_fetch_sub(&w->group->mail.calls, 1);
}

static int tell(const char *op, const char *where, int rc)
{
    td_error why = *td_last_error();
    td_raise_error(&why, op, where);
    return rc;
}

/* ---- sending */

static int put(const wait *w, td_array *tensor, const void *note, size_t size)
{
    td_queue *q = queue_for(w->group, w->peer, w->tag, true);
    bool go_on = true;
    int rc = q ? TD_OK : td_last_error()->code;
    td_list list = {tensor ? 1 : 0, &tensor};
    while (q && go_on) rc = judge(w, td_queue_put(q, list, note, size, slice(w)), &go_on);
    return rc;
}

static int send_bytes(const wait *w, const head *h, const void *data, size_t bytes)
{
    td_ints shape = {(int)h->ndim, h->dims};
    unsigned char note[sizeof *h + IN_NOTE];
    memcpy(note, h, sizeof *h);
    if (bytes <= IN_NOTE) {
        if (bytes) memcpy(note + sizeof *h, data, bytes);
        return put(w, NULL, note, sizeof *h + bytes);
    }
    td_array *a = td_from_data(w->group->client, (td_dtype)h->dtype, shape, data);
    if (!a) return td_last_error()->code;
    int rc = put(w, a, note, sizeof *h);
    td_release(a);
    return rc;
}

static int check_data(td_dtype dtype, td_ints shape, const void *data, head *h, size_t *bytes)
{
    if (dtype < 0 || dtype >= TD_DTYPE_COUNT) return td_raise(TD_E_TYPE, NULL, "there is no dtype %d", (int)dtype);
    if (shape.n < 0 || shape.n > TD_MAX_DIMS)
        return td_raise(TD_E_INVALID, NULL, "a message has up to %d dimensions, not %d", TD_MAX_DIMS, shape.n);
    *h = (head){.dtype = (uint32_t)dtype, .ndim = (uint32_t)shape.n};
    uint64_t n = td_dtype_size(dtype);
    for (int i = 0; i < shape.n; i++) {
        h->dims[i] = shape.at[i];
        if (shape.at[i] < 0 || __builtin_mul_overflow(n, (uint64_t)shape.at[i], &n) || n > INT64_MAX)
            return td_raise(TD_E_INVALID, NULL, "a message of size %lld in dimension %d", (long long)shape.at[i], i);
    }
    *bytes = n;
    return n && !data ? td_raise(TD_E_INVALID, NULL, "%llu bytes at NULL", (unsigned long long)n) : TD_OK;
}

TD_API int td_group_at_send(const char *where, td_group *g, const void *data, td_dtype dtype, td_ints shape,
                            uint32_t to, int tag, int timeout_ms)
{
    head h;
    wait w;
    size_t bytes = 0;
    int rc = to == TD_ANY_RANK ? td_raise(TD_E_INVALID, NULL, "a message goes to one rank") : TD_OK;
    if (!rc) rc = check_data(dtype, shape, data, &h, &bytes);
    if (!rc) rc = begin(&w, g, to, tag, true, timeout_ms);
    if (rc) return tell("send", where, rc);
    rc = send_bytes(&w, &h, data, bytes);
    end(&w);
    return rc ? tell("send", where, rc) : TD_OK;
}

/* ---- receiving */

static int get_from(const wait *w, td_queue_item *item)
{
    td_queue *q = queue_for(w->group, w->peer, w->tag, false);
    bool go_on = true;
    int rc = q ? TD_OK : td_last_error()->code;
    while (q && go_on) rc = judge(w, td_queue_get(q, item, slice(w)), &go_on);
    return rc;
}

/* One look at each rank's queue: TD_E_TIMEOUT when there is nothing. */
static int look_at_all(const wait *w, td_queue_item *item, uint32_t *from)
{
    td_group *g = w->group;
    for (uint32_t r = 0; r < g->size; r++) {
        if (r == g->rank) continue;
        td_queue *q = queue_for(g, r, w->tag, false);
        if (!q) return td_last_error()->code;
        int rc = td_queue_get(q, item, 0);
        *from = r;
        if (rc != TD_E_TIMEOUT && rc != TD_E_CLOSED) return rc;
    }
    return TD_E_TIMEOUT;
}

static int get_from_any(const wait *w, td_queue_item *item, uint32_t *from)
{
    enum { MOST_NS = 2000000 };
    struct timespec pause = {.tv_nsec = 50000};
    for (;;) {
        bool somebody = anybody_is_there(w->group); /* what those sent who have gone since then is found */
        int rc = look_at_all(w, item, from);
        if (rc != TD_E_TIMEOUT) return rc;
        if (!somebody) return lost(w);
        if (td_now_ms() >= w->due) return late(w);
        td_clear_error();
        td_step_aside();
        nanosleep(&pause, NULL);
        td_step_back();
        if (pause.tv_nsec < MOST_NS) pause.tv_nsec *= 2;
    }
}

/* A rank is as honest as the program, but a name may be anybody's. */
static int unpack(td_message *m, td_queue_item *item)
{
    head h;
    uint64_t count = 1;
    bool good = item->note_size >= sizeof h && item->n <= 1;
    if (good) memcpy(&h, item->note, sizeof h);
    good = good && h.dtype < TD_DTYPE_COUNT && h.ndim <= TD_MAX_DIMS;
    for (uint32_t i = 0; good && i < h.ndim; i++)
        good = h.dims[i] >= 0 && !__builtin_mul_overflow(count, (uint64_t)h.dims[i], &count) && count < INT64_MAX / 16;
    size_t bytes = good ? count * td_dtype_size((td_dtype)h.dtype) : 0;
    if (good && item->n) good = td_nbytes(item->at[0]) == (int64_t)bytes && td_is_contiguous(item->at[0]);
    else if (good) good = item->note_size == sizeof h + bytes;
    if (!good) return td_raise(TD_E_PROTOCOL, NULL, "the message is none that a rank sends");
    m->dtype = (td_dtype)h.dtype;
    m->ndim = (int)h.ndim;
    memcpy(m->dims, h.dims, sizeof m->dims);
    m->count = count;
    m->item = *item;
    m->data = item->n ? td_data(item->at[0]) : (const unsigned char *)item->note + sizeof h;
    return m->data || !bytes ? TD_OK : td_last_error()->code;
}

TD_API int td_group_at_receive(const char *where, td_group *g, uint32_t from, int tag, int timeout_ms, td_message *out)
{
    wait w;
    td_queue_item item;
    *out = (td_message){.from = from};
    int rc = begin(&w, g, from, tag, false, timeout_ms);
    if (rc) return tell("receive", where, rc);
    rc = from == TD_ANY_RANK ? get_from_any(&w, &item, &out->from) : get_from(&w, &item);
    end(&w);
    if (rc) return tell("receive", where, rc);
    rc = unpack(out, &item);
    if (!rc) return TD_OK;
    td_queue_item_clear(&item);
    return tell("receive", where, rc);
}

TD_API void td_message_clear(td_message *m)
{
    td_queue_item_clear(&m->item);
    *m = (td_message){0};
}

static int copy_out(const td_message *m, void *out, td_dtype dtype, uint64_t count)
{
    if (m->dtype != dtype || m->count != count)
        return td_raise(TD_E_MISMATCH, NULL, "rank %u sent %s[%llu], and this rank expects %s[%llu]", m->from,
                        td_dtype_name(m->dtype), (unsigned long long)m->count, td_dtype_name(dtype),
                        (unsigned long long)count);
    if (count) memcpy(out, m->data, count * td_dtype_size(dtype));
    return TD_OK;
}

TD_API int td_group_at_recv(const char *where, td_group *g, void *out, td_dtype dtype, uint64_t count, uint32_t from,
                            int tag, int timeout_ms, uint32_t *came_from)
{
    td_message m;
    if (dtype < 0 || dtype >= TD_DTYPE_COUNT || (count && !out))
        return td_raise(TD_E_INVALID, "recv", "%llu elements of dtype %d at %p", (unsigned long long)count, (int)dtype,
                        out);
    int rc = td_group_at_receive(where, g, from, tag, timeout_ms, &m);
    if (rc) return rc;
    if (came_from) *came_from = m.from;
    rc = copy_out(&m, out, dtype, count);
    td_message_clear(&m);
    return rc ? tell("recv", where, rc) : TD_OK;
}
