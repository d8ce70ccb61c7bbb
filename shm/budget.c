/* The budget: what all heaps together may commit, and the segments that wait warm for their next user.
 *
 * Invariant: `committed` counts every segment that exists or was reserved, the warm ones too. A warm segment is mapped
 * by nobody but the daemon and goes only to a heap of the same kind and uid, so that no other uid ever sees its old
 * bytes. */
#include "shm/arena.h"
#include <string.h>
#include <unistd.h>

uint64_t td_page_round(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) & ~(page - 1);
}

void td_budget_init(td_budget *b, uint64_t limit, td_shm_backend backend)
{
    memset(b, 0, sizeof *b);
    b->limit = limit;
    b->backend = backend;
    b->generation = 1;
    b->warm_limit = limit / 4;
}

static void dispose(td_budget *b, td_segment *s)
{
    b->committed -= s->size;
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

bool td_budget_room(td_budget *b, uint64_t bytes)
{
    if (bytes > b->limit || b->committed - b->warm_bytes > b->limit - bytes) return false; /* evicting would not help */
    while (b->committed > b->limit - bytes) evict_one(b);
    return true;
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
    if (s->foreign || td_segment_damaged(s) || b->warm_bytes + s->size > b->warm_limit) {
        dispose(b, s);
        return;
    }
    s->next = b->warm;
    b->warm = s;
    b->warm_bytes += s->size;
}
