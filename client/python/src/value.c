/* Values as Python's own: item, tolist, bool, int, float. */
#include "client/python/src/py.h"

#include <stdlib.h>

PyObject *tdpy_item(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_scalar s;
    td_array *a = tdpy_array(self);
    int64_t n = td_numel(a);
    if (n < 0) return tdpy_fail();
    if (n != 1)
        return tdpy_raise(TD_E_SHAPE, "a Tensor with %lld elements cannot be converted to Scalar", (long long)n);
    return td_item(a, &s) || PyErr_Occurred() ? tdpy_fail() : tdpy_number(s, td_dtype_of(a));
}

/* Nested lists of the bytes from *at on. At most TD_MAX_DIMS levels deep. */
static PyObject *to_list(int ndim, const int64_t *shape, td_dtype dtype, const unsigned char **at)
{
    if (ndim == 0) {
        PyObject *value = tdpy_number(td_scalar_load(dtype, *at), dtype);
        *at += td_dtype_size(dtype);
        return value;
    }
    PyObject *list = PyList_New((Py_ssize_t)shape[0]);
    for (int64_t i = 0; list && i < shape[0]; i++) {
        PyObject *each = to_list(ndim - 1, shape + 1, dtype, at);
        if (!each || PyList_SetItem(list, (Py_ssize_t)i, each)) Py_CLEAR(list);
    }
    return list;
}

PyObject *tdpy_list_of(td_array *a, const void *bytes)
{
    const unsigned char *at = bytes;
    return to_list(td_ndim(a), td_shape(a), td_dtype_of(a), &at);
}

PyObject *tdpy_tolist(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_array *a = tdpy_array(self);
    int64_t n = td_nbytes(a);
    if (n < 0) return tdpy_fail();
    unsigned char *bytes = malloc((size_t)n + 16);
    if (!bytes) return PyErr_NoMemory();
    bool failed = td_read(a, bytes, (size_t)n) || PyErr_Occurred();
    PyObject *list = failed ? tdpy_fail() : tdpy_list_of(a, bytes);
    free(bytes);
    return list;
}

int tdpy_truth(PyObject *self)
{
    int64_t n = td_numel(tdpy_array(self));
    if (n < 0) tdpy_fail();
    else if (n != 1)
        tdpy_raise(TD_E_INVALID, "the truth of a Tensor with %lld values is ambiguous; use any() or all()",
                   (long long)n);
    PyObject *value = n == 1 ? tdpy_item(self, NULL) : NULL;
    int truth = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return truth;
}

static PyObject *by(PyObject *self, PyObject *(*convert)(PyObject *))
{
    PyObject *value = tdpy_item(self, NULL);
    PyObject *made = value ? convert(value) : NULL;
    Py_XDECREF(value);
    return made;
}

PyObject *tdpy_to_int(PyObject *self)
{
    return by(self, PyNumber_Long);
}

PyObject *tdpy_to_float(PyObject *self)
{
    return by(self, PyNumber_Float);
}

static PyObject *complex_of(PyObject *value)
{
    return PyObject_CallFunctionObjArgs((PyObject *)&PyComplex_Type, value, NULL);
}

PyObject *tdpy_to_complex(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return by(self, complex_of);
}

PyObject *tdpy_to_index(PyObject *self)
{
    td_array *a = tdpy_array(self);
    if (td_ndim(a) < 0) return tdpy_fail();
    if (td_numel(a) != 1 || !td_dtype_is_integral(td_dtype_of(a)))
        return tdpy_raise(TD_E_TYPE, "only integer tensors of a single element can be converted to an index");
    return by(self, PyNumber_Index);
}
