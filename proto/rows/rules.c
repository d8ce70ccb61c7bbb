/* The rules: what becomes of the dimension that counts rows. A rule says yes where a place of a result that belongs to
 * a row is made of places of that row alone, and of what has no rows; and each row in the same way. What it says of
 * sizes is checked against both looks, so a rule that is wrong about them makes nobody's numbers wrong. An op that has
 * none here keeps its program's requests apart from each other. */
#include "proto/ops/op.h"
#include "proto/ops/opid.h"
#include "proto/rows/parts.h"

#include <string.h>

typedef struct rule {
    td_rwalk *w;
    const td_rcall *c;
    const td_rtensor *x; /* the first input, where it has rows */
    int rank;            /* its dimensions */
} rule;

static _Noreturn void mixes(const rule *r)
{
    td_rows_no(r->w, "%s mixes rows", r->c->op->name);
}

static const td_rtensor *in(const rule *r, int k)
{
    return k < r->c->nin ? r->c->in[k] : NULL;
}

static bool has_rows(const td_rtensor *t)
{
    return t && t->dim != NO_ROWS;
}

static int rank_of(const td_rtensor *t)
{
    return t->look[FEW].ndim;
}

static int64_t size_at(const td_rtensor *t, int dim)
{
    return t->look[FEW].shape[dim];
}

static void give(const rule *r, int k, int dim, int64_t each)
{
    r->c->out[k]->dim = dim, r->c->out[k]->each = each;
}

/* All results have x's rows there. */
static void give_all(const rule *r, int dim)
{
    for (int k = 0; k < r->c->nout; k++) give(r, k, dim, r->x->each);
}

/* ---- attributes */

static int attr_of(const rule *r, const char *name)
{
    for (int k = 0; k < r->c->op->nattrs; k++)
        if (strcmp(r->c->op->attrs[k].name, name) == 0) return k;
    mixes(r);
}

static bool is_given(const rule *r, const char *name)
{
    return td_attr_given(r->c->attrs[FEW], attr_of(r, name));
}

/* Is the k-th attribute what it is, whatever the number of rows? */
static bool agrees(const td_rcall *c, int k)
{
    const td_attrs *a = c->attrs[FEW], *b = c->attrs[MANY];
    const td_attr *x = &a->at[k], *y = &b->at[k];
    if (x->kind != y->kind || x->kind == TD_A_NONE) return x->kind == y->kind;
    if (x->kind == TD_A_SCALAR) return td_rows_same_scalar(&x->s, &y->s);
    if (x->kind != TD_A_INTS && x->kind != TD_A_TEXT) return x->i == y->i; /* a float's bits, too */
    return x->count == y->count &&
           memcmp(a->ints + x->first, b->ints + y->first, (size_t)td_attr_room(x) * sizeof *a->ints) == 0;
}

static bool all_agree(const td_rcall *c)
{
    for (int k = 0; k < c->op->nattrs; k++)
        if (!agrees(c, k)) return false;
    return true;
}

static int64_t int_attr(const rule *r, const char *name)
{
    int k = attr_of(r, name);
    if (!td_attr_given(r->c->attrs[FEW], k) || !agrees(r->c, k)) mixes(r);
    return r->c->attrs[FEW]->at[k].i;
}

/* A dimension, counted from the front. */
static int dim_attr(const rule *r, const char *name, int rank)
{
    int64_t v = int_attr(r, name);
    return (int)(v < 0 ? v + rank : v);
}

/* Bit k: dimension k is named, by one int or several. None or an empty list: 0. */
static uint32_t dims_attr(const rule *r, const char *name, int rank)
{
    int k = attr_of(r, name), n;
    uint32_t set = 0;
    if (!is_given(r, name)) return 0;
    if (r->c->attrs[FEW]->at[k].kind == TD_A_INT) return 1u << dim_attr(r, name, rank);
    const int64_t *v = td_attr_ints(r->c->attrs[FEW], k, &n);
    for (int i = 0; i < n; i++) set |= 1u << (v[i] < 0 ? v[i] + rank : v[i]);
    return set;
}

static int count_below(uint32_t set, int dim)
{
    return __builtin_popcount(set & ((1u << dim) - 1));
}

/* ---- element by element */

/* Does the k-th input stand beside rows at `dim` of `rank` dimensions so that each row meets its own, or what is one
 * for all? */
static void stands_beside(const rule *r, int k, int dim, int rank, int64_t each)
{
    const td_rtensor *t = in(r, k);
    int at = t ? dim - rank + rank_of(t) : -1;
    if (!t) return;
    if (has_rows(t) ? at != t->dim || t->each != each : at >= 0 && size_at(t, at) != 1) mixes(r);
}

static void elementwise(const rule *r)
{
    int rank = rank_of(r->c->out[0]), dim = NO_ROWS;
    int64_t each = 1;
    for (int k = 0; k < r->c->nin && dim < 0; k++)
        if (has_rows(in(r, k))) dim = in(r, k)->dim + rank - rank_of(in(r, k)), each = in(r, k)->each;
    for (int k = 0; k < r->c->nin; k++) stands_beside(r, k, dim, rank, each);
    for (int k = 0; k < r->c->nout; k++) give(r, k, dim, each);
}

/* All but the first have no rows. */
static void only_first(const rule *r)
{
    if (!r->x) mixes(r);
    for (int k = 1; k < r->c->nin; k++)
        if (has_rows(in(r, k))) mixes(r);
}

/* All that there are have rows, in x's dimension, and none has none. */
static void all_alike(const rule *r)
{
    if (!r->x) mixes(r);
    for (int k = 0; k < r->c->nin; k++)
        if (in(r, k) && (in(r, k)->dim != r->x->dim || in(r, k)->each != r->x->each)) mixes(r);
}

/* ---- along dimensions that do not count rows */

static void along(const rule *r, const char *name)
{
    only_first(r);
    uint32_t dims = dims_attr(r, name, r->rank);
    if (!dims || dims >> r->x->dim & 1) mixes(r);
    give_all(r, r->x->dim);
}

static void reduction(const rule *r)
{
    only_first(r);
    uint32_t dims = dims_attr(r, "dim", r->rank);
    if (!dims || dims >> r->x->dim & 1) mixes(r);
    bool keeps = rank_of(r->c->out[0]) == r->rank;
    give_all(r, keeps ? r->x->dim : r->x->dim - count_below(dims, r->x->dim));
}

/* Over the last dimensions, and nothing before them. */
static void before_last(const rule *r, int n)
{
    only_first(r);
    if (r->x->dim >= r->rank - n) mixes(r);
    give_all(r, r->x->dim);
}

/* ---- views and moves */

static void permute(const rule *r)
{
    int n, dim = r->x->dim, to = 0;
    const int64_t *dims = td_attr_ints(r->c->attrs[FEW], 0, &n);
    while (to < n && dims[to] != dim && dims[to] + r->rank != dim) to++;
    give_all(r, to);
}

static void transpose(const rule *r)
{
    int a = dim_attr(r, "dim0", r->rank), b = dim_attr(r, "dim1", r->rank), dim = r->x->dim;
    give_all(r, dim == a ? b : dim == b ? a : dim);
}

static void unsqueeze(const rule *r)
{
    give_all(r, r->x->dim + (dim_attr(r, "dim", r->rank + 1) <= r->x->dim));
}

/* A dimension that is named goes where it has size 1, as one row has. */
static void squeeze(const rule *r)
{
    uint32_t dims = dims_attr(r, "dim", r->rank), gone = 0;
    if (!dims || dims >> r->x->dim & 1) mixes(r);
    for (int k = 0; k < r->rank; k++)
        if (dims >> k & 1 && size_at(r->x, k) == 1) gone |= 1u << k;
    give_all(r, r->x->dim - count_below(gone, r->x->dim));
}

/* Dimensions that are named go. */
static void drop(const rule *r, uint32_t dims)
{
    if (dims >> r->x->dim & 1) mixes(r);
    give_all(r, r->x->dim - count_below(dims, r->x->dim));
}

/* Of rows: all of them, however many there are. */
static void slice(const rule *r)
{
    enum { FAR = 1 << 30 };
    int k = attr_of(r, "end");
    const td_attrs *few = r->c->attrs[FEW], *many = r->c->attrs[MANY];
    give_all(r, r->x->dim);
    if (dim_attr(r, "dim", r->rank) != r->x->dim) return;
    bool from_first = !is_given(r, "start") || int_attr(r, "start") == 0;
    bool to_last =
        !is_given(r, "end") || (few->at[k].i == many->at[k].i && few->at[k].i >= FAR) ||
        (few->at[k].i == r->x->look[FEW].shape[r->x->dim] && many->at[k].i == r->x->look[MANY].shape[r->x->dim]);
    if (!from_first || !to_last || int_attr(r, "step") != 1) mixes(r);
}

/* Places in their order, in other sizes: those of a row stay together where as many rows of what stands before it do.
 */
static int64_t before(const td_desc *d, int dim)
{
    int64_t n = 1;
    for (int k = 0; k < dim; k++) n *= d->shape[k];
    return n;
}

/* The only dimension that follows the rows, and how; -1: there is none. */
static int follows(const td_rtensor *t, int64_t *each)
{
    int dim = -1;
    for (int k = 0; k < rank_of(t); k++) {
        int64_t few = t->look[FEW].shape[k], many = t->look[MANY].shape[k];
        if (few == many) continue;
        if (dim >= 0 || few % td_rows_of[FEW] || many / td_rows_of[MANY] != few / td_rows_of[FEW]) return -1;
        dim = k, *each = few / td_rows_of[FEW];
    }
    return dim;
}

static void view(const rule *r)
{
    int64_t each = 0;
    int dim = follows(r->c->out[0], &each);
    if (dim < 0 || before(&r->c->out[0]->look[FEW], dim) != before(&r->x->look[FEW], r->x->dim)) mixes(r);
    give(r, 0, dim, each);
}

/* Rows stay, or come of what has none: each gets all of it. */
static void expand(const rule *r)
{
    int64_t each = 0;
    int dim = r->x ? r->x->dim + rank_of(r->c->out[0]) - r->rank : follows(r->c->out[0], &each);
    if (dim < 0) mixes(r);
    give(r, 0, dim, r->x ? r->x->each : each);
}

static void repeat(const rule *r)
{
    expand(r);
    if (r->x && r->c->out[0]->look[FEW].shape[r->c->out[0]->dim] != size_at(r->x, r->x->dim)) mixes(r);
}

static void pad(const rule *r)
{
    int n;
    const int64_t *pads = td_attr_ints(r->c->attrs[FEW], attr_of(r, "pad"), &n);
    int at = 2 * (r->rank - 1 - r->x->dim);
    only_first(r);
    if (at + 1 < n && (pads[at] || pads[at + 1])) mixes(r);
    give_all(r, r->x->dim);
}

static void stack(const rule *r)
{
    all_alike(r);
    unsqueeze(r);
}

static void cat(const rule *r)
{
    all_alike(r);
    drop(r, 1u << dim_attr(r, "dim", r->rank));
    give_all(r, r->x->dim);
}

/* ---- products, pictures */

static void product(const rule *r, int x, int y, int batch)
{
    const td_rtensor *a = in(r, x), *b = in(r, y);
    int dim = MIXED;
    if (has_rows(a) && has_rows(b)) dim = batch && a->dim == 0 && b->dim == 0 && a->each == b->each ? 0 : MIXED;
    else if (has_rows(a)) dim = a->dim == batch ? batch : MIXED;
    else if (has_rows(b)) dim = b->dim == batch + 1 ? batch + 1 : MIXED;
    if (dim == MIXED) mixes(r);
    give(r, 0, dim, has_rows(a) ? a->each : b->each);
}

static void addmm(const rule *r)
{
    const td_rtensor *a = in(r, 1), *b = in(r, 2);
    if (!has_rows(a) && !has_rows(b)) mixes(r);
    product(r, 1, 2, 0);
    stands_beside(r, 0, r->c->out[0]->dim, 2, r->c->out[0]->each);
}

static void in_first(const rule *r)
{
    only_first(r);
    if (r->x->dim != 0) mixes(r);
    give_all(r, 0);
}

/* Of images (g) alone: what a transposed convolution is. */
static void conv2d_backward(const rule *r)
{
    if (!r->x || r->x->dim != 0 || has_rows(in(r, 2)) || int_attr(r, "mask") != 1) mixes(r);
    if (!has_rows(in(r, 1)) || in(r, 1)->dim != 0 || in(r, 1)->each != r->x->each) mixes(r);
    for (int k = 0; k < r->c->nout; k++) give(r, k, k ? NO_ROWS : 0, r->x->each);
}

static void grid(const rule *r)
{
    all_alike(r);
    if (r->x->dim != 0) mixes(r);
    give_all(r, 0);
}

static void batch_norm(const rule *r)
{
    only_first(r);
    if (int_attr(r, "training") || r->x->dim == 1) mixes(r);
    for (int k = 0; k < r->c->nout; k++) give(r, k, k ? MIXED : r->x->dim, r->x->each);
}

/* x (T, B, I) and states (1, B, H); behind `states` results come what a gradient wants. */
static void recurrent(const rule *r, int states)
{
    for (int k = 0; k < r->c->nin; k++) {
        const td_rtensor *t = in(r, k);
        if (k <= states ? !has_rows(t) || t->dim != rank_of(t) - 2 || t->each != r->x->each : has_rows(t)) mixes(r);
    }
    for (int k = 0; k < r->c->nout; k++) give(r, k, k <= states ? rank_of(r->c->out[k]) - 2 : MIXED, r->x->each);
}

static void attention(const rule *r)
{
    const td_rtensor *x = r->x;
    for (int k = 0; x && k < 3; k++)
        if (!has_rows(in(r, k)) || in(r, k)->dim != x->dim || in(r, k)->each != x->each) mixes(r);
    if (!x || x->dim >= r->rank - 2) mixes(r);
    stands_beside(r, 3, x->dim, r->rank, x->each);
    for (int k = 0; k < r->c->nout; k++) give(r, k, k ? MIXED : x->dim, x->each);
}

/* ---- by index */

/* Of what has no rows, for each row its own; or of each row what is the same for all. */
static void index_select(const rule *r)
{
    int dim = dim_attr(r, "dim", rank_of(in(r, 0)));
    const td_rtensor *at = in(r, 1);
    if (r->x && (has_rows(at) || r->x->dim == dim)) mixes(r);
    give(r, 0, r->x ? r->x->dim : dim, r->x ? r->x->each : at->each);
}

static void embedding(const rule *r)
{
    if (has_rows(in(r, 0))) mixes(r);
    give(r, 0, in(r, 1)->dim, in(r, 1)->each);
}

static void gather(const rule *r)
{
    int dim = dim_attr(r, "dim", rank_of(in(r, 0)));
    const td_rtensor *at = in(r, 1);
    if (!has_rows(at)) mixes(r);
    if (r->x ? r->x->dim != at->dim || r->x->each != at->each || at->dim == dim : at->dim != dim) mixes(r);
    give(r, 0, at->dim, at->each);
}

static void scatter(const rule *r)
{
    all_alike(r);
    if (r->x->dim == dim_attr(r, "dim", r->rank)) mixes(r);
    give(r, 0, r->x->dim, r->x->each);
}

/* Indices that stand side by side become one run of dimensions where the first of them stood. */
static void by_indices(const rule *r)
{
    int first = -1, last = -1, rank = 0, dim = NO_ROWS;
    int64_t each = 1;
    for (int k = 1; k < r->c->nin; k++) {
        if (!in(r, k)) continue;
        if (first < 0) first = k - 1;
        if (last >= 0 && last != k - 2) mixes(r);
        last = k - 1;
        if (rank_of(in(r, k)) > rank) rank = rank_of(in(r, k));
    }
    for (int k = 1; k < r->c->nin; k++)
        if (has_rows(in(r, k))) dim = in(r, k)->dim + rank - rank_of(in(r, k)), each = in(r, k)->each;
    if (first < 0 || (r->x && dim != NO_ROWS)) mixes(r);
    if (!r->x) {
        for (int k = 1; k < r->c->nin; k++) stands_beside(r, k, dim, rank, each);
        give(r, 0, first + dim, each);
        return;
    }
    if (r->x->dim >= first && r->x->dim <= last) mixes(r);
    give_all(r, r->x->dim < first ? r->x->dim : r->x->dim - (last - first + 1) + rank);
}

/* ---- which rule */

static void fill(const rule *r)
{
    int64_t each = 0;
    int dim = follows(r->c->out[0], &each);
    if (dim < 0 || !agrees(r->c, attr_of(r, "value"))) mixes(r);
    give(r, 0, dim, each);
}

/* Those that may make something of rows though no input has any, for they are told how many there are; or are given
 * rows elsewhere than in the first. */
static bool of_any(const rule *r)
{
    switch (r->c->op->id) {
    case TD_OP_FULL: fill(r); return true;
    case TD_OP_EXPAND: expand(r); return true;
    case TD_OP_REPEAT: repeat(r); return true;
    case TD_OP_MM:
    case TD_OP_MV: product(r, 0, 1, 0); return true;
    case TD_OP_BMM: product(r, 0, 1, 1); return true;
    case TD_OP_ADDMM: addmm(r); return true;
    case TD_OP_INDEX_SELECT: index_select(r); return true;
    case TD_OP_INDEX: by_indices(r); return true;
    case TD_OP_EMBEDDING: embedding(r); return true;
    case TD_OP_GATHER: gather(r); return true;
    default: return false;
    }
}

static bool of_reductions(const rule *r)
{
    switch (r->c->op->id) {
    case TD_OP_SUM:
    case TD_OP_MEAN:
    case TD_OP_PROD:
    case TD_OP_ANY:
    case TD_OP_ALL:
    case TD_OP_LOGSUMEXP:
    case TD_OP_STD:
    case TD_OP_VAR:
    case TD_OP_SUM_SQUARES:
    case TD_OP_AMAX:
    case TD_OP_AMIN:
    case TD_OP_ARGMAX:
    case TD_OP_ARGMIN:
    case TD_OP_KTH:
    case TD_OP_MAX_DIM:
    case TD_OP_MIN_DIM: reduction(r); return true;
    case TD_OP_SOFTMAX:
    case TD_OP_LOG_SOFTMAX:
    case TD_OP_CUMSUM:
    case TD_OP_CUMPROD:
    case TD_OP_LOGCUMSUMEXP:
    case TD_OP_CUMMAX:
    case TD_OP_CUMMIN:
    case TD_OP_SORT:
    case TD_OP_TOPK:
    case TD_OP_UNFOLD:
    case TD_OP_SPLIT:
    case TD_OP_FFT_R2C:
    case TD_OP_FFT_C2C:
    case TD_OP_FFT_C2R: along(r, "dim"); return true;
    case TD_OP_FLIP:
    case TD_OP_ROLL: along(r, "dims"); return true;
    default: return false;
    }
}

static bool of_views(const rule *r)
{
    switch (r->c->op->id) {
    case TD_OP_DETACH:
    case TD_OP_COPY_LAST:
    case TD_OP_TO_DEVICE:
    case TD_OP_VIEW_AS_REAL:
    case TD_OP_VIEW_PART: give_all(r, r->x->dim); return true;
    case TD_OP_VIEW_AS_COMPLEX: before_last(r, 1); return true;
    case TD_OP_VIEW: view(r); return true;
    case TD_OP_PERMUTE: permute(r); return true;
    case TD_OP_TRANSPOSE: transpose(r); return true;
    case TD_OP_UNSQUEEZE: unsqueeze(r); return true;
    case TD_OP_SQUEEZE: squeeze(r); return true;
    case TD_OP_SELECT:
    case TD_OP_UNBIND: drop(r, 1u << dim_attr(r, "dim", r->rank)); return true;
    case TD_OP_DIAGONAL: drop(r, 1u << dim_attr(r, "dim1", r->rank) | 1u << dim_attr(r, "dim2", r->rank)); return true;
    case TD_OP_SLICE: slice(r); return true;
    case TD_OP_CONSTANT_PAD: pad(r); return true;
    case TD_OP_STACK: stack(r); return true;
    case TD_OP_CAT: cat(r); return true;
    default: return false;
    }
}

static bool of_layers(const rule *r)
{
    switch (r->c->op->id) {
    case TD_OP_CONV2D: in_first(r); return true;
    case TD_OP_CONV2D_BACKWARD: conv2d_backward(r); return true;
    case TD_OP_MAX_POOL2D:
    case TD_OP_AVG_POOL2D:
    case TD_OP_ADAPTIVE_MAX:
    case TD_OP_RESAMPLE: before_last(r, r->rank - 2); return true;
    case TD_OP_TRIL:
    case TD_OP_TRIU: before_last(r, 2); return true;
    case TD_OP_LINEAR: before_last(r, 1); return true;
    case TD_OP_LAYER_NORM: before_last(r, (int)int_attr(r, "ndims")); return true;
    case TD_OP_GRID_SAMPLER: grid(r); return true;
    case TD_OP_BATCH_NORM: batch_norm(r); return true;
    case TD_OP_LSTM_LAYER: recurrent(r, 2); return true;
    case TD_OP_GRU_LAYER:
    case TD_OP_RNN_LAYER: recurrent(r, 1); return true;
    case TD_OP_TILED_ATTENTION: attention(r); return true;
    case TD_OP_SCATTER:
    case TD_OP_SCATTER_ADD: scatter(r); return true;
    default: return false;
    }
}

/* ---- */

/* May its attributes say how many rows there are? Rules of others look at the few alone. */
static bool takes_sizes(const td_op *op)
{
    return op->id == TD_OP_FULL || op->id == TD_OP_EXPAND || op->id == TD_OP_REPEAT || op->id == TD_OP_VIEW ||
           op->id == TD_OP_SLICE;
}

static bool writes(const td_rcall *c)
{
    for (int p = 0; p < c->op->nparams; p++) {
        const td_param *param = &c->op->params[p];
        if (param->flags & TD_PF_MUTATED && (!param->only_if || td_attr_bool(c->attrs[FEW], param->only_if - 1)))
            return true;
    }
    return false;
}

/* Are its sizes as the rule says? */
static void check(const rule *r, const td_rtensor *t)
{
    for (int k = 0; t->dim != MIXED && k < rank_of(t); k++) {
        int64_t few = t->look[FEW].shape[k], many = t->look[MANY].shape[k];
        bool good = k == t->dim ? few == td_rows_of[FEW] * t->each && many == td_rows_of[MANY] * t->each : few == many;
        if (!good) mixes(r);
    }
    if (t->look[FEW].ndim != t->look[MANY].ndim || t->dim >= rank_of(t)) mixes(r);
}

void td_rows_rule(td_rwalk *w, const td_rcall *c)
{
    rule r = {.w = w, .c = c};
    bool any = false, mixed = false;
    for (int k = 0; k < c->nin; k++) any |= has_rows(in(&r, k)), mixed |= in(&r, k) && in(&r, k)->dim == MIXED;
    if (has_rows(in(&r, 0))) r.x = in(&r, 0), r.rank = rank_of(r.x);
    if (mixed) mixes(&r);
    if (writes(c)) td_rows_no(w, "%s writes a tensor", c->op->name);
    if (c->op->flags & TD_OF_RANDOM) td_rows_no(w, "%s draws random numbers", c->op->name);
    if (c->op->flags & TD_OF_DATA_SHAPE) td_rows_no(w, "%s has as many results as a tensor says", c->op->name);
    if (c->op->flags & TD_OF_UNCOMPUTED) td_rows_no(w, "%s leaves what lies in memory", c->op->name);
    bool agree = all_agree(c);
    if (!agree && !takes_sizes(c->op)) td_rows_no(w, "%s is told how many rows there are", c->op->name);
    if (!any && agree) {
        for (int k = 0; k < c->nout; k++) give(&r, k, NO_ROWS, 1);
    } else if (c->op->flags & TD_OF_POINTWISE) {
        elementwise(&r);
    } else if (!of_any(&r) && !(r.x && (of_reductions(&r) || of_views(&r) || of_layers(&r)))) {
        td_rows_no(w, "there is no rule for the rows of %s", c->op->name);
    }
    for (int k = 0; k < c->nout; k++) check(&r, c->out[k]);
}
