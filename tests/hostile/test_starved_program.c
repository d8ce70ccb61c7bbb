/* Memory that is out while a program is read, built, verified, printed, packed, unpacked or improved: each is tried
 * with its first allocation failing, then with its second, and so on until it is done; what fails says so and leaves
 * nothing behind. */
#include "proto/passes/passes.h"
#include "proto/program/edit.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"
#include "proto/program/wire.h"
#include "tests/hostile/starve.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

static const char text[] = "captured %w : Float(2, n) = \"w\"\n"
                           "graph(%x : Tensor, %n : int, %b : bool, %l : (int, Tensor?[])):\n"
                           "  %y : Tensor = prim::Loop(%n, %b, %x) # a.py:1:1-9\n"
                           "    block0(%i : int, %a : Tensor):\n"
                           "      %r : Tensor = td::bernoulli[rng=3](%a)\n"
                           "      -> (%b, %r)\n"
                           "  %s : str[] = prim::Constant[value=[\"\", \"a\"]]()\n"
                           "  %z : Tensor = fn::go(%y)\n"
                           "  return (%z, %s)\n"
                           "fn go(%x : Tensor):\n"
                           "  return (%x)\n";
static td_ir *whole;
static uint8_t *bytes;
static size_t length;

static int start(void)
{
    td_error e = {0};
    whole = td_ir_read(text, strlen(text), &e);
    bytes = whole ? td_ir_encode(whole, &length, &e) : NULL;
    return !bytes;
}

static int stop(void)
{
    td_ir_unref(whole);
    free(bytes);
    return 0;
}

/* Each gives 0 or the error's code. */
static int reads(td_error *e)
{
    td_ir *ir = td_ir_read(text, strlen(text), e);
    td_ir_unref(ir);
    return ir ? 0 : e->code;
}

static int unpacks(td_error *e)
{
    td_ir *ir = td_ir_decode(bytes, length, 0, e);
    td_ir_unref(ir);
    return ir ? 0 : e->code;
}

static int packs(td_error *e)
{
    size_t n;
    uint8_t *packed = td_ir_encode(whole, &n, e);
    free(packed);
    return packed ? 0 : e->code;
}

static int prints(td_error *e)
{
    char *printed = td_ir_print(whole, e);
    free(printed);
    return printed ? 0 : e->code;
}

static int verifies(td_error *e)
{
    return td_ir_verify(whole, 0, e);
}

static int changes(td_error *e)
{
    uint32_t returns[2];
    td_ir_edit *edit = td_ir_edit_new(whole, TD_IR_MAX_NODES, e);
    if (!edit) return e->code;
    uint32_t loop = td_ir_now(edit)->blocks[0].first, in = td_ir_in(td_ir_now(edit), loop, 2);
    td_ir_to_before(edit, loop);
    td_ir_clone(edit, td_ir_child(edit, loop, 0), (uint32_t[]){td_ir_int(edit, 0), in}, returns);
    for (int i = 0; i < 40; i++) td_ir_str(edit, &"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqr"[i], 3);
    td_ir *ir = td_ir_seal(edit, e);
    td_ir_unref(ir);
    return ir ? 0 : e->code;
}

static int passes(td_error *e)
{
    const td_pass *all[16];
    for (uint32_t k = 0; k < td_pass_count; k++) all[k] = &td_pass_list[k];
    td_ir *ir = td_ir_pass(whole, td_pass_count, all, e);
    td_ir_unref(ir);
    return ir ? 0 : e->code;
}

/* Without memory the program stays as it is. */
static int improves(td_error *e)
{
    (void)e;
    td_ir *ir = td_ir_improve(td_ir_ref(whole));
    CU_ASSERT_PTR_NOT_NULL(ir);
    td_ir_unref(ir);
    return 0;
}

static void starve(int (*what)(td_error *e), int least)
{
    int n = 0, rc;
    do {
        td_error e = {0};
        int64_t before = live;
        until_failure = ++n;
        rc = what(&e);
        bool failed = until_failure == 0; /* or there were fewer allocations */
        until_failure = 0;
        CU_ASSERT_EQUAL(live, before);
        CU_ASSERT_EQUAL(rc, e.code);
        if (rc) CU_ASSERT_EQUAL(rc, TD_E_SYSTEM);
        if (rc) CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "no memory "));
        if (!failed) break;
    } while (n < 10000);
    CU_ASSERT_EQUAL(rc, 0);
    CU_ASSERT_TRUE(n > least);
    CU_ASSERT_TRUE(n < 10000);
}

static void reading(void)
{
    starve(reads, 40);
}
static void unpacking(void)
{
    starve(unpacks, 40);
}
static void packing(void)
{
    starve(packs, 10);
}
static void printing(void)
{
    starve(prints, 1);
}
static void verifying(void)
{
    starve(verifies, 3);
}
static void changing(void)
{
    starve(changes, 40);
}
static void passing(void)
{
    starve(passes, 40);
}
static void improving(void)
{
    starve(improves, 20);
}

TD_CUNIT_MAIN_WITH("starved_program", start, stop, {"read", reading}, {"unpacked", unpacking}, {"packed", packing},
                   {"printed", printing}, {"verified", verifying}, {"changed", changing}, {"passed", passing},
                   {"improved", improving})
