/* Tensors: a descriptor over a storage, a version counter, and what the layer above hangs on it; and the list of the
 * dead.
 *
 * Dropping one may drop others (its view base, and whatever meta->free lets go of), which may be a chain of any length.
 * So what dies while another is being ended waits in a list, and the outermost drop works the list off: the stack stays
 * flat. */
#include "daemon/tensor/live.h"
#include <stddef.h>

static _Thread_local struct {
    td_dead *first;
    uint32_t bound;
    bool busy;
} loop_dying;
static _Thread_local td_freelist loop_dead, loop_dead_versions;

/* A dead tensor stands in the list with the place of its last possible sizes. */
#define DEAD_AT (offsetof(td_tensor, desc.shape) + sizeof(((td_desc *)0)->shape) - sizeof(td_dead))

static td_dead *dead_of(td_tensor *t)
{
    return (td_dead *)(void *)((char *)t + DEAD_AT);
}

/* The descriptor passed td_desc_check before it came here; this asks again in few instructions. */
static bool lies_inside(const td_desc *d, uint64_t nbytes)
{
    uint64_t last = (uint64_t)d->offset + 1;
    for (int i = 0; i < d->ndim; i++) {
        if (!d->shape[i]) return true;
        last += (uint64_t)(d->shape[i] - 1) * (uint64_t)d->stride[i];
    }
    return last * td_dtype_size((td_dtype)d->dtype) <= nbytes;
}

int td_tensor_new(td_tensor **out, td_storage *s, const td_desc *desc, td_account *account, td_error *e)
{
    *out = NULL;
    assert(lies_inside(desc, s->nbytes));
    int rc = td_account_charge(account, 0, 1, e);
    if (rc) return rc;
    td_tensor *t = td_freelist_take(&loop_dead, sizeof *t);
    if (!t) {
        td_account_discharge(account, 0, 1);
        return td_no_memory(e, "for a tensor's record");
    }
    t->refs = 1;
    t->held = 0;
    t->flags = 0;
    t->storage = td_storage_ref(s);
    t->version = &s->version;
    t->meta = NULL;
    t->view_base = NULL;
    t->account = account ? td_account_ref(account) : NULL;
    t->desc = *desc;
    td_loop_live.tensors++;
    td_loop_live.bytes += sizeof *t;
    *out = t;
    return 0;
}

int td_tensor_view(td_tensor **out, td_tensor *of, const td_desc *desc, td_account *account, td_error *e)
{
    int rc = td_tensor_new(out, of->storage, desc, account, e);
    if (rc) return rc;
    (*out)->version = of->version;
    if (of->version->own) of->version->refs++;
    return 0;
}

static void version_unref(td_version *v)
{
    if (!v->own || --v->refs) return;
    td_freelist_give(&loop_dead_versions, v);
    td_loop_live.bytes -= sizeof *v;
}

int td_tensor_detach_version(td_tensor *t, td_error *e)
{
    td_version *v = td_freelist_take(&loop_dead_versions, sizeof *v);
    if (!v) return td_no_memory(e, "for a version counter");
    *v = (td_version){.own = 1, .refs = 1};
    version_unref(t->version);
    t->version = v;
    td_loop_live.bytes += sizeof *v;
    return 0;
}

static uint64_t shifted(uint64_t bits, uint64_t by)
{
    return by < 64 ? bits << by : 0;
}

/* The row grows downwards, over all that is remembered there. */
static void join_before(td_version *v)
{
    do v->nvoid++, v->void_before >>= 1;
    while (v->void_before & 1);
}

static void begin_row(td_version *v, uint32_t step)
{
    uint32_t gap = step - v->void_to - 1;
    uint64_t row = v->nvoid < 64 ? (UINT64_C(1) << v->nvoid) - 1 : UINT64_MAX;
    v->void_before = shifted(row, gap) | shifted(v->void_before, (uint64_t)gap + v->nvoid);
    v->nvoid = 1;
    v->void_to = step;
}

void td_version_void(td_version *v, uint32_t step)
{
    int32_t after = (int32_t)(step - v->void_to);
    uint32_t before = v->void_to - v->nvoid - step; /* the row */
    v->voided++;
    if (!v->nvoid) v->nvoid = 1, v->void_to = step;
    else if (after == 1) v->nvoid++, v->void_to++;
    else if (after > 1) begin_row(v, step);
    else if (before == 0) join_before(v);
    else if (before < 64) v->void_before |= UINT64_C(1) << before;
}

td_tensor *td_tensor_hold(td_tensor *t)
{
    t->held++;
    t->flags &= ~(uint32_t)TD_TF_UNHELD;
    return td_tensor_ref(t);
}

void td_tensor_unhold(td_tensor *t)
{
    if (!t) return;
    if (--t->held == 0) {
        t->flags |= TD_TF_UNHELD;
        if (t->meta && t->refs > 1) t->meta->unheld(t->meta, t);
    }
    td_tensor_unref(t);
}

/* ---- the end */

void td_die(td_dead *d, void (*end)(td_dead *))
{
    d->next = loop_dying.first;
    d->end = end;
    loop_dying.first = d;
    if (!loop_dying.busy) td_dead_collect(loop_dying.bound);
}

bool td_dead_collect(uint32_t most)
{
    if (loop_dying.busy) return loop_dying.first != NULL;
    loop_dying.busy = true;
    for (uint32_t n = 0; loop_dying.first && (!most || n < most); n++) {
        td_dead *d = loop_dying.first;
        loop_dying.first = d->next;
        d->end(d);
    }
    loop_dying.busy = false;
    return loop_dying.first != NULL;
}

void td_dead_defer(bool on)
{
    loop_dying.busy = on;
}

bool td_dead_waiting(void)
{
    return loop_dying.first != NULL;
}

void td_dead_set_bound(uint32_t most)
{
    loop_dying.bound = most;
}

static void end(td_dead *d)
{
    td_tensor *t = (td_tensor *)(void *)((char *)d - DEAD_AT);
    if (t->meta) t->meta->free(t->meta, t);
    td_tensor_unref(t->view_base);
    version_unref(t->version);
    td_storage_unref(t->storage);
    td_account_discharge(t->account, 0, 1);
    td_account_unref(t->account);
    td_freelist_give(&loop_dead, t);
    td_loop_live.tensors--;
    td_loop_live.bytes -= sizeof *t;
}

void td_tensor_end(td_tensor *t)
{
    td_die(dead_of(t), end);
}

void td_tensors_forget_dead(void)
{
    td_freelist_empty(&loop_dead);
    td_freelist_empty(&loop_dead_versions);
    td_storages_forget_dead();
}
