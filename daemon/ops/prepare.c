/* Preparing a call: everything between "decoded" and "issued".
 *
 * Nothing that others can see changes before the last step that can fail is over: a call that fails, or that must wait
 * for memory, leaves no output, no version moved and no random number used. */
#include "daemon/ops/prepare.h"
#include "daemon/ops/recipe.h"

static int check_outputs(td_prep *p, td_error *e)
{
    td_call *c = p->c;
    int room = p->room;
    if (c->flags & TD_CF_OUT ? p->f.nout != room : p->f.nout > room)
        return td_fail(e, TD_E_INVALID, "%s has %d outputs, but there is room for %d", c->op->name, p->f.nout, room);
    c->nout = (uint16_t)p->f.nout;
    return 0;
}

static int compute(td_prep *p, td_error *e)
{
    td_call *c = p->c;
    int rc = td_prep_check_written(p, e);
    if (!rc) rc = c->flags & TD_CF_OUT ? td_prep_check_given(p, e) : td_prep_allocate(p, e);
    if (!rc) rc = td_prep_temporary(p, e);
    if (rc) return rc;
    td_prep_input_args(c, p->f.compute);
    td_prep_output_args(p);
    return td_prep_plan(p, e);
}

/* Nothing can fail any more: move versions, use up the random number. */
static void conclude(td_call *c, bool writes)
{
    td_issuer *who = c->who;
    if (c->op->flags & TD_OF_RANDOM) who->counter++;
    for (int o = 0; (c->flags & TD_CF_OUT) && o < c->nout; o++)
        c->step[o] = td_tensor_bump(c->out[o], c->op->id, who->session, who->pid);
    for (int i = 0; writes && i < c->nin; i++)
        if (td_call_writes_input(c, i))
            c->in[i].step = td_tensor_bump(c->in[i].tensor, c->op->id, who->session, who->pid);
}

void td_ops_conclude(td_call *c)
{
    conclude(c, true);
}

/* Infer, make or check the outputs, choose and plan; remembered for calls that look the same. */
static int prepare_anew(td_call *c, td_need *need, td_error *e)
{
    td_prep p;
    int rc = td_prep_open(&p, c, need, e);
    if (!rc) rc = check_outputs(&p, e);
    if (!rc) rc = c->op->flags & TD_OF_VIEW ? td_prep_views(&p, e) : compute(&p, e);
    if (rc) {
        td_prep_drop(&p);
        c->flags &= ~(uint32_t)TD_CF_VIEW;
    } else {
        if (!(c->flags & (TD_CF_VIEW | TD_CF_DEFER))) conclude(c, p.writes);
        td_recipe_keep(&p);
    }
    td_prep_close(&p);
    return rc;
}

int td_ops_prepare(td_call *c, td_need *need, td_error *e)
{
    uint16_t room = c->nout;
    const td_recipe *r = td_recipe_find(c);
    int rc = r ? td_recipe_bind(r, c, need, e) : prepare_anew(c, need, e);
    if (rc) {
        c->nout = room;
        if (rc != TD_WAIT_GROW) td_call_error(c, e);
    } else if (r && (c->flags & (TD_CF_OUT | TD_CF_DEFER)) == TD_CF_OUT) {
        conclude(c, false);
    }
    return rc;
}
