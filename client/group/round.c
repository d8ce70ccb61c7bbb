/* Collectives: what a rank gives goes into its slot, a round makes the result of all slots, and it is copied out.
 *
 * Up to 256 bytes go with the call itself, and each rank works the result out. Up to 64 KiB lie in small slots, one
 * round. More goes through large slots in pieces of 4 MiB, a round each. Of a sum two pieces are under way at once, so
 * a rank copies in and out while others add. What is only passed on (broadcast, all_gather) is read by the others from
 * its owner's slot after the round, until they come to the next one: there a piece is begun when the one before is
 * over, and a slot is written again two rounds later. */
#include "client/group/internal.h"

#include <stdio.h>

/* What a call moves: `in` is read, `out` is written. */
typedef struct job {
    td_group_call c;
    const unsigned char *in; /* NULL: this rank gives nothing */
    unsigned char *out;      /* NULL: it wants nothing */
    size_t element;          /* bytes */
} job;

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

static uint64_t slot_bytes(td_board_place place)
{
    return place == TD_BOARD_IN_SMALL ? TD_BOARD_SMALL : TD_BOARD_LARGE;
}

static td_board_place place_of(uint64_t bytes)
{
    if (bytes <= TD_BOARD_PAYLOAD) return TD_BOARD_IN_CALL;
    return bytes <= TD_BOARD_SMALL ? TD_BOARD_IN_SMALL : TD_BOARD_IN_LARGE;
}

/* ---- rounds */

static bool is_sum(const job *j)
{
    return j->c.call.kind == TD_COLL_ALL_REDUCE;
}

/* Rounds that were left alone when the program was interrupted come to their end first, the older one first: until
 * then others read what is about to be overwritten. */
static int settle(const td_group_call *c)
{
    td_group *g = c->group;
    for (unsigned i = 0; i < TD_IN_FLIGHT; i++) {
        td_piece *p = &g->pieces[(g->board.next + i) % TD_IN_FLIGHT];
        td_group_call left = *c;
        left.where = NULL;
        left.call = p->round.call;
        int rc = p->open ? td_group_await_round(&left, p) : TD_OK;
        if (rc) return rc;
    }
    return TD_OK;
}

static void begin_in_call(job *j, td_piece *p)
{
    td_group *g = j->c.group;
    const void *payload = j->in ? j->in : j->out; /* of those that give nothing as many bytes as of those that do */
    j->c.call.bytes = (uint16_t)(j->c.call.count * j->element);
    td_board_arrive(&g->board, &p->round, &j->c.call, payload, NULL, NULL);
    p->open = true;
}

/* `from`, `n`: the piece, in bytes of one rank. */
static void begin_in_slot(job *j, td_piece *p, uint64_t from, uint64_t n)
{
    td_group *g = j->c.group;
    td_board_place place = (td_board_place)j->c.call.place;
    unsigned turn = (unsigned)(g->board.next % 2);
    for (uint32_t r = 0; r < g->size; r++) p->in[r] = input(g, place, r, turn);
    p->out = result(g, place, turn);
    if (j->in) memcpy(input(g, place, g->rank, turn), j->in + from, n);
    td_board_call call = j->c.call;
    call.count = n / j->element;
    td_board_arrive(&g->board, &p->round, &call, NULL, p->in, p->out);
    p->open = true;
}

static void copy_passed_on(const job *j, const td_piece *p, uint64_t from, uint64_t n)
{
    const td_group *g = j->c.group;
    if (j->c.call.kind == TD_COLL_BROADCAST) {
        if (j->c.call.root != g->rank) memcpy(j->out + from, p->in[j->c.call.root], n);
        return;
    }
    uint64_t each = j->c.call.count * j->element;
    for (uint32_t r = 0; r < g->size; r++) memcpy(j->out + r * each + from, p->in[r], n);
}

static void take_from_slot(const job *j, const td_piece *p, uint64_t from, uint64_t n)
{
    if (is_sum(j)) memcpy(j->out + from, p->out, n);
    else copy_passed_on(j, p, from, n);
}

static void take_from_call(const job *j, const td_piece *p)
{
    const td_group *g = j->c.group;
    const td_board_call *k = &j->c.call;
    uint64_t n = k->count * j->element;
    const void *in[TD_BOARD_RANKS];
    if (!n) return;
    for (uint32_t r = 0; r < g->size; r++) in[r] = td_board_payload(&g->board, &p->round, r);
    if (is_sum(j)) td_combine((td_reduce_op)k->op, (td_dtype)k->dtype, j->out, in, g->size, k->count);
    else if (k->kind == TD_COLL_BROADCAST && k->root != g->rank) memcpy(j->out, in[k->root], n);
    for (uint32_t r = 0; k->kind == TD_COLL_ALL_GATHER && r < g->size; r++) memcpy(j->out + r * n, in[r], n);
}

static int run_in_call(job *j)
{
    td_piece *p = &j->c.group->pieces[j->c.group->board.next % TD_IN_FLIGHT];
    begin_in_call(j, p);
    int rc = td_group_await_round(&j->c, p);
    if (!rc) take_from_call(j, p);
    return rc;
}

/* The program was interrupted, or a round has failed, in the middle of a call of several. */
static int torn(job *j, int rc)
{
    td_group *g = j->c.group;
    char call[128];
    if (!g->broken.code)
        td_fail(&g->broken, TD_E_EPOCH, "group '%s' cannot go on: this rank was stopped in the middle of %s", g->name,
                td_board_say_call(&j->c.call, call, sizeof call));
    return rc;
}

/* Pieces k and k + 1 are under way while k is waited for; of what is passed on only k is. */
static int run_in_slots(job *j)
{
    td_group *g = j->c.group;
    uint64_t all = j->c.call.count * j->element, step = slot_bytes((td_board_place)j->c.call.place);
    uint64_t pieces = (all + step - 1) / step, begun = 0;
    uint64_t first = g->board.next;
    int rc;
    bool ahead = is_sum(j) && !g->read_by_others;
    g->read_by_others |= !is_sum(j); /* from the first of its rounds on, however it ends */
    for (uint64_t k = 0; k < pieces; k++) {
        for (; begun < pieces && begun <= k + ahead; begun++) {
            td_piece *p = &g->pieces[(first + begun) % TD_IN_FLIGHT];
            uint64_t from = begun * step, n = all - from < step ? all - from : step;
            begin_in_slot(j, p, from, n);
        }
        td_piece *p = &g->pieces[(first + k) % TD_IN_FLIGHT];
        if ((rc = td_group_await_round(&j->c, p))) return pieces > 1 ? torn(j, rc) : rc;
        take_from_slot(j, p, k * step, all - k * step < step ? all - k * step : step);
        ahead = is_sum(j);
    }
    g->read_by_others = !is_sum(j);
    return TD_OK;
}

/* ---- calls */

static int refuse(const td_group *g)
{
    return td_raise(TD_E_EPOCH, NULL, "group '%s' cannot go on, open another; it failed before: %.300s", g->name,
                    g->broken.message);
}

static int run(job *j)
{
    td_group *g = j->c.group;
    td_board_call *k = &j->c.call;
    if (g->broken.code) return refuse(g);
    j->c.began_ms = td_now_ms();
    if (j->c.timeout_ms < 0) j->c.timeout_ms = g->timeout_ms;
    k->nr = ++g->calls;
    k->site = td_sites_number(&g->sites, j->c.where);
    k->place = place_of(k->count * j->element);
    int rc = settle(&j->c);
    if (rc) return rc;
    if (k->place == TD_BOARD_IN_CALL) return run_in_call(j);
    if (k->place == TD_BOARD_IN_LARGE && (rc = td_group_need_large(g))) return rc;
    return run_in_slots(j);
}

/* The error says which call it was, and where. */
static int tell(const job *j, int rc)
{
    td_error why = *td_last_error();
    td_raise_error(&why, td_collective_name(j->c.call.kind), j->c.where);
    return rc;
}

static int call(job *j)
{
    td_group *g = j->c.group;
    if (!g) return td_raise(TD_E_INVALID, td_collective_name(j->c.call.kind), "the group is NULL");
    if (g->generation != td_fork_generation() || !td_fork_intact())
        return td_raise(TD_E_INVALID, td_collective_name(j->c.call.kind),
                        "this process was forked from a member of group '%s', and is none itself; open the group here",
                        g->name);
    td_step_aside();
    pthread_mutex_lock(&g->lock);
    int rc = run(j);
    if (rc) rc = tell(j, rc);
    pthread_mutex_unlock(&g->lock);
    td_step_back();
    return rc;
}

static bool is_dtype(td_dtype dtype)
{
    return dtype >= 0 && dtype < TD_DTYPE_COUNT;
}

static int check(const char *op, const td_group *g, td_dtype dtype, uint64_t count, const void *at)
{
    if (!g) return td_raise(TD_E_INVALID, op, "the group is NULL");
    if (!is_dtype(dtype)) return td_raise(TD_E_TYPE, op, "there is no dtype %d", (int)dtype);
    if (count && !at) return td_raise(TD_E_INVALID, op, "%llu elements at NULL", (unsigned long long)count);
    if (count > UINT64_MAX / 64 / TD_GROUP_RANKS)
        return td_raise(TD_E_INVALID, op, "%llu elements are more than a process can have", (unsigned long long)count);
    return TD_OK;
}

static job job_of(const char *where, td_group *g, td_collective kind, td_dtype dtype, uint64_t count, int timeout_ms)
{
    return (job){.c = {.group = g,
                       .where = where,
                       .call = {.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .count = count, .whole = count},
                       .timeout_ms = timeout_ms},
                 .element = dtype == TD_DTYPE_NONE ? 1 : td_dtype_size(dtype)};
}

TD_API int td_group_at_all_reduce(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                  uint64_t count, td_reduce_op op, int timeout_ms)
{
    int rc = check("all_reduce", g, dtype, count, in);
    if (!rc && count && !out) rc = td_raise(TD_E_INVALID, "all_reduce", "the result is to be at NULL");
    if (rc) return rc;
    if (!td_combine_takes(op, dtype))
        return td_raise(TD_E_TYPE, "all_reduce", "there is no %s of %s", td_reduce_op_name(op), td_dtype_name(dtype));
    job j = job_of(where, g, TD_COLL_ALL_REDUCE, dtype, count, timeout_ms);
    j.c.call.op = (uint8_t)op;
    j.in = in;
    j.out = out;
    return call(&j);
}

TD_API int td_group_at_broadcast(const char *where, td_group *g, void *at, td_dtype dtype, uint64_t count,
                                 uint32_t root, int timeout_ms)
{
    int rc = check("broadcast", g, dtype, count, at);
    if (rc) return rc;
    if (root >= g->size)
        return td_raise(TD_E_INVALID, "broadcast", "group '%s' of %u has ranks 0 to %u; there is no rank %u", g->name,
                        g->size, g->size - 1, root);
    job j = job_of(where, g, TD_COLL_BROADCAST, dtype, count, timeout_ms);
    j.c.call.root = (uint16_t)root;
    j.in = root == g->rank ? at : NULL;
    j.out = at;
    return call(&j);
}

TD_API int td_group_at_all_gather(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                  uint64_t count, int timeout_ms)
{
    int rc = check("all_gather", g, dtype, count, in);
    if (!rc && count && !out) rc = td_raise(TD_E_INVALID, "all_gather", "the result is to be at NULL");
    if (rc) return rc;
    job j = job_of(where, g, TD_COLL_ALL_GATHER, dtype, count, timeout_ms);
    j.in = in;
    j.out = out;
    return call(&j);
}

TD_API int td_group_at_barrier(const char *where, td_group *g, int timeout_ms)
{
    job j = job_of(where, g, TD_COLL_BARRIER, TD_DTYPE_NONE, 0, timeout_ms);
    return call(&j);
}
