/* Calls about models that no client of ours would make: numbers that are none, ids that are taken, sizes that lie,
 * versions that are never ready, and clients that end in the middle of all that. After each test the daemon holds what
 * it held before; while one runs, others are answered. */
#include "proto/program/values.h"
#include "tests/hostile/counted.h"
#include "tests/hostile/packed.h"
#include "tests/hostile/stops.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>
#include <string.h>

static int start(void)
{
    static const char *const options[] = {"--memory", "96M", "--workers", "2", "--session-objects", "20000", NULL};
    return test_daemon_start(&d, options) && raw_count(d.socket, base) ? 0 : 1;
}

static unsigned seed = 1;
static unsigned rnd(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static const char negates[] = "graph(%x : Tensor):\n"
                              "  %y : Tensor = td::neg(%x)\n"
                              "  return (%y)\n";
static const char gives_a_number[] = "graph(%x : Tensor):\n"
                                     "  %n : int = prim::Constant[value=3]()\n"
                                     "  return (%n)\n";
static const char for_ever[] = "graph(%x : Tensor):\n"
                               "  %yes : bool = prim::Constant[value=1]()\n"
                               "  %ever : int = prim::Constant[value=9223372036854775807]()\n"
                               "  %m : int = prim::Loop(%ever, %yes, %ever)\n"
                               "    block0(%i : int, %a : int):\n"
                               "      %b : int = prim::xor.int(%a, %i)\n"
                               "      -> (%yes, %b)\n"
                               "  %y : Tensor = td::mul(%x, %m)\n"
                               "  return (%y)\n";

static uint32_t program(raw *r, uint32_t id, const char *text)
{
    size_t n;
    uint8_t *bytes = packed(text, &n);
    Td__Wire__Call c;
    Td__Wire__ProgramNew q;
    td__wire__call__init(&c);
    td__wire__program_new__init(&q);
    q.program = id, q.ir.data = bytes, q.ir.len = n;
    c.program_new = &q;
    uint32_t code = ask(r, &c);
    free(bytes);
    return code;
}

static uint32_t model_publish(raw *r, const char *name, uint32_t id, uint32_t program_id, size_t card, uint32_t version,
                              uint32_t flags)
{
    Td__Wire__Call c;
    Td__Wire__ModelPublish q;
    td__wire__call__init(&c);
    td__wire__model_publish__init(&q);
    char *text = calloc(1, card + 1);
    q.name = (char *)name, q.model = id, q.program = program_id, q.version = version, q.flags = flags;
    q.card.data = (uint8_t *)text, q.card.len = card;
    c.model_publish = &q;
    uint32_t code = ask(r, &c);
    free(text);
    return code;
}

/* `in` and `out` of so many, all of them `dim`. */
static uint32_t model_ready(raw *r, uint32_t id, size_t nin, size_t nout, int32_t dim, size_t nsizes, uint32_t *sizes,
                            uint32_t queue, uint32_t instances)
{
    Td__Wire__Call c;
    Td__Wire__ModelReady q;
    td__wire__call__init(&c);
    td__wire__model_ready__init(&q);
    q.by_look = true;
    int32_t dims[1024];
    for (int k = 0; k < 1024; k++) dims[k] = dim;
    q.model = id, q.n_in = nin, q.in = dims, q.n_out = nout, q.out = dims, q.n_sizes = nsizes, q.sizes = sizes;
    q.queue = queue, q.instances = instances;
    c.model_ready = &q;
    return ask(r, &c);
}

/* Its requests wait for others, for hours. */
static uint32_t ready_with_delay(raw *r, uint32_t id, uint32_t rows)
{
    Td__Wire__Call c;
    Td__Wire__ModelReady q;
    td__wire__call__init(&c);
    td__wire__model_ready__init(&q);
    q.by_look = true;
    int32_t first = 0;
    q.model = id, q.n_in = q.n_out = 1, q.in = q.out = &first, q.n_sizes = 1, q.sizes = &rows, q.delay_us = UINT32_MAX;
    c.model_ready = &q;
    return ask(r, &c);
}

static void say_infer(raw *r, Td__Wire__Call *c, Td__Wire__Infer *q, uint32_t id, size_t nin, uint32_t *in, size_t nout,
                      uint32_t *out, uint64_t us, int32_t priority)
{
    (void)r;
    td__wire__call__init(c);
    td__wire__infer__init(q);
    q->model = id, q->n_in = nin, q->in = in, q->n_out = nout, q->out = out, q->timeout_us = us, q->priority = priority;
    c->infer = q;
}

static uint32_t infer(raw *r, uint32_t id, size_t nin, uint32_t *in, size_t nout, uint32_t *out)
{
    Td__Wire__Call c;
    Td__Wire__Infer q;
    say_infer(r, &c, &q, id, nin, in, nout, out, UINT64_MAX, 0);
    return ask(r, &c);
}

static void infer_without_waiting(raw *r, uint32_t id, uint32_t in, uint32_t out, uint64_t us, int32_t priority)
{
    Td__Wire__Call c;
    Td__Wire__Infer q;
    say_infer(r, &c, &q, id, 1, &in, 1, &out, us, priority);
    raw_call(r, &c);
}

static uint32_t by_name(raw *r, int what, const char *name, uint32_t number)
{
    Td__Wire__Call c;
    Td__Wire__ModelServe serve;
    Td__Wire__ModelRetire retire;
    Td__Wire__ModelClose close;
    td__wire__call__init(&c);
    td__wire__model_serve__init(&serve);
    td__wire__model_retire__init(&retire);
    td__wire__model_close__init(&close);
    serve.name = retire.name = (char *)name;
    serve.version = retire.version = close.model = number;
    if (what == 0) c.model_serve = &serve;
    else if (what == 1) c.model_retire = &retire;
    else c.model_close = &close;
    return ask(r, &c);
}

static uint32_t model_open(raw *r, const char *name, uint32_t id, uint32_t version)
{
    Td__Wire__Call c;
    Td__Wire__ModelOpen q;
    td__wire__call__init(&c);
    td__wire__model_open__init(&q);
    q.name = (char *)name, q.model = id, q.version = version;
    c.model_open = &q;
    return ask(r, &c);
}

static void one_is_served(raw *r, const char *name, const char *text)
{
    uint32_t sizes[] = {1, 2, 4};
    CU_ASSERT_EQUAL_FATAL(program(r, 1, text), TD_OK);
    CU_ASSERT_EQUAL_FATAL(model_publish(r, name, 1, 1, 16, 0, 0), TD_OK);
    CU_ASSERT_EQUAL_FATAL(model_ready(r, 1, 1, 1, 0, 3, sizes, 0, 0), TD_OK);
}

/* The connection ends, and nothing of it stays. */
static void leave_nothing(raw *r)
{
    raw_close(r);
    CU_ASSERT_TRUE(raw_count_again(d.socket, base));
}

static void numbers_that_are_none(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    uint32_t one = 1, two = 2, many[1024], few[] = {1, 2}, falling[] = {4, 2}, huge[] = {1, 100000};
    for (int k = 0; k < 1024; k++) many[k] = 100 + (uint32_t)k;
    CU_ASSERT_TRUE(raw_zeros(&r, 1, 4));
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 1, &two), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 1, 9, 0, 0, 0), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(program(&r, 1, negates), TD_OK);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 0, 1, 0, 0, 0), TD_E_EXISTS);
    CU_ASSERT_EQUAL(model_publish(&r, "", 1, 1, 0, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_publish(&r, "a\nb", 1, 1, 0, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 1, 1, (64 << 10) + 1, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 1, 1, 0, (uint32_t)INT32_MAX + 1, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 1, 1, 0, UINT32_MAX, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 1, 1, 64 << 10, INT32_MAX, UINT32_MAX), TD_OK);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 1, 1, 0, 0, 0), TD_E_EXISTS); /* the number */
    CU_ASSERT_EQUAL(model_ready(&r, 1, 0, 1, 0, 0, NULL, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1000, 1, 0, 0, NULL, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1000, 0, 0, NULL, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 0, 1000, many, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 0, 2, falling, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 0, 2, huge, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 0, 2, few, UINT32_MAX, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 0, 2, few, 0, UINT32_MAX), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_ready(&r, 2, 1, 1, 0, 2, few, 0, 0), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, INT32_MIN, 2, few, 1, 16), TD_OK);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 0, 2, few, 0, 0), TD_E_INVALID); /* it is */
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &two, 1, &two), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 1, &one), TD_E_EXISTS);
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 0, NULL), TD_E_INVALID);
    CU_ASSERT_EQUAL(infer(&r, 1, 2, (uint32_t[]){1, 1}, 1, &two), TD_E_INVALID);
    CU_ASSERT_EQUAL(infer(&r, 1, 0, NULL, 1, &two), TD_E_INVALID);
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 1000, many), TD_E_INVALID);
    CU_ASSERT_EQUAL(infer(&r, 1, 1000, many, 1, &two), TD_E_INVALID);
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 2, (uint32_t[]){3, 3}), TD_OK); /* one comes, and has the first */
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 1, &two), TD_OK);
    CU_ASSERT_EQUAL(model_open(&r, "m", 2, 7), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(model_open(&r, "m", 1, 0), TD_E_EXISTS);
    CU_ASSERT_EQUAL(model_open(&r, "m", 0, 0), TD_E_EXISTS);
    CU_ASSERT_EQUAL(by_name(&r, 0, "m", 7), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(by_name(&r, 1, "n", 0), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(by_name(&r, 2, NULL, 7), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(by_name(&r, 1, "m", INT32_MAX), TD_OK);
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 1, (uint32_t[]){4}), TD_E_NOT_FOUND);
    leave_nothing(&r);
}

/* As many as a session may have open, and one more; what could not be opened leaves its number free. */
static void as_many_as_may_be_open(void)
{
    enum { MANY = 4096 };
    raw r;
    uint32_t around[] = {UINT16_MAX + 1 + 4}, sizes[16];
    for (uint32_t k = 0; k < 16; k++) sizes[k] = k + 1;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    CU_ASSERT_EQUAL(program(&r, 1, negates), TD_OK);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 1, 1, 0, 0, 0), TD_OK);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 0, 1, around, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 0, 16, sizes, 0, 0), TD_OK);
    CU_ASSERT_EQUAL(model_open(&r, "nobody", 2, 0), TD_E_NOT_FOUND);
    for (uint32_t k = 2; k <= MANY; k++) CU_ASSERT_EQUAL_FATAL(model_open(&r, "m", k, 0), TD_OK);
    CU_ASSERT_EQUAL(model_open(&r, "m", MANY + 1, 0), TD_E_QUOTA);
    CU_ASSERT_EQUAL(by_name(&r, 2, NULL, 7), TD_OK);
    CU_ASSERT_EQUAL(model_open(&r, "m", MANY + 1, 0), TD_OK);
    CU_ASSERT_EQUAL(by_name(&r, 1, "m", 0), TD_OK);
    leave_nothing(&r);
}

/* What it is said to be it is not. */
static void models_that_lie(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    one_is_served(&r, "lies", gives_a_number);
    uint32_t one = 1, two = 2;
    CU_ASSERT_TRUE(raw_zeros(&r, 1, 4));
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 1, &two), TD_E_TYPE);
    CU_ASSERT_EQUAL(by_name(&r, 1, "lies", 0), TD_OK);
    raw_close(&r);
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    uint32_t sizes[] = {1, 1024};
    CU_ASSERT_EQUAL(program(&r, 1, negates), TD_OK);
    CU_ASSERT_EQUAL(model_publish(&r, "rows", 1, 1, 0, 0, 0), TD_OK);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 5, 2, sizes, 0, 0), TD_OK); /* rows in a dimension that is not there */
    CU_ASSERT_TRUE(raw_zeros(&r, 1, 4));
    for (uint32_t k = 0; k < 20; k++) infer_without_waiting(&r, 1, 1, 10 + k, UINT64_MAX, 0);
    uint32_t code;
    CU_ASSERT_TRUE(raw_sync(&r, &code));
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 1, (uint32_t[]){99}), TD_OK);
    CU_ASSERT_EQUAL(by_name(&r, 1, "rows", 0), TD_OK);
    leave_nothing(&r);
}

/* Whoever asks one that never ends holds up nobody but who waits for that model. */
static void one_without_an_end(void)
{
    raw r, other;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket) && raw_open(&other, d.socket));
    one_is_served(&r, "endless", for_ever);
    one_is_served(&other, "ends", negates);
    uint32_t one = 1;
    CU_ASSERT_TRUE(raw_zeros(&r, 1, 4) && raw_zeros(&other, 1, 4));
    for (uint32_t k = 0; k < 100; k++)
        infer_without_waiting(&r, 1, 1, 10 + k, k % 3 ? UINT64_MAX : 1000 * k, (int32_t)k - 50);
    for (uint32_t k = 0; k < 50; k++) CU_ASSERT_EQUAL(infer(&other, 1, 1, &one, 1, (uint32_t[]){10 + k}), TD_OK);
    raw_close(&r); /* the run ends with the last who waits for it */
    CU_ASSERT_EQUAL(by_name(&other, 1, "endless", 0), TD_OK);
    CU_ASSERT_EQUAL(by_name(&other, 1, "ends", 0), TD_OK);
    leave_nothing(&other);
}

/* A list of lists of lists, of which each has one list a hundred times: ten thousand million are in it, and no tensor.
 */
static void lists_in_lists(void)
{
    enum { DEEP = 5, WIDE = 100 };
    static char text[16384];
    size_t n = (size_t)sprintf(text, "graph(%%x : Tensor):\n  %%l0 : Tensor[] = prim::ListConstruct()\n");
    for (int k = 1; k <= DEEP; k++) {
        n += (size_t)sprintf(text + n, "  %%l%d : Tensor[]", k);
        for (int j = 0; j < k; j++) n += (size_t)sprintf(text + n, "[]");
        n += (size_t)sprintf(text + n, " = prim::ListConstruct(");
        for (int j = 0; j < WIDE; j++) n += (size_t)sprintf(text + n, "%s%%l%d", j ? ", " : "", k - 1);
        n += (size_t)sprintf(text + n, ")\n");
    }
    sprintf(text + n, "  return (%%l%d)\n", DEEP);
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    one_is_served(&r, "lists", text);
    uint32_t one = 1, two = 2;
    CU_ASSERT_TRUE(raw_zeros(&r, 1, 4));
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 1, &two), TD_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(by_name(&r, 1, "lists", 0), TD_OK);
    leave_nothing(&r);
}

/* The inputs of one request may be larger than what may wait otherwise. */
static void larger_than_what_may_wait(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    one_is_served(&r, "m", negates);
    td_words w = {0};
    uint32_t one = 1, two = 2, code;
    full(&w, 1, 4 << 20, 0); /* 16 MiB; an eighth of 96 may wait */
    CU_ASSERT_TRUE(send_all(&r, &w) && raw_sync(&r, &code));
    CU_ASSERT_EQUAL(infer(&r, 1, 1, &one, 1, &two), TD_OK);
    CU_ASSERT_EQUAL(by_name(&r, 1, "m", 0), TD_OK);
    leave_nothing(&r);
}

/* Behind the last number there is none: whoever wants one says which. */
static void the_last_number(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    CU_ASSERT_EQUAL(program(&r, 1, negates), TD_OK);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 1, 1, 0, INT32_MAX - 1, 2), TD_OK);
    CU_ASSERT_EQUAL(model_ready(&r, 1, 1, 1, 0, 0, NULL, 0, 0), TD_OK);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 2, 1, 0, 0, 2), TD_OK);
    CU_ASSERT_EQUAL(model_ready(&r, 2, 1, 1, 0, 0, NULL, 0, 0), TD_OK);
    CU_ASSERT_EQUAL(model_open(&r, "m", 3, INT32_MAX), TD_OK);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 4, 1, 0, 0, 2), TD_E_QUOTA);
    CU_ASSERT_EQUAL(model_publish(&r, "m", 4, 1, 0, 7, 2), TD_OK);
    CU_ASSERT_EQUAL(model_ready(&r, 4, 1, 1, 0, 0, NULL, 0, 0), TD_OK);
    CU_ASSERT_EQUAL(by_name(&r, 1, "m", 0), TD_OK);
    leave_nothing(&r);
}

/* One that retires waits for nobody, though it has a delay. */
static void retires_at_once(void)
{
    enum { MANY = 100 };
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    one_is_served(&r, "m", negates);
    CU_ASSERT_TRUE(raw_zeros(&r, 1, 1));
    CU_ASSERT_EQUAL(model_publish(&r, "m", 3, 1, 0, 0, 0), TD_OK);
    CU_ASSERT_EQUAL(ready_with_delay(&r, 3, 1024), TD_OK);
    CU_ASSERT_EQUAL(model_open(&r, "m", 4, 0), TD_OK);
    for (uint32_t k = 0; k < MANY; k++) infer_without_waiting(&r, 4, 1, 2000 + k, UINT64_MAX, 0);
    Td__Wire__Call c;
    Td__Wire__ModelRetire retire;
    td__wire__call__init(&c);
    td__wire__model_retire__init(&retire);
    retire.name = "m";
    c.model_retire = &retire;
    raw_call(&r, &c);
    int came = 0;
    while (came < MANY + 1 && raw_reply(&r, 60000)) came++;
    CU_ASSERT_EQUAL(came, MANY + 1); /* all of them, and that of the retired name */
    leave_nothing(&r);
}

/* Connections that end whenever it is, and do whatever comes next. */
static void any_order_and_any_end(void)
{
    static const char *const texts[] = {negates, gives_a_number, for_ever}, *const names[] = {"a", "b", "c"};
    raw keeper;
    CU_ASSERT_TRUE_FATAL(raw_open(&keeper, d.socket));
    for (int round = 0; round < 60; round++) {
        raw r;
        CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
        raw_zeros(&r, 1, 4);
        program(&r, 1, texts[rnd(2)]);
        for (unsigned k = rnd(30); k; k--) {
            const char *name = names[rnd(3)];
            uint32_t id = 1 + rnd(4), sizes[] = {1, 2, 4};
            switch (rnd(8)) {
            case 0: model_publish(&r, name, id, 1, rnd(2000), rnd(4), rnd(8)); break;
            case 1: model_ready(&r, id, 1, 1, (int32_t)rnd(3) - 1, rnd(4), sizes, rnd(3), rnd(3)); break;
            case 2: model_open(&r, name, id, rnd(3)); break;
            case 3: by_name(&r, 2, NULL, id); break;
            case 4: by_name(&r, (int)rnd(2), name, rnd(4)); break;
            default:
                infer_without_waiting(&r, id, 1, 10 + rnd(2000), rnd(2) ? UINT64_MAX : rnd(3000), (int32_t)rnd(5));
                break;
            }
        }
        raw_close(&r);
        CU_ASSERT_TRUE(raw_status(&keeper, "sessions") >= 1);
    }
    for (int k = 0; k < 3; k++) by_name(&keeper, 1, names[k], 0);
    raw_close(&keeper);
    CU_ASSERT_TRUE(raw_count_again(d.socket, base));
}

TD_CUNIT_MAIN_WITH("hostile_models", start, stop, {"numbers that are none", numbers_that_are_none},
                   {"as many as may be open", as_many_as_may_be_open}, {"models that lie", models_that_lie},
                   {"one without an end", one_without_an_end}, {"lists in lists", lists_in_lists},
                   {"larger than what may wait", larger_than_what_may_wait}, {"the last number", the_last_number},
                   {"retires at once", retires_at_once}, {"any order and any end", any_order_and_any_end})
