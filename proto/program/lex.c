/* Words of a program's text, and what is said when one does not fit. */
#include "proto/program/lex.h"

#include "proto/base/text.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static char at(const td_ir_reader *r, size_t i)
{
    return i < r->length ? r->text[i] : 0;
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Behind letters and digits, and dots that have such behind them. */
static size_t word_end(const td_ir_reader *r, size_t i)
{
    while (in_word(at(r, i)) || (at(r, i) == '.' && in_word(at(r, i + 1)))) i++;
    return i;
}

static size_t digits_end(const td_ir_reader *r, size_t i)
{
    while (isdigit((unsigned char)at(r, i))) i++;
    return i;
}

static td_ir_token number(td_ir_reader *r, size_t i)
{
    if (at(r, i) == '-') i++;
    if (at(r, i) == 'i' && at(r, i + 1) == 'n' && at(r, i + 2) == 'f') {
        r->end = i + 3;
        return TD_TOK_FLOAT;
    }
    td_ir_token token = TD_TOK_INT;
    i = digits_end(r, i);
    if (at(r, i) == '.') token = TD_TOK_FLOAT, i = digits_end(r, i + 1);
    if (at(r, i) == 'e' || at(r, i) == 'E') {
        token = TD_TOK_FLOAT;
        i += at(r, i + 1) == '-' || at(r, i + 1) == '+' ? 2 : 1;
        i = digits_end(r, i);
    }
    r->end = i;
    return token;
}

static td_ir_token string(td_ir_reader *r)
{
    size_t i = r->start + 1;
    while (i < r->length && r->text[i] != '"' && r->text[i] != '\n') i += r->text[i] == '\\' ? 2 : 1;
    if (at(r, i) != '"') return TD_TOK_BAD;
    r->end = i + 1;
    return TD_TOK_STRING;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Blanks, lines with nothing on them, and such with a comment alone; true: there was the end of a line. */
static bool skip(td_ir_reader *r)
{
    bool line = r->end == 0 || r->token == TD_TOK_LINE;
    for (;;) {
        for (; is_blank(at(r, r->end)); r->end++) line |= at(r, r->end) == '\n';
        if (!line || at(r, r->end) != '#') return line;
        while (r->end < r->length && at(r, r->end) != '\n') r->end++;
    }
}

static td_ir_token look(td_ir_reader *r)
{
    char c = at(r, r->start), next = at(r, r->start + 1);
    if (r->start >= r->length) return TD_TOK_END;
    r->end = r->start + 1;
    if (isalpha((unsigned char)c) || c == '_') {
        r->end = word_end(r, r->start);
        return TD_TOK_NAME;
    }
    if (c == '%' && in_word(next)) {
        r->end = word_end(r, ++r->start);
        return TD_TOK_VALUE;
    }
    if (isdigit((unsigned char)c) || (c == '-' && (isdigit((unsigned char)next) || next == 'i')))
        return number(r, r->start);
    if (c == '"') return string(r);
    if (c == '#') {
        const char *line = memchr(r->text + r->start, '\n', r->length - r->start);
        r->end = line ? (size_t)(line - r->text) : r->length;
        return TD_TOK_SOURCE;
    }
    r->end = r->start + 2;
    if (c == '-' && next == '>') return TD_TOK_ARROW;
    if (c == ':' && next == ':') return TD_TOK_COLONS;
    r->end = r->start + 3;
    if (c == '.' && next == '.' && at(r, r->start + 2) == '.') return TD_TOK_DOTS;
    r->end = r->start + 1;
    return strchr("()[]=,:?*", c) && c ? TD_TOK_SIGN : TD_TOK_BAD;
}

void td_ir_next(td_ir_reader *r)
{
    size_t before = r->end;
    bool line = skip(r);
    if (line && r->token != TD_TOK_LINE && before) { /* the first blank line counts, and only behind something */
        r->start = before;                           /* where the line ends */
        r->token = TD_TOK_LINE;
        return;
    }
    r->start = r->end;
    r->token = look(r);
    if (r->token == TD_TOK_BAD)
        td_ir_read_fail(r, r->start, at(r, r->start) == '"' ? "a text without an end" : "this stands for nothing");
}

bool td_ir_at_sign(const td_ir_reader *r, char sign)
{
    return r->token == TD_TOK_SIGN && r->text[r->start] == sign;
}

bool td_ir_at_name(const td_ir_reader *r, const char *name)
{
    size_t n = strlen(name);
    return r->token == TD_TOK_NAME && r->end - r->start == n && !memcmp(r->text + r->start, name, n);
}

bool td_ir_expect(td_ir_reader *r, char sign)
{
    if (!td_ir_at_sign(r, sign)) return td_ir_read_fail(r, r->start, "'%c' is expected here", sign);
    td_ir_next(r);
    return !r->error->code;
}

bool td_ir_read_fail(td_ir_reader *r, size_t place, const char *format, ...)
{
    char said[160], shown[128];
    size_t line = 1, start = 0;
    va_list ap;
    if (r->error->code) return false;
    if (place > r->length) place = r->length;
    va_start(ap, format);
    vsnprintf(said, sizeof said, format, ap);
    va_end(ap);
    for (size_t i = 0; i < place; i++)
        if (r->text[i] == '\n') line++, start = i + 1;
    size_t column = place - start + 1, from = place - start > 60 ? place - 60 : start, n = 0;
    while (n < 100 && from + n < r->length && r->text[from + n] != '\n') n++;
    /* one character for each byte, so that the caret stands below its own */
    for (size_t i = 0; i < n; i++)
        shown[i] = (char)(r->text[from + i] >= ' ' && r->text[from + i] <= '~' ? r->text[from + i] : '.');
    td_fail(r->error, TD_E_INVALID, "%zu:%zu: %s\n%.*s\n%*s^", line, column, said, (int)n, shown, (int)(place - from),
            "");
    return false;
}

bool td_ir_add_number(td_ir_reader *r, td_ir_numbers *list, uint32_t number_)
{
    if (list->n == list->room) {
        uint32_t room = 2 * list->room + 16, *more = realloc(list->at, room * sizeof *more);
        if (!more) {
            if (!r->error->code) td_no_memory(r->error, "to read a program");
            return false;
        }
        list->at = more;
        list->room = room;
    }
    list->at[list->n++] = number_;
    return true;
}

static int hex(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *td_ir_copied(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy) return NULL;
    if (n) memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

bool td_ir_unquote(td_ir_reader *r, size_t *n)
{
    size_t out = 0;
    free(r->buffer);
    r->buffer = malloc(r->end - r->start);
    if (!r->buffer) {
        if (!r->error->code) td_no_memory(r->error, "to read a program");
        return false;
    }
    for (size_t i = r->start + 1; i + 1 < r->end; i++) {
        char c = r->text[i];
        if (c == '\\') {
            c = r->text[++i];
            if (c == 'n') c = '\n';
            else if (c == 'x' && hex(at(r, i + 1)) >= 0 && hex(at(r, i + 2)) >= 0) {
                c = (char)(hex(at(r, i + 1)) << 4 | hex(at(r, i + 2)));
                i += 2;
            } else if (c != '"' && c != '\\')
                return td_ir_read_fail(r, i - 1, "there is no such escape: \\n, \\\", \\\\ and \\xNN are");
        }
        r->buffer[out++] = c;
    }
    *n = out;
    return true;
}
