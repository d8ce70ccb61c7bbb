/* The roll of groups: what each group, and each of its ranks, is at.
 *
 * Who is in, and who has gone, is the daemon's own knowledge. What they do, and how fast, stands on the board, where
 * members write what they like: it is bounded as it is read, and no more is done for it than for an honest board. A
 * group with an epoch is gone through twice, as the row of the whole comes first. */
#include "daemon/service/seats.h"
#include "shm/board/words.h"

#include <stdio.h>
#include <string.h>

/* Told in the row of the whole group: a wait of so many seconds, a rank that is in rounds so much less than the others.
 */
#define LONG 1.0
#define SLOWER 0.2

void td_roll_begin(td_roll *r, td_service *s)
{
    *r = (td_roll){.group = s->groups.all};
    s->groups.roll = r;
}

void td_roll_end(td_service *s)
{
    s->groups.roll = NULL;
}

static void go_on(td_roll *r)
{
    *r = (td_roll){.group = r->group->next};
}

void td_roll_pass(td_named_group *g)
{
    td_roll *r = g->service->groups.roll;
    if (r && r->group == g) go_on(r);
}

static double seconds_since(uint64_t then, uint64_t now)
{
    return now > then ? (double)(now - then) / 1e9 : 0;
}

/* ---- one rank */

/* What a rank's part of the board says. */
typedef struct look {
    uint64_t now, since; /* its last call */
    td_board_call call;
    td_figures_seen f; /* the call that it is in counts, too */
    bool inside;
} look;

static look look_at(const td_named_group *g, uint32_t rank)
{
    look k = {.now = td_clock_ns()};
    td_figures_read(td_board_figures(td_epoch_board(g->now), g->now->size, rank), k.now, &k.f);
    td_board_last(td_epoch_board(g->now), rank, &k.call, &k.since);
    k.inside = k.f.left < k.call.round;
    if (!k.inside) return k;
    double most = k.f.recently.seconds, within = k.f.recently.within + seconds_since(k.since, k.now);
    k.f.recently.within = within < most ? within : most;
    return k;
}

static const char *const states[] = {"awaited", "in", "left", "died", "expelled", "regroups", "left"};

static const char *state_of(const td_named_group *g, uint32_t rank)
{
    if (!g->now) return td_group_holder(g, rank) ? "in" : "awaited";
    uint32_t state = atomic_load(&td_epoch_page(g->now)->rank[rank].state);
    return state < sizeof states / sizeof *states ? states[state] : "?";
}

static bool is_in(const td_named_group *g, uint32_t rank)
{
    return atomic_load(&td_epoch_page(g->now)->rank[rank].state) == TD_RANK_IN;
}

static void say_who(const td_named_group *g, uint32_t rank, td_roll_row *row)
{
    const td_group_member *m = g->now ? NULL : td_group_holder(g, rank);
    if (g->now) {
        const td_page_rank *p = &td_epoch_page(g->now)->rank[rank];
        row->pid = atomic_load(&p->pid);
        snprintf(row->program, sizeof row->program, "%.*s", (int)sizeof row->program - 1, p->program);
    } else if (m) {
        row->pid = m->pid;
        snprintf(row->program, sizeof row->program, "%s", m->program);
    }
}

/* What the member was told, as it says. */
static void say_failed(unsigned failed, td_roll_row *row)
{
    size_t at = strlen(row->state);
    char *text = row->state + at;
    size_t room = sizeof row->state - at;
    unsigned rank = failed >> 8;
    switch (failed & 255) {
    case TD_OUTCOME_MISMATCH: snprintf(text, room, ", told that rank %u calls otherwise", rank); break;
    case TD_OUTCOME_MEMBER: snprintf(text, room, ", told that rank %u has gone", rank); break;
    case TD_OUTCOME_GAVE_UP: snprintf(text, room, ", told that rank %u gave up waiting", rank); break;
    case TD_OUTCOME_ENDED: snprintf(text, room, ", told that the epoch is over"); break;
    default: break;
    }
}

static void say_shares(const td_figures_seen *f, td_roll_row *row)
{
    if (f->recently.seconds <= 0) return;
    row->per_second = f->recently.rounds / f->recently.seconds;
    row->within = f->recently.within / f->recently.seconds;
    if (f->recently.rounds > 0) row->last_share = f->recently.last / f->recently.rounds;
}

static void say_now(const td_named_group *g, uint32_t rank, const look *k, td_roll_row *row)
{
    td_sites sites = {.all = (td_site_text *)(void *)((char *)td_epoch_board(g->now) + td_board_bytes(g->now->size))};
    char text[128];
    if (!k->call.round) {
        snprintf(row->now, sizeof row->now, "has made no call yet");
        return;
    }
    snprintf(row->now, sizeof row->now, "%s %s", k->inside ? "in" : "after",
             td_board_say_call(&k->call, text, sizeof text));
    td_sites_text(&sites, rank, k->call.site, row->at);
    row->since = seconds_since(k->inside ? k->since : k->f.left_at, k->now);
}

static void tell_rank(const td_named_group *g, uint32_t rank, td_roll_row *row)
{
    row->rank = (int)rank;
    snprintf(row->state, sizeof row->state, "%s", state_of(g, rank));
    say_who(g, rank, row);
    if (!g->now || !td_epoch_board(g->now)) return;
    uint64_t times[TD_FIGURES_TIMES] = {0};
    look k = look_at(g, rank);
    td_figures_add(td_board_figures(td_epoch_board(g->now), g->now->size, rank), times);
    row->round = td_board_rounds(td_epoch_board(g->now), rank);
    row->p50 = td_figures_quantile(times, 0.5);
    row->p99 = td_figures_quantile(times, 0.99);
    row->last = k.f.last;
    say_shares(&k.f, row);
    say_failed(k.f.failed, row);
    say_now(g, rank, &k, row);
}

/* ---- the whole */

/* One more rank of a group that has an epoch and a board. */
static void add_rank(const td_named_group *g, uint32_t rank, td_roll *r)
{
    look k = look_at(g, rank);
    uint64_t rounds = td_board_rounds(td_epoch_board(g->now), rank);
    td_roll_row of = {0};
    td_figures_add(td_board_figures(td_epoch_board(g->now), g->now->size, rank), r->times);
    say_shares(&k.f, &of);
    if (of.per_second > r->rate) r->rate = of.per_second;
    r->within += of.within;
    if (rounds > r->most) r->most = rounds, r->call = k.call;
    if (!is_in(g, rank)) return;
    if (!r->present || rounds < r->fewest) r->fewest = rounds, r->late = rank;
    if (!r->present || of.within < r->least) {
        r->least = of.within;
        r->slow = rank;
        r->last = of.last_share;
    }
    r->present++;
    if (k.inside && (!r->inside || k.since < r->since)) r->since = k.since;
    r->inside += k.inside;
}

static uint32_t members_in(const td_named_group *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->now->size; i++) n += g->now->seats[i].how == TD_RANK_IN;
    return n;
}

static void say_state(const td_named_group *g, td_roll_row *row)
{
    uint64_t broken = g->now ? atomic_load(&td_epoch_page(g->now)->broken) : 0;
    uint32_t rank = broken & 0xffff;
    if (!g->now) snprintf(row->state, sizeof row->state, "forming, %u of %u", g->door.count, g->form.least);
    else if (!broken) snprintf(row->state, sizeof row->state, "open, %u of %u", members_in(g), g->now->size);
    else
        snprintf(row->state, sizeof row->state, "broken: rank %u %s before round %llu; %u of %u", rank,
                 state_of(g, rank), (unsigned long long)(broken >> TD_BOARD_RANK_BITS), members_in(g), g->now->size);
    if (g->now && g->door.fresh) {
        size_t at = strlen(row->state);
        snprintf(row->state + at, sizeof row->state - at, "; %u at the door", g->door.fresh);
    }
}

/* For whom the others wait now, or do most of the time: then they are in rounds, and that one is not. */
static void say_slowest(const td_named_group *g, const td_roll *r, td_roll_row *row)
{
    char call[128];
    double waited = seconds_since(r->since, td_clock_ns());
    double others = g->now->size > 1 ? (r->within - r->least) / (g->now->size - 1) : 0;
    if (r->inside && r->inside < r->present && r->fewest < r->most && waited >= LONG) {
        snprintf(row->now, sizeof row->now, "%u wait for rank %u in %s", r->inside, r->late,
                 td_board_say_call(&r->call, call, sizeof call));
        row->since = waited;
    } else if (others - r->least >= SLOWER) {
        snprintf(row->now, sizeof row->now,
                 "rank %u is slow: last in %.0f%% of rounds, in rounds %.0f%% of its time, the others %.0f%%", r->slow,
                 r->last * 100, r->least * 100, others * 100);
    }
}

static void tell_whole(const td_named_group *g, const td_roll *r, td_roll_row *row)
{
    row->rank = -1;
    say_state(g, row);
    if (!g->now) return;
    row->round = r->most;
    row->per_second = r->rate;
    row->within = r->within / g->now->size;
    row->p50 = td_figures_quantile(r->times, 0.5);
    row->p99 = td_figures_quantile(r->times, 0.99);
    if (td_epoch_board(g->now)) say_slowest(g, r, row);
}

/* ---- all of them */

bool td_roll_some(td_roll *r, uint32_t most, void (*fn)(const td_roll_row *, void *), void *arg)
{
    for (; r->group && most; most--) {
        const td_named_group *g = r->group;
        if (r->added && r->rank >= td_group_ranks(g)) { /* the epoch may be another, and smaller */
            go_on(r);
            continue;
        }
        if (!r->added && g->now && td_epoch_board(g->now) && r->rank < g->now->size) {
            add_rank(g, r->rank++, r);
            continue;
        }
        td_roll_row row = {.group = g->name, .epoch = g->now ? g->now->number : 0};
        if (!r->added) {
            tell_whole(g, r, &row);
            r->added = true;
            r->rank = 0;
        } else {
            tell_rank(g, r->rank++, &row);
        }
        fn(&row, arg);
        if (r->added && r->rank >= td_group_ranks(g)) go_on(r);
    }
    return !r->group;
}
