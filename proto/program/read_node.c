/* A node of a program's text: one line. */
#include "proto/program/lex.h"

#include "proto/program/literal.h"
#include "proto/program/prim.h"
#include <stdio.h>
#include <stdlib.h>

static bool tensor_op(td_ir_reader *r, char *name, size_t at, uint32_t *op)
{
    size_t n = strlen(name);
    const td_op *row = td_op_by_name(name);
    uint32_t in_place = 0;
    if (!row && n > 1 && name[n - 1] == '_') {
        name[n - 1] = 0;
        row = td_op_by_name(name);
        in_place = TD_IR_INPLACE;
    }
    *op = TD_IR_TD | in_place | (row ? row->id : 0);
    return row || td_ir_read_fail(r, at, "there is no such op");
}

/* class '::' NAME; of fn:: the function is found at the end. */
static bool read_op(td_ir_reader *r, uint32_t *op, size_t *at)
{
    static const char *const classes[] = {"prim", "td", "aten", "fn"};
    int class = 0;
    char name[128];
    while (class < 4 && !td_ir_at_name(r, classes[class])) class ++;
    if (class == 4) return td_ir_read_fail(r, r->start, "an op is expected here: prim::, td::, aten:: or fn::");
    td_ir_next(r);
    if (r->token != TD_TOK_COLONS) return td_ir_read_fail(r, r->start, "'::' is expected here");
    td_ir_next(r);
    if (r->token != TD_TOK_NAME) return td_ir_read_fail(r, r->start, "the name of an op is expected here");
    *at = r->start;
    snprintf(name, sizeof name, "%.*s", r->end - r->start < sizeof name ? (int)(r->end - r->start) : 0,
             r->text + r->start);
    const td_prim *prim = td_prim_by_name(name);
    if (class == 0) *op = TD_IR_PRIM | (prim ? prim->id : 0);
    if (class == 0 && !prim) return td_ir_read_fail(r, *at, "there is no such op");
    if (class == 1 && !tensor_op(r, name, *at, op)) return false;
    if (class == 2) *op = TD_IR_ATEN | (td_ir_string(r->e, name, strlen(name)) & TD_IR_NUMBER);
    if (class == 3) *op = TD_IR_FN;
    td_ir_next(r);
    return true;
}

static bool read_number(td_ir_reader *r, uint32_t *v)
{
    if (r->token != TD_TOK_INT || r->text[r->start] == '-' || r->end - r->start > 9)
        return td_ir_read_fail(r, r->start, "a small number is expected here");
    *v = (uint32_t)strtoul(r->text + r->start, NULL, 10);
    td_ir_next(r);
    return true;
}

static bool read_attr(td_ir_reader *r, uint32_t *mode, uint32_t *rng)
{
    bool value = td_ir_at_name(r, "value"), is_mode = td_ir_at_name(r, "mode");
    if (!value && !is_mode && !td_ir_at_name(r, "rng"))
        return td_ir_read_fail(r, r->start, "value, mode or rng is expected here");
    if (value && r->types.n != 1) return td_ir_read_fail(r, r->start, "only what has one result has a value");
    td_ir_next(r);
    if (!td_ir_expect(r, '=')) return false;
    if (value && r->words.n) return td_ir_read_fail(r, r->start, "there are two values");
    return value ? td_ir_read_literal(r, r->types.at[0]) : read_number(r, is_mode ? mode : rng);
}

static bool read_attrs(td_ir_reader *r, uint32_t op, uint32_t *mode, uint32_t *rng)
{
    r->words.n = 0;
    if (td_ir_at_sign(r, '[')) {
        do {
            td_ir_next(r);
            if (!read_attr(r, mode, rng)) return false;
        } while (td_ir_at_sign(r, ','));
        if (!td_ir_expect(r, ']')) return false;
    }
    return op != TD_PRIM_CONSTANT || r->words.n || td_ir_add_number(r, &r->words, TD_L_NONE);
}

/* NAME ':' LINE ':' COLUMN ['-' END]: the numbers are looked for from the end. */
static bool read_source(td_ir_reader *r)
{
    td_ir_from(r->e, NULL, 0, 0, 0);
    if (r->token != TD_TOK_SOURCE) return true;
    size_t start = r->start + 1, end = r->end, colon = 0;
    unsigned long long line, column, last = 0;
    while (start < end && r->text[start] == ' ') start++;
    for (size_t i = end, colons = 0; i > start && colons < 2; i--)
        if (r->text[i - 1] == ':' && ++colons == 2) colon = i - 1;
    char numbers[40];
    snprintf(numbers, sizeof numbers, "%.*s", colon && end - colon < sizeof numbers ? (int)(end - colon) : 0,
             r->text + colon);
    if (sscanf(numbers, ":%10llu:%10llu-%10llu", &line, &column, &last) < 2 || (line | column | last) >> 32)
        return td_ir_read_fail(r, start, "a source is FILE:LINE:COLUMN, or FILE:LINE:COLUMN-END");
    size_t length = colon - start;
    const char *file = r->text + start;
    if (*file == '"') {
        r->start = start;
        r->end = colon;
        if (length < 2 || file[length - 1] != '"') return td_ir_read_fail(r, start, "a text without an end");
        if (!td_ir_unquote(r, &length)) return false;
        file = r->buffer;
        r->end = end;
    }
    char *name = td_ir_copied(file, length);
    if (name) td_ir_from(r->e, name, (uint32_t)line, (uint32_t)column, (uint32_t)last);
    else td_no_memory(r->error, "to read a program");
    free(name);
    td_ir_next(r);
    return !r->error->code;
}

/* One line: results, op, attributes, arguments, source. */
uint32_t td_ir_read_line(td_ir_reader *r)
{
    uint32_t op, mode = 0, rng = TD_IR_NONE;
    size_t at;
    if (!td_ir_read_typed(r)) return TD_IR_NONE;
    bool equals = r->values.n || td_ir_at_sign(r, '='); /* torch writes it also behind no results */
    if ((equals && !td_ir_expect(r, '=')) || !read_op(r, &op, &at)) return TD_IR_NONE;
    if (!read_attrs(r, op, &mode, &rng) || !td_ir_read_uses(r) || !read_source(r) || !td_ir_end_line(r))
        return TD_IR_NONE;
    uint32_t nblocks = op == TD_PRIM_IF ? 2 : op == TD_PRIM_LOOP ? 1 : 0;
    uint32_t node = td_ir_op_with(r->e, op, r->args.n, r->args.at, nblocks);
    td_ir_mode(r->e, node, mode);
    td_ir_rng(r->e, node, rng);
    if (r->words.n) td_ir_words(r->e, node, r->words.at, r->words.n);
    if (op == TD_IR_FN && !(td_ir_add_number(r, &r->calls, node) && td_ir_add_number(r, &r->calls, (uint32_t)at)))
        return TD_IR_NONE;
    for (uint32_t i = 0; i < r->values.n; i++)
        if (!td_ir_define(r, r->values.at[i], td_ir_out_new(r->e, node, r->types.at[i]), r->function))
            return TD_IR_NONE;
    return td_ir_failed(r->e) ? TD_IR_NONE : node;
}
