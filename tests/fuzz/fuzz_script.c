/* Fuzzes what reads programs: the lexer, the parser, and what lowers trees to the IR. Nothing may crash, leak, or reach
 * outside of the source; of what is accepted every node stands above its kids, is not too deep, and can be printed;
 * what is lowered passes the verifier. What is refused has its place. */
#include "client/script/script.h"
#include "proto/program/verify.h"

#include <assert.h>
#include <stdlib.h>

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

static void compile(const td_script_source *s)
{
    td_error e = {0};
    td_ir *ir = td_script_compile(s, NULL, NULL, &e);
    assert(!ir == (e.code != 0) && (ir || e.message[0]) && e.code != TD_E_INTERNAL);
    assert(!ir || td_ir_verify(ir, 0, &e) == 0);
    td_ir_unref(ir);
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
    return 0;
}
