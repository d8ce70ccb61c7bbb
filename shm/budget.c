/* The budget: what all heaps together may commit, and the segments that wait warm for their next user.
 *
 * Invariant: `committed` counts every segment that exists or was reserved, the warm ones too, but none whose memory has
 * gone; with what kernels work with it stays within the limit. A warm segment is mapped
 * by nobody but the daemon and goes only to a heap of the same kind and uid, so that no other uid ever sees its old
 * bytes. */
#include "shm/arena.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_MOST 256

uint64_t td_page_round(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) & ~(page - 1);
}

uint64_t td_budget_round(const td_budget *b, uint64_t bytes)
{
    return b->granule ? (bytes + b->granule - 1) & ~(b->granule - 1) : td_page_round(bytes);
}

void td_budget_init(td_budget *b, uint64_t limit, td_shm_backend backend)
{
    memset(b, 0, sizeof *b);
    b->limit = limit;
    b->backend = backend;
    b->generation = 1;
    b->warm_limit = limit / 4;
    b->warm_most = WARM_MOST;
}

int td_budget_make(const td_budget *b, td_segment **out, td_segment_kind kind, uint64_t size, td_error *e)
{
    return b->make ? b->make(out, kind, size, b->make_arg, e) : td_segment_create(out, b->backend, kind, size, e);
}

static void dispose(td_budget *b, td_segment *s)
{
    if (!s->gone) b->committed -= s->size;
    b->segments--;
    if (b->dispose) b->dispose(s, b->dispose_arg);
    else td_segment_free(s);
}

static td_segment *unlink_warm(td_budget *b, td_segment **at)
{
    td_segment *s = *at;
    *at = s->next;
    s->next = NULL;
    b->warm_bytes -= s->size;
    b->warm_count--;
    s->rested = false;
    return s;
}

void td_budget_deinit(td_budget *b)
{
    while (b->warm) dispose(b, unlink_warm(b, &b->warm));
}

/* The one that has waited longest is the last. */
static void evict_one(td_budget *b)
{
    td_segment **at = &b->warm;
    while ((*at)->next) at = &(*at)->next;
    dispose(b, unlink_warm(b, at));
}

bool td_budget_shed(td_budget *b)
{
    bool some = b->warm != NULL;
    while (b->warm) {
        td_segment_close(b->warm); /* to unmap it may take a helper's time */
        dispose(b, unlink_warm(b, &b->warm));
    }
    return some;
}

void td_budget_shed_larger(td_budget *b, td_segment_kind kind, uint32_t parts, uint32_t of)
{
    uint64_t largest = 0;
    for (const td_segment *s = b->warm; s; s = s->next)
        if (s->kind == kind && s->size > largest) largest = s->size;
    double most = (double)largest * parts / of * 1.125;
    for (td_segment **at = &b->warm; *at;)
        if ((*at)->kind == kind && (double)(*at)->size > most) dispose(b, unlink_warm(b, at));
        else at = &(*at)->next;
}

bool td_budget_settle(td_budget *b)
{
    td_segment **at = &b->warm;
    while (*at) {
        if ((*at)->rested) {
            dispose(b, unlink_warm(b, at));
        } else {
            (*at)->rested = true;
            at = &(*at)->next;
        }
    }
    return b->warm != NULL;
}

bool td_budget_room(td_budget *b, uint64_t bytes)
{
    if (bytes > b->limit || b->committed - b->warm_bytes + b->work > b->limit - bytes)
        return false; /* evicting would not help */
    while (b->committed + b->work > b->limit - bytes) evict_one(b);
    return true;
}

int td_budget_work(td_budget *b, uint64_t bytes, td_error *e)
{
    const double mb = 1e6;
    if (!td_budget_room(b, bytes))
        return td_fail(e, TD_E_MEMORY,
                       "%.1f MB to work with are wanted, %.1f of %.1f MB are committed to tensors and %.1f MB to other "
                       "work; free tensors, or start tensord with more --memory",
                       bytes / mb, (b->committed - b->warm_bytes) / mb, b->limit / mb, b->work / mb);
    b->work += bytes;
    return 0;
}

void td_budget_work_done(td_budget *b, uint64_t bytes)
{
    b->work -= bytes;
}

/* ---- users: what is charged to sessions is what they use; what stays committed for processes that have it mapped,
 * used or not, is bounded here, or whoever leases, lets go and comes again would have the whole budget for nothing.
 * Segments are larger than what lies in them: so twice the limit. */

enum { USER_SLACK = 2 };

td_budget_user *td_budget_user_ref(td_budget *b, uint32_t uid)
{
    td_budget_user *u = b->users;
    while (u && u->uid != uid) u = u->next;
    if (!u) {
        u = calloc(1, sizeof *u);
        if (!u) return NULL;
        *u = (td_budget_user){.next = b->users, .uid = uid};
        b->users = u;
    }
    u->heaps++;
    return u;
}

void td_budget_user_unref(td_budget *b, td_budget_user *u)
{
    if (!u || --u->heaps) return;
    td_budget_user **at = &b->users;
    while (*at != u) at = &(*at)->next;
    *at = u->next;
    free(u);
}

void td_heap_count(td_heap *h, int64_t bytes)
{
    if (h->user) h->user->committed += (uint64_t)bytes;
}

bool td_heap_beyond_user(const td_heap *h, uint64_t bytes)
{
    uint64_t most = h->budget->user_limit;
    if (!h->user || !most) return false;
    most = most > UINT64_MAX / USER_SLACK ? UINT64_MAX : most * USER_SLACK;
    return bytes > most || h->user->committed > most - bytes;
}

bool td_heap_user_strained(const td_heap *h)
{
    return h->user && h->budget->user_limit && h->user->committed > h->budget->user_limit;
}

bool td_heap_room(td_heap *h, uint64_t bytes)
{
    return !td_heap_beyond_user(h, bytes) && td_budget_room(h->budget, bytes);
}

td_segment *td_budget_take_warm(td_budget *b, td_segment_kind kind, uint32_t uid, uint64_t least, uint64_t most)
{
    for (td_segment **at = &b->warm; *at; at = &(*at)->next)
        if ((*at)->kind == kind && (*at)->uid == uid && (*at)->size >= least && (*at)->size <= most)
            return unlink_warm(b, at);
    return NULL;
}

void td_budget_give_back(td_budget *b, td_segment *s)
{
    if (s->foreign || s->left || td_segment_damaged(s) || b->warm_bytes + s->size > b->warm_limit || !b->warm_most) {
        dispose(b, s);
        return;
    }
    if (b->warm_count == b->warm_most) evict_one(b);
    s->next = b->warm;
    b->warm = s;
    b->warm_bytes += s->size;
    b->warm_count++;
}
