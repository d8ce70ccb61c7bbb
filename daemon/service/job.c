/* Owners that are no session, and their turns. See job.h. */
#include "daemon/ops/prepacked.h"
#include "daemon/service/models.h"
#include "daemon/service/service.h"
#include "proto/base/text.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

enum {
    TURN_NS = 40000, /* of an owner, and what its last step takes */
    AHEAD = 128,     /* tasks in flight, beyond which it takes no further step until half of them have ended */
    DROP_MOST = 256  /* of what failed, or is left, at a turn */
};

/* ---- the beginning */

static void submit(td_issuer *who, td_call *c)
{
    if (c->k.packing.in) td_prepacked_give(c);
    td_sched_submit(who->scheduler, c);
}

void td_issuer_begin(td_issuer *who, td_service *s, td_account *account, td_heap *heap, td_flow *flow)
{
    *who = (td_issuer){.session = account->session,
                       .pid = account->pid,
                       .account = account,
                       .heap = heap,
                       .service_heap = s->heap,
                       .service_account = account,
                       .flow = flow,
                       .scheduler = s->sched,
                       .threads = s->options.workers,
                       .submit = submit};
}

static void owner_free(td_owner *o)
{
    if (o->flow) td_flow_free(o->flow);
    td_account_unref(o->account);
    free(o);
}

static int set_up(td_owner *o, td_account *payer, const char *name, td_error *e)
{
    td_service *s = o->service;
    o->account = td_account_new(payer);
    if (!o->account) return td_no_memory(e, "for the account of '%s'", name);
    o->account->uid = payer->uid;
    td_text_visible(o->account->name, sizeof o->account->name, name);
    int rc = td_flow_new(&o->flow, s->sched, e);
    if (rc) return rc;
    td_flow_charge_to(o->flow, o->account);
    td_issuer_begin(&o->issuer, s, o->account, s->heap, o->flow);
    if (getrandom(&o->issuer.seed, sizeof o->issuer.seed, 0) < 0) return td_fail(e, TD_E_SYSTEM, "no random numbers");
    return TD_OK;
}

int td_owner_new(td_owner **out, td_service *s, td_account *payer, const char *name, td_error *e)
{
    td_owner *o = *out = calloc(1, sizeof *o);
    if (!o) return td_no_memory(e, "for '%s'", name);
    o->service = s;
    o->last = &o->first;
    int rc = set_up(o, payer, name, e);
    if (rc) {
        owner_free(o);
        *out = NULL;
        return rc;
    }
    o->next = s->owners.all;
    o->at = &s->owners.all;
    if (o->next) o->next->at = &o->next;
    s->owners.all = o;
    return TD_OK;
}

/* ---- who is ready */

static void append(td_owners *all, td_owner *o)
{
    if (!all->ready) all->last_ready = &all->ready;
    o->ready = true;
    o->next_ready = NULL;
    *all->last_ready = o;
    all->last_ready = &o->next_ready;
}

static td_owner *take_first(td_owners *all)
{
    td_owner *o = all->ready;
    all->ready = o->next_ready;
    o->ready = false;
    return o;
}

static void look(td_owner *o)
{
    bool some = o->dropping || (o->first && !o->waits && !o->throttled);
    if (some && !o->ready) append(&o->service->owners, o);
}

td_job td_owner_job(td_owner *o, const td_job_kind *kind)
{
    return (td_job){.kind = kind, .issuer = &o->issuer, .account = o->account};
}

void td_owner_give(td_owner *o, td_job *j)
{
    j->next = NULL;
    *o->last = j;
    o->last = &j->next;
    look(o);
}

void td_owner_ready(td_owner *o)
{
    if (o->refs) return; /* a helper works on what its step lacked, and says so again when it has come back */
    o->waits = false;
    look(o);
}

/* ---- waiting */

static void tasks_ended(void *owner)
{
    td_owner *o = owner;
    o->tasks = NULL;
    td_owner_ready(o);
}

int td_owner_after(td_owner *o, int n, const td_access *what)
{
    if (o->ended) return TD_AGAIN; /* by this step: the tasks may end after it is gone */
    if (o->tasks) td_waiter_cancel(o->tasks);
    o->tasks = td_sched_after(o->service->sched, n, what, tasks_ended, o);
    return o->tasks ? TD_WAIT : TD_AGAIN;
}

static bool too_much_under_way(const td_owner *o, uint64_t most)
{
    return td_flow_pending(o->flow) > most;
}

static void try_free(td_owner *o)
{
    if (!o->ended || !o->drained || o->refs) return;
    *o->at = o->next;
    if (o->next) o->next->at = o->at;
    owner_free(o);
}

/* A helper has come back. */
static void helped(void *owner)
{
    td_owner *o = owner;
    o->refs--;
    if (o->ended) try_free(o);
    else td_owner_ready(o);
}

static void grown(td_growth *g)
{
    helped(g->arg);
}

static int wait_for_helper(td_owner *o, td_need *need, td_error *e)
{
    o->refs++;
    if (!need->work.make) {
        o->growth = (td_growth){.heap = need->heap, .size = need->bytes, .done = grown, .arg = o};
        td_grow(o->service, &o->growth);
        return TD_WAIT;
    }
    int rc = td_make_aside(o->service, need, helped, o, e);
    if (!rc) return TD_WAIT;
    o->refs--;
    return rc;
}

int td_owner_lacks(td_owner *o, int rc, td_need *need, td_error *e)
{
    if (need->work.make) return wait_for_helper(o, need, e);
    bool grows = rc == TD_WAIT_GROW;
    if (grows && o->growth.rc) {
        o->growth.rc = TD_OK;
        return td_grow_refused(&o->growth.error, need, e);
    }
    if (grows) rc = td_heap_reserve(need->heap, need->bytes, e);
    bool more = false;
    if (rc == TD_E_MEMORY && need->device == TD_CPU && td_models_settle(o->service, true, &more)) return TD_AGAIN;
    if (rc && td_flow_pending(o->flow)) { /* its own tasks always end */
        o->throttled = true;
        return TD_WAIT;
    }
    return rc || !grows ? rc : wait_for_helper(o, need, e);
}

/* ---- turns */

static void left(td_job *j)
{
    if (j->kind->left) j->kind->left(j);
}

static td_job *take_job(td_owner *o)
{
    td_job *j = o->first;
    o->first = j->next;
    if (!o->first) o->last = &o->first;
    return j;
}

static void put_first(td_owner *o, td_job *j)
{
    j->next = o->first;
    o->first = j;
    if (!j->next) o->last = &j->next;
}

static void leave(td_owner *o, td_job *j)
{
    left(j);
    j->next = o->dropping;
    o->dropping = j;
}

/* What dies with it is only counted out: one object may be the last that held a graph. */
static void drop_some(td_owner *o, int most)
{
    td_dead_defer(true);
    for (; o->dropping && most > 0; most--) {
        td_job *next = o->dropping->next;
        if (!o->dropping->kind->drop(o->dropping, most)) break;
        o->dropping = next;
    }
    td_dead_defer(false);
}

/* One step. What it was worth. The job is in no list meanwhile: the step may give its owner more, or end it. */
static int step(td_owner *o)
{
    td_job *j = take_job(o);
    const td_job_kind *kind = j->kind;
    td_error why = {0};
    o->waits = true; /* what it waits for may come while it is at it */
    td_lap_is(o->service->laps, kind->name);
    int rc = kind->step(j, &why);
    assert((rc >= 0 || rc == TD_AGAIN || rc == TD_WAIT) && "any other would run again for ever");
    o->steps++;
    if (rc != TD_WAIT || o->throttled) o->waits = false;
    if (rc != TD_WAIT) o->growth.rc = TD_OK; /* a refusal is told to the step that lacked the memory alone */
    if (rc < 0 && !o->ended) put_first(o, j);
    else if (rc) leave(o, j);
    if (rc > 0 && o->failed) o->failed(o, kind, &why);
    return kind->cost ? kind->cost : 1;
}

static void drained(void *owner)
{
    td_owner *o = owner;
    o->drained = true;
    try_free(o);
}

static void turn(td_owner *o, int most)
{
    uint64_t until = td_clock_ns() + TURN_NS;
    if (o->dropping) drop_some(o, DROP_MOST);
    while (o->first && !o->waits && !o->throttled && most > 0) {
        if (too_much_under_way(o, AHEAD)) {
            o->throttled = true;
            break;
        }
        most -= step(o);
        if (td_clock_ns() > until) break;
    }
    look(o);
}

bool td_owners_run(td_service *s, int most)
{
    td_owners *all = &s->owners;
    uint32_t n = 0;
    for (const td_owner *o = all->ready; o; o = o->next_ready) n++;
    for (; n && all->ready; n--) {
        td_owner *o = take_first(all);
        turn(o, most);
        td_lap_over(s->laps, "jobs");
        if (o->ended && !o->ready && !o->drained) td_sched_after_flow(s->sched, o->flow, drained, o); /* may free it */
    }
    return all->ready != NULL;
}

void td_owners_collected(td_service *s)
{
    for (td_owner *o = s->owners.all; o; o = o->next) {
        if (!o->throttled || too_much_under_way(o, AHEAD / 2)) continue;
        o->throttled = false;
        look(o);
    }
}

/* ---- the end */

void td_owner_end(td_owner *o)
{
    if (o->ended) return;
    if (o->tasks) td_waiter_cancel(o->tasks);
    o->tasks = NULL;
    o->ended = o->account->ended = true;
    for (td_job *j = o->first; j; j = j->next) left(j);
    *o->last = o->dropping;
    o->dropping = o->first;
    o->first = NULL;
    o->last = &o->first;
    if (!o->ready) append(&o->service->owners, o);
}

void td_owners_drop(td_service *s)
{
    for (td_owner *o = s->owners.all; o; o = o->next)
        if (!o->ended) td_owner_end(o);
    while (s->owners.ready) td_owners_run(s, 1);
}
