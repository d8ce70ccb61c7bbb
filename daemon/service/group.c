/* Groups: seats, memory, deadlines. Who goes, and what that means for the others, is in mourn.c.
 *
 * A group's memory is made by a job of its own owner when it is first wanted, and is charged to the user whose member
 * came first. What members may write lies in a heap of its own, whose segments are no other's afterwards. */
#include "daemon/service/seats.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MOST = 6 }; /* members that a message names */

/* ---- words */

static size_t say(char *text, size_t size, size_t at, const char *format, ...) __attribute__((format(printf, 4, 5)));
static size_t say(char *text, size_t size, size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = at < size ? vsnprintf(text + at, size - at, format, args) : 0;
    va_end(args);
    return at + (n > 0 ? (size_t)n : 0);
}

/* "rank 0 (pid 71, train.py), rank 1 (pid 72, train.py)" of those that are there. */
static size_t say_present(const td_named_group *g, char *text, size_t size, size_t at)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < g->size; r++) {
        const td_group_member *m = g->seats[r].member;
        if (m && n++ < NAMED_MOST)
            at = say(text, size, at, "%srank %u (pid %u, %s)", n > 1 ? ", " : "", r, m->pid, m->program);
    }
    if (n > NAMED_MOST) at = say(text, size, at, " and %u more", n - NAMED_MOST);
    return at;
}

/* "rank 2 and ranks 5 to 7" of those that are not. */
static size_t say_missing(const td_named_group *g, char *text, size_t size, size_t at)
{
    const char *between = "";
    int spans = 0;
    for (uint32_t r = 0, end; r < g->size; r = end + 1) {
        for (; r < g->size && g->seats[r].member; r++) {
        }
        if (r >= g->size) break;
        for (end = r; end + 1 < g->size && !g->seats[end + 1].member; end++) {
        }
        if (++spans > NAMED_MOST) return say(text, size, at, " and more");
        if (end == r) at = say(text, size, at, "%srank %u", between, r);
        else at = say(text, size, at, "%sranks %u to %u", between, r, end);
        between = ", ";
    }
    return at;
}

/* "; rank 1 (pid 72, train.py) came and died 3.2 s ago" of those that were there and went while it formed. */
static size_t say_gone(const td_named_group *g, char *text, size_t size, size_t at)
{
    for (uint32_t n = g->ngone < TD_GONE_KEPT ? g->ngone : TD_GONE_KEPT; n; n--) {
        const td_gone *x = &g->gone[(g->ngone - n) % TD_GONE_KEPT];
        at = say(text, size, at, "; rank %u (pid %u, %s) came and %s %.1f s ago", x->rank, x->pid, x->program, x->how,
                 (double)(td_clock_ms() - x->at_ms) / 1000);
    }
    return at;
}

static int incomplete(const td_named_group *g, uint32_t waited_ms, td_error *e)
{
    char text[380];
    size_t at = say_present(g, text, sizeof text, 0);
    at = say(text, sizeof text, at, "; ");
    at = say_missing(g, text, sizeof text, at);
    at = say(text, sizeof text, at, " did not");
    say_gone(g, text, sizeof text, at);
    return td_fail(e, TD_E_TIMEOUT, "group '%s': %u of %u came in %g s: %s", g->name, g->taken, g->size,
                   (double)waited_ms / 1000, text);
}

/* ---- the group */

static td_named_group *find(td_service *s, const char *name)
{
    td_named_group *g;
    HASH_FIND_STR(s->groups.named, name, g);
    return g;
}

static void append(td_service *s, td_named_group *g)
{
    g->next = s->groups.all;
    g->at = &s->groups.all;
    if (g->next) g->next->at = &g->next;
    s->groups.all = g;
}

static int create(td_named_group **out, td_service *s, const char *name, uint32_t size, const td_account *who,
                  td_error *e)
{
    td_named_group *g = calloc(1, sizeof *g + size * sizeof *g->seats);
    if (!g) return td_no_memory(e, "for group '%s'", name);
    g->service = s;
    g->size = size;
    snprintf(g->name, sizeof g->name, "%s", name);
    int rc = td_owner_new(&g->owner, s, who->parent, name, e);
    if (!rc) {
        g->objects = td_objects_of(sizeof *g + size * (sizeof *g->seats + sizeof(td_group_member)));
        rc = td_account_charge(g->owner->account, 0, g->objects, e);
        if (rc) g->objects = 0;
    }
    if (!rc) rc = td_heap_new(&g->heap, &s->budget, TD_SEGMENT_SESSION, who->uid, e);
    if (!rc) {
        HASH_ADD_STR(s->groups.named, name, g);
        g->is_named = TD_HASHED(g);
        if (!g->is_named) rc = td_no_memory(e, "for the name of group '%s'", name);
    }
    append(s, g);
    if (rc) td_group_end(g);
    else *out = g;
    return rc;
}

void td_group_unname(td_named_group *g)
{
    if (g->is_named) HASH_DEL(g->service->groups.named, g);
    g->is_named = false;
}

void td_group_end(td_named_group *g)
{
    td_roll_pass(g);
    td_group_unname(g);
    for (int part = 0; part < TD_GROUP_PARTS; part++)
        if (g->parts[part].storage) td_storage_unref(g->parts[part].storage);
    if (g->heap) {
        td_heap_distrust(g->heap); /* members may go on writing there, and nobody is told for how long */
        td_heap_orphan(g->heap, false);
    }
    if (g->owner) {
        td_account_discharge(g->owner->account, 0, g->objects);
        td_owner_end(g->owner);
    }
    *g->at = g->next;
    if (g->next) g->next->at = g->at;
    free(g);
}

/* ---- memory */

typedef struct making {
    td_job job;
    td_named_group *group;
    td_group_part part;
} making;

static uint64_t part_bytes(const td_named_group *g, td_group_part part)
{
    if (part == TD_GROUP_PAGE) return td_page_bytes(g->size);
    return part == TD_GROUP_BOARD ? td_board_bytes(g->size) + td_sites_bytes(g->size) : td_board_large_bytes(g->size);
}

static td_place place_of(const td_named_group *g, td_group_part part)
{
    bool page = part == TD_GROUP_PAGE;
    return (td_place){.heap = page ? g->service->heap : g->heap,
                      .account = g->owner->account,
                      .device = TD_CPU,
                      .flags = page ? TD_SF_SERVICE : TD_SF_LENT};
}

/* Its segment may have been another's before, whatever that wrote there: an empty board is all zeros. */
static int make_part(td_named_group *g, td_group_part part, td_need *need, td_error *e)
{
    td_place where = place_of(g, part);
    int rc = td_storage_new(&g->parts[part].storage, &where, part_bytes(g, part), need, e);
    if (!rc && part == TD_GROUP_BOARD) memset(td_group_board(g), 0, td_board_small_input(g->size, 0, 0));
    if (!rc && part == TD_GROUP_BOARD) td_group_mourn_all(g);
    return rc;
}

static void tell_waits(td_named_group *g, td_group_part part, const td_error *error)
{
    for (td_group_wait *w = g->waits, *next; w; w = next) {
        next = w->next;
        if (w->part == part) td_group_wait_over(w, error);
    }
}

static bool drop_making(td_job *j, int most)
{
    (void)most;
    free(j);
    return true;
}

static int step_making(td_job *j, td_error *e)
{
    making *m = (making *)(void *)j;
    td_named_group *g = m->group;
    td_group_part part = m->part;
    td_need need = {0};
    td_error why = {0};
    (void)e; /* a failure is told to whoever waits */
    int rc = make_part(g, part, &need, &why);
    if (rc && td_need_may_pass(rc)) {
        td_owner *o = td_owner_of(j->issuer);
        rc = td_owner_lacks(o, rc, &need, &why);
        if (rc < 0) return rc;
    }
    free(m);
    g->parts[part].making = false;
    tell_waits(g, part, rc ? &why : NULL);
    return TD_OK;
}

static const td_job_kind making_kind = {"group memory", .step = step_making, .drop = drop_making, .cost = 64};

static int want_part(td_named_group *g, td_group_part part, td_error *e)
{
    if (g->parts[part].storage || g->parts[part].making) return TD_OK;
    making *m = malloc(sizeof *m);
    if (!m) return td_no_memory(e, "to make memory for group '%s'", g->name);
    *m = (making){.job = td_owner_job(g->owner, &making_kind), .group = g, .part = part};
    g->parts[part].making = true;
    td_owner_give(g->owner, &m->job);
    return TD_OK;
}

/* All have come: an epoch begins. The page is small, and is there from the first moment on. */
static int begin_epoch(td_named_group *g, td_error *e)
{
    int rc = make_part(g, TD_GROUP_PAGE, NULL, e);
    if (rc) return rc;
    g->epoch = ++g->service->groups.epochs;
    td_page *p = td_group_page(g);
    memset(p, 0, td_page_bytes(g->size));
    td_page_init(p, g->size, g->epoch);
    for (uint32_t r = 0; r < g->size; r++) {
        const td_group_member *m = g->seats[r].member;
        td_page_join(p, r, m->pid, m->program, "");
        g->seats[r].how = TD_RANK_IN;
    }
    td_page_set(p, TD_PAGE_OPEN);
    return want_part(g, TD_GROUP_BOARD, e);
}

/* ---- seats */

static int check_join(const char *name, uint32_t size, int rank, td_error *e)
{
    int rc = td_name_check(name, e);
    if (rc) return rc;
    if (size == 0 || size > TD_BOARD_RANKS)
        return td_fail(e, TD_E_INVALID, "group '%s': a group has 1 to %d members, not %u", name, TD_BOARD_RANKS, size);
    if (rank < -1 || rank >= (int)size)
        return td_fail(e, TD_E_INVALID, "group '%s' of %u has ranks 0 to %u; there is no rank %d", name, size, size - 1,
                       rank);
    return TD_OK;
}

static int check_fits(const td_named_group *g, uint32_t size, int rank, const td_account *who, td_error *e)
{
    char text[320];
    if (g->owner->account->uid != who->uid && who->uid)
        return td_fail(e, TD_E_PERMISSION, "group '%s' is another user's (uid %u)", g->name, g->owner->account->uid);
    say_present(g, text, sizeof text, 0);
    if (size != g->size)
        return td_fail(e, TD_E_EXISTS, "group '%s' has %u members, not %u: %s", g->name, g->size, size, text);
    if (g->taken == g->size) return td_fail(e, TD_E_EXISTS, "group '%s' is complete: %s", g->name, text);
    if (rank >= 0 && g->seats[rank].member)
        return td_fail(e, TD_E_EXISTS, "rank %d of group '%s' is taken by pid %u (%s)", rank, g->name,
                       g->seats[rank].member->pid, g->seats[rank].member->program);
    return TD_OK;
}

static uint32_t lowest_free(const td_named_group *g)
{
    uint32_t r = 0;
    while (g->seats[r].member) r++;
    return r;
}

int td_group_join(td_group_member **out, td_service *s, const char *name, uint32_t size, int rank,
                  const td_account *who, td_error *e)
{
    *out = NULL;
    int rc = check_join(name, size, rank, e);
    if (rc) return rc;
    td_named_group *g = find(s, name);
    if (g && (rc = check_fits(g, size, rank, who, e))) return rc;
    td_group_member *m = calloc(1, sizeof *m);
    if (!m) return td_no_memory(e, "for a member of group '%s'", name);
    if (!g && (rc = create(&g, s, name, size, who, e))) {
        free(m);
        return rc;
    }
    *m = (td_group_member){.group = g, .rank = rank < 0 ? lowest_free(g) : (uint32_t)rank, .pid = who->pid};
    snprintf(m->program, sizeof m->program, "%s", who->name);
    g->seats[m->rank].member = m;
    g->taken++;
    g->present++;
    if (g->taken == g->size && (rc = begin_epoch(g, e))) {
        tell_waits(g, TD_GROUP_BOARD, e); /* it will not come for the others, either */
        td_group_leave(m);
        return rc;
    }
    *out = m;
    return TD_OK;
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
    end_wait(w);
    then(arg, error);
}

static void expired(void *wait)
{
    td_group_wait *w = wait;
    td_error e = {0};
    const td_named_group *g = w->member->group;
    if (g->taken < g->size) incomplete(g, w->waited_ms, &e);
    else td_fail(&e, TD_E_TIMEOUT, "group '%s' is complete, and its memory was not made in time", g->name);
    w->member->gave_up = true;
    td_group_wait_over(w, &e);
}

static void cancel(td_service *s, td_await *a)
{
    (void)s;
    end_wait((td_group_wait *)(void *)a);
}

static const char *whom(const td_await *a)
{
    return ((const td_group_wait *)(const void *)a)->member->group->name;
}

int td_group_await(td_group_member *m, td_group_part part, uint32_t timeout_ms, td_group_wait **wait,
                   void (*then)(void *, const td_error *), void *arg, td_error *e)
{
    static const td_await_kind for_group = {cancel, whom};
    td_named_group *g = m->group;
    if (g->parts[part].storage) return TD_OK;
    if (g->taken < g->size && timeout_ms == 0) return incomplete(g, 0, e);
    int rc = g->epoch ? want_part(g, part, e) : TD_OK;
    if (rc) return rc;
    td_group_wait *w = calloc(1, sizeof *w);
    if (!w) return td_no_memory(e, "to wait for group '%s'", g->name);
    *w = (td_group_wait){.await = {.kind = &for_group, .arg = arg},
                         .next = g->waits,
                         .at = &g->waits,
                         .member = m,
                         .part = part,
                         .waited_ms = timeout_ms,
                         .then = then};
    if (w->next) w->next->at = &w->next;
    g->waits = w;
    if (timeout_ms != UINT32_MAX) td_deadline_arm(g->service, &w->await.deadline, timeout_ms, expired, w);
    *wait = w;
    return TD_WAIT;
}

td_storage *td_group_memory(const td_group_member *m, td_group_part part)
{
    return m->group->parts[part].storage;
}

uint32_t td_group_rank_of(const td_group_member *m)
{
    return m->rank;
}

uint32_t td_group_size_of(const td_group_member *m)
{
    return m->group->size;
}

uint32_t td_group_epoch_of(const td_group_member *m)
{
    return m->group->epoch;
}
