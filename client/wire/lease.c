/* Leases: shared memory that the daemon grants, for a tensor or a ring to be made of it.
 *
 * A program that asks for a lease of the same size again and again gets the next one fetched ahead, so that in the
 * steady state no put waits for the daemon. */

#include "client/wire/internal.h"
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

/* Granted. */
static int on_lease(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    td_lease *l = w->context;
    if (!r->address || !r->lease) return td_fail(e, TD_E_PROTOCOL, "no address came for a lease");
    if (r->address->nbytes < l->size) return td_fail(e, TD_E_PROTOCOL, "the lease is smaller than what was asked for");
    if (!r->address->writable) return td_fail(e, TD_E_PROTOCOL, "the lease is read-only");
    l->id = r->lease;
    return td_map_address(c, r->address, fd, &l->mapping, &l->bytes, e);
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
