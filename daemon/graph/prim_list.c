/* What is done to lists. A list that two names have is one list, so what is written to it both see. */
#include "daemon/graph/run.h"

#include <stdlib.h>
#include <string.h>

static int len(td_prim_call *c)
{
    return td_prim_int(c, c->in[0]->box->n);
}

/* A place in the list, a negative one counted from the end; -1: it is none, and that is told. */
static int64_t place(td_prim_call *c, const td_boxed *b, int64_t index)
{
    int64_t at = index < 0 ? index + b->n : index;
    if (at >= 0 && at < b->n) return at;
    td_fail(c->e, TD_E_INVALID, "list index out of range: %lld of a list of %u", (long long)index, b->n);
    return -1;
}

static int getitem(td_prim_call *c)
{
    const td_boxed *b = c->in[0]->box;
    int64_t at = place(c, b, c->in[1]->i);
    if (at < 0) return c->e->code;
    c->out[0] = td_val_ref(b->items[at]);
    return TD_OK;
}

static int setitem(td_prim_call *c)
{
    td_boxed *b = c->in[0]->box;
    int64_t at = place(c, b, c->in[1]->i);
    if (at < 0) return c->e->code;
    td_val old = b->items[at];
    b->items[at] = td_val_ref(*c->in[2]);
    td_val_drop(c->purse, &old);
    return TD_OK;
}

/* Take the item out. */
static td_val taken(td_boxed *b, int64_t at)
{
    td_val v = b->items[at];
    memmove(b->items + at, b->items + at + 1, (size_t)(b->n - at - 1) * sizeof v);
    b->n--;
    return v;
}

static int pop(td_prim_call *c)
{
    td_boxed *b = c->in[0]->box;
    int64_t at = place(c, b, c->in[1]->i);
    if (at < 0) return c->e->code;
    c->out[0] = taken(b, at);
    return TD_OK;
}

static int delitem(td_prim_call *c)
{
    td_boxed *b = c->in[0]->box;
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
    td_boxed *b = c->in[0]->box;
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

/* ---- items of one list in another: of large ones some thousands a step */

enum { A_STEP = 8192 };

/* Where the items come from: those of `first` from `from` on by `step`, again and again; or, behind it, `then`. */
typedef struct source {
    const td_boxed *first, *then;
    int64_t from, step;
} source;

static const td_val *item_of(const source *s, uint32_t k)
{
    if (s->then && k >= s->first->n) return &s->then->items[k - s->first->n];
    return &s->first->items[(s->from + k * s->step) % s->first->n];
}

/* How far this step goes. */
static uint32_t some_more(const td_prim_call *c, uint64_t n)
{
    return (uint32_t)(n - c->kept->at < A_STEP ? n : c->kept->at + A_STEP);
}

/* A new list of so many. */
static int made_of(td_prim_call *c, uint64_t n, const source *from)
{
    td_val *made = &c->kept->made;
    uint64_t more = TD_VAL_ITEMS + 1; /* are refused */
    int rc =
        made->kind == TD_T_LIST ? TD_OK : td_val_box(c->purse, TD_T_LIST, (uint32_t)(n < more ? n : more), made, c->e);
    if (rc) return rc;
    uint32_t k = (uint32_t)c->kept->at, until = some_more(c, n);
    for (; k < until; k++) made->box->items[k] = td_val_ref(*item_of(from, k));
    c->kept->at = k;
    if (k < n) return TD_EXEC_MORE;
    c->out[0] = *made;
    *made = td_val_none();
    return TD_OK;
}

static int copy(td_prim_call *c)
{
    const td_boxed *b = c->in[0]->box;
    return made_of(c, b->n, &(source){.first = b, .step = 1});
}

static int add(td_prim_call *c)
{
    const td_boxed *a = c->in[0]->box, *b = c->in[1]->box;
    return made_of(c, (uint64_t)a->n + b->n, &(source){.first = a, .then = b, .step = 1});
}

static int mul(td_prim_call *c)
{
    const td_boxed *b = c->in[0]->box;
    uint64_t times = c->in[1]->i < 0 ? 0 : (uint64_t)c->in[1]->i, more = TD_VAL_ITEMS + 1;
    return made_of(c, b->n * (times < more ? times : more), &(source){.first = b, .step = 1});
}

/* All items of one at the end of another, which may be the same: as many as there are at the first step. */
static int extend(td_prim_call *c)
{
    td_boxed *to = c->in[0]->box;
    const td_boxed *from = c->in[1]->box;
    td_val *n = &c->kept->made;
    if (n->kind == TD_T_NONE) {
        int rc = td_val_room(c->purse, to, from->n, c->e);
        if (rc) return rc;
        *n = td_val_int(from->n);
    }
    uint32_t until = some_more(c, (uint64_t)n->i);
    for (; c->kept->at < until; c->kept->at++) td_val_push(to, td_val_ref(from->items[c->kept->at]));
    return until < n->i ? TD_EXEC_MORE : TD_OK;
}

static int clear(td_prim_call *c)
{
    enum { FREED = 1024 };
    td_boxed *b = c->in[0]->box;
    for (int k = 0; b->n && k < FREED; k++) td_val_drop(c->purse, &b->items[--b->n]);
    return b->n ? TD_EXEC_MORE : TD_OK;
}

static int reverse(td_prim_call *c)
{
    td_boxed *b = c->in[0]->box;
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
    const td_boxed *b = c->in[0]->box;
    int64_t from, count, step;
    int rc = td_prim_slice(c, b->n, &from, &count, &step);
    return rc ? rc : made_of(c, (uint64_t)count, &(source){.first = b, .from = from, .step = step});
}

/* ---- all of it */

static int extreme(td_prim_call *c, int sign)
{
    const td_boxed *b = c->in[0]->box;
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
    const td_boxed *b = c->in[0]->box;
    int64_t sum = 0;
    for (uint32_t k = 0; k < b->n; k++)
        if (__builtin_add_overflow(sum, b->items[k].i, &sum))
            return td_fail(c->e, TD_E_INVALID, "the sum does not fit into an int of 64 bits");
    return td_prim_int(c, sum);
}

static int sum_float(td_prim_call *c)
{
    const td_boxed *b = c->in[0]->box;
    double sum = 0;
    for (uint32_t k = 0; k < b->n; k++) sum += b->items[k].re;
    return td_prim_float(c, sum);
}

td_prim_fn *const td_prims_list[TD_PRIM_COUNT] = {
    [TD_PRIM_LEN_LIST] = len,         [TD_PRIM_GETITEM_LIST] = getitem, [TD_PRIM_SETITEM_LIST] = setitem,
    [TD_PRIM_DELITEM_LIST] = delitem, [TD_PRIM_POP_LIST] = pop,         [TD_PRIM_APPEND] = append,
    [TD_PRIM_INSERT] = insert,        [TD_PRIM_EXTEND] = extend,        [TD_PRIM_COPY_LIST] = copy,
    [TD_PRIM_ADD_LIST] = add,         [TD_PRIM_MUL_LIST] = mul,         [TD_PRIM_CLEAR_LIST] = clear,
    [TD_PRIM_REVERSE] = reverse,      [TD_PRIM_SLICE_LIST] = slice,     [TD_PRIM_MIN_INT_LIST] = min,
    [TD_PRIM_MIN_FLOAT_LIST] = min,   [TD_PRIM_MAX_INT_LIST] = max,     [TD_PRIM_MAX_FLOAT_LIST] = max,
    [TD_PRIM_SUM_INT] = sum_int,      [TD_PRIM_SUM_FLOAT] = sum_float,
};
