/* Generated loops against the op table's: the same bits, those of NaNs too but for two ops. Each op that can
 * be a line, drawn lines of many, all short lengths, for each instruction set that this processor has; arrays end, or
 * begin, beside pages that nobody may touch. */
#include "cunit_main.h"
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/cpu/jit/jit_steps.h"
#include "daemon/kernels/jit.h"
#include "daemon/kernels/kernel.h"
#include "proto/ops/opid.h"
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { LONG = 9001, WORDS = 1 << 16, MOST_ARRAYS = TD_JIT_SOURCES + TD_JIT_LINES };

static uint64_t state = 88172645463325252U;

static uint64_t draw(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 0x9E3779B97F4A7C15U;
}

static unsigned below(unsigned n)
{
    return (unsigned)(draw() >> 33) % n;
}

/* ---- arrays between pages that nobody may touch */

enum { PAGE = 4096, ROOM = WORDS * 8 };

typedef struct guarded {
    char *at; /* of the first page that is there */
} guarded;

static guarded guarded_new(void)
{
    char *p = mmap(NULL, ROOM + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool good = p != MAP_FAILED && !mprotect(p, PAGE, PROT_NONE) && !mprotect(p + PAGE + ROOM, PAGE, PROT_NONE);
    if (!good) abort();
    return (guarded){p + PAGE};
}

static void *place(guarded g, size_t bytes, bool first)
{
    return first ? g.at : g.at + ROOM - bytes;
}

static void guarded_free(guarded g)
{
    munmap(g.at - PAGE, ROOM + 2 * PAGE);
}

static guarded arrays[MOST_ARRAYS];

static int make_arrays(void)
{
    td_cpu_init();
    for (int k = 0; k < MOST_ARRAYS; k++) arrays[k] = guarded_new();
    return 0;
}

static int free_arrays(void)
{
    for (int k = 0; k < MOST_ARRAYS; k++) guarded_free(arrays[k]);
    td_isa_use(td_isa_level());
    return 0;
}

/* ---- numbers: any bits, or those where ops differ, or plain ones */

static double special(void)
{
    static const double all[] = {0.0,    -0.0,   INFINITY, -INFINITY, 1,     -1,  0.5, -0.5,
                                 1e-310, -1e-40, 1e-45,    3e38,      1e308, 2.5, 1.5};
    return below(12) ? all[below(sizeof all / sizeof *all)] : below(2) ? (double)NAN : -(double)NAN;
}

static void draw_one(td_dtype t, void *to)
{
    unsigned way = below(4);
    uint64_t any = draw() ^ draw() << 32;
    double d = way == 1 ? special() : ((double)(int64_t)draw()) * 0x1p-60;
    float f = (float)d;
    if (t == TD_FLOAT32) memcpy(to, way ? (void *)&f : (void *)&any, 4);
    else memcpy(to, way ? (void *)&d : (void *)&any, 8);
}

static void draw_all(td_dtype t, int64_t n, void *to)
{
    for (int64_t i = 0; i < n; i++) draw_one(t, (char *)to + i * (int64_t)td_dtype_size(t));
}

static bool is_nan(td_dtype t, const void *at)
{
    double x;
    float f;
    if (t == TD_FLOAT64) return memcpy(&x, at, 8), x != x;
    memcpy(&f, at, 4);
    return f != f;
}

/* Which of several NaNs comes out of these depends on where an element stands, in the compiled loops too: the compiler
 * orders their products otherwise for whole vectors than for the rest. */
static bool picks_nans(const td_jit_text *t)
{
    bool picks = false;
    for (int k = 0; k < t->nlines; k++) picks |= t->line[k].op->id == TD_OP_LERP || t->line[k].op->id == TD_OP_ADDCMUL;
    return picks;
}

static bool same(const td_jit_text *t, const void *a, const void *b)
{
    return !memcmp(a, b, td_dtype_size(t->dtype)) || (picks_nans(t) && is_nan(t->dtype, a) && is_nan(t->dtype, b));
}

/* ---- the op table's way */

typedef struct table {
    char *value[MOST_ARRAYS]; /* sources, then lines */
} table;

static void spread(td_dtype t, int64_t n, const void *from, char *to)
{
    size_t size = td_dtype_size(t);
    for (int64_t i = 0; i < n; i++) memcpy(to + i * (int64_t)size, from, size);
}

static void run_line(const td_jit_text *t, int nr, int64_t n, table *w)
{
    const td_jit_line *l = &t->line[nr];
    int row = td_pw_row_of[l->op->id] - 1, body = t->dtype == TD_FLOAT32 ? TD_BODY_F32 : TD_BODY_F64;
    const void *in[TD_JIT_INPUTS];
    td_pw_attr at[3];
    for (int k = 0; k < l->op->nparams; k++) in[k] = w->value[l->in[k]];
    for (int k = 0; k < td_pw_ops[row].nattr; k++) at[k] = td_pointwise_attr(l->op, l->attrs, t->dtype, k);
    CU_ASSERT_FATAL(!td_isa_now->pointwise[row][body](n, w->value[t->nsources + nr], in, at));
}

/* ---- both */

static const td_attrs no_attrs;

static td_jit_line line_of(unsigned id, const td_attrs *attrs)
{
    return (td_jit_line){.op = td_op_by_id(id), .attrs = attrs ? attrs : &no_attrs};
}

static const char *level_name(void)
{
    return td_isa_now->name;
}

/* Where a text's arrays are; numbers lie in `value` only. */
static void set_up(td_jit_text *t, int64_t n, table *w, void **at, bool first)
{
    size_t size = td_dtype_size(t->dtype);
    unsigned kept = 0;
    for (int k = 0; k < t->nsources + t->nlines; k++) w->value[k] = malloc(size * (size_t)n + 64);
    for (int k = 0; k < t->nsources; k++) {
        bool each = t->source[k].kind == TD_JIT_EACH, number = t->source[k].kind == TD_JIT_NUMBER;
        at[k] = number ? NULL : place(arrays[k], size * (size_t)(each ? n : 1), first);
        if (number) {
            spread(t->dtype, n, t->source[k].number, w->value[k]);
            continue;
        }
        draw_all(t->dtype, each ? n : 1, at[k]);
        if (each) memcpy(w->value[k], at[k], size * (size_t)n);
        else spread(t->dtype, n, at[k], w->value[k]);
    }
    for (int k = 0; k < t->nlines; k++)
        if (t->line[k].kept) at[t->nsources + kept++] = place(arrays[TD_JIT_SOURCES + k], size * (size_t)n, first);
}

static bool agrees(const td_jit_text *t, int64_t n, table *w, void **at)
{
    size_t size = td_dtype_size(t->dtype);
    unsigned kept = 0;
    for (int k = 0; k < t->nlines; k++) {
        if (!t->line[k].kept) continue;
        const char *got = at[t->nsources + kept++], *want = w->value[t->nsources + k];
        for (int64_t i = 0; i < n; i++)
            if (!same(t, got + i * (int64_t)size, want + i * (int64_t)size)) {
                printf("%s of %s, %s, n %lld: line %d differs at %lld\n", t->line[k].op->name, td_dtype_name(t->dtype),
                       level_name(), (long long)n, k, (long long)i);
                return false;
            }
    }
    return true;
}

static bool check(td_jit_text *t, const td_jit *j, int64_t n, bool first)
{
    table w;
    void *at[MOST_ARRAYS];
    set_up(t, n, &w, at, first);
    for (int k = 0; k < t->nlines; k++) run_line(t, k, n, &w);
    j->loop(n, at);
    bool good = agrees(t, n, &w, at);
    for (int k = 0; k < t->nsources + t->nlines; k++) free(w.value[k]);
    return good;
}

/* For each instruction set: a text made and checked for these lengths. False: something differs. */
static bool check_text(td_jit_text *t, int64_t from, int64_t to, int64_t by)
{
    td_jit j;
    bool good = true;
    CU_ASSERT_FATAL(td_jit_make(t, &j));
    for (int64_t n = from; n <= to && good; n += by) good = check(t, &j, n, n & 1);
    td_jit_free(&j);
    return good;
}

typedef void (*for_level)(td_dtype t);

/* False: no loops can be made here at all. */
static bool can(void)
{
    td_jit j;
    td_jit_text t = {.dtype = TD_FLOAT32, .nsources = 1, .nlines = 1};
    t.line[0] = line_of(TD_OP_NEG, NULL);
    t.line[0].kept = true;
    if (!td_jit_make(&t, &j)) return false;
    td_jit_free(&j);
    return true;
}

static void for_each_level(for_level what)
{
    unsigned seen = 0;
    for (int level = 0; level <= td_isa_level(); level++) {
        td_isa_use(level);
        if (!can()) continue;
        seen++;
        what(TD_FLOAT32);
        what(TD_FLOAT64);
    }
    td_isa_use(td_isa_level());
    if (!seen) td_test_skip("no loops are made for this processor, or in this process");
}

/* ---- each op */

static td_attrs attrs_of(double a, double b)
{
    td_attrs x = {0};
    x.at[0] = (td_attr){.kind = TD_A_FLOAT, .f = a};
    x.at[1] = (td_attr){.kind = TD_A_FLOAT, .f = b};
    return x;
}

/* Lines that are the op: a comparison is taken by `where`. */
static td_jit_text text_of(td_dtype t, unsigned id, const td_attrs *attrs)
{
    const td_op *op = td_op_by_id(id);
    bool compares = td_jit_compares(op);
    td_jit_text x = {.dtype = t, .nsources = compares ? 4 : op->nparams, .nlines = compares ? 2 : 1};
    x.line[0] = line_of(id, attrs);
    for (uint16_t k = 0; k < op->nparams; k++) x.line[0].in[k] = k;
    if (compares) {
        x.line[1] = line_of(TD_OP_WHERE, NULL);
        x.line[1].in[0] = 4, x.line[1].in[1] = 2, x.line[1].in[2] = 3;
    }
    x.line[x.nlines - 1].kept = true;
    return x;
}

static unsigned nknown;

static void one_op(td_dtype t, unsigned id)
{
    static const double pairs[][2] = {{1, 1}, {0.5, 2},    {-3, 3}, {0.3, 0.7},
                                      {0, 0}, {-0.0, 0.0}, {2, -2}, {1e30, 1e-30}};
    bool good = true;
    for (unsigned p = 0; p < sizeof pairs / sizeof *pairs && good; p++) {
        td_attrs attrs = attrs_of(pairs[p][0], pairs[p][1]);
        td_jit_text x = text_of(t, id, &attrs);
        good = check_text(&x, p ? LONG : WORDS, p ? LONG : WORDS, 1) && check_text(&x, 0, 70, 1);
        if (!x.line[0].op->nattrs) break;
    }
    CU_ASSERT_TRUE(good);
}

static bool is_line(unsigned id, td_dtype t)
{
    const td_op *op = td_op_by_id(id);
    return op && td_jit_knows(op, t) && !td_jit_chooses(op);
}

static void every_op(td_dtype t)
{
    nknown = 0;
    for (unsigned id = 0; id < 700; id++)
        if (is_line(id, t)) one_op(t, id), nknown++;
    CU_ASSERT_TRUE(nknown >= 25);
}

static void each_op(void)
{
    for_each_level(every_op);
    printf("%u ops\n", nknown);
}

/* Beside numbers, and elements that stand for all. */
static void beside_numbers(td_dtype t)
{
    for (unsigned id = 0; id < 700; id++)
        for (int round = 0; round < 12 && is_line(id, t); round++) {
            td_attrs attrs = attrs_of(below(3), 1);
            td_jit_text x = text_of(t, id, &attrs);
            for (unsigned k = 0; k < x.nsources; k++) {
                x.source[k].kind = (td_jit_kind)below(3);
                draw_one(t, x.source[k].number);
            }
            CU_ASSERT_TRUE(check_text(&x, 0, 100, 33));
        }
}

static void numbers(void)
{
    for_each_level(beside_numbers);
}

/* ---- drawn lines */

static unsigned known[256];

static void find_known(td_dtype t)
{
    nknown = 0;
    for (unsigned id = 0; id < 700; id++)
        if (is_line(id, t)) known[nknown++] = id;
}

/* A value that is no comparison. */
static uint16_t draw_value(const td_jit_text *x, uint16_t lines)
{
    for (;;) {
        uint16_t v = (uint16_t)below(x->nsources + lines);
        if (below(3)) v = (uint16_t)(x->nsources + lines - 1 - below(lines < 4 ? lines + 1U : 4U)); /* a new one */
        if (v < x->nsources || !td_jit_compares(x->line[v - x->nsources].op)) return v;
    }
}

static void draw_line(td_jit_text *x, uint16_t nr, td_attrs *attrs)
{
    const td_op *before = nr ? x->line[nr - 1].op : NULL;
    *attrs = attrs_of(below(2) ? 1 : 0.75, 1.5);
    bool chooses = before && td_jit_compares(before);
    td_jit_line *l = &x->line[nr];
    do *l = line_of(chooses ? TD_OP_WHERE : known[below(nknown)], attrs);
    while (nr == x->nlines - 1 && td_jit_compares(l->op));
    for (int k = 0; k < l->op->nparams; k++) l->in[k] = draw_value(x, nr);
    if (chooses) l->in[0] = (uint16_t)(x->nsources + nr - 1);
    l->kept = !td_jit_compares(l->op) && (nr == x->nlines - 1 || !below(5));
}

static void draw_text(td_jit_text *x, td_dtype t, td_attrs *attrs)
{
    *x = (td_jit_text){.dtype = t};
    x->nsources = (uint16_t)(1 + below(below(4) ? 5 : 20));
    x->nlines = (uint16_t)(1 + below(below(4) ? 10 : TD_JIT_LINES));
    for (unsigned k = 0; k < x->nsources; k++) {
        x->source[k].kind = below(2) ? TD_JIT_EACH : (td_jit_kind)below(3);
        draw_one(t, x->source[k].number);
    }
    for (uint16_t k = 0; k < x->nlines; k++) draw_line(x, k, &attrs[k]);
}

static unsigned made, refused;

static void drawn(td_dtype t)
{
    static td_attrs attrs[TD_JIT_LINES];
    static td_jit_text x;
    find_known(t);
    for (int round = 0; round < 250; round++) {
        td_jit j;
        bool good = true;
        draw_text(&x, t, attrs);
        if (!td_jit_make(&x, &j)) {
            refused++;
            continue;
        }
        made++;
        for (int64_t n = 0; n <= 200 && good; n += 1 + below(12)) good = check(&x, &j, n, below(2));
        if (good) good = check(&x, &j, 500 + below(600), below(2));
        td_jit_free(&j);
        CU_ASSERT_TRUE(good);
        if (!good) return;
    }
}

static void drawn_lines(void)
{
    made = refused = 0;
    for_each_level(drawn);
    printf("%u loops, %u refused\n", made, refused);
    CU_ASSERT_TRUE(refused < made / 4 + 1);
}

static void every_length(td_dtype t)
{
    td_attrs attrs = attrs_of(0.5, 2);
    td_jit_text x = {.dtype = t, .nsources = 3, .nlines = 3};
    x.line[0] = line_of(TD_OP_MUL, NULL), x.line[0].in[1] = 1;
    x.line[1] = line_of(TD_OP_ADD, &attrs), x.line[1].in[0] = 3, x.line[1].in[1] = 2;
    x.line[2] = line_of(TD_OP_RELU, NULL), x.line[2].in[0] = 4;
    x.line[0].kept = x.line[2].kept = true;
    CU_ASSERT_TRUE(check_text(&x, 0, 200, 1));
    CU_ASSERT_TRUE(check_text(&x, 8191, 8193, 1));
}

static void lengths(void)
{
    for_each_level(every_length);
}

/* ---- what cannot be had */

/* 31 sums that are taken again in their order, when all are there. */
static void too_much_at_once(td_dtype t)
{
    static td_jit_text x;
    td_jit j;
    td_attrs attrs = attrs_of(1, 1);
    x = (td_jit_text){.dtype = t, .nsources = 1, .nlines = TD_JIT_LINES};
    for (uint16_t k = 0; k < x.nlines; k++) {
        x.line[k] = line_of(k < 33 ? TD_OP_ADD : TD_OP_MUL, &attrs);
        x.line[k].in[0] = k, x.line[k].in[1] = (uint16_t)(k < 33 ? 0 : k - 32);
    }
    x.line[x.nlines - 1].kept = true;
    bool many = td_jit_make(&x, &j);
    CU_ASSERT_FALSE(many);
    if (many) td_jit_free(&j);
}

static void refused_comparison(td_dtype t)
{
    td_jit j;
    td_jit_text x = {.dtype = t, .nsources = 2, .nlines = 1};
    x.line[0] = line_of(TD_OP_LT, NULL), x.line[0].in[1] = 1, x.line[0].kept = true;
    CU_ASSERT_FALSE(td_jit_make(&x, &j));
    x.line[0] = line_of(TD_OP_EXP, NULL), x.line[0].kept = true;
    CU_ASSERT_FALSE(td_jit_make(&x, &j));
    x.line[0] = line_of(TD_OP_WHERE, NULL), x.line[0].in[2] = 1, x.line[0].kept = true;
    CU_ASSERT_FALSE(td_jit_make(&x, &j));
}

static void refusals(void)
{
    for_each_level(too_much_at_once);
    for_each_level(refused_comparison);
    td_isa_use(0);
    CU_ASSERT_FALSE(can());
    td_isa_use(td_isa_level());
}

/* ---- memory */

static bool is_apart(const char *line)
{
    char access[8] = "";
    return sscanf(line, "%*s %7s", access) == 1 && (access[1] != 'w' || access[2] != 'x');
}

static void never_both(void)
{
    td_jit j;
    td_jit_text t = text_of(TD_FLOAT32, TD_OP_ADD, &no_attrs);
    if (!td_jit_make(&t, &j)) {
        td_test_skip("no loops are made here");
        return;
    }
    CU_ASSERT_TRUE(j.bytes > 0 && j.bytes % 4096 == 0);
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned code = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        CU_ASSERT_TRUE(is_apart(line));
        code += strstr(line, "tensord-code") && strstr(line, "r-xp");
    }
    CU_ASSERT_EQUAL(code, 1);
    if (maps) fclose(maps);
    td_jit_free(&j);
    CU_ASSERT_PTR_NULL(j.loop);
}

/* A process that may open nothing has no loops, and is told so. */
static void no_memory_for_code(void)
{
    struct rlimit few, as_it_was;
    getrlimit(RLIMIT_NOFILE, &as_it_was);
    few = as_it_was;
    few.rlim_cur = 0;
    CU_ASSERT_FATAL(!setrlimit(RLIMIT_NOFILE, &few));
    bool made_one = can();
    setrlimit(RLIMIT_NOFILE, &as_it_was);
    CU_ASSERT_FALSE(made_one);
}

TD_CUNIT_MAIN_WITH("jit", make_arrays, free_arrays, {"each op", each_op}, {"beside numbers", numbers},
                   {"drawn lines", drawn_lines}, {"every length", lengths}, {"refusals", refusals},
                   {"never writable and executable", never_both}, {"no memory for code", no_memory_for_code})
