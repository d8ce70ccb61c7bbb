/* The inside of the extension module: what its files share. Built against Python's stable ABI from 3.11 on.
 *
 * A tensor object owns one td_array and no Python object, so it needs no garbage collection. Nobody here releases the
 * GIL by himself: the library steps aside before it waits (client/wire/aside.c), so every wait lets other threads run,
 * and Ctrl-C is looked for in every wait. Whoever fails has set a Python exception and returns NULL, false or -1. */
#ifndef TENSORD_CLIENT_PYTHON_SRC_PY_H
#define TENSORD_CLIENT_PYTHON_SRC_PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/tensord_bind.h"
#include "proto/base/device.h"

/* What is known here of an object's part in a graph, so that a write that must be refused is refused at once. */
typedef enum tdpy_part { TDPY_ANY, TDPY_LEAF, TDPY_VIEW_OF_LEAF } tdpy_part;

typedef struct tdpy_tensor {
    PyObject_HEAD td_array *array;
    PyObject *weak;
    char *name;     /* it was published or opened under, as far as this object knows; or NULL */
    bool plain;     /* was outside of every graph when it was made: see tdpy_is_plain() */
    bool fresh;     /* of a lease, and not handed out yet: nothing that was asked can look at its bytes */
    uint8_t part;   /* tdpy_part: it was made to require grad through this object, or is a view of one that was */
    uint32_t since; /* of `plain`: when that was known */
} tdpy_tensor;

typedef struct tdpy_dtype {
    PyObject_HEAD td_dtype code;
} tdpy_dtype;

/* One interpreter a process: the types, what is made once, and the connection. */
typedef struct tdpy_state {
    PyTypeObject *tensor, *dtype, *device, *lease;
    PyObject *dtypes[TD_DTYPE_COUNT];
    PyTypeObject *size, *followed;
    PyObject *devices[TD_MAX_DEVICES]; /* by number; NULL: not asked for yet */
    PyObject *errors[TD_CODE_COUNT];   /* exception classes by code */
    PyObject *not_published;           /* of td_open() and its like: TD_E_NOT_FOUND and TD_E_TIMEOUT */
    PyObject *package;                 /* the folder of the package, as a str; NULL until it is known */
    td_client *client;                 /* NULL: not connected yet; one whose daemon has gone may stand here */
    char *named;                       /* the socket that this program has named for it; NULL: none */
    uint64_t connections;              /* so far */
    uint32_t hooks, nodes;             /* numbers up to these were those of connections before */
    bool eager, eager_set;             /* set_eager_errors(), for each connection */
    bool another;                      /* its daemon is one of an unrelated program, which had a name that was opened */
    int64_t patience;                  /* the program ends: waits end then, in milliseconds of the monotonic clock */
    unsigned long ending;              /* the thread that ends it */
    td_dtype default_dtype;
    bool seeded; /* by the program, with `seed`: so is every daemon that it goes to */
    uint64_t seed;
} tdpy_state;
extern tdpy_state tdpy;

/* ---- module.c */
/* The program ends, and its daemon threads do not matter any more: as Python itself will make them in a moment, they
 * stand still here instead of failing for want of a connection. Does not return then. */
void tdpy_stand_still(void);
td_client *tdpy_client(void); /* connects when nobody has */
/* The same for who opens a name, which may be another program's; less time is left for it then. */
bool tdpy_wants_to_stop(void *ignored); /* asked in every wait */
td_client *tdpy_client_for(const char *name, int *timeout_ms);

/* ---- error.c */
bool tdpy_init_errors(PyObject *module);
/* Raise this thread's error of the library, or keep the exception that is set (Ctrl-C). Returns NULL. */
void *tdpy_fail(void);
/* The same, a deadline that passed as another class than Timeout, unless that is NULL. */
void *tdpy_fail_as(PyObject *timeout);
/* The same of an open: that nothing has the name is NotPublished, whether that was waited for or not. */
void *tdpy_fail_to_open(void);
/* At the end of what cannot raise (the end of an object): a signal's handler that raised meanwhile does so at the next
 * occasion. An exception that was on its way before stays. */
void tdpy_tell_later(bool raised_before);
/* None for TD_OK, else what tdpy_fail() raises; also when the call went well, but Ctrl-C came while it waited. */
PyObject *tdpy_none(int rc);
/* Raise the class of `code`. Returns NULL. */
void *tdpy_raise(int code, const char *format, ...);

/* ---- site.c */
/* "file:line" of the innermost frame outside of this package; lives for ever. NULL: nobody knows. */
const char *tdpy_site(void);
bool tdpy_at_home(void); /* Is it this package's own code that runs? */

/* ---- size.c */
bool tdpy_init_size(PyObject *module);
PyObject *tdpy_size_new(Py_ssize_t n); /* a Size of n items, which PyTuple_SetItem sets */

/* ---- types.c */
bool tdpy_init_types(PyObject *module);
PyObject *tdpy_dtype_object(td_dtype dtype); /* a new reference */
/* A dtype object or one of bool, int, float, complex; None gives TD_DTYPE_NONE. */
bool tdpy_as_dtype(PyObject *o, td_dtype *out);
bool tdpy_as_device(PyObject *o, int *device);      /* one that is here; None: -1 */
bool tdpy_is_here(int device);                      /* false: raised */
PyObject *tdpy_device(int number);                  /* a new reference; of -1: this thread's error */
td_array *tdpy_take_to(td_array *made, int device); /* takes `made` over; where it is to be; -1: where it is */

/* ---- tensor.c */
bool tdpy_init_tensor(PyObject *module);
static inline bool tdpy_is_tensor(PyObject *o)
{
    return Py_TYPE(o) == tdpy.tensor || PyObject_TypeCheck(o, tdpy.tensor);
}
static inline td_array *tdpy_array(PyObject *o)
{
    return ((tdpy_tensor *)o)->array;
}
/* A new object that owns `a`. NULL `a`: raises the library's error. NULL also when an exception is set already: Ctrl-C
 * came while `a` was asked for. */
PyObject *tdpy_wrap(td_array *a, bool plain);
/* An object of this class, made without its __init__; takes `a` over. */
PyObject *tdpy_wrap_as(PyTypeObject *type, td_array *a, bool plain);
/* Is it surely outside of every graph? */
bool tdpy_is_plain(PyObject *tensor);
void tdpy_set_plain(PyObject *tensor, bool plain);
void tdpy_some_entered(void); /* nobody knows which */
/* It was written in place with something of a graph, and so are all views of it, and what it is a view of. */
void tdpy_enter_graph(PyObject *tensor);
/* The same for what was made from `from` (two of them may be NULL). */
PyObject *tdpy_wrap_like(td_array *a, PyObject *from);
/* The same for a view of `from`. */
PyObject *tdpy_wrap_view(td_array *a, PyObject *from);
PyObject *tdpy_shape_of(td_array *a); /* a Size */
/* Does the tensor require grad? -1: an exception is set. */
int tdpy_requires_grad(PyObject *o);
/* The same for who asks otherwise: the moment before, and what the daemon said. */
uint32_t tdpy_moment(void);
bool tdpy_take_grad(PyObject *o, const td_info *info, uint32_t moment);
/* Keep the name it was published or opened under. */
bool tdpy_set_name(PyObject *o, const char *name);

/* ---- convert.c */
/* The name of an object's type, for messages; good until the next call. */
const char *tdpy_type_name(PyObject *o);
const char *tdpy_a_type(PyObject *o); /* with its article: "a float", "an int" */
/* A scalar of NumPy (not an array)? */
bool tdpy_is_numpy_scalar(PyObject *o);
/* A bool, int, float or complex, also NumPy's: 1; something else: 0; an exception: -1. */
int tdpy_as_number(PyObject *o, td_arg *out);
/* After an OverflowError of the above: a number below 2^64 as it lies in a uint64. The error stays if it is another. */
bool tdpy_as_above(PyObject *o, td_arg *out);
PyObject *tdpy_number(td_scalar s, td_dtype dtype);
/* Integers of an int or a sequence: how many were written to `out`, or -1. */
int tdpy_as_ints(PyObject *o, int64_t *out, int room, const char *function, const char *name);
/* The same, with a function that reads each one. */
typedef bool tdpy_take_int(PyObject *o, int64_t *out, const char *function, const char *name);
int tdpy_take_ints(tdpy_take_int *take, PyObject *o, int64_t *out, int room, const char *function, const char *name);
/* Seconds or None as milliseconds; None waits for ever. */
bool tdpy_as_timeout(PyObject *o, int *ms);
bool tdpy_as_int(PyObject *o, int64_t *out, const char *function, const char *name);
/* A flag: True or False and nothing that merely counts as such, as "no" would. NULL gives *out as it is. */
bool tdpy_as_bool(PyObject *o, bool *out, const char *function, const char *name);

/* ---- followed.c: numbers that the program of a trace follows */
bool tdpy_init_followed(PyObject *module);
bool tdpy_is_followed(PyObject *o);
/* The size of a dimension, or with -1 the count of elements, which is `is`: a followed number, or one of Python's. */
PyObject *tdpy_size_of(td_array *a, int dim, int64_t is);
td_ints tdpy_like(td_array *x);   /* the shape of x, for what is made of that shape */
PyObject *tdpy_used(PyObject *o); /* the plain number, which a warning tells */
/* For who gives it to an op: a followed number, or a traced tensor without dimensions, with its name in `im`: 1;
 * nothing such: 0; an exception: -1. Only whole numbers: the second. */
int tdpy_follow(PyObject *o, td_arg *out);
int tdpy_follow_int(PyObject *o, td_arg *out);
double tdpy_float_of(const td_arg *whole); /* the name of the same number as a float */
/* tdpy_as_ints() while a trace is on: those that it follows stand in `out` until td_trace_gone(out). */
int tdpy_follow_ints(PyObject *o, int64_t *out, int room, const char *function, const char *name);

/* ---- nested.c: tensor(data) */
/* A new array of nested data, buffers or tensors; TD_DTYPE_NONE: the dtype the data has. */
td_array *tdpy_from_data(PyObject *data, td_dtype dtype, int device); /* -1: where this thread makes things */
/* The same memory when numpy_memory() gave it, else a copy, as asarray() makes it of what is no tensor; where elements
 * lie on top of each other it is of what is in memory. */
td_array *tdpy_as_array(PyObject *data);
PyObject *tdpy_tensor_function(PyObject *module, PyObject *args, PyObject *kw);
PyObject *tdpy_asarray_function(PyObject *module, PyObject *args, PyObject *kw);

/* ---- buffer.c */
/* The dtype of a buffer's elements, or TD_DTYPE_NONE. */
td_dtype tdpy_dtype_of_format(const char *format, Py_ssize_t itemsize);
int tdpy_get_buffer(PyObject *self, Py_buffer *view, int flags);
void tdpy_release_buffer(PyObject *self, Py_buffer *view);
/* The address of the first element when all that was asked has ended; *writable: may it be written here? With `grad`
 * (or NULL) besides tdpy_requires_grad(), without a wait of its own where the address is asked for. NULL: raised. */
void *tdpy_data(PyObject *self, bool *writable, bool *grad);
extern PyMethodDef tdpy_buffer_methods[], tdpy_buffer_functions[];

/* ---- numpy.c */
extern PyMethodDef tdpy_numpy_functions[];

/* ---- handed.c: our memory in the hands of others */
typedef struct tdpy_handed {
    struct tdpy_handed *next, *prev;
    const unsigned char *at;
    size_t size;
    td_array *array; /* NULL: it has no bytes, and is in no list */
} tdpy_handed;
/* numpy.c: the block that NumPy has in which `size` bytes at `at` lie; its array is borrowed. */
bool tdpy_numpy_block(const void *at, size_t size, tdpy_handed *out);
/* `a`'s elements, the first of which lies at `at`, may be written by others until they are handed back. */
void tdpy_hand_out(tdpy_handed *h, td_array *a, const void *at);
void tdpy_hand_back(tdpy_handed *h);
void tdpy_hand_forget(tdpy_handed *h); /* the same when the interpreter has ended: nothing is released any more */
/* Who copies from there waits for all that was asked, which may write it. False: raised. */
bool tdpy_settle_handed(const void *at);
/* The elements at `at` (strides in elements) as a tensor without a copy, when they lie in memory that others have from
 * us. NULL: they do not, or cannot be seen so; no exception is set. */
td_array *tdpy_handed_view(const void *at, td_dtype dtype, td_ints shape, const int64_t *strides);

/* ---- spans.c */
/* The elements at `at` (strides in elements) into `out`, row after row. */
void tdpy_pack_rows(const void *at, size_t item, td_ints shape, const int64_t *strides, unsigned char *out);
/* Where elements lie on top of each other: a copy of what is in memory, seen so; NULL in `out`: it failed. False: they
 * do not. */
bool tdpy_copy_span(const void *at, td_dtype dtype, td_ints shape, const int64_t *strides, td_array **out);

/* ---- dlpack.c */
static inline bool tdpy_is_gpu(int device)
{
    return device >= TD_CUDA && device < TD_FAKE;
}
PyObject *tdpy_cuda_interface(PyObject *self, void *ignored); /* a getter */
extern PyMethodDef tdpy_dlpack_methods[];
PyObject *tdpy_from_dlpack(PyObject *module, PyObject *args, PyObject *kw);
/* An array of another library that speaks DLPack and not the buffer protocol, such as torch's. */
bool tdpy_is_foreign(PyObject *o);
int tdpy_set_parameter(PyObject *self, PyObject *value, void *closure);
typedef enum tdpy_way { TDPY_COPIED, TDPY_SHARED, TDPY_EITHER, TDPY_SPANNED } tdpy_way;
/* As an array of ours. TDPY_SHARED: NULL without an exception when it would have to be copied. TDPY_SPANNED: either,
 * and what lies on top of each other is copied as it lies. */
td_array *tdpy_from_foreign(PyObject *o, tdpy_way way);

/* ---- index.c */
PyObject *tdpy_getitem(PyObject *self, PyObject *key);
int tdpy_setitem(PyObject *self, PyObject *key, PyObject *value);
PyObject *tdpy_sequence_item(PyObject *self, Py_ssize_t i);
PyObject *tdpy_iterate(PyObject *self);
Py_ssize_t tdpy_length(PyObject *self);
int tdpy_contains(PyObject *self, PyObject *value);

/* ---- value.c */
PyObject *tdpy_item(PyObject *self, PyObject *ignored);
PyObject *tdpy_tolist(PyObject *self, PyObject *ignored);
PyObject *tdpy_list_of(td_array *a, const void *bytes); /* of its values, row-major */
int tdpy_truth(PyObject *self);
PyObject *tdpy_to_int(PyObject *self);
PyObject *tdpy_to_index(PyObject *self);
PyObject *tdpy_to_float(PyObject *self);
PyObject *tdpy_to_complex(PyObject *self, PyObject *ignored);

/* ---- autograd.c */
extern PyMethodDef tdpy_autograd_methods[], tdpy_autograd_functions[];
extern PyMethodDef tdpy_hook_functions[]; /* hooks.c */
PyObject *tdpy_get_grad(PyObject *self, void *ignored);
int tdpy_set_grad(PyObject *self, PyObject *value, void *ignored);
PyObject *tdpy_get_requires_grad(PyObject *self, void *ignored);
int tdpy_set_requires_grad(PyObject *self, PyObject *value, void *ignored);
/* What is made by a view op of `from` is a view of a leaf when that is one. */
static inline void tdpy_inherit_part(PyObject *view, PyObject *from)
{
    if (((tdpy_tensor *)from)->part && td_grad_enabled()) ((tdpy_tensor *)view)->part = TDPY_VIEW_OF_LEAF;
}
/* False, with PyTorch's words raised, when autograd forbids an op to write here (`view`: to write a part of it). */
bool tdpy_may_write(PyObject *self, bool view);

/* ---- share.c */
extern PyMethodDef tdpy_share_methods[], tdpy_share_functions[];
/* files.c */
extern PyMethodDef tdpy_file_functions[];

/* Whose tensors come out: those of tensord, or of torch over the same bytes (out="torch"). */
typedef enum tdpy_out { TDPY_OURS, TDPY_TORCH } tdpy_out;

/* ---- queue.c */
extern PyMethodDef tdpy_queue_functions[];
bool tdpy_init_queue(PyObject *module);
/* ---- group.c */
bool tdpy_init_group(PyObject *module);
td_queue *tdpy_raw_queue(PyObject *member); /* NULL: raised */
tdpy_out tdpy_queue_out(PyObject *member);

/* ---- program.c */
bool tdpy_init_program(PyObject *module);
td_program *tdpy_program(PyObject *o);            /* of a _Program; NULL: raised */
PyObject *tdpy_program_object(td_program *p);     /* takes it over; NULL: raised */
bool tdpy_values(PyObject *tuple, td_value *out); /* to be freed, also when it fails */
PyObject *tdpy_value_object(td_value *v);         /* takes its arrays over */
/* After a call was asked for with these: what is known of objects may hold no longer. */
void tdpy_program_called(const td_program *p, PyObject *args);
struct td_ir;
struct td_ir *tdpy_read_ir(const char *text, Py_ssize_t n); /* of a text, verified; NULL: raised */
PyObject *tdpy_captured_names(const struct td_ir *ir);      /* a tuple */
/* program_names.c */
extern PyMethodDef tdpy_program_names[];

/* ---- model.c */
enum { TDPY_MODEL_ENDS = 256 }; /* inputs, and outputs */
bool tdpy_init_model(PyObject *module);
td_model *tdpy_model(PyObject *o); /* of a _Model; NULL: raised */
/* The tensors of a tuple, with a reference each; false: raised. */
bool tdpy_model_inputs(PyObject *tuple, td_array **at, int *n);
void tdpy_release_all(td_array **at, int n);
PyObject *tdpy_model_outputs(td_array **at, int n); /* a list; takes them over */

/* ---- trace.c */
bool tdpy_init_trace(PyObject *module);

/* ---- aio.c */
extern PyMethodDef tdpy_aio_functions[];
bool tdpy_init_aio(PyObject *module);

/* ---- module.c */
/* A table as a list of dicts; takes it over. */
PyObject *tdpy_rows(td_table *t);

/* ---- item.c */
enum { TDPY_FEW = 8 };
typedef struct tdpy_packed {
    unsigned char *bytes; /* `small`, or of the heap */
    size_t size, capacity;
    int tensors, places, keys; /* keys: within so many keys of dicts, or sets */
    td_array **at;             /* `few_at`, or of the heap, as ... */
    PyObject **objects;        /* ... which of Python's each is; NULL: of an array of NumPy */
    td_array *few_at[TDPY_FEW];
    PyObject *few_objects[TDPY_FEW];
    PyObject *steps; /* on the way back from what failed: a list */
    unsigned char small[512];
} tdpy_packed;
/* What a queue carries as bytes and tensors, to be cleared. False: raised, and there is nothing to clear. */
bool tdpy_pack_item(tdpy_packed *item, PyObject *x);
void tdpy_packed_clear(tdpy_packed *item);
/* And back. */
PyObject *tdpy_unpack_item(const td_queue_item *item, tdpy_out out);
/* "torch" or "tensord"; None or NULL: the latter. */
bool tdpy_as_out(PyObject *o, tdpy_out *out);
/* Takes t over. */
PyObject *tdpy_out_of(PyObject *t, tdpy_out out);

/* ---- call.c: functions of the op table and of surface.toml */
enum { TDPY_MAX_ARGS = 16 };

typedef enum tdpy_kind {
    TDPY_TENSOR,
    TDPY_OPTIONAL,      /* a tensor or None */
    TDPY_NUMBER,        /* a tensor or a number */
    TDPY_LIST,          /* tensors */
    TDPY_OPTIONAL_LIST, /* tensors, some None */
    TDPY_INT,
    TDPY_FLOAT,
    TDPY_BOOL,
    TDPY_SCALAR,
    TDPY_DTYPE,
    TDPY_INTS,
    TDPY_TEXT
} tdpy_kind;

/* Of a creation function's call: the connection and the shape, those of x. */
#define TDPY_LIKE(x) td_client_of(x), tdpy_like(x)

typedef struct tdpy_param {
    const char *name, *alias; /* alias: a second keyword, or NULL */
    uint8_t kind;             /* tdpy_kind */
    bool optional;            /* None is taken */
    bool has_default;
    td_arg value; /* the default of a number, TD_ARG_NONE for None */
    td_ints ints;
    const char *const *choices; /* words that stand for 0, 1, ..., NULL at their end; or NULL */
} tdpy_param;

typedef struct tdpy_value {
    td_arg arg;
    td_ints ints;
    td_list list;
    td_dtype dtype;
    const char *text;
} tdpy_value;

enum {
    TDPY_CREATION = 1,
    TDPY_OUT = 2,
    TDPY_WRITES = 4,
    TDPY_LIST_RESULT = 8,
    TDPY_PLACED = 16,      /* inplace=True is taken */
    TDPY_SAVES = 32,       /* the gradient wants the first tensor itself */
    TDPY_FIRST = 64,       /* of several results the first is the function's */
    TDPY_LAID = 1024,      /* memory_format= is taken */
    TDPY_WAITS = 131072,   /* it may fail for what its tensors hold: the call waits for the result */
    TDPY_AVERAGES = 32768, /* size_average= and reduce= are taken, where PyTorch has them */
    TDPY_RENAMED = 65536,  /* the op has another name, which errors do not say */
    /* what out= has to be: of the very dtype of the result (which is not always that of the first tensor), and
     * apart from all inputs, or from all but the first */
    TDPY_OUT_EXACT = 2048,
    TDPY_OUT_MADE = 4096,
    TDPY_OUT_APART = 8192,
    TDPY_OUT_APART_REST = 16384,
    /* what autocast makes of floats */
    TDPY_CASTS_LOWER = 128,
    TDPY_CASTS_FLOAT32 = 256,
    TDPY_CASTS_WIDEST = 512,
    TDPY_CASTS = TDPY_CASTS_LOWER | TDPY_CASTS_FLOAT32 | TDPY_CASTS_WIDEST
};

/* Several results: their names, and the type of tuples that have these, once one was made. */
typedef struct tdpy_results {
    const char *const *names;
    PyTypeObject *type;
} tdpy_results;

typedef struct tdpy_function {
    const char *name;
    uint16_t op;                                                         /* id, or 0 */
    bool (*run)(const char *where, const tdpy_value *v, td_array **out); /* when it is no op */
    uint8_t nparams, positional, nouts;                                  /* positional: so many may be given by place */
    int8_t varargs; /* index of the integers that may be separate arguments, or -1 */
    uint32_t flags;
    const tdpy_param *params;
    PyObject **keys;    /* interned names and aliases, two for each parameter */
    tdpy_results *outs; /* NULL: there is one */
} tdpy_function;

/* Of the generated functions: the table ends with a NULL. */
extern tdpy_function *const tdpy_all_functions[];
extern PyMethodDef tdpy_op_functions[], tdpy_op_methods[], tdpy_raw_functions[], tdpy_layer_functions[];
extern tdpy_function tdpy_fn_view, tdpy_op_view_dtype, tdpy_fn_add, tdpy_fn_sub, tdpy_fn_mul, tdpy_op_div,
    tdpy_fn_floor_divide, tdpy_fn_remainder, tdpy_fn_pow, tdpy_fn_matmul, tdpy_fn_bitwise_and, tdpy_fn_bitwise_or,
    tdpy_fn_bitwise_xor, tdpy_fn_bitwise_left_shift, tdpy_fn_bitwise_right_shift, tdpy_fn_neg, tdpy_fn_abs,
    tdpy_fn_bitwise_not, tdpy_fn_eq, tdpy_fn_ne, tdpy_fn_lt, tdpy_fn_le, tdpy_fn_gt, tdpy_fn_ge;

/* A function of METH_FASTCALL | METH_KEYWORDS. */
typedef PyObject *tdpy_caller(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);

bool tdpy_init_functions(PyObject *module);
/* Call with the arguments of a METH_FASTCALL | METH_KEYWORDS function; `self` may stand before them. */
PyObject *tdpy_call(tdpy_function *f, bool in_place, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
/* The function that the program called, when that one is made of others; or NULL. Errors bear its name. */
const char *tdpy_asked(void);
/* Is out= among these keywords? */
bool tdpy_has_out(PyObject *kw);
/* f(..., out=y) of a function that makes its results first: without out it is called, then they are written to y. What
 * creates takes the dtype from y. */
PyObject *tdpy_into(tdpy_caller *f, const char *name, unsigned flags, PyObject *const *args, Py_ssize_t n,
                    PyObject *kw);

/* A name that lives in Python. */
typedef struct {
    const char *name, *module;
    const char *attribute; /* its name in the module; NULL: the module itself */
    PyObject *imported;    /* the module, from the first use on */
} tdpy_name;

/* Sorted by name (python_names.c). */
typedef struct {
    size_t n;
    tdpy_name *at;
} tdpy_names;

extern const tdpy_names tdpy_shown;  /* what the package finds when it is asked for */
extern const tdpy_names tdpy_called; /* what this module calls */
extern PyMethodDef tdpy_name_functions[];
/* What tdpy_called has; its module is imported at the first use. */
PyObject *tdpy_python(const char *name);
/* tdpy_call() of a function of that table. */
PyObject *tdpy_forward(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
/* The same, of a function that has another name in Python than `name`, by which errors call it. */
PyObject *tdpy_forward_as(const char *name, const char *called, PyObject *self, PyObject *const *args, Py_ssize_t n,
                          PyObject *kw);
/* The same of what makes a tensor, which may be asked for in a layout and a memory format. */
PyObject *tdpy_create(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
/* _as(name, function, *args, **kw): the call; errors name what is called so, not what that is made of. */
PyObject *tdpy_as(PyObject *module, PyObject *all, PyObject *kw);

/* ---- fails.c */
/* Of a function with TDPY_WAITS: `result`, when it is there; NULL: the error is raised, and `result` gone. */
PyObject *tdpy_when_made(const tdpy_function *f, const tdpy_value *v, PyObject *result);

/* ---- default.c: the default dtype */
enum { TDPY_DEFAULT_ROOM = 4 };
typedef struct tdpy_defaults {
    int n;
    td_array *made[TDPY_DEFAULT_ROOM]; /* what stands for whole numbers until the call is over */
} tdpy_defaults;
/* Whole numbers that this call would make float32 are made the default dtype instead. Clear in any case. */
bool tdpy_use_default(tdpy_defaults *d, const char *where, const td_op *op, int nin, td_arg *in, const td_attrs *attrs);
void tdpy_defaults_clear(tdpy_defaults *d);

/* ---- autocast.c */
/* What this thread's autocast makes of the floats of a call, while it lasts. */
typedef struct tdpy_casts {
    int n;
    td_array **made;
} tdpy_casts;
/* Puts them in place of those in `v` and of the n of a list. Clear in any case. False: an error is set. */
bool tdpy_cast(tdpy_casts *c, const tdpy_function *f, const char *where, tdpy_value *v, int n, td_array **arrays);
void tdpy_casts_clear(tdpy_casts *c);
/* _autocast(dtype | None, gpu): what ops on a GPU, or elsewhere, cast to from now on in this thread, or nothing; returns
 * what they did before. */
PyObject *tdpy_set_autocast(PyObject *module, PyObject *args);
PyObject *tdpy_get_autocast(PyObject *module, PyObject *args);

/* ---- operators.c */
#define TDPY_OPERATOR_SLOTS 32
extern PyType_Slot tdpy_operator_slots[];
PyObject *tdpy_compare(PyObject *a, PyObject *b, int how);

#endif
