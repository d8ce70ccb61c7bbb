/* Programs of clients without manners: bytes that are none, calls that lie, runs without an end, runs that take all
 * they can get, clients that are gone in the middle, answers that nobody reads.
 *
 * After each test the daemon must hold exactly what it held before; while one runs, others are answered. */
#include "proto/program/values.h"
#include "tests/hostile/counted.h"
#include "tests/hostile/packed.h"
#include "tests/hostile/stops.h"
#include "tests/unit/cunit_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int start(void)
{
    static const char *const options[] = {"--memory", "96M", "--workers", "2", "--session-objects", "110000", NULL};
    return test_daemon_start(&d, options) && raw_count(d.socket, base) ? 0 : 1;
}

/* ---- programs and calls */

static unsigned seed = 1;
static unsigned rnd(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static uint32_t program_of_bytes(raw *r, uint32_t id, const uint8_t *bytes, size_t n, size_t ncaptured,
                                 uint32_t *captured)
{
    Td__Wire__Call c;
    Td__Wire__ProgramNew q;
    td__wire__call__init(&c);
    td__wire__program_new__init(&q);
    q.program = id, q.ir.data = (uint8_t *)bytes, q.ir.len = n, q.n_captured = ncaptured, q.captured = captured;
    c.program_new = &q;
    return ask(r, &c);
}

static uint32_t program(raw *r, uint32_t id, const char *text)
{
    size_t n;
    uint8_t *bytes = packed(text, &n);
    uint32_t code = program_of_bytes(r, id, bytes, n, 0, NULL);
    free(bytes);
    return code;
}

/* With ints as arguments; the serial of its answer. */
static uint64_t call(raw *r, td_words *w, uint32_t id, int nin, const uint32_t *in, int nout, const uint32_t *out,
                     uint32_t n, const int64_t *ints)
{
    td_words rest = {0};
    uint32_t *head = td_words_room(&rest, TD_CALL_HEAD);
    head[0] = id, head[3] = 0, head[4] = 0, head[5] = n + (uint32_t)nin;
    td_words_put_u64(head + 1, ++r->serial);
    rest.count += TD_CALL_HEAD;
    for (int k = 0; k < nin; k++) td_pv_put(&rest, &(td_pv){.kind = TD_PV_TENSOR});
    for (uint32_t k = 0; k < n; k++) td_pv_put(&rest, &(td_pv){.kind = TD_PV_INT, .i = ints[k]});
    control(w, TD_REC_CALL, 0, nin, in, nout, out, (int)rest.count, rest.at);
    td_words_deinit(&rest);
    return r->serial;
}

/* A call with one int, and what came of it. */
static uint32_t run(raw *r, uint32_t id, int64_t with)
{
    td_words w = {0};
    call(r, &w, id, 0, NULL, 0, NULL, 1, &with);
    if (!send_all(r, &w)) return TD_E_LOST;
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    return !x ? TD_E_LOST : x->error ? x->error->code : TD_OK;
}

static void run_without_waiting(raw *r, uint32_t id, int64_t with)
{
    td_words w = {0};
    call(r, &w, id, 0, NULL, 0, NULL, 1, &with);
    CU_ASSERT_TRUE(send_all(r, &w));
}

static const char twice[] = "graph(%n : int):\n"
                            "  %m : int = prim::add.int(%n, %n)\n"
                            "  return (%m)\n";

/* ---- nonsense */

/* All of the language in little room. */
static const char rich[] = "captured %w : Tensor = \"w\"\n"
                           "graph(%x : Tensor, %n : int, %l : (int, Tensor?[])):\n"
                           "  %b : bool = prim::Constant[value=1]()\n"
                           "  %y : Tensor = prim::Loop(%n, %b, %x) # a.py:1:1-9\n"
                           "    block0(%i : int, %a : Tensor):\n"
                           "      %r : Tensor = td::mul(%a, %w)\n"
                           "      %c : bool = prim::lt.int(%i, %n)\n"
                           "      %z : Tensor = prim::If(%c)\n"
                           "        block0():\n"
                           "          -> (%r)\n"
                           "        block1():\n"
                           "          -> (%a)\n"
                           "      -> (%b, %z)\n"
                           "  %s : str[] = prim::Constant[value=[\"\", \"a\"]]()\n"
                           "  %k : int = prim::len.list(%s)\n"
                           "  %d : Tensor = fn::go(%y)\n"
                           "  return (%d, %s)\n"
                           "fn go(%x : Tensor):\n"
                           "  return (%x)\n";

/* Bytes of a program, some of them others: what is taken all the same is called, with whatever. */
static void bytes_of_all_kinds(void)
{
    raw r;
    size_t n;
    int taken = 0;
    uint8_t *bytes = packed(rich, &n), *changed = malloc(n + 1);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    for (uint32_t id = 1; id <= 3; id++) raw_zeros(&r, id, 4);
    for (uint32_t k = 1; k <= 1500; k++) {
        memcpy(changed, bytes, n);
        size_t length = k % 5 ? n : rnd((unsigned)n + 1);
        for (unsigned i = 0; i < 1 + k % 4; i++) changed[rnd((unsigned)n)] = (uint8_t)(rnd(3) ? rnd(16) : rnd(256));
        uint32_t ids[] = {rnd(5), 1, 2}, code = program_of_bytes(&r, k, changed, length, k % 20 ? 1 : rnd(4), ids);
        CU_ASSERT_NOT_EQUAL_FATAL(code, TD_E_LOST);
        if (code) continue;
        taken++;
        td_words w = {0};
        uint32_t out[] = {10, 11};
        call(&r, &w, k, 1 + (int)rnd(3), (uint32_t[]){1, 2, 3}, 2, out, rnd(3), (int64_t[]){rnd(4), -1});
        control(&w, TD_REC_PROGRAM_END, 0, 0, NULL, 0, NULL, 1, &k);
        release(&w, 10);
        CU_ASSERT_NOT_EQUAL_FATAL(code_of(&r, &w), TD_E_LOST);
    }
    CU_ASSERT_TRUE(taken > 5);
    raw_close(&r);
    free(bytes);
    free(changed);
    back_to_normal();
}

/* Records of calls as no client writes them. */
static void calls_of_all_kinds(void)
{
    raw r;
    size_t n;
    uint8_t *bytes = packed(rich, &n);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    for (uint32_t id = 1; id <= 3; id++) raw_zeros(&r, id, 4);
    CU_ASSERT_EQUAL(program_of_bytes(&r, 1, bytes, n, 1, (uint32_t[]){3}), TD_OK);
    free(bytes);
    for (int k = 0; k < 1500; k++) {
        td_words w = {0};
        uint32_t rest[24], in[4], out[4];
        for (int i = 0; i < 24; i++)
            rest[i] = rnd(2) ? rnd(12) | (rnd(4) ? rnd(4) : rnd(1 << 20)) << 8 : rnd(UINT32_MAX);
        for (int i = 0; i < 4; i++) in[i] = rnd(5), out[i] = rnd(6) ? 20 + rnd(4) : rnd(2) ? 1 + rnd(3) : 40 + rnd(9);
        rest[0] = rnd(8) ? 1 : rest[0];
        rest[1] = rnd(2) ? (uint32_t)++r.serial : 0, rest[2] = 0;
        rest[3] = rnd(4) ? 0 : rnd(2) ? rnd(3) : rest[3];
        rest[4] = rnd(4) ? rnd(3) : rest[4];
        rest[5] = rnd(4) ? 3 : rest[5];
        control(&w, TD_REC_CALL, rnd(256), (int)rnd(5), in, (int)rnd(5), out, TD_CALL_HEAD + (int)rnd(18), rest);
        for (uint32_t id = 20; id < 50; id++) release(&w, id);
        if (code_of(&r, &w) == TD_E_LOST) printf("\n    the connection was lost: %s\n", r.gone);
        CU_ASSERT_STRING_EQUAL_FATAL(r.gone, "");
    }
    raw_close(&r);
    back_to_normal();
}

static void names_and_ids(void)
{
    raw r;
    size_t n;
    uint32_t code;
    uint8_t *bytes = packed(rich, &n);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    raw_zeros(&r, 1, 4);
    CU_ASSERT_EQUAL(program_of_bytes(&r, 5, bytes, n, 1, (uint32_t[]){9}), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(program_of_bytes(&r, 5, bytes, n, 0, NULL), TD_E_INVALID);
    CU_ASSERT_EQUAL(program_of_bytes(&r, 5, bytes, n, 2, (uint32_t[]){1, 1}), TD_E_INVALID);
    CU_ASSERT_EQUAL(program_of_bytes(&r, 0, bytes, n, 1, (uint32_t[]){1}), TD_E_EXISTS);
    CU_ASSERT_EQUAL(program_of_bytes(&r, 5, bytes, n, 1, (uint32_t[]){1}), TD_OK);
    CU_ASSERT_EQUAL(program_of_bytes(&r, 5, bytes, n, 1, (uint32_t[]){1}), TD_E_EXISTS);
    uint32_t *many = calloc(5000, sizeof *many);
    CU_ASSERT_EQUAL(program_of_bytes(&r, 6, bytes, n, 5000, many), TD_E_INVALID);
    free(many);
    free(bytes);

    CU_ASSERT_EQUAL(program(&r, 7, twice), TD_OK);
    CU_ASSERT_EQUAL(run(&r, 7, 4), TD_OK);
    CU_ASSERT_EQUAL(run(&r, 8, 4), TD_E_NOT_FOUND);
    td_words w = {0};
    uint32_t id = 7;
    control(&w, TD_REC_PROGRAM_END, 0, 0, NULL, 0, NULL, 1, &id);
    control(&w, TD_REC_PROGRAM_END, 0, 0, NULL, 0, NULL, 1, &id);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_E_NOT_FOUND);
    raw_sync(&r, &code);
    CU_ASSERT_EQUAL(run(&r, 7, 4), TD_E_NOT_FOUND);
    raw_close(&r);
    back_to_normal();
}

/* What a run works with is let go of by its client in the same breath. */
static void freed_while_it_runs(void)
{
    static const char text[] = "captured %w : Tensor\n"
                               "graph(%x : Tensor):\n"
                               "  %b : bool = prim::Constant[value=1]()\n"
                               "  %n : int = prim::Constant[value=2000]()\n"
                               "  %y : Tensor = prim::Loop(%n, %b, %x)\n"
                               "    block0(%i : int, %a : Tensor):\n"
                               "      %r : Tensor = td::mul(%a, %w)\n"
                               "      -> (%b, %r)\n"
                               "  return (%y)\n";
    raw r;
    size_t n;
    uint8_t *bytes = packed(text, &n);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    for (int k = 0; k < 5; k++) {
        uint32_t code = TD_OK, id = 1;
        raw_zeros(&r, 1, 1000), raw_zeros(&r, 2, 1000);
        CU_ASSERT_EQUAL(program_of_bytes(&r, 1, bytes, n, 1, (uint32_t[]){2}), TD_OK);
        td_words w = {0};
        call(&r, &w, 1, 1, (uint32_t[]){1}, 1, (uint32_t[]){3}, 0, NULL);
        release(&w, 1), release(&w, 2);
        control(&w, TD_REC_PROGRAM_END, 0, 0, NULL, 0, NULL, 1, &id);
        CU_ASSERT_TRUE(send_all(&r, &w));
        CU_ASSERT_PTR_NOT_NULL(raw_reply(&r, TEST_LONG_MS));
        raw_sync(&r, &code);
        CU_ASSERT_EQUAL(code, TD_OK);
        release(&w, 3);
        CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    }
    free(bytes);
    raw_close(&r);
    back_to_normal();
}

/* ---- without an end */

/* Between these lines stands what is done again and again. */
#define FOR_EVER                                                                                                       \
    "  %yes : bool = prim::Constant[value=1]()\n"                                                                      \
    "  %zero : int = prim::Constant[value=0]()\n"                                                                      \
    "  %ever : int = prim::Constant[value=9223372036854775807]()\n"                                                    \
    "  prim::Loop(%ever, %yes)\n"                                                                                      \
    "    block0(%i : int):\n"
#define AND_SO_ON                                                                                                      \
    "      -> (%yes)\n"                                                                                                \
    "  return (%zero)\n"
#define CONSTANT(name, type, value) "  %" name " : " type " = prim::Constant[value=" value "]()\n"

static const char *const endless[] = {
    "graph(%n : int):\n" FOR_EVER AND_SO_ON,
    "graph(%n : int):\n" FOR_EVER "      %m : int = prim::add.int(%i, %zero)\n" AND_SO_ON,
    /* loops within loops */
    "graph(%n : int):\n" CONSTANT("million", "int", "1000000") FOR_EVER "      prim::Loop(%million, %yes)\n"
                                                                        "        block0(%j : int):\n"
                                                                        "          prim::Loop(%million, %yes)\n"
                                                                        "            block0(%k : int):\n"
                                                                        "              -> (%yes)\n"
                                                                        "          -> (%yes)\n" AND_SO_ON,
    /* a text of a list of floats */
    "graph(%n : int):\n" CONSTANT("f", "float", "0.1")
        CONSTANT("many", "int", "3200") "  %one : float[] = prim::ListConstruct(%f)\n"
                                        "  %l : float[] = prim::mul.list(%one, %many)\n" FOR_EVER
                                        "      %s : str = prim::str(%l)\n" AND_SO_ON,
    /* characters of a long text, and its parts */
    "graph(%n : int):\n" CONSTANT("a", "str", "\"a,\"") CONSTANT("by", "str", "\",\"")
        CONSTANT("many", "int", "32000") "  %t : str = prim::mul.str(%a, %many)\n" FOR_EVER
                                         "      %l : str[] = prim::split.by(%t, %by)\n"
                                         "      %u : str = prim::replace(%t, %by, %by)\n"
                                         "      %c : int = prim::count.str(%t, %by)\n"
                                         "      %g : str = prim::getitem.str(%t, %many)\n" AND_SO_ON,
    /* a list in order */
    "graph(%n : int):\n" CONSTANT("many", "int", "65000")
        CONSTANT("no", "bool", "0") "  %one : int[] = prim::ListConstruct(%n)\n" FOR_EVER
                                    "      %l : int[] = prim::mul.list(%one, %many)\n"
                                    "      prim::sort.int(%l, %no)\n" AND_SO_ON,
    /* lists of lists that die at once */
    "graph(%n : int):\n" CONSTANT("many", "int", "10000") FOR_EVER "      %one : int[] = prim::ListConstruct(%n)\n"
                                                                   "      %all : int[][] = prim::ListConstruct(%one)\n"
                                                                   "      prim::Loop(%many, %yes)\n"
                                                                   "        block0(%j : int):\n"
                                                                   "          %c : int[] = prim::copy.list(%one)\n"
                                                                   "          prim::append(%all, %c)\n"
                                                                   "          -> (%yes)\n" AND_SO_ON,
    /* a long graph, and a backward through it; gradients of which others are wanted */
    "graph(%n : int):\n" CONSTANT("d", "dtype", "\"float32\"") CONSTANT("no", "bool", "0")
        CONSTANT("many", "int", "4000") "  %none : NoneType = prim::Constant()\n"
                                        "  %gs : Tensor?[] = prim::ListConstruct()\n"
                                        "  %all : Tensor[] = prim::ListConstruct()\n"
                                        "  %e : int[] = prim::ListConstruct(%n)\n" FOR_EVER
                                        "      %t : Tensor = td::full(%e, %n, %d)\n"
                                        "      prim::set_requires_grad(%t, %yes)\n"
                                        "      %y : Tensor = prim::Loop(%many, %yes, %t)\n"
                                        "        block0(%j : int, %a : Tensor):\n"
                                        "          %b : Tensor = td::mul(%a, %t)\n"
                                        "          -> (%yes, %b)\n"
                                        "      %s : Tensor = td::sum(%y, %none, %no, %none)\n"
                                        "      %outs : Tensor[] = prim::ListConstruct(%s)\n"
                                        "      %in : Tensor[] = prim::ListConstruct(%t)\n"
                                        "      %g : Tensor[] = prim::autograd_grad(%outs, %gs, %in, %yes, %yes)\n"
                                        "      prim::backward(%outs, %gs, %all, %no, %no)\n" AND_SO_ON,
    /* tensors, and what is in them */
    "graph(%n : int):\n" CONSTANT("d", "dtype", "\"float32\"") FOR_EVER
    "      %e : int[] = prim::ListConstruct(%n)\n"
    "      %t : Tensor = td::full(%e, %i, %d)\n"
    "      %s : int = prim::item.int(%t)\n" AND_SO_ON,
};

static int smaller_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What the daemon's loop does until a small request is answered: for half of them so much, in microseconds of its
 * processor time, however much the machine does besides. */
static uint64_t usual_answer(raw *other)
{
    enum { TRIES = 41 };
    uint64_t took[TRIES];
    for (int k = 0; k < TRIES; k++) {
        uint32_t code;
        uint64_t before = test_loop_us(&d);
        raw_sync(other, &code);
        took[k] = test_loop_us(&d) - before;
    }
    qsort(took, TRIES, sizeof *took, smaller_first);
    return took[TRIES / 2];
}

static void beside_what_never_ends(void)
{
    raw r, other;
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    CU_ASSERT_TRUE(test_loop_us(&d) > 0);
    uint64_t idle = usual_answer(&other);
    for (unsigned k = 0; k < sizeof endless / sizeof *endless; k++) {
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        CU_ASSERT_EQUAL(program(&r, 1, endless[k]), TD_OK);
        run_without_waiting(&r, 1, 1);
        test_sleep_ms(20);
        uint64_t took = usual_answer(&other), most = 30000 + 3 * idle;
        if (took > most)
            printf("\n    beside program %u: %llu us, idle %llu us\n", k, (unsigned long long)took,
                   (unsigned long long)idle);
        CU_ASSERT_TRUE(took <= most);
        raw_close(&r); /* its end is the run's */
    }
    raw_close(&other);
    back_to_normal();
}

/* ---- stopped */

static uint32_t cancel(raw *by, uint32_t session, uint64_t token, uint64_t serial)
{
    Td__Wire__Call c;
    Td__Wire__Cancel q;
    td__wire__call__init(&c);
    td__wire__cancel__init(&q);
    q.waiting = serial, q.session = session, q.token = token;
    c.cancel = &q;
    return ask(by, &c);
}

/* The code of what is answered next. */
static uint32_t answered(raw *r)
{
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    return !x ? TD_E_LOST : x->error ? x->error->code : TD_OK;
}

/* By another session that knows the token; wherever it is at that moment. What comes behind it is done. */
static void stopped_by_another(void)
{
    raw r, other;
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    for (unsigned k = 0; k < sizeof endless / sizeof *endless; k++) {
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        CU_ASSERT_EQUAL(program(&r, 1, endless[k]), TD_OK);
        CU_ASSERT_EQUAL(program(&r, 2, twice), TD_OK);
        for (int times = 0; times < 5; times++) {
            run_without_waiting(&r, 1, 1);
            uint64_t serial = r.serial;
            run_without_waiting(&r, 2, 1);
            test_sleep_ms(times);
            CU_ASSERT_EQUAL(cancel(&other, r.session, r.token + 1, serial), TD_E_PERMISSION);
            CU_ASSERT_EQUAL(cancel(&other, r.session + 1000, r.token, serial), TD_E_NOT_FOUND);
            CU_ASSERT_EQUAL(cancel(&other, r.session, r.token, serial + 1000), TD_OK); /* another call's */
            CU_ASSERT_EQUAL(cancel(&other, other.session, other.token, serial), TD_OK);
            CU_ASSERT_EQUAL(cancel(&other, r.session, r.token, serial), TD_OK);
            CU_ASSERT_EQUAL(cancel(&other, r.session, r.token, serial), TD_OK);
            CU_ASSERT_EQUAL(answered(&r), TD_E_CANCELLED);
            CU_ASSERT_EQUAL(answered(&r), TD_OK);
        }
        /* Before it begins. */
        CU_ASSERT_EQUAL(cancel(&other, r.session, r.token, r.serial + 1), TD_OK);
        run_without_waiting(&r, 1, 1);
        CU_ASSERT_EQUAL(answered(&r), TD_E_CANCELLED);
        CU_ASSERT_EQUAL(run(&r, 2, 1), TD_OK);
        raw_close(&r);
    }
    raw_close(&other);
    back_to_normal();
}

/* Frames behind what runs until the socket takes no more, and the daemon none; how many, with the last half sent. */
static int fill_stream(raw *r, uint32_t id, size_t *left, uint8_t *last, size_t most)
{
    int times = 0;
    for (*left = 0; !*left; times++) {
        td_words w = {0};
        call(r, &w, id, 0, NULL, 0, NULL, 1, (int64_t[]){1});
        Td__Wire__Batch batch = TD__WIRE__BATCH__INIT;
        batch.n_words = w.count, batch.words = w.at;
        size_t n = td__wire__batch__pack(&batch, last + TD_FRAME_HEADER), sent = 0;
        CU_ASSERT_FATAL(n + TD_FRAME_HEADER < most);
        td_frame_put_header(last, (uint32_t)n, TD_FRAME_BATCH, 0);
        n += TD_FRAME_HEADER;
        for (int rests = 0; sent < n && rests < 20;) {
            ssize_t some = send(r->fd, last + sent, n - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (some > 0) sent += (size_t)some, rests = 0;
            else test_sleep_ms(1), rests++;
        }
        *left = n - sent;
        memmove(last, last + sent, *left);
        td_words_deinit(&w);
    }
    return times;
}

/* Does a stopper count among the bytes of connections? What ended connections held leaves that number late, so one look
 * can see it fall: it is repeated, with a fresh connection each time, until the rest has gone. */
static bool stopper_is_paid_for(void)
{
    for (int i = 0; i < TEST_LONG_MS / 5; i++, test_sleep_ms(5)) {
        raw r;
        if (!raw_open(&r, d.socket)) return false;
        int64_t without = raw_status(&r, "bytes_of_connections");
        int end = stopper(&r);
        bool more = end >= 0 && raw_status(&r, "bytes_of_connections") >= without + 500;
        if (end >= 0) close(end);
        raw_close(&r);
        if (more) return true;
    }
    return false;
}

/* By its own client, while a buffer and a socket full of calls stand behind the run. None of these is lost. */
static void stopped_beside_the_stream(void)
{
    raw r;
    for (unsigned k = 0; k < sizeof endless / sizeof *endless; k++) {
        uint8_t last[1024];
        size_t left;
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        CU_ASSERT_EQUAL(program(&r, 1, endless[k]), TD_OK);
        CU_ASSERT_EQUAL(program(&r, 2, twice), TD_OK);
        int end = stopper(&r);
        CU_ASSERT_FATAL(end >= 0);
        CU_ASSERT_EQUAL(stopper(&r), -1); /* there is one */
        for (int times = 0; times < 3; times++) { /* before it begins, while it does, and later */
            if (!times) CU_ASSERT_TRUE(say_stop(end, r.serial + 1));
            run_without_waiting(&r, 1, 1);
            if (times == 2) test_sleep_ms(2);
            if (times) CU_ASSERT_TRUE(say_stop(end, r.serial));
            run_without_waiting(&r, 2, 1);
            CU_ASSERT_EQUAL(answered(&r), TD_E_CANCELLED);
            CU_ASSERT_EQUAL(answered(&r), TD_OK);
        }
        run_without_waiting(&r, 1, 1);
        uint64_t serial = r.serial;
        CU_ASSERT_TRUE(say_stop(end, serial + 1000000)); /* of a call that never comes */
        int behind = k < 2 ? fill_stream(&r, 2, &left, last, sizeof last) : 0;
        CU_ASSERT_TRUE(say_stop(end, serial));
        CU_ASSERT_EQUAL(answered(&r), TD_E_CANCELLED);
        if (behind) CU_ASSERT_TRUE(raw_bytes(&r, last, left));
        int good = 0;
        while (good < behind && answered(&r) == TD_OK) good++;
        CU_ASSERT_EQUAL(good, behind);
        run_without_waiting(&r, 1, 1);
        close(end); /* then nobody can: its end is the connection's */
        raw_close(&r);
    }
    CU_ASSERT_TRUE(stopper_is_paid_for());
    back_to_normal();
}

/* More calls are stopped than a daemon remembers: the first of the stream are, and the rest when they are said again.
 */
static void many_are_stopped(void)
{
    enum { MANY = 40, KNOWN = 8 };
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_EQUAL(program(&r, 1, endless[0]), TD_OK);
    int end = stopper(&r);
    CU_ASSERT_FATAL(end >= 0);
    uint64_t first = r.serial + 1;
    for (int round = 0; round < 3; round++) { /* said in some order */
        unsigned from = rnd(MANY);
        for (unsigned k = 0; k < MANY; k++) CU_ASSERT_TRUE(say_stop(end, first + (from + k * 7) % MANY));
    }
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__NameLook q = TD__WIRE__NAME_LOOK__INIT;
    q.name = (char *)"none";
    c.name_look = &q;
    test_sleep_ms(5);
    for (int k = 0; k < MANY; k++) run_without_waiting(&r, 1, 1);
    for (int k = 0; k < KNOWN; k++) CU_ASSERT_EQUAL(answered(&r), TD_E_CANCELLED);
    for (int k = KNOWN; k < MANY; k++) {
        CU_ASSERT_TRUE(say_stop(end, first + (unsigned)k));
        CU_ASSERT_EQUAL(answered(&r), TD_E_CANCELLED);
    }
    CU_ASSERT_PTR_NOT_NULL(raw_ask(&r, &c));
    for (int k = 0; k < 20000; k++) CU_ASSERT_TRUE(say_stop(end, 1 + rnd(1000000)));
    CU_ASSERT_PTR_NOT_NULL(raw_ask(&r, &c));
    close(end);
    CU_ASSERT_PTR_NOT_NULL(raw_ask(&r, &c)); /* without it the connection goes on */
    CU_ASSERT_EQUAL(stopper(&r), -1);
    raw_close(&r);
    back_to_normal();
}

/* All but a Stop ends the connection, and descriptors that came with it are let go of. */
static void bytes_through_a_stopper(void)
{
    uint8_t frame[32], large[4096] = {0};
    size_t n = stop_frame(frame, 5);
    for (int how = 0; how < 6; how++) {
        raw r, other;
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        CU_ASSERT_TRUE(raw_open(&other, d.socket));
        CU_ASSERT_EQUAL(program(&r, 1, endless[0]), TD_OK);
        int end = stopper(&r);
        CU_ASSERT_FATAL(end >= 0);
        if (how % 2) run_without_waiting(&r, 1, 1);
        if (how == 0) frame[4] = TD_FRAME_CALL;
        if (how == 1) td_frame_put_header(large, 2000, TD_FRAME_STOP, 0);
        if (how == 2) memset(frame + TD_FRAME_HEADER, 0xff, n - TD_FRAME_HEADER);
        raw by = {.fd = end};
        if (how == 1) CU_ASSERT_TRUE(raw_bytes(&by, large, sizeof large));
        if (how == 0 || how == 2) CU_ASSERT_TRUE(raw_bytes(&by, frame, n));
        n = stop_frame(frame, 5);
        if (how == 3) raw_bytes_fds(&by, frame, n, (int[]){other.fd, end, r.fd}, 3); /* or the kernel refuses it */
        if (how == 4) CU_ASSERT_TRUE(raw_bytes(&by, frame, n - 1));                  /* the rest never comes */
        if (how < 3) CU_ASSERT_TRUE(raw_ended(&r, TEST_LONG_MS));
        if (how < 3) CU_ASSERT_PTR_NOT_NULL(strstr(r.gone, how == 1 ? "2000 bytes" : "nothing but Stops"));
        if (how == 4) CU_ASSERT_EQUAL(run(&r, 2, 1), TD_E_NOT_FOUND);
        if (how == 5) shutdown(end, SHUT_RDWR);
        close(end);
        raw_close(&r);
        raw_close(&other);
    }
    back_to_normal();
}

static void call_for(raw *r, uint32_t id, uint32_t ms)
{
    td_words w = {0};
    uint64_t before = w.count;
    call(r, &w, id, 0, NULL, 0, NULL, 1, (int64_t[]){1});
    for (size_t i = before; i + 3 < w.count; i++) /* program, serial, serial, milliseconds */
        if (w.at[i] == id && w.at[i + 1] == (uint32_t)r->serial && w.at[i + 3] == 0) {
            w.at[i + 3] = ms;
            break;
        }
    CU_ASSERT_TRUE(send_all(r, &w));
}

/* Each has its own time, and its session ends with one under way or not. */
static void stopped_by_the_clock(void)
{
    raw r;
    for (unsigned k = 0; k < sizeof endless / sizeof *endless; k++) {
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        CU_ASSERT_EQUAL(program(&r, 1, endless[k]), TD_OK);
        CU_ASSERT_EQUAL(program(&r, 2, twice), TD_OK);
        for (uint32_t ms = 1; ms < 30; ms += 9) {
            call_for(&r, 1, ms);
            CU_ASSERT_EQUAL(answered(&r), TD_E_TIMEOUT);
            call_for(&r, 2, ms + 10000);
            CU_ASSERT_EQUAL(answered(&r), TD_OK);
        }
        call_for(&r, 1, 20);
        test_sleep_ms((int)k * 4);
        raw_close(&r);
        test_sleep_ms(30);
    }
    back_to_normal();
}

/* ---- all that there is */

/* Tensors, lists and texts until there is no more; the run fails, and the next one has as much. */
static void until_it_is_full(void)
{
    static const char *const texts[] = {
        "graph(%n : int):\n"
        "  %l : int[] = prim::ListConstruct(%n)\n"
        "  %all : int[][] = prim::ListConstruct(%l)\n" FOR_EVER "      %m : int[] = prim::mul.list(%l, %n)\n"
        "      prim::append(%all, %m)\n" AND_SO_ON,
        "graph(%n : int):\n" CONSTANT("d", "dtype",
                                      "\"float32\"") "  %shape : int[] = prim::ListConstruct(%n)\n"
                                                     "  %t : Tensor = td::full(%shape, %n, %d)\n"
                                                     "  %all : Tensor[] = prim::ListConstruct(%t)\n" FOR_EVER
                                                     "      %m : Tensor = td::full(%shape, %i, %d)\n"
                                                     "      prim::append(%all, %m)\n" AND_SO_ON,
    };
    raw r;
    for (unsigned k = 0; k < sizeof texts / sizeof *texts; k++) {
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        CU_ASSERT_EQUAL(program(&r, 1, texts[k]), TD_OK);
        for (int i = 0; i < 3; i++) {
            uint32_t code = run(&r, 1, 65536);
            CU_ASSERT_TRUE(code == TD_E_MEMORY || code == TD_E_QUOTA);
        }
        CU_ASSERT_EQUAL(program(&r, 2, twice), TD_OK);
        CU_ASSERT_EQUAL(run(&r, 2, 1), TD_OK);
        raw_close(&r);
        back_to_normal();
    }
}

static void a_text_that_doubles(void)
{
    static const char text[] = "graph(%n : int):\n" CONSTANT("a", "str", "\"a\"")
        CONSTANT("yes", "bool", "1") "  %s : str = prim::Loop(%n, %yes, %a)\n"
                                     "    block0(%i : int, %t : str):\n"
                                     "      %u : str = prim::add.str(%t, %t)\n"
                                     "      -> (%yes, %u)\n"
                                     "  return (%s)\n";
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_EQUAL(program(&r, 1, text), TD_OK);
    CU_ASSERT_EQUAL(run(&r, 1, 16), TD_OK);
    CU_ASSERT_EQUAL(run(&r, 1, 17), TD_E_INVALID);
    CU_ASSERT_EQUAL(run(&r, 1, INT64_MAX), TD_E_INVALID);
    raw_close(&r);
    back_to_normal();
}

/* As many as there may be, small ones and the largest. */
static void many_programs(void)
{
    raw r;
    size_t n;
    uint32_t code = TD_OK, count = 0;
    uint8_t *bytes = packed(twice, &n);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    while (!code && count < 10000) code = program_of_bytes(&r, ++count, bytes, n, 0, NULL);
    CU_ASSERT_EQUAL(code, TD_E_QUOTA);
    CU_ASSERT_EQUAL(run(&r, 1, 5), TD_OK);
    raw_close(&r);
    free(bytes);
    back_to_normal();

    enum { NODES = 65000, ROOM = NODES * 48 + 200 };
    char *text = malloc(ROOM), *at = text;
    at += sprintf(at, "graph(%%n : int):\n  %%0 : int = prim::add.int(%%n, %%n)\n");
    for (int k = 1; k < NODES; k++) at += sprintf(at, "  %%%d : int = prim::sub.int(%%%d, %%n)\n", k, k - 1);
    sprintf(at, "  return (%%%d)\n", NODES - 1);
    bytes = packed(text, &n);
    free(text);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    for (count = 0, code = TD_OK; !code && count < 200;) code = program_of_bytes(&r, ++count, bytes, n, 0, NULL);
    CU_ASSERT_TRUE(code == TD_E_QUOTA || code == TD_E_MEMORY);
    CU_ASSERT_TRUE(count > 2); /* the last one was refused */
    uint32_t id = 2;
    td_words w = {0};
    control(&w, TD_REC_PROGRAM_END, 0, 0, NULL, 0, NULL, 1, &id);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    CU_ASSERT_EQUAL(run(&r, 1, 5), TD_OK);
    raw_close(&r);
    free(bytes);
    back_to_normal();
}

/* ---- gone in the middle */

static void killed_in_the_middle(void)
{
    raw r;
    for (int k = 0; k < 24; k++) {
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        raw_zeros(&r, 1, 100000);
        CU_ASSERT_EQUAL(program(&r, 1, endless[(unsigned)k % (sizeof endless / sizeof *endless)]), TD_OK);
        run_without_waiting(&r, 1, k);
        test_sleep_ms((int)rnd(15));
        raw_close(&r);
    }
    back_to_normal();
}

/* Large answers, read by nobody. */
static void never_reads(void)
{
    static const char text[] = "graph(%n : int):\n"
                               "  %l : int[] = prim::ListConstruct(%n)\n"
                               "  %m : int[] = prim::mul.list(%l, %n)\n"
                               "  return (%m)\n";
    raw r, other;
    uint32_t code;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    CU_ASSERT_EQUAL(program(&r, 1, text), TD_OK);
    for (int k = 0; k < 200; k++) run_without_waiting(&r, 1, 65536);
    for (int k = 0; k < 20; k++) raw_sync(&other, &code);
    CU_ASSERT_EQUAL(code, TD_OK);
    raw_close(&r);
    raw_close(&other);
    back_to_normal();
}

/* ---- two at once */

/* Two sessions' runs write one tensor, each as often: each op is whole, and none is lost. */
static void two_runs_write_one_tensor(void)
{
    static const char adds[] = "captured %w : Tensor\n"
                               "graph(%n : int):\n" CONSTANT("yes", "bool", "1")
                                   CONSTANT("one", "int", "1") "  prim::Loop(%n, %yes)\n"
                                                               "    block0(%i : int):\n"
                                                               "      %o : Tensor = td::add_(%w, %one, %one)\n"
                                                               "      -> (%yes)\n"
                                                               "  %r : int = prim::item.int(%w)\n"
                                                               "  return (%r)\n";
    enum { TIMES = 800 };
    raw r[2];
    size_t n;
    uint8_t *bytes = packed(adds, &n);
    td_words w = {0};
    for (int k = 0; k < 2; k++) CU_ASSERT_TRUE(raw_open(&r[k], d.socket));
    full(&w, 1, 1, TD_RM_SERVICE);
    CU_ASSERT_EQUAL(code_of(&r[0], &w), TD_OK);
    CU_ASSERT_EQUAL(publish(&r[0], "counted", 1), TD_OK);
    CU_ASSERT_EQUAL(open_name(&r[1], "counted", 1), TD_OK);
    for (int k = 0; k < 2; k++) CU_ASSERT_EQUAL(program_of_bytes(&r[k], 1, bytes, n, 1, (uint32_t[]){1}), TD_OK);
    free(bytes);
    for (int k = 0; k < 2; k++) run_without_waiting(&r[k], 1, TIMES);
    for (int k = 0; k < 2; k++) {
        Td__Wire__Reply *x = raw_reply(&r[k], TEST_LONG_MS);
        CU_ASSERT_PTR_NOT_NULL_FATAL(x);
        CU_ASSERT_PTR_NULL(x->error);
    }
    CU_ASSERT_EQUAL(drop_name(&r[0], "counted"), TD_OK);
    td_words last = {0};
    call(&r[0], &last, 1, 0, NULL, 0, NULL, 1, (int64_t[]){0});
    CU_ASSERT_TRUE(send_all(&r[0], &last));
    Td__Wire__Reply *x = raw_reply(&r[0], TEST_LONG_MS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    CU_ASSERT_TRUE_FATAL(x->n_value == 3);
    CU_ASSERT_EQUAL(td_words_u64(x->value + 1), 2 * TIMES);
    raw_close(&r[0]);
    raw_close(&r[1]);
    back_to_normal();
}

TD_CUNIT_MAIN_WITH("programs", start, stop, {"bytes of all kinds", bytes_of_all_kinds},
                   {"calls of all kinds", calls_of_all_kinds}, {"names and ids", names_and_ids},
                   {"freed while it runs", freed_while_it_runs}, {"beside what never ends", beside_what_never_ends},
                   {"stopped by another", stopped_by_another}, {"stopped beside the stream", stopped_beside_the_stream},
                   {"many are stopped", many_are_stopped}, {"bytes through a stopper", bytes_through_a_stopper},
                   {"stopped by the clock", stopped_by_the_clock}, {"until it is full", until_it_is_full},
                   {"a text that doubles", a_text_that_doubles}, {"many programs", many_programs},
                   {"killed in the middle", killed_in_the_middle}, {"never reads", never_reads},
                   {"two runs write one tensor", two_runs_write_one_tensor})
