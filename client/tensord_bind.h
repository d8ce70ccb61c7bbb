/* tensord_bind.h: what a binding for another language needs beside tensord.h. The Python module stands on these two,
 * and on the tables of proto/.
 *
 * A binding runs ops by their rows of the table (td_run), with the place in its program that asked; puts down what it
 * holds while it waits by itself (td_step_aside), as the library does in its waits; shows memory to readers that know
 * nothing of the daemon (td_look, td_private_map); and has a trace follow the numbers of its language. It also
 * hands over programs as text (tensord_script.h), and has what files hold beside tensors. Nothing here needs a lock of
 * the caller's, and what fails leaves this thread's td_last_error(), or fills in the td_error that it is given.
 *
 * It is not installed. A binding is built in this tree, with the library inside: libtensord.so exports nothing of this
 * header, and rows of the op table and modules of the IR, which it shows, change from release to release. */
#ifndef TENSORD_CLIENT_TENSORD_BIND_H
#define TENSORD_CLIENT_TENSORD_BIND_H

#include "client/tensord.h"
#include "client/tensord_script.h"
#include "proto/ops/op.h"
#include "proto/program/ir.h"
#include "proto/wire/record.h"

/* ---- errors and words -------------------------------------------------------------------------------------------- */

/* Fail with this thread's error: td_raise(TD_E_TYPE, "td_read", "..."). Returns the code. */
int td_raise(int code, const char *op, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A line for whoever runs the program goes this way; to stderr, unless a binding has its own. */
extern void (*td_say)(const char *line);

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* The digest that the card of this file's model would have, without a daemon. An error's code; raised. */
enum { TD_MODEL_DIGEST = 72 }; /* "sha256:" and 64 figures */
int td_model_digest(const char *path, char out[TD_MODEL_DIGEST]);

/* ---- waits ------------------------------------------------------------------------------------------------------- */

void td_step_aside(void); /* this thread will wait, or work for long: others may run */
void td_step_back(void);  /* it goes on; holds no lock of a client */

/* ---- GPUs -------------------------------------------------------------------------------------------------------- */

/* After td_cuda_data(): the number of its GPU as the driver counts in this process. */
int td_cuda_number(const td_array *a);
/* Directories of NVIDIA's libraries, with colons between, for a private daemon that this process starts and whose
 * environment names none (TENSORD_CUDA_LIBRARIES). */
void td_set_cuda_libraries(const char *directories);

/* ---- connections ------------------------------------------------------------------------------------------------- */

/* td_connect that may be stopped, as td_set_interrupt says from then on. A binding has stepped aside before. */
td_client *td_connect_until(const char *path, bool (*stop)(void *), void *context);
/* td_connect(NULL) for a program that begins with td_open(name): rather than to start a daemon, in which nothing is, to
 * the one private daemon of another program that has the name, now or within that time (*another). Does not want the
 * lock put down. */
td_client *td_connect_for(const char *name, int timeout_ms, bool *another, bool (*stop)(void *), void *context);
/* Has its daemon what td_set_limits() said? TD_E_EXISTS: it runs already, with another memory. */
int td_check_limits(td_client *c);

enum { TD_SOCKET_TEXT = 108 }; /* bytes of a socket's path, with its end */
/* Why the connection is of no use any more; NULL: it stands. */
const td_error *td_why_lost(const td_client *c);
bool td_is_private(const td_client *c); /* the daemon is a private one, of this program or of one above it */
/* Is this the socket of a private daemon? */
bool td_is_private_path(const char *path);
/* Wait until everything asked so far has ended; errors stay untold. */
int td_settle(td_client *c);
/* Has everything that was asked ended, as far as is known without asking? */
bool td_is_quiet(const td_client *c);
/* Numbers of hooks and nodes that were given so far. A connection that takes another one's place goes on from there. */
void td_hook_numbers(const td_client *c, uint32_t *hooks, uint32_t *nodes);
void td_set_hook_numbers(td_client *c, uint32_t hooks, uint32_t nodes);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* In place of an array that could not be had: it has a shape, and whatever else it is used for fails with this code and
 * these words. It is of a client of its own, which was never connected. */
td_array *td_array_lost(const td_desc *desc, int code, const char *why);
unsigned td_now_on(unsigned device); /* make things there from now on; returns where they were made before */
/* td_lease_new, but never behind a wait of another thread for what others will do (an item, a name). */
td_lease *td_lease_at_once(td_client *c, uint64_t bytes);
/* A copy of another dtype, or (TD_DTYPE_NONE) of the same: channels last where x lies so. Not under the lock. */
td_array *td_copy_as_it_lies(const char *where, td_array *x, td_dtype dtype);
/* `made` has the shape of `like` and lies row by row: it, or a copy (`made` is released) that lies channels last as
 * `like` does. Not under the lock. */
td_array *td_laid_like(const char *where, td_array *like, td_array *made);
/* Wait until everything asked of it so far is done; on any device, and at once where errors are eager: then it is
 * there. */
int td_made(td_array *a);
/* td_data() of an array, after td_settle() if `settle`, in one round trip. Not under the lock. With `info` that, too;
 * asked in the same trip where there is one. */
const void *td_data_as(td_array *a, bool settle, td_info *info);

/* The program looks at the bytes of a storage, whose address is known. */
typedef struct td_look_at {
    td_client *client; /* NULL: at nothing */
    uint64_t place[2], storage;
    bool grad;
} td_look_at;
int td_look(td_array *a, td_look_at *out);
void td_look_away(td_look_at *x); /* the array still lives */

/* Pages that show a tensor, and keep to themselves what is written there. The tensor's handle must outlive them. */
typedef struct td_private {
    void *base;
    uint64_t size;
    unsigned char *at; /* the first element */
} td_private;
int td_private_map(td_array *a, td_private *out);
void td_private_unmap(td_private *p);

/* Facts about a handle that are known without asking. */
bool td_knows_shape(const td_array *a);          /* td_desc_known() is the tensor's */
const td_desc *td_desc_known(const td_array *a); /* it lives as long as the handle */
bool td_is_view(const td_array *a);              /* it was made by an op that gives a view */
void td_set_view(td_array *a, bool on);
bool td_is_writing(const td_array *a);    /* between td_write_begin() and td_write_end() */
bool td_is_mapped(const td_array *a);     /* its bytes' place is known here, ... */
bool td_maps_writable(const td_array *a); /* ... and this process may write there */
/* A number that all handles of a storage have that were made here; 0: none. */
uint64_t td_storage_here(const td_array *a);
/* It came from a queue outside of every graph, and nothing was asked or heard since. */
bool td_came_outside(const td_array *a);

/* ---- ops by their rows ------------------------------------------------------------------------------------------- */

enum { TD_MAX_LIST = TD_MAX_INPUTS - TD_MAX_PARAMS }; /* tensors of a list in one record */

/* Run an op. `c` may be NULL when an input is an array. `in` are the tensor arguments in the order of the signature,
 * lists flattened, NULL arrays for absent optional ones; `attrs` the other arguments, complete. Up to `max_out` handles
 * are made into out[], one reference each, and *nout says how many. With `flags` TD_RF_OUT, out[] are given arrays that
 * are written instead. `where` is a text that lives as long as the client, told apart by its address, or NULL. */
int td_run(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
           const td_attrs *attrs, int max_out, td_array **out, int *nout);
/* Run an op whose only tensors are a list that must not have gaps (cat, stack), of any length: tensor/join.c. One
 * result, made into *out or (TD_RF_OUT) written into it. */
int td_run_list(const char *where, const td_op *op, unsigned flags, td_list l, const td_attrs *attrs, td_array **out);
/* The number that an argument is; and back. */
td_scalar td_scalar_of(td_arg a);
td_arg td_arg_of(td_scalar s);
/* Append the next attribute of `op` as it was given. False when it has the wrong kind or there is no room (this
 * thread's error says so). */
bool td_give_number(td_attrs *a, const td_op *op, td_arg v);
bool td_give_int(td_attrs *a, const td_op *op, int64_t v);
bool td_give_float(td_attrs *a, const td_op *op, double v);
bool td_give_bool(td_attrs *a, const td_op *op, bool v);
bool td_give_dtype(td_attrs *a, const td_op *op, td_dtype v);
bool td_give_text(td_attrs *a, const td_op *op, const char *v); /* NULL: none */
bool td_give_ints(td_attrs *a, const td_op *op, td_ints v);

/* ---- names and queues -------------------------------------------------------------------------------------------- */

/* As td_open(), and which edition it is; `tree`: it is bytes that td_tree_open() takes apart. */
td_array *td_open_edition(td_client *c, const char *name, uint64_t newer_than, int timeout_ms, uint64_t *version,
                          bool *tree);
/* A handle of the tensor for another process, which takes it by td_take(): see Hand in proto/wire/wire.proto. It is
 * there when this returns. `name`: NULL, or one that it was published under; *version: which one that has, 0: that name
 * is another's by now. */
int td_hand(td_array *a, char handle[TD_HANDLE_TEXT], int lasts_ms, bool lasting, const char *name, uint64_t *version);
/* `out` is to be cleared, also after an error. */
int td_tree_open(td_array *bytes, td_queue_item *out);
/* The end of a queue's handle that must not wait (and that no thread uses). */
void td_queue_forget(td_queue *q);
/* A wait of its own goes on for a second: say so, once, when nobody is there who could end it. Waits for the daemon. */
void td_queue_tell(td_queue *q, bool put);
/* Has its daemon gone, and been told whoever had an item on its way there? Then a queue of this name is another one. */
bool td_queue_over(td_queue *q);

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* The arguments of td_group_open_between(). */
typedef struct td_group_wish {
    const char *name;
    uint32_t least, most;
    int rank;
    td_on_death on_death;
    int timeout_ms;
    bool is_private; /* the path is that of this program's private daemon: a timeout says how others are to meet */
} td_group_wish;
/* In the daemon that listens at `path`; calls may be stopped as td_set_interrupt() says. */
td_group *td_group_open_at(const char *path, bool (*stop)(void *), void *context, const td_group_wish *wish);

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* The effects that a call of it may have, beside its result. */
typedef struct td_program_effects {
    int captured; /* tensors that have handles here */
    bool reaches; /* also what gradients lead to: graphs that it may free, .grad */
    bool enters;  /* it may put a tensor that it was given into a graph, by writing it */
} td_program_effects;
td_program_effects td_program_look(const td_program *p);
const td_ir *td_program_ir(const td_program *p);          /* the program's */
bool td_program_is_there(const td_program *p);            /* the connection that has it stands */
td_array *td_program_capture(const td_program *p, int k); /* the program's; k < captured */
/* Have handles for all that it captures. */
int td_program_want_captured(td_program *p);
/* The text of a module, to be freed; NULL with `e`. */
char *td_program_show(const td_ir *ir, td_text_kind what, td_error *e);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Bytes of a text in the note of a tree; one that is there again refers to where it stands first. */
enum { TD_LONG_TEXT = 256 };
enum { TD_LOAD_PROGRAMS = 1 << 16 /* for td_load_fd(): the tensors of what torch.jit.save() wrote are read, too */ };
enum { TD_FILED_MOST = 256 /* programs of one file */, TD_FILED_NAME = 64 /* letters of a name */ };

/* A program in a file. */
typedef struct td_filed {
    char name[TD_FILED_NAME];
    td_ir *ir;    /* NULL: it is not read, and `why` says so */
    char *call;   /* NULL: there is none */
    td_error why; /* of code, that is more than is known here */
} td_filed;

typedef struct td_filed_all {
    td_filed *at;
    uint32_t n;
} td_filed_all;

/* The programs of an archive, by name; of one that torch.jit.save() wrote the methods of its module, from their code.
 * TD_E_UNSUPPORTED: it is none, or holds tensors only. */
int td_filed_read(int fd, td_filed_all *out, td_error *e);
void td_filed_free(td_filed_all *all);

/* A program as it is saved. */
typedef struct td_scripted_program {
    const char *name;
    const td_ir *ir;
    const char *call; /* how Python calls it, as JSON (programs.h), or NULL */
} td_scripted_program;

/* A record of its own beside the tree in an archive. */
typedef struct td_out_record {
    const char *name;
    const void *bytes;
    size_t n;
} td_out_record;

/* The content of a file: a tree of tensors, and in an archive programs and records beside it. */
typedef struct td_save_content {
    td_queue_item tree;
    const td_scripted_program *programs; /* the name of their file ends with .td, or with .pt */
    uint32_t nprograms, nextras;
    const td_out_record *extras; /* beside the programs; without such, texts in the header of safetensors */
    unsigned flags;              /* TD_SAVE_WHOLE */
    td_error *uncoded; /* set: why a .pt of programs is none that torch.jit.load() opens; the file says it too */
} td_save_content;

/* To a descriptor, in the format that the name of its file says, as td_save_fd(). */
int td_save_all_fd(int fd, const char *name, const td_save_content *what);

/* ---- traces ------------------------------------------------------------------------------------------------------ */

bool td_is_tracing(void); /* this thread records what it asks for */

/* Numbers that the program follows have a name each, 0 for none. td_arg of an int or a float has it in `im`, as a
 * double that no rounding touches, and td_value likewise; the integers of a list have theirs by where they stand. */

/* The size of a dimension, or with -1 the count of elements. 0: it is a constant, as are the sizes of what is captured.
 */
uint64_t td_trace_size(td_array *a, int dim);
/* The element of a tensor that has one, as an int or a float: of its dtype's kind. Without a warning. */
int td_trace_item(td_array *a, td_arg *out);
/* Is the tensor one of the trace's, which is on? */
bool td_trace_knows(const td_array *a);
/* The prim:: op `prim` of numbers, some of which are followed, makes `made`. */
uint64_t td_trace_worked(unsigned prim, int n, const td_arg *in, td_scalar made);
bool td_trace_follows(uint64_t name);
/* A followed number is used as a plain one: "int() of a size". */
void td_trace_use(uint64_t name, const char *how);
/* From now on these integers stand there, until they are gone. */
void td_trace_stand(int n, const int64_t *at, const uint64_t *names);
void td_trace_gone(const int64_t *at);
/* The sizes of `a`, as what follows asks for something of that shape; gone after that. */
td_ints td_trace_shape(td_array *a);
/* Its value is looked at: "item". A program does not see what is then done by it. */
void td_trace_look(const td_array *a, const char *how);
/* How the line of the program that runs is found, for what says no place of its own (td_item). */
void td_trace_places(td_trace *t, const char *(*where)(void));
/* On: what this thread asks for is no part of the trace, until off. Was it on? Without a trace nothing is changed. */
bool td_trace_pause(bool on);
/* The name of a parameter, or of a tensor if it is captured. */
void td_trace_name_input(td_trace *t, int k, const char *name);
int td_trace_name_captured(td_trace *t, td_array *a, const char *name);
/* The end, as a module: `captured` gets the tensors that it captures, a reference each, in a piece of memory to be
 * freed. NULL with this thread's error. The trace is gone. */
td_ir *td_trace_take(td_trace *t, td_list outputs, td_array ***captured);

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* td_request_free(); false: another thread is about to call its callback, or within it. */
bool td_request_end(td_request *r);
/* The tensor that td_async_read() or td_async_ready() is about; it is the request's. NULL: it is about none. */
td_array *td_request_about(const td_request *r);
/* Bytes at td_request_data() of a td_async_read(). */
size_t td_request_bytes(const td_request *r);
/* Is what td_async_open() brought a tree, for td_request_item()? */
bool td_request_is_tree(const td_request *r);
/* td_lease_new() for a loop: one that was fetched ahead for who asks for this size again and again, or NULL, which is
 * no error; and one that is asked for, which is the caller's once. */
td_lease *td_lease_at_hand(td_client *c, size_t bytes);
td_request *td_async_lease(td_client *c, size_t bytes, td_done done, void *context);
td_lease *td_request_lease(td_request *r);

#endif
