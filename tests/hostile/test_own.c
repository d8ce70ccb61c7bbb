/* The daemon's own memory: what clients can make it grow by, of each kind (records of tensors, nodes of graphs,
 * functions, failures, call sites, programs, tasks that wait, items, names), is counted in bytes,
 * bounded for all of them together, refused by an error that says who holds it, and comes back.
 *
 * The daemon of this suite may have little, but for one in a memory group that leaves all limits to it. Sessions take
 * what they can get of a kind; what the process really has must be no more than what is counted, by and large. */
#include "tests/hostile/cgroup.h"
#include "tests/hostile/counted.h"
#include "tests/hostile/packed.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <signal.h>
#include <stdlib.h>

enum { OWN_MB = 64, RECORDS_MB = OWN_MB / 2, MANY = 4 << 10, SESSIONS = 6, ROUNDS = 400 };

static int start(void)
{
    static const char *const options[] = {"--memory", "256M", "--workers", "1", "--own-memory", "64M", NULL};
    return test_daemon_start(&d, options) && raw_count(d.socket, base) ? 0 : 1;
}

/* ---- kinds: some more of each; false: refused */

typedef struct taker {
    raw r;
    uint32_t n; /* rounds */
    char why[512];
} taker;

/* The code of the first failure, whose words are kept. */
static uint32_t sync_code(taker *t, td_words *w)
{
    uint32_t rest[2];
    uint64_t serial = ++t->r.serial;
    td_words_put_u64(rest, serial);
    control(w, TD_REC_SYNC, 0, 0, NULL, 0, NULL, 2, rest);
    if (!send_all(&t->r, w)) return TD_E_LOST;
    for (Td__Wire__Reply *x; (x = raw_reply(&t->r, TEST_LONG_MS));) {
        if (x->serial != serial) continue;
        if (x->error) snprintf(t->why, sizeof t->why, "%s", x->error->message);
        return x->error ? x->error->code : TD_OK;
    }
    return TD_E_LOST;
}

static uint32_t id_of(const taker *t, uint32_t i)
{
    return 16 + t->n * MANY + i;
}

static uint32_t more_tensors(taker *t)
{
    td_words w = {0};
    for (uint32_t i = 0; i < MANY; i++) full(&w, id_of(t, i), 1, 0);
    return sync_code(t, &w);
}

static uint32_t more_views(taker *t)
{
    td_words w = {0};
    if (!t->n) full(&w, 1, 1, 0);
    for (uint32_t i = 0; i < MANY; i++)
        control(&w, TD_REC_DATA_OF, 0, 1, (uint32_t[]){1}, 1, (uint32_t[]){id_of(t, i)}, 0, NULL);
    return sync_code(t, &w);
}

static uint32_t more_leaves(taker *t)
{
    td_words w = {0};
    for (uint32_t i = 0; i < MANY; i++) full(&w, id_of(t, i), 1, 0), requires_grad(&w, id_of(t, i), 1);
    return sync_code(t, &w);
}

static uint32_t more_nodes(taker *t)
{
    td_words w = {0};
    if (!t->n) full(&w, 1, 1, 0), requires_grad(&w, 1, 1);
    for (uint32_t i = 0; i < MANY; i++) op2(&w, TD_OP_MUL, 1, 1, id_of(t, i));
    return sync_code(t, &w);
}

static uint32_t more_functions(taker *t)
{
    td_words w = {0};
    static const char name[] = "of_a_program";
    uint32_t rest[16] = {0, 1, 1, 0, 0, sizeof name};
    memcpy(rest + 6, name, sizeof name);
    if (!t->n) full(&w, 1, 1, 0), requires_grad(&w, 1, 1);
    for (uint32_t i = 0; i < MANY; i++) {
        rest[0] = id_of(t, i);
        full(&w, id_of(t, i), 1, 0);
        control(&w, TD_REC_FUNCTION, 0, 2, (uint32_t[]){1, id_of(t, i)}, 0, NULL, 10, rest);
    }
    return sync_code(t, &w);
}

static uint32_t more_failures(taker *t)
{
    td_words w = {0};
    if (!t->n) full(&w, 1, 2, 0), full(&w, 2, 3, 0);
    for (uint32_t i = 0; i < MANY; i++) op2(&w, TD_OP_MUL, 1, 2, id_of(t, i));
    uint32_t code = sync_code(t, &w);
    return code == TD_E_LOST ? code : strstr(t->why, "own memory") ? TD_E_QUOTA : TD_OK;
}

/* Texts of places; without room for one an error will not say where, which is all that follows. */
static uint32_t more_sites(taker *t)
{
    enum { AT_ONCE = 512 };
    Td__Wire__Batch b = TD__WIRE__BATCH__INIT;
    Td__Wire__CallSite site[AT_ONCE], *sites[AT_ONCE];
    static char text[] = "a_rather_long_name_of_a_file_in_a_deep_directory_of_somebody.py:12345 in a_function_of_it";
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        td__wire__call_site__init(&site[i]);
        site[i].id = 1 + t->n * AT_ONCE + i;
        site[i].text = text;
        sites[i] = &site[i];
    }
    b.sites = sites, b.n_sites = AT_ONCE;
    size_t n = td__wire__batch__get_packed_size(&b);
    uint8_t *bytes = malloc(n);
    td__wire__batch__pack(&b, bytes);
    bool ok = raw_frame(&t->r, TD_FRAME_BATCH, bytes, n);
    free(bytes);
    td_words w = {0};
    uint32_t code = sync_code(t, &w);
    return !ok ? TD_E_LOST : t->n + 2 >= 65536 / AT_ONCE ? TD_E_QUOTA : code;
}

/* Functions that call the next one twice: 2 KB, which stand for thousands of nodes. */
static char *doubling(void)
{
    enum { DEEP = 12 };
    static char text[1 << 12];
    size_t at = (size_t)sprintf(text, "graph(%%x : Tensor):\n  %%y : Tensor = fn::f0(%%x)\n  return (%%y)\n");
    for (int i = 0; i < DEEP; i++)
        at += (size_t)sprintf(text + at,
                              "fn f%d(%%x : Tensor):\n  %%a : Tensor = fn::f%d(%%x)\n"
                              "  %%b : Tensor = fn::f%d(%%a)\n  return (%%b)\n",
                              i, i + 1, i + 1);
    sprintf(text + at, "fn f%d(%%x : Tensor):\n  %%a : Tensor = td::mul(%%x, %%x)\n  return (%%a)\n", DEEP);
    return text;
}

/* One of 4 KB, of small nodes. */
static uint8_t *a_program(size_t *n)
{
    enum { NODES = 190 };
    static char text[1 << 16];
    size_t at = (size_t)sprintf(text, "graph(%%x : Tensor):\n");
    for (int i = 0; i < NODES; i++)
        at += (size_t)sprintf(text + at,
                              i ? "  %%v%d : Tensor = td::mul(%%v%d, %%x)\n" : "  %%v%d : Tensor = td::mul(%%x, %%x)\n",
                              i, i - 1);
    sprintf(text + at, "  return (%%v%d)\n", NODES - 1);
    return packed(text, n);
}

static uint32_t call_code(taker *t, Td__Wire__Call *c)
{
    Td__Wire__Reply *x = raw_ask(&t->r, c);
    if (x && x->error) snprintf(t->why, sizeof t->why, "%s", x->error->message);
    return !x ? TD_E_LOST : x->error ? x->error->code : TD_OK;
}

enum { PROGRAMS_AT_ONCE = 32 };

/* Takes the bytes. */
static uint32_t send_programs(taker *t, uint8_t *bytes, size_t n)
{
    uint32_t code = TD_OK;
    for (uint32_t i = 0; i < PROGRAMS_AT_ONCE && !code; i++) {
        Td__Wire__Call c = TD__WIRE__CALL__INIT;
        Td__Wire__ProgramNew q = TD__WIRE__PROGRAM_NEW__INIT;
        q.program = 1 + t->n * PROGRAMS_AT_ONCE + i, q.ir.data = bytes, q.ir.len = n;
        c.program_new = &q;
        code = call_code(t, &c);
    }
    free(bytes);
    return code;
}

static uint32_t more_programs(taker *t)
{
    size_t n;
    uint8_t *bytes = a_program(&n);
    return send_programs(t, bytes, n);
}

static uint32_t more_doubling(taker *t)
{
    size_t n;
    uint8_t *bytes = packed(doubling(), &n);
    return send_programs(t, bytes, n);
}

/* 16 MB of shared memory, written. */
static uint32_t more_bytes(taker *t)
{
    enum { EACH = 4 };
    td_words w = {0};
    for (uint32_t i = 0; i < EACH; i++) full(&w, 16 + t->n * EACH + i, 1 << 20, 0);
    return sync_code(t, &w);
}

static uint32_t more_items(taker *t)
{
    enum { AT_ONCE = 256 };
    char name[32];
    uint32_t code = TD_OK;
    snprintf(name, sizeof name, "items %u", t->r.session);
    if (!t->n) {
        raw_zeros(&t->r, 1, 1);
        code = queue_open(&t->r, name, 1, 1 << 20);
    }
    for (uint32_t i = 0; i < AT_ONCE && !code; i++) {
        Td__Wire__Call c = TD__WIRE__CALL__INIT;
        Td__Wire__QueuePut q = TD__WIRE__QUEUE_PUT__INIT;
        q.queue = 1, q.n_ids = 1, q.ids = (uint32_t[]){1};
        c.queue_put = &q;
        code = call_code(t, &c);
    }
    return code;
}

static uint32_t more_names(taker *t)
{
    enum { AT_ONCE = 256 };
    uint32_t code = TD_OK;
    if (!t->n) raw_zeros(&t->r, 1, 1);
    for (uint32_t i = 0; i < AT_ONCE && !code; i++) {
        char name[64];
        snprintf(name, sizeof name, "name %u of %u", t->n * AT_ONCE + i, t->r.session);
        Td__Wire__Call c = TD__WIRE__CALL__INIT;
        Td__Wire__Publish p = TD__WIRE__PUBLISH__INIT;
        p.name = name, p.id = 1, p.lasts_ms = 1000, p.lend = true; /* it goes with its session */
        c.publish = &p;
        code = call_code(t, &c);
    }
    return code;
}

typedef struct kind {
    const char *name;
    uint32_t (*more)(taker *);
} kind;
static const kind kinds[] = {{"tensors", more_tensors},  {"views", more_views},         {"leaves", more_leaves},
                             {"nodes", more_nodes},      {"functions", more_functions}, {"failures", more_failures},
                             {"call sites", more_sites}, {"programs", more_programs},   {"items", more_items},
                             {"names", more_names}};

/* ---- what holds for each of them */

/* What was let go of comes back in parts. */
static bool comes_back_to(raw *look, int64_t own)
{
    uint64_t until = test_now_ms() + TEST_LONG_MS;
    int64_t now;
    while ((now = raw_status(look, "bytes_own")) > own && test_now_ms() < until) test_sleep_ms(5);
    if (now > own) printf("\n    bytes_own: %lld before, %lld after", (long long)own, (long long)now);
    return now <= own;
}

/* Others go on with what they have. */
static bool goes_on(raw *r)
{
    td_words w = {0};
    op_with(&w, TD_OP_ADD, TD_RF_OUT, NULL, 2, (uint32_t[]){1, 1}, 1, (uint32_t[]){1});
    return code_of(r, &w) == TD_OK;
}

static void take_all(const kind *k)
{
    static taker t[SESSIONS];
    raw look;
    CU_ASSERT_EQUAL_FATAL(start(), 0); /* malloc keeps what another kind has let go of */
    CU_ASSERT_TRUE_FATAL(raw_open(&look, d.socket) && raw_zeros(&look, 1, 4) && goes_on(&look));
    int64_t before = raw_status(&look, "bytes_own");
    long anon = resident_kb("RssAnon");
    for (int i = 0; i < SESSIONS; i++) {
        t[i] = (taker){0};
        CU_ASSERT_TRUE_FATAL(raw_open(&t[i].r, d.socket)); /* also when the others have all of it */
        uint32_t code = TD_OK;
        for (; !code && t[i].n < ROUNDS; t[i].n++) code = k->more(&t[i]);
        CU_ASSERT_EQUAL(code, TD_E_QUOTA);
        CU_ASSERT_TRUE(goes_on(&look));
    }
    const char *why = t[SESSIONS - 1].why;
    CU_ASSERT_TRUE(!why[0] || (strstr(why, "--own-memory") && strstr(why, "biggest holders: ")));
    double own = (double)(raw_status(&look, "bytes_own") - before) / (1 << 20);
    double real = (double)(resident_kb("RssAnon") - anon) / (1 << 10);
    printf("\n    %s: %.1f MB are counted, %.1f MB taken", k->name, own, real);
    CU_ASSERT_TRUE(own > RECORDS_MB * 0.9 && own < RECORDS_MB + 4);
    CU_ASSERT_TRUE(!REAL || real < OWN_MB);
    for (int i = 0; i < SESSIONS; i++) raw_close(&t[i].r);
    CU_ASSERT_TRUE(comes_back_to(&look, before));
    raw_close(&look);
    back_to_normal();
    CU_ASSERT_EQUAL(stop(), 0);
}

static void all_kinds(void)
{
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) take_all(&kinds[k]);
}

/* ---- programs that are larger than they look */

/* What it took to read them goes back, also while others are at work: in the end there is what is counted. */
static void read_and_given_back(void)
{
    enum { ROUNDS_OF_IT = 2 };
    taker t = {0};
    raw r;
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket) && raw_zeros(&r, 1, 4) && raw_open(&t.r, d.socket));
    int64_t own = raw_status(&r, "bytes_own");
    long anon = resident_kb("RssAnon"), most = 0, kb = 0;
    uint32_t code = TD_OK;
    for (; t.n < ROUNDS_OF_IT && !code; t.n++) code = more_doubling(&t);
    CU_ASSERT_TRUE(code == TD_OK || code == TD_E_QUOTA);
    own = (raw_status(&r, "bytes_own") - own) >> 10;
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; test_now_ms() < until && goes_on(&r); test_sleep_ms(5)) {
        kb = resident_kb("RssAnon") - anon;
        if (kb > most) most = kb;
        if (kb < own + own / 4) break;
    }
    printf("\n    %ld KB are counted, %ld KB taken at most, %ld KB then", (long)own, most, kb);
    CU_ASSERT_TRUE(!REAL || kb < own + own / 4);
    CU_ASSERT_TRUE(own > 1 << 10);
    raw_close(&t.r);
    raw_close(&r);
    back_to_normal();
    CU_ASSERT_EQUAL(stop(), 0);
}

/* ---- all at once, in a memory group, with whatever limits follow from it */

static void take_what_there_is(const kind *k, taker *t, int n)
{
    for (int i = 0; i < n; i++) {
        t[i] = (taker){0};
        CU_ASSERT_TRUE_FATAL(raw_open(&t[i].r, d.socket));
        uint32_t code = TD_OK;
        for (; !code && t[i].n < ROUNDS; t[i].n++) code = k->more(&t[i]);
        CU_ASSERT_TRUE(code == TD_E_QUOTA || code == TD_E_MEMORY);
    }
}

static void at_once_in_a_group(void)
{
    enum { EACH = 4 };
    static const kind first[] = {{"shared memory", more_bytes}, {"doubling", more_doubling}};
    static taker t[2 + sizeof kinds / sizeof kinds[0]][EACH];
    size_t n = 0;
    raw look;
    if (!REAL || !find_group()) {
        td_test_skip(REAL ? "this process may not make a memory group" : "a sanitizer takes memory of its own");
        return;
    }
    CU_ASSERT_TRUE_FATAL(start_in_group());
    CU_ASSERT_TRUE_FATAL(raw_open(&look, d.socket) && raw_zeros(&look, 1, 4) && goes_on(&look));
    for (size_t k = 0; k < 2; k++, n++) take_what_there_is(&first[k], t[n], EACH);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++, n++) take_what_there_is(&kinds[k], t[n], EACH);
    CU_ASSERT_TRUE(goes_on(&look));
    CU_ASSERT_TRUE(test_daemon_alive(&d));
    printf("\n    at once in a group of %d MB: %lld MB are taken at most", GROUP_MB, group_most() >> 20);
    CU_ASSERT_TRUE(!REAL || group_most() < ((long long)GROUP_MB << 20) / 10 * 9);
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < EACH; i++) raw_close(&t[k][i].r);
    raw_close(&look);
    back_to_normal();
    CU_ASSERT_EQUAL(stop(), 0);
    CU_ASSERT_EQUAL(rmdir(group), 0);
}

static const td_test tests[] = {{"of all kinds, bounded and given back", all_kinds},
                                {"read, and given back", read_and_given_back},
                                {"at once in a memory group", at_once_in_a_group}};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("own", NULL, NULL, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
