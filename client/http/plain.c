/* See plain.h. */
#include "client/http/plain.h"
#include "proto/base/status.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int depth_of(const char *text, size_t n)
{
    int depth = 0, deepest = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\') i++;
            else if (c == '"') quoted = false;
        } else if (c == '"') quoted = true;
        else if (c == '[' || c == '{') deepest = ++depth > deepest ? depth : deepest;
        else if (c == ']' || c == '}') depth--;
    }
    return deepest;
}

uint64_t http_json_memory(const char *text, size_t n)
{
    enum { PLACES = 4 }; /* of a value in its list, which grows to twice as many each time */
    uint64_t values = n > 0;
    for (size_t i = 0; i < n; i++) values += text[i] == ',' || text[i] == ':' || text[i] == '[' || text[i] == '{';
    return values * (sizeof(td_plain) + PLACES * sizeof(td_plain *));
}

int http_json_read(td_pickle *p, const char *text, size_t n, const char *what, td_plain **out, td_error *e)
{
    *p = (td_pickle){.file_size = n};
    if (depth_of(text, n) > HTTP_DEEPEST)
        return td_fail(e, TD_E_INVALID, "%s is nested more than %d deep", what, HTTP_DEEPEST);
    if (n == 0) return (*out = td_plain_new(p, TD_PLAIN_DICT, e)) ? TD_OK : e->code;
    return td_json_read_any_float(p, text, n, what, out, e);
}

const td_plain *http_get(const td_plain *x, const char *name)
{
    if (!x || x->kind != TD_PLAIN_DICT) return NULL;
    for (uint32_t i = 0; i + 1 < x->n; i += 2)
        if (td_plain_is_text(x->items[i], name)) return x->items[i + 1];
    return NULL;
}

const char *http_get_text(const td_plain *x, const char *name)
{
    x = http_get(x, name);
    return x && x->kind == TD_PLAIN_TEXT && strlen(x->text) == x->n ? x->text : NULL;
}

bool http_get_int(const td_plain *x, const char *name, int64_t least, int64_t most, int64_t otherwise, int64_t *out)
{
    x = http_get(x, name);
    *out = otherwise;
    if (!x || x->kind == TD_PLAIN_NONE) return true;
    if (x->kind != TD_PLAIN_INT || x->i < least || x->i > most) return false;
    *out = x->i;
    return true;
}

bool http_get_bool(const td_plain *x, const char *name, bool otherwise, bool *out)
{
    x = http_get(x, name);
    *out = otherwise;
    if (!x || x->kind == TD_PLAIN_NONE) return true;
    if (x->kind != TD_PLAIN_BOOL) return false;
    *out = x->i != 0;
    return true;
}

void http_put_bytes(http_text *t, const char *bytes, size_t n)
{
    if (t->failed) return;
    if (t->most && t->bytes.n + n > t->most)
        t->failed = td_fail(&t->error, TD_E_QUOTA, "an answer of more than %llu bytes: ask for binary outputs",
                            (unsigned long long)t->most);
    else t->failed = td_bytes_put(&t->bytes, bytes, n, "an answer", &t->error);
}

void http_put(http_text *t, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof text) http_put_bytes(t, text, (size_t)n);
    else if (!t->failed) t->failed = td_fail(&t->error, TD_E_INTERNAL, "a piece of an answer is too long");
}

void http_put_quoted(http_text *t, const char *text)
{
    if (!t->failed) t->failed = td_json_put_text(&t->bytes, text, strlen(text), &t->error);
}

/* v * 10^k, good to some 1e-15 of it. */
static double by_tens(double v, int k)
{
    static const double tens[] = {1,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    for (; k > 22; k -= 22) v *= 1e22;
    for (; k < -22; k += 22) v /= 1e22;
    return k < 0 ? v / tens[-k] : v * tens[k];
}

/* The fewest digits from which `v`, which is above 0, is read again: v is about *digits * 10^(*exponent - n + 1), and n
 * is returned. A float's neighbours are 6e-8 of it apart, so doubles tell whether it is the nearest one, but for those
 * near the middle of two, for which there is one digit more. */
static int short_digits(float v, uint64_t *digits, int *exponent)
{
    enum { FEWEST = 6, MOST = 9 };
    double wide = (double)v, near = 0.4999 * (wide - (double)nextafterf(v, 0));
    int e = (int)floor(log10(wide));
    for (int n = FEWEST;; n++) {
        double scaled = nearbyint(by_tens(wide, n - 1 - e));
        bool carries = scaled >= by_tens(1, n); /* 9.999997 is 10.00000 with a digit less */
        if (n < MOST && fabs(by_tens(scaled, e - n + 1) - wide) > near) continue;
        *digits = (uint64_t)(carries ? scaled / 10 : scaled), *exponent = e + carries;
        return n;
    }
}

/* As "%.*g" with so few digits writes it. */
static void put_single(http_text *t, float v)
{
    char all[24], text[48];
    uint64_t digits;
    int e, least, n = short_digits(fabsf(v), &digits, &e);
    least = n;
    for (; n > 1 && digits % 10 == 0; n--) digits /= 10;
    snprintf(all, sizeof all, "%llu", (unsigned long long)digits);
    const char *sign = signbit(v) ? "-" : "";
    if (e < -4 || e >= least)
        snprintf(text, sizeof text, "%s%c%s%se%c%02d", sign, all[0], n > 1 ? "." : "", all + 1, e < 0 ? '-' : '+',
                 abs(e));
    else if (e < 0) snprintf(text, sizeof text, "%s0.%.*s%s", sign, -e - 1, "000", all);
    else if (n <= e + 1) snprintf(text, sizeof text, "%s%s%.*s.0", sign, all, e + 1 - n, "00000000");
    else snprintf(text, sizeof text, "%s%.*s.%s", sign, e + 1, all, all + e + 1);
    http_put_bytes(t, text, strlen(text));
}

void http_put_float(http_text *t, double v, bool single)
{
    char text[40];
    if (!isfinite(v)) {
        http_put(t, isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
        return;
    }
    if (single && v != 0) {
        put_single(t, (float)v);
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, v);
        if (strtod(text, NULL) == v) break;
    }
    http_put(t, strpbrk(text, ".e") ? "%s" : "%s.0", text);
}
