/* Models as Python sees them, for tensord/models: a handle, requests with a wait; those without one are aio.c's. */
#include "client/python/src/py.h"

typedef struct model {
    PyObject_HEAD td_model *model; /* NULL: it was closed */
} model;

static PyTypeObject *model_type;

td_model *tdpy_model(PyObject *o)
{
    if (Py_TYPE(o) != model_type) return tdpy_raise(TD_E_TYPE, "this wants a model, not %.100s", tdpy_a_type(o));
    td_model *m = ((model *)o)->model;
    return m ? m : tdpy_raise(TD_E_CLOSED, "the model was closed");
}

/* Takes it over. */
static PyObject *wrap(td_model *m)
{
    if (!m) return tdpy_fail();
    model *self = PyErr_Occurred() ? NULL : PyObject_New(model, model_type);
    if (self) self->model = m;
    else td_model_free(m);
    return (PyObject *)self;
}

/* _model_load(path, exactly) */
static PyObject *load(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path;
    int exactly;
    if (!PyArg_ParseTuple(args, "O&p:load_model", PyUnicode_FSConverter, &path, &exactly)) return NULL;
    td_client *c = tdpy_client();
    td_model *m = c ? td_model_load(c, PyBytes_AsString(path), exactly ? TD_MODEL_EXACTLY : 0) : NULL;
    Py_DECREF(path);
    return c ? wrap(m) : NULL;
}

/* _model_digest(path) */
static PyObject *digest(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path;
    char text[TD_MODEL_DIGEST];
    if (!PyArg_ParseTuple(args, "O&:InferenceSession", PyUnicode_FSConverter, &path)) return NULL;
    int rc = td_model_digest(PyBytes_AsString(path), text);
    Py_DECREF(path);
    return rc ? tdpy_none(rc) : PyUnicode_FromString(text);
}

/* _model_open(name, version, timeout) */
static PyObject *open_name(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    int version, ms;
    PyObject *timeout;
    if (!PyArg_ParseTuple(args, "siO:model", &name, &version, &timeout) || !tdpy_as_timeout(timeout, &ms)) return NULL;
    td_client *c = tdpy_client_for(name, &ms);
    td_model *m = c ? td_model_open(c, name, version, ms) : NULL;
    if (!c) return NULL;
    return m ? wrap(m) : tdpy_fail_to_open();
}

/* _model_serve(name, version) */
static PyObject *serve(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    int version;
    if (!PyArg_ParseTuple(args, "si:serve", &name, &version)) return NULL;
    td_client *c = tdpy_client();
    return c ? tdpy_none(td_model_serve(c, name, version)) : NULL;
}

/* publish(name, flags, version, max_batch, delay_us, queue, instances) */
static PyObject *publish(PyObject *self, PyObject *args)
{
    const char *name;
    td_model_options o = {.size = sizeof o};
    td_model *m = tdpy_model(self);
    if (!m || !PyArg_ParseTuple(args, "sIiiiii:publish", &name, &o.flags, &o.version, &o.max_batch, &o.delay_us,
                                &o.queue, &o.instances))
        return NULL;
    return tdpy_none(td_model_publish(m, name, &o));
}

static PyObject *card(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_model *m = tdpy_model(self);
    return m ? PyUnicode_FromString(td_model_card(m)) : NULL;
}

static PyObject *version(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    td_model *m = tdpy_model(self);
    return m ? PyLong_FromLong(td_model_version(m)) : NULL;
}

bool tdpy_model_inputs(PyObject *tuple, td_array **at, int *n)
{
    Py_ssize_t many = PyTuple_Size(tuple);
    *n = 0;
    if (many > TDPY_MODEL_ENDS)
        return tdpy_raise(TD_E_INVALID, "%zd inputs; a model takes at most %d", many, TDPY_MODEL_ENDS) != NULL;
    for (; *n < many; ++*n) {
        PyObject *each = PyTuple_GetItem(tuple, *n);
        if (!tdpy_is_tensor(each)) {
            tdpy_release_all(at, *n);
            return tdpy_raise(TD_E_TYPE, "an input is a tensor, not %.100s", tdpy_a_type(each)) != NULL;
        }
        at[*n] = td_retain(tdpy_array(each)); /* the object may become another tensor meanwhile */
    }
    return true;
}

void tdpy_release_all(td_array **at, int n)
{
    while (n > 0) td_release(at[--n]);
}

PyObject *tdpy_model_outputs(td_array **at, int n)
{
    PyObject *all = PyList_New(n);
    for (int k = 0; k < n; k++) {
        PyObject *each = all ? tdpy_wrap(at[k], true) : NULL;
        if (!all) td_release(at[k]);
        else if (!each || PyList_SetItem(all, k, each)) Py_CLEAR(all);
    }
    return all;
}

/* infer(tensors, timeout): a list of tensors */
static PyObject *infer(PyObject *self, PyObject *args)
{
    PyObject *given, *timeout;
    td_array *in[TDPY_MODEL_ENDS], *out[TDPY_MODEL_ENDS];
    int ms, n;
    td_model *m = tdpy_model(self);
    if (!m || !PyArg_ParseTuple(args, "O!O:infer", &PyTuple_Type, &given, &timeout) || !tdpy_as_timeout(timeout, &ms) ||
        !tdpy_model_inputs(given, in, &n))
        return NULL;
    int nout = td_model_outputs(m);
    Py_INCREF(self); /* another thread may let go of it */
    int rc = td_infer(m, td_arrays_of(n, in), nout, out, ms);
    tdpy_release_all(in, n);
    PyObject *made = rc ? tdpy_fail() : tdpy_model_outputs(out, nout);
    Py_DECREF(self);
    return made;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    bool raised = PyErr_Occurred() != NULL;
    td_model_free(((model *)self)->model);
    tdpy_tell_later(raised);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {{"publish", publish, METH_VARARGS, NULL},
                                {"card", card, METH_NOARGS, NULL},
                                {"version", version, METH_NOARGS, NULL},
                                {"infer", infer, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_doc, "A model; see tensord.load_model()."}, {Py_tp_dealloc, dealloc}, {Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {.name = "tensord._C._Model",
                           .basicsize = sizeof(model),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           .slots = slots};

static PyMethodDef functions[] = {{"_model_load", load, METH_VARARGS, NULL},
                                  {"_model_digest", digest, METH_VARARGS, NULL},
                                  {"_model_open", open_name, METH_VARARGS, NULL},
                                  {"_model_serve", serve, METH_VARARGS, NULL},
                                  {NULL, NULL, 0, NULL}};

bool tdpy_init_model(PyObject *module)
{
    model_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return model_type && PyModule_AddFunctions(module, functions) == 0 &&
           PyModule_AddObjectRef(module, "_Model", (PyObject *)model_type) == 0;
}
