/* The calls of a group, and those that are begun and waited for later. */
#include "client/group/job.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- which rank gives what */

static bool has_columns(td_collective kind)
{
    return kind == TD_COLL_REDUCE_SCATTER || kind == TD_COLL_SCATTER || kind == TD_COLL_ALL_TO_ALL;
}

/* Only one rank gives, or gets. */
static bool is_from_root(td_collective kind)
{
    return kind == TD_COLL_BROADCAST || kind == TD_COLL_SCATTER;
}

static bool is_to_root(td_collective kind)
{
    return kind == TD_COLL_REDUCE || kind == TD_COLL_GATHER;
}

static int check_count(const char *op, uint64_t count)
{
    if (count <= UINT64_MAX / 64 / TD_GROUP_RANKS) return TD_OK;
    return td_raise(TD_E_INVALID, op, "%llu elements are more than a process can have", (unsigned long long)count);
}

static int check_memory(const char *op, td_dtype dtype, uint64_t count)
{
    if (dtype < 0 || dtype >= TD_DTYPE_COUNT) return td_raise(TD_E_TYPE, op, "there is no dtype %d", (int)dtype);
    return check_count(op, count);
}

static int check_root(const char *op, const td_group *g, uint32_t root)
{
    if (root < g->size) return TD_OK;
    return td_raise(TD_E_INVALID, op, "group '%s' of %u has ranks 0 to %u; there is no rank %u", g->name, g->size,
                    g->size - 1, root);
}

static int check_places(const td_group_job *j, const char *op, uint64_t count)
{
    if (count && !j->in && !(is_from_root(j->way) && j->c.call.root != j->c.group->rank))
        return td_raise(TD_E_INVALID, op, "%llu elements at NULL", (unsigned long long)count);
    if (count && !j->out && !(is_to_root(j->way) && j->c.call.root != j->c.group->rank) &&
        !(j->way == TD_COLL_BROADCAST && j->c.call.root == j->c.group->rank))
        return td_raise(TD_E_INVALID, op, "the result is to be at NULL");
    return TD_OK;
}

typedef struct asked {
    td_collective kind;
    const void *in;
    void *out;
    td_dtype dtype;
    uint64_t count;
    int op;
    uint32_t root;
} asked;

static int make(td_group_job *j, const char *where, td_group *g, const asked *a)
{
    const char *op = td_collective_name(a->kind);
    bool sums = td_collective_sums(a->kind), rooted = is_from_root(a->kind) || is_to_root(a->kind);
    if (!g) return td_raise(TD_E_INVALID, op, "the group is NULL");
    if (a->kind <= TD_COLL_NONE || a->kind >= TD_COLL_COUNT)
        return td_raise(TD_E_INVALID, NULL, "there is no collective %d", (int)a->kind);
    bool barrier = a->kind == TD_COLL_BARRIER;
    uint64_t count = barrier ? 0 : a->count;
    int rc = barrier ? TD_OK : check_memory(op, a->dtype, count);
    if (!rc && rooted) rc = check_root(op, g, a->root);
    if (!rc && sums && !td_combine_takes((unsigned)a->op, a->dtype))
        rc = td_raise(TD_E_TYPE, op, "there is no %s of %s", td_reduce_op_name((unsigned)a->op),
                      td_dtype_name(a->dtype));
    if (rc) return rc;
    td_dtype dtype = barrier ? TD_DTYPE_NONE : a->dtype;
    bool root = a->root == g->rank;
    *j = (td_group_job){.c = {.group = g, .where = where, .epoch = g->epoch},
                        .way = a->kind,
                        .in = barrier || (is_from_root(a->kind) && !root) ? NULL : a->in,
                        .out = barrier || (is_to_root(a->kind) && !root) ? NULL : a->out,
                        .element = barrier ? 1 : td_dtype_size(dtype),
                        .columns = has_columns(a->kind) ? g->size : 1};
    j->c.call = (td_board_call){.kind = (uint8_t)a->kind,
                                .dtype = (uint8_t)dtype,
                                .op = (uint8_t)(sums ? a->op : 0),
                                .root = (uint16_t)(rooted ? a->root : 0),
                                .count = count * j->columns,
                                .whole = count};
    j->length = count * j->element;
    rc = check_places(j, op, count);
    if (a->kind == TD_COLL_BROADCAST && root) j->out = NULL; /* it lies there */
    return rc;
}

/* ---- under the lock */

int td_group_refuse_child(const td_group *g, const char *op)
{
    return td_raise(TD_E_INVALID, op,
                    "this process was forked from a member of group '%s', and is none itself; open the group here",
                    g->name);
}

static int enter(td_group *g, const char *op)
{
    if (!td_group_is_own(g)) return td_group_refuse_child(g, op);
    td_step_aside();
    td_group_lock(g);
    return TD_OK;
}

static void leave(td_group *g)
{
    pthread_mutex_unlock(&g->lock);
    td_step_back();
}

/* The error says which call it was, and where. */
static int tell(const td_group_job *j, int rc)
{
    td_error why = *td_last_error();
    td_raise_error(&why, td_collective_name(j->c.call.kind), j->c.where);
    return rc;
}

/* Ranks do not agree on what they have told each other: all of them find that, and no more calls can be made. */
static int disagree(const td_group_job *j, int rc)
{
    td_group *g = j->c.group;
    if (rc != TD_E_MISMATCH || g->broken.code) return rc;
    g->broken = *td_last_error();
    return tell(j, rc);
}

static int submit(td_group_job *j)
{
    td_group *g = j->c.group;
    j->c.call.nr = g->calls + 1;
    int rc = j->c.epoch == g->epoch ? td_group_job_submit(j)
                                    : td_raise(TD_E_EPOCH, NULL, "another thread of this rank regrouped meanwhile");
    if (!rc) g->calls++;
    return rc ? tell(j, rc) : TD_OK;
}

/* From its beginning to its end; a signal may stop it. */
static int run(td_group_job *j)
{
    int rc = submit(j);
    if (rc) return rc;
    rc = td_group_job_wait(j, &j->c);
    if (!rc) return j->rc;
    tell(j, rc);
    td_group_job_drop(j);
    return rc;
}

static void begin_clock(td_group_job *j, int timeout_ms)
{
    j->c.began_ms = td_now_ms();
    j->c.timeout_ms = timeout_ms < 0 ? j->c.group->timeout_ms : timeout_ms;
}

static int call(const char *where, td_group *g, const asked *a, int timeout_ms)
{
    td_group_job j;
    int rc = make(&j, where, g, a);
    if (!rc) rc = enter(g, td_collective_name(a->kind));
    if (rc) return rc;
    begin_clock(&j, timeout_ms);
    rc = run(&j);
    leave(g);
    return rc;
}

/* ---- calls */

TD_API int td_group_at_all_reduce(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                  uint64_t count, td_reduce_op op, int timeout_ms)
{
    return call(where, g, &(asked){TD_COLL_ALL_REDUCE, in, out, dtype, count, (int)op, 0}, timeout_ms);
}

TD_API int td_group_at_reduce(const char *where, td_group *g, const void *in, void *out, td_dtype dtype, uint64_t count,
                              td_reduce_op op, uint32_t root, int timeout_ms)
{
    return call(where, g, &(asked){TD_COLL_REDUCE, in, out, dtype, count, (int)op, root}, timeout_ms);
}

TD_API int td_group_at_reduce_scatter(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                      uint64_t count, td_reduce_op op, int timeout_ms)
{
    return call(where, g, &(asked){TD_COLL_REDUCE_SCATTER, in, out, dtype, count, (int)op, 0}, timeout_ms);
}

TD_API int td_group_at_broadcast(const char *where, td_group *g, void *at, td_dtype dtype, uint64_t count,
                                 uint32_t root, int timeout_ms)
{
    return call(where, g, &(asked){TD_COLL_BROADCAST, at, at, dtype, count, 0, root}, timeout_ms);
}

TD_API int td_group_at_scatter(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                               uint64_t count, uint32_t root, int timeout_ms)
{
    return call(where, g, &(asked){TD_COLL_SCATTER, in, out, dtype, count, 0, root}, timeout_ms);
}

TD_API int td_group_at_gather(const char *where, td_group *g, const void *in, void *out, td_dtype dtype, uint64_t count,
                              uint32_t root, int timeout_ms)
{
    return call(where, g, &(asked){TD_COLL_GATHER, in, out, dtype, count, 0, root}, timeout_ms);
}

TD_API int td_group_at_all_gather(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                  uint64_t count, int timeout_ms)
{
    return call(where, g, &(asked){TD_COLL_ALL_GATHER, in, out, dtype, count, 0, 0}, timeout_ms);
}

TD_API int td_group_at_all_to_all(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                  uint64_t count, int timeout_ms)
{
    return call(where, g, &(asked){TD_COLL_ALL_TO_ALL, in, out, dtype, count, 0, 0}, timeout_ms);
}

TD_API int td_group_at_barrier(const char *where, td_group *g, int timeout_ms)
{
    return call(where, g, &(asked){TD_COLL_BARRIER, NULL, NULL, TD_DTYPE_NONE, 0, 0, 0}, timeout_ms);
}

/* ---- an all_to_all in which each rank says how much it gives to whom
 *
 * Two jobs of one call: first all ranks tell what they send and what they expect, then they do it. */

static int check_counts(const td_group *g, const uint64_t *counts, const void *at, uint64_t *sum)
{
    *sum = 0;
    for (uint32_t r = 0; r < g->size; r++) {
        int rc = check_count("all_to_all", counts[r]);
        if (rc) return rc;
        *sum += counts[r];
    }
    return *sum && !at ? td_raise(TD_E_INVALID, "all_to_all", "%llu elements at NULL", (unsigned long long)*sum)
                       : TD_OK;
}

/* Of the call that was done last. */
static bool was_out(const td_group *g, uint32_t rank)
{
    return td_page_is_out(g->board.page, rank, g->last_round);
}

/* `told`: of each rank what it sends to each, then what it expects of each. All ranks find the same. One that has gone
 * has told nothing: it gives zeros, as many as are expected of it, and takes what it is given. */
static int check_agreed(td_group *g, uint64_t *told)
{
    uint32_t n = g->size;
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t to = 0; to < n; to++) {
            uint64_t expected = told[2 * n * to + n + from], *row = &told[2 * n * from];
            if (was_out(g, from)) row[to] = expected;
            uint64_t sent = row[to];
            if (sent != expected && !was_out(g, to))
                return td_raise(TD_E_MISMATCH, NULL, "rank %u gives %llu elements to rank %u, which expects %llu", from,
                                (unsigned long long)sent, to, (unsigned long long)expected);
        }
    return TD_OK;
}

/* The lengths of all in bytes, [from * size + to]; the longest. */
static uint64_t lengths_of(const td_group *g, uint64_t *told, size_t element)
{
    uint32_t n = g->size;
    uint64_t longest = 0;
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t to = 0; to < n; to++) {
            uint64_t length = told[2 * n * from + to] * element;
            told[n * from + to] = length;
            if (length > longest) longest = length;
        }
    return longest;
}

enum { OF_OWN_COUNTS = 1 }; /* in the `op` of an all_to_all: another call than one of equal counts */

static int tell_counts(td_group_job *j, const uint64_t *given, uint64_t *told)
{
    td_group_job first = *j;
    first.way = TD_COLL_ALL_GATHER;
    first.in = (const unsigned char *)given;
    first.out = (unsigned char *)told;
    first.element = 1;
    first.columns = 1;
    first.length = 2 * j->c.group->size * sizeof *given;
    first.c.call.count = first.length;
    int rc = run(&first);
    if (!rc) rc = check_agreed(j->c.group, told);
    return disagree(j, rc);
}

static int exchange(td_group_job *j, const uint64_t *given, uint64_t *told)
{
    int rc = tell_counts(j, given, told);
    if (rc) return rc;
    j->length = lengths_of(j->c.group, told, j->element);
    j->lengths = told;
    j->c.call.count = j->length / j->element * j->columns;
    j->c.group->calls--; /* it is the same call */
    return run(j);
}

TD_API int td_group_at_all_to_all_of(const char *where, td_group *g, const void *in, const uint64_t *in_counts,
                                     void *out, const uint64_t *out_counts, td_dtype dtype, int timeout_ms)
{
    td_group_job j;
    uint64_t gives, gets;
    int rc = make(&j, where, g, &(asked){TD_COLL_ALL_TO_ALL, in, out, dtype, 0, 0, 0});
    if (!rc) rc = check_counts(g, in_counts, in, &gives);
    if (!rc) rc = check_counts(g, out_counts, out, &gets);
    if (rc) return rc;
    size_t n = g->size;
    uint64_t *given = calloc(2 * n, sizeof *given), *told = calloc(2 * n * n, sizeof *told);
    if (!given || !told) rc = td_raise(TD_E_SYSTEM, "all_to_all", "no memory for the counts of %zu ranks", n);
    if (!rc) {
        memcpy(given, in_counts, n * sizeof *given);
        memcpy(given + n, out_counts, n * sizeof *given);
        rc = enter(g, "all_to_all");
    }
    if (!rc) {
        j.c.call.op = OF_OWN_COUNTS;
        begin_clock(&j, timeout_ms);
        rc = exchange(&j, given, told);
        leave(g);
    }
    free(given);
    free(told);
    return rc;
}

/* ---- buffers
 *
 * Three calls of all ranks make one: they say how large it is to be, map it, and say that they have. */

enum { OF_A_BUFFER = 1 }; /* in the `op` of an all_gather: another call than the program's own */

static int agree_on_bytes(td_group_buffer *b, const char *where)
{
    td_group *g = b->group;
    uint64_t all[TD_GROUP_RANKS];
    td_group_job j;
    int rc = make(&j, where, g, &(asked){TD_COLL_ALL_GATHER, &b->bytes, all, TD_INT64, 1, 0, 0});
    if (rc) return rc;
    j.c.call.op = OF_A_BUFFER;
    begin_clock(&j, -1);
    rc = run(&j);
    uint32_t first = 0;
    while (!rc && first < g->rank && was_out(g, first)) first++;
    for (uint32_t r = first; r < g->size && !rc; r++)
        if (all[r] != all[first] && !was_out(g, r))
            rc = td_raise(TD_E_MISMATCH, NULL, "rank %u makes a buffer of %llu bytes, and rank %u one of %llu", first,
                          (unsigned long long)all[first], r, (unsigned long long)all[r]);
    return disagree(&j, rc);
}

static int make_buffer(td_group_buffer *b, const char *where)
{
    td_group_job j;
    int rc = agree_on_bytes(b, where);
    if (rc) return rc;
    if (b->group->buffers == TD_BUFFERS_MOST) /* so it is in all ranks */
        return td_raise(TD_E_BUSY, "buffer", "group '%s' has %d buffers in this epoch, and can have no more",
                        b->group->name, TD_BUFFERS_MOST);
    b->number = b->group->buffers++;
    rc = td_group_map_buffer(b->group, b);
    td_error why = *td_last_error();
    if (rc == TD_E_LOST || rc == TD_E_CANCELLED) return rc;
    if (make(&j, where, b->group, &(asked){.kind = TD_COLL_BARRIER})) return td_last_error()->code;
    if (rc) j.refused = why;
    begin_clock(&j, -1);
    return run(&j);
}

TD_API td_group_buffer *td_group_at_buffer(const char *where, td_group *g, uint64_t bytes)
{
    if (!g || !bytes || bytes > INT64_MAX / (2 * TD_GROUP_RANKS)) {
        td_raise(TD_E_INVALID, "buffer", g ? "a buffer of %llu bytes" : "the group is NULL", (unsigned long long)bytes);
        return NULL;
    }
    td_group_buffer *b = calloc(1, sizeof *b);
    int rc = b ? enter(g, "buffer") : td_raise(TD_E_SYSTEM, "buffer", "no memory for a buffer's handle");
    if (!rc) {
        *b = (td_group_buffer){.group = g, .epoch = g->epoch, .size = g->size, .rank = g->rank, .bytes = bytes};
        rc = make_buffer(b, where);
        leave(g);
    }
    if (!rc) return b;
    td_error why = *td_last_error();
    td_buffer_free(b);
    td_raise_error(&why, NULL, NULL);
    return NULL;
}

TD_API void *td_buffer_input(const td_group_buffer *b)
{
    return b->at + td_board_buffer_input(b->bytes, b->rank);
}

TD_API void *td_buffer_result(const td_group_buffer *b)
{
    return b->at + td_board_buffer_input(b->bytes, b->size);
}

TD_API void td_buffer_free(td_group_buffer *b)
{
    if (b && b->mapping) munmap(b->mapping, b->mapped);
    free(b);
}

TD_API int td_buffer_at_all_reduce(const char *where, td_group_buffer *b, uint64_t offset, td_dtype dtype,
                                   uint64_t count, td_reduce_op op, int timeout_ms)
{
    td_group *g = b->group;
    td_group_job j;
    int rc = make(&j, where, g,
                  &(asked){TD_COLL_ALL_REDUCE, td_buffer_input(b), td_buffer_result(b), dtype, count, (int)op, 0});
    if (!rc && (offset % j.element || offset > b->bytes || j.length > b->bytes - offset))
        rc = td_raise(TD_E_INVALID, "all_reduce", "%llu elements from byte %llu on are not in a buffer of %llu bytes",
                      (unsigned long long)count, (unsigned long long)offset, (unsigned long long)b->bytes);
    if (!rc) rc = enter(g, "all_reduce");
    if (rc) return rc;
    if (b->epoch != g->epoch) {
        rc = td_raise(TD_E_EPOCH, "all_reduce", "the buffer is of an epoch of group '%s' that is over; make another",
                      g->name);
    } else {
        j.buffer = b;
        j.offset = offset;
        j.in = NULL;
        j.out = NULL; /* nothing is copied */
        j.c.call.root = (uint16_t)b->number;
        j.c.call.offset = offset;
        begin_clock(&j, timeout_ms);
        rc = run(&j);
    }
    leave(g);
    return rc;
}

/* ---- calls that are begun, and waited for later */

struct td_pending {
    td_group_job job;
    char where[TD_SITE_TEXT]; /* the text may be gone by then */
};

TD_API td_pending *td_group_at_begin(const char *where, td_group *g, td_collective kind, const void *in, void *out,
                                     td_dtype dtype, uint64_t count, td_reduce_op op, uint32_t root)
{
    td_pending *p = calloc(1, sizeof *p);
    int rc = p ? make(&p->job, where, g, &(asked){kind, in, out, dtype, count, (int)op, root})
               : td_raise(TD_E_SYSTEM, td_collective_name(kind), "no memory for a call");
    if (!rc) rc = enter(g, td_collective_name(kind));
    if (!rc) {
        begin_clock(&p->job, -1);
        rc = submit(&p->job);
        p->job.c.yields = true;
        p->job.c.where = where ? strncpy(p->where, where, sizeof p->where - 1) : NULL;
        leave(g);
    }
    if (!rc) return p;
    free(p);
    return NULL;
}

TD_API bool td_pending_done(td_pending *p)
{
    td_group *g = p->job.c.group;
    if (p->job.over) return true;
    if (!td_group_is_own(g)) return false;
    if (pthread_mutex_trylock(&g->lock)) return false; /* somebody waits, and works on it */
    td_error kept = *td_last_error();
    bool over = td_group_job_poll(&p->job);
    pthread_mutex_unlock(&g->lock);
    td_clear_error();
    if (kept.code) td_raise_error(&kept, NULL, NULL);
    return over;
}

/* Whoever wants the lock gets it now. */
static void give_way(td_group *g)
{
    pthread_mutex_unlock(&g->lock);
    while (atomic_load(&g->wanted)) sched_yield();
    td_group_lock(g);
}

TD_API int td_pending_wait(td_pending *p, int timeout_ms)
{
    td_group_job *j = &p->job;
    td_group *g = j->c.group;
    int rc = TD_OK;
    if (!j->over) {
        rc = enter(g, td_collective_name(j->c.call.kind));
        if (rc) return rc;
        begin_clock(j, timeout_ms);
        while ((rc = td_group_job_wait(j, &j->c)) == TD_GROUP_WANTED) give_way(g);
        if (rc) tell(j, rc);
        leave(g);
    }
    if (!rc && j->rc) {
        td_raise_error(&j->why, NULL, NULL);
        rc = j->rc;
    }
    return rc;
}

TD_API void td_pending_free(td_pending *p)
{
    if (!p) return;
    td_group *g = p->job.c.group;
    if (!p->job.over && td_group_is_own(g) && !enter(g, NULL)) {
        td_group_job_drop(&p->job);
        leave(g);
    }
    free(p);
}
