/* See prepacked.h. All of it belongs to the loop thread but the memory, which the workers of one call write, and those
 * of later ones read.
 *
 * Invariant: a prepack on a storage's list is also among all of the loop's, which are in the order of their last use.
 * It has one reference for being there and one for each call that has it. */
#include "daemon/ops/prepacked.h"
#include "proto/base/clock.h"
#include "shm/segment.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEADY = 2,        /* uses before the one that makes a prepack */
    LEAST = 16 << 10,  /* bytes: less is packed in no time */
    LARGE = 512 << 10, /* bytes that are not freed here */
    MOST_OF_ONE = 4,   /* prepacks of a storage */
    IDLE_MS = 1000     /* unused for so long, one gives way to another: what all are used in turns stays as it is */
};

typedef struct prepack {
    td_prepack k;
    uint32_t refs;
    bool ready;                 /* else the call that has it makes it */
    uint64_t bytes, used_ms;    /* used_ms: when it was last given */
    struct prepack *next;       /* of the same storage */
    struct prepack *older, *newer; /* of all */
    struct prepacks *of;           /* NULL: it is not kept any more */
    uint16_t op;
    td_desc desc;
    int words;
    int64_t key[TD_KPACK_KEY];
} prepack;

/* Of a storage. */
typedef struct prepacks {
    td_kept kept; /* first */
    td_storage *storage;
    prepack *first;
    int count;
} prepacks;

static _Thread_local struct {
    prepack *oldest, *newest;
    uint64_t bytes, room, used;
    td_prepacked_away away;
    void *hook_arg;
} loop_all;

static void unref(prepack *p)
{
    if (--p->refs) return;
    if (loop_all.away && p->bytes >= LARGE) loop_all.away(loop_all.hook_arg, free, NULL, p->k.memory);
    else free(p->k.memory);
    free(p);
}

static void unlink_use(prepack *p)
{
    *(p->older ? &p->older->newer : &loop_all.oldest) = p->newer;
    *(p->newer ? &p->newer->older : &loop_all.newest) = p->older;
}

static void link_use(prepack *p)
{
    p->older = loop_all.newest, p->newer = NULL;
    *(loop_all.newest ? &loop_all.newest->newer : &loop_all.oldest) = p;
    loop_all.newest = p;
}

/* Off the list of the loop, and of its storage if that is not about to drop it itself. */
static void let_go(prepack *p)
{
    unlink_use(p);
    loop_all.bytes -= p->bytes;
    p->of->count--;
    p->of = NULL;
    unref(p);
}

static void drop_all(td_kept *k)
{
    prepacks *s = (prepacks *)(void *)k;
    for (prepack *p = s->first, *next; p; p = next) {
        next = p->next;
        let_go(p);
    }
    free(s);
}

static void forget(prepack *p)
{
    prepacks *s = p->of;
    for (prepack **at = &s->first; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    let_go(p);
    if (s->first) return;
    s->storage->kept = NULL;
    free(s);
}

static bool is_idle(const prepack *p, uint64_t now)
{
    return now - p->used_ms >= IDLE_MS;
}

/* Room for so many more bytes, by forgetting those that were not used for long. */
static bool make_room(uint64_t bytes, uint64_t now)
{
    uint64_t room = loop_all.room, kept = loop_all.bytes;
    if (bytes > room / 2) return false;
    for (prepack *p = loop_all.oldest; p && kept + bytes > room && is_idle(p, now); p = p->newer) kept -= p->bytes;
    if (kept + bytes > room) return false;
    while (loop_all.bytes + bytes > room) forget(loop_all.oldest);
    return true;
}

/* And for one more of this storage. */
static bool make_place(prepacks *s, uint64_t now)
{
    if (!s || s->count < MOST_OF_ONE) return true;
    prepack *oldest = s->first;
    for (prepack *p = s->first; p; p = p->next)
        if (p->used_ms < oldest->used_ms) oldest = p;
    if (!is_idle(oldest, now)) return false;
    forget(oldest);
    return true;
}

/* ---- */

static bool is_same(const prepack *p, const td_kcall *k, const td_desc *d, int words, const int64_t *key)
{
    return p->op == k->op->id && p->bytes == k->packing.bytes && p->words == words &&
           !memcmp(p->key, key, (size_t)words * sizeof *key) && td_desc_equal(&p->desc, d);
}

static prepack *find(const prepacks *s, const td_kcall *k, const td_desc *d, int words, const int64_t *key)
{
    for (prepack *p = s ? s->first : NULL; p; p = p->next)
        if (is_same(p, k, d, words, key)) return p;
    return NULL;
}

static prepacks *list_of(td_storage *st)
{
    if (st->kept) return (prepacks *)(void *)st->kept;
    prepacks *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->kept.drop = drop_all;
    s->storage = st;
    st->kept = &s->kept;
    return s;
}

/* Without memory, or room: NULL, and the call packs for itself. */
static prepack *make(td_storage *st, const td_kcall *k, const td_desc *d, int words, const int64_t *key)
{
    uint64_t bytes = k->packing.bytes, now = td_clock_ms();
    if (!make_place((prepacks *)(void *)st->kept, now) || !make_room(bytes, now)) return NULL;
    prepacks *s = list_of(st);
    prepack *p = s ? calloc(1, sizeof *p) : NULL;
    if (p && td_system_has(bytes)) p->k.memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p || !p->k.memory) {
        if (s && !s->first) st->kept = NULL, free(s);
        free(p);
        return NULL;
    }
    p->refs = 1, p->bytes = bytes, p->used_ms = now;
    p->op = k->op->id, p->desc = *d, p->words = words;
    memcpy(p->key, key, (size_t)words * sizeof *key);
    p->of = s, p->next = s->first;
    s->first = p, s->count++;
    loop_all.bytes += bytes;
    link_use(p);
    return p;
}

static bool may_keep(const td_kcall *k, const td_storage *st)
{
    return loop_all.room && k->device == TD_CPU && k->packing.bytes >= LEAST &&
           !(st->flags & ~(unsigned)TD_SF_SERVICE) && !st->poison;
}

td_prepack *td_prepacked_take(td_storage *st, const td_desc *d, const td_kcall *k, bool *ready)
{
    if (!may_keep(k, st)) return NULL;
    int64_t key[TD_KPACK_KEY];
    int words = k->packing.key(k, key);
    prepack *p = find((prepacks *)(void *)st->kept, k, d, words, key);
    if (p && !p->ready) return NULL; /* it is being made */
    if (p) {
        unlink_use(p), link_use(p);
        p->used_ms = td_clock_ms();
        loop_all.used++;
    } else if (st->looked < STEADY) {
        st->looked++;
    } else {
        p = make(st, k, d, words, key);
    }
    if (!p) return NULL;
    *ready = p->ready;
    p->refs++;
    return &p->k;
}

void td_prepacked_put(td_prepack *taken, bool whole)
{
    prepack *p = (prepack *)(void *)((char *)taken - offsetof(prepack, k));
    if (!p->ready) {
        p->ready = whole;
        if (!whole && p->of) forget(p);
    }
    unref(p);
}

void td_prepacked_give(td_call *c)
{
    td_kcall *k = &c->k;
    int in = k->packing.in - 1;
    td_storage *st = in >= 0 && in < c->nin ? td_call_in_storage(c, in) : NULL;
    if (!st || c->cast || c->cause || td_call_writes_input(c, in)) return;
    bool ready = false;
    k->prepack = td_prepacked_take(st, &c->in[in].tensor->desc, k, &ready);
    if (ready) td_prepack_leave_out(k);
}

void td_prepacked_take_back(td_call *c)
{
    td_kcall *k = &c->k;
    if (!k->prepack) return;
    td_prepacked_put(k->prepack, td_prepack_is_whole(k) && !atomic_load(&k->failed));
    k->prepack = NULL;
}

void td_prepacked_set_room(uint64_t bytes, td_prepacked_away away, void *hook_arg)
{
    loop_all.room = bytes;
    loop_all.away = away;
    loop_all.hook_arg = hook_arg;
    while (loop_all.oldest && loop_all.bytes > loop_all.room) forget(loop_all.oldest);
}

uint64_t td_prepacked_bytes(void)
{
    return loop_all.bytes;
}

uint64_t td_prepacked_used(void)
{
    return loop_all.used;
}
