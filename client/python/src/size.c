/* tensord.Size, what x.shape is: a tuple of ints that knows how many elements a tensor of that shape has. What is made
 * of one by slices, + and * is one, as PyTorch's is. It equals, hashes and prints as the tuple. */
#include "client/python/src/py.h"

PyObject *tdpy_size_new(Py_ssize_t n)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(tdpy.size, Py_tp_alloc);
    return alloc(tdpy.size, n);
}

/* Consumes `tuple`. */
static PyObject *as_size(PyObject *tuple)
{
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
    PyObject *made = tuple ? tdpy_size_new(n) : NULL;
    for (Py_ssize_t i = 0; made && i < n; i++)
        if (PyTuple_SetItem(made, i, Py_NewRef(PyTuple_GetItem(tuple, i)))) Py_CLEAR(made);
    Py_XDECREF(tuple);
    return made;
}

static PyObject *size_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    (void)kw;
    PyObject *from = NULL;
    if (!PyArg_ParseTuple(args, "|O:Size", &from)) return NULL;
    PyObject *items = from ? PySequence_Tuple(from) : PyTuple_New(0);
    Py_ssize_t n = items ? PyTuple_Size(items) : 0;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *made = items ? alloc(type, n) : NULL;
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *item = PyTuple_GetItem(items, i), *number = tdpy_is_followed(item) ? Py_NewRef(item)
                                                              : PyIndex_Check(item)  ? PyNumber_Index(item)
                                                                                     : NULL;
        if (number && !PyTuple_SetItem(made, i, number)) continue;
        if (!PyErr_Occurred())
            tdpy_raise(TD_E_TYPE, "Size() takes an iterable of 'int' (item %zd is '%.100s')", i, tdpy_type_name(item));
        Py_CLEAR(made);
    }
    Py_XDECREF(items);
    return made;
}

static PyObject *size_numel(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    PyObject *product = PyLong_FromLong(1);
    for (Py_ssize_t i = 0; product && i < PyTuple_Size(self); i++) {
        PyObject *before = product;
        product = PyNumber_Multiply(before, PyTuple_GetItem(self, i));
        Py_DECREF(before);
    }
    return product;
}

static PyObject *size_get(PyObject *self, PyObject *key)
{
    PyObject *got = ((binaryfunc)PyType_GetSlot(&PyTuple_Type, Py_mp_subscript))(self, key);
    return PySlice_Check(key) ? as_size(got) : got;
}

/* Either of the two is a size. */
static PyObject *size_add(PyObject *a, PyObject *b)
{
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) return Py_NewRef(Py_NotImplemented);
    return as_size(PySequence_Concat(a, b));
}

static PyObject *size_multiply(PyObject *a, PyObject *b)
{
    PyObject *size = PyTuple_Check(a) ? a : b, *number = size == a ? b : a;
    if (!PyIndex_Check(number)) return Py_NewRef(Py_NotImplemented);
    Py_ssize_t times = PyNumber_AsSsize_t(number, PyExc_OverflowError);
    if (times == -1 && PyErr_Occurred()) return NULL;
    return as_size(PySequence_Repeat(size, times));
}

static PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "numel($self)\n--\n\nHow many elements a tensor of this shape has."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot size_slots[] = {
    {Py_tp_doc, "Size(sizes=())\n--\n\nThe sizes of a tensor's dimensions: a tuple of ints, with numel()."},
    {Py_tp_new, size_new},
    {Py_tp_methods, size_methods},
    {Py_mp_subscript, size_get},
    {Py_nb_add, size_add},
    {Py_nb_multiply, size_multiply},
    {0, NULL}};
static PyType_Spec size_spec = {
    .name = "tensord.Size", .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = size_slots};

bool tdpy_init_size(PyObject *module)
{
    PyObject *bases = PyTuple_Pack(1, (PyObject *)&PyTuple_Type);
    if (bases) tdpy.size = (PyTypeObject *)PyType_FromModuleAndSpec(module, &size_spec, bases);
    Py_XDECREF(bases);
    return tdpy.size && !PyModule_AddType(module, tdpy.size);
}
