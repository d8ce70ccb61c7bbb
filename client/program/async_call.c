/* Requests that call a program. The answer has its values; what it wrote is waited for by a second question.
 *
 * The call stands in the stream as others do. Nobody else could stop it there, so a request that is given up, or too
 * late, says so by a way of its own (td_stop_soon). */
#include "client/program/programs.h"
#include "client/program/trace.h"
#include "client/wire/request.h"

#include "proto/program/values.h"

#include <stdlib.h>
#include <string.h>

struct td_called {
    td_calling call;
    td_value result;
    bool settles; /* it writes: over when that is written */
    bool grads;   /* it may give a .grad */
    bool taken;
};

static td_question *question_of(td_reply_wait *w)
{
    return (td_question *)w;
}

/* ---- the answer */

static int take_values(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    (void)fd;
    td_called *x = r->called;
    int rc = td_calling_take(&x->call, reply, e);
    r->question->n = 0;
    for (int k = 0; k < x->call.bound; k++) x->call.out[k]->is_grad |= x->grads;
    if (rc || !x->settles) return rc;
    r->more = r->silent = true; /* errors of others are told elsewhere */
    r->ask = td_ask_sync;
    r->take = td_take_nothing;
    return TD_OK;
}

static void on_said(td_reply_wait *w, const uint8_t *text, size_t n)
{
    if (question_of(w)->from) td_calling_said(&question_of(w)->from->called->call, text, n);
}

static int tensors_among(const uint32_t *words, size_t n)
{
    int count = 0;
    td_pv v;
    for (uint32_t at = 0, used; at < n && (used = td_pv_get(words + at, (uint32_t)n - at, &v)); at += used)
        count += v.kind == TD_PV_TENSOR;
    return count;
}

static void late_values(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    (void)c, (void)fd;
    int n = tensors_among(r->value, r->n_value);
    td_question_unwanted(q, n < q->n ? n : q->n);
}

/* ---- asking */

static td_question *question_for(td_request *r, int n)
{
    td_question *q = td_question_new(r, n);
    if (!q) return NULL;
    for (int k = 0; k < n; k++) {
        q->at[k]->desc = (td_desc){0};
        q->at[k]->unknown = true;
    }
    q->late = late_values;
    q->calls = true;
    q->wait.on_said = on_said;
    return q;
}

/* Once, when it is made: the program may be gone afterwards. */
static int ask_call(td_request *r, uint32_t ms)
{
    (void)ms; /* it counts from here, not from when the daemon begins; request.c sees to it */
    td_calling *x = &r->called->call;
    td_question *q = question_for(r, x->p->narrays);
    if (!q) return td_last_error()->code;
    x->out = q->at, x->nout = q->n;
    td_expect(r->client, &q->wait);
    int rc = td_calling_ask(x, q->wait.serial, false);
    x->p = NULL, x->args = NULL;
    if (!rc) return rc;
    td_take_wait(r->client, q->wait.serial);
    return td_question_undo(q, rc);
}

static int prepare(td_request *r, const char *where, td_program *p, int n, const td_value *args)
{
    td_called *x = r->called = calloc(1, sizeof *x);
    if (!x) return td_raise(TD_E_SYSTEM, r->op, "no memory for a call of a program");
    x->call = (td_calling){.p = p, .where = where, .n = n, .args = args, .result = &x->result};
    x->settles = p->writes || p->reaches;
    x->grads = p->reaches;
    return td_calling_begin(&x->call);
}

TD_API td_request *td_async_at_call(const char *where, td_program *p, int n, const td_value *args, int timeout_ms,
                                    td_done done, void *context)
{
    if (!p) return td_raise_null("program_call", "the program"), NULL;
    if (n < 0 || n > TD_IR_MAX_ENDS || (n && !args))
        return td_raise(TD_E_INVALID, "program_call", "%d arguments; from 0 to %d can be given", n, TD_IR_MAX_ENDS),
               NULL;
    if (td_tracing) td_trace_refuse(NULL, where, "a call that an event loop waits for");
    td_request *r = td_request_new(p->client, "program_call", timeout_ms, done, context);
    if (!r) return NULL;
    r->ask = ask_call;
    r->take = take_values;
    return td_request_begin(r, prepare(r, where, p, n, args));
}

/* ---- what it brought */

static void drop_arrays(td_value *v) /* NOLINT(misc-no-recursion): as deep as what came */
{
    if (td_value_has_items(v))
        for (uint32_t k = 0; k < v->n; k++) drop_arrays(&v->items[k]);
    if (v->kind != TD_VALUE_ARRAY) return;
    if (--v->array->refs == 0) td_array_free(v->array);
    v->kind = TD_VALUE_NONE;
}

void td_called_free(td_called *x)
{
    if (!x) return;
    drop_arrays(&x->result); /* td_value_free() would lock */
    td_value_free(&x->result);
    td_calling_deinit(&x->call);
    free(x);
}

bool td_called_prints(const td_called *x)
{
    return x && x->call.said;
}

void td_called_print(const td_called *x)
{
    if (x) td_calling_print(&x->call);
}

static void announce(const td_value *v) /* NOLINT(misc-no-recursion): as deep as what came */
{
    if (td_value_has_items(v))
        for (uint32_t k = 0; k < v->n; k++) announce(&v->items[k]);
    if (v->kind == TD_VALUE_ARRAY) td_array_announce(v->array);
}

TD_API int td_request_value(td_request *r, td_value *out)
{
    *out = (td_value){TD_VALUE_NONE, 0, {0}, 0};
    int rc = td_request_result(r);
    if (rc) return rc;
    td_called *x = r->called;
    if (!x || x->taken) return td_raise(TD_E_INVALID, r->op, "the request brought no value, or it was taken before");
    td_lock(r->client);
    *out = x->result;
    x->result = (td_value){TD_VALUE_NONE, 0, {0}, 0};
    x->taken = true;
    announce(out);
    td_unlock(r->client);
    return TD_OK;
}
