/* Requests for event loops: what tensord.aio is made of.
 *
 * A request holds itself until its callback has been called or will never be: another thread may let go of the object
 * while a dispatch is about to call it. Callbacks run on the thread that dispatches, with the interpreter's lock. */
#include "client/python/src/py.h"

#include <stdio.h>

typedef enum answer { DONE, ITEM, LIST, BYTES, TAKEN, OPENED, TABLE, VALUE, OUTPUTS } answer;

typedef struct request {
    PyObject_HEAD td_request *request; /* NULL: let go of */
    PyObject *done;                    /* to be called, once */
    answer kind;
    int fd;
    unsigned long long connection; /* which of this process's: another may have a descriptor of the same number */
    bool told;
    tdpy_out out;
    int noutputs; /* of a model */
    char name[256];
} request;

static PyTypeObject *request_type;

static void tell(td_request *r, void *context)
{
    (void)r;
    request *self = context;
    PyObject *done = self->done;
    self->told = true;
    self->done = NULL;
    PyObject *said = done && self->request ? PyObject_CallNoArgs(done) : Py_NewRef(Py_None);
    if (!said) PyErr_WriteUnraisable(done);
    Py_XDECREF(said);
    Py_XDECREF(done);
    Py_DECREF((PyObject *)self);
}

static request *request_new(PyObject *done, answer kind)
{
    td_client *c = tdpy_client();
    int fd = c ? td_client_fd(c) : -1;
    if (fd < 0) return tdpy_fail();
    if (!PyCallable_Check(done)) return tdpy_raise(TD_E_TYPE, "a request wants a function to call");
    request *self = PyObject_New(request, request_type);
    if (!self) return NULL;
    self->request = NULL;
    self->done = NULL;
    self->kind = kind;
    self->fd = fd;
    self->connection = tdpy.connections;
    self->told = false;
    self->out = TDPY_OURS;
    self->noutputs = 0;
    self->name[0] = 0;
    return self;
}

/* It was asked; or was not: raised. */
static PyObject *asked(request *self, td_request *r, PyObject *done)
{
    if (r) {
        self->request = r;
        self->done = Py_NewRef(done);
        return (PyObject *)self; /* and the reference that tell() gives up */
    }
    Py_DECREF((PyObject *)self); /* that one */
    Py_DECREF((PyObject *)self);
    return tdpy_fail();
}

static PyObject *request_close(PyObject *of, PyObject *ignored)
{
    (void)ignored;
    request *self = (request *)of;
    td_request *r = self->request;
    self->request = NULL;
    if (!r) return Py_NewRef(Py_None);
    PyObject *done = self->done;
    self->done = NULL;
    bool never = td_request_end(r) && !self->told;
    Py_XDECREF(done);
    if (never) Py_DECREF(of);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static void request_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    td_request *r = ((request *)self)->request;
    if (r) td_request_free(r); /* it was told, or somebody else would hold it */
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyObject *taken(td_request *r, tdpy_out out)
{
    td_queue_item item;
    if (td_request_item(r, &item)) return tdpy_fail();
    PyObject *x = tdpy_unpack_item(&item, out);
    bool raised = PyErr_Occurred() != NULL;
    td_queue_item_clear(&item);
    tdpy_tell_later(raised);
    return x;
}

static PyObject *opened(request *self, td_request *r)
{
    bool tree = td_request_is_tree(r);
    PyObject *x = tree ? taken(r, self->out) : tdpy_wrap(td_request_array(r), false);
    if (x && !tree && !tdpy_set_name(x, self->name)) Py_CLEAR(x);
    if (!tree) x = tdpy_out_of(x, self->out);
    return x ? Py_BuildValue("NK", x, (unsigned long long)td_request_version(r)) : NULL;
}

static PyObject *returned(td_request *r)
{
    td_value v;
    if (td_request_value(r, &v)) return tdpy_fail();
    PyObject *x = tdpy_value_object(&v);
    bool raised = PyErr_Occurred() != NULL;
    td_value_free(&v);
    tdpy_tell_later(raised);
    return x;
}

static PyObject *outputs(const request *self, td_request *r)
{
    td_array *at[TDPY_MODEL_ENDS];
    return td_request_arrays(r, self->noutputs, at) ? tdpy_fail() : tdpy_model_outputs(at, self->noutputs);
}

static PyObject *item_of(td_request *r)
{
    td_dtype dtype = td_dtype_of(td_request_about(r));
    return tdpy_number(td_scalar_load(dtype, td_request_data(r)), dtype);
}

/* result(): what came, once; or raises why nothing did. */
static PyObject *request_result(PyObject *of, PyObject *ignored)
{
    (void)ignored;
    request *self = (request *)of;
    td_request *r = self->request;
    if (!r) return tdpy_raise(TD_E_INVALID, "the request was closed");
    if (td_request_result(r)) return self->kind == OPENED ? tdpy_fail_to_open() : tdpy_fail();
    switch (self->kind) {
    case ITEM: return item_of(r);
    case LIST: return tdpy_list_of(td_request_about(r), td_request_data(r));
    case BYTES: return PyByteArray_FromStringAndSize(td_request_data(r), (Py_ssize_t)td_request_bytes(r));
    case TAKEN: return taken(r, self->out);
    case OPENED: return opened(self, r);
    case VALUE: return returned(r);
    case OUTPUTS: return outputs(self, r);
    case TABLE: return tdpy_rows(td_request_table(r));
    default: return Py_NewRef(Py_None);
    }
}

static PyObject *request_fd(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(((request *)self)->fd);
}

static PyObject *request_connection(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLongLong(((request *)self)->connection);
}

static PyMethodDef request_methods[] = {
    {"result", request_result, METH_NOARGS, NULL}, {"close", request_close, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyGetSetDef request_attributes[] = {{"fd", request_fd, NULL, NULL, NULL},
                                           {"connection", request_connection, NULL, NULL, NULL},
                                           {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot request_slots[] = {{Py_tp_doc, "A request to the daemon; see tensord.aio."},
                                      {Py_tp_dealloc, request_dealloc},
                                      {Py_tp_methods, request_methods},
                                      {Py_tp_getset, request_attributes},
                                      {0, NULL}};
static PyType_Spec request_spec = {.name = "tensord._C._Request",
                                   .basicsize = sizeof(request),
                                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   .slots = request_slots};

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* _aio_read(what, tensor, timeout, done): what: 0 ready, 1 its item, 2 a list, 3 its bytes. */
static PyObject *aio_read(PyObject *module, PyObject *args)
{
    (void)module;
    static const answer kinds[] = {DONE, ITEM, LIST, BYTES};
    unsigned what;
    PyObject *tensor, *timeout, *done;
    int ms;
    if (!PyArg_ParseTuple(args, "IOOO:_aio_read", &what, &tensor, &timeout, &done) || !tdpy_as_timeout(timeout, &ms))
        return NULL;
    if (what > 3) return tdpy_raise(TD_E_INVALID, "there is no such request");
    if (!tdpy_is_tensor(tensor))
        return tdpy_raise(TD_E_TYPE, "this wants a tensor, not a %.100s", tdpy_type_name(tensor));
    td_array *a = tdpy_array(tensor);
    if (kinds[what] == ITEM && td_knows_shape(a) && td_desc_numel(td_desc_known(a)) != 1)
        return tdpy_raise(TD_E_SHAPE, "a Tensor with %lld elements cannot be converted to Scalar",
                          (long long)td_desc_numel(td_desc_known(a)));
    request *self = request_new(done, kinds[what]);
    if (!self) return NULL;
    Py_INCREF((PyObject *)self);
    return asked(self, what ? td_async_read(a, NULL, 0, ms, tell, self) : td_async_ready(a, ms, tell, self), done);
}

static td_queue *member(PyObject *of)
{
    return tdpy_raw_queue(of);
}

static PyObject *aio_get(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *of, *timeout, *done;
    int ms;
    if (!PyArg_ParseTuple(args, "OOO:_aio_get", &of, &timeout, &done) || !tdpy_as_timeout(timeout, &ms)) return NULL;
    request *self = request_new(done, TAKEN);
    td_queue *q = self ? member(of) : NULL;
    if (!q) {
        Py_XDECREF((PyObject *)self);
        return NULL;
    }
    self->out = tdpy_queue_out(of);
    Py_INCREF((PyObject *)self);
    return asked(self, td_async_get(q, ms, tell, self), done);
}

static PyObject *aio_put(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *of, *x, *timeout, *done;
    int ms;
    tdpy_packed item;
    if (!PyArg_ParseTuple(args, "OOOO:_aio_put", &of, &x, &timeout, &done) || !tdpy_as_timeout(timeout, &ms))
        return NULL;
    request *self = request_new(done, DONE);
    if (!self || !tdpy_pack_item(&item, x)) {
        Py_XDECREF((PyObject *)self);
        return NULL;
    }
    td_queue *q = member(of); /* packing may run other threads, and one may close it */
    PyObject *made = NULL;
    if (q) {
        Py_INCREF((PyObject *)self);
        td_list tensors = td_arrays_of(item.tensors, item.at);
        made = asked(self, td_async_put(q, tensors, item.bytes, item.size, ms, tell, self), done);
    } else {
        Py_DECREF((PyObject *)self);
    }
    tdpy_packed_clear(&item);
    return made;
}

static PyObject *aio_open(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    unsigned long long newer_than;
    PyObject *timeout, *wanted, *done;
    int ms, none = 0;
    tdpy_out out;
    if (!PyArg_ParseTuple(args, "sKOOO:_aio_open", &name, &newer_than, &timeout, &wanted, &done) ||
        !tdpy_as_timeout(timeout, &ms) || !tdpy_as_out(wanted, &out))
        return NULL;
    request *self = tdpy_client_for(name, &none) ? request_new(done, OPENED) : NULL;
    td_client *c = self ? tdpy_client() : NULL;
    if (!c) return Py_XDECREF((PyObject *)self), NULL;
    snprintf(self->name, sizeof self->name, "%s", name);
    self->out = out;
    Py_INCREF((PyObject *)self);
    return asked(self, td_async_open(c, name, newer_than, ms, tell, self), done);
}

/* _aio_status(what, timeout, done); what None: sync */
static PyObject *aio_status(PyObject *module, PyObject *args)
{
    (void)module;
    const char *what;
    PyObject *timeout, *done;
    int ms;
    if (!PyArg_ParseTuple(args, "zOO:_aio_status", &what, &timeout, &done) || !tdpy_as_timeout(timeout, &ms))
        return NULL;
    request *self = request_new(done, what ? TABLE : DONE);
    td_client *c = self ? tdpy_client() : NULL;
    if (!c) return Py_XDECREF((PyObject *)self), NULL;
    Py_INCREF((PyObject *)self);
    return asked(self, what ? td_async_status(c, what, ms, tell, self) : td_async_sync(c, ms, tell, self), done);
}

/* _aio_call(program, arguments, timeout, done) */
static PyObject *aio_call(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *of, *given, *timeout, *done, *made = NULL;
    int ms;
    td_value in;
    if (!PyArg_ParseTuple(args, "OO!OO:_aio_call", &of, &PyTuple_Type, &given, &timeout, &done) ||
        !tdpy_as_timeout(timeout, &ms))
        return NULL;
    td_program *p = tdpy_program(of);
    request *self = p ? request_new(done, VALUE) : NULL;
    if (!self) return NULL;
    if (tdpy_values(given, &in)) {
        Py_INCREF((PyObject *)self);
        made = asked(self, td_async_at_call(tdpy_site(), p, (int)in.n, in.items, ms, tell, self), done);
        tdpy_program_called(p, given);
    } else {
        Py_DECREF((PyObject *)self);
    }
    td_value_free(&in);
    tdpy_tell_later(!made);
    return made;
}

/* _aio_infer(model, tensors, timeout in us or 0, priority, done) */
static PyObject *aio_infer(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *of, *given, *done, *made = NULL;
    unsigned long long us;
    td_infer_options how = {.size = sizeof how};
    td_array *in[TDPY_MODEL_ENDS];
    int n;
    if (!PyArg_ParseTuple(args, "OO!KiO:_aio_infer", &of, &PyTuple_Type, &given, &us, &how.priority, &done))
        return NULL;
    td_model *m = tdpy_model(of);
    request *self = m ? request_new(done, OUTPUTS) : NULL;
    if (!self) return NULL;
    how.timeout_us = us;
    self->noutputs = td_model_outputs(m);
    if (tdpy_model_inputs(given, in, &n)) {
        Py_INCREF((PyObject *)self);
        made = asked(self, td_async_infer(m, td_arrays_of(n, in), &how, tell, self), done);
        tdpy_release_all(in, n);
    } else {
        Py_DECREF((PyObject *)self);
    }
    return made;
}

/* _aio_dispatch(): what is over is told; that the connection is gone too, to each. */
static PyObject *aio_dispatch(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    if (tdpy.client) td_client_dispatch(tdpy.client);
    td_clear_error();
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyMethodDef tdpy_aio_functions[] = {{"_aio_read", aio_read, METH_VARARGS, NULL},
                                    {"_aio_get", aio_get, METH_VARARGS, NULL},
                                    {"_aio_put", aio_put, METH_VARARGS, NULL},
                                    {"_aio_open", aio_open, METH_VARARGS, NULL},
                                    {"_aio_status", aio_status, METH_VARARGS, NULL},
                                    {"_aio_call", aio_call, METH_VARARGS, NULL},
                                    {"_aio_infer", aio_infer, METH_VARARGS, NULL},
                                    {"_aio_dispatch", aio_dispatch, METH_NOARGS, NULL},
                                    {NULL, NULL, 0, NULL}};

bool tdpy_init_aio(PyObject *module)
{
    request_type = (PyTypeObject *)PyType_FromSpec(&request_spec);
    return request_type && PyModule_AddObjectRef(module, "_Request", (PyObject *)request_type) == 0;
}
