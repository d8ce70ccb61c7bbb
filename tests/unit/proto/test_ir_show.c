/* Programs as sources and as pictures: every form of a statement, names that Python would take otherwise, and what must
 * not become XML or break out of quotes; large programs are cut. */
#include "cunit_main.h"
#include "proto/program/code.h"
#include "proto/program/edit.h"
#include "proto/program/picture.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"
#include <stdlib.h>

static td_ir *read_ir(const char *text)
{
    td_error e = {0};
    td_ir *ir = td_ir_read(text, strlen(text), &e);
    if (ir) td_ir_verify(ir, 0, &e);
    CU_ASSERT_STRING_EQUAL(e.message, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(ir);
    return ir;
}

static void code_is(const char *text, const char *wanted)
{
    td_error e = {0};
    td_ir *ir = read_ir(text);
    char *code = td_ir_code(ir, &e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(code);
    CU_ASSERT_STRING_EQUAL(code, wanted);
    if (strcmp(code, wanted) != 0) printf("%s", code);
    free(code);
    td_ir_unref(ir);
}

static void statements(void)
{
    code_is("captured %w : Tensor = \"fc.weight\"\n"
            "graph(%x : Tensor, %n : int, %b : bool, %s : float?, %l : Tensor[]):\n"
            "  %one : int = prim::Constant[value=1]()\n"
            "  %none : NoneType = prim::Constant()\n"
            "  %yes : bool = prim::Constant[value=1]()\n"
            "  %minus : float = prim::Constant[value=-0.5]()\n"
            "  %dims : int[] = prim::Constant[value=[2, -1]]()\n"
            "  %a : Tensor = td::matmul(%x, %w)\n"
            "  %c : Tensor = td::add[mode=1](%a, %minus, %one)\n"
            "  %d : Tensor = td::sum[mode=1](%c, %dims, %yes, %none)\n"
            "  %e : Tensor = td::mul_(%d, %minus)\n"
            "  %f : Tensor = td::copy_(%c, %d, %none)\n"
            "  %g : Tensor = td::copy(%f, %none)\n"
            "  %h : Tensor = prim::Loop(%n, %yes, %g)\n"
            "    block0(%i : int, %y : Tensor):\n"
            "      %z : Tensor = prim::If(%b)\n"
            "        block0():\n"
            "          %r : Tensor = td::relu(%y)\n"
            "          -> (%r)\n"
            "        block1():\n"
            "          -> (%y)\n"
            "      -> (%yes, %z)\n"
            "  %k : Tensor = fn::double(%h)\n"
            "  %t : Tensor = td::cat(%l, %one)\n"
            "  return (%k, %t)\n"
            "fn double(%x : Tensor):\n"
            "  %one.1 : int = prim::Constant[value=2]()\n"
            "  %y.1 : Tensor = td::mul(%x, %one.1)\n"
            "  return (%y.1)\n",
            "# w: captured as \"fc.weight\"\n\n\n"
            "def double(x_1):\n"
            "    y_1 = x_1 * 2\n"
            "    return y_1\n\n\n"
            "def forward(x, n: int, b: bool, s: float | None, l: list[td.Tensor]):\n"
            "    a = x @ w\n"
            "    with td.no_grad():\n"
            "        c = a + (-0.5)\n"
            "        d = td.ops.sum(c, [2, -1], True)\n"
            "    d.mul_(-0.5)\n"
            "    f = c.copy_(d)\n"
            "    g = f.clone()\n"
            "    y = g\n"
            "    for i in range(n):\n"
            "        if b:\n"
            "            r = td.ops.relu(y)\n"
            "            z = r\n"
            "        else:\n"
            "            z = y\n"
            "        y = z\n"
            "    h = y\n"
            "    k = double(h)\n"
            "    t = td.ops.cat(l, 1)\n"
            "    return (k, t)\n");
}

static void loops(void)
{
    code_is("graph(%x : Tensor, %n : int):\n"
            "  %most : int = prim::Constant[value=9223372036854775807]()\n"
            "  %zero : int = prim::Constant[value=0]()\n"
            "  %yes : bool = prim::Constant[value=1]()\n"
            "  %k : int = prim::Loop(%most, %yes, %zero)\n"
            "    block0(%i : int, %j : int):\n"
            "      %j2 : int = prim::add.int(%j, %n)\n"
            "      %go : bool = prim::lt.int(%j2, %n)\n"
            "      -> (%go, %j2)\n"
            "  prim::Loop(%n, %yes)\n"
            "    block0(%i.1 : int):\n"
            "      %go.1 : bool = prim::item.bool(%x)\n"
            "      -> (%go.1)\n"
            "  return (%k)\n",
            "def forward(x, n: int):\n"
            "    j = 0\n"
            "    v3_go = True\n"
            "    while v3_go:\n"
            "        j2 = j + n\n"
            "        go = j2 < n\n"
            "        v3_go = go\n"
            "        j = j2\n"
            "    k = j\n"
            "    v4_go = True\n"
            "    for i_1 in range(n):\n"
            "        if not v4_go:\n"
            "            break\n"
            "        go_1 = bool(x)\n"
            "        v4_go = go_1\n"
            "    return k\n");
}

static void names(void)
{
    code_is("graph(%lambda : Tensor, %a.1 : Tensor, %a_1 : Tensor, %v3 : Tensor):\n"
            "  %kind : str = prim::Constant[value=\"ValueError\"]()\n"
            "  %why : str = prim::Constant[value=\"it's \\\"so\\\"\\n\"]()\n"
            "  %minus : float = prim::Constant[value=-inf]()\n"
            "  %6 : Tensor = td::relu(%v3)\n"
            "  %l : Tensor[] = prim::ListConstruct(%lambda, %a.1, %a_1, %6)\n"
            "  %t : (Tensor) = prim::TupleConstruct(%6)\n"
            "  %u : Tensor = td::pow(%6, %minus)\n"
            "  prim::Raise(%kind, %why)\n"
            "  return (%l)\n",
            "def forward(lambda_, a_1, a_1_v2_0_, v3_):\n"
            "    v7 = td.ops.relu(v3_)\n"
            "    l = [lambda_, a_1, a_1_v2_0_, v7]\n"
            "    t = (v7,)\n"
            "    u = v7 ** (-td.inf)\n"
            "    raise ValueError(\"it's \\\"so\\\"\\n\")\n"
            "    return l\n");
}

/* ---- pictures */

/* By hand: the address sanitizer's strstr() and strchr() look through all of the rest each time. */
static int count(const char *text, const char *part)
{
    int n = 0;
    for (; *text; text++) {
        int k = 0;
        while (part[k] && text[k] == part[k]) k++;
        n += !part[k];
    }
    return n;
}

static const char branches[] = "captured %w : Tensor = \"a<b>&\\\"c\\\"\\x01\"\n"
                               "graph(%x : Tensor, %b : bool):\n"
                               "  %two : int = prim::Constant[value=2]()\n"
                               "  %a : Tensor = td::mul(%x, %two) # mo<del.py:3:1\n"
                               "  %y : Tensor = prim::If(%b)\n"
                               "    block0():\n"
                               "      %p : Tensor = td::relu(%a)\n"
                               "      -> (%p)\n"
                               "    block1():\n"
                               "      -> (%w)\n"
                               "  %z : Tensor = td::neg(%y)\n"
                               "  return (%z)\n";

static void pictures(void)
{
    td_error e = {0};
    td_ir *ir = read_ir(branches);
    char *dot = td_ir_dot(ir, &e), *svg = td_ir_svg(ir, &e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dot);
    CU_ASSERT_PTR_NOT_NULL_FATAL(svg);
    CU_ASSERT_EQUAL(count(dot, "[label="), 9); /* w; x, b; mul, if, relu, two ends, neg, return */
    CU_ASSERT_EQUAL(count(dot, "subgraph"), 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(dot, "label=\"td::mul(x, 2)\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(dot, "a<b>&\\\"c\\\""));
    CU_ASSERT_EQUAL(count(dot, "-> n7;"), 2); /* neg: of either arm */
    CU_ASSERT_EQUAL(count(svg, "<rect "), 9);
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "a&lt;b&gt;&amp;"));
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "<title>mo&lt;del.py:3</title>"));
    CU_ASSERT_PTR_NULL(strchr(svg, 1));
    free(dot), free(svg);
    td_ir_unref(ir);
}

/* The beginning of a large one, and how much there is beyond. */
static void large(void)
{
    enum { NODES = 60000 };
    td_error e = {0};
    td_ir_edit *edit = td_ir_edit_new(NULL, TD_IR_MAX_NODES, &e);
    td_ir_function_new(edit, NULL);
    uint32_t tensor = td_type_any_tensor(edit), x = td_ir_param_new(edit, td_ir_cursor(edit), tensor, "x");
    for (int k = 0; k < NODES; k++) {
        x = td_ir_result(edit, td_ir_op(edit, TD_IR_TD | td_op_by_name("relu")->id, 1, &x, 1, &tensor));
        td_ir_name(edit, x, "x");
    }
    td_ir_returns(edit, td_ir_cursor(edit), 1, &x);
    td_ir *ir = td_ir_seal(edit, &e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ir);
    char *dot = td_ir_dot(ir, &e), *svg = td_ir_svg(ir, &e), *code = td_ir_code(ir, &e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dot);
    CU_ASSERT_PTR_NOT_NULL_FATAL(svg);
    CU_ASSERT_PTR_NOT_NULL_FATAL(code);
    CU_ASSERT_EQUAL(count(svg, "<rect "), TD_PICTURE_BOXES + 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "... and 55905 more"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dot, "... and 55905 more"));
    CU_ASSERT_EQUAL(count(code, "td.ops.relu("), NODES);
    CU_ASSERT_PTR_NOT_NULL(strstr(code, "    return x_60000\n"));
    free(dot), free(svg), free(code);
    td_ir_unref(ir);
}

TD_CUNIT_MAIN("proto_ir_show", {"statements", statements}, {"loops", loops}, {"names", names}, {"pictures", pictures},
              {"large programs", large})
