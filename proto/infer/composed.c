/* What comes out of an op that is made of others: its formula, over a builder that infers each op and does nothing
 * else. Invariant: every value is a descriptor that lives as long as the outermost call. */
#include "proto/infer/infer.h"

#include "proto/ops/formula.h"

typedef struct whole {
    td_fx how;
    uint8_t device; /* what is made on the way lies beside the inputs */
} whole;

static int infer_one(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int nout,
                     td_fval *out)
{
    whole *w = f->arg;
    int room = nout < 0 ? -nout : nout;
    td_operand *operands = td_fx_alloc(f, (size_t)nin * sizeof *operands);
    td_desc *made = td_fx_alloc_for(&w->how, f, (size_t)room * sizeof *made);
    for (int i = 0; i < nin; i++) {
        operands[i].desc = in[i].kind == TD_F_TENSOR ? in[i].ref : NULL;
        operands[i].scalar = in[i].kind == TD_F_NUMBER ? in[i].number : NULL;
    }
    td_inference one = {.op = op, .in = operands, .nin = nin, .attrs = attrs, .out = made, .max_out = room};
    if (op->flags & TD_OF_CREATION) one.device = w->device;
    TD_TRY(td_op_infer(&one, f->error));
    for (int o = 0; o < one.nout; o++) out[o] = (td_fval){TD_F_TENSOR, {&made[o]}};
    f->nmade = one.nout;
    return TD_OK;
}

static void meta_of(td_fx *f, const td_fval *v, td_fmeta *m)
{
    (void)f;
    *m = td_fmeta_of(v->ref);
}

static int infer_whole(td_fx *how, void *arg)
{
    td_inference *f = arg;
    td_fval *in = td_fx_values(how, f->nin), *out = td_fx_values(how, f->max_out);
    for (int i = 0; i < f->nin; i++) {
        if (f->in[i].desc) in[i] = (td_fval){TD_F_TENSOR, {(void *)f->in[i].desc}};
        else if (f->in[i].scalar) in[i] = td_fv_at(f->in[i].scalar);
    }
    int nout = 0, rc = td_fx_make(how, f->op, f->nin, in, f->attrs, f->max_out, out, &nout);
    for (int o = 0; o < nout && !rc; o++) rc = td_infer_append(f, out[o].ref, how->error);
    return rc;
}

TD_RULE(composed)
{
    whole w = {.device = td_infer_device(f)};
    td_fx *how = &w.how;
    td_fx_init(how);
    how->op = infer_one, how->meta = meta_of, how->arg = &w, how->create_graph = false, how->error = e, how->of = f->op;
    int rc = td_fx_guard(how, infer_whole, f);
    td_fx_deinit(how);
    if (!rc && f->nout) f->compute = (td_dtype)f->out[0].dtype;
    return rc;
}
