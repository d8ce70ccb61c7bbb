/* Strings side by side, and what is inside of f-strings. See parse.h. */
#include "client/script/parse.h"
#include "proto/base/text.h"

#include <string.h>

/* Literal text that is being collected: what lies in the parser's text from `first` on. It becomes a node when
 * something else follows. A string in a value of another one puts its text behind that one's. */
typedef struct pieces {
    td_parser *p;
    uint32_t first;
    td_span at; /* of the string that it is from */
} pieces;

static void check_text(td_parser *p, uint32_t at, td_span where)
{
    memset(p->text + p->ntext, 0, 4); /* a text ends with 0 where its characters are read */
    for (uint32_t code; at < p->ntext;) {
        size_t n = td_text_char(p->text + at, &code);
        at += n ? (uint32_t)n : 1;
        if (code == UINT32_MAX) td_refuse(p->f, TD_E_INVALID, where, "the bytes of this string are no UTF-8");
    }
}

static void add_text(pieces *s, const char *from, const char *to, bool raw)
{
    td_parser *p = s->p;
    td_script_room(p->f, &p->text, p->ntext, (uint32_t)(to - from) + 5, &p->text_room, 1);
    bool bytes = p->flags & TD_PARSE_CLASSES; /* PyTorch writes what is not ASCII byte by byte */
    uint32_t begin = p->ntext;
    p->ntext += (uint32_t)td_string_decode(p->f, from, to, raw, bytes, s->at, p->text + p->ntext);
    if (bytes) check_text(p, begin, s->at);
}

static uint32_t text_node(pieces *s, td_span at)
{
    td_parser *p = s->p;
    uint32_t node = td_ast_add(p->f, p->ast, TD_N_STRING, 0, at, NULL, 0);
    uint32_t size = p->ntext - s->first;
    p->ast->nodes[node].text = td_ast_intern(p->f, p->ast, size ? p->text + s->first : "", size);
    p->ntext = s->first;
    return node;
}

static void flush(pieces *s)
{
    if (s->p->ntext > s->first) td_ast_push(s->p, text_node(s, s->at));
}

/* ---- f-strings: a position in the source goes along */

typedef struct place {
    uint32_t at, end, line, column;
} place;

static char look(const pieces *s, const place *w, uint32_t k)
{
    return w->at + k < w->end ? s->p->f->source->text[w->at + k] : 0;
}

static void move(const pieces *s, place *w, uint32_t to)
{
    for (; w->at < to; w->at++) {
        char c = look(s, w, 0);
        if (c == '\n' || (c == '\r' && look(s, w, 1) != '\n')) w->line++, w->column = 0;
        else w->column++;
    }
}

static td_span span_of(const place *w)
{
    return (td_span){w->line, w->column, w->line, w->column + 1};
}

static void format(pieces *s, place *w, bool raw, unsigned depth);

/* What was pushed since `first`, from there to here. */
static void push_value(pieces *s, const place *w, unsigned kind, unsigned op, td_span from, uint32_t first)
{
    uint32_t node = td_make(s->p, kind, op, from, first);
    s->p->ast->nodes[node].span = td_span_to(from, (td_span){w->line, w->column, w->line, w->column});
    td_ast_push(s->p, node);
}

/* Behind the expression: "=", "!r", ":spec", "}". */
static void value_end(pieces *s, place *w, bool raw, bool shows, uint32_t first, td_span from, unsigned depth)
{
    td_parser *p = s->p;
    unsigned conversion = 0;
    if (look(s, w, 0) == '!') {
        conversion = (unsigned char)look(s, w, 1);
        if (!conversion || !strchr("rsa", (int)conversion))
            td_parser_wrong(p, span_of(w), "expected 'r', 's' or 'a' behind '!'");
        move(s, w, w->at + 2);
    }
    if (look(s, w, 0) == ':') {
        td_span at = span_of(w);
        uint32_t spec = p->nstack;
        move(s, w, w->at + 1);
        format(s, w, raw, depth + 1);
        flush(s);
        push_value(s, w, TD_N_FORMAT, 0, at, spec);
    } else if (shows && !conversion) {
        conversion = 'r';
    }
    if (look(s, w, 0) != '}')
        td_parser_wrong(p, span_of(w), "expected '}' (inside of an f-string write the other quotes)");
    move(s, w, w->at + 1);
    push_value(s, w, TD_N_VALUE, conversion, from, first);
}

/* From '{' to '}'. */
static void value(pieces *s, place *w, bool raw, unsigned depth)
{
    td_parser *p = s->p;
    td_span from = span_of(w);
    if (depth > 1) td_parser_wrong(p, from, "an f-string is nested more than once");
    move(s, w, w->at + 1);
    uint32_t stop, begin = w->at;
    uint32_t node = td_parse_part(p, w->line, w->column, w->at, w->end - w->at, &stop);
    place after = *w;
    move(s, &after, stop);
    bool shows = look(s, &after, 0) == '=';
    if (shows) {
        move(s, &after, after.at + 1);
        while (look(s, &after, 0) == ' ') move(s, &after, after.at + 1);
        add_text(s, p->f->source->text + begin, p->f->source->text + after.at, true);
    }
    *w = after;
    flush(s);
    uint32_t first = p->nstack;
    td_ast_push(p, node);
    value_end(s, w, raw, shows, first, from, depth);
}

/* Text and values, up to the end, or in a spec up to '}'. */
static void format(pieces *s, place *w, bool raw, unsigned depth)
{
    const char *text = s->p->f->source->text;
    while (w->at < w->end) {
        uint32_t n = 0;
        char c;
        while ((c = look(s, w, n)) && c != '{' && c != '}')
            n += c == '\\' && !raw && (look(s, w, n + 1) == '{' || look(s, w, n + 1) == '}') ? 1
                 : c == '\\' && !raw && w->at + n + 1 < w->end                               ? 2
                                                                                             : 1;
        add_text(s, text + w->at, text + w->at + n, raw);
        move(s, w, w->at + n);
        if (w->at == w->end || (c == '}' && depth)) return;
        if (look(s, w, 1) == c && !depth) {
            add_text(s, text + w->at, text + w->at + 1, true);
            move(s, w, w->at + 2);
        } else if (c == '{') {
            value(s, w, raw, depth);
        } else {
            td_parser_wrong(s->p, span_of(w), "a single '}' in an f-string; write '}}'");
        }
    }
}

static void add_string(pieces *s, td_token t, bool *formatted)
{
    td_string parts;
    td_string_parts(s->p->f, &t, &parts);
    if (parts.bytes) td_parser_refuse(s->p, t.span, "has no bytes; write a string, or give a tensor of uint8");
    s->at = t.span;
    const char *text = s->p->f->source->text;
    if (!parts.format) {
        add_text(s, text + parts.at, text + parts.at + parts.size, parts.raw);
        return;
    }
    place w = {t.at, parts.at + parts.size, t.span.line, t.span.column};
    move(s, &w, parts.at);
    *formatted = true;
    format(s, &w, parts.raw, 0);
}

uint32_t td_parse_strings(td_parser *p)
{
    td_span from = td_parser_here(p), end = from;
    uint32_t first = p->nstack;
    bool formatted = false;
    pieces s = {p, p->ntext, from};
    for (; td_parser_token(p)->kind == TD_TOKEN_STRING; p->now++) {
        end = td_parser_here(p);
        add_string(&s, *td_parser_token(p), &formatted);
    }
    if (!formatted) return text_node(&s, td_span_to(from, end));
    flush(&s);
    return td_make(p, TD_N_FORMAT, 0, from, first);
}
