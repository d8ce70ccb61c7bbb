/* A trace as Python sees it: a thread's ops from one call to another become the text of a program. What is done with
 * trees of examples and results, tensord/program/_trace.py does. */
#include "client/python/src/py.h"

#include "proto/program/text.h"

#include <stdlib.h>

typedef struct trace {
    PyObject_HEAD td_trace *trace; /* NULL: it has ended */
} trace;

static bool are_tensors(PyObject *tuple, const char *what)
{
    for (Py_ssize_t k = 0; k < PyTuple_Size(tuple); k++)
        if (!tdpy_is_tensor(PyTuple_GetItem(tuple, k)))
            return tdpy_raise(TD_E_TYPE, "%s of a trace are Tensors, not %s", what,
                              tdpy_a_type(PyTuple_GetItem(tuple, k))) != NULL;
    return true;
}

/* NULL: an exception is set. To be freed. */
static td_array **arrays_of(PyObject *tuple, const char *what, td_list *out)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    if (!are_tensors(tuple, what)) return NULL;
    td_array **at = calloc((size_t)n + 1, sizeof(td_array *));
    for (Py_ssize_t k = 0; at && k < n; k++) at[k] = tdpy_array(PyTuple_GetItem(tuple, k));
    if (!at) PyErr_NoMemory();
    *out = td_arrays_of((int)n, at);
    return at;
}

static bool name_inputs(td_trace *t, PyObject *names)
{
    for (Py_ssize_t k = 0; k < PyTuple_Size(names); k++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, k), NULL);
        if (!name) return false;
        td_trace_name_input(t, (int)k, name);
    }
    return true;
}

static bool name_captured(td_trace *t, PyObject *known)
{
    PyObject *name, *tensor;
    Py_ssize_t at = 0;
    while (PyDict_Next(known, &at, &name, &tensor)) {
        const char *text = tdpy_is_tensor(tensor) ? PyUnicode_AsUTF8AndSize(name, NULL) : "";
        if (!text) return false;
        if (*text && td_trace_name_captured(t, tdpy_array(tensor), text)) return tdpy_fail() != NULL;
    }
    return true;
}

/* _Trace(inputs, names, known): begins. `names` of the inputs; `known`: how tensors are called, if they are captured.
 */
static PyObject *trace_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *inputs, *names, *known;
    td_list list;
    if (kw && PyDict_Size(kw)) return tdpy_raise(TD_E_TYPE, "_Trace takes no keywords");
    if (!PyArg_ParseTuple(args, "O!O!O!:_Trace", &PyTuple_Type, &inputs, &PyTuple_Type, &names, &PyDict_Type, &known))
        return NULL;
    if (PyTuple_Size(names) != PyTuple_Size(inputs)) return tdpy_raise(TD_E_TYPE, "a name for each input is wanted");
    td_array **at = arrays_of(inputs, "inputs", &list);
    td_client *c = at ? tdpy_client() : NULL;
    td_trace *t = c ? td_trace_begin(c, list) : NULL;
    free(at);
    if (!t) return PyErr_Occurred() ? NULL : tdpy_fail();
    td_trace_places(t, tdpy_site);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = name_inputs(t, names) && name_captured(t, known) ? alloc(type, 0) : NULL;
    if (self) ((trace *)self)->trace = t;
    else td_trace_free(t);
    return self;
}

static void trace_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    bool raised = PyErr_Occurred() != NULL;
    td_trace_free(((trace *)self)->trace);
    tdpy_tell_later(raised);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

/* Takes the arrays over, and their memory. */
static PyObject *tensors_of(td_array **at, uint32_t n)
{
    PyObject *all = PyTuple_New(n);
    for (uint32_t k = 0; k < n; k++) {
        PyObject *each = all ? tdpy_wrap(at[k], false) : NULL;
        if (!all) td_release(at[k]);
        else if (!each || PyTuple_SetItem(all, k, each)) Py_CLEAR(all);
    }
    free(at);
    return all;
}

/* end(outputs): (text of the IR, the tensors that it captures, their names). */
static PyObject *trace_end(PyObject *self, PyObject *outputs)
{
    td_trace *t = ((trace *)self)->trace;
    td_array **captured;
    td_error e = {0};
    td_list list;
    if (!t) return tdpy_raise(TD_E_INVALID, "the trace has ended");
    if (!PyTuple_Check(outputs)) return tdpy_raise(TD_E_TYPE, "the outputs are a tuple");
    td_array **at = arrays_of(outputs, "outputs", &list);
    if (!at) return NULL;
    ((trace *)self)->trace = NULL;
    td_ir *ir = td_trace_take(t, list, &captured);
    free(at);
    if (!ir) return tdpy_fail();
    PyObject *tensors = tensors_of(captured, ir->ncaptures), *names = tensors ? tdpy_captured_names(ir) : NULL;
    char *text = names ? td_ir_print(ir, &e) : NULL;
    PyObject *made = text ? Py_BuildValue("sOO", text, tensors, names) : NULL;
    if (names && !text) tdpy_raise(e.code, "%s", e.message);
    td_ir_unref(ir);
    Py_XDECREF(tensors);
    Py_XDECREF(names);
    free(text);
    return made;
}

/* What the program will not follow, so far: texts. */
static PyObject *trace_warnings(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const char *text;
    PyObject *all = PyList_New(0);
    for (int k = 0; all && (text = td_trace_warning(((trace *)self)->trace, k)); k++) {
        PyObject *each = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
        if (!each || PyList_Append(all, each)) Py_CLEAR(all);
        Py_XDECREF(each);
    }
    return all;
}

static PyMethodDef trace_methods[] = {
    {"end", trace_end, METH_O, NULL}, {"warnings", trace_warnings, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot trace_slots[] = {{Py_tp_doc, "What a thread does, being recorded; see tensord.jit."},
                                    {Py_tp_new, trace_new},
                                    {Py_tp_dealloc, trace_dealloc},
                                    {Py_tp_methods, trace_methods},
                                    {0, NULL}};
static PyType_Spec trace_spec = {
    .name = "tensord._C._Trace", .basicsize = sizeof(trace), .flags = Py_TPFLAGS_DEFAULT, .slots = trace_slots};

bool tdpy_init_trace(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &trace_spec, NULL);
    if (!type) return false;
    int rc = PyModule_AddObjectRef(module, "_Trace", type);
    Py_DECREF(type);
    return rc == 0;
}
