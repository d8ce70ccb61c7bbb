/* Tensors of nested data: lists of lists of numbers, buffers (NumPy's arrays), tensors among them.
 *
 * The shape follows the first element at every level; a first pass checks it and finds the common dtype, a second one
 * writes the values. Nothing goes deeper than a tensor has dimensions, so a list that contains itself is an error. */
#include "client/python/src/py.h"
#include "proto/base/device.h"

#include <stdlib.h>
#include <string.h>

typedef struct nest {
    int ndim;
    int64_t shape[TD_MAX_DIMS];
    td_dtype dtype; /* of all leaves so far; TD_DTYPE_NONE: there was none */
    td_dtype wanted;
    unsigned char *at;        /* where the next value goes */
    td_array **parts, **next; /* or where the next tensor of one element goes: for a trace */
    bool followed;            /* there is a number that it follows */
} nest;

/* One of what is in a sequence; an array of another library as a tensor. A new reference. */
static PyObject *item_of(PyObject *sequence, Py_ssize_t i)
{
    PyObject *o = PySequence_GetItem(sequence, i);
    if (!o || !tdpy_is_foreign(o)) return o;
    PyObject *t = tdpy_wrap(tdpy_from_foreign(o, TDPY_EITHER), true);
    Py_DECREF(o);
    return t;
}

static bool is_sequence(PyObject *o)
{
    if (PyList_Check(o) || PyTuple_Check(o)) return true;
    if (tdpy_is_tensor(o)) return td_ndim(tdpy_array(o)) > 0;
    if (PyUnicode_Check(o) || PyBytes_Check(o) || PyDict_Check(o) || !PySequence_Check(o)) return false;
    if (PySequence_Size(o) >= 0) return true;
    PyErr_Clear(); /* a 0-d array of NumPy */
    return false;
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

static bool no_leaf(PyObject *o)
{
    return tdpy_raise(TD_E_TYPE, "a tensor holds numbers; there is %.100s in the data", tdpy_a_type(o));
}

static td_dtype named_dtype(PyObject *o)
{
    PyObject *dtype = PyObject_GetAttrString(o, "dtype"), *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    td_dtype found = text ? td_dtype_parse(text) : TD_DTYPE_NONE;
    PyErr_Clear();
    Py_XDECREF(dtype);
    Py_XDECREF(name);
    return found;
}

static bool is_followed(PyObject *o)
{
    return td_is_tracing() && tdpy_is_followed(o);
}

/* The dtype that a leaf brings. */
static bool leaf_dtype(PyObject *o, td_dtype *out)
{
    td_arg number = td_none();
    if (PyFloat_CheckExact(o)) *out = tdpy.default_dtype;
    else if (PyBool_Check(o)) *out = TD_BOOL;
    else if (PyLong_CheckExact(o)) *out = TD_INT64;
    else if (tdpy_is_tensor(o)) *out = td_dtype_of(tdpy_array(o));
    else if (is_followed(o))
        *out = tdpy_follow(o, &number) > 0 && number.kind == TD_ARG_INT ? TD_INT64 : tdpy.default_dtype;
    else {
        int rc = tdpy_as_number(o, &number);
        if (rc <= 0) return rc < 0 ? false : no_leaf(o);
        *out = named_dtype(o);
        if (*out != TD_DTYPE_NONE) return true;
        *out = number.kind == TD_ARG_BOOL    ? TD_BOOL
               : number.kind == TD_ARG_INT   ? TD_INT64
               : number.kind == TD_ARG_FLOAT ? tdpy.default_dtype
                                             : td_dtype_complex(tdpy.default_dtype);
    }
    return *out != TD_DTYPE_NONE || tdpy_fail();
}

static bool leaf_value(PyObject *o, td_scalar *out)
{
    td_arg a;
    if (tdpy_is_tensor(o)) return td_item(tdpy_array(o), out) == TD_OK || tdpy_fail();
    int rc = tdpy_as_number(o, &a);
    if (rc <= 0) return rc < 0 ? false : no_leaf(o);
    *out = a.kind == TD_ARG_BOOL    ? td_bool(a.i)
           : a.kind == TD_ARG_INT   ? td_int(a.i)
           : a.kind == TD_ARG_FLOAT ? td_float(a.re)
                                    : td_complex(a.re, a.im);
    return true;
}

/* ---- the two passes ---------------------------------------------------------------------------------------------- */

/* More than this is no data that somebody wrote down (a range can say 2**62), and to read it would take hours. */
static const int64_t MOST_NUMBERS = INT64_C(1) << 36;

static bool small_enough(const nest *n)
{
    int64_t count = 1;
    for (int i = 0; i < n->ndim; i++)
        if (__builtin_mul_overflow(count, n->shape[i], &count) || count > MOST_NUMBERS)
            return tdpy_raise(TD_E_MEMORY, "the data is a sequence of %lld numbers or more; arange() makes long ranges",
                              (long long)n->shape[i]);
    return true;
}

static bool find_shape(nest *n, PyObject *data)
{
    PyObject *o = Py_NewRef(data);
    while (o && is_sequence(o)) {
        Py_ssize_t size = PySequence_Size(o);
        if (n->ndim == TD_MAX_DIMS) {
            Py_DECREF(o);
            return tdpy_raise(TD_E_INVALID,
                              "the data is nested deeper than the %d dimensions a tensor may have (or contains itself)",
                              TD_MAX_DIMS);
        }
        if (size < 0) break;
        n->shape[n->ndim++] = size;
        if (!small_enough(n)) {
            Py_DECREF(o);
            return false;
        }
        PyObject *first = size ? item_of(o, 0) : NULL;
        Py_DECREF(o);
        o = first;
        if (!size) return true;
    }
    Py_XDECREF(o);
    return o && !PyErr_Occurred();
}

static bool check_leaf(nest *n, PyObject *o, int depth)
{
    if (is_sequence(o)) /* deeper than the first element was */
        return tdpy_raise(TD_E_INVALID, "expected a number at dim %d, got a sequence of length %zd", depth,
                          PySequence_Size(o));
    td_dtype dtype = TD_DTYPE_NONE;
    if (!leaf_dtype(o, &dtype)) return false;
    n->followed |= is_followed(o);
    td_dtype both = n->dtype == TD_DTYPE_NONE ? dtype : td_promote(n->dtype, dtype);
    if (both == TD_DTYPE_NONE)
        return tdpy_raise(TD_E_TYPE,
                          "no dtype holds all of the data, which is %s and %s: say dtype=", td_dtype_name(n->dtype),
                          td_dtype_name(dtype));
    n->dtype = both;
    return true;
}

/* A number of Python that uint64 has and int64 has not. */
static bool store_large(nest *n, PyObject *o)
{
    int beyond = 0;
    if (n->wanted != TD_UINT64 || !PyLong_Check(o) || PyBool_Check(o)) return false;
    (void)PyLong_AsLongLongAndOverflow(o, &beyond);
    if (beyond <= 0) return false;
    uint64_t v = PyLong_AsUnsignedLongLong(o);
    if (PyErr_Occurred()) return PyErr_Clear(), false;
    memcpy(n->at, &v, sizeof v);
    n->at += sizeof v;
    return true;
}

static bool store_leaf(nest *n, PyObject *o)
{
    td_scalar s;
    if (store_large(n, o)) return true;
    if (!leaf_value(o, &s)) return false;
    if (!td_scalar_fits(s, n->wanted) && s.kind <= TD_S_INT)
        return tdpy_raise(TD_E_INVALID, "%lld does not fit into %s", (long long)s.i, td_dtype_name(n->wanted));
    if (s.kind == TD_S_COMPLEX && !td_dtype_is_complex(n->wanted))
        return tdpy_raise(TD_E_TYPE, "a complex number cannot become %s", td_dtype_name(n->wanted));
    td_scalar_store(s, n->wanted, n->at);
    n->at += td_dtype_size(n->wanted);
    return true;
}

/* As a tensor of its own: a trace sees what number it is. */
static bool make_part(nest *n, PyObject *o)
{
    td_arg a;
    int rc = tdpy_is_tensor(o) ? 0 : is_followed(o) ? tdpy_follow(o, &a) : tdpy_as_number(o, &a);
    if (rc < 0) return false;
    *n->next = rc ? td_at_full(tdpy_site(), tdpy_client(), td_dims(), a, n->wanted)
                  : td_at_to(tdpy_site(), tdpy_array(o), n->wanted);
    return *n->next++ || tdpy_fail();
}

static bool take_leaf(nest *n, PyObject *o, int depth)
{
    return n->parts ? make_part(n, o) : n->at ? store_leaf(n, o) : check_leaf(n, o, depth);
}

/* n->at NULL: only check. At most TD_MAX_DIMS levels deep. */
static bool visit(nest *n, PyObject *o, int depth)
{
    if (depth == n->ndim) return take_leaf(n, o, depth);
    if (!is_sequence(o))
        return tdpy_raise(TD_E_TYPE, "expected a sequence of length %lld at dim %d, got %.100s (not a sequence)",
                          (long long)n->shape[depth], depth, tdpy_a_type(o));
    Py_ssize_t size = PySequence_Size(o);
    if (size != n->shape[depth])
        return size >= 0 && tdpy_raise(TD_E_INVALID, "expected sequence of length %lld at dim %d (got %zd)",
                                       (long long)n->shape[depth], depth, size);
    for (Py_ssize_t i = 0; i < size; i++) {
        if ((i & 0xffff) == 0xffff && PyErr_CheckSignals()) return false;
        PyObject *each = item_of(o, i);
        bool good = each && visit(n, each, depth + 1);
        Py_XDECREF(each);
        if (!good) return false;
    }
    return true;
}

/* Of parts, one an element, put together in the shape. */
static td_array *from_parts(nest *n, PyObject *data)
{
    size_t count = 1;
    for (int i = 0; i < n->ndim; i++) count *= (size_t)n->shape[i];
    td_array *row = NULL, *made = NULL;
    n->parts = n->next = calloc(count + 1, sizeof(td_array *));
    if (!n->parts) return PyErr_NoMemory(), NULL;
    if (visit(n, data, 0)) {
        if (n->ndim) row = td_at_stack(tdpy_site(), td_arrays_of((int)count, n->parts), 0);
        made =
            n->ndim ? row ? td_at_view(tdpy_site(), row, td_dims_of(n->ndim, n->shape)) : NULL : td_retain(n->parts[0]);
    }
    for (size_t i = 0; i < count; i++) td_release(n->parts[i]);
    td_release(row);
    free(n->parts);
    return made;
}

static td_array *from_nested(PyObject *data, td_dtype dtype)
{
    nest n = {.dtype = TD_DTYPE_NONE};
    if (!find_shape(&n, data) || !visit(&n, data, 0)) return NULL;
    if (n.dtype == TD_DTYPE_NONE) n.dtype = tdpy.default_dtype;
    n.wanted = dtype == TD_DTYPE_NONE ? n.dtype : dtype;
    if (n.followed) return from_parts(&n, data);
    size_t bytes = td_dtype_size(n.wanted);
    for (int i = 0; i < n.ndim; i++) bytes *= (size_t)n.shape[i];
    unsigned char *buffer = malloc(bytes + 16);
    td_client *c = buffer ? tdpy_client() : NULL;
    td_array *a = NULL;
    n.at = buffer;
    if (!buffer) PyErr_NoMemory();
    else if (c && visit(&n, data, 0)) a = td_from_data(c, n.wanted, td_dims_of(n.ndim, n.shape), buffer);
    free(buffer);
    return a;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static td_array *copy_buffer(Py_buffer *view, td_dtype dtype, td_ints shape)
{
    unsigned char *packed = NULL;
    if (!tdpy_settle_handed(view->buf)) return NULL;
    if (!PyBuffer_IsContiguous(view, 'C')) {
        packed = malloc((size_t)view->len + 16);
        if (!packed) return PyErr_NoMemory(), NULL;
        if (PyBuffer_ToContiguous(packed, view, view->len, 'C')) return free(packed), NULL;
    }
    td_client *c = tdpy_client();
    td_array *a = c ? td_from_data(c, dtype, shape, packed ? packed : view->buf) : NULL;
    free(packed);
    return a;
}

/* An array of NumPy knows its dtype by a name that its user knows too; other buffers have a format only. */
static void raise_format(PyObject *data, const char *format)
{
    PyObject *dtype = PyObject_GetAttrString(data, "dtype"), *name = dtype ? PyObject_Str(dtype) : NULL;
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    PyErr_Clear();
    tdpy_raise(
        TD_E_TYPE,
        "an array with elements of %s '%.40s' cannot become a tensor; convert it to one of tensord's dtypes first",
        text ? "dtype" : "format", text ? text : format);
    Py_XDECREF(name);
    Py_XDECREF(dtype);
}

/* `a`, which is taken over, of the dtype. */
static td_array *cast(td_array *a, td_dtype wanted)
{
    if (!a || wanted == TD_DTYPE_NONE || wanted == td_dtype_of(a)) return a;
    td_array *b = td_at_to(tdpy_site(), a, wanted);
    td_release(a);
    return b;
}

static td_array *from_buffer(PyObject *data, td_dtype wanted)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_FULL_RO)) return NULL;
    td_dtype dtype = tdpy_dtype_of_format(view.format, view.itemsize);
    int64_t shape[TD_MAX_DIMS];
    td_array *a = NULL;
    if (dtype == TD_DTYPE_NONE) raise_format(data, view.format ? view.format : "?");
    else if (view.ndim > TD_MAX_DIMS)
        tdpy_raise(TD_E_SHAPE, "an array of %d dimensions; a tensor has at most %d", view.ndim, TD_MAX_DIMS);
    else {
        for (int i = 0; i < view.ndim; i++) shape[i] = view.shape[i];
        a = copy_buffer(&view, dtype, td_dims_of(view.ndim, shape));
    }
    PyBuffer_Release(&view);
    return cast(a, wanted);
}

typedef struct layout {
    Py_buffer view;
    td_dtype dtype;
    int ndim; /* -1: no tensor has such elements, dimensions or strides */
    int64_t shape[TD_MAX_DIMS], strides[TD_MAX_DIMS];
} layout;

/* How the elements of a buffer lie; it is to be released. False, without an exception: there is none of that kind. */
static bool take_layout(PyObject *data, int kind, layout *of)
{
    Py_buffer *view = &of->view;
    if (!PyObject_CheckBuffer(data)) return false;
    if (PyObject_GetBuffer(data, view, kind)) return PyErr_Clear(), false;
    of->dtype = tdpy_dtype_of_format(view->format, view->itemsize);
    of->ndim = of->dtype != TD_DTYPE_NONE && view->ndim <= TD_MAX_DIMS ? view->ndim : -1;
    for (int i = 0; i < of->ndim; i++) {
        of->shape[i] = view->shape[i];
        of->strides[i] = view->strides[i] / view->itemsize;
        if (view->strides[i] % view->itemsize) of->ndim = -1;
    }
    return true;
}

/* What others have from us, seen as a tensor: NULL, perhaps with an exception, when it is anything else, or may not be
 * written. */
static td_array *share(PyObject *data, td_dtype wanted)
{
    if (tdpy_is_foreign(data)) {
        td_array *a = tdpy_from_foreign(data, TDPY_SHARED);
        bool fits = a && (wanted == TD_DTYPE_NONE || td_dtype_of(a) == wanted);
        if (!fits) td_release(a);
        return fits ? a : NULL;
    }
    layout of;
    if (tdpy_is_tensor(data) || !take_layout(data, PyBUF_FULL, &of)) return NULL;
    bool fits = of.ndim >= 0 && (wanted == TD_DTYPE_NONE || wanted == of.dtype);
    td_array *a = fits ? tdpy_handed_view(of.view.buf, of.dtype, td_dims_of(of.ndim, of.shape), of.strides) : NULL;
    PyBuffer_Release(&of.view);
    return a;
}

/* tdpy_copy_span() of a buffer. */
static bool copy_span(PyObject *data, td_array **out)
{
    layout of;
    if (!take_layout(data, PyBUF_FULL_RO, &of)) return false;
    bool spans = of.ndim > 0 && tdpy_copy_span(of.view.buf, of.dtype, td_dims_of(of.ndim, of.shape), of.strides, out);
    PyBuffer_Release(&of.view);
    return spans;
}

static td_array *of_data(PyObject *data, td_dtype dtype)
{
    if (tdpy_is_tensor(data)) {
        bool was = td_set_grad_enabled(false);
        td_array *a = td_at_copy(tdpy_site(), tdpy_array(data), dtype);
        td_set_grad_enabled(was);
        return a;
    }
    bool list = PyList_Check(data) || PyTuple_Check(data);
    if (!list && tdpy_is_foreign(data)) return cast(tdpy_from_foreign(data, TDPY_COPIED), dtype);
    if (!list && PyObject_CheckBuffer(data) && tdpy_is_numpy_scalar(data)) return from_nested(data, dtype);
    if (!list && PyObject_CheckBuffer(data) && !PyBytes_Check(data)) return from_buffer(data, dtype);
    return from_nested(data, dtype);
}

td_array *tdpy_take_to(td_array *made, int device)
{
    if (!made || device < 0 || td_device_of(made) == device) return made;
    td_array *there = td_at_to_device(tdpy_site(), made, device);
    td_release(made);
    return there;
}

td_array *tdpy_from_data(PyObject *data, td_dtype dtype, int device)
{
    if (device < 0 && tdpy_is_tensor(data)) return of_data(data, dtype);
    if (device < 0) device = td_get_device();
    int before = td_set_device(device);
    td_array *made = of_data(data, dtype);
    td_set_device(before);
    return tdpy_take_to(made, device);
}

td_array *tdpy_as_array(PyObject *data)
{
    if (tdpy_is_foreign(data)) return tdpy_from_foreign(data, TDPY_SPANNED);
    td_array *made = share(data, TD_DTYPE_NONE);
    return made || copy_span(data, &made) ? made : tdpy_from_data(data, TD_DTYPE_NONE, TD_CPU);
}

/* ---- tensor(), asarray() ----------------------------------------------------------------------------------------- */

static PyObject *as_leaf(PyObject *t, bool requires_grad)
{
    if (t && requires_grad && tdpy_set_requires_grad(t, Py_True, NULL)) Py_CLEAR(t);
    return t;
}

static PyObject *finish(td_array *a, bool requires_grad)
{
    return as_leaf(tdpy_wrap(a, true), requires_grad);
}

PyObject *tdpy_tensor_function(PyObject *module, PyObject *args, PyObject *kw)
{
    (void)module;
    static char *names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", NULL};
    PyObject *data, *dtype = Py_None, *device = Py_None, *leaf = NULL, *pinned = NULL;
    bool grad = false, pin = false;
    td_dtype wanted;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|$OOOO:tensor", names, &data, &dtype, &device, &leaf, &pinned))
        return NULL;
    if (!tdpy_as_bool(leaf, &grad, "tensor", names[3]) || !tdpy_as_bool(pinned, &pin, "tensor", names[4])) return NULL;
    int there;
    if (!tdpy_as_dtype(dtype, &wanted) || !tdpy_as_device(device, &there)) return NULL;
    PyObject *made = finish(tdpy_from_data(data, wanted, there), grad);
    if (!made || !pin || (there = td_device_of(tdpy_array(made))) <= TD_CPU) return made;
    Py_DECREF(made);
    return tdpy_raise(TD_E_UNSUPPORTED,
                      "tensor(): cannot pin what is made on %s; only what is on the cpu can be pinned",
                      td_device_name((unsigned)there));
}

PyObject *tdpy_asarray_function(PyObject *module, PyObject *args, PyObject *kw)
{
    (void)module;
    static char *names[] = {"obj", "dtype", "device", "copy", "requires_grad", NULL};
    PyObject *data, *dtype = Py_None, *device = Py_None, *copy = Py_None, *leaf = NULL;
    bool grad = false, copies;
    td_dtype wanted;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|O$OOO:asarray", names, &data, &dtype, &device, &copy, &leaf))
        return NULL;
    if (copy != Py_None && !tdpy_as_bool(copy, &copies, "asarray", names[3])) return NULL;
    if (!tdpy_as_bool(leaf, &grad, "asarray", names[4])) return NULL;
    int there;
    if (!tdpy_as_dtype(dtype, &wanted) || !tdpy_as_device(device, &there)) return NULL;
    bool is = tdpy_is_tensor(data), stays = (there < 0 ? td_get_device() : there) == TD_CPU;
    bool fits = is && (wanted == TD_DTYPE_NONE || td_dtype_of(tdpy_array(data)) == wanted);
    if (is) stays = there < 0 || td_device_of(tdpy_array(data)) == there;
    if (fits && stays && copy != Py_True) return as_leaf(Py_NewRef(data), grad);
    td_array *shared = copy == Py_True || !stays ? NULL : share(data, wanted);
    if (shared) return finish(shared, grad);
    if (PyErr_Occurred()) return NULL;
    if (copy == Py_False)
        return tdpy_raise(TD_E_INVALID, "asarray() would have to copy this, but copy=False was given");
    if (is) {
        PyObject *t = tdpy_wrap_like(tdpy_take_to(td_at_copy(tdpy_site(), tdpy_array(data), wanted), there), data);
        return as_leaf(t, grad);
    }
    return finish(tdpy_from_data(data, wanted, there), grad);
}
