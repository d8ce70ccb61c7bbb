/* A fused call is made: its outputs, what it gives of those and of inputs; then it is issued. */
#include "daemon/ops/fused.h"
#include "daemon/ops/fused_parts.h"
#include "daemon/ops/prepare.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const td_param any_tensors = {.name = "tensors", .kind = TD_P_LIST, .flags = TD_PF_MUTATED};
static const td_output_def results = {.name = "results", .list = true};
static const td_op group_row = {.name = "program",
                                .doc = "Several small ops of a program.",
                                .signature = "program(tensors: T[]) -> T[]",
                                .nparams = 1,
                                .nouts = 1,
                                .mutates = true, /* td_input.writes say what */
                                .list_param = 0,
                                .params = &any_tensors,
                                .outs = &results};

/* ---- the call */

static void note(td_call *c, td_fused *g, td_fused_prepacked *prepacked, const char *caller,
                 void (*finished)(td_call *c))
{
    td_fused_note *n = (td_fused_note *)(void *)c->k.state;
    n->g = td_fused_ref(g);
    n->prepacked = prepacked;
    n->finished = finished;
    snprintf(n->caller, sizeof n->caller, "%s", caller);
}

static int make_outputs(td_call *c, const td_fused *g, td_need *need, td_error *e)
{
    td_place place = td_prep_place(c);
    for (uint32_t o = 0; o < g->nmade; o++) {
        int rc = td_prep_make(&place, &g->made[o].desc, g->made[o].bytes, &c->out[o], need, e);
        if (rc) return rc;
        c->out[o]->flags |= g->made[o].flags;
    }
    return TD_OK;
}

/* A view of an input, or of what is made. */
static int give_view(const td_fused_given *o, td_tensor *of, td_account *account, td_tensor **out, td_error *e)
{
    td_desc d = o->desc;
    d.offset += of->desc.offset;
    int rc = td_desc_check(&d, of->storage->nbytes, e);
    if (!rc) rc = td_tensor_view(out, of, &d, account, e);
    if (!rc && o->based) (*out)->view_base = td_tensor_ref(of->view_base ? of->view_base : of);
    return rc;
}

static void drop(uint32_t n, td_tensor *const *t)
{
    for (uint32_t k = 0; k < n; k++) td_tensor_unref(t[k]);
}

static int give(const td_fused *g, const td_call *c, td_tensor *const *inputs, td_tensor **outs, td_error *e)
{
    for (uint32_t k = 0; k < g->ngiven; k++) {
        const td_fused_given *o = &g->given[k];
        td_tensor *root = o->root.input ? inputs[o->root.nr] : c->out[o->root.nr];
        int rc = TD_OK;
        if (o->same < k) outs[k] = td_tensor_ref(outs[o->same]);
        else if (o->view) rc = give_view(o, root, c->who->account, &outs[k], e);
        else outs[k] = td_tensor_ref(root);
        if (rc) {
            drop(k, outs);
            return rc;
        }
        if (o->view) outs[k]->flags |= o->flags;
    }
    return TD_OK;
}

static void over(td_call *c)
{
    td_fused_note *n = (td_fused_note *)(void *)c->k.state;
    n->finished(c);
    td_fused_put_prepacked(n->g, n->prepacked, !c->cause && !atomic_load(&c->k.failed));
    td_fused_unref(n->g);
}

/* All are there, used or not, so that they keep their numbers; what is not used holds nothing up. */
static void set_inputs(td_call *c, const td_fused *g, td_tensor *const *inputs)
{
    for (uint32_t k = 0; k < g->ninputs; k++) {
        c->in[k] = td_in(g->used[k] ? inputs[k] : NULL);
        td_prep_arg(&c->args[k], inputs[k]);
    }
    for (uint32_t o = 0; o < g->nmade; o++) td_prep_arg(&c->args[c->nin + o], c->out[o]);
}

static uint32_t move(td_tensor *t, td_fused_moves w, const td_issuer *who)
{
    t->version->value += w.times - 1u;
    return td_tensor_bump(t, w.op, who->session, who->pid);
}

/* Nothing can fail any more: versions are what they were behind the last of the calls. */
static void conclude(td_call *c, const td_fused *g)
{
    for (uint32_t k = 0; k < g->nwritten; k++) {
        td_input *in = &c->in[g->written[k].input];
        in->writes = g->written[k].writes.times;
        in->step = move(in->tensor, g->written[k].writes, c->who);
    }
    for (uint32_t o = 0; o < g->nmade; o++)
        if (g->made[o].writes.times) move(c->out[o], g->made[o].writes, c->who);
}

static _Thread_local uint64_t loop_ran;

uint64_t td_fused_ran(void)
{
    return loop_ran;
}

/* The outputs are the call's until it is submitted, or held by it; who was given one has a reference of its own. */
static void submit(td_call *c)
{
    loop_ran += ((const td_fused_note *)(const void *)c->k.state)->g->ncalls;
    td_tensor *made[TD_MAX_OUTPUTS];
    uint32_t n = c->nout;
    memcpy(made, c->out, n * sizeof *made);
    c->finished = over;
    c->who->submit(c->who, c);
    drop(n, made);
}

int td_fused_call(td_fused *g, td_issuer *who, td_tensor *const *inputs, td_tensor **outs, const char *caller,
                  void (*finished)(td_call *c), td_need *need, td_error *e)
{
    td_call *c = td_call_new(&group_row, who, (int)g->ninputs, (int)g->nmade, e);
    if (!c) return e->code;
    c->flags = TD_CF_FUSED;
    int rc = make_outputs(c, g, need, e);
    if (!rc) rc = give(g, c, inputs, outs, e);
    if (!rc) {
        set_inputs(c, g, inputs);
        td_prep_operands(c, TD_FLOAT32, TD_CPU);
        td_fused_prepacked *prepacked = td_fused_take_prepacked(g, inputs);
        td_fused_set_kernel(&c->k, g, prepacked);
        note(c, g, prepacked, caller, finished);
        rc = td_prep_charge(c, need, e);
        if (rc) drop(g->ngiven, outs), td_fused_put_prepacked(g, prepacked, false), td_fused_unref(g);
    }
    if (!rc) {
        conclude(c, g);
        submit(c);
        return TD_OK;
    }
    drop(g->nmade, c->out);
    td_call_free(c);
    return rc;
}

/* ---- */

bool td_fused_uses(const td_fused *g, uint32_t input)
{
    return g->used[input];
}

bool td_fused_writes_inputs(const td_fused *g)
{
    return g->nwritten;
}

bool td_fused_writes(const td_fused *g, uint32_t input)
{
    return g->used[input] & TD_FUSED_WRITTEN;
}

uint32_t td_fused_calls(const td_fused *g)
{
    return g->ncalls;
}

void td_fused_tell(const td_fused *g, FILE *out)
{
    const char *kind = g->tiles ? "sweep" : g->heads ? "chunks" : "row";
    fprintf(out, "%s of %u ops, %.1f us of a core, %.1f KB to work with, makes %u tensor%s", kind, g->ncalls,
            g->cost_ns * 1e-3, (double)(g->arena + g->work_bytes) / 1e3, g->nmade, g->nmade == 1 ? "" : "s");
    if (g->nwritten) fprintf(out, ", writes %u", g->nwritten);
    fputs("\n", out);
    if (g->tiles)
        fprintf(out, "  %lld tiles of %llu elements, %lld to a chunk\n", (long long)g->tiles,
                (unsigned long long)g->tile, (long long)g->tiles_a_chunk);
    for (uint32_t k = 0; k < g->ncalls; k++) {
        const td_fused_run *r = td_run_of(g, k);
        if (r && r->first == k) fprintf(out, "  %u ops as one loop of machine code:\n", r->ncalls);
        fprintf(out, "  %s%-24s %s\n", r ? "  " : "", g->parts[k].op->name, g->parts[k].where);
    }
}

uint32_t td_fused_loops(const td_fused *g)
{
    return g->nruns;
}

uint64_t td_fused_bytes(const td_fused *g)
{
    return g->bytes;
}

td_fused *td_fused_ref(td_fused *g)
{
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void td_fused_part_free(td_fused_part *p)
{
    free(p->attrs);
    free(p->where);
    free(p->plan.state);
    free(p->last.state);
}

void td_fused_unref(td_fused *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) return;
    for (uint32_t k = 0; k < g->ncalls; k++) td_fused_part_free(&g->parts[k]);
    td_runs_free(g);
    free(g->parts);
    free(g->operands);
    free(g->descs);
    free(g->made);
    free(g->given);
    free(g->numbers);
    free(g->written);
    free(g->used);
    free(g);
}
