/* Ops made of ops, run through the engine: a builder that runs each op at once, as the engine runs a call. */
#ifndef TENSORD_TESTS_ORACLE_COMPOSED_H
#define TENSORD_TESTS_ORACLE_COMPOSED_H

#include "proto/ops/formula.h"
#include "tests/unit/grad_support.h"

enum { COMPOSED_PARTS = 512 };

typedef struct composed_parts {
    td_tensor *made[COMPOSED_PARTS];
    int n;
} composed_parts;

static int composed_op(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int nout,
                       td_fval *out)
{
    composed_parts *p = f->arg;
    td_input inputs[64] = {0};
    td_tensor *made[64] = {0};
    (void)nout;
    if (nin > 64 || p->n + 64 > COMPOSED_PARTS) return td_fail(f->error, TD_E_INTERNAL, "too many parts for this test");
    for (int i = 0; i < nin; i++) {
        if (in[i].kind == TD_F_NUMBER) inputs[i] = td_in_number(*in[i].number);
        else if (in[i].kind == TD_F_TENSOR) inputs[i] = td_in(in[i].ref);
    }
    int err =
        t_try(op, nin, inputs, attrs, f->create_graph ? TD_GRAD_ON : TD_GRAD_OFF, NULL, made, &f->nmade, f->error);
    for (int o = 0; o < f->nmade && !err; o++) out[o] = (td_fval){TD_F_TENSOR, {p->made[p->n++] = made[o]}};
    return err;
}

static void composed_meta(td_fx *f, const td_fval *v, td_fmeta *m)
{
    (void)f;
    *m = td_fmeta_of(&((td_tensor *)v->ref)->desc);
}

typedef struct composed_call {
    const td_op *op;
    int nin, *nout;
    const td_input *in;
    const td_attrs *attrs;
    td_tensor **out;
} composed_call;

static int composed_work(td_fx *f, void *arg)
{
    composed_call *c = arg;
    td_fval in[64], out[64];
    for (int i = 0; i < c->nin; i++) {
        in[i] = td_fv_none();
        if (c->in[i].kind == TD_IN_TENSOR) in[i] = (td_fval){TD_F_TENSOR, {c->in[i].tensor}};
        if (c->in[i].kind == TD_IN_NUMBER) in[i] = td_fv_at(&c->in[i].number);
    }
    int err = td_fx_make(f, c->op, c->nin, in, c->attrs, 64, out, c->nout);
    for (int o = 0; o < *c->nout && !err; o++) c->out[o] = td_tensor_ref(out[o].ref);
    return err;
}

/* As t_try. */
static int composed_try(const td_op *op, int nin, const td_input *in, const td_attrs *attrs, td_grad_mode mode,
                        td_tensor **out, int *nout, td_error *e)
{
    composed_parts parts = {.n = 0};
    composed_call call = {op, nin, nout, in, attrs, out};
    td_fx f;
    td_fx_init(&f);
    f.op = composed_op, f.meta = composed_meta, f.arg = &parts, f.error = e, f.of = op;
    f.create_graph = mode == TD_GRAD_ON;
    *nout = 0;
    int err = td_fx_guard(&f, composed_work, &call);
    for (int k = 0; k < parts.n; k++) td_tensor_unref(parts.made[k]);
    td_fx_deinit(&f);
    return err;
}

#endif
