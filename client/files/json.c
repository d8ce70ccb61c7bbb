/* See json.h: RFC 8259, strictly, but for numbers that are not finite where these are wanted. */
#include "client/files/json.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 100, LONG_NUMBER = 4300 /* digits, as Python has it */ };

typedef struct json {
    td_pickle *p;
    const char *at, *end;
    locale_t locale; /* in which numbers have a point */
    bool any_float;  /* NaN and Infinity are numbers */
    td_error *e;
} json;

static td_plain *strange(json *j, const char *what)
{
    td_fail(j->e, TD_E_INVALID, "%s", what);
    return NULL;
}

static void skip_space(json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r')) j->at++;
}

static bool take(json *j, char c)
{
    skip_space(j);
    if (j->at == j->end || *j->at != c) return false;
    j->at++;
    return true;
}

static td_plain *take_word(json *j, const char *word, td_plain_kind kind, int64_t value)
{
    size_t n = strlen(word);
    if ((size_t)(j->end - j->at) < n || memcmp(j->at, word, n) != 0) return strange(j, "a word is not known");
    j->at += n;
    td_plain *x = td_plain_new(j->p, kind, j->e);
    if (x) x->i = value;
    return x;
}

/* ---- numbers */

static const char *digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

/* The end of a number; NULL: it is none. *whole: without a point or an exponent. */
static const char *number_end(const json *j, bool *whole)
{
    const char *at = j->at + (*j->at == '-'), *more = digits(at, j->end);
    if (more == at || (*at == '0' && more > at + 1)) return NULL;
    *whole = true;
    if (more < j->end && *more == '.') {
        at = more + 1;
        more = digits(at, j->end);
        *whole = false;
        if (more == at) return NULL;
    }
    if (more < j->end && (*more == 'e' || *more == 'E')) {
        at = more + 1;
        at += at < j->end && (*at == '+' || *at == '-');
        more = digits(at, j->end);
        *whole = false;
        if (more == at) return NULL;
    }
    return more;
}

/* What stands here of a number that is not finite, behind its sign; 0: it is none. */
static size_t not_finite(const json *j, const char *at, double *out)
{
    static const char *const words[] = {"NaN", "Infinity", "Inf"};
    for (size_t k = 0; j->any_float && k < sizeof words / sizeof *words; k++) {
        size_t n = strlen(words[k]);
        if ((size_t)(j->end - at) < n || memcmp(at, words[k], n) != 0) continue;
        *out = k ? (double)INFINITY : (double)NAN;
        return n;
    }
    return 0;
}

static bool fits(const char *text, size_t n, int64_t *value)
{
    bool minus = text[0] == '-';
    int64_t v = 0;
    for (size_t i = minus; i < n; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, minus ? '0' - text[i] : text[i] - '0', &v))
            return false;
    *value = v;
    return true;
}

static td_plain *take_not_finite(json *j, size_t n, double v)
{
    td_plain *x = td_plain_new(j->p, TD_PLAIN_FLOAT, j->e);
    if (x) x->f[0] = *j->at == '-' ? -v : v;
    j->at += n + (*j->at == '-');
    return x;
}

static td_plain *take_number(json *j)
{
    bool whole;
    double v;
    size_t word = not_finite(j, j->at + (*j->at == '-'), &v);
    if (word) return take_not_finite(j, word, v);
    const char *end = number_end(j, &whole);
    size_t n = end ? (size_t)(end - j->at) : 0;
    if (!end || n > LONG_NUMBER) return strange(j, end ? "a number is too long" : "a number is none");
    char *text = td_plain_text(j->p, (uint32_t)n, j->e);
    td_plain *x = text ? td_plain_new(j->p, whole ? TD_PLAIN_INT : TD_PLAIN_FLOAT, j->e) : NULL;
    if (!x) return NULL;
    memcpy(text, j->at, n);
    j->at = end;
    if (!whole) x->f[0] = strtod_l(text, NULL, j->locale);
    else if (!fits(text, n, &x->i)) x->kind = TD_PLAIN_DIGITS, x->text = text, x->n = (uint32_t)n;
    return x;
}

/* ---- texts */

static int hex(json *j, unsigned *out)
{
    *out = 0;
    if (j->end - j->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = *j->at++;
        int v = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (v < 0) return -1;
        *out = *out << 4 | (unsigned)v;
    }
    return 0;
}

/* Half of a pair that stands alone stays that. */
static char *put_letter(char *to, unsigned c)
{
    if (c < 0x80) return *to++ = (char)c, to;
    if (c < 0x800) *to++ = (char)(0xc0 | c >> 6);
    else if (c < 0x10000) *to++ = (char)(0xe0 | c >> 12), *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    else {
        *to++ = (char)(0xf0 | c >> 18), *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (c & 0x3f));
    return to;
}

static int take_letter(json *j, char **to)
{
    unsigned c, low;
    if (hex(j, &c)) return -1;
    bool pair = c >= 0xd800 && c < 0xdc00 && j->end - j->at >= 6 && j->at[0] == '\\' && j->at[1] == 'u';
    const char *behind = j->at;
    if (pair) {
        j->at += 2;
        if (hex(j, &low)) return -1;
        if (low >= 0xdc00 && low < 0xe000) c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        else j->at = behind; /* what follows is a letter of its own */
    }
    *to = put_letter(*to, c);
    return 0;
}

static int take_escape(json *j, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char c = j->at < j->end ? *j->at++ : 0;
    if (c == 'u') return take_letter(j, to);
    const char *known = c ? strchr(from, c) : NULL;
    if (!known) return -1;
    *(*to)++ = into[known - from];
    return 0;
}

static td_plain *take_text(json *j)
{
    const char *end = ++j->at;
    while (end < j->end && *end != '"') end += *end == '\\' ? 2 : 1;
    if (end >= j->end) return strange(j, "a text does not end");
    if (end - j->at > INT32_MAX) return strange(j, "a text has more than 2 GiB");
    char *text = td_plain_text(j->p, (uint32_t)(end - j->at), j->e), *to = text;
    td_plain *x = text ? td_plain_new(j->p, TD_PLAIN_TEXT, j->e) : NULL;
    if (!x) return NULL;
    if (!td_is_utf8((const unsigned char *)j->at, (uint32_t)(end - j->at))) return strange(j, "a text is no UTF-8");
    while (j->at < end) {
        char c = *j->at++;
        if ((unsigned char)c < 0x20) return strange(j, "a text holds a control character");
        if (c != '\\') *to++ = c;
        else if (take_escape(j, &to)) return strange(j, "an escape in a text is not known");
    }
    *to = 0;
    j->at = end + 1;
    x->text = text, x->n = (uint32_t)(to - text);
    return x;
}

/* ---- lists and objects */

static td_plain *take_value(json *j, int depth);

static int take_name(json *j, td_plain *into)
{
    skip_space(j);
    td_plain *name = j->at < j->end && *j->at == '"' ? take_text(j) : strange(j, "a name is no text");
    if (!name) return -1;
    if (!take(j, ':')) return strange(j, "a name has no value"), -1;
    return td_plain_add(j->p, into, name, j->e);
}

static td_plain *take_items(json *j, td_plain_kind kind, char end, int depth)
{
    td_plain *x = td_plain_new(j->p, kind, j->e);
    j->at++;
    if (!x || take(j, end)) return x;
    do {
        if (kind == TD_PLAIN_DICT && take_name(j, x)) return NULL;
        td_plain *item = take_value(j, depth + 1);
        if (!item || td_plain_add(j->p, x, item, j->e)) return NULL;
    } while (take(j, ','));
    return take(j, end) ? x : strange(j, "a list or an object does not end");
}

static td_plain *take_value(json *j, int depth)
{
    skip_space(j);
    if (j->at == j->end) return strange(j, "it ends too early");
    if (depth > DEEPEST) return strange(j, "it is nested too deep");
    switch (*j->at) {
    case '"': return take_text(j);
    case '[': return take_items(j, TD_PLAIN_LIST, ']', depth);
    case '{': return take_items(j, TD_PLAIN_DICT, '}', depth);
    case 't': return take_word(j, "true", TD_PLAIN_BOOL, 1);
    case 'f': return take_word(j, "false", TD_PLAIN_BOOL, 0);
    case 'n': return take_word(j, "null", TD_PLAIN_NONE, 0);
    default:
        if (*j->at == '-' || (*j->at >= '0' && *j->at <= '9') || not_finite(j, j->at, &(double){0}))
            return take_number(j);
        return strange(j, j->any_float
                              ? "no value of JSON begins here"
                              : "no value of JSON begins here (a number is finite: NaN and Infinity are none)");
    }
}

static int read_text(td_pickle *p, const char *text, size_t n, const char *what, bool any_float, td_plain **out,
                     td_error *e)
{
    json j = {.p = p,
              .at = text,
              .end = text + n,
              .locale = newlocale(LC_ALL_MASK, "C", (locale_t)0),
              .any_float = any_float,
              .e = e};
    if (!j.locale) return td_no_memory(e, "to read a file");
    *out = take_value(&j, 0);
    freelocale(j.locale);
    skip_space(&j);
    if (*out && j.at != j.end) *out = strange(&j, "it goes on behind its end");
    if (*out) return TD_OK;
    td_error why = *e;
    return td_fail(e, why.code, "%s cannot be read: byte %zu: %.200s", what, (size_t)(j.at - text), why.message);
}

int td_json_read(td_pickle *p, const char *text, size_t n, const char *what, td_plain **out, td_error *e)
{
    return read_text(p, text, n, what, false, out, e);
}

int td_json_read_any_float(td_pickle *p, const char *text, size_t n, const char *what, td_plain **out, td_error *e)
{
    return read_text(p, text, n, what, true, out, e);
}

/* ---- writing */

int td_json_put_text(td_bytes *b, const char *text, size_t n, td_error *e)
{
    static const char what[] = "the header of a file";
    int rc = td_bytes_put(b, "\"", 1, what, e);
    for (size_t i = 0, plain = 0; !rc && i <= n; i++) {
        unsigned char c = i < n ? (unsigned char)text[i] : 0;
        bool half = c == 0xed && i + 2 < n && (text[i + 1] & 0x20); /* of a surrogate pair: it has no UTF-8 */
        if (i < n && c >= 0x20 && c != '"' && c != '\\' && !half) continue;
        char escape[8];
        int length = 0;
        if (half)
            length = snprintf(escape, sizeof escape, "\\u%04x",
                              (c & 0xfU) << 12 | (text[i + 1] & 0x3fU) << 6 | (text[i + 2] & 0x3fU));
        else if (i < n)
            length =
                c < 0x20 ? snprintf(escape, sizeof escape, "\\u%04x", c) : snprintf(escape, sizeof escape, "\\%c", c);
        rc = td_bytes_put(b, text + plain, i - plain, what, e);
        if (!rc) rc = td_bytes_put(b, escape, (size_t)length, what, e);
        if (half) i += 2;
        plain = i + 1;
    }
    return rc ? rc : td_bytes_put(b, "\"", 1, what, e);
}

int td_json_put_float(td_bytes *b, double v, td_error *e)
{
    char text[40], *comma;
    for (int precision = 15; precision <= 17; precision++) { /* the shortest that is the same number */
        snprintf(text, sizeof text, "%.*g", precision, v);
        if (strtod(text, NULL) == v) break;
    }
    if ((comma = strchr(text, ','))) *comma = '.'; /* where numbers are printed so */
    size_t n = strlen(text);
    if (!strpbrk(text, ".en")) n += (size_t)snprintf(text + n, sizeof text - n, ".0");
    return td_bytes_put(b, text, n, "the header of a file", e);
}
