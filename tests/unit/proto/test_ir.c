/* Modules of programs: what the edit makes, changes and seals. */
#include "cunit_main.h"
#include "proto/ops/opid.h"
#include "proto/program/edit.h"
#include "proto/program/literal.h"
#include "proto/program/prim.h"

#define LIST(...)                                                                                                      \
    (uint32_t[])                                                                                                       \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define MUL (TD_IR_TD | TD_OP_MUL)
#define ADD (TD_IR_TD | TD_OP_ADD)

static td_ir_edit *fresh(void)
{
    td_ir_edit *e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    return e;
}

static td_ir *seal(td_ir_edit *e)
{
    td_error error = {0};
    td_ir *ir = td_ir_seal(e, &error);
    CU_ASSERT_STRING_EQUAL(error.message, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(ir);
    return ir;
}

static uint32_t op2(td_ir_edit *e, uint32_t op, uint32_t a, uint32_t b)
{
    uint32_t tensor = td_type_any_tensor(e);
    return td_ir_result(e, td_ir_op(e, op, 2, LIST(a, b), 1, &tensor));
}

/* graph(x, n): for i in range(n): y = y * i; with something unused between. Returns the loop. */
static uint32_t power(td_ir_edit *e)
{
    uint32_t tensor = td_type_any_tensor(e);
    td_ir_function_new(e, NULL);
    uint32_t graph = td_ir_cursor(e), x = td_ir_param_new(e, graph, tensor, "x");
    uint32_t n = td_ir_param_new(e, graph, td_type_plain(e, TD_T_INT), "n");
    td_ir_from(e, "step.py", 4, 4, 20);
    uint32_t yes = td_ir_bool(e, true), loop = td_ir_loop(e, n, yes), y = td_ir_carry(e, loop, x, tensor, "y");
    uint32_t body = td_ir_child(e, loop, 0), trip = td_ir_param(td_ir_now(e), body, 0);
    td_ir_to_end(e, body);
    td_ir_from(e, "step.py", 5, 8, 13);
    td_ir_returns(e, body, 2, LIST(yes, op2(e, MUL, y, trip)));
    td_ir_to_end(e, graph);
    td_ir_returns(e, graph, 1, LIST(td_ir_out(td_ir_now(e), loop, 0)));
    return loop;
}

static void builds(void)
{
    td_ir_edit *e = fresh();
    power(e);
    td_ir *ir = seal(e);
    CU_ASSERT_EQUAL(ir->nnodes, 3);
    CU_ASSERT_EQUAL(ir->nblocks, 2);
    CU_ASSERT_EQUAL(ir->blocks[0].nparams, 2);
    CU_ASSERT_EQUAL(ir->nodes[1].op, TD_PRIM_LOOP);
    CU_ASSERT_EQUAL(td_ir_in(ir, 1, 2), td_ir_param(ir, 0, 0));
    CU_ASSERT_EQUAL(ir->blocks[1].owner, 1);
    CU_ASSERT_EQUAL(td_ir_in(ir, 2, 0), td_ir_param(ir, 1, 1));
    CU_ASSERT_EQUAL(td_ir_return(ir, 0, 0), td_ir_out(ir, 1, 0));
    CU_ASSERT_STRING_EQUAL(td_ir_chars(ir, ir->values[td_ir_param(ir, 1, 1)].name), "y");
    CU_ASSERT_EQUAL(ir->sources[ir->nodes[2].source].line, 5);
    CU_ASSERT_TRUE(td_ir_bytes(ir) > 3 * sizeof(td_ir_node));
    CU_ASSERT_PTR_EQUAL(td_ir_ref(ir), ir);
    td_ir_unref(ir);
    td_ir_unref(ir);
}

/* Values and nodes in the order that ir.h says, whatever the order in which they were made. */
static void is_in_order(void)
{
    td_ir_edit *e = fresh();
    power(e);
    td_ir *a = seal(e);
    for (uint32_t i = 0; i < a->ndefs; i++) CU_ASSERT_EQUAL(a->defs[i], i);
    for (uint32_t b = 0, n = 0; b < a->nblocks; b++)
        for (uint32_t at = a->blocks[b].first; at != TD_IR_NONE; at = a->nodes[at].next) CU_ASSERT_EQUAL(at, n++);
    e = td_ir_edit_new(a, TD_IR_MAX_NODES, NULL);
    td_ir_to_before(e, 0);
    td_ir_int(e, 7);
    td_ir_string(e, "nobody's", 8);
    td_ir_erase(e, td_ir_now(e)->blocks[0].first);
    td_ir *b = seal(e);
    CU_ASSERT_TRUE(td_ir_equal(a, b));
    e = td_ir_edit_new(a, TD_IR_MAX_NODES, NULL);
    td_ir_to_before(e, 0);
    td_ir_int(e, 7);
    td_ir *c = seal(e);
    CU_ASSERT_FALSE(td_ir_equal(a, c));
    td_ir_unref(a), td_ir_unref(b), td_ir_unref(c);
}

static void has_uses(void)
{
    td_ir_edit *e = fresh();
    td_ir_function_new(e, NULL);
    uint32_t graph = td_ir_cursor(e), x = td_ir_param_new(e, graph, td_type_any_tensor(e), "x");
    uint32_t y = op2(e, ADD, x, x), z = op2(e, MUL, y, y);
    td_ir_returns(e, graph, 2, LIST(z, y));
    CU_ASSERT_EQUAL(td_ir_uses(e, x), 2);
    CU_ASSERT_EQUAL(td_ir_uses(e, y), 3);
    td_ir_set_in(e, td_ir_now(e)->values[z].def, 0, x);
    CU_ASSERT_EQUAL(td_ir_uses(e, x), 3);
    CU_ASSERT_EQUAL(td_ir_uses(e, y), 2);
    uint64_t changes = td_ir_changes(e);
    td_ir_replace(e, y, x);
    CU_ASSERT_TRUE(td_ir_changes(e) > changes);
    CU_ASSERT_EQUAL(td_ir_uses(e, y), 0);
    CU_ASSERT_EQUAL(td_ir_uses(e, x), 5);
    td_ir_erase(e, td_ir_now(e)->values[y].def);
    CU_ASSERT_EQUAL(td_ir_uses(e, x), 3);
    td_ir_returns(e, graph, 1, LIST(z));
    CU_ASSERT_EQUAL(td_ir_uses(e, x), 2);
    td_ir *ir = seal(e);
    CU_ASSERT_EQUAL(ir->nnodes, 1);
    CU_ASSERT_EQUAL(td_ir_in(ir, 0, 0), 0);
    td_ir_unref(ir);
}

/* A loop of three trips, unrolled by hand: as a pass does it. */
static void unrolls(void)
{
    td_ir_edit *e = fresh();
    uint32_t loop = power(e), body = td_ir_child(e, loop, 0), now[2], value = td_ir_in(td_ir_now(e), loop, 2);
    td_ir_to_before(e, loop);
    for (int64_t i = 0; i < 3; i++) {
        td_ir_clone(e, body, LIST(td_ir_int(e, i), value), now);
        value = now[1];
    }
    CU_ASSERT_EQUAL(now[0], td_ir_in(td_ir_now(e), loop, 1)); /* from around the loop */
    td_ir_replace(e, td_ir_out(td_ir_now(e), loop, 0), value);
    td_ir_erase(e, loop);
    const td_ir_block *gone = &td_ir_now(e)->blocks[body]; /* passes look at all blocks: there is nothing in it */
    CU_ASSERT_TRUE(gone->first == TD_IR_NONE && gone->last == TD_IR_NONE);
    td_ir *ir = seal(e);
    CU_ASSERT_EQUAL(ir->nblocks, 1);
    CU_ASSERT_EQUAL(ir->nnodes, 7);
    CU_ASSERT_EQUAL(td_ir_in(ir, 6, 0), td_ir_out(ir, 4, 0));
    CU_ASSERT_EQUAL(td_ir_in(ir, 6, 1), td_ir_out(ir, 5, 0));
    CU_ASSERT_EQUAL(ir->sources[ir->nodes[6].source].line, 5);
    td_ir_unref(ir);
}

/* What has blocks is cloned with them, and the clone is on its own. */
static void clones_blocks(void)
{
    td_ir_edit *e = fresh();
    uint32_t loop = power(e), graph = td_ir_now(e)->nodes[loop].block, out;
    const td_ir *now = td_ir_now(e);
    uint32_t params[2] = {td_ir_param(now, graph, 0), td_ir_param(now, graph, 1)};
    td_ir_function_new(e, "twice");
    td_ir_clone(e, graph, params, &out); /* of another function: only its insides are its own */
    uint32_t copy = td_ir_now(e)->values[out].def;
    CU_ASSERT_NOT_EQUAL(copy, loop);
    CU_ASSERT_EQUAL(td_ir_now(e)->nodes[copy].nblocks, 1);
    uint32_t body = td_ir_child(e, copy, 0), first = td_ir_now(e)->blocks[body].first;
    CU_ASSERT_EQUAL(td_ir_in(td_ir_now(e), first, 0), td_ir_param(td_ir_now(e), body, 1));
    CU_ASSERT_EQUAL(td_ir_return(td_ir_now(e), body, 1), td_ir_out(td_ir_now(e), first, 0));
    td_ir_erase(e, copy);
    CU_ASSERT_EQUAL(td_ir_uses(e, params[0]), 1);
    td_ir_edit_free(e);
}

static void moves(void)
{
    td_ir_edit *e = fresh();
    td_ir_function_new(e, NULL);
    uint32_t graph = td_ir_cursor(e), one = td_ir_int(e, 1), two = td_ir_int(e, 2), three = td_ir_int(e, 3);
    td_ir_to_before(e, td_ir_now(e)->values[two].def);
    td_ir_move(e, td_ir_now(e)->values[three].def);
    td_ir_move(e, td_ir_now(e)->values[two].def); /* where it is already */
    td_ir_to_end(e, graph);
    td_ir_move(e, td_ir_now(e)->values[one].def);
    td_ir_returns(e, graph, 3, LIST(one, two, three));
    td_ir *ir = seal(e);
    td_literal v;
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(td_literal_get(ir->words + ir->nodes[i].word, ir->nodes[i].nwords, &v), 3);
        CU_ASSERT_EQUAL(v.i, 3 - (int64_t)i);
    }
    td_ir_unref(ir);
}

static void types_are_numbers(void)
{
    td_ir_edit *e = fresh();
    uint32_t i = td_type_plain(e, TD_T_INT), list = td_type_list(e, i), tensor = td_type_any_tensor(e);
    CU_ASSERT_EQUAL(td_type_list(e, td_type_plain(e, TD_T_INT)), list);
    CU_ASSERT_EQUAL(td_type_optional(e, td_type_optional(e, i)), td_type_optional(e, i));
    CU_ASSERT_EQUAL(td_type_optional(e, td_type_plain(e, TD_T_NONE)), td_type_plain(e, TD_T_NONE));
    td_tensor_type fine = {TD_FLOAT32, TD_CPU, 0, 2, {TD_SIZE_ANY, INT64_C(1) << 40}}, back;
    uint32_t known = td_type_tensor(e, &fine);
    const td_ir *ir = td_ir_now(e);
    td_type_as_tensor(ir, known, &back);
    CU_ASSERT_TRUE(!memcmp(&fine, &back, sizeof back));
    CU_ASSERT_TRUE(td_type_fits(ir, known, tensor));
    CU_ASSERT_FALSE(td_type_fits(ir, tensor, known));
    CU_ASSERT_FALSE(td_type_fits(ir, list, i));
    uint32_t maybe = td_type_optional(e, tensor), pair = td_type_tuple(e, 2, LIST(i, known));
    CU_ASSERT_TRUE(td_type_fits(td_ir_now(e), known, maybe));
    CU_ASSERT_TRUE(td_type_fits(td_ir_now(e), td_type_plain(e, TD_T_NONE), maybe));
    CU_ASSERT_FALSE(td_type_fits(td_ir_now(e), maybe, tensor));
    CU_ASSERT_TRUE(td_type_fits(td_ir_now(e), pair, td_type_tuple(e, 2, LIST(i, maybe))));
    CU_ASSERT_FALSE(td_type_fits(td_ir_now(e), pair, td_type_tuple(e, 1, LIST(i))));
    fine.sizes[0] = 3;
    uint32_t finer = td_type_tensor(e, &fine);
    CU_ASSERT_TRUE(td_type_fits(td_ir_now(e), finer, known));
    CU_ASSERT_FALSE(td_type_fits(td_ir_now(e), known, finer));
    td_ir_edit_free(e);
}

/* Types of types are bounded: pairs of pairs of pairs. */
static void types_are_bounded(void)
{
    td_ir_edit *e = fresh();
    uint32_t t = td_type_plain(e, TD_T_INT);
    for (int i = 0; i < 12; i++) t = td_type_tuple(e, 2, LIST(t, t));
    CU_ASSERT_EQUAL(t, TD_IR_NONE);
    CU_ASSERT_EQUAL(td_ir_failed(e), TD_E_QUOTA);
    td_ir_edit_free(e);
}

static void literals_come_back(void)
{
    static const td_literal all[] = {{.kind = TD_L_NONE},
                                     {.kind = TD_L_INT, .i = INT64_MIN},
                                     {.kind = TD_L_FLOAT, .re = -0.0},
                                     {.kind = TD_L_BOOL, .small = 1},
                                     {.kind = TD_L_COMPLEX, .re = 1e300, .im = -2},
                                     {.kind = TD_L_STR, .small = 77},
                                     {.kind = TD_L_DEVICE, .small = 1},
                                     {.kind = TD_L_DTYPE, .small = TD_COMPLEX128},
                                     {.kind = TD_L_LIST, .small = 99}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint32_t words[TD_LITERAL_WORDS];
        td_literal back;
        uint32_t n = td_literal_put(words, &all[i]);
        CU_ASSERT_EQUAL(td_literal_get(words, n, &back), n);
        CU_ASSERT_TRUE(back.kind == all[i].kind && back.small == all[i].small && back.i == all[i].i);
        CU_ASSERT_TRUE(!memcmp(&back.re, &all[i].re, 16));
        CU_ASSERT_EQUAL(td_literal_get(words, n - 1, &back), 0);
    }
    td_literal v;
    CU_ASSERT_EQUAL(td_literal_get(LIST(TD_L_KINDS), 1, &v), 0);
    CU_ASSERT_EQUAL(td_literal_get(LIST(TD_L_BOOL | 2 << 8), 1, &v), 0);
    CU_ASSERT_EQUAL(td_literal_get(LIST(TD_L_DTYPE | TD_DTYPE_COUNT << 8), 1, &v), 0);
    CU_ASSERT_EQUAL(td_literal_get(LIST(TD_L_INT | 1 << 8, 0, 0), 3, &v), 0);
}

/* The first failure stays, and nothing happens afterwards. */
static void keeps_a_failure(void)
{
    td_error error = {0};
    td_ir_edit *e = td_ir_edit_new(NULL, 3, &error);
    td_ir_function_new(e, NULL);
    for (int i = 0; i < 3; i++) CU_ASSERT_NOT_EQUAL(td_ir_int(e, i), TD_IR_NONE);
    CU_ASSERT_EQUAL(td_ir_int(e, 3), TD_IR_NONE);
    uint32_t loop = td_ir_loop(e, td_ir_int(e, 1), td_ir_bool(e, true));
    CU_ASSERT_EQUAL(loop, TD_IR_NONE);
    CU_ASSERT_EQUAL(td_ir_carry(e, loop, TD_IR_NONE, td_type_any_tensor(e), "x"), TD_IR_NONE);
    td_ir_returns(e, td_ir_child(e, loop, 0), 1, LIST(TD_IR_NONE));
    td_ir_to_end(e, td_ir_child(e, loop, 0));
    td_ir_erase(e, loop);
    CU_ASSERT_PTR_NULL(td_ir_seal(e, &error));
    CU_ASSERT_EQUAL(error.code, TD_E_QUOTA);
    CU_ASSERT_STRING_EQUAL(error.message, "the program is too large: more than 3 nodes");
}

/* Erased nodes do not count, and a program of the largest size is sealed in linear time. */
static void may_be_large(void)
{
    td_ir_edit *e = fresh();
    td_ir_function_new(e, NULL);
    uint32_t graph = td_ir_cursor(e), x = td_ir_param_new(e, graph, td_type_any_tensor(e), "x"), y = x;
    td_ir_erase(e, td_ir_now(e)->values[op2(e, ADD, x, x)].def);
    for (int i = 0; i < TD_IR_MAX_NODES; i++) y = op2(e, ADD, y, x);
    CU_ASSERT_EQUAL(td_ir_failed(e), 0);
    td_ir_returns(e, graph, 1, LIST(y));
    CU_ASSERT_EQUAL(td_ir_uses(e, x), TD_IR_MAX_NODES + 1);
    td_ir *ir = seal(e);
    CU_ASSERT_EQUAL(ir->nnodes, TD_IR_MAX_NODES);
    td_ir_unref(ir);
}

static void prims_have_names(void)
{
    CU_ASSERT_PTR_EQUAL(td_prim_by_name("add.int"), td_prim_by_id(TD_PRIM_ADD_INT));
    CU_ASSERT_PTR_NULL(td_prim_by_name("add"));
    CU_ASSERT_PTR_NULL(td_prim_by_id(0));
    CU_ASSERT_PTR_NULL(td_prim_by_id(TD_PRIM_COUNT));
    for (unsigned i = 0; i < TD_PRIM_COUNT; i++) {
        const td_prim *p = td_prim_by_id(i);
        if (p) CU_ASSERT_PTR_EQUAL(td_prim_by_name(p->name), p);
    }
    CU_ASSERT_STRING_EQUAL(td_prim_by_id(TD_PRIM_ITEMS)->codes, "{tu>[(tu)");
    CU_ASSERT_STRING_EQUAL(td_prim_by_id(TD_PRIM_SLICE_LIST)->codes, "[t?i?ii>[t");
}

/* index_select(x, dim, idx): which arguments are attributes is known by place. */
static void arguments_have_places(void)
{
    CU_ASSERT_EQUAL(td_ops[TD_OP_INDEX_SELECT].attrs_at, 2);
    CU_ASSERT_EQUAL(td_ops[TD_OP_ADD].attrs_at & 3, 0);
}

static void names_are_told_from_numbers(void)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {{"a", true},     {"_", true},    {"A1_", true},  {"a.1", true},       {"a.1.22", true}, {"1", false},
                {"", false},     {".1", false},  {"1a", false},  {"9.1", false},      {"a.", false},    {"a.b", false},
                {"a.1.", false}, {"a b", false}, {"a-1", false}, {"\xc3\xa4", false}, {"%a", false}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        CU_ASSERT_EQUAL(td_ir_is_name(rows[k].text, strlen(rows[k].text)), rows[k].good);
    char text[TD_IR_NAME + 2];
    memset(text, 'x', sizeof text);
    CU_ASSERT_TRUE(td_ir_is_name(text, TD_IR_NAME) && !td_ir_is_name(text, TD_IR_NAME + 1));
}

TD_CUNIT_MAIN("proto_ir", {"a loop is built", builds}, {"sealed modules have one order", is_in_order},
              {"uses are known", has_uses}, {"a loop is unrolled", unrolls}, {"blocks are cloned", clones_blocks},
              {"nodes are moved", moves}, {"types are numbers", types_are_numbers},
              {"types are bounded", types_are_bounded}, {"literals come back", literals_come_back},
              {"the first failure stays", keeps_a_failure}, {"large programs", may_be_large},
              {"prims have names", prims_have_names}, {"names are told from numbers", names_are_told_from_numbers},
              {"arguments have places", arguments_have_places})
