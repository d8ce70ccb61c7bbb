/* Preparing a call: everything between "decoded" and "issued".
 *
 * Nothing that others can see changes before the last step that can fail is over: a call that fails, or that must wait
 * for memory, leaves no output, no version moved and no random number used. */
#include "daemon/ops/prepare.h"

static int check_outputs(td_prep *p, int room, td_error *e)
{
    td_call *c = p->c;
    if (c->flags & TD_CF_OUT ? p->f.nout != room : p->f.nout > room)
        return td_fail(e, TD_E_INVALID, "%s has %d outputs, but there is room for %d", c->op->name, p->f.nout, room);
    c->nout = (uint16_t)p->f.nout;
    return 0;
}

static int compute(td_prep *p, td_error *e)
{
    td_call *c = p->c;
    int err = td_prep_check_written(p, e);
    if (!err) err = c->flags & TD_CF_OUT ? td_prep_check_given(p, e) : td_prep_allocate(p, e);
    if (!err) err = td_prep_temporary(p, e);
    if (err) return err;
    td_prep_input_args(c, p->f.compute);
    td_prep_output_args(p);
    return td_prep_plan(p, e);
}

/* Nothing can fail any more: move versions, use up the random number. */
static void conclude(const td_call *c, bool writes)
{
    td_issuer *who = c->who;
    if (c->op->flags & TD_OF_RANDOM) who->counter++;
    for (int o = 0; (c->flags & TD_CF_OUT) && o < c->nout; o++)
        td_tensor_bump(c->out[o], c->op->id, who->session, who->pid);
    for (int i = 0; writes && i < c->nin; i++)
        if (td_call_writes_input(c, i)) td_tensor_bump(c->in[i].tensor, c->op->id, who->session, who->pid);
}

void td_ops_conclude(const td_call *c)
{
    conclude(c, true);
}

int td_ops_prepare(td_call *c, uint64_t *lack, td_heap **heap, td_error *e)
{
    td_again *again = td_again_of(c);
    if (again && td_again_fits(again, c)) return td_again_prepare(again, c, lack, heap, e);
    td_prep p;
    int room = c->nout;
    int err = td_prep_open(&p, c, lack, e);
    if (!err) err = check_outputs(&p, room, e);
    if (!err) err = c->op->flags & TD_OF_VIEW ? td_prep_views(&p, e) : compute(&p, e);
    if (!err && !(c->flags & (TD_CF_VIEW | TD_CF_DEFER))) conclude(c, p.writes);
    if (err) {
        td_prep_drop(&p);
        c->nout = (uint16_t)room;
        c->flags &= ~(uint32_t)TD_CF_VIEW;
        if (err == TD_WAIT_GROW) *heap = p.place.heap;
        else td_call_error(c, e);
    }
    if (!err && again) td_again_keep(again, &p);
    td_prep_close(&p);
    return err;
}
