/* Autograd as Python sees it: requires_grad, grad, backward, and the modes of a thread. */
#include "client/python/src/py.h"

#include <stdlib.h>

/* ---- attributes -------------------------------------------------------------------------------------------------- */

PyObject *tdpy_get_requires_grad(PyObject *self, void *ignored)
{
    (void)ignored;
    int on = tdpy_requires_grad(self);
    return on < 0 ? NULL : PyBool_FromLong(on);
}

int tdpy_set_requires_grad(PyObject *self, PyObject *value, void *ignored)
{
    (void)ignored;
    if (!value || !PyBool_Check(value))
        return tdpy_raise(TD_E_TYPE, "requires_grad must be a bool, not %.100s",
                          value ? tdpy_type_name(value) : "deleted"),
               -1;
    bool on = value == Py_True;
    if (td_set_requires_grad(tdpy_array(self), on) || PyErr_Occurred()) return tdpy_fail(), -1;
    if (on) ((tdpy_tensor *)self)->plain = false;
    ((tdpy_tensor *)self)->part = on ? TDPY_LEAF : TDPY_ANY;
    return 0;
}

/* The daemon would refuse it too, but later. It is asked, since another object of the same tensor may have changed it;
 * only programs that are about to fail pay for that. */
bool tdpy_may_write(PyObject *self, bool view)
{
    td_info info;
    tdpy_tensor *t = (tdpy_tensor *)self;
    if (t->part == TDPY_ANY || tdpy_is_plain(self) || !td_grad_enabled()) return true;
    if (td_get_info(t->array, &info) || PyErr_Occurred()) return tdpy_fail();
    if (!info.requires_grad || (t->part == TDPY_LEAF && !info.leaf)) return true;
    return tdpy_raise(TD_E_AUTOGRAD,
                      "a %sleaf Variable that requires grad is being used in an in-place operation. Do it under "
                      "no_grad, or on the tensor's .data",
                      view || t->part == TDPY_VIEW_OF_LEAF ? "view of a " : "");
}

/* None also when a backward failed on the way: then its error is raised instead. */
PyObject *tdpy_get_grad(PyObject *self, void *ignored)
{
    (void)ignored;
    td_array *a = tdpy_array(self), *g = NULL;
    if (tdpy_is_plain(self)) return Py_NewRef(Py_None);
    if (td_at_grads(tdpy_site(), td_arrays(a), &g)) return tdpy_fail();
    if (g) return tdpy_wrap(g, false);
    if (!td_is_quiet(td_client_of(a)) && td_sync(td_client_of(a)))
        return tdpy_fail(); /* a failed backward is the better reason */
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

int tdpy_set_grad(PyObject *self, PyObject *value, void *ignored)
{
    (void)ignored;
    td_array *g = NULL;
    if (value && value != Py_None) {
        if (!tdpy_is_tensor(value))
            return tdpy_raise(TD_E_TYPE, "grad must be a Tensor or None, not %.100s", tdpy_type_name(value)), -1;
        g = tdpy_array(value);
    }
    if (!g && tdpy_is_plain(self)) return 0;
    if (td_set_grad(tdpy_array(self), g) || PyErr_Occurred()) return tdpy_fail(), -1;
    if (g) ((tdpy_tensor *)self)->plain = false;
    return 0;
}

static PyObject *requires_grad_(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"requires_grad", NULL};
    PyObject *on = Py_True;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:requires_grad_", names, &on)) return NULL;
    bool yes;
    if (!tdpy_as_bool(on, &yes, "requires_grad_", "requires_grad")) return NULL;
    return tdpy_set_requires_grad(self, on, NULL) ? NULL : Py_NewRef(self);
}

static PyObject *retain_grad(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return tdpy_none(td_retain_grad(tdpy_array(self)));
}

static PyObject *detach(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return tdpy_wrap(td_at_detach(tdpy_site(), tdpy_array(self)), true);
}

static PyObject *is_inference(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    bool is;
    if (td_is_inference(tdpy_array(self), &is) || PyErr_Occurred()) return tdpy_fail();
    return PyBool_FromLong(is);
}

static PyObject *is_view(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(td_is_view(tdpy_array(self)));
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Arrays of a tuple of tensors (None where `gaps`), in memory to be freed; NULL: raised. *held keeps them alive. */
static td_array **arrays_of(PyObject *o, const char *what, bool gaps, int *n, PyObject **held)
{
    *held = tdpy_is_tensor(o) ? PyTuple_Pack(1, o) : PySequence_Tuple(o);
    if (!*held) return NULL;
    *n = (int)PyTuple_Size(*held);
    td_array **at = malloc(((size_t)*n + 1) * sizeof *at);
    bool good = at;
    for (int i = 0; good && i < *n; i++) {
        PyObject *each = PyTuple_GetItem(*held, i);
        bool gap = gaps && each == Py_None;
        if (!gap && !tdpy_is_tensor(each))
            good = tdpy_raise(TD_E_TYPE, "%s must be tensors, not %.100s", what, tdpy_type_name(each));
        else at[i] = gap ? NULL : tdpy_array(each);
    }
    if (good) return at;
    free(at);
    Py_CLEAR(*held);
    return NULL;
}

typedef struct lists {
    td_array **roots, **grads, **inputs;
    PyObject *held[3];
    int nroots, ngrads, ninputs;
} lists;

static void free_lists(lists *l)
{
    free(l->roots);
    free(l->grads);
    free(l->inputs);
    for (int i = 0; i < 3; i++) Py_XDECREF(l->held[i]);
}

/* A root that is surely outside of every graph is refused at the call; the daemon finds the others. */
static bool all_in_graph(PyObject *roots, int n)
{
    for (int i = 0; i < n; i++)
        if (tdpy_is_plain(PyTuple_GetItem(roots, i)))
            return tdpy_raise(TD_E_AUTOGRAD, "element %d of tensors does not require grad and does not have a grad_fn",
                              i);
    return true;
}

static bool take_lists(lists *l, PyObject *roots, PyObject *grads, PyObject *inputs)
{
    *l = (lists){0};
    l->roots = arrays_of(roots, "what backward starts from", false, &l->nroots, &l->held[0]);
    if (l->roots && !all_in_graph(l->held[0], l->nroots)) {
        free_lists(l);
        return false;
    }
    if (l->roots && grads != Py_None) l->grads = arrays_of(grads, "gradients", true, &l->ngrads, &l->held[1]);
    if (l->roots && inputs != Py_None) l->inputs = arrays_of(inputs, "inputs", false, &l->ninputs, &l->held[2]);
    if (l->roots && (l->grads || grads == Py_None) && (l->inputs || inputs == Py_None)) return true;
    free_lists(l);
    return false;
}

static bool detects_anomaly;

static unsigned anomaly(void)
{
    return detects_anomaly ? TD_ANOMALY : 0u;
}

static bool set_detects(bool on)
{
    bool was = detects_anomaly;
    detects_anomaly = on;
    return was;
}

/* _backward(roots, grads or None, retain_graph, create_graph, inputs or None) */
static PyObject *backward(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *roots, *grads, *inputs = Py_None;
    int retain, create;
    lists l;
    if (!PyArg_ParseTuple(args, "OOpp|O", &roots, &grads, &retain, &create, &inputs)) return NULL;
    if (!take_lists(&l, roots, grads, inputs)) return NULL;
    unsigned flags = (retain ? TD_RETAIN_GRAPH : 0u) | (create ? TD_CREATE_GRAPH : 0u) | anomaly();
    int rc = td_at_backward_into(tdpy_site(), td_arrays_of(l.nroots, l.roots), td_arrays_of(l.ngrads, l.grads),
                                 td_arrays_of(l.ninputs, l.inputs), flags);
    free_lists(&l);
    return tdpy_none(rc);
}

/* Tensors or None. */
static PyObject *wrap_all(int n, td_array **at, bool plain)
{
    PyObject *all = PyErr_Occurred() ? NULL : PyTuple_New(n); /* Ctrl-C came meanwhile */
    for (int i = 0; i < n; i++) {
        PyObject *each = !all ? NULL : at[i] ? tdpy_wrap(at[i], plain) : Py_NewRef(Py_None);
        if (!all) td_release(at[i]);
        else if (!each || PyTuple_SetItem(all, i, each)) Py_CLEAR(all);
    }
    return all;
}

/* _autograd_grad(outputs, inputs, grads or None, retain_graph, create_graph, allow_unused) */
static PyObject *autograd_grad(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *outputs, *inputs, *grads;
    int retain, create, unused;
    lists l;
    if (!PyArg_ParseTuple(args, "OOOppp", &outputs, &inputs, &grads, &retain, &create, &unused)) return NULL;
    if (!take_lists(&l, outputs, grads, inputs)) return NULL;
    unsigned flags =
        (retain ? TD_RETAIN_GRAPH : 0u) | (create ? TD_CREATE_GRAPH : 0u) | (unused ? TD_ALLOW_UNUSED : 0u) | anomaly();
    td_array **out = calloc((size_t)l.ninputs + 1, sizeof *out);
    PyObject *result = NULL;
    if (!out) PyErr_NoMemory();
    else if (td_at_autograd_grad(tdpy_site(), td_arrays_of(l.nroots, l.roots), td_arrays_of(l.ngrads, l.grads),
                                 td_arrays_of(l.ninputs, l.inputs), flags, out))
        tdpy_fail();
    else result = wrap_all(l.ninputs, out, !create);
    free(out);
    free_lists(&l);
    return result;
}

/* _grads(tensors): their .grad, one round trip for all. */
static PyObject *grads_of(PyObject *module, PyObject *tensors)
{
    (void)module;
    int n;
    PyObject *held, *result = NULL;
    td_array **at = arrays_of(tensors, "arguments", false, &n, &held);
    if (!at) return NULL;
    td_array **out = calloc((size_t)n + 1, sizeof *out);
    if (!out) PyErr_NoMemory();
    else if (td_at_grads(tdpy_site(), td_arrays_of(n, at), out)) tdpy_fail();
    else result = wrap_all(n, out, false);
    free(out);
    free(at);
    Py_DECREF(held);
    return result;
}

/* ---- modes ------------------------------------------------------------------------------------------------------- */

static PyObject *is_grad_enabled(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyBool_FromLong(td_grad_enabled());
}

static PyObject *set_mode(PyObject *on, bool (*set)(bool))
{
    int yes = PyObject_IsTrue(on);
    return yes < 0 ? NULL : PyBool_FromLong(set(yes));
}

static PyObject *set_grad(PyObject *module, PyObject *on)
{
    (void)module;
    return set_mode(on, td_set_grad_enabled);
}

static PyObject *set_inference(PyObject *module, PyObject *on)
{
    (void)module;
    return set_mode(on, td_set_inference);
}

static PyObject *set_service(PyObject *module, PyObject *on)
{
    (void)module;
    return set_mode(on, td_set_service);
}

static PyObject *set_racy(PyObject *module, PyObject *on)
{
    (void)module;
    return set_mode(on, td_set_racy);
}

static PyObject *set_anomaly(PyObject *module, PyObject *on)
{
    (void)module;
    return set_mode(on, set_detects);
}

static PyObject *pause_trace(PyObject *module, PyObject *on)
{
    (void)module;
    return set_mode(on, td_trace_pause);
}

/* _checkpoint(on): what this thread asks for from here on lies in one more checkpoint, or in one less. */
static PyObject *checkpoint(PyObject *module, PyObject *on)
{
    (void)module;
    int yes = PyObject_IsTrue(on);
    td_client *c = yes < 0 ? NULL : tdpy_client();
    return c ? tdpy_none(yes ? td_checkpoint_begin(c) : td_checkpoint_end(c)) : NULL;
}

/* Of the whole connection, not of a thread. */
static PyObject *set_private_grads(PyObject *module, PyObject *on)
{
    (void)module;
    int yes = PyObject_IsTrue(on);
    td_client *c = yes < 0 ? NULL : tdpy_client();
    if (!c) return NULL;
    td_set_grad_scope(c, yes ? td_session(c) : 0);
    return Py_NewRef(Py_None);
}

static PyObject *tensor_backward(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    return tdpy_forward("backward", self, args, n, kw);
}

PyMethodDef tdpy_autograd_methods[] = {
    {"backward", (PyCFunction)(void (*)(void))tensor_backward, METH_FASTCALL | METH_KEYWORDS,
     "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None, group=None)\n--\n\n"
     "Add the gradients of this tensor to the .grad of the leaves it was made from. With a tensord.Group all of its ranks\n"
     "call this, each with a loss of its own; afterwards each .grad is the mean of all ranks', the same in all of them.\n"
     "`inputs` (the parameters of a model, say) saves the look for the leaves, and is wanted where graphs of ranks differ."},
    {"requires_grad_", (PyCFunction)(void (*)(void))requires_grad_, METH_VARARGS | METH_KEYWORDS,
     "requires_grad_($self, requires_grad=True)\n--\n\nSet requires_grad; returns the tensor."},
    {"retain_grad", retain_grad, METH_NOARGS,
     "retain_grad($self, /)\n--\n\nKeep the gradient of a tensor that is no leaf in its .grad."},
    {"is_inference", is_inference, METH_NOARGS, "is_inference($self, /)\n--\n\nWas it made in inference mode?"},
    {"_is_view", is_view, METH_NOARGS, NULL},
    {"detach", detach, METH_NOARGS, "detach($self, /)\n--\n\nThe same bytes outside of the graph."},
    {NULL, NULL, 0, NULL}};

PyMethodDef tdpy_autograd_functions[] = {
    {"_backward", backward, METH_VARARGS, NULL},
    {"_autograd_grad", autograd_grad, METH_VARARGS, NULL},
    {"_grads", grads_of, METH_O, NULL},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "is_grad_enabled()\n--\n\nAre ops recorded in this thread?"},
    {"_set_grad", set_grad, METH_O, NULL},
    {"_set_inference", set_inference, METH_O, NULL},
    {"_set_service", set_service, METH_O, NULL},
    {"_set_racy", set_racy, METH_O, NULL},
    {"_pause_trace", pause_trace, METH_O, NULL},
    {"_set_anomaly", set_anomaly, METH_O, NULL},
    {"_checkpoint", checkpoint, METH_O, NULL},
    {"_set_private_grads", set_private_grads, METH_O, NULL},
    {NULL, NULL, 0, NULL}};
