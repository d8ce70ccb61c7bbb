/* Numbers and lists of integers, from Python and back. */
#include "client/python/src/py.h"

#include <stdio.h>
#include <string.h>

/* A copy of an attribute's text. */
static void take_text(PyObject *o, const char *name, char *out, size_t size)
{
    PyObject *text = PyObject_GetAttrString(o, name);
    const char *s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    snprintf(out, size, "%s", s ? s : "?");
    PyErr_Clear();
    Py_XDECREF(text);
}

const char *tdpy_type_name(PyObject *o)
{
    static char name[100];
    char module[32], bare[90];
    take_text((PyObject *)Py_TYPE(o), "__module__", module, sizeof module);
    bool torch = strcmp(module, "torch") == 0 || strncmp(module, "torch.", 6) == 0; /* Tensor, dtype, device as here */
    take_text((PyObject *)Py_TYPE(o), "__name__", bare, sizeof bare);
    snprintf(name, sizeof name, "%s%s", torch ? "torch." : "", bare);
    return name;
}

const char *tdpy_a_type(PyObject *o)
{
    static char text[104];
    const char *name = tdpy_type_name(o);
    snprintf(text, sizeof text, "%s %s", strchr("aeiouAEIO", name[0]) ? "an" : "a", name);
    return text;
}

bool tdpy_is_numpy_scalar(PyObject *o)
{
    char text[32];
    take_text((PyObject *)Py_TYPE(o), "__module__", text, sizeof text);
    if (strcmp(text, "numpy") != 0) return false;
    return strcmp(tdpy_type_name(o), "ndarray") != 0 && PyObject_HasAttrString(o, "item");
}

static int integer(PyObject *o, td_arg *out)
{
    int64_t v = PyLong_AsLongLong(o);
    if (v == -1 && PyErr_Occurred()) return -1;
    *out = td_arg_int(v);
    return 1;
}

/* NumPy's scalars say themselves what they are: item() of one is a number of Python. Its bool was an index once, and
 * warns of it. */
static int foreign(PyObject *o, td_arg *out)
{
    if (tdpy_is_foreign(o)) return 0; /* torch's tensors pass for numbers, and fail as such */
    if (PyIndex_Check(o) && !PySequence_Check(o) && strcmp(tdpy_type_name(o), "bool_") != 0) { /* an array is both */
        PyObject *i = PyNumber_Index(o);
        int rc = i ? integer(i, out) : -1;
        Py_XDECREF(i);
        return rc;
    }
    if (!tdpy_is_numpy_scalar(o)) return 0;
    PyObject *n = PyObject_CallMethod(o, "item", NULL);
    if (!n) return -1;
    int rc = PyBool_Check(n) || PyLong_Check(n) || PyFloat_Check(n) || PyComplex_Check(n) ? tdpy_as_number(n, out) : 0;
    Py_DECREF(n);
    return rc;
}

static int used(PyObject *o, td_arg *out)
{
    PyObject *n = tdpy_used(o);
    int rc = n ? tdpy_as_number(n, out) : -1;
    Py_XDECREF(n);
    return rc;
}

int tdpy_as_number(PyObject *o, td_arg *out)
{
    if (PyFloat_Check(o)) *out = td_arg_float(PyFloat_AsDouble(o));
    else if (PyBool_Check(o)) *out = td_arg_bool(o == Py_True);
    else if (PyLong_Check(o)) return integer(o, out);
    else if (PyComplex_Check(o)) {
        *out = td_arg_float(PyComplex_RealAsDouble(o));
        out->kind = TD_ARG_COMPLEX;
        out->im = PyComplex_ImagAsDouble(o);
    } else if (tdpy_is_tensor(o) || PyUnicode_Check(o) || o == Py_None) return 0;
    else if (tdpy_is_followed(o)) return used(o, out);
    else return foreign(o, out);
    return 1;
}

bool tdpy_as_above(PyObject *o, td_arg *out)
{
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
    PyErr_Clear();
    PyObject *n = tdpy_is_tensor(o) ? tdpy_item(o, NULL) : PyNumber_Index(o);
    if (!n) return false;
    unsigned long long v = PyLong_AsUnsignedLongLong(n);
    Py_DECREF(n);
    *out = td_arg_int((int64_t)v);
    return !PyErr_Occurred();
}

PyObject *tdpy_number(td_scalar s, td_dtype dtype)
{
    if (dtype == TD_UINT64) return PyLong_FromUnsignedLongLong((unsigned long long)s.i);
    switch (s.kind) {
    case TD_S_BOOL: return PyBool_FromLong(s.i != 0);
    case TD_S_INT: return PyLong_FromLongLong(s.i);
    case TD_S_FLOAT: return PyFloat_FromDouble(s.re);
    default: return PyComplex_FromDoubles(s.re, s.im);
    }
}

bool tdpy_as_int(PyObject *o, int64_t *out, const char *function, const char *name)
{
    bool flag = PyBool_Check(o) || (tdpy_is_tensor(o) && td_dtype_of(tdpy_array(o)) == TD_BOOL);
    if (!PyIndex_Check(o) || flag) /* x.sum(True) means keepdim, or unbiased, but never a dimension */
        return tdpy_raise(TD_E_TYPE, "%s(): argument '%s' must be an int, not %.100s", function, name,
                          tdpy_type_name(o));
    PyObject *i = PyNumber_Index(o);
    if (!i) return false;
    *out = PyLong_AsLongLong(i);
    Py_DECREF(i);
    return *out != -1 || !PyErr_Occurred();
}

bool tdpy_as_bool(PyObject *o, bool *out, const char *function, const char *name)
{
    if (!o) return true;
    *out = o == Py_True;
    if (PyBool_Check(o)) return true;
    return tdpy_raise(TD_E_TYPE, "%s(): argument '%s' must be bool, not %.100s", function, name, tdpy_type_name(o));
}

int tdpy_as_ints(PyObject *o, int64_t *out, int room, const char *function, const char *name)
{
    return tdpy_take_ints(tdpy_as_int, o, out, room, function, name);
}

int tdpy_take_ints(tdpy_take_int *take, PyObject *o, int64_t *out, int room, const char *function, const char *name)
{
    if (!PyTuple_Check(o) && !PyList_Check(o)) {
        if (PyIndex_Check(o) && !PyBool_Check(o) && room > 0) return take(o, out, function, name) ? 1 : -1;
        tdpy_raise(TD_E_TYPE, "%s(): argument '%s' must be an int or a tuple of ints, not %.100s", function, name,
                   tdpy_type_name(o));
        return -1;
    }
    PyObject *all = PySequence_Tuple(o);
    if (!all) return -1;
    Py_ssize_t n = PyTuple_Size(all);
    bool good = n <= room;
    if (!good) tdpy_raise(TD_E_INVALID, "%s(): argument '%s' has %zd integers; at most %d", function, name, n, room);
    for (Py_ssize_t i = 0; good && i < n; i++) good = take(PyTuple_GetItem(all, i), &out[i], function, name);
    Py_DECREF(all);
    return good ? (int)n : -1;
}

bool tdpy_as_timeout(PyObject *o, int *ms)
{
    double s = o == Py_None ? -1 : PyFloat_AsDouble(o);
    if (s == -1 && PyErr_Occurred()) return false;
    if (o != Py_None && !(s >= 0)) /* nor NaN */
        return tdpy_raise(TD_E_INVALID, "a timeout is a number of seconds that is not negative, or None");
    *ms = o == Py_None ? -1 : s > 2e6 ? 2000000000 : (int)(s * 1000);
    return true;
}
