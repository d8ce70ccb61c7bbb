/* Names and handles: tensors from process to process. */
#include "client/python/src/py.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* A wait may succeed just when the program is stopped (Ctrl-C). */
static PyObject *opened_tensor(td_array *a)
{
    if (!a || !PyErr_Occurred()) return tdpy_wrap(a, false);
    td_release(a);
    return NULL;
}

static PyObject *named_tensor(td_array *a, const char *name)
{
    PyObject *tensor = opened_tensor(a);
    if (tensor && !tdpy_set_name(tensor, name)) Py_CLEAR(tensor);
    return tensor;
}

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
    return named_tensor(td_published(tdpy_array(self), name, flags), name);
}

/* What was published as a tree, with all that holds its tensors. Takes `bytes` over. */
static PyObject *opened_tree(td_array *bytes, tdpy_out out)
{
    td_queue_item item = {0};
    bool was = td_set_grad_enabled(false);
    bool good = !PyErr_Occurred() && td_tree_open(bytes, &item) == TD_OK && !PyErr_Occurred();
    td_set_grad_enabled(was);
    td_release(bytes);
    PyObject *x = good ? tdpy_unpack_item(&item, out) : tdpy_fail();
    bool raised = PyErr_Occurred() != NULL;
    td_queue_item_clear(&item);
    tdpy_tell_later(raised);
    return x;
}

static PyObject *open_name(PyObject *module, PyObject *args, PyObject *kw)
{
    (void)module;
    static char *names[] = {"name", "timeout", "newer_than", "out", NULL};
    const char *name;
    PyObject *timeout = NULL, *after = Py_None, *wanted = NULL;
    tdpy_out out;
    int ms = 0;
    int64_t newer_than = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "s|O$OO:open", names, &name, &timeout, &after, &wanted)) return NULL;
    if (!tdpy_as_out(wanted, &out)) return NULL;
    if (timeout && !tdpy_as_timeout(timeout, &ms)) return NULL;
    if (after != Py_None && !tdpy_as_int(after, &newer_than, "open", names[2])) return NULL;
    if (newer_than < 0) return tdpy_raise(TD_E_INVALID, "open(): newer_than is a version, and none is negative");
    td_client *c = tdpy_client_for(name, &ms);
    if (!c) return NULL;
    uint64_t version = 0;
    bool tree = false;
    td_array *a = td_open_edition(c, name, (uint64_t)newer_than, ms, &version, &tree);
    if (!a) return tdpy_fail_to_open();
    PyObject *opened = tree ? opened_tree(a, out) : tdpy_out_of(named_tensor(a, name), out);
    return opened && after != Py_None ? Py_BuildValue("NK", opened, (unsigned long long)version) : opened;
}

/* _publish_tree(name, tree, replace): its version. */
static PyObject *publish_tree(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    PyObject *x;
    int replace;
    if (!PyArg_ParseTuple(args, "sOp:publish", &name, &x, &replace)) return NULL;
    tdpy_packed item;
    if (!tdpy_pack_item(&item, x)) return NULL;
    uint64_t version = 0;
    td_client *c = tdpy_client(); /* packing may run other code */
    if (c && td_publish_tree(c, name, td_arrays_of(item.tensors, item.at), item.bytes, item.size,
                             replace ? TD_REPLACE : 0, &version))
        tdpy_fail();
    bool good = !PyErr_Occurred();
    tdpy_packed_clear(&item);
    return good ? PyLong_FromUnsignedLongLong(version) : NULL;
}

static PyObject *version_of(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    int none = 0;
    uint64_t version;
    td_client *c = text ? tdpy_client_for(text, &none) : NULL;
    if (!c) return NULL;
    if (td_name_version(c, text, &version) || PyErr_Occurred()) return tdpy_fail();
    return PyLong_FromUnsignedLongLong(version);
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

static int in_ms(double seconds)
{
    return seconds > 2e6 ? 2000000000 : (int)(seconds * 1000);
}

/* _hand(seconds, lasting): a handle for another process; with (name, version) where it is published, else None. */
static PyObject *hand(PyObject *self, PyObject *args)
{
    char handle[TD_HANDLE_TEXT];
    double seconds;
    int lasting;
    if (!PyArg_ParseTuple(args, "dp:_hand", &seconds, &lasting)) return NULL;
    const char *name = ((tdpy_tensor *)self)->name;
    char *kept = name ? strdup(name) : NULL; /* the object may get another meanwhile */
    if (name && !kept) return PyErr_NoMemory();
    uint64_t version = 0;
    int rc = td_hand(tdpy_array(self), handle, in_ms(seconds), lasting, kept, &version);
    PyObject *made = rc || PyErr_Occurred() ? tdpy_fail()
                     : version              ? Py_BuildValue("s(sK)", handle, kept, (unsigned long long)version)
                                            : Py_BuildValue("sO", handle, Py_None);
    free(kept);
    return made;
}

/* _lend(seconds): a handle for one other process. */
static PyObject *lend_handle(PyObject *self, PyObject *seconds)
{
    char handle[TD_HANDLE_TEXT];
    double s = PyFloat_AsDouble(seconds);
    if (s == -1 && PyErr_Occurred()) return NULL;
    int rc = td_lend(tdpy_array(self), handle, in_ms(s));
    return rc || PyErr_Occurred() ? tdpy_fail() : PyUnicode_FromString(handle);
}

/* _lend_as(name): the tensor itself, for all to see, as long as this process lasts. */
static PyObject *lend_as(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return NULL;
    return tdpy_none(td_publish(tdpy_array(self), text, TD_LENT));
}

/* _take(handle, timeout, name=None): the tensor, with the name that it was published under. */
static PyObject *take_handle(PyObject *module, PyObject *args)
{
    (void)module;
    const char *handle, *name = NULL;
    PyObject *timeout;
    int ms;
    if (!PyArg_ParseTuple(args, "sO|z", &handle, &timeout, &name) || !tdpy_as_timeout(timeout, &ms)) return NULL;
    td_client *c = tdpy_client();
    if (!c) return NULL;
    td_array *a = td_take(c, handle, ms);
    return name ? named_tensor(a, name) : opened_tensor(a);
}

/* _open_version(name, version): the tensor that has the name, when that is what was published then. */
static PyObject *open_version(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    unsigned long long version;
    if (!PyArg_ParseTuple(args, "sK", &name, &version)) return NULL;
    td_client *c = tdpy_client();
    if (!c) return NULL;
    uint64_t now = 0;
    bool tree = false;
    td_array *a = td_open_edition(c, name, version ? version - 1 : 0, 0, &now, &tree);
    if (a && now == version && !tree) return named_tensor(a, name);
    bool raised = !a && tdpy_fail() == NULL;
    td_release(a);
    if (raised || PyErr_Occurred()) return NULL;
    return tdpy_raise(TD_E_NOT_FOUND, "another has been published as '%.255s' since", name);
}

/* _lost(class, dtype, shape, error, text): in place of a tensor that could not be had. */
static PyObject *lost(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *type, *dtype, *shape, *error;
    const char *why;
    td_dtype d;
    int64_t sizes[TD_MAX_DIMS];
    td_desc desc;
    td_error e = {0};
    if (!PyArg_ParseTuple(args, "O!OOOs", &PyType_Type, &type, &dtype, &shape, &error, &why)) return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)type, tdpy.tensor)) return tdpy_raise(TD_E_TYPE, "no class of tensors");
    if (!tdpy_as_dtype(dtype, &d)) return NULL;
    int n = tdpy_as_ints(shape, sizes, TD_MAX_DIMS, "_lost", "shape"), code = TD_E_NOT_FOUND;
    if (n < 0) return NULL;
    for (int k = 1; k < TD_CODE_COUNT; k++)
        if (tdpy.errors[k] == error) code = k;
    if (td_desc_contiguous(&desc, d, n, sizes, &e)) return tdpy_raise(e.code, "%s", e.message);
    td_array *a = td_array_lost(&desc, code, why);
    return a ? tdpy_wrap_as((PyTypeObject *)type, a, false) : tdpy_fail();
}

static PyObject *reduce(PyObject *self, PyObject *protocol)
{
    PyObject *args[2] = {self, protocol};
    return tdpy_forward("reduce_tensor", NULL, args, 2, NULL);
}

PyMethodDef tdpy_share_methods[] = {
    {"publish", (PyCFunction)(void (*)(void))publish, METH_VARARGS | METH_KEYWORDS,
     "publish($self, name, replace=False, copy=False)\n--\n\nGive the value a name, and return the tensor that every "
     "process has from tensord.open(name).\nThat is a copy, which outlives this process; what it was made of stays as "
     "it "
     "was, and apart: `w = w.publish(name)` goes on with\nthe shared one, whose repr says the name. Only what lies in "
     "service memory (tensord.service_memory(), open) is published\nitself, unless copy=True. Its bytes are read-only "
     "in "
     "every process; in-place ops (`add_`, a step of an optimizer) change it for all."},
    {"_hand", hand, METH_VARARGS, NULL},
    {"_lend", lend_handle, METH_O, NULL},
    {"_lend_as", lend_as, METH_O, NULL},
    {"__reduce_ex__", reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

PyMethodDef tdpy_share_functions[] = {
    {"open", (PyCFunction)(void (*)(void))open_name, METH_VARARGS | METH_KEYWORDS,
     "open(name, timeout=0, *, newer_than=None, out='tensord')\n--\n\nThe tensor that was published under a name: one "
     "for all who "
     "open it, so in-place ops of each are seen by all;\nits bytes are read-only. Or the tree of tensors that "
     "tensord.publish() put there, all as they were at one moment.\ntimeout: seconds to wait for the name, None for as "
     "long as it takes. newer_than: a version (0: any): waits for a larger one,\nand returns what it opened together "
     "with its version. When the time is over, tensord.NotNewer is raised if something has the name,\n"
     "tensord.NotPublished if nothing has; both are a tensord.NotFound and a TimeoutError, with a timeout of 0, "
     "too.\ntensord.Closed: the daemon that gave the version out has gone, and the name began anew; go on from "
     "newer_than=0.\n"
     "out: "
     "'torch' gives torch tensors over the same bytes, which are shared until this process writes to them: what it "
     "writes stays its own."},
    {"version_of", version_of, METH_O,
     "version_of(name, /)\n--\n\nThe version of what is published under a name, without opening it: a question and an "
     "answer. 0: nothing is."},
    {"_publish_tree", publish_tree, METH_VARARGS, NULL},
    {"_take", take_handle, METH_VARARGS, NULL},
    {"_open_version", open_version, METH_VARARGS, NULL},
    {"_lost", lost, METH_VARARGS, NULL},
    {"drop", drop_name, METH_VARARGS, "drop(name, /)\n--\n\nTake a name away; who holds the tensor keeps it."},
    {NULL, NULL, 0, NULL}};
