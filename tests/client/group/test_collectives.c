/* All collectives with real processes: against what each rank can work out for itself, at sizes on both sides of each
 * threshold; counts that differ by rank; calls that are begun and waited for later, in any order, dropped, or left. */
#include "tests/client/group/crew.h"

#include <pthread.h>

/* Elements of one column: with the call (64 in all), in small slots (16,384 in all), in large ones (1,048,576). */
static const uint64_t sizes[] = {1, 21, 22, 64, 65, 5461, 5462, 16384, 16385, 349525, 349526, 1048577, 0};
enum { SIZES = sizeof sizes / sizeof sizes[0], LONGEST = 1048577 };

static const td_collective kinds[] = {TD_COLL_REDUCE,         TD_COLL_ALL_TO_ALL, TD_COLL_BROADCAST,
                                      TD_COLL_REDUCE_SCATTER, TD_COLL_GATHER,     TD_COLL_SCATTER,
                                      TD_COLL_ALL_REDUCE,     TD_COLL_ALL_GATHER, TD_COLL_BARRIER};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A call of a rank: what it gives, and what it gets. */
typedef struct one {
    td_collective kind;
    uint64_t n, count;
    uint32_t root;
    float *in, *out;
    uint64_t gets; /* elements */
} one;

static bool has_columns(td_collective kind)
{
    return kind == TD_COLL_REDUCE_SCATTER || kind == TD_COLL_SCATTER || kind == TD_COLL_ALL_TO_ALL;
}

static uint64_t gets(const crew *c, const one *x, uint32_t rank)
{
    switch (x->kind) {
    case TD_COLL_BARRIER: return 0;
    case TD_COLL_REDUCE: return rank == x->root ? x->count : 0;
    case TD_COLL_GATHER: return rank == x->root ? x->count * c->size : 0;
    case TD_COLL_ALL_GATHER:
    case TD_COLL_ALL_TO_ALL: return x->count * c->size;
    default: return x->count;
    }
}

/* Element i of what this rank is to get. */
static float wanted(const crew *c, const one *x, uint32_t rank, uint64_t i)
{
    switch (x->kind) {
    case TD_COLL_BROADCAST: return given(c, x->root, x->n, i);
    case TD_COLL_SCATTER: return given(c, x->root, x->n, rank * x->count + i);
    case TD_COLL_GATHER:
    case TD_COLL_ALL_GATHER: return given(c, (uint32_t)(i / x->count), x->n, i % x->count);
    case TD_COLL_ALL_TO_ALL: return given(c, (uint32_t)(i / x->count), x->n, rank * x->count + i % x->count);
    case TD_COLL_REDUCE_SCATTER: return expected_sum(c, x->n, rank * x->count + i);
    default: return expected_sum(c, x->n, i);
    }
}

static bool make(one *x, const crew *c, uint32_t rank, td_collective kind, uint64_t n, uint64_t count)
{
    uint64_t gives = kind == TD_COLL_BARRIER ? 0 : count * (has_columns(kind) ? c->size : 1);
    *x = (one){.kind = kind, .n = n, .count = count, .root = (uint32_t)(mix(n) % c->size)};
    x->gets = gets(c, x, rank);
    x->in = malloc(gives * sizeof(float) + 1);
    x->out = malloc(x->gets * sizeof(float) + 1);
    if (!x->in || !x->out) return false;
    for (uint64_t i = 0; i < gives; i++) x->in[i] = given(c, rank, n, i);
    for (uint64_t i = 0; i < x->gets; i++) x->out[i] = -1;
    if (kind == TD_COLL_BROADCAST && rank == x->root) memcpy(x->out, x->in, count * sizeof(float));
    return true;
}

static bool is_right(const one *x, const crew *c, uint32_t rank)
{
    for (uint64_t i = 0; i < x->gets; i++) {
        float want = wanted(c, x, rank, i);
        if (memcmp(&x->out[i], &want, sizeof want) == 0) continue;
        fprintf(stderr, "collective %d of %llu, call %llu, rank %u: number %llu is %g, expected %g\n", (int)x->kind,
                (unsigned long long)x->count, (unsigned long long)x->n, rank, (unsigned long long)i, (double)x->out[i],
                (double)want);
        return false;
    }
    return true;
}

static void drop(one *x)
{
    free(x->in);
    free(x->out);
}

static int call(td_group *g, const one *x)
{
    switch (x->kind) {
    case TD_COLL_ALL_REDUCE: return td_group_all_reduce(g, x->in, x->out, TD_FLOAT32, x->count, TD_SUM, -1);
    case TD_COLL_REDUCE: return td_group_reduce(g, x->in, x->out, TD_FLOAT32, x->count, TD_SUM, x->root, -1);
    case TD_COLL_REDUCE_SCATTER: return td_group_reduce_scatter(g, x->in, x->out, TD_FLOAT32, x->count, TD_SUM, -1);
    case TD_COLL_BROADCAST: return td_group_broadcast(g, x->out, TD_FLOAT32, x->count, x->root, -1);
    case TD_COLL_SCATTER: return td_group_scatter(g, x->in, x->out, TD_FLOAT32, x->count, x->root, -1);
    case TD_COLL_GATHER: return td_group_gather(g, x->in, x->out, TD_FLOAT32, x->count, x->root, -1);
    case TD_COLL_ALL_GATHER: return td_group_all_gather(g, x->in, x->out, TD_FLOAT32, x->count, -1);
    case TD_COLL_ALL_TO_ALL: return td_group_all_to_all(g, x->in, x->out, TD_FLOAT32, x->count, -1);
    default: return td_group_barrier(g, -1);
    }
}

static td_pending *begin(td_group *g, const one *x)
{
    const void *in = x->kind == TD_COLL_BROADCAST ? x->out : x->in;
    return td_group_begin(g, x->kind, in, x->out, TD_FLOAT32, x->count, TD_SUM, x->root);
}

/* ---- each at each size */

static bool of_all_sizes(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    uint64_t n = 0;
    bool right = true;
    for (int s = 0; s < SIZES && right; s++)
        for (int k = 0; k < KINDS && right; k++) {
            one x = {0};
            right =
                make(&x, c, rank, kinds[k], ++n, sizes[(s + 3 * k) % SIZES]) && !call(g, &x) && is_right(&x, c, rank);
            drop(&x);
        }
    return right;
}

static void collectives_of_all_sizes(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    enum { LEAST = 2, MOST_RANKS = 3 }; /* they take long, and see no more in more */
#else
    enum { LEAST = 1, MOST_RANKS = 4 };
#endif
    for (uint32_t size = LEAST; size <= MOST_RANKS; size++)
        run_all(&(crew){.name = "kinds",
                        .size = size,
                        .timeout_ms = TEST_LONG_MS,
                        .seed = size,
                        .run = of_all_sizes,
                        .except = -1});
}

/* In place: the result lies where what is given lies. */
static bool in_place(td_group *g, const crew *c)
{
    static const uint64_t counts[] = {3, 3000, 700000};
    uint32_t rank = td_group_rank(g);
    bool right = true;
    for (int k = 0; k < 3 && right; k++) {
        one x = {0};
        right = make(&x, c, rank, TD_COLL_ALL_TO_ALL, 50 + k, counts[k]) &&
                !td_group_all_to_all(g, x.in, x.in, TD_FLOAT32, x.count, -1);
        if (right) memcpy(x.out, x.in, x.gets * sizeof(float));
        right = right && is_right(&x, c, rank);
        drop(&x);
        one y = {0};
        right = right && make(&y, c, rank, TD_COLL_REDUCE_SCATTER, 60 + k, counts[k]) &&
                !td_group_reduce_scatter(g, y.in, y.in + rank * y.count, TD_FLOAT32, y.count, TD_SUM, -1);
        if (right) memcpy(y.out, y.in + rank * y.count, y.gets * sizeof(float));
        right = right && is_right(&y, c, rank);
        drop(&y);
        one z = {0};
        float *all = calloc(c->size * counts[k], sizeof *all);
        right = right && all && make(&z, c, rank, TD_COLL_ALL_GATHER, 70 + k, counts[k]);
        if (right) memcpy(all + rank * z.count, z.in, z.count * sizeof(float));
        right = right && !td_group_all_gather(g, all + rank * z.count, all, TD_FLOAT32, z.count, -1);
        if (right) memcpy(z.out, all, z.gets * sizeof(float));
        right = right && is_right(&z, c, rank);
        free(all);
        drop(&z);
    }
    return right;
}

static void results_in_place(void)
{
    run_all(&(crew){.name = "place", .size = 3, .timeout_ms = TEST_LONG_MS, .seed = 5, .run = in_place, .except = -1});
}

/* ---- an all_to_all of different counts */

static uint64_t count_of(uint64_t n, uint32_t from, uint32_t to)
{
    static const uint64_t most[] = {8, 3000, 400000};
    uint64_t x = mix(n * 1000 + from * 32 + to);
    return x % 4 ? x % most[n % 3] : 0;
}

static bool exchange(td_group *g, const crew *c, uint64_t n)
{
    uint32_t rank = td_group_rank(g);
    uint64_t in_counts[MOST], out_counts[MOST], gives = 0, takes = 0;
    for (uint32_t r = 0; r < c->size; r++) {
        gives += in_counts[r] = count_of(n, rank, r);
        takes += out_counts[r] = count_of(n, r, rank);
    }
    float *in = malloc(gives * sizeof *in + 1), *out = malloc(takes * sizeof *out + 1);
    bool right = in && out;
    for (uint64_t i = 0; i < gives && right; i++) in[i] = given(c, rank, n, i);
    right = right && !td_group_all_to_all_of(g, in, in_counts, out, out_counts, TD_FLOAT32, -1);
    uint64_t at = 0;
    for (uint32_t r = 0; r < c->size && right; r++) {
        uint64_t from = 0;
        for (uint32_t s = 0; s < rank; s++) from += count_of(n, r, s);
        for (uint64_t i = 0; i < out_counts[r] && right; i++) right = out[at + i] == given(c, r, n, from + i);
        at += out_counts[r];
    }
    free(in);
    free(out);
    return right;
}

static bool exchanges(td_group *g, const crew *c)
{
    for (uint64_t n = 0; n < 30; n++)
        if (!exchange(g, c, n)) return false;
    uint64_t in_counts[MOST] = {1, 2, 3, 4}, out_counts[MOST] = {0};
    float v[16] = {0}, w[16];
    for (uint32_t r = 0; r < c->size; r++) out_counts[r] = td_group_rank(g) + 1;
    if (td_group_rank(g) == 2) out_counts[1]++; /* rank 1 gives 3 */
    return td_group_all_to_all_of(g, v, in_counts, w, out_counts, TD_FLOAT32, -1) == TD_E_MISMATCH &&
           strstr(td_last_error()->message, "rank 1 gives 3 elements to rank 2, which expects 4") &&
           td_group_barrier(g, -1) == TD_E_EPOCH;
}

static void counts_that_differ(void)
{
    for (uint32_t size = 3; size <= 4; size++)
        run_all(&(crew){
            .name = "counts", .size = size, .timeout_ms = TEST_LONG_MS, .seed = size, .run = exchanges, .except = -1});
}

/* ---- calls that are begun */

enum { BEGUN = 24 };

/* All are begun, some calls that wait stand between them, and they are waited for in an order of this rank's own. */
static bool begin_and_wait(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    one x[BEGUN] = {{0}};
    td_pending *p[BEGUN] = {NULL};
    bool right = true;
    for (int i = 0; i < BEGUN && right; i++) {
        uint64_t n = (uint64_t)i + 100;
        right = make(&x[i], c, rank, kinds[mix(n + c->seed) % KINDS], n, sizes[mix(n * 3 + c->seed) % SIZES] % 200000);
        if (mix(n * 7) % 4) right = right && (p[i] = begin(g, &x[i]));
        else right = right && !call(g, &x[i]) && is_right(&x[i], c, rank);
    }
    for (int i = 0; i < BEGUN && right; i++) {
        int k = (int)((unsigned)i * (2 * rank + 1) * 5 % BEGUN); /* not of all: the others are done by then, or below */
        if (!p[k]) continue;
        if (i % 3) right = !td_pending_wait(p[k], -1);
        else
            while (!td_pending_done(p[k])) sched_yield();
        right = right && !td_pending_wait(p[k], -1) && td_pending_done(p[k]) && is_right(&x[k], c, rank);
    }
    for (int i = 0; i < BEGUN; i++) {
        right = right && (!p[i] || !td_pending_wait(p[i], -1)) && is_right(&x[i], c, rank);
        td_pending_free(p[i]);
        drop(&x[i]);
    }
    return right && !td_group_barrier(g, -1);
}

static void calls_begun_and_waited_for(void)
{
    uint64_t first = said_seed();
    for (uint64_t seed = first; seed < first + 6; seed++)
        run_all(&(crew){.name = "begun",
                        .size = 2 + (uint32_t)seed % 3,
                        .timeout_ms = TEST_LONG_MS,
                        .seed = seed,
                        .run = begin_and_wait,
                        .except = -1});
}

typedef struct waiter {
    td_group *g;
    td_pending *p;
    int rc;
} waiter;

static void *wait_for_it(void *arg)
{
    waiter *w = arg;
    w->rc = td_pending_wait(w->p, -1);
    return NULL;
}

/* A thread waits for a call of which the other rank is not done; meanwhile this one begins the next. */
static bool begin_beside_a_wait(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    pthread_t thread;
    one x = {0}, y = {0};
    bool right = make(&x, c, rank, TD_COLL_ALL_REDUCE, 7, 100) && make(&y, c, rank, TD_COLL_ALL_GATHER, 8, 30);
    if (rank)
        while (!shared->steps[0]) test_sleep_ms(1); /* not before the other has begun both */
    waiter w = {g, begin(g, &x), 0};
    right = right && w.p && !pthread_create(&thread, NULL, wait_for_it, &w);
    td_pending *q = right ? begin(g, &y) : NULL;
    shared->steps[rank] = 1;
    right = q && !td_pending_wait(q, -1) && !pthread_join(thread, NULL) && !w.rc && is_right(&x, c, rank) &&
            is_right(&y, c, rank);
    td_pending_free(q);
    td_pending_free(w.p);
    drop(&x);
    drop(&y);
    return right;
}

static void a_call_begun_beside_a_wait(void)
{
    run_all(&(crew){
        .name = "beside", .size = 2, .timeout_ms = TEST_LONG_MS, .seed = 1, .run = begin_beside_a_wait, .except = -1});
}

/* Rank 0 drops what it has begun. What it has given is there for the others; of a call of several rounds it is not. */
static bool drop_what_was_begun(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    one x = {0}, y = {0}, z = {0};
    bool right = make(&x, c, rank, TD_COLL_ALL_REDUCE, 1, 1000) && make(&y, c, rank, TD_COLL_ALL_GATHER, 2, 1000) &&
                 make(&z, c, rank, TD_COLL_BROADCAST, 3, LONGEST);
    td_pending *p = right ? begin(g, &x) : NULL;
    right = p != NULL;
    if (rank) right = right && !td_pending_wait(p, -1) && is_right(&x, c, rank);
    td_pending_free(p);
    right = right && !call(g, &y) && is_right(&y, c, rank);
    z.root = 0;
    p = right ? begin(g, &z) : NULL;
    if (rank == 0) {
        td_pending_free(p); /* its second piece was never begun */
        right = p && td_group_barrier(g, -1) == TD_E_EPOCH &&
                strstr(td_last_error()->message, "in the middle of broadcast #3");
    } else {
        right = p && td_pending_wait(p, -1) == TD_E_MEMBER && td_pending_done(p);
        td_pending_free(p);
    }
    drop(&x);
    drop(&y);
    drop(&z);
    return right;
}

static void calls_that_are_dropped(void)
{
    run_all(&(crew){
        .name = "drops", .size = 2, .timeout_ms = TEST_LONG_MS, .seed = 1, .run = drop_what_was_begun, .except = -1});
}

/* With what was begun a group is left, and failures are those of the calls. */
static bool fail_what_was_begun(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    one x = {0}, y = {0};
    bool right = make(&x, c, rank, TD_COLL_ALL_REDUCE, 1, 1000) && make(&y, c, rank, TD_COLL_ALL_REDUCE, 2, 1000);
    if (rank == 1) x.kind = TD_COLL_REDUCE;
    td_pending *p = right ? begin(g, &x) : NULL, *q = p ? begin(g, &y) : NULL;
    right = q && td_pending_wait(q, -1) == TD_E_EPOCH && td_pending_done(p) &&
            td_pending_wait(p, -1) == TD_E_MISMATCH && strstr(td_last_error()->message, "and rank 1 reduce #1") &&
            td_pending_wait(p, -1) == TD_E_MISMATCH && !begin(g, &x) && td_last_error()->code == TD_E_EPOCH;
    td_pending_free(p);
    td_pending_free(q);
    drop(&x);
    drop(&y);
    return right;
}

static bool leave_with_one_begun(td_group *g, const crew *c)
{
    one x = {0};
    td_client *client = td_connect(server.socket);
    td_group *alone = client ? td_group_open(client, "alone", 2, (int)td_group_rank(g), TEST_LONG_MS) : NULL;
    bool right = alone && make(&x, c, 0, TD_COLL_ALL_REDUCE, 1, 1000);
    td_pending *p = right && td_group_rank(g) == 0 ? begin(alone, &x) : NULL;
    right = right && !td_group_barrier(g, -1);
    td_group_close(alone);
    if (td_group_rank(g) == 0) right = right && p && td_pending_done(p) && td_pending_wait(p, -1) == TD_E_CLOSED;
    td_pending_free(p);
    drop(&x);
    td_disconnect(client);
    return right;
}

static void calls_that_fail_later(void)
{
    run_all(&(crew){
        .name = "fails", .size = 2, .timeout_ms = TEST_LONG_MS, .seed = 1, .run = fail_what_was_begun, .except = -1});
    run_all(&(crew){
        .name = "leaves", .size = 2, .timeout_ms = TEST_LONG_MS, .seed = 1, .run = leave_with_one_begun, .except = -1});
}

/* A wait has a deadline of its own, and so has the group then. */
static bool wait_for_nobody(td_group *g, const crew *c)
{
    one x = {0};
    bool right = make(&x, c, td_group_rank(g), TD_COLL_ALL_REDUCE, 1, 1000);
    if (td_group_rank(g) == 1) {
        while (!shared->steps[0]) test_sleep_ms(1);
        right = right && call(g, &x) == TD_E_TIMEOUT;
    } else {
        td_pending *p = right ? begin(g, &x) : NULL;
        right = p && !td_pending_done(p) && td_pending_wait(p, 30) == TD_E_TIMEOUT && td_pending_done(p);
        td_pending_free(p);
        shared->steps[0] = 1;
    }
    drop(&x);
    return right;
}

static void a_wait_with_a_deadline(void)
{
    run_all(&(crew){
        .name = "late", .size = 2, .timeout_ms = TEST_LONG_MS, .seed = 1, .run = wait_for_nobody, .except = -1});
}

/* ---- messages */

/* As many elements as fit into a note, and more. */
static uint64_t message_count(const crew *c, uint32_t from, uint64_t k)
{
    static const uint64_t counts[] = {0, 1, 1024, 1025, 70000};
    return counts[mix(c->seed * 64 + from * 1000 + k) % 5];
}

static bool send_one(td_group *g, const crew *c, uint32_t to, uint64_t k, float *v)
{
    uint32_t rank = td_group_rank(g);
    int64_t count = (int64_t)message_count(c, rank, k);
    for (int64_t i = 0; i < count; i++) v[i] = given(c, rank, k, (uint64_t)i);
    return !td_group_send(g, v, TD_FLOAT32, ((td_ints){1, &count}), to, (int)to, -1);
}

static bool is_message(const crew *c, const td_message *m, uint64_t k)
{
    if (m->dtype != TD_FLOAT32 || m->ndim != 1 || m->count != message_count(c, m->from, k)) return false;
    for (uint64_t i = 0; i < m->count; i++)
        if (((const float *)m->data)[i] != given(c, m->from, k, i)) return false;
    return true;
}

/* All send to all, a few at a time; received from each in turn, or from whoever is first. */
static bool write_letters(td_group *g, const crew *c)
{
    uint32_t rank = td_group_rank(g);
    float *v = malloc(70000 * sizeof *v);
    bool right = v != NULL;
    for (uint64_t k = 0; k < 24 && right; k++) {
        for (uint32_t to = 0; to < c->size && right; to++) right = to == rank || send_one(g, c, to, k, v);
        for (uint32_t i = 0; i < c->size && right; i++) {
            td_message m;
            bool any =
                k % 8 == 7; /* all earlier ones have been received, and no later one was sent: after the barrier */
            if (i == rank) continue;
            right = !td_group_receive(g, any ? TD_ANY_RANK : i, (int)rank, -1, &m) && is_message(c, &m, k);
            td_message_clear(&m);
        }
        if (k % 8 >= 6) right = right && !td_group_barrier(g, -1);
    }
    uint32_t from = 9, next = (rank + 1) % c->size;
    int64_t two = 2;
    right = right && !td_group_send(g, v, TD_FLOAT32, ((td_ints){1, &two}), next, -5, -1) &&
            td_group_recv(g, v, TD_FLOAT32, 3, TD_ANY_RANK, -5, -1, &from) == TD_E_MISMATCH &&
            from == (rank ? rank : c->size) - 1 &&
            strstr(td_last_error()->message, "sent float32[2], and this rank expects float32[3]") &&
            !td_group_send(g, v, TD_FLOAT32, ((td_ints){1, &two}), next, -5, -1) &&
            !td_group_recv(g, v, TD_FLOAT32, 2, from, -5, -1, NULL);
    free(v);
    return right && !td_group_barrier(g, -1);
}

static void messages(void)
{
    uint64_t seed = said_seed();
    for (uint32_t size = 2; size <= 4; size += 2)
        run_all(&(crew){.name = "letters",
                        .size = size,
                        .timeout_ms = TEST_LONG_MS,
                        .seed = seed,
                        .run = write_letters,
                        .except = -1});
}

/* ---- buffers */

/* As many as an epoch may have, each of which works; then one too many; and the next epoch has none of them. */
static bool make_all_buffers(td_group *g, const crew *c)
{
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int32_t k = 0; k < 64; k++) {
            td_group_buffer *b = td_group_buffer(g, 100);
            if (!b) return false;
            *(int32_t *)td_buffer_input(b) = k + 1;
            bool good = !td_buffer_all_reduce(b, 0, TD_INT32, 1, TD_SUM, -1) &&
                        *(int32_t *)td_buffer_result(b) == (k + 1) * (int32_t)c->size;
            td_buffer_free(b);
            if (!good) return false;
        }
        if (td_group_buffer(g, 100) || td_last_error()->code != TD_E_BUSY ||
            !strstr(td_last_error()->message, "has 64 buffers in this epoch, and can have no more"))
            return false;
        if (td_group_regroup(g, -1)) return false;
    }
    return true;
}

static void buffers_of_an_epoch(void)
{
    run_all(&(crew){.name = "buffers", .size = 2, .timeout_ms = TEST_LONG_MS, .run = make_all_buffers, .except = -1});
}

/* ---- arguments */

static bool ask_for_nonsense(td_group *g, const crew *c)
{
    float v[8] = {0};
    (void)c;
    return td_group_reduce(g, v, v, TD_FLOAT32, 1, TD_SUM, 2, -1) == TD_E_INVALID &&
           td_group_scatter(g, td_group_rank(g) ? NULL : v, NULL, TD_FLOAT32, 1, 0, -1) == TD_E_INVALID &&
           td_group_gather(g, NULL, v, TD_FLOAT32, 1, 0, -1) == TD_E_INVALID &&
           td_group_reduce_scatter(g, v, v, TD_COMPLEX64, 1, TD_MAX, -1) == TD_E_TYPE &&
           td_group_all_to_all(g, v, v, (td_dtype)99, 1, -1) == TD_E_TYPE &&
           td_group_all_to_all(g, v, v, TD_FLOAT32, UINT64_MAX / 2, -1) == TD_E_INVALID &&
           !td_group_begin(g, TD_COLL_NONE, v, v, TD_FLOAT32, 1, TD_SUM, 0) &&
           !td_group_begin(g, TD_COLL_COUNT, v, v, TD_FLOAT32, 1, TD_SUM, 0) &&
           !td_group_begin(g, TD_COLL_REDUCE, v, v, TD_FLOAT32, 1, (td_reduce_op)77, 0) &&
           !td_group_barrier(g, -1); /* nothing of that was a call */
}

static void nonsense(void)
{
    run_all(&(crew){
        .name = "nonsense", .size = 2, .timeout_ms = TEST_LONG_MS, .seed = 1, .run = ask_for_nonsense, .except = -1});
    CU_ASSERT_EQUAL(td_group_reduce(NULL, NULL, NULL, TD_FLOAT32, 0, TD_SUM, 0, -1), TD_E_INVALID);
    td_pending_free(NULL);
}

TD_CUNIT_MAIN_WITH("client_collectives", crew_start, stop_server,
                   {"collectives of all sizes", collectives_of_all_sizes}, {"results in place", results_in_place},
                   {"counts that differ", counts_that_differ},
                   {"calls begun and waited for", calls_begun_and_waited_for},
                   {"a call begun beside a wait", a_call_begun_beside_a_wait},
                   {"calls that are dropped", calls_that_are_dropped}, {"calls that fail later", calls_that_fail_later},
                   {"a wait with a deadline", a_wait_with_a_deadline}, {"messages", messages},
                   {"buffers of an epoch", buffers_of_an_epoch}, {"nonsense", nonsense})
