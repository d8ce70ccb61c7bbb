/* Numbers: ints of 64 bits in four bases, floats, imaginary ones; with '_' between digits. */
#include "client/script/lex.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c, int base)
{
    if (base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) return true;
    return c >= '0' && c < '0' + (base < 10 ? base : 10);
}

/* Digits with single underscores between them; one may stand before them too, behind a base. */
static const char *digits(const char *p, const char *end, int base, bool under)
{
    while (p < end && (is_digit(*p, base) || (*p == '_' && under && p + 1 < end && is_digit(p[1], base))))
        under = *p++ != '_';
    return p;
}

static int base_of(const char *p, const char *end)
{
    if (end - p < 2 || *p != '0') return 10;
    return p[1] == 'x' || p[1] == 'X' ? 16 : p[1] == 'o' || p[1] == 'O' ? 8 : p[1] == 'b' || p[1] == 'B' ? 2 : 10;
}

/* Behind the digits before it: ".5e-3j" as far as it goes. */
static const char *fraction(const char *p, const char *end)
{
    if (p < end && *p == '.') p = digits(p + 1, end, 10, false);
    if (p < end && (*p == 'e' || *p == 'E')) {
        const char *e = p + 1;
        if (e < end && (*e == '+' || *e == '-')) e++;
        if (e < end && is_digit(*e, 10)) p = digits(e, end, 10, true);
    }
    return p;
}

static bool in_name(char c)
{
    return is_digit(c, 10) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static _Noreturn void no_number(td_fault *f, const char *at, const char *p, const char *end, td_span where)
{
    while (p < end && in_name(*p)) p++;
    where.end_column = where.column + (uint32_t)(p - at);
    td_refuse(f, TD_E_INVALID, where, "'%.*s' is no number", (int)(p - at < 40 ? p - at : 40), at);
}

size_t td_lex_number(td_fault *f, const char *at, const char *end, td_span where)
{
    int base = base_of(at, end);
    const char *p = digits(base == 10 ? at : at + 2, end, base, base != 10), *whole = p;
    if (base != 10) {
        if (p == at + 2) no_number(f, at, p, end, where);
    } else {
        p = fraction(p, end);
        if (p < end && (*p == 'j' || *p == 'J')) p++;
        bool zeros = true;
        for (const char *c = at; c < whole; c++) zeros &= *c == '0' || *c == '_';
        if (p == whole && *at == '0' && !zeros) no_number(f, at, p, end, where); /* 0777 */
    }
    static const char *const after[] = {"and", "else", "for", "if", "in", "is", "not", "or"};
    for (size_t i = 0; p < end && i < sizeof after / sizeof *after; i++) { /* 1if x else 2 */
        size_t n = strlen(after[i]);
        if ((size_t)(end - p) >= n && memcmp(p, after[i], n) == 0 && (p + n == end || !in_name(p[n])))
            return (size_t)(p - at);
    }
    if (p < end && (in_name(*p) || *p & 0x80)) no_number(f, at, p, end, where);
    return (size_t)(p - at);
}

static void read_int(td_fault *f, const td_token *t, const char *at, td_number *out)
{
    int base = base_of(at, at + t->size);
    uint64_t v = 0, most = UINT64_C(1) << 63;
    for (uint32_t i = base == 10 ? 0 : 2; i < t->size; i++) {
        unsigned d = is_digit(at[i], 10) ? (unsigned)(at[i] - '0') : (unsigned)((at[i] | 0x20) - 'a') + 10;
        if (at[i] == '_') continue;
        if (v > (most - d) / (unsigned)base)
            td_refuse(f, TD_E_UNSUPPORTED, t->span, "an int of a program has 64 bits; write a float, or a smaller one");
        v = v * (unsigned)base + d;
    }
    out->kind = 'i', out->too_large = v == most, out->i = out->too_large ? INT64_MIN : (int64_t)v;
}

/* A program's locale may have a comma for the point. */
static void read_float(td_fault *f, const td_token *t, const char *at, td_number *out)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", 0);
    char *text = c ? malloc(t->size + 1) : NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; text && i < t->size; i++)
        if (at[i] != '_') text[n++] = at[i];
    if (text) {
        text[n] = 0;
        out->kind = (at[t->size - 1] | 0x20) == 'j' ? 'j' : 'f';
        out->f = strtod_l(text, NULL, c);
    }
    free(text);
    if (c) freelocale(c);
    if (!text) td_refuse_memory(f);
}

void td_number_read(td_fault *f, const td_token *t, td_number *out)
{
    const char *at = f->source->text + t->at;
    bool real = false;
    *out = (td_number){0};
    for (uint32_t i = 0; i < t->size; i++) real |= at[i] == '.' || strchr("eEjJ", at[i]) != NULL;
    if (real && base_of(at, at + t->size) == 10) read_float(f, t, at, out);
    else read_int(f, t, at, out);
}
