/* Another default dtype than float32. The table turns whole numbers into float32 where it needs floats, and knows no
 * default: that one is Python's, so whole numbers become the default dtype here, before the op sees them.
 *
 * Invariant: with float32 as the default nothing is done; with another, only to calls whose floats come from nowhere
 * but a number of Python or the op itself. */
#include "client/python/src/py.h"

#include "proto/ops/opid.h"

static bool is_whole(td_arg a)
{
    return a.kind == TD_ARG_ARRAY && a.array && td_dtype_is_integral(td_dtype_of(a.array));
}

/* Does inference choose float32 for want of a float? What it refuses the call itself will say. */
static bool chooses_float32(const td_op *op, int nin, const td_arg *in, const td_attrs *attrs)
{
    td_operand operands[TDPY_DEFAULT_ROOM] = {{NULL, NULL}};
    td_scalar numbers[TDPY_DEFAULT_ROOM];
    td_desc out[TDPY_DEFAULT_ROOM];
    td_inference f = {.op = op, .in = operands, .nin = nin, .attrs = attrs, .out = out, .max_out = TDPY_DEFAULT_ROOM};
    for (int i = 0; i < nin; i++) {
        bool array = in[i].kind == TD_ARG_ARRAY;
        if (array && in[i].array && !is_whole(in[i])) return false;
        if (array && in[i].array) operands[i].desc = td_desc_known(in[i].array);
        if (array) continue;
        numbers[i] = td_scalar_of(in[i]);
        operands[i].scalar = &numbers[i];
    }
    for (int k = 0; k < op->nattrs; k++)
        if (op->attrs[k].kind == TD_A_DTYPE && td_attr_given(attrs, k)) return false; /* sum(dtype=float32) */
    return !td_op_infer(&f, NULL) && (f.compute == TD_FLOAT32 || f.compute == TD_COMPLEX64);
}

/* In where() the numbers change, as its first tensor is a mask; elsewhere the tensors. */
static bool changes(const td_op *op, td_arg a)
{
    return op->id == TD_OP_WHERE ? a.kind == TD_ARG_FLOAT : is_whole(a);
}

static td_array *in_default(const char *where, td_arg a)
{
    if (a.kind == TD_ARG_ARRAY) return td_at_to(where, a.array, tdpy.default_dtype);
    return td_at_full(where, tdpy_client(), td_dims(), a, tdpy.default_dtype);
}

bool tdpy_use_default(tdpy_defaults *d, const char *where, const td_op *op, int nin, td_arg *in, const td_attrs *attrs)
{
    d->n = 0;
    if (tdpy.default_dtype == TD_FLOAT32 || nin > TDPY_DEFAULT_ROOM || op->nouts > TDPY_DEFAULT_ROOM) return true;
    if (!(op->flags & TD_OF_POINTWISE) && op->promote != TD_PROMOTE_FLOAT) return true;
    if (!chooses_float32(op, nin, in, attrs)) return true;
    for (int i = 0; i < nin; i++) {
        if (!changes(op, in[i])) continue;
        td_array *a = in_default(where, in[i]);
        if (!a) return false;
        in[i] = td_arg_array(d->made[d->n++] = a);
    }
    return true;
}

void tdpy_defaults_clear(tdpy_defaults *d)
{
    while (d->n > 0) td_release(d->made[--d->n]);
}
