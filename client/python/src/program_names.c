/* Programs under names, for tensord/_named.py. */
#include "client/python/src/py.h"

#include "client/programs.h"

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
    if (!p || !PyErr_Occurred()) return tdpy_program_object(p);
    td_program_free(p); /* the wait was stopped just when it succeeded */
    return NULL;
}

/* _program_text(program): the IR, and the parameters' names. */
static PyObject *text(PyObject *module, PyObject *object)
{
    (void)module;
    td_program *p = tdpy_program(object);
    if (!p) return NULL;
    uint32_t graph = p->ir->functions[0].block, n = p->ir->blocks[graph].nparams;
    char *ir = td_program_print(p, TD_TEXT_IR);
    PyObject *names = ir ? PyTuple_New(n) : tdpy_fail();
    for (uint32_t k = 0; names && k < n; k++) {
        uint32_t at = p->ir->values[td_ir_param(p->ir, graph, k)].name;
        PyObject *name =
            at == TD_IR_NONE ? PyUnicode_FromFormat("argument %u", k) : PyUnicode_FromString(td_ir_chars(p->ir, at));
        if (!name || PyTuple_SetItem(names, k, name)) Py_CLEAR(names);
    }
    PyObject *made = names ? Py_BuildValue("sN", ir, names) : NULL;
    free(ir);
    return made;
}

PyMethodDef tdpy_program_names[] = {{"_program_publish", publish, METH_VARARGS, NULL},
                                    {"_program_open", open_name, METH_VARARGS, NULL},
                                    {"_program_text", text, METH_O, NULL},
                                    {NULL, NULL, 0, NULL}};
