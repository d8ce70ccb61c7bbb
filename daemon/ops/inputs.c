/* Inputs on their way to the kernel: what inference sees of them, numbers as 0-d operands, and the rule for those that
 * are written. */
#include "daemon/ops/overlap.h"
#include "daemon/ops/prepare.h"
#include <stdlib.h>

td_place td_prep_place(const td_call *c)
{
    const td_issuer *who = c->who;
    if (c->flags & TD_CF_SERVICE)
        return (td_place){.heap = who->service_heap, .account = who->service_account, .flags = TD_SF_SERVICE};
    return (td_place){.heap = who->heap, .account = who->account};
}

/* What is written into a given tensor is made where that lies. */
static bool made_on_given(const td_call *c)
{
    return c->op->flags & TD_OF_CREATION && c->flags & TD_CF_OUT && c->nout;
}

int td_prep_open(td_prep *p, td_call *c, td_need *need, td_error *e)
{
    int room = c->nout > c->op->nouts ? c->nout : c->op->nouts;
    td_operand *in = c->nin <= TD_CALL_INLINE ? p->in_inline : malloc((size_t)c->nin * sizeof *in);
    td_desc *out = room <= TD_CALL_INLINE ? p->out_inline : malloc((size_t)room * sizeof *out);
    p->f = (td_inference){.op = c->op, .in = in, .nin = c->nin, .attrs = &c->attrs, .out = out, .max_out = room};
    p->f.device = made_on_given(c) ? c->out[0]->desc.device : td_prep_device(c);
    p->c = c;
    p->need = need;
    p->room = c->nout;
    p->place = td_prep_place(c);
    p->writes = p->through = false;
    if (!in || !out) return td_no_memory(e, "for the operands of %s", c->op->name);
    for (int i = 0; i < c->nin; i++) {
        const td_input *x = &c->in[i];
        in[i].desc = x->kind == TD_IN_TENSOR ? &x->tensor->desc : NULL;
        in[i].scalar = x->kind == TD_IN_NUMBER ? &x->number : NULL;
    }
    return td_op_infer(&p->f, e);
}

void td_prep_close(td_prep *p)
{
    if (p->f.in != p->in_inline) free((void *)p->f.in);
    if (p->f.out != p->out_inline) free(p->f.out);
}

int td_prep_read_only(const char *name, td_error *e)
{
    return td_fail(e, TD_E_PERMISSION,
                   "'%s', which is written, lies in imported memory that may only be read; clone() it first", name);
}

static int check_one(const td_call *c, int i, td_error *e)
{
    const td_tensor *w = c->in[i].tensor;
    const char *name = c->op->params[td_op_param_of(c->op, c->nin, i)].name;
    if (w->storage->flags & TD_SF_READONLY) return td_prep_read_only(name, e);
    if (td_desc_self_overlaps(&w->desc))
        return td_fail(
            e, TD_E_INVALID,
            "more than one element of '%s', which is written, refers to a single memory location; clone() it first",
            name);
    for (int k = 0; k < c->nin; k++) {
        if (k == i || td_call_in_storage(c, k) != w->storage) continue;
        td_overlap o = td_desc_overlap(&c->in[k].tensor->desc, &w->desc);
        if (o == TD_APART || (o == TD_IDENTICAL && !td_call_writes_input(c, k))) continue;
        return td_fail(e, TD_E_INVALID,
                       "'%s', which is written, shares memory with another argument; clone() one of them first", name);
    }
    return 0;
}

int td_prep_check_written(td_prep *p, td_error *e)
{
    const td_call *c = p->c;
    int rc = 0;
    p->writes = c->op->mutates;
    for (int i = 0; p->writes && i < c->nin && !rc; i++)
        if (td_call_writes_input(c, i)) rc = check_one(c, i, e);
    return rc;
}

/* Sums, products and quotients of halves are worked out in float32, with the number as it is: 1e5 and 65536 are no
 * halves. */
static td_dtype number_dtype(const td_call *c, td_dtype compute, int i)
{
    if (!td_dtype_valid(compute)) return td_scalar_dtype(c->in[i].number);
    bool half = compute == TD_FLOAT16 || compute == TD_BFLOAT16;
    return half && c->op->flags & TD_OF_EXACT_NUMBER ? TD_FLOAT32 : compute;
}

/* A number is an operand without dimensions, in the dtype that the kernel computes in; whole numbers never pass through
 * a float. */
static void number_arg(td_call *c, td_dtype compute, int i)
{
    static const td_desc single[TD_DTYPE_COUNT] = {
        [TD_BOOL] = {.dtype = TD_BOOL},           [TD_UINT8] = {.dtype = TD_UINT8},
        [TD_INT8] = {.dtype = TD_INT8},           [TD_INT16] = {.dtype = TD_INT16},
        [TD_INT32] = {.dtype = TD_INT32},         [TD_INT64] = {.dtype = TD_INT64},
        [TD_FLOAT16] = {.dtype = TD_FLOAT16},     [TD_BFLOAT16] = {.dtype = TD_BFLOAT16},
        [TD_FLOAT32] = {.dtype = TD_FLOAT32},     [TD_FLOAT64] = {.dtype = TD_FLOAT64},
        [TD_COMPLEX64] = {.dtype = TD_COMPLEX64}, [TD_COMPLEX128] = {.dtype = TD_COMPLEX128},
        [TD_UINT16] = {.dtype = TD_UINT16},       [TD_UINT32] = {.dtype = TD_UINT32},
        [TD_UINT64] = {.dtype = TD_UINT64}};
    td_karg *a = &c->args[i];
    td_dtype t = number_dtype(c, compute, i);
    td_scalar_store(c->in[i].number, t, a->number);
    a->data = a->number;
    a->desc = &single[t];
}

void td_prep_input_args(td_call *c, td_dtype compute)
{
    for (int i = 0; i < c->nin; i++) {
        const td_input *x = &c->in[i];
        if (x->kind == TD_IN_TENSOR) td_prep_arg(&c->args[i], x->tensor);
        else if (x->kind == TD_IN_NUMBER) number_arg(c, compute, i);
        else c->args[i].data = NULL, c->args[i].desc = NULL;
    }
}
