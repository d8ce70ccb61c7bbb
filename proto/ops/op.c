/* The op table's one door: find an op, check a call against its signature, infer. Invariant: a rule (../infer) runs
 * only on calls whose operands and attributes have the declared number and kinds, on one device, with an input 0 of a
 * dtype that the op takes; so rules look at shapes and dtypes only. */
#include "proto/ops/op.h"

#include "proto/base/device.h"
#include "proto/infer/infer.h"
#include <assert.h>
#include <stdio.h>

const td_op *td_op_by_name(const char *name)
{
    unsigned lo = 0, hi = td_ops_named;
    while (lo < hi) {
        unsigned mid = (lo + hi) / 2;
        int order = strcmp(name, td_ops[td_ops_by_name[mid]].name);
        if (order == 0) return &td_ops[td_ops_by_name[mid]];
        if (order < 0) hi = mid;
        else lo = mid + 1;
    }
    return NULL;
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

static int check_arity(const td_op *op, int nin, td_error *e)
{
    int fixed = op->nparams - (op->list_param >= 0);
    if (nin < fixed || (op->list_param < 0 && nin > fixed))
        return td_fail(e, TD_E_INVALID, "%s%s takes %s%d tensor%s, but %d %s given", op->name, op->signature,
                       op->list_param >= 0 ? "at least " : "", fixed, plural(fixed), nin, nin == 1 ? "was" : "were");
    return TD_OK;
}

int td_op_check_count(const td_op *op, int nin, td_error *e)
{
    int rc = check_arity(op, nin, e);
    if (rc) return rc;
    if (nin > TD_MAX_INPUTS)
        return td_fail(e, TD_E_INVALID, "%d tensors in one call; at most %d are taken", nin, TD_MAX_INPUTS);
    return TD_OK;
}

static int check_operand(const td_inference *f, int i, td_error *e)
{
    const td_param *p = &f->op->params[td_op_param_of(f->op, f->nin, i)];
    const td_operand *in = &f->in[i];
    if (in->desc) return TD_OK;
    if (in->scalar) {
        if (p->kind == TD_P_NUMBER && (unsigned)in->scalar->kind <= TD_S_COMPLEX) return TD_OK;
        return td_fail(e, TD_E_TYPE, "argument '%s' must be a tensor, not a number", p->name);
    }
    if (p->kind == TD_P_OPTIONAL || p->kind == TD_P_OPTIONAL_LIST) return TD_OK;
    return td_fail(e, TD_E_INVALID, "argument '%s' is required", p->name);
}

/* One device for all; a 0-d CPU tensor may stand beside CUDA tensors in a pointwise op. */
static int check_device(const td_inference *f, int i, int *first, td_error *e)
{
    const td_desc *d = f->in[i].desc;
    if (!d || ((f->op->flags & TD_OF_POINTWISE) && d->ndim == 0 && d->device == TD_CPU)) return TD_OK;
    if (*first < 0) *first = i;
    const td_desc *other = f->in[*first].desc;
    if (d->device == other->device) return TD_OK;
    const char *here = td_device_name(other->device), *there = td_device_name(d->device);
    return td_fail(e, TD_E_INVALID,
                   "Expected all tensors to be on the same device, but found at least two devices, %s and %s: '%s' is "
                   "on %s, '%s' on %s",
                   here, there, td_infer_name(f, *first), here, td_infer_name(f, i), there);
}

/* A device is named for what is made of nothing. */
static int check_made(const td_inference *f, td_error *e)
{
    if (f->device >= TD_MAX_DEVICES) return td_fail(e, TD_E_INVALID, "device %u is not known", f->device);
    if (f->op->flags & TD_OF_CREATION) return TD_OK;
    return td_fail(e, TD_E_INVALID, "%s takes no device: its result lies where its tensors do", f->op->name);
}

static int check_operands(const td_inference *f, td_error *e)
{
    int first = -1, rc = f->whole ? check_arity(f->op, f->nin, e) : td_op_check_count(f->op, f->nin, e);
    for (int i = 0; i < f->nin && !rc; i++) {
        rc = check_operand(f, i, e);
        if (!rc) rc = check_device(f, i, &first, e);
    }
    return rc;
}

int td_infer_takes(const td_inference *f, const char *name, td_dtype t, td_error *e)
{
    if (td_dtype_valid(t) && (f->op->dtypes >> t & 1)) return TD_OK;
    char list[160];
    size_t at = 0;
    list[0] = 0;
    for (int k = 0; k < TD_DTYPE_COUNT; k++)
        if (f->op->dtypes >> k & 1)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", td_dtype_name((td_dtype)k));
    return td_fail(e, TD_E_TYPE, "\"%s\" is not implemented for %s: %s%s%s may be %s", f->op->name, td_dtype_name(t),
                   name ? "argument '" : "its arguments", name ? name : "", name ? "'" : " together", list);
}

static int check_attrs(const td_inference *f, td_error *e)
{
    const td_op *op = f->op;
    if (f->attrs->count != op->nattrs)
        return td_fail(e, TD_E_INVALID, "%s%s takes %d attribute%s, but %d %s given", op->name, op->signature,
                       op->nattrs, plural(op->nattrs), f->attrs->count, f->attrs->count == 1 ? "was" : "were");
    for (int k = 0; k < op->nattrs; k++) {
        const td_attr_def *def = &op->attrs[k];
        unsigned kind = f->attrs->at[k].kind;
        if (kind == TD_A_DTYPE && !td_dtype_valid((unsigned)f->attrs->at[k].i))
            return td_fail(e, TD_E_TYPE, "attribute '%s': %lld is not a dtype", def->name,
                           (long long)f->attrs->at[k].i);
        if (kind == def->kind || (kind == TD_A_NONE && def->optional)) continue;
        return td_fail(e, kind == TD_A_NONE ? TD_E_INVALID : TD_E_TYPE, "attribute '%s' %s", def->name,
                       kind == TD_A_NONE ? "is required" : "has the wrong kind");
    }
    return TD_OK;
}

static int check_alike(const td_inference *f, td_error *e)
{
    for (int i = 1; i < f->nin; i++)
        if (f->op->params[td_op_param_of(f->op, f->nin, i)].flags & TD_PF_ALIKE) {
            int rc = td_infer_same_dtype(f, 0, i, e);
            if (rc) return rc;
        }
    return TD_OK;
}

int td_op_check(const td_inference *f, td_error *e)
{
    int rc = check_operands(f, e);
    if (!rc) rc = check_attrs(f, e);
    if (!rc && f->nin > 0 && f->in[0].desc && !(f->op->flags & TD_OF_POINTWISE))
        rc = td_infer_takes(f, f->op->params[0].name, (td_dtype)f->in[0].desc->dtype, e);
    if (!rc && f->op->alike) rc = check_alike(f, e);
    return rc;
}

int td_op_infer(td_inference *f, td_error *e)
{
    const td_op *op = f->op;
    f->nout = 0;
    f->compute = TD_DTYPE_NONE;
    int rc = f->device ? check_made(f, e) : TD_OK;
    if (!rc) rc = td_op_check(f, e);
    if (!rc) rc = op->infer(f, e);
    if (!rc && op->shaped) rc = td_infer_shapes(f, e);
    if (!rc && op->flags & TD_OF_FORMAT) td_infer_format(f);
    if (rc) {
        f->nout = 0;
        if (e) snprintf(e->op, sizeof e->op, "%s", op->name);
    }
    assert(rc || f->nout <= f->max_out);
    return rc;
}
