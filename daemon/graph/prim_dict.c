/* What is done to dicts: keys and values one after the other in one box, in the order in which the keys came. They are
 * looked for from the first on, so a dict has few. */
#include "daemon/graph/prims.h"

#include <string.h>

enum { MOST_WRITTEN = 256 }; /* keys, in one node */

/* Where the value of a key is, or -1. */
static int64_t find(const td_boxed *b, const td_val *key)
{
    for (uint32_t k = 0; k < b->n; k += 2)
        if (td_val_equal(&b->items[k], key)) return k + 1;
    return -1;
}

/* The same; texts are work beyond the dict's size. */
static int64_t look_up(td_prim_call *c)
{
    const td_boxed *b = c->in[0]->box;
    if (c->in[1]->kind == TD_T_STR && c->in[1]->box->n > TD_VAL_KEY_CHARS) return -1;
    if (c->in[1]->kind == TD_T_STR) c->work += b->n * c->in[1]->box->n >> 10;
    return find(b, c->in[1]);
}

static int no_key(td_prim_call *c)
{
    if (c->in[1]->kind == TD_T_INT)
        return td_fail(c->e, TD_E_INVALID, "KeyError: %lld is no key of the dict", (long long)c->in[1]->i);
    return td_fail(c->e, TD_E_INVALID, "KeyError: this is no key of the dict");
}

static int put(td_prim_call *c, td_boxed *b, const td_val *key, const td_val *value)
{
    int64_t at = find(b, key);
    if (at >= 0) {
        td_val old = b->items[at];
        b->items[at] = td_val_ref(*value);
        td_val_drop(c->purse, &old);
        return TD_OK;
    }
    if (key->kind == TD_T_STR && key->box->n > TD_VAL_KEY_CHARS)
        return td_fail(c->e, TD_E_INVALID, "a key of a dict has at most %d bytes", TD_VAL_KEY_CHARS);
    if (b->n == 2 * TD_VAL_KEYS)
        return td_fail(c->e, TD_E_INVALID, "a dict of a program has at most %d keys", TD_VAL_KEYS);
    int rc = td_val_room(c->purse, b, 2, c->e);
    if (rc) return rc;
    td_val_push(b, td_val_ref(*key));
    td_val_push(b, td_val_ref(*value));
    return TD_OK;
}

static int construct(td_prim_call *c)
{
    if (c->nin > 2 * MOST_WRITTEN)
        return td_fail(c->e, TD_E_INVALID, "a dict is written with at most %d keys; add others later", MOST_WRITTEN);
    int rc = td_val_box(c->purse, TD_T_DICT, 0, c->out, c->e);
    for (uint32_t k = 0; k + 1 < c->nin && !rc; k += 2) rc = put(c, c->out->box, c->in[k], c->in[k + 1]);
    return rc;
}

static int len(td_prim_call *c)
{
    return td_prim_int(c, c->in[0]->box->n / 2);
}

static int getitem(td_prim_call *c)
{
    int64_t at = look_up(c);
    if (at < 0) return no_key(c);
    c->out[0] = td_val_ref(c->in[0]->box->items[at]);
    return TD_OK;
}

static int get(td_prim_call *c)
{
    int64_t at = look_up(c);
    c->out[0] = td_val_ref(at < 0 ? *c->in[2] : c->in[0]->box->items[at]);
    return TD_OK;
}

static int contains(td_prim_call *c)
{
    return td_prim_bool(c, look_up(c) >= 0);
}

static int setitem(td_prim_call *c)
{
    return put(c, c->in[0]->box, c->in[1], c->in[2]);
}

/* The key goes, and its value is the caller's. */
static int take(td_prim_call *c, td_val *value)
{
    td_boxed *b = c->in[0]->box;
    int64_t at = look_up(c);
    if (at < 0) return no_key(c);
    td_val key = b->items[at - 1];
    *value = b->items[at];
    memmove(b->items + at - 1, b->items + at + 1, (size_t)(b->n - at - 1) * sizeof key);
    b->n -= 2;
    td_val_drop(c->purse, &key);
    return TD_OK;
}

static int pop(td_prim_call *c)
{
    return take(c, c->out);
}

static int delitem(td_prim_call *c)
{
    td_val old = td_val_none();
    int rc = take(c, &old);
    td_val_drop(c->purse, &old);
    return rc;
}

static int clear(td_prim_call *c)
{
    td_boxed *b = c->in[0]->box;
    while (b->n) td_val_drop(c->purse, &b->items[--b->n]);
    return TD_OK;
}

/* Each `step`th item from one on, as a new box. */
static int some(td_prim_call *c, td_type_kind kind, uint32_t from, uint32_t step)
{
    const td_boxed *b = c->in[0]->box;
    int rc = td_val_box(c->purse, kind, b->n / step, c->out, c->e);
    for (uint32_t k = from, n = 0; k < b->n && !rc; k += step) c->out->box->items[n++] = td_val_ref(b->items[k]);
    return rc;
}

static int copy(td_prim_call *c)
{
    return some(c, TD_T_DICT, 0, 1);
}

static int keys(td_prim_call *c)
{
    return some(c, TD_T_LIST, 0, 2);
}

static int values(td_prim_call *c)
{
    return some(c, TD_T_LIST, 1, 2);
}

static int items(td_prim_call *c)
{
    const td_boxed *b = c->in[0]->box;
    int rc = td_val_box(c->purse, TD_T_LIST, b->n / 2, c->out, c->e);
    for (uint32_t k = 0; k < b->n && !rc; k += 2) {
        td_val *pair = &c->out->box->items[k / 2];
        rc = td_val_box(c->purse, TD_T_TUPLE, 2, pair, c->e);
        for (uint32_t i = 0; i < 2 && !rc; i++) pair->box->items[i] = td_val_ref(b->items[k + i]);
    }
    return rc;
}

/* Each of many keys is looked for among many: what that takes is bounded too. */
static int update(td_prim_call *c)
{
    const td_boxed *from = c->in[1]->box;
    uint64_t pairs = (uint64_t)from->n * (c->in[0]->box->n + from->n);
    if (pairs > 1 << 17)
        return td_fail(c->e, TD_E_INVALID, "a dict of %u keys is too large to be updated with %u; go over its items",
                       c->in[0]->box->n / 2, from->n / 2);
    int rc = TD_OK;
    c->work += (uint32_t)pairs;
    for (uint32_t k = 0, n = from->n; k < n && !rc; k += 2)
        rc = put(c, c->in[0]->box, &from->items[k], &from->items[k + 1]);
    return rc;
}

td_prim_fn *const td_prims_dict[TD_PRIM_COUNT] = {
    [TD_PRIM_DICTCONSTRUCT] = construct,
    [TD_PRIM_LEN_DICT] = len,
    [TD_PRIM_GETITEM_DICT] = getitem,
    [TD_PRIM_SETITEM_DICT] = setitem,
    [TD_PRIM_DELITEM_DICT] = delitem,
    [TD_PRIM_CONTAINS_DICT] = contains,
    [TD_PRIM_POP_DICT] = pop,
    [TD_PRIM_CLEAR_DICT] = clear,
    [TD_PRIM_COPY_DICT] = copy,
    [TD_PRIM_KEYS] = keys,
    [TD_PRIM_VALUES] = values,
    [TD_PRIM_ITEMS] = items,
    [TD_PRIM_GET] = get,
    [TD_PRIM_UPDATE] = update,
};
