/* Members of groups as Python sees them: memory by its address, dtypes and reductions by their numbers. What tensors,
 * arrays and torch's are is share/_group.py's. */
#include "client/python/src/py.h"

#include <stdio.h>

typedef struct member {
    PyObject_HEAD td_group *group;
    unsigned calls;    /* that are under way in other threads */
    unsigned regroups; /* of them: the epoch ends */
} member;

static td_group *group_of(PyObject *self)
{
    td_group *g = ((member *)self)->group;
    if (!g) tdpy_raise(TD_E_CLOSED, "the group was left");
    return g;
}

static PyObject *member_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    const char *path;
    td_group_wish w;
    int on_death;
    PyObject *timeout;
    if (kw && PyDict_Size(kw)) return tdpy_raise(TD_E_TYPE, "RawGroup takes no keywords");
    if (!PyArg_ParseTuple(args, "zsIIiiO:RawGroup", &path, &w.name, &w.least, &w.most, &w.rank, &on_death, &timeout) ||
        !tdpy_as_timeout(timeout, &w.timeout_ms))
        return NULL;
    w.on_death = (td_on_death)on_death;
    td_client *c = path ? NULL : tdpy_client();
    if (!path && !c) return NULL;
    w.is_private = c && td_is_private(c);
    td_group *made = td_group_open_at(path ? path : td_socket_path(c), tdpy_wants_to_stop, NULL, &w);
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
static PyObject *fail_for(td_group_fault f, int rc)
{
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

static PyObject *done(PyObject *self, int rc)
{
    const td_group *g = ((member *)self)->group; /* it cannot have been left meanwhile */
    ((member *)self)->calls--;
    return rc ? fail_for(td_group_last_fault(g), rc) : tdpy_none(rc);
}

/* Arguments of a collective: (in, out, dtype, count, [op], [root], timeout, [where]). */
typedef struct said {
    td_group *group;
    const void *in;
    void *out;
    td_dtype dtype;
    unsigned long long count;
    int op, ms;
    unsigned root;
    const char *where;
} said;

enum { HAS_OP = 1, HAS_ROOT = 2 };

static bool hear(said *s, PyObject *self, PyObject *args, unsigned has)
{
    static const char *const formats[] = {"KKOKO|O", "KKOKiO|O", "KKOKIO|O", "KKOKiIO|O"};
    unsigned long long in, out;
    PyObject *dtype, *timeout, *where = NULL;
    *s = (said){.group = group_of(self)};
    void *more[4] = {&timeout, &where}; /* behind the count */
    if (has == HAS_OP) more[0] = &s->op, more[1] = &timeout, more[2] = &where;
    if (has == HAS_ROOT) more[0] = &s->root, more[1] = &timeout, more[2] = &where;
    if (has == (HAS_OP | HAS_ROOT)) more[0] = &s->op, more[1] = &s->root, more[2] = &timeout, more[3] = &where;
    if (!s->group ||
        !PyArg_ParseTuple(args, formats[has], &in, &out, &dtype, &s->count, more[0], more[1], more[2], more[3]) ||
        !tdpy_as_dtype(dtype, &s->dtype) || !tdpy_as_timeout(timeout, &s->ms))
        return false;
    s->in = (const void *)(uintptr_t)in;
    s->out = (void *)(uintptr_t)out;
    s->where = site(where);
    begin(self);
    return true;
}

static PyObject *member_all_reduce(PyObject *self, PyObject *args)
{
    said s;
    if (!hear(&s, self, args, HAS_OP)) return NULL;
    return done(self,
                td_group_at_all_reduce(s.where, s.group, s.in, s.out, s.dtype, s.count, (td_reduce_op)s.op, s.ms));
}

static PyObject *member_reduce(PyObject *self, PyObject *args)
{
    said s;
    if (!hear(&s, self, args, HAS_OP | HAS_ROOT)) return NULL;
    return done(self,
                td_group_at_reduce(s.where, s.group, s.in, s.out, s.dtype, s.count, (td_reduce_op)s.op, s.root, s.ms));
}

static PyObject *member_reduce_scatter(PyObject *self, PyObject *args)
{
    said s;
    if (!hear(&s, self, args, HAS_OP)) return NULL;
    return done(self,
                td_group_at_reduce_scatter(s.where, s.group, s.in, s.out, s.dtype, s.count, (td_reduce_op)s.op, s.ms));
}

static PyObject *member_scatter(PyObject *self, PyObject *args)
{
    said s;
    if (!hear(&s, self, args, HAS_ROOT)) return NULL;
    return done(self, td_group_at_scatter(s.where, s.group, s.in, s.out, s.dtype, s.count, s.root, s.ms));
}

static PyObject *member_gather(PyObject *self, PyObject *args)
{
    said s;
    if (!hear(&s, self, args, HAS_ROOT)) return NULL;
    return done(self, td_group_at_gather(s.where, s.group, s.in, s.out, s.dtype, s.count, s.root, s.ms));
}

static PyObject *member_all_gather(PyObject *self, PyObject *args)
{
    said s;
    if (!hear(&s, self, args, 0)) return NULL;
    return done(self, td_group_at_all_gather(s.where, s.group, s.in, s.out, s.dtype, s.count, s.ms));
}

static PyObject *member_all_to_all(PyObject *self, PyObject *args)
{
    said s;
    if (!hear(&s, self, args, 0)) return NULL;
    return done(self, td_group_at_all_to_all(s.where, s.group, s.in, s.out, s.dtype, s.count, s.ms));
}

/* A number for each rank. */
static bool as_counts(PyObject *numbers, uint32_t size, uint64_t *counts)
{
    PyObject *all = PySequence_Tuple(numbers);
    bool fits = all && PyTuple_Size(all) == (Py_ssize_t)size;
    for (uint32_t r = 0; fits && r < size; r++) {
        counts[r] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(all, r));
        fits = !PyErr_Occurred();
    }
    Py_XDECREF(all);
    if (!fits && !PyErr_Occurred()) tdpy_raise(TD_E_INVALID, "all_to_all takes a count for each of %u ranks", size);
    return fits;
}

/* all_to_all_of(in, in_counts, out, out_counts, dtype, timeout, [where]) */
static PyObject *member_all_to_all_of(PyObject *self, PyObject *args)
{
    unsigned long long in, out;
    uint64_t in_counts[TD_GROUP_RANKS], out_counts[TD_GROUP_RANKS];
    int ms;
    PyObject *gives, *gets, *dtype, *timeout, *where = NULL;
    td_dtype as;
    td_group *g = group_of(self);
    if (!g || !PyArg_ParseTuple(args, "KOKOOO|O", &in, &gives, &out, &gets, &dtype, &timeout, &where) ||
        !tdpy_as_dtype(dtype, &as) || !tdpy_as_timeout(timeout, &ms) ||
        !as_counts(gives, td_group_size(g), in_counts) || !as_counts(gets, td_group_size(g), out_counts))
        return NULL;
    const char *at = site(where);
    begin(self);
    return done(self, td_group_at_all_to_all_of(at, g, (const void *)(uintptr_t)in, in_counts, (void *)(uintptr_t)out,
                                                out_counts, as, ms));
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

/* ---- a call that was begun */

typedef struct pending {
    PyObject_HEAD td_pending *call;
    PyObject *of; /* the member */
} pending;

static PyTypeObject *pending_type;

/* begin(kind, in, out, dtype, count, op, root) */
static PyObject *member_begin(PyObject *self, PyObject *args)
{
    int kind, op;
    unsigned long long in, out, count;
    unsigned root;
    PyObject *dtype;
    td_dtype as = TD_DTYPE_NONE;
    td_group *g = group_of(self);
    if (!g || !PyArg_ParseTuple(args, "iKKOKiI:begin", &kind, &in, &out, &dtype, &count, &op, &root) ||
        (dtype != Py_None && !tdpy_as_dtype(dtype, &as)))
        return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(pending_type, Py_tp_alloc);
    pending *p = (pending *)(void *)alloc(pending_type, 0);
    if (!p) return NULL;
    p->of = Py_NewRef(self);
    begin(self);
    p->call = td_group_at_begin(tdpy_site(), g, (td_collective)kind, (const void *)(uintptr_t)in,
                                (void *)(uintptr_t)out, as, count, (td_reduce_op)op, root);
    ((member *)self)->calls--;
    if (p->call) return (PyObject *)p;
    Py_DECREF(p);
    return tdpy_fail();
}

static PyObject *pending_done(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(td_pending_done(((pending *)self)->call));
}

static PyObject *pending_wait(PyObject *self, PyObject *timeout)
{
    int ms;
    pending *p = (pending *)self;
    if (!tdpy_as_timeout(timeout, &ms)) return NULL;
    if (!((member *)p->of)->group && !td_pending_done(p->call)) /* another thread is about to end it, and the group */
        return tdpy_raise(TD_E_CLOSED, "the group was left");
    begin(p->of);
    int rc = td_pending_wait(p->call, ms);
    ((member *)p->of)->calls--;
    const td_group *g = ((member *)p->of)->group;
    return rc ? fail_for(g ? td_group_last_fault(g) : (td_group_fault){0}, rc) : tdpy_none(rc);
}

static void pending_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    pending *p = (pending *)self;
    td_pending_free(p->call);
    Py_XDECREF(p->of);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyMethodDef pending_methods[] = {
    {"done", pending_done, METH_NOARGS, NULL}, {"wait", pending_wait, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot pending_slots[] = {{Py_tp_doc, "A call of a group that was begun; see tensord.Group."},
                                      {Py_tp_dealloc, pending_dealloc},
                                      {Py_tp_methods, pending_methods},
                                      {0, NULL}};
static PyType_Spec pending_spec = {.name = "tensord.RawPending",
                                   .basicsize = sizeof(pending),
                                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   .slots = pending_slots};

/* ---- epochs */

static PyObject *member_regroup(PyObject *self, PyObject *args)
{
    int ms;
    PyObject *timeout;
    td_group *g = group_of(self);
    if (!g || !PyArg_ParseTuple(args, "O:regroup", &timeout) || !tdpy_as_timeout(timeout, &ms)) return NULL;
    begin(self);
    ((member *)self)->regroups++;
    int rc = td_group_regroup(g, ms);
    ((member *)self)->regroups--;
    return done(self, rc);
}

/* The epoch's page may go at any moment while another thread regroups: whoever asks about it then is told nothing. */
static const td_group *group_at_rest(PyObject *self)
{
    const td_group *g = group_of(self);
    if (g && ((member *)self)->regroups) return tdpy_raise(TD_E_BUSY, "another thread regroups");
    return g;
}

static PyObject *member_door(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    const td_group *g = group_at_rest(self);
    return g ? PyLong_FromUnsignedLong(td_group_door(g)) : NULL;
}

static PyObject *member_contributors(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    uint32_t ranks[TD_GROUP_RANKS];
    const td_group *g = group_at_rest(self);
    if (!g) return NULL;
    uint32_t n = td_group_contributors(g, ranks, TD_GROUP_RANKS);
    PyObject *list = PyList_New(n);
    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *one = PyLong_FromUnsignedLong(ranks[i]);
        if (!one || PyList_SetItem(list, i, one)) Py_CLEAR(list);
    }
    return list;
}

/* [(rank, pid, program, how)] */
static PyObject *member_lost(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_group_lost lost[TD_GROUP_RANKS];
    const td_group *g = group_at_rest(self);
    if (!g) return NULL;
    uint32_t n = td_group_lost_members(g, lost, TD_GROUP_RANKS);
    PyObject *list = PyList_New(n);
    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *one = Py_BuildValue("IIsi", lost[i].rank, lost[i].pid, lost[i].program, (int)lost[i].how);
        if (!one || PyList_SetItem(list, i, one)) Py_CLEAR(list);
    }
    return list;
}

/* ---- messages */

typedef struct message {
    PyObject_HEAD td_message is;
} message;

static PyTypeObject *message_type;

/* send(at, dtype, shape, to, tag, timeout, [where]) */
static PyObject *member_send(PyObject *self, PyObject *args)
{
    unsigned long long at;
    unsigned to;
    int tag, ms;
    int64_t dims[TD_MAX_DIMS];
    PyObject *dtype, *shape, *timeout, *where = NULL;
    td_dtype as;
    td_group *g = group_of(self);
    if (!g || !PyArg_ParseTuple(args, "KOOIiO|O:send", &at, &dtype, &shape, &to, &tag, &timeout, &where) ||
        !tdpy_as_dtype(dtype, &as) || !tdpy_as_timeout(timeout, &ms))
        return NULL;
    int n = tdpy_as_ints(shape, dims, TD_MAX_DIMS, "send", "shape");
    if (n < 0) return NULL;
    const char *from = site(where);
    begin(self);
    return done(self, td_group_at_send(from, g, (const void *)(uintptr_t)at, as, (td_ints){n, dims}, to, tag, ms));
}

/* receive(from, tag, timeout, [where]); from None: any rank. */
static PyObject *member_receive(PyObject *self, PyObject *args)
{
    int tag, ms;
    PyObject *from, *timeout, *where = NULL;
    td_group *g = group_of(self);
    if (!g || !PyArg_ParseTuple(args, "OiO|O:receive", &from, &tag, &timeout, &where) || !tdpy_as_timeout(timeout, &ms))
        return NULL;
    unsigned long rank = from == Py_None ? TD_ANY_RANK : PyLong_AsUnsignedLong(from);
    if (PyErr_Occurred()) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(message_type, Py_tp_alloc);
    message *m = (message *)(void *)alloc(message_type, 0);
    if (!m) return NULL;
    const char *at = site(where);
    begin(self);
    int rc = td_group_at_receive(at, g, rank > UINT32_MAX ? UINT32_MAX - 1 : (uint32_t)rank, tag, ms, &m->is);
    PyObject *none = done(self, rc);
    if (none) Py_DECREF(none);
    else Py_CLEAR(m);
    return (PyObject *)m;
}

/* facts(): from which rank, dtype, shape, the address of the elements: there as long as the message. */
static PyObject *message_facts(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    const td_message *m = &((message *)self)->is;
    PyObject *shape = PyTuple_New(m->ndim);
    for (int i = 0; shape && i < m->ndim; i++) {
        PyObject *n = PyLong_FromLongLong(m->dims[i]);
        if (!n || PyTuple_SetItem(shape, i, n)) Py_CLEAR(shape);
    }
    if (!shape) return NULL;
    return Py_BuildValue("INNK", m->from, tdpy_dtype_object(m->dtype), shape, (unsigned long long)(uintptr_t)m->data);
}

static void message_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    td_message_clear(&((message *)self)->is);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyMethodDef message_methods[] = {{"facts", message_facts, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot message_slots[] = {{Py_tp_doc, "A message of another rank; see tensord.Group."},
                                      {Py_tp_dealloc, message_dealloc},
                                      {Py_tp_methods, message_methods},
                                      {0, NULL}};
static PyType_Spec message_spec = {.name = "tensord.RawMessage",
                                   .basicsize = sizeof(message),
                                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   .slots = message_slots};

/* ---- buffers */

typedef struct buffer {
    PyObject_HEAD td_group_buffer *is;
    PyObject *of; /* the member */
} buffer;

static PyTypeObject *buffer_type;

/* buffer(bytes) */
static PyObject *member_buffer(PyObject *self, PyObject *bytes)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(bytes);
    td_group *g = PyErr_Occurred() ? NULL : group_of(self);
    if (!g) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(buffer_type, Py_tp_alloc);
    buffer *b = (buffer *)(void *)alloc(buffer_type, 0);
    if (!b) return NULL;
    b->of = Py_NewRef(self);
    const char *where = tdpy_site();
    begin(self);
    b->is = td_group_at_buffer(where, g, n);
    PyObject *none = done(self, b->is ? 0 : td_last_error()->code);
    if (none) Py_DECREF(none);
    else Py_CLEAR(b);
    return (PyObject *)b;
}

/* facts(): the addresses of this rank's input and of the result: there as long as the buffer. */
static PyObject *buffer_facts(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    const td_group_buffer *b = ((buffer *)self)->is;
    return Py_BuildValue("KK", (unsigned long long)(uintptr_t)td_buffer_input(b),
                         (unsigned long long)(uintptr_t)td_buffer_result(b));
}

/* all_reduce(offset, dtype, count, op, timeout, [where]) */
static PyObject *buffer_all_reduce(PyObject *self, PyObject *args)
{
    unsigned long long offset, count;
    int op, ms;
    PyObject *dtype, *timeout, *where = NULL;
    td_dtype as;
    buffer *b = (buffer *)self;
    if (!group_of(b->of) ||
        !PyArg_ParseTuple(args, "KOKiO|O:all_reduce", &offset, &dtype, &count, &op, &timeout, &where) ||
        !tdpy_as_dtype(dtype, &as) || !tdpy_as_timeout(timeout, &ms))
        return NULL;
    const char *at = site(where);
    begin(b->of);
    return done(b->of, td_buffer_at_all_reduce(at, b->is, offset, as, count, (td_reduce_op)op, ms));
}

static void buffer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    td_buffer_free(((buffer *)self)->is);
    Py_XDECREF(((buffer *)self)->of);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyMethodDef buffer_methods[] = {{"facts", buffer_facts, METH_NOARGS, NULL},
                                       {"all_reduce", buffer_all_reduce, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyType_Slot buffer_slots[] = {{Py_tp_doc, "Memory that all ranks have mapped; see tensord.Group."},
                                     {Py_tp_dealloc, buffer_dealloc},
                                     {Py_tp_methods, buffer_methods},
                                     {0, NULL}};
static PyType_Spec buffer_spec = {.name = "tensord.RawGroupBuffer",
                                  .basicsize = sizeof(buffer),
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  .slots = buffer_slots};

/* ---- the member */

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
                                       {"reduce", member_reduce, METH_VARARGS, NULL},
                                       {"reduce_scatter", member_reduce_scatter, METH_VARARGS, NULL},
                                       {"scatter", member_scatter, METH_VARARGS, NULL},
                                       {"gather", member_gather, METH_VARARGS, NULL},
                                       {"all_to_all", member_all_to_all, METH_VARARGS, NULL},
                                       {"all_to_all_of", member_all_to_all_of, METH_VARARGS, NULL},
                                       {"begin", member_begin, METH_VARARGS, NULL},
                                       {"buffer", member_buffer, METH_O, NULL},
                                       {"send", member_send, METH_VARARGS, NULL},
                                       {"receive", member_receive, METH_VARARGS, NULL},
                                       {"broadcast", member_broadcast, METH_VARARGS, NULL},
                                       {"all_gather", member_all_gather, METH_VARARGS, NULL},
                                       {"barrier", member_barrier, METH_VARARGS, NULL},
                                       {"regroup", member_regroup, METH_VARARGS, NULL},
                                       {"door", member_door, METH_NOARGS, NULL},
                                       {"lost", member_lost, METH_NOARGS, NULL},
                                       {"contributors", member_contributors, METH_NOARGS, NULL},
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
    pending_type = (PyTypeObject *)PyType_FromSpec(&pending_spec);
    message_type = (PyTypeObject *)PyType_FromSpec(&message_spec);
    buffer_type = (PyTypeObject *)PyType_FromSpec(&buffer_spec);
    if (!pending_type || !message_type || !buffer_type) return false;
    PyObject *type = PyType_FromModuleAndSpec(module, &member_spec, NULL);
    bool added = type && !PyModule_AddObjectRef(module, "_RawGroup", type);
    Py_XDECREF(type);
    return added;
}
