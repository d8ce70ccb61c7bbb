/* Anomaly mode: name the op whose gradient made a NaN, and where it was called.
 *
 * The engine may not look at values that are not there yet, so it issues any(isnan(gradient)) for each gradient and
 * reads the answers at the end, before anything is accumulated: the first in the order of the nodes is the culprit. inf
 * is no anomaly. */
#include "daemon/autograd/backward.h"
#include "proto/ops/opid.h"
#include <stdio.h>
#include <stdlib.h>

static td_suspect *grown(td_backward *b)
{
    if (b->nsuspects < b->suspects_room) return b->suspects;
    uint32_t room = b->suspects_room ? 2 * b->suspects_room : 32;
    td_suspect *more = realloc(b->suspects, room * sizeof *more);
    if (more) b->suspects = more, b->suspects_room = room;
    return more;
}

/* The answer will be read here. */
static int bring(td_backward *b, td_tensor **flag, td_error *e)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, TD_CPU);
    td_tensor *there = *flag;
    td_input in = td_in(there);
    *flag = NULL;
    int rc = td_ops_try(b->who, TD_OP_TO_DEVICE, 1, &in, &a, 0, 1, flag, b->eval.need, e);
    td_tensor_unref(there);
    return rc;
}

int td_anomaly_watch(td_backward *b, const td_node *n, int i, td_tensor *g, td_error *e)
{
    td_tensor *nan = NULL, *flag = NULL;
    td_input in = td_in(g);
    bool function = n->kind == TD_N_FUNCTION;
    const td_op *op = function ? NULL : td_op_by_id(n->op);
    int shift = n->kind == TD_N_SLICE; /* its first edge is the base: the op's own input 0 */
    int k = i > shift ? i - shift : 0;
    int nin = n->nin - shift;
    td_eval *v = &b->eval;
    int rc = td_ops_try(b->who, TD_OP_ISNAN, 1, &in, NULL, 0, 1, &nan, v->need, e);
    in = td_in(nan);
    if (!rc) rc = td_ops_try(b->who, TD_OP_ANY, 1, &in, NULL, 0, 1, &flag, v->need, e);
    td_tensor_unref(nan);
    if (!rc && flag->desc.device != TD_CPU) rc = bring(b, &flag, e);
    if (rc) return td_eval_failed(v, rc);
    if (!grown(b)) {
        td_tensor_unref(flag);
        return td_no_memory(e, "for anomaly mode");
    }
    const char *input = op && op->nparams ? op->params[td_op_param_of(op, nin, k)].name : "itself";
    b->suspects[b->nsuspects++] = (td_suspect){flag, td_site_new(op ? op->name : n->name), td_site_ref(n->where), input};
    return 0;
}

static int accuse(const td_suspect *s, td_error *e)
{
    if (e) {
        snprintf(e->op, sizeof e->op, "%s", s->op);
        snprintf(e->where, sizeof e->where, "%s", s->where);
    }
    return td_fail(e, TD_E_AUTOGRAD, "the gradient of '%s' gave nan values for its input '%s'%s%s", s->op, s->input,
                   s->where[0] ? "; it was called at " : "", s->where);
}

int td_anomaly_verdict(td_backward *b, bool *wait, td_error *e)
{
    *wait = false;
    for (uint32_t k = 0; k < b->nsuspects; k++)
        if (b->suspects[k].flag->storage->hazards) *wait = true;
    for (uint32_t k = 0; k < b->nsuspects && !*wait; k++)
        if (*(const unsigned char *)td_tensor_data(b->suspects[k].flag)) return accuse(&b->suspects[k], e);
    if (!*wait) td_anomaly_drop(b);
    return 0;
}

void td_anomaly_drop(td_backward *b)
{
    for (uint32_t k = 0; k < b->nsuspects; k++) {
        td_tensor_unref(b->suspects[k].flag);
        td_site_unref(b->suspects[k].op);
        td_site_unref(b->suspects[k].where);
    }
    free(b->suspects);
    b->suspects = NULL;
    b->nsuspects = b->suspects_room = 0;
}
