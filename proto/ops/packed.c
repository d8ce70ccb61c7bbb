/* packed, ravel and reshaped: what looks where elements lie, and copies only those that do not lie row by row.
 *
 * Written by hand over the builder of formula.h, as formulas do not compare strides. Invariant: a result that is no
 * copy has the memory of the input; so writes into it are seen in both, in programs as outside of them. */
#include "proto/ops/formula.h"

#include "proto/ops/opid.h"

static bool lies_in_rows(const td_fmeta *m)
{
    bool packed = true;
    int64_t run = 1;
    for (int k = m->ndim - 1; k >= 0; k--) {
        if (m->shape[k] == 0) return true;
        if (m->shape[k] == 1) continue;
        packed = packed && m->stride && m->stride[k] == run;
        run *= m->shape[k];
    }
    return packed;
}

static td_fval packed(td_fx *f)
{
    return lies_in_rows(&f->in_meta[0]) ? f->in[0] : td_fx_cast(f, f->in[0], TD_DTYPE_NONE);
}

void td_compose_packed(td_fx *f)
{
    f->made.v[0] = packed(f);
}

void td_compose_ravel(td_fx *f)
{
    f->made.v[0] = td_fx_reshape(f, packed(f), (td_fints){1, (int64_t[]){td_fi_numel(td_fi_shape(f->in_meta[0]))}});
}

/* Is it a shape of so many elements? */
static bool fits(td_fints shape, int64_t numel)
{
    int64_t known = 1;
    int open = 0;
    for (int k = 0; k < shape.n; k++) {
        if (shape.v[k] < -1) return false;
        if (shape.v[k] == -1) open++;
        else known = td_fi_mul(known, shape.v[k]);
    }
    return open == 0 ? known == numel : open == 1 && known != 0 && numel % known == 0;
}

void td_compose_reshaped(td_fx *f)
{
    td_fints shape = td_fx_attr_ints(f, 0);
    if (fits(shape, td_fi_numel(td_fi_shape(f->in_meta[0])))) {
        f->made.v[0] = td_fx_reshape(f, f->in[0], shape);
        return;
    }
    td_attrs as_given; /* view says what is wrong with it */
    td_attrs_init(&as_given);
    td_fx_push_ints(f, &as_given, shape);
    f->made.v[0] = td_fx_op(f, TD_OP_VIEW, 1, f->in, &as_given);
}
