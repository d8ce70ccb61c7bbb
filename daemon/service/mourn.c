/* Members that go: what becomes of their seats, and how the others learn of it.
 *
 * At the door a place is free again, and messages remember who had it. In an epoch the seat stays empty: the page says
 * how its member went, and from which round on it is missing (td_board_post_mortem). The other members decide by that
 * what becomes of their rounds, and those that sleep are woken. */
#include "daemon/service/seats.h"

#include <stdlib.h>

static void mourn(td_epoch *x, uint32_t rank)
{
    if (td_epoch_board(x)) td_board_post_mortem(td_epoch_board(x), td_epoch_page(x), rank, x->seats[rank].how);
}

void td_epoch_mourn_all(td_epoch *x)
{
    for (uint32_t r = 0; r < x->size; r++)
        if (x->seats[r].how != TD_RANK_IN) mourn(x, r);
}

/* A rank that has left may die yet: then a chunk that it had claimed is others' to do. */
static bool is_news(td_rank_state before, td_rank_state how)
{
    return before == TD_RANK_IN || (how == TD_RANK_DEAD && (before == TD_RANK_LEFT || before == TD_RANK_CUT));
}

void td_group_tell(const td_group_member *m, td_rank_state how)
{
    td_epoch *x = m->epoch;
    td_seat *seat = x ? &x->seats[m->rank] : NULL;
    if (!x || !is_news(seat->how, how)) return;
    if (seat->how == TD_RANK_IN) x->in--;
    seat->how = how;
    mourn(x, m->rank);
    if (x == x->group->now) td_door_look_soon(x->group);
}

void td_group_forget(td_group_member *m)
{
    td_limbo_leave(m);
    if (m->epoch) m->epoch->seats[m->rank].member = NULL;
    if (m->at_door) { /* it is adrift */
        *m->at_door = m->next_at_door;
        if (m->next_at_door) m->next_at_door->at_door = m->at_door;
    }
    free(m);
}

/* Nobody points there any more. */
static void let_go(td_named_group *g, td_epoch *x)
{
    if (x && !--x->present) td_epoch_end(x);
    if (!--g->present) td_group_end(g);
    else td_door_look_soon(g);
}

void td_group_over(td_group_member *m, td_rank_state how)
{
    td_group_tell(m, how);
    if (!m->epoch && how == TD_RANK_DEAD) td_door_died(m);
    td_group_forget(m);
}

void td_group_leave(td_group_member *m)
{
    td_named_group *g = m->group;
    td_epoch *x = m->epoch;
    td_group_cancel_waits(m);
    td_group_over(m, TD_RANK_LEFT);
    let_go(g, x);
}

/* Nobody waits any longer for one that is at the door, or may come there. */
void td_group_died(td_group_member *m)
{
    td_group_cancel_waits(m);
    td_group_tell(m, TD_RANK_DEAD);
    if (!m->epoch) td_door_died(m);
}

/* Until it is known how it went, for messages. */
static void drift(td_group_member *m)
{
    td_named_group *g = m->group;
    m->next_at_door = g->adrift;
    m->at_door = &g->adrift;
    if (m->next_at_door) m->next_at_door->at_door = &m->next_at_door;
    g->adrift = m;
}

static bool is_over(const td_group_member *m, bool alive)
{
    return !alive || (m->epoch && m->epoch->seats[m->rank].how == TD_RANK_DEAD);
}

void td_group_gone(td_group_member *m, bool alive)
{
    td_named_group *g = m->group;
    td_epoch *x = m->epoch;
    td_group_cancel_waits(m);
    if (!x) drift(m);
    if (is_over(m, alive) || !td_limbo_join(m)) td_group_over(m, alive ? TD_RANK_CUT : TD_RANK_DEAD);
    let_go(g, x);
}

void td_groups_clear(td_service *s)
{
    while (s->groups.all) td_group_end(s->groups.all);
}
