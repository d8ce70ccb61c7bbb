/* Who has small wishes beside somebody with a large graph: between any two turns of the one the other is served, and a
 * turn is a small part of what there is to do. Counted in turns of two sessions in this process, not in time: the clock
 * goes on by hand. */
#include "daemon/session/calls/table.h"
#include "proto/ops/opid.h"
#include "proto/program/text.h"
#include "proto/program/values.h"
#include "proto/program/wire.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"
#include "tests/support/hand_clock.h"
#include "tests/unit/cunit_main.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { N = 50000, RECORDS = 512, CLEAR = 4096 };
enum { US = 1000, MS = 1000000 };

static td_service service;
static td_sessions sessions;

typedef struct client {
    td_session *session;
    td_writer writer;
    td_words words;
} client;

static void ignore(void *arg)
{
    (void)arg;
}

static int start(void)
{
    td_service_options o = {.memory = 64 << 20, .workers = 0};
    td_error e = {0};
    hand_clock_stop(US);
    td_cpu_init();
    td_cpu_thread_init();
    if (td_service_init(&service, &o, &e)) return 1;
    td_sessions_init(&sessions, &service);
    td_dead_set_bound(64);
    return 0;
}

static int stop(void)
{
    while (td_sessions_clear(&sessions, INT_MAX)) {
    }
    td_live left = td_live_counts();
    td_service_deinit(&service);
    return left.tensors || left.storages || td_autograd_nodes();
}

static void join_of(client *c, td_sessions *all, td_peer_id who)
{
    static const uint8_t hello[] = {1 << 3, TD_PROTOCOL};
    td_frame f = {.kind = TD_FRAME_HELLO, .payload = hello, .bytes = sizeof hello, .fd = -1};
    td_session_io io = {.writer = &c->writer, .wrote = ignore, .resume = ignore};
    td_error e = {0};
    *c = (client){0};
    td_writer_init(&c->writer);
    CU_ASSERT_EQUAL_FATAL(td_session_new(&c->session, all, &io, &who, &f, &e), 0);
}

static void join_to(client *c, td_sessions *all, uint32_t pid)
{
    join_of(c, all, (td_peer_id){0, pid});
}

static void join(client *c)
{
    join_to(c, &sessions, 1);
}

/* As a process of its own. */
static void join_as(client *c, uint32_t pid)
{
    join_to(c, &sessions, pid);
}

/* With all that another has once it has come to the end of so many frames, and the clone has had its turns. */
static void begin_as_clone_at(client *c, const td_session *of, uint64_t frames)
{
    Td__Wire__Hello h = TD__WIRE__HELLO__INIT;
    uint8_t bytes[64];
    h.protocol = TD_PROTOCOL, h.clone_session = of->id, h.clone_token = of->token, h.clone_frames = frames;
    td_frame f = {
        .kind = TD_FRAME_HELLO, .payload = bytes, .bytes = (uint32_t)td__wire__hello__pack(&h, bytes), .fd = -1};
    td_session_io io = {.writer = &c->writer, .wrote = ignore, .resume = ignore};
    td_error e = {0};
    *c = (client){0};
    td_writer_init(&c->writer);
    CU_ASSERT_EQUAL_FATAL(td_session_new(&c->session, &sessions, &io, &(td_peer_id){0, 1}, &f, &e), 0);
}

static void begin_as_clone(client *c, const td_session *of)
{
    begin_as_clone_at(c, of, 0);
}

static void leave(client *c)
{
    td_session_end(c->session, false);
    td_writer_deinit(&c->writer);
}

/* Hand in what was gathered. */
static void hand_in(client *c)
{
    static const uint8_t zeros[64] = {0};
    Td__Wire__Batch b;
    td__wire__batch__init(&b);
    b.words = c->words.at;
    b.n_words = c->words.count;
    b.data = (ProtobufCBinaryData){sizeof zeros, (uint8_t *)zeros};
    uint8_t *p = malloc(td__wire__batch__get_packed_size(&b) + 1);
    td_error e = {0};
    td_frame f = {.kind = TD_FRAME_BATCH, .payload = p, .bytes = (uint32_t)td__wire__batch__pack(&b, p), .fd = -1};
    CU_ASSERT_EQUAL_FATAL(td_session_frame(c->session, &f, &e), 0);
    free(p);
    td_words_deinit(&c->words);
    c->words = (td_words){0};
}

/* A turn that what it does ends, and never the clock: what is counted here is the same on a machine that stands still
 * in between. */
static td_run serve(td_session *s, td_error *e)
{
    return td_session_run_until(s, RECORDS, &(uint64_t){UINT64_MAX}, e);
}

/* One turn: true when all is done. */
static bool turn(client *c)
{
    td_error e = {0};
    td_run r = serve(c->session, &e);
    CU_ASSERT_TRUE_FATAL(r == TD_RUN_IDLE || r == TD_RUN_MORE);
    return r == TD_RUN_IDLE;
}

static void finish(client *c)
{
    hand_in(c);
    while (!turn(c)) {
    }
}

static void join_as_clone(client *c, const td_session *of)
{
    begin_as_clone(c, of);
    while (!turn(c)) {
    }
}

static void control(client *c, unsigned rec, int nin, const uint32_t *in, int nout, const uint32_t *out, int nrest,
                    const uint32_t *rest)
{
    td_words_control(&c->words, rec, 0, 0, nin, in, nout, out, nrest, rest, NULL);
}

static void mul(client *c, uint32_t x, uint32_t y, uint32_t out)
{
    td_attrs none;
    td_attrs_init(&none);
    td_words_op(&c->words, td_op_by_id(TD_OP_MUL), 0, 0, 0, 2, (uint32_t[]){x, y}, 1, &out, NULL, &none, NULL);
}

static void zeros(client *c, uint32_t id)
{
    control(c, TD_REC_DATA, 0, NULL, 1, &id, 4, (uint32_t[]){TD_FLOAT32 | 1 << 8, 1, 0, 0});
}

/* A graph of N nodes, each of which saves what it is made of, and of which the client holds one (`all`: each). The root
 * has id 9. */
static void build(client *c, bool all)
{
    zeros(c, 1), zeros(c, 2);
    for (uint32_t id = 1; id <= 2; id++) control(c, TD_REC_REQUIRES_GRAD, 1, &id, 0, NULL, 1, (uint32_t[]){1});
    for (uint32_t i = 0, last = 1; i < N; i++) {
        uint32_t next = i == N - 1 ? 9 : 10 + i;
        mul(c, last, 2, next);
        if (!all && i) control(c, TD_REC_RELEASE, 1, &last, 0, NULL, 0, NULL);
        last = next;
        if (i % 5000 == 4999) finish(c);
    }
    finish(c);
    CU_ASSERT_TRUE(td_autograd_nodes() > N);
}

/* A small op and its value back, in one turn. */
static void small_wish(client *c)
{
    size_t before = td_writer_pending(&c->writer);
    mul(c, 1, 1, 3);
    control(c, TD_REC_READ, 1, (uint32_t[]){3}, 0, NULL, 2, (uint32_t[]){7, 0});
    control(c, TD_REC_RELEASE, 1, (uint32_t[]){3}, 0, NULL, 0, NULL);
    hand_in(c);
    CU_ASSERT_TRUE(turn(c));
    CU_ASSERT_TRUE(td_writer_pending(&c->writer) > before);
}

/* How many turns the large client takes, the small one served after each. */
static int turns_beside(client *large, client *small)
{
    int n = 1;
    for (hand_in(large); !turn(large); n++) small_wish(small);
    small_wish(small);
    return n;
}

static void backward(client *c, uint32_t flags, bool unused)
{
    uint32_t in[3] = {9, 0, 8}, out = 5;
    control(c, TD_REC_BACKWARD, unused ? 3 : 2, in, unused, &out, 3, (uint32_t[]){flags, 1, 0});
}

static void a_backward(void)
{
    client a, b;
    join(&a), join(&b);
    zeros(&b, 1);
    finish(&b);
    build(&a, false);
    zeros(&a, 8);
    control(&a, TD_REC_REQUIRES_GRAD, 1, (uint32_t[]){8}, 0, NULL, 1, (uint32_t[]){1});
    backward(&a, 0, true); /* nothing leads to that input: it is planned, and refused */
    int planned = turns_beside(&a, &b);
    backward(&a, 8, false);
    int run = turns_beside(&a, &b);
    control(&a, TD_REC_GRAD, 1, (uint32_t[]){1}, 1, (uint32_t[]){6}, 1, (uint32_t[]){0});
    finish(&a);
    printf("\n    %d nodes: %d turns to plan, %d to run", N, planned, run);
    CU_ASSERT_TRUE(planned >= 2 * N / (16 * RECORDS));  /* a turn looks at 16 nodes or edges for each node it may run */
    CU_ASSERT_TRUE(run >= planned + N / (3 * RECORDS)); /* nodes of rows cost less than half */
    leave(&a);
    leave(&b);
}

/* The last handle on a graph is released: the rest of that turn, and the next turns, are not held up. */
/* Its time may end it earlier; nothing is lost by that. */
static void a_turn_by_the_clock(void)
{
    client a;
    td_error e = {0};
    join(&a);
    zeros(&a, 1);
    mul(&a, 1, 1, 2);
    hand_in(&a);
    CU_ASSERT_EQUAL(td_session_run_until(a.session, RECORDS, &(uint64_t){1}, &e), TD_RUN_MORE);
    CU_ASSERT_EQUAL(a.session->objects.live, 0);
    uint64_t until = 0;
    CU_ASSERT_EQUAL(td_session_run_until(a.session, 1, &until, &e), TD_RUN_MORE); /* by its records */
    CU_ASSERT_TRUE(until > td_clock_ns() - 1000000000 && a.session->objects.live == 1);
    CU_ASSERT_TRUE(turn(&a));
    CU_ASSERT_EQUAL(a.session->objects.live, 2);
    leave(&a);
}

static void letting_go(void)
{
    client a, b;
    join(&a), join(&b);
    zeros(&b, 1);
    finish(&b);
    build(&a, false);
    uint64_t before = td_autograd_nodes();
    control(&a, TD_REC_RELEASE, 1, (uint32_t[]){9}, 0, NULL, 0, NULL);
    finish(&a);
    CU_ASSERT_TRUE(before - td_autograd_nodes() <= 64);
    int turns = 0;
    for (bool more = true; more; turns++) {
        before = td_autograd_nodes();
        more = td_sessions_clear(&sessions, CLEAR);
        CU_ASSERT_TRUE(before - td_autograd_nodes() <= CLEAR);
        small_wish(&b);
    }
    CU_ASSERT_TRUE(turns >= 2 * N / CLEAR);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
    leave(&a);
    leave(&b);
}

/* The same when its client ends, with all the ids it had, in the middle of a backward. */
static void the_end_of_a_client(void)
{
    client a, b;
    join(&a), join(&b);
    zeros(&b, 1);
    finish(&b);
    build(&a, true);
    backward(&a, 8, false);
    hand_in(&a);
    CU_ASSERT_FALSE(turn(&a));
    uint64_t before = td_live_counts().tensors;
    leave(&a);
    CU_ASSERT_TRUE(td_live_counts().tensors > before - 10000 && sessions.count == 1);
    int turns = 0;
    for (bool more = true; more; turns++) {
        before = td_live_counts().tensors;
        more = td_sessions_clear(&sessions, CLEAR);
        CU_ASSERT_TRUE(before - td_live_counts().tensors <= 3 * CLEAR);
        small_wish(&b);
    }
    CU_ASSERT_TRUE(turns >= 2 * N / CLEAR);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
    leave(&b);
}

/* The code of the last reply, all of which have then been read; TD_E_LOST: none was a reply. */
static uint32_t last_code(client *c)
{
    uint32_t code = TD_E_LOST, bytes;
    for (size_t at = c->writer.start; at < c->writer.end; at += TD_FRAME_HEADER + bytes) {
        const uint8_t *h = c->writer.buffer + at;
        memcpy(&bytes, h, sizeof bytes);
        Td__Wire__Reply *r = h[4] == TD_FRAME_REPLY ? td__wire__reply__unpack(NULL, bytes, h + TD_FRAME_HEADER) : NULL;
        if (!r) continue;
        code = r->error ? r->error->code : TD_OK;
        td__wire__reply__free_unpacked(r, NULL);
    }
    c->writer.start = c->writer.end = 0;
    return code;
}

/* Does it wait? */
static void hand_in_call(client *c, Td__Wire__Call *call)
{
    td_error e = {0};
    call->serial = 1;
    uint8_t *p = malloc(td__wire__call__get_packed_size(call));
    td_frame f = {.kind = TD_FRAME_CALL, .payload = p, .bytes = (uint32_t)td__wire__call__pack(call, p), .fd = -1};
    CU_ASSERT_EQUAL_FATAL(td_session_frame(c->session, &f, &e), 0);
    free(p);
}

static bool call(client *c, Td__Wire__Call *call)
{
    td_error e = {0};
    c->writer.start = c->writer.end = 0;
    hand_in_call(c, call);
    return serve(c->session, &e) == TD_RUN_SUSPENDED;
}

static td_run ask_to_write(client *c, uint32_t id)
{
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    Td__Wire__WriteBegin begin = TD__WIRE__WRITE_BEGIN__INIT;
    uint8_t bytes[64];
    td_error e = {0};
    begin.id = id, begin.timeout_ms = UINT32_MAX;
    call.serial = 1, call.write_begin = &begin;
    td_frame f = {
        .kind = TD_FRAME_CALL, .payload = bytes, .bytes = (uint32_t)td__wire__call__pack(&call, bytes), .fd = -1};
    CU_ASSERT_EQUAL_FATAL(td_session_frame(c->session, &f, &e), 0);
    return serve(c->session, &e);
}

/* The same when it had leases, tensors that it was writing to, and queues open, very many of each: they are found at
 * once while it lives, and let go of in turns. */
static void the_end_of_a_holder(void)
{
    enum { EACH = 40000 };
    client a, b;
    td_error e = {0};
    join(&a), join(&b);
    zeros(&b, 1);
    finish(&b);
    clock_t begin = clock();
    for (uint32_t i = 0; i < EACH; i++) {
        td_need need = {.heap = a.session->heap};
        td_fill_lease *l;
        int rc = td_lease_new(a.session, 64, &l, &need, &e);
        if (rc == TD_WAIT_GROW) {
            CU_ASSERT_EQUAL_FATAL(td_session_lacks(a.session, rc, &need, &e), TD_AGAIN);
            i--;
        } else CU_ASSERT_EQUAL_FATAL(rc, TD_OK);
    }
    for (uint32_t id = 1; id <= EACH; id++) {
        zeros(&a, id);
        if (id % 5000 == 0) finish(&a);
    }
    for (uint32_t id = 1; id <= EACH; id++) {
        char name[32];
        snprintf(name, sizeof name, "queue %u", (unsigned)id);
        Td__Wire__QueueOpen open = TD__WIRE__QUEUE_OPEN__INIT;
        Td__Wire__Call c = TD__WIRE__CALL__INIT;
        open.name = name, open.queue = id, open.role = TD_QUEUE_PRODUCER, c.queue_open = &open;
        CU_ASSERT_FALSE(call(&a, &c));
        CU_ASSERT_EQUAL_FATAL(ask_to_write(&a, id), TD_RUN_IDLE);
    }
    for (uint32_t id = 1; id <= EACH; id += 2) control(&a, TD_REC_WRITE_END, 1, &id, 0, NULL, 0, NULL);
    finish(&a);
    CU_ASSERT_TRUE(clock() - begin < 6 * CLOCKS_PER_SEC);
    td_account *account = td_account_ref(a.session->account);
    uint64_t before = account->objects;
    CU_ASSERT_TRUE(before > 3 * EACH);
    leave(&a);
    CU_ASSERT_TRUE(before - account->objects <= 8 * CLEAR); /* a queue's handle is worth five */
    for (bool more = true; more;) {
        before = account->objects;
        more = td_sessions_clear(&sessions, CLEAR);
        CU_ASSERT_TRUE(before - account->objects <= 8 * CLEAR);
        small_wish(&b);
    }
    CU_ASSERT_EQUAL(account->objects, 0);
    CU_ASSERT_EQUAL(account->bytes, 0);
    CU_ASSERT_EQUAL(service.queue_count, 0);
    td_account_unref(account);
    leave(&b);
}

static void many_ids(client *c)
{
    for (uint32_t id = 1; id <= N; id++) {
        zeros(c, id);
        if (id % 5000 == 0) finish(c);
    }
    finish(c);
}

static bool suspended(client *c)
{
    td_error e = {0};
    return serve(c->session, &e) == TD_RUN_SUSPENDED;
}

/* A clone takes over what its parent had when it asked: in turns, and the parent goes no further before it has all. */
static void a_clone(void)
{
    client a, b, c;
    join(&a), join(&b);
    zeros(&b, 1);
    finish(&b);
    many_ids(&a);
    uint32_t had = a.session->objects.live;
    begin_as_clone(&c, a.session);
    control(&a, TD_REC_RELEASE, 1, (uint32_t[]){N}, 0, NULL, 0, NULL);
    hand_in(&a);
    int turns = 1;
    for (; !turn(&c); turns++) {
        CU_ASSERT_EQUAL(td_writer_pending(&c.writer), 0); /* not welcome yet */
        CU_ASSERT_TRUE(suspended(&a));
        small_wish(&b);
    }
    CU_ASSERT_TRUE(turns >= N / (RECORDS * 8)); /* a page of 1024 counts as 128 records */
    CU_ASSERT_TRUE(td_writer_pending(&c.writer) > 0);
    CU_ASSERT_EQUAL(c.session->objects.live, had);
    CU_ASSERT_TRUE(turn(&a));
    CU_ASSERT_EQUAL(a.session->objects.live, had - 1);
    small_wish(&c);
    leave(&a), leave(&b), leave(&c);
}

/* Either may end meanwhile: a parent goes on when the last of its clones has gone, and a clone of nobody is refused. */
static void a_clone_that_is_left(void)
{
    client a, c[2];
    td_error e = {0};
    join(&a);
    many_ids(&a);
    uint64_t before = td_live_counts().tensors;
    for (int i = 0; i < 2; i++) begin_as_clone(&c[i], a.session);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_FALSE(turn(&c[i]));
        CU_ASSERT_TRUE(suspended(&a));
        leave(&c[i]);
    }
    CU_ASSERT_TRUE(turn(&a));
    begin_as_clone(&c[0], a.session);
    CU_ASSERT_FALSE(turn(&c[0]));
    leave(&a);
    while (td_sessions_clear(&sessions, INT_MAX)) {
    }
    CU_ASSERT_TRUE(td_live_counts().tensors < before); /* held by the clone: so many as it has */
    CU_ASSERT_EQUAL(serve(c[0].session, &e), TD_RUN_FATAL);
    CU_ASSERT_EQUAL(e.code, TD_E_NOT_FOUND);
    leave(&c[0]);
}

static void count(void *n)
{
    ++*(int *)n;
}

/* A parent goes on when a clone has what it wants, though another waits for what the parent does next. */
static void a_clone_of_what_is_to_come(void)
{
    client a, now, later;
    int resumed = 0;
    join(&a);
    many_ids(&a);
    a.session->io.resume = count, a.session->io.arg = &resumed;
    begin_as_clone(&now, a.session), begin_as_clone_at(&later, a.session, a.session->stream.frames + 1);
    CU_ASSERT_FALSE(turn(&now));
    CU_ASSERT_TRUE(suspended(&later));
    control(&a, TD_REC_RELEASE, 1, (uint32_t[]){N}, 0, NULL, 0, NULL);
    hand_in(&a);
    CU_ASSERT_TRUE(suspended(&a));
    while (!turn(&now)) {
    }
    CU_ASSERT_EQUAL(resumed, 1);
    CU_ASSERT_EQUAL(now.session->objects.live, N);
    CU_ASSERT_TRUE(turn(&a));
    while (!turn(&later)) {
    }
    CU_ASSERT_EQUAL(later.session->objects.live, N - 1);
    leave(&a), leave(&now), leave(&later);
}

/* A parent that is to read answers before it goes on may wait for its child: that gets what is there. */
static void a_clone_of_who_does_not_read(void)
{
    client a, c;
    td_error e = {0};
    size_t unread = sessions.max_unread;
    join(&a);
    sessions.max_unread = 0; /* it was welcome */
    zeros(&a, 1), zeros(&a, 2);
    hand_in(&a);
    CU_ASSERT_EQUAL(serve(a.session, &e), TD_RUN_STALLED);
    begin_as_clone_at(&c, a.session, a.session->stream.frames);
    CU_ASSERT_TRUE(suspended(&c));
    hand_clock_go_on(300 * MS);
    td_deadlines_run(&service);
    CU_ASSERT_FALSE(suspended(&c));
    CU_ASSERT_TRUE(c.session->copies.partial);
    CU_ASSERT_EQUAL(c.session->objects.live, 1);
    sessions.max_unread = unread;
    CU_ASSERT_TRUE(turn(&a));
    leave(&a), leave(&c);
}

/* What nobody holds any more is no reason to refuse anything. */
static void quota_is_given_back(void)
{
    client a;
    service.options.session_objects = 4 * N;
    join(&a);
    service.options.session_objects = 0;
    for (int i = 0; i < 5; i++) {
        build(&a, false);
        control(&a, TD_REC_RELEASE, 3, (uint32_t[]){9, 1, 2}, 0, NULL, 0, NULL);
    }
    zeros(&a, 1);
    size_t before = td_writer_pending(&a.writer);
    control(&a, TD_REC_SYNC, 0, NULL, 0, NULL, 2, (uint32_t[]){7, 0});
    finish(&a);
    CU_ASSERT_TRUE(td_writer_pending(&a.writer) - before < 40); /* no error in it */
    leave(&a);
}

static void hand_over(client *from, client *to, uint32_t id)
{
    Td__Wire__Publish publish = TD__WIRE__PUBLISH__INIT;
    Td__Wire__Open open = TD__WIRE__OPEN__INIT;
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    publish.name = open.name = (char *)"leaf", publish.id = open.id = id, publish.lasts_ms = 60000;
    c.publish = &publish;
    CU_ASSERT_FALSE(call(from, &c));
    c.publish = NULL, c.open = &open;
    CU_ASSERT_FALSE(call(to, &c));
    CU_ASSERT_EQUAL(last_code(to), TD_OK);
}

/* Wants to write to 1 for a millisecond, which it may not: the answer, when that time has passed. */
static uint32_t wants_to_write(client *c, client *meanwhile, bool *over)
{
    Td__Wire__WriteBegin begin = TD__WIRE__WRITE_BEGIN__INIT;
    Td__Wire__Call write = TD__WIRE__CALL__INIT;
    begin.id = begin.timeout_ms = 1, write.write_begin = &begin;
    if (!call(c, &write)) return TD_E_BUSY;
    *over = turn(meanwhile);
    hand_clock_go_on(2 * MS);
    td_deadlines_run(&service);
    CU_ASSERT_TRUE(turn(c));
    return last_code(c);
}

/* Who waited for a tensor that a backward has yet to read, and gave up, is not woken from what it waits for then. */
static void woken_for_what_is_over(void)
{
    client a, b;
    join(&a), join(&b);
    build(&a, false);
    hand_over(&a, &b, 1);
    backward(&a, 8, false);
    hand_in(&a);
    bool over = false;
    uint32_t code = TD_E_BUSY;
    while (!over && (code == TD_E_BUSY || code == TD_E_TIMEOUT)) {
        if (code == TD_E_BUSY) over = turn(&a);
        code = over ? code : wants_to_write(&b, &a, &over);
    }
    CU_ASSERT_EQUAL(code, TD_E_PERMISSION); /* between the last reading and the end of the backward */
    CU_ASSERT_FALSE(over);
    Td__Wire__QueueOpen q = TD__WIRE__QUEUE_OPEN__INIT;
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    q.name = (char *)"empty", q.queue = get.queue = 1, q.role = 3, get.timeout_ms = UINT32_MAX;
    c.queue_open = &q;
    CU_ASSERT_FALSE(call(&b, &c));
    c.queue_open = NULL, c.queue_get = &get;
    for (int i = 0; i < TD_HELD_MOST; i++) CU_ASSERT_FALSE(call(&b, &c));
    CU_ASSERT_TRUE(call(&b, &c)); /* one more than it may have waiting */
    while (!turn(&a)) {
    }
    td_error e = {0};
    CU_ASSERT_EQUAL(serve(b.session, &e), TD_RUN_SUSPENDED);
    leave(&a);
    leave(&b);
}

/* ---- large items */

enum { NOTE = 1 << 20, PARTS = TD_MAX_ITEM / 64 };

static uint8_t note[NOTE];
static uint32_t item_ids[TD_MAX_ITEM]; /* to bind */

static void open_queue(client *c, const char *name)
{
    Td__Wire__QueueOpen open = TD__WIRE__QUEUE_OPEN__INIT;
    Td__Wire__Call x = TD__WIRE__CALL__INIT;
    open.name = (char *)(uintptr_t)name, open.queue = 1, open.role = 3, open.capacity = 4, x.queue_open = &open;
    CU_ASSERT_FALSE(call(c, &x));
    CU_ASSERT_EQUAL(last_code(c), TD_OK);
}

/* Of the tensors from id 1 on; the call is handed in. */
static void put_large(client *c)
{
    Td__Wire__QueuePut put = TD__WIRE__QUEUE_PUT__INIT;
    Td__Wire__Call x = TD__WIRE__CALL__INIT;
    uint32_t ids[TD_MAX_ITEM];
    for (uint32_t i = 0; i < TD_MAX_ITEM; i++) ids[i] = i + 1;
    for (size_t i = 0; i < NOTE; i++) note[i] = (uint8_t)(i * 2654435761u >> 13);
    put.queue = 1, put.n_ids = TD_MAX_ITEM, put.ids = ids, put.note = (ProtobufCBinaryData){NOTE, note};
    x.queue_put = &put;
    hand_in_call(c, &x);
}

static void get_large(client *c, uint32_t first)
{
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    Td__Wire__Call x = TD__WIRE__CALL__INIT;
    for (uint32_t i = 0; i < TD_MAX_ITEM; i++) item_ids[i] = first + i;
    get.queue = 1, get.n_ids = TD_MAX_ITEM, get.ids = item_ids, get.timeout_ms = UINT32_MAX;
    x.queue_get = &get;
    hand_in_call(c, &x);
}

/* What came is what was put. */
static void check_large(client *c)
{
    uint32_t bytes;
    const uint8_t *h = c->writer.buffer + c->writer.start;
    memcpy(&bytes, h, sizeof bytes);
    CU_ASSERT_EQUAL_FATAL(td_writer_pending(&c->writer), TD_FRAME_HEADER + bytes);
    Td__Wire__Reply *r = td__wire__reply__unpack(NULL, bytes, h + TD_FRAME_HEADER);
    CU_ASSERT_TRUE_FATAL(r && r->item && !r->error);
    const Td__Wire__Item *i = r->item;
    CU_ASSERT_EQUAL_FATAL(i->n_descs, TD_MAX_ITEM);
    CU_ASSERT_EQUAL_FATAL(i->n_addresses, TD_MAX_ITEM);
    CU_ASSERT_TRUE(i->note.len == NOTE && memcmp(i->note.data, note, NOTE) == 0);
    CU_ASSERT_TRUE(i->outside_rest && i->outside == UINT64_MAX);
    int wrong = 0, descriptors = 0;
    for (size_t k = 0; k < i->n_descs; k++) {
        const td_object *x = td_objects_find(&c->session->objects, item_ids[k]);
        const td_storage *st = x && x->tensor ? x->tensor->storage : NULL;
        wrong += !st || i->descs[k]->dtype != TD_FLOAT32 || i->addresses[k]->offset != st->extent.offset;
        descriptors += i->addresses[k]->descriptor;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(descriptors, c->writer.nfds);
    td__wire__reply__free_unpacked(r, NULL);
    td_writer_deinit(&c->writer);
    td_writer_init(&c->writer);
}

static void tensors_of_an_item(client *c)
{
    for (uint32_t id = 1; id <= TD_MAX_ITEM; id++) zeros(c, id);
    finish(c);
}

/* How many turns it takes until there is nothing to do, the small one served after each. */
static int turns_until_idle(client *c, client *small)
{
    int n = 1;
    for (; !turn(c); n++) small_wish(small);
    return n;
}

/* What no message holds is refused when it is put, not when somebody gets it. */
static void too_large(client *c)
{
    enum { TOO_LONG = TD_FRAME_MAX - 4 * TD_MAX_ITEM };
    Td__Wire__QueuePut put = TD__WIRE__QUEUE_PUT__INIT;
    Td__Wire__Call x = TD__WIRE__CALL__INIT;
    uint32_t ids[TD_MAX_ITEM];
    for (uint32_t i = 0; i < TD_MAX_ITEM; i++) ids[i] = 1;
    put.queue = 1, put.n_ids = TD_MAX_ITEM, put.ids = ids, put.note.len = TOO_LONG, put.note.data = calloc(1, TOO_LONG);
    x.queue_put = &put;
    hand_in_call(c, &x);
    free(put.note.data);
    while (!turn(c)) {
    }
    CU_ASSERT_EQUAL(last_code(c), TD_E_INVALID);
}

/* One that is put is gathered in turns, and one that comes is bound and told in turns; both ways it may go. */
static void a_large_item(void)
{
    client a, b, c;
    join(&a), join(&b), join(&c);
    zeros(&b, 1);
    finish(&b);
    tensors_of_an_item(&a);
    open_queue(&a, "large"), open_queue(&c, "large");
    put_large(&a);
    int put = turns_until_idle(&a, &b);
    CU_ASSERT_EQUAL(last_code(&a), TD_OK);
    get_large(&c, 1);
    int got = 1;
    for (Td__Wire__Address at; !turn(&c); got++) {
        small_wish(&b);
        CU_ASSERT_TRUE(td_session_locate(c.session, td_objects_find(&a.session->objects, 1)->tensor->storage,
                                         &at)); /* not told yet: others have to bring it, too */
    }
    check_large(&c);
    get_large(&c, 5001); /* before one is there */
    CU_ASSERT_TRUE(turn(&c));
    put_large(&a);
    turns_until_idle(&a, &b);
    CU_ASSERT_TRUE(turns_until_idle(&c, &b) >= 3 * PARTS * 64 / RECORDS);
    check_large(&c);
    too_large(&a);
    printf("\n    %d tensors and %d bytes: %d turns to put, %d to get", TD_MAX_ITEM, NOTE, put, got);
    CU_ASSERT_TRUE(put >= PARTS * 64 / RECORDS);
    CU_ASSERT_TRUE(got >= 3 * PARTS * 64 / RECORDS); /* bound, waited for, told */
    leave(&a), leave(&b), leave(&c);
}

/* The answers to gets, while they are packed, count among what connections hold: who is the next beyond the limit is
 * refused, and may ask again; the item lies in its queue. */
static void large_items_at_once(void)
{
    enum { CLIENTS = 4, FIT = 2, LIMIT = 4 << 20 };
    client a, c[CLIENTS];
    td_account *all = service.account;
    uint64_t limit = all->limit_wire, most = 0;
    int told = 0, refused = 0;
    all->limit_wire = LIMIT;
    join(&a);
    tensors_of_an_item(&a);
    open_queue(&a, "at once");
    for (int k = 0; k < CLIENTS; k++) {
        join(&c[k]);
        open_queue(&c[k], "at once");
        put_large(&a);
        while (!turn(&a)) {
        }
        CU_ASSERT_EQUAL(last_code(&a), TD_OK);
    }
    uint64_t before = all->wire;
    for (int k = 0; k < CLIENTS; k++) get_large(&c[k], 1);
    for (bool more = true; more;) {
        more = false;
        for (int k = 0; k < CLIENTS; k++) {
            more |= !turn(&c[k]);
            if (all->wire - before > most) most = all->wire - before;
        }
    }
    CU_ASSERT_TRUE(most > FIT * NOTE && most <= LIMIT);
    CU_ASSERT_EQUAL(all->wire, before);
    for (int k = 0; k < CLIENTS; k++) {
        uint32_t code = last_code(&c[k]);
        CU_ASSERT_TRUE(code == TD_OK || code == TD_E_MEMORY);
        refused += code == TD_E_MEMORY;
        if (code == TD_OK) continue;
        get_large(&c[k], 1);
        while (!turn(&c[k])) {
        }
        told += last_code(&c[k]) == TD_OK;
    }
    CU_ASSERT_EQUAL(refused, CLIENTS - FIT);
    CU_ASSERT_EQUAL(told, refused);
    for (int k = 0; k < CLIENTS; k++) leave(&c[k]);
    leave(&a);
    all->limit_wire = limit;
}

/* Who ends in the midst of it leaves nothing, and an item that is not all bound yet lies in its queue again. */
static void a_large_item_that_is_left(void)
{
    client a, b, c;
    join(&b);
    zeros(&b, 1);
    finish(&b);
    open_queue(&b, "left");
    for (int after = 1; after <= 3; after++) {
        join(&a);
        tensors_of_an_item(&a);
        open_queue(&a, "left");
        put_large(&a);
        for (int i = 0; i < after; i++) CU_ASSERT_FALSE(turn(&a));
        leave(&a);
        while (td_sessions_clear(&sessions, CLEAR)) small_wish(&b);
        CU_ASSERT_EQUAL(td_queue_look(&service, "left").items, 0);
    }
    join(&a);
    tensors_of_an_item(&a);
    open_queue(&a, "left");
    put_large(&a);
    turns_until_idle(&a, &b);
    uint32_t items = 1;
    for (int after = 1; items; after++) { /* until it is its own */
        CU_ASSERT_TRUE_FATAL(after < 10 * PARTS);
        join(&c);
        open_queue(&c, "left");
        get_large(&c, 1);
        for (int i = 0; i < after; i++) CU_ASSERT_FALSE(turn(&c));
        CU_ASSERT_EQUAL(td_queue_look(&service, "left").items, 0);
        leave(&c);
        items = td_queue_look(&service, "left").items;
        CU_ASSERT_TRUE(items == 1 || after > 1);
        CU_ASSERT_TRUE(!items || td_objects_find(&a.session->objects, 1)->tensor->storage->queued); /* as it was put */
    }
    leave(&a), leave(&b);
}

enum { DEADLINES = 150000 };

static uint64_t last_fired;
static uint32_t fired, out_of_order;

static void note_fired(void *arg)
{
    const td_deadline *d = arg;
    out_of_order += d->at_us < last_fired;
    last_fired = d->at_us;
    fired++;
}

/* As a client's handles have them: to arm and to disarm one takes no longer because there are many, and a run fires a
 * part of those that are due, the earliest first. */
static void many_deadlines(void)
{
    td_deadline *d = calloc(DEADLINES, sizeof *d);
    clock_t begin = clock(); /* of this process: others may have the processor meanwhile */
    uint32_t x = 1;
    for (uint32_t i = 0; i < DEADLINES; i++) {
        x = x * 1664525u + 1013904223u;
        uint64_t in_ms = i % 3 == 0 ? i : i % 3 == 1 ? DEADLINES - i : x >> 12;
        td_deadline_arm(&service, &d[i], i % 10 ? 1000000 + in_ms : in_ms >> 12, note_fired, &d[i]);
    }
    for (uint32_t i = 1; i < DEADLINES; i += 2) td_deadline_disarm(&service, &d[i]);
    CU_ASSERT_TRUE(clock() - begin < 4 * CLOCKS_PER_SEC);
    hand_clock_go_on(UINT64_C(300) * MS);
    td_deadlines_run(&service);
    CU_ASSERT_TRUE(fired > 0 && fired < DEADLINES / 20);
    for (uint64_t next = 0; next < 100000000;) next = td_deadlines_run(&service);
    CU_ASSERT_EQUAL(fired, DEADLINES / 10);
    CU_ASSERT_EQUAL(out_of_order, 0);
    for (uint32_t i = 0; i < DEADLINES; i++) td_deadline_disarm(&service, &d[i]);
    CU_ASSERT_PTR_NULL(service.deadlines);
    free(d);
}

/* ---- memory that has to be made */

static struct {
    void (*work)(void *), (*done)(void *);
    void *arg;
} away; /* what a helper thread would do now */

static void hand_away(void *hook_arg, void (*work)(void *), void (*done)(void *), void *arg)
{
    (void)hook_arg;
    CU_ASSERT_PTR_NULL(away.work);
    away.work = work, away.done = done, away.arg = arg;
}

static uint64_t committed(const td_session *s)
{
    td_heap_stats own, all;
    td_heap_get_stats(s->heap, &own);
    td_heap_get_stats(service.heap, &all);
    return own.committed + all.committed;
}

/* Runs it to the end; what it lacks is made between its turns, and `small` is served meanwhile. How often; *most is
 * what one of its turns has made by itself. */
static int made_between_turns(client *c, client *small, uint64_t *most)
{
    int n = 0;
    *most = 0;
    for (td_run r = TD_RUN_MORE; r != TD_RUN_IDLE;) {
        td_error e = {0};
        uint64_t before = committed(c->session);
        r = serve(c->session, &e);
        uint64_t made = committed(c->session) > before ? committed(c->session) - before : 0;
        if (made > *most) *most = made;
        small_wish(small);
        if (r != TD_RUN_SUSPENDED) continue;
        CU_ASSERT_PTR_NOT_NULL_FATAL(away.work);
        away.work(away.arg);
        away.work = NULL;
        away.done(away.arg);
        n++;
    }
    return n;
}

enum { LARGE = 3 << 20 }; /* elements of float32 */

static void full(client *c, uint32_t id, int64_t elements)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, &elements);
    td_attrs_scalar(&a, td_float(2));
    td_attrs_dtype(&a, TD_FLOAT32);
    td_words_op(&c->words, td_op_by_id(TD_OP_FULL), 0, 0, 0, 0, NULL, 1, &id, NULL, &a, NULL);
}

static void large(client *c, uint32_t id)
{
    full(c, id, LARGE);
}

/* Whatever it is that asks for memory: another session has its turns while that is made, and none makes much. */
static void memory_to_be_made(void)
{
    client a, b;
    uint64_t limit = service.budget.limit, most;
    service.options.background = hand_away;
    service.budget.limit = 512 << 20;
    join(&a), join(&b);
    zeros(&b, 1);
    finish(&b);
    /* y = (x*x)*x, with .grad that x has from another scope, too: products, their sums, a copy */
    large(&a, 1);
    control(&a, TD_REC_REQUIRES_GRAD, 1, (uint32_t[]){1}, 0, NULL, 1, (uint32_t[]){1});
    mul(&a, 1, 1, 2), mul(&a, 2, 1, 9);
    hand_in(&a);
    CU_ASSERT_TRUE(made_between_turns(&a, &b, &most) >= 3); /* forward */
    CU_ASSERT_TRUE(most < 4 << 20);
    large(&a, 4);
    hand_in(&a);
    made_between_turns(&a, &b, &most);
    for (int k = 0; k < 2; k++) {
        uint32_t in[2] = {9, 4};
        control(&a, TD_REC_BACKWARD, 2, in, 0, NULL, 3, (uint32_t[]){k ? 8 | 1 : 8 | 2, 1, 0}); /* the second adds up */
        hand_in(&a);
        int waits = made_between_turns(&a, &b, &most);
        printf("\n    %d times memory was made for a backward%s, at most %.1f MB in a turn", waits,
               k ? "" : " with create_graph", (double)most / 1e6);
        CU_ASSERT_TRUE(waits >= (k ? 1 : 4));
        CU_ASSERT_TRUE(most < 4 << 20);
    }
    /* a name's copy in service memory */
    Td__Wire__Publish publish = TD__WIRE__PUBLISH__INIT;
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    publish.name = (char *)"copied", publish.id = 4, c.publish = &publish;
    CU_ASSERT_TRUE(call(&a, &c));
    CU_ASSERT_EQUAL(made_between_turns(&a, &b, &most), 1);
    CU_ASSERT_TRUE(most < 4 << 20);
    CU_ASSERT_EQUAL(last_code(&a), TD_OK);
    td_name_drop(&service, "copied", NULL, NULL);
    leave(&a);
    leave(&b);
    service.options.background = NULL;
    service.budget.limit = limit;
}

/* Who asks for long tables all the time has them at a distance: the loop has others to serve. */
static void table_after_table(void)
{
    enum { MANY = 10000 };
    client a, b, small;
    join(&a), join(&b), join(&small);
    zeros(&b, 1), zeros(&small, 1);
    for (uint32_t id = 1; id <= MANY; id++) zeros(&a, id);
    finish(&a), finish(&b), finish(&small);
    Td__Wire__Status what = TD__WIRE__STATUS__INIT;
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    what.what = (char *)"tensors", c.status = &what;
    int turns = 1;
    atomic_store(&hand_clock.tick, MS); /* each part takes so long */
    CU_ASSERT_FALSE(call(&a, &c));
    CU_ASSERT_TRUE(call(&b, &c)); /* waits until the other has its own */
    for (; !turn(&a); turns++) small_wish(&small);
    CU_ASSERT_TRUE(turns >= MANY / RECORDS / 2);
    CU_ASSERT_TRUE(sessions.table_from_ns > td_clock_ns());
    atomic_store(&hand_clock.tick, US);
    CU_ASSERT_TRUE(call(&a, &c)); /* waits */
    for (td_run r = TD_RUN_MORE; r != TD_RUN_IDLE;) {
        hand_clock_go_on(MS);
        td_deadlines_run(&service);
        td_error e = {0};
        r = serve(a.session, &e);
    }
    CU_ASSERT_TRUE(td_writer_pending(&a.writer) > MANY);
    leave(&b); /* while it waits */
    leave(&a), leave(&small);
    sessions.table_from_ns = 0;
}

/* One part of whatever it is at. */
static td_run part_of_turn(client *c)
{
    td_error e = {0};
    return td_session_run_until(c->session, 1, &(uint64_t){UINT64_MAX}, &e);
}

/* Rows of the table that came last with less than nothing in a column; -1: there is no table. */
static int rows_below_nothing(client *c, const char *column)
{
    const uint8_t *h = c->writer.buffer + c->writer.start;
    uint32_t bytes;
    memcpy(&bytes, h, sizeof bytes);
    Td__Wire__Reply *r = td__wire__reply__unpack(NULL, bytes, h + TD_FRAME_HEADER);
    Td__Wire__Table *t = r ? r->table : NULL;
    int below = t && t->n_rows ? 0 : -1;
    for (size_t k = 0; t && k < t->n_columns; k++)
        for (size_t i = 0; i < t->n_rows && strcmp(t->columns[k], column) == 0; i++)
            below += t->rows[i]->cells[k]->integer < 0;
    if (r) td__wire__reply__free_unpacked(r, NULL);
    return below;
}

/* After so many parts of a table of memory all others end. Was it told before that? */
static bool table_beside_ends(int parts)
{
    enum { OTHERS = 12, TENSORS = 100 };
    client a, others[OTHERS];
    Td__Wire__Status what = TD__WIRE__STATUS__INIT;
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    td_run run = TD_RUN_MORE;
    what.what = (char *)"tensors", c.status = &what;
    join(&a);
    for (int i = 0; i < OTHERS; i++) {
        join(&others[i]);
        for (uint32_t id = 1; id <= TENSORS; id++) zeros(&others[i], id);
        finish(&others[i]);
    }
    a.writer.start = a.writer.end = 0;
    hand_in_call(&a, &c);
    for (; parts > 0 && run == TD_RUN_MORE; parts--) run = part_of_turn(&a);
    for (int i = 0; i < OTHERS; i++) leave(&others[i]);
    while (td_sessions_clear(&sessions, INT_MAX)) {
    }
    for (td_run rest = run; rest == TD_RUN_MORE;) rest = part_of_turn(&a);
    CU_ASSERT_EQUAL(rows_below_nothing(&a, "bytes_used"), 0);
    CU_ASSERT_EQUAL(rows_below_nothing(&a, "bytes_idle"), 0);
    CU_ASSERT_EQUAL(rows_below_nothing(&a, "bytes_own"), 0);
    leave(&a);
    sessions.table_from_ns = 0;
    return run != TD_RUN_MORE;
}

/* Whenever sessions end while a table of memory is made: no row has less than nothing of what they held. */
static void a_table_beside_sessions_that_end(void)
{
    int parts = 0;
    while (!table_beside_ends(parts)) parts++;
    CU_ASSERT_TRUE(parts > 20);
}

/* There is one table at a time: who reads no answers does not keep others from theirs. */
static void a_table_of_who_does_not_read(void)
{
    client a, b;
    td_error e = {0};
    size_t most = sessions.max_unread;
    Td__Wire__Status what = TD__WIRE__STATUS__INIT;
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    what.what = (char *)"sessions", c.status = &what;
    join(&a), join(&b);
    sessions.table_from_ns = td_clock_ns() + MS;
    CU_ASSERT_TRUE(call(&a, &c)); /* waits for its turn, and meanwhile answers come */
    sessions.max_unread = 0;
    td_reply_ok(a.session, 9);
    hand_clock_go_on(2 * MS);
    td_deadlines_run(&service);
    td_run run = TD_RUN_MORE;
    while (run == TD_RUN_MORE) run = serve(a.session, &e);
    CU_ASSERT_EQUAL(run, TD_RUN_IDLE);
    CU_ASSERT_TRUE(!sessions.table && !a.session->work.job);
    sessions.max_unread = most;
    CU_ASSERT_FALSE(call(&b, &c));
    CU_ASSERT_EQUAL(last_code(&b), TD_OK);
    leave(&a), leave(&b);
}

/* Very many names, and somebody who is refused memory again and again: who holds it is not looked up each time. */
static void refused_beside_many_names(void)
{
    enum { NAMES = 100000, REFUSED = 20000 };
    static const int64_t too_much = INT64_C(1) << 40;
    client a;
    char name[32];
    join(&a);
    zeros(&a, 1);
    finish(&a);
    td_cause *cause;
    td_tensor *t = td_session_tensor(a.session, 1, &cause, NULL);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "name %d", i);
        CU_ASSERT_EQUAL_FATAL(td_name_publish(&service, name, t, a.session->account, false, false, NULL), 0);
    }
    clock_t begin = clock();
    td_attrs attrs;
    td_attrs_init(&attrs);
    td_attrs_ints(&attrs, 1, &too_much);
    td_attrs_scalar(&attrs, td_float(0));
    td_attrs_dtype(&attrs, TD_FLOAT32);
    for (uint32_t i = 0, id = 2; i < REFUSED; i++) {
        td_words_op(&a.words, td_op_by_id(TD_OP_FULL), 0, 0, 0, 0, NULL, 1, &id, NULL, &attrs, NULL);
        control(&a, TD_REC_RELEASE, 1, &id, 0, NULL, 0, NULL);
        if (i % 1000 == 999) finish(&a);
    }
    control(&a, TD_REC_SYNC, 0, NULL, 0, NULL, 2, (uint32_t[]){7, 0});
    finish(&a);
    CU_ASSERT_EQUAL(last_code(&a), TD_E_MEMORY);
    CU_ASSERT_TRUE(clock() - begin < 4 * CLOCKS_PER_SEC);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "name %d", i);
        td_name_drop(&service, name, NULL, NULL);
    }
    leave(&a);
}

/* ---- who leases again and again */

static void lease_after_lease(void)
{
    client writer, reader;
    td_error e = {0};
    join(&writer);
    zeros(&writer, 1);
    finish(&writer);
    join_as_clone(&reader, writer.session);
    CU_ASSERT_EQUAL(ask_to_write(&writer, 1), TD_RUN_IDLE);
    for (uint32_t round = 0; round < 5; round++) {
        mul(&reader, 1, 1, 2 + 2 * round);
        mul(&reader, 1, 1, 3 + 2 * round);
        hand_in(&reader);
        CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_SUSPENDED);
        control(&writer, TD_REC_WRITE_END, 1, (uint32_t[]){1}, 0, NULL, 0, NULL);
        finish(&writer);
        CU_ASSERT_EQUAL(ask_to_write(&writer, 1), TD_RUN_SUSPENDED); /* not before the reader */
        CU_ASSERT_EQUAL(serve(writer.session, &e), TD_RUN_SUSPENDED);
        CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_IDLE);
        CU_ASSERT_EQUAL(serve(writer.session, &e), TD_RUN_IDLE);
    }
    mul(&reader, 1, 1, 30);
    hand_in(&reader);
    CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_SUSPENDED);
    control(&writer, TD_REC_WRITE_END, 1, (uint32_t[]){1}, 0, NULL, 0, NULL);
    finish(&writer);
    CU_ASSERT_EQUAL(ask_to_write(&writer, 1), TD_RUN_SUSPENDED);
    leave(&reader); /* who waited has gone */
    CU_ASSERT_EQUAL(serve(writer.session, &e), TD_RUN_IDLE);
    CU_ASSERT_PTR_NULL(sessions.wanting);
    leave(&writer);
}

/* The message of the last reply's error. */
static void last_message(client *c, char *text, size_t size)
{
    uint32_t bytes;
    text[0] = 0;
    for (size_t at = c->writer.start; at < c->writer.end; at += TD_FRAME_HEADER + bytes) {
        const uint8_t *h = c->writer.buffer + at;
        memcpy(&bytes, h, sizeof bytes);
        Td__Wire__Reply *r = h[4] == TD_FRAME_REPLY ? td__wire__reply__unpack(NULL, bytes, h + TD_FRAME_HEADER) : NULL;
        if (r && r->error) snprintf(text, size, "%s", r->error->message);
        if (r) td__wire__reply__free_unpacked(r, NULL);
    }
}

/* The biggest holder has a name that would turn a terminal's writing: that is shown, and not told so. */
static void a_holder_of_a_strange_name(void)
{
    client a, b;
    char text[512];
    td_cause *cause;
    join(&a), join(&b);
    large(&a, 1);
    finish(&a);
    td_tensor *t = td_session_tensor(a.session, 1, &cause, NULL);
    CU_ASSERT_EQUAL_FATAL(td_name_publish(&service, "x\xe2\x80\xaey", t, a.session->account, false, 0, NULL), 0);
    leave(&a);
    sessions.holders_until_ns = 0; /* it is looked up anew */
    full(&b, 1, INT64_C(1) << 30);
    control(&b, TD_REC_SYNC, 0, NULL, 0, NULL, 2, (uint32_t[]){7, 0});
    finish(&b);
    last_message(&b, text, sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "'x\\xe2\\x80\\xaey' (published by client, pid 1, which has ended)"));
    td_name_drop(&service, "x\xe2\x80\xaey", NULL, NULL);
    leave(&b);
}

/* Whoever writes to a tensor and never ends that (it was stopped, say) holds others' streams up for so long: then what
 * needs the tensor fails, and says who it is; what comes behind goes on, and does not wait once more. */
static void a_lease_without_an_end(void)
{
    client writer, reader;
    td_error e = {0};
    char text[512];
    uint32_t lease_ms = sessions.lease_ms;
    sessions.lease_ms = 20;
    join_as(&writer, 77);
    zeros(&writer, 1);
    finish(&writer);
    join_as_clone(&reader, writer.session);
    zeros(&reader, 2);
    finish(&reader);
    CU_ASSERT_EQUAL(ask_to_write(&writer, 1), TD_RUN_IDLE);
    mul(&reader, 1, 1, 3);
    mul(&reader, 2, 2, 4);
    control(&reader, TD_REC_SYNC, 0, NULL, 0, NULL, 2, (uint32_t[]){7, 0});
    hand_in(&reader);
    CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_SUSPENDED);
    CU_ASSERT_STRING_EQUAL(td_session_awaits(reader.session, text, sizeof text),
                           "a write lease that client (pid 77) holds");
    td_run run = TD_RUN_SUSPENDED;
    for (int looks = 0; run == TD_RUN_SUSPENDED && looks < 10000; looks++) {
        usleep(1000);
        td_deadlines_run(&service);
        run = serve(reader.session, &e);
    }
    CU_ASSERT_EQUAL_FATAL(run, TD_RUN_IDLE);
    last_message(&reader, text, sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "client (pid 77) has been writing to the tensor for "));
    CU_ASSERT_EQUAL(last_code(&reader), TD_E_TIMEOUT);
    td_cause *cause = NULL;
    CU_ASSERT_PTR_NOT_NULL(td_session_value(reader.session, 4, &cause, &e));
    CU_ASSERT_PTR_NULL(td_session_value(reader.session, 3, &cause, &e));
    sessions.lease_ms = UINT32_MAX; /* the next one does not wait at all */
    mul(&reader, 1, 1, 5);
    control(&reader, TD_REC_SYNC, 0, NULL, 0, NULL, 2, (uint32_t[]){7, 0});
    hand_in(&reader);
    CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_IDLE);
    CU_ASSERT_EQUAL(last_code(&reader), TD_E_TIMEOUT);
    control(&writer, TD_REC_WRITE_END, 1, (uint32_t[]){1}, 0, NULL, 0, NULL);
    finish(&writer);
    CU_ASSERT_EQUAL(ask_to_write(&writer, 1), TD_RUN_IDLE); /* another lease: one waits for it again */
    mul(&reader, 1, 1, 6);
    hand_in(&reader);
    CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_SUSPENDED);
    control(&writer, TD_REC_WRITE_END, 1, (uint32_t[]){1}, 0, NULL, 0, NULL);
    finish(&writer);
    CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_IDLE);
    CU_ASSERT_PTR_NOT_NULL(td_session_value(reader.session, 6, &cause, &e));
    CU_ASSERT_PTR_NULL(sessions.write_leases);
    sessions.lease_ms = lease_ms;
    leave(&writer), leave(&reader);
}

/* x = x*w, many times, of which only x requires grad, so that w, which is 2, may be written. */
static void build_beside(client *c, int nodes)
{
    uint32_t last = 1;
    zeros(c, 1), zeros(c, 2);
    control(c, TD_REC_REQUIRES_GRAD, 1, &last, 0, NULL, 1, (uint32_t[]){1});
    for (uint32_t i = 0; i < (uint32_t)nodes; last = 10 + i++) mul(c, last, 2, 10 + i);
    mul(c, last, 2, 9);
    finish(c);
}

/* In place. */
static void write_to(client *c, uint32_t id)
{
    td_attrs none;
    td_attrs_init(&none);
    td_words_op(&c->words, td_op_by_id(TD_OP_MUL), 0, TD_CF_OUT, 0, 2, (uint32_t[]){id, id}, 1, &id, NULL, &none, NULL);
}

/* To where it has something that it must still read. */
static void begin_backward(client *c)
{
    backward(c, 8 | 1, false);
    hand_in(c);
    CU_ASSERT_FALSE_FATAL(turn(c));
    while (!c->session->access.at_reading) CU_ASSERT_FALSE_FATAL(turn(c));
    CU_ASSERT_FALSE(turn(c));
}

static void sync_records(client *c)
{
    control(c, TD_REC_SYNC, 0, NULL, 0, NULL, 2, (uint32_t[]){7, 0});
    hand_in(c);
}

/* Another's backward that does not come to what one is to write holds a stream up for so long: the write fails, and
 * says whose backward it is; what comes behind goes on, and the next one does not wait once more. */
static void a_backward_without_an_end(void)
{
    enum { LEASE_MS = 20 };
    client a, b;
    td_error e = {0};
    char text[512];
    uint32_t lease_ms = sessions.lease_ms;
    sessions.lease_ms = LEASE_MS;
    join_as(&a, 77), join(&b);
    build_beside(&a, 5000);
    hand_over(&a, &b, 2);
    zeros(&b, 1);
    finish(&b);
    begin_backward(&a);
    write_to(&b, 2);
    mul(&b, 1, 1, 3);
    sync_records(&b);
    CU_ASSERT_EQUAL(serve(b.session, &e), TD_RUN_SUSPENDED);
    CU_ASSERT_STRING_EQUAL(td_session_awaits(b.session, text, sizeof text),
                           "a backward that has yet to read the tensor, of client (pid 77)");
    for (int k = 0; k < 5; k++) { /* as long as it goes on, one waits */
        CU_ASSERT_FALSE(turn(&a));
        hand_clock_go_on((LEASE_MS + 1) * MS);
        td_deadlines_run(&service);
        CU_ASSERT_EQUAL_FATAL(serve(b.session, &e), TD_RUN_SUSPENDED);
    }
    hand_clock_go_on((LEASE_MS + 1) * MS);
    td_deadlines_run(&service);
    CU_ASSERT_EQUAL_FATAL(serve(b.session, &e), TD_RUN_IDLE);
    last_message(&b, text, sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "a backward of client (pid 77) has yet to read the tensor"));
    CU_ASSERT_EQUAL(last_code(&b), TD_E_TIMEOUT);
    td_cause *cause = NULL;
    CU_ASSERT_PTR_NOT_NULL(td_session_value(b.session, 3, &cause, &e));
    sessions.lease_ms = UINT32_MAX; /* the next one does not wait at all */
    write_to(&b, 2);
    sync_records(&b);
    CU_ASSERT_EQUAL(serve(b.session, &e), TD_RUN_IDLE);
    CU_ASSERT_EQUAL(last_code(&b), TD_E_TIMEOUT);
    while (!turn(&a)) {
    }
    CU_ASSERT_PTR_NULL(sessions.backwards);
    begin_backward(&a); /* another one: one waits for it again */
    write_to(&b, 2);
    sync_records(&b);
    CU_ASSERT_EQUAL(serve(b.session, &e), TD_RUN_SUSPENDED);
    while (!turn(&a)) {
    }
    CU_ASSERT_EQUAL(serve(b.session, &e), TD_RUN_IDLE);
    CU_ASSERT_EQUAL(last_code(&b), TD_OK);
    sessions.lease_ms = lease_ms;
    leave(&a), leave(&b);
}

/* Of several backwards so much is looked at, and no more: whose it is then is not told. */
static void a_backward_behind_a_large_one(void)
{
    enum { MANY = 5000 };
    client readers[2], b[2];
    td_error e = {0};
    char text[512];
    for (int k = 0; k < 2; k++) {
        join_as(&readers[k], 77 + (uint32_t)k), join(&b[k]);
        build_beside(&readers[k], MANY);
        hand_over(&readers[k], &b[k], 2);
        begin_backward(&readers[k]);
        write_to(&b[k], 2);
        sync_records(&b[k]);
        CU_ASSERT_EQUAL_FATAL(serve(b[k].session, &e), TD_RUN_SUSPENDED);
    }
    CU_ASSERT_STRING_EQUAL(td_session_awaits(b[1].session, text, sizeof text),
                           "a backward that has yet to read the tensor, of client (pid 78)");
    CU_ASSERT_STRING_EQUAL(td_session_awaits(b[0].session, text, sizeof text),
                           "a backward that has yet to read the tensor");
    for (int k = 0; k < 2; k++) {
        while (!turn(&readers[k])) {
        }
        CU_ASSERT_EQUAL(serve(b[k].session, &e), TD_RUN_IDLE);
        CU_ASSERT_EQUAL(last_code(&b[k]), TD_OK);
    }
    for (int k = 0; k < 2; k++) leave(&readers[k]), leave(&b[k]);
}

/* Who does not read its answers, or is stopped, comes to the end of its backward all the same. */
static void a_backward_of_who_does_not_read(void)
{
    client a, b;
    td_error e = {0};
    size_t most = sessions.max_unread;
    uint32_t id = 3;
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    Td__Wire__QueuePut put = TD__WIRE__QUEUE_PUT__INIT;
    Td__Wire__Call gets = TD__WIRE__CALL__INIT, puts = gets;
    get.queue = put.queue = 1, get.n_ids = 1, get.ids = &id, get.timeout_ms = UINT32_MAX;
    gets.queue_get = &get, puts.queue_put = &put;
    join(&a), join(&b);
    open_queue(&a, "q"), open_queue(&b, "q");
    build_beside(&a, 5000);
    CU_ASSERT_FALSE(call(&a, &gets));
    begin_backward(&a);
    CU_ASSERT_FALSE(call(&b, &puts));
    CU_ASSERT_PTR_NOT_NULL_FATAL(a.session->beside.over);
    sessions.max_unread = 0;
    td_reply_ok(a.session, 9);
    td_run run = TD_RUN_MORE;
    while (run == TD_RUN_MORE) run = serve(a.session, &e);
    CU_ASSERT_EQUAL(run, TD_RUN_STALLED);
    CU_ASSERT_TRUE(!sessions.backwards && !a.session->work.job && a.session->beside.over);
    sessions.max_unread = most;
    CU_ASSERT_EQUAL(serve(a.session, &e), TD_RUN_IDLE);
    CU_ASSERT_PTR_NULL(a.session->beside.held);
    leave(&a), leave(&b);
}

/* When a lease or a session ends, those who wait for leases are looked at, however many others there are; and when a
 * segment goes, those who have a descriptor of it. */
static void beside_many_sessions(void)
{
    enum { OTHERS = 500 };
    static client others[OTHERS];
    client writer, reader, gives_up;
    td_error e = {0};
    for (int i = 0; i < OTHERS; i++) join(&others[i]);
    join(&writer);
    zeros(&writer, 1);
    finish(&writer);
    join_as_clone(&reader, writer.session), join_as_clone(&gives_up, writer.session);
    CU_ASSERT_PTR_NULL(sessions.for_leases);
    CU_ASSERT_PTR_NULL(sessions.sent);
    CU_ASSERT_EQUAL(ask_to_write(&writer, 1), TD_RUN_IDLE); /* with a descriptor */
    CU_ASSERT_TRUE(sessions.sent && writer.session->memory.sent && !reader.session->memory.sent);
    mul(&gives_up, 1, 1, 2), mul(&reader, 1, 1, 2);
    hand_in(&gives_up), hand_in(&reader);
    CU_ASSERT_EQUAL(serve(gives_up.session, &e), TD_RUN_SUSPENDED);
    CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_SUSPENDED);
    CU_ASSERT_PTR_EQUAL_FATAL(sessions.for_leases, gives_up.session);
    CU_ASSERT_PTR_EQUAL_FATAL(sessions.for_leases->access.next_for_leases, reader.session);
    leave(&gives_up);
    CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_SUSPENDED); /* it has looked, and waits again */
    CU_ASSERT_PTR_EQUAL_FATAL(sessions.for_leases, reader.session);
    CU_ASSERT_PTR_NULL(sessions.for_leases->access.next_for_leases);
    leave(&writer);
    CU_ASSERT_PTR_NULL(sessions.for_leases);
    CU_ASSERT_PTR_NULL(sessions.sent);
    CU_ASSERT_EQUAL(serve(reader.session, &e), TD_RUN_IDLE);
    leave(&reader);
    for (int i = 0; i < OTHERS; i++) leave(&others[i]);
}

/* A second service on this thread, with a worker, beside the one that all tests share. */
typedef struct second {
    td_service service;
    td_sessions sessions;
    td_device_entry cpu; /* of the one beside it, which has it back at the end */
} second;

static void begin_second(second *x)
{
    td_service_options o = {.memory = 512 << 20, .workers = 1, .wake = ignore};
    td_error e = {0};
    x->cpu = *td_device_get(TD_CPU);
    CU_ASSERT_EQUAL_FATAL(td_service_init(&x->service, &o, &e), 0);
    td_sessions_init(&x->sessions, &x->service);
}

/* What sessions left that have ended. */
static void clear_second(second *x)
{
    td_sched *sched = x->service.sched;
    while (td_sessions_clear(&x->sessions, INT_MAX) || !td_sched_idle(sched)) td_sched_collect(sched, INT_MAX);
}

static void end_second(second *x)
{
    clear_second(x);
    td_service_deinit(&x->service);
    td_device_add(&x->cpu);
}

/* A sum of more elements than anybody could add. */
static void endless(client *c, uint32_t x, uint32_t view, uint32_t out)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, (int64_t[]){INT64_C(1) << 40});
    td_attrs_ints(&a, 1, (int64_t[]){0});
    td_attrs_int(&a, 0);
    td_words_op(&c->words, td_op_by_id(TD_OP_AS_STRIDED), 0, 0, 0, 1, &x, 1, &view, NULL, &a, NULL);
    td_attrs_init(&a);
    td_attrs_none(&a), td_attrs_bool(&a, false), td_attrs_none(&a);
    td_words_op(&c->words, td_op_by_id(TD_OP_SUM), 0, 0, 0, 1, &view, 1, &out, NULL, &a, NULL);
}

/* Until it waits. */
static uint64_t issued(client *c)
{
    td_error e = {0};
    td_run r;
    while ((r = serve(c->session, &e)) == TD_RUN_MORE) {
    }
    CU_ASSERT_EQUAL(r, TD_RUN_SUSPENDED);
    return td_flow_pending(c->session->flow);
}

/* For so many ms; `starved`: the workers have no processor meanwhile. Until more is under way than `first`. */
static void let_time_pass(client *c, int ms, uint64_t first, bool starved)
{
    for (int i = 0; i < ms && td_flow_pending(c->session->flow) == first; i++) {
        hand_clock_go_on(MS);
        if (!starved) hand_clock_work(MS);
        td_deadlines_run(c->session->service);
        issued(c);
    }
}

/* Only so many tasks are issued ahead of the workers; more when none of them ends for a while, though they work. */
static void ahead_of_the_workers(void)
{
    second v;
    client c;
    begin_second(&v);
    join_to(&c, &v.sessions, 1);
    zeros(&c, 1);
    endless(&c, 1, 2, 3);
    for (uint32_t i = 0; i < 2000; i++) mul(&c, i ? 9 + i : 3, 3, 10 + i);
    hand_in(&c);
    uint64_t first = issued(&c);
    CU_ASSERT_TRUE(first >= 32 && first <= 256);
    CU_ASSERT_EQUAL(issued(&c), first);
    let_time_pass(&c, 120, first, true);
    CU_ASSERT_EQUAL(td_flow_pending(c.session->flow), first);
    let_time_pass(&c, 60, first, false);
    CU_ASSERT_TRUE(td_flow_pending(c.session->flow) >= 2 * first - 2);
    leave(&c);
    end_second(&v);
}

/* Nor does who waits for its own tasks: here their memory has become short meanwhile. */
static void a_table_of_who_waits_for_its_tasks(void)
{
    enum { TASKS = 8 };
    second v;
    td_error e = {0};
    client c;
    Td__Wire__Status what = TD__WIRE__STATUS__INIT;
    Td__Wire__Call x = TD__WIRE__CALL__INIT;
    what.what = (char *)"sessions", x.status = &what;
    begin_second(&v);
    join_to(&c, &v.sessions, 1);
    zeros(&c, 1);
    endless(&c, 1, 2, 3);
    for (uint32_t i = 0; i < TASKS; i++) mul(&c, 3, 3, 10 + i);
    finish(&c);
    v.sessions.table_from_ns = td_clock_ns() + MS;
    CU_ASSERT_TRUE(call(&c, &x)); /* waits for its turn */
    c.session->account->limit_objects = c.session->account->objects;
    CU_ASSERT_TRUE(td_account_strained(c.session->account) && td_flow_pending(c.session->flow) >= TASKS);
    hand_clock_go_on(2 * MS);
    td_deadlines_run(&v.service);
    CU_ASSERT_EQUAL(serve(c.session, &e), TD_RUN_IDLE);
    CU_ASSERT_EQUAL(last_code(&c), TD_OK);
    CU_ASSERT_PTR_NULL(v.sessions.table);
    leave(&c);
    end_second(&v);
}

/* To the end of what it was handed, whatever it waits for. */
static void go_through(client *c)
{
    td_service *v = c->session->service;
    td_error e = {0};
    while (serve(c->session, &e) != TD_RUN_IDLE) {
        hand_clock_go_on(MS);
        td_deadlines_run(v);
        td_sched_collect(v->sched, INT_MAX);
    }
}

/* A client holds most of the memory by a task that has no end: it has released it. */
static void hold_by_a_task(client *c)
{
    zeros(c, 1);
    full(c, 4, 75 << 20);
    endless(c, 4, 5, 6);
    control(c, TD_REC_RELEASE, 2, (uint32_t[]){4, 5}, 0, NULL, 0, NULL);
    hand_in(c);
    go_through(c);
    CU_ASSERT_TRUE(td_flow_pending(c->session->flow) >= 1);
}

/* For so many seconds; does it still wait for memory then? */
static bool lacks_for(client *c, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        hand_clock_go_on(UINT64_C(1000) * MS);
        td_deadlines_run(c->session->service);
        td_error e = {0};
        if (serve(c->session, &e) != TD_RUN_SUSPENDED) return false;
    }
    return true;
}

/* A client waits for memory that a task of another works with until that task ends, however long it takes, but not for
 * ever. */
static void memory_that_a_task_of_another_holds(void)
{
    second v;
    td_error e = {0};
    begin_second(&v);
    for (int ends = 1; ends >= 0; ends--) {
        client a, b;
        join_to(&a, &v.sessions, 1), join_to(&b, &v.sessions, 2);
        hold_by_a_task(&a);
        full(&b, 1, 75 << 20);
        control(&b, TD_REC_READ, 1, (uint32_t[]){1}, 0, NULL, 2, (uint32_t[]){7, 0});
        hand_in(&b);
        while (serve(b.session, &e) == TD_RUN_MORE) {
        }
        CU_ASSERT_TRUE(lacks_for(&b, 40));
        if (ends) {
            leave(&a);
            clear_second(&v);
        } else {
            CU_ASSERT_FALSE(lacks_for(&b, 30));
            leave(&a);
        }
        go_through(&b);
        CU_ASSERT_TRUE(td_writer_pending(&b.writer) > 0); /* its value, or why there is none */
        CU_ASSERT_EQUAL(last_code(&b), ends ? TD_E_LOST : TD_E_MEMORY);
        leave(&b);
        clear_second(&v);
    }
    end_second(&v);
}

/* An item has come for a get, and cannot be told as the client reads nothing: what it sent next waits behind it, for it
 * may take away what the get was about. */
static void answers_before_records(void)
{
    client a, b;
    td_error e = {0};
    size_t most = sessions.max_unread;
    uint32_t id = 1;
    join(&a), join(&b);
    Td__Wire__QueueOpen open = TD__WIRE__QUEUE_OPEN__INIT;
    open.queue = 1, open.name = (char *)"q", open.role = TD_QUEUE_PRODUCER | TD_QUEUE_CONSUMER, open.capacity = 1;
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    get.queue = 1, get.n_ids = 1, get.ids = &id, get.timeout_ms = UINT32_MAX;
    Td__Wire__QueuePut put = TD__WIRE__QUEUE_PUT__INIT;
    put.queue = 1;
    Td__Wire__QueueClose end = TD__WIRE__QUEUE_CLOSE__INIT;
    end.queue = 1;
    Td__Wire__Call opens = TD__WIRE__CALL__INIT, gets = opens, puts = opens, closes = opens;
    opens.queue_open = &open, gets.queue_get = &get, puts.queue_put = &put, closes.queue_close = &end;
    CU_ASSERT_FALSE(call(&a, &opens));
    CU_ASSERT_FALSE(call(&b, &opens));
    CU_ASSERT_FALSE(call(&a, &gets));
    CU_ASSERT_FALSE(call(&b, &puts));
    CU_ASSERT_PTR_NOT_NULL(a.session->beside.over);
    sessions.max_unread = 0;
    td_reply_ok(a.session, 9);
    hand_in_call(&a, &closes);
    CU_ASSERT_EQUAL(serve(a.session, &e), TD_RUN_STALLED);
    CU_ASSERT_EQUAL_FATAL(HASH_COUNT(a.session->queues), 1);
    sessions.max_unread = most;
    CU_ASSERT_EQUAL(serve(a.session, &e), TD_RUN_IDLE);
    CU_ASSERT_EQUAL(HASH_COUNT(a.session->queues), 0);
    CU_ASSERT_PTR_NULL(a.session->beside.held);
    leave(&a), leave(&b);
}

/* The texts of a client's call sites, as many as it may have, go in parts. */
static void sites_of_an_ended_client(void)
{
    enum { SITES = 60000 };
    client a;
    td_error e = {0};
    join(&a);
    Td__Wire__CallSite *sites = calloc(SITES, sizeof *sites), **list = calloc(SITES, sizeof *list);
    for (uint32_t i = 0; i < SITES; i++) {
        td__wire__call_site__init(list[i] = &sites[i]);
        sites[i].id = i + 1;
        sites[i].text = (char *)"train.py:7";
    }
    Td__Wire__Batch b = TD__WIRE__BATCH__INIT;
    b.n_sites = SITES, b.sites = list;
    uint8_t *p = malloc(td__wire__batch__get_packed_size(&b));
    td_frame f = {.kind = TD_FRAME_BATCH, .payload = p, .bytes = (uint32_t)td__wire__batch__pack(&b, p), .fd = -1};
    CU_ASSERT_EQUAL_FATAL(td_session_frame(a.session, &f, &e), 0);
    int turns = 1;
    while (!turn(&a)) turns++;
    CU_ASSERT_TRUE(turns >= SITES / RECORDS);
    free(p), free(list), free(sites);
    leave(&a);
    CU_ASSERT_PTR_NOT_NULL_FATAL(sessions.remains);
    uint32_t left = sessions.remains->nsites;
    CU_ASSERT_TRUE(left > SITES / 2);
    while (sessions.remains) {
        td_sessions_clear(&sessions, CLEAR);
        uint32_t now = sessions.remains ? sessions.remains->nsites : 0;
        CU_ASSERT_TRUE_FATAL(left - now <= CLEAR);
        left = now;
    }
}

/* ---- programs that come */

enum { NODES = 10000, READERS = 8 };

static struct {
    void (*work)(void *), (*done)(void *);
    void *arg;
} readers[READERS]; /* what helper threads were given */
static int nreaders;

static void hand_to_reader(void *hook_arg, void (*work)(void *), void (*done)(void *), void *arg)
{
    (void)hook_arg;
    CU_ASSERT_TRUE_FATAL(nreaders < READERS);
    readers[nreaders].work = work, readers[nreaders].done = done, readers[nreaders++].arg = arg;
}

static void read_and_return(int reader)
{
    readers[reader].work(readers[reader].arg);
    if (readers[reader].done) readers[reader].done(readers[reader].arg);
}

/* All that was given since; the first `kept` are still out. */
static void return_others(int kept)
{
    while (nreaders > kept) nreaders--, readers[nreaders].work(readers[nreaders].arg);
}

/* negations of what it captures; freed by the caller */
static uint8_t *large_program(size_t *length)
{
    char *text = malloc(NODES * 64), *at = text;
    td_error e = {0};
    at += sprintf(at, "captured %%x0 : Tensor = \"w\"\ngraph():\n");
    for (int i = 0; i < NODES; i++) at += sprintf(at, "  %%x%d : Tensor = td::neg(%%x%d)\n", i + 1, i);
    sprintf(at, "  return (%%x%d)\n", NODES);
    td_ir *ir = td_ir_read(text, strlen(text), &e);
    uint8_t *bytes = ir ? td_ir_encode(ir, length, &e) : NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    td_ir_unref(ir);
    free(text);
    return bytes;
}

static bool send_program(client *c, uint8_t *bytes, size_t length)
{
    Td__Wire__ProgramNew q = TD__WIRE__PROGRAM_NEW__INIT;
    Td__Wire__Call w = TD__WIRE__CALL__INIT;
    uint32_t captured = 1;
    q.program = 7, q.ir.data = bytes, q.ir.len = length, q.captured = &captured, q.n_captured = 1;
    w.program_new = &q;
    return call(c, &w);
}

/* A large program is read by a helper, two at a time; who sent one waits, and pays for what that takes; nobody else
 * does either. */
static void programs_that_come(void)
{
    client a, b, ends, waits;
    size_t length;
    uint8_t *bytes = large_program(&length);
    service.options.background = hand_to_reader;
    join_as(&a, 1), join_as(&b, 2), join_as(&ends, 3), join_as(&waits, 4);
    zeros(&a, 1), zeros(&b, 1), zeros(&ends, 1), zeros(&waits, 1);
    finish(&a), finish(&b), finish(&ends), finish(&waits);
    uint64_t before = a.session->account->bytes;
    CU_ASSERT_TRUE(send_program(&a, bytes, length));
    CU_ASSERT_TRUE(a.session->account->bytes >= before + 10 * length);
    CU_ASSERT_TRUE(send_program(&ends, bytes, length - 1));
    CU_ASSERT_TRUE(send_program(&waits, bytes, length));
    CU_ASSERT_EQUAL(nreaders, 2);
    small_wish(&b);
    td_error e;
    td_session *last = waits.session;
    CU_ASSERT_TRUE(td_session_waits(last)); /* not its own tasks: with its client it ends at once */
    leave(&waits);
    leave(&ends); /* in the middle of it */
    read_and_return(0);
    CU_ASSERT_EQUAL(nreaders, 2); /* nobody wants that any more */
    CU_ASSERT_TRUE(turn(&a));
    CU_ASSERT_EQUAL(last_code(&a), TD_OK);
    CU_ASSERT_PTR_NOT_NULL(td_session_program_of(a.session, 7, &e));
    CU_ASSERT_TRUE(a.session->account->bytes < before + 10 * length);
    read_and_return(1);
    CU_ASSERT_EQUAL_FATAL(nreaders, 3); /* the frame is done: what it took is freed there, too */
    read_and_return(2);
    CU_ASSERT_EQUAL(sessions.to_read.begun, 0);
    CU_ASSERT_PTR_NULL(sessions.to_read.all);
    CU_ASSERT_PTR_NULL(sessions.ending);
    /* what is wrong with it is told when it was read; too much, before */
    nreaders = 0;
    CU_ASSERT_TRUE(send_program(&b, bytes, length - 1));
    read_and_return(0);
    CU_ASSERT_TRUE(turn(&b));
    CU_ASSERT_EQUAL(last_code(&b), TD_E_PROTOCOL);
    b.session->account->limit_bytes = 2 * length;
    CU_ASSERT_FALSE(send_program(&b, bytes, length));
    CU_ASSERT_EQUAL(last_code(&b), TD_E_QUOTA);
    CU_ASSERT_EQUAL_FATAL(nreaders, 3); /* only to free what the two frames took */
    read_and_return(1), read_and_return(2);
    leave(&a), leave(&b);
    CU_ASSERT_EQUAL_FATAL(nreaders, 4); /* what it leaves is freed there, too */
    read_and_return(3);
    service.options.background = NULL;
    nreaders = 0;
    free(bytes);
}

/* Whoever sends many waits behind itself: each process has one with a helper at a time, and they take turns. */
static void programs_of_many(void)
{
    enum { MANY = 3 };
    client many[MANY], one;
    size_t length;
    uint8_t *bytes = large_program(&length);
    service.options.background = hand_to_reader;
    for (int i = 0; i < MANY; i++) join_as(&many[i], 1);
    join_as(&one, 2);
    zeros(&one, 1), finish(&one);
    for (int i = 0; i < MANY; i++) zeros(&many[i], 1), finish(&many[i]);
    for (int i = 0; i < MANY; i++) CU_ASSERT_TRUE(send_program(&many[i], bytes, length));
    CU_ASSERT_EQUAL_FATAL(nreaders, 1); /* though there is another helper */
    CU_ASSERT_TRUE(send_program(&one, bytes, length));
    CU_ASSERT_EQUAL_FATAL(nreaders, 2); /* it waits for nobody */
    read_and_return(1);
    CU_ASSERT_TRUE(turn(&one));
    CU_ASSERT_EQUAL(last_code(&one), TD_OK);
    leave(&many[1]);
    return_others(2); /* what the frame took, freed */
    read_and_return(0);
    CU_ASSERT_EQUAL_FATAL(nreaders, 3); /* the third, as nobody wants the second any more */
    read_and_return(2);
    CU_ASSERT_TRUE(turn(&many[2]) && turn(&many[0]));
    CU_ASSERT_PTR_NULL(sessions.to_read.all);
    return_others(3);
    leave(&one), leave(&many[0]), leave(&many[2]);
    return_others(3);
    nreaders = 0;
    service.options.background = NULL;
    free(bytes);
}

static uint8_t *small_program(const char *text, size_t *length)
{
    td_error e = {0};
    td_ir *ir = td_ir_read(text, strlen(text), &e);
    uint8_t *bytes = ir ? td_ir_encode(ir, length, &e) : NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    td_ir_unref(ir);
    return bytes;
}

/* What a program takes is not told by how many bytes it has: with calls or loops it goes to a helper. */
static void small_programs(void)
{
    static const struct {
        const char *text;
        bool to_helper;
    } all[] = {
        {"captured %w : Tensor = \"w\"\ngraph(%n : int):\n  %m : int = prim::add.int(%n, %n)\n  return (%m)\n", false},
        {"captured %w : Tensor = \"w\"\ngraph(%n : int):\n  %m : int = fn::f(%n)\n  return (%m)\n"
         "fn f(%n : int):\n  %m : int = fn::g(%n)\n  %k : int = fn::g(%m)\n  return (%k)\n"
         "fn g(%n : int):\n  %m : int = prim::add.int(%n, %n)\n  return (%m)\n",
         true},
        {"captured %w : Tensor = \"w\"\ngraph(%n : int):\n  %yes : bool = prim::Constant[value=1]()\n"
         "  %m : int = prim::Loop(%n, %yes, %n)\n    block0(%i : int, %a : int):\n"
         "      %b : int = prim::add.int(%a, %n)\n      -> (%yes, %b)\n  return (%m)\n",
         true}};
    client c;
    td_error e;
    uint32_t seven = 7;
    service.options.background = hand_to_reader;
    join(&c);
    zeros(&c, 1), finish(&c);
    for (unsigned k = 0; k < sizeof all / sizeof *all; k++) {
        size_t length;
        uint8_t *bytes = small_program(all[k].text, &length);
        CU_ASSERT_EQUAL(send_program(&c, bytes, length), all[k].to_helper);
        CU_ASSERT_EQUAL_FATAL(nreaders, all[k].to_helper);
        if (all[k].to_helper) read_and_return(0);
        CU_ASSERT_TRUE(turn(&c));
        CU_ASSERT_EQUAL(last_code(&c), TD_OK);
        CU_ASSERT_PTR_NOT_NULL(td_session_program_of(c.session, 7, &e));
        control(&c, TD_REC_PROGRAM_END, 0, NULL, 0, NULL, 1, &seven);
        finish(&c);
        nreaders = 0;
        free(bytes);
    }
    leave(&c);
    service.options.background = NULL;
}

/* After so many parts of a table of memory all programs of another end. Was it told before that? */
static bool table_beside_programs(int parts)
{
    enum { PROGRAMS = 30 };
    static const char text[] = "captured %w : Tensor = \"w\"\ngraph():\n  return (%w)\n";
    client a, b;
    size_t length;
    uint8_t *bytes = small_program(text, &length);
    uint32_t captured = 1;
    Td__Wire__ProgramNew q = TD__WIRE__PROGRAM_NEW__INIT;
    Td__Wire__Status what = TD__WIRE__STATUS__INIT;
    Td__Wire__Call sent = TD__WIRE__CALL__INIT, asked = TD__WIRE__CALL__INIT;
    q.ir.data = bytes, q.ir.len = length, q.captured = &captured, q.n_captured = 1, sent.program_new = &q;
    what.what = (char *)"tensors", asked.status = &what;
    join(&a), join(&b);
    zeros(&b, 1), finish(&b);
    for (q.program = 1; q.program <= PROGRAMS; q.program++) {
        CU_ASSERT_FALSE(call(&b, &sent));
        CU_ASSERT_EQUAL(last_code(&b), TD_OK);
    }
    hand_in_call(&a, &asked);
    td_run run = TD_RUN_MORE;
    for (; parts > 0 && run == TD_RUN_MORE; parts--) run = part_of_turn(&a);
    for (uint32_t id = 1; id <= PROGRAMS; id++) control(&b, TD_REC_PROGRAM_END, 0, NULL, 0, NULL, 1, &id);
    finish(&b);
    CU_ASSERT_TRUE_FATAL(!sessions.table || !sessions.table->list.known); /* it is at none that has gone */
    for (td_run rest = run; rest == TD_RUN_MORE;) rest = part_of_turn(&a);
    leave(&a), leave(&b);
    sessions.table_from_ns = 0;
    free(bytes);
    return run != TD_RUN_MORE;
}

/* Whenever programs end while a table of memory is made. */
static void a_table_beside_programs_that_end(void)
{
    int parts = 0;
    while (!table_beside_programs(parts)) parts++;
    CU_ASSERT_TRUE(parts > 5);
}

/* Who opens a program of megabytes is told its module in parts. */
static void a_large_program_opened(void)
{
    enum { PART = 64 << 10 };
    client a, b;
    size_t length;
    td_error e = {0};
    uint8_t *bytes = large_program(&length);
    join(&a), join(&b);
    zeros(&a, 1), finish(&a);
    CU_ASSERT_FALSE(send_program(&a, bytes, length));
    CU_ASSERT_EQUAL(last_code(&a), TD_OK);
    Td__Wire__ProgramPublish q = TD__WIRE__PROGRAM_PUBLISH__INIT;
    Td__Wire__Open o = TD__WIRE__OPEN__INIT;
    Td__Wire__Call publish = TD__WIRE__CALL__INIT, open = TD__WIRE__CALL__INIT;
    q.program = 7, q.name = (char *)"large", publish.program_publish = &q;
    hand_in_call(&a, &publish);
    while (!turn(&a)) {
    }
    o.id = 3, o.name = (char *)"large", open.program_open = &o;
    b.writer.start = b.writer.end = 0; /* the welcome */
    hand_in_call(&b, &open);
    int turns = 1;
    for (; td_session_run_until(b.session, 1, &(uint64_t){UINT64_MAX}, &e) == TD_RUN_MORE; turns++) {
        size_t got = td_writer_pending(&b.writer);
        CU_ASSERT_TRUE(got == 0 || got > length);
    }
    CU_ASSERT_TRUE(turns >= (int)(length / PART));
    const uint8_t *h = b.writer.buffer + b.writer.start;
    uint32_t n;
    memcpy(&n, h, sizeof n);
    Td__Wire__Reply *r = td__wire__reply__unpack(NULL, n, h + TD_FRAME_HEADER);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r);
    CU_ASSERT_TRUE(r->ir.len == length && memcmp(r->ir.data, bytes, length) == 0);
    td__wire__reply__free_unpacked(r, NULL);
    CU_ASSERT_PTR_NOT_NULL(td_session_program_of(b.session, 3, &e));
    o.id = 4; /* one that leaves in the midst of it */
    b.writer.start = b.writer.end = 0;
    hand_in_call(&b, &open);
    CU_ASSERT_EQUAL(td_session_run_until(b.session, 1, &(uint64_t){UINT64_MAX}, &e), TD_RUN_MORE);
    leave(&b);
    CU_ASSERT_EQUAL(td_name_drop(&service, "large", a.session->account, &e), 0);
    leave(&a);
    while (td_sessions_clear(&sessions, CLEAR)) {
    }
    free(bytes);
}

/* What a call takes in parts is there until it has all of it: also what a get, which goes on between two of them, had
 * bound and takes back. */
static void arguments_that_go_meanwhile(void)
{
    static const char text[] = "captured %w : Tensor = \"w\"\n"
                               "graph(%l : Tensor[]):\n"
                               "  %n : int = prim::len.list(%l)\n"
                               "  return (%n)\n";
    enum { ARGS = 2000, ITEM = 100, FIRST = 5001, AT = 1200 }; /* AT: the third part brings it */
    client a, b;
    td_error e = {0};
    size_t length, most = sessions.max_unread;
    uint32_t ids[ARGS], rest[TD_CALL_HEAD + 1 + ARGS] = {7, 9, 0, 0, 0, 1}, put[ITEM];
    uint8_t *bytes = small_program(text, &length);
    join(&a), join(&b);
    for (uint32_t k = 0; k < ARGS; k++) zeros(&a, ids[k] = k + 1);
    for (uint32_t k = 0; k < ITEM; k++) zeros(&b, put[k] = k + 1), item_ids[k] = FIRST + k;
    finish(&a), finish(&b);
    CU_ASSERT_FALSE(send_program(&a, bytes, length));
    CU_ASSERT_EQUAL(last_code(&a), TD_OK);
    open_queue(&a, "taken back"), open_queue(&b, "taken back");
    Td__Wire__QueuePut q = TD__WIRE__QUEUE_PUT__INIT;
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    Td__Wire__Call puts = TD__WIRE__CALL__INIT, gets = TD__WIRE__CALL__INIT;
    q.queue = get.queue = 1, q.n_ids = get.n_ids = ITEM, q.ids = put, get.ids = item_ids, get.timeout_ms = UINT32_MAX;
    puts.queue_put = &q, gets.queue_get = &get;
    item_ids[ITEM - 1] = FIRST; /* so it fails, once all others are bound */
    CU_ASSERT_FALSE(call(&a, &gets));
    ids[AT] = FIRST;
    rest[TD_CALL_HEAD] = TD_PV_LIST | ARGS << 8;
    for (uint32_t k = 0; k < ARGS; k++) rest[TD_CALL_HEAD + 1 + k] = TD_PV_TENSOR;
    control(&a, TD_REC_CALL, ARGS, ids, 0, NULL, TD_CALL_HEAD + 1 + ARGS, rest);
    hand_in(&a);
    CU_ASSERT_EQUAL(part_of_turn(&a), TD_RUN_MORE); /* the first part */
    hand_in_call(&b, &puts);
    while (!turn(&b)) {
    }
    CU_ASSERT_EQUAL(part_of_turn(&a), TD_RUN_MORE); /* most of the item is bound */
    CU_ASSERT_PTR_NOT_NULL_FATAL(td_objects_find(&a.session->objects, FIRST));
    for (uint32_t k = 0; k < ITEM; k++) control(&b, TD_REC_RELEASE, 1, &put[k], 0, NULL, 0, NULL);
    finish(&b);
    sessions.max_unread = 0;
    td_reply_ok(a.session, 8);
    CU_ASSERT_EQUAL(part_of_turn(&a), TD_RUN_MORE);
    CU_ASSERT_EQUAL(part_of_turn(&a), TD_RUN_MORE); /* the second and the third */
    sessions.max_unread = most;
    CU_ASSERT_EQUAL(part_of_turn(&a), TD_RUN_MORE); /* the get takes all back */
    CU_ASSERT_PTR_NULL_FATAL(td_objects_find(&a.session->objects, FIRST));
    int64_t before = td_live_counts().tensors;
    item_ids[ITEM - 1] = FIRST + ITEM - 1;
    CU_ASSERT_FALSE(call(&b, &gets));
    CU_ASSERT_EQUAL(last_code(&b), TD_OK);
    for (uint32_t k = 0; k < ITEM; k++) control(&b, TD_REC_RELEASE, 1, &item_ids[k], 0, NULL, 0, NULL);
    finish(&b);
    while (td_sessions_clear(&sessions, INT_MAX)) {
    }
    CU_ASSERT_EQUAL_FATAL(before - td_live_counts().tensors, ITEM - 1); /* all but the one that the call has taken */
    a.writer.start = a.writer.end = 0;
    td_run run = TD_RUN_MORE;
    while (run == TD_RUN_MORE) run = serve(a.session, &e);
    CU_ASSERT_EQUAL(run, TD_RUN_IDLE);
    CU_ASSERT_EQUAL(last_code(&a), TD_OK);
    leave(&a), leave(&b);
    free(bytes);
}

/* A program whose time is over while memory is made for it ends at once; what is made then is there for the next. */
static void time_over_without_memory(void)
{
    static const char text[] = "captured %w : Tensor = \"w\"\n"
                               "graph():\n"
                               "  %n : int = prim::Constant[value=4000000]()\n"
                               "  %d : dtype = prim::Constant[value=\"float32\"]()\n"
                               "  %e : int[] = prim::ListConstruct(%n)\n"
                               "  %t : Tensor = td::full(%e, %n, %d)\n"
                               "  %s : int = prim::item.int(%t)\n"
                               "  return (%s)\n";
    client c;
    td_error e = {0};
    size_t length;
    join(&c);
    zeros(&c, 1), finish(&c);
    uint8_t *bytes = small_program(text, &length);
    CU_ASSERT_FALSE(send_program(&c, bytes, length));
    CU_ASSERT_EQUAL(last_code(&c), TD_OK);
    service.options.background = hand_to_reader;
    control(&c, TD_REC_CALL, 0, NULL, 0, NULL, TD_CALL_HEAD, (uint32_t[TD_CALL_HEAD]){7, 9, 0, 20 /* ms */});
    hand_in(&c);
    td_run run = serve(c.session, &e);
    CU_ASSERT_EQUAL_FATAL(run, TD_RUN_SUSPENDED);
    CU_ASSERT_EQUAL_FATAL(nreaders, 1);
    for (int looks = 0; run == TD_RUN_SUSPENDED && looks < 10000; looks++) {
        usleep(1000);
        td_deadlines_run(&service);
        run = serve(c.session, &e);
    }
    CU_ASSERT_EQUAL_FATAL(run, TD_RUN_IDLE);
    CU_ASSERT_EQUAL(last_code(&c), TD_E_TIMEOUT);
    CU_ASSERT_EQUAL(ask_to_write(&c, 1), TD_RUN_IDLE);
    CU_ASSERT_EQUAL(last_code(&c), TD_OK);
    read_and_return(0);
    CU_ASSERT_EQUAL(serve(c.session, &e), TD_RUN_IDLE); /* nothing waited for that */
    CU_ASSERT_EQUAL(sessions.making, 0);
    td_attrs attrs;
    td_attrs_init(&attrs);
    td_attrs_ints(&attrs, 1, (int64_t[]){4000000});
    td_attrs_scalar(&attrs, td_float(0));
    td_attrs_dtype(&attrs, TD_FLOAT32);
    td_words_op(&c.words, td_op_by_id(TD_OP_FULL), 0, 0, 0, 0, NULL, 1, &(uint32_t){2}, NULL, &attrs, NULL);
    finish(&c);
    CU_ASSERT_EQUAL(nreaders, 1); /* there is enough now */
    control(&c, TD_REC_WRITE_END, 1, (uint32_t[]){1}, 0, NULL, 0, NULL);
    finish(&c);
    leave(&c);
    for (int k = 1; k < nreaders; k++) read_and_return(k);
    nreaders = 0;
    service.options.background = NULL;
    free(bytes);
}

/* Does who asks for more than an account's limit wait, while others' calls work with memory of `worker`? */
static bool waits_beside_work(client *c, td_account *limited, td_account *worker)
{
    enum { WORK = 4096 };
    td_error e = {0};
    CU_ASSERT_EQUAL_FATAL(td_account_work(worker, TD_CPU, WORK, &e), 0);
    limited->limit_bytes = limited->bytes + WORK;
    full(c, 5, 1 << 20);
    sync_records(c);
    bool waits = serve(c->session, &e) == TD_RUN_SUSPENDED;
    td_account_work_done(worker, TD_CPU, WORK);
    for (int looks = 0; waits && looks < 1000 && serve(c->session, &e) != TD_RUN_IDLE; looks++) {
        hand_clock_go_on(10 * MS);
        td_deadlines_run(&service);
    }
    CU_ASSERT_EQUAL(last_code(c), TD_E_QUOTA);
    control(c, TD_REC_RELEASE, 1, (uint32_t[]){5}, 0, NULL, 0, NULL);
    finish(c);
    limited->limit_bytes = 0;
    return waits;
}

/* A quota that is used up waits for work that may return memory to it, and for no other user's, or session's. */
static void a_quota_beside_others_work(void)
{
    client a, sibling, other;
    join(&a), join_as(&sibling, 2), join_of(&other, &sessions, (td_peer_id){4711, 3});
    td_account *own = a.session->account, *user = own->parent;
    CU_ASSERT_TRUE_FATAL(user && user == sibling.session->account->parent && user != other.session->account->parent);
    CU_ASSERT_TRUE(waits_beside_work(&a, user, sibling.session->account));
    CU_ASSERT_FALSE(waits_beside_work(&a, user, other.session->account));
    CU_ASSERT_FALSE(waits_beside_work(&a, own, sibling.session->account));
    CU_ASSERT_FALSE(waits_beside_work(&a, own, other.session->account));
    leave(&a), leave(&sibling), leave(&other);
}

/* ---- to write what lies in a queue */

static void put_first(client *c)
{
    Td__Wire__QueuePut put = TD__WIRE__QUEUE_PUT__INIT;
    Td__Wire__Call x = TD__WIRE__CALL__INIT;
    uint32_t id = 1;
    put.queue = 1, put.n_ids = 1, put.ids = &id, x.queue_put = &put;
    CU_ASSERT_FALSE(call(c, &x));
    CU_ASSERT_EQUAL(last_code(c), TD_OK);
}

/* The copy that its item is given wants memory: whoever will wait for nobody waits for that. */
static void copied_for_who_does_not_wait(void)
{
    Td__Wire__WriteBegin begin = TD__WIRE__WRITE_BEGIN__INIT;
    Td__Wire__Call write = TD__WIRE__CALL__INIT;
    client a, b;
    uint64_t most;
    join(&a), join(&b);
    zeros(&b, 1), large(&a, 1);
    finish(&b), finish(&a);
    open_queue(&a, "kept");
    put_first(&a);
    service.options.background = hand_away;
    begin.id = 1, write.write_begin = &begin;
    CU_ASSERT_TRUE(call(&a, &write));
    CU_ASSERT_EQUAL(made_between_turns(&a, &b, &most), 1);
    CU_ASSERT_EQUAL(last_code(&a), TD_OK);
    service.options.background = NULL;
    leave(&a), leave(&b);
}

/* What was lost after it was put is lost for who takes it, also when its place has been written since. */
static void what_was_lost_in_a_queue(void)
{
    client a;
    td_error e = {.code = TD_E_INVALID, .op = "index_select", .message = "there is no such row"};
    td_cause *lost = td_cause_new(&e), *cause = NULL;
    uint32_t first = 1, taken = 5;
    join(&a);
    zeros(&a, 1), zeros(&a, 2);
    finish(&a);
    open_queue(&a, "lost");
    put_first(&a);
    td_storage_poison(td_session_tensor(a.session, 1, &cause, &e)->storage, lost);
    td_attrs none;
    td_attrs_init(&none);
    td_words_op(&a.words, td_op_by_id(TD_OP_MUL), 0, TD_CF_OUT, 0, 2, (uint32_t[]){2, 2}, 1, &first, NULL, &none, NULL);
    finish(&a);
    CU_ASSERT_PTR_NOT_NULL(td_session_value(a.session, 1, &cause, &e));
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    Td__Wire__Call x = TD__WIRE__CALL__INIT;
    get.queue = 1, get.n_ids = 1, get.ids = &taken, get.timeout_ms = UINT32_MAX, x.queue_get = &get;
    CU_ASSERT_FALSE(call(&a, &x));
    mul(&a, 5, 2, 6);
    sync_records(&a);
    while (!turn(&a)) {
    }
    CU_ASSERT_EQUAL(last_code(&a), TD_E_INVALID);
    td_cause_unref(lost);
    leave(&a);
}

/* Where there is none for it the write fails, also one of a program, however long others are given theirs. */
static void no_memory_for_the_copy(void)
{
    static const char text[] = "captured %w : Tensor = \"w\"\n"
                               "graph():\n"
                               "  %n : int = prim::Constant[value=1]()\n"
                               "  %t : Tensor = td::add_(%w, %n, %n)\n"
                               "  return (%n)\n";
    client a, b;
    size_t length;
    td_error e = {0};
    join(&a), join(&b);
    for (uint32_t id = 1; id < 4; id++) large(&a, id);
    finish(&a);
    open_queue(&a, "full");
    put_first(&a);
    uint8_t *bytes = small_program(text, &length);
    CU_ASSERT_FALSE(send_program(&a, bytes, length));
    CU_ASSERT_EQUAL(last_code(&a), TD_OK);
    service.options.background = hand_to_reader;
    full(&b, 1, LARGE + LARGE / 3);
    hand_in(&b);
    CU_ASSERT_TRUE(suspended(&b)); /* what it is given is the last there is */
    CU_ASSERT_EQUAL_FATAL(nreaders, 1);
    control(&a, TD_REC_CALL, 0, NULL, 0, NULL, TD_CALL_HEAD, (uint32_t[TD_CALL_HEAD]){7, 9});
    hand_in(&a);
    td_run run = serve(a.session, &e);
    for (int looks = 0; run != TD_RUN_IDLE && looks < 2000; looks++) {
        hand_clock_go_on(10 * MS);
        td_deadlines_run(&service);
        run = serve(a.session, &e);
    }
    CU_ASSERT_EQUAL(run, TD_RUN_IDLE);
    CU_ASSERT_EQUAL(last_code(&a), TD_E_MEMORY);
    read_and_return(0);
    CU_ASSERT_TRUE(turn(&b));
    leave(&a), leave(&b);
    nreaders = 0;
    service.options.background = NULL;
    free(bytes);
}

/* A batch in a block of its own, with more bytes behind it. */
static td_frame block_of(const td_words *w, uint32_t more)
{
    Td__Wire__Batch b = TD__WIRE__BATCH__INIT;
    b.words = w->at, b.n_words = w->count;
    uint32_t n = (uint32_t)td__wire__batch__get_packed_size(&b);
    uint8_t *p = calloc(1, n + more);
    td__wire__batch__pack(&b, p);
    return (td_frame){.kind = TD_FRAME_BATCH, .payload = p, .block = p, .bytes = n + more, .fd = -1};
}

/* Two at a time; a third waits until one has come back, and what goes while it waits goes at once. */
static void many_large_frames(void)
{
    client c[5];
    td_error e = {0};
    service.options.background = hand_to_reader;
    for (int i = 0; i < 5; i++) {
        join(&c[i]);
        zeros(&c[i], 1);
        td_frame f = block_of(&c[i].words, 0);
        td_words_deinit(&c[i].words);
        c[i].words = (td_words){0};
        CU_ASSERT_EQUAL_FATAL(td_session_frame(c[i].session, &f, &e), 0);
        CU_ASSERT_EQUAL(serve(c[i].session, &e), TD_RUN_SUSPENDED);
    }
    CU_ASSERT_EQUAL_FATAL(nreaders, 2);
    leave(&c[2]); /* while it waits */
    while (sessions.remains) td_sessions_clear(&sessions, CLEAR);
    CU_ASSERT_PTR_NULL(sessions.ending);
    read_and_return(0);
    CU_ASSERT_EQUAL_FATAL(nreaders, 3);
    read_and_return(2);
    CU_ASSERT_EQUAL_FATAL(nreaders, 4);
    CU_ASSERT_TRUE(turn(&c[3])); /* the fourth came before the fifth */
    read_and_return(1), read_and_return(3);
    CU_ASSERT_TRUE(turn(&c[0]) && turn(&c[1]) && turn(&c[4]));
    for (int i = 0; i < 5; i++) {
        if (i == 2) continue;
        CU_ASSERT_EQUAL(c[i].session->objects.live, 1);
        leave(&c[i]);
    }
    CU_ASSERT_EQUAL(sessions.unpacked, 0);
    CU_ASSERT_TRUE(!sessions.to_unpack.begun && !sessions.to_unpack.all);
    service.options.background = NULL;
    nreaders = 0;
}

/* What stays because a client does not read its answers holds up nobody else's. */
static void hand_in_large(client *c, uint32_t records)
{
    td_error e = {0};
    for (uint32_t id = 1; id <= records; id++) zeros(c, id);
    td_frame f = block_of(&c->words, 0);
    td_words_deinit(&c->words);
    c->words = (td_words){0};
    CU_ASSERT_EQUAL_FATAL(td_session_frame(c->session, &f, &e), 0);
    CU_ASSERT_EQUAL(serve(c->session, &e), TD_RUN_SUSPENDED);
}

/* A process that sends many waits behind itself: another's comes next, also while what the first has sent is more than
 * is unpacked ahead. */
static void large_frames_of_two(void)
{
    enum { FIRST = 4, MANY = 8000 };
    client c[FIRST], other, another;
    service.options.background = hand_to_reader;
    for (int i = 0; i < FIRST; i++) {
        join_as(&c[i], 1);
        hand_in_large(&c[i], MANY);
    }
    join_as(&other, 2), join_as(&another, 3);
    hand_in_large(&other, 1);
    CU_ASSERT_EQUAL_FATAL(nreaders, 2);
    read_and_return(0);
    CU_ASSERT_EQUAL_FATAL(nreaders, 3);
    read_and_return(2);
    CU_ASSERT_TRUE(turn(&other));
    CU_ASSERT_EQUAL_FATAL(nreaders, 4);
    service.account->limit_wire = 4 * c[0].session->stream.unpacked; /* as much as two of them is unpacked ahead */
    read_and_return(1);
    CU_ASSERT_EQUAL_FATAL(nreaders, 4); /* the last of the first's waits */
    CU_ASSERT_PTR_NOT_NULL(sessions.to_unpack.first);
    hand_in_large(&another, 1);
    CU_ASSERT_EQUAL_FATAL(nreaders, 5);
    read_and_return(4);
    CU_ASSERT_TRUE(turn(&another));
    while (!turn(&c[0]) || !turn(&c[1])) {
    }
    td_unpack_gone(c[0].session); /* as with the next frame */
    CU_ASSERT_EQUAL_FATAL(nreaders, 6);
    read_and_return(3), read_and_return(5);
    while (!turn(&c[2]) || !turn(&c[3])) {
    }
    for (int i = 0; i < FIRST; i++) {
        CU_ASSERT_EQUAL(c[i].session->objects.live, MANY);
        leave(&c[i]);
    }
    leave(&other), leave(&another);
    return_others(6);
    CU_ASSERT_TRUE(!sessions.unpacked && !sessions.to_unpack.all);
    service.account->limit_wire = 0;
    service.options.background = NULL;
    nreaders = 0;
}

static void large_frame_of_who_does_not_read(void)
{
    enum { RECORDS_OF_IT = 8000 };
    client c[2];
    td_error e = {0};
    size_t unread = sessions.max_unread;
    service.options.background = hand_to_reader;
    service.account->limit_wire = 128 << 10; /* half of that may be unpacked ahead */
    for (int i = 0; i < 2; i++) {
        join(&c[i]);
        for (uint32_t id = 1; id <= RECORDS_OF_IT; id++) zeros(&c[i], id);
        td_frame f = block_of(&c[i].words, 0);
        td_words_deinit(&c[i].words);
        c[i].words = (td_words){0};
        CU_ASSERT_EQUAL_FATAL(td_session_frame(c[i].session, &f, &e), 0);
        CU_ASSERT_EQUAL(serve(c[i].session, &e), TD_RUN_SUSPENDED);
        CU_ASSERT_EQUAL_FATAL(nreaders, i + 1);
        read_and_return(i);
        sessions.max_unread = 0; /* it was welcome */
        CU_ASSERT_EQUAL(serve(c[i].session, &e), TD_RUN_STALLED);
        CU_ASSERT_TRUE(c[i].session->stream.unpacked > 64 << 10);
    }
    sessions.max_unread = unread;
    for (int i = 0; i < 2; i++) {
        while (!turn(&c[i])) {
        }
        CU_ASSERT_EQUAL(c[i].session->objects.live, RECORDS_OF_IT);
        leave(&c[i]);
    }
    return_others(2);
    service.account->limit_wire = 0;
    service.options.background = NULL;
    nreaders = 0;
}

/* A large frame is unpacked by a helper, and its sender waits; one that makes no sense is the end of it. */
static void large_frames(void)
{
    client a, b, ends;
    td_error e = {0};
    service.options.background = hand_to_reader;
    join(&a), join(&b), join(&ends);
    zeros(&a, 1);
    td_frame good = block_of(&a.words, 0), again = block_of(&a.words, 0), bad = block_of(&a.words, 1);
    td_words_deinit(&a.words);
    a.words = (td_words){0};
    CU_ASSERT_EQUAL_FATAL(td_session_frame(a.session, &good, &e), 0);
    CU_ASSERT_PTR_NULL(good.block);
    CU_ASSERT_EQUAL(serve(a.session, &e), TD_RUN_SUSPENDED);
    int own = again.fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* whoever read the frame closes what came along */
    CU_ASSERT_EQUAL_FATAL(td_session_frame(ends.session, &again, &e), 0);
    CU_ASSERT_EQUAL(serve(ends.session, &e), TD_RUN_SUSPENDED);
    leave(&ends); /* in the middle of it */
    CU_ASSERT_PTR_NOT_NULL(sessions.ending);
    CU_ASSERT_EQUAL_FATAL(nreaders, 2);
    zeros(&b, 1);
    finish(&b);
    read_and_return(0), read_and_return(1);
    CU_ASSERT_PTR_NULL(sessions.ending);
    CU_ASSERT_EQUAL(close(own), 0);
    CU_ASSERT_EQUAL(a.session->objects.live, 0);
    CU_ASSERT_TRUE(turn(&a));
    CU_ASSERT_EQUAL(a.session->objects.live, 1);
    CU_ASSERT_EQUAL_FATAL(td_session_frame(a.session, &bad, &e), 0);
    CU_ASSERT_EQUAL(serve(a.session, &e), TD_RUN_SUSPENDED);
    read_and_return(2);
    CU_ASSERT_EQUAL(serve(a.session, &e), TD_RUN_FATAL);
    CU_ASSERT_EQUAL(e.code, TD_E_PROTOCOL);
    leave(&a), leave(&b);
    service.options.background = NULL;
    nreaders = 0;
}

TD_CUNIT_MAIN_WITH(
    "turns", start, stop, {"a backward", a_backward}, {"a turn by the clock", a_turn_by_the_clock},
    {"letting go", letting_go}, {"the end of a client", the_end_of_a_client},
    {"the end of a holder", the_end_of_a_holder}, {"a clone", a_clone}, {"a clone that is left", a_clone_that_is_left},
    {"a clone of what is to come", a_clone_of_what_is_to_come},
    {"a clone of who does not read", a_clone_of_who_does_not_read}, {"quota is given back", quota_is_given_back},
    {"a large item", a_large_item}, {"a large item that is left", a_large_item_that_is_left},
    {"woken for what is over", woken_for_what_is_over}, {"many deadlines", many_deadlines},
    {"memory to be made", memory_to_be_made}, {"refused beside many names", refused_beside_many_names},
    {"a holder of a strange name", a_holder_of_a_strange_name}, {"table after table", table_after_table},
    {"a table beside sessions that end", a_table_beside_sessions_that_end},
    {"a table beside programs that end", a_table_beside_programs_that_end},
    {"a table of who does not read", a_table_of_who_does_not_read},
    {"a table of who waits for its tasks", a_table_of_who_waits_for_its_tasks},
    {"memory that a task of another holds", memory_that_a_task_of_another_holds},
    {"arguments that go meanwhile", arguments_that_go_meanwhile}, {"lease after lease", lease_after_lease},
    {"a lease without an end", a_lease_without_an_end}, {"a backward without an end", a_backward_without_an_end},
    {"a backward behind a large one", a_backward_behind_a_large_one},
    {"a backward of who does not read", a_backward_of_who_does_not_read},
    {"beside many sessions", beside_many_sessions}, {"a large program opened", a_large_program_opened},
    {"time over without memory", time_over_without_memory},
    {"copied for who does not wait", copied_for_who_does_not_wait}, {"large items at once", large_items_at_once},
    {"a quota beside others' work", a_quota_beside_others_work}, {"what was lost in a queue", what_was_lost_in_a_queue},
    {"no memory for the copy", no_memory_for_the_copy}, {"ahead of the workers", ahead_of_the_workers},
    {"answers before records", answers_before_records}, {"sites of an ended client", sites_of_an_ended_client},
    {"programs that come", programs_that_come}, {"programs of many", programs_of_many},
    {"small programs", small_programs}, {"large frames", large_frames}, {"many large frames", many_large_frames},
    {"large frames of two", large_frames_of_two},
    {"large frame of who does not read", large_frame_of_who_does_not_read})
