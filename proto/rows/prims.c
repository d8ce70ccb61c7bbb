/* prim:: ops: sizes, numbers made of them, lists. Arithmetic of what is fixed is the passes' own (fold.h); of a count
 * of rows only that is known which holds for any number of them from 1 on. */
#include "proto/passes/fold.h"
#include "proto/program/prim.h"
#include "proto/rows/parts.h"

#include <string.h>

static _Noreturn void refuse(td_rwalk *w, uint32_t node)
{
    td_rows_no(w, "nothing is known of prim::%s", td_prim_by_id(w->ir->nodes[node].op)->name);
}

static td_rvalue number(td_literal v)
{
    static const uint8_t kinds[TD_L_KINDS] = {
        [TD_L_NONE] = TD_T_NONE,       [TD_L_INT] = TD_T_INT, [TD_L_FLOAT] = TD_T_FLOAT,   [TD_L_BOOL] = TD_T_BOOL,
        [TD_L_COMPLEX] = TD_T_COMPLEX, [TD_L_STR] = TD_T_STR, [TD_L_DEVICE] = TD_T_DEVICE, [TD_L_DTYPE] = TD_T_DTYPE};
    return (td_rvalue){kinds[v.kind], TD_FIXED, {.number = v}};
}

static td_rvalue truth(bool v)
{
    return number((td_literal){.kind = TD_L_BOOL, .small = v});
}

/* So many times the rows. */
static td_rvalue counts(int64_t times)
{
    td_rvalue v = td_rows_fixed(times);
    v.tie = TD_COUNTS;
    return v;
}

static bool is_list(const td_rvalue *v)
{
    return v->kind == TD_T_LIST;
}

static bool is_number(const td_rvalue *v)
{
    return v->kind != TD_T_TENSOR && !is_list(v);
}

static const td_rtensor *tensor_in(td_rwalk *w, uint32_t node, uint32_t k)
{
    const td_rvalue *v = td_rows_in(w, node, k);
    if (v->kind != TD_T_TENSOR || v->tensor->dim == MIXED) refuse(w, node);
    return v->tensor;
}

static td_rlist *list_in(td_rwalk *w, uint32_t node, uint32_t k)
{
    const td_rvalue *v = td_rows_in(w, node, k);
    if (!is_list(v)) refuse(w, node);
    return v->list;
}

/* One that is needed: not so much as the place in a list may rest on rows. */
static int64_t int_in(td_rwalk *w, uint32_t node, uint32_t k)
{
    const td_rvalue *v = td_rows_in(w, node, k);
    if (v->kind != TD_T_INT || v->tie != TD_FIXED)
        td_rows_no(w, "prim::%s is given a number that rests on the number of rows, or on what a tensor holds",
                   td_prim_by_id(w->ir->nodes[node].op)->name);
    return v->number.i;
}

/* ---- constants */

static void constant(td_rwalk *w, uint32_t node)
{
    const td_ir_node *n = &w->ir->nodes[node];
    const uint32_t *at = w->ir->words + n->word;
    td_literal v = {.kind = TD_L_NONE};
    uint32_t used = n->nwords ? td_literal_get(at, n->nwords, &v) : 0;
    if (v.kind != TD_L_LIST) {
        td_rows_out(w, node, 0, number(v));
        return;
    }
    td_rvalue list = td_rows_new_list(w, 0, NULL);
    for (uint32_t k = 0, items = v.small; k < items; k++) {
        used += td_literal_get(at + used, n->nwords - used, &v);
        if (v.kind == TD_L_LIST) refuse(w, node);
        td_rows_push(w, list.list, number(v));
    }
    td_rows_out(w, node, 0, list);
}

/* ---- sizes */

static td_rvalue size_of(const td_rtensor *t, int dim)
{
    return dim == t->dim ? counts(t->each) : td_rows_fixed(t->look[FEW].shape[dim]);
}

static td_rvalue numel(const td_rtensor *t)
{
    int64_t n = td_desc_numel(&t->look[FEW]);
    return t->dim == NO_ROWS || !n ? td_rows_fixed(n) : counts(n / td_rows_of[FEW]);
}

static td_rvalue shape(td_rwalk *w, const td_rtensor *t)
{
    td_rvalue v = td_rows_new_list(w, 0, NULL);
    for (int k = 0; k < t->look[FEW].ndim; k++) td_rows_push(w, v.list, size_of(t, k));
    return v;
}

static td_rvalue size_dim(td_rwalk *w, uint32_t node)
{
    const td_rtensor *t = tensor_in(w, node, 0);
    int dim;
    td_error e = {0};
    if (t->look[FEW].ndim == 0 || td_wrap_dim(int_in(w, node, 1), t->look[FEW].ndim, &dim, &e)) refuse(w, node);
    return size_of(t, dim);
}

/* ---- lists */

static uint32_t place_in(td_rwalk *w, uint32_t node, const td_rlist *l)
{
    int64_t k = int_in(w, node, 1);
    if (k < 0) k += l->n;
    if (k < 0 || k >= l->n) td_rows_no(w, "a list has no such item");
    return (uint32_t)k;
}

/* None where nothing stands; `step` is 1. */
static td_rvalue slice(td_rwalk *w, uint32_t node)
{
    const td_rlist *l = list_in(w, node, 0);
    int64_t ends[2] = {0, l->n};
    for (uint32_t k = 0; k < 2; k++) {
        if (td_rows_in(w, node, k + 1)->kind == TD_T_NONE) continue;
        int64_t at = int_in(w, node, k + 1);
        if (at < 0) at += l->n;
        ends[k] = at < 0 ? 0 : at > l->n ? l->n : at;
    }
    if (int_in(w, node, 3) != 1) refuse(w, node);
    return td_rows_new_list(w, ends[1] > ends[0] ? (uint32_t)(ends[1] - ends[0]) : 0, l->items + ends[0]);
}

static td_rvalue joined(td_rwalk *w, uint32_t node)
{
    const td_rlist *a = list_in(w, node, 0), *b = list_in(w, node, 1);
    td_rvalue v = td_rows_new_list(w, a->n, a->items);
    for (uint32_t k = 0; k < b->n; k++) td_rows_push(w, v.list, b->items[k]);
    return v;
}

static td_rvalue unknown(td_type_kind kind)
{
    return (td_rvalue){(uint8_t)kind, TD_UNKNOWN, {.number = {.kind = TD_L_NONE}}};
}

static td_rvalue compared(uint32_t prim, const td_rvalue *a, const td_rvalue *b);

static td_rvalue contains(td_rwalk *w, uint32_t node)
{
    const td_rlist *l = list_in(w, node, 0);
    const td_rvalue *item = td_rows_in(w, node, 1);
    bool sure = true;
    for (uint32_t k = 0; k < l->n; k++) {
        if (l->items[k].kind != TD_T_INT || item->kind != TD_T_INT) refuse(w, node);
        td_rvalue same = compared(TD_PRIM_EQ_INT, &l->items[k], item);
        if (same.tie == TD_FIXED && same.number.small) return same;
        sure &= same.tie == TD_FIXED;
    }
    td_rows_step(w, l->n);
    return sure ? truth(false) : unknown(TD_T_BOOL);
}

/* In place: by hand, as lists of sizes and dimensions are short. */
static void sort(td_rwalk *w, uint32_t node)
{
    td_rlist *l = list_in(w, node, 0);
    const td_rvalue *down = td_rows_in(w, node, 1);
    bool fixed = down->tie == TD_FIXED;
    for (uint32_t k = 0; k < l->n; k++) fixed &= l->items[k].kind == TD_T_INT && l->items[k].tie == TD_FIXED;
    if (!fixed || l->n > TD_MAX_DIMS) refuse(w, node);
    for (uint32_t k = 1; k < l->n; k++) {
        td_rvalue v = l->items[k];
        uint32_t at = k;
        for (; at &&
               (down->number.small ? l->items[at - 1].number.i < v.number.i : l->items[at - 1].number.i > v.number.i);
             at--)
            l->items[at] = l->items[at - 1];
        l->items[at] = v;
    }
}

static void unpack(td_rwalk *w, uint32_t node)
{
    const td_rlist *l = list_in(w, node, 0);
    if (l->n != w->ir->nodes[node].nout) refuse(w, node);
    for (uint32_t k = 0; k < l->n; k++) td_rows_out(w, node, k, l->items[k]);
}

static td_rvalue packed(td_rwalk *w, uint32_t node)
{
    td_rvalue v = td_rows_new_list(w, 0, NULL);
    for (uint32_t k = 0; k < w->ir->nodes[node].nin; k++) td_rows_push(w, v.list, *td_rows_in(w, node, k));
    return v;
}

/* ---- numbers */

/* Of two of which one counts rows at least: what is known for any number of rows. */
static int order(const td_rvalue *a, const td_rvalue *b)
{
    enum { NOT_KNOWN = 2 };
    if (a->tie == TD_COUNTS && b->tie == TD_COUNTS) return a->number.i < b->number.i ? -1 : a->number.i > b->number.i;
    if (a->tie == TD_COUNTS && b->tie == TD_FIXED && b->number.i < a->number.i) return 1;
    if (b->tie == TD_COUNTS && a->tie == TD_FIXED && a->number.i < b->number.i) return -1;
    return NOT_KNOWN;
}

static td_rvalue compared(uint32_t prim, const td_rvalue *a, const td_rvalue *b)
{
    td_literal in[2] = {a->number, b->number}, out;
    if (a->tie == TD_FIXED && b->tie == TD_FIXED) return td_fold(prim, 2, in, &out) ? number(out) : unknown(TD_T_BOOL);
    int by = order(a, b);
    switch (by > 1 ? TD_PRIM_COUNT : prim) {
    case TD_PRIM_EQ_INT: return truth(by == 0);
    case TD_PRIM_NE_INT: return truth(by != 0);
    case TD_PRIM_LT_INT: return truth(by < 0);
    case TD_PRIM_LE_INT: return truth(by <= 0);
    case TD_PRIM_GT_INT: return truth(by > 0);
    case TD_PRIM_GE_INT: return truth(by >= 0);
    default: return unknown(TD_T_BOOL);
    }
}

static td_rvalue times(const td_rvalue *count, const td_rvalue *by)
{
    int64_t n;
    if (by->tie != TD_FIXED || by->number.i < 0) return unknown(TD_T_INT);
    if (by->number.i == 0) return td_rows_fixed(0);
    return __builtin_mul_overflow(count->number.i, by->number.i, &n) ? unknown(TD_T_INT) : counts(n);
}

static td_rvalue sum(const td_rvalue *a, const td_rvalue *b, int sign)
{
    int64_t n;
    if (a->tie == TD_COUNTS && b->tie == TD_FIXED && b->number.i == 0) return *a;
    if (b->tie == TD_COUNTS && a->tie == TD_FIXED && a->number.i == 0 && sign > 0) return *b;
    if (a->tie != b->tie) return unknown(TD_T_INT);
    if (sign < 0 && a->number.i == b->number.i) return td_rows_fixed(0);
    bool over = sign < 0 ? a->number.i < b->number.i || __builtin_sub_overflow(a->number.i, b->number.i, &n)
                         : __builtin_add_overflow(a->number.i, b->number.i, &n);
    return over ? unknown(TD_T_INT) : counts(n);
}

static td_rvalue quotient(const td_rvalue *a, const td_rvalue *b)
{
    if (a->tie != TD_COUNTS || b->number.i <= 0 || a->number.i % b->number.i) return unknown(TD_T_INT);
    int64_t n = a->number.i / b->number.i;
    return b->tie == TD_COUNTS ? td_rows_fixed(n) : counts(n);
}

/* Of ints of which one counts rows, and none is unknown. */
static td_rvalue of_counts(uint32_t prim, const td_rvalue *a, const td_rvalue *b, td_type_kind kind)
{
    switch (prim) {
    case TD_PRIM_ADD_INT: return sum(a, b, 1);
    case TD_PRIM_SUB_INT: return sum(a, b, -1);
    case TD_PRIM_MUL_INT: return a->tie == TD_COUNTS ? times(a, b) : times(b, a);
    case TD_PRIM_FLOORDIV_INT: return quotient(a, b);
    case TD_PRIM_MAX_INT: return order(a, b) > 1 ? unknown(kind) : order(a, b) < 0 ? *b : *a;
    case TD_PRIM_MIN_INT: return order(a, b) > 1 ? unknown(kind) : order(a, b) < 0 ? *a : *b;
    case TD_PRIM_BOOL_INT: return truth(true);
    default: return kind == TD_T_BOOL ? compared(prim, a, b) : unknown(kind);
    }
}

/* An op of numbers alone. */
static void compute(td_rwalk *w, uint32_t node)
{
    const td_ir_node *n = &w->ir->nodes[node];
    td_literal in[2], out;
    bool fixed = n->nin <= 2, known = fixed;
    if (n->nout != 1 || td_prim_by_id(n->op)->flags & (TD_PRF_MUTATES | TD_PRF_EFFECT | TD_PRF_REACHES))
        refuse(w, node);
    td_type_kind kind = td_type_kind_of(w->ir, w->ir->values[td_ir_out(w->ir, node, 0)].type);
    if (kind != TD_T_INT && kind != TD_T_FLOAT && kind != TD_T_BOOL) refuse(w, node);
    for (uint32_t k = 0; k < n->nin; k++) {
        const td_rvalue *v = td_rows_in(w, node, k);
        fixed &= is_number(v) && v->tie == TD_FIXED;
        known &= is_number(v) && v->tie != TD_UNKNOWN;
        if (fixed) in[k] = v->number;
    }
    td_rvalue made = unknown(kind);
    if (fixed && td_fold(n->op, n->nin, in, &out)) made = number(out);
    else if (known && !fixed) made = of_counts(n->op, td_rows_in(w, node, 0), td_rows_in(w, node, n->nin - 1), kind);
    td_rows_out(w, node, 0, made);
}

/* ---- */

static td_rvalue is_none(const td_rvalue *v)
{
    return truth(v->kind == TD_T_NONE);
}

void td_rows_prim(td_rwalk *w, uint32_t node)
{
    td_rlist *l;
    switch (w->ir->nodes[node].op) {
    case TD_PRIM_CONSTANT: constant(w, node); return;
    case TD_PRIM_LISTCONSTRUCT:
    case TD_PRIM_TUPLECONSTRUCT: td_rows_out(w, node, 0, packed(w, node)); return;
    case TD_PRIM_LISTUNPACK:
    case TD_PRIM_TUPLEUNPACK: unpack(w, node); return;
    case TD_PRIM_UNCHECKED_CAST: td_rows_out(w, node, 0, *td_rows_in(w, node, 0)); return;
    case TD_PRIM_IS_NONE: td_rows_out(w, node, 0, is_none(td_rows_in(w, node, 0))); return;
    case TD_PRIM_SHAPE: td_rows_out(w, node, 0, shape(w, tensor_in(w, node, 0))); return;
    case TD_PRIM_SIZE_DIM: td_rows_out(w, node, 0, size_dim(w, node)); return;
    case TD_PRIM_NUMEL: td_rows_out(w, node, 0, numel(tensor_in(w, node, 0))); return;
    case TD_PRIM_NDIM: td_rows_out(w, node, 0, td_rows_fixed(tensor_in(w, node, 0)->look[FEW].ndim)); return;
    case TD_PRIM_DTYPE:
        td_rows_out(w, node, 0,
                    number((td_literal){.kind = TD_L_DTYPE, .small = tensor_in(w, node, 0)->look[FEW].dtype}));
        return;
    case TD_PRIM_DEVICE:
        td_rows_out(w, node, 0,
                    number((td_literal){.kind = TD_L_DEVICE, .small = tensor_in(w, node, 0)->look[FEW].device}));
        return;
    case TD_PRIM_LEN_LIST: td_rows_out(w, node, 0, td_rows_fixed(list_in(w, node, 0)->n)); return;
    case TD_PRIM_GETITEM_LIST:
        l = list_in(w, node, 0);
        td_rows_out(w, node, 0, l->items[place_in(w, node, l)]);
        return;
    case TD_PRIM_SETITEM_LIST:
        l = list_in(w, node, 0);
        l->items[place_in(w, node, l)] = *td_rows_in(w, node, 2);
        return;
    case TD_PRIM_APPEND: td_rows_push(w, list_in(w, node, 0), *td_rows_in(w, node, 1)); return;
    case TD_PRIM_SORT_INT: sort(w, node); return;
    case TD_PRIM_COPY_LIST:
        l = list_in(w, node, 0);
        td_rows_out(w, node, 0, td_rows_new_list(w, l->n, l->items));
        return;
    case TD_PRIM_SLICE_LIST: td_rows_out(w, node, 0, slice(w, node)); return;
    case TD_PRIM_ADD_LIST: td_rows_out(w, node, 0, joined(w, node)); return;
    case TD_PRIM_CONTAINS_INT: td_rows_out(w, node, 0, contains(w, node)); return;
    default: compute(w, node);
    }
}
