/* Sharing between sessions by name. */
#include "client/share/internal.h"
#include "client/tensor/awaited.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static int check_publish(const td_array *a, const char *name, unsigned flags)
{
    if (!a) return td_raise_null("publish", "the array");
    if (!name || !name[0]) return td_raise(TD_E_INVALID, "publish", "the name is empty");
    if ((flags & TD_LENT) && flags != TD_LENT)
        return td_raise(TD_E_INVALID, "publish",
                        "TD_LENT is the tensor itself under a name of its own: no copy, no replacing");
    return TD_OK;
}

/* `tree`: NULL, or of how many tensors; `bind`: 0, or the id of what on_open fills. */
static int publish(td_array *a, const char *name, unsigned flags, const int *tree, uint32_t bind, td_reply_wait *w)
{
    Td__Wire__Publish p = TD__WIRE__PUBLISH__INIT;
    p.name = (char *)name;
    p.id = a->id;
    p.replace = flags & TD_REPLACE;
    p.copy = flags & TD_COPY;
    p.lend = flags & TD_LENT;
    if (p.lend) p.lasts_ms = 1000;
    p.bind = bind;
    p.tree = tree != NULL;
    if (tree) p.tensors = (uint32_t)*tree;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.publish = &p;
    td_hand_on(a->client);
    return td_ask_and_wait(a->client, &call, -1, w, "publish");
}

TD_API int td_publish(td_array *a, const char *name, unsigned flags)
{
    int rc = check_publish(a, name, flags);
    if (!rc) rc = a ? td_enter(a->client, "publish") : TD_E_INVALID;
    if (rc) return rc;
    td_reply_wait w = {0};
    rc = publish(a, name, flags, NULL, 0, &w);
    td_leave(a->client);
    return rc;
}

static int send_handle(td_array *a, char handle[TD_HANDLE_TEXT], int lasts_ms, bool lend)
{
    uint64_t random[2];
    if (!a) return td_raise_null("send", "the array");
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return td_raise(TD_E_SYSTEM, "send", "no random numbers for a handle");
    snprintf(handle, TD_HANDLE_TEXT, "handle/%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    int rc = td_enter(a->client, "send");
    if (rc) return rc;
    Td__Wire__Publish p = TD__WIRE__PUBLISH__INIT;
    p.name = handle;
    p.id = a->id;
    p.lasts_ms = lasts_ms > 0 ? (uint32_t)lasts_ms : 1;
    p.lend = lend;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.publish = &p;
    td_hand_on(a->client);
    td_tell(a->client, &call); /* who takes it waits for it */
    rc = td_push_all(a->client);
    td_leave(a->client);
    return rc;
}

TD_API int td_send(td_array *a, char handle[TD_HANDLE_TEXT], int lasts_ms)
{
    return send_handle(a, handle, lasts_ms, false);
}

TD_API int td_lend(td_array *a, char handle[TD_HANDLE_TEXT], int lasts_ms)
{
    return send_handle(a, handle, lasts_ms, true);
}

typedef struct handed {
    char *handle;
    uint64_t version;
} handed;

static int on_handed(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    handed *h = w->context;
    if (!r->data.len || r->data.len >= TD_HANDLE_TEXT) return td_fail(e, TD_E_PROTOCOL, "no handle came");
    memcpy(h->handle, r->data.data, r->data.len);
    h->handle[r->data.len] = 0;
    h->version = r->version;
    return TD_OK;
}

int td_hand(td_array *a, char handle[TD_HANDLE_TEXT], int lasts_ms, bool lasting, const char *name, uint64_t *version)
{
    int rc = a ? td_enter(a->client, "hand") : td_raise_null("hand", "the array");
    if (rc) return rc;
    Td__Wire__Hand q = TD__WIRE__HAND__INIT;
    q.id = a->id;
    q.lasts_ms = lasts_ms > 0 ? (uint32_t)lasts_ms : 1;
    q.lasting = lasting;
    q.name = (char *)(name ? name : "");
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.hand = &q;
    handed h = {.handle = handle};
    td_reply_wait w = {.on_reply = on_handed, .context = &h};
    td_hand_on(a->client);
    rc = td_ask_and_wait(a->client, &call, -1, &w, "hand");
    *version = h.version;
    td_leave(a->client);
    return rc;
}

static bool is_handle(const char *name)
{
    return name && strncmp(name, "handle/", 7) == 0;
}

TD_API td_array *td_take(td_client *c, const char *handle, int timeout_ms)
{
    if (!is_handle(handle)) {
        td_raise(TD_E_INVALID, "take", "'%s' is no handle from td_send()", handle ? handle : "NULL");
        return NULL;
    }
    return td_open(c, handle, timeout_ms);
}

static int on_version(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd, (void)e;
    *(uint64_t *)w->context = r->version;
    return TD_OK;
}

TD_API int td_name_version(td_client *c, const char *name, uint64_t *version)
{
    *version = 0;
    Td__Wire__NameLook q = TD__WIRE__NAME_LOOK__INIT;
    q.name = (char *)(name ? name : "");
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.name_look = &q;
    return td_ask_once(c, "name_version", &call, on_version, version);
}

TD_API int td_drop(td_client *c, const char *name)
{
    Td__Wire__Drop d = TD__WIRE__DROP__INIT;
    d.name = (char *)(name ? name : "");
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.drop = &d;
    return td_ask_once(c, "drop", &call, NULL, NULL);
}

int td_take_opened(td_array *a, const td_reply *r, int *fd, td_error *e)
{
    if (!r->desc) return td_fail(e, TD_E_PROTOCOL, "no descriptor came");
    int rc = td_desc_from_wire(r->desc, &a->desc, e);
    return !rc && r->address ? td_adopt_address(a, r->address, fd, e) : rc;
}

/* The edition that is published, and which it is. */
typedef struct opened {
    td_array *array;
    uint64_t version;
} opened;

static int on_open(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c;
    opened *o = w->context;
    o->version = r->version;
    return td_take_opened(o->array, r, fd, e);
}

static td_array *published(td_array *a, const char *name, unsigned flags, const int *tree, uint64_t *version)
{
    if (check_publish(a, name, flags) || !a) return NULL;
    if (flags & TD_LENT) {
        td_raise(TD_E_INVALID, "publish", "what is lent is the array itself: td_publish it");
        return NULL;
    }
    if (td_enter(a->client, "publish")) return NULL;
    td_array *out = td_array_new(a->client);
    if (out) {
        opened o = {.array = out};
        td_reply_wait w = {.on_reply = on_open, .context = &o};
        if (publish(a, name, flags, tree, out->id, &w) == TD_OK) {
            td_array_announce(out);
            *version = o.version;
        } else {
            td_abandon(a->client, &w, 1, &out);
            out = NULL;
        }
    }
    td_leave(a->client);
    return out;
}

TD_API td_array *td_published(td_array *a, const char *name, unsigned flags)
{
    uint64_t version;
    return published(a, name, flags, NULL, &version);
}

int td_publish_edition(td_array *tree, int tensors, const char *name, unsigned flags, uint64_t *version)
{
    td_array *out = published(tree, name, flags, &tensors, version);
    td_release(out);
    return out ? TD_OK : td_last_error()->code;
}

void td_leave_with_hint(td_client *c, const char *name)
{
    const td_client was = *c; /* another thread may end it as soon as it is left */
    td_leave(c);
    if (!is_handle(name)) td_hint_elsewhere(&was, name);
}

TD_API td_array *td_open(td_client *c, const char *name, int timeout_ms)
{
    uint64_t version;
    bool tree;
    return td_open_edition(c, name, 0, timeout_ms, &version, &tree);
}
