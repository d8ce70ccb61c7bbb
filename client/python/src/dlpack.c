/* DLPack both ways: capsules of the old form and of version 1, as the standard of the array API describes them.
 *
 * What is exported keeps the tensor object until the consumer calls the deleter, from whatever thread. Memory that may
 * only be read is exported as a private mapping: torch ignores the flag that says so, and what it writes there by
 * accident stays its own instead of ending the process. Memory of a GPU is exported as it is. What is imported
 * is copied, but for memory that the other library has from us: what it owns is not the daemon's to map. */
#include "client/python/src/py.h"

#include <stdlib.h>
#include <string.h>

typedef struct dl_device {
    int32_t type, id;
} dl_device;
typedef struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} dl_dtype;
typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *);
} dl_managed;
typedef struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

enum { DL_CPU = 1, DL_CUDA = 2, DL_READ_ONLY = 1, DL_COPIED = 2 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

static const dl_dtype dtypes[TD_DTYPE_COUNT] = {
    [TD_BOOL] = {DL_BOOL, 8, 1},      [TD_UINT8] = {DL_UINT, 8, 1},         [TD_INT8] = {DL_INT, 8, 1},
    [TD_INT16] = {DL_INT, 16, 1},     [TD_INT32] = {DL_INT, 32, 1},         [TD_INT64] = {DL_INT, 64, 1},
    [TD_FLOAT16] = {DL_FLOAT, 16, 1}, [TD_BFLOAT16] = {DL_BFLOAT, 16, 1},   [TD_FLOAT32] = {DL_FLOAT, 32, 1},
    [TD_FLOAT64] = {DL_FLOAT, 64, 1}, [TD_COMPLEX64] = {DL_COMPLEX, 64, 1}, [TD_COMPLEX128] = {DL_COMPLEX, 128, 1},
    [TD_UINT16] = {DL_UINT, 16, 1},   [TD_UINT32] = {DL_UINT, 32, 1},       [TD_UINT64] = {DL_UINT, 64, 1}};

/* ---- out --------------------------------------------------------------------------------------------------------- */

/* One piece of memory for both forms; `old` and `versioned` are alternatives. */
typedef struct export
{
    union {
        dl_managed old;
        dl_versioned versioned;
    };
    PyObject *owner;
    tdpy_handed handed; /* of memory that is written here and there */
    td_private apart;   /* of read-only memory */
    td_look_at look;
    int64_t shape[TD_MAX_DIMS], strides[TD_MAX_DIMS];
}
export;

static void end_export(export *x)
{
    td_private_unmap(&x->apart);
    if (Py_IsInitialized()) {
        PyGILState_STATE s = PyGILState_Ensure();
        tdpy_hand_back(&x->handed);
        td_look_away(&x->look);
        Py_DECREF(x->owner);
        PyGILState_Release(s);
    } else {
        tdpy_hand_forget(&x->handed); /* others that end later are in the same list */
    }
    free(x);
}

static void delete_old(dl_managed *m)
{
    end_export(m->context);
}

static void delete_versioned(dl_versioned *m)
{
    end_export(m->context);
}

/* Nobody took it: the capsule still has its first name. */
static void drop_capsule(PyObject *capsule)
{
    dl_versioned *v;
    dl_managed *m;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned") && (v = PyCapsule_GetPointer(capsule, "dltensor_versioned")))
        v->deleter(v);
    else if (PyCapsule_IsValid(capsule, "dltensor") && (m = PyCapsule_GetPointer(capsule, "dltensor"))) m->deleter(m);
}

static dl_device device_of(td_array *a)
{
    if (tdpy_is_gpu(td_device_of(a))) return (dl_device){DL_CUDA, td_cuda_number(a)};
    return (dl_device){DL_CPU, 0};
}

static void describe(export *x, td_array *a, void *data, dl_tensor *out)
{
    int n = td_ndim(a);
    for (int i = 0; i < n; i++) x->shape[i] = td_shape(a)[i], x->strides[i] = td_strides(a)[i];
    *out = (dl_tensor){data, device_of(a), n, dtypes[td_dtype_of(a)], x->shape, x->strides, 0};
}

/* `apart` is taken over when it works. */
static PyObject *make_capsule(PyObject *self, void *data, const td_private *apart, bool versioned, uint64_t flags)
{
    export *x = calloc(1, sizeof *x);
    if (!x) return PyErr_NoMemory();
    if (versioned) {
        x->versioned = (dl_versioned){{1, 0}, x, delete_versioned, flags, {0}};
        describe(x, tdpy_array(self), data, &x->versioned.tensor);
    } else {
        x->old = (dl_managed){{0}, x, delete_old};
        describe(x, tdpy_array(self), data, &x->old.tensor);
    }
    bool here = !tdpy_is_gpu(td_device_of(tdpy_array(self)));
    if (here && td_look(tdpy_array(self), &x->look)) return free(x), tdpy_fail();
    PyObject *capsule = PyCapsule_New(x, versioned ? "dltensor_versioned" : "dltensor", drop_capsule);
    if (!capsule) {
        td_look_away(&x->look);
        return free(x), NULL;
    }
    x->owner = Py_NewRef(self);
    x->apart = *apart;
    if (here && !apart->at) tdpy_hand_out(&x->handed, tdpy_array(self), data);
    return capsule;
}

/* None, or a tuple of two integers. */
static bool take_pair(PyObject *o, const char *name, int *a, int *b)
{
    if (o == Py_None) return true;
    if (!PyTuple_Check(o))
        return tdpy_raise(TD_E_TYPE, "__dlpack__(): argument '%s' must be a tuple of two ints, not %.100s", name,
                          tdpy_type_name(o));
    return PyArg_ParseTuple(o, "ii", a, b);
}

/* A stream of the GPU need not be waited for: what was asked before is written. */
static bool check_request(PyObject *self, PyObject *stream, PyObject *device)
{
    bool gpu = tdpy_is_gpu(td_device_of(tdpy_array(self)));
    int type = gpu ? DL_CUDA : DL_CPU, id = 0;
    if (gpu) {
        if (!take_pair(device, "dl_device", &type, &id)) return false;
        if (type == DL_CUDA) return true;
        return PyErr_SetString(PyExc_BufferError,
                               "a tensor on a GPU is exported where it lies; call cpu() on it first"),
               false;
    }
    if (stream != Py_None)
        return PyErr_SetString(PyExc_BufferError, "a tensor on the CPU has no stream; stream must be None"), false;
    if (!take_pair(device, "dl_device", &type, &id)) return false;
    if (type != DL_CPU)
        return PyErr_SetString(PyExc_BufferError, "a tensor on the CPU cannot be exported to another device"), false;
    return true;
}

static bool wants_version(PyObject *max, bool *versioned)
{
    int major = 0, minor = 0;
    if (!take_pair(max, "max_version", &major, &minor)) return false;
    *versioned = major >= 1;
    return true;
}

static PyObject *export_capsule(PyObject *self, bool versioned, uint64_t flags)
{
    bool writable;
    td_array *a = tdpy_array(self);
    td_private apart = {0};
    if (tdpy_is_gpu(td_device_of(a))) {
        void *there = td_cuda_data(a);
        return there || td_numel(a) == 0 ? make_capsule(self, there, &apart, versioned, flags) : tdpy_fail();
    }
    void *p = tdpy_data(self, &writable, NULL);
    if (!p) return NULL;
    if (!writable && td_numel(a) > 0) {
        if (td_private_map(a, &apart)) return tdpy_fail();
        p = apart.at;
    }
    PyObject *capsule = make_capsule(self, p, &apart, versioned, flags | (writable ? 0 : DL_READ_ONLY));
    if (!capsule) td_private_unmap(&apart);
    return capsule;
}

static PyObject *dlpack(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max = Py_None, *device = Py_None, *copy = Py_None;
    bool versioned;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O$OOO:__dlpack__", names, &stream, &max, &device, &copy)) return NULL;
    if (!check_request(self, stream, device) || !wants_version(max, &versioned)) return NULL;
    int grad = tdpy_requires_grad(self);
    if (grad < 0) return NULL;
    if (grad) return PyErr_SetString(PyExc_BufferError, "the tensor requires grad; call detach() on it first"), NULL;
    if (copy != Py_True) return export_capsule(self, versioned, 0);
    PyObject *own = tdpy_wrap(td_at_clone(tdpy_site(), tdpy_array(self)), true);
    PyObject *capsule = own ? export_capsule(own, versioned, DL_COPIED) : NULL;
    Py_XDECREF(own);
    return capsule;
}

static PyObject *dlpack_device(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_array *a = tdpy_array(self);
    bool gpu = tdpy_is_gpu(td_device_of(a));
    if (gpu && td_numel(a) > 0 && !td_cuda_data(a)) return tdpy_fail(); /* its number is known by that */
    dl_device d = device_of(a);
    return Py_BuildValue("(ii)", (int)d.type, (int)d.id);
}

/* As numpy writes them; the half type of the brain has no name there. */
static const char *type_text(td_dtype t)
{
    static const char *const text[TD_DTYPE_COUNT] = {
        [TD_BOOL] = "|b1",        [TD_UINT8] = "|u1",     [TD_INT8] = "|i1",    [TD_INT16] = "<i2",
        [TD_INT32] = "<i4",       [TD_INT64] = "<i8",     [TD_FLOAT16] = "<f2", [TD_FLOAT32] = "<f4",
        [TD_FLOAT64] = "<f8",     [TD_COMPLEX64] = "<c8", [TD_UINT16] = "<u2",  [TD_UINT32] = "<u4",
        [TD_COMPLEX128] = "<c16", [TD_UINT64] = "<u8"};
    return text[t];
}

static PyObject *numbers_of(int n, const int64_t *v, int64_t times)
{
    PyObject *t = PyTuple_New(n);
    for (int i = 0; t && i < n; i++) {
        PyObject *one = PyLong_FromLongLong(v[i] * times);
        if (!one || PyTuple_SetItem(t, i, one)) Py_CLEAR(t);
    }
    return t;
}

/* __cuda_array_interface__, version 3. No stream: what was asked before is written. */
PyObject *tdpy_cuda_interface(PyObject *self, void *ignored)
{
    (void)ignored;
    td_array *a = tdpy_array(self);
    int device = td_device_of(a), grad = device < 0 ? -1 : tdpy_requires_grad(self);
    if (device < 0) return tdpy_fail();
    if (grad < 0) return NULL;
    if (!tdpy_is_gpu(device))
        return PyErr_SetString(PyExc_AttributeError, "__cuda_array_interface__: the tensor lies on no GPU"), NULL;
    if (grad) return PyErr_SetString(PyExc_RuntimeError, "the tensor requires grad; call detach() on it first"), NULL;
    td_dtype t = td_dtype_of(a);
    if (!type_text(t))
        return tdpy_raise(TD_E_UNSUPPORTED, "__cuda_array_interface__ has no name for %s; DLPack has",
                          td_dtype_name(t));
    void *at = td_cuda_data(a);
    if (!at && td_numel(a) > 0) return tdpy_fail();
    PyObject *shape = numbers_of(td_ndim(a), td_shape(a), 1);
    PyObject *strides = numbers_of(td_ndim(a), td_strides(a), (int64_t)td_dtype_size(t));
    if (!shape || !strides) {
        Py_XDECREF(shape);
        Py_XDECREF(strides);
        return NULL;
    }
    return Py_BuildValue("{s:N,s:s,s:(KO),s:N,s:i}", "shape", shape, "typestr", type_text(t), "data",
                         (unsigned long long)(uintptr_t)at, Py_False, "strides", strides, "version", 3);
}

/* __torch_function__(func, types, args, kwargs): torch was given one of our tensors. */
static PyObject *torch_function(PyObject *type, PyObject *args)
{
    PyObject *const all[] = {type, args};
    return tdpy_forward("torch_function", NULL, all, 2, NULL);
}

PyMethodDef tdpy_dlpack_methods[] = {
    {"__torch_function__", torch_function, METH_VARARGS | METH_CLASS, NULL},
    {"__dlpack__", (PyCFunction)(void (*)(void))dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA capsule with the same "
     "bytes. Of memory that only the daemon may write it is a private mapping, read-only by its flag:\nwhat the daemon "
     "writes "
     "is seen, what is written there stays there."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "__dlpack_device__($self, /)\n--\n\nThe CPU, or a GPU."},
    {NULL, NULL, 0, NULL}};

/* ---- in ---------------------------------------------------------------------------------------------------------- */

static td_dtype dtype_of(dl_dtype d)
{
    for (int i = 0; i < TD_DTYPE_COUNT; i++)
        if (dtypes[i].code == d.code && dtypes[i].bits == d.bits && d.lanes == 1) return (td_dtype)i;
    return TD_DTYPE_NONE;
}

/* Without a copy: memory that the other library has from us. */
static td_array *share_tensor(const dl_tensor *t)
{
    td_dtype dtype = dtype_of(t->dtype);
    int64_t strides[TD_MAX_DIMS], n = 1;
    if (t->device.type != DL_CPU || dtype == TD_DTYPE_NONE || t->ndim < 0 || t->ndim > TD_MAX_DIMS) return NULL;
    for (int k = t->ndim - 1; k >= 0; n *= t->shape[k--]) strides[k] = t->strides ? t->strides[k] : n;
    return tdpy_handed_view((unsigned char *)t->data + t->byte_offset, dtype, td_dims_of(t->ndim, t->shape), strides);
}

static td_array *import_tensor(const dl_tensor *t, tdpy_way way)
{
    td_dtype dtype = dtype_of(t->dtype);
    int64_t n = 1;
    if (t->device.type != DL_CPU && t->device.type != 3 && t->device.type != 11)
        return PyErr_SetString(PyExc_BufferError, "only memory that the CPU reads can be imported"), NULL;
    if (dtype == TD_DTYPE_NONE && t->dtype.code == DL_COMPLEX && t->dtype.bits == 32)
        return tdpy_raise(TD_E_TYPE,
                          "tensord has no complex32: make it complex64, or view it as real numbers of float16");
    if (dtype == TD_DTYPE_NONE)
        return tdpy_raise(TD_E_TYPE, "tensord has no dtype of code %d and %d bits", t->dtype.code, t->dtype.bits);
    if (t->ndim > TD_MAX_DIMS || t->ndim < 0)
        return tdpy_raise(TD_E_SHAPE, "%d dimensions; a tensor has at most %d", t->ndim, TD_MAX_DIMS);
    bool packed = true;
    for (int k = t->ndim - 1; k >= 0; k--) {
        if (t->strides && t->shape[k] != 1 && t->strides[k] != n) packed = false;
        n *= t->shape[k];
    }
    td_array *spanned;
    if (way == TDPY_SPANNED && !packed &&
        tdpy_copy_span((unsigned char *)t->data + t->byte_offset, dtype, td_dims_of(t->ndim, t->shape), t->strides,
                       &spanned))
        return spanned;
    if (!tdpy_settle_handed((unsigned char *)t->data + t->byte_offset)) return NULL;
    unsigned char *copy = packed ? NULL : malloc((size_t)n * td_dtype_size(dtype) + 16);
    if (!packed && !copy) return PyErr_NoMemory(), NULL;
    if (!packed)
        tdpy_pack_rows((unsigned char *)t->data + t->byte_offset, td_dtype_size(dtype), td_dims_of(t->ndim, t->shape),
                       t->strides, copy);
    int before = td_set_device(TD_CPU);
    td_client *c = tdpy_client();
    unsigned char *rows = packed ? (unsigned char *)t->data + t->byte_offset : copy;
    td_array *a = c ? td_from_data(c, dtype, td_dims_of(t->ndim, t->shape), rows) : NULL;
    td_set_device(before);
    free(copy);
    return a;
}

/* The capsule's own end frees what was copied; what is shared keeps itself. TDPY_SHARED: NULL without an exception when
 * that cannot be. */
static td_array *import_capsule(PyObject *capsule, tdpy_way way)
{
    bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    void *p = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    if (!p) return NULL;
    const dl_versioned *v = p;
    if (versioned && v->version.major > 1)
        return PyErr_SetString(PyExc_BufferError, "a capsule of a DLPack version that is not known here"), NULL;
    const dl_tensor *t = versioned ? &v->tensor : &((dl_managed *)p)->tensor;
    bool may_share = way != TDPY_COPIED && !(versioned && v->flags & DL_READ_ONLY);
    td_array *a = may_share ? share_tensor(t) : NULL;
    return a || way == TDPY_SHARED ? a : import_tensor(t, way);
}

static PyObject *call_dlpack(PyObject *x)
{
    PyObject *method = PyObject_GetAttrString(x, "__dlpack__"), *none = PyTuple_New(0),
             *kw = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    PyObject *capsule = method && none && kw ? PyObject_Call(method, none, kw) : NULL;
    if (!capsule && method && PyErr_ExceptionMatches(PyExc_TypeError)) { /* older than max_version */
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(kw);
    return capsule;
}

/* Set by torch.nn.Parameter(), when it is to be one of its own kind. */
int tdpy_set_parameter(PyObject *self, PyObject *value, void *closure)
{
    (void)self, (void)value, (void)closure;
    tdpy_raise(TD_E_TYPE, "a tensor of tensord cannot be a Parameter of torch itself, but its memory can: "
                          "torch.nn.Parameter(torch.from_dlpack(t)), and for load_state_dict(state, assign=True) a "
                          "state of {k: torch.from_dlpack(t) for k, t in state.items()}; without assign the values "
                          "are copied");
    return -1;
}

bool tdpy_is_foreign(PyObject *o)
{
    return !tdpy_is_tensor(o) && !PyObject_CheckBuffer(o) &&
           PyObject_HasAttrString((PyObject *)Py_TYPE(o), "__dlpack__");
}

td_array *tdpy_from_foreign(PyObject *o, tdpy_way way)
{
    PyObject *plain = NULL, *dtype = NULL, *both = tdpy_forward("foreign", NULL, &o, 1, NULL);
    td_dtype other = TD_DTYPE_NONE;
    bool good = both && PyArg_ParseTuple(both, "OO", &plain, &dtype) && tdpy_as_dtype(dtype, &other);
    PyObject *capsule = good ? call_dlpack(plain) : NULL;
    td_array *a = capsule ? import_capsule(capsule, way) : NULL;
    if (capsule && !a && way != TDPY_SHARED && !PyErr_Occurred()) tdpy_fail();
    if (a && other != TD_DTYPE_NONE) {
        td_array *bytes = a;
        a = td_at_view_dtype(NULL, bytes, other);
        td_release(bytes);
    }
    Py_XDECREF(capsule);
    Py_XDECREF(both);
    return a;
}

PyObject *tdpy_from_dlpack(PyObject *module, PyObject *args, PyObject *kw)
{
    (void)module;
    static char *names[] = {"x", "device", "copy", NULL};
    PyObject *x, *device = Py_None, *copy = Py_None;
    int there;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|$OO:from_dlpack", names, &x, &device, &copy) ||
        !tdpy_as_device(device, &there))
        return NULL;
    if (tdpy_is_tensor(x) && copy != Py_True && (there < 0 || td_device_of(tdpy_array(x)) == there))
        return tdpy_wrap_like(td_alias(tdpy_array(x)), x);
    tdpy_way way = copy == Py_True ? TDPY_COPIED : copy == Py_False ? TDPY_SHARED : TDPY_EITHER;
    PyObject *capsule = PyCapsule_CheckExact(x) ? Py_NewRef(x) : call_dlpack(x);
    td_array *made = capsule ? import_capsule(capsule, way) : NULL;
    Py_XDECREF(capsule);
    if (!made && way == TDPY_SHARED && !PyErr_Occurred())
        PyErr_SetString(PyExc_BufferError,
                        "memory of another library cannot become a tensor without a copy; leave out copy=False, "
                        "or allocate inside `with tensord.numpy_memory():`");
    return tdpy_wrap(tdpy_take_to(made, there), true);
}
