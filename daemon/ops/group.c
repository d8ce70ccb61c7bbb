/* Running a group: one call whose chunk runs the parts in their order, each at this call's addresses. */
#include "daemon/ops/group.h"
#include "daemon/ops/group_parts.h"
#include "daemon/ops/prepare.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const td_param any_tensors = {.name = "tensors", .kind = TD_P_LIST};
static const td_output_def results = {.name = "results", .list = true};
static const td_op group_row = {.name = "program",
                                .doc = "Several small ops of a program.",
                                .signature = "program(tensors: T[]) -> T[]",
                                .nparams = 1,
                                .nouts = 1,
                                .list_param = 0,
                                .params = &any_tensors,
                                .outs = &results};

/* ---- the chunk */

/* In the call's state. */
typedef struct note {
    td_group *g;
    void (*finished)(td_call *c);
    char caller[56];
} note;
_Static_assert(sizeof(note) <= TD_KSTATE_BYTES, "it has to fit");

/* In scratch, before that of the parts. */
typedef struct bench {
    td_kcall k;
    td_karg args[];
} bench;

static size_t bench_bytes(const td_group *g)
{
    size_t bytes = sizeof(bench) + g->most_args * sizeof(td_karg) + (1 + g->ninputs + g->nmade) * sizeof(void *);
    return (bytes + 63) / 64 * 64;
}

static void find_bases(const td_kcall *k, unsigned char **base)
{
    *base++ = k->work;
    for (int i = 0; i < k->nin; i++) *base++ = k->in[i].data;
    for (int o = 0; o < k->nout; o++) *base++ = k->out[o].data;
}

static void *at(unsigned char *base, int64_t offset) /* nothing lies nowhere */
{
    return (void *)((uintptr_t)base + (uintptr_t)offset);
}

static void take_args(const td_group *g, const td_group_part *p, unsigned char *const *base, td_karg *a)
{
    const td_group_operand *o = g->operands + p->operands, *end = o + p->nin + p->nout;
    for (; o < end; o++, a++) {
        *a = o->arg;
        if (o->base != TD_GROUP_NONE) a->data = at(base[o->base], o->offset);
        else if (a->desc) a->data = a->number;
    }
}

static void set_up(const td_group_part *p, bench *b, void *work)
{
    td_kcall *k = &b->k;
    k->op = p->op;
    k->attrs = p->attrs;
    k->in = b->args;
    k->out = b->args + p->nin;
    k->nin = p->nin;
    k->nout = p->nout;
    k->compute = p->compute;
    k->nphases = p->nphases;
    k->work = work;
    for (int i = 0; i < p->nphases; i++) k->phase[i] = p->phase[i];
    memcpy(k->state, p->state, p->state_bytes);
    p->replan(k);
}

static void failed(td_kcall *k, const td_kcall *part, const char *where)
{
    const note *n = (const note *)(const void *)k->state;
    td_kernel_fail(k, (td_code)part->error.code, "%s", part->error.message);
    if (part->error.op[0]) memcpy(k->error.op, part->error.op, sizeof k->error.op);
    if (where[0]) snprintf(k->error.where, sizeof k->error.where, "%s%s", where, n->caller);
}

static bool run_part(td_kcall *k, void *scratch)
{
    for (int p = 0; p < k->nphases; p++)
        for (int64_t i = 0; i < k->phase[p].chunks; i++) {
            k->phase[p].fn(k, i, scratch);
            if (atomic_load_explicit(&k->failed, memory_order_relaxed)) return false;
        }
    return true;
}

static void run(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk;
    const td_group *g = ((const note *)(const void *)k->state)->g;
    bench *b = scratch;
    unsigned char **base = (unsigned char **)(void *)(b->args + g->most_args), *work = k->work;
    void *rest = (unsigned char *)scratch + bench_bytes(g);
    find_bases(k, base);
    b->k.device = TD_CPU;
    b->k.seed = b->k.counter = 0;
    atomic_init(&b->k.failed, 0);
    td_error_clear(&b->k.error);
    for (const td_group_part *p = g->parts; p < g->parts + g->ncalls; p++) {
        if (!p->nphases) continue;
        take_args(g, p, base, b->args);
        set_up(p, b, work + g->arena);
        if (run_part(&b->k, rest)) continue;
        failed(k, &b->k, p->where);
        return;
    }
}

/* ---- the call */

static void set_kernel(td_call *c, td_group *g, const char *caller, void (*finished)(td_call *c))
{
    enum { LINE = 64 };
    td_kcall *k = &c->k;
    td_prep_operands(c, TD_FLOAT32, TD_CPU);
    k->nphases = 1;
    k->clean_phases = 0;
    k->phase[0] = (td_phase){run, 1};
    k->scratch_bytes = bench_bytes(g) + g->scratch_bytes;
    k->work_bytes = g->arena + g->work_bytes + LINE; /* never none: addresses count from there */
    k->cost_ns = g->cost_ns;
    k->seed = k->counter = 0;
    k->replan = NULL;
    k->work = NULL;
    note *n = (note *)(void *)k->state;
    n->g = td_group_ref(g);
    n->finished = finished;
    snprintf(n->caller, sizeof n->caller, "%s", caller);
}

static int make_outputs(td_call *c, const td_group *g, uint64_t *lack, td_heap **heap, td_error *e)
{
    td_place place = td_prep_place(c);
    for (uint32_t o = 0; o < g->nmade; o++) {
        int rc = td_prep_make(&place, &g->made[o].desc, g->made[o].bytes, &c->out[o], lack, e);
        if (rc == TD_WAIT_GROW) *heap = place.heap;
        if (rc) return rc;
    }
    return TD_OK;
}

/* A view of an input, or of what is made. */
static int give_view(const td_group_given *o, td_tensor *of, td_account *account, td_tensor **out, td_error *e)
{
    td_desc d = o->desc;
    d.offset += of->desc.offset;
    int rc = td_desc_check(&d, of->storage->nbytes, e);
    if (!rc) rc = td_tensor_view(out, of, &d, account, e);
    if (!rc && o->based) (*out)->view_base = td_tensor_ref(of->view_base ? of->view_base : of);
    return rc;
}

static int give(const td_group *g, const td_call *c, td_tensor *const *inputs, td_tensor **outs, td_error *e)
{
    for (uint32_t k = 0; k < g->ngiven; k++) {
        const td_group_given *o = &g->given[k];
        td_tensor *root = o->root.input ? inputs[o->root.nr] : c->out[o->root.nr];
        int rc = TD_OK;
        if (o->view) rc = give_view(o, root, c->who->account, &outs[k], e);
        else outs[k] = td_tensor_ref(root);
        if (rc) {
            while (k-- > 0) td_tensor_unref(outs[k]);
            return rc;
        }
        if (o->view || !o->root.input) outs[k]->flags |= o->flags;
    }
    return TD_OK;
}

static void drop(uint32_t n, td_tensor *const *t)
{
    for (uint32_t k = 0; k < n; k++) td_tensor_unref(t[k]);
}

static void over(td_call *c)
{
    note *n = (note *)(void *)c->k.state;
    n->finished(c);
    td_group_unref(n->g);
}

/* All are there, used or not, so that they keep their numbers; what is not used holds nothing up. */
static void set_inputs(td_call *c, const td_group *g, td_tensor *const *inputs)
{
    for (uint32_t k = 0; k < g->ninputs; k++) {
        c->in[k] = td_in(g->used[k] ? inputs[k] : NULL);
        td_prep_arg(&c->args[k], inputs[k]);
    }
    for (uint32_t o = 0; o < g->nmade; o++) td_prep_arg(&c->args[c->nin + o], c->out[o]);
}

static _Thread_local uint64_t loop_ran;

uint64_t td_groups_ran(void)
{
    return loop_ran;
}

/* The outputs are the call's until it is submitted, or held by it; who was given one has a reference of its own. */
static void submit(td_call *c)
{
    loop_ran += ((const note *)(const void *)c->k.state)->g->ncalls;
    td_tensor *made[TD_MAX_OUTPUTS];
    uint32_t n = c->nout;
    memcpy(made, c->out, n * sizeof *made);
    c->finished = over;
    c->who->submit(c->who, c);
    drop(n, made);
}

int td_group_call(td_group *g, td_issuer *who, td_tensor *const *inputs, td_tensor **outs, const char *caller,
                  void (*finished)(td_call *c), uint64_t *lack, td_heap **heap, td_error *e)
{
    td_call *c = td_call_new(&group_row, who, (int)g->ninputs, (int)g->nmade, e);
    if (!c) return e->code;
    int rc = make_outputs(c, g, lack, heap, e);
    if (!rc) rc = give(g, c, inputs, outs, e);
    if (!rc) {
        set_inputs(c, g, inputs);
        set_kernel(c, g, caller, finished);
        rc = td_prep_charge(c, e);
        if (rc) drop(g->ngiven, outs), td_group_unref(g);
    }
    if (!rc) {
        submit(c);
        return TD_OK;
    }
    drop(g->nmade, c->out);
    td_call_free(c);
    return rc;
}

/* ---- */

bool td_group_uses(const td_group *g, uint32_t input)
{
    return g->used[input];
}

uint32_t td_group_calls(const td_group *g)
{
    return g->ncalls;
}

double td_group_cost(const td_group *g)
{
    return g->cost_ns;
}

uint64_t td_group_bytes(const td_group *g)
{
    return g->bytes;
}

bool td_group_is_shared(const td_group *g)
{
    return g->refs > 1;
}

td_group *td_group_ref(td_group *g)
{
    g->refs++;
    return g;
}

void td_group_part_free(td_group_part *p)
{
    free(p->attrs);
    free(p->state);
    free(p->where);
}

void td_group_unref(td_group *g)
{
    if (!g || --g->refs) return;
    for (uint32_t k = 0; k < g->ncalls; k++) td_group_part_free(&g->parts[k]);
    free(g->parts);
    free(g->operands);
    free(g->made);
    free(g->given);
    free(g->used);
    free(g);
}
