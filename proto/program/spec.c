/* [[fill]align][sign][#][0][width][,|_][.precision][type]. See spec.h. */
#include "proto/program/spec.h"

#include <string.h>

typedef struct reader {
    const char *at, *end;
} reader;

static char look(const reader *r)
{
    return r->at < r->end ? *r->at : 0;
}

static char take(reader *r, const char *one_of)
{
    char c = look(r);
    if (!c || !strchr(one_of, c)) return 0;
    r->at++;
    return c;
}

static bool is_align(const char *at, const char *end)
{
    return at < end && *at && strchr("<>^=", *at);
}

/* The size of the character that fills, when an alignment follows it. */
static size_t fill_size(const reader *r)
{
    size_t n = 1;
    while (r->at + n < r->end && ((unsigned char)r->at[n] & 0xc0) == 0x80) n++;
    return r->at < r->end && n <= 4 && is_align(r->at + n, r->end) ? n : 0;
}

static void take_align(reader *r, td_spec *s)
{
    size_t n = fill_size(r);
    if (n) memcpy(s->fill, r->at, s->nfill = (uint8_t)n), r->at += n;
    s->align = take(r, "<>^=");
}

/* A number of at most `most`; -1: there is none, -2: it is larger. */
static int32_t number(reader *r, int32_t most)
{
    int32_t v = -1;
    for (char c; (c = take(r, "0123456789"));) {
        v = 10 * (v < 0 ? 0 : v) + (c - '0');
        if (v > most) return -2;
    }
    return v;
}

static void take_zero(reader *r, td_spec *s)
{
    if (s->nfill || !take(r, "0")) return;
    s->fill[0] = '0', s->nfill = 1;
    if (!s->align) s->align = 'z'; /* of numbers '=' */
}

const char *td_spec_read(const char *text, size_t n, td_spec *spec)
{
    reader r = {text, text + n};
    *spec = (td_spec){.precision = -1};
    take_align(&r, spec);
    spec->sign = take(&r, "+- ");
    spec->alternate = take(&r, "#");
    take_zero(&r, spec);
    if ((spec->width = number(&r, TD_SPEC_WIDTH)) == -2) return "a width is at most 4096";
    spec->group = take(&r, ",_");
    if (take(&r, ".") && (spec->precision = number(&r, TD_SPEC_PRECISION)) < 0)
        return spec->precision == -2 ? "a precision is at most 500" : "a precision is missing behind '.'";
    spec->type = take(&r, "bcdeEfFgGnosxX%");
    return r.at == r.end ? NULL
                         : "it is [[fill]align][sign][#][0][width][,][.precision][type], with a type of bdeEfFgGnosxX%";
}

static const char *text_misfit(const td_spec *s)
{
    if (s->type && s->type != 's') return "a text is written as 's'";
    return s->sign || s->alternate || s->group || s->align == '=' ? "a text has no sign, '#', ',' or '='" : NULL;
}

static const char *int_misfit(const td_spec *s)
{
    if (s->type == 's') return "a number is written as one of bdeEfFgGnoxX%, not as 's'";
    if (s->type && strchr("eEfFgG%", s->type)) return NULL;
    if (s->precision >= 0) return "an int has no precision";
    if (s->type == 'c') return "a program writes chr(...) for a character";
    if (s->group == ',' && s->type && strchr("boxXn", s->type)) return "',' stands between decimal digits";
    return s->group && s->type == 'n' ? "'n' has no '_'" : NULL;
}

static const char *float_misfit(const td_spec *s)
{
    if (s->type && !strchr("eEfFgGn%", s->type)) return "a float is written as one of eEfFgGn%";
    if (s->alternate && !s->type) return "'#' wants a type behind it";
    return s->group && s->type == 'n' ? "'n' has no ','" : NULL;
}

const char *td_spec_misfit(const td_spec *spec, td_type_kind kind)
{
    switch (kind) {
    case TD_T_STR: return text_misfit(spec);
    case TD_T_BOOL:
    case TD_T_INT: return int_misfit(spec);
    case TD_T_FLOAT: return float_misfit(spec);
    default: return "numbers, texts and Tensors of one number are written so; write str() around others";
    }
}
