/* A model becomes one of a name: published, made warm by runs of this client, and switched to. */
#include "client/model/model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 1024, MOST_WAITING = 64 << 10, MOST_RUNS = 16 }; /* that the daemon takes; told before trial runs */

static int on_card(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    if (!r->model) return td_fail(e, TD_E_PROTOCOL, "no version of a model came");
    *(uint32_t *)w->context = r->model->version;
    return TD_OK;
}

/* Under the lock: a version that is warming, by this number. */
static int ask_publish(const td_model *m, const char *name, const td_model_options *o, uint32_t id, uint32_t *version)
{
    Td__Wire__ModelPublish q = TD__WIRE__MODEL_PUBLISH__INIT;
    q.name = (char *)name;
    q.model = id;
    q.program = m->program->id;
    q.card = (ProtobufCBinaryData){m->card.bytes, (uint8_t *)m->card.text};
    q.version = o->version > 0 ? (uint32_t)o->version : 0;
    q.flags = o->flags;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.model_publish = &q;
    td_reply_wait w = {.on_reply = on_card, .context = version};
    return td_ask_and_wait(m->client, &call, -1, &w, "model_publish");
}

/* ---- its card */

static int add(td_bytes *b, const char *text, td_error *e)
{
    return td_bytes_put(b, text, strlen(text), "the card of a model", e);
}

static int add_number(td_bytes *b, const char *before, long long n, td_error *e)
{
    char text[48];
    snprintf(text, sizeof text, "%s%lld", before, n);
    return add(b, text, e);
}

static int add_rows(td_bytes *b, const char *what, const int *rows, int n, td_error *e)
{
    int rc = add(b, what, e);
    for (int k = 0; k < n && !rc; k++) {
        if (rows[k] < 0) rc = add(b, k ? ", null" : "null", e);
        else rc = add_number(b, k ? ", " : "", rows[k], e);
    }
    return rc ? rc : add(b, "]", e);
}

/* "name": ..., "version": ..., "asked": ..., with what it was published; "batch": ..., where "alone" says why requests
 * are not joined */
static char *finished_card(const td_model *m, const char *name, uint32_t version, const td_model_options *o,
                           const td_warmed *w, td_error *e)
{
    td_bytes b = {0};
    char *card = NULL;
    int rc = add(&b, "\"name\": ", e);
    if (!rc) rc = td_json_put_text(&b, name, strlen(name), e);
    if (!rc) rc = add_number(&b, ", \"version\": ", version, e);
    if (!rc) rc = add_number(&b, ", \"asked\": {\"max_batch\": ", o->max_batch, e);
    if (!rc) rc = add_number(&b, ", \"delay_us\": ", o->delay_us, e);
    if (!rc) rc = add_number(&b, ", \"queue\": ", o->queue, e);
    if (!rc) rc = add_number(&b, ", \"instances\": ", o->instances, e);
    if (!rc) rc = add_rows(&b, "}, \"batch\": {\"inputs\": [", w->in_rows, m->card.nin, e);
    if (!rc) rc = add_rows(&b, ", \"outputs\": [", w->out_rows, m->card.nout, e);
    if (!rc) rc = add(&b, ", \"sizes\": [", e);
    for (int k = 0; k < w->nsizes && !rc; k++) rc = add_number(&b, k ? ", " : "", w->sizes[k], e);
    if (!rc) rc = add_number(&b, "], \"most\": ", w->nsizes ? w->sizes[w->nsizes - 1] : 1, e);
    if (!rc && w->why[0]) rc = add(&b, ", \"alone\": ", e);
    if (!rc && w->why[0]) rc = td_json_put_text(&b, w->why, strlen(w->why), e);
    if (!rc) rc = td_bytes_put(&b, "}", 2, "the card of a model", e); /* with its end */
    if (!rc) card = td_card_with(&m->card, (const char *)b.at, e);
    free(b.at);
    return card;
}

static int ask_ready(td_client *c, const td_model *m, uint32_t id, const char *card, const td_warmed *w,
                     const td_model_options *o)
{
    Td__Wire__ModelReady q = TD__WIRE__MODEL_READY__INIT;
    q.model = id;
    q.card = (ProtobufCBinaryData){strlen(card), (uint8_t *)(uintptr_t)card};
    q.n_in = (size_t)m->card.nin;
    q.in = (int32_t *)w->in_rows;
    q.n_out = (size_t)m->card.nout;
    q.out = (int32_t *)w->out_rows;
    q.n_sizes = (size_t)w->nsizes;
    q.sizes = (uint32_t *)w->sizes;
    q.delay_us = o->delay_us > 0 ? (uint32_t)o->delay_us : 0;
    q.queue = o->queue > 0 ? (uint32_t)o->queue : 0;
    q.instances = o->instances > 0 ? (uint32_t)o->instances : 0;
    q.by_look = o->max_batch <= 0;
    q.tried = w->tried;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.model_ready = &q;
    return td_ask_once(c, "model_publish", &call, NULL, NULL);
}

/* ---- the whole way */

/* From here on the handle is one of the name. */
static void become(td_model *m, char *name, td_model *version, const td_card *card)
{
    td_program_free(m->program);
    td_card_free(&m->card);
    m->program = NULL;
    m->name = name;
    m->card = *card;
    m->id = version->id;
    m->session = version->session;
    m->version = version->version;
}

/* `version`: a handle of the one that is warming, with the model's card. */
static int finish(td_model *m, td_model *version, const char *name, const td_model_options *o)
{
    td_error e = {0};
    td_warmed w;
    td_card card = {0};
    int rc = td_model_warm(version, m->program, o->max_batch, &w);
    char *text = rc ? NULL : finished_card(m, name, version->version, o, &w, &e);
    char *copy = text ? strdup(name) : NULL;
    if (!rc && text && !copy) td_no_memory(&e, "for a model");
    if (!rc && copy) td_card_read(&card, text, strlen(text), &e);
    if (!rc && e.code) rc = td_raise_error(&e, "model_publish", NULL);
    if (!rc) rc = ask_ready(m->client, m, version->id, text, &w, o);
    free(text);
    if (!rc) {
        become(m, copy, version, &card);
        return TD_OK;
    }
    td_card_free(&card);
    free(copy);
    return rc;
}

static int check_number(const char *what, int n, int most)
{
    if (n >= 0 && n <= most) return TD_OK;
    return td_raise(TD_E_INVALID, "model_publish", "%s is from 0 to %d, and is %d here", what, most, n);
}

static int check_numbers(const td_model_options *o)
{
    int rc = check_number("version", o->version, INT_MAX);
    if (!rc) rc = check_number("max_batch", o->max_batch, MOST_ROWS);
    if (!rc) rc = check_number("the delay in microseconds", o->delay_us, INT_MAX);
    if (!rc) rc = check_number("queue", o->queue, MOST_WAITING);
    return rc ? rc : check_number("instances", o->instances, MOST_RUNS);
}

static int check(const td_model *m, const char *name, const td_model_options *o)
{
    if (!m) return td_raise_null("model_publish", "the model");
    if (!name || !name[0]) return td_raise(TD_E_INVALID, "model_publish", "the name is empty");
    if (!m->program)
        return td_raise(TD_E_INVALID, "model_publish", "the model is published already, as '%.80s'", m->name);
    if (o->flags & ~(unsigned)(TD_MODEL_WHILE_OPEN | TD_MODEL_KEEP_OLD | TD_MODEL_NEW))
        return td_raise(TD_E_INVALID, "model_publish", "flags %#x: there are TD_MODEL_WHILE_OPEN, _KEEP_OLD and _NEW",
                        o->flags);
    return check_numbers(o);
}

TD_API int td_model_publish(td_model *m, const char *name, const td_model_options *options)
{
    td_model_options o = {0};
    if (options) memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    int rc = check(m, name, &o);
    td_client *c = rc ? NULL : m->client;
    if (!rc) rc = td_enter(c, "model_publish");
    if (rc) return rc;
    td_model version = {
        .client = c, .name = (char *)name, .card = m->card, .id = ++c->model.next, .session = c->session};
    rc = ask_publish(m, name, &o, version.id, &version.version);
    td_leave(c);
    if (rc) return rc;
    rc = finish(m, &version, name, &o);
    if (!rc) return TD_OK;
    Td__Wire__ModelClose q = TD__WIRE__MODEL_CLOSE__INIT;
    q.model = version.id;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.model_close = &q;
    td_lock(c);
    if (!c->lost && version.session == c->session) td_tell(c, &call);
    td_unlock(c);
    return rc;
}
