/* The whole way for one op, for callers that hold tensors already; and what is done when a data-shaped op has ended. */
#include "daemon/ops/prepare.h"

static int fill(td_call *c, int nin, const td_input *in, const td_attrs *attrs, td_tensor **out, td_error *e)
{
    for (int i = 0; i < nin; i++) c->in[i] = in[i];
    for (int i = 0; (c->flags & TD_CF_OUT) && i < c->nout; i++) c->out[i] = out[i];
    if (!attrs) {
        int rc = td_attrs_decode(c->op, NULL, 0, &c->attrs, e);
        if (rc) td_call_error(c, e);
        return rc;
    }
    td_attrs_copy(&c->attrs, attrs);
    return 0;
}

int td_ops_try(td_issuer *who, unsigned op, int nin, const td_input *in, const td_attrs *attrs, uint32_t flags,
               int nout, td_tensor **out, td_need *need, td_error *e)
{
    const td_op *row = td_op_by_id(op);
    if (!row) return td_fail(e, TD_E_UNSUPPORTED, "there is no op with id %u", op);
    td_call *c = td_call_new(row, who, nin, nout, e);
    if (!c) return e ? e->code : TD_E_SYSTEM;
    c->flags = flags;
    int rc = fill(c, nin, in, attrs, out, e);
    if (!rc) rc = td_ops_prepare(c, need, e);
    for (int i = 0; !(flags & TD_CF_OUT) && i < nout; i++) out[i] = !rc && i < c->nout ? c->out[i] : NULL;
    if (rc || (c->flags & TD_CF_VIEW)) td_call_free(c);
    else who->submit(who, c);
    return rc;
}

int td_ops_run(td_issuer *who, unsigned op, int nin, const td_input *in, const td_attrs *attrs, uint32_t flags,
               int nout, td_tensor **out, td_error *e)
{
    return td_ops_try(who, op, nin, in, attrs, flags, nout, out, NULL, e);
}

void td_ops_cut_to_count(td_call *c)
{
    int64_t count;
    memcpy(&count, c->k.state, sizeof count);
    td_desc *d = &c->out[0]->desc;
    assert((c->op->flags & TD_OF_DATA_SHAPE) && count >= 0 && count <= d->shape[0]);
    d->shape[0] = count;
    uint64_t lo, hi;
    td_desc_extent(d, &lo, &hi);
    td_storage_shrink(c->out[0]->storage, hi);
}
