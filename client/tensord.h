/* tensord.h: tensors that live in a daemon, seen from a C or C++ program.
 *
 *     td_client *c = td_connect(NULL);                            // the user's daemon, or a private one
 *     td_array *x = td_full(c, td_dims(2, 3), 1.5, TD_FLOAT32);
 *     td_array *y = td_add(td_mul(x, 2), x);                      // sent in batches, computed in the daemon
 *     double s = td_item_f64(td_sum(y));                          // waits for the value: 27
 *
 * A td_array is a handle on a tensor of the daemon. Its dtype, shape and strides are known here without asking, because
 * shapes are inferred on both sides: a shape that does not fit is an error at the call. Values are computed later; an
 * error that only the daemon sees (an index out of range, memory full) surfaces at the next read, item, data or sync
 * that needs the value, and names the op and the line of your program that asked for it. An op in place that failed is
 * told by the next use of what it should have written, a backward by the next td_grad, once: then all is as before it.
 * Others who have the tensor never hear of it; only what a kernel had begun to write is lost for everybody.
 *
 * Errors. A function that makes something returns NULL when it fails; the others return a td_code, 0 for success.
 * td_last_error() has the code and the words, for each thread. Where an array is expected, NULL is passed on: the call
 * fails and the first error stays, so that a whole expression can be checked at its end. Nothing here prints, exits,
 * touches signal handlers or starts a thread.
 *
 * Ownership. The result of a function is yours: td_release() it, or make it inside a td_scope, which releases all at
 * its end. Arguments are never taken over, except where a comment says so. NULL may be released.
 *
 * Threads. Any number of threads may use one client; each call is whole. Modes (td_set_grad_enabled, ...), scopes and
 * the last error are each thread's own. A call that waits for what others do (td_open and the queues with a timeout)
 * holds up nobody, so those others may be threads of the same client. td_write_begin waits in the stream.
 *
 * fork(): the child's handles stay valid and its client is one of its own. Memory that was mapped stays mapped. A lease
 * stays the parent's: the child can free it, and put nothing into it. With vfork() and posix_spawn() nothing happens.
 *
 * The ops themselves (td_add, td_sum, ...) are in client/tensord_ops.h, made from the op table. C needs C11 with GNU
 * expressions (gcc, clang), C++ needs C++11. */
#ifndef TENSORD_H
#define TENSORD_H

#include "proto/types.h"

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

#if defined(__GNUC__)
#define TD_API __attribute__((visibility("default")))
#else
#define TD_API
#endif

typedef struct td_client td_client; /* a connection */
typedef struct td_array td_array;   /* a handle on a tensor */

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* The last error of this thread; code 0 when there was none since td_clear_error(). Never NULL. */
TD_API const td_error *td_last_error(void);
TD_API void td_clear_error(void);
/* "shape", "memory", ... and "TD_E_SHAPE", ... */
TD_API const char *td_error_name(int code);
TD_API const char *td_error_symbol(int code);

/* ---- connection -------------------------------------------------------------------------------------------------- */

/* Connect to the daemon at `path`. NULL: to $TENSORD_SOCKET; else to the private daemon of this program, which is that
 * of this process or of the nearest above it that has one; else to the user's running daemon
 * ($XDG_RUNTIME_DIR/tensord/socket, or /tmp/tensord-UID/socket, or, where somebody else has made that directory,
 * .tensord/socket in the home directory); else to a private daemon that is started ($TENSORD_DAEMON, the tensord beside
 * this library, or the one on PATH). It belongs to the program's root, the topmost process above this one that runs the
 * same executable (up to a shell at a terminal), so siblings and parents find it, too; it ends when the root and the
 * last client have gone, and no queue keeps items any more. NULL on failure.
 *
 * A daemon that ends takes its tensors, names and queues along: every call of its clients, and every op with one of
 * their handles, is TD_E_LOST from then on, with whose daemon it was. td_connect() then makes another connection. */
TD_API td_client *td_connect(const char *path);
/* Limits of the private daemon that a connection of this program starts; 0: the daemon's own choice (tensord(8)), or
 * what TENSORD_MEMORY, TENSORD_SESSION_MEMORY and TENSORD_WORKERS say in the environment. */
typedef struct td_limits {
    uint64_t memory, session_memory; /* bytes: of shared memory in all, and for one client */
    int workers;                     /* threads that compute */
} td_limits;
/* From the next connection on, of whichever thread: call it before the first. td_connect() of a daemon that runs
 * already, and has another memory, is TD_E_EXISTS then. NULL: nothing is said any more. */
TD_API void td_set_limits(const td_limits *limits);
/* End the connection. Handles that are still held become useless but must be released all the same. NULL is fine. */
TD_API void td_disconnect(td_client *client);

/* Where the daemon listens: what another process connects to. */
TD_API const char *td_socket_path(const td_client *client);
TD_API const char *td_daemon_version(const td_client *client);
TD_API uint32_t td_daemon_pid(const td_client *client);
TD_API uint32_t td_session(const td_client *client); /* this connection's number, as tensorctl shows it */
TD_API const char *td_version(void);                 /* of this library */

/* Send what is batched; does not wait. Every call that waits does it by itself. */
TD_API int td_flush(td_client *client);
/* Wait until everything asked so far has ended. Fails with the first error that was not told yet. */
TD_API int td_sync(td_client *client);
/* Each call waits for what becomes of it, and fails with it: so an error comes at the line that caused it, and not
 * where a value is needed. For looking for errors, at the price of a round trip a call. Also by
 * $TENSORD_EAGER_ERRORS=1. */
TD_API void td_set_eager_errors(td_client *client, bool on);
TD_API bool td_eager_errors(const td_client *client);
/* Ops that are batched before they are sent on their own; 1 sends each at once. Default 256. */
TD_API void td_set_batch(td_client *client, unsigned ops);
/* `stop` is called every tenth of a second while a call waits, and after a signal; true makes the call
 * fail with TD_E_CANCELLED. An item that comes at that moment lies where it lay in its queue again. NULL for none. */
TD_API void td_set_interrupt(td_client *client, bool (*stop)(void *), void *context);
/* For bindings of languages that hold a lock while they run. `leave` is called before a thread waits (for the daemon,
 * or for a call of another thread) and puts that lock down; `come_back` gets what it returned, when the call is over
 * or `stop` is to be asked. Set once, before the first td_connect; every thread that uses the library must hold the
 * lock. Between the two a thread may wait as long as it takes. */
TD_API void td_set_wait_hooks(void *(*leave)(void), void (*come_back)(void *state));

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* An array or a number, where an op takes either, and an optional number. td_add(x, y), td_add(x, 5), td_add(x, 2.5),
 * td_add(x, td_complex(0, 1)) are all written as they read; td_none() says "not given". C's `true` is an int: say
 * td_bool(true). */
typedef enum td_arg_kind {
    TD_ARG_NONE = 0,
    TD_ARG_ARRAY = 1,
    TD_ARG_BOOL,
    TD_ARG_INT,
    TD_ARG_FLOAT,
    TD_ARG_COMPLEX
} td_arg_kind;
typedef struct td_arg {
    td_arg_kind kind;
    union {
        td_array *array;
        int64_t i;
        double re;
    };
    double im;
} td_arg;

/* A list of integers: td_dims(2, 3) is one that lives to the end of the statement (C++) or block (C); td_dims() is the
 * empty list (the shape of a scalar), td_no_dims() "not given" (for a reduction: over all dimensions). */
typedef struct td_ints {
    int n;
    const int64_t *at;
} td_ints;

/* A list of arrays: td_arrays(x, y, z). */
typedef struct td_list {
    int n;
    td_array *const *at;
} td_list;

static inline td_arg td_none(void)
{
    td_arg a;
    a.kind = TD_ARG_NONE, a.i = 0, a.im = 0;
    return a;
}
static inline td_arg td_arg_array(td_array *v)
{
    td_arg a;
    a.kind = TD_ARG_ARRAY, a.array = v, a.im = 0;
    return a;
}
static inline td_arg td_arg_void(const void *v)
{
    td_arg a;
    a.kind = TD_ARG_ARRAY, a.array = (td_array *)v, a.im = 0;
    return a;
}
static inline td_arg td_arg_bool(bool v)
{
    td_arg a;
    a.kind = TD_ARG_BOOL, a.i = v, a.im = 0;
    return a;
}
static inline td_arg td_arg_int(int64_t v)
{
    td_arg a;
    a.kind = TD_ARG_INT, a.i = v, a.im = 0;
    return a;
}
static inline td_arg td_arg_float(double v)
{
    td_arg a;
    a.kind = TD_ARG_FLOAT, a.re = v, a.im = 0;
    return a;
}
static inline td_arg td_arg_scalar(td_scalar v)
{
    td_arg a;
    a.kind = (td_arg_kind)((int)TD_ARG_BOOL + (int)v.kind), a.im = v.im;
    if (v.kind >= TD_S_FLOAT) a.re = v.re;
    else a.i = v.i;
    return a;
}
static inline td_arg td_arg_same(td_arg v)
{
    return v;
}
static inline td_ints td_no_dims(void)
{
    td_ints l = {0, NULL};
    return l;
}
/* `n` integers at `v`, when the list is not written out. */
static inline td_ints td_dims_of(int n, const int64_t *v)
{
    static const int64_t none = 0;
    td_ints l = {n, n ? v : &none};
    return l;
}
static inline td_list td_arrays_of(int n, td_array *const *v)
{
    td_list l = {n, v};
    return l;
}

/* File and line of a call: what errors say as `where`. Define TD_HERE before including this to say something else. */
#ifndef TD_HERE
#define TD_TEXT_(x) #x
#define TD_TEXT(x) TD_TEXT_(x)
#define TD_HERE __FILE__ ":" TD_TEXT(__LINE__)
#endif

/* ---- handles ----------------------------------------------------------------------------------------------------- */

TD_API td_array *td_retain(td_array *a); /* one more td_release() to come; returns it */
TD_API void td_release(td_array *a);
TD_API td_client *td_client_of(const td_array *a);

/* Known here, without asking the daemon. Only the result of an op whose shape depends on values (nonzero,
 * masked_select) makes the first of these wait; on failure the dtype is TD_DTYPE_NONE, the numbers are -1 and the
 * pointers NULL. */
TD_API td_dtype td_dtype_of(td_array *a);
TD_API int td_device_of(td_array *a); /* its number; -1 on failure */
TD_API int td_ndim(td_array *a);
TD_API int64_t td_size(td_array *a, int dim); /* negative dims count from the end */
TD_API const int64_t *td_shape(td_array *a);
/* In elements. Results lie row by row, but for views, and for images whose channels lie last (strides[1] == 1): what is
 * made of those by pointwise ops, convolutions, pools and the like lies so, too. */
TD_API const int64_t *td_strides(td_array *a);
TD_API int64_t td_numel(td_array *a);
TD_API int64_t td_nbytes(td_array *a); /* of its value: numel times the size of an element */
TD_API bool td_is_contiguous(td_array *a);
TD_API const char *td_device_text(int device);  /* "cpu", "cuda:0" */
TD_API int td_device_by_text(const char *text); /* "cuda" is "cuda:0"; -1: it names none */
/* Has the daemon that device? 0, or TD_E_UNSUPPORTED with what it has. */
TD_API int td_check_device(const td_client *client, int device);
TD_API size_t td_element_size(td_dtype dtype);
TD_API const char *td_dtype_text(td_dtype dtype); /* "float32" */

/* A scope releases at its end what this thread made since its begin, except what was kept. Scopes nest; they are
 * ended in the opposite order, by the thread that began them. An array in a scope is kept or given away by that
 * thread; another that wants to go on with it takes a reference of its own (td_retain).
 *
 *     td_scope s;
 *     td_scope_begin(&s);
 *     td_array *loss = td_mean(td_square(td_sub(td_matmul(x, w), y)));
 *     td_backward(loss);
 *     td_scope_end(&s);
 */
typedef struct td_scope {
    struct td_scope *outer;
    td_array *first;
} td_scope;
TD_API void td_scope_begin(td_scope *scope);
TD_API void td_scope_end(td_scope *scope);
/* Take an array out of its scope: it is yours again. Returns it; NULL stays NULL. */
TD_API td_array *td_keep(td_array *a);

/* ---- values in --------------------------------------------------------------------------------------------------- */

/* A tensor of the given shape with a copy of the row-major values at `data` (as many bytes as shape and dtype say). */
TD_API td_array *td_from_data(td_client *client, td_dtype dtype, td_ints shape, const void *data);

/* Shared memory to fill in place: no copy is made of what is put. A lease of `bytes` gives warm memory; each td_put
 * announces a part of it as a tensor (byte offset a multiple of the element size), without a round trip. Free the lease
 * when all is put; what was put lives on, and all of it as long as one part does. Parts are views of one storage and
 * share its version: to write one in place counts as a write to all. Do not write to a part that was put.
 * The next lease of the same size is fetched ahead. */
typedef struct td_lease td_lease;
TD_API td_lease *td_lease_new(td_client *client, size_t bytes);
TD_API void *td_lease_data(td_lease *lease);
TD_API size_t td_lease_size(const td_lease *lease);
TD_API td_array *td_put(td_lease *lease, size_t offset, td_dtype dtype, td_ints shape);
TD_API void td_lease_free(td_lease *lease);

/* A tensor over what a descriptor holds, from byte `offset` (a multiple of the element size) on. A memfd that is sealed
 * against shrinking (F_SEAL_SHRINK) is mapped by the daemon: the very bytes, which the caller may go on writing as with
 * td_write_begin(); ops write to it only when it is open for writing and not sealed against that. A regular file is
 * read into shared memory. Anything else is refused. The descriptor stays the caller's and may be closed at once. */
TD_API td_array *td_import(td_client *client, int fd, size_t offset, td_dtype dtype, td_ints shape);

/* ---- values out -------------------------------------------------------------------------------------------------- */

/* Copy the value, row-major, into `buffer` of exactly td_nbytes(a) bytes. A value on another device is brought by a
 * copy on the way, as by td_to_device(a, TD_CPU); td_data() and td_write_begin() want one that was brought. */
TD_API int td_read(td_array *a, void *buffer, size_t bytes);
/* The value of a one-element tensor. The short forms give NaN and INT64_MIN on failure. */
TD_API int td_item(td_array *a, td_scalar *out);
TD_API double td_item_f64(td_array *a);
TD_API int64_t td_item_i64(td_array *a);
/* The very bytes, without a copy: the address of the first element, td_strides() apart from the others. Waits until
 * what was asked before has been written. Good as long as the handle; read-only. NULL on failure. */
TD_API const void *td_data(td_array *a);
/* Of a tensor on a GPU: the same, as an address of the device in this process, which kernels of this process may read
 * and write. The memory is mapped once, as long as a handle needs it; the process gets a context of CUDA by that (the
 * primary one, some hundred MB of the GPU). Nothing orders these kernels and ops: the caller synchronises its stream
 * before it asks for an op. NULL on failure, and of a tensor without elements. */
TD_API void *td_cuda_data(td_array *a);
/* The same for writing. Waits for everything pending on it; until td_write_end() ops on it fail. The end moves the
 * version, so that a backward that needs the old values fails instead of using the new ones. Only for tensors of this
 * session. timeout_ms < 0: no limit. Other clients' ops on the tensor wait for the end, a minute at most: then they
 * fail with TD_E_TIMEOUT, which names this program, as do all that follow before the end. */
TD_API void *td_write_begin(td_array *a, int timeout_ms);
TD_API int td_write_end(td_array *a);

/* ---- autograd ---------------------------------------------------------------------------------------------------- */

TD_API int td_set_requires_grad(td_array *a, bool on);
TD_API int td_retain_grad(td_array *a); /* keep .grad of an intermediate */

enum { TD_RETAIN_GRAPH = 1, TD_CREATE_GRAPH = 2, TD_ALLOW_UNUSED = 4, TD_ANOMALY = 16 }; /* flags of the two below */

/* td_backward(loss), td_backward(y, grad), td_backward(y, grad, flags): gradients are added into .grad of the leaves.
 * Of an output that is older than a backward without TD_RETAIN_GRAPH the graph may be gone, so that one is waited for.
 */
TD_API int td_at_backward(const char *where, td_list roots, td_list grads, unsigned flags);
/* Gradients of `outputs` with respect to `inputs`, one for each input into out[], .grad left alone. grads: n 0 for none
 * given (ones, for scalars). With TD_ALLOW_UNUSED an input that took no part gets NULL. */
TD_API int td_at_autograd_grad(const char *where, td_list outputs, td_list grads, td_list inputs, unsigned flags,
                               td_array **out);
/* The .grad; NULL with TD_E_NOT_FOUND when it has none. */
TD_API td_array *td_at_grad(const char *where, td_array *a);
/* The same for many, one round trip: out[i] is NULL where there is none. */
TD_API int td_at_grads(const char *where, td_list arrays, td_array **out);
TD_API int td_set_grad(td_array *a, td_array *grad); /* NULL: none */
TD_API int td_zero_grad(td_list arrays);             /* sets them to none */
/* The same bytes, no history, and a version counter of its own (torch's .data). */
TD_API td_array *td_data_of(td_array *a);
/* The gradients that .grad, backward and zero_grad speak of: the tensor's own (0, the default: what all sessions add
 * to), or td_session(client): this session's private ones, which end with it (a forked child has its own), or another
 * number that several sessions agree on. */
TD_API void td_set_grad_scope(td_client *client, uint32_t scope);

#define td_backward_1_(y) td_at_backward(TD_HERE, td_arrays(y), td_arrays_of(0, NULL), 0)
#define td_backward_2_(y, g) td_at_backward(TD_HERE, td_arrays(y), td_arrays(g), 0)
#define td_backward_3_(y, g, flags) td_at_backward(TD_HERE, td_arrays(y), td_arrays(g), flags)
#define td_backward(...) TD_PICK_3_(__VA_ARGS__, td_backward_3_, td_backward_2_, td_backward_1_, )(__VA_ARGS__)
#define td_autograd_grad(outputs, grads, inputs, flags, out)                                                           \
    td_at_autograd_grad(TD_HERE, outputs, grads, inputs, flags, out)
#define td_grad(a) td_at_grad(TD_HERE, a)
#define td_grads(arrays, out) td_at_grads(TD_HERE, arrays, out)

/* The same, into the .grad of `inputs` alone (n 0: of all leaves); of one that is no leaf as after td_retain_grad(). */
TD_API int td_at_backward_into(const char *where, td_list roots, td_list grads, td_list inputs, unsigned flags);

/* Hooks: functions of this program that a backward runs on its way. The daemon keeps numbers; td_set_on_hook() says
 * what runs them. A hook goes with what it hangs on; td_gone_hooks() tells which are nowhere any more. A backward that
 * comes to a hook of another process is refused before it computes anything, but for hooks of leaves, which are for
 * backwards of their own process. */
typedef enum td_hook_kind {
    TD_ON_TENSOR = 1,  /* is given the gradient of a tensor's value as it is now; may give another */
    TD_ON_LEAF = 2,    /* is given a leaf when its .grad has been added to */
    TD_ON_NODE = 3,    /* is given the gradients of a node's outputs before it is run; may give others */
    TD_AFTER_NODE = 4, /* is given those of its inputs, then those of its outputs; may give others of the inputs */
    TD_ON_FUNCTION =
        5, /* is given the gradients of a td_at_function's results, then what that saved; gives those of its inputs */
    TD_ON_UNPACK = 6 /* is given nothing; gives a value that was packed */
} td_hook_kind;
typedef struct td_hook_call {
    uint32_t hook;
    td_hook_kind kind;
    unsigned flags;         /* of the backward: TD_RETAIN_GRAPH, ... */
    int n, first;           /* `first` of them are what the answer may change, or a function's gradients */
    td_array *const *given; /* some NULL; for the time of the call */
    int wanted;             /* so many gradients are the answer */
    td_array **answer;      /* NULL each; references to be taken over */
} td_hook_call;
/* Called by the thread that asked for the backward, which may ask for anything meanwhile. 0: all stays as it is; 1: the
 * answer holds; anything else: the backward is given up, and fails with TD_E_CANCELLED. */
typedef int (*td_on_hook)(td_client *client, const td_hook_call *call, void *context);
TD_API void td_set_on_hook(td_client *client, td_on_hook on_hook, void *context);
TD_API uint32_t td_hook(td_array *a, td_hook_kind kind); /* a number; 0: it failed */
TD_API int td_unhook(td_client *client, uint32_t hook);
/* So many of those that are nowhere any more; each is told once. */
TD_API int td_gone_hooks(td_client *client, int room, uint32_t *out);

/* A node of the program's own: `out` were computed from `in` (some NULL: no tensors) outside of the graph, and are its
 * results from here on; its backward is the hook with the number that comes back (0: it failed). flags: of each result
 * TD_RESULT_*. */
enum { TD_RESULT_APART = 1 /* it has no gradient */, TD_RESULT_WRITTEN = 2 /* it is an input, written in place */ };
TD_API uint32_t td_at_function(const char *where, const char *name, td_list in, td_list out, td_list saved,
                               const uint32_t *flags);

/* The graph, to look at. A number stands for a node until it is released. */
typedef struct td_graph_node {
    uint32_t number; /* 0: there is none */
    uint32_t nr;     /* which of its outputs */
    uint64_t key;    /* the same node, the same key */
    uint32_t session, pid;
    int inputs;
    int kind; /* 0: an op, 1: a leaf, 2: an op on a view in place, 3: a function */
    char op[128], aten[128], where[160];
} td_graph_node;
TD_API int td_graph_of(td_array *a, td_graph_node *out); /* number 0 of a leaf */
/* The nodes that a node leads to, *n of them: at most its `inputs`. */
TD_API int td_graph_next(td_client *client, const td_graph_node *node, td_graph_node *out, int *n);
TD_API int td_graph_release(td_client *client, uint32_t number);
TD_API uint32_t td_hook_node(td_client *client, uint32_t number, td_hook_kind kind); /* TD_ON_NODE, TD_AFTER_NODE */

/* A value that a node saved for its gradients: its slot, from 0 on. */
typedef struct td_saved_value {
    td_array *value; /* to be released; NULL: it is no tensor, or is packed */
    uint32_t hook;   /* that it is packed as, or 0 */
    bool output;     /* the node made it */
    bool freed;      /* a backward has let go of it */
    int index;       /* as which input or output */
    char name[32];   /* what the op calls it; "": there is no such slot */
} td_saved_value;
TD_API int td_graph_saved(td_client *client, uint32_t node, int slot, td_saved_value *out);
/* The program keeps the value in this slot from here on: a number for the hook (TD_ON_UNPACK) that a backward asks for
 * it; 0: it failed. */
TD_API uint32_t td_graph_pack(td_client *client, uint32_t node, int slot, uint32_t hook);
TD_API uint32_t td_hook_number(td_client *client); /* one for a hook to be; 0: it failed */
/* From here on each op of this thread that saves values is followed by calls of on_saved(), one for each of them: with
 * a number for a hook. 1: the program has packed it, and answers TD_ON_UNPACK of that number; 0: it stays; anything
 * else: the op fails with TD_E_CANCELLED. Ops that on_saved() itself asks for are neither recorded nor told. NULL: no
 * more. */
typedef int (*td_on_saved)(td_client *client, const td_saved_value *saved, uint32_t hook, void *context);
TD_API void td_set_on_saved(td_on_saved on_saved, void *context);

/* Modes of this thread. Each returns what was before, to put it back. */
TD_API bool td_set_grad_enabled(bool on); /* default true */
TD_API bool td_grad_enabled(void);
TD_API bool td_set_inference(bool on); /* no graph, and results that can never be saved for one */
TD_API bool
td_set_service(bool on); /* results go into service memory: read-only to all, outlives the session when published */
/* The device on which this thread makes things from nothing (td_full, td_arange, td_randn, td_from_data, ...), by
 * number: TD_CPU, TD_CUDA + k; -1: the one that TENSORD_DEVICE names in the environment, else the CPU, as for a thread
 * that has set none. A result lies where its tensors lie, data that is put or loaded on the CPU; td_to_device()
 * copies from one to another. An op that names a device which the daemon has not fails, and says which there are.
 * Returns what was before; -1: there is no such number. */
TD_API int td_set_device(int device);
TD_API int td_get_device(void);
/* Results are declared racy: several sessions may step on them (Hogwild). Views are what they show. */
TD_API bool td_set_racy(bool on);

/* The values that this thread computes between these two are not kept for a backward, but for those that it begins
 * with: a backward that comes there runs the ops again, with the same random numbers, and gives the same gradients.
 * Checkpoints may lie in each other, 64 deep. Ops whose shapes depend on values are not run again, what they gave is
 * kept; nor are writes to what was made before. */
TD_API int td_checkpoint_begin(td_client *client);
TD_API int td_checkpoint_end(td_client *client);

/* Random numbers of this session's stream from here on. */
TD_API int td_seed(td_client *client, uint64_t seed);
/* How many ops of this client took random numbers since then; and the same stream from behind so many on, as to go on
 * where another process was. */
TD_API uint64_t td_drawn(td_client *client);
TD_API int td_seed_at(td_client *client, uint64_t seed, uint64_t drawn);

/* ---- sharing ----------------------------------------------------------------------------------------------------- */

enum {
    TD_REPLACE = 1,
    TD_COPY = 2,
    TD_LENT = 4
}; /* td_publish: take the place of what has the name; publish a copy in service memory; the tensor itself, see there */

/* td_publish() publishes the value: a copy in service memory, which outlives its session; `a` stays apart from it. Only
 * what lies in service memory already (td_set_service, td_open) is published itself. td_open() and td_published()
 * give one tensor to all who have it. Its bytes are mapped read-only, into every process; ops that write in place
 * (td_add_, a step of an optimizer) change it for all, since the daemon does them.
 *
 * TD_LENT: `a` itself, so others see what this program goes on writing into its memory, counters say; the name goes
 * with this session, a second or two after its end. */
TD_API int td_publish(td_array *a, const char *name, unsigned flags);
/* td_publish(), and the tensor that td_open() would give: w = td_published(w, ...) goes on with the tensor that the
 * others see. */
TD_API td_array *td_published(td_array *a, const char *name, unsigned flags);
/* Open a published tensor. Waits for the name up to timeout_ms (0: it must be there; < 0: for ever). */
TD_API td_array *td_open(td_client *client, const char *name, int timeout_ms);
TD_API int td_drop(td_client *client, const char *name);

/* Hand a tensor to one other process by any channel: `handle` is a text for td_take() there, which gives the very same
 * tensor, without a copy. Until it is taken, or `lasts_ms` have passed, it keeps the tensor alive. td_send() does not
 * wait: when there is no such tensor (the op that should make it failed), td_sync() here says why, and who takes the
 * handle waits in vain. */
#define TD_HANDLE_TEXT 48
TD_API int td_send(td_array *a, char handle[TD_HANDLE_TEXT], int lasts_ms);
/* The same for memory that both sides write: who takes it may write the bytes of what is this session's, as this
 * program may (a segment is mapped writable as a whole, so this is between programs that trust each other), and the
 * handle lasts as long as this session and between once and twice `lasts_ms` more. */
TD_API int td_lend(td_array *a, char handle[TD_HANDLE_TEXT], int lasts_ms);
TD_API td_array *td_take(td_client *client, const char *handle, int timeout_ms);

/* Queues hand tensors from process to process, in order, without a copy. */
typedef struct td_queue td_queue;
enum { TD_PRODUCER = 1, TD_CONSUMER = 2, TD_WATCH = 4 }; /* watch: as a consumer, be told when a producer dies */

typedef struct td_item_of_queue { /* of at most TD_MAX_ITEM tensors; with its note it fits into a message (16 MB) */
    int n;
    td_array **at;
    void *note; /* the bytes that the producer sent along; NULL when none */
    size_t note_size;
    uint32_t left; /* items that were left behind it */
} td_queue_item;

/* Makes the queue when it is not there. `capacity` in items (0: whatever it has, 1 until somebody says; TD_ANY_NUMBER:
 * whatever it has, and as many as the daemon has room for until somebody says: 65536, or 64 MB of notes); role:
 * TD_PRODUCER | TD_CONSUMER. */
#define TD_ANY_NUMBER UINT32_MAX
TD_API td_queue *td_queue_open(td_client *client, const char *name, uint32_t capacity, unsigned role);
/* The same, and what lies in it when nobody has it open any more stays for keep_ms (who said so last counts; 0: not at
 * all). Until somebody says it a minute, if no consumer has ever had it open. */
TD_API td_queue *td_queue_open_keeping(td_client *client, const char *name, uint32_t capacity, unsigned role,
                                       int keep_ms);
/* The item is what the arrays hold now: who writes to one by an op or a write lease before the item is taken makes a
 * copy for it, once for all items that hold the same. (Arrays that require grad, and service memory, are shared as they
 * are.) Waits for room up to timeout_ms. With timeout_ms < 0 it may wait for ever, and does that elsewhere: the item is
 * on its way when this returns. A failure of that (TD_E_CLOSED: the queue has ended) is told by the next put, which
 * then puts nothing, or by td_queue_close. At most one item a producer is on its way; td_queue_close and td_disconnect
 * wait until it has arrived. A wait of more than a second while nobody has joined as a consumer writes a line to
 * stderr, once a handle: it says which other daemon of this user has a queue of this name, if one has. td_queue_get
 * does the same. */
TD_API int td_queue_put(td_queue *q, td_list arrays, const void *note, size_t note_size, int timeout_ms);
/* Waits for an item. TD_E_CLOSED when there will never be one more; with TD_WATCH, once for each producer that died,
 * TD_E_DIED: go on getting. TD_E_LOST: the daemon is gone, and the queue with it; no call of this client will do any
 * more, so leave the loop. td_queue_item_clear() what you got. */
TD_API int td_queue_get(td_queue *q, td_queue_item *item, int timeout_ms);
TD_API void td_queue_item_clear(td_queue_item *item);
/* A queue as it is at this moment, for those who have joined and those who have not; all zeros when there is none. */
typedef struct td_queue_state {
    uint32_t items, capacity, producers, consumers; /* who has joined as what; a process may have joined as both */
    bool full, ended;
    uint32_t keep_ms; /* so long its items would stay if all left now */
} td_queue_state;
TD_API int td_queue_look(td_client *client, const char *name, td_queue_state *out);
/* Leave the queue; `end`: and nobody may put any more. Frees it. NULL is fine. */
TD_API int td_queue_close(td_queue *q, bool end);

/* Many tensors under one name, with a note: a copy of all as they are at this moment of the stream, which takes the
 * place of what had the name (TD_REPLACE) at once, so that nobody sees some old and some new; it lies on the CPU.
 * *version (or NULL) is larger than that of everything that was published before, under whatever name. Of a daemon:
 * where that ended, names begin anew in the next, and no version of the old one is one of the new. */
TD_API int td_publish_tree(td_client *client, const char *name, td_list arrays, const void *note, size_t note_size,
                           unsigned flags, uint64_t *version);
/* Opens it, without a copy: td_queue_item_clear() it; of what td_publish() published one tensor without a note. Waits
 * up to timeout_ms for the name, and for a version that is larger than newer_than (0: any). When there is none by then:
 * TD_E_NOT_NEWER if something has the name, else TD_E_TIMEOUT (with timeout_ms 0: TD_E_NOT_FOUND). TD_E_CLOSED:
 * newer_than is of another daemon, and the name began anew; open it with 0. */
TD_API int td_open_tree(td_client *client, const char *name, uint64_t newer_than, int timeout_ms, td_queue_item *out,
                        uint64_t *version);
/* Which version a name has, without opening it: *version is 0 when nothing is published under it. */
TD_API int td_name_version(td_client *client, const char *name, uint64_t *version);

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Processes that do the same collectives in the same order: several that train one model, say. Each has a rank, 0 to
 * size - 1. The processes add up what they give by themselves, in memory that all of them have mapped. The daemon is
 * asked for nothing meanwhile; it tells of members that die. A result is the same in all ranks to the bit, and the same
 * in each run: inputs are taken in the order of ranks.
 *
 *     td_group *g = td_group_open(c, "train", 4, -1, 60000);           // waits until four have come
 *     td_group_all_reduce(g, gradients, gradients, TD_FLOAT32, n, TD_MEAN, -1);
 *     td_group_close(g);
 */
typedef struct td_group td_group;
enum { TD_GROUP_RANKS = 256 /* most members */ };

/* Take a seat in the group of this name, in the daemon that `client` is connected to, by a connection of its own; waits
 * up to timeout_ms (< 0: for ever) until all `size` members have come. `rank` -1: the lowest that is free. `timeout_ms`
 * is also the deadline of each call that names none. TD_E_TIMEOUT names who came and who did not; TD_E_EXISTS says who
 * has the rank, or the name with another size, or that all are there. A group has its name as long as somebody is in
 * it: for the seat of a member that has gone one waits at its door until the others regroup, or have gone, too. A
 * process that is forked later is no member. NULL on failure. */
TD_API td_group *td_group_open(td_client *client, const char *name, uint32_t size, int rank, int timeout_ms);
/* A member dies: these say what becomes of calls of the others that it had not come to. */
typedef enum td_on_death {
    TD_ON_DEATH_FAIL = 0,  /* these fail, and so does all that is called later in this epoch */
    TD_ON_DEATH_SHRINK = 1 /* these are done without it: see td_group_contributors() */
} td_on_death;
/* As td_group_open(), of a group that begins when `least` have come, and has `most` at most. All members say the same.
 * In a group of several sizes ranks are given in the order in which members come: `rank` is -1. A process that comes
 * later waits at the door of the group, up to timeout_ms, until the members regroup. */
TD_API td_group *td_group_open_between(td_client *client, const char *name, uint32_t least, uint32_t most, int rank,
                                       td_on_death on_death, int timeout_ms);

/* Begin the group's next epoch, after a failure or to let those in that wait at the door. All members call it; whoever
 * has called it comes to no later call of the present epoch, so others that wait for it there are told (TD_E_MEMBER).
 * The next epoch begins when all living members have called, and there are `least`. Members keep their order, and in a
 * group of one size their ranks; then come those from the door. The handle has a new rank, size and epoch afterwards,
 * calls are counted from 1 again, and no failure is remembered. Calls that were begun and are not over are
 * TD_E_CLOSED. No other thread may be in a call.
 *
 * `timeout_ms` < 0: the group's. At the deadline members that have not called are expelled, if there are `least`
 * without them: their calls are TD_E_EPOCH from then on. Else TD_E_TIMEOUT names who came and who did not, and it may
 * be called again. TD_E_EPOCH: this process was expelled, or is no member any more; it may open the group anew. */
TD_API int td_group_regroup(td_group *g, int timeout_ms);
/* How many wait at the door. Asks nobody. Not while another thread regroups. */
TD_API uint32_t td_group_door(const td_group *g);
/* A member of the epoch before that is not in this one. */
typedef struct td_group_lost {
    uint32_t rank, pid; /* rank: in the epoch before */
    enum { TD_LOST_LEFT = 2, TD_LOST_DIED = 3, TD_LOST_EXPELLED = 4 } how;
    char program[48];
} td_group_lost;
/* The first `most` of them, and how many there are; none after td_group_open(). */
TD_API uint32_t td_group_lost_members(const td_group *g, td_group_lost *out, uint32_t most);
/* Which ranks were in the call that was done last: the first `most` of them, and how many there are. In a group that
 * shrinks (TD_ON_DEATH_SHRINK) a call is done by those that have come to it, once the others have gone: sums are
 * theirs, means divide by their number, and where the others' bytes would be there are zeros. A call of more than 4 MiB
 * takes several rounds, and each element is of those that were in its round: these are the ranks that were in all of
 * them. Bytes of a root that has gone (broadcast, scatter) are TD_E_MEMBER, and the group goes on. It does not go on
 * without a rank whose process lives and lost its connection. */
TD_API uint32_t td_group_contributors(const td_group *g, uint32_t *ranks, uint32_t most);

/* Leave it; no other thread may be in a call of it. Calls of others that need this rank fail from then on with
 * TD_E_MEMBER. NULL is fine. */
TD_API int td_group_close(td_group *g);
TD_API uint32_t td_group_rank(const td_group *g);
TD_API uint32_t td_group_size(const td_group *g);
TD_API uint32_t td_group_epoch(const td_group *g); /* its number in the daemon: no other group has it */
TD_API const char *td_group_name(const td_group *g);
TD_API td_client *td_group_client(const td_group *g); /* its connection: for td_set_interrupt() */

/* Each call returns when it is done in all ranks as far as this one is concerned; what was given may be overwritten
 * then. `timeout_ms` < 0: the group's. Ranks that call something else in its place, with another dtype, count, root or
 * reduction, get TD_E_MISMATCH, all of them. When a member has gone before it came to a call, that and all later ones
 * are TD_E_MEMBER; when one does not come in time TD_E_TIMEOUT, unless it is at work: one that uses a processor is
 * waited for ten times as long. After any of these nothing more can be called (TD_E_EPOCH) but td_group_regroup().
 *
 * `count` elements at `in`; the result of all ranks' comes to `out`, which may be `in`. The dtypes are those of
 * tensors; means are of floating and complex numbers, smallest and largest of all but complex ones. Integers wrap, of
 * bools a sum is "or"; float16 and bfloat16 are summed in float32 and rounded once. */
TD_API int td_group_at_all_reduce(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                  uint64_t count, td_reduce_op op, int timeout_ms);
/* The same for the rank `root` alone; `out` is not looked at in the others. */
TD_API int td_group_at_reduce(const char *where, td_group *g, const void *in, void *out, td_dtype dtype, uint64_t count,
                              td_reduce_op op, uint32_t root, int timeout_ms);
/* `in`: count * size elements. Each rank gets `count` of their sum, those of rank 0 first. */
TD_API int td_group_at_reduce_scatter(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                      uint64_t count, td_reduce_op op, int timeout_ms);
/* `count` elements of `root`'s, at `at` in all ranks. */
TD_API int td_group_at_broadcast(const char *where, td_group *g, void *at, td_dtype dtype, uint64_t count,
                                 uint32_t root, int timeout_ms);
/* `in`: count * size elements of `root`'s (it is not looked at in the others); each rank gets `count` of them. */
TD_API int td_group_at_scatter(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                               uint64_t count, uint32_t root, int timeout_ms);
/* `count` elements of each rank, one rank after the other, into `out` of `root`: count * size of them. */
TD_API int td_group_at_gather(const char *where, td_group *g, const void *in, void *out, td_dtype dtype, uint64_t count,
                              uint32_t root, int timeout_ms);
/* The same for all ranks. */
TD_API int td_group_at_all_gather(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                  uint64_t count, int timeout_ms);
/* `count` elements for each rank at `in`; those of each rank for this one come to `out`, which may be `in`. */
TD_API int td_group_at_all_to_all(const char *where, td_group *g, const void *in, void *out, td_dtype dtype,
                                  uint64_t count, int timeout_ms);
/* The same with as many elements for each rank as `in_counts` says (one number for each), and from each as `out_counts`
 * says. Ranks that do not agree get TD_E_MISMATCH, all of them. `out` may not overlap `in`. */
TD_API int td_group_at_all_to_all_of(const char *where, td_group *g, const void *in, const uint64_t *in_counts,
                                     void *out, const uint64_t *out_counts, td_dtype dtype, int timeout_ms);
/* Until all have come. */
TD_API int td_group_at_barrier(const char *where, td_group *g, int timeout_ms);
#define td_group_all_reduce(g, in, out, dtype, count, op, timeout_ms)                                                  \
    td_group_at_all_reduce(TD_HERE, g, in, out, dtype, count, op, timeout_ms)
#define td_group_reduce(g, in, out, dtype, count, op, root, timeout_ms)                                                \
    td_group_at_reduce(TD_HERE, g, in, out, dtype, count, op, root, timeout_ms)
#define td_group_reduce_scatter(g, in, out, dtype, count, op, timeout_ms)                                              \
    td_group_at_reduce_scatter(TD_HERE, g, in, out, dtype, count, op, timeout_ms)
#define td_group_broadcast(g, at, dtype, count, root, timeout_ms)                                                      \
    td_group_at_broadcast(TD_HERE, g, at, dtype, count, root, timeout_ms)
#define td_group_scatter(g, in, out, dtype, count, root, timeout_ms)                                                   \
    td_group_at_scatter(TD_HERE, g, in, out, dtype, count, root, timeout_ms)
#define td_group_gather(g, in, out, dtype, count, root, timeout_ms)                                                    \
    td_group_at_gather(TD_HERE, g, in, out, dtype, count, root, timeout_ms)
#define td_group_all_gather(g, in, out, dtype, count, timeout_ms)                                                      \
    td_group_at_all_gather(TD_HERE, g, in, out, dtype, count, timeout_ms)
#define td_group_all_to_all(g, in, out, dtype, count, timeout_ms)                                                      \
    td_group_at_all_to_all(TD_HERE, g, in, out, dtype, count, timeout_ms)
#define td_group_all_to_all_of(g, in, in_counts, out, out_counts, dtype, timeout_ms)                                   \
    td_group_at_all_to_all_of(TD_HERE, g, in, in_counts, out, out_counts, dtype, timeout_ms)
#define td_group_barrier(g, timeout_ms) td_group_at_barrier(TD_HERE, g, timeout_ms)

/* A call that goes on while this rank does something else. td_group_begin() gives what this rank has to the others, as
 * far as that goes without waiting; memory at `in` and `out` stays as it is, and is nobody else's, until the call is
 * done. Calls are made in the order in which they are begun. No thread works on them: they go on in td_pending_done(),
 * td_pending_wait() and each later call of the group, in this rank as in the others. `kind` says which call it is;
 * `out`, `op` and `root` mean something to those that have them, and a broadcast takes its memory as `in` and `out`.
 * NULL on failure. */
typedef struct td_pending td_pending;
TD_API td_pending *td_group_at_begin(const char *where, td_group *g, td_collective kind, const void *in, void *out,
                                     td_dtype dtype, uint64_t count, td_reduce_op op, uint32_t root);
#define td_group_begin(g, kind, in, out, dtype, count, op, root)                                                       \
    td_group_at_begin(TD_HERE, g, kind, in, out, dtype, count, op, root)
/* Is it done, or has it failed? Never waits. */
TD_API bool td_pending_done(td_pending *p);
/* Until it is done, for up to timeout_ms from now on (< 0: the group's deadline); fails as the call would. May be
 * called again. Other threads may begin and wait for other calls meanwhile. */
TD_API int td_pending_wait(td_pending *p, int timeout_ms);
/* Of one that is not done nobody learns the result; when not all of it has been given to the others, no more calls can
 * be made. Before or after td_group_close(), with which all that are not done fail. NULL is fine. */
TD_API void td_pending_free(td_pending *p);

/* Memory that all ranks have mapped, for sums without a copy: each writes what it gives at td_buffer_input(), and the
 * result is at td_buffer_result(), the same memory for all ranks: good until this rank's next call with the buffer.
 * All ranks make it, with the same size. It serves as long as the group's epoch, and td_buffer_free() it also after
 * td_group_close(); until then the memory is there. NULL on failure. */
typedef struct td_group_buffer td_group_buffer;
TD_API td_group_buffer *td_group_at_buffer(const char *where, td_group *g, uint64_t bytes);
TD_API void *td_buffer_input(const td_group_buffer *b);
TD_API void *td_buffer_result(const td_group_buffer *b);
/* Of `count` elements from `offset` on, in bytes, of each input, into the result from there on. */
TD_API int td_buffer_at_all_reduce(const char *where, td_group_buffer *b, uint64_t offset, td_dtype dtype,
                                   uint64_t count, td_reduce_op op, int timeout_ms);
TD_API void td_buffer_free(td_group_buffer *b);
#define td_group_buffer(g, bytes) td_group_at_buffer(TD_HERE, g, bytes)
#define td_buffer_all_reduce(b, offset, dtype, count, op, timeout_ms)                                                  \
    td_buffer_at_all_reduce(TD_HERE, b, offset, dtype, count, op, timeout_ms)

/* Messages from one rank to another, in order, beside all collectives: any two ranks, in any thread. `shape` and dtype
 * go along; `tag` tells kinds of messages apart, each of which has an order of its own. A message is copied on its way
 * out, so its memory may be overwritten at once; eight of one tag may be on their way from rank to rank, then sending
 * waits until one is taken. Messages that a rank sent before it left, or died, can still be received. TD_E_MEMBER: the
 * other rank has gone before it took it, or sent it. These failures break no group. */
#define TD_ANY_RANK UINT32_MAX
TD_API int td_group_at_send(const char *where, td_group *g, const void *data, td_dtype dtype, td_ints shape,
                            uint32_t to, int tag, int timeout_ms);
/* The next message of `from`, or of whichever rank is first (TD_ANY_RANK): elements at `data`, of `count` in all,
 * mapped where the sender put them; td_message_clear() it. */
typedef struct td_message {
    uint32_t from;
    td_dtype dtype;
    int ndim;
    int64_t dims[TD_MAX_DIMS];
    uint64_t count;
    const void *data;
    td_queue_item item; /* the library's */
} td_message;
TD_API int td_group_at_receive(const char *where, td_group *g, uint32_t from, int tag, int timeout_ms, td_message *out);
TD_API void td_message_clear(td_message *m);
/* The same into memory of the caller's. TD_E_MISMATCH: the message has another dtype or count, and is gone. `came_from`
 * may be NULL. */
TD_API int td_group_at_recv(const char *where, td_group *g, void *out, td_dtype dtype, uint64_t count, uint32_t from,
                            int tag, int timeout_ms, uint32_t *came_from);
#define td_group_send(g, data, dtype, shape, to, tag, timeout_ms)                                                      \
    td_group_at_send(TD_HERE, g, data, dtype, shape, to, tag, timeout_ms)
#define td_group_receive(g, from, tag, timeout_ms, out) td_group_at_receive(TD_HERE, g, from, tag, timeout_ms, out)
#define td_group_recv(g, out, dtype, count, from, tag, timeout_ms, came_from)                                          \
    td_group_at_recv(TD_HERE, g, out, dtype, count, from, tag, timeout_ms, came_from)

/* Of the call that failed last with TD_E_MEMBER, TD_E_TIMEOUT or TD_E_MISMATCH: which rank it was for. */
typedef struct td_group_fault {
    int code; /* TD_OK: none has */
    uint32_t rank, pid, epoch;
    uint64_t round;   /* the number of the call, from 1 on */
    char program[48]; /* of that rank */
} td_group_fault;
TD_API td_group_fault td_group_last_fault(const td_group *g);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The tensors of a file, whose format is told by what is in it: one that torch.save() wrote (a zip archive, or the
 * older form), safetensors, or NumPy's .npy (one tensor, its name is "") and .npz. Each storage is read once, to shared
 * memory; tensors that looked at one storage do so here. Of what stands around them (dicts, lists, tuples, numbers,
 * texts, None) a program in C sees the names: keys and positions from the outside in, "layers.0.weight". Nothing that a
 * file holds is run: what would need that is TD_E_UNSUPPORTED and says what it is; a damaged file is TD_E_INVALID. Of
 * tensors that were on another device the file is refused, unless TD_LOAD_TO_CPU says that they come here.
 *
 *     td_loaded *f = td_load(c, "model.pt", 0);
 *     td_array *w = td_loaded_get(f, "layers.0.weight");   // good as long as f; td_retain() it for longer
 *     td_loaded_free(f);
 */
typedef struct td_loaded td_loaded;
enum { TD_LOAD_TO_CPU = 1, TD_LOAD_SKIP = 2 }; /* skip: leave out tensors of dtypes that are not known here */
TD_API td_loaded *td_load(td_client *client, const char *path, unsigned flags);
TD_API td_loaded *td_load_fd(td_client *client, int fd, unsigned flags); /* a regular file or memfd, which stays open */
/* The same, where the caller says what comes where: the device for what was at a location ("cpu", "cuda:0"), or -1, for
 * which the file is refused. It is asked for each storage, on this thread; NULL: as td_load_fd(). */
typedef int (*td_load_where)(void *context, const char *location);
TD_API td_loaded *td_load_to(td_client *client, int fd, unsigned flags, td_load_where where, void *context);
TD_API int td_loaded_count(const td_loaded *loaded);
TD_API const char *td_loaded_name(const td_loaded *loaded, int i);
TD_API td_array *td_loaded_at(const td_loaded *loaded, int i);             /* NULL when there are not so many */
TD_API td_array *td_loaded_get(const td_loaded *loaded, const char *name); /* NULL: TD_E_NOT_FOUND */
/* All of it, as an item of a queue of Python's: for bindings. Good as long as `loaded`; do not clear it. */
TD_API td_queue_item td_loaded_tree(const td_loaded *loaded);
TD_API void td_loaded_free(td_loaded *loaded); /* NULL is fine */

/* Write tensors under these names (NULL: one that has none) to a file, whose own name says what it is to be: .pt or
 * .pth as torch.save() writes it, .safetensors, .npy (one tensor) or .npz. In a file of PyTorch what look at one
 * storage do so too, and of a storage of which tensors reach less than half only that part is written, unless
 * TD_SAVE_WHOLE. A regular file appears whole or not at all. */
enum { TD_SAVE_WHOLE = 1 };
TD_API int td_save(const char *path, td_list arrays, const char *const *names, unsigned flags);
/* The same of a tree, as td_loaded_tree() gives one and bindings pack it, to a descriptor that is written from where it
 * is on and stays open. `name` stands for the path. When it fails with TD_E_SYSTEM errno is what write() said. */
TD_API int td_save_fd(int fd, const char *name, const td_queue_item *tree, unsigned flags);

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* A function that the daemon runs by itself: ops, numbers, lists, branches and loops, in one message instead of one for
 * each op. Its results, its errors, and the gradients that flow through it are those of its calls made one by
 * one. It comes as the text of its IR, in the form of TorchScript's graphs (proto/program/README.md has the grammar):
 *
 *     td_program *p = td_program_read(c, "graph(%x : Tensor, %n : int):\n"
 *                                        "  %2 : int = prim::Constant[value=2]()\n"
 *                                        "  %y : Tensor = td::mul(%x, %n)\n"
 *                                        "  return (%y)\n", td_arrays_of(0, NULL));
 *     td_value in[] = {td_value_array(x), td_value_int(3)}, out;
 *     if (td_program_call(p, 2, in, &out) == TD_OK) use(out.array);
 *     td_value_free(&out);
 */
typedef struct td_program td_program;

typedef enum td_value_kind {
    TD_VALUE_NONE = 0,
    TD_VALUE_INT = 1,
    TD_VALUE_FLOAT = 2,
    TD_VALUE_BOOL = 3,
    TD_VALUE_COMPLEX = 4,
    TD_VALUE_STR = 5,
    TD_VALUE_DEVICE = 6,
    TD_VALUE_DTYPE = 7,
    TD_VALUE_LIST = 8,
    TD_VALUE_ARRAY = 9,
    TD_VALUE_TUPLE = 10,
    TD_VALUE_DICT = 11 /* with keys that are all ints, or all texts */
} td_value_kind;
typedef struct td_value {
    td_value_kind kind;
    uint32_t n; /* items of a list or tuple; of a dict a key, its value, the next key: twice as many as keys; bytes of a
                   text, which also ends with a 0 that is not counted */
    union {
        int64_t i; /* TD_VALUE_INT; TD_VALUE_BOOL; a device or td_dtype by its number */
        double re;
        td_array *array;
        char *text;
        struct td_value *items;
    };
    double im;
} td_value;
static inline td_value td_value_int(int64_t i)
{
    td_value v = {TD_VALUE_INT, 0, {0}, 0};
    v.i = i;
    return v;
}
static inline td_value td_value_float(double x)
{
    td_value v = {TD_VALUE_FLOAT, 0, {0}, 0};
    v.re = x;
    return v;
}
static inline td_value td_value_array(td_array *a)
{
    td_value v = {TD_VALUE_ARRAY, 0, {0}, 0};
    v.array = a;
    return v;
}
/* Let go of texts, items and arrays that a call gave. */
TD_API void td_value_free(td_value *v);

/* The program that a text says, with a tensor for each name that it captures, in their order: the program keeps these,
 * and later runs see what was written to them. NULL: TD_E_INVALID says line and column. */
TD_API td_program *td_program_read(td_client *client, const char *text, td_list captured);
/* The same of a function in a subset of Python (client/script/README.md): `source` holds it and the functions that it
 * calls; it is the one called `entry` (NULL: the last). Errors say `file`, and count lines from `line` on. `names` say
 * what names from outside mean: arrays are captured, numbers and texts are constants, `module` is "tensord" or "math".
 */
typedef struct td_binding {
    const char *name;
    td_value value;
    const char *module; /* NULL: it is the value */
} td_binding;
TD_API td_program *td_program_script(td_client *client, const char *source, const char *file, int line,
                                     const char *entry, int n, const td_binding *names);
/* Run it: a value for each parameter. Its result is in *result (several values: a tuple), td_value_free() it. Where
 * that is tensors only, nobody waits: a failure is told as an op's is. The arguments stay the caller's. */
TD_API int td_program_at_call(const char *where, td_program *p, int n, const td_value *args, td_value *result);
#define td_program_call(p, n, args, result) td_program_at_call(TD_HERE, p, n, args, result)
/* Calls of this thread from now on may run so many milliseconds from when the daemon begins them (0: any, as at first);
 * what has not come to its end by then is stopped, and the call, which waits for that end, fails with TD_E_TIMEOUT.
 * Its writes until then stay. Returns what was set before. */
TD_API int td_set_program_timeout(int ms);
/* The prints of programs (at most 64 KiB a run) come here, on the thread that called one, when the call has ended, also
 * with an error. NULL: to stdout, as at first. */
TD_API void td_set_program_print(void (*print)(void *context, const char *text, size_t n), void *context);
/* A trace records the ops that this thread asks for from begin to end as a program; they are run as ever. `inputs` are
 * its parameters, the tensors at `outputs` what it returns. All else that the ops are given is captured: parameters of
 * a network stay the tensors that they are. But for one element that td_from_data() made meanwhile, which is made anew
 * in each run. Writes in place, views, modes and random numbers are recorded as they are; ways of the C program are
 * not: what it decides by a value (td_item, td_read, td_data of what was traced) is decided for ever, and said by
 * td_trace_warning(). A size that it reads (td_size, td_shape) is a constant of the program; what goes by the sizes of
 * a tensor by itself (td_ones_like, td_fill_, td_copy_, td_flatten) goes by those of the call. A call that cannot be
 * recorded (a backward, requires_grad of a result) makes td_trace_end() fail. Both ends are the same thread's, which
 * has one trace at a time; a forked child does not go on with it. td_trace_end() ends the trace also when it fails
 * (NULL); td_trace_free() gives it up.
 *
 *     td_trace *t = td_trace_begin(c, td_arrays(x));
 *     td_array *y = td_relu(td_matmul(x, w));
 *     td_program *p = td_trace_end(t, td_arrays(y));                     // examples/trace.c is a whole one
 */
typedef struct td_trace td_trace;
TD_API td_trace *td_trace_begin(td_client *client, td_list inputs);
TD_API td_program *td_trace_end(td_trace *trace, td_list outputs);
TD_API void td_trace_free(td_trace *trace); /* NULL is fine */
/* A choice that the program will not follow, number k from 0 on, before the end: "item, train.c:31: ..."; NULL: there
 * are no more. Where a call says no place (td_item), that of the op before it is named. */
TD_API const char *td_trace_warning(const td_trace *trace, int k);
/* Its text, to be freed: what td_program_read() takes, a source in the subset of Python, a picture for graphviz, one as
 * SVG. Pictures show the first 4096 nodes. */
typedef enum td_text_kind {
    TD_TEXT_IR = 0,
    TD_TEXT_CODE = 1,
    TD_TEXT_DOT = 2,
    TD_TEXT_SVG = 3,
    TD_TEXT_PLANS = 4 /* which rows of small ops the daemon runs as one call by now: of a program that ran before */
} td_text_kind;
TD_API char *td_program_print(const td_program *p, td_text_kind what);
/* Under a name, for any process: what it captures is shared, as td_publish() has it (a copy in service memory, outside
 * of every graph; what lies there already is captured itself, so gradients of its leaves add up there), `p` stays apart
 * from it, and it lives until the name is dropped and nobody has it open. TD_REPLACE, TD_COPY as there. Names of
 * programs and of tensors are one table: td_drop() drops either, and whoever opens the wrong kind is told so
 * (TD_E_TYPE). */
TD_API int td_program_publish(td_program *p, const char *name, unsigned flags);
/* Opens one: a handle as td_program_read() gives it, to the one module and the one set of captured tensors that all who
 * open the name call. It keeps its program when the name gets another one. Waits as td_open() does. */
TD_API td_program *td_program_open(td_client *client, const char *name, int timeout_ms);
/* In a file whose name ends with .td: one of PyTorch (torch.load() and td_load() read the tensors that the program
 * captures, under their names) with the program beside them. One that ends with .pt is an archive of TorchScript, which
 * torch.jit.load() opens, where ATen has a name for each op; otherwise it is as a .td, and its record
 * programs/no_code.txt says which op has none. It appears whole or not at all. TD_SAVE_WHOLE as in td_save(). */
TD_API int td_program_save(td_program *p, const char *path, unsigned flags);
/* The program of such a file, with tensors of its own. name: one of several that Python put there (NULL: "forward"). Or
 * one that torch.jit.save() wrote: a method of its module. Each method takes the attributes that methods there assign
 * behind its arguments, in the order that td_program_print() shows, and gives them back: (its result, (states)).
 * TD_LOAD_TO_CPU as in td_load(). NULL: TD_E_INVALID, the file is damaged; TD_E_UNSUPPORTED, it holds no program, or
 * one with ops that are not known here. Nothing in it is run before it is called. */
TD_API td_program *td_program_load(td_client *client, const char *path, const char *name, unsigned flags);
TD_API void td_program_free(td_program *p); /* NULL is fine */
/* A program of its own, for inference: what `p` captures becomes constants, which are copies, so that what is done to
 * `p`'s tensors later is not seen. Values that follow from constants alone are computed once, here, and norms with
 * running statistics behind convolutions and linear layers go into their weights, which changes last bits
 * (TD_FREEZE_EXACTLY: not that). The tensors that the program writes, and the nkept captured tensors that are named,
 * stay those of `p`. No gradients come to the constants. */
enum { TD_FREEZE_EXACTLY = 1 };
TD_API td_program *td_program_freeze(td_program *p, int nkept, const char *const *kept, unsigned flags);

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* A program under a name that answers requests: from all processes, several together where that pays, in order of
 * priority, each with a deadline. Its weights are in memory once, its own, which comes back when it goes.
 *
 *     td_model *m = td_model_load(client, "detector.onnx", 0);      // this client's own; td_infer() runs its program
 *     td_model_publish(m, "detector", NULL);                         // for all: copied, made warm by runs, switched to
 *
 *     td_model *d = td_model_open(client, "detector", 0, 5000);                      // any process
 *     td_array *scores;
 *     if (td_infer(d, td_arrays(picture), 1, &scores, 1000) == TD_OK) use(td_data(scores));
 */
typedef struct td_model td_model;
/* A program whose arguments and results are tensors, and its card: a text of JSON, of at most 64 KiB, that names inputs
 * and outputs with their dtypes and shapes, {"inputs": [{"name": "x", "dtype": "float32", "shape": [null, 16]}],
 * "outputs": [...]}. A size is a number; a text, which means one size wherever it stands; or null, any. The program is
 * the model's from here on, also when this fails. */
TD_API td_model *td_model_of(td_program *program, const char *card);
/* The same of an ONNX file: read, made a program, frozen. Errors name the file, the node, its op and version. */
enum { TD_MODEL_EXACTLY = 1 }; /* nothing that changes last bits */
TD_API td_model *td_model_load(td_client *client, const char *path, unsigned flags);

enum {
    TD_MODEL_WHILE_OPEN = 1, /* it goes when nobody has it open; else it stays until it is retired */
    TD_MODEL_KEEP_OLD = 2,   /* versions before it stay, for td_model_serve(); else they end with their last request */
    TD_MODEL_NEW = 4         /* TD_E_EXISTS when the name is taken; else a model there gets a new version */
};
typedef struct td_model_options {
    size_t size; /* sizeof(td_model_options) */
    unsigned flags;
    int version;   /* 0: the next one; one that is there is replaced */
    int max_batch; /* rows that one run may have: 0: as many as paid when it was made warm, if the program shows that
                      rows do not meet; more: so many, the caller knows that they do not; 1: requests stay alone */
    int delay_us;  /* so long a request may wait for others to join it; 0: not at all */
    int queue;     /* requests that may wait, beyond which TD_E_BUSY is the answer; 0: 1024 */
    int instances; /* runs that are under way at once; 0: 1 */
} td_model_options;
/* Under a name, for all processes, and beyond the end of this one: copied into memory of its own, run at each size of a
 * batch until it is warm, then switched to. Requests meanwhile are the old version's, which goes on when this fails.
 * Afterwards the handle is one of the name, as td_model_open() gives it. NULL: all zeros. */
TD_API int td_model_publish(td_model *model, const char *name, const td_model_options *options);
/* version 0: the one that the name means, now and after each switch. Waits as td_open() does. */
TD_API td_model *td_model_open(td_client *client, const char *name, int version, int timeout_ms);
/* Its card, with name, version and what was found about batches; of a name, as it was when that was opened. */
TD_API const char *td_model_card(const td_model *model);
TD_API int td_model_version(const td_model *model); /* 0 of one that is not published */
TD_API int td_model_inputs(const td_model *model);  /* how many; and outputs */
TD_API int td_model_outputs(const td_model *model);
/* Inputs in the card's order; `nout` outputs, as many as the card has. Waits for the answer, which says where the
 * values are: td_data() of them asks nobody. An input that does not fit the card is an error that names it, at once.
 * TD_E_TIMEOUT: it was not answered in time; one that was still waiting for its turn costs nothing. TD_E_BUSY: too many
 * wait. */
TD_API int td_infer(td_model *model, td_list in, int nout, td_array **out, int timeout_ms);
/* Which version the name means: one that was kept. */
TD_API int td_model_serve(td_client *client, const char *name, int version);
/* It answers what it was asked, and goes, with all its memory; what it has not answered when it has answered nobody for a
 * minute fails. version 0: all versions, and the name. */
TD_API int td_model_retire(td_client *client, const char *name, int version);
TD_API void td_model_free(td_model *model); /* the handle; NULL is fine */

/* ---- looking ----------------------------------------------------------------------------------------------------- */

typedef struct td_info {
    bool requires_grad, leaf, has_grad, service;
    uint32_t version;
    uint64_t storage; /* the same for all views of one storage */
    uint64_t nbytes;  /* of the storage */
    char grad_fn[32]; /* the op that made it; empty for a leaf */
} td_info;
TD_API int td_get_info(td_array *a, td_info *out);
TD_API int td_is_inference(td_array *a, bool *out); /* made in inference mode? */

typedef enum td_cell_kind { TD_CELL_NONE, TD_CELL_TEXT, TD_CELL_INT, TD_CELL_REAL, TD_CELL_BOOL } td_cell_kind;
typedef struct td_cell {
    td_cell_kind kind;
    union {
        char *text;
        int64_t integer;
        double real;
        bool yes;
    };
} td_cell;
typedef struct td_table {
    int columns, rows;
    char **names;   /* of the columns */
    td_cell *cells; /* row after row */
} td_table;
/* `what` is one of: status sessions tensors names models queues groups segments devices turns; memory: this session's
 * own bytes now and at their most, memory_anew: and the most is counted from here. The rows of tensors have each byte
 * once: bytes_used, with bytes_idle, and bytes_own add up to status's bytes_used, bytes_committed and bytes_own, but
 * for the answer itself. */
TD_API td_table *td_status(td_client *client, const char *what);
TD_API void td_table_free(td_table *table);

/* ---- programs with an event loop ----------------------------------------------------------------------------------
 */

/* For a program that waits in poll(), epoll, libuv or asyncio, and must not wait in a call. It asks (td_async_*), polls
 * one descriptor, calls td_client_dispatch() when that is readable, and is told by callbacks:
 *
 *     static void came(td_request *r, void *context)
 *     {
 *         td_queue_item item;
 *         if (td_request_item(r, &item) == TD_OK) serve(context, &item);   // else td_last_error() says why
 *         td_request_free(r);
 *     }
 *     td_async_get(queue, 5000, came, context);
 *     struct pollfd p = {td_client_fd(client), POLLIN, 0};
 *     while (poll(&p, 1, -1) > 0) td_client_dispatch(client);        // examples/poll_server.c is a whole one
 *
 * To make a request, to dispatch, to cancel and to free never wait for the daemon; ops are batched as ever, and go with
 * the next request. All other calls that wait (td_item, td_read, td_sync, td_queue_open and _close, td_open,
 * td_connect) wait as ever: a request before them (td_async_ready) makes td_item() and td_data() short.
 *
 * Each request is told once: by its callback, on the thread that calls td_client_dispatch() (or td_disconnect(), which
 * tells those that are still out that the connection is gone), and never from within another call. A callback may call
 * whatever it likes, td_client_dispatch() and td_disconnect() included. Without a callback (NULL) td_request_done() is
 * to be asked after each dispatch.
 *
 * timeout_ms as elsewhere (< 0: no limit); when it is over a request fails with TD_E_TIMEOUT.
 *
 * Threads. Requests may be made, looked at, cancelled and freed by any thread. Several threads may poll the descriptor
 * and dispatch, and any of them may get any callback. A thread that waits in a call reads for the loop meanwhile, and
 * the descriptor is readable when it has read an answer. When another thread frees a request, its callback may be
 * running at that moment: then the request goes with the callback's end.
 *
 * fork(): the child's descriptor has the same number and is its own. Requests that were out are the parent's: in the
 * child they fail with TD_E_CANCELLED. */
typedef struct td_request td_request;
typedef void (*td_done)(td_request *request, void *context);

/* Readable when td_client_dispatch() has something to do: level-triggered, the client's, the same at each call. -1 when
 * it cannot be made. */
TD_API int td_client_fd(td_client *client);
/* Work off what is there, and call the callbacks of what is over. TD_E_LOST, each time, when the connection is gone. */
TD_API int td_client_dispatch(td_client *client);

/* The value is computed, and all that was asked before has been written: td_request_data() is its first element, as
 * td_data() gives it (NULL on a device whose memory nobody maps), and the error is what became of it. */
TD_API td_request *td_async_ready(td_array *a, int timeout_ms, td_done done, void *context);
/* Copy the value, row-major, into `buffer` of td_nbytes(a) bytes, which must be there until the request is over; or,
 * with NULL, into memory of the request's (td_request_data(), until it is freed). */
TD_API td_request *td_async_read(td_array *a, void *buffer, size_t bytes, int timeout_ms, td_done done, void *context);
/* As td_sync(). */
TD_API td_request *td_async_sync(td_client *client, int timeout_ms, td_done done, void *context);
/* The next item, for td_request_item(). As td_queue_get(). */
TD_API td_request *td_async_get(td_queue *q, int timeout_ms, td_done done, void *context);
/* As td_queue_put(), but over when the item is in. The note is copied, the arrays may be released at once. An item that
 * is still out when the client is disconnected is not put. */
TD_API td_request *td_async_put(td_queue *q, td_list arrays, const void *note, size_t note_size, int timeout_ms,
                                td_done done, void *context);
/* The tensor or tree that has this name and is newer than a version (0: any), for td_request_array(), or
 * td_request_item() when it is a tree. As td_open() and td_open_tree(), but that nobody looks for the name in other
 * daemons. */
TD_API td_request *td_async_open(td_client *client, const char *name, uint64_t newer_than, int timeout_ms, td_done done,
                                 void *context);
/* As td_program_call(), whatever the program returns, for td_request_value(): over when it has come to its end and all
 * that it wrote is written; tensors among its results may still be computed. A program that is not at its end when the
 * time is over, or the request is cancelled or freed, is stopped; what it had written by then stays written. Its prints
 * come before the callback, on the thread that dispatches. A trace cannot hold such a call. */
TD_API td_request *td_async_at_call(const char *where, td_program *p, int n, const td_value *args, int timeout_ms,
                                    td_done done, void *context);
#define td_async_call(p, n, args, timeout_ms, done, context)                                                           \
    td_async_at_call(TD_HERE, p, n, args, timeout_ms, done, context)
/* As td_infer(), for td_request_arrays(). */
typedef struct td_infer_options {
    size_t size;         /* sizeof(td_infer_options) */
    uint64_t timeout_us; /* 0: no limit */
    int priority;        /* of requests that wait, those with a higher one come first; 0 as a rule, from -31 to 31 */
} td_infer_options;
TD_API td_request *td_async_infer(td_model *model, td_list in, const td_infer_options *how, td_done done,
                                  void *context);
/* For td_request_table(). */
TD_API td_request *td_async_status(td_client *client, const char *what, int timeout_ms, td_done done, void *context);

TD_API bool td_request_done(const td_request *r);
/* How it ended: TD_OK, or the code, with this thread's last error. TD_E_BUSY: it has not. The others fail so, too. */
TD_API int td_request_result(td_request *r);
TD_API td_array *td_request_array(td_request *r);              /* yours, once; in this thread's scope */
TD_API int td_request_item(td_request *r, td_queue_item *out); /* the same; td_queue_item_clear() it */
TD_API td_table *td_request_table(td_request *r);              /* the same */
TD_API int td_request_value(td_request *r, td_value *out);     /* the same; td_value_free() it */
TD_API int td_request_arrays(td_request *r, int n,
                             td_array **out); /* yours, once: the n outputs of a td_async_infer() */
TD_API const void *td_request_data(td_request *r);
TD_API uint64_t td_request_version(td_request *r); /* of what was opened */

/* Give up: it is told that it failed with TD_E_CANCELLED, unless it is over. The next wait in the queue gets the item
 * that this one would have got; an item that was on its way lies where it lay in its queue again. A put that waits is
 * withdrawn, or was too late: how it ended says which. A program is stopped. Other work of the daemon goes on. */
TD_API void td_request_cancel(td_request *r);
/* The same without a word, and the handle ends; what came and was not taken goes back, too. NULL is fine. */
TD_API void td_request_free(td_request *r);

#ifdef __cplusplus
}
#endif

/* ---- how arguments become td_arg and lists ----------------------------------------------------------------------- */

#define TD_PICK_1_(a, name, ...) name
#define TD_PICK_2_(a, b, name, ...) name
#define TD_PICK_3_(a, b, c, name, ...) name
#define TD_PICK_4_(a, b, c, d, name, ...) name
#define TD_PICK_5_(a, b, c, d, e, name, ...) name
#define TD_PICK_6_(a, b, c, d, e, f, name, ...) name
#define TD_PICK_7_(a, b, c, d, e, f, g, name, ...) name
#define TD_PICK_8_(a, b, c, d, e, f, g, h, name, ...) name
#define TD_PICK_9_(a, b, c, d, e, f, g, h, i, name, ...) name
#define TD_PICK_10_(a, b, c, d, e, f, g, h, i, j, name, ...) name
#define TD_PICK_11_(a, b, c, d, e, f, g, h, i, j, k, name, ...) name
#define TD_PICK_12_(a, b, c, d, e, f, g, h, i, j, k, l, name, ...) name
#define TD_PICK_13_(a, b, c, d, e, f, g, h, i, j, k, l, m, name, ...) name
#define TD_PICK_14_(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, name, ...) name
#define TD_PICK_15_(a, b, c, d, e, f, g, h, i, j, k, l, m, n_, o, name, ...) name
#define TD_PICK_16_(a, b, c, d, e, f, g, h, i, j, k, l, m, n_, o, p, name, ...) name

#ifdef __cplusplus
inline td_arg td_arg_of(td_array *v)
{
    return td_arg_array(v);
}
inline td_arg td_arg_of(decltype(nullptr))
{
    return td_arg_array(nullptr);
}
inline td_arg td_arg_of(bool v)
{
    return td_arg_bool(v);
}
inline td_arg td_arg_of(int v)
{
    return td_arg_int(v);
}
inline td_arg td_arg_of(unsigned v)
{
    return td_arg_int(v);
}
inline td_arg td_arg_of(long v)
{
    return td_arg_int(v);
}
inline td_arg td_arg_of(unsigned long v)
{
    return td_arg_int((int64_t)v);
}
inline td_arg td_arg_of(long long v)
{
    return td_arg_int(v);
}
inline td_arg td_arg_of(unsigned long long v)
{
    return td_arg_int((int64_t)v);
}
inline td_arg td_arg_of(float v)
{
    return td_arg_float(v);
}
inline td_arg td_arg_of(double v)
{
    return td_arg_float(v);
}
inline td_arg td_arg_of(long double v)
{
    return td_arg_float((double)v);
}
inline td_arg td_arg_of(td_scalar v)
{
    return td_arg_scalar(v);
}
inline td_arg td_arg_of(td_arg v)
{
    return v;
}
inline td_ints td_ints_of(std::initializer_list<int64_t> l)
{
    return td_dims_of((int)l.size(), l.begin());
}
inline td_list td_list_of(std::initializer_list<td_array *> l)
{
    return td_arrays_of((int)l.size(), l.begin());
}
#define TD_ARG(x) td_arg_of(x)
#define td_dims(...) td_ints_of({__VA_ARGS__})
#define td_arrays(...) td_list_of({__VA_ARGS__})
#else
/* clang-format off */
/* Each use has a variable of its own: they nest, and are not to shadow each other. */
#define TD_ARG(x) TD_ARG_COUNTED_(x, __COUNTER__)
#define TD_ARG_COUNTED_(x, n) TD_ARG_NUMBERED_(x, n)
#define TD_ARG_NUMBERED_(x, n) TD_ARG_NAMED_(x, td_x_##n)
#define TD_ARG_NAMED_(x, v)                  \
    __extension__({                          \
        __auto_type v = (x);                 \
        _Generic(v,                          \
                 td_array *: td_arg_array,   \
                 void *: td_arg_void,        \
                 bool: td_arg_bool,          \
                 float: td_arg_float,        \
                 double: td_arg_float,       \
                 long double: td_arg_float,  \
                 td_scalar: td_arg_scalar,   \
                 td_arg: td_arg_same,        \
                 default: td_arg_int)(v);    \
    })
/* clang-format on */
#define td_dims(...)                                                                                                   \
    ((td_ints){(int)(sizeof((int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)) - 1, (int64_t[]){0, __VA_ARGS__} + 1})
#define td_arrays(...)                                                                                                 \
    ((td_list){(int)(sizeof((td_array *[]){NULL, __VA_ARGS__}) / sizeof(td_array *)) - 1,                              \
               (td_array *[]){NULL, __VA_ARGS__} + 1})
#endif

#include "client/tensord_ops.h"

/* ---- beside the table: forms of its ops ----------------------------------------------------------------------------
 */

#ifdef __cplusplus
extern "C" {
#endif

/* Another handle on the same tensor. */
TD_API td_array *td_alias(td_array *a);

/* Creation. The _like ones take shape and dtype of x. */
TD_API td_array *td_at_zeros(const char *where, td_client *client, td_ints shape, td_dtype dtype);
TD_API td_array *td_at_ones(const char *where, td_client *client, td_ints shape, td_dtype dtype);
TD_API td_array *td_at_full_like(const char *where, td_array *x, td_arg value);
TD_API td_array *td_at_empty_like(const char *where, td_array *x);
TD_API td_array *td_at_rand_like(const char *where, td_array *x);
TD_API td_array *td_at_randn_like(const char *where, td_array *x);
#define td_zeros(client, shape, dtype) td_at_zeros(TD_HERE, client, shape, dtype)
#define td_ones(client, shape, dtype) td_at_ones(TD_HERE, client, shape, dtype)
#define td_full_like(x, value) td_at_full_like(TD_HERE, x, TD_ARG(value))
#define td_zeros_like(x) td_at_full_like(TD_HERE, x, td_arg_int(0))
#define td_ones_like(x) td_at_full_like(TD_HERE, x, td_arg_int(1))
#define td_empty_like(x) td_at_empty_like(TD_HERE, x)
#define td_rand_like(x) td_at_rand_like(TD_HERE, x)
#define td_randn_like(x) td_at_randn_like(TD_HERE, x)

/* Copies, which lie as x does when its channels lie last; contiguous: row by row. It and to give another handle on x
 * when there is nothing to do. The ones with _ write into x: a
 * number (converted to its dtype), or `from`, broadcast and converted. */
TD_API td_array *td_at_clone(const char *where, td_array *x);
TD_API td_array *td_at_contiguous(const char *where, td_array *x);
TD_API td_array *td_at_to(const char *where, td_array *x, td_dtype dtype);
TD_API int td_at_fill_(const char *where, td_array *x, td_arg value);
TD_API int td_at_zero_(const char *where, td_array *x);
TD_API int td_at_copy_(const char *where, td_array *x, td_array *from); /* from any device */
#define td_clone(x) td_at_clone(TD_HERE, x)
#define td_contiguous(x) td_at_contiguous(TD_HERE, x)
#define td_to(x, dtype) td_at_to(TD_HERE, x, dtype)
#define td_fill_(x, value) td_at_fill_(TD_HERE, x, TD_ARG(value))
#define td_zero_(x) td_at_zero_(TD_HERE, x)
#define td_copy_(x, from) td_at_copy_(TD_HERE, x, from)

/* Shapes. reshape is a view where strides allow it, else a copy; in shapes one size may be -1. */
TD_API td_array *td_at_reshape(const char *where, td_array *x, td_ints shape);
TD_API td_array *td_at_unflatten(const char *where, td_array *x, int64_t dim, td_ints sizes);
#define td_reshape(x, shape) td_at_reshape(TD_HERE, x, shape)
#define td_unflatten(x, dim, sizes) td_at_unflatten(TD_HERE, x, dim, sizes)

/* Indexing as NumPy does it: integer arrays, bool masks, and NULL for a whole dimension. td_getitem(x, td_arrays(NULL,
 * rows)). A mask makes the next call that uses the result wait for its shape. */
TD_API td_array *td_at_getitem(const char *where, td_array *x, td_list indices);
TD_API int td_at_setitem(const char *where, td_array *x, td_list indices, td_array *value);
#define td_getitem(x, indices) td_at_getitem(TD_HERE, x, indices)
#define td_setitem(x, indices, value) td_at_setitem(TD_HERE, x, indices, value)

/* How mse_loss, l1_loss, nll_loss and cross_entropy reduce the losses of single elements. */
enum { TD_REDUCE_NONE = 0, TD_REDUCE_MEAN = 1, TD_REDUCE_SUM = 2 };

#ifdef __cplusplus
}
#endif

#endif
