/* Models: handles of a client's own, and of names. */
#include "client/model/model.h"
#include "client/onnx/onnx.h"
#include "client/share/names.h"

#include <stdlib.h>
#include <string.h>

static td_model *model_new(td_client *c, const char *op)
{
    td_model *m = calloc(1, sizeof *m);
    if (m) m->client = c;
    else td_raise(TD_E_SYSTEM, op, "no memory for a model");
    return m;
}

static void drop(td_model *m)
{
    td_card_free(&m->card);
    free(m->name);
    free(m);
}

/* ---- of this client's own */

TD_API td_model *td_model_of(td_program *program, const char *card)
{
    td_error e = {0};
    if (!program || !card) {
        td_raise_null("model", program ? "the card" : "the program");
        td_program_free(program);
        return NULL;
    }
    td_model *m = model_new(program->client, "model");
    int rc = m ? td_card_read(&m->card, card, strlen(card), &e) : TD_E_SYSTEM;
    const td_ir *ir = program->ir;
    int wants = (int)ir->blocks[ir->functions[0].block].nparams;
    if (!rc && m->card.nin != wants)
        rc = td_fail(&e, TD_E_INVALID, "the program takes %d arguments, and its card names %d inputs", wants,
                     m->card.nin);
    if (!rc) {
        m->program = program;
        td_lock(m->client);
        m->client->handles++;
        td_unlock(m->client);
        return m;
    }
    if (e.code) td_raise_error(&e, "model", NULL);
    if (m) drop(m);
    td_program_free(program);
    return NULL;
}

TD_API td_model *td_model_load(td_client *client, const char *path, unsigned flags)
{
    char *card = NULL;
    td_program *p = td_onnx_program(client, path, flags & TD_MODEL_EXACTLY ? TD_ONNX_EXACTLY : 0, &card);
    td_model *m = p ? td_model_of(p, card) : NULL;
    free(card);
    return m;
}

TD_API const char *td_model_card(const td_model *m)
{
    return m ? m->card.text : (td_raise_null("model_card", "the model"), NULL);
}

TD_API int td_model_version(const td_model *m)
{
    return m ? (int)m->version : 0;
}

TD_API int td_model_inputs(const td_model *m)
{
    return m ? m->card.nin : 0;
}

TD_API int td_model_outputs(const td_model *m)
{
    return m ? m->card.nout : 0;
}

static void tell_close(td_client *c, uint32_t id)
{
    Td__Wire__ModelClose q = TD__WIRE__MODEL_CLOSE__INIT;
    q.model = id;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.model_close = &q;
    td_tell(c, &call);
}

TD_API void td_model_free(td_model *m)
{
    if (!m) return;
    td_client *c = m->client;
    td_program_free(m->program);
    td_lock(c);
    if (!m->program && !c->lost && m->session == c->session) tell_close(c, m->id);
    c->handles--;
    td_unlock(c);
    drop(m);
}

/* ---- of a name */

typedef struct opening {
    td_request request; /* first */
    const char *name;
    uint32_t id, version;
    td_model *model; /* NULL: it has its card already */
} opening;

/* Its answer gives the model a number here. */
typedef struct opening_question {
    td_question question; /* first */
    uint32_t id;
} opening_question;

static int take_opened(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    (void)fd;
    opening *o = (opening *)r;
    if (!reply->model) return td_fail(e, TD_E_PROTOCOL, "no card of a model came");
    if (!o->model) return TD_OK;
    o->model->version = reply->model->version;
    return td_card_read(&o->model->card, (const char *)reply->model->card.data, reply->model->card.len, e);
}

static void late_model(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    (void)r, (void)fd;
    tell_close(c, ((opening_question *)q)->id);
}

static int ask_open(td_request *r, uint32_t ms)
{
    opening *o = (opening *)r;
    opening_question *q = (opening_question *)td_question_new(r, sizeof *q);
    if (!q) return td_last_error()->code;
    q->question.late = late_model;
    Td__Wire__ModelOpen open = TD__WIRE__MODEL_OPEN__INIT;
    open.name = (char *)o->name;
    open.model = o->id = q->id = ++r->client->model.next;
    open.version = o->version;
    open.timeout_ms = ms;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.model_open = &open;
    return td_question_ask(&q->question, &call);
}

static const td_request_kind opens = {0};

TD_API td_model *td_model_open(td_client *c, const char *name, int version, int timeout_ms)
{
    if (!c || !name) return td_raise_null("model_open", c ? "the name" : "client"), NULL;
    td_model *m = model_new(c, "model_open");
    if (!m || td_enter(c, "model_open")) {
        free(m);
        return NULL;
    }
    m->name = strdup(name);
    m->pinned = version > 0 ? (uint32_t)version : 0;
    opening o = {.request = {.ask = ask_open, .take = take_opened}, .name = name, .version = m->pinned, .model = m};
    int rc = m->name ? td_request_wait(&o.request, &opens, c, "model_open", timeout_ms)
                     : td_raise(TD_E_SYSTEM, "model_open", "no memory for a model");
    m->id = o.id;
    m->session = c->session;
    if (!rc) {
        c->handles++;
        td_leave(c);
        return m;
    }
    td_leave_with_hint(c, name);
    drop(m);
    return NULL;
}

/* The number was the parent's. */
int td_model_enter(td_model *m, const char *op)
{
    td_client *c = m->client;
    int rc = td_enter(c, op);
    if (rc || m->session == c->session) return rc;
    opening o = {.request = {.ask = ask_open, .take = take_opened}, .name = m->name, .version = m->pinned};
    rc = td_request_wait(&o.request, &opens, c, op, 0);
    if (!rc) {
        m->id = o.id;
        m->session = c->session;
        return TD_OK;
    }
    td_leave(c);
    return rc;
}

static int of_name(td_client *c, const char *name, const char *op, Td__Wire__Call *call)
{
    if (!c || !name) return td_raise_null(op, c ? "the name" : "client");
    return td_ask_once(c, op, call, NULL, NULL);
}

TD_API int td_model_serve(td_client *c, const char *name, int version)
{
    Td__Wire__ModelServe q = TD__WIRE__MODEL_SERVE__INIT;
    q.name = (char *)name;
    q.version = version > 0 ? (uint32_t)version : 0;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.model_serve = &q;
    if (version <= 0) return td_raise(TD_E_INVALID, "model_serve", "versions are numbers from 1 on");
    return of_name(c, name, "model_serve", &call);
}

TD_API int td_model_retire(td_client *c, const char *name, int version)
{
    Td__Wire__ModelRetire q = TD__WIRE__MODEL_RETIRE__INIT;
    q.name = (char *)name;
    q.version = version > 0 ? (uint32_t)version : 0;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.model_retire = &q;
    return of_name(c, name, "model_retire", &call);
}
