/* What is said of a group: which call, which rank, what it did last, why a round failed. */
#include "client/group/internal.h"

#include <stdio.h>
#include <stdlib.h>

const char *td_group_say_rank(const td_group *g, uint32_t rank, char *text, size_t size)
{
    const td_page_rank *r = &g->board.page->rank[rank];
    snprintf(text, size, "rank %u (pid %u, %.*s)", rank, (unsigned)r->pid, (int)sizeof r->program, r->program);
    return text;
}

static const char *say_site(const td_group *g, uint32_t rank, uint32_t site, char *text, size_t size)
{
    char where[TD_SITE_TEXT];
    text[0] = 0;
    if (td_sites_text(&g->sites, rank, site, where)) snprintf(text, size, " at %s", where);
    return text;
}

const char *td_group_say_last(const td_group *g, uint32_t rank, char *text, size_t size)
{
    td_board_call last;
    uint64_t since;
    char call[96], site[TD_SITE_TEXT + 8];
    td_board_last(g->board.base, rank, &last, &since);
    if (!last.round) snprintf(text, size, "it has made no call yet");
    else
        snprintf(text, size, "its last call was %s%s, %.1f s ago", td_board_say_call(&last, call, sizeof call),
                 say_site(g, rank, last.site, site, sizeof site), (double)(td_clock_ns() - since) / 1e9);
    return text;
}

/* What its process is at, as far as this one can see. */
static const char *say_state(const td_group *g, uint32_t rank)
{
    int64_t worked;
    switch (td_process_state(g->board.page->rank[rank].pid, &worked)) {
    case 'T':
    case 't': return "; its process is stopped (state T)";
    case 'S': return "; its process sleeps";
    case 'R': return "; its process runs";
    case 'D': return "; its process waits for a device (state D)";
    case 'Z':
    case 'X': return "; its process has ended";
    default: return "";
    }
}

/* ---- why a round failed */

/* It may have died within a call of several rounds. */
static const char *how_far(const td_group_call *c, uint32_t rank)
{
    td_board_call last;
    uint64_t since;
    td_board_last(c->group->board.base, rank, &last, &since);
    return last.round && last.nr == c->call.nr ? "in" : "before";
}

bool td_group_was_expelled(const td_group *g, td_error *e)
{
    if (atomic_load(&g->board.page->rank[g->rank].state) != TD_RANK_EXPELLED) return false;
    td_fail(e, TD_E_EPOCH,
            "rank %u was expelled from group '%s' in epoch %u, as it did not come to regroup in time; open the group "
            "anew",
            g->rank, g->name, g->epoch);
    return true;
}

static const char *how_it_went(const td_group *g, uint32_t rank)
{
    switch (atomic_load(&g->board.page->rank[rank].state)) {
    case TD_RANK_DEAD: return "died";
    case TD_RANK_REGROUPS: return "asked to regroup";
    default: return "left";
    }
}

static int raise_lost(const td_group *g, uint32_t rank, const char *when)
{
    char who[96], last[192];
    return td_raise(TD_E_MEMBER, NULL, "%s %s in epoch %u %s; %s", td_group_say_rank(g, rank, who, sizeof who),
                    how_it_went(g, rank), g->epoch, when, td_group_say_last(g, rank, last, sizeof last));
}

static int lost(const td_group_call *c, uint32_t rank)
{
    char call[96], when[112];
    snprintf(when, sizeof when, "%s %s", how_far(c, rank), td_board_say_call(&c->call, call, sizeof call));
    return raise_lost(c->group, rank, when);
}

/* A rank has no memory for its part; why stands behind its call. */
static int refused(const td_group_call *c, const td_piece *p, uint32_t rank)
{
    char who[96], call[128];
    const char *why = td_board_payload(&c->group->board, &p->round, rank);
    return td_raise(TD_E_MEMORY, NULL, "%s cannot take part in %s: %.*s",
                    td_group_say_rank(c->group, rank, who, sizeof who), td_board_say_call(&c->call, call, sizeof call),
                    TD_BOARD_PAYLOAD - 1, why);
}

/* *of calls otherwise than the lowest rank; it becomes the one that the message is about. */
static int mismatch(const td_group_call *c, const td_piece *p, uint32_t *of)
{
    uint32_t rank = *of;
    const td_group *g = c->group;
    char a[128], b[128], at[TD_SITE_TEXT + 8], other_at[TD_SITE_TEXT + 8];
    td_board_call other = {0}, first = {0};
    uint32_t low = 0;
    while (low + 1 < g->size && (low == rank || !td_board_said(&g->board, &p->round, low, &first))) low++;
    td_board_said(&g->board, &p->round, rank, &other);
    if (first.place == TD_BOARD_REFUSED) *of = low;
    if (first.place == TD_BOARD_REFUSED || other.place == TD_BOARD_REFUSED) return refused(c, p, *of);
    return td_raise(TD_E_MISMATCH, NULL, "rank %u called %s%s, and rank %u %s%s", low,
                    td_board_say_call(&first, a, sizeof a), say_site(g, low, first.site, at, sizeof at), rank,
                    td_board_say_call(&other, b, sizeof b), say_site(g, rank, other.site, other_at, sizeof other_at));
}

static int late(td_group_call *c, const td_piece *p, uint32_t by, uint32_t *missing)
{
    const td_group *g = c->group;
    char who[96], giver[32], call[96], last[192];
    uint32_t n = td_board_missing(&g->board, &p->round, missing, 1);
    snprintf(giver, sizeof giver, by == g->rank ? "this rank, %u," : "rank %u", by);
    if (!n) *missing = by;
    if (!n)
        return td_raise(TD_E_TIMEOUT, NULL, "%s gave up waiting in %s", giver,
                        td_board_say_call(&c->call, call, sizeof call));
    return td_raise(TD_E_TIMEOUT, NULL, "%s gave up after %.3g s: %s%s has not come to %s; %s%s", giver,
                    (double)(td_now_ms() - c->began_ms) / 1000, td_group_say_rank(g, *missing, who, sizeof who),
                    n > 1 ? ", with others," : "", td_board_say_call(&c->call, call, sizeof call),
                    td_group_say_last(g, *missing, last, sizeof last), say_state(g, *missing));
}

static void keep_fault(td_group *g, int code, uint32_t rank, uint64_t nr)
{
    const td_page_rank *r = &g->board.page->rank[rank];
    g->fault = (td_group_fault){.code = code, .rank = rank, .pid = r->pid, .epoch = g->epoch, .round = nr};
    memcpy(g->fault.program, r->program, sizeof g->fault.program);
    g->fault.program[sizeof g->fault.program - 1] = 0;
}

int td_group_failed(td_group_call *c, const td_piece *p, td_round_outcome outcome)
{
    td_group *g = c->group;
    uint32_t rank = p->round.culprit < g->size ? p->round.culprit : 0;
    td_error out = {0};
    int rc;
    if (td_group_was_expelled(g, &out)) {
        td_raise_error(&out, NULL, NULL);
        g->broken = out;
        return out.code;
    }
    switch (outcome) {
    case TD_OUTCOME_MEMBER: rc = lost(c, rank); break;
    case TD_OUTCOME_MISMATCH: rc = mismatch(c, p, &rank); break;
    case TD_OUTCOME_GAVE_UP: rc = late(c, p, rank, &rank); break;
    default: rc = td_raise(TD_E_EPOCH, NULL, "the epoch %u of group '%s' is over", g->epoch, g->name);
    }
    keep_fault(g, rc, rank, c->call.nr);
    bool goes_on = outcome == TD_OUTCOME_MEMBER && !g->board.broken;
    if (!goes_on) g->broken = *td_last_error();
    return rc;
}

int td_group_member_lost(td_group *g, uint32_t rank, const char *before)
{
    int rc = raise_lost(g, rank, before);
    keep_fault(g, rc, rank, 0);
    return rc;
}
