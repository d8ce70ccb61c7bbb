/* Storages: counted bytes on a device, and who pays for them.
 *
 * What is charged is what the bytes take in the heap (rounded up to its alignment), from before they are given until
 * after they went back. Objects are charged by tensors, not here. */
#include "daemon/tensor/device.h"
#include "daemon/tensor/live.h"
#include "proto/base/device.h"

static _Thread_local td_freelist loop_dead;

static uint64_t cost_of(uint64_t nbytes)
{
    return nbytes ? (nbytes + TD_EXTENT_ALIGN - 1) & ~(uint64_t)(TD_EXTENT_ALIGN - 1) : TD_EXTENT_ALIGN;
}

uint64_t td_storage_takes(const td_storage *s)
{
    return cost_of(s->nbytes);
}

/* A record that is charged for and has no bytes yet. */
static int storage_open(td_storage **out, const td_place *where, uint64_t nbytes, td_error *e)
{
    if (nbytes > UINT64_C(1) << 46)
        return td_fail(e, TD_E_MEMORY, "a storage of %llu bytes is beyond any memory", (unsigned long long)nbytes);
    int rc = td_account_charge_on(where->account, where->device, cost_of(nbytes), e);
    if (rc) return rc;
    td_storage *s = td_freelist_take(&loop_dead, sizeof *s);
    if (!s) {
        td_account_discharge_on(where->account, where->device, cost_of(nbytes));
        return td_no_memory(e, "for a storage's record");
    }
    *s = (td_storage){.refs = 1, .device = where->device, .flags = where->flags, .nbytes = nbytes};
    s->account = where->account;
    *out = s;
    return 0;
}

static void storage_done(td_storage *s)
{
    if (!td_storage_on_host(s)) {
        td_storage **first = &td_loop_devices[s->device].storages;
        if (*first) (*first)->on_at = &s->on_next;
        s->on_next = *first;
        s->on_at = first;
        *first = s;
    }
    if (s->account) td_account_ref(s->account);
    td_account_stores(s->account, s->device, 0, cost_of(s->nbytes));
    td_loop_live.storages++;
    td_loop_live.bytes += sizeof *s;
}

/* What another device cannot give is told by its name. */
static int no_room(const td_place *where, uint64_t nbytes, int rc, td_error *e)
{
    if (where->account) td_account_full(where->account); /* it was not for want of that */
    if (rc != TD_E_MEMORY || where->device == TD_CPU) return rc;
    return td_fail(e, rc, "%s has no %.1f MB to give", td_device_name(where->device), (double)nbytes / 1e6);
}

int td_storage_new(td_storage **out, const td_place *where, uint64_t nbytes, td_need *need, td_error *e)
{
    *out = NULL;
    const td_device_entry *device = td_device_get(where->device);
    if (!device) return td_device_absent(where->device, td_devices_here(), e);
    td_storage *s;
    int rc = storage_open(&s, where, nbytes, e);
    if (rc && need) need->device = where->device;
    if (rc) return rc;
    if ((rc = device->memory->alloc(where, s, need, e))) {
        td_account_discharge_on(where->account, where->device, cost_of(nbytes));
        td_freelist_give(&loop_dead, s);
        if (need) need->device = where->device;
        return no_room(where, nbytes, rc, e);
    }
    storage_done(s);
    *out = s;
    return 0;
}

int td_storage_adopt(td_storage **out, const td_place *where, td_extent *extent, uint64_t nbytes, td_error *e)
{
    td_storage *s;
    *out = NULL;
    assert(extent->segment && where->device == TD_CPU);
    if (nbytes > extent->size)
        return td_fail(e, TD_E_INVALID, "%llu bytes do not fit the %llu of the lease", (unsigned long long)nbytes,
                       (unsigned long long)extent->size);
    int rc = storage_open(&s, where, nbytes, e);
    if (rc) return rc;
    s->extent = *extent;
    s->data = td_extent_data(extent);
    *extent = (td_extent){0};
    storage_done(s);
    *out = s;
    return 0;
}

void td_storage_shrink(td_storage *s, uint64_t nbytes)
{
    assert(nbytes <= s->nbytes);
    td_loop_devices[s->device].memory->shrink(s, nbytes);
    td_account_discharge_on(s->account, s->device, cost_of(s->nbytes) - cost_of(nbytes));
    td_account_stores(s->account, s->device, cost_of(s->nbytes), cost_of(nbytes));
    s->nbytes = nbytes;
}

/* Accounts above both may have no room for it twice. */
int td_storage_pay(td_storage *s, td_account *account, td_error *e)
{
    td_account *before = s->account;
    uint64_t bytes = cost_of(s->nbytes);
    td_error none;
    if (!before || before == account) return TD_OK;
    td_account_discharge_on(before, s->device, bytes);
    int rc = td_account_charge_on(account, s->device, bytes, e);
    if (rc) {
        if (s->device == TD_CPU) td_account_add(before, bytes, 0);
        else td_account_charge_away(before, s->device, bytes, &none); /* there was room a moment ago */
        return rc;
    }
    td_account_stores(before, s->device, bytes, 0);
    td_account_stores(account, s->device, 0, bytes);
    s->account = td_account_ref(account);
    td_account_unref(before);
    return TD_OK;
}

void td_storage_unref(td_storage *s)
{
    if (!s || --s->refs) return;
    assert(!s->hazards && !s->version.refs && !s->queued);
    td_storage_changed(s);
    if (s->on_at) {
        *s->on_at = s->on_next;
        if (s->on_next) s->on_next->on_at = s->on_at;
    }
    td_loop_devices[s->device].memory->free(s);
    if (s->late) td_storage_drop_late(s);
    td_cause_unref(s->poison);
    if (s->flags & TD_SF_IMPORTED) td_account_unimport(s->account);
    td_account_stores(s->account, s->device, cost_of(s->nbytes), 0);
    td_account_discharge_on(s->account, s->device, cost_of(s->nbytes));
    td_account_unref(s->account);
    td_freelist_give(&loop_dead, s);
    td_loop_live.storages--;
    td_loop_live.bytes -= sizeof *s;
}

void td_storage_poison(td_storage *s, td_cause *c)
{
    if (!s->poison) s->poison = td_cause_ref(c);
}

void td_storage_heal(td_storage *s)
{
    if (td_storage_lost(s)) return;
    td_cause_unref(s->poison);
    s->poison = NULL;
}

void td_storages_forget_dead(void)
{
    td_freelist_empty(&loop_dead);
}
