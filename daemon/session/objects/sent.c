/* Descriptors that a client was sent, and addresses: where a storage lies, as its client may see it.
 *
 * A client gets the descriptor of a segment once. What it has is known by session, and by segment for when that goes.
 */
#include "daemon/session/objects/objects.h"
#include "proto/base/device.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct td_sent_of {
    UT_hash_handle hh;
    struct {
        uint32_t segment, generation;
    } key;
    td_sent *first;
} td_sent_of;

static td_sent_of *sent_of(td_sessions *all, uint32_t segment, uint32_t generation, bool make)
{
    td_sent_of *of, key = {.key = {segment, generation}};
    HASH_FIND(hh, all->sent, &key.key, sizeof key.key, of);
    if (of || !make) return of;
    of = calloc(1, sizeof *of);
    if (!of) return NULL;
    of->key = key.key;
    HASH_ADD(hh, all->sent, key, sizeof of->key, of);
    if (TD_HASHED(of)) return of;
    free(of);
    return NULL;
}

/* NULL: out of memory. */
static td_sent *sent_new(td_session *s, const td_segment *g, bool writable)
{
    td_sent_of *of = sent_of(s->all, g->id, g->generation, true);
    td_sent *x = of ? malloc(sizeof *x) : NULL;
    if (x) {
        *x = (td_sent){.next = s->memory.sent,
                       .next_of = of->first,
                       .at_of = &of->first,
                       .of = of,
                       .session = s,
                       .segment = g->id,
                       .generation = g->generation,
                       .writable = writable};
        if (x->next) x->next->prev = x;
        if (x->next_of) x->next_of->at_of = &x->next_of;
        s->memory.sent = of->first = x;
    } else if (of && !of->first) {
        HASH_DEL(s->all->sent, of);
        free(of);
    }
    return x;
}

static void sent_end(td_sent *x)
{
    td_sessions *all = x->session->all;
    *(x->prev ? &x->prev->next : &x->session->memory.sent) = x->next;
    if (x->next) x->next->prev = x->prev;
    *x->at_of = x->next_of;
    if (x->next_of) x->next_of->at_of = x->at_of;
    if (!x->of->first) {
        HASH_DEL(all->sent, x->of);
        free(x->of);
    }
    free(x);
}

void td_session_forget_sent(td_session *s)
{
    while (s->memory.sent) sent_end(s->memory.sent);
}

td_segment *td_sent_segment(const td_session *s, const td_sent *x)
{
    return td_heap_find_segment(s->heap, x->segment, x->generation);
}

/* It has nothing of that mapped, and no descriptor. */
void td_sent_forget(td_session *s, td_sent *x)
{
    td_segment *g = x->writable ? td_sent_segment(s, x) : NULL;
    if (g && g->shared) g->shared--;
    sent_end(x);
}

static bool was_sent(const td_session *s, const td_segment *g, bool writable)
{
    for (const td_sent *x = s->memory.sent; x; x = x->next)
        if (x->segment == g->id && x->generation == g->generation && x->writable >= writable && !x->asked) return true;
    return false;
}

/* Where it is remembered: one place for each kind of descriptor, however often it is sent. NULL: out of memory. */
static td_sent *remember(td_session *s, td_segment *g, bool writable)
{
    for (td_sent *x = s->memory.sent; x; x = x->next)
        if (x->segment == g->id && x->generation == g->generation && x->writable == writable) return x;
    td_sent *x = sent_new(s, g, writable);
    if (x && writable) g->shared++;
    return x;
}

/* A descriptor to attach, which from now on counts as sent; -1 when there is none to be had. */
static int send_descriptor(td_session *s, td_segment *g, bool writable)
{
    if (td_writer_descriptors_full(s->io.writer)) return -1; /* the client reads slowly, and asks again */
    int from = writable ? g->fd : g->read_fd, copy = fcntl(from, F_DUPFD_CLOEXEC, 3);
    if (copy < 0 && td_sessions_shed(s->all)) copy = fcntl(from, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return -1;
    td_sent *x = remember(s, g, writable); /* only now: what is shed is forgotten */
    if (!x) {
        close(copy);
        return -1;
    }
    x->asked = false; /* what it says of having unmapped it was said before this came */
    return copy;
}

int td_session_reader(td_session *s, const td_segment *g)
{
    return td_writer_descriptors_full(s->io.writer) ? -1 : fcntl(g->read_fd, F_DUPFD_CLOEXEC, 3);
}

/* Its word is taken for it, as others of the same user may then get the memory: between these it is accidents that are
 * guarded against. All of it: nothing points there any more, as the client is about to go. */
void td_session_unmapped(td_session *s, uint32_t segment, uint32_t generation)
{
    bool all = segment == 0;
    for (td_sent *x = s->memory.sent, *next; x; x = next) {
        next = x->next;
        if (!all && (x->segment != segment || x->generation != generation || !x->asked)) continue;
        td_sent_forget(s, x);
    }
    if (all) s->memory.mapped = s->memory.inherited;
    td_heap_trim(s->heap);
}

/* Whoever was given the descriptor of a segment that goes would keep its memory alive by its mapping. */
void td_segment_leaving(const td_segment *g, void *sessions)
{
    td_sent_of *of = sent_of(sessions, g->id, g->generation, false);
    for (td_sent *x = of ? of->first : NULL, *next; x; x = next) {
        td_session *s = x->session;
        next = x->next_of;
        if (!next || next->session != s) td_event_unmap(s, g->id); /* it may have two, that came one after the other */
        sent_end(x);
    }
}

bool td_session_locate(td_session *s, td_storage *st, Td__Wire__Address *a)
{
    td_segment *g = st->extent.segment;
    td__wire__address__init(a);
    if (!td_storage_on_host(st)) return false; /* none: nobody maps it */
    a->segment = g->id;
    a->generation = g->generation;
    a->segment_size = g->size;
    a->offset = st->extent.offset;
    a->nbytes = st->nbytes;
    bool own = td_extent_heap(&st->extent) == s->heap;
    a->writable = g->kind == TD_SEGMENT_SESSION && (own || st->flags & TD_SF_LENT);
    if (own && a->writable) s->memory.mapped = true;
    if (a->writable) td_storage_mapped(st);
    return !was_sent(s, g, a->writable);
}

int td_session_descriptor(td_session *s, const td_storage *st, bool writable)
{
    td_segment *g = st->extent.segment;
    return was_sent(s, g, writable) ? -1 : send_descriptor(s, g, writable);
}

void td_session_address(td_session *s, td_storage *st, Td__Wire__Address *a, int *fd)
{
    if (!td_session_locate(s, st, a) || *fd >= 0)
        return; /* one descriptor a frame: the client asks again for another */
    *fd = send_descriptor(s, st->extent.segment, a->writable);
    a->descriptor = *fd >= 0;
}

int td_session_device_address(td_session *s, const td_storage *st, td_device_handle *h, Td__Wire__Address *a, int *fd,
                              td_error *e)
{
    const td_segment *g = st->extent.segment;
    const td_device_memory *of = td_device_get(st->device)->memory;
    const char *name = td_device_name(st->device);
    if (!of->handle) return td_fail(e, TD_E_UNSUPPORTED, "nobody maps what lies on %s; copy it to the cpu first", name);
    if (g->uid != s->uid)
        return td_fail(e, TD_E_PERMISSION, "the tensor lies in memory of another user on %s; clone() it first", name);
    int rc = of->handle(st, h, e);
    if (rc) return rc;
    if (h->fd >= 0) *fd = td_writer_descriptors_full(s->io.writer) ? -1 : fcntl(h->fd, F_DUPFD_CLOEXEC, 3);
    if (h->fd >= 0 && *fd < 0) return td_fail(e, TD_E_BUSY, "no descriptor to send of %s's memory", name);
    td__wire__address__init(a);
    a->segment = g->id;
    a->generation = g->generation;
    a->segment_size = g->size;
    a->offset = st->extent.offset;
    a->nbytes = st->nbytes;
    a->writable = true;
    a->descriptor = *fd >= 0;
    a->handle_kind = h->fd >= 0 ? TD__WIRE__HANDLE_KIND__HANDLE_CUDA_ARENA : TD__WIRE__HANDLE_KIND__HANDLE_CUDA_LEGACY;
    if (h->fd < 0) a->cuda_handle = (ProtobufCBinaryData){sizeof h->legacy, h->legacy};
    a->device_uuid = (ProtobufCBinaryData){sizeof h->uuid, h->uuid};
    return TD_OK;
}
