/* The verifier: each rule with a module that breaks it. What can be said as a text is; the rest is done to the arrays.
 */
#include "cunit_main.h"
#include "proto/ops/opid.h"
#include "proto/program/edit.h"
#include "proto/program/prim.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"
#include <stdlib.h>

static td_ir *read_ir(const char *text)
{
    td_error e = {0};
    td_ir *ir = td_ir_read(text, strlen(text), &e);
    CU_ASSERT_STRING_EQUAL(e.message, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(ir);
    return ir;
}

static void says(const td_ir *ir, unsigned flags, const char *said)
{
    td_error e = {0};
    int rc = td_ir_verify(ir, flags, &e);
    CU_ASSERT_EQUAL(rc, e.code);
    CU_ASSERT_EQUAL(rc != 0, *said != 0);
    bool good = strstr(e.message, said) && (*said || !e.message[0]);
    CU_ASSERT_TRUE(good);
    if (!good) printf("said: %s\nnot:  %s\n", e.message, said);
}

#define G "graph(%x : Tensor, %n : int, %b : bool, %l : int[]):\n"
#define R "  return (%x)\n"

static void good_programs(void)
{
    static const char *const rows[] = {
        "graph():\n  return ()\n",
        "captured %w : Tensor = \"w\"\ncaptured %v : int = \"v\"\n" G
        "  %y : Tensor = td::relu_(%x)\n  %z : Tensor = fn::f(%y, %v)\n  return (%z)\n"
        "fn f(%p : Tensor, %q : int):\n  %r : Tensor = fn::g(%p)\n  %r2 : Tensor = fn::g(%w)\n  return (%r2)\nfn g(%t "
        ": Tensor):\n  return (%t)\n",
        G "  %y : Tensor = prim::Loop(%n, %b, %x)\n    block0(%i : int, %a : Tensor):\n      %c : Tensor = "
          "prim::If(%b)\n        block0():\n"
          "          %m : Tensor = td::relu(%a)\n          -> (%m)\n        block1():\n          -> (%x)\n      %k : "
          "bool = prim::lt.int(%i, %n)\n"
          "      -> (%k, %c)\n  return (%y)\n",
        G "  %d : int = prim::Constant[value=0]()\n  %y : Tensor = td::index_select(%x, %d, %x)\n  return (%y)\n",
        G "  %none : NoneType = prim::Constant()\n  %f : bool = prim::Constant[value=0]()\n  %y : Tensor = td::sum(%x, "
          "%none, %f, %none)\n  return (%y)\n",
        G "  %ts : Tensor[] = prim::ListConstruct(%x, %x)\n  %y : Tensor = td::cat(%ts, %n)\n  prim::append(%l, %n)\n  "
          "prim::Print(%ts, %l)\n" R,
        G "  %t : (int, Tensor) = prim::TupleConstruct(%n, %x)\n  %a : int, %c : Tensor = prim::TupleUnpack(%t)\n  %d "
          ": Dict(str, int) = prim::DictConstruct()\n"
          "  %i : (str, int)[] = prim::items(%d)\n  %k : int, %o : int = prim::ListUnpack(%l)\n  return (%a, %i)\n",
        G "  %p : Tensor? = prim::Uninitialized()\n  %q : Tensor = prim::unchecked_cast(%p)\n  %v : bool = "
          "prim::is_none(%p)\n  %y : Float(2) = td::relu(%q)\n  return (%y)\n",
        G "  %none : NoneType = prim::Constant()\n  %y : Tensor = td::copy_(%x, %x, %none)\n  %z : Tensor = "
          "td::sum_(%y, %x, "
          "%l, %b, %none)\n  return (%z)\n",
        G "  %s : int? = prim::Constant()\n" R "",
    };
    for (size_t i = 0; i + 1 < sizeof rows / sizeof *rows; i++) {
        td_ir *ir = read_ir(rows[i]);
        says(ir, 0, "");
        td_ir_unref(ir);
    }
}

static const struct {
    const char *text, *said;
} bad[] = {
    /* seen before they are defined, or from where they cannot be */
    {G "  %y : Tensor = prim::If(%b)\n    block0():\n      %z : Tensor = td::relu(%x)\n      -> (%z)\n    block1():\n  "
       "    -> (%z)\n  return (%y)\n",
     "node 0 prim::If: what is returned as 0 (value 5) is not defined before it, in its block or around it"},
    {G "  %y : Tensor = prim::Loop(%n, %b, %x)\n    block0(%i : int, %a : Tensor):\n      -> (%b, %a)\n  return (%i)\n",
     "what is returned as 0 is no value"},
    /* arity and types of tensor ops */
    {G "  %y : Tensor = td::relu(%x, %x)\n" R, "node 0 td::relu: it has 2 arguments and 1 results, not 1 and 1"},
    {G "  %y : Tensor, %z : Tensor = td::relu(%x)\n" R, "it has 1 arguments and 2 results, not 1 and 1"},
    {G "  %y : Tensor = td::relu(%n) # a.py:7:1\n" R,
     "node 0 td::relu (a.py:7): argument 0 is int, but the op is (x:T) -> T"},
    {G "  %y : int = td::relu(%x)\n" R, "result 0 is int, but a Tensor is made"},
    {G "  %y : Tensor = td::cat(%x, %n)\n" R, "argument 0 is Tensor, but the op is"},
    {G "  %y : Tensor = td::index_select(%x, %x, %x)\n" R, "argument 1 is Tensor, but the op is"},
    {G "  %y : Tensor = td::sum(%x, %n, %b, %b)\n" R, "argument 1 is int, but the op is"},
    {G "  %y : Tensor[] = td::relu(%x)\n" R, "result 0 is Tensor[], but a Tensor is made"},
    {G "  %y : Tensor = td::sum_(%x, %l, %b, %b)\n" R, "the op has no form in place"},
    {G "  %y : Tensor = td::select_(%x, %x, %n, %n)\n" R, "the op cannot write into a given tensor"},
    {G "  %y : Tensor = td::nonzero_(%x, %x)\n" R, "the op cannot write into a given tensor"},
    {G "  %y : Tensor = td::relu_(%n, %x)\n" R, "argument 0 is int, but it is written"},
    {G "  %y : Tensor = td::relu_(%x, %n)\n" R, "argument 1 is int, but the op is"},
    {G "  %y : Tensor = td::clamp_(%n, %n, %n)\n" R, "argument 0 is int, but it is written"},
    /* modes, numbers of random ops, values */
    {G "  %y : Tensor = td::relu[mode=16](%x)\n" R, "only what makes tensors of nothing names a device"},
    {G "  %y : Tensor = td::relu[mode=256](%x)\n" R, "it cannot have the mode 0x100"},
    {G "  prim::Print[mode=1](%x)\n" R, "it cannot have the mode 0x1"},
    {G "  %y : Tensor = td::relu[rng=0](%x)\n" R, "only random ops have a number"},
    {G "  prim::Print[rng=0](%x)\n" R, "only random ops have a number"},
    {G "  %f : float = prim::Constant[value=0.5]()\n  %y : Tensor = td::bernoulli(%x)\n" R, "a random op has a number"},
    {G "  %y : Tensor = td::bernoulli[rng=1](%x)\n  %z : Tensor = td::bernoulli[rng=1](%x)\n" R,
     "another op of its block has its number (rng 1)"},
    {G "  %y : Tensor = td::bernoulli[rng=262144](%x)\n" R, "more than 262144 random ops in a block"},
    {G "  %y : int = prim::Constant()\n" R, "its value is malformed, or of another type"},
    {G "  %y : int = prim::neg.int[value=1](%n)\n" R, "only constants have a value"},
    /* gradients */
    {G "  prim::backward(%x)\n" R, "arguments and results are not those of (outputs: Tensor[]"},
    {G "  %t : Tensor[] = prim::ListConstruct(%x)\n  prim::backward(%t, %t, %t, %n, %b)\n" R,
     "arguments and results are not those of (outputs: Tensor[]"},
    {G "  %t : Tensor[] = prim::ListConstruct(%x)\n  prim::backward(%t, %t, %l, %b, %b)\n" R,
     "arguments and results are not those of (outputs: Tensor[]"},
    {G "  %t : Tensor[] = prim::ListConstruct(%x)\n  %g : int[] = prim::autograd_grad(%t, %t, %t, %b, %b)\n" R,
     "arguments and results are not those of (outputs: Tensor[]"},
    {G "  %g : Tensor? = prim::grad(%n)\n" R, "arguments and results are not those of (x: Tensor) -> Tensor?"},
    {G "  prim::set_grad(%x, %n)\n" R, "arguments and results are not those of (x: Tensor, grad: Tensor?)"},
    {G "  prim::retain_grad[mode=1](%x)\n" R, "it cannot have the mode 0x1"},
    /* aten:: only where it is asked for */
    {G "  %y : Tensor = aten::relu(%x)\n" R, "there is no op 0x200"},
    /* If and Loop */
    {G "  %y : Tensor = prim::If(%n)\n    block0():\n      -> (%x)\n    block1():\n      -> (%x)\n" R,
     "its argument is a bool"},
    {G "  %y : Tensor = prim::If(%b)\n    block0(%p : int):\n      -> (%x)\n    block1():\n      -> (%x)\n" R,
     "its blocks have no parameters"},
    {G "  %y : Tensor = prim::If(%b)\n    block0():\n      -> (%x)\n    block1():\n      -> ()\n" R,
     "block 1 returns 0 values, not 1"},
    {G "  %y : Tensor = prim::If(%b)\n    block0():\n      -> (%x)\n    block1():\n      -> (%n)\n" R,
     "what is returned as result 0 is int, but Tensor is wanted"},
    {G "  prim::Loop(%b, %b)\n    block0(%i : int):\n      -> (%b)\n" R, "its first arguments are an int and a bool"},
    {G "  prim::Loop(%n)\n    block0(%i : int):\n      -> (%b)\n" R, "its first arguments are an int and a bool"},
    {G "  prim::Loop(%n, %b, %x)\n    block0(%i : int):\n      -> (%b)\n" R,
     "it carries 1 values, has 0 results, and its block 1 parameters"},
    {G "  prim::Loop(%n, %b)\n    block0():\n      -> (%b)\n" R,
     "it carries 0 values, has 0 results, and its block 0 parameters"},
    {G "  prim::Loop(%n, %b)\n    block0(%i : bool):\n      -> (%b)\n" R, "its block's first parameter is an int"},
    {G "  prim::Loop(%n, %b)\n    block0(%i : int):\n      -> (%n)\n" R, "its block's first return is a bool"},
    {G "  prim::Loop(%n, %b)\n    block0(%i : int):\n      -> ()\n" R, "block 0 returns 0 values, not 1"},
    {G "  %y : Tensor = prim::Loop(%n, %b, %n)\n    block0(%i : int, %a : Tensor):\n      -> (%b, %a)\n" R,
     "argument 2 is int, but Tensor is wanted"},
    {G "  %y : Tensor = prim::Loop(%n, %b, %x)\n    block0(%i : int, %a : Float(2)):\n      -> (%b, %a)\n" R,
     "argument 2 is Tensor, but Float(2) is wanted"},
    {G "  %y : int = prim::Loop(%n, %b, %x)\n    block0(%i : int, %a : Tensor):\n      -> (%b, %n)\n" R,
     "what is returned as result 0 is int, but Tensor is wanted"},
    /* lists, tuples, dicts, casts */
    {G "  %y : Tensor[] = prim::ListConstruct(%x, %n)\n" R, "argument 1 is int, but Tensor is wanted"},
    {G "  %y : int = prim::ListConstruct(%n)\n" R, "result 0 is int, but a list is made"},
    {G "  %y : Tensor = prim::ListUnpack(%l)\n" R, "the item of result 0 is int, but Tensor is wanted"},
    {G "  %y : int = prim::ListUnpack(%n)\n" R, "argument 0 is int, but a list is wanted"},
    {G "  %y : (int, int) = prim::TupleConstruct(%n)\n" R,
     "result 0 is (int, int), but a tuple of the arguments is made"},
    {G "  %y : (int, int) = prim::TupleConstruct(%n, %x)\n" R, "argument 1 is Tensor, but int is wanted"},
    {G "  %y : int = prim::TupleUnpack(%n)\n" R, "a tuple of as many as there are results is wanted"},
    {G "  %t : (int, bool) = prim::TupleConstruct(%n, %b)\n  %y : int, %z : int = prim::TupleUnpack(%t)\n" R,
     "the item of result 1 is bool, but int is wanted"},
    {G "  %y : Dict(int, int) = prim::DictConstruct(%n)\n" R, "a key has no value"},
    {G "  %y : Dict(int, int) = prim::DictConstruct(%n, %x)\n" R, "argument 1 is Tensor, but int is wanted"},
    {G "  %y : int = prim::DictConstruct()\n" R, "result 0 is int, but a dict is made"},
    {G "  %y : Tensor = prim::unchecked_cast(%n)\n" R, "it is no part of what the argument may be"},
    {G "  %y : str = prim::format(%n)\n" R, "its first argument and its result are texts"},
    {G "  %y : int = prim::Print(%n)\n" R, "it has 1 arguments and 1 results, not 1 and 0"},
    {G "  %y : int = prim::Uninitialized(%n)\n" R, "it has 1 arguments and 1 results, not 0 and 1"},
    {G "  %y : int = prim::add.int(%n, %b)\n" R, "arguments and results are not those of (a: int, b: int) -> int"},
    {G "  %y : int = prim::add.int(%n)\n" R, "arguments and results are not those of"},
    {G "  %y : int = prim::add.int(%n, %n, %n)\n" R, "arguments and results are not those of"},
    {G "  prim::add.int(%n, %n)\n" R, "arguments and results are not those of"},
    {G "  prim::append(%l, %x)\n" R, "arguments and results are not those of (list: t[], item: t) -> ()"},
    {G "  %y : Tensor = prim::getitem.list(%l, %n)\n" R, "arguments and results are not those of"},
    /* calls */
    {G "  %y : Tensor = fn::f(%x, %x)\n" R "fn f(%p : Tensor):\n  return (%p)\n",
     "it has 2 arguments and 1 results, not 1 and 1"},
    {G "  %y : Tensor = fn::f(%n)\n" R "fn f(%p : Tensor):\n  return (%p)\n",
     "argument 0 is int, but Tensor is wanted"},
    {G "  %y : int = fn::f(%x)\n" R "fn f(%p : Tensor):\n  return (%p)\n",
     "what is returned as result 0 is Tensor, but int is wanted"},
    {G R "fn f(%p : Tensor):\n  %q : Tensor = fn::f(%p)\n  return (%q)\n",
     "not a program: function 'f' calls itself, or is called by one that does"},
    {G R "fn f():\n  fn::g()\n  return ()\nfn g():\n  fn::h()\n  return ()\nfn h():\n  fn::f()\n  return ()\n",
     "not a program: function 'f' calls itself"},
    {G R "fn f():\n  return ()\nfn f():\n  return ()\n", "function 'f' is there twice"},
    {"captured %a : int = \"w\"\ncaptured %b : int = \"w\"\ngraph():\n  return ()\n",
     "captured name 'w' is there twice"},
    {"graph(%x : Dict(Tensor, int)):\n  return ()\n", "is made of what it cannot be made of"},
};

static void bad_programs(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        td_ir *ir = read_ir(bad[i].text);
        says(ir, 0, bad[i].said);
        td_ir_unref(ir);
    }
    td_ir *ir = read_ir(G "  %y : Tensor = aten::add.Tensor(%x, %n)\n" R);
    says(ir, TD_VERIFY_ATEN, "");
    td_ir_unref(ir);
}

/* ---- arrays that hold anything */

#define WHOLE                                                                                                          \
    "captured %w : Float(2, n) = \"w\"\n" G                                                                            \
    "  %y : Tensor = prim::Loop(%n, %b, %x) # a.py:1:1\n    block0(%i : int, %a : Tensor):\n"                          \
    "      %c : Tensor = td::relu(%a)\n      -> (%b, %c)\n  %v : (int, int[]) = prim::TupleConstruct(%n, %l)\n  %s : " \
    "str = prim::Constant[value=\"s\"]()\n  return (%y)\nfn f():\n  return ()\n"

static void every_array(void)
{
    /* which word of which array, and what is said when it is another */
    td_ir *ir = read_ir(WHOLE);
    says(ir, 0, "");
    const uint32_t odd[] = {
        0, 1, 2, 3, 7, 255, 256, 1 << 16, 1 << 24, 3 << 24, UINT32_MAX, INT32_MAX, UINT32_MAX - 1, 1u << 31, 3u << 30};
    struct {
        void *at;
        size_t words;
    } arrays[] = {{ir->types, ir->ntypes * sizeof *ir->types / 4},
                  {ir->values, ir->nvalues * sizeof *ir->values / 4},
                  {ir->nodes, ir->nnodes * sizeof *ir->nodes / 4},
                  {ir->blocks, ir->nblocks * sizeof *ir->blocks / 4},
                  {ir->functions, ir->nfunctions * sizeof *ir->functions / 4},
                  {ir->captures, ir->ncaptures * sizeof *ir->captures / 4},
                  {ir->sources, ir->nsources * sizeof *ir->sources / 4},
                  {ir->strings, ir->nstrings * sizeof *ir->strings / 4},
                  {ir->parts, ir->nparts},
                  {ir->words, ir->nwords},
                  {ir->args, ir->nargs},
                  {ir->defs, ir->ndefs},
                  {ir->chars, ir->nchars / 4}};
    unsigned refused = 0, taken = 0;
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++)
        for (size_t w = 0; w < arrays[a].words; w++)
            for (size_t o = 0; o < sizeof odd / sizeof *odd; o++) {
                uint32_t kept, *word = (uint32_t *)arrays[a].at + w;
                td_error e = {0};
                memcpy(&kept, word, 4);
                memcpy(word, &odd[o], 4);
                if (td_ir_verify(ir, TD_VERIFY_ATEN, &e)) {
                    refused++;
                    CU_ASSERT_TRUE(e.code != 0 && e.message[0]);
                } else { /* another program, which can be printed and changed */
                    taken++;
                    char *text = td_ir_print(ir, NULL);
                    CU_ASSERT_PTR_NOT_NULL(text);
                    free(text);
                    td_ir_edit_free(td_ir_edit_new(ir, TD_IR_MAX_NODES, NULL));
                }
                memcpy(word, &kept, 4);
            }
    says(ir, 0, "");
    CU_ASSERT_TRUE(refused > 2000);
    CU_ASSERT_TRUE(taken < refused / 4);
    td_ir_unref(ir);
}

static void breaks(uint32_t *what, uint32_t value, const td_ir *ir, const char *said)
{
    uint32_t kept = *what;
    *what = value;
    says(ir, 0, said);
    *what = kept;
}

static void rules_of_arrays(void)
{
    td_ir *ir = read_ir(WHOLE);
    breaks(&ir->args[0], 99, ir, "argument 0 is no value");
    breaks(&ir->args[6], td_ir_out(ir, 0, 0), ir, "is not defined before it, in its block or around it");
    breaks(&ir->defs[1], ir->defs[0], ir, "a value is defined twice, or out of order");
    breaks(&ir->values[3].def, 0, ir, "value 3 says that another defines it");
    breaks(&ir->values[1].type, 99, ir, "value 1 has no type");
    breaks(&ir->values[1].name, ir->values[2].name, ir, "is there twice");
    breaks(&ir->nodes[0].in, 1, ir, "its arguments lie where they should not");
    breaks(&ir->nodes[0].nin, 1000, ir, "its arguments lie where they should not");
    breaks(&ir->nodes[0].nwords, 1000, ir, "its attributes lie where they should not");
    breaks(&ir->nodes[0].nblocks, 2, ir, "its blocks lie where they should not");
    uint32_t child = ir->nodes[0].child;
    ir->nodes[0].child = 0;
    breaks(&ir->nodes[0].nblocks, 0, ir, "block 2 is no node's");
    ir->nodes[0].child = child;
    breaks(&ir->nodes[0].source, 1, ir, "there is no source 1");
    breaks(&ir->nodes[0].op, TD_IR_FN, ir, "there is no op");
    breaks(&ir->nodes[0].op, TD_IR_TD, ir, "there is no op");
    breaks(&ir->nodes[0].op, TD_PRIM_COUNT, ir, "there is no op");
    breaks(&ir->nodes[0].op, TD_PRIM_IF, ir, "it has 1 blocks, not 2");
    breaks(&ir->nodes[0].op, TD_PRIM_TUPLECONSTRUCT, ir, "it has 1 blocks, not 0");
    breaks(&ir->nodes[0].block, 1, ir, "it stands where it should not");
    breaks(&ir->nodes[0].next, 0, ir, "the nodes of block 0 are out of order");
    breaks(&ir->blocks[0].last, 0, ir, "the last node of block 0 is another");
    breaks(&ir->blocks[2].owner, 1, ir, "block 2 says that it is another's");
    breaks(&ir->blocks[1].function, 0, ir, "function 1 has the block of another");
    breaks(&ir->functions[1].name, TD_IR_NONE, ir, "function 1 has no name that it may have");
    breaks(&ir->captures[0].value, 1, ir, "captured name 0 has the value of another");
    breaks(&ir->sources[0].file, 99, ir, "source 0 has no file");
    breaks(&ir->strings[1].at, 0, ir, "string 1 lies where it should not");
    breaks(&ir->nfunctions, 0, ir, "there is no graph");
    breaks(&ir->nargs, ir->nargs + 1, ir, "of nobody");
    breaks(&ir->words[0], 0, ir, "its value is malformed");
    breaks(&ir->words[1], 99, ir, "its value is malformed");
    char kept = ir->chars[0];
    ir->chars[0] = (char)0xff;
    says(ir, 0, "string 0 is no UTF-8");
    ir->chars[0] = kept;
    for (uint32_t i = 0; i < ir->ntypes; i++) {
        breaks(&ir->types[i].head, TD_T_KINDS, ir, "is of no kind");
        td_type_kind kind = td_type_kind_of(ir, i);
        if (kind == TD_T_TUPLE) breaks(&ir->parts[ir->types[i].part], i, ir, "is made of a later one");
        if (kind == TD_T_TUPLE) breaks(&ir->types[i].head, TD_T_TUPLE | 3 << 8, ir, "is not as large as it says");
        if (kind == TD_T_TENSOR) breaks(&ir->types[i].head, TD_T_TENSOR | 77 << 8, ir, "is no tensor's");
    }
    td_ir_unref(ir);
}

/* ---- limits */

static void limits(void)
{
    td_ir_edit *e = td_ir_edit_new(NULL, TD_IR_MAX_GROWN, NULL);
    td_ir_function_new(e, NULL);
    for (int i = 0; i <= TD_IR_MAX_NODES; i++) td_ir_int(e, i);
    td_ir *ir = td_ir_seal(e, NULL);
    says(ir, 0, "the program is too large: more than 65536 nodes");
    says(ir, TD_VERIFY_GROWN, "");
    td_ir_unref(ir);

    e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, NULL);
    td_ir_function_new(e, NULL);
    for (int i = 0; i <= TD_IR_MAX_ENDS; i++) td_ir_param_new(e, td_ir_cursor(e), td_type_plain(e, TD_T_INT), NULL);
    ir = td_ir_seal(e, NULL);
    says(ir, 0, "more than 4096 inputs or outputs of a function");
    td_ir_unref(ir);
}

static td_ir *nested(int depth)
{
    td_ir_edit *e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, NULL);
    td_ir_function_new(e, NULL);
    uint32_t yes = td_ir_bool(e, true);
    for (int i = 0; i < depth; i++) td_ir_to_end(e, td_ir_child(e, td_ir_if(e, yes), i & 1));
    return td_ir_seal(e, NULL);
}

static void nesting(void)
{
    td_ir *ir = nested(TD_IR_MAX_NEST);
    says(ir, 0, "");
    char *text = td_ir_print(ir, NULL);
    CU_ASSERT_PTR_NOT_NULL(text);
    free(text);
    td_ir_unref(ir);
    ir = nested(TD_IR_MAX_NEST + 1);
    says(ir, 0, "more than 64 blocks in each other");
    td_ir_unref(ir);
    ir = nested(30000);
    says(ir, 0, "more than 64 blocks in each other");
    td_ir_unref(ir);
}

static void overloads_are_picked(void)
{
    td_ir_edit *e = td_ir_edit_new(NULL, 10, NULL);
    uint32_t i = td_type_plain(e, TD_T_INT), f = td_type_plain(e, TD_T_FLOAT), list = td_type_list(e, f);
    const td_ir *ir = td_ir_now(e);
    CU_ASSERT_PTR_EQUAL(td_prim_pick(ir, "add", 2, (uint32_t[2]){i, i}), td_prim_by_name("add.int"));
    CU_ASSERT_PTR_EQUAL(td_prim_pick(ir, "add", 2, (uint32_t[2]){list, list}), td_prim_by_name("add.list"));
    CU_ASSERT_PTR_EQUAL(td_prim_pick(ir, "append", 2, (uint32_t[2]){list, f}), td_prim_by_name("append"));
    CU_ASSERT_PTR_NULL(td_prim_pick(ir, "append", 2, (uint32_t[2]){list, i}));
    CU_ASSERT_PTR_NULL(td_prim_pick(ir, "add", 2, (uint32_t[2]){i, f}));
    CU_ASSERT_PTR_NULL(td_prim_pick(ir, "add", 1, &i));
    CU_ASSERT_PTR_NULL(td_prim_pick(ir, "ad", 2, (uint32_t[2]){i, i}));
    td_ir_edit_free(e);
}

TD_CUNIT_MAIN("proto_ir_verify", {"good programs", good_programs}, {"bad programs", bad_programs},
              {"any word of any array", every_array}, {"rules of arrays", rules_of_arrays}, {"limits", limits},
              {"nesting", nesting}, {"overloads are picked", overloads_are_picked})
