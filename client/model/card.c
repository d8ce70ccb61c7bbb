/* See card.h. */
#include "client/model/card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last of that name; NULL: there is none. */
static const td_plain *member(const td_plain *object, const char *name)
{
    const td_plain *found = NULL;
    for (uint32_t k = 0; object && object->kind == TD_PLAIN_DICT && k + 1 < object->n; k += 2)
        if (object->items[k]->kind == TD_PLAIN_TEXT && strcmp(object->items[k]->text, name) == 0)
            found = object->items[k + 1];
    return found;
}

static const char *text_of(const td_plain *p)
{
    return p && p->kind == TD_PLAIN_TEXT ? p->text : NULL;
}

static int wrong(td_error *e, const char *list, uint32_t k, const char *what)
{
    return td_fail(e, TD_E_INVALID, "the card of the model: entry %u of %s %s", k, list, what);
}

static int read_size(td_card_end *x, int i, const td_plain *p)
{
    x->symbol[i] = text_of(p);
    x->size[i] = p->kind == TD_PLAIN_INT && p->i >= 0 ? p->i : -1;
    return p->kind == TD_PLAIN_NONE || x->symbol[i] || x->size[i] >= 0;
}

static int read_end(td_card_end *x, const char *list, uint32_t k, const td_plain *p, td_error *e)
{
    const td_plain *shape = member(p, "shape");
    const char *dtype = text_of(member(p, "dtype"));
    x->name = text_of(member(p, "name"));
    if (!x->name) return wrong(e, list, k, "has no name");
    x->dtype = dtype ? td_dtype_parse(dtype) : TD_DTYPE_NONE;
    if (x->dtype == TD_DTYPE_NONE) return wrong(e, list, k, "has no dtype that is known");
    if (!shape || (shape->kind != TD_PLAIN_LIST && shape->kind != TD_PLAIN_NONE))
        return wrong(e, list, k, "has no shape");
    x->ndim = shape->kind == TD_PLAIN_LIST ? (int)shape->n : -1;
    if (x->ndim > TD_MAX_DIMS) return wrong(e, list, k, "has too many dimensions");
    for (int i = 0; i < x->ndim; i++)
        if (!read_size(x, i, shape->items[i]))
            return wrong(e, list, k, "has a size that is neither a number, a text nor null");
    return TD_OK;
}

static int read_ends(const td_plain *card, const char *list, int *n, td_card_end **out, td_error *e)
{
    const td_plain *all = member(card, list);
    if (!all || all->kind != TD_PLAIN_LIST || all->n > TD_CARD_ENDS)
        return td_fail(e, TD_E_INVALID, "the card of a model has a list \"%s\", of at most %d", list, TD_CARD_ENDS);
    *out = calloc(all->n + 1u, sizeof **out);
    if (!*out) return td_no_memory(e, "for the card of a model");
    int rc = TD_OK;
    for (uint32_t k = 0; k < all->n && !rc; k++) rc = read_end(&(*out)[k], list, k, all->items[k], e);
    *n = (int)all->n;
    return rc;
}

int td_card_read(td_card *c, const char *text, size_t bytes, td_error *e)
{
    td_plain *card = NULL;
    *c = (td_card){.bytes = bytes, .text = malloc(bytes + 1), .memory = {.file_size = bytes}};
    if (!c->text) return td_no_memory(e, "for the card of a model");
    memcpy(c->text, text, bytes);
    c->text[bytes] = 0;
    int rc = td_json_read(&c->memory, c->text, bytes, "the card of a model", &card, e);
    if (!rc) rc = read_ends(card, "inputs", &c->nin, &c->in, e);
    if (!rc) rc = read_ends(card, "outputs", &c->nout, &c->out, e);
    if (rc) td_card_free(c);
    return rc;
}

void td_card_free(td_card *c)
{
    td_pickle_close(&c->memory);
    free(c->text);
    free(c->in);
    free(c->out);
    *c = (td_card){0};
}

static size_t add(char *out, size_t size, size_t at, const char *text)
{
    size_t n = strlen(text);
    if (at + n + 1 > size) n = size > at ? size - at - 1 : 0;
    memcpy(out + at, text, n);
    out[at + n] = 0;
    return at + n;
}

const char *td_card_end_text(const td_card_end *x, char *out, size_t size)
{
    size_t n = add(out, size, 0, td_dtype_name(x->dtype));
    if (x->ndim < 0) return out;
    n = add(out, size, n, " [");
    for (int i = 0; i < x->ndim; i++) {
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)x->size[i]);
        n = add(out, size, n, i ? ", " : "");
        n = add(out, size, n, x->size[i] >= 0 ? number : x->symbol[i] ? x->symbol[i] : "?");
    }
    add(out, size, n, "]");
    return out;
}

/* The size that a name stands for in the inputs before this one, and in its sizes before; -1: none yet. */
static int64_t meant(const td_card *c, const td_desc *const *given, int k, int i, const char *symbol,
                     const char **where)
{
    for (int a = 0; a <= k; a++) {
        const td_card_end *x = &c->in[a];
        for (int d = 0; d < x->ndim && (a < k || d < i); d++) {
            if (!x->symbol[d] || strcmp(x->symbol[d], symbol) != 0) continue;
            *where = x->name;
            return given[a]->shape[d];
        }
    }
    return -1;
}

static int unfit(const td_card_end *x, int k, const td_desc *d, const char *why, td_error *e)
{
    char said[160], came[160];
    return td_fail(e, d->dtype != x->dtype ? TD_E_TYPE : TD_E_SHAPE, "input %d, '%.60s', is %s, but %s came%s", k,
                   x->name, td_card_end_text(x, said, sizeof said), td_desc_text(d, came, sizeof came), why);
}

static int check_one(const td_card *c, int k, const td_desc *const *given, td_error *e)
{
    const td_card_end *x = &c->in[k];
    const td_desc *d = given[k];
    char why[160] = "";
    if (d->dtype != x->dtype) return unfit(x, k, d, "", e);
    if (x->ndim < 0) return TD_OK;
    if (d->ndim != x->ndim) return unfit(x, k, d, "", e);
    for (int i = 0; i < x->ndim; i++) {
        if (x->size[i] >= 0 && d->shape[i] != x->size[i]) return unfit(x, k, d, "", e);
        const char *where = NULL;
        int64_t size = x->symbol[i] ? meant(c, given, k, i, x->symbol[i], &where) : -1;
        if (size < 0 || size == d->shape[i]) continue;
        snprintf(why, sizeof why, "; %.40s is %lld in '%.60s'", x->symbol[i], (long long)size, where);
        return unfit(x, k, d, why, e);
    }
    return TD_OK;
}

int td_card_check(const td_card *c, int n, const td_desc *const *given, td_error *e)
{
    if (n != c->nin)
        return td_fail(e, TD_E_INVALID, "the model takes %d input%s, and %d %s given", c->nin, c->nin == 1 ? "" : "s",
                       n, n == 1 ? "is" : "are");
    int rc = TD_OK;
    for (int k = 0; k < n && !rc; k++) rc = check_one(c, k, given, e);
    return rc;
}

char *td_card_with(const td_card *c, const char *more, td_error *e)
{
    size_t n = c->bytes;
    while (n && c->text[n - 1] != '}') n--; /* an object: it was read as one */
    if (n) n--;
    size_t before = n;
    while (before && strchr(" \t\r\n", c->text[before - 1])) before--;
    const char *comma = before && c->text[before - 1] == '{' ? "" : ", ";
    char *out = malloc(n + strlen(more) + 4);
    if (!out) return td_no_memory(e, "for the card of a model"), NULL;
    memcpy(out, c->text, n);
    sprintf(out + n, "%s%s}", comma, more); /* NOLINT: as long as there is room for */
    return out;
}
