/* What the steps of td_ops_prepare share: one call being prepared. Lives on the stack; nothing in it outlasts the
 * preparation. */
#ifndef TENSORD_OPS_PREPARE_H
#define TENSORD_OPS_PREPARE_H

#include "daemon/ops/ops.h"
#include "proto/opid.h"
#include <assert.h>

typedef struct td_prep {
    td_call *c;
    td_infer f;
    td_place place; /* of new storages */
    uint64_t *lack; /* NULL: grow right here */
    bool writes;    /* some input is written */
    bool through;   /* out[0] is written through a temporary */
    td_operand in_inline[TD_CALL_INLINE];
    td_desc out_inline[TD_CALL_INLINE];
} td_prep;

/* again.c: what was inferred and planned for the last call that looked the same. */
typedef struct td_again td_again;
/* Where calls like this one are remembered; NULL: they are not. */
td_again *td_again_of(const td_call *c);
bool td_again_fits(const td_again *m, const td_call *c);
/* All of td_ops_prepare, for a call that fits. */
int td_again_prepare(const td_again *m, td_call *c, uint64_t *lack, td_heap **heap, td_error *e);
/* Remember a call that was prepared. */
void td_again_keep(td_again *m, const td_prep *p);

/* inputs.c */
/* Where new storages of this call come from. */
td_place td_prep_place(const td_call *c);
/* Infers. td_prep_close is due in any case. */
int td_prep_open(td_prep *p, td_call *c, uint64_t *lack, td_error *e);
void td_prep_close(td_prep *p);
/* No written input may share memory with another operand. */
int td_prep_check_written(td_prep *p, td_error *e);
/* Fails: what is to be written may only be read. */
int td_prep_read_only(const char *name, td_error *e);
void td_prep_input_args(td_call *c, td_dtype compute);

/* outputs.c */
int td_prep_views(td_prep *p, td_error *e);
/* A new tensor over a storage of its own. */
int td_prep_make(const td_place *place, const td_desc *d, uint64_t bytes, td_tensor **out, uint64_t *lack, td_error *e);
int td_prep_allocate(td_prep *p, td_error *e);
int td_prep_check_given(td_prep *p, td_error *e);
/* The temporary for out[0]. */
int td_prep_temporary(td_prep *p, td_error *e);
void td_prep_output_args(td_prep *p);
/* Undo allocate and temporary. */
void td_prep_drop(td_prep *p);

/* plan.c */
/* Everything that a plan is given. */
void td_prep_describe(td_call *c, td_dtype compute);
/* Choose the kernel and plan. */
int td_prep_choose(td_call *c, td_error *e);
/* Charge what the plan works with, and give it back. */
int td_prep_charge(td_call *c, td_error *e);
void td_prep_discharge(td_call *c);
/* Both, and the copy after a temporary. */
int td_prep_plan(td_prep *p, td_error *e);

#endif
