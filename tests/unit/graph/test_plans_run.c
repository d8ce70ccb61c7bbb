/* Plans change nothing that can be seen: a program that is run again and again, for other values, gives the bits of one
 * that is run once, and what was counted is given back. Also where it is interrupted at every op, where a tensor stands
 * in two places, where a number is another, and where memory was refused. */
#include "daemon/graph/plan.h"
#include "proto/program/text.h"
#include "tests/unit/drawn_programs.h"

/* ---- drawn programs, without gradients */

enum { TURNS = 6 };

static bool alike(const seen *a, const seen *b)
{
    return a->n == b->n && !memcmp(a->bits, b->bits, sizeof a->bits) && !strcmp(a->error, b->error);
}

/* In the second half x and y are one tensor, and the number is another. */
static t_given given_for(int turn)
{
    t_given g = give(turn, false);
    if (turn < TURNS) return g;
    td_tensor_unref(g.y);
    g.y = td_tensor_ref(g.x);
    return g;
}

static bool check_turn(td_held_program *p, td_ir *ir, int turn, int64_t number, uint32_t mode, int most)
{
    seen want, got;
    number += turn >= TURNS;
    t_given g = given_for(turn), h = given_for(turn);
    td_held_program *once = program_of(td_ir_ref(ir), &h);
    td_tensor *const *captured;
    td_program_captured(p, &captured);
    memcpy(td_tensor_data(captured[0]), td_tensor_data(g.w), 4 * sizeof(double)); /* it may have been written */
    td_tensor_unref(g.w);
    g.w = td_tensor_ref(captured[0]);
    run_program(p, &g, number, mode, most, &got);
    run_program(once, &h, number, mode, 1000, &want);
    bool good = alike(&got, &want);
    if (!good) {
        char *text = td_ir_print(ir, NULL);
        printf("turn %d: '%s', not '%s'\n%s", turn, got.error, want.error, text ? text : "");
        free(text);
    }
    td_program_unref(once);
    give_back(g), give_back(h);
    return good;
}

static unsigned planned;

static bool check_module(td_ir *ir, int64_t number, uint32_t mode, int most)
{
    t_given g = give(0, false);
    td_held_program *p = program_of(td_ir_ref(ir), &g);
    bool good = true;
    give_back(g);
    for (int turn = 0; turn < 2 * TURNS && good; turn++) good = check_turn(p, ir, turn, number, mode, most);
    planned += td_program_plans(p);
    td_program_unref(p);
    return good;
}

static void drawn_programs(void)
{
    const char *seed_given = getenv("TD_SEED"), *many = getenv("TD_PROGRAMS");
    uint64_t first = seed_given ? strtoull(seed_given, NULL, 0) : 1, n = many ? strtoull(many, NULL, 0) : 300;
    static const uint32_t modes[] = {TD_RM_GRAD_OFF, 0, TD_RM_INFERENCE};
    bool good = true;
    for_plans = true;
    for (uint64_t seed = first; seed < first + n && good; seed++) {
        td_ir *ir = drawn_module(seed);
        uint64_t bytes = t_who.account->bytes, objects = t_who.account->objects;
        good = check_module(ir, (int64_t)(seed % 23) - 1, modes[seed % 3], seed % 4 ? 1000 : 1);
        td_ir_unref(ir);
        CU_ASSERT_EQUAL(t_who.account->bytes, bytes);
        CU_ASSERT_EQUAL(t_who.account->objects, objects);
        if (!good) printf("TD_SEED=%llu\n", (unsigned long long)seed);
    }
    CU_ASSERT_TRUE(good);
    printf("%u plans in %llu programs\n", planned, (unsigned long long)n);
    CU_ASSERT_TRUE(seed_given || planned > n);
}

TD_CUNIT_MAIN_WITH("plans_run", t_setup, t_teardown, {"drawn programs", drawn_programs})
