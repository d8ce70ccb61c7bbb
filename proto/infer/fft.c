/* Fourier transforms along dimensions: attribute 0 lists them, the last one is where a line is real. Invariant: at
 * least one dimension, at most what the kernel has phases for, none without places. */
#include "proto/infer/infer.h"

#include <inttypes.h>

enum { MOST = 5 };

/* The dimensions, checked; the last of them. */
static int transformed(const td_inference *f, unsigned *bits, int *last, td_error *e)
{
    int n, ndim = td_in(f, 0)->ndim;
    const int64_t *dims = td_attr_ints(f->attrs, 0, &n);
    int64_t how = td_attr_int(f->attrs, 1);
    if (n < 1 || n > MOST) return td_fail(e, TD_E_INVALID, "'dim' must have 1 to %d dimensions, but has %d", MOST, n);
    if (ndim == 0) return td_fail(e, TD_E_INDEX, "a tensor without dimensions cannot be transformed");
    if (how < 0 || how > 2) return td_fail(e, TD_E_INVALID, "'normalization' must be 0, 1 or 2, got %" PRId64, how);
    TD_TRY(td_infer_dims(f, 0, ndim, bits, e));
    *last = (int)(dims[n - 1] < 0 ? dims[n - 1] + ndim : dims[n - 1]);
    return TD_OK;
}

static int check_sizes(const td_desc *d, unsigned bits, td_error *e)
{
    for (int i = 0; i < d->ndim; i++)
        if (bits >> i & 1 && d->shape[i] < 1)
            return td_fail(e, TD_E_INVALID, "Invalid number of data points (%" PRId64 ") specified", d->shape[i]);
    return TD_OK;
}

TD_RULE(fft_c2c)
{
    unsigned bits;
    int last;
    TD_TRY(transformed(f, &bits, &last, e));
    TD_TRY(check_sizes(td_in(f, 0), bits, e));
    f->compute = td_in_dtype(f, 0);
    return td_infer_like(f, f->compute, td_in(f, 0), e);
}

TD_RULE(fft_r2c)
{
    unsigned bits;
    int last;
    TD_TRY(transformed(f, &bits, &last, e));
    TD_TRY(check_sizes(td_in(f, 0), bits, e));
    td_desc out = *td_in(f, 0);
    f->compute = td_in_dtype(f, 0);
    if (td_attr_bool(f->attrs, 2)) out.shape[last] = out.shape[last] / 2 + 1;
    return td_infer_like(f, td_dtype_complex(f->compute), &out, e);
}

TD_RULE(fft_c2r)
{
    unsigned bits;
    int last;
    int64_t n = td_attr_int(f->attrs, 2);
    TD_TRY(transformed(f, &bits, &last, e));
    td_desc out = *td_in(f, 0);
    if (n < 1 || out.shape[last] != n / 2 + 1)
        return td_fail(e, TD_E_SHAPE, "%" PRId64 " places need %" PRId64 " along dimension %d, but there are %" PRId64,
                       n, n < 1 ? 1 : n / 2 + 1, last, out.shape[last]);
    out.shape[last] = n;
    TD_TRY(check_sizes(&out, bits, e));
    f->compute = td_in_dtype(f, 0);
    return td_infer_like(f, td_dtype_real(f->compute), &out, e);
}
