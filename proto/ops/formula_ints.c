/* Lists of ints for formulas: shapes and dimensions. Everything is bounded by what a call may hold (TD_MAX_DIMS,
 * TD_MAX_INTS, TD_MAX_INPUTS) and lives in the td_fx. Dimensions were checked when the call was made, but are wrapped
 * here again. */
#include "proto/ops/formula.h"

td_fints td_fi_new(td_fx *f, int n)
{
    if (n < 0) n = 0;
    td_fints l = {n, td_fx_alloc(f, (size_t)n * sizeof(int64_t))};
    return l;
}

td_fints td_fi_one(td_fx *f, int64_t v)
{
    td_fints l = td_fi_new(f, 1);
    l.v[0] = v;
    return l;
}

int64_t td_fi_at(td_fx *f, td_fints l, int64_t k)
{
    if (k < 0) k += l.n;
    if (k >= 0 && k < l.n) return l.v[k];
    td_fx_fail(f, TD_E_INTERNAL, "a formula of %s reads past a list", f->of->name);
    return 0;
}

td_fints td_fx_attr_ints(td_fx *f, int k)
{
    const td_attr *a = &f->attrs->at[k];
    if (a->kind == TD_A_NONE) return td_fi_none();
    if (a->kind == TD_A_INT) return td_fi_one(f, a->i);
    td_fints l = {a->count, (int64_t *)f->attrs->ints + a->first};
    return l;
}

void td_fx_push_ints(td_fx *f, td_attrs *a, td_fints l)
{
    bool ok = l.n < 0 ? td_attrs_none(a) : td_attrs_ints(a, l.n, l.v);
    if (!ok)
        td_fx_fail(f, TD_E_INVALID, "a formula of %s needs more than %d integers in one call", f->of->name,
                   TD_MAX_INTS);
}

void td_fx_pass(td_fx *f, td_attrs *a, int k, td_attr_kind kind)
{
    const td_attr *from = &f->attrs->at[k];
    if (kind == TD_A_INTS) td_fx_push_ints(f, a, td_fx_attr_ints(f, k));
    else if (a->count < TD_MAX_ATTRS) a->at[a->count++] = *from;
}

td_fints td_fi_neg(td_fx *f, td_fints l)
{
    td_fints r = td_fi_new(f, l.n);
    for (int k = 0; k < l.n; k++) r.v[k] = td_fi_sub(0, l.v[k]);
    return r;
}

bool td_fi_equal(td_fints a, td_fints b)
{
    if (a.n != b.n) return false;
    for (int k = 0; k < a.n; k++)
        if (a.v[k] != b.v[k]) return false;
    return true;
}

int64_t td_fi_numel(td_fints l)
{
    int64_t n = 1;
    for (int k = 0; k < l.n; k++) n = td_fi_mul(n, l.v[k]);
    return n;
}

int64_t td_fi_rows(td_fints l)
{
    int64_t n = 1;
    for (int k = 0; k + 1 < l.n; k++) n = td_fi_mul(n, l.v[k]);
    return n;
}

int64_t td_fi_wrap(int64_t dim, int64_t ndim)
{
    return dim < 0 ? dim + (ndim ? ndim : 1) : dim;
}

int64_t td_fi_div(int64_t a, int64_t b)
{
    return b == -1 ? td_fi_sub(0, a) : b ? a / b : 0; /* the smallest number by -1 ends the process */
}

int64_t td_fi_mod(int64_t a, int64_t b)
{
    return b && b != -1 ? a % b : 0;
}

/* Bit d: dimension d is among dims; all of them when dims is not given or empty. */
static unsigned dim_mask(int ndim, td_fints dims)
{
    if (dims.n <= 0) return (1u << ndim) - 1;
    unsigned mask = 0;
    for (int k = 0; k < dims.n; k++) {
        int64_t d = td_fi_wrap(dims.v[k], ndim);
        if (d >= 0 && d < ndim) mask |= 1u << d;
    }
    return mask;
}

int64_t td_fi_count(td_fints shape, td_fints dims)
{
    unsigned mask = dim_mask(shape.n, dims);
    int64_t n = 1;
    for (int k = 0; k < shape.n; k++)
        if (mask >> k & 1) n = td_fi_mul(n, shape.v[k]);
    return n;
}

td_fints td_fi_kept(td_fx *f, td_fints shape, td_fints dims, bool keepdim)
{
    (void)keepdim; /* with or without it, this is the shape that broadcasts */
    unsigned mask = dim_mask(shape.n, dims);
    td_fints r = td_fi_new(f, shape.n);
    for (int k = 0; k < shape.n; k++) r.v[k] = mask >> k & 1 ? 1 : shape.v[k];
    return r;
}

int64_t td_fi_span(td_fints shape, td_fints stride, int64_t offset)
{
    int64_t last = offset;
    for (int k = 0; k < shape.n; k++) {
        if (shape.v[k] == 0) return 0;
        last = td_fi_add(last, td_fi_mul(td_fi_add(shape.v[k], -1), stride.v[k]));
    }
    return td_fi_add(last, 1);
}

bool td_fi_overlaps(td_fints shape, td_fints stride)
{
    td_desc d = {.ndim = (uint8_t)shape.n, .dtype = TD_FLOAT32};
    for (int k = 0; k < shape.n; k++) d.shape[k] = shape.v[k], d.stride[k] = stride.v[k];
    return td_desc_self_overlaps(&d);
}

td_fints td_fi_range(td_fx *f, int64_t from, int64_t to)
{
    int64_t most = from > INT64_MAX - TD_MAX_INPUTS ? INT64_MAX : from + TD_MAX_INPUTS;
    if (to > most) td_fx_fail(f, TD_E_INVALID, "at most %d are taken", TD_MAX_INPUTS), to = from;
    int n = to > from ? (int)(to - from) : 0;
    td_fints r = td_fi_new(f, n);
    for (int k = 0; k < n; k++) r.v[k] = from + k;
    return r;
}

td_fints td_fi_halves(td_fx *f, int64_t n)
{
    int many = 0;
    while (many < 63 && n >> many > 0) many++;
    td_fints r = td_fi_new(f, many);
    for (int k = 0; k < many; k++) r.v[k] = INT64_C(1) << (many - 1 - k);
    return r;
}

td_fints td_fi_inverse(td_fx *f, td_fints dims)
{
    td_fints r = td_fi_new(f, dims.n);
    for (int k = 0; k < dims.n; k++) r.v[k] = 0;
    for (int k = 0; k < dims.n; k++) {
        int64_t d = td_fi_wrap(dims.v[k], dims.n);
        if (d >= 0 && d < dims.n) r.v[d] = k;
    }
    return r;
}

static int64_t within(int64_t n, int64_t most)
{
    return n < 0 ? 0 : n > most ? most : n;
}

td_fints td_fi_head(td_fx *f, td_fints l, int64_t n)
{
    (void)f;
    l.n = (int)within(n, l.n);
    return l;
}

td_fints td_fi_tail(td_fx *f, td_fints l, int64_t n)
{
    (void)f;
    int gone = (int)within(n, l.n);
    td_fints r = {l.n - gone, l.v + gone};
    return r;
}

int64_t td_fi_axis(td_fx *f, int64_t dim, int64_t ndim)
{
    int k = 0;
    if (f->failed) return 0;
    f->failed = td_wrap_dim(dim, (int)ndim, &k, f->error);
    return k;
}

td_fints td_fi_moved(td_fx *f, int64_t n, int64_t from, int64_t to)
{
    td_fints r = td_fi_new(f, (int)n);
    int64_t next = 0;
    for (int k = 0; k < r.n; k++) {
        next += next == from;
        r.v[k] = k == to ? from : next++;
    }
    return r;
}

const char *td_fi_text(td_fx *f, td_fints l)
{
    enum { TEXT = 160 };
    return td_shape_text(l.n < 0 ? 0 : l.n, l.v, td_fx_alloc(f, TEXT), TEXT);
}

td_fints td_fi_pad_left(td_fx *f, td_fints shape, int64_t ndim)
{
    int lead = ndim > shape.n ? (int)ndim - shape.n : 0;
    td_fints r = td_fi_new(f, lead + shape.n);
    for (int k = 0; k < r.n; k++) r.v[k] = k < lead ? 1 : shape.v[k - lead];
    return r;
}

td_fints td_fi_broadcast(td_fx *f, td_fints a, td_fints b)
{
    int n = a.n > b.n ? a.n : b.n;
    td_fints x = td_fi_pad_left(f, a, n), y = td_fi_pad_left(f, b, n);
    for (int k = 0; k < n; k++)
        if (x.v[k] == 1) x.v[k] = y.v[k];
    return x;
}

td_fints td_fi_concat(td_fx *f, td_fints a, td_fints b)
{
    td_fints r = td_fi_new(f, a.n + b.n);
    for (int k = 0; k < r.n; k++) r.v[k] = k < a.n ? a.v[k] : b.v[k - a.n];
    return r;
}

td_fints td_fi_interleave(td_fx *f, td_fints a, td_fints b)
{
    int n = a.n < b.n ? a.n : b.n;
    td_fints r = td_fi_new(f, 2 * n);
    for (int k = 0; k < n; k++) r.v[2 * k] = a.v[k], r.v[2 * k + 1] = b.v[k];
    return r;
}

td_fints td_fi_without(td_fx *f, td_fints a, td_fints b)
{
    td_fints r = td_fi_new(f, a.n);
    r.n = 0;
    for (int k = 0; k < a.n; k++) {
        bool in = false;
        for (int j = 0; j < b.n; j++) in |= a.v[k] == b.v[j];
        if (!in) r.v[r.n++] = a.v[k];
    }
    return r;
}

td_fints td_fi_indices(td_fx *f)
{
    return td_fi_range(f, 0, f->nin - (f->of->nparams - 1));
}

td_fints td_fi_offsets(td_fx *f, int64_t dim)
{
    td_fints r = td_fi_indices(f);
    int64_t at = 0;
    for (int k = 0; k < r.n; k++) {
        td_fmeta m = td_fx_meta_item(f, k);
        r.v[k] = at;
        int64_t d = td_fi_wrap(dim, m.ndim);
        if (d >= 0 && d < m.ndim) at += m.shape[d];
    }
    return r;
}

td_fints td_fi_common(td_fx *f)
{
    td_fints r = td_fi_new(f, TD_MAX_DIMS);
    int n = f->nin - (f->of->nparams - 1);
    r.n = 0;
    for (int k = 0; k < n && !f->failed; k++) {
        td_fmeta m = td_fx_meta_item(f, k);
        f->failed = td_broadcast(r.v, &r.n, m.shape, m.ndim, f->error);
    }
    return r;
}
