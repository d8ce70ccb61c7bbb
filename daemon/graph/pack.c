/* Values as a client sends them, and as they go back to it. */
#include "daemon/graph/graph.h"

typedef struct reading {
    td_purse *purse;
    const uint32_t *words;
    uint32_t left, depth;
    td_tensor *const *tensors;
    uint32_t ntensors;
    td_error *e;
} reading;

static int malformed(td_error *e)
{
    return td_fail(e, TD_E_PROTOCOL, "the arguments of a program are malformed");
}

static int read_value(reading *r, td_val *out); /* as deep as TD_PV_DEPTH */

static int read_items(reading *r, const td_pv *v, td_val *out) /* NOLINT(misc-no-recursion) */
{
    if (v->small > r->left || ++r->depth > TD_PV_DEPTH) return malformed(r->e);
    int rc = td_val_box(r->purse, v->kind == TD_PV_LIST ? TD_T_LIST : TD_T_TUPLE, v->small, out, r->e);
    for (uint32_t k = 0; k < v->small && !rc; k++) rc = read_value(r, &out->box->items[k]);
    r->depth--;
    return rc;
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

int td_vals_read(td_purse *p, const uint32_t *words, uint32_t nwords, td_tensor *const *tensors, uint32_t ntensors,
                 uint32_t n, td_val *out, td_error *e)
{
    reading r = {p, words, nwords, 0, tensors, ntensors, e};
    if (nwords > TD_PV_WORDS)
        return td_fail(e, TD_E_INVALID, "a program takes at most %d KB beside its tensors; give large lists as tensors",
                       TD_PV_WORDS / 256);
    int rc = TD_OK;
    for (uint32_t k = 0; k < n && !rc; k++) rc = read_value(&r, &out[k]);
    return rc || (!r.left && !r.ntensors) ? rc : malformed(e);
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

static bool write_items(const td_box *b, td_pv_kind kind, td_words *w, td_tensor **tensors, uint32_t room,
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
    default: return write_items(v->box, v->kind == TD_T_LIST ? TD_PV_LIST : TD_PV_TUPLE, w, tensors, room, ntensors);
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
