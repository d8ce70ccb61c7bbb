/* A session's memory: growing it without stopping the loop, addresses for the client.
 *
 * A small segment is made at once; a large one by a helper thread while the session is suspended and everybody else
 * goes on. Memory that is full while tasks are pending is not an error yet: they may free some. */
#include "daemon/session/state.h"
#include "daemon/tensor/device.h"
#include "proto/base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    CLEAR_MOST = 512, /* of the dead, before a record is tried again */
    ASKED_MS = 250,   /* clients that listen unmap at once */
    ASKED_LOOK_MS = 5,
    ASK_MOST = 512, /* sessions in one turn */
    SHED_MS = 100,
    LACK_MS = 2000 /* so long others' pending work is hoped to free memory; somebody always has some pending */
};

typedef struct td_growing {
    td_growth growth;
    td_session *s;
    bool unwanted; /* the session waits no more */
} td_growing;

static void grown(td_growth *g)
{
    td_growing *j = g->arg;
    td_session *s = j->s;
    s->life.refs--;
    if (j->unwanted) { /* whatever needs memory next finds it */
        if (s->life.ended) td_session_try_free(s);
        free(j);
        return;
    }
    s->memory.growing = NULL;
    s->memory.making = TD_MADE;
    if (s->life.ended) {
        td_session_made(s);
        td_session_try_free(s);
    } else {
        bool failed = g->rc != 0 && !(g->rc == TD_E_BUSY && td_sessions_shed(s->all)); /* else once more */
        s->memory.grow_failed = failed ? g->rc : TD_OK; /* so that it does not ask for ever */
        td_session_ready(s);
    }
    free(j);
}

static const td_wait_kind for_memory = {"memory", .by = TD_BY_MEMORY};

bool td_session_needs_no_memory(td_session *s)
{
    const td_wait *w = &s->wait;
    if (!w->kind || w->over || w->kind->by != TD_BY_MEMORY) return false;
    if (s->memory.growing) {
        s->memory.growing->unwanted = true;
        s->memory.growing = NULL;
        s->memory.making = TD_MADE;
        td_session_made(s);
    }
    if (s->pace.throttled) td_session_look_again(s);
    else td_session_ready(s);
    return true;
}

enum { HOLDERS = 3, NAMES_MOST = 10000, HOLDERS_SHARE = 20 };

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

typedef struct weighing {
    holder top[HOLDERS];
    unsigned device;
    const td_account *of; /* a user's; NULL: all users */
} weighing;

static bool counts(const weighing *w, const td_account *a)
{
    return !w->of || a->uid == w->of->uid;
}

/* What a living session published is among what it holds. */
static void weigh_name(const td_name *n, void *arg)
{
    if (!n->what.tensor) return;
    weighing *w = arg;
    const td_storage *st = n->what.tensor->storage;
    if (st->account && st->account->ended && st->device == w->device && counts(w, n->account))
        weigh(w->top, (holder){st->nbytes, n->pid, n->program, .published = n->name, .storage = st});
}

/* "; biggest holders: train (pid 7) 1.5 GB, 'weights' (published by load, pid 6) 0.5 GB" */
static void name_holders(const td_sessions *all, unsigned device, const td_account *of, char *text, size_t size)
{
    weighing w = {.device = device, .of = of};
    for (const td_session *x = all->first; x; x = x->next)
        if (counts(&w, x->account))
            weigh(w.top, (holder){td_account_bytes(x->account, device), x->pid, x->account->name, .published = NULL});
    td_name_each(all->service, NAMES_MOST, weigh_name, &w);
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < HOLDERS && w.top[i].bytes && n < size; i++) {
        const holder *h = &w.top[i];
        const char *before = i ? ", " : "; biggest holders: ";
        double mb = (double)h->bytes / 1e6;
        char name[61]; /* as it will be shown: others get it in errors */
        int more = h->published
                       ? snprintf(text + n, size - n, "%s'%s' (published by %s, pid %u, which has ended) %.1f MB",
                                  before, td_text_visible(name, sizeof name, h->published), h->program, h->pid, mb)
                       : snprintf(text + n, size - n, "%s%s (pid %u) %.1f MB", before, h->program, h->pid, mb);
        n += (size_t)more;
    }
}

/* To look at all takes time, and who is refused asks again: so it is done in a part of the time. */
static void add_holders(td_sessions *all, unsigned device, const td_account *of, td_error *e)
{
    uint64_t began = td_clock_ns(), what = device | (of ? (uint64_t)of->uid + 1 : 0) << 8;
    if (began >= all->holders_until_ns) {
        name_holders(all, device, of, all->holders, sizeof all->holders);
        all->holders_of = what;
        all->holders_until_ns = td_clock_rest(began, HOLDERS_SHARE);
    }
    if (all->holders_of != what) return;
    size_t n = strlen(e->message);
    snprintf(e->message + n, sizeof e->message - n, "%s", all->holders);
}

/* ---- what lies idle */

typedef struct asking {
    td_session *s;
    bool asked; /* for something that was not asked for before */
} asking;

static void ask_to_unmap(td_segment *g, void *arg)
{
    asking *a = arg;
    td_session *s = a->s;
    bool ask = false;
    for (td_sent *x = s->memory.sent; x; x = x->next) {
        if (x->segment != g->id || x->generation != g->generation || x->asked) continue;
        x->asked = ask = true;
        x->asked_ms = td_clock_ms();
    }
    if (!ask) return;
    a->asked = true;
    td_event_unmap(s, g->id);
}

/* Memory is short: what lies empty in other sessions goes back, and who has it mapped is asked for it. One round over
 * all of them for all that lack some, a part at a time. True: it has begun since the session lacks memory, and is over.
 */
static bool ask_others(td_session *s)
{
    td_sessions *all = s->all;
    bool more = false;
    if (!s->memory.ask_round) s->memory.ask_round = all->ask_round + 1;
    if (!all->ask_next) {
        all->ask_next = all->first;
        all->ask_round++;
    }
    for (int n = 0; all->ask_next && n < ASK_MOST; n++) {
        td_session *x = all->ask_next;
        all->ask_next = x->next;
        if (x == s || x->memory.making == TD_MADE) continue; /* it is about to use what lies empty */
        asking a = {.s = x};
        td_heap_settle(x->heap, true, ask_to_unmap, &a, &more);
        if (a.asked) all->asked_ms = td_clock_ms();
    }
    return !all->ask_next && all->ask_round >= s->memory.ask_round;
}

static void look_again(void *session)
{
    td_session_ready(session);
}

static td_segment *segment_of(const td_session *s, const td_sent *x)
{
    return td_heap_find_segment(s->heap, x->segment, x->generation);
}

/* ---- who has descriptors of a segment */

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

/* It has nothing of that mapped, and no descriptor. */
static void forget_sent(td_session *s, td_sent *x)
{
    td_segment *g = x->writable ? segment_of(s, x) : NULL;
    if (g && g->shared) g->shared--;
    sent_end(x);
}

/* What it was asked for so long ago that it would have said something. */
static uint64_t take_back(td_session *s, uint64_t now)
{
    bool some = false;
    for (td_sent *x = s->memory.sent, *next; x; x = next) {
        next = x->next;
        td_segment *g = x->asked && x->writable && now - x->asked_ms >= ASKED_MS ? segment_of(s, x) : NULL;
        if (!g) continue;
        g->left = some = true;
        forget_sent(s, x);
    }
    return some ? td_heap_trim(s->heap) : 0;
}

/* Who was asked for what lies empty, and says nothing, may be stopped, or compute for an hour, or mean it so: it does
 * not keep the memory from others. That goes to the system, and to nobody who would find in it what is written there
 * after all. A round over all of them, a part at a time. True: it is over. */
static bool take_from_the_silent(td_sessions *all, uint64_t now)
{
    if (!all->take_next) {
        all->take_next = all->first;
        all->taken_ms = now;
        all->taken_bytes = 0;
    }
    for (int n = 0; all->take_next && n < ASK_MOST; n++) {
        td_session *s = all->take_next;
        all->take_next = s->next;
        all->taken_bytes += take_back(s, now);
    }
    return !all->take_next;
}

static void wait_and_look(td_session *s, const td_wait_kind *kind, uint64_t ms)
{
    td_session_wait(s, kind);
    td_deadline_arm(s->service, &s->wait.deadline, ms, look_again, s);
}

static bool wait_for_unmaps(td_session *s)
{
    static const td_wait_kind for_unmaps = {"memory that others have mapped", .by = TD_BY_MEMORY};
    uint64_t look = ASKED_LOOK_MS;
    if (!s->memory.asked_until_ms) {
        if (ask_others(s)) s->memory.asked_until_ms = s->all->asked_ms + ASKED_MS;
        else look = 1;
    }
    uint64_t now = td_clock_ms();
    if (s->memory.asked_until_ms && now >= s->memory.asked_until_ms) {
        td_sessions *all = s->all;
        uint64_t since = now - all->taken_ms; /* to look at all takes time */
        if (all->take_next || since >= ASKED_MS) {
            if (take_from_the_silent(all, now)) return all->taken_bytes != 0;
            look = 1;
        } else {
            if (s->memory.asked_until_ms + ASKED_MS <= now) return false;
            look = ASKED_MS - since;
        }
    }
    wait_and_look(s, &for_unmaps, look);
    return true;
}

/* What is made for others will be used, and perhaps given back soon; or nobody wants it any more. */
static bool wait_for_segments(td_session *s)
{
    static const td_wait_kind for_segments = {"memory that is being made for others", .by = TD_BY_MEMORY};
    if (!s->all->making || td_clock_ms() - s->memory.lacks_since_ms >= LACK_MS) return false;
    s->memory.ask_round = s->memory.asked_until_ms = 0; /* it may lie empty then, and nobody has been asked for it */
    wait_and_look(s, &for_segments, ASKED_LOOK_MS);
    return true;
}

/* What former sessions of the process left it may still write to: so nobody else gets it, but this one does. */
static bool inherit(td_session *s, const td_heap *heap)
{
    if (heap != s->heap || !s->io.inherit || !s->io.inherit(s->io.arg, s->heap)) return false;
    s->memory.mapped = s->memory.inherited = true;
    return true;
}

/* What others' calls work with goes back to the account that is `full` where they are charged there, too: to a user's
 * from its sessions. NULL: it is what the user has committed. */
static bool work_may_help(const td_session *s, const td_account *full)
{
    const td_account *a = full ? s->account : s->account->parent;
    while (full && a && a != full) a = a->parent;
    return a && a->work;
}

/* Its own tasks always end; who waits for others' must come to an end of waiting. */
static bool pending_may_help(const td_session *s, int rc, const td_account *full)
{
    if (td_flow_pending(s->flow)) return true;
    bool others = rc == TD_E_QUOTA ? work_may_help(s, full) : !td_sched_idle(s->service->sched);
    return others && td_clock_ms() - s->memory.lacks_since_ms < LACK_MS;
}

/* Is it its user's part that is used up, and not its own? Then others of that user hold some. */
static bool of_user(const td_session *s, unsigned device)
{
    const td_account *a = s->account, *user = a->parent;
    uint64_t own = device == TD_CPU ? a->limit_bytes : a->limit_away;
    bool strained = device == TD_CPU ? user && user->limit_bytes : user && user->limit_away;
    return strained && !(own && td_account_bytes(a, device) + td_account_bytes(a, device) / 8 >= own);
}

/* Of the CPU's memory some may lie idle with others; what a device has to give its storages have. */
static bool wait_for_others(td_session *s, int rc, unsigned device)
{
    bool own = rc == TD_E_QUOTA && !td_heap_user_strained(s->heap);
    return device == TD_CPU && !own && (wait_for_unmaps(s) || wait_for_segments(s));
}

/* ---- what a kernel needs and takes long to make */

static void made(void *session)
{
    td_session *s = session;
    s->life.refs--;
    if (s->life.ended) td_session_try_free(s);
    else td_session_ready(s);
}

static int make_aside(td_session *s, td_need *need, td_error *e)
{
    static const td_wait_kind for_kernel = {"a kernel to be made"};
    s->life.refs++;
    td_session_wait(s, &for_kernel);
    int rc = td_make_aside(s->service, need, made, s, e);
    if (!rc) return TD_AGAIN;
    s->life.refs--;
    td_session_cancel_wait(s);
    return rc;
}

int td_session_lacks(td_session *s, int rc, td_need *need, td_error *e)
{
    if (need->work.make) return make_aside(s, need, e);
    unsigned device = need->device;
    const td_account *full = td_account_full();
    td_session_made(s);
    if (s->memory.grow_failed) {
        int why = s->memory.grow_failed;
        s->memory.grow_failed = TD_OK;
        if (why == TD_E_BUSY) return td_no_descriptors(e);
        return td_fail(e, TD_E_MEMORY, "the system has no %.1f MB of shared memory to give (see `tensorctl doctor`)",
                       (double)need->bytes / 1e6);
    }
    if (device == TD_CPU && inherit(s, need->heap)) return TD_AGAIN;
    if (rc == TD_WAIT_GROW) rc = td_heap_reserve(need->heap, need->bytes, e);
    if (rc) {
        if (s->all->remains || td_dead_waiting()) { /* some of it may be in what nobody holds any more */
            td_sessions_clear(s->all, CLEAR_MOST);
            return TD_AGAIN;
        }
        if (!s->memory.lacks_since_ms) s->memory.lacks_since_ms = td_clock_ms();
        if (wait_for_others(s, rc, device)) return TD_AGAIN;
        if (pending_may_help(s, rc, full)) {
            td_session_throttle(s, &for_memory);
            if (!td_flow_pending(s->flow)) /* none of the others' may end in time */
                td_deadline_arm(s->service, &s->wait.deadline, LACK_MS + s->memory.lacks_since_ms - td_clock_ms() + 1,
                                td_session_look_again, s);
            return TD_AGAIN;
        }
        td_session_lacks_nothing(s);
        if (rc == TD_E_MEMORY) add_holders(s->all, device, NULL, e);
        if (rc == TD_E_QUOTA && of_user(s, device)) add_holders(s->all, device, s->account->parent, e);
        return rc;
    }
    td_growing *j = malloc(sizeof *j);
    if (!j) {
        td_heap_unreserve(need->heap, need->bytes);
        return td_no_memory(e, "to grow");
    }
    *j = (td_growing){.growth = {.heap = need->heap, .size = need->bytes, .done = grown, .arg = j}, .s = s};
    s->life.refs++;
    s->memory.growing = j;
    s->memory.making = TD_MAKES;
    s->all->making++;
    td_session_wait(s, &for_memory);
    td_grow(s->service, &j->growth);
    return TD_AGAIN;
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
        forget_sent(s, x);
    }
    if (all) s->memory.mapped = s->memory.inherited;
    td_heap_trim(s->heap);
}

bool td_sessions_shed(td_sessions *all)
{
    td_service *v = all->service;
    uint64_t now = td_clock_ms();
    bool more = false;
    if (now - all->shed_ms >= SHED_MS) { /* to look at all takes time, and who asks may ask for each of many */
        all->shed_ms = now;
        td_heap_settle(v->heap, true, NULL, NULL, &more);
        for (td_session *s = all->first; s; s = s->next) td_heap_settle(s->heap, true, NULL, NULL, &more);
    }
    return td_budget_shed(&v->budget);
}

td_settled td_sessions_settle(td_sessions *all, int most)
{
    td_service *v = all->service;
    if (!all->settle_next) {
        all->settle_next = all->first;
        all->settle_later = false;
        td_heap_settle(v->heap, false, NULL, NULL, &all->settle_later);
    }
    for (; all->settle_next && most > 0; most--) {
        td_session *s = all->settle_next;
        all->settle_next = s->next;
        td_heap_settle(s->heap, false, ask_to_unmap, &(asking){.s = s}, &all->settle_later);
    }
    if (all->settle_next) return TD_SETTLE_MORE;
    bool warm = td_budget_settle(&v->budget);
    return warm || all->settle_later ? TD_SETTLE_LATER : TD_SETTLED;
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
