/* Queues as Python sees them: a member, which puts or gets as what it joined, and what tensord.Queue inherits.
 *
 * The common way of an item, put(x) and get() of who has joined and waits for ever or a while, runs no line of Python;
 * all else (joining, deaths of producers) is Queue's, in share/_queue.py. A member holds no Python object, and a queue none
 * but members, so neither needs garbage collection. */
#include "client/python/src/py.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct queue {
    PyObject_HEAD td_queue *queue;
    tdpy_out out;
} queue;

static PyObject *empty_error, *full_error; /* once share/_queue.py has told them */

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
    int keep_ms = -1;
    PyObject *wanted = NULL;
    tdpy_out out;
    if (kw && PyDict_Size(kw)) return tdpy_raise(TD_E_TYPE, "RawQueue takes no keywords");
    if (!PyArg_ParseTuple(args, "sII|iO:RawQueue", &name, &capacity, &role, &keep_ms, &wanted)) return NULL;
    if (!tdpy_as_out(wanted, &out)) return NULL;
    td_client *c = tdpy_client();
    td_queue *made = NULL;
    if (c && keep_ms < 0) made = td_queue_open(c, name, capacity, role);
    else if (c) made = td_queue_open_keeping(c, name, capacity, role, keep_ms);
    if (!made) return tdpy_fail();
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = alloc(type, 0);
    if (!self) {
        td_queue_close(made, false);
        return NULL;
    }
    ((queue *)self)->queue = made;
    ((queue *)self)->out = out;
    return self;
}

static PyObject *queue_close(PyObject *self, PyObject *args)
{
    int end = 0;
    if (!PyArg_ParseTuple(args, "|p", &end)) return NULL;
    td_queue *q = ((queue *)self)->queue;
    ((queue *)self)->queue = NULL;
    return td_queue_close(q, end) || PyErr_Occurred() ? tdpy_fail() : Py_NewRef(Py_None);
}

static void queue_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    bool raised = PyErr_Occurred() != NULL;
    td_queue_forget(((queue *)self)->queue); /* nothing waits here */
    tdpy_tell_later(raised);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

/* Where sys.stderr goes. */
static void say(const char *line)
{
    PySys_WriteStderr("%.900s", line);
}

/* put(tensors, note, timeout): at most TD_MAX_ITEM tensors. */
static PyObject *queue_put(PyObject *self, PyObject *args)
{
    PyObject *tensors, *timeout;
    const char *note;
    Py_ssize_t size;
    int ms;
    td_array *at[TD_MAX_ITEM];
    td_queue *q = queue_of(self);
    if (!q || !PyArg_ParseTuple(args, "O!y#O", &PyTuple_Type, &tensors, &note, &size, &timeout) ||
        !tdpy_as_timeout(timeout, &ms))
        return NULL;
    Py_ssize_t n = PyTuple_Size(tensors);
    if (n > TD_MAX_ITEM)
        return tdpy_raise(TD_E_INVALID, "%zd tensors in one item of a queue; at most %d", n, TD_MAX_ITEM);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *each = PyTuple_GetItem(tensors, i);
        if (!tdpy_is_tensor(each)) {
            while (i > 0) td_release(at[--i]);
            return tdpy_raise(TD_E_TYPE, "an item holds tensors, not %.100s", tdpy_a_type(each));
        }
        at[i] = td_retain(tdpy_array(each)); /* the object may become another tensor meanwhile */
    }
    int rc = td_queue_put(q, td_arrays_of((int)n, at), note, (size_t)size, ms);
    for (Py_ssize_t i = 0; i < n; i++) td_release(at[i]);
    return tdpy_none(rc);
}

/* The next item. One that comes when the program is stopped (Ctrl-C) has gone back to where it lay. */
static bool next_item(td_queue *q, td_queue_item *item, int ms)
{
    if (!td_queue_get(q, item, ms)) return true;
    tdpy_fail_as(empty_error);
    return false;
}

/* get(timeout): (tensors, note, how many items are left). */
static PyObject *queue_get(PyObject *self, PyObject *timeout)
{
    int ms;
    td_queue_item item;
    td_queue *q = queue_of(self);
    if (!q || !tdpy_as_timeout(timeout, &ms)) return NULL;
    if (!next_item(q, &item, ms)) return NULL;
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

/* put_item(item, timeout): a tree of plain data and tensors. The queue is looked at last: packing may run other
 * threads, and one may close it. */
static PyObject *put_tree(PyObject *self, PyObject *x, int ms)
{
    tdpy_packed item;
    if (!tdpy_pack_item(&item, x)) return NULL;
    td_queue *q = queue_of(self);
    int rc = q ? td_queue_put(q, td_arrays_of(item.tensors, item.at), item.bytes, item.size, ms) : TD_OK;
    bool good = q && !rc && !PyErr_Occurred();
    if (q && !good) tdpy_fail_as(full_error);
    tdpy_packed_clear(&item);
    return good ? Py_NewRef(Py_None) : NULL;
}

static PyObject *queue_put_item(PyObject *self, PyObject *args)
{
    PyObject *x, *timeout;
    int ms;
    if (!PyArg_ParseTuple(args, "OO:put_item", &x, &timeout) || !tdpy_as_timeout(timeout, &ms)) return NULL;
    return put_tree(self, x, ms);
}

/* get_item(timeout): what put_item() took. */
static PyObject *get_tree(PyObject *self, int ms)
{
    td_queue_item item;
    td_queue *q = queue_of(self);
    if (!q || !next_item(q, &item, ms)) return NULL;
    PyObject *x = tdpy_unpack_item(&item, ((queue *)self)->out);
    bool raised = PyErr_Occurred() != NULL;
    td_queue_item_clear(&item);
    tdpy_tell_later(raised);
    return x;
}

static PyObject *queue_get_item(PyObject *self, PyObject *timeout)
{
    int ms;
    return tdpy_as_timeout(timeout, &ms) ? get_tree(self, ms) : NULL;
}

/* over(): has its daemon gone, as who used it was told? */
static PyObject *queue_over(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_queue *q = ((queue *)self)->queue;
    return PyBool_FromLong(q && td_queue_over(q));
}

/* tell(put): of a wait that an event loop sees to, and that has gone on for a second. */
static PyObject *queue_tell(PyObject *self, PyObject *puts)
{
    bool put;
    td_queue *q = ((queue *)self)->queue;
    if (!tdpy_as_bool(puts, &put, "tell", "put")) return NULL;
    if (q) td_queue_tell(q, put);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef queue_methods[] = {{"tell", queue_tell, METH_O, NULL},
                                      {"over", queue_over, METH_NOARGS, NULL},
                                      {"put", queue_put, METH_VARARGS, NULL},
                                      {"get", queue_get, METH_O, NULL},
                                      {"put_item", queue_put_item, METH_VARARGS, NULL},
                                      {"get_item", queue_get_item, METH_O, NULL},
                                      {"close", queue_close, METH_VARARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot queue_slots[] = {{Py_tp_doc, "A member of a queue of the daemon; see tensord.Queue."},
                                    {Py_tp_new, queue_new},
                                    {Py_tp_dealloc, queue_dealloc},
                                    {Py_tp_methods, queue_methods},
                                    {0, NULL}};
static PyType_Spec queue_spec = {
    .name = "tensord.RawQueue", .basicsize = sizeof(queue), .flags = Py_TPFLAGS_DEFAULT, .slots = queue_slots};
static PyTypeObject *queue_type;

td_queue *tdpy_raw_queue(PyObject *member)
{
    if (Py_TYPE(member) == queue_type) return queue_of(member);
    return tdpy_raise(TD_E_TYPE, "a member of a queue, not a %.100s", tdpy_type_name(member));
}

tdpy_out tdpy_queue_out(PyObject *member)
{
    return ((queue *)member)->out;
}

/* ---- put() and get() of tensord.Queue ---------------------------------------------------------------------------- */

typedef struct ways {
    PyObject_HEAD PyObject *producer, *consumer; /* members that items go through without a line of Python; or NULL */
} ways;

/* What an item goes through, held: another thread may close the queue meanwhile. NULL: there is none, or none any more.
 */
static PyObject *way(PyObject *member)
{
    Py_XINCREF(member);
    td_queue *q = member ? ((queue *)member)->queue : NULL;
    if (q && td_queue_over(q)) Py_CLEAR(member);
    return member;
}

/* block=False does not wait at all, whatever the timeout. */
static PyObject *limit(bool block, PyObject *timeout)
{
    return block ? Py_NewRef(timeout) : PyLong_FromLong(0);
}

static PyObject *ways_put(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"item", "block", "timeout", NULL};
    PyObject *x, *wait = NULL, *timeout = Py_None, *done = NULL;
    bool block = true;
    int ms = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|OO:put", names, &x, &wait, &timeout) ||
        !tdpy_as_bool(wait, &block, "put", "block"))
        return NULL;
    PyObject *most = limit(block, timeout);
    if (!most) return NULL;
    PyObject *member = way(((ways *)self)->producer);
    if (!member) done = PyObject_CallMethod(self, "_put", "OO", x, most);
    else if (tdpy_as_timeout(most, &ms)) done = put_tree(member, x, ms);
    Py_XDECREF(most);
    Py_XDECREF(member);
    return done;
}

static PyObject *ways_get(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"block", "timeout", NULL};
    PyObject *wait = NULL, *timeout = Py_None, *x = NULL;
    bool block = true;
    int ms = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|OO:get", names, &wait, &timeout) ||
        !tdpy_as_bool(wait, &block, "get", "block"))
        return NULL;
    PyObject *most = limit(block, timeout);
    if (!most) return NULL;
    PyObject *member = way(((ways *)self)->consumer);
    if (!member) x = PyObject_CallMethod(self, "_get", "(O)", most);
    else if (tdpy_as_timeout(most, &ms)) x = get_tree(member, ms);
    Py_XDECREF(most);
    Py_XDECREF(member);
    return x;
}

/* _by(producer, consumer): the members to go through from now on; None: _put() and _get() see to it. */
static PyObject *ways_by(PyObject *self, PyObject *args)
{
    PyObject *members[2];
    if (!PyArg_ParseTuple(args, "OO:_by", &members[0], &members[1])) return NULL;
    for (int i = 0; i < 2; i++)
        if (members[i] != Py_None && Py_TYPE(members[i]) != queue_type)
            return tdpy_raise(TD_E_TYPE, "a member of a queue, not %.100s", tdpy_a_type(members[i]));
    ways *w = (ways *)self;
    PyObject *before[] = {w->producer, w->consumer};
    w->producer = members[0] == Py_None ? NULL : Py_NewRef(members[0]);
    w->consumer = members[1] == Py_None ? NULL : Py_NewRef(members[1]);
    Py_XDECREF(before[0]);
    Py_XDECREF(before[1]);
    return Py_NewRef(Py_None);
}

static void ways_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ways *w = (ways *)self;
    Py_CLEAR(w->producer);
    Py_CLEAR(w->consumer);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef ways_methods[] = {
    {"put", KEYWORDS(ways_put),
     "put($self, item, block=True, timeout=None)\n--\n\nAppend numbers, texts, bytes, None, dates, paths, Decimals, "
     "tensors and arrays; dicts, lists, tuples and sets of such;\nOrderedDicts, namedtuples, dataclasses, enums and "
     "exceptions: with at most 4096 tensors, a copy of all but the tensors, whose\nmemory the receiver shares. A "
     "TypeError says where in the item something else is. A full queue is waited for\n(timeout in seconds; "
     "block=False: not at all), then queue.Full."},
    {"get", KEYWORDS(ways_get),
     "get($self, block=True, timeout=None)\n--\n\nThe oldest item, for this consumer alone. An empty queue is "
     "waited for (timeout in seconds;\nblock=False: not at all), then queue.Empty; tensord.Closed when nobody "
     "is left who could put."},
    {"_by", ways_by, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot ways_slots[] = {{Py_tp_doc, "The ways of items into and out of a tensord.Queue."},
                                   {Py_tp_dealloc, ways_dealloc},
                                   {Py_tp_methods, ways_methods},
                                   {0, NULL}};
static PyType_Spec ways_spec = {.name = "tensord._C._Ways",
                                .basicsize = sizeof(ways),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                .slots = ways_slots};

/* _queue_errors(empty, full): what get() and put() raise when their time is over. */
static PyObject *queue_errors(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *empty, *full;
    if (!PyArg_ParseTuple(args, "OO:_queue_errors", &empty, &full)) return NULL;
    if (!PyExceptionClass_Check(empty) || !PyExceptionClass_Check(full))
        return tdpy_raise(TD_E_TYPE, "two classes of exceptions");
    PyObject *before[] = {empty_error, full_error};
    empty_error = Py_NewRef(empty);
    full_error = Py_NewRef(full);
    Py_XDECREF(before[0]);
    Py_XDECREF(before[1]);
    return Py_NewRef(Py_None);
}

/* _private(): is the daemon a private one, of this program or of one above it? */
static PyObject *is_private(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyBool_FromLong(tdpy.client && td_is_private(tdpy.client));
}

/* _queue_look(name): items, capacity, producers, consumers, full, ended, milliseconds that it keeps items. */
static PyObject *queue_look(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    td_client *c = text ? tdpy_client() : NULL;
    td_queue_state q;
    if (!c) return NULL;
    if (td_queue_look(c, text, &q) || PyErr_Occurred()) return tdpy_fail();
    return Py_BuildValue("IIIINNI", q.items, q.capacity, q.producers, q.consumers, PyBool_FromLong(q.full),
                         PyBool_FromLong(q.ended), q.keep_ms);
}

PyMethodDef tdpy_queue_functions[] = {{"_queue_errors", queue_errors, METH_VARARGS, NULL},
                                      {"_queue_look", queue_look, METH_O, NULL},
                                      {"_private", is_private, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddObjectRef(module, name, type)) Py_CLEAR(type);
    return (PyTypeObject *)type;
}

bool tdpy_init_queue(PyObject *module)
{
    td_say = say;
    queue_type = add_type(module, &queue_spec, "_RawQueue");
    PyTypeObject *base = queue_type ? add_type(module, &ways_spec, "_Ways") : NULL;
    Py_XDECREF((PyObject *)base);
    return base;
}
