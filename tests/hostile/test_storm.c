/* Processes without manners, many at a time, killed at any moment: each sends what chance brings, over its socket or
 * through a ring whose words it rewrites, clones others, holds their names, items and graphs, brings descriptors of all
 * kinds, runs programs with and without an end and stops them, gives items back, and reads its answers or does not.
 *
 * After each storm the daemon must be alive and hold exactly what it held before; told to end in the middle of one, it
 * must end by itself and with 0.
 *
 *     test_storm [TEST]        $TD_STORM_SEED, $TD_STORM_MS: another storm, a longer one */
#include "proto/program/values.h"
#include "tests/hostile/packed.h"
#include "tests/hostile/stops.h"
#include "tests/support/daemon.h"
#include "tests/unit/cunit_main.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 7, IDS = 12, PROGRAMS = 5 };

/* Who may be cloned: written by all, read by all, never mind the races. */
typedef struct known {
    volatile uint32_t session;
    volatile uint64_t token;
} known;

typedef struct child {
    raw r;
    bool on_ring;
    td_ring ring;
    td_writer writer;
    td_ring_memory *memory;
    int stopper; /* -1: it has none */
} child;

static known *others;
static uint8_t *programs[PROGRAMS];
static size_t program_bytes[PROGRAMS];
static char file[128];
static unsigned seed;

static unsigned rnd(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static uint32_t some_id(void)
{
    return 1 + rnd(IDS);
}

static uint32_t some_time(void)
{
    static const uint32_t times[] = {0, 1, 2, 10, 50, UINT32_MAX};
    return times[rnd(6)];
}

/* ---- sending, and not looking at what comes back */

static void drain(child *c)
{
    static uint8_t bin[1 << 16];
    if (c->on_ring) td_ring_read(&c->ring, bin, sizeof bin);
    if (!c->on_ring || rnd(4) == 0) {
        if (recv(c->r.fd, bin, sizeof bin, MSG_DONTWAIT) == 0) _exit(0);
    }
}

static void scribble(child *c)
{
    td_ring_ends *e = &c->memory->ends[rnd(2)];
    _Atomic uint32_t *words[] = {&e->head, &e->full, &e->tail, &e->asleep};
    atomic_store(words[rnd(4)], rnd(3) ? rnd(70000) : rnd(16777216) * 256);
}

static void through_ring(child *c, unsigned kind, const void *payload, size_t n, int fd)
{
    if (fd >= 0) raw_bytes_fds(&c->r, "", 1, &fd, 1);
    uint8_t h[TD_FRAME_HEADER];
    td_frame_put_header(h, (uint32_t)n, kind, fd >= 0);
    const uint8_t *parts[] = {h, payload};
    size_t sizes[] = {sizeof h, n};
    for (int i = 0; i < 2; i++)
        for (int tries = 0; sizes[i] && tries < 200; tries++) {
            long put = td_ring_write(&c->ring, parts[i], sizes[i]);
            if (put > 0) parts[i] += put, sizes[i] -= (size_t)put;
            else drain(c), usleep(200);
            send(c->r.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
}

static void send_frame(child *c, unsigned kind, const void *payload, size_t n, int fd)
{
    if (c->on_ring) {
        through_ring(c, kind, payload, n, fd);
        return;
    }
    uint8_t *b = malloc(TD_FRAME_HEADER + n);
    td_frame_put_header(b, (uint32_t)n, kind, fd >= 0);
    memcpy(b + TD_FRAME_HEADER, payload, n);
    bool ok = raw_bytes_fds(&c->r, b, TD_FRAME_HEADER + n, &fd, fd >= 0);
    free(b);
    if (!ok) _exit(0);
}

static void send_call(child *c, Td__Wire__Call *call, int fd)
{
    uint8_t b[512];
    call->serial = ++c->r.serial;
    send_frame(c, TD_FRAME_CALL, b, td__wire__call__pack(call, b), fd);
}

static void send_words(child *c, td_words *w)
{
    static const uint8_t zeros[4096] = {0};
    Td__Wire__Batch b = TD__WIRE__BATCH__INIT;
    b.words = w->at, b.n_words = w->count;
    b.data = (ProtobufCBinaryData){sizeof zeros, (uint8_t *)zeros};
    uint8_t *p = malloc(td__wire__batch__get_packed_size(&b));
    send_frame(c, TD_FRAME_BATCH, p, td__wire__batch__pack(&b, p), -1);
    free(p);
    td_words_deinit(w);
}

/* ---- what chance brings */

/* Of a record that makes something: mostly where $TENSORD_DEVICE says, and in memory of its own. */
static unsigned some_mode(void)
{
    return (rnd(4) ? raw_device() : TD_CPU) << TD_RM_DEVICE | (rnd(4) ? 0 : TD_RM_SERVICE);
}

static void to_device(td_words *w, uint32_t x, uint32_t out)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, rnd(2) ? raw_device() : TD_CPU);
    op_with(w, TD_OP_TO_DEVICE, 0, &a, 1, &x, 1, &out);
}

static void zeros(td_words *w, uint32_t id)
{
    uint32_t rest[4] = {TD_FLOAT32 | 1 << 8, 1 + rnd(1000), 0, 0};
    release(w, id);
    control(w, TD_REC_DATA, some_mode(), 0, NULL, 1, &id, 4, rest);
    if (rnd(2)) requires_grad(w, id, 1);
}

static void graph(td_words *w)
{
    uint32_t x = some_id(), to[2] = {IDS + 1, IDS + 2}, root = some_id();
    unsigned n = rnd(8) ? rnd(100) : rnd(3000);
    op2(w, TD_OP_MUL, x, x, to[0]);
    for (unsigned i = 0; i < n; i++) {
        op2(w, TD_OP_MUL, to[i % 2], x, to[(i + 1) % 2]);
        release(w, to[i % 2]);
    }
    release(w, root);
    control(w, TD_REC_ALIAS, 0, 1, &to[n % 2], 1, &root, 0, NULL);
    release(w, to[0]);
    release(w, to[1]);
}

static void some_record(td_words *w)
{
    uint32_t x = some_id(), y = some_id(), out = some_id(), serial[2] = {1, 0};
    switch (rnd(13)) {
    case 0:
    case 1: zeros(w, x); break;
    case 2: graph(w); break;
    case 3:
    case 4: control(w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){x, x}, 0, NULL, 3, (uint32_t[]){8 | rnd(8), 1, 0}); break;
    case 5: op_with(w, TD_OP_MUL, TD_RF_OUT, NULL, 2, (uint32_t[]){x, y}, 1, &x); break;
    case 6: control(w, TD_REC_WRITE_END, 0, 1, &x, 0, NULL, 0, NULL); break;
    case 7: control(w, TD_REC_READ, 0, 1, &x, 0, NULL, 2, serial); break;
    case 8: control(w, TD_REC_SYNC, 0, 0, NULL, 0, NULL, 2, serial); break;
    case 9:
        release(w, out);
        full(w, out, 1 + rnd(rnd(8) ? 4000 : 60000), some_mode());
        break;
    case 10:
        release(w, out);
        control(w, TD_REC_PUT, 0, 0, NULL, 1, &out, 4, (uint32_t[]){1 + rnd(5), 0, 0, TD_FLOAT32});
        break;
    case 11: release(w, out), to_device(w, x, out); break;
    default: release(w, out); op2(w, rnd(2) ? TD_OP_MUL : TD_OP_EXP, x, y, out);
    }
}

static int some_descriptor(void)
{
    static const char *const paths[] = {"/proc/self/maps", "/sys/kernel/mm/transparent_hugepage/enabled", "/dev/zero",
                                        "/proc/kmsg", "/"};
    uint64_t sizes[] = {0, 1, 4096, 100000, UINT64_C(1) << 46, UINT64_C(1) << 62};
    if (rnd(4) == 0) return open(paths[rnd(5)], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (rnd(3) == 0) return open(file, O_RDWR | O_CLOEXEC);
    int fd = memfd_create("storm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(fd, (off_t)sizes[rnd(6)])) return fd;
    if (rnd(5)) fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | (rnd(2) ? F_SEAL_GROW : 0) | (rnd(3) ? 0 : F_SEAL_WRITE));
    return fd;
}

static void import(child *c)
{
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    Td__Wire__Import i = TD__WIRE__IMPORT__INIT;
    Td__Wire__Desc desc = TD__WIRE__DESC__INIT;
    int64_t shape = rnd(4) ? rnd(30000) : INT64_C(1) << 44;
    call.import = &i;
    i.announce = true;
    for (unsigned n = 1 + rnd(3) / 2; n; n--) send_call(c, &call, -1);
    usleep(1000 * rnd(4));
    if (rnd(6) == 0) return;
    int fd = some_descriptor();
    i.announce = rnd(20) == 0;
    i.id = some_id(), i.offset = rnd(3) ? 0 : rnd(4) * 2048, i.desc = &desc;
    desc.dtype = TD_FLOAT32, desc.n_shape = 1, desc.shape = &shape;
    if (rnd(2)) {
        td_words w = {0};
        release(&w, i.id);
        send_words(c, &w);
    }
    if (ftruncate(fd, rnd(200000)) == 0 && rnd(2)) (void)!ftruncate(fd, 0);
    send_call(c, &call, fd);
    if (fd >= 0 && rnd(2)) (void)!ftruncate(fd, 0);
    if (fd >= 0) close(fd);
}

/* Of requests that came later: handles, names that are lent or awaited anew, looks, words about memory. */
static void some_other_call(child *c)
{
    static const char *const tables[] = {"status", "sessions", "tensors", "names", "queues", "segments", "turns"};
    char name[8];
    snprintf(name, sizeof name, "s%u", rnd(4));
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    Td__Wire__Hand hand = TD__WIRE__HAND__INIT;
    Td__Wire__Map map = TD__WIRE__MAP__INIT;
    Td__Wire__Publish publish = TD__WIRE__PUBLISH__INIT;
    Td__Wire__Open open = TD__WIRE__OPEN__INIT;
    Td__Wire__NameLook look = TD__WIRE__NAME_LOOK__INIT;
    Td__Wire__QueueLook queue_look = TD__WIRE__QUEUE_LOOK__INIT;
    Td__Wire__Unmapped unmapped = TD__WIRE__UNMAPPED__INIT;
    Td__Wire__Info info = TD__WIRE__INFO__INIT;
    Td__Wire__Status status = TD__WIRE__STATUS__INIT;
    Td__Wire__Stopper another = TD__WIRE__STOPPER__INIT;
    switch (rnd(11)) {
    case 0:
    case 1:
        hand.id = some_id(), hand.lasts_ms = rnd(50), hand.lasting = rnd(2), hand.name = rnd(3) ? (char *)"" : name;
        call.hand = &hand;
        break;
    case 2: map.id = some_id(), map.descriptor = rnd(2), map.quiet = rnd(2), map.facts = rnd(2), call.map = &map; break;
    case 3:
        publish.name = name, publish.id = some_id(), publish.replace = true, publish.lend = rnd(2);
        publish.lasts_ms = publish.lend ? 1 + rnd(100) : 0, publish.bind = rnd(2) ? some_id() : 0;
        call.publish = &publish;
        break;
    case 4:
        open.name = name, open.id = some_id(), open.timeout_ms = some_time(), open.newer_than = rnd(300);
        call.open = &open;
        break;
    case 5: look.name = name, call.name_look = &look; break;
    case 6: queue_look.name = name, call.queue_look = &queue_look; break;
    case 7: unmapped.segment = rnd(20), unmapped.generation = rnd(3), call.unmapped = &unmapped; break;
    case 8: info.id = some_id(), call.info = &info; break;
    case 9: call.stopper = &another; break; /* its descriptor is lost */
    default: status.what = (char *)tables[rnd(7)], call.status = &status;
    }
    send_call(c, &call, -1);
}

/* A helper unpacks it. Of some the rest never comes. */
static void large_frame(child *c)
{
    td_words w = {0};
    for (unsigned n = 1000 + rnd(60000); n; n--) release(&w, 1000 + n);
    for (unsigned n = rnd(20); n; n--) some_record(&w);
    if (c->on_ring || rnd(4)) {
        send_words(c, &w);
        return;
    }
    uint8_t h[TD_FRAME_HEADER];
    td_frame_put_header(h, (uint32_t)(w.count * sizeof *w.at), TD_FRAME_BATCH, 0);
    raw_bytes(&c->r, h, sizeof h);
    raw_bytes(&c->r, w.at, rnd((unsigned)(w.count * sizeof *w.at)));
    sleep(100);
}

static void some_call(child *c)
{
    char name[8];
    uint32_t ids[3] = {some_id(), some_id(), some_id()}, queue = 1 + rnd(2);
    snprintf(name, sizeof name, "s%u", rnd(4));
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
    Td__Wire__Status status = TD__WIRE__STATUS__INIT;
    switch (rnd(15)) {
    case 0: map.id = ids[0], call.map = &map; break;
    case 1: lease.bytes = rnd(5) ? rnd(300000) : UINT64_C(1) << rnd(60), call.lease = &lease; break;
    case 2: lease_drop.lease = 1 + rnd(5), call.lease_drop = &lease_drop; break;
    case 3:
    case 4: begin.id = ids[0], begin.timeout_ms = some_time(), call.write_begin = &begin; break;
    case 5:
    case 6:
    case 7:
        publish.name = name, publish.id = ids[0], publish.replace = rnd(2), publish.copy = rnd(3) == 0;
        publish.lasts_ms = rnd(4) ? some_time() % 100 : 0, call.publish = &publish;
        break;
    case 8:
    case 9: open.name = name, open.id = ids[0], open.timeout_ms = some_time(), call.open = &open; break;
    case 10: drop.name = name, call.drop = &drop; break;
    case 11:
        qopen.name = name, qopen.queue = queue, qopen.role = 1 + rnd(7);
        qopen.keep_ms = 1 + rnd(1000); /* what nobody takes is waited for at the end */
        call.queue_open = &qopen;
        break;
    case 12:
        put.queue = queue, put.n_ids = rnd(4), put.ids = ids, put.timeout_ms = some_time();
        call.queue_put = &put;
        break;
    case 13:
        get.queue = queue, get.n_ids = rnd(4), get.ids = ids, get.timeout_ms = some_time(), call.queue_get = &get;
        break;
    default:
        if (rnd(2)) qclose.queue = queue, qclose.end = rnd(4) == 0, call.queue_close = &qclose;
        else status.what = (char *)"tensors", call.status = &status;
    }
    send_call(c, &call, -1);
}

/* ---- programs */

#define FOR_EVER                                                                                                       \
    "  %yes : bool = prim::Constant[value=1]()\n"                                                                      \
    "  %ever : int = prim::Constant[value=9223372036854775807]()\n"

static const char *const texts[PROGRAMS] = {
    "graph(%x : Tensor):\n"
    "  %y : Tensor = td::mul(%x, %x)\n"
    "  return (%y)\n",
    "graph(%x : Tensor):\n" FOR_EVER "  %y : Tensor = prim::Loop(%ever, %yes, %x)\n"
    "    block0(%i : int, %a : Tensor):\n"
    "      %b : Tensor = td::mul(%a, %x)\n"
    "      -> (%yes, %b)\n"
    "  return (%y)\n",
    /* more and more memory */
    "graph(%x : Tensor):\n" FOR_EVER "  %d : dtype = prim::Constant[value=\"float32\"]()\n"
    "  %n : int = prim::Constant[value=100000]()\n"
    "  %all : Tensor[] = prim::ListConstruct(%x)\n"
    "  prim::Loop(%ever, %yes)\n"
    "    block0(%i : int):\n"
    "      %s : int[] = prim::ListConstruct(%n)\n"
    "      %t : Tensor = td::full(%s, %i, %d)\n"
    "      prim::append(%all, %t)\n"
    "      -> (%yes)\n"
    "  return (%x)\n",
    /* it goes on by what a tensor holds */
    "graph(%x : Tensor):\n" FOR_EVER "  %d : dtype = prim::Constant[value=\"float32\"]()\n"
    "  %n : int = prim::Constant[value=3000]()\n"
    "  %no : bool = prim::Constant[value=0]()\n"
    "  %none : NoneType = prim::Constant()\n"
    "  prim::Loop(%ever, %yes)\n"
    "    block0(%i : int):\n"
    "      %s : int[] = prim::ListConstruct(%n)\n"
    "      %t : Tensor = td::full(%s, %i, %d)\n"
    "      %z : Tensor = td::sum(%t, %none, %no, %none)\n"
    "      %m : int = prim::item.int(%z)\n"
    "      -> (%yes)\n"
    "  return (%x)\n",
    "captured %w : Tensor\n"
    "graph(%x : Tensor):\n"
    "  %no : bool = prim::Constant[value=0]()\n"
    "  %gs : Tensor?[] = prim::ListConstruct()\n"
    "  %all : Tensor[] = prim::ListConstruct()\n"
    "  %y : Tensor = td::mul(%x, %w)\n"
    "  %outs : Tensor[] = prim::ListConstruct(%y)\n"
    "  prim::backward(%outs, %gs, %all, %no, %no)\n"
    "  return (%y)\n",
};

static void make_programs(void)
{
    for (int i = 0; i < PROGRAMS; i++)
        if (!programs[i]) programs[i] = packed(texts[i], &program_bytes[i]);
}

static void send_program(child *c, uint32_t number)
{
    uint8_t b[8192];
    uint32_t captured = some_id(), k = rnd(PROGRAMS);
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    Td__Wire__ProgramNew q = TD__WIRE__PROGRAM_NEW__INIT;
    q.program = number, q.ir.data = programs[k], q.ir.len = program_bytes[k];
    q.n_captured = k + 1 == PROGRAMS, q.captured = &captured;
    call.program_new = &q;
    if (td__wire__call__get_packed_size(&call) + 16 > sizeof b) _exit(0);
    call.serial = ++c->r.serial;
    send_frame(c, TD_FRAME_CALL, b, td__wire__call__pack(&call, b), -1);
}

static void call_program(child *c, td_words *w, uint32_t number)
{
    td_words rest = {0};
    uint32_t *head = td_words_room(&rest, TD_CALL_HEAD), in = some_id(), out[2] = {some_id(), some_id()};
    head[0] = number, head[3] = rnd(4) ? 1 + rnd(30) : 0, head[4] = rnd(3), head[5] = 1;
    td_words_put_u64(head + 1, rnd(3) ? ++c->r.serial : 0);
    rest.count += TD_CALL_HEAD;
    td_pv_put(&rest, &(td_pv){.kind = TD_PV_TENSOR});
    release(w, out[0]);
    if (rnd(3)) zeros(w, in);
    control(w, TD_REC_CALL, 0, 1, &in, 1 + (int)rnd(2), out, (int)rest.count, rest.at);
    td_words_deinit(&rest);
}

static void some_program(child *c)
{
    uint32_t number = 1 + rnd(2);
    td_words w = {0};
    if (rnd(3)) {
        control(&w, TD_REC_PROGRAM_END, 0, 0, NULL, 0, NULL, 1, &number);
        send_words(c, &w);
        send_program(c, number);
    }
    for (unsigned n = 1 + rnd(2); n; n--) call_program(c, &w, number);
    if (rnd(3) == 0) some_record(&w);
    send_words(c, &w);
}

/* Of calls that run, that ran, that are to come, and of requests that are none. */
static void some_stops(child *c)
{
    if (c->stopper < 0) return;
    for (unsigned n = 1 + rnd(rnd(4) ? 4 : 300); n; n--) {
        uint8_t frame[32];
        size_t all = stop_frame(frame, c->r.serial + rnd(6) - (c->r.serial > 3 ? 3 : 0));
        if (rnd(2000) == 0) frame[rnd((unsigned)all)] = (uint8_t)rnd(256);
        if (send(c->stopper, frame, rnd(500) ? all : rnd((unsigned)all), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
    }
    if (rnd(60)) return;
    close(c->stopper);
    c->stopper = -1;
}

/* ---- what is had and given back */

static void take_and_return(child *c)
{
    uint32_t ids[3] = {some_id(), some_id(), some_id()}, queue = 1 + rnd(2);
    char name[8];
    snprintf(name, sizeof name, "s%u", rnd(4));
    if (c->on_ring) return;
    td_words w = {0};
    for (int i = 0; i < 3; i++) release(&w, ids[i]);
    send_words(c, &w);
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    get.queue = queue, get.n_ids = 3, get.ids = ids, get.timeout_ms = rnd(3);
    call.queue_get = &get;
    uint64_t serial = raw_call(&c->r, &call), until = test_now_ms() + 30, place = 0;
    for (Td__Wire__Reply *x; test_now_ms() < until && (x = raw_reply(&c->r, 10));)
        if (x->serial == serial && x->item) place = x->item->place;
    call = (Td__Wire__Call)TD__WIRE__CALL__INIT;
    Td__Wire__QueueReturn back = TD__WIRE__QUEUE_RETURN__INIT;
    back.name = name, back.n_ids = rnd(4), back.ids = ids, back.place = rnd(10) ? place : place + 1;
    call.queue_return = &back;
    for (unsigned n = rnd(3); place && n; n--) send_call(c, &call, -1);
}

static void give_up(child *c)
{
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    Td__Wire__Cancel cancel = TD__WIRE__CANCEL__INIT;
    const known *k = &others[rnd(CHILDREN)];
    cancel.waiting = c->r.serial - rnd(4);
    if (rnd(4) == 0) cancel.session = k->session, cancel.token = k->token;
    call.cancel = &cancel;
    send_call(c, &call, -1);
}

static void to_ring(child *c)
{
    Td__Wire__Lease lease = TD__WIRE__LEASE__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    Td__Wire__Ring ring = TD__WIRE__RING__INIT;
    lease.bytes = sizeof(td_ring_memory), call.lease = &lease;
    Td__Wire__Reply *x = raw_ask(&c->r, &call);
    if (!x || !x->address || raw_fd < 0) return;
    uint64_t offset = x->address->offset;
    ring.lease = x->lease;
    uint8_t *at = mmap(NULL, x->address->segment_size, PROT_READ | PROT_WRITE, MAP_SHARED, raw_fd, 0);
    if (at == MAP_FAILED) _exit(0);
    c->memory = (td_ring_memory *)(at + offset);
    td_ring_clear(c->memory);
    call = (Td__Wire__Call)TD__WIRE__CALL__INIT;
    call.ring = &ring;
    if (ask(&c->r, &call)) return;
    td_ring_init(&c->ring, c->memory, false);
    c->on_ring = true;
}

static void live(const char *socket, int slot)
{
    child c = {.stopper = -1};
    Td__Wire__Hello h = TD__WIRE__HELLO__INIT;
    h.protocol = TD_PROTOCOL, h.table_hash = td_ops_hash;
    int parent = (int)rnd(CHILDREN);
    if (rnd(3) == 0 && others[parent].session)
        h.clone_session = others[parent].session, h.clone_token = others[parent].token;
    if (!raw_connect(&c.r, socket) || !raw_hello_with(&c.r, &h)) _exit(0);
    others[slot].session = c.r.session, others[slot].token = c.r.token;
    if (rnd(2)) c.stopper = stopper(&c.r);
    if (rnd(3) == 0) to_ring(&c);
    for (;;) {
        unsigned k = rnd(20);
        if (rnd(8) == 0) some_program(&c);
        if (rnd(4) == 0) some_stops(&c);
        if (rnd(10) == 0) rnd(2) ? take_and_return(&c) : give_up(&c);
        if (rnd(4) == 0) some_other_call(&c);
        if (rnd(60) == 0) large_frame(&c);
        if (k < 9) {
            td_words w = {0};
            for (unsigned n = 1 + rnd(6); n; n--) some_record(&w);
            send_words(&c, &w);
        } else if (k < 18) {
            some_call(&c);
        } else if (k == 18) {
            import(&c);
        } else if (c.on_ring && rnd(4) == 0) {
            scribble(&c);
        } else if (rnd(100) == 0) {
            raw_bytes(&c.r, "what", 4);
        }
        if (rnd(3)) drain(&c);
        if (rnd(100) == 0) usleep(1000 * rnd(30));
    }
}

/* ---- storms */

static pid_t start_child(const char *socket, int slot)
{
    unsigned own = seed + rnd(1 << 20);
    fflush(stdout);
    pid_t parent = getpid(), p = fork();
    if (p) return p;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    seed = own;
    live(socket, slot);
    _exit(0);
}

static void end_child(pid_t *p)
{
    if (*p <= 0) return;
    kill(*p, SIGKILL);
    waitpid(*p, NULL, 0);
    *p = 0;
}

static unsigned long setting(const char *name, unsigned long usual)
{
    const char *v = getenv(name);
    return v ? strtoul(v, NULL, 10) : usual;
}

/* Children come and are killed for some time; the daemon is told to end `told` times in the middle of the last. */
static void storm(test_daemon *d, unsigned number, int told)
{
    pid_t p[CHILDREN] = {0};
    seed = (unsigned)setting("TD_STORM_SEED", 1) * 7919 + number;
    uint64_t until = test_now_ms() + setting("TD_STORM_MS", 1500);
    while (test_now_ms() < until && test_daemon_alive(d)) {
        int i = (int)rnd(CHILDREN), k = (int)rnd(CHILDREN);
        if (p[k] > 0 && rnd(8) == 0) kill(p[k], rnd(2) ? SIGSTOP : SIGCONT);
        end_child(&p[i]);
        p[i] = start_child(d->socket, i);
        test_sleep_ms((int)rnd(25));
    }
    for (int i = 0; i < told; i++) {
        kill(d->pid, SIGTERM);
        test_sleep_ms((int)rnd(20));
    }
    for (int i = 0; i < CHILDREN; i++) end_child(&p[i]);
}

/* Which the last to die may still have published: what they sent is worked off first. */
static void drop_names(const char *socket)
{
    raw r;
    char name[8];
    if (!raw_open(&r, socket)) return;
    for (int i = 0; i < TEST_LONG_MS / 5 && raw_status(&r, "sessions") > 1; i++) test_sleep_ms(10);
    for (unsigned i = 0; i < 4; i++) snprintf(name, sizeof name, "s%u", i), drop_name(&r, name);
    raw_close(&r);
}

static void one(const char *const *options, unsigned number, int told)
{
    test_daemon d;
    int64_t before[RAW_COUNTED];
    make_programs();
    snprintf(file, sizeof file, "/tmp/tensord-storm-%d", (int)getpid());
    others = mmap(NULL, sizeof *others * CHILDREN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CU_ASSERT_TRUE_FATAL(fd >= 0 && ftruncate(fd, 100000) == 0);
    close(fd);
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&d, options));
    CU_ASSERT_TRUE_FATAL(raw_count(d.socket, before));
    storm(&d, number, told);
    if (!told) {
        CU_ASSERT_TRUE(test_daemon_alive(&d));
        drop_names(d.socket);
        CU_ASSERT_TRUE(raw_count_again(d.socket, before)); /* what they left to do is done first */
    }
    int status = test_daemon_stop(&d);
    CU_ASSERT_EQUAL(status, 0);
    if (status) printf("\n    the daemon ended with %d\n", status);
    unlink(file);
    munmap(others, sizeof *others * CHILDREN);
}

static void two_workers(void)
{
    one((const char *[]){"--memory", "64M", "--workers", "2", NULL}, 1, 0);
}

static void one_worker(void)
{
    one((const char *[]){"--memory", "16M", "--workers", "1", NULL}, 2, 0);
}

static void posix_memory(void)
{
    one((const char *[]){"--memory", "64M", "--workers", "1", "--shm", "posix", NULL}, 3, 0);
}

/* What is short is the part of each, and what the daemon may have of its own. */
static void quotas(void)
{
    one((const char *[]){"--memory", "64M", "--workers", "2", "--session-memory", "4M", "--user-memory", "12M",
                         "--session-objects", "3000", "--own-memory", "32M", NULL},
        6, 0);
}

static void told_once(void)
{
    one((const char *[]){"--memory", "64M", "--workers", "2", NULL}, 4, 1);
}

static void told_twice(void)
{
    one((const char *[]){"--memory", "64M", "--workers", "2", NULL}, 5, 2);
}

static const td_test tests[] = {
    {"two workers", two_workers},   {"one worker, little memory", one_worker},
    {"posix memory", posix_memory}, {"quotas", quotas},
    {"told to end", told_once},     {"told to end twice", told_twice},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("storm", NULL, NULL, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
