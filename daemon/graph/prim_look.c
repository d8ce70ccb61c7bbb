/* Going through lists to compare what is in them: in, index, count, ==, sort. Texts lie anywhere in memory and may be
 * long, so of a large list a step looks at a part, and the next one goes on there. */
#include "daemon/graph/run.h"

#include <string.h>

/* What a step looks at: two numbers are 1, two texts more, for where they lie and for what is in them. */
enum { A_STEP = 1 << 14, A_TEXT = 16, CHARS = 64 };

static int64_t effort(const td_val *a, const td_val *b)
{
    if (a->kind != TD_T_STR || b->kind != TD_T_STR) return 1;
    return A_TEXT + (a->box->n < b->box->n ? a->box->n : b->box->n) / CHARS;
}

/* So much was looked at of which a step may look at A_STEP; `left` is what it did not. */
static int there_is_more(td_prim_call *c, int64_t left, uint64_t at)
{
    c->work += (uint32_t)(A_STEP - left);
    c->kept->at = at;
    return TD_EXEC_MORE;
}

/* The next item from *at on that is the second argument; false: there is none as far as this step looks. */
static bool find(const td_prim_call *c, uint64_t *at, int64_t *left)
{
    const td_boxed *b = c->in[0]->box;
    for (; *left > 0 && *at < b->n; ++*at) {
        *left -= effort(&b->items[*at], c->in[1]);
        if (td_val_equal(&b->items[*at], c->in[1])) return true;
    }
    return false;
}

static int contains(td_prim_call *c)
{
    uint64_t at = c->kept->at;
    int64_t left = A_STEP;
    bool found = find(c, &at, &left);
    return found || at == c->in[0]->box->n ? td_prim_bool(c, found) : there_is_more(c, left, at);
}

static int index_of(td_prim_call *c)
{
    uint64_t at = c->kept->at;
    int64_t left = A_STEP;
    if (find(c, &at, &left)) return td_prim_int(c, (int64_t)at);
    if (at < c->in[0]->box->n) return there_is_more(c, left, at);
    return td_fail(c->e, TD_E_INVALID, "the value is not in the list");
}

static int count(td_prim_call *c)
{
    uint64_t at = c->kept->at;
    int64_t left = A_STEP, n = c->kept->made.kind == TD_T_INT ? c->kept->made.i : 0;
    for (; find(c, &at, &left); at++) n++;
    if (at == c->in[0]->box->n) return td_prim_int(c, n);
    c->kept->made = td_val_int(n);
    return there_is_more(c, left, at);
}

/* Are two lists equal? */
static int compare(td_prim_call *c, bool wanted)
{
    const td_boxed *a = c->in[0]->box, *b = c->in[1]->box;
    uint64_t at = c->kept->at;
    int64_t left = A_STEP;
    if (a->n != b->n) return td_prim_bool(c, !wanted);
    for (; at < a->n && left > 0; at++) {
        left -= effort(&a->items[at], &b->items[at]);
        if (!td_val_equal(&a->items[at], &b->items[at])) return td_prim_bool(c, !wanted);
    }
    return at == a->n ? td_prim_bool(c, wanted) : there_is_more(c, left, at);
}

static int eq(td_prim_call *c)
{
    return compare(c, true);
}

static int ne(td_prim_call *c)
{
    return compare(c, false);
}

/* ---- sorting
 *
 * Runs of the list are in order; by pairs they become runs of twice their length, each pair first in a list of room and
 * then, when it is whole, where it was. So whenever the run of the program ends, the list is one in some order. */

/* How far it is: runs of 1 << run; the pair at `at`, of which so many of the first and of the second have gone. */
typedef struct sorting {
    uint64_t run : 6, at : 19, i : 19, j : 19;
} sorting;
_Static_assert(sizeof(sorting) == sizeof(uint64_t) && TD_VAL_ITEMS <= 1 << 16, "it is kept as a number");

/* From the left; equal ones stay in their order, also when the largest come first. */
static void merge(const td_val *a, size_t na, const td_val *b, size_t nb, td_val *room, int sign, sorting *s,
                  int64_t *left)
{
    size_t i = s->i, j = s->j;
    while (*left > 0 && i < na && j < nb) {
        *left -= effort(a + i, b + j);
        bool second = sign * td_val_order(b + j, a + i) < 0;
        room[i + j] = second ? b[j] : a[i];
        if (second) j++;
        else i++;
    }
    s->i = i, s->j = j;
}

/* One pair; false: not to its end. */
static bool merge_pair(td_boxed *list, td_val *room, int sign, sorting *s, int64_t *left)
{
    enum { COPIED = 8 }; /* items weigh as much as one that is compared */
    size_t run = (size_t)1 << s->run, behind = list->n - s->at;
    size_t na = behind < run ? behind : run, nb = behind - na < run ? behind - na : run;
    td_val *a = list->items + s->at, *b = a + na;
    merge(a, na, b, nb, room, sign, s, left);
    size_t i = s->i, j = s->j;
    int64_t copied = nb ? (int64_t)((na + j) / COPIED) : 0; /* one run alone stays where it is */
    if ((i < na && j < nb) || *left < copied) return false;
    if (nb) {
        memcpy(room + i + j, a + i, (na - i) * sizeof *a);
        memcpy(a, room, (na + j) * sizeof *a); /* what is left of the second lies there */
    }
    *left -= copied;
    s->at += 2 * run;
    s->i = s->j = 0;
    return true;
}

static int sort(td_prim_call *c)
{
    td_boxed *list = c->in[0]->box;
    td_val *room = &c->kept->made;
    sorting s;
    int64_t left = A_STEP;
    uint64_t at = 0;
    memcpy(&s, &c->kept->at, sizeof s);
    if (room->kind == TD_T_NONE) {
        int rc = td_val_box(c->purse, TD_T_LIST, list->n, room, c->e);
        if (rc) return rc;
        room->box->n = 0; /* what is in it is the list's */
    }
    for (; (size_t)1 << s.run < list->n; s.run++, s.at = 0)
        while (s.at < list->n)
            if (left <= 0 || !merge_pair(list, room->box->items, c->in[1]->i ? -1 : 1, &s, &left)) {
                memcpy(&at, &s, sizeof at);
                return there_is_more(c, left, at);
            }
    c->work += (uint32_t)(A_STEP - left);
    return TD_OK;
}

td_prim_fn *const td_prims_look[TD_PRIM_COUNT] = {
    [TD_PRIM_CONTAINS_INT] = contains,  [TD_PRIM_CONTAINS_FLOAT] = contains,
    [TD_PRIM_CONTAINS_BOOL] = contains, [TD_PRIM_CONTAINS_LIST_STR] = contains,
    [TD_PRIM_INDEX_INT] = index_of,     [TD_PRIM_INDEX_FLOAT] = index_of,
    [TD_PRIM_INDEX_STR] = index_of,     [TD_PRIM_COUNT_INT] = count,
    [TD_PRIM_COUNT_FLOAT] = count,      [TD_PRIM_COUNT_LIST_STR] = count,
    [TD_PRIM_EQ_INT_LIST] = eq,         [TD_PRIM_EQ_FLOAT_LIST] = eq,
    [TD_PRIM_EQ_BOOL_LIST] = eq,        [TD_PRIM_EQ_STR_LIST] = eq,
    [TD_PRIM_NE_INT_LIST] = ne,         [TD_PRIM_NE_FLOAT_LIST] = ne,
    [TD_PRIM_NE_BOOL_LIST] = ne,        [TD_PRIM_NE_STR_LIST] = ne,
    [TD_PRIM_SORT_INT] = sort,          [TD_PRIM_SORT_FLOAT] = sort,
    [TD_PRIM_SORT_STR] = sort,
};
