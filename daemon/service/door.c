/* The door of a group: who waits for its next epoch, when that begins, and who is in it then.
 *
 * Members of the present epoch that regroup keep their seats there until the next one has begun. So a deadline that is
 * over, or a client that gives up, leaves them where they are. */
#include "daemon/service/seats.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MOST = 6 }; /* members that a message names */

static bool one_size(const td_named_group *g)
{
    return g->form.least == g->form.most;
}

static uint32_t in_now(const td_named_group *g)
{
    return g->now ? g->now->in : 0;
}

/* One whose connection has ended comes no more, however that will be told. */
static bool has_holder(const td_seat *seat)
{
    return seat->how == TD_RANK_IN && seat->member && !seat->member->limbo.of;
}

/* Those that are in it, or are going to be. */
static uint32_t taken(const td_named_group *g)
{
    uint32_t n = g->door.fresh;
    for (uint32_t r = 0; g->now && r < g->now->size; r++) n += has_holder(&g->now->seats[r]);
    return n;
}

bool td_group_is_in(const td_group_member *m)
{
    const td_epoch *x = m->epoch;
    return x && x == m->group->now && x->seats[m->rank].how == TD_RANK_IN;
}

const td_group_member *td_group_holder(const td_named_group *g, uint32_t rank)
{
    const td_epoch *x = g->now;
    if (x && rank < x->size && has_holder(&x->seats[rank])) return x->seats[rank].member;
    const td_group_member *m = g->door.first;
    if (!x && !one_size(g))
        for (; m && rank; rank--) m = m->next_at_door;
    else
        while (m && (m->epoch || m->rank != rank)) m = m->next_at_door;
    return m;
}

uint32_t td_group_ranks(const td_named_group *g)
{
    if (g->now) return g->now->size;
    return one_size(g) ? g->form.most : g->door.count;
}

/* ---- words */

typedef struct words {
    char text[380];
    size_t at;
} words;

static void say(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = w->at < sizeof w->text ? vsnprintf(w->text + w->at, sizeof w->text - w->at, format, args) : 0;
    va_end(args);
    w->at += n > 0 ? (size_t)n : 0;
}

/* "rank 0 (pid 71, train.py)" */
static void say_who(words *w, uint32_t rank, uint32_t pid, const char *program)
{
    if (rank == TD_NO_RANK) say(w, "pid %u (%.31s)", pid, program);
    else say(w, "rank %u (pid %u, %.31s)", rank, pid, program);
}

static void say_one_of(words *w, const td_group_member *m, uint32_t *n)
{
    if ((*n)++ >= NAMED_MOST) return;
    if (*n > 1) say(w, ", ");
    say_who(w, m->rank, m->pid, m->program);
}

static void say_the_rest(words *w, uint32_t n)
{
    if (n > NAMED_MOST) say(w, " and %u more", n - NAMED_MOST);
}

/* "rank 0 (pid 71, train.py), rank 1 (pid 72, train.py)" of those at the door; in a group of one size in the order of
 * ranks. */
static void say_come(const td_named_group *g, words *w)
{
    uint32_t n = 0;
    for (uint32_t r = 0; one_size(g) && r < g->form.most; r++) {
        const td_group_member *m = td_group_holder(g, r);
        if (m && m->at_door) say_one_of(w, m, &n);
    }
    for (const td_group_member *m = g->door.first; m && !one_size(g); m = m->next_at_door) say_one_of(w, m, &n);
    say_the_rest(w, n);
}

/* "; rank 2, ranks 5 to 7 did not" of ranks that nobody has come for. */
static void say_missing(const td_named_group *g, words *w)
{
    const char *between = "; ";
    int spans = 0;
    for (uint32_t r = 0, end; r < g->form.most; r = end + 1) {
        while (r < g->form.most && td_group_holder(g, r)) r++;
        if (r >= g->form.most) break;
        for (end = r; end + 1 < g->form.most && !td_group_holder(g, end + 1); end++) {
        }
        if (++spans > NAMED_MOST) {
            say(w, " and more");
            break;
        }
        if (end == r) say(w, "%srank %u", between, r);
        else say(w, "%sranks %u to %u", between, r, end);
        between = ", ";
    }
    if (spans) say(w, " did not");
}

/* "; rank 1 (pid 72, train.py) is still in epoch 3" of those that have not come */
static void say_staying(const td_named_group *g, words *w)
{
    uint32_t n = 0;
    for (uint32_t r = 0; g->now && r < g->now->size; r++) {
        const td_seat *seat = &g->now->seats[r];
        if (seat->how != TD_RANK_IN || seat->member->at_door) continue;
        if (!n) say(w, "; ");
        say_one_of(w, seat->member, &n);
    }
    say_the_rest(w, n);
    if (n) say(w, " %s still in epoch %u", n > 1 ? "are" : "is", g->now->number);
}

/* "; rank 2 (pid 73, train.py) died in epoch 3" */
static void say_lost(const td_named_group *g, words *w)
{
    const td_page *p = g->now ? td_epoch_page(g->now) : NULL;
    uint32_t n = 0;
    for (uint32_t r = 0; p && r < g->now->size; r++) {
        td_rank_state how = g->now->seats[r].how;
        if (how == TD_RANK_IN || ++n > NAMED_MOST) continue;
        say(w, "; ");
        say_who(w, r, p->rank[r].pid, p->rank[r].program);
        say(w, " %s in epoch %u", how == TD_RANK_DEAD ? "died" : "left", g->now->number);
    }
}

/* "; rank 1 (pid 72, train.py) came and died 3.2 s ago" */
static void say_gone(const td_named_group *g, words *w)
{
    for (uint32_t n = g->ngone < TD_GONE_KEPT ? g->ngone : TD_GONE_KEPT; n; n--) {
        const td_gone *x = &g->gone[(g->ngone - n) % TD_GONE_KEPT];
        say(w, "; ");
        say_who(w, x->rank, x->pid, x->program);
        say(w, " came and %s %.1f s ago", x->how, (double)(td_clock_ms() - x->at_ms) / 1000);
    }
}

int td_door_incomplete(const td_group_member *m, uint32_t waited_ms, td_error *e)
{
    const td_named_group *g = m->group;
    words w = {0};
    char of[32];
    say_come(g, &w);
    if (one_size(g)) say_missing(g, &w);
    say_staying(g, &w);
    say_lost(g, &w);
    say_gone(g, &w);
    if (one_size(g)) snprintf(of, sizeof of, "%u", g->form.most);
    else snprintf(of, sizeof of, "%u to %u", g->form.least, g->form.most);
    return td_fail(e, TD_E_TIMEOUT, "group '%s': %u of %s came in %g s: %s", g->name, g->door.count, of,
                   (double)waited_ms / 1000, w.text);
}

/* All that are in it or at its door. */
static void say_all(const td_named_group *g, words *w)
{
    uint32_t n = 0;
    for (uint32_t r = 0; g->now && r < g->now->size; r++)
        if (has_holder(&g->now->seats[r])) say_one_of(w, g->now->seats[r].member, &n);
    for (const td_group_member *m = g->door.first; m; m = m->next_at_door)
        if (!m->epoch) say_one_of(w, m, &n);
    say_the_rest(w, n);
}

/* ---- who waits there */

/* One that comes again and again has one place. */
static td_gone *place_of(td_named_group *g, const td_group_member *m)
{
    for (uint32_t i = 0; i < TD_GONE_KEPT && i < g->ngone; i++)
        if (g->gone[i].rank == m->rank && g->gone[i].pid == m->pid) return &g->gone[i];
    return NULL;
}

static void remember(td_named_group *g, const td_group_member *m, const char *how)
{
    td_gone *x = place_of(g, m);
    if (!x) x = &g->gone[g->ngone++ % TD_GONE_KEPT];
    *x = (td_gone){.rank = m->rank, .pid = m->pid, .how = how, .at_ms = td_clock_ms()};
    snprintf(x->program, sizeof x->program, "%s", m->program);
}

void td_door_died(const td_group_member *m)
{
    td_gone *x = place_of(m->group, m);
    if (x) x->how = "died";
}

static void say_how_many(td_named_group *g)
{
    if (g->now) td_page_door(td_epoch_page(g->now), g->door.fresh);
}

static void unname_if_empty(td_named_group *g)
{
    if (!taken(g)) td_group_unname(g);
}

static void unlink_from_door(td_group_member *m)
{
    td_named_group *g = m->group;
    *m->at_door = m->next_at_door;
    if (m->next_at_door) m->next_at_door->at_door = m->at_door;
    else g->door.last = m->at_door;
    m->at_door = NULL;
    g->door.count--;
    g->door.fresh -= !m->epoch;
}

static void link_to_door(td_group_member *m)
{
    td_named_group *g = m->group;
    m->next_at_door = NULL;
    m->at_door = g->door.last;
    *g->door.last = m;
    g->door.last = &m->next_at_door;
    g->door.count++;
    g->door.fresh += !m->epoch;
}

void td_door_leave(td_group_member *m, const char *how)
{
    td_named_group *g = m->group;
    if (!m->at_door) return;
    unlink_from_door(m);
    if (m->epoch) return;
    remember(g, m, how);
    say_how_many(g);
    unname_if_empty(g);
}

/* ---- the next epoch */

static void tell_door(td_named_group *g, const td_error *why)
{
    for (td_group_wait *w = g->waits, *next; w; w = next) {
        next = w->next;
        if (!w->epoch) td_group_wait_over(w, why);
    }
}

static void take_seat(td_epoch *x, td_group_member *m, uint32_t rank)
{
    td_epoch *before = m->epoch;
    unlink_from_door(m);
    if (before) {
        before->seats[m->rank].member = NULL;
        before->present--;
        before->in--;
    }
    m->epoch = x;
    m->rank = rank;
    x->seats[rank] = (td_seat){m, TD_RANK_IN};
    x->present++;
    x->in++;
    td_page_join(td_epoch_page(x), rank, m->pid, m->program, "");
}

/* In a group of one size everybody has its rank already. */
static void take_seats(td_named_group *g, td_epoch *x)
{
    uint32_t n = 0;
    for (uint32_t r = 0; g->now && r < g->now->size; r++) {
        td_group_member *m = g->now->seats[r].member;
        if (m && m->at_door) take_seat(x, m, one_size(g) ? r : n++);
    }
    while (g->door.first) take_seat(x, g->door.first, one_size(g) ? g->door.first->rank : n++);
}

static void hand_waits(td_named_group *g, td_epoch *x)
{
    td_error closed = {0};
    td_fail(&closed, TD_E_CLOSED, "epoch of group '%s' ended while this waited", g->name);
    for (td_group_wait *w = g->waits, *next; w; w = next) {
        next = w->next;
        if (w->member->epoch != x) continue;
        if (!w->epoch) td_group_wait_for_board(w, x);
        else td_group_wait_over(w, &closed);
    }
}

/* Those that have not come are out. */
static void close_epoch(td_epoch *x)
{
    for (uint32_t r = 0; r < x->size; r++)
        if (x->seats[r].member) td_group_tell(x->seats[r].member, TD_RANK_EXPELLED);
    td_page_set(td_epoch_page(x), TD_PAGE_ENDED);
    if (td_epoch_board(x)) td_board_wake(td_epoch_board(x), x->size);
    if (!x->present) td_epoch_end(x);
}

static int begin(td_named_group *g, td_error *e)
{
    td_epoch *x, *before = g->now;
    int rc = td_epoch_new(&x, g, g->door.count, e);
    if (rc) return rc;
    take_seats(g, x);
    hand_waits(g, x);
    td_page_set(td_epoch_page(x), TD_PAGE_OPEN);
    g->now = x;
    g->ngone = 0;
    if (before) close_epoch(before);
    rc = td_epoch_want(x, TD_GROUP_BOARD, e);
    if (rc) td_epoch_tell(x, TD_GROUP_BOARD, e);
    return rc;
}

int td_door_look(td_named_group *g, bool expel, td_error *e)
{
    uint32_t old = g->door.count - g->door.fresh;
    if (!g->door.count || g->door.count < g->form.least || (in_now(g) > old && !expel)) return TD_OK;
    int rc = begin(g, e);
    if (rc) tell_door(g, e);
    return rc;
}

static void look(void *group)
{
    td_error e = {0};
    td_door_look(group, false, &e);
}

void td_door_look_soon(td_named_group *g)
{
    unname_if_empty(g);
    if (g->door.count && !g->door.look.armed) td_deadline_arm(g->service, &g->door.look, 0, look, g);
}

/* ---- coming */

static int check_join(const char *name, const td_group_form *f, int rank, td_error *e)
{
    int rc = td_name_check(name, e);
    if (rc) return rc;
    if (f->most == 0 || f->most > TD_BOARD_RANKS)
        return td_fail(e, TD_E_INVALID, "group '%s': a group has 1 to %d members, not %u", name, TD_BOARD_RANKS,
                       f->most);
    if (f->least == 0 || f->least > f->most)
        return td_fail(e, TD_E_INVALID, "group '%s' of at most %u members cannot begin with %u", name, f->most,
                       f->least);
    if (f->policy >= TD_PAGE_POLICIES)
        return td_fail(e, TD_E_INVALID, "group '%s': there is no policy %u for deaths", name, f->policy);
    if (rank >= 0 && f->least != f->most)
        return td_fail(e, TD_E_INVALID,
                       "group '%s' of %u to %u members gives ranks when it begins; rank %d cannot be had", name,
                       f->least, f->most, rank);
    if (rank < -1 || rank >= (int)f->most)
        return td_fail(e, TD_E_INVALID, "group '%s' of %u has ranks 0 to %u; there is no rank %d", name, f->most,
                       f->most - 1, rank);
    return TD_OK;
}

static int check_form(const td_named_group *g, const td_group_form *f, const char *there, td_error *e)
{
    if (f->most != g->form.most || f->least != g->form.least) {
        if (f->least == f->most && one_size(g))
            return td_fail(e, TD_E_EXISTS, "group '%s' has %u members, not %u: %s", g->name, g->form.most, f->most,
                           there);
        return td_fail(e, TD_E_EXISTS, "group '%s' has %u to %u members, not %u to %u: %s", g->name, g->form.least,
                       g->form.most, f->least, f->most, there);
    }
    if (f->policy != g->form.policy)
        return td_fail(e, TD_E_EXISTS, "group '%s' does otherwise when a member dies (%s, not %s): %s", g->name,
                       td_page_policy_name(g->form.policy), td_page_policy_name(f->policy), there);
    return TD_OK;
}

static int check_fits(const td_named_group *g, const td_group_form *f, int rank, const td_account *who, td_error *e)
{
    words w = {0};
    if (g->owner->account->uid != who->uid && who->uid)
        return td_fail(e, TD_E_PERMISSION, "group '%s' is another user's (uid %u)", g->name, g->owner->account->uid);
    say_all(g, &w);
    int rc = check_form(g, f, w.text, e);
    if (rc) return rc;
    if (taken(g) >= g->form.most) return td_fail(e, TD_E_EXISTS, "group '%s' is complete: %s", g->name, w.text);
    const td_group_member *m = rank >= 0 ? td_group_holder(g, (uint32_t)rank) : NULL;
    if (m)
        return td_fail(e, TD_E_EXISTS, "rank %d of group '%s' is taken by pid %u (%s)", rank, g->name, m->pid,
                       m->program);
    return TD_OK;
}

static uint32_t rank_for(const td_named_group *g, int wanted)
{
    if (!one_size(g)) return TD_NO_RANK;
    if (wanted >= 0) return (uint32_t)wanted;
    uint32_t r = 0;
    while (td_group_holder(g, r)) r++;
    return r;
}

static td_named_group *find(td_service *s, const char *name)
{
    td_named_group *g;
    HASH_FIND_STR(s->groups.named, name, g);
    return g;
}

static int create(td_named_group **out, td_service *s, const char *name, const td_group_form *f, const td_account *who,
                  td_error *e)
{
    td_named_group *g = calloc(1, sizeof *g);
    if (!g) return td_no_memory(e, "for group '%s'", name);
    *g = (td_named_group){.next = s->groups.all, .at = &s->groups.all, .service = s, .form = *f};
    if (g->next) g->next->at = &g->next;
    s->groups.all = g;
    g->door.last = &g->door.first;
    snprintf(g->name, sizeof g->name, "%s", name);
    int rc = td_owner_new(&g->owner, s, who->parent, name, e);
    if (!rc) {
        g->objects = td_objects_of(sizeof *g);
        rc = td_account_charge(g->owner->account, 0, g->objects, e);
        if (rc) g->objects = 0;
    }
    if (!rc) {
        HASH_ADD_STR(s->groups.named, name, g);
        g->is_named = TD_HASHED(g);
        if (!g->is_named) rc = td_no_memory(e, "for the name of group '%s'", name);
    }
    if (rc) td_group_end(g);
    else *out = g;
    return rc;
}

int td_group_join(td_group_member **out, td_service *s, const char *name, const td_group_form *form, int rank,
                  const td_account *who, td_error *e)
{
    *out = NULL;
    int rc = check_join(name, form, rank, e);
    if (rc) return rc;
    td_named_group *g = find(s, name);
    if (g && (rc = check_fits(g, form, rank, who, e))) return rc;
    td_group_member *m = calloc(1, sizeof *m);
    if (!m) return td_no_memory(e, "for a member of group '%s'", name);
    if (!g && (rc = create(&g, s, name, form, who, e))) {
        free(m);
        return rc;
    }
    *m = (td_group_member){.group = g, .rank = rank_for(g, rank), .pid = who->pid};
    snprintf(m->program, sizeof m->program, "%s", who->name);
    g->present++;
    link_to_door(m);
    say_how_many(g);
    if ((rc = td_door_look(g, false, e))) td_group_leave(m);
    else *out = m;
    return rc;
}

int td_door_come(td_group_member *m, td_error *e)
{
    td_epoch *x = m->epoch;
    if (!x) return td_fail(e, TD_E_BUSY, "group '%s' is not complete yet", m->group->name);
    if (x->seats[m->rank].how == TD_RANK_EXPELLED)
        return td_fail(e, TD_E_EPOCH,
                       "rank %u was expelled from group '%s' in epoch %u, as it did not come to regroup in time; "
                       "open the group anew",
                       m->rank, m->group->name, x->number);
    if (!td_group_is_in(m))
        return td_fail(e, TD_E_EPOCH, "this process is no member of group '%s' any more", m->group->name);
    if (m->at_door)
        return td_fail(e, TD_E_BUSY, "rank %u of group '%s' is regrouping already", m->rank, m->group->name);
    link_to_door(m);
    if (td_epoch_board(x)) td_board_post_mortem(td_epoch_board(x), td_epoch_page(x), m->rank, TD_RANK_REGROUPS);
    return TD_OK;
}
