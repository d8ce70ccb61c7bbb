/* The lexer. See lex.h. */
#include "client/script/lex.h"
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_INDENTS = 100 };

typedef struct lexer {
    td_fault *f;
    td_tokens *out;
    const char *text, *p, *end, *line_start;
    uint32_t line, line_column;                           /* the column at line_start: not 0 in a part */
    uint32_t indents[MOST_INDENTS], strict[MOST_INDENTS]; /* columns with tabs to eights, and with tabs as one */
    uint32_t nindents;
    char opened[TD_SCRIPT_DEPTH];
    td_span opened_at[TD_SCRIPT_DEPTH];
    uint32_t nopened;
    bool part, stop, stopped;
} lexer;

#define SIGN_TEXT(name, text) text,
static const char *const signs[] = {TD_SIGNS(SIGN_TEXT)};
static const char *const keywords[] = {TD_KEYWORDS(SIGN_TEXT)};

const char *td_sign_text(unsigned which)
{
    return signs[which];
}

const char *td_keyword_text(unsigned which)
{
    return keywords[which];
}

void td_tokens_deinit(td_tokens *t)
{
    free(t->at);
    free(t->comments);
    *t = (td_tokens){0};
}

/* ---- places */

static uint32_t column_of(const lexer *l, const char *p)
{
    return (uint32_t)(p - l->line_start) + l->line_column;
}

/* From here on, so many bytes of this line. */
static td_span here(const lexer *l, size_t n)
{
    uint32_t column = column_of(l, l->p);
    return (td_span){l->line, column, l->line, column + (uint32_t)n};
}

static size_t newline_at(const lexer *l, const char *p)
{
    if (p == l->end || (*p != '\n' && *p != '\r')) return 0;
    return *p == '\r' && p + 1 < l->end && p[1] == '\n' ? 2 : 1;
}

static void next_line(lexer *l, size_t n)
{
    l->p += n;
    l->line_start = l->p;
    l->line_column = 0;
    l->line++;
}

/* A token of n bytes, which may have newlines in it. */
static void take(lexer *l, unsigned kind, unsigned which, size_t n)
{
    td_span span = here(l, 0);
    const char *from = l->p, *to = l->p + n;
    while (l->p < to) {
        size_t skip = newline_at(l, l->p);
        if (skip) next_line(l, skip);
        else l->p++;
    }
    span.end_line = l->line, span.end_column = column_of(l, l->p);
    td_script_room(l->f, &l->out->at, l->out->n, 1, &l->out->room, sizeof *l->out->at);
    l->out->at[l->out->n++] = (td_token){(uint8_t)kind, (uint8_t)which, span, (uint32_t)(from - l->text), (uint32_t)n};
}

/* ---- lines */

static void type_comment(lexer *l, const char *from, const char *to)
{
    static const char sign[] = "type:";
    for (from++; from < to && *from == ' ';) from++;
    if ((size_t)(to - from) < sizeof sign || memcmp(from, sign, sizeof sign - 1) != 0) return;
    for (from += sizeof sign - 1; from < to && *from == ' ';) from++;
    if (to - from >= 6 && memcmp(from, "ignore", 6) == 0) return;
    td_tokens *t = l->out;
    td_script_room(l->f, &t->comments, t->ncomments, 1, &t->comment_room, sizeof *t->comments);
    t->comments[t->ncomments++] =
        (td_type_comment){l->line, column_of(l, from), (uint32_t)(from - l->text), (uint32_t)(to - from)};
}

/* Blanks, comments and joined lines. */
static void skip_blanks(lexer *l)
{
    while (l->p < l->end) {
        if (*l->p == ' ' || *l->p == '\t' || *l->p == '\f') {
            l->p++;
        } else if (*l->p == '\\' && newline_at(l, l->p + 1)) {
            size_t n = newline_at(l, l->p + 1);
            if (l->p + 1 + n == l->end) td_refuse(l->f, TD_E_INVALID, here(l, 1), "the program ends in a joined line");
            l->p++;
            next_line(l, n);
        } else if (*l->p == '#' && !l->part) {
            const char *from = l->p;
            while (l->p < l->end && !newline_at(l, l->p)) l->p++;
            type_comment(l, from, l->p);
        } else if ((l->nopened || l->part) && newline_at(l, l->p)) {
            next_line(l, newline_at(l, l->p));
        } else {
            return;
        }
    }
}

/* How far a line is indented. */
static uint32_t measure(lexer *l, uint32_t *strict)
{
    uint32_t column = 0;
    *strict = 0;
    for (; l->p < l->end && (*l->p == ' ' || *l->p == '\t' || *l->p == '\f'); l->p++) {
        column = *l->p == '\t' ? (column / 8 + 1) * 8 : column + 1;
        ++*strict;
        if (*l->p == '\f') column = *strict = 0;
    }
    return column;
}

static void tabs_disagree(lexer *l)
{
    td_refuse(l->f, TD_E_INVALID, here(l, 1), "tabs and blanks are mixed here: indent by blanks alone");
}

/* A line with something in it begins: what its indentation says. */
static void indentation(lexer *l, uint32_t column, uint32_t strict)
{
    if (!l->nindents) { /* the first of all */
        l->indents[0] = column, l->strict[0] = strict, l->nindents = 1;
        return;
    }
    uint32_t top = l->nindents - 1;
    if ((column > l->indents[top]) != (strict > l->strict[top]) ||
        (column == l->indents[top] && strict != l->strict[top]))
        if (column >= l->indents[top]) tabs_disagree(l);
    if (column > l->indents[top]) {
        if (l->nindents == MOST_INDENTS)
            td_refuse(l->f, TD_E_INVALID, here(l, 1), "blocks are more than %d deep", MOST_INDENTS);
        l->indents[l->nindents] = column, l->strict[l->nindents++] = strict;
        take(l, TD_TOKEN_INDENT, 0, 0);
    }
    for (; column < l->indents[l->nindents - 1]; take(l, TD_TOKEN_DEDENT, 0, 0))
        if (--l->nindents == 0 || l->indents[l->nindents - 1] < column)
            td_refuse(l->f, TD_E_INVALID, here(l, 1), "this line is indented like none before it");
    if (l->strict[l->nindents - 1] != strict) tabs_disagree(l);
}

/* The beginning of a line; those with nothing in them are no lines. */
static void begin_line(lexer *l)
{
    uint32_t column, strict;
    do {
        size_t n = newline_at(l, l->p);
        if (n) next_line(l, n);
        column = measure(l, &strict);
        if (l->p < l->end && *l->p == '#') skip_blanks(l);
    } while (newline_at(l, l->p));
    if (l->p < l->end) indentation(l, column, strict);
}

/* ---- tokens */

static bool begins_name(const lexer *l)
{
    char c = *l->p;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c & 0x80;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static void name(lexer *l)
{
    size_t n = 0, most = (size_t)(l->end - l->p);
    const char *c = l->p;
    while (n < most && ((c[n] >= 'a' && c[n] <= 'z') || (c[n] >= 'A' && c[n] <= 'Z') || c[n] == '_' || digit(c[n])))
        n++;
    if (n < most && c[n] & 0x80) {
        l->p += n;
        uint32_t code;
        td_refuse(l->f, TD_E_UNSUPPORTED, here(l, td_text_char(l->p, &code)),
                  "a program has names of ASCII letters, digits and '_' only; rename this one");
    }
    for (unsigned k = 0; k < TD_KW_COUNT; k++)
        if (strlen(keywords[k]) == n && memcmp(keywords[k], c, n) == 0) {
            take(l, TD_TOKEN_KEYWORD, k, n);
            return;
        }
    take(l, TD_TOKEN_NAME, 0, n);
}

static void open_bracket(lexer *l, char closes)
{
    if (l->nopened == TD_SCRIPT_DEPTH)
        td_refuse(l->f, TD_E_INVALID, here(l, 1), "brackets are more than %d deep", TD_SCRIPT_DEPTH);
    l->opened_at[l->nopened] = here(l, 1);
    l->opened[l->nopened++] = closes;
}

static void close_bracket(lexer *l, char c)
{
    if (!l->nopened) td_refuse(l->f, TD_E_INVALID, here(l, 1), "this '%c' closes nothing", c);
    if (l->opened[l->nopened - 1] != c)
        td_refuse(l->f, TD_E_INVALID, here(l, 1), "expected '%c', not '%c'", l->opened[l->nopened - 1], c);
    l->nopened--;
}

static bool ends_part(const lexer *l, unsigned sign)
{
    if (!l->stop || l->nopened) return false;
    return sign == TD_SIGN_CLOSE_DICT || sign == TD_SIGN_COLON || sign == TD_SIGN_IS || sign == TD_SIGN_BANG;
}

static void sign(lexer *l)
{
    unsigned k = 0;
    size_t n, most = (size_t)(l->end - l->p);
    for (; k < TD_SIGN_COUNT; k++)
        if ((n = strlen(signs[k])) <= most && memcmp(signs[k], l->p, n) == 0) break;
    if (k == TD_SIGN_WALRUS && ends_part(l, TD_SIGN_COLON)) k = TD_SIGN_COLON, n = 1;
    if (k < TD_SIGN_COUNT && ends_part(l, k)) {
        l->stopped = true;
        return;
    }
    if (k >= TD_SIGN_BANG) td_refuse(l->f, TD_E_INVALID, here(l, 1), "a program cannot have this character here");
    if (k == TD_SIGN_OPEN) open_bracket(l, ')');
    if (k == TD_SIGN_OPEN_LIST) open_bracket(l, ']');
    if (k == TD_SIGN_OPEN_DICT) open_bracket(l, '}');
    if (k == TD_SIGN_CLOSE || k == TD_SIGN_CLOSE_LIST || k == TD_SIGN_CLOSE_DICT) close_bracket(l, *l->p);
    take(l, TD_TOKEN_SIGN, k, n);
}

static void token(lexer *l)
{
    size_t n;
    if ((n = td_lex_string(l->f, l->p, l->end, here(l, 1)))) take(l, TD_TOKEN_STRING, 0, n);
    else if (begins_name(l)) name(l);
    else if (digit(*l->p) || (*l->p == '.' && l->p + 1 < l->end && digit(l->p[1])))
        take(l, TD_TOKEN_NUMBER, 0, td_lex_number(l->f, l->p, l->end, here(l, 1)));
    else sign(l);
}

static void check_source(lexer *l)
{
    if (l->f->source->size > TD_SCRIPT_SIZE)
        td_refuse(l->f, TD_E_INVALID, here(l, 0), "a program has at most %u bytes of source", TD_SCRIPT_SIZE);
    const char *begin = l->p;
    uint32_t code;
    while (l->p < l->end) {
        size_t n = newline_at(l, l->p), left = (size_t)(l->end - l->p);
        if (n) {
            next_line(l, n);
            continue;
        }
        char tail[5] = {0}; /* a text ends with 0 where its characters are read */
        memcpy(tail, l->p, left < 4 ? left : 4);
        n = td_text_char(tail, &code);
        if (code == UINT32_MAX || code == 0)
            td_refuse(l->f, TD_E_INVALID, here(l, 1), code ? "this is no UTF-8" : "a program cannot hold a 0");
        l->p += n;
    }
    l->p = l->line_start = begin;
}

static void unclosed(lexer *l)
{
    if (l->nopened)
        td_refuse(l->f, TD_E_INVALID, l->opened_at[l->nopened - 1], "expected '%c': this is not closed",
                  l->opened[l->nopened - 1]);
}

void td_lex(td_fault *f, td_tokens *out)
{
    const td_script_source *s = f->source;
    uint32_t first = s->first_line ? s->first_line : 1;
    lexer l = {f, out, s->text, s->text, s->text + s->size, s->text, first, 0};
    check_source(&l);
    l.line = first;
    if (s->size >= 3 && memcmp(l.p, "\xef\xbb\xbf", 3) == 0) l.p += 3, l.line_start += 3;
    for (begin_line(&l); l.p < l.end;) {
        skip_blanks(&l);
        size_t n = newline_at(&l, l.p);
        if (n) {
            td_span span = here(&l, 1);
            take(&l, TD_TOKEN_NEWLINE, 0, n);
            out->at[out->n - 1].span = span;
            begin_line(&l);
        } else if (l.p < l.end) {
            token(&l);
        }
    }
    unclosed(&l);
    if (out->n && out->at[out->n - 1].kind != TD_TOKEN_NEWLINE && out->at[out->n - 1].kind != TD_TOKEN_DEDENT)
        take(&l, TD_TOKEN_NEWLINE, 0, 0);
    for (; l.nindents > 1; l.nindents--) take(&l, TD_TOKEN_DEDENT, 0, 0);
    take(&l, TD_TOKEN_END, 0, 0);
}

uint32_t td_lex_part(td_fault *f, td_tokens *out, uint32_t line, uint32_t column, uint32_t at, uint32_t size, bool stop)
{
    const char *from = f->source->text + at;
    lexer l = {f, out, f->source->text, from, from + size, from, line, column};
    l.part = true, l.stop = stop;
    for (skip_blanks(&l); l.p < l.end && !l.stopped; skip_blanks(&l)) token(&l);
    unclosed(&l);
    take(&l, TD_TOKEN_END, 0, 0);
    return (uint32_t)(l.p - l.text);
}
