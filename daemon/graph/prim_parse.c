/* Numbers that texts say: int(text) and float(text), with what Python takes and refuses. The C library reads only what
 * was found to be a number before, as it takes more. */
#include "daemon/graph/prims.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 4096 }; /* so that reading one is a step */

/* What is left of a text. */
typedef struct reader {
    const char *at, *end;
} reader;

static bool is_blank(char x)
{
    return x == ' ' || (x >= '\t' && x <= '\r');
}

static bool is_digit(const reader *r)
{
    return r->at < r->end && isdigit((unsigned char)*r->at);
}

static bool take(reader *r, const char *one_of)
{
    bool found = r->at < r->end && *r->at && strchr(one_of, *r->at);
    r->at += found;
    return found;
}

static reader text_of(const td_prim_call *c)
{
    const td_boxed *box = c->in[0]->box;
    reader r = {box->chars, box->chars + box->n};
    while (r.at < r.end && is_blank(*r.at)) r.at++;
    while (r.at < r.end && is_blank(r.end[-1])) r.end--;
    return r;
}

/* Digits with single '_' between them, without these to *out; false: there are none. */
static bool take_digits(reader *r, char **out)
{
    if (!is_digit(r)) return false;
    for (;;) {
        while (is_digit(r)) *(*out)++ = *r->at++;
        if (!take(r, "_")) return true;
        if (!is_digit(r)) return false;
    }
}

static int no_number(td_prim_call *c, const char *said)
{
    const td_boxed *box = c->in[0]->box;
    return td_fail(c->e, TD_E_INVALID, "%s: '%.*s%s'", said, box->n > 60 ? 60 : (int)box->n, box->chars,
                   box->n > 60 ? "..." : "");
}

static int too_long(td_prim_call *c)
{
    return td_fail(c->e, TD_E_INVALID, "a program reads no number of more than %d characters", LONGEST);
}

static int int_of(td_prim_call *c, const char *digits, bool minus)
{
    uint64_t v = 0, most = (uint64_t)INT64_MAX + minus;
    for (; *digits; digits++)
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*digits - '0'), &v) || v > most)
            return td_fail(c->e, TD_E_INVALID, "the result does not fit into an int of 64 bits");
    return td_prim_int(c, (int64_t)(minus ? 0 - v : v));
}

static int int_str(td_prim_call *c)
{
    char digits[LONGEST + 1], *out = digits;
    reader r = text_of(c);
    if (r.end - r.at > LONGEST) return too_long(c);
    bool minus = take(&r, "-");
    if (!minus) take(&r, "+");
    if (!take_digits(&r, &out) || r.at != r.end) return no_number(c, "invalid literal for int() with base 10");
    *out = 0;
    return int_of(c, digits, minus);
}

/* "inf", "Infinity", "NaN": Python's words, which strtod() reads as it does. */
static bool is_word(const reader *r)
{
    static const char *const words[] = {"inf", "infinity", "nan"};
    size_t n = (size_t)(r->end - r->at);
    for (unsigned k = 0; k < sizeof words / sizeof *words; k++)
        if (n == strlen(words[k]) && strncasecmp(r->at, words[k], n) == 0) return true;
    return false;
}

static void take_sign(reader *r, char **out)
{
    if (take(r, "+-")) *(*out)++ = r->at[-1];
}

/* Digits where there are such; false: '_' stand wrong. */
static bool take_some(reader *r, char **out)
{
    return !is_digit(r) || take_digits(r, out);
}

/* 1_0.5e-3, without its '_'; false: it is none. */
static bool take_float(reader *r, char **out)
{
    const char *begin = *out;
    if (!take_some(r, out)) return false;
    bool point = take(r, ".");
    if (point) *(*out)++ = '.';
    if (!take_some(r, out) || *out - begin == point) return false;
    if (!take(r, "eE")) return true;
    *(*out)++ = 'e';
    take_sign(r, out);
    return take_digits(r, out);
}

static int float_str(td_prim_call *c)
{
    char shown[LONGEST + 1], *out = shown;
    reader r = text_of(c);
    if (r.end - r.at > LONGEST) return too_long(c);
    take_sign(&r, &out);
    bool word = is_word(&r);
    if (word)
        while (r.at < r.end) *out++ = *r.at++;
    if ((!word && !take_float(&r, &out)) || r.at != r.end) return no_number(c, "could not convert string to float");
    *out = 0;
    return td_prim_float(c, strtod(shown, NULL));
}

td_prim_fn *const td_prims_parse[TD_PRIM_COUNT] = {
    [TD_PRIM_INT_STR] = int_str,
    [TD_PRIM_FLOAT_STR] = float_str,
};
