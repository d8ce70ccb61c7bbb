/* Handles of a session's tensors: which of its ids have one, so that it is let go of when the id is released.
 *
 * An id has at most two, one that lasts as long as the session and one that does not; whoever asks again is given the
 * same once more. They are found by name in the service, which may have let go of them already. */
#include "daemon/session/objects/objects.h"

#include <stdlib.h>

struct td_handed {
    UT_hash_handle hh;
    uint32_t id;
    td_service *service;
    char name[2][TD_HANDLE_TEXT]; /* by `lasting`; "": none */
};

static td_handed *find(const td_objects *o, uint32_t id)
{
    td_handed *h;
    HASH_FIND(hh, o->handed, &id, sizeof id, h);
    return h;
}

static td_handed *make(td_session *s, uint32_t id, td_error *e)
{
    if (td_account_charge(s->account, 0, 1, e)) return NULL;
    td_handed *h = calloc(1, sizeof *h);
    if (h) {
        h->id = id;
        h->service = s->service;
        HASH_ADD(hh, s->objects.handed, id, sizeof h->id, h);
    }
    if (h && TD_HASHED(h)) return h;
    free(h);
    td_account_discharge(s->account, 0, 1);
    td_no_memory(e, "for the record of a handle");
    return NULL;
}

static void end(td_objects *o, td_handed *h)
{
    HASH_DEL(o->handed, h);
    for (int k = 0; k < 2; k++)
        if (h->name[k][0]) td_handle_let_go(h->service, h->name[k]);
    td_account_discharge(o->account, 0, 1);
    free(h);
}

void td_handed_release(td_objects *o, uint32_t id)
{
    td_handed *h = find(o, id);
    if (h) end(o, h);
}

bool td_handed_drop(td_objects *o, int *most)
{
    for (; o->handed && *most > 0; --*most) end(o, o->handed);
    return !o->handed;
}

const char *td_handed_give(td_session *s, td_tensor *t, const Td__Wire__Hand *q, td_error *e)
{
    td_handed *h = find(&s->objects, q->id);
    if (!h && !(h = make(s, q->id, e))) return NULL;
    char *name = h->name[q->lasting];
    if (name[0] && !td_handle_again(s->service, name, s->account, q->lasts_ms, q->lasting, e)) return name;
    *e = (td_error){0}; /* it was dropped by its name */
    int rc = td_handle_new(s->service, name, t, s->account, q->lasts_ms, q->lasting, e);
    if (rc) name[0] = 0;
    return rc ? NULL : name;
}
