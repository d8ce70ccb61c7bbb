/* The calls about groups: take a seat, find the memory, regroup, leave.
 *
 * A seat that is asked for is held beside the stream until all members have come, and so is a seat in the next epoch.
 * A handle is there from the beginning, so that it goes with the session, however that ends. */
#include "daemon/session/calls/calls.h"

#include <stdlib.h>

enum {
    COST = 2,       /* of a handle, in objects: a seat, and what the group knows of it */
    SEATS_MOST = 64 /* of a session: each takes a look at all rounds when it ends */
};

static td_group_handle *find(const td_session *s, uint32_t id)
{
    td_group_handle *h = s->groups;
    while (h && h->id != id) h = h->next;
    return h;
}

static td_group_handle *handle_of(const td_session *s, uint32_t id, td_error *e)
{
    td_group_handle *h = find(s, id);
    if (!h) td_fail(e, TD_E_NOT_FOUND, "this session has not joined a group %u", id);
    return h;
}

static int may_take_one_more(const td_session *s, uint32_t id, td_error *e)
{
    int n = 0;
    for (const td_group_handle *h = s->groups; h; h = h->next) n++;
    if (n >= SEATS_MOST)
        return td_fail(e, TD_E_BUSY, "this connection is in %d groups, and may be in no more; use another one", n);
    return find(s, id) ? td_fail(e, TD_E_EXISTS, "group handle %u is in use", id) : TD_OK;
}

/* ---- what is waited for: the others, or memory */

typedef struct waiting {
    td_held h;
    td_group_handle *of; /* NULL: it has gone */
    td_group_part part;
    uint32_t epoch; /* that the member was in before */
} waiting;

static waiting *waiting_of(td_wait *w)
{
    return (waiting *)(void *)w;
}

static void open_finished(td_session *s, td_wait *wait);
static void memory_finished(td_session *s, td_wait *wait);
static void regroup_finished(td_session *s, td_wait *wait);

/* The next one, from x on, that is about this handle. */
static waiting *next_about(td_held *x, const td_group_handle *h)
{
    for (; x; x = x->next) {
        td_wait *w = &x->wait;
        bool ours = w->kind->finish == open_finished || w->kind->finish == memory_finished ||
                    w->kind->finish == regroup_finished;
        if (ours && waiting_of(w)->of == h) return waiting_of(w);
    }
    return NULL;
}

/* Answers that are under way learn that it has gone. */
static void forget(td_session *s, td_group_handle *h)
{
    td_group_handle **at = &s->groups;
    while (*at != h) at = &(*at)->next;
    *at = h->next;
    for (waiting *w = next_about(s->beside.held, h); w; w = next_about(w->h.next, h)) w->of = NULL;
    td_account_discharge(s->account, 0, COST);
    free(h);
}

static void came(void *arg, const td_error *error)
{
    waiting *w = arg;
    td_held_over(&w->h, error);
}

static void reply_seat(td_session *s, uint64_t serial, const td_group_member *m)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__GroupSeat x;
    td__wire__group_seat__init(&x);
    x.rank = td_group_rank_of(m);
    x.epoch = td_group_epoch_of(m);
    x.size = td_group_size_of(m);
    r.serial = serial;
    r.group = &x;
    td_reply_send(s, &r, -1);
}

/* The seat that was asked for is given up. How a session that ends leaves its groups is said for all of them. */
static void open_cancelled(td_session *s, td_wait *wait)
{
    waiting *w = waiting_of(wait);
    td_group_handle *h = w->of;
    w->of = NULL;
    if (!h || s->life.ended) return;
    td_group_leave(h->member);
    forget(s, h);
}

static void open_finished(td_session *s, td_wait *wait)
{
    waiting *w = waiting_of(wait);
    if (wait->failed) {
        td_reply_error(s, wait->serial, &w->h.error);
        open_cancelled(s, wait);
    } else {
        reply_seat(s, wait->serial, w->of->member);
    }
}

/* The seat of the epoch before is kept, as long as that is the present one. */
static void regroup_cancelled(td_session *s, td_wait *wait)
{
    const waiting *w = waiting_of(wait);
    if (w->of && td_group_epoch_of(w->of->member) != w->epoch) open_cancelled(s, wait);
}

static void regroup_finished(td_session *s, td_wait *wait)
{
    waiting *w = waiting_of(wait);
    if (wait->failed) {
        td_reply_error(s, wait->serial, &w->h.error);
        regroup_cancelled(s, wait);
    } else {
        reply_seat(s, wait->serial, w->of->member);
    }
}

static void memory_finished(td_session *s, td_wait *wait)
{
    waiting *w = waiting_of(wait);
    td_error *e = &w->h.error;
    if (!wait->failed && !w->of) td_fail(e, TD_E_CLOSED, "the group was left before its memory was told");
    else if (!wait->failed && td_group_epoch_of(w->of->member) != w->epoch)
        td_fail(e, TD_E_CLOSED, "the group's next epoch began before the memory of epoch %u was told", w->epoch);
    if (e->code) td_reply_error(s, wait->serial, e);
    else td_lease_reply(s, wait->serial, td_group_memory(w->of->member, w->part), 0);
}

static waiting *new_waiting(td_session *s, const td_wait_kind *kind, td_group_handle *of, uint64_t serial, td_error *e)
{
    waiting *w = td_held_new(s, kind, sizeof *w, serial, e);
    if (!w) return NULL;
    w->of = of;
    w->epoch = td_group_epoch_of(of->member);
    return w;
}

/* What the service said: it waits, or is over. */
static void settle(waiting *w, int rc, td_group_wait *at, const td_error *e)
{
    if (rc == TD_WAIT) td_held_awaits(&w->h, &at->await);
    else td_held_over(&w->h, rc ? e : NULL);
}

/* TD_OK: answered already, or it will be. */
static int hold(td_session *s, const td_wait_kind *kind, td_group_handle *of, td_group_part part, uint64_t serial,
                uint32_t timeout_ms, td_error *e)
{
    waiting *w = new_waiting(s, kind, of, serial, e);
    if (!w) return e->code;
    w->part = part;
    td_group_wait *at = NULL;
    int rc = td_group_await(of->member, part, timeout_ms, &at, came, w, e);
    settle(w, rc, at, e);
    return TD_OK;
}

int td_call_group_open(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    static const td_wait_kind for_members = {"the members of a group", .finish = open_finished,
                                             .cancel = open_cancelled};
    const Td__Wire__GroupOpen *q = call->group_open;
    int rc = may_take_one_more(s, q->group, e);
    if (!rc) rc = td_held_room(s);
    if (!rc) rc = td_account_charge(s->account, 0, COST, e);
    if (rc) return rc;
    td_group_handle *h = calloc(1, sizeof *h);
    td_group_form form = {.least = q->least ? q->least : q->size, .most = q->size, .policy = q->policy};
    rc = h ? td_group_join(&h->member, s->service, q->name, &form, (int)(q->rank - 1), s->account, e)
           : td_no_memory(e, "for group '%s'", q->name);
    if (rc) {
        td_account_discharge(s->account, 0, COST);
        free(h);
        return rc;
    }
    h->id = q->group;
    h->next = s->groups;
    s->groups = h;
    rc = hold(s, &for_members, h, TD_GROUP_BOARD, call->serial, q->timeout_ms, e);
    if (!rc) return rc;
    td_group_leave(h->member);
    forget(s, h);
    return rc;
}

int td_call_group_memory(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    static const td_wait_kind for_memory = {"a group's memory", .finish = memory_finished};
    const Td__Wire__GroupMemory *q = call->group_memory;
    td_group_handle *h = handle_of(s, q->group, e);
    if (!h) return e->code;
    td_group_part part = (td_group_part)q->part;
    if ((unsigned)q->part > TD_GROUP_BUFFERS)
        return td_fail(e, TD_E_INVALID, "a group's memory has no part %d", (int)q->part);
    if (!td_group_epoch_of(h->member)) return td_fail(e, TD_E_BUSY, "group %u is not complete yet", q->group);
    int rc = part == TD_GROUP_BUFFERS ? td_group_buffer(h->member, q->buffer, q->bytes, &part, e) : TD_OK;
    if (!rc) rc = td_held_room(s);
    return rc ? rc : hold(s, &for_memory, h, part, call->serial, UINT32_MAX, e);
}

/* A request of it is on its way: it comes first. */
static int check_at_rest(const td_session *s, const td_group_handle *h, td_error *e)
{
    if (!next_about(s->beside.held, h)) return TD_OK;
    return td_fail(e, TD_E_BUSY, "a request for group %u has yet to be answered", h->id);
}

int td_call_group_regroup(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    static const td_wait_kind for_members = {"the other members of a group", .finish = regroup_finished,
                                             .cancel = regroup_cancelled};
    const Td__Wire__GroupRegroup *q = call->group_regroup;
    td_group_handle *h = handle_of(s, q->group, e);
    if (!h || check_at_rest(s, h, e)) return e->code;
    int rc = td_held_room(s);
    if (rc) return rc;
    waiting *w = new_waiting(s, &for_members, h, call->serial, e);
    if (!w) return e->code;
    td_group_wait *at = NULL;
    rc = td_group_regroup(h->member, q->timeout_ms, &at, came, w, e);
    settle(w, rc, at, e);
    return TD_OK;
}

int td_call_group_leave(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    td_group_handle *h = handle_of(s, call->group_leave->group, e);
    if (!h || check_at_rest(s, h, e)) return e->code;
    td_group_leave(h->member);
    forget(s, h);
    td_reply_ok(s, call->serial);
    return TD_OK;
}

/* ---- ends */

void td_session_process_ended(td_session *s)
{
    for (td_group_handle *h = s->groups; h; h = h->next) td_group_died(h->member);
}

void td_session_groups_drop(td_session *s, bool alive)
{
    while (s->groups) {
        td_group_handle *h = s->groups;
        if (s->life.said_bye) td_group_leave(h->member);
        else td_group_gone(h->member, alive);
        forget(s, h);
    }
}
