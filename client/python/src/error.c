/* Errors of the library as exceptions: one class a code, all under tensord.Error, each also the built-in class that a
 * program would catch anyway (ValueError, IndexError, MemoryError, ...).
 *
 * An error that was caused by an earlier line says which: "asked for at train.py:31". */
#include "client/python/src/py.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* In an order in which every base stands before what is made from it. */
static const struct {
    int code;
    const char *name;
    PyObject **also; /* built-in base */
    int under;       /* code of the base of ours; 0: Error */
    const char *doc;
} kinds[] = {
    {TD_E_INVALID, "InvalidError", &PyExc_ValueError, 0, "An argument has a value that makes no sense."},
    {TD_E_TYPE, "DTypeError", &PyExc_TypeError, 0, "A dtype, or a kind of argument, that is not taken here."},
    {TD_E_SHAPE, "ShapeError", &PyExc_ValueError, 0, "Shapes that do not fit."},
    {TD_E_INDEX, "OutOfRange", &PyExc_IndexError, 0, "An index or a dimension out of range."},
    {TD_E_NOT_FOUND, "NotFound", &PyExc_LookupError, 0, "There is no such name or thing."},
    {TD_E_EXISTS, "AlreadyExists", &PyExc_ValueError, 0, "The name is taken."},
    {TD_E_MEMORY, "OutOfMemory", &PyExc_MemoryError, 0,
     "The memory that tensors lie in and kernels work with is full; the message names the biggest holders."},
    {TD_E_QUOTA, "QuotaExceeded", NULL, TD_E_MEMORY, "What this session may hold is used up."},
    {TD_E_AUTOGRAD, "AutogradError", NULL, 0, "The graph cannot do this."},
    {TD_E_VERSION, "VersionError", NULL, TD_E_AUTOGRAD, "A saved tensor was overwritten before backward."},
    {TD_E_BUSY, "Busy", NULL, 0, "Leased, or otherwise not available now."},
    {TD_E_CLOSED, "Closed", &PyExc_EOFError, 0, "The queue, or its other side, is gone; or a name began anew."},
    {TD_E_TIMEOUT, "Timeout", &PyExc_TimeoutError, 0, "A deadline passed; the message says whom it waited for."},
    {TD_E_LOST, "ConnectionLost", &PyExc_ConnectionError, 0, "The connection to the daemon is gone."},
    {TD_E_PROTOCOL, "ProtocolError", NULL, TD_E_LOST, "Somebody broke the protocol."},
    {TD_E_UNSUPPORTED, "Unsupported", &PyExc_NotImplementedError, 0, "Known, but not possible here."},
    {TD_E_CANCELLED, "Cancelled", NULL, 0, "Stopped on request."},
    {TD_E_SYSTEM, "SystemFailure", &PyExc_OSError, 0,
     "The operating system refused, also memory for a process's own records."},
    {TD_E_PERMISSION, "PermissionDenied", &PyExc_PermissionError, 0, "Not yours to write or to use."},
    {TD_E_DEVICE, "DeviceFailed", NULL, 0, "A device failed while this ran: what was to be written there is lost."},
    {TD_E_LINALG, "LinAlgError", NULL, 0,
     "A matrix has no such factors: it is singular, not positive-definite, or not finite."},
    {TD_E_MEMBER, "MemberLost", NULL, 0,
     "A member of a group has gone before a call that needs it. `rank`, `pid`, `epoch` and `round` (the number of the\n"
     "call) say which and when."},
    {TD_E_MISMATCH, "Mismatch", NULL, 0,
     "Members of a group made different calls, or gave other shapes or dtypes; the message has both calls."},
    {TD_E_EPOCH, "EpochOver", NULL, 0, "A group in which a call has failed: nothing more can be asked of it."},
    {TD_E_DIED, "ProducerDied", NULL, 0, "A producer of a queue was killed; the connection and the queue go on."},
    {TD_E_INTERNAL, "InternalError", NULL, 0, "A bug in tensord: please report it."},
    {TD_E_NOT_NEWER, "NotNewer", &tdpy.errors[TD_E_TIMEOUT], TD_E_NOT_FOUND,
     "The name that open() asked for is there, with no version that is newer. A NotFound and a Timeout, as "
     "NotPublished "
     "is."},
};
static const char not_published[] =
    "Nothing has the name that open() asked for, or had it in the time that there was. A NotFound and a Timeout, as "
    "NotNewer is.";

static PyObject *make_class(int k)
{
    char name[64];
    snprintf(name, sizeof name, "tensord.%s", kinds[k].name);
    PyObject *base = tdpy.errors[kinds[k].under], *bases;
    bases = kinds[k].also ? PyTuple_Pack(2, base, *kinds[k].also) : PyTuple_Pack(1, base);
    PyObject *made = bases ? PyErr_NewExceptionWithDoc(name, kinds[k].doc, bases, NULL) : NULL;
    Py_XDECREF(bases);
    return made;
}

bool tdpy_init_errors(PyObject *module)
{
    tdpy.errors[0] = PyErr_NewExceptionWithDoc(
        "tensord.Error", "What went wrong in tensord. `op` is the op that failed, `where` the line that asked for it.",
        PyExc_RuntimeError, NULL);
    if (!tdpy.errors[0] || PyModule_AddObjectRef(module, "Error", tdpy.errors[0])) return false;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        PyObject *made = tdpy.errors[kinds[k].code] = make_class((int)k);
        if (!made || PyModule_AddObjectRef(module, kinds[k].name, made)) return false;
    }
    PyObject *both = PyTuple_Pack(2, tdpy.errors[TD_E_NOT_FOUND], tdpy.errors[TD_E_TIMEOUT]);
    if (both) tdpy.not_published = PyErr_NewExceptionWithDoc("tensord.NotPublished", not_published, both, NULL);
    Py_XDECREF(both);
    if (!tdpy.not_published || PyModule_AddObjectRef(module, "NotPublished", tdpy.not_published)) return false;
    return !PyModule_AddObjectRef(module, "_LinAlgError", tdpy.errors[TD_E_LINALG]); /* as torch._C has it */
}

static void set_text(PyObject *exception, const char *name, const char *text)
{
    PyObject *value = text[0] ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace") : Py_NewRef(Py_None);
    if (!value || PyObject_SetAttrString(exception, name, value)) PyErr_Clear();
    Py_XDECREF(value);
}

/* Was it this very line? Then the traceback says so. */
static bool is_here(const char *where)
{
    const char *here = tdpy_site();
    return here && strcmp(here, where) == 0;
}

/* What users call an op whose name they never wrote: a program is made of ops, "linalg_inv_ex" for linalg.inv(). */
static const char *users_name(const char *op, char *out, size_t room)
{
    static const char *const tails[] = {"_ex", "_lu"}, family[] = "linalg_";
    if (strcmp(op, "bce_each") == 0) return "binary_cross_entropy";
    if (strcmp(op, "ctc_losses") == 0) return "ctc_loss";
    if (strncmp(op, family, sizeof family - 1) != 0) return op;
    int n = snprintf(out, room, "linalg.%s", op + sizeof family - 1);
    for (size_t k = 0; k < sizeof tails / sizeof tails[0] && n > 0 && (size_t)n < room; k++) {
        size_t tail = strlen(tails[k]);
        if ((size_t)n > tail && strcmp(out + n - tail, tails[k]) == 0) out[(size_t)n - tail] = 0;
    }
    return out;
}

/* `type` NULL: the class of the code. */
static void raise_error(const td_error *e, PyObject *type)
{
    char text[sizeof e->message + sizeof e->op + sizeof e->where + 64];
    bool here = !e->where[0] || is_here(e->where), named = e->op[0] && strncmp(e->message, e->op, strlen(e->op)) != 0;
    char of_op[sizeof e->op];
    const char *name = here && tdpy_asked() ? tdpy_asked() : users_name(e->op, of_op, sizeof of_op);
    int n = snprintf(text, sizeof text, "%s%s%s", named ? name : "", named ? "(): " : "", e->message);
    if (!here && n > 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, "\n  asked for at %s", e->where);
    if (!type) type = tdpy.errors[e->code > 0 && td_code_known(e->code) ? e->code : TD_E_INTERNAL];
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *exception = message ? PyObject_CallFunctionObjArgs(type, message, NULL) : NULL;
    Py_XDECREF(message);
    if (!exception) return;
    set_text(exception, "op", e->op);
    set_text(exception, "where", e->where);
    PyErr_SetObject(type, exception);
    Py_DECREF(exception);
}

/* NULL: the class of the code. */
static void *fail(PyObject *timeout, PyObject *not_found)
{
    td_error e = *td_last_error();
    td_clear_error();
    if (PyErr_Occurred()) return NULL;
    if (e.code == TD_E_LOST || e.code == TD_E_CANCELLED) tdpy_stand_still();
    if (!e.code) snprintf(e.message, sizeof e.message, "a call failed without a reason"), e.code = TD_E_INTERNAL;
    raise_error(&e, e.code == TD_E_TIMEOUT ? timeout : e.code == TD_E_NOT_FOUND ? not_found : NULL);
    return NULL;
}

void *tdpy_fail_as(PyObject *timeout)
{
    return fail(timeout, NULL);
}

void *tdpy_fail_to_open(void)
{
    return fail(tdpy.not_published, tdpy.not_published);
}

void *tdpy_fail(void)
{
    return tdpy_fail_as(NULL);
}

void tdpy_tell_later(bool raised_before)
{
    if (raised_before || !PyErr_Occurred()) return;
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_Clear();
        PyErr_SetInterrupt();
    } else {
        PyErr_WriteUnraisable(NULL);
    }
}

PyObject *tdpy_none(int rc)
{
    return rc || PyErr_Occurred() ? tdpy_fail() : Py_NewRef(Py_None);
}

void *tdpy_raise(int code, const char *format, ...)
{
    td_error e = {.code = code};
    va_list list;
    va_start(list, format);
    vsnprintf(e.message, sizeof e.message, format, list);
    va_end(list);
    raise_error(&e, NULL);
    return NULL;
}
