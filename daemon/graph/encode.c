/* Values as a client sends them, and as they go back to it. */
#include "daemon/graph/graph.h"

#include <stdlib.h>

typedef td_vals_reading reading;

static int malformed(td_error *e)
{
    return td_fail(e, TD_E_PROTOCOL, "the arguments of a program are malformed");
}

static int read_value(reading *r, td_val *out); /* as deep as TD_PV_DEPTH */

static td_type_kind kind_of(const td_pv *v)
{
    return v->kind == TD_PV_LIST ? TD_T_LIST : v->kind == TD_PV_TUPLE ? TD_T_TUPLE : TD_T_DICT;
}

static int by_key(const void *a, const void *b)
{
    return td_val_order(*(const td_val *const *)a, *(const td_val *const *)b);
}

static bool is_key(const td_val *v, const td_val *first)
{
    return v->kind == first->kind && (v->kind == TD_T_INT || (v->kind == TD_T_STR && v->box->n <= TD_VAL_KEY_CHARS));
}

/* All of one type, and each once. */
static int check_keys(const td_boxed *b, td_error *e)
{
    uint32_t n = b->n / 2;
    const td_val **keys = malloc((n + 1u) * sizeof *keys);
    bool good = true;
    if (!keys) return td_no_memory(e, "for the keys of a dict");
    for (uint32_t k = 0; k < n && good; k++) good = is_key(keys[k] = &b->items[2 * k], &b->items[0]);
    if (good) qsort(keys, n, sizeof *keys, by_key);
    for (uint32_t k = 1; k < n && good; k++) good = by_key(&keys[k - 1], &keys[k]) != 0;
    free(keys);
    return good ? TD_OK
                : td_fail(e, TD_E_INVALID, "the keys of a dict are ints, or texts of at most %d bytes, each once",
                          TD_VAL_KEY_CHARS);
}

static int read_items(reading *r, const td_pv *v, td_val *out) /* NOLINT(misc-no-recursion) */
{
    if (v->small > r->left || ++r->depth > TD_PV_DEPTH) return malformed(r->e);
    if (v->kind == TD_PV_DICT && v->small > 2 * TD_VAL_KEYS)
        return td_fail(r->e, TD_E_INVALID, "a dict of a program has at most %d keys", TD_VAL_KEYS);
    int rc = td_val_box(r->purse, kind_of(v), v->small, out, r->e);
    for (uint32_t k = 0; k < v->small && !rc; k++) rc = read_value(r, &out->box->items[k]);
    r->depth--;
    return !rc && v->kind == TD_PV_DICT ? check_keys(out->box, r->e) : rc;
}

static int read_value(reading *r, td_val *out) /* NOLINT(misc-no-recursion) */
{
    td_pv v;
    uint32_t used = td_pv_get(r->words, r->left, &v);
    if (!used) return malformed(r->e);
    r->words += used, r->left -= used;
    switch (v.kind) {
    case TD_PV_NONE: *out = td_val_none(); return TD_OK;
    case TD_PV_INT: *out = td_val_int(v.i); return TD_OK;
    case TD_PV_FLOAT: *out = td_val_float(v.re); return TD_OK;
    case TD_PV_BOOL: *out = td_val_bool(v.small); return TD_OK;
    case TD_PV_COMPLEX: *out = (td_val){.kind = TD_T_COMPLEX, .re = v.re, .im = v.im}; return TD_OK;
    case TD_PV_DEVICE: *out = (td_val){.kind = TD_T_DEVICE, .i = v.small}; return TD_OK;
    case TD_PV_DTYPE: *out = (td_val){.kind = TD_T_DTYPE, .i = v.small}; return TD_OK;
    case TD_PV_STR: return td_val_text(r->purse, v.text, v.small, out, r->e);
    case TD_PV_TENSOR:
        if (r->ntensors == 0) return malformed(r->e);
        *out = td_val_tensor(td_tensor_ref(*r->tensors++));
        r->ntensors--;
        return TD_OK;
    default: return read_items(r, &v, out);
    }
}

int td_vals_begin(td_vals_reading *r, td_purse *p, const uint32_t *words, uint32_t nwords, td_tensor *const *tensors,
                  uint32_t ntensors, td_error *e)
{
    *r = (reading){p, words, nwords, 0, tensors, ntensors, NULL};
    if (nwords <= TD_PV_WORDS) return TD_OK;
    return td_fail(e, TD_E_INVALID, "a program takes at most %d KB beside its tensors; give large lists as tensors",
                   TD_PV_WORDS / 256);
}

int td_vals_read(td_vals_reading *r, uint32_t n, td_val *out, td_error *e)
{
    int rc = TD_OK;
    r->e = e;
    for (uint32_t k = 0; k < n && !rc; k++) rc = read_value(r, &out[k]);
    return rc;
}

int td_vals_end(const td_vals_reading *r, td_error *e)
{
    return !r->left && !r->ntensors ? TD_OK : malformed(e);
}

/* ---- back */

static bool put_value(td_words *w, const td_pv *v)
{
    return w->count < TD_PV_WORDS && td_pv_put(w, v); /* a list that is in many is written many times */
}

static bool put(td_words *w, td_pv_kind kind, uint32_t small)
{
    return put_value(w, &(td_pv){.kind = kind, .small = small});
}

static bool write_value(const td_val *v, td_words *w, td_tensor **tensors, uint32_t room, uint32_t *ntensors);

static bool write_items(const td_boxed *b, td_pv_kind kind, td_words *w, td_tensor **tensors, uint32_t room,
                        uint32_t *ntensors) /* NOLINT(misc-no-recursion): as deep as the type */
{
    bool good = put(w, kind, b->n);
    for (uint32_t k = 0; k < b->n && good; k++) good = write_value(&b->items[k], w, tensors, room, ntensors);
    return good;
}

static bool write_value(const td_val *v, td_words *w, td_tensor **tensors, uint32_t room,
                        uint32_t *ntensors) /* NOLINT(misc-no-recursion) */
{
    switch (v->kind) {
    case TD_T_NONE: return put(w, TD_PV_NONE, 0);
    case TD_T_INT: return put_value(w, &(td_pv){.kind = TD_PV_INT, .i = v->i});
    case TD_T_FLOAT: return put_value(w, &(td_pv){.kind = TD_PV_FLOAT, .re = v->re});
    case TD_T_BOOL: return put(w, TD_PV_BOOL, v->i != 0);
    case TD_T_COMPLEX: return put_value(w, &(td_pv){.kind = TD_PV_COMPLEX, .re = v->re, .im = v->im});
    case TD_T_STR: return put_value(w, &(td_pv){.kind = TD_PV_STR, .small = v->box->n, .text = v->box->chars});
    case TD_T_DEVICE: return put(w, TD_PV_DEVICE, (uint32_t)v->i);
    case TD_T_DTYPE: return put(w, TD_PV_DTYPE, (uint32_t)v->i);
    case TD_T_TENSOR:
        if (*ntensors < room) tensors[*ntensors] = v->tensor;
        *ntensors += 1;
        return put(w, TD_PV_TENSOR, 0);
    case TD_T_LIST: return write_items(v->box, TD_PV_LIST, w, tensors, room, ntensors);
    case TD_T_DICT: return write_items(v->box, TD_PV_DICT, w, tensors, room, ntensors);
    default: return write_items(v->box, TD_PV_TUPLE, w, tensors, room, ntensors);
    }
}

int td_vals_write(uint32_t n, const td_val *v, td_words *w, td_tensor **tensors, uint32_t room, uint32_t *ntensors,
                  td_error *e)
{
    *ntensors = 0;
    bool good = true;
    for (uint32_t k = 0; k < n && good; k++) good = write_value(&v[k], w, tensors, room, ntensors);
    if (w->count >= TD_PV_WORDS)
        return td_fail(e, TD_E_INVALID, "a program returns at most %d KB beside its tensors", TD_PV_WORDS / 256);
    return good ? TD_OK : td_no_memory(e, "for what a program returned");
}
