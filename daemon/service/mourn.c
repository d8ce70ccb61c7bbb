/* Members that go: what becomes of their seats, and how the others learn of it.
 *
 * While a group forms a seat is free again, and messages remember who had it. In an epoch the seat stays empty: the
 * page says how its member went, and from which round on it is missing (td_board_post_mortem). The other members decide
 * by that what becomes of their rounds, and those that sleep are woken. */
#include "daemon/service/seats.h"

#include <stdio.h>
#include <stdlib.h>

/* One that comes again and again has one place. */
static td_gone *place_of(td_named_group *g, const td_group_member *m)
{
    for (uint32_t i = 0; i < TD_GONE_KEPT && i < g->ngone; i++)
        if (g->gone[i].rank == m->rank && g->gone[i].pid == m->pid) return &g->gone[i];
    return &g->gone[g->ngone++ % TD_GONE_KEPT];
}

static void remember(td_named_group *g, const td_group_member *m, bool died)
{
    td_gone *x = place_of(g, m);
    *x = (td_gone){.rank = m->rank,
                   .pid = m->pid,
                   .how = m->gave_up ? "gave up"
                          : died     ? "died"
                                     : "went",
                   .at_ms = td_clock_ms()};
    snprintf(x->program, sizeof x->program, "%s", m->program);
}

static void mourn(td_named_group *g, uint32_t rank)
{
    if (td_group_board(g)) td_board_post_mortem(td_group_board(g), td_group_page(g), rank, g->seats[rank].how);
}

void td_group_mourn_all(td_named_group *g)
{
    for (uint32_t r = 0; r < g->size; r++)
        if (g->seats[r].how != TD_RANK_IN) mourn(g, r);
}

/* A rank that has left may die yet: then a chunk that it had claimed is others' to do. */
void td_group_tell(const td_group_member *m, td_rank_state how)
{
    td_named_group *g = m->group;
    td_seat *seat = &g->seats[m->rank];
    if (!g->epoch || seat->how >= how) return;
    seat->how = how;
    td_group_unname(g);
    mourn(g, m->rank);
}

static void cancel_waits(td_group_member *m)
{
    td_error closed = {0};
    td_fail(&closed, TD_E_CLOSED, "group '%s' was left while this waited", m->group->name);
    for (td_group_wait *w = m->group->waits, *next; w; w = next) {
        next = w->next;
        if (w->member == m) td_group_wait_over(w, &closed);
    }
}

/* Nobody needs to know more of it. */
static void clear_seat(td_group_member *m)
{
    td_named_group *g = m->group;
    td_limbo_leave(m);
    g->seats[m->rank].member = NULL;
    g->taken--;
    free(m);
}

/* Nobody points there any more. */
static void let_go(td_named_group *g)
{
    if (--g->present) return;
    for (uint32_t r = 0; r < g->size; r++)
        if (g->seats[r].member) clear_seat(g->seats[r].member);
    td_group_end(g);
}

void td_group_over(td_group_member *m, td_rank_state how)
{
    td_named_group *g = m->group;
    if (g->epoch) td_group_tell(m, how);
    else remember(g, m, how == TD_RANK_DEAD);
    clear_seat(m);
}

void td_group_leave(td_group_member *m)
{
    td_named_group *g = m->group;
    cancel_waits(m);
    td_group_over(m, TD_RANK_LEFT);
    let_go(g);
}

void td_group_died(td_group_member *m)
{
    td_group_tell(m, TD_RANK_DEAD);
}

/* Without an epoch nobody waits for what becomes of it, and its seat is free for whoever takes its place. */
static bool is_over(const td_group_member *m, bool alive)
{
    const td_named_group *g = m->group;
    return !alive || !g->epoch || g->seats[m->rank].how == TD_RANK_DEAD;
}

void td_group_gone(td_group_member *m, bool alive)
{
    td_named_group *g = m->group;
    cancel_waits(m);
    if (is_over(m, alive) || !td_limbo_join(m)) td_group_over(m, alive ? TD_RANK_LEFT : TD_RANK_DEAD);
    let_go(g);
}

void td_groups_clear(td_service *s)
{
    while (s->groups.all) {
        td_named_group *g = s->groups.all;
        g->present = 1;
        let_go(g);
    }
}
