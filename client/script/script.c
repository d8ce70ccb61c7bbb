/* The door. See script.h: faults land here. */
#include "client/script/script.h"
#include "client/script/lower.h"
#include "client/script/parse.h"
#include "client/script_aten.h"
#include "client/script_onnx.h"
#include "client/script_prelude.h"
#include "proto/program/verify.h"

#include <stdatomic.h>
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

/* ---- several sources, behind the prelude, as one tree */

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
const td_script_source td_script_onnx = {"onnx.py", td_script_onnx_text, sizeof td_script_onnx_text - 1, 1};
static const td_script_name prelude_names[] = {
    {.name = "ops", .kind = TD_SN_OPS}, {.name = "td", .kind = TD_SN_TENSORS}, {.name = "math", .kind = TD_SN_MATH}};

/* What all programs begin with is read once in a process, or twice by two threads; by no lock, which a fork could leave
 * taken. Those of ONNX files begin with more, which others need not copy. */
enum { PRELUDE, ATEN, ONNX, KNOWN };
typedef struct known {
    td_ast ast;
    uint32_t roots[KNOWN], firsts[KNOWN];
} known;

static known *_Atomic all_known[2];

static known *read_known(bool onnx, td_error *e)
{
    static const td_script_source *const sources[] = {&prelude_source, &aten_source, &td_script_onnx};
    known *k = calloc(1, sizeof *k);
    if (!k) td_no_memory(e, "for what programs begin with");
    for (int i = 0; i < (onnx ? KNOWN : ONNX) && !e->code; i++) {
        job j = {.fault = {.source = sources[i], .error = e}};
        k->firsts[i] = k->ast.nnodes;
        parse(&j, &k->ast, 0);
        td_parser_deinit(&j.parser);
        k->roots[i] = k->ast.root;
    }
    if (k && e->code) td_ast_deinit(&k->ast);
    return e->code ? free(k), NULL : k;
}

static const known *find_known(bool onnx, td_error *e)
{
    known *k = atomic_load(&all_known[onnx]), *other = NULL;
    if (k || !(k = read_known(onnx, e)) || atomic_compare_exchange_strong(&all_known[onnx], &other, k)) return k;
    td_ast_deinit(&k->ast);
    free(k);
    return other;
}

/* NULL: the error says why. */
static const known *take_known(td_ast *ast, const td_script_world *w, td_error *e)
{
    const known *k = find_known(w->onnx, e);
    if (k && !td_ast_copy(ast, &k->ast)) return td_no_memory(e, "for a program"), NULL;
    return k;
}

static void add_known(td_lower *l, const known *k, int which, const td_script_source *source)
{
    l->units[l->nunits++] = (td_low_unit){.source = source,
                                          .first = k->firsts[which],
                                          .root = k->roots[which],
                                          .names = {prelude_names, sizeof prelude_names / sizeof *prelude_names},
                                          .generic = true};
}

/* Sources have the first numbers, and the last nodes. */
static void add_units(td_lower *l, td_ast *ast, const known *behind)
{
    for (uint32_t k = 0; k < l->world->nunits; k++) {
        const td_script_unit *from = &l->world->units[k];
        add_unit(l, ast, &l->units[k], &from->source, from->code ? TD_SCRIPT_CLASSES : 0);
        l->units[k].names = from->names;
        l->units[k].generic = from->generic;
        l->units[k].code = from->code;
    }
    l->prelude = l->nunits;
    add_known(l, behind, PRELUDE, &prelude_source);
    l->aten = l->nunits;
    add_known(l, behind, ATEN, &aten_source);
    l->onnx = l->nunits;
    if (l->world->onnx) add_known(l, behind, ONNX, &td_script_onnx);
}

static void lower(td_fault *f, td_lower *l, const td_script_name *entry)
{
    if (setjmp(f->out)) return;
    td_lower_program(l, entry);
    td_low_settle_places(l);
}

static bool is_archive(const td_script_world *w)
{
    for (uint32_t k = 0; k < w->nunits; k++)
        if (w->units[k].code) return true;
    return false;
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
    const known *behind;
    td_error_clear(f.error);
    l.units = calloc(w->nunits + (size_t)KNOWN, sizeof *l.units);
    if (!l.units) td_no_memory(f.error, "for %u sources", w->nunits);
    else if ((behind = take_known(&ast, w, f.error)) && (l.e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, f.error))) {
        add_units(&l, &ast, behind);
        lower(&f, &l, entry);
        if (f.error->code == 0) ir = td_ir_seal(l.e, f.error), l.e = NULL;
        if (is_archive(w)) ir = checked(ir, f.error);
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
