/* Waiting for a round: asleep in slices, between which a member looks whether it still makes sense.
 *
 * A death needs no look: it is said by the page, and the daemon wakes who sleeps. What is looked at is the program
 * (does it want to stop?), the connection (does the daemon live?) and the deadline. At its end who is missing is looked
 * at in /proc: a rank that has used a tenth of a processor meanwhile is at work (it prepares data, or compiles), and
 * has ten times as long. */
#include "client/group/internal.h"

#include <stdio.h>

enum {
    PATIENCE = 10,       /* times the deadline, for those who are at work */
    AT_WORK = 10,        /* who uses this part of a processor is */
    SAY_AFTER_MS = 30000 /* so often the program is told for whom it waits */
};

typedef struct watch {
    int64_t due, said;              /* td_now_ms() */
    int64_t looked;                 /* when, or 0 before the first look, ... */
    int64_t worked[TD_BOARD_RANKS]; /* ... each of those that were missing had worked so much */
    uint32_t missing[TD_BOARD_RANKS], n;
} watch;

static const td_page_rank *member(const td_group *g, uint32_t rank)
{
    return &g->board.page->rank[rank];
}

static void look_at_missing(const td_group_call *c, const td_piece *p, watch *w)
{
    const td_board *b = &c->group->board;
    w->looked = td_now_ms();
    w->n = td_board_missing(b, &p->round, w->missing, TD_BOARD_RANKS);
    for (uint32_t i = 0; i < w->n; i++)
        td_process_state(member(c->group, w->missing[i])->pid, &w->worked[w->missing[i]]);
}

/* Are all that are missing at work since the last look? */
static bool at_work(const td_group_call *c, const td_piece *p, watch *w)
{
    int64_t before[TD_BOARD_RANKS], since = w->looked;
    memcpy(before, w->worked, sizeof before);
    look_at_missing(c, p, w);
    int64_t least = (w->looked - since) / AT_WORK;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->worked[w->missing[i]] - before[w->missing[i]] < least) return false;
    return w->n > 0;
}

static void say_for_whom(const td_group_call *c, const td_piece *p, const watch *w)
{
    char line[1024], call[128], rank[128], last[256];
    const td_group *g = c->group;
    uint32_t first;
    uint32_t n = td_board_missing(&g->board, &p->round, &first, 1);
    if (!n) return;
    snprintf(line, sizeof line, "tensord: group '%s': rank %u has waited %lld s in %s%s%s for %s%s; %s\n", g->name,
             g->rank, (long long)((w->said - c->began_ms) / 1000), td_board_say_call(&c->call, call, sizeof call),
             c->where ? " at " : "", c->where ? c->where : "", td_group_say_rank(g, first, rank, sizeof rank),
             n > 1 ? " and others" : "", td_group_say_last(g, first, last, sizeof last));
    td_step_back();
    td_say(line);
    td_step_aside();
}

static bool wants_to_stop(const td_client *c)
{
    if (!c->threads.stop) return false;
    td_step_back();
    bool stopped = c->threads.stop(c->threads.stop_context);
    td_step_aside();
    return stopped;
}

/* Asked seldom, so that a daemon that has gone is noticed. */
static int look_at_daemon(td_client *c)
{
    td_lock(c);
    if (!c->lost) td_poll_replies(c);
    if (!c->lost) td_look_at_socket(c);
    int rc = c->lost ? td_raise(c->lost, "group", "%s", c->why.message) : TD_OK;
    td_unlock(c);
    td_step_aside();
    return rc;
}

/* Without a daemon nobody tells of deaths: the round is given up, so that it fails in all ranks or in none. */
static int lost_daemon(const td_group_call *c, td_piece *p, td_round_outcome *o, int rc)
{
    *o = td_board_give_up(&c->group->board, &p->round);
    if (*o == TD_OUTCOME_DONE) return TD_OK;
    p->open = false;
    return rc;
}

/* One look between two slices; *o is the round's outcome when that has ended it. */
static int look(td_group_call *c, td_piece *p, watch *w, td_round_outcome *o)
{
    td_group *g = c->group;
    int64_t now = td_now_ms();
    if (wants_to_stop(g->client)) return td_raise(TD_E_CANCELLED, NULL, "stopped while waiting for other ranks");
    int rc = look_at_daemon(g->client);
    if (rc) return lost_daemon(c, p, o, rc);
    if (!w->looked) look_at_missing(c, p, w);
    if (now >= w->due) {
        int64_t most = c->began_ms + (int64_t)c->timeout_ms * PATIENCE;
        if (now < most && at_work(c, p, w)) w->due = now + c->timeout_ms < most ? now + c->timeout_ms : most;
        else *o = td_board_give_up(&g->board, &p->round);
    }
    if (now - w->said >= SAY_AFTER_MS) {
        w->said = now;
        say_for_whom(c, p, w);
    }
    return TD_OK;
}

/* Other threads are not kept waiting for long by one that yields. */
static unsigned slice(const td_group_call *c, const watch *w)
{
    enum { SHORT_MS = 5 };
    int64_t most = c->yields ? SHORT_MS : TD_BOARD_SLICE_MS;
    int64_t left = w->due == INT64_MAX ? most : w->due - td_now_ms();
    return left < 1 ? 1 : left < most ? (unsigned)left : (unsigned)most;
}

int td_group_await_round(td_group_call *c, td_piece *p)
{
    td_group *g = c->group;
    td_round_outcome o = td_board_poll(&g->board, &p->round);
    watch w; /* its arrays are filled by the first look */
    w.looked = 0;
    w.due = c->timeout_ms < 0 ? INT64_MAX : c->began_ms + c->timeout_ms;
    w.said = c->began_ms;
    while (o == TD_OUTCOME_OPEN) {
        o = td_board_wait(&g->board, &p->round, slice(c, &w));
        if (o != TD_OUTCOME_OPEN) break;
        if (c->yields && atomic_load(&g->wanted)) return TD_GROUP_WANTED;
        int rc = look(c, p, &w, &o);
        if (rc) return rc;
    }
    p->open = false;
    if (o == TD_OUTCOME_GAVE_UP) { /* by another rank, when the daemon has ended */
        int rc = look_at_daemon(g->client);
        if (rc) return rc;
    }
    return o == TD_OUTCOME_DONE ? TD_OK : td_group_failed(c, p, o);
}
