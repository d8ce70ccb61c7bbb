/* One op record: ids become tensors, the op is issued, new tensors are bound to the ids that the client chose.
 *
 * A failure is no reason to stop: it becomes the cause that the outputs carry instead of a value, and spreads to
 * whatever uses them. Only a record that breaks the protocol ends the connection. */
#include "daemon/session/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>

static void note_unwritten(td_session *s, uint32_t id, td_cause *cause)
{
    const td_object *x = td_objects_find(&s->objects, id);
    if (x && x->tensor) td_late_note(&s->failures.late, x->tensor->storage, cause);
}

/* The op fails: its new outputs get the cause; of what it should have written, and of the op for the next sync, the
 * session remembers it. Takes over nothing. */
static int fail_outputs(td_session *s, const td_record *r, td_cause *cause, td_error *e)
{
    const td_op *op = td_op_by_id(r->op);
    for (unsigned i = 0; op && op->mutates && !td_op_check_count(op, r->nin, NULL) && i < r->nin; i++)
        if (op->params[td_op_param_of(op, r->nin, (int)i)].flags & TD_PF_MUTATED) note_unwritten(s, r->in[i], cause);
    for (unsigned i = 0; r->flags & TD_RF_OUT && i < r->nout; i++) note_unwritten(s, r->out[i], cause);
    if (!(r->flags & TD_RF_OUT)) {
        for (unsigned i = 0; i < r->nout; i++) {
            if (td_objects_check_free(&s->objects, r->out[i], NULL)) continue;
            int rc = td_objects_bind(&s->objects, r->out[i], NULL, td_cause_ref(cause), e);
            if (rc) return rc;
        }
    }
    td_session_failed(s, cause);
    return TD_OK;
}

static int fail_with(td_session *s, const td_record *r, const char *op, td_error *e)
{
    if (!e->op[0]) snprintf(e->op, sizeof e->op, "%s", op);
    if (!e->where[0]) snprintf(e->where, sizeof e->where, "%s", s->issuer.where);
    td_cause *cause = td_session_cause(s, e, e);
    if (!cause) return e->code;
    int rc = fail_outputs(s, r, cause, e);
    td_cause_unref(cause);
    return rc;
}

/* A call that this session issued has ended. The session lives as long as its flow has something pending. */
static void op_finished(td_call *c)
{
    if (!c->cause) return;
    td_session_unwritten(c->who, c);
}

/* A data-shaped call has ended: now its output has its shape, and the session can go on. */
static void shape_finished(td_call *c)
{
    if (!c->cause && !atomic_load(&c->k.failed)) td_ops_cut_to_count(c);
    op_finished(c);
    td_session *s = c->owner;
    if (!s->life.ended && s->wait.kind) td_session_ready(s);
}

/* Only now is the output bound: until its shape was known nobody, not even a clone of this session, could use it. */
static void shape_known(td_session *s, td_wait *w)
{
    td_error e = {0};
    td_tensor *t = w->tensor;
    w->tensor = NULL;
    if (t) td_objects_bind(&s->objects, w->id, t, NULL, &e);
}

static const td_wait_kind for_shape = {"a shape", .finish = shape_known};

/* Fill c->in from ids and immediate numbers. TD_OK; or TD_E_* with `e`, *cause set when it was an input's own. */
static int take_inputs(td_session *s, const td_record *r, td_call *c, uint32_t *used, td_cause **cause, td_error *e)
{
    for (unsigned i = 0; i < r->nin; i++) {
        if (r->in[i] == 0) {
            c->in[i] = td_in(NULL);
        } else if (r->in[i] == TD_NUMBER_BIT) {
            td_scalar n;
            int rc = td_record_number(r, used, &n, e);
            if (rc) return rc;
            c->in[i] = td_in_number(n);
        } else {
            td_tensor *t = td_session_value(s, r->in[i], cause, e);
            if (!t) return e->code;
            bool written = c->op->mutates && c->op->params[td_op_param_of(c->op, r->nin, (int)i)].flags & TD_PF_MUTATED;
            int rc = written ? td_session_check_write(s, t->storage, e) : td_session_check_lease(s, t->storage, e);
            if (rc) return rc;
            c->in[i] = td_in(t);
        }
    }
    return TD_OK;
}

/* Does who writes it overwrite all of its storage? */
static bool fills(const td_tensor *t)
{
    uint64_t lo, hi;
    td_desc_extent(&t->desc, &lo, &hi);
    return lo == 0 && hi >= t->storage->nbytes && td_desc_is_dense(&t->desc);
}

static int take_outputs(td_session *s, const td_record *r, td_call *c, td_cause **cause, td_error *e)
{
    if (!(r->flags & TD_RF_OUT)) {
        for (unsigned i = 0; i < r->nout; i++) {
            int rc = td_objects_check_free(&s->objects, r->out[i], e);
            if (rc) return rc;
        }
        return TD_OK;
    }
    c->flags |= TD_CF_OUT;
    for (unsigned i = 0; i < r->nout; i++) {
        td_tensor *t = td_session_tensor(s, r->out[i], cause, e);
        if (t && s->failures.late.first && !fills(t)) t = td_session_value(s, r->out[i], cause, e);
        if (!t) return e->code;
        c->out[i] = t;
        int rc = td_session_check_write(s, c->out[i]->storage, e);
        if (rc) return rc;
    }
    return TD_OK;
}

static int room_for_outputs(td_session *s, int n, td_error *e)
{
    if (n <= s->stream.max_outs) return TD_OK;
    td_tensor **outs = realloc(s->stream.outs, (size_t)n * sizeof *outs);
    if (!outs) return td_no_memory(e, "for %d outputs", n);
    s->stream.outs = outs;
    s->stream.max_outs = n;
    return TD_OK;
}

/* `racy`: what this record made is declared so. A view makes nothing: its storage is somebody's who did not say it. */
static int bind_outputs(td_session *s, const td_record *r, int nout, bool racy, td_error *e)
{
    int rc = TD_OK;
    if (s->wait.kind && nout == 1) { /* its shape is not known yet */
        s->wait.tensor = s->stream.outs[0];
        s->wait.id = r->out[0];
        if (racy) s->stream.outs[0]->storage->flags |= TD_SF_RACY;
        return TD_OK;
    }
    for (int i = 0; i < nout; i++) {
        if (racy) s->stream.outs[i]->storage->flags |= TD_SF_RACY;
        if (!rc && i < r->nout) rc = td_objects_bind(&s->objects, r->out[i], s->stream.outs[i], NULL, e);
        else td_tensor_unref(s->stream.outs[i]);
    }
    return rc;
}

/* What is overwritten without being read (take_inputs has seen that) may be used again. */
static void overwritten(td_session *s, td_tensor *t)
{
    if (fills(t)) td_late_written(&s->failures.late, t->storage);
}

/* What a call that was given up would have wanted. */
typedef struct lacking {
    bool memory;
    td_need need;
} lacking;

/* Everything up to the issue, on a call that is the caller's until it returns TD_OK. */
static int issue(td_session *s, const td_record *r, const td_op *op, td_call *c, td_cause **cause, int *nout,
                 lacking *lacks, td_error *e)
{
    uint32_t used = 0;
    int rc = take_outputs(s, r, c, cause, e);
    if (!rc) rc = take_inputs(s, r, c, &used, cause, e);
    if (!rc) rc = td_attrs_decode(op, r->rest + used, r->nrest - used, &c->attrs, e);
    if (!rc) rc = room_for_outputs(s, r->nout > 4 ? r->nout : 4, e);
    if (rc) return rc;
    if (r->mode & TD_RM_SERVICE) c->flags |= TD_CF_SERVICE;
    c->flags |= td_call_on(r->device);
    bool shaped = op->flags & TD_OF_DATA_SHAPE;
    c->owner = s;
    c->finished = shaped ? shape_finished : op_finished;
    if (shaped) td_session_wait(s, &for_shape);
    for (unsigned i = 0; s->failures.late.first && r->flags & TD_RF_OUT && i < r->nout; i++) overwritten(s, c->out[i]);
    s->issuer.noted = r->flags & TD_RF_SAVES ? td_session_noted(s, e) : NULL;
    rc = td_autograd_run(c, td_grad_mode_of(r->mode), s->stream.outs, s->stream.max_outs, nout, &lacks->need, e);
    s->issuer.noted = NULL;
    if (rc && shaped) s->wait.kind = NULL;
    lacks->memory = td_need_may_pass(rc);
    return rc;
}

int td_step_op(td_session *s, const td_record *r, td_error *e)
{
    const td_op *op = td_op_by_id(r->op);
    td_error why;
    td_error_clear(&why);
    if (!op) {
        td_fail(&why, TD_E_UNSUPPORTED, "this daemon has no op with id %u", r->op);
        return fail_with(s, r, "op", &why);
    }
    td_session_site(s, r->site);
    if (op->compose) {
        td_fail(&why, TD_E_UNSUPPORTED, "%s is made of other ops, which the client sends: libtensord does so",
                op->name);
        return fail_with(s, r, op->name, &why);
    }
    td_call *c = td_call_new(op, &s->issuer, r->nin, r->nout, &why);
    if (!c) return fail_with(s, r, op->name, &why);
    td_cause *cause = NULL;
    lacking lacks = {0};
    int nout = 0, rc = issue(s, r, op, c, &cause, &nout, &lacks, &why);
    if (rc) {
        td_call_free(c); /* what it was charged for its work would look like work that is pending */
        if (lacks.memory) rc = td_session_lacks(s, rc, &lacks.need, &why);
        if (rc == TD_AGAIN) return rc;
        if (cause) return fail_outputs(s, r, cause, e);
        return fail_with(s, r, op->name, &why);
    }
    s->ops_run++;
    s->service->ops_run++;
    bool racy = r->mode & TD_RM_RACY && !(op->flags & TD_OF_VIEW);
    if (!(r->flags & TD_RF_OUT)) rc = bind_outputs(s, r, nout, racy, e);
    if (!rc && s->wait.kind) return TD_SUSPENDED;
    return rc;
}
