/* Calls: requests of the stream that have an answer each. A failure is that answer, never the connection's end. */
#include "daemon/session/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>

td_tensor *td_call_tensor(td_session *s, uint32_t id, td_error *e)
{
    td_cause *cause;
    td_tensor *t = td_session_value(s, id, &cause, e);
    return t && td_storage_check(t->storage, e) ? NULL : t;
}

static int call_info(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Info *q = call->info;
    td_tensor *t = td_call_tensor(s, q->id, e);
    if (!t) return e->code;
    td_facts_reply(s, call->serial, t, (td_edition){0});
    return TD_OK;
}

static int call_map(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Map *q = call->map;
    td_tensor *t = td_call_tensor(s, q->id, e);
    td_address_form form = {q->descriptor, q->quiet, q->facts, q->device};
    return t ? td_address_reply(s, t, call->serial, form, e) : e->code;
}

int td_call_new_id(td_session *s, uint32_t id, td_error *e)
{
    if (id == 0 || id > TD_MAX_ID)
        return td_fail(e, TD_E_INVALID, "id %u cannot be bound; ids go from 1 to %u", id, TD_MAX_ID);
    return td_objects_check_free(&s->objects, id, e);
}

static int call_unmapped(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Unmapped *q = call->unmapped;
    (void)e;
    td_session_unmapped(s, q->segment, q->generation);
    td_reply_ok(s, call->serial);
    return TD_OK;
}

static int call_bye(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    (void)e;
    s->life.said_bye = true;
    td_reply_ok(s, call->serial);
    return TD_OK;
}

static int call_cancel(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Cancel *q = call->cancel;
    if (q->session) {
        td_peer_id who = {s->uid, s->pid};
        td_session *other = td_session_by_token(s->all, q->session, q->token, &who, "to stop", e);
        if (!other) return e->code;
        td_session_stop(other, q->waiting, false);
    } else {
        td_held_cancel(s, q->waiting);
    }
    td_reply_ok(s, call->serial);
    return TD_OK;
}

/* ---- the table of them */

typedef struct request {
    const char *name;
    size_t field; /* of the Call: NULL when it is not this one */
    int (*run)(td_session *s, const Td__Wire__Call *call, td_error *e);
} request;

#define REQUEST(name, run)                                                                                             \
    {                                                                                                                  \
#name, offsetof(Td__Wire__Call, name), run                                                                     \
    }

static const request requests[] = {REQUEST(map, call_map),
                                   REQUEST(lease, td_call_lease),
                                   REQUEST(lease_drop, td_call_lease_drop),
                                   REQUEST(write_begin, td_call_write_begin),
                                   REQUEST(publish, td_call_publish),
                                   REQUEST(open, td_call_open),
                                   REQUEST(hand, td_call_hand),
                                   REQUEST(drop, td_call_drop),
                                   REQUEST(name_look, td_call_name_look),
                                   REQUEST(queue_open, td_call_queue_open),
                                   REQUEST(queue_put, td_call_queue_put),
                                   REQUEST(queue_get, td_call_queue_get),
                                   REQUEST(queue_close, td_call_queue_close),
                                   REQUEST(queue_look, td_call_queue_look),
                                   REQUEST(group_open, td_call_group_open),
                                   REQUEST(group_memory, td_call_group_memory),
                                   REQUEST(group_leave, td_call_group_leave),
                                   REQUEST(group_regroup, td_call_group_regroup),
                                   REQUEST(infer, td_call_infer),
                                   REQUEST(model_publish, td_call_model_publish),
                                   REQUEST(model_ready, td_call_model_ready),
                                   REQUEST(model_open, td_call_model_open),
                                   REQUEST(model_close, td_call_model_close),
                                   REQUEST(model_serve, td_call_model_serve),
                                   REQUEST(model_retire, td_call_model_retire),
                                   REQUEST(info, call_info),
                                   REQUEST(status, td_call_status),
                                   REQUEST(program_new, td_call_program_new),
                                   REQUEST(program_publish, td_call_program_publish),
                                   REQUEST(program_open, td_call_program_open),
                                   REQUEST(program_captured, td_call_program_captured),
                                   REQUEST(program_plans, td_call_program_plans),
                                   REQUEST(node, td_call_node),
                                   REQUEST(saved, td_call_saved),
                                   REQUEST(import, td_call_import),
                                   REQUEST(ring, td_call_ring),
                                   REQUEST(unmapped, call_unmapped),
                                   REQUEST(cancel, call_cancel),
                                   REQUEST(stopper, td_call_stopper),
                                   REQUEST(queue_return, td_call_queue_return),
                                   REQUEST(bye, call_bye)};

static int call_unknown(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    (void)s, (void)call;
    return td_fail(e, TD_E_UNSUPPORTED, "this daemon (version %s) does not know the call; is the client newer?",
                   TD_VERSION);
}

static const request *request_of(const Td__Wire__Call *call)
{
    static const request unknown = {"call", 0, call_unknown};
    for (const request *r = requests; r < requests + sizeof requests / sizeof requests[0]; r++) {
        const void *asked;
        memcpy(&asked, (const char *)call + r->field, sizeof asked);
        if (asked) return r;
    }
    return &unknown;
}

/* Does its client wait for the answer? Else a sync has to tell it again. */
static bool awaited(const Td__Wire__Call *c)
{
    return !(c->publish && c->publish->lasts_ms) && !(c->queue_put && c->queue_put->later);
}

void td_call_failed(td_session *s, const Td__Wire__Call *call, td_error *why)
{
    if (!why->op[0]) snprintf(why->op, sizeof why->op, "%s", request_of(call)->name);
    td_reply_error(s, call->serial, why);
    if (awaited(call)) td_session_told(s, why);
}

int td_step_call(td_session *s)
{
    td_error why = {0};
    const request *r = request_of(s->stream.call);
    s->objects.site = 0;
    td_lap_is(s->service->laps, r->name);
    int rc = r->run(s, s->stream.call, &why);
    if (rc <= 0) return rc;
    td_call_failed(s, s->stream.call, &why);
    return TD_OK;
}
