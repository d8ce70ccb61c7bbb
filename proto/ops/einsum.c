/* einsum: sums of products by Einstein's convention, put together from diagonals, sums and products of matrices.
 *
 * Written by hand over the builder of formula.h, as the language of formulas knows no texts. A label is a number: those
 * of the letters in their order, A to z, then those of the dimensions that '...' stands for, from the last. The
 * operands are contracted from left to right; of each is kept what the result, or a later operand, still names.
 * Invariant: the labels of a value are all different, and as many as its dimensions. */
#include "proto/ops/formula.h"

#include "proto/ops/opid.h"
#include <string.h>

enum { LETTERS = 52, LABELS = LETTERS + TD_MAX_DIMS };
#define EVERY UINT64_MAX /* the set of all labels */

typedef struct labels {
    int n;
    uint8_t at[LABELS];
} labels;

/* What stands between two commas. */
typedef struct term {
    labels labels; /* of letters: those in front of '...', then those behind it */
    int dots;      /* where '...' stands among them; -1: nowhere */
} term;

typedef struct operand {
    td_fval x;
    labels labels;
} operand;

typedef struct sum {
    td_fx *f;
    const char *at; /* what is read of the equation */
    operand *operands;
    int n, widest; /* the most dimensions that '...' stands for */
    labels out;
    int64_t size[LABELS];
} sum;

/* ---- labels ---- */

static uint64_t bit(int label)
{
    return UINT64_C(1) << label;
}

static uint64_t set_of(const labels *l)
{
    uint64_t set = 0;
    for (int k = 0; k < l->n; k++) set |= bit(l->at[k]);
    return set;
}

static int place_from(const labels *l, int label, int k)
{
    while (k < l->n && l->at[k] != label) k++;
    return k;
}

static int place_of(const labels *l, int label)
{
    return place_from(l, label, 0);
}

/* As an error names it. */
static const char *name_of(td_fx *f, int label)
{
    if (label >= LETTERS) return "...";
    char *name = td_fx_alloc(f, 2);
    name[0] = (char)(label < 26 ? 'A' + label : 'a' + label - 26);
    name[1] = 0;
    return name;
}

static void append(labels *l, int label)
{
    l->at[l->n++] = (uint8_t)label;
}

/* Those of `from` that are in a set, behind those that are there. */
static void append_all(labels *l, const labels *from, uint64_t set)
{
    for (int k = 0; k < from->n; k++)
        if (set & bit(from->at[k])) append(l, from->at[k]);
}

/* ---- the equation ---- */

/* The label of a letter, or -1. */
static int letter(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    return c >= 'a' && c <= 'z' ? 26 + c - 'a' : -1;
}

static void skip_spaces(sum *s)
{
    while (*s->at == ' ') s->at++;
}

static bool take_dots(sum *s, term *t)
{
    if (strncmp(s->at, "...", 3) != 0 || t->dots >= 0) return false;
    t->dots = t->labels.n;
    s->at += 3;
    return true;
}

/* Up to a comma, an arrow, or the end. More letters than the alphabets have are refused like what is no letter. */
static void take_term(sum *s, term *t)
{
    t->labels.n = 0, t->dots = -1;
    for (skip_spaces(s); *s->at && *s->at != ',' && strncmp(s->at, "->", 2) != 0; skip_spaces(s)) {
        int label = letter(*s->at);
        if (label < 0 && take_dots(s, t)) continue;
        if (label < 0 || t->labels.n == LETTERS) {
            bool shown = *s->at > ' ' && *s->at < 127;
            td_fx_fail(s->f, TD_E_INVALID, "'%c' in the equation: subscripts are letters and one '...'",
                       shown ? *s->at : '?');
            return;
        }
        append(&t->labels, label);
        s->at++;
    }
}

/* The labels of a term whose '...' stands for `room` dimensions. */
static void spread(const term *t, int room, labels *l)
{
    l->n = 0;
    for (int k = 0; k <= t->labels.n; k++) {
        for (int d = room - 1; k == t->dots && d >= 0; d--) append(l, LETTERS + d);
        if (k < t->labels.n) append(l, t->labels.at[k]);
    }
}

static void take_operand(sum *s, int k)
{
    term t;
    take_term(s, &t);
    int ndim = td_fx_meta_item(s->f, k).ndim, room = ndim - t.labels.n;
    if (s->f->failed) return;
    if (room < 0 || (room > 0 && t.dots < 0)) {
        td_fx_fail(s->f, TD_E_SHAPE, "the equation names %d dimensions%s of operand %d, which has %d", t.labels.n,
                   t.dots < 0 ? "" : " beside '...'", k, ndim);
        return;
    }
    spread(&t, room, &s->operands[k].labels);
    if (room > s->widest) s->widest = room;
}

static void take_operands(sum *s)
{
    for (int k = 0; k < s->n && !s->f->failed; k++) {
        take_operand(s, k);
        bool more = *s->at == ',';
        if (s->f->failed || more == (k + 1 < s->n)) s->at += more;
        else
            td_fx_fail(s->f, TD_E_INVALID, "%s operands were given than the equation has: %d", more ? "fewer" : "more",
                       s->n);
    }
}

/* Without an arrow: the dimensions of '...', then the letters that are there once, in their order. */
static void imply_result(sum *s)
{
    uint8_t count[LABELS] = {0};
    for (int k = 0; k < s->n; k++)
        for (int i = 0; i < s->operands[k].labels.n; i++) {
            uint8_t *c = &count[s->operands[k].labels.at[i]];
            *c += *c < 2;
        }
    for (int d = s->widest - 1; d >= 0; d--) append(&s->out, LETTERS + d);
    for (int label = 0; label < LETTERS; label++)
        if (count[label] == 1) append(&s->out, label);
}

static void take_result(sum *s)
{
    term t;
    s->at += 2;
    take_term(s, &t);
    if (!s->f->failed && *s->at) td_fx_fail(s->f, TD_E_INVALID, "the result is one term, the last of the equation");
    if (s->f->failed) return;
    uint64_t known = 0, seen = 0;
    for (int k = 0; k < s->n; k++) known |= set_of(&s->operands[k].labels);
    for (int k = 0; k < t.labels.n; k++) {
        int label = t.labels.at[k];
        bool twice = seen & bit(label);
        if (twice || !(known & bit(label))) {
            td_fx_fail(s->f, TD_E_INVALID, "subscript '%s' of the result is %s", name_of(s->f, label),
                       twice ? "there twice" : "in no operand");
            return;
        }
        seen |= bit(label);
    }
    spread(&t, s->widest, &s->out);
}

/* ---- sizes ---- */

/* A size of 1 fits any other, but not beside it in one operand. */
static void note_sizes(sum *s, int k)
{
    const labels *l = &s->operands[k].labels;
    const int64_t *shape = td_fx_meta_item(s->f, k).shape;
    uint64_t seen = 0;
    for (int i = 0; i < l->n; i++) {
        int label = l->at[i];
        int64_t size = shape[i], known = s->size[label];
        bool here = seen & bit(label);
        if (here) known = shape[place_of(l, label)];
        if (size != known && (here || (size != 1 && known >= 0 && known != 1))) {
            td_fx_fail(s->f, TD_E_SHAPE, "subscript '%s' has size %lld for operand %d, but size %lld %s",
                       name_of(s->f, label), (long long)size, k, (long long)known,
                       here ? "in the same operand" : "before it");
            return;
        }
        if (s->size[label] < 0 || s->size[label] == 1) s->size[label] = size;
        seen |= bit(label);
    }
}

/* ---- parts ---- */

static td_fval view(td_fx *f, unsigned op, td_fval x, td_fints dims)
{
    td_attrs a;
    td_attrs_init(&a);
    td_fx_push_ints(f, &a, dims);
    return td_fx_op(f, op, 1, &x, &a);
}

/* The places of labels that are in a set. */
static td_fints places_in(td_fx *f, const labels *l, uint64_t set)
{
    td_fints dims = td_fi_new(f, l->n);
    dims.n = 0;
    for (int k = 0; k < l->n; k++)
        if (set & bit(l->at[k])) dims.v[dims.n++] = k;
    return dims;
}

static void leave_out(labels *l, uint64_t set)
{
    labels rest = {0};
    append_all(&rest, l, ~set);
    *l = rest;
}

static void remove_at(labels *l, int k)
{
    l->n--;
    memmove(l->at + k, l->at + k + 1, (size_t)(l->n - k));
}

/* A label that is there twice is a diagonal, which becomes the last dimension. */
static void take_diagonals(td_fx *f, operand *o)
{
    labels *l = &o->labels;
    for (int i = 0; i < l->n;) {
        int label = l->at[i], j = place_from(l, label, i + 1);
        if (j == l->n) {
            i++;
            continue;
        }
        td_attrs a;
        td_attrs_init(&a);
        td_attrs_int(&a, 0), td_attrs_int(&a, i), td_attrs_int(&a, j);
        o->x = td_fx_op(f, TD_OP_DIAGONAL, 1, &o->x, &a);
        remove_at(l, j), remove_at(l, i);
        append(l, label);
    }
}

/* As sum() has it: whole numbers as int64. In its own dtype where a matrix product follows, whose sides have one. */
static void sum_away(td_fx *f, operand *o, uint64_t set, bool multiplied)
{
    td_attrs a;
    set &= set_of(&o->labels);
    if (!set || f->failed) return;
    td_attrs_init(&a);
    td_fx_push_ints(f, &a, places_in(f, &o->labels, set));
    td_attrs_bool(&a, false);
    if (multiplied) td_attrs_dtype(&a, (td_dtype)td_fx_meta(f, o->x).dtype);
    else td_attrs_none(&a);
    o->x = td_fx_op(f, TD_OP_SUM, 1, &o->x, &a);
    leave_out(&o->labels, set);
}

/* A size of 1 where the other operand has more: it broadcasts, as if the label were not there. */
static void drop_ones(td_fx *f, operand *o, const operand *other)
{
    uint64_t ones = 0;
    if (f->failed) return;
    td_fmeta mine = td_fx_meta(f, o->x), its = td_fx_meta(f, other->x);
    for (int k = 0; k < o->labels.n; k++) {
        int there = place_of(&other->labels, o->labels.at[k]);
        if (mine.shape[k] == 1 && there < other->labels.n && its.shape[there] != 1) ones |= bit(o->labels.at[k]);
    }
    if (ones) o->x = view(f, TD_OP_SQUEEZE, o->x, places_in(f, &o->labels, ones));
    leave_out(&o->labels, ones);
}

/* With the dimensions in this order of all of its labels. */
static td_fval in_order(td_fx *f, const operand *o, const labels *order)
{
    td_fints dims = td_fi_new(f, order->n);
    bool same = true;
    for (int k = 0; k < order->n; k++) same &= (dims.v[k] = place_of(&o->labels, order->at[k])) == k;
    return same || f->failed ? o->x : view(f, TD_OP_PERMUTE, o->x, dims);
}

static td_fints sizes_of(td_fx *f, const operand *o, const labels *l)
{
    td_fints sizes = td_fi_new(f, l->n);
    td_fmeta m = td_fx_meta(f, o->x);
    for (int k = 0; k < l->n; k++) {
        int at = place_of(&o->labels, l->at[k]);
        sizes.v[k] = at < o->labels.n ? m.shape[at] : 1;
    }
    return sizes;
}

/* ---- products ---- */

/* The labels of a product by what becomes of them; those of the batch and the summed ones are of both operands. */
typedef struct groups {
    labels batch, rows, summed, columns;
} groups;

/* (batch, first, second), each as one dimension; without a batch there are two. */
static td_fval as_matrices(td_fx *f, const operand *o, const labels *batch, const labels *first, const labels *second)
{
    const labels *parts[] = {batch, first, second};
    labels all = {0};
    int from = batch->n == 0;
    td_fints sizes = td_fi_new(f, 3 - from);
    if (f->failed) return td_fv_none();
    for (int k = from; k < 3; k++) {
        append_all(&all, parts[k], EVERY);
        sizes.v[k - from] = td_fi_numel(sizes_of(f, o, parts[k]));
    }
    td_fval x = in_order(f, o, &all);
    return f->failed ? x : td_fx_reshape(f, x, sizes);
}

/* Element by element, where nothing is summed: each with a size of 1 where only the other has the label. */
static td_fval spread_out(td_fx *f, const operand *o, const labels *out)
{
    labels own = {0};
    append_all(&own, out, set_of(&o->labels));
    if (f->failed) return td_fv_none();
    td_fints sizes = sizes_of(f, o, out);
    td_fval x = in_order(f, o, &own);
    return f->failed || own.n == out->n ? x : td_fx_reshape(f, x, sizes);
}

static td_fval multiply(td_fx *f, const operand *a, const operand *b, const labels *out)
{
    td_fval in[2] = {spread_out(f, a, out), spread_out(f, b, out)};
    return td_fx_op(f, TD_OP_MUL, 2, in, NULL);
}

static td_fval multiply_matrices(td_fx *f, const operand *a, const operand *b, const groups *g, const labels *out)
{
    td_fval in[2] = {as_matrices(f, a, &g->batch, &g->rows, &g->summed),
                     as_matrices(f, b, &g->batch, &g->summed, &g->columns)};
    if (f->failed) return td_fv_none();
    td_fval x = td_fx_op(f, g->batch.n ? TD_OP_BMM : TD_OP_MM, 2, in, NULL);
    if (f->failed || (g->batch.n <= 1 && g->rows.n == 1 && g->columns.n == 1)) return x;
    td_fints sizes = sizes_of(f, a, out), others = sizes_of(f, b, out);
    for (int k = g->batch.n + g->rows.n; k < out->n; k++) sizes.v[k] = others.v[k];
    return td_fx_reshape(f, x, sizes);
}

/* What becomes of the labels of a and b; `out`: those of their product. */
static void sort_out(const operand *a, const operand *b, uint64_t needed, groups *g, labels *out)
{
    uint64_t in_a = set_of(&a->labels), in_b = set_of(&b->labels);
    memset(g, 0, sizeof *g);
    append_all(&g->batch, &a->labels, in_b & needed);
    append_all(&g->summed, &a->labels, in_b & ~needed);
    append_all(&g->rows, &a->labels, ~in_b);
    append_all(&g->columns, &b->labels, ~in_a);
    *out = g->batch;
    append_all(out, &g->rows, EVERY);
    append_all(out, &g->columns, EVERY);
}

/* a = a * b, summed over the labels that nobody needs any more. */
static void contract(td_fx *f, operand *a, operand *b, uint64_t needed)
{
    groups g;
    labels out;
    drop_ones(f, a, b);
    drop_ones(f, b, a);
    uint64_t in_a = set_of(&a->labels), in_b = set_of(&b->labels);
    bool product = in_a & in_b & ~needed;
    sum_away(f, a, ~(needed | in_b), product);
    sum_away(f, b, ~(needed | in_a), product);
    if (f->failed) return;
    sort_out(a, b, needed, &g, &out);
    a->x = g.summed.n ? multiply_matrices(f, a, b, &g, &out) : multiply(f, a, b, &out);
    a->labels = out;
}

static uint64_t named_from(const sum *s, int k)
{
    uint64_t named = set_of(&s->out);
    for (; k < s->n; k++) named |= set_of(&s->operands[k].labels);
    return named;
}

static td_fval add_up(sum *s)
{
    td_fx *f = s->f;
    operand *first = &s->operands[0];
    for (int k = 0; k < s->n; k++) take_diagonals(f, &s->operands[k]);
    for (int k = 1; k < s->n && !f->failed; k++) contract(f, first, &s->operands[k], named_from(s, k + 1));
    sum_away(f, first, ~set_of(&s->out), false);
    return f->failed ? td_fv_none() : in_order(f, first, &s->out);
}

void td_compose_einsum(td_fx *f)
{
    sum s = {.f = f, .at = td_attr_text(f->attrs, 0)};
    td_flist in = td_fx_list(f);
    s.n = in.n;
    if (!in.n) td_fx_fail(f, TD_E_INVALID, "at least one operand is needed");
    s.operands = td_fx_alloc(f, (size_t)in.n * sizeof *s.operands);
    for (int k = 0; k < LABELS; k++) s.size[k] = -1;
    for (int k = 0; k < in.n; k++) s.operands[k].x = in.v[k];
    if (!f->failed) take_operands(&s);
    if (f->failed) return;
    if (*s.at) take_result(&s);
    else imply_result(&s);
    for (int k = 0; k < s.n && !f->failed; k++) note_sizes(&s, k);
    if (!f->failed) f->made.v[0] = add_up(&s);
}
