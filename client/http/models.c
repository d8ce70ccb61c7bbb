/* Models that are open here, and what requests are charged. A model is opened when it is first asked for, whoever
 * published it, and stays open for the next request. */
#include "client/http/front.h"
#include "proto/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ----------------------------------------------------------------------------------------------------- */

uint64_t http_room(const http_front *f)
{
    return f->charged < f->options.memory ? f->options.memory - f->charged : 0;
}

int http_charge(http_front *f, uint64_t bytes, td_error *e)
{
    if (bytes > f->options.memory)
        return td_fail(e, TD_E_INVALID, "%llu bytes are more than the %llu that all requests may take together",
                       (unsigned long long)bytes, (unsigned long long)f->options.memory);
    if (bytes > http_room(f)) {
        f->refused_busy++;
        return td_fail(
            e, TD_E_QUOTA, "requests under way take %llu of the %llu bytes that they may: this one needs %llu more",
            (unsigned long long)f->charged, (unsigned long long)f->options.memory, (unsigned long long)bytes);
    }
    f->charged += bytes;
    if (f->charged > f->most_charged) f->most_charged = f->charged;
    return TD_OK;
}

void http_uncharge(http_front *f, uint64_t bytes)
{
    f->charged -= bytes;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static int status_of(int code)
{
    switch (code) {
    case TD_E_INVALID:
    case TD_E_TYPE:
    case TD_E_SHAPE:
    case TD_E_INDEX:
    case TD_E_UNSUPPORTED: return 400;
    case TD_E_PERMISSION: return 403;
    case TD_E_NOT_FOUND: return 404;
    case TD_E_EXISTS: return 409;
    case TD_E_TIMEOUT: return 504;
    case TD_E_MEMORY:
    case TD_E_QUOTA:
    case TD_E_BUSY:
    case TD_E_CLOSED:
    case TD_E_CANCELLED:
    case TD_E_LOST: return 503;
    default: return 500;
    }
}

void http_refuse_for(http_exchange *x, const td_error *e)
{
    http_refuse(x, status_of(e->code), "%s", e->message[0] ? e->message : td_error_name(e->code));
}

void http_refuse_model(const http_front *f, http_exchange *x, const char *name, const td_error *e)
{
    char text[HTTP_WHY];
    const char *why = e->code == TD_E_NOT_FOUND ? http_repository_why(http_repository_find(f, name), text) : NULL;
    if (why) http_refuse(x, status_of(e->code), "%s", why);
    else http_refuse_for(x, e);
}

static void free_bytes(void *owner)
{
    free(owner);
}

void http_answer_text(http_exchange *x, int status, const char *type, http_text *t)
{
    if (t->failed) {
        http_refuse_for(x, &t->error);
        free(t->bytes.at);
    } else {
        struct iovec part = {t->bytes.at, t->bytes.n};
        http_answer(x, &(http_reply){.status = status,
                                     .type = type,
                                     .parts = &part,
                                     .nparts = 1,
                                     .let_go = free_bytes,
                                     .owner = t->bytes.at});
    }
    *t = (http_text){0};
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

static void free_model(http_model *m)
{
    oip_card_close(&m->card);
    td_model_free(m->handle);
    free(m);
}

static bool is_of(const http_model *m, const char *name, int version)
{
    return !m->stale && m->version == version && strcmp(m->name, name) == 0;
}

/* Those that are stale go, and the one that was used longest ago when there are too many. */
static void tidy(http_front *f)
{
    unsigned n = 0;
    for (http_model **at = &f->models; *at;) {
        http_model *m = *at;
        if (m->refs == 0 && (m->stale || ++n > HTTP_OPEN_MODELS)) {
            *at = m->next;
            free_model(m);
        } else at = &m->next;
    }
}

bool http_model_is_open(const http_front *f, const char *name, int version)
{
    const http_model *m = f->models;
    while (m && !is_of(m, name, version)) m = m->next;
    return m;
}

http_model *http_model_open(http_front *f, const char *name, int version, td_error *e)
{
    for (http_model **at = &f->models; *at; at = &(*at)->next) {
        http_model *m = *at;
        if (!is_of(m, name, version)) continue;
        *at = m->next; /* to the front: used last */
        m->next = f->models, f->models = m;
        m->refs++;
        return m;
    }
    tidy(f);
    if (strlen(name) >= HTTP_NAME) return td_fail(e, TD_E_NOT_FOUND, "there is no model with so long a name"), NULL;
    http_model *m = calloc(1, sizeof *m);
    if (!m) return td_no_memory(e, "for a model"), NULL;
    snprintf(m->name, sizeof m->name, "%s", name);
    m->version = version;
    m->handle = td_model_open(f->client, name, version, 0);
    int rc = m->handle ? oip_card_read(&m->card, td_model_card(m->handle), e) : (*e = *td_last_error(), e->code);
    if (rc) return free_model(m), NULL;
    m->refs = 1;
    m->next = f->models, f->models = m;
    return m;
}

void http_model_done(http_front *f, http_model *m)
{
    if (--m->refs == 0 && m->stale) tidy(f);
}

void http_models_forget(http_front *f, const char *name)
{
    for (http_model *m = f->models; m; m = m->next)
        if (!name || strcmp(m->name, name) == 0) m->stale = true;
    tidy(f);
}
