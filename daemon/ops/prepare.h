/* What the steps of td_ops_prepare share: one call being prepared. Lives on the stack; nothing in it outlasts the
 * preparation. */
#ifndef TENSORD_DAEMON_OPS_PREPARE_H
#define TENSORD_DAEMON_OPS_PREPARE_H

#include "daemon/ops/ops.h"
#include "proto/ops/opid.h"
#include <assert.h>

typedef struct td_prep {
    td_call *c;
    td_inference f;
    td_place place; /* of new storages */
    td_need *need;  /* NULL: grow right here */
    bool writes;    /* some input is written */
    uint16_t room;  /* for outputs, of the caller */
    bool through;   /* out[0] is written through a temporary */
    td_operand in_inline[TD_CALL_INLINE];
    td_desc out_inline[TD_CALL_INLINE];
} td_prep;

/* inputs.c */
/* Where new storages of this call come from. */
td_place td_prep_place(const td_call *c);
/* The device that the call's flags name, for what is made of nothing. */
static inline uint8_t td_prep_device(const td_call *c)
{
    return c->flags >> TD_CF_DEVICE & (TD_MAX_DEVICES - 1);
}
/* Infers. td_prep_close is due in any case. */
int td_prep_open(td_prep *p, td_call *c, td_need *need, td_error *e);
void td_prep_close(td_prep *p);
/* No written input may share memory with another operand. */
int td_prep_check_written(td_prep *p, td_error *e);
/* Fails: what is to be written may only be read. */
int td_prep_read_only(const char *name, td_error *e);
void td_prep_input_args(td_call *c, td_dtype compute);
/* The argument that a tensor is; nothing is said of its number. */
static inline void td_prep_arg(td_karg *a, const td_tensor *t)
{
    a->data = td_tensor_data(t);
    a->desc = &t->desc;
}

/* outputs.c */
int td_prep_views(td_prep *p, td_error *e);
/* A new tensor over a storage of its own. */
int td_prep_make(const td_place *place, const td_desc *d, uint64_t bytes, td_tensor **out, td_need *need, td_error *e);
int td_prep_allocate(td_prep *p, td_error *e);
int td_prep_check_given(td_prep *p, td_error *e);
/* The temporary for out[0]. */
int td_prep_temporary(td_prep *p, td_error *e);
void td_prep_output_args(td_prep *p);
/* Undo allocate and temporary. */
void td_prep_drop(td_prep *p);

/* plan.c */
/* What a plan is told of its operands. */
static inline void td_prep_operands(td_call *c, uint8_t compute, uint8_t device)
{
    td_kcall *k = &c->k;
    k->op = c->op;
    k->attrs = &c->attrs;
    k->in = c->args;
    k->out = c->args + c->nin;
    k->nin = c->nin;
    k->nout = c->nout;
    k->compute = compute;
    k->device = device;
}
/* Choose the kernel and plan. TD_WAIT_GROW: with what the plan wants made (td_need.work). */
int td_prep_choose(td_call *c, td_need *need, td_error *e);
/* Is what the plan works with not counted, on however many threads? */
bool td_prep_light(const td_kcall *k);
/* Charge what the plan works with, and give it back. On a device it is made, too, and the plan is made once more for
 * its address. TD_WAIT_GROW: nothing was done. */
int td_prep_charge(td_call *c, td_need *need, td_error *e);
void td_prep_give_back(td_call *c);
static inline void td_prep_discharge(td_call *c)
{
    if (c->payer || c->workplace) td_prep_give_back(c);
}
/* Both, and the copy after a temporary. */
int td_prep_plan(td_prep *p, td_error *e);

#endif
