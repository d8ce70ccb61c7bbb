/* Requests to a model: one frame with the inputs, one with where the outputs lie. A handle of a client's own runs its
 * program instead. */
#include "client/model/model.h"
#include "client/tensor/awaited.h"
#include "client/tensor/brought.h"

#include <stdlib.h>
#include <string.h>

typedef struct inferring {
    td_request request; /* first */
    uint32_t model;     /* its number */
    td_array **in;      /* references, until it is asked, where no thread waits */
    int nin;
    uint64_t until_us; /* how long it may take, as the wire has it */
    int priority;
    int nout;
    td_array **out; /* that came, so many */
    int came;
} inferring;

static inferring *inferring_of(td_request *r)
{
    return (inferring *)r;
}

static void let_go(td_array **at, int n)
{
    for (int k = 0; k < n; k++)
        if (--at[k]->refs == 0) td_array_free(at[k]);
}

static void free_inferring(td_request *r)
{
    inferring *x = inferring_of(r);
    let_go(x->in, x->nin);
    let_go(x->out, x->came);
    free(x->in);
    free(x->out);
    x->nin = x->came = 0;
}

/* What it brought before the fork is the parent's. */
static const td_request_kind infers = {.forked = free_inferring, .free = free_inferring};

/* ---- asking */

static void late_outputs(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    td_awaited *b = td_awaited_of(q);
    if (!r->item) return;
    int n = (int)r->item->n_descs < b->n ? (int)r->item->n_descs : b->n;
    td_brought_keep_segments(c, r->item, fd);
    td_awaited_unwanted(b, n);
}

static int take_outputs(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    inferring *x = inferring_of(r);
    td_awaited *b = td_awaited_of(r->question);
    const Td__Wire__Item *from = reply->item;
    int n = from ? (int)from->n_descs : -1, rc = TD_OK;
    if (n < 0 || n > b->n) return td_fail(e, TD_E_PROTOCOL, "no outputs of a model came");
    for (int k = 0; k < n && !rc; k++) rc = td_brought_take(b->at[k], k, from, fd, e);
    if (!rc && n != x->nout)
        rc = td_fail(e, TD_E_INVALID, "the model gave %d outputs, and its card names %d", n, x->nout);
    if (rc) {
        td_awaited_unwanted(b, n);
        return rc;
    }
    if (n) memcpy(x->out, b->at, (size_t)n * sizeof(td_array *));
    x->came = n;
    b->n = 0;
    return TD_OK;
}

/* A request of which the daemon knows its deadline: what is left of it when it is asked. */
static uint64_t left_us(const inferring *x, uint32_t ms)
{
    uint64_t left = ms == UINT32_MAX ? UINT64_MAX : (uint64_t)ms * 1000;
    return x->until_us && x->until_us < left ? x->until_us : left;
}

static int ask_infer(td_request *r, uint32_t ms)
{
    inferring *x = inferring_of(r);
    td_awaited *b = td_awaited_new(r, x->nout);
    if (!b) return td_last_error()->code;
    b->question.late = late_outputs;
    uint32_t in[TD_CARD_ENDS], out[TD_CARD_ENDS];
    for (int k = 0; k < x->nin; k++) in[k] = x->in[k]->id;
    for (int k = 0; k < x->nout; k++) out[k] = b->at[k]->id;
    Td__Wire__Infer q = TD__WIRE__INFER__INIT;
    q.model = x->model;
    q.n_in = (size_t)x->nin;
    q.in = in;
    q.n_out = (size_t)x->nout;
    q.out = out;
    q.timeout_us = left_us(x, ms);
    q.priority = x->priority;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.infer = &q;
    td_hand_on(r->client);
    return td_question_ask(&b->question, &call);
}

/* ---- inputs */

/* Under no lock: they are known here, and fit the card. */
static int check_inputs(const td_model *m, td_list in, const char *op)
{
    const td_desc *given[TD_CARD_ENDS];
    td_error e = {0};
    td_client *c = m->client;
    if (in.n > TD_CARD_ENDS)
        return td_raise(TD_E_INVALID, op, "%d inputs; a model takes at most %d", in.n, TD_CARD_ENDS);
    int rc = td_list_client(&c, in, op, "an input");
    if (rc) return rc;
    for (int k = 0; k < in.n; k++) {
        if (td_dtype_of(in.at[k]) == TD_DTYPE_NONE) return td_last_error()->code; /* it is known now */
        given[k] = &in.at[k]->desc;
    }
    return td_card_check(&m->card, in.n, given, &e) ? td_raise_error(&e, op, NULL) : TD_OK;
}

static int check(td_model *m, td_list in, const char *op)
{
    return m ? check_inputs(m, in, op) : td_raise_null(op, "the model");
}

static int check_outputs(const td_model *m, int nout, td_array **out, const char *op)
{
    if (nout != m->card.nout || (nout && !out))
        return td_raise(TD_E_INVALID, op, "the model has %d output%s, and there is room for %d", m->card.nout,
                        m->card.nout == 1 ? "" : "s", nout);
    return TD_OK;
}

/* ---- a program of this client's own */

/* The tensors of a value, in order; those beyond `room` are counted alone. */
static int flatten(td_value *v, int room, td_array **out, int n) /* NOLINT(misc-no-recursion): as deep as the value */
{
    if (v->kind == TD_VALUE_ARRAY) {
        if (n < room) out[n] = td_retain(v->array);
        return n + 1;
    }
    for (uint32_t k = 0; td_value_has_items(v) && k < v->n; k++) n = flatten(&v->items[k], room, out, n);
    return n;
}

static int take_value(td_value *v, int nout, td_array **out, const char *op)
{
    int n = flatten(v, nout, out, 0);
    td_value_free(v);
    if (n == nout) return TD_OK;
    for (int k = 0; k < n && k < nout; k++) td_release(out[k]);
    return td_raise(TD_E_INVALID, op, "the model gave %d outputs, and its card names %d", n, nout);
}

static void to_values(td_list in, td_value *args)
{
    for (int k = 0; k < in.n; k++) args[k] = td_value_array(in.at[k]);
}

static int run_here(td_model *m, td_list in, int nout, td_array **out, int timeout_ms)
{
    td_value args[TD_CARD_ENDS], result;
    to_values(in, args);
    bool grad = td_set_grad_enabled(false);
    int was = td_set_program_timeout(timeout_ms < 0 ? 0 : timeout_ms ? timeout_ms : 1);
    int rc = td_program_at_call(NULL, m->program, in.n, args, &result);
    td_set_program_timeout(was);
    td_set_grad_enabled(grad);
    if (!rc) rc = take_value(&result, nout, out, "infer");
    for (int k = 0; k < nout && !rc; k++) {
        rc = td_made(out[k]);
        for (int i = 0; rc && i < nout; i++) td_release(out[i]);
    }
    return rc;
}

/* ---- with a wait */

TD_API int td_infer(td_model *m, td_list in, int nout, td_array **out, int timeout_ms)
{
    int rc = check(m, in, "infer");
    if (!rc) rc = check_outputs(m, nout, out, "infer");
    if (rc) return rc;
    if (m->program) return run_here(m, in, nout, out, timeout_ms);
    rc = td_model_enter(m, "infer");
    if (rc) return rc;
    inferring x = {.request = {.ask = ask_infer, .take = take_outputs, .waits = true},
                   .model = m->id,
                   .in = (td_array **)in.at,
                   .nin = in.n,
                   .nout = nout,
                   .out = out};
    rc = td_request_wait_once(&x.request, &infers, m->client, "infer", timeout_ms);
    for (int k = 0; k < x.came && !rc; k++) td_array_announce(out[k]);
    td_leave(m->client);
    return rc;
}

/* ---- without one */

static int keep(inferring *x, td_list in)
{
    x->in = calloc((size_t)in.n + 1, sizeof(td_array *));
    x->out = calloc((size_t)x->nout + 1, sizeof(td_array *));
    if (!x->in || !x->out) return td_raise(TD_E_SYSTEM, "infer", "no memory for a request");
    for (; x->nin < in.n; x->nin++) {
        x->in[x->nin] = in.at[x->nin];
        x->in[x->nin]->refs++;
    }
    return TD_OK;
}

static int in_ms(uint64_t us)
{
    uint64_t ms = (us + 999) / 1000;
    return !us ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

TD_API td_request *td_async_infer(td_model *m, td_list in, const td_infer_options *how, td_done done, void *context)
{
    td_infer_options o = {sizeof o, 0, 0};
    if (how) memcpy(&o, how, how->size < sizeof o ? how->size : sizeof o);
    if (check(m, in, "infer")) return NULL;
    int ms = in_ms(o.timeout_us);
    if (m->program) {
        td_value args[TD_CARD_ENDS];
        to_values(in, args);
        bool grad = td_set_grad_enabled(false);
        td_request *r = td_async_at_call(NULL, m->program, in.n, args, ms, done, context);
        td_set_grad_enabled(grad);
        return r;
    }
    if (td_model_enter(m, "infer")) return NULL;
    td_request *r = td_request_make(sizeof(inferring), &infers, m->client, "infer", ms, done, context);
    if (!r) return td_leave(m->client), NULL;
    inferring *x = inferring_of(r);
    x->model = m->id;
    x->nout = m->card.nout;
    x->until_us = o.timeout_us;
    x->priority = o.priority;
    r->waits = r->theirs = true;
    r->ask = ask_infer;
    r->take = take_outputs;
    return td_request_begin(r, keep(x, in));
}

TD_API int td_request_arrays(td_request *r, int n, td_array **out)
{
    int rc = td_request_look(r);
    if (rc) return rc;
    if (!td_request_is(r, &infers)) {
        td_value v;
        rc = td_request_value(r, &v);
        return rc ? rc : take_value(&v, n, out, "infer");
    }
    inferring *x = inferring_of(r);
    if (!x->came && x->nout) return td_request_none(r, "outputs"), td_last_error()->code;
    if (n != x->came)
        return td_raise(TD_E_INVALID, "infer", "the model has %d outputs, and there is room for %d", x->came, n);
    td_lock(r->client);
    memcpy(out, x->out, (size_t)n * sizeof(td_array *));
    x->came = 0;
    for (int k = 0; k < n; k++) td_array_announce(out[k]);
    td_unlock(r->client);
    return TD_OK;
}
