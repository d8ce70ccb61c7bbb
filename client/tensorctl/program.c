/* tensorctl program: what a program is, from a file, a text of its IR, or a name. Only names need a daemon. */
#include "client/files/programs.h"
#include "client/program/programs.h"
#include "client/tensorctl/tensorctl.h"
#include "proto/passes/passes.h"
#include "proto/program/text.h"
#include "proto/program/type.h"
#include "proto/program/verify.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG_TYPE = 96 };

static int fail(const char *what, const td_error *e)
{
    char shown[4 * sizeof e->message];
    fprintf(stderr, "tensorctl: %s: %s\n", what, td_text_visible(shown, sizeof shown, e->message));
    return 1;
}

/* ---- where it is */

bool ctl_is_file(const char *what)
{
    size_t n = strlen(what);
    return access(what, F_OK) == 0 || strchr(what, '/') == what || (n > 3 && strcmp(what + n - 3, ".td") == 0);
}

char *ctl_read_text(const char *path, size_t *length, td_error *e)
{
    FILE *f = fopen(path, "re");
    char *text = f ? malloc(TD_IR_TEXT + (size_t)1) : NULL;
    size_t n = text ? fread(text, 1, TD_IR_TEXT, f) : 0;
    if (!text || ferror(f)) {
        td_fail(e, TD_E_SYSTEM, "%.200s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (f) fclose(f);
    if (text) text[ *length = n] = 0;
    return text;
}

bool ctl_is_archive(const char *path)
{
    char head[2] = "";
    FILE *f = fopen(path, "re");
    bool is = f && fread(head, 1, 2, f) == 2 && head[0] == 'P' && head[1] == 'K';
    if (f) fclose(f);
    return is;
}

static int add_one(td_filed_all *out, const char *name, td_ir *ir, td_error *e)
{
    out->at = ir ? calloc(1, sizeof *out->at) : NULL;
    if (!out->at) {
        td_ir_unref(ir);
        return e->code ? e->code : td_no_memory(e, "for a program");
    }
    out->n = 1;
    out->at[0].ir = ir;
    snprintf(out->at[0].name, sizeof out->at[0].name, "%s", name);
    return TD_OK;
}

static int read_text(const char *path, td_filed_all *out, td_error *e)
{
    size_t n;
    char *text = ctl_read_text(path, &n, e);
    td_ir *ir = text ? td_ir_read(text, n, e) : NULL;
    free(text);
    if (ir && td_ir_verify(ir, 0, e)) {
        td_ir_unref(ir);
        return e->code;
    }
    return ir ? add_one(out, "graph", ir, e) : e->code;
}

static int read_file(const char *path, td_filed_all *out, td_error *e)
{
    if (!ctl_is_archive(path)) return read_text(path, out, e);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return td_fail(e, TD_E_SYSTEM, "%.200s: %s", path, strerror(errno));
    int rc = td_filed_read(fd, out, e);
    close(fd);
    return rc;
}

static int read_named(const ctl_options *o, const char *name, td_filed_all *out, td_error *e)
{
    td_client *c = ctl_connect(o);
    td_program *p = c ? td_program_open(c, name, 0) : NULL;
    int rc = p ? add_one(out, name, td_ir_ref(p->ir), e) : 0;
    if (c && !p) *e = *td_last_error();
    else if (!c) e->code = TD_E_NOT_FOUND; /* it was said */
    td_program_free(p);
    td_disconnect(c);
    return rc ? rc : e->code;
}

/* ---- what is shown of it */

static int print_as(const td_filed *p, td_text_kind kind)
{
    td_error e = {0};
    char *text = td_program_show(p->ir, kind, &e);
    if (!text) return fail("program", &e);
    ctl_put_lines(text, strlen(text));
    free(text);
    return 0;
}

static int show(const td_filed *p)
{
    return print_as(p, TD_TEXT_IR);
}

static int code(const td_filed *p)
{
    return print_as(p, TD_TEXT_CODE);
}

static int dot(const td_filed *p)
{
    return print_as(p, TD_TEXT_DOT);
}

static int svg(const td_filed *p)
{
    return print_as(p, TD_TEXT_SVG);
}

static const char *name_of_value(const td_ir *ir, uint32_t value)
{
    uint32_t name = ir->values[value].name;
    return name == TD_IR_NONE ? "?" : td_ir_chars(ir, name);
}

/* "forward(x : Tensor, n : int) -> (Tensor)"; what it captures; its size. The verifier has passed it already. */
static int check(const td_filed *p)
{
    char type[LONG_TYPE], shown[4 * LONG_TYPE];
    const td_ir *ir = p->ir;
    const td_ir_block *graph = &ir->blocks[ir->functions[0].block];
    printf("%s(", p->name);
    for (uint32_t k = 0; k < graph->nparams; k++) {
        uint32_t v = td_ir_param(ir, ir->functions[0].block, k);
        printf("%s%s : %s", k ? ", " : "", name_of_value(ir, v),
               td_type_text(ir, ir->values[v].type, type, sizeof type));
    }
    printf(") -> (");
    for (uint32_t k = 0; k < graph->nrets; k++)
        printf("%s%s", k ? ", " : "", td_type_text(ir, ir->values[ir->args[graph->ret + k]].type, type, sizeof type));
    printf(")\n  %u nodes", ir->nnodes);
    for (uint32_t k = 0; k < ir->ncaptures; k++)
        printf("%s%s", k ? ", " : "; captures ",
               td_text_visible(shown, sizeof shown, td_ir_chars(ir, ir->captures[k].name)));
    putchar('\n');
    return 0;
}

/* ---- what passes make of it: after each that changed something */

enum { MOST_PASSES = 64 };

typedef struct passing {
    const td_pass *changed[MOST_PASSES];
    uint32_t n;
} passing;

static void seen(void *context, const td_pass *pass)
{
    passing *x = context;
    if (x->n < MOST_PASSES) x->changed[x->n++] = pass;
}

static int passes(const td_filed *p)
{
    td_error e = {0};
    passing x = {0};
    td_ir_unref(td_ir_improve_seen(td_ir_ref(p->ir), seen, &x));
    puts("---- as it was sent");
    int rc = show(p);
    for (uint32_t n = 1; n <= x.n && !rc; n++) {
        td_filed after = {.ir = td_ir_pass(p->ir, n, x.changed, &e)};
        if (!after.ir) return fail("program", &e);
        printf("---- after %s\n", x.changed[n - 1]->name);
        rc = show(&after);
        td_ir_unref(after.ir);
    }
    if (!x.n) puts("---- no pass changes it");
    return rc;
}

/* ---- */

static const struct {
    const char *name;
    int (*show)(const td_filed *p);
} forms[] = {{"show", show}, {"code", code}, {"passes", passes}, {"dot", dot}, {"svg", svg}, {"check", check}};
enum { FORMS = sizeof forms / sizeof forms[0] };

static const char *name_of_form(unsigned i)
{
    return forms[i].name;
}

/* Beside others it is left out. */
static int not_read(const ctl_options *o, const td_filed *p)
{
    fprintf(stderr, "tensorctl: program: '%s' is not read: %s\n", p->name, p->why.message);
    return o->entry ? 1 : 0;
}

/* All of a file, or the one that was asked for. */
static int show_all(const ctl_options *o, const td_filed_all *all, unsigned form)
{
    int rc = 0;
    bool any = false;
    for (uint32_t i = 0; i < all->n && !rc; i++) {
        if (o->entry && strcmp(o->entry, all->at[i].name) != 0) continue;
        if (all->n > 1 && !o->entry && forms[form].show != check) printf("# %s\n", all->at[i].name);
        rc = all->at[i].ir ? forms[form].show(&all->at[i]) : not_read(o, &all->at[i]);
        any = true;
    }
    if (any) return rc;
    fprintf(stderr, "tensorctl: program: there is no '%s' in it; it has:", o->entry);
    for (uint32_t i = 0; i < all->n; i++) fprintf(stderr, " %s", all->at[i].name);
    fputc('\n', stderr);
    return 1;
}

int ctl_program(const ctl_options *o)
{
    td_error e = {0};
    td_filed_all all = {0};
    if (o->nwords != 2) {
        fputs("tensorctl: program wants what to show (show, code, passes, dot, svg, check, plan), and a file or a "
              "name\n",
              stderr);
        return 2;
    }
    if (strcmp(o->words[0], "plan") == 0) return ctl_plan(o);
    unsigned form = 0;
    while (form < FORMS && strcmp(forms[form].name, o->words[0]) != 0) form++;
    if (form == FORMS) {
        ctl_unknown("form", o->words[0], FORMS, name_of_form, "tensorctl --help");
        return 2;
    }
    int rc = ctl_is_file(o->words[1]) ? read_file(o->words[1], &all, &e) : read_named(o, o->words[1], &all, &e);
    if (rc) return e.message[0] ? fail("program", &e) : 1;
    rc = show_all(o, &all, form);
    td_filed_free(&all);
    return rc;
}
