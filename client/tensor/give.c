/* From the arguments of a C call to the attributes of an op. */
#include "client/tensor/internal.h"
#include "client/tensor/recorder.h"
#include "client/tensor/run.h"

#include <string.h>

static bool wrong(const td_attrs *a, const td_op *op, const char *problem)
{
    td_raise(TD_E_TYPE, op->name, "argument '%s' %s", op->attrs[a->count].name, problem);
    return false;
}

static bool given(bool ok, const td_op *op)
{
    if (!ok)
        td_raise(TD_E_INVALID, op->name, "too many integers; all lists of one call together may have %d", TD_MAX_INTS);
    return ok;
}

static td_scalar number_of(td_arg v)
{
    switch (v.kind) {
    case TD_ARG_BOOL: return td_bool(v.i != 0);
    case TD_ARG_FLOAT: return td_float(v.re);
    case TD_ARG_COMPLEX: return td_complex(v.re, v.im);
    default: return td_int(v.i);
    }
}

static bool give_number(td_attrs *a, const td_op *op, td_arg v)
{
    const td_attr_def *def = &op->attrs[a->count];
    if (v.kind == TD_ARG_ARRAY)
        return wrong(a, op, "must be a number, not an array; td_item() gives the number in one");
    if (v.kind == TD_ARG_NONE) return given(td_attrs_none(a), op);
    bool integral = v.kind == TD_ARG_INT || v.kind == TD_ARG_BOOL;
    switch (def->kind) {
    case TD_A_INT: return integral ? given(td_attrs_int(a, v.i), op) : wrong(a, op, "must be an integer");
    case TD_A_BOOL: return integral ? given(td_attrs_bool(a, v.i != 0), op) : wrong(a, op, "must be a bool");
    case TD_A_FLOAT:
        if (v.kind == TD_ARG_COMPLEX) return wrong(a, op, "must be a real number");
        return given(td_attrs_float(a, integral ? (double)v.i : v.re), op);
    default: return given(td_attrs_scalar(a, number_of(v)), op);
    }
}

bool td_give_number(td_attrs *a, const td_op *op, td_arg v)
{
    if (!give_number(a, op, v)) return false;
    if (td_recording) td_recording->give(a, v);
    return true;
}

bool td_give_int(td_attrs *a, const td_op *op, int64_t v)
{
    return given(td_attrs_int(a, v), op);
}

bool td_give_float(td_attrs *a, const td_op *op, double v)
{
    return given(td_attrs_float(a, v), op);
}

bool td_give_bool(td_attrs *a, const td_op *op, bool v)
{
    return given(td_attrs_bool(a, v), op);
}

bool td_give_dtype(td_attrs *a, const td_op *op, td_dtype v)
{
    return given(v == TD_DTYPE_NONE ? td_attrs_none(a) : td_attrs_dtype(a, v), op);
}

bool td_give_text(td_attrs *a, const td_op *op, const char *v)
{
    if (!v && !op->attrs[a->count].optional) return wrong(a, op, "must be a text");
    if (!v) return given(td_attrs_none(a), op);
    size_t n = strnlen(v, TD_MAX_TEXT + 1);
    if (n > TD_MAX_TEXT) {
        td_raise(TD_E_INVALID, op->name, "argument '%s' has at most %d characters", op->attrs[a->count].name,
                 TD_MAX_TEXT);
        return false;
    }
    return given(td_attrs_text(a, v, n), op);
}

bool td_give_ints(td_attrs *a, const td_op *op, td_ints v)
{
    if (!given(v.at ? td_attrs_ints(a, v.n, v.at) : td_attrs_none(a), op)) return false;
    if (td_recording && v.at) td_recording->give_ints(a, v);
    return true;
}

bool td_give_list(td_arg *in, int *n, const td_op *op, td_list l)
{
    if (l.n < 0 || l.n > TD_MAX_LIST) {
        td_raise(TD_E_INVALID, op->name, "%d tensors in a list; at most %d", l.n, TD_MAX_LIST);
        return false;
    }
    for (int i = 0; i < l.n; i++) in[(*n)++] = td_arg_array(l.at[i]);
    return true;
}
