/* Accounts: who pays for shared memory (bytes) and for the daemon's own (objects, buffers of connections).
 *
 * Invariant: an account holds what its own objects cost and what those of its children cost; a charge is made in the
 * whole chain (session, user, daemon) or nowhere. An account lives until the last object charged to it has gone. */
#include "daemon/tensor/live.h"
#include "proto/base/clock.h"
#include "proto/base/device.h"
#include <stdio.h>

td_account *td_account_new(td_account *parent)
{
    td_account *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->refs = 1;
    a->parent = parent ? td_account_ref(parent) : NULL;
    if (parent) {
        a->next = parent->children;
        if (a->next) a->next->prev = a;
        parent->children = a;
    }
    td_loop_live.accounts++;
    td_loop_live.bytes += sizeof *a;
    return a;
}

void td_account_end(td_account *a)
{
    td_account *parent = a->parent;
    assert(!a->bytes && !a->objects && !a->wire && !a->leased && !a->children);
    for (int d = 0; d < TD_MAX_DEVICES; d++) assert(!a->away[d] && !a->stored[d]);
    if (parent) *(a->prev ? &a->prev->next : &parent->children) = a->next;
    if (a->next) a->next->prev = a->prev;
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

/* ---- the biggest holders of the daemon's own memory, for who is refused some */

enum { HOLDERS = 3, REST_SHARE = 20, HOLDERS_SIZE = 320 };

typedef struct holder {
    const td_account *account;
    uint64_t bytes;
} holder;

/* The largest come first. */
static void weigh(holder top[HOLDERS], holder h)
{
    enum { WORTH_A_WORD = 100000 };
    for (int i = 0; i < HOLDERS && h.bytes >= WORTH_A_WORD; i++) {
        if (h.bytes <= top[i].bytes) continue;
        holder less = top[i];
        top[i] = h;
        h = less;
    }
}

/* Sessions; and what a user has beside them, as names that stay. */
static void weigh_below(holder top[HOLDERS], const td_account *of)
{
    uint64_t beside = td_account_own(of);
    for (const td_account *a = of->children; a; a = a->next) {
        beside -= td_account_own(a);
        if (a->session) weigh(top, (holder){a, td_account_own(a)});
        else weigh_below(top, a);
    }
    if (of->parent) weigh(top, (holder){of, beside});
}

/* To look at all takes time, and who is refused asks again: so it is done in a part of the time. */
static const char *holders_of(const td_account *a)
{
    static _Thread_local struct {
        const td_account *of;
        uint64_t until_ns;
        char text[HOLDERS_SIZE];
    } loop_holders;
    uint64_t began = td_clock_ns();
    if (loop_holders.of == a && began < loop_holders.until_ns) return loop_holders.text;
    holder top[HOLDERS] = {0};
    size_t n = 0;
    weigh_below(top, a);
    loop_holders.text[0] = 0;
    for (int i = 0; i < HOLDERS && top[i].bytes && n < HOLDERS_SIZE; i++) {
        const td_account *of = top[i].account;
        const char *before = i ? ", " : "; biggest holders: ";
        double mb = (double)top[i].bytes / 1e6;
        n += (size_t)(of->session ? snprintf(loop_holders.text + n, HOLDERS_SIZE - n, "%s%s (pid %u) %.1f MB", before,
                                             of->name, of->pid, mb)
                                  : snprintf(loop_holders.text + n, HOLDERS_SIZE - n, "%snames of %s %.1f MB", before,
                                             of->name, mb));
    }
    loop_holders.of = a;
    loop_holders.until_ns = td_clock_rest(began, REST_SHARE);
    return loop_holders.text;
}

static int refuse_own(const td_account *a, uint64_t wanted, td_error *e)
{
    double of_mb = TD_OBJECT_BYTES / 1e6;
    return td_fail(e, TD_E_QUOTA,
                   "the daemon's own memory (records of tensors, graphs, programs) is used up: %.1f MB of %.1f MB, and "
                   "%.1f KB more are wanted; release some, or start it with a larger --own-memory%s",
                   (double)a->objects * of_mb, (double)a->limit_objects * of_mb, (double)wanted * of_mb * 1e3,
                   holders_of(a));
}

static td_account *root_of(td_account *a)
{
    while (a->parent) a = a->parent;
    return a;
}

const td_account *td_account_full(td_account *a)
{
    td_account *root = root_of(a);
    const td_account *full = root->full;
    root->full = NULL;
    return full;
}

static int refuse(td_account *a, bool of_bytes, uint64_t wanted, td_error *e)
{
    char who[WHO_SIZE];
    root_of(a)->full = a;
    if (!of_bytes && !a->parent && !a->session && a->children) return refuse_own(a, wanted, e);
    name_of(a, who);
    if (of_bytes)
        return td_fail(e, TD_E_QUOTA,
                       "%s holds %llu bytes of its %llu and wants %llu more; drop tensors or raise the quota", who,
                       (unsigned long long)a->bytes, (unsigned long long)a->limit_bytes, (unsigned long long)wanted);
    return td_fail(e, TD_E_QUOTA,
                   "%s holds %llu objects of its %llu (%.1f MB of the daemon's own memory) and wants %llu more; drop "
                   "tensors or raise the quota%s",
                   who, (unsigned long long)a->objects, (unsigned long long)a->limit_objects,
                   (double)a->objects * TD_OBJECT_BYTES / 1e6, (unsigned long long)wanted,
                   a->session ? "" : holders_of(a));
}

int td_account_refuse(td_account *a, td_account *full, uint64_t bytes, uint64_t objects, td_error *e)
{
    for (td_account *p = a;; p = p->parent) {
        p->bytes -= bytes;
        p->objects -= objects;
        if (p == full) break;
    }
    bool of_bytes = td_account_over(full->limit_bytes, full->bytes, bytes);
    return refuse(full, of_bytes, of_bytes ? bytes : objects, e);
}

int td_account_charge_away(td_account *a, unsigned device, uint64_t bytes, td_error *e)
{
    char who[WHO_SIZE];
    for (td_account *p = a; p; p = p->parent)
        if (td_account_over(p->limit_away, p->away[device], bytes)) {
            root_of(p)->full = p;
            return td_fail(e, TD_E_QUOTA,
                           "%s holds %llu bytes on %s of its %llu and wants %llu more; drop tensors or raise the quota",
                           name_of(p, who), (unsigned long long)p->away[device], td_device_name(device),
                           (unsigned long long)p->limit_away, (unsigned long long)bytes);
        }
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

int td_account_room(td_account *a, uint64_t objects, td_error *e)
{
    for (td_account *p = a; p; p = p->parent)
        if (td_account_over(p->limit_objects, p->objects, objects)) return refuse(p, false, objects, e);
    return 0;
}

bool td_account_strained(const td_account *a)
{
    for (; a; a = a->parent)
        if (a->limit_objects && a->objects > a->limit_objects - a->limit_objects / 4) return true;
    return false;
}

int td_account_work(td_account *a, unsigned device, uint64_t bytes, td_error *e)
{
    int rc = td_account_charge_on(a, device, bytes, e);
    for (; !rc && a; a = a->parent) a->work += bytes;
    return rc;
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
