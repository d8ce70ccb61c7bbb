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
    return td_json_read(p, text, n, what, out, e);
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

void http_put_float(http_text *t, double v, bool single)
{
    char text[40];
    if (!isfinite(v)) {
        http_put(t, isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
        return;
    }
    for (int precision = single ? 6 : 15; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, v);
        if (single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v) break;
    }
    http_put(t, strpbrk(text, ".e") ? "%s" : "%s.0", text);
}
