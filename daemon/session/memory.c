/* A session's memory: growing it without stopping the loop, addresses for the client.
 *
 * A small segment is made at once; a large one by a helper thread while the session is suspended and everybody else
 * goes on. Memory that is full while tasks are pending is not an error yet: they may free some. */
#include "daemon/session/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    CLEAR_MOST = 512,    /* of the dead, before a record is tried again */
    GROW_HERE = 2 << 20, /* bytes that are committed in well under a millisecond */
    LACK_MS = 2000       /* so long others' pending work is hoped to free memory; somebody always has some pending */
};

typedef struct grow_job {
    td_session *s;
    td_heap *heap;
    td_shm_backend backend;
    td_segment_kind kind;
    uint64_t size;
    td_segment *segment;
    td_error error;
    int rc;
} grow_job;

static void grow_work(void *arg)
{
    grow_job *j = arg;
    j->rc = td_segment_create(&j->segment, j->backend, j->kind, j->size, &j->error);
}

static void grow_done(void *arg)
{
    grow_job *j = arg;
    td_session *s = j->s;
    if (j->rc) td_heap_unreserve(j->heap, j->size);
    else td_heap_adopt(j->heap, j->segment);
    s->jobs--;
    if (s->ended) {
        td_session_try_free(s);
    } else {
        s->wait.failed = j->rc != 0;
        s->wait.error = j->error;
        td_session_ready(s);
    }
    free(j);
}

/* The record is run again; when the system itself refused, that is remembered, so that it does not ask for ever. */
static void grow_finished(td_session *s)
{
    s->grow_failed = s->wait.failed;
}

enum { HOLDERS = 3 };

typedef struct holder {
    uint64_t bytes;
    uint32_t pid;
    const char *program, *published; /* published: a name, whose session has ended */
    const td_storage *storage;
} holder;

/* The largest come first. */
static void weigh(holder top[HOLDERS], holder h)
{
    for (int i = 0; i < HOLDERS; i++) {
        if (h.storage && h.storage == top[i].storage) return; /* by another name */
        if (h.bytes <= top[i].bytes) continue;
        holder less = top[i];
        top[i] = h;
        h = less;
    }
}

/* What a living session published is among what it holds. */
static void weigh_name(const td_name *n, void *arg)
{
    const td_storage *st = n->tensor->storage;
    if (st->account && st->account->ended)
        weigh(arg, (holder){st->nbytes, n->pid, n->program, .published = n->name, .storage = st});
}

/* "; biggest holders: train (pid 7) 1.5 GB, 'weights' (published by load, pid 6) 0.5 GB" appended to the message. */
static void add_holders(const td_session *s, td_error *e)
{
    holder top[HOLDERS] = {{0}};
    for (const td_session *x = s->all->first; x; x = x->next)
        weigh(top, (holder){x->account->bytes, x->pid, x->account->name, .published = NULL});
    td_name_each(s->service, weigh_name, top);
    size_t n = strlen(e->message);
    for (int i = 0; i < HOLDERS && top[i].bytes && n < sizeof e->message; i++) {
        const holder *h = &top[i];
        const char *before = i ? ", " : "; biggest holders: ";
        double size = (double)h->bytes / 1e6;
        char *at = e->message + n;
        size_t room = sizeof e->message - n;
        int more = h->published ? snprintf(at, room, "%s'%.60s' (published by %s, pid %u, which has ended) %.1f MB",
                                           before, h->published, h->program, h->pid, size)
                                : snprintf(at, room, "%s%s (pid %u) %.1f MB", before, h->program, h->pid, size);
        n += (size_t)more;
    }
}

int td_session_lacks(td_session *s, int rc, uint64_t lack, td_heap *heap, td_error *e)
{
    if (s->grow_failed) {
        s->grow_failed = false;
        return td_fail(e, TD_E_MEMORY, "the system has no %.1f MB of shared memory to give (see `tensorctl doctor`)",
                       (double)lack / 1e6);
    }
    if (rc == TD_WAIT_GROW) rc = td_heap_reserve(heap, lack, e);
    if (rc) {
        if (s->all->remains || td_dead_waiting()) { /* some of it may be in what nobody holds any more */
            td_sessions_clear(s->all, CLEAR_MOST);
            return TD_AGAIN;
        }
        if (rc == TD_E_QUOTA) return rc;
        if (!s->lacks_since_ms) s->lacks_since_ms = td_now_ms();
        if (!td_sched_idle(s->service->sched) && td_now_ms() - s->lacks_since_ms < LACK_MS) {
            td_session_throttle(s, "memory");
            return TD_AGAIN;
        }
        s->lacks_since_ms = 0;
        add_holders(s, e);
        return rc;
    }
    grow_job *j = malloc(sizeof *j);
    if (!j) {
        td_heap_unreserve(heap, lack);
        return td_fail(e, TD_E_SYSTEM, "no memory to grow");
    }
    *j = (grow_job){.s = s,
                    .heap = heap,
                    .backend = s->service->budget.backend,
                    .size = lack,
                    .kind = heap == s->service->heap ? TD_SEGMENT_SERVICE : TD_SEGMENT_SESSION};
    s->jobs++;
    td_session_wait(s, "memory", false, grow_finished);
    td_service_options *o = &s->service->options;
    if (lack <= GROW_HERE || !o->background) {
        grow_work(j);
        grow_done(j);
    } else {
        o->background(o->arg, grow_work, grow_done, j);
    }
    return TD_AGAIN;
}

static bool was_sent(const td_session *s, const td_segment *g, bool writable)
{
    for (int i = 0; i < s->nsent; i++)
        if (s->sent[i].segment == g->id && s->sent[i].generation == g->generation && s->sent[i].writable >= writable)
            return true;
    return false;
}

/* A descriptor to attach, which from now on counts as sent; -1 when there is none to be had. */
static int send_descriptor(td_session *s, td_segment *g, bool writable)
{
    if (td_writer_descriptors_full(s->io.writer)) return -1; /* the client reads slowly, and asks again */
    td_sent *more = realloc(s->sent, (size_t)(s->nsent + 1) * sizeof *more);
    if (!more) return -1;
    s->sent = more;
    int copy = fcntl(writable ? g->fd : g->read_fd, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0) s->sent[s->nsent++] = (td_sent){g->id, g->generation, writable};
    if (copy >= 0 && writable) g->shared++;
    return copy;
}

int td_session_reader(td_session *s, const td_segment *g)
{
    return td_writer_descriptors_full(s->io.writer) ? -1 : fcntl(g->read_fd, F_DUPFD_CLOEXEC, 3);
}

/* Whoever was given the descriptor of a segment that goes would keep its memory alive by its mapping. */
void td_segment_leaving(const td_segment *g, void *sessions)
{
    for (td_session *s = ((td_sessions *)sessions)->first; s; s = s->next) {
        int kept = 0;
        for (int i = 0; i < s->nsent; i++)
            if (s->sent[i].segment != g->id || s->sent[i].generation != g->generation) s->sent[kept++] = s->sent[i];
        if (kept == s->nsent) continue;
        s->nsent = kept;
        td_event_unmap(s, g->id);
    }
}

void td_session_address(td_session *s, const td_storage *st, Td__Wire__Address *a, int *fd)
{
    td_segment *g = st->extent.segment;
    td__wire__address__init(a);
    a->segment = g->id;
    a->generation = g->generation;
    a->segment_size = g->size;
    a->offset = st->extent.offset;
    a->nbytes = st->nbytes;
    bool own = td_extent_heap(&st->extent) == s->heap;
    a->writable = g->kind == TD_SEGMENT_SESSION && (own || st->flags & TD_SF_LENT);
    if (own && a->writable) s->mapped = true;
    if (*fd >= 0 || was_sent(s, g, a->writable)) return; /* one descriptor a frame: the client asks again for another */
    *fd = send_descriptor(s, g, a->writable);
    a->descriptor = *fd >= 0;
}
