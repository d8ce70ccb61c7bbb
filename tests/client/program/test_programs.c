/* Programs from C: results of all kinds, gradients through them, what they capture and write, branches that wait for
 * values, errors and where they come from, forked children, and that all of it goes again. */
#include "client/program/programs.h"
#include "client/tensord_bind.h"
#include "tests/client/common.h"

#include <sys/wait.h>
#include <unistd.h>

static td_program *read_program(td_client *c, const char *text, td_list captured)
{
    td_program *p = td_program_read(c, text, captured);
    if (!p) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    return p;
}
#define NOTHING td_arrays_of(0, NULL)

static td_array *numbers(td_client *c, int n, const double *v)
{
    return td_from_data(c, TD_FLOAT64, td_dims(n), v);
}

/* y = x; for i in range(n): y = y * i + x */
static const char polynomial[] = "graph(%x : Tensor, %n : int):\n"
                                 "  %yes : bool = prim::Constant[value=1]()\n"
                                 "  %one : int = prim::Constant[value=1]()\n"
                                 "  %y : Tensor = prim::Loop(%n, %yes, %x) # poly.py:2:4\n"
                                 "    block0(%i : int, %z : Tensor):\n"
                                 "      %p : Tensor = td::mul(%z, %i) # poly.py:3:12\n"
                                 "      %q : Tensor = td::add(%p, %x, %one) # poly.py:3:12\n"
                                 "      -> (%yes, %q)\n"
                                 "  return (%y)\n";

static void test_calls(void)
{
    td_client *c = join();
    td_program *p = read_program(c, polynomial, NOTHING);
    char *text = td_program_print(p, TD_TEXT_IR);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "prim::Loop(%n, %yes, %x) # poly.py:2:4"));
    free(text);
    for (int n = 0; n < 200; n += 7) {
        td_array *x = numbers(c, 2, (double[]){0.5, -2});
        td_value out, in[] = {td_value_array(x), td_value_int(n % 12)};
        CU_ASSERT_EQUAL_FATAL(td_program_call(p, 2, in, &out), TD_OK);
        CU_ASSERT_EQUAL_FATAL(out.kind, TD_VALUE_ARRAY);
        double y = 1;
        for (int i = 0; i < n % 12; i++) y = y * i + 1;
        CHECK_VALUES(out.array, 0.5 * y, -2 * y);
        td_value_free(&out);
        td_release(x);
    }
    td_program_free(p);
    td_disconnect(c);
}

/* Many of them on their way, each with the result of the one before. */
static void test_pipelined(void)
{
    td_client *c = join();
    td_program *p = read_program(c, polynomial, NOTHING);
    td_array *x = numbers(c, 1, (double[]){1});
    for (int k = 0; k < 3000; k++) {
        td_value out, in[] = {td_value_array(x), td_value_int(1)};
        CU_ASSERT_EQUAL_FATAL(td_program_call(p, 2, in, &out), TD_OK); /* x * 0 + x */
        td_release(x);
        x = out.array;
    }
    CHECK_VALUES(x, 1);
    td_release(x);
    td_program_free(p);
    td_disconnect(c);
}

/* ---- values of all kinds */

static void test_values(void)
{
    td_client *c = join();
    td_program *p = read_program(c,
                                 "graph(%x : Tensor, %s : str, %l : int[], %o : float?, %t : (int, bool)):\n"
                                 "  %n : int = prim::len.list(%l)\n"
                                 "  %f : float = prim::item.float(%x)\n"
                                 "  %none : bool = prim::is_none(%o)\n"
                                 "  %all : Tensor[] = prim::ListConstruct(%x, %x)\n"
                                 "  return (%s, %n, %f, %none, %all, %t, %l)\n",
                                 NOTHING);
    td_array *x = numbers(c, 1, (double[]){2.5});
    td_value list[] = {td_value_int(4), td_value_int(-5)}, pair[] = {td_value_int(7), {TD_VALUE_BOOL, 0, {.i = 1}, 0}};
    td_value in[] = {td_value_array(x),
                     {TD_VALUE_STR, 6, {.text = "grüß"}, 0},
                     {TD_VALUE_LIST, 2, {.items = list}, 0},
                     {TD_VALUE_NONE, 0, {0}, 0},
                     {TD_VALUE_TUPLE, 2, {.items = pair}, 0}};
    td_value out;
    int rc = td_program_call(p, 5, in, &out);
    if (rc) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_EQUAL_FATAL(rc, TD_OK);
    CU_ASSERT_EQUAL_FATAL(out.kind, TD_VALUE_TUPLE);
    CU_ASSERT_EQUAL_FATAL(out.n, 7);
    const td_value *v = out.items;
    CU_ASSERT_TRUE(v[0].kind == TD_VALUE_STR && v[0].n == 6 && strcmp(v[0].text, "grüß") == 0);
    CU_ASSERT_TRUE(v[1].kind == TD_VALUE_INT && v[1].i == 2);
    CU_ASSERT_TRUE(v[2].kind == TD_VALUE_FLOAT && v[2].re == 2.5);
    CU_ASSERT_TRUE(v[3].kind == TD_VALUE_BOOL && v[3].i == 1);
    CU_ASSERT_TRUE(v[4].kind == TD_VALUE_LIST && v[4].n == 2 && v[4].items[1].kind == TD_VALUE_ARRAY);
    CHECK_VALUES(v[4].items[1].array, 2.5);
    CU_ASSERT_TRUE(v[5].kind == TD_VALUE_TUPLE && v[5].items[0].i == 7 && v[5].items[1].kind == TD_VALUE_BOOL);
    CU_ASSERT_TRUE(v[6].kind == TD_VALUE_LIST && v[6].items[1].i == -5);
    td_value_free(&out);
    td_release(x);
    td_program_free(p);
    td_disconnect(c);
}

/* while x.sum() < 100: x = x * x */
static const char squares[] = "graph(%x : Tensor):\n"
                              "  %most : int = prim::Constant[value=9223372036854775807]()\n"
                              "  %zero : int = prim::Constant[value=0]()\n"
                              "  %one : int = prim::Constant[value=1]()\n"
                              "  %no : bool = prim::Constant[value=0]()\n"
                              "  %none : NoneType = prim::Constant()\n"
                              "  %limit : float = prim::Constant[value=100.]()\n"
                              "  %s : Tensor = td::sum(%x, %none, %no, %none)\n"
                              "  %f : float = prim::item.float(%s)\n"
                              "  %go : bool = prim::lt.float(%f, %limit)\n"
                              "  %y : Tensor, %n : int = prim::Loop(%most, %go, %x, %zero)\n"
                              "    block0(%i : int, %z : Tensor, %k : int):\n"
                              "      %z2 : Tensor = td::mul(%z, %z)\n"
                              "      %k2 : int = prim::add.int(%k, %one)\n"
                              "      %s2 : Tensor = td::sum(%z2, %none, %no, %none)\n"
                              "      %f2 : float = prim::item.float(%s2)\n"
                              "      %go2 : bool = prim::lt.float(%f2, %limit)\n"
                              "      -> (%go2, %z2, %k2)\n"
                              "  return (%y, %n)\n";

/* A branch by values that workers are still computing. */
static void test_dicts(void)
{
    td_client *c = join();
    td_program *p = read_program(c,
                                 "graph(%d : Dict(str, Tensor)):\n"
                                 "  %1 : Tensor[] = prim::values(%d)\n"
                                 "  return (%d, %1)\n",
                                 NOTHING);
    td_array *x = numbers(c, 1, (double[]){2.5});
    td_value a = {TD_VALUE_STR, 1, {.text = "a"}, 0}, b = {TD_VALUE_STR, 1, {.text = "b"}, 0}, out;
    td_value pairs[] = {b, td_value_array(x), a, td_value_array(x)}, in = {TD_VALUE_DICT, 4, {.items = pairs}, 0};
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, &in, &out), TD_OK);
    const td_value *d = &out.items[0];
    CU_ASSERT_TRUE(d->kind == TD_VALUE_DICT && d->n == 4 && strcmp(d->items[0].text, "b") == 0 && out.items[1].n == 2);
    CHECK_VALUES(d->items[3].array, 2.5);
    td_value_free(&out);
    pairs[0] = a;
    CHECK_FAILS(td_program_call(p, 1, &in, &out), TD_E_INVALID, "each once");
    pairs[0] = td_value_int(1);
    CHECK_FAILS(td_program_call(p, 1, &in, &out), TD_E_INVALID, "the keys of a dict are ints, or texts");
    pairs[0] = td_value_array(x);
    CHECK_FAILS(td_program_call(p, 1, &in, &out), TD_E_INVALID, "the keys of a dict");
    in.n = 3;
    pairs[0] = b;
    CHECK_FAILS(td_program_call(p, 1, &in, &out), TD_E_INVALID, "a key and a value each");
    td_release(x);
    td_program_free(p);
    td_disconnect(c);
}

static void test_waits(void)
{
    td_client *c = join();
    td_program *p = read_program(c, squares, NOTHING);
    td_array *ones = td_full(c, td_dims(700, 700), 1.0, TD_FLOAT64), *big = td_mm(ones, ones);
    td_array *row = td_slice(big, 0, td_arg_int(0), td_arg_int(1), 1), *x = td_div(row, 700.0 * 4);
    td_value out, in[] = {td_value_array(x)};
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, in, &out), TD_OK);
    CU_ASSERT_EQUAL(out.items[1].i, 0); /* 175, in whatever order it is summed */
    td_value_free(&out);
    td_array *y = numbers(c, 3, (double[]){1, 2, 1});
    in[0] = td_value_array(y);
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, in, &out), TD_OK);
    CU_ASSERT_EQUAL(out.items[1].i, 3);
    CHECK_VALUES(out.items[0].array, 1, 256, 1);
    td_value_free(&out);
    td_release(ones), td_release(big), td_release(row), td_release(x), td_release(y);
    td_program_free(p);
    td_disconnect(c);
}

/* A shape that only values tell, in the middle. */
static void test_shapes_of_values(void)
{
    if (lacks("nonzero")) return;
    td_client *c = join();
    td_program *p = read_program(c,
                                 "graph(%x : Tensor):\n"
                                 "  %zero : int = prim::Constant[value=0]()\n"
                                 "  %at : Tensor = td::nonzero(%x)\n"
                                 "  %n : int = prim::size.dim(%at, %zero)\n"
                                 "  return (%at, %n)\n",
                                 NOTHING);
    td_array *x = numbers(c, 4, (double[]){0, 3, 0, 4});
    td_value out, in[] = {td_value_array(x)};
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, in, &out), TD_OK);
    CU_ASSERT_EQUAL(out.items[1].i, 2);
    CHECK_VALUES(out.items[0].array, 1, 3);
    td_value_free(&out);
    td_release(x);
    td_program_free(p);
    td_disconnect(c);
}

/* ---- tensors that it holds, and gradients */

static void test_gradients(void)
{
    td_client *c = join();
    td_array *w = numbers(c, 1, (double[]){3}), *x = numbers(c, 1, (double[]){2}), *g = NULL, *gg = NULL;
    td_set_requires_grad(w, true);
    td_program *p = read_program(c,
                                 "captured %w : Tensor = \"w\"\n"
                                 "graph(%x : Tensor):\n"
                                 "  %a : Tensor = td::mul(%w, %w)\n"
                                 "  %b : Tensor = td::mul(%a, %x)\n"
                                 "  return (%b)\n",
                                 td_arrays(w));
    td_value out, in[] = {td_value_array(x)};
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, in, &out), TD_OK);
    CHECK_VALUES(out.array, 18);
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(out.array), NOTHING, td_arrays(w), TD_CREATE_GRAPH, &g), TD_OK);
    CHECK_VALUES(g, 12);
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(g), NOTHING, td_arrays(w), 0, &gg), TD_OK);
    CHECK_VALUES(gg, 4);
    td_set_grad_enabled(false);
    td_value quiet;
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, in, &quiet), TD_OK);
    td_set_grad_enabled(true);
    td_info info;
    CU_ASSERT_EQUAL(td_get_info(quiet.array, &info), TD_OK);
    CU_ASSERT_FALSE(info.requires_grad);
    td_value_free(&quiet), td_value_free(&out);
    td_release(w), td_release(x), td_release(g), td_release(gg);
    td_program_free(p);
    td_disconnect(c);
}

/* It writes to what it captured: the next run, and whoever looks at the bytes, see it. */
static void test_writes(void)
{
    if (is_away()) return;
    td_client *c = join();
    td_array *total = numbers(c, 1, (double[]){10}), *x = numbers(c, 1, (double[]){4});
    const double *seen = td_data(total);
    CU_ASSERT_PTR_NOT_NULL_FATAL(seen);
    td_program *p = read_program(c,
                                 "captured %total : Tensor = \"total\"\n"
                                 "graph(%x : Tensor):\n"
                                 "  %one : int = prim::Constant[value=1]()\n"
                                 "  %t : Tensor = td::add_(%total, %x, %one)\n"
                                 "  return (%t)\n",
                                 td_arrays(total));
    for (int k = 1; k < 4; k++) {
        td_value out, in[] = {td_value_array(x)};
        CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, in, &out), TD_OK);
        CHECK_VALUES(out.array, 10 + 4 * k);
        CHECK_VALUES(total, 10 + 4 * k);
        CU_ASSERT_EQUAL(*seen, 10 + 4 * k);
        td_value_free(&out);
    }
    td_release(total), td_release(x);
    td_program_free(p);
    td_disconnect(c);
}

/* ---- what goes wrong */

static void test_errors(void)
{
    td_client *c = join();
    CHECK_FAILS(td_program_read(c, "graph(%x : Tensor):\n  %y : Tensor = td::nosuch(%x)\n  return (%y)\n", NOTHING),
                TD_E_INVALID, "2:");
    CHECK_FAILS(td_program_read(c, "graph(%x : Tensor):\n  %y : int = td::neg(%x)\n  return (%y)\n", NOTHING),
                TD_E_INVALID, "neg");
    CHECK_FAILS(td_program_read(NULL, polynomial, NOTHING), TD_E_INVALID, "client");
    td_program *p = read_program(c, polynomial, NOTHING);
    td_array *x = numbers(c, 2, (double[]){1, 2});
    td_value out, in[] = {td_value_array(x), td_value_array(x), td_value_int(1)};
    CHECK_FAILS(td_program_call(p, 3, in, &out), TD_E_INVALID, "takes 2 arguments, and 3 are given");
    CHECK_FAILS(td_program_call(p, 2, in, &out), TD_E_TYPE, "argument 2 ('n') is int, and Tensor is given");
    CU_ASSERT_EQUAL(out.kind, TD_VALUE_NONE);
    td_program_free(p);

    p = read_program(c,
                     "graph(%x : Tensor, %y : Tensor):\n"
                     "  %m : Tensor = td::mm(%x, %y) # model.py:31:8\n"
                     "  return (%m)\n",
                     NOTHING);
    CU_ASSERT_EQUAL(td_program_at_call("serve.c:9", p, 2, in, &out), TD_OK);
    td_clear_error();
    CU_ASSERT_NOT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_STRING_EQUAL(td_last_error()->where, "model.py:31, called at serve.c:9");
    CU_ASSERT_STRING_EQUAL(td_last_error()->op, "mm");
    td_clear_error();
    td_value_free(&out);
    td_program_free(p);

    p = read_program(c, "graph(%l : int[]):\n  %n : int = prim::max.int_list(%l)\n  return (%n)\n", NOTHING);
    td_value number = {TD_VALUE_FLOAT, 0, {.re = 1}, 0}, list = {TD_VALUE_LIST, 1, {.items = &number}, 0};
    CHECK_FAILS(td_program_call(p, 1, &list, &out), TD_E_TYPE, "argument 1 ('l') of the program is of another type");
    list.n = 0;
    CHECK_FAILS(td_program_call(p, 1, &list, &out), TD_E_INVALID, "empty list"); /* an answer that is an error */
    CU_ASSERT_EQUAL(out.kind, TD_VALUE_NONE);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK); /* that was told */
    td_program_free(p);
    td_program_free(NULL);
    td_release(x);
    td_disconnect(c);
}

/* Functions in the subset of Python, with names from outside. */
static void test_scripts(void)
{
    td_client *c = join();
    td_array *w = numbers(c, 2, (double[]){10, 20}), *x = numbers(c, 2, (double[]){1, 2});
    td_binding names[] = {{"td", {TD_VALUE_NONE, 0, {0}, 0}, "tensord"},
                          {"w", td_value_array(w), NULL},
                          {"half", td_value_float(0.5), NULL}};
    td_program *p = td_program_script(c,
                                      "def twice(x):\n"
                                      "    return x + x\n"
                                      "\n"
                                      "def f(x, n: int):\n"
                                      "    for i in range(n):\n"
                                      "        x = twice(x) * half + w\n"
                                      "    return x\n",
                                      "model.py", 30, "f", 3, names);
    if (!p) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    td_value out, in[] = {td_value_array(x), td_value_int(3)};
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 2, in, &out), TD_OK);
    CHECK_VALUES(out.array, 31, 62);
    td_value_free(&out);
    td_program_free(p);
    CHECK_FAILS(td_program_script(c, "def f(x):\n    return np.log(x)\n", "model.py", 30, "f", 3, names),
                TD_E_UNSUPPORTED, "model.py:31:12: a program cannot call 'np.log'; use td.log");
    names[1].value.kind = TD_VALUE_LIST;
    CHECK_FAILS(td_program_script(c, "def f(x):\n    return x\n", NULL, 0, NULL, 3, names), TD_E_INVALID,
                "name 1, 'w'");
    td_release(w), td_release(x);
    td_disconnect(c);
}

/* What would let a client choose what the daemon takes for a pointer. */
static void test_types_that_lie(void)
{
    td_client *c = join();
    static const char *const texts[] = {
        "graph(%p : int?):\n  %n : NoneType = prim::unchecked_cast(%p)\n  return (%n)\n",
        "graph(%l : Tensor?[]):\n  %m : Tensor[] = prim::unchecked_cast(%l)\n  return (%m)\n",
        "captured %w : int[] = \"w\"\ngraph(%x : int):\n  %n : int = prim::len.list(%w)\n  return (%n)\n",
        "graph(%l : Tensor?[], %i : int):\n  %t : Tensor = prim::getitem.list(%l, %i)\n  return (%t)\n",
        ("graph(%l : Tensor[]):\n  %v : int = fn::f(%l)\n  return (%v)\n"
         "fn f(%m : Tensor?[]):\n  %n : int = prim::len.list(%m)\n  return (%n)\n")};
    td_array *w = numbers(c, 1, (double[]){1});
    for (unsigned k = 0; k < sizeof texts / sizeof texts[0]; k++)
        CHECK_FAILS(td_program_read(c, texts[k], k == 2 ? td_arrays(w) : NOTHING),
                    k == 2 ? TD_E_UNSUPPORTED : TD_E_INVALID, "");
    td_program *p = read_program(c,
                                 "graph(%x : int):\n"
                                 "  %u : Tensor = prim::Uninitialized()\n"
                                 "  %s : int[] = prim::shape(%u)\n"
                                 "  return (%s)\n",
                                 NOTHING);
    td_value out, in[] = {td_value_int(3)};
    CHECK_FAILS(td_program_call(p, 1, in, &out), TD_E_INVALID, "argument 1 has no value of its type: it is None");
    td_program_free(p);
    td_release(w);
    td_disconnect(c);
}

/* ---- what is seen of a program before it runs */

/* A program of these lines between its head and its end, which has %x, %l, %one, %no, %none and %empty. */
static td_program *of_lines(td_client *c, const char *lines, td_list captured)
{
    char text[2000];
    snprintf(text, sizeof text,
             "%sgraph(%%x : Tensor, %%l : Tensor[]):\n"
             "  %%one : int = prim::Constant[value=1]()\n"
             "  %%no : bool = prim::Constant[value=0]()\n"
             "  %%none : NoneType = prim::Constant()\n"
             "  %%empty : Tensor?[] = prim::ListConstruct()\n"
             "%s",
             captured.n ? "captured %w : Tensor = \"w\"\n" : "", lines);
    return read_program(c, text, captured);
}

#define GRADIENTS(op, type)                                                                                            \
    "  %outs : Tensor[] = prim::ListConstruct(%x)\n"                                                                   \
    "  %ins : Tensor[] = prim::ListConstruct(%x, %x, %x)\n"                                                            \
    "  %g : " type "[] = prim::" op "(%outs, %empty, %ins, %no, %no)\n"

enum { MANY = 1024, EXACTLY = 1, WRITES = 2, REACHES = 4, ENTERS = 8, PRINTS = 16 };

static const struct {
    const char *lines;
    int narrays;
    unsigned effects;
} seen_of[] = {
    /* how many tensors it returns */
    {"  return ()\n", 0, 0},
    {"  return (%x)\n", 1, EXACTLY},
    {"  return (%one)\n", 0, 0},
    {"  return (%x, %one)\n", 1, 0},
    {"  return (%l)\n", MANY, 0},
    {"  return (%l, %x)\n", MANY + 1, 0},
    {"  return (%none)\n", 0, 0},
    {"  %t : (Tensor, Tensor) = prim::TupleConstruct(%x, %x)\n  return (%t, %x)\n", 3, EXACTLY},
    {"  %t : (Tensor?, Tensor) = prim::TupleConstruct(%x, %x)\n  return (%t)\n", 2, EXACTLY},
    {"  %t : (Tensor, int) = prim::TupleConstruct(%x, %one)\n  return (%t)\n", 1, 0},
    {"  %a : Tensor[] = prim::ListConstruct(%x, %x)\n  return (%a)\n", 2, 0},
    {"  %a : Tensor[] = prim::ListConstruct()\n  return (%x, %a)\n", 1, 0},
    {"  %a : int[] = prim::ListConstruct(%one, %one)\n  return (%a)\n", 0, 0},
    {"  %a : Tensor[] = prim::ListConstruct(%x, %x)\n  return (%a, %a)\n", 2 * MANY, 0},
    {"  %a : Tensor[] = prim::ListConstruct(%x)\n  prim::append(%a, %x)\n  return (%a)\n", MANY, 0},
    {"  %a : Tensor[] = prim::ListConstruct(%x)\n  %b : Tensor[][] = prim::ListConstruct(%a, %a)\n  return (%b)\n",
     MANY, 0},
    {"  %a : Tensor[] = prim::ListConstruct(%x, %x)\n"
     "  %t : (Tensor[], Tensor) = prim::TupleConstruct(%a, %x)\n  return (%t)\n",
     3, 0},
    {"  %a : Tensor[] = prim::copy.list(%l)\n  return (%a)\n", MANY, 0},
    {GRADIENTS("autograd_grad", "Tensor") "  return (%g)\n", 3, WRITES | REACHES},
    {GRADIENTS("autograd_grad_or_none", "Tensor?") "  return (%g)\n", 3, WRITES | REACHES},
    {GRADIENTS("autograd_grad", "Tensor") "  prim::append(%g, %x)\n  return (%g)\n", MANY, WRITES | REACHES},
    {GRADIENTS("autograd_grad", "Tensor") "  prim::append(%ins, %x)\n  return (%g)\n", MANY, WRITES | REACHES},
    {"  %outs : Tensor[] = prim::ListConstruct(%x)\n"
     "  %g : Tensor[] = prim::autograd_grad(%outs, %empty, %l, %no, %no)\n  return (%g)\n",
     MANY, WRITES | REACHES},
    {"  %outs : Tensor[] = prim::ListConstruct(%x)\n  %ins : Tensor[] = prim::copy.list(%l)\n"
     "  %g : Tensor[] = prim::autograd_grad(%outs, %empty, %ins, %no, %no)\n  return (%g)\n",
     MANY, WRITES | REACHES},
    {"  %g : Tensor? = prim::grad(%x)\n  return (%g)\n", 1, WRITES | REACHES},
    /* what it writes, and what enters a graph by that */
    {"  %y : Tensor = td::neg(%x)\n  return (%y)\n", 1, EXACTLY},
    {"  %y : Tensor = td::neg_(%x)\n  return (%y)\n", 1, EXACTLY | WRITES},
    {"  %y : Tensor = td::add_(%x, %x, %one)\n  return (%y)\n", 1, EXACTLY | WRITES | ENTERS},
    {"  %y : Tensor = td::add_(%x, %one, %one)\n  return (%y)\n", 1, EXACTLY | WRITES},
    {"  %y : Tensor = td::add_[mode=2](%x, %x, %one)\n  return (%y)\n", 1, EXACTLY | WRITES},
    {"  %v : Tensor = td::t(%x)\n  %y : Tensor = td::add_(%v, %x, %one)\n  return (%y)\n", 1,
     EXACTLY | WRITES | ENTERS},
    {"  %v : Tensor = td::transpose(%x, %one, %one)\n  %y : Tensor = td::add_(%v, %x, %one)\n  return (%y)\n", 1,
     EXACTLY | WRITES | ENTERS},
    {"  %v : Tensor = td::neg(%x)\n  %y : Tensor = td::add_(%v, %x, %one)\n  return (%y)\n", 1, EXACTLY | WRITES},
    {"  %v : Tensor = td::neg(%x)\n  %u : Tensor = td::neg_(%v)\n  %y : Tensor = td::add_(%u, %x, %one)\n"
     "  return (%y)\n",
     1, EXACTLY | WRITES},
    /* and whether it prints */
    {"  prim::Print(%x)\n  return (%x)\n", 1, EXACTLY | PRINTS}};

static void test_what_is_seen(void)
{
    td_client *c = join();
    for (unsigned k = 0; k < sizeof seen_of / sizeof seen_of[0]; k++) {
        td_program *p = of_lines(c, seen_of[k].lines, NOTHING);
        unsigned effects =
            p->exactly * EXACTLY | p->writes * WRITES | p->reaches * REACHES | p->enters * ENTERS | p->prints * PRINTS;
        bool same = p->narrays == seen_of[k].narrays && effects == seen_of[k].effects;
        if (!same) fprintf(stderr, "%d tensors, effects %u of\n%s", p->narrays, effects, seen_of[k].lines);
        CU_ASSERT_TRUE(same);
        td_program_free(p);
    }
    td_disconnect(c);
}

/* Lists that would take seconds, and answers that are no frame. */
static void test_too_much(void)
{
    td_client *c = join();
    td_program *p = read_program(c,
                                 "graph(%l : int[], %n : int):\n"
                                 "  %m : int[] = prim::mul.list(%l, %n)\n"
                                 "  %a : int[][] = prim::ListConstruct(%m, %m, %m, %m, %m, %m, %m, %m)\n"
                                 "  %b : int[][][] = prim::ListConstruct(%a, %a, %a, %a, %a, %a, %a, %a)\n"
                                 "  %d : int[][][][] = prim::ListConstruct(%b, %b, %b, %b, %b, %b, %b, %b)\n"
                                 "  return (%d)\n",
                                 NOTHING);
    td_value out, one = td_value_int(7), in[] = {{TD_VALUE_LIST, 1, {.items = &one}, 0}, td_value_int(2600000)};
    CHECK_FAILS(td_program_call(p, 2, in, &out), TD_E_INVALID, "at most 65536 items");
    in[1] = td_value_int(INT64_MAX);
    CHECK_FAILS(td_program_call(p, 2, in, &out), TD_E_INVALID, "at most 65536 items");
    in[1] = td_value_int(60000);
    CHECK_FAILS(td_program_call(p, 2, in, &out), TD_E_INVALID, "returns at most 1024 KB beside its tensors");
    in[1] = td_value_int(2);
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 2, in, &out), TD_OK);
    CU_ASSERT_EQUAL(out.items[7].items[7].items[7].items[1].i, 7);
    td_value_free(&out);
    td_program_free(p);

    td_disconnect(c);
}

/* `n` times the same tensor, of which a tuple has the last. */
static td_program *returns_many(td_client *c, int n)
{
    static char text[4 * 5000];
    char *at = text + sprintf(text, "graph(%%x : Tensor):\n  %%t : (Tensor) = prim::TupleConstruct(%%x)\n  return (");
    for (int k = 1; k < n; k++) at += sprintf(at, "%%x, ");
    strcpy(at, "%t)\n");
    return td_program_read(c, text, NOTHING);
}

static void test_as_many_tensors_as_a_record_takes(void)
{
    enum { MOST = 4095 };
    td_client *c = join();
    td_array *x = numbers(c, 1, (double[]){2.5});
    CHECK_FAILS(returns_many(c, MOST + 1), TD_E_UNSUPPORTED, "at most 4095 tensors");
    td_program *p = returns_many(c, MOST);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    td_value out, in[] = {td_value_array(x)};
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, in, &out), TD_OK);
    CU_ASSERT_TRUE_FATAL(out.kind == TD_VALUE_TUPLE && out.n == MOST && out.items[MOST - 1].kind == TD_VALUE_TUPLE);
    CHECK_VALUES(out.items[MOST - 1].items[0].array, 2.5);
    td_value_free(&out);
    td_program_free(p);
    td_release(x);
    td_disconnect(c);
}

/* As many arguments as a program may have; and what are none. */
static void test_numbers_of_arguments(void)
{
    enum { MOST = 4096 };
    td_client *c = join();
    td_program *p = read_program(c, "graph():\n  %one : int = prim::Constant[value=1]()\n  return (%one)\n", NOTHING);
    td_value out, *in = calloc(MOST + 1, sizeof *in);
    CU_ASSERT_EQUAL(td_program_call(p, 0, NULL, &out), TD_OK);
    CU_ASSERT_EQUAL(out.i, 1);
    CHECK_FAILS(td_program_call(p, -1, in, &out), TD_E_INVALID, "-1 arguments; from 0 to 4096 can be given");
    CHECK_FAILS(td_program_call(p, MOST + 1, in, &out), TD_E_INVALID, "4097 arguments; from 0 to 4096");
    CHECK_FAILS(td_program_call(p, 1, NULL, &out), TD_E_INVALID, "1 arguments; from 0 to 4096");
    CHECK_FAILS(td_program_call(p, MOST, in, &out), TD_E_INVALID, "the program takes 0 arguments, and 4096 are given");
    CHECK_FAILS(td_program_call(p, 0, NULL, NULL), TD_E_INVALID, "result is NULL");
    CHECK_FAILS(td_program_call(NULL, 0, NULL, &out), TD_E_INVALID, "the program is NULL");
    CU_ASSERT_EQUAL(out.kind, TD_VALUE_NONE);
    td_program_free(p);
    char *text = malloc(MOST * 16 + 100), *at = text + sprintf(text, "graph(");
    for (int k = 0; k < MOST; k++) at += sprintf(at, "%s%%a%d : int", k ? ", " : "", k);
    sprintf(at, "):\n  return (%%a%d)\n", MOST - 1);
    p = read_program(c, text, NOTHING);
    for (int k = 0; k < MOST; k++) in[k] = td_value_int(k);
    CU_ASSERT_EQUAL(td_program_call(p, MOST, in, &out), TD_OK);
    CU_ASSERT_EQUAL(out.i, MOST - 1);
    td_program_free(p);
    free(text), free(in);
    td_disconnect(c);
}

/* What a tuple may lack by its type is there by how it was made: nobody is asked. */
static void test_what_is_there_though_it_might_be_none(void)
{
    td_client *c = join();
    td_program *p = read_program(c,
                                 "graph(%x : Tensor):\n"
                                 "  %y : Tensor = td::neg(%x)\n"
                                 "  %t : (Tensor?, Tensor) = prim::TupleConstruct(%x, %y)\n"
                                 "  return (%t, %x)\n",
                                 NOTHING);
    td_array *x = numbers(c, 1, (double[]){2});
    td_value out, in[] = {td_value_array(x)};
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, in, &out), TD_OK);
    CU_ASSERT_TRUE_FATAL(out.kind == TD_VALUE_TUPLE && out.n == 2 && out.items[0].kind == TD_VALUE_TUPLE);
    CHECK_VALUES(out.items[0].items[0].array, 2);
    CHECK_VALUES(out.items[0].items[1].array, -2);
    CHECK_VALUES(out.items[1].array, 2);
    td_value_free(&out);
    td_release(x);
    td_program_free(p);
    td_disconnect(c);
}

/* A list may grow after it was written: its length is not what it was made of. */
static void test_lists_that_grow(void)
{
    td_client *c = join();
    td_program *p = read_program(c,
                                 "graph(%x : Tensor, %n : int):\n"
                                 "  %yes : bool = prim::Constant[value=1]()\n"
                                 "  %all : Tensor[] = prim::ListConstruct(%x)\n"
                                 "  %m : int = prim::Loop(%n, %yes, %n)\n"
                                 "    block0(%i : int, %a : int):\n"
                                 "      %y : Tensor = td::mul(%x, %i)\n"
                                 "      prim::append(%all, %y)\n"
                                 "      -> (%yes, %i)\n"
                                 "  return (%all)\n",
                                 NOTHING);
    td_array *x = numbers(c, 1, (double[]){2});
    td_value out, in[] = {td_value_array(x), td_value_int(0)};
    static const int lengths[] = {0, 1, 7, 1023};
    for (int k = 0; k < 4; k++) {
        in[1].i = lengths[k];
        CU_ASSERT_EQUAL_FATAL(td_program_call(p, 2, in, &out), TD_OK);
        CU_ASSERT_TRUE(out.kind == TD_VALUE_LIST && out.n == (uint32_t)lengths[k] + 1);
        CHECK_VALUES(out.items[lengths[k]].array, lengths[k] ? 2 * (lengths[k] - 1) : 2);
        td_value_free(&out);
    }
    in[1].i = 1024; /* nobody keeps room for more */
    CHECK_FAILS(td_program_call(p, 2, in, &out), TD_E_INVALID, "1024");
    CU_ASSERT_EQUAL(out.kind, TD_VALUE_NONE);
    td_release(x);
    td_program_free(p);
    td_sync(c);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_disconnect(c);
}

/* What is written through a list is there when the call returns. */
static void test_writes_through_a_list(void)
{
    if (is_away()) return;
    td_client *c = join();
    td_program *p = read_program(c,
                                 "graph(%l : Tensor[], %x : Tensor):\n"
                                 "  %zero : int = prim::Constant[value=0]()\n"
                                 "  %one : int = prim::Constant[value=1]()\n"
                                 "  %t : Tensor = prim::getitem.list(%l, %zero)\n"
                                 "  %u : Tensor = td::add_(%t, %x, %one)\n"
                                 "  return (%u)\n",
                                 NOTHING);
    td_array *w = td_zeros(c, td_dims(300000), TD_FLOAT64), *x = td_ones(c, td_dims(300000), TD_FLOAT64);
    const double *seen = td_data(w);
    CU_ASSERT_PTR_NOT_NULL_FATAL(seen);
    td_look_at look;
    CU_ASSERT_EQUAL(td_look(w, &look), TD_OK);
    for (int k = 1; k < 30; k++) {
        td_value item = td_value_array(w), out, in[] = {{TD_VALUE_LIST, 1, {.items = &item}, 0}, td_value_array(x)};
        CU_ASSERT_EQUAL_FATAL(td_program_call(p, 2, in, &out), TD_OK);
        CU_ASSERT_EQUAL(seen[299999], k);
        td_value_free(&out);
    }
    td_look_away(&look);
    td_release(w), td_release(x);
    td_program_free(p);
    td_disconnect(c);
}

/* A run that never ends harms nobody: others are served, and its end comes with its client's. */
static void test_for_ever(void)
{
    int ready[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
    td_client *c = join();
    int64_t tensors = status_at_rest(c, "tensors");
    pid_t pid = fork();
    if (pid == 0) {
        td_client *d = td_connect(server.socket);
        td_program *p = td_program_read(d,
                                        "graph(%x : Tensor):\n"
                                        "  %most : int = prim::Constant[value=9223372036854775807]()\n"
                                        "  %yes : bool = prim::Constant[value=1]()\n"
                                        "  %y : Tensor = prim::Loop(%most, %yes, %x)\n"
                                        "    block0(%i : int, %z : Tensor):\n"
                                        "      %n : Tensor = td::neg(%z)\n"
                                        "      -> (%yes, %n)\n"
                                        "  return (%y)\n",
                                        NOTHING);
        td_value out, in[] = {td_value_array(td_full(d, td_dims(10), 1.0, TD_FLOAT32))};
        if (!p || td_program_call(p, 1, in, &out) || td_flush(d) || write(ready[1], "", 1) != 1) _exit(1);
        td_sync(d);
        _exit(0);
    }
    char byte;
    CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
    for (int k = 0; k < 50; k++) {
        td_array *x = td_full(c, td_dims(3), k, TD_FLOAT64);
        CHECK_VALUES(x, k, k, k);
        td_release(x);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    td_disconnect(c);
    close(ready[0]), close(ready[1]);
}

/* A large program is read beside the loop; a client that is killed meanwhile leaves nothing of it. */
static void test_large(void)
{
    enum { NODES = 5000 };
    char *text = malloc(NODES * 64), *at = text;
    at += sprintf(at, "captured %%x0 : Tensor = \"w\"\ngraph():\n");
    for (int i = 0; i < NODES; i++) at += sprintf(at, "  %%x%d : Tensor = td::neg(%%x%d)\n", i + 1, i);
    sprintf(at, "  return (%%x%d)\n", NODES);
    td_client *c = join();
    td_sync(c);
    int64_t tensors = status_at_rest(c, "tensors");
    td_array *w = numbers(c, 1, (double[]){3});
    td_program *p = read_program(c, text, td_arrays(w));
    td_value out;
    CU_ASSERT_EQUAL_FATAL(td_program_call(p, 0, NULL, &out), TD_OK);
    CHECK_VALUES(out.array, 3);
    td_release(out.array), td_release(w);
    td_program_free(p);
    for (int k = 0; k < 3; k++) {
        pid_t pid = fork();
        if (pid == 0) {
            td_client *d = td_connect(server.socket);
            td_array *x = td_full(d, td_dims(10), 1.0, TD_FLOAT32);
            for (;;) td_program_free(td_program_read(d, text, td_arrays(x)));
        }
        CU_ASSERT_TRUE(comes_to(c, "tensors", tensors + 1));
        test_sleep_ms(7 * k);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    }
    CU_ASSERT_TRUE(comes_to(c, "sessions", 1));
    td_disconnect(c);
    free(text);
}

/* A forked child has its parent's programs; and at the end nothing is left. */
static void test_forks_and_ends(void)
{
    td_client *c = join();
    td_sync(c);
    int64_t tensors = status_at_rest(c, "tensors");
    td_program *p = read_program(c, polynomial, NOTHING);
    td_array *x = numbers(c, 1, (double[]){1});
    td_sync(c);
    pid_t pid = fork();
    if (pid == 0) {
        td_value out, in[] = {td_value_array(x), td_value_int(3)};
        double y = 0;
        _exit(!td_program_call(p, 2, in, &out) && !td_read(out.array, &y, 8) && y == 5 ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CU_ASSERT_EQUAL(status, 0);
    td_program_free(p);
    td_release(x);
    td_sync(c);
    CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    td_disconnect(c);
}

/* A program without an end is stopped by the clock, whether it gives tensors only or not; the next call has its own. */
static void test_timeouts(void)
{
    static const char tensors[] = "graph(%x : Tensor):\n"
                                  "  %yes : bool = prim::Constant[value=1]()\n"
                                  "  %ever : int = prim::Constant[value=9223372036854775807]()\n"
                                  "  %y : Tensor = prim::Loop(%ever, %yes, %x)\n"
                                  "    block0(%i : int, %z : Tensor):\n"
                                  "      %u : Tensor = td::neg(%z)\n"
                                  "      -> (%yes, %u)\n"
                                  "  return (%y)\n";
    static const char quick[] = "graph(%x : Tensor):\n  %y : Tensor = td::neg(%x)\n  return (%y)\n";
    td_client *c = join();
    td_program *p = td_program_read(c, tensors, td_arrays_of(0, NULL)),
               *q = td_program_read(c, quick, td_arrays_of(0, NULL));
    td_array *x = td_full(c, td_dims(2), 3.0, TD_FLOAT32);
    td_value out, in[] = {td_value_array(x)};
    CU_ASSERT_EQUAL(td_set_program_timeout(20), 0);
    for (int k = 0; k < 3; k++) {
        CHECK_FAILS(td_program_call(p, 1, in, &out), TD_E_TIMEOUT, "in 0.020 seconds");
        CU_ASSERT_EQUAL(out.kind, TD_VALUE_NONE);
        CU_ASSERT_EQUAL(td_set_program_timeout(60000), 20);
        CU_ASSERT_EQUAL(td_program_call(q, 1, in, &out), TD_OK);
        CHECK_VALUES(out.array, -3, -3);
        td_value_free(&out);
        CU_ASSERT_EQUAL(td_set_program_timeout(20), 60000);
    }
    CU_ASSERT_EQUAL(td_set_program_timeout(-5), 20);
    CU_ASSERT_EQUAL(td_set_program_timeout(0), 0);
    CU_ASSERT_EQUAL(td_program_call(q, 1, in, &out), TD_OK);
    td_value_free(&out);
    td_release(x);
    td_program_free(p), td_program_free(q);
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_programs", start_server, stop_server, {"calls", test_calls}, {"pipelined", test_pipelined},
                   {"values of all kinds", test_values}, {"dicts", test_dicts}, {"waits for values", test_waits},
                   {"shapes that values tell", test_shapes_of_values}, {"gradients", test_gradients},
                   {"writes", test_writes}, {"scripts", test_scripts}, {"types that lie", test_types_that_lie},
                   {"what is seen of a program", test_what_is_seen}, {"too much", test_too_much},
                   {"as many tensors as a record takes", test_as_many_tensors_as_a_record_takes},
                   {"numbers of arguments", test_numbers_of_arguments}, {"lists that grow", test_lists_that_grow},
                   {"what is there though it might be none", test_what_is_there_though_it_might_be_none},
                   {"writes through a list", test_writes_through_a_list}, {"errors", test_errors},
                   {"for ever", test_for_ever}, {"large", test_large}, {"forks and ends", test_forks_and_ends},
                   {"timeouts", test_timeouts})
