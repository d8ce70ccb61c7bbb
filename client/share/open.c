/* Opening a name, with a wait and without. */
#include "client/share/internal.h"
#include "client/tensor/async.h"
#include "client/tensor/awaited.h"
#include "client/tensord_bind.h"

#include <stdlib.h>
#include <string.h>

typedef struct opening {
    td_value_request value; /* first; its array is what was opened */
    char *name;
    uint64_t version;
    bool tree;
    bool whole; /* of a tree the bytes are asked for, too */
} opening;

static opening *opening_of(td_request *r)
{
    return (opening *)r;
}

static void free_opening(td_request *r)
{
    free(opening_of(r)->name);
    td_value_request_free(r);
}

static const td_request_kind opens = {.base = &td_value_request_kind, .free = free_opening};

static int take_opened(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    opening *x = opening_of(r);
    td_awaited *b = td_awaited_of(r->question);
    x->version = reply->version;
    x->tree = reply->tree;
    int rc = td_take_opened(b->at[0], reply, fd, e);
    if (rc) {
        b->at[0]->unknown = true;
        td_array_free(b->at[0]);
    } else {
        x->value.array = b->at[0];
    }
    b->n = 0;
    if (rc || !x->tree || !x->whole) return rc;
    r->waits = false; /* its bytes are taken apart by who takes it */
    r->ask = td_ask_address;
    r->more = true;
    return TD_OK;
}

static void late_opened(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    td_take_unclaimed(c, r, fd);
    td_awaited_unwanted(td_awaited_of(q), 1);
}

static int ask_open(td_request *r, uint32_t ms)
{
    td_awaited *b = td_awaited_new(r, 1);
    if (!b) return td_last_error()->code;
    b->question.late = late_opened;
    Td__Wire__Open o = TD__WIRE__OPEN__INIT;
    o.name = opening_of(r)->name;
    o.id = b->at[0]->id;
    o.timeout_ms = ms;
    o.newer_than = opening_of(r)->version;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.open = &o;
    return td_question_ask(&b->question, &call);
}

TD_API td_request *td_async_open(td_client *c, const char *name, uint64_t newer_than, int timeout_ms, td_done done,
                                 void *context)
{
    td_request *r = td_request_new(sizeof(opening), &opens, c, "open", timeout_ms, done, context);
    if (!r) return NULL;
    opening *x = opening_of(r);
    x->name = strdup(name ? name : "");
    x->version = newer_than;
    x->whole = true;
    r->waits = true;
    r->ask = ask_open;
    r->take = take_opened;
    return td_request_begin(r, x->name ? TD_OK : td_raise(TD_E_SYSTEM, "open", "no memory for a request"));
}

/* ---- with a wait ------------------------------------------------------------------------------------------------ */

td_array *td_open_edition(td_client *c, const char *name, uint64_t newer_than, int timeout_ms, uint64_t *version,
                          bool *tree)
{
    if (td_enter(c, "open")) return NULL;
    opening x = {.value.request = {.ask = ask_open, .take = take_opened},
                 .name = (char *)(name ? name : ""),
                 .version = newer_than};
    int rc = td_request_wait(&x.value.request, &opens, c, "open", timeout_ms);
    td_array *a = rc ? NULL : x.value.array;
    if (a) td_array_announce(a);
    *version = a ? x.version : 0;
    *tree = a && x.tree;
    if (a) td_leave(c);
    else td_leave_with_hint(c, name);
    return a;
}

/* ---- what it brought --------------------------------------------------------------------------------------------- */

TD_API td_array *td_request_array(td_request *r)
{
    if (td_request_look(r)) return NULL;
    td_array *a = td_request_is(r, &opens) ? opening_of(r)->value.array : NULL;
    if (!a) return td_request_none(r, "tensor");
    td_lock(r->client);
    opening_of(r)->value.array = NULL;
    td_array_announce(a);
    td_unlock(r->client);
    return a;
}

static int take_tree(td_request *r, td_queue_item *out)
{
    td_array *bytes = td_request_array(r);
    if (!bytes) return td_last_error()->code;
    td_at_hand(bytes);
    int rc = td_opened_item(bytes, opening_of(r)->tree, out);
    td_at_hand(NULL);
    return rc;
}

TD_API int td_request_item(td_request *r, td_queue_item *out)
{
    *out = (td_queue_item){0};
    int rc = td_request_look(r);
    if (rc) return rc;
    return td_request_is(r, &opens) ? take_tree(r, out) : td_take_got(r, out);
}

TD_API uint64_t td_request_version(td_request *r)
{
    return td_request_look(r) || !td_request_is(r, &opens) ? 0 : opening_of(r)->version;
}

bool td_request_is_tree(const td_request *r)
{
    return td_request_is(r, &opens) && ((const opening *)r)->tree;
}
