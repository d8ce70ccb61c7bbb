/* Hooks and functions of Python's own: numbers go to the daemon, tensord/autograd/_hooks.py keeps what they stand for.
 *
 * The library calls back on the thread that asked for the backward, which has the GIL and no lock. */
#include "client/python/src/py.h"

#include <stdlib.h>

static PyObject *runner; /* run(hook, kind, create_graph, given, first) -> None or a tuple */

static PyObject *given_tuple(const td_hook_call *call, bool plain)
{
    PyObject *all = PyTuple_New(call->n);
    for (int k = 0; all && k < call->n; k++) {
        PyObject *each = call->given[k] ? tdpy_wrap(td_retain(call->given[k]), plain) : Py_NewRef(Py_None);
        if (!each || PyTuple_SetItem(all, k, each)) Py_CLEAR(all);
    }
    return all;
}

/* 1, or -1: raised. */
static int take_answer(PyObject *result, const td_hook_call *call)
{
    if (!PyTuple_Check(result) || PyTuple_Size(result) != call->wanted) {
        tdpy_raise(TD_E_TYPE, "a hook's answer is a tuple of %d gradients, not %.100s", call->wanted,
                   tdpy_type_name(result));
        return -1;
    }
    for (int k = 0; k < call->wanted; k++) {
        PyObject *each = PyTuple_GetItem(result, k);
        if (each == Py_None) continue;
        if (!tdpy_is_tensor(each))
            return tdpy_raise(TD_E_TYPE, "expected Variable, but hook returned '%.100s'", tdpy_type_name(each)), -1;
        call->answer[k] = td_retain(tdpy_array(each));
    }
    return 1;
}

static int on_hook(td_client *c, const td_hook_call *call, void *context)
{
    (void)c, (void)context;
    bool create = call->flags & TD_CREATE_GRAPH;
    bool plain = !create && (call->kind == TD_ON_TENSOR || call->kind == TD_ON_NODE || call->kind == TD_AFTER_NODE);
    PyObject *given = PyErr_Occurred() ? NULL : given_tuple(call, plain);
    PyObject *result = given && runner ? PyObject_CallFunction(runner, "IiOOi", (unsigned)call->hook, (int)call->kind,
                                                               create ? Py_True : Py_False, given, call->first)
                                       : NULL;
    int how = !result ? -1 : result == Py_None ? 0 : take_answer(result, call);
    Py_XDECREF(given);
    Py_XDECREF(result);
    return how;
}

static td_client *hooked(td_client *c)
{
    if (c) td_set_on_hook(c, on_hook, NULL);
    return c;
}

static PyObject *set_runner(PyObject *module, PyObject *function)
{
    (void)module;
    Py_XDECREF(runner);
    runner = Py_NewRef(function);
    return Py_NewRef(Py_None);
}

static PyObject *number_or_raise(uint32_t number)
{
    if (!number || PyErr_Occurred()) return tdpy_fail();
    return PyLong_FromUnsignedLong(number);
}

/* _hook(tensor, kind) */
static PyObject *hook(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *tensor;
    int kind;
    if (!PyArg_ParseTuple(args, "O!i", tdpy.tensor, &tensor, &kind)) return NULL;
    hooked(td_client_of(tdpy_array(tensor)));
    return number_or_raise(td_hook(tdpy_array(tensor), (td_hook_kind)kind));
}

/* _hook_node(node, kind) */
static PyObject *hook_node(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned node;
    int kind;
    if (!PyArg_ParseTuple(args, "Ii", &node, &kind)) return NULL;
    td_client *c = hooked(tdpy_client());
    return c ? number_or_raise(td_hook_node(c, node, (td_hook_kind)kind)) : NULL;
}

static PyObject *about_number(PyObject *number, uint32_t before, int (*tell)(td_client *, uint32_t))
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred()) return NULL;
    if (!tdpy.client || n <= before) return Py_NewRef(Py_None); /* of a connection that is over */
    return tdpy_none(tell(tdpy.client, (uint32_t)n));
}

static PyObject *unhook(PyObject *module, PyObject *number)
{
    (void)module;
    return about_number(number, tdpy.hooks, td_unhook);
}

static PyObject *node_release(PyObject *module, PyObject *number)
{
    (void)module;
    return about_number(number, tdpy.nodes, td_graph_release);
}

/* The numbers of hooks that are nowhere any more, each once. */
static PyObject *gone_hooks(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    uint32_t some[256];
    PyObject *all = PyList_New(0);
    for (int n = 256; all && tdpy.client && n == 256;) {
        n = td_gone_hooks(tdpy.client, 256, some);
        for (int k = 0; all && k < n; k++) {
            PyObject *number = PyLong_FromUnsignedLong(some[k]);
            if (!number || PyList_Append(all, number)) Py_CLEAR(all);
            Py_XDECREF(number);
        }
    }
    return all;
}

/* ---- what ops save ----------------------------------------------------------------------------------------------- */

static _Thread_local PyObject *saver; /* saver(tensor, hook, output) -> is it packed? */

static int on_saved(td_client *c, const td_saved_value *saved, uint32_t hook, void *context)
{
    (void)context;
    td_set_on_hook(c, on_hook, NULL);
    PyObject *value = PyErr_Occurred() ? NULL : tdpy_wrap(td_retain(saved->value), false);
    PyObject *take = saver ? Py_NewRef(saver) : NULL;
    PyObject *result =
        value && take ? PyObject_CallFunction(take, "OIO", value, (unsigned)hook, saved->output ? Py_True : Py_False)
                      : NULL;
    int packed = result ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(value);
    Py_XDECREF(take);
    Py_XDECREF(result);
    return packed;
}

/* _on_saved(saver or None): of this thread. */
static PyObject *set_saver(PyObject *module, PyObject *function)
{
    (void)module;
    if (function != Py_None && !PyCallable_Check(function))
        return tdpy_raise(TD_E_TYPE, "what is told of saved values is a function or None, not a %.100s",
                          tdpy_type_name(function));
    Py_XDECREF(saver);
    saver = function == Py_None ? NULL : Py_NewRef(function);
    td_set_on_saved(saver ? on_saved : NULL, NULL);
    return Py_NewRef(Py_None);
}

/* _graph_saved(node, slot): (name, tensor or None, hook, output, index, freed), or None: there is no such slot. */
static PyObject *graph_saved(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned node;
    int slot;
    td_saved_value v;
    if (!PyArg_ParseTuple(args, "Ii", &node, &slot)) return NULL;
    td_client *c = tdpy_client();
    if (!c || td_graph_saved(c, node, slot, &v)) return tdpy_fail();
    if (!v.name[0]) return Py_NewRef(Py_None);
    PyObject *value = v.value ? tdpy_wrap(v.value, false) : Py_NewRef(Py_None);
    return value ? Py_BuildValue("(sNIOiO)", v.name, value, (unsigned)v.hook, v.output ? Py_True : Py_False, v.index,
                                 v.freed ? Py_True : Py_False)
                 : NULL;
}

/* _graph_pack(node, slot, hook) */
static PyObject *graph_pack(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned node, hook;
    int slot;
    if (!PyArg_ParseTuple(args, "IiI", &node, &slot, &hook)) return NULL;
    td_client *c = hooked(tdpy_client());
    return c ? number_or_raise(td_graph_pack(c, node, slot, hook)) : NULL;
}

static PyObject *hook_number(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    td_client *c = hooked(tdpy_client());
    return c ? number_or_raise(td_hook_number(c)) : NULL;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

/* Arrays of a tuple (NULL where it has no tensor), to be freed; false: raised. */
static bool arrays(PyObject *tuple, td_list *out)
{
    *out = (td_list){(int)PyTuple_Size(tuple), malloc(((size_t)PyTuple_Size(tuple) + 1) * sizeof(td_array *))};
    if (!out->at) return PyErr_NoMemory() != NULL;
    for (int k = 0; k < out->n; k++) {
        PyObject *each = PyTuple_GetItem(tuple, k);
        ((td_array **)(uintptr_t)out->at)[k] = tdpy_is_tensor(each) ? tdpy_array(each) : NULL;
    }
    return true;
}

static bool read_flags(PyObject *tuple, uint32_t **out)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    *out = calloc((size_t)n + 1, sizeof **out);
    for (Py_ssize_t k = 0; *out && k < n; k++) (*out)[k] = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(tuple, k));
    return *out && !PyErr_Occurred();
}

/* _function(name, inputs, outputs, flags, saved): tuples, all of the same length as what they are about. */
static PyObject *function(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    PyObject *in, *out, *flags, *saved, *result = NULL;
    if (!PyArg_ParseTuple(args, "sO!O!O!O!", &name, &PyTuple_Type, &in, &PyTuple_Type, &out, &PyTuple_Type, &flags,
                          &PyTuple_Type, &saved))
        return NULL;
    td_list lists[3] = {{0, NULL}, {0, NULL}, {0, NULL}};
    uint32_t *bits = NULL;
    if (arrays(in, &lists[0]) && arrays(out, &lists[1]) && arrays(saved, &lists[2]) && read_flags(flags, &bits)) {
        hooked(tdpy.client);
        result = number_or_raise(td_at_function(tdpy_site(), name, lists[0], lists[1], lists[2], bits));
    }
    for (Py_ssize_t k = 0; result && k < PyTuple_Size(out); k++)
        if (!(bits[k] & TD_RESULT_APART)) tdpy_enter_graph(PyTuple_GetItem(out, k));
    for (int k = 0; k < 3; k++) free((void *)(uintptr_t)lists[k].at);
    free(bits);
    return result;
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

/* (number, nr, key, op, aten, where, session, pid, inputs, kind), or None. */
static PyObject *node_tuple(const td_graph_node *n)
{
    if (!n->number) return Py_NewRef(Py_None);
    return Py_BuildValue("(IIKsssIIii)", (unsigned)n->number, (unsigned)n->nr, (unsigned long long)n->key, n->op,
                         n->aten, n->where, (unsigned)n->session, (unsigned)n->pid, n->inputs, n->kind);
}

static PyObject *graph_of(PyObject *module, PyObject *tensor)
{
    (void)module;
    td_graph_node n;
    if (!tdpy_is_tensor(tensor)) return tdpy_raise(TD_E_TYPE, "a Tensor, not %.100s", tdpy_type_name(tensor));
    if (tdpy_is_plain(tensor)) return Py_NewRef(Py_None);
    if (td_graph_of(tdpy_array(tensor), &n) || PyErr_Occurred()) return tdpy_fail();
    return node_tuple(&n);
}

/* _graph_next(number, inputs) */
static PyObject *graph_next(PyObject *module, PyObject *args)
{
    (void)module;
    td_graph_node of = {0};
    unsigned number;
    if (!PyArg_ParseTuple(args, "Ii", &number, &of.inputs)) return NULL;
    of.number = number;
    td_client *c = tdpy_client();
    td_graph_node *all = calloc((size_t)of.inputs + 1, sizeof *all);
    PyObject *list = NULL;
    int n = 0;
    if (!all) PyErr_NoMemory();
    else if (!c || td_graph_next(c, &of, all, &n) || PyErr_Occurred()) tdpy_fail();
    else list = PyList_New(n);
    for (int k = 0; list && k < n; k++) {
        PyObject *each = node_tuple(&all[k]);
        if (!each || PyList_SetItem(list, k, each)) Py_CLEAR(list);
    }
    free(all);
    return list;
}

PyMethodDef tdpy_hook_functions[] = {
    {"_set_hook_runner", set_runner, METH_O, NULL},  {"_hook", hook, METH_VARARGS, NULL},
    {"_hook_node", hook_node, METH_VARARGS, NULL},   {"_unhook", unhook, METH_O, NULL},
    {"_gone_hooks", gone_hooks, METH_NOARGS, NULL},  {"_function", function, METH_VARARGS, NULL},
    {"_graph_of", graph_of, METH_O, NULL},           {"_graph_next", graph_next, METH_VARARGS, NULL},
    {"_graph_release", node_release, METH_O, NULL},  {"_graph_saved", graph_saved, METH_VARARGS, NULL},
    {"_graph_pack", graph_pack, METH_VARARGS, NULL}, {"_hook_number", hook_number, METH_NOARGS, NULL},
    {"_on_saved", set_saver, METH_O, NULL},          {NULL, NULL, 0, NULL}};
