/* Passes change nothing that can be seen: programs that are drawn are run as they are and after passes (each alone, in
 * random orders, all of them), and must give the same bits: results, errors with their places, what was written,
 * gradients, and the numbers that were taken from the generator. So must the arithmetic of constants. */
#include "proto/passes/freeze.h"
#include "proto/passes/passes.h"
#include "proto/program/text.h"
#include "tests/unit/drawn_programs.h"

/* The module is taken over. */
static void run(td_ir *ir, int64_t number, seen *s)
{
    t_given g = give(0, true);
    td_held_program *p = program_of(ir, &g);
    run_program(p, &g, number, TD_GRAD_ON, 1000, s);
    td_program_unref(p);
    give_back(g);
}

/* ---- with passes and without */

static unsigned ran, failed_runs, changed, rewritten;

static void show(const char *what, const td_ir *ir)
{
    char *text = td_ir_print(ir, NULL);
    printf("%s:\n%s", what, text ? text : "");
    free(text);
}

/* With dead code goes what failed there and nowhere else: then only that it runs is looked at. */
static bool same(const td_ir *before, td_ir *after, int64_t number, const seen *want, const char *what, bool drops)
{
    seen got;
    td_error e = {0};
    bool good = td_ir_verify(after, TD_VERIFY_GROWN, &e) == 0;
    if (!good) printf("%s: %s\n", what, e.message);
    run(td_ir_ref(after), number, &got);
    bool alike = got.n == want->n && memcmp(got.bits, want->bits, sizeof got.bits) == 0;
    good = good && ((drops && want->error[0]) || (alike && strcmp(got.error, want->error) == 0));
    ran++;
    changed += !td_ir_equal(before, after);
    rewritten += !td_ir_equal(before, after) && !strcmp(what, "writes");
    if (!good) {
        printf("%s changes what is seen with n = %d: '%s', not '%s'\n", what, (int)number, got.error, want->error);
        show("before", before), show("after", after);
    }
    CU_ASSERT_TRUE(good);
    return good;
}

static bool check_passes(const td_ir *ir, uint32_t n, const td_pass *const *passes, int64_t number, const seen *want)
{
    td_error e = {0};
    char what[200] = "";
    bool drops = false;
    for (uint32_t k = 0; k < n; k++) {
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s%s", k ? ", " : "", passes[k]->name);
        drops |= passes[k]->run == td_pass_dead;
    }
    td_ir *after = td_ir_pass(ir, n, passes, &e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(after);
    bool good = same(ir, after, number, want, what, drops);
    td_ir_unref(after);
    return good;
}

static bool check_module(td_ir *ir, int64_t number)
{
    seen want;
    const td_pass *order[6];
    run(td_ir_ref(ir), number, &want);
    failed_runs += want.error[0] != 0;
    for (uint32_t k = 0; k < td_pass_count; k++)
        if (order[0] = &td_pass_list[k], !check_passes(ir, 1, order, number, &want)) return false;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 6; i++) order[i] = &td_pass_list[below(td_pass_count)];
        if (!check_passes(ir, 6, order, number, &want)) return false;
    }
    td_ir *after = td_ir_improve(td_ir_ref(ir));
    bool good = same(ir, after, number, &want, "all", true);
    td_ir_unref(after);
    return good;
}

static void drawn_programs(void)
{
    const char *given = getenv("TD_SEED"), *many = getenv("TD_PROGRAMS");
    uint64_t first = given ? strtoull(given, NULL, 0) : 1, n = many ? strtoull(many, NULL, 0) : 300;
    for (uint64_t seed = first; seed < first + n; seed++) {
        td_ir *ir = drawn_module(seed);
        bool good = check_module(ir, (int64_t)(seed % 23) - 1);
        td_ir_unref(ir);
        if (!good) {
            printf("TD_SEED=%llu\n", (unsigned long long)seed);
            return;
        }
    }
    printf("%u runs, of which %u changed programs, %u of them writes; %u programs fail\n", ran, changed, rewritten,
           failed_runs);
    CU_ASSERT_TRUE(given || (changed > ran / 3 && failed_runs < n / 3 && rewritten > n / 10));
}

/* ---- writes, of whatever dtypes and shapes */

static const char *const makes[] = {
    "%t : Tensor = td::mul(%x, %two)",     "%t : Tensor = td::mul(%x, %half)",
    "%t : Tensor = td::exp(%x)",           "%t : Tensor = td::relu(%x)",
    "%t : Tensor = td::add(%x, %y, %two)", "%t : Tensor = td::gt(%x, %y)",
    "%t : Tensor = td::neg(%x)",           "%t : Tensor = td::clamp(%x, %none, %two)",
    "%t : Tensor = td::copy(%x, %none)",   "%t : Tensor = td::pow(%x, %two)",
    "%t : Tensor = td::where(%c, %x, %y)", "%t : Tensor = td::div(%x, %y)",
    "%t : Tensor = td::lerp(%x, %y, %y)",  "%t : Tensor = td::masked_fill(%x, %c, %two)",
    "%t : Tensor = td::abs(%x)",           "%t : Tensor = td::sum(%x, %none, %no, %none)"};
static const char *const puts_in[] = {"td::relu_(%t)",
                                      "td::neg_(%t)",
                                      "td::exp_(%t)",
                                      "td::add_(%t, %two, %two)",
                                      "td::add_(%t, %half, %two)",
                                      "td::add_(%t, %x, %two)",
                                      "td::add_(%t, %y, %half)",
                                      "td::mul_(%t, %y)",
                                      "td::mul_(%t, %x)",
                                      "td::pow_(%t, %two)",
                                      "td::div_(%t, %two)",
                                      "td::clamp_(%t, %two, %none)",
                                      "td::sub_(%t, %x, %two)",
                                      "td::abs_(%t)",
                                      "td::gt_(%t, %two)",
                                      "td::masked_fill_(%t, %c, %half)",
                                      "td::mul_(%t, %t)",
                                      "td::lerp_(%t, %x, %half)"};

static td_tensor *of_dtype(td_dtype dtype, int ndim)
{
    td_tensor *t = t_new(dtype, ndim, (int64_t[]){2, 2}, (double[]){1, 0, 3, 2});
    if (td_dtype_category(dtype) >= TD_CAT_FLOAT) td_set_requires_grad(t, true, NULL);
    return t;
}

static void run_of(const td_ir *ir, td_dtype a, int na, td_dtype b, int nb, seen *s)
{
    t_given g = {of_dtype(a, na), of_dtype(b, nb), of_dtype(TD_FLOAT64, 2)};
    td_held_program *p = program_of(td_ir_ref((td_ir *)(uintptr_t)ir), &g);
    run_program(p, &g, 0, TD_GRAD_ON, 1000, s);
    td_program_unref(p);
    give_back(g);
}

/* For all dtypes and some shapes; how many of the programs fail. */
static unsigned check_dtypes(const td_ir *ir, const td_ir *after, const char *text)
{
    static const td_dtype dtypes[] = {TD_BOOL, TD_UINT8, TD_INT64, TD_FLOAT16, TD_FLOAT32, TD_FLOAT64, TD_COMPLEX64};
    static const int ndims[][2] = {{2, 2}, {1, 2}, {2, 0}};
    enum { DTYPES = sizeof dtypes / sizeof *dtypes };
    unsigned failed = 0;
    for (unsigned k = 0; k < DTYPES * DTYPES * 3; k++) {
        seen want, got;
        td_dtype a = dtypes[k % DTYPES], b = dtypes[k / DTYPES % DTYPES];
        const int *n = ndims[k / DTYPES / DTYPES];
        run_of(ir, a, n[0], b, n[1], &want);
        run_of(after, a, n[0], b, n[1], &got);
        bool same = want.n == got.n && !memcmp(want.bits, got.bits, sizeof got.bits) && !strcmp(want.error, got.error);
        if (!same)
            printf("%s and %s, %d and %d dimensions: '%s', not '%s'\n%s", td_dtype_name(a), td_dtype_name(b), n[0],
                   n[1], got.error, want.error, text);
        CU_ASSERT_TRUE_FATAL(same);
        failed += want.error[0] != 0;
    }
    return failed;
}

static void writes_of_all_dtypes(void)
{
    static const td_pass pass = {"writes", td_pass_writes}, *const writes = &pass;
    enum { MAKES = sizeof makes / sizeof *makes, PUTS = sizeof puts_in / sizeof *puts_in };
    unsigned gone = 0, failing = 0;
    for (unsigned k = 0; k < MAKES * PUTS; k++) {
        char text[1024];
        td_error e = {0};
        snprintf(text, sizeof text,
                 "captured %%w : Tensor = \"w\"\ngraph(%%x : Tensor, %%y : Tensor, %%n : int):\n"
                 "%%none : NoneType = prim::Constant()\n%%no : bool = prim::Constant[value=0]()\n"
                 "%%two : int = prim::Constant[value=2]()\n%%half : float = prim::Constant[value=0.5]()\n"
                 "%%c : Tensor = td::gt(%%x, %%two)\n%s # a.py:1:1\n%%u : Tensor = %s # a.py:2:2\nreturn (%%t, %%u)\n",
                 makes[k / PUTS], puts_in[k % PUTS]);
        td_ir *ir = td_ir_read(text, strlen(text), &e);
        if (!ir || td_ir_verify(ir, 0, &e)) printf("%s\n%s", e.message, text);
        CU_ASSERT_FATAL(ir && !e.code);
        td_ir *after = td_ir_pass(ir, 1, &writes, &e);
        CU_ASSERT_PTR_NOT_NULL_FATAL(after);
        bool same = td_ir_equal(ir, after);
        if (!same) failing += check_dtypes(ir, after, text) > 0;
        gone += !same;
        td_ir_unref(ir), td_ir_unref(after);
    }
    printf("%u of %d writes go; %u of these fail for some dtypes\n", gone, MAKES * PUTS, failing);
    CU_ASSERT_TRUE(gone > 40);
}

/* ---- frozen, with w as a constant */

/* The setup is run once, and gives what the rest captures. */
static void run_frozen(td_ir *ir, int64_t number, seen *s, unsigned *made)
{
    td_frozen_look looks = {{TD_FLOAT64, TD_TYPE_ANY, TD_TYPE_ANY, 2, {2, 2}}, 1};
    td_error e = {0};
    td_frozen f;
    td_held_program *setup = NULL, *p = NULL;
    td_exec *r = NULL;
    const td_val *v = NULL;
    bool done = false;
    t_given g = give(0, false);
    td_tensor *captured[ROOM];
    CU_ASSERT_EQUAL_FATAL(td_ir_freeze(&f, ir, &looks, true, &e), 0);
    if (f.setup) {
        CU_ASSERT_EQUAL(td_ir_verify(f.setup, TD_VERIFY_GROWN, &e), 0);
        setup = program_of(td_ir_ref(f.setup), &g);
        CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, setup, &t_who, &env, TD_GRAD_ON, &e), 0);
        CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 0, NULL, &e), 0);
        while (!done) CU_ASSERT_EQUAL_FATAL(td_exec_step(r, 1000, &done, NULL, &e), 0);
        *made += td_exec_results(r, &v);
    }
    CU_ASSERT_TRUE_FATAL(f.main->ncaptures < ROOM);
    CU_ASSERT_EQUAL(td_ir_verify(f.main, TD_VERIFY_GROWN, &e), 0);
    for (uint32_t k = 0; k < f.main->ncaptures; k++)
        captured[k] = f.main_from[k] & TD_FROZEN_MADE ? v[f.main_from[k] & ~TD_FROZEN_MADE].tensor : g.w;
    CU_ASSERT_EQUAL_FATAL(td_program_new(&p, td_ir_ref(f.main), &e), 0);
    CU_ASSERT_EQUAL_FATAL(td_program_capture(p, f.main->ncaptures, captured, t_who.account, &e), 0);
    run_program(p, &g, number, TD_GRAD_ON, 1000, s);
    CU_ASSERT_TRUE(!r || td_exec_drop(r, INT32_MAX));
    td_program_unref(setup), td_program_unref(p);
    td_frozen_free(&f);
    give_back(g);
}

static void frozen_programs(void)
{
    unsigned made = 0, alike = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        seen want, got;
        int64_t number = (int64_t)(seed % 23) - 1;
        t_given g = give(0, false);
        td_ir *ir = drawn_module(seed);
        td_held_program *p = program_of(td_ir_ref(ir), &g);
        run_program(p, &g, number, TD_GRAD_ON, 1000, &want);
        td_program_unref(p);
        give_back(g);
        run_frozen(td_ir_ref(ir), number, &got, &made);
        bool same = want.error[0] || (got.n == want.n && memcmp(got.bits, want.bits, sizeof got.bits) == 0);
        if (!same) printf("frozen, TD_SEED=%d differs: '%s'\n", (int)seed, got.error), show("before", ir);
        CU_ASSERT_TRUE(same);
        alike += same && !want.error[0];
        td_ir_unref(ir);
    }
    printf("%u frozen programs are alike, %u tensors were made once\n", alike, made);
    CU_ASSERT_TRUE(alike > 150 && made > 50);
}

/* ---- arithmetic of constants */

/* What the one number is that the graph returns, or that it fails. */
static void run_alone(td_ir *ir, seen *s)
{
    td_held_program *p = NULL;
    td_exec *r = NULL;
    td_error e = {0};
    bool done = false;
    const td_val *v;
    *s = (seen){0};
    if (td_program_new(&p, ir, &e)) { /* no run does this op yet */
        td_ir_unref(ir);
        return;
    }
    int rc = td_program_capture(p, 0, NULL, t_who.account, &e);
    if (!rc) rc = td_exec_new(&r, p, &t_who, &env, TD_GRAD_ON, &e);
    if (!rc) rc = td_exec_begin(r, 0, NULL, &e);
    while (!rc && !done) rc = td_exec_step(r, 1000, &done, NULL, &e);
    if (rc) snprintf(s->error, sizeof s->error, "%d %s", rc, e.message);
    else if (td_exec_results(r, &v)) see_number(s, v);
    CU_ASSERT_TRUE(td_exec_drop(r, INT32_MAX));
    td_program_unref(p);
}

static const int64_t ints[] = {0, 1, -1, 2, -3, 7, 63, 64, INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_C(1) << 53};
static const double floats[] = {0,      -0.0,   1,      -1,      0.5,      -2.5,      3,  1e308,
                                -1e308, 5e-324, 0x1p63, -0x1p63, INFINITY, -INFINITY, NAN};

/* The k-th number of that type at the cursor, or TD_IR_NONE behind the last. */
static uint32_t edge(td_ir_edit *e, char code, uint32_t k)
{
    if (code == 'i' && k < sizeof ints / sizeof *ints) return td_ir_int(e, ints[k]);
    if (code == 'f' && k < sizeof floats / sizeof *floats) return td_ir_float(e, floats[k]);
    return code == 'b' && k < 2 ? td_ir_bool(e, k) : TD_IR_NONE;
}

/* NULL: there are no such numbers. */
static td_ir *arithmetic(const td_prim *prim, const char *codes, uint32_t nin, uint32_t a, uint32_t b)
{
    static const char letters[] = "nifbc";
    td_ir_edit *e = td_ir_edit_new(NULL, 16, NULL);
    td_ir_function_new(e, NULL);
    uint32_t in[] = {edge(e, codes[0], a), nin > 1 ? edge(e, codes[1], b) : 0};
    uint32_t type = td_type_plain(e, (td_type_kind)(strchr(letters, codes[nin + 1]) - letters));
    td_ir_returns(e, td_ir_cursor(e), 1, LIST(td_ir_result(e, td_ir_op(e, prim->id, nin, in, 1, &type))));
    if (in[0] != TD_IR_NONE && in[1] != TD_IR_NONE) return td_ir_seal(e, NULL);
    td_ir_edit_free(e);
    return NULL;
}

/* True: it was worked out. */
static bool check_arithmetic(const td_prim *prim, td_ir *ir)
{
    static const td_pass pass = {"constants", td_pass_constants}, *const constants = &pass;
    seen want, got;
    td_ir *after = td_ir_pass(ir, 1, &constants, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(after);
    bool folded = !td_ir_equal(ir, after);
    run_alone(ir, &want);
    run_alone(after, &got);
    bool good = want.n == got.n && memcmp(want.bits, got.bits, sizeof got.bits) == 0 && !strcmp(want.error, got.error);
    if (!good) printf("%s: '%s', not '%s'\n", prim->name, got.error, want.error);
    CU_ASSERT_TRUE(good);
    CU_ASSERT_TRUE(!folded || !want.error[0]);
    return folded;
}

static void numbers_at_their_edges(void)
{
    unsigned folded = 0;
    for (unsigned id = 0; id < TD_PRIM_COUNT; id++) {
        const td_prim *prim = td_prim_by_id(id);
        if (!prim || prim->rule != TD_PR_SIGNATURE) continue;
        uint32_t nin = (uint32_t)strcspn(prim->codes, ">");
        if (!nin || nin > 2 || strspn(prim->codes, "ifb>") < nin + 1 || strlen(prim->codes) != nin + 2 ||
            !strchr("ifbc", prim->codes[nin + 1]))
            continue;
        bool any_folded = false;
        for (uint32_t a = 0; a < 16; a++)
            for (uint32_t b = 0; b < (nin > 1 ? 16 : 1); b++) {
                td_ir *ir = arithmetic(prim, prim->codes, nin, a, b);
                if (ir) any_folded |= check_arithmetic(prim, ir);
            }
        folded += any_folded;
    }
    CU_ASSERT_TRUE(folded >= 45);
    printf("%u ops are worked out\n", folded);
}

/* Thousands of loops: some are unrolled, and what passes did is not lost to a limit. */
static void many_loops(void)
{
    td_ir_edit *e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, NULL);
    td_ir_function_new(e, NULL);
    uint32_t graph = td_ir_cursor(e), type = td_type_plain(e, TD_T_INT), n = td_ir_param_new(e, graph, type, "n");
    uint32_t yes = td_ir_bool(e, true), x = n;
    for (int k = 0; k < 16000; k++) {
        uint32_t loop = td_ir_loop(e, n, yes), y = td_ir_carry(e, loop, x, type, "y");
        td_ir_to_end(e, td_ir_child(e, loop, 0));
        uint32_t sum = td_ir_op(e, TD_PRIM_ADD_INT, 2, LIST(y, n), 1, &type);
        td_ir_returns(e, td_ir_child(e, loop, 0), 2, LIST(yes, td_ir_result(e, sum)));
        td_ir_to_end(e, graph);
        x = td_ir_out(td_ir_now(e), loop, 0);
    }
    td_ir_returns(e, graph, 1, &x);
    td_ir *ir = td_ir_seal(e, NULL), *after = td_ir_improve(td_ir_ref(ir));
    CU_ASSERT_TRUE(after->nnodes > ir->nnodes);
    CU_ASSERT_TRUE(after->nnodes < TD_IR_MAX_NODES);
    td_ir_unref(ir), td_ir_unref(after);
}

/* ---- how long they take: counted in nodes that are gone through, and looks besides */

static td_ir *read_and_free(FILE *f, char *const *text, const size_t *length)
{
    td_error e = {0};
    fclose(f);
    td_ir *ir = td_ir_read(*text, *length, &e);
    if (!ir) printf("%s\n", e.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ir);
    free(*text);
    return ir;
}

/* Of one list, that is written between them; then twice of another. */
static td_ir *equal_reads(int n)
{
    char *text;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fprintf(f, "graph(%%l : int[], %%n : int):\n");
    for (int k = 0; k < n; k++) fprintf(f, "  %%r%d : int = prim::len.list(%%l)\n  prim::append(%%l, %%r%d)\n", k, k);
    fprintf(f, "  %%a : int = prim::add.int(%%n, %%n)\n  %%b : int = prim::add.int(%%n, %%n)\n  return (%%a, %%b)\n");
    return read_and_free(f, &text, &length);
}

/* The same tensor made again and again, and all of them returned; then twice the same number. */
static td_ir *equal_results(int n)
{
    char *text;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fprintf(f, "graph(%%n : int):\n  %%d : dtype = prim::Constant[value=\"float32\"]()\n"
               "  %%e : int[] = prim::ListConstruct(%%n)\n");
    for (int k = 0; k < n; k++) fprintf(f, "  %%t%d : Tensor = td::full(%%e, %%n, %%d)\n", k);
    fprintf(f, "  %%a : int = prim::add.int(%%n, %%n)\n  %%b : int = prim::add.int(%%n, %%n)\n"
               "  %%o : Tensor[] = prim::ListConstruct(%%t0");
    for (int k = 1; k < n; k++) fprintf(f, ", %%t%d", k);
    fprintf(f, ")\n  return (%%a, %%b, %%o)\n");
    return read_and_free(f, &text, &length);
}

/* Of one tensor, that is new. */
static td_ir *many_writes(int n)
{
    char *text;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fprintf(f, "graph(%%n : int):\n  %%d : dtype = prim::Constant[value=\"float32\"]()\n"
               "  %%e : int[] = prim::ListConstruct(%%n)\n  %%t : Tensor = td::full(%%e, %%n, %%d)\n");
    for (int k = 0; k < n; k++) fprintf(f, "  %%w%d : Tensor = td::neg_(%%t)\n", k);
    fprintf(f, "  return (%%t)\n");
    return read_and_free(f, &text, &length);
}

/* Functions that call each other twice: `n` of them stand for 2^n calls. */
static td_ir *doubling(int n)
{
    char *text;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fprintf(f, "graph(%%x : Tensor):\n  %%y : Tensor = fn::f0(%%x)\n  return (%%y)\n");
    for (int k = 0; k < n; k++)
        fprintf(f,
                "fn f%d(%%x : Tensor):\n  %%a : Tensor = fn::f%d(%%x)\n  %%b : Tensor = fn::f%d(%%a)\n"
                "  return (%%b)\n",
                k, k + 1, k + 1);
    fprintf(f, "fn f%d(%%x : Tensor):\n  %%a : Tensor = td::neg(%%x)\n  return (%%a)\n", n);
    return read_and_free(f, &text, &length);
}

static uint32_t writes_in(const td_ir *ir)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < ir->nnodes; k++) n += (ir->nodes[k].op & TD_IR_INPLACE) != 0;
    return n;
}

static td_ir *improved(td_ir *ir)
{
    enum { EACH_NODE = 24, PASSES = 40, ALWAYS = 1 << 15 };
    uint64_t before = ir->nnodes;
    td_pass_work work = {.most = UINT64_MAX};
    td_ir *after = td_ir_improve_within(ir, &work);
    uint64_t nodes = before > after->nnodes ? before : after->nnodes;
    CU_ASSERT_TRUE(work.steps > before && work.steps < PASSES * (EACH_NODE * nodes + ALWAYS));
    return after;
}

/* No pass looks further than so far for each node. What it leaves then is as it was, and what is not of that sort is
 * improved as ever. */
static void as_long_as_their_programs(void)
{
    enum { LARGE = 20000, SMALL = 100 };
    td_ir *ir = improved(equal_reads(LARGE));
    CU_ASSERT_EQUAL(td_ir_return(ir, ir->functions[0].block, 0), td_ir_return(ir, ir->functions[0].block, 1));
    td_ir_unref(ir);
    ir = improved(equal_results(LARGE));
    CU_ASSERT_EQUAL(td_ir_return(ir, ir->functions[0].block, 0), td_ir_return(ir, ir->functions[0].block, 1));
    td_ir_unref(ir);
    ir = improved(many_writes(SMALL));
    CU_ASSERT_EQUAL(writes_in(ir), 0);
    td_ir_unref(ir);
    ir = improved(many_writes(LARGE));
    CU_ASSERT_TRUE(writes_in(ir) > 0);
    td_ir_unref(ir);
    td_ir_unref(improved(doubling(60)));
}

/* Where as much as is allowed was done, or somebody stops it, what was made so far is what there is. */
static void as_far_as_allowed(void)
{
    atomic_bool stop = true;
    td_ir *ir = doubling(60);
    uint32_t nodes = ir->nnodes;
    td_pass_work stopped = {.most = UINT64_MAX, .stop = &stop}, little = {.most = 1}, all = {.most = UINT64_MAX};
    ir = td_ir_improve_within(ir, &stopped);
    CU_ASSERT_EQUAL(ir->nnodes, nodes);
    CU_ASSERT_EQUAL(stopped.steps, 0);
    td_ir *after = td_ir_improve_within(td_ir_ref(ir), &little);
    CU_ASSERT_TRUE(after->nnodes > nodes && little.steps >= 1);
    td_ir_unref(after);
    td_ir_unref(td_ir_improve_within(ir, &all));
    CU_ASSERT_TRUE(little.steps < all.steps / 10);
}

TD_CUNIT_MAIN_WITH("passes_run", t_setup, t_teardown, {"drawn programs", drawn_programs},
                   {"frozen programs", frozen_programs}, {"writes of all dtypes", writes_of_all_dtypes},
                   {"numbers at their edges", numbers_at_their_edges}, {"many loops", many_loops},
                   {"as long as their programs", as_long_as_their_programs}, {"as far as allowed", as_far_as_allowed})
