/* Producers and consumers that are threads of one process, over one connection: whoever waits for others holds up
 * nobody, so that the others can bring what is waited for. */
#include "client/tensord_bind.h"
#include "tests/client/common.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PRODUCERS = 3, CONSUMERS = 3, ITEMS = 200 };

static bool never(void *context)
{
    (void)context;
    return false;
}

typedef struct crowd {
    td_client *client;
    td_queue *shared; /* by all consumers */
    int capacity, timeout_ms;
    _Atomic int got[PRODUCERS][ITEMS], wrong;
} crowd;

typedef struct member {
    crowd *of;
    int number;
    pthread_t thread;
} member;

static void *produces(void *context)
{
    const member *m = context;
    crowd *w = m->of;
    td_queue *q = td_queue_open(w->client, "crowd", (uint32_t)w->capacity, TD_PRODUCER);
    for (int i = 0; i < ITEMS; i++) {
        int note[2] = {m->number, i};
        td_array *x = td_full(w->client, td_dims(), i, TD_INT64);
        w->wrong += td_queue_put(q, td_arrays(x), note, sizeof note, w->timeout_ms) != TD_OK;
        td_release(x);
    }
    w->wrong += td_queue_close(q, false) != TD_OK;
    return NULL;
}

static void *consumes(void *context)
{
    const member *m = context;
    crowd *w = m->of;
    int last[PRODUCERS] = {-1, -1, -1}, code;
    for (td_queue_item item; !(code = td_queue_get(w->shared, &item, w->timeout_ms)); td_queue_item_clear(&item)) {
        const int *note = item.note;
        w->wrong += item.n != 1 || td_item_i64(item.at[0]) != note[1] || note[1] <= last[note[0]];
        last[note[0]] = note[1];
        w->got[note[0]][note[1]]++;
    }
    w->wrong += code != TD_E_CLOSED;
    return NULL;
}

static void crowd_of(int capacity, int timeout_ms, bool interruptible)
{
    crowd w = {.client = join(), .capacity = capacity, .timeout_ms = timeout_ms};
    if (interruptible) td_set_interrupt(w.client, never, NULL);
    w.shared = td_queue_open(w.client, "crowd", 0, TD_CONSUMER);
    td_queue *held = td_queue_open(w.client, "crowd", 0, TD_PRODUCER); /* until all have begun */
    member members[PRODUCERS + CONSUMERS];
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++) {
        members[i] = (member){&w, i, 0};
        pthread_create(&members[i].thread, NULL, i < PRODUCERS ? produces : consumes, &members[i]);
    }
    for (int i = 0; i < PRODUCERS; i++) pthread_join(members[i].thread, NULL);
    td_queue_close(held, false);
    for (int i = PRODUCERS; i < PRODUCERS + CONSUMERS; i++) pthread_join(members[i].thread, NULL);
    CU_ASSERT_EQUAL(w.wrong, 0);
    int once = 0;
    for (int p = 0; p < PRODUCERS; p++)
        for (int i = 0; i < ITEMS; i++) once += w.got[p][i] == 1;
    CU_ASSERT_EQUAL(once, PRODUCERS * ITEMS);
    td_queue_close(w.shared, false);
    CU_ASSERT_EQUAL(td_sync(w.client), TD_OK);
    CU_ASSERT_EQUAL(status_of(w.client, "tensors"), 0);
    CU_ASSERT_EQUAL(status_of(w.client, "queues"), 0);
    td_disconnect(w.client);
}

static void threads_share_a_queue(void)
{
    for (int interruptible = 0; interruptible < 2; interruptible++) {
        crowd_of(1, -1, interruptible);
        crowd_of(2, 20000, interruptible);
    }
}

static int put_number(td_queue *q, int n, int timeout_ms)
{
    return td_queue_put(q, td_arrays(), &n, sizeof n, timeout_ms);
}

/* The number of the next item, or minus the code. */
static int get_number(td_queue *q, int timeout_ms)
{
    td_queue_item item;
    int code = td_queue_get(q, &item, timeout_ms);
    if (code) return -code;
    int n = *(int *)item.note;
    td_queue_item_clear(&item);
    return n;
}

/* Two for a queue that has room for one: the second is on its way when this returns. */
static void put_two(td_client *c, td_queue *q, int first)
{
    CU_ASSERT_EQUAL(put_number(q, first, -1), TD_OK);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK); /* until the first is known to be in, the second would wait for room itself */
    CU_ASSERT_EQUAL(put_number(q, first + 1, -1), TD_OK);
}

/* A put on its way to a full queue: everything else goes on, the very thread that put included. */
static void a_full_queue_holds_up_nobody(void)
{
    td_client *c = join();
    td_queue *put = td_queue_open(c, "full", 1, TD_PRODUCER), *get = td_queue_open(c, "full", 1, TD_CONSUMER);
    td_queue *other = td_queue_open(c, "full", 1, TD_PRODUCER);
    put_two(c, put, 1);
    CU_ASSERT_EQUAL(put_number(other, 3, -1), TD_OK);
    td_array *x = td_ones(c, td_dims(3), TD_FLOAT32);
    CHECK_VALUES(x, 1, 1, 1);
    CU_ASSERT_EQUAL(put_number(put, 4, 1), TD_E_TIMEOUT);
    for (int i = 1; i <= 3; i++) CU_ASSERT_EQUAL(get_number(get, TEST_LONG_MS), i);
    CU_ASSERT_EQUAL(get_number(get, 0), -TD_E_TIMEOUT);
    put_two(c, put, 5);
    td_queue_close(get, true); /* the end: 6 is refused */
    CU_ASSERT_EQUAL(td_queue_close(put, false), TD_E_CLOSED);
    CU_ASSERT_EQUAL(td_queue_close(other, false), TD_OK);
    td_release(x);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_EQUAL(status_of(c, "queues"), 0);
    td_disconnect(c);
}

static void *closes(void *queue)
{
    return td_queue_close(queue, false) == TD_OK ? queue : NULL;
}

/* Whoever closes waits until its items are in, and others take them meanwhile. */
static void closing_waits_for_what_was_put(void)
{
    td_client *c = join();
    td_queue *put = td_queue_open(c, "closed", 1, TD_PRODUCER), *get = td_queue_open(c, "closed", 1, TD_CONSUMER);
    put_two(c, put, 1);
    pthread_t closer;
    pthread_create(&closer, NULL, closes, put);
    for (int i = 1; i <= 2; i++) CU_ASSERT_EQUAL(get_number(get, -1), i);
    CU_ASSERT_EQUAL(get_number(get, -1), -TD_E_CLOSED);
    void *done;
    pthread_join(closer, &done);
    CU_ASSERT_PTR_NOT_NULL(done);
    td_queue_close(get, false);
    td_disconnect(c);
}

static void *waits_for_an_item(void *queue)
{
    return (void *)(intptr_t)get_number(queue, -1);
}

static void *waits_for_a_name(void *client)
{
    td_array *x = td_open(client, "comes later", -1);
    void *good = x && td_item_f64(x) == 7 ? x : NULL;
    td_release(x);
    return good;
}

static int64_t waiting_get(td_client *c)
{
    td_table *t = td_status(c, "queues");
    int64_t n = 0;
    for (int r = 0; t && r < t->rows; r++) n += t->cells[r * t->columns + 6].integer;
    td_table_free(t);
    return n;
}

/* Without anybody who may interrupt: each waits in one request, for ever. */
static void threads_wait_for_each_other(void)
{
    td_client *c = join();
    pthread_t t;
    void *result;
    td_queue *get = td_queue_open(c, "each", 1, TD_CONSUMER);
    pthread_create(&t, NULL, waits_for_an_item, get);
    while (waiting_get(c) == 0) test_sleep_ms(1);
    CU_ASSERT_EQUAL(td_queue_close(get, false), TD_OK);
    pthread_join(t, &result);
    CU_ASSERT_EQUAL((int)(intptr_t)result, -TD_E_CLOSED);

    pthread_create(&t, NULL, waits_for_a_name, c);
    td_array *x = td_full(c, td_dims(), 7, TD_FLOAT64);
    CU_ASSERT_EQUAL(td_publish(x, "comes later", 0), TD_OK);
    pthread_join(t, &result);
    CU_ASSERT_PTR_NOT_NULL(result);
    td_release(x);
    td_drop(c, "comes later");
    td_disconnect(c);
}

/* Who leaves without closing: what it put arrives, though the handle is not there any more. */
static void *disconnects(void *client)
{
    td_disconnect(client);
    return NULL;
}

static void leaving_waits_for_what_was_put(void)
{
    td_client *c = join(), *d = join();
    td_queue *get = td_queue_open(d, "left", 1, TD_CONSUMER), *put = td_queue_open(c, "left", 1, TD_PRODUCER);
    put_two(c, put, 1);
    pthread_t t;
    pthread_create(&t, NULL, disconnects, c);
    for (int i = 1; i <= 2; i++) CU_ASSERT_EQUAL(get_number(get, -1), i);
    CU_ASSERT_EQUAL(get_number(get, -1), -TD_E_CLOSED);
    pthread_join(t, NULL);
    td_clear_error();
    td_queue_close(put, false);
    td_queue_close(get, false);
    td_disconnect(d);
}

/* Versions of four tensors that a thread publishes while others open them: never some of one and some of another. */
enum { EDITIONS = 400 };

static void *publishes(void *client)
{
    static const char note[] = "note";
    uint64_t before = 0;
    for (int k = 1; k <= EDITIONS; k++) {
        td_array *t[4] = {td_full(client, td_dims(), k, TD_INT64), td_full(client, td_dims(3, 0), k, TD_FLOAT32),
                          td_full(client, td_dims(50, 7), k, TD_FLOAT64), td_full(client, td_dims(9), k, TD_BFLOAT16)};
        uint64_t version = 0;
        CU_ASSERT_EQUAL(td_publish_tree(client, "tree", td_arrays_of(4, t), note, sizeof note, TD_REPLACE, &version),
                        0);
        CU_ASSERT(version > before);
        before = version;
        for (int i = 0; i < 4; i++) td_release(t[i]);
    }
    return NULL;
}

static void trees_are_published_at_once(void)
{
    td_client *c = join(), *other = join();
    td_queue_item tree;
    uint64_t version = 0, before = 0;
    CU_ASSERT_EQUAL(td_open_tree(c, "tree", 0, 0, &tree, &version), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(td_open_tree(c, "tree", 7, 10, &tree, &version), TD_E_CLOSED); /* of another daemon, or made up */
    td_clear_error();
    CU_ASSERT(td_name_version(c, "tree", &version) == TD_OK && version == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, publishes, other);
    for (int last = 0; last < EDITIONS; before = version) {
        CU_ASSERT_EQUAL_FATAL(td_open_tree(c, "tree", before, 20000, &tree, &version), TD_OK);
        CU_ASSERT(version > before && tree.n == 4 && tree.note_size == 5 && strcmp(tree.note, "note") == 0);
        int k = (int)td_item_i64(tree.at[0]);
        CU_ASSERT(k > last && td_numel(tree.at[1]) == 0 && td_ndim(tree.at[1]) == 2);
        double row[350];
        CU_ASSERT(td_read(tree.at[2], row, sizeof row) == TD_OK && row[349] == k);
        td_array *wide = td_to(tree.at[3], TD_FLOAT64), *sum = td_sum(wide), *all = td_sum(tree.at[2]);
        CU_ASSERT_EQUAL(td_item_f64(all), 350. * k);
        CU_ASSERT(k > 256 || td_item_f64(sum) == 9. * k); /* larger ones are rounded */
        td_release(wide), td_release(sum), td_release(all);
        td_queue_item_clear(&tree);
        last = k;
    }
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(td_open_tree(c, "tree", version, 0, &tree, NULL), TD_E_NOT_NEWER);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "nothing newer than version"));
    CU_ASSERT_EQUAL(td_open_tree(c, "tree", version, 30, &tree, NULL), TD_E_NOT_NEWER);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "nobody published 'tree' anew in time"));
    CU_ASSERT(td_name_version(c, "tree", &before) == TD_OK && before == version);
    CU_ASSERT_EQUAL(td_publish_tree(c, "tree", td_arrays_of(0, NULL), NULL, 0, 0, NULL), TD_E_EXISTS);
    td_clear_error();
    td_array *x = td_ones(c, td_dims(3), TD_UINT8);
    CU_ASSERT_EQUAL(td_publish(x, "tree", TD_REPLACE), TD_OK);
    CU_ASSERT_EQUAL(td_open_tree(other, "tree", version, 0, &tree, &before), TD_OK);
    CU_ASSERT(before > version && tree.n == 1 && !tree.note && td_numel(tree.at[0]) == 3);
    td_queue_item_clear(&tree);
    CU_ASSERT(td_name_version(c, "tree", &version) == TD_OK && version == before);
    CU_ASSERT_EQUAL(td_drop(c, "tree"), TD_OK);
    CU_ASSERT(td_name_version(c, "tree", &version) == TD_OK && version == 0);
    CU_ASSERT(td_name_version(c, NULL, &version) == TD_OK && version == 0);
    td_release(x);
    td_disconnect(other), td_disconnect(c);
}

/* The bytes of a tree, as somebody else may have written them: one tensor of two floats at byte 128 of 256, but for one
 * word that is another. */
static void what_a_tree_says_is_not_believed(void)
{
    enum { TENSORS, NOTE, DTYPE, DIMS, AT, SIZES, WORDS = 32 };
    static const struct {
        int word;
        uint64_t is;
        bool good;
    } rows[] = {
        {SIZES + 1, 7, true}, /* of no dimension that it has */
        {AT, 192, true},
        {AT, 64, true},
        {AT, 196, false},
        {AT, 256, false},
        {AT, 320, false},
        {AT, UINT64_MAX - 63, false},
        {SIZES, 0, true},
        {SIZES, 32, true}, /* up to the end */
        {SIZES, 33, false},
        {SIZES, (uint64_t)-1, false},
        {SIZES, INT64_MAX, false},
        {DIMS, 8, true},
        {DIMS, 9, false},
        {DTYPE, TD_DTYPE_COUNT, false},
        {NOTE, 256 - 13 * 8, true}, /* up to the end */
        {NOTE, 256 - 13 * 8 + 1, false},
        {NOTE, UINT64_MAX, false},
        {TENSORS, 0, true},
        {TENSORS, 3, false},
        {TENSORS, TD_MAX_ITEM + 1, false},
        {TENSORS, UINT64_MAX, false},
    };
    td_client *c = join();
    unsigned before = td_now_on(TD_CPU); /* where each tree lies */
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        uint64_t words[WORDS] = {[TENSORS] = 1, [DTYPE] = TD_FLOAT32, [DIMS] = 1, [AT] = 128, [SIZES] = 2};
        td_queue_item tree = {0};
        words[rows[k].word] = rows[k].is;
        td_array *bytes = td_from_data(c, TD_UINT8, td_dims(sizeof words), words);
        int rc = td_tree_open(bytes, &tree);
        CU_ASSERT_EQUAL(rc, rows[k].good ? TD_OK : TD_E_PROTOCOL);
        if ((rc == TD_OK) != rows[k].good)
            fprintf(stderr, "word %d: %llu\n", rows[k].word, (unsigned long long)rows[k].is);
        CU_ASSERT_TRUE(rc || tree.n == (int)words[TENSORS]);
        td_queue_item_clear(&tree);
        td_release(bytes);
    }
    const uint64_t none[4] = {0};
    td_array *bytes = td_from_data(c, TD_UINT8, td_dims(32), none),
             *others[] = {td_slice(bytes, 0, 0, 15), td_view(bytes, td_dims(2, 16)),
                          td_from_data(c, TD_INT64, td_dims(4), none)};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        td_queue_item tree = {0};
        CHECK_FAILS(td_tree_open(others[k], &tree), TD_E_PROTOCOL, "no tree of tensors");
        td_queue_item_clear(&tree);
        td_release(others[k]);
    }
    td_release(bytes);
    td_now_on(before);
    td_disconnect(c);
}

static void a_queue_is_looked_at(void)
{
    td_client *c = join();
    td_queue_state s = {.items = 7};
    CU_ASSERT_EQUAL(td_queue_look(c, "looked at", &s), TD_OK);
    CU_ASSERT(!s.items && !s.capacity && !s.producers && !s.consumers && !s.full && !s.ended);
    td_queue *put = td_queue_open(c, "looked at", 2, TD_PRODUCER), *get = td_queue_open(c, "looked at", 0, TD_CONSUMER);
    put_two(c, put, 0);
    CU_ASSERT_EQUAL(td_queue_look(c, "looked at", &s), TD_OK);
    CU_ASSERT(s.items == 2 && s.capacity == 2 && s.producers == 1 && s.consumers == 1 && s.full && !s.ended);
    td_queue_close(put, true);
    CU_ASSERT_EQUAL(td_queue_look(c, "looked at", &s), TD_OK);
    CU_ASSERT(s.items == 2 && s.producers == 0 && s.ended);
    td_queue_close(get, false);
    td_disconnect(c);
}

/* A get that brought fewer ids than the item has tensors learns how many there are, also when it had to wait. */
static void *gets_many(void *queue)
{
    static td_queue_item item;
    return td_queue_get(queue, &item, TEST_LONG_MS) ? NULL : &item;
}

static void many_tensors_in_one_item(void)
{
    td_client *c = join();
    td_queue *put = td_queue_open(c, "many", 8, TD_PRODUCER), *get = td_queue_open(c, "many", 0, TD_CONSUMER);
    td_array *x = td_full(c, td_dims(2), 3, TD_FLOAT32), **all = malloc(TD_MAX_ITEM * sizeof *all);
    for (int i = 0; i < TD_MAX_ITEM; i++) all[i] = x;
    pthread_t waits;
    pthread_create(&waits, NULL, gets_many, get);
    usleep(20000);
    CU_ASSERT_EQUAL(td_queue_put(put, td_arrays_of(TD_MAX_ITEM, all), "n", 1, TEST_LONG_MS), TD_OK);
    void *got;
    pthread_join(waits, &got);
    td_queue_item *item = got;
    CU_ASSERT_PTR_NOT_NULL_FATAL(item);
    CU_ASSERT_EQUAL_FATAL(item->n, TD_MAX_ITEM);
    td_array *one = td_select(item->at[TD_MAX_ITEM - 1], 0, 1);
    CU_ASSERT_EQUAL(td_item_f64(one), 3);
    td_release(one);
    td_queue_item_clear(item);
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(td_queue_put(put, td_arrays(x), NULL, 0, TEST_LONG_MS), TD_OK);
    for (uint32_t left = 3; left-- > 0; td_queue_item_clear(item)) {
        CU_ASSERT_EQUAL(td_queue_get(get, item, TEST_LONG_MS), TD_OK);
        CU_ASSERT_EQUAL(item->left, left);
    }
    CU_ASSERT_EQUAL(td_queue_put(put, td_arrays_of(TD_MAX_ITEM + 1, all), NULL, 0, TEST_LONG_MS), TD_E_INVALID);
    td_clear_error();
    td_queue_close(put, false), td_queue_close(get, false);
    free(all);
    td_release(x);
    td_disconnect(c);
}

static bool at_once(void *context)
{
    (void)context;
    return true;
}

/* The daemon finds both in what was sent: a get that is over here already, and the next. */
static void items_keep_their_order_when_a_get_was_stopped(void)
{
    td_client *c = join();
    td_queue *put = td_queue_open(c, "stopped", 4, TD_PRODUCER), *get = td_queue_open(c, "stopped", 0, TD_CONSUMER);
    td_array *x = td_full(c, td_dims(), 1, TD_FLOAT32);
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(td_queue_put(put, td_arrays(x), &i, sizeof i, TEST_LONG_MS), TD_OK);
    td_queue_item item;
    test_stop(server.pid);
    td_set_interrupt(c, at_once, NULL);
    CU_ASSERT_EQUAL(td_queue_get(get, &item, -1), TD_E_CANCELLED);
    CU_ASSERT(item.n == 0 && !item.at && !item.note);
    td_clear_error();
    td_set_interrupt(c, NULL, NULL);
    kill(server.pid, SIGCONT);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(td_queue_get(get, &item, TEST_LONG_MS), TD_OK);
        CU_ASSERT(item.n == 1 && item.note_size == sizeof i && !memcmp(item.note, &i, sizeof i));
        td_queue_item_clear(&item);
    }
    td_queue_close(put, false), td_queue_close(get, false);
    td_release(x);
    td_disconnect(c);
}

/* Handles are used again: what is made next has those of an item that was let go of, and the next item has those of
 * what was made. Neither is anything of what the other was. */
static void handles_of_an_item_are_used_again(void)
{
    enum { N = 8, ROUNDS = 3 };
    td_client *c = join(), *producer = join();
    td_queue *put = td_queue_open(producer, "again", 4, TD_PRODUCER), *get = td_queue_open(c, "again", 0, TD_CONSUMER);
    td_array *x[N], *y[N], *before[N], *w = td_full(c, td_dims(4), 3, TD_FLOAT32);
    for (int k = 0; k < N; k++) x[k] = td_full(producer, td_dims(50000), k + 1, TD_FLOAT32);
    for (int round = 0; round < ROUNDS; round++) {
        td_queue_item item;
        CU_ASSERT_EQUAL_FATAL(td_queue_put(put, td_arrays_of(N, x), "n", 1, TEST_LONG_MS), TD_OK);
        CU_ASSERT_EQUAL_FATAL(td_queue_get(get, &item, TEST_LONG_MS), TD_OK);
        CU_ASSERT_EQUAL_FATAL(item.n, N);
        for (int k = 0; k < N; k++) {
            td_array *a = item.at[k];
            CU_ASSERT_TRUE(td_knows_shape(a) && !td_is_view(a) && !td_is_writing(a));
            CU_ASSERT_EQUAL(td_storage_here(a), 0);
        }
        for (int k = 0; k < N && !test_device(); k++) {
            const float *p = td_data(item.at[k]);
            CU_ASSERT_TRUE(p && p[49999] == (float)(k + 1));
            CU_ASSERT_TRUE(td_is_mapped(item.at[k]));
        }
        memcpy(before, item.at, sizeof before);
        td_queue_item_clear(&item);
        int again = 0;
        for (int k = 0; k < N; k++) {
            y[k] = td_mul(w, k);
            for (int i = 0; i < N; i++) again += y[k] == before[i];
            CU_ASSERT_TRUE(td_knows_shape(y[k]) && td_storage_here(y[k]) && td_numel(y[k]) == 4);
            CU_ASSERT_FALSE(td_came_outside(y[k]) || td_is_mapped(y[k]));
        }
        CU_ASSERT_TRUE(again > N / 2);
        for (int k = 0; k < N; k++) CHECK_VALUES(y[k], 3 * k, 3 * k, 3 * k, 3 * k);
        for (int k = 0; k < N; k++) td_release(y[k]);
        /* What the next item's handles were last: views, and what only the daemon knows the shape of. */
        for (int k = 0; k < N; k++) y[k] = k % 2 ? td_select(w, 0, k % 4) : td_nonzero(w);
        for (int k = 0; k < N; k++) CU_ASSERT_EQUAL(td_knows_shape(y[k]), k % 2);
        for (int k = 0; k < N; k++) td_release(y[k]);
    }
    for (int k = 0; k < N; k++) td_release(x[k]);
    td_queue_close(put, false), td_queue_close(get, false);
    td_release(w);
    td_disconnect(producer);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_queues", start_server, stop_server, {"threads share a queue", threads_share_a_queue},
                   {"a full queue holds up nobody", a_full_queue_holds_up_nobody},
                   {"closing waits for what was put", closing_waits_for_what_was_put},
                   {"threads wait for each other", threads_wait_for_each_other},
                   {"leaving waits for what was put", leaving_waits_for_what_was_put},
                   {"many tensors in one item", many_tensors_in_one_item},
                   {"items keep their order when a get was stopped", items_keep_their_order_when_a_get_was_stopped},
                   {"handles of an item are used again", handles_of_an_item_are_used_again},
                   {"a queue is looked at", a_queue_is_looked_at},
                   {"trees are published at once", trees_are_published_at_once},
                   {"what a tree says is not believed", what_a_tree_says_is_not_believed})
