/* Prints the trees of sources, for tests in Python.
 *
 *     show_script [tree|ir]       sources from the input, each with a 0 behind it
 *
 * For each: its tree, or the IR of its last function; or its error's code and message; and a 0. */
#include "client/script/script.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"

#include <stdlib.h>

static int show_tree(const td_script_source *s, td_error *e)
{
    td_ast ast;
    if (td_script_parse(s, 0, &ast, e) == 0) td_ast_print(&ast, stdout);
    td_ast_deinit(&ast);
    return e->code;
}

static int show_ir(const td_script_source *s, td_error *e)
{
    td_ir *ir = td_script_compile(s, NULL, NULL, e);
    char *text = ir && td_ir_verify(ir, 0, e) == 0 ? td_ir_print(ir, e) : NULL;
    if (text) fputs(text, stdout);
    free(text);
    td_ir_unref(ir);
    return e->code;
}

int main(int argc, char **argv)
{
    bool ir = argc > 1 && strcmp(argv[1], "ir") == 0;
    char *text = NULL;
    size_t room = 0;
    ssize_t n;
    while ((n = getdelim(&text, &room, 0, stdin)) > 0) {
        td_script_source s = {"test.py", text, text[n - 1] ? (size_t)n : (size_t)n - 1, 1};
        td_error e = {0};
        if (ir ? show_ir(&s, &e) : show_tree(&s, &e)) printf("%s\n%s\n", td_code_symbol(e.code), e.message);
        putchar(0);
        fflush(stdout);
    }
    free(text);
    return 0;
}
