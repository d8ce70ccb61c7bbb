/* The door. See script.h: faults land here. */
#include "client/script/script.h"
#include "client/script/lower.h"
#include "client/script/parse.h"
#include "client/script_aten.h"
#include "client/script_prelude.h"
#include "proto/program/verify.h"

#include <stdlib.h>

typedef struct job {
    td_fault fault;
    td_parser parser;
} job;

/* What jumps here must not be a variable of this function. */
static void parse(job *j, td_ast *ast, unsigned flags)
{
    if (setjmp(j->fault.out) == 0) td_parse(&j->parser, &j->fault, ast, flags);
}

int td_script_parse(const td_script_source *s, unsigned flags, td_ast *ast, td_error *e)
{
    td_error own = {0};
    job j = {.fault = {.source = s, .error = e ? e : &own}};
    td_error_clear(j.fault.error);
    *ast = (td_ast){0};
    parse(&j, ast, flags);
    td_parser_deinit(&j.parser);
    return j.fault.error->code;
}

/* ---- several sources, and the prelude behind them, as one tree */

/* A source that is no program is refused when something of it is called. */
static void add_unit(td_lower *l, td_ast *ast, td_low_unit *u, const td_script_source *source, unsigned flags)
{
    job j = {.fault = {.source = source, .error = &u->fault}};
    *u = (td_low_unit){.source = source, .first = ast->nnodes};
    parse(&j, ast, flags);
    u->root = u->fault.code ? 0 : ast->root;
    td_parser_deinit(&j.parser);
    l->nunits++;
}

static const td_script_source prelude_source = {"prelude.py", td_script_prelude, sizeof td_script_prelude - 1, 1};
static const td_script_source aten_source = {"aten.py", td_script_aten, sizeof td_script_aten - 1, 1};
static const td_script_name prelude_names[] = {
    {.name = "ops", .kind = TD_SN_OPS}, {.name = "td", .kind = TD_SN_TENSORS}, {.name = "math", .kind = TD_SN_MATH}};

static void add_prelude(td_lower *l, td_ast *ast, const td_script_source *source)
{
    td_low_unit *u = &l->units[l->nunits];
    add_unit(l, ast, u, source, 0);
    u->names = (td_script_names){prelude_names, sizeof prelude_names / sizeof *prelude_names};
    u->generic = true;
}

static void add_units(td_lower *l, td_ast *ast)
{
    bool code = false;
    for (uint32_t k = 0; k < l->world->nunits; k++) {
        const td_script_unit *from = &l->world->units[k];
        add_unit(l, ast, &l->units[k], &from->source, from->code ? TD_SCRIPT_CLASSES : 0);
        l->units[k].names = from->names;
        l->units[k].generic = from->generic;
        l->units[k].code = from->code;
        code |= from->code != NULL;
    }
    l->prelude = l->nunits;
    add_prelude(l, ast, &prelude_source);
    l->aten = l->nunits;
    if (code) add_prelude(l, ast, &aten_source);
}

static void lower(td_fault *f, td_lower *l, const td_script_name *entry)
{
    if (setjmp(f->out) == 0) td_lower_program(l, entry);
}

/* An archive may call int what is a dtype here: where that does not come out, it is refused. */
static td_ir *checked(td_ir *ir, td_error *e)
{
    td_error why;
    if (!ir || td_ir_verify(ir, 0, &why) == 0) return ir;
    td_ir_unref(ir);
    td_fail(e, TD_E_UNSUPPORTED, "the types in this code are not those that its values have here: %.300s", why.message);
    return NULL;
}

td_ir *td_script_compile_named(const td_script_world *w, const td_script_name *entry, char **gives, td_error *e)
{
    td_print said = {0};
    td_error own = {0};
    td_ast ast = {0};
    td_fault f = {.source = &w->units[entry->unit].source, .error = e ? e : &own};
    td_lower l = {.f = &f, .ast = &ast, .world = w, .gives = gives ? &said : NULL};
    td_ir *ir = NULL;
    td_error_clear(f.error);
    l.units = calloc(w->nunits + 2u, sizeof *l.units);
    if (!l.units) td_no_memory(f.error, "for %u sources", w->nunits);
    else if ((l.e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, f.error))) {
        add_units(&l, &ast);
        lower(&f, &l, entry);
        if (f.error->code == 0) ir = td_ir_seal(l.e, f.error), l.e = NULL;
        if (l.aten < l.nunits) ir = checked(ir, f.error);
    }
    td_lower_deinit(&l);
    td_ast_deinit(&ast);
    if (gives) *gives = ir && said.used && !said.failed ? said.text : (free(said.text), NULL);
    return ir;
}

td_ir *td_script_compile_world(const td_script_world *w, const td_script_name *entry, td_error *e)
{
    return td_script_compile_named(w, entry, NULL, e);
}

td_ir *td_script_compile(const td_script_source *s, const char *entry, const td_script_names *names, td_error *e)
{
    td_script_unit unit = {.source = *s};
    if (names) unit.names = *names;
    td_script_world world = {.units = &unit, .nunits = 1};
    td_script_name function = {.kind = TD_SN_FUNCTION, .text = entry, .object = TD_IR_NONE};
    return td_script_compile_world(&world, &function, e);
}
