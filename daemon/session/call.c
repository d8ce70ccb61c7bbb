/* Calls: requests of the stream that have an answer each. A failure is that answer, never the connection's end. */
#include "daemon/session/state.h"

#include <stdio.h>
#include <stdlib.h>

td_tensor *td_call_tensor(td_session *s, uint32_t id, td_error *e)
{
    td_cause *cause;
    td_tensor *t = td_session_value(s, id, &cause, e);
    if (t && t->storage->poison) {
        *e = t->storage->poison->error;
        return NULL;
    }
    return t;
}

static void fill_facts(const td_session *s, const td_tensor *t, Td__Wire__Facts *f)
{
    td__wire__facts__init(f);
    f->requires_grad = td_requires_grad(t);
    f->leaf = td_is_leaf(t);
    f->has_grad = td_grad_known(t, 0, s->id) != NULL;
    const char *fn = td_grad_fn(t);
    f->grad_fn = (char *)(fn ? fn : "");
    f->version = t->version->value;
    f->storage = (uint64_t)(uintptr_t)t->storage >> 4;
    f->service = (t->storage->flags & TD_SF_SERVICE) != 0;
    f->nbytes = t->storage->nbytes;
}

static void reply_facts(td_session *s, uint64_t serial, const td_tensor *t, td_edition edition)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Facts facts;
    Td__Wire__Desc desc;
    int64_t sizes[2 * TD_MAX_DIMS];
    fill_facts(s, t, &facts);
    td_desc_to_wire(&t->desc, &desc, sizes);
    r.serial = serial;
    r.facts = &facts;
    r.desc = &desc;
    r.version = edition.version;
    r.tree = edition.tree != 0;
    td_reply_send(s, &r, -1);
}

static int call_info(td_session *s, uint64_t serial, const Td__Wire__Info *q, td_error *e)
{
    td_tensor *t = td_call_tensor(s, q->id, e);
    if (!t) return e->code;
    reply_facts(s, serial, t, (td_edition){0});
    return TD_OK;
}

static int call_map(td_session *s, uint64_t serial, const Td__Wire__Map *q, td_error *e)
{
    td_tensor *t = td_call_tensor(s, q->id, e);
    return t ? td_address_reply(s, t, serial, q->descriptor, e) : e->code;
}

/* ---- names */

int td_call_new_id(td_session *s, uint32_t id, td_error *e)
{
    if (id == 0 || id > TD_MAX_ID)
        return td_fail(e, TD_E_INVALID, "id %u cannot be bound; ids go from 1 to %u", id, TD_MAX_ID);
    return td_objects_check_free(&s->objects, id, e);
}

/* The value in service memory, which outlives the session: the tensor itself when it is there already, else a copy. A
 * new reference. */
static int in_service(td_session *s, td_tensor *t, bool copy, td_tensor **out, td_error *e)
{
    *out = NULL;
    if (t->storage->flags & TD_SF_SERVICE && !copy) {
        *out = td_tensor_ref(t);
        return TD_OK;
    }
    td_input in = td_in(t);
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_none(&a);
    uint64_t lack = 0;
    td_heap *heap = NULL;
    int rc = td_ops_try(&s->issuer, TD_OP_COPY, 1, &in, &a, TD_CF_SERVICE, 1, out, &lack, &heap, e);
    return td_session_may_lack(rc) ? td_session_lacks(s, rc, lack, heap, e) : rc;
}

static int bind_tensor(td_session *s, uint32_t id, td_tensor *t, td_error *e)
{
    int rc = td_account_room(s->account, 1, e);
    return rc ? rc : td_objects_bind(&s->objects, id, td_tensor_ref(t), NULL, e);
}

static int open_tensor(td_session *s, uint64_t serial, uint32_t id, td_tensor *t, td_edition edition, td_error *e)
{
    int rc = bind_tensor(s, id, t, e);
    if (!rc) reply_facts(s, serial, t, edition);
    return rc;
}

/* The name comes last: when anything fails, it stays what it was. */
static int publish_for_long(td_session *s, uint64_t serial, const Td__Wire__Publish *q, td_tensor *t, td_error *e)
{
    int rc = q->bind ? td_call_new_id(s, q->bind, e) : TD_OK;
    if (rc) return rc;
    td_tensor *kept;
    rc = in_service(s, t, q->copy, &kept, e);
    if (rc) return rc;
    if (q->bind) rc = bind_tensor(s, q->bind, kept, e);
    bool bound = q->bind && !rc;
    uint32_t tree = q->tree ? 1 + (q->tensors < TD_MAX_ITEM ? q->tensors : TD_MAX_ITEM) : 0;
    if (!rc) rc = td_name_publish(s->service, q->name, kept, s->account, q->replace, tree, e);
    if (rc && bound) td_objects_release(&s->objects, q->bind);
    if (!rc && bound) reply_facts(s, serial, kept, (td_edition){s->service->editions, tree});
    else if (!rc) td_reply_ok(s, serial);
    td_tensor_unref(kept);
    return rc;
}

static int call_publish(td_session *s, uint64_t serial, const Td__Wire__Publish *q, td_error *e)
{
    td_tensor *t = td_call_tensor(s, q->id, e);
    if (!t) return e->code;
    int rc = td_session_check_lease(s, t->storage, e);
    if (rc) return rc;
    if (!q->lasts_ms) return publish_for_long(s, serial, q, t, e);
    if (q->lend && td_extent_heap(&t->storage->extent) == s->heap) t->storage->flags |= TD_SF_LENT;
    rc = td_name_hand(s->service, q->name, t, s->account, q->lasts_ms, q->lend, e);
    if (!rc) td_reply_ok(s, serial);
    return rc;
}

static void name_arrived(void *arg, td_tensor *t, td_edition edition, const td_error *error)
{
    td_held *h = arg;
    h->edition = edition;
    if (!error) h->tensor = td_tensor_hold(t);
    td_held_over(h, error);
}

static void open_finished(td_session *s, td_held *h)
{
    if (!h->failed && open_tensor(s, h->serial, h->ids[0], h->tensor, h->edition, &h->error) == TD_OK) return;
    td_reply_error(s, h->serial, &h->error);
}

static int call_open(td_session *s, uint64_t serial, const Td__Wire__Open *q, td_error *e)
{
    int rc = td_call_new_id(s, q->id, e);
    if (rc) return rc;
    const td_name *n = td_name_newer(s->service, q->name, q->newer_than, e);
    if (n) rc = open_tensor(s, serial, q->id, n->tensor, n->edition, e);
    if (n && !rc) td_name_taken(s->service, q->name);
    if (n) return rc;
    if (q->timeout_ms == 0) return e->code;
    if ((rc = td_held_room(s))) return rc;
    td_name_wait *w = NULL;
    rc = td_name_wait_new(&w, s->service, q->name, q->timeout_ms, name_arrived, NULL, e);
    if (rc) return rc;
    td_held *h;
    rc = td_held_new(&h, s, "a name", serial, 1, &q->id, open_finished, e);
    if (rc) {
        td_name_wait_free(w);
        return rc;
    }
    h->name = w;
    w->arg = h;
    return TD_OK;
}

static int call_drop(td_session *s, uint64_t serial, const Td__Wire__Drop *q, td_error *e)
{
    int rc = td_name_drop(s->service, q->name, s->account, e);
    if (!rc) td_reply_ok(s, serial);
    return rc;
}

/* ---- which one */

static int call_unmapped(td_session *s, uint64_t serial, const Td__Wire__Unmapped *q)
{
    td_session_unmapped(s, q->segment, q->generation);
    td_reply_ok(s, serial);
    return TD_OK;
}

static int call_bye(td_session *s, uint64_t serial)
{
    s->said_bye = true;
    td_reply_ok(s, serial);
    return TD_OK;
}

static int call_cancel(td_session *s, uint64_t serial, const Td__Wire__Cancel *q)
{
    td_held_cancel(s, q->waiting);
    td_reply_ok(s, serial);
    return TD_OK;
}

static int dispatch(td_session *s, const Td__Wire__Call *c, const char **name, td_error *e)
{
    uint64_t n = c->serial;
    if (*name = "map", c->map) return call_map(s, n, c->map, e);
    if (*name = "lease", c->lease) return td_call_lease(s, n, c->lease, e);
    if (*name = "lease_drop", c->lease_drop) return td_call_lease_drop(s, n, c->lease_drop, e);
    if (*name = "write_begin", c->write_begin) return td_call_write_begin(s, n, c->write_begin, e);
    if (*name = "publish", c->publish) return call_publish(s, n, c->publish, e);
    if (*name = "open", c->open) return call_open(s, n, c->open, e);
    if (*name = "drop", c->drop) return call_drop(s, n, c->drop, e);
    if (*name = "queue_open", c->queue_open) return td_call_queue_open(s, n, c->queue_open, e);
    if (*name = "queue_put", c->queue_put) return td_call_queue_put(s, n, c->queue_put, e);
    if (*name = "queue_get", c->queue_get) return td_call_queue_get(s, n, c->queue_get, e);
    if (*name = "queue_close", c->queue_close) return td_call_queue_close(s, n, c->queue_close, e);
    if (*name = "queue_look", c->queue_look) return td_call_queue_look(s, n, c->queue_look);
    if (*name = "info", c->info) return call_info(s, n, c->info, e);
    if (*name = "status", c->status) return td_status_reply(s, n, c->status->what, e);
    if (*name = "import", c->import) return td_call_import(s, n, c->import, e);
    if (*name = "ring", c->ring) return td_call_ring(s, n, c->ring, e);
    if (*name = "unmapped", c->unmapped) return call_unmapped(s, n, c->unmapped);
    if (*name = "cancel", c->cancel) return call_cancel(s, n, c->cancel);
    if (*name = "queue_return", c->queue_return) return td_call_queue_return(s, n, c->queue_return, e);
    if (*name = "bye", c->bye) return call_bye(s, n);
    *name = "call";
    return td_fail(e, TD_E_UNSUPPORTED, "this daemon (version %s) does not know the call; is the client newer?",
                   TD_VERSION);
}

/* Does its client wait for the answer? Else a sync has to tell it again. */
static bool awaited(const Td__Wire__Call *c)
{
    return !(c->publish && c->publish->lasts_ms) && !(c->queue_put && c->queue_put->later);
}

int td_step_call(td_session *s)
{
    td_error why = {0};
    const char *name;
    s->objects.site = 0;
    int rc = dispatch(s, s->call, &name, &why);
    if (rc <= 0) return rc;
    if (!why.op[0]) snprintf(why.op, sizeof why.op, "%s", name);
    td_reply_error(s, s->call->serial, &why);
    if (awaited(s->call)) td_session_told(s, &why);
    return TD_OK;
}
