/* Groups: what they are made of, their epochs' memory, and waits. Who comes is in door.c; who goes, and what that means
 * for the others, in mourn.c.
 *
 * An epoch's memory is made by a job of the group's own owner when it is first wanted, and is charged to the user whose
 * member came first. What members may write lies in a heap of the epoch's own, whose segments are no other's
 * afterwards: so members of an earlier epoch that have it mapped yet spoil nothing. */
#include "daemon/service/seats.h"

#include <stdlib.h>
#include <string.h>

/* ---- the group */

void td_group_unname(td_named_group *g)
{
    if (g->is_named) HASH_DEL(g->service->groups.named, g);
    g->is_named = false;
}

void td_group_end(td_named_group *g)
{
    td_roll_pass(g);
    td_group_unname(g);
    while (g->adrift) td_group_forget(g->adrift);
    while (g->epochs) td_epoch_end(g->epochs);
    if (g->door.look.armed) td_deadline_disarm(g->service, &g->door.look);
    if (g->owner) {
        td_account_discharge(g->owner->account, 0, g->objects);
        td_owner_end(g->owner);
    }
    *g->at = g->next;
    if (g->next) g->next->at = g->at;
    free(g);
}

/* ---- memory */

/* A part of an epoch's memory is made. */
struct td_making {
    td_job job;
    td_epoch *epoch; /* NULL: it is over, and wants none */
    td_group_part part;
    td_storage *storage; /* from when there is memory on */
    uint64_t cleared;    /* bytes of it */
};

static uint64_t part_bytes(const td_epoch *x, td_group_part part)
{
    if (part == TD_GROUP_PAGE) return td_page_bytes(x->size);
    if (part >= TD_GROUP_BUFFERS) return td_board_buffer_bytes(x->size, x->parts[part].bytes);
    return part == TD_GROUP_BOARD ? td_board_bytes(x->size) + td_sites_bytes(x->size) : td_board_large_bytes(x->size);
}

static td_place place_of(const td_epoch *x, td_group_part part)
{
    bool page = part == TD_GROUP_PAGE;
    return (td_place){.heap = page ? x->group->service->heap : x->heap,
                      .account = x->group->owner->account,
                      .device = TD_CPU,
                      .flags = page ? TD_SF_SERVICE : TD_SF_LENT};
}

static int find_memory(td_epoch *x, td_group_part part, td_storage **out, td_need *need, td_error *e)
{
    td_place where = place_of(x, part);
    return td_storage_new(out, &where, part_bytes(x, part), need, e);
}

/* Some of it. Its segment may have been another's before, whatever that wrote there: an empty board is all zeros. True:
 * there is more. */
static bool clear_board(struct td_making *m)
{
    enum { AT_ONCE = 256 << 10 };
    uint64_t all = m->part == TD_GROUP_BOARD ? td_board_small_input(m->epoch->size, 0, 0) : 0;
    uint64_t n = all - m->cleared < AT_ONCE ? all - m->cleared : AT_ONCE;
    memset((char *)m->storage->data + m->cleared, 0, n);
    m->cleared += n;
    return m->cleared < all;
}

void td_epoch_tell(td_epoch *x, td_group_part part, const td_error *error)
{
    for (td_group_wait *w = x->group->waits, *next; w; w = next) {
        next = w->next;
        if (w->epoch == x && w->part == part) td_group_wait_over(w, error);
    }
}

static bool drop_making(td_job *j, int most)
{
    struct td_making *m = (struct td_making *)(void *)j;
    (void)most;
    if (m->storage) td_storage_unref(m->storage);
    free(m);
    return true;
}

/* It is there, or it cannot be had. */
static void made(struct td_making *m, const td_error *why)
{
    td_epoch *x = m->epoch;
    td_group_part part = m->part;
    x->parts[part].storage = m->storage;
    x->parts[part].making = NULL;
    if (why) x->parts[part].bytes = 0; /* whoever asks next may ask for less */
    free(m);
    if (!why && part == TD_GROUP_BOARD) td_epoch_mourn_all(x);
    td_epoch_tell(x, part, why);
}

static int step_making(td_job *j, td_error *e)
{
    struct td_making *m = (struct td_making *)(void *)j;
    td_need need = {0};
    td_error why = {0};
    (void)e; /* a failure is told to whoever waits */
    if (!m->epoch) {
        drop_making(j, 1);
        return TD_OK;
    }
    int rc = m->storage ? TD_OK : find_memory(m->epoch, m->part, &m->storage, &need, &why);
    if (rc && td_need_may_pass(rc)) {
        rc = td_owner_lacks(td_owner_of(j->issuer), rc, &need, &why);
        if (rc < 0) return rc;
    }
    if (!rc && clear_board(m)) return TD_AGAIN;
    made(m, rc ? &why : NULL);
    return TD_OK;
}

static const td_job_kind making_kind = {"group memory", .step = step_making, .drop = drop_making, .cost = 64};

int td_epoch_want(td_epoch *x, td_group_part part, td_error *e)
{
    if (x->parts[part].storage || x->parts[part].making) return TD_OK;
    struct td_making *m = malloc(sizeof *m);
    if (!m) return td_no_memory(e, "to make memory for group '%s'", x->group->name);
    *m = (struct td_making){.job = td_owner_job(x->group->owner, &making_kind), .epoch = x, .part = part};
    x->parts[part].making = m;
    td_owner_give(x->group->owner, &m->job);
    return TD_OK;
}

/* ---- epochs */

/* The page is small, and is there from the first moment on. */
static int make_page(td_epoch *x, td_error *e)
{
    int rc = find_memory(x, TD_GROUP_PAGE, &x->parts[TD_GROUP_PAGE].storage, NULL, e);
    if (rc) return rc;
    memset((void *)td_epoch_page(x), 0, td_page_bytes(x->size));
    td_page_init(td_epoch_page(x), x->size, x->number, (td_page_policy)x->group->form.policy);
    return TD_OK;
}

int td_epoch_new(td_epoch **out, td_named_group *g, uint32_t size, td_error *e)
{
    td_service *s = g->service;
    td_epoch *x = calloc(1, sizeof *x + size * sizeof *x->seats);
    if (!x) return td_no_memory(e, "for an epoch of group '%s'", g->name);
    *x = (td_epoch){.next = g->epochs, .at = &g->epochs, .group = g, .number = ++s->groups.epochs, .size = size};
    if (x->next) x->next->at = &x->next;
    g->epochs = x;
    x->objects = td_objects_of(sizeof *x + size * (sizeof *x->seats + sizeof(td_group_member)));
    int rc = td_account_charge(g->owner->account, 0, x->objects, e);
    if (rc) x->objects = 0;
    if (!rc) rc = td_heap_new(&x->heap, &s->budget, TD_SEGMENT_SESSION, g->owner->account->uid, e);
    if (!rc) rc = make_page(x, e);
    if (rc) td_epoch_end(x);
    else *out = x;
    return rc;
}

void td_epoch_end(td_epoch *x)
{
    td_named_group *g = x->group;
    if (g->now == x) g->now = NULL;
    for (uint32_t r = 0; r < x->size; r++)
        if (x->seats[r].member) td_group_forget(x->seats[r].member);
    for (int part = 0; part < TD_GROUP_PARTS; part++) {
        if (x->parts[part].making) x->parts[part].making->epoch = NULL;
        if (x->parts[part].storage) td_storage_unref(x->parts[part].storage);
    }
    if (x->heap) {
        td_heap_distrust(x->heap); /* members may go on writing there, and nobody is told for how long */
        td_heap_orphan(x->heap, false);
    }
    td_account_discharge(g->owner->account, 0, x->objects);
    *x->at = x->next;
    if (x->next) x->next->at = x->at;
    free(x);
}

/* ---- waits */

static void end_wait(td_group_wait *w)
{
    *w->at = w->next;
    if (w->next) w->next->at = w->at;
    td_deadline_disarm(w->member->group->service, &w->await.deadline);
    free(w);
}

void td_group_wait_over(td_group_wait *w, const td_error *error)
{
    void (*then)(void *, const td_error *) = w->then;
    void *arg = w->await.arg;
    if (!w->epoch) td_door_leave(w->member, "gave up");
    end_wait(w);
    then(arg, error);
}

void td_group_cancel_waits(td_group_member *m)
{
    td_error closed = {0};
    td_fail(&closed, TD_E_CLOSED, "group '%s' was left while this waited", m->group->name);
    td_door_leave(m, "went");
    for (td_group_wait *w = m->group->waits, *next; w; w = next) {
        next = w->next;
        if (w->member == m) td_group_wait_over(w, &closed);
    }
}

/* A member of the present epoch waits no longer for the others. True: the next one begins, and has the wait; or it
 * could not, and all at the door were told. */
static bool goes_on_without_the_late(td_group_wait *w)
{
    td_error e = {0};
    return td_group_is_in(w->member) && (td_door_look(w->member->group, true, &e) || w->epoch);
}

static void expired(void *wait)
{
    td_group_wait *w = wait;
    td_error e = {0};
    if (!w->epoch && goes_on_without_the_late(w)) return;
    if (w->epoch)
        td_fail(&e, TD_E_TIMEOUT, "group '%s' is complete, and its memory was not made in time",
                w->member->group->name);
    else td_door_incomplete(w->member, w->waited_ms, &e);
    td_group_wait_over(w, &e);
}

/* A member that gives up now costs the others the epoch: there is time to make its memory, however late the last came.
 */
static uint32_t time_for_board(uint32_t timeout_ms)
{
    enum { LEAST_MS = 10000 };
    return timeout_ms > LEAST_MS ? timeout_ms : LEAST_MS;
}

void td_group_wait_for_board(td_group_wait *w, td_epoch *x)
{
    td_service *s = x->group->service;
    w->epoch = x;
    if (w->waited_ms == UINT32_MAX) return;
    td_deadline_disarm(s, &w->await.deadline);
    td_deadline_arm(s, &w->await.deadline, time_for_board(w->waited_ms), expired, w);
}

static void cancel(td_service *s, td_await *a)
{
    (void)s;
    td_group_wait *w = (td_group_wait *)(void *)a;
    if (!w->epoch) td_door_leave(w->member, "went");
    end_wait(w);
}

static const char *whom(const td_await *a)
{
    return ((const td_group_wait *)(const void *)a)->member->group->name;
}

/* `of` NULL: for the next epoch. */
static int arm(td_group_member *m, td_epoch *of, td_group_part part, uint32_t timeout_ms, td_group_wait **wait,
               void (*then)(void *, const td_error *), void *arg, td_error *e)
{
    static const td_await_kind for_group = {cancel, whom};
    td_named_group *g = m->group;
    td_group_wait *w = calloc(1, sizeof *w);
    if (!w) return td_no_memory(e, "to wait for group '%s'", g->name);
    *w = (td_group_wait){.await = {.kind = &for_group, .arg = arg},
                         .next = g->waits,
                         .at = &g->waits,
                         .member = m,
                         .epoch = of,
                         .part = part,
                         .waited_ms = timeout_ms,
                         .then = then};
    if (w->next) w->next->at = &w->next;
    g->waits = w;
    if (timeout_ms != UINT32_MAX) td_deadline_arm(g->service, &w->await.deadline, timeout_ms, expired, w);
    *wait = w;
    return TD_WAIT;
}

static int await_part(td_group_member *m, td_group_part part, uint32_t timeout_ms, td_group_wait **wait,
                      void (*then)(void *, const td_error *), void *arg, td_error *e)
{
    if (m->epoch->parts[part].storage) return TD_OK;
    int rc = td_epoch_want(m->epoch, part, e);
    if (part == TD_GROUP_BOARD) timeout_ms = time_for_board(timeout_ms);
    return rc ? rc : arm(m, m->epoch, part, timeout_ms, wait, then, arg, e);
}

static int await_epoch(td_group_member *m, uint32_t timeout_ms, td_group_wait **wait,
                       void (*then)(void *, const td_error *), void *arg, td_error *e)
{
    int rc = timeout_ms ? arm(m, NULL, TD_GROUP_BOARD, timeout_ms, wait, then, arg, e) : td_door_incomplete(m, 0, e);
    if (rc != TD_WAIT) td_door_leave(m, "gave up");
    return rc;
}

int td_group_await(td_group_member *m, td_group_part part, uint32_t timeout_ms, td_group_wait **wait,
                   void (*then)(void *, const td_error *), void *arg, td_error *e)
{
    if (m->epoch) return await_part(m, part, timeout_ms, wait, then, arg, e);
    if (m->at_door) return await_epoch(m, timeout_ms, wait, then, arg, e);
    return td_fail(e, TD_E_CLOSED, "group '%s' was left", m->group->name);
}

int td_group_regroup(td_group_member *m, uint32_t timeout_ms, td_group_wait **wait,
                     void (*then)(void *, const td_error *), void *arg, td_error *e)
{
    const td_epoch *before = m->epoch;
    int rc = td_door_come(m, e);
    if (rc) return rc;
    if ((rc = td_door_look(m->group, timeout_ms == 0, e))) {
        td_door_leave(m, "gave up");
        return rc;
    }
    return m->epoch == before ? await_epoch(m, timeout_ms, wait, then, arg, e)
                              : await_part(m, TD_GROUP_BOARD, timeout_ms, wait, then, arg, e);
}

int td_group_buffer(td_group_member *m, uint32_t buffer, uint64_t bytes, td_group_part *part, td_error *e)
{
    const td_named_group *g = m->group;
    if (buffer >= TD_GROUP_BUFFERS_MOST)
        return td_fail(e, TD_E_INVALID, "group '%s' has %d buffers in this epoch, and can have no more", g->name,
                       TD_GROUP_BUFFERS_MOST);
    if (bytes == 0 || bytes > INT64_MAX / (2 * TD_BOARD_RANKS))
        return td_fail(e, TD_E_INVALID, "a buffer has at least one byte, and fewer than %llu",
                       (unsigned long long)bytes);
    *part = (td_group_part)(TD_GROUP_BUFFERS + (int)buffer);
    uint64_t *has = &m->epoch->parts[*part].bytes;
    if (*has && *has != bytes)
        return td_fail(e, TD_E_MISMATCH, "buffer %u of group '%s' has %llu bytes, not %llu", buffer, g->name,
                       (unsigned long long)*has, (unsigned long long)bytes);
    *has = bytes;
    return TD_OK;
}

td_storage *td_group_memory(const td_group_member *m, td_group_part part)
{
    return m->epoch ? m->epoch->parts[part].storage : NULL;
}

uint32_t td_group_rank_of(const td_group_member *m)
{
    return m->rank;
}

uint32_t td_group_size_of(const td_group_member *m)
{
    return m->epoch ? m->epoch->size : 0;
}

uint32_t td_group_epoch_of(const td_group_member *m)
{
    return m->epoch ? m->epoch->number : 0;
}
