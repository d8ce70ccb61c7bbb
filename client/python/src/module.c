/* The module tensord._C: the connection, and everything else put together.
 *
 * Importing it asks nothing of the daemon; the first tensor connects. One interpreter of a process can have it, because
 * the connection is the process's. */
#include "client/python/src/py.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

tdpy_state tdpy;

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static void *put_down_gil(void)
{
    return PyEval_SaveThread();
}

static void take_up_gil(void *state)
{
    PyEval_RestoreThread(state);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Asked in every wait: a handler that raises (Ctrl-C) ends it, and at the end of the program time does. */
bool tdpy_wants_to_stop(void *ignored)
{
    (void)ignored;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace); /* an object may end while an exception is on its way */
    bool raised = PyErr_CheckSignals() != 0;
    if (!raised) {
        PyErr_Restore(type, value, trace);
    } else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    }
    return raised || (tdpy.patience && now_ms() > tdpy.patience);
}

static bool leave_at_exit(void)
{
    static bool done;
    if (done) return true;
    PyObject *module = PyImport_ImportModule("tensord._C"), *atexit = PyImport_ImportModule("atexit");
    PyObject *goodbye = module ? PyObject_GetAttrString(module, "_goodbye") : NULL;
    PyObject *kept = goodbye && atexit ? PyObject_CallMethod(atexit, "register", "O", goodbye) : NULL;
    done = kept != NULL;
    Py_XDECREF(module);
    Py_XDECREF(atexit);
    Py_XDECREF(goodbye);
    Py_XDECREF(kept);
    return done;
}

/* A new connection as this program has set them: manual_seed()'s numbers begin again. NULL with the exception set. */
static td_client *as_set(td_client *c)
{
    if (!c) return tdpy_fail();
    if (tdpy.eager_set) td_set_eager_errors(c, tdpy.eager);
    if (!tdpy.seeded || !td_seed(c, tdpy.seed)) return c;
    tdpy_fail();
    td_disconnect(c);
    return NULL;
}

/* No other connection can be made than the one that was lost: so it still is. */
static void still_lost(void)
{
    td_error now = *td_last_error();
    if (!tdpy.client || !td_why_lost(tdpy.client) || now.code == TD_E_CANCELLED) return;
    char before[sizeof now.message]; /* as far as there is room for both */
    snprintf(before, sizeof before, "%s", td_why_lost(tdpy.client)->message);
    before[strcspn(before, ";")] = 0;
    td_raise(TD_E_LOST, "connect", "%s; no other can be made: %s", before, now.message);
}

/* Where a GPU is, a daemon that is started here is told where Python's packages have the libraries for it. */
static void tell_libraries(void)
{
    static bool told;
    const char *driver = getenv("TENSORD_LIBCUDA");
    if (told || getenv("TENSORD_CUDA_LIBRARIES")) return;
    if (!(driver && *driver) && access("/dev/nvidiactl", F_OK)) return;
    told = true;
    PyObject *module = PyImport_ImportModule("tensord.share._launch");
    PyObject *found = module ? PyObject_CallMethod(module, "cuda_libraries", NULL) : NULL;
    const char *text = found ? PyUnicode_AsUTF8AndSize(found, NULL) : NULL;
    if (text) td_set_cuda_libraries(text);
    else PyErr_Clear(); /* products go by own kernels */
    Py_XDECREF(found);
    Py_XDECREF(module);
}

static td_client *connect_to(const char *path, bool again)
{
    if (!leave_at_exit()) return NULL;
    tell_libraries();
    td_step_aside(); /* a daemon may have to be started */
    td_client *c = td_connect_until(path, tdpy_wants_to_stop, NULL);
    td_step_back();
    if (!c && again) still_lost();
    return as_set(c);
}

void tdpy_stand_still(void)
{
    if (!tdpy.patience || PyThread_get_thread_ident() == tdpy.ending) return;
    PyEval_SaveThread();
    for (;;) pause();
}

/* The connection, unless its daemon has gone: what is asked for next makes another one. Not at the end of the program,
 * when nothing is asked for but what is to be cleared away. */
static td_client *standing(void)
{
    td_client *c = tdpy.client;
    return c && td_why_lost(c) && !tdpy.patience ? NULL : c;
}

/* It becomes the connection, or NULL does. Who waits for something of the one before is told that it has gone. */
static void replace(td_client *c)
{
    td_client *before = tdpy.client;
    if (before) td_hook_numbers(before, &tdpy.hooks, &tdpy.nodes);
    tdpy.client = c;
    if (c) tdpy.connections++, td_set_hook_numbers(c, tdpy.hooks, tdpy.nodes);
    td_disconnect(before);
}

/* The connection that was just made, unless it was ended again: whatever disconnects lets other code run, callbacks of
 * requests and other threads, which may disconnect too. NULL with the exception set. */
static td_client *still_standing(void)
{
    td_client *c = standing();
    return c || PyErr_Occurred()
               ? c
               : tdpy_raise(TD_E_LOST, "the connection was ended while it was made, by another thread or a callback");
}

/* A new one becomes the connection, if no other thread was faster. NULL, with the exception set: none was made. */
static td_client *adopt(td_client *c)
{
    if (standing()) {
        if (!c) PyErr_Clear();
        td_disconnect(c);
    } else if (c) {
        replace(c);
    } else {
        return NULL;
    }
    return still_standing();
}

/* Children find what this process found by a name's help, as they would find a daemon of its own; NULL: no longer. */
static bool tell_children(const char *path)
{
    PyObject *os = PyImport_ImportModule("os"), *all = os ? PyObject_GetAttrString(os, "environ") : NULL;
    PyObject *set = !all   ? NULL
                    : path ? PyObject_CallMethod(all, "setdefault", "ss", "TENSORD_SOCKET", path)
                           : PyObject_CallMethod(all, "pop", "sO", "TENSORD_SOCKET", Py_None);
    Py_XDECREF(os);
    Py_XDECREF(all);
    Py_XDECREF(set);
    return set != NULL;
}

static bool forget_another(void)
{
    bool was = tdpy.another;
    tdpy.another = false;
    return !was || tell_children(NULL);
}

/* The socket that the next connection is made to as well; NULL: whichever is found. */
static bool name_socket(const char *path)
{
    char *copy = path ? strdup(path) : NULL;
    if (path && !copy) return PyErr_NoMemory() != NULL;
    free(tdpy.named);
    tdpy.named = copy;
    return true;
}

/* The connection, made to this socket (NULL: to that which the program has named, or else as the first tensor does)
 * when there is none, or none any more. */
static td_client *client_at(const char *path)
{
    td_client *c = standing();
    if (c) return c;
    tdpy_stand_still();
    if (tdpy.client && !forget_another()) return NULL;
    return adopt(connect_to(path ? path : tdpy.named, true));
}

td_client *tdpy_client(void)
{
    td_client *c = tdpy.client;
    return c && !td_why_lost(c) ? c : client_at(NULL);
}

td_client *tdpy_client_for(const char *name, int *timeout_ms)
{
    td_client *now = standing();
    if (now || tdpy.named) return now ? now : client_at(NULL);
    tdpy_stand_still();
    if (!leave_at_exit() || !forget_another()) return NULL;
    bool another;
    int64_t began = now_ms();
    td_client *c = td_connect_for(name, *timeout_ms, &another, tdpy_wants_to_stop, NULL);
    int64_t left = *timeout_ms - (now_ms() - began);
    if (*timeout_ms > 0) *timeout_ms = left > 0 ? (int)left : 1; /* 0 would not wait, rather than be late */
    if (!c) still_lost();
    char path[TD_SOCKET_TEXT] = "";
    c = as_set(c);
    if (c) snprintf(path, sizeof path, "%s", td_socket_path(c));
    now = adopt(c);
    if (now != c || !c) return now;
    tdpy.another = another;
    return another && !tell_children(path) ? NULL : still_standing();
}

/* Bytes, as a number or as "512M" and "8G"; of None 0. */
static bool as_size(PyObject *given, const char *what, uint64_t *out)
{
    enum { LEAST = 1 << 20 };
    if (given == Py_None) return true;
    if (PyUnicode_Check(given)) {
        const char *text = PyUnicode_AsUTF8AndSize(given, NULL);
        if (!text) return false;
        *out = td_text_size(text);
    } else {
        int64_t n;
        if (!tdpy_as_int(given, &n, "connect", what)) return false;
        *out = n > 0 ? (uint64_t)n : 0;
    }
    if (*out >= LEAST) return true;
    return tdpy_raise(TD_E_INVALID, "connect(): %s is a number of bytes, of at least 2**20, or such as '512M' and '8G'",
                      what) != NULL;
}

static PyObject *connect_function(PyObject *module, PyObject *args, PyObject *kw)
{
    (void)module;
    static char *names[] = {"path", "memory", "session_memory", "workers", NULL};
    const char *path = NULL;
    PyObject *memory = Py_None, *session = Py_None;
    td_limits limits = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|z$OOi:connect", names, &path, &memory, &session, &limits.workers))
        return NULL;
    if (!as_size(memory, names[1], &limits.memory) || !as_size(session, names[2], &limits.session_memory)) return NULL;
    if (limits.workers < 0) return tdpy_raise(TD_E_INVALID, "connect(): workers is a number of threads, not negative");
    static td_limits before; /* of the connection that stands */
    bool said = limits.memory || limits.session_memory || limits.workers;
    if (said) td_set_limits(&limits);
    if (!forget_another()) return NULL;
    td_client *c = connect_to(path, false);
    if (!c) return NULL;
    if (limits.memory && td_check_limits(c)) {
        tdpy_fail();
        td_disconnect(c);
        td_set_limits(&before);
        return NULL;
    }
    if (said) before = limits;
    if (!name_socket(path)) return td_disconnect(c), NULL;
    replace(c);
    Py_RETURN_NONE;
}

static PyObject *disconnect_function(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    if (!forget_another() || !name_socket(NULL)) return NULL;
    replace(NULL);
    td_clear_error();
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* _spanned(array): as a queue carries it (tdpy_as_array()). */
static PyObject *spanned(PyObject *module, PyObject *data)
{
    (void)module;
    return tdpy_wrap(tdpy_as_array(data), true);
}

/* Does this process do nothing but run Python? Else its exit status is another program's, which has Python inside. */
static bool is_python(void)
{
    char self[4096], python[4096];
    const char *name = NULL;
    PyObject *executable = PySys_GetObject("executable");
    if (executable && PyUnicode_Check(executable)) name = PyUnicode_AsUTF8AndSize(executable, NULL);
    PyErr_Clear();
    return name && realpath("/proc/self/exe", self) && realpath(name, python) && strcmp(self, python) == 0;
}

/* Python gives no way to say how it ends once it is ending, but the C library does: the rest of what is to be done at
 * exit is done all the same. What the program chose itself stays. */
static void end_as_failed(int status, void *pid)
{
    if (status == 0 && (pid_t)(intptr_t)pid == getpid())
        exit(EXIT_FAILURE); /* a child that is forked later did not fail */
}

/* An error that no line of the program came across: told as if it had been raised in the last one. */
static PyObject *tell_late_error(void)
{
    PySys_WriteStderr("tensord: an operation failed, and nobody looked at its result:\n");
    PyErr_Print();
    if (is_python()) on_exit(end_as_failed, (void *)(intptr_t)getpid());
    return Py_NewRef(Py_None);
}

/* The end of the program. An error that nobody has asked about would be lost, and a program that did nothing of what it
 * says would look well: it is printed now, and the exit status is 1. Another thread may hold the stream for ever (a
 * queue's get), so this waits for a second at most; and not at all when the program ends by an exception. */
static PyObject *goodbye(PyObject *module, PyObject *ignored)
{
    tdpy.ending = PyThread_get_thread_ident();
    tdpy.patience = now_ms() + 1000;
    if (!tdpy.client || PySys_GetObject("last_type")) return disconnect_function(module, ignored);
    int rc = td_sync(tdpy.client);
    bool tell = rc && rc != TD_E_CANCELLED && rc != TD_E_LOST && rc != TD_E_PROTOCOL;
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (tell) tdpy_fail();
    PyErr_Fetch(&type, &value, &trace);
    PyObject *done = disconnect_function(module, ignored);
    if (!type) return done;
    Py_XDECREF(done);
    PyErr_Restore(type, value, trace);
    return tell ? tell_late_error() : NULL;
}

static PyObject *sync_function(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    if (!tdpy.client) return Py_NewRef(Py_None);
    return tdpy_none(td_sync(tdpy.client));
}

static PyObject *set_eager_errors(PyObject *module, PyObject *on)
{
    (void)module;
    int value = PyObject_IsTrue(on);
    if (value < 0) return NULL;
    tdpy.eager = value;
    tdpy.eager_set = true;
    if (standing()) td_set_eager_errors(tdpy.client, value);
    return Py_NewRef(Py_None);
}

static PyObject *flush_function(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    if (!tdpy.client) return Py_NewRef(Py_None);
    return tdpy_none(td_flush(tdpy.client));
}

static PyObject *manual_seed(PyObject *module, PyObject *seed)
{
    (void)module;
    if (!PyLong_Check(seed)) return tdpy_raise(TD_E_TYPE, "a seed is an int, not %.100s", tdpy_a_type(seed));
    unsigned long long v = PyLong_AsUnsignedLongLong(seed);
    if (PyErr_Occurred()) { /* negative ones are those above 2**63 */
        PyErr_Clear();
        v = (unsigned long long)PyLong_AsLongLong(seed);
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return tdpy_raise(TD_E_INVALID, "a seed is from -2**63 to 2**64 - 1, not %R", seed);
    }
    tdpy.seeded = true;
    tdpy.seed = v;
    return tdpy_none(standing() ? td_seed(tdpy.client, v) : 0); /* who connects later begins with it */
}

/* "an int", "a str": of what stands in an error. */
static PyObject *a_type(PyObject *module, PyObject *x)
{
    (void)module;
    return PyUnicode_FromString(tdpy_a_type(x));
}

/* (seed, numbers drawn of it), or None when it was never seeded: then its numbers are nobody's to repeat. */
static PyObject *random_state(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    if (!tdpy.seeded) return Py_NewRef(Py_None);
    uint64_t drawn = standing() ? td_drawn(tdpy.client) : 0;
    return Py_BuildValue("KK", (unsigned long long)tdpy.seed, (unsigned long long)drawn);
}

static PyObject *set_random_state(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long seed, drawn;
    if (!PyArg_ParseTuple(args, "KK:_set_random_state", &seed, &drawn)) return NULL;
    td_client *c = tdpy_client();
    if (!c) return NULL;
    tdpy.seeded = true;
    tdpy.seed = seed;
    return tdpy_none(td_seed_at(c, seed, drawn));
}

/* Where we are connected: a dict, or None. */
static PyObject *connection(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    td_client *c = standing();
    if (!c) return Py_NewRef(Py_None);
    return Py_BuildValue("{sssssIsI}", "path", td_socket_path(c), "version", td_daemon_version(c), "pid",
                         td_daemon_pid(c), "session", td_session(c));
}

/* The same, connected first where nobody has, or nobody is any more. A thread that finds no connection must not do that
 * by connect(), which ends the one that another thread has made meanwhile. */
static PyObject *connected(PyObject *module, PyObject *args)
{
    const char *path = NULL;
    if (!PyArg_ParseTuple(args, "|z:_connected", &path)) return NULL;
    bool names = path && !standing() && !td_is_private_path(path); /* a private one is found again by its program */
    if ((names && !name_socket(path)) || !client_at(path)) return NULL;
    return connection(module, NULL);
}

/* ---- tables of the daemon ---------------------------------------------------------------------------------------- */

static PyObject *cell_object(const td_cell *c)
{
    switch (c->kind) {
    case TD_CELL_TEXT: return PyUnicode_DecodeUTF8(c->text, (Py_ssize_t)strlen(c->text), "replace");
    case TD_CELL_INT: return PyLong_FromLongLong(c->integer);
    case TD_CELL_REAL: return PyFloat_FromDouble(c->real);
    case TD_CELL_BOOL: return PyBool_FromLong(c->yes);
    default: return Py_NewRef(Py_None);
    }
}

static PyObject *row_object(const td_table *t, int row)
{
    PyObject *d = PyDict_New();
    for (int k = 0; d && k < t->columns; k++) {
        PyObject *value = cell_object(&t->cells[row * t->columns + k]);
        if (!value || PyDict_SetItemString(d, t->names[k], value)) Py_CLEAR(d);
        Py_XDECREF(value);
    }
    return d;
}

static PyObject *status_function(PyObject *module, PyObject *args)
{
    (void)module;
    const char *what = "status";
    if (!PyArg_ParseTuple(args, "|s:status", &what)) return NULL;
    td_client *c = tdpy_client();
    return c ? tdpy_rows(td_status(c, what)) : NULL;
}

PyObject *tdpy_rows(td_table *t)
{
    if (!t) return tdpy_fail();
    if (PyErr_Occurred()) return td_table_free(t), NULL;
    PyObject *rows = PyList_New(t->rows);
    for (int i = 0; rows && i < t->rows; i++) {
        PyObject *row = row_object(t, i);
        if (!row || PyList_SetItem(rows, i, row)) Py_CLEAR(rows);
    }
    td_table_free(t);
    return rows;
}

/* ---- small things ------------------------------------------------------------------------------------------------ */

static PyObject *get_default_dtype(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return tdpy_dtype_object(tdpy.default_dtype);
}

static PyObject *set_default_dtype(PyObject *module, PyObject *dtype)
{
    (void)module;
    td_dtype d;
    if (!tdpy_as_dtype(dtype, &d)) return NULL;
    if (!td_dtype_is_float(d)) return tdpy_raise(TD_E_TYPE, "only a float dtype can be the default");
    tdpy.default_dtype = d;
    return Py_NewRef(Py_None);
}

static PyObject *get_default_device(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return tdpy_client() ? tdpy_device(td_get_device()) : NULL; /* which the environment names is known by then */
}

static PyObject *set_default_device(PyObject *module, PyObject *device)
{
    (void)module;
    int there;
    if (!tdpy_as_device(device, &there)) return NULL;
    td_set_device(there);
    return Py_NewRef(Py_None);
}

/* Those that the daemon has. */
static PyObject *devices(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    td_client *c = tdpy_client();
    PyObject *list = c ? PyList_New(0) : NULL, *all;
    for (int i = 0; list && i < TD_MAX_DEVICES; i++) {
        if (!(c = tdpy_client())) Py_CLEAR(list); /* each look waits, and others may disconnect */
        if (!c || td_check_device(c, i)) continue;
        PyObject *d = tdpy_device(i);
        if (!d || PyList_Append(list, d)) Py_CLEAR(list);
        Py_XDECREF(d);
    }
    td_clear_error();
    all = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return all;
}

/* The number of where this thread made things before; takes that, too. */
static PyObject *make_on(PyObject *module, PyObject *device)
{
    (void)module;
    int there;
    if (!PyLong_Check(device)) return tdpy_as_device(device, &there) ? PyLong_FromLong(td_set_device(there)) : NULL;
    long number = PyLong_AsLong(device);
    if (number == -1 && PyErr_Occurred()) PyErr_Clear(), number = TD_MAX_DEVICES;
    if (number < -1 || number >= TD_MAX_DEVICES)
        return tdpy_raise(TD_E_UNSUPPORTED, "there is no device of that number");
    if (number >= 0 && !tdpy_is_here((int)number)) return NULL;
    return PyLong_FromLong(td_set_device((int)number));
}

static PyObject *promote_types(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "O!O!:promote_types", tdpy.dtype, &a, tdpy.dtype, &b)) return NULL;
    td_dtype one = ((tdpy_dtype *)a)->code, other = ((tdpy_dtype *)b)->code, both = td_promote(one, other);
    if (both == TD_DTYPE_NONE)
        return tdpy_raise(TD_E_TYPE, "no dtype holds both %s and %s", td_dtype_name(one), td_dtype_name(other));
    return tdpy_dtype_object(both);
}

static PyObject *is_tensor(PyObject *module, PyObject *o)
{
    (void)module;
    return PyBool_FromLong(tdpy_is_tensor(o));
}

/* Files of this folder are not the user's program. */
static PyObject *set_package(PyObject *module, PyObject *folder)
{
    (void)module;
    Py_XDECREF(tdpy.package);
    tdpy.package = Py_NewRef(folder);
    return Py_NewRef(Py_None);
}

static PyObject *here(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    const char *text = tdpy_site();
    return text ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
}

/* What classes of torchvision and torchmetrics call when they are made: nobody counts here. */
static PyObject *log_api_usage_once(PyObject *module, PyObject *event)
{
    (void)module, (void)event;
    return Py_NewRef(Py_None);
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef functions[] = {
    {"tensor", KEYWORDS(tdpy_tensor_function),
     "tensor(data, *, dtype=None, device=None, requires_grad=False)\n--\n\nA new tensor with a copy of numbers, nested "
     "lists, or an array."},
    {"_spanned", spanned, METH_O, NULL},
    {"asarray", KEYWORDS(tdpy_asarray_function),
     "asarray(obj, /, dtype=None, *, device=None, copy=None)\n--\n\nThe object itself when it is such a tensor, the "
     "same "
     "memory when it is an array that was\nallocated inside numpy_memory(), else a new tensor."},
    {"from_dlpack", KEYWORDS(tdpy_from_dlpack),
     "from_dlpack(x, /, *, device=None, copy=None)\n--\n\nA tensor of what another library exports: a copy, but "
     "of arrays that were allocated\ninside numpy_memory(), whose memory it shares."},
    {"is_tensor", is_tensor, METH_O, "is_tensor(obj, /)\n--\n\nIs it a tensord.Tensor?"},
    {"connect", KEYWORDS(connect_function),
     "connect(path=None, *, memory=None, session_memory=None, workers=None)\n--\n\nConnect to the daemon at a socket, "
     "or, as the first tensor does by itself, to the "
     "user's daemon or "
     "a private one.\nTensors of the connection before become useless; manual_seed()'s numbers begin again.\nWhere the "
     "daemon ended, the "
     "next tensor or queue does this by itself, and goes to the same socket if one was given here.\nmemory: the most "
     "shared memory that the private daemon may take which this starts, in bytes or as '8G'; session_memory: of it for "
     "one\nprocess; workers: threads that compute. AlreadyExists when one runs already and has another memory: so "
     "before the first tensor. Also by\nTENSORD_MEMORY, TENSORD_SESSION_MEMORY and TENSORD_WORKERS in the "
     "environment."},
    {"disconnect", disconnect_function, METH_NOARGS,
     "disconnect()\n--\n\nEnd the connection; happens by itself at the end of the program."},
    {"sync", sync_function, METH_NOARGS,
     "sync()\n--\n\nWait until everything asked so far has ended; raises the first error that was not told yet."},
    {"set_eager_errors", set_eager_errors, METH_O,
     "set_eager_errors(on, /)\n--\n\nEach call waits for what becomes of it and raises it, so that an error comes at "
     "the line that\ncaused it, where else it comes where a value is needed. For looking for errors: every op is\n"
     "a round trip then. Also by TENSORD_EAGER_ERRORS=1 in the environment."},
    {"flush", flush_function, METH_NOARGS, "flush()\n--\n\nSend what is batched, without waiting."},
    {"_a_type", a_type, METH_O, NULL},
    {"_as", (PyCFunction)(void (*)(void))tdpy_as, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_devices", devices, METH_NOARGS, NULL},
    {"_log_api_usage_once", log_api_usage_once, METH_O, NULL},
    {"_make_on", make_on, METH_O, NULL},
    {"_manual_seed", manual_seed, METH_O, NULL},
    {"_random_state", random_state, METH_NOARGS, NULL},
    {"_set_random_state", set_random_state, METH_VARARGS, NULL},
    {"connection", connection, METH_NOARGS,
     "connection()\n--\n\nWhere this process is connected: path, version, pid, session; None before the first tensor, "
     "and when its daemon has gone."},
    {"_connected", connected, METH_VARARGS, NULL},
    {"status", status_function, METH_VARARGS,
     "status(what='status', /)\n--\n\nTables of the daemon as lists of dicts: status, sessions, tensors, names, "
     "queues, models, groups, segments, devices, turns.\n\n'tensors' has each byte of memory in one row: bytes_used of "
     "them together "
     "is the "
     "bytes_used of 'status' (of rows\nwhose device is 'cpu'), with bytes_idle its bytes_committed, and bytes_own its "
     "bytes_own. kind says what holds it: 'name',\n'tree', 'handle', 'program', 'queue item', 'copy', 'tensor', "
     "'gradient', 'ring', 'lease', 'graph', 'ended session', 'records',\n'connection', 'free', 'warm'; name which name "
     "or "
     "queue that is. bytes is how far it reaches, whoever else has the memory."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "get_default_dtype()\n--\n\nThe dtype that floats of Python become."},
    {"_autocast", tdpy_set_autocast, METH_VARARGS, NULL},
    {"_autocast_dtype", tdpy_get_autocast, METH_VARARGS, NULL},
    {"set_default_dtype", set_default_dtype, METH_O,
     "set_default_dtype(dtype, /)\n--\n\nThe dtype that floats of Python become."},
    {"get_default_device", get_default_device, METH_NOARGS,
     "get_default_device()\n--\n\nWhere tensors are made that are told no device."},
    {"set_default_device", set_default_device, METH_O,
     "set_default_device(device, /)\n--\n\nWhere this thread makes tensors that are told no device, from now on; "
     "None: where TENSORD_DEVICE says in the\nenvironment, or on the CPU. What is made of tensors lies where they lie, "
     "what other libraries or files have on the CPU."},
    {"promote_types", promote_types, METH_VARARGS,
     "promote_types(type1, type2, /)\n--\n\nThe common dtype of tensors of two dtypes."},
    {"_goodbye", goodbye, METH_NOARGS, NULL},
    {"_set_package", set_package, METH_O, NULL},
    {"_here", here, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static int exec_module(PyObject *module)
{
    if (tdpy.tensor) {
        PyErr_SetString(PyExc_ImportError, "tensord can be used by one interpreter of a process only");
        return -1;
    }
    td_set_wait_hooks(put_down_gil, take_up_gil);
    bool good = tdpy_init_errors(module) && tdpy_init_types(module) && tdpy_init_size(module) &&
                tdpy_init_followed(module) && tdpy_init_functions(module) &&
                PyModule_AddFunctions(module, tdpy_autograd_functions) == 0 &&
                PyModule_AddFunctions(module, tdpy_hook_functions) == 0 &&
                PyModule_AddFunctions(module, tdpy_name_functions) == 0 &&
                PyModule_AddFunctions(module, tdpy_share_functions) == 0 &&
                PyModule_AddFunctions(module, tdpy_file_functions) == 0 &&
                PyModule_AddFunctions(module, tdpy_numpy_functions) == 0 &&
                PyModule_AddFunctions(module, tdpy_queue_functions) == 0 &&
                PyModule_AddFunctions(module, tdpy_aio_functions) == 0 && tdpy_init_aio(module) &&
                PyModule_AddFunctions(module, tdpy_buffer_functions) == 0 && tdpy_init_queue(module) &&
                tdpy_init_group(module) && tdpy_init_program(module) && tdpy_init_model(module) &&
                tdpy_init_trace(module) && PyModule_AddFunctions(module, tdpy_program_names) == 0 &&
                PyModule_AddStringConstant(module, "__version__", td_version()) == 0 && tdpy_init_tensor(module);
    return good ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)exec_module}, {0, NULL}};
static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                 .m_name = "tensord._C",
                                 .m_doc = "The extension behind tensord; see there.",
                                 .m_methods = functions,
                                 .m_slots = slots};

PyMODINIT_FUNC PyInit__C(void);
PyMODINIT_FUNC PyInit__C(void)
{
    return PyModuleDef_Init(&definition);
}
