/* The tensor object: its life, its attributes, and the type that puts all methods together.
 *
 * Objects of the base type are recycled; those of subclasses are ordinary. The weak references and the array are all
 * that an object has. */
#include "client/python/src/py.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

enum { SPARE = 64 };
static PyObject *spare[SPARE];
static int nspare;

/* Views come into a graph with what they are views of, and bases with their views, and no object knows its relatives:
 * when one that was taken for plain has come into a graph by being written, the daemon is asked once more about each
 * that was known to be plain before (tdpy_requires_grad). */
static uint32_t entered; /* how often that was; at its largest for ever */

bool tdpy_is_plain(PyObject *tensor)
{
    const tdpy_tensor *t = (tdpy_tensor *)tensor;
    return t->plain && t->since == entered && entered < UINT32_MAX;
}

void tdpy_set_plain(PyObject *tensor, bool plain)
{
    tdpy_tensor *t = (tdpy_tensor *)tensor;
    t->plain = plain;
    t->since = entered;
}

void tdpy_some_entered(void)
{
    entered += entered < UINT32_MAX;
}

void tdpy_enter_graph(PyObject *tensor)
{
    tdpy_tensor *t = (tdpy_tensor *)tensor;
    if (t->plain) tdpy_some_entered();
    t->plain = false;
}

uint32_t tdpy_moment(void)
{
    return entered;
}

bool tdpy_take_grad(PyObject *self, const td_info *info, uint32_t moment)
{
    tdpy_tensor *t = (tdpy_tensor *)self;
    if (!info->requires_grad && t->plain) t->since = moment;
    return info->requires_grad;
}

int tdpy_requires_grad(PyObject *self)
{
    td_info info;
    uint32_t moment = tdpy_moment();
    if (tdpy_is_plain(self)) return 0;
    if (td_get_info(tdpy_array(self), &info) || PyErr_Occurred()) return tdpy_fail(), -1;
    return tdpy_take_grad(self, &info, moment);
}

PyObject *tdpy_wrap(td_array *a, bool plain)
{
    if (!a) return tdpy_fail();
    if (PyErr_Occurred()) return td_release(a), NULL;
    tdpy_tensor *t;
    if (nspare) t = (tdpy_tensor *)PyObject_Init(spare[--nspare], tdpy.tensor);
    else t = PyObject_New(tdpy_tensor, tdpy.tensor);
    if (!t) {
        td_release(a);
        return NULL;
    }
    t->array = a;
    t->weak = NULL;
    t->name = NULL;
    tdpy_set_plain((PyObject *)t, plain);
    t->fresh = false;
    t->part = TDPY_ANY;
    return (PyObject *)t;
}

PyObject *tdpy_wrap_like(td_array *a, PyObject *from)
{
    return tdpy_wrap(a, tdpy_is_plain(from) || !td_grad_enabled());
}

PyObject *tdpy_wrap_view(td_array *a, PyObject *from)
{
    PyObject *view = tdpy_wrap_like(a, from);
    if (view) tdpy_inherit_part(view, from);
    return view;
}

static void dealloc(PyObject *self)
{
    tdpy_tensor *t = (tdpy_tensor *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (t->weak) PyObject_ClearWeakRefs(self);
    td_array *a = t->array;
    t->array = NULL;
    free(t->name);
    if (type == tdpy.tensor && nspare < SPARE) {
        spare[nspare++] = self;
    } else {
        freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
        free_object(self);
    }
    Py_DECREF(type);
    bool raised = PyErr_Occurred() != NULL;
    td_release(a); /* may let other threads run, and signals' handlers */
    tdpy_tell_later(raised);
}

/* Tensor(other) and Tensor(nested data): how subclasses are made; tensord.tensor() is for everybody else. */
static PyObject *new_tensor(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *data = NULL;
    if (type == tdpy.tensor && kw && PyDict_Size(kw))
        return tdpy_raise(TD_E_TYPE, "Tensor() takes no keywords; use tensord.tensor(data, dtype=...)");
    if (!PyArg_ParseTuple(args, "O:Tensor", &data)) return NULL;
    bool plain = !tdpy_is_tensor(data) || tdpy_is_plain(data);
    td_array *a = tdpy_is_tensor(data) ? td_alias(tdpy_array(data)) : tdpy_from_data(data, tdpy.default_dtype, -1);
    if (!a) return tdpy_fail();
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    tdpy_tensor *t = (tdpy_tensor *)alloc(type, 0);
    if (!t) {
        td_release(a);
        return NULL;
    }
    t->array = a;
    tdpy_set_plain((PyObject *)t, plain);
    return (PyObject *)t;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static PyObject *with_sizes(PyObject *t, td_array *a)
{
    for (int i = 0; t && i < td_ndim(a); i++) {
        PyObject *number = tdpy_size_of(a, i, td_shape(a)[i]);
        if (!number || PyTuple_SetItem(t, i, number)) Py_CLEAR(t);
    }
    return t;
}

/* Numbers into a tuple that is new, which is consumed where they do not fit. */
static PyObject *filled(PyObject *t, int n, const int64_t *with)
{
    for (int i = 0; t && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(with[i]);
        if (!number || PyTuple_SetItem(t, i, number)) Py_CLEAR(t);
    }
    return t;
}

PyObject *tdpy_shape_of(td_array *a)
{
    int n = td_ndim(a);
    if (n < 0) return tdpy_fail();
    return td_is_tracing() ? with_sizes(tdpy_size_new(n), a) : filled(tdpy_size_new(n), n, td_shape(a));
}

static PyObject *get_shape(PyObject *self, void *ignored)
{
    (void)ignored;
    return tdpy_shape_of(tdpy_array(self));
}

static PyObject *get_dtype(PyObject *self, void *ignored)
{
    (void)ignored;
    td_dtype d = td_dtype_of(tdpy_array(self));
    return d == TD_DTYPE_NONE ? tdpy_fail() : tdpy_dtype_object(d);
}

static PyObject *get_device(PyObject *self, void *ignored)
{
    (void)ignored;
    return tdpy_device(td_device_of(tdpy_array(self)));
}

static PyObject *count(int64_t n)
{
    return n < 0 ? tdpy_fail() : PyLong_FromLongLong(n);
}

static PyObject *get_ndim(PyObject *self, void *ignored)
{
    (void)ignored;
    return count(td_ndim(tdpy_array(self)));
}

static PyObject *get_numel(PyObject *self, void *ignored)
{
    (void)ignored;
    int64_t n = td_numel(tdpy_array(self));
    return td_is_tracing() && n >= 0 ? tdpy_size_of(tdpy_array(self), -1, n) : count(n);
}

static PyObject *get_nbytes(PyObject *self, void *ignored)
{
    td_dtype d = td_dtype_of(tdpy_array(self));
    PyObject *n = d == TD_DTYPE_NONE ? tdpy_fail() : get_numel(self, ignored), *made = NULL;
    PyObject *each = n ? PyLong_FromSize_t(td_element_size(d)) : NULL;
    if (each) made = PyNumber_Multiply(n, each);
    Py_XDECREF(each);
    Py_XDECREF(n);
    return made;
}

static PyObject *get_layout(PyObject *self, void *ignored)
{
    (void)ignored;
    return tdpy_forward("_layout_of", NULL, &self, 1, NULL);
}

static PyObject *get_itemsize(PyObject *self, void *ignored)
{
    (void)ignored;
    td_dtype d = td_dtype_of(tdpy_array(self));
    return d == TD_DTYPE_NONE ? tdpy_fail() : PyLong_FromSize_t(td_element_size(d));
}

static PyObject *get_data(PyObject *self, void *ignored)
{
    (void)ignored;
    return tdpy_wrap(td_data_of(tdpy_array(self)), true);
}

static bool same_place(td_array *a, td_array *b)
{
    td_info x, y;
    if (td_desc_known(a)->offset != td_desc_known(b)->offset ||
        memcmp(td_strides(a), td_strides(b), (size_t)td_ndim(a) * sizeof(int64_t)) != 0)
        return false;
    return !td_get_info(a, &x) && !td_get_info(b, &y) && x.storage == y.storage;
}

/* x.data = y writes the values of y; nothing is left to do when they are the same bytes, as after x.data -= y. */
static int set_data(PyObject *self, PyObject *value, void *ignored)
{
    (void)ignored;
    td_array *a = tdpy_array(self), *b = value && tdpy_is_tensor(value) ? tdpy_array(value) : NULL;
    if (!b)
        return tdpy_raise(TD_E_TYPE, "data must be a Tensor, not %.100s", value ? tdpy_type_name(value) : "nothing"),
               -1;
    if (td_ndim(a) < 0 || td_ndim(b) < 0) return tdpy_fail(), -1;
    if (td_ndim(a) != td_ndim(b) || memcmp(td_shape(a), td_shape(b), (size_t)td_ndim(a) * sizeof(int64_t)) != 0 ||
        td_dtype_of(a) != td_dtype_of(b))
        return tdpy_raise(TD_E_UNSUPPORTED,
                          "data can be set to a tensor of the same shape and dtype only; make a new tensor instead"),
               -1;
    if (same_place(a, b)) return 0;
    td_array *bytes = td_data_of(a);
    bool was = td_set_grad_enabled(false);
    int rc = bytes ? td_at_copy_(tdpy_site(), bytes, b) : -1;
    td_set_grad_enabled(was);
    td_release(bytes);
    return rc || PyErr_Occurred() ? (tdpy_fail(), -1) : 0;
}

bool tdpy_set_name(PyObject *o, const char *name)
{
    tdpy_tensor *t = (tdpy_tensor *)o;
    free(t->name);
    t->name = strdup(name);
    return t->name || (PyErr_NoMemory(), false);
}

static PyObject *get_name(PyObject *self, void *ignored)
{
    (void)ignored;
    const char *name = ((tdpy_tensor *)self)->name;
    return name ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
}

/* What no tensor is here, and programs ask all the same. */
static PyObject *get_no(PyObject *self, void *ignored)
{
    (void)self, (void)ignored;
    return Py_NewRef(Py_False);
}

static PyObject *get_is_cpu(PyObject *self, void *ignored)
{
    (void)ignored;
    int device = td_device_of(tdpy_array(self));
    return device < 0 ? tdpy_fail() : PyBool_FromLong(!device);
}

static PyObject *get_is_cuda(PyObject *self, void *ignored)
{
    (void)ignored;
    int device = td_device_of(tdpy_array(self));
    return device < 0 ? tdpy_fail() : PyBool_FromLong(tdpy_is_gpu(device));
}

/* All dimensions in reverse; mT: the last two exchanged. */
static PyObject *get_T(PyObject *self, void *ignored)
{
    (void)ignored;
    td_array *a = tdpy_array(self);
    int64_t dims[TD_MAX_DIMS];
    int n = td_ndim(a);
    for (int i = 0; i < n; i++) dims[i] = n - 1 - i;
    return n < 0 ? tdpy_fail() : tdpy_wrap_view(td_at_permute(tdpy_site(), a, td_dims_of(n, dims)), self);
}

static PyObject *get_mT(PyObject *self, void *ignored)
{
    (void)ignored;
    td_array *a = tdpy_array(self);
    if (td_ndim(a) < 0) return tdpy_fail();
    if (td_ndim(a) == 0) return Py_NewRef(self);
    if (td_ndim(a) < 2)
        return tdpy_raise(TD_E_SHAPE, "tensor.mT is for matrices and batches of them, not for %d dimensions",
                          td_ndim(a));
    return tdpy_wrap_view(td_at_transpose(tdpy_site(), a, -2, -1), self);
}

static PyObject *get_mH(PyObject *self, void *ignored)
{
    (void)ignored;
    td_array *a = tdpy_array(self);
    if (td_ndim(a) < 0) return tdpy_fail();
    if (!td_dtype_is_complex(td_dtype_of(a)) && td_ndim(a) != 1) return get_mT(self, NULL);
    if (td_ndim(a) == 0) return tdpy_wrap_like(td_at_conj(tdpy_site(), a), self);
    return tdpy_wrap_like(td_at_adjoint(tdpy_site(), a), self);
}

static PyObject *get_H(PyObject *self, void *ignored)
{
    int n = td_ndim(tdpy_array(self));
    if (n < 0) return tdpy_fail();
    if (n != 2 && n != 0)
        return tdpy_raise(TD_E_SHAPE, "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.", n);
    return get_mH(self, ignored);
}

/* A view of one part; real numbers are theirs. */
static PyObject *get_part(PyObject *self, int part)
{
    td_array *x = tdpy_array(self);
    td_dtype d = td_dtype_of(x);
    if (d == TD_DTYPE_NONE) return tdpy_fail();
    if (!td_dtype_is_complex(d)) return part ? tdpy_wrap_like(td_at_imag(tdpy_site(), x), self) : Py_NewRef(self);
    return tdpy_wrap_like(td_at_view_part(tdpy_site(), x, part), self);
}

static PyObject *get_real(PyObject *self, void *ignored)
{
    (void)ignored;
    return get_part(self, 0);
}

static PyObject *get_imag(PyObject *self, void *ignored)
{
    (void)ignored;
    return get_part(self, 1);
}

/* x.real = y, x.imag = y: by the function that is named. */
static int set_part(PyObject *self, PyObject *value, void *name)
{
    if (!value) return tdpy_raise(TD_E_TYPE, "a tensor's parts cannot be deleted"), -1;
    PyObject *both[] = {self, value}, *done = tdpy_forward(name, NULL, both, 2, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static bool get_info(PyObject *self, td_info *info)
{
    if (td_get_info(tdpy_array(self), info) == TD_OK && !PyErr_Occurred()) return true;
    tdpy_fail();
    return false;
}

static PyObject *get_is_leaf(PyObject *self, void *ignored)
{
    (void)ignored;
    td_info info;
    if (tdpy_is_plain(self)) return Py_NewRef(Py_True);
    return get_info(self, &info) ? PyBool_FromLong(info.leaf || !info.requires_grad) : NULL;
}

static PyObject *get_grad_fn(PyObject *self, void *ignored)
{
    (void)ignored;
    if (tdpy_is_plain(self)) return Py_NewRef(Py_None);
    return tdpy_forward("tensor_grad_fn", NULL, &self, 1, NULL);
}

static PyObject *get_version(PyObject *self, void *ignored)
{
    (void)ignored;
    td_info info;
    return get_info(self, &info) ? PyLong_FromUnsignedLong(info.version) : NULL;
}

/* Where it is told apart from others, and how large it is: of the storage. */
static PyObject *storage_number(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_info info;
    return get_info(self, &info) ? PyLong_FromUnsignedLongLong(info.storage) : NULL;
}

static PyObject *storage_nbytes(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_info info;
    return get_info(self, &info) ? PyLong_FromUnsignedLongLong(info.nbytes) : NULL;
}

/* A view's is known to nobody here: objects know no relatives. */
static PyObject *get_base(PyObject *self, void *ignored)
{
    (void)ignored;
    if (!td_is_view(tdpy_array(self))) return Py_NewRef(Py_None);
    PyErr_SetString(PyExc_AttributeError,
                    "_base: a view does not know what it is a view of; _is_view() says that it is one, and "
                    "x.untyped_storage() == y.untyped_storage() whether two share memory");
    return NULL;
}

static PyObject *get_parameter(PyObject *self, void *closure)
{
    (void)self, (void)closure;
    PyErr_SetString(PyExc_AttributeError, "_is_param");
    return NULL;
}

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "The sizes of the dimensions, a tuple.", NULL},
    {"dtype", get_dtype, NULL, "What the elements are.", NULL},
    {"device", get_device, NULL, "Where the tensor lies.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"nbytes", get_nbytes, NULL, "The bytes of its value.", NULL},
    {"itemsize", get_itemsize, NULL, "The bytes of an element.", NULL},
    {"layout", get_layout, NULL, "What it is made of: tensord.strided, as all tensors here.", NULL},
    {"_base", get_base, NULL, "None, of what is no view.", NULL},
    {"_is_param", get_parameter, tdpy_set_parameter, NULL, NULL},
    {"data", get_data, set_data, "The same bytes outside of every graph, with a version counter of its own.", NULL},
    {"T", get_T, NULL, "A view with the dimensions in reverse.", NULL},
    {"mT", get_mT, NULL, "A view with the last two dimensions exchanged.", NULL},
    {"mH", get_mH, NULL, "The last two dimensions exchanged, complex numbers conjugated.", NULL},
    {"H", get_H, NULL, "A matrix with rows and columns exchanged, complex numbers conjugated.", NULL},
    {"real", get_real, set_part,
     "The real parts over the same memory (a copy where gradients are wanted); the tensor itself when it is real. To "
     "assign writes them.",
     "set_real"},
    {"imag", get_imag, set_part,
     "The imaginary parts of complex numbers, over the same memory (a copy where gradients are wanted). To assign "
     "writes them.",
     "set_imag"},
    {"grad", tdpy_get_grad, tdpy_set_grad, "What backward added up; None without one.", NULL},
    {"_grad", tdpy_get_grad, tdpy_set_grad, "PyTorch's other name for grad, which optimizers of others use.", NULL},
    {"requires_grad", tdpy_get_requires_grad, tdpy_set_requires_grad, "Does backward compute a gradient for it?", NULL},
    {"is_leaf", get_is_leaf, NULL, "Was it made by no op that is recorded?", NULL},
    {"grad_fn", get_grad_fn, NULL, "The node of the graph that made it; None for a leaf.", NULL},
    {"name", get_name, NULL, "The name it was published or opened under, as far as this object knows; else None.",
     NULL},
    {"is_cpu", get_is_cpu, NULL, "Does it lie in the memory of the processors?", NULL},
    {"is_cuda", get_is_cuda, NULL, "Does it lie in the memory of a GPU?", NULL},
    {"__cuda_array_interface__", tdpy_cuda_interface, NULL,
     "Where it lies on a GPU, for libraries that take that: the same memory, to read and to write. No attribute of "
     "others.",
     NULL},
    {"is_mps", get_no, NULL, "False: tensors lie on the CPU.", NULL},
    {"is_mtia", get_no, NULL, "False: tensors lie on the CPU.", NULL},
    {"is_xla", get_no, NULL, "False: tensors lie on the CPU.", NULL},
    {"is_xpu", get_no, NULL, "False: tensors lie on the CPU.", NULL},
    {"is_meta", get_no, NULL, "False: a tensor has elements.", NULL},
    {"is_mkldnn", get_no, NULL, "False: elements lie as strides say.", NULL},
    {"is_nested", get_no, NULL, "False: all rows are of one length.", NULL},
    {"is_quantized", get_no, NULL, "False: elements are numbers.", NULL},
    {"is_sparse", get_no, NULL, "False: all elements are there.", NULL},
    {"is_sparse_csr", get_no, NULL, "False: all elements are there.", NULL},
    {"_version", get_version, NULL, "How often the memory was written.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* ---- methods that are no ops ------------------------------------------------------------------------------------- */

static PyObject *one_of(td_array *a, const int64_t *all, PyObject *args, PyObject *kw, const char *what)
{
    static char *names[] = {"dim", NULL};
    PyObject *dim = Py_None;
    int64_t k;
    int at, n = td_ndim(a);
    td_error e = {0};
    if (n < 0) return tdpy_fail();
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O", names, &dim)) return NULL;
    if (dim != Py_None) {
        if (!tdpy_as_int(dim, &k, what, "dim")) return NULL;
        if (td_wrap_dim(k, n, &at, &e) || !n)
            return tdpy_raise(TD_E_INDEX, "%s", e.code ? e.message : "a scalar has no dimensions");
        return all == td_shape(a) ? tdpy_size_of(a, at, all[at]) : PyLong_FromLongLong(all[at]);
    }
    if (all == td_shape(a)) return tdpy_shape_of(a);
    return filled(PyTuple_New(n), n, all);
}

static PyObject *stride(PyObject *self, PyObject *args, PyObject *kw)
{
    if (td_is_tracing() && !tdpy_at_home()) td_trace_look(tdpy_array(self), "stride()");
    return one_of(tdpy_array(self), td_strides(tdpy_array(self)), args, kw, "stride");
}

static PyObject *size(PyObject *self, PyObject *args, PyObject *kw)
{
    return one_of(tdpy_array(self), td_shape(tdpy_array(self)), args, kw, "size");
}

static PyObject *storage_offset(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    if (td_ndim(tdpy_array(self)) < 0) return tdpy_fail();
    int64_t offset = td_desc_known(tdpy_array(self))->offset;
    /* this package takes one of 0, which most have, for one that they always have */
    if (td_is_tracing() && (offset || !tdpy_at_home())) td_trace_look(tdpy_array(self), "storage_offset()");
    return PyLong_FromLongLong(offset);
}

static PyObject *dim(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return get_ndim(self, NULL);
}

static PyObject *numel(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return get_numel(self, NULL);
}

static PyObject *element_size(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return get_itemsize(self, NULL);
}

static PyObject *is_contiguous(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"memory_format", NULL};
    PyObject *format = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:is_contiguous", names, &format)) return NULL;
    if (td_ndim(tdpy_array(self)) < 0) return tdpy_fail();
    if (format == Py_None) return PyBool_FromLong(td_is_contiguous(tdpy_array(self)));
    PyObject *both[] = {self, format};
    return tdpy_forward("_is_laid", NULL, both, 2, NULL);
}

static PyObject *is_floating_point(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(td_dtype_is_float(td_dtype_of(tdpy_array(self))));
}

static PyObject *is_complex(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(td_dtype_is_complex(td_dtype_of(tdpy_array(self))));
}

static PyObject *convert(PyObject *self, td_dtype dtype)
{
    td_array *a = tdpy_array(self);
    if (td_ndim(a) < 0) return tdpy_fail();
    if (dtype == TD_DTYPE_NONE || td_dtype_of(a) == dtype) return Py_NewRef(self);
    return tdpy_wrap_like(td_at_to(tdpy_site(), a, dtype), self);
}

/* Takes t over; -1: it stays where it is. */
static PyObject *moved(PyObject *t, int device)
{
    if (!t || device < 0 || td_device_of(tdpy_array(t)) == device) return t;
    PyObject *there = tdpy_wrap_like(td_at_to_device(tdpy_site(), tdpy_array(t), device), t);
    Py_DECREF(t);
    return there;
}

/* Takes t over. */
static PyObject *laid_out(PyObject *t, PyObject *format)
{
    PyObject *both[] = {t, format};
    PyObject *made = t ? tdpy_forward("_laid_to", NULL, both, 2, NULL) : NULL;
    Py_XDECREF(t);
    return made;
}

/* float() and its like: the one argument is memory_format, by name. */
static PyObject *converted(PyObject *self, td_dtype dtype, const char *name, PyObject *const *args, Py_ssize_t n,
                           PyObject *kw)
{
    Py_ssize_t named = kw ? PyTuple_Size(kw) : 0;
    PyObject *format = named ? args[0] : Py_None;
    if (n || named > 1 || (named && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(kw, 0), "memory_format")))
        return tdpy_raise(TD_E_TYPE, "%s() takes no arguments but memory_format, by name", name);
    PyObject *made = convert(self, dtype);
    return format == Py_None ? made : laid_out(made, format);
}

#define CONVERSION(name, code)                                                                                         \
    static PyObject *to_##name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)                      \
    {                                                                                                                  \
        return converted(self, code, #name, args, n, kw);                                                              \
    }
CONVERSION(float, TD_FLOAT32)
CONVERSION(double, TD_FLOAT64)
CONVERSION(half, TD_FLOAT16)
CONVERSION(bfloat16, TD_BFLOAT16)
CONVERSION(int, TD_INT32)
CONVERSION(long, TD_INT64)
CONVERSION(short, TD_INT16)
CONVERSION(char, TD_INT8)
CONVERSION(byte, TD_UINT8)
CONVERSION(bool, TD_BOOL)

/* Its row in the table of methods. */
#define CONVERTS(name, dtype)                                                                                          \
    {                                                                                                                  \
        .ml_name = #name, .ml_meth = (PyCFunction)(void (*)(void))to_##name,                                           \
        .ml_flags = METH_FASTCALL | METH_KEYWORDS, .ml_doc = #name "($self, memory_format=None)\n--\n\nto(" #dtype ")" \
    }

static bool is_device(PyObject *o)
{
    return PyUnicode_Check(o) || Py_TYPE(o) == tdpy.device;
}

/* What the arguments of to() by place say: a dtype, a device or both in any order, or a tensor; then non_blocking and
 * copy. */
typedef struct {
    PyObject *dtype, *device, *like, *non_blocking, *copy;
} destination;

static bool place(destination *d, PyObject *const *given, int n)
{
    PyObject **flags[] = {&d->non_blocking, &d->copy};
    int k = 0;
    for (int i = 0; i < n && given[i]; i++) {
        PyObject *o = given[i], **to = tdpy_is_tensor(o)                      ? &d->like
                                       : is_device(o) || PyLong_CheckExact(o) ? &d->device
                                                                              : &d->dtype;
        if (PyBool_Check(o) && i) to = k < 2 ? flags[k++] : NULL;
        else if (o == Py_None) continue;
        else if (k || i > 1) to = NULL;
        if (!to)
            return tdpy_raise(
                TD_E_TYPE,
                "to() takes a dtype, a device or a Tensor, then non_blocking and copy, not %.100s as argument %d",
                tdpy_type_name(o), i + 1);
        if (*to)
            return tdpy_raise(TD_E_TYPE, "to() got two of one kind: %.100s is argument %d", tdpy_type_name(o), i + 1);
        *to = o;
    }
    return true;
}

/* A keyword that was given is `*to`, which no argument by place has said. */
static bool name_one(PyObject **to, PyObject *value, const char *name)
{
    if (!value) return true;
    if (*to && *to != Py_None) return tdpy_raise(TD_E_TYPE, "to() got multiple values for argument '%s'", name);
    *to = value;
    return true;
}

/* to(dtype), to(device), to(device, dtype), to(other): in any order, as everybody expects. */
static PyObject *to(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"", "", "", "", "dtype", "device", "copy", "non_blocking", "memory_format", "other", NULL};
    PyObject *given[4] = {NULL}, *dtype = NULL, *device = NULL, *format = Py_None, *copies = NULL, *lazy = NULL,
             *other = NULL;
    bool copy = false, blocking;
    int like = -1;
    td_dtype wanted = TD_DTYPE_NONE;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|OOOO$OOOOOO:to", names, &given[0], &given[1], &given[2], &given[3],
                                     &dtype, &device, &copies, &lazy, &format, &other))
        return NULL;
    destination d = {NULL};
    if (!place(&d, given, 4) || !name_one(&d.dtype, dtype, "dtype") || !name_one(&d.device, device, "device") ||
        !name_one(&d.copy, copies, "copy") || !name_one(&d.non_blocking, lazy, "non_blocking") ||
        !name_one(&d.like, other, "other"))
        return NULL;
    if (!tdpy_as_bool(d.copy, &copy, "to", "copy") || !tdpy_as_bool(d.non_blocking, &blocking, "to", "non_blocking"))
        return NULL;
    if (d.like && d.like != Py_None) {
        if (!tdpy_is_tensor(d.like))
            return tdpy_raise(TD_E_TYPE, "to(): argument 'other' must be Tensor, not %.100s", tdpy_type_name(d.like));
        if ((wanted = td_dtype_of(tdpy_array(d.like))) == TD_DTYPE_NONE) return tdpy_fail();
        like = td_device_of(tdpy_array(d.like));
    }
    int there;
    if (!tdpy_as_device(d.device ? d.device : Py_None, &there)) return NULL;
    if (d.dtype && d.dtype != Py_None && !tdpy_as_dtype(d.dtype, &wanted)) return NULL;
    if (there < 0) there = like;
    bool here = there < 0 || there == td_device_of(tdpy_array(self));
    PyObject *made = copy && here ? tdpy_wrap_like(td_copy_as_it_lies(tdpy_site(), tdpy_array(self), wanted), self)
                                  : moved(convert(self, wanted), there);
    return format == Py_None ? made : laid_out(made, format);
}

/* _become(view): this object stands for a view of its own from now on, as after unsqueeze_(). Others' objects stay. Of
 * its own, so buffers that were exported keep their memory. */
static PyObject *become(PyObject *self, PyObject *view)
{
    tdpy_tensor *t = (tdpy_tensor *)self, *v = (tdpy_tensor *)view;
    if (!tdpy_is_tensor(view))
        return tdpy_raise(TD_E_TYPE, "_become() takes a Tensor, not %.100s", tdpy_type_name(view));
    if (td_is_writing(t->array))
        return tdpy_raise(TD_E_BUSY, "the tensor is being written: leave `with t.writing()` first");
    if (!tdpy_may_write(self, false)) return NULL;
    td_array *before = t->array;
    t->array = td_retain(v->array);
    td_set_view(t->array, td_is_view(before));
    tdpy_set_plain(self, tdpy_is_plain(view));
    td_release(before);
    return Py_NewRef(self);
}

/* reversed(x) is a tensor, as in PyTorch: an iterator would go through it element by element. */
static PyObject *reversed(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    int n = td_ndim(tdpy_array(self));
    if (n < 0) return tdpy_fail();
    return n ? tdpy_wrap_like(td_at_flip(tdpy_site(), tdpy_array(self), td_dims(0)), self) : Py_NewRef(self);
}

/* The array API's to(): no stream. */
static PyObject *to_device(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"", "stream", NULL};
    PyObject *device, *stream = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|$O:to_device", names, &device, &stream)) return NULL;
    if (stream != Py_None) return tdpy_raise(TD_E_INVALID, "tensors have no streams here; stream must be None");
    int number;
    return tdpy_as_device(device, &number) ? moved(Py_NewRef(self), number) : NULL;
}

static PyObject *array_namespace(PyObject *self, PyObject *args, PyObject *kw)
{
    (void)self;
    PyObject *module = PyImport_ImportModule("tensord.array_api");
    PyObject *find = module ? PyObject_GetAttrString(module, "_namespace") : NULL;
    PyObject *found = find ? PyObject_Call(find, args, kw) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(find);
    return found;
}

static PyObject *type_as(PyObject *self, PyObject *other)
{
    if (!tdpy_is_tensor(other))
        return tdpy_raise(TD_E_TYPE, "type_as() takes a Tensor, not %.100s", tdpy_type_name(other));
    return convert(self, td_dtype_of(tdpy_array(other)));
}

static PyObject *cpu(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return moved(Py_NewRef(self), TD_CPU);
}

PyObject *tdpy_wrap_as(PyTypeObject *type, td_array *a, bool plain)
{
    if (type == tdpy.tensor || !a) return tdpy_wrap(a, plain);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    tdpy_tensor *t = (tdpy_tensor *)alloc(type, 0);
    if (!t) return td_release(a), NULL;
    t->array = a;
    tdpy_set_plain((PyObject *)t, plain);
    return (PyObject *)t;
}

/* What a subclass's object has beside the tensor; `memo`: a copy of that, too. */
static bool copy_attributes(PyObject *from, PyObject *to, PyObject *memo)
{
    if (Py_TYPE(from) == tdpy.tensor || !PyObject_HasAttrString(from, "__dict__")) return true;
    PyObject *all = PyObject_GetAttrString(from, "__dict__"), *mine = PyObject_GetAttrString(to, "__dict__");
    PyObject *module = memo ? PyImport_ImportModule("copy") : NULL, *given = all;
    if (memo) given = all && module ? PyObject_CallMethod(module, "deepcopy", "OO", all, memo) : NULL;
    bool good = given && mine && !PyDict_Update(mine, given);
    if (memo) Py_XDECREF(given);
    Py_XDECREF(module);
    Py_XDECREF(all);
    Py_XDECREF(mine);
    return good;
}

static PyObject *copy(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    bool plain = tdpy_is_plain(self) || !td_grad_enabled();
    PyObject *made = tdpy_wrap_as(Py_TYPE(self), td_alias(tdpy_array(self)), plain);
    if (made && !copy_attributes(self, made, NULL)) Py_CLEAR(made);
    return made;
}

/* requires_grad and grad, as the original has them. */
static bool copy_grad(PyObject *from, PyObject *to)
{
    if (tdpy_set_requires_grad(to, Py_True, NULL)) return false;
    PyObject *grad = tdpy_get_grad(from, NULL);
    PyObject *own = grad == Py_None ? Py_NewRef(grad)
                    : grad          ? tdpy_wrap(td_at_clone(tdpy_site(), tdpy_array(grad)), true)
                                    : NULL;
    bool good = own && !tdpy_set_grad(to, own, NULL);
    Py_XDECREF(grad);
    Py_XDECREF(own);
    return good;
}

/* A copy of its own, with the same requires_grad and grad; of leaves only, as a graph is not copied. */
static PyObject *deepcopy(PyObject *self, PyObject *memo)
{
    int grad = tdpy_requires_grad(self);
    PyObject *leaf = grad > 0 ? get_is_leaf(self, NULL) : Py_NewRef(Py_True);
    if (grad < 0 || !leaf) return NULL;
    bool is_leaf = leaf == Py_True;
    Py_DECREF(leaf);
    if (!is_leaf)
        return tdpy_raise(TD_E_AUTOGRAD, "only leaves of a graph can be deep-copied; detach() or clone() this one");
    bool was = td_set_grad_enabled(false);
    PyObject *made = tdpy_wrap_as(Py_TYPE(self), td_at_clone(tdpy_site(), tdpy_array(self)), true);
    bool good = made && (!grad || copy_grad(self, made));
    td_set_grad_enabled(was);
    PyObject *key = good && PyDict_Check(memo) ? PyLong_FromVoidPtr(self) : NULL;
    if (key && PyDict_SetItem(memo, key, made)) good = false;
    Py_XDECREF(key);
    if (good && !copy_attributes(self, made, memo)) good = false;
    if (!good) Py_CLEAR(made);
    return made;
}

static PyObject *repr(PyObject *self)
{
    return tdpy_forward("tensor_repr", NULL, &self, 1, NULL);
}

static PyObject *format(PyObject *self, PyObject *spec)
{
    int n = td_ndim(tdpy_array(self));
    if (n < 0) return tdpy_fail();
    if (!PyUnicode_Check(spec)) return tdpy_raise(TD_E_TYPE, "__format__() takes a str, not %.100s", tdpy_a_type(spec));
    if (n > 0) return PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__format__", "OO", self, spec);
    PyObject *item = tdpy_item(self, NULL);
    PyObject *text = item ? PyObject_Format(item, spec) : NULL;
    Py_XDECREF(item);
    return text;
}

static Py_hash_t hash(PyObject *self)
{
    return (Py_hash_t)((uintptr_t)self >> 4);
}

static PyMethodDef own_methods[] = {
    {"size", (PyCFunction)(void (*)(void))size, METH_VARARGS | METH_KEYWORDS,
     "size($self, dim=None)\n--\n\nThe shape, or the size of one dimension."},
    {"stride", (PyCFunction)(void (*)(void))stride, METH_VARARGS | METH_KEYWORDS,
     "stride($self, dim=None)\n--\n\nThe steps between elements, in elements."},
    {"_storage_number", storage_number, METH_NOARGS, NULL},
    {"_storage_nbytes", storage_nbytes, METH_NOARGS, NULL},
    {"storage_offset", storage_offset, METH_NOARGS,
     "storage_offset($self, /)\n--\n\nWhere in its storage it begins, in elements."},
    {"dim", dim, METH_NOARGS, "dim($self, /)\n--\n\nThe number of dimensions."},
    {"numel", numel, METH_NOARGS, "numel($self, /)\n--\n\nThe number of elements."},
    {"nelement", numel, METH_NOARGS, "nelement($self, /)\n--\n\nThe number of elements."},
    {"element_size", element_size, METH_NOARGS, "element_size($self, /)\n--\n\nThe bytes of an element."},
    {"is_contiguous", (PyCFunction)(void (*)(void))is_contiguous, METH_VARARGS | METH_KEYWORDS,
     "is_contiguous($self, memory_format=None)\n--\n\nDo the elements lie row after row, or in this memory format?"},
    {"is_floating_point", is_floating_point, METH_NOARGS, "is_floating_point($self, /)\n--\n\nIs its dtype a float?"},
    {"is_complex", is_complex, METH_NOARGS, "is_complex($self, /)\n--\n\nIs its dtype complex?"},
    {"to", (PyCFunction)(void (*)(void))to, METH_VARARGS | METH_KEYWORDS,
     "to($self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None, other=None)\n--\n\n"
     "The values in another dtype; the tensor itself when it has it."},
    {"to_device", (PyCFunction)(void (*)(void))to_device, METH_VARARGS | METH_KEYWORDS,
     "to_device($self, device, /, *, stream=None)\n--\n\nThe tensor on a device: itself when it is there, else a "
     "copy."},
    {"__array_namespace__", (PyCFunction)(void (*)(void))array_namespace, METH_VARARGS | METH_KEYWORDS,
     "__array_namespace__($self, /, *, api_version=None)\n--\n\nThe module with the array API's functions."},
    {"type_as", type_as, METH_O, "type_as($self, other, /)\n--\n\nThe values in the dtype of other."},
    CONVERTS(float, float32),
    CONVERTS(double, float64),
    CONVERTS(half, float16),
    CONVERTS(bfloat16, bfloat16),
    CONVERTS(int, int32),
    CONVERTS(long, int64),
    CONVERTS(short, int16),
    CONVERTS(char, int8),
    CONVERTS(byte, uint8),
    CONVERTS(bool, bool),
    {"_become", become, METH_O, NULL},
    {"cpu", cpu, METH_NOARGS, "cpu($self, /)\n--\n\nThe tensor on the CPU: itself when it is there, else a copy."},
    {"item", tdpy_item, METH_NOARGS, "item($self, /)\n--\n\nThe value of the only element, as a number of Python."},
    {"tolist", tdpy_tolist, METH_NOARGS, "tolist($self, /)\n--\n\nThe values as nested lists."},
    {"__copy__", copy, METH_NOARGS, NULL},
    {"__deepcopy__", deepcopy, METH_O, NULL},
    {"__format__", format, METH_O, NULL},
    {"__complex__", tdpy_to_complex, METH_NOARGS, NULL},
    {"__reversed__", reversed, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(tdpy_tensor, weak), READONLY, NULL},
                                {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_doc,
                               "A tensor that lives in the daemon, in memory that processes share.\n\n"
                               "Made by tensord.tensor(), tensord.zeros(), ...; its ops are asked of the daemon, "
                               "which computes them later; a value is waited for when it is looked at."},
                              {Py_tp_new, new_tensor},
                              {Py_tp_dealloc, dealloc},
                              {Py_tp_repr, repr},
                              {Py_tp_hash, hash},
                              {Py_tp_richcompare, tdpy_compare},
                              {Py_tp_iter, tdpy_iterate},
                              {Py_tp_getset, attributes},
                              {Py_tp_members, members},
                              {Py_mp_length, tdpy_length},
                              {Py_mp_subscript, tdpy_getitem},
                              {Py_mp_ass_subscript, tdpy_setitem},
                              {Py_sq_length, tdpy_length},
                              {Py_sq_item, tdpy_sequence_item},
                              {Py_sq_contains, tdpy_contains},
                              {Py_nb_bool, tdpy_truth},
                              {Py_nb_int, tdpy_to_int},
                              {Py_nb_index, tdpy_to_index},
                              {Py_nb_float, tdpy_to_float},
                              {Py_bf_getbuffer, tdpy_get_buffer},
                              {Py_bf_releasebuffer, tdpy_release_buffer}};

static size_t count_methods(const PyMethodDef *m)
{
    size_t n = 0;
    while (m[n].ml_name) n++;
    return n;
}

/* One list of all methods: it lives as long as the type. */
static PyMethodDef *all_methods(void)
{
    const PyMethodDef *parts[] = {own_methods,         tdpy_op_methods,       tdpy_buffer_methods,
                                  tdpy_dlpack_methods, tdpy_autograd_methods, tdpy_share_methods};
    size_t n = 0, nparts = sizeof parts / sizeof parts[0];
    for (size_t i = 0; i < nparts; i++) n += count_methods(parts[i]);
    PyMethodDef *all = calloc(n + 1, sizeof *all);
    n = 0;
    for (size_t i = 0; all && i < nparts; i++) {
        size_t k = count_methods(parts[i]);
        memcpy(all + n, parts[i], k * sizeof *all);
        n += k;
    }
    return all;
}

/* Of NumPy's number or array and a tensor the tensor decides what becomes of them. */
static bool set_priority(void)
{
    PyObject *priority = PyFloat_FromDouble(1000);
    bool good = priority && !PyObject_SetAttrString((PyObject *)tdpy.tensor, "__array_priority__", priority);
    Py_XDECREF(priority);
    return good;
}

bool tdpy_init_tensor(PyObject *module)
{
    PyType_Slot all[sizeof slots / sizeof slots[0] + TDPY_OPERATOR_SLOTS + 2];
    size_t n = sizeof slots / sizeof slots[0];
    PyMethodDef *methods = all_methods();
    if (!methods) return PyErr_NoMemory() != NULL;
    memcpy(all, slots, sizeof slots);
    for (const PyType_Slot *s = tdpy_operator_slots; s->slot; s++) all[n++] = *s;
    all[n++] = (PyType_Slot){Py_tp_methods, methods};
    all[n] = (PyType_Slot){0, NULL};
    PyType_Spec spec = {.name = "tensord.Tensor",
                        .basicsize = sizeof(tdpy_tensor),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                        .slots = all};
    tdpy.tensor = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return tdpy.tensor && set_priority() && PyModule_AddType(module, tdpy.tensor) == 0;
}
