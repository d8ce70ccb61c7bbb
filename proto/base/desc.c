/* Descriptors: building, checking, comparing, broadcasting. Everything here is arithmetic on values; nothing
 * allocates. Invariant kept: a descriptor that these functions make has passed the checks of desc.h. */
#include "proto/base/desc.h"

#include <inttypes.h>
#include <stdio.h>

/* Row-major strides as if no dimension were empty; false when the reach in bytes leaves int64. */
static bool pack(td_desc *d)
{
    int64_t run = 1, bytes;
    for (int i = d->ndim - 1; i >= 0; i--) {
        d->stride[i] = run;
        if (__builtin_mul_overflow(run, d->shape[i] > 1 ? d->shape[i] : 1, &run)) return false;
    }
    return !__builtin_mul_overflow(run, (int64_t)td_dtype_size((td_dtype)d->dtype), &bytes);
}

/* Of a packed shape, so that the product fits. Repeated elements count: what ops make of them takes as much. So do
 * dimensions beside a zero, for loops go over some of the dimensions. */
static int check_count(const td_desc *d, td_error *e)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++) n *= d->shape[i] ? d->shape[i] : 1;
    if (n <= TD_DESC_BYTES / (int64_t)td_dtype_size((td_dtype)d->dtype)) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "%" PRId64 " elements are more than a tensor may have, repeated ones included", n);
}

int td_desc_contiguous(td_desc *d, td_dtype dtype, int ndim, const int64_t *shape, td_error *e)
{
    if (!td_dtype_valid(dtype)) return td_fail(e, TD_E_TYPE, "%d is not a dtype", (int)dtype);
    if (ndim < 0 || ndim > TD_MAX_DIMS)
        return td_fail(e, TD_E_SHAPE, "a tensor has at most %d dimensions, this one would have %d", TD_MAX_DIMS, ndim);
    td_desc r = {.dtype = (uint8_t)dtype, .ndim = (uint8_t)ndim}; /* `shape` may be d's own */
    char text[192];
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return td_fail(e, TD_E_SHAPE, "negative size %" PRId64 " at dimension %d of shape %s", shape[i], i,
                           td_shape_text(ndim, shape, text, sizeof text));
        r.shape[i] = shape[i];
    }
    if (!pack(&r))
        return td_fail(e, TD_E_SHAPE, "shape %s of %s is too large: its bytes do not fit 63 bits",
                       td_shape_text(ndim, shape, text, sizeof text), td_dtype_name(dtype));
    int rc = check_count(&r, e);
    if (!rc) *d = r;
    return rc;
}

void td_desc_pack(td_desc *d)
{
    d->offset = 0;
    pack(d);
}

/* Elements from the first to the last inclusive, 0 when there are none; false on overflow. */
static bool reach(const td_desc *d, int64_t *out)
{
    int64_t last = 0, step;
    bool empty = false;
    for (int i = 0; i < d->ndim; i++) {
        if (d->shape[i] == 0) empty = true;
        if (d->shape[i] <= 1) continue;
        if (__builtin_mul_overflow(d->shape[i] - 1, d->stride[i], &step)) return false;
        if (__builtin_add_overflow(last, step, &last)) return false;
    }
    *out = 0;
    return empty || !__builtin_add_overflow(last, 1, out);
}

static int check_form(const td_desc *d, td_error *e)
{
    if (!td_dtype_valid(d->dtype)) return td_fail(e, TD_E_TYPE, "%u is not a dtype", d->dtype);
    if (d->layout != TD_STRIDED) return td_fail(e, TD_E_UNSUPPORTED, "layout %u is not known", d->layout);
    if (d->device >= TD_MAX_DEVICES) return td_fail(e, TD_E_INVALID, "device %u is not known", d->device);
    if (d->ndim > TD_MAX_DIMS)
        return td_fail(e, TD_E_SHAPE, "a tensor has at most %d dimensions, this one has %u", TD_MAX_DIMS, d->ndim);
    if (d->offset < 0) return td_fail(e, TD_E_INVALID, "negative offset %" PRId64, d->offset);
    for (int i = 0; i < d->ndim; i++) {
        if (d->shape[i] < 0) return td_fail(e, TD_E_SHAPE, "negative size %" PRId64 " at dimension %d", d->shape[i], i);
        if (d->stride[i] < 0)
            return td_fail(e, TD_E_INVALID, "negative stride %" PRId64 " at dimension %d", d->stride[i], i);
    }
    return TD_OK;
}

int td_desc_check(const td_desc *d, uint64_t nbytes, td_error *e)
{
    int rc = check_form(d, e);
    if (rc) return rc;
    int64_t size = (int64_t)td_dtype_size((td_dtype)d->dtype), count, end, bytes;
    td_desc packed = *d; /* the shape alone must be countable too: an expanded one reaches less than it counts */
    bool fits = pack(&packed) && reach(d, &count) && !__builtin_add_overflow(d->offset, count, &end) &&
                !__builtin_mul_overflow(end, size, &bytes);
    if (!fits) return td_fail(e, TD_E_SHAPE, "sizes, strides and offset reach further than 63 bits");
    rc = check_count(d, e);
    if (rc) return rc;
    if (count > 0 && (uint64_t)bytes > nbytes)
        return td_fail(e, TD_E_INVALID,
                       "sizes, strides and offset need a storage of %" PRId64 " bytes, but it has %" PRIu64, bytes,
                       nbytes);
    return TD_OK;
}

int64_t td_desc_numel(const td_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++) n *= d->shape[i];
    return n;
}

uint64_t td_desc_nbytes(const td_desc *d)
{
    return (uint64_t)td_desc_numel(d) * td_dtype_size((td_dtype)d->dtype);
}

bool td_desc_is_contiguous(const td_desc *d)
{
    int64_t run = 1;
    bool packed = true;
    for (int i = d->ndim - 1; i >= 0; i--) {
        if (d->shape[i] == 0) return true;
        if (d->shape[i] == 1) continue;
        packed = packed && d->stride[i] == run;
        run *= d->shape[i];
    }
    return packed;
}

/* The dimension that comes so far out: the channels, places from the last on, images. */
static int nth_channels_last(const td_desc *d, int at)
{
    return at == 0 ? 1 : at == d->ndim - 1 ? 0 : d->ndim - at;
}

void td_desc_pack_channels_last(td_desc *d)
{
    int64_t run = 1;
    d->offset = 0;
    for (int at = 0; at < d->ndim; at++) {
        int i = nth_channels_last(d, at);
        d->stride[i] = run;
        run *= d->shape[i] > 1 ? d->shape[i] : 1;
    }
}

bool td_desc_is_channels_last(const td_desc *d)
{
    if ((d->ndim != 4 && d->ndim != 5) || td_desc_is_contiguous(d)) return false;
    int64_t run = 1;
    int wide = 0;
    for (int at = 0; at < d->ndim; at++) {
        int i = nth_channels_last(d, at);
        if (d->shape[i] == 1 ? d->stride[i] < run : d->stride[i] != run) return false;
        run *= d->shape[i];
        wide += i >= 2 && d->shape[i] > 1;
    }
    return wide >= 2;
}

/* The dimensions that move, by rising stride. Returns how many; -1 when the tensor is empty. */
static int by_stride(const td_desc *d, int *order)
{
    int n = 0;
    for (int i = 0; i < d->ndim; i++) {
        if (d->shape[i] == 0) return -1;
        if (d->shape[i] == 1) continue;
        int at = n++;
        for (; at > 0 && d->stride[order[at - 1]] > d->stride[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return n;
}

bool td_desc_is_dense(const td_desc *d)
{
    int order[TD_MAX_DIMS], n = by_stride(d, order);
    int64_t run = 1;
    for (int k = 0; k < n; k++) {
        if (d->stride[order[k]] != run) return false;
        run *= d->shape[order[k]];
    }
    return true;
}

void td_desc_extent(const td_desc *d, uint64_t *lo, uint64_t *hi)
{
    uint64_t size = td_dtype_size((td_dtype)d->dtype);
    int64_t count = 0;
    if (!reach(d, &count) || count == 0) {
        *lo = *hi = 0;
        return;
    }
    *lo = (uint64_t)d->offset * size;
    *hi = (uint64_t)(d->offset + count) * size;
}

/* Safe when each dimension steps over all that the smaller strides reach. A few exotic as_strided shapes that do not
 * overlap are called overlapping; none that overlaps is missed. */
bool td_desc_self_overlaps(const td_desc *d)
{
    int order[TD_MAX_DIMS], n = by_stride(d, order);
    int64_t last = 0;
    for (int k = 0; k < n; k++) {
        int i = order[k];
        if (d->stride[i] <= last) return true;
        last += (d->shape[i] - 1) * d->stride[i];
    }
    return false;
}

bool td_desc_same_shape(const td_desc *a, const td_desc *b)
{
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

bool td_desc_equal(const td_desc *a, const td_desc *b)
{
    if (a->dtype != b->dtype || a->offset != b->offset || !td_desc_same_shape(a, b)) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->stride[i] != b->stride[i]) return false;
    return true;
}

int td_wrap_dim(int64_t dim, int ndim, int *out, td_error *e)
{
    int n = ndim ? ndim : 1;
    if (dim < -n || dim >= n)
        return td_fail(e, TD_E_INDEX,
                       "Dimension out of range (expected to be in range of [%d, %d], but got %" PRId64 ")", -n, n - 1,
                       dim);
    *out = (int)(dim < 0 ? dim + n : dim);
    return TD_OK;
}

int td_broadcast(int64_t *a_shape, int *a_ndim, const int64_t *b_shape, int b_ndim, td_error *e)
{
    int an = *a_ndim, n = an > b_ndim ? an : b_ndim;
    for (int k = 1; k <= n; k++) {
        int64_t x = k <= an ? a_shape[an - k] : 1, y = k <= b_ndim ? b_shape[b_ndim - k] : 1;
        if (x != y && x != 1 && y != 1)
            return td_fail(e, TD_E_SHAPE,
                           "The size of tensor a (%" PRId64 ") must match the size of tensor b (%" PRId64
                           ") at non-singleton dimension %d",
                           x, y, n - k);
    }
    /* From the right, so that a size is read before its place is taken when a grows. */
    for (int k = 1; k <= n; k++) {
        int64_t x = k <= an ? a_shape[an - k] : 1, y = k <= b_ndim ? b_shape[b_ndim - k] : 1;
        a_shape[n - k] = x == 1 ? y : x;
    }
    *a_ndim = n;
    return TD_OK;
}

void td_desc_broadcast_to(const td_desc *d, int ndim, const int64_t *shape, td_desc *out)
{
    td_desc r = *d;
    int lead = ndim - d->ndim;
    r.ndim = (uint8_t)ndim;
    for (int i = 0; i < ndim; i++) {
        r.shape[i] = shape[i];
        r.stride[i] = i < lead || (d->shape[i - lead] == 1 && shape[i] != 1) ? 0 : d->stride[i - lead];
    }
    *out = r;
}

const char *td_shape_text(int ndim, const int64_t *shape, char *buf, size_t size)
{
    size_t at = 0;
    for (int i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%" PRId64, i ? ", " : "[", shape[i]);
    if (at < size) snprintf(buf + at, size - at, ndim > 0 ? "]" : "[]");
    return buf;
}

const char *td_desc_text(const td_desc *d, char *buf, size_t size)
{
    size_t at = (size_t)snprintf(buf, size, "%s", td_dtype_name((td_dtype)d->dtype));
    if (at < size) td_shape_text(d->ndim, d->shape, buf + at, size - at);
    return buf;
}
