/* What an ended session leaves queued: tasks whose results nobody can have any more.
 *
 * Invariant: a task is wanted while anything but itself refers to what it writes. A result that was published, that
 * lies in a queue or that another session holds, is still computed. The newest are looked at first, because the older
 * ones' results are wanted by those that read them: a task that was not begun is taken back from the workers and lets
 * go of its operands at once; one that runs is told to stop, and is waited for. */
#include "daemon/sched/internal.h"

enum { TENSORS = 32 }; /* of one call on one storage; with more it counts as wanted */

void td_task_keep(td_task *t)
{
    t->keeps = true;
    for (int i = 0; i < t->nreaches; i++) td_storage_ref(t->reaches[i].storage)->idle++;
}

void td_task_unkeep(td_task *t)
{
    for (int i = 0; t->keeps && i < t->nreaches; i++) {
        t->reaches[i].storage->idle--;
        td_storage_unref(t->reaches[i].storage);
    }
}

/* Tensors on one storage, and how many references on each of them are the call's. */
typedef struct tensors {
    int n;
    const td_tensor *at[TENSORS];
    uint32_t refs[TENSORS];
} tensors;

static bool note(tensors *l, const td_tensor *t)
{
    int i = 0;
    while (i < l->n && l->at[i] != t) i++;
    if (i == TENSORS) return false;
    if (i == l->n) {
        l->at[l->n] = t;
        l->refs[l->n++] = 0;
    }
    l->refs[i]++;
    return true;
}

static bool note_operands(tensors *l, const td_call *c, const td_storage *st)
{
    bool fit = true;
    for (int i = 0; i < c->nin && fit; i++)
        if (td_call_in_storage(c, i) == st) fit = note(l, c->in[i].tensor);
    for (int o = 0; o < c->nout && fit; o++)
        if (c->out[o] && c->out[o]->storage == st) fit = note(l, c->out[o]);
    for (int i = 0; i < l->n && fit; i++) /* grows while it is walked: bases are not views themselves */
        if (l->at[i]->view_base) fit = note(l, l->at[i]->view_base);
    return fit;
}

/* Does nobody but this call, and what ends with it, refer to the storage? */
static bool alone(const td_call *c, const td_storage *st)
{
    tensors l;
    l.n = 0;
    if (!note_operands(&l, c, st)) return false;
    for (int i = 0; i < l.n; i++)
        if (l.at[i]->refs != l.refs[i]) return false;
    return st->refs == (uint32_t)l.n + st->idle;
}

static bool wanted(const td_call *c)
{
    for (int o = 0; o < c->nout; o++)
        if (c->out[o] && !alone(c, c->out[o]->storage)) return true;
    for (int i = 0; i < c->nin; i++)
        if (td_call_writes_input(c, i) && !alone(c, c->in[i].tensor->storage)) return true;
    return false;
}

/* True: something changed. */
static bool drop(td_task *t)
{
    td_call *c = t->call;
    if (t->kind != TD_TASK_CALL || t->keeps || atomic_load_explicit(&c->k.failed, memory_order_relaxed) || wanted(c))
        return false;
    uint8_t queued = TD_TASK_QUEUED;
    td_kernel_fail(&c->k, TD_E_CANCELLED, "its session has ended, and nobody else can have the result");
    if (!atomic_compare_exchange_strong(&t->state, &queued, TD_TASK_DROPPED)) return true;
    td_task_keep(t);
    td_call_unwritten(c); /* while it still has what it was to write */
    td_call_let_go(c);
    return true;
}

bool td_flow_wither(td_flow *f, int *most)
{
    if (!f->withering) {
        f->withering = f->newest;
        f->withered = false;
    }
    for (; f->withering && *most > 0; --*most) {
        td_task *t = f->withering;
        f->withering = t->flow_prev;
        if (drop(t)) f->withered = true;
    }
    return f->withering || (f->withered && f->newest);
}
