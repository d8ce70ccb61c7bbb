/* The calls about models: a version is published, is ready, is opened and closed, is what its name means, retires.
 *
 * Publishing is a job: what the program captures is copied into the version's own memory, a part at a step. From then
 * on its loader asks it as anybody does, until it is warm, and says that it is ready. A session that ends before leaves
 * nothing of it. */
#include "daemon/session/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_MODELS = 4096, COST = 8 /* of a step, in records */ };

/* ---- the table of them */

static td_model_handle *find(const td_session *s, uint32_t id)
{
    td_model_handle *h;
    HASH_FIND(hh, s->models, &id, sizeof id, h);
    return h;
}

td_model_user *td_session_model(td_session *s, uint32_t id, td_error *e)
{
    td_model_handle *h = find(s, id);
    if (!h) td_fail(e, TD_E_NOT_FOUND, "there is no model %u", id);
    return h ? &h->user : NULL;
}

int td_session_model_id(const td_session *s, uint32_t id, td_error *e)
{
    if (HASH_COUNT(s->models) >= MOST_MODELS)
        return td_fail(e, TD_E_QUOTA, "a session has at most %d models open; close some", MOST_MODELS);
    if (id && !find(s, id)) return TD_OK;
    return td_fail(e, TD_E_EXISTS, "model %u is in use, or no number for one", id);
}

static td_model_handle *handle_new(td_session *s, uint32_t id, td_error *e)
{
    if (td_session_model_id(s, id, e) || td_account_charge(s->account, 0, 1, e)) return NULL;
    td_model_handle *h = calloc(1, sizeof *h);
    if (h) {
        h->id = id;
        HASH_ADD(hh, s->models, id, sizeof h->id, h);
        if (TD_HASHED(h)) return h;
    }
    free(h);
    td_account_discharge(s->account, 0, 1);
    td_no_memory(e, "for a model");
    return NULL;
}

static void close_handle(td_session *s, td_model_handle *h)
{
    HASH_DEL(s->models, h);
    td_model_leave(&h->user);
    td_account_discharge(s->account, 0, 1);
    free(h);
}

void td_session_models_drop(td_session *s)
{
    while (s->models) close_handle(s, s->models);
}

/* ---- opening */

static int tell(td_session *s, uint64_t serial, const td_served *v, td_error *e)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__ModelCard m;
    td__wire__model_card__init(&m);
    m.version = td_served_number(v);
    m.card.data = (uint8_t *)(uintptr_t)td_served_card(v, &m.card.len);
    r.serial = serial;
    r.model = &m;
    int rc = td_reply_room(s, m.card.len, e);
    if (!rc) td_reply_send(s, &r, -1);
    return rc;
}

int td_session_model_open(td_session *s, uint64_t serial, uint32_t id, const char *name, uint32_t version, td_error *e)
{
    td_model_handle *h = handle_new(s, id, e);
    if (!h) return e->code;
    int rc = td_model_join(&h->user, s->service, name, version, e);
    const td_served *v = rc ? NULL : td_model_served(&h->user, e);
    rc = v ? tell(s, serial, v, e) : e->code;
    if (rc) close_handle(s, h);
    return rc;
}

int td_call_model_close(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    td_model_handle *h = find(s, call->model_close->model);
    if (!h) return td_fail(e, TD_E_NOT_FOUND, "there is no model %u", call->model_close->model);
    close_handle(s, h);
    td_reply_ok(s, call->serial);
    return TD_OK;
}

/* ---- loading */

typedef struct loading {
    td_job job;
    td_captures of;
    td_served *version; /* its handle's: as long as that is there */
    uint64_t serial;
    uint32_t id;
    bool over;
} loading;

static loading *of(td_job *j)
{
    return (loading *)(void *)((char *)j - offsetof(loading, job));
}

static int finish(td_session *s, const loading *p, td_error *e)
{
    int rc = td_served_program(p->version, p->of.of, p->of.made, e);
    return rc ? rc : tell(s, p->serial, p->version, e);
}

/* False: there is more of it. */
static bool go_on(td_session *s, const loading *p, td_captures *captures)
{
    td_error why = {0};
    int rc = td_captures_some(s, captures, &why);
    if (rc == TD_AGAIN) return false;
    if (!rc) rc = finish(s, p, &why);
    if (!rc) return true;
    close_handle(s, find(s, p->id));
    if (!why.op[0]) snprintf(why.op, sizeof why.op, "model_publish");
    td_reply_error(s, p->serial, &why);
    td_session_told(s, &why);
    return true;
}

static bool drop(td_job *j, int most)
{
    loading *p = of(j);
    if (!td_captures_drop(&p->of, most)) return false;
    free(p);
    return true;
}

static int step(td_job *j, td_error *e)
{
    td_session *s = td_session_of(j->issuer);
    (void)e; /* a failure is the answer */
    loading *p = of(j);
    if (!p->over && !(p->over = go_on(s, p, &p->of))) return TD_AGAIN;
    return drop(j, 16 * COST) ? TD_OK : TD_AGAIN;
}

static int begin(td_session *s, td_model_handle *h, const Td__Wire__Call *call, td_held_program *program, td_error *e)
{
    static const td_job_kind kind = {"model_publish", .step = step, .drop = drop, .cost = COST};
    const Td__Wire__ModelPublish *q = call->model_publish;
    int rc = td_model_new(&h->user, s->service, q->name, q->version, q->flags, (const char *)q->card.data, q->card.len,
                          s->account, e);
    if (rc) return rc;
    loading *p = malloc(sizeof *p);
    if (!p) return td_no_memory(e, "to publish a model");
    *p = (loading){.job = td_session_job(s, &kind), .version = h->user.pinned, .serial = call->serial, .id = h->id};
    rc = td_captures_begin(&p->of, program, td_served_issuer(p->version), true, e);
    if (rc) free(p);
    else s->work.job = &p->job;
    return rc;
}

int td_call_model_publish(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__ModelPublish *q = call->model_publish;
    td_held_program *program = td_session_program_of(s, q->program, e);
    td_model_handle *h = program ? handle_new(s, q->model, e) : NULL;
    if (!h) return e->code;
    int rc = begin(s, h, call, program, e);
    if (rc) close_handle(s, h);
    return rc;
}

static int read_how(td_model_how *how, const Td__Wire__ModelReady *q, td_error *e)
{
    if (q->n_in > TD_MODEL_ENDS || q->n_out > TD_MODEL_ENDS || q->n_sizes > TD_MODEL_SIZES)
        return td_fail(e, TD_E_INVALID, "%zu inputs, %zu outputs and %zu sizes are said of a model; too many", q->n_in,
                       q->n_out, q->n_sizes);
    *how = (td_model_how){.nin = (uint16_t)q->n_in,
                          .nout = (uint16_t)q->n_out,
                          .nsizes = (uint16_t)q->n_sizes,
                          .delay_us = q->delay_us,
                          .queue = q->queue,
                          .lanes = q->instances,
                          .by_look = q->by_look,
                          .tried = q->tried};
    for (size_t k = 0; k < q->n_in; k++)
        how->in_rows[k] = (int8_t)(q->in[k] >= 0 && q->in[k] < TD_MAX_DIMS ? q->in[k] : -1);
    for (size_t k = 0; k < q->n_out; k++)
        how->out_rows[k] = (int8_t)(q->out[k] >= 0 && q->out[k] < TD_MAX_DIMS ? q->out[k] : -1);
    for (size_t k = 0; k < q->n_sizes; k++)
        how->sizes[k] = (uint16_t)(q->sizes[k] < UINT16_MAX ? q->sizes[k] : UINT16_MAX);
    return TD_OK;
}

int td_call_model_ready(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__ModelReady *q = call->model_ready;
    td_model_how how;
    td_model_user *u = td_session_model(s, q->model, e);
    int rc = u ? read_how(&how, q, e) : e->code;
    if (!rc) rc = td_model_ready(u, &how, (const char *)q->card.data, q->card.len, s->account, e);
    if (!rc) td_reply_ok(s, call->serial);
    return rc;
}

/* ---- of a name */

int td_call_model_serve(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__ModelServe *q = call->model_serve;
    int rc = td_model_serve(s->service, q->name, q->version, s->account, e);
    if (!rc) td_reply_ok(s, call->serial);
    return rc;
}

int td_call_model_retire(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__ModelRetire *q = call->model_retire;
    int rc = td_model_retire(s->service, q->name, q->version, s->account, e);
    if (!rc) td_reply_ok(s, call->serial);
    return rc;
}
