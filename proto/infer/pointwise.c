/* Pointwise ops: broadcast the shapes, promote the dtypes by the op's `promote` column. How it lies: infer/format.c. A
 * few ops have a rule of their own in front, for arguments that do not take part or may not be combined. */
#include "proto/infer/infer.h"

/* The dtype that inputs of common dtype `t` are computed in. */
static td_dtype computed(const td_inference *f, td_dtype t)
{
    return f->op->promote == TD_PROMOTE_FLOAT && td_dtype_is_integral(t) ? TD_FLOAT32 : t;
}

static td_dtype result(const td_inference *f)
{
    if (f->op->promote == TD_PROMOTE_BOOL) return TD_BOOL;
    return f->op->promote == TD_PROMOTE_ABS ? td_dtype_real(f->compute) : f->compute;
}

/* Compute in the dtype for common dtype `t`, output of the broadcast shape of all inputs. */
static int finish(td_inference *f, td_dtype t, td_error *e)
{
    int64_t shape[TD_MAX_DIMS];
    int ndim;
    f->compute = computed(f, t);
    TD_TRY(td_infer_takes(f, NULL, f->compute, e));
    TD_TRY(td_infer_broadcast(f, 0, shape, &ndim, e));
    return td_infer_make(f, result(f), ndim, shape, e);
}

TD_RULE(pointwise)
{
    td_dtype t;
    TD_TRY(td_infer_promote(f, 0, NULL, &t, e));
    return finish(f, t, e);
}

TD_RULE(hardtanh)
{
    double least = td_attr_float(f->attrs, 0), most = td_attr_float(f->attrs, 1);
    if (least > most)
        return td_fail(e, TD_E_INVALID, "'min' must be no greater than 'max', but they are %g and %g", least, most);
    return td_infer_pointwise(f, e);
}

TD_RULE(softshrink)
{
    double by = td_attr_float(f->attrs, 0);
    if (!(by >= 0)) return td_fail(e, TD_E_INVALID, "'lambd' must be at least 0, not %g", by);
    return td_infer_pointwise(f, e);
}

/* With one number (alpha, value) that scales an argument. */
TD_RULE(scaled)
{
    td_dtype t;
    TD_TRY(td_infer_promote(f, 0, NULL, &t, e));
    TD_TRY(td_infer_alpha(f, td_infer_attr_of(f, TD_A_SCALAR), computed(f, t), e));
    return finish(f, t, e);
}

static bool is_bool_tensor(const td_operand *in)
{
    return in->desc && in->desc->dtype == TD_BOOL;
}

TD_RULE(sub)
{
    bool x = is_bool_tensor(&f->in[0]), y = is_bool_tensor(&f->in[1]);
    if (x && y)
        return td_fail(e, TD_E_TYPE,
                       "subtraction with two bool tensors is not supported: use bitwise_xor or logical_xor instead");
    if (x || y)
        return td_fail(e, TD_E_TYPE,
                       "subtraction with a bool tensor ('%s') is not supported: to invert a mask, use bitwise_not or "
                       "logical_not instead",
                       td_infer_name(f, x ? 0 : 1));
    return td_infer_scaled(f, e);
}

TD_RULE(pow)
{
    const td_scalar *y = f->in[1].scalar;
    td_dtype t;
    TD_TRY(td_infer_promote(f, 0, NULL, &t, e));
    if (t == TD_BOOL && !y)
        return td_fail(e, TD_E_TYPE,
                       "\"pow\" is not implemented for bool: 'y' may be True or False, or of another dtype");
    if (f->in[0].desc && y && y->kind == TD_S_INT && y->i < 0 && td_dtype_is_integral(t))
        return td_fail(e, TD_E_TYPE, "integers to negative integer powers are not allowed: 'x' is %s and 'y' is %lld",
                       td_dtype_name(td_in_dtype(f, 0)), (long long)y->i);
    return finish(f, t, e);
}

TD_RULE(squared)
{
    td_dtype t = td_in_dtype(f, 0);
    return finish(f, t == TD_BOOL ? TD_INT64 : t, e);
}

/* The condition is a mask: it broadcasts, but does not promote. */
TD_RULE(where)
{
    td_dtype t;
    TD_TRY(td_infer_is_bool(f, 0, e));
    TD_TRY(td_infer_promote(f, 1, NULL, &t, e));
    return finish(f, t, e);
}

/* The bounds promote like numbers, unless x is a float anyway. */
TD_RULE(clamp)
{
    td_dtype t = td_in_dtype(f, 0), with;
    if (!td_attr_given(f->attrs, 0) && !td_attr_given(f->attrs, 1))
        return td_fail(e, TD_E_INVALID, "at least one of 'min' or 'max' must not be none");
    for (int k = 0; k < 2; k++) {
        if (!td_attr_given(f->attrs, k)) continue;
        TD_TRY(td_infer_promote(f, 0, &f->attrs->at[k].s, &with, e));
        if (td_dtype_category(with) > td_dtype_category(t)) t = with;
    }
    return finish(f, t, e);
}

TD_RULE(lerp)
{
    if (f->in[2].scalar && f->in[2].scalar->kind == TD_S_COMPLEX && !td_dtype_is_complex(td_in_dtype(f, 0)))
        return td_fail(e, TD_E_TYPE, "'weight' is complex, but 'x' is %s", td_dtype_name(td_in_dtype(f, 0)));
    return finish(f, td_in_dtype(f, 0), e);
}

TD_RULE(addcdiv)
{
    if (td_dtype_is_integral(td_in_dtype(f, 1)) && td_dtype_is_integral(td_in_dtype(f, 2)))
        return td_fail(e, TD_E_TYPE,
                       "integer division with addcdiv is not supported ('t1' is %s, 't2' is %s): divide with div() or "
                       "trunc_divide() and add",
                       td_dtype_name(td_in_dtype(f, 1)), td_dtype_name(td_in_dtype(f, 2)));
    return td_infer_scaled(f, e);
}

/* The result keeps the dtype of x; the value is one number or a 0-d tensor. */
TD_RULE(masked_fill)
{
    td_dtype t = td_in_dtype(f, 0);
    TD_TRY(td_infer_is_bool(f, 1, e));
    const td_desc *v = f->in[2].desc;
    if (v && v->ndim > 0)
        return td_fail(e, TD_E_SHAPE, "'value' must be a number or a 0-dimensional tensor, but has %d dimension(s)",
                       v->ndim);
    bool halved = v && td_dtype_is_complex((td_dtype)v->dtype) && !td_dtype_is_complex(t) && t != TD_BOOL;
    if (halved) /* its imaginary part would be lost */
        return td_fail(e, TD_E_TYPE, "'value' is %s and cannot be converted to %s without overflow: give a real one",
                       td_dtype_name((td_dtype)v->dtype), td_dtype_name(t));
    if (!v && !td_scalar_fits(*f->in[2].scalar, t))
        return td_fail(e, TD_E_INVALID, "'value' cannot be converted to %s without overflow", td_dtype_name(t));
    return finish(f, t, e);
}

/* The dtype attribute, or that of x. */
TD_RULE(cast)
{
    td_dtype t = td_attr_dtype(f->attrs, 0);
    f->compute = t == TD_DTYPE_NONE ? td_in_dtype(f, 0) : t;
    return td_infer_like(f, f->compute, td_in(f, 0), e);
}

TD_RULE(cast_last)
{
    char text[TD_TEXT];
    const td_desc *x = td_in(f, 0);
    if (x->ndim != 4 && x->ndim != 5)
        return td_fail(e, TD_E_SHAPE, "required rank 4 or 5 tensor to use channels last, but 'x' is %s",
                       TD_SHAPE(x, text));
    TD_TRY(td_infer_cast(f, e));
    td_desc_pack_channels_last(&f->out[0]);
    return TD_OK;
}
