/* Runs passes over programs, for tests in Python.
 *
 *     show_passes NAME...         these passes, in this order; "all": as the daemon runs them; "freeze": what is left
 * of one whose captured tensors with types are constants, and in front of it what is done once
 *
 * Texts of programs come from the input, each with a 0 behind it. For each: the text of what became of it, which passes
 * the verifier as the program did before; or an error's code and message; and a 0. */
#include "proto/passes/freeze.h"
#include "proto/passes/passes.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 64 };

static const td_pass *by_name(const char *name)
{
    for (uint32_t k = 0; k < td_pass_count; k++)
        if (strcmp(td_pass_list[k].name, name) == 0) return &td_pass_list[k];
    fprintf(stderr, "show_passes: there is no pass '%s'\n", name);
    exit(2);
}

/* The module is taken over. */
static td_ir *passed(td_ir *ir, uint32_t n, char **names, td_error *e)
{
    const td_pass *passes[MOST];
    if (n && strcmp(names[0], "all") == 0) return td_ir_improve(ir);
    for (uint32_t k = 0; k < n; k++) passes[k] = by_name(names[k]);
    td_ir *out = td_ir_pass(ir, n, passes, e);
    td_ir_unref(ir);
    return out;
}

/* Both parts; the module is taken over. */
static void show_frozen(td_ir *ir, td_error *e)
{
    td_frozen f;
    td_frozen_look *looks = calloc(ir->ncaptures + 1u, sizeof *looks);
    for (uint32_t k = 0; looks && k < ir->ncaptures; k++) {
        td_type_as_tensor(ir, ir->values[ir->captures[k].value].type, &looks[k].type);
        looks[k].storage = k;
    }
    if (looks && !td_ir_freeze(&f, ir, looks, false, e)) {
        td_ir *const parts[] = {f.setup, f.main};
        for (int k = 0; k < 2; k++) {
            char *out = parts[k] && !td_ir_verify(parts[k], TD_VERIFY_GROWN, e) ? td_ir_print(parts[k], e) : NULL;
            if (out) printf("# %s\n%s", k ? "in each run" : "once", out);
            free(out);
        }
        td_frozen_free(&f);
    }
    free(looks);
}

static void show(const char *text, size_t length, uint32_t n, char **names)
{
    td_error e = {0};
    char *out = NULL;
    td_ir *ir = td_ir_read(text, length, &e);
    if (ir && td_ir_verify(ir, 0, &e) != 0) td_ir_unref(ir), ir = NULL;
    bool freezes = n && strcmp(names[0], "freeze") == 0;
    if (ir && freezes) show_frozen(ir, &e), ir = NULL;
    if (ir) ir = passed(ir, n, names, &e);
    if (ir && td_ir_verify(ir, TD_VERIFY_GROWN, &e) == 0) out = td_ir_print(ir, &e);
    if (out) fputs(out, stdout);
    else if (!freezes || e.code) printf("%s\n%s\n", td_code_symbol(e.code), e.message);
    free(out);
    td_ir_unref(ir);
}

int main(int argc, char **argv)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t n;
    if (argc > MOST) return 2;
    while ((n = getdelim(&text, &room, 0, stdin)) > 0) {
        show(text, text[n - 1] ? (size_t)n : (size_t)n - 1, (uint32_t)argc - 1, argv + 1);
        putchar(0);
        fflush(stdout);
    }
    free(text);
    return 0;
}
