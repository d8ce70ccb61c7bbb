/* What a call touches: the byte intervals of storages that it reads and writes, from its tensors' descriptors.
 *
 * Invariant: every byte that the kernel may touch lies in a reach; widening one only costs waiting. The memory that a
 * call makes for itself (casts, work) is nobody else's, and has none. */
#include "daemon/sched/internal.h"

/* Put a read with the one before when they meet: many views of one storage (the parts of a cat) need few entries. */
static bool merged(td_reach *last, const td_reach *r, bool many)
{
    if (last->storage != r->storage || last->flags != TD_REACH_READ || r->flags != TD_REACH_READ) return false;
    if (!many && (r->lo > last->hi || last->lo > r->hi)) return false;
    if (r->lo < last->lo) last->lo = r->lo;
    if (r->hi > last->hi) last->hi = r->hi;
    return true;
}

static int add(td_reach *all, int n, const td_tensor *t, uint8_t flags)
{
    td_reach r = {.storage = t->storage, .slot = -1, .flags = flags};
    td_desc_extent(&t->desc, &r.lo, &r.hi);
    if (r.lo == r.hi || (n && merged(&all[n - 1], &r, n >= TD_TASK_REACHES))) return n;
    if ((flags & TD_REACH_WRITE) && td_desc_is_dense(&t->desc)) r.flags |= TD_REACH_DENSE;
    all[n] = r;
    return n + 1;
}

static bool reads_from(const td_reach *all, int n, const td_storage *st)
{
    for (int i = 0; i < n; i++)
        if (all[i].storage == st && (all[i].flags & TD_REACH_READ)) return true;
    return false;
}

int td_call_reaches(td_sched *s, const td_call *c)
{
    td_reach *all = s->reach;
    int n = 0;
    uint8_t made = td_call_makes(c) ? TD_REACH_MADE : 0;
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i].kind != TD_IN_TENSOR) continue;
        n = add(all, n, c->in[i].tensor, td_call_writes_input(c, i) ? TD_REACH_READ | TD_REACH_WRITE : TD_REACH_READ);
    }
    for (int i = 0; i < c->nout; i++) {
        if (!c->out[i]) continue;
        n = add(all, n, c->out[i], TD_REACH_WRITE | made);
        td_reach *r = n ? &all[n - 1] : NULL;
        if (r && (r->flags & TD_REACH_DENSE) && r->lo == 0 && r->hi >= r->storage->nbytes &&
            !reads_from(all, n, r->storage))
            r->flags |= TD_REACH_WHOLE;
    }
    return n;
}
