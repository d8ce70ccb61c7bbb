/* Handles: reference counts and scopes.
 *
 * Handles are recycled: making and releasing one costs no malloc. Counts are plain numbers under the client's lock. */

#include "client/tensor/internal.h"
#include "client/wire/cuda.h"
#include <stdlib.h>
#include <string.h>

static _Thread_local td_scope *innermost __attribute__((tls_model("initial-exec")));

/* ---- making and ending ------------------------------------------------------------------------------------------- */

/* With the client, which nobody uses any more. */
void td_tensors_forget(td_client *c)
{
    td_forget_looks(c);
    free(c->tensor.memos);
    for (td_array *a = c->tensor.spare, *next; a; a = next) {
        next = a->next;
        free(a);
    }
}

static td_array *take_handle(td_client *c)
{
    td_array *a = c->tensor.spare;
    if (a) {
        c->tensor.spare = a->next;
        return a;
    }
    c->above.forget = td_tensors_forget;
    return malloc(sizeof *a);
}

static void spare_handle(td_client *c, td_array *a)
{
    a->next = c->tensor.spare;
    c->tensor.spare = a;
}

td_array *td_array_new(td_client *c)
{
    td_array *a = take_handle(c);
    uint32_t id = a ? td_take_id(c) : 0;
    if (!id) {
        if (a) spare_handle(c, a);
        if (a) td_raise(TD_E_QUOTA, NULL, "all %u handles of this connection are in use; release some", TD_MAX_ID);
        else td_raise(TD_E_SYSTEM, NULL, "no memory for one more handle");
        return NULL;
    }
    a->client = c;
    a->id = id;
    a->refs = 1;
    a->unknown = a->writing = false;
    a->mapping = -1;
    a->bytes = NULL;
    a->arena = NULL;
    a->settled = a->outside = a->storage = a->traced = 0;
    a->is_grad = a->leaf = a->view = false;
    a->scope = NULL;
    c->handles++;
    return a;
}

td_array *td_array_lost(const td_desc *desc, int code, const char *why)
{
    td_client *c = td_client_new();
    if (!c) {
        td_raise(TD_E_SYSTEM, NULL, "no memory for one more handle");
        return NULL;
    }
    td_lock(c);
    td_array *a = td_array_new(c);
    if (a) a->desc = *desc;
    td_lose(c, code, "%s", why);
    c->ended = true;
    td_unlock(c);
    return a;
}

int td_arrays_unknown(td_client *c, int n, td_array **out)
{
    for (int i = 0; i < n; i++) {
        out[i] = td_array_new(c);
        if (!out[i]) {
            while (i-- > 0) td_array_drop(out[i]), out[i] = NULL;
            return td_last_error()->code;
        }
        memset(&out[i]->desc, 0, sizeof out[i]->desc);
        out[i]->unknown = true;
    }
    return TD_OK;
}

void td_array_forget(td_array *a)
{
    td_client *c = a->client;
    if (a->mapping >= 0) td_unuse_mapping(c, a->mapping);
    td_cuda_unmap(&a->arena);
    spare_handle(c, a);
    c->handles--;
}

void td_array_drop(td_array *a)
{
    if (!a) return;
    td_free_id(a->client, a->id);
    td_array_forget(a);
}

void td_array_announce(td_array *a)
{
    td_scope *s = innermost;
    a->scope = s;
    if (!s) return;
    a->prev = NULL;
    a->next = s->first;
    if (s->first) s->first->prev = a;
    s->first = a;
}

static void leave_scope(td_array *a)
{
    if (!a->scope) return;
    if (a->prev) a->prev->next = a->next;
    else a->scope->first = a->next;
    if (a->next) a->next->prev = a->prev;
    a->scope = NULL;
}

void td_array_free(td_array *a)
{
    td_client *c = a->client;
    leave_scope(a);
    td_cuda_unmap(&a->arena); /* before the daemon may give the memory to others */
    td_release_id(c, a->id);
    if (c->ids.nreleased) { /* the next op may want this memory; what is not known may be large */
        c->ids.released_bytes += a->unknown ? TD_RELEASE_BYTES / 8 : td_desc_nbytes(&a->desc);
        if (c->ids.released_bytes >= TD_RELEASE_BYTES) td_emit_releases(c);
    }
    td_array_forget(a);
}

TD_API td_array *td_retain(td_array *a)
{
    if (!a) return NULL;
    td_lock(a->client);
    a->refs++;
    td_unlock(a->client);
    return a;
}

TD_API void td_release(td_array *a)
{
    if (!a) return;
    td_client *c = a->client;
    td_lock(c);
    if (--a->refs == 0) {
        td_array_free(a);
        td_push_released(c);
    }
    td_unlock(c);
}

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

TD_API void td_scope_begin(td_scope *s)
{
    s->outer = innermost;
    s->first = NULL;
    innermost = s;
}

TD_API void td_scope_end(td_scope *s)
{
    innermost = s->outer;
    while (s->first) td_release(td_keep(s->first));
}

void td_array_keep(td_array *a)
{
    leave_scope(a);
}

TD_API td_array *td_keep(td_array *a)
{
    if (!a) return NULL;
    td_lock(a->client);
    td_array_keep(a);
    td_unlock(a->client);
    return a;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

int td_same_client(td_client **c, const td_array *a, const char *op)
{
    if (!*c) *c = a->client;
    if (*c == a->client) return TD_OK;
    const td_client *lost = a->client->lost ? a->client : (*c)->lost ? *c : NULL;
    if (lost) return td_raise(lost->lost, op, "%s", lost->why.message);
    return td_raise(TD_E_INVALID, op,
                    "the arrays belong to two clients; td_publish one and td_open it on the other's connection");
}

int td_list_client(td_client **c, td_list l, const char *op, const char *argument)
{
    int rc = TD_OK;
    for (int i = 0; i < l.n && !rc; i++) {
        if (!l.at[i]) rc = td_raise_null(op, argument);
        else rc = td_same_client(c, l.at[i], op);
    }
    return rc;
}

TD_API td_client *td_client_of(const td_array *a)
{
    return a ? a->client : NULL;
}

/* ---- for bindings ------------------------------------------------------------------------------------------------ */

bool td_knows_shape(const td_array *a)
{
    return td_is_known(a);
}

const td_desc *td_desc_known(const td_array *a)
{
    return &a->desc;
}

bool td_is_view(const td_array *a)
{
    return a->view;
}

void td_set_view(td_array *a, bool on)
{
    a->view = on;
}

bool td_is_writing(const td_array *a)
{
    return a->writing;
}

bool td_is_mapped(const td_array *a)
{
    return a->mapping >= 0;
}

bool td_maps_writable(const td_array *a)
{
    return a->mapping >= 0 && a->client->memory.mappings[a->mapping].writable;
}

uint64_t td_storage_here(const td_array *a)
{
    return a->storage;
}

bool td_came_outside(const td_array *a)
{
    return a->outside == td_moment(a->client) + 1;
}
