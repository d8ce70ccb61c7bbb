/* The service's life, and the accounts of users. */
#include "daemon/service/service.h"
#include "daemon/ops/prepacked.h"
#include "daemon/service/group.h"
#include "daemon/service/models.h"
#include "proto/base/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEEP_PART = 16, KEEP_MOST = 64 << 20 }; /* of the memory, warm for kernels to work with */
/* Of its own memory, for what comes from connections and goes to them; up to half of it, so that frames have room. */
enum { WIRE_PART = 4, WIRE_LEAST = 64 << 20 };
enum {
    PREPACKED_PART = 8,
    PREPACKED_MOST = 512 << 20
}; /* as much as this part of it, beside it, for packs of weights */

static uint64_t part_of(uint64_t memory, uint64_t part, uint64_t most)
{
    return memory / part < most ? memory / part : most;
}

/* TENSORD_PACKS=0 in the environment: none. */
static uint64_t room_for_packs(uint64_t memory)
{
    const char *wish = getenv("TENSORD_PACKS");
    return wish && !strcmp(wish, "0") ? 0 : part_of(memory, PREPACKED_PART, PREPACKED_MOST);
}

/* Sessions come and go; a user's account stays as long as anything is charged to it. */
struct td_uid {
    struct td_uid *next;
    uint32_t uid;
    td_account *account;
};

/* The table of devices: one that cannot be started ends the start of the daemon. */
static int start_devices(td_service *s, td_error *e)
{
    td_device_add(
        &(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &s->budget, .plans = td_cpu_plans});
    for (const td_device_kind *const *kind = s->options.devices; kind && *kind; kind++) {
        unsigned n = (*kind)->here();
        for (unsigned number = (*kind)->first; n > 0 && number < TD_MAX_DEVICES; n--, number++) {
            td_device_entry d = {.number = number};
            int rc = (*kind)->start(&d, number, e);
            if (rc) return rc;
            td_device_add(&d);
        }
    }
    return TD_OK;
}

/* Versions begin where the clock stands, in microseconds, so that none of another daemon's is taken for one of this
 * one's: no daemon publishes a million times a second. */
static uint64_t first_edition(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int td_service_init(td_service *s, const td_service_options *o, td_error *e)
{
    *s = (td_service){.options = *o, .started_ms = td_clock_ms(), .no_edition = first_edition()};
    s->editions = s->no_edition;
    if (o->time_turns && !(s->laps = td_laps_new())) return td_no_memory(e, "to time turns");
    td_budget_init(&s->budget, o->memory, o->shm);
    s->budget.user_limit = o->uid_bytes;
    s->account = td_account_new(NULL);
    if (!s->account) return td_no_memory(e, "for the service's account");
    snprintf(s->account->name, sizeof s->account->name, "tensord");
    uint64_t wire = o->own_bytes / WIRE_PART;
    s->account->limit_wire = wire > WIRE_LEAST ? wire : part_of(o->own_bytes, 2, WIRE_LEAST);
    s->account->limit_objects = (o->own_bytes - s->account->limit_wire) / TD_OBJECT_BYTES;
    int rc = td_heap_new(&s->heap, &s->budget, TD_SEGMENT_SERVICE, 0, e);
    if (!rc) {
        td_prepacked_set_room(room_for_packs(o->memory), o->background, o->arg);
        td_sched_options so = {.keep_bytes = part_of(o->memory, KEEP_PART, KEEP_MOST),
                               .workers = o->workers,
                               .helped = true,
                               .inline_ns = TD_INLINE_NS,
                               .wake = o->wake,
                               .arg = o->arg};
        rc = start_devices(s, e);
        if (!rc) rc = td_sched_new(&s->sched, &so, e);
    }
    if (rc) td_service_deinit(s);
    return rc;
}

static void drop_name(const td_name *n, void *service)
{
    td_name_drop(service, n->name, NULL, NULL);
}

void td_service_deinit(td_service *s)
{
    td_prepacked_set_room(0, NULL, NULL);
    td_name_waits_drop(s);
    td_name_each(s, UINT32_MAX, drop_name, s);
    td_queues_clear(s);
    td_groups_clear(s);
    td_models_drop(s);
    td_owners_drop(s);
    if (s->sched) td_sched_free(s->sched);
    for (struct td_uid *u = s->uids, *next; u; u = next) {
        next = u->next;
        td_account_unref(u->account);
        free(u);
    }
    td_account_unref(s->account);
    if (s->heap) td_heap_free(s->heap);
    td_devices_end();
    td_budget_deinit(&s->budget);
    td_laps_free(s->laps);
    td_recipes_forget();
    td_rows_forget();
    td_calls_forget_dead();
    td_tensors_forget_dead();
    *s = (td_service){0};
}

/* Accounts of users without sessions and charges are dropped on the way, so that the list stays as short as the users
 * are many. */
static struct td_uid *find_uid(td_service *s, uint32_t uid)
{
    struct td_uid *found = NULL;
    for (struct td_uid **at = &s->uids; *at;) {
        struct td_uid *u = *at;
        if (u->uid == uid) found = u;
        if (u->uid != uid && u->account->refs == 1 && u->account->bytes == 0 && !td_account_own(u->account)) {
            *at = u->next;
            td_account_unref(u->account);
            free(u);
        } else {
            at = &u->next;
        }
    }
    return found;
}

td_account *td_service_uid_account(td_service *s, uint32_t uid, td_error *e)
{
    struct td_uid *u = find_uid(s, uid);
    if (u) return td_account_ref(u->account);
    u = calloc(1, sizeof *u);
    td_account *a = td_account_new(s->account);
    if (!u || !a) {
        free(u);
        td_account_unref(a);
        td_no_memory(e, "for the account of uid %u", uid);
        return NULL;
    }
    a->uid = uid;
    a->limit_bytes = s->options.uid_bytes;
    a->limit_away = s->options.uid_device_bytes;
    a->limit_objects = s->options.uid_objects;
    a->limit_imports = s->options.uid_imports;
    snprintf(a->name, sizeof a->name, "uid %u", uid);
    *u = (struct td_uid){s->uids, uid, a};
    s->uids = u;
    return td_account_ref(a);
}
