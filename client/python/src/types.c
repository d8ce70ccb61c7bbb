/* dtype and device objects. There is one object for each dtype, so that `is` tells them apart as `==` does. */
#include "client/python/src/py.h"

#include <stdio.h>
#include <string.h>

typedef struct tdpy_device_object {
    PyObject_HEAD int number; /* NOWHERE: a name of PyTorch's, to be compared and printed */
    char name[32];            /* then */
} tdpy_device_object;

enum { NOWHERE = -2 };

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
    return PyBool_FromLong(code_of(self) != TD_BOOL && !td_dtype_is_unsigned(code_of(self)));
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

/* There is one object for each device, made when it is first asked for. */
PyObject *tdpy_device(int number)
{
    if (number < 0) return tdpy_fail();
    if (!tdpy.devices[number]) {
        tdpy_device_object *d = PyObject_New(tdpy_device_object, tdpy.device);
        if (!d) return NULL;
        d->number = number;
        tdpy.devices[number] = (PyObject *)d;
    }
    return Py_NewRef(tdpy.devices[number]);
}

static int number_of(PyObject *device)
{
    return ((tdpy_device_object *)device)->number;
}

static const char *text_of(PyObject *device)
{
    const tdpy_device_object *d = (const tdpy_device_object *)device;
    return d->number == NOWHERE ? d->name : td_device_text(d->number);
}

/* A type that PyTorch knows, alone or with a number? */
static bool is_known(const char *name)
{
    static const char *const types[] = {"cpu",    "cuda", "ipu",  "xpu",  "mkldnn", "opengl",       "opencl",
                                        "ideep",  "hip",  "ve",   "fpga", "maia",   "xla",          "lazy",
                                        "vulkan", "mps",  "meta", "hpu",  "mtia",   "privateuseone"};
    size_t n = strcspn(name, ":"), digits = name[n] ? strspn(name + n + 1, "0123456789") : 0;
    if (name[n] && (!digits || digits > 3 || name[n + 1 + digits])) return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i]) == n && !memcmp(types[i], name, n)) return true;
    return false;
}

/* One object for each name, so that `is`, `==` and hashes tell them apart as those of devices that are there. */
static PyObject *nowhere(const char *name)
{
    static PyObject *known;
    if (!known && !(known = PyDict_New())) return NULL;
    PyObject *found = PyDict_GetItemString(known, name);
    if (found) return Py_NewRef(found);
    tdpy_device_object *d = PyObject_New(tdpy_device_object, tdpy.device);
    if (!d) return NULL;
    d->number = NOWHERE;
    snprintf(d->name, sizeof d->name, "%s", name);
    if (PyDict_SetItemString(known, d->name, (PyObject *)d)) Py_CLEAR(d);
    return (PyObject *)d;
}

/* Which there are beside the CPU, the daemon says. */
bool tdpy_is_here(int device)
{
    if (device == TD_CPU) return true;
    td_client *c = tdpy_client();
    if (c && !td_check_device(c, device)) return true;
    tdpy_fail();
    return false;
}

/* Raises where there is none. */
static bool device_by_name(const char *name, int *device)
{
    *device = td_device_by_text(name);
    if (*device < 0) return tdpy_raise(TD_E_UNSUPPORTED, "there is no device '%.100s'", name) != NULL;
    return tdpy_is_here(*device);
}

/* "cuda", or "cuda:" and a number that is written in one way. */
static bool is_proper(const char *name, Py_ssize_t length)
{
    const char *colon = strchr(name, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (!*name) return tdpy_raise(TD_E_INVALID, "Device string must not be empty") != NULL;
    if ((size_t)length != strlen(name) || (colon && (!digits || colon[1 + digits] || (digits > 1 && colon[1] == '0'))))
        return tdpy_raise(TD_E_INVALID, "Invalid device string: '%.100s'", name) != NULL;
    return true;
}

bool tdpy_as_device(PyObject *o, int *device)
{
    *device = -1;
    if (o == Py_None) return true;
    if (Py_TYPE(o) == tdpy.device && number_of(o) != NOWHERE) return *device = number_of(o), true;
    if (Py_TYPE(o) == tdpy.device) return device_by_name(text_of(o), device);
    Py_ssize_t length = 0;
    const char *name = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, &length) : NULL;
    PyErr_Clear();
    if (!PyUnicode_Check(o))
        return tdpy_raise(TD_E_TYPE, "device must be a tensord.device or a str, not %.100s", tdpy_a_type(o));
    return (!name || is_proper(name, length)) && device_by_name(name ? name : "?", device);
}

/* As a value: one that is not there has no number, but a name. */
static PyObject *device_named(PyObject *what)
{
    Py_ssize_t length = 0;
    const char *name = PyUnicode_AsUTF8AndSize(what, &length);
    int number;
    if (!name || !is_proper(name, length)) return NULL;
    if (device_by_name(name, &number)) return tdpy_device(number);
    if (!PyErr_ExceptionMatches(tdpy.errors[TD_E_UNSUPPORTED]) || !is_known(name)) return NULL;
    PyErr_Clear();
    return nowhere(name);
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    (void)type;
    static char *names[] = {"type", "index", NULL};
    PyObject *what, *index = Py_None, *whole = NULL;
    int number;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|O:device", names, &what, &index)) return NULL;
    if (index != Py_None && !PyLong_Check(index))
        return tdpy_raise(TD_E_TYPE, "device(): argument 'index' must be an int, not %.100s", tdpy_a_type(index));
    if (index != Py_None && Py_TYPE(what) == tdpy.device)
        return tdpy_raise(TD_E_TYPE, "device(): an index stands behind a type, as ('cuda', 0), not behind a device");
    if (index != Py_None && PyUnicode_Check(what) && !(whole = PyUnicode_FromFormat("%U:%S", what, index))) return NULL;
    PyObject *named = whole ? whole : what, *made = NULL;
    if (PyUnicode_Check(named)) made = device_named(named);
    else if (Py_TYPE(named) == tdpy.device) made = Py_NewRef(named);
    else if (named == Py_None) tdpy_raise(TD_E_TYPE, "device must be a tensord.device or a str, not None");
    else tdpy_as_device(named, &number); /* raises */
    Py_XDECREF(whole);
    return made;
}

static PyObject *device_str(PyObject *self)
{
    return PyUnicode_FromString(text_of(self));
}

/* What stands before the colon. */
static PyObject *device_type(PyObject *self, void *ignored)
{
    (void)ignored;
    const char *text = text_of(self);
    return PyUnicode_FromStringAndSize(text, (Py_ssize_t)strcspn(text, ":"));
}

static PyObject *device_index(PyObject *self, void *ignored)
{
    (void)ignored;
    const char *colon = strchr(text_of(self), ':');
    return colon ? PyLong_FromString(colon + 1, NULL, 10) : Py_NewRef(Py_None);
}

static PyObject *device_repr(PyObject *self)
{
    PyObject *type = device_type(self, NULL), *index = device_index(self, NULL), *text = NULL;
    if (type && index)
        text = index == Py_None ? PyUnicode_FromFormat("device(type=%R)", type)
                                : PyUnicode_FromFormat("device(type=%R, index=%R)", type, index);
    Py_XDECREF(type);
    Py_XDECREF(index);
    return text;
}

static PyObject *device_reduce(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_BuildValue("O(s)", tdpy.device, text_of(self));
}

static PyGetSetDef device_attributes[] = {
    {"type", device_type, NULL, "'cpu', 'cuda'", NULL},
    {"index", device_index, NULL, "Which one of its type; None for the CPU.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot device_slots[] = {
    {Py_tp_doc, "device(type, index=None)\n--\n\nWhere a tensor lies: device('cpu'), device('cuda:1'), device('cuda', "
                "1). One that is not there can be compared and printed; who makes a tensor there is told so."},
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
    tdpy.default_dtype = TD_FLOAT32;
    return true;
}
