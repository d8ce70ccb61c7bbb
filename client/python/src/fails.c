/* Ops that may fail for what their tensors hold: solve() of a singular matrix, cholesky() of one that is not
 * positive-definite.
 *
 * Programs catch LinAlgError around the call, so the call waits until its result is there. What was asked before runs
 * meanwhile as ever, and nothing else is waited for. A trace only writes down what is asked: there nothing waits. */
#include "client/python/src/py.h"

#include "proto/ops/opid.h"

#include <math.h>

/* With these arguments? */
static bool may_fail(const tdpy_function *f, const tdpy_value *v)
{
    switch (f->op) {
    case TD_OP_LINALG_CHOLESKY_EX:
    case TD_OP_LINALG_LU_FACTOR_EX:
    case TD_OP_LINALG_LDL_FACTOR_EX:
    case TD_OP_LINALG_INV_EX:
    case TD_OP_LINALG_SOLVE_EX: return v[f->nparams - 1].arg.i; /* check_errors */
    case TD_OP_LINALG_MATRIX_POWER: return v[1].arg.i < 0;
    case TD_OP_LINALG_MATRIX_NORM:
    case TD_OP_LINALG_COND: return fabs(v[1].arg.re) == 2; /* by singular values */
    default: return true;
    }
}

PyObject *tdpy_when_made(const tdpy_function *f, const tdpy_value *v, PyObject *result)
{
    if (td_is_tracing() || !may_fail(f, v)) return result;
    PyObject *first = tdpy_is_tensor(result) ? Py_NewRef(result) : PySequence_GetItem(result, 0);
    if (first && (td_made(tdpy_array(first)) || PyErr_Occurred())) {
        tdpy_fail();
        Py_CLEAR(first);
    }
    if (!first) Py_CLEAR(result);
    Py_XDECREF(first);
    return result;
}
