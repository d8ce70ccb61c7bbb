/* Creation ops: the shape comes from attributes, the dtype from the `dtype` attribute (always given: clients resolve
 * defaults), and the device from td_inference.device. And the one op that takes a tensor from one to another. */
#include "proto/infer/infer.h"

#include <inttypes.h>
#include <math.h>

static int make(td_inference *f, int ndim, const int64_t *shape, td_error *e)
{
    td_dtype t = td_attr_dtype(f->attrs, td_infer_attr_of(f, TD_A_DTYPE));
    f->compute = t;
    TD_TRY(td_infer_takes(f, "dtype", t, e));
    return td_infer_make(f, t, ndim, shape, e);
}

TD_RULE(to_device)
{
    int64_t device = td_attr_int(f->attrs, 0);
    if (device < 0 || device >= TD_MAX_DEVICES)
        return td_fail(e, TD_E_INVALID, "'device' must be the number of a device, from 0 to %d, got %" PRId64,
                       TD_MAX_DEVICES - 1, device);
    f->compute = td_in_dtype(f, 0);
    TD_TRY(td_infer_like(f, f->compute, td_in(f, 0), e));
    f->out[0].device = (uint8_t)device;
    return TD_OK;
}

TD_RULE(shape)
{
    int n, k = td_infer_attr_of(f, TD_A_INTS);
    const int64_t *shape = td_attr_ints(f->attrs, k, &n);
    return make(f, n, shape, e);
}

TD_RULE(full)
{
    td_dtype t = td_attr_dtype(f->attrs, td_infer_attr_of(f, TD_A_DTYPE));
    if (!td_scalar_fits(f->attrs->at[td_infer_attr_of(f, TD_A_SCALAR)].s, t))
        return td_fail(e, TD_E_INVALID, "'value' cannot be converted to %s without overflow", td_dtype_name(t));
    return td_infer_shape(f, e);
}

static double real(td_scalar s)
{
    return s.kind <= TD_S_INT ? (double)s.i : s.re;
}

/* How many steps of int64 arithmetic, without its overflow. */
static int count_whole(int64_t start, int64_t end, int64_t step, int64_t *n)
{
    __int128 span = (__int128)end - start, count = (span + step - (step > 0 ? 1 : -1)) / step;
    *n = (int64_t)count;
    return count == *n;
}

static int count_steps(const td_scalar *s, int64_t *n, td_error *e)
{
    double start = real(s[0]), end = real(s[1]), step = real(s[2]);
    if (step == 0) return td_fail(e, TD_E_INVALID, "'step' must be nonzero");
    if (!isfinite(start) || !isfinite(end) || isnan(step))
        return td_fail(e, TD_E_INVALID, "unsupported range: %g -> %g", start, end);
    if (end != start && (end > start) != (step > 0))
        return td_fail(e, TD_E_INVALID, "upper bound and lower bound inconsistent with step sign: %g -> %g by %g",
                       start, end, step);
    bool whole = s[0].kind <= TD_S_INT && s[1].kind <= TD_S_INT && s[2].kind <= TD_S_INT;
    double count = ceil((end - start) / step);
    if (whole ? !count_whole(s[0].i, s[1].i, s[2].i, n) : !(count < 0x1p62))
        return td_fail(e, TD_E_SHAPE, "the range %g -> %g by %g has too many elements", start, end, step);
    if (!whole) *n = (int64_t)count;
    return TD_OK;
}

TD_RULE(arange)
{
    td_scalar s[3];
    td_dtype t = td_attr_dtype(f->attrs, 3);
    int64_t n;
    for (int k = 0; k < 3; k++) {
        s[k] = f->attrs->at[k].s;
        if (s[k].kind == TD_S_COMPLEX)
            return td_fail(e, TD_E_TYPE, "'%s' must not be a complex number", f->op->attrs[k].name);
        if (t != TD_INT64 || s[k].kind <= TD_S_INT) continue;
        /* int64 ranges are counted in whole numbers, as they are filled. */
        if (!td_scalar_fits(s[k], TD_INT64))
            return td_fail(e, TD_E_INVALID, "'%s' cannot be converted to int64 without overflow", f->op->attrs[k].name);
        s[k] = td_int((int64_t)s[k].re);
    }
    TD_TRY(count_steps(s, &n, e));
    return make(f, 1, &n, e);
}

TD_RULE(linspace)
{
    int64_t n = td_attr_int(f->attrs, 2);
    if (n < 0) return td_fail(e, TD_E_INVALID, "number of 'steps' must be non-negative, got %" PRId64, n);
    return make(f, 1, &n, e);
}

TD_RULE(eye)
{
    int64_t shape[2] = {td_attr_int(f->attrs, 0), td_attr_int(f->attrs, 1)};
    for (int k = 0; k < 2; k++)
        if (shape[k] < 0)
            return td_fail(e, TD_E_INVALID, "'%s' must be greater or equal to 0, got %" PRId64, f->op->attrs[k].name,
                           shape[k]);
    return make(f, 2, shape, e);
}

TD_RULE(empty_strided)
{
    int n, m;
    const int64_t *shape = td_attr_ints(f->attrs, 0, &n), *stride = td_attr_ints(f->attrs, 1, &m);
    if (n != m) return td_fail(e, TD_E_INVALID, "mismatch in length of 'shape' (%d) and 'stride' (%d)", n, m);
    TD_TRY(make(f, n, shape, e));
    memcpy(f->out[0].stride, stride, (size_t)n * sizeof *stride);
    return td_desc_check(&f->out[0], INT64_MAX, e);
}

TD_RULE(randint)
{
    int64_t low = td_attr_int(f->attrs, 0), high = td_attr_int(f->attrs, 1);
    td_dtype t = td_attr_dtype(f->attrs, 3);
    if (low >= high)
        return td_fail(e, TD_E_INVALID,
                       "expects 'low' to be less than 'high', but got low=%" PRId64 " >= high=%" PRId64, low, high);
    bool negative_unsigned = td_dtype_is_unsigned(t) && low < 0;
    if (negative_unsigned || !td_scalar_fits(td_int(low), t) || !td_scalar_fits(td_int(high - 1), t))
        return td_fail(e, TD_E_INVALID, "'low' or 'high' - 1 is out of bounds for %s", td_dtype_name(t));
    return td_infer_shape(f, e);
}

/* Whole numbers up to this are exact in a dtype. */
static int64_t exact_to(td_dtype t)
{
    static const int64_t most[TD_DTYPE_COUNT] = {1,         UINT8_MAX, INT8_MAX,   INT16_MAX,  INT32_MAX,
                                                 INT64_MAX, 1 << 11,   1 << 8,     1 << 24,    INT64_C(1) << 53,
                                                 0,         0,         UINT16_MAX, UINT32_MAX, INT64_MAX};
    return most[t];
}

TD_RULE(randperm)
{
    int64_t n = td_attr_int(f->attrs, 0);
    td_dtype t = td_attr_dtype(f->attrs, 1);
    if (n < 0) return td_fail(e, TD_E_INVALID, "'n' must be non-negative, got %" PRId64, n);
    if (n > 0 && n - 1 > exact_to(t))
        return td_fail(e, TD_E_INVALID, "'n' is too large for result tensor type %s: %" PRId64, td_dtype_name(t), n);
    return make(f, 1, &n, e);
}

/* A parameter of a distribution, attribute `k`, that must be above 0. */
static int positive(td_inference *f, int k, td_error *e)
{
    double v = td_attr_float(f->attrs, k);
    if (!(v > 0))
        return td_fail(e, TD_E_INVALID, "%s_ expects %s > 0.0, but found %s=%g", f->op->name, f->op->attrs[k].name,
                       f->op->attrs[k].name, v);
    return td_infer_shape(f, e);
}

TD_RULE(exponential)
{
    return positive(f, 1, e);
}

TD_RULE(cauchy)
{
    return positive(f, 2, e);
}

TD_RULE(log_normal)
{
    return positive(f, 2, e);
}

TD_RULE(geometric)
{
    double p = td_attr_float(f->attrs, 1);
    if (!(p > 0 && p < 1)) return td_fail(e, TD_E_INVALID, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    return td_infer_shape(f, e);
}

TD_RULE(multinomial)
{
    td_desc out = *td_in(f, 0);
    int64_t n = td_attr_int(f->attrs, 0);
    f->compute = (td_dtype)out.dtype;
    if (out.ndim != 1 && out.ndim != 2) return td_fail(e, TD_E_SHAPE, "prob_dist must be 1 or 2 dim, not %d", out.ndim);
    int64_t classes = out.shape[out.ndim - 1];
    if (n < 1) return td_fail(e, TD_E_INVALID, "cannot sample n_sample <= 0 samples: %" PRId64, n);
    if (!td_attr_bool(f->attrs, 1) && n > classes)
        return td_fail(e, TD_E_INVALID,
                       "cannot sample n_sample > prob_dist.size(-1) samples without replacement: %" PRId64
                       " of %" PRId64,
                       n, classes);
    out.shape[out.ndim - 1] = n;
    return td_infer_like(f, TD_INT64, &out, e);
}
