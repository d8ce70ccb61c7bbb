/* The table of gradient functions (formulas.c): by op id what computes the gradients, over a builder, and what it
 * keeps. */
#ifndef TENSORD_DAEMON_AUTOGRAD_GRADIENT_H
#define TENSORD_DAEMON_AUTOGRAD_GRADIENT_H

#include "proto/ops/formula.h"

/* What the gradient of one parameter keeps: inputs and outputs by value, shapes of inputs. */
typedef struct td_fsaves {
    bool exists;
    uint32_t inputs, outputs, shapes;
} td_fsaves;

typedef struct td_formula {
    void (*run)(td_fx *f);
    const td_fsaves *saves; /* one for each parameter; NULL: the op has no gradient */
} td_formula;

/* By op id; generated. */
extern const td_formula td_formulas[];
extern const unsigned td_formula_count;

static inline const td_formula *td_formula_of(const td_op *op)
{
    return op->id < td_formula_count && td_formulas[op->id].run ? &td_formulas[op->id] : NULL;
}

/* The gradients of a call of f->of. On failure f->error says why. */
static inline int td_gradient_run(td_fx *f)
{
    td_formula_of(f->of)->run(f);
    return f->failed;
}

#endif
