/* What steps make of small constants is worked out here: exporters build pads and shapes by slicing, turning and
 * joining constants, of more dimensions than lists of a program have.
 *
 * Elements are moved as bytes, whatever they are; arithmetic is that of int64. What makes no sense is left as it is, so
 * that it fails where it would. */
#include "client/onnx/graph.h"

#include "proto/base/dtype.h"

#include <stdlib.h>
#include <string.h>

typedef struct folding {
    td_onnx_whole *w;
    const td_onnx_step *s;
} folding;

static td_onnx_constant *in(const folding *f, uint32_t k)
{
    return k < f->s->nin && f->s->in[k] ? f->s->in[k]->constant : NULL;
}

static int64_t attribute(const folding *f, const char *name, int64_t otherwise)
{
    const td_onnx_attribute *a = td_onnx_attribute_of(f->s->node, name);
    return a ? a->i : otherwise;
}

/* Whole numbers of an input, or of an attribute of old; how many, or -1: there are none. */
static int ints(const folding *f, uint32_t k, const char *name, int64_t *out)
{
    const td_onnx_constant *c = in(f, k);
    const td_onnx_attribute *a = td_onnx_attribute_of(f->s->node, name);
    int64_t n = c ? c->look.numel : a ? (int64_t)a->ints.n : -1;
    if (n > TD_MAX_DIMS || (c && (c->look.ndim > 1 || (c->look.dtype != TD_INT64 && c->look.dtype != TD_INT32))))
        return -1;
    for (int64_t i = 0; i < n; i++) out[i] = c ? td_onnx_int(c, i) : a->ints.i[i];
    return (int)n;
}

static bool is_given(const folding *f, uint32_t k, const char *name)
{
    return in(f, k) || td_onnx_attribute_of(f->s->node, name);
}

static td_onnx_look look_of(td_dtype dtype, int ndim, const int64_t *shape)
{
    td_onnx_look l = {.dtype = dtype, .ndim = ndim, .numel = 1};
    for (int k = 0; k < ndim; k++) {
        l.shape[k] = shape[k];
        if (shape[k] < 0 || shape[k] > TD_ONNX_FEW || (l.numel *= shape[k]) > TD_ONNX_FEW)
            l.numel = TD_ONNX_FEW + 1, k = ndim;
    }
    l.bytes = (uint64_t)l.numel * td_dtype_size(dtype);
    return l;
}

/* NULL: too many, or no memory. */
static td_onnx_constant *room(const folding *f, td_dtype dtype, int ndim, const int64_t *shape, char **bytes)
{
    td_onnx_look l = look_of(dtype, ndim, shape);
    void *at = NULL;
    td_onnx_constant *c = l.numel <= TD_ONNX_FEW ? td_onnx_constant_new(f->w, &l, &at) : NULL;
    *bytes = at;
    return c;
}

/* ---- the elements under another shape */

static td_onnx_constant *reshaped(const folding *f, int ndim, const int64_t *shape)
{
    const td_onnx_constant *x = in(f, 0);
    char *to;
    td_onnx_constant *c = room(f, x->look.dtype, ndim, shape, &to);
    if (!c || c->look.numel != x->look.numel) return NULL;
    memcpy(to, x->bytes, x->look.bytes);
    return c;
}

static td_onnx_constant *reshape(const folding *f)
{
    int64_t shape[TD_MAX_DIMS], known = 1, open = -1;
    const td_onnx_look *x = &in(f, 0)->look;
    int n = ints(f, 1, "shape", shape);
    if (n < 0 || attribute(f, "allowzero", 0)) return NULL;
    for (int k = 0; k < n; k++) {
        if (shape[k] == 0 && k >= x->ndim) return NULL;
        if (shape[k] == 0) shape[k] = x->shape[k];
        if (shape[k] > 0 && shape[k] <= TD_ONNX_FEW) known *= shape[k];
        else if (shape[k] == -1 && open < 0) open = k;
        else return NULL;
        if (known > TD_ONNX_FEW) return NULL;
    }
    if (open >= 0) shape[open] = x->numel / known;
    return reshaped(f, n, shape);
}

static td_onnx_constant *squeeze(const folding *f)
{
    const td_onnx_look *x = &in(f, 0)->look;
    int64_t axes[TD_MAX_DIMS], shape[TD_MAX_DIMS];
    int n = ints(f, 1, "axes", axes), left = 0;
    if (n < 0 && is_given(f, 1, "axes")) return NULL;
    for (int k = 0; k < x->ndim; k++) {
        bool goes = n < 0 && x->shape[k] == 1;
        for (int i = 0; i < n; i++) goes |= axes[i] == k || axes[i] == k - x->ndim;
        if (!goes) shape[left++] = x->shape[k];
    }
    return reshaped(f, left, shape);
}

static td_onnx_constant *unsqueeze(const folding *f)
{
    const td_onnx_look *x = &in(f, 0)->look;
    int64_t axes[TD_MAX_DIMS], shape[TD_MAX_DIMS];
    int n = ints(f, 1, "axes", axes), ndim = x->ndim + n, next = 0;
    if (n < 0 || ndim > TD_MAX_DIMS) return NULL;
    for (int k = 0; k < ndim; k++) {
        bool made = false;
        for (int i = 0; i < n; i++) made |= axes[i] == k || axes[i] == k - ndim;
        if (!made && next == x->ndim) return NULL;
        shape[k] = made ? 1 : x->shape[next++];
    }
    return reshaped(f, ndim, shape);
}

/* ---- some of the elements, at equal distances */

static td_onnx_constant *picked(const folding *f, int ndim, const int64_t *shape, int64_t first, const int64_t *steps)
{
    const td_onnx_constant *x = in(f, 0);
    size_t each = td_dtype_size(x->look.dtype);
    char *to;
    td_onnx_constant *c = room(f, x->look.dtype, ndim, shape, &to);
    for (int64_t i = 0; c && i < c->look.numel; i++) {
        int64_t at = first, rest = i;
        for (int k = ndim - 1; k >= 0; k--) {
            at +=
                rest % shape[k] * steps[k]; /* NOLINT(clang-analyzer-core.DivideZero): of no elements none is picked */
            rest /= shape[k];
        }
        memcpy(to + (size_t)i * each, (const char *)x->bytes + (size_t)at * each, each);
    }
    return c;
}

static void strides_of(const td_onnx_look *x, int64_t *out)
{
    int64_t step = 1;
    for (int k = x->ndim - 1; k >= 0; k--) out[k] = step, step *= x->shape[k];
}

static td_onnx_constant *transpose(const folding *f)
{
    const td_onnx_look *x = &in(f, 0)->look;
    const td_onnx_attribute *perm = td_onnx_attribute_of(f->s->node, "perm");
    int64_t strides[TD_MAX_DIMS], steps[TD_MAX_DIMS], shape[TD_MAX_DIMS];
    unsigned seen = 0;
    strides_of(x, strides);
    if (perm && perm->ints.n != (uint64_t)x->ndim) return NULL;
    for (int k = 0; k < x->ndim; k++) {
        int64_t from = perm ? perm->ints.i[k] : x->ndim - 1 - k;
        if (from < 0 || from >= x->ndim || seen >> from & 1) return NULL;
        seen |= 1u << from;
        shape[k] = x->shape[from];
        steps[k] = strides[from];
    }
    return picked(f, x->ndim, shape, 0, steps);
}

/* Where a bound lies among n; going backwards the last one is in front of the first. */
static int64_t bound(int64_t at, int64_t n, bool backwards)
{
    if (at < 0) at = at < -n ? -1 - !backwards : at + n;
    if (at < 0) at = backwards ? -1 : 0;
    int64_t most = backwards ? n - 1 : n;
    return at > most ? most : at;
}

static td_onnx_constant *slice(const folding *f)
{
    const td_onnx_look *x = &in(f, 0)->look;
    int64_t starts[TD_MAX_DIMS], ends[TD_MAX_DIMS], axes[TD_MAX_DIMS], by[TD_MAX_DIMS], steps[TD_MAX_DIMS],
        shape[TD_MAX_DIMS], first = 0;
    int n = ints(f, 1, "starts", starts), naxes = ints(f, 3, "axes", axes), nby = ints(f, 4, "steps", by);
    if (n < 0 || ints(f, 2, "ends", ends) != n || (naxes >= 0 && naxes != n) || (nby >= 0 && nby != n)) return NULL;
    if ((naxes < 0 && is_given(f, 3, "axes")) || (nby < 0 && in(f, 4))) return NULL;
    strides_of(x, steps);
    memcpy(shape, x->shape, sizeof shape);
    for (int i = 0; i < n; i++) {
        int64_t k = naxes < 0 ? i : axes[i] < 0 ? axes[i] + x->ndim : axes[i], step = nby < 0 ? 1 : by[i];
        if (k < 0 || k >= x->ndim || shape[k] != x->shape[k] || step == 0 || step < -TD_ONNX_FEW) return NULL;
        if (step > TD_ONNX_FEW) step = TD_ONNX_FEW;
        int64_t a = bound(starts[i], shape[k], step < 0), b = bound(ends[i], shape[k], step < 0);
        if (a < 0 && shape[k]) a = 0;
        int64_t size = step < 0 ? -step : step, count = ((step < 0 ? a - b : b - a) + size - 1) / size;
        shape[k] = count > 0 ? count : 0;
        if (shape[k]) first += a * steps[k];
        if (shape[k] > 1) steps[k] *= step; /* one axis may stand there again and again */
    }
    return picked(f, x->ndim, shape, first, steps);
}

static td_onnx_constant *gather(const folding *f)
{
    const td_onnx_constant *x = in(f, 0), *at = in(f, 1);
    int64_t axis = attribute(f, "axis", 0), shape[2 * TD_MAX_DIMS], outer = 1, inner = 1;
    int ndim = 0;
    if (!at || (at->look.dtype != TD_INT64 && at->look.dtype != TD_INT32)) return NULL;
    if (axis < 0) axis += x->look.ndim;
    if (axis < 0 || axis >= x->look.ndim || x->look.ndim + at->look.ndim - 1 > TD_MAX_DIMS) return NULL;
    for (int k = 0; k < axis; k++) outer *= shape[ndim++] = x->look.shape[k];
    for (int k = 0; k < at->look.ndim; k++) shape[ndim++] = at->look.shape[k];
    for (int k = (int)axis + 1; k < x->look.ndim; k++) inner *= shape[ndim++] = x->look.shape[k];
    size_t bytes = (size_t)inner * td_dtype_size(x->look.dtype);
    int64_t n = x->look.shape[axis];
    char *to;
    td_onnx_constant *c = room(f, x->look.dtype, ndim, shape, &to);
    for (int64_t o = 0; c && o < outer; o++)
        for (int64_t i = 0; i < at->look.numel; i++, to += bytes) {
            int64_t k = td_onnx_int(at, i);
            if (k < 0) k += n;
            if (k < 0 || k >= n) return NULL;
            memcpy(to, (const char *)x->bytes + (size_t)(o * n + k) * bytes, bytes);
        }
    return c;
}

static td_onnx_constant *concat(const folding *f)
{
    const td_onnx_look *x = &in(f, 0)->look;
    int64_t axis = attribute(f, "axis", 0), shape[TD_MAX_DIMS], outer = 1;
    if (axis < 0) axis += x->ndim;
    if (axis < 0 || axis >= x->ndim) return NULL;
    memcpy(shape, x->shape, sizeof shape);
    for (int k = 0; k < axis; k++) outer *= shape[k];
    for (uint32_t i = 1; i < f->s->nin; i++) {
        const td_onnx_look *y = &in(f, i)->look;
        if (y->ndim != x->ndim || y->dtype != x->dtype) return NULL;
        for (int k = 0; k < x->ndim; k++)
            if (k != axis && y->shape[k] != x->shape[k]) return NULL;
        if ((shape[axis] += y->shape[axis]) > TD_ONNX_FEW) return NULL;
    }
    char *to;
    td_onnx_constant *c = room(f, x->dtype, x->ndim, shape, &to);
    for (int64_t o = 0; c && o < outer; o++)
        for (uint32_t i = 0; i < f->s->nin; i++) {
            size_t part = in(f, i)->look.bytes / (size_t)(outer ? outer : 1);
            memcpy(to, (const char *)in(f, i)->bytes + (size_t)o * part, part);
            to += part;
        }
    return c;
}

/* ---- new elements */

static td_onnx_constant *of_ints(const folding *f, int ndim, int64_t n, const int64_t *v)
{
    char *to;
    td_onnx_constant *c = room(f, TD_INT64, ndim, &n, &to);
    if (c && c->look.bytes) memcpy(to, v, c->look.bytes);
    return c;
}

static td_onnx_constant *shape_of(const folding *f)
{
    const td_onnx_look *x = &in(f, 0)->look;
    int64_t from = attribute(f, "start", 0), to = attribute(f, "end", x->ndim);
    from = bound(from, x->ndim, false), to = bound(to, x->ndim, false);
    return of_ints(f, 1, to > from ? to - from : 0, x->shape + from);
}

static td_onnx_constant *cast(const folding *f)
{
    const td_onnx_constant *x = in(f, 0);
    td_dtype to = td_onnx_dtype(attribute(f, "to", 0));
    size_t from_each = td_dtype_size(x->look.dtype), each = td_dtype_size(to);
    char *at;
    if (to == TD_DTYPE_NONE || !td_dtype_is_integral(x->look.dtype) || x->look.dtype == TD_UINT64 ||
        td_dtype_is_complex(to))
        return NULL;
    td_onnx_constant *c = room(f, to, x->look.ndim, x->look.shape, &at);
    for (int64_t k = 0; c && k < x->look.numel; k++) {
        td_scalar s = td_scalar_load(x->look.dtype, (const char *)x->bytes + (size_t)k * from_each);
        if (to != TD_BOOL && !td_scalar_fits(s, to)) return NULL;
        td_scalar_store(s, to, at + (size_t)k * each);
    }
    return c;
}

static td_onnx_constant *constant_of_shape(const folding *f)
{
    const td_onnx_attribute *a = td_onnx_attribute_of(f->s->node, "value");
    const td_onnx_tensor *t = a ? a->tensor.last : NULL;
    td_onnx_look look = {.dtype = TD_FLOAT32, .numel = 1};
    int64_t shape[TD_MAX_DIMS];
    char one[16] = {0}, *to;
    int n = ints(f, 0, "", shape);
    if (n < 0 || (t && (td_onnx_look_at(f->w->file, t, &look, f->w->e) || look.numel != 1 ||
                        td_onnx_fetch(f->w->file, t, &look, one, f->w->e))))
        return NULL;
    size_t each = td_dtype_size(look.dtype);
    td_onnx_constant *c = room(f, look.dtype, n, shape, &to);
    for (int64_t k = 0; c && k < c->look.numel; k++) memcpy(to + (size_t)k * each, one, each);
    return c;
}

static bool worked_out(char op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case 'A': return !__builtin_add_overflow(a, b, out);
    case 'S': return !__builtin_sub_overflow(a, b, out);
    case 'M': return !__builtin_mul_overflow(a, b, out);
    default:
        if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
        *out = a / b;
        return true;
    }
}

/* Of two of one shape, or with one number: Add, Sub, Mul, Div. */
static td_onnx_constant *arithmetic(const folding *f)
{
    const td_onnx_constant *a = in(f, 0), *b = in(f, 1);
    char *to;
    if (!b || a->look.dtype != TD_INT64 || b->look.dtype != TD_INT64) return NULL;
    const td_onnx_look *shape = a->look.numel == 1 && a->look.ndim <= b->look.ndim ? &b->look : &a->look;
    bool good = (a->look.numel == 1 && a->look.ndim <= b->look.ndim) ||
                (b->look.numel == 1 && b->look.ndim <= a->look.ndim) ||
                (a->look.ndim == b->look.ndim && memcmp(a->look.shape, b->look.shape, sizeof a->look.shape) == 0);
    td_onnx_constant *c = good ? room(f, TD_INT64, shape->ndim, shape->shape, &to) : NULL;
    for (int64_t k = 0; c && k < c->look.numel; k++)
        if (!worked_out(f->s->node->op[0], td_onnx_int(a, a->look.numel == 1 ? 0 : k),
                        td_onnx_int(b, b->look.numel == 1 ? 0 : k), (int64_t *)to + k))
            return NULL;
    return c;
}

static td_onnx_constant *size(const folding *f)
{
    return of_ints(f, 0, in(f, 0)->look.numel, &in(f, 0)->look.numel);
}

static td_onnx_constant *same(const folding *f)
{
    return in(f, 0);
}

/* ---- */

typedef td_onnx_constant *fold_fn(const folding *f);

static const struct op {
    const char *name;
    fold_fn *fold;
} ops[] = {{"Identity", same},       {"Reshape", reshape}, {"Squeeze", squeeze}, {"Unsqueeze", unsqueeze},
           {"Transpose", transpose}, {"Slice", slice},     {"Gather", gather},   {"Concat", concat},
           {"Shape", shape_of},      {"Size", size},       {"Cast", cast},       {"ConstantOfShape", constant_of_shape},
           {"Add", arithmetic},      {"Sub", arithmetic},  {"Mul", arithmetic},  {"Div", arithmetic}};

static fold_fn *fold_of(const td_onnx_step *s)
{
    const char *domain = s->node->domain;
    if (!s->node->op || (domain && *domain && strcmp(domain, "ai.onnx") != 0) || !s->nin || s->nout != 1 || !s->out[0])
        return NULL;
    for (uint32_t k = 0; k < s->nin; k++)
        if (s->in[k] && !td_onnx_is_small(s->in[k])) return NULL;
    if (!s->in[0] || (strcmp(s->node->op, "Concat") == 0 && td_onnx_attribute_of(s->node, "axis") == NULL)) return NULL;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (strcmp(ops[k].name, s->node->op) == 0) return ops[k].fold;
    return NULL;
}

static bool all_there(const td_onnx_step *s)
{
    for (uint32_t k = 0; k < s->nin && strcmp(s->node->op, "Concat") == 0; k++)
        if (!s->in[k]) return false;
    return true;
}

static void fold_scope(td_onnx_whole *w, td_onnx_scope *s)
{
    for (td_onnx_step **at = &s->first; *at && !w->e->code;) {
        folding f = {w, *at};
        fold_fn *fold = fold_of(*at);
        td_onnx_constant *c = fold && all_there(*at) ? fold(&f) : NULL;
        if (!c) {
            at = &(*at)->next;
            continue;
        }
        td_onnx_value *v = (*at)->out[0];
        v->constant = c;
        v->maker = NULL;
        v->dtype = c->look.dtype;
        v->rank = c->look.ndim;
        *at = (*at)->next;
    }
}

/* Scopes stand behind those around them. */
int td_onnx_fold(td_onnx_whole *w)
{
    for (uint32_t k = 0; k < w->nall && !w->e->code; k++) fold_scope(w, w->all[k]);
    return w->e->code;
}
