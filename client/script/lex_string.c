/* Strings: prefixes, quotes, escapes. What is inside of an f-string is the parser's (parse_string.c). */
#include "client/script/lex.h"

#include <string.h>

/* Letters before the quote, in any order; false: this is no string. */
static bool prefix(const char *at, const char *end, td_string *s, size_t *n)
{
    bool u = false;
    *s = (td_string){0};
    for (*n = 0; *n < 3 && at + *n < end; ++*n) {
        char c = at[*n] | 0x20;
        if (at[*n] == '"' || at[*n] == '\'') return true;
        if (c == 'r' && !s->raw && !u) s->raw = true;
        else if (c == 'b' && !s->bytes && !s->format && !u) s->bytes = true;
        else if (c == 'f' && !s->format && !s->bytes && !u) s->format = true;
        else if (c == 'u' && *n == 0) u = true;
        else return false;
    }
    return false;
}

size_t td_lex_string(td_fault *f, const char *at, const char *end, td_span where)
{
    td_string s;
    size_t n;
    if (!prefix(at, end, &s, &n)) return 0;
    const char *p = at + n, quote = *p;
    bool three = end - p >= 3 && p[1] == quote && p[2] == quote;
    where.end_column += (uint32_t)n + (three ? 2 : 0);
    for (p += three ? 3 : 1; p < end; p++) {
        if (*p == quote && (!three || (end - p >= 3 && p[1] == quote && p[2] == quote)))
            return (size_t)(p - at) + (three ? 3 : 1);
        if (!three && (*p == '\n' || *p == '\r')) break;
        if (*p != '\\' || p + 1 == end) continue;
        if (p[1] == '\r' && p + 2 < end && p[2] == '\n') p++;
        p++;
    }
    td_refuse(f, TD_E_INVALID, where, "this string does not end%s", three ? "" : " on its line");
}

void td_string_parts(const td_fault *f, const td_token *t, td_string *out)
{
    const char *at = f->source->text + t->at;
    size_t n = 0;
    prefix(at, at + t->size, out, &n);
    bool three = t->size - n >= 6 && at[n + 1] == at[n] && at[n + 2] == at[n];
    out->quote = three ? 3 : 1;
    out->at = t->at + (uint32_t)n + out->quote;
    out->size = t->size - (uint32_t)n - 2u * out->quote;
}

/* ---- what it means */

static char *put_code(char *out, uint32_t c)
{
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *out++ = (char)(first[more] | c >> 6 * more);
    while (more--) *out++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    return out;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \x41, \u0041, \U00000041: p is behind the letter. */
static const char *hex(td_fault *f, const char *p, const char *end, td_span where, uint32_t *code)
{
    int n = p[-1] == 'x' ? 2 : p[-1] == 'u' ? 4 : 8;
    *code = 0;
    for (int i = 0; i < n; i++, p++) {
        if (p == end || hex_digit(*p) < 0) td_refuse(f, TD_E_INVALID, where, "an escape wants %d hex digits", n);
        *code = *code << 4 | (uint32_t)hex_digit(*p);
    }
    if (*code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000))
        td_refuse(f, TD_E_INVALID, where, "an escape of this string is no character");
    return p;
}

static const char *octal(const char *p, const char *end, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 3 && p < end && *p >= '0' && *p <= '7'; i++) *code = *code << 3 | (uint32_t)(*p++ - '0');
    return p;
}

/* p is at the backslash, which is not the last. */
static const char *escape(td_fault *f, const char *p, const char *end, td_span where, bool bytes, char **out)
{
    static const char letters[] = "\\'\"abfnrtv", means[] = "\\'\"\a\b\f\n\r\t\v";
    const char *known = p[1] ? strchr(letters, p[1]) : NULL;
    uint32_t code;
    bool byte = false;
    if (known) {
        *(*out)++ = means[known - letters];
        return p + 2;
    }
    if (p[1] == '\n' || p[1] == '\r') return p + (p[1] == '\r' && p + 2 < end && p[2] == '\n' ? 3 : 2);
    if (p[1] == 'N')
        td_refuse(f, TD_E_UNSUPPORTED, where, "a program knows no names of characters; write \\u and 4 digits");
    if (p[1] == 'x' || p[1] == 'u' || p[1] == 'U') p = hex(f, p + 2, end, where, &code);
    else if (p[1] >= '0' && p[1] <= '7') p = octal(p + 1, end, &code), byte = bytes && code < 256;
    else {
        *(*out)++ = '\\'; /* stays, as in Python */
        return p + 1;
    }
    if (byte) *(*out)++ = (char)code;
    else *out = put_code(*out, code);
    return p;
}

size_t td_string_decode(td_fault *f, const char *at, const char *end, bool raw, bool bytes, td_span where, char *out)
{
    char *begin = out;
    while (at < end) {
        if (*at == '\\' && !raw && at + 1 < end) {
            at = escape(f, at, end, where, bytes, &out);
        } else if (*at == '\r') {
            *out++ = '\n';
            at += at + 1 < end && at[1] == '\n' ? 2 : 1;
        } else {
            *out++ = *at++;
        }
    }
    return (size_t)(out - begin);
}
