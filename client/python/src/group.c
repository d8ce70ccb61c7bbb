/* Members of groups as Python sees them: memory by its address, dtypes and reductions by their numbers. What tensors,
 * arrays and torch's are is share/_group.py's. */
#include "client/python/src/py.h"

#include <stdio.h>

typedef struct member {
    PyObject_HEAD td_group *group;
    unsigned calls; /* that are under way in other threads */
} member;

static td_group *group_of(PyObject *self)
{
    td_group *g = ((member *)self)->group;
    if (!g) tdpy_raise(TD_E_CLOSED, "the group was left");
    return g;
}

static PyObject *member_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    const char *name, *path;
    unsigned size;
    int rank, ms;
    PyObject *timeout;
    if (kw && PyDict_Size(kw)) return tdpy_raise(TD_E_TYPE, "RawGroup takes no keywords");
    if (!PyArg_ParseTuple(args, "zsIiO:RawGroup", &path, &name, &size, &rank, &timeout) ||
        !tdpy_as_timeout(timeout, &ms))
        return NULL;
    td_client *c = path ? NULL : tdpy_client();
    if (!path && !c) return NULL;
    td_group *made = td_group_open_at(path ? path : td_socket_path(c), tdpy_wants_to_stop, NULL, name, size, rank, ms);
    if (!made) return tdpy_fail();
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = alloc(type, 0);
    if (self) ((member *)self)->group = made;
    else td_group_close(made);
    return self;
}

static PyObject *member_close(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_group *g = ((member *)self)->group;
    if (((member *)self)->calls) return tdpy_raise(TD_E_BUSY, "another thread is in a call of the group");
    ((member *)self)->group = NULL;
    return tdpy_none(td_group_close(g));
}

static void member_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    td_group_close(((member *)self)->group);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static void set_number(PyObject *exception, const char *name, unsigned long long value)
{
    PyObject *number = PyLong_FromUnsignedLongLong(value);
    if (!number || PyObject_SetAttrString(exception, name, number)) PyErr_Clear();
    Py_XDECREF(number);
}

/* Each call takes, as its last argument, where in the program it is made: bytes that live for ever; None, or nothing:
 * it is looked for. */
static const char *site(PyObject *said)
{
    return said && PyBytes_Check(said) ? PyBytes_AsString(said) : tdpy_site();
}

static void begin(PyObject *self)
{
    ((member *)self)->calls++;
}

/* The error says which member it was for, beside the words. */
static PyObject *done(PyObject *self, int rc)
{
    const td_group *g = ((member *)self)->group; /* it cannot have been left meanwhile */
    ((member *)self)->calls--;
    if (!rc) return tdpy_none(rc);
    td_group_fault f = td_group_last_fault(g);
    tdpy_fail();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && f.code == rc) {
        set_number(value, "rank", f.rank);
        set_number(value, "pid", f.pid);
        set_number(value, "epoch", f.epoch);
        set_number(value, "round", f.round);
    }
    PyErr_Restore(type, value, trace);
    return NULL;
}

static PyObject *member_all_reduce(PyObject *self, PyObject *args)
{
    unsigned long long in, out, count;
    int op, ms;
    PyObject *dtype, *timeout;
    td_dtype as;
    PyObject *where = NULL;
    td_group *g = group_of(self);
    if (!g || !PyArg_ParseTuple(args, "KKOKiO|O:all_reduce", &in, &out, &dtype, &count, &op, &timeout, &where) ||
        !tdpy_as_dtype(dtype, &as) || !tdpy_as_timeout(timeout, &ms))
        return NULL;
    begin(self);
    return done(self, td_group_at_all_reduce(site(where), g, (const void *)(uintptr_t)in, (void *)(uintptr_t)out, as,
                                             count, (td_reduce_op)op, ms));
}

static PyObject *member_broadcast(PyObject *self, PyObject *args)
{
    unsigned long long at, count;
    unsigned root;
    int ms;
    PyObject *dtype, *timeout;
    td_dtype as;
    PyObject *where = NULL;
    td_group *g = group_of(self);
    if (!g || !PyArg_ParseTuple(args, "KOKIO|O:broadcast", &at, &dtype, &count, &root, &timeout, &where) ||
        !tdpy_as_dtype(dtype, &as) || !tdpy_as_timeout(timeout, &ms))
        return NULL;
    begin(self);
    return done(self, td_group_at_broadcast(site(where), g, (void *)(uintptr_t)at, as, count, root, ms));
}

static PyObject *member_all_gather(PyObject *self, PyObject *args)
{
    unsigned long long in, out, count;
    int ms;
    PyObject *dtype, *timeout;
    td_dtype as;
    PyObject *where = NULL;
    td_group *g = group_of(self);
    if (!g || !PyArg_ParseTuple(args, "KKOKO|O:all_gather", &in, &out, &dtype, &count, &timeout, &where) ||
        !tdpy_as_dtype(dtype, &as) || !tdpy_as_timeout(timeout, &ms))
        return NULL;
    begin(self);
    return done(self, td_group_at_all_gather(site(where), g, (const void *)(uintptr_t)in, (void *)(uintptr_t)out, as,
                                             count, ms));
}

static PyObject *member_barrier(PyObject *self, PyObject *args)
{
    int ms;
    PyObject *timeout;
    PyObject *where = NULL;
    td_group *g = group_of(self);
    if (!g || !PyArg_ParseTuple(args, "O|O:barrier", &timeout, &where) || !tdpy_as_timeout(timeout, &ms)) return NULL;
    begin(self);
    return done(self, td_group_at_barrier(site(where), g, ms));
}

/* facts(): rank, size, epoch, the daemon's socket. */
static PyObject *member_facts(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    const td_group *g = group_of(self);
    if (!g) return NULL;
    return Py_BuildValue("IIIs", td_group_rank(g), td_group_size(g), td_group_epoch(g),
                         td_socket_path(td_group_client(g)));
}

static PyMethodDef member_methods[] = {{"all_reduce", member_all_reduce, METH_VARARGS, NULL},
                                       {"broadcast", member_broadcast, METH_VARARGS, NULL},
                                       {"all_gather", member_all_gather, METH_VARARGS, NULL},
                                       {"barrier", member_barrier, METH_VARARGS, NULL},
                                       {"facts", member_facts, METH_NOARGS, NULL},
                                       {"close", member_close, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyType_Slot member_slots[] = {{Py_tp_doc, "A member of a group; see tensord.Group."},
                                     {Py_tp_new, member_new},
                                     {Py_tp_dealloc, member_dealloc},
                                     {Py_tp_methods, member_methods},
                                     {0, NULL}};
static PyType_Spec member_spec = {
    .name = "tensord.RawGroup", .basicsize = sizeof(member), .flags = Py_TPFLAGS_DEFAULT, .slots = member_slots};

bool tdpy_init_group(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &member_spec, NULL);
    bool added = type && !PyModule_AddObjectRef(module, "_RawGroup", type);
    Py_XDECREF(type);
    return added;
}
