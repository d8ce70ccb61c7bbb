/* A request to a model: held beside the stream until the outputs are there, and answered with these and where they lie.
 *
 * The inputs are an item, as those of a queue are: what its client writes to them afterwards the model does not see. */
#include "daemon/session/calls/deliver.h"

typedef struct inferring {
    td_delivery d;
    uint32_t version;
} inferring;

static void taken(td_session *s, td_delivery *d)
{
    (void)s;
    d->place = ((const inferring *)(const void *)d)->version;
}

static void answered(void *arg, td_queued_item *out, const td_error *error)
{
    td_delivery *d = arg;
    d->item = out;
    td_held_over(&d->h, error);
}

/* TD_AGAIN: another's write lease is in the way. */
static int gather(td_session *s, const Td__Wire__Infer *q, td_queued_item *in, td_error *e)
{
    for (size_t k = 0; k < q->n_in; k++) {
        td_tensor *t = td_call_tensor(s, q->in[k], e);
        int rc = t ? td_session_check_lease(s, t->storage, e) : e->code;
        if (!rc) rc = td_queue_item_add(in, t, !(t->storage->flags & (TD_SF_SERVICE | TD_SF_RACY)), e);
        if (rc) return rc;
    }
    return TD_OK;
}

static int check(td_session *s, const Td__Wire__Infer *q, td_error *e)
{
    if (q->n_in > TD_MODEL_ENDS || q->n_out > TD_MODEL_ENDS)
        return td_fail(e, TD_E_INVALID, "%zu inputs and %zu outputs; a model has at most %d of each", q->n_in, q->n_out,
                       TD_MODEL_ENDS);
    for (size_t k = 0; k < q->n_out; k++) {
        int rc = td_call_new_id(s, q->out[k], e);
        if (rc) return rc;
    }
    return TD_OK;
}

/* Takes the item over. */
static int ask(td_session *s, uint64_t serial, const Td__Wire__Infer *q, td_model_user *u, td_queued_item *in,
               td_error *e)
{
    static const td_wait_kind for_answer = {"the answer of model", .finish = td_delivery_finish,
                                            .cancel = td_delivery_cancel};
    static const td_delivery_kind kind = {.taken = taken}; /* no more outputs come than ids were brought */
    td_await *at = NULL;
    int rc = td_model_ask(&at, u, in, q->timeout_us, q->priority, (uint32_t)q->n_out, answered, e);
    if (rc) {
        td_queue_item_free(in);
        return rc;
    }
    inferring *x = td_delivery_new(s, &for_answer, &kind, sizeof *x, serial, q->n_out, q->out, e);
    if (!x) {
        td_await_cancel(s->service, at);
        return e->code;
    }
    x->version = td_inquiry_number(at);
    td_held_awaits(&x->d.h, at);
    return TD_OK;
}

int td_call_infer(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Infer *q = call->infer;
    td_model_user *u = td_session_model(s, q->model, e);
    td_queued_item *in = NULL;
    int rc = u ? check(s, q, e) : e->code;
    if (!rc) rc = td_held_room(s);
    if (!rc) rc = td_queue_item_new(&in, s->account, q->n_in, 0, e);
    if (!rc) rc = gather(s, q, in, e);
    if (!rc) return ask(s, call->serial, q, u, in, e);
    td_queue_item_free(in);
    return rc;
}
