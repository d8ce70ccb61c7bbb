/* Where names of the package live, by the tables that client/gen/emit_python_names.py makes: this module calls
 * functions of Python by name, and the package imports most of itself at its first use. */
#include "client/python/src/py.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *name, const void *row)
{
    return strcmp(name, ((const tdpy_name *)row)->name);
}

static tdpy_name *find(const tdpy_names *names, const char *name)
{
    return bsearch(name, names->at, names->n, sizeof *names->at, by_name);
}

PyObject *tdpy_python(const char *name)
{
    tdpy_name *row = find(&tdpy_called, name);
    if (!row) return PyErr_Format(PyExc_SystemError, "tensord knows no function of Python as '%s'", name);
    if (!row->imported && !(row->imported = PyImport_ImportModule(row->module))) return NULL;
    return PyObject_GetAttrString(row->imported, row->attribute);
}

/* _python(name): the function itself. */
static PyObject *python(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    return text ? tdpy_python(text) : NULL;
}

/* _home(name): the module that has it for the package; None, when the package has no such name. */
static PyObject *home(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return NULL;
    tdpy_name *row = find(&tdpy_shown, text);
    return row ? PyUnicode_FromString(row->module) : Py_NewRef(Py_None);
}

/* _homes(): all names that the package has so. */
static PyObject *homes(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    PyObject *all = PyList_New(0);
    for (size_t i = 0; all && i < tdpy_shown.n; i++) {
        PyObject *name = PyUnicode_FromString(tdpy_shown.at[i].name);
        if (!name || PyList_Append(all, name)) Py_CLEAR(all);
        Py_XDECREF(name);
    }
    return all;
}

PyMethodDef tdpy_name_functions[] = {{"_python", python, METH_O, NULL},
                                     {"_home", home, METH_O, NULL},
                                     {"_homes", homes, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};
