/* The calls about names: publish (of programs: named.c; of models: models.c), open, look, drop. An open of what nobody
 * has published is held beside the stream (stream/held.c).
 */
#include "daemon/session/calls/calls.h"

int td_session_copy_by(td_session *s, td_issuer *who, td_tensor *t, uint32_t flags, td_tensor **out, td_error *e)
{
    td_input in = td_in(t);
    bool last = td_desc_is_channels_last(&t->desc); /* else as rows */
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_none(&a);
    td_need need = {0};
    int rc = td_ops_try(who, last ? TD_OP_COPY_LAST : TD_OP_COPY, 1, &in, &a, flags, 1, out, &need, e);
    return td_need_may_pass(rc) ? td_session_lacks(s, rc, &need, e) : rc;
}

int td_session_copy(td_session *s, td_tensor *t, uint32_t flags, td_tensor **out, td_error *e)
{
    return td_session_copy_by(s, &s->issuer, t, flags, out, e);
}

int td_session_in_service(td_session *s, td_tensor *t, bool copy, td_tensor **out, td_error *e)
{
    *out = NULL;
    if (!(t->storage->flags & TD_SF_SERVICE) || copy) return td_session_copy(s, t, TD_CF_SERVICE, out, e);
    *out = td_tensor_ref(t);
    return TD_OK;
}

static int bind_tensor(td_session *s, uint32_t id, td_tensor *t, td_error *e)
{
    int rc = td_account_room(s->account, 1, e);
    return rc ? rc : td_objects_bind(&s->objects, id, td_tensor_ref(t), NULL, e);
}

/* What is asked for. */
typedef enum wanted { TENSOR, PROGRAM, MODEL } wanted;

static int wrong_kind(const char *name, const td_named *what, wanted want, td_error *e)
{
    static const char *const wants[] = {"tensor", "program", "model"};
    const char *is = "tensor", *opens = "td_open() opens it (in Python tensord.open())";
    if (what->model) is = "model", opens = "td_model_open() opens it (in Python tensord.model())";
    else if (what->program) is = "program", opens = "td_program_open() opens it (in Python tensord.jit.open())";
    else if (what->edition.tree) is = "tree of tensors", opens = "td_open_tree() opens it (in Python tensord.open())";
    return td_fail(e, TD_E_TYPE, "'%s' is a %s, not a %s: %s", name, is, wants[want], opens);
}

/* `version`: of a model. */
static int open_named(td_session *s, uint64_t serial, uint32_t id, wanted want, uint32_t version, const char *name,
                      const td_named *what, td_error *e)
{
    wanted is = what->model ? MODEL : what->program ? PROGRAM : TENSOR;
    if (is != want) return wrong_kind(name, what, want, e);
    if (want == MODEL) return td_session_model_open(s, serial, id, name, version, e);
    if (want == PROGRAM) return td_session_program_open(s, serial, id, what->program, e);
    int rc = bind_tensor(s, id, what->tensor, e);
    if (!rc) td_facts_reply(s, serial, what->tensor, what->edition);
    return rc;
}

/* The name comes last: when anything fails, it stays what it was. */
static int publish_for_long(td_session *s, uint64_t serial, const Td__Wire__Publish *q, td_tensor *t, td_error *e)
{
    int rc = q->bind ? td_call_new_id(s, q->bind, e) : TD_OK;
    if (rc) return rc;
    td_tensor *kept;
    rc = td_session_in_service(s, t, q->copy, &kept, e);
    if (rc) return rc;
    s->objects.site = td_objects_find(&s->objects, q->id)->site; /* a copy is of the line that made what is copied */
    if (q->bind) rc = bind_tensor(s, q->bind, kept, e);
    bool bound = q->bind && !rc;
    uint32_t tree = q->tree ? 1 + (q->tensors < TD_MAX_ITEM ? q->tensors : TD_MAX_ITEM) : 0;
    if (!rc) rc = td_name_publish(s->service, q->name, kept, s->account, q->replace, tree, e);
    if (rc && bound) td_objects_release(&s->objects, q->bind);
    if (!rc && bound) td_facts_reply(s, serial, kept, (td_edition){s->service->editions, tree});
    else if (!rc) td_reply_ok(s, serial);
    td_tensor_unref(kept);
    return rc;
}

int td_call_publish(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Publish *q = call->publish;
    td_tensor *t = td_call_tensor(s, q->id, e);
    if (!t) return e->code;
    int rc = td_session_check_lease(s, t->storage, e);
    if (rc) return rc;
    if (!q->lasts_ms) return publish_for_long(s, call->serial, q, t, e);
    if (q->lend && td_extent_heap(&t->storage->extent) == s->heap) t->storage->flags |= TD_SF_LENT;
    rc = td_name_hand(s->service, q->name, t, s->account, q->lasts_ms, q->lend, e);
    if (!rc) td_reply_ok(s, call->serial);
    return rc;
}

/* ---- what nobody has published yet */

typedef struct open_wait {
    td_held h;
    td_named came; /* held, as the name may be gone already */
    wanted want;
    uint32_t version;
    char name[];
} open_wait;

static open_wait *open_of(td_wait *w)
{
    return (open_wait *)(void *)w;
}

static void name_arrived(void *arg, const td_named *what, const td_error *error)
{
    open_wait *o = arg;
    if (!error) o->came = td_named_hold(*what);
    td_held_over(&o->h, error);
}

static void open_cancelled(td_session *s, td_wait *w)
{
    (void)s;
    open_wait *o = open_of(w);
    td_named_unhold(o->came);
    o->came = (td_named){0};
}

static void open_finished(td_session *s, td_wait *w)
{
    open_wait *o = open_of(w);
    bool opened =
        !w->failed && open_named(s, w->serial, w->id, o->want, o->version, o->name, &o->came, &o->h.error) == TD_OK;
    if (!opened) td_reply_error(s, w->serial, &o->h.error);
    td_named_unhold(o->came);
}

/* `id` may be bound. */
static int open_name(td_session *s, uint64_t serial, const Td__Wire__Open *q, wanted want, uint32_t version,
                     td_error *e)
{
    static const td_wait_kind for_name = {"a name", .finish = open_finished, .cancel = open_cancelled};
    int rc = TD_OK;
    const td_name *n = td_name_newer(s->service, q->name, q->newer_than, e);
    if (n) rc = open_named(s, serial, q->id, want, version, q->name, &n->what, e);
    if (n && !rc) td_name_taken(s->service, q->name);
    if (n) return rc;
    if (q->timeout_ms == 0 || e->code == TD_E_CLOSED) return e->code;
    if ((rc = td_held_room(s))) return rc;
    td_name_wait *at = NULL;
    rc = td_name_wait_new(&at, s->service, q->name, q->timeout_ms, name_arrived, NULL, e);
    if (rc) return rc;
    size_t length = strlen(q->name) + 1;
    open_wait *o = td_held_new(s, &for_name, sizeof *o + length, serial, e);
    if (!o) {
        td_name_wait_free(at);
        return e->code;
    }
    o->h.wait.id = q->id;
    td_held_awaits(&o->h, &at->await);
    o->want = want;
    o->version = version;
    memcpy(o->name, q->name, length);
    return TD_OK;
}

int td_call_open(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    int rc = td_call_new_id(s, call->open->id, e);
    return rc ? rc : open_name(s, call->serial, call->open, TENSOR, 0, e);
}

int td_call_program_open(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    int rc = td_session_program_id(s, call->program_open->id, e);
    return rc ? rc : open_name(s, call->serial, call->program_open, PROGRAM, 0, e);
}

int td_call_model_open(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__ModelOpen *q = call->model_open;
    Td__Wire__Open open = TD__WIRE__OPEN__INIT;
    open.name = q->name;
    open.id = q->model;
    open.timeout_ms = q->timeout_ms;
    int rc = td_session_model_id(s, q->model, e);
    return rc ? rc : open_name(s, call->serial, &open, MODEL, q->version, e);
}

int td_call_name_look(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    td_error none;
    const td_name *n = td_name_newer(s->service, call->name_look->name, 0, &none);
    (void)e;
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    r.serial = call->serial;
    r.version = n ? n->what.edition.version : 0;
    td_reply_send(s, &r, -1);
    return TD_OK;
}

int td_call_drop(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Drop *q = call->drop;
    int rc = td_name_drop(s->service, q->name, s->account, e);
    if (!rc) td_reply_ok(s, call->serial);
    return rc;
}
