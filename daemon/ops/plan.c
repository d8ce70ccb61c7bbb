/* Choosing and planning the kernel; and the copy that follows when the result goes through a temporary.
 *
 * That copy is a kernel of its own, planned beside the first and run as its last phase, so that whoever runs calls sees
 * one call only. When the first kernel failed the copy does nothing: a given tensor is then as it was. */
#include "daemon/ops/prepare.h"
#include "daemon/tensor/device.h"
#include "proto/base/device.h"
#include <stdlib.h>
#include <string.h>

#define CHUNK_NS 5 /* what the smallest chunk costs */

typedef struct copy_part {
    td_kcall k; /* first: td_call.copy points here */
    td_karg args[2];
} copy_part;

static const td_attrs no_dtype = {.count = 1}; /* copy's one attribute, not given */

static void give(td_kcall *k, const td_call *c)
{
    k->nphases = k->clean_phases = 0;
    k->scratch_bytes = k->work_bytes = 0;
    k->cost_ns = 0;
    k->lasting = k->sure = k->wants_rows = false;
    k->replan = NULL;
    k->wrote = NULL;
    k->packing.in = 0;
    k->prepack = NULL;
    k->seed = c->who->seed;
    k->counter = c->who->counter;
    k->work = NULL;
    atomic_init(&k->failed, 0);
    td_error_clear(&k->error);
}

static void copy_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    td_kcall *copy = ((td_call *)k)->copy; /* k is a call's first member */
    if (!atomic_load_explicit(&k->failed, memory_order_acquire)) copy->phase[0].fn(copy, chunk, scratch);
}

/* Where a call runs: with whatever of its operands is not in memory. Inference has seen to it that there is one such
 * device. */
static uint8_t device_of(const td_call *c)
{
    const td_karg *in = c->args, *out = c->args + c->nin;
    for (int o = 0; o < c->nout; o++)
        if (out[o].desc->device != TD_CPU) return out[o].desc->device;
    for (int i = 0; i < c->nin; i++)
        if (in[i].desc && in[i].desc->device != TD_CPU) return in[i].desc->device;
    return TD_CPU;
}

/* The plan of an op where the call runs, or NULL. */
static td_plan_fn plan_for(const td_kcall *k)
{
    const td_plan_fn *plans = td_loop_devices[k->device].plans;
    return plans ? plans[k->op->id] : NULL;
}

static int no_plan(const td_kcall *k, td_error *e)
{
    return td_fail(e, TD_E_UNSUPPORTED, "%s has no kernel for %s%s", k->op->name, td_device_name(k->device),
                   k->device == TD_CPU ? "" : "; copy what it works on to the cpu first");
}

static int plan_copy(td_call *c, td_error *e)
{
    copy_part *part = malloc(sizeof *part);
    if (!part) return td_no_memory(e, "for a call");
    td_kcall *k = c->copy = &part->k;
    give(k, c);
    td_prep_arg(&part->args[0], c->cast);
    td_prep_arg(&part->args[1], c->out[0]);
    k->op = td_op_by_id(TD_OP_COPY);
    k->attrs = &no_dtype;
    k->in = &part->args[0];
    k->out = &part->args[1];
    k->nin = k->nout = 1;
    k->compute = c->cast->desc.dtype;
    k->device = c->k.device;
    td_plan_fn plan = plan_for(k);
    int rc = plan ? plan(k, e) : no_plan(k, e);
    if (rc) return rc;
    if (k->nphases > 1 || k->work_bytes || c->k.nphases == TD_MAX_PHASES)
        return td_fail(e, TD_E_INTERNAL, "%s has no phase left for a copy", c->op->name);
    c->k.clean_phases = c->k.nphases; /* until the copy, only the temporary is written */
    if (!k->nphases) return 0;
    c->k.phase[c->k.nphases].fn = copy_chunk;
    c->k.phase[c->k.nphases++].chunks = k->phase[0].chunks;
    if (c->k.scratch_bytes < k->scratch_bytes) c->k.scratch_bytes = k->scratch_bytes;
    c->k.cost_ns += k->cost_ns;
    return 0;
}

/* Is there an element that this call could write, or a row of none that it would find? */
static bool writes_something(const td_call *c)
{
    const td_desc *first = c->nout ? &c->out[0]->desc : NULL;
    if (c->op->flags & TD_OF_DATA_SHAPE && first->shape[0]) return true; /* without coordinates there is one row */
    for (int o = 0; o < c->nout; o++)
        if (td_desc_numel(&c->out[o]->desc)) return true;
    for (int i = 0; c->op->mutates && i < c->nin; i++)
        if (td_call_writes_input(c, i) && td_desc_numel(&c->in[i].tensor->desc)) return true;
    return false;
}

/* Nothing is run where nothing can be written, however large the dimensions beside the zero are: they cost no memory,
 * so no quota bounds them. */
static void plan_nothing(td_kcall *k)
{
    k->nphases = k->clean_phases = 0;
    k->scratch_bytes = k->work_bytes = 0;
    k->cost_ns = 0;
    k->lasting = false;
    k->packing.in = 0;
    if (k->op->flags & TD_OF_DATA_SHAPE) memset(k->state, 0, sizeof(int64_t)); /* nothing was found */
}

/* A chunk takes its time even when a plan's estimate, which counts elements, knows of none. */
static void count_chunks(td_kcall *k)
{
    double chunks = 0;
    for (int i = 0; i < k->nphases; i++) chunks += (double)k->phase[i].chunks;
    if (k->cost_ns < chunks * CHUNK_NS) k->cost_ns = chunks * CHUNK_NS;
}

static int wait_for_work(td_need *need, td_error *e)
{
    need->work = td_kernel_wished();
    td_error_clear(e);
    return TD_WAIT_GROW;
}

int td_prep_choose(td_call *c, td_need *need, td_error *e)
{
    give(&c->k, c);
    td_plan_fn plan = plan_for(&c->k);
    if (!plan && !(c->op->flags & TD_OF_UNCOMPUTED)) return no_plan(&c->k, e);
    td_kernel_may_wish(need != NULL);
    int rc = plan ? plan(&c->k, e) : 0;
    td_kernel_may_wish(false);
    if (need && td_kernel_wishes()) return wait_for_work(need, e);
    if (rc) return rc;
    if (writes_something(c)) count_chunks(&c->k);
    else plan_nothing(&c->k);
    return 0;
}

/* ---- what it works with */

enum { FEW = 64 << 10 }; /* bytes that are not counted: workers have them anyway */

static uint64_t work_of(const td_kcall *k, int64_t most)
{
    int64_t threads = 1;
    for (int p = 0; p < k->nphases; p++)
        if (k->phase[p].chunks > threads) threads = k->phase[p].chunks;
    if (threads > most) threads = most > 1 ? most : 1;
    uint64_t scratch;
    if (__builtin_mul_overflow(k->scratch_bytes, (uint64_t)threads, &scratch)) return UINT64_MAX;
    return k->work_bytes > UINT64_MAX - scratch ? UINT64_MAX : k->work_bytes + scratch;
}

/* Does what it works with lie in this process's memory? */
static bool works_here(const td_kcall *k)
{
    return k->device == TD_CPU || td_loop_devices[k->device].memory->host;
}

bool td_prep_light(const td_kcall *k)
{
    return works_here(k) ? work_of(k, INT64_MAX) <= FEW : !k->work_bytes;
}

static int refused(int rc, const td_error *why, unsigned device, uint64_t bytes, td_need *need, td_error *e)
{
    if (need) need->device = device;
    return td_fail(e, (td_code)rc, "no memory to work with (%.1f MB): %.300s", (double)bytes / 1e6, why->message);
}

static int charge_here(td_call *c, td_need *need, td_error *e)
{
    const td_issuer *who = c->who;
    uint64_t bytes = work_of(&c->k, who->threads);
    if (bytes <= FEW || !who->heap || !who->account) return 0;
    td_error why = {0};
    int rc = td_account_work(who->account, TD_CPU, bytes, &why);
    if (rc) return refused(rc, &why, TD_CPU, bytes, need, e);
    td_budget *lender = td_heap_budget(who->heap);
    if (lender) rc = td_budget_work(lender, bytes, &why);
    if (rc) {
        td_account_work_done(who->account, TD_CPU, bytes);
        return refused(rc, &why, TD_CPU, bytes, need, e);
    }
    c->payer = td_account_ref(who->account);
    c->lender = lender;
    c->work = bytes;
    return 0;
}

/* A stream runs its calls one by one, and so many may be under way: each has a place of its own. It is charged as work,
 * which comes back by itself, so the storage is nobody's. */
static int make_workplace(td_call *c, td_need *need, td_error *e)
{
    td_kcall *k = &c->k;
    td_account *payer = c->who->account;
    td_place where = {.heap = c->who->heap, .device = k->device};
    uint64_t bytes = (k->work_bytes + TD_EXTENT_ALIGN - 1) & ~(uint64_t)(TD_EXTENT_ALIGN - 1);
    td_error why = {0};
    int rc = td_account_work(payer, k->device, bytes, &why);
    if (rc) return refused(rc, &why, k->device, bytes, need, e);
    rc = td_storage_new(&c->workplace, &where, bytes, need, &why);
    if (rc) {
        td_account_work_done(payer, k->device, bytes);
        return rc == TD_WAIT_GROW ? rc : refused(rc, &why, k->device, bytes, need, e);
    }
    c->payer = payer ? td_account_ref(payer) : NULL;
    c->lender = NULL;
    c->work = bytes;
    k->work = c->workplace->data;
    if (k->replan) k->replan(k);
    return 0;
}

int td_prep_charge(td_call *c, td_need *need, td_error *e)
{
    if (works_here(&c->k)) return charge_here(c, need, e);
    return c->k.work_bytes ? make_workplace(c, need, e) : 0;
}

void td_prep_give_back(td_call *c)
{
    td_account_work_done(c->payer, c->workplace ? c->k.device : TD_CPU, c->work);
    if (c->lender) td_budget_work_done(c->lender, c->work);
    td_storage_unref(c->workplace);
    td_account_unref(c->payer);
    c->workplace = NULL;
    c->payer = NULL;
}

/* The kernel cannot write out[0] as that lies. */
static int choose_through(td_prep *p, td_error *e)
{
    assert(!p->through && "a temporary lies row by row");
    p->through = true;
    int rc = td_prep_temporary(p, e);
    if (rc) return rc;
    td_prep_output_args(p);
    return td_prep_choose(p->c, p->need, e);
}

int td_prep_plan(td_prep *p, td_error *e)
{
    td_call *c = p->c;
    td_prep_operands(c, (uint8_t)p->f.compute, device_of(c));
    int rc = td_prep_choose(c, p->need, e);
    if (!rc && c->k.wants_rows) rc = choose_through(p, e);
    if (!rc && p->through) rc = plan_copy(c, e);
    return rc ? rc : td_prep_charge(c, p->need, e);
}
