/* Views that keep all elements, or repeat them by stride 0: another shape over the same storage. Output descriptors
 * keep dtype (but for view_dtype and those of complex numbers), device and storage of x; no view copies. */
#include "proto/infer/infer.h"

#include <inttypes.h>

static int too_many_dims(int ndim, td_error *e)
{
    return td_fail(e, TD_E_SHAPE, "a tensor has at most %d dimensions, this one would have %d", TD_MAX_DIMS, ndim);
}

/* A stride made by multiplying; where it cannot be said the dimension has one element and it never counts. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

/* The sizes asked for: their product without the -1, and where that stands. */
static int read_shape(int ndim, const int64_t *want, int64_t *known, int *unknown, td_error *e)
{
    char text[TD_TEXT];
    *unknown = -1;
    *known = 1;
    for (int i = 0; i < ndim; i++) {
        if (want[i] < -1) return td_fail(e, TD_E_SHAPE, "invalid shape dimension %" PRId64, want[i]);
        if (want[i] == -1 && *unknown >= 0) return td_fail(e, TD_E_SHAPE, "only one dimension can be inferred (-1)");
        if (want[i] == -1) *unknown = i;
        else if (__builtin_mul_overflow(*known, want[i], known))
            return td_fail(e, TD_E_SHAPE, "shape '%s' is too large", td_shape_text(ndim, want, text, sizeof text));
    }
    return TD_OK;
}

static int infer_shape(const td_inference *f, const td_desc *x, int64_t *shape, int *ndim, td_error *e)
{
    char text[TD_TEXT];
    int unknown;
    int64_t known, numel = td_desc_numel(x);
    const int64_t *want = td_attr_ints(f->attrs, 0, ndim);
    if (*ndim > TD_MAX_DIMS) return too_many_dims(*ndim, e);
    TD_TRY(read_shape(*ndim, want, &known, &unknown, e));
    if (unknown >= 0 && known == 0 && numel == 0)
        return td_fail(
            e, TD_E_SHAPE,
            "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be "
            "any value and is ambiguous",
            td_shape_text(*ndim, want, text, sizeof text));
    if (unknown >= 0 ? known == 0 || numel % known != 0 : numel != known)
        return td_fail(e, TD_E_SHAPE, "shape '%s' is invalid for input of size %" PRId64,
                       td_shape_text(*ndim, want, text, sizeof text), numel);
    for (int i = 0; i < *ndim; i++) shape[i] = i == unknown ? numel / known : want[i];
    return TD_OK;
}

/* Strides of a new shape over x, from the last dimension on: each run of x's dimensions that lies in one piece is cut
 * into new ones. False when a new dimension would span two pieces. Only for tensors with elements. */
static bool restride(const td_desc *x, td_desc *out)
{
    int k = out->ndim - 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        int64_t base = x->stride[i], piece = x->shape[i], taken = 1;
        while (i > 0 && (x->shape[i - 1] == 1 || x->stride[i - 1] == times(base, piece))) piece *= x->shape[--i];
        for (; k >= 0 && (taken < piece || out->shape[k] == 1); k--) {
            out->stride[k] = times(base, taken);
            taken *= out->shape[k];
        }
        if (taken != piece) return false;
    }
    for (; k >= 0; k--) out->stride[k] = 1; /* x is 0-d: all of these have one element */
    return true;
}

TD_RULE(view)
{
    const td_desc *x = td_in(f, 0);
    td_desc out = *x;
    int ndim;
    f->compute = (td_dtype)x->dtype;
    TD_TRY(infer_shape(f, x, out.shape, &ndim, e));
    out.ndim = (uint8_t)ndim;
    if (td_desc_numel(x) == 0) {
        if (!td_desc_same_shape(&out, x)) TD_TRY(td_desc_contiguous(&out, (td_dtype)x->dtype, ndim, out.shape, e));
        out.offset = x->offset;
        out.device = x->device;
    } else if (!restride(x, &out)) {
        return td_fail(
            e, TD_E_SHAPE,
            "view size is not compatible with the size and stride of 'x' (at least one dimension spans across "
            "two contiguous subspaces). Use reshape(...) instead: it copies where it must");
    }
    return td_infer_append(f, &out, e);
}

/* The storage's size is not known here: whoever holds it checks the result against it (td_desc_check). */
TD_RULE(as_strided)
{
    td_desc out = *td_in(f, 0);
    int n, m;
    const int64_t *shape = td_attr_ints(f->attrs, 0, &n), *stride = td_attr_ints(f->attrs, 1, &m);
    f->compute = (td_dtype)out.dtype;
    if (n != m) return td_fail(e, TD_E_INVALID, "mismatch in length of 'shape' (%d) and 'stride' (%d)", n, m);
    if (n > TD_MAX_DIMS) return too_many_dims(n, e);
    out.ndim = (uint8_t)n;
    memcpy(out.shape, shape, (size_t)n * sizeof *shape);
    memcpy(out.stride, stride, (size_t)n * sizeof *stride);
    out.offset = td_attr_int(f->attrs, 2);
    TD_TRY(td_desc_check(&out, INT64_MAX, e));
    return td_infer_append(f, &out, e);
}

/* The offset and the first strides, in elements of which `ratio` were one. */
static int count_finer(td_desc *d, int strides, int64_t ratio, td_error *e)
{
    bool over = __builtin_mul_overflow(d->offset, ratio, &d->offset);
    for (int i = 0; i < strides; i++) over |= __builtin_mul_overflow(d->stride[i], ratio, &d->stride[i]);
    return over ? td_fail(e, TD_E_SHAPE, "the sizes or strides overflow") : TD_OK;
}

/* To narrower elements: the last dimension grows. */
static int narrow_elements(td_desc *d, int64_t ratio, td_error *e)
{
    int64_t *last = &d->shape[d->ndim - 1];
    if (__builtin_mul_overflow(*last, ratio, last)) return td_fail(e, TD_E_SHAPE, "the sizes or strides overflow");
    return count_finer(d, d->ndim - 1, ratio, e);
}

static int must_divide(const char *what, int64_t v, int64_t ratio, const char *as, td_error *e)
{
    if (v % ratio == 0) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "the %s of 'x' must be divisible by %" PRId64 " to view it as %s, but is %" PRId64,
                   what, ratio, as, v);
}

/* To wider elements: the last dimension, the offset and all other strides must divide. */
static int widen_elements(td_desc *d, int64_t ratio, const char *as, td_error *e)
{
    int last = d->ndim - 1;
    TD_TRY(must_divide("last size", d->shape[last], ratio, as, e));
    TD_TRY(must_divide("offset", d->offset, ratio, as, e));
    for (int i = 0; i < last; i++) {
        TD_TRY(must_divide("stride", d->stride[i], ratio, as, e));
        d->stride[i] /= ratio;
    }
    d->shape[last] /= ratio;
    d->offset /= ratio;
    return TD_OK;
}

TD_RULE(view_dtype)
{
    td_desc out = *td_in(f, 0);
    td_dtype t = td_attr_dtype(f->attrs, 0);
    const char *was = td_dtype_name((td_dtype)out.dtype), *as = td_dtype_name(t);
    int64_t from = (int64_t)td_dtype_size((td_dtype)out.dtype), to = (int64_t)td_dtype_size(t);
    f->compute = t;
    out.dtype = (uint8_t)t;
    if (from != to) {
        if (out.ndim == 0)
            return td_fail(e, TD_E_SHAPE, "'x' cannot be 0-dimensional to view %s as %s (different element sizes)", was,
                           as);
        if (out.stride[out.ndim - 1] != 1)
            return td_fail(e, TD_E_SHAPE, "the last stride of 'x' must be 1 to view %s as %s (different element sizes)",
                           was, as);
        TD_TRY(from > to ? narrow_elements(&out, from / to, e) : widen_elements(&out, to / from, as, e));
    }
    return td_infer_append(f, &out, e);
}

/* Every other number of the memory of complex ones. */
static int real_numbers(td_inference *f, td_desc *d, td_error *e)
{
    f->compute = td_dtype_real((td_dtype)d->dtype);
    d->dtype = (uint8_t)f->compute;
    return count_finer(d, d->ndim, 2, e);
}

TD_RULE(view_as_real)
{
    td_desc out = *td_in(f, 0);
    if (out.ndim == TD_MAX_DIMS) return too_many_dims(out.ndim + 1, e);
    TD_TRY(real_numbers(f, &out, e));
    out.shape[out.ndim] = 2;
    out.stride[out.ndim++] = 1;
    return td_infer_append(f, &out, e);
}

TD_RULE(view_part)
{
    td_desc out = *td_in(f, 0);
    int64_t part = td_attr_int(f->attrs, 0);
    if (part != 0 && part != 1)
        return td_fail(e, TD_E_INVALID, "part is 0 (the real numbers) or 1 (the imaginary ones), not %" PRId64, part);
    TD_TRY(real_numbers(f, &out, e));
    out.offset += part;
    return td_infer_append(f, &out, e);
}

TD_RULE(view_as_complex)
{
    td_desc out = *td_in(f, 0);
    int last = out.ndim - 1;
    bool some = td_desc_numel(&out) > 0, odd = out.offset % 2 != 0;
    f->compute = td_dtype_complex((td_dtype)out.dtype);
    if (last < 0 || out.shape[last] != 2) return td_fail(e, TD_E_SHAPE, "Tensor must have a last dimension of size 2");
    if (some && out.stride[last] != 1) return td_fail(e, TD_E_SHAPE, "Tensor must have a last dimension with stride 1");
    if (some && odd) return td_fail(e, TD_E_SHAPE, "Tensor must have a storage_offset divisible by 2");
    for (int i = 0; i < last; i++) {
        if (some && out.shape[i] > 1 && out.stride[i] % 2)
            return td_fail(e, TD_E_SHAPE, "Tensor must have a stride divisible by 2 for all but last dimension");
        out.stride[i] /= 2;
    }
    out.dtype = (uint8_t)f->compute;
    out.ndim--;
    out.offset /= 2;
    return td_infer_append(f, &out, e);
}

TD_RULE(detach)
{
    f->compute = td_in_dtype(f, 0);
    return td_infer_append(f, td_in(f, 0), e);
}

static int expand_dim(int i, int64_t want, int64_t old, bool exists, int64_t *size, td_error *e)
{
    *size = want == -1 && exists ? old : want;
    if (*size < 0)
        return td_fail(e, TD_E_SHAPE, "the expanded size of the tensor (%" PRId64 ") isn't allowed in a %sdimension %d",
                       want, exists ? "" : "leading, non-existing ", i);
    if (old == 1 || old == *size) return TD_OK;
    return td_fail(e, TD_E_SHAPE,
                   "The expanded size of the tensor (%" PRId64 ") must match the existing size (%" PRId64
                   ") at non-singleton dimension %d",
                   want, old, i);
}

TD_RULE(expand)
{
    const td_desc *x = td_in(f, 0);
    td_desc out;
    int64_t shape[TD_MAX_DIMS];
    int n;
    const int64_t *want = td_attr_ints(f->attrs, 0, &n);
    f->compute = (td_dtype)x->dtype;
    if (n > TD_MAX_DIMS) return too_many_dims(n, e);
    if (n < x->ndim)
        return td_fail(
            e, TD_E_SHAPE,
            "the number of sizes provided (%d) must be greater or equal to the number of dimensions of 'x' (%d)", n,
            x->ndim);
    for (int i = 0, lead = n - x->ndim; i < n; i++)
        TD_TRY(expand_dim(i, want[i], i < lead ? 1 : x->shape[i - lead], i >= lead, &shape[i], e));
    td_desc_broadcast_to(x, n, shape, &out);
    TD_TRY(td_desc_check(&out, INT64_MAX, e));
    return td_infer_append(f, &out, e);
}

TD_RULE(permute)
{
    const td_desc *x = td_in(f, 0);
    td_desc out = *x;
    int n, from;
    unsigned seen = 0;
    const int64_t *dims = td_attr_ints(f->attrs, 0, &n);
    f->compute = (td_dtype)x->dtype;
    if (n != x->ndim)
        return td_fail(e, TD_E_SHAPE, "number of dims don't match in permute: 'dims' has %d, 'x' has %d", n, x->ndim);
    for (int i = 0; i < n; i++) {
        TD_TRY(td_wrap_dim(dims[i], x->ndim, &from, e));
        if (seen >> from & 1)
            return td_fail(e, TD_E_INVALID, "repeated dim in permute: %d stands twice in 'dims'", from);
        seen |= 1u << from;
        out.shape[i] = x->shape[from];
        out.stride[i] = x->stride[from];
    }
    return td_infer_append(f, &out, e);
}

TD_RULE(transpose)
{
    const td_desc *x = td_in(f, 0);
    td_desc out = *x;
    int a, b;
    f->compute = (td_dtype)x->dtype;
    TD_TRY(td_infer_dim(f, 0, x->ndim, &a, e));
    TD_TRY(td_infer_dim(f, 1, x->ndim, &b, e));
    if (x->ndim > 0) {
        out.shape[a] = x->shape[b], out.stride[a] = x->stride[b];
        out.shape[b] = x->shape[a], out.stride[b] = x->stride[a];
    }
    return td_infer_append(f, &out, e);
}

TD_RULE(squeeze)
{
    const td_desc *x = td_in(f, 0);
    td_desc out = *x;
    unsigned chosen;
    f->compute = (td_dtype)x->dtype;
    TD_TRY(td_infer_dims(f, 0, x->ndim, &chosen, e));
    if (!td_attr_given(f->attrs, 0)) chosen = ~0u;
    out.ndim = 0;
    for (int i = 0; i < x->ndim; i++) {
        if (x->shape[i] == 1 && (chosen >> i & 1)) continue;
        out.shape[out.ndim] = x->shape[i];
        out.stride[out.ndim++] = x->stride[i];
    }
    return td_infer_append(f, &out, e);
}

TD_RULE(unsqueeze)
{
    const td_desc *x = td_in(f, 0);
    td_desc out = *x;
    int dim;
    f->compute = (td_dtype)x->dtype;
    TD_TRY(td_infer_dim(f, 0, x->ndim + 1, &dim, e));
    if (x->ndim == TD_MAX_DIMS) return too_many_dims(x->ndim + 1, e);
    for (int i = x->ndim; i > dim; i--) out.shape[i] = x->shape[i - 1], out.stride[i] = x->stride[i - 1];
    out.shape[dim] = 1;
    out.stride[dim] = dim < x->ndim ? times(x->shape[dim], x->stride[dim]) : 1;
    out.ndim++;
    return td_infer_append(f, &out, e);
}
