/* Programs as bytes: what is packed is unpacked as the same module; whatever bytes come in, what comes out was
 * verified; ops of other releases are matched by their signatures. */
#include "cunit_main.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"
#include "proto/program/wire.h"
#include "proto/wire/wire.pb-c.h"
#include <stdlib.h>

static const char whole[] = "captured %w : Float(2, n) = \"w\"\n"
                            "graph(%x : Tensor, %n : int, %b : bool, %l : (int, Tensor?[], Dict(str, int[]))):\n"
                            "  %y : Tensor = prim::Loop(%n, %b, %x) # a.py:1:1-9\n"
                            "    block0(%i : int, %a : Tensor):\n"
                            "      %c : Tensor = prim::If(%b)\n"
                            "        block0():\n"
                            "          %d : Tensor = td::relu_[mode=1](%a) # a.py:2:1\n"
                            "          -> (%d)\n"
                            "        block1():\n"
                            "          %r : Tensor = td::bernoulli[rng=3](%a)\n"
                            "          -> (%r)\n"
                            "      %k : bool = prim::lt.int(%i, %n)\n"
                            "      -> (%k, %c)\n"
                            "  %s : str[] = prim::Constant[value=[\"\", \"\\x01\"]]()\n"
                            "  %f : complex = prim::Constant[value=[0.1, nan]]()\n"
                            "  %z : Tensor = fn::go(%y)\n"
                            "  prim::Print(%s, %f)\n"
                            "  return (%z)\n"
                            "fn go(%p : Tensor):\n"
                            "  %none : NoneType = prim::Constant()\n"
                            "  %no : bool = prim::Constant[value=0]()\n"
                            "  %q : Tensor = td::sum(%p, %none, %no, %none) # a.py:7:7\n"
                            "  return (%q)\n";

static td_ir *read_ir(const char *text)
{
    td_error e = {0};
    td_ir *ir = td_ir_read(text, strlen(text), &e);
    CU_ASSERT_STRING_EQUAL(e.message, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(ir);
    return ir;
}

static void comes_back(void)
{
    td_ir *ir = read_ir(whole);
    td_error e = {0};
    size_t n;
    uint8_t *bytes = td_ir_encode(ir, &n, &e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    td_ir *again = td_ir_decode(bytes, n, 0, &e);
    CU_ASSERT_STRING_EQUAL(e.message, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(again);
    CU_ASSERT_TRUE(td_ir_equal(ir, again));
    for (size_t i = 0; i < n; i++) { /* cut short: what comes first is not all */
        td_ir *less = td_ir_decode(bytes, i, 0, &e);
        CU_ASSERT_PTR_NULL(less);
        td_ir_unref(less);
    }
    td_ir_unref(ir), td_ir_unref(again);
    free(bytes);
}

/* Any byte may be another: it is refused, or is another program. */
static void any_byte(void)
{
    td_ir *ir = read_ir(whole);
    size_t n;
    uint8_t *bytes = td_ir_encode(ir, &n, NULL);
    unsigned refused = 0;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            td_error e = {0};
            bytes[i] ^= (uint8_t)(1 << bit);
            td_ir *other = td_ir_decode(bytes, n, TD_VERIFY_ATEN, &e);
            CU_ASSERT_EQUAL(other == NULL, e.code != 0 && e.message[0]);
            refused += !other;
            if (other) CU_ASSERT_EQUAL(td_ir_verify(other, TD_VERIFY_ATEN, &e), 0);
            td_ir_unref(other);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    CU_ASSERT_TRUE(refused > 4 * n);
    td_ir_unref(ir);
    free(bytes);
}

/* The op of this name gets another hash and signature; what comes of it is printed, or said. */
static void as_if(const char *name, const char *signature, const char *wanted)
{
    Td__Wire__Program m;
    td_error e = {0};
    td_ir *ir = read_ir(whole), *now;
    CU_ASSERT_EQUAL_FATAL(td_ir_to_message(ir, &m, &e), 0);
    for (size_t i = 0; i < m.n_op_ids; i++) {
        if (strncmp(m.op_signatures[i], name, strlen(name)) != 0) continue;
        m.op_hashes[i]++;
        free(m.op_signatures[i]);
        m.op_signatures[i] = strdup(signature);
    }
    now = td_ir_from_message(&m, 0, &e);
    char *text = now ? td_ir_print(now, &e) : NULL;
    CU_ASSERT_PTR_NOT_NULL(strstr(text ? text : e.message, wanted));
    if (!strstr(text ? text : e.message, wanted)) printf("%s\n", text ? text : e.message);
    free(text);
    td_ir_unref(ir), td_ir_unref(now);
    td_ir_message_free(&m);
}

static void other_releases(void)
{
    as_if("relu", "relu(x:T) -> T", "td::relu_[mode=1](%a) # a.py:2:1");
    as_if("relu", "relu(y:T) -> T",
          "the program was made for relu(y:T) -> T, which is relu(x:T) -> T here: make it anew with this release");
    as_if("relu", "relu(x:T, how:i=0) -> T", "the program was made for relu(x:T, how:i=0) -> T, which is");
    as_if("relu", "relu(x:T) -> (T, T)", "the program was made for relu(x:T) -> (T, T), which is");
    as_if("relu", "nonsense", "the program was made for nonsense, which is");
    as_if("relu", "relu(", "the program was made for relu(, which is");
    as_if("sum", "sum(x:T, dtype:D?=none, keepdim:b=false, dim:I[]?=none) -> T",
          "td::sum(%p, %none, %no, %none) # a.py:7:7");
    as_if("sum", "sum(x:T, dtype:D, keepdim:b, dim:I[]) -> T", "td::sum(%p, %none, %no, %none) # a.py:7:7");
    as_if("sum", "sum(x:T?, dim:I[], keepdim:b=false, dtype:D?=none) -> T", "the program was made for sum(x:T?, ");
    as_if("sum", "sum(x:T, dim:i) -> T",
          "the program was made for sum(x:T, dim:i) -> T, which is sum(x:T, dim:I[]?=none, keepdim:b=false, "
          "dtype:D?=none) -> T here");
    as_if("sum", "sum(x:T, dim:I[]?=none) -> T", "an op has not the arguments of its signature");
    as_if("lt", "lt.int(a: int, b: int) -> int",
          "the program uses prim::lt.int(a: int, b: int) -> int, which is not here");
}

/* A call of an op that had fewer arguments then. */
static void defaults_are_filled_in(void)
{
    Td__Wire__Program m;
    td_error e = {0};
    td_ir *ir = read_ir("graph(%x : Tensor, %d : int[], %k : bool, %n : dtype?):\n"
                        "  %y : Tensor = td::sum(%x, %d, %k, %n) # a:1:2\n  return (%y)\n");
    CU_ASSERT_EQUAL_FATAL(td_ir_to_message(ir, &m, &e), 0);
    m.op_hashes[0]++;
    free(m.op_signatures[0]);
    m.op_signatures[0] = strdup("sum(dim:I[]?=none, x:T) -> T");
    m.nodes[1] = 2; /* sum(d, x) */
    m.args[0] = 1, m.args[1] = 0, m.args[2] = m.args[4];
    m.n_args = 3;
    td_ir *now = td_ir_from_message(&m, 0, &e);
    CU_ASSERT_STRING_EQUAL(e.message, "");
    char *text = now ? td_ir_print(now, &e) : NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_STRING_EQUAL(
        text, "graph(%x : Tensor, %d : int[], %k : bool, %n : dtype?):\n"
              "  %4 : bool = prim::Constant[value=0]() # a:1:2\n  %5 : NoneType = prim::Constant() # a:1:2\n"
              "  %y : Tensor = td::sum(%x, %d, %4, %5) # a:1:2\n  return (%y)\n");
    free(text);
    td_ir_unref(ir), td_ir_unref(now);
    td_ir_message_free(&m);
}

/* What an op writes that is no argument of its own stays in front of them. */
static void written_beside(void)
{
    Td__Wire__Program m;
    td_error e = {0};
    td_ir *ir = read_ir("graph(%x : Tensor, %out : Tensor, %d : int[], %k : bool, %n : dtype?):\n"
                        "  %y : Tensor = td::sum_(%out, %x, %d, %k, %n)\n  return (%y)\n");
    CU_ASSERT_EQUAL_FATAL(td_ir_to_message(ir, &m, &e), 0);
    m.op_hashes[0]++;
    free(m.op_signatures[0]);
    m.op_signatures[0] = strdup("sum(dim:I[]?=none, x:T) -> T");
    m.nodes[1] = 3; /* sum_(out, d, x) */
    m.args[0] = 1, m.args[1] = 2, m.args[2] = 0, m.args[3] = m.args[5];
    m.n_args = 4;
    td_ir *now = td_ir_from_message(&m, 0, &e);
    char *text = now ? td_ir_print(now, &e) : NULL;
    CU_ASSERT_STRING_EQUAL(e.message, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "td::sum_(%out, %x, %d, %5, %6)"));
    free(text);
    td_ir_unref(ir), td_ir_unref(now);
    td_ir_message_free(&m);
}

static void nonsense(void)
{
    td_error e = {0};
    CU_ASSERT_PTR_NULL(td_ir_decode((const uint8_t *)"", 0, 0, &e));
    CU_ASSERT_STRING_EQUAL(e.message, "these bytes are no program: its layout is of another release");
    CU_ASSERT_PTR_NULL(td_ir_decode((const uint8_t *)"\xff\xff", 2, 0, &e));
    CU_ASSERT_EQUAL(e.code, TD_E_PROTOCOL);
    CU_ASSERT_PTR_NULL(td_ir_decode((const uint8_t *)"\x08\x01", 2, 0, &e)); /* the layout alone */
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "these bytes are no program"));
}

/* Is the message refused with these words, where one of its numbers is the count of texts, and is the one before read?
 */
static void at_the_count(const Td__Wire__Program *m, uint32_t *number, uint32_t plus, const char *why)
{
    uint32_t before = *number;
    td_error e = {0};
    *number = (uint32_t)m->n_strings + plus;
    CU_ASSERT_PTR_NULL(td_ir_from_message(m, 0, &e));
    CU_ASSERT_EQUAL(e.code, TD_E_PROTOCOL);
    if (!strstr(e.message, why)) printf("\n  %s\n", e.message);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, why));
    *number -= 1;
    e = (td_error){0};
    td_ir *last = td_ir_from_message(m, 0, &e);
    CU_ASSERT_PTR_NULL(strstr(e.message, why));
    td_ir_unref(last);
    *number = before;
}

/* A text is named by its number. The first that there is none of is their count. */
static void numbers_of_texts(void)
{
    Td__Wire__Program m;
    td_error e = {0};
    td_ir *ir = read_ir("graph(%x : Float(3, n)):\n"
                        "  %t : str = prim::Constant[value=\"one\"]() # a.py:1:1\n"
                        "  prim::Print(%t)\n"
                        "  return (%x)\n");
    CU_ASSERT_EQUAL_FATAL(td_ir_to_message(ir, &m, &e), 0);
    CU_ASSERT_TRUE_FATAL(m.n_sources >= 4 && m.n_words == 2 && m.n_strings > 1);
    at_the_count(&m, &m.words[1], 0, "a literal has no text");
    at_the_count(&m, &m.sources[0], 0, "a source has no file");
    m.n_words = 1;
    CU_ASSERT_PTR_NULL(td_ir_from_message(&m, 0, &e)); /* the literal's second word is not there */
    CU_ASSERT_EQUAL(e.code, TD_E_PROTOCOL);
    m.n_words = 2;
    int sizes = 0;
    for (size_t i = 0; i + 1 < m.n_parts; i++) {
        int64_t size = (int64_t)(m.parts[i] | (uint64_t)m.parts[i + 1] << 32), there = m.parts[i];
        if (size > -2 || size < -2 - (int64_t)m.n_strings) continue;
        sizes++;
        for (uint32_t last = 0; last < 2; last++) {
            m.parts[i] = (uint32_t)(-2 - (int64_t)m.n_strings + last);
            e = (td_error){0};
            td_ir *other = td_ir_from_message(&m, 0, &e);
            CU_ASSERT_EQUAL(strstr(e.message, "a size has no name") != NULL, !last);
            td_ir_unref(other);
        }
        m.parts[i] = (uint32_t)there;
    }
    CU_ASSERT_EQUAL(sizes, 1);
    td_ir_unref(ir);
    td_ir_message_free(&m);
}

/* Arrays that are larger than any program's are refused by their number alone: nothing is made of them. */
static void too_large(void)
{
    Td__Wire__Program m;
    td_error e = {0};
    td_ir *ir = read_ir("graph(%x : Tensor):\n  return (%x)\n");
    CU_ASSERT_EQUAL_FATAL(td_ir_to_message(ir, &m, &e), 0);
    size_t *const counts[] = {&m.n_strings, &m.n_sources, &m.n_types,   &m.n_parts, &m.n_captures, &m.n_functions,
                              &m.n_values,  &m.n_blocks,  &m.chars.len, &m.n_args,  &m.n_words,    &m.n_nodes};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t before = *counts[i];
        *counts[i] = (size_t)1 << 40;
        CU_ASSERT_EQUAL(*counts[i] % 3, 1);
        if (counts[i] == &m.n_blocks) *counts[i] -= 1;
        e = (td_error){0};
        CU_ASSERT_PTR_NULL(td_ir_from_message(&m, 0, &e));
        CU_ASSERT_EQUAL(e.code, TD_E_QUOTA);
        CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "the program is too large: more than"));
        *counts[i] = before;
    }
    td_ir *again = td_ir_from_message(&m, 0, &e);
    CU_ASSERT_PTR_NOT_NULL(again);
    td_ir_unref(ir), td_ir_unref(again);
    td_ir_message_free(&m);
}

TD_CUNIT_MAIN("proto_ir_wire", {"what is packed comes back", comes_back}, {"any byte", any_byte},
              {"ops of other releases", other_releases}, {"defaults are filled in", defaults_are_filled_in},
              {"written beside", written_beside}, {"nonsense", nonsense}, {"numbers of texts", numbers_of_texts},
              {"too large", too_large})
