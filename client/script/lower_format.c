/* Texts that are put together: f-strings, "...".format() and "..." % values become one prim::format of pieces that
 * prim::formatted made of what has a width or a precision. See lower.h. */
#include "client/script/lower.h"
#include "proto/program/spec.h"

#include <stdio.h>
#include <stdlib.h>

/* A format with {} for each value, and these. */
typedef struct pieces {
    uint32_t node, *values, n;
    char *text;
    size_t size, room;
} pieces;

static pieces begin(td_lower *l, uint32_t node, uint32_t most)
{
    enum { ROOM = 256 };
    return (pieces){.node = node, .values = td_low_array(l, most + 1), .text = td_low_take(l, ROOM), .room = ROOM};
}

static void put(td_lower *l, pieces *p, char c)
{
    if (p->size + 1 >= p->room) {
        char *more = td_low_take(l, 2 * p->room);
        p->text = memcpy(more, p->text, p->size), p->room *= 2;
    }
    p->text[p->size++] = c;
}

/* A brace that stands for itself is doubled. */
static void put_text(td_lower *l, pieces *p, const char *text, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        put(l, p, text[k]);
        if (text[k] == '{' || text[k] == '}') put(l, p, text[k]);
    }
}

static uint32_t a_text(td_lower *l, const char *text, size_t n)
{
    return td_low_made(l, td_ir_str(l->e, n ? text : "", n));
}

static void put_value(td_lower *l, pieces *p, uint32_t value)
{
    put(l, p, '{'), put(l, p, '}');
    p->values[++p->n] = value;
}

static uint32_t finish(td_lower *l, pieces *p)
{
    td_low_at(l, p->node);
    p->values[0] = a_text(l, p->text, p->size);
    return td_low_op(l, TD_PRIM_FORMAT, p->n + 1, p->values, td_low_plain(l, TD_T_STR));
}

/* ---- one value */

static uint32_t of_text(td_lower *l, uint32_t op, uint32_t value)
{
    return td_low_op(l, op, 1, &value, td_low_plain(l, TD_T_STR));
}

static void check_spec(td_lower *l, uint32_t node, uint32_t value, uint32_t spec)
{
    const char *text = td_low_constant_text(l, spec), *wrong;
    td_type_kind kind = td_low_kind(l, value);
    td_spec s;
    if (kind == TD_T_OPTIONAL) td_low_wrong(l, node, "this may be None; test 'is not None' before");
    if (!text || !*text) return;
    if ((wrong = td_spec_read(text, strlen(text), &s)))
        td_low_wrong(l, node, "'%.40s' is no way to write a value: %s", text, wrong);
    if (kind != TD_T_TENSOR && (wrong = td_spec_misfit(&s, kind)))
        td_low_wrong(l, node, "%s is not written as '%.40s': %s", td_low_type_name(l, td_low_type(l, value)), text,
                     wrong);
}

uint32_t td_low_formatted(td_lower *l, uint32_t node, uint32_t value, uint32_t spec)
{
    check_spec(l, node, value, spec);
    td_low_at(l, node);
    return td_low_op(l, TD_PRIM_FORMATTED, 2, (uint32_t[]){value, spec}, td_low_plain(l, TD_T_STR));
}

/* A value as it stands in braces; conversion: 'r', 's' or 0, spec: TD_IR_NONE, there is none. */
static uint32_t shown(td_lower *l, uint32_t node, uint32_t value, unsigned conversion, uint32_t spec)
{
    td_low_at(l, node);
    if (conversion == 'a') td_low_wrong(l, node, "a program has no '!a'; write '!r'");
    if (conversion == 'r') value = of_text(l, TD_PRIM_REPR, value);
    else if (conversion == 's' && td_low_kind(l, value) != TD_T_STR) value = of_text(l, TD_PRIM_STR, value);
    if (spec == TD_IR_NONE && td_low_kind(l, value) == TD_T_TENSOR) spec = a_text(l, "", 0);
    return spec == TD_IR_NONE ? value : td_low_formatted(l, node, value, spec);
}

/* ---- f"{x:.3f}" */

static uint32_t braces(td_lower *l, uint32_t node)
{
    uint32_t value = td_low_expr(l, td_low_kid(l, node, 0)), spec = td_low_kid(l, node, 1);
    return shown(l, node, value, td_low_node(l, node)->op, spec ? td_low_expr(l, spec) : TD_IR_NONE);
}

uint32_t td_low_format_string(td_lower *l, uint32_t node)
{
    uint32_t n = td_low_node(l, node)->n;
    pieces p = begin(l, node, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t kid = td_low_kid(l, node, k);
        const td_ast_node *at = td_low_node(l, kid);
        if (at->kind == TD_N_VALUE) put_value(l, &p, braces(l, kid));
        else if (n == 1) return td_low_expr(l, kid);
        else put_text(l, &p, td_low_text(l, kid), l->ast->texts[at->text].size);
    }
    return finish(l, &p);
}

/* ---- "{:.3f} {1} {name}".format(...) */

typedef struct fields {
    pieces p;
    uint32_t call, *values, *names, n, next; /* names: 0 by place */
    bool numbered;
} fields;

static fields arguments(td_lower *l, uint32_t call)
{
    uint32_t n = td_low_node(l, call)->n - 1;
    fields f = {.call = call, .n = n, .values = td_low_array(l, n), .names = td_low_array(l, n)};
    for (uint32_t k = 0; k < n; k++) {
        uint32_t arg = td_low_kid(l, call, k + 1);
        bool named = td_low_node(l, arg)->kind == TD_N_KEYWORD;
        f.names[k] = named ? arg : 0;
        f.values[k] = td_low_expr(l, named ? td_low_kid(l, arg, 0) : arg);
    }
    return f;
}

static uint32_t argument_named(td_lower *l, const fields *f, const char *name, size_t n)
{
    for (uint32_t k = 0; k < f->n; k++)
        if (f->names[k] && strlen(td_low_text(l, f->names[k])) == n &&
            memcmp(td_low_text(l, f->names[k]), name, n) == 0)
            return f->values[k];
    td_low_wrong(l, f->call, "the format wants '%.*s', which is no argument of format()", n > 60 ? 60 : (int)n, name);
}

static uint32_t argument_at(td_lower *l, const fields *f, uint32_t k)
{
    if (k >= f->n || f->names[k]) td_low_wrong(l, f->call, "the format wants value %u, which is not given", k);
    return f->values[k];
}

/* Of the field's name: "", "0", "name". */
static uint32_t argument(td_lower *l, fields *f, const char *name, size_t n)
{
    size_t digits = strspn(name, "0123456789");
    if (memchr(name, '.', n) || memchr(name, '[', n))
        td_low_wrong(l, f->call, "a program writes {} {0} or {name}; give the part of a value as an argument, '{%.*s}'",
                     n > 60 ? 60 : (int)n, name);
    if (n && digits < n) return argument_named(l, f, name, n);
    if ((n && f->next) || (!n && f->numbered)) td_low_wrong(l, f->call, "a format has {} or {0}, not both");
    f->numbered = n != 0;
    return argument_at(l, f, n ? n > 6 ? UINT32_MAX : (uint32_t)atoi(name) : f->next++);
}

/* From behind '{' on; the place of its '}'. */
static const char *field(td_lower *l, fields *f, const char *at)
{
    size_t name = strcspn(at, "!:{}"), rest;
    uint32_t value = argument(l, f, at, name), spec = TD_IR_NONE;
    unsigned conversion = 0;
    at += name;
    if (*at == '!' && at[1] && strchr("rsa", at[1])) conversion = (unsigned char)at[1], at += 2;
    if (*at == ':') {
        rest = strcspn(++at, "{}");
        td_low_at(l, f->call);
        spec = a_text(l, at, rest);
        at += rest;
    }
    if (*at == '{') td_low_wrong(l, f->call, "a field stands in another one; write an f-string for that");
    if (*at != '}') td_low_wrong(l, f->call, "a field {} of the format has no end");
    put_value(l, &f->p, shown(l, f->call, value, conversion, spec));
    return at;
}

static uint32_t fields_of(const char *text)
{
    uint32_t n = 0;
    for (; *text; text++) n += *text == '{';
    return n;
}

/* Of a text that is known only when it runs: {} and {0} alone. */
static uint32_t format_later(td_lower *l, uint32_t call, uint32_t self)
{
    uint32_t n, *values = td_low_arguments(l, call, self, &n);
    td_low_at(l, call);
    return td_low_op(l, TD_PRIM_FORMAT, n, values, td_low_plain(l, TD_T_STR));
}

uint32_t td_low_format_method(td_lower *l, uint32_t call, uint32_t self)
{
    const char *text = td_low_constant_text(l, self);
    if (!text) return format_later(l, call, self);
    fields f = arguments(l, call);
    f.p = begin(l, call, fields_of(text));
    for (; *text; text++) {
        bool twice = text[1] == *text;
        if (*text == '}' && !twice) td_low_wrong(l, call, "a single '}' in a format; write '}}'");
        if (*text == '{' && !twice) text = field(l, &f, text + 1);
        else put_text(l, &f.p, text, 1), text += (*text == '{' || *text == '}');
    }
    return finish(l, &f.p);
}

/* ---- "%5.2f %s" % (x, y) */

typedef struct percent {
    uint32_t node, *values, n, next;
    pieces p;
    char flags[8], type;
    int width, precision; /* -1: not said */
} percent;

static const char *numbered(const char *at, int *out)
{
    size_t n = strspn(at, "0123456789");
    *out = !n ? -1 : n > 6 ? 1000000 : atoi(at); /* which is too much */
    return at + n;
}

/* From behind '%' on; the place of its type. */
static const char *directive(td_lower *l, percent *c, const char *at)
{
    size_t flags = strspn(at, "#0- +");
    snprintf(c->flags, sizeof c->flags, "%.*s", (int)flags, at);
    at = numbered(at + flags, &c->width);
    c->precision = -1;
    if (*at == '.') at = numbered(at + 1, &c->precision), c->precision += c->precision < 0;
    at += strspn(at, "hlL");
    if (!*at || !strchr("diouxXeEfFgGcrs%", *at) || flags >= sizeof c->flags)
        td_low_wrong(
            l, c->node,
            "a program writes %%d %%i %%o %%x %%X %%e %%E %%f %%F %%g %%G %%c %%r %%s and %%%%, with a width and a "
            "precision that are written here; for others write an f-string");
    c->type = *at == 'i' || *at == 'u' ? 'd' : *at;
    return at;
}

/* The value as what this type writes. */
static uint32_t as_number(td_lower *l, const percent *c, uint32_t value)
{
    td_type_kind kind = td_low_kind(l, value);
    bool real = strchr("eEfFgG", c->type), tensor = kind == TD_T_TENSOR;
    if (tensor) return td_low_prim(l, c->node, real ? "item.float" : "item.int", 1, &value);
    if (kind == TD_T_FLOAT && c->type == 'd') return td_low_prim(l, c->node, "int", 1, &value);
    if (kind == TD_T_FLOAT && !real)
        td_low_wrong(l, c->node, "'%%%c' wants an int, not a float; write int(...) around it", c->type);
    if (kind != TD_T_INT && kind != TD_T_BOOL && kind != TD_T_FLOAT)
        td_low_wrong(l, c->node, "'%%%c' wants a number, not %s; write '%%s'", c->type,
                     td_low_type_name(l, td_low_type(l, value)));
    return td_low_convert(l, c->node, value, td_low_plain(l, real ? TD_T_FLOAT : TD_T_INT));
}

static uint32_t as_character(td_lower *l, const percent *c, uint32_t value)
{
    if (td_low_kind(l, value) == TD_T_STR) value = td_low_prim(l, c->node, "ord", 1, &value);
    return td_low_prim(l, c->node, "chr", 1, &value);
}

/* Python's older way to say it, in the words of a spec; "": as it is. */
static void spec_of(const percent *c, bool text, char *out, size_t size)
{
    bool left = strchr(c->flags, '-'), zero = !text && !left && strchr(c->flags, '0');
    bool plus = !text && strchr(c->flags, '+'), blank = !text && !plus && strchr(c->flags, ' ');
    char width[12] = "", precision[16] = "";
    if (c->width > 0) snprintf(width, sizeof width, "%d", c->width);
    if (c->precision >= 0) snprintf(precision, sizeof precision, ".%d", c->precision);
    snprintf(out, size, "%s%s%s%s%s%s%c",
             left   ? "<"
             : text ? ">"
                    : "",
             plus    ? "+"
             : blank ? " "
                     : "",
             !text && c->type != 'd' && strchr(c->flags, '#') ? "#" : "", zero && c->width > 0 ? "0" : "", width,
             precision, text ? 's' : c->type);
}

static void one(td_lower *l, percent *c)
{
    char spec[64];
    bool text = strchr("crs", c->type);
    if (c->next == c->n) td_low_wrong(l, c->node, "the format wants more values than are given");
    uint32_t value = td_low_or_fail(l, c->values[c->next++]);
    if (!text && strchr("doxX", c->type) && c->precision >= 0)
        td_low_wrong(l, c->node, "an int has no precision here; write '%%0%d%c'", c->precision, c->type);
    td_low_at(l, c->node);
    if (c->type == 'c') value = as_character(l, c, value);
    else if (c->type == 'r') value = of_text(l, TD_PRIM_REPR, value);
    else if (!text) value = as_number(l, c, value);
    bool bare = !*c->flags && c->width < 0 && c->precision < 0;
    if (!bare && c->type == 's' && td_low_kind(l, value) != TD_T_STR) value = of_text(l, TD_PRIM_STR, value);
    spec_of(c, text, spec, sizeof spec);
    if (!bare || strchr("oxXeEfFgG", c->type))
        value = td_low_formatted(l, c->node, value, a_text(l, spec, strlen(spec)));
    put_value(l, &c->p, value);
}

static percent begin_percent(td_lower *l, uint32_t node, uint32_t value)
{
    percent c = {.node = node, .n = 1, .values = td_low_array(l, 1)};
    c.values[0] = value;
    if (td_low_kind(l, value) != TD_T_TUPLE) return c;
    c.n = td_type_parts(td_ir_now(l->e), td_low_type(l, value)), c.values = td_low_array(l, c.n);
    for (uint32_t k = 0; k < c.n; k++) c.values[k] = td_low_item(l, value, k);
    return c;
}

uint32_t td_low_percent(td_lower *l, uint32_t node, uint32_t format, uint32_t value)
{
    const char *text = td_low_constant_text(l, format);
    if (!text) {
        td_low_wrong(l, node, "what stands before '%%' is a text that is written here; or write an f-string");
        return 0;
    }
    percent c = begin_percent(l, node, value);
    c.p = begin(l, node, (uint32_t)strlen(text));
    for (; *text; text++) {
        if (*text != '%') {
            put_text(l, &c.p, text, 1);
            continue;
        }
        text = directive(l, &c, text + 1);
        if (c.type == '%') put_text(l, &c.p, "%", 1);
        else one(l, &c);
    }
    if (c.next < c.n) td_low_wrong(l, node, "the format wants %u values, and %u are given", c.next, c.n);
    return finish(l, &c.p);
}
