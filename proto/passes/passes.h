/* Passes: a program that the verifier has passed becomes one that does the same in fewer steps. The one door of this
 * room; the README says what "the same" is, and what each pass does. */
#ifndef TENSORD_PROTO_PASSES_PASSES_H
#define TENSORD_PROTO_PASSES_PASSES_H

#include "proto/program/edit.h"

#include <stdatomic.h>

struct td_facts;

/* Changes what the edit holds, true when it did. Linear or nearly so in its nodes. It makes no more nodes than the edit
 * has room for; what fails besides, the edit keeps. */
typedef bool td_pass_fn(td_ir_edit *e, struct td_facts *f);
td_pass_fn td_pass_inline, td_pass_writes, td_pass_lists, td_pass_constants, td_pass_branches, td_pass_common,
    td_pass_dead, td_pass_peephole, td_pass_loops, td_pass_eights;

typedef struct td_pass {
    const char *name;
    td_pass_fn *run;
} td_pass;
extern const td_pass td_pass_list[]; /* in their order */
extern const uint32_t td_pass_count;

/* All of them but the last, again and again until nothing changes, at most so many rounds; before the last round, once,
 * that one. */
#define TD_PASS_ROUNDS 4
/* Takes over a sealed module that the verifier has passed, and gives back what became of it: a better one, or itself,
 * where there is nothing to do, no memory, or no room (or where TENSORD_PASSES=0 in the environment forbids it). */
td_ir *td_ir_improve(td_ir *ir);
/* The same as far as this allows: once so much was done, or it is stopped, no further pass is begun. */
typedef struct td_pass_work {
    uint64_t steps, most;    /* nodes that were gone through, and looks besides */
    const atomic_bool *stop; /* from any thread; or NULL */
} td_pass_work;
td_ir *td_ir_improve_within(td_ir *ir, td_pass_work *work);
/* The same without the last one, for a module that goes on to who improves it. */
td_ir *td_ir_simplify(td_ir *ir);
/* As td_ir_improve(), which tells of every pass that changed something. */
typedef void td_pass_seen(void *context, const td_pass *pass);
td_ir *td_ir_improve_seen(td_ir *ir, td_pass_seen *seen, void *context);
/* These passes once, in this order. NULL: the first failure is in `error`; the module stays the caller's. */
td_ir *td_ir_pass(const td_ir *ir, uint32_t n, const td_pass *const *passes, td_error *error);

#endif
