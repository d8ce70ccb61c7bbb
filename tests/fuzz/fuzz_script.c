/* Fuzzes what reads programs: the lexer, the parser, and what lowers trees to the IR, also of the
 * code of archives. Nothing may crash, leak, or reach
 * outside of the source; of what is accepted every node stands above its kids, is not too deep, and can be printed;
 * what is lowered passes the verifier. What is refused has its place. */
#include "client/script/script.h"
#include "proto/program/verify.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const td_ast *a)
{
    assert(a->root && a->root < a->nnodes);
    for (uint32_t i = 1; i < a->nnodes; i++) {
        const td_ast_node *n = &a->nodes[i];
        assert(n->kind < TD_N_COUNT && n->height >= 1 && n->height <= TD_SCRIPT_DEPTH);
        assert(n->first + n->n <= a->nkids);
        for (uint32_t k = 0; k < n->n; k++) assert(td_ast_kid(a, i, k) < i);
        assert(n->span.line >= 1 && n->span.line <= n->span.end_line);
    }
}

static void check(td_ir *ir, td_error e)
{
    assert(!ir == (e.code != 0) && (ir || e.message[0]) && e.code != TD_E_INTERNAL);
    assert(!ir || td_ir_verify(ir, 0, &e) == 0);
    td_ir_unref(ir);
}

static void compile(const td_script_source *s)
{
    td_error e = {0};
    td_ir *ir = td_script_compile(s, NULL, NULL, &e);
    check(ir, e);
}

/* As the code of an archive, of a module that has a little of everything. */
static void compile_code(const td_script_source *s)
{
    static const td_script_name roots[] = {{.name = "torch", .kind = TD_SN_ATEN},
                                           {.name = "ops", .kind = TD_SN_ATEN_OPS},
                                           {.name = "__torch__", .kind = TD_SN_CODE},
                                           {.name = "CONSTANTS", .kind = TD_SN_OBJECT, .object = 1}};
    static const td_script_name own[] = {{.name = "w", .kind = TD_SN_TENSOR},
                                         {.name = "bias", .kind = TD_SN_NONE},
                                         {.name = "training", .kind = TD_SN_NUMBER, .number = {TD_S_BOOL, .i = 1}},
                                         {.name = "n", .kind = TD_SN_STATE, .number = {TD_S_INT, .i = 0}},
                                         {.name = "l", .kind = TD_SN_STATE, .number = {TD_S_INT, .i = 1}},
                                         {.name = "m", .kind = TD_SN_OBJECT, .object = 0}};
    static const td_script_name constants[] = {{.name = "c0", .kind = TD_SN_TENSOR, .text = "CONSTANTS.c0"}};
    static const td_script_object objects[] = {{.names = {own, 6}, .title = "", .class = "M"},
                                               {.names = {constants, 1}, .title = "CONSTANTS"}};
    static const td_script_state states[] = {{.name = "n"}, {.name = "l"}};
    td_script_unit unit = {.source = *s, .names = {roots, 4}, .code = "__torch__"};
    td_script_world world = {&unit, objects, states, 1, 2, 2};
    td_script_name entry = {.kind = TD_SN_FUNCTION, .text = "M.forward", .object = 0};
    td_error e = {0};
    td_ir *ir = td_script_compile_world(&world, &entry, &e);
    check(ir, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    td_script_source s = {"fuzz.py", (const char *)data, size, 1};
    td_ast ast;
    td_error e = {0};
    int rc = td_script_parse(&s, 0, &ast, &e);
    assert(rc == e.code);
    if (rc == 0) {
        FILE *out = fopen("/dev/null", "w");
        walk(&ast);
        if (out) assert(td_ast_print(&ast, out)), fclose(out);
    } else {
        assert(strncmp(e.message, "fuzz.py:", 8) == 0 && strchr(e.message, '\n'));
    }
    td_ast_deinit(&ast);
    if (rc == 0) compile(&s);
    if (size > 5 && memcmp(data, "class", 5) == 0) compile_code(&s);
    return 0;
}
