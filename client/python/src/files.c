/* Files of tensors and of programs, for tensord/files/_save.py and program/_archive.py. */
#include "client/python/src/py.h"

#include "proto/program/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a function of Python says to a location: a device, or None, for where it was. */
static int ask_where(void *context, const char *location)
{
    int device = -1;
    PyObject *said = PyErr_Occurred() ? NULL : PyObject_CallFunction(context, "s", location);
    if (said == Py_None && strcmp(location, "cpu") == 0) device = TD_CPU;
    else if (said && said != Py_None && !tdpy_as_device(said, &device)) device = -1;
    Py_XDECREF(said);
    return device;
}

/* _load_file(descriptor, where, skip, programs=False): a file of tensors; where: a function of a location, or None;
 * programs: also the tensors of what torch.jit.save() wrote. */
static PyObject *load_file(PyObject *module, PyObject *args)
{
    (void)module;
    int fd, skip, programs = 0;
    PyObject *where;
    if (!PyArg_ParseTuple(args, "iOp|p:load", &fd, &where, &skip, &programs)) return NULL;
    td_client *c = tdpy_client();
    if (!c) return NULL;
    unsigned flags = (skip ? TD_LOAD_SKIP : 0) | (programs ? TD_LOAD_PROGRAMS : 0);
    bool was = td_set_grad_enabled(false);
    td_loaded *l = where == Py_None ? td_load_fd(c, fd, flags) : td_load_to(c, fd, flags, ask_where, where);
    td_set_grad_enabled(was);
    if (!l) return tdpy_fail();
    td_queue_item item = td_loaded_tree(l);
    PyObject *x = PyErr_Occurred() ? NULL : tdpy_unpack_item(&item, TDPY_OURS);
    if (!x && PyErr_ExceptionMatches(tdpy.errors[TD_E_PROTOCOL])) { /* it speaks of queues */
        PyErr_Clear();
        tdpy_raise(TD_E_INVALID,
                   "load(): the file holds a dict, set or object that Python does not make of what is in it");
    }
    bool raised = PyErr_Occurred() != NULL;
    td_loaded_free(l);
    tdpy_tell_later(raised);
    return x;
}

/* What failed, as Python has it: by what write() said when it was that. */
static PyObject *save_failed(int code)
{
    int err = errno;
    if (code != TD_E_SYSTEM || !err || PyErr_Occurred()) return tdpy_fail();
    td_clear_error();
    errno = err;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static void drop_programs(td_scripted_program *programs, Py_ssize_t n)
{
    for (Py_ssize_t k = 0; k < n; k++) td_ir_unref((td_ir *)(uintptr_t)programs[k].ir);
    free(programs);
}

/* (name, text of the IR, how Python calls it or None) each; NULL: an error was raised. */
static td_scripted_program *read_programs(PyObject *programs, Py_ssize_t count)
{
    td_scripted_program *out = calloc((size_t)count + 1, sizeof *out);
    bool good = out || PyErr_NoMemory();
    for (Py_ssize_t k = 0; good && k < count; k++) {
        const char *text;
        Py_ssize_t size;
        good = PyArg_ParseTuple(PyTuple_GetItem(programs, k), "ss#z:save", &out[k].name, &text, &size, &out[k].call);
        good = good && (out[k].ir = tdpy_read_ir(text, size)) != NULL;
    }
    if (good) return out;
    if (out) drop_programs(out, count);
    return NULL;
}

/* (name, bytes) each, which stay the tuple's; NULL: an error was raised. */
static td_out_record *read_extras(PyObject *extras, Py_ssize_t count)
{
    td_out_record *out = calloc((size_t)count + 1, sizeof *out);
    bool good = out || PyErr_NoMemory();
    for (Py_ssize_t k = 0; good && k < count; k++) {
        const char *bytes;
        Py_ssize_t size;
        good = PyArg_ParseTuple(PyTuple_GetItem(extras, k), "sy#:save", &out[k].name, &bytes, &size);
        out[k].bytes = bytes, out[k].n = (size_t)size;
    }
    if (good) return out;
    free(out);
    return NULL;
}

/* _save_file(descriptor, name, note, tensors, whole, programs=(), extras=()): a tree of the list's tensors, which the
 * note holds by position; programs and other records beside it, or safetensors' metadata. Why a .pt of programs is none
 * for torch.jit.load(), or None. */
static PyObject *save_file(PyObject *module, PyObject *args)
{
    (void)module;
    int fd, whole;
    const char *name;
    PyObject *note, *tensors, *programs = NULL, *extras = NULL;
    char *bytes;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "isO!O!p|O!O!:save", &fd, &name, &PyBytes_Type, &note, &PyList_Type, &tensors, &whole,
                          &PyTuple_Type, &programs, &PyTuple_Type, &extras) ||
        PyBytes_AsStringAndSize(note, &bytes, &size))
        return NULL;
    Py_ssize_t n = PyList_Size(tensors), nprograms = programs ? PyTuple_Size(programs) : 0,
               nextras = extras ? PyTuple_Size(extras) : 0;
    td_scripted_program *given = read_programs(programs, nprograms);
    td_out_record *beside = given ? read_extras(extras, nextras) : NULL;
    if (!beside) {
        if (given) drop_programs(given, nprograms);
        return NULL;
    }
    td_array **at = calloc((size_t)n + 1, sizeof *at);
    int held = 0;
    for (; at && held < n && tdpy_is_tensor(PyList_GetItem(tensors, held)); held++)
        at[held] = td_retain(tdpy_array(PyList_GetItem(tensors, held)));
    td_error uncoded = {0};
    td_save_content what = {.tree = {.n = held, .at = at, .note = bytes, .note_size = (size_t)size},
                            .programs = given,
                            .nprograms = (uint32_t)nprograms,
                            .extras = beside,
                            .nextras = (uint32_t)nextras,
                            .flags = whole ? TD_SAVE_WHOLE : 0,
                            .uncoded = &uncoded};
    int rc = at ? td_save_all_fd(fd, name, &what) : td_raise(TD_E_SYSTEM, "save", "no memory for %zd tensors", n);
    PyObject *said =
        rc || PyErr_Occurred() ? save_failed(rc) : Py_BuildValue("z", uncoded.code ? uncoded.message : NULL);
    for (int i = 0; i < held; i++) td_release(at[i]);
    drop_programs(given, nprograms);
    free(beside);
    free(at);
    return said;
}

/* (name, text of the IR, names of what it captures, how Python calls it or None); of one that is not read (name, None,
 * (why,), how it would be called). */
static PyObject *filed_program(const td_filed *p, size_t *left)
{
    td_error e = {0};
    if (!p->ir) return Py_BuildValue("sO(s)z", p->name, Py_None, p->why.message, p->call);
    char *text = td_ir_print(p->ir, &e);
    if (!text) return tdpy_raise(e.code, "%s", e.message);
    size_t n = strlen(text);
    if (n > *left) {
        free(text);
        return tdpy_raise(TD_E_QUOTA, "load: the texts of its programs have more than %d bytes", TD_IR_TEXT);
    }
    *left -= n;
    PyObject *names = tdpy_captured_names(p->ir);
    PyObject *made = names ? Py_BuildValue("ssNz", p->name, text, names, p->call) : NULL;
    free(text);
    return made;
}

/* _file_programs(descriptor): those of a .td file. No daemon is asked. */
static PyObject *file_programs(PyObject *module, PyObject *args)
{
    (void)module;
    int fd;
    td_filed_all all;
    td_error e = {0};
    if (!PyArg_ParseTuple(args, "i:load", &fd)) return NULL;
    if (td_filed_read(fd, &all, &e)) return tdpy_raise(e.code, "load: %s", e.message);
    PyObject *list = PyList_New(0);
    size_t left = TD_IR_TEXT;
    for (uint32_t i = 0; list && i < all.n; i++) {
        PyObject *each = filed_program(&all.at[i], &left);
        if (!each || PyList_Append(list, each)) Py_CLEAR(list);
        Py_XDECREF(each);
    }
    td_filed_free(&all);
    return list;
}

PyMethodDef tdpy_file_functions[] = {{"_load_file", load_file, METH_VARARGS, NULL},
                                     {"_save_file", save_file, METH_VARARGS, NULL},
                                     {"_file_programs", file_programs, METH_VARARGS, NULL},
                                     {NULL, NULL, 0, NULL}};
