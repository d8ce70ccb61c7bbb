/* Items of queues: a tree of plain data as bytes, with the tensors in it beside them; and back.
 *
 * A byte says what follows: N T F; i (8 bytes), I (digits), f, c; s, b; l, t, d (a count and so many, or twice as many,
 * items); x (which of the tensors); m (a tuple, what share/_codec.py made of an object); r (how far back stands the
 * long s, b or I that is meant again: files have it). Counts are 8 bytes, as lengths are. What is large goes as the
 * bytes of one more tensor, whose number follows: B and S, as b and s; L, all of the item. A tensor that is there twice
 * is one tensor, and one object where it arrives. Packing may run other threads (an array of NumPy is copied), so what
 * is walked through is held and asked for its size at every step; unpacking trusts no byte, since another program may
 * have put it, and may write on in what is shared. An error of packing says where in the item it is: each level notes
 * its step on the way back. */
#include "client/python/src/py.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32, LARGE = 1 << 20 }; /* bytes, of a message that may have 16 times as many */

/* ---- where in an item something is wrong ------------------------------------------------------------------------- */

/* How the way from here to what failed goes on: place() of share/_codec.py says what the steps are. What is
 * raised stays. */
static bool failed_at(tdpy_packed *p, const char *way, PyObject *what)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!p->steps) p->steps = PyList_New(0);
    PyObject *step = p->steps ? Py_BuildValue("(sO)", way, what) : NULL;
    if (!step || PyList_Append(p->steps, step)) PyErr_Clear();
    Py_XDECREF(step);
    PyErr_Restore(type, value, trace);
    return false;
}

static bool failed_at_index(tdpy_packed *p, Py_ssize_t i)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *index = PyLong_FromSsize_t(i);
    PyErr_Restore(type, value, trace);
    if (index) failed_at(p, "into", index);
    Py_XDECREF(index);
    return false;
}

/* The exception says it from now on. */
static void say_where(tdpy_packed *p)
{
    PyObject *type, *value, *trace, *told = NULL;
    if (!p->steps || !PyErr_ExceptionMatches(PyExc_Exception)) return;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *args[] = {value, p->steps};
    if (value && PyList_Reverse(p->steps) == 0) told = tdpy_forward("say_where", NULL, args, 2, NULL);
    if (!told) PyErr_Clear();
    Py_XDECREF(told);
    PyErr_Restore(type, value, trace);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static unsigned char *room(tdpy_packed *p, size_t n)
{
    if (p->capacity - p->size >= n) return p->bytes + p->size;
    size_t capacity = 2 * p->capacity;
    while (capacity - p->size < n) capacity *= 2;
    bool small = p->bytes == p->small;
    unsigned char *more = realloc(small ? NULL : p->bytes, capacity);
    if (!more) return PyErr_NoMemory(), NULL;
    if (small) memcpy(more, p->small, p->size);
    p->bytes = more;
    p->capacity = capacity;
    return more + p->size;
}

static bool add(tdpy_packed *p, char kind, const void *bytes, size_t n)
{
    unsigned char *at = room(p, 1 + n);
    if (!at) return false;
    *at = (unsigned char)kind;
    if (n) memcpy(at + 1, bytes, n);
    p->size += 1 + n;
    return true;
}

static bool add_number(tdpy_packed *p, char kind, int64_t value)
{
    return add(p, kind, &value, sizeof value);
}

static bool add_text(tdpy_packed *p, char kind, const char *text, Py_ssize_t n)
{
    unsigned char *at = text && add_number(p, kind, n) ? room(p, (size_t)n) : NULL;
    if (!at) return false;
    if (n) memcpy(at, text, (size_t)n);
    p->size += (size_t)n;
    return true;
}

static bool pack_int(tdpy_packed *p, PyObject *x)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
    if (!overflow) return add_number(p, 'i', value);
    PyObject *digits = PyObject_Str(x);
    Py_ssize_t n = 0;
    const char *text = digits ? PyUnicode_AsUTF8AndSize(digits, &n) : NULL;
    bool good = text && add_text(p, 'I', text, n);
    Py_XDECREF(digits);
    return good;
}

static bool pack_complex(tdpy_packed *p, PyObject *x)
{
    double parts[] = {PyComplex_RealAsDouble(x), PyComplex_ImagAsDouble(x)};
    return add(p, 'c', parts, sizeof parts);
}

static bool pack_float(tdpy_packed *p, PyObject *x)
{
    double value = PyFloat_AsDouble(x);
    return add(p, 'f', &value, sizeof value);
}

/* A place for one more tensor. */
static bool more_places(tdpy_packed *p)
{
    if (p->tensors < p->places) return true;
    if (p->tensors == TD_MAX_ITEM)
        return tdpy_raise(TD_E_INVALID, "more than %d tensors in one item of a queue", TD_MAX_ITEM);
    size_t n = (size_t)p->places * 2;
    bool few = p->at == p->few_at;
    td_array **at = realloc(few ? NULL : p->at, n * sizeof *at);
    if (!at) return PyErr_NoMemory() != NULL;
    if (few) memcpy(at, p->few_at, sizeof p->few_at);
    p->at = at;
    PyObject **objects = realloc(few ? NULL : p->objects, n * sizeof *objects);
    if (!objects) return PyErr_NoMemory() != NULL;
    if (few) memcpy(objects, p->few_objects, sizeof p->few_objects);
    p->objects = objects;
    p->places = (int)n;
    return true;
}

/* Is it to go as a tensor? Where there is no place for one more, it stays in the message. */
static bool is_large(const tdpy_packed *p, size_t n)
{
    return n >= LARGE && p->tensors < TD_MAX_ITEM;
}

static bool add_large(tdpy_packed *p, char kind, const void *bytes, size_t n)
{
    td_client *c = tdpy_client();
    if (!c || !more_places(p)) return false;
    unsigned before = td_now_on(TD_CPU);
    td_array *a = td_from_data(c, TD_UINT8, td_dims((int64_t)n), bytes);
    td_now_on(before);
    if (!a || PyErr_Occurred()) return td_release(a), tdpy_fail() != NULL;
    p->at[p->tensors] = a;
    p->objects[p->tensors] = NULL;
    return add_number(p, kind, p->tensors++);
}

/* `kind`: b or s. */
static bool pack_text(tdpy_packed *p, char kind, const char *text, Py_ssize_t n)
{
    if (is_large(p, (size_t)n)) return add_large(p, kind == 'b' ? 'B' : 'S', text, (size_t)n);
    return add_text(p, kind, text, n);
}

static bool pack_bytes(tdpy_packed *p, char kind, PyObject *x)
{
    char *text;
    Py_ssize_t n;
    return PyBytes_AsStringAndSize(x, &text, &n) == 0 && pack_text(p, kind, text, n);
}

/* Halves of surrogate pairs, as in names of files, have no UTF-8: they go as what they would have. */
static bool pack_str(tdpy_packed *p, PyObject *x)
{
    Py_ssize_t n;
    const char *text = PyUnicode_AsUTF8AndSize(x, &n);
    if (text) return pack_text(p, 's', text, n);
    PyErr_Clear();
    PyObject *bytes = PyUnicode_AsEncodedString(x, "utf-8", "surrogatepass");
    bool good = bytes && pack_bytes(p, 's', bytes);
    Py_XDECREF(bytes);
    return good;
}

static bool pack_tensor(tdpy_packed *p, PyObject *x)
{
    int k = 0;
    while (k < p->tensors && p->objects[k] != x) k++;
    if (k < p->tensors) return add_number(p, 'x', k);
    if (!more_places(p)) return false;
    p->at[k] = td_retain(tdpy_array(x)); /* the object may become another tensor meanwhile, by unsqueeze_() */
    p->objects[k] = Py_NewRef(x);
    p->tensors++;
    return add_number(p, 'x', k);
}

/* An array: as a tensor that lives until the item is put. */
static bool pack_array(tdpy_packed *p, PyObject *x)
{
    int k = 0;
    while (k < p->tensors && p->objects[k] != x) k++;
    if (k < p->tensors) return add_number(p, 'x', k);
    td_array *a = tdpy_as_array(x);
    if (!a || PyErr_Occurred()) return td_release(a), tdpy_fail() != NULL;
    if (!more_places(p)) return td_release(a), false;
    p->at[p->tensors] = a;
    p->objects[p->tensors] = Py_NewRef(x);
    return add_number(p, 'x', p->tensors++);
}

static bool pack(tdpy_packed *p, PyObject *x, int depth);

static bool pack_held(tdpy_packed *p, PyObject *x, int depth)
{
    Py_INCREF(x);
    bool good = pack(p, x, depth);
    Py_DECREF(x);
    return good;
}

static bool changed(const char *what)
{
    PyErr_Format(PyExc_RuntimeError, "the %s changed while it was put into a queue", what);
    return false;
}

static bool pack_list(tdpy_packed *p, PyObject *x, int depth)
{
    Py_ssize_t n = PyList_Size(x);
    bool good = add_number(p, 'l', n);
    for (Py_ssize_t i = 0; good && i < n; i++) {
        if (i >= PyList_Size(x)) return changed("list");
        good = pack_held(p, PyList_GetItem(x, i), depth) || failed_at_index(p, i);
    }
    return good;
}

static bool pack_tuple(tdpy_packed *p, PyObject *x, int depth)
{
    Py_ssize_t n = PyTuple_Size(x);
    bool good = add_number(p, 't', n);
    for (Py_ssize_t i = 0; good && i < n; i++) good = pack(p, PyTuple_GetItem(x, i), depth) || failed_at_index(p, i);
    return good;
}

static bool pack_dict(tdpy_packed *p, PyObject *x, int depth)
{
    Py_ssize_t n = PyDict_Size(x), at = 0, done = 0;
    PyObject *key, *value;
    bool good = add_number(p, 'd', n);
    for (; good && done < n && PyDict_Size(x) == n && PyDict_Next(x, &at, &key, &value); done++) {
        Py_INCREF(key);
        Py_INCREF(value);
        p->keys++;
        good = pack(p, key, depth) || failed_at(p, "key", Py_None);
        p->keys--;
        good = good && (pack(p, value, depth) || failed_at(p, "into", key));
        Py_DECREF(key);
        Py_DECREF(value);
    }
    return good && (done == n || changed("dict"));
}

/* An array, of NumPy or of who speaks DLPack, or a number of NumPy. Not so within a key, where a tensor would be
 * another key; nor texts, which are none. */
static bool is_array(const tdpy_packed *p, PyObject *x)
{
    if (tdpy_is_foreign(x)) return true;
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(x), "__module__");
    bool numpy = module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "numpy") == 0;
    PyErr_Clear();
    Py_XDECREF(module);
    return numpy && !p->keys && !PyUnicode_Check(x) && !PyBytes_Check(x);
}

/* Arrays, and what share/_codec.py takes apart. */
static bool pack_other(tdpy_packed *p, PyObject *x, int depth)
{
    if (is_array(p, x)) return pack_array(p, x);
    PyObject *parts = tdpy_forward("apart", NULL, &x, 1, NULL);
    int set = PySet_Check(x) || PyFrozenSet_Check(x);
    p->keys += set;
    bool made = parts && PyTuple_Check(parts);
    bool good = made && add(p, 'm', NULL, 0) && (pack_tuple(p, parts, depth) || failed_at(p, "parts", parts));
    p->keys -= set;
    if (parts == Py_None)
        tdpy_raise(TD_E_TYPE,
                   "a queue carries numbers, texts, bytes, dates, paths, tensors and arrays; dicts, lists, tuples and "
                   "sets of such; OrderedDicts, namedtuples, dataclasses, enums and exceptions; not %.100s",
                   tdpy_a_type(x));
    Py_XDECREF(parts);
    return good;
}

/* Exact types: what a subclass adds would be lost on the way. */
static bool pack(tdpy_packed *p, PyObject *x, int depth)
{
    PyTypeObject *type = Py_TYPE(x);
    if (depth > MAX_DEPTH)
        return tdpy_raise(TD_E_INVALID, "an item of a queue is nested deeper than %d (or contains itself)", MAX_DEPTH);
    if (type == tdpy.tensor) return pack_tensor(p, x);
    if (type == &PyUnicode_Type) return pack_str(p, x);
    if (type == &PyLong_Type) return pack_int(p, x);
    if (type == &PyDict_Type) return pack_dict(p, x, depth + 1);
    if (type == &PyFloat_Type) return pack_float(p, x);
    if (type == &PyList_Type) return pack_list(p, x, depth + 1);
    if (type == &PyTuple_Type) return pack_tuple(p, x, depth + 1);
    if (x == Py_None) return add(p, 'N', NULL, 0);
    if (x == Py_True || x == Py_False) return add(p, x == Py_True ? 'T' : 'F', NULL, 0);
    if (type == &PyBytes_Type) return pack_bytes(p, 'b', x);
    if (type == &PyComplex_Type) return pack_complex(p, x);
    return tdpy_is_tensor(x) ? pack_tensor(p, x) : pack_other(p, x, depth);
}

/* What is more than a message should have goes as a tensor, too. */
static bool pack_all(tdpy_packed *p, PyObject *x)
{
    if (!pack_held(p, x, 0)) return false;
    size_t n = p->size;
    if (!is_large(p, n)) return true;
    p->size = 0;
    return add_large(p, 'L', p->bytes, n);
}

bool tdpy_pack_item(tdpy_packed *p, PyObject *x)
{
    p->bytes = p->small;
    p->capacity = sizeof p->small;
    p->size = 0;
    p->tensors = p->keys = 0;
    p->places = TDPY_FEW;
    p->at = p->few_at;
    p->objects = p->few_objects;
    p->steps = NULL;
    bool good = pack_all(p, x);
    if (!good) say_where(p);
    Py_CLEAR(p->steps);
    if (!good) tdpy_packed_clear(p);
    return good;
}

void tdpy_packed_clear(tdpy_packed *p)
{
    bool raised = PyErr_Occurred() != NULL;
    for (int k = 0; k < p->tensors; k++) {
        td_release(p->at[k]);
        Py_XDECREF(p->objects[k]);
    }
    p->tensors = 0;
    if (p->at != p->few_at) free(p->at);
    if (p->objects != p->few_objects) free(p->objects);
    p->at = p->few_at;
    p->objects = p->few_objects;
    if (p->bytes != p->small) free(p->bytes);
    p->bytes = p->small;
    tdpy_tell_later(raised);
}

/* ---- unpacking --------------------------------------------------------------------------------------------------- */

bool tdpy_as_out(PyObject *o, tdpy_out *out)
{
    *out = TDPY_OURS;
    if (!o || o == Py_None || (PyUnicode_Check(o) && PyUnicode_CompareWithASCIIString(o, "tensord") == 0)) return true;
    PyObject *there = tdpy_forward("check_out", NULL, &o, 1, NULL); /* raises of anything else, and without torch */
    Py_XDECREF(there);
    *out = TDPY_TORCH;
    return there;
}

PyObject *tdpy_out_of(PyObject *t, tdpy_out out)
{
    if (!t || out == TDPY_OURS) return t;
    PyObject *theirs = tdpy_forward("as_torch", NULL, &t, 1, NULL);
    Py_DECREF(t);
    return theirs;
}

typedef struct unpacking {
    const unsigned char *at, *end;
    tdpy_out out;
    const td_queue_item *item; /* a tensor that is met becomes an object, ... */
    PyObject **tensors;        /* ... this one; NULL: not met yet */
    int64_t promised;          /* elements that were counted and are still to come: a byte each at least */
    PyObject *texts;           /* long ones, by where they begin: a step may ask for one again; NULL: none came yet */
} unpacking;

/* In place of what is raised already. */
static void *strange(void)
{
    PyErr_Clear();
    return tdpy_raise(
        TD_E_PROTOCOL,
        "an item of the queue was put by something else than tensord.Queue, with a note of its own, and is let go of: "
        "a "
        "program in C puts tensors for Python by td_queue_put() without a note, or publishes them for tensord.open()");
}

static bool take(unpacking *u, void *to, size_t n)
{
    if ((size_t)(u->end - u->at) < n) return strange();
    memcpy(to, u->at, n);
    u->at += n;
    return true;
}

/* How many bytes follow. */
static bool take_length(unpacking *u, int64_t *n)
{
    return take(u, n, sizeof *n) && ((*n >= 0 && *n <= u->end - u->at) || strange());
}

/* How many elements follow, twice as many in a dict: of all that is open together no more than there are bytes, or a
 * small note would fill the memory. */
static bool take_count(unpacking *u, int64_t *n, int64_t times)
{
    if (!take(u, n, sizeof *n)) return false;
    if (*n < 0 || *n > (u->end - u->at - u->promised) / times) return strange();
    u->promised += *n * times;
    return true;
}

static PyObject *unpack(unpacking *u, int depth);

static PyObject *next(unpacking *u, int depth)
{
    u->promised--;
    return unpack(u, depth);
}

static PyObject *unpack_number(unpacking *u, char kind)
{
    int64_t value = 0;
    double parts[2] = {0};
    if (kind == 'i') return take(u, &value, sizeof value) ? PyLong_FromLongLong(value) : NULL;
    if (kind == 'f') return take(u, parts, sizeof *parts) ? PyFloat_FromDouble(*parts) : NULL;
    return take(u, parts, sizeof parts) ? PyComplex_FromDoubles(parts[0], parts[1]) : NULL;
}

/* The bytes of what went as a tensor: borrowed from it. */
static const char *take_large(unpacking *u, int64_t *n)
{
    int64_t k = 0;
    if (!take(u, &k, sizeof k)) return NULL;
    td_array *a = k >= 0 && k < u->item->n ? u->item->at[k] : NULL;
    if (!a || td_dtype_of(a) != TD_UINT8 || td_ndim(a) != 1 || !td_desc_is_contiguous(td_desc_known(a)))
        return strange();
    *n = td_numel(a);
    const char *bytes = td_data(a);
    return bytes && !PyErr_Occurred() ? bytes : tdpy_fail();
}

/* Decoding looks twice, and another program may write in between. */
static PyObject *unpack_large(unpacking *u, char kind)
{
    int64_t n = 0;
    const char *bytes = take_large(u, &n);
    PyObject *copy = bytes ? PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n) : NULL;
    if (kind == 'B' || !copy) return copy;
    PyObject *text = PyUnicode_FromEncodedObject(copy, "utf-8", "surrogatepass");
    Py_DECREF(copy);
    return text || !PyErr_ExceptionMatches(PyExc_ValueError) ? text : strange();
}

static PyObject *text_of(char kind, const char *text, Py_ssize_t n)
{
    if (kind == 'b') return PyBytes_FromStringAndSize(text, n);
    PyObject *made = kind == 'I' ? PyObject_CallFunction((PyObject *)&PyLong_Type, "y#", text, n)
                                 : PyUnicode_DecodeUTF8(text, n, "surrogatepass");
    return made || !PyErr_ExceptionMatches(PyExc_ValueError) ? made : strange();
}

/* For those that ask for it again: by the place of its step. */
static bool note_text(unpacking *u, const unsigned char *step, PyObject *text)
{
    if (!u->texts && !(u->texts = PyDict_New())) return false;
    PyObject *place = PyLong_FromVoidPtr((void *)step);
    bool good = place && !PyDict_SetItem(u->texts, place, text);
    Py_XDECREF(place);
    return good;
}

static PyObject *unpack_text(unpacking *u, char kind)
{
    const unsigned char *step = u->at - 1;
    int64_t n = 0;
    if (!take_length(u, &n)) return NULL;
    const char *text = (const char *)u->at;
    u->at += n;
    PyObject *made = text_of(kind, text, (Py_ssize_t)n);
    if (made && n >= TD_LONG_TEXT && !note_text(u, step, made)) Py_CLEAR(made);
    return made;
}

static PyObject *unpack_again(unpacking *u)
{
    const unsigned char *step = u->at - 1;
    int64_t back = 0;
    if (!take(u, &back, sizeof back)) return NULL;
    PyObject *place = u->texts ? PyLong_FromUnsignedLongLong((uintptr_t)step - (uint64_t)back) : strange();
    PyObject *found = place ? PyDict_GetItemWithError(u->texts, place) : NULL; /* borrowed */
    Py_XDECREF(place);
    return found ? Py_NewRef(found) : PyErr_Occurred() ? NULL : strange();
}

static PyObject *tensor(unpacking *u, int64_t k)
{
    if (!u->tensors[k]) u->tensors[k] = tdpy_out_of(tdpy_wrap(td_retain(u->item->at[k]), false), u->out);
    return Py_XNewRef(u->tensors[k]);
}

static PyObject *unpack_tensor(unpacking *u)
{
    int64_t k = 0;
    if (!take(u, &k, sizeof k)) return NULL;
    return k < 0 || k >= u->item->n ? strange() : tensor(u, k);
}

/* A list or a tuple, by the functions of its kind. */
static PyObject *unpack_sequence(unpacking *u, int depth, PyObject *(*make)(Py_ssize_t),
                                 int (*set)(PyObject *, Py_ssize_t, PyObject *))
{
    int64_t n = 0;
    PyObject *made = take_count(u, &n, 1) ? make((Py_ssize_t)n) : NULL;
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *each = next(u, depth);
        if (!each || set(made, i, each)) Py_CLEAR(made);
    }
    return made;
}

static PyObject *unpack_dict(unpacking *u, int depth)
{
    int64_t n = 0;
    PyObject *dict = take_count(u, &n, 2) ? PyDict_New() : NULL;
    for (; dict && n > 0; n--) {
        PyObject *key = next(u, depth), *value = key ? next(u, depth) : NULL;
        if (!value) Py_CLEAR(dict);
        else if (PyDict_SetItem(dict, key, value)) {
            if (PyErr_ExceptionMatches(PyExc_TypeError)) strange(); /* no key of ours */
            Py_CLEAR(dict);
        }
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

/* What share/_codec.py took apart. */
static PyObject *unpack_parts(unpacking *u, int depth)
{
    bool tuple = u->at < u->end && *u->at == 't';
    PyObject *parts = tuple ? unpack(u, depth) : strange();
    PyObject *made = parts ? tdpy_forward("together", NULL, &parts, 1, NULL) : NULL;
    bool wrong = parts && !made && PyErr_ExceptionMatches(PyExc_Exception) &&
                 !PyErr_ExceptionMatches(tdpy.errors[TD_E_NOT_FOUND]) && !PyErr_ExceptionMatches(PyExc_MemoryError) &&
                 !PyErr_ExceptionMatches(PyExc_ImportError);
    Py_XDECREF(parts);
    return wrong ? strange() : made;
}

static PyObject *unpack(unpacking *u, int depth)
{
    if (depth > 2 * MAX_DEPTH + 2) return tdpy_raise(TD_E_PROTOCOL, "an item of the queue is nested too deep");
    if (u->at == u->end) return strange();
    char kind = (char)*u->at++;
    switch (kind) {
    case 'N': return Py_NewRef(Py_None);
    case 'T': return Py_NewRef(Py_True);
    case 'F': return Py_NewRef(Py_False);
    case 'i':
    case 'f':
    case 'c': return unpack_number(u, kind);
    case 'x': return unpack_tensor(u);
    case 'l': return unpack_sequence(u, depth + 1, PyList_New, PyList_SetItem);
    case 't': return unpack_sequence(u, depth + 1, PyTuple_New, PyTuple_SetItem);
    case 'd': return unpack_dict(u, depth + 1);
    case 'm': return unpack_parts(u, depth + 1);
    case 's':
    case 'b':
    case 'I': return unpack_text(u, kind);
    case 'r': return unpack_again(u);
    case 'S':
    case 'B': return unpack_large(u, kind);
    default: return strange();
    }
}

static PyObject *unpack_to_the_end(unpacking *u)
{
    PyObject *x = unpack(u, 0);
    if (!x || u->at == u->end) return x;
    Py_DECREF(x);
    return strange();
}

/* All of it lies in a tensor: a copy is looked at. */
static PyObject *unpack_long(unpacking *u)
{
    int64_t n = 0;
    u->at++;
    const char *bytes = take_large(u, &n);
    if (!bytes) return NULL;
    if (u->at != u->end) return strange();
    unsigned char *copy = malloc((size_t)n + 1);
    if (!copy) return PyErr_NoMemory();
    memcpy(copy, bytes, (size_t)n);
    u->at = copy;
    u->end = copy + n;
    PyObject *x = unpack_to_the_end(u);
    free(copy);
    return x;
}

/* What a program in C has put is its tensors. */
static PyObject *unpack_without_note(unpacking *u)
{
    PyObject *made = PyTuple_New(u->item->n);
    for (int k = 0; made && k < u->item->n; k++) {
        PyObject *x = tensor(u, k);
        if (!x || PyTuple_SetItem(made, k, x)) Py_CLEAR(made);
    }
    return made;
}

PyObject *tdpy_unpack_item(const td_queue_item *item, tdpy_out out)
{
    const unsigned char *note = item->note ? item->note : "";
    unpacking u = {.at = note, .end = note + item->note_size, .out = out, .item = item};
    PyObject *few[TDPY_FEW] = {0};
    u.tensors = item->n > TDPY_FEW ? calloc((size_t)item->n, sizeof *u.tensors) : few;
    if (!u.tensors) return PyErr_NoMemory();
    PyObject *x = !item->note_size ? unpack_without_note(&u) : *note == 'L' ? unpack_long(&u) : unpack_to_the_end(&u);
    for (int k = 0; k < item->n; k++) Py_XDECREF(u.tensors[k]);
    if (u.tensors != few) free(u.tensors);
    Py_XDECREF(u.texts);
    return x;
}
