/* Recording what a thread asks for into a program: what the way of every op tells the recorder (trace.c), and what
 * bindings want beside tensord.h.
 *
 * Where no trace is on, all this costs is one look at a thread's variable: who calls asks td_tracing first. */
#ifndef TENSORD_CLIENT_TRACE_H
#define TENSORD_CLIENT_TRACE_H

#include "client/tensor/array.h"
#include "proto/program/ir.h"

extern _Thread_local td_trace *td_tracing __attribute__((tls_model("initial-exec"))); /* this thread's, or NULL */

/* ---- told under the client's lock */

/* A program was called, and gave this. */
void td_trace_call(const td_program *p, const char *where, int n, const td_value *args, const td_value *result);

/* ---- numbers that the program follows (trace_numbers.c)
 *
 * Each has a name, 0 for none. td_arg of an int or a float has it in `im`, as a double that no rounding touches, and
 * td_value likewise; the integers of a list have theirs by where they stand. */

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
/* ---- told without it */

/* Its value is looked at: "item". A program does not see what is then done by it. */
void td_trace_look(const td_array *a, const char *how);
/* This cannot be part of a program: the trace will fail. `a`: only if it belongs to the trace; NULL: whatever it is. */
void td_trace_refuse(const td_array *a, const char *where, const char *what);

/* ---- for bindings */

/* How the line of the program that runs is found, for what says no place of its own (td_item). */
void td_trace_places(td_trace *t, const char *(*where)(void));
/* On: what this thread asks for is no part of the trace, until off. Was it on? Without a trace nothing is changed. */
bool td_trace_pause(bool on);
/* What a parameter, or a tensor if it is captured, is called. */
void td_trace_name_input(td_trace *t, int k, const char *name);
int td_trace_name_captured(td_trace *t, td_array *a, const char *name);
/* The end, as a module: `captured` gets the tensors that it captures, a reference each, in a piece of memory to be
 * freed. NULL with this thread's error. The trace is gone. */
td_ir *td_trace_take(td_trace *t, td_list outputs, td_array ***captured);

#endif
