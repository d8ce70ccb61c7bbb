/* What all of the lowering uses: types of values, making nodes, refusing. See lower.h. */
#include "client/script/lower.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint32_t td_low_type(const td_lower *l, uint32_t value)
{
    return td_ir_now(l->e)->values[value].type;
}

td_type_kind td_low_kind(const td_lower *l, uint32_t value)
{
    return td_type_kind_of(td_ir_now(l->e), td_low_type(l, value));
}

uint32_t td_low_part(const td_lower *l, uint32_t type, uint32_t k)
{
    return td_type_part(td_ir_now(l->e), type, k);
}

uint32_t td_low_plain(td_lower *l, td_type_kind kind)
{
    return td_low_made(l, td_type_plain(l->e, kind));
}

const char *td_low_type_name(const td_lower *l, uint32_t type)
{
    static const char *const names[TD_T_KINDS] = {"None",   "an int",   "a float", "a bool",   "a complex number",
                                                  "a str",  "a device", "a dtype", "a Tensor", "an Optional",
                                                  "a list", "a tuple",  "a dict"};
    return names[td_type_kind_of(td_ir_now(l->e), type)];
}

/* The builder keeps its first failure; sealing tells it. */
uint32_t td_low_made(td_lower *l, uint32_t number)
{
    if (number != TD_IR_NONE) return number;
    td_ir_edit *e = l->e;
    l->e = NULL;
    td_ir *ir = td_ir_seal(e, l->f->error);
    if (ir) td_ir_unref(ir), td_fail(l->f->error, TD_E_INTERNAL, "a program lost a value: please report it");
    longjmp(l->f->out, 1);
}

/* Of what stands in front of all sources. */
static uint32_t known_unit_of(const td_lower *l, uint32_t node)
{
    if (node < l->units[l->aten].first) return l->prelude;
    return l->world->onnx && node >= l->units[l->onnx].first ? l->onnx : l->aten;
}

uint32_t td_low_unit_of(const td_lower *l, uint32_t node)
{
    uint32_t from = 0, to = l->prelude;
    if (node & TD_LOW_GIVEN) return l->given[node & ~TD_LOW_GIVEN]->unit;
    if (node < l->units[0].first) return known_unit_of(l, node);
    while (to - from > 1) {
        uint32_t middle = (from + to) / 2;
        if (l->units[middle].first <= node) from = middle;
        else to = middle;
    }
    return from;
}

void td_low_at(td_lower *l, uint32_t node)
{
    if (l->blame) node = l->blame;
    td_span s = td_low_node(l, node)->span;
    const td_script_source *from = l->units[td_low_unit_of(l, node)].source;
    const char *file = from->file, *place = s.line && s.line <= from->nplaces ? from->places[s.line - 1] : NULL;
    if (place) td_ir_from(l->e, place, 0, 0, 0);
    else td_ir_from(l->e, file ? file : "<program>", s.line, s.column, s.end_line == s.line ? s.end_column : 0);
}

uint32_t td_low_op(td_lower *l, uint32_t op, uint32_t n, const uint32_t *in, uint32_t type)
{
    uint32_t node = td_low_made(l, td_ir_op(l->e, op, n, in, 1, &type));
    const td_op *row = td_ir_row(op);
    if (row && row->flags & TD_OF_RANDOM) td_ir_rng(l->e, node, l->rng++);
    return td_low_made(l, td_ir_result(l->e, node));
}

void td_low_do(td_lower *l, uint32_t op, uint32_t n, const uint32_t *in)
{
    td_low_made(l, td_ir_op(l->e, op, n, in, 0, NULL));
}

void td_low_wrong(td_lower *l, uint32_t node, const char *format, ...)
{
    char words[256];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    td_low_refuse(l, TD_E_TYPE, node, "%s", words);
}

void td_low_refuse(td_lower *l, td_code code, uint32_t node, const char *format, ...)
{
    char words[512];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    if (l->blame) node = l->blame;
    l->f->source = l->units[td_low_unit_of(l, node)].source;
    td_refuse(l->f, code, td_low_node(l, node)->span, "%s", words);
}

/* Two tuples, item by item. */
static uint32_t unify_tuples(td_lower *l, uint32_t a, uint32_t b)
{
    uint32_t n = td_type_parts(td_ir_now(l->e), a), *parts = td_low_array(l, n);
    if (td_type_parts(td_ir_now(l->e), b) != n) return TD_IR_NONE;
    for (uint32_t k = 0; k < n; k++) {
        parts[k] = td_low_unify(l, td_low_part(l, a, k), td_low_part(l, b, k));
        if (parts[k] == TD_IR_NONE) return TD_IR_NONE;
    }
    return td_low_made(l, td_type_tuple(l->e, n, parts));
}

uint32_t td_low_unify(td_lower *l, uint32_t a, uint32_t b) /* NOLINT(misc-no-recursion): as deep as the types */
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t x = td_type_mark(ir, a), y = td_type_mark(ir, b);
    if (x && y && x != y) return unify_tuples(l, a, b); /* the names are those of neither */
    if (td_type_fits(ir, b, a)) return a;
    if (td_type_fits(ir, a, b)) return b;
    if (td_type_kind_of(ir, a) == TD_T_NONE) return td_low_made(l, td_type_optional(l->e, b));
    if (td_type_kind_of(ir, b) == TD_T_NONE) return td_low_made(l, td_type_optional(l->e, a));
    if (td_type_kind_of(ir, a) == TD_T_TUPLE && td_type_kind_of(ir, b) == TD_T_TUPLE) return unify_tuples(l, a, b);
    return TD_IR_NONE;
}

struct td_low_space {
    struct td_low_space *next;
    size_t used, room;
    uint64_t at[];
};

void *td_low_take(td_lower *l, size_t bytes)
{
    enum { BLOCK = 2048 };
    struct td_low_space *s = l->space;
    size_t n = (bytes + 7) / 8;
    if (!s || s->room - s->used < n) {
        size_t room = n > BLOCK ? n : BLOCK;
        s = malloc(sizeof *s + room * sizeof *s->at);
        if (!s) {
            td_refuse_memory(l->f);
            return NULL; /* it does not come back */
        }
        *s = (struct td_low_space){.next = l->space, .room = room};
        l->space = s;
    }
    s->used += n;
    return s->at + s->used - n;
}

uint32_t *td_low_array(td_lower *l, uint32_t n)
{
    return td_low_take(l, (size_t)n * sizeof(uint32_t));
}

void td_lower_deinit(td_lower *l)
{
    for (struct td_low_space *s = l->space, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    free(l->vars);
    free(l->saved);
    free(l->pairs);
    free(l->places);
    free(l->functions);
    free(l->given);
    free(l->pieces);
    free(l->named);
    free(l->scopes);
    free(l->units);
    td_ir_edit_free(l->e);
    *l = (td_lower){0};
}

/* A tuple, item by item: to a list of one type, or a tuple of others. */
static bool convert_tuple(td_lower *l, uint32_t node, uint32_t *value, uint32_t type)
{
    uint32_t from = td_low_type(l, *value), n = td_type_parts(td_ir_now(l->e), from), *items = td_low_array(l, n);
    td_type_kind to = td_type_kind_of(td_ir_now(l->e), type);
    if (to != TD_T_LIST && (to != TD_T_TUPLE || td_type_parts(td_ir_now(l->e), type) != n)) return false;
    for (uint32_t k = 0; k < n; k++)
        items[k] = td_low_convert(l, node, td_low_item(l, *value, k), td_low_part(l, type, to == TD_T_LIST ? 0 : k));
    *value = to == TD_T_TUPLE ? td_low_tuple(l, n, items) : td_low_op(l, TD_PRIM_LISTCONSTRUCT, n, items, type);
    return true;
}

/* bool, int, float, complex: each may stand for those behind it. */
static bool convert_number(td_lower *l, uint32_t *value, td_type_kind to)
{
    td_type_kind from = td_low_kind(l, *value);
    if (from == TD_T_BOOL && (to == TD_T_INT || to == TD_T_FLOAT || to == TD_T_COMPLEX)) {
        *value = td_low_op(l, TD_PRIM_INT_BOOL, 1, value, td_low_plain(l, TD_T_INT));
        return to == TD_T_INT || convert_number(l, value, to);
    }
    if (from == TD_T_INT && to == TD_T_FLOAT) *value = td_low_op(l, TD_PRIM_FLOAT_INT, 1, value, td_low_plain(l, to));
    else if (from == TD_T_INT && to == TD_T_COMPLEX)
        *value = td_low_op(l, TD_PRIM_COMPLEX_INT, 1, value, td_low_plain(l, to));
    else if (from == TD_T_FLOAT && to == TD_T_COMPLEX)
        *value = td_low_op(l, TD_PRIM_COMPLEX_FLOAT, 1, value, td_low_plain(l, to));
    else return false;
    return true;
}

uint32_t td_low_convert(td_lower *l, uint32_t node, uint32_t value, uint32_t type)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t from = td_low_type(l, value);
    if (td_type_fits(ir, from, type)) return value;
    td_type_kind to = td_type_kind_of(ir, type), kind = td_type_kind_of(ir, from);
    if (td_low_is_code(l) && td_low_code_dtype(l, from, type)) return value;
    if (to == TD_T_OPTIONAL) return td_low_convert(l, node, value, td_low_part(l, type, 0));
    if (kind == TD_T_TUPLE && convert_tuple(l, node, &value, type)) return value;
    if (convert_number(l, &value, to)) return value;
    if (kind == TD_T_LIST && to == TD_T_LIST && td_type_kind_of(ir, td_low_part(l, from, 0)) == TD_T_NONE) {
        td_ir_retype(l->e, value, type); /* [] */
        return value;
    }
    if (kind == TD_T_OPTIONAL)
        td_low_wrong(l, node, "this may be None, and %s is wanted; test 'is not None' before",
                     td_low_type_name(l, type));
    td_low_wrong(l, node, "this is %s, and %s is wanted", td_low_type_name(l, from), td_low_type_name(l, type));
}

uint32_t td_low_element(td_lower *l, uint32_t value, td_type_kind kind)
{
    return td_low_op(l, kind == TD_T_INT ? TD_PRIM_ITEM_INT : TD_PRIM_ITEM_FLOAT, 1, &value, td_low_plain(l, kind));
}

void td_low_type_empty(td_lower *l, uint32_t node, uint32_t x, uint32_t y)
{
    const td_ir *ir = td_ir_now(l->e);
    if (td_low_kind(l, x) != TD_T_LIST || td_low_kind(l, y) != TD_T_LIST) return;
    bool none_x = td_type_kind_of(ir, td_low_part(l, td_low_type(l, x), 0)) == TD_T_NONE;
    bool none_y = td_type_kind_of(ir, td_low_part(l, td_low_type(l, y), 0)) == TD_T_NONE;
    if (none_x && !none_y) td_low_convert(l, node, x, td_low_type(l, y));
    if (none_y && !none_x) td_low_convert(l, node, y, td_low_type(l, x));
}

bool td_low_literal(td_lower *l, uint32_t value, td_literal *v)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t def = ir->values[value].def;
    if (def & (TD_IR_PARAM | TD_IR_CAPTURED) || ir->nodes[def].op != TD_PRIM_CONSTANT) return false;
    const td_ir_node *node = &ir->nodes[def];
    return td_literal_get(ir->words + node->word, node->nwords, v) > 0;
}

const char *td_low_constant_text(td_lower *l, uint32_t value)
{
    td_literal v;
    if (!td_low_literal(l, value, &v) || v.kind != TD_L_STR) return NULL;
    const char *text = td_ir_chars(td_ir_now(l->e), v.small);
    size_t n = strlen(text);
    if (n != td_ir_now(l->e)->strings[v.small].length) return NULL;
    return memcpy(td_low_take(l, n + 1), text, n + 1); /* where others move it */
}
