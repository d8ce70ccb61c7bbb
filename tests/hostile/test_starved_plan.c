/* Memory that is out while a program is recorded, planned or run by a plan: whichever allocation fails, the run gives
 * what it should or says why not, the next ones are right, and nothing is left. */
#include "proto/program/text.h"
#include "tests/hostile/starve.h"
#include "tests/unit/drawn_programs.h"

static const char text[] = "captured %w : Tensor = \"w\"\n"
                           "graph(%x : Tensor, %y : Tensor, %n : int):\n"
                           "  %zero : int = prim::Constant[value=0]()\n"
                           "  %one : int = prim::Constant[value=1]()\n"
                           "  %a : Tensor = td::mul(%x, %y) # a.py:1:1-9\n"
                           "  %b : Tensor = td::relu(%a) # a.py:2:1-9\n"
                           "  %c : Tensor = td::matmul(%b, %w)\n"
                           "  %d : Tensor = td::transpose(%c, %zero, %one)\n"
                           "  %both : Tensor[] = prim::ListConstruct(%c, %d)\n"
                           "  %e : Tensor = td::cat(%both, %zero)\n"
                           "  %f : Tensor = td::add(%e, %n, %one)\n"
                           "  %dims : int[] = prim::Constant[value=[50, 401]]()\n"
                           "  %dtype : dtype = prim::Constant[value=\"float64\"]()\n"
                           "  %none : NoneType = prim::Constant()\n"
                           "  %no : bool = prim::Constant[value=0]()\n"
                           "  %g : Tensor = td::full(%dims, %one, %dtype)\n"
                           "  %h : Tensor = td::mul(%g, %n)\n"
                           "  %i : Tensor = td::tanh(%h)\n"
                           "  %j : Tensor = td::add(%i, %g, %one)\n"
                           "  %k : Tensor = td::sum(%j, %none, %no, %none)\n"
                           "  return (%d, %f, %k, %n)\n";

enum { RUNS = 4 };

/* The first run counts, the second is recorded, the others are run by the plan; one of them is short of memory. */
static bool one_fails(td_ir *ir, int run, int nth, const seen *want)
{
    bool reached = false;
    t_given g = give(0, false);
    td_held_program *p = program_of(td_ir_ref(ir), &g);
    for (int k = 0; k < RUNS; k++) {
        seen got;
        until_failure = k == run ? nth : 0;
        run_program(p, &g, 3, TD_RM_GRAD_OFF, 1000, &got);
        if (k == run) reached = until_failure == 0;
        until_failure = 0;
        bool said = k == run && got.error[0];
        CU_ASSERT_TRUE(said || (got.n == want->n && !memcmp(got.bits, want->bits, sizeof got.bits)));
        if (said) CU_ASSERT_PTR_NOT_NULL(strstr(got.error, "memory"));
    }
    CU_ASSERT_TRUE(td_program_plans(p) > 0);
    td_program_unref(p);
    give_back(g);
    return reached;
}

static bool nothing_is_left(td_ir *ir, int run, int nth, const seen *want)
{
    bool reached = false;
    settling s = {0};
    while (unsettled(&s)) reached = one_fails(ir, run, nth, want);
    if (live != s.before)
        fprintf(stderr, "run %d, allocation %d: %lld blocks are left\n", run, nth, (long long)(live - s.before));
    CU_ASSERT_EQUAL(live, s.before);
    return reached;
}

static void each_allocation_fails_once(void)
{
    td_error e = {0};
    td_ir *ir = td_ir_read(text, sizeof text - 1, &e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ir);
    CU_ASSERT_EQUAL_FATAL(td_ir_verify(ir, 0, &e), 0);
    seen want;
    t_given g = give(0, false);
    td_held_program *p = program_of(td_ir_ref(ir), &g);
    run_program(p, &g, 3, TD_RM_GRAD_OFF, 1000, &want);
    td_program_unref(p);
    give_back(g);
    CU_ASSERT_EQUAL_FATAL(want.error[0], 0);
    int tried = 0;
    for (int run = 1; run < RUNS; run++)
        for (int nth = 1; nothing_is_left(ir, run, nth, &want); nth++) tried++;
    td_ir_unref(ir);
    printf("%d allocations failed\n", tried);
    CU_ASSERT_TRUE(tried > 100);
}

TD_CUNIT_MAIN_WITH("starved_plan", t_setup, t_teardown, {"each allocation fails once", each_allocation_fails_once})
