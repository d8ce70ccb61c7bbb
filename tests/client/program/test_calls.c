/* Calls of programs beside all else that a client does: their effects come in the order of the stream, one is stopped
 * whatever stands behind it, and a client that is killed in one leaves nothing. */
#include "client/tensor/awaited.h"
#include "client/tensord_bind.h"
#include "tests/client/common.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOTHING td_arrays_of(0, NULL)

static td_program *read_program(td_client *c, const char *text, td_list captured)
{
    td_program *p = td_program_read(c, text, captured);
    if (!p) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    return p;
}

static unsigned rnd(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* ---- the order of effects */

/* It writes what it is given, draws as it goes, and brings a number. */
static const char walk[] = "captured %p : Tensor = \"p\"\n"
                           "graph(%x : Tensor, %n : int):\n"
                           "  %yes : bool = prim::Constant[value=1]()\n"
                           "  %one : int = prim::Constant[value=1]()\n"
                           "  %m : int = prim::Loop(%n, %yes, %n)\n"
                           "    block0(%i : int, %k : int):\n"
                           "      %r : Tensor = td::bernoulli[rng=0](%p)\n"
                           "      %y : Tensor = td::add_(%x, %r, %one)\n"
                           "      -> (%yes, %i)\n"
                           "  return (%m)\n";
/* It gives a tensor alone, so nobody waits for it. */
static const char grow[] = "captured %p : Tensor = \"p\"\n"
                           "graph(%x : Tensor):\n"
                           "  %two : int = prim::Constant[value=2]()\n"
                           "  %one : int = prim::Constant[value=1]()\n"
                           "  %r : Tensor = td::bernoulli[rng=0](%p)\n"
                           "  %d : Tensor = td::mul(%r, %two)\n"
                           "  %y : Tensor = td::add(%d, %x, %one)\n"
                           "  return (%y)\n";
/* It neither writes nor draws, and does not end. */
static const char idle[] = "graph(%x : Tensor):\n"
                           "  %yes : bool = prim::Constant[value=1]()\n"
                           "  %ever : int = prim::Constant[value=9223372036854775807]()\n"
                           "  %m : int = prim::Loop(%ever, %yes, %ever)\n"
                           "    block0(%i : int, %a : int):\n"
                           "      %b : int = prim::xor.int(%a, %i)\n"
                           "      -> (%yes, %b)\n"
                           "  return (%m, %x)\n";

enum { SIZE = 16, STEPS = 60 };

typedef struct side {
    td_client *c;
    bool calls; /* programs; else the ops that these are made of, one by one */
    td_program *walk, *grow, *idle;
    td_array *p, *x, *y;
    td_request *out[8]; /* asynchronous calls, not waited for */
    int nout;
} side;

static void draw_and_add(const side *s)
{
    td_array *r = td_bernoulli(s->p);
    td_add_(s->x, r);
    td_release(r);
}

static void walks(side *s, int n, bool later)
{
    td_value out, in[] = {td_value_array(s->x), td_value_int(n)};
    if (!s->calls) {
        for (int k = 0; k < n; k++) draw_and_add(s);
    } else if (later && s->nout < 8) {
        s->out[s->nout++] = td_async_call(s->walk, 2, in, -1, NULL, NULL);
    } else {
        CU_ASSERT_EQUAL(td_program_call(s->walk, 2, in, &out), TD_OK);
        td_value_free(&out);
    }
}

static void grows(side *s)
{
    td_value out = {0}, in[] = {td_value_array(s->x)};
    td_array *was = s->y;
    if (s->calls) {
        CU_ASSERT_EQUAL_FATAL(td_program_call(s->grow, 1, in, &out), TD_OK);
        s->y = out.array;
    } else {
        td_array *r = td_bernoulli(s->p), *d = td_mul(r, 2);
        s->y = td_add(d, s->x);
        td_release(r), td_release(d);
    }
    td_release(was);
}

/* One that does not end, stopped by its time or because nobody wants it: as if it had not been. */
static void idles(const side *s, bool cancelled)
{
    td_value out, in[] = {td_value_array(s->x)};
    if (!s->calls) return;
    if (cancelled) {
        td_request *r = td_async_call(s->idle, 1, in, -1, NULL, NULL);
        td_request_cancel(r);
        CU_ASSERT_EQUAL(td_request_result(r), TD_E_CANCELLED);
        td_request_free(r);
        return;
    }
    td_set_program_timeout(2);
    CHECK_FAILS(td_program_call(s->idle, 1, in, &out), TD_E_TIMEOUT, "the program was stopped");
    td_set_program_timeout(0);
}

static void step(side *s, unsigned *seed)
{
    unsigned what = rnd(seed, 9), n = rnd(seed, 5);
    bool later = rnd(seed, 2);
    if (what < 3) walks(s, (int)n, later);
    else if (what < 5) grows(s);
    else if (what == 5) draw_and_add(s);
    else if (what == 6) td_add_(s->x, s->y);
    else if (what == 7) td_mul_(s->y, 0.5);
    else if (n == 0) idles(s, later);
}

static side begin(unsigned seed, bool calls)
{
    side s = {.c = join(), .calls = calls};
    s.p = td_full(s.c, td_dims(SIZE), 0.5, TD_FLOAT64);
    s.x = td_zeros(s.c, td_dims(SIZE), TD_FLOAT64), s.y = td_ones(s.c, td_dims(SIZE), TD_FLOAT64);
    s.walk = read_program(s.c, walk, td_arrays(s.p)), s.grow = read_program(s.c, grow, td_arrays(s.p));
    s.idle = read_program(s.c, idle, NOTHING);
    CU_ASSERT_EQUAL(td_seed(s.c, seed), TD_OK);
    return s;
}

static void end(side *s, double *x, double *y)
{
    CU_ASSERT_EQUAL(td_read(s->x, x, SIZE * sizeof *x), TD_OK);
    CU_ASSERT_EQUAL(td_read(s->y, y, SIZE * sizeof *y), TD_OK);
    while (s->nout) {
        td_request *r = s->out[--s->nout];
        td_value v;
        while (!td_request_done(r)) td_client_dispatch(s->c);
        CU_ASSERT_EQUAL(td_request_value(r, &v), TD_OK);
        td_request_free(r);
    }
    td_program_free(s->walk), td_program_free(s->grow), td_program_free(s->idle);
    td_release(s->p), td_release(s->x), td_release(s->y);
    td_disconnect(s->c);
}

/* Two programs, ops between them, and calls that are stopped: the bits of the same ops one by one, also of what is
 * drawn. */
static void order_of_effects(void)
{
    for (unsigned seed = 1; seed <= 3; seed++) {
        double x[2][SIZE], y[2][SIZE];
        for (int calls = 0; calls < 2; calls++) {
            unsigned drawn = seed;
            side s = begin(seed, calls);
            for (int k = 0; k < STEPS; k++) step(&s, &drawn);
            end(&s, x[calls], y[calls]);
        }
        CU_ASSERT_EQUAL(memcmp(x[0], x[1], sizeof x[0]), 0);
        CU_ASSERT_EQUAL(memcmp(y[0], y[1], sizeof y[0]), 0);
    }
}

/* ---- stopped */

static _Atomic bool stop;

static bool stop_now(void *context)
{
    (void)context;
    return stop;
}

typedef struct caller {
    td_program *program;
    td_array *x;
    int rc;
    pthread_t thread;
} caller;

static void *call_idle(void *context)
{
    caller *k = context;
    td_value out, in[] = {td_value_array(k->x)};
    k->rc = td_program_call(k->program, 1, in, &out);
    return NULL;
}

/* More stands behind the run than the daemon, the socket and a ring take; all of that is done then. */
static void stopped_before_much(void)
{
    enum { MUCH = 12000 };
    td_client *c = join();
    td_array *x = td_zeros(c, td_dims(2), TD_FLOAT32);
    td_program *p = read_program(c, idle, NOTHING);
    for (int times = 0; times < 3; times++) {
        caller k = {.program = p, .x = x};
        CU_ASSERT_EQUAL(td_sync(c), TD_OK);
        stop = false;
        td_set_interrupt(c, stop_now, NULL);
        pthread_create(&k.thread, NULL, call_idle, &k);
        if (times) test_sleep_ms(times * 10);
        for (int i = 0; i < MUCH; i++) CU_ASSERT_EQUAL(td_add_(x, 1), TD_OK);
        stop = true;
        pthread_join(k.thread, NULL);
        CU_ASSERT_EQUAL(k.rc, TD_E_CANCELLED);
        td_set_interrupt(c, NULL, NULL);
        CHECK_VALUES(x, (times + 1.0) * MUCH, (times + 1.0) * MUCH);
    }
    td_program_free(p);
    td_release(x);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_disconnect(c);
}

/* It gives a tensor alone, so nobody is to answer it. */
static const char counts[] = "graph(%x : Tensor, %most : int):\n"
                             "  %one : int = prim::Constant[value=1]()\n"
                             "  %yes : bool = prim::Constant[value=1]()\n"
                             "  %y : Tensor = prim::Loop(%most, %yes, %x)\n"
                             "    block0(%i : int, %z : Tensor):\n"
                             "      %n : Tensor = td::add(%z, %one, %one)\n"
                             "      -> (%yes, %n)\n"
                             "  return (%y)\n";

/* Such a call is stopped by whoever waits behind it. */
static void stopped_by_who_waits_behind(void)
{
    td_client *c = join();
    td_array *x = td_ones(c, td_dims(3), TD_FLOAT32);
    td_program *p = read_program(c, counts, NOTHING);
    td_value out, in[] = {td_value_array(x), td_value_int(INT64_MAX)};
    for (int times = 0; times < 3; times++) {
        CU_ASSERT_EQUAL_FATAL(td_program_call(p, 2, in, &out), TD_OK);
        stop = true;
        td_set_interrupt(c, stop_now, NULL);
        CU_ASSERT_EQUAL(td_sync(c), TD_E_CANCELLED);
        td_set_interrupt(c, NULL, NULL);
        float v[3];
        CU_ASSERT_EQUAL(td_read(out.array, v, sizeof v), TD_E_CANCELLED);
        CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "stopped on request"));
        td_value_free(&out);
    }
    CHECK_VALUES(x, 1, 1, 1);
    td_program_free(p);
    td_release(x);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_disconnect(c);
}

/* It is over when its request is cancelled; what stood before it in the stream comes to its end. */
static void cancelled_alone(void)
{
    td_client *c = join();
    td_array *x = td_ones(c, td_dims(3), TD_FLOAT32);
    td_program *p = read_program(c, counts, NOTHING), *behind = read_program(c, idle, NOTHING);
    td_value out, in[] = {td_value_array(x), td_value_int(20000)};
    for (int times = 0; times < 3; times++) {
        CU_ASSERT_EQUAL_FATAL(td_program_call(p, 2, in, &out), TD_OK);
        td_request *r = td_async_call(behind, 1, in, -1, NULL, NULL);
        td_request_cancel(r);
        CU_ASSERT_EQUAL(td_request_result(r), TD_E_CANCELLED);
        td_request_free(r);
        CHECK_VALUES(out.array, 20001, 20001, 20001);
        td_value_free(&out);
    }
    td_program_free(p), td_program_free(behind);
    td_release(x);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_disconnect(c);
}

/* ---- processes */

/* It gathers tensors, tells so by a write to what others see, and goes on for ever with those of each trip. */
static const char gather[] = "captured %w : Tensor = \"w\"\n"
                             "graph(%x : Tensor):\n"
                             "  %yes : bool = prim::Constant[value=1]()\n"
                             "  %many : int = prim::Constant[value=500]()\n"
                             "  %ever : int = prim::Constant[value=9223372036854775807]()\n"
                             "  %all : Tensor[] = prim::ListConstruct(%x)\n"
                             "  %m : int = prim::Loop(%many, %yes, %ever)\n"
                             "    block0(%i : int, %a : int):\n"
                             "      %y : Tensor = td::neg(%x)\n"
                             "      prim::append(%all, %y)\n"
                             "      -> (%yes, %i)\n"
                             "  %z : Tensor = td::neg_(%w)\n"
                             "  %u : Tensor = prim::Loop(%ever, %yes, %x)\n"
                             "    block0(%j : int, %b : Tensor):\n"
                             "      %v : Tensor = td::neg(%b)\n"
                             "      -> (%yes, %v)\n"
                             "  return (%all, %u)\n";

static void on_signal(int number)
{
    (void)number;
    stop = true;
}

/* Calls it until a signal comes; goes on as if it had not. */
static int child_in_a_program(bool handles)
{
    struct sigaction sa = {.sa_handler = on_signal};
    td_client *c = td_connect(server.socket);
    td_array *x = td_full(c, td_dims(64), 3.0, TD_FLOAT32), *w = td_open(c, "it runs", 0);
    td_program *p = td_program_read(c, gather, td_arrays(w));
    td_value out, in[] = {td_value_array(x)};
    stop = false;
    if (handles && sigaction(SIGINT, &sa, NULL)) return 1;
    td_set_interrupt(c, stop_now, NULL);
    int rc = p ? td_program_call(p, 1, in, &out) : TD_OK;
    td_set_interrupt(c, NULL, NULL);
    if (rc != TD_E_CANCELLED) {
        fprintf(stderr, "a call ended with %d: %s\n", rc, td_last_error()->message);
        return 2;
    }
    td_array *y = td_add(x, 1);
    double v = td_item_f64(td_sum(y));
    return v == 64 * 4 ? 0 : 3;
}

static bool runs(td_array *w)
{
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; test_now_ms() < until; test_sleep_ms(1))
        if (td_item_f64(w) == -1) return true;
    return false;
}

/* A client that is interrupted in a long call, or killed, while others work: what the run had gathered is given back.
 */
static void processes_in_calls(void)
{
    td_client *c = join();
    for (int k = 0; k < 64; k++) td_sync(c); /* it has its ring */
    int64_t tensors = status_at_rest(c, "tensors"), bytes = status_of(c, "bytes_used");
    unsigned seed = 7;
    for (int times = 0; times < 6; times++) {
        bool handles = times % 2;
        td_array *w = td_full(c, td_dims(1), 1.0, TD_FLOAT32), *mine = td_zeros(c, td_dims(4), TD_FLOAT32);
        CU_ASSERT_EQUAL(td_publish(w, "it runs", 0), TD_OK);
        td_array *seen = td_open(c, "it runs", 0);
        CU_ASSERT_EQUAL(td_sync(c), TD_OK);
        pid_t pid = fork();
        if (pid == 0) _exit(child_in_a_program(handles));
        CU_ASSERT_TRUE(runs(seen));
        for (int k = 0; k < 50; k++) td_add_(mine, 1);
        test_sleep_ms((int)rnd(&seed, 40));
        kill(pid, handles ? SIGINT : SIGKILL);
        int status = -1;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        CU_ASSERT_EQUAL(status, handles ? 0 : SIGKILL);
        CHECK_VALUES(mine, 50, 50, 50, 50);
        CU_ASSERT_EQUAL(td_drop(c, "it runs"), TD_OK);
        td_release(w), td_release(seen), td_release(mine);
        td_sync(c);
        CU_ASSERT_TRUE(comes_to(c, "sessions", 1));
        CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
        CU_ASSERT_TRUE(comes_to(c, "bytes_used", bytes));
    }
    td_disconnect(c);
}

/* An error in the middle gives back what was gathered until then, and what stands behind the call is done. */
static void errors_in_the_middle(void)
{
    static const char text[] = "graph(%x : Tensor, %n : int):\n"
                               "  %yes : bool = prim::Constant[value=1]()\n"
                               "  %one : int = prim::Constant[value=1]()\n"
                               "  %all : Tensor[] = prim::ListConstruct(%x)\n"
                               "  %m : int, %sum : int = prim::Loop(%n, %yes, %n, %one)\n"
                               "    block0(%i : int, %k : int, %s : int):\n"
                               "      %y : Tensor = td::neg(%x)\n"
                               "      prim::append(%all, %y)\n"
                               "      %left : int = prim::sub.int(%k, %one)\n"
                               "      %d : int = prim::floordiv.int(%n, %left)\n"
                               "      -> (%yes, %left, %d)\n"
                               "  return (%all, %sum)\n";
    td_client *c = join();
    int64_t tensors = status_at_rest(c, "tensors");
    td_array *x = td_ones(c, td_dims(5), TD_FLOAT32);
    td_program *p = read_program(c, text, NOTHING);
    for (int n = 1; n < 200; n += 40) {
        td_value out, in[] = {td_value_array(x), td_value_int(n)};
        td_clear_error();
        CU_ASSERT_NOT_EQUAL(td_program_call(p, 2, in, &out), TD_OK);
        CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "zero"));
        td_array *y = td_neg(x);
        CHECK_VALUES(y, -1, -1, -1, -1, -1);
        td_release(y);
        td_sync(c);
        CU_ASSERT_TRUE(comes_to(c, "tensors", tensors + 1));
    }
    td_program_free(p);
    td_release(x);
    td_sync(c);
    CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    td_disconnect(c);
}

/* ---- questions that were not sent */

/* A call of more tensors than a record takes is not asked, and no answer is waited for: what was made ready for one is
 * free again. */
static void calls_that_are_not_sent(void)
{
    enum { TOO_MANY = 5000 };
    static const char text[] = "graph(%l : Tensor[]):\n"
                               "  %n : int = prim::len.list(%l)\n"
                               "  return (%l, %n)\n";
    td_client *c = join();
    td_program *p = read_program(c, text, NOTHING);
    td_array *x = td_ones(c, td_dims(1), TD_FLOAT32);
    td_value *many = calloc(TOO_MANY, sizeof *many);
    for (int k = 0; k < TOO_MANY; k++) many[k] = td_value_array(x);
    td_value out, in[] = {{.kind = TD_VALUE_LIST, .n = TOO_MANY, .items = many}};
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    uint64_t handles = c->handles;
    for (int times = 0; times < 3; times++) {
        CHECK_FAILS(td_program_call(p, 1, in, &out), TD_E_INVALID, "at most 4095");
        CU_ASSERT_EQUAL(out.kind, TD_VALUE_NONE);
        td_request *r = td_async_call(p, 1, in, -1, NULL, NULL);
        CU_ASSERT_TRUE(td_request_done(r));
        CHECK_FAILS(td_request_result(r), TD_E_INVALID, "at most 4095");
        td_request_free(r);
        CU_ASSERT_EQUAL(td_sync(c), TD_OK);
        CU_ASSERT_PTR_NULL(c->due.first);
        CU_ASSERT_EQUAL(c->due.ngiven_up, 0);
        CU_ASSERT_EQUAL(c->handles, handles);
    }
    const int wrong[] = {-1, TD_IR_MAX_ENDS + 1, 1};
    for (int k = 0; k < 3; k++) {
        CHECK_FAILS(td_program_call(p, wrong[k], k < 2 ? many : NULL, &out), TD_E_INVALID, "arguments; from 0 to");
        CHECK_FAILS(td_async_call(p, wrong[k], k < 2 ? many : NULL, -1, NULL, NULL) ? TD_OK : TD_E_INVALID,
                    TD_E_INVALID, "arguments; from 0 to");
    }
    in[0].n = 10;
    CU_ASSERT_EQUAL(td_program_call(p, 1, in, &out), TD_OK);
    CU_ASSERT_TRUE(out.items[1].i == 10);
    td_value_free(&out);
    free(many);
    td_program_free(p);
    td_release(x);
    td_disconnect(c);
}

/* Neither does a request whose descriptor finds no room beside those that are not sent yet. */
static void requests_that_are_not_sent(void)
{
    enum { ROOM = 16 };
    td_client *c = join();
    td_reply_wait w[ROOM + 1] = {{0}};
    Td__Wire__NameLook q = TD__WIRE__NAME_LOOK__INIT;
    q.name = (char *)"none";
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    td_lock(c);
    uint64_t handles = c->handles;
    for (int k = 0; k <= ROOM; k++) {
        Td__Wire__Call call = TD__WIRE__CALL__INIT;
        call.name_look = &q;
        CU_ASSERT_EQUAL(td_ask_later(c, &call, dup(c->socket), &w[k]), k < ROOM ? TD_OK : TD_E_BUSY);
    }
    CU_ASSERT_TRUE(w[ROOM].serial == 0 && w[ROOM].done && w[ROOM].code == TD_E_BUSY);
    CU_ASSERT_PTR_EQUAL(c->due.last, &w[ROOM - 1]);
    td_array *never = td_array_new(c);
    td_abandon(c, &w[ROOM], 1, &never);
    CU_ASSERT_PTR_EQUAL(c->due.last, &w[ROOM - 1]);
    CU_ASSERT_EQUAL(c->handles, handles);
    CU_ASSERT_EQUAL(td_await(c, &w[ROOM], "name"), TD_E_BUSY); /* at once */
    td_lose(c, TD_E_LOST, "the test says so");                 /* the others never go out */
    td_unlock(c);
    for (int k = 0; k < ROOM; k++) CU_ASSERT_TRUE(w[k].done && w[k].code == TD_E_LOST);
    td_clear_error();
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_calls", start_server, stop_server, {"order of effects", order_of_effects},
                   {"stopped before much", stopped_before_much},
                   {"stopped by who waits behind", stopped_by_who_waits_behind}, {"cancelled alone", cancelled_alone},
                   {"processes in calls", processes_in_calls}, {"errors in the middle", errors_in_the_middle},
                   {"calls that are not sent", calls_that_are_not_sent},
                   {"requests that are not sent", requests_that_are_not_sent})
