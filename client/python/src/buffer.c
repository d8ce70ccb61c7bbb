/* The bytes themselves, without a copy: the buffer protocol, on which numpy() stands, and write leases.
 *
 * A view keeps its tensor object, and so the memory. It can be written where this process may write the memory, but for
 * tensors that require grad it is refused. Before a writable view is handed out everything asked so far has ended, so
 * that no earlier op reads what is written through it. */
#include "client/python/src/py.h"

#include <stdlib.h>
#include <string.h>

static const char formats[TD_DTYPE_COUNT][3] = {"?", "B", "b",  "h",  "i", "q", "e", "",
                                                "f", "d", "Zf", "Zd", "H", "I", "Q"};

static bool is_integer(char c)
{
    return strchr("bhilqHILQ", c) != NULL;
}

td_dtype tdpy_dtype_of_format(const char *f, Py_ssize_t itemsize)
{
    if (!f) return itemsize == 1 ? TD_UINT8 : TD_DTYPE_NONE;
    if (*f == '@' || *f == '=' || *f == '<') f++; /* what this machine has */
    if (f[0] == 'Z' && f[1] == 'f' && !f[2]) return TD_COMPLEX64;
    if (f[0] == 'Z' && f[1] == 'd' && !f[2]) return TD_COMPLEX128;
    if (!f[0] || f[1]) return TD_DTYPE_NONE;
    if (f[0] == 'l' && itemsize == 8) return TD_INT64;
    if (f[0] == 'l' && itemsize == 4) return TD_INT32;
    if (f[0] == 'L') return itemsize == 8 ? TD_UINT64 : TD_UINT32;
    if (is_integer(f[0]) || strchr("?Befd", f[0]))
        for (int d = 0; d < TD_DTYPE_COUNT; d++)
            if (formats[d][0] == f[0] && td_dtype_size((td_dtype)d) == (size_t)itemsize) return (td_dtype)d;
    return TD_DTYPE_NONE;
}

void *tdpy_data(PyObject *self, bool *writable, bool *grad)
{
    td_array *a = tdpy_array(self);
    tdpy_tensor *t = (tdpy_tensor *)self;
    td_info info = {0};
    uint32_t moment = tdpy_moment();
    bool asks = grad && !tdpy_is_plain(self);
    bool shared = !td_is_mapped(a) || td_maps_writable(a);
    bool settle = shared && !td_is_writing(a) && !t->fresh;
    t->fresh = false;
    void *p = (void *)(uintptr_t)td_data_as(a, settle, asks ? &info : NULL);
    *writable = p && td_maps_writable(a);
    if (grad) *grad = p && asks && tdpy_take_grad(self, &info, moment);
    if (p && PyErr_Occurred()) return NULL;
    return p ? p : tdpy_fail();
}

static int refuse(Py_buffer *view, const char *why)
{
    view->obj = NULL;
    PyErr_SetString(PyExc_BufferError, why);
    return -1;
}

/* What a view holds on to: whose memory it is, then its shape and strides. */
typedef struct held {
    td_look_at look;
    tdpy_handed handed;
    Py_ssize_t layout[];
} held;

/* NULL: an exception says why. */
static held *make_held(td_array *a, const void *at, bool writable)
{
    int n = td_ndim(a);
    held *h = malloc(sizeof *h + (size_t)(2 * n) * sizeof *h->layout);
    if (!h) return PyErr_NoMemory(), NULL;
    if (td_look(a, &h->look)) return free(h), tdpy_fail();
    for (int i = 0; i < n; i++) {
        h->layout[i] = (Py_ssize_t)td_shape(a)[i];
        h->layout[n + i] = (Py_ssize_t)(td_strides(a)[i] * (int64_t)td_element_size(td_dtype_of(a)));
    }
    h->handed.array = NULL;
    if (writable) tdpy_hand_out(&h->handed, a, at);
    return h;
}

/* Do the elements lie column after column? */
static bool is_column_major(td_array *a)
{
    int64_t step = 1;
    for (int k = 0; k < td_ndim(a); step *= td_shape(a)[k++])
        if (td_shape(a)[k] != 1 && td_strides(a)[k] != step) return td_numel(a) == 0;
    return true;
}

/* Who asks for an order may not look at strides at all. */
static bool has_order(td_array *a, int flags)
{
    enum { ORDERS = PyBUF_C_CONTIGUOUS | PyBUF_F_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS };
    bool strided = flags & PyBUF_STRIDES & ~PyBUF_ND;
    int order = flags & ORDERS & ~PyBUF_STRIDES;
    if (!strided || order == (PyBUF_C_CONTIGUOUS & ~PyBUF_STRIDES)) return td_is_contiguous(a);
    if (order == (PyBUF_F_CONTIGUOUS & ~PyBUF_STRIDES)) return is_column_major(a);
    return !order || td_is_contiguous(a) || is_column_major(a);
}

/* Who asks like this gets bytes without shape and dtype. torch.asarray() does, and calls them float32: nothing here can
 * tell it from readinto() and the like, which want just that. */
static bool warn_of_asarray(td_array *a, int flags)
{
    td_dtype dtype = td_dtype_of(a);
    bool flat = td_ndim(a) == 1 && (dtype == TD_FLOAT32 || td_dtype_size(dtype) == 1);
    PyObject *name = flags == PyBUF_WRITABLE && !flat ? PyUnicode_FromString("torch") : NULL;
    PyObject *torch = name ? PyImport_GetModule(name) : NULL;
    Py_XDECREF(name);
    if (!torch) return !PyErr_Occurred();
    Py_DECREF(torch);
    return !PyErr_WarnEx(PyExc_RuntimeWarning,
                         "the plain bytes of a tensor are handed out: torch.asarray(t) makes flat float32 of them; "
                         "torch.from_dlpack(t) has its shape and dtype, without a copy",
                         1);
}

int tdpy_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    td_array *a = tdpy_array(self);
    bool writable, grad = false;
    view->obj = NULL;
    void *p = tdpy_data(self, &writable, td_grad_enabled() && !td_came_outside(a) ? &grad : NULL);
    if (!p) return -1;
    if (grad) return refuse(view, "the tensor requires grad; call detach() on it first");
    if (td_dtype_of(a) == TD_BFLOAT16)
        return refuse(view, "bfloat16 is unknown to the buffer protocol; call float() first");
    bool strided = flags & PyBUF_STRIDES & ~PyBUF_ND;
    if (flags & PyBUF_WRITABLE && !writable) return refuse(view, "the tensor lies in memory that is read-only here");
    if (!has_order(a, flags)) return refuse(view, "the tensor is not contiguous; call contiguous() first");
    held *h = warn_of_asarray(a, flags) ? make_held(a, p, writable) : NULL;
    if (!h) return -1;
    td_dtype dtype = td_dtype_of(a);
    *view = (Py_buffer){.obj = Py_NewRef(self),
                        .buf = p,
                        .len = (Py_ssize_t)td_nbytes(a),
                        .itemsize = (Py_ssize_t)td_element_size(dtype),
                        .readonly = !writable,
                        .ndim = td_ndim(a),
                        .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)formats[dtype] : NULL,
                        .shape = flags & PyBUF_ND ? h->layout : NULL,
                        .strides = strided ? h->layout + td_ndim(a) : NULL,
                        .internal = h};
    return 0;
}

void tdpy_release_buffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    held *h = view->internal;
    if (h) {
        tdpy_hand_back(&h->handed);
        td_look_away(&h->look);
    }
    free(h);
}

/* ---- methods ----------------------------------------------------------------------------------------------------- */

static PyObject *data_ptr(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    bool writable;
    td_array *a = tdpy_array(self);
    if (tdpy_is_gpu(td_device_of(a))) {
        void *there = td_cuda_data(a);
        return there || !td_numel(a) ? PyLong_FromVoidPtr(there) : tdpy_fail();
    }
    void *p = tdpy_data(self, &writable, NULL);
    return p ? PyLong_FromVoidPtr(p) : NULL;
}

static PyObject *write_begin(PyObject *self, PyObject *args)
{
    int timeout = -1;
    if (!PyArg_ParseTuple(args, "|i", &timeout)) return NULL;
    int grad = td_grad_enabled() ? tdpy_requires_grad(self) : 0;
    if (grad < 0) return NULL;
    if (grad)
        return tdpy_raise(TD_E_AUTOGRAD, "writing() into a tensor that requires grad; do it under tensord.no_grad()");
    if (!td_write_begin(tdpy_array(self), timeout)) return tdpy_fail();
    if (PyErr_Occurred()) return td_write_end(tdpy_array(self)), NULL;
    if (!PyErr_Occurred()) return Py_NewRef(Py_None);
    td_write_end(tdpy_array(self)); /* it came just when the program was stopped */
    return NULL;
}

static PyObject *write_end(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return tdpy_none(td_write_end(tdpy_array(self)));
}

/* _leased(nbytes): bytes to fill at once. The daemon grants the next of the same size ahead, so nobody waits for it. */
static PyObject *leased(PyObject *module, PyObject *size)
{
    (void)module;
    long long n = PyLong_AsLongLong(size);
    if (n < 1) return PyErr_Occurred() ? NULL : tdpy_raise(TD_E_INVALID, "a lease has at least one byte");
    td_client *c = tdpy_client();
    td_lease *lease = c ? td_lease_new(c, (size_t)n) : NULL;
    if (!lease) return tdpy_fail();
    PyObject *t = tdpy_wrap(td_put(lease, 0, TD_UINT8, td_dims(n)), true);
    td_lease_free(lease);
    if (t) ((tdpy_tensor *)t)->fresh = true;
    return t;
}

PyMethodDef tdpy_buffer_functions[] = {{"_leased", leased, METH_O, NULL}, {NULL, NULL, 0, NULL}};

#define PYTHON_METHOD(name)                                                                                            \
    static PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)                           \
    {                                                                                                                  \
        return tdpy_forward(#name, self, args, n, kw);                                                                 \
    }
PYTHON_METHOD(numpy)
PYTHON_METHOD(writing)
PYTHON_METHOD(__array__)
#define FAST(f) (PyCFunction)(void (*)(void)) f, METH_FASTCALL | METH_KEYWORDS

PyMethodDef tdpy_buffer_methods[] = {
    {"data_ptr", data_ptr, METH_NOARGS, "data_ptr($self, /)\n--\n\nWhere its first element lies in this process."},
    {"numpy", FAST(numpy),
     "numpy($self, /, *, force=False)\n--\n\nThe same bytes as an array of NumPy; writes are seen by both.\n\n"
     "Ops are computed later: what was asked for before has ended when this returns, and while the\n"
     "array lives, an op of this process that writes to the tensor returns when it is written (a round\n"
     "trip; errors of that op are raised there). Before you write through an array that you kept, wait for\n"
     "later ops, which may still read, with tensord.sync(), or write inside `with t.writing() as a:`.\n"
     "What other processes write is seen when they have synchronized with this one.\n"
     "force: a copy where sharing is not possible."},
    {"writing", FAST(writing),
     "writing($self, /, timeout=None)\n--\n\nA `with` block that gives an array to write: nobody else "
     "uses the tensor meanwhile, and at its end\nautograd knows that the values have changed."},
    {"__array__", FAST(__array__), NULL},
    {"_write_begin", write_begin, METH_VARARGS, NULL},
    {"_write_end", write_end, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
