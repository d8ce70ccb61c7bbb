/* Programs as texts: what is printed is read as the same module, and a bad text is told by line, column and caret. */
#include "cunit_main.h"
#include "proto/program/edit.h"
#include "proto/program/literal.h"
#include "proto/program/text.h"
#include <stdlib.h>

static td_ir *read_ir(const char *text)
{
    td_error e = {0};
    td_ir *ir = td_ir_read(text, strlen(text), &e);
    CU_ASSERT_STRING_EQUAL(e.message, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(ir);
    return ir;
}

static void prints_as(const char *text, const char *wanted)
{
    td_ir *ir = read_ir(text);
    char *printed = td_ir_print(ir, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(printed);
    CU_ASSERT_STRING_EQUAL(printed, wanted);
    if (strcmp(printed, wanted) != 0) printf("printed:\n%s", printed);
    td_ir *again = read_ir(printed);
    CU_ASSERT_TRUE(td_ir_equal(ir, again));
    td_ir_unref(ir), td_ir_unref(again);
    free(printed);
}

static void stays(const char *text)
{
    prints_as(text, text);
}

/* The texts of a file, between lines of "----". */
static void golden(const char *path)
{
    FILE *f = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    char *all = calloc(1, 1 << 16);
    size_t n = fread(all, 1, (1 << 16) - 1, f);
    CU_ASSERT_TRUE(n > 100);
    fclose(f);
    for (char *at = all, *end; at; at = end ? end + 5 : NULL) {
        end = strstr(at, "----\n");
        if (end) *end = 0;
        stays(at);
    }
    free(all);
}

static void goldens(void)
{
    golden(TD_TESTS "/graph/golden/text.ir");
    golden(TD_TESTS "/graph/golden/torch.ir"); /* which torch reads too: tests/graph/check_parse_ir.py */
}

static void is_lenient(void)
{
    prints_as(
        "graph(%x : int,\n      %y : int):\n   = prim::Print(%x, %y) # <string>:1:2\n  return (%x)\n", /* torch's */
        "graph(%x : int, %y : int):\n  prim::Print(%x, %y) # <string>:1:2\n  return (%x)\n");
    prints_as(
        "# a comment\n\n  graph( %a : Optional[int] ,%b:float ) :\r\n\n # another\n\t%12 : float=prim::neg.float( %b)\n"
        "return(%12 )",
        "graph(%a : int?, %b : float):\n  %2 : float = prim::neg.float(%b)\n  return (%2)\n");
    prints_as("captured %w : Tensor\ngraph():\n  return (%w)\n",
              "captured %w : Tensor = \"w\"\ngraph():\n  return (%w)\n");
}

/* Names hold in their function; in a sealed module no two values have one name. */
static void names_are_told_apart(void)
{
    prints_as(
        "graph(%x : int):\n  %y : int = fn::f(%x)\n  return (%y)\nfn f(%x : int):\n  %x.1 : int = prim::neg.int(%x)\n"
        "  return (%x.1)\n",
        "graph(%x : int):\n  %y : int = fn::f(%x)\n  return (%y)\nfn f(%x.1 : int):\n"
        "  %x.2 : int = prim::neg.int(%x.1)\n  return (%x.2)\n");
}

/* Any bytes that are a file's name come back. */
static void keeps_sources(void)
{
    static const char *const files[] = {"a.py", "a b:1:2", "", " x", "x ", "\"q\"", "b\n:3:4\\", "\xc3\xa4.py", "a\"b"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        td_ir_edit *e = td_ir_edit_new(NULL, 10, NULL);
        td_ir_function_new(e, NULL);
        td_ir_from(e, files[i], i ? 3 : UINT32_MAX, 0, i & 1 ? UINT32_MAX : 0);
        uint32_t v = td_ir_int(e, -1);
        td_ir_returns(e, td_ir_cursor(e), 1, &v);
        td_ir *ir = td_ir_seal(e, NULL);
        char *text = td_ir_print(ir, NULL);
        td_ir *again = read_ir(text);
        CU_ASSERT_TRUE(td_ir_equal(ir, again));
        free(text);
        td_ir_unref(ir), td_ir_unref(again);
    }
}

static void keeps_floats(void)
{
    static const double all[] = {0.1, -0.0, 1e308 * 10, 5e-324, 1.0 / 3, 123456789012345678.0, 1, -1e308 * 10};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        td_ir_edit *e = td_ir_edit_new(NULL, 10, NULL);
        td_ir_function_new(e, NULL);
        uint32_t v = td_ir_float(e, all[i]);
        td_ir_returns(e, td_ir_cursor(e), 1, &v);
        td_ir *ir = td_ir_seal(e, NULL);
        char *text = td_ir_print(ir, NULL);
        td_ir *again = read_ir(text);
        CU_ASSERT_TRUE(td_ir_equal(ir, again));
        free(text);
        td_ir_unref(ir), td_ir_unref(again);
    }
}

#define G "graph(%x : Tensor):\n"

static void bad_texts_are_told(void)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"", "1:1: 'captured' or 'graph' is expected here\n\n^"},
        {"graph(%x : Tensr):\n", "1:12: a type is expected here\ngraph(%x : Tensr):\n           ^"},
        {G "  %y : Tensor = td::relu(%z)\n",
         "2:27: there is no %z before this\n  %y : Tensor = td::relu(%z)\n                          ^"},
        {G "  %y : Tensor = td::rellu(%x)\n",
         "2:21: there is no such op\n  %y : Tensor = td::rellu(%x)\n                    ^"},
        {G "  %y : int = prim::add(%x, %x)\n",
         "2:20: there is no such op\n  %y : int = prim::add(%x, %x)\n                   ^"},
        {G "  %x : Tensor = td::relu(%x)\n", "2:4: %x is defined twice\n  %x : Tensor = td::relu(%x)\n   ^"},
        {G "  %1x : int = prim::Constant()\n", "2:4: this is no name of a value\n  %1x : int = prim::Constant()\n   ^"},
        {G "  %y : int = fn::f(%x)\n  return (%y)\n",
         "2:18: there is no such function\n  %y : int = fn::f(%x)\n                 ^"},
        {G "  %y : int = prim::Constant[value=1.5]()\n",
         "2:35: a whole number is expected here\n  %y : int = prim::Constant[value=1.5]()\n                            "
         "      ^"},
        {G "  %y : int = prim::Constant[value=9223372036854775808]()\n",
         "2:35: a number that does not fit into 64 bits\n  %y : int = prim::Constant[value=9223372036854775808]()\n    "
         "                              ^"},
        {G "  %y : str = prim::Constant[value=\"a]()\n",
         "2:35: a text without an end\n  %y : str = prim::Constant[value=\"a]()\n                                  ^"},
        {G "  %y : str = prim::Constant[value=\"\\q\"]()\n",
         "2:36: there is no such escape: \\n, \\\", \\\\ and \\xNN are\n  %y : str = prim::Constant[value=\"\\q\"]()\n "
         "                                  ^"},
        {G "  %y : dtype = prim::Constant[value=\"float31\"]()\n",
         "2:37: there is no such dtype\n  %y : dtype = prim::Constant[value=\"float31\"]()\n                           "
         "         ^"},
        {G "  %y : Tensor = prim::If(%x)\n  return (%x)\n", "3:3: block0 is expected here\n  return (%x)\n  ^"},
        {G "  %y : int = prim::Constant[values=1]()\n", "2:29: value, mode or rng is expected here\n  %y : int = "
                                                        "prim::Constant[values=1]()\n                            ^"},
        {G "  %y : Tensor = td::relu(%x) # here\n", "2:32: a source is FILE:LINE:COLUMN, or FILE:LINE:COLUMN-END\n  %y "
                                                    ": Tensor = td::relu(%x) # here\n                               ^"},
        {G "  %y : Tensor = td::relu(%x) 3\n",
         "2:30: the line ought to end here\n  %y : Tensor = td::relu(%x) 3\n                             ^"},
        {G, "2:1: the text ends before 'return'\n\n^"},
        {G "  return (%x)\n$", "3:1: this stands for nothing\n$\n^"},
        {G "  return (%x)\nmore", "3:1: 'fn' or the end is expected here\nmore\n^"},
        {"graph(%x : Float(1, 2, 3, 4, 5, 6, 7, 8, 9)):\n",
         "1:42: more than 8 sizes\ngraph(%x : Float(1, 2, 3, 4, 5, 6, 7, 8, 9)):\n                                     "
         "    ^"},
        {"graph(%x : Float(-1)):\n",
         "1:18: a size is a number, a name or *\ngraph(%x : Float(-1)):\n                 ^"},
        {"graph(%x : Float(device=gpu)):\n",
         "1:25: there is no such device\ngraph(%x : Float(device=gpu)):\n                        ^"},
        {"graph(%x : Dict(int)):\n", "1:16: a Dict is of two types\ngraph(%x : Dict(int)):\n               ^"},
        {G "  return (%x) \x01\x1f ~\x7f\xc3\xa4\n", /* each byte that is no visible character of ASCII is a dot */
         "2:15: this stands for nothing\n  return (%x) .. ~...\n              ^"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        td_error e = {0};
        td_ir *ir = td_ir_read(rows[i].text, strlen(rows[i].text), &e);
        CU_ASSERT_PTR_NULL(ir);
        CU_ASSERT_EQUAL(e.code, TD_E_INVALID);
        CU_ASSERT_STRING_EQUAL(e.message, rows[i].said);
        if (strcmp(e.message, rows[i].said) != 0) printf("said:\n%s\nfor:\n%s\n", e.message, rows[i].text);
    }
}

static char *repeat(const char *before, const char *what, int n, const char *behind)
{
    size_t length = strlen(what);
    char *text = malloc(strlen(before) + (size_t)n * length + strlen(behind) + 1), *at = stpcpy(text, before);
    for (int i = 0; i < n; i++) at = stpcpy(at, what);
    strcpy(at, behind);
    return text;
}

static void depth_is_bounded(void)
{
    static const char *const rows[][3] = {
        {"graph(%x : ", "(", ""},
        {"graph(%x : ", "Optional[", ""},
        {"graph(%x : int", "[]", "):\n  return (%x)\n"},
        {"graph(%x : bool):\n", "prim::If(%x)\nblock0():\n", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        td_error e = {0};
        char *text = repeat(rows[i][0], rows[i][1], 100000, rows[i][2]);
        CU_ASSERT_PTR_NULL(td_ir_read(text, strlen(text), &e));
        CU_ASSERT_PTR_NOT_NULL(
            strstr(e.message, i == 2 ? "a type is made of more than" : "lie too deep in each other"));
        free(text);
    }
}

/* A text that is cut anywhere is refused, or is a whole one. */
static void cut_texts(void)
{
    static const char text[] = "captured %w : Float(2, n, device=cuda:1) = \"w\"\ngraph(%x : Dict(str, int?[])):\n"
                               "  %y : str = prim::Constant[value=\"\\x01\"]() # f:1:2-3\n  return (%x, %y)\n";
    for (size_t n = 0; n + 1 < sizeof text; n++) {
        td_error e = {0};
        td_ir *ir = td_ir_read(text, n, &e);
        CU_ASSERT_EQUAL(ir != NULL, n + 2 == sizeof text);
        CU_ASSERT_EQUAL(ir != NULL, e.code == 0);
        td_ir_unref(ir);
    }
    stays(text);
}

TD_CUNIT_MAIN("proto_ir_text", {"printing and reading", goldens}, {"reading is lenient", is_lenient},
              {"names are told apart", names_are_told_apart}, {"sources come back", keeps_sources},
              {"floats come back", keeps_floats}, {"bad texts are told", bad_texts_are_told},
              {"depth is bounded", depth_is_bounded}, {"cut texts", cut_texts})
