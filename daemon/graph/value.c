/* Values of a run, and what they cost. */
#include "daemon/graph/value.h"

#include <stdlib.h>
#include <string.h>

/* ---- the purse */

int td_purse_take(td_purse *p, uint64_t bytes, td_error *e)
{
    if (p->used + bytes > TD_PURSE_MOST)
        return td_fail(e, TD_E_MEMORY, "the lists and texts of one run of a program take more than %d MB",
                       TD_PURSE_MOST >> 20);
    if (p->used + bytes > p->charged) {
        uint64_t want = (p->used + bytes + TD_PURSE_STEP - 1) / TD_PURSE_STEP * TD_PURSE_STEP;
        int rc = td_account_charge(p->account, want - p->charged, td_objects_of(want - p->charged), e);
        p->refused = rc != TD_OK;
        if (rc) return rc;
        p->charged = want;
    }
    p->used += bytes;
    return TD_OK;
}

void td_purse_give(td_purse *p, uint64_t bytes)
{
    p->used -= bytes;
}

void td_purse_empty(td_purse *p)
{
    td_account_discharge(p->account, p->charged, td_objects_of(p->charged));
    p->charged = p->used = 0;
}

/* ---- numbers */

td_scalar td_val_scalar(const td_val *v)
{
    switch (v->kind) {
    case TD_T_BOOL: return td_bool(v->i != 0);
    case TD_T_INT: return td_int(v->i);
    case TD_T_COMPLEX: return td_complex(v->re, v->im);
    default: return td_float(v->re);
    }
}

/* ---- boxes */

static size_t item_bytes(uint8_t kind)
{
    return kind == TD_T_STR ? 1 : sizeof(td_val);
}

static uint64_t box_bytes(uint8_t kind, const td_boxed *b)
{
    return sizeof *b + (uint64_t)b->room * item_bytes(kind);
}

static void free_box(td_purse *p, uint8_t kind, td_boxed *b)
{
    td_purse_give(p, box_bytes(kind, b));
    free(b->chars);
    free(b);
}

static bool dies_at_once(const td_boxed *b)
{
    enum { FEW = 32 };
    if (b->n > FEW) return false;
    for (uint32_t i = 0; i < b->n; i++)
        if (td_val_is_boxed(&b->items[i]) && b->items[i].kind != TD_T_STR) return false;
    return true;
}

/* The place of its last item is where the next one is kept. */
static void put_to_dying(td_purse *p, td_boxed *b)
{
    td_val last = b->items[--b->n];
    b->items[b->n] = (td_val){.kind = TD_T_NONE, .box = p->dying};
    p->dying = b;
    td_val_drop(p, &last);
}

void td_val_end(td_purse *p, td_val v) /* NOLINT(misc-no-recursion): as deep as the type */
{
    if (v.kind == TD_T_TENSOR) td_tensor_unref(v.tensor);
    if (!td_val_is_boxed(&v) || --v.box->refs) return;
    if (v.kind != TD_T_STR && !dies_at_once(v.box)) {
        put_to_dying(p, v.box);
        return;
    }
    for (uint32_t i = 0; v.kind != TD_T_STR && i < v.box->n; i++) td_val_drop(p, &v.box->items[i]);
    free_box(p, v.kind, v.box);
}

int td_purse_bury(td_purse *p, int most)
{
    int left = most;
    while (p->dying && left > 0) {
        td_boxed *b = p->dying, *next = b->items[b->n].box;
        if (b->n == 0) {
            p->dying = next;
            free_box(p, TD_T_LIST, b);
        } else {
            td_val last = b->items[--b->n];
            b->items[b->n] = (td_val){.kind = TD_T_NONE, .box = next};
            td_val_drop(p, &last); /* may put others before it */
        }
        left--;
    }
    return most - left;
}

static int too_large(td_error *e, bool text)
{
    if (text) return td_fail(e, TD_E_INVALID, "a text of a program has at most %d bytes", TD_VAL_CHARS);
    return td_fail(e, TD_E_INVALID, "a list of a program has at most %d items", TD_VAL_ITEMS);
}

int td_val_box(td_purse *p, td_type_kind kind, uint32_t n, td_val *out, td_error *e)
{
    td_boxed size = {.room = n ? n : 1};
    if (n > (kind == TD_T_STR ? TD_VAL_CHARS : TD_VAL_ITEMS)) return too_large(e, kind == TD_T_STR);
    int rc = td_purse_take(p, box_bytes((uint8_t)kind, &size), e);
    if (rc) return rc;
    td_boxed *b = malloc(sizeof *b);
    char *room = b ? calloc(size.room, item_bytes((uint8_t)kind)) : NULL;
    if (!room) {
        free(b);
        td_purse_give(p, box_bytes((uint8_t)kind, &size));
        return td_no_memory(e, "for a %s of %u items", kind == TD_T_STR ? "text" : "list", n);
    }
    *b = (td_boxed){.refs = 1, .n = n, .room = size.room, .chars = room};
    *out = (td_val){.kind = (uint8_t)kind, .box = b};
    return TD_OK;
}

int td_val_text(td_purse *p, const char *text, size_t n, td_val *out, td_error *e)
{
    if (n > TD_VAL_CHARS) return too_large(e, true);
    int rc = td_val_box(p, TD_T_STR, (uint32_t)n, out, e);
    if (!rc && n) memcpy(out->box->chars, text, n);
    return rc;
}

int td_val_room(td_purse *p, td_boxed *list, uint32_t more, td_error *e)
{
    uint64_t need = (uint64_t)list->n + more, room = list->room;
    if (need <= room) return TD_OK;
    if (need > TD_VAL_ITEMS) return too_large(e, false);
    while (room < need) room *= 2;
    uint64_t bytes = (room - list->room) * sizeof(td_val);
    int rc = td_purse_take(p, bytes, e);
    if (rc) return rc;
    td_val *items = realloc(list->items, (size_t)room * sizeof *items);
    if (!items) {
        td_purse_give(p, bytes);
        return td_no_memory(e, "for a list of %llu items", (unsigned long long)need);
    }
    list->items = items;
    list->room = (uint32_t)room;
    return TD_OK;
}

/* ---- comparisons */

uint32_t td_val_size(const td_val *v)
{
    if (!td_val_is_boxed(v)) return 0;
    return v->kind == TD_T_STR ? v->box->n >> 3 : v->box->n;
}

bool td_val_equal(const td_val *a, const td_val *b) /* NOLINT(misc-no-recursion): as deep as the type */
{
    if (a->kind != b->kind) return false;
    if (td_val_is_boxed(a) && a->box == b->box && a->kind == TD_T_STR) return true;
    switch (a->kind) {
    case TD_T_NONE: return true;
    case TD_T_FLOAT: return a->re == b->re;
    case TD_T_COMPLEX: return a->re == b->re && a->im == b->im;
    case TD_T_STR: return a->box->n == b->box->n && memcmp(a->box->chars, b->box->chars, a->box->n) == 0;
    case TD_T_LIST:
    case TD_T_TUPLE:
        if (a->box->n != b->box->n) return false;
        for (uint32_t k = 0; k < a->box->n; k++)
            if (!td_val_equal(&a->box->items[k], &b->box->items[k])) return false;
        return true;
    default: return a->i == b->i;
    }
}

int td_val_order(const td_val *a, const td_val *b)
{
    if (a->kind == TD_T_FLOAT) return (a->re > b->re) - (a->re < b->re);
    if (a->kind != TD_T_STR || b->kind != TD_T_STR) return (a->i > b->i) - (a->i < b->i);
    if (a->box == b->box) return 0;
    uint32_t na = a->box->n, nb = b->box->n;
    int order = memcmp(a->box->chars, b->box->chars, na < nb ? na : nb);
    return order ? order : (na > nb) - (na < nb);
}

const char *td_val_kind_name(const td_val *v)
{
    static const char *const names[TD_T_KINDS] = {
        [TD_T_NONE] = "None",       [TD_T_INT] = "int",   [TD_T_FLOAT] = "float",   [TD_T_BOOL] = "bool",
        [TD_T_COMPLEX] = "complex", [TD_T_STR] = "str",   [TD_T_DEVICE] = "device", [TD_T_DTYPE] = "dtype",
        [TD_T_TENSOR] = "Tensor",   [TD_T_LIST] = "list", [TD_T_TUPLE] = "tuple",   [TD_T_DICT] = "dict"};
    return names[v->kind];
}
