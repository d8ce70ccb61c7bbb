/* Names and queues: tensors from process to process. */
#include "client/python/src/py.h"

#include <stdlib.h>
#include <string.h>

/* Seconds or None as milliseconds; None waits for ever. */
static bool as_timeout(PyObject *o, int *ms)
{
    double s = o == Py_None ? -1 : PyFloat_AsDouble(o);
    if (s == -1 && PyErr_Occurred()) return false;
    if (o != Py_None && !(s >= 0)) /* nor NaN */
        return tdpy_raise(TD_E_INVALID, "a timeout is a number of seconds that is not negative, or None");
    *ms = o == Py_None ? -1 : s > 2e6 ? 2000000000 : (int)(s * 1000);
    return true;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static PyObject *publish(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"name", "replace", "copy", NULL};
    const char *name;
    PyObject *replaces = NULL, *copies = NULL;
    bool replace = false, copy = false;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "s|OO:publish", names, &name, &replaces, &copies)) return NULL;
    if (!tdpy_as_bool(replaces, &replace, "publish", names[1]) || !tdpy_as_bool(copies, &copy, "publish", names[2]))
        return NULL;
    unsigned flags = (replace ? TD_REPLACE : 0u) | (copy ? TD_COPY : 0u);
    if (td_publish(tdpy_array(self), name, flags) || PyErr_Occurred()) return tdpy_fail();
    return tdpy_set_name(self, name) ? Py_NewRef(self) : NULL;
}

/* A wait may succeed just when the program is stopped (Ctrl-C). */
static PyObject *opened_tensor(td_array *a)
{
    if (!a || !PyErr_Occurred()) return tdpy_wrap(a, false);
    td_release(a);
    return NULL;
}

static PyObject *open_name(PyObject *module, PyObject *args, PyObject *kw)
{
    (void)module;
    static char *names[] = {"name", "timeout", NULL};
    const char *name;
    PyObject *timeout = NULL;
    int ms = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "s|O:open", names, &name, &timeout)) return NULL;
    if (timeout && !as_timeout(timeout, &ms)) return NULL;
    td_client *c = tdpy_client();
    PyObject *opened = c ? opened_tensor(td_open(c, name, ms)) : NULL;
    if (opened && !tdpy_set_name(opened, name)) Py_CLEAR(opened);
    return opened;
}

static PyObject *drop_name(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    if (!PyArg_ParseTuple(args, "s:drop", &name)) return NULL;
    td_client *c = tdpy_client();
    if (!c) return NULL;
    return tdpy_none(td_drop(c, name));
}

static PyObject *make_handle(PyObject *self, PyObject *seconds, int (*send)(td_array *, char *, int))
{
    char handle[TD_HANDLE_TEXT];
    double s = PyFloat_AsDouble(seconds);
    if (s == -1 && PyErr_Occurred()) return NULL;
    int rc = send(tdpy_array(self), handle, s > 2e6 ? 2000000000 : (int)(s * 1000));
    return rc || PyErr_Occurred() ? tdpy_fail() : PyUnicode_FromString(handle);
}

/* _send(seconds), _lend(seconds): a handle for one other process. */
static PyObject *send_handle(PyObject *self, PyObject *seconds)
{
    return make_handle(self, seconds, td_send);
}

static PyObject *lend_handle(PyObject *self, PyObject *seconds)
{
    return make_handle(self, seconds, td_lend);
}

/* _lend_as(name): the tensor itself, for all to see, as long as this process lasts. */
static PyObject *lend_as(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return NULL;
    return tdpy_none(td_publish(tdpy_array(self), text, TD_LENT));
}

static PyObject *take_handle(PyObject *module, PyObject *args)
{
    (void)module;
    const char *handle;
    PyObject *timeout;
    int ms;
    if (!PyArg_ParseTuple(args, "sO", &handle, &timeout) || !as_timeout(timeout, &ms)) return NULL;
    td_client *c = tdpy_client();
    return c ? opened_tensor(td_take(c, handle, ms)) : NULL;
}

static PyObject *reduce(PyObject *self, PyObject *protocol)
{
    PyObject *args[2] = {self, protocol};
    return tdpy_forward("reduce_tensor", NULL, args, 2, NULL);
}

/* ---- queues: what tensord.Queue stands on ------------------------------------------------------------------------ */

typedef struct queue {
    PyObject_HEAD td_queue *queue;
    td_queue_item *kept; /* came when the program was stopped (Ctrl-C): the next get's */
} queue;

static td_queue *queue_of(PyObject *self)
{
    td_queue *q = ((queue *)self)->queue;
    if (!q) tdpy_raise(TD_E_CLOSED, "the queue was closed");
    return q;
}

static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    const char *name;
    unsigned capacity, role;
    if (kw && PyDict_Size(kw)) return tdpy_raise(TD_E_TYPE, "RawQueue takes no keywords");
    if (!PyArg_ParseTuple(args, "sII:RawQueue", &name, &capacity, &role)) return NULL;
    td_client *c = tdpy_client();
    td_queue *made = c ? td_queue_open(c, name, capacity, role) : NULL;
    if (!made) return tdpy_fail();
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = alloc(type, 0);
    if (self) ((queue *)self)->queue = made;
    else td_queue_close(made, false);
    return self;
}

static void drop_kept(queue *q)
{
    td_queue_item *kept = q->kept;
    q->kept = NULL;
    if (kept) td_queue_item_clear(kept);
    free(kept);
}

static PyObject *queue_close(PyObject *self, PyObject *args)
{
    int end = 0;
    if (!PyArg_ParseTuple(args, "|p", &end)) return NULL;
    td_queue *q = ((queue *)self)->queue;
    ((queue *)self)->queue = NULL;
    drop_kept((queue *)self);
    return td_queue_close(q, end) || PyErr_Occurred() ? tdpy_fail() : Py_NewRef(Py_None);
}

static void queue_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    bool raised = PyErr_Occurred() != NULL;
    drop_kept((queue *)self);
    td_queue_forget(((queue *)self)->queue); /* nothing waits here */
    tdpy_tell_later(raised);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

/* put(tensors, note, timeout): at most 64 tensors. */
static PyObject *queue_put(PyObject *self, PyObject *args)
{
    PyObject *tensors, *timeout;
    const char *note;
    Py_ssize_t size;
    int ms;
    td_array *at[TD_MAX_ITEM];
    td_queue *q = queue_of(self);
    if (!q || !PyArg_ParseTuple(args, "O!y#O", &PyTuple_Type, &tensors, &note, &size, &timeout) ||
        !as_timeout(timeout, &ms))
        return NULL;
    Py_ssize_t n = PyTuple_Size(tensors);
    if (n > TD_MAX_ITEM)
        return tdpy_raise(TD_E_INVALID, "%zd tensors in one item of a queue; at most %d", n, TD_MAX_ITEM);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *each = PyTuple_GetItem(tensors, i);
        if (!tdpy_is_tensor(each))
            return tdpy_raise(TD_E_TYPE, "an item holds tensors, not a %.100s", tdpy_type_name(each));
        at[i] = tdpy_array(each);
    }
    int rc = td_queue_put(q, td_arrays_of((int)n, at), note, (size_t)size, ms);
    return tdpy_none(rc);
}

/* The next item; one that comes when the program is stopped is kept for the next get. */
static bool next_item(PyObject *self, td_queue *q, td_queue_item *item, int ms)
{
    queue *of = (queue *)self;
    td_queue_item *kept = of->kept;
    of->kept = NULL;
    if (kept) *item = *kept;
    free(kept);
    if (kept) return true;
    if (td_queue_get(q, item, ms)) return tdpy_fail();
    if (!PyErr_Occurred()) return true;
    of->kept = malloc(sizeof *item);
    if (of->kept) *of->kept = *item;
    else td_queue_item_clear(item);
    return false;
}

/* get(timeout): (tensors, note, how many items are left). */
static PyObject *queue_get(PyObject *self, PyObject *timeout)
{
    int ms;
    td_queue_item item;
    td_queue *q = queue_of(self);
    if (!q || !as_timeout(timeout, &ms)) return NULL;
    if (!next_item(self, q, &item, ms)) return NULL;
    PyObject *tensors = PyTuple_New(item.n);
    for (int i = 0; i < item.n; i++) {
        PyObject *each = tensors ? tdpy_wrap(item.at[i], false) : NULL;
        if (tensors) item.at[i] = NULL;
        if (tensors && (!each || PyTuple_SetItem(tensors, i, each))) Py_CLEAR(tensors);
    }
    PyObject *result =
        tensors ? Py_BuildValue("Ny#I", tensors, item.note ? item.note : "", (Py_ssize_t)item.note_size, item.left)
                : NULL;
    td_queue_item_clear(&item);
    return result;
}

static PyMethodDef queue_methods[] = {{"put", queue_put, METH_VARARGS, NULL},
                                      {"get", queue_get, METH_O, NULL},
                                      {"close", queue_close, METH_VARARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot queue_slots[] = {{Py_tp_doc, "A queue of the daemon; see tensord.Queue."},
                                    {Py_tp_new, queue_new},
                                    {Py_tp_dealloc, queue_dealloc},
                                    {Py_tp_methods, queue_methods},
                                    {0, NULL}};
static PyType_Spec queue_spec = {
    .name = "tensord.RawQueue", .basicsize = sizeof(queue), .flags = Py_TPFLAGS_DEFAULT, .slots = queue_slots};

bool tdpy_init_queue(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &queue_spec, NULL);
    bool good = type && PyModule_AddObjectRef(module, "_RawQueue", type) == 0;
    Py_XDECREF(type);
    return good;
}

PyMethodDef tdpy_share_methods[] = {
    {"publish", (PyCFunction)(void (*)(void))publish, METH_VARARGS | METH_KEYWORDS,
     "publish($self, name, replace=False, copy=False)\n--\n\nGive the value a name, by which every process "
     "opens one and the same tensor with tensord.open(name).\nIt outlives this process, in "
     "memory that only the daemon writes: a copy, unless it lies there already."},
    {"_send", send_handle, METH_O, NULL},
    {"_lend", lend_handle, METH_O, NULL},
    {"_lend_as", lend_as, METH_O, NULL},
    {"__reduce_ex__", reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

PyMethodDef tdpy_share_functions[] = {
    {"open", (PyCFunction)(void (*)(void))open_name, METH_VARARGS | METH_KEYWORDS,
     "open(name, timeout=0)\n--\n\nThe tensor that was published under a name: the same memory. timeout: seconds to "
     "wait for "
     "the name, None for as long as it takes."},
    {"_take", take_handle, METH_VARARGS, NULL},
    {"drop", drop_name, METH_VARARGS, "drop(name, /)\n--\n\nTake a name away; who holds the tensor keeps it."},
    {NULL, NULL, 0, NULL}};
