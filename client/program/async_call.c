/* Requests that call a program. The answer has its values; what it wrote is waited for by a second question.
 *
 * The call stands in the stream as others do, and a run holds that up. So a request that is given up, or too late, says
 * so beside the stream (wire/stopper.c). */
#include "client/program/programs.h"
#include "client/program/trace.h"
#include "client/tensor/awaited.h"
#include "client/wire/request.h"

#include "proto/program/values.h"

#include <stdlib.h>
#include <string.h>

typedef struct called {
    td_request request; /* first */
    td_calling call;
    td_value result;
    bool settles; /* it writes: over when that is written */
    bool grads;   /* it may give a .grad */
    bool taken;
} called;

static called *called_of(td_request *r)
{
    return (called *)r;
}

/* ---- the answer */

static int take_values(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    (void)fd;
    called *x = called_of(r);
    int rc = td_calling_take(&x->call, reply, e);
    td_awaited_of(r->question)->n = 0;
    for (int k = 0; k < x->call.bound; k++) x->call.out[k]->is_grad |= x->grads;
    if (rc || !x->settles) return rc;
    r->more = r->silent = true; /* errors of others are told elsewhere */
    r->ask = td_ask_sync;
    r->take = td_take_nothing;
    return TD_OK;
}

static void on_said(td_reply_wait *w, const uint8_t *text, size_t n)
{
    td_request *r = ((td_question *)w)->from;
    if (r) td_calling_said(&called_of(r)->call, text, n);
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
    td_awaited *b = td_awaited_of(q);
    td_awaited_unwanted(b, n < b->n ? n : b->n);
}

/* ---- asking */

static td_awaited *question_for(td_request *r, int n)
{
    td_awaited *b = td_awaited_new(r, n);
    if (!b) return NULL;
    for (int k = 0; k < n; k++) {
        b->at[k]->desc = (td_desc){0};
        b->at[k]->unknown = true;
    }
    b->question.late = late_values;
    b->question.calls = true;
    b->question.wait.on_said = on_said;
    return b;
}

/* Once, when it is made: the program may be gone afterwards. */
static int ask_call(td_request *r, uint32_t ms)
{
    (void)ms; /* it counts from here, not from when the daemon begins; wire/request.c sees to it */
    td_calling *x = &called_of(r)->call;
    td_awaited *b = question_for(r, x->p->narrays);
    if (!b) return td_last_error()->code;
    x->out = b->at, x->nout = b->n;
    td_reply_wait *w = &b->question.wait;
    td_expect(r->client, w);
    int rc = td_calling_ask(x, w->serial, false);
    x->p = NULL, x->args = NULL;
    if (!rc) return rc;
    td_unexpect(r->client, w);
    return td_question_undo(&b->question, rc);
}

static int prepare(called *x, const char *where, td_program *p, int n, const td_value *args)
{
    x->call = (td_calling){.p = p, .where = where, .n = n, .args = args, .result = &x->result};
    x->settles = p->writes || p->reaches;
    x->grads = p->reaches;
    return td_calling_begin(&x->call);
}

static void drop_arrays(td_value *v) /* NOLINT(misc-no-recursion): as deep as what came */
{
    if (td_value_has_items(v))
        for (uint32_t k = 0; k < v->n; k++) drop_arrays(&v->items[k]);
    if (v->kind != TD_VALUE_ARRAY) return;
    if (--v->array->refs == 0) td_array_free(v->array);
    v->kind = TD_VALUE_NONE;
}

static void free_called(td_request *r)
{
    called *x = called_of(r);
    drop_arrays(&x->result); /* td_value_free() would lock */
    td_value_free(&x->result);
    td_calling_deinit(&x->call);
    x->call = (td_calling){0};
    x->taken = true;
}

static bool prints(const td_request *r)
{
    return ((const called *)r)->call.said;
}

static void print(td_request *r)
{
    td_calling_print(&called_of(r)->call);
}

static const td_request_kind calls = {.tells = prints, .tell = print, .forked = free_called, .free = free_called};

TD_API td_request *td_async_at_call(const char *where, td_program *p, int n, const td_value *args, int timeout_ms,
                                    td_done done, void *context)
{
    if (!p) return td_raise_null("program_call", "the program"), NULL;
    if (n < 0 || n > TD_IR_MAX_ENDS || (n && !args))
        return td_raise(TD_E_INVALID, "program_call", "%d arguments; from 0 to %d can be given", n, TD_IR_MAX_ENDS),
               NULL;
    if (td_tracing) td_trace_refuse(NULL, where, "a call that an event loop waits for");
    td_request *r = td_request_new(sizeof(called), &calls, p->client, "program_call", timeout_ms, done, context);
    if (!r) return NULL;
    r->ask = ask_call;
    r->take = take_values;
    return td_request_begin(r, prepare(called_of(r), where, p, n, args));
}

/* ---- what it brought */

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
    called *x = td_request_is(r, &calls) ? called_of(r) : NULL;
    if (!x || x->taken) return td_request_none(r, "value"), td_last_error()->code;
    td_lock(r->client);
    *out = x->result;
    x->result = (td_value){TD_VALUE_NONE, 0, {0}, 0};
    x->taken = true;
    announce(out);
    td_unlock(r->client);
    return TD_OK;
}
