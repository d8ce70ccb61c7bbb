/* Freezing: constants are marked by their types, their sizes become numbers, norms and factors go into weights; then
 * what stands in front and is made of constants alone is taken out. */
#include "proto/passes/freeze.h"

#include "proto/passes/facts.h"
#include <stdio.h>
#include <stdlib.h>

enum { CONSTANT = 1, TENSOR = 2 }; /* what is known: a number or list of such; something of tensors */

typedef struct freezing {
    td_ir *ir;
    td_ir_edit *e;
    td_facts f;
    td_frozen *out;
    uint8_t *known; /* by value */
    uint32_t *made; /* values that are worked out once, in their order */
    uint32_t nmade, nnodes;
    uint32_t *captures; /* which of the main part each became */
} freezing;

/* ---- which are constants */

static bool facts(freezing *z)
{
    z->f.frozen = true;
    return td_facts_find(&z->f, z->e);
}

static void unmark(freezing *z, const td_frozen_look *looks, uint32_t capture, bool writes)
{
    const td_ir *ir = td_ir_now(z->e);
    for (uint32_t k = 0; k < ir->ncaptures; k++) {
        if (looks[k].storage != looks[capture].storage) continue;
        td_ir_retype(z->e, ir->captures[k].value, td_type_any_tensor(z->e));
        z->out->written[k] |= writes;
    }
}

/* One that is given away stays whole, and is not worked with: who has it may write it. What is no constant, or is
 * written, makes others of its memory such. */
static void mark(freezing *z, const td_frozen_look *looks)
{
    const td_ir *ir = td_ir_now(z->e);
    for (uint32_t k = 0; k < ir->ncaptures; k++) {
        bool may = looks[k].type.dtype != TD_DTYPE_NONE;
        td_ir_retype(z->e, ir->captures[k].value,
                     may ? td_type_tensor(z->e, &looks[k].type) : td_type_any_tensor(z->e));
    }
    if (!facts(z)) return;
    for (uint32_t k = 0; k < ir->ncaptures; k++) {
        uint32_t value = ir->captures[k].value;
        unsigned flags = td_class_flags(&z->f, ir, value);
        if (looks[k].type.dtype == TD_DTYPE_NONE) unmark(z, looks, k, true);
        else if (flags & (TD_CF_WRITES | TD_CF_LEAVES)) unmark(z, looks, k, flags & TD_CF_WRITES);
    }
}

/* ---- sizes of constants */

static void say_sizes(td_ir_edit *e, uint32_t node, const td_tensor_type *t)
{
    uint32_t words[1 + TD_MAX_DIMS * TD_LITERAL_WORDS];
    uint32_t n = td_literal_put(words, &(td_literal){.kind = TD_L_LIST, .small = t->rank});
    for (int k = 0; k < t->rank; k++) n += td_literal_put(words + n, &(td_literal){.kind = TD_L_INT, .i = t->sizes[k]});
    td_ir_turn(e, node, TD_PRIM_CONSTANT);
    td_ir_words(e, node, words, n);
}

static void say_look(td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    td_literal l = {.kind = TD_L_INT, .i = 1};
    int64_t dim;
    td_tensor_type t;
    if (ir->nodes[node].block == TD_IR_NONE || !ir->nodes[node].nin || !td_is_frozen(ir, td_ir_in(ir, node, 0))) return;
    td_type_as_tensor(ir, ir->values[td_ir_in(ir, node, 0)].type, &t);
    switch (ir->nodes[node].op) {
    case TD_PRIM_SHAPE: say_sizes(e, node, &t); return;
    case TD_PRIM_NDIM: l.i = t.rank; break;
    case TD_PRIM_NUMEL:
        for (int k = 0; k < t.rank; k++) l.i *= t.sizes[k];
        break;
    case TD_PRIM_SIZE_DIM:
        if (!td_constant_int(ir, td_ir_in(ir, node, 1), &dim) || dim < -t.rank || dim >= t.rank) return;
        l.i = t.sizes[dim < 0 ? dim + t.rank : dim];
        break;
    default: return;
    }
    td_turn_constant(e, node, &l);
}

static int begin(freezing *z, const td_frozen_look *looks, bool exactly, td_error *error)
{
    z->ir = td_ir_simplify(z->ir);
    z->e = td_ir_edit_new(z->ir, TD_IR_MAX_GROWN, error);
    if (!z->e) return TD_E_SYSTEM;
    mark(z, looks);
    uint32_t nnodes = td_ir_now(z->e)->nnodes;
    for (uint32_t n = 0; n < nnodes; n++) say_look(z->e, n);
    if (!exactly) td_pass_layers(z->e, &z->f), td_pass_layouts(z->e, &z->f);
    td_facts_deinit(&z->f);
    td_ir *marked = td_ir_seal(z->e, error);
    z->e = NULL;
    if (!marked) return TD_E_SYSTEM;
    td_ir_unref(z->ir);
    z->ir = td_ir_simplify(marked);
    return TD_OK;
}

/* ---- what is made of constants */

static bool is_known(const freezing *z, const td_ir *ir, uint32_t node, bool *tensors)
{
    for (uint32_t k = 0; k < ir->nodes[node].nin; k++) {
        uint8_t known = z->known[td_ir_in(ir, node, k)];
        if (!known) return false;
        *tensors |= known == TENSOR;
    }
    return true;
}

static bool is_of_lists(uint32_t op)
{
    return op == TD_PRIM_LISTCONSTRUCT || op == TD_PRIM_LISTUNPACK || op == TD_PRIM_GETITEM_LIST;
}

/* An op on constant tensors, a list of such, or what stands in one. Nobody who has the result may write it. */
static bool is_made_once(freezing *z, const td_ir *ir, uint32_t node)
{
    const td_op *op = td_ir_row(ir->nodes[node].op);
    bool tensors = false;
    if (!op ? !is_of_lists(ir->nodes[node].op)
            : td_writes_any(ir, node) || td_has_effect(ir, node) || op->flags & (TD_OF_CREATION | TD_OF_UNCOMPUTED))
        return false;
    for (uint32_t k = 0; k < ir->nodes[node].nout; k++) {
        uint32_t out = td_ir_out(ir, node, k);
        if (td_class_of(&z->f, ir, out) == TD_CLASS_ANY ||
            td_class_flags(&z->f, ir, out) & (TD_CF_WRITES | TD_CF_LEAVES))
            return false;
    }
    return is_known(z, ir, node, &tensors) && tensors;
}

/* A list of numbers is a constant as long as nobody puts more into it. */
static bool is_constant(freezing *z, const td_ir *ir, uint32_t node)
{
    return ir->nodes[node].op == TD_PRIM_CONSTANT &&
           !(td_class_flags(&z->f, ir, td_ir_out(ir, node, 0)) & TD_CF_WRITES);
}

/* What the setup gives are tensors: a list that an op makes is taken apart there. */
static void find_made(freezing *z)
{
    const td_ir *ir = td_ir_now(z->e);
    for (uint32_t k = 0; k < ir->ncaptures; k++)
        if (td_is_frozen(ir, ir->captures[k].value)) z->known[ir->captures[k].value] = TENSOR;
    for (uint32_t n = ir->blocks[ir->functions[0].block].first; n != TD_IR_NONE; n = ir->nodes[n].next) {
        bool once = is_made_once(z, ir, n);
        if (!once && !is_constant(z, ir, n)) continue;
        for (uint32_t k = 0; k < ir->nodes[n].nout; k++) {
            uint32_t out = td_ir_out(ir, n, k);
            z->known[out] = once ? TENSOR : CONSTANT;
            if (once && td_type_kind_of(ir, ir->values[out].type) == TD_T_TENSOR) z->made[z->nmade++] = out;
        }
    }
}

/* ---- the main part: what was made is captured */

/* The first argument that is made of tensors: an op that is made once has one. */
static uint32_t first_tensor(const freezing *z, const td_ir *ir, uint32_t node)
{
    uint32_t k = 0;
    while (k + 1 < ir->nodes[node].nin && z->known[td_ir_in(ir, node, k)] != TENSOR) k++;
    return td_ir_in(ir, node, k);
}

/* The captured name that it is made of, by first tensors: weights stay known by their names. */
static const char *origin(const freezing *z, uint32_t value)
{
    const td_ir *ir = z->ir;
    uint32_t def;
    while (!((def = ir->values[value].def) & TD_IR_PARAM) && ir->nodes[def].nin) value = first_tensor(z, ir, def);
    return (def & TD_IR_CAPTURED) == TD_IR_CAPTURED ? td_ir_chars(ir, ir->captures[def & ~TD_IR_CAPTURED].name)
                                                    : "made";
}

static bool is_taken(const td_ir *ir, const char *name)
{
    for (uint32_t k = 0; k < ir->ncaptures; k++)
        if (ir->captures[k].name != TD_IR_NONE && strcmp(td_ir_chars(ir, ir->captures[k].name), name) == 0) return true;
    return false;
}

static void drop_unused(freezing *z, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to; k++)
        if (!td_ir_uses(z->e, td_ir_now(z->e)->captures[k].value)) td_ir_capture_drop(z->e, k);
}

/* As its origin, where that is not captured any more; otherwise NAME_2, ... */
static void name_made(freezing *z, uint32_t capture, uint32_t made)
{
    char name[TD_IR_NAME + 16];
    const td_ir *ir = td_ir_now(z->e);
    const char *base = origin(z, made);
    snprintf(name, sizeof name, "%.*s", TD_IR_NAME, base);
    for (unsigned k = 2; is_taken(ir, name); k++) snprintf(name, sizeof name, "%.*s_%u", TD_IR_NAME, base, k);
    td_ir_capture_name(z->e, capture, name);
}

static int make_main(freezing *z, td_error *error)
{
    const td_ir *ir = td_ir_now(z->e);
    uint32_t before = ir->ncaptures;
    if (!facts(z)) return TD_E_SYSTEM;
    find_made(z);
    for (uint32_t k = 0; k < z->nmade; k++) {
        uint32_t value = td_ir_capture_new(z->e, ir->values[z->made[k]].type, NULL, "");
        if (td_ir_failed(z->e)) break;
        z->captures[k] = ir->ncaptures - 1;
        td_ir_replace(z->e, z->made[k], value);
    }
    td_pass_dead(z->e, &z->f);
    if (td_ir_failed(z->e)) return TD_E_SYSTEM;
    drop_unused(z, 0, ir->ncaptures);
    uint32_t n = 0, nresults = 0;
    for (uint32_t k = 0; k < before; k++)
        if (ir->captures[k].name != TD_IR_NONE) z->out->main_from[n++] = k;
    for (uint32_t k = 0; k < z->nmade; k++) {
        if (ir->captures[z->captures[k]].name == TD_IR_NONE) continue;
        name_made(z, z->captures[k], z->made[k]);
        z->out->main_from[n++] = TD_FROZEN_MADE | nresults;
        z->made[nresults++] = z->made[k];
    }
    z->nmade = nresults;
    td_facts_deinit(&z->f);
    z->out->main = td_ir_seal(z->e, error);
    z->e = NULL;
    return z->out->main ? TD_OK : TD_E_SYSTEM;
}

/* ---- the setup: the same module, of which only that is left */

static int make_setup(freezing *z, td_error *error)
{
    if (!z->nmade) return TD_OK;
    z->e = td_ir_edit_new(z->ir, TD_IR_MAX_GROWN, error);
    if (!z->e) return TD_E_SYSTEM;
    const td_ir *ir = td_ir_now(z->e);
    uint32_t graph = ir->functions[0].block;
    td_ir_returns(z->e, graph, z->nmade, z->made);
    for (uint32_t k = 1; k < ir->nfunctions; k++)
        if (td_ir_has_function(ir, k)) td_ir_function_drop(z->e, k);
    for (uint32_t n = ir->blocks[graph].last, before; n != TD_IR_NONE; n = before) {
        before = ir->nodes[n].prev;
        bool needed = false;
        for (uint32_t k = 0; k < ir->nodes[n].nout; k++) needed |= td_ir_uses(z->e, td_ir_out(ir, n, k)) > 0;
        if (!needed) td_ir_erase(z->e, n);
    }
    td_ir_params_drop(z->e, graph);
    drop_unused(z, 0, ir->ncaptures);
    for (uint32_t k = 0, n = 0; k < ir->ncaptures && !td_ir_failed(z->e); k++)
        if (ir->captures[k].name != TD_IR_NONE) z->out->setup_from[n++] = k;
    z->out->setup = td_ir_seal(z->e, error);
    z->e = NULL;
    return z->out->setup ? TD_OK : TD_E_SYSTEM;
}

static int split(freezing *z, td_error *error)
{
    size_t nvalues = z->ir->nvalues + 1u;
    z->known = calloc(nvalues, 1);
    z->made = calloc(nvalues, sizeof *z->made);
    z->captures = calloc(nvalues, sizeof *z->captures);
    z->out->main_from = calloc(nvalues + z->ir->ncaptures, sizeof(uint32_t));
    z->out->setup_from = calloc(z->ir->ncaptures + 1u, sizeof(uint32_t));
    if (!z->known || !z->made || !z->captures || !z->out->main_from || !z->out->setup_from)
        return td_no_memory(error, "to freeze a program");
    z->e = td_ir_edit_new(z->ir, TD_IR_MAX_GROWN, error);
    int rc = z->e ? make_main(z, error) : TD_E_SYSTEM;
    return rc ? rc : make_setup(z, error);
}

int td_ir_freeze(td_frozen *out, td_ir *ir, const td_frozen_look *looks, bool exactly, td_error *error)
{
    freezing z = {.ir = ir, .out = out};
    *out = (td_frozen){.written = calloc(ir->ncaptures + 1u, 1)};
    int rc = out->written ? begin(&z, looks, exactly, error) : td_no_memory(error, "to freeze a program");
    if (!rc) rc = split(&z, error);
    td_facts_deinit(&z.f);
    if (z.e) td_ir_edit_free(z.e);
    td_ir_unref(z.ir);
    free(z.known), free(z.made), free(z.captures);
    if (rc && !error->code) td_no_memory(error, "to freeze a program");
    if (rc) td_frozen_free(out);
    return rc;
}

void td_frozen_free(td_frozen *f)
{
    td_ir_unref(f->main);
    td_ir_unref(f->setup);
    free(f->main_from), free(f->setup_from), free(f->written);
    *f = (td_frozen){0};
}
