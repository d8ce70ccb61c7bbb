/* NumPy's own allocations in shared memory (NEP 49): a handler that NumPy asks for memory, and tensors over what it
 * got.
 *
 * A block is the memory of a tensor of bytes, which lives until NumPy frees the block; a tensor that asarray() makes of
 * an array is a view of it (handed.c), and keeps the memory when the array has gone. What is small, what the daemon has
 * no room for, and what an array grows into is ordinary memory: NumPy never hears of an error. The blocks are guarded
 * by the GIL, which is taken here, since NumPy frees from any thread.
 *
 * NumPy's headers are not needed: the handler's layout is fixed by NEP 49, and the places of three functions in the
 * table of NumPy's C API have been the same since 1.22. */
#include "client/python/src/py.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 32 << 10 }; /* below this the bytes travel with the ops, which costs less than a lease */

typedef struct block {
    unsigned char *at;
    size_t size;
    td_array *array; /* all of it as bytes */
} block;

static void *blocks; /* a tree, by address */

/* Pieces that overlap are equal: a key finds the block that it lies in. */
static int compare(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->at + x->size <= y->at) return -1;
    return y->at + y->size <= x->at;
}

static block *find(const void *at, size_t size)
{
    block key = {(unsigned char *)(uintptr_t)at, size, NULL};
    block **found = tfind(&key, &blocks, compare);
    return found ? *found : NULL;
}

/* ---- the interpreter while NumPy wants memory -------------------------------------------------------------------- */

/* NumPy may be handling an exception, and may have put down the GIL. When the program ends, Python has no GIL to give:
 * the thread that ends it is then the only one. */
typedef struct guest {
    bool locked;
    PyGILState_STATE gil;
    PyObject *type, *value, *trace;
} guest;

static guest enter(void)
{
    guest g = {.locked = Py_IsInitialized()};
    if (g.locked) g.gil = PyGILState_Ensure();
    if (g.locked) PyErr_Fetch(&g.type, &g.value, &g.trace);
    return g;
}

typedef struct postponed {
    PyObject *type, *value, *trace;
} postponed;

static int raise_now(void *arg)
{
    postponed *p = arg;
    PyErr_Restore(p->type, p->value, p->trace);
    free(p);
    return -1;
}

/* Ctrl-C came while we waited. NumPy gets its memory all the same; the exception comes when it is done. */
static void postpone_exception(void)
{
    postponed *p = malloc(sizeof *p);
    if (!p) return PyErr_Clear();
    PyErr_Fetch(&p->type, &p->value, &p->trace);
    if (Py_AddPendingCall(raise_now, p) == 0) return;
    PyErr_Restore(p->type, p->value, p->trace);
    PyErr_WriteUnraisable(NULL);
    free(p);
}

static void leave(guest g)
{
    if (!g.locked) return;
    if (PyErr_Occurred()) postpone_exception();
    PyErr_Restore(g.type, g.value, g.trace);
    PyGILState_Release(g.gil);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Leased, announced as a tensor of bytes, and in the tree; NULL: there is none to be had. */
static void *new_block(size_t size)
{
    td_client *c = tdpy.client;
    if (!c || size > INT64_MAX) return NULL;
    td_lease *lease = td_lease_at_once(c, size);
    unsigned char *at = td_lease_data(lease);
    block *b = at ? malloc(sizeof *b) : NULL;
    td_array *all = b ? td_keep(td_put(lease, 0, TD_UINT8, td_dims((int64_t)size))) : NULL;
    td_lease_free(lease);
    if (all) {
        *b = (block){at, size, all};
        if (tsearch(b, &blocks, compare)) return at;
    }
    td_release(all);
    free(b);
    td_clear_error();
    return NULL;
}

/* False: not one of ours. */
static bool free_block(void *p)
{
    block *b = find(p, 1);
    if (!b) return false;
    td_array *all = b->array;
    tdelete(b, &blocks, compare);
    free(b);
    td_release(all); /* may let other threads run */
    return true;
}

/* ---- what NumPy calls -------------------------------------------------------------------------------------------- */

static void *shared_or_null(size_t size)
{
    if (size < SMALLEST) return NULL;
    guest g = enter();
    void *p = g.locked ? new_block(size) : NULL;
    leave(g);
    return p;
}

static void *numpy_malloc(void *context, size_t size)
{
    (void)context;
    void *p = shared_or_null(size);
    return p ? p : malloc(size);
}

static void *numpy_calloc(void *context, size_t n, size_t each)
{
    (void)context;
    void *p = each && n > SIZE_MAX / each ? NULL : shared_or_null(n * each);
    return p ? memset(p, 0, n * each) : calloc(n ? n : 1, each ? each : 1);
}

static void numpy_free(void *context, void *p, size_t size)
{
    (void)context, (void)size;
    if (!p) return;
    guest g = enter();
    bool ours = free_block(p);
    leave(g);
    if (!ours) free(p);
}

static void *numpy_realloc(void *context, void *p, size_t size)
{
    guest g = enter();
    const block *b = p ? find(p, 1) : NULL;
    size_t before = b ? b->size : 0;
    leave(g);
    if (!b) return realloc(p, size);
    void *grown = malloc(size);
    if (!grown) return NULL;
    memcpy(grown, p, before < size ? before : size);
    numpy_free(context, p, before);
    return grown;
}

/* As NEP 49 lays it out. Arrays hold a capsule with its address until they have freed their memory by it. */
static struct handler {
    char name[127];
    uint8_t version;
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t n, size_t each);
    void *(*realloc)(void *context, void *p, size_t size);
    void (*free)(void *context, void *p, size_t size);
} handler = {"tensord", 1, NULL, numpy_malloc, numpy_calloc, numpy_realloc, numpy_free};

/* ---- NumPy's table of functions ---------------------------------------------------------------------------------- */

enum { ABI_VERSION = 0, FEATURE_VERSION = 211, SET_HANDLER = 304 }; /* places in the table */
enum { ABI_1 = 0x01000009, ABI_2 = 0x02000000, FEATURES_1_22 = 0x0f };

static PyObject *numpy_core(void)
{
    PyObject *m = PyImport_ImportModule("numpy._core._multiarray_umath");
    if (m || !PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) return m;
    PyErr_Clear();
    return PyImport_ImportModule("numpy.core._multiarray_umath"); /* before 2.0 */
}

/* The table of a NumPy that has handlers where we look for them; NULL: raised. */
static void **numpy_table(void)
{
    static void **known;
    if (known) return known;
    PyObject *m = numpy_core(), *capsule = m ? PyObject_GetAttrString(m, "_ARRAY_API") : NULL;
    void **table = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    Py_XDECREF(capsule);
    Py_XDECREF(m);
    if (!table) return NULL;
    unsigned abi = ((unsigned (*)(void))table[ABI_VERSION])();
    if (abi != ABI_1 && abi != ABI_2)
        return tdpy_raise(TD_E_UNSUPPORTED,
                          "numpy_memory() knows the C interface of NumPy 1.22 to 2.x; this NumPy has version %#x of it",
                          abi);
    unsigned features = ((unsigned (*)(void))table[FEATURE_VERSION])();
    if (features < FEATURES_1_22)
        return tdpy_raise(TD_E_UNSUPPORTED, "numpy_memory() needs NumPy 1.22 or later, which lets others give memory");
    return known = table;
}

/* _numpy_handler(capsule or None): the handler of this context from here on, None for ours; returns the one before. */
static PyObject *set_handler(PyObject *module, PyObject *wanted)
{
    (void)module;
    void **table = numpy_table();
    if (!table || (wanted == Py_None && !tdpy_client())) return NULL;
    PyObject *capsule = wanted == Py_None ? PyCapsule_New(&handler, "mem_handler", NULL) : Py_NewRef(wanted);
    PyObject *before = capsule ? ((PyObject * (*)(PyObject *)) table[SET_HANDLER])(capsule) : NULL;
    Py_XDECREF(capsule);
    return before;
}

bool tdpy_numpy_block(const void *at, size_t size, tdpy_handed *out)
{
    const block *b = blocks ? find(at, 1) : NULL;
    if (!b || size > b->size - (size_t)((const unsigned char *)at - b->at)) return false;
    *out = (tdpy_handed){.at = b->at, .size = b->size, .array = b->array};
    return true;
}

/* _numpy_bytes(address, size): the bytes there as a tensor, or None: they are not from us. */
static PyObject *bytes_at(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long at;
    long long size;
    if (!PyArg_ParseTuple(args, "KL", &at, &size)) return NULL;
    td_array *a = tdpy_handed_view((void *)(uintptr_t)at, TD_UINT8, td_dims(size), (int64_t[]){1});
    return a ? tdpy_wrap(a, true) : Py_NewRef(Py_None);
}

PyMethodDef tdpy_numpy_functions[] = {{"_numpy_handler", set_handler, METH_O, NULL},
                                      {"_numpy_bytes", bytes_at, METH_VARARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
