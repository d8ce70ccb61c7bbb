/* Calls: taken from and returned to a freelist, because every op of every client needs one for a moment.
 *
 * A call is large (kernel state, attributes, room for a dozen operands), so only what is used is ever initialised. Its
 * operands are borrowed while it is issued; td_call_hold makes them its own. */
#include "daemon/ops/prepacked.h"
#include "daemon/ops/prepare.h"
#include <stdio.h>
#include <stdlib.h>

#define KEEP 256

static _Thread_local struct {
    td_call *first;
    unsigned count;
} loop_dead;

static td_call *take(void)
{
    td_call *c = loop_dead.first;
    if (!c) return malloc(sizeof *c);
    loop_dead.first = c->next;
    loop_dead.count--;
    return c;
}

static void give(td_call *c)
{
    if (loop_dead.count >= KEEP) {
        free(c);
        return;
    }
    c->next = loop_dead.first;
    loop_dead.first = c;
    loop_dead.count++;
}

static bool make_room(td_call *c, int nin, int nout)
{
    c->in = nin <= TD_CALL_INLINE ? c->in_inline : malloc((size_t)nin * sizeof *c->in);
    bool few = nout <= TD_CALL_INLINE;
    c->out = few ? c->out_inline : malloc((size_t)nout * (sizeof(void *) + sizeof *c->step));
    c->step = few ? c->step_inline : (uint32_t *)(void *)(c->out + nout);
    c->args = nin + nout <= 2 * TD_CALL_INLINE ? c->args_inline : malloc((size_t)(nin + nout) * sizeof *c->args);
    return c->in && c->out && c->args;
}

static void drop_room(td_call *c)
{
    if (c->in != c->in_inline) free(c->in);
    if (c->out != c->out_inline) free(c->out);
    if (c->args != c->args_inline) free(c->args);
}

td_call *td_call_new(const td_op *op, td_issuer *who, int nin, int nout, td_error *e)
{
    if (nin < 0 || nout < 0 || nin > TD_MAX_INPUTS || nout > TD_MAX_OUTPUTS) {
        td_fail(e, TD_E_INVALID, "%s with %d inputs and %d outputs; at most %d and %d are taken", op->name, nin, nout,
                TD_MAX_INPUTS, TD_MAX_OUTPUTS);
        return NULL;
    }
    if (td_op_check_count(op, nin, e)) return NULL;
    td_call *c = take();
    if (!c || !make_room(c, nin, nout)) {
        if (c) drop_room(c), give(c);
        td_no_memory(e, "for a call of %s", op->name);
        return NULL;
    }
    c->op = op;
    c->who = who;
    c->flags = 0;
    c->nin = (uint16_t)nin;
    c->nout = (uint16_t)nout;
    td_attrs_init(&c->attrs);
    for (int i = 0; i < nin; i++) c->in[i].kind = TD_IN_ABSENT;
    for (int i = 0; i < nout; i++) c->out[i] = NULL, c->step[i] = 0;
    c->cast = NULL;
    c->copy = NULL;
    c->payer = NULL;
    c->workplace = NULL;
    c->cause = NULL;
    c->finished = NULL;
    c->recorded = NULL;
    c->owner = c->task = NULL;
    c->next = NULL;
    atomic_init(&c->k.failed, 0);
    c->k.nphases = 0;
    c->k.packing.in = 0;
    c->k.prepack = NULL;
    c->k.device = TD_CPU;
    td_error_clear(&c->k.error);
    memcpy(c->where, who->where, sizeof c->where);
    return c;
}

void td_call_hold(td_call *c)
{
    if (c->flags & TD_CF_HELD) return;
    c->flags |= TD_CF_HELD;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].kind == TD_IN_TENSOR) td_tensor_ref(c->in[i].tensor);
    for (int i = 0; i < c->nout; i++) td_tensor_ref(c->out[i]);
}

void td_call_let_go(td_call *c)
{
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i].kind == TD_IN_TENSOR) td_tensor_unref(c->in[i].tensor);
        c->in[i].kind = TD_IN_ABSENT;
    }
    for (int i = 0; i < c->nout; i++) {
        td_tensor_unref(c->out[i]);
        c->out[i] = NULL;
    }
}

static void settle(td_call *c, bool wrote)
{
    void (*recorded)(td_call *, bool) = c->recorded;
    c->recorded = NULL;
    if (recorded) recorded(c, wrote);
}

void td_call_free(td_call *c)
{
    if (!c) return;
    settle(c, true);
    td_prepacked_take_back(c);
    if (c->flags & TD_CF_HELD) td_call_let_go(c);
    td_prep_discharge(c);
    td_tensor_unref(c->cast);
    if (c->copy) free(c->copy);
    td_cause_unref(c->cause);
    drop_room(c);
    give(c);
}

bool td_call_writes_input(const td_call *c, int i)
{
    if (c->in[i].kind != TD_IN_TENSOR) return false;
    if (c->flags & TD_CF_FUSED) return c->in[i].writes;
    const td_param *p = &c->op->params[td_op_param_of(c->op, c->nin, i)];
    return (p->flags & TD_PF_MUTATED) && (!p->only_if || td_attr_bool(&c->attrs, p->only_if - 1));
}

/* Those of a fused call are in a row. */
static void void_steps(const td_call *c, const td_input *in)
{
    uint32_t n = c->flags & TD_CF_FUSED ? in->writes : 1;
    while (n-- > 0) td_version_void(in->tensor->version, in->step - n);
}

void td_call_unwritten(td_call *c)
{
    for (int o = 0; c->flags & TD_CF_OUT && o < c->nout; o++)
        if (c->out[o]) td_version_void(c->out[o]->version, c->step[o]);
    for (int i = 0; c->op->mutates && i < c->nin; i++)
        if (td_call_writes_input(c, i)) void_steps(c, &c->in[i]);
    settle(c, false);
}

void td_call_error(const td_call *c, td_error *e)
{
    if (!e) return;
    if (!e->code && c->cause) {
        *e = c->cause->error;
        return;
    }
    if (!e->code && atomic_load(&((td_call *)c)->k.failed)) *e = c->k.error;
    if (!e->op[0]) snprintf(e->op, sizeof e->op, "%s", c->op->name);
    if (!e->where[0]) snprintf(e->where, sizeof e->where, "%s", c->where);
}

void td_calls_forget_dead(void)
{
    for (td_call *next; loop_dead.first; loop_dead.first = next) {
        next = loop_dead.first->next;
        free(loop_dead.first);
    }
    loop_dead.count = 0;
}
