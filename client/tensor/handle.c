/* Handles: ids, reference counts, scopes and modes.
 *
 * An id is used again only after its RELEASE stands in the stream, so the daemon never sees one id for two tensors.
 * Handles are recycled: making and releasing one costs no malloc. Counts are plain numbers under the client's lock. */
#include "client/client.h"
#include "proto/base/device.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local td_scope *innermost __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned mode __attribute__((tls_model("initial-exec")));

/* ---- modes ------------------------------------------------------------------------------------------------------- */

enum { DEVICES = (TD_MAX_DEVICES - 1) << TD_RM_DEVICE, CHOSEN = 1 << 30 };

/* Where threads that have chosen no device make things: the environment says it when it is first asked for. */
enum { NOT_ASKED = TD_MAX_DEVICES };
static _Atomic unsigned at_first = NOT_ASKED;

int td_first_device(td_error *e)
{
    const char *name = getenv("TENSORD_DEVICE");
    int device = name && name[0] ? td_device_number(name) : TD_CPU;
    if (device < 0)
        return td_fail(e, TD_E_INVALID, "TENSORD_DEVICE is '%.40s', which is no device; one is 'cpu' or 'cuda:0'",
                       name);
    atomic_store_explicit(&at_first, (unsigned)device, memory_order_relaxed);
    return TD_OK;
}

static unsigned first(void)
{
    unsigned device = atomic_load_explicit(&at_first, memory_order_relaxed);
    if (device != NOT_ASKED) return device;
    td_error e;
    return td_first_device(&e) ? TD_CPU : atomic_load_explicit(&at_first, memory_order_relaxed);
}

unsigned td_mode(void)
{
    return mode & ~(unsigned)(DEVICES | CHOSEN);
}

unsigned td_mode_making(void)
{
    if (mode & CHOSEN) return mode & ~(unsigned)CHOSEN;
    return mode | first() << TD_RM_DEVICE;
}

unsigned td_now_on(unsigned device)
{
    unsigned was = td_device_making();
    mode = (mode & ~(unsigned)DEVICES) | device << TD_RM_DEVICE | CHOSEN;
    return was;
}

TD_API int td_set_device(int device)
{
    int was = td_get_device();
    if (device >= TD_MAX_DEVICES)
        return td_raise(TD_E_INVALID, "td_set_device", "%d is no device: they are numbered from 0 to %d", device,
                        TD_MAX_DEVICES - 1),
               -1;
    if (device >= 0) td_now_on((unsigned)device);
    else mode &= ~(unsigned)(DEVICES | CHOSEN);
    return was;
}

TD_API int td_get_device(void)
{
    return (int)td_device_making();
}

static bool set_mode(unsigned bit, bool on)
{
    bool was = mode & bit;
    mode = on ? mode | bit : mode & ~bit;
    return was;
}

TD_API bool td_set_grad_enabled(bool on)
{
    return !set_mode(TD_RM_GRAD_OFF, !on);
}

TD_API bool td_grad_enabled(void)
{
    return !(mode & (TD_RM_GRAD_OFF | TD_RM_INFERENCE));
}

TD_API bool td_set_inference(bool on)
{
    return set_mode(TD_RM_INFERENCE, on);
}

TD_API bool td_set_service(bool on)
{
    return set_mode(TD_RM_SERVICE, on);
}

TD_API bool td_set_racy(bool on)
{
    return set_mode(TD_RM_RACY, on);
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

void td_free_id(td_client *c, uint32_t id)
{
    if (c->nfree == c->free_capacity) {
        uint32_t capacity = c->free_capacity ? c->free_capacity * 2 : 1024;
        uint32_t *at = realloc(c->free_ids, capacity * sizeof *at);
        if (!at) return; /* the number is lost, nothing else */
        c->free_ids = at;
        c->free_capacity = capacity;
    }
    c->free_ids[c->nfree++] = id;
}

int td_emit_releases(td_client *c)
{
    uint32_t n = c->nreleased;
    if (!n) return TD_OK;
    td_error e;
    int rc = td_words_control(&c->words, TD_REC_RELEASE, 0, 0, (int)n, c->released, 0, NULL, 0, NULL, &e);
    if (rc) return rc;
    for (uint32_t i = 0; i < n; i++) td_free_id(c, c->released[i]);
    c->nreleased = 0;
    c->released_bytes = 0;
    return TD_OK;
}

static uint32_t take_id(td_client *c)
{
    if (!c->nfree && c->next_id > TD_MAX_ID) td_emit_releases(c);
    if (c->nfree) return c->free_ids[--c->nfree];
    return c->next_id <= TD_MAX_ID ? c->next_id++ : 0;
}

void td_release_id(td_client *c, uint32_t id)
{
    if (c->lost) return;
    if (c->nreleased == TD_RELEASE_BATCH && td_emit_releases(c)) return;
    c->released[c->nreleased++] = id;
    if (c->nreleased == TD_RELEASE_BATCH) td_emit_releases(c);
}

/* ---- making and ending ------------------------------------------------------------------------------------------- */

static td_array *take_handle(td_client *c)
{
    td_array *a = c->spare;
    if (a) c->spare = a->next;
    else a = malloc(sizeof *a);
    return a;
}

static void spare_handle(td_client *c, td_array *a)
{
    a->next = c->spare;
    c->spare = a;
}

td_array *td_array_new(td_client *c)
{
    td_array *a = take_handle(c);
    uint32_t id = a ? take_id(c) : 0;
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
    td_release_id(c, a->id);
    if (c->nreleased) { /* the next op may want this memory; what is not known may be large */
        c->released_bytes += a->unknown ? TD_RELEASE_BYTES / 8 : td_desc_nbytes(&a->desc);
        if (c->released_bytes >= TD_RELEASE_BYTES) td_emit_releases(c);
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
    if (--a->refs == 0) td_array_free(a);
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
