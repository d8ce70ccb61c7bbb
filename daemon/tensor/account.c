/* Accounts: who pays for bytes and objects.
 *
 * Invariant: an account holds what its own objects cost and what those of its children cost; a charge is made in the
 * whole chain or nowhere. An account lives until the last object charged to it has gone. */
#include "daemon/tensor/live.h"
#include "proto/device.h"
#include <stdio.h>

td_account *td_account_new(td_account *parent)
{
    td_account *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->refs = 1;
    a->parent = parent ? td_account_ref(parent) : NULL;
    td_loop_live.accounts++;
    td_loop_live.bytes += sizeof *a;
    return a;
}

void td_account_end(td_account *a)
{
    td_account *parent = a->parent;
    assert(!a->bytes && !a->objects);
    for (int d = 0; d < TD_MAX_DEVICES; d++) assert(!a->away[d]);
    free(a);
    td_loop_live.accounts--;
    td_loop_live.bytes -= sizeof *a;
    td_account_unref(parent);
}

enum { WHO_SIZE = 96 };

static const char *name_of(const td_account *a, char who[WHO_SIZE])
{
    if (a->session)
        snprintf(who, WHO_SIZE, "session %u (%s, pid %u)", a->session, a->name[0] ? a->name : "unnamed", a->pid);
    else if (a->name[0]) snprintf(who, WHO_SIZE, "%s", a->name);
    else snprintf(who, WHO_SIZE, "user %u", a->uid);
    return who;
}

static int refuse(const td_account *a, bool of_bytes, uint64_t wanted, td_error *e)
{
    char who[WHO_SIZE];
    name_of(a, who);
    if (of_bytes)
        return td_fail(e, TD_E_QUOTA,
                       "%s holds %llu bytes of its %llu and wants %llu more; drop tensors or raise the quota", who,
                       (unsigned long long)a->bytes, (unsigned long long)a->limit_bytes, (unsigned long long)wanted);
    return td_fail(e, TD_E_QUOTA,
                   "%s holds %llu objects of its %llu and wants %llu more; drop tensors or raise the quota", who,
                   (unsigned long long)a->objects, (unsigned long long)a->limit_objects, (unsigned long long)wanted);
}

int td_account_refuse(const td_account *a, uint64_t bytes, uint64_t objects, td_error *e)
{
    bool of_bytes = td_account_over(a->limit_bytes, a->bytes, bytes);
    return refuse(a, of_bytes, of_bytes ? bytes : objects, e);
}

int td_account_charge_away(td_account *a, unsigned device, uint64_t bytes, td_error *e)
{
    char who[WHO_SIZE];
    for (const td_account *p = a; p; p = p->parent)
        if (td_account_over(p->limit_away, p->away[device], bytes))
            return td_fail(e, TD_E_QUOTA,
                           "%s holds %llu bytes on %s of its %llu and wants %llu more; drop tensors or raise the quota",
                           name_of(p, who), (unsigned long long)p->away[device], td_device_name(device),
                           (unsigned long long)p->limit_away, (unsigned long long)bytes);
    for (; a; a = a->parent) a->away[device] += bytes;
    return 0;
}

void td_account_discharge_away(td_account *a, unsigned device, uint64_t bytes)
{
    for (; a; a = a->parent) {
        assert(a->away[device] >= bytes);
        a->away[device] -= bytes;
    }
}

int td_account_room(const td_account *a, uint64_t objects, td_error *e)
{
    for (const td_account *p = a; p; p = p->parent)
        if (td_account_over(p->limit_objects, p->objects, objects)) return refuse(p, false, objects, e);
    return 0;
}

int td_account_work(td_account *a, unsigned device, uint64_t bytes, td_error *e)
{
    int err = td_account_charge_on(a, device, bytes, e);
    for (; !err && a; a = a->parent) a->work += bytes;
    return err;
}

void td_account_work_done(td_account *a, unsigned device, uint64_t bytes)
{
    td_account_discharge_on(a, device, bytes);
    for (; a; a = a->parent) a->work -= bytes;
}

int td_account_import(td_account *a, td_error *e)
{
    for (const td_account *p = a; p; p = p->parent)
        if (p->limit_imports && p->imports >= p->limit_imports)
            return td_fail(e, TD_E_QUOTA,
                           "%s %u holds %u imported descriptors, which is its limit; release some, or copy the values "
                           "with from_data instead",
                           p->session ? "session" : "user", p->session ? p->session : p->uid, p->imports);
    for (; a; a = a->parent) a->imports++;
    return 0;
}

void td_account_unimport(td_account *a)
{
    for (; a; a = a->parent) {
        assert(a->imports);
        a->imports--;
    }
}
