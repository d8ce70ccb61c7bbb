/* The parameters of a method and what it gives: as Python calls the program, with defaults and trees of tensors. */
#include "client/files/torchscript_print.h"

#include "client/files/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const td_plain *get(const td_plain *dict, const char *key)
{
    for (uint32_t i = 0; dict && dict->kind == TD_PLAIN_DICT && i + 1 < dict->n; i += 2)
        if (td_plain_is_text(dict->items[i], key)) return dict->items[i + 1];
    return NULL;
}

static const td_plain *list(const td_plain *x)
{
    return x && x->kind == TD_PLAIN_LIST ? x : NULL;
}

/* ---- trees: 0 is a tensor, ["t", ...] a tuple, ["l", ...] a list, ["d", [key, tree], ...] a dict */

static bool is_leaf(const td_plain *tree)
{
    return tree->kind == TD_PLAIN_INT;
}

static char kind_of(const td_plain *tree)
{
    bool said = list(tree) && tree->n && tree->items[0]->kind == TD_PLAIN_TEXT && tree->items[0]->n == 1;
    return said && strchr("tld", tree->items[0]->text[0]) ? tree->items[0]->text[0] : 0;
}

static const td_plain *item_of(const td_plain *tree, uint32_t k)
{
    return kind_of(tree) == 'd' ? tree->items[k]->items[1] : tree->items[k];
}

static bool is_pair(const td_plain *x)
{
    return list(x) && x->n == 2 && (x->items[0]->kind == TD_PLAIN_INT || x->items[0]->kind == TD_PLAIN_TEXT);
}

/* As the comment above says, all of it: who comes later looks no more. */
static bool makes_sense(const td_plain *tree, int depth) /* NOLINT(misc-no-recursion) */
{
    char kind = kind_of(tree);
    bool good = is_leaf(tree) || (kind && depth < TD_TREE_DEEPEST);
    for (uint32_t k = 1; good && kind && k < tree->n; k++)
        good = (kind != 'd' || is_pair(tree->items[k])) && makes_sense(item_of(tree, k), depth + 1);
    return good;
}

bool td_entry_open(td_entry *t, const td_scripted_program *p, td_error *e)
{
    td_plain *call = NULL;
    if (!p->call) return true;
    t->memory.file_size = strlen(p->call);
    if (td_json_read(&t->memory, p->call, strlen(p->call), "how a program is called", &call, e)) return false;
    t->names = list(get(call, "names"));
    t->defaults = get(call, "defaults");
    t->takes = get(call, "takes");
    t->gives = t->takes ? get(call, "gives") : NULL;
    if (t->takes && (kind_of(t->takes) != 't' || !makes_sense(t->takes, 0) || (t->gives && !makes_sense(t->gives, 0))))
        return td_fail(e, TD_E_INVALID, "how '%.60s' is called makes no sense", p->name) == TD_OK;
    const td_plain *states = list(get(call, "states"));
    if (!states || !states->n) return true;
    return td_fail(e, TD_E_UNSUPPORTED, "'%.60s' keeps a state from call to call", p->name) == TD_OK;
}

void td_entry_close(td_entry *t)
{
    td_pickle_close(&t->memory);
    free(t->called);
}

/* Lists and dicts have items of one type there, and keys. */
static bool is_even(const td_plain *tree)
{
    for (uint32_t k = 1; k < tree->n; k++) {
        if (!is_leaf(item_of(tree, k))) return false;
        if (kind_of(tree) == 'd' && tree->items[k]->items[0]->kind != tree->items[1]->items[0]->kind) return false;
    }
    return tree->n > 1;
}

static bool check_tree(td_coding *c, const td_plain *tree, int depth)
{
    char kind = kind_of(tree);
    if (depth < TD_TREE_DEEPEST && (kind == 't' || (kind && is_even(tree)))) return true;
    td_coding_refuse(c, "a list or dict in its arguments or results holds more than tensors, or has keys of two types");
    return false;
}

static void tree_type(td_coding *c, const td_plain *tree, int depth) /* NOLINT(misc-no-recursion): check_tree() */
{
    if (is_leaf(tree)) {
        td_printf(&c->p, "Tensor");
        return;
    }
    if (!check_tree(c, tree, depth)) return;
    char kind = kind_of(tree);
    if (kind != 't') {
        bool number = kind == 'd' && tree->items[1]->items[0]->kind == TD_PLAIN_INT;
        td_printf(&c->p, kind == 'l' ? "List[Tensor]" : number ? "Dict[int, Tensor]" : "Dict[str, Tensor]");
        return;
    }
    td_printf(&c->p, tree->n == 1 ? "Tuple[()" : "Tuple[");
    for (uint32_t k = 1; k < tree->n; k++) {
        td_printf(&c->p, k > 1 ? ", " : "");
        tree_type(c, tree->items[k], depth + 1);
    }
    td_printf(&c->p, "]");
}

static void key(td_coding *c, const td_plain *of)
{
    const td_plain *k = of->items[0];
    if (k->kind == TD_PLAIN_INT) td_printf(&c->p, "%" PRId64, k->i);
    else td_coding_text(&c->p, k->text, k->n);
}

/* What is traced is traced for so many. */
static void check_length(td_coding *c, const td_plain *tree, const char *from)
{
    td_coding_line(c, 2);
    td_printf(&c->p, "if torch.ne(torch.len(%s), %u):", from, tree->n - 1);
    td_coding_line(c, 3);
    td_printf(&c->p, "ops.prim.RaiseException(\"it was traced with a %s of %u\", \"builtins.ValueError\")",
              kind_of(tree) == 'l' ? "list" : "dict", tree->n - 1);
    td_coding_line(c, 2);
    td_printf(&c->p, "else:");
    td_coding_line(c, 3);
    td_printf(&c->p, "pass");
}

/* Leaves to variables: the parameters of the block, one after another. */
static void take_tree(td_coding *c, const td_plain *tree, const char *from, uint32_t *next,
                      int depth) /* NOLINT(misc-no-recursion) */
{
    char name[32];
    if (is_leaf(tree)) {
        td_coding_line(c, 2);
        if (*next < c->block->nparams) td_printf(&c->p, "v%u = %s", c->ir->defs[c->block->param + *next], from);
        ++*next;
        return;
    }
    if (!check_tree(c, tree, depth)) return;
    if (kind_of(tree) != 't') check_length(c, tree, from);
    uint32_t first = c->temporaries;
    c->temporaries += tree->n;
    for (uint32_t k = 1; k < tree->n; k++) {
        td_coding_line(c, 2);
        if (kind_of(tree) != 'd') td_printf(&c->p, "t%u = (%s)[%u]", first + k, from, k - 1);
        else {
            td_printf(&c->p, "t%u = torch.__getitem__(%s, ", first + k, from);
            key(c, tree->items[k]);
            td_printf(&c->p, ")");
        }
    }
    for (uint32_t k = 1; k < tree->n; k++) {
        snprintf(name, sizeof name, "t%u", first + k);
        take_tree(c, item_of(tree, k), name, next, depth + 1);
    }
}

static void give_tree(td_coding *c, const td_plain *tree, uint32_t *next, int depth) /* NOLINT(misc-no-recursion) */
{
    if (is_leaf(tree)) {
        if (*next < c->block->nrets) td_coding_value(c, c->ir->args[c->block->ret + *next]);
        ++*next;
        return;
    }
    if (!check_tree(c, tree, depth)) return;
    char kind = kind_of(tree);
    td_printf(&c->p, kind == 't' ? "(" : kind == 'l' ? "[" : "{");
    for (uint32_t k = 1; k < tree->n; k++) {
        td_printf(&c->p, k > 1 ? ", " : "");
        if (kind == 'd') key(c, tree->items[k]), td_printf(&c->p, ": ");
        give_tree(c, item_of(tree, k), next, depth + 1);
    }
    td_printf(&c->p, kind == 't' ? (tree->n == 2 ? ",)" : ")") : kind == 'l' ? "]" : "}");
}

/* ---- parameters */

static uint32_t arguments(const td_coding *c, const td_entry *t)
{
    return t->takes ? t->takes->n - 1 : c->block->nparams;
}

/* As it was called, if that may be a name there. */
static const char *said(const td_coding *c, const td_entry *t, uint32_t k)
{
    const td_plain *x = t->names && t->names->n == arguments(c, t) ? t->names->items[k] : NULL;
    const td_ir_value *v = t->takes ? NULL : &c->ir->values[c->ir->defs[c->block->param + k]];
    if (x && x->kind == TD_PLAIN_TEXT) return x->text;
    return v && v->name != TD_IR_NONE ? td_ir_chars(c->ir, v->name) : "";
}

static bool is_front_and_number(const char *name, const char *front)
{
    size_t n = strlen(front);
    return strncmp(name, front, n) == 0 && name[n] && !name[n + strspn(name + n, "0123456789")];
}

/* Not as variables here are called, nor what is taken, nor as others are by their numbers. */
static bool is_free(const char *name)
{
    static const char *const taken[] = {"self", "torch", "ops", "inf", "nan"}, *const fronts[] = {"v", "t", "n", "g"};
    bool good = strlen(name) < TD_CALLED && td_coding_is_word(name, strlen(name));
    for (size_t k = 0; k < sizeof taken / sizeof *taken; k++) good = good && strcmp(name, taken[k]) != 0;
    for (size_t k = 0; k < sizeof fronts / sizeof *fronts; k++) good = good && !is_front_and_number(name, fronts[k]);
    return good && !is_front_and_number(name, "argument_");
}

/* What is no name, or another one's, is by its number. */
static bool call_all(td_coding *c, td_entry *t)
{
    uint32_t n = arguments(c, t);
    t->called = calloc((size_t)n + 1, sizeof *t->called);
    if (!t->called) return td_no_memory(c->e, "for the code of a program") == TD_OK;
    for (uint32_t k = 0; k < n; k++) {
        const char *name = said(c, t, k);
        bool own = is_free(name);
        for (uint32_t i = 0; own && i < k; i++) own = strcmp(t->called[i], name) != 0;
        if (own) snprintf(t->called[k], TD_CALLED, "%s", name);
        else snprintf(t->called[k], TD_CALLED, "argument_%u", k);
    }
    return true;
}

/* Numbers of Python that JSON has none for are a text. */
static bool number_of(const td_plain *x, double *v)
{
    const td_plain *text = get(x, "float");
    bool good =
        x->kind == TD_PLAIN_INT || x->kind == TD_PLAIN_BOOL || x->kind == TD_PLAIN_FLOAT ||
        (text && (td_plain_is_text(text, "nan") || td_plain_is_text(text, "inf") || td_plain_is_text(text, "-inf")));
    if (good) *v = x->kind == TD_PLAIN_FLOAT ? x->f[0] : text ? strtod(text->text, NULL) : (double)x->i;
    return good;
}

static const td_plain *items_of(const td_plain *x)
{
    const td_plain *inside = get(x, "tuple");
    return list(inside ? inside : x);
}

/* Is it one of the parameter's type there? */
static bool fits(const td_coding *c, const td_plain *x, uint32_t type, int depth) /* NOLINT(misc-no-recursion) */
{
    double v;
    const td_plain *items = items_of(x);
    uint32_t n = items ? items->n : 0;
    if (depth > TD_TREE_DEEPEST) return false;
    switch (td_type_kind_of(c->ir, type)) {
    case TD_T_OPTIONAL: return x->kind == TD_PLAIN_NONE || fits(c, x, td_type_part(c->ir, type, 0), depth + 1);
    case TD_T_NONE: return x->kind == TD_PLAIN_NONE;
    case TD_T_BOOL: return x->kind == TD_PLAIN_BOOL;
    case TD_T_INT: return x->kind == TD_PLAIN_INT || x->kind == TD_PLAIN_BOOL;
    case TD_T_FLOAT:
    case TD_T_COMPLEX: return number_of(x, &v);
    case TD_T_STR: return x->kind == TD_PLAIN_TEXT;
    case TD_T_LIST:
        for (uint32_t k = 0; k < n; k++)
            if (!fits(c, items->items[k], td_type_part(c->ir, type, 0), depth + 1)) return false;
        return items;
    case TD_T_TUPLE:
        for (uint32_t k = 0; k < n && n == td_type_parts(c->ir, type); k++)
            if (!fits(c, items->items[k], td_type_part(c->ir, type, k), depth + 1)) return false;
        return items && n == td_type_parts(c->ir, type);
    default: return false;
    }
}

/* What fits. */
static void plain_default(td_coding *c, const td_plain *x, uint32_t type) /* NOLINT(misc-no-recursion): fits() */
{
    double v = 0;
    const td_plain *items = items_of(x);
    td_type_kind kind = td_type_kind_of(c->ir, type);
    if (kind == TD_T_OPTIONAL && x->kind != TD_PLAIN_NONE) {
        plain_default(c, x, td_type_part(c->ir, type, 0));
        return;
    }
    switch (x->kind == TD_PLAIN_NONE ? TD_T_NONE : kind) {
    case TD_T_NONE: td_printf(&c->p, "None"); return;
    case TD_T_BOOL: td_printf(&c->p, x->i ? "True" : "False"); return;
    case TD_T_INT: td_printf(&c->p, "%" PRId64, x->i); return;
    case TD_T_STR: td_coding_text(&c->p, x->text, x->n); return;
    case TD_T_FLOAT:
    case TD_T_COMPLEX:
        number_of(x, &v);
        if (kind == TD_T_COMPLEX) td_printf(&c->p, "complex(");
        td_coding_real(c, v);
        if (kind == TD_T_COMPLEX) td_printf(&c->p, ", 0.)");
        return;
    default: break;
    }
    td_printf(&c->p, kind == TD_T_LIST ? "[" : "(");
    for (uint32_t k = 0; k < items->n; k++) {
        td_printf(&c->p, k ? ", " : "");
        plain_default(c, items->items[k], td_type_part(c->ir, type, kind == TD_T_LIST ? 0 : k));
    }
    td_printf(&c->p, kind == TD_T_LIST ? "]" : items->n == 1 ? ",)" : ")");
}

static uint32_t type_of(const td_coding *c, uint32_t k)
{
    return c->ir->values[c->ir->defs[c->block->param + k]].type;
}

/* The first parameter that has a default there: all behind it have one, too. */
static uint32_t first_default(const td_coding *c, const td_entry *t)
{
    uint32_t k = arguments(c, t);
    while (k && t->defaults && !t->takes) {
        const td_plain *x = get(t->defaults, said(c, t, k - 1));
        if (!x || !fits(c, x, type_of(c, k - 1), 0)) break;
        k--;
    }
    return k;
}

void td_coding_parameters(td_coding *c, td_entry *t)
{
    if (!call_all(c, t)) return;
    uint32_t first = first_default(c, t);
    for (uint32_t k = 0; k < arguments(c, t); k++) {
        td_printf(&c->p, ",\n    %s: ", t->called[k]);
        if (t->takes) tree_type(c, t->takes->items[k + 1], 0);
        else td_coding_type(c, type_of(c, k));
        if (k < first) continue;
        td_printf(&c->p, "=");
        plain_default(c, get(t->defaults, said(c, t, k)), type_of(c, k));
    }
}

void td_coding_take_apart(td_coding *c, const td_entry *t)
{
    uint32_t next = 0;
    for (uint32_t k = 0; t->called && k < arguments(c, t); k++) {
        if (t->takes) {
            take_tree(c, t->takes->items[k + 1], t->called[k], &next, 0);
            continue;
        }
        td_coding_line(c, 2);
        td_printf(&c->p, "v%u = %s", c->ir->defs[c->block->param + k], t->called[k]);
    }
    if (t->takes && next != c->block->nparams) td_coding_refuse(c, "its arguments are not as many as the file says");
}

/* ---- results */

void td_coding_result_type(td_coding *c, const td_entry *t)
{
    const td_ir_block *b = c->block;
    if (t && t->gives) {
        tree_type(c, t->gives, 0);
        return;
    }
    td_printf(&c->p, b->nrets == 0 ? "NoneType" : b->nrets > 1 ? "Tuple[" : "");
    for (uint32_t k = 0; k < b->nrets; k++) {
        td_printf(&c->p, k ? ", " : "");
        td_coding_type(c, c->ir->values[c->ir->args[b->ret + k]].type);
    }
    td_printf(&c->p, b->nrets > 1 ? "]" : "");
}

void td_coding_result(td_coding *c, const td_entry *t)
{
    const td_ir_block *b = c->block;
    uint32_t next = 0;
    if (t && t->gives) {
        give_tree(c, t->gives, &next, 0);
        if (next != b->nrets) td_coding_refuse(c, "its results are not as many as the file says");
        return;
    }
    td_printf(&c->p, b->nrets == 0 ? "None" : b->nrets > 1 ? "(" : "");
    for (uint32_t k = 0; k < b->nrets; k++) {
        td_printf(&c->p, k ? ", " : "");
        td_coding_value(c, c->ir->args[b->ret + k]);
    }
    td_printf(&c->p, b->nrets > 1 ? ")" : "");
}
