/* Programs under names, for tensord/program/_published.py. */
#include "client/python/src/py.h"

#include <stdlib.h>

/* _program_publish(program, name, replace, copy) */
static PyObject *publish(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object;
    const char *name;
    int replace, copy;
    if (!PyArg_ParseTuple(args, "Ospp:publish", &object, &name, &replace, &copy)) return NULL;
    td_program *p = tdpy_program(object);
    return p ? tdpy_none(td_program_publish(p, name, (replace ? TD_REPLACE : 0u) | (copy ? TD_COPY : 0u))) : NULL;
}

/* _program_open(name, timeout) */
static PyObject *open_name(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    PyObject *timeout;
    int ms;
    if (!PyArg_ParseTuple(args, "sO:open", &name, &timeout) || !tdpy_as_timeout(timeout, &ms)) return NULL;
    td_client *c = tdpy_client_for(name, &ms);
    if (!c) return NULL;
    td_program *p = td_program_open(c, name, ms);
    if (!p) return tdpy_fail_to_open();
    if (!PyErr_Occurred()) return tdpy_program_object(p);
    td_program_free(p); /* the wait was stopped just when it succeeded */
    return NULL;
}

static PyObject *parameter_names(const td_ir *ir)
{
    uint32_t graph = ir->functions[0].block, n = ir->blocks[graph].nparams;
    PyObject *names = PyTuple_New(n);
    for (uint32_t k = 0; names && k < n; k++) {
        uint32_t at = ir->values[td_ir_param(ir, graph, k)].name;
        PyObject *name =
            at == TD_IR_NONE ? PyUnicode_FromFormat("argument %u", k) : PyUnicode_FromString(td_ir_chars(ir, at));
        if (!name || PyTuple_SetItem(names, k, name)) Py_CLEAR(names);
    }
    return names;
}

/* _program_text(program): the IR, and the parameters' names. */
static PyObject *text(PyObject *module, PyObject *object)
{
    (void)module;
    td_program *p = tdpy_program(object);
    if (!p) return NULL;
    char *ir = td_program_print(p, TD_TEXT_IR);
    PyObject *names = ir ? parameter_names(td_program_ir(p)) : tdpy_fail();
    PyObject *made = names ? Py_BuildValue("sN", ir, names) : NULL;
    free(ir);
    return made;
}

/* _names_in(text of the IR): those of its parameters, and of what it captures. No daemon is asked. */
static PyObject *names_in(PyObject *module, PyObject *args)
{
    (void)module;
    const char *text;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "s#:_names_in", &text, &n)) return NULL;
    td_ir *ir = tdpy_read_ir(text, n);
    PyObject *parameters = ir ? parameter_names(ir) : NULL, *captured = parameters ? tdpy_captured_names(ir) : NULL;
    PyObject *made = captured ? PyTuple_Pack(2, parameters, captured) : NULL;
    Py_XDECREF(parameters);
    Py_XDECREF(captured);
    td_ir_unref(ir);
    return made;
}

/* _program_captured(program): the tensors that it captures, also of one that was opened. */
static PyObject *captured(PyObject *module, PyObject *object)
{
    (void)module;
    td_program *p = tdpy_program(object);
    if (!p) return NULL;
    int rc = td_program_want_captured(p);
    if (rc || PyErr_Occurred()) return tdpy_fail();
    PyObject *all = PyTuple_New(td_program_look(p).captured);
    for (int k = 0; all && k < td_program_look(p).captured; k++) {
        PyObject *each = tdpy_wrap(td_retain(td_program_capture(p, k)), false);
        if (!each || PyTuple_SetItem(all, k, each)) Py_CLEAR(all);
    }
    return all;
}

/* The names of a tuple; NULL: one is none. */
static const char **names_of(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    const char **names = calloc((size_t)n + 1, sizeof *names);
    if (!names) return (const char **)PyErr_NoMemory();
    for (Py_ssize_t k = 0; k < n; k++) {
        names[k] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, k), NULL);
        if (names[k]) continue;
        free(names);
        return NULL;
    }
    return names;
}

/* _program_freeze(program, kept, exactly) */
static PyObject *freeze(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *kept;
    int exactly;
    if (!PyArg_ParseTuple(args, "OO!p:freeze", &object, &PyTuple_Type, &kept, &exactly)) return NULL;
    td_program *p = tdpy_program(object);
    const char **names = p ? names_of(kept) : NULL;
    if (!names) return NULL;
    td_program *made = td_program_freeze(p, (int)PyTuple_Size(kept), names, exactly ? TD_FREEZE_EXACTLY : 0);
    free(names);
    return tdpy_program_object(made);
}

/* _program_plans(program): what the daemon made of it, for people. */
static PyObject *plans(PyObject *module, PyObject *object)
{
    (void)module;
    td_program *p = tdpy_program(object);
    char *text = p ? td_program_print(p, TD_TEXT_PLANS) : NULL;
    PyObject *made = text ? PyUnicode_FromString(text) : p ? tdpy_fail() : NULL;
    free(text);
    return made;
}

PyMethodDef tdpy_program_names[] = {{"_program_publish", publish, METH_VARARGS, NULL},
                                    {"_program_open", open_name, METH_VARARGS, NULL},
                                    {"_program_text", text, METH_O, NULL},
                                    {"_program_captured", captured, METH_O, NULL},
                                    {"_program_freeze", freeze, METH_VARARGS, NULL},
                                    {"_program_plans", plans, METH_O, NULL},
                                    {"_names_in", names_in, METH_VARARGS, NULL},
                                    {NULL, NULL, 0, NULL}};
