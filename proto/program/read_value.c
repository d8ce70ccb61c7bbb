/* Values of a program's text, by name: defined before they are used. Where they can be seen is for the verifier. */
#include "proto/program/arrays.h"

#include "proto/program/lex.h"
#include <ctype.h>
#include <stdlib.h>

static td_ir_named *named(td_ir_reader *r, size_t start, size_t end)
{
    uint32_t string = td_ir_string(r->e, r->text + start, end - start);
    if (string == TD_IR_NONE) return NULL;
    if (string >= r->nnamed) {
        uint32_t n = 2 * string + 64;
        td_ir_named *more = realloc(r->named, n * sizeof *more);
        if (!more) {
            if (!r->error->code) td_no_memory(r->error, "to read a program");
            return NULL;
        }
        for (uint32_t i = r->nnamed; i < n; i++) more[i] = (td_ir_named){TD_IR_NONE, 0};
        r->named = more;
        r->nnamed = n;
    }
    return &r->named[string];
}

/* Until `end` from `start` there stands the name of `value`. */
bool td_ir_define(td_ir_reader *r, size_t start, uint32_t value, uint32_t function)
{
    size_t end = start;
    while (end < r->length && (isalnum((unsigned char)r->text[end]) || r->text[end] == '_' || r->text[end] == '.'))
        end++;
    td_ir_named *n = named(r, start, end);
    if (!n || value == TD_IR_NONE) return false;
    bool digits = isdigit((unsigned char)r->text[start]);
    if (digits ? strspn(r->text + start, "0123456789") < end - start : !td_ir_is_name(r->text + start, end - start))
        return td_ir_read_fail(r, start, "this is no name of a value");
    if (n->value != TD_IR_NONE && (n->function == function || n->function == TD_EVERYWHERE))
        return td_ir_read_fail(r, start, "%%%.*s is defined twice", (int)(end - start < 64 ? end - start : 64),
                               r->text + start);
    *n = (td_ir_named){value, function};
    if (!digits) r->e->ir.values[value].name = (uint32_t)(n - r->named);
    return true;
}

/* '(' values ')' into r->args. */
bool td_ir_read_uses(td_ir_reader *r)
{
    r->args.n = 0;
    if (!td_ir_expect(r, '(')) return false;
    while (!td_ir_at_sign(r, ')')) {
        if (r->args.n && !td_ir_expect(r, ',')) return false;
        if (r->token != TD_TOK_VALUE) return td_ir_read_fail(r, r->start, "a value is expected here");
        td_ir_named *n = named(r, r->start, r->end);
        if (!n) return false;
        if (n->value == TD_IR_NONE || (n->function != r->function && n->function != TD_EVERYWHERE))
            return td_ir_read_fail(r, r->start, "there is no %%%.*s before this",
                                   (int)(r->end - r->start < 64 ? r->end - r->start : 64), r->text + r->start);
        if (!td_ir_add_number(r, &r->args, n->value)) return false;
        td_ir_next(r);
    }
    td_ir_next(r);
    return !r->error->code;
}

/* VALUE ':' type {',' ...} into r->values (places) and r->types, up to something else. */
bool td_ir_read_typed(td_ir_reader *r)
{
    r->values.n = r->types.n = 0;
    while (r->token == TD_TOK_VALUE) {
        size_t at = r->start;
        td_ir_next(r);
        if (!td_ir_expect(r, ':')) return false;
        uint32_t type = td_ir_read_type(r);
        if (type == TD_IR_NONE || !td_ir_add_number(r, &r->values, (uint32_t)at) ||
            !td_ir_add_number(r, &r->types, type))
            return false;
        if (!td_ir_at_sign(r, ',')) return true;
        td_ir_next(r);
        if (r->token == TD_TOK_LINE) td_ir_next(r); /* torch breaks long lists */
        if (r->token != TD_TOK_VALUE) return td_ir_read_fail(r, r->start, "a value is expected here");
    }
    return !r->error->code;
}

bool td_ir_read_params(td_ir_reader *r, uint32_t block)
{
    if (!td_ir_expect(r, '(') || !td_ir_read_typed(r) || !td_ir_expect(r, ')') || !td_ir_expect(r, ':')) return false;
    for (uint32_t i = 0; i < r->values.n; i++)
        if (!td_ir_define(r, r->values.at[i], td_ir_param_new(r->e, block, r->types.at[i], NULL), r->function))
            return false;
    return true;
}

bool td_ir_end_line(td_ir_reader *r)
{
    if (r->token != TD_TOK_LINE && r->token != TD_TOK_END)
        return td_ir_read_fail(r, r->start, "the line ought to end here");
    if (r->token == TD_TOK_LINE) td_ir_next(r);
    return !r->error->code;
}
