/* Several sessions in this process, driven by chance: ops, gradients, backward in small turns, programs, names,
 * handles, queues, leases, tables, clones and ends, interleaved turn by turn. Who writes in place while another runs
 * backward, who dies while others hold its graph, its items or wait for its lease, and what it leaves while that is
 * cleared in turns: whatever happens, nothing may crash, a session that waits for nothing may not hang, and in the end
 * nothing may be left.
 *
 *     test_many [SEED [PROGRAMS]] */
#include "daemon/session/session.h"
#include "large.h"
#include "proto/ops/opid.h"
#include "proto/program/text.h"
#include "proto/program/values.h"
#include "proto/program/wire.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 5, IDS = 14, STEPS = 600, TEXT = 8, PROGRAMS = 4, MANY = 150, ARGS = 1500 };
enum { FIRST = 100, PLACES = 3 }; /* MANY ids each, for what large items bring */

typedef struct client {
    td_session *session;
    td_writer writer;
    bool busy;   /* a frame is not yet done */
    bool coming; /* as a clone: not yet welcome */
    uint32_t id;
    uint64_t token, frames;
    unsigned begun; /* frames of those that it begins with */
} client;

/* The second takes a list, which may be long enough to come in parts. */
static const char *const texts[PROGRAMS] = {"captured %w : Tensor = \"w\"\n"
                                            "graph(%x : Tensor):\n"
                                            "  %y : Tensor = td::mul(%x, %w)\n"
                                            "  %z : Tensor = td::exp(%y)\n"
                                            "  return (%z)\n",
                                            "captured %w : Tensor = \"w\"\n"
                                            "graph(%l : Tensor[]):\n"
                                            "  %n : int = prim::len.list(%l)\n"
                                            "  return (%n, %w)\n",
                                            "captured %w : Tensor = \"w\"\n"
                                            "graph(%x : Tensor):\n"
                                            "  %no : bool = prim::Constant[value=0]()\n"
                                            "  %none : NoneType = prim::Constant()\n"
                                            "  %gs : Tensor?[] = prim::ListConstruct()\n"
                                            "  %all : Tensor[] = prim::ListConstruct()\n"
                                            "  %y : Tensor = td::mul(%x, %w)\n"
                                            "  %s : Tensor = td::sum(%y, %none, %no, %none)\n"
                                            "  %outs : Tensor[] = prim::ListConstruct(%s)\n"
                                            "  prim::backward(%outs, %gs, %all, %no, %no)\n"
                                            "  return (%s)\n",
                                            "captured %w : Tensor = \"w\"\n"
                                            "graph(%x : Tensor):\n"
                                            "  %one : int = prim::Constant[value=1]()\n"
                                            "  %many : int = prim::Constant[value=30]()\n"
                                            "  %yes : bool = prim::Constant[value=1]()\n"
                                            "  prim::Loop(%many, %yes)\n"
                                            "    block0(%i : int):\n"
                                            "      %y : Tensor = td::add_(%w, %x, %one)\n"
                                            "      -> (%yes)\n"
                                            "  return (%w)\n"};
static struct {
    uint8_t *bytes;
    size_t n;
} programs[PROGRAMS];

static td_service service;
static td_sessions sessions;
static client clients[CLIENTS];
static td_heap *left[STEPS];
static int nleft;
static unsigned seed = 1;
static uint64_t done, ended, cloned, worked, told, less;

static unsigned rnd(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static uint32_t some_id(void)
{
    return 1 + rnd(IDS);
}

static void ignore(void *arg)
{
    (void)arg;
}

/* ---- records */

static void control(td_words *w, unsigned rec, unsigned mode, int nin, const uint32_t *in, int nout,
                    const uint32_t *out, int nrest, const uint32_t *rest)
{
    td_words_control(w, rec, mode, 0, nin, in, nout, out, nrest, rest, NULL);
}

static void release(td_words *w, uint32_t id)
{
    control(w, TD_REC_RELEASE, 0, 1, &id, 0, NULL, 0, NULL);
}

static void make_tensor(td_words *w, uint32_t id)
{
    uint32_t rest[6] = {TD_FLOAT32 | (rnd(3) ? 0 : 1) << 8, 3};
    release(w, id);
    if (rnd(12) == 0) { /* goes with those of 3 and of none; its kernels have several chunks, and some go to the pool */
        uint32_t spare = rnd(2) ? some_id() : 0;
        if (spare) release(w, spare);
        large_tensor(w, id, spare == id ? 0 : spare, TD_FLOAT32, 2, (int64_t[]){large_rows(rnd(24), 3), 3});
    } else control(w, TD_REC_DATA, rnd(5) ? 0 : TD_RM_SERVICE, 0, NULL, 1, &id, 6, rest);
    if (rnd(2)) control(w, TD_REC_REQUIRES_GRAD, 0, 1, &id, 0, NULL, 1, (uint32_t[]){1});
}

static void some_op(td_words *w)
{
    static const struct {
        unsigned op;
        int nin;
    } ops[] = {{TD_OP_MUL, 2}, {TD_OP_MUL, 2}, {TD_OP_ADD, 2},    {TD_OP_EXP, 1},
               {TD_OP_DIV, 2}, {TD_OP_SUM, 1}, {TD_OP_NONZERO, 1}};
    unsigned k = rnd(7);
    uint32_t in[2] = {some_id(), some_id()}, out = some_id();
    bool given = rnd(4) == 0 && ops[k].nin == 2;
    td_attrs a;
    td_attrs_init(&a);
    for (int i = 0; i < td_op_by_id(ops[k].op)->nattrs; i++) td_attrs_none(&a);
    if (given) out = in[0];
    else if (rnd(8)) release(w, out);
    td_words_op(w, td_op_by_id(ops[k].op), rnd(6) ? 0 : TD_RM_GRAD_OFF, given ? TD_RF_OUT : 0, 0, ops[k].nin, in, 1,
                &out, NULL, &a, NULL);
}

/* A graph that takes many turns, its intermediates released. */
static void some_chain(td_words *w)
{
    uint32_t x = some_id(), root = some_id(), from = x, spare = some_id();
    td_attrs none;
    td_attrs_init(&none);
    for (int i = (int)rnd(60); i >= 0; i--) {
        uint32_t to = from == root ? spare : root;
        release(w, to);
        td_words_op(w, td_op_by_id(TD_OP_MUL), 0, 0, 0, 2, (uint32_t[]){from, x}, 1, &to, NULL, &none, NULL);
        from = to;
    }
}

static void call_program(td_words *w)
{
    static uint32_t in[ARGS], rest[TD_CALL_HEAD + 1 + ARGS];
    uint32_t out[2] = {15, 16}, many = rnd(4) ? rnd(5) : rnd(ARGS), n = TD_CALL_HEAD + 1;
    bool list = rnd(2);
    for (uint32_t k = 0, x = some_id(); k < ARGS; k++) in[k] = rnd(ARGS) ? x : some_id();
    if (rnd(3) == 0) in[rnd(many ? many : 1)] = FIRST + rnd(PLACES) * MANY;
    if (!list) many = 1;
    rest[0] = 1 + rnd(3), rest[1] = rnd(2), rest[2] = 0, rest[3] = rnd(4) ? 0 : 1 + rnd(3), rest[4] = 0, rest[5] = 1;
    rest[TD_CALL_HEAD] = list ? TD_PV_LIST | many << 8 : TD_PV_TENSOR;
    for (uint32_t k = 0; list && k < many; k++) rest[n++] = TD_PV_TENSOR;
    release(w, out[0]), release(w, out[1]);
    control(w, TD_REC_CALL, rnd(6) ? 0 : TD_RM_GRAD_OFF, (int)many, in, 2, out, (int)n, rest);
}

static void end_program(td_words *w)
{
    control(w, TD_REC_PROGRAM_END, 0, 0, NULL, 0, NULL, 1, (uint32_t[]){1 + rnd(3)});
}

static void release_places(td_words *w)
{
    for (uint32_t k = 0, from = FIRST + rnd(PLACES) * MANY; k < MANY; k++) release(w, from + k);
}

static void some_control(td_words *w)
{
    uint32_t x = some_id(), y = some_id(), out = some_id(), scope = rnd(2), serial[2] = {1 + rnd(100), 0};
    switch (rnd(13)) {
    case 0: control(w, TD_REC_REQUIRES_GRAD, 0, 1, &x, 0, NULL, 1, (uint32_t[]){rnd(3) != 0}); break;
    case 1: control(w, TD_REC_RETAIN_GRAD, 0, 1, &x, 0, NULL, 0, NULL); break;
    case 2: control(w, TD_REC_SET_GRAD, 0, 2, (uint32_t[]){x, rnd(2) ? y : 0}, 0, NULL, 1, &scope); break;
    case 3:
        release(w, out);
        control(w, TD_REC_GRAD, 0, 1, &x, 1, &out, 1, &scope);
        break;
    case 4:
        release(w, out);
        control(w, rnd(2) ? TD_REC_ALIAS : TD_REC_DATA_OF, 0, 1, &x, 1, &out, 0, NULL);
        break;
    case 5:
        release(w, out);
        control(w, TD_REC_BACKWARD, 0, 3, (uint32_t[]){x, rnd(2) ? x : 0, y}, 1, &out, 3,
                (uint32_t[]){rnd(8), 1, scope});
        break;
    case 6: control(w, TD_REC_READ, 0, 1, &x, 0, NULL, 2, serial); break;
    case 7: control(w, TD_REC_SYNC, 0, 0, NULL, 0, NULL, 2, serial); break;
    case 8: control(w, TD_REC_WRITE_END, 0, 1, &x, 0, NULL, 0, NULL); break;
    case 9:
        release(w, out);
        control(w, TD_REC_PUT, 0, 0, NULL, 1, &out, 4, (uint32_t[]){1 + rnd(5), 0, 0, TD_FLOAT32});
        break;
    case 10: control(w, TD_REC_SHAPE, 0, 2, (uint32_t[]){x, y}, 0, NULL, 2, serial); break;
    default:
        control(w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){x, rnd(3) ? x : 0}, 0, NULL, 3,
                (uint32_t[]){8 | rnd(8), 1, scope});
    }
}

static void give(client *c, unsigned kind, const uint8_t *bytes, size_t n)
{
    td_error e = {0};
    td_frame f = {.kind = kind, .payload = bytes, .bytes = (uint32_t)n, .fd = -1};
    if (td_session_frame(c->session, &f, &e)) abort(); /* all that is sent here is well formed */
    c->busy = true;
    c->frames++;
}

static void give_words(client *c, td_words *w)
{
    static const uint8_t zeros[64] = {0};
    Td__Wire__Batch b = TD__WIRE__BATCH__INIT;
    b.words = w->at, b.n_words = w->count;
    b.data = (ProtobufCBinaryData){sizeof zeros, (uint8_t *)zeros};
    uint8_t *p = malloc(td__wire__batch__get_packed_size(&b));
    give(c, TD_FRAME_BATCH, p, td__wire__batch__pack(&b, p));
    free(p);
    td_words_deinit(w);
}

static void give_batch(client *c)
{
    td_words w = {0};
    if (rnd(5) == 0) some_chain(&w);
    for (int n = 1 + (int)rnd(6); n > 0; n--) {
        unsigned k = rnd(13);
        if (k >= 11) call_program(&w);
        else if (k == 10) rnd(4) ? release_places(&w) : end_program(&w);
        else if (k < 2) make_tensor(&w, some_id());
        else if (k < 6) some_op(&w);
        else some_control(&w);
    }
    give_words(c, &w);
}

/* ---- calls */

static uint32_t some_time(void)
{
    static const uint32_t times[] = {0, 0, 1, 1, 2, 5, UINT32_MAX};
    return times[rnd(7)];
}

static void give_call(client *c)
{
    static uint8_t bytes[8192];
    char name[TEXT];
    uint32_t ids[MANY], queue = 1 + rnd(2), n = rnd(3) ? rnd(4) : rnd(MANY), program = 1 + rnd(3), of = rnd(PROGRAMS);
    for (int k = 0; k < MANY; k++) ids[k] = some_id();
    snprintf(name, sizeof name, "n%u", rnd(3));
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    Td__Wire__Map map = TD__WIRE__MAP__INIT;
    Td__Wire__Lease lease = TD__WIRE__LEASE__INIT;
    Td__Wire__LeaseDrop lease_drop = TD__WIRE__LEASE_DROP__INIT;
    Td__Wire__WriteBegin begin = TD__WIRE__WRITE_BEGIN__INIT;
    Td__Wire__Publish publish = TD__WIRE__PUBLISH__INIT;
    Td__Wire__Open open = TD__WIRE__OPEN__INIT;
    Td__Wire__Drop drop = TD__WIRE__DROP__INIT;
    Td__Wire__QueueOpen qopen = TD__WIRE__QUEUE_OPEN__INIT;
    Td__Wire__QueuePut put = TD__WIRE__QUEUE_PUT__INIT;
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    Td__Wire__QueueClose qclose = TD__WIRE__QUEUE_CLOSE__INIT;
    Td__Wire__Info info = TD__WIRE__INFO__INIT;
    Td__Wire__Status status = TD__WIRE__STATUS__INIT;
    Td__Wire__ProgramNew program_new = TD__WIRE__PROGRAM_NEW__INIT;
    Td__Wire__ProgramPublish program_publish = TD__WIRE__PROGRAM_PUBLISH__INIT;
    call.serial = 1;
    switch (rnd(28)) {
    case 0: map.id = ids[0], call.map = &map; break;
    case 1: lease.bytes = rnd(3) ? 64 : rnd(9) * 1000, call.lease = &lease; break;
    case 2: lease_drop.lease = 1 + rnd(5), call.lease_drop = &lease_drop; break;
    case 3:
    case 4:
    case 5: begin.id = ids[0], begin.timeout_ms = some_time(), call.write_begin = &begin; break;
    case 6:
    case 7:
    case 8:
        publish.name = name, publish.id = ids[0], publish.replace = rnd(2), publish.copy = rnd(3) == 0;
        publish.lasts_ms = rnd(3) ? some_time() : 0, call.publish = &publish;
        break;
    case 9:
    case 10:
    case 11: open.name = name, open.id = ids[0], open.timeout_ms = some_time(), call.open = &open; break;
    case 12: drop.name = name, call.drop = &drop; break;
    case 13:
        qopen.name = name, qopen.queue = queue, qopen.role = 1 + rnd(7),
        qopen.keep_ms = rnd(2)   ? 0
                        : rnd(2) ? UINT32_MAX
                                 : rnd(3),
        call.queue_open = &qopen;
        break;
    case 14:
    case 15:
        put.queue = queue, put.n_ids = n, put.ids = ids, put.timeout_ms = some_time(), put.later = rnd(2);
        call.queue_put = &put;
        break;
    case 16:
    case 17:
        if (rnd(2)) {
            for (uint32_t k = 0, from = FIRST + rnd(PLACES) * MANY; k < MANY; k++) ids[k] = from + k;
            n = MANY;
            if (rnd(3) == 0) ids[rnd(MANY)] = ids[0]; /* which is an error, when it comes to that */
        }
        get.queue = queue, get.n_ids = n, get.ids = ids, get.timeout_ms = some_time(), call.queue_get = &get;
        break;
    case 18:
        if (rnd(3) == 0) qclose.queue = queue, qclose.end = rnd(4) == 0, call.queue_close = &qclose;
        else info.id = ids[0], call.info = &info;
        break;
    case 19:
    case 20:
    case 23:
        program_new.program = program, program_new.captured = ids, program_new.n_captured = 1;
        program_new.ir = (ProtobufCBinaryData){programs[of].n, programs[of].bytes}, call.program_new = &program_new;
        break;
    case 21:
    case 22:
        program_publish.name = name, program_publish.program = program, program_publish.replace = rnd(2);
        program_publish.copy = rnd(2), call.program_publish = &program_publish;
        break;
    case 24:
    case 25: open.name = name, open.id = program, open.timeout_ms = some_time(), call.program_open = &open; break;
    default: {
        static char *const what[] = {"sessions", "tensors", "names", "queues", "segments", "status"};
        status.what = what[rnd(2) ? 1 : rnd(6)], call.status = &status;
        sessions.table_from_ns = 0;
    }
    }
    give(c, TD_FRAME_CALL, bytes, td__wire__call__pack(&call, bytes));
}

/* What most others need: some tensors, two programs, a queue. */
static void give_first(client *c)
{
    static uint8_t bytes[8192];
    td_words w = {0};
    uint32_t captured = 1;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    Td__Wire__QueueOpen queue = TD__WIRE__QUEUE_OPEN__INIT;
    Td__Wire__ProgramNew program = TD__WIRE__PROGRAM_NEW__INIT;
    unsigned frame = c->begun++, of = rnd(PROGRAMS);
    if (frame == 0) {
        for (uint32_t id = 1; id < IDS; id++) make_tensor(&w, id);
        give_words(c, &w);
        return;
    }
    queue.name = (char *)"n0", queue.queue = 1, queue.role = 3;
    program.program = frame, program.captured = &captured, program.n_captured = 1;
    program.ir = (ProtobufCBinaryData){programs[of].n, programs[of].bytes};
    if (frame == 3) call.queue_open = &queue;
    else call.program_new = &program;
    call.serial = 1;
    give(c, TD_FRAME_CALL, bytes, td__wire__call__pack(&call, bytes));
}

/* ---- lives */

static void read_welcome(client *c)
{
    const uint8_t *at = c->writer.buffer + c->writer.start + TD_FRAME_HEADER;
    Td__Wire__Welcome *w = td__wire__welcome__unpack(NULL, c->writer.end - c->writer.start - TD_FRAME_HEADER, at);
    if (!w) abort();
    c->id = w->session, c->token = w->token;
    td__wire__welcome__free_unpacked(w, NULL);
}

static void join(client *c)
{
    const client *parent = &clients[rnd(CLIENTS)];
    Td__Wire__Hello h = TD__WIRE__HELLO__INIT;
    h.protocol = TD_PROTOCOL, h.table_hash = td_ops_hash;
    if (parent->session && rnd(2)) h.clone_session = parent->id, h.clone_token = parent->token, cloned++;
    uint8_t hello[64];
    td_frame f = {
        .kind = TD_FRAME_HELLO, .payload = hello, .fd = -1, .bytes = (uint32_t)td__wire__hello__pack(&h, hello)};
    *c = (client){0};
    td_writer_init(&c->writer);
    td_session_io io = {.writer = &c->writer, .wrote = ignore, .resume = ignore};
    td_error e = {0};
    if (td_session_new(&c->session, &sessions, &io, &(td_peer_id){0, 1}, &f, &e)) {
        td_writer_deinit(&c->writer);
        c->session = NULL; /* a clone may be too much for a quota */
        return;
    }
    c->coming = h.clone_session;
    if (!c->coming) read_welcome(c);
}

static void leave(client *c)
{
    td_heap *h = td_session_end(c->session, rnd(2));
    if (h) left[nleft++] = h;
    td_writer_deinit(&c->writer);
    c->session = NULL;
    ended++;
}

/* A clone is welcome when it has all that its parent had: not if that ends before, or if there is no room. */
static void come_in(client *c)
{
    td_error e = {0};
    td_run r = td_session_run(c->session, 1 + (int)rnd(200), &e);
    if (r == TD_RUN_FATAL) leave(c);
    if (r != TD_RUN_IDLE) return;
    read_welcome(c);
    c->coming = false;
}

static void process_ends(void)
{
    if (nleft) td_heap_unmapped(left[--nleft]);
}

/* A row of memory tells of no less than nothing. */
static void look_at_table(const Td__Wire__Table *t)
{
    told += t->n_columns == 20;
    for (size_t k = 0; t->n_columns == 20 && k < t->n_rows; k++)
        for (int i = 17; i < 20; i++) less += t->rows[k]->cells[i]->integer < 0;
}

static void read_replies(client *c)
{
    uint32_t bytes;
    for (size_t at = c->writer.start; at < c->writer.end; at += TD_FRAME_HEADER + bytes) {
        const uint8_t *h = c->writer.buffer + at;
        memcpy(&bytes, h, sizeof bytes);
        Td__Wire__Reply *r = h[4] == TD_FRAME_REPLY ? td__wire__reply__unpack(NULL, bytes, h + TD_FRAME_HEADER) : NULL;
        if (r && r->table) look_at_table(r->table);
        if (r) td__wire__reply__free_unpacked(r, NULL);
    }
    td_writer_deinit(&c->writer);
    td_writer_init(&c->writer);
}

static void turn(client *c)
{
    td_error e = {0};
    td_run r = td_session_run(c->session, 1 + (int)rnd(20), &e);
    if (r == TD_RUN_IDLE) c->busy = false, done++;
    if (r == TD_RUN_FATAL) printf("fatal: %s\n", e.message), abort();
    if (rnd(3)) read_replies(c); /* or it reads later */
}

static void others(void)
{
    switch (rnd(6)) {
    case 0:
        td_sched_collect(service.sched, 1 + rnd(50));
        td_sessions_collected(&sessions);
        break;
    case 1: td_sessions_clear(&sessions, 1 + (int)rnd(30)); break;
    case 2: td_deadlines_run(&service); break;
    case 3:
        if (rnd(10) == 0) process_ends();
        break;
    case 4:
        if (rnd(40) == 0) usleep(1000);
        break;
    default: td_sched_drain(service.sched), td_sessions_collected(&sessions);
    }
}

static void step(void)
{
    client *c = &clients[rnd(CLIENTS)];
    if (!c->session) {
        if (rnd(4) == 0) join(c);
    } else if (rnd(60) == 0) {
        leave(c);
    } else if (c->coming) {
        come_in(c);
    } else if (c->busy) {
        turn(c);
    } else if (c->begun < 4) {
        give_first(c);
    } else if (rnd(5) < 3) {
        give_batch(c);
    } else {
        give_call(c);
    }
    others();
}

static void drop_name(const td_name *n, void *arg)
{
    (void)arg;
    td_name_drop(&service, n->name, NULL, NULL);
}

static bool one(unsigned number)
{
    td_live before = td_live_counts();
    uint64_t used = service.budget.used, nodes = td_autograd_nodes();
    seed = number * 2654435761u;
    for (int i = 0; i < STEPS; i++) step();
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i].session) leave(&clients[i]);
    while (nleft) process_ends();
    td_name_each(&service, UINT32_MAX, drop_name, NULL);
    td_queues_clear(&service);
    td_sched_drain(service.sched);
    while (td_sessions_clear(&sessions, INT_MAX)) {
    }
    td_live after = td_live_counts();
    bool ok = after.tensors == before.tensors && after.storages == before.storages && after.causes == before.causes &&
              service.budget.used == used && td_autograd_nodes() == nodes && !service.deadlines &&
              !service.queue_count && !service.name_waits && !sessions.count;
    if (!ok)
        printf("program %u left %lld tensors, %lld storages, %lld causes, %lld bytes, %lld nodes, %d deadlines, %u "
               "queues\n",
               number, (long long)(after.tensors - before.tensors), (long long)(after.storages - before.storages),
               (long long)(after.causes - before.causes), (long long)(service.budget.used - used),
               (long long)(td_autograd_nodes() - nodes), service.deadlines != NULL, service.queue_count);
    return ok;
}

int main(int argc, char **argv)
{
    unsigned from = argc > 1 ? (unsigned)atoi(argv[1]) : 1, n = argc > 2 ? (unsigned)atoi(argv[2]) : 400, bad = 0;
    td_service_options o = {.memory = 64 << 20, .workers = 1, .session_bytes = 16 << 20, .session_objects = 20000};
    td_error e = {0};
    td_cpu_init();
    td_cpu_thread_init();
    if (td_service_init(&service, &o, &e)) return 1;
    td_sessions_init(&sessions, &service);
    td_dead_set_bound(16);
    sessions.max_unread = 4096;
    for (int k = 0; k < PROGRAMS; k++) {
        td_ir *ir = td_ir_read(texts[k], strlen(texts[k]), &e);
        programs[k].bytes = ir ? td_ir_encode(ir, &programs[k].n, &e) : NULL;
        if (!programs[k].bytes) printf("%s\n", e.message), abort();
        td_ir_unref(ir);
    }
    for (unsigned i = 0; i < n; i++) {
        if (getenv("TD_RANDOM_SHOW")) printf("program %u\n", from + i), fflush(stdout);
        bad += !one(from + i);
    }
    worked = service.ops_run;
    td_service_deinit(&service);
    for (int k = 0; k < PROGRAMS; k++) free(programs[k].bytes);
    printf("%llu frames done, %llu ops run, %llu sessions ended, %llu cloned, %llu tables of memory read, %llu rows "
           "below nothing\n",
           (unsigned long long)done, (unsigned long long)worked, (unsigned long long)ended, (unsigned long long)cloned,
           (unsigned long long)told, (unsigned long long)less);
    bad += less || told < n / 4;
    bad += done < 20ull * n || worked < 20ull * n; /* who only waits tries nothing */
    printf("suite many: %u passed, %u failed, 0 skipped\n", n - (bad < n ? bad : n), bad);
    return bad != 0;
}
