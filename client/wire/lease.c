/* Leases: shared memory that the daemon grants, for a tensor or a ring to be made of it.
 *
 * A program that asks for a lease of the same size again and again gets the next one fetched ahead, so that in the
 * steady state no put waits for the daemon. */

#include "client/wire/internal.h"
#include "client/wire/request.h"
#include <stdlib.h>
#include <string.h>

void td_tell_lease_drop(td_client *c, uint32_t lease)
{
    Td__Wire__LeaseDrop drop = TD__WIRE__LEASE_DROP__INIT;
    drop.lease = lease;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.lease_drop = &drop;
    if (!c->lost) td_tell(c, &call);
}

/* One that is not granted yet goes back when it is. */
void td_drop_lease(td_lease *l)
{
    td_client *c = l->client;
    td_forget_wait(c, &l->wait);
    if (l->mapping >= 0) {
        if (!l->used && l->session == c->session) td_tell_lease_drop(c, l->id);
        td_unuse_mapping(c, l->mapping);
    }
    free(l);
}

void td_forget_lease(td_lease *l)
{
    if (l->mapping >= 0) l->client->memory.mappings[l->mapping].users--;
    free(l);
}

void td_forget_leases(td_client *c)
{
    for (int i = 0; i < TD_SPARE_LEASES; i++) {
        if (c->memory.spares[i]) td_forget_lease(c->memory.spares[i]);
        c->memory.spares[i] = NULL;
    }
}

static int take_granted(td_client *c, td_lease *l, const td_reply *r, int *fd, td_error *e)
{
    if (!r->address || !r->lease) return td_fail(e, TD_E_PROTOCOL, "no address came for a lease");
    if (r->address->nbytes < l->size) return td_fail(e, TD_E_PROTOCOL, "the lease is smaller than what was asked for");
    if (!r->address->writable) return td_fail(e, TD_E_PROTOCOL, "the lease is read-only");
    l->id = r->lease;
    return td_map_address(c, r->address, fd, &l->mapping, &l->bytes, e);
}

static int on_lease(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    return take_granted(c, w->context, r, fd, e);
}

td_lease *td_ask_lease(td_client *c, uint64_t bytes)
{
    td_lease *l = calloc(1, sizeof *l);
    if (!l) {
        td_raise(TD_E_SYSTEM, "lease", "no memory for a handle");
        return NULL;
    }
    *l = (td_lease){
        .client = c, .mapping = -1, .size = bytes, .session = c->session, .wait = {.on_reply = on_lease, .context = l}};
    Td__Wire__Lease lease = TD__WIRE__LEASE__INIT;
    lease.bytes = bytes;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.lease = &lease;
    if (!td_ask_later(c, &call, -1, &l->wait)) return l;
    td_drop_lease(l);
    return NULL;
}

static td_lease *take_spare(td_client *c, uint64_t bytes)
{
    for (int i = 0; i < TD_SPARE_LEASES; i++) {
        td_lease *l = c->memory.spares[i];
        if (!l || l->size != bytes) continue;
        c->memory.spares[i] = NULL;
        if (td_await(c, &l->wait, "lease") == TD_OK) return l;
        td_drop_lease(l); /* there was no room for it ahead of time; there may be by now */
    }
    return NULL;
}

static void fetch_ahead(td_client *c, uint64_t bytes)
{
    td_lease **last = &c->memory.spares[TD_SPARE_LEASES - 1];
    if (*last) td_drop_lease(*last);
    memmove(c->memory.spares + 1, c->memory.spares, (TD_SPARE_LEASES - 1) * sizeof c->memory.spares[0]);
    c->memory.spares[0] = td_ask_lease(c, bytes);
}

td_lease *td_lease_wait(td_client *c, uint64_t bytes)
{
    bool again = c->memory.last_lease == bytes;
    c->memory.last_lease = bytes;
    td_lease *l = take_spare(c, bytes);
    if (!l) {
        l = c->lost ? NULL : td_ask_lease(c, bytes);
        if (l && td_await(c, &l->wait, "lease")) {
            td_drop_lease(l);
            l = NULL;
        }
    }
    if (l && again) fetch_ahead(c, bytes);
    return l;
}

static td_lease *enter_and_lease(td_client *c, uint64_t bytes, bool at_once)
{
    if (td_enter(c, "lease")) return NULL;
    td_lease *l = NULL;
    if (at_once && c->threads.patient)
        td_raise(TD_E_BUSY, "lease", "another thread waits, and the daemon answers in order");
    else l = td_lease_wait(c, bytes);
    if (l) c->handles++;
    td_leave(c);
    return l;
}

TD_API td_lease *td_lease_new(td_client *c, size_t bytes)
{
    return enter_and_lease(c, bytes, false);
}

td_lease *td_lease_at_once(td_client *c, uint64_t bytes)
{
    return enter_and_lease(c, bytes, true);
}

TD_API void *td_lease_data(td_lease *l)
{
    return l ? l->bytes : NULL;
}

TD_API size_t td_lease_size(const td_lease *l)
{
    return l ? l->size : 0;
}

/* ---- without a wait */

typedef struct leasing {
    td_request request; /* first */
    uint64_t bytes;
    td_lease *lease;
} leasing;

static void free_leasing(td_request *r)
{
    leasing *x = (leasing *)r;
    if (x->lease) td_drop_lease(x->lease);
    x->lease = NULL;
}

/* It is the parent's. */
static void forget_leasing(td_request *r)
{
    leasing *x = (leasing *)r;
    if (x->lease) td_forget_lease(x->lease);
    x->lease = NULL;
}

static const td_request_kind leases = {.forked = forget_leasing, .free = free_leasing};

/* It goes back; what it is in may come again, and stays mapped. */
static void late_lease(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    (void)q;
    int32_t mapping;
    unsigned char *bytes;
    td_error e = {0};
    if (!r->lease) return;
    if (r->address && !td_map_address(c, r->address, fd, &mapping, &bytes, &e)) td_unuse_mapping(c, mapping);
    td_tell_lease_drop(c, r->lease);
}

static int take_lease(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    leasing *x = (leasing *)r;
    td_client *c = r->client;
    td_lease *l = calloc(1, sizeof *l);
    if (!l) {
        late_lease(c, r->question, reply, fd);
        return td_no_memory(e, "for a handle");
    }
    *l = (td_lease){.client = c, .mapping = -1, .size = x->bytes, .session = c->session};
    int rc = take_granted(c, l, reply, fd, e);
    if (rc) return td_drop_lease(l), rc;
    x->lease = l;
    bool again = c->memory.last_lease == x->bytes;
    c->memory.last_lease = x->bytes;
    if (again) fetch_ahead(c, x->bytes);
    return TD_OK;
}

static int ask_lease(td_request *r, uint32_t ms)
{
    (void)ms;
    td_question *q = td_question_new(r, sizeof *q);
    if (!q) return td_last_error()->code;
    q->late = late_lease;
    Td__Wire__Lease lease = TD__WIRE__LEASE__INIT;
    lease.bytes = ((leasing *)r)->bytes;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.lease = &lease;
    return td_question_ask(q, &call);
}

td_request *td_async_lease(td_client *c, size_t bytes, td_done done, void *context)
{
    td_request *r = td_request_new(sizeof(leasing), &leases, c, "lease", -1, done, context);
    if (!r) return NULL;
    ((leasing *)r)->bytes = bytes;
    r->ask = ask_lease;
    r->take = take_lease;
    return td_request_begin(r, TD_OK);
}

td_lease *td_request_lease(td_request *r)
{
    if (td_request_look(r)) return NULL;
    leasing *x = td_request_is(r, &leases) ? (leasing *)r : NULL;
    td_lease *l = x ? x->lease : NULL;
    if (!l) return td_request_none(r, "lease");
    x->lease = NULL;
    td_lock(l->client);
    l->client->handles++;
    td_unlock(l->client);
    return l;
}

td_lease *td_lease_at_hand(td_client *c, size_t bytes)
{
    td_lease *l = NULL;
    if (td_enter(c, "lease")) return NULL;
    for (int i = 0; i < TD_SPARE_LEASES && !l; i++) {
        td_lease *spare = c->memory.spares[i];
        if (!spare || spare->size != bytes || !spare->wait.done || spare->wait.code) continue;
        c->memory.spares[i] = NULL;
        l = spare;
        c->handles++;
        fetch_ahead(c, bytes);
    }
    td_leave(c);
    return l;
}
