/* What is done to lists. A list that two names have is one list, so what is written to it both see. */
#include "daemon/graph/run.h"

#include <stdlib.h>
#include <string.h>

static int len(td_prim_call *c)
{
    return td_prim_int(c, c->in[0]->box->n);
}

/* A place in the list, a negative one counted from the end; -1: it is none, and that is told. */
static int64_t place(td_prim_call *c, const td_box *b, int64_t index)
{
    int64_t at = index < 0 ? index + b->n : index;
    if (at >= 0 && at < b->n) return at;
    td_fail(c->e, TD_E_INVALID, "list index out of range: %lld of a list of %u", (long long)index, b->n);
    return -1;
}

static int getitem(td_prim_call *c)
{
    const td_box *b = c->in[0]->box;
    int64_t at = place(c, b, c->in[1]->i);
    if (at < 0) return c->e->code;
    c->out[0] = td_val_ref(b->items[at]);
    return TD_OK;
}

static int setitem(td_prim_call *c)
{
    td_box *b = c->in[0]->box;
    int64_t at = place(c, b, c->in[1]->i);
    if (at < 0) return c->e->code;
    td_val old = b->items[at];
    b->items[at] = td_val_ref(*c->in[2]);
    td_val_drop(c->purse, &old);
    return TD_OK;
}

/* Take the item out. */
static td_val taken(td_box *b, int64_t at)
{
    td_val v = b->items[at];
    memmove(b->items + at, b->items + at + 1, (size_t)(b->n - at - 1) * sizeof v);
    b->n--;
    return v;
}

static int pop(td_prim_call *c)
{
    td_box *b = c->in[0]->box;
    int64_t at = place(c, b, c->in[1]->i);
    if (at < 0) return c->e->code;
    c->out[0] = taken(b, at);
    return TD_OK;
}

static int delitem(td_prim_call *c)
{
    td_box *b = c->in[0]->box;
    int64_t at = place(c, b, c->in[1]->i);
    if (at < 0) return c->e->code;
    td_val old = taken(b, at);
    td_val_drop(c->purse, &old);
    return TD_OK;
}

static int append(td_prim_call *c)
{
    int rc = td_val_room(c->purse, c->in[0]->box, 1, c->e);
    if (!rc) td_val_push(c->in[0]->box, td_val_ref(*c->in[1]));
    return rc;
}

static int insert(td_prim_call *c)
{
    td_box *b = c->in[0]->box;
    int64_t n = b->n, at = c->in[1]->i < 0 ? c->in[1]->i + n : c->in[1]->i;
    if (at < 0) at = 0;
    if (at > n) at = n;
    int rc = td_val_room(c->purse, b, 1, c->e);
    if (rc) return rc;
    td_val_push(b, td_val_none());
    memmove(b->items + at + 1, b->items + at, (size_t)(n - at) * sizeof *b->items);
    b->items[at] = td_val_ref(*c->in[2]);
    return TD_OK;
}

/* All items of one at the end of another, which may be the same. */
static int add_items(td_prim_call *c, td_box *to, const td_box *from)
{
    uint32_t n = from->n;
    int rc = td_val_room(c->purse, to, n, c->e);
    for (uint32_t k = 0; k < n && !rc; k++) td_val_push(to, td_val_ref(from->items[k]));
    return rc;
}

static int extend(td_prim_call *c)
{
    return add_items(c, c->in[0]->box, c->in[1]->box);
}

static int copied(td_prim_call *c, const td_box *from)
{
    int rc = td_val_box(c->purse, TD_T_LIST, from->n, c->out, c->e);
    for (uint32_t k = 0; k < from->n && !rc; k++) c->out->box->items[k] = td_val_ref(from->items[k]);
    return rc;
}

static int copy(td_prim_call *c)
{
    return copied(c, c->in[0]->box);
}

static int add(td_prim_call *c)
{
    int rc = copied(c, c->in[0]->box);
    return rc ? rc : add_items(c, c->out->box, c->in[1]->box);
}

static int mul(td_prim_call *c)
{
    const td_box *from = c->in[0]->box;
    uint64_t times = c->in[1]->i < 0 ? 0 : (uint64_t)c->in[1]->i, more = TD_VAL_ITEMS + 1;
    uint64_t n = from->n * (times < more ? times : more);
    int rc = td_val_box(c->purse, TD_T_LIST, (uint32_t)(n < more ? n : more), c->out, c->e); /* more are refused */
    for (uint32_t k = 0; k < n && !rc; k++) c->out->box->items[k] = td_val_ref(from->items[k % from->n]);
    return rc;
}

static int clear(td_prim_call *c)
{
    td_box *b = c->in[0]->box;
    while (b->n) td_val_drop(c->purse, &b->items[--b->n]);
    return TD_OK;
}

static int reverse(td_prim_call *c)
{
    td_box *b = c->in[0]->box;
    for (uint32_t i = 0, j = b->n; i + 1 < j; i++) {
        td_val v = b->items[i];
        b->items[i] = b->items[--j];
        b->items[j] = v;
    }
    return TD_OK;
}

/* ---- slices */

static int64_t clamped(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* An end of a slice as Python has it; `none` where nothing stands. */
static int64_t bound(const td_val *v, int64_t n, int64_t step, int64_t none)
{
    if (v->kind == TD_T_NONE) return none;
    int64_t at = v->i < 0 ? (v->i < -n ? -1 : v->i + n) : v->i;
    return step > 0 ? clamped(at, 0, n) : clamped(at, -1, n - 1);
}

int td_prim_slice(td_prim_call *c, int64_t n, int64_t *from, int64_t *count, int64_t *step)
{
    int64_t by = c->in[3]->i;
    if (by == 0) return td_fail(c->e, TD_E_INVALID, "slice step cannot be zero");
    if (by < -n - 1) by = -n - 1;
    if (by > n + 1) by = n + 1;
    *from = bound(c->in[1], n, by, by > 0 ? 0 : n - 1);
    int64_t to = bound(c->in[2], n, by, by > 0 ? n : -1);
    *count = 0;
    if (by > 0) *count = (to - *from + by - 1) / by;
    if (by < 0) *count = (*from - to - by - 1) / -by;
    if (*count < 0) *count = 0;
    *step = by;
    return TD_OK;
}

static int slice(td_prim_call *c)
{
    const td_box *b = c->in[0]->box;
    int64_t from, count, step;
    int rc = td_prim_slice(c, b->n, &from, &count, &step);
    if (!rc) rc = td_val_box(c->purse, TD_T_LIST, (uint32_t)count, c->out, c->e);
    for (int64_t k = 0; k < count && !rc; k++) c->out->box->items[k] = td_val_ref(b->items[from + k * step]);
    return rc;
}

/* ---- looking for something */

int td_prim_texts(td_prim_call *c, const td_val *list)
{
    enum { MOST = 2 << 20 }; /* bytes */
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < list->box->n; k++)
        if (list->box->items[k].kind == TD_T_STR) bytes += list->box->items[k].box->n;
    c->work += (uint32_t)(bytes >> 6 < UINT32_MAX ? bytes >> 6 : UINT32_MAX);
    if (bytes <= MOST) return TD_OK;
    return td_fail(c->e, TD_E_INVALID, "the texts of the list are too long to be compared: %llu bytes",
                   (unsigned long long)bytes);
}

static int64_t find(const td_prim_call *c)
{
    const td_box *b = c->in[0]->box;
    for (uint32_t k = 0; k < b->n; k++)
        if (td_val_equal(&b->items[k], c->in[1])) return k;
    return -1;
}

static int contains(td_prim_call *c)
{
    int rc = td_prim_texts(c, c->in[0]);
    if (!rc) c->out[0] = td_val_bool(find(c) >= 0);
    return rc;
}

static int index_of(td_prim_call *c)
{
    int rc = td_prim_texts(c, c->in[0]);
    int64_t at = rc ? -1 : find(c);
    if (rc) return rc;
    if (at < 0) return td_fail(c->e, TD_E_INVALID, "the value is not in the list");
    return td_prim_int(c, at);
}

static int count(td_prim_call *c)
{
    const td_box *b = c->in[0]->box;
    int64_t n = 0;
    int rc = td_prim_texts(c, c->in[0]);
    if (rc) return rc;
    for (uint32_t k = 0; k < b->n; k++) n += td_val_equal(&b->items[k], c->in[1]);
    return td_prim_int(c, n);
}

/* ---- all of it */

static int extreme(td_prim_call *c, int sign)
{
    const td_box *b = c->in[0]->box;
    if (b->n == 0) return td_fail(c->e, TD_E_INVALID, "min() or max() of an empty list");
    uint32_t best = 0;
    for (uint32_t k = 1; k < b->n; k++)
        if (sign * td_val_order(&b->items[k], &b->items[best]) < 0) best = k;
    c->out[0] = b->items[best];
    return TD_OK;
}

static int min(td_prim_call *c)
{
    return extreme(c, 1);
}

static int max(td_prim_call *c)
{
    return extreme(c, -1);
}

static int sum_int(td_prim_call *c)
{
    const td_box *b = c->in[0]->box;
    int64_t sum = 0;
    for (uint32_t k = 0; k < b->n; k++)
        if (__builtin_add_overflow(sum, b->items[k].i, &sum))
            return td_fail(c->e, TD_E_INVALID, "the sum does not fit into an int of 64 bits");
    return td_prim_int(c, sum);
}

static int sum_float(td_prim_call *c)
{
    const td_box *b = c->in[0]->box;
    double sum = 0;
    for (uint32_t k = 0; k < b->n; k++) sum += b->items[k].re;
    return td_prim_float(c, sum);
}

/* From the left; equal ones stay in their order, also when the largest come first. */
static void merge(td_val *to, const td_val *a, size_t na, const td_val *b, size_t nb, int sign)
{
    while (na && nb) {
        bool second = sign * td_val_order(b, a) < 0;
        *to++ = second ? *b++ : *a++;
        if (second) nb--;
        else na--;
    }
    memcpy(to, a, na * sizeof *a);
    memcpy(to + na, b, nb * sizeof *b);
}

/* Runs of the list are in order; by pairs they become runs of twice their length. */
static void merge_runs(td_val *items, td_val *room, size_t n, size_t run, int sign)
{
    for (size_t at = 0; at < n; at += 2 * run) {
        size_t na = n - at < run ? n - at : run, nb = n - at - na < run ? n - at - na : run;
        merge(room + at, items + at, na, items + at + na, nb, sign);
    }
    memcpy(items, room, n * sizeof *items);
}

/* A large list takes several steps, between which it is in some order. */
static int sort(td_prim_call *c)
{
    enum { A_STEP = 1 << 16 }; /* items that are moved */
    td_box *b = c->in[0]->box;
    size_t n = b->n, run = c->kept->at ? c->kept->at : 1, bytes = (n + 1) * sizeof(td_val), moved = 0;
    size_t each = n && b->items[0].kind == TD_T_STR ? 8 * n : n; /* a look at two texts takes its time */
    int rc = td_prim_texts(c, c->in[0]);
    if (!rc) rc = td_purse_take(c->purse, bytes, c->e);
    if (rc) return rc;
    td_val *room = malloc(bytes);
    if (!room) {
        td_purse_give(c->purse, bytes);
        return td_no_memory(c->e, "to sort a list of %zu items", n);
    }
    for (; run < n && moved < A_STEP; run *= 2, moved += each) merge_runs(b->items, room, n, run, c->in[1]->i ? -1 : 1);
    free(room);
    td_purse_give(c->purse, bytes);
    c->work += (uint32_t)moved;
    c->kept->at = run;
    return run < n ? TD_EXEC_MORE : TD_OK;
}

td_prim_fn *const td_prims_list[TD_PRIM_COUNT] = {
    [TD_PRIM_LEN_LIST] = len,           [TD_PRIM_GETITEM_LIST] = getitem,
    [TD_PRIM_SETITEM_LIST] = setitem,   [TD_PRIM_DELITEM_LIST] = delitem,
    [TD_PRIM_POP_LIST] = pop,           [TD_PRIM_APPEND] = append,
    [TD_PRIM_INSERT] = insert,          [TD_PRIM_EXTEND] = extend,
    [TD_PRIM_COPY_LIST] = copy,         [TD_PRIM_ADD_LIST] = add,
    [TD_PRIM_MUL_LIST] = mul,           [TD_PRIM_CLEAR_LIST] = clear,
    [TD_PRIM_REVERSE] = reverse,        [TD_PRIM_SLICE_LIST] = slice,
    [TD_PRIM_CONTAINS_INT] = contains,  [TD_PRIM_CONTAINS_FLOAT] = contains,
    [TD_PRIM_CONTAINS_BOOL] = contains, [TD_PRIM_CONTAINS_LIST_STR] = contains,
    [TD_PRIM_INDEX_INT] = index_of,     [TD_PRIM_INDEX_FLOAT] = index_of,
    [TD_PRIM_INDEX_STR] = index_of,     [TD_PRIM_COUNT_INT] = count,
    [TD_PRIM_COUNT_FLOAT] = count,      [TD_PRIM_COUNT_LIST_STR] = count,
    [TD_PRIM_MIN_INT_LIST] = min,       [TD_PRIM_MIN_FLOAT_LIST] = min,
    [TD_PRIM_MAX_INT_LIST] = max,       [TD_PRIM_MAX_FLOAT_LIST] = max,
    [TD_PRIM_SUM_INT] = sum_int,        [TD_PRIM_SUM_FLOAT] = sum_float,
    [TD_PRIM_SORT_INT] = sort,          [TD_PRIM_SORT_FLOAT] = sort,
    [TD_PRIM_SORT_STR] = sort,
};
