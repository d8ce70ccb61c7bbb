/* Mixed precision: inside of tensord.amp.autocast the floats of some functions are cast before they run. Which ones,
 * and to what, surface.toml says; a float64 stays what it is, as in PyTorch.
 *
 * A cast is an op like others, so gradients pass it and end in the dtype of what was cast. */
#include "client/python/src/py.h"

#include <stdlib.h>

/* Of the memory of GPUs, and of all other. */
typedef struct where_on {
    bool on;
    td_dtype lower;
} where_on;
static _Thread_local where_on casts[2];

static const where_on *casts_of(td_array *a)
{
    return &casts[tdpy_is_gpu(td_device_of(a))];
}

static bool is_cast(td_array *a)
{
    return a && casts_of(a)->on && td_dtype_is_float(td_dtype_of(a)) && td_dtype_of(a) != TD_FLOAT64;
}

/* Of two that are cast: what both are, or float32. */
static td_dtype wider(td_dtype a, td_dtype b)
{
    return a == TD_DTYPE_NONE || a == b ? b : TD_FLOAT32;
}

/* What all of them become; TD_DTYPE_NONE: nothing, promotion does it. */
static td_dtype widest(int n, td_array **const *at)
{
    td_dtype found = TD_DTYPE_NONE;
    for (int i = 0; i < n; i++) {
        if (*at[i] && td_dtype_of(*at[i]) == TD_FLOAT64) return TD_DTYPE_NONE;
        if (is_cast(*at[i])) found = wider(found, td_dtype_of(*at[i]));
    }
    return found;
}

static bool cast(tdpy_casts *c, const char *where, td_array **at, td_dtype to)
{
    if (!is_cast(*at) || td_dtype_of(*at) == to) return true;
    td_array *made = td_at_to(where, *at, to);
    if (!made) return tdpy_fail() != NULL;
    *at = c->made[c->n++] = made;
    return true;
}

bool tdpy_cast(tdpy_casts *c, const tdpy_function *f, const char *where, tdpy_value *v, int n, td_array **arrays)
{
    *c = (tdpy_casts){.n = 0};
    if (!casts[0].on && !casts[1].on) return true;
    size_t most = (size_t)f->nparams + (size_t)n;
    td_array ***at = malloc(most * sizeof *at); /* where the call's tensors stand */
    c->made = malloc(most * sizeof *c->made);
    bool good = at && c->made;
    if (!good) PyErr_NoMemory();
    int all = 0;
    for (int i = 0; good && i < f->nparams; i++)
        if (f->params[i].kind <= TDPY_NUMBER && v[i].arg.kind == TD_ARG_ARRAY) at[all++] = &v[i].arg.array;
    for (int i = 0; good && i < n; i++) at[all++] = &arrays[i];
    td_dtype to = TD_FLOAT32;
    if (good && f->flags & TDPY_CASTS_WIDEST) to = widest(all, at);
    for (int i = 0; good && to != TD_DTYPE_NONE && i < all; i++)
        good = !*at[i] || cast(c, where, at[i], f->flags & TDPY_CASTS_LOWER ? casts_of(*at[i])->lower : to);
    free(at);
    return good;
}

void tdpy_casts_clear(tdpy_casts *c)
{
    while (c->n) td_release(c->made[--c->n]);
    free(c->made);
    c->made = NULL;
}

static PyObject *told(const where_on *w)
{
    return w->on ? tdpy_dtype_object(w->lower) : Py_NewRef(Py_None);
}

PyObject *tdpy_get_autocast(PyObject *module, PyObject *args)
{
    int gpu = false;
    (void)module;
    return PyArg_ParseTuple(args, "|p", &gpu) ? told(&casts[gpu]) : NULL;
}

PyObject *tdpy_set_autocast(PyObject *module, PyObject *args)
{
    td_dtype d;
    PyObject *dtype;
    int gpu = false;
    (void)module;
    if (!PyArg_ParseTuple(args, "O|p", &dtype, &gpu) || !tdpy_as_dtype(dtype, &d)) return NULL;
    if (d != TD_DTYPE_NONE && d != TD_FLOAT16 && d != TD_BFLOAT16)
        return tdpy_raise(TD_E_TYPE, "autocast casts to bfloat16 and float16, not to %s", td_dtype_name(d));
    PyObject *before = told(&casts[gpu]);
    casts[gpu] = (where_on){d != TD_DTYPE_NONE, d};
    return before;
}
