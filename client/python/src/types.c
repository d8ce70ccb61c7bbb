/* dtype and device objects. There is one object for each dtype, so that `is` tells them apart as `==` does. */
#include "client/python/src/py.h"

#include <string.h>

typedef struct tdpy_device_object {
    PyObject_HEAD
} tdpy_device_object;

/* ---- dtype ------------------------------------------------------------------------------------------------------- */

static td_dtype code_of(PyObject *self)
{
    return ((tdpy_dtype *)self)->code;
}

PyObject *tdpy_dtype_object(td_dtype dtype)
{
    return Py_NewRef(tdpy.dtypes[dtype]);
}

static PyObject *dtype_repr(PyObject *self)
{
    return PyUnicode_FromFormat("tensord.%s", td_dtype_name(code_of(self)));
}

static PyObject *dtype_name(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyUnicode_FromString(td_dtype_name(code_of(self)));
}

static PyObject *dtype_itemsize(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromSize_t(td_dtype_size(code_of(self)));
}

static PyObject *dtype_is_float(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(td_dtype_is_float(code_of(self)));
}

static PyObject *dtype_is_complex(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(td_dtype_is_complex(code_of(self)));
}

static PyObject *dtype_is_signed(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(code_of(self) != TD_BOOL && code_of(self) != TD_UINT8);
}

static PyObject *dtype_to_complex(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return tdpy_dtype_object(td_dtype_complex(code_of(self)));
}

static PyObject *dtype_to_real(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return tdpy_dtype_object(td_dtype_real(code_of(self)));
}

/* Unpickled as the attribute of the module, so that there stays one object. */
static PyObject *dtype_reduce(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return PyUnicode_FromString(td_dtype_name(code_of(self)));
}

static PyGetSetDef dtype_attributes[] = {{"name", dtype_name, NULL, "float32, ...", NULL},
                                         {"itemsize", dtype_itemsize, NULL, "Bytes of an element.", NULL},
                                         {"is_floating_point", dtype_is_float, NULL, "Is it a float?", NULL},
                                         {"is_complex", dtype_is_complex, NULL, "Is it complex?", NULL},
                                         {"is_signed", dtype_is_signed, NULL, "Can it be negative?", NULL},
                                         {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef dtype_methods[] = {
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex dtype with such parts."},
    {"to_real", dtype_to_real, METH_NOARGS, "The dtype of the parts."},
    {"__reduce__", dtype_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot dtype_slots[] = {{Py_tp_doc, "What the elements of a tensor are."},
                                    {Py_tp_repr, dtype_repr},
                                    {Py_tp_getset, dtype_attributes},
                                    {Py_tp_methods, dtype_methods},
                                    {0, NULL}};
static PyType_Spec dtype_spec = {.name = "tensord.dtype",
                                 .basicsize = sizeof(tdpy_dtype),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = dtype_slots};

bool tdpy_as_dtype(PyObject *o, td_dtype *out)
{
    if (Py_TYPE(o) == tdpy.dtype) *out = code_of(o);
    else if (o == Py_None) *out = TD_DTYPE_NONE;
    else if (o == (PyObject *)&PyFloat_Type) *out = TD_FLOAT64; /* what Python's float is, whatever the default */
    else if (o == (PyObject *)&PyLong_Type) *out = TD_INT64;
    else if (o == (PyObject *)&PyBool_Type) *out = TD_BOOL;
    else if (o == (PyObject *)&PyComplex_Type) *out = TD_COMPLEX128;
    else
        return tdpy_raise(TD_E_TYPE, "dtype must be a tensord.dtype such as tensord.float32, not %.100s",
                          tdpy_type_name(o));
    return true;
}

/* ---- device ------------------------------------------------------------------------------------------------------ */

bool tdpy_check_device(PyObject *o)
{
    if (o == Py_None || Py_TYPE(o) == tdpy.device) return true;
    const char *name = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
    if (name && (!strcmp(name, "cpu") || !strcmp(name, "cpu:0"))) return true;
    PyErr_Clear();
    if (name) return tdpy_raise(TD_E_UNSUPPORTED, "there is no device '%.100s' here; only 'cpu'", name);
    return tdpy_raise(TD_E_TYPE, "device must be a tensord.device or a str, not %.100s", tdpy_a_type(o));
}

PyObject *tdpy_device(void)
{
    return Py_NewRef(tdpy.cpu);
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    (void)type;
    static char *names[] = {"type", "index", NULL};
    PyObject *what, *index = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|O:device", names, &what, &index)) return NULL;
    return tdpy_check_device(what) ? tdpy_device() : NULL;
}

static PyObject *device_repr(PyObject *self)
{
    (void)self;
    return PyUnicode_FromString("device(type='cpu')");
}

static PyObject *device_str(PyObject *self)
{
    (void)self;
    return PyUnicode_FromString("cpu");
}

static PyObject *device_type(PyObject *self, void *ignored)
{
    (void)ignored;
    return device_str(self);
}

static PyObject *device_index(PyObject *self, void *ignored)
{
    (void)self, (void)ignored;
    return Py_NewRef(Py_None);
}

static PyObject *device_reduce(PyObject *self, PyObject *ignored)
{
    (void)self, (void)ignored;
    return Py_BuildValue("O(s)", tdpy.device, "cpu");
}

static PyGetSetDef device_attributes[] = {{"type", device_type, NULL, "'cpu'", NULL},
                                          {"index", device_index, NULL, "Which one; None for the only one.", NULL},
                                          {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot device_slots[] = {{Py_tp_doc, "device(type)\n--\n\nWhere a tensor lies."},
                                     {Py_tp_new, device_new},
                                     {Py_tp_repr, device_repr},
                                     {Py_tp_str, device_str},
                                     {Py_tp_getset, device_attributes},
                                     {Py_tp_methods, device_methods},
                                     {0, NULL}};
static PyType_Spec device_spec = {.name = "tensord.device",
                                  .basicsize = sizeof(tdpy_device_object),
                                  .flags = Py_TPFLAGS_DEFAULT,
                                  .slots = device_slots};

bool tdpy_init_types(PyObject *module)
{
    tdpy.dtype = (PyTypeObject *)PyType_FromModuleAndSpec(module, &dtype_spec, NULL);
    tdpy.device = (PyTypeObject *)PyType_FromModuleAndSpec(module, &device_spec, NULL);
    if (!tdpy.dtype || !tdpy.device || PyModule_AddType(module, tdpy.dtype) || PyModule_AddType(module, tdpy.device))
        return false;
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        tdpy_dtype *d = PyObject_New(tdpy_dtype, tdpy.dtype);
        if (!d) return false;
        d->code = (td_dtype)i;
        tdpy.dtypes[i] = (PyObject *)d;
        if (PyModule_AddObjectRef(module, td_dtype_name((td_dtype)i), tdpy.dtypes[i])) return false;
    }
    tdpy.cpu = (PyObject *)PyObject_New(tdpy_device_object, tdpy.device);
    tdpy.default_dtype = TD_FLOAT32;
    return tdpy.cpu != NULL;
}
