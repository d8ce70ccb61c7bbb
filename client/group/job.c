/* Jobs: what a rank gives goes into its slot, a round makes the result of all slots, and it is copied out.
 *
 * A call moves one column of bytes, or one for each rank (job.h). Up to 256 bytes of them go with the call itself. Up
 * to 64 KiB lie in small slots, one round. More goes through large slots in pieces of 4 MiB, a round each; a piece has
 * a part of every column, so that all ranks have something to copy in each.
 *
 * Two rounds may be under way at once, whether they are of one call or of two: a rank copies in and out while others
 * add. Only what is passed on (all but sums) must be alone: the others read it in its owner's slot after the round,
 * until they come to the next one. So a round that is begun after it, or after the one behind it, waits until the one
 * before is over and taken. */
#include "client/group/job.h"

#include <stdio.h>

/* ---- slots */

static unsigned char *input(const td_group *g, td_board_place place, uint32_t rank, unsigned turn)
{
    return place == TD_BOARD_IN_SMALL ? g->memory + td_board_small_input(g->size, rank, turn)
                                      : g->large + td_board_large_input(g->size, rank, turn);
}

static unsigned char *result(const td_group *g, td_board_place place, unsigned turn)
{
    return place == TD_BOARD_IN_SMALL ? g->memory + td_board_small_result(g->size, turn)
                                      : g->large + td_board_large_result(g->size, turn);
}

static td_board_place place_of(uint64_t bytes)
{
    if (bytes <= TD_BOARD_PAYLOAD) return TD_BOARD_IN_CALL;
    return bytes <= TD_BOARD_SMALL ? TD_BOARD_IN_SMALL : TD_BOARD_IN_LARGE;
}

/* ---- a piece: `from` to `from + n` of each column */

static uint64_t piece_bytes(const td_group_job *j, uint64_t from)
{
    return j->length - from < j->step ? j->length - from : j->step;
}

/* What rank `giver` has for column `to`: where it begins in the giver's memory, and how long it is. */
typedef struct column {
    uint64_t at, length;
} column;

static column column_of(const td_group_job *j, uint32_t giver, uint32_t to)
{
    if (!j->lengths) return (column){to * j->length, j->length};
    const uint64_t *row = j->lengths + (uint64_t)giver * j->c.group->size;
    column c = {0, row[to]};
    for (uint32_t i = 0; i < to; i++) c.at += row[i];
    return c;
}

static uint64_t part(uint64_t length, uint64_t from, uint64_t n)
{
    return length <= from ? 0 : length - from < n ? length - from : n;
}

static void copy_in(const td_group_job *j, unsigned char *slot, uint64_t from, uint64_t n)
{
    for (uint32_t i = 0; i < j->columns; i++) {
        column c = column_of(j, j->c.group->rank, i);
        uint64_t some = part(c.length, from, n);
        if (some) memcpy(slot + i * n, j->in + c.at + from, some);
    }
}

/* Of what all ranks gave in this round, into the memory of who wants it. */
static void take_from_each(const td_group_job *j, uint64_t number, const void *const *in, uint64_t from, uint64_t n)
{
    const td_group *g = j->c.group;
    uint64_t at = 0;
    uint32_t own = j->columns > 1 ? g->rank : 0;
    for (uint32_t r = 0; r < g->size; r++) {
        uint64_t length = j->lengths ? column_of(j, r, g->rank).length : j->length, some = part(length, from, n);
        if (some && td_page_is_out(g->board.page, r, number)) memset(j->out + at + from, 0, some);
        else if (some) memcpy(j->out + at + from, (const unsigned char *)in[r] + own * n, some);
        at += length;
    }
}

static void take_from_root(const td_group_job *j, const void *const *in, uint64_t from, uint64_t n)
{
    uint32_t own = j->columns > 1 ? j->c.group->rank : 0;
    memcpy(j->out + from, (const unsigned char *)in[j->c.call.root] + own * n, n);
}

/* `sum`: of what was added up; NULL: nobody has added anything yet. */
static void take(const td_group_job *j, uint64_t number, const void *const *in, const unsigned char *sum, uint64_t from,
                 uint64_t n)
{
    uint32_t own = j->columns > 1 ? j->c.group->rank : 0;
    if (!j->out || !n) return;
    switch (j->way) {
    case TD_COLL_BROADCAST:
    case TD_COLL_SCATTER: take_from_root(j, in, from, n); break;
    case TD_COLL_ALL_GATHER:
    case TD_COLL_GATHER:
    case TD_COLL_ALL_TO_ALL: take_from_each(j, number, in, from, n); break;
    default: memcpy(j->out + from, sum + own * n, n);
    }
}

/* ---- rounds */

static td_piece *piece_at(td_group *g, uint64_t round)
{
    return &g->pieces[round % TD_IN_FLIGHT];
}

static td_piece *oldest(td_group *g)
{
    return piece_at(g, g->board.next - g->in_flight);
}

static bool may_begin(const td_group *g)
{
    return !g->in_flight || (g->in_flight < TD_IN_FLIGHT && !g->passes[0] && !g->passes[1]);
}

static void begin_in_call(td_group_job *j, td_piece *p)
{
    unsigned char payload[TD_BOARD_PAYLOAD] = {0}; /* of those that give nothing as many bytes as of those that do */
    td_board_call *k = &j->c.call;
    k->bytes = (uint16_t)(j->columns * j->length);
    if (j->in) copy_in(j, payload, 0, j->length);
    td_board_arrive(&j->c.group->board, &p->round, k, payload, NULL, NULL);
}

/* The others learn why there is nothing to wait for. */
static void begin_refused(const td_group_job *j, td_piece *p)
{
    char why[TD_BOARD_PAYLOAD] = {0};
    td_board_call call = j->c.call;
    call.bytes = sizeof why;
    snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, j->refused.message);
    td_board_arrive(&j->c.group->board, &p->round, &call, why, NULL, NULL);
}

static void begin_in_slot(const td_group_job *j, td_piece *p, uint64_t from, uint64_t n)
{
    td_group *g = j->c.group;
    td_board_place place = (td_board_place)j->c.call.place;
    unsigned turn = (unsigned)(g->board.next % 2);
    for (uint32_t r = 0; r < g->size; r++) p->in[r] = input(g, place, r, turn);
    p->out = result(g, place, turn);
    if (j->in) copy_in(j, input(g, place, g->rank, turn), from, n);
    td_board_call call = j->c.call;
    call.count = j->columns * n / j->element;
    td_board_arrive(&g->board, &p->round, &call, NULL, p->in, p->out);
}

static void begin_in_buffer(const td_group_job *j, td_piece *p)
{
    td_group *g = j->c.group;
    const td_group_buffer *b = j->buffer;
    for (uint32_t r = 0; r < g->size; r++) p->in[r] = b->at + td_board_buffer_input(b->bytes, r) + j->offset;
    p->out = b->at + td_board_buffer_input(b->bytes, g->size) + j->offset;
    td_board_arrive(&g->board, &p->round, &j->c.call, NULL, p->in, p->out);
}

static void begin_piece(td_group_job *j)
{
    td_group *g = j->c.group;
    td_piece *p = piece_at(g, g->board.next);
    uint64_t from = j->begun * j->step;
    p->job = j;
    p->from = from;
    p->open = true;
    if (j->c.call.place == TD_BOARD_IN_CALL) begin_in_call(j, p);
    else if (j->refused.code) begin_refused(j, p);
    else if (j->buffer) begin_in_buffer(j, p);
    else begin_in_slot(j, p, from, piece_bytes(j, from));
    g->passes[1] = g->passes[0];
    g->passes[0] = td_board_in_slot(j->c.call.place) && !td_collective_sums(j->way);
    g->in_flight++;
    j->begun++;
}

static void begin_what_may(td_group *g)
{
    for (td_group_job *j = g->jobs; j && may_begin(g);) {
        if (j->begun < j->pieces) begin_piece(j);
        else j = j->next;
    }
}

static void take_from_call(const td_group_job *j, const td_piece *p)
{
    const td_group *g = j->c.group;
    const td_board_call *k = &j->c.call;
    const void *in[TD_BOARD_RANKS];
    uint32_t own = j->columns > 1 ? g->rank : 0;
    uint64_t number = p->round.number;
    for (uint32_t r = 0; r < g->size; r++) in[r] = td_board_payload(&g->board, &p->round, r);
    if (!td_collective_sums(j->way)) {
        take(j, number, in, NULL, 0, j->length);
    } else if (j->out && k->count) {
        uint32_t n = 0;
        for (uint32_t r = 0; r < g->size; r++)
            if (!td_page_is_out(g->board.page, r, number)) in[n++] = (const unsigned char *)in[r] + own * j->length;
        td_combine((td_reduce_op)k->op, (td_dtype)k->dtype, j->out, in, n, k->whole);
    }
}

/* ---- ends */

static void unlink_job(td_group *g, const td_group_job *j)
{
    td_group_job **at = &g->jobs;
    while (*at && *at != j) at = &(*at)->next;
    if (!*at) return;
    *at = j->next;
    if (g->last == &j->next) g->last = at;
}

/* With an error that says which call it was, and where. */
static void over(td_group_job *j, int rc)
{
    unlink_job(j->c.group, j);
    if (rc) {
        td_error why = *td_last_error();
        td_raise_error(&why, td_collective_name(j->c.call.kind), j->c.where);
        j->why = *td_last_error();
    }
    j->rc = rc;
    atomic_store(&j->over, true);
}

/* Results of rounds that it has begun are nobody's any more. */
static void disown(td_group *g, const td_group_job *j)
{
    for (unsigned i = 0; i < TD_IN_FLIGHT; i++)
        if (g->pieces[i].job == j) g->pieces[i].job = NULL;
}

int td_group_refuse(const td_group *g)
{
    return td_raise(TD_E_EPOCH, NULL, "group '%s' cannot go on before its members regroup; it failed before: %.300s",
                    g->name, g->broken.message);
}

void td_group_jobs_end(td_group *g, const char *why)
{
    td_error kept = *td_last_error();
    while (g->jobs) {
        td_group_job *j = g->jobs;
        disown(g, j);
        over(j, why ? td_raise(TD_E_CLOSED, NULL, "group '%s' %s before this call was over", g->name, why)
                    : td_group_refuse(g));
    }
    g->in_flight = 0;
    td_clear_error();
    if (kept.code) td_raise_error(&kept, NULL, NULL);
}

/* Whether others can still come to the end of it: all of it was given to them, or nothing, and it is the last one. */
static bool leaves_no_gap(const td_group *g, const td_group_job *j)
{
    return j->begun == j->pieces || (!j->begun && g->last == &j->next);
}

void td_group_job_drop(td_group_job *j)
{
    td_group *g = j->c.group;
    char call[128];
    bool gap = !leaves_no_gap(g, j);
    if (j->over) return;
    if (!j->begun) g->calls--; /* it was never made */
    disown(g, j);
    unlink_job(g, j);
    atomic_store(&j->over, true);
    if (!gap) return;
    td_fail(&g->broken, TD_E_EPOCH, "group '%s' cannot go on: this rank was stopped in the middle of %s", g->name,
            td_board_say_call(&j->c.call, call, sizeof call));
    td_group_jobs_end(g, NULL);
}

/* Its round is over. */
static void end_piece(td_group *g, td_piece *p, int rc)
{
    td_group_job *j = p->job;
    g->in_flight--;
    p->job = NULL;
    if (j && j->refused.code) { /* whatever the others come to */
        td_raise_error(&j->refused, NULL, NULL);
        over(j, j->refused.code);
    } else if (j && !rc) {
        if (j->c.call.place == TD_BOARD_IN_CALL) take_from_call(j, p);
        else take(j, p->round.number, p->in, p->out, p->from, piece_bytes(j, p->from));
        g->last_round = p->round.number;
        if (++j->taken == j->pieces) over(j, TD_OK);
    } else if (j) {
        disown(g, j);
        over(j, rc);
    }
    if (g->broken.code) td_group_jobs_end(g, NULL);
}

/* Until the oldest round is over, as long as `by` would wait; TD_OK: it is, whatever became of it. */
static int await_oldest(td_group *g, const td_group_call *by)
{
    td_piece *p = oldest(g);
    td_group_call c = p->job ? p->job->c : *by;
    if (!p->job) c.call = p->round.call, c.where = NULL;
    c.began_ms = by->began_ms;
    c.timeout_ms = by->timeout_ms;
    c.yields = by->yields;
    int rc = td_group_await_round(&c, p);
    if (rc && p->open) return rc; /* it is left alone */
    end_piece(g, p, rc);
    return TD_OK;
}

/* ---- what calls do with them */

int td_group_job_submit(td_group_job *j)
{
    td_group *g = j->c.group;
    td_board_call *k = &j->c.call;
    if (g->broken.code) return td_group_refuse(g);
    k->site = td_sites_number(&g->sites, j->c.where);
    k->place = j->buffer ? TD_BOARD_IN_BUFFER : place_of(j->columns * j->length);
    int rc = k->place == TD_BOARD_IN_LARGE ? td_group_need_large(g) : TD_OK;
    if (rc == TD_E_LOST || rc == TD_E_CANCELLED) return rc;
    if (rc) j->refused = *td_last_error();
    if (j->refused.code) k->place = TD_BOARD_REFUSED;
    enum { ALIGNED = 64 };
    uint64_t slot = k->place == TD_BOARD_IN_SMALL ? TD_BOARD_SMALL : TD_BOARD_LARGE;
    j->step = k->place == TD_BOARD_IN_LARGE ? slot / j->columns / ALIGNED * ALIGNED : j->length;
    j->pieces = k->place == TD_BOARD_IN_LARGE ? (j->length + j->step - 1) / j->step : 1;
    if (!g->last) g->last = &g->jobs;
    *g->last = j;
    g->last = &j->next;
    begin_what_may(g);
    return TD_OK;
}

int td_group_job_wait(td_group_job *j, const td_group_call *by)
{
    while (!j->over) {
        int rc = await_oldest(j->c.group, by);
        if (rc) return rc;
        begin_what_may(j->c.group);
    }
    return TD_OK;
}

bool td_group_job_poll(td_group_job *j)
{
    while (!j->over) {
        td_group *g = j->c.group;
        td_group_call by = j->c;
        if (td_board_poll(&g->board, &oldest(g)->round) == TD_OUTCOME_OPEN) return false;
        await_oldest(g, &by);
        begin_what_may(g);
    }
    return true;
}
