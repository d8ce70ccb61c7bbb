/* The call that gives a tensor a handle, or hands its handle on once more. */
#include "daemon/session/calls/calls.h"

/* The version of a name that stands for this very tensor; 0: it is not published so. */
static uint64_t version_of(td_session *s, const char *name, const td_tensor *t)
{
    td_error none;
    const td_name *n = name[0] ? td_name_newer(s->service, name, 0, &none) : NULL;
    return n && n->what.tensor == t ? n->what.edition.version : 0;
}

int td_call_hand(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Hand *q = call->hand;
    td_tensor *t = td_call_tensor(s, q->id, e);
    if (!t) return e->code;
    int rc = td_session_check_lease(s, t->storage, e);
    if (rc) return rc;
    const char *handle = td_handed_give(s, t, q, e);
    if (!handle) return e->code;
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    r.serial = call->serial;
    r.data.data = (uint8_t *)(uintptr_t)handle;
    r.data.len = strlen(handle);
    r.version = version_of(s, q->name, t);
    td_reply_send(s, &r, -1);
    return TD_OK;
}
